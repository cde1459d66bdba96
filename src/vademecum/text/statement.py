"""Split a text into statements: sentences, list items and blocks, word for word, with their lines.

Splitting loses nothing: all text but headings stands in exactly one statement, in its order. A statement that
has no meaning without the previous statement ("It runs nightly.", a step, an item below "For this:") is
marked so.
"""

from __future__ import annotations

import bisect
import operator
import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.text import fences, lexicon, sentence_spans

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.types import Origin

SENTENCE, CODE, TABLE, QUOTE, ASIDE = "sentence", "code", "table", "quote", "aside"

_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,9}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_HEADING = re.compile(r"[ \t]{0,3}(#{1,6})(?:[ \t#]*\Z|[ \t]+(.*)\Z)")
_RULE = re.compile(r"[ \t]*(?:(?:\*[ \t]*){3,}|(?:-[ \t]*){3,}|(?:_[ \t]*){3,}|={3,})\Z")
_BLOCKS = {">": QUOTE, "|": TABLE, "<": ASIDE}
_FOLLOWING = re.compile(r"\s*[\"'“”„‘’«(¿¡\[`*_]*(.)", re.DOTALL)
_FIRST = re.compile(r"[^\W_]+")
_REFERRING = (
    lexicon.REFERRING
    | lexicon.SEQUENCE - frozenset({"before", "after", "last", "first"})
    | frozenset(
        """that also however therefore thus hence still both same such additionally likewise here there
        instead afterwards dies dieser diese dieses das dort dabei dafür damit dadurch sonst außerdem
        jedoch aber auch deshalb daher ihn ihm ihr""".split()
    )
)
_NO_REFERENCE = re.compile(r"(?i)(?:there (?:is|are|was|were)|this (?:project|repo|team)|both [a-z]+ and)\b")


class Statement(NamedTuple):
    """A statement of a text, with its lines and headings."""

    text: str  # word for word; the mark of a list item is not part of it
    start: int = 0  # characters of the text it was split from
    end: int = 0
    line: int = 1  # lines of the file
    last: int = 1
    kind: str = SENTENCE
    marker: str = ""  # of the list item that it begins, with its indentation
    follows: bool = False  # whether it says nothing without the one before it
    headings: tuple[str, ...] = ()  # those it stands below, the outermost first
    path: str = ""
    origin: Origin | None = None
    time: str | None = None

    @property
    def place(self) -> str:
        """The lines of the statement, as a citation shows them."""
        lines = f"L{self.line}-L{self.last}" if self.last > self.line else f"L{self.line}"
        return f"{self.path}#{lines}"


class _Line(NamedTuple):
    start: int
    end: int
    number: int  # from 1
    text: str


_START = operator.attrgetter("start")


def split(text: str) -> list[Statement]:
    """Return the statements of a text in the order of the text, with lines counted from 1."""
    return [*_Splitter(text).split()]


class _Splitter:
    """Walks over the lines of a text, and collects the lines of the present paragraph."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.open: list[_Line] = []
        self.begun = 0  # where the words of the open paragraph begin
        self.kind = SENTENCE
        self.marker = ""
        self.bound = False  # whether the open paragraph belongs to what stands before it
        self.leads = False  # whether a line that ends with a colon waits for what it announces
        self.listed = False
        self.headings: list[tuple[int, str]] = []

    def split(self) -> Iterator[Statement]:
        coded = [(fence.start, fence.end) for fence in fences.find(self.text)]
        for line in _lines(self.text):
            if coded and line.start > coded[0][1]:
                coded.pop(0)
            if coded and coded[0][0] <= line.start:
                if line.start == coded[0][0]:
                    yield from self._close()
                    self._begin(line, CODE)
                else:
                    self.open.append(line)
                continue
            yield from self._read(line)
        yield from self._close()

    def _read(self, line: _Line) -> Iterator[Statement]:
        bare = line.text.strip()
        item = _ITEM.match(line.text)
        kind = _BLOCKS.get(bare[:1], "")
        ends = not bare or bool(_RULE.match(line.text) and not item)
        if ends or item or _HEADING.match(line.text):
            yield from self._close()
            self._begin_item(line, item[0]) if item else self._below(line)
        elif self.open and (self.kind == kind or (not kind and self.kind in (SENTENCE, QUOTE))):
            self.open.append(line)
        elif kind:
            yield from self._close()
            self._begin(line, kind)
        else:
            yield from self._close()
            inside = self.listed and line.text[:1].isspace()
            self.leads = self.leads and (inside or not self.listed)
            indented = line.text.startswith(("    ", "\t"))
            self._begin(line, CODE if indented and not inside else SENTENCE)
            self.bound, self.listed = self.bound or inside, inside

    def _below(self, line: _Line) -> None:
        """Add the heading to the current headings if the line is a heading."""
        heading = _HEADING.match(line.text)
        if heading:
            level = len(heading[1])
            self.headings = [each for each in self.headings if each[0] < level]
            self.headings.append((level, (heading[2] or "").rstrip(" \t#").strip()))
            self.leads = self.listed = False

    def _begin(self, line: _Line, kind: str) -> None:
        self.open, self.kind, self.marker = [line], kind, ""
        self.begun = line.start + len(line.text) - len(line.text.lstrip())
        if kind == CODE:
            self.begun = line.start
        self.bound = self.leads
        self.leads = False

    def _begin_item(self, line: _Line, marker: str) -> None:
        nested = marker[:1].isspace() and self.listed
        step = marker.strip()[:1].isdigit() and self.listed
        bound = self.leads or nested or step
        leads = self.leads
        self._begin(line, SENTENCE)
        self.begun = line.start + len(marker)
        self.marker, self.bound, self.listed, self.leads = marker, bound, True, leads

    def _close(self) -> Iterator[Statement]:
        """Yield the statements of the paragraph or block that is open, and close it."""
        lines, self.open = self.open, []
        if not lines:
            return
        end = max(self.begun, lines[-1].end)
        if self.kind != SENTENCE:
            yield from self._made(lines, self.begun, end, follows=self.bound)
            return
        block = self.text[self.begun : end]
        first = True
        for start, stop in _sentence_spans(block):
            bound = self.bound if first else refers(block[start:stop])
            yield from self._made(lines, self.begun + start, self.begun + stop, follows=bound)
            self.marker, first = "", False
        # A colon at the end of an item announces only what stands below that item; an item leaves the
        # colon above its list as it is.
        self.leads = block.rstrip().endswith(":") or (self.leads and self.listed)

    def _made(self, lines: list[_Line], start: int, end: int, *, follows: bool) -> Iterator[Statement]:
        part = self.text[start:end]
        end = start + len(part.rstrip())
        if end > start:
            first = lines[0].number
            line = first + bisect.bisect_right(lines, start, key=_START) - 1
            last = first + bisect.bisect_left(lines, end, key=_START) - 1
            headings = tuple(name for _, name in self.headings if name)
            yield Statement(
                self.text[start:end], start, end, line, last, self.kind, self.marker, follows, headings
            )


def _lines(text: str) -> Iterator[_Line]:
    at = 0
    for number, line in enumerate(text.split("\n"), 1):
        yield _Line(at, at + len(line), number, line)
        at += len(line) + 1


def _sentence_spans(block: str) -> Iterator[tuple[int, int]]:
    """Yield the spans of the sentences in a block.

    A full stop before a small letter, as in "approx. five", does not end a sentence.
    """
    start: int | None = None
    for begin, end in sentence_spans(block):
        start = begin if start is None else start
        following = _FOLLOWING.match(block, end)
        if following is None or not following[1].islower():
            yield start, end
            start = None
    if start is not None:
        yield start, len(block.rstrip())


def refers(sentence: str) -> bool:
    """Whether a sentence refers to something in the sentence before, as "It runs nightly" does."""
    word = _FIRST.search(sentence)
    return word is not None and word[0].lower() in _REFERRING and not _NO_REFERENCE.match(sentence)
