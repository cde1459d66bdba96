"""A session as an agent reads it: turns that fit into its context, from the calls that memory recommends."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hooks.calls import World, wait_until
from transcripts.test_own_traffic import FORMATS, PROMPTS, placed
from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.tools.core import memory_get, memory_search, session_get
from vademecum.interfaces.tools.declaration import Read
from vademecum.memory import connect
from vademecum.text.fit import cut_to, json_size
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import Checkpoint, MessageEvent
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.interfaces.tools.declaration import Tool
    from vademecum.memory import Memory

MOST = 20_000


@pytest.fixture
def memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Memory:
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("HOME", str(tmp_path / "person"))
    return connect(
        home=tmp_path / "person" / ".vade", cwd=tmp_path / "project", origin=Origin.USER, actor="human:ada"
    )


def ask(memory: Memory, tool: Tool, **given: Any) -> dict[str, Any]:
    """The answer of a tool, which must fit."""
    plan = tool.planned(given)
    assert isinstance(plan, Read)
    answer = dict(plan.do(memory))
    assert json_size(answer) <= memory.settings.limits.answer_chars
    return answer


def spoken(memory: Memory, *turns: tuple[Role, Any]) -> None:
    """A session of these messages."""
    log = memory.sessions.new(id="earlier")
    for role, said in turns:
        log.append(MessageEvent(Message(role, (Text(said),) if isinstance(said, str) else said)))


@pytest.mark.parametrize("agent", FORMATS)
def test_the_call_that_the_block_recommends_gives_what_was_said_in_every_agents_session(
    memory: Memory, tmp_path: Path, agent: str
) -> None:
    done = memory.sessions.import_transcript(placed(tmp_path / "person", agent), agent=FORMATS[agent])
    raw = memory.home.path / memory.sessions.open(done.session, all=True).path
    found = memory.sessions.read(done.session, 1, lines=40, all=True)
    said = [each.text.strip('"') for each in found.turns if each.role == "user"]
    assert said == PROMPTS
    assert all(each.role in ("user", "assistant", "tool", "summary") for each in found.turns)
    assert all(each.time and each.text for each in found.turns)
    assert found.turns[-1].text.endswith("nobody knows.")
    assert sum("memory_store" in each.text for each in found.turns) >= 1
    calls = [line for each in found.turns for line in each.text.splitlines() if line.startswith("→")]
    assert len(calls) >= 17
    assert max(map(len, calls)) < 300
    assert found.next == ""
    assert sum(len(each.text) for each in found.turns) < min(12_000, raw.stat().st_size / 4)


def test_a_session_start_names_a_call_and_the_call_answers(tmp_path: Path) -> None:
    world = World.at(tmp_path)
    world.memory().store("Always use pytest in this project", key="testing")
    path = placed(world.person, "claude-code")
    path.write_text(path.read_text("utf-8").replace("/home/ada/project", str(world.project)), "utf-8")
    world.call("claude-code", "stop", {"session_id": "one", "transcript_path": str(path)})
    wait_until(lambda: world.logs() and b"nobody knows" in world.logs()[0].read_bytes())
    block = world.call("claude-code", "session-start", {"session_id": "new"}).context
    match = re.search(r"session_get (\{[^}]*\})", block)
    assert match, block
    answer = ask(world.memory(), session_get, **json.loads(match[1]))
    assert [each["text"] for each in answer["turns"] if each["role"] == "user"] == PROMPTS
    assert "nobody knows" in answer["turns"][-1]["text"]
    assert "deferred" not in json.dumps(answer)


def test_results_stand_shortened_below_their_calls_and_a_single_turn_is_whole(memory: Memory) -> None:
    long = f"first line\n{'middle ' * 400}\nlast line"
    spoken(
        memory,
        (Role.SYSTEM, "You are an agent."),
        (Role.USER, "Look at the log."),
        (Role.ASSISTANT, (Text("I look."), ToolCall("c1", "bash", '{"command":\n"cat log"}'))),
        (Role.TOOL, (ToolResult("c1", (Text(long),)),)),
        (Role.ASSISTANT, "Done."),
    )
    answer = ask(memory, session_get, session="earlier", place=1)
    assert [(each["place"], each["role"]) for each in answer["turns"]] == [
        (3, "user"),
        (4, "assistant"),
        (6, "assistant"),
    ]
    words, call, *result = answer["turns"][1]["text"].split("\n")
    assert (words, call) == ("I look.", '→ bash {"command": "cat log"}')
    assert result[0] == "← first line"
    assert "more characters] … " in answer["turns"][1]["text"]
    assert len(answer["turns"][1]["text"]) < 500
    (whole,) = ask(memory, session_get, session="earlier", place=4, lines=1)["turns"]
    assert whole["text"].endswith(f"← {long.strip()}")
    (by_id,) = ask(memory, session_get, session="earlier", place="c1")["turns"]
    assert (by_id["place"], by_id["text"]) == (5, f"← {long.strip()}")


def test_a_long_session_is_read_piece_by_piece_and_nothing_is_left_out(memory: Memory) -> None:
    texts = [f'Turn {number} says "this".\n' + "word " * (number * 400 % 3000) for number in range(40)]
    texts[7] = "x" * 65_000  # three answers
    spoken(memory, *((Role.USER if at % 2 else Role.ASSISTANT, text) for at, text in enumerate(texts)))
    place: Any = 1
    said: dict[int, str] = {}
    for _ in range(60):
        answer = ask(memory, session_get, session="earlier", place=place, lines=12)
        for each in answer["turns"]:
            said[each["place"]] = said.get(each["place"], "") + each["text"]
        if "next" not in answer:
            break
        place = answer["next"]
        assert f'"place": "{place}", "lines": 12' in answer["message"]
    assert [*said.values()] == [each.strip() for each in texts]


def test_the_raw_log_comes_only_on_request_and_fits_too(memory: Memory) -> None:
    spoken(memory, (Role.USER, "a" * 30_000), (Role.USER, "b" * 12_000), (Role.USER, "c" * 12_000))
    first = ask(memory, session_get, session="earlier", raw=True)
    assert [each["line"] for each in first["lines"]] == [1, 2, 3]
    assert first["lines"][1]["size"] > 30_000
    assert "larger" in first["lines"][1]["torn"] or "more than" in first["lines"][1]["torn"]
    rest = ask(memory, session_get, session="earlier", raw=True, place=first["next"])
    assert rest["lines"][0]["event"]["message"]["parts"][0]["text"] == "c" * 12_000


def test_a_checkpoint_is_read_by_its_name(memory: Memory) -> None:
    spoken(memory, (Role.USER, "Move the parser."))
    with pytest.raises(NotFound, match="no checkpoint"):
        ask(memory, session_get, session="earlier", place="session_progress")
    memory.sessions.open("earlier").append(
        Checkpoint(task="Move the parser", tools=("bash make",), iteration=3)
    )
    (turn,) = ask(memory, session_get, session="earlier", place="session_progress")["turns"]
    assert (turn["role"], turn["text"]) == ("checkpoint", "Task: Move the parser\n→ bash make")


def test_what_a_search_result_calls_a_session_is_what_the_next_tool_takes(memory: Memory) -> None:
    spoken(memory, (Role.USER, "The lighthouse keeper is called Ione."), (Role.ASSISTANT, "Noted."))
    found = ask(memory, memory_search, query="lighthouse keeper")
    (hit,), (conversation,) = found["results"], found["conversations"]
    assert (hit["role"], hit["group"]) == ("user", conversation["group"])
    assert conversation["session"] == "earlier"
    by_name = ask(memory, session_get, session=conversation["session"], place=hit["startLine"])
    by_other_names = ask(memory, session_get, session_id=hit["path"], line=hit["startLine"])
    assert by_name["turns"] == by_other_names["turns"]
    assert "Ione" in by_name["turns"][0]["text"]
    read = ask(memory, memory_get, path=hit["path"], startLine=hit["startLine"], lines=1)
    assert read["text"].startswith(f"[{hit['startLine']}] user, ")
    assert read["text"].endswith("\nThe lighthouse keeper is called Ione.")


def test_a_limit_of_the_settings_holds_for_every_answer(memory: Memory) -> None:
    memory.store("line\n" * 3_000 + "end", key="long")
    memory.store("y" * 50_000, key="wide")
    spoken(memory, *((Role.USER, f"Number {number} is about harbours. " * 9) for number in range(60)))
    for most in (1_000, 5_000, MOST):
        limits = memory.settings.limits.replace(answer_chars=most)
        settings = memory.settings.replace(limits=limits)
        memory.workspace.loaded = memory.workspace.loaded._replace(settings=settings)
        ask(memory, session_get, session="earlier", lines=200)
        found = ask(memory, memory_search, query="harbours", sources=["transcript"], limit=50)
        assert (len(found["results"]) < 50) is any("did not fit" in each for each in found.get("notes", ()))
        for key in ("long", "wide"):
            whole, place = "", None
            for _ in range(200):
                part = ask(memory, memory_get, key=key, **({} if place is None else {"place": place}))
                whole += (
                    part["text"]
                    if not whole or whole.endswith("\n") or ":" in str(place)
                    else "\n" + part["text"]
                )
                place = part.get("next")
                if place is None:
                    break
            assert whole == memory.get(key).text


def test_nonsense_as_a_place_is_refused(memory: Memory) -> None:
    spoken(memory, (Role.USER, "Hello there."))
    for place in (0, -1, "nowhere", "1:x", ""):
        with pytest.raises((UsageError, NotFound)):
            ask(memory, session_get, session="earlier", place=place)
    for place in (99, "9" * 40 + ":1"):
        behind = ask(memory, session_get, session="earlier", place=place)
        assert (behind["turns"], behind["message"]) == ([], "There are no turns from here on.")


@given(st.text(max_size=400), st.integers(3, 300))
def test_a_cut_text_fits_and_what_follows_is_the_rest(text: str, room: int) -> None:
    part = cut_to(text, room)
    assert text.startswith(part)
    assert json_size(part) <= max(room, 8)
    assert part or not text
