"""What the store needs of whatever keeps it: one suite, run over every backend there is."""

from __future__ import annotations

import threading
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from in_memory_backend import InMemoryBackend
from vademecum.config import Dedup
from vademecum.errors import Locked, Malformed, NotFound, OutsideMemory
from vademecum.store import archive, audit
from vademecum.store.catalogue import Catalogue
from vademecum.store.files import Disk
from vademecum.store.home import Home
from vademecum.store.journal import Day, Journal
from vademecum.store.merge import Draft
from vademecum.store.records import Records
from vademecum.store.scopes import Caller
from vademecum.text import filenames
from vademecum.types import Change, Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from vademecum.store.backend import Backend, Directory


@pytest.fixture(params=["files", "memory"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return Disk(tmp_path / "home") if request.param == "files" else InMemoryBackend()


@pytest.fixture
def folder(backend: Backend) -> Directory:
    return backend.open("a", "b", create=True)


def put(content: bytes) -> Callable[[bytes | None], bytes]:
    return lambda _: content


def test_a_directory_is_there_once_it_was_made(backend: Backend) -> None:
    with pytest.raises(FileNotFoundError):
        backend.open("a", "b")
    backend.open("a", "b", create=True).close()
    with backend.open("a") as above:
        assert above.names() == ["b"]


def test_names_are_sorted_and_lead_nowhere_else(folder: Directory) -> None:
    for name in ("b.md", "a.md"):
        folder.create(name, b"x")
    assert folder.names() == ["a.md", "b.md"]
    for name in ("..", "", "a/b", "\0"):
        with pytest.raises(OutsideMemory):
            folder.read(name)


def test_what_is_not_there_is_nothing(folder: Directory) -> None:
    assert folder.read("a.md") is None
    assert folder.stat("a.md") is None
    assert folder.remove("a.md", lambda _: None) is None
    with pytest.raises(FileNotFoundError):
        folder.reader("a.md")


def test_an_update_says_what_was_there(folder: Directory) -> None:
    assert folder.update("a.md", put(b"one")) == (None, b"one")
    assert folder.update("a.md", lambda now: (now or b"") + b" two") == (b"one", b"one two")
    assert not folder.update("a.md", put(b"one two")).changed
    assert folder.read("a.md") == b"one two"


def test_an_update_is_made_again_on_top_of_what_a_person_saved_meanwhile(
    backend: Backend, folder: Directory, tmp_path: Path
) -> None:
    folder.create("a.md", b"first\n")
    seen: list[bytes | None] = []

    def add(now: bytes | None) -> bytes:
        if not seen:  # a person saves between our look and our write
            if isinstance(backend, InMemoryBackend):
                backend.save(("a", "b", "a.md"), b"first\ntheirs\n")
            else:
                (tmp_path / "home" / "a" / "b" / "a.md").write_bytes(b"first\ntheirs\n")
        seen.append(now)
        return (now or b"") + b"ours\n"

    folder.update("a.md", add)
    assert seen == [b"first\n", b"first\ntheirs\n"]
    assert folder.read("a.md") == b"first\ntheirs\nours\n"


def test_a_change_that_cannot_be_made_leaves_everything_as_it_was(folder: Directory) -> None:
    folder.create("a.md", b"one")

    def fail(_: bytes | None) -> bytes:
        raise Malformed("no")

    with pytest.raises(Malformed):
        folder.update("a.md", fail)
    assert folder.read("a.md") == b"one"
    assert folder.names() == ["a.md"]


def test_what_exists_is_not_created_again(folder: Directory) -> None:
    folder.create("a.md", b"one")
    with pytest.raises(FileExistsError):
        folder.create("a.md", b"two")
    assert folder.read("a.md") == b"one"


def test_what_is_removed_is_kept_elsewhere_first(folder: Directory) -> None:
    folder.create("a.md", b"one")
    kept: list[bytes] = []
    assert folder.remove("a.md", kept.append) == b"one"
    assert kept == [b"one"]
    assert folder.names() == []


def test_what_cannot_be_kept_is_not_removed(folder: Directory) -> None:
    folder.create("a.md", b"one")

    def fail(_: bytes) -> None:
        raise OSError("no room")

    with pytest.raises(OSError, match="no room"):
        folder.remove("a.md", fail)
    assert folder.read("a.md") == b"one"


def test_a_log_grows_by_whole_lines_and_a_stump_is_closed_off(folder: Directory) -> None:
    assert folder.append_line("log", b"one") == 4
    folder.update("log", lambda now: (now or b"") + b"stu")
    pen = folder.pen("log")
    assert pen.end() == 7
    assert pen.write(b"two", sync=False) == 12
    pen.close()
    with folder.reader("log") as log:
        assert [*log] == [b"one\n", b"stu\n", b"two\n"]


def test_a_content_that_is_too_long_is_neither_read_nor_written(folder: Directory) -> None:
    folder.create("a.md", b"12345")
    with pytest.raises(Malformed):
        folder.read("a.md", largest=4)


def test_what_is_known_of_each_name_changes_with_its_content(folder: Directory) -> None:
    folder.create("a.md", b"one")
    folder.create("b.txt", b"")
    before = dict(folder.scan(lambda name: name.endswith(".md")))
    assert [*before] == ["a.md"]
    folder.update("a.md", put(b"three"))
    after = folder.stat("a.md")
    assert after is not None
    assert (before["a.md"].st_size, after.st_size) == (3, 5)
    assert (before["a.md"].st_ino, before["a.md"].st_mtime_ns) != (after.st_ino, after.st_mtime_ns)


def test_one_at_a_time_holds_a_lock(backend: Backend) -> None:
    with backend.open("locks", create=True) as mine, mine.lock("thing", seconds=1):
        told: list[str] = []

        def wait() -> None:
            with backend.open("locks") as theirs:
                try:
                    with theirs.lock("thing", seconds=0.05):
                        told.append("held")
                except Locked:
                    told.append("locked")
                with theirs.lock("another", seconds=1):
                    told.append("another")

        other = threading.Thread(target=wait)
        other.start()
        other.join()
        assert told == ["locked", "another"]
    with backend.open("locks") as again, again.lock("thing", seconds=1):
        pass


def test_a_watch_tells_of_a_change_or_that_anything_may_have_changed(
    backend: Backend, folder: Directory
) -> None:
    watch = backend.watch()
    watch.cover([folder.path])
    watch.look()
    folder.create("a.md", b"one")
    seen = watch.look()
    assert seen.anything or (folder.path, "a.md") in seen.names


# -------------------------------------------------------------------- the store on top of it

CALLER = Caller(agent="robin", origin=Origin.USER, actor="person")
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


@pytest.fixture
def home(backend: Backend, tmp_path: Path) -> Home:
    # What is kept in no folder has a path that leads nowhere.
    kept = backend if isinstance(backend, InMemoryBackend) else None
    return Home(tmp_path / ("home" if kept is None else "nowhere"), backend=kept)


def test_records_are_stored_forgotten_and_restored_wherever_they_are_kept(home: Home) -> None:
    told: list[Change] = []
    records = Records(home, CALLER, lambda: NOW, told.append, Catalogue(home))
    first = Draft("The port is 8080.", wanted="port")
    stored = records.store(first, scope=Scope.GLOBAL, key="port", dedup=Dedup())
    records.store(first._replace(text="It is open."), scope=Scope.GLOBAL, key="port", dedup=Dedup())
    found = records.find("port")
    assert [entry.text for entry in found.record.entries] == ["The port is 8080.", "It is open."]
    assert records.find(str(stored.num)).record.key == "port"

    image = records.forget(found)
    with pytest.raises(NotFound, match="no record 'port'"):
        records.find("port")
    assert archive.images(home, found.scope_folder, filenames.RECORDS, "port.md") == [image]

    restored = records.restore(found.scope_folder, found.name, image)
    assert restored.entries == found.record.entries
    report = audit.verify(home)
    assert (report.lines, report.problems) == (4, ())
    assert len(told) == 4
    assert not (home.path.name == "nowhere" and home.path.exists())


def test_a_text_without_a_key_finds_what_says_the_same_wherever_it_is_kept(home: Home) -> None:
    records = Records(home, CALLER, lambda: NOW, lambda _: None, Catalogue(home))
    first = records.store(Draft("The port is 8080."), scope=Scope.GLOBAL, key=None, dedup=Dedup())
    again = records.store(Draft("The port is 8080!"), scope=Scope.GLOBAL, key=None, dedup=Dedup())
    assert again.key == first.key


def test_notes_are_kept_wherever_records_are(home: Home) -> None:
    journal = Journal(home, CALLER, lambda: NOW, lambda _: None)
    journal.note("The tests pass.", scope=Scope.GLOBAL)
    journal.note("They still do.", scope=Scope.GLOBAL)
    (day,) = journal.days([Place(Scope.GLOBAL)])
    assert isinstance(day, Day)
    assert [entry.text for entry in day.entries] == ["The tests pass.", "They still do."]
