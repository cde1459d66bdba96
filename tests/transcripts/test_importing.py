"""Imports: kept once, added to when grown, gone on with when cut short, and the original never touched."""

from __future__ import annotations

import errno
import json
import os
import signal
import subprocess
import sys
import tracemalloc
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest import mock

import pytest

from vademecum.agents.registry import find_transcripts, find_transcripts_in
from vademecum.errors import NotFound
from vademecum.store import files, scopes
from vademecum.store.home import Home
from vademecum.transcripts.events import (
    Ended,
    Event,
    MessageEvent,
    Renamed,
    Started,
    Trimmed,
    Used,
    name_of,
    window_of,
)
from vademecum.transcripts.importing import ImportedSession, import_files
from vademecum.transcripts.log import Log, LogFile
from vademecum.transcripts.sessions import Sessions
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

DATA = Path(os.environ.get("VADE_DATA", "")) / "transcripts"
needs_data = pytest.mark.skipif(
    not os.environ.get("VADE_DATA") or not DATA.is_dir(),
    reason="VADE_DATA does not name a folder with real transcripts in it",
)


def line(number: int, role: str, said: str, **more: Any) -> dict[str, Any]:
    """A line as Claude Code writes it."""
    message: dict[str, Any] = {"role": role, "content": said}
    if role == "assistant":
        usage = {"input_tokens": 10, "output_tokens": 5}
        message = {**message, "id": f"m{number}", "content": [{"type": "text", "text": said}], "usage": usage}
    return {
        "type": role,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s-1",
        "cwd": "/nonexistent/api",
        "timestamp": f"2026-11-15T08:{number // 60:02}:{number % 60:02}.000Z",
        "isSidechain": False,
        "message": message,
        **more,
    }


def talk(count: int) -> list[dict[str, Any]]:
    return [line(at, "assistant" if at % 2 else "user", f"Words number {at}, please.") for at in range(count)]


def write(path: Path, values: Sequence[dict[str, Any]]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in values))
    return path


class Vault:
    def __init__(self, base: Path) -> None:
        (base / "work").mkdir()
        project = scopes.find_project(base / "work", home=base / "home", override="acme")
        self.home = Home(base / "home", 5)
        self.caller = scopes.Caller(agent="main", project=project, origin=Origin.USER)

    def take(self, path: Path) -> list[ImportedSession]:
        found = find_transcripts_in(path, without=self.home.path)
        return list(import_files(found, home=self.home, caller=self.caller))

    def one(self, path: Path) -> ImportedSession:
        (found,) = self.take(path)
        return found

    def log(self, found: ImportedSession) -> Log:
        return Log(found.session, LogFile(self.home, found.project, found.session))

    def events(self, found: ImportedSession) -> list[Event]:
        every = list(self.log(found).events())
        whole = [each for each in every if isinstance(each, Event)]
        assert len(whole) == len(every)
        return whole

    def texts(self, found: ImportedSession) -> list[str]:
        return [each.message.text for each in self.log(found).events() if isinstance(each, MessageEvent)]


@pytest.fixture
def vault(tmp_path: Path) -> Vault:
    return Vault(tmp_path)


def test_a_file_is_kept_once_as_a_session_that_has_ended(vault: Vault, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", talk(4))
    before = path.read_bytes(), path.stat().st_mtime_ns
    found = vault.one(path)
    assert (found.outcome, found.added) == ("new", 4)
    events = vault.events(found)
    assert isinstance(events[0], Started)
    assert (events[0].cwd, events[0].agent) == ("/nonexistent/api", "main")
    last = events[-1]
    assert isinstance(last, Ended)
    assert last.why == "imported"
    assert vault.texts(found) == [f"Words number {at}, please." for at in range(4)]
    assert sum(isinstance(each, Used) for each in events) == 2
    assert vault.one(path) == found._replace(outcome="same", added=0)
    assert vault.events(found) == events
    assert (path.read_bytes(), path.stat().st_mtime_ns) == before


def test_a_copy_elsewhere_and_a_file_that_was_only_touched_are_the_same_session(
    vault: Vault, tmp_path: Path
) -> None:
    first = vault.one(write(tmp_path / "a.jsonl", talk(4)))
    size = len(vault.events(first))
    copy = write(tmp_path / "elsewhere" / "b.jsonl", talk(4))
    os.utime(copy, (1, 1))
    assert vault.one(copy) == first._replace(path=copy, outcome="same", added=0)
    assert len(vault.events(first)) == size


def test_a_file_that_has_grown_is_added_to(vault: Vault, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", talk(4))
    first = vault.one(path)
    write(path, talk(7))
    again = vault.one(path)
    assert (again.outcome, again.session, again.added) == ("grown", first.session, 3)
    assert vault.texts(again) == [f"Words number {at}, please." for at in range(7)]
    numbers = [each.seq for each in vault.events(again)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_an_answer_that_was_still_being_written_is_replaced_in_the_window(
    vault: Vault, tmp_path: Path
) -> None:
    path = write(tmp_path / "a.jsonl", talk(2))
    first = vault.one(path)
    more = line(2, "assistant", "And here is the rest of it.")
    more["message"]["id"] = "m1"  # the same answer goes on
    write(path, [*talk(2), more])
    again = vault.one(path)
    assert again.session == first.session
    said = " ".join(each.message.text for each in window_of(vault.log(again).events()))
    assert "rest of it" in said
    assert said.count("Words number 1") == 1


@pytest.mark.parametrize("cut", [1, 2, 4, 6, 8])
def test_an_import_that_was_cut_short_goes_on_where_it_stopped(
    vault: Vault, tmp_path: Path, cut: int
) -> None:
    path = write(tmp_path / "a.jsonl", talk(6))
    found = vault.one(path)
    whole = vault.events(found)
    kept = vault.home.path / vault.log(found).path
    kept.write_bytes(b"".join(kept.read_bytes().splitlines(keepends=True)[:cut]))
    again = vault.one(path)
    assert again.session == found.session
    assert vault.events(again)[:-1] == whole[:-1]


def test_what_somebody_said_here_since_does_not_shift_what_is_added(vault: Vault, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", talk(2))
    found = vault.one(path)
    log = vault.log(found)
    log.append(Renamed("mine"))
    for each in [each for each in log.events() if isinstance(each, MessageEvent)]:
        log.append(MessageEvent(each.message._replace(id="")))
    write(path, talk(4))
    assert vault.one(path).added == 2
    assert "Words number 3, please." in vault.texts(found)
    assert name_of(log.events()) == "mine"


def test_a_subagents_file_with_the_same_session_id_is_a_session_of_its_own(
    vault: Vault, tmp_path: Path
) -> None:
    main = vault.one(write(tmp_path / "a.jsonl", talk(2)))
    other = [line(9, "user", "Look for the tests.", isSidechain=True, agentId="x")]
    side = vault.one(write(tmp_path / "agent-x.jsonl", other))
    assert side.session != main.session


def test_lists_without_an_id_that_begin_alike_are_never_mixed(vault: Vault, tmp_path: Path) -> None:
    begin = [{"role": "system", "content": "You help."}, {"role": "user", "content": "Hello there, you."}]
    one, two = tmp_path / "one.json", tmp_path / "two.json"
    one.write_text(json.dumps([*begin, {"role": "assistant", "content": "A first answer."}]))
    two.write_text(json.dumps([*begin, {"role": "assistant", "content": "Another answer."}]))
    assert vault.one(one).session != vault.one(two).session
    assert vault.one(one).outcome == "same"


def test_secrets_do_not_reach_the_vault(vault: Vault, tmp_path: Path) -> None:
    key = "sk-ant-api03-" + "a1B2c3D4" * 11 + "AA"
    found = vault.one(write(tmp_path / "a.jsonl", [line(0, "user", f"Use the key {key} for it.")]))
    assert key not in (vault.home.path / vault.log(found).path).read_text()
    assert "REDACTED" in vault.texts(found)[0]


def test_damage_is_counted_and_an_empty_file_is_no_failure(vault: Vault, tmp_path: Path) -> None:
    path = write(tmp_path / "t" / "a.jsonl", talk(3))
    with path.open("a") as file:
        file.write('{"type": "user", "mess')
    write(tmp_path / "t" / "b.jsonl", [line(0, "user", "x", type="summary", summary="", message=None)])
    (tmp_path / "t" / "notes.json").write_text('{"a": 1}')
    (tmp_path / "t" / "image.png").write_bytes(b"\x89PNG")
    outcomes = {each.path.name: (each.outcome, each.unread) for each in vault.take(tmp_path / "t")}
    assert outcomes["a.jsonl"] == ("new", 1)
    assert outcomes.get("b.jsonl", ("empty", 0))[0] == "empty"
    assert set(outcomes) <= {"a.jsonl", "b.jsonl"}


def test_what_is_no_transcript_or_not_there_is_refused_with_a_hint(vault: Vault, tmp_path: Path) -> None:
    (tmp_path / "x.json").write_text("{}")
    for name in ("x.json", "nowhere"):
        with pytest.raises(NotFound) as caught:
            vault.take(tmp_path / name)
        assert caught.value.hint


def test_our_own_folder_is_not_imported_into_itself(vault: Vault, tmp_path: Path) -> None:
    write(tmp_path / "a.jsonl", talk(2))
    assert len(vault.take(tmp_path)) == 1
    assert [each.outcome for each in vault.take(tmp_path)] == ["same"]


def test_the_agents_own_folders_are_found(vault: Vault, tmp_path: Path) -> None:
    person = tmp_path / "ada"
    path = write(person / ".claude" / "projects" / "-api" / "s-1.jsonl", talk(2))
    assert [(each.name, where) for each, where in find_transcripts(person)] == [("claude-code", path)]
    assert not list(find_transcripts(tmp_path / "nobody"))


def test_progress_ends_at_its_total(vault: Vault, tmp_path: Path) -> None:
    write(tmp_path / "t" / "a.jsonl", talk(2))
    write(tmp_path / "t" / "b.jsonl", [line(5, "user", "Something else entirely.")])
    steps: list[tuple[str, int, int]] = []
    found = find_transcripts_in(tmp_path / "t", without=vault.home.path)
    list(import_files(found, home=vault.home, caller=vault.caller, progress=lambda *each: steps.append(each)))
    assert len(steps) == 2
    assert steps[-1][1] == steps[-1][2] > 0


def test_progress_tells_of_bytes_within_a_large_file(vault: Vault, tmp_path: Path) -> None:
    large = [line(at, "user", f"{at} " + "words " * 20_000) for at in range(100)]
    path = write(tmp_path / "t" / "a.jsonl", large)
    write(tmp_path / "t" / "b.jsonl", [line(500, "user", "Something else entirely.")])
    steps: list[int] = []
    found = find_transcripts_in(tmp_path / "t", without=vault.home.path)

    def progress(_what: str, done: int, _total: int) -> None:
        steps.append(done)

    list(import_files(found, home=vault.home, caller=vault.caller, progress=progress))
    assert steps == sorted(steps)
    assert len([each for each in steps if each < path.stat().st_size]) >= 3
    assert steps[-1] == sum(each.stat().st_size for each in (tmp_path / "t").iterdir())


# -------------------------------------------------------------------- cut short


def told(vault: Vault, found: ImportedSession) -> list[tuple[str, str]]:
    """Kinds and ids of a log's whole lines, in order; ids that are made anew each time are left out."""
    events = [each for each in vault.log(found).events() if isinstance(each, Event)]
    assert [each.seq for each in events] == list(range(1, len(events) + 1))
    return [(each.kind, each.id if isinstance(each, MessageEvent | Used) else "") for each in events]


def later(count: int) -> list[dict[str, Any]]:
    """The same talk when it has grown, with a title, and with an answer that went on since."""
    more = line(1, "assistant", "And here is the rest of it.")
    title = {"type": "summary", "summary": "A talk", "leafUuid": "u1", "sessionId": "s-1"}
    return [*talk(2), more, *talk(count)[2:], title]


def failing(at: int, fail: Callable[[int, bytes], None]) -> Callable[[int, bytes], None]:
    """Writing as it is, but for one write."""
    left = iter(range(at, -10_000, -1))
    real = files.write_all

    def write_all(fd: int, content: bytes) -> None:
        if content.startswith((b'{"seq":', b"\n{")) and next(left) == 0:
            fail(fd, content)
        real(fd, content)

    return write_all


def no_space(fd: int, content: bytes) -> None:
    os.write(fd, content[: len(content) // 2])
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def die(fd: int, content: bytes) -> None:
    os.write(fd, content[: len(content) // 2])
    os.kill(os.getpid(), signal.SIGKILL)


def die_whole(fd: int, content: bytes) -> None:
    os.write(fd, content)
    os.kill(os.getpid(), signal.SIGKILL)


def in_a_child(call: Callable[[], object]) -> bool:
    """Whether a child came to its end."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # xdist has threads; the child never meets them
        child = os.fork()
    if child == 0:
        try:
            call()
        finally:
            os._exit(0)
    return os.waitpid(child, 0)[1] == 0


@pytest.mark.full(but=1)
@pytest.mark.parametrize("grown", [False, True])
@pytest.mark.parametrize("fail", [die, die_whole, no_space])
def test_cut_short_at_any_line_an_import_is_completed_by_the_next_and_nothing_is_doubled(
    tmp_path: Path, fail: Callable[[int, bytes], None], grown: bool
) -> None:
    at, cut = 0, True
    while cut:
        vaults = []
        for name in ("whole", "cut"):
            (tmp_path / f"{name}{at}").mkdir()
            vaults.append(Vault(tmp_path / f"{name}{at}"))
        path = write(tmp_path / "a.jsonl", talk(3))
        if grown:
            for each in vaults:
                each.one(path)
            write(path, later(6))
        with mock.patch.object(files, "write_all", failing(at, fail)):
            if fail is no_space:
                cut = vaults[1].one(path).outcome == "failed"
            else:
                cut = not in_a_child(lambda: vaults[1].one(path))  # noqa: B023 (called before it changes)
        wanted, found = vaults[0].one(path), vaults[1].one(path)
        assert found.session == wanted.session
        assert found.outcome != "failed"
        names = [(kind, id) for kind, id in told(vaults[1], found) if kind != "renamed"]
        assert names == [(kind, id) for kind, id in told(vaults[0], wanted) if kind != "renamed"]
        assert names[0][0] == "started"
        assert names[-1][0] == "ended"
        assert [kind for kind, _ in names].count("ended") == 1 + grown
        assert vaults[1].one(path).outcome == "same"
        assert told(vaults[1], found)[-1][0] == "ended"
        at += 1
    assert at > 5


WRITER = """
import json, sys, time
with open(sys.argv[1], "a", buffering=1) as file:
    for each in json.load(sys.stdin):
        words = json.dumps(each) + chr(10)
        file.write(words[: len(words) // 2]); file.flush(); time.sleep(0.002)
        file.write(words[len(words) // 2 :]); file.flush(); time.sleep(0.002)
"""


def test_a_transcript_that_its_agent_is_writing_meanwhile_is_whole_and_once_in_the_end(
    vault: Vault, tmp_path: Path
) -> None:
    values = talk(200)
    path = write(tmp_path / "a.jsonl", values[:2])
    command = [sys.executable, "-c", WRITER, str(path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        json.dump(values[2:], writer.stdin)
        writer.stdin.close()
        outcomes = []
        while writer.poll() is None:
            outcomes.append(vault.one(path).outcome)
    assert writer.returncode == 0
    assert outcomes.count("grown") > 1
    assert set(outcomes) <= {"new", "grown", "same"}
    found = vault.one(path)
    assert vault.texts(found) == [f"Words number {at}, please." for at in range(200)]
    assert vault.one(path).outcome == "same"


def test_originals_are_never_touched(vault: Vault, tmp_path: Path) -> None:
    below = tmp_path / "agents"
    write(below / "a" / "one.jsonl", talk(5))
    write(below / "a" / "torn.jsonl", [line(900, "user", "Of another session.", sessionId="s-9")])
    with (below / "a" / "torn.jsonl").open("a") as file:
        file.write('{"torn')
    (below / "list.json").write_text(json.dumps([{"role": "user", "content": "Hello there, you."}]))
    (below / "empty.jsonl").write_text("")

    def states() -> dict[Path, tuple[object, ...]]:
        found: dict[Path, tuple[object, ...]] = {}
        for each in [below, *sorted(below.rglob("*"))]:
            state = each.stat()
            content = each.read_bytes() if each.is_file() else b""
            times = state.st_mtime_ns, state.st_ctime_ns
            found[each] = (*times, state.st_ino, state.st_size, state.st_mode, content)
        return found

    before = states()
    assert {each.outcome for each in vault.take(below)} == {"new"}
    assert {each.outcome for each in vault.take(below)} == {"same"}
    assert states() == before


def test_an_imported_session_is_listed_but_never_gone_on_with_by_itself(vault: Vault, tmp_path: Path) -> None:
    values = [{**each, "cwd": str(tmp_path / "work")} for each in talk(4)]
    sessions = Sessions(vault.home, vault.caller, reset="never")
    own = sessions.new(name="mine")
    later = [{**each, "timestamp": "2099-01-01T00:00:00.000Z"} for each in values]
    found = vault.one(write(tmp_path / "a.jsonl", later))
    assert found.project == "acme"
    assert [each.id for each in sessions.list()] == [found.session, own.session]
    assert sessions.list()[0].ended
    assert sessions.current().session == own.session


@pytest.mark.full
def test_a_long_file_is_kept_in_bounded_memory(vault: Vault, tmp_path: Path) -> None:
    path = write(tmp_path / "a.jsonl", [line(at, "user", f"{at} " + "words " * 2000) for at in range(500)])
    assert path.stat().st_size > 5_000_000
    tracemalloc.start()
    found = vault.one(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found.added == 500
    assert peak < 4_000_000


@pytest.mark.full
@needs_data
def test_every_real_sample_is_kept_whole_and_once(vault: Vault) -> None:
    found = vault.take(DATA)
    assert found
    assert {each.outcome for each in found} == {"new"}
    for each in found:
        events = vault.events(each)
        said = [each for each in events if isinstance(each, MessageEvent)]
        assert len(said) == each.added > 0
        assert not any(isinstance(event, Trimmed) for event in events)
    assert {each.outcome for each in vault.take(DATA)} == {"same"}


@pytest.mark.full(but=1)
@needs_data
@pytest.mark.parametrize("part", [0.1, 0.5, 0.9])
def test_a_real_sample_imported_while_it_grows_is_the_same_in_the_end(tmp_path: Path, part: float) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    at_once, growing = Vault(tmp_path / "a"), Vault(tmp_path / "b")
    for sample in sorted(DATA.glob("claude-code/*.jsonl")) + sorted(DATA.glob("*/rollout-*.jsonl")):
        lines = sample.read_bytes().splitlines(keepends=True)
        path = tmp_path / sample.name
        path.write_bytes(b"".join(lines[: max(1, int(len(lines) * part))]))
        begun = growing.one(path)
        path.write_bytes(b"".join(lines))
        grown = growing.one(path)
        assert begun.outcome == "empty" or begun.session == grown.session
        wanted = at_once.one(path)
        assert wanted.session == grown.session
        texts = [each.message.text for each in window_of(growing.log(grown).events())]
        assert sorted(texts) == sorted(at_once.texts(wanted)), sample.name
