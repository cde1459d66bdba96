"""Are two texts one statement, worded a little differently?

Likeness of letters only chooses what is worth comparing: it takes Bob for Rob and "internal" for
"external". Two texts are one statement when every word of either stands in the other as well, in an order
that means the same. Left aside are the forms of a word ("runs", "ran"), articles, contractions,
punctuation, phrases that say nothing ("please note that"), and a slip of the hand that makes no other word.
Whatever is in doubt is another statement: keeping two costs a line, and taking two for one hides a fact.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.text import grammar, inflection, sentences, vocabulary
from vademecum.text.grammar import ENGLISH, GERMAN
from vademecum.text.words import is_same_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vademecum.text.sentences import Statement, Token

THRESHOLD = 85.0
LONGEST = 20_000  # characters; a longer text is a document, and only its own copy is the same

_ROUGH = 0.5  # of the threshold: how alike two texts are at least that punctuation and spaces alone set apart
_MOST_SLIPS = 2
_SHORTEST_SLIP, _LONG = (
    5,
    8,
)  # letters of a word that may be mistyped at all, and of one that is told by the rest
_MOST_SENTENCES = 6  # that may stand in another order; a longer text tells a story


def same(one: str | Statement, other: str | Statement, *, threshold: float = THRESHOLD) -> float | None:
    """How alike two texts that say the same are, out of 100; None when they say different things."""
    if isinstance(one, str) and isinstance(other, str) and not _worth_reading(one, other, threshold):
        return None
    first = sentences.read(one) if isinstance(one, str) else one
    second = sentences.read(other) if isinstance(other, str) else other
    if first.redacted or second.redacted:
        return None  # what stood there is unknown, so nobody can say that it was the same
    if max(len(first.text), len(second.text)) > LONGEST:
        return 100.0 if is_same_text(first.text, second.text) else None
    if first.text == second.text:
        return 100.0
    found = likeness(first, second, threshold=threshold)
    if found is not None and first.language != second.language:
        first, second = _in_one_language(first, second)
    return found if found is not None and _one_statement(first, second) else None


def _worth_reading(one: str, other: str, threshold: float) -> bool:
    """Whether two texts may be alike once they are taken apart; most are not, and this is quicker to see."""
    from rapidfuzz import fuzz

    return fuzz.token_sort_ratio(one.lower(), other.lower(), score_cutoff=threshold * _ROUGH) > 0


def likeness(one: Statement, other: Statement, *, threshold: float) -> float | None:
    """How alike two texts are in their letters, from the threshold to 100; None below it."""
    from rapidfuzz import fuzz

    raw = fuzz.token_sort_ratio(one.text.lower(), other.text.lower(), score_cutoff=threshold)
    plain = fuzz.token_sort_ratio(one.plain, other.plain, score_cutoff=threshold)
    found = max(raw, plain)
    return float(found) if found >= threshold else None


def _in_one_language(one: Statement, other: Statement) -> tuple[Statement, Statement]:
    """Two texts read in the one language that both may be written in, if there is one."""
    shared = one.languages & other.languages
    if len(shared) != 1:
        return one, other
    language = min(shared)
    return sentences.read(one.text, language=language), sentences.read(other.text, language=language)


def is_redacted(text: str) -> bool:
    """Whether a secret was taken out of a text: nobody can say then that another text is the same."""
    return sentences.REDACTED in text


def is_negation(word: str) -> bool:
    """Whether a word, in small letters and without apostrophes, turns a statement round."""
    return word in grammar.NEGATIONS


# -------------------------------------------------------------------- comparing


def _one_statement(one: Statement, other: Statement) -> bool:
    language = one.language if one.language == other.language else ""
    first, second = one.sentences, other.sentences
    if _same_row(one.tokens, other.tokens, language):
        return True
    if len(first) != len(second):
        return _turned(one.tokens, other.tokens, language)
    if all(_same_sentence(*pair, language) for pair in zip(first, second, strict=True)):
        return True
    return len(first) > 1 and _same_sentences(first, second, language)


def _same_sentences(one: Sequence[Sequence[Token]], other: Sequence[Sequence[Token]], language: str) -> bool:
    """Whether statements that stand for themselves are the same in another order."""
    if len(one) > _MOST_SENTENCES or not all(map(_stands_alone, (*one, *other))):
        return False
    if sum(map(_declares, one)) < len(one) - 1:
        return False  # they may be steps to take
    left = [*other]
    for sentence in one:
        match = next((each for each in left if _same_sentence(sentence, each, language)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same_sentence(one: Sequence[Token], other: Sequence[Token], language: str) -> bool:
    if _same_row(one, other, language) or _turned(one, other, language):
        return True
    if language != ENGLISH:
        return False
    return any(
        _same_row(mine, theirs, language) or _turned(mine, theirs, language)
        for mine in _wordings(one)
        for theirs in _wordings(other)
        if len(mine) == len(theirs)
    )


def _turned(one: Sequence[Token], other: Sequence[Token], language: str) -> bool:
    """Whether one is the other with a part moved from its end to its front."""
    if len(one) != len(other) or len({t.text for t in one} ^ {t.text for t in other}) > len(one):
        return False  # most pairs are told by their words, without trying every order
    return any(
        _same_row(turned, right, language)
        for left, right in ((one, other), (other, one))
        for turned in _rotations(left, language)
    )


def _rotations(row: Sequence[Token], language: str) -> Iterator[Sequence[Token]]:
    """A sentence with its end first, where the end is a phrase or clause that can stand on either side."""
    for at in range(1, len(row)):
        if _is_movable(row, at, language) or (not language and _moves(row, at)):
            yield (*row[at:], *row[:at])


def _is_movable(row: Sequence[Token], at: int, language: str) -> bool:
    """Whether what begins here belongs to the sentence as a whole."""
    word = row[at].text
    if word in grammar.CLAUSE_WORDS.get(language, ()):
        return True
    if word in grammar.ADVERBS:
        return at == len(row) - 1  # "always pass tests" is not "tests always pass"
    if word in grammar.EACH:
        return at + 1 < len(row) and any(base in grammar.TIMES for base in inflection.bases(row[at + 1].text))
    if word not in grammar.PHRASE_WORDS.get(language, ()):
        return False
    # "Test on A and deploy on B": the phrase belongs to the last part alone.
    return row[at].opens or not any(token.text in grammar.JOINING for token in row[:at])


def _moves(row: Sequence[Token], at: int) -> bool:
    """Whether a clause in a script without spaces says under which condition the other one holds."""
    head, tail = row[:at], row[at:]
    if len(row) != 3 or row[1].text != ",":
        return False
    return at == 1 and (_is_condition(head[0].text) or _is_condition(tail[1].text))


def _is_condition(clause: str) -> bool:
    return clause.startswith(grammar.ASIAN_CONDITIONS)


def _stands_alone(clause: Sequence[Token]) -> bool:
    words = [token.text for token in clause]
    if not words or len(words) < 3 or grammar.SEQUENCE & set(words):
        return False
    return words[0] not in grammar.REFERRING


def _declares(sentence: Sequence[Token]) -> bool:
    """Whether a sentence begins with who it is about: else it may be a step, before or after another."""
    begin, verb, following = sentence[:3]
    if begin.article or begin.text in grammar.SUBJECTS or begin.name:
        return True
    return verb.text.endswith("s") and bool(following.article)  # "Alice owns the parser"


def _same_row(one: Sequence[Token], other: Sequence[Token], language: str) -> bool:
    """Whether two rows hold the same words in the same order."""
    if len(one) != len(other):
        return False
    slips = 0
    forms: list[bool] = []
    for at, (mine, theirs) in enumerate(zip(one, other, strict=True)):
        if _same_token(mine, theirs):
            if _other_article(one, other, at, language):
                return False
            forms.append(False)
        elif _is_form(one, other, at, language, forms):
            forms.append(True)
        elif slips < min(_MOST_SLIPS, 1 + len(one) // 8) and _is_slip(mine, theirs, language):
            slips += 1
            forms.append(False)
        else:
            return False
    return True


def _same_token(one: Token, other: Token) -> bool:
    if one.text != other.text:
        return False
    if one.raw == other.raw or one.loud or other.loud:
        return True
    if one.exact or other.exact:
        # A capital that only begins the sentence is none of the name's own.
        begins = one.first or other.first
        return begins and one.raw[1:] == other.raw[1:] and not any(map(str.isdigit, one.raw))
    if one.raw.isupper() != other.raw.isupper() and len(one.raw) > 1 and one.text in grammar.SHOUTED:
        return False
    inside = not (one.first or other.first)
    return not (inside and one.text in grammar.CAPITAL and one.raw[:1].isupper() != other.raw[:1].isupper())


def _other_article(one: Sequence[Token], other: Sequence[Token], at: int, language: str) -> bool:
    """Whether articles tell one thing from another: der Hund and den Hund, le tour and la tour."""
    mine, theirs = one[at].article, other[at].article
    if language == ENGLISH or not mine or not theirs or mine == theirs:
        return False
    # "Der Server startet" and "die Server starten": what follows tells that it is the number.
    return at + 1 >= len(one) or one[at + 1].text == other[at + 1].text


def _is_form(
    one: Sequence[Token], other: Sequence[Token], at: int, language: str, forms: Sequence[bool]
) -> bool:
    """Whether two words at one place are forms of one word, and nothing speaks for two names."""
    mine, theirs = one[at], other[at]
    if not language or mine.exact or theirs.exact:
        return False
    if language == ENGLISH:
        return _is_english_form(one, other, at)
    if not inflection.same_word(mine.text, theirs.text, language=language):
        return False
    if mine.first or theirs.first:
        return bool(mine.article and theirs.article)
    if language == GERMAN:
        # Nouns are written like names; an article tells that it is none.
        capital = mine.raw[:1].isupper() or theirs.raw[:1].isupper()
        return not capital or bool(mine.article and theirs.article) or any(forms[-1:])
    if mine.name or theirs.name:
        return False
    # "usa" and "usas" are two persons: the number of a word changes with an article, or with the word
    # before it.
    return bool(mine.article or theirs.article) or any(forms[-2:])


def _is_english_form(one: Sequence[Token], other: Sequence[Token], at: int) -> bool:
    mine, theirs = one[at], other[at]
    if mine.name or theirs.name:
        return {mine.raw.removesuffix("s"), theirs.raw.removesuffix("s")} == {_acronym(mine, theirs)}
    if not _bases(mine) & _bases(theirs):
        return False
    if not (mine.first or theirs.first) or mine.article or theirs.article:
        return True
    if mine.raw[:1].islower() and theirs.raw[:1].islower():
        return True
    # "Robert owns" and "Roberts owns": where only the first word changes, it may be a name.
    following = at + 1 < len(one) and one[at + 1].text != other[at + 1].text
    return following and bool(_bases(one[at + 1]) & _bases(other[at + 1]))


def _acronym(one: Token, other: Token) -> str:
    """The one of two words that is all capitals: API of APIs and API."""
    return next((token.raw for token in (one, other) if token.raw.isupper() and len(token.raw) > 1), "")


def _bases(token: Token) -> frozenset[str]:
    return inflection.gerund_bases(token.text) if token.gerund else inflection.bases(token.text)


def _is_slip(one: Token, other: Token, language: str) -> bool:
    """Whether one word is the other mistyped: a letter inside a long word, that makes no other word."""
    if language != ENGLISH or one.exact or other.exact:
        return False
    if one.raw != one.text or other.raw != other.text:
        return False  # written as a name, or the first word, which may be one
    if not (one.text + other.text).isascii():
        return False
    if vocabulary.is_word(one.text) == vocabulary.is_word(other.text):
        return False
    right, wrong = (one, other) if vocabulary.is_word(one.text) else (other, one)
    return any(map(vocabulary.is_listed, _bases(right))) and _mistyped(right.text, wrong.text)


def _mistyped(right: str, wrong: str) -> bool:
    """Whether a letter is swapped with the next, doubled, or in a long word left out or added.

    Another letter in a letter's place is no slip: that is how most words differ from their neighbours.
    """
    if right[0] != wrong[0] or right[-1] != wrong[-1] or len(right) < _SHORTEST_SLIP:
        return False
    start = next((at for at, pair in enumerate(zip(right, wrong, strict=False)) if pair[0] != pair[1]), 0)
    if len(right) == len(wrong):
        return right[:start] + right[start + 1] + right[start] + right[start + 2 :] == wrong
    longer, shorter = sorted((right, wrong), key=len, reverse=True)
    if longer[:start] + longer[start + 1 :] != shorter:
        return False
    return longer[start] == longer[start - 1] or len(right) >= _LONG


# -------------------------------------------------------------------- wordings of one sentence


def _wordings(row: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """A sentence as it stands, in the active voice, and with "runs" for "is running"."""
    for each in (tuple(row), *_lasting(row)):
        yield each
        yield from _active(each)
        for at in _fronted(each):
            yield from _active((*each[at:], *each[:at]))


def _lasting(row: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """ "is running" as "runs", where there is one."""
    for at in range(len(row) - 1):
        verb = at + 2 if at + 2 < len(row) and row[at + 1].text in grammar.BETWEEN else at + 1
        if (
            row[at].text in inflection.BE
            and inflection.gerund_bases(row[verb].text)
            and not row[verb].article
        ):
            marked = row[verb]._replace(gerund=True)
            yield (*row[:at], *row[at + 1 : verb], marked, *row[verb + 1 :])
            return


def _fronted(row: Sequence[Token]) -> Iterator[int]:
    """Where a phrase that stands before the subject may end."""
    if row and row[0].text in grammar.MOVABLE[ENGLISH] | grammar.EACH:
        yield from range(2, min(len(row) - 3, 8))


def _active(row: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """What "B is called by A" says, as "A calls B": the doer may end anywhere before the end."""
    for be, token in enumerate(row):
        if be == 0 or token.text not in inflection.BE:
            continue
        verb = be + 1
        while verb < len(row) and (row[verb].text in grammar.BETWEEN or row[verb].text == "being"):
            verb += 1
        if verb >= len(row) or not inflection.is_participle(row[verb].text):
            continue
        by = next((at for at in range(verb + 1, len(row)) if row[at].text == "by"), None)
        if by is None or by + 1 >= len(row):
            continue
        start = be
        while start > 1 and row[start - 1].text in grammar.HELPING:
            start -= 1
        whom, helping = row[:start], (*row[start:be], *(t for t in row[be + 1 : verb] if t.text != "being"))
        how = row[verb + 1 : by]
        for end in range(by + 2, len(row) + 1):
            doer, rest = row[by + 1 : end], row[end:]
            yield (*doer, *helping, row[verb], *whom, *how, *rest)
            if how and rest:
                yield (*doer, *helping, row[verb], *whom, *rest, *how)
        return
