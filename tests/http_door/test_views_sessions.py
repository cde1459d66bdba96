"""What the page says of sessions."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.interfaces.http.views.sessions import CUT, LINES, PAGE, list_sessions, show_session
from vademecum.memory import Memory, connect
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import MessageEvent, Used
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.transcripts.log import Log

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
SECRET = "ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"


def opened(base: Path, name: str = "work", **given: Any) -> Memory:
    (base / name).mkdir(exist_ok=True)
    moments = (NOON + timedelta(seconds=number) for number in range(10_000_000))
    options: dict[str, Any] = {"origin": Origin.USER, "environ": {}, "now": lambda: next(moments), **given}
    return connect(home=base / "home", cwd=base / name, **options)


def said(log: Log, role: Role, *parts: Any) -> None:
    log.append(MessageEvent(Message(role, tuple(parts))))


def talk(memory: Memory, id: str = "s1", name: str = "Deploys") -> Log:
    log = memory.sessions.new(id=id, name=name, model="some-model")
    said(log, Role.USER, Text("When do we deploy?"))
    said(log, Role.ASSISTANT, Text("Let me look."), ToolCall("c1", "read", '{"path": "deploy.md"}'))
    said(log, Role.TOOL, ToolResult("c1", (Text("On Tuesdays, never on Fridays."),)))
    log.append(Used(input=1200, output=80, cached=900, cost=0.02))
    said(log, Role.ASSISTANT, Text("On Tuesdays."))
    log.append(Used(input=1300, output=20))
    return log


def shown(memory: Memory, which: str, **given: Any) -> dict[str, Any]:
    found = show_session(memory, which, **given)
    assert json.loads(json.dumps(found)) == found
    return found


def test_the_sessions_of_every_project_are_listed_with_what_they_took(tmp_path: Path) -> None:
    talk(opened(tmp_path))
    memory = opened(tmp_path, "other")
    memory.store("x", key="x")  # so that the project is known by its name
    talk(memory, "s2", "Elsewhere")
    found = list_sessions(memory)
    assert {each["name"]: each["project_name"] for each in found["sessions"]}["Elsewhere"] == "other"
    assert {each["id"] for each in found["sessions"]} == {"s1", "s2"}
    assert found["sessions"][0]["usage"]["total"] == 2600
    assert found["sessions"][0]["usage"]["cost"] == 0.02
    assert found["agents"] == [{"name": "vade", "count": 2}]
    own = memory.caller.project
    assert own is not None
    one = list_sessions(memory, project=own.id)
    assert ([each["id"] for each in one["sessions"]], one["total"]) == (["s2"], 1)
    assert list_sessions(memory, agent="codex")["sessions"] == []


def test_a_list_reads_no_more_logs_than_a_page_has(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for number in range(PAGE + 5):
        memory.sessions.new(id=f"s{number:03}", name=f"Number {number}")
    fresh = opened(tmp_path)
    found = list_sessions(fresh)
    assert (len(found["sessions"]), found["total"], found["next"]) == (PAGE, PAGE + 5, PAGE)
    assert len(fresh.sessions.transcripts._cards) == PAGE
    rest = list_sessions(fresh, after=PAGE)
    assert (len(rest["sessions"]), rest["next"], rest["previous"]) == (5, None, 0)
    ids = [each["id"] for page in (found, rest) for each in page["sessions"]]
    assert sorted(ids) == [f"s{number:03}" for number in range(PAGE + 5)]


def test_an_agent_sees_its_own_sessions_alone(tmp_path: Path) -> None:
    talk(opened(tmp_path, "other"), "s2", "Elsewhere")
    found = list_sessions(opened(tmp_path, origin=Origin.AGENT))
    assert (found["sessions"], found["total"]) == ([], 0)


def test_a_question_finds_the_line_that_answers(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    talk(memory)
    found = list_sessions(memory, query="never on Fridays")["answer"]
    assert [each["session_id"] for each in found["hits"]][:1] == ["s1"]
    line = found["hits"][0]["line"]
    assert any(each["line"] in (line, line - 1) for each in shown(memory, "s1", line=line)["turns"])


def test_results_stand_with_their_calls_and_tokens_with_their_answers(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    talk(memory)
    found = shown(memory, "s1")
    roles = [each["role"] for each in found["turns"]]
    assert roles == ["started", "user", "assistant", "assistant"]
    call = found["turns"][2]["parts"][1]
    assert call["kind"] == "call"
    assert call["result"]["text"] == "On Tuesdays, never on Fridays."
    alone = shown(memory, "s1", line=call["result"]["line"], whole=True)["turns"]
    assert [part["text"] for turn in alone for part in turn["parts"]] == ["On Tuesdays, never on Fridays."]
    assert found["turns"][2]["used"] == {"input": 1200, "output": 80, "cost": 0.02}
    assert [each["name"] for each in found["shares"]] == ["new input", "read from the cache", "written"]
    assert abs(sum(each["share"] for each in found["shares"]) - 100) < 0.01


def test_a_long_session_comes_in_pages(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    log = memory.sessions.new(id="long")
    for number in range(3 * LINES):
        said(log, Role.USER, Text(f"Message {number}"))
    first = shown(memory, "long")
    assert (len(first["turns"]), first["next"], first["previous"]) == (LINES, LINES + 1, None)
    assert first["total"] == 3 * LINES + 1
    last = shown(memory, "long", start=3 * LINES + 1)
    assert (last["next"], last["previous"]) == (None, 2 * LINES + 1)
    seen = [turn["line"] for at in (1, 101, 201, 301) for turn in shown(memory, "long", start=at)["turns"]]
    assert seen == [*range(1, 3 * LINES + 2)]
    assert shown(memory, "long", start=9_999)["turns"] == []


@pytest.mark.full
def test_a_huge_message_is_cut_until_it_is_asked_for_and_holds_no_secret(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    log = memory.sessions.new(id="huge")
    text = "x" * (CUT - 10) + f" {SECRET} " + "y" * (1 << 20)
    said(log, Role.ASSISTANT, Text(text))
    line = shown(memory, "huge")["turns"][1]
    part = line["parts"][0]
    assert len(part["text"]) == CUT
    assert part["cut"] > 1 << 20
    assert SECRET[:12] not in part["text"]
    whole = shown(memory, "huge", line=line["line"], whole=True)["turns"]
    assert [len(each["parts"][0]["text"]) > 1 << 20 for each in whole] == [True]
    assert SECRET not in json.dumps(whole)


def test_a_damaged_line_is_told_and_the_rest_is_shown(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    log = talk(memory)
    with (tmp_path / "home" / log.path).open("ab") as file:
        file.write(b'{"seq": 99, "kind": "mess\n')
    assert [each["role"] for each in shown(memory, "s1")["turns"]][-1] == "damaged"


def test_what_was_saved_leads_to_its_line_and_back(tmp_path: Path) -> None:
    talk(opened(tmp_path))
    agent = opened(tmp_path, origin=Origin.AGENT, session="s1")
    agent.store("On Tuesdays, never on Fridays.", key="deploys")
    agent.store("Said nowhere in these words.", key="elsewhere")
    opened(tmp_path, origin=Origin.AGENT, session="s9").store("Of another session.", key="other")
    memory = opened(tmp_path)
    found = shown(memory, "s1")
    assert {each["key"] for each in found["memories"]} == {"deploys", "elsewhere"}
    lines = {each["key"]: each["line"] for each in found["memories"]}
    assert lines["elsewhere"] == 0
    at = shown(memory, "s1", key="deploys")
    assert lines["deploys"] == 4  # the result, which stands with its call
    assert at["line"] == 3
    saved = {turn["line"]: [each["key"] for each in turn["memories"]] for turn in at["turns"]}
    assert saved[3] == ["deploys"]
    assert memory.sessions.said_in(memory.show("deploys")) == [("s1",)]
