"""What every model does, over a socket in each provider's dialect and from a script."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel

from llm.benches import PROVIDERS, Bench
from llm.wire_server import Refuse, Say, Use
from vademecum.errors import (
    ModelFailed,
    ModelNonsense,
    ModelOverflow,
    ModelUnauthorised,
    OverBudget,
    UsageError,
)
from vademecum.llm.base import Budget, Limits, ModelUsage, Typed
from vademecum.llm.net import is_overflow
from vademecum.transcripts import Message, Role, Text, ToolResult
from vademecum.transcripts.shapes import shape

if TYPE_CHECKING:
    from llm.wire_server import WireServer

TOOL = {
    "name": "look_up",
    "description": "Look a word up.",
    "parameters": {"type": "object", "properties": {"word": {"type": "string"}}, "required": ["word"]},
}


@dataclass
class City:
    """A city and how many live there."""

    name: str
    people: int
    also: list[str] = field(default_factory=list)


class Town(BaseModel):
    name: str
    people: int


@pytest.fixture(params=["scripted", *PROVIDERS])
def bench(request: pytest.FixtureRequest, server: WireServer) -> Bench:
    return Bench(request.param, server)


def test_a_question_is_answered_in_words(bench: Bench) -> None:
    model = bench.model(Say("Rome is old."))
    answer = model.text("How old is Rome?", system="Be brief.")
    assert answer.text == "Rome is old."
    assert (answer.attempts, answer.calls, answer.cut) == (1, (), False)
    assert answer.model == model.name
    assert "How old is Rome?" in bench.asked[0]
    assert "Be brief." in bench.asked[0]


def test_what_a_call_took_is_in_the_answer_and_on_record(bench: Bench) -> None:
    model = bench.model(Say("One."), Say("Two."))
    used = [model.text("One?").usage, model.text("Two?").usage]
    assert all(each.input > 0 and each.output > 0 for each in used)
    record = bench.budget.record[model.name]
    assert (record.calls, record.unpriced) == (2, 2)
    assert (record.input, record.output) == (sum(u.input for u in used), sum(u.output for u in used))
    assert bench.budget.spent == sum(each.tokens for each in used)


def test_a_stream_gives_the_words_as_they_come_and_the_answer_at_the_end(bench: Bench) -> None:
    model = bench.model(Say("A rather long answer, in several pieces."))
    with model.stream("Tell me.") as stream:
        pieces = list(stream)
        answer = stream.answer
    assert len(pieces) > 3
    assert "".join(pieces) == answer.text == "A rather long answer, in several pieces."
    assert answer.usage.tokens == bench.budget.spent > 0


def test_whoever_only_wants_the_answer_of_a_stream_waits_for_it(bench: Bench) -> None:
    assert bench.model(Say("All of it.")).stream("Tell me.").answer.text == "All of it."


def test_a_stream_may_be_left_in_the_middle(bench: Bench) -> None:
    model = bench.model(Say("A rather long answer, in several pieces."))
    with model.stream("Tell me.") as stream:
        first = next(iter(stream))
    assert "A rather long answer".startswith(first.strip())
    with pytest.raises(ValueError, match="closed before its end"):
        _ = stream.answer


@pytest.mark.parametrize("streamed", [False, True])
def test_a_tool_is_asked_for_with_its_arguments(bench: Bench, streamed: bool) -> None:
    model = bench.model(Use("look_up", {"word": "Rom"}))
    answer = model.stream("?", tools=[TOOL]).answer if streamed else model.text("?", tools=[TOOL])
    [call] = answer.calls
    assert (call.name, call.arguments.replace(" ", "")) == ("look_up", '{"word":"Rom"}')
    assert call.id
    assert "Look a word up." in bench.asked[0]


def test_a_conversation_goes_on_with_what_the_model_said_and_what_the_tool_gave(bench: Bench) -> None:
    """The messages are those of transcripts, so the whole way is walked: there, back, and there again."""
    model = bench.model(Use("look_up", {"word": "Rom"}), Say("A city."))
    thread = [Message(Role.USER, (Text("What is Rom?"),))]
    first = model.text(shape("pydantic_ai").write(thread), tools=[TOOL])
    thread += shape("pydantic_ai").read([first.message])
    [call] = thread[-1].calls
    thread.append(Message(Role.TOOL, (ToolResult(call.id, (Text("capital of Italy"),), name=call.name),)))
    second = model.text(shape("pydantic_ai").write(thread), system="Be brief.", tools=[TOOL])
    assert second.text == "A city."
    for words in ("What is Rom?", "look_up", "capital of Italy", "Be brief."):
        assert words in bench.asked[1]


@pytest.mark.parametrize("kind", [City, Town])
def test_a_typed_answer_is_a_value_of_the_kind(bench: Bench, kind: type) -> None:
    model = bench.model(Use("answer", {"name": "Rome", "people": 2_800_000}))
    typed: Typed[Any] = model.typed("Which?", kind)
    assert typed.value == kind(name="Rome", people=2_800_000)
    assert typed.attempts == 1
    assert typed.usage.tokens == bench.budget.spent


@pytest.mark.parametrize(
    "said",
    [
        '{"name": "Rome", "people": 3}',
        'Of course!\n```json\n{"name": "Rome", "people": 3}\n```\nAnything else?',
        'The answer is {"name": "Rome", "people": 3}.',
    ],
)
def test_a_typed_answer_may_come_as_words_that_hold_it(bench: Bench, said: str) -> None:
    assert bench.model(Say(said)).typed("Which?", City).value == City("Rome", 3)


def test_a_typed_answer_that_does_not_fit_is_asked_for_again_with_what_is_wrong(bench: Bench) -> None:
    model = bench.model(Use("answer", {"name": "Rome"}), Use("answer", {"name": "Rome", "people": 3}))
    typed = model.typed("Which?", City)
    assert typed.value == City("Rome", 3)
    assert typed.attempts == len(bench.asked) == 2
    assert "people: Field required" in bench.asked[1]
    assert "Which?" in bench.asked[1]
    assert typed.usage.tokens == bench.budget.spent


@pytest.mark.parametrize(
    "said",
    [
        Use("answer", {"name": "Rome", "people": "many"}),
        Use("answer", {}),
        Say("I would rather not."),
        Say("[1, 2]"),
        Say('{"name": "Rome", "people": 3'),
    ],
)
def test_an_answer_that_never_fits_is_nonsense_and_still_on_record(bench: Bench, said: Say | Use) -> None:
    model = bench.model(said, said, said)
    with pytest.raises(ModelNonsense, match="no City in 3 answers"):
        model.typed("Which?", City)
    assert len(bench.asked) == bench.budget.record[model.name].calls == 3


def test_a_kind_that_is_none_is_refused_before_anything_is_sent(bench: Bench) -> None:
    model = bench.model(Say("3"))
    for kind in (int, list[str], object()):
        with pytest.raises(UsageError, match="not a supported answer type"):
            model.typed("Which?", kind)  # type: ignore[arg-type]  # what is tested
    assert not bench.asked


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize("said", ["", "  \n "])
def test_an_empty_answer_is_none(bench: Bench, said: str, streamed: bool) -> None:
    model = bench.model(Say(said))
    with pytest.raises(ModelFailed):
        _ = model.stream("?").answer if streamed else model.text("?")


def test_a_call_that_may_use_too_little_is_not_sent(bench: Bench) -> None:
    model = bench.model(Say("Never."))
    limits = Limits(tokens=1_000, output=100)
    with pytest.raises(OverBudget, match="may use 1000"):
        model.text("word " * 2_000, limits=limits)
    with pytest.raises(OverBudget):
        _ = model.stream("word " * 2_000, limits=limits).answer
    with pytest.raises(OverBudget):
        model.typed("word " * 2_000, City, limits=limits)
    assert not bench.asked
    assert bench.budget.spent == 0


def test_a_budget_that_is_used_up_refuses_before_anything_is_sent(bench: Bench) -> None:
    bench.budget = Budget(2_500)
    model = bench.model(Say("One."), Say("Two."))
    model.text("word " * 1_000, limits=Limits(output=500))
    bench.budget.add(model.name, ModelUsage(2_000, 0))  # as another call of this process
    with pytest.raises(OverBudget, match="of 2500 are left"):
        model.text("Again?", limits=Limits(output=500))
    assert len(bench.asked) == 1


def test_mending_counts_towards_what_one_call_may_use(bench: Bench) -> None:
    bad = Use("answer", {"name": "Rome"}, input=900, output=50)
    model = bench.model(bad, bad, bad)
    with pytest.raises((OverBudget, ModelNonsense)):
        model.typed("word " * 200, City, limits=Limits(tokens=1_100, output=100))
    assert len(bench.asked) < 3


@pytest.mark.parametrize("streamed", [False, True])
def test_a_prompt_that_is_too_long_is_told_as_such(bench: Bench, streamed: bool) -> None:
    model = bench.model(Refuse("overflow"))
    with pytest.raises(ModelOverflow) as caught:
        _ = model.stream("?").answer if streamed else model.text("?")
    assert is_overflow(caught.value)
    assert len(bench.asked) == 1


def test_a_key_that_is_not_taken_is_told_as_such(bench: Bench) -> None:
    model = bench.model(Refuse("key"))
    with pytest.raises(ModelUnauthorised):
        model.text("?")
    with pytest.raises(ModelFailed):
        model.typed("?", City)
