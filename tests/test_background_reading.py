"""New texts are read soon: by the process that wrote them while it lives, else by one reader of its own."""

from __future__ import annotations

import gc
import json
import os
import signal
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from vademecum.errors import EmbedderFailed
from vademecum.index.embed.reader import Reader
from vademecum.interfaces.cli.app import cli
from vademecum.interfaces.hooks.deadline import Channel, Job
from vademecum.interfaces.hooks.work import run as run_hook
from vademecum.memory import Memory, background_reading, connect
from vademecum.memory.background_reading import LOCK, ReadingRequest, ask, main, read_requested
from vademecum.search import reading
from vademecum.store import Home
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

TEXT = "Customers are reimbursed within a week."
OTHER = "The kettle in the kitchen is broken again."


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """A home in which reading in the background is on, in a folder that is a project."""
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VADE_SWEEP", "off")
    monkeypatch.delenv("VADE_SEARCH_BACKGROUND_READING")
    monkeypatch.setattr(reading, "PAUSE", 0.01)
    return Home(tmp_path / "home")


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[Home]:
    """The readers that would have been started."""
    homes: list[Home] = []
    monkeypatch.setattr(background_reading, "start_process", homes.append)
    return homes


def vade(*words: str) -> str:
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 0, done.output
    return done.stdout


def unread(*words: str) -> tuple[int, int]:
    """The numbers of passages that were read and not read."""
    coverage = json.loads(vade("search", "kettle", "--json", *words))["coverage"]
    return coverage["read"], coverage["unread"]


def serve(home: Home) -> None:
    read_requested(home, until=time.monotonic() + 60, quiet=0)


def requests(home: Home) -> list[str]:
    return home.names("index", "reading")


def test_a_command_that_writes_has_its_text_read_by_a_reader(home: Home, started: list[Home]) -> None:
    vade("add", TEXT)
    assert [each.path for each in started] == [home.path]
    serve(home)
    assert requests(home) == []
    assert unread() == (1, 0)
    vade("list")
    assert len(started) == 1  # neither a list nor a search that finds all read


def test_a_search_notices_what_somebody_wrote_by_hand(home: Home, started: list[Home]) -> None:
    vade("add", TEXT, "--key", "refunds")
    serve(home)
    record = next(home.path.rglob("refunds.md"))
    record.write_text(record.read_text().replace(TEXT, OTHER))
    started.clear()
    assert unread() == (0, 1)
    assert len(started) == 1
    serve(home)
    assert unread() == (1, 0)


def test_the_end_of_an_agents_session_starts_a_reader(home: Home, started: list[Home]) -> None:
    vade("add", TEXT)
    started.clear()
    given = json.dumps({"session_id": "s", "cwd": str(home.path.parent / "work")}).encode()
    run_hook(Job("claude-code", "session-end", given), Channel())
    assert len(started) == 1


@pytest.mark.parametrize("how", ["setting", "no reader", "incognito"])
def test_nothing_is_started_where_reading_is_off(
    home: Home, started: list[Home], monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    vade("add", TEXT)
    started.clear()
    if how == "setting":
        monkeypatch.setenv("VADE_SEARCH_BACKGROUND_READING", "no")
    if how == "no reader":
        monkeypatch.setenv("VADE_EMBEDDER", "static")
    if how == "incognito":
        monkeypatch.setenv("VADE_INCOGNITO", "yes")
    vade("search", "kettle")
    assert not started
    assert len(requests(home)) == 1  # that of the first command; a reader finds the setting as well
    serve(home)
    monkeypatch.delenv("VADE_INCOGNITO", raising=False)
    assert json.loads(vade("search", "kettle", "--json"))["coverage"]["read"] == 0


def test_while_one_reader_works_no_other_starts_and_it_serves_what_comes_meanwhile(
    home: Home, started: list[Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    vade("add", TEXT)
    started.clear()
    windows, wrote = Reader.windows, threading.Event()

    def write_meanwhile(self: Reader, texts: Any) -> Any:
        if not wrote.is_set():
            wrote.set()
            vade("add", OTHER)
            serve(home)  # another reader ends at once
            assert len(requests(home)) == 1
        return windows(self, texts)

    monkeypatch.setattr(Reader, "windows", write_meanwhile)
    serve(home)
    assert not started
    assert unread() == (2, 0)


def test_a_reader_that_failed_is_not_started_again_for_a_while(
    home: Home, started: list[Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: Reader, texts: Any) -> Any:
        raise EmbedderFailed("its numbers are damaged")

    vade("add", TEXT)
    with monkeypatch.context() as patch:
        patch.setattr(Reader, "windows", fail)
        serve(home)
    started.clear()
    vade("add", OTHER)
    assert not started
    failed = home.path / "index" / "reading" / "failed"
    os.utime(failed, (0, 0))
    vade("search", "kettle")
    assert len(started) == 1
    serve(home)
    assert unread() == (2, 0)


def test_a_full_disk_stops_no_writer_and_loses_nothing_that_was_read(
    home: Home, started: list[Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    vade("add", TEXT)
    serve(home)
    before = next((home.path / "index").glob("*.db")).stat().st_ino

    def full(*given: Any, **named: Any) -> Any:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(background_reading, "_leave", full)
        vade("add", OTHER)
    assert len(started) == 1
    with monkeypatch.context() as patch:
        patch.setattr(background_reading, "_read", full)
        ask(home, ReadingRequest("main", "", ""))
        serve(home)
    assert next((home.path / "index").glob("*.db")).stat().st_ino == before
    assert unread() == (1, 1)


def test_requests_that_nobody_wrote_are_removed_and_the_others_are_served(
    home: Home, started: list[Home]
) -> None:
    vade("add", TEXT)
    folder = home.path / "index" / "reading"
    for name, content in (("a", "{"), ("b", "[1]"), ("c", '{"agent": 1, "session": "", "project": ""}')):
        (folder / name).write_text(content)
    serve(home)
    assert requests(home) == []
    assert unread() == (1, 0)


def test_a_program_that_lives_on_reads_by_itself_and_leaves_nothing_to_do(
    home: Home, started: list[Home]
) -> None:
    memory = Memory.open()
    memory.store(TEXT, key="refunds")
    while memory.search("kettle").coverage.unread:
        time.sleep(0.01)
    while memory.workspace.has_unread:
        time.sleep(0.01)
    memory.close()
    assert not started


def test_a_program_that_closes_nothing_leaves_the_rest_to_a_reader(
    home: Home, started: list[Home], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "PAUSE", 60)
    memory = Memory.open()
    memory.store(TEXT, key="refunds")
    del memory
    gc.collect()
    assert len(started) == 1


def test_sessions_are_read_newest_first_while_the_machine_is_idle(
    home: Home, started: list[Home], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for day in (3, 1, 2):
        line = {
            "type": "user",
            "uuid": f"u{day}",
            "sessionId": f"s{day}",
            "timestamp": f"2026-05-0{day}T10:00:00Z",
            "cwd": str(tmp_path / "work"),
            "message": {"role": "user", "content": f"On day {day} the kettle was broken."},
        }
        log = tmp_path / f"s{day}.jsonl"
        log.write_text(json.dumps(line) + "\n")
        vade("sessions", "import", str(log))
    vade("index")
    read: list[str] = []
    windows = Reader.windows

    def listen(self: Reader, texts: Any) -> Any:
        read.extend(texts)
        return windows(self, texts)

    monkeypatch.setattr(Reader, "windows", listen)
    idle = False
    monkeypatch.setattr(background_reading, "is_machine_idle", lambda busy: idle)
    monkeypatch.setattr(background_reading, "_AT_ONCE", 1)
    for idle in (False, True):
        ask(home, ReadingRequest("main", "", str(tmp_path / "work")))
        serve(home)
        assert [text[7] for text in read] == (["3", "2", "1"] if idle else [])


@pytest.mark.full
def test_a_reader_is_a_process_of_its_own_that_ends_by_itself_and_survives_a_kill(home: Home) -> None:
    """The only test that starts readers; it waits for the end of each."""

    def processes() -> list[int]:
        listed = subprocess.run(["ps", "-ww", "-eo", "pid,args"], capture_output=True, text=True, check=True)
        lines = [line.split(None, 1) for line in listed.stdout.splitlines()]
        return [int(pid) for pid, args in lines if "background_reading" in args and str(home.path) in args]

    def write(text: str) -> None:
        command = [sys.executable, "-m", "vademecum", "add", text]
        subprocess.run(
            command, check=True, capture_output=True, timeout=60
        )  # a pipe that the reader holds hangs

    write(TEXT)
    (killed,) = processes()
    os.kill(killed, signal.SIGKILL)
    while processes():
        time.sleep(0.05)
    write(OTHER)
    while processes():
        time.sleep(0.05)
    with connect(home=home.path, origin=Origin.USER) as memory:
        assert memory.search("kettle").coverage[-2:] == (2, 0)


def test_the_process_has_the_lowest_priority_and_a_time_limit(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: dict[str, Any] = {}
    monkeypatch.setattr(os, "setsid", lambda: given.update(session=True))
    monkeypatch.setattr(os, "nice", lambda by: given.update(nice=by))
    monkeypatch.setattr(signal, "setitimer", lambda which, seconds: given.update(limit=seconds))
    home.folder(create=True).close()
    with home.lock(LOCK):
        ask(home, ReadingRequest("main", "", ""))  # starts nothing
    main(str(home.path), quiet=0)
    assert given == {"session": True, "nice": 19, "limit": background_reading.LONGEST}
