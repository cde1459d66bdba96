"""Many processes share one index: none is locked out, none loses a note, and readers write nothing.

Every actor is a process of its own; this file, run as a script, is that process.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from vademecum.memory import Memory, connect
from vademecum.types import Origin

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

LARGEST_LOG = 16 << 20  # SQLite folds its log in at 4 MB; a few times that means nobody ever did
LONGEST_WAIT = 5.0  # seconds for one note to be kept and found


def opened(base: Path, session: str, **given: Any) -> Memory:
    return connect(
        home=base / "home",
        cwd=base / "work",
        agent="robin",
        session=session,
        environ={"VADE_EMBEDDER": "local"},
        origin=Origin.USER,
        **given,
    )


def word(writer: int, number: int) -> str:
    """A word that stands in one note only."""
    return f"w{writer}x{number}"


def scope_of(number: int) -> str:
    """Most notes go where only their writer looks; one in four where all of them do."""
    return "project" if number % 4 == 0 else "session"


# --- actors -------------------------------------------------------------------------------------------------


def write(base: Path, writer: int, count: int) -> dict[str, Any]:
    """Keep notes and find each of them at once."""
    memory = opened(base, f"writer-{writer}")
    said: set[str] = set()
    missing, longest = [], 0.0
    for number in range(count):
        begun = time.monotonic()
        text = f"The heron {word(writer, number)} stands in the pond."
        if number % 20 == 9:  # all write into one journal, which is cut anew each time
            memory.note(text)
        else:
            memory.store(text, key=f"note-{writer}-{number}", scope=scope_of(number))
        answer = memory.search(word(writer, number))
        longest = max(longest, time.monotonic() - begun)
        said.update(answer.degraded)
        if not any(word(writer, number) in each.snippet for each in answer.results):
            missing.append(number)
    return {"missing": missing, "said": sorted(said), "longest": longest}


def read(base: Path, reader: int) -> dict[str, Any]:
    """Ask until told to stop."""
    memory = opened(base, f"writer-{reader}")
    said: set[str] = set()
    asked = longest = 0.0
    while not (base / "stop").exists():
        begun = time.monotonic()
        said.update(memory.search("heron in the pond", mode="hybrid" if asked % 2 else "bm25").degraded)
        longest = max(longest, time.monotonic() - begun)
        asked += 1
    return {"asked": asked, "said": sorted(said), "longest": longest}


def start(base: Path, actor: str, *given: int) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, __file__, str(base), actor, *map(str, given)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("VADE_")},
    )


def seen(process: subprocess.Popen[str]) -> dict[str, Any]:
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err[-3000:]
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


# --- many at once -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("writers", "count", "readers"),
    [
        (3, 10, 1),
        pytest.param(4, 25, 1, marks=pytest.mark.full),
        pytest.param(16, 200, 2, marks=pytest.mark.soak),
    ],
)
def test_what_many_processes_keep_is_all_found_and_nobody_is_locked_out(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], writers: int, count: int, readers: int
) -> None:
    (tmp_path / "work").mkdir()
    # All of them meet a home without any index: making it is part of what they share.
    begun = time.monotonic()
    writing = [start(tmp_path, "write", writer, count) for writer in range(writers)]
    reading = [start(tmp_path, "read", reader) for reader in range(readers)]
    written = [seen(each) for each in writing]
    logs = [path.stat().st_size for path in (tmp_path / "home" / "index").glob("*-wal")]
    (tmp_path / "stop").touch()
    asked = [seen(each) for each in reading]
    seconds = time.monotonic() - begun
    longest = max(each["longest"] for each in (*written, *asked))
    with capsys.disabled():
        total = sum(each["asked"] for each in asked)
        print(
            f"\n{writers} x {count} notes beside {total:.0f} questions in {seconds:.0f} s,"
            f" longest wait {longest:.2f} s, log {max(logs, default=0):,} bytes"
        )
    assert [each["missing"] for each in written] == [[]] * writers
    # Nothing is read in the background of a test, and that alone may be said.
    assert {
        said for each in (*written, *asked) for said in each["said"] if "not read yet" not in said
    } == set()
    assert longest < LONGEST_WAIT * max(1, writers // (2 * (os.cpu_count() or 1)))
    assert max(logs, default=0) <= LARGEST_LOG
    everything = set()
    for writer in range(writers):
        memory = opened(tmp_path, f"writer-{writer}")
        report = memory.care.index(check=True)
        assert (report.changed, report.removed, report.pending, report.degraded) == (0, 0, 0, [])
        answer = memory.search("heron", mode="bm25", max_results=100_000, min_score=0.0)
        everything |= {each.snippet.split()[2] for each in answer.results if each.source == "memory"}
        notes = memory.search("heron", sources=["journal"], max_results=100_000, min_score=0.0).results
        everything |= {part for each in notes for part in each.snippet.split() if part.startswith("w")}
        assert answer.degraded == ()
        memory.care.searcher.close()
    assert everything >= {word(writer, number) for writer in range(writers) for number in range(count)}


def test_a_search_answers_when_what_it_finds_is_rewritten_between_any_two_of_its_statements(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    writer = opened(tmp_path, "monday")
    for number in range(6):
        writer.note(f"The heron {number} stands in the pond.", scope=("project", "global")[number % 2])
    writer.care.index()
    left, rewritten = -1, 0

    def traced(cursor: apsw.Cursor, _: str, __: object) -> bool:
        nonlocal left, rewritten
        left -= 1
        if left == 0 and cursor.connection.txn_state("main") != apsw.SQLITE_TXN_WRITE:
            rewritten += 1
            # In turns, so that a number that became free is not taken again by the same text.
            writer.note("The heron leaves the pond.", scope=("project", "global")[rewritten % 2])
            writer.care.index()
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = traced

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, hook])
    reader = opened(tmp_path, "monday")
    reader.search("heron")
    for statement in range(1, 40):
        left = statement
        answer = reader.search("heron pond", min_score=0.0 if statement % 2 else None)
        left = -1
        assert answer.results, statement
        assert answer.degraded == (), statement
    assert rewritten > 10
    for each in (reader, writer):
        each.care.searcher.close()


# --- reading is reading -------------------------------------------------------------------------------------


def state(path: Path) -> list[tuple[int, int, bytes]]:
    found = []
    for ending in ("", "-wal"):
        file = Path(f"{path}{ending}")
        if file.exists():
            found.append((file.stat().st_mtime_ns, file.stat().st_size, file.read_bytes()))
    return found


def test_a_search_that_finds_nothing_changed_writes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    memory = opened(tmp_path, "monday")
    for number in range(20):
        memory.store(f"The heron {number} stands in the pond.", key=f"heron-{number}")
    memory.care.index()
    memory.care.searcher.close()
    written: list[str] = []

    def traced(cursor: apsw.Cursor, sql: str, _: object) -> bool:
        # How often things are used is counted elsewhere, in `state.db`.
        if not cursor.is_readonly and not cursor.connection.filename.endswith("state.db"):
            written.append(sql)
        return True

    def hook(connection: apsw.Connection) -> None:
        connection.exec_trace = traced

    monkeypatch.setattr(apsw, "connection_hooks", [*apsw.connection_hooks, hook])
    reader = opened(tmp_path, "monday")
    reader.search("heron")  # the first look sets the connection up
    del written[:]
    before = state(reader.care.searcher.path)
    for mode in ("hybrid", "bm25", "vector", "metadata"):
        for text in ("heron", "pond heron 7", "tag:none", "", "nothing of the kind"):
            reader.search(text, mode=mode)
            reader.recall(text)
    assert written == []
    assert state(reader.care.searcher.path) == before
    cold = opened(tmp_path, "monday")
    cold.search("heron")
    assert [sql for sql in written if not sql.lstrip().lower().startswith("pragma")] == []
    assert state(reader.care.searcher.path) == before
    for each in (reader, cold):
        each.care.searcher.close()


@pytest.mark.full
def test_the_log_stays_small_while_a_reader_stays_open(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    reader, writer = opened(tmp_path, "monday"), opened(tmp_path, "monday")
    for number in range(60):
        writer.store("The heron stands in the pond. " * 300 + str(number), key=f"heron-{number % 20}")
        writer.care.index()
        reader.search("heron")
    log = Path(f"{reader.care.searcher.path}-wal")
    assert log.stat().st_size <= LARGEST_LOG
    for each in (reader, writer):
        each.care.searcher.close()


if __name__ == "__main__":
    ground, act, *numbers = sys.argv[1:]
    given = [int(each) for each in numbers]
    print(json.dumps(write(Path(ground), *given) if act == "write" else read(Path(ground), *given)))
