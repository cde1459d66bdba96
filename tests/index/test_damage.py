"""The index can be damaged at any time: it is noticed, or it makes no difference, and it is always mended."""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import shutil
import signal
from collections import Counter
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import tiers
from vademecum.errors import IndexFailed, VadeError
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.search.base import Answer

PAGE = 4096
WORDS = """heron pond frog reed marsh otter willow heath cliff barn mill ferry lantern anvil kettle ledger
    gateway charge refund invoice backup restore deploy rollback cluster shard replica token session cookie
    parser lexer grammar compiler linker loader cache buffer socket packet router switch""".split()
ASKED: list[dict[str, Any]] = [
    {"query": "heron in the marsh"},
    {"query": "E4017"},
    {"query": "which gateway makes a refund", "mode": "bm25"},
    {"query": "東京 田中"},
    {"query": "deploy rollback cluster", "max_results": 20},
    {"query": "where is the kettle"},
    {"query": "tag:seven"},
    {"query": "type:rule parser grammar"},
    {"query": "backup", "mode": "bm25", "max_results": 50},
    {"query": "animals by the water", "mode": "vector"},
    {"query": "src/app/main_7.py"},
    {"query": "", "max_results": 30},
]
SAID = ("damaged", "will be rebuilt", "without the index", "not indexed yet")


@dataclass(frozen=True)
class Ground:
    """A home with its notes, the bytes of a whole index, and what a whole index answers."""

    base: Path
    path: Path
    whole: dict[str, bytes]  # closed, all in one file
    open: dict[str, bytes]  # as a crash leaves it, with much of it in the -wal
    older: dict[str, bytes]  # as it was some notes ago
    answers: list[str]

    def put(self, state: dict[str, bytes]) -> None:
        """Put the files of an index in place, and nothing else."""
        for ending in ("", "-wal", "-shm", "-journal"):
            path = Path(f"{self.path}{ending}")
            if path.is_dir():
                shutil.rmtree(path)
            path.unlink(missing_ok=True)
            if ending in state:
                path.write_bytes(state[ending])


def opened(base: Path, *, start: int = 0, embedder: str = "static") -> Memory:
    """Memory whose clock moves on by a minute with each look, so that no two notes are of one time."""
    minutes = itertools.count(start)
    return connect(
        home=base / "home",
        cwd=base / "work",
        environ={"VADE_EMBEDDER": embedder},
        origin=Origin.USER,
        now=lambda: datetime(2026, 1, 1, tzinfo=UTC) + timedelta(minutes=next(minutes)),
    )


def shape(answer: Answer) -> list[Any]:
    return [
        (each.path, each.start, each.end, each.snippet, each.score, each.relevance, each.key, each.tags)
        for each in answer.results
    ]


def settled(answer: Answer, most: int) -> list[Any]:
    """An answer without what chance decides: the order of equal scores, and which of them are cut off."""
    found = shape(answer)
    scores = [each[4] for each in found]
    if len(set(scores)) < 2:
        return found
    kept = [each for each in found if len(found) < most or each[4] > scores[-1]]
    return sorted(kept, key=lambda each: (-each[4], each[:3]))


def answers(memory: Memory) -> tuple[list[str], list[str]]:
    """Every answer in a form that can be compared, and all that was said beside them."""
    found: list[str] = []
    said: list[str] = []
    for given in ASKED:
        answer = memory.search(**{"min_score": 0.0, "max_results": 6, **given})
        found.append(json.dumps(settled(answer, given.get("max_results", 6))))
        said += answer.degraded
    return found, said


def files_of(path: Path) -> dict[str, bytes]:
    return {
        ending: Path(f"{path}{ending}").read_bytes()
        for ending in ("", "-wal", "-shm")
        if Path(f"{path}{ending}").exists()
    }


def write_notes(memory: Memory, chance: random.Random, numbers: range) -> None:
    for number in numbers:
        some = " ".join(chance.choices(WORDS, k=12))
        text = f"{some}, E{4000 + number}, in src/app/main_{number}.py."
        text += " 東京支社の田中さん。" if number % 10 == 0 else ""
        tags = ["seven"] if number % 7 == 0 else []
        memory.store(text, key=f"note-{number}", tags=tags, type="rule" if number % 5 == 0 else None)


@pytest.fixture(scope="module")
def ground(tmp_path_factory: pytest.TempPathFactory) -> Ground:
    base = tmp_path_factory.mktemp("damage")
    (base / "work").mkdir()
    memory = opened(base)
    chance = random.Random(1)
    write_notes(memory, chance, range(120))
    memory.care.index(rebuild=True)
    path = memory.care.searcher.path
    memory.care.searcher.close()
    older = folded(path)
    memory = opened(base, start=10_000)
    write_notes(memory, chance, range(120, 150))
    memory.care.index()
    crashed = files_of(path)
    memory.care.searcher.close()
    path.unlink()
    memory = opened(base)
    memory.care.index(rebuild=True)
    expected, said = answers(memory)
    assert not said
    assert all(each != "[]" for each in expected)
    memory.care.searcher.close()
    return Ground(base, path, folded(path), crashed, older, expected)


def folded(path: Path) -> dict[str, bytes]:
    """The index with its log folded in, as a clean end leaves it."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    return {"": path.read_bytes()}


# --- damages ------------------------------------------------------------------------------------------------


def flipped(content: bytes, chance: random.Random, count: int) -> bytes:
    changed = bytearray(content)
    for _ in range(count):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def overwritten(content: bytes, chance: random.Random, filling: Callable[[int], bytes]) -> bytes:
    """Whole pages that hold something else, wherever they are."""
    changed = bytearray(content)
    for _ in range(chance.randrange(1, 4)):
        start = chance.randrange(len(changed) // PAGE) * PAGE
        changed[start : start + PAGE] = filling(PAGE)
    return bytes(changed)


def swapped_pages(content: bytes, chance: random.Random) -> bytes:
    pages = [content[at : at + PAGE] for at in range(0, len(content), PAGE)]
    one, other = chance.sample(range(len(pages)), 2)
    pages[one], pages[other] = pages[other], pages[one]
    return b"".join(pages)


def stale_page(content: bytes, older: bytes, chance: random.Random) -> bytes:
    """A page of yesterday in the file of today, as a write that never reached the disk leaves it."""
    at = chance.randrange(min(len(content), len(older)) // PAGE) * PAGE
    return content[:at] + older[at : at + PAGE] + content[at + PAGE :]


def damage(ground: Ground, chance: random.Random) -> tuple[str, dict[str, bytes]]:
    """One damage: its name, and the files it leaves."""
    whole = ground.whole[""]
    main, log, shared = ground.open[""], ground.open["-wal"], ground.open.get("-shm", b"")
    made: dict[str, Callable[[], dict[str, bytes]]] = {
        "one bit": lambda: {"": flipped(whole, chance, 1)},
        "some bits": lambda: {"": flipped(whole, chance, chance.randrange(2, 40))},
        "zeroed pages": lambda: {"": overwritten(whole, chance, bytes)},
        "garbage pages": lambda: {"": overwritten(whole, chance, chance.randbytes)},
        "swapped pages": lambda: {"": swapped_pages(whole, chance)},
        "stale page": lambda: {"": stale_page(whole, ground.older[""], chance)},
        "truncated": lambda: {"": whole[: chance.randrange(len(whole))]},
        "truncated at a page": lambda: {"": whole[: chance.randrange(len(whole) // PAGE) * PAGE]},
        "grown": lambda: {"": whole + chance.randbytes(chance.randrange(1, 3 * PAGE))},
        "all garbage": lambda: {"": chance.randbytes(chance.randrange(1, 2 * len(whole)))},
        "empty": lambda: {"": b""},
        "gone": lambda: {},
        "log gone": lambda: {"": main},
        "log cut": lambda: {"": main, "-wal": log[: chance.randrange(len(log))]},
        "log flipped": lambda: {"": main, "-wal": flipped(log, chance, chance.randrange(1, 9))},
        "log garbage": lambda: {"": main, "-wal": chance.randbytes(len(log))},
        "log of another": lambda: {"": whole, "-wal": log},
        "log of another, older": lambda: {"": ground.older[""], "-wal": log},
        "shared memory garbage": lambda: {
            "": main,
            "-wal": log,
            "-shm": chance.randbytes(len(shared) or 32768),
        },
        "an older index": lambda: dict(ground.older),
    }
    name = chance.choice(list(made))
    return name, made[name]()


def suffered(ground: Ground, state: dict[str, bytes]) -> str:
    """Lay a damaged index down, ask everything of it, mend it; returns whether the damage was noticed.

    "same" when all answers are those of a fresh index, "said" when an answer told of it, else "silent".
    """
    ground.put(state)
    memory = opened(ground.base)
    try:
        found, said = answers(memory)
        again, _ = answers(memory)
        told = any(each in line for line in said for each in SAID)
        if told:
            assert again == ground.answers, "an index made anew answers otherwise"
        memory.care.index(check=True)
        mended, _ = answers(memory)
    finally:
        memory.care.searcher.close()
    assert mended == ground.answers, "a check did not mend it"
    return "same" if found == ground.answers else "said" if told else "silent"


def run(ground: Ground, seed: int, count: int) -> None:
    chance = random.Random(seed)
    seen: Counter[str] = Counter()
    wrong: list[str] = []
    for number in range(count):
        name, state = damage(ground, chance)
        where = f"{name} (seed {seed}, damage {number})"
        try:
            seen[outcome := suffered(ground, state)] += 1
        except (VadeError, AssertionError) as error:
            wrong.append(f"{where}: {type(error).__name__}: {str(error)[:200]}")
            continue
        except Exception as error:  # the claim is that there is none
            wrong.append(f"{where}: not ours: {type(error).__name__}: {error}")
            continue
        # A page of yesterday is whole in itself: only a comparison with the files, `check`, sees that.
        if outcome == "silent" and name != "stale page":
            wrong.append(f"{where}: other answers, and not a word")
    assert not wrong, f"{len(wrong)} of {count} ({dict(seen)}):\n" + "\n".join(wrong)


@pytest.mark.full(but=1)
@pytest.mark.scaled
@pytest.mark.parametrize("seed", range(4))
def test_a_damaged_index_is_noticed_or_answers_as_a_fresh_one(ground: Ground, seed: int) -> None:
    run(ground, seed, tiers.few(2, 10))


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 120))
def test_a_thousand_damages_are_noticed_or_make_no_difference(ground: Ground, seed: int) -> None:
    run(ground, seed, 50)


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    "wrong",
    [
        "update reads set vector = x'00ff'",
        "delete from reads",
        "update reads set vector = hex(randomblob(192))",  # as long as a vector, and no blob
    ],
)
def test_damage_to_what_was_read_is_told_or_makes_no_difference_and_is_mended(
    tmp_path: Path, wrong: str
) -> None:
    (tmp_path / "work").mkdir()
    with opened(tmp_path, embedder="local") as memory:
        write_notes(memory, random.Random(1), range(12))
        memory.care.index()
        path = memory.care.searcher.path
        expected, said = answers(memory)
        assert not said
        asked = memory.search("animals by the water", mode="vector")
        assert (asked.read, asked.coverage.unread) == (True, 0)
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute(wrong)
    with opened(tmp_path, embedder="local") as memory:
        found, said = answers(memory)
        assert found == expected or any(each in line for line in said for each in SAID)
        memory.care.index(check=True)
        assert memory.search("heron").coverage.unread == 0
        assert answers(memory) == (expected, [])


def test_a_check_says_in_its_own_report_that_the_index_was_made_anew(ground: Ground) -> None:
    ground.put(ground.whole)
    rows_gone(ground.path)
    memory = opened(ground.base)
    report = memory.care.index(check=True)
    assert any("will be rebuilt" in said for said in report.degraded)
    assert memory.search("heron").degraded == ()
    memory.care.searcher.close()


def test_notes_taken_in_one_by_one_answer_as_after_a_rebuild_also_when_they_score_the_same(
    tmp_path: Path,
) -> None:
    (tmp_path / "work").mkdir()
    memory = opened(tmp_path)
    for number in (7, 3, 9, 1, 8, 2):
        memory.store(f"The heron stands in the pond, {number}.", key=f"heron-{number}")
        memory.search("heron")
    given: dict[str, Any] = {"query": "heron", "mode": "bm25", "min_score": 0.0, "max_results": 4}
    before = shape(memory.search(**given))
    memory.care.index(rebuild=True)
    assert shape(memory.search(**given)) == before
    memory.care.searcher.close()


# --- things in its place ------------------------------------------------------------------------------------


def a_folder(path: Path) -> None:
    path.unlink()
    path.mkdir()
    (path / "file").write_text("in the way")


def a_folder_as_log(path: Path) -> None:
    Path(f"{path}-wal").mkdir()


def a_pipe(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def a_link_to_nothing(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nowhere") / "index.db")


def a_link_to_itself(path: Path) -> None:
    path.unlink()
    path.symlink_to(path)


def another_database(path: Path) -> None:
    path.unlink()
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("create table orders(id integer primary key); insert into orders values(1)")


def a_table_gone(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("drop table chunks")


def rows_gone(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("delete from chunks where id % 3 = 0")


def short_vectors(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("update vectors set vector = x'010203' where chunk % 5 = 0")


UNUSABLE = (a_folder, a_pipe, a_folder_as_log, a_link_to_nothing, a_link_to_itself)


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    "place",
    [
        a_folder,
        a_folder_as_log,
        a_pipe,
        a_link_to_nothing,
        a_link_to_itself,
        another_database,
        a_table_gone,
        rows_gone,
        short_vectors,
    ],
)
def test_whatever_stands_in_the_place_of_the_index_the_answers_come(
    ground: Ground, place: Callable[[Path], None]
) -> None:
    def late(*_: object) -> None:
        raise AssertionError("whoever reads a pipe waits for ever")

    ground.put(ground.whole)
    place(ground.path)
    memory = opened(ground.base)
    signal.signal(signal.SIGALRM, late)
    signal.alarm(20)
    try:
        found, said = answers(memory)
        assert found == ground.answers or any(each in line for line in said for each in SAID)
        if place in UNUSABLE:  # `vade index` claims nothing then, and searches read the files
            with pytest.raises(IndexFailed, match="nothing was indexed"):
                memory.care.index(check=True)
        else:
            memory.care.index(check=True)
        assert answers(memory)[0] == ground.answers
    finally:
        signal.alarm(0)
        memory.care.searcher.close()
        if ground.path.is_dir():
            shutil.rmtree(ground.path)
