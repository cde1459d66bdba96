"""No damage to a page of the index passes for an answer, and its log does not grow without end."""

from __future__ import annotations

import contextlib
import random
import shutil
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

from vademecum.index import pages
from vademecum.index.pages import PAGE, RESERVED
from vademecum.index.sqlite import VERSION, SqliteIndex
from vademecum.memory import Memory, connect
from vademecum.types import Origin

DAMAGED = (apsw.CorruptError, apsw.NotADBError)
BIRDS = "heron stork owl bittern kite wren grebe".split()


def opened(base: Path) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(
        home=base / "home", cwd=base / "work", environ={"VADE_EMBEDDER": "local"}, origin=Origin.USER
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """An index of some pages, all of it in one file."""
    base = tmp_path_factory.mktemp("whole")
    vault = base / "vault"
    vault.mkdir()
    for number in range(60):
        bird = BIRDS[number % 7]
        (vault / f"{number}.md").write_text(
            f"# {bird}\n\n" + f"The {bird} number {number} stands still. " * 60
        )
    memory = opened(base)
    memory.sources.add(vault)
    memory.care.index(rebuild=True)
    path = memory.care.searcher.path
    memory.close()
    with contextlib.closing(pages.connect(str(path))) as connection:
        connection.execute("vacuum; pragma wal_checkpoint(truncate)").fetchall()
        assert connection.execute("pragma freelist_count").fetchone() == (0,)
    content = path.read_bytes()
    assert len(content) > 20 * PAGE
    assert len(content) % PAGE == 0
    return content


@pytest.fixture
def path(tmp_path: Path, whole: bytes) -> Path:
    made = tmp_path / "index.db"
    made.write_bytes(whole)
    return made


def read_all(path: Path) -> list[Any]:
    """Read every page there is."""
    with contextlib.closing(pages.connect(str(path))) as connection:
        return connection.execute("pragma integrity_check").fetchall()


def test_an_undamaged_file_is_read_and_keeps_eight_bytes_of_each_page(path: Path, whole: bytes) -> None:
    assert whole[20] == RESERVED == 8
    assert int.from_bytes(whole[16:18], "big") == PAGE
    assert read_all(path) == [("ok",)]


def test_a_flipped_byte_in_any_page_is_noticed(path: Path, whole: bytes) -> None:
    chance = random.Random(7)
    pages_there = len(whole) // PAGE
    places = [page * PAGE + chance.randrange(PAGE) for page in range(pages_there) for _ in range(2)]
    places += [
        page * PAGE + PAGE - RESERVED + chance.randrange(RESERVED) for page in range(0, pages_there, 5)
    ]
    with path.open("r+b") as file:
        for place in places:
            file.seek(place)
            file.write(bytes([whole[place] ^ chance.randrange(1, 256)]))
            file.flush()
            with pytest.raises(DAMAGED):
                read_all(path)
            file.seek(place)
            file.write(whole[place : place + 1])
            file.flush()
    assert read_all(path) == [("ok",)]


def test_a_flipped_bit_anywhere_in_the_header_is_noticed(path: Path, whole: bytes) -> None:
    """The header also says how large a page is, and so what there is to compare."""
    passed = []
    with path.open("r+b") as file:
        for place in range(100):
            for bit in range(8):
                file.seek(place)
                file.write(bytes([whole[place] ^ 1 << bit]))
                file.flush()
                try:
                    read_all(path)
                except DAMAGED:
                    continue
                except apsw.Error as error:
                    passed.append((place, bit, str(error)))
                else:
                    passed.append((place, bit, "believed"))
            file.seek(place)
            file.write(whole[place : place + 1])
            file.flush()
    assert passed == []


@pytest.mark.parametrize("size", [512, 1024, 2048, 8192, 16384, 32768, 65536])
def test_an_index_that_says_its_pages_have_another_size_is_made_anew(tmp_path: Path, size: int) -> None:
    memory = opened(tmp_path)
    memory.store("The heron stands in the pond.", key="heron")
    memory.store("The stork came by at noon.", key="stork")
    memory.search("heron")
    path = memory.care.searcher.path
    memory.close()
    content = bytearray(path.read_bytes())
    content[16:18] = (size if size < 65536 else 1).to_bytes(2, "big")
    path.write_bytes(content)
    with opened(tmp_path) as again:
        answer = again.search("heron pond")
        assert [each.key for each in answer.results if each.match == "strong"] == ["heron"]
        assert any("will be rebuilt" in said for said in answer.degraded)
        assert again.search("stork").results[0].key == "stork"
        assert again.care.searcher._file.open().check() == []


def test_two_pages_that_changed_places_are_noticed(path: Path, whole: bytes) -> None:
    chance = random.Random(3)
    for _ in range(30):
        one, other = chance.sample(range(len(whole) // PAGE), 2)
        content = bytearray(whole)
        content[one * PAGE : (one + 1) * PAGE] = whole[other * PAGE : (other + 1) * PAGE]
        content[other * PAGE : (other + 1) * PAGE] = whole[one * PAGE : (one + 1) * PAGE]
        path.write_bytes(content)
        with pytest.raises(DAMAGED):
            read_all(path)


def test_a_page_that_stands_twice_or_holds_nothing_is_noticed(path: Path, whole: bytes) -> None:
    chance = random.Random(4)
    for _ in range(15):
        one, other = chance.sample(range(1, len(whole) // PAGE), 2)
        for put in (whole[one * PAGE : (one + 1) * PAGE], bytes(PAGE), b"\xff" * PAGE):
            content = bytearray(whole)
            content[other * PAGE : (other + 1) * PAGE] = put
            path.write_bytes(content)
            with pytest.raises(DAMAGED):
                read_all(path)


def test_a_file_cut_at_any_page_is_noticed(path: Path, whole: bytes) -> None:
    for kept in range(1, len(whole) // PAGE, 3):
        path.write_bytes(whole[: kept * PAGE])
        try:
            assert read_all(path) != [("ok",)]
        except DAMAGED:
            continue


def test_damage_under_an_open_connection_is_noticed_at_the_next_read_of_the_page(
    path: Path, whole: bytes
) -> None:
    with contextlib.closing(pages.connect(str(path))) as connection:
        connection.execute("pragma cache_size = 1").fetchall()
        connection.execute("select count(*) from files").fetchall()
        with path.open("r+b") as file:
            for page in range(1, len(whole) // PAGE):
                file.seek(page * PAGE + 100)
                file.write(bytes([whole[page * PAGE + 100] ^ 1]))
        with pytest.raises(DAMAGED):
            connection.execute("pragma integrity_check").fetchall()


def without_checksums(path: Path) -> None:
    """An index as SQLite alone would make it, with all its tables and rows."""
    plain = path.with_name("plain.db")
    with contextlib.closing(apsw.Connection(str(path))) as old:
        old.execute("pragma wal_checkpoint(truncate)").fetchall()
    with contextlib.closing(apsw.Connection(str(plain))) as made:
        made.execute("create table chunks(id integer primary key, body text)")
        made.execute("insert into chunks values(1, 'The heron is a lie.')")
        made.execute(f"pragma user_version = {VERSION}")
    shutil.move(plain, path)


def checksums_gone(path: Path) -> None:
    """The right tables and rows, put in order by a tool that knows of no checksums."""
    with contextlib.closing(apsw.Connection(str(path))) as plain:
        plain.execute("pragma journal_mode = delete; vacuum").fetchall()


@pytest.mark.parametrize("make", [without_checksums, checksums_gone], ids=lambda each: str(each.__name__))
def test_an_index_without_checksums_is_made_anew(tmp_path: Path, make: Any) -> None:
    memory = opened(tmp_path)
    memory.store("The heron stands in the pond.", key="heron")
    memory.search("heron")
    path = memory.care.searcher.path
    memory.close()
    make(path)
    with opened(tmp_path) as again:
        answer = again.search("heron")
        assert [each.key for each in answer.results if each.match == "strong"] == ["heron"]
        assert any("will be rebuilt" in said for said in answer.degraded)
        assert again.search("heron").degraded == ()
    assert path.read_bytes()[20] == RESERVED
    assert read_all(path) == [("ok",)]


def test_every_page_of_an_index_that_was_used_has_its_checksum(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for number in range(30):
        memory.store("The heron stands in the pond. " * 20 + str(number), key=f"heron-{number % 10}")
        memory.search("heron")
    path = memory.care.searcher.path
    memory.close()
    with contextlib.closing(pages.connect(str(path))) as connection:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    content = path.read_bytes()
    for at in range(0, len(content), PAGE):
        body = content[at : at + PAGE - RESERVED]
        assert content[at + PAGE - RESERVED : at + PAGE] == pages._sum(body, at), at // PAGE + 1


# --- the log ------------------------------------------------------------------------------------------------


@pytest.fixture
def short_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "LOG", 50)


def fill(connection: apsw.Connection, rounds: int) -> None:
    for number in range(rounds):
        connection.execute("insert or replace into meta values(?, ?)", (f"{number % 50}", "x" * 20_000))


@pytest.mark.full
@pytest.mark.usefixtures("short_log")
def test_the_log_stays_bounded_while_readers_look_for_a_moment_at_a_time(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    writer = SqliteIndex(path)
    done = threading.Event()
    seen: list[int] = []

    def look() -> None:
        reader = SqliteIndex(path)
        while not done.is_set():
            with reader:
                seen.append(reader.stats().chunks)
                time.sleep(0.005)
        reader.close()

    thread = threading.Thread(target=look)
    thread.start()
    try:
        fill(writer._connection, 400)
    finally:
        done.set()
        thread.join()
    assert len(seen) > 3
    assert Path(f"{path}-wal").stat().st_size < 10 * 50 * PAGE  # they write some 2,400 pages
    writer.close()


@pytest.mark.usefixtures("short_log")
def test_a_reader_that_stays_keeps_its_view_and_costs_a_writer_a_moment_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "LOG_WAIT_MS", 10)
    path = tmp_path / "x.db"
    writer, reader = SqliteIndex(path), SqliteIndex(path)
    writer.put(settings={"said": "before"})
    begun = time.monotonic()
    with reader:
        assert reader.stats().settings["said"] == "before"
        writer.put(settings={"said": "after"})
        fill(writer._connection, 60)
        assert reader.stats().settings["said"] == "before"
        reader._settings = None  # what is read again is what it was
        assert reader.stats().settings["said"] == "before"
    assert time.monotonic() - begun < 30  # a writer that waits for the reader waits for ever
    assert reader.stats().settings["said"] == "after"
    fill(writer._connection, 60)
    largest = Path(f"{path}-wal").stat().st_size
    fill(writer._connection, 300)
    assert Path(f"{path}-wal").stat().st_size <= largest  # begun anew from its start
    busy = writer._value("pragma busy_timeout")
    assert busy == pages.BUSY_MS
    for each in (writer, reader):
        each.close()


def test_an_index_is_its_owners_alone(tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path / "main.db")
    index.put(settings={"a": "b"})
    modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    index.close()
    assert modes
    assert set(modes.values()) == {0o600}
