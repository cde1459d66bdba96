"""The front door: ten verbs, what folds into them, other tools' names, and screens that fit."""

from __future__ import annotations

import itertools
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import click
import pytest

from allowing import allow
from vade_command import Vade
from vademecum.interfaces.cli.app import COMMANDS, FIRST, SECTIONS
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("COLUMNS", "80")
    return Vade(tmp_path / "home", capsys)


def test_the_first_screen_shows_ten_commands_each_with_a_line_to_type(vade: Vade) -> None:
    shown = vade("--help")
    listed = [line.split()[0] for line in shown.splitlines() if " vade " in line and line.startswith("  ")]
    assert sorted(listed) == sorted("install add search show list edit forget restore import status".split())
    assert all(len(line) <= 80 for line in shown.splitlines())
    assert "vade help all" in shown


def test_every_command_is_on_the_page_of_all_commands_whole(vade: Vade) -> None:
    shown = vade("help", "all")
    for name, (_, summary) in COMMANDS.items():
        assert any(
            line.split(maxsplit=1) == [name, summary] for line in shown.splitlines() if line.strip()
        ), name
    assert set(FIRST) < set(SECTIONS)


@pytest.mark.parametrize("words", [("help", "forget"), ("forget", "--help")])
def test_help_of_a_command_can_be_asked_for_both_ways(vade: Vade, words: tuple[str, ...]) -> None:
    assert "Usage: vade forget" in vade(*words)
    assert vade.code == 0


def test_help_of_an_inner_command_is_found(vade: Vade) -> None:
    assert "Usage: vade config set" in vade("help", "config", "set")


def test_add_saves_a_record_a_note_and_a_lesson(vade: Vade) -> None:
    assert "saved as deploys" in vade("add", "Deploys", "run", "on", "Fridays", "--key", "deploys")
    assert "journal" in vade("add", "--journal", "talked to Ann")
    assert (
        vade.json("add", "--type", "solution", "port in use", "--solution", "stop it")["outcome"] == "created"
    )
    assert vade.json("show", "deploys")["entries"][0]["text"] == "Deploys run on Fridays"
    assert [each["type"] for each in vade.json("list")["records"]].count("solution") == 1


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("add",), "Give the TEXT"),
        (("add", "x", "--solution", "y"), "--solution requires a lesson"),
        (
            ("add", "x", "--type", "solution", "--key", "k", "--error", "e"),
            "--error cannot be combined with --key",
        ),
        (("add", "--journal", "x", "--key", "k"), "--journal takes only TEXT"),
        (("search", "x", "--include-related"), "require --records"),
        (("search", "--explain"), "requires a QUERY"),
        (("show", "x", "--lines", "9-2"), "--lines takes"),
        (("tidy", "--model", "x:y"), "--only compact"),
        (("tidy", "--key", "x"), "--only compact"),
        (("tidy", "--only", "compact", "--reword"), "--reword requires"),
        (("tidy", "--only", "sweep", "--aggressive"), "requires heal"),
        (("forget", "--all"), "requires --scope"),
        (("forget", "x", "--include-protected"), "requires --all"),
        (("tag", "x"), "Pass --add TAG"),
        (("move", "--scope", "global"), "Name the records"),
        (("forget",), "Name the records"),
        (("backup", "x", "--verify", "--restore"), "one of"),
        (("config", "set", "sweep"), "Give a VALUE"),
    ],
)
def test_wrong_use_is_one_line_and_exit_2(vade: Vade, words: tuple[str, ...], said: str) -> None:
    vade(*words)
    assert (vade.code, vade.err.count("\n")) == (2, 1)
    assert said in vade.err


def test_search_without_a_question_shows_the_newest_records(vade: Vade) -> None:
    vade("add", "The first thing", "--key", "one")
    vade("add", "The second thing", "--key", "two")
    found = vade.json("search")["results"]
    assert {each["key"] for each in found} == {"one", "two"}
    assert vade.json("search", "first", "--records")["results"][0]["key"] == "one"


def test_show_prints_lines_of_a_file(vade: Vade) -> None:
    vade("add", "Deploys run on Fridays", "--key", "deploys")
    path = vade.json("show", "deploys")["path"]
    assert vade("show", path, "--lines", "1") == vade("show", path, "--lines", "1+1") == "---\n"
    assert vade("show", "deploys", "--lines", "2-3") == vade("show", "deploys", "--lines", "2+2")
    assert vade("show", path).count("\n") > 5


def test_a_hit_shows_the_lines_around_the_match_and_all_with_full(vade: Vade) -> None:
    lines = [f"Paragraph {n} speaks of something else." for n in range(60)]
    vade("add", "\n".join([*lines[:30], "The badger sleeps.", *lines[30:]]), "--key", "animals")
    short, full = vade("search", "badger"), vade("search", "badger", "--full")
    assert short.startswith("#1 animals · project · just now · ")
    assert "The badger sleeps." in short
    assert "Paragraph 30 " in short
    assert "Paragraph 0 " not in short
    assert len(short) < len(full)
    assert "animals.md#L" in short


def test_a_lesson_with_a_key_is_a_record_of_that_type(vade: Vade) -> None:
    vade("add", "The build needs make.", "--type", "discovery", "--key", "build")
    shown = vade.json("show", "build")
    assert (shown["type"], shown["entries"][0]["text"]) == ("discovery", "The build needs make.")


def test_today_shows_the_whole_journal_of_a_scope(vade: Vade) -> None:
    assert "no notes today" in vade("today", "--journal")
    vade("add", "--journal", "Ann is back.", "--scope", "global")
    assert "Ann is back." in vade("today", "--journal", "--scope", "global")
    assert vade.json("today", "--journal")["text"] == ""


def test_all_records_of_a_scope_are_forgotten_as_one_run(vade: Vade) -> None:
    allow(vade.home)
    for key in ("one", "two"):
        vade("add", f"Text {key}.", "--key", key)
    vade("protect", "two")
    assert [
        record["key"] for record in vade.json("forget", "--all", "--scope", "project", "--yes")["cleared"]
    ] == ["one"]
    vade("forget", "--all", "--scope", "project", "--include-protected", "--yes")
    assert vade.json("list")["count"] == 0
    vade("undo")
    assert vade.json("list")["count"] == 1


def test_tidy_runs_every_part_that_needs_no_model(vade: Vade) -> None:
    vade("add", "Deploys run on Fridays", "--key", "deploys")
    assert set(vade.json("tidy")) == {"schemaVersion", "sweep", "heal", "promote", "prune"}
    assert set(vade.json("tidy", "--only", "heal")) == {"schemaVersion", "heal"}
    assert vade("tidy", "--only", "sweep") == "nothing to do\n"


@pytest.mark.parametrize("name", ["rm", "delete", "remove", "del"])
def test_what_takes_away_elsewhere_is_named_and_never_run(vade: Vade, name: str) -> None:
    vade("add", "Deploys run on Fridays", "--key", "deploys")
    vade(name, "deploys", "--yes")
    assert vade.code == 2
    assert "`vade forget KEY`" in vade.err
    assert vade.json("list")["count"] == 1


@pytest.mark.parametrize("name", ["save", "remember"])
def test_other_names_for_adding_add(vade: Vade, name: str) -> None:
    assert "saved as" in vade(name, "Ann owns billing")


@pytest.mark.parametrize("name", ["find", "ls", "cat"])
def test_other_names_for_looking_look(vade: Vade, name: str) -> None:
    vade("add", "Ann owns billing", "--key", "billing")
    assert "Ann owns billing" in vade(name, *(() if name == "ls" else ("billing",)))


@pytest.mark.parametrize(
    ("typed", "meant"), [("tody", "today"), ("serch", "search"), ("srch", "search"), ("lits", "list")]
)
def test_a_mistyped_command_gets_the_one_that_was_meant(vade: Vade, typed: str, meant: str) -> None:
    vade(typed)
    assert f"Did you mean `vade {meant}`?" in vade.err


@pytest.mark.parametrize("typed", ["hairdryer", "push", "trash", "fork", "clone", "xyz", "zzz"])
def test_an_unrelated_word_gets_no_suggestion(vade: Vade, typed: str) -> None:
    vade(typed)
    assert vade.code == 2
    assert "Did you mean" not in vade.err


HEADINGS = ["#", "key", "scope", "type", "category", "age", "", "text"]
ROW = ["12", "deployment-schedule-of-the-api", "project", "reference", "operations", "12d", "?", "word " * 40]


@pytest.mark.parametrize("columns", [60, 80, 120, 200])
def test_a_table_keeps_number_scope_type_and_age_and_cuts_text(
    columns: int, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stdout.isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setenv("NO_COLOR", "1")
    output.table(
        [ROW, ["7", "日本語の記録", "global", "user", "-", "3h", "", "全角の文字がここにある" * 9]], HEADINGS
    )
    lines = capsys.readouterr().out.splitlines()
    assert all(output.cell_width(line) <= columns for line in lines)
    assert all(each in lines[1].split() for each in (ROW[0], ROW[1], ROW[2], ROW[3], ROW[5]))
    assert ("wor" in lines[1]) is (columns >= 80)


def test_a_table_in_a_pipe_is_whole(capsys: pytest.CaptureFixture[str]) -> None:
    output.table([ROW], HEADINGS)
    assert ("word " * 40).strip() in capsys.readouterr().out


def test_settings_are_read_set_checked_and_taken_back(vade: Vade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vademecum.memory.opening.has_terminal", lambda: True)
    vade("add", "x", "--key", "x")
    config = vade.home / "config.toml"
    config.write_text("# mine\n[search]\n# why\nmax_results = 9\n")
    assert vade("config", "get", "search.max_results") == "9\n"
    assert vade("config", "set", "search.max_results", "7") == "search.max_results = 7\n"
    assert config.read_text() == "# mine\n[search]\n# why\nmax_results = 7\n"
    vade("config", "set", "search.max_results", "many")
    assert vade.code == 1
    assert "search.max_results must be" in vade.err
    vade("config", "set", "search.max_result", "7")
    assert "did you mean search.max_results" in vade.err
    assert vade("config", "set", "search.max_results", "--unset") == "search.max_results = 6\n"
    assert config.read_text() == "# mine\n[search]\n# why\n"
    assert vade("config", "path") == f"{config}\n"


def test_an_edited_settings_file_with_a_mistake_is_not_taken(
    vade: Vade, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("vademecum.memory.opening.has_terminal", lambda: True)
    script = tmp_path / "editor"
    script.write_text('#!/bin/sh\necho "search.max_results = \\"many\\"" > "$1"\n')
    script.chmod(0o755)
    monkeypatch.setenv("EDITOR", str(script))
    vade("config", "edit")
    assert vade.code == 1
    assert "your text is kept in" in vade.err
    assert not (vade.home / "config.toml").exists()
    script.write_text('#!/bin/sh\necho "search.max_results = 8" > "$1"\n')
    vade("config", "edit")
    assert vade("config", "get", "search.max_results") == "8\n"


def test_an_agent_does_not_change_settings(vade: Vade, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CLAUDECODE", "1")
    vade("config", "set", "secrets.policy", "warn")
    assert vade.code == 1
    assert "only a person" in vade.err
    assert click.unstyle(vade("config", "get", "secrets.policy")) != "warn\n"


END = """
import atexit, sys, threading
from vademecum.interfaces.cli import end_process
atexit.register(lambda: print("at exit"))
print("printed")
if sys.argv[1] == "thread":
    threading.Timer(0.2, lambda: print("thread ended")).start()
end_process(3)
"""


@pytest.mark.parametrize(("name", "last"), [("alone", []), ("thread", ["thread ended"])])
def test_a_command_ends_with_its_code_all_that_was_printed_and_what_runs_at_exit(
    name: str, last: list[str]
) -> None:
    done = subprocess.run([sys.executable, "-c", END, name], capture_output=True, text=True, check=False)
    assert done.returncode == 3
    assert done.stderr == ""
    assert done.stdout.splitlines() == ["printed", *last, "at exit"]


def test_without_a_terminal_long_work_says_how_far_it_is_and_what_an_interrupt_leaves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(output, "_BETWEEN_LINES", 0.0)
    clock = itertools.count(0, 60)
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))

    def interrupted() -> None:
        with output.progress("run it again") as step:
            step("reading", 20, 100)
            step("reading", 40, 100)
            raise KeyboardInterrupt

    with pytest.raises(output.WorkStopped, match=r"^stopped at reading, 40 of 100: run it again$"):
        interrupted()
    assert capsys.readouterr().err == (
        "vade: reading: 20 of 100\nvade: reading: 40 of 100, about 3 minutes left\n"
    )
