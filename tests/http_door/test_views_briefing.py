"""What the page says of what an agent is told."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import NotFound
from vademecum.interfaces.http.views.briefing import BriefingRequest, briefing
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def opened(base: Path, name: str = "work", **given: Any) -> Memory:
    (base / name).mkdir(exist_ok=True)
    options: dict[str, Any] = {"origin": Origin.USER, "environ": {}, "now": lambda: NOON, **given}
    return connect(home=base / "home", cwd=base / name, **options)


def shown(memory: Memory, **given: Any) -> dict[str, Any]:
    found = briefing(memory, BriefingRequest(**given))
    assert json.loads(json.dumps(found)) == found
    return found


def filled(base: Path) -> Memory:
    memory = opened(base)
    for number in range(42):
        memory.store(f"Fact number {number} is about topic {number * 7}.", key=f"fact-{number}")
    memory.store("Tests run with pytest, never with unittest.", key="testing")
    opened(base, origin=Origin.TOOL).store("The API moved to port 9.", key="from-a-page")
    memory.note("Deployed at noon.")
    return memory


def test_the_text_is_the_one_that_a_hook_would_send(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    found = shown(memory)
    hook = opened(tmp_path, origin=Origin.TOOL, actor="hook:claude-code", client="claude-code")
    assert found["text"] == hook.injection.block(notices=True, recent=True).text
    assert found["agent"] == "claude-code"
    assert json.loads(found["envelope"])["hookSpecificOutput"]["additionalContext"] == found["text"]


def test_the_sections_add_up_to_the_whole(tmp_path: Path) -> None:
    found = shown(filled(tmp_path))
    assert sum(each["tokens"] for each in found["sections"]) == found["tokens"]
    assert 99 < sum(each["share"] for each in found["sections"]) < 101
    assert found["budget"] == 10_000
    for section in found["sections"]:
        for item in section["items"]:
            assert "\n".join(item["lines"]) in found["text"]
            assert item["why"]


def test_everything_that_is_out_has_its_reason(tmp_path: Path) -> None:
    found = shown(filled(tmp_path))
    assert found["left_counts"] == [
        {"reason": "pending", "label": "Waiting for review", "count": 1},
        {"reason": "limit", "label": "Over the number that is told", "count": 3},
    ]
    assert found["left_total"] == 4
    assert found["waiting"] == 1


def test_what_is_switched_off_shows_what_takes_its_place(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    path = next(each for section in shown(memory)["sections"] for each in section["items"])["path"]
    found = shown(memory, without=(path,))
    assert [each["path"] for each in found["effect"]["gone"]] == [path]
    assert len(found["effect"]["came"]) == 1
    assert found["effect"]["tokens_sent"] == shown(memory)["tokens"]
    assert shown(memory)["effect"] is None


def test_a_prompt_shows_what_it_would_bring_back(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    memory.store("Old habit: the linter is ruff.", key="linter")
    for number in range(50, 95):
        memory.store(f"Fact number {number} is about topic {number * 7}.", key=f"fact-{number}")
    found = shown(memory, prompt="which linter do we use?")
    assert "linter is ruff" not in found["text"]
    assert "linter is ruff" in found["reminder"]["text"]
    first = shown(memory, agent="kiro", prompt="which linter do we use?")
    assert "linter is ruff" in first["text"]
    assert first["reminder"] is None


def test_a_group_is_shown_what_a_group_is_told(tmp_path: Path) -> None:
    found = shown(filled(tmp_path), group=True)
    assert "Deployed" not in found["text"]
    assert found["effect"]["gone"]


def test_another_project_is_shown_as_its_agent_sees_it(tmp_path: Path) -> None:
    filled(tmp_path)
    other = opened(tmp_path, "other")
    other.store("This one is written in Rust.", key="language")
    found = shown(other)
    assert "Rust" in found["text"]
    assert "pytest" not in found["text"]
    assert [each["name"] for each in found["projects"]] == ["other", "work"]
    (tmp_path / "work").rmdir()
    assert [each["name"] for each in shown(other)["projects"]] == ["other"]


def test_an_agent_that_nobody_knows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFound, match="no hook tells"):
        briefing(opened(tmp_path), BriefingRequest(agent="hal"))


def test_an_empty_memory_is_told_as_such(tmp_path: Path) -> None:
    found = shown(opened(tmp_path))
    assert (found["text"], found["sections"], found["left"]) == ("", [], [])
    assert found["envelope"] == ""
