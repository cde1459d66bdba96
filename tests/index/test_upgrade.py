"""An index of the earlier version goes on answering while it is brought up to date in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw

from vademecum.index import pages, sqlite, sync
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

NOTES = {
    f"note-{number}": f"Caroline: The heron number {number} came on Tuesday. Why?" for number in range(12)
}
LONG = "Omar: the stork stands in the pond. " + "It waits for frogs all day long. " * 120


def opened(base: Path) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER, environ={"VADE_SWEEP": "off"})


def filled(base: Path) -> Memory:
    memory = opened(base)
    for key, text in NOTES.items():
        memory.store(text, key=key)
    memory.note(LONG)
    memory.care.index()
    return memory


def made_earlier(base: Path) -> Path:
    """The index as the version before left it: the same rows without who speaks."""
    filled(base).close()
    path = base / "home" / "index" / "main.db"
    connection = pages.connect(str(path))
    for column in ("speaker", "asks", "says"):
        connection.execute(f"alter table chunks drop column {column}")
    connection.execute(f"pragma user_version = {sqlite.UPGRADED}")
    connection.close()
    return path


def rows(path: Path) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    found: Any = connection.execute(
        """select f.path, c.ord, c.speaker, c.asks, c.says from chunks c
        join files f on f.id = c.file
        order by 1, 2"""
    ).fetchall()
    connection.close()
    return list(found)


def test_it_is_what_a_rebuild_would_make_it_after_one_search(tmp_path: Path) -> None:
    path = made_earlier(tmp_path)
    with opened(tmp_path) as memory:
        answer = memory.search("heron number 7")
        assert answer.results[0].key == "note-7"
        assert answer.degraded == ()
        upgraded = rows(path)
        memory.care.index(rebuild=True)
    assert upgraded == rows(path)
    assert {row[2] for row in upgraded} == {"caroline", "omar"}  # a later part of a cut entry, too


def test_everything_is_found_while_it_is_not_done_and_the_answer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made_earlier(tmp_path)
    monkeypatch.setattr(sync, "_UPGRADE", -1.0)  # no time for it
    with opened(tmp_path) as memory:
        for mode in ("hybrid", "bm25"):
            answer = memory.search("heron number 7", mode=mode)
            assert answer.results[0].key == "note-7"
            assert answer.mode == mode
            assert any("being upgraded: 13 of 13 files" in said for said in answer.degraded)
        memory.store("The heron number 99 came late.", key="late")
        assert memory.search("heron number 99").results[0].key == "late"
        memory.care.index()
        assert memory.search("heron number 7").degraded == ()
        memory.care.index(check=True)
    assert all(row[3] is not None for row in rows(path))


def test_a_few_files_are_brought_up_to_date_with_each_question(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = made_earlier(tmp_path)
    monkeypatch.setattr(sync, "_UPGRADE", 0.003)
    for _ in range(200):  # each as a program of its own would ask
        with opened(tmp_path) as memory:
            if not memory.search("heron", mode="bm25").degraded:
                break
    assert all(row[3] is not None for row in rows(path))


def test_vectors_are_not_made_again(tmp_path: Path) -> None:
    path = made_earlier(tmp_path)
    connection = apsw.Connection(str(path))
    before: Any = connection.execute("select chunk, vector from vectors order by 1").fetchall()
    connection.close()
    with opened(tmp_path) as memory:
        memory.care.index()
    connection = apsw.Connection(str(path))
    after: Any = connection.execute("select chunk, vector from vectors order by 1").fetchall()
    connection.close()
    assert before == after


def test_the_ranking_of_a_process_that_looked_before_the_upgrade_knows_who_speaks_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made_earlier(tmp_path)
    monkeypatch.setattr(sync, "_UPGRADE", -1.0)
    with opened(tmp_path) as memory, opened(tmp_path) as other:
        first = memory.search("what did Omar say about the stork", explain=True).results[0]
        assert first.arithmetic is not None
        assert first.arithmetic["named"] == 0
        other.care.index()
        first = memory.search("what did Omar say about the stork", explain=True).results[0]
        assert first.arithmetic is not None
        assert first.arithmetic["named"] > 0
