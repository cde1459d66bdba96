"""Convert messages between our format and those of providers and frameworks, without loss.

Fields that a provider's format has and ours lacks travel along and are put back. A reader converts a message
to ours, writes it back in the plainest form, and stores the difference from the original as a *note* in
`extra[shape]`. So a note repeats nothing that our fields hold, never reaches another format, and never
overrides a field that was changed meanwhile: a difference applies only while the plain form is still the one
it was computed from.

    more      {key: value}           keys that only the original has
    instead   {key: [plain, given]}  keys with another value in the original
    absent    {key: plain}           keys that only the plain form has
    within    {key: note}            keys whose value is an object in both

A shape adds keys of its own (`form`, `kind`, …) to the same note.
"""

from __future__ import annotations

import json
import math
import re
from importlib import import_module
from typing import TYPE_CHECKING, NoReturn, Protocol, TypeAlias, TypeVar, cast

from vademecum.errors import UnknownName, UsageError
from vademecum.lazy import lazy_pattern
from vademecum.transcripts.messages import (
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

    from vademecum.transcripts.messages import Part

# Shapes with the most distinctive marks come first; plain `{role, content}` fits several and goes to the
# last.
NAMES = ("pydantic_ai", "openai_responses", "anthropic", "openai_chat")


class Shape(Protocol):
    """Converts messages to and from one provider's format: `write(read(x)) == x` for every list of JSON
    objects.
    """

    @property
    def name(self) -> str:
        """The shape's name, and the key of its notes in `extra` and `Opaque`."""

    def read(self, messages: Sequence[Json]) -> list[Message]:
        """Convert a provider's messages to ours; raise UsageError unless they are a list of objects."""

    def write(self, messages: Sequence[Message]) -> list[Json]:
        """Convert our messages to the provider's, whichever shape they were read from."""

    def recognises(self, messages: Sequence[Json]) -> bool:
        """Whether these messages have the marks of this shape."""


def shape(name: str) -> Shape:
    """Return the shape with this name; raise UnknownName if there is none."""
    if name not in NAMES:
        raise UnknownName(f"unknown message shape {name!r}", hint=f"use one of {', '.join(NAMES)}")
    family = import_module(f"{__name__}.{'openai' if name.startswith('openai_') else name}")
    return cast("Shape", getattr(family, name, family))  # one of OpenAI's two shapes, or the module itself


def recognise(messages: Sequence[Json]) -> Shape | None:
    """Return the shape (provider's format) of these messages; None if it is not known."""
    if not isinstance(messages, list | tuple) or not messages:
        return None
    if not all(isinstance(each, dict) for each in messages):
        return None
    return next((each for each in map(shape, NAMES) if each.recognises(messages)), None)


def objects(messages: Sequence[Json], *, name: str) -> Sequence[dict[str, Json]]:
    """Return the messages unchanged if they are a list of JSON objects; raise UsageError otherwise."""
    hint = "pass the list that the provider's API expects"
    if not isinstance(messages, list | tuple):
        kind = type(messages).__name__
        raise UsageError(f"{name} messages must be a list of objects, not {kind}", hint=hint)
    for number, message in enumerate(messages):
        if not isinstance(message, dict):
            kind = type(message).__name__
            raise UsageError(f"{name} message {number} must be an object, not {kind}", hint=hint)
    return messages


# -------------------------------------------------------------------- notes, and helpers of all shapes


Note: TypeAlias = "Mapping[str, Json]"
Content: TypeAlias = "Text | Image | Opaque"
PartOrMessage = TypeVar("PartOrMessage", Text, Thinking, Image, ToolCall, ToolResult, Message)

LEFT_OUT: Json = object()  # a writer's result for a part that its shape cannot express
INVALID_JSON = "INVALID_JSON"  # the key that pydantic-ai uses for the same purpose
_DATA_URL = lazy_pattern(r"data:([^;,]*);base64,(.+)", re.DOTALL)


# Role names that providers and agents write; the old names among them are OpenAI's.
ROLES: Mapping[str, Role] = {
    **{str(role): role for role in Role},
    "developer": Role.SYSTEM,
    "function": Role.TOOL,
}


def note_of(name: str, part: Part | Message) -> Note:
    """Return the note that a shape left on a part; empty if another shape made the part."""
    return _object(part.value if isinstance(part, Opaque) else part.extra, name)


def as_extra(name: str, note: Note) -> Mapping[str, Json]:
    """Return a note in the form of the `extra` field of a part."""
    return {name: dict(note)} if note else NOTHING


def keep(
    name: str,
    raw: Mapping[str, Json],
    part: PartOrMessage,
    plain: Callable[[PartOrMessage], dict[str, Json]],
    **marks: Json,
) -> PartOrMessage:
    """Return a part with a note: the `marks`, and how `raw` differs from the part's `plain` form."""
    marked = part._replace(extra=as_extra(name, marks))
    return part._replace(extra=as_extra(name, {**marks, **difference(raw, plain(marked))}))


def difference(raw: Mapping[str, Json], plain: Mapping[str, Json]) -> dict[str, Json]:
    """Return the note that turns the plain form of an object into the original object."""
    note: dict[str, Json] = {
        "more": {key: value for key, value in raw.items() if key not in plain},
        "instead": {},
        "absent": {key: value for key, value in plain.items() if key not in raw},
        "within": {},
    }
    for key, value in plain.items():
        if key in raw and not same(value, raw[key]):
            if isinstance(value, dict) and isinstance(raw[key], dict):
                note["within"][key] = difference(raw[key], value)
            else:
                note["instead"][key] = [value, raw[key]]
    return {key: value for key, value in note.items() if value}


def apply_note(plain: Mapping[str, Json], note: Note) -> dict[str, Json]:
    """Return the plain form of an object with every noted difference that still applies."""
    made = {**_object(note, "more"), **plain}
    for key, before in _object(note, "absent").items():
        if key in plain and same(plain[key], before):
            del made[key]
    for key, pair in _object(note, "instead").items():
        if key in plain and isinstance(pair, list) and len(pair) == 2 and same(plain[key], pair[0]):
            made[key] = pair[1]
    for key, inner in _object(note, "within").items():
        if isinstance(plain.get(key), dict) and isinstance(inner, dict):
            made[key] = apply_note(plain[key], inner)
    return made


def same(one: Json, other: Json) -> bool:
    """Whether two values are equal as JSON: 1, 1.0 and true differ. Works at any depth."""
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
    """Wrap a value that only this shape knows; `kind` is `block`, `message`, `item`, `part` or `call`."""
    return Opaque({name: {kind: value, **marks}})


def stand_in(part: Opaque) -> str:
    """Return a text in place of a block that only another shape can express; empty for other values."""
    notes = part.value if isinstance(part.value, dict) else NOTHING
    for origin, note in notes.items():
        if isinstance(note, dict) and "block" in note:
            block = _object(note, "block")
            kind = text_of(block.get("type")) or text_of(block.get("kind")) or "content"
            return f"[{kind} left out: {origin} only]"
    return ""


def write_opaque(name: str, part: Opaque, *, spoken: bool, kind: str = "text") -> Json:
    """Return an opaque part as its original block; for another shape's block, a text of the type `kind`.

    With `spoken` (content of the model itself) another shape's block is left out without a text.
    """
    note = note_of(name, part)
    if "block" in note:
        return note["block"]
    words = "" if spoken else stand_in(part)
    return {"type": kind, "text": words} if words else LEFT_OUT


def whole(name: str, message: Message) -> Note:
    """Return the note of a message that was kept unconverted; empty for any other message."""
    note = note_of(name, message.parts[0]) if len(message.parts) == 1 else NOTHING
    return note if "message" in note else NOTHING


def group_messages(
    messages: Iterable[Message], joins: Callable[[Message, Message], bool]
) -> Iterator[list[Message]]:
    """Yield groups of neighbouring messages, each of which becomes one message of the provider.

    `joins(before, message)` says whether a message belongs to the group of the message before it.
    """
    group: list[Message] = []
    for message in messages:
        if group and not joins(group[-1], message):
            yield group
            group = []
        group.append(message)
    if group:
        yield group


def text_of(value: Json) -> str:
    """Return the value if it is text, else an empty string."""
    return value if isinstance(value, str) else ""


def content_in(
    value: Json, block: Callable[[Json], Part], *, name: str
) -> tuple[tuple[Part, ...], dict[str, Json]]:
    """Convert a provider's content (text or blocks) to parts, and return them with marks for
    converting back.
    """
    if isinstance(value, str):
        return ((Text(value),) if value else ()), {}
    if not isinstance(value, list):
        return (), {}
    parts = tuple(block(each) for each in value)
    return parts, {"form": "list"} if is_plain(parts, name=name) else {}


def content_out(
    parts: Iterable[Part], block: Callable[[Part], Json], *, name: str, form: Json = None
) -> str | list[Json]:
    """Convert parts to a provider's content: a text if that suffices, else a list of blocks.

    With the `form` "list", the content is always a list.
    """
    all_parts = tuple(parts)
    written = [(part, made) for part in all_parts if (made := block(part)) is not LEFT_OUT]
    parts_written = tuple(part for part, _ in written)
    if form != "list" and is_plain(parts_written, name=name) and bool(parts_written) == bool(all_parts):
        return "".join(part.text for part in parts_written if isinstance(part, Text))
    return [made for _, made in written]


def is_plain(parts: tuple[Part, ...], *, name: str) -> bool:
    """Whether parts can be written as a text alone: there are none, or one text without a note."""
    return not parts or (len(parts) == 1 and isinstance(parts[0], Text) and not _own_block(name, parts[0]))


def _own_block(name: str, part: Part) -> bool:
    return any(key not in ("item", "part") for key in note_of(name, part))


def image_url(image: Image) -> str:
    """Return a picture's address, which may be a `data:` URL."""
    return f"data:{image.media_type};base64,{image.data}" if image.data else image.url


def image_from_url(url: str) -> Image:
    """Return a picture from an address, which may be a `data:` URL."""
    found = _DATA_URL.fullmatch(url)
    return Image(media_type=found[1], data=found[2]) if found else Image(url=url)


def dumps(value: Json) -> str | None:
    """Return a value as JSON text; None for values that JSON does not have or that are nested too deeply.

    Characters are not escaped to ASCII: two lone surrogates next to each other would come back as one
    character.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (ValueError, RecursionError):
        return None


def loads(text: str) -> Json:
    """Return the value of a JSON text; None for invalid JSON and for numbers that JSON lacks."""
    try:
        return json.loads(text, parse_constant=_refuse, parse_float=_finite)
    except (ValueError, RecursionError):
        return None


def to_object(arguments: str) -> dict[str, Json]:
    """Return a call's arguments as an object; other text goes under one key, where `from_object` finds it."""
    if not arguments:
        return {}
    value = loads(arguments)
    return value if isinstance(value, dict) and not _is_escape(value) else {INVALID_JSON: arguments}


def from_object(value: dict[str, Json]) -> str | None:
    """Return an object as the JSON text of arguments, the inverse of `to_object`; None if JSON cannot express
    it.
    """
    return str(value[INVALID_JSON]) if _is_escape(value) else dumps(value)


def arguments_in(value: Json) -> tuple[str, dict[str, Json]]:
    """Return a call's arguments (text or object) as text, and the marks that restore the original form."""
    text = dumps(value) if isinstance(value, dict) else None
    return (text_of(value), {}) if text is None else (text, {"form": "object"})


def arguments_out(call: ToolCall, form: Json) -> Json:
    """Return a call's arguments in the form that the provider gave them: text or object."""
    value = loads(call.arguments) if form == "object" else None
    return value if isinstance(value, dict) else call.arguments


def free_text(arguments: str) -> str:
    """Return the text in arguments that hold only a text `input`; any other arguments unchanged."""
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
