"""The tools that touch the machine: what they give, what they refuse, and that they always end."""

from __future__ import annotations

import json
import os
import time
from typing import TYPE_CHECKING

import pytest

from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.chat import conversation, tools
from vademecum.llm.base import Call
from vademecum.llm.scripted import Scripted
from vademecum.transcripts import Role

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.interfaces.chat.state import Chat

    from .conftest import Room


def results(chat: Chat) -> list[str]:
    return [result.text for each in chat.thread if each.role is Role.TOOL for result in each.results]


def test_a_file_is_read_with_its_line_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one\ntwo\nthree\n")
    assert tools.read_file(tmp_path, path="a.txt") == "1\tone\n2\ttwo\n3\tthree"
    assert tools.read_file(tmp_path, path="a.txt", start=2, lines=1) == "2\ttwo"
    assert tools.read_file(tmp_path, path="a.txt", start=9) == "[no such lines]"


def test_what_is_no_text_file_is_refused_and_never_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "binary").write_bytes(b"\0\1\2")
    for path in ("pipe", ".", "binary"):
        with pytest.raises(UsageError):
            tools.read_file(tmp_path, path=path)
    with pytest.raises(NotFound):
        tools.read_file(tmp_path, path="gone")
    with pytest.raises(NotFound):
        tools.read_file(tmp_path, path="a\0b")


def test_a_large_result_keeps_its_beginning_and_end(tmp_path: Path) -> None:
    (tmp_path / "large.txt").write_text("begin\n" + "x" * 900_000 + "\nend\n")
    said = tools.read_file(tmp_path, path="large.txt")
    assert said.startswith("1\tbegin")
    assert said.endswith("3\tend")
    assert len(said) < tools.LARGEST + 100


def test_a_folder_is_listed(tmp_path: Path) -> None:
    (tmp_path / "b").mkdir()
    (tmp_path / "a.txt").touch()
    assert tools.list_files(tmp_path) == "a.txt\nb/"
    assert tools.list_files(tmp_path, path="b") == "[empty]"
    with pytest.raises(UsageError):
        tools.list_files(tmp_path, path="a.txt")


def test_a_pattern_is_found_with_its_places(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text("import os\nimport sys\n")
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git" / "b.py").write_text("import sys\n")
    assert tools.grep(tmp_path, pattern=r"import s\w+") == "a.py:2: import sys"
    assert tools.grep(tmp_path, pattern="xyzzy") == "[no matches]"
    with pytest.raises(UsageError, match="regular expression"):
        tools.grep(tmp_path, pattern="(")


def test_what_lies_in_the_project_is_never_run_by_looking_through_it(tmp_path: Path) -> None:
    for name in ("re.py", "vademecum/__init__.py", "sitecustomize.py"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("open('run', 'w').close()  # needle\n")
    assert tools.grep(tmp_path, pattern="needle").count("needle") == 3
    assert not (tmp_path / "run").exists()


def test_a_pattern_that_never_ends_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "a.txt").write_text("a" * 60 + "!")
    monkeypatch.setattr(tools, "GREP_SECONDS", 1.0)
    assert tools.grep(tmp_path, pattern=r"(a+)+$") == ("[stopped after 1 s: not everything was searched]")


@pytest.mark.full
def test_what_was_found_before_the_stop_is_told_with_a_note(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "a.txt").write_text("aaa\n" + "a" * 60 + "!")
    monkeypatch.setattr(tools, "GREP_SECONDS", 3.0)
    assert tools.grep(tmp_path, pattern=r"^(a+)+$") == (
        "a.txt:1: aaa\n[stopped after 3 s: not everything was searched]"
    )


def test_files_too_large_to_look_through_are_counted(tmp_path: Path) -> None:
    for name in ("large.txt", "larger.txt"):
        with open(tmp_path / name, "wb") as file:
            file.truncate(5 * 1024 * 1024)
    (tmp_path / "a.txt").write_text("needle\n")
    note = "[2 files too large, skipped]"
    assert tools.grep(tmp_path, pattern="needle") == f"a.txt:1: needle\n{note}"
    assert tools.grep(tmp_path, pattern="xyzzy") == f"[no matches]\n{note}"
    said = tools.grep(tmp_path, pattern="xyzzy", path="large.txt")
    assert said == "[no matches]\n[1 file too large, skipped]"


def test_a_command_says_what_it_printed_and_how_it_ended(tmp_path: Path) -> None:
    assert tools.run_command(tmp_path, command="echo hello; exit 3") == "hello\n[exit code 3]"
    assert tools.run_command(tmp_path, command="cat") == "[exit code 0]"  # there is no input


def test_a_command_that_hangs_is_stopped_with_all_it_started(tmp_path: Path) -> None:
    command = "sleep 300 & echo $! > child; echo begun; sleep 300"
    said = tools.run_command(tmp_path, command=command, seconds=1)
    assert said == "begun\n[stopped after 1 s]"
    child = int((tmp_path / "child").read_text())
    for _ in range(200):
        if not alive(child):
            break
        time.sleep(0.05)
    assert not alive(child)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_a_command_that_prints_without_end_gives_a_bearable_result(tmp_path: Path) -> None:
    said = tools.run_command(tmp_path, command="yes | head -c 3000000; echo the end")
    assert len(said) < 2 * tools.LARGEST
    assert "the end" in said


def test_a_command_that_never_stops_printing_is_stopped_by_how_much_it_printed(tmp_path: Path) -> None:
    said = tools.run_command(tmp_path, command="yes", seconds=600)
    assert said.startswith("y\ny\n")
    assert said.endswith("[stopped: it printed more than 16 MiB]")
    assert len(said) < 2 * tools.LARGEST


@pytest.mark.parametrize(
    ("path", "is_inside"),
    [(".", True), ("a/b", True), ("..", False), ("a/../..", False), ("/etc/passwd", False), ("link", False)],
)
def test_what_leads_out_of_the_project_is_known(tmp_path: Path, path: str, is_inside: bool) -> None:
    (tmp_path / "link").symlink_to("/etc")
    assert tools.is_inside(tmp_path, path) is is_inside


def test_each_tool_asks_until_it_is_allowed_for_good(room: Room) -> None:
    (room.project / "a.txt").write_text("hello")
    call = Call("1", "read_file", json.dumps({"path": "a.txt"}))
    room.person.answers = ["n", "y", "a"]
    chat = room.chat(Scripted(call, call, call, call, "Done."))
    conversation.run_turn(chat, "Read it")
    assert ["hello" in said for said in results(chat)] == [False, True, True, True]
    assert len(room.person.asked) == 3


def test_allowed_for_good_never_covers_what_lies_outside(room: Room, tmp_path: Path) -> None:
    (tmp_path / "outside.txt").write_text("not yours")
    room.person.answers = ["n"]
    chat = room.chat(
        Scripted(Call("1", "read_file", json.dumps({"path": "../outside.txt"})), "Well."),
        allow=("read_file",),
    )
    conversation.run_turn(chat, "Read it")
    assert "not yours" not in results(chat)[0]
    assert room.person.asked == ["Allow it? [y/n] "]


def test_where_nobody_can_be_asked_only_allowed_tools_run(room: Room) -> None:
    call = Call("1", "run_command", json.dumps({"command": "echo hello"}))
    chat = room.chat(Scripted(call, "Well."), asks=False)
    conversation.run_turn(chat, "Run it")
    assert "--allow run_command" in results(chat)[0]
    allowed = room.chat(Scripted(call, "Well."), asks=False, allow=("run_command",), fresh=True)
    conversation.run_turn(allowed, "Run it")
    assert "hello" in results(allowed)[0]


def test_a_command_is_shown_with_everything_that_hides_in_it(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    room.person.answers = ["n"]
    sly = "echo hello\u202e\u200b; rm -rf /tmp/x\x1b[8m"
    chat = room.chat(Scripted(Call("1", "run_command", json.dumps({"command": sly})), "Well."))
    conversation.run_turn(chat, "Run it")
    shown = capsys.readouterr().out
    assert "⟨U+202E⟩⟨U+200B⟩; rm -rf /tmp/x⟨U+001B⟩[8m" in shown
    assert "\x1b" not in shown


def test_the_list_of_things_to_do_is_the_sessions_own(room: Room) -> None:
    call = Call("1", "todo", json.dumps({"operation": "write", "items": ["read", "write"]}))
    chat = room.chat(Scripted(call, "Done."))
    conversation.run_turn(chat, "Plan")
    assert results(chat)[0] == "[ ] 1. read\n[ ] 2. write"


def test_a_small_window_is_offered_the_most_needed_tools_alone(room: Room) -> None:
    large = room.chat(Scripted(), window=64_000)
    small = room.chat(Scripted(), window=8_192, fresh=True)
    assert [each["name"] for each in large.offered()] == tools.names()
    assert [each["name"] for each in small.offered()] == [
        each for each in tools.names() if each in tools._NEEDED
    ]
    assert small.engine.filled(small.thread[:1], small.offered()).schemas * 4 < small.window
