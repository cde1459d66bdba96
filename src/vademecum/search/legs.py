"""The candidates for an answer, found by words, by exact phrases and by meaning; and the shown snippets.

Each of these ways to search is a leg. Notes and sessions are searched in the same way; other modules decide
the order of candidates.
"""

from __future__ import annotations

import itertools
import re
import time
from typing import TYPE_CHECKING, Any

from vademecum.errors import EmbedderFailed, IndexFailed
from vademecum.index import language_of, words
from vademecum.index.base import JOURNAL, MEMORY
from vademecum.index.embed.base import family, patience
from vademecum.index.languages import is_english
from vademecum.search import relevance
from vademecum.search.evidence import cut
from vademecum.text import WORD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.index import Embedder, Filter, Index, Mark, Nearest, SimilarTerm, Speech, Terms
    from vademecum.index.base import ReadNear
    from vademecum.search.question_times import TimesAsked
    from vademecum.search.rank import SpeechGain
    from vademecum.search.second_stage import StageResult

COMMON = 0.25  # a word in more than this share of all chunks is dropped, in a larger store,
COMMON_FROM = 2_000  # if at least two rarer ones remain
MOST_WORDS = 64  # of a long question only the rarest words are searched
EXACT_ROWS = 20  # a phrase in more chunks than this is not distinctive
FEW = 10  # fewer vectors have no useful mean
KNOWN = 0.4  # the share of known words that a question needs, unless it is surely English
NEAR = 0.75  # the nearness from which on a term counts as the word itself
OTHER_WORD = 0.6  # the nearness of a term that is probably another word
LONGEST_ENDING = 2  # letters of an ending that a typing error may leave out
MOST_ALIKE = 4  # terms that replace one word
MOST_REPLACED = 4  # words of a question that are replaced
READ_LEAST, READ_MOST = 0.6, 0.9  # the part of a score by reading, when a model read the question
TO_READ = 0.3  # seconds in which a question can be read if the model must be loaded
NEIGHBOURS = 0.6  # the share of its neighbours' scores that a chunk gets


class Legs:
    """The candidates for an answer to one question, as each way of searching found them."""

    def __init__(self, index: Index, asked: Terms, query: Any = None) -> None:
        stats = index.stats(asked.words)
        self.index, self.asked = index, asked
        self.count = stats.chunks
        self.frequency, self.stems = {**stats.seen}, {**stats.marks}
        self.marks: dict[int, Mark] = {}
        self.narrow: dict[int, float] = {}
        self.own: dict[tuple[int, int], float] = {}  # by file and place, before neighbours' scores are added
        self.wide: dict[int, float] = {}
        self.exact: dict[int, float] = {}
        self.vector: dict[int, float] = {}
        self.cosine: dict[int, float] = {}
        self.nearest: Nearest | None = None
        self.floor = 0.0
        self.worded: set[int] = set()  # chunks with words of the question
        self.certain: set[int] = set()  # chunks with an identifier of the question as it stands: never hidden
        self.query = query  # the question's vector
        self.speech_gain: dict[Speech, SpeechGain] = {}
        # By name, what each later step adds to a score whose best is about 1; `--explain` shows each.
        self.added: dict[str, dict[int, float]] = {}
        self.stage: StageResult | None = None
        self.unstaged = ""  # the reason why there is no second stage
        self.free = frozenset({MEMORY})  # sources that make no room for others
        self.timely: frozenset[int] = frozenset()  # chunks of a time that the question mentions,
        self.time_words: frozenset[str] = (
            frozenset()
        )  # and the words that mention it, which chunks need not contain
        self.read: ReadNear | None = None  # the result of reading, if a model read the question
        self.read_part = 0.0  # the part of a score by reading
        self.by_reading: dict[int, float] = {}
        self.raised: dict[int, float] = {}  # what was added to keep a rare word's chunk
        self.english_only = False  # whether the model knows English alone
        self.unknown = False  # whether the model knows no word of the question
        self.lacking = ""
        self.has_stems = True  # whether the index stores the stems of a row
        self.replaced: dict[str, list[SimilarTerm]] = {}  # the terms that replaced words without a match

    def find_words(self, filter: Filter, limit: int, *, wide: bool = False) -> None:
        """Search for the question's distinctive words, and for phrases that people copy as a whole.

        Terms similar to a word that the index lacks are searched too. With `wide`, whole files are matched as
        well.
        """
        match, asked = self.index.match, self.asked
        telling = _distinctive(self.frequency, self.count)
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

    def find_more_words(self, filter: Filter, limit: int) -> None:
        """Add candidates that have the distinctive words and that another, narrower filter allows."""
        telling = _distinctive(self.frequency, self.count)
        if telling:
            for id_, score in self.index.match(telling, filter, limit).items():
                self.narrow.setdefault(id_, score)

    def _replace_words(self, filter: Filter, limit: int) -> None:
        """Search for similar terms instead of a few words that the index lacks; nearer terms count more."""
        lacking = (word for word, seen in self.frequency.items() if not seen and not _is_run(word))
        for word in itertools.islice(lacking, MOST_REPLACED):
            kept = self._visible_replacements(word, filter, limit)
            if kept:
                self.replaced[word] = kept
                near = [each for each in kept if each.nearness >= NEAR]
                self.stems[word] = tuple(each.mark for each in near) or self.stems[word]
                self.frequency[word] = sum(each.chunks for each in near)

    def _visible_replacements(self, word: str, filter: Filter, limit: int) -> list[SimilarTerm]:
        """Add the chunks with terms similar to a word to the candidates, and return the terms found."""
        best: dict[int, float] = {}
        kept: list[SimilarTerm] = []
        for similar in self.index.similar(word):
            found = similar
            rows = self.index.match([(found.term,)], filter, limit, terms=True)
            if rows and found.nearness >= NEAR and self._is_another_word(word, found.term, next(iter(rows))):
                found = found._replace(nearness=OTHER_WORD)
            for id_, score in rows.items():
                best[id_] = max(best.get(id_, 0.0), found.nearness * score)
            if rows:  # a word of invisible texts alone is not mentioned
                kept.append(found)
            if len(kept) == MOST_ALIKE:
                break
        for id_, score in best.items():
            self.narrow[id_] = self.narrow.get(id_, 0.0) + score
        return kept

    def _is_another_word(self, word: str, term: str, chunk: int) -> bool:
        """Return whether a term that resembles a word is no form or typing error of the word.

        Terms are stems: "hamster" is one letter from the stem of "hamstrings". And a word that English knows,
        such as "porsche", is no typing error of "porches".
        """
        if word.startswith(term) or term.startswith(word):
            return False
        if words.commonness(word) < words.RAREST:
            return True
        spelled = _spelling(term, [self.index.rows([chunk])[chunk].body])
        return len(spelled) - max(len(term), len(word)) > LONGEST_ENDING

    def holders(self, word: str, filter: Filter) -> dict[int, float]:
        """Return the chunks that contain a word of the question, or a term that replaces the word."""
        instead = self.replaced.get(word)
        if instead is not None:
            return self.index.match([(each.term,) for each in instead], filter, None, terms=True)
        return self.index.match([(word,)], filter, None)

    def notes(self, texts: Sequence[str]) -> tuple[str, ...]:
        """Return a note on the terms that were also searched for, spelled as in one of these texts."""
        terms = dict.fromkeys(each.term for found in self.replaced.values() for each in found)
        if not terms:
            return ()
        shown = dict.fromkeys(_spelling(term, texts) for term in terms)
        return (f"also searched: {', '.join(shown)}",)

    def find_meaning(self, filter: Filter, limit: int, *, made_by: str) -> None:
        """Search for the chunks nearest in meaning; compute the cosines of chunks with the words as well.

        If the index has no fitting vectors, store the reason in `lacking`.
        """
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
        # The mean of a few texts is about those texts: it must not push one of two good answers to 0.
        floor = self.floor = near.mean * near.total / (near.total + FEW)
        self.vector = {id_: cosine - floor for id_, cosine in self.cosine.items() if cosine > floor}
        if self.english_only:
            for id_ in self.index.foreign(self.vector):
                del self.vector[id_]
        self.marks = near.marks

    def find_times(self, asked: TimesAsked, filter: Filter, limit: int) -> None:
        """Search for chunks from the times that a question mentions, and add to their scores."""
        rows = asked.find(self.index, filter, self.marks, limit)
        self.marks.update((id_, row.mark) for id_, row in rows.items())
        self.timely = frozenset(rows)
        self.time_words = frozenset(self.asked.words) if asked.alone else asked.words
        if asked.alone:  # passages of a day come mostly from its journal
            self.free |= {JOURNAL}
        self.added["of_its_time"] = dict.fromkeys(rows, asked.gain)

    def mark_all(self) -> None:
        """Load for each candidate the fields that ranking needs."""
        self.worded = {*self.narrow, *self.exact}
        self._mark({**self.narrow, **self.exact})

    def _mark(self, ids: Iterable[int]) -> None:
        unmarked = [id_ for id_ in ids if id_ not in self.marks]
        if unmarked:  # found by words alone, or without a vector yet
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
        """Let the reader model read the question, unless the best match is strong already; return problems.

        `best` returns the relevance of the best match; `command` is the command with which a person lets
        passages be read.
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
        if asked.any():  # otherwise the model knows no word of it
            near = self.index.reads.nearest(asked, filter, limit, made_by=made_by, also=self.marks)
            self._add_reading(near, relevant)
        return ()

    def _needs_reading(self, reader: Embedder, question: str, best: float) -> bool:
        """Return whether the reader model can improve the answer, and in time."""
        known = not self.narrow or knows_words(reader, question, self.asked)
        return best < relevance.STRONG and known and time.monotonic() + TO_READ <= patience()

    def with_reading(self, scores: dict[int, float]) -> dict[int, float]:
        """Return the scores after the results of the reader model are added."""
        if self.read is None:
            return scores
        left = 1 - self.read_part
        return {id_: left * score + self.by_reading.get(id_, 0.0) for id_, score in scores.items()}

    def _add_reading(self, near: ReadNear, best: float) -> None:
        """Store what the reader model's result adds to scores, and add the candidates that it found.

        The less relevant the best candidate is without reading, the more the reader model's result counts.
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

    def add_neighbours(self) -> None:
        """Add to each chunk's score a part of its neighbours' scores: answers often follow their questions.

        The score of the only chunk of a file is also the score of the file.
        """
        marks = self.marks
        self.own = {(marks[id_].file, marks[id_].order): score for id_, score in self.narrow.items()}
        speech_gain = self.own.get
        for id_, (file, order, _, _, alone, _, _) in self.marks.items():
            if alone:
                if id_ in self.narrow:
                    self.wide[file] = self.narrow[id_]
            else:
                beside = speech_gain((file, order - 1), 0.0) + speech_gain((file, order + 1), 0.0)
                if beside:
                    self.narrow[id_] = self.narrow.get(id_, 0.0) + NEIGHBOURS * beside

    def keyword_shares(self) -> dict[int, float]:
        """Return the BM25 score of each chunk divided by the best score."""
        best = max(self.narrow.values(), default=0.0) or 1.0
        return {id_: score / best for id_, score in self.narrow.items()}

    def weigher(self, question: str) -> relevance.Weigher:
        """Return the function that computes the signs of relevance of passages for this question."""
        return relevance.Weigher(
            question,
            self.asked.words,
            frequency=self.frequency,
            count=self.count,
            scores=self.narrow.values(),
            rank=words.commonness,
            cues=words.cues_of(question, WORD.findall(question.lower())),
        )

    def words_held(self, id_: int, words: Sequence[bool]) -> tuple[bool, ...]:
        """Return for each word of the question whether a chunk has it.

        A chunk from a time that the question mentions counts as having the words for this time.
        """
        if id_ not in self.timely:
            return tuple(words)
        said = (word in self.time_words for word in self.asked.words)
        return tuple(own or time for own, time in zip(words, said, strict=True))

    def identified(self, id_: int) -> float:
        """Return the weight, from 0 to 1, of the question's identifiers that a chunk contains exactly."""
        return relevance.identified(self.exact.get(id_, 0.0), certain=id_ in self.certain)

    def clear(self, id_: int) -> float:
        """Return by how many standard deviations the model rates a chunk above the mean; 0 if unread."""
        if self.read is None or id_ not in self.read.cosines:
            return 0.0
        return (self.read.cosines[id_] - self.read.mean) / self.read.deviation

    def apart(self, id_: int) -> float:
        """Return by how many standard deviations a chunk's similarity in meaning is above the mean."""
        if self.nearest is None:
            return 0.0
        return (self.cosine.get(id_, 0.0) - self.nearest.mean) / self.nearest.deviation


def _is_run(word: str) -> bool:
    """Return whether a word has characters of a script without spaces; such a word has no replacements."""
    return not word.isascii() and words.cjk_run().search(word) is not None


def knows_english_only(embedder: Embedder) -> bool:
    """Return whether an embedder was made from English texts; False for a model that we do not know."""
    return family(embedder) != "other"


def knows_words(embedder: Embedder, question: str, asked: Terms) -> bool:
    """Return whether an embedder knows the language of a question and enough of its words.

    For a model that was not made from English texts alone, return True.
    """
    if not knows_english_only(embedder):
        return True
    said = words.all_in(question)
    if language_of(question, said) != words.ENGLISH:
        return False
    known = sum(words.is_latin(word) and words.commonness(word) < words.RAREST for word in asked.words)
    return known > 0 if is_english(said) else known >= KNOWN * len(asked.words)


def _distinctive(frequency: Any, count: int) -> list[Sequence[str]]:
    """Return the distinctive words of a question as phrases to match, the rarest word first."""
    live = sorted((word for word in frequency if frequency[word]), key=frequency.__getitem__)
    if count >= COMMON_FROM:
        rare = [word for word in live if frequency[word] <= COMMON * count]
        live = rare if len(rare) >= 2 else live
    return [(word,) for word in live[:MOST_WORDS]]


def _spelling(term: str, texts: Sequence[str]) -> str:
    """Return the likeliest spelling of a term as a word in one of these texts; else the term itself."""
    begun = term[: max(3, len(term) - 2)]
    alike = dict.fromkeys(word for text in texts for word in _words_beginning(begun, text.lower()))
    return min(alike, key=lambda word: abs(len(word) - len(term)), default=term)


def _words_beginning(begun: str, text: str) -> list[str]:
    """Return the words of a lower-case text that begin with `begun`, whatever accents they have."""
    if not text.isascii():
        return [word for word in words.TOKEN.findall(text) if words.bare(word).startswith(begun)]
    # Cutting a long text into words takes longer than finding a few words in it.
    return re.findall(rf"(?<![a-z0-9]){re.escape(begun)}[a-z0-9]*", text)


SNIPPET = 700  # characters of a passage
PREVIEW = 600  # characters of a message


def snippet(body: str, asked: Sequence[str], phrases: Sequence[str] = ()) -> str:
    """Return the sentences of a chunk that show why the chunk was found.

    Places with one of the phrases are preferred to places with single words.
    """
    if len(body) <= SNIPPET:
        return body
    lower = lowered(body)
    whole = [each for each in map(str.lower, phrases) if each in lower]
    return cut(body, whole or asked, SNIPPET, whole=bool(whole))


def lowered(text: str) -> str:
    """Return a text in lower case; return it unchanged if that has another length, as with İ."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def window(
    text: str, asked: Sequence[str], *, start: int = 0, end: int | None = None, size: int = PREVIEW
) -> str:
    """Return the sentences from `start` to `end` of a text, of about this size, with most of the words.

    A text of at most `size` characters is returned whole.
    """
    if len(text) <= size:
        return text
    end = len(text) if end is None else end
    shown = cut(text[start:end], asked[:MOST_WORDS], size - 4)
    before = "… " if start and not shown.startswith("… ") else ""
    return f"{before}{shown}{' …' if end < len(text) and not shown.endswith(' …') else ''}"


def around(text: str, middle: int, size: int = PREVIEW) -> str:
    """Return part of a text of this size around a position, with a sign where text was left out."""
    begin = min(max(0, middle - size // 2), len(text) - size)
    cut = text[begin : begin + size]
    cut = "…" + cut[1:] if begin else cut
    return cut if begin + size >= len(text) else cut[:-1] + "…"
