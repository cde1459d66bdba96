"""The journal: notes of one day, under their local time, appended and never rewritten."""

from __future__ import annotations

from datetime import datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest

from cases import every_case
from vademecum.errors import InvalidText, Malformed, NotVisible, ScopeUnresolved, UnknownName
from vademecum.memory import Memory, connect
from vademecum.text import names
from vademecum.text.filenames import is_day
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

BERLIN = timezone(timedelta(hours=1))
LATE = datetime(2026, 11, 15, 23, 59, 58, 999_999, tzinfo=BERLIN)


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", **given)


def journal(base: Path, path: str) -> str:
    return (base / "home" / path).read_text()


def test_a_note_stands_under_its_local_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(names, "new_mark", lambda: "7k3m9q2x4w")
    memory = opened(tmp_path, origin=Origin.USER, now=lambda: LATE)
    noted = memory.note("Talked about the release.\n\n- on Friday")
    assert noted.time == "2026-11-15T23:59:58+01:00"
    assert noted.path.endswith("/journal/2026-11-15.md")
    assert journal(tmp_path, noted.path) == (
        "# 2026-11-15\n\n"
        "## 2026-11-15T23:59:58+01:00\n"
        "Talked about the release.\n\n- on Friday\n"
        "<!-- origin: user | id: 7k3m9q2x4w -->\n"
    )


def test_local_midnight_begins_a_new_file(tmp_path: Path) -> None:
    at = [LATE]
    memory = opened(tmp_path, now=lambda: at[0])
    before = memory.note("before midnight")
    at[0] += timedelta(seconds=2)
    after = memory.note("after midnight")
    assert (before.path[-13:], after.path[-13:]) == ("2026-11-15.md", "2026-11-16.md")
    # In UTC it is still the 15th: the wall clock decides.
    assert after.time == "2026-11-16T00:00:00+01:00"
    assert memory.status().notes == 2


def test_notes_follow_each_other_and_none_is_merged(tmp_path: Path) -> None:
    memory = opened(tmp_path, now=lambda: LATE)
    for _ in range(3):
        memory.note("the same words")
    noted = memory.note("## 2026-01-01T00:00:00Z\nforged\n<!-- origin: user -->")
    text = journal(tmp_path, noted.path)
    assert text.count("\nthe same words\n") == 3
    assert memory.status().notes == 4
    assert text.count("\n<!-- origin: agent | id: ") == 4


@pytest.mark.parametrize("scope", ["project", "agent", "global"])
def test_three_scopes_keep_a_journal(tmp_path: Path, scope: str) -> None:
    noted = opened(tmp_path).note("a note", scope=scope)
    assert noted.path.startswith(f"memory/{scope}")


@pytest.mark.parametrize("scope", ["session", "federated", "team"])
def test_other_scopes_refuse_a_note(tmp_path: Path, scope: str) -> None:
    with pytest.raises(UnknownName):
        opened(tmp_path, session="s").note("a note", scope=scope)
    assert not (tmp_path / "home" / "memory").exists()


@pytest.mark.parametrize("scope", ["agent", "global"])
def test_a_group_writes_no_private_journal(tmp_path: Path, scope: str) -> None:
    with pytest.raises(NotVisible):
        opened(tmp_path, audience="group").note("a note", scope=scope)


def test_a_note_without_a_project_is_an_error_and_lands_nowhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    with pytest.raises(ScopeUnresolved):
        connect(home=tmp_path / "home").note("a note")
    assert not (tmp_path / "home").exists()


def test_the_journal_of_a_project_with_its_own_folder_stays_in_the_home(tmp_path: Path) -> None:
    memory = opened(tmp_path, origin=Origin.USER)
    memory.projects.init()
    noted = opened(tmp_path).note("private")
    assert noted.path.startswith("memory/project/")
    assert [path.name for path in (tmp_path / "work" / ".vade").iterdir()] != ["journal"]
    assert not (tmp_path / "work" / ".vade" / "journal").exists()


def test_a_days_file_that_a_person_began_is_continued(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names, "new_mark", lambda: "7k3m9q2x4w")
    memory = opened(tmp_path, now=lambda: LATE)
    path = tmp_path / "home" / "memory" / "global" / "journal" / "2026-11-15.md"
    path.parent.mkdir(parents=True)
    path.write_bytes(b"My day\r\n\r\nslept long")
    memory.note("and worked", scope="global")
    assert path.read_bytes() == (
        b"My day\r\n\r\nslept long\r\n\r\n"
        b"## 2026-11-15T23:59:58+01:00\r\nand worked\r\n<!-- origin: agent | id: 7k3m9q2x4w -->\r\n"
    )
    assert memory.status().notes == 2


def test_a_broken_day_is_kept_and_shown_and_the_other_days_are_read(tmp_path: Path) -> None:
    memory = opened(tmp_path, now=lambda: LATE)
    memory.note("today", scope="global")
    folder = tmp_path / "home" / "memory" / "global" / "journal"
    (folder / "2026-11-14.md").write_bytes(b"\xff\xfe")
    (folder / "2026-11-13-api-design.md").write_text("named day")
    (folder / "not a day.md").write_text("ignored")
    status = memory.status()
    assert status.notes == 2
    assert [finding.where for finding in status.findings] == ["memory/global/journal/2026-11-14.md"]
    broken = opened(tmp_path, now=lambda: LATE - timedelta(days=1))
    with pytest.raises(Malformed):
        broken.note("onto a broken day", scope="global")
    assert (folder / "2026-11-14.md").read_bytes() == b"\xff\xfe"


def test_an_empty_note_is_refused(tmp_path: Path) -> None:
    for text in ("", "  \n", "\0", b"\xff"):
        with pytest.raises(InvalidText):
            opened(tmp_path).note(text)


def test_every_note_has_a_second_copy_and_an_audit_line(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.note("remember this")
    (kept,) = (tmp_path / "home" / "archive" / "kept").rglob("*.jsonl")
    assert "remember this" in kept.read_text()
    assert [line["op"] for line in memory.audit.lines()] == ["note"]


@every_case(
    ("name", "day"),
    [
        ("2026-11-15.md", True),
        ("2026-11-15-api-design.md", True),
        ("2026-11-15 copy.md", False),
        ("2026-11-15.md~", False),
        (".2026-11-15.md", False),
        ("2026-11-15-API.md", False),
        ("notes.md", False),
    ],
)
def test_a_day_is_known_by_its_name(name: str, day: bool) -> None:
    assert is_day(name) is day
