"""The contract of an embedder, and the comparison of its vectors.

This module knows vectors and texts, and no chunks, files or databases.
"""

from __future__ import annotations

import contextlib
import math
from contextvars import ContextVar
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeGuard

from vademecum.lazy import LazyModule
from vademecum.named_tuple import NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    Vector: TypeAlias = NDArray[np.float32]  # one dimension
    Vectors: TypeAlias = NDArray[np.float32]  # one row per text
    Part: TypeAlias = tuple[Sequence[int], Vectors]  # places of texts, and their rows
else:
    np = LazyModule("numpy")

SHIPPED_MODEL = "static-minilm-256"
# Plain sentences with nothing else in common: all texts share what their vectors share.
PROBES = (
    "The meeting was moved to Thursday afternoon.",
    "Boil the potatoes for twenty minutes and drain them.",
    "def read(path): return open(path).read()",
    "Her grandmother lives in a small village by the sea.",
    "The database connection timed out after thirty seconds.",
    "He runs five miles every morning before breakfast.",
    "Interest rates rose by half a percent last month.",
    "What is the name of the dog next door?",
    "The protein binds to a receptor on the surface of the cell.",
    "We decided to paint the kitchen yellow.",
    "Flights to Tokyo were cancelled because of the storm.",
    "Please review the pull request before the release.",
    "The painting was stolen from the museum in 1911.",
    "I would like to learn to play the guitar.",
    "Plants need light, water and carbon dioxide.",
    "The court rejected the appeal without a hearing.",
)


class Embedder(Protocol):
    """An object that makes vectors of unit length from texts."""

    @property
    def provider(self) -> str:
        """The embedder's name in the settings: `local`, `minilm`, `openai`, `gemini` or `ollama`."""

    @property
    def model(self) -> str:
        """The model's own name, as people know it."""

    @property
    def identity(self) -> str:
        """A line of text that changes whenever the model would give another vector for the same text."""

    @property
    def dimension(self) -> int | None:
        """The number of components of a vector; None while only a server's first answer can tell."""

    @property
    def cached(self) -> bool:
        """Whether the vectors take so much time or money to make that they should be stored."""

    @property
    def mean(self) -> Vector | None:
        """The mean direction of all texts' vectors in this model, where it is known beforehand; else None."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return one row of unit length for each text, in order; zeros for a text without a known word.

        `query` tells that the texts are questions, which some models embed in another way.
        """


class Dear(Embedder, Protocol):
    """An embedder whose vectors are costly, and which therefore yields them as soon as they are made."""

    def parts(
        self, texts: Sequence[str], *, query: bool = False, dimension: int | None = None
    ) -> Iterator[Part]:
        """Yield the rows of `embed` in parts, in any order, without rows of zeros.

        Where `dimension` is given, a vector of another length is a failure. The parts that were yielded stay
        valid when a later part fails.
        """

    def forget_dimension(self) -> None:
        """Forget the length of earlier vectors, and accept any length in the next answer."""


class Renewing(Embedder, Protocol):
    """An embedder whose server may change the model behind a name."""

    def renew(self, dimension: int) -> bool:
        """Ask the server for a vector, and return whether the vector has this dimension.

        If so, the dimension is expected from then on.
        """


class PassageReader(NamedTuple):
    """A model that reads passages, with the function that cuts a passage into parts of the right length."""

    model: Embedder
    cut: Callable[[str], list[str]]


_until: ContextVar[float] = ContextVar("until", default=math.inf)


@contextlib.contextmanager
def within(deadline: float | None) -> Iterator[None]:
    """Make embedders in the block give up at this moment of the monotonic clock; None sets no limit."""
    token = _until.set(math.inf if deadline is None else deadline)
    try:
        yield
    finally:
        _until.reset(token)


def patience() -> float:
    """Return the moment of the monotonic clock at which the caller stops waiting."""
    return _until.get()


def is_dear(embedder: Embedder) -> TypeGuard[Dear]:
    """Return whether an embedder's vectors are costly enough to be stored."""
    return embedder.cached


def renews(embedder: object) -> TypeGuard[Renewing]:
    """Return whether the model behind an embedder's name can change."""
    return hasattr(embedder, "renew")


def gather(parts: Iterable[Part], count: int, *, dimension: int) -> Vectors:
    """Return the rows of all parts in the order of the texts; a text without a row gets zeros."""
    vectors = np.zeros((count, dimension), np.float32)
    for places, rows in parts:
        vectors[list(places)] = rows
    return vectors


def family(embedder: Embedder) -> str:
    """Return the kind of an embedder for which weights were fitted: `static`, `minilm`, or `other`."""
    if embedder.provider == "minilm":
        return "minilm"
    return "static" if embedder.provider == "local" and embedder.model == SHIPPED_MODEL else "other"


def common_direction(embedder: Embedder) -> Vector:
    """Return the direction that all texts of a model share: its own `mean`, or the mean of the probes.

    A server embeds the probes once; then they are in the cache.
    """
    if embedder.mean is not None:
        return embedder.mean
    mean: Vector = embedder.embed(PROBES).mean(axis=0)
    return mean


def likeness(vectors: Vectors, query: Vector, *, mean: Vector) -> Vector:
    """Return the cosine of each row with a query vector, after the common direction is removed from both.

    Plain cosines of two models cannot be compared: unrelated texts have 0.33 in ours and 0.01 in MiniLM.
    Without the common direction they are around 0 in each.
    """
    rows, wanted = vectors - mean, query - mean
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.sqrt(wanted @ wanted)
    # A zero row stands for an empty text, which is similar to nothing.
    known = vectors.any(axis=1) & bool(query.any()) & (lengths > 0)
    result: Vector = np.where(known, rows @ wanted / np.where(known, lengths, 1), 0).astype(np.float32)
    return result


def unit(vectors: Vectors) -> Vectors:
    """Return the rows scaled to unit length; a row of zeros stays as it is."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    lengths[lengths == 0] = 1
    result: Vectors = (vectors / lengths[:, None]).astype(np.float32)
    return result
