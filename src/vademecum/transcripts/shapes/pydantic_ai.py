"""pydantic-ai's ModelRequest and ModelResponse, as its own JSON (`ModelMessagesTypeAdapter`, mode="json").

A request with system prompts, user text and results becomes one message of ours for each; consecutive ones
are joined to one request on the way back. A user prompt may hold several of our parts: its other fields are
noted on the first part, as `part`, which also marks where the next prompt begins. This module knows the JSON
only and never imports the library.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.transcripts import shapes
from vademecum.transcripts.messages import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from vademecum.transcripts.messages import Json, Part

name = "pydantic_ai"

_RETRIES = ("retry-prompt", "retry-feedback")
_FILES = {"image-url", "audio-url", "video-url", "document-url", "binary", "uploaded-file"}
_UTC = re.compile(r"(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d)(\.\d+)?Z")
_URL_SAFE = str.maketrans("+/", "-_")  # pydantic writes bytes in the other alphabet of base64
_STANDARD = str.maketrans("-_", "+/")


def read(messages: Sequence[Json]) -> list[Message]:
    """Convert the provider's messages to ours."""
    found: list[Message] = []
    for raw in shapes.objects(messages, name=name):
        pieces = _read_message(raw)
        if found and _in_request(found[-1]) and _in_request(pieces[0]) and not pieces[0].extra:
            pieces[0] = pieces[0]._replace(extra=shapes.as_extra(name, {"apart": True}))
        found += pieces
    return found


def write(messages: Sequence[Message]) -> list[Json]:
    """Convert our messages to the provider's."""
    tools = {call.id: call.name for message in messages for call in message.calls}
    return [item for group in shapes.group_messages(messages, _joins) for item in _write_group(group, tools)]


def recognises(messages: Sequence[Json]) -> bool:
    """Whether all messages are requests or responses of pydantic-ai."""
    return all(
        each.get("kind") in ("request", "response") and isinstance(each.get("parts"), list)
        for each in messages
    )


def _in_request(message: Message) -> bool:
    """Whether a message belongs in a request."""
    return message.role is not Role.ASSISTANT and not shapes.whole(name, message)


def _joins(before: Message, message: Message) -> bool:
    return _in_request(before) and _in_request(message) and not shapes.note_of(name, message)


def _read_message(raw: dict[str, Json]) -> list[Message]:
    listed = raw.get("parts")
    if raw.get("kind") not in ("request", "response") or not isinstance(listed, list):
        return [Message(Role.USER, (shapes.opaque(name, "message", raw),))]
    if raw["kind"] == "response":
        parts = tuple(_read_response_part(each) for each in listed)
        time = _UTC.fullmatch(shapes.text_of(raw.get("timestamp")))
        whole = Message(
            Role.ASSISTANT,
            parts,
            id=shapes.text_of(raw.get("provider_response_id")),
            time=f"{time[1]}Z" if time else "",
            model=shapes.text_of(raw.get("model_name")),
        )
        plain = _plain_response(whole, {})
        return [whole._replace(extra=shapes.as_extra(name, shapes.difference(raw, plain)))]
    pieces: list[tuple[Role, list[Part]]] = []
    for each in listed:
        role, asked = _read_request_part(each, inside=bool(pieces) and _in_prompt(pieces[-1][1][-1]))
        role = role or (pieces[-1][0] if pieces else Role.USER)
        if not pieces or pieces[-1][0] is not role:
            pieces.append((role, []))
        pieces[-1][1].extend(asked)
    made = [Message(role, tuple(parts)) for role, parts in pieces] or [Message(Role.USER, ())]
    made[0] = made[0]._replace(extra=shapes.as_extra(name, shapes.difference(raw, _plain_request(made, {}))))
    return made


def _in_prompt(part: Part) -> bool:
    """Whether a part stands inside a user prompt, so that the next prompt must be marked as a new one."""
    note = shapes.note_of(name, part)
    if isinstance(part, Opaque):
        return "block" in note
    return isinstance(part, Text | Image) and note.get("kind", "text-content") == "text-content"


def _read_request_part(raw: Json, *, inside: bool) -> tuple[Role | None, list[Part]]:
    """Return one request part as parts of ours, and their role; the role is None if any role fits."""
    kind = raw.get("part_kind") if isinstance(raw, dict) else None
    if kind == "system-prompt" and isinstance(raw.get("content"), str):
        return Role.SYSTEM, [shapes.keep(name, raw, Text(raw["content"]), _plain_words, kind=kind)]
    if kind == "user-prompt" and (parts := _read_prompt(raw, inside=inside)):
        return Role.USER, parts
    if kind == "tool-return" or (kind == "retry-prompt" and isinstance(raw.get("tool_name"), str)):
        return Role.TOOL, [_read_result(raw)]
    if kind in _RETRIES and (content := _content_in(raw.get("content"))) is not None:
        texts, marks = content
        if len(texts) == 1 and isinstance(texts[0], Text):
            return Role.USER, [shapes.keep(name, raw, Text(texts[0].text), _plain_words, kind=kind, **marks)]
    return None, [shapes.opaque(name, "part", raw)]


def _read_prompt(raw: dict[str, Json], *, inside: bool) -> list[Part]:
    parts, marks = shapes.content_in(raw.get("content"), _read_block, name=name)
    if not parts:
        return []
    note = {**marks, **shapes.difference(raw, _plain_prompt(parts, form=marks.get("form")))}
    if not note and not inside:
        return list(parts)
    marked = {name: {**shapes.note_of(name, parts[0]), "part": note}}
    first = parts[0]
    return [Opaque(marked) if isinstance(first, Opaque) else first._replace(extra=marked), *parts[1:]]


def _read_block(raw: Json) -> Part:
    if isinstance(raw, str):
        return Text(raw)
    kind = raw.get("kind") if isinstance(raw, dict) else None
    if kind == "text-content" and isinstance(raw.get("content"), str):
        return shapes.keep(name, raw, Text(raw["content"]), _plain_text_content, kind=kind)
    image = _read_image(raw)
    return shapes.opaque(name, "block", raw) if image is None else shapes.keep(name, raw, image, _plain_image)


def _read_image(raw: Json) -> Image | None:
    if not isinstance(raw, dict):
        return None
    media = shapes.text_of(raw.get("media_type"))
    if raw.get("kind") == "image-url" and isinstance(raw.get("url"), str):
        return Image(media_type=media, url=raw["url"])
    if raw.get("kind") == "binary" and media.startswith("image/") and shapes.text_of(raw.get("data")):
        return Image(media_type=media, data=raw["data"].translate(_STANDARD))
    return None


def _read_result(raw: dict[str, Json]) -> ToolResult:
    retry = raw["part_kind"] == "retry-prompt"
    parts, marks = _content_in(raw.get("content")) or ((), {})
    content = tuple(part for part in parts if isinstance(part, Text | Image | Opaque))
    found = ToolResult(
        shapes.text_of(raw.get("tool_call_id")),
        content,
        name=shapes.text_of(raw.get("tool_name")),
        error=retry or raw.get("outcome") in ("failed", "denied", "interrupted", "retried"),
    )
    if retry:
        marks = {**marks, "kind": "retry-prompt"}
    if not found.name:
        marks = {**marks, "unnamed": True}
    return shapes.keep(name, raw, found, lambda part: _plain_result(part, {}), **marks)


def _content_in(value: Json) -> tuple[tuple[Part, ...], dict[str, Json]] | None:
    """Convert content to parts and marks; None if JSON cannot express it or it is None.

    Texts and files are converted as such, every other value to its JSON text.
    """
    shown = isinstance(value, list) and (
        all(isinstance(each, str) for each in value) or any(map(_is_file, value))
    )
    if isinstance(value, str) or shown:
        return shapes.content_in(value, _read_block, name=name)
    if _is_file(value):
        return (_read_block(value),), {"form": "file"}
    text = None if value is None else shapes.dumps(value)
    return None if text is None else ((Text(text),), {"form": "json"})


def _is_file(value: Json) -> bool:
    return isinstance(value, dict) and shapes.text_of(value.get("kind")) in _FILES


def _content_out(parts: Sequence[Part], form: Json) -> Json:
    if form == "json" and len(parts) == 1 and isinstance(parts[0], Text):
        value = shapes.loads(parts[0].text)
        return parts[0].text if value is None else value
    made = shapes.content_out(parts, _write_block, name=name, form=form)
    return made[0] if form == "file" and isinstance(made, list) and len(made) == 1 else made


def _read_response_part(raw: Json) -> Part:
    kind = raw.get("part_kind") if isinstance(raw, dict) else None
    if kind == "text" and isinstance(raw.get("content"), str):
        return shapes.keep(name, raw, Text(raw["content"]), _plain_response_text)
    if kind == "thinking" and isinstance(raw.get("content"), str):
        return shapes.keep(name, raw, Thinking(raw["content"]), _plain_thinking, kind="thinking")
    if kind == "tool-call":
        arguments, marks = shapes.arguments_in(raw.get("args"))
        call = ToolCall(
            shapes.text_of(raw.get("tool_call_id")), shapes.text_of(raw.get("tool_name")), arguments
        )
        return shapes.keep(name, raw, call, _plain_call, **marks)
    if kind == "file" and (image := _read_image(raw.get("content"))) is not None:
        return shapes.keep(name, raw, image, _plain_file)
    return shapes.opaque(name, "part", raw)


def _write_group(group: list[Message], tools: Mapping[str, str]) -> list[Json]:
    if whole_note := shapes.whole(name, group[0]):
        return [whole_note["message"]]
    is_response = group[0].role is Role.ASSISTANT
    plain = _plain_response(group[0], tools) if is_response else _plain_request(group, tools)
    if not plain["parts"] and any(each.parts for each in group):
        return []  # this shape can express nothing of it
    return [shapes.apply_note(plain, shapes.note_of(name, group[0]))]


def _plain_request(group: Sequence[Message], tools: Mapping[str, str]) -> dict[str, Json]:
    return {
        "kind": "request",
        "parts": [part for each in group for part in _write_request_parts(each, tools)],
    }


def _plain_response(message: Message, tools: Mapping[str, str]) -> dict[str, Json]:
    written = [_write_part(part, tools) for part in message.parts]
    made: dict[str, Json] = {
        "kind": "response",
        "parts": [each for each in written if each is not shapes.LEFT_OUT],
    }
    named = {"model_name": message.model, "timestamp": message.time}
    return {**made, **{key: value for key, value in named.items() if value}}


def _write_request_parts(message: Message, tools: Mapping[str, str]) -> list[Json]:
    found: list[Json] = []
    run: list[Part] = []
    for part in message.parts:
        note = shapes.note_of(name, part)
        alone = _write_alone(part, message.role, tools)
        if run and (alone is not None or "part" in note):
            found += _write_prompt(run)
            run = []
        if alone is None:
            run.append(part)
        elif alone is not shapes.LEFT_OUT:
            found.append(alone)
    return found + _write_prompt(run)


def _write_alone(part: Part, role: Role, tools: Mapping[str, str]) -> Json:
    """Return a part as a request part of its own; None for a part that belongs in a user prompt."""
    note = shapes.note_of(name, part)
    match part:
        case Text() if "kind" in note and note["kind"] != "text-content":
            return shapes.apply_note(_plain_words(part), note)
        case Text() if role is Role.SYSTEM:
            return {"part_kind": "system-prompt", "content": part.text}
        case Text() | Image():
            return None
        case Opaque() if "block" in note or shapes.stand_in(part):
            return None
        case Opaque():
            return note.get("part", shapes.LEFT_OUT)
        case _:
            return _write_part(part, tools)


def _write_prompt(run: list[Part]) -> list[Json]:
    if not run:
        return []
    note = shapes.note_of(name, run[0]).get("part")
    note = note if isinstance(note, dict) else {}
    return [shapes.apply_note(_plain_prompt(tuple(run), form=note.get("form")), note)]


def _write_block(part: Part) -> Json:
    note = shapes.note_of(name, part)
    match part:
        case Text():
            return shapes.apply_note(_plain_text_content(part), note) if "kind" in note else part.text
        case Image():
            return shapes.apply_note(_plain_image(part), note)
        case Opaque():
            return note["block"] if "block" in note else shapes.stand_in(part) or shapes.LEFT_OUT
        case _:
            return shapes.LEFT_OUT


def _write_part(part: Part, tools: Mapping[str, str]) -> Json:
    note = shapes.note_of(name, part)
    match part:
        case Text():
            return shapes.apply_note(_plain_response_text(part), note)
        case Thinking():
            return shapes.apply_note(_plain_thinking(part), note) if note else shapes.LEFT_OUT
        case Image():
            return shapes.apply_note(_plain_file(part), note)
        case ToolCall():
            return shapes.apply_note(_plain_call(part), note)
        case ToolResult():
            return shapes.apply_note(_plain_result(part, tools), note)
        case Opaque():
            return note.get("part", shapes.LEFT_OUT)


def _plain_words(part: Text) -> dict[str, Json]:
    note = shapes.note_of(name, part)
    bare = part._replace(extra={})
    return {"part_kind": note["kind"], "content": _content_out((bare,), note.get("form"))}


def _plain_prompt(parts: tuple[Part, ...], *, form: Json) -> dict[str, Json]:
    content = shapes.content_out(parts, _write_block, name=name, form=form)
    return {"part_kind": "user-prompt", "content": content}


def _plain_text_content(part: Text) -> dict[str, Json]:
    return {"kind": "text-content", "content": part.text}


def _plain_image(part: Image) -> dict[str, Json]:
    if part.data:
        return {"kind": "binary", "media_type": part.media_type, "data": part.data.translate(_URL_SAFE)}
    made = {"kind": "image-url", "url": part.url}
    return {**made, "media_type": part.media_type} if part.media_type else made


def _plain_response_text(part: Text) -> dict[str, Json]:
    return {"part_kind": "text", "content": part.text}


def _plain_thinking(part: Thinking) -> dict[str, Json]:
    return {"part_kind": "thinking", "content": part.text}


def _plain_file(part: Image) -> dict[str, Json]:
    return {"part_kind": "file", "content": _plain_image(part)}


def _plain_call(part: ToolCall) -> dict[str, Json]:
    args = shapes.arguments_out(part, shapes.note_of(name, part).get("form"))
    return {"part_kind": "tool-call", "tool_name": part.name, "args": args, "tool_call_id": part.id}


def _plain_result(part: ToolResult, tools: Mapping[str, str]) -> dict[str, Json]:
    note = shapes.note_of(name, part)
    retry = note.get("kind") == "retry-prompt"
    made: dict[str, Json] = {
        "part_kind": "retry-prompt" if retry else "tool-return",
        "tool_name": part.name if part.name or "unnamed" in note else tools.get(part.id, ""),
        "content": _content_out(part.content, note.get("form")),
        "tool_call_id": part.id,
    }
    return {**made, "outcome": "failed"} if part.error and not retry else made
