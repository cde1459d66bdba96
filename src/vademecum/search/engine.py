"""Answering a question: ask both legs, merge, rank, and say how it came about.

Relevance and rank are two things. The score orders answers among each other; the relevance says, on its own
scale, how likely one is an answer at all, and hides nothing.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import EmbedderChanged, EmbedderFailed, IndexFailed
from vademecum.index import lexicon, speech, words
from vademecum.index.base import MEMORY
from vademecum.index.embed.base import common_direction, family, likeness
from vademecum.search import fuse, rank, relevance
from vademecum.search.query import Predicate, Query, View, predicate
from vademecum.store import clock
from vademecum.text.words import WORD
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vademecum.index.embed.base import Embedder, Vector
    from vademecum.index.speech import Speech
    from vademecum.index.sqlite import Index, Mark, Row
    from vademecum.index.sync import Sync
    from vademecum.index.vectors import Matrix

    Mask = NDArray[np.bool_]

MODES = ("hybrid", "bm25", "vector", "metadata")
MOST_RESULTS = 10_000
MOST_SORTED = 2_000  # the newest, among which the most used are looked for when nothing is asked
ORDERS = ("recency", "score", "usage")
DEPTH = 50  # candidates a leg gives at least, with the usual multiplier
USUAL = 4
HEAD = 1_000  # characters of a passage that count as its beginning
LOOKED_AT = 500  # passages whose labels are read at once
COMMON = 0.25  # a word in more than this share of all chunks is dropped, in a store of some size,
COMMON_FROM = 2_000  # when at least two rarer ones remain
MOST_WORDS = 64  # of a long question the rarest words are looked for
EXACT_ROWS = 20  # a phrase in more places than this tells nothing apart
KEPT = 3  # places within which hybrid keeps what words alone put first through a rare one:
RARE, RARE_SHARE = 3, 0.01  # one that stands in so many chunks at most, or in such a share of all
NO_MARK = bytes(5)  # longer than any mark can match by chance
NEIGHBOURS = 0.6  # what a chunk counts of what its neighbours say
FEW = 10  # vectors whose mean says little yet
MOST_WEIGHED = 24  # candidates at least among which a caller's own limit looks for answers
SNIPPET = 700

SAME = 1e-9  # scores that lie no further apart are the same
DEFAULT_WEIGHTS = fuse.Weights()
_PRECEDENCE = {str(scope): number for number, scope in enumerate(Scope)}


class Hit(NamedTuple):
    """One answer: a chunk, why it is one, and how sure that is."""

    row: Row
    score: float
    relevance: float
    evidence: fuse.Evidence
    snippet: str
    arithmetic: dict[str, float] | None = None


class Found:
    """The hits, and how they were found."""

    def __init__(self, mode: str = "hybrid") -> None:
        self.hits: list[Hit] = []
        self.mode = mode
        self.by_words = mode in ("bm25", "metadata")  # whether vectors were not even asked for
        self.degraded: list[str] = []
        self.hidden = 0  # how many the caller's own limit left out


class Options(NamedTuple):
    """How to answer."""

    mode: str = "hybrid"
    max_results: int = 6
    min_score: float = 0.0
    fusion: str = "weighted"
    weights: fuse.Weights = DEFAULT_WEIGHTS
    multiplier: int = 4
    sort_by: str | None = None
    explain: bool = False


class Meaning(NamedTuple):
    """The vector of a question, or why there is none."""

    vector: Any = None
    lacking: str = ""
    changed: EmbedderChanged | None = None  # when the model is not the one that the index knows


class Engine:
    """Answers from one index; keeps the vectors in memory between questions."""

    def __init__(
        self,
        index: Index,
        sync: Sync,
        uses: Callable[[list[str]], dict[str, int]],
        lacking: Callable[[], str],
    ) -> None:
        self.index = index
        self._sync = sync
        self._uses = uses
        self._lacking = lacking
        self._matrix: Matrix | None = None
        self._mean: Any = None
        self._open: tuple[Any, bool] = (None, False)
        self._mask: tuple[Any, Mask | None] = (None, None)

    @property
    def embedder(self) -> Embedder | None:
        """What makes vectors, if there is anything."""
        return self._sync.embedder

    def meaning(self, query: Query, options: Options) -> Meaning:
        """The vector of a question, made before the index is looked at: a server may take its time."""
        if options.mode not in ("hybrid", "vector") or not query.text:
            return Meaning()
        if self.embedder is None:
            return Meaning(lacking=self._lacking())
        if self.index.meta("dimension") is None:
            return Meaning(lacking="no vectors have been made yet")
        try:
            self._common()
            vector = self.embedder.embed([query.text], query=True)[0]
        except EmbedderChanged as error:
            return Meaning(lacking=str(error), changed=error)
        except EmbedderFailed as error:
            return Meaning(lacking=str(error))
        if str(len(vector)) == self.index.meta("dimension"):
            return Meaning(vector)
        lacking = f"the model gives {len(vector)} dimensions now, and the index holds others"
        return Meaning(lacking=lacking, changed=EmbedderChanged(lacking, dimension=len(vector)))

    def search(self, query: Query, view: View, options: Options, meaning: Meaning) -> Found:
        """The best answers in sight."""
        found = Found(mode=options.mode)
        allowed = predicate(query, view)
        if options.mode == "metadata" or not query.text:
            found.mode = "metadata"
            self._by_labels(query, allowed, options, found)
            return found
        if query.phrases:
            allowed = allowed.only(self.index.holding(query.phrases, allowed.chunks, allowed.chunk_values))
        asked = words.terms(query.text)
        limit = depth(options)
        legs = _Legs(self.index.count())
        legs.query = meaning.vector
        self._fill(legs, asked, allowed, mode=options.mode, limit=limit)
        if options.mode in ("hybrid", "vector") and legs.query is None and not legs.unknown:
            found.mode = "bm25"
            if legs.count or self.embedder is None:
                found.degraded.append(f"keywords only: {legs.lacking or meaning.lacking}")
        if legs.marks:
            self._rank(query, asked, allowed=allowed, legs=legs, options=options, found=found)
        return found

    def _by_labels(self, query: Query, allowed: Predicate, options: Options, found: Found) -> None:
        """What the filters let through and has every word asked for in its labels or its beginning.

        The newest first, or the most used; no meaning and no ranking.
        """
        wide = MOST_SORTED if options.sort_by in ("score", "usage") else options.max_results
        units = words.units(query.text, query.phrases)
        ids = self.index.select(allowed.chunks, allowed.chunk_values, -1 if units else wide)
        if units:
            ids = self._labelled(units, ids, wide)
        rows = self.index.rows(ids, allowed.chunks, allowed.chunk_values)
        blank = fuse.Evidence(0.0, 0.0, 0.0, 0.0, 0.0)
        scores = self._sorted(options.sort_by, {id_: rows[id_] for id_ in ids}, {})
        order = [*scores, *(each for each in ids if each not in scores)]
        if query.as_of is None:
            order = rank.living_first(order, rows)
        found.hits = [
            Hit(rows[id_], scores.get(id_, 0.0), 1.0, blank, snippet(rows[id_].body, units))
            for id_ in order[: options.max_results]
        ]

    def _labelled(self, units: Sequence[str], ids: Sequence[int], most: int) -> list[int]:
        """The first chunks that have every one of some words, or parts of words, in labels or beginning."""
        chosen: list[int] = []
        for start in range(0, len(ids), LOOKED_AT):
            for id_, text in self.index.labels(ids[start : start + LOOKED_AT], HEAD):
                label = words.plain(text)
                if all(unit in label for unit in units):
                    chosen.append(id_)
            if len(chosen) >= most:
                break
        return chosen[:most]

    # ---------------------------------------------------------------- legs

    def _fill(self, legs: _Legs, asked: words.Terms, allowed: Predicate, *, mode: str, limit: int) -> None:
        """Ask each leg; without vectors there are words to go by."""
        seen = self._sees_all(allowed)
        if mode != "vector" or legs.query is None:
            self._keywords(asked, allowed, limit, legs, everything=seen)
        if legs.query is not None and mode == "hybrid" and legs.narrow and not self._is_known(asked):
            legs.query = None  # a model that does not know the question has no vote where words have one
            legs.unknown = True
        if legs.query is not None:
            self._vectors(allowed, limit, legs, everything=seen)
        unmarked = [id_ for id_ in {**legs.narrow, **legs.exact} if id_ not in legs.marks]
        if unmarked:  # keywords alone, or chunks whose vectors are still to be made
            legs.marks.update(self.index.marks(unmarked))
            if any(id_ not in legs.marks for id_ in unmarked):
                raise IndexFailed("the index finds passages that it does not hold")
        legs.worded = {*legs.narrow, *legs.exact}
        legs.hear_neighbours()

    def _is_known(self, asked: words.Terms) -> bool:
        """Whether the embedder knows the script of a question, and one of its words."""
        if self.embedder is None or family(self.embedder) == "other":
            return True  # nothing is known of what it knows
        return any(words.is_latin(word) and lexicon.rank(word) < lexicon.RAREST for word in asked.words)

    def _sees_all(self, allowed: Predicate) -> bool:
        """Whether everything in the index may be answered: then no row need be asked for its place."""
        mark = (self.index.version, allowed)
        if self._open[0] != mark:
            where, values = (
                (allowed.files, allowed.file_values)
                if allowed.by_file
                else (allowed.chunks, allowed.chunk_values)
            )
            self._open = mark, not self.index.hides(where, values, chunks=not allowed.by_file)
        return self._open[1]

    def _keywords(
        self, asked: words.Terms, allowed: Predicate, limit: int, legs: _Legs, *, everything: bool
    ) -> None:
        frequency = {word: self.index.frequency(word) for word in asked.words}
        legs.frequency = frequency
        expression = _expression(frequency, legs.count)
        if expression:
            legs.narrow = self._match(expression, allowed, limit, everything=everything)
            files = None if everything else allowed.files
            legs.wide = self.index.match_wide(expression, files, allowed.file_values, limit)
        total = max(1, len(asked.words))
        for phrase, certain in asked.phrases:
            rows = self._match(words.quoted(phrase), allowed, EXACT_ROWS + 1, everything=everything)
            if len(rows) <= EXACT_ROWS:
                legs.certain.update(rows if certain else ())
                share = min(1.0, len(phrase) / total)
                for id_ in rows:
                    legs.exact[id_] = legs.exact.get(id_, 0.0) + share * share

    def _match(
        self, expression: str, allowed: Predicate, limit: int, *, everything: bool
    ) -> dict[int, float]:
        if everything:
            return dict(self.index.match(expression, limit))
        return dict(self.index.match_where(expression, allowed.chunks, allowed.chunk_values, limit))

    def _vectors(self, allowed: Predicate, limit: int, legs: _Legs, *, everything: bool) -> None:
        """The nearest chunks; keyword hits get their true cosine as well."""
        if self._matrix is None:
            from vademecum.index.vectors import Matrix

            self._matrix = Matrix()
        matrix = self._matrix
        matrix.refresh(self.index, self._sync.identity[1] or "")
        asked = legs.query
        if not len(matrix) or len(asked) != matrix.dimension:
            legs.query = None
            legs.lacking = (
                f"the model gives {len(asked)} dimensions now, and the index holds {matrix.dimension}"
                if len(matrix)
                else "no vectors have been made yet"
            )
            return
        mask = None if everything else self._allowed(allowed, matrix)
        nearest = matrix.nearest(asked, limit, allowed=mask)
        # The mean of a few texts is about those texts: there it must not push one of two good answers to 0.
        floor = legs.floor = nearest.floor * len(matrix) / (len(matrix) + FEW)
        legs.mean, legs.deviation = nearest.floor, nearest.deviation
        legs.cosine = dict(zip(matrix.ids[nearest.rows].tolist(), nearest.cosines.tolist(), strict=True))
        missing = [id_ for id_ in {**legs.narrow, **legs.exact} if id_ not in legs.cosine]
        rows = nearest.rows
        if missing:
            known, more = matrix.rows_of(missing)
            legs.cosine.update(zip(known, (matrix.exact(more) @ asked).tolist(), strict=True))
            rows = matrix.both(rows, more)
        legs.vector = {id_: cosine - floor for id_, cosine in legs.cosine.items() if cosine > floor}
        legs.marks = matrix.marks(rows)

    def _allowed(self, allowed: Predicate, matrix: Matrix) -> Mask:
        """Which vectors may be answered, remembered until the index changes."""
        mark = (self.index.version, allowed)
        if self._mask[0] != mark or self._mask[1] is None:
            made = (
                matrix.mask(files=self.index.allowed_files(allowed.files, allowed.file_values))
                if allowed.by_file
                else matrix.mask(chunks=self.index.allowed_chunks(allowed.chunks, allowed.chunk_values))
            )
            self._mask = mark, made
            return made
        return self._mask[1]

    # ---------------------------------------------------------------- order

    def _rank(
        self,
        query: Query,
        asked: words.Terms,
        *,
        allowed: Predicate,
        legs: _Legs,
        options: Options,
        found: Found,
    ) -> None:
        most = max(MOST_WEIGHED, options.max_results * options.multiplier)
        ordered, merged, lifted = self._ordered(query, legs, options, most)
        spread = dict(ordered)
        scored = dict(spread)
        rows, weighed, chosen = self._choose(
            [id_ for id_, _ in ordered[:most]],
            query.text,
            asked,
            allowed=allowed,
            legs=legs,
            options=options,
            found=found,
        )
        if options.sort_by is not None:
            again = self._sorted(options.sort_by, {id_: rows[id_] for id_ in chosen}, legs.keyword_shares())
            scored.update(again)
            chosen = rank.living_first([*again], rows) if query.as_of is None else [*again]
        for id_ in chosen[: options.max_results]:
            evidence = merged.of(id_)
            row = rows[id_]
            arithmetic = (
                {
                    **self._arithmetic(
                        id_,
                        legs,
                        merged,
                        lowered=query.as_of is None,
                        lifted=lifted.get(id_, 0.0),
                        spread=spread[id_],
                    ),
                    "score": scored[id_],
                    **{f"sign_{name}": sign for name, sign in weighed[id_].signs._asdict().items()},
                    "relevance": weighed[id_].relevance,
                }
                if options.explain
                else None
            )
            found.hits.append(
                Hit(
                    row,
                    scored[id_],
                    weighed[id_].relevance,
                    evidence,
                    snippet(row.body, asked.words, query.phrases),
                    arithmetic,
                )
            )

    def _ordered(
        self, query: Query, legs: _Legs, options: Options, most: int
    ) -> tuple[list[tuple[int, float]], fuse.Merged, dict[int, float]]:
        """All candidates in order with their scores, how legs were merged, and who was lifted by how much."""
        files = {id_: mark.file for id_, mark in legs.marks.items()}
        merged = (fuse.reciprocal if options.fusion == "rrf" else fuse.weighted)(
            files,
            vector=legs.vector,
            narrow=legs.narrow,
            wide=legs.wide,
            exact=legs.exact,
            weights=options.weights,
        )
        scores = dict(zip(files, merged.scores, strict=True))
        wanted = speech.wanted(query.text, WORD.findall(query.text.lower()))
        legs.heard = {
            said: rank.heard(said, wanted) for said in {mark.speech for mark in legs.marks.values()}
        }
        for id_, mark in legs.marks.items():
            scores[id_] += sum(legs.heard[mark.speech])
        lifted = rank.behind_living(scores, legs.marks, legs.worded) if query.as_of is None else {}
        ordered = self._settled(rank.spread(scores, files), most)
        return self._not_lost(ordered, merged, legs), merged, lifted

    def _not_lost(
        self,
        ordered: list[tuple[int, float]],
        merged: fuse.Merged,
        legs: _Legs,
    ) -> list[tuple[int, float]]:
        """Keep what words alone would put first through a rare one among the first three."""
        if not legs.vector or not legs.narrow:
            return ordered

        def by_words(id_: int) -> tuple[float, int]:
            _, *parts = merged.parts(id_)
            return sum(parts) + sum(legs.heard[legs.marks[id_].speech]), -id_

        first = max(legs.worded, key=by_words)
        at = next(place for place, (id_, _) in enumerate(ordered) if id_ == first)
        if at < KEPT or not self._holds_rare(first, legs):
            return ordered
        moved = [*ordered[:at], *ordered[at + 1 :]]
        score = moved[KEPT - 1][1]
        legs.raised[first] = score - ordered[at][1]
        moved.insert(KEPT - 1, (first, score))
        return moved

    def _holds_rare(self, id_: int, legs: _Legs) -> bool:
        """Whether a chunk holds a word of the question that hardly any other has."""
        most = max(RARE, int(legs.count * RARE_SHARE))
        rare = [word for word, seen in legs.frequency.items() if 0 < seen <= most]
        if not rare:
            return False
        _, stems = self.index.words_of([id_])[id_]
        return any(mark and mark in stems for mark in map(self.index.mark, rare))

    def _settled(self, ordered: list[tuple[int, float]], most: int) -> list[tuple[int, float]]:
        """Put what scores the same in the order of scopes, then of paths: no order of writing shows."""
        runs: list[tuple[int, int]] = []
        at = 0
        while at < min(most, len(ordered)):
            end = at + 1
            while end < len(ordered) and ordered[at][1] - ordered[end][1] < SAME:
                end += 1
            if end - at > 1:
                runs.append((at, end))
            at = end
        if not runs:
            return ordered
        places = self.index.places([ordered[each][0] for run in runs for each in range(*run)])

        def key(scored: tuple[int, float]) -> tuple[int, str, int]:
            scope, path, order = places.get(scored[0], ("", "", 0))
            return _PRECEDENCE.get(scope, 0), path, order

        for start, end in runs:
            ordered[start:end] = sorted(ordered[start:end], key=key)
        return ordered

    def _choose(
        self,
        ordered: Sequence[int],
        question: str,
        asked: words.Terms,
        *,
        allowed: Predicate,
        legs: _Legs,
        options: Options,
        found: Found,
    ) -> tuple[dict[int, Row], dict[int, Weighed], list[int]]:
        """The first in order, with how relevant each is; only a caller's own limit leaves any out."""
        weigh = _Weigh(self, question, asked, legs)
        weighed: dict[int, Weighed] = {}
        passing: list[int] = []
        chosen: list[int] = []
        wanted = len(ordered) if options.sort_by else options.max_results
        step = len(ordered) if options.min_score > 0 else wanted
        waiting = list(ordered)
        while waiting:
            part, waiting = waiting[:step], waiting[step:]
            if options.min_score > 0:
                weighed.update(weigh(self.index.words_of(part)))
                part = [id_ for id_ in part if weighed[id_].relevance >= options.min_score]
            passing += part
            chosen, full = rank.with_quota(
                passing, lambda id_: legs.marks[id_].source, wanted, free=frozenset({MEMORY})
            )
            if len(chosen) >= wanted:  # only what a full source has to make room for can change the page
                waiting = [id_ for id_ in waiting if legs.marks[id_].source not in full]
        found.hidden = len(weighed) - len(passing) if weighed else 0
        rows = self.index.rows(chosen, allowed.chunks, allowed.chunk_values)
        unweighed = {id_: (row.size, row.stems) for id_, row in rows.items() if id_ not in weighed}
        weighed.update(weigh(unweighed))
        return rows, weighed, [id_ for id_ in chosen if id_ in rows]

    def _sorted(
        self, sort_by: str | None, rows: dict[int, Row], keywords: dict[int, float]
    ) -> dict[int, float]:
        """Chunks in another order than that of the legs, with the numbers they are ordered by."""
        if sort_by is None:
            return {}
        moments = {id_: clock.parse(row.time or row.updated) for id_, row in rows.items()}
        ages = {
            id_: math.inf if moment is None else max(0.0, (time.time() - moment.timestamp()) / 86_400)
            for id_, moment in moments.items()
        }
        uses = {} if sort_by == "recency" else self._uses([row.item for row in rows.values()])
        numbers = {
            id_: 1 / (1 + ages[id_])
            if sort_by == "recency"
            else float(uses.get(row.item, 0))
            if sort_by == "usage"
            else rank.three_factors(
                keywords=keywords.get(id_, 0.0), days=ages[id_], uses=uses.get(row.item, 0)
            )
            for id_, row in rows.items()
        }
        order = sorted(
            numbers, key=lambda id_: (-numbers[id_], ages[id_])
        )  # the sort is stable: then as found
        return {id_: numbers[id_] for id_ in order}

    def _arithmetic(
        self, id_: int, legs: _Legs, merged: fuse.Merged, *, lowered: bool, lifted: float, spread: float
    ) -> dict[str, float]:
        """Every number that made a hit's score, so that it can be worked out again."""
        mark, total = legs.marks[id_], merged.of(id_).score
        replaced = rank.SUPERSEDED if mark.superseded and lowered else 1.0
        heard = legs.heard[mark.speech]
        own = (total + sum(heard)) * replaced + lifted
        raised = legs.raised.get(id_, 0.0)
        return {
            "cosine": legs.cosine.get(id_, 0.0),
            "mean_cosine": legs.floor,
            "bm25_narrow": legs.narrow.get(id_, 0.0),
            "bm25_wide": legs.wide.get(mark.file, 0.0),
            "exact": legs.exact.get(id_, 0.0),
            **merged.scale,
            "sum": total,
            **heard._asdict(),
            "superseded": replaced,
            "above_superseded": lifted,
            "crowding": (spread - raised) / own if own else 1.0,
            "raised": raised,
        }

    # ---------------------------------------------------------------- relevance

    def alike(self, ids: list[int], legs: _Legs) -> dict[int, float] | None:
        """How alike chunks and question are in meaning; None when nothing is known of that."""
        if legs.query is None or self._matrix is None or self.embedder is None:
            return None
        known, rows = self._matrix.rows_of(ids)
        vectors = self._matrix.exact(rows)
        return dict(zip(known, likeness(vectors, legs.query, mean=self._common()).tolist(), strict=True))

    def _common(self) -> Vector:
        """What all texts of the model have in common, found once."""
        if self.embedder is not None and (
            self._mean is None or self.embedder.dimension not in (None, len(self._mean))
        ):
            self._mean = common_direction(self.embedder)
        mean: Vector = self._mean
        return mean


class Weighed(NamedTuple):
    """How relevant a chunk is, and by which signs."""

    relevance: float
    signs: relevance.Signs


class _Weigh:
    """How relevant chunks are to one question."""

    def __init__(self, engine: Engine, question: str, asked: words.Terms, legs: _Legs) -> None:
        self._engine, self._legs = engine, legs
        frequency = legs.frequency or {word: engine.index.frequency(word) for word in asked.words}
        self._weigh = relevance.Weigher(
            question,
            asked.words,
            frequency=frequency,
            count=legs.count,
            scores=legs.narrow.values(),
            rank=lexicon.rank,
        )
        # A word that is none has no mark, and nothing holds it.
        self._marks = [engine.index.mark(word) or NO_MARK for word in asked.words]

    def __call__(self, chunks: dict[int, tuple[int, bytes]]) -> dict[int, Weighed]:
        """Weigh chunks, each given with how many words it has and their marks."""
        if not chunks:
            return {}
        legs = self._legs
        alike = self._engine.alike(list(chunks), legs)
        # Words alone do without the embedder: naming it would load it.
        embedder = None if alike is None else self._engine.embedder
        curve = relevance.curve("none" if embedder is None else family(embedder))
        found = {}
        for id_, (size, stems) in chunks.items():
            signs = self._weigh(
                tuple([mark in stems for mark in self._marks]),
                size,
                around=legs.wide.get(legs.marks[id_].file, 0.0),
                score=legs.narrow.get(id_, 0.0),
                exact=relevance.identified(legs.exact.get(id_, 0.0), certain=id_ in legs.certain),
                alike=0.0 if alike is None else alike.get(id_, 0.0),
                apart=0.0 if alike is None else (legs.cosine.get(id_, 0.0) - legs.mean) / legs.deviation,
            )
            found[id_] = Weighed(curve(signs), signs)
        return found


class _Legs:
    """What each leg found."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.marks: dict[int, Mark] = {}
        self.narrow: dict[int, float] = {}
        self.wide: dict[int, float] = {}
        self.exact: dict[int, float] = {}
        self.vector: dict[int, float] = {}
        self.cosine: dict[int, float] = {}
        self.floor = 0.0
        self.mean, self.deviation = 0.0, 1.0  # of the cosines of the whole store
        self.frequency: dict[str, int] = {}
        self.worded: set[int] = set()  # hold words of the question themselves
        self.certain: set[int] = set()  # hold an identifier of the question as it stands: never hidden
        self.query: Any = None
        self.heard: dict[Speech, rank.Heard] = {}
        self.raised: dict[int, float] = {}  # what was added so that a rare word is not lost
        self.unknown = False  # whether the model knows nothing of the question
        self.lacking = ""

    def hear_neighbours(self) -> None:
        """Let a chunk count some of what its neighbours say: an answer often stands beside its question.

        For a file of one chunk, the chunk says what the file says.
        """
        scored = {(self.marks[id_].file, self.marks[id_].order): score for id_, score in self.narrow.items()}
        heard = scored.get
        for id_, (file, order, _, _, alone, _) in self.marks.items():
            if alone:
                if id_ in self.narrow:
                    self.wide[file] = self.narrow[id_]
            else:
                beside = heard((file, order - 1), 0.0) + heard((file, order + 1), 0.0)
                if beside:
                    self.narrow[id_] = self.narrow.get(id_, 0.0) + NEIGHBOURS * beside

    def keyword_shares(self) -> dict[int, float]:
        """The BM25 of each chunk as a part of the best."""
        best = max(self.narrow.values(), default=0.0) or 1.0
        return {id_: score / best for id_, score in self.narrow.items()}


def _expression(frequency: dict[str, int], count: int) -> str:
    """What to match: any of the words that tell something apart, the rarest first."""
    live = sorted((word for word in frequency if frequency[word]), key=frequency.__getitem__)
    if count >= COMMON_FROM:
        rare = [word for word in live if frequency[word] <= COMMON * count]
        live = rare if len(rare) >= 2 else live
    return " OR ".join(words.quoted((word,)) for word in live[:MOST_WORDS])


def depth(options: Options) -> int:
    """How many candidates a leg gives: so many for each result, and at least some in the same proportion."""
    return max(DEPTH * options.multiplier // USUAL, options.max_results * options.multiplier, 1)


def snippet(body: str, asked: Sequence[str], phrases: Sequence[str] = ()) -> str:
    """The part of a chunk that shows why it was found, cut at words; a phrase before single words."""
    if len(body) <= SNIPPET:
        return body
    lower = body.lower()
    if len(lower) != len(body):  # İ has two letters in lower case: places in one are not places in the other
        lower = body
    whole = [each for each in map(str.lower, phrases) if each in lower]
    at, length = min(
        ((at, len(word)) for word in whole or asked if (at := lower.find(word)) >= 0), default=(0, 0)
    )
    start = max(0, at - SNIPPET // 3)
    start = start and max(start, body.find(" ", start, at) + 1)
    end = min(len(body), start + SNIPPET)
    if end < len(body):  # the last space after the word; there may be none
        end = max(body.rfind(" ", at + length, end), 0) or end
    return ("… " if start else "") + body[start:end].strip() + (" …" if end < len(body) else "")
