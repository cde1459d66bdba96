"""The sessions' index file: rows go in whole or not at all, and only what may be seen comes out."""

from __future__ import annotations

from typing import TYPE_CHECKING

import apsw
import pytest

from vademecum.errors import IndexFailed, IndexNewer
from vademecum.index.turns import VERSION, Kept, Part, Turns, copy, is_damage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


def part(line: int, body: str, *, at: int = 0) -> Part:
    when = "2026-11-15T08:00:00Z"
    numbers = line, line * 10, line * 10 + 9, 1
    return Part(*numbers, "user", when, when, at, len(body), 3, 0, 0, body.encode(), body)


@pytest.fixture
def index(tmp_path: Path) -> Iterator[Turns]:
    made = Turns(tmp_path / "x~sessions.db")
    yield made
    made.close()


def matched(index: Turns, expression: str, where: str = "1", *values: str) -> list[int]:
    with index.reading():
        ids = [id_ for id_, _ in index.match(expression, where, values, 10)]
        rows = index.rows(ids, where, values)
    return [rows[id_].part.line for id_ in ids]


def test_what_was_said_is_matched_under_a_condition_with_its_log(index: Turns) -> None:
    index.put(None, Kept("acme", "one", agent="robin", updated="2026-01"), [part(2, "the heron stands")])
    index.put(None, Kept("acme", "two", agent="wren", updated="2026-02"), [part(5, "a heron standing")])
    assert matched(index, '"standing"') == [5, 2]
    assert matched(index, '"heron"', "l.agent = ?", "robin") == [2]
    assert matched(index, '"otter" OR "heron"', "l.project = ?", "other") == []
    assert index.frequency("herons") == index.count() == 2
    assert index.holding("heron", [1]) == {1}
    assert index.holding("otter", [1, 2]) == set()
    assert index.holding("heron", []) == set()


def test_who_comes_too_late_writes_nothing(index: Turns) -> None:
    first = index.put(None, Kept("acme", "one", upto=10, mark=b"a"), [part(1, "the heron")])
    assert first is not None
    assert index.put(None, Kept("acme", "one"), [part(1, "the heron")]) is None
    second = index.put(first, first._replace(upto=20, mark=b"b"), [part(2, "the otter")])
    assert second is not None
    assert index.put(first, first._replace(upto=30), [part(2, "the otter")]) is None
    assert index.logs(["acme"]) == {("acme", "one"): second}
    assert [each.line for each in index.parts(second)] == [1, 2]
    assert index.count() == 2


def test_a_log_that_is_dropped_leaves_nothing_behind(index: Turns) -> None:
    kept = index.put(None, Kept("acme", "one"), [part(1, "the heron"), part(2, "the otter")])
    other = index.put(None, Kept("acme", "two"), [part(1, "the heron sleeps")])
    assert kept is not None
    assert other is not None
    index.drop([kept])
    assert matched(index, '"heron"') == [1]
    assert matched(index, '"otter"') == []
    assert list(index.everything()) == [("acme", "two")]
    assert index.check() == []


def test_a_transaction_that_fails_leaves_all_as_it_was(index: Turns) -> None:
    broken = part(2, "the otter")._replace(line=None)  # type: ignore[arg-type]  # what the table refuses
    with pytest.raises(IndexFailed):
        index.put(None, Kept("acme", "one"), [part(1, "the heron"), broken])
    assert index.everything() == {}
    assert index.check() == []


def test_other_files_are_refused_and_only_damage_is_told_as_such(tmp_path: Path) -> None:
    for version, kind in ((VERSION + 1, IndexNewer), (VERSION, IndexFailed)):
        path = tmp_path / f"{version}.db"
        connection = apsw.Connection(str(path))
        connection.execute(f"create table notes(body); pragma user_version = {version}")
        connection.close()
        with pytest.raises(kind):
            Turns(path)
    (tmp_path / "rubbish.db").write_bytes(b"no database " * 1000)
    with pytest.raises(IndexFailed) as failed:
        Turns(tmp_path / "rubbish.db")
    assert is_damage(failed.value)
    index = Turns(tmp_path / "held.db")
    other = Turns(tmp_path / "held.db")
    other.wait_at_most(0.01)
    with index.writing(), pytest.raises(IndexFailed) as held, other.writing():
        pass
    assert not is_damage(held.value)
    index.close()
    other.close()


def test_a_damaged_page_is_never_an_answer(tmp_path: Path) -> None:
    path = tmp_path / "x.db"
    index = Turns(path)
    index.put(None, Kept("acme", "one"), [part(at, f"the heron {at} " * 50) for at in range(200)])
    index.tidy()
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
        index = Turns(path)
    except IndexFailed:
        return True
    try:
        return bool(index.check())
    except IndexFailed:
        return True
    finally:
        index.close()


def test_a_copy_takes_the_place_of_what_was_there(index: Turns) -> None:
    index.put(None, Kept("acme", "old"), [part(1, "the heron")])
    aside = Turns(f"{index.path}.new")
    aside.put(None, Kept("acme", "new"), [part(1, "the otter")])
    copy(aside, index)
    aside.close()
    assert list(index.everything()) == [("acme", "new")]
    assert matched(index, '"heron"') == []
