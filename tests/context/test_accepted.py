"""What is sent obeys the rules by which providers refuse a whole request."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.context.units import build_units, flatten, trim
from vademecum.transcripts.shapes import anthropic
from vademecum.transcripts.shapes.openai import openai_chat

from .conversations import conversations

if TYPE_CHECKING:
    from vademecum.transcripts import Message


def sent(messages: list[Message], tokens: int) -> list[Message]:
    return list(flatten(trim(build_units(messages).units, tokens=tokens, ratio=3.0).kept))


def blocks(message: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    content = message["content"] if isinstance(message["content"], list) else []
    return [block for block in content if block.get("type") == kind]


@settings(max_examples=150, deadline=None)
@given(conversations(huge=3000), st.sampled_from([1_500, 10**9]))
def test_anthropic_finds_every_result_first_in_the_next_message(messages: list[Message], tokens: int) -> None:
    waiting: list[str] = []
    for message in anthropic.write(sent(messages, tokens)):
        results = blocks(message, "tool_result")
        assert sorted(block["tool_use_id"] for block in results) == sorted(waiting)
        assert not results or message["content"][: len(results)] == results
        waiting = [block["id"] for block in blocks(message, "tool_use")]
    assert not waiting


@settings(max_examples=150, deadline=None)
@given(conversations(huge=3000), st.sampled_from([1_500, 10**9]))
def test_openai_finds_every_result_right_behind_its_call(messages: list[Message], tokens: int) -> None:
    waiting: list[str] = []
    for message in openai_chat.write(sent(messages, tokens)):
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert not waiting
            waiting = [call["id"] for call in message.get("tool_calls") or []]
    assert not waiting
