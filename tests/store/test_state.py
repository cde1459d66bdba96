"""Counts and kept vectors: shared by processes, bounded, and worth nothing to anyone who waits."""

from __future__ import annotations

import contextlib
import json
import os
import stat
import subprocess
import sys
import tempfile
import threading
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.store import state as state_module
from vademecum.store.home import Home
from vademecum.store.state import VERSION, State, Use

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

NOON = datetime(2026, 11, 15, 12, 0, 0, tzinfo=UTC)
HANG = 30  # seconds
RECORD = "memory/project/x/records/y.md"
MODEL = "openai:some-model:0123456789ab:1"


def minutes(number: float) -> datetime:
    return NOON + timedelta(minutes=number)


def hash_of(number: int) -> bytes:
    return number.to_bytes(32, "big")


def kept(state: State, numbers: range, identity: str = MODEL) -> set[int]:
    """Which are there, as another reader sees it: without being taken for a use."""
    with contextlib.closing(apsw.Connection(state.path)) as connection:
        rows = connection.execute(
            "select hash from vectors where identity = ?", (state_module._model(identity),)
        )
        found = {int.from_bytes(row[0], "big") for row in rows}
    return found & set(numbers)


def total(state: State) -> tuple[int, int]:
    """The sum of the bytes as it is booked, and as it is."""
    with contextlib.closing(apsw.Connection(state.path)) as connection:
        booked = connection.execute("select value from totals where name = 'bytes'").fetchone()
        real = connection.execute("select coalesce(sum(length(vector)), 0) from blobs").fetchone()
    assert booked is not None
    assert real is not None
    return booked[0], real[0]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    return Home(tmp_path / "home")


@pytest.fixture
def state(home: Home) -> Iterator[State]:
    with contextlib.closing(State(home)) as made:
        yield made


# Counting.


def test_a_use_is_counted_at_most_once_a_minute(state: State) -> None:
    for moment in (0, 0.5, 0.99):
        state.used([RECORD, RECORD, "/abs/notes.md"], at=minutes(moment))
    assert state.uses([RECORD]) == {RECORD: Use(1, NOON)}
    state.used([RECORD], at=minutes(1))
    assert state.uses([RECORD, "/abs/notes.md", "never"]) == {
        RECORD: Use(2, minutes(1)),
        "/abs/notes.md": Use(1, NOON),
    }


def test_another_process_counts_in_the_same_minute(home: Home, state: State) -> None:
    other = State(home)
    state.used([RECORD], at=NOON)
    other.used([RECORD], at=minutes(0.5))
    other.used([RECORD], at=minutes(1.5))
    state.used([RECORD], at=minutes(2))
    assert state.uses([RECORD]) == other.uses([RECORD]) == {RECORD: Use(2, minutes(1.5))}
    other.close()


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 1), st.sampled_from("abc"), st.integers(0, 300)), max_size=25))
def test_counts_are_those_of_a_clock_that_rings_once_a_minute(uses: list[tuple[int, str, int]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        states = [State(Home(Path(scratch))), State(Home(Path(scratch)))]
        expected: dict[str, list[int]] = {}
        for which, item, second in sorted(uses, key=lambda each: each[2]):
            states[which].used([item], at=NOON + timedelta(seconds=second))
            rings = expected.setdefault(item, [])
            if not rings or second - rings[-1] >= 60:
                rings.append(second)
        wanted = {
            item: Use(len(rings), NOON + timedelta(seconds=rings[-1])) for item, rings in expected.items()
        }
        assert states[0].uses("abc") == states[1].uses("abc") == wanted
        for each in states:
            each.close()


def test_a_clock_that_was_wrong_once_does_not_stop_the_count(home: Home) -> None:
    for moment in (NOON + timedelta(days=9000), NOON, minutes(2)):
        with contextlib.closing(State(home)) as state:
            state.used([RECORD], at=moment)
    assert State(home).uses([RECORD]) == {RECORD: Use(3, minutes(2))}


@pytest.mark.parametrize("item", ["", "a\0b", "\ud800", "日本語", "'; drop table uses; --", "x" * 100_000])
def test_any_id_can_be_counted(state: State, item: str) -> None:
    state.used([item], at=NOON)
    assert state.uses([item, "other"]) == {item: Use(1, NOON)}


def test_a_thousand_ids_and_a_time_that_is_none(state: State) -> None:
    items = [f"item {number}" for number in range(1200)]
    state.used(items, at=NOON)
    assert set(state.uses(items)) == set(items)
    state.used(["early"], at=datetime.min)
    assert state.uses(["early"]) == {}


def test_what_cannot_be_counted_now_is_counted_the_next_time(state: State, home: Home) -> None:
    state.used(["first"], at=NOON)
    with contextlib.closing(apsw.Connection(state.path)) as other:
        other.execute("begin immediate")
        state.used(["second"], at=minutes(1))
        assert state.uses(["first", "second"]) == {"first": Use(1, NOON)}
        other.execute("rollback")
    state.used(["third"], at=minutes(3))
    assert state.uses(["second", "third"]) == {"second": Use(1, minutes(1)), "third": Use(1, minutes(3))}


def test_closing_writes_what_waits(home: Home) -> None:
    state = State(home)
    state.used(["first"], at=NOON)
    with contextlib.closing(apsw.Connection(state.path)) as other:
        other.execute("begin immediate")
        state.used(["second"], at=NOON)
        other.execute("rollback")
    state.close()
    assert State(home).uses(["second"]) == {"second": Use(1, NOON)}


def test_what_waits_does_not_grow_without_end(state: State, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(state_module, "MAX_WAITING", 50)
    state.used(["first"], at=NOON)
    with contextlib.closing(apsw.Connection(state.path)) as other:
        other.execute("begin immediate")
        for number in range(5):
            state.used([f"{number}-{each}" for each in range(100)], at=NOON)
        other.execute("rollback")
    assert len(state._waiting) <= 100
    assert len(state._counted) <= 50


def test_a_locked_database_holds_nobody_up(state: State) -> None:
    state.used([RECORD], at=NOON)
    state.keep(MODEL, [(hash_of(1), b"one")], largest=1000)
    with contextlib.closing(apsw.Connection(state.path)) as other:
        other.execute("begin immediate; insert into uses values(x'00', 1, 1)")
        for number in range(1, 4):
            state.used([RECORD], at=minutes(number))
            assert state._connection is not None
            waits = state_module._value(state._connection, "pragma busy_timeout")
            assert waits == state_module.BRIEFLY * 1000 <= 500
            assert state.uses([RECORD]) == {RECORD: Use(1, NOON)}
            assert state.vectors(MODEL, [hash_of(1)]) == {hash_of(1): b"one"}
        other.execute("rollback")


def test_a_thread_that_keeps_holds_nobody_up(state: State) -> None:
    state.used([RECORD], at=NOON)
    with state._lock:  # as a long transaction of another thread would
        thread = threading.Thread(target=state.used, args=([RECORD],), kwargs={"at": minutes(5)}, daemon=True)
        thread.start()
        thread.join(HANG)
        assert not thread.is_alive()
    state.used([], at=minutes(5))
    assert state.uses([RECORD]) == {RECORD: Use(2, minutes(5))}


# Vectors.


def test_a_vector_is_found_by_its_model_and_its_hash(state: State) -> None:
    state.keep(MODEL, [(hash_of(1), b"one"), (hash_of(2), b"two")], largest=1000)
    state.keep("another", [(hash_of(1), b"eins")], largest=1000)
    wanted = [hash_of(number) for number in (2, 1, 3)]
    assert state.vectors(MODEL, wanted) == {hash_of(1): b"one", hash_of(2): b"two"}
    assert state.vectors("another", wanted) == {hash_of(1): b"eins"}
    assert state.vectors("a third", wanted) == {}
    assert (state.length(MODEL), state.length("another"), state.length("a third")) == (3, 4, None)


def test_another_length_is_not_taken(state: State) -> None:
    state.keep(MODEL, [(hash_of(1), b"one"), (hash_of(2), b"three")], largest=1000)
    state.keep(MODEL, [(hash_of(3), b"three"), (hash_of(4), b"two")], largest=1000)
    assert kept(state, range(9)) == {1, 4}
    assert total(state) == (6, 6)


def test_what_was_not_used_for_longest_goes_first(state: State) -> None:
    for number in range(10):
        state.keep(MODEL, [(hash_of(number), bytes(100))], largest=1000)
    assert len(state.vectors(MODEL, [hash_of(number) for number in (0, 3)])) == 2
    state.keep(MODEL, [(hash_of(10), bytes(100))], largest=1000)
    assert kept(state, range(20)) == {0, 3, 4, 5, 6, 7, 8, 9, 10}
    state.keep(MODEL, [(hash_of(4), bytes(100))], largest=1000)  # made again: used again
    state.keep(MODEL, [(hash_of(11), bytes(100)), (hash_of(12), bytes(100))], largest=1000)
    assert kept(state, range(20)) == {0, 3, 4, 7, 8, 9, 10, 11, 12}


def test_looking_again_writes_nothing(state: State) -> None:
    state.keep(MODEL, [(hash_of(1), b"one")], largest=1000)
    state.vectors(MODEL, [hash_of(1)])
    with contextlib.closing(apsw.Connection(state.path)) as other:
        before = other.execute("pragma data_version").fetchall()
        for _ in range(3):
            state.vectors(MODEL, [hash_of(1), hash_of(2)])
            state.length(MODEL)
        assert other.execute("pragma data_version").fetchall() == before


@settings(max_examples=40, deadline=None)
@given(
    st.lists(
        st.tuples(st.booleans(), st.lists(st.integers(0, 30), min_size=1, max_size=8, unique=True)),
        max_size=25,
    ),
    st.integers(0, 12),
)
def test_the_cache_stays_in_its_bounds_and_drops_as_one_by_the_book(
    calls: list[tuple[bool, list[int]]], room: int
) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        state = State(Home(Path(scratch)))
        book: dict[int, tuple[int, int]] = {}  # number: after which keeping it was used, when it came
        clock = came = 0
        for keeping, numbers in calls:
            if not keeping:
                found = state.vectors(MODEL, [hash_of(number) for number in numbers])
                assert found == {hash_of(each): bytes([each] * 10) for each in numbers if each in book}
                book |= {each: (clock + 1, book[each][1]) for each in numbers if each in book}
                continue
            rows = [(hash_of(number), bytes([number] * 10)) for number in numbers]
            state.keep(MODEL, rows, largest=room * 10)
            clock += 2
            for number in numbers:
                came += 1
                book[number] = (clock, book.get(number, (0, came))[1])
            if len(book) > room:
                for number in sorted(book, key=lambda each: book[each])[: len(book) - room * 9 // 10]:
                    del book[number]
            assert kept(state, range(99)) == set(book)
            assert total(state) == (len(book) * 10, len(book) * 10)
        state.close()


def test_a_smaller_bound_is_kept_at_the_next_vector_and_none_keeps_none(state: State) -> None:
    state.keep(MODEL, [(hash_of(number), bytes(100)) for number in range(100)], largest=10_000)
    assert total(state) == (10_000, 10_000)
    state.keep(MODEL, [(hash_of(100), bytes(100))], largest=1000)
    assert total(state) == (900, 900)
    assert kept(state, range(200)) == set(range(92, 101))
    state.keep(MODEL, [(hash_of(101), bytes(100))], largest=0)
    assert total(state) == (0, 0)


def test_the_file_is_hardly_larger_than_what_it_keeps(state: State) -> None:
    largest = 2_000_000
    for start in range(0, 4000, 64):
        rows = [(hash_of(number), os.urandom(3076)) for number in range(start, start + 64)]
        state.keep(MODEL, rows, largest=largest)
    with contextlib.closing(apsw.Connection(state.path)) as other:
        other.execute("pragma wal_checkpoint(truncate)").fetchall()
    assert os.path.getsize(state.path) < largest * 1.6


# The file.


def test_nothing_is_touched_or_imported_before_it_is_needed(tmp_path: Path) -> None:
    code = """
import sys, os, pathlib
from vademecum.store.home import Home
from vademecum.store.state import State
state = State(Home(pathlib.Path(sys.argv[1])))
assert state.uses(["a"]) == {} and state.vectors("m", [b"h"]) == {} and state.length("m") is None
state.close()
assert "apsw" not in sys.modules
assert not os.path.exists(sys.argv[1])
"""
    subprocess.run([sys.executable, "-c", code, tmp_path / "none"], check=True)


def test_file_and_home_are_their_owners_alone(home: Home, state: State) -> None:
    before = os.umask(0)
    try:
        state.used([RECORD], at=NOON)
    finally:
        os.umask(before)
    assert stat.S_IMODE(os.stat(home.path).st_mode) == 0o700
    names = [name for name in os.listdir(home.path) if name.startswith("state.db")]
    assert "state.db-wal" in names
    assert {stat.S_IMODE(os.stat(home.path / name).st_mode) for name in names} == {0o600}
    assert os.listdir(home.path / "locks") == []


@pytest.mark.parametrize("names", [["state.db"], ["state.db", "state.db-wal", "state.db-shm"]])
def test_a_deleted_file_is_begun_anew_while_it_is_open(home: Home, state: State, names: list[str]) -> None:
    other = State(home)
    for each in (state, other):
        each.used([RECORD], at=NOON)
        each.keep(MODEL, [(hash_of(1), b"one")], largest=1000)
    for name in names:
        os.unlink(home.path / name)
    assert state.uses([RECORD]) == {}
    assert state.vectors(MODEL, [hash_of(1)]) == {}
    state.used([RECORD], at=minutes(5))
    other.keep(MODEL, [(hash_of(2), b"two")], largest=1000)
    state.close()
    for each in (other, State(home)):
        assert each.uses([RECORD]) == {RECORD: Use(1, minutes(5))}
        assert each.vectors(MODEL, [hash_of(1), hash_of(2)]) == {hash_of(2): b"two"}
        each.close()


def damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "garbage":
        path.write_bytes(b"not a database at all\n" * 1000)
    elif how == "cut":
        path.write_bytes(content[: len(content) // 2])
    elif how == "middle":
        path.write_bytes(content[:200] + b"\xff" * (len(content) - 200))
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "other":
        path.unlink()
        with contextlib.closing(apsw.Connection(str(path))) as other:
            other.execute("create table uses(a); pragma user_version = 1")
    elif how == "half-made":
        path.unlink()
        with contextlib.closing(apsw.Connection(str(path))) as other:
            other.execute("create table uses(a)")


@pytest.mark.parametrize("how", ["garbage", "cut", "middle", "empty", "other", "half-made"])
def test_a_damaged_file_is_begun_anew(home: Home, how: str) -> None:
    first = State(home)
    first.used([f"item {number}" for number in range(500)], at=NOON)
    first.keep(MODEL, [(hash_of(number), bytes(500)) for number in range(200)], largest=10**6)
    first.close()
    with contextlib.closing(apsw.Connection(first.path)) as other:
        other.execute("pragma wal_checkpoint(truncate)").fetchall()
    damage(home.path / "state.db", how)
    state = State(home)
    state.uses([RECORD])
    state.vectors(MODEL, [hash_of(number) for number in range(200)])
    state.used([RECORD], at=NOON)
    state.keep(MODEL, [(hash_of(1000), bytes(500))], largest=10**6)
    assert state.uses([RECORD]) == {RECORD: Use(1, NOON)}
    assert state.vectors(MODEL, [hash_of(1000)]) == {hash_of(1000): bytes(500)}
    state.close()


@settings(max_examples=40, deadline=None)
@given(st.lists(st.tuples(st.floats(0, 0.999), st.binary(min_size=1, max_size=40)), min_size=1, max_size=6))
def test_no_damage_is_ever_raised(scars: list[tuple[float, bytes]]) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        home = Home(Path(scratch))
        first = State(home)
        first.used([f"item {number}" for number in range(100)], at=NOON)
        first.keep(MODEL, [(hash_of(number), bytes(300)) for number in range(40)], largest=10**6)
        first.close()
        for name in ("state.db", "state.db-wal"):
            content = bytearray((home.path / name).read_bytes())
            for where, scar in scars:
                at = int(where * len(content))
                content[at : at + len(scar)] = scar
            (home.path / name).write_bytes(content)
        state = State(home)
        for number in range(2):
            state.uses([f"item {each}" for each in range(100)])
            state.vectors(MODEL, [hash_of(each) for each in range(40)])
            state.length(MODEL)
            state.used(["new"], at=minutes(number * 5))
            state.keep(MODEL, [(hash_of(99), bytes(300))], largest=2000)
        state.close()


def test_a_newer_file_is_left_alone_and_unused(home: Home, state: State) -> None:
    state.used([RECORD], at=NOON)
    with contextlib.closing(apsw.Connection(state.path)) as other:
        other.execute(f"pragma user_version = {VERSION + 1}; pragma wal_checkpoint(truncate)").fetchall()
    state.close()
    before = (home.path / "state.db").read_bytes()
    newer = State(home)
    newer.used([RECORD], at=minutes(5))
    newer.keep(MODEL, [(hash_of(1), b"one")], largest=1000)
    assert newer.uses([RECORD]) == {}
    assert newer.vectors(MODEL, [hash_of(1)]) == {}
    newer.close()
    assert (home.path / "state.db").read_bytes() == before


def test_what_was_learned_of_a_model_is_kept_and_lost_with_the_file(home: Home, state: State) -> None:
    assert state.ratio("sonnet") is None
    assert not (home.path / "state.db").exists()
    state.learned("sonnet", 3.25)
    state.learned("opus", 2.5)
    state.learned("sonnet", 3.5)
    state.close()
    assert (State(home).ratio("sonnet"), State(home).ratio("opus")) == (3.5, 2.5)
    (home.path / "state.db").unlink()
    assert State(home).ratio("sonnet") is None


def test_a_file_of_another_version_is_made_anew(home: Home, state: State) -> None:
    state.used([RECORD], at=NOON)
    state.close()
    with contextlib.closing(apsw.Connection(state.path)) as older:
        older.execute("drop table ratios; pragma user_version = 1")
    again = State(home)
    assert again.uses([RECORD]) == {}
    again.learned("sonnet", 3.25)
    assert again.ratio("sonnet") == 3.25


def test_a_link_is_not_followed(home: Home, tmp_path: Path) -> None:
    elsewhere = State(Home(tmp_path / "elsewhere"))
    elsewhere.used([RECORD], at=NOON)
    elsewhere.close()
    os.mkdir(home.path)
    os.symlink(elsewhere.path, home.path / "state.db")
    state = State(home)
    state.used([RECORD], at=minutes(5))
    assert state.uses([RECORD]) == {}
    assert elsewhere.uses([RECORD]) == {RECORD: Use(1, NOON)}


def test_a_home_behind_a_link_is_a_home(tmp_path: Path) -> None:
    os.mkdir(tmp_path / "real")
    os.symlink(tmp_path / "real", tmp_path / "link")
    with contextlib.closing(State(Home(tmp_path / "link"))) as state:
        state.used([RECORD], at=NOON)
        assert state.uses([RECORD]) == {RECORD: Use(1, NOON)}


# Other processes.

WORLD = """
import json, os, pathlib, resource, sys, time
from datetime import UTC, datetime, timedelta
import apsw
from vademecum.store.home import Home
from vademecum.store.state import State
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
state = State(Home(pathlib.Path(sys.argv[1])))
"""


def run(code: str, home: Home, *more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", WORLD + code, str(home.path), *more],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def test_a_home_that_cannot_be_written_is_read_and_nothing_raised(home: Home, state: State) -> None:
    state.used([RECORD], at=NOON)
    state.keep(MODEL, [(hash_of(1), b"one")], largest=1000)
    # Another user may look, and not touch; root may everything, so the child gives that up.
    for name in ("state.db", "state.db-wal", "state.db-shm"):
        os.chmod(home.path / name, 0o444)
    os.chmod(home.path, 0o555)
    code = f"""
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
before = state.uses([{RECORD!r}])
state.used([{RECORD!r}], at=NOON + timedelta(minutes=9))
state.keep({MODEL!r}, [(b"h", b"two")], largest=1000)
state.close()
found = state.vectors({MODEL!r}, [bytes(31) + b"\\1"])
print(json.dumps([len(before), state.uses([{RECORD!r}]) == before, len(found)]))
"""
    modes = {each: stat.S_IMODE(os.stat(each).st_mode) for each in home.path.parents}
    modes = {each: mode for each, mode in modes.items() if os.geteuid() == 0 and not mode & 1}
    try:
        for each, mode in modes.items():
            os.chmod(each, mode | 0o001)
        done = run(code, home)
    finally:
        for each, mode in modes.items():
            os.chmod(each, mode)
        os.chmod(home.path, 0o700)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == [1, True, 1]


def test_a_full_disk_is_nobodys_concern(home: Home, state: State) -> None:
    state.used([RECORD], at=NOON)
    code = f"""
resource.setrlimit(resource.RLIMIT_FSIZE, (40_000, 40_000))
for number in range(1, 5):
    state.used([f"{{each}}" * 50 for each in range(500)], at=NOON + timedelta(minutes=number * 2))
    state.keep({MODEL!r}, [(os.urandom(32), os.urandom(3000)) for _ in range(100)], largest=10**9)
assert state.uses([{RECORD!r}])
"""
    done = run(code, home)
    assert done.returncode == 0, done.stderr
    state.used([RECORD], at=minutes(5))
    assert state.uses([RECORD]) == {RECORD: Use(2, minutes(5))}


@pytest.mark.full
def test_eight_processes_begin_and_use_one_database_at_once(home: Home) -> None:
    code = """
import random
number, start = int(sys.argv[2]), float(sys.argv[3])
chance = random.Random(number)
time.sleep(max(0, start - time.time()))
for turn in range(60):
    now = NOON + timedelta(seconds=turn * 2)
    state.used(["shared", f"own {number}"], at=now)
    state.uses(["shared", f"own {number}"])
    texts = [bytes([each]) * 32 for each in range(turn % 20, turn % 20 + 16)]
    had = state.vectors("model", texts)
    assert all(vector == each[:1] * 3000 for each, vector in had.items())
    state.keep("model", [(each, each[:1] * 3000) for each in texts if each not in had], largest=60_000)
    time.sleep(chance.random() * 0.01)
state.close()
"""
    start = str(time.time() + 1.5)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", WORLD + code, str(home.path), str(number), start],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(8)
    ]
    for process in processes:
        _, errors = process.communicate(timeout=60)
        assert process.returncode == 0, errors
    # Not quite two minutes have passed for each.
    with contextlib.closing(State(home)) as state:
        uses = state.uses(["shared", *(f"own {number}" for number in range(8))])
        assert set(uses) == {"shared", *(f"own {number}" for number in range(8))}
        assert all(1 <= use.count <= 2 for use in uses.values())
        booked, real = total(state)
    assert booked == real <= 60_000
