"""The embedder that the settings name, with what is put around it: a cache, and a rest after a failure.

Nothing heavy is imported for one that is not named. The cache is one that all agents of a home share: a text
is sent, and paid for, once. It keeps vectors as halves of floats (float16). Their error, at most one part in
2,048, is far below that of the one byte a dimension that an index keeps, and twice as many fit. What was just
made is rounded in the same way, so that no answer depends on whether the cache was warm.
"""

from __future__ import annotations

import functools
import hashlib
import os
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderChanged, EmbedderFailed, UnknownName
from vademecum.index.embed.base import PROBES, PassageReader, gather, is_dear, patience, renews, unit
from vademecum.stand_ins import LazyModule
from vademecum.types import Provider

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from vademecum.index.embed.base import Dear, Embedder, Vector, Vectors
    from vademecum.index.embed.local import Static
    from vademecum.index.embed.reader import Reader
    from vademecum.store.state import State
else:
    np = LazyModule("numpy")

NAMES = tuple(map(str, Provider))
REMOTE = tuple(name for name in NAMES if name not in ("local", "static", "minilm", "none"))
CHECK = 4  # bytes before the numbers of a kept vector, that tell damaged ones
REST = 30.0  # seconds for which an embedder is left alone that failed


def select_embedder(
    name: str,
    *,
    model: str | None = None,
    endpoint: str | None = None,
    path: str | os.PathLike[str] | None = None,
    key_env: str | None = None,
    batch: int | None = None,
    timeout: float | None = None,
    state: State | None = None,
    largest: int = 0,
) -> Embedder | None:
    """Make the named embedder, or None for `none`; what is not given has the provider's own default.

    With a state, vectors that are dear are kept there, up to so many bytes.
    """
    if name == "none":
        return None
    if name in ("local", "static"):
        return _kept(_by_path(Path(os.path.expanduser(path))) if path else shipped(), state, largest)
    if name == "minilm":
        return _kept(shipped_reader(), state, largest)
    if name in REMOTE:
        from vademecum.index.embed.remote import make_remote

        made = make_remote(
            name, model=model, endpoint=endpoint, key_env=key_env, batch=batch, timeout=timeout
        )
        return _kept(made, state, largest)
    raise UnknownName(f"no embedder is called {name!r}", hint="choose one of " + ", ".join(NAMES))


def _kept(embedder: Embedder, state: State | None, largest: int) -> Embedder:
    if state is None or not is_dear(embedder):
        return embedder
    return Cached(embedder, state, largest)


@functools.cache
def shipped() -> Static:
    """One for the whole process: its cache of words serves every memory that is opened."""
    from vademecum.index.embed.local import Static

    return Static()


def select_reader(state: State | None = None, largest: int = 0) -> PassageReader:
    """What reads passages and questions; what it made of a passage is kept, up to so many bytes."""
    return PassageReader(_kept(shipped_reader(), state, largest), shipped_reader().cut)


@functools.cache
def shipped_reader() -> Reader:
    """One for the whole process: its weights are loaded once."""
    from vademecum.index.embed.reader import Reader

    return Reader()


def _by_path(folder: Path) -> Embedder:
    """Tell a person's own model by the files in its folder."""
    if (folder / "table.npy").is_file():
        from vademecum.index.embed.local import Static

        return Static(folder)
    if (folder / "model.onnx").is_file():
        from vademecum.index.embed.local import own

        return own(folder)
    if (folder / "model.safetensors").is_file():
        from vademecum.index.embed.local import Model2Vec

        return Model2Vec(folder)
    raise EmbedderFailed(
        f"{folder}: holds no table.npy, model.onnx or model.safetensors",
        hint="give `embed.path` the folder of a static or ONNX model; keyword search still works",
    )


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
            raise self._failed("its vectors contain a value that is not a finite number")
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


class CircuitBreaker:
    """An embedder that, once it failed, fails at once for half a minute, with the same words."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._failed: EmbedderFailed | None = None
        self._until = 0.0
        self.provider = embedder.provider
        self.model = embedder.model
        self.identity = embedder.identity

    @property
    def cached(self) -> bool:
        """Whether a vector is dear enough to be kept on disk."""
        return self._embedder.cached

    @property
    def dimension(self) -> int | None:
        """The length of a vector, where it is known."""
        return self._embedder.dimension

    @property
    def mean(self) -> Vector | None:
        """The direction all texts of this model share, where it is known beforehand."""
        return self._embedder.mean

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Ask, unless it has just failed."""
        if self._failed is not None and time.monotonic() < self._until:
            raise EmbedderFailed(
                str(self._failed), hint=self._failed.hint
            )  # the same one would grow each time
        try:
            made = self._embedder.embed(texts, query=query)
        except EmbedderChanged:  # it answers, though not as before
            raise
        except EmbedderFailed as error:
            if time.monotonic() < patience():  # else it was us who did not wait
                self._failed, self._until = error, time.monotonic() + REST
            raise
        self._failed = None
        return made

    def renew(self, dimension: int) -> bool:
        """Ask once more whether another dimension is the model's own now."""
        return renews(self._embedder) and self._embedder.renew(dimension)
