"""`vade inject`: the block, its parts, and the files of agents."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.interfaces.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    assert run(["add", "Always use pytest.", "--key", "testing"]) == 0
    assert run(["add", "A private thing.", "--key", "own", "--scope", "global"]) == 0
    return tmp_path / "project"


def said(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> str:
    capsys.readouterr()
    assert run(list(words)) == code
    return capsys.readouterr().out


def test_the_block_and_its_parts(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = said(capsys, "inject")
    assert text.startswith("<vade-memory>\n")
    assert "- [project] testing: Always use pytest." in text
    told: dict[str, Any] = json.loads(said(capsys, "inject", "--format", "json"))
    assert told["text"] == text
    items = [item["key"] for section in told["sections"] for item in section["items"]]
    assert items == ["testing", "own"]
    assert json.loads(said(capsys, "inject", "--json", "--budget", "150"))["tokens"] <= 150
    assert "testing" in said(capsys, "inject", "--query", "which test framework?", "--no-ltm")


def test_an_agents_file_gets_what_others_may_read(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "wrote" in said(capsys, "inject", "--write", "codex")
    text = (project / "AGENTS.md").read_text()
    assert "Always use pytest." in text
    assert "private" not in text
    assert "nothing changed" in said(capsys, "inject", "--write", "codex")
    said(capsys, "inject", "--write", "codex", "--audience", "private")
    assert "A private thing." in (project / "AGENTS.md").read_text()


def test_what_waits_for_a_person_is_told(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from vademecum.memory import connect
    from vademecum.types import Origin

    connect(cwd=project, origin=Origin.TOOL).store("A tool said this.", key="tooled")
    capsys.readouterr()
    assert run(["inject"]) == 0
    captured = capsys.readouterr()
    assert "A tool said" not in captured.out
    assert "1 text" in captured.err
    assert "vade review" in captured.err


def test_an_unknown_agent_is_wrong_usage(project: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["inject", "--write", "emacs"]) == 2
