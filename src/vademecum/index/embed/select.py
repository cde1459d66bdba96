"""The embedder that the settings name, with a cache of its vectors, and a pause after a failure.

Only the named embedder is imported. All agents of a home share the cache: a text is sent, and paid for, once.
It stores vectors as float16. Their error of at most one part in 2,048 is far below the error of the index's
one byte a dimension, and twice as many fit. New vectors are rounded in the same way, so that no answer
depends on the cache.
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
from vademecum.lazy import LazyModule
from vademecum.named_tuple import NamedTuple
from vademecum.types import Provider

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np

    from vademecum.index.embed.base import Dear, Embedder, Vector, Vectors
    from vademecum.index.embed.local import Static
    from vademecum.index.embed.reader import Reader
    from vademecum.store import State
else:
    np = LazyModule("numpy")

NAMES = tuple(map(str, Provider))
REMOTE = tuple(name for name in NAMES if name not in ("local", "static", "minilm", "none"))
CHECK = 4  # bytes of the checksum before a stored vector
REST = 30.0  # seconds without a request after a failure


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
    """Make the embedder of this name; None for the name `none`. Missing values are the provider's defaults.

    With a `state`, costly vectors are stored in its cache, up to `largest` bytes.
    """
    if name == "none":
        return None
    if name in ("local", "static"):
        return _with_cache(_by_path(Path(os.path.expanduser(path))) if path else shipped(), state, largest)
    if name == "minilm":
        return _with_cache(shipped_reader(), state, largest)
    if name in REMOTE:
        from vademecum.index.embed.remote import make_remote

        made = make_remote(
            name, model=model, endpoint=endpoint, key_env=key_env, batch=batch, timeout=timeout
        )
        return _with_cache(made, state, largest)
    raise UnknownName(f"no embedder is called {name!r}", hint="choose one of " + ", ".join(NAMES))


class EmbedderSetting(NamedTuple):
    """The settings of an embedder, and the state that stores its vectors."""

    name: str
    model: str | None = None
    endpoint: str | None = None
    path: str | os.PathLike[str] | None = None
    key_env: str | None = None
    batch: int | None = None
    timeout: float | None = None
    state: State | None = None
    largest: int = 0  # bytes of kept vectors


class LazyEmbedder:
    """The embedder of an index, made when a vector is first needed; a search by words alone needs none."""

    def __init__(self, setting: EmbedderSetting | None, *, reason: str = "no embedder is set") -> None:
        self._setting, self._made = setting, setting is None
        self._embedder: Embedder | None = None
        self._reason = reason

    @property
    def embedder(self) -> Embedder | None:
        """The embedder; None where the settings name none, or where it cannot be made."""
        if not self._made:
            self._made = True
            self._make()
        return self._embedder

    @embedder.setter
    def embedder(self, embedder: Embedder | None) -> None:
        self._embedder, self._made = embedder, True

    @property
    def reason(self) -> str:
        """The reason why there is no embedder, for an answer found by words alone."""
        return self._reason if self.embedder is None else ""

    def _make(self) -> None:
        assert self._setting is not None
        try:
            made = select_embedder(**self._setting._asdict())
        except EmbedderFailed as error:
            self._reason = str(error)
            return
        # A local embedder fails at once; a server that is gone is not waited for at every question.
        remote = made is not None and made.provider in REMOTE
        self._embedder = CircuitBreaker(made) if remote and made is not None else made


def lazily_shipped() -> LazyEmbedder:
    """Return the embedder that comes with the package, to be loaded when a vector is first needed."""
    return LazyEmbedder(EmbedderSetting("static"))


def _with_cache(embedder: Embedder, state: State | None, largest: int) -> Embedder:
    if state is None or not is_dear(embedder):
        return embedder
    return Cached(embedder, state, largest)


@functools.cache
def shipped() -> Static:
    """Return the shipped embedder, of which a process has only one: all memories share its cache of words."""
    from vademecum.index.embed.local import Static

    return Static()


def select_reader(state: State | None = None, largest: int = 0) -> PassageReader:
    """Return the reader model, which stores the vectors of passages in `state`, up to `largest` bytes."""
    return PassageReader(_with_cache(shipped_reader(), state, largest), shipped_reader().cut)


@functools.cache
def shipped_reader() -> Reader:
    """Return the shipped reader model, of which the process has only one, so its weights are loaded once."""
    from vademecum.index.embed.reader import Reader

    return Reader()


def _by_path(folder: Path) -> Embedder:
    """Return a person's own model; its format is recognised by the files in its folder."""
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
    """An embedder that stores the vectors of texts in a cache, so that they are seldom made twice."""

    cached = False  # its results are cached here already

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
        """The number of components of a vector; with stored vectors, no server is asked for it."""
        return self._known() or self._embedder.dimension

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return the vectors of texts, from the cache where possible; new vectors are stored in it.

        With `query`, the texts are questions, and the cache is not used.
        """
        if query:
            return self._embed_queries(texts)
        places: dict[bytes, list[int]] = {}
        for number, text in enumerate(texts):
            if text.strip():
                places.setdefault(_hash(text), []).append(number)
        rows = self._found(list(places))
        missing = [each for each in places if each not in rows]
        if missing:
            rows |= self._made(missing, [texts[places[each][0]] for each in missing])
        if len({len(row) for row in rows.values()}) > 1:  # another process replaced the cache meanwhile
            raise self._failed("its vectors have several lengths")
        vectors = np.zeros((len(texts), self.dimension or 0), np.float32)
        for each, row in rows.items():
            vectors[places[each]] = row
        return unit(vectors)

    def renew(self, dimension: int) -> bool:
        """Ask the model for a vector, and return whether it has this dimension.

        If so, delete stored vectors of other lengths.
        """
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

    def _embed_queries(self, texts: Sequence[str]) -> Vectors:
        parts = self._embedder.parts(texts, query=True, dimension=self._known())
        checked = [(places, self._checked(rows, len(places))) for places, rows in parts]
        return gather(checked, len(texts), dimension=self.dimension or 0)

    def _found(self, hashes: list[bytes]) -> dict[bytes, Vector]:
        """Return the stored vectors under these hashes, without damaged ones."""
        blobs = self._state.vectors(self.identity, hashes)
        rows = {each: unpack(each, blob) for each, blob in blobs.items()}
        known = self._known()
        return {each: row for each, row in rows.items() if row is not None and len(row) == known}

    def _made(self, hashes: list[bytes], texts: list[str]) -> dict[bytes, Vector]:
        """Make the missing vectors and store each part at once, so that a later failure loses nothing."""
        made: dict[bytes, Vector] = {}
        for places, part in self._embedder.parts(texts, dimension=self._known()):
            rows = self._checked(part, len(places)).astype(np.float16)
            of_part = dict(zip((hashes[place] for place in places), rows, strict=True))
            # A faulty server returns zeros; the next answer may be better.
            blobs = [(each, pack(each, row)) for each, row in of_part.items() if row.any()]
            self._state.keep(self.identity, blobs, largest=self._largest)
            made |= {each: row.astype(np.float32) for each, row in of_part.items()}
        return made

    def _known(self) -> int | None:
        """Return the dimension of the vectors that were stored or made; None before the first."""
        if self._dimension is None:
            length = self._state.length(self.identity)
            self._dimension = (length - CHECK) // 2 if length else None
        return self._dimension

    def _checked(self, rows: Vectors, count: int) -> Vectors:
        """Return the vectors that a model made; raise EmbedderFailed if they have a wrong shape or number."""
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
    """Return a vector as the bytes that are stored: a checksum of its key and numbers, then the numbers."""
    numbers = row.astype("<f2").tobytes()
    return zlib.crc32(numbers, zlib.crc32(key)).to_bytes(CHECK, "little") + numbers


def unpack(key: bytes, blob: bytes) -> Vector | None:
    """Return the vector from the bytes stored under a key; None when they are damaged."""
    numbers = blob[CHECK:]
    whole = zlib.crc32(numbers, zlib.crc32(key)).to_bytes(CHECK, "little") == blob[:CHECK]
    if not whole or len(numbers) % 2:
        return None
    row: Vector = np.frombuffer(numbers, "<f2").astype(np.float32)
    return row


class CircuitBreaker:
    """An embedder that, for half a minute after a failure, repeats its error without asking the model."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._failed: EmbedderFailed | None = None
        self._until = 0.0
        self.provider = embedder.provider
        self.model = embedder.model
        self.identity = embedder.identity

    @property
    def cached(self) -> bool:
        """Whether the vectors take so much time or money to make that they should be stored."""
        return self._embedder.cached

    @property
    def dimension(self) -> int | None:
        """The number of components of a vector, where it is known; else None."""
        return self._embedder.dimension

    @property
    def mean(self) -> Vector | None:
        """The mean direction of all texts' vectors in this model, where it is known beforehand; else None."""
        return self._embedder.mean

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return the vectors of texts; for half a minute after a failure, raise its error without asking."""
        if self._failed is not None and time.monotonic() < self._until:
            raise EmbedderFailed(
                str(self._failed), hint=self._failed.hint
            )  # raising the same error again would grow its trace
        try:
            made = self._embedder.embed(texts, query=query)
        except EmbedderChanged:  # the server answers, with another model
            raise
        except EmbedderFailed as error:
            if time.monotonic() < patience():  # otherwise the caller gave up first
                self._failed, self._until = error, time.monotonic() + REST
            raise
        self._failed = None
        return made

    def renew(self, dimension: int) -> bool:
        """Ask the model for a vector; return whether it has this dimension, or False if no model is asked."""
        return renews(self._embedder) and self._embedder.renew(dimension)
