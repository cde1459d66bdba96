"""The vectors of an index as one matrix in memory, compared exactly or, in a large store, in two steps."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from vademecum.index.base import Mark, Nearest
from vademecum.index.words import Speech

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from numpy.typing import NDArray

    from vademecum.index.sqlite import VectorTable

    Floats = NDArray[np.float32]
    Bytes = NDArray[np.int8]
    Ids = NDArray[np.int64]
    Mask = NDArray[np.bool_]

EXACT = 20_000  # rows up to which every dimension is compared
DIGITS = 9  # digits of a cosine
_SAMPLED = 5_000  # rows from which the distribution of all cosines is estimated
RESCORED = 1_000  # candidates that half of the dimensions choose in larger stores
_COLUMNS = ("ids", "files", "orders", "source", "replaced", "alone", "living", "speech", "sizes")
_SPARSE = 0.5  # the share of dead rows at which the matrix is made anew


class Closest(NamedTuple):
    """The chunks nearest to a query as rows of the matrix, their cosines, and the mean of all cosines."""

    rows: Ids
    cosines: Floats
    floor: float
    deviation: float  # the standard deviation of the cosines of the store


def pack(vectors: Floats) -> list[bytes]:
    """Return unit vectors in their stored form of one byte a dimension, which costs no quality."""
    return [row.tobytes() for row in _bytes(vectors)]


def unpack(rows: Bytes) -> Floats:
    """Return the unit vectors that were packed into one byte a dimension."""
    numbers = rows.astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", numbers, numbers))
    lengths[lengths == 0] = 1
    numbers /= lengths[:, None]
    return numbers


def cosines_of(vectors: Floats, query: Floats) -> list[float]:
    """Return the cosine of each unit vector with a query; equal vectors get equal cosines in any matrix."""
    exact = vectors.astype(np.float64) @ query.astype(np.float64)
    rounded: list[float] = np.round(exact, DIGITS).tolist()
    return rounded


class Matrix:
    """All vectors of an index in memory, with the file and source of each; updated row by row."""

    def __init__(self) -> None:
        self._version: tuple[int, int] | None = None
        self._disturbed: tuple[str | None, str | None] = (None, None)
        self._clear()

    def _clear(self) -> None:
        self.size = 0
        self.alive = 0
        self._sampled: tuple[tuple[int, int], Floats] | None = None  # for one size, so it changes with rows
        self.sources: list[str] = []
        self.speeches: list[Speech] = []  # each speech once
        self._numbers: dict[tuple[Any, ...], int] = {}
        self.ids: Ids = np.zeros(0, np.int64)
        self.files: Ids = np.zeros(0, np.int64)
        self.orders: Ids = np.zeros(0, np.int64)
        self.source: Ids = np.zeros(0, np.int64)
        self.speech: Ids = np.zeros(0, np.int64)
        self.sizes: Ids = np.zeros(0, np.int64)
        self.alone: Mask = np.zeros(0, np.bool_)
        self.replaced: Mask = np.zeros(0, np.bool_)
        self.living: Mask = np.zeros(0, np.bool_)
        self.narrow: Floats = np.zeros((0, 0), np.float32)  # all dimensions, or half of them when packed
        self.packed: Bytes | None = None
        self.dimension = 0

    def __len__(self) -> int:
        return self.alive

    def refresh(
        self, table: VectorTable, version: tuple[int, int], settings: Mapping[str, str], identity: str
    ) -> None:
        """Bring the matrix up to date with the table; empty it if another model made the vectors."""
        if version == self._version:
            return
        foreign = self._version is None or version[0] != self._version[0]
        gone, lowest = table.removed, table.lowest_put
        table.removed, table.lowest_put = [], None
        self._version = version
        if foreign and settings.get("vectors") != identity:
            self._clear()
            return
        # Vectors of another length were all made anew under the same ids.
        disturbed = (f"{settings.get('made')} {settings.get('dimension')}", settings.get("disturbed"))
        if disturbed[0] != self._disturbed[0]:
            self._clear()  # another file, in which the same ids are other chunks
        foreign = foreign and disturbed != self._disturbed
        self._disturbed = disturbed
        if self.size and lowest is not None and lowest <= self.ids[self.size - 1]:
            self._clear()  # vectors came out of order, or were made anew
        if foreign and self.size:  # another process wrote: comparing finds what it removed or added
            here = np.array(table.ids(), np.int64)
            last = self.ids[self.size - 1]
            if len(np.setdiff1d(here[here <= last], self.ids[: self.size], assume_unique=True)):
                self._clear()
            else:
                self._mark_removed(np.flatnonzero(~np.isin(self.ids[: self.size], here)))
        elif gone and self.size:
            self._mark_removed(self.rows_of(gone)[1])
        if self.size and self.alive < self.size * (1 - _SPARSE):
            self._clear()
        self._append(table.after(int(self.ids[self.size - 1]) if self.size else 0))

    def search(self, query: Floats, limit: int, *, allowed: Mask | None, also: Iterable[int]) -> Nearest:
        """Return the chunks nearest to a query vector, and the cosines of the chunks `also`."""
        if not self.alive or len(query) != self.dimension:
            return Nearest({}, {}, 0.0, 1.0, self.alive, self.dimension, self._exact_of)
        found = self.nearest(query, limit, allowed=allowed)
        chosen = set(self.ids[found.rows].tolist())
        rows = np.concatenate([found.rows, self.rows_of([id_ for id_ in also if id_ not in chosen])[1]])
        cosines = dict(zip(self.ids[rows].tolist(), cosines_of(self.exact(rows), query), strict=True))
        marks = self.marks(rows)
        return Nearest(
            cosines, marks, found.floor, found.deviation, self.alive, self.dimension, self._exact_of
        )

    def _exact_of(self, ids: Sequence[int]) -> tuple[list[int], Floats]:
        known, rows = self.rows_of(ids)
        return known, self.exact(rows)

    def nearest(self, query: Floats, limit: int, *, allowed: Mask | None) -> Closest:
        """Return the nearest chunks to a query vector among the allowed ones.

        Dimensions are sorted by how much they distinguish. In a large store, the first half of them selects
        candidates, and all of them give each candidate its score.
        """
        size = self.size
        half = size > EXACT
        scores = self.narrow[:size] @ query[: self.narrow.shape[1]]
        mask = self.living[:size] if self.alive < size else None
        sample = self._sample(query) if half else scores if mask is None else scores[mask]
        floor, deviation = float(sample.mean()), max(float(sample.std()), 1e-3)
        if allowed is not None:
            mask = allowed if mask is None else mask & allowed
        if mask is not None:
            scores[~mask] = -2
        count = min(size, max(RESCORED, limit) if half else limit)
        chosen = np.argpartition(scores, size - count)[size - count :] if count < size else np.arange(size)
        if mask is not None:
            chosen = chosen[mask[chosen]]
        exact = self.exact(chosen) @ query if half else scores[chosen]
        if len(exact) > limit:
            top = np.argpartition(exact, len(exact) - limit)[len(exact) - limit :]
            chosen, exact = chosen[top], exact[top]
        return Closest(chosen, np.asarray(exact, np.float32), floor, deviation)

    def exact(self, rows: Ids) -> Floats:
        """Return the vectors of these rows with all dimensions."""
        return self.narrow[rows] if self.packed is None else unpack(self.packed[rows])

    def rows_of(self, ids: Sequence[int]) -> tuple[list[int], Ids]:
        """Return those of these chunks that have a vector, and the matrix row of each."""
        wanted = np.asarray(ids, np.int64)
        places = np.searchsorted(self.ids[: self.size], wanted)
        places[places == self.size] = 0
        have = self.ids[places] == wanted if self.size else np.zeros(len(wanted), bool)
        return wanted[have].tolist(), places[have]

    def marks(self, rows: Ids) -> dict[int, Mark]:
        """Return, by chunk, the fields that ranking needs for the chunks of these rows."""
        columns = (self.files, self.orders, self.source, self.replaced, self.alone, self.speech, self.sizes)
        values = [column[rows].tolist() for column in columns]
        values[2] = [self.sources[number] for number in values[2]]
        values[5] = [self.speeches[number] for number in values[5]]
        return dict(zip(self.ids[rows].tolist(), map(Mark, *values), strict=True))

    def mask(self, *, files: Sequence[int] | None = None, chunks: Sequence[int] | None = None) -> Mask:
        """Return for each row whether its chunk is in `chunks`, or, without `chunks`, its file in `files`."""
        if chunks is not None:
            return np.isin(self.ids[: self.size], np.array(chunks, np.int64))
        return np.isin(self.files[: self.size], np.array(files, np.int64))

    def _sample(self, query: Floats) -> Floats:
        """Return the cosines of a query with a sample of rows, to estimate how all are distributed."""
        if self._sampled is None or self._sampled[0] != (self.size, self.alive):
            living = np.flatnonzero(self.living[: self.size])
            rows = self.exact(living[:: max(1, len(living) // _SAMPLED)])
            self._sampled = (self.size, self.alive), rows
        return self._sampled[1] @ query

    def _mark_removed(self, rows: Ids) -> None:
        living = rows[self.living[rows]]
        self.living[living] = False
        self.alive -= len(living)

    def _append(self, added: Sequence[tuple[Any, ...]]) -> None:
        if not added:
            return
        dimension = len(added[0][-1])
        if self.dimension not in (0, dimension):
            self._clear()
        start, self.dimension = self.size, dimension
        end = start + len(added)
        self._grow(end)
        rows = np.frombuffer(b"".join(row[-1] for row in added), np.int8).reshape(len(added), dimension)
        full = unpack(rows)
        self.narrow[start:end] = full[:, : self.narrow.shape[1]]
        if self.packed is not None:
            self.packed[start:end] = rows
        known = {name: number for number, name in enumerate(self.sources)}
        for row in added:
            if row[3] not in known:
                known[row[3]] = len(known)
                self.sources.append(row[3])
        self.ids[start:end] = [row[0] for row in added]
        self.files[start:end] = [row[1] for row in added]
        self.orders[start:end] = [row[2] for row in added]
        self.source[start:end] = [known[row[3]] for row in added]
        self.replaced[start:end] = [row[4] for row in added]
        self.alone[start:end] = [row[5] for row in added]
        self.speech[start:end] = [self._speech_number(row[6:9]) for row in added]
        self.sizes[start:end] = [row[9] for row in added]
        self.living[start:end] = True
        self.size = end
        self.alive += len(added)

    def _speech_number(self, speech: tuple[Any, ...]) -> int:
        """Return the number under which a passage's speech is kept; equal speeches share a number."""
        number = self._numbers.get(speech)
        if number is None:
            number = self._numbers[speech] = len(self.speeches)
            self.speeches.append(Speech(*speech))
        return number

    def _grow(self, size: int) -> None:
        """Make room for `size` rows and some more, so that copies are rare; pack a large matrix."""
        if size <= len(self.ids) and (size <= EXACT or self.packed is not None):
            return
        room = max(size + size // 4, 1024)
        if size > EXACT and self.packed is None:
            self.packed = _bytes(self.narrow[: self.size]) if self.size else np.zeros((0, 0), np.int8)
        if self.packed is not None:
            self.packed = _enlarged(self.packed[: self.size], room, self.dimension)
        width = self.dimension if self.packed is None else self.dimension // 2
        self.narrow = _enlarged(self.narrow[: self.size, :width], room, width)
        for name in _COLUMNS:
            column = getattr(self, name)[: self.size]
            setattr(self, name, np.concatenate([column, np.zeros(room - self.size, column.dtype)]))


def _enlarged(rows: NDArray[Any], room: int, width: int) -> NDArray[Any]:
    larger = np.zeros((room, width), rows.dtype)
    if len(rows):
        larger[: len(rows)] = rows
    return larger


def _bytes(vectors: Floats) -> Bytes:
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9)
    packed: Bytes = np.rint(vectors * (127 / largest)).astype(np.int8)
    return packed
