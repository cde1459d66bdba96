"""The log of a session: whole lines survive everything, and no secret is ever in one (R14, S19)."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import signal
import stat
import string
import subprocess
import sys
import tempfile
import time
import tracemalloc
import warnings
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from faults.syscalls import Call, Tap
from vademecum.errors import InvalidKey, InvalidText, Locked, OutsideMemory, StorageFailed
from vademecum.memory import connect
from vademecum.store.home import Home
from vademecum.text import outgoing, secrets
from vademecum.transcripts import Message, Opaque, Role, Text, ToolCall, ToolResult, events, log
from vademecum.transcripts.events import Event, MessageEvent, TornLine, Used
from vademecum.transcripts.log import Log, LogFile, MemoryLog
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.transcripts import Part

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

KEY = "gh" + "p_" + "aB3x" * 9
START = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
WRITER = """
import sys
from datetime import UTC, datetime
from pathlib import Path
from vademecum.store.home import Home
from vademecum.transcripts.events import MessageEvent
from vademecum.transcripts.log import Log, LogFile
from vademecum.transcripts import Message, Role, Text
home, name, count, size, year = sys.argv[1:]
log = Log("s", LogFile(Home(Path(home), 60), "p", "s"), now=lambda: datetime(int(year), 1, 1, tzinfo=UTC))
for number in range(int(count)):
    text = f"{name}-{number} " + "words that are said " * (int(size) // 20)
    log.append(MessageEvent(Message(Role.USER, (Text(text),))), sync=number % 10 == 9)
    print(number, flush=True)
"""


def on_disk(base: Path, **given: Any) -> Log:
    return Log("s", LogFile(Home(base / "home", 5), "p", "s"), **given)


def file_of(base: Path) -> Path:
    return base / "home" / "transcripts" / "p" / "s.jsonl"


def said(text: str, role: Role = Role.USER) -> MessageEvent:
    return MessageEvent(Message(role, (Text(text),)))


def said_in(found: Log) -> list[str]:
    return [event.message.text for event in found.events() if isinstance(event, MessageEvent)]


def writer(base: Path, name: str, count: int, size: int, year: int = 2026) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WRITER, str(base / "home"), name, str(count), str(size), str(year)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


# -------------------------------------------------------------------- writing


def test_events_are_numbered_timed_and_given_ids_and_come_back_as_they_were_returned(tmp_path: Path) -> None:
    here = on_disk(tmp_path, now=lambda: START)
    kept = [here.append(said("one")), here.append(Used(input=3)), here.append(said("two"), sync=True)]
    assert [event.seq for event in kept] == [1, 2, 3]
    assert {event.time for event in kept} == {"2026-11-15T08:00:00Z"}
    assert len({event.id for event in kept}) == 3
    assert list(here.events()) == kept
    assert list(on_disk(tmp_path).events()) == kept


def test_the_file_and_its_folders_are_their_owners_alone(tmp_path: Path) -> None:
    on_disk(tmp_path).append(said("one"))
    path = file_of(tmp_path)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (path.parent, path.parent.parent):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert on_disk(tmp_path).path == "transcripts/p/s.jsonl"


def test_an_event_is_one_write_and_only_a_turns_end_is_synced(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    here.append(said("first"))
    with Tap(root=os.fspath(tmp_path)) as tap:
        here.append(said("second " * 50_000))
        here.append(said("third"), sync=True)
    calls = [(call.name, call.data) for call in tap.trace if call.path.endswith("s.jsonl")]
    writes = [data for name, data in calls if name == "write"]
    assert [(data[:1], data[-1:], data.count(b"\n")) for data in writes] == [(b"{", b"\n", 1)] * 2
    assert [name for name, _ in calls if name in ("write", "fsync")] == ["write", "write", "fsync"]


def test_many_events_under_one_lock_are_one_write_each(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    with Tap(root=os.fspath(tmp_path)) as tap:
        assert here.extend((said(str(number)) for number in range(20)), sync=True) == 20
    calls = [call.name for call in tap.trace if call.path.endswith("s.jsonl")]
    assert (calls.count("write"), calls.count("fsync")) == (20, 1)
    assert [event.seq for event in here.events() if isinstance(event, Event)] == list(range(1, 21))
    assert here.extend([]) == 0


def test_many_events_come_back_as_they_are_kept(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    assert here.append_all([]) == []
    assert not file_of(tmp_path).exists()
    given = [said("one"), said(f"use {KEY}"), Used(input=3, id="own"), said("two")]
    with Tap(root=os.fspath(file_of(tmp_path))) as tap:
        kept = here.append_all(given, sync=True)
    assert sum(call.name == "write" for call in tap.trace) == 4
    assert kept == list(here.events())
    assert [each.seq for each in kept] == [1, 2, 3, 4]
    assert kept[2].id == "own"
    assert "[REDACTED:" in str(kept[1])


def test_a_log_that_is_put_in_the_place_of_another_meanwhile_is_the_one_written_to(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    here.append(said("before"))

    def events() -> Iterator[Event]:
        yield said("one")
        yield said("two")
        path = file_of(tmp_path)
        path.with_suffix(".new").write_bytes(path.read_bytes())
        path.with_suffix(".new").rename(path)
        yield said("three")
        yield said("four")

    here.extend(events())
    assert said_in(here) == ["before", "one", "two", "three", "four"]


def test_a_clock_that_goes_back_changes_no_order(tmp_path: Path) -> None:
    moments = iter([START, START - timedelta(days=400), START - timedelta(days=1)])
    here = on_disk(tmp_path, now=lambda: next(moments))
    for text in ("one", "two", "three"):
        here.append(said(text))
    assert said_in(here) == ["one", "two", "three"]
    assert [event.seq for event in here.events() if isinstance(event, Event)] == [1, 2, 3]


@pytest.mark.parametrize("name", ["../s", "a/b", "", "..", "con", "x" * 200, ".hidden"])
def test_no_id_leads_out_of_the_folder(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidKey):
        LogFile(Home(tmp_path), "p", name)
    with pytest.raises(InvalidKey):
        LogFile(Home(tmp_path), name, "s")


@pytest.mark.parametrize("linked", ["transcripts", "transcripts/p", "transcripts/p/s.jsonl"])
def test_links_are_refused_in_both_directions(tmp_path: Path, linked: str) -> None:
    elsewhere = tmp_path / "elsewhere"
    here = tmp_path / "home" / linked
    here.parent.mkdir(parents=True)
    if linked.endswith(".jsonl"):
        elsewhere.write_bytes(events.render(said("theirs")) + b"\n")
    else:
        (elsewhere / "p").mkdir(parents=True)
        (elsewhere / "s.jsonl").write_bytes(events.render(said("theirs")) + b"\n")
        (elsewhere / "p" / "s.jsonl").write_bytes(events.render(said("theirs")) + b"\n")
    here.symlink_to(elsewhere)
    before = {path: path.read_bytes() for path in tmp_path.glob("elsewhere*/**/*") if path.is_file()}
    with pytest.raises(OutsideMemory):
        on_disk(tmp_path).append(said("ours"))
    with pytest.raises(OutsideMemory):
        list(on_disk(tmp_path).events())
    assert before == {path: path.read_bytes() for path in before}


@pytest.mark.parametrize("value", [{1, 2}, b"bytes", object()])
def test_what_is_no_json_is_refused_and_leaves_the_log_as_it_was(tmp_path: Path, value: Any) -> None:
    here = on_disk(tmp_path)
    here.append(said("one"))
    with pytest.raises(InvalidText):
        here.append(MessageEvent(Message(Role.USER, (Opaque(value),))))
    assert said_in(here) == ["one"]
    assert here.append(said("two")).seq == 2


def test_what_json_has_no_number_for_and_half_characters_are_kept_as_valid_json(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    strange = "binary \x00\x01\x1b[0m \ud83d \u2028 \r\n end"
    kept = here.append(
        MessageEvent(Message(Role.USER, (Text(strange), Opaque([float("nan"), float("inf"), 1]))))
    )
    here.append(Used(cost=float("nan")))
    assert isinstance(kept, MessageEvent)
    assert kept.message.parts == (Text(strange), Opaque([None, None, 1]))
    assert next(here.events()) == kept
    for line in file_of(tmp_path).read_bytes().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_a_value_nested_too_deeply_is_refused(tmp_path: Path) -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    with pytest.raises(InvalidText):
        on_disk(tmp_path).append(MessageEvent(Message(Role.USER, (Opaque(deep),))))


@pytest.mark.full
def test_a_result_of_fifty_megabytes_is_kept_whole(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    text = "a line of what some tool has printed\n" * 1_400_000
    assert len(text) > 50_000_000
    here.append(MessageEvent(Message(Role.TOOL, (ToolResult("c", (Text(text),)),))))
    [event] = here.events()
    assert isinstance(event, MessageEvent)
    assert event.message.results[0].text == text


def test_a_line_that_could_not_be_read_again_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(log, "LARGEST", 1000)
    here = on_disk(tmp_path)
    with pytest.raises(InvalidText, match="at most 1,000"):
        here.append(said("x" * 1000))
    assert not file_of(tmp_path).exists()


# -------------------------------------------------------------------- reading


def lines_of(count: int) -> tuple[list[Event], bytes]:
    made = [
        MessageEvent(Message(Role.USER, (Text(f"line {n} äö"),)), seq=n, id=f"e{n}")
        for n in range(1, count + 1)
    ]
    return list(made), b"".join(events.render(event) + b"\n" for event in made)


def given_file(base: Path, content: bytes) -> Log:
    path = file_of(base)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return on_disk(base)


def test_torn_lines_at_the_end_and_in_the_middle_are_told_and_all_others_read(tmp_path: Path) -> None:
    made, whole = lines_of(4)
    first, second, third, fourth = whole.splitlines(keepends=True)
    content = first + second[:20] + b"\n" + third + b"\x00" * 4096 + b"\n\n  \n" + fourth + first[:9]
    found = list(given_file(tmp_path, content).events())
    assert [event for event in found if isinstance(event, Event)] == [made[0], made[2], made[3]]
    assert [type(event) for event in found].count(TornLine) == 3
    assert isinstance(found[-1], TornLine)


def test_lines_know_their_number_and_where_they_stand(tmp_path: Path) -> None:
    _, content = lines_of(50)
    content = content[:200] + b"\n\n" + content[200:]
    here = given_file(tmp_path, content)
    numbered = content.split(b"\n")
    for line in here.lines():
        assert content[line.start : line.end] == numbered[line.number - 1] + b"\n"
        assert next(here.lines(line.start, line.number)) == line


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 300), max_size=40), st.integers(0, 45), st.booleans())
def test_the_last_lines_are_those_at_the_end_of_all(sizes: list[int], count: int, cut: bool) -> None:
    paper = MemoryLog()
    for size in sizes:
        paper.write(b'{"kind":"x","of":"' + b"y" * size + b'"}', sync=False)
    if cut and sizes:
        del paper._content[-5:]
    with mock.patch.object(log, "_BLOCK", 64):
        here = Log("s", paper)
        every = [line._replace(number=0) for line in here.lines()]
        assert here.tail(count) == (every[-count:] if count else [])


def test_the_end_of_a_long_log_is_read_without_the_rest(tmp_path: Path) -> None:
    _, content = lines_of(20_000)
    here = given_file(tmp_path, content)
    with mock.patch.object(log.Log, "raw", autospec=True, side_effect=log.Log.raw) as read:
        found = [line.event.seq for line in here.tail(3) if isinstance(line.event, Event)]
    assert found == [19_998, 19_999, 20_000]
    assert [call.args[1] > len(content) - 400 for call in read.call_args_list] == [True]


def test_following_gives_whole_lines_once_and_waits_for_the_end_of_one(tmp_path: Path) -> None:
    made, content = lines_of(3)
    ends = [at + 1 for at, byte in enumerate(content) if byte == 10]
    here = given_file(tmp_path, content[: ends[0] + 10])
    [first] = here.follow()
    assert (first.event, first.number) == (made[0], 1)
    assert list(here.follow(first.end, 2)) == []
    with open(file_of(tmp_path), "ab") as file:
        file.write(content[ends[0] + 10 :])
    assert [(line.event, line.number) for line in here.follow(first.end, 2)] == [(made[1], 2), (made[2], 3)]


def test_a_huge_line_is_torn_and_the_lines_around_it_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made, content = lines_of(2)
    first, second = content.splitlines(keepends=True)
    largest = 300_000
    monkeypatch.setattr(log, "LARGEST", largest)
    for size in (largest - 1, largest, largest + 1, largest + 2, 3 * largest):
        huge = b'{"kind":"x","of":"' + b"y" * (size - 20) + b'"}'
        assert len(huge) == size
        here = given_file(tmp_path, first + huge + b"\n" + second)
        found = list(here.events())
        assert (found[0], found[2]) == (made[0], made[1])
        assert isinstance(found[1], TornLine) == (size > largest)
        assert [line.start for line in here.lines()] == [0, len(first), len(first) + size + 1]
        assert isinstance(list(given_file(tmp_path, first + huge[:-1]).events())[1], TornLine)


def test_a_long_log_is_read_in_bounded_memory(tmp_path: Path) -> None:
    here = given_file(tmp_path, b"")
    line = events.render(said("words " * 5000)) + b"\n"
    with open(file_of(tmp_path), "wb") as file:
        for _ in range(1000):  # 30 MB
            file.write(line)
    tracemalloc.start()
    assert sum(isinstance(event, MessageEvent) for event in here.events()) == 1000
    assert tracemalloc.get_traced_memory()[1] < 2_000_000
    tracemalloc.stop()


READER = """
import sys
from pathlib import Path
from vademecum.store.home import Home
from vademecum.transcripts.events import Event
from vademecum.transcripts.log import Log, LogFile
def peak():  # of this program alone: what getrusage tells may be its parent's
    return next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
before = peak()
log = Log("s", LogFile(Home(Path(sys.argv[1]), 5), "p", "s"))
found = list(log.tail(3))
print(sum(isinstance(each, Event) for each in log.events()), len(found))
print(peak() - before)
"""


@pytest.mark.soak
@pytest.mark.skipif(sys.platform != "linux", reason="counts memory in the units of Linux")
def test_a_log_of_a_gibibyte_is_read_in_a_few_megabytes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given_file(tmp_path, b"")
    line = events.render(said("words that are said " * 10_000)) + b"\n"
    count = (1 << 30) // len(line) + 1
    with open(file_of(tmp_path), "wb") as file:
        for _ in range(count):
            file.write(line)
    assert file_of(tmp_path).stat().st_size >= 1 << 30
    done = subprocess.run(
        [sys.executable, "-c", READER, str(tmp_path / "home")], check=True, capture_output=True, text=True
    )
    read, last, grown = map(int, done.stdout.split())
    file_of(tmp_path).unlink()
    assert (read, last) == (count, 3)
    with capsys.disabled():
        print(f"\na log of 1 GiB was read in {grown / 1024:.1f} MiB above an idle process")
    assert grown < 32 * 1024


def test_a_log_in_memory_behaves_like_one_on_disk_and_leaves_nothing(tmp_path: Path) -> None:
    there, here = on_disk(tmp_path, now=lambda: START), Log("s", MemoryLog(), now=lambda: START)
    given = [said("one"), Used(input=2), said("two")]
    for event in given:
        numbered = [log.append(event) for log in (there, here)]
        assert [each.seq for each in numbered] == [numbered[0].seq] * 2
    assert said_in(here) == said_in(there)
    assert [line.event for line in here.tail(2)] == list(here.events())[1:]
    assert here.path == ""


# -------------------------------------------------------------------- R14


@pytest.mark.full
@pytest.mark.parametrize("lines", [10, pytest.param(50, marks=pytest.mark.soak)])
def test_eight_processes_append_lines_of_200_kb_each_and_all_are_there(tmp_path: Path, lines: int) -> None:
    running = [writer(tmp_path, f"w{number}", lines, 200_000) for number in range(8)]
    for each in running:
        each.communicate()
        assert each.returncode == 0
    found = list(on_disk(tmp_path).events())
    assert [type(event) for event in found] == [MessageEvent] * 8 * lines
    assert [event.seq for event in found if isinstance(event, MessageEvent)] == list(range(1, 8 * lines + 1))
    told = {event.message.text.split()[0] for event in found if isinstance(event, MessageEvent)}
    assert told == {f"w{writer}-{number}" for writer in range(8) for number in range(lines)}
    assert file_of(tmp_path).stat().st_size > 8 * lines * 200_000


@pytest.mark.parametrize("step", [11, pytest.param(1, marks=pytest.mark.soak)])
def test_cut_at_each_of_the_last_4096_offsets_whole_lines_are_read_and_the_next_never_glues(
    step: int,
) -> None:
    fast = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=fast) as folder:
        base = Path(folder)
        here = on_disk(base)
        chance = random.Random(14)
        kept = [here.append(said(f"{number} ä " + "x" * chance.randrange(500))) for number in range(12)]
        path = file_of(base)
        whole = path.read_bytes()
        ends = [at for at, byte in enumerate(whole) if byte == 10]
        first = max(len(whole) - 4096, 0)
        assert first > 0
        near_an_end = {end + by for end in ends for by in (-1, 0, 1, 2)}
        for cut in range(first, len(whole) + 1):
            if cut % step and cut not in near_an_end:
                continue
            path.write_bytes(whole[:cut])
            intact = sum(end <= cut for end in ends)  # a line that lacks nothing but its end is whole
            found = list(here.events())
            assert [event for event in found if isinstance(event, Event)] == kept[:intact]
            assert len(found) <= intact + 1
            after = on_disk(base).append(said("next"))
            assert after.seq == intact + 1
            again = [event for event in here.events() if isinstance(event, Event)]
            assert again == [*kept[:intact], after]


def test_a_writer_killed_at_any_time_leaves_all_it_told_of_and_the_next_one_goes_on(tmp_path: Path) -> None:
    told: list[str] = []
    for turn in range(5):
        running = writer(tmp_path, f"k{turn}", 10_000, 1_000_000)
        assert running.stdout is not None
        for _ in range(3):
            number = running.stdout.readline().strip()
            told.append(f"k{turn}-{number}")
        time.sleep(0.003 * turn)
        running.send_signal(signal.SIGKILL)
        told += [f"k{turn}-{line.strip()}" for line in running.stdout if line.endswith("\n")]
        running.wait()
        running.stdout.close()
        last = on_disk(tmp_path).append(said(f"after-{turn} x"))
        told.append(f"after-{turn}")
        assert on_disk(tmp_path).tail(1)[0].event == last
    found = [event for event in on_disk(tmp_path).events() if isinstance(event, MessageEvent)]
    heads = [event.message.text.split()[0] for event in found]
    assert set(told) <= set(heads)
    assert [event.seq for event in found] == list(range(1, len(found) + 1))


@pytest.mark.full
@pytest.mark.skipif(sys.platform != "linux", reason="counts the calls of Linux")
def test_killed_before_after_and_in_the_middle_of_every_call_a_writer_tears_nothing(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    kept = [here.append(said("one"))]
    with Tap(root=os.fspath(tmp_path)) as tap:
        kept.append(here.append(said("two"), sync=True))
    for point in range(3 * len(tap.trace)):
        told = killed_at(here, point)
        found = [event for event in here.events() if isinstance(event, Event)]
        assert found[: len(kept)] == kept
        assert len(found) - len(kept) in ((1,) if told else (0, 1))
        kept = [*found, here.append(said(f"after {point}"))]
        assert list(here.follow())[-1].event == kept[-1]
    assert [event.seq for event in kept] == list(range(1, len(kept) + 1))


def killed_at(here: Log, point: int) -> bool:
    """Append in a child that is killed before, within or after its n-th call; whether it told of success."""
    reading, writing = os.pipe()
    left = iter(range(point, -10_000, -1))

    def die(call: Call) -> Any:
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        half = next(left) <= 0
        if half and call.name == "write":
            call.run.func(call.fd, call.data[: len(call.data) // 2])  # type: ignore[attr-defined]
        if half:
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            return call.run()
        finally:
            if next(left) <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist has threads; the child never meets them
        child = os.fork()
    if child == 0:
        with Tap(die):
            here.append(said(f"killed at {point}"), sync=True)
        os.write(writing, b"!")
        os._exit(0)
    os.close(writing)
    with open(reading, "rb") as pipe:
        told = pipe.read() == b"!"
    os.waitpid(child, 0)
    return told


def test_processes_whose_clocks_are_years_apart_agree_on_the_order(tmp_path: Path) -> None:
    running = [writer(tmp_path, name, 20, 100, year) for name, year in (("past", 1999), ("future", 2099))]
    for each in running:
        each.communicate()
    found = [event for event in on_disk(tmp_path).events() if isinstance(event, MessageEvent)]
    assert [event.seq for event in found] == list(range(1, 41))
    for name in ("past", "future"):
        own = [event.message.text.split()[0] for event in found if event.message.text.startswith(name)]
        assert own == [f"{name}-{number}" for number in range(20)]


@pytest.mark.full
def test_a_reader_beside_a_writer_sees_only_whole_lines(tmp_path: Path) -> None:
    running = writer(tmp_path, "w", 30, 400_000)
    here, at, number = on_disk(tmp_path), 0, 1
    seen: list[int] = []
    while running.poll() is None or len(seen) < 30:
        for line in here.follow(at, number):
            assert isinstance(line.event, MessageEvent)
            seen.append(line.event.seq)
            at, number = line.end, line.number + 1
    running.communicate()
    assert seen == list(range(1, 31))


# -------------------------------------------------------------------- failing disks


@contextlib.contextmanager
def disk_of(size: int) -> Iterator[None]:
    """No file may grow beyond this size; the kernel writes what fits, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def test_a_full_disk_is_told_and_leaves_every_line_whole(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    kept = [here.append(said("x" * 1000)) for _ in range(5)]
    before = file_of(tmp_path).read_bytes()
    with disk_of(len(before) + 500):
        for text in ("y" * 1000, "z" * 5000):
            with pytest.raises(StorageFailed):
                here.append(said(text))
        assert file_of(tmp_path).read_bytes() == before
    after = here.append(said("there is room again"))
    assert list(on_disk(tmp_path).events()) == [*kept, after]
    assert after.seq == 6


def test_a_stump_that_could_not_be_taken_back_is_closed_off(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    first = here.append(said("one"))

    def failing(call: Call) -> Any:
        if call.path.endswith("s.jsonl") and call.name in ("ftruncate", "write"):
            if call.name == "write" and call.data.startswith(b"{"):
                call.run.func(call.fd, call.data[:30])  # type: ignore[attr-defined]  # a partial
            raise OSError(28, "No space left on device")
        return call.run()

    with Tap(failing, root=os.fspath(tmp_path)), pytest.raises(StorageFailed):
        here.append(said("two"))
    assert not file_of(tmp_path).read_bytes().endswith(b"\n")
    third = here.append(said("three"))
    assert [event for event in here.events() if isinstance(event, Event)] == [first, third]
    assert sum(isinstance(event, TornLine) for event in here.events()) == 1
    assert third.seq == 2


def test_every_failing_call_is_told_or_the_event_is_there(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    here.append(said("0"))
    with Tap(root=os.fspath(tmp_path)) as tap:
        here.append(said("1"), sync=True)
    count = len(tap.trace)
    for at in range(count):
        counter = iter(range(10_000))

        def failing(call: Call, at: int = at, counter: Iterator[int] = counter) -> Any:
            if next(counter) == at:
                if call.name == "close":
                    call.run()
                raise OSError(5, "Input/output error")
            return call.run()

        text = f"try {at}"
        try:
            with Tap(failing, root=os.fspath(tmp_path)):
                here.append(said(text), sync=True)
            assert text in said_in(on_disk(tmp_path))
        except (StorageFailed, Locked):
            pass
        done = on_disk(tmp_path).append(said(f"after {at}"))
        assert on_disk(tmp_path).tail(1)[0].event == done
    assert not any(isinstance(event, TornLine) for event in here.events())


# -------------------------------------------------------------------- secrets


def made_up(chance: random.Random) -> Iterator[tuple[str, str]]:
    """A secret, and the whole text or value that it stands in; built here, so that no scanner finds one."""
    alnum, hexes = string.ascii_letters + string.digits, "0123456789abcdef"
    shapes = [
        ("gh" + "p_", alnum, 36),
        ("sk-" + "ant-api03-", alnum, 93),
        ("AKI" + "A", string.ascii_uppercase + string.digits, 16),
        ("xox" + "b-1234567890-", alnum, 30),
        ("gl" + "pat-", alnum, 20),
        ("np" + "m_", alnum, 36),
        ("AI" + "za", alnum, 35),
        ("sk_" + "live_", alnum, 24),
        ("hf" + "_", string.ascii_letters, 34),
        ("dop" + "_v1_", hexes, 64),
        ("shp" + "at_", hexes, 32),
        ("hv" + "s.", alnum, 95),
    ]
    while True:
        for prefix, alphabet, size in shapes:
            yield "shape", prefix + "".join(chance.choices(alphabet, k=size))
        for name in ("password", "client_secret", "api_key", "DB_PASSWORD", "refresh_token"):
            yield name, "Zq7" + "".join(chance.choices(alnum, k=22)) + "9x"


def carried(name: str, secret: str, turn: int) -> Message:
    """A message with a secret in one of the places where agents leave them."""
    word = "the one" if name == "shape" else name
    ways: list[tuple[Part, ...]] = [
        (Text(f"please use {word}={secret} from now on"),),
        (ToolCall("c", "write", json.dumps({"path": ".env", "content": f'{word.upper()}="{secret}"\n'})),),
        (ToolCall("c", "http", json.dumps({"headers": {"x": 1}, "password": secret})),),
        (ToolResult("c", (Text(f"export {word}={secret}\nexport REGION=eu"),)),),
        (Text("hi", {"provider": {"password": secret, "list": [{"api_key": secret}]}}),),
        (Opaque({"env": {"client_secret": secret}, "n": [1, {"password": secret}]}),),
    ]
    return Message(Role.ASSISTANT, ways[turn % len(ways)])


def test_a_thousand_secrets_in_every_place_are_never_on_disk(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    chance = random.Random(19)
    seeded = []
    for turn, (name, secret) in zip(range(1000), made_up(chance), strict=False):
        seeded.append(secret)
        here.append(MessageEvent(carried(name, secret, turn)))
    for path in (each for each in tmp_path.rglob("*") if each.is_file()):
        content = path.read_text()
        assert [secret for secret in seeded if secret in content or secret[:20] in content] == []
    found = list(here.events())
    assert [type(event) for event in found] == [MessageEvent] * 1000
    for event in found:
        assert isinstance(event, MessageEvent)
        assert "[REDACTED:" in events.render(event).decode()
        for call in event.message.calls:
            json.loads(call.arguments)


def test_secrets_as_names_of_fields_go_and_both_values_stay() -> None:
    token = "gh" + "p_" + "aB3" * 12
    other = "gh" + "p_" + "Zx9" * 12
    found = outgoing.clean_value({token: 1, other: 2, "plain": 3})
    assert sorted(found.values()) == [1, 2, 3]
    assert token not in json.dumps(found)
    assert other not in json.dumps(found)


def test_arguments_stay_json_when_a_secret_reaches_beyond_its_quotes() -> None:
    key = "\n".join(["-----BEGIN PRIVATE " + "KEY-----", *["MIIEvQIBADANBgkqhkiG9w0BAQEFAASC" * 2] * 4])
    text = json.dumps({"key": key, "next": "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVo", "n": 1})
    kept = json.loads(outgoing.clean_value(text))
    assert kept["n"] == 1
    assert "MIIEvQ" not in json.dumps(kept)


@settings(max_examples=200, deadline=None)
@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.text(max_size=30),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=12), inner, max_size=4),
    )
)
def test_what_holds_no_secret_is_kept_as_it_is(value: Any) -> None:
    if not secrets.find(json.dumps(value, ensure_ascii=False)):
        assert outgoing.clean_value(value) == value


@settings(max_examples=300, deadline=None)
@given(
    st.recursive(
        st.sampled_from(
            ["password", "tok\ten", "hunter2Wq9", "a\nsk-", "x" * 30, "\u200b", "ключ", "\ud800", "{"]
        )
        | st.text(max_size=12)
        | st.sampled_from([KEY, f'{{"api_key": "{KEY}"}}', f"\t{KEY}\n", float("nan"), 1.5, None, True]),
        lambda inner: (
            st.lists(inner, max_size=4)
            | st.dictionaries(st.sampled_from(["text", "password", "a", KEY]) | st.text(max_size=6), inner)
        ),
        max_leaves=12,
    )
)
def test_what_a_whole_line_tells_finds_what_a_full_search_of_each_part_finds(value: Any) -> None:
    with mock.patch.object(secrets, "clues", return_value=secrets.EVERYTHING):
        wanted = outgoing.clean_value(value)
    assert outgoing.clean_value(value) == wanted
    if isinstance(value, str) and KEY in value:
        assert KEY not in str(wanted)


# -------------------------------------------------------------------- purge


def opened(base: Path) -> Any:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER)


def test_a_purged_text_is_gone_from_transcripts_in_every_form_and_the_rest_stays(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    canary = 'CANÄRY "one"\nand two'
    inner = json.dumps({"content": f"a {canary} b"})
    here.append(said(f"said: {canary}."))
    untouched = here.append(said("nothing of it; ä\\nary \\next"))
    here.append(
        MessageEvent(Message(Role.ASSISTANT, (ToolCall("c", "write", json.dumps({"inner": inner})),)))
    )
    here.append(
        MessageEvent(Message(Role.USER, (Text("x", {"y": [canary]}), Opaque({"z": {"type": canary}}))))
    )
    before = file_of(tmp_path).read_bytes().splitlines()
    with open(file_of(tmp_path), "ab") as file:
        file.write(b'{"seq":5,"kind":"message","text":"' + json.dumps(canary)[1:].encode() + b" torn")
    found = opened(tmp_path).archive.purge_text(canary)
    after = file_of(tmp_path).read_bytes()
    assert "CANÄRY" not in after.decode()
    assert b"CAN\\u00c4RY" not in after
    assert after.splitlines()[1] == before[1]
    assert list(here.events())[1] == untouched
    kept = [event for event in here.events() if isinstance(event, MessageEvent)]
    assert [event.seq for event in kept] == [1, 2, 3, 4]
    assert json.loads(json.loads(kept[2].message.calls[0].arguments)["inner"]) == {"content": "a [purged] b"}
    assert kept[3].message.parts == (Text("x", {"y": ["[purged]"]}), Opaque({"z": {"type": "[purged]"}}))
    assert [(each.where, each.gone) for each in found] == [("transcripts/p/s.jsonl", True)]
    assert stat.S_IMODE(file_of(tmp_path).stat().st_mode) == 0o600
    assert here.append(said("more")).seq == 5


@pytest.mark.parametrize("wanted", ["message", "user", "kind", "text", "role"])
def test_what_gives_an_event_its_meaning_stays_and_is_reported(tmp_path: Path, wanted: str) -> None:
    here = on_disk(tmp_path)
    kept = here.append(said("words"))
    found = opened(tmp_path).archive.purge_text(wanted)
    assert list(here.events()) == [kept]
    assert [each.gone for each in found if each.where == "transcripts/p/s.jsonl"] == [False]


def test_a_purge_beside_a_busy_writer_loses_no_event_and_leaves_no_text(tmp_path: Path) -> None:
    here = on_disk(tmp_path)
    for number in range(50):
        here.append(said(f"old {number} CANARY"))
    running = writer(tmp_path, "w", 300, 2_000)
    assert running.stdout is not None
    running.stdout.readline()
    memory = opened(tmp_path)
    for _ in range(3):
        memory.archive.purge_text("CANARY")
    running.communicate()
    assert running.returncode == 0
    found = [event for event in here.events() if isinstance(event, MessageEvent)]
    assert [event.seq for event in found] == list(range(1, 351))
    assert "CANARY" not in file_of(tmp_path).read_text()
    assert [path.name for path in file_of(tmp_path).parent.iterdir()] == ["s.jsonl"]
