"""Messages in the shapes of providers and frameworks: there and back without loss.

What a shape has beyond our fields travels beside them, and is put back. A reader makes our part, writes it
again in the plainest way, and keeps only what differs, as a *note* in `extra[shape]`. So a note does not
repeat what our fields say, never reaches another shape, and never overrules a field that somebody changed
meanwhile: each difference applies only while the plain form is still the one it was found against.

    more      {key: value}           only the given had it
    instead   {key: [plain, given]}  both had it, with other values
    absent    {key: plain}           only the plain form had it
    within    {key: note}            both had an object there

A shape adds marks of its own (`form`, `kind`, …) to the same note.
"""

from __future__ import annotations

import json
import math
import re
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias, TypeVar, cast

from vademecum.errors import UnknownName, UsageError
from vademecum.transcripts import (
    NOTHING,
    Image,
    Json,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.transcripts import Part

# Those whose marks are plainest come first; plain `{role, content}` fits several and goes to the last.
NAMES = ("pydantic_ai", "openai_responses", "anthropic", "openai_chat")


class Shape(Protocol):
    """There and back: `write(read(x)) == x` for every list of JSON objects."""

    @property
    def name(self) -> str:
        """As it is called, and the key of what it keeps in `extra` and `Opaque`."""

    def read(self, messages: Sequence[Json]) -> list[Message]:
        """Theirs as ours; a UsageError for what is not a list of objects."""

    def write(self, messages: Sequence[Message]) -> list[Json]:
        """Ours as theirs, whichever shape they were read from."""

    def recognises(self, messages: Sequence[Json]) -> bool:
        """Whether these bear the marks of this shape."""


def shape(name: str) -> Shape:
    """The shape of that name."""
    if name not in NAMES:
        raise UnknownName(f"unknown message shape {name!r}", hint=f"use one of {', '.join(NAMES)}")
    family = import_module(f"{__name__}.{'openai' if name.startswith('openai_') else name}")
    return cast("Shape", getattr(family, name, family))  # one of a provider's two, or the module itself


def recognise(messages: Sequence[Json]) -> Shape | None:
    """The shape these messages are in; None where nothing tells."""
    if not isinstance(messages, list | tuple) or not messages:
        return None
    if not all(isinstance(each, dict) for each in messages):
        return None
    return next((each for each in map(shape, NAMES) if each.recognises(messages)), None)


def objects(messages: Sequence[Json], *, name: str) -> Sequence[dict[str, Json]]:
    """The same messages, once it is sure that they are a list of objects."""
    hint = "pass the list that the provider's API expects"
    if not isinstance(messages, list | tuple):
        kind = type(messages).__name__
        raise UsageError(f"{name} messages must be a list of objects, not {kind}", hint=hint)
    for number, each in enumerate(messages):
        if not isinstance(each, dict):
            kind = type(each).__name__
            raise UsageError(f"{name} message {number} must be an object, not {kind}", hint=hint)
    return messages


# -------------------------------------------------------------------- notes, and what shapes share


Note: TypeAlias = "Mapping[str, Json]"
Content: TypeAlias = "Text | Image | Opaque"
Kept = TypeVar("Kept", Text, Thinking, Image, ToolCall, ToolResult, Message)

LEFT_OUT: Json = object()  # what a writer makes of a part that its shape has no place for
INVALID_JSON = "INVALID_JSON"  # pydantic-ai's word for the same need
_DATA_URL = re.compile(r"data:([^;,]*);base64,(.+)", re.DOTALL)


# As providers and agents write it; the older words among them are OpenAI's.
ROLES: Mapping[str, Role] = {
    **{str(role): role for role in Role},
    "developer": Role.SYSTEM,
    "function": Role.TOOL,
}


def note_of(name: str, part: Part | Message) -> Note:
    """What a shape noted on a part; nothing where it was read from elsewhere."""
    return _object(part.value if isinstance(part, Opaque) else part.extra, name)


def as_extra(name: str, note: Note) -> Mapping[str, Json]:
    """A note as a part carries it."""
    return {name: dict(note)} if note else NOTHING


def keep(
    name: str, given: Mapping[str, Json], part: Kept, plain: Callable[[Kept], dict[str, Json]], **marks: Json
) -> Kept:
    """The part, with a note of the marks and of all that its plain form does not say."""
    marked = part._replace(extra=as_extra(name, marks))
    return part._replace(extra=as_extra(name, {**marks, **difference(given, plain(marked))}))


def difference(given: Mapping[str, Json], plain: Mapping[str, Json]) -> dict[str, Json]:
    """What turns the plain form into the given one."""
    note: dict[str, Json] = {
        "more": {key: value for key, value in given.items() if key not in plain},
        "instead": {},
        "absent": {key: value for key, value in plain.items() if key not in given},
        "within": {},
    }
    for key, value in plain.items():
        if key in given and not same(value, given[key]):
            if isinstance(value, dict) and isinstance(given[key], dict):
                note["within"][key] = difference(given[key], value)
            else:
                note["instead"][key] = [value, given[key]]
    return {key: value for key, value in note.items() if value}


def restored(plain: Mapping[str, Json], note: Note) -> dict[str, Json]:
    """The plain form with every difference that still applies."""
    made = {**_object(note, "more"), **plain}
    for key, before in _object(note, "absent").items():
        if key in plain and same(plain[key], before):
            del made[key]
    for key, pair in _object(note, "instead").items():
        if key in plain and isinstance(pair, list) and len(pair) == 2 and same(plain[key], pair[0]):
            made[key] = pair[1]
    for key, inner in _object(note, "within").items():
        if isinstance(plain.get(key), dict) and isinstance(inner, dict):
            made[key] = restored(plain[key], inner)
    return made


def same(one: Json, other: Json) -> bool:
    """Equal as JSON: 1, 1.0 and true are three things. Works at any depth."""
    pairs = [(one, other)]
    while pairs:
        left, right = pairs.pop()
        if left is right:
            continue
        if type(left) is not type(right):
            return False
        if isinstance(left, dict):
            if left.keys() != right.keys():
                return False
            pairs += [(value, right[key]) for key, value in left.items()]
        elif isinstance(left, list):
            if len(left) != len(right):
                return False
            pairs += zip(left, right, strict=True)
        elif left != right:
            return False
    return True


def opaque(name: str, kind: str, value: Json, **marks: Json) -> Opaque:
    """Something of a shape's own: a `block` among others, or a whole `message`, `item`, `part` or `call`."""
    return Opaque({name: {kind: value, **marks}})


def stand_in(part: Opaque) -> str:
    """What is said in place of content that only another shape has; nothing for its bookkeeping."""
    notes = part.value if isinstance(part.value, dict) else NOTHING
    for origin, note in notes.items():
        if isinstance(note, dict) and "block" in note:
            block = _object(note, "block")
            kind = text_of(block.get("type")) or text_of(block.get("kind")) or "content"
            return f"[{kind} left out: {origin} only]"
    return ""


def written_opaque(name: str, part: Opaque, *, spoken: bool, kind: str = "text") -> Json:
    """The block it came as; from another shape, words in its place, though never in a model's mouth."""
    note = note_of(name, part)
    if "block" in note:
        return note["block"]
    words = "" if spoken else stand_in(part)
    return {"type": kind, "text": words} if words else LEFT_OUT


def whole(name: str, message: Message) -> Note:
    """What a message of theirs that we know nothing of was, as `message`; nothing for every other."""
    note = note_of(name, message.parts[0]) if len(message.parts) == 1 else NOTHING
    return note if "message" in note else NOTHING


def grouped(
    messages: Iterable[Message], joins: Callable[[Message, Message], bool]
) -> Iterator[list[Message]]:
    """Messages of ours that are one of theirs, together."""
    group: list[Message] = []
    for message in messages:
        if group and not joins(group[-1], message):
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def text_of(value: Json) -> str:
    """The value if it is text."""
    return value if isinstance(value, str) else ""


def content_in(
    value: Json, block: Callable[[Json], Part], *, name: str
) -> tuple[tuple[Part, ...], dict[str, Json]]:
    """Content that is text or a list of blocks, as parts and the marks for the way back."""
    if isinstance(value, str):
        return ((Text(value),) if value else ()), {}
    if not isinstance(value, list):
        return (), {}
    parts = tuple(block(each) for each in value)
    return parts, {"form": "list"} if is_plain(parts, name=name) else {}


def content_out(
    parts: Iterable[Part], block: Callable[[Part], Json], *, name: str, form: Json = None
) -> str | list[Json]:
    """Parts as text where that says it all and no list was asked for, else as a list of blocks."""
    given = tuple(parts)
    written = [(part, made) for part in given if (made := block(part)) is not LEFT_OUT]
    said = tuple(part for part, _ in written)
    if form != "list" and is_plain(said, name=name) and bool(said) == bool(given):
        return "".join(part.text for part in said if isinstance(part, Text))
    return [made for _, made in written]


def is_plain(parts: tuple[Part, ...], *, name: str) -> bool:
    """Whether text alone says it all: nothing, or one text of which the shape noted nothing."""
    return not parts or (len(parts) == 1 and isinstance(parts[0], Text) and not _own_block(name, parts[0]))


def _own_block(name: str, part: Part) -> bool:
    return any(key not in ("item", "part") for key in note_of(name, part))


def data_url(image: Image) -> str:
    """A picture's address; its bytes become one."""
    return f"data:{image.media_type};base64,{image.data}" if image.data else image.url


def from_url(url: str) -> Image:
    """A picture by its address, which may hold its bytes."""
    found = _DATA_URL.fullmatch(url)
    return Image(media_type=found[1], data=found[2]) if found else Image(url=url)


def dumps(value: Json) -> str | None:
    """A value as JSON text; None for what JSON cannot say or nests too deep.

    Not escaped to ASCII: two lone surrogates side by side would come back as one character.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None


def loads(text: str) -> Json:
    """The value of a JSON text; None for what is none, or holds numbers that JSON does not have."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def to_object(arguments: str) -> dict[str, Json]:
    """Arguments as an object; those that are none go under one key, and `from_object` finds them there."""
    if not arguments:
        return {}
    value = loads(arguments)
    return value if isinstance(value, dict) and not _is_escape(value) else {INVALID_JSON: arguments}


def from_object(value: dict[str, Json]) -> str | None:
    """An object as arguments: the other way round; None for what cannot be written as text."""
    return str(value[INVALID_JSON]) if _is_escape(value) else dumps(value)


def arguments_in(value: Json) -> tuple[str, dict[str, Json]]:
    """Arguments that should be text and may be an object, and the marks for the way back."""
    text = dumps(value) if isinstance(value, dict) else None
    return (text_of(value), {}) if text is None else (text, {"form": "object"})


def arguments_out(call: ToolCall, form: Json) -> Json:
    """Arguments as text, or as the object they were."""
    value = loads(call.arguments) if form == "object" else None
    return value if isinstance(value, dict) else call.arguments


def free_text(arguments: str) -> str:
    """What a tool that takes free text was given."""
    value = loads(arguments)
    only = isinstance(value, dict) and value.keys() == {"input"} and isinstance(value["input"], str)
    return str(value["input"]) if only else arguments


def _is_escape(value: Mapping[str, Json]) -> bool:
    if value.keys() != {INVALID_JSON} or not isinstance(value[INVALID_JSON], str) or not value[INVALID_JSON]:
        return False
    inner = loads(value[INVALID_JSON])
    return not isinstance(inner, dict) or _is_escape(inner)


def _object(value: Mapping[str, Json], key: str) -> Mapping[str, Json]:
    found = value.get(key) if isinstance(value, dict) else None
    return found if isinstance(found, dict) else NOTHING


def _refuse(word: str) -> NoReturn:
    raise ValueError(word)


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(digits)
    return number
