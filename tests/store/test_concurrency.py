"""Many processes, one memory, and a person at an editor: nothing that was typed or acknowledged is lost.

Every scene plays in a process of its own that forks its actors; this file, run as a script, is that process.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import Conflict, Locked, Malformed, NotFound, PendingReview, PersonsText, VadeError
from vademecum.memory import Memory, connect
from vademecum.store import files, folders
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.store.folders import Folder

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

SEED = 20261115


def play(scene: str, **given: Any) -> dict[str, Any]:
    """Run one scene in a clean process and return what it saw."""
    ran = subprocess.run(
        [sys.executable, __file__, scene, json.dumps(given, default=str)],
        capture_output=True,
        text=True,
        timeout=1800,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    seen: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
    return seen


def percentile(times: list[float], share: float) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * share))]


def report(capsys: pytest.CaptureFixture[str], what: str, seen: dict[str, Any]) -> None:
    with capsys.disabled():
        fast, slow = percentile(seen["times"], 0.5) * 1000, percentile(seen["times"], 0.99) * 1000
        rate = len(seen["times"]) / seen["seconds"]
        print(f"\n{what}: {len(seen['times'])} writes, p50 {fast:.1f} ms, p99 {slow:.1f} ms, {rate:.0f}/s")


# --- actors -------------------------------------------------------------------------------------------------


def fork(act: Callable[[], object]) -> tuple[int, int]:
    """Start an actor; returns its process id and a pipe that carries what it returns, as JSON."""
    reading, writing = os.pipe()
    pid = os.fork()
    if pid:
        os.close(writing)
        return pid, reading
    code = 1
    try:
        os.close(reading)
        content = json.dumps(act()).encode()
        while content:
            content = content[os.write(writing, content) :]
        code = 0
    except BaseException as error:
        os.write(2, f"{type(error).__name__}: {error}\n".encode())
    os._exit(code)


def joined(actors: list[tuple[int, int]]) -> list[Any]:
    """Wait for all actors; what each returned."""
    returned = []
    for pid, reading in actors:
        with open(reading, "rb") as pipe:
            content = pipe.read()
        _, status = os.waitpid(pid, 0)
        if status:
            raise SystemExit(f"an actor failed with {status}")
        returned.append(json.loads(content))
    return returned


def timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def opened(home: str, **given: Any) -> Memory:
    return connect(home=home, cwd=os.path.dirname(home), **given)


# --- R5: no lost update -------------------------------------------------------------------------------------


def scene_appends(home: str, writers: int, each: int, kind: str, planted: bool = False) -> dict[str, Any]:
    """Writers that all add to the same file."""
    if planted:
        no_lock_and_plain_replace()
    memory = opened(home)

    def write(writer: int) -> list[float]:
        times = []
        for number in range(each):
            text = f"writer {writer} entry {number} of many"
            keep = partial(memory.note, text) if kind == "note" else partial(memory.store, text, key="shared")
            times.append(timed(keep))
        return times

    begun = time.perf_counter()
    times = [one for many in joined([fork(partial(write, n)) for n in range(writers)]) for one in many]
    seconds = time.perf_counter() - begun
    return {"times": times, "seconds": seconds}


def no_lock_and_plain_replace() -> None:
    """The planted bug: nobody waits for anybody, and what is there is overwritten."""

    @contextlib.contextmanager
    def unlocked(folder: Folder, thing: str, *, seconds: float) -> Iterator[None]:
        yield

    def plain(
        folder: Folder,
        name: str,
        change: Callable[[bytes | None], bytes],
        *,
        mode: int = 0o600,
        largest: int = files.LARGEST,
    ) -> files.Written:
        before = files.read(folder, name)
        after = change(before)
        aside = f"{name}.{os.getpid()}"
        fd = folder.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        os.write(fd, after)
        os.close(fd)
        folder.rename(aside, name)
        return files.Written(before, after)

    folders.hold_lock = unlocked
    files.update = plain


def present(home: Path, kind: str) -> list[str]:
    memory = connect(home=home, cwd=home.parent)
    if kind == "note":
        texts = []
        for path in sorted(home.glob("memory/project/*/journal/*.md")):
            texts += re.findall(r"^writer \d+ entry \d+ of many$", path.read_text(), re.MULTILINE)
        return texts
    return [entry.text for entry in memory.show("shared").entries]


def expected(writers: int, each: int) -> list[str]:
    return sorted(
        f"writer {writer} entry {number} of many" for writer in range(writers) for number in range(each)
    )


def in_order(texts: list[str], writers: int) -> bool:
    """Whether each writer's own entries stand in the order in which they were written."""
    return all(
        numbers == sorted(numbers)
        for writer in range(writers)
        for numbers in [[int(text.split()[3]) for text in texts if text.startswith(f"writer {writer} ")]]
    )


@pytest.mark.parametrize(
    ("writers", "each"),
    # Without the lock, 8 x 25 lose entries already (below); a record that grows makes each more cost more.
    [
        (16, 6),
        pytest.param(16, 25, marks=pytest.mark.full),
        pytest.param(16, 500, marks=pytest.mark.soak),
    ],
    ids=["16 x 6", "16 x 25", "16 x 500"],
)
@pytest.mark.parametrize("kind", ["store", "note"])
def test_every_append_of_sixteen_processes_is_there(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kind: str, writers: int, each: int
) -> None:
    each = each if kind == "store" else each // 2
    home = tmp_path / "home"
    seen = play("appends", home=home, writers=writers, each=each, kind=kind)
    texts = present(home, kind)
    assert sorted(texts) == expected(writers, each)
    assert in_order(texts, writers)
    report(capsys, f"R5 {kind} by {writers} processes", seen)
    memory = connect(home=home, cwd=tmp_path)
    assert memory.audit.verify().problems == ()
    assert memory.audit.verify().lines == writers * each
    assert list(home.glob("locks/*")) == []
    assert not list(home.rglob(".vade-*"))
    if kind == "store":
        assert memory.archive.lost_entries("shared") == []


@pytest.mark.full
def test_without_the_lock_the_harness_sees_entries_lost(tmp_path: Path) -> None:
    home = tmp_path / "home"
    play("appends", home=home, writers=8, each=25, kind="store", planted=True)
    texts = present(home, "store")
    assert 0 < len(texts) < 8 * 25


def scene_duplicates(home: str, writers: int, each: int) -> dict[str, Any]:
    memory = opened(home)

    def write(writer: int) -> list[str]:
        outcomes = []
        for number in range(each):
            words = "The deployment of the billing service runs every Tuesday at nine in the morning"
            marks = "!" * (writer * each + number + 1)  # each its own wording of one statement
            outcomes.append(str(memory.store(f"{words}{marks}").outcome))
        return outcomes

    outcomes = [one for many in joined([fork(partial(write, n)) for n in range(writers)]) for one in many]
    return {"outcomes": outcomes}


@pytest.mark.full
def test_near_duplicates_from_sixteen_processes_meet_in_one_record(tmp_path: Path) -> None:
    seen = play("duplicates", home=tmp_path / "home", writers=16, each=3)
    memory = connect(home=tmp_path / "home", cwd=tmp_path)
    records = memory.list().records
    assert len(records) == 1
    assert sorted(set(seen["outcomes"])) == ["consolidated", "created"]
    assert seen["outcomes"].count("created") == 1
    assert len(records[0].entries) == 48
    assert len(records[0].live) == 1


# --- numbers ------------------------------------------------------------------------------------------------


def scene_numbers(home: str, writers: int, each: int) -> dict[str, Any]:
    memory = opened(home, origin=Origin.USER)

    def write(writer: int) -> list[int | None]:
        given = []
        for number in range(each):
            given.append(memory.store(f"{writer} {number}", key=f"key-{writer}-{number}").num)
            if number % 3 == 0:
                memory.forget(f"key-{writer}-{number}")
            if number % 7 == 0:
                memory.archive.purge(f"key-{writer}-{number}")
        return given

    return {
        "nums": [one for many in joined([fork(partial(write, n)) for n in range(writers)]) for one in many]
    }


@pytest.mark.parametrize(("writers", "each"), [(4, 8), pytest.param(8, 20, marks=pytest.mark.full)])
def test_a_number_is_never_given_twice(tmp_path: Path, writers: int, each: int) -> None:
    home = tmp_path / "home"
    nums = play("numbers", home=home, writers=writers, each=each)["nums"]
    given = writers * each
    assert sorted(nums) == list(range(1, given + 1))
    (home / "last-number").unlink()
    memory = connect(home=home, cwd=tmp_path, origin=Origin.USER)
    assert memory.store("one more", key="one-more").num == given + 1
    memory.archive.purge("one-more")
    (home / "last-number").unlink()
    assert memory.store("and another", key="another").num == given + 2
    (home / "last-number").write_text("not a number\n")
    assert memory.store("a third", key="third").num == given + 3


# --- R6: a person's edit is never overwritten ---------------------------------------------------------------


def save(path: Path, text: str, way: str, rng: random.Random) -> None:
    """Save a buffer the way some editor does."""
    content = text.encode()
    if way == "truncate":
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        nap(rng)
        for at in range(0, len(content), 97) or [0]:
            os.write(fd, content[at : at + 97])
            if rng.random() < 0.2:
                nap(rng)
        os.close(fd)
    elif way == "rename":
        aside = path.with_name(f"{path.name}.{os.getpid()}~")
        aside.write_bytes(content)
        nap(rng)
        os.replace(aside, path)
    else:
        with contextlib.suppress(FileNotFoundError):
            path.unlink()
        nap(rng)
        fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        os.write(fd, content)
        os.close(fd)


def nap(rng: random.Random) -> None:
    pause = rng.choice((0, 0, 0, 0.0002, 0.001, 0.003))
    if pause:
        time.sleep(pause)


def scene_editing(home: str, rounds: int, seed: int, planted: bool = False) -> dict[str, Any]:
    """A person edits a file by hand while others write to it; which lines are nowhere?

    Every other writer speaks for the person too, as commands in another terminal do; an agent may not
    replace or forget what the person has typed by then.
    """
    if planted:
        plain_update()
    lost: list[str] = []
    typed = 0
    for number in range(rounds):
        rng = random.Random(f"{seed} {number}")
        key = f"topic-{number}"
        opened(home).store(f"start of {number}", key=key, scope="global")
        memory = opened(home, origin=Origin.AGENT if number % 2 else Origin.USER)
        path = Path(home, "memory", "global", "records", f"{key}.md")
        buffer = path.read_text()  # opened before the writer may forget it
        person = fork(partial(edit_by_hand, path, buffer, number, random.Random(rng.random())))
        writer = fork(partial(write_by_door, memory, key, number, random.Random(rng.random())))
        lines = [line for lines in joined([person, writer]) for line in lines]
        typed += len(lines)
        found = everything(Path(home), key)
        lost += [f"round {number}: {line}" for line in lines if line.encode() not in found]
    return {"typed": typed, "lost": lost}


def edit_by_hand(path: Path, buffer: str, number: int, rng: random.Random) -> list[str]:
    typed: list[str] = []
    way = rng.choice(("truncate", "rename", "recreate"))
    for step in range(3):
        nap(rng)
        if rng.random() < 0.5:  # reload before typing; else go on in the stale buffer
            with contextlib.suppress(FileNotFoundError):
                fresh = path.read_text()
                # No editor drops what was typed in it because the file is empty or away for a moment.
                buffer = fresh if all(line in fresh for line in typed) else buffer
        line = f"person {number}-{step} typed this line"
        buffer = buffer.rstrip("\n") + f"\n\n{line}\n"
        save(path, buffer, way, rng)
        typed.append(line)
    return typed


def write_by_door(memory: Memory, key: str, number: int, rng: random.Random) -> list[str]:
    written = []
    for step in range(3):
        nap(rng)
        line = f"writer {number}-{step} wrote this line"
        act = rng.choice(("append", "append", "replace", "forget"))
        # What could not be done was not acknowledged.
        with contextlib.suppress(NotFound, Malformed, Conflict, PendingReview, PersonsText):
            if act == "forget":
                memory.forget(key, scope="global")
            else:
                memory.store(line, key=key, scope="global", mode=act)
                written.append(line)
    return written


def everything(home: Path, key: str) -> bytes:
    """Every byte kept of a record: its file, conflict files, versions and the second copy of entries."""
    found = b""
    for top in ("memory", "archive"):
        for path in (home / top).rglob("*"):
            if path.is_file() and key in str(path):
                found += path.read_bytes() + b"\n"
    return found


def plain_update() -> None:
    """The planted bug: read, then replace; a save in between is gone, and nothing is kept twice."""

    def update(
        folder: Folder,
        name: str,
        change: Callable[[bytes | None], bytes],
        *,
        mode: int = 0o600,
        largest: int = files.LARGEST,
    ) -> files.Written:
        before = files.read(folder, name)
        after = change(before)
        time.sleep(0.002)  # what staging and syncing cost
        aside = f".{name}.{os.getpid()}"
        fd = folder.open(aside, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, mode)
        os.write(fd, after)
        os.close(fd)
        folder.rename(aside, name)
        return files.Written(before, after)

    files.update = update


@pytest.mark.full
@pytest.mark.parametrize("part", range(2))
def test_no_line_is_lost_while_a_person_edits_by_hand(tmp_path: Path, part: int) -> None:
    seen = play("editing", home=tmp_path / "home", rounds=125, seed=SEED + part)
    assert seen["typed"] > 125 * 4
    assert seen["lost"] == []


@pytest.mark.soak
@pytest.mark.parametrize("part", range(4))
def test_no_line_is_lost_in_a_thousand_more_editing_rounds(tmp_path: Path, part: int) -> None:
    seed = random.randrange(1 << 30)
    seen = play("editing", home=tmp_path / "home", rounds=250, seed=seed)
    assert seen["lost"] == [], seed


@pytest.mark.full
def test_with_a_plain_replace_the_harness_sees_lines_lost(tmp_path: Path) -> None:
    seen = play("editing", home=tmp_path / "home", rounds=60, seed=SEED, planted=True)
    assert seen["lost"]


# --- R6, step by step: a save at each moment of a write -----------------------------------------------------


class Person:
    """A person who saves by rename whenever asked to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.typed: list[str] = []

    def save(self, line: str, *, buffer: str | None = None) -> None:
        text = self.path.read_text() if buffer is None else buffer
        aside = self.path.with_name("aside~")
        aside.write_text(text.rstrip("\n") + f"\n\n{line}\n")
        aside.replace(self.path)
        self.typed.append(line)


@pytest.fixture
def person(tmp_path: Path) -> Person:
    connect(home=tmp_path / "home", cwd=tmp_path).store("begin", key="topic", scope="global")
    return Person(tmp_path / "home" / "memory" / "global" / "records" / "topic.md")


def before_exchange(monkeypatch: pytest.MonkeyPatch, *acts: Callable[[], None]) -> None:
    """Do these things just before the first, second … exchange of the record's file."""
    from vademecum.store.folders import Folder

    waiting = list(acts)
    real = Folder.exchange

    def exchange(self: Folder, one: str, other: str) -> bool:
        if waiting and other == "topic.md":
            waiting.pop(0)()
        return real(self, one, other)

    monkeypatch.setattr(Folder, "exchange", exchange)


def kept_of(person: Person) -> bytes:
    return everything(person.path.parents[3], "topic")


def test_a_save_just_before_our_write_stays_in_the_file(
    tmp_path: Path, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_exchange(monkeypatch, lambda: person.save("typed in between"))
    connect(home=tmp_path / "home", cwd=tmp_path).store("ours", key="topic", scope="global")
    text = person.path.read_text()
    assert "typed in between" in text
    assert "ours" in text


def test_two_saves_during_one_write_are_both_kept(
    tmp_path: Path, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    before_exchange(
        monkeypatch,
        lambda: person.save("typed first"),
        lambda: person.save("typed second"),  # in an editor that reloaded while the first was displaced
    )
    connect(home=tmp_path / "home", cwd=tmp_path).store("ours", key="topic", scope="global")
    found = kept_of(person)
    assert [line for line in (b"typed first", b"typed second", b"ours") if line not in found] == []


def test_a_save_during_an_edit_is_a_conflict_and_both_texts_are_kept(
    tmp_path: Path, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = connect(home=tmp_path / "home", cwd=tmp_path, origin=Origin.USER)
    _, text = memory.care.editable("topic", scope="global")
    before_exchange(monkeypatch, lambda: person.save("typed in between"))
    with pytest.raises(Conflict):
        memory.care.edited("topic", text, text.replace("begin", "begun anew"), scope="global")
    assert "typed in between" in person.path.read_text()
    assert b"begun anew" in kept_of(person)


def test_a_save_during_a_restore_is_kept(
    tmp_path: Path, person: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = connect(home=tmp_path / "home", cwd=tmp_path, origin=Origin.USER)
    memory.store("later", key="topic", scope="global", mode="replace")
    version = memory.archive.versions("topic", scope="global")[0]
    before_exchange(monkeypatch, lambda: person.save("typed in between"))
    memory.restore(version.id, scope="global")
    assert b"typed in between" in kept_of(person)


def test_a_save_during_a_pinned_edit_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from vademecum.store.folders import Folder

    memory = connect(home=tmp_path / "home", cwd=tmp_path, origin=Origin.USER)
    memory.care.edited("MEMORY.md", "", "first text", scope="global")
    path = tmp_path / "home" / "memory" / "global" / "MEMORY.md"
    _, before = memory.care.editable("MEMORY.md", scope="global")
    real = Folder.exchange
    saves = [lambda: path.write_text(before + "typed in between\n")]

    def exchange(self: Folder, one: str, other: str) -> bool:
        if saves and other == "MEMORY.md":
            saves.pop()()
        return real(self, one, other)

    monkeypatch.setattr(Folder, "exchange", exchange)
    with contextlib.suppress(Conflict):
        memory.care.edited("MEMORY.md", before, before.replace("first", "second"), scope="global")
    found = b"".join(each.read_bytes() for each in (tmp_path / "home").rglob("*") if each.is_file())
    assert b"typed in between" in found
    assert b"second text" in found


def test_entries_that_a_stale_buffer_took_out_are_seen_and_come_back(tmp_path: Path, person: Person) -> None:
    memory = connect(home=tmp_path / "home", cwd=tmp_path)
    stale = person.path.read_text()
    memory.store("ours, acknowledged", key="topic", scope="global")
    person.save("typed on top of an old buffer", buffer=stale)
    assert "ours, acknowledged" in [entry.text for entry in memory.archive.lost_entries("topic")]
    assert [finding.what for finding in memory.status().findings] == ["edited"]
    memory.restore("topic", scope="global")
    text = person.path.read_text()
    assert "ours, acknowledged" in text
    assert "typed on top of an old buffer" in text
    assert memory.archive.lost_entries("topic") == []


# --- R8: a dead process leaves no lock behind ---------------------------------------------------------------


def scene_kills(home: str, kills: int, seed: int) -> dict[str, Any]:
    """Kill a writer while it holds the lock of a record; how long must the next one wait?"""
    rng = random.Random(seed)
    memory = opened(home)
    memory.store("begin", key="topic")
    waits = []
    for number in range(kills):
        reading, writing = os.pipe()
        pid = os.fork()
        if not pid:
            hold_and_write(memory, writing, number, in_the_middle=rng.random() < 0.5)
        os.close(writing)
        os.read(reading, 1)
        os.close(reading)
        time.sleep(rng.choice((0, 0, 0.0005, 0.002)))
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        waits.append(timed(partial(memory.store, f"after kill {number}", key="topic")))
    return {"times": waits, "seconds": sum(waits)}


def hold_and_write(memory: Memory, writing: int, number: int, *, in_the_middle: bool) -> None:
    """Take the lock, say so, and stay; or stay in the middle of writing the file."""
    from vademecum.store.folders import Folder

    real = Folder.exchange

    def exchange(self: Folder, one: str, other: str) -> bool:
        if not in_the_middle:
            _say_and_stay(writing)
        done = real(self, one, other)
        _say_and_stay(writing)
        return done

    Folder.exchange = exchange  # type: ignore[method-assign]
    memory.store(f"never acknowledged {number}", key="topic")
    os._exit(0)


def _say_and_stay(writing: int) -> None:
    os.write(writing, b"x")
    time.sleep(60)


@pytest.mark.full
@pytest.mark.parametrize("kills", [150, pytest.param(1_000, marks=pytest.mark.soak)])
def test_the_next_writer_need_not_wait_for_a_dead_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], kills: int
) -> None:
    seen = play("kills", home=tmp_path / "home", kills=kills, seed=SEED)
    assert max(seen["times"]) < 1
    report(capsys, f"R8 {kills} kills under lock, next write", seen)
    memory = connect(home=tmp_path / "home", cwd=tmp_path)
    texts = [entry.text for entry in memory.show("topic").entries]
    assert [text for text in texts if text.startswith("after kill")] == [
        f"after kill {n}" for n in range(kills)
    ]
    assert memory.audit.verify().problems == ()
    assert list((tmp_path / "home" / "locks").iterdir()) == []
    assert not list((tmp_path / "home" / "memory").rglob(".vade-*"))
    assert not list((tmp_path / "home" / "memory").rglob("*conflict*"))


def scene_stopped(home: str) -> dict[str, Any]:
    """A holder that is stopped, not dead."""
    memory = opened(home)
    memory.store("begin", key="topic")
    memory.store("begin", key="other")
    reading, writing = os.pipe()
    pid = os.fork()
    if not pid:
        hold_and_write(memory, writing, 0, in_the_middle=False)
    os.read(reading, 1)
    os.kill(pid, signal.SIGSTOP)
    try:
        other = timed(lambda: memory.store("not held up", key="other"))
        begun = time.perf_counter()
        try:
            memory.store("held up", key="topic")
            message = ""
        except Locked as error:
            message = str(error)
        waited = time.perf_counter() - begun
        shown = memory.show("topic").text
    finally:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    after = timed(lambda: memory.store("no longer held up", key="topic"))
    return {"pid": pid, "message": message, "waited": waited, "other": other, "shown": shown, "after": after}


def test_a_stopped_holder_is_named_when_the_waiting_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADE_LIMITS_LOCK", "0.5s")
    seen = play("stopped", home=tmp_path / "home")
    assert f"process {seen['pid']}" in seen["message"]
    assert 0.4 < seen["waited"] < 2
    assert seen["other"] < 0.5
    assert seen["shown"] == "begin"
    assert seen["after"] < 0.5


# --- R16: the clock -----------------------------------------------------------------------------------------


def test_a_clock_that_jumps_neither_loses_nor_reorders_entries(tmp_path: Path) -> None:
    rng = random.Random(SEED)
    moment = [datetime(2026, 11, 15, 8, tzinfo=UTC)]
    memory = connect(home=tmp_path / "home", cwd=tmp_path, now=lambda: moment[0])
    for number in range(100):
        years = rng.choice((0, 0, 0, -3, 10, -10))
        seconds = rng.choice((-1, 0, 0, 1, 3600, -3600))
        moment[0] = datetime.fromtimestamp(1794729600 + years * 31_557_600 + seconds, tz=UTC)
        memory.store(f"entry number {number}", key="topic")
        memory.note(f"note number {number}")
    assert [entry.text for entry in memory.show("topic").entries] == [f"entry number {n}" for n in range(100)]
    assert memory.archive.lost_entries("topic") == []
    assert memory.status().notes == 100
    assert memory.audit.verify().problems == ()
    assert memory.audit.verify().lines == 200
    assert memory.show("topic").num == 1


SCENES: dict[str, Callable[..., dict[str, Any]]] = {
    "appends": scene_appends,
    "duplicates": scene_duplicates,
    "numbers": scene_numbers,
    "editing": scene_editing,
    "kills": scene_kills,
    "stopped": scene_stopped,
}

if __name__ == "__main__":
    try:
        print(json.dumps(SCENES[sys.argv[1]](**json.loads(sys.argv[2]))))
    except VadeError as error:
        raise SystemExit(f"{type(error).__name__}: {error}") from error
