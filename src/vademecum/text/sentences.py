"""A text taken apart for comparing: sentences of words, numbers, signs and pieces of code.

Articles, contractions, punctuation and phrases that say nothing are gone; what has to be taken to the
letter is marked so. Knows nothing of when two texts are the same."""

from __future__ import annotations

import functools
import itertools
import re
import unicodedata
from typing import TYPE_CHECKING, NamedTuple

from vademecum.text import grammar, inflection, vocabulary
from vademecum.text.grammar import ENGLISH, FRENCH
from vademecum.text.words import LETTERS

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

REDACTED = "[REDACTED:"
_CACHED = 2_000  # characters of a text that is remembered as it was taken apart
_UNIT = 3  # letters of a unit at most
_LOUD = 20  # characters of a text in capitals that is more than an abbreviation


class Token(NamedTuple):
    """A word, number, sign or piece of code, with what is known of its place."""

    raw: str
    text: str  # in small letters
    exact: bool = False  # to be taken to the letter: code, an identifier, a number, a sign
    name: bool = False  # written as a name: a capital inside a sentence
    first: bool = False  # the first of its sentence, where a capital tells nothing
    opens: bool = False  # the first of its clause
    article: str = ""  # the one before it
    loud: bool = False  # of a text that is written in capitals alone
    gerund: bool = False  # it stood after a form of "to be": "is running"


class Statement(NamedTuple):
    """A text, taken apart for comparing."""

    text: str
    plain: str  # its words alone, as likeness is measured
    language: str
    sentences: tuple[tuple[Token, ...], ...]
    redacted: bool
    languages: frozenset[str] = frozenset()  # those it may be written in

    @property
    def tokens(self) -> tuple[Token, ...]:
        """All of it in a row."""
        return tuple(itertools.chain.from_iterable(self.sentences))


_LEAD = re.compile(
    r"(?:^|(?<=[.!?\n]\s))(?:please\s+)?(?:"
    r"(?:note|remember|be aware|keep in mind|bear in mind)(?:\s+that\b|\s*:)|"
    r"(?:as (?:a|one more) (?:reminder|note)|by the way|for the record|for your information|just so you know|"
    r"as mentioned(?: before| earlier| above)?)\s*[,:]?|(?:btw|fyi|reminder)\s*[,:]|fyi(?=\s)|"
    r"it (?:is|should be) (?:worth noting|noted|important to note)\s+that\b"
    r")\s*",
    re.IGNORECASE,
)
_PLEASE = re.compile(r"\bplease\b,?\s*", re.IGNORECASE)
_EMPHASIS = re.compile(r"(?<![\w*])(\*\*|\*)(?=[\w\"'`])([^*\n]+?)(?<=\S)\1(?!\w)")
_RAISED = str.maketrans({raised: f"^{digit}" for digit, raised in enumerate("⁰¹²³⁴⁵⁶⁷⁸⁹")})
_SHORT_IS = re.compile(r"(?<=\w)'s(?=\s+(?:a|an|the|not)\b)")
_RANGE = re.compile(r"(?<=\d)[–—](?=\d)")
_BULLET = re.compile(r"^\s*(?:[-*+]|#{1,6})\s+(?!\[)", re.MULTILINE)
_RUN = r"```.*?(?:```|\Z)"  # not `fences`: here a run of backticks inside a line is code as well
_CODE = r"`[^`\n]*`"
_CJK = r"\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff"  # scripts that set no spaces; in Korean a space tells
_ASIAN = re.compile(rf"[{_CJK}]")
_GAP = re.compile(rf"(?<=[{_CJK}])\s+|\s+(?=[{_CJK}])")
_SEAM = re.compile(rf"(?<=[{_CJK}])(?=[A-Za-z0-9])|(?<=[A-Za-z0-9%])(?=[{_CJK}])")

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
_BREAK = r"[.!?;。！？；]+(?=\s|\Z|[^\x00-\x7f])|\n+"
_COMMA = r"[,:()、，：]+(?=\s|\Z|[^\x00-\x7f])|\s[–—-]\s|[–—]|\(|\.\.\.|…"
_PIECES = re.compile(
    rf"(?P<fence>{_RUN})|(?P<code>{_CODE})|(?P<flag>{_FLAG})|(?P<path>{_PATH})|(?P<word>{_WORD})|"
    rf"(?P<comma>{_COMMA})|(?P<sign>{_SIGN})|(?P<break>{_BREAK})",
    re.DOTALL,
)
_IN_CODE = re.compile(rf"{_FLAG}|{_WORD}|[^\w\s]")
_AMOUNT = re.compile(r"(\d+(?:[.,]\d+)*)([^\W\d_]{1,4})")


def read(text: str, *, language: str | None = None) -> Statement:
    """Take a text apart, as one of a language or of the one it seems to be written in."""
    return (_read_short if len(text) <= _CACHED else _read)(text, language)


def _read(text: str, language: str | None) -> Statement:
    whole = unicodedata.normalize("NFKC", text.translate(_RAISED)).strip()
    whole = _RANGE.sub("-", re.sub("[’‘ʼ´]", "'", whole))
    whole = _SHORT_IS.sub(" is", whole)
    asian = _ASIAN.search(whole) is not None
    prose = _PLEASE.sub("", _LEAD.sub("", _EMPHASIS.sub(r"\2", _BULLET.sub("", whole))))
    if asian:
        prose = _SEAM.sub(" ", _GAP.sub("", prose))
    loud = prose.isupper() and len(prose) > _LOUD
    languages = _languages(prose) if language is None else frozenset({language})
    language = min(languages) if len(languages) == 1 else ""
    sentences = [*_sentences(prose.lower() if loud else prose, language, asian=asian)]
    if loud:
        sentences = [tuple(token._replace(loud=True) for token in sentence) for sentence in sentences]
    plain = " ".join(token.text for sentence in sentences for token in sentence)
    return Statement(whole, plain, language, tuple(sentences), REDACTED in whole, languages)


_read_short = functools.lru_cache(maxsize=4_096)(_read)


def _languages(text: str) -> frozenset[str]:
    """Which of the languages that are known here a text may be written in, by its commonest words."""
    if _ASIAN.search(text):
        return frozenset()
    words = LETTERS.findall(text.lower())
    counts = {
        name: sum(word in known or word in grammar.MOVABLE[name] for word in words)
        for name, known in grammar.COMMON.items()
    }
    best = max(counts.values(), default=0)
    if not best:
        known = sum(map(vocabulary.is_listed, words))
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
                yield _finished(sentence, language)
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
        yield _finished(sentence, language)


def _tokens(piece: str, kind: str, language: str, *, first: bool) -> Iterator[Token]:
    """The tokens of one piece of text."""
    if kind == "code":
        for each in _IN_CODE.findall(piece.strip("`")):
            yield Token(each, each.lower(), exact=True)
    elif kind in ("fence", "flag", "path", "sign"):
        yield Token(piece, piece.lower(), exact=True)
    else:
        for number, word in enumerate(_words(piece, language)):
            yield _token(word, first=first and number == 0)


def _words(piece: str, language: str) -> Iterator[str]:
    """The words of a piece: a contraction is several, and so are words that a hyphen joins."""
    if re.fullmatch(r"[^\W\d_]+(?:-[^\W\d_]+)+", piece):
        yield from piece.split("-")
        return
    amount = _AMOUNT.fullmatch(piece)
    if amount:
        yield from amount.groups()
        return
    low = piece.lower()
    if low in grammar.SHORT.get(language, {}):
        yield from _cased(piece, grammar.SHORT[language][low])
    elif language == ENGLISH and "'" in piece:
        yield from _uncontracted(piece)
    elif "'" in piece and language in (FRENCH, ""):
        head, _, rest = piece.partition("'")
        yield from (grammar.ELIDED.get(head.lower(), head), rest)
    else:
        yield piece


def _uncontracted(piece: str) -> Iterator[str]:
    low = piece.lower()
    for ending, word in grammar.SHORT_ENDINGS.items():
        if low.endswith(ending) and len(low) > len(ending):
            yield from (piece[: -len(ending)], word)
            return
    host, _, rest = piece.partition("'")
    if rest.lower() == "s":
        yield host
        if host.lower() in grammar.WITH_IS:
            yield "is"
    else:
        yield piece


def _cased(piece: str, words: str) -> Iterator[str]:
    """Words that stand for a piece, the first written as large as it was."""
    first, *rest = words.split()
    yield first.capitalize() if piece[:1].isupper() else first
    yield from rest


def _token(word: str, *, first: bool) -> Token:
    folded = word.casefold()
    joined = not word.isalpha()
    inner = any(letter.isupper() for letter in word[1:]) and not word.isupper()
    plural_of_letters = word[:-1].isupper() and word.endswith("s") and len(word) > 2
    exact = joined or (inner and not plural_of_letters) or _ASIAN.search(word) is not None
    name = word[:1].isupper() and not first and not inflection.is_calendar(folded)
    return Token(word, folded, exact=exact, name=name or plural_of_letters, first=first)


def _finished(sentence: Sequence[Token], language: str) -> tuple[Token, ...]:
    """A sentence without articles, each noted at the word it stood before, and without a helping "do"."""
    known = grammar.ARTICLES.get(language, frozenset())
    found: list[Token] = []
    article, opens = "", False
    for at, token in enumerate(sentence):
        following = sentence[at + 1] if at + 1 < len(sentence) else None
        opens = opens or token.opens
        drops = token.text in known and not token.exact and following is not None
        if drops and not _abbreviates(token) and following and following.text not in grammar.QUANTITIES:
            article = token.text
            continue
        if language == ENGLISH and _only_helps(token, following):
            continue
        found.append(token._replace(article=article, opens=opens))
        article, opens = "", False
    return tuple(_marked(found))


def _abbreviates(token: Token) -> bool:
    """Whether an article is written like a name of one letter, as the A of "A calls B"."""
    return token.raw == "A" and not token.first


def _only_helps(token: Token, following: Token | None) -> bool:
    return token.text in ("do", "does", "did") and following is not None and following.text == "not"


def _marked(sentence: Sequence[Token]) -> Iterator[Token]:
    """The tokens, a clause that is nothing but a no marked as such: "No, deploy" is not "no deploy"."""
    for at, token in enumerate(sentence):
        alone = token.opens and at + 1 < len(sentence) and sentence[at + 1].opens
        if alone and token.text in grammar.ANSWERS:
            yield token._replace(text=f"{token.text},", exact=True)
        else:
            yield token
