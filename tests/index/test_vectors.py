"""The matrix holds what the index holds, whoever wrote it in whatever order, and finds what is nearest."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.index import vectors as module
from vademecum.index.base import Filter, IndexItem, Stamp
from vademecum.index.corpus import read_document
from vademecum.index.sqlite import SqliteIndex
from vademecum.index.vectors import Matrix, pack, unpack
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    Floats = NDArray[np.float32]

DIMENSION = 16
MODEL = "a model"


def vector_of(id_: int, generation: int = 0, dimension: int = DIMENSION) -> Floats:
    """The unit vector of a chunk, another one in each generation."""
    row = np.random.default_rng([id_, generation]).normal(size=dimension).astype(np.float32)
    return np.asarray(row / np.linalg.norm(row), np.float32)


def put_file(index: SqliteIndex, name: str, parts: int, text: str = "The heron stands in the pond.") -> None:
    """Take in a file of some chunks."""
    content = "".join(f"## Part {number}\n\n{text * 30} {number}\n\n" for number in range(parts)).encode()
    place = Place(Scope.GLOBAL)
    stamp = Stamp(len(content), 1, 1, 1)
    item = IndexItem(f"vault/{name}", f"vault/{name}", "vault", "markdown", place, "", stamp, lambda: content)
    index.put([read_document(item, content, str(hash(content)), tokens=100, overlap=0)])


def remove_file(index: SqliteIndex, name: str) -> None:
    index.drop([each.id for each in index.known(Filter(items=(f"vault/{name}",))).values()])


def waiting_in(index: SqliteIndex) -> list[int]:
    """The chunks that have no vector yet."""
    return [*index.match((), Filter(bare=True), None)]


def embed(
    index: SqliteIndex, generation: int = 0, *, only: int | None = None, dimension: int = DIMENSION
) -> None:
    """Make vectors for some of those that wait, from the last one on: any order is allowed."""
    waiting = waiting_in(index)[::-1]
    chosen = waiting[:only]
    if not chosen:
        return
    rows = pack(np.array([vector_of(id_, generation, dimension) for id_ in chosen], np.float32))
    index.put(vectors=zip(chosen, rows, strict=True), settings={"vectors": MODEL})


def drop(index: SqliteIndex) -> None:
    index.drop((), vectors=True)


def refresh(matrix: Matrix, index: SqliteIndex) -> None:
    matrix.refresh(index._vectors, index.stats().version, index.stats().settings, MODEL)


def kept(index: SqliteIndex) -> tuple[list[int], Floats]:
    """What the index itself holds."""
    rows: list[Any] = index._ask("select chunk, vector from vectors order by chunk")
    if not rows:
        return [], np.zeros((0, DIMENSION), np.float32)
    packed = np.frombuffer(b"".join(row[1] for row in rows), np.int8).reshape(len(rows), -1)
    return [row[0] for row in rows], unpack(packed)


def agree(matrix: Matrix, index: SqliteIndex, *, limit: int = 7) -> None:
    """The matrix answers as a comparison of every vector in the index does."""
    refresh(matrix, index)
    ids, vectors = kept(index)
    assert len(matrix) == len(ids)
    living = np.flatnonzero(matrix.living[: matrix.size])
    assert matrix.ids[living].tolist() == ids
    if not ids:
        return
    assert np.allclose(matrix.exact(living), vectors, atol=1e-6)
    marks = {id_: row.mark for id_, row in index.rows(ids).items()}
    assert matrix.marks(living) == marks
    known, rows = matrix.rows_of([*ids, 10**9, 0])
    assert [id_ for id_ in known if id_ in marks] == ids
    assert matrix.ids[rows[: len(ids)]].tolist() == ids
    some = sorted({mark.file for mark in marks.values()})[::2]
    for seed in range(3):
        query = vector_of(seed, 999, vectors.shape[1])
        for allowed in (None, set(some)):
            open_ids = [n for n, id_ in enumerate(ids) if allowed is None or marks[id_].file in allowed]
            cosines = vectors[open_ids] @ query
            best = np.argsort(-cosines, kind="stable")[:limit]
            mask = None if allowed is None else matrix.mask(files=some)
            found = matrix.nearest(query, limit, allowed=mask)
            order = np.argsort(-found.cosines, kind="stable")
            assert matrix.ids[found.rows[order]].tolist() == [ids[open_ids[place]] for place in best]
            assert np.allclose(found.cosines[order], cosines[best], atol=1e-5)


# --- one who writes and reads -------------------------------------------------------------------------------

NAMES = "abcd"
steps = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(NAMES), st.integers(1, 4)),
        st.tuples(st.just("rewrite"), st.sampled_from(NAMES), st.integers(1, 4)),
        st.tuples(st.just("remove"), st.sampled_from(NAMES), st.just(0)),
        st.tuples(st.just("embed"), st.just(""), st.integers(1, 9)),
        st.tuples(st.just("drop"), st.just(""), st.just(0)),
        st.tuples(st.just("refresh"), st.just(""), st.just(0)),
    ),
    max_size=14,
)


def take(index: SqliteIndex, step: tuple[str, str, int], generation: int) -> None:
    what, name, number = step
    if what in ("put", "rewrite"):
        put_file(index, name, number, "The heron stands." if what == "put" else f"The stork {generation}.")
    elif what == "remove":
        remove_file(index, name)
    elif what == "embed":
        embed(index, generation, only=number)
    elif what == "drop":
        drop(index)
        embed(index, generation)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("matrix")


@settings(max_examples=100, deadline=None, derandomize=True)
@given(steps, st.booleans())
def test_whatever_is_put_in_and_taken_out_the_matrix_is_what_the_index_is(
    taken: list[tuple[str, str, int]], at_once: bool
) -> None:
    index, matrix = SqliteIndex(":memory:"), Matrix()
    for generation, step in enumerate(taken):
        take(index, step, generation)
        if at_once and step[0] == "put":
            embed(index, generation)
        if at_once or step[0] == "refresh":
            agree(matrix, index)
    agree(matrix, index)
    embed(index, 77)
    agree(matrix, index)
    index.close()


@settings(
    max_examples=60,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(steps)
def test_a_large_matrix_is_what_the_index_is_when_enough_is_scored_again(
    monkeypatch: pytest.MonkeyPatch, taken: list[tuple[str, str, int]]
) -> None:
    monkeypatch.setattr(module, "EXACT", 4)
    monkeypatch.setattr(module, "RESCORED", 100)
    index, matrix = SqliteIndex(":memory:"), Matrix()
    for generation, step in enumerate(taken):
        take(index, step, generation)
        if step[0] == "refresh":
            agree(matrix, index)
    embed(index, 77)
    agree(matrix, index)
    index.close()


@pytest.fixture
def index() -> Iterator[SqliteIndex]:
    made = SqliteIndex(":memory:")
    yield made
    made.close()


def test_a_matrix_that_grows_from_small_to_large_keeps_its_rows(
    index: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "EXACT", 20)
    monkeypatch.setattr(module, "RESCORED", 200)
    matrix = Matrix()
    for number in range(12):
        put_file(index, f"{number}.md", 3)
        embed(index)
        agree(matrix, index)
    assert matrix.packed is not None
    for number in range(0, 10):
        remove_file(index, f"{number}.md")
        agree(matrix, index)
    assert 0 < len(matrix) < 20


def test_with_few_scored_again_most_of_the_nearest_are_still_found(
    index: SqliteIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Half of the dimensions choose, where the first ones tell most, as in the models that are shipped."""
    monkeypatch.setattr(module, "EXACT", 100)
    monkeypatch.setattr(module, "RESCORED", 60)
    chance = np.random.default_rng(7)
    weights = np.linspace(1.0, 0.1, DIMENSION)
    for number in range(30):
        put_file(index, f"{number}.md", 10)
    ids = waiting_in(index)
    rows = chance.normal(size=(len(ids), DIMENSION)) * weights
    vectors = (rows / np.linalg.norm(rows, axis=1, keepdims=True)).astype(np.float32)
    index.put(vectors=zip(ids, pack(vectors), strict=True), settings={"vectors": MODEL})
    matrix = Matrix()
    refresh(matrix, index)
    _, exact = kept(index)
    hits = 0
    for _ in range(20):
        query = (chance.normal(size=DIMENSION) * weights).astype(np.float32)
        query /= np.linalg.norm(query)
        best = set(np.argsort(-(exact @ query))[:10].tolist())
        found = matrix.nearest(query, 10, allowed=None)
        hits += len(best & set(found.rows.tolist()))
        assert np.allclose(np.sort(found.cosines), np.sort(exact[found.rows] @ query), atol=1e-5)
    assert hits >= 190


@pytest.mark.parametrize("exact", [100, 4])
def test_the_mean_cosine_is_that_of_what_is_still_there(
    index: SqliteIndex, monkeypatch: pytest.MonkeyPatch, exact: int
) -> None:
    monkeypatch.setattr(module, "EXACT", exact)
    matrix = Matrix()
    for name in NAMES:
        put_file(index, name, 5)
    embed(index)
    agree(matrix, index)
    remove_file(index, "b")
    agree(matrix, index)
    query = vector_of(1, 999)
    mean = float((kept(index)[1] @ query).mean())
    assert matrix.nearest(query, 3, allowed=None).floor == pytest.approx(mean, abs=1e-5)


def test_what_is_not_allowed_is_never_found_however_near_it_is(index: SqliteIndex) -> None:
    for name in NAMES:
        put_file(index, name, 2)
    embed(index)
    matrix = Matrix()
    refresh(matrix, index)
    ids, vectors = kept(index)
    for row, id_ in enumerate(ids):
        others = matrix.mask(chunks=[each for each in ids if each != id_])
        found = matrix.nearest(vectors[row], 3, allowed=others)
        assert id_ not in matrix.ids[found.rows].tolist()
    nobody = matrix.nearest(vectors[0], 3, allowed=matrix.mask(chunks=[]))
    assert nobody.rows.tolist() == []


def test_vectors_that_come_out_of_order_are_all_there(index: SqliteIndex) -> None:
    matrix = Matrix()
    put_file(index, "a", 6)
    for count in (1, 2, 1, 2):  # from the last chunk to the first
        embed(index, only=count)
        agree(matrix, index)
    assert len(matrix) == 6


def test_a_model_of_another_length_takes_the_place_of_the_old_one(index: SqliteIndex) -> None:
    matrix = Matrix()
    put_file(index, "a", 4)
    embed(index)
    agree(matrix, index)
    drop(index)
    embed(index, dimension=24)
    agree(matrix, index)
    assert matrix.dimension == 24


def test_vectors_of_another_model_are_none(tmp_path: Path) -> None:
    one, other, matrix = SqliteIndex(tmp_path / "x.db"), SqliteIndex(tmp_path / "x.db"), Matrix()
    put_file(one, "a", 4)
    embed(one)
    agree(matrix, one)
    other.drop((), vectors=True, settings={"vectors": "another model"})
    refresh(matrix, one)
    assert len(matrix) == 0
    for each in (one, other):
        each.close()


# --- two who write ------------------------------------------------------------------------------------------


@settings(max_examples=60, deadline=None, derandomize=True)
@given(st.lists(st.tuples(st.booleans(), steps.map(lambda all_: all_[:3])), max_size=5))
def test_two_who_write_and_read_one_index_both_hold_what_it_holds(
    folder: Path, taken: list[tuple[bool, list[tuple[str, str, int]]]]
) -> None:
    path = folder / "two.db"
    for ending in ("", "-wal", "-shm"):
        path.with_name(f"two.db{ending}").unlink(missing_ok=True)
    both = SqliteIndex(path), SqliteIndex(path)
    matrices = Matrix(), Matrix()
    generation = 0
    for first, some in taken:
        for step in some:
            generation += 1
            # One model gives one vector for a text: what is made anew is what it was.
            take(both[not first], step, 0)
        for matrix, index in zip(matrices, both, strict=True):
            agree(matrix, index)
    embed(both[0])
    for matrix, index in zip(matrices, both, strict=True):
        agree(matrix, index)
    for index in both:
        index.close()


def test_an_index_that_another_put_in_place_as_a_whole_is_read_anew(tmp_path: Path) -> None:
    one, other, matrix = SqliteIndex(tmp_path / "one.db"), SqliteIndex(tmp_path / "other.db"), Matrix()
    for name in ("b", "a"):
        put_file(one, name, 2, text=name)
        embed(one, 1)
    agree(matrix, one)
    for name in ("a", "b"):
        put_file(other, name, 2, text=name)
        embed(other, 2)
    adopting = SqliteIndex(tmp_path / "one.db")
    adopting.replace_with(other)
    agree(matrix, one)
    for each in (one, other, adopting):
        each.close()


# --- how a vector is kept -----------------------------------------------------------------------------------


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=64))
def test_a_kept_vector_points_where_it_pointed(numbers: list[Any]) -> None:
    row = np.array([numbers], np.float32)
    length = float(np.linalg.norm(row))
    packed = np.frombuffer(pack(row)[0], np.int8)[None, :]
    back = unpack(packed)
    assert np.isfinite(back).all()
    if length > 1e-3:
        assert float((back @ (row / length).T)[0, 0]) > 0.999
