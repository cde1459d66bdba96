"""What a hit cites is held against the code when it is shown, and costs little."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import pytest

from vademecum.interfaces.cli.app import run
from vademecum.knowledge import citations
from vademecum.memory import Memory, connect
from vademecum.search import passages
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

CODE = "def connect():\n    pool = open_pool()\n    return pool\n"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    (top / "src" / "db").mkdir(parents=True)
    (top / "src" / "db" / "pool.py").write_text(CODE)
    return top


@pytest.fixture
def memory(tmp_path: Path, project: Path) -> Memory:
    return connect(home=tmp_path / "home", cwd=project, origin=Origin.USER, environ={})


def told(memory: Memory, query: str = "herons") -> dict[str, str]:
    return {each.cited: each.standing for hit in memory.recall(query).results for each in hit.claims}


def test_a_citation_of_lines_is_kept_with_what_they_were(memory: Memory) -> None:
    memory.store("The herons are kept in src/db/pool.py#L1-L3.", key="herons")
    entry = memory.show("herons").entries[0]
    mark = citations.fingerprint(CODE.encode().split(b"\n")[:3])
    assert entry.cites == f"src/db/pool.py#L1-L3@{mark}"
    assert entry.text == "The herons are kept in src/db/pool.py#L1-L3."


def test_verified_moved_changed_and_gone(memory: Memory, project: Path) -> None:
    memory.store("The herons are kept in src/db/pool.py#L1-L3.", key="herons")
    path, cited = project / "src" / "db" / "pool.py", "src/db/pool.py#L1-L3"
    assert told(memory) == {cited: "verified"}
    path.write_text(f"import os\n\n{CODE}")
    assert told(memory) == {cited: "moved"}
    path.write_text(CODE.replace("open_pool", "make_pool"))
    assert told(memory) == {cited: "changed"}
    path.unlink()
    assert told(memory) == {cited: "gone"}
    assert memory.show("herons").entries[0].live  # told, and nothing more


def test_a_file_that_went_elsewhere(memory: Memory, project: Path) -> None:
    memory.store("The herons are kept in src/db/pool.py.", key="herons")
    (project / "src" / "db").rename(project / "src" / "store")
    hit = memory.recall("herons").results[0]
    assert [(each.standing, each.why) for each in hit.claims] == [
        ("moved", "src/db/pool.py is now src/store/pool.py")
    ]


def test_only_records_of_the_project_are_checked(memory: Memory) -> None:
    memory.store("The herons are kept in src/db/gone.py.", key="herons", scope="global")
    memory.note("Saw herons in src/db/gone.py.")
    assert told(memory) == {}
    assert all(not hit.claims for hit in memory.search("herons").results)


def test_symbols_are_not_looked_for(memory: Memory) -> None:
    memory.store("The herons are counted by `count_herons()`.", key="herons")
    assert told(memory) == {}


def test_no_walk_while_every_path_is_there(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.store("The herons, e.g. grey ones, are kept in src/db/pool.py, and/or below src/.", key="herons")

    def walked(*given: object) -> object:
        raise AssertionError("the tree was walked")

    memory.recall("herons")
    monkeypatch.setattr(os, "walk", walked)
    assert told(memory) == {"src/db/pool.py": "verified", "src/": "verified"}


def test_what_cannot_be_known_in_time_is_left_out(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    memory.store("The herons are in src/db/gone.py and src/db/pool.py.", key="herons")
    monkeypatch.setattr(passages, "SECONDS", -1.0)
    assert told(memory) == {"src/db/pool.py": "verified"}


def test_what_was_superseded_is_not_checked(memory: Memory) -> None:
    memory.store("The herons are in src/db/gone.py.", key="herons")
    memory.store("The herons have flown.", key="herons", mode="replace")
    assert told(memory) == {}


def test_the_command_shows_it_in_words_and_in_json(
    memory: Memory, project: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory.store("The herons are in src/db/gone.py.", key="herons")
    memory.care.heal(apply=True)
    memory.close()
    monkeypatch.chdir(project)
    monkeypatch.setenv("VADE_HOME", str(memory.home.path))
    for command in (["search"], ["search", "--records"]):
        assert run([*command, "herons"]) == 0
        assert "[gone] src/db/gone.py does not exist" in capsys.readouterr().out
        assert run([*command, "herons", "--json"]) == 0
        hit = json.loads(capsys.readouterr().out)["results"][0]
        assert hit["claims"] == [
            {"cited": "src/db/gone.py", "standing": "gone", "why": "src/db/gone.py does not exist"}
        ]
        assert hit["stale"].startswith("src/db/gone.py gone (")
