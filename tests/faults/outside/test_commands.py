"""Every command that changes something, killed or failing at calls of its own and of SQLite's, from outside.

The commands are those of the command table, in processes with a library before libc (`shim.c`). After each
the same questions are asked: is anything lost that was acknowledged, is anything torn, does the next command
work and leave all in order.
"""

from __future__ import annotations

import errno
import json
import os
import random
import re
import shutil
import tempfile
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pytest

import allowing
from faults import operations
from faults.operations import Ground, Tree
from faults.outside import rows
from faults.outside.nursery import (
    ANY,
    CHANGES,
    KILL_AFTER,
    KILL_BEFORE,
    PLANTED,
    SHORT,
    Done,
    Nursery,
    compiled,
    nursery,
)
from faults.outside.rows import ELSEWHERE, FIRST, NEIGHBOUR, READS, ROWS, SAID, STEADY, Row
from llm.wire_server import KEY, Say, WireServer, serving
from vademecum.interfaces.cli.app import cli
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

PLAN = json.dumps({"groups": [{"statements": [1, 2, 3]}]})
AFTER = "This came after everything else."
ERRORS = (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EMFILE, SHORT)
_VARYING = (
    (re.compile(r"\d{8}T\d{6}Z-[0-9a-f]+"), "RUN"),
    (re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}"), "ID"),
    (re.compile(r"\bid: [0-9a-hjkmnp-tv-z]{10}\b|\"id\": \"[0-9a-hjkmnp-tv-z]{10}\""), "MARK"),
    (re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?"), "TIME"),
    (re.compile(r"\d{4}-\d\d-\d\d"), "DAY"),
    (re.compile(r"\b\d\d:\d\d(:\d\d)?\b"), "HOUR"),
    (re.compile(r"\b(?=[0-9a-f]*\d)[0-9a-f]{8,64}\b"), "HASH"),
)


@dataclass
class Found:
    """What many runs of one command amount to."""

    kills: int = 0
    errors: int = 0
    problems: list[str] = field(default_factory=list)


class Place:
    """A folder with a home, a project and a person, the commands that run there, and a scripted model."""

    def __init__(self, here: Ground, nursery: Nursery, wire: WireServer) -> None:
        self.here, self._nursery, self._wire = here, nursery, wire
        self.environ = {
            "HOME": str(here.top / "person"),
            "VADE_HOME": str(here.home),
            "VADE_EMBEDDER": "none",
            "VADE_LIMITS_HOOK_START": "9s",
            "VADE_LIMITS_HOOK_PROMPT": "9s",
            "VADE_LLM_ENDPOINT": wire.endpoint("openai"),
            "VADE_SCRIPT": allowing.SCRIPT,
            "OPENAI_API_KEY": KEY,
            "PATH": os.environ["PATH"],
            "USER": "ada",
            "TZ": "UTC",
        }

    def vade(self, words: rows.Words, *, stdin: str = "", **fault: Any) -> Done:
        environ = {**self.environ, **fault.pop("environ", {})}
        return self._nursery.run(
            words, top=self.here.top, cwd=self.here.project, environ=environ, stdin=stdin, **fault
        )

    def row(self, row: Row, **fault: Any) -> Done:
        self._wire.script(Say(PLAN if "compact" in row.words else "In the reeds by the river."))
        return self.vade(row.words, stdin=self._stdin(row), environ=row.environ, **fault)

    def lay(self, row: Row) -> Tree:
        """Everything that a command needs, as a tree that can be put back."""
        tree: Tree = {"project/.git": None, "person": None, "vault": None}
        project = json.dumps(str(self.here.project))
        for name, text in row.files.items():
            if "/" in name:
                tree[name] = text.replace('"PROJECT"', project).encode()
        self.here.put(tree)
        allowing.allow(self.here.home)
        if "SWEEP" in row.environ:
            settings = self.here.home / "config.toml"
            settings.write_text(settings.read_text() + rows.SWEEP)
        memory = connect(home=self.here.home, cwd=self.here.project, agent="main", origin=Origin.USER)
        memory.store(NEIGHBOUR, key="neighbour", scope="global")
        for words in row.before:
            done = self._agent(words[1]) if words[0] == "mcp" else self.vade(words, environ=row.environ)
            assert done.code == 0, (row.name, words, done)
        if "copy" in row.files:
            whole = self.here.home / "memory/global/records/build.md"
            copied = f"{whole.read_text()}\n## 2026-01-02T03:04:05Z\n{row.files['copy']}\n"
            whole.with_name("build.sync-conflict-20260102-030405-ABCDEFG.md").write_text(copied)
        if "journal" in row.files:
            (journal,) = (self.here.home / "memory/project").glob("*")
            for day in ("2026-01-02", "2026-01-05"):
                path = journal / f"journal/{day}.md"
                path.parent.mkdir(exist_ok=True)
                path.write_text(f"# {day}\n\n## 09:00:00\n\n{STEADY}\n")
        return self.here.tree()

    def _agent(self, said: str) -> Done:
        """What an agent asks for, which waits for a person."""
        tool, key = said.split()
        asked = rows._write_requests((f"memory_{tool}", {"key": key}))
        return self.vade(("mcp",), stdin=asked)

    def _stdin(self, row: Row) -> str:
        if row.stdin != "hook":
            return row.stdin
        path = self.here.top / "person/.claude/projects/-p/s.jsonl"
        given = {
            "session_id": "s",
            "cwd": str(self.here.project),
            "transcript_path": str(path),
            "prompt": SAID,
        }
        return json.dumps(given)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("shim")
    shim = compiled(folder)
    if shim is None:
        pytest.skip("needs Linux and a C compiler")
    top = Path(os.path.realpath(tempfile.mkdtemp(prefix="vade-outside-")))
    try:
        with nursery(shim, folder) as made, serving() as wire:
            yield Place(Ground(top), made, wire)
    finally:
        shutil.rmtree(top)


# -------------------------------------------------------------------- what is asked afterwards


def shape(tree: Tree) -> dict[str, str]:
    """What memory, the project and the person's files say, without times, ids and numbers of runs."""
    shown = {}
    for name, content in tree.items():
        last = name.rpartition("/")[2]
        ours = name.startswith(("home/memory/", "home/decisions/", "project/", "person/"))
        if content is None or not ours or last.startswith(".vade-") or ".part/" in name:
            continue
        shown[_steady(name)] = _steady(content.decode("utf-8", "replace"))
    return shown


def _steady(text: str) -> str:
    for pattern, word in _VARYING:
        text = pattern.sub(word, text)
    return text


def torn(tree: Tree, *versions: dict[str, str]) -> Iterator[str]:
    """Files that say neither what they said before nor what they say after a clean run."""
    now = shape(tree)
    for name in sorted({*now, *(name for each in versions for name in each)}):
        if now.get(name) not in [each.get(name) for each in versions]:
            yield f"torn, or lost: {name}: {(now.get(name) or 'absent')[:300]!r}"


def unsound(tree: Tree) -> Iterator[str]:
    """Lines of logs and files of JSON that cannot be read, and empty files."""
    for name, content in tree.items():
        last = name.rpartition("/")[2]
        if content is None or last.startswith(".") or not name.startswith("home/"):
            continue
        if name.endswith(".jsonl"):
            whole, _, rest = content.rpartition(b"\n")
            lines = whole.splitlines() if whole else []
            if rest:
                yield f"a half line at the end of {name}"
            if not all(_is_json(line) for line in lines):
                yield f"a line that is no JSON in {name}"
        elif name.endswith(".json") and not _is_json(content):
            yield f"no JSON: {name}"


def _is_json(content: bytes) -> bool:
    try:
        json.loads(content)
    except ValueError:
        return False
    return True


def said_badly(done: Done, row: Row) -> Iterator[str]:
    if "Traceback" in done.err or "internal error" in done.err:
        yield f"not a message: {done.err[-400:]}"
    if row.always and done.code > 0:
        yield f"a hook ended with {done.code}"
    if row.always and done.code == 0 and done.out and not _is_json(done.out.encode()):
        yield f"a hook said {done.out[:80]!r}"


def questions(
    place: Place, row: Row, done: Done, before: dict[str, str], after: dict[str, str]
) -> Iterator[str]:
    """What is wrong right after something went wrong."""
    tree = place.here.tree()
    acknowledged = row.acknowledged(done)
    yield from torn(tree, *([after] if acknowledged else [before, after]))
    yield from operations.torn_images(tree)
    yield from operations.lost(tree, (NEIGHBOUR, *(() if row.gone else (FIRST,))))
    if (
        acknowledged
        and row.said
        and not any(
            row.said.encode() in (each or b"")
            for name, each in tree.items()
            if name.startswith("home/transcripts/")
        )
    ):
        yield f"acknowledged and not in the transcripts: {row.said}"
    if done.code >= 0:
        yield from said_badly(done, row)


def afterwards(place: Place, row: Row, *, whole: bool) -> Iterator[str]:
    """What is wrong once the same command was given again, and another one."""
    again = place.row(row)
    if again.code < 0:
        yield f"given again, it died: {again}"
    yield from said_badly(again, row)
    last = place.vade(rows.store(AFTER, "build"))
    if last.code != 0:
        yield f"the next command failed: {last.err}"
    # A new record writes in every folder that the command may have written in.
    last = place.vade(rows.store(AFTER, "another", "global"))
    if last.code != 0:
        yield f"the one after it failed: {last.err}"
    tree = place.here.tree()
    yield from operations.litter({name: each for name, each in tree.items() if not name.endswith(".lock")})
    yield from (f"litter: {name}" for name in tree if name.endswith(".part"))
    yield from unsound(tree)
    yield from operations.torn_images(tree)
    yield from operations.alarms(place.here)
    yield from operations.lost(tree, (NEIGHBOUR, AFTER, *(() if row.gone else (FIRST,))))
    memory = connect(home=place.here.home, cwd=place.here.project, agent="main", origin=Origin.USER)
    yield from operations.unreadable(memory)
    if whole:
        said = place.vade(("doctor",))
        if said.code != 0:
            yield f"the doctor: {[line for line in said.out.splitlines() if '✗' in line]}"


def spread(total: int, count: int, seed: str) -> list[int]:
    """Points spread over all there are, the same in every run."""
    if total <= count:
        return [*range(total)]
    chance, step = random.Random(f"{seed}{total}"), total / max(count, 1)
    return sorted({int(chance.uniform(each * step, (each + 1) * step)) for each in range(count)})


def hurt(place: Place, row: Row, *, kills: int, errors: int, whole: bool | None) -> Found:
    """Kill one command at so many of its calls, let so many others fail, and ask after each.

    With `whole`, the doctor is asked as well; with None, nothing is asked but what is left behind.
    """
    found = Found()
    tree = place.lay(row)
    before = shape(tree)
    clean = place.row(row, kinds=CHANGES)
    assert row.acknowledged(clean) or row.always, (row.name, clean)
    after = shape(place.here.tree())
    place.here.put(tree)
    total = place.row(row, kinds=ANY).calls if errors else 0
    cases: list[tuple[int, int, bool, int]] = []
    for number, point in enumerate(spread(clean.calls, kills, row.name)):
        cases.append((point, (KILL_BEFORE, KILL_AFTER)[number % 2], False, CHANGES))
    for number, point in enumerate(spread(total, errors, f"{row.name}!")):
        cases.append((point, ERRORS[number % len(ERRORS)], number % 3 == 2, ANY))
    for point, failure, lasting, kinds in cases:
        place.here.put(tree)
        done = place.row(row, point=point, failure=failure, lasting=lasting, kinds=kinds)
        wrong = [*questions(place, row, done, before, after)]
        if whole is not None:
            wrong += afterwards(place, row, whole=whole)
        how = {KILL_BEFORE: "killed before", KILL_AFTER: "killed after", SHORT: "half written at"}
        at = f"{how.get(failure) or errno.errorcode[failure]} call {point}{' and on' if lasting else ''}"
        found.problems += [f"{row.name}, {at} ({done.code}): {each}" for each in wrong]
        found.kills += kinds == CHANGES
        found.errors += kinds == ANY
    return found


# -------------------------------------------------------------------- the tests


def leaves(group: click.Command, above: tuple[str, ...] = ()) -> Iterator[str]:
    """The commands of the command table, with those below them."""
    if not isinstance(group, click.Group):
        yield " ".join(above)
        return
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        yield from leaves(command, (*above, name))


def test_every_command_is_killed_here_or_keeps_nothing() -> None:
    listed = Counter([*{row.command for row in ROWS}, *READS, *ELSEWHERE])
    assert sorted(listed) == sorted(leaves(cli))
    assert max(listed.values()) == 1
    assert len({row.name for row in ROWS}) == len(ROWS)


@pytest.mark.full(but=2)
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_command_killed_or_failing_loses_nothing_and_leaves_all_in_order(place: Place, row: Row) -> None:
    killed = ROWS.index(row) % 2  # every other one: all of it is in the long run
    found = hurt(place, row, kills=killed, errors=1 - killed, whole=False)
    assert found.problems == []
    assert found.kills + found.errors == 1


@pytest.mark.soak
@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.name)
def test_a_command_killed_or_failing_at_sixty_calls(place: Place, row: Row) -> None:
    calls = int(os.environ.get("FAULTS_CALLS", "60"))
    found = hurt(place, row, kills=calls * 2 // 3, errors=calls // 3, whole=True)
    assert found.problems == []
    print(f"{row.name}: {found.kills} kills, {found.errors} failing calls")


@pytest.mark.full
def test_a_writer_that_writes_in_place_is_caught_from_outside_too(place: Place) -> None:
    row = replace(ROWS[0], environ={PLANTED: "1"})
    problems = hurt(place, row, kills=40, errors=0, whole=None).problems
    assert any("torn, or lost" in each and "records/build.md" in each for each in problems)
