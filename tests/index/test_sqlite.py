"""An index in a file: no other database passes for one, no damaged page is an answer, a copy replaces it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from vademecum.errors import IndexFailed, IndexNewer
from vademecum.index.base import EVERYTHING, Filter, IndexDocument, IndexItem, Labels, Piece, Stamp
from vademecum.index.sqlite import NOTES, SESSIONS, VERSION, IndexKind, SqliteIndex, is_damage
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from pathlib import Path

KINDS = pytest.mark.parametrize("kind", [NOTES, SESSIONS], ids=["notes", "sessions"])


def log(session: str, *said: str, grown: str = "") -> IndexDocument:
    path = f"transcripts/acme/{session}.jsonl"
    place = Place(Scope.PROJECT, "acme")
    item = IndexItem(path, path, "transcript", "session", place, "", Stamp(1, 1, 1, 1), lambda: None)
    pieces = [Piece(line, line, "", text=text, place=text.encode()) for line, text in enumerate(said, 1)]
    return IndexDocument(
        item, "", Labels(session, session, updated=session), pieces, state=session, grown=grown
    )


def matched(index: SqliteIndex, word: str, filter: Filter = EVERYTHING) -> list[bytes]:
    ids = index.match([(word,)], filter, 10)
    rows = index.rows(ids)
    return [rows[id_].place for id_ in ids]


def test_of_what_matches_as_well_the_newest_session_and_the_last_line_come_first() -> None:
    index = SqliteIndex(":memory:", SESSIONS)
    index.put([log("2026-02", "a heron one", "a heron two")])
    index.put([log("2026-03", "a heron new")])
    index.put([log("2026-01", "a heron old")])
    assert matched(index, "herons") == [b"a heron new", b"a heron two", b"a heron one", b"a heron old"]
    index.close()


@KINDS
def test_other_files_are_refused_and_only_damage_is_told_as_such(tmp_path: Path, kind: IndexKind) -> None:
    for version, error in ((VERSION + 1, IndexNewer), (1, IndexFailed)):
        path = tmp_path / f"{version}.db"
        connection = apsw.Connection(str(path))
        connection.execute(f"create table notes(body); pragma user_version = {version}")
        connection.close()
        with pytest.raises(error):
            SqliteIndex(path, kind)
    (tmp_path / "rubbish.db").write_bytes(b"no database " * 1000)
    with pytest.raises(IndexFailed) as failed:
        SqliteIndex(tmp_path / "rubbish.db", kind)
    assert is_damage(failed.value)
    index, other = SqliteIndex(tmp_path / "held.db", kind), SqliteIndex(tmp_path / "held.db", kind)
    other.patience = 0.01
    index._connection.execute("begin immediate")
    with pytest.raises(IndexFailed) as held:
        other.put(settings={"a": "b"})
    assert not is_damage(held.value)
    index._connection.execute("rollback")
    other.put(settings={"a": "b"})
    index.close()
    other.close()


def test_an_index_of_notes_is_none_of_sessions(tmp_path: Path) -> None:
    SqliteIndex(tmp_path / "x.db").close()
    with pytest.raises(IndexFailed):
        SqliteIndex(tmp_path / "x.db", SESSIONS)


def test_a_transaction_that_fails_leaves_all_as_it_was(tmp_path: Path) -> None:
    index = SqliteIndex(tmp_path / "x.db", SESSIONS)
    broken = log("two", "the otter")
    broken = broken._replace(pieces=[Piece(1, 1, "", heading=None, text="the otter")])  # type: ignore[arg-type]
    with pytest.raises(IndexFailed):
        index.put([log("one", "the heron"), broken])
    assert index.known(EVERYTHING) == {}
    assert index.contents() == {}
    assert index.check() == []
    index.close()


def test_a_damaged_page_is_never_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    index = SqliteIndex(path, SESSIONS)
    index.put([log("one", *(f"the heron {at} " * 50 for at in range(200)))], last=True)
    index.close()
    clean = path.read_bytes()
    for page in range(1, len(clean) // 4096):
        content = bytearray(clean)
        content[page * 4096 + 2000] ^= 0xFF
        path.write_bytes(content)
        assert is_noticed(path), page


def is_noticed(path: Path) -> bool:
    """Whether a look at all of a file finds something wrong."""
    try:
        index = SqliteIndex(path, SESSIONS)
    except IndexFailed:
        return True
    try:
        return bool(index.check())
    except IndexFailed:
        return True
    finally:
        index.close()


def test_a_copy_takes_the_place_of_what_was_there(tmp_path: Path) -> None:
    index, aside = SqliteIndex(tmp_path / "x.db", SESSIONS), SqliteIndex(tmp_path / "x.db.new", SESSIONS)
    index.put([log("old", "the heron")])
    aside.put([log("new", "the otter")])
    index.replace_with(aside)
    aside.close()
    assert list(index.known(EVERYTHING)) == ["transcripts/acme/new.jsonl"]
    assert matched(index, "heron") == []
    index.close()
