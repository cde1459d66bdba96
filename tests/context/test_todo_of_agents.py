"""The to-do list of an agent belongs to the agent's own session, and is there after a resume."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import ScopeUnresolved
from vademecum.memory import connect
from vademecum.transcripts.paths import imported_id
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory

OWN = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def person(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "project").mkdir()
    return tmp_path


def connected(person: Path, name: str, *, conversation: str = OWN) -> Memory:
    """Memory as a server has it that an agent has just started."""
    options: dict[str, Any] = {"home": person / ".vade", "cwd": person / "project"}
    client = "claude-code claude-code/2.1"
    return connect(**options, client=client, session=name, connection=True, conversation=conversation)


def transcript(person: Path) -> Path:
    path = person / ".claude" / "projects" / "-project" / f"{OWN}.jsonl"
    path.parent.mkdir(parents=True)
    line = {
        "type": "user",
        "sessionId": OWN,
        "uuid": "u1",
        "timestamp": "2026-11-15T10:00:00Z",
        "cwd": str(person / "project"),
        "message": {"role": "user", "content": "Please move the parser to the new tokenizer"},
    }
    path.write_text(json.dumps(line) + "\n")
    return path


def test_a_list_is_there_after_a_resume_and_no_session_was_made_for_it(person: Path) -> None:
    first = connected(person, "mcp-one")
    first.sessions.todo({"operation": "write", "items": ["Find the bug", "Fix it"]})
    assert first.sessions.list() == []
    assert first.sessions.page(limit=9).sessions == ()
    resumed = connected(person, "mcp-two")
    items, text = resumed.sessions.todo({"operation": "done", "id": 1})
    assert [each.title for each in items.items] == ["Find the bug", "Fix it"]
    assert "[x] 1. Find the bug" in text
    assert connected(person, "mcp-three", conversation="another").sessions.todo({})[0].items == ()


def test_a_session_that_is_copied_later_has_the_list_that_was_made_before(person: Path) -> None:
    connected(person, "mcp-one").sessions.todo({"operation": "add", "title": "Fix it"})
    path = transcript(person)
    memory = connect(home=person / ".vade", cwd=person / "project", origin=Origin.USER, actor="human:ada")
    done = memory.sessions.import_transcript(path, agent="claude-code")
    assert (done.outcome, done.session) == ("new", imported_id("claude-code", OWN))
    (session,) = memory.sessions.list()
    assert (session.id, session.messages, session.name) == (
        done.session,
        1,
        "Please move the parser to the new tokenizer",
    )
    items, _ = connected(person, "mcp-two").sessions.todo({})
    assert [each.title for each in items.items] == ["Fix it"]
    assert memory.sessions.import_transcript(path, agent="claude-code").outcome == "same"


def test_a_connection_without_a_session_of_its_agent_has_no_list(person: Path) -> None:
    memory = connected(person, "mcp-one", conversation="")
    for request in ({}, {"operation": "add", "title": "Fix it"}):
        with pytest.raises(ScopeUnresolved, match="can be continued"):
            memory.sessions.todo(request)
    assert not list((person / ".vade").rglob("*.jsonl"))


def test_a_named_session_keeps_its_list_as_before(person: Path) -> None:
    for title in ("one", "two"):
        memory = connect(home=person / ".vade", cwd=person / "project", session="named")
        memory.sessions.todo({"operation": "add", "title": title})
    assert [each.title for each in memory.sessions.todo({})[0].items] == ["one", "two"]
