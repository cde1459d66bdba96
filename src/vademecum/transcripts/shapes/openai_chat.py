"""OpenAI's Chat Completions: one message of theirs is one of ours.

Also what compatible servers add: `reasoning_content`, arguments as objects. The older `function_call` and the
`function` role have no ids; they get one here so that call and result stay a pair, and lose it going back.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts.messages import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.shapes import objects
from vademecum.transcripts.shapes import round_trip as trip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.transcripts.messages import Json, Part

name = "openai_chat"

_THOUGHTS = ("reasoning_content", "reasoning")


class _Calls:
    """The calls seen so far: the tool behind each id, and the older kind's call that waits for its result."""

    def __init__(self) -> None:
        self.tools: dict[str, str] = {}
        self.made = 0
        self.waiting = ""

    def older(self) -> str:
        """An id for a call that has none."""
        self.made += 1
        self.waiting = f"function_call_{self.made}"
        return self.waiting


def read(messages: Sequence[Json]) -> list[Message]:
    """Theirs as ours."""
    calls = _Calls()
    return [_read_message(given, calls) for given in objects(messages, name=name)]


def write(messages: Sequence[Message]) -> list[Json]:
    """Ours as theirs; pictures in results, which this API does not take there, follow as the user's."""
    found: list[Json] = []
    pictures: list[Json] = []
    for message in messages:
        if pictures and message.role is not Role.TOOL:
            found.append({"role": "user", "content": pictures})
            pictures = []
        found += _write_message(message, pictures)
    return [*found, {"role": "user", "content": pictures}] if pictures else found


def recognises(messages: Sequence[Json]) -> bool:
    """Whether all have a role, as plain messages of any provider do."""
    return all(isinstance(each.get("role"), str) for each in messages)


def _read_message(given: dict[str, Json], calls: _Calls) -> Message:
    role = trip.ROLES.get(trip.text_of(given.get("role")))
    if role is None:
        return Message(Role.USER, (trip.opaque(name, "message", given),))
    parts, marks = trip.content_in(given.get("content"), _read_block, name=name)
    if role is Role.TOOL:
        return _read_result(given, parts, marks, calls)
    if role is Role.ASSISTANT:
        parts = (*_thoughts(given), *parts, *_refusal(given), *_read_calls(given, calls))
    found = Message(role, parts, id=trip.text_of(given.get("id")), name=trip.text_of(given.get("name")))
    return trip.keep(name, given, found, _plain_message, **marks)


def _read_result(
    given: dict[str, Json], parts: tuple[Part, ...], marks: dict[str, Json], calls: _Calls
) -> Message:
    content = tuple(part for part in parts if isinstance(part, Text | Image | Opaque))
    if given["role"] == "function":
        answered, calls.waiting = calls.waiting, ""
        marks = {**marks, "kind": "function"}
        tool = trip.text_of(given.get("name"))
    else:
        answered = trip.text_of(given.get("tool_call_id"))
        tool = trip.text_of(given.get("name")) or calls.tools.get(answered, "")
    found = Message(Role.TOOL, (ToolResult(answered, content, name=tool),))
    return trip.keep(name, given, found, _plain_result_message, **marks)


def _thoughts(given: dict[str, Json]) -> tuple[Thinking, ...]:
    key = next((each for each in _THOUGHTS if trip.text_of(given.get(each))), None)
    return () if key is None else (Thinking(given[key], extra=trip.as_extra(name, {"slot": key})),)


def _refusal(given: dict[str, Json]) -> tuple[Text, ...]:
    words = trip.text_of(given.get("refusal"))
    return (Text(words, extra=trip.as_extra(name, {"slot": "refusal"})),) if words else ()


def _read_calls(given: dict[str, Json], calls: _Calls) -> tuple[Part, ...]:
    listed = given.get("tool_calls")
    parts = [_read_call(each, calls) for each in listed] if isinstance(listed, list) else []
    older = given.get("function_call")
    if isinstance(older, dict):
        arguments, marks = trip.arguments_in(older.get("arguments"))
        call = ToolCall(calls.older(), trip.text_of(older.get("name")), arguments)
        parts.append(trip.keep(name, older, call, _plain_function, slot="function_call", **marks))
    return tuple(parts)


def _read_call(given: Json, calls: _Calls) -> Part:
    kind = next((key for key in ("function", "custom") if _is_object(given, key)), None)
    if kind is None:
        return trip.opaque(name, "call", given)
    inner = given[kind]
    marks: dict[str, Json] = {}
    if kind == "custom":
        arguments = trip.dumps({"input": inner["input"]}) if isinstance(inner.get("input"), str) else None
        if arguments is None:
            return trip.opaque(name, "call", given)
        marks = {"kind": "custom"}
    else:
        arguments, marks = trip.arguments_in(inner.get("arguments"))
    call = ToolCall(trip.text_of(given.get("id")), trip.text_of(inner.get("name")), arguments)
    calls.tools[call.id] = call.name
    return trip.keep(name, given, call, _plain_call, **marks)


def _is_object(given: Json, key: str) -> bool:
    return isinstance(given, dict) and isinstance(given.get(key), dict)


def _read_block(given: Json) -> Part:
    kind = given.get("type") if isinstance(given, dict) else None
    if kind == "text" and isinstance(given.get("text"), str):
        return trip.keep(name, given, Text(given["text"]), _plain_text)
    if kind == "refusal" and isinstance(given.get("refusal"), str):
        return trip.keep(name, given, Text(given["refusal"]), _plain_text, kind="refusal")
    if kind == "image_url" and _is_object(given, "image_url"):
        url = given["image_url"].get("url")
        if isinstance(url, str):
            return trip.keep(name, given, trip.from_url(url), _plain_image, kind="image_url")
    return trip.opaque(name, "block", given)


def _write_message(message: Message, pictures: list[Json]) -> list[Json]:
    note = trip.note_of(name, message)
    if kept := trip.whole(name, message):
        return [kept["message"]]
    if message.role is Role.TOOL and len(message.parts) == 1 and message.results:
        pictures += _pictures(message.results[0])
        return [trip.restored(_plain_result_message(message), note)]
    found: list[Json] = []
    for result in message.results:
        pictures += _pictures(result)
        found.append(_plain_result_message(Message(Role.TOOL, (result,))))
    rest = message._replace(parts=tuple(part for part in message.parts if not isinstance(part, ToolResult)))
    if message.parts and not rest.parts:
        return found
    plain = _plain_message(rest)
    if rest.parts and not plain["content"] and plain.keys() <= {"role", "name", "content"} and not rest.text:
        return found  # nothing in it that this shape can say
    return [*found, trip.restored(plain, note)]


def _plain_message(message: Message) -> dict[str, Json]:
    made: dict[str, Json] = {"role": "user" if message.role is Role.TOOL else str(message.role)}
    if message.name:
        made["name"] = message.name
    content: list[Part] = []
    calls: list[Json] = []
    for part in message.parts:
        note = trip.note_of(name, part)
        slot = note.get("slot")
        if isinstance(part, ToolCall) and slot == "function_call" and slot not in made:
            made[slot] = trip.restored(_plain_function(part), note)
        elif isinstance(part, ToolCall):
            calls.append(trip.restored(_plain_call(part), note))
        elif isinstance(part, Opaque) and "call" in note:
            calls.append(note["call"])
        elif isinstance(part, Text | Thinking) and isinstance(slot, str) and slot not in made:
            made[slot] = part.text
        else:
            content.append(part)
    if calls:
        made["tool_calls"] = calls
    form = trip.note_of(name, message).get("form")
    spoken = message.role is Role.ASSISTANT
    words = trip.content_out(content, lambda part: _write_block(part, spoken=spoken), name=name, form=form)
    # An assistant that only calls, thinks or refuses says null, not nothing.
    silent = spoken and not words and form != "list" and not content and len(made) > 1
    return {**made, "content": None if silent else words}


def _plain_result_message(message: Message) -> dict[str, Json]:
    result = message.results[0]
    note = trip.note_of(name, message)

    def block(part: Part) -> Json:
        elsewhere = isinstance(part, Image) and not trip.note_of(name, part)
        return trip.LEFT_OUT if elsewhere else _write_block(part, spoken=False)

    content = trip.content_out(result.content, block, name=name, form=note.get("form"))
    if note.get("kind") == "function":
        return {"role": "function", "name": result.name, "content": content}
    return {"role": "tool", "tool_call_id": result.id, "content": content or ""}


def _pictures(result: ToolResult) -> list[Json]:
    """What a foreign result shows: it was not read from here, where it would have a note."""
    found = [part for part in result.content if isinstance(part, Image) and not trip.note_of(name, part)]
    if not found:
        return []
    return [_plain_text(Text(f"Shown by tool call {result.id}:")), *map(_plain_image, found)]


def _write_block(part: Part, *, spoken: bool) -> Json:
    note = trip.note_of(name, part)
    match part:
        case Text():
            return trip.restored(_plain_text(part), note)
        case Image():
            return trip.restored(_plain_image(part), note)
        case Opaque():
            return trip.written_opaque(name, part, spoken=spoken)
        case _:
            return trip.LEFT_OUT


def _plain_text(part: Text) -> dict[str, Json]:
    kind = "refusal" if trip.note_of(name, part).get("kind") == "refusal" else "text"
    return {"type": kind, kind: part.text}


def _plain_image(part: Image) -> dict[str, Json]:
    return {"type": "image_url", "image_url": {"url": trip.data_url(part)}}


def _plain_function(part: ToolCall) -> dict[str, Json]:
    form = trip.note_of(name, part).get("form")
    return {"name": part.name, "arguments": trip.arguments_out(part, form)}


def _plain_call(part: ToolCall) -> dict[str, Json]:
    if trip.note_of(name, part).get("kind") == "custom":
        inner = {"name": part.name, "input": trip.free_text(part.arguments)}
        return {"id": part.id, "type": "custom", "custom": inner}
    return {"id": part.id, "type": "function", "function": _plain_function(part)}
