"""From candidates to a ranking: the scores and the relevance of the candidates for one question.

Notes, attached folders and sessions share these functions. Candidates come from the legs, and an index tells
which words and which meaning a row has; the text of a row is not needed here.
"""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

from vademecum.index import language_of, words
from vademecum.index.base import JOURNAL, MEMORY, PINNED
from vademecum.named_tuple import NamedTuple
from vademecum.search import rank, relevance
from vademecum.text import WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from vademecum.index import ChunkRow
    from vademecum.search.legs import Legs

    Held = Callable[[Mapping[int, ChunkRow]], Mapping[int, Sequence[bool]]]
    Alike = Callable[[list[int]], Mapping[int, float] | None]

NO_MARK = bytes(5)  # longer than a mark, so it never matches


def score_candidates(
    legs: Legs, question: str, *, fusion: str, weights: rank.Weights, staged: bool
) -> tuple[dict[int, float], rank.MergedLegs]:
    """Return the score of each candidate, and the merged evidence that the scores were made from.

    The score comes from the legs, the speaker, the second stage (if `staged`), identifiers, times and, if a
    model read the question, from reading.
    """
    files = {id_: mark.file for id_, mark in legs.marks.items()}
    merged = (rank.reciprocal if fusion == "rrf" else rank.weighted)(
        files, vector=legs.vector, narrow=legs.narrow, wide=legs.wide, exact=legs.exact, weights=weights
    )
    scores = dict(zip(files, merged.scores, strict=True))
    wanted = words.cues_of(question, WORD.findall(question.lower()))
    legs.speech_gain = {
        said: rank.speech_gain(said, wanted) for said in {mark.speech for mark in legs.marks.values()}
    }
    for id_, mark in legs.marks.items():
        scores[id_] += sum(legs.speech_gain[mark.speech])
    if staged:
        from vademecum.search import second_stage  # and numpy with it, which words alone do without

        second_stage.refine(scores, legs, wanted)
    for added in legs.added.values():
        for id_, more in added.items():
            scores[id_] += more
    return legs.with_reading(scores), merged


class ChunkRelevance(NamedTuple):
    """The relevance of a chunk, the signs that it was computed from, and the words of the question in it."""

    relevance: float
    signs: relevance.Signs
    held: tuple[bool, ...]

    @property
    def is_weak(self) -> bool:
        """Whether the chunk is a weak match."""
        return relevance.match(self.relevance) == relevance.WEAK


class Weighing:
    """A function that computes the relevance of chunks for one question.

    `held` tells which words of the question chunks contain, `alike` how similar they are in meaning, and
    `kind` which curve fits the model of `alike`. Without `whole`, as for sessions, the words of the whole
    file are unknown, and those of the chunk count in their place.
    """

    def __init__(
        self,
        question: str,
        legs: Legs,
        *,
        held: Held,
        alike: Alike,
        kind: Callable[[], str],
        whole: bool = True,
    ) -> None:
        self.legs, self._question = legs, question
        self._weigh = legs.weigher(question)
        self._held, self._alike, self._kind_of_model, self._whole = held, alike, kind, whole
        self._kind = "none"  # the kind of curve

    def best(self, chunks: Mapping[int, ChunkRow]) -> float:
        """Return the relevance of the best of these chunks, judged as if none were from a conversation.

        This number decides whether a model reads the question, and how much its reading counts. The curves
        for conversations are never sure: with them more questions were read, and fewer had their answer
        first.
        """
        return self.surest(each.signs for each in self(chunks).values())

    def surest(self, signs: Iterable[relevance.Signs]) -> float:
        """Return the relevance of the best of these signs, judged as if none were from a conversation."""
        curve = relevance.curve_before_reading(self._kind)
        return max((curve(each) for each in signs), default=0.0)

    @functools.cached_property
    def _language(self) -> str:
        """The language of the question."""
        return language_of(self._question, words.all_in(self._question))

    def __call__(self, chunks: Mapping[int, ChunkRow]) -> dict[int, ChunkRelevance]:
        """Return the relevance of each of these chunks."""
        if not chunks:
            return {}
        legs = self.legs
        alike = self._alike(list(chunks))
        if alike is not None:
            self._kind = self._kind_of_model()
        else:  # a search by words needs no embedder: naming it would load it
            self._kind = "foreign" if legs.unknown or self._language != words.ENGLISH else "none"
        if legs.read is not None:
            self._kind = "read"
        holding = self._held(chunks)
        found = {}
        for id_, row in chunks.items():
            held = legs.words_held(id_, holding[id_])
            own = legs.narrow.get(id_, 0.0)
            signs = self._weigh(
                held,
                row.size,
                around=legs.wide.get(row.file, 0.0) if self._whole else own,
                score=own,
                exact=legs.identified(id_),
                alike=0.0 if alike is None else alike.get(id_, 0.0),
                apart=0.0 if alike is None else legs.apart(id_),
                read=0.0 if legs.read is None else legs.read.cosines.get(id_, 0.0),
                clear=legs.clear(id_),
                said=row.speech,
            )
            curve = relevance.curve(
                self._kind,
                spoken=row.speech.speaker is not None,
                attached=self._whole and row.source not in (MEMORY, JOURNAL, PINNED),
                language=self._language if self._kind == "foreign" else "",
            )
            found[id_] = ChunkRelevance(curve(signs), signs, held)
        return found


def held_by_stems(legs: Legs) -> Held:
    """Return the function that tells by the stored stems of chunks which words of the question they hold."""
    # An empty word has no mark, so no chunk contains it.
    marks = [legs.stems[word] or (NO_MARK,) for word in legs.asked.words]

    def held(chunks: Mapping[int, ChunkRow]) -> dict[int, list[bool]]:
        return {id_: [_holds(row.stems, each) for each in marks] for id_, row in chunks.items()}

    return held


def _holds(stems: bytes, marks: Sequence[bytes]) -> bool:
    """Return whether a chunk's stems contain any hash of a word; nearly every word has only one hash."""
    return marks[0] in stems or (len(marks) > 1 and any(mark in stems for mark in marks[1:]))
