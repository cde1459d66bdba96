"""The events of a session, as values and as lines of JSON, and functions that evaluate lists of events.

This module knows single lines, and no files. Fields that a newer version wrote are kept in `extra`, and
events that it added are kept as `Unknown`. The evaluating functions are pure, take events in the order of the
log, and ignore damaged lines and unknown events. The window of a conversation is never stored, only replayed:
each decision about it is an event, and the same decisions give the same messages, byte for byte.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from vademecum import transcripts
from vademecum.transcripts.messages import NOTHING, Json, Message, Opaque, Role, Text, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Shorten = Callable[[Sequence[Message], Sequence["Pruned | Trimmed"]], Sequence[Message]]

LARGEST = 64 * 1024 * 1024  # bytes of a line that are read

Items: TypeAlias = "tuple[Mapping[str, Json], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """The fields that every event has: its number in the log, its time and its unique id."""

    kind: ClassVar[str] = ""

    seq: int = 0
    time: str = ""
    id: str = ""
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started(Event):
    """The event with which a session begins."""

    kind: ClassVar[str] = "started"

    cwd: str = ""
    name: str = ""
    created: str = ""
    model: str = ""
    agent: str = ""
    audience: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class MessageEvent(Event):
    """A message. Later events refer to it by this event's id, or by the message's own id if that id is
    unique.
    """

    kind: ClassVar[str] = "message"

    message: Message


@dataclass(frozen=True, slots=True)
class Used(Event):
    """The event with the tokens and cost of a model call, as the provider counted them."""

    kind: ClassVar[str] = "usage"

    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float = 0.0
    model: str = ""


@dataclass(frozen=True, slots=True)
class Pruned(Event):
    """The event after which tool results in these messages are sent shortened.

    `decisions` holds everything needed to shorten them again, so that the same bytes are sent even after
    settings have changed.
    """

    kind: ClassVar[str] = "pruned"

    ids: tuple[str, ...] = field(default=(), metadata={"of": str})
    how: str = ""
    decisions: Items = field(default=(), metadata={"of": dict})


# the host removed the messages from its thread: this is not a drop, and no cycle ends with it
TAKEN_BACK = "taken back"


@dataclass(frozen=True, slots=True)
class Trimmed(Event):
    """The event by which these messages left the window; `decisions` shorten messages that stay, as in
    `Pruned`.
    """

    kind: ClassVar[str] = "trimmed"

    ids: tuple[str, ...] = field(default=(), metadata={"of": str})
    why: str = ""
    decisions: Items = field(default=(), metadata={"of": dict})


@dataclass(frozen=True, slots=True)
class Flushed(Event):
    """The event at the end of a flush: `written`, `nothing`, `skipped:<why>` or `failed:<why>`."""

    kind: ClassVar[str] = "flushed"

    outcome: str = ""


PROGRESS = "session_progress"  # the name under which a session's newest checkpoint is requested


@dataclass(frozen=True, slots=True)
class Checkpoint(Event):
    """The event that describes the state of the work, such as the task and the newest tool calls."""

    kind: ClassVar[str] = "checkpoint"

    task: str = ""
    todo: Items = field(default=(), metadata={"of": dict})
    tools: tuple[str, ...] = field(
        default=(), metadata={"of": str}
    )  # the newest calls, as a person reads them
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Summary(Event):
    """The event with a summary made without a model; it replaces the summary before."""

    kind: ClassVar[str] = "summary"

    text: str = ""
    role: str = str(Role.SYSTEM)


@dataclass(frozen=True, slots=True)
class Compacted(Event):
    """The event with a summary that replaces these messages and the summary before.

    Without `covers`, it replaces every message before `first_kept` except the system messages at the start.
    """

    kind: ClassVar[str] = "compacted"

    text: str = ""
    covers: tuple[str, ...] = field(default=(), metadata={"of": str})
    first_kept: str = ""
    role: str = str(Role.SYSTEM)


@dataclass(frozen=True, slots=True)
class Todo(Event):
    """The event with the to-do list after a change, and the next number to assign."""

    kind: ClassVar[str] = "todo"

    items: Items = field(default=(), metadata={"of": dict})
    next: int = 0


@dataclass(frozen=True, slots=True)
class Renamed(Event):
    """The event that gives the session another name."""

    kind: ClassVar[str] = "renamed"

    name: str = ""


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The event that ends a session: the reason, and the path of its note.

    If there is no note, `note` is `nothing`, `skipped:<why>` or `failed:<why>`.
    """

    kind: ClassVar[str] = "ended"

    why: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unknown(Event):
    """An event of a kind that this version does not know, or whose fields have other types."""

    name: str = ""
    fields: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TornLine:
    """A line that is not an event: cut off, damaged, or too long."""

    why: str
    size: int


_KINDS: dict[str, type[Event]] = {
    each.kind: each
    for each in (
        *(Started, MessageEvent, Used, Pruned, Trimmed, Flushed, Checkpoint, Summary, Compacted),
        *(Todo, Renamed, Ended),
    )
}
_COMMON = {each.name for each in fields(Event)}
# For each kind, its fields besides those of every event: name, default, and the type of a list's items.
_FIELDS: dict[str, list[tuple[str, Any, type | None]]] = {
    name: [
        (each.name, each.default, each.metadata.get("of"))
        for each in fields(kind)
        if each.name not in _COMMON
    ]
    for name, kind in _KINDS.items()
}
_ENVELOPE = {"seq": int, "time": str, "id": str}


def render(event: Event) -> bytes:
    """Return an event as one line without a line end; raises ValueError or TypeError for values that JSON
    lacks.
    """
    return encode(to_json(event))


def encode(value: Mapping[str, Json]) -> bytes:
    """Return a JSON object on one line; characters are not escaped, so that the file can be searched for
    words.
    """
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def to_json(event: Event) -> dict[str, Json]:
    """Return an event as the log holds it: number, kind, time and id come first, and empty fields are left
    out.
    """
    fields: dict[str, Json] = {"seq": event.seq, "kind": event.kind, "time": event.time, "id": event.id}
    if isinstance(event, Unknown):
        fields["kind"] = event.name
        fields |= {**event.fields, **event.extra}
    else:
        extra = dict(event.extra)
        for name, default, _ in _FIELDS[event.kind]:
            value = getattr(event, name)
            if isinstance(value, Message):
                extra[name] = {**extra.get(name, {}), **transcripts.to_json(value)}
            elif value != default:
                extra[name] = list(value) if isinstance(value, tuple) else value
        fields = {**fields, **{name: value for name, value in extra.items() if name not in fields}}
    return {name: value for name, value in fields.items() if value != "" or name not in ("time", "id")}


def parse(line: bytes) -> Event | TornLine:
    """Return the event on a line of a log; a damaged line becomes a `TornLine`, and nothing is raised."""
    if len(line) > LARGEST:
        return TornLine(f"longer than {LARGEST:,} bytes", len(line))
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return TornLine(str(error), len(line))
    if not isinstance(value, dict):
        return TornLine("not an object", len(line))
    return from_json(value)


def from_json(value: dict[str, Json]) -> Event:
    """Return the event that a JSON object holds; an object that cannot be understood becomes an `Unknown`
    with all its fields.
    """
    envelope = {
        name: value[name]
        for name, kind in _ENVELOPE.items()
        if type(value.get(name)) is kind and value[name] != ""
    }
    rest = {name: each for name, each in value.items() if name not in envelope}
    found = value.get("kind")
    if isinstance(found, str):
        del rest["kind"]
        kind = _KINDS.get(found)
        if kind is not None and not any(name in rest for name in _ENVELOPE):
            try:
                return _read(kind, envelope, rest)
            except (ValueError, KeyError, TypeError, AttributeError):
                pass
    for name in ("time", "id"):
        if rest.get(name) == "":
            del rest[name]
    return Unknown(**envelope, name=found if isinstance(found, str) else "", fields=rest)


def _read(kind: type[Event], envelope: dict[str, Any], rest: dict[str, Json]) -> Event:
    """Return an event of a known kind; raises when a field has another type."""
    values: dict[str, Any] = {}
    extra = dict(rest)
    for name, default, of in _FIELDS[kind.kind]:
        value = extra.pop(name, None)
        if default is MISSING:
            values[name], rest_fields = _message(value)
            if rest_fields:
                extra[name] = rest_fields
        elif value is not None:
            values[name] = _typed_value(value, default, of)
    return kind(**envelope, extra=extra, **values)


def _typed_value(value: Json, default: Any, of: type | None) -> Any:
    if of is not None:
        if not isinstance(value, list) or not all(isinstance(each, of) for each in value):
            raise TypeError(value)
        return tuple(value)
    if isinstance(default, float) and type(value) is int:
        return float(value)
    if type(value) is not type(default):
        raise TypeError(value)
    return value


_MESSAGE = {"role", "parts", "id", "time", "name", "model", "extra"}


def _message(value: dict[str, Json]) -> tuple[Message, dict[str, Json]]:
    """Return the message in a JSON object, and those fields that a newer version added.

    An unknown part becomes an `Opaque`.
    """
    try:
        message = transcripts.from_json(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        parts = tuple(_part(value["role"], part) for part in value["parts"])
        message = transcripts.from_json({**value, "parts": []})._replace(parts=parts)
    else:
        if not all(map(_has_valid_types, message.parts)):
            parts = tuple(_part(value["role"], part) for part in value["parts"])
            message = message._replace(parts=parts)
    if not _has_valid_types(message):
        raise TypeError(value)
    return message, {name: each for name, each in value.items() if name not in _MESSAGE}


def _part(role: str, value: Json) -> Any:
    try:
        part = transcripts.from_json({"role": role, "parts": [value]}).parts[0]
    except (KeyError, TypeError, ValueError, AttributeError):
        return Opaque(value)
    return part if _has_valid_types(part) else Opaque(value)


def _has_valid_types(thing: Any) -> bool:
    """Whether each field of a message or part that must be text is text."""
    if isinstance(thing, Opaque):
        return True
    inner = thing.content if isinstance(thing, ToolResult) else ()
    return all(
        isinstance(value, dict | type(NOTHING))
        if name == "extra"
        else isinstance(value, bool)
        if name == "error"
        else name in ("parts", "content") or isinstance(value, str)
        for name, value in thing._asdict().items()
    ) and all(map(_has_valid_types, inner))


# -------------------------------------------------------------------- the window


def window_of(events: Iterable[Event | TornLine], shorten: Shorten | None = None) -> tuple[MessageEvent, ...]:
    """Return the messages sent to the model now: those that have not left the window, and the summary.

    `shorten` belongs to the code that made the decisions. It gets the original messages and all decisions in
    order, and returns as many messages. Without it, no message is shortened.
    """
    messages: dict[str, MessageEvent] = {}
    by_own_id: dict[str, str] = {}
    decisions: list[Pruned | Trimmed] = []
    summary: MessageEvent | None = None

    def drop(gone: Iterable[str]) -> None:
        for each in gone:
            messages.pop(each if each in messages else by_own_id.get(each, ""), None)

    for event in events:
        if isinstance(event, MessageEvent):
            key = event.id or f"#{event.seq}"
            messages[key] = event
            by_own_id[event.message.id] = key
        elif isinstance(event, Pruned):
            decisions.append(event)
        elif isinstance(event, Trimmed):
            drop(event.ids)
            decisions += [event] if event.decisions else []
        elif isinstance(event, Compacted):
            first = event.first_kept if event.first_kept in messages else by_own_id.get(event.first_kept, "")
            drop(event.covers or _before(messages, first))
            summary = _as_message(event)
        elif isinstance(event, Summary):
            summary = _as_message(event)
    shortened = _shortened(list(messages.values()), decisions, shorten)
    at = _opening(shortened)
    return (*shortened[:at], *([summary] if summary else []), *shortened[at:])


def _shortened(
    events: list[MessageEvent], decided: Sequence[Pruned | Trimmed], shorten: Shorten | None
) -> list[MessageEvent]:
    if shorten is None or not decided:
        return events
    messages = shorten([each.message for each in events], decided)
    return [
        each if message is each.message else replace(each, message=message)
        for each, message in zip(events, messages, strict=True)
    ]


def _before(messages: Mapping[str, MessageEvent], first_kept: str) -> list[str]:
    """Return the ids of the messages before `first_kept`, without the system messages at the start."""
    keys = list(messages)
    if not first_kept or first_kept not in messages:
        return []
    return keys[_opening(list(messages.values())) : keys.index(first_kept)]


def _opening(messages: Sequence[MessageEvent]) -> int:
    """Return the number of system messages with which a thread begins."""
    return next(
        (at for at, each in enumerate(messages) if each.message.role is not Role.SYSTEM), len(messages)
    )


def _as_message(event: Summary | Compacted) -> MessageEvent:
    role = Role(event.role) if event.role in set(Role) else Role.SYSTEM
    return MessageEvent(Message(role, (Text(event.text),)), seq=event.seq, time=event.time, id=event.id)


# -------------------------------------------------------------------- the thread


# reasons for which a message of the log is not part of its session
_TAKEN_BACK_REASONS = (TAKEN_BACK, "no longer in the file")


def read_thread(events: Iterable[Event | TornLine]) -> list[MessageEvent]:
    """Return every message that was not taken back, including messages that have left the window."""
    found: dict[str, MessageEvent] = {}
    for event in events:
        if isinstance(event, MessageEvent):
            found[event.id or f"#{event.seq}"] = event
        elif isinstance(event, Trimmed) and event.why in _TAKEN_BACK_REASONS:
            for each in event.ids:
                found.pop(each, None)
    return list(found.values())


# -------------------------------------------------------------------- sums over a session


class Usage(NamedTuple):
    """The tokens and cost of all calls of a session; the cost covers only the calls that report one."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float | None = None  # dollars; None when no call reports a cost
    priced: int = 0  # calls that report a cost
    estimated: int = 0  # calls whose tokens are only estimated

    def add(self, event: Used) -> Usage:
        """Return the sum with one more call; a call without a total counts its input and output."""
        total = event.total or event.input + event.output
        return Usage(
            self.calls + 1,
            # The input of a call for a flush, and estimated input, do not count as a measured window.
            self.input + (event.input or max(total - event.output, 0)),
            self.output + event.output,
            self.cached + event.cached,
            self.total + total,
            (self.cost or 0.0) + event.cost if event.cost else self.cost,
            self.priced + bool(event.cost),
            self.estimated + (ESTIMATED in event.extra),
        )

    def tell(self) -> str:
        """Return the tokens and cost in a few words for people."""
        about = "about " if self.estimated else ""
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        text = f"{about}{self.input:,} tokens in, {self.output:,} out, {calls}"
        if self.cost is None:
            return text
        part = f" for {self.priced:,} of them" if self.priced < self.calls else ""
        return f"{text}, ${self.cost:.4f}{part}"


NO_USAGE = Usage()
ESTIMATED = "about"  # the field that marks a call whose tokens are an estimate


def usage_of(events: Iterable[Event | TornLine]) -> Usage:
    """Return the tokens and cost of a session, added up over all its calls."""
    found = Usage()
    for event in events:
        if isinstance(event, Used):
            found = found.add(event)
    return found


def start_of(events: Iterable[Event | TornLine]) -> Started | None:
    """Return the event that began the session."""
    return next((event for event in events if isinstance(event, Started)), None)


def end_of(events: Iterable[Event | TornLine]) -> Ended | None:
    """Return the event that ended the session; None while it goes on, or when a message followed the end."""
    found: Ended | None = None
    for event in events:
        if isinstance(event, Ended):
            found = event
        elif isinstance(event, MessageEvent | Started):
            found = None
    return found


def name_of(events: Iterable[Event | TornLine]) -> str:
    """Return a session's name: the last name given to it, else a name made from its first real request."""
    given_name = derived_name = ""
    for event in events:
        if isinstance(event, Renamed | Started):
            given_name = event.name or given_name
        elif isinstance(event, MessageEvent) and not derived_name and not given_name:
            derived_name = transcripts.name_from(event.message)
    return given_name or derived_name
