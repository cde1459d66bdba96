"""What happens in a session, as values and as lines of JSON, and what it amounts to.

Knows one line at a time, and nothing of files. What a newer version wrote is carried along as it is: fields
in `extra`, whole events as `Unknown`. What events amount to is told by pure functions over them, in the order
of the log; torn lines and unknown events count for nothing. A window is replayed, never kept: whoever sends
one writes down each decision, and the same decisions give the same messages, byte for byte.
"""

from __future__ import annotations

import json
from dataclasses import MISSING, dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple, TypeAlias

from vademecum import transcripts
from vademecum.transcripts import (
    NOTHING,
    Json,
    Message,
    Opaque,
    Role,
    Text,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    Shorten = Callable[[Sequence[Message], Sequence["Pruned | Trimmed"]], Sequence[Message]]

LARGEST = 64 * 1024 * 1024  # bytes of a line that are read

Items: TypeAlias = "tuple[Mapping[str, Json], ...]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """What every event has: its number in the log, its time and an id that nothing else has."""

    kind: ClassVar[str] = ""

    seq: int = 0
    time: str = ""
    id: str = ""
    extra: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Started(Event):
    """A session begins."""

    kind: ClassVar[str] = "started"

    cwd: str = ""
    name: str = ""
    created: str = ""
    model: str = ""
    agent: str = ""
    audience: str = ""
    project: str = ""


@dataclass(frozen=True, slots=True)
class Said(Event):
    """A message. Later events name it by the id of this event, or by its own where no other has that."""

    kind: ClassVar[str] = "message"

    message: Message


@dataclass(frozen=True, slots=True)
class Used(Event):
    """What a call cost, as the provider counted it."""

    kind: ClassVar[str] = "usage"

    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float = 0.0
    model: str = ""


@dataclass(frozen=True, slots=True)
class Pruned(Event):
    """From now on results in these messages are sent shorter: which messages, and how.

    Who decided writes all that is needed to do it again into `decisions`, so that the same bytes are sent
    when settings have changed meanwhile.
    """

    kind: ClassVar[str] = "pruned"

    ids: tuple[str, ...] = field(default=(), metadata={"of": str})
    how: str = ""
    decisions: Items = field(default=(), metadata={"of": dict})


TAKEN_BACK = "taken back"  # the host's thread no longer has them: no drop, and no cycle ends with it


@dataclass(frozen=True, slots=True)
class Trimmed(Event):
    """These messages left the window; `decisions`, as in `Pruned`, for those that stay and were cut."""

    kind: ClassVar[str] = "trimmed"

    ids: tuple[str, ...] = field(default=(), metadata={"of": str})
    why: str = ""
    decisions: Items = field(default=(), metadata={"of": dict})


@dataclass(frozen=True, slots=True)
class Flushed(Event):
    """A flush turn ended: `written`, `nothing`, `skipped:<why>` or `failed:<why>`."""

    kind: ClassVar[str] = "flushed"

    outcome: str = ""


PROGRESS = "session_progress"  # by which the newest checkpoint of a session is asked for


@dataclass(frozen=True, slots=True)
class Checkpoint(Event):
    """Where the work stands."""

    kind: ClassVar[str] = "checkpoint"

    task: str = ""
    todo: Items = field(default=(), metadata={"of": dict})
    tools: tuple[str, ...] = field(
        default=(), metadata={"of": str}
    )  # the newest calls, as a person reads them
    iteration: int = 0


@dataclass(frozen=True, slots=True)
class Summary(Event):
    """A summary made without a model; it takes the place of the one before it."""

    kind: ClassVar[str] = "summary"

    text: str = ""
    role: str = str(Role.SYSTEM)


@dataclass(frozen=True, slots=True)
class Compacted(Event):
    """A summary took the place of these messages, and of the summary before it.

    Without `covers`, everything before `first_kept` is meant but the system messages it begins with.
    """

    kind: ClassVar[str] = "compacted"

    text: str = ""
    covers: tuple[str, ...] = field(default=(), metadata={"of": str})
    first_kept: str = ""
    role: str = str(Role.SYSTEM)


@dataclass(frozen=True, slots=True)
class Todo(Event):
    """The list of things to do, as it now is, and the next number to give."""

    kind: ClassVar[str] = "todo"

    items: Items = field(default=(), metadata={"of": dict})
    next: int = 0


@dataclass(frozen=True, slots=True)
class Renamed(Event):
    """The session has another name."""

    kind: ClassVar[str] = "renamed"

    name: str = ""


@dataclass(frozen=True, slots=True)
class Ended(Event):
    """The session is over: why, and where its note is (or `nothing`, `skipped:<why>`, `failed:<why>`)."""

    kind: ClassVar[str] = "ended"

    why: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Unknown(Event):
    """An event that this version does not know, or whose fields are not what it expects."""

    name: str = ""
    fields: Mapping[str, Json] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Torn:
    """A line that is none of ours: cut off, damaged, or too long."""

    why: str
    size: int


_KINDS: dict[str, type[Event]] = {
    each.kind: each
    for each in (
        *(Started, Said, Used, Pruned, Trimmed, Flushed, Checkpoint, Summary, Compacted),
        *(Todo, Renamed, Ended),
    )
}
_COMMON = {each.name for each in fields(Event)}
# The fields of a kind beyond those of all: name, default, and of what a list consists.
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
    """An event as one line, without its line end; raises ValueError or TypeError for what is no JSON."""
    return encode(to_json(event))


def encode(value: Mapping[str, Json]) -> bytes:
    """A JSON object on one line; characters stand for themselves, so that words can be looked for."""
    try:
        return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
    except UnicodeEncodeError:  # half a surrogate pair, which only an escape can hold
        return json.dumps(value, separators=(",", ":"), allow_nan=False).encode()


def to_json(event: Event) -> dict[str, Json]:
    """An event as it stands in a log: number, kind, time and id first, and nothing that is empty."""
    found: dict[str, Json] = {"seq": event.seq, "kind": event.kind, "time": event.time, "id": event.id}
    if isinstance(event, Unknown):
        found["kind"] = event.name
        found |= {**event.fields, **event.extra}
    else:
        extra = dict(event.extra)
        for name, default, _ in _FIELDS[event.kind]:
            value = getattr(event, name)
            if isinstance(value, Message):
                extra[name] = {**extra.get(name, {}), **transcripts.to_json(value)}
            elif value != default:
                extra[name] = list(value) if isinstance(value, tuple) else value
        found = {**found, **{name: value for name, value in extra.items() if name not in found}}
    return {name: value for name, value in found.items() if value != "" or name not in ("time", "id")}


def parse(line: bytes) -> Event | Torn:
    """The event on a line; never raises."""
    if len(line) > LARGEST:
        return Torn(f"longer than {LARGEST:,} bytes", len(line))
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        return Torn(str(error), len(line))
    if not isinstance(value, dict):
        return Torn("not an object", len(line))
    return from_json(value)


def from_json(value: dict[str, Json]) -> Event:
    """The event that a JSON object is; what cannot be understood is `Unknown`, and whole."""
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
    """An event of a known kind; raises when a field is not what it should be."""
    given: dict[str, Any] = {}
    extra = dict(rest)
    for name, default, of in _FIELDS[kind.kind]:
        value = extra.pop(name, None)
        if default is MISSING:
            given[name], beside = _message(value)
            if beside:
                extra[name] = beside
        elif value is not None:
            given[name] = _checked(value, default, of)
    return kind(**envelope, extra=extra, **given)


def _checked(value: Json, default: Any, of: type | None) -> Any:
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
    """A message, and what a newer version wrote beside it; a part that is not known becomes opaque."""
    try:
        message = transcripts.from_json(value)
    except (KeyError, TypeError, ValueError, AttributeError):
        parts = tuple(_part(value["role"], part) for part in value["parts"])
        message = transcripts.from_json({**value, "parts": []})._replace(parts=parts)
    else:
        if not all(map(_sound, message.parts)):
            parts = tuple(_part(value["role"], part) for part in value["parts"])
            message = message._replace(parts=parts)
    if not _sound(message):
        raise TypeError(value)
    return message, {name: each for name, each in value.items() if name not in _MESSAGE}


def _part(role: str, value: Json) -> Any:
    try:
        part = transcripts.from_json({"role": role, "parts": [value]}).parts[0]
    except (KeyError, TypeError, ValueError, AttributeError):
        return Opaque(value)
    return part if _sound(part) else Opaque(value)


def _sound(thing: Any) -> bool:
    """Whether a message or part that was read holds texts where texts belong."""
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
    ) and all(map(_sound, inner))


# -------------------------------------------------------------------- the window


def window_of(events: Iterable[Event | Torn], shorten: Shorten | None = None) -> tuple[Said, ...]:
    """What is sent now: every message that has not left, shortened as decided, the summary in its place.

    `shorten` is the function of whoever made the decisions: it gets the messages as they were said and all
    that was decided, in order, and gives back as many messages.
    """
    shown: dict[str, Said] = {}
    by_own_id: dict[str, str] = {}
    decided: list[Pruned | Trimmed] = []
    summary: Said | None = None

    def drop(gone: Iterable[str]) -> None:
        for each in gone:
            shown.pop(each if each in shown else by_own_id.get(each, ""), None)

    for event in events:
        if isinstance(event, Said):
            key = event.id or f"#{event.seq}"
            shown[key] = event
            by_own_id[event.message.id] = key
        elif isinstance(event, Pruned):
            decided.append(event)
        elif isinstance(event, Trimmed):
            drop(event.ids)
            decided += [event] if event.decisions else []
        elif isinstance(event, Compacted):
            first = event.first_kept if event.first_kept in shown else by_own_id.get(event.first_kept, "")
            drop(event.covers or _before(shown, first))
            summary = _as_message(event)
        elif isinstance(event, Summary):
            summary = _as_message(event)
    kept = _shortened(list(shown.values()), decided, shorten)
    at = _opening(kept)
    return (*kept[:at], *([summary] if summary else []), *kept[at:])


def _shortened(kept: list[Said], decided: Sequence[Pruned | Trimmed], shorten: Shorten | None) -> list[Said]:
    if shorten is None or not decided:
        return kept
    messages = shorten([each.message for each in kept], decided)
    return [
        each if message is each.message else replace(each, message=message)
        for each, message in zip(kept, messages, strict=True)
    ]


def _before(shown: Mapping[str, Said], first_kept: str) -> list[str]:
    """The messages before one, but for the system messages that everything begins with."""
    keys = list(shown)
    if not first_kept or first_kept not in shown:
        return []
    return keys[_opening(list(shown.values())) : keys.index(first_kept)]


def _opening(said: Sequence[Said]) -> int:
    """How many system messages a thread begins with."""
    return next((at for at, each in enumerate(said) if each.message.role is not Role.SYSTEM), len(said))


def _as_message(event: Summary | Compacted) -> Said:
    role = Role(event.role) if event.role in set(Role) else Role.SYSTEM
    return Said(Message(role, (Text(event.text),)), seq=event.seq, time=event.time, id=event.id)


# -------------------------------------------------------------------- the thread


_BACK = (TAKEN_BACK, "no longer in the file")  # why a message of a log is no part of its session


def read_thread(events: Iterable[Event | Torn]) -> list[Said]:
    """Everything that was said and not taken back, whatever has left the window since."""
    found: dict[str, Said] = {}
    for event in events:
        if isinstance(event, Said):
            found[event.id or f"#{event.seq}"] = event
        elif isinstance(event, Trimmed) and event.why in _BACK:
            for each in event.ids:
                found.pop(each, None)
    return list(found.values())


# -------------------------------------------------------------------- what is known of a session


class Usage(NamedTuple):
    """What all calls of a session took together; the cost is of those calls that say one."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float | None = None  # dollars; None when no call says any
    priced: int = 0  # calls that say what they cost
    estimated: int = 0  # calls that nobody counted

    def add(self, event: Used) -> Usage:
        """With one call more; one that names no total counts with what went in and came out."""
        total = event.total or event.input + event.output
        return Usage(
            self.calls + 1,
            # What was read for a flush or is only estimated stands beside: it is no window that was counted.
            self.input + (event.input or max(total - event.output, 0)),
            self.output + event.output,
            self.cached + event.cached,
            self.total + total,
            (self.cost or 0.0) + event.cost if event.cost else self.cost,
            self.priced + bool(event.cost),
            self.estimated + (ESTIMATED in event.extra),
        )

    def tell(self) -> str:
        """In a few words."""
        about = "about " if self.estimated else ""
        calls = f"{self.calls:,} call{'' if self.calls == 1 else 's'}"
        said = f"{about}{self.input:,} tokens in, {self.output:,} out, {calls}"
        if self.cost is None:
            return said
        part = f" for {self.priced:,} of them" if self.priced < self.calls else ""
        return f"{said}, ${self.cost:.4f}{part}"


NO_USAGE = Usage()
ESTIMATED = "about"  # the field of a call whose tokens are an estimate


def usage_of(events: Iterable[Event | Torn]) -> Usage:
    """The sum over all calls."""
    found = Usage()
    for event in events:
        if isinstance(event, Used):
            found = found.add(event)
    return found


def start_of(events: Iterable[Event | Torn]) -> Started | None:
    """How the session began."""
    return next((event for event in events if isinstance(event, Started)), None)


def end_of(events: Iterable[Event | Torn]) -> Ended | None:
    """How the session ended; None while it goes on, or when somebody spoke since."""
    found: Ended | None = None
    for event in events:
        if isinstance(event, Ended):
            found = event
        elif isinstance(event, Said | Started):
            found = None
    return found


def name_of(events: Iterable[Event | Torn]) -> str:
    """What the session is called: as somebody named it last, else after its first real request."""
    given = made = ""
    for event in events:
        if isinstance(event, Renamed | Started):
            given = event.name or given
        elif isinstance(event, Said) and not made and not given:
            made = transcripts.name_from(event.message)
    return given or made
