"""Find out about a text its words, which of them count, its speaker, its questions and mentions.

This module knows text alone. Ranking needs a few bytes about each speaker, which are computed when a passage
is indexed: reading sixty passages for every question would take longer than finding them.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import WORD

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence, Set

# Scripts that put no space between words: Chinese, Japanese, Korean; Thai, Lao, Burmese, Khmer.
_CJK = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff"
    "\u2e80-\u303f\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff\uff66-\uff9f"
    "\U00020000-\U0002fa1f"
)
# C++ and C# are not C: the marks that a tokenizer drops are added as words.
_MARKED = lazy_pattern(r"(?<![^\W_])([A-Za-z])(\+\+|#)(?!\w)")
_SPELLED = {"++": "plusplus", "#": "sharp"}
# A word: Hebrew, Arabic and Indian scripts write vowels as marks inside of words.
TOKEN = lazy_pattern(r"(?:[^\W_]|[\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0971-\u0dff])+")
_ASCII_WORDS = {code: letter.lower() if (letter := chr(code)).isalnum() else " " for code in range(128)}
_FULL_WIDTH = lazy_pattern("[\uff01-\uffef\ufb00-\ufb06]+")
_EMOJI = lazy_pattern("[\u2300-\u23ff\u2600-\u27bf\u2b00-\u2bff\U0001f000-\U0001f3fa\U0001f400-\U0001faff]")
_SKIN = lazy_pattern("[\U0001f3fb-\U0001f3ff]")  # skin tones, which do not change the word
_HUMP = lazy_pattern(r"[a-z\d][A-Z]")
_CAMEL_PART = lazy_pattern(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
# Letters with two spellings: one of them is indexed.
_SAME_LETTERS = str.maketrans(
    {
        **dict(zip("ßæœøłđðþıς", ("ss", "ae", "oe", "o", "l", "d", "d", "th", "i", "σ"), strict=True)),
        **dict(zip("أإآٱىیکةؤئ", "ااااييكهوي", strict=True)),
        **dict.fromkeys([*map(chr, (*range(0x591, 0x5C8), *range(0x64B, 0x660), 0x670)), "ـ"], ""),
    }
)
_ACCENTS = lazy_pattern("[\u0300-\u036f]+")
_QUOTED = lazy_pattern(r'"([^"]+)"|“([^“”"]+)”')
_AROUND = "\"'“”‘’.,;:!?()[]{}<>*`"
_MAYBE_EXACT = lazy_pattern(r"""["_./:\\#@0-9-]|[a-z][A-Z]""")
STOP = frozenset(
    """a about above after again against all also am an and any are as at be because been before being below
    between both but by can could did do does doing down during each either else ever few for from further get
    gets getting got had has have having he her here hers herself him himself his how i if in into is it its
    itself just let like many may me might more most much must my myself no nor not now of off on once only or
    other our ours ourselves out over own please same shall she should so some such tell than that the their
    theirs them themselves then there these they this those through to too under until up upon us very was we
    were what when where which while who whom whose why will with would yet you your yours yourself yourselves
    s t d ll m re ve don didn doesn isn wasn weren couldn wouldn shouldn won aren hasn haven hadn""".split()
)
# Words that count only when a question has no better ones: "how many days", "what was the last time".
SOFT = frozenset(
    """many much number total amount count ago past last previous previously recent recently current currently
    day days week weeks month months year years time times""".split()
)


_LAST_LATIN = "\u024f"

# Of a page that is pasted as a question, the beginning is read, in bounded time.
LONGEST_QUESTION = 10_000
LONGEST_PHRASE = 64  # words
MOST_REQUIRED = 8  # phrases that a text must contain
MOST_PHRASES = 32
_LONG_RUN = lazy_pattern(r"\S{201,}")  # no identifier is this long, and matching one takes quadratic time


LOW = STOP | SOFT

ENGLISH = "en"  # the language of undecided texts

VOCABULARY = Path(__file__).parent / "embed" / "model" / "vocab.txt"
# A BERT vocabulary has its whole words in the order of how often they were met, "the" first.
COMMONEST, RAREST = 1996, 30_000


class Phrase(NamedTuple):
    """Words in a fixed order; `certain` if this order is hardly ever chance, as in a code or a quotation."""

    words: tuple[str, ...]
    certain: bool


class Terms(NamedTuple):
    """The words to look for, and the phrases that should stand in the text exactly as they are."""

    words: tuple[str, ...]
    phrases: tuple[Phrase, ...]


def fold(text: str) -> str:
    """Return a text as the keyword index cuts it into words, with equal characters spelled equally.

    Text in scripts without spaces, such as Chinese, becomes overlapping pairs and single characters. After
    `C++` and `C#`, a word that spells the name is added.
    """
    if "++" in text or "#" in text:
        text = _MARKED.sub(lambda found: f"{found[0]} {_spelled(found)}", text)
    if text.isascii():
        return text
    text = _composed(text)
    return cjk_run().sub(lambda run: f" {' '.join(_pairs(run[0]) + _singles(run[0]))} ", text)


def _composed(text: str) -> str:
    """Return a text in which equal characters are spelled equally, and each emoji is a word of its own."""
    if not unicodedata.is_normalized("NFC", text):
        text = unicodedata.normalize("NFC", text)
    text = _FULL_WIDTH.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    return _EMOJI.sub(lambda found: f" emoji{ord(found[0]):x} ", _SKIN.sub("", text))


def bare(text: str) -> str:
    """Return a text in lower case, without accents, and with one letter in place of equivalent letters."""
    lower = text.lower()
    if lower.isascii():
        return lower
    apart = unicodedata.normalize("NFD", lower.translate(_SAME_LETTERS))
    return unicodedata.normalize("NFC", _ACCENTS.sub("", apart))


def parts_of_names(text: str) -> list[str]:
    """Return the single words inside names such as `parseInvoiceLines`."""
    return parts_of(names_in(text))


def names_in(text: str) -> tuple[str, ...]:
    """Return the names such as `parseInvoiceLines` in a text, each once."""
    if not _HUMP.search(text):
        return ()
    runs = (run for run in dict.fromkeys(WORD.findall(text)) if not run.islower())
    return tuple(run for run in runs if _HUMP.search(run))


def parts_of(names: Iterable[str]) -> list[str]:
    """Return the single words inside names, but no name itself."""
    return [part for name in names for part in _CAMEL_PART.findall(name) if part != name]


def terms(question: str) -> Terms:
    """Return the words of a question to look for, and its exact phrases.

    Words such as "many" and "days" are returned only if there are no better words, and stop words only if
    there are no others.
    """
    question = question[:LONGEST_QUESTION]
    if not question.isascii():
        question = _composed(question)
    marked = [_spelled(found) for found in _MARKED.finditer(question)]
    strong: dict[str, None] = {}
    soft: dict[str, None] = {}
    stops: dict[str, None] = {}
    for found in TOKEN.findall(question.lower()):
        parts = [found]
        if not found.isascii():
            for run in cjk_run().findall(found):
                strong.update(dict.fromkeys(_pairs(run)))
            parts = cjk_run().sub(" ", found).split()
        for word in parts:
            (stops if word in STOP else soft if word in SOFT else strong)[word] = None
    strong.update(dict.fromkeys(marked))
    phrases = [*(Phrase((each,), certain=True) for each in marked), *_phrases(question)]
    return Terms(tuple(strong or soft or stops), tuple(phrases[:MOST_PHRASES]))


def is_latin(text: str) -> bool:
    """Return whether most letters of a text are Latin."""
    if text.isascii():
        return True
    letters = [each for each in text if each.isalpha()]
    return 2 * sum(each <= _LAST_LATIN for each in letters) >= len(letters)


def all_in(text: str) -> set[str]:
    """Return the set of all words in a text, in the form in which words are compared."""
    folded = fold(text)
    # Most texts are ASCII, and a table cuts them several times as fast as the pattern.
    found = folded.translate(_ASCII_WORDS).split() if folded.isascii() else TOKEN.findall(folded.lower())
    return {*found, *map(str.lower, parts_of_names(text))}


def as_compared(text: str) -> str:
    """Return a text in the form in which phrases are compared: plain lower-case words, one space between."""
    if "++" in text or "#" in text:
        text = _MARKED.sub(_spelled, text)
    return f" {' '.join(WORD.findall(plain(text if text.isascii() else _composed(text))))} "


def plain(text: str) -> str:
    """Return a text in lower case and without accents; punctuation and spaces stay."""
    lower = text.lower()
    if lower.isascii():
        return lower
    bare = "".join(each for each in unicodedata.normalize("NFD", lower) if not unicodedata.combining(each))
    return unicodedata.normalize("NFC", bare)


def holds(text: str, phrases: Iterable[str]) -> bool:
    """Return whether a text contains each phrase word for word; scripts without spaces match anywhere."""
    compared = as_compared(text)
    return all(_to_find(phrase) in compared for phrase in phrases)


def phrases_in(question: str) -> tuple[str, ...]:
    """Return the first quoted phrases in a question, each once, and long ones cut."""
    if '"' not in question and "“" not in question:
        return ()
    found = (first or second for first, second in _QUOTED.findall(question[:LONGEST_QUESTION]))
    cut = (" ".join(each.split()[:LONGEST_PHRASE]) for each in found)
    return tuple(dict.fromkeys(each for each in cut if WORD.search(each)))[:MOST_REQUIRED]


def required(phrases: Iterable[str]) -> list[tuple[str, ...]]:
    """Return the word sequences to match in the index, so that no text with all these phrases is missed."""
    parts: dict[tuple[str, ...], None] = {}
    for phrase in phrases:
        if phrase.isascii() or not cjk_run().search(phrase):
            found = TOKEN.findall(fold(phrase).lower())
            parts.update(((tuple(found), None),) if found else ())
        else:  # the index separates pairs from the words around them
            for word in TOKEN.findall(_composed(phrase).lower()):
                for run in cjk_run().findall(word):
                    parts.update(((pair,), None) for pair in _pairs(run))
                parts.update(((each,), None) for each in cjk_run().sub(" ", word).split())
    return list(parts)


def units(question: str, phrases: Sequence[str]) -> tuple[str, ...]:
    """Return the phrases and the other words of a question in plain form, without punctuation around them."""
    question = question[:LONGEST_QUESTION]
    rest = _QUOTED.sub(" ", question) if phrases else question
    bare = (each.strip(_AROUND) or each for each in rest.split())
    return tuple(dict.fromkeys(plain(each) for each in (*phrases, *bare)))


@functools.cache
def cjk_run() -> re.Pattern[str]:
    """Return the pattern of text without spaces, such as Chinese or Thai; compiled only when needed."""
    return re.compile(f"[{_CJK}]+")


@functools.cache
def _exact(*, in_ascii: bool) -> re.Pattern[str]:
    """Return the pattern of text that people copy: quotations, codes, words with digits or CamelCase.

    For a text `in_ascii` it leaves out the scripts without spaces, which are most of the work of compiling.
    """
    runs, cjk = ("", "") if in_ascii else (f"|[{_CJK}]{{2,}}", _CJK)
    return re.compile(
        rf'"[^"]+"{runs}'
        r"|(?=\S*\w[_./:\\#@-]+\w|\S*[A-Za-z]\d|\S*\d[A-Za-z]|\S*\d{3}|\S*[a-z][A-Z])"
        rf'[^\s"?!,;()\[\]{{}}<>{cjk}]+'
    )


def _to_find(phrase: str) -> str:
    """Return a phrase as it is looked for in a text; in scripts without spaces it may stand inside a word."""
    compared = as_compared(phrase)
    if compared.isascii():
        return compared
    start = 1 if cjk_run().match(compared, 1) else 0
    end = len(compared) - (1 if cjk_run().match(compared[-2:-1]) else 0)
    return compared[start:end]


def _spelled(found: re.Match[str]) -> str:
    return f"{found[1]}{_SPELLED[found[2]]}".lower()


def _phrases(question: str) -> list[Phrase]:
    found: list[Phrase] = []
    in_ascii = question.isascii()
    if in_ascii and not _MAYBE_EXACT.search(question):
        return []
    for match in _exact(in_ascii=in_ascii).finditer(_LONG_RUN.sub(" ", question)):
        run = None if match[0].isascii() else cjk_run().fullmatch(match[0])
        words = _pairs(match[0]) if run else TOKEN.findall(fold(match[0]).lower())
        if words:
            # A bare number or a date also stands in many unrelated texts.
            certain = match[0].startswith('"') or bool(run) or any(each.isalpha() for each in match[0])
            found.append(Phrase(tuple(words[:LONGEST_PHRASE]), certain))
    return found[:MOST_PHRASES]


def _pairs(run: str) -> list[str]:
    return [run] if len(run) == 1 else [run[at : at + 2] for at in range(len(run) - 1)]


def _singles(run: str) -> list[str]:
    return list(run) if len(run) > 1 else []


@functools.cache
def _lines() -> bytes:
    """Return the list of known words as bytes, one word a line; searching it is faster than a dictionary."""
    try:
        return b"\n" + VOCABULARY.read_bytes() + b"\n"
    except OSError:  # the embedder reports missing files; words are found without knowing which are rare
        return b"\n"


@functools.lru_cache(maxsize=65_536)
def commonness(word: str) -> int:
    """Return a word's rank among all words, 1 for the most frequent; an unknown word counts as rare."""
    if not word.isascii():
        decomposed = unicodedata.normalize("NFD", word)
        word = "".join(each for each in decomposed if unicodedata.category(each) != "Mn")
    lines, wanted = _lines(), f"\n{word}\n".encode(errors="ignore")
    at = lines.find(wanted)
    return RAREST if at < 0 or not word else max(1, lines.count(b"\n", 0, at) - COMMONEST + 1)


TIME, NUMBER = 1, 2  # what a passage mentions, as bits

# Role names in conversations: those of the person, and all of them.
PERSON = frozenset("user human me".split())
ROLES = PERSON | frozenset("assistant ai agent bot model system tool".split())

# A name, then a colon: `Caroline: …`, `**Ana Lima:** …`, `user: …`, `田中：…`.
_SPEAKER = lazy_pattern(
    r"\s*(?:[-*+>]\s+)?(?:\*\*|__)?([^\W\d_][\w'’.-]*(?: [^\W\d_][\w'’.-]*){0,2})(?:\*\*|__)?"
    r"(?::(?:\*\*|__)?(?=\s)|：)"
)
# Words before a colon that are no names.
LABELS = frozenset(
    """a action actions agenda answer answers attention background blocked bug caution cause caveat change
    changed changes command commands conclusion confirmed consequence context cost date deadline decided
    decision decisions default description details done effect error errors example examples expected fact
    facts fix fixed follow-up goal goals hint idea important impact info input issue issues item key learned
    lesson lessons link links list log meeting message method name new next note notes old open option options
    outcome output owner path pattern plan plans port preference preferences problem process progress
    proposal question questions q reason reasons reference references rule rules result results risk risks
    root schedule scope see setup solution source sources standup started status step steps summary symptom
    tags task tasks team tip title todo topic type update updated updates url usage use value version warning
    why workaround workflow""".split()
)
_LONGEST_NAME = 40

_ENDING = lazy_pattern(r"(?<![.!?…])[.!?…]++[\"'”’»)\]*_]*+(?=\s|$)|[。！？]+|\n+")

_TIMES = frozenset(
    """monday tuesday wednesday thursday friday saturday sunday january february april june july august
    september october november december yesterday today tonight tomorrow ago weekend midnight noon oclock
    spring summer autumn winter christmas easter daily weekly monthly yearly annually fortnight
    montag dienstag mittwoch donnerstag freitag samstag sonntag januar februar märz juni juli oktober dezember
    gestern heute morgen vorgestern übermorgen
    lundi mardi mercredi jeudi vendredi samedi dimanche janvier février avril juin juillet août septembre
    octobre novembre décembre aujourd demain
    lunes martes miércoles jueves viernes sábado domingo enero febrero marzo abril junio julio agosto
    septiembre octubre noviembre diciembre ayer mañana""".split()
)
_SPANS = frozenset("day days week weeks month months year years hour hours minute minutes night".split())
_NEARBY = frozenset("last next this past previous every earlier following since until".split())
_NUMBERS = frozenset(
    """one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen
    seventeen eighteen nineteen twenty thirty forty fifty sixty seventy eighty ninety hundred thousand million
    once twice half dozen couple""".split()
)
_CLOCK = lazy_pattern(  # the first characters alone make the search several times as fast
    r"(?=[\dM昨今明])"
    r"(?:\d{1,2}:\d\d|\b\d{1,2} ?[ap]m\b|\b(?:19|20)\d\d\b|\bMay\b|\bMarch\b|昨日|今日|明日|昨天|今天)"
)


_DIGIT = lazy_pattern(r"(?<![^\W_])\d")  # at the beginning of a word


class Speech(NamedTuple):
    """The speaker of a passage, and what the passage asks and mentions."""

    speaker: str | None = None  # in small letters
    asks: int = 0  # questions in a hundred sentences
    says: int = 0  # TIME, NUMBER


SILENT = Speech()


def speech_of(text: str, words: Set[str], *, before: str | None = None) -> Speech:
    """Return speaker, questions and mentions of a passage; `words` are its words in lower case.

    If the text names no speaker, the speaker is `before`, as for the later part of a divided turn.
    """
    return Speech(speaker(text) or before, share_of_questions(text), _mentions(text, words))


def speaker(text: str) -> str | None:
    """Return the name before the first colon of a text, in lower case.

    Return None if a text begins without a name and a colon, or with a label such as `Note:`.
    """
    if ":" not in text[:60] and "：" not in text[:60]:
        return None
    found = _SPEAKER.match(text)
    if found is None or len(found[1]) > _LONGEST_NAME:
        return None
    name = found[1]
    small = name.lower()
    if small in ROLES:
        return small
    parts = name.split()
    if small in LABELS or parts[0].lower() in LABELS or parts[-1].lower() in LABELS:
        return None
    return small if all(part[0].isupper() or not _has_case(part) for part in parts) else None


def _has_case(part: str) -> bool:
    return part.lower() != part.upper()


def share_of_questions(text: str) -> int:
    """Return the percentage of sentences in a text that end in a question mark."""
    if "?" not in text and "？" not in text:
        return 0
    sentences = questions = at = 0
    for ending in _ENDING.finditer(text):
        if text[at : ending.start()].strip(" *_>#-\n\t"):
            sentences += 1
            questions += "?" in ending[0] or "？" in ending[0]
        at = ending.end()
    sentences += bool(text[at:].strip(" *_>#-\n\t"))
    return round(100 * questions / sentences) if sentences else 0


def _mentions(text: str, words: Set[str]) -> int:
    number = not _NUMBERS.isdisjoint(words) or _DIGIT.search(text) is not None
    spans = not _SPANS.isdisjoint(words)
    time = not _TIMES.isdisjoint(words) or (spans and (number or not _NEARBY.isdisjoint(words)))
    return TIME * (time or _CLOCK.search(text) is not None) + NUMBER * number


# ---------------------------------------------------------------- questions


_I = frozenset("i my me mine myself we our ours us".split())
_YOU = frozenset("you your yours".split())
_WHEN = lazy_pattern(
    r"\bwhen\b|\bhow long\b|\b(?:what|which) (?:day|date|time|month|year|weekday|season)\b"
    r"|\bhow (?:many|much) (?:\w+ )?(?:days?|weeks?|months?|years?|hours?|time)\b"
    r"|\bwann\b|\bwie lange\b|\bquand\b|\bcuándo\b|什么时候|いつ"
)
_HOW_MANY = lazy_pattern(
    r"\bhow (?:many|much|old|often|far|tall|big|large|fast)\b|\b(?:number|amount|count|percentage|total) of\b"
    r"|\bwhat (?:age|price|number|percentage)\b|\bwie ?viele?\b|\bcombien\b|\bcuánt[oa]s?\b|多少|几个|いくつ"
)


class QuestionCues(NamedTuple):
    """Signs in a question of who should speak in the answer, and what the answer should contain."""

    personal: bool = False  # about the asker's own life: I, my, we
    when: bool = False
    how_many: bool = False
    words: frozenset[str] = frozenset()


def cues_of(question: str, words: Iterable[str]) -> QuestionCues:
    """Return the signs in a question of the expected answer; `words` are its words in lower case."""
    all_words = frozenset(words)
    small = question.lower()
    return QuestionCues(
        personal=not _I.isdisjoint(all_words) and _YOU.isdisjoint(all_words),
        when=_WHEN.search(small) is not None,
        how_many=_HOW_MANY.search(small) is not None,
        words=all_words,
    )


def is_named(name: str, cues: QuestionCues) -> bool:
    """Return whether a question names this speaker, in full or by first name."""
    return name in cues.words or name.partition(" ")[0] in cues.words
