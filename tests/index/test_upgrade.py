"""An index of the earlier version goes on answering while it is brought up to date in place."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import apsw
import pytest

from vademecum.index import corpus, pages, sqlite, sync
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


VAULT = {
    "Plan.md": "---\naliases: [Rollout]\n---\nAsk Ada first. #shipping\n",
    "Plain.md": "# Plain\n\nThe kettle is in the shed.\n",
    **{f"n{number}.md": f"Note {number} of the heron. #heron/day{number}\n" for number in range(10)},
}


@pytest.fixture
def before_tags(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A vault as it was indexed before tags in a text and other names were taken out of it."""
    (tmp_path / "Vault").mkdir()
    for name, text in VAULT.items():
        (tmp_path / "Vault" / name).write_text(text)
    with monkeypatch.context() as earlier, opened(tmp_path) as memory:
        earlier.setattr(corpus, "_tags_in", lambda _: [])
        earlier.setattr(corpus, "_with_aliases", lambda title, _: title)
        memory.store("The kettle leaks.", key="kettle")
        memory.sources.add(tmp_path / "Vault")
        memory.care.index()
        assert not memory.search("tag:shipping ada").results
    path = tmp_path / "home" / "index" / "main.db"
    connection = pages.connect(str(path))
    connection.execute("delete from meta where key = 'extraction'")
    connection.close()
    return path


def hashes(path: Path) -> dict[str, str]:
    connection = apsw.Connection(str(path))
    found: Any = connection.execute("select path, hash from files").fetchall()
    connection.close()
    return {name.rpartition("/")[2]: hash_ for name, hash_ in found}


def vectors(path: Path) -> dict[int, bytes]:
    connection = apsw.Connection(str(path))
    found: Any = connection.execute("select chunk, vector from vectors").fetchall()
    connection.close()
    return dict(found)


@pytest.mark.parametrize("first", ["index", "search"])
def test_a_vault_that_an_earlier_version_indexed_is_found_by_its_tags_and_other_names(
    tmp_path: Path, before_tags: Path, first: str
) -> None:
    kept = vectors(before_tags)
    with opened(tmp_path) as memory:
        if first == "index":
            memory.care.index()
        else:
            memory.search("kettle")
        found = memory.search("tag:shipping ada")
        assert [each.path.rpartition("/")[2] for each in found.results] == ["Plan.md"]
        assert found.degraded == ()
        assert memory.search("rollout").results[0].path.endswith("Plan.md")
        memory.care.index()
        upgraded, spoken = rows(before_tags), terms(before_tags)
        assert len(kept.items() & vectors(before_tags).items()) == 2  # of what says what it said
        memory.care.index(rebuild=True)
    assert upgraded == rows(before_tags)
    assert spoken == terms(before_tags)


def test_a_large_vault_is_read_again_a_few_notes_at_a_time_and_once(
    tmp_path: Path, before_tags: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sync, "_UPGRADE", 0.003)
    for _ in range(200):  # each as a program of its own would ask
        with opened(tmp_path) as memory:
            found = memory.search("heron", mode="bm25")
            assert len(found.results) > 0
            if not found.degraded:
                break
    assert all(hashes(before_tags).values())
    read: list[str] = []
    monkeypatch.setattr(corpus, "_labels", lambda item, _: read.append(item.path))
    with opened(tmp_path) as memory:
        memory.search("heron", mode="bm25")
        memory.care.index()
    assert read == []


def test_an_index_that_is_being_written_answers_as_it_is_and_is_brought_up_to_date_later(
    before_tags: Path,
) -> None:
    other = apsw.Connection(str(before_tags))
    other.execute("begin immediate")
    try:
        index = sqlite.SqliteIndex(before_tags)
        assert index.stats().chunks == len(VAULT) + 1
        index.close()
    finally:
        other.execute("rollback")
        other.close()
    assert all(hashes(before_tags).values())
    sqlite.SqliteIndex(before_tags).close()
    assert sorted(name for name, hash_ in hashes(before_tags).items() if not hash_) == sorted(VAULT)
