"""Settings files of every bad kind: commands go on, and what is wrong is told where it can be mended."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from allowing import SCRIPT, allow
from vademecum.config import MAX_FILE_BYTES, Settings
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


def _link(path: Path) -> None:
    target = path.parent / "elsewhere.toml"
    target.write_text("incognito = true\n")
    path.symlink_to(target)


WRITTEN: dict[str, bytes] = {
    "not TOML": b"embedder = = 1\n",
    "half TOML": b'[inject]\nmax_per_scope = 3\n[limits\nlock = "1s"\n',
    "binary": bytes(range(256)),
    "NUL": b"\0",
    "huge": b"# " + b"x" * (MAX_FILE_BYTES + 1),
    "unknown key": b"future_option = 1\n",
    "unknown section": b"[future]\noption = 1\n",
    "wrong type": b'incognito = "perhaps"\n',
    "out of range": b"[dedup]\nthreshold = 9000\n",
    "forbidden key": b'project_id = "victim"\n',
    "forbidden provider": b'embedder = "openai"\n',
    "incognito": b"incognito = true\n",
    "empty": b"",
}
MADE: dict[str, Callable[[Path], object]] = {
    "directory": lambda path: path.mkdir(),
    "symlink": _link,
    "dangling link": lambda path: path.symlink_to(path.parent / "nowhere"),
    "loop": lambda path: path.symlink_to(path),
    "FIFO": os.mkfifo,
}
KINDS = [*WRITTEN, *MADE]
RIGHT_IN_MINE = ("forbidden key", "forbidden provider", "incognito", "empty", "symlink", "dangling link")
COMMANDS = [
    ["list"],
    ["status"],
    ["search", "pytest"],
    ["search", "--records", "pytest"],
    ["show", "testing"],
    ["inject"],
    ["add", "A new fact.", "--scope", "global"],
    ["add", "--journal", "A note.", "--scope", "global"],
    ["config"],
    ["project"],
    ["check"],
    ["sessions", "list"],
]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "clone").mkdir()
    monkeypatch.chdir(tmp_path / "clone")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    opened(tmp_path).store("Use pytest.", key="testing", scope="global")
    return tmp_path / "home"


def opened(base: Path) -> Memory:
    return connect(
        home=base / "home", cwd=base / "clone", origin=Origin.USER, environ={"VADE_EMBEDDER": "none"}
    )


def write(path: Path, kind: str) -> None:
    path.parent.mkdir(exist_ok=True)
    if kind in WRITTEN:
        path.write_bytes(WRITTEN[kind])
    else:
        MADE[kind](path)


@pytest.mark.parametrize("kind", KINDS)
def test_a_strangers_file_has_no_effect_before_it_is_trusted(tmp_path: Path, home: Path, kind: str) -> None:
    before = opened(tmp_path).settings
    write(tmp_path / "clone/.vade/config.toml", kind)
    memory = opened(tmp_path)
    assert memory.settings == before
    assert "Use pytest." in memory.injection.block().text
    assert memory.workspace.loaded.problems == ()
    assert memory.workspace.loaded.shared is not None
    assert not memory.workspace.loaded.shared.trusted
    [told] = [each for each in memory.status().findings if each.what == "settings"]
    assert told.severity == "info"
    assert "has no effect until this folder is trusted" in told.why


@pytest.mark.full(but=16)
@pytest.mark.parametrize("words", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("kind", ["not TOML", "forbidden key", "out of range", "directory"])
def test_every_command_works_in_a_strangers_folder(
    tmp_path: Path, home: Path, kind: str, words: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "clone/.vade/config.toml", kind)
    assert run(words) == 0, capsys.readouterr()
    assert "warning" not in capsys.readouterr().err


@pytest.mark.parametrize("kind", KINDS)
def test_after_trust_a_wrong_line_is_a_finding_and_the_rest_holds(
    tmp_path: Path, home: Path, kind: str
) -> None:
    path = tmp_path / "clone/.vade/config.toml"
    write(path, kind)
    opened(tmp_path).projects.trust()
    memory = opened(tmp_path)
    shared = memory.workspace.loaded.shared
    assert shared is not None
    assert shared.trusted
    found = [each for each in memory.care.lint() if each.what == "settings"]
    assert [each for each in memory.status().findings if each.what == "settings"] == found
    if kind == "incognito":
        assert memory.settings.incognito  # which narrows, and so is allowed
        return
    assert bool(found) == (kind != "empty")
    assert all(each.where.startswith(str(path)) for each in found)
    assert memory.settings.inject.max_per_scope == (3 if kind == "half TOML" else 40)
    assert memory.show("testing").text == "Use pytest."


@pytest.mark.full(but=3)
@pytest.mark.parametrize("kind", [each for each in KINDS if each not in RIGHT_IN_MINE])
def test_a_mistake_of_ones_own_is_a_warning_and_the_default_holds(
    tmp_path: Path, home: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    write(home / "config.toml", kind)
    for words in COMMANDS:
        assert run(words) == 0, (words, capsys.readouterr())
        said = capsys.readouterr().err
        assert f"vade: warning: {home / 'config.toml'}" in said
        assert "Traceback" not in said
    settings = opened(tmp_path).settings
    if kind != "half TOML":
        assert settings.dedup == Settings().dedup
        assert settings.inject == Settings().inject
    run(["status"])
    assert str(home / "config.toml") in capsys.readouterr().out
    run(["doctor"])
    assert str(home / "config.toml") in capsys.readouterr().out


def test_every_right_line_beside_wrong_ones_holds(tmp_path: Path, home: Path) -> None:
    (home / "config.toml").write_text(
        "future = 1\nagent = 'reviewer'\n"
        "[dedup]\nthreshold = 'high'\nnewest = 5\n[inject]\nmax_per_scope = 7\n"
    )
    loaded = opened(tmp_path).workspace.loaded
    assert loaded.settings.agent == "reviewer"
    assert (loaded.settings.dedup.newest, loaded.settings.dedup.threshold) == (5, 85)
    assert loaded.settings.inject.max_per_scope == 7
    assert [each.where.rpartition(":")[2] for each in loaded.problems] == ["1", "4"]


def test_what_a_stranger_would_set_is_shown_before_it_is_trusted_and_when_it_is(
    tmp_path: Path, home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "clone/.vade/config.toml"
    path.parent.mkdir()
    path.write_text("agent = 'other'\n[inject]\nmax_per_scope = 2\n")
    run(["config"])
    shown = capsys.readouterr().out
    assert "is not trusted and has no effect; it would set:\n  inject.max_per_scope = 2\n" in shown
    assert "ignored: " in shown
    assert "a repository may not set agent" in shown
    allow(home)
    monkeypatch.setenv("VADE_SCRIPT", SCRIPT)
    assert run(["review", "trust"]) == 0
    shown = capsys.readouterr().out
    assert "its config.toml sets inject.max_per_scope = 2" in shown
    assert "a repository may not set agent" in shown
    run(["config"])
    assert "config.toml sets:\n  inject.max_per_scope = 2" in capsys.readouterr().out


def test_a_wrong_variable_is_still_refused(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADE_DEDUP_THRESHOLD", "high")
    assert run(["list"]) == 1
