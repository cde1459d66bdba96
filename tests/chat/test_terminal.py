"""A person at a real pseudo-terminal: typing, completing, stopping, resizing, leaving."""

from __future__ import annotations

import os
import re
import stat
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pexpect
import pytest

from llm.wire_server import MODEL, Hang, Say, Use, WireServer, serving
from vade_command import VADE
from vademecum.interfaces.chat import terminal
from vademecum.transcripts import Role
from vademecum.transcripts.events import MessageEvent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from .conftest import Room

HANG = 60.0  # seconds after which nothing will come any more
_ESCAPES = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[()][A-Z0-9]|[=>78DMc])")


class Seat:
    """A terminal with a chat in it."""

    def __init__(self, room: Room, wire: WireServer, *words: str, size: tuple[int, int] = (30, 100)) -> None:
        environ = {
            **os.environ,
            "TERM": "xterm-256color",
            "VADE_LLM_ENDPOINT": wire.endpoint("compatible"),
            "VADE_MODEL": f"compatible:{MODEL}",
            "VADE_LLM_WINDOW": "32000",
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        environ.pop("NO_COLOR", None)
        self.process = pexpect.spawn(
            VADE,
            ["chat", "--home", str(room.home), *words],
            cwd=str(room.project),
            env=environ,
            dimensions=size,
            encoding="utf-8",
            timeout=60,
        )
        self.seen = ""
        self.read = 0  # how much of it, without escapes

    def wait(self, words: str) -> str:
        """Read on until these words are on the screen, and give what came until then without its escapes."""
        end = time.monotonic() + HANG
        while words not in (found := _ESCAPES.sub("", self.seen)[self.read :]):
            assert time.monotonic() < end, f"{words!r} did not come: {found}"
            self.process.expect([r".+", pexpect.EOF, pexpect.TIMEOUT], timeout=5)
            got = self.process.after
            assert got is not pexpect.EOF, f"ended before {words!r}: {found}"
            self.seen += got if isinstance(got, str) else ""
        length = found.index(words) + len(words)
        self.read += length
        return found[:length]

    def type(self, keys: str) -> None:
        self.process.send(keys)

    def ended(self) -> int:
        self.process.expect(pexpect.EOF)
        self.process.close()
        return self.process.exitstatus if self.process.exitstatus is not None else -1


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with serving() as server:
        yield server


@pytest.mark.full
def test_typing_completing_and_an_answer_in_markdown(room: Room, wire: WireServer) -> None:
    wire.script(Say("Polly wants:\n\n- a **cracker**\n- a nut\n\nThat is all."))
    seat = Seat(room, wire)
    seat.wait("›")
    seat.type("/sta\t")
    seat.wait("/status")
    seat.type("\r")
    shown = seat.wait("used")
    assert f"compatible:{MODEL}" in shown
    seat.wait("›")
    seat.type("What does Polly want?\r")
    shown = seat.wait("That is all.")
    assert "• a cracker" in shown
    assert "**" not in shown.split("Polly wants:")[-1].replace("- a **cracker**", "")
    seat.wait("›")
    seat.type("\x04")
    assert seat.ended() == 0
    assert "a nut" in "".join(path.read_text() for path in room.home.rglob("journal/*.md"))


@pytest.mark.full
def test_ctrl_c_stops_an_answer_and_keeps_the_session(room: Room, wire: WireServer) -> None:
    wire.script(Hang("Polly"), Say("Here I am again."))
    seat = Seat(room, wire, "--session", "work")
    seat.wait("›")
    seat.type("What is her name?\r")
    seat.wait("Polly")
    seat.type("\x03")
    seat.wait("stopped")
    seat.wait("›")
    seat.type("Are you there?\r")
    seat.wait("Here I am again.")
    seat.wait("›")
    seat.type("\x03")  # an empty line is given up, and the session stays
    seat.wait("Ctrl-D ends")
    seat.wait("›")
    seat.type("/quit\r")
    assert seat.ended() == 0
    events = room.chat(None, session="work").log.events()
    said = [event.message for event in events if isinstance(event, MessageEvent)]
    assert [str(each.role) for each in said] == ["system", "user", "assistant", "user", "assistant"]
    assert said[2].extra["vademecum"] == {"interrupted": True}
    assert said[2].text == "Polly"


@pytest.mark.full
def test_a_person_is_asked_with_one_key_before_a_tool_runs(room: Room, wire: WireServer) -> None:
    wire.script(Use("run_command", {"command": "echo $((40 + 2)) > made"}), Say("It is made."))
    seat = Seat(room, wire)
    seat.wait("›")
    seat.type("Make it\r")
    seat.wait("Allow it? [y/n/a]")
    assert not (room.project / "made").exists()
    seat.type("maybe\r")
    seat.wait("Allow it? [y/n/a]")
    seat.type("y\r")
    seat.wait("It is made.")
    assert (room.project / "made").read_text() == "42\n"
    seat.wait("›")
    seat.type("\x04")
    assert seat.ended() == 0


@pytest.mark.full
def test_a_terminal_that_changes_its_size_goes_on(room: Room, wire: WireServer) -> None:
    wire.script(Say("Wide words. " * 30 + "\n\nThe end."))
    seat = Seat(room, wire, size=(24, 120))
    seat.wait("›")
    seat.process.setwinsize(10, 40)
    seat.type("Say something long\r")
    shown = seat.wait("The end.")
    drawn = [line for line in shown.splitlines() if line.startswith("Wide words.")]
    assert drawn
    seat.process.setwinsize(40, 80)
    seat.wait("›")
    seat.type("/help\r")
    seat.wait("Everything else goes to the model")
    seat.type("\x04")
    assert seat.ended() == 0


@pytest.mark.full
def test_several_lines_are_one_message(room: Room, wire: WireServer) -> None:
    wire.script(Say("Two lines."))
    seat = Seat(room, wire, "--session", "work")
    seat.wait("›")
    seat.type("first line\x1b\rsecond line\r")
    seat.wait("Two lines.")
    seat.wait("›")
    seat.type("\x04")
    assert seat.ended() == 0
    thread = room.chat(None, session="work").thread
    assert next(each.text for each in thread if each.role is Role.USER) == "first line\nsecond line"


@pytest.mark.full
def test_what_was_typed_is_remembered_but_for_secrets(room: Room, wire: WireServer) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    wire.script(Say("Yes."))
    seat = Seat(room, wire)
    seat.wait("›")
    seat.type("The question of the day\r")
    seat.wait("Yes.")
    seat.wait("›")
    seat.type(f"My token is {secret} by the way\r")
    seat.wait("Yes.")
    seat.wait("›")
    seat.type("\x04")
    seat.ended()
    history = room.home / terminal.HISTORY
    assert history.read_text() == "The question of the day\n"
    assert stat.S_IMODE(history.stat().st_mode) == 0o600
    again = Seat(room, wire)
    again.wait("›")
    again.type("\x1b[A")
    again.wait("The question of the day")
    again.type("\x03")
    again.wait("›")
    again.type("\x04")
    assert again.ended() == 0


@pytest.mark.full
def test_incognito_keeps_no_history(room: Room, wire: WireServer) -> None:
    wire.script(Say("Yes."))
    seat = Seat(room, wire, "--incognito")
    seat.wait("›")
    seat.type("Nobody may know\r")
    seat.wait("Yes.")
    seat.wait("›")
    seat.type("\x04")
    assert seat.ended() == 0
    assert not room.home.exists() or not any("Nobody may know" in each for each in texts(room.home))


def texts(folder: Path) -> Iterator[str]:
    for path in folder.rglob("*"):
        if path.is_file():
            yield path.read_text(errors="replace")


@pytest.mark.full
def test_a_plain_terminal_does_without_the_library(room: Room, wire: WireServer) -> None:
    wire.script(Say("Yes."))
    code = (
        "import sys; sys.modules['prompt_toolkit'] = None;"
        "from vademecum.interfaces.cli.app import run; sys.exit(run(sys.argv[1:]))"
    )
    model = {"VADE_LLM_ENDPOINT": wire.endpoint("compatible"), "VADE_MODEL": f"compatible:{MODEL}"}
    process = pexpect.spawn(
        sys.executable,
        ["-c", code, "chat", "--home", str(room.home), "--session", "work"],
        cwd=str(room.project),
        env={**os.environ, **model},
        encoding="utf-8",
        timeout=60,
    )
    process.expect("› ")
    process.send("first line\\\rsecond line\r")
    process.expect("Yes.")
    process.expect("› ")
    process.send("\x04")
    process.expect(pexpect.EOF)
    process.close()
    assert process.exitstatus == 0
    thread = room.chat(None, session="work").thread
    assert next(each.text for each in thread if each.role is Role.USER) == "first line\nsecond line"


def test_a_long_history_keeps_its_newest_lines(tmp_path: Path) -> None:
    path = tmp_path / "history"
    path.write_text("".join(f"line {number}\n" for number in range(9000)))
    assert terminal.read_history(path)[-1] == "line 8999"
    assert path.read_text().startswith("line 7000\n")
    assert [each.name for each in tmp_path.iterdir()] == ["history"]


def test_a_purge_reaches_what_was_typed(room: Room) -> None:
    chat = room.chat(None)
    path = room.home / terminal.HISTORY
    terminal.add_to_history(path, "The launch is on Friday.\nDo not tell.")
    terminal.add_to_history(path, "Something else")
    chat.person.archive.purge_text("The launch is on Friday.\nDo not tell.")
    assert "Friday" not in path.read_text()
    assert terminal.read_history(path)[1] == "Something else"


def test_history_survives_anything_that_was_typed(tmp_path: Path) -> None:
    path = tmp_path / "home" / "history"
    typed = ["one", "two\nlines", "back\\slash", "a\\nb", "ümläut 好", "\ud800"]
    for text in typed:
        terminal.add_to_history(path, text)
    terminal.add_to_history(path, "   ")
    found = terminal.read_history(path)
    assert found[:5] == typed[:5]
    assert len(found) == 6


@pytest.mark.full
def test_lines_typed_while_it_works_are_sent_one_after_another(room: Room, wire: WireServer) -> None:
    waits = {"command": "touch begun; while [ ! -e typed ]; do sleep 0.1; done"}
    wire.script(Use("run_command", waits), Say("First answer."), Say("Second answer."))
    seat = Seat(room, wire, "--session", "work", "--allow", "run_command")
    seat.wait("›")
    seat.type("Do it\r")
    end = time.monotonic() + HANG
    while not (room.project / "begun").exists():
        assert time.monotonic() < end
        seat.process.expect([r".+", pexpect.TIMEOUT], timeout=0.2)
        time.sleep(0.05)
    seat.type("And then?\r/quit\r")
    (room.project / "typed").touch()
    assert seat.ended() == 0
    thread = room.chat(None, session="work").thread
    assert [each.text for each in thread if each.role is Role.USER] == ["Do it", "And then?"]
    assert thread[-1].text == "Second answer."


def test_a_reader_who_leaves_ends_it_without_a_word(room: Room) -> None:
    lines = room.project / "lines"
    lines.write_text("/help\n" * 200)
    words = f"'{VADE}' chat --home '{room.home}' --session work < '{lines}' | head -3"
    environ = {**os.environ, "VADE_MODEL": "", "PYTHONUNBUFFERED": "1"}
    done = subprocess.run(
        ["sh", "-c", words], cwd=room.project, env=environ, capture_output=True, text=True, check=False
    )
    assert len(done.stdout.splitlines()) == 3
    assert done.stderr == ""
