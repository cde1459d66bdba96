"""What an index finds for a question, by words, by exact phrases, by meaning; and what is shown.

One way for notes and for sessions; in which order the candidates come is decided elsewhere.
"""

from __future__ import annotations

import itertools
import re
import time
from typing import TYPE_CHECKING, Any

from vademecum.errors import EmbedderFailed, IndexFailed
from vademecum.index import words
from vademecum.index.base import JOURNAL, MEMORY
from vademecum.index.embed.base import family, patience
from vademecum.index.languages import is_english, language_of
from vademecum.search import relevance
from vademecum.text import WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.index.base import Filter, Index, Mark, Nearest, ReadNear, SimilarTerm
    from vademecum.index.embed.base import Embedder
    from vademecum.index.words import Speech, Terms
    from vademecum.search.rank import Heard
    from vademecum.search.second_stage import StageResult
    from vademecum.search.when import TimesAsked

COMMON = 0.25  # a word in more than this share of all chunks is dropped, in a store of some size,
COMMON_FROM = 2_000  # when at least two rarer ones remain
MOST_WORDS = 64  # of a long question the rarest words are looked for
EXACT_ROWS = 20  # a phrase in more places than this tells nothing apart
FEW = 10  # vectors whose mean says little yet
KNOWN = 0.4  # of the words of a question that nothing shows to be English: else it is not known to a model
NEAR = 0.75  # how near a word comes that counts as the one that was asked for
MOST_ALIKE = 4  # that take the place of one word
MOST_REPLACED = 4  # words of a question in whose place others are looked for
READ_LEAST, READ_MOST = 0.6, 0.9  # the part of a score that is by reading, when a question was read
TO_READ = 0.3  # seconds that a question may need to be read, when the model has to be loaded
NEIGHBOURS = 0.6  # what a chunk counts of what its neighbours say


class Legs:
    """What each leg found for one question."""

    def __init__(self, index: Index, asked: Terms, query: Any = None) -> None:
        stats = index.stats(asked.words)
        self.index, self.asked = index, asked
        self.count = stats.chunks
        self.frequency, self.stems = {**stats.seen}, {**stats.marks}
        self.marks: dict[int, Mark] = {}
        self.narrow: dict[int, float] = {}
        self.own: dict[tuple[int, int], float] = {}  # by file and place, before neighbours are heard
        self.wide: dict[int, float] = {}
        self.exact: dict[int, float] = {}
        self.vector: dict[int, float] = {}
        self.cosine: dict[int, float] = {}
        self.nearest: Nearest | None = None
        self.floor = 0.0
        self.worded: set[int] = set()  # hold words of the question themselves
        self.certain: set[int] = set()  # hold an identifier of the question as it stands: never hidden
        self.query = query  # its vector
        self.heard: dict[Speech, Heard] = {}
        # By name, what each way of knowing better adds to a score whose best is about 1; each is explained.
        self.added: dict[str, dict[int, float]] = {}
        self.stage: StageResult | None = None
        self.unstaged = ""  # why there is no second stage
        self.free = frozenset({MEMORY})  # sources that need to make no room for others
        self.timely: frozenset[int] = frozenset()  # are of a time that is asked for,
        self.time_words: frozenset[str] = frozenset()  # and need not hold the words that say so
        self.read: ReadNear | None = None  # what a model that reads says of passages, when it was asked
        self.read_part = 0.0  # how much of a score is by that
        self.by_reading: dict[int, float] = {}
        self.raised: dict[int, float] = {}  # what was added so that a rare word is not lost
        self.english_only = False  # whether the model knows no other language
        self.unknown = False  # whether the model knows nothing of the question
        self.lacking = ""
        self.replaced: dict[str, list[SimilarTerm]] = {}  # what is held in the place of words that are not

    def find_words(self, filter: Filter, limit: int, *, wide: bool = False) -> None:
        """Ask for the words that tell something apart, and for what a person copies whole."""
        match, asked = self.index.match, self.asked
        telling = _telling(self.frequency, self.count)
        if telling:
            self.narrow = match(telling, filter, limit)
            self.wide = match(telling, filter, limit, wide=True) if wide else {}
        self._replace_words(filter, limit)
        for phrase, certain in asked.phrases:
            rows = match([phrase], filter, EXACT_ROWS + 1)
            if len(rows) <= EXACT_ROWS:
                self.certain.update(rows if certain else ())
                share = min(1.0, len(phrase) / max(1, len(asked.words)))
                for id_ in rows:
                    self.exact[id_] = self.exact.get(id_, 0.0) + share * share

    def _replace_words(self, filter: Filter, limit: int) -> None:
        """Ask for what the index holds in the place of words without a hit; it counts as near as it comes."""
        lacking = (word for word, seen in self.frequency.items() if not seen and not _is_run(word))
        for word in itertools.islice(lacking, MOST_REPLACED):
            kept = self._asked_instead(word, filter, limit)
            if kept:
                self.replaced[word] = kept
                near = [each for each in kept if each.nearness >= NEAR]
                self.stems[word] = tuple(each.mark for each in near) or self.stems[word]
                self.frequency[word] = sum(each.chunks for each in near)

    def _asked_instead(self, word: str, filter: Filter, limit: int) -> list[SimilarTerm]:
        """The terms that were asked for in the place of a word, and stand in something that may be seen."""
        best: dict[int, float] = {}
        kept: list[SimilarTerm] = []
        for found in self.index.similar(word):
            rows = self.index.match([(found.term,)], filter, limit, terms=True)
            for id_, score in rows.items():
                best[id_] = max(best.get(id_, 0.0), found.nearness * score)
            if rows:  # a word that only others' texts hold is nobody's business here
                kept.append(found)
            if len(kept) == MOST_ALIKE:
                break
        for id_, score in best.items():
            self.narrow[id_] = self.narrow.get(id_, 0.0) + score
        return kept

    def holders(self, word: str, filter: Filter) -> dict[int, float]:
        """The chunks that hold a word of the question, or what was asked for in its place."""
        instead = self.replaced.get(word)
        if instead is not None:
            return self.index.match([(each.term,) for each in instead], filter, None, terms=True)
        return self.index.match([(word,)], filter, None)

    def notes(self, texts: Sequence[str]) -> tuple[str, ...]:
        """What to say of words that were asked for in the place of others, as some texts write them."""
        terms = dict.fromkeys(each.term for found in self.replaced.values() for each in found)
        if not terms:
            return ()
        shown = dict.fromkeys(_as_written(term, texts) for term in terms)
        return (f"also searched: {', '.join(shown)}",)

    def find_meaning(self, filter: Filter, limit: int, *, made_by: str) -> None:
        """Ask for the nearest chunks; those with the words get their true cosine as well."""
        asked = self.query
        near = self.index.nearest(asked, filter, limit, made_by=made_by, also={**self.narrow, **self.exact})
        if not near.total or len(asked) != near.dimension:
            self.query = None
            self.lacking = (
                f"the model now returns {len(asked)} dimensions, and the index has {near.dimension}"
                if near.total
                else "no embeddings yet"
            )
            return
        self.nearest, self.cosine = near, near.cosines
        # The mean of a few texts is about those texts: there it must not push one of two good answers to 0.
        floor = self.floor = near.mean * near.total / (near.total + FEW)
        self.vector = {id_: cosine - floor for id_, cosine in self.cosine.items() if cosine > floor}
        if self.english_only:
            for id_ in self.index.foreign(self.vector):
                del self.vector[id_]
        self.marks = near.marks

    def find_times(self, asked: TimesAsked, filter: Filter, limit: int) -> None:
        """Ask for what is of the times that a question speaks of; it gains, and nothing else loses."""
        rows = asked.find(self.index, filter, self.marks, limit)
        self.marks.update((id_, row.mark) for id_, row in rows.items())
        self.timely = frozenset(rows)
        self.time_words = frozenset(self.asked.words) if asked.alone else asked.words
        if asked.alone:  # a day is mostly its journal
            self.free |= {JOURNAL}
        self.added["of_its_time"] = dict.fromkeys(rows, asked.gain)

    def mark_all(self) -> None:
        """Learn what ranking needs of each candidate."""
        self.worded = {*self.narrow, *self.exact}
        self._mark({**self.narrow, **self.exact})

    def _mark(self, ids: Iterable[int]) -> None:
        unmarked = [id_ for id_ in ids if id_ not in self.marks]
        if unmarked:  # keywords alone, or chunks whose vectors are still to be made
            rows = self.index.rows(unmarked, text=False)
            if len(rows) < len(unmarked):
                raise IndexFailed("the index lists passages that it does not contain")
            self.marks.update((id_, rows[id_].mark) for id_ in unmarked)

    def find_by_reading(
        self,
        reader: Embedder,
        question: str,
        filter: Filter,
        limit: int,
        *,
        best: Callable[[], float],
        command: str = "vade index",
    ) -> tuple[str, ...]:
        """Have the question read, unless the best match was strong without that; say what was wrong.

        The command is what has passages read.
        """
        made_by = None if self.index.reads is None else self.index.reads.made_by()
        if self.index.reads is None or made_by is None:
            return ()
        if made_by != reader.identity:
            return (f"reader skipped: another model made these vectors; `{command}` rebuilds them",)
        relevant = best()
        if not self._needs_reading(reader, question, relevant):
            return ()
        try:
            asked = reader.embed([question], query=True)[0]
        except EmbedderFailed as error:
            return (f"not read: {error}",)
        if asked.any():  # else it holds no word that the model knows
            near = self.index.reads.nearest(asked, filter, limit, made_by=made_by, also=self.marks)
            self._take_read(near, relevant)
        return ()

    def _needs_reading(self, reader: Embedder, question: str, best: float) -> bool:
        """Whether reading can add something to a question, and in time."""
        known = not self.narrow or knows_words(reader, question, self.asked)
        return best < relevance.STRONG and known and time.monotonic() + TO_READ <= patience()

    def with_reading(self, scores: dict[int, float]) -> dict[int, float]:
        """The scores, of which what was read has its part."""
        if self.read is None:
            return scores
        left = 1 - self.read_part
        return {id_: left * score + self.by_reading.get(id_, 0.0) for id_, score in scores.items()}

    def _take_read(self, near: ReadNear, best: float) -> None:
        """Let what was read have its part of every score: new candidates join.

        The less relevant the best is that was found without reading, the larger that part.
        """
        self.read = near
        self._mark(near.cosines)
        self.read_part = READ_MOST - (READ_MOST - READ_LEAST) * min(1.0, best / relevance.STRONG)
        low = near.mean * near.total / (near.total + FEW)
        span = max(max(near.cosines.values(), default=0.0) - low, 1e-9)
        self.by_reading = {
            id_: self.read_part * (cosine - low) / span
            for id_, cosine in near.cosines.items()
            if cosine > low
        }

    def hear_neighbours(self) -> None:
        """Let a chunk count some of what its neighbours say: an answer often stands beside its question.

        For a file of one chunk, the chunk says what the file says.
        """
        marks = self.marks
        self.own = {(marks[id_].file, marks[id_].order): score for id_, score in self.narrow.items()}
        heard = self.own.get
        for id_, (file, order, _, _, alone, _, _) in self.marks.items():
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

    def weigher(self, question: str) -> relevance.Weigher:
        """What gathers the signs of relevance for this question."""
        return relevance.Weigher(
            question,
            self.asked.words,
            frequency=self.frequency,
            count=self.count,
            scores=self.narrow.values(),
            rank=words.commonness,
            cues=words.cues_of(question, WORD.findall(question.lower())),
        )

    def held(self, id_: int, words: Sequence[bool]) -> tuple[bool, ...]:
        """Which words of the question a chunk holds; one of a time asked for has those that say so."""
        if id_ not in self.timely:
            return tuple(words)
        said = (word in self.time_words for word in self.asked.words)
        return tuple(own or time for own, time in zip(words, said, strict=True))

    def identified(self, id_: int) -> float:
        """How far a chunk is what was asked for as it stands."""
        return relevance.identified(self.exact.get(id_, 0.0), certain=id_ in self.certain)

    def clear(self, id_: int) -> float:
        """How far what reading says of a chunk stands out from the rest of what was read."""
        if self.read is None or id_ not in self.read.cosines:
            return 0.0
        return (self.read.cosines[id_] - self.read.mean) / self.read.deviation

    def apart(self, id_: int) -> float:
        """How far the meaning of a chunk stands out from that of the rest."""
        if self.nearest is None:
            return 0.0
        return (self.cosine.get(id_, 0.0) - self.nearest.mean) / self.nearest.deviation


def _is_run(word: str) -> bool:
    """Whether a word is a piece of a text without spaces, which no other stands for."""
    return not word.isascii() and words.cjk_run().search(word) is not None


def knows_english_only(embedder: Embedder) -> bool:
    """Whether an embedder was made of English texts: of others nothing is known."""
    return family(embedder) != "other"


def knows_words(embedder: Embedder, question: str, asked: Terms) -> bool:
    """Whether an embedder knows the language of a question, and one of its words."""
    if not knows_english_only(embedder):
        return True
    said = words.all_in(question)
    if language_of(question, said) != words.ENGLISH:
        return False
    known = sum(words.is_latin(word) and words.commonness(word) < words.RAREST for word in asked.words)
    return known > 0 if is_english(said) else known >= KNOWN * len(asked.words)


def _telling(frequency: Any, count: int) -> list[Sequence[str]]:
    """What to match: any of the words that tell something apart, the rarest first."""
    live = sorted((word for word in frequency if frequency[word]), key=frequency.__getitem__)
    if count >= COMMON_FROM:
        rare = [word for word in live if frequency[word] <= COMMON * count]
        live = rare if len(rare) >= 2 else live
    return [(word,) for word in live[:MOST_WORDS]]


def _as_written(term: str, texts: Sequence[str]) -> str:
    """The word of some texts that a term of the index most likely stands for; else the term itself."""
    begun = term[: max(3, len(term) - 2)]
    alike = dict.fromkeys(word for text in texts for word in _begun_with(begun, text.lower()))
    return min(alike, key=lambda word: abs(len(word) - len(term)), default=term)


def _begun_with(begun: str, text: str) -> list[str]:
    """The words of a text in small letters that begin so, whatever their accents."""
    if not text.isascii():
        return [word for word in words.TOKEN.findall(text) if words.bare(word).startswith(begun)]
    # To cut a long text into all of its words takes longer than to find what is in it.
    return re.findall(rf"(?<![a-z0-9]){re.escape(begun)}[a-z0-9]*", text)


SNIPPET = 700  # characters of a passage
PREVIEW = 600  # characters of a message


def snippet(body: str, asked: Sequence[str], phrases: Sequence[str] = ()) -> str:
    """The part of a chunk that shows why it was found, cut at words; a phrase before single words."""
    if len(body) <= SNIPPET:
        return body
    lower = lowered(body)
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


def lowered(text: str) -> str:
    """A text in small letters in which places are the same; İ has two in lower case, and then it stays."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def window(
    text: str, asked: Sequence[str], *, start: int = 0, end: int | None = None, size: int = PREVIEW
) -> str:
    """The part of a text that holds most of the words asked for."""
    if len(text) <= size:
        return text
    end = len(text) if end is None else end
    lower = lowered(text)
    places = sorted(
        (found.start(), word) for word in asked[:MOST_WORDS] for found in _finds(lower, word, start, end)
    )
    middle, most = start, 0
    for at, (first, _) in enumerate(places):
        inside = [each for each in places[at:] if each[0] < first + size - 40]
        if len({word for _, word in inside}) > most:
            most = len({word for _, word in inside})
            middle = (first + inside[-1][0] + len(inside[-1][1])) // 2
    return around(text, middle, size)


def around(text: str, middle: int, size: int = PREVIEW) -> str:
    """So many characters of a text around a place in it, with a mark where something was left out."""
    begin = min(max(0, middle - size // 2), len(text) - size)
    cut = text[begin : begin + size]
    cut = "…" + cut[1:] if begin else cut
    return cut if begin + size >= len(text) else cut[:-1] + "…"


def _finds(text: str, word: str, start: int, end: int) -> list[re.Match[str]]:
    """Where a word stands, or what begins like it: the index knows words without their endings."""
    for form in dict.fromkeys((word, word[: max(4, len(word) - 3)])):
        found = list(itertools.islice(re.compile(re.escape(form)).finditer(text, start, end), 50))
        if found:
            return found
    return []
