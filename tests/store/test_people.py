from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allowing import SCRIPT, allow
from cases import every_case
from vademecum.agents.environment import read_variables
from vademecum.errors import ConfigError, NotVisible
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.store import people
from vademecum.types import Origin

VARIABLES = read_variables()
speaker = partial(people.speaker, variables=VARIABLES)
NAMES = [*VARIABLES.agents, *VARIABLES.editors]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


# Who speaks.


@pytest.mark.parametrize("variable", VARIABLES.agents)
@pytest.mark.parametrize("terminal", [True, False])
def test_a_command_line_inside_an_agent_is_the_agents_and_never_decides(
    variable: str, terminal: bool
) -> None:
    said = speaker({variable: "1", "VADE_SCRIPT": "nightly"}, terminal=terminal, scripts=["nightly"])
    assert said.origin is Origin.AGENT
    assert variable in said.undecided


@every_case("variable", VARIABLES.editors)
def test_a_persons_terminal_in_an_editor_is_a_persons_and_without_one_it_is_an_agents(variable: str) -> None:
    assert speaker({variable: "x"}, terminal=True) == people.Speaker(Origin.USER)
    assert speaker({variable: "x"}, terminal=False).origin is Origin.AGENT


def test_a_person_decides_at_a_terminal_and_a_script_only_by_a_name_that_was_allowed() -> None:
    assert not speaker({}, terminal=True).undecided
    assert "not a terminal" in speaker({}, terminal=False, scripts=["nightly"]).undecided
    nightly = {"VADE_SCRIPT": "nightly"}
    assert not speaker(nightly, terminal=False, scripts=["nightly"]).undecided
    assert "'nightly' is not allowed" in speaker(nightly, terminal=False, scripts=["daily"]).undecided
    assert speaker(nightly, terminal=False).origin is Origin.USER


@given(
    st.dictionaries(st.sampled_from([*NAMES, "VADE_SCRIPT", "TERM", "PATH"]), st.text(max_size=5)),
    st.booleans(),
    st.lists(st.text(max_size=5), max_size=3),
)
def test_who_decides_is_a_person_at_a_terminal_or_allowed(
    environ: dict[str, str], terminal: bool, scripts: list[str]
) -> None:
    said = speaker(environ, terminal=terminal, scripts=scripts)
    assert said.origin in (Origin.USER, Origin.AGENT)
    if not said.undecided:
        assert said.origin is Origin.USER
        assert terminal or environ["VADE_SCRIPT"].strip() in scripts
    else:
        assert said.hint


# What that means for a command.

DECISIONS = [
    ("review", "verify", "one"),
    ("protect", "one"),
    ("protect", "one", "--off"),
    ("purge", "one", "--yes"),
    ("forget", "guarded", "--yes"),
    ("review", "trust"),
    ("review", "approve", "yes", "abcdef"),
    ("review", "approve", "no", "abcdef"),
]


def keep_two(home: Path) -> None:
    memory = connect(home=home, origin=Origin.USER)
    memory.store("One.", key="one")
    memory.store("Two.", key="guarded", protected=True)


def files_of(home: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(home)): path.read_bytes()
        for folder in ("memory", "decisions", "archive")
        for path in sorted((home / folder).rglob("*"))
        if path.is_file()
    }


@pytest.mark.parametrize("words", DECISIONS, ids=" ".join)
@pytest.mark.parametrize("environ", [{}, {"CLAUDECODE": "1"}, {"VADE_SCRIPT": "nightly"}], ids=str)
def test_a_decision_without_a_terminal_is_refused_in_one_line_and_nothing_changes(
    home: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    words: tuple[str, ...],
    environ: dict[str, str],
) -> None:
    keep_two(home)
    before = files_of(home)
    monkeypatch.delenv("VADE_SCRIPT")
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    assert run(list(words)) == 1
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    if words[0] == "forget" and "CLAUDECODE" in environ:  # what an agent asks for, a person may still want
        assert "pending review" in said
        before |= {name: content for name, content in files_of(home).items() if "approvals/" in name}
    else:
        assert said.startswith("vade: only a person can "), said
        assert "terminal" in said
    assert files_of(home) == before


def test_a_script_that_the_users_settings_name_decides(home: Path) -> None:
    keep_two(home)
    allow(home)
    assert run(["review", "verify", "one"]) == 0
    assert run(["forget", "guarded", "--yes"]) == 0
    assert run(["purge", "one", "--yes"]) == 0


def test_neither_a_repository_nor_a_variable_can_allow_a_script(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    keep_two(home)
    monkeypatch.setenv("VADE_APPROVAL_SCRIPTS", SCRIPT)
    assert run(["review", "verify", "one"]) == 1
    assert "VADE_APPROVAL_SCRIPTS" in capsys.readouterr().err
    monkeypatch.delenv("VADE_APPROVAL_SCRIPTS")
    (Path.cwd() / ".vade").mkdir()
    (Path.cwd() / ".vade" / "config.toml").write_text(f'approval.scripts = ["{SCRIPT}"]\n')
    assert run(["review", "verify", "one"]) == 1


def test_what_is_written_inside_an_agent_is_the_agents_word(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    run(["add", "Mine.", "--key", "mine"])
    monkeypatch.setenv("CLAUDECODE", "1")
    run(["add", "Its own.", "--key", "its"])
    memory = connect(home=home, origin=Origin.USER)
    assert [memory.show(key).entries[0].origin for key in ("mine", "its")] == [Origin.USER, Origin.AGENT]
    assert [memory.show(key).fields["generated"]["by"] for key in ("mine", "its")] == [
        "human:ada",
        "process:main",
    ]


# A real terminal, and Python.


def at_a_terminal(*words: str, **environ: str) -> tuple[int, str]:
    """Run a command with a terminal of its own for all three streams, as a person's shell does."""
    ours, theirs = pty.openpty()
    given = {name: value for name, value in os.environ.items() if name != "VADE_SCRIPT"}
    with subprocess.Popen(
        [sys.executable, "-m", "vademecum", *words],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**given, **environ},
        start_new_session=True,
    ) as process:
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # Linux says so when the other end is closed
                break
            if not piece:
                break
            said += piece
    os.close(ours)
    return process.returncode, said.decode()


def test_a_person_at_a_real_terminal_decides_and_an_agent_with_one_does_not(home: Path) -> None:
    keep_two(home)
    code, said = at_a_terminal("review", "verify", "one", CLAUDECODE="1")
    assert (code, "inside Claude Code" in said) == (1, True), said
    code, said = at_a_terminal("review", "verify", "one")
    assert code == 0, said
    code, said = at_a_terminal("forget", "guarded", "--yes")
    assert code == 0, said


def python(code: str, **environ: str) -> subprocess.CompletedProcess[str]:
    given = {name: value for name, value in os.environ.items() if name != "VADE_SCRIPT"}
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**given, **environ},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


SPEAK = """
import json
from vademecum import Memory, VadeError
try:
    memory = Memory.open(person=True)
    memory.store("Said by me.", key="said")
    print(json.dumps([str(entry.origin) for entry in memory.show("said").entries]))
except VadeError as error:
    print(json.dumps([str(error), error.hint]))
"""


def test_a_persons_python_script_speaks_as_a_person_only_where_that_is_allowed(home: Path) -> None:
    def said(**environ: str) -> Any:
        return json.loads(python(SPEAK, **environ).stdout)

    assert "as a person, and this is not a terminal" in said()[0]
    allow(home)
    assert "not allowed" in said(VADE_SCRIPT="another")[0]
    assert "inside Codex" in said(VADE_SCRIPT=SCRIPT, CODEX_SANDBOX="seatbelt")[0]
    assert said(VADE_SCRIPT=SCRIPT) == ["user"]


def test_memory_opened_as_it_always_was_is_an_agents(home: Path) -> None:
    allow(home)
    memory = Memory.open()
    memory.store("Said.", key="said")
    assert memory.show("said").entries[0].origin is Origin.AGENT
    with pytest.raises(NotVisible, match="only a person"):
        memory.review.verify("said")


def test_a_variable_that_would_allow_scripts_is_refused_by_its_name(home: Path) -> None:
    with pytest.raises(ConfigError, match="VADE_APPROVAL_SCRIPTS"):
        connect(home=home, environ={"VADE_APPROVAL_SCRIPTS": "nightly"})


def test_the_manual_lists_every_variable_by_which_an_agent_is_known() -> None:
    manual = (Path(__file__).parents[2] / "docs" / "safety.md").read_text("utf-8")
    assert [name for name in NAMES if f"`{name}`" not in manual] == []
