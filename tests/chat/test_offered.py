"""Nothing is named that is not there: over every door, each tool that a text names is one that is offered."""

from __future__ import annotations

import asyncio
import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from vademecum import Memory, Message, NotFound, Role, Text, ToolCall, ToolResult, errors
from vademecum.adapters.pydantic_ai import ContextWindow, memory_toolset
from vademecum.errors import OutsideMemory, VadeError
from vademecum.interfaces.chat import conversation, tools
from vademecum.interfaces.cli.app import cli
from vademecum.interfaces.mcp import resources, server
from vademecum.interfaces.tools.sets import TOOL_SETS
from vademecum.llm.base import Call
from vademecum.llm.scripted import Scripted
from vademecum.transcripts.events import Checkpoint, Compacted, Summary

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.llm.scripted import ScriptedQuestion

    from .conftest import Room

EVERY = sorted(
    {*(each.name for each in TOOL_SETS["all"]), *tools.names(), "session_progress"} - {"todo", "grep"}
)
NAMED = re.compile(rf"\b(?:{'|'.join(EVERY)})\b")
LONG = "It reads every row twice and writes a log line for each of them. " * 60


def not_offered(text: str, offered: list[str]) -> set[str]:
    """Tools that a text names and that are not there; the place of a checkpoint belongs to what reads it."""
    reads = {"session_get", "memory_operations"}.intersection(offered)
    there = {*offered, *(["session_progress"] if reads else [])}
    return {*NAMED.findall(text)} - there


# -------------------------------------------------------------------- MCP


@pytest.mark.parametrize("family", TOOL_SETS)
def test_each_family_of_tools_is_told_of_itself_alone(family: str, tmp_path: Path) -> None:
    told = server.offer()
    ids = told["families"][family]
    offered = [told["tools"][id]["name"] for id in ids]
    texts = [told["instructions"][family], json.dumps(told["templates"])]
    texts += [json.dumps(told["tools"][id]) for id in ids]
    memory = Memory.open(home=tmp_path, cwd=tmp_path)
    for prompt in told["prompts"][family]:
        given = {each["name"]: "tests" for each in prompt["arguments"]}
        texts.append(json.dumps(resources.get_prompt(memory, prompt["name"], given, tools=offered)))
    kinds = [each for each in vars(errors).values() if isinstance(each, type)]
    kinds = [each for each in kinds if issubclass(each, VadeError) and each.__init__ is VadeError.__init__]
    texts += [server.describe_error(each("no")) for each in kinds]
    assert OutsideMemory in kinds
    for text in texts:
        assert not_offered(text, offered) == set(), text
    with pytest.raises(NotFound):
        resources.get_prompt(memory, "handoff", {}, tools=["save_memory"])


def test_the_instructions_name_a_way_to_look_and_one_to_keep_for_each_family() -> None:
    for family, said in server.offer()["instructions"].items():
        look, keep = said.split("\n\n")[1:3]
        assert NAMED.search(look), family
        assert NAMED.search(keep), family


# -------------------------------------------------------------------- the chat


def talked(room: Room, window: int, turns: int = 14, **given: Any) -> tuple[Any, Scripted]:
    """A chat that went on until much has left its window."""

    def answer(asked: ScriptedQuestion) -> str:
        return (
            "NO_REPLY" if any(each["name"] == "journal_append" for each in asked.tools) else f"Done. {LONG}"
        )

    # A tool's result that is later cut, then words.
    model = Scripted(Call("c1", "run_command", json.dumps({"command": "seq 4000"})), *([answer] * 200))
    chat = room.chat(model, window=window, allow=("run_command",), **given)
    chat.engine._settings = chat.engine._settings._replace(compaction=False)
    for number in range(turns):
        assert conversation.run_turn(chat, f"Look at part {number} of the import. {LONG}").ok
    return chat, model


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    ("window", "given", "many"),
    [
        (24_000, {}, 11),
        (12_000, {}, 5),
        (8_192, {}, 5),
        (12_000, {"incognito": True}, 5),
        (8_192, {"readonly": True}, 5),
    ],
)
def test_the_chat_tells_its_model_of_the_tools_that_go_with_the_request(
    room: Room, window: int, given: dict[str, Any], many: int
) -> None:
    room.chat().person.store("Deploys happen on Tuesdays.", key="deploys")
    room.close()
    chat, model = talked(room, window, **given)
    assert chat.engine.inspect().cycles
    for asked in model.asked:
        offered = [each["name"] for each in asked.tools]
        if "journal_append" not in offered:  # a flush is asked over the conversation as it is
            assert not_offered(json.dumps(asked.prompt), offered) == set()
    assert len(chat.offered()) == many


def test_a_window_that_turns_out_smaller_takes_the_names_of_tools_out_of_what_is_sent(room: Room) -> None:
    chat, model = talked(room, 24_000)
    assert "session_get session=" in json.dumps(model.asked[-1].prompt)
    chat.flags = type(chat.flags)(window=12_000, allow=chat.flags.allow)
    chat.renew()
    assert conversation.run_turn(chat, "And now?").ok
    offered = [each["name"] for each in model.asked[-1].tools]
    assert len(offered) == 5
    assert not_offered(json.dumps(model.asked[-1].prompt), offered) == set()


def test_a_model_without_tools_is_told_of_none(room: Room) -> None:
    person = room.chat().person
    for number in range(40):
        person.store(f"Service {number} listens on port {8000 + number}. {LONG[:300]}", key="ports")
    room.close()
    chat = room.chat(Scripted("Yes."))
    assert "memory_search" in chat.thread[0].text
    chat.tools_on = False
    assert conversation.run_turn(chat, "Well?").ok
    assert "Service 39" in chat.thread[0].text
    assert not_offered(chat.thread[0].text, []) == set()


@pytest.mark.parametrize("given", [{"incognito": True}, {"window": 8_192}])
def test_a_call_of_what_is_not_there_is_answered_with_what_is(room: Room, given: dict[str, Any]) -> None:
    chat = room.chat(Scripted("Yes."), **given)
    offered = [each["name"] for each in chat.offered()]
    for name, arguments in (("memory_frob", "{}"), ("read_file", '{"path": "nowhere"}')):
        said = tools.run_call(chat, Call("1", name, arguments)).text
        assert not_offered(said.replace("'memory_frob'", ""), offered) == set()


# -------------------------------------------------------------------- what is named can be read


def test_every_call_that_a_block_or_a_note_names_gives_back_what_it_says(room: Room) -> None:
    chat, model = talked(room, 24_000)
    sent = json.dumps(model.asked[-1].prompt)
    calls = {*re.findall(r"session_get session=(\S+) place=([\w-]+)", sent)}
    places = {place for _, place in calls}
    assert "session_progress" in places
    for session, place in calls:
        given = json.dumps({"session": session, "place": place})
        found = tools.run_call(chat, Call("1", "session_get", given))
        assert not found.error, found.text
    newest = [event for event in chat.log.events() if isinstance(event, Checkpoint)][-1]
    given = json.dumps({"session": chat.log.session, "place": "session_progress"})
    assert newest.task in tools.run_call(chat, Call("1", "session_get", given)).text
    asked = json.dumps({"query": "Look at part 1 of the import", "sources": ["transcript"]})
    assert "part 1 of the import" in tools.run_call(chat, Call("1", "memory_search", asked)).text


def test_the_state_of_the_work_is_read_at_every_door(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    chat, _ = talked(room, 12_000)
    session, task = chat.log.session, "Look at part 12 of the import."
    room.close()
    memory = Memory.open(home=room.home, cwd=room.project)
    (line,) = memory.sessions.get(session, "session_progress")
    assert isinstance(line.event, Checkpoint)
    assert task in line.event.task
    monkeypatch.chdir(room.project)
    for more in ([], ["--json"]):
        words = ["--home", str(room.home), *more, "sessions", "get", session, "session_progress"]
        done = CliRunner().invoke(cli, words)
        assert done.exit_code == 0, done.output
        assert task in done.output
    quiet = memory.sessions.new(id="quiet")
    with pytest.raises(NotFound, match="has no checkpoint: nothing was trimmed yet"):
        memory.sessions.get(quiet.session, "session_progress")


# -------------------------------------------------------------------- hosts


def long_thread(turns: int = 12) -> list[Message]:
    thread = [Message(Role.SYSTEM, (Text("You help."),))]
    for at in range(turns):
        thread += [
            Message(Role.USER, (Text(f"Look at part {at} of the import. {LONG}"),), id=f"u{at}"),
            Message(Role.ASSISTANT, (ToolCall(f"c{at}", "bash", "{}"),), id=f"a{at}"),
            Message(Role.TOOL, (ToolResult(f"c{at}", (Text(LONG * 4),)),), id=f"t{at}"),
        ]
    return thread


@pytest.mark.parametrize(
    ("offered", "names", "said"),
    [
        ((), None, set()),
        (({"name": "bash", "parameters": {}},), None, set()),
        (({"name": "mcp__vade__session_get", "input_schema": {}},), None, {"mcp__vade__session_get"}),
        (({"type": "function", "function": {"name": "session_search"}},), None, {"session_search"}),
        (({"functionDeclarations": [{"name": "session_get"}]},), None, {"session_get"}),
        (({"name": "session_get"},), {}, set()),
        ((), {"session_get": "look_up", "session_search": "find_talk"}, {"look_up", "find_talk"}),
    ],
)
def test_a_host_is_told_in_the_names_of_its_own_tools(
    tmp_path: Path, offered: tuple[Any, ...], names: dict[str, str] | None, said: set[str]
) -> None:
    memory = Memory.open(home=tmp_path / "home", cwd=tmp_path)
    engine = memory.sessions.context(memory.sessions.new(id="s"), window=12_000, names=names)
    sent = engine.prepare(long_thread(), offered)
    assert sent.trimmed
    text = "\n".join(each.text + "".join(part.text for part in each.results) for each in sent.messages)
    known = re.compile(rf"\b(?:mcp__vade__session_get|look_up|find_talk|{'|'.join(EVERY)})\b")
    assert {*known.findall(text)} - {"session_progress"} == said
    assert ("session_progress" in text) == any(each.endswith(("get", "look_up")) for each in said)
    assert sent.tokens.total <= sent.tokens.limit
    kept = [event.text for event in engine._log.events() if isinstance(event, Summary | Compacted)]
    assert engine.inspect().summary == kept[-1]


def test_an_agent_of_pydantic_ai_is_told_of_the_tools_it_has(tmp_path: Path) -> None:
    from pydantic_ai import Agent
    from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart
    from pydantic_ai.models.function import AgentInfo, FunctionModel

    memory = Memory.open(home=tmp_path / "home", cwd=tmp_path)
    seen: list[tuple[str, list[str]]] = []

    def answer(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
        told = str(messages) + str(info.instructions)
        seen.append((told, [each.name for each in info.function_tools]))
        return ModelResponse(parts=[TextPart(f"Done. {LONG}")])

    window = ContextWindow(memory, window=12_000, session="s", ask_model=False)
    for toolsets in ([memory_toolset(memory)], []):
        agent = Agent(FunctionModel(answer), toolsets=toolsets, capabilities=[window])
        history: list[ModelMessage] = window.history()
        for number in range(6):
            done = asyncio.run(agent.run(f"Look at part {number}. {LONG}", message_history=history))
            history = done.all_messages()
    assert any("<thread_summary>" in told for told, _ in seen)
    assert any("found with memory_search" in told for told, offered in seen if offered)
    for told, offered in seen:
        assert not_offered(told, offered) == set()
