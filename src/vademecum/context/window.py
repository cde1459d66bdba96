"""The window of one session: its messages, the decisions about them, its size, and its history.

This module writes new messages of the host's thread to the log; it never decides which messages leave. An
event has the same effect whether it was just written or read from a log, so that a resumed session is in the
same state.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum import transcripts as shapes
from vademecum.context import prune, silent_turns, summary
from vademecum.context.budget import FLUSH, TRIM, FlushSettings, Points, TrimSettings, Window, reply_reserve
from vademecum.context.prune import PruneSettings
from vademecum.context.silent_turns import CompactionRecord
from vademecum.context.units import NO_READERS, Cut, ReaderTools, Unit, build_units, cut, measure_all
from vademecum.errors import InvalidText
from vademecum.text import clock, names
from vademecum.text.outgoing import clean_value
from vademecum.tokens import PRIMING, Size, count
from vademecum.transcripts import Event, Message, MessageEvent, Role, Text, Used
from vademecum.transcripts import events as kinds
from vademecum.transcripts.events import (
    TAKEN_BACK,
    Compacted,
    Flushed,
    Pruned,
    Summary,
    TornLine,
    Trimmed,
    window_of,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.context.prune import PruneDecision
    from vademecum.transcripts import Log


# ------------------------------------------------------------ settings and results


class WindowSettings(NamedTuple):
    """All settings that concern the context window."""

    prune: PruneSettings = PruneSettings()
    trim: TrimSettings = TRIM
    flush: FlushSettings = FLUSH
    compaction: bool = True  # summarize with the host's model, if it has one, instead of the proactive trim
    flush_seconds: float = silent_turns.FLUSH_SECONDS
    compaction_seconds: float = silent_turns.COMPACTION_SECONDS
    reply: int | None = None  # the longest reply the model can give


class Sections(NamedTuple):
    """The numbers of tokens that the parts of a request use."""

    schemas: int = 0
    system: int = 0
    summary: int = 0
    messages: int = 0
    total: int = 0
    limit: int = 0
    context: int = 0


class Prepared(NamedTuple):
    """The messages to send, and a report of the steps that made them fit."""

    messages: tuple[Message, ...]
    tokens: Sections
    pruned: tuple[PruneDecision, ...] = ()
    trimmed: tuple[str, ...] = ()  # ids of the messages that left
    cut: tuple[str, ...] = ()  # ids of messages that were shortened because nothing else could leave
    flushed: str = ""  # the outcome, if a flush was due
    compacted: str = ""  # `model`, `extraction`, or empty when nothing was summarized
    why: str = ""


class WindowRow(NamedTuple):
    """A message of the window, prepared for display."""

    id: str
    role: str
    tokens: int
    state: str  # `whole` or `shortened`


class Inspection(NamedTuple):
    """The state of a window, for display."""

    tokens: Sections
    points: Points
    ratio: float
    cycles: int
    flushed: bool
    outcome: str
    failures: int
    rows: tuple[WindowRow, ...]
    summary: str


class PrepareReport:
    """The steps that were taken while one request was prepared."""

    def __init__(self) -> None:
        self.pruned: list[PruneDecision] = []
        self.trimmed: list[str] = []
        self.cut: list[str] = []
        self.flushed = ""
        self.compacted = ""
        self.why: list[str] = []
        self.failed = ""  # why a model's compaction failed

    def prepared(self, messages: tuple[Message, ...], tokens: Sections) -> Prepared:
        """Return the messages to send, together with this report of how they were made to fit."""
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


# ------------------------------------------------------------ replaying decisions, byte for byte


def read_decisions(event: Pruned | Trimmed) -> Iterable[tuple[str, PruneDecision | Cut]]:
    """Yield the decisions in an event, each with the id of its message; invalid decisions are skipped."""
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
    message: Message, decisions: Iterable[PruneDecision | Cut], readers: ReaderTools = NO_READERS
) -> Message:
    """Return a message with decisions about it applied in order; notes in it name the tools in `readers`."""
    for how in decisions:
        if isinstance(how, Cut):
            message = cut(Unit((message,)), how, readers).messages[0]
        else:
            message = prune.apply([message], [how], readers)[0]
    return message


def count_opening(messages: Sequence[Message]) -> int:
    """Return how many system messages a thread begins with."""
    return next((at for at, each in enumerate(messages) if each.role is not Role.SYSTEM), len(messages))


def _holds_memory(entry: ThreadEntry) -> bool:
    """Whether a message, as the host gave it, contains a block of memory."""
    text = entry.given.text
    return shapes.replace_memory_blocks(text) != text


def compose(messages: Sequence[Message], block: str) -> tuple[Message, ...]:
    """Return the window as it is sent: the system prompt, the summary block, and the repaired messages."""
    at = count_opening(messages)
    return build_units([*messages[:at], *([block_message(block)] if block else []), *messages[at:]]).messages


def block_message(text: str) -> Message:
    """Return the summary block as a user message, because some providers want the user to speak first."""
    return Message(Role.USER, (Text(text),))


# ------------------------------------------------------------ measuring


class Scale(NamedTuple):
    """The numbers that turn a window into tokens: the model's window, its ratio, and the tool schemas."""

    context: int
    ratio: float
    schemas: Size = Size()
    reply: int | None = None

    def count(self, messages: Iterable[Message]) -> int:
        """Return the number of tokens of messages."""
        return count(measure_all(messages), self.ratio)

    def total(self, messages: Sequence[Message], block: str) -> int:
        """Return the number of tokens of a request: messages, summary block and tool schemas."""
        return count(measure_all(compose(messages, block)) + self.schemas, self.ratio) + PRIMING

    def window(self, messages: Sequence[Message]) -> Window:
        """Return the model's window and the parts of it that cannot be trimmed."""
        return Window(
            self.context,
            reply_reserve(self.context, self.reply),
            count(self.schemas, self.ratio),
            self.count(messages[: count_opening(messages)]),
        )

    def sections(self, messages: Sequence[Message], block: str) -> Sections:
        """Return how many tokens each part of a request uses."""
        window = self.window(messages)
        summary_tokens = self.count([block_message(block)]) if block else 0
        total = self.total(messages, block)
        rest = max(total - window.fixed - summary_tokens, 0)
        return Sections(
            window.schemas, window.system, summary_tokens, rest, total, window.limit, self.context
        )


# ------------------------------------------------------------ messages

_ID = re.compile(rb'"id":"([^"\\]{1,100})"')


class ThreadEntry:
    """A message of the thread in two forms: as the host gave it, and as the log holds it."""

    __slots__ = ("given", "key", "logged_message")

    def __init__(self, given: Message, key: str, logged_message: Message) -> None:
        self.given = given
        self.key = key
        self.logged_message = logged_message

    def update(self, given: Message) -> None:
        """Replace the host's form if its parts differ: after a restart, it may have more than the log."""
        if given.parts != self.given.parts:
            self.given = given


class Thread:
    """The messages of a session: all of them, those in the window, and the decisions about them."""

    def __init__(self, log: Log, events: Sequence[Event | TornLine]) -> None:
        self._log = log
        self._names: set[str] = set()
        self.readers = NO_READERS  # the host's tools that read the rest of a shortened message
        self.decisions: dict[str, list[PruneDecision | Cut]] = {}
        thread: dict[str, ThreadEntry] = {}
        for event in events:
            if isinstance(event, MessageEvent):
                key = event.id or f"#{event.seq}"
                thread[key] = ThreadEntry(event.message, key, event.message)
                self._names.add(event.message.id)
            elif isinstance(event, Trimmed) and event.why == TAKEN_BACK:
                for key in event.ids:
                    thread.pop(key, None)
            if isinstance(event, Pruned | Trimmed):
                self.remember(read_decisions(event))
        window_keys = {each.id or f"#{each.seq}" for each in window_of(events)}
        self._all = list(thread.values())
        self.live = [entry for entry in self._all if entry.key in window_keys]

    # ---------------------------------------------------------------- reading

    def sent_message(
        self, entry: ThreadEntry, decisions: Mapping[str, list[PruneDecision | Cut]] | None = None
    ) -> Message:
        """Return a message as it is sent: the host's form, or the log's form shortened by decisions.

        `decisions` replaces the decisions made so far.
        """
        found = self.decisions if decisions is None else decisions
        if entry.logged_message.id in found:
            return apply_all(entry.logged_message, found[entry.logged_message.id], self.readers)
        given = entry.given
        return given if given.id == entry.logged_message.id else given._replace(id=entry.logged_message.id)

    def logged(self, entry: ThreadEntry) -> Message:
        """Return a message as a replay of the log would give it, with secrets redacted."""
        return apply_all(entry.logged_message, self.decisions.get(entry.logged_message.id, ()), self.readers)

    @property
    def block_readers(self) -> ReaderTools:
        """The tools that the summary block may name, and whether the system prompt contains memory."""
        opening = self.live[: count_opening([entry.given for entry in self.live])]
        return self.readers._replace(knowledge=any(map(_holds_memory, opening)))

    def window(self) -> list[Message]:
        """Return the messages in the window, as they are sent."""
        return [self.sent_message(entry) for entry in self.live]

    def remember(self, made: Iterable[tuple[str, PruneDecision | Cut]]) -> None:
        """Add decisions about messages to those made so far."""
        for name, how in made:
            self.decisions.setdefault(name, []).append(how)

    def with_cuts(self, cuts: Iterable[tuple[str, Cut]]) -> dict[str, list[PruneDecision | Cut]]:
        """Return all decisions by message id, with these cuts added."""
        found = dict(self.decisions)
        for name, how in cuts:
            found[name] = [*found.get(name, ()), how]
        return found

    # ---------------------------------------------------------------- the host's thread and the log

    def match_prefix(self, messages: Sequence[Message]) -> tuple[int, int]:
        """Return the number of known messages, and how many of these the given thread begins with.

        System prompts are not compared.
        """
        messages = [_check_message(message, at) for at, message in enumerate(messages)]
        head = count_opening(messages)
        at = head if head == count_opening([entry.given for entry in self._all]) else 0
        while at < min(len(messages), len(self._all)) and _same_message(messages[at], self._all[at]):
            at += 1
        return len(self._all), at

    def absorb(self, messages: Sequence[Message]) -> list[Event]:
        """Write the new messages of the host's thread to the log, and return their events.

        A changed system prompt replaces the old one. Known messages after the first difference are taken out
        of the window.
        """
        messages = [_check_message(message, at) for at, message in enumerate(messages)]
        head = count_opening(messages)
        if head == count_opening([entry.given for entry in self._all]):
            for at in range(head):
                if not _same_message(messages[at], self._all[at]):
                    self._replace(at, messages[at])
        at = 0
        while at < min(len(messages), len(self._all)) and _same_message(messages[at], self._all[at]):
            self._all[at].update(messages[at])
            at += 1
        if at < len(self._all):
            self._take_back(at)
        return self._append(messages[at:])

    def _append(self, messages: Sequence[Message]) -> list[Event]:
        keys = [names.new_id() for _ in messages]
        events = self._log.append_all(
            [
                MessageEvent(self._with_usable_id(message, key), id=key)
                for message, key in zip(messages, keys, strict=True)
            ]
        )
        for message, key, event in zip(messages, keys, events, strict=True):
            entry = ThreadEntry(message, key, event.message if isinstance(event, MessageEvent) else message)
            self._all.append(entry)
            self.live.append(entry)
        return events

    def _with_usable_id(self, message: Message, key: str) -> Message:
        """Return the message with its own id, or with the id `key` of its event if its own is not usable.

        An id is not usable if it is empty, already used, or a number, which would be read as a line number.
        """
        own = message.id and not message.id.isdecimal() and message.id not in self._names
        named = message if own else message._replace(id=key)
        self._names.add(named.id)
        return named

    def _replace(self, at: int, message: Message) -> None:
        """Log a changed system prompt under its old event id, so that a replay uses the new prompt."""
        old = self._all[at]
        event = self._log.append(MessageEvent(message._replace(id=old.logged_message.id), id=old.key))
        entry = ThreadEntry(message, old.key, event.message if isinstance(event, MessageEvent) else message)
        self._all[at] = entry
        self.live = [entry if live_entry is old else live_entry for live_entry in self.live]

    def _take_back(self, at: int) -> None:
        removed = tuple(entry.key for entry in self._all[at:])
        removed_keys = set(removed)
        del self._all[at:]
        self.live = [entry for entry in self.live if entry.key not in removed_keys]
        self._log.append(Trimmed(ids=removed, why=TAKEN_BACK))

    def ensure_logged(self) -> None:
        """Write messages of the window to the log again if its file has lost them."""
        missing = {entry.key: entry for entry in self.live}
        for raw in self._log.raw():
            found = _ID.search(raw.content[:300]) if raw.kind == MessageEvent.kind else None
            key = found[1].decode() if found else ""
            # A damaged line may begin and end like a valid one, so the line is parsed too.
            if key in missing and isinstance(raw.read(), MessageEvent):
                del missing[key]
        for key, entry in missing.items():
            if not key.startswith("#"):
                self._log.append(MessageEvent(entry.logged_message, id=key))


def _check_message(message: object, at: int) -> Message:
    """Return a message whose role is a `Role`; raise InvalidText for other values and unknown roles."""
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
    """Whether a host's message has the role and content of a known message; ids and times may differ."""
    if given is entry.given:
        return True
    for known in (entry.given, entry.logged_message):
        if (given.role, given.parts, given.name) == (known.role, known.parts, known.name):
            return True
    if given.role is not entry.logged_message.role or len(given.parts) != len(entry.logged_message.parts):
        return False
    logged = clean_value(kinds.to_json(MessageEvent(given)))["message"]
    return bool(logged["parts"] == clean_value(shapes.to_json(entry.logged_message))["parts"])


# ------------------------------------------------------------ history

# the reason for leaving the window, and the field that holds why a compaction failed
COMPACTION = "compaction"
NO_PROGRESS = "no progress"
_FAILED = "failed:"
_WHOLE = "whole"  # the field with the full summary, if the block had no room for all of it


class WindowHistory:
    """The history of a window: the summary of everything that has left it, and the current cycle."""

    def __init__(self, events: Iterable[Event | TornLine] = ()) -> None:
        self.known: summary.ThreadSummary | None = None
        self.words = ""  # the model's text in the last compaction
        self.block = ""
        self.flushed = False
        self.outcome = ""
        self.has_new_messages = False  # whether a message was added since the last flush
        self.cycles = 0
        self.record = CompactionRecord()
        # when a provider last answered; from then on it may cache the prefix
        self.last_call: float | None = None
        for event in events:
            self.apply(event)

    def apply(self, event: Event | TornLine) -> None:
        """Update the history by an event of the log."""
        if isinstance(event, MessageEvent):
            self.has_new_messages = True
            if self.record.since is not None:
                self.record = self.record._replace(since=self.record.since + 1)
        elif isinstance(event, Flushed):
            self.flushed, self.has_new_messages, self.outcome = True, False, event.outcome
        elif isinstance(event, Used):
            when = clock.parse(event.time)
            self.last_call = when.timestamp() if when else self.last_call
        if isinstance(event, Summary | Compacted):
            self.block = event.text
            whole = event.extra.get(_WHOLE)
            self.known = summary.parse_summary(whole if isinstance(whole, str) else event.text)
            self.words = summary.model_words(event.text)
        if isinstance(event, Summary | Trimmed):
            self._count_failure(event)
        if isinstance(event, Compacted):
            self.record = CompactionRecord(since=0)
        if isinstance(event, Compacted) or (isinstance(event, Trimmed) and _ends_cycle(event)):
            self.cycles += 1
            self.flushed = False

    def _count_failure(self, event: Summary | Trimmed) -> None:
        """Count a failure if an event reports that the model's summary failed."""
        reason = event.extra.get(COMPACTION)
        if isinstance(reason, str) and reason:
            stalled = reason == failure_field(NO_PROGRESS)[COMPACTION]
            self.record = CompactionRecord(self.record.failures + 1, stalled, 0 if stalled else None)


def failure_field(why: str) -> dict[str, str]:
    """Return an event field with the reason why a model's compaction failed; no field if it did not fail."""
    return {COMPACTION: f"{_FAILED}{why}"} if why else {}


def whole_field(known: summary.ThreadSummary | None, block: str) -> dict[str, str]:
    """Return the event field with the full summary if the block holds only a part of it; else no field."""
    if known is None or summary.parse_summary(block) == known:
        return {}
    return {_WHOLE: summary.render_summary(known)}


def _ends_cycle(event: Trimmed) -> bool:
    """Whether a trim ends a cycle of the window; removals by the host, and cuts of a compaction, do not."""
    return event.why != TAKEN_BACK and bool(event.ids or event.why != COMPACTION)
