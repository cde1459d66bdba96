"""What a search returns: passages with their lines, and how much of what is there they were chosen from."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vademecum.types import Place


class Passage(NamedTuple):
    """The unit of an answer: lines of a file, why they were found, and what they belong to."""

    path: str
    start: int
    end: int
    snippet: str
    score: float
    relevance: float
    source: str
    place: Place
    components: Mapping[str, float]
    title: str = ""
    key: str | None = None
    type: str | None = None
    num: int | None = None
    tags: tuple[str, ...] = ()
    time: str | None = None
    origin: str | None = None
    superseded: str | None = None
    arithmetic: Mapping[str, float] | None = None


class Coverage(NamedTuple):
    """How much of what is there an answer could draw upon."""

    files: int = 0
    indexed: int = 0
    pending: int = 0
    failed: int = 0
    vectors_pending: int = 0

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return 1.0 if not self.files else self.indexed / self.files


class Answer(NamedTuple):
    """Passages, and what the search covered: an empty answer is never a hidden error."""

    results: tuple[Passage, ...]
    mode: str
    coverage: Coverage
    degraded: tuple[str, ...] = ()
    provider: str = "none"
    model: str = ""


def nothing(why: str) -> Answer:
    """An answer that holds nothing, and says why."""
    return Answer((), "none", Coverage(), (why,))
