"""Find the times that a question mentions, "last Tuesday", "seit Mai" or 两周前, as spans seen from a moment.

The words of each language and their combinations are in `time_words`; this module knows their meaning. It
reads no clock and refuses no text. A word that may mean something else ("may I", "the second", "every
Monday") is no time.
"""

from __future__ import annotations

import functools
import re
import unicodedata
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text.calendar_spans import MEANINGS, TimeSpan, day, month

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    Captured = dict[str, Any]
    Words = Mapping[str, Mapping[str, list[tuple[str, Any]]]]

LONGEST = 500  # characters of a question that are looked at
MOST = 4  # times in one question
LATIN, WITHOUT_SPACES = ("en", "de", "fr", "es"), ("zh", "ja")
_TRIMESTERS: Final = frozenset({"fr", "es"})  # where T3 is a quarter, and not a machine
_FIRST: Final = frozenset({"en", *WITHOUT_SPACES})
_NUMERALS: Final = {each: at for at, each in enumerate("〇一二三四五六七八九")} | {"零": 0, "两": 2}
_DIGITS: Final = "0123456789〇零一二两三四五六七八九十"
_UNSPACED = lazy_pattern(r"[\u3040-\u30ff\u3400-\u9fff]")
_GAP = lazy_pattern(r"[\s,]+|[\s]*[-\u2010-\u2015][\s]*")
_WORD = lazy_pattern(r"\w+")
_MARKS = lazy_pattern(r"[\u0300-\u036f]")  # accents, apart from their letters
_QUARTERS: Final = frozenset(f"{letter}{number}" for letter in "qt" for number in range(1, 5))
_QUALIFIERS: Final = {"number", "few", "ordinal", "which", "this", "before", "edge"}
_LEVELS: Final = ("weak", "form", "piece", "frame")  # of shapes: the later ones are made of the earlier
_INNER: Final = ["weak", "form", "piece"]
_ARTICLE = lazy_pattern(r"\b(?:the|a|le|les|du|der|den|los)\s+$")
_CLAUSE_ENDS = lazy_pattern(r"\s*(?:$|[?.!,;:])")
_DASH = lazy_pattern(r"\s*[-\u2010-\u2015]\s*")
_IDENTIFIER = lazy_pattern(r"[_/\\@#$=]|[.:](?=\w)|-(?=\d)|\(\)")
_WRITTEN: Final = {  # figures that are a date in every language
    "iso": lazy_pattern(r"(?<![\d.-])((?:19|20)\d\d)[-/](\d\d)(?:[-/](\d\d))?(?![\d/-])"),
    "dots": lazy_pattern(r"(?<![\d.])(\d{1,2})\.\s?(\d{1,2})\.\s?((?:19|20)\d\d)(?![\d.]*\d)"),
    "slashes": lazy_pattern(r"(?<![\d/])(\d{1,2})/(\d{1,2})/((?:19|20)\d\d)(?![\d/])"),
}
_FIGURES: Final = {
    "n": lazy_pattern(r"\d{1,4}|[〇零一二两三四五六七八九十]{1,4}"),
    "d": lazy_pattern(r"(\d{1,2})(?:st|nd|rd|th|er|\.|º|(?!\w))"),
    "y": lazy_pattern(r"(?:19|20)\d\d(?!\w)"),
    "cy": lazy_pattern(r"(?:19|20)\d\d|[一二][〇零一二三四五六七八九]{3}"),
    "cm": lazy_pattern(r"(1[0-2]|0?[1-9]|十[一二]?|[一二三四五六七八九])月"),
    "q": lazy_pattern(r"[qt]([1-4])(?!\w)"),
    "dm": lazy_pattern(r"(\d{1,2})\.\s?(\d{1,2})\.(?!\d)"),
}


class TimeMention(NamedTuple):
    """A phrase in a question that names a time, and the spans that it may mean; ambiguous figures have two.

    A mention without a span hides its parts: in "every last Friday", "last Friday" is no time.
    """

    phrase: str
    start: int
    end: int
    spans: tuple[TimeSpan, ...]

    def __str__(self) -> str:
        """The mention, followed by the dates that it is taken to mean."""
        return f'"{self.phrase}" understood as {" or ".join(map(str, self.spans))}'


def find(text: str, now: datetime) -> tuple[TimeMention, ...]:
    """Return the phrases in a text that name times, seen from a moment; of overlapping phrases
    the longest.
    """
    plain, folded = _normal(text)
    unspaced = _UNSPACED.search(folded) is not None
    found = list(_figures(plain, folded))
    if unspaced or re.search(r"[a-z]", folded):
        languages = _languages(folded, WITHOUT_SPACES if unspaced else LATIN)
        for language, sure in languages:
            found += _Reader(language, plain, folded, now.replace(tzinfo=None)).mentions(sure=sure)
    return _longest(found)


def _longest(found: Iterable[TimeMention]) -> tuple[TimeMention, ...]:
    """Return the longest of overlapping mentions in the order of the text, without those without span."""
    chosen: list[TimeMention] = []
    for each in sorted(found, key=lambda one: (one.start - one.end, one.start)):
        if all(each.end <= other.start or other.end <= each.start for other in chosen):
            chosen.append(each)
    return tuple(sorted((each for each in chosen if each.spans), key=lambda one: one.start)[:MOST])


def is_all(text: str, found: tuple[TimeMention, ...]) -> bool:
    """Whether a question asks about a time and nothing else, such as "what did I do last Tuesday"."""
    folded = _normal(text)[1]
    for each in found:
        folded = folded[: each.start] + " " * (each.end - each.start) + folded[each.end :]
    unspaced = _UNSPACED.search(folded) is not None
    languages = [_language(name) for name in (WITHOUT_SPACES if unspaced else LATIN)]
    words = frozenset().union(*(each.plain | each.common for each in languages))
    if unspaced:
        for word in sorted(words, key=len, reverse=True):
            folded = folded.replace(word, " ")
        return _WORD.search(folded) is None
    return bool(found) and words.issuperset(_WORD.findall(folded))


def _normal(text: str) -> tuple[str, str]:
    """Return the beginning of a text in composed characters, and in lower case without accents.

    Both have the same length, at most `LONGEST`.
    """
    if text.isascii():  # as most are: nothing to fold but capitals
        return text[:LONGEST], text[:LONGEST].lower()
    plain = unicodedata.normalize("NFKC", text[:LONGEST]).replace("\N{RIGHT SINGLE QUOTATION MARK}", "'")
    return plain, "".join(map(_fold, plain))


def moments(span: TimeSpan, now: datetime) -> tuple[datetime | None, datetime | None]:
    """Return the beginning and end of a span in UTC; the span is in the time zone of `now`."""
    start, end = (None if each is None else _in_utc(each, now) for each in span[:2])
    return start, end


def _in_utc(wall: datetime, now: datetime) -> datetime:
    """Return a local time in UTC, by the system's rules for summer time."""
    local = now.tzinfo is None or now.utcoffset() == now.replace(tzinfo=None).astimezone().utcoffset()
    try:
        return (wall if local else wall.replace(tzinfo=now.tzinfo)).astimezone(UTC)
    except (OverflowError, ValueError, OSError):  # the first and last days there are
        return wall.replace(tzinfo=UTC)


def _fold(letter: str) -> str:
    """Return a letter in lower case and without an accent; kana keep their marks."""
    if ord(letter) > 0x24F:
        return letter
    return unicodedata.normalize("NFD", letter.lower())[0]


# -------------------------------------------------------------------- words and shapes of a language


class _Shape(NamedTuple):
    meaning: str
    parts: tuple[tuple[str, bool], ...]  # `{class}` or words by `|`, and whether it may be left out
    firsts: frozenset[str]  # how it can begin


class _Language:
    """The words of one language by class, and the shapes (patterns of words) that make a time.

    Its anchors, words of which every time without figures needs one, are read first. For a text without
    anchors or figures, neither words nor shapes are read.
    """

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        lists: dict[str, str] = {}
        self._classes: dict[str, str] = {}
        self._shapes: list[tuple[str, str, str]] = []  # level, meaning, and the shapes as they are written
        for line in _fold_lines(text):
            head, _, rest = line.partition(":")
            kind, _, value = head.partition(" ")
            if kind in _LEVELS:
                self._shapes += [(kind, value, written) for written in rest.split(";")]
            elif kind in ("common", "plain", "every", "never", "shared"):
                lists[kind] = rest
            elif not kind.startswith("#"):
                self._classes[kind] = rest
        self.every, self.never = _split_list(lists["every"]), _split_list(lists["never"])
        self.shared = _split_list(lists.get("shared", ""))  # another language has them too
        self.common = frozenset(lists.get("common", "").split())
        self.plain = frozenset(lists["plain"].replace(",", " ").split())  # that say nothing beside a time
        self.anchors = self._find_anchors()

    def _find_anchors(self) -> frozenset[str]:
        """Return words of which at least one, or a number, is in every phrase that names a time.

        Of a phrase of several words only the longest word is taken, because it is in the fewest questions: of
        "the night before" the word "before".
        """
        found = set()
        for name in self._classes.keys() - _QUALIFIERS:
            for group in self._classes[name].split("|"):
                for form in group.rpartition("=")[2].split(","):
                    found.add(max(_WORD.findall(form), key=len))
        for level, _, written in self._shapes:
            if level == "form" and "{" not in written:
                needed = [part.split("|") for part, optional in _shape_parts(written) if not optional]
                found.update(map(_key, max(needed, key=lambda either: min(map(len, either)))))
        return frozenset(found)

    @functools.cached_property
    def words(self) -> Words:
        """Each class of words with their meanings, by first letter, the longest word first."""
        found: dict[str, dict[str, list[tuple[str, Any]]]] = {}
        for name, rest in self._classes.items():
            by_letter = found[name] = {}
            for meant, written in _entries(rest):
                form = written.removesuffix("!")
                by_letter.setdefault(form[0], []).append((form, meant))
            for entries in by_letter.values():
                entries.sort(key=lambda entry: -len(entry[0]))
        return found

    @functools.cached_property
    def capitals(self) -> frozenset[str]:
        """The words that mean a time only with a capital, such as "May"; in lower case they mean something
        else.
        """
        every = (written for rest in self._classes.values() for _, written in _entries(rest))
        return frozenset(written.removesuffix("!") for written in every if written.endswith("!"))

    @functools.cached_property
    def shapes(self) -> Mapping[str, Mapping[str, list[_Shape]]]:
        """The shapes by their level and by their possible first words."""
        found: dict[str, list[_Shape]] = {level: [] for level in _LEVELS}
        for level, meaning, written in self._shapes:
            parts = _shape_parts(written)
            found[level].append(_Shape(meaning, parts, _firsts(parts, self.words, found)))
        return {level: _by_first(shapes) for level, shapes in found.items()}


@functools.cache
def _language(name: str) -> _Language:
    """Return the words and shapes of a language, read from its file."""
    source = Path(__file__).with_name("time_words") / f"{name}.txt"
    return _Language(name, source.read_text(encoding="utf-8"))


def _split_list(rest: str) -> tuple[str, ...]:
    return tuple(map(str.strip, rest.split(","))) if rest else ()


def _fold_lines(text: str) -> list[str]:
    """Return the lines of a text in lower case and without accents; Chinese and Japanese stay as they are."""
    if not _UNSPACED.search(text):
        text = _MARKS.sub("", unicodedata.normalize("NFD", text.lower()))
    return text.splitlines()


def _by_first(shapes: list[_Shape]) -> dict[str, list[_Shape]]:
    found: dict[str, list[_Shape]] = {}
    for shape in shapes:
        for first in shape.firsts:
            found.setdefault(first, []).append(shape)
    return found


def _entries(rest: str) -> Iterator[tuple[int | str, str]]:
    """Yield each word of a class with its meaning: the meaning given in the file, or else the word's
    position.
    """
    for number, group in enumerate(rest.split("|"), 1):
        value, _, forms = group.rpartition("=")
        meant = value.strip() or str(number)
        for each in forms.split(","):
            yield int(meant) if re.fullmatch(r"-?\d+", meant) else meant, each.strip()


def _firsts(
    parts: tuple[tuple[str, bool], ...],
    words: Words,
    shapes: Mapping[str, list[_Shape]],
) -> frozenset[str]:
    """Return the words that a phrase of this shape can begin with; "0" stands for any number."""
    keys: set[str] = set()
    for part, optional in parts:
        name = part[1:-1]
        if part[0] != "{":
            keys.update(map(_key, part.split("|")))
        elif name in ("time", "weak", "weakday", "weakmonth"):
            keys.update({"0"}, *(shape.firsts for level in shapes.values() for shape in level))
        elif name in _FIGURES:
            keys |= _QUARTERS if name == "q" else {"0"}
        else:
            keys |= {_key(form) for forms in words[name].values() for form, *_ in forms}
            keys |= {"0"} if name == "number" else set()
        if not optional:
            break
    return frozenset(keys)


def _key(text: str, at: int = 0) -> str:
    """Return the first word at a position; a single letter in scripts without spaces, "0" for any number."""
    first = text[at : at + 1]
    if first in _DIGITS:
        return "0"
    word = None if _UNSPACED.match(first) else _WORD.match(text, at)
    return word[0] if word else first


def _shape_parts(shape: str) -> tuple[tuple[str, bool], ...]:
    return tuple((part.removesuffix("?"), part.endswith("?")) for part in shape.split())


def _languages(folded: str, names: tuple[str, ...]) -> list[tuple[_Language, bool]]:
    """Return the languages to try on a text, each with whether it is the likeliest; English by default."""
    words = _WORD.findall(folded)
    anywhere = names == WITHOUT_SPACES or re.search(r"\d", folded) is not None
    known = [_language(name) for name in names]
    if not anywhere and all(each.anchors.isdisjoint(words) for each in known):
        return []
    scores = [sum(word in each.common for word in words) for each in known]
    return [
        (each, score == max(scores) and (score > 0 or each.name in _FIRST))
        for each, score in zip(known, scores, strict=True)
        if anywhere or not each.anchors.isdisjoint(words)
    ]


# -------------------------------------------------------------------- reading


class _Reader:
    """Finds the mentions of times in one text, with the words of one language."""

    def __init__(self, language: _Language, plain: str, folded: str, now: datetime) -> None:
        self._language, self._plain, self._now = language, plain, now
        for never in language.never:  # what only looks like a time
            folded = folded.replace(never, "\0" * len(never))
        self._text = folded
        self._known: dict[tuple[int, int], list[tuple[int, TimeSpan]]] = {}  # a long text asks often
        self._figures = tuple(_figures(plain, folded))
        self._unspaced = language.name in WITHOUT_SPACES

    def mentions(self, *, sure: bool) -> Iterator[TimeMention]:
        """Yield the longest time at each position; without `sure`, omit phrases that other languages have."""
        at = 0
        while at < len(self._text):
            best = max(self._times_at(at, "form", "piece", "frame"), key=lambda one: one[0], default=None)
            if best is not None and (sure or self._text[at : best[0]] not in self._language.shared):
                spans = () if self._is_every(at) else (best[1],)
                yield TimeMention(self._plain[at : best[0]], at, best[0], spans)
            at = self._next(at)

    def _next(self, at: int) -> int:
        """Return the position where the next word begins."""
        if self._unspaced:
            return at + 1
        following = re.compile(r"(?<!\w)\w").search(self._text, at + 1)
        return following.start() if following else len(self._text)

    def _times_at(self, at: int, *levels: str) -> Iterator[tuple[int, TimeSpan]]:
        """Yield each time that begins at this position, with the position of its end."""
        if not self._begins(at):
            return
        key = _key(self._text, at)
        for level in levels:
            for shape in self._language.shapes[level].get(key, ()):
                for end, captured in self._match(shape.parts, at, at, {}, level):
                    if not self._ends(end) or self._doubtful(at, end, level):
                        continue
                    try:
                        span = MEANINGS[shape.meaning](self._now, captured)
                    except (ValueError, OverflowError):  # 31 June, or before the calendar begins
                        continue
                    if span is not None and (shape.meaning != "end" or self._stands_alone(at, end)):
                        yield end, span

    def _match(
        self, parts: tuple[tuple[str, bool], ...], begin: int, at: int, captured: Captured, level: str
    ) -> Iterator[tuple[int, Captured]]:
        """Yield the matches of the remaining parts of a shape from this position on."""
        if not parts:
            yield at, captured
            return
        (part, optional), rest = parts[0], parts[1:]
        here = at if at == begin or part[0] in "'-" else self._over_gap(at)
        if here is not None:
            for end, name, value in self._element(part, here, level):
                more = captured if not name else {**captured, _unused(name, captured): value}
                yield from self._match(rest, begin, end, more, level)
        if optional:
            yield from self._match(rest, begin, at, captured, level)

    def _over_gap(self, at: int) -> int | None:
        """Return where the next word of a shape can begin; None if the words are not separated by a gap."""
        gap = _GAP.match(self._text, at)
        if gap:
            return gap.end()
        return at if self._unspaced or self._text[at - 1 : at] in "'- " else None

    def _element(self, part: str, at: int, level: str) -> Iterator[tuple[int, str, Any]]:
        """Yield the matches of one part of a shape, each as its end, name and meaning."""
        if part == "-":
            dash = _DASH.match(self._text, at)
            if dash:
                yield dash.end(), "", None
        elif part[0] != "{":
            for word in part.split("|"):
                if self._text.startswith(word, at) and (word[-1] == "'" or self._word_ends(at + len(word))):
                    yield at + len(word), "", None
        else:
            yield from self._class(part[1:-1], at, level)

    def _class(self, name: str, at: int, level: str) -> Iterator[tuple[int, str, Any]]:
        """Yield the matches of a word class, of figures, or of a time inside a larger phrase."""
        if name in ("time", "weak", "weakday", "weakmonth"):
            yield from self._inner(name, at, level)
        elif name in _FIGURES:
            figure = _FIGURES[name].match(self._text, at)
            if figure and (figure[0][0] != "t" or self._language.name in _TRIMESTERS):
                value = number(figure[min(figure.re.groups, 1)])
                yield figure.end(), name, (value, int(figure[2])) if name == "dm" else value
        else:
            if name == "number" and (digits := re.compile(r"\d{1,3}(?!\w)").match(self._text, at)):
                yield digits.end(), name, int(digits[0])
            for form, value in self._language.words[name].get(self._text[at : at + 1], ()):
                end = at + len(form)
                if self._text.startswith(form, at) and self._word_ends(end):
                    yield end, name, value

    def _inner(self, name: str, at: int, level: str) -> Iterator[tuple[int, str, Any]]:
        """Yield a time inside a larger phrase, where a lone month or weekday counts too."""
        levels = ["weak"] if name != "time" else ["weak", "form"] if level == "piece" else _INNER
        if (at, len(levels)) not in self._known:
            self._known[at, len(levels)] = [*self._times_at(at, *levels)]
        for end, span in self._known[at, len(levels)]:
            if name in ("time", "weak") or (name == "weakday") == (span.cycle == "week"):
                yield end, "time", span
        if name == "time":
            yield from ((each.end, "time", each.spans[0]) for each in self._figures if each.start == at)

    # ---------------------------------------------------------------- what is none

    def _word_ends(self, at: int) -> bool:
        return self._unspaced or not re.match(r"\w", self._text[at : at + 1])

    def _begins(self, at: int) -> bool:
        """Whether a time can begin at this position: not inside a word, a number or a path."""
        before, first = self._text[at - 1 : at], self._text[at : at + 1]
        if self._unspaced:
            return not (before and before in _DIGITS and first in _DIGITS + "月日年")
        return not (before.isalnum() or (before and before in "_/\\@#$.:"))

    def _is_every(self, at: int) -> bool:
        """Whether a time is one of many, as in "every Monday", or a part of a hyphenated word."""
        before = self._text[:at].rstrip()
        if not self._unspaced and re.search(r"\w-$", self._text[max(0, at - 2) : at]):
            return True
        return any(
            before.endswith(each) and (self._unspaced or not before[: -len(each)][-1:].isalnum())
            for each in self._language.every
        )

    def _ends(self, at: int) -> bool:
        return not _IDENTIFIER.match(self._text, at)

    def _stands_alone(self, at: int, end: int) -> bool:
        """Whether a lone weekday means a time: at the end of a clause, but not in "the Tuesday meeting"."""
        if self._unspaced:
            return True
        return not _ARTICLE.search(self._text[:at]) and _CLAUSE_ENDS.match(self._text, end) is not None

    def _doubtful(self, at: int, end: int, level: str) -> bool:
        """Whether an ambiguous word such as "may" is in lower case, with nothing beside it that makes it a
        month.
        """
        if level in ("weak", "frame") or self._unspaced:
            return False
        found = (each for each in _WORD.finditer(self._text, at, end) if each[0] in self._language.capitals)
        small = any(not self._plain[each.start()].isupper() for each in found)
        return small and bool(self._text[end:].strip(" ?.!"))


def _unused(name: str, captured: Captured) -> str:
    return f"{name}2" if name in captured else name


def number(written: str) -> int:
    """Return the number that a text in figures or Chinese numerals stands for."""
    if written.isdecimal():
        return int(written)
    if "十" not in written:
        return int("".join(str(_NUMERALS[each]) for each in written))
    tens, _, ones = written.partition("十")
    if not set(tens + ones) <= set(_NUMERALS) or len(tens) > 1 or len(ones) > 1:
        return 0
    return 10 * (_NUMERALS[tens] if tens else 1) + (_NUMERALS[ones] if ones else 0)


def _figures(plain: str, folded: str) -> Iterator[TimeMention]:
    """Yield the dates that are written in figures, such as 2026-11-10."""
    for kind, pattern in _WRITTEN.items():
        for each in pattern.finditer(folded):
            first, second, third = (int(part) if part else 0 for part in each.groups())
            if kind == "iso":
                spans = [day(first, second, third) if third else _whole_month(first, second)]
            else:  # with slashes, a day and a month in either order
                spans = [day(third, second, first), day(third, first, second)][
                    : 2 if kind == "slashes" else 1
                ]
            known = tuple(sorted(span for span in set(spans) if span is not None))
            if known:
                yield TimeMention(plain[each.start() : each.end()], each.start(), each.end(), known)


def _whole_month(year: int, number: int) -> TimeSpan | None:
    return month(year, number) if 1 <= number <= 12 else None
