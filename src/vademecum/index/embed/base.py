"""What an embedder is, and how alike two of its vectors are.

Knows vectors and texts; knows nothing of chunks, files or databases.
"""

from __future__ import annotations

import contextlib
import math
from contextvars import ContextVar
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias, TypeGuard

from vademecum.stand_ins import LazyModule

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
# Plain sentences with nothing in common but being sentences: what their vectors share, all texts share.
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
    """Text in, unit vectors out."""

    @property
    def provider(self) -> str:
        """The name it is chosen by: `local`, `minilm`, `openai`, `gemini`, `ollama`."""

    @property
    def model(self) -> str:
        """The model's own name, for people."""

    @property
    def identity(self) -> str:
        """One line that changes whenever the same text would give another vector."""

    @property
    def dimension(self) -> int | None:
        """The length of a vector; None while only the first answer of a server can tell."""

    @property
    def cached(self) -> bool:
        """Whether a vector is dear enough to be kept on disk and not made again."""

    @property
    def mean(self) -> Vector | None:
        """The direction all texts of this model share, where it is known beforehand."""

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Give each text a row of unit length, in order; a text without a known word gets zeros."""


class Dear(Embedder, Protocol):
    """An embedder whose vectors are worth keeping, and which gives them as they are made."""

    def parts(
        self, texts: Sequence[str], *, query: bool = False, dimension: int | None = None
    ) -> Iterator[Part]:
        """Give the rows of `embed` some at a time, in any order, without those that are zeros.

        Where the dimension is known from before, any other is a failure. A part that was given stays
        good when a later one fails.
        """

    def forget_dimension(self) -> None:
        """Take the next answer for what it is, whatever was known from before."""


class Renewing(Embedder, Protocol):
    """An embedder behind whose name another model can appear."""

    def renew(self, dimension: int) -> bool:
        """Ask once more, and go on with this dimension if the answer has it; else all stays as it was."""


class PassageReader(NamedTuple):
    """A model that reads, and how a text is cut into parts that it reads one by one."""

    model: Embedder
    cut: Callable[[str], list[str]]


_until: ContextVar[float] = ContextVar("until", default=math.inf)


@contextlib.contextmanager
def within(deadline: float | None) -> Iterator[None]:
    """Have embedders give up at a moment of the monotonic clock: whoever asks does not wait longer."""
    token = _until.set(math.inf if deadline is None else deadline)
    try:
        yield
    finally:
        _until.reset(token)


def patience() -> float:
    """The moment of the monotonic clock at which whoever asks stops waiting."""
    return _until.get()


def is_dear(embedder: Embedder) -> TypeGuard[Dear]:
    """Tell whether an embedder's vectors are worth keeping."""
    return embedder.cached


def renews(embedder: object) -> TypeGuard[Renewing]:
    """Tell whether another model can appear behind an embedder's name."""
    return hasattr(embedder, "renew")


def gather(parts: Iterable[Part], count: int, *, dimension: int) -> Vectors:
    """Put rows into their places; a text that none was made for gets zeros."""
    vectors = np.zeros((count, dimension), np.float32)
    for places, rows in parts:
        vectors[list(places)] = rows
    return vectors


def family(embedder: Embedder) -> str:
    """Which models it was measured with: `static` for the one we ship, `minilm`, or `other`."""
    if embedder.provider == "minilm":
        return "minilm"
    return "static" if embedder.provider == "local" and embedder.model == SHIPPED_MODEL else "other"


def common_direction(embedder: Embedder) -> Vector:
    """Find what all texts of a model have in common: its own word for it, or the mean of the probes.

    The probes are texts like any other: a server is asked for them once, and then they are in the cache.
    """
    if embedder.mean is not None:
        return embedder.mean
    mean: Vector = embedder.embed(PROBES).mean(axis=0)
    return mean


def likeness(vectors: Vectors, query: Vector, *, mean: Vector) -> Vector:
    """Compare rows with a query by the cosine of what is left without the common direction.

    Plain cosines of two models cannot be compared: unrelated texts have 0.33 in ours and 0.01 in MiniLM.
    Without the common direction they fall around 0 in each.
    """
    rows, wanted = vectors - mean, query - mean
    lengths = np.sqrt(np.einsum("ij,ij->i", rows, rows)) * np.sqrt(wanted @ wanted)
    # A zero row stands for no text at all, and is like nothing.
    known = vectors.any(axis=1) & bool(query.any()) & (lengths > 0)
    result: Vector = np.where(known, rows @ wanted / np.where(known, lengths, 1), 0).astype(np.float32)
    return result


def unit(vectors: Vectors) -> Vectors:
    """Make every row unit length; a row of zeros stays."""
    lengths = np.sqrt(np.einsum("ij,ij->i", vectors, vectors, dtype=np.float64))
    lengths[lengths == 0] = 1
    result: Vectors = (vectors / lengths[:, None]).astype(np.float32)
    return result
