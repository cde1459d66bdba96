"""Convert messages of OpenAI's two APIs, Chat Completions and Responses.

In Chat Completions, one message of the API is one of ours. Fields that compatible servers add are supported:
`reasoning_content`, and arguments as objects. The older `function_call` and the `function` role have no ids;
they get ids here so that call and result stay a pair, and lose them on the way back.

Responses are a flat list of items. The reasoning, text and calls of an assistant in one turn are several
items there and one message here, so that a turn stays whole. The other fields of a message item are noted on
the first of its parts, as `item`; that note also marks where the next message item begins. Reasoning is noted
as a whole, so that it goes back unchanged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.transcripts import shapes
from vademecum.transcripts.messages import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.transcripts.messages import Json, Part

# -------------------------------------------------------------------- Chat Completions


_CHAT = "openai_chat"

_THOUGHTS = ("reasoning_content", "reasoning")


class _Calls:
    """The tool calls read so far: the tool of each id, and the old-style call whose result comes next."""

    def __init__(self) -> None:
        self.tools: dict[str, str] = {}
        self.made = 0
        self.waiting = ""

    def older(self) -> str:
        """Return a new id for a call in the old style, which has no id."""
        self.made += 1
        self.waiting = f"function_call_{self.made}"
        return self.waiting


def read_chat(messages: Sequence[Json]) -> list[Message]:
    """Convert the provider's messages to ours."""
    calls = _Calls()
    return [_read_chat_message(raw, calls) for raw in shapes.objects(messages, name=_CHAT)]


def write_chat(messages: Sequence[Message]) -> list[Json]:
    """Convert our messages to the provider's.

    This API takes no pictures in results, so they follow in a user message.
    """
    found: list[Json] = []
    pictures: list[Json] = []
    for message in messages:
        if pictures and message.role is not Role.TOOL:
            found.append({"role": "user", "content": pictures})
            pictures = []
        found += _write_chat_message(message, pictures)
    return [*found, {"role": "user", "content": pictures}] if pictures else found


def recognises_chat(messages: Sequence[Json]) -> bool:
    """Whether all messages have a role, as any provider's plain messages do."""
    return all(isinstance(each.get("role"), str) for each in messages)


def _read_chat_message(raw: dict[str, Json], calls: _Calls) -> Message:
    role = shapes.ROLES.get(shapes.text_of(raw.get("role")))
    if role is None:
        return Message(Role.USER, (shapes.opaque(_CHAT, "message", raw),))
    parts, marks = shapes.content_in(raw.get("content"), _read_chat_block, name=_CHAT)
    if role is Role.TOOL:
        return _read_chat_result(raw, parts, marks, calls)
    if role is Role.ASSISTANT:
        parts = (*_thoughts(raw), *parts, *_refusal(raw), *_read_calls(raw, calls))
    found = Message(role, parts, id=shapes.text_of(raw.get("id")), name=shapes.text_of(raw.get("name")))
    return shapes.keep(_CHAT, raw, found, _plain_chat_message, **marks)


def _read_chat_result(
    raw: dict[str, Json], parts: tuple[Part, ...], marks: dict[str, Json], calls: _Calls
) -> Message:
    content = tuple(part for part in parts if isinstance(part, Text | Image | Opaque))
    if raw["role"] == "function":
        call_id, calls.waiting = calls.waiting, ""
        marks = {**marks, "kind": "function"}
        tool = shapes.text_of(raw.get("name"))
    else:
        call_id = shapes.text_of(raw.get("tool_call_id"))
        tool = shapes.text_of(raw.get("name")) or calls.tools.get(call_id, "")
    found = Message(Role.TOOL, (ToolResult(call_id, content, name=tool),))
    return shapes.keep(_CHAT, raw, found, _plain_result_message, **marks)


def _thoughts(raw: dict[str, Json]) -> tuple[Thinking, ...]:
    key = next((each for each in _THOUGHTS if shapes.text_of(raw.get(each))), None)
    return () if key is None else (Thinking(raw[key], extra=shapes.as_extra(_CHAT, {"slot": key})),)


def _refusal(raw: dict[str, Json]) -> tuple[Text, ...]:
    words = shapes.text_of(raw.get("refusal"))
    return (Text(words, extra=shapes.as_extra(_CHAT, {"slot": "refusal"})),) if words else ()


def _read_calls(raw: dict[str, Json], calls: _Calls) -> tuple[Part, ...]:
    listed = raw.get("tool_calls")
    parts = [_read_chat_call(each, calls) for each in listed] if isinstance(listed, list) else []
    older = raw.get("function_call")
    if isinstance(older, dict):
        arguments, marks = shapes.arguments_in(older.get("arguments"))
        call = ToolCall(calls.older(), shapes.text_of(older.get("name")), arguments)
        parts.append(shapes.keep(_CHAT, older, call, _plain_function, slot="function_call", **marks))
    return tuple(parts)


def _read_chat_call(raw: Json, calls: _Calls) -> Part:
    kind = next((key for key in ("function", "custom") if _is_object(raw, key)), None)
    if kind is None:
        return shapes.opaque(_CHAT, "call", raw)
    inner = raw[kind]
    marks: dict[str, Json] = {}
    if kind == "custom":
        arguments = shapes.dumps({"input": inner["input"]}) if isinstance(inner.get("input"), str) else None
        if arguments is None:
            return shapes.opaque(_CHAT, "call", raw)
        marks = {"kind": "custom"}
    else:
        arguments, marks = shapes.arguments_in(inner.get("arguments"))
    call = ToolCall(shapes.text_of(raw.get("id")), shapes.text_of(inner.get("name")), arguments)
    calls.tools[call.id] = call.name
    return shapes.keep(_CHAT, raw, call, _plain_chat_call, **marks)


def _is_object(raw: Json, key: str) -> bool:
    return isinstance(raw, dict) and isinstance(raw.get(key), dict)


def _read_chat_block(raw: Json) -> Part:
    kind = raw.get("type") if isinstance(raw, dict) else None
    if kind == "text" and isinstance(raw.get("text"), str):
        return shapes.keep(_CHAT, raw, Text(raw["text"]), _plain_chat_text)
    if kind == "refusal" and isinstance(raw.get("refusal"), str):
        return shapes.keep(_CHAT, raw, Text(raw["refusal"]), _plain_chat_text, kind="refusal")
    if kind == "image_url" and _is_object(raw, "image_url"):
        url = raw["image_url"].get("url")
        if isinstance(url, str):
            return shapes.keep(_CHAT, raw, shapes.image_from_url(url), _plain_chat_image, kind="image_url")
    return shapes.opaque(_CHAT, "block", raw)


def _write_chat_message(message: Message, pictures: list[Json]) -> list[Json]:
    note = shapes.note_of(_CHAT, message)
    if whole_note := shapes.whole(_CHAT, message):
        return [whole_note["message"]]
    if message.role is Role.TOOL and len(message.parts) == 1 and message.results:
        pictures += _pictures(message.results[0])
        return [shapes.apply_note(_plain_result_message(message), note)]
    found: list[Json] = []
    for result in message.results:
        pictures += _pictures(result)
        found.append(_plain_result_message(Message(Role.TOOL, (result,))))
    rest = message._replace(parts=tuple(part for part in message.parts if not isinstance(part, ToolResult)))
    if message.parts and not rest.parts:
        return found
    plain = _plain_chat_message(rest)
    if rest.parts and not plain["content"] and plain.keys() <= {"role", "name", "content"} and not rest.text:
        return found  # this shape can express nothing of it
    return [*found, shapes.apply_note(plain, note)]


def _plain_chat_message(message: Message) -> dict[str, Json]:
    made: dict[str, Json] = {"role": "user" if message.role is Role.TOOL else str(message.role)}
    if message.name:
        made["name"] = message.name
    content: list[Part] = []
    calls: list[Json] = []
    for part in message.parts:
        note = shapes.note_of(_CHAT, part)
        slot = note.get("slot")
        if isinstance(part, ToolCall) and slot == "function_call" and slot not in made:
            made[slot] = shapes.apply_note(_plain_function(part), note)
        elif isinstance(part, ToolCall):
            calls.append(shapes.apply_note(_plain_chat_call(part), note))
        elif isinstance(part, Opaque) and "call" in note:
            calls.append(note["call"])
        elif isinstance(part, Text | Thinking) and isinstance(slot, str) and slot not in made:
            made[slot] = part.text
        else:
            content.append(part)
    if calls:
        made["tool_calls"] = calls
    form = shapes.note_of(_CHAT, message).get("form")
    spoken = message.role is Role.ASSISTANT
    words = shapes.content_out(
        content, lambda part: _write_chat_block(part, spoken=spoken), name=_CHAT, form=form
    )
    # An assistant message with only calls, reasoning or a refusal has `null` as its content.
    silent = spoken and not words and form != "list" and not content and len(made) > 1
    return {**made, "content": None if silent else words}


def _plain_result_message(message: Message) -> dict[str, Json]:
    result = message.results[0]
    note = shapes.note_of(_CHAT, message)

    def block(part: Part) -> Json:
        elsewhere = isinstance(part, Image) and not shapes.note_of(_CHAT, part)
        return shapes.LEFT_OUT if elsewhere else _write_chat_block(part, spoken=False)

    content = shapes.content_out(result.content, block, name=_CHAT, form=note.get("form"))
    if note.get("kind") == "function":
        return {"role": "function", "name": result.name, "content": content}
    return {"role": "tool", "tool_call_id": result.id, "content": content or ""}


def _pictures(result: ToolResult) -> list[Json]:
    """Return the pictures of a tool result as blocks, after a line that names the call.

    Pictures that were read from this shape are left out, because the result itself holds them.
    """
    found = [part for part in result.content if isinstance(part, Image) and not shapes.note_of(_CHAT, part)]
    if not found:
        return []
    return [_plain_chat_text(Text(f"Shown by tool call {result.id}:")), *map(_plain_chat_image, found)]


def _write_chat_block(part: Part, *, spoken: bool) -> Json:
    note = shapes.note_of(_CHAT, part)
    match part:
        case Text():
            return shapes.apply_note(_plain_chat_text(part), note)
        case Image():
            return shapes.apply_note(_plain_chat_image(part), note)
        case Opaque():
            return shapes.write_opaque(_CHAT, part, spoken=spoken)
        case _:
            return shapes.LEFT_OUT


def _plain_chat_text(part: Text) -> dict[str, Json]:
    kind = "refusal" if shapes.note_of(_CHAT, part).get("kind") == "refusal" else "text"
    return {"type": kind, kind: part.text}


def _plain_chat_image(part: Image) -> dict[str, Json]:
    return {"type": "image_url", "image_url": {"url": shapes.image_url(part)}}


def _plain_function(part: ToolCall) -> dict[str, Json]:
    form = shapes.note_of(_CHAT, part).get("form")
    return {"name": part.name, "arguments": shapes.arguments_out(part, form)}


def _plain_chat_call(part: ToolCall) -> dict[str, Json]:
    if shapes.note_of(_CHAT, part).get("kind") == "custom":
        inner = {"name": part.name, "input": shapes.free_text(part.arguments)}
        return {"id": part.id, "type": "custom", "custom": inner}
    return {"id": part.id, "type": "function", "function": _plain_function(part)}


# -------------------------------------------------------------------- Responses


_RESPONSES = "openai_responses"

_ROLES = {role_name: role for role_name, role in shapes.ROLES.items() if role is not Role.TOOL}
# Calls that the caller answers; calls that OpenAI's servers run (`web_search_call`, …) are kept opaque.
_CALLS = {
    "function_call",
    "custom_tool_call",
    "local_shell_call",
    "shell_call",
    "apply_patch_call",
    "computer_call",
}
_RESULTS = {f"{each}_output" for each in _CALLS}
_ITEMS = _CALLS | _RESULTS | {"reasoning", "item_reference"}
_BLOCKS = {"input_text", "output_text", "input_image", "input_file"}
_ARGUMENT_KEYS = ("action", "actions", "operation")  # keys with the arguments of built-in tools


def read_items(messages: Sequence[Json]) -> list[Message]:
    """Convert the provider's items to our messages."""
    found: list[Message] = []
    turn: list[Part] = []
    tools: dict[str, str] = {}
    for raw in shapes.objects(messages, name=_RESPONSES):
        role, parts = _read_item(raw, tools, inside=bool(turn) and _in_message(turn[-1]))
        if role is Role.ASSISTANT:
            turn += parts
            continue
        if turn:
            found.append(_turn(turn))
            turn = []
        found.append(Message(role, tuple(parts), id=shapes.text_of(raw.get("id"))))
    return [*found, _turn(turn)] if turn else found


def write_items(messages: Sequence[Message]) -> list[Json]:
    """Convert our messages to the provider's items."""
    return [item for message in messages for item in _write_item_message(message)]


def recognises_items(messages: Sequence[Json]) -> bool:
    """Whether the list contains items or blocks that only the Responses API has."""
    for each in messages:
        if shapes.text_of(each.get("type")) in _ITEMS and "role" not in each:
            return True
        content = each.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and shapes.text_of(block.get("type")) in _BLOCKS:
                return True
    return False


def _turn(parts: list[Part]) -> Message:
    return Message(Role.ASSISTANT, tuple(parts))


def _in_message(part: Part) -> bool:
    """Whether a part stands inside a message item, so that the next item must be marked as a new one."""
    if isinstance(part, Opaque):
        return "item" not in part.value[_RESPONSES] or "block" in part.value[_RESPONSES]
    return isinstance(part, Text | Image)


def _read_item(raw: dict[str, Json], tools: dict[str, str], *, inside: bool) -> tuple[Role, list[Part]]:
    kind = raw.get("type", "message")
    whole = shapes.opaque(_RESPONSES, "item", raw)
    if kind == "message":
        role = _ROLES.get(shapes.text_of(raw.get("role")))
        if role is None:
            return Role.USER, [whole]
        return role, _read_item_message(raw, role, inside=inside and role is Role.ASSISTANT) or [whole]
    if kind == "reasoning":
        words = "\n".join(_words(raw.get("summary")) + _words(raw.get("content")))
        note = {"reasoning": raw}
        return Role.ASSISTANT, [Thinking(words, extra=shapes.as_extra(_RESPONSES, note))]
    if isinstance(kind, str) and kind in _CALLS:
        call = _read_item_call(raw, kind)
        if isinstance(call, ToolCall):
            tools[call.id] = call.name
        return Role.ASSISTANT, [call]
    if isinstance(kind, str) and kind in _RESULTS:
        return Role.TOOL, [_read_item_result(raw, kind, tools)]
    return Role.ASSISTANT, [whole]


def _read_item_message(raw: dict[str, Json], role: Role, *, inside: bool) -> list[Part]:
    """Return the parts of a message item, the first with the item's note; empty if there is no content."""
    parts, marks = shapes.content_in(
        raw.get("content"), lambda block: _read_item_block(block, role), name=_RESPONSES
    )
    if not parts:
        return []
    if role is Role.ASSISTANT and isinstance(raw["content"], list):
        marks = {
            "form": "list"
        }  # always noted, because otherwise each text becomes an item: see `_write_item_message`
    note = {**marks, **shapes.difference(raw, _plain_item(parts, role, form=marks.get("form")))}
    if not note and not inside:
        return list(parts)
    return [_with_item(parts[0], note), *parts[1:]]


def _with_item(part: Part, note: dict[str, Json]) -> Part:
    marked = {_RESPONSES: {**shapes.note_of(_RESPONSES, part), "item": note}}
    return Opaque(marked) if isinstance(part, Opaque) else part._replace(extra=marked)


def _words(value: Json) -> list[str]:
    each = value if isinstance(value, list) else []
    return [block["text"] for block in each if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _read_item_call(raw: dict[str, Json], kind: str) -> Part:
    marks: dict[str, Json] = {}
    tool = shapes.text_of(raw.get("name"))
    if kind == "function_call":
        arguments, marks = shapes.arguments_in(raw.get("arguments"))
    elif kind == "custom_tool_call":
        arguments = shapes.dumps({"input": shapes.text_of(raw.get("input"))}) or ""
        marks = {"kind": "custom"}
    else:
        tool = kind.removesuffix("_call")
        values = {key: raw[key] for key in _ARGUMENT_KEYS if key in raw}
        only = next(iter(values.values())) if len(values) == 1 else values
        arguments = shapes.dumps(only) or ""
    call = ToolCall(shapes.text_of(raw.get("call_id")), tool, arguments)
    return shapes.keep(_RESPONSES, raw, call, _plain_item_call, **marks)


def _read_item_result(raw: dict[str, Json], kind: str, tools: dict[str, str]) -> ToolResult:
    parts, marks = shapes.content_in(
        raw.get("output"), lambda block: _read_item_block(block, Role.TOOL), name=_RESPONSES
    )
    # `local_shell_call_output` names the call in `id`.
    call_id = shapes.text_of(raw.get("call_id", raw.get("id")))
    content = tuple(part for part in parts if isinstance(part, Text | Image | Opaque))
    if kind != "function_call_output":
        marks = {**marks, "kind": kind}
    found = ToolResult(call_id, content, name=tools.get(call_id, ""))
    return shapes.keep(_RESPONSES, raw, found, _plain_item_result, **marks)


def _read_item_block(raw: Json, role: Role) -> Part:
    kind = raw.get("type") if isinstance(raw, dict) else None
    spoken = role is Role.ASSISTANT
    if kind in ("input_text", "output_text", "text") and isinstance(raw.get("text"), str):
        return shapes.keep(
            _RESPONSES, raw, Text(raw["text"]), lambda part: _plain_item_text(part, spoken=spoken)
        )
    if kind == "refusal" and isinstance(raw.get("refusal"), str):
        text = Text(raw["refusal"])
        return shapes.keep(
            _RESPONSES, raw, text, lambda part: _plain_item_text(part, spoken=spoken), kind="refusal"
        )
    if kind == "input_image" and isinstance(raw.get("image_url"), str):
        return shapes.keep(_RESPONSES, raw, shapes.image_from_url(raw["image_url"]), _plain_item_image)
    return shapes.opaque(_RESPONSES, "block", raw)


def _write_item_message(message: Message) -> list[Json]:
    """Return a message as items of the Responses API.

    An assistant's `output_text` belongs in items with an id and a status that only the API assigns, so text
    from elsewhere is written as plain text, one item for each.
    """
    found: list[Json] = []
    run: list[Part] = []
    for part in message.parts:
        alone = _write_alone(part)
        apart = (
            message.role is Role.ASSISTANT and bool(run) and "item" not in shapes.note_of(_RESPONSES, run[0])
        )
        if run and (apart or alone is not None or "item" in shapes.note_of(_RESPONSES, part)):
            found += _write_run(run, message.role)
            run = []
        if alone is None:
            run.append(part)
        else:
            found += alone
    if run or (not message.parts and message.role is not Role.TOOL):
        found += _write_run(run, message.role)
    return found


def _write_alone(part: Part) -> list[Json] | None:
    """Return the items for a part that is an item of its own; None for a part that belongs in a
    message item.
    """
    note = shapes.note_of(_RESPONSES, part)
    match part:
        case ToolCall():
            return [shapes.apply_note(_plain_item_call(part), note)]
        case ToolResult():
            return [shapes.apply_note(_plain_item_result(part), note)]
        case Thinking():
            return [note["reasoning"]] if "reasoning" in note else []
        case Opaque() if "block" not in note and "item" in note:
            return [note["item"]]
        case _:
            return None


def _write_run(run: list[Part], role: Role) -> list[Json]:
    note = shapes.note_of(_RESPONSES, run[0]).get("item") if run else None
    note = note if isinstance(note, dict) else {}
    plain = _plain_item(tuple(run), role, form=note.get("form"))
    if run and plain["content"] == []:
        return []  # this shape can express nothing of it
    return [shapes.apply_note(plain, note)]


def _plain_item(parts: tuple[Part, ...], role: Role, *, form: Json) -> dict[str, Json]:
    spoken = role is Role.ASSISTANT

    def block(part: Part) -> Json:
        return _write_item_block(part, spoken=spoken)

    content = shapes.content_out(parts, block, name=_RESPONSES, form=form)
    return {"role": "user" if role is Role.TOOL else str(role), "content": content}


def _write_item_block(part: Part, *, spoken: bool) -> Json:
    note = shapes.note_of(_RESPONSES, part)
    match part:
        case Text():
            return shapes.apply_note(_plain_item_text(part, spoken=spoken), note)
        case Image():
            return shapes.apply_note(_plain_item_image(part), note)
        case Opaque():
            return shapes.write_opaque(_RESPONSES, part, spoken=spoken, kind="input_text")
        case _:
            return shapes.LEFT_OUT


def _plain_item_text(part: Text, *, spoken: bool) -> dict[str, Json]:
    if shapes.note_of(_RESPONSES, part).get("kind") == "refusal":
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text" if spoken else "input_text", "text": part.text}


def _plain_item_image(part: Image) -> dict[str, Json]:
    return {"type": "input_image", "image_url": shapes.image_url(part), "detail": "auto"}


def _plain_item_call(part: ToolCall) -> dict[str, Json]:
    note = shapes.note_of(_RESPONSES, part)
    if note.get("kind") == "custom":
        text = shapes.free_text(part.arguments)
        return {"type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": text}
    arguments = shapes.arguments_out(part, note.get("form"))
    return {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}


def _plain_item_result(part: ToolResult) -> dict[str, Json]:
    note = shapes.note_of(_RESPONSES, part)
    kind = note.get("kind", "function_call_output")
    output = shapes.content_out(
        part.content,
        lambda each: _write_item_block(each, spoken=False),
        name=_RESPONSES,
        form=note.get("form"),
    )
    return {"type": kind, "call_id": part.id, "output": output}


class _Api(NamedTuple):
    name: str
    read: Callable[[Sequence[Json]], list[Message]]
    write: Callable[[Sequence[Message]], list[Json]]
    recognises: Callable[[Sequence[Json]], bool]


openai_chat = _Api(_CHAT, read_chat, write_chat, recognises_chat)
openai_responses = _Api(_RESPONSES, read_items, write_items, recognises_items)
