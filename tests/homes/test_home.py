"""The home in `tests/fixtures/home` is read, written and undone in.

Once a release has written this home, the fixture stays as it is, and later releases must pass these tests.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.interfaces.cli.app import run
from vademecum.types import Origin, Outcome

from .seen import seen
from .worlds import place

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vademecum.memory import Memory

    from .worlds import World

TRUTH = ("memory", "archive", "audit", "decisions", "transcripts")


@pytest.fixture
def world(tmp_path: Path) -> World:
    return place(tmp_path)


def files(*tops: Path) -> dict[str, str]:
    """Every file below these folders, by the hash of its bytes."""
    return {
        str(path): hashlib.sha256(path.read_bytes()).hexdigest()
        for top in tops
        for path in sorted(top.rglob("*"))
        if path.is_file()
    }


def truth(world: World) -> dict[str, str]:
    return files(*(world.home / name for name in TRUTH), world.path / "api/.vade")


def keys(memory: Memory, **given: Any) -> set[str]:
    return {each.key for each in memory.list(**given).records}


# --- reading ------------------------------------------------------------------------------------------------


def test_everything_reads_as_it_read_when_it_was_written(world: World) -> None:
    told: dict[str, Any] = {}
    for line in (world.path / "seen.jsonl").read_text().splitlines():
        told |= json.loads(line)
    found = json.loads(json.dumps(seen(world.door)))
    assert found.keys() == told.keys()
    for door in told:
        for kind in told[door]:
            assert found[door][kind] == told[door][kind], (door, kind)


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("pytest", "records/testing.md"),
        ("unittest", "records/testing.md"),  # an entry that is superseded
        ("British spelling", "memory/global/context.md"),
        ("slug of its own", "journal/2026-03-03-api-design.md"),
        ("marmalade", "vault/notes.md"),
        ("sitemap", "transcripts/"),
        ("moved folder had", "records/from-the-moved-folder.md"),
    ],
)
def test_every_kind_of_thing_is_found(world: World, query: str, path: str) -> None:
    answer = world.door().search(query, min_score=0)
    assert any(path in each.path for each in answer.results), answer
    if not path.startswith("transcripts/"):
        hit = next(each for each in answer.results if path in each.path)
        assert hit.snippet.split("\n")[0] in world.door().get(hit.path).text


def test_a_consolidation_is_found_and_shown(world: World) -> None:
    memory = world.door(agent="crowded")
    held = memory.show("consolidated-2026-03-03").entries
    assert any("a list about apples" in each.text for each in held)
    assert memory.search("apples", min_score=0).results


def test_what_is_told_an_agent_holds_what_people_said_and_nothing_that_nobody_verified(world: World) -> None:
    block = world.door(origin=Origin.TOOL).injection.block().text
    for words in ("British spelling", "The site is static", "Ada", "An engineer", "Use pytest for tests"):
        assert words in block
    assert "A tool read that the limit is 50." in block  # a person verified it
    for words in ("flaky", "Imported: the gateway", "By a colleague"):
        assert words not in block


def test_nothing_is_called_damaged_and_the_audit_is_whole(world: World) -> None:
    for folder in ("site", "api"):
        memory = world.door(folder)
        found = [*memory.status().findings, *memory.care.lint()]
        assert [each for each in found if each.severity == "error"] == []
        assert [each for each in found if each.what in ("malformed", "lost", "audit", "format")] == []
    report = world.door().audit.verify()
    assert report.problems == ()
    assert report.lines > 100


def test_reading_changes_no_file(world: World) -> None:
    before = truth(world)
    for folder in ("site", "api", "moved"):
        memory = world.door(folder)
        (
            memory.list(),
            memory.status(),
            memory.care.lint(),
            memory.injection.block(),
            memory.graph.read(),
            memory.knowledge.list(),
        )
        (
            memory.search("pytest"),
            memory.recall("deploys"),
            memory.sessions.list(),
            memory.care.sweep(),
            memory.care.heal(),
        )
    assert truth(world) == before


# --- writing ------------------------------------------------------------------------------------------------


def test_what_is_written_leaves_all_else_as_it_is(world: World) -> None:
    before = truth(world)
    memory = world.door()
    new = memory.store("A new fact.", key="a-new-fact")
    added = memory.store("Deploys need two people.", key="deploys")
    replaced = memory.store("Use pytest and hypothesis.", key="testing", mode="replace")
    noted = memory.note("A note of today.")
    known = memory.knowledge.learn("discovery", fact="The staging database is rebuilt every night")
    assert (new.outcome, added.outcome) == (Outcome.CREATED, Outcome.APPENDED)
    assert (replaced.outcome, known.outcome) == (Outcome.REPLACED, Outcome.CONFIRMED)
    assert new.num is not None
    assert new.num > max(each.num or 0 for each in memory.list().records if each.key != "a-new-fact")
    assert [each.text for each in memory.show("testing").live] == ["Use pytest and hypothesis."]
    assert len(memory.show("deploys").entries) == 4
    touched = {str(world.home / each.path) for each in (new, added, replaced, noted, known)}
    after = truth(world)
    changed = {path for path in before if after.get(path) != before[path]}
    records = {path for path in changed if "/memory/" in path}
    assert records <= touched
    assert {path for path in changed - records if "/audit/" not in path and "/kept/" not in path} == set()
    assert memory.audit.verify().problems == ()


def test_unknown_keys_and_what_was_typed_by_hand_survive_a_write(world: World) -> None:
    memory = world.door()
    memory.store("One more.", key="unknown-keys")
    memory.store("One more.", key="cache")
    assert "x-own: {deep: [1, 2]}" in (world.home / memory.show("unknown-keys").path).read_text()
    assert "A line typed by hand below the signature." in [each.text for each in memory.show("cache").entries]
    assert memory.show("unknown-keys").type == "musing"


def test_records_are_forgotten_and_restored_in_every_scope(world: World) -> None:
    memory = world.door()
    for scope in ("session", "project", "agent", "global", "federated"):
        path = world.home / memory.show(f"reference-in-{scope}").path
        before = path.read_bytes()
        memory.forget(f"reference-in-{scope}", scope=scope)
        assert not path.exists()
        memory.restore(f"reference-in-{scope}", scope=scope)
        assert path.read_bytes() == before


def test_a_repository_folder_is_written_to(world: World) -> None:
    memory = world.door("api")
    stored = memory.store("The API also speaks Avro.", key="wire-format")
    assert stored.path == ".vade/records/wire-format.md"
    assert [each.origin for each in memory.show("wire-format").entries] == [Origin.USER] * 3
    assert [each.origin for each in memory.show("stranger").entries] == [Origin.EXTERNAL]


# --- bringing back ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "door", "text"),
    [
        ("forgotten", {}, "Forgotten on purpose."),
        ("unused", {}, "Nobody touched this for a season."),
        ("thought-1", {"session": "s-cleared"}, "Session thought 1."),
        ("away", {"folder": "api"}, "A record that is put away again."),
        ("apples", {"agent": "crowded"}, "apples\n\n- a list about apples\n- of two lines"),
    ],
)
def test_an_archived_record_comes_back(world: World, name: str, door: dict[str, Any], text: str) -> None:
    memory = world.door(**door)
    memory.restore(name)
    assert memory.show(name).text == text


@pytest.mark.parametrize(("door", "back"), [({}, {"unused"}), ({"agent": "crowded"}, {"apples", "bridges"})])
def test_a_run_is_undone_byte_for_byte(world: World, door: dict[str, Any], back: Sequence[str]) -> None:
    memory = world.door(**door)
    before = keys(memory)
    chosen = next(each for each in memory.care.runs() if _touches(world, each.run, back))
    _, told = memory.care.undo(chosen.run)
    assert all(each.done for each in told)
    assert keys(memory) - before == set(back)
    assert not {each for each in keys(memory) if each.startswith("consolidated")}
    for line in _edits(world, chosen.run):
        if line["image"] is not None:
            image = world.home.joinpath(*line["image"]).read_bytes()
            assert (world.home / line["label"] / line["kind"] / line["name"]).read_bytes() == image


def test_earlier_versions_of_records_and_documents_come_back(world: World) -> None:
    memory = world.door()
    image = memory.archive.versions("testing")[0]
    memory.restore(image.id)
    assert [each.text for each in memory.show("testing").entries] == ["Use unittest for tests."]
    memory.restore("MEMORY.md", scope="global")
    assert "works late" not in (world.home / "memory/global/MEMORY.md").read_text()


def test_what_waits_is_approved_and_a_retried_call_gets_its_answer(world: World) -> None:
    memory = world.door()
    store, forget = memory.review.approvals()
    memory.review.approve(store.id[:12])
    assert memory.show("waits", scope="federated").text == "A write that waits."
    memory.review.approve(forget.id[:12])
    assert "queue" not in keys(memory)
    wanted = {"text": "Said once, however often it is sent.", "key": "once"}
    agent = world.door(origin=Origin.AGENT)
    assert agent.requests.answered("key-1", "store", wanted) == {"key": "once"}


def test_a_session_goes_on_and_its_old_lines_stay(world: World) -> None:
    memory = world.door(session="s-open", origin=Origin.AGENT)
    path = world.home / "transcripts/github-com-acme-site/s-open.jsonl"
    before = path.read_bytes()
    memory.sessions.rename("s-open", "Another name")
    memory.sessions.end("s-open")
    assert path.read_bytes().startswith(before)
    assert next(each for each in memory.sessions.list() if each.id == "s-open").name == "Another name"


# --- the command line ---------------------------------------------------------------------------------------


@pytest.mark.full(but=6)
@pytest.mark.parametrize(
    "words",
    [
        ["list"],
        ["status"],
        ["check"],
        ["show", "deploys"],
        ["show", "1"],
        ["search", "pytest"],
        ["search", "--records", "deploys"],
        ["inject"],
        ["sessions", "list"],
        ["audit", "verify"],
        ["undo", "--list"],
        ["list", "--forgotten"],
        ["knowledge", "list"],
        ["graph"],
        ["review", "approve", "list"],
        ["project", "list"],
        ["sources", "list"],
        ["doctor"],
    ],
    ids=" ".join,
)
def test_commands_answer(
    world: World, words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(world.path / "site")
    for name, value in (("HOME", world.home), ("SWEEP", "off"), ("EMBEDDER", "none"), ("SESSION", "s-one")):
        monkeypatch.setenv(f"VADE_{name}", str(value))
    assert run(words) == 0, capsys.readouterr()
    assert capsys.readouterr().out.strip()


def _edits(world: World, run: str) -> list[dict[str, Any]]:
    lines = (world.home / f"archive/runs/{run}.jsonl").read_text().splitlines()
    return [line for line in map(json.loads, lines) if "edit" in line]


def _touches(world: World, run: str, keys: Sequence[str]) -> bool:
    return {f"{key}.md" for key in keys} <= {line["name"] for line in _edits(world, run)}
