"""One message of a chat API, read as well as it goes: CLIO's, and those whose shape nobody recognises."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts.formats.base import META
from vademecum.transcripts.formats.blocks import parts_of, result_parts
from vademecum.transcripts.formats.values import listed, mapping, moment, text, without, written
from vademecum.transcripts.messages import Message, Role, Thinking, ToolCall, ToolResult

if TYPE_CHECKING:
    from vademecum.transcripts.messages import Json, Part

_ROLES = {
    "user": Role.USER,
    "human": Role.USER,
    "assistant": Role.ASSISTANT,
    "ai": Role.ASSISTANT,
    "model": Role.ASSISTANT,
    "system": Role.SYSTEM,
    "developer": Role.SYSTEM,
    "tool": Role.TOOL,
    "function": Role.TOOL,
}
_KNOWN = (
    "role content id timestamp created_at name model tool_calls tool_call_id reasoning_content "
    "reasoning function_call"
).split()


def chat_message(value: dict[str, Json]) -> Message:
    """A message of OpenAI's chat or Anthropic's as ours; an unknown role is the system's, and flagged."""
    spoken = value.get("role")
    if isinstance(spoken, dict):  # an old CLIO put the message into its role
        return chat_message({**value, "role": None, **spoken})
    role = _ROLES.get(text(spoken))
    extra = without(value, _KNOWN)
    if role is None:
        role, extra[META] = Role.SYSTEM, written(spoken) or "no role"
    parts = _parts(value, role)
    if role is Role.USER and parts and all(isinstance(part, ToolResult) for part in parts):
        role = Role.TOOL
    return Message(
        role,
        parts,
        id=text(value.get("id")),
        time=moment(value.get("timestamp")) or moment(value.get("created_at")),
        name="" if role is Role.TOOL else text(value.get("name")),
        model=text(value.get("model")),
        extra=extra,
    )


def _parts(value: dict[str, Json], role: Role) -> tuple[Part, ...]:
    content = value.get("content")
    if role is Role.TOOL:
        return (ToolResult(text(value.get("tool_call_id")), result_parts(content), text(value.get("name"))),)
    thought = text(value.get("reasoning_content")) or text(value.get("reasoning"))
    calls = tuple(_call(each) for each in listed(value.get("tool_calls")) if isinstance(each, dict))
    if isinstance(value.get("function_call"), dict):
        calls = (*calls, _call({"function": value["function_call"]}))
    return (*((Thinking(thought),) if thought else ()), *parts_of(content), *calls)


def _call(given: dict[str, Json]) -> ToolCall:
    function = mapping(given.get("function"))
    return ToolCall(
        text(given.get("id")),
        text(function.get("name")) or text(given.get("name")),
        written(function.get("arguments", given.get("arguments"))),
        without(given, ("id", "type", "function", "name", "arguments")),
    )
