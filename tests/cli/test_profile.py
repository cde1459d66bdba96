"""`vade profile`: a draft is shown, and kept only by somebody who saw it."""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

import pexpect
import pytest

from allowing import allow
from vademecum.interfaces.cli.app import run
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

HAND = "# Me\n\nI am left-handed.\n"
HEADING = "## Saved preferences"
LINE = "- Keep answers short. (`answers`)"


class Vade:
    """Runs `vade` in a project folder with a home of its own."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base, self.home, self.capsys = base, base / "home", capsys
        self.code, self.out, self.err = 0, "", ""
        self.profile = self.home / "memory" / "global" / "profile.md"

    def __call__(self, *words: str) -> str:
        self.code = run(list(words))
        captured = self.capsys.readouterr()
        self.out, self.err = captured.out, captured.err
        return self.out

    def json(self, *words: str) -> Any:
        self(*words, "--json")
        assert self.code == 0, self.err
        return json.loads(self.out)

    def fails(self, *words: str, code: int = 1) -> str:
        self(*words)
        assert self.code == code, (self.code, self.out, self.err)
        assert len(self.err.strip().split("\n")) == 1, self.err
        return self.err


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    memory = connect(home=tmp_path / "home", cwd=tmp_path / "project", origin=Origin.USER)
    memory.store("Keep answers short.", key="answers", scope="global", type="feedback")
    allow(tmp_path / "home")
    ready = Vade(tmp_path, capsys)
    ready.profile.parent.mkdir(parents=True, exist_ok=True)
    ready.profile.write_text(HAND)
    return ready


def test_a_draft_is_shown_and_nothing_is_changed(vade: Vade) -> None:
    said = vade("profile", "build")
    assert "from 1 record:" in said
    assert HEADING in said
    assert LINE in said
    assert "nothing was changed; `vade profile build --apply` saves it" in said
    assert vade.profile.read_text() == HAND


def test_it_is_not_kept_where_nobody_can_be_asked(vade: Vade) -> None:
    assert "--yes" in vade.fails("profile", "build", "--apply", code=2)
    assert "--yes" in vade.fails("profile", "build", "--apply", "--json", code=2)
    assert vade.profile.read_text() == HAND


def test_it_is_kept_shown_told_and_taken_back(vade: Vade) -> None:
    said = vade("profile", "build", "--apply", "--yes")
    assert vade.code == 0
    assert said.index(LINE) < said.index("saved to")
    assert "vade undo" in said
    assert "profile.md already says this" in vade("profile", "build", "--apply", "--yes")
    assert LINE in vade("profile")
    assert "of 1500 characters" in vade("profile", "show")
    assert vade.json("undo")["files"][0]["done"]
    assert vade.profile.read_text() == HAND


def test_the_answer_in_json(vade: Vade) -> None:
    found = vade.json("profile", "build")
    assert (found["records"], found["applied"], found["run"]) == (1, False, None)
    assert found["text"].startswith(HEADING)
    kept = vade.json("profile", "build", "--apply", "--yes")
    assert kept["applied"]
    assert kept["run"] in {each["run"] for each in vade.json("undo", "--list")["runs"]}
    shown = vade.json("profile", "show")
    assert [(each["origin"], each["injected"]) for each in shown["sections"]] == [("user", True)] * 2
    assert shown["budget"] == 1500


def test_what_an_agent_kept_is_shown_as_waiting(vade: Vade) -> None:
    agent = connect(home=vade.home, cwd=vade.base / "project", origin=Origin.AGENT)
    agent.knowledge.keep_profile(agent.knowledge.draft_profile())
    assert "1 section hidden from agents until verified: `vade review verify profile.md`" in vade("profile")
    vade("review", "verify", "profile.md")
    assert "hidden from agents" not in vade("profile")


def test_no_profile_no_preferences_and_a_group(vade: Vade) -> None:
    vade.profile.unlink()
    assert "no profile yet" in vade("profile")
    assert vade.json("profile") == {"schemaVersion": 1, "path": None, "text": "", "sections": []}
    assert "group session" in vade.fails("profile", "build", "--audience", "group", "--session", "g")
    assert "group session" in vade.fails("profile", "show", "--audience", "group", "--session", "g")
    vade("forget", "answers", "--scope", "global", "--yes")
    said = vade("profile", "build")
    assert "no record says what you prefer" in said
    assert "nothing to save" in said
    assert "incognito" in vade("profile", "build", "--incognito")


@pytest.mark.parametrize(("answer", "kept"), [("y", True), ("n", False)])
def test_at_a_terminal_it_is_asked_after_it_was_shown(vade: Vade, answer: str, kept: bool) -> None:
    environment = {**os.environ, "VADE_HOME": str(vade.home), "TERM": "dumb"}
    child = pexpect.spawn(
        sys.executable,
        ["-m", "vademecum", "profile", "build", "--apply"],
        env=environment,
        cwd=str(vade.base / "project"),
        encoding="utf-8",
        timeout=60,
    )
    child.expect("Keep answers short")
    child.expect("Save this to profile.md")
    assert vade.profile.read_text() == HAND
    child.sendline(answer)
    child.expect("saved to" if kept else "nothing was changed")
    child.expect(pexpect.EOF)
    child.close()
    assert (HEADING in vade.profile.read_text()) == kept
