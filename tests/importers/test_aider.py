"""The history that Aider writes into a project: a session each, with what was said and by whom."""

from __future__ import annotations

from typing import TYPE_CHECKING

from importers.worlds import snapshot
from vademecum.agents.aider import HISTORY
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from importers.worlds import Vade

# Aider ends each of its own lines and each line of a person with two spaces, written as `␣␣` here.
FIRST = """
# aider chat started at 2026-11-15 08:15:30

> /home/ada/bin/aider --message please fix the build
and hurry up␣␣
> Aider v0.86.2␣␣
> Would you like to see what's new in this version? (Y)es/(N)o [Yes]: y␣␣

#### please fix the build␣␣
####␣␣␣
#### and hurry up␣␣

I will look.

> A quotation in the answer

#### A heading in the answer

> Tokens: 651 sent, 10 received.␣␣
> Applied edit to Makefile␣␣

#### Is it green?␣␣

It is.

# aider chat started at 2026-11-15 09:00:00

> Aider v0.86.2␣␣
"""
SECOND = """
# aider chat started at 2026-11-16 10:00:00

#### which port has staging?␣␣

5544.
"""


def written(project: Path, *sessions: str) -> Path:
    project.mkdir(exist_ok=True)
    (project / HISTORY).write_text("".join(sessions).replace("␣", " "), "utf-8")
    (project / "README.md").write_text("# aider chat started at 2026-11-15 08:15:30\n\n#### no␣␣\n")
    return project


def test_each_session_of_a_history_is_a_session_with_what_was_said(vade: Vade, tmp_path: Path) -> None:
    project = written(tmp_path / "theirs", FIRST, SECOND)
    originals = snapshot(project)
    dry = vade.json("import", "aider", project, "--dry-run")
    assert not (vade.home / "transcripts").exists()
    report = vade.json("import", "aider", project)
    assert [each["source"] for each in report["mapped"]] == [each["source"] for each in dry["mapped"]]
    assert snapshot(project) == originals
    assert [each["kind"] for each in report["mapped"]] == ["session", "session"]
    assert [each["why"] for each in report["skipped"]] == ["it contains no messages"]
    memory = connect(home=vade.home, cwd=vade.project, origin=Origin.USER)
    first, second = sorted(memory.sessions.list(all=True), key=lambda each: each.created)
    assert [(str(each.role), each.text) for each in memory.sessions.messages(first.id, all=True)] == [
        ("user", "please fix the build\n\nand hurry up"),
        ("assistant", "I will look.\n\n> A quotation in the answer\n\n#### A heading in the answer"),
        ("user", "Is it green?"),
        ("assistant", "It is."),
    ]
    assert second.name == "which port has staging?"


def test_a_history_that_grew_adds_only_what_is_new(vade: Vade, tmp_path: Path) -> None:
    project = written(tmp_path / "theirs", FIRST)
    vade.json("import", "aider", project / HISTORY)
    again = vade.json("import", "aider", project)
    assert [each["outcome"] for each in again["mapped"]] == ["same"]
    written(project, FIRST, SECOND, "\n#### and production?␣␣\n\n5545.\n")
    grown = vade.json("import", "aider", project)
    assert [each["outcome"] for each in grown["mapped"]] == ["same", "new"]
    assert len(connect(home=vade.home, cwd=vade.project, origin=Origin.USER).sessions.list(all=True)) == 2


def test_a_damaged_history_is_read_as_far_as_it_goes(vade: Vade, tmp_path: Path) -> None:
    odd = "\n# aider chat started at 9999-99-99 99:99:99\n\n#### who?␣␣\n\nNobody.\n"
    project = written(tmp_path / "theirs", "#### before any session␣␣\n", odd, FIRST[:120])
    report = vade.json("import", "aider", project)
    assert [each["kind"] for each in report["mapped"]] == ["session"]
    (project / HISTORY).write_bytes(b"\0\xff")
    assert vade.json("import", "aider", project)["mapped"] == []
