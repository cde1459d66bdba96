"""Anthropic's Messages API: text or blocks, with a tool's results in the user's messages.

A user's message that brings results and says something becomes several of ours, joined again on the way
back; what Anthropic's own servers run (`server_tool_use` and the like) needs no answer and is carried opaque.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from vademecum.transcripts import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult, shapes

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.transcripts import Json, Part

name = "anthropic"

_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_MARKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "image", "document"}


def read(messages: Sequence[Json]) -> list[Message]:
    """Theirs as ours."""
    found: list[Message] = []
    tools: dict[str, str] = {}  # the name of the tool behind each call
    for given in shapes.objects(messages, name=name):
        pieces = _read_message(given, tools)
        if found and found[-1].role is pieces[0].role is Role.TOOL:
            note = {**shapes.note_of(name, pieces[0]), "apart": True}
            pieces[0] = pieces[0]._replace(extra=shapes.as_extra(name, note))
        found += pieces
    return found


def write(messages: Sequence[Message]) -> list[Json]:
    """Ours as theirs; the results of one turn come in one message."""
    return [item for group in shapes.grouped(messages, _joins) for item in _write_group(group)]


def recognises(messages: Sequence[Json]) -> bool:
    """Whether there are blocks that only Anthropic has."""
    blocks = [
        block
        for each in messages
        if shapes.text_of(each.get("role")) in _ROLES and isinstance(each.get("content"), list)
        for block in each["content"]
        if isinstance(block, dict)
    ]
    return any(shapes.text_of(block.get("type")) in _MARKS or "cache_control" in block for block in blocks)


def _read_message(given: dict[str, Json], tools: dict[str, str]) -> list[Message]:
    role = _ROLES.get(shapes.text_of(given.get("role")))
    if role is None:
        return [Message(Role.USER, (shapes.opaque(name, "message", given),))]
    parts, marks = shapes.content_in(given.get("content"), lambda block: _read_block(block, tools), name=name)
    whole = Message(role, parts, id=shapes.text_of(given.get("id")), model=shapes.text_of(given.get("model")))
    kept = shapes.keep(name, given, whole, _plain_message, **marks)
    if role is not Role.USER or not any(isinstance(part, ToolResult) for part in parts):
        return [kept]
    pieces = [
        Message(Role.TOOL if results else Role.USER, tuple(run), extra=shapes.as_extra(name, {"join": True}))
        for results, run in groupby(parts, key=lambda part: isinstance(part, ToolResult))
    ]
    pieces[0] = kept._replace(role=pieces[0].role, parts=pieces[0].parts)
    return pieces


def _joins(before: Message, message: Message) -> bool:
    if (
        not (_role(before) == _role(message) == "user")
        or shapes.whole(name, before)
        or shapes.whole(name, message)
    ):
        return False
    note = shapes.note_of(name, message)
    # All results of a turn must come in one message, unless they came in several that the API took.
    return note.get("join") is True or ("apart" not in note and before.role is message.role is Role.TOOL)


def _write_group(group: list[Message]) -> list[Json]:
    if kept := shapes.whole(name, group[0]):
        return [kept["message"]]
    whole = group[0]._replace(parts=tuple(part for each in group for part in each.parts))
    plain = _plain_message(whole)
    if whole.parts and plain["content"] == []:
        return []  # nothing in it that this shape can say
    return [shapes.restored(plain, shapes.note_of(name, whole))]


def _role(message: Message) -> str:
    return "user" if message.role is Role.TOOL else str(message.role)


def _plain_message(message: Message) -> dict[str, Json]:
    def block(part: Part) -> Json:
        return _write_block(part, spoken=message.role is Role.ASSISTANT)

    form = shapes.note_of(name, message).get("form")
    return {"role": _role(message), "content": shapes.content_out(message.parts, block, name=name, form=form)}


def _read_block(given: Json, tools: dict[str, str]) -> Part:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind == "text" and isinstance(given.get("text"), str):
        return shapes.keep(name, given, Text(given["text"]), _plain_text)
    if kind == "thinking" and isinstance(given.get("thinking"), str):
        return shapes.keep(name, given, Thinking(given["thinking"]), _plain_thinking, kind="thinking")
    if kind == "image" and (image := _read_source(given.get("source"))) is not None:
        return shapes.keep(name, given, image, _plain_image)
    if kind == "tool_use" and (call := _read_call(given)) is not None:
        tools[call.id] = call.name
        return shapes.keep(name, given, call, _plain_call)
    if kind == "tool_result":
        return _read_result(given, tools)
    return shapes.opaque(name, "block", given)


def _read_source(source: Json) -> Image | None:
    if not isinstance(source, dict):
        return None
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return Image(media_type=shapes.text_of(source.get("media_type")), data=source["data"])
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Image(url=source["url"])
    return None


def _read_call(given: dict[str, Json]) -> ToolCall | None:
    value = given.get("input")
    arguments = shapes.from_object(value) if isinstance(value, dict) else ""
    if arguments is None:
        return None
    return ToolCall(shapes.text_of(given.get("id")), shapes.text_of(given.get("name")), arguments)


def _read_result(given: dict[str, Json], tools: dict[str, str]) -> ToolResult:
    parts, marks = shapes.content_in(given.get("content"), _read_content, name=name)
    answered = shapes.text_of(given.get("tool_use_id"))
    content = tuple(part for part in parts if isinstance(part, Text | Image | Opaque))
    found = ToolResult(answered, content, name=tools.get(answered, ""), error=given.get("is_error") is True)
    return shapes.keep(name, given, found, _plain_result, **marks)


def _read_content(given: Json) -> shapes.Content:
    part = (
        _read_block(given, {}) if isinstance(given, dict) and given.get("type") in ("text", "image") else None
    )
    return part if isinstance(part, Text | Image) else shapes.opaque(name, "block", given)


def _write_block(part: Part, *, spoken: bool) -> Json:
    note = shapes.note_of(name, part)
    match part:
        case Text():
            return shapes.restored(_plain_text(part), note)
        case Image():
            return shapes.restored(_plain_image(part), note)
        case ToolCall():
            return shapes.restored(_plain_call(part), note)
        case ToolResult():
            return shapes.restored(_plain_result(part), note)
        case Thinking():
            return shapes.restored(_plain_thinking(part), note) if note else shapes.LEFT_OUT
        case Opaque():
            return shapes.written_opaque(name, part, spoken=spoken)


def _plain_text(part: Text) -> dict[str, Json]:
    return {"type": "text", "text": part.text}


def _plain_thinking(part: Thinking) -> dict[str, Json]:
    return {"type": "thinking", "thinking": part.text}


def _plain_image(part: Image) -> dict[str, Json]:
    if part.data:
        return {
            "type": "image",
            "source": {"type": "base64", "media_type": part.media_type, "data": part.data},
        }
    return {"type": "image", "source": {"type": "url", "url": part.url}}


def _plain_call(part: ToolCall) -> dict[str, Json]:
    return {"type": "tool_use", "id": part.id, "name": part.name, "input": shapes.to_object(part.arguments)}


def _plain_result(part: ToolResult) -> dict[str, Json]:
    def block(each: Part) -> Json:
        return _write_block(each, spoken=False)

    form = shapes.note_of(name, part).get("form")
    content = shapes.content_out(part.content, block, name=name, form=form)
    made: dict[str, Json] = {"type": "tool_result", "tool_use_id": part.id, "content": content}
    return {**made, "is_error": True} if part.error else made
