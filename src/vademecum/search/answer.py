"""What a search returns: passages with their lines, and how much of what is there they were chosen from."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

from vademecum.search import relevance
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vademecum.search.engine import Options
    from vademecum.search.query import Query
    from vademecum.types import Place


TRANSCRIPT = "transcript"  # the source of what was said in a session


class Cited(NamedTuple):
    """Something of the project that a passage cites, and how it stands now."""

    cited: str
    standing: str  # verified, moved, changed or gone
    why: str = ""


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
    claims: tuple[Cited, ...] = ()
    stale: str | None = None  # how its entry is marked
    related: Mapping[str, str] | None = None  # to which hit, how and by whose word, when it is none itself

    @property
    def match(self) -> str:
        """How likely it answers: `strong`, `likely` or `weak`."""
        return relevance.match(self.relevance)


class Coverage(NamedTuple):
    """How much of what is there an answer could draw upon."""

    files: int = 0
    indexed: int = 0
    pending: int = 0
    failed: int = 0
    vectors_pending: int = 0
    sessions: int = 0  # that were searched as well; none when notes had filled every place

    @property
    def share(self) -> float:
        """From 0 to 1."""
        return 1.0 if not self.files else self.indexed / self.files


_UNSEARCHED = Coverage()


@dataclass(frozen=True, slots=True)
class Answer:
    """A sequence of passages, and what the search covered: an empty answer is never a hidden error."""

    results: tuple[Passage, ...]
    mode: str
    coverage: Coverage = _UNSEARCHED
    degraded: tuple[str, ...] = ()
    provider: str = "none"
    model: str = ""
    notes: tuple[str, ...] = ()  # how the question was read, where that is not what was typed
    hidden: int = 0  # how many the caller's own `min_score` left out

    def __len__(self) -> int:
        return len(self.results)

    def __iter__(self) -> Iterator[Passage]:
        return iter(self.results)

    def __getitem__(self, at: int) -> Passage:
        return self.results[at]

    @property
    def match(self) -> str:
        """How likely the best result answers: `strong`, `likely` or `weak`; `none` without results."""
        best = max((each.relevance for each in self.results if each.related is None), default=None)
        return "none" if best is None else relevance.match(best)

    def by_match(self) -> list[Passage]:
        """The results as people read them: strong, likely, then weak ones, each in their order.

        What only lists, or was put in an order of the caller's, stays as it is.
        """
        if self.mode == "metadata":
            return list(self.results)
        hits = [each for each in self.results if each.related is None]
        beside = [each for each in self.results if each.related is not None]
        return [*sorted(hits, key=lambda each: relevance.MATCHES.index(each.match)), *beside]


def without_weak(found: Answer, most: int) -> Answer:
    """An answer in which only so many are left when all are weak, and which then says so."""
    if found.mode == "metadata" or found.match != relevance.WEAK or most < 0:
        return found
    note = "only weak matches were found: they may not answer the question"
    return replace(found, results=found.results[:most], notes=(*found.notes, note))


def joined(found: Answer, said: Sequence[Passage], most: int) -> tuple[Passage, ...]:
    """Notes and then what was said in sessions; of the notes, weak ones at the end make room."""
    notes = list(found.results)
    while len(notes) + len(said) > most and notes and notes[-1].match == relevance.WEAK:
        notes.pop()
    return (*notes, *said)[:most]


def places_left(query: Query, options: Options, taken: int) -> int:
    """How many places what was said in sessions may take: those that notes left free, and few of all.

    Notes come first, whatever was said; only who asks for nothing else gets nothing else.
    """
    if query.type is not None or query.tags or query.scope not in (None, Scope.PROJECT):
        return 0  # what was said has neither, and belongs to a project
    if query.sources == (TRANSCRIPT,):
        return options.max_results
    by_words = options.mode in ("hybrid", "bm25") and bool(query.text)
    if (TRANSCRIPT not in query.sources) if query.sources else not by_words:
        return 0
    return max(0, min(options.max_results - taken, max(1, options.max_results // 3)))


def nothing(why: str) -> Answer:
    """An answer that holds nothing, and says why."""
    return Answer((), "none", Coverage(), (why,))
