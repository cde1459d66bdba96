"""Leave a provider alone for a while after it failed, so that not every search waits for it again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderChanged, EmbedderFailed
from vademecum.index.embed.base import patience, renews

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.index.embed.base import Embedder, Vector, Vectors

REST = 30.0  # seconds


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
