"""A purged text is gone from what people wrote; what gives a file its meaning stays."""

from __future__ import annotations

import errno
import json
import os
import stat
import subprocess
import sys
import time
import tracemalloc
from typing import TYPE_CHECKING, Any

import pytest

from allowing import SCRIPT, allow
from vademecum.errors import StorageFailed, UsageError
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


def opened(base: Path, origin: Origin = Origin.USER, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", origin=origin, **given)


@pytest.mark.parametrize(
    "wanted",
    ["origin: agent", "agent", "<!-- origin: agent | id: ", "superseded", "## 20", "num: ", "type", "id:"],
)
def test_a_text_that_only_stands_in_structure_changes_nothing_and_is_reported(
    tmp_path: Path, wanted: str
) -> None:
    agent = opened(tmp_path, Origin.AGENT)
    agent.store("first words", key="topic")
    agent.store("second words", key="topic", mode="replace")
    path = tmp_path / "home" / agent.show("topic").path
    before = path.read_bytes()
    found = opened(tmp_path).archive.purge_text(wanted)
    assert path.read_bytes() == before
    assert [each.gone for each in found if each.where.endswith("records/topic.md")] == [False]


def test_a_text_across_two_entries_goes_and_the_entries_stay(tmp_path: Path) -> None:
    opened(tmp_path, Origin.AGENT).store("first\nCANARY one", key="topic")
    memory = opened(tmp_path)
    memory.store("CANARY two\nlast", key="topic")
    source = (tmp_path / "home" / memory.show("topic").path).read_text()
    memory.archive.purge_text(source[source.index("CANARY one") : source.index("\nlast")])
    entries = memory.show("topic").entries
    assert [(each.text, each.origin) for each in entries] == [
        ("first\n[purged]", Origin.AGENT),
        ("[purged]\nlast", Origin.USER),
    ]


def test_signatures_of_a_pinned_document_stay(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    text = "# One\nagent words\n<!-- origin: agent -->\n\n# Two\nmore agent words\n<!-- origin: agent -->\n"
    memory.care.edited("MEMORY.md", "", text, scope="global")
    memory.archive.purge_text("agent")
    now = (tmp_path / "home" / "memory" / "global" / "MEMORY.md").read_text()
    assert now.count("<!-- origin: agent -->") == 2
    assert "[purged] words" in now
    assert "more [purged] words" in now


def test_titles_tags_and_a_persons_own_labels_are_cleaned(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("words", key="topic", tags=["CANARY", "kept"])
    path = tmp_path / "home" / memory.show("topic").path
    path.write_text(path.read_text().replace("title: Topic", "title: CANARY bird\nmine: a CANARY"))
    found = memory.archive.purge_text("CANARY")
    assert "CANARY" not in path.read_text()
    assert all(each.gone for each in found)
    record = memory.show("topic")
    assert (record.title, record.tags) == ("[purged] bird", ("[purged]", "kept"))


def test_decisions_and_settings_are_reported_and_stay(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    (tmp_path / "work" / ".git").mkdir()
    memory = opened(tmp_path)
    memory.projects.init()
    found = memory.archive.purge_text("path")
    assert opened(tmp_path).status().trusted is True
    assert [each.gone for each in found if each.where.startswith("decisions/trusted/")] == [False]


def test_a_file_that_cannot_be_read_is_cleaned_byte_by_byte(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    records = tmp_path / "home" / "memory" / "global" / "records"
    records.mkdir(parents=True)
    (records / "torn.md").write_bytes(b"---\nno: [end\n---\n\xff CAN\xc3\x84RY \xff\n")
    memory.archive.purge_text("CANÄRY")
    assert (records / "torn.md").read_bytes() == b"---\nno: [end\n---\n\xff [purged] \xff\n"


def test_a_proof_names_every_file_whose_bytes_still_hold_the_text(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("A CANARY sings.", key="bird")
    odd = tmp_path / "home" / "notes.bin"
    odd.write_bytes(b"x" * ((1 << 20) - 3) + b"CANARY" + b"y" * 10 + json.dumps("CANARY").encode())
    found = memory.archive.purge_text("CANARY", prove=True)
    assert [(each.where, each.count) for each in found.remains] == [("notes.bin", 2)]
    odd.unlink()
    assert memory.archive.purge_text("CANARY", prove=True).remains == ()


def test_a_purge_that_leaves_the_text_somewhere_ends_with_three_and_names_the_place(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("VADE_HOME", str(allow(tmp_path / "home")))
    monkeypatch.setenv("VADE_SCRIPT", SCRIPT)
    memory = opened(tmp_path)
    memory.store("A CANARY sings.", key="canary-bird")
    memory.store("A robin sings.", key="robin")
    assert run(["purge", "--text", "robin sings", "--yes"]) == 0
    assert run(["purge", "--text", "CANARY", "--yes"]) == 3
    assert "NOT deleted: memory/project" in capsys.readouterr().out


@pytest.mark.parametrize("wanted", ["a", "id", " x ", "purged"])
def test_a_text_too_short_to_mean_anything_is_refused(tmp_path: Path, wanted: str) -> None:
    with pytest.raises(UsageError):
        opened(tmp_path).archive.purge_text(wanted)


# --- logs ---------------------------------------------------------------------------------------------------


def log_of(base: Path, lines: int, size: int) -> Path:
    path = base / "home" / "transcripts" / "p" / "s.jsonl"
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as file:
        for number in range(lines):
            said = f"CANARY {number} " if number % 7 == 0 else f"words {number} "
            part = {"type": "text", "text": said + "x" * size}
            message = {"role": "user", "parts": [part]}
            file.write(json.dumps({"seq": number + 1, "kind": "message", "message": message}) + "\n")
    path.chmod(0o600)
    return path


def test_a_long_transcript_is_rewritten_in_little_memory(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    path = log_of(tmp_path, 700, 40_000)
    assert path.stat().st_size > 28_000_000
    before = path.read_bytes().splitlines()
    tracemalloc.start()
    found = memory.archive.purge_text("CANARY")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 6_000_000
    assert [(each.where, each.count, each.gone) for each in found] == [("transcripts/p/s.jsonl", 100, True)]
    after = path.read_bytes().splitlines()
    assert [line for number, line in enumerate(after) if number % 7] == [
        line for number, line in enumerate(before) if number % 7
    ]
    assert b"CANARY" not in path.read_bytes()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [each.name for each in path.parent.iterdir()] == ["s.jsonl"]


def test_a_rewrite_that_fails_leaves_the_transcript_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)
    path = log_of(tmp_path, 50, 10)
    before = path.read_bytes()

    def full(_fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as broken:
        broken.setattr("vademecum.store.purge.os.fsync", full)
        with pytest.raises(StorageFailed):
            memory.archive.purge_text("CANARY")
    assert path.read_bytes() == before
    assert [each.name for each in path.parent.iterdir()] == ["s.jsonl"]
    memory.archive.purge_text("CANARY")
    assert b"CANARY" not in path.read_bytes()


def test_what_a_person_writes_into_a_log_meanwhile_is_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = opened(tmp_path)
    path = log_of(tmp_path, 50, 10)
    real = os.fsync
    calls: list[int] = []

    def meanwhile(fd: int) -> None:
        real(fd)
        if not calls:
            calls.append(fd)
            with path.open("a") as file:
                file.write('{"seq": 51, "kind": "renamed", "name": "the CANARY of a person"}\n')

    with monkeypatch.context() as slow:
        slow.setattr("vademecum.store.purge.os.fsync", meanwhile)
        memory.archive.purge_text("CANARY")
    assert calls
    lines = path.read_text().splitlines()
    assert len(lines) == 51
    assert "the [purged] of a person" in lines[-1]
    assert "CANARY" not in path.read_text()


def test_killed_at_any_time_a_purge_leaves_the_old_transcript_or_the_new_one(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    path = log_of(tmp_path, 400, 4_000)
    old = path.read_bytes()
    memory.archive.purge_text("CANARY")
    new = path.read_bytes()
    code = (
        "import sys; from pathlib import Path; from vademecum.memory import connect; print(flush=True);"
        "base = Path(sys.argv[1]); connect(home=base / 'home', cwd=base / 'work', origin='user')"
        ".purge_text('CANARY')"
    )
    for delay in (0.0, 0.05, 0.1, 0.15, 0.2, 0.3):
        path.write_bytes(old)
        command = [sys.executable, "-c", code, str(tmp_path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE) as running:
            assert running.stdout is not None
            running.stdout.readline()
            time.sleep(delay)
            running.kill()
        assert path.read_bytes() in (old, new)
    opened(tmp_path).archive.purge_text("CANARY")
    assert path.read_bytes() == new
    assert [each.name for each in path.parent.iterdir()] == ["s.jsonl"]


def test_every_index_goes_with_a_purge_that_of_the_sessions_too(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("a CANARY bird", key="topic")
    index = tmp_path / "home" / "index"
    index.mkdir(exist_ok=True)
    for name in ("main.sessions.db", "main.sessions.db-wal", "other.db", "other.sessions.db"):
        (index / name).write_bytes(b"CANARY")
    memory.archive.purge_text("CANARY")
    assert not [each.name for each in index.iterdir() if b"CANARY" in each.read_bytes()]
    assert not (index / "other.sessions.db").exists()
