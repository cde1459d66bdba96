"""Embed through a cache that all agents of a home share: a text is sent, and paid for, once.

Keeps vectors as halves of floats (float16). Their error, at most one part in 2,048, is far below that of the
one byte a dimension that an index keeps, and twice as many fit. What was just made is rounded in the same
way, so that no answer depends on whether the cache was warm.
"""

from __future__ import annotations

import hashlib
import zlib
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderChanged, EmbedderFailed
from vademecum.index.embed.base import PROBES, gather, unit
from vademecum.stand_ins import LazyModule

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from vademecum.index.embed.base import Dear, Vector, Vectors
    from vademecum.store.state import State
else:
    np = LazyModule("numpy")

CHECK = 4  # bytes before the numbers that tell damaged ones


class Cached:
    """An embedder that makes no vector twice; questions go through, as they are seldom asked again."""

    cached = False  # no need to keep what is kept here

    def __init__(self, embedder: Dear, state: State, largest: int) -> None:
        self._embedder = embedder
        self._state = state
        self._largest = largest
        self._dimension: int | None = None
        self.provider = embedder.provider
        self.model = embedder.model
        self.identity = embedder.identity
        self.mean = embedder.mean

    @property
    def dimension(self) -> int | None:
        """The length of a vector; known without asking a server when one is kept."""
        return self._known() or self._embedder.dimension

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Look each text up, and have only those made that are not found, each once."""
        if query:
            return self._asked(texts)
        places: dict[bytes, list[int]] = {}
        for number, text in enumerate(texts):
            if text.strip():
                places.setdefault(_hash(text), []).append(number)
        rows = self._found(list(places))
        missing = [each for each in places if each not in rows]
        if missing:
            rows |= self._made(missing, [texts[places[each][0]] for each in missing])
        if len({len(row) for row in rows.values()}) > 1:  # the cache was filled anew while this was made
            raise self._failed("its vectors have several lengths")
        vectors = np.zeros((len(texts), self.dimension or 0), np.float32)
        for each, row in rows.items():
            vectors[places[each]] = row
        return unit(vectors)

    def renew(self, dimension: int) -> bool:
        """Ask once more; if the model gives this dimension again, drop what is kept of any other."""
        known = self._known()
        self._embedder.forget_dimension()
        try:
            found = {rows.shape[-1] for _, rows in self._embedder.parts(PROBES[:1], query=True)}
        except EmbedderFailed:
            found = set()
        if found != {dimension}:
            self._embedder.forget_dimension()
            self._dimension = known
            return False
        self._state.keep_length(self.identity, CHECK + 2 * dimension)
        self._dimension = dimension
        return True

    def _asked(self, texts: Sequence[str]) -> Vectors:
        parts = self._embedder.parts(texts, query=True, dimension=self._known())
        checked = [(places, self._checked(rows, len(places))) for places, rows in parts]
        return gather(checked, len(texts), dimension=self.dimension or 0)

    def _found(self, hashes: list[bytes]) -> dict[bytes, Vector]:
        """What is kept and whole."""
        kept = self._state.vectors(self.identity, hashes)
        rows = {each: unpack(each, blob) for each, blob in kept.items()}
        known = self._known()
        return {each: row for each, row in rows.items() if row is not None and len(row) == known}

    def _made(self, hashes: list[bytes], texts: list[str]) -> dict[bytes, Vector]:
        """Have vectors made, and keep each part as it comes: what a later failure costs is not paid twice."""
        made: dict[bytes, Vector] = {}
        for places, part in self._embedder.parts(texts, dimension=self._known()):
            rows = self._checked(part, len(places)).astype(np.float16)
            of_part = dict(zip((hashes[place] for place in places), rows, strict=True))
            # Zeros are what a server with a fault gives; the next time it may be better.
            blobs = [(each, pack(each, row)) for each, row in of_part.items() if row.any()]
            self._state.keep(self.identity, blobs, largest=self._largest)
            made |= {each: row.astype(np.float32) for each, row in of_part.items()}
        return made

    def _known(self) -> int | None:
        """The dimension of what is kept or was made before."""
        if self._dimension is None:
            length = self._state.length(self.identity)
            self._dimension = (length - CHECK) // 2 if length else None
        return self._dimension

    def _checked(self, rows: Vectors, count: int) -> Vectors:
        """Let nothing through that would spoil what is kept."""
        known = self._known() or rows.shape[-1]
        if rows.ndim == 2 and len(rows) == count and rows.shape[1] and rows.shape[1] != known:
            reason = f"it gave {count} × {rows.shape[1]} numbers instead of {count} × {known}"
            raise EmbedderChanged(str(self._failed(reason)), dimension=rows.shape[1])
        if rows.shape != (count, known):
            given = " × ".join(str(each) for each in rows.shape)
            raise self._failed(f"it gave {given} numbers instead of {count} × {known}")
        if not np.isfinite(rows).all():
            raise self._failed("its vectors hold something that is no finite number")
        self._dimension = known
        return rows

    def _failed(self, reason: str) -> EmbedderFailed:
        return EmbedderFailed(f"{self.provider} with {self.model} failed: {reason}")


def _hash(text: str) -> bytes:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()


def pack(key: bytes, row: Vector) -> bytes:
    """A vector as it is kept: a checksum over whose it is and its numbers, and the numbers."""
    numbers = row.astype("<f2").tobytes()
    return zlib.crc32(numbers, zlib.crc32(key)).to_bytes(CHECK, "little") + numbers


def unpack(key: bytes, blob: bytes) -> Vector | None:
    """The vector that was kept under a hash; None when it was damaged since."""
    numbers = blob[CHECK:]
    whole = zlib.crc32(numbers, zlib.crc32(key)).to_bytes(CHECK, "little") == blob[:CHECK]
    if not whole or len(numbers) % 2:
        return None
    row: Vector = np.frombuffer(numbers, "<f2").astype(np.float32)
    return row
