"""Sessions of the OpenAI Agents SDK as transcripts, held against the SDK's own in SQLite."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING, Any

import pytest
from agents import Agent, RunConfig, Runner, function_tool
from agents.exceptions import UserError
from agents.items import ModelResponse
from agents.memory import Session, SessionSettings, SQLiteSession
from agents.models.interface import Model
from agents.usage import Usage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText

from vademecum.adapters.openai_agents import TranscriptSession
from vademecum.errors import InvalidKey
from vademecum.transcripts.events import MessageEvent, Trimmed

from .worlds import opened

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

ASKED: Any = {"role": "user", "content": "Which port does staging use?"}
THOUGHT: Any = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Look it up."}],
}
CALL: Any = {
    "type": "function_call",
    "id": "fc_1",
    "call_id": "call_1",
    "name": "port",
    "arguments": '{"of": "staging"}',
}
RESULT: Any = {"type": "function_call_output", "call_id": "call_1", "output": "8443"}
SAID: Any = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "status": "completed",
    "content": [{"type": "output_text", "text": "Port 8443.", "annotations": [], "logprobs": []}],
}
PICTURE: Any = {
    "role": "user",
    "content": [
        {"type": "input_text", "text": "And this?"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
    ],
}
SEARCH: Any = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "x"},
}
COMPACTED: Any = {"type": "compaction", "id": "cmp_1", "encrypted_content": "gAAAA"}
NEW: Any = {"type": "something_new", "payload": {"deep": [1, 2.5, None, True, "é\u2028"]}}
ITEMS: list[Any] = [ASKED, THOUGHT, CALL, RESULT, SAID, PICTURE, SEARCH, COMPACTED, NEW]


class Scripted(Model):
    """A model that asks for the port once, and then says what it was told."""

    def __init__(self) -> None:
        self.seen: list[list[Any]] = []

    async def get_response(self, *args: Any, **kwargs: Any) -> ModelResponse:
        given = kwargs.get("input", args[1] if len(args) > 1 else [])
        items = given if isinstance(given, list) else [{"role": "user", "content": given}]
        self.seen.append(items)
        told = [each for each in items if each.get("type") == "function_call_output"]
        if not told:
            call = ResponseFunctionToolCall(
                type="function_call", call_id="call_1", name="port", arguments='{"of": "staging"}'
            )
            return ModelResponse(output=[call], usage=Usage(), response_id=None)
        words = ResponseOutputText(type="output_text", text=f"Port {told[-1]['output']}.", annotations=[])
        message = ResponseOutputMessage(
            id="m", type="message", role="assistant", status="completed", content=[words]
        )
        return ModelResponse(output=[message], usage=Usage(), response_id=None)

    def stream_response(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError


def agent(model: Model) -> Agent[Any]:
    @function_tool
    def port(of: str) -> str:
        """The port of a server."""
        return "8443"

    return Agent(name="ops", model=model, tools=[port])


def test_it_is_a_session_as_the_sdk_defines_one(tmp_path: Path) -> None:
    assert isinstance(TranscriptSession(opened(tmp_path), "talk"), Session)


def test_items_of_every_kind_come_back_as_they_were_also_in_another_process(tmp_path: Path) -> None:
    asyncio.run(TranscriptSession(opened(tmp_path), "talk").add_items(ITEMS))
    assert asyncio.run(TranscriptSession(opened(tmp_path), "talk").get_items()) == ITEMS


ODD: list[Any] = [
    {"type": "message", "role": "assistant", "content": []},
    {"role": "user", "content": ""},
    {"role": "martian", "content": "x"},
    {},
    {"type": "message"},
    {"role": "assistant", "content": None},
    {"type": None, "role": "user", "content": "a"},
    {"type": "function_call_output", "call_id": 3, "output": {"a": 1}},
    {"role": "assistant", "content": "one"},
    {"role": "assistant", "content": "two"},
    {"type": "reasoning"},
    {"id": "1", "role": "user", "content": "c"},
]


def test_items_that_no_api_would_take_come_back_too_and_are_popped_one_by_one(tmp_path: Path) -> None:
    async def work() -> None:
        await TranscriptSession(opened(tmp_path), "talk").add_items(ODD)
        assert await TranscriptSession(opened(tmp_path), "talk").get_items() == ODD
        for item in reversed(ODD):
            assert await TranscriptSession(opened(tmp_path), "talk").pop_item() == item

    asyncio.run(work())


def test_a_runner_goes_on_with_a_session_that_another_process_began(tmp_path: Path) -> None:
    async def ask(words: str) -> tuple[str, list[list[Any]]]:
        model = Scripted()
        session = TranscriptSession(opened(tmp_path), "talk")
        done = await Runner.run(
            agent(model), words, session=session, run_config=RunConfig(tracing_disabled=True)
        )
        return str(done.final_output), model.seen

    answer, _ = asyncio.run(ask("Which port does staging use?"))
    assert answer == "Port 8443."
    answer, seen = asyncio.run(ask("Say it again."))
    kinds = [each.get("type") or each.get("role") for each in seen[0]]
    assert kinds == ["user", "function_call", "function_call_output", "message", "user"]
    assert answer == "Port 8443."
    found = opened(tmp_path).sessions.search("staging port")
    assert found.hits, "what was said is found by later sessions"


def test_what_is_popped_and_cleared_leaves_the_session_and_stays_in_the_log(tmp_path: Path) -> None:
    memory = opened(tmp_path)

    async def work() -> None:
        session = TranscriptSession(memory, "talk")
        await session.add_items([ASKED, THOUGHT, CALL])
        assert await session.pop_item() == CALL
        assert await session.get_items() == [ASKED, THOUGHT]
        await session.clear_session()
        assert await session.get_items() == []
        assert await session.pop_item() is None
        await session.add_items([RESULT])

    asyncio.run(work())
    events = list(memory.sessions.open("talk").events())
    texts = [str(event.message) for event in events if isinstance(event, MessageEvent)]
    assert any("Which port" in text for text in texts)
    assert any("call_1" in text for text in texts)
    assert sum(isinstance(event, Trimmed) for event in events) == 2
    assert asyncio.run(TranscriptSession(memory, "talk").get_items()) == [RESULT]


def test_a_limit_gives_the_newest_items_in_order(tmp_path: Path) -> None:
    async def work() -> None:
        session = TranscriptSession(opened(tmp_path), "talk", session_settings=SessionSettings(limit=3))
        await session.add_items(ITEMS)
        assert await session.get_items() == ITEMS[-3:]
        assert await session.get_items(2) == ITEMS[-2:]
        assert await session.get_items(100) == ITEMS
        assert await session.get_items(0) == []
        for wrong in (-1, "2", 1.5, True):
            with pytest.raises(UserError):
                await session.get_items(wrong)  # type: ignore[arg-type]  # what is tested

    asyncio.run(work())


def run_beside(folder: Path, seed: int, steps: int) -> None:
    chance, memory = random.Random(seed), opened(folder)

    async def work() -> None:
        theirs: Any = SQLiteSession("talk")
        for _ in range(steps):
            ours: Any = TranscriptSession(memory, "talk")
            match chance.randint(0, 9):
                case 0:
                    await asyncio.gather(ours.clear_session(), theirs.clear_session())
                case 1 | 2 | 3:
                    assert await ours.pop_item() == await theirs.pop_item()
                case _:
                    items = chance.choices(ITEMS, k=chance.randint(0, 5))
                    await ours.add_items(items)
                    await theirs.add_items(items)
            limit = chance.choice([None, 1, 4])
            assert await ours.get_items(limit) == await theirs.get_items(limit)

    asyncio.run(work())


@pytest.mark.parametrize("seed", range(3))
def test_any_calls_give_what_the_sdks_own_session_gives(tmp_path: Path, seed: int) -> None:
    run_beside(tmp_path, seed, 25)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_calls_give_what_the_sdks_own_session_gives(tmp_path: Path, seed: int) -> None:
    run_beside(tmp_path, seed, 200)


def test_calls_at_once_lose_and_repeat_nothing(tmp_path: Path) -> None:
    memory = opened(tmp_path)

    async def work() -> None:
        sessions = [TranscriptSession(memory, "talk") for _ in range(3)]
        items: list[Any] = [{"role": "user", "content": f"message {number}"} for number in range(30)]
        await asyncio.gather(*(sessions[at % 3].add_items([item]) for at, item in enumerate(items)))
        kept = await sessions[0].get_items()
        assert sorted(map(str, kept)) == sorted(map(str, items))
        popped = await asyncio.gather(*(session.pop_item() for session in sessions * 5))
        left = await sessions[1].get_items()
        assert sorted(map(str, [*popped, *left])) == sorted(map(str, items))

    asyncio.run(work())


def test_an_id_means_that_session_and_none_that_begins_so(tmp_path: Path) -> None:
    memory = opened(tmp_path)

    async def work() -> None:
        await TranscriptSession(memory, "talk-with-ada").add_items([ASKED])
        assert await TranscriptSession(memory, "talk").get_items() == []
        assert await TranscriptSession(memory).get_items() == []

    asyncio.run(work())
    assert len(memory.sessions.list()) == 3


def test_a_secret_is_there_in_this_process_and_in_no_file(tmp_path: Path) -> None:
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    item: Any = {"role": "user", "content": f"Use {secret} for the release."}
    memory = opened(tmp_path)

    async def work() -> tuple[list[Any], list[Any]]:
        session = TranscriptSession(memory, "talk")
        await session.add_items([item])
        return list(await session.get_items()), list(await TranscriptSession(memory, "talk").get_items())

    here, elsewhere = asyncio.run(work())
    assert here == [item]
    assert "REDACTED" in elsewhere[0]["content"]
    assert not any(secret in path.read_text(errors="ignore") for path in tmp_path.rglob("*.jsonl"))


@pytest.mark.parametrize(
    "wrong",
    ["text", 3, None, ["nested"], {"role": "user", "content": object()}, {"role": "user", "content": b"x"}],
)
def test_what_is_no_item_is_refused_and_nothing_beside_it_is_kept(tmp_path: Path, wrong: Any) -> None:
    session = TranscriptSession(opened(tmp_path), "talk")
    with pytest.raises(UserError, match="none was"):
        asyncio.run(session.add_items([ASKED, wrong]))
    assert asyncio.run(session.get_items()) == []


def test_an_item_that_is_too_large_is_refused_and_nothing_beside_it_is_kept(tmp_path: Path) -> None:
    session = TranscriptSession(opened(tmp_path), "talk")
    huge: Any = {"role": "user", "content": "x" * (64 * 1024 * 1024)}
    with pytest.raises(UserError, match="larger than"):
        asyncio.run(session.add_items([ASKED, huge]))
    assert asyncio.run(session.get_items()) == []


@pytest.mark.parametrize("wrong", ["../other", "a/b", ".hidden", "x" * 200])
def test_an_id_that_cannot_name_a_file_is_refused(tmp_path: Path, wrong: str) -> None:
    with pytest.raises(InvalidKey):
        TranscriptSession(opened(tmp_path), wrong)
    assert not list(tmp_path.rglob("*.jsonl"))


def test_an_incognito_session_leaves_no_file(tmp_path: Path) -> None:
    from vademecum import Memory

    (tmp_path / "project").mkdir()
    memory = Memory.open(tmp_path / "home", cwd=tmp_path / "project", incognito=True)

    async def work() -> list[Any]:
        session = TranscriptSession(memory, "talk")
        await session.add_items(ITEMS)
        assert await session.pop_item() == NEW
        return list(await TranscriptSession(memory, "talk").get_items())

    assert asyncio.run(work()) == ITEMS[:-1]
    assert not list((tmp_path / "home").rglob("*.jsonl")) if (tmp_path / "home").exists() else True
