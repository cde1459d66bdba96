"""The messages of one session: as the host gives them, as the log holds them, and which are in the window.

Writes to the log what is new in the host's thread; decides nothing about what may leave.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.context.replay import apply_all, decisions_of, opening
from vademecum.errors import InvalidText
from vademecum.store import ids
from vademecum.store.outgoing import clean_value
from vademecum.transcripts import events as kinds
from vademecum.transcripts import messages as shapes
from vademecum.transcripts import views
from vademecum.transcripts.events import Event, Pruned, Said, Torn, Trimmed
from vademecum.transcripts.messages import Message, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.context.prune import Decision
    from vademecum.context.units import Cut
    from vademecum.transcripts.log import Log

TAKEN_BACK = "taken back"  # the host's thread no longer has them: no drop, and no cycle ends with it
_ID = re.compile(rb'"id":"([^"\\]{1,100})"')


class Entry:
    """A message of the thread: as the host gave it, and as the log holds it."""

    __slots__ = ("given", "kept", "key")

    def __init__(self, given: Message, key: str, kept: Message) -> None:
        self.given = given
        self.key = key
        self.kept = kept

    def meet(self, given: Message) -> None:
        """The host gives the message again: after a restart, what the log could not keep of it is back."""
        if given.parts != self.given.parts:
            self.given = given


class Thread:
    """All messages of a session, those of them that are in the window, and what was decided about them."""

    def __init__(self, log: Log, events: Sequence[Event | Torn]) -> None:
        self._log = log
        self._names: set[str] = set()
        self.decided: dict[str, list[Decision | Cut]] = {}
        thread: dict[str, Entry] = {}
        for event in events:
            if isinstance(event, Said):
                key = event.id or f"#{event.seq}"
                thread[key] = Entry(event.message, key, event.message)
                self._names.add(event.message.id)
            elif isinstance(event, Trimmed) and event.why == TAKEN_BACK:
                for key in event.ids:
                    thread.pop(key, None)
            if isinstance(event, Pruned | Trimmed):
                self.remember(decisions_of(event))
        shown = {each.id or f"#{each.seq}" for each in views.window(events)}
        self._all = list(thread.values())
        self.live = [entry for entry in self._all if entry.key in shown]

    # ---------------------------------------------------------------- what it looks like

    def shown(self, entry: Entry, decided: Mapping[str, list[Decision | Cut]] | None = None) -> Message:
        """A message as it is sent: as the host gave it; one that was shortened, as the log has it."""
        found = self.decided if decided is None else decided
        if entry.kept.id in found:
            return apply_all(entry.kept, found[entry.kept.id])
        given = entry.given
        return given if given.id == entry.kept.id else given._replace(id=entry.kept.id)

    def logged(self, entry: Entry) -> Message:
        """A message as a replay of the log gives it, without secrets."""
        return apply_all(entry.kept, self.decided.get(entry.kept.id, ()))

    def window(self) -> list[Message]:
        """The messages in the window, as they are sent."""
        return [self.shown(entry) for entry in self.live]

    def remember(self, made: Iterable[tuple[str, Decision | Cut]]) -> None:
        """Keep what was decided about messages."""
        for name, how in made:
            self.decided.setdefault(name, []).append(how)

    def with_cuts(self, cuts: Iterable[tuple[str, Cut]]) -> dict[str, list[Decision | Cut]]:
        """All that is decided, and these cuts after it."""
        found = dict(self.decided)
        for name, how in cuts:
            found[name] = [*found.get(name, ()), how]
        return found

    # ---------------------------------------------------------------- the host's thread and the log

    def absorb(self, messages: Sequence[Message]) -> list[Event]:
        """Write to the log what of the host's thread it does not hold; returns what was said anew."""
        messages = [_checked(message, at) for at, message in enumerate(messages)]
        head = opening(messages)
        if head == opening([entry.given for entry in self._all]):
            for at in range(head):
                if not _same(messages[at], self._all[at]):
                    self._replace(at, messages[at])
        at = 0
        while at < min(len(messages), len(self._all)) and _same(messages[at], self._all[at]):
            self._all[at].meet(messages[at])
            at += 1
        if at < len(self._all):
            self._take_back(at)
        return self._append(messages[at:])

    def _append(self, messages: Sequence[Message]) -> list[Event]:
        keys = [ids.new() for _ in messages]
        said = self._log.append_all(
            [Said(self._named(message, key), id=key) for message, key in zip(messages, keys, strict=True)]
        )
        for message, key, event in zip(messages, keys, said, strict=True):
            entry = Entry(message, key, event.message if isinstance(event, Said) else message)
            self._all.append(entry)
            self.live.append(entry)
        return said

    def _named(self, message: Message, key: str) -> Message:
        """The message under a name by which it can be pointed at: its own, or its event's.

        A number is none, since whoever asks for one means a line.
        """
        own = message.id and not message.id.isdecimal() and message.id not in self._names
        named = message if own else message._replace(id=key)
        self._names.add(named.id)
        return named

    def _replace(self, at: int, message: Message) -> None:
        """A system prompt changed: the same event id again, which takes the old one's place in a replay."""
        old = self._all[at]
        said = self._log.append(Said(message._replace(id=old.kept.id), id=old.key))
        entry = Entry(message, old.key, said.message if isinstance(said, Said) else message)
        self._all[at] = entry
        self.live = [entry if each is old else each for each in self.live]

    def _take_back(self, at: int) -> None:
        gone = tuple(entry.key for entry in self._all[at:])
        left = set(gone)
        del self._all[at:]
        self.live = [entry for entry in self.live if entry.key not in left]
        self._log.append(Trimmed(ids=gone, why=TAKEN_BACK))

    def hold(self) -> None:
        """Make sure that the log holds the window, whatever has happened to the file meanwhile."""
        missing = {entry.key: entry for entry in self.live}
        for raw in self._log.raw():
            found = _ID.search(raw.content[:300]) if raw.kind == Said.kind else None
            key = found[1].decode() if found else ""
            # A torn line may begin and end like a whole one: only one that can be read holds its message.
            if key in missing and isinstance(raw.read(), Said):
                del missing[key]
        for key, entry in missing.items():
            if not key.startswith("#"):
                self._log.append(Said(entry.kept, id=key))


def _checked(message: object, at: int) -> Message:
    """A message the log can hold; raises InvalidText for what is none."""
    if not isinstance(message, Message):
        raise InvalidText(
            f"message {at + 1} of the thread is a {type(message).__name__}, not a message",
            hint="turn a provider's messages into ours with `vademecum.transcripts.shapes`",
        )
    if type(message.role) is Role:
        return message
    try:
        return message._replace(role=Role(message.role))
    except ValueError as error:
        roles = ", ".join(Role)
        raise InvalidText(
            f"message {at + 1} of the thread has the role {str(message.role)[:40]!r}",
            hint=f"use one of {roles}",
        ) from error


def _same(given: Message, entry: Entry) -> bool:
    """Whether the host's message is the one we know; ids and times may be lost on its way through a host."""
    if given is entry.given:
        return True
    for known in (entry.given, entry.kept):
        if (given.role, given.parts, given.name) == (known.role, known.parts, known.name):
            return True
    if given.role is not entry.kept.role or len(given.parts) != len(entry.kept.parts):
        return False
    said = clean_value(kinds.to_json(Said(given)))["message"]
    return bool(said["parts"] == clean_value(shapes.to_json(entry.kept))["parts"])
