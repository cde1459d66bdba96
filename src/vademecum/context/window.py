"""The window of one session: its messages, what was decided about them, how full it is, and its past.

Writes to the log what is new in the host's thread; decides nothing about what may leave. Each event counts
the same whether it is written now or read from a log, so that a session taken up again is where it was.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum import transcripts as shapes
from vademecum.context import prune, summary, turns
from vademecum.context.budget import FLUSH, TRIM, FlushSettings, Points, TrimSettings, Window, reply_reserve
from vademecum.context.prune import PruneSettings
from vademecum.context.turns import CompactionRecord
from vademecum.context.units import NO_READERS, Cut, Readers, Unit, cut, gather, measure_all
from vademecum.errors import InvalidText
from vademecum.text import clock, names
from vademecum.text.outgoing import clean_value
from vademecum.tokens import PRIMING, Size, count
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts import events as kinds
from vademecum.transcripts.events import (
    TAKEN_BACK,
    Compacted,
    Event,
    Flushed,
    Pruned,
    Said,
    Summary,
    Torn,
    Trimmed,
    Used,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.context.prune import PruneDecision
    from vademecum.transcripts.log import Log


# ------------------------------------------------------------ what the engine is told and what it tells


class WindowSettings(NamedTuple):
    """All that can be set about a window."""

    prune: PruneSettings = PruneSettings()
    trim: TrimSettings = TRIM
    flush: FlushSettings = FLUSH
    compaction: bool = True  # a summary by the host's model instead of the proactive trim, if it has one
    flush_seconds: float = turns.FLUSH_SECONDS
    compaction_seconds: float = turns.COMPACTION_SECONDS
    reply: int | None = None  # the longest reply the model can give


class Sections(NamedTuple):
    """What of a request takes how many tokens."""

    schemas: int = 0
    system: int = 0
    summary: int = 0
    messages: int = 0
    total: int = 0
    limit: int = 0
    context: int = 0


class Prepared(NamedTuple):
    """What to send, and what was done so that it fits."""

    messages: tuple[Message, ...]
    tokens: Sections
    pruned: tuple[PruneDecision, ...] = ()
    trimmed: tuple[str, ...] = ()  # ids of the messages that left
    cut: tuple[str, ...] = ()  # ids of messages that stay and were shortened because nothing else could go
    flushed: str = ""  # the outcome, if a flush was due
    compacted: str = ""  # `model`, `extraction`, or empty when nothing was summarized
    why: str = ""


class WindowRow(NamedTuple):
    """One message of the window as a person looks at it."""

    id: str
    role: str
    tokens: int
    state: str  # `whole` or `shortened`


class Inspection(NamedTuple):
    """How the window stands."""

    tokens: Sections
    points: Points
    ratio: float
    cycles: int
    flushed: bool
    outcome: str
    failures: int
    rows: tuple[WindowRow, ...]
    summary: str


class Proceedings:
    """What happens while one request is prepared."""

    def __init__(self) -> None:
        self.pruned: list[PruneDecision] = []
        self.trimmed: list[str] = []
        self.cut: list[str] = []
        self.flushed = ""
        self.compacted = ""
        self.why: list[str] = []
        self.failed = ""  # why a model's compaction came to nothing

    def prepared(self, messages: tuple[Message, ...], tokens: Sections) -> Prepared:
        """What to send, with all of this."""
        return Prepared(
            messages,
            tokens,
            tuple(self.pruned),
            tuple(self.trimmed),
            tuple(self.cut),
            self.flushed,
            self.compacted,
            "; ".join(self.why),
        )


# ------------------------------------------------------------ decisions done again, byte for byte


def read_decisions(event: Pruned | Trimmed) -> Iterable[tuple[str, PruneDecision | Cut]]:
    """What an event decided about which message; what a stranger wrote there is passed over."""
    for each in event.decisions:
        try:
            if isinstance(event, Pruned):
                decision = prune.from_json(each)
                yield decision.message, decision
            else:
                yield str(each["message"]), Cut(int(each["limit"]), bool(each["deep"]))
        except (ValueError, KeyError, TypeError):
            continue


def apply_all(
    message: Message, decisions: Iterable[PruneDecision | Cut], readers: Readers = NO_READERS
) -> Message:
    """A message after all that was decided about it, in order; what it says of the rest is the host's."""
    for how in decisions:
        if isinstance(how, Cut):
            message = cut(Unit((message,)), how, readers).messages[0]
        else:
            message = prune.apply([message], [how], readers)[0]
    return message


def count_opening(messages: Sequence[Message]) -> int:
    """How many system messages a thread begins with."""
    return next((at for at, each in enumerate(messages) if each.role is not Role.SYSTEM), len(messages))


def compose(shown: Sequence[Message], block: str) -> tuple[Message, ...]:
    """The window as it is sent: the block behind the system prompt, all of it mended."""
    at = count_opening(shown)
    return gather([*shown[:at], *([block_message(block)] if block else []), *shown[at:]]).messages


def block_message(text: str) -> Message:
    """The block as a message; a user's, since some providers want a user to speak first."""
    return Message(Role.USER, (Text(text),))


# ------------------------------------------------------------ how full it is


class Scale(NamedTuple):
    """What is needed to weigh a window: the model's size, its ratio, and the schemas that go with it."""

    context: int
    ratio: float
    schemas: Size = Size()
    reply: int | None = None

    def count(self, messages: Iterable[Message]) -> int:
        """Messages in tokens."""
        return count(measure_all(messages), self.ratio)

    def total(self, shown: Sequence[Message], block: str) -> int:
        """A whole request in tokens."""
        return count(measure_all(compose(shown, block)) + self.schemas, self.ratio) + PRIMING

    def window(self, shown: Sequence[Message]) -> Window:
        """The window, and what in it is not ours to trim."""
        return Window(
            self.context,
            reply_reserve(self.context, self.reply),
            count(self.schemas, self.ratio),
            self.count(shown[: count_opening(shown)]),
        )

    def sections(self, shown: Sequence[Message], block: str) -> Sections:
        """What of a request takes how many tokens."""
        window = self.window(shown)
        summed = self.count([block_message(block)]) if block else 0
        total = self.total(shown, block)
        rest = max(total - window.fixed - summed, 0)
        return Sections(window.schemas, window.system, summed, rest, total, window.limit, self.context)


# ------------------------------------------------------------ the messages

_ID = re.compile(rb'"id":"([^"\\]{1,100})"')


class ThreadEntry:
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
        self.readers = NO_READERS  # what this host offers to read the rest of a shortened message with
        self.decided: dict[str, list[PruneDecision | Cut]] = {}
        thread: dict[str, ThreadEntry] = {}
        for event in events:
            if isinstance(event, Said):
                key = event.id or f"#{event.seq}"
                thread[key] = ThreadEntry(event.message, key, event.message)
                self._names.add(event.message.id)
            elif isinstance(event, Trimmed) and event.why == TAKEN_BACK:
                for key in event.ids:
                    thread.pop(key, None)
            if isinstance(event, Pruned | Trimmed):
                self.remember(read_decisions(event))
        shown = {each.id or f"#{each.seq}" for each in window_of(events)}
        self._all = list(thread.values())
        self.live = [entry for entry in self._all if entry.key in shown]

    # ---------------------------------------------------------------- what it looks like

    def shown(
        self, entry: ThreadEntry, decided: Mapping[str, list[PruneDecision | Cut]] | None = None
    ) -> Message:
        """A message as it is sent: as the host gave it; one that was shortened, as the log has it."""
        found = self.decided if decided is None else decided
        if entry.kept.id in found:
            return apply_all(entry.kept, found[entry.kept.id], self.readers)
        given = entry.given
        return given if given.id == entry.kept.id else given._replace(id=entry.kept.id)

    def logged(self, entry: ThreadEntry) -> Message:
        """A message as a replay of the log gives it, without secrets."""
        return apply_all(entry.kept, self.decided.get(entry.kept.id, ()), self.readers)

    def window(self) -> list[Message]:
        """The messages in the window, as they are sent."""
        return [self.shown(entry) for entry in self.live]

    def remember(self, made: Iterable[tuple[str, PruneDecision | Cut]]) -> None:
        """Keep what was decided about messages."""
        for name, how in made:
            self.decided.setdefault(name, []).append(how)

    def with_cuts(self, cuts: Iterable[tuple[str, Cut]]) -> dict[str, list[PruneDecision | Cut]]:
        """All that is decided, and these cuts after it."""
        found = dict(self.decided)
        for name, how in cuts:
            found[name] = [*found.get(name, ()), how]
        return found

    # ---------------------------------------------------------------- the host's thread and the log

    def agreed(self, messages: Sequence[Message]) -> tuple[int, int]:
        """How many messages are known, and with how many of them a thread begins, but for system prompts."""
        messages = [_checked_message(message, at) for at, message in enumerate(messages)]
        head = count_opening(messages)
        at = head if head == count_opening([entry.given for entry in self._all]) else 0
        while at < min(len(messages), len(self._all)) and _same_message(messages[at], self._all[at]):
            at += 1
        return len(self._all), at

    def absorb(self, messages: Sequence[Message]) -> list[Event]:
        """Write to the log what of the host's thread it does not hold; returns what was said anew."""
        messages = [_checked_message(message, at) for at, message in enumerate(messages)]
        head = count_opening(messages)
        if head == count_opening([entry.given for entry in self._all]):
            for at in range(head):
                if not _same_message(messages[at], self._all[at]):
                    self._replace(at, messages[at])
        at = 0
        while at < min(len(messages), len(self._all)) and _same_message(messages[at], self._all[at]):
            self._all[at].meet(messages[at])
            at += 1
        if at < len(self._all):
            self._take_back(at)
        return self._append(messages[at:])

    def _append(self, messages: Sequence[Message]) -> list[Event]:
        keys = [names.new_id() for _ in messages]
        said = self._log.append_all(
            [Said(self._named(message, key), id=key) for message, key in zip(messages, keys, strict=True)]
        )
        for message, key, event in zip(messages, keys, said, strict=True):
            entry = ThreadEntry(message, key, event.message if isinstance(event, Said) else message)
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
        entry = ThreadEntry(message, old.key, said.message if isinstance(said, Said) else message)
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


def _checked_message(message: object, at: int) -> Message:
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


def _same_message(given: Message, entry: ThreadEntry) -> bool:
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


# ------------------------------------------------------------ what has left

COMPACTION = "compaction"  # why messages leave; the name of the field that says how one failed
NO_PROGRESS = "no progress"
_FAILED = "failed:"
_WHOLE = "whole"  # the summary before it was made to fit


class Past:
    """What is known of everything that has left the window, and of the cycle that is under way."""

    def __init__(self, events: Iterable[Event | Torn] = ()) -> None:
        self.known: summary.ThreadSummary | None = None
        self.words = ""  # of the last compaction by a model
        self.block = ""
        self.flushed = False
        self.outcome = ""
        self.heard = False  # whether anything was said since the last flush
        self.cycles = 0
        self.record = CompactionRecord()
        self.called: float | None = None  # when a provider last answered, which then holds the prefix
        for event in events:
            self.take(event)

    def take(self, event: Event | Torn) -> None:
        """Something happened."""
        if isinstance(event, Said):
            self.heard = True
            if self.record.since is not None:
                self.record = self.record._replace(since=self.record.since + 1)
        elif isinstance(event, Flushed):
            self.flushed, self.heard, self.outcome = True, False, event.outcome
        elif isinstance(event, Used):
            when = clock.parse(event.time)
            self.called = when.timestamp() if when else self.called
        if isinstance(event, Summary | Compacted):
            self.block = event.text
            whole = event.extra.get(_WHOLE)
            self.known = summary.parse_summary(whole if isinstance(whole, str) else event.text)
            self.words = summary.model_words(event.text)
        if isinstance(event, Summary | Trimmed):
            self._take_failure(event)
        if isinstance(event, Compacted):
            self.record = CompactionRecord(since=0)
        if isinstance(event, Compacted) or (isinstance(event, Trimmed) and _ends_cycle(event)):
            self.cycles += 1
            self.flushed = False

    def _take_failure(self, event: Summary | Trimmed) -> None:
        """A model was asked for a summary and gave none that could be used: why stands with what was done."""
        said = event.extra.get(COMPACTION)
        if isinstance(said, str) and said:
            stalled = said == failure_field(NO_PROGRESS)[COMPACTION]
            self.record = CompactionRecord(self.record.failures + 1, stalled, 0 if stalled else None)


def failure_field(why: str) -> dict[str, str]:
    """How an event says that a model's compaction came to nothing; empty when it did not."""
    return {COMPACTION: f"{_FAILED}{why}"} if why else {}


def whole_field(known: summary.ThreadSummary | None, block: str) -> dict[str, str]:
    """What an event keeps of a summary when its block had no room for all of it; a later one may have."""
    if known is None or summary.parse_summary(block) == known:
        return {}
    return {_WHOLE: summary.render_summary(known)}


def _ends_cycle(event: Trimmed) -> bool:
    """Whether a cycle ended with it; the cuts that go with a compaction do not end a second one."""
    return event.why != TAKEN_BACK and bool(event.ids or event.why != COMPACTION)
