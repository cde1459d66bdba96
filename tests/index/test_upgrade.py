"""An index of the earlier version goes on answering while it is brought up to date in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest

from vademecum.index import pages, sqlite, sync
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


NOTES = {
    f"note-{number}": f"Caroline: The heron number {number} came on Tuesday. Why?" for number in range(12)
}
LONG = "Omar: the stork stands in the pond. " + "It waits for frogs all day long. " * 120


def opened(base: Path) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER, environ={"VADE_SWEEP": "off"})


def filled(base: Path, notes: dict[str, str] | None = None) -> Memory:
    memory = opened(base)
    for key, text in (notes or NOTES).items():
        memory.store(text, key=key)
    if notes is None:
        memory.note(LONG)
    memory.care.index()
    return memory


@pytest.fixture(params=sqlite.UPGRADED)
def version(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


def made_earlier(base: Path, version: int, notes: dict[str, str] | None = None) -> Path:
    """The index as an earlier version left it: stemmed as English, and before 3 without who speaks."""
    filled(base, notes).close()
    path = base / "home" / "index" / "main.db"
    connection = pages.connect(str(path))
    for table in ("narrow", "wide"):
        connection.execute(f"drop table {table}")
        connection.execute(
            f"""create virtual table {table} using fts5(
                body, content='', contentless_delete=1, tokenize="porter unicode61 remove_diacritics 2"
            )"""
        )
    connection.execute("insert into narrow(rowid, body) select id, body from chunks")
    connection.execute("insert into wide(rowid, body) select file, group_concat(body) from chunks group by 1")
    connection.execute("drop table languages")
    for column in ("language", *(("speaker", "asks", "says") if version == 2 else ())):
        connection.execute(f"alter table chunks drop column {column}")
    connection.execute(f"pragma user_version = {version}")
    connection.close()
    return path


def terms(path: Path) -> list[tuple[Any, ...]]:
    """Which words stand where, in either table."""
    connection = apsw.Connection(str(path))
    found: list[tuple[Any, ...]] = []
    for table, join in (("narrow", "chunks x on x.id = w.doc"), ("wide", "files x on x.id = w.doc")):
        of = "x.file, x.ord" if table == "narrow" else "x.id, 0"
        asked: Any = connection.execute(f"select w.term, w.offset, {of} from {table}_words w join {join}")
        listed: Any = connection.execute("select id, path from files").fetchall()
        names = dict(listed)
        found += sorted((table, term, at, names[file], order) for term, at, file, order in asked)
    connection.close()
    return found


def rows(path: Path) -> list[tuple[Any, ...]]:
    connection = apsw.Connection(str(path))
    found: Any = connection.execute(
        """select f.path, c.ord, c.speaker, c.asks, c.says from chunks c
        join files f on f.id = c.file
        order by 1, 2"""
    ).fetchall()
    connection.close()
    return list(found)


def test_it_is_what_a_rebuild_would_make_it_after_one_search(tmp_path: Path, version: int) -> None:
    path = made_earlier(tmp_path, version)
    with opened(tmp_path) as memory:
        answer = memory.search("heron number 7")
        assert answer.results[0].key == "note-7"
        assert answer.degraded == ()
        upgraded, spoken = rows(path), terms(path)
        memory.care.index(rebuild=True)
    assert upgraded == rows(path)
    assert spoken == terms(path)
    assert {row[2] for row in upgraded} == {"caroline", "omar"}  # a later part of a cut entry, too


def test_everything_is_found_while_it_is_not_done_and_the_answer_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    path = made_earlier(tmp_path, version)
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
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int
) -> None:
    path = made_earlier(tmp_path, version)
    monkeypatch.setattr(sync, "_UPGRADE", 0.003)
    for _ in range(200):  # each as a program of its own would ask
        with opened(tmp_path) as memory:
            if not memory.search("heron", mode="bm25").degraded:
                break
    assert all(row[3] is not None for row in rows(path))


def test_vectors_are_not_made_again(tmp_path: Path, version: int) -> None:
    path = made_earlier(tmp_path, version)
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
    made_earlier(tmp_path, 2)
    monkeypatch.setattr(sync, "_UPGRADE", -1.0)
    with opened(tmp_path) as memory, opened(tmp_path) as other:
        first = memory.search("what did Omar say about the stork", explain=True).results[0]
        assert first.arithmetic is not None
        assert first.arithmetic["named"] == 0
        other.care.index()
        first = memory.search("what did Omar say about the stork", explain=True).results[0]
        assert first.arithmetic is not None
        assert first.arithmetic["named"] > 0


def test_a_note_in_another_language_is_found_by_its_stems_after_the_upgrade(tmp_path: Path) -> None:
    notes = {"haus": "Die alten Häuser am See sind verkauft.", "fox": "The fox has left the garden."}
    made_earlier(tmp_path, 3, notes)
    with opened(tmp_path) as memory:
        found = memory.search("Haus", mode="bm25")
        assert [each.key for each in found.results] == ["haus"]
        assert not found.notes
