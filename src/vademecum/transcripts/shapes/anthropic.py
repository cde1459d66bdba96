"""Convert messages of Anthropic's Messages API: text or blocks, with tool results in user messages.

A user message with tool results and text becomes several of our messages, which are joined again on the way
back. Blocks of Anthropic's own servers (`server_tool_use` and the like) need no answer and are kept opaque.
"""

from __future__ import annotations

from itertools import groupby
from typing import TYPE_CHECKING

from vademecum.transcripts import shapes
from vademecum.transcripts.messages import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.transcripts.messages import Json, Part

name = "anthropic"

_ROLES = {"system": Role.SYSTEM, "user": Role.USER, "assistant": Role.ASSISTANT}
_MARKS = {"tool_use", "tool_result", "thinking", "redacted_thinking", "server_tool_use", "image", "document"}


def read(messages: Sequence[Json]) -> list[Message]:
    """Convert the provider's messages to ours."""
    found: list[Message] = []
    tools: dict[str, str] = {}  # the name of the tool behind each call
    for raw in shapes.objects(messages, name=name):
        pieces = _read_message(raw, tools)
        if found and found[-1].role is pieces[0].role is Role.TOOL:
            note = {**shapes.note_of(name, pieces[0]), "apart": True}
            pieces[0] = pieces[0]._replace(extra=shapes.as_extra(name, note))
        found += pieces
    return found


def write(messages: Sequence[Message]) -> list[Json]:
    """Convert our messages to the provider's; the results of one turn go into one message."""
    return [item for group in shapes.group_messages(messages, _joins) for item in _write_group(group)]


def recognises(messages: Sequence[Json]) -> bool:
    """Whether the messages contain blocks that only Anthropic has."""
    blocks = [
        block
        for each in messages
        if shapes.text_of(each.get("role")) in _ROLES and isinstance(each.get("content"), list)
        for block in each["content"]
        if isinstance(block, dict)
    ]
    return any(shapes.text_of(block.get("type")) in _MARKS or "cache_control" in block for block in blocks)


def _read_message(raw: dict[str, Json], tools: dict[str, str]) -> list[Message]:
    role = _ROLES.get(shapes.text_of(raw.get("role")))
    if role is None:
        return [Message(Role.USER, (shapes.opaque(name, "message", raw),))]
    parts, marks = shapes.content_in(raw.get("content"), lambda block: _read_block(block, tools), name=name)
    whole = Message(role, parts, id=shapes.text_of(raw.get("id")), model=shapes.text_of(raw.get("model")))
    converted = shapes.keep(name, raw, whole, _plain_message, **marks)
    if role is not Role.USER or not any(isinstance(part, ToolResult) for part in parts):
        return [converted]
    pieces = [
        Message(Role.TOOL if results else Role.USER, tuple(run), extra=shapes.as_extra(name, {"join": True}))
        for results, run in groupby(parts, key=lambda part: isinstance(part, ToolResult))
    ]
    pieces[0] = converted._replace(role=pieces[0].role, parts=pieces[0].parts)
    return pieces


def _joins(before: Message, message: Message) -> bool:
    if (
        not (_role(before) == _role(message) == "user")
        or shapes.whole(name, before)
        or shapes.whole(name, message)
    ):
        return False
    note = shapes.note_of(name, message)
    # All results of a turn must be in one message, unless the API accepted them in several.
    return note.get("join") is True or ("apart" not in note and before.role is message.role is Role.TOOL)


def _write_group(group: list[Message]) -> list[Json]:
    if kept := shapes.whole(name, group[0]):
        return [kept["message"]]
    whole = group[0]._replace(parts=tuple(part for each in group for part in each.parts))
    plain = _plain_message(whole)
    if whole.parts and plain["content"] == []:
        return []  # this shape can express nothing of it
    return [shapes.apply_note(plain, shapes.note_of(name, whole))]


def _role(message: Message) -> str:
    return "user" if message.role is Role.TOOL else str(message.role)


def _plain_message(message: Message) -> dict[str, Json]:
    def block(part: Part) -> Json:
        return _write_block(part, spoken=message.role is Role.ASSISTANT)

    form = shapes.note_of(name, message).get("form")
    return {"role": _role(message), "content": shapes.content_out(message.parts, block, name=name, form=form)}


def _read_block(raw: Json, tools: dict[str, str]) -> Part:
    kind = raw.get("type") if isinstance(raw, dict) else None
    if kind == "text" and isinstance(raw.get("text"), str):
        return shapes.keep(name, raw, Text(raw["text"]), _plain_text)
    if kind == "thinking" and isinstance(raw.get("thinking"), str):
        return shapes.keep(name, raw, Thinking(raw["thinking"]), _plain_thinking, kind="thinking")
    if kind == "image" and (image := _read_source(raw.get("source"))) is not None:
        return shapes.keep(name, raw, image, _plain_image)
    if kind == "tool_use" and (call := _read_call(raw)) is not None:
        tools[call.id] = call.name
        return shapes.keep(name, raw, call, _plain_call)
    if kind == "tool_result":
        return _read_result(raw, tools)
    return shapes.opaque(name, "block", raw)


def _read_source(source: Json) -> Image | None:
    if not isinstance(source, dict):
        return None
    if source.get("type") == "base64" and isinstance(source.get("data"), str):
        return Image(media_type=shapes.text_of(source.get("media_type")), data=source["data"])
    if source.get("type") == "url" and isinstance(source.get("url"), str):
        return Image(url=source["url"])
    return None


def _read_call(raw: dict[str, Json]) -> ToolCall | None:
    value = raw.get("input")
    arguments = shapes.from_object(value) if isinstance(value, dict) else ""
    if arguments is None:
        return None
    return ToolCall(shapes.text_of(raw.get("id")), shapes.text_of(raw.get("name")), arguments)


def _read_result(raw: dict[str, Json], tools: dict[str, str]) -> ToolResult:
    parts, marks = shapes.content_in(raw.get("content"), _read_content, name=name)
    call_id = shapes.text_of(raw.get("tool_use_id"))
    content = tuple(part for part in parts if isinstance(part, Text | Image | Opaque))
    found = ToolResult(call_id, content, name=tools.get(call_id, ""), error=raw.get("is_error") is True)
    return shapes.keep(name, raw, found, _plain_result, **marks)


def _read_content(raw: Json) -> shapes.Content:
    part = _read_block(raw, {}) if isinstance(raw, dict) and raw.get("type") in ("text", "image") else None
    return part if isinstance(part, Text | Image) else shapes.opaque(name, "block", raw)


def _write_block(part: Part, *, spoken: bool) -> Json:
    note = shapes.note_of(name, part)
    match part:
        case Text():
            return shapes.apply_note(_plain_text(part), note)
        case Image():
            return shapes.apply_note(_plain_image(part), note)
        case ToolCall():
            return shapes.apply_note(_plain_call(part), note)
        case ToolResult():
            return shapes.apply_note(_plain_result(part), note)
        case Thinking():
            return shapes.apply_note(_plain_thinking(part), note) if note else shapes.LEFT_OUT
        case Opaque():
            return shapes.write_opaque(name, part, spoken=spoken)


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
