"""OpenAI's Responses API: a flat list of items.

What an assistant thinks, says and asks for in one turn is several items there and one message here, so that a
turn stays whole. A message item's own fields are noted on the first of its parts, as `item`; that note also
says where one message item ends and the next begins. Reasoning is noted whole, to go back exactly as it came.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts.messages import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.shapes import objects
from vademecum.transcripts.shapes import round_trip as trip

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.transcripts.messages import Json, Part

name = "openai_responses"

_ROLES = {said: role for said, role in trip.ROLES.items() if role is not Role.TOOL}
# Calls that the caller answers; what OpenAI's servers run (`web_search_call`, …) is carried opaque.
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
_ASKED = ("action", "actions", "operation")  # where the calls of built-in tools say what to do


def read(messages: Sequence[Json]) -> list[Message]:
    """Theirs as ours."""
    found: list[Message] = []
    turn: list[Part] = []
    tools: dict[str, str] = {}
    for given in objects(messages, name=name):
        role, parts = _read_item(given, tools, inside=bool(turn) and _in_message(turn[-1]))
        if role is Role.ASSISTANT:
            turn += parts
            continue
        if turn:
            found.append(_turn(turn))
            turn = []
        found.append(Message(role, tuple(parts), id=trip.text_of(given.get("id"))))
    return [*found, _turn(turn)] if turn else found


def write(messages: Sequence[Message]) -> list[Json]:
    """Ours as theirs."""
    return [item for message in messages for item in _write_message(message)]


def recognises(messages: Sequence[Json]) -> bool:
    """Whether there are items or blocks that only this API has."""
    for each in messages:
        if trip.text_of(each.get("type")) in _ITEMS and "role" not in each:
            return True
        content = each.get("content")
        for block in content if isinstance(content, list) else ():
            if isinstance(block, dict) and trip.text_of(block.get("type")) in _BLOCKS:
                return True
    return False


def _turn(parts: list[Part]) -> Message:
    return Message(Role.ASSISTANT, tuple(parts))


def _in_message(part: Part) -> bool:
    """Whether a part stands inside a message item, so that the next one must say that it begins another."""
    if isinstance(part, Opaque):
        return "item" not in part.value[name] or "block" in part.value[name]
    return isinstance(part, Text | Image)


def _read_item(given: dict[str, Json], tools: dict[str, str], *, inside: bool) -> tuple[Role, list[Part]]:
    kind = given.get("type", "message")
    whole = trip.opaque(name, "item", given)
    if kind == "message":
        role = _ROLES.get(trip.text_of(given.get("role")))
        if role is None:
            return Role.USER, [whole]
        return role, _read_message(given, role, inside=inside and role is Role.ASSISTANT) or [whole]
    if kind == "reasoning":
        words = "\n".join(_words(given.get("summary")) + _words(given.get("content")))
        note = {"reasoning": given}
        return Role.ASSISTANT, [Thinking(words, extra=trip.as_extra(name, note))]
    if isinstance(kind, str) and kind in _CALLS:
        call = _read_call(given, kind)
        if isinstance(call, ToolCall):
            tools[call.id] = call.name
        return Role.ASSISTANT, [call]
    if isinstance(kind, str) and kind in _RESULTS:
        return Role.TOOL, [_read_result(given, kind, tools)]
    return Role.ASSISTANT, [whole]


def _read_message(given: dict[str, Json], role: Role, *, inside: bool) -> list[Part]:
    """The parts of a message item, the first with the item's note; none where there is no content."""
    parts, marks = trip.content_in(given.get("content"), lambda block: _read_block(block, role), name=name)
    if not parts:
        return []
    if role is Role.ASSISTANT and isinstance(given["content"], list):
        marks = {"form": "list"}  # always said, because without it each text goes alone: see `_write_message`
    note = {**marks, **trip.difference(given, _plain_item(parts, role, form=marks.get("form")))}
    if not note and not inside:
        return list(parts)
    return [_with_item(parts[0], note), *parts[1:]]


def _with_item(part: Part, note: dict[str, Json]) -> Part:
    marked = {name: {**trip.note_of(name, part), "item": note}}
    return Opaque(marked) if isinstance(part, Opaque) else part._replace(extra=marked)


def _words(value: Json) -> list[str]:
    each = value if isinstance(value, list) else []
    return [block["text"] for block in each if isinstance(block, dict) and isinstance(block.get("text"), str)]


def _read_call(given: dict[str, Json], kind: str) -> Part:
    marks: dict[str, Json] = {}
    tool = trip.text_of(given.get("name"))
    if kind == "function_call":
        arguments, marks = trip.arguments_in(given.get("arguments"))
    elif kind == "custom_tool_call":
        arguments = trip.dumps({"input": trip.text_of(given.get("input"))}) or ""
        marks = {"kind": "custom"}
    else:
        tool = kind.removesuffix("_call")
        asked = {key: given[key] for key in _ASKED if key in given}
        only = next(iter(asked.values())) if len(asked) == 1 else asked
        arguments = trip.dumps(only) or ""
    call = ToolCall(trip.text_of(given.get("call_id")), tool, arguments)
    return trip.keep(name, given, call, _plain_call, **marks)


def _read_result(given: dict[str, Json], kind: str, tools: dict[str, str]) -> ToolResult:
    parts, marks = trip.content_in(
        given.get("output"), lambda block: _read_block(block, Role.TOOL), name=name
    )
    # `local_shell_call_output` names the call in `id`.
    answered = trip.text_of(given.get("call_id", given.get("id")))
    content = tuple(part for part in parts if isinstance(part, Text | Image | Opaque))
    if kind != "function_call_output":
        marks = {**marks, "kind": kind}
    found = ToolResult(answered, content, name=tools.get(answered, ""))
    return trip.keep(name, given, found, _plain_result, **marks)


def _read_block(given: Json, role: Role) -> Part:
    kind = given.get("type") if isinstance(given, dict) else None
    spoken = role is Role.ASSISTANT
    if kind in ("input_text", "output_text", "text") and isinstance(given.get("text"), str):
        return trip.keep(name, given, Text(given["text"]), lambda part: _plain_text(part, spoken=spoken))
    if kind == "refusal" and isinstance(given.get("refusal"), str):
        text = Text(given["refusal"])
        return trip.keep(name, given, text, lambda part: _plain_text(part, spoken=spoken), kind="refusal")
    if kind == "input_image" and isinstance(given.get("image_url"), str):
        return trip.keep(name, given, trip.from_url(given["image_url"]), _plain_image)
    return trip.opaque(name, "block", given)


def _write_message(message: Message) -> list[Json]:
    """The items of one message.

    An assistant's `output_text` belongs in items with an id and a status that only the API gives, so what it
    said elsewhere goes as plain text, one item for each.
    """
    found: list[Json] = []
    run: list[Part] = []
    for part in message.parts:
        alone = _write_alone(part)
        apart = message.role is Role.ASSISTANT and bool(run) and "item" not in trip.note_of(name, run[0])
        if run and (apart or alone is not None or "item" in trip.note_of(name, part)):
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
    """The item that a part is by itself; None for what stands in a message item."""
    note = trip.note_of(name, part)
    match part:
        case ToolCall():
            return [trip.restored(_plain_call(part), note)]
        case ToolResult():
            return [trip.restored(_plain_result(part), note)]
        case Thinking():
            return [note["reasoning"]] if "reasoning" in note else []
        case Opaque() if "block" not in note and "item" in note:
            return [note["item"]]
        case _:
            return None


def _write_run(run: list[Part], role: Role) -> list[Json]:
    note = trip.note_of(name, run[0]).get("item") if run else None
    note = note if isinstance(note, dict) else {}
    plain = _plain_item(tuple(run), role, form=note.get("form"))
    if run and plain["content"] == []:
        return []  # nothing in it that this shape can say
    return [trip.restored(plain, note)]


def _plain_item(parts: tuple[Part, ...], role: Role, *, form: Json) -> dict[str, Json]:
    spoken = role is Role.ASSISTANT

    def block(part: Part) -> Json:
        return _write_block(part, spoken=spoken)

    content = trip.content_out(parts, block, name=name, form=form)
    return {"role": "user" if role is Role.TOOL else str(role), "content": content}


def _write_block(part: Part, *, spoken: bool) -> Json:
    note = trip.note_of(name, part)
    match part:
        case Text():
            return trip.restored(_plain_text(part, spoken=spoken), note)
        case Image():
            return trip.restored(_plain_image(part), note)
        case Opaque():
            return trip.written_opaque(name, part, spoken=spoken, kind="input_text")
        case _:
            return trip.LEFT_OUT


def _plain_text(part: Text, *, spoken: bool) -> dict[str, Json]:
    if trip.note_of(name, part).get("kind") == "refusal":
        return {"type": "refusal", "refusal": part.text}
    return {"type": "output_text" if spoken else "input_text", "text": part.text}


def _plain_image(part: Image) -> dict[str, Json]:
    return {"type": "input_image", "image_url": trip.data_url(part), "detail": "auto"}


def _plain_call(part: ToolCall) -> dict[str, Json]:
    note = trip.note_of(name, part)
    if note.get("kind") == "custom":
        text = trip.free_text(part.arguments)
        return {"type": "custom_tool_call", "call_id": part.id, "name": part.name, "input": text}
    arguments = trip.arguments_out(part, note.get("form"))
    return {"type": "function_call", "call_id": part.id, "name": part.name, "arguments": arguments}


def _plain_result(part: ToolResult) -> dict[str, Json]:
    note = trip.note_of(name, part)
    kind = note.get("kind", "function_call_output")
    output = trip.content_out(
        part.content, lambda each: _write_block(each, spoken=False), name=name, form=note.get("form")
    )
    return {"type": kind, "call_id": part.id, "output": output}
