"""Answering a question: ask both legs, merge, rank, and say how it came about.

Relevance and rank are two things. The score orders answers among each other; the relevance says, on its own
scale, whether one is an answer at all, so that a question about nothing in the store is answered by nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import EmbedderFailed
from vademecum.index import words
from vademecum.index.embed.base import common_direction, likeness
from vademecum.index.sqlite import head
from vademecum.search import fuse, rank
from vademecum.search.query import Predicate, Query, predicate

if TYPE_CHECKING:
    from collections.abc import Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vademecum.index.embed.base import Embedder, Vector
    from vademecum.index.matrix import Matrix
    from vademecum.index.sqlite import Index, Mark, Row
    from vademecum.types import Place

MODES = ("hybrid", "bm25", "vector", "metadata")
DEPTH = 200  # candidates a leg gives at least
COMMON = 0.25  # a word in more than this share of all chunks is dropped, in a store of some size,
COMMON_FROM = 2_000  # when at least two rarer ones remain
MOST_WORDS = 64  # of a long question the rarest words are looked for
EXACT_ROWS = 20  # a phrase in more places than this tells nothing apart
FEW = 10  # vectors whose mean says little yet
SNIPPET = 700

# relevance = SHARE × the idf-weighted share of the question's words + LIKENESS × the cosine without what all
# texts have in common; found so that unrelated text stays below 0.35.
SHARE, LIKENESS = 0.56, 0.8


DEFAULT_WEIGHTS = fuse.Weights()


class Hit(NamedTuple):
    """One answer: a chunk, why it is one, and how sure that is."""

    row: Row
    score: float
    relevance: float
    evidence: fuse.Evidence
    snippet: str


@dataclass(slots=True)
class Found:
    """The hits, and how they were found."""

    hits: list[Hit] = field(default_factory=list)
    mode: str = "hybrid"
    degraded: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Options:
    """How to answer."""

    mode: str = "hybrid"
    max_results: int = 6
    min_score: float = 0.35
    fusion: str = "weighted"
    weights: fuse.Weights = DEFAULT_WEIGHTS
    multiplier: int = 4


class Engine:
    """Answers from one index; keeps the vectors in memory between questions."""

    def __init__(self, index: Index, embedder: Embedder | None) -> None:
        self.index = index
        self.embedder = embedder
        self._matrix: Matrix | None = None
        self._mean: Any = None
        self._seen: tuple[Any, list[tuple[int, int]]] = (None, [])

    def search(self, query: Query, places: Sequence[Place], options: Options) -> Found:
        """The best answers in these places."""
        found = Found(mode=options.mode)
        allowed = predicate(query, places)
        if options.mode == "metadata" or not query.text:
            found.mode = "metadata"
            ids = self.index.select(allowed.chunks, allowed.chunk_values, options.max_results)
            blank = fuse.Evidence(0.0, 0.0, 0.0, 0.0, 0.0)
            rows = self.index.rows(ids)
            found.hits = [Hit(rows[id_], 0.0, 1.0, blank, snippet(rows[id_].body, ())) for id_ in ids]
            return found
        asked = words.terms(query.text)
        limit = max(DEPTH, options.max_results * options.multiplier)
        legs = self._legs(query, asked, allowed, mode=options.mode, limit=limit, found=found)
        if legs.candidates:
            self._rank(query, asked, legs, options, found)
        return found

    # ---------------------------------------------------------------- legs

    def _legs(
        self, query: Query, asked: words.Terms, allowed: Predicate, *, mode: str, limit: int, found: Found
    ) -> _Legs:
        legs = _Legs(count=self.index.count())
        if mode != "vector":
            self._keywords(asked, allowed, limit, legs)
        if mode in ("hybrid", "vector"):
            try:
                self._vectors(query, allowed, limit, legs)
            except EmbedderFailed as error:
                found.degraded.append(f"keywords only: {error}")
            if legs.query is None:
                found.mode = "bm25"
                if self.embedder is None:
                    found.degraded.append("keywords only: no embedder is set")
                elif not found.degraded and legs.count:
                    found.degraded.append("keywords only: no vectors have been made yet")
        legs.marks = self.index.marks(legs.ids())
        legs.candidates = [(id_, mark.file) for id_, mark in legs.marks.items()]
        return legs

    def _keywords(self, asked: words.Terms, allowed: Predicate, limit: int, legs: _Legs) -> None:
        frequency = {word: self.index.frequency(word) for word in asked.words}
        legs.frequency = frequency
        live = [word for word in asked.words if frequency[word]]
        if legs.count >= COMMON_FROM:
            rare = [word for word in live if frequency[word] <= COMMON * legs.count]
            live = rare if len(rare) >= 2 else live
        live = sorted(live, key=frequency.__getitem__)[:MOST_WORDS]
        if live:
            expression = " OR ".join(words.quoted((word,)) for word in live)
            legs.narrow = dict(
                self.index.match_narrow(expression, allowed.chunks, allowed.chunk_values, limit)
            )
            legs.wide = dict(self.index.match_wide(expression, allowed.files, allowed.file_values, limit))
        total = max(1, len(asked.words))
        for phrase in asked.phrases:
            expression = f"{{body head}} : {words.quoted(phrase)}"
            rows = self.index.match_narrow(expression, allowed.chunks, allowed.chunk_values, EXACT_ROWS + 1)
            if len(rows) <= EXACT_ROWS:
                for id_, _ in rows:
                    share = min(1.0, len(phrase) / total)
                    legs.exact[id_] = legs.exact.get(id_, 0.0) + share * share

    def _vectors(self, query: Query, allowed: Predicate, limit: int, legs: _Legs) -> None:
        """The nearest chunks; keyword hits get their true cosine as well."""
        if self.embedder is None:
            return
        if self._matrix is None:
            from vademecum.index.matrix import Matrix

            self._matrix = Matrix()
        self._matrix.refresh(self.index)
        if not len(self._matrix.ids):
            return
        legs.query = self.embedder.embed([query.text], query=True)[0]
        nearest = self._matrix.nearest(legs.query, limit, allowed=self._allowed(allowed))
        legs.cosine = dict(zip(nearest.ids.tolist(), nearest.cosines.tolist(), strict=True))
        missing = [id_ for id_ in {**legs.narrow, **legs.exact} if id_ not in legs.cosine]
        ids, rows = self._matrix.of(missing)
        legs.cosine.update(zip(ids, (rows @ legs.query).tolist() if ids else [], strict=True))
        # The mean of a few texts is about those texts: there it must not push one of two good answers to 0.
        floor = nearest.floor * len(self._matrix.ids) / (len(self._matrix.ids) + FEW)
        legs.vector = {id_: max(cosine - floor, 0.0) for id_, cosine in legs.cosine.items()}

    def _allowed(self, allowed: Predicate) -> NDArray[np.int64]:
        """The ids of all chunks that may be answered, remembered until the index changes."""
        import numpy as np

        mark = (self.index.version, allowed)
        if self._seen[0] != mark:
            self._seen = mark, self.index.visible_chunks(allowed.chunks, allowed.chunk_values)
        return np.array([id_ for id_, _ in self._seen[1]], np.int64)

    # ---------------------------------------------------------------- order

    def _rank(self, query: Query, asked: words.Terms, legs: _Legs, options: Options, found: Found) -> None:
        if options.fusion == "rrf":
            merged = fuse.reciprocal(
                legs.candidates, vector=legs.vector, narrow=legs.narrow, wide=legs.wide, exact=legs.exact
            )
        else:
            merged = fuse.weighted(
                legs.candidates,
                vector=legs.vector,
                narrow=legs.narrow,
                wide=legs.wide,
                exact=legs.exact,
                weights=options.weights,
            )
        replaced = {id_ for id_, mark in legs.marks.items() if mark.superseded and query.as_of is None}
        scores = {
            id_: evidence.score * (rank.SUPERSEDED if id_ in replaced else 1.0)
            for id_, evidence in merged.items()
        }
        ordered = rank.spread(scores, dict(legs.candidates))
        scored = dict(ordered)
        kept = [id_ for id_, _ in ordered[: max(50, options.max_results * options.multiplier)]]
        rows: dict[int, Row] = {}
        if options.min_score > 0:
            rows = self.index.rows(kept)
            legs.relevance = self._relevances(rows, asked, legs)
            kept = [id_ for id_ in kept if legs.relevance[id_] >= options.min_score]
        chosen = rank.with_quota(
            kept, lambda id_: legs.marks[id_].source, options.max_results, free=frozenset({"memory"})
        )
        if options.min_score <= 0:  # nothing is turned away, so only what is shown is weighed
            rows = self.index.rows(chosen)
            legs.relevance = self._relevances(rows, asked, legs)
        found.hits = [
            Hit(
                rows[id_], scored[id_], legs.relevance[id_], merged[id_], snippet(rows[id_].body, asked.words)
            )
            for id_ in chosen
        ]

    def _relevances(self, rows: dict[int, Row], asked: words.Terms, legs: _Legs) -> dict[int, float]:
        """Absolute evidence from 0 to 1 that each chunk answers; an exact match is never hidden."""
        weights = self._weights(asked, legs)
        alike = self._alike(list(rows), legs)
        found = {}
        for id_, row in rows.items():
            share = self._share(row, weights)
            if legs.exact.get(id_, 0.0) >= 0.5 or share > 0.999:
                found[id_] = 1.0
            elif alike is None:
                found[id_] = share
            else:
                found[id_] = min(1.0, SHARE * share + LIKENESS * max(alike.get(id_, 0.0), 0.0))
        return found

    def _alike(self, ids: list[int], legs: _Legs) -> dict[int, float] | None:
        """How alike chunks and question are in meaning; None when nothing is known of that."""
        if legs.query is None or self._matrix is None or self.embedder is None:
            return None
        known, vectors = self._matrix.of(ids)
        return dict(zip(known, likeness(vectors, legs.query, mean=self._common()).tolist(), strict=True))

    def _common(self) -> Vector:
        """What all texts of the model have in common, found once."""
        if self._mean is None and self.embedder is not None:
            self._mean = common_direction(self.embedder)
        mean: Vector = self._mean
        return mean

    def _weights(self, asked: words.Terms, legs: _Legs) -> dict[tuple[str, ...], float]:
        """The stems of each word asked for, and how much it tells: rare ones more."""
        found = {}
        for word in asked.words if legs.frequency else ():
            seen = legs.frequency.get(word, 0)
            found[self.index.stems(word)] = math.log(1 + (legs.count - seen + 0.5) / (seen + 0.5))
        return found

    def _share(self, row: Row, weights: dict[tuple[str, ...], float]) -> float:
        """How much of the question stands in a chunk."""
        total = sum(weights.values())
        if not total:
            return 0.0
        top = head(row.title, row.heading, row.time, row.tags, row.body)
        text = words.fold(f"{top} {row.body}").lower()
        # Stemming changes the end of a word: one that begins otherwise cannot match, and most do.
        starts = {stem[:2] for stems in weights for stem in stems}
        near = {word for word in words.WORD.findall(text) if word[:2] in starts or not word.isascii()}
        have = {stem for word in near for stem in self.index.stems(word)}
        return sum(weight for stems, weight in weights.items() if have.intersection(stems)) / total


@dataclass(slots=True)
class _Legs:
    """What each leg found."""

    count: int
    narrow: dict[int, float] = field(default_factory=dict)
    wide: dict[int, float] = field(default_factory=dict)
    exact: dict[int, float] = field(default_factory=dict)
    vector: dict[int, float] = field(default_factory=dict)
    cosine: dict[int, float] = field(default_factory=dict)
    frequency: dict[str, int] = field(default_factory=dict)
    query: Any = None
    candidates: list[tuple[int, int]] = field(default_factory=list)
    marks: dict[int, Mark] = field(default_factory=dict)
    relevance: dict[int, float] = field(default_factory=dict)

    def ids(self) -> list[int]:
        """Every chunk that some leg named."""
        return list({**self.narrow, **self.vector, **self.exact})


def snippet(body: str, asked: Sequence[str]) -> str:
    """The part of a chunk that shows why it was found, cut at words."""
    if len(body) <= SNIPPET:
        return body
    lower = body.lower()
    places = [at for word in asked if (at := lower.find(word)) >= 0]
    start = max(0, min(places, default=0) - SNIPPET // 3)
    start = 0 if start == 0 else body.find(" ", start) + 1
    end = min(len(body), start + SNIPPET)
    end = body.rfind(" ", start, end) if end < len(body) and body.rfind(" ", start, end) > start else end
    return ("… " if start else "") + body[start:end].strip() + (" …" if end < len(body) else "")
