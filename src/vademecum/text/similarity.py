"""Decide whether two texts are one statement, worded a little differently.

Similar letters only choose which texts are worth comparing: Bob is similar to Rob, and "internal" to
"external". Two texts are one statement when every word of each stands in the other, in an order that means
the same. Ignored are the forms of a word ("runs", "ran"), articles, contractions, punctuation, empty phrases
("please note that"), and a typing error that makes no other word. A doubtful pair counts as two statements:
keeping both costs a line, and merging them hides a fact.
"""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from vademecum.lazy import lazy_pattern
from vademecum.text import LETTERS, is_same_text, lexicon
from vademecum.text.lexicon import ENGLISH, FRENCH, GERMAN

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

THRESHOLD = 85.0
LONGEST = 20_000  # characters; a longer text is a document, and only its own copy is the same

_ROUGH = 0.5  # of the threshold: how alike two texts are at least that punctuation and spaces alone set apart
_SELECTIVE = 60.0  # a cutoff from which on counting letters tells most pairs apart, and is worth its time
_MOST_SLIPS = 2
_SHORTEST_SLIP, _LONG = (
    5,
    8,
)  # letters of a word that may be mistyped at all, and of one that is told by the rest
_MOST_SENTENCES = 6  # that may stand in another order; a longer text tells a story


def same(one: str | Wording, other: str | Wording, *, threshold: float = THRESHOLD) -> float | None:
    """Return how similar two texts with one meaning are, out of 100; None if their meanings differ."""
    if isinstance(one, str) and isinstance(other, str) and not _worth_reading(one, other, threshold):
        return None
    first = read_statement(one) if isinstance(one, str) else one
    second = read_statement(other) if isinstance(other, str) else other
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
    """Whether two texts are similar enough to be parsed; this test is quick, and most pairs fail it."""
    return _ratio(one.lower(), other.lower(), threshold * _ROUGH) > 0


def likeness(one: Wording, other: Wording, *, threshold: float) -> float | None:
    """Return how similar the letters of two texts are, out of 100; None below the threshold."""
    raw = _ratio(one.text.lower(), other.text.lower(), threshold)
    found = max(raw, _ratio(one.plain, other.plain, threshold))
    return found if found >= threshold else None


def _ratio(one: str, other: str, cutoff: float) -> float:
    """Return how similar the words of two texts are in any order, out of 100; 0 below the cutoff.

    The measure is the longest common subsequence, computed with one bit for each letter.
    """
    first, second = (" ".join(sorted(each.split())) for each in (one, other))
    length = len(first) + len(second)
    needed = length * cutoff / 200  # letters in common
    if not length or min(len(first), len(second)) < needed:
        return 0.0 if length else 100.0
    if (
        cutoff > _SELECTIVE
        and sum([min(first.count(each), second.count(each)) for each in set(first)]) < needed
    ):
        return 0.0  # whatever their order
    places: dict[str, int] = {}
    for at, letter in enumerate(first):
        places[letter] = places.get(letter, 0) | 1 << at
    row = every = (1 << len(first)) - 1
    for letter in second:
        both = row & places.get(letter, 0)
        row = (row + both | row - both) & every
    shared = 2 * (len(first) - row.bit_count())
    found = (1 - (length - shared) / length) * 100
    return found if found >= cutoff else 0.0


def _in_one_language(one: Wording, other: Wording) -> tuple[Wording, Wording]:
    """Return both texts parsed in the only language that fits both; else return them unchanged."""
    shared = one.languages & other.languages
    if len(shared) != 1:
        return one, other
    language = min(shared)
    return read_statement(one.text, language=language), read_statement(other.text, language=language)


def is_redacted(text: str) -> bool:
    """Whether a secret was redacted from a text, so that the text cannot be known to equal another."""
    return REDACTED in text


def is_negation(word: str) -> bool:
    """Whether a word, in lower case and without apostrophes, negates a statement."""
    return word in lexicon.NEGATIONS


# -------------------------------------------------------------------- comparing


def _one_statement(one: Wording, other: Wording) -> bool:
    language = one.language if one.language == other.language else ""
    first, second = one.sentences, other.sentences
    if _same_row(one.tokens, other.tokens, language):
        return True
    if len(first) != len(second):
        return _is_reordered(one.tokens, other.tokens, language)
    if all(_same_sentence(*pair, language) for pair in zip(first, second, strict=True)):
        return True
    return len(first) > 1 and _same_sentences(first, second, language)


def _same_sentences(one: Sequence[Sequence[Token]], other: Sequence[Sequence[Token]], language: str) -> bool:
    """Whether two texts consist of the same independent sentences in another order."""
    if len(one) > _MOST_SENTENCES or not all(map(_stands_alone, (*one, *other))):
        return False
    if sum(map(_begins_with_subject, one)) < len(one) - 1:
        return False  # they may be steps to take
    left = [*other]
    for sentence in one:
        match = next((each for each in left if _same_sentence(sentence, each, language)), None)
        if match is None:
            return False
        left.remove(match)
    return True


def _same_sentence(one: Sequence[Token], other: Sequence[Token], language: str) -> bool:
    if _same_row(one, other, language) or _is_reordered(one, other, language):
        return True
    if language != ENGLISH:
        return False
    return any(
        _same_row(mine, theirs, language) or _is_reordered(mine, theirs, language)
        for mine in _wordings(one)
        for theirs in _wordings(other)
        if len(mine) == len(theirs)
    )


def _is_reordered(one: Sequence[Token], other: Sequence[Token], language: str) -> bool:
    """Whether two sentences differ only in that a part was moved from the end to the front."""
    if len(one) != len(other) or len({t.text for t in one} ^ {t.text for t in other}) > len(one):
        return False  # most pairs are told by their words, without trying every order
    return any(
        _same_row(turned, right, language)
        for left, right in ((one, other), (other, one))
        for turned in _rotations(left, language)
    )


def _rotations(row: Sequence[Token], language: str) -> Iterator[Sequence[Token]]:
    """Yield variants of a sentence in which a phrase or clause was moved from the end to the front."""
    for at in range(1, len(row)):
        if _is_movable(row, at, language):
            yield (*row[at:], *row[:at])


def _is_movable(row: Sequence[Token], at: int, language: str) -> bool:
    """Whether the phrase that begins at this word belongs to the whole sentence, and so may be moved."""
    word = row[at].text
    if word in lexicon.CLAUSE_WORDS.get(language, ()):
        return True
    if word in lexicon.ADVERBS:
        return at == len(row) - 1  # "always pass tests" is not "tests always pass"
    if word in lexicon.EACH:
        return at + 1 < len(row) and any(base in lexicon.TIMES for base in lexicon.bases(row[at + 1].text))
    if word not in lexicon.PHRASE_WORDS.get(language, ()):
        return False
    # "Test on A and deploy on B": the phrase belongs to the last part alone.
    return row[at].opens or not any(token.text in lexicon.JOINING for token in row[:at])


def _stands_alone(clause: Sequence[Token]) -> bool:
    words = [token.text for token in clause]
    if not words or len(words) < 3 or lexicon.SEQUENCE & set(words):
        return False
    return words[0] not in lexicon.REFERRING


def _begins_with_subject(sentence: Sequence[Token]) -> bool:
    """Whether a sentence begins with its subject; a sentence that does not may be a step in a sequence."""
    begin, verb, following = sentence[:3]
    if begin.article or begin.text in lexicon.SUBJECTS or begin.name:
        return True
    return verb.text.endswith("s") and bool(following.article)  # "Alice owns the parser"


def _same_row(one: Sequence[Token], other: Sequence[Token], language: str) -> bool:
    """Whether two rows of tokens are the same words in the same order, word forms and typing errors aside."""
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
    if one.raw.isupper() != other.raw.isupper() and len(one.raw) > 1 and one.text in lexicon.SHOUTED:
        return False
    inside = not (one.first or other.first)
    return not (inside and one.text in lexicon.CAPITAL and one.raw[:1].isupper() != other.raw[:1].isupper())


def _other_article(one: Sequence[Token], other: Sequence[Token], at: int, language: str) -> bool:
    """Whether articles show that two equal words mean different things: der Hund, den Hund; le
    tour, la tour.
    """
    mine, theirs = one[at].article, other[at].article
    if language == ENGLISH or not mine or not theirs or mine == theirs:
        return False
    # "Der Server startet" and "die Server starten": what follows tells that it is the number.
    return at + 1 >= len(one) or one[at + 1].text == other[at + 1].text


def _is_form(
    one: Sequence[Token], other: Sequence[Token], at: int, language: str, forms: Sequence[bool]
) -> bool:
    """Whether the two words at this position are forms of one word, and not two names."""
    mine, theirs = one[at], other[at]
    if not language or mine.exact or theirs.exact:
        return False
    if language == ENGLISH:
        return _is_english_form(one, other, at)
    if not lexicon.same_word(mine.text, theirs.text, language=language):
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
    """Return the one of two words that is in capitals, such as API of "APIs" and "API"; empty if none is."""
    return next((token.raw for token in (one, other) if token.raw.isupper() and len(token.raw) > 1), "")


def _bases(token: Token) -> frozenset[str]:
    return lexicon.gerund_bases(token.text) if token.gerund else lexicon.bases(token.text)


def _is_slip(one: Token, other: Token, language: str) -> bool:
    """Whether one of two words is a typing error of the other: long, one letter wrong, and no known word."""
    if language != ENGLISH or one.exact or other.exact:
        return False
    if one.raw != one.text or other.raw != other.text:
        return False  # written as a name, or the first word, which may be one
    if not (one.text + other.text).isascii():
        return False
    if lexicon.is_word(one.text) == lexicon.is_word(other.text):
        return False
    right, wrong = (one, other) if lexicon.is_word(one.text) else (other, one)
    return any(map(lexicon.is_listed, _bases(right))) and _is_typing_error(right.text, wrong.text)


def _is_typing_error(right: str, wrong: str) -> bool:
    """Whether two letters are swapped, or a letter is doubled, or in a long word left out or added.

    A replaced letter is no typing error: most words differ from their neighbours in that way.
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
    """Yield a sentence as it stands, then in the active voice, then with "runs" for "is running"."""
    for each in (tuple(row), *_without_progressive(row)):
        yield each
        yield from _active_voice(each)


def _without_progressive(row: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """Yield a sentence with "runs" in place of "is running"."""
    for at in range(len(row) - 1):
        verb = at + 2 if at + 2 < len(row) and row[at + 1].text in lexicon.BETWEEN else at + 1
        if row[at].text in lexicon.BE and lexicon.gerund_bases(row[verb].text) and not row[verb].article:
            marked = row[verb]._replace(gerund=True)
            yield (*row[:at], *row[at + 1 : verb], marked, *row[verb + 1 :])
            return


def _active_voice(row: Sequence[Token]) -> Iterator[tuple[Token, ...]]:
    """Yield "A calls B" for "B is called by A"; the end of A is uncertain, so each possible end is tried."""
    for be, token in enumerate(row):
        if be == 0 or token.text not in lexicon.BE:
            continue
        verb = be + 1
        while verb < len(row) and (row[verb].text in lexicon.BETWEEN or row[verb].text == "being"):
            verb += 1
        if verb >= len(row) or not lexicon.is_participle(row[verb].text):
            continue
        by = next((at for at in range(verb + 1, len(row)) if row[at].text == "by"), None)
        if by is None or by + 1 >= len(row):
            continue
        start = be
        while start > 1 and row[start - 1].text in lexicon.HELPING:
            start -= 1
        whom, helping = row[:start], (*row[start:be], *(t for t in row[be + 1 : verb] if t.text != "being"))
        how = row[verb + 1 : by]
        for end in range(by + 2, len(row) + 1):
            doer, rest = row[by + 1 : end], row[end:]
            yield (*doer, *helping, row[verb], *whom, *how, *rest)
            if how and rest:
                yield (*doer, *helping, row[verb], *whom, *rest, *how)
        return


# -------------------------------------------------------------------- a text taken apart
# Sentences of words, numbers, signs and pieces of code. Articles, contractions, punctuation and phrases that
# say nothing are gone; what has to be taken to the letter is marked so.


REDACTED = "[REDACTED:"
_CACHED = 2_000  # characters of a text that is remembered as it was taken apart
_UNIT = 3  # letters of a unit at most
_LOUD = 20  # characters of a text in capitals that is more than an abbreviation


class Token(NamedTuple):
    """A word, number, sign or piece of code, with what is known of its place in the sentence."""

    raw: str
    text: str  # in small letters
    exact: bool = False  # to be taken to the letter: code, an identifier, a number, a sign
    name: bool = False  # written as a name: a capital inside a sentence
    first: bool = False  # the first of its sentence, where a capital tells nothing
    opens: bool = False  # the first of its clause
    article: str = ""  # the one before it
    loud: bool = False  # of a text that is written in capitals alone
    gerund: bool = False  # it stood after a form of "to be": "is running"


class Wording(NamedTuple):
    """A text that has been parsed for comparison."""

    text: str
    plain: str  # its words alone, as likeness is measured
    language: str
    sentences: tuple[tuple[Token, ...], ...]
    redacted: bool
    languages: frozenset[str] = frozenset()  # those it may be written in

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of all sentences in one row."""
        return tuple(itertools.chain.from_iterable(self.sentences))


_LEAD = lazy_pattern(
    r"(?:^|(?<=[.!?\n]\s))(?:please\s+)?(?:"
    r"(?:note|remember|be aware|keep in mind|bear in mind)(?:\s+that\b|\s*:)|"
    r"(?:as (?:a|one more) (?:reminder|note)|by the way|for the record|for your information|just so you know|"
    r"as mentioned(?: before| earlier| above)?)\s*[,:]?|(?:btw|fyi|reminder)\s*[,:]|fyi(?=\s)|"
    r"it (?:is|should be) (?:worth noting|noted|important to note)\s+that\b"
    r")\s*",
    re.IGNORECASE,
)
_PLEASE = lazy_pattern(r"\bplease\b,?\s*", re.IGNORECASE)
_EMPHASIS = lazy_pattern(r"(?<![\w*])(\*\*|\*)(?=[\w\"'`])([^*\n]+?)(?<=\S)\1(?!\w)")
_RAISED = str.maketrans({raised: f"^{digit}" for digit, raised in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
_SHORT_IS = lazy_pattern(r"(?<=\w)'s(?=\s+(?:a|an|the|not)\b)")
_RANGE = lazy_pattern(r"(?<=\d)[–—](?=\d)")
_BULLET = lazy_pattern(r"^[^\S\n]*+(?:[-*+]|#{1,6})\s+(?!\[)", re.MULTILINE)
_RUN = r"```.*?(?:```|\Z)"  # not `fences`: here a run of backticks inside a line is code as well
_CODE = r"`[^`\n]*`"
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # scripts that set no spaces; in Korean a space tells
# Compiled when the first text needs them: a set of so many letters takes longer to compile than to search.
_GAP = rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])"
_SEAM = rf"(?<=[{_CJK}])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9%])(?=[{_CJK}])"

# Letters and digits with what joins them into one name: 1.5, pre-commit, src/a.py, a_b, user@host, don't.
_WORD = r"[^\W_]+(?:(?:[._/:@'+-]+|(?<=\d),(?=\d))[^\W_]+|_+[^\W_]*)*|_\w+"
_PATH = rf"(?<![\w./~])(?:~?/|\.{{1,2}}/|\.)(?:{_WORD})"
_FLAG = r"(?<!\S)--?[A-Za-z][\w-]*"
# What is no letter, no space and no mark that only sets words apart: <, %, C#, a tick, a question, a
# leading dot.
_SIGN = (
    r"[^\w\s.,;:!'\"“”„‘«»「」『』()\[\]{}/*–—…`¡¿、。，；：！-]|(?<!\w)-(?=\d)|!(?==)|(?<!\w)!(?=\w)|"
    r"\*(?=[./])|(?<=\[)-(?=\])|(?<=\w\s)[*/](?=\s\w)|(?<=\w)\*(?=\w)"
)
_BREAK = r"[.!?;。！？；]{1,64}(?=\s|\Z|[^\x00-\x7f])|\n+"
_COMMA = r"[,:()、，：]{1,64}(?=\s|\Z|[^\x00-\x7f])|\s[–—-]\s|[–—]|\(|\.\.\.|…"
_PIECES = lazy_pattern(
    rf"(?P<fence>{_RUN})|(?P<code>{_CODE})|(?P<flag>{_FLAG})|(?P<path>{_PATH})|(?P<word>{_WORD})|"
    rf"(?P<comma>{_COMMA})|(?P<sign>{_SIGN})|(?P<break>{_BREAK})",
    re.DOTALL,
)
_IN_CODE = lazy_pattern(rf"{_FLAG}|{_WORD}|[^\w\s]")
_AMOUNT = lazy_pattern(r"(\d+(?:[.,]\d+)*)([^\W\d_]{1,4})")


def read_statement(text: str, *, language: str | None = None) -> Wording:
    """Return a text parsed in a language, by default in the language that it seems to be written in."""
    return (_read_short if len(text) <= _CACHED else _read)(text, language)


def _read(text: str, language: str | None) -> Wording:
    whole = unicodedata.normalize("NFKC", text.translate(_RAISED)).strip()
    whole = _RANGE.sub("-", re.sub("[’‘ʼ´]", "'", whole))
    whole = _SHORT_IS.sub(" is", whole)
    asian = _is_asian(whole)
    prose = _PLEASE.sub("", _LEAD.sub("", _EMPHASIS.sub(r"\2", _BULLET.sub("", whole))))
    if asian:
        prose = re.sub(_SEAM, " ", re.sub(_GAP, "", prose))
    loud = prose.isupper() and len(prose) > _LOUD
    languages = _languages(prose) if language is None else frozenset({language})
    language = min(languages) if len(languages) == 1 else ""
    sentences = [*_sentences(prose.lower() if loud else prose, language, asian=asian)]
    if loud:
        sentences = [tuple(token._replace(loud=True) for token in sentence) for sentence in sentences]
    plain = " ".join(token.text for sentence in sentences for token in sentence)
    return Wording(whole, plain, language, tuple(sentences), REDACTED in whole, languages)


_read_short = functools.lru_cache(maxsize=4_096)(_read)


def _is_asian(text: str) -> bool:
    return not text.isascii() and re.search(f"[{_CJK}]", text) is not None


def _languages(text: str) -> frozenset[str]:
    """Return the known languages that a text may be written in, judged by its most common words."""
    if _is_asian(text):
        return frozenset()
    words = LETTERS.findall(text.lower())
    counts = {
        name: sum(word in known or word in lexicon.MOVABLE[name] for word in words)
        for name, known in lexicon.COMMON.items()
    }
    best = max(counts.values(), default=0)
    if not best:
        known = sum(map(lexicon.is_listed, words))
        return frozenset({ENGLISH} if words and text.isascii() and known * 2 > len(words) else ())
    return frozenset(name for name, count in counts.items() if count == best)


def _sentences(text: str, language: str, *, asian: bool) -> Iterator[tuple[Token, ...]]:
    sentence: list[Token] = []
    opens = True
    for match in _PIECES.finditer(text):
        kind = str(match.lastgroup)
        piece = match[kind]
        if kind == "break":
            if sentence:
                yield _without_articles(sentence, language)
            sentence, opens = [], True
        elif kind == "comma":
            opens = True
        else:
            made = [*_tokens(piece, kind, language, first=not sentence)]
            if made and sentence and len(made[0].raw) <= _UNIT and sentence[-1].raw[-1].isdigit():
                made[0] = made[0]._replace(exact=True)  # Mb is no MB
            if made and opens and sentence and asian:
                sentence.append(
                    Token(",", ",", exact=True)
                )  # between signs that have no spaces it may divide
            if made:
                sentence += [made[0]._replace(opens=opens), *made[1:]]
                opens = False
    if sentence:
        yield _without_articles(sentence, language)


def _tokens(piece: str, kind: str, language: str, *, first: bool) -> Iterator[Token]:
    """Yield the tokens of one piece of text, such as a word, a number or code."""
    if kind == "code":
        for each in _IN_CODE.findall(piece.strip("`")):
            yield Token(each, each.lower(), exact=True)
    elif kind in ("fence", "flag", "path", "sign"):
        yield Token(piece, piece.lower(), exact=True)
    else:
        for number, word in enumerate(_words(piece, language)):
            yield _token(word, first=first and number == 0)


def _words(piece: str, language: str) -> Iterator[str]:
    """Yield the words of a piece of text; contractions and hyphenated words become several."""
    if re.fullmatch(r"[^\W\d_]+(?:-[^\W\d_]+)+", piece):
        yield from piece.split("-")
        return
    amount = _AMOUNT.fullmatch(piece)
    if amount:
        yield from amount.groups()
        return
    low = piece.lower()
    if low in lexicon.SHORT.get(language, {}):
        yield from _keep_case(piece, lexicon.SHORT[language][low])
    elif language == ENGLISH and "'" in piece:
        yield from _split_contraction(piece)
    elif "'" in piece and language in (FRENCH, ""):
        head, _, rest = piece.partition("'")
        yield from (lexicon.ELIDED.get(head.lower(), head), rest)
    else:
        yield piece


def _split_contraction(piece: str) -> Iterator[str]:
    low = piece.lower()
    for ending, word in lexicon.SHORT_ENDINGS.items():
        if low.endswith(ending) and len(low) > len(ending):
            yield from (piece[: -len(ending)], word)
            return
    host, _, rest = piece.partition("'")
    if rest.lower() == "s":
        yield host
        if host.lower() in lexicon.WITH_IS:
            yield "is"
    else:
        yield piece


def _keep_case(piece: str, words: str) -> Iterator[str]:
    """Yield the words that replace a piece of text; the first has a capital if the piece had."""
    first, *rest = words.split()
    yield first.capitalize() if piece[:1].isupper() else first
    yield from rest


def _token(word: str, *, first: bool) -> Token:
    folded = word.casefold()
    joined = not word.isalpha()
    inner = any(letter.isupper() for letter in word[1:]) and not word.isupper()
    plural_of_letters = word[:-1].isupper() and word.endswith("s") and len(word) > 2
    exact = joined or (inner and not plural_of_letters) or _is_asian(word)
    name = word[:1].isupper() and not first and not lexicon.is_calendar(folded)
    return Token(word, folded, exact=exact, name=name or plural_of_letters, first=first)


def _without_articles(sentence: Sequence[Token], language: str) -> tuple[Token, ...]:
    """Return a sentence without its articles; the next word notes which article stood before it."""
    known = lexicon.ARTICLES.get(language, frozenset())
    found: list[Token] = []
    article, opens = "", False
    for at, token in enumerate(sentence):
        following = sentence[at + 1] if at + 1 < len(sentence) else None
        opens = opens or token.opens
        drops = token.text in known and not token.exact and following is not None
        if drops and not _abbreviates(token) and following and following.text not in lexicon.QUANTITIES:
            article = token.text
            continue
        found.append(token._replace(article=article, opens=opens))
        article, opens = "", False
    return tuple(_mark_answers(found))


def _abbreviates(token: Token) -> bool:
    """Whether an article may be a name of one letter instead, like the A of "A calls B"."""
    return token.raw == "A" and not token.first


def _mark_answers(sentence: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens; a clause that is only "no" is marked, because "No, deploy" is not "no deploy"."""
    for at, token in enumerate(sentence):
        alone = token.opens and at + 1 < len(sentence) and sentence[at + 1].opens
        if alone and token.text in lexicon.ANSWERS:
            yield token._replace(text=f"{token.text},", exact=True)
        else:
            yield token
