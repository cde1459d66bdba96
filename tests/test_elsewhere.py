"""Search of every project at once: for a person only, without weak matches, each project by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vademecum.errors import NotVisible
from vademecum.interfaces.cli.app import run
from vademecum.memory import connect
from vademecum.memory.elsewhere import other_projects, search_elsewhere
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for name in ("atlas", "borealis", "gone"):
        (tmp_path / name / ".git").mkdir(parents=True)
        with opened(tmp_path, name) as memory:
            memory.store(f"The lighthouse of {name} has a green lamp.", key="lamp")
            memory.store("The person likes tea.", key="tea", scope="global")
    (tmp_path / "gone" / ".git").rmdir()
    (tmp_path / "gone").rmdir()
    return tmp_path


def opened(top: Path, name: str, origin: Origin = Origin.USER) -> Memory:
    return connect(home=top / "home", cwd=top / name, environ={}, origin=origin, actor="human:ada")


def test_other_projects_answer_with_their_own_records_alone(home: Path) -> None:
    with opened(home, "atlas") as memory:
        assert [each.name for each in other_projects(memory)] == ["borealis"]
        (found,) = search_elsewhere(memory, "lighthouse lamp", max_results=3)
        assert [each.snippet for each in found.answer.results] == [
            "The lighthouse of borealis has a green lamp."
        ]
        assert [*search_elsewhere(memory, "likes tea", max_results=3)] == []


def test_nobody_but_a_person_looks_into_every_project(home: Path) -> None:
    with opened(home, "atlas", Origin.AGENT) as memory, pytest.raises(NotVisible):
        other_projects(memory)


def test_the_command_line_searches_and_lists_every_project(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(home / "atlas")
    at_home = ["--home", str(home / "home")]
    assert run([*at_home, "search", "--all", "lighthouse lamp"]) == 0
    assert "In borealis:" in capsys.readouterr().out
    with opened(home, "borealis") as memory:
        memory.store("The staging database is Postgres 16.", key="database")
    for scope, weak in (["--all"], False), ([], True):  # only the other project knows of it
        assert run([*at_home, "search", *scope, "postgres"]) == 0
        assert ("only weak matches were found" in capsys.readouterr().err) is weak
    assert run([*at_home, "projects"]) == 0
    assert {"atlas", "borealis", "gone"} <= {line.split()[0] for line in capsys.readouterr().out.splitlines()}
    monkeypatch.setenv("CLAUDECODE", "1")
    for words in (["projects"], ["search", "--all", "lighthouse"], ["list", "--all"]):
        assert run([*at_home, *words]) != 0
        assert "borealis" not in capsys.readouterr().out
