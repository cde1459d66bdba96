"""Tokens that may be used, that are held, and that were."""

from __future__ import annotations

import threading
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import ModelBusy, ModelFailed, OverBudget
from vademecum.llm.base import (
    USUAL_OUTPUT,
    Budget,
    Call,
    Limits,
    ModelUsage,
    UsageTotal,
    check_needed,
    estimate,
)
from vademecum.llm.scripted import Scripted, ScriptedQuestion


def test_what_is_held_counts_until_it_is_let_go() -> None:
    budget = Budget(100)
    with budget.reserve(60):
        with pytest.raises(OverBudget, match="about 60 tokens, and 40 of 100 are left"), budget.reserve(60):
            pass
        with budget.reserve(40):
            pass
    with budget.reserve(100):
        pass
    assert budget.spent == 0


def test_a_call_that_fails_lets_go_of_what_it_held() -> None:
    model = Scripted(ModelBusy("busy"), "Here.", budget=Budget(USUAL_OUTPUT + 100))
    with pytest.raises(ModelBusy):
        model.text("?")
    assert model.text("?").text == "Here."


def test_many_at_once_never_hold_more_than_there_is() -> None:
    budget, granted = Budget(1_000), []
    gate = threading.Barrier(16)

    def take() -> None:
        gate.wait()
        try:
            with budget.reserve(150):
                granted.append(150)
                gate.wait()
        except OverBudget:
            gate.wait()

    threads = [threading.Thread(target=take) for _ in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(granted) == 900


@given(
    st.lists(
        st.builds(
            ModelUsage,
            st.integers(0, 10**6),
            st.integers(0, 10**6),
            st.none() | st.decimals(0, 100, allow_nan=False, places=4),
        )
    )
)
def test_the_record_is_the_sum_of_its_calls(usages: list[ModelUsage]) -> None:
    budget = Budget()
    for usage in usages:
        budget.add("a:b", usage)
    record = budget.record.get("a:b", UsageTotal())
    assert record.calls == len(usages)
    assert record.input + record.output == budget.spent == sum(each.tokens for each in usages)
    assert record.cost == sum((each.cost for each in usages if each.cost is not None), Decimal(0))
    assert record.unpriced == sum(each.cost is None for each in usages)


def test_a_price_that_is_partly_unknown_is_unknown() -> None:
    known, unknown = ModelUsage(1, 1, Decimal("0.5")), ModelUsage(1, 1)
    assert (known + known).cost == Decimal(1)
    assert (known + unknown).cost is None


def test_an_estimate_grows_with_what_is_sent_and_a_picture_is_no_text() -> None:
    picture = {"kind": "binary", "data": "QUJD" * 100_000, "media_type": "image/png"}
    conversation = [{"kind": "request", "parts": [{"part_kind": "user-prompt", "content": ["x", picture]}]}]
    assert estimate("") < estimate("word") < estimate("word", system="more") < estimate("word " * 100)
    assert estimate("?", tools=[{"name": "x", "parameters": {"type": "object"}}]) > estimate("?")
    assert 85 < estimate(conversation) < 200


@given(st.text(), st.integers(0, 10_000), st.none() | st.integers(0, 10_000))
def test_a_call_needs_its_prompt_and_its_answer_or_is_refused(
    prompt: str, tokens: int, output: int | None
) -> None:
    estimated = estimate(prompt)
    room = USUAL_OUTPUT if output is None else output
    try:
        assert check_needed(estimated, Limits(tokens=tokens, output=output)) == estimated + room
        assert estimated + room <= tokens
    except OverBudget:
        assert estimated + room > tokens


# The scripted model's own ways.


def test_a_script_may_answer_by_what_it_was_asked() -> None:
    model = Scripted(lambda asked: f"You said {asked.prompt}.", lambda asked: lambda again: again.system)
    assert model.text("Hello").text == "You said Hello."
    assert model.text("Hello", system="Nested.").text == "Nested."


def test_a_script_may_ask_for_several_tools_and_give_objects() -> None:
    calls = (Call("1", "a", "{}"), Call("2", "b", "{}"))
    model = Scripted(calls, {"any": "object"})
    assert model.text("?").calls == calls
    assert model.text("?").text == '{"any": "object"}'


def test_a_script_that_is_over_says_so_and_keeps_what_was_asked() -> None:
    model = Scripted()
    with pytest.raises(ModelFailed, match="no more replies"):
        model.text("?", system="s")
    assert model.asked == [ScriptedQuestion("?", "s")]
