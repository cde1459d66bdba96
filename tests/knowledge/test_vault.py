"""An attached vault of someone's notes is found by all its names and tags, and its links are edges."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory

NOTES = {
    "Release Plan.md": (
        "---\naliases: [Rollout, Launch checklist]\ntags: [work]\n---\n"
        "Ask [[Ada Lovelace|Ada]] first. #shipping #area/ops\n\n```\n#not-a-tag [[Nowhere]]\n```\n"
    ),
    "people/Ada Lovelace.md": "Leads the analytical team, `#nor-it`. See [the plan](../Release%20Plan.md).\n",
    "Diary.md": "---\nbroken: [\n---\nWent over the [[rollout]] and [[hosts]] #1234 today. ![[photo.png]]\n",
    "Lonely.md": "# Lonely\n\nNobody links here.\n",
}


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    vault, project = tmp_path / "Vault", tmp_path / "project"
    project.mkdir()
    for name, text in NOTES.items():
        (vault / name).parent.mkdir(parents=True, exist_ok=True)
        (vault / name).write_text(text)
    memory = connect(home=tmp_path / "home", cwd=project, origin=Origin.USER, environ={})
    memory.sources.add(vault)
    memory.store("Release hosts are in Vienna; see [[Release Plan]].", key="hosts", scope="global")
    return memory


def found(memory: Memory, query: str) -> list[str]:
    return [each.path.rpartition("/")[2] for each in memory.search(query).results]


def test_a_note_is_found_by_its_other_names_and_by_the_tags_in_its_text(memory: Memory) -> None:
    assert found(memory, "launch checklist")[0] == "Release Plan.md"
    for tag in ("work", "shipping", "area/ops", "area"):
        assert found(memory, f"tag:{tag} plan") == ["Release Plan.md"]
    for tag in ("not-a-tag", "nor-it", "1234"):
        assert found(memory, f"tag:{tag} plan analytical rollout") == []


def test_links_of_a_vault_are_edges_between_its_notes_and_records(memory: Memory) -> None:
    graph = memory.graph.read()
    keys = {each.path: each.key for each in graph.records}
    edges = {(keys[each.source], keys[each.target], each.origin) for each in graph.edges}
    assert edges == {
        ("release-plan", "ada-lovelace", "wiki"),
        ("ada-lovelace", "release-plan", "link"),
        ("diary", "release-plan", "wiki"),
        ("diary", "hosts", "wiki"),
        ("hosts", "release-plan", "wiki"),
    }
    assert graph.broken == ()
    assert {each.key for each in graph.records if each.type == "note"} == {
        "release-plan",
        "ada-lovelace",
        "diary",
        "lonely",
    }


def test_what_a_note_links_to_stands_behind_an_answer(memory: Memory) -> None:
    answer = memory.recall("analytical team", include_related=True)
    beside = [each for each in answer.results if each.related]
    plan = next(each for each in beside if each.path.endswith("Release Plan.md"))
    assert (plan.source, plan.key, plan.start) == ("vault", None, 5)
    assert "Ask [[Ada" in plan.snippet


def test_a_note_that_changes_or_goes_takes_its_edges_with_it(memory: Memory, tmp_path: Path) -> None:
    assert len(memory.graph.read().edges) == 5
    (tmp_path / "Vault" / "Diary.md").write_text("Nothing of note.\n")
    assert len(memory.graph.read().edges) == 3
    memory.sources.remove("vault")
    assert memory.graph.read().edges == ()
