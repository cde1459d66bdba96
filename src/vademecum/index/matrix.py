"""The vectors of an index as one matrix in memory, searched exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from vademecum.index.sqlite import Index

    Floats = NDArray[np.float32]
    Ids = NDArray[np.int64]

EXACT = 50_000  # rows up to which every dimension is looked at
RESCORED = 2_000  # candidates that half of the dimensions choose above that


class Nearest(NamedTuple):
    """The best chunks with their cosines, and the mean cosine of the store."""

    ids: Ids
    cosines: Floats
    floor: float


def pack(vectors: Floats) -> list[bytes]:
    """Unit vectors as they are kept: one byte a dimension, which costs nothing in quality."""
    largest = np.maximum(np.abs(vectors).max(axis=1, keepdims=True), 1e-9)
    return [row.tobytes() for row in np.rint(vectors * (127 / largest)).astype(np.int8)]


def unpack(blobs: Sequence[bytes]) -> Floats:
    """Unit vectors from their kept form."""
    if not blobs:
        return np.zeros((0, 0), np.float32)
    rows = np.frombuffer(b"".join(blobs), np.int8).reshape(len(blobs), -1).astype(np.float32)
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    lengths[lengths == 0] = 1
    return np.asarray(rows / lengths[:, None], np.float32)


class Matrix:
    """All vectors of an index; refreshed when the index has changed, row by row where that suffices."""

    def __init__(self) -> None:
        self.version: tuple[int, int] | None = None
        self.ids: Ids = np.zeros(0, np.int64)
        self.rows: Floats = np.zeros((0, 0), np.float32)
        self.half: Floats = np.zeros((0, 0), np.float32)

    def refresh(self, index: Index) -> None:
        """Take in what has changed since the last time."""
        version = index.version
        if version == self.version:
            return
        last = int(self.ids[-1]) if len(self.ids) else 0
        added = index.vectors(last)
        if len(self.ids) + len(added) != index.vector_count():  # something left: start over
            self.ids, self.rows = np.zeros(0, np.int64), np.zeros((0, 0), np.float32)
            added = index.vectors(0)
        if added:
            added.sort()
            fresh = unpack([blob for _, blob in added])
            self.ids = np.concatenate([self.ids, np.array([id_ for id_, _ in added], np.int64)])
            self.rows = fresh if not len(self.rows) else np.concatenate([self.rows, fresh])
        if len(self.rows) > EXACT:
            self.half = np.ascontiguousarray(self.rows[:, : self.rows.shape[1] // 2])
        self.version = version

    def nearest(self, query: Floats, limit: int, *, allowed: Ids | None) -> Nearest:
        """The chunks nearest to a query vector, among those allowed.

        The dimensions are sorted by what they tell apart, so in a large store half of them choose the
        candidates and all of them score those.
        """
        rows, ids = self.rows, self.ids
        if not len(ids):
            return Nearest(ids, np.zeros(0, np.float32), 0.0)
        mask = None if allowed is None or len(allowed) == len(ids) else np.isin(ids, allowed)
        if len(ids) <= EXACT:
            scores = rows @ query
            chosen = np.arange(len(ids))
        else:
            width = self.half.shape[1]
            rough = self.half @ query[:width]
            if mask is not None:
                rough = np.where(mask, rough, -2)
            count = min(len(ids), max(RESCORED, limit))
            chosen = np.argpartition(rough, len(ids) - count)[len(ids) - count :]
            scores = rows[chosen] @ query
        floor = (
            float(scores.mean()) if len(ids) <= EXACT else float((rows[:: len(ids) // 5000] @ query).mean())
        )
        if mask is not None:
            keep = mask[chosen]
            chosen, scores = chosen[keep], scores[keep]
        if len(scores) > limit:
            top = np.argpartition(scores, len(scores) - limit)[len(scores) - limit :]
            chosen, scores = chosen[top], scores[top]
        return Nearest(ids[chosen], np.asarray(scores, np.float32), floor)

    def of(self, wanted: Sequence[int]) -> tuple[list[int], Floats]:
        """The vectors of some chunks; those that have one."""
        positions = np.searchsorted(self.ids, wanted)
        found = [
            (id_, at)
            for id_, at in zip(wanted, positions.tolist(), strict=True)
            if at < len(self.ids) and self.ids[at] == id_
        ]
        return [id_ for id_, _ in found], self.rows[[at for _, at in found]] if found else self.rows[:0]
