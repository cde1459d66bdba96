"""Memory for pydantic-ai: tools that agents call, a window that fits; on the library's own test models."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from pydantic import BaseModel
from pydantic_ai import Agent
from pydantic_ai.exceptions import ModelContextWindowExceededError, ModelHTTPError, UserError
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    RetryPromptPart,
    SystemPromptPart,
    TextPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.function import AgentInfo, DeltaToolCall, FunctionModel
from pydantic_ai.models.test import TestModel
from pydantic_ai.usage import RequestUsage

from vademecum import Memory
from vademecum.adapters.pydantic_ai import ContextWindow, memory_toolset
from vademecum.errors import WindowFull
from vademecum.tokens import DEFAULT_RATIO
from vademecum.transcripts import Role
from vademecum.transcripts.events import Flushed, MessageEvent, Trimmed, Used
from vademecum.types import Origin

from .worlds import opened, origins

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable
    from pathlib import Path

WINDOW = 6_000
FACT = "The staging database moved to db7 on Tuesday."
LONG = "It reads every row twice and writes a log line for each of them. " * 30


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return opened(tmp_path)


def run(agent: Agent[None, Any], words: str, history: list[ModelMessage] | None = None) -> Any:
    """What an agent makes of this, in a loop that is closed behind it."""
    return asyncio.run(agent.run(words, message_history=history))


def calling(*calls: ToolCallPart) -> FunctionModel:
    """A model that makes these calls at once, and then says what it was told."""

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        last = messages[-1]
        results = [part for part in last.parts if isinstance(part, ToolReturnPart | RetryPromptPart)]
        if not results:
            return ModelResponse(parts=list(calls))
        return ModelResponse(parts=[TextPart("\n".join(str(part.content) for part in results))])

    return FunctionModel(answer)


def size_of(messages: list[ModelMessage]) -> int:
    """About how many tokens a request has, as the models here count it."""
    return sum(len(str(getattr(part, "content", ""))) for each in messages for part in each.parts) // 4


class Talker:
    """A model that answers at length, counts as a provider does, and can be asked to flush."""

    def __init__(self, flush: str = f"- {FACT}", limit: int | None = None) -> None:
        self.flush, self.limit = flush, limit
        self.seen: list[list[ModelMessage]] = []
        self.refused = 0

    def __call__(self, messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        size = size_of(messages)
        if self.limit is not None and size > self.limit:
            self.refused += 1
            raise ModelContextWindowExceededError("function", f"prompt is too long: {size} > {self.limit}")
        if any(tool.name == "journal_append" for tool in info.function_tools):
            return ModelResponse(parts=[TextPart(self.flush)])
        self.seen.append(messages)
        usage = RequestUsage(input_tokens=max(size, 1), output_tokens=100)
        return ModelResponse(parts=[TextPart(f"Part {len(self.seen)}: {LONG}")], usage=usage)


def talk(
    agent: Agent[None, str], turns: int, history: list[ModelMessage] | None = None
) -> list[ModelMessage]:
    for number in range(turns):
        done = run(agent, f"Look at part {number} of the import. {LONG}", history=history)
        history = done.all_messages()
    assert history is not None
    return history


def events_of(memory: Memory) -> list[Any]:
    (session,) = memory.sessions.list()
    return list(memory.sessions.open(session.id).events())


# -------------------------------------------------------------------- tools


def test_an_agent_can_call_every_tool(memory: Memory) -> None:
    toolset = memory_toolset(memory)
    agent = Agent(TestModel(), toolsets=[toolset])
    done = run(agent, "Use all you have.")
    called = {
        part.tool_name
        for each in done.all_messages()
        for part in each.parts
        if isinstance(part, ToolCallPart)
    }
    assert called == {
        "memory_search",
        "memory_get",
        "memory_store",
        "memory_note",
        "session_get",
    }
    request = done.all_messages()[0]
    assert isinstance(request, ModelRequest)
    assert "long-term memory" in (request.instructions or "")


def test_what_an_agent_stores_it_finds_and_reads_again(memory: Memory) -> None:
    toolset = memory_toolset(memory)
    text = "Deploys happen on Fridays at noon."
    run(
        Agent(
            calling(
                ToolCallPart(
                    "memory_store",
                    {"content": text, "key": "Deploy Times", "tags": ["decision"], "type": "feedback"},
                ),
                ToolCallPart("memory_note", {"content": "Talked about deploys."}),
                ToolCallPart(
                    "memory_store",
                    {"type": "solution", "error": "Port in use", "content": "Stop the old one."},
                ),
            ),
            toolsets=[toolset],
        ),
        "Remember this.",
    )
    record = memory.show("deploy-times")
    assert (record.text, record.type, record.tags) == (text, "feedback", ("decision",))
    assert "Talked about deploys." in memory.notes_of_today().text
    assert memory.knowledge.list(type="solution")
    found = run(
        Agent(
            calling(
                ToolCallPart("memory_search", {"query": "When do deploys happen?", "limit": 3}),
                ToolCallPart("memory_get", {"key": "deploy-times"}),
            ),
            toolsets=[toolset],
        ),
        "When?",
    )
    assert text in found.output
    assert "'startLine'" in found.output


def test_what_is_replaced_is_superseded(memory: Memory) -> None:
    toolset = memory_toolset(memory)
    for text in ("Use unittest.", "Use pytest."):
        call = ToolCallPart("memory_store", {"content": text, "key": "tests", "replace": True})
        run(Agent(calling(call), toolsets=[toolset]), "Remember.")
    assert [entry.text for entry in memory.show("tests").live] == ["Use pytest."]


def test_what_tools_write_is_an_agents_word_whoever_opened_the_memory(tmp_path: Path) -> None:
    memory = opened(tmp_path, origin=Origin.USER)
    call = ToolCallPart("memory_store", {"content": "A fact."})
    run(Agent(calling(call), toolsets=[memory_toolset(memory)]), "Remember.")
    assert origins(memory) == {"agent"}


def test_what_was_said_in_earlier_runs_is_found(memory: Memory) -> None:
    window = ContextWindow[None](memory, window=100_000)
    run(
        Agent(TestModel(custom_output_text="Noted."), capabilities=[window]),
        "The lighthouse keeper is called Ione.",
    )
    call = ToolCallPart("memory_search", {"query": "lighthouse keeper"})
    done = run(Agent(calling(call), toolsets=[memory_toolset(memory)]), "Who was it?")
    assert "Ione" in done.output


@pytest.mark.parametrize(
    ("name", "given", "told"),
    [
        ("memory_get", {"path": "../../etc/passwd"}, "not a file of this memory"),
        ("memory_get", {"path": "x", "startLine": 0}, "start at 1"),
        ("memory_store", {"content": "   "}, "empty"),
        ("memory_store", {"content": "x" * 1_100_000}, "at most 8,000"),
        ("memory_store", {"content": "fact", "scope": "session"}, "session"),
        ("memory_store", {"type": "solution", "content": "S"}, "needs `error`"),
        ("memory_store", {"type": "discovery", "content": "F", "confidence": 7}, "from 0 to 1"),
        ("memory_store", {"content": 3}, "must be a text"),
        ("memory_store", {"content": "fact", "scope": "federated"}, "cannot be 'federated'"),
        ("memory_store", {"content": "fact", "idempotency_key": "k"}, "no argument"),
        ("memory_search", {"query": ""}, "`query` is empty"),
        ("memory_search", "[1]", "Input should be an object"),
    ],
)
def test_a_wrong_call_is_told_to_the_model_and_the_run_goes_on(
    memory: Memory, name: str, given: dict[str, Any] | str, told: str
) -> None:
    done = run(Agent(calling(ToolCallPart(name, given)), toolsets=[memory_toolset(memory)]), "Try.")
    assert told in done.output
    assert memory.list().records == ()


def test_refusals_never_end_a_run_however_often(memory: Memory) -> None:
    def stubborn(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) < 12:
            return ModelResponse(parts=[ToolCallPart("memory_get", {"path": "../../etc/passwd"})])
        return ModelResponse(parts=[TextPart("I give up.")])

    agent = Agent(FunctionModel(stubborn), toolsets=[memory_toolset(memory)])
    assert run(agent, "Look.").output == "I give up."


def test_an_incognito_memory_tells_the_model_that_nothing_is_kept(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    memory = Memory.open(tmp_path / "home", cwd=tmp_path / "project", incognito=True)
    agent = Agent(
        calling(ToolCallPart("memory_store", {"content": "A fact."})),
        toolsets=[memory_toolset(memory)],
        capabilities=[ContextWindow(memory, window=100_000)],
    )
    assert "incognito" in run(agent, "Remember.").output
    assert not (tmp_path / "home" / "memory").exists()
    assert not (tmp_path / "home" / "transcripts").exists()


def test_many_calls_at_once_lose_nothing(memory: Memory) -> None:
    calls = [
        ToolCallPart("memory_store", {"content": f"Fact number {n}.", "key": f"fact-{n}"}) for n in range(20)
    ]
    calls += [ToolCallPart("memory_search", {"query": f"fact number {n}"}) for n in range(5)]
    run(Agent(calling(*calls), toolsets=[memory_toolset(memory)]), "Remember all.")
    assert {record.key for record in memory.list().records} == {f"fact-{n}" for n in range(20)}


# -------------------------------------------------------------------- the window


def test_what_fits_is_sent_as_it_is(memory: Memory) -> None:
    sent: list[list[ModelMessage]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        sent.append(messages)
        return ModelResponse(parts=[TextPart("Yes.")])

    agent = Agent(
        FunctionModel(answer), system_prompt="Be brief.", capabilities=[ContextWindow(memory, window=100_000)]
    )
    done = run(agent, "One.")
    again = run(agent, "Two.", history=done.all_messages())
    assert sent[1] == again.all_messages()[:-1]
    said = [event.message for event in events_of(memory) if isinstance(event, MessageEvent)]
    assert [(message.role, message.text) for message in said] == [
        (Role.SYSTEM, "Be brief."),
        (Role.USER, "One."),
        (Role.ASSISTANT, "Yes."),
        (Role.USER, "Two."),
        (Role.ASSISTANT, "Yes."),
    ]


def test_a_long_conversation_stays_within_its_window_and_the_transcript_keeps_every_word(
    memory: Memory,
) -> None:
    model = Talker()
    agent = Agent(
        FunctionModel(model), system_prompt="Be careful.", capabilities=[ContextWindow(memory, window=WINDOW)]
    )
    history = talk(agent, 14)
    assert len(history) == 28, "the agent's own history stays whole"
    assert size_of(history) > WINDOW
    assert max(map(size_of, model.seen)) < WINDOW
    assert all(isinstance(sent[-1], ModelRequest) for sent in model.seen)
    last = model.seen[-1]
    assert isinstance(last[0].parts[0], SystemPromptPart)
    assert last[0].parts[0].content == "Be careful."
    assert any("part 13" in str(part.content) for part in last[-1].parts if isinstance(part, UserPromptPart))
    events = events_of(memory)
    texts = "\n".join(event.message.text for event in events if isinstance(event, MessageEvent))
    assert all(f"part {number} of the import" in texts for number in range(14))
    trims = [event for event in events if isinstance(event, Trimmed)]
    assert trims
    assert {event.why for event in trims} <= {"proactive", "compaction", "validation"}


def test_before_anything_leaves_the_model_is_asked_what_should_outlive_it(memory: Memory) -> None:
    agent = Agent(FunctionModel(Talker()), capabilities=[ContextWindow(memory, window=WINDOW)])
    talk(agent, 8)
    assert FACT in memory.notes_of_today().text
    events = events_of(memory)
    kinds = [type(event) for event in events]
    assert next(event.outcome for event in events if isinstance(event, Flushed)) == "written"
    assert kinds.index(Flushed) < kinds.index(Trimmed)


def test_without_asking_the_model_summaries_are_extracted(memory: Memory) -> None:
    model = Talker()
    agent = Agent(FunctionModel(model), capabilities=[ContextWindow(memory, window=WINDOW, ask_model=False)])
    talk(agent, 8)
    assert len(model.seen) == 8, "no request but the agent's own"
    assert {event.outcome for event in events_of(memory) if isinstance(event, Flushed)} == {
        "skipped:no model"
    }


def test_a_model_that_fails_when_asked_to_flush_stops_nothing(memory: Memory) -> None:
    talker = Talker()

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if any(tool.name == "journal_append" for tool in info.function_tools):
            raise RuntimeError("no")
        return talker(messages, info)

    agent = Agent(FunctionModel(answer), capabilities=[ContextWindow(memory, window=WINDOW)])
    assert len(talk(agent, 8)) == 16
    outcomes = [event.outcome for event in events_of(memory) if isinstance(event, Flushed)]
    assert outcomes
    assert all(outcome.startswith("failed:") for outcome in outcomes)


def test_what_the_provider_counts_is_kept_and_learned_from(memory: Memory) -> None:
    agent = Agent(
        FunctionModel(Talker(), model_name="counting"), capabilities=[ContextWindow(memory, window=100_000)]
    )
    talk(agent, 3)
    used = [event for event in events_of(memory) if isinstance(event, Used)]
    assert len(used) == 3
    assert all(event.input > 100 and event.output == 100 for event in used)
    assert memory.workspace.state.ratio("counting") not in (None, DEFAULT_RATIO)


def test_another_process_goes_on_with_the_same_window(tmp_path: Path) -> None:
    def agent(model: Talker) -> tuple[Agent[None, str], ContextWindow[None]]:
        window = ContextWindow[None](opened(tmp_path), window=WINDOW, session="import", ask_model=False)
        return Agent(FunctionModel(model), capabilities=[window]), window

    first, second = Talker(), Talker()
    begun, _ = agent(first)
    history = talk(begun, 8)
    resumed, window = agent(second)
    assert window.history() == history
    run(resumed, "Go on.", history=window.history())
    events = list(opened(tmp_path).sessions.open("import").events())
    assert not [event for event in events if isinstance(event, Trimmed) and event.why == "taken back"]
    assert sum(isinstance(event, MessageEvent) for event in events) == 18
    assert size_of(second.seen[0]) < WINDOW
    assert window.history("no-such-session") == []


def test_runs_without_a_common_history_are_sessions_of_their_own_also_at_once(memory: Memory) -> None:
    agent = Agent(TestModel(), capabilities=[ContextWindow(memory, window=100_000)])

    async def work() -> None:
        await asyncio.gather(*(agent.run(f"Question {number}.") for number in range(6)))

    asyncio.run(work())
    sessions = memory.sessions.list()
    assert len(sessions) == 6
    assert {each.messages for each in sessions} == {2}


def test_tool_calls_and_structured_output_stand_in_the_transcript(memory: Memory) -> None:
    class Answer(BaseModel):
        port: int

    agent = Agent(TestModel(), output_type=Answer, capabilities=[ContextWindow(memory, window=100_000)])

    @agent.tool_plain
    def look(of: str) -> dict[str, Any]:
        """Look something up."""
        return {"port": 8443, "of": of}

    run(agent, "Which port?")
    said = [event.message for event in events_of(memory) if isinstance(event, MessageEvent)]
    calls = [call.name for message in said for call in message.calls]
    results = [result.name for message in said for result in message.results]
    assert calls == results == ["look", "final_result"]


@pytest.mark.parametrize(
    "refusal",
    [
        lambda: ModelContextWindowExceededError("function", "prompt is too long"),
        lambda: ModelHTTPError(400, "function", {"error": {"code": "context_length_exceeded"}}),
    ],
)
def test_a_provider_that_refuses_gets_less_until_it_takes_it(
    memory: Memory, refusal: Callable[[], Exception]
) -> None:
    talker, refused = Talker(), 0

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        nonlocal refused
        if size_of(messages) > 2_500:
            refused += 1
            raise refusal()
        return talker(messages, info)

    window = ContextWindow[None](memory, window=20_000, ask_model=False)
    agent = Agent(FunctionModel(answer), capabilities=[window])
    history = talk(agent, 6)
    assert refused
    assert len(history) == 12
    whys = [event.why for event in events_of(memory) if isinstance(event, Trimmed)]
    assert whys[0] == "half"
    assert set(whys) <= {"half", "quarter", "minimal", "proactive"}  # the last: the window is known by then


def test_when_nothing_helps_the_providers_own_error_is_raised(memory: Memory) -> None:
    agent = Agent(FunctionModel(Talker(limit=1)), capabilities=[ContextWindow(memory, window=20_000)])
    with pytest.raises(ModelContextWindowExceededError) as caught:
        run(agent, f"Look. {LONG}")
    assert isinstance(caught.value.__cause__, WindowFull)
    texts = [event.message.text for event in events_of(memory) if isinstance(event, MessageEvent)]
    assert len(texts) == 1
    assert texts[0].startswith("Look.")


def test_any_other_error_ends_the_run_as_ever_and_what_was_said_is_kept(memory: Memory) -> None:
    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        if len(messages) == 1:
            return ModelResponse(parts=[ToolCallPart("look", {})])
        raise ValueError("broken")

    agent = Agent(FunctionModel(answer), capabilities=[ContextWindow(memory, window=20_000)])

    @agent.tool_plain
    def look() -> str:
        """Look."""
        return "There is a door."

    with pytest.raises(ValueError, match="broken"):
        run(agent, "Look.")
    said = [event.message for event in events_of(memory) if isinstance(event, MessageEvent)]
    assert [result.text for message in said for result in message.results] == ["There is a door."]


def test_a_tool_that_breaks_the_run_leaves_the_call_in_the_transcript(memory: Memory) -> None:
    agent = Agent(calling(ToolCallPart("look", {})), capabilities=[ContextWindow(memory, window=20_000)])

    @agent.tool_plain
    def look() -> str:
        """Look."""
        raise RuntimeError("the lamp is out")

    with pytest.raises(RuntimeError, match="lamp"):
        run(agent, "Look.")
    said = [event.message for event in events_of(memory) if isinstance(event, MessageEvent)]
    assert [call.name for message in said for call in message.calls] == ["look"]


def test_a_prompt_that_can_never_fit_is_told_before_it_is_sent(memory: Memory) -> None:
    model = Talker()
    agent = Agent(
        FunctionModel(model), system_prompt=LONG * 20, capabilities=[ContextWindow(memory, window=2_000)]
    )
    with pytest.raises(WindowFull, match="system prompt"):
        run(agent, "Hello.")
    assert model.seen == []


def test_a_window_that_nobody_knows_is_asked_for(memory: Memory) -> None:
    agent = Agent(FunctionModel(Talker()), capabilities=[ContextWindow(memory)])
    with pytest.raises(UserError, match="window="):
        run(agent, "Hello.")


def test_the_window_of_the_models_profile_is_used(memory: Memory) -> None:
    model = Talker()
    agent = Agent(
        FunctionModel(model, profile={"context_window": WINDOW}),
        capabilities=[ContextWindow(memory, ask_model=False)],
    )
    talk(agent, 8)
    assert max(map(size_of, model.seen)) < WINDOW


def test_instructions_and_tools_count_as_part_of_the_window(memory: Memory) -> None:
    model = Talker()
    agent = Agent(
        FunctionModel(model), instructions=LONG * 20, capabilities=[ContextWindow(memory, window=4_000)]
    )
    with pytest.raises(WindowFull):
        run(agent, "Hello.")


def test_a_streamed_run_is_kept_within_its_window_too(memory: Memory) -> None:
    sizes: list[int] = []

    async def stream(
        messages: list[ModelMessage], info: AgentInfo
    ) -> AsyncIterator[str | dict[int, DeltaToolCall]]:
        sizes.append(size_of(messages))
        for word in f"Part: {LONG}".split(" "):
            yield f"{word} "

    agent = Agent(
        FunctionModel(stream_function=stream),
        capabilities=[ContextWindow(memory, window=WINDOW, ask_model=False)],
    )

    async def work() -> None:
        history: list[ModelMessage] | None = None
        for number in range(8):
            async with agent.run_stream(f"Part {number}? {LONG}", message_history=history) as run:
                await run.get_output()
            history = run.all_messages()

    asyncio.run(work())
    assert max(sizes) < WINDOW
    said = [event.message for event in events_of(memory) if isinstance(event, MessageEvent)]
    assert [message.role for message in said] == [Role.USER, Role.ASSISTANT] * 8


def test_a_run_that_is_cancelled_leaves_what_was_said(memory: Memory) -> None:
    async def slow(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        await asyncio.sleep(60)
        return ModelResponse(parts=[TextPart("never")])

    agent = Agent(FunctionModel(slow), capabilities=[ContextWindow(memory, window=WINDOW)])

    async def work() -> None:
        task = asyncio.create_task(agent.run("Are you there?"))
        while not memory.sessions.list() or not memory.sessions.list()[0].messages:
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(work())
    assert [event.message.text for event in events_of(memory) if isinstance(event, MessageEvent)] == [
        "Are you there?"
    ]


def test_the_thread_of_a_session_is_what_the_agent_has(memory: Memory) -> None:
    agent = Agent(FunctionModel(Talker()), capabilities=[ContextWindow(memory, window=WINDOW, session="one")])
    history = talk(agent, 6)
    thread = memory.sessions.messages("one")
    assert [message.text for message in thread if message.role is Role.ASSISTANT] == [
        part.content for each in history for part in each.parts if isinstance(part, TextPart)
    ]
