"""Answer a question: search by words and by meaning, then merge, rank and explain the results.

Score and relevance differ. The score orders the answers to one question; the relevance tells, on a scale of
its own, how likely a passage is an answer at all, and hides no passage.
"""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING, Any

from vademecum.config import RESULTS
from vademecum.errors import EmbedderChanged, EmbedderFailed
from vademecum.index import corpus, words
from vademecum.index.embed.base import common_direction, family, likeness
from vademecum.named_tuple import NamedTuple
from vademecum.search import evidence, rank
from vademecum.search.base import Query, narrowed
from vademecum.search.legs import Legs, knows_english_only, knows_words, snippet
from vademecum.search.ranking import ChunkRelevance, Weighing, held_by_stems, score_candidates
from vademecum.text import clock
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.index import ChunkRow, Embedder, Filter, Index, Sync
    from vademecum.index.embed.base import Vector

MODES = ("hybrid", "bm25", "vector", "metadata")
MOST_RESULTS = 10_000
MOST_SORTED = 2_000  # the newest chunks, among which the most used are found without a question
ORDERS = ("recency", "score", "usage")
DEPTH = 50  # candidates that a leg gives at least
USUAL = 4
HEAD = 1_000  # characters of a passage's beginning
LOOKED_AT = 500  # passages whose labels are read at once
KEPT = 3  # places within which the first result by words stays, if it has a rare word:
RARE, RARE_SHARE = 3, 0.01  # a word in at most so many chunks, or in such a share of all
MOST_WEIGHED = 24  # candidates that are at least weighed where the caller set a limit
SPARE = 3  # further places that are filled, in case texts repeat each other
NONSENSE = "no word of the question is in memory, and none is known"
SAME = 1e-9  # scores with a smaller difference are equal
DEFAULT_WEIGHTS = rank.Weights()
_PRECEDENCE = {str(scope): number for number, scope in enumerate(Scope)}


class RankedRow(NamedTuple):
    """A search result: its chunk, its score with the evidence for it, and its relevance."""

    row: ChunkRow
    score: float
    relevance: float
    evidence: rank.Evidence
    snippet: str
    arithmetic: dict[str, float] | None = None


class Ranking:
    """The results of a search, and how they were found."""

    def __init__(self, mode: str = "hybrid") -> None:
        self.hits: list[RankedRow] = []
        self.mode = mode
        self.by_words = mode in ("bm25", "metadata")  # whether the mode uses no vectors
        self.degraded: list[str] = []
        self.hidden = 0  # results that the caller's limit left out
        self.read = False  # whether the question was read
        self.notes: tuple[str, ...] = ()  # what else was searched, as sentences


class Options(NamedTuple):
    """The options of a search, such as the number of results and the way to search."""

    mode: str = "hybrid"
    max_results: int = RESULTS
    min_score: float = 0.0
    fusion: str = "weighted"
    weights: rank.Weights = DEFAULT_WEIGHTS
    multiplier: int = 4
    sort_by: str | None = None
    explain: bool = False
    read: bool = False  # whether a model may read a question without a strong match
    whole: bool = False  # whether passages are returned without cutting their texts


class Meaning(NamedTuple):
    """The vector of a question, or the reason why there is no vector."""

    vector: Any = None
    lacking: str = ""
    changed: EmbedderChanged | None = None  # set when another model than the index's answered


class Engine:
    """The search engine of one index."""

    def __init__(
        self,
        index: Index,
        sync: Sync,
        uses: Callable[[list[str]], dict[str, int]],
        reader: Callable[[], Embedder | None] = lambda: None,
    ) -> None:
        self.index = index
        self._reader = reader
        self._sync = sync
        self._uses = uses
        self._mean: Any = None

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that makes vectors; None where there is none."""
        return self._sync.embedder

    def meaning(self, query: Query, options: Options) -> Meaning:
        """Return the vector of a question, or the reason why there is none.

        It is made before the index is read, as a server may be slow.
        """
        if options.mode not in ("hybrid", "vector") or not query.text:
            return Meaning()
        if self.embedder is None:
            return Meaning(lacking=self._sync.lazy.reason)
        known = self.index.stats().settings.get("dimension")
        if known is None:
            return Meaning(lacking="no embeddings yet")
        try:
            self._common()
            vector = self.embedder.embed([query.text], query=True)[0]
        except EmbedderChanged as error:
            return Meaning(lacking=str(error), changed=error)
        except EmbedderFailed as error:
            return Meaning(lacking=str(error))
        if str(len(vector)) == known:
            return Meaning(vector)
        lacking = f"the model now returns {len(vector)} dimensions, and the index has others"
        return Meaning(lacking=lacking, changed=EmbedderChanged(lacking, dimension=len(vector)))

    def search(self, query: Query, visible: Filter, options: Options, meaning: Meaning) -> Ranking:
        """Return the results that answer a query best, of those that the caller may see."""
        found = Ranking(mode=options.mode)
        allowed = narrowed(visible, query)
        if options.mode == "metadata" or not query.text:
            found.mode = "metadata"
            self._by_labels(query, allowed, options, found)
            return found
        if query.phrases:
            allowed = self._with_phrases(query.phrases, allowed)
        legs = Legs(self.index, words.terms(query.text), meaning.vector)
        self._fill(legs, allowed, query.text, mode=options.mode, limit=depth(options))
        if query.times.spans:
            legs.find_times(query.times, allowed, depth(options))
        if options.mode in ("hybrid", "vector") and legs.query is None and not legs.unknown:
            found.mode = "bm25"
            if legs.count or self.embedder is None:
                found.degraded.append(f"keywords only: {legs.lacking or meaning.lacking}")
        if options.mode != "vector" and self._is_nonsense(legs):  # that mode looks up no word
            found.notes = (NONSENSE,)
            return found
        if legs.marks or options.read:
            self._rank(query, legs, allowed, options, found)
        found.notes = legs.notes([hit.row.body for hit in found.hits])
        return found

    def _is_nonsense(self, legs: Legs) -> bool:
        """Return whether no word of a question is in the index, like one in the index, or a word at all.

        The model cuts such a word into letters, and any text is near the vector of some letters.
        """
        asked = legs.asked.words
        if legs.narrow or legs.exact or legs.timely or not asked:
            return False
        if self.embedder is None or not knows_english_only(self.embedder):
            return False
        from vademecum.index.embed.local import is_word

        return all(each.isascii() and not is_word(each) for each in asked)

    def _with_phrases(self, phrases: Sequence[str], allowed: Filter) -> Filter:
        """Return the filter for chunks that contain each of these phrases word for word."""
        needed = words.required(phrases)
        rows = self.index.rows(self.index.match(needed, allowed, None, every=True) if needed else ())
        return allowed._replace(only=tuple(id_ for id_, row in rows.items() if corpus.holds(row, phrases)))

    def _by_labels(self, query: Query, allowed: Filter, options: Options, found: Ranking) -> None:
        """Find chunks that the filters allow and that have every word in their labels or their beginning.

        The newest chunks come first, unless `options.sort_by` names another order; neither meaning nor
        relevance is computed.
        """
        wide = MOST_SORTED if options.sort_by in ("score", "usage") else options.max_results
        units = words.units(query.text, query.phrases)
        ids = [*self.index.match((), allowed, None if units else wide)]
        if units:
            ids = self._match_labels(units, ids, wide)
        rows = self.index.rows(ids, allowed)
        blank = rank.Evidence(0.0, 0.0, 0.0, 0.0, 0.0)
        scores = self._in_order(options.sort_by, {id_: rows[id_] for id_ in ids}, {})
        order = [*scores, *(each for each in ids if each not in scores)]
        if query.as_of is None:
            order = rank.living_first(order, rows)
        found.hits = [
            RankedRow(rows[id_], scores.get(id_, 0.0), 1.0, blank, snippet(rows[id_].body, units))
            for id_ in order[: options.max_results]
        ]

    def _match_labels(self, units: Sequence[str], ids: Sequence[int], most: int) -> list[int]:
        """Return the first `most` chunks whose labels or beginning have each unit, also inside a word."""
        chosen: list[int] = []
        for start in range(0, len(ids), LOOKED_AT):
            part = ids[start : start + LOOKED_AT]
            rows = self.index.rows(part)
            labels = ((id_, words.plain(_label(rows[id_]))) for id_ in part if id_ in rows)
            chosen += [id_ for id_, label in labels if all(unit in label for unit in units)]
            if len(chosen) >= most:
                break
        return chosen[:most]

    # ---------------------------------------------------------------- legs

    def _fill(self, legs: Legs, allowed: Filter, question: str, *, mode: str, limit: int) -> None:
        """Search for candidates by words, and also by meaning if the question has a vector."""
        if mode != "vector" or legs.query is None:
            legs.find_words(allowed, limit, wide=True)
        if legs.query is not None and mode == "hybrid" and legs.narrow and self.embedder is not None:
            legs.unknown = not knows_words(self.embedder, question, legs.asked)
            if (
                legs.unknown
            ):  # a model that does not know the question's words does not count where words match
                legs.query = None
        if legs.query is not None and self.embedder is not None:
            legs.english_only = knows_english_only(self.embedder)
            legs.find_meaning(allowed, limit, made_by=self._sync.identity[1] or "")
        legs.mark_all()
        legs.add_neighbours()

    # ---------------------------------------------------------------- order

    def _rank(self, query: Query, legs: Legs, allowed: Filter, options: Options, found: Ranking) -> None:
        most = max(MOST_WEIGHED, options.max_results * options.multiplier)
        ordered, merged, lifted = self._ordered(query, legs, options, most)
        weigh = Weighing(
            query.text,
            legs,
            held=held_by_stems(legs),
            alike=lambda ids: self.alike(ids, legs),
            kind=lambda: "none" if self.embedder is None else family(self.embedder),
        )
        first = [id_ for id_, _ in ordered[: options.max_results]]
        reader = self._reader() if options.read else None
        if reader is not None:
            found.degraded += legs.find_by_reading(
                reader,
                query.text,
                allowed,
                depth(options),
                best=lambda: weigh.best(self.index.rows(first, text=False)),
            )
        if legs.read is not None:
            ordered, merged, lifted = self._ordered(query, legs, options, most)
            found.read = True
        if legs.unstaged:
            found.degraded.append(legs.unstaged)
        spread = dict(ordered)
        scored = dict(spread)
        limited = options.sort_by is not None or options.min_score > 0
        candidates = [*spread][: most if limited else None]
        rows, weighed, chosen = self._choose(candidates, weigh, allowed, options, found)
        if options.sort_by is not None:
            again = self._in_order(options.sort_by, {id_: rows[id_] for id_ in chosen}, legs.keyword_shares())
            scored.update(again)
            # What is relevant comes first: the newest of weak matches would push out the one that answers.
            if options.sort_by != "score":
                again = {id_: again[id_] for id_ in sorted(again, key=lambda id_: weighed[id_].is_weak)}
            chosen = rank.living_first([*again], rows) if query.as_of is None else [*again]
            chosen = chosen[: options.max_results]
        for id_ in chosen:
            relevant, signs, _ = weighed[id_]
            arithmetic = None
            if options.explain:
                own = lifted.get(id_, 0.0), spread[id_]
                arithmetic = self._arithmetic(id_, legs, merged, *own, lowered=query.as_of is None)
                arithmetic["score"] = scored[id_]
                arithmetic |= {f"sign_{name}": sign for name, sign in signs._asdict().items()}
                arithmetic |= {"spoken": float(rows[id_].speech.speaker is not None), "relevance": relevant}
            body = rows[id_].body
            shown = body if options.whole else snippet(body, legs.asked.words, query.phrases)
            hit = RankedRow(rows[id_], scored[id_], relevant, merged.of(id_), shown, arithmetic)
            found.hits.append(hit)

    def _ordered(
        self, query: Query, legs: Legs, options: Options, most: int
    ) -> tuple[list[tuple[int, float]], rank.MergedLegs, dict[int, float]]:
        """Return the candidates in order with scores, their evidence, and what lifted current entries."""
        scores, merged = score_candidates(
            legs,
            query.text,
            fusion=options.fusion,
            weights=options.weights,
            staged=bool(legs.vector) and (options.mode, options.fusion) == ("hybrid", "weighted"),
        )
        lifted = rank.behind_living(scores, legs.marks, legs.worded) if query.as_of is None else {}
        ordered = self._order_equals(rank.spread(scores, legs.marks), most)
        return self._keep_rare(ordered, merged, legs), merged, lifted

    def _keep_rare(
        self,
        ordered: list[tuple[int, float]],
        merged: rank.MergedLegs,
        legs: Legs,
    ) -> list[tuple[int, float]]:
        """Move the best result by words alone into the first three if it contains a rare word."""
        if not legs.vector or not legs.narrow:
            return ordered

        def by_words(id_: int) -> tuple[float, int]:
            _, *parts = merged.parts(id_)
            return sum(parts) + sum(legs.speech_gain[legs.marks[id_].speech]), -places[id_]

        places = {id_: place for place, (id_, _) in enumerate(ordered)}
        first = max(legs.worded, key=by_words)
        at = places[first]
        if at < KEPT or not self._holds_rare(first, legs):
            return ordered
        moved = [*ordered[:at], *ordered[at + 1 :]]
        score = moved[KEPT - 1][1]
        legs.raised[first] = score - ordered[at][1]
        moved.insert(KEPT - 1, (first, score))
        return moved

    def _holds_rare(self, id_: int, legs: Legs) -> bool:
        """Return whether a chunk contains a word of the question that hardly any other chunk has."""
        most = max(RARE, int(legs.count * RARE_SHARE))
        rare = [word for word, seen in legs.frequency.items() if 0 < seen <= most]
        if not rare:
            return False
        stems = self.index.rows([id_], text=False)[id_].stems
        return any(mark and mark in stems for word in rare for mark in legs.stems[word])

    def _order_equals(self, ordered: list[tuple[int, float]], most: int) -> list[tuple[int, float]]:
        """Return the candidates; equal scores among the first `most` are ordered by scope, then by path."""
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
        places = self.index.rows([ordered[each][0] for run in runs for each in range(*run)], text=False)

        def key(scored: tuple[int, float]) -> tuple[int, str, int]:
            row = places[scored[0]]
            return _PRECEDENCE.get(row.scope, 0), row.path, row.order

        for start, end in runs:
            ordered[start:end] = sorted(ordered[start:end], key=key)
        return ordered

    def _choose(
        self, ordered: Sequence[int], weigh: Weighing, allowed: Filter, options: Options, found: Ranking
    ) -> tuple[dict[int, ChunkRow], dict[int, ChunkRelevance], list[int]]:
        """Return the rows, the relevance and the order of the results that fill the places.

        Repeated texts are left out. Results below the caller's `min_score` are left out too, and counted as
        hidden.
        """
        weighed: dict[int, ChunkRelevance] = {}
        passing = list(ordered)
        if options.min_score > 0:
            weighed = weigh(self.index.rows(passing, text=False))
            passing = [id_ for id_ in passing if weighed[id_].relevance >= options.min_score]
        found.hidden = len(weighed) - len(passing) if weighed else 0
        marks, free = weigh.legs.marks, weigh.legs.free
        wanted = len(passing) if options.sort_by else options.max_results
        chosen = rank.take_turns(passing, marks, wanted + SPARE if wanted else 0, free=free)
        rows = self.index.rows(chosen, allowed)
        chosen = [id_ for id_ in chosen if id_ in rows]
        repeated = evidence.repetitions([(rows[id_].source, rows[id_].body) for id_ in chosen])
        chosen = [id_ for at, id_ in enumerate(chosen) if at not in repeated]
        chosen = rank.take_turns(chosen, marks, wanted, free=free)
        rows = {id_: rows[id_] for id_ in chosen}
        weighed.update(weigh({id_: row for id_, row in rows.items() if id_ not in weighed}))
        return rows, weighed, chosen

    def _in_order(
        self, sort_by: str | None, rows: dict[int, ChunkRow], keywords: dict[int, float]
    ) -> dict[int, float]:
        """Return all chunks in the order `sort_by`, with the number that decided each; {} without it."""
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
        )  # the sort is stable, so equal ones stay in their order
        return {id_: numbers[id_] for id_ in order}

    def _arithmetic(
        self, id_: int, legs: Legs, merged: rank.MergedLegs, lifted: float, spread: float, *, lowered: bool
    ) -> dict[str, float]:
        """Return every number that went into the score of a result, so that it can be computed again."""
        mark, total = legs.marks[id_], merged.of(id_).score
        replaced = rank.SUPERSEDED if mark.superseded and lowered else 1.0
        speech_gain = legs.speech_gain[mark.speech]
        added = {name: each.get(id_, 0.0) for name, each in legs.added.items()}
        by_reading = legs.by_reading.get(id_, 0.0)
        own = (total + sum(speech_gain) + sum(added.values())) * (1 - legs.read_part) + by_reading
        own = own * replaced + lifted
        raised = legs.raised.get(id_, 0.0)
        return {
            "cosine": legs.cosine.get(id_, 0.0),
            "mean_cosine": legs.floor,
            "read_cosine": 0.0 if legs.read is None else legs.read.cosines.get(id_, 0.0),
            "bm25_narrow": legs.narrow.get(id_, 0.0),
            "bm25_wide": legs.wide.get(mark.file, 0.0),
            "exact": legs.exact.get(id_, 0.0),
            **merged.scale,
            "sum": total,
            **speech_gain._asdict(),
            **added,
            "not_by_reading": 1 - legs.read_part,
            "by_reading": by_reading,
            "superseded": replaced,
            "above_superseded": lifted,
            "crowding": (spread - raised) / own if own else 1.0,
            "raised": raised,
            **({} if legs.stage is None else legs.stage.explained(id_)),
        }

    # ---------------------------------------------------------------- relevance

    def alike(self, ids: list[int], legs: Legs) -> dict[int, float] | None:
        """Return how similar each chunk is to the question in meaning; None where that cannot be known."""
        if legs.query is None or legs.nearest is None or self.embedder is None:
            return None
        known, vectors = legs.nearest.vectors(ids)
        return dict(zip(known, likeness(vectors, legs.query, mean=self._common()).tolist(), strict=True))

    def _common(self) -> Vector:
        """Return the mean direction of all texts in the model's vectors, which is computed once."""
        if self.embedder is not None and (
            self._mean is None or self.embedder.dimension not in (None, len(self._mean))
        ):
            self._mean = common_direction(self.embedder)
        mean: Vector = self._mean
        return mean


def _label(row: ChunkRow) -> str:
    """Return the text of a chunk's labels (key, title, type, tags, heading) and of its beginning."""
    return "\n".join(
        (row.key or "", row.title, row.type or "", " ".join(row.tags), row.heading, row.body[:HEAD])
    )


def depth(options: Options) -> int:
    """Return the number of candidates for each kind of search: a multiple of the results, or a minimum."""
    return max(DEPTH * options.multiplier // USUAL, options.max_results * options.multiplier, 1)
