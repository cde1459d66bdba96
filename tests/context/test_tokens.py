"""The estimator learns a model's ratio and counts everything that is sent."""

from __future__ import annotations

import math

from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.context.units import estimate, estimate_request, measure, measure_all, measure_schemas
from vademecum.tokens import (
    DEFAULT_RATIO,
    LEAST_RATIO,
    MOST_RATIO,
    PER_CALL,
    PER_IMAGE,
    PER_MESSAGE,
    PER_NAME,
    PER_RESULT,
    PRIMING,
    Estimator,
    Size,
    count,
    learn,
)
from vademecum.transcripts import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult

from .conversations import conversation, conversations


def test_a_message_costs_its_text_and_what_every_message_costs() -> None:
    assert estimate(Message(Role.USER, (Text("a" * 300),)), 3.0) == 100 + PER_MESSAGE
    assert estimate(Message(Role.USER, (Text("a" * 301),)), 3.0) == 101 + PER_MESSAGE
    assert estimate(Message(Role.USER, (), name="ada"), 3.0) == 1 + PER_MESSAGE + PER_NAME


def test_arguments_results_thoughts_and_pictures_are_counted() -> None:
    parts = (
        Thinking("t" * 30, {"signature": "s" * 999}),
        ToolCall("c1", "bash", "x" * 96),
        ToolResult("c1", (Text("r" * 200), Image("image/png", data="A" * 1_000_000))),
    )
    assert measure(Message(Role.ASSISTANT, parts)) == Size(
        30 + 4 + 96 + 200, PER_MESSAGE + PER_CALL + PER_NAME + PER_RESULT + PER_IMAGE
    )


def test_a_picture_inside_something_unknown_is_not_counted_as_letters() -> None:
    unknown = Opaque({"type": "file", "source": {"data": "QUJD" * 100_000}, "name": "a.pdf"})
    size = measure(Message(Role.USER, (unknown,)))
    assert size.chars < 100
    assert size.fixed == PER_MESSAGE + PER_IMAGE


def test_schemas_are_counted_in_a_request() -> None:
    tools = [{"name": "bash", "description": "d" * 300}]
    bare = estimate_request([], [], 3.0)
    assert bare == PRIMING
    assert estimate_request([], tools, 3.0) == bare + count(measure_schemas(tools), 3.0)
    assert measure_schemas(tools).chars > 300


def test_chinese_weighs_more_per_sign_than_english() -> None:
    def tokens(text: str) -> int:
        return estimate(Message(Role.USER, (Text(text),)), DEFAULT_RATIO) - PER_MESSAGE

    assert tokens("表" * 300) == 300
    assert tokens("a" * 300) == 100
    assert tokens("表" * 150 + "a" * 150) == 200


def test_half_a_character_from_a_broken_log_is_counted_too() -> None:
    assert estimate(Message(Role.USER, (Text("\ud800" * 10),)), 3.0) > PER_MESSAGE


def test_twenty_calls_are_enough_to_know_a_model() -> None:
    estimator = Estimator()
    for _ in range(20):
        estimator = estimator.learned("slow", Size(22_000, 100), 10_100)
    assert math.isclose(estimator.ratio("slow"), 2.2, rel_tol=0.01)
    assert estimator.ratio("other") == DEFAULT_RATIO
    assert abs(estimator.tokens(Size(22_000, 100), "slow") - 10_100) < 110


@every_case(("chars", "tokens"), [(0, 10), (10, 0), (-5, 10), (10, -5), (0, 0)])
def test_a_count_that_says_nothing_teaches_nothing(chars: int, tokens: int) -> None:
    assert learn(3.0, chars, tokens) == 3.0


@given(st.floats(), st.integers(-10, 10**12), st.integers(-10, 10**12), st.integers(-10, 10**6))
def test_the_ratio_stays_what_a_tokenizer_can_have(ratio: float, chars: int, tokens: int, fixed: int) -> None:
    found = learn(ratio, chars, tokens, fixed=fixed)
    assert LEAST_RATIO <= found <= MOST_RATIO
    assert learn(ratio, chars, tokens, fixed=fixed) == found


@given(st.floats(1.5, 4.0), st.floats(1.5, 4.0))
def test_learning_moves_a_fifth_of_the_way(old: float, observed: float) -> None:
    assert math.isclose(learn(old, round(observed * 1e9), 10**9), 0.8 * old + 0.2 * observed, rel_tol=1e-6)


@given(conversations())
def test_sizes_add_up(messages: list[Message]) -> None:
    total = Size()
    for message in messages:
        total += measure(message)
    assert measure_all(messages) == total


def test_measuring_does_not_read_a_long_ascii_text() -> None:
    huge = Message(Role.TOOL, (ToolResult("c", (Text("x" * 50_000_000),)),))
    assert measure(huge).chars == 50_000_000
    assert measure_all(conversation(1, turns=5)).chars > 0
