"""Cut a file into the passages that are indexed and shown.

This module knows text alone: lines, headings, fences, lists, the dated entries of a record and the turns of a
conversation. It knows no paths, scopes, databases or models.

Every line of a file lies in the range of some chunk. Blank lines belong to the text above them, those at the
top to the text below. `text` holds one of these:

- Of a source (`markdown`), of a turn in it, or a piece of a split entry: the lines of the range, joined by
  line feeds, without carriage returns and byte-order mark.
- Of an entry or a section of a pinned document that fits: its text as the user gave it. The range also
  covers title, dated heading and signature; of a split entry these are hidden chunks.
- Of a line that is too long: consecutive chunks have the range of this line, and their texts make it up.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, replace
from enum import Enum, auto
from itertools import accumulate, zip_longest
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed
from vademecum.index import turns
from vademecum.lazy import lazy_pattern
from vademecum.text import SENTENCE_END, document, fences, frontmatter

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vademecum.index.turns import SpokenLines
    from vademecum.types import Origin

TOKENS = 400
OVERLAP = 80
# A chunk smaller than this cannot hold one character of every kind with what combines with it.
SMALLEST = 16
# A heading is context: a heading of a megabyte is not repeated in every chunk under it.
LONGEST_HEADING = 200
SEPARATOR = " › "

_CJK = lazy_pattern(
    "[\u1100-\u11ff\u2e80-\u303f\u3040-\u30ff\u3100-\u318f\u31a0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\ua960-\ua97f\uac00-\ud7ff\uf900-\ufaff\uff00-\uffef\U00020000-\U000323af]+"
)
_HEADING = lazy_pattern(r" {0,3}(#{1,6})(?=[ \t]|\Z)")
_ITEM = lazy_pattern(r"(?:[-*+]|\d{1,9}[.)])(?=[ \t]|\Z)")
_UNDERLINE = lazy_pattern(r" {0,3}(?:(=+)|-{3,})[ \t]*\Z")
_SIGNATURE = "<!-- origin:"
_BOM = "\ufeff"
_ZWJ = "\u200d"
# Characters that join the one before them without being marks: jamo, skin tones, tags.
_JOINED = lazy_pattern("[\u1160-\u11ff\U0001f3fb-\U0001f3ff\U000e0020-\U000e007f]")
# The first characters of a line that can begin something other than a paragraph.
_SPECIAL = frozenset("#`~-*+=0123456789 \t")


@dataclass(frozen=True, slots=True)
class TextChunk:
    """A passage: its text, its lines from `start` to `end` (counted from 1), and the headings above it.

    `heading` is indexed but not part of the snippet. `entry` is the number of the entry in a record or
    journal. A `hidden` chunk is never an answer: frontmatter, signatures, blank lines, and the headings above
    a split section or entry. `speaker` is who says it, in a file that surely is a conversation.
    """

    start: int
    end: int
    text: str
    heading: str = ""
    entry: int | None = None
    time: str | None = None
    origin: Origin | None = None
    superseded: str | None = None
    hidden: bool = False
    speaker: str | None = None


def chunks(
    text: str,
    *,
    kind: str,
    tokens: int = TOKENS,
    overlap: int = OVERLAP,
    parsed: document.Document | None = None,
) -> list[TextChunk]:
    """Cut a text into passages in file order; `kind` is `record`, `journal`, `pinned` or `markdown`.

    A text of more than about `tokens` tokens is cut into pieces, which may repeat up to `overlap` tokens of
    the piece before. No text is refused: with unreadable frontmatter, it is cut as plain Markdown. `parsed`
    is the parsed text, if the caller has it.
    """
    page = _page(text, tokens=tokens, overlap=overlap)
    if not page.lines:
        return []
    try:
        if kind in ("record", "journal"):
            parsed = document.parse(text) if parsed is None else parsed
            return [*_front(page, text, parsed.front), *_entries(page, parsed, spoken=kind == "journal")]
        front = frontmatter.parse(text) if parsed is None else parsed.front
    except Malformed:
        return list(_markdown(page, 1, len(page.lines)))
    hidden = _front(page, text, front)
    first, last = hidden[-1].end + 1 if hidden else 1, len(page.lines)
    if kind == "pinned":
        return [*hidden, *_pinned(page, first, last)]
    found = turns.find_turns(page.text(first, last))
    return [*hidden, *(_conversation(page, first, last, found) if found else _markdown(page, first, last))]


def is_conversation(text: str, *, kind: str = "markdown") -> bool:
    """Return whether an attached file, or an entry of a journal, is a conversation, which is cut by turns."""
    try:
        if kind == "journal":
            return any(turns.find_turns(entry.text) for entry in document.parse(text).entries)
        front = frontmatter.parse(text)
    except Malformed:
        return False
    lines = text.removeprefix(_BOM).replace("\r\n", "\n").split("\n")
    return bool(turns.find_turns("\n".join(lines[front.lines :])))


# --- lines and their weight, in quarters of a token ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Page:
    """The lines of a file, the total weight up to each line, and the size limits, in quarters of a token."""

    lines: list[str]
    sums: list[int]
    target: int
    limit: int
    overlap: int

    def weight(self, first: int, last: int) -> int:
        return self.sums[last] - self.sums[first - 1]

    def text(self, first: int, last: int) -> str:
        return "\n".join(self.lines[first - 1 : last])

    def blank(self, number: int) -> bool:
        line = self.lines[number - 1]
        return not line or line.isspace()


def _page(text: str, *, tokens: int, overlap: int) -> _Page:
    lines = text.removeprefix(_BOM).split("\n")
    if not lines[-1]:
        lines.pop()
    if "\r" in text:
        lines = [line.removesuffix("\r") for line in lines]
    sizes = map(len, lines) if text.isascii() else map(weight_of, lines)
    sums = list(accumulate((size + 1 for size in sizes), initial=0))
    tokens = max(tokens, SMALLEST)
    return _Page(lines, sums, tokens * 4, tokens * 5, max(0, min(overlap * 4, tokens * 2)))


def weight_of(text: str) -> int:
    """Return a text's weight in quarters of a token: four characters, or one CJK character, are a token."""
    if text.isascii():
        return len(text)
    return len(text) + 3 * sum(map(len, _CJK.findall(text)))


# --- records, journals, pinned documents --------------------------------------------------------------------


def _front(page: _Page, text: str, front: frontmatter.Front) -> list[TextChunk]:
    if not front.lines:
        return []
    last = front.lines + (text[front.body - 1] != "\n")
    return [TextChunk(1, last, page.text(1, last), hidden=True)]


def _entries(page: _Page, parsed: document.Document, *, spoken: bool) -> Iterator[TextChunk]:
    """Yield one chunk for each entry, or several chunks for an entry that is too long.

    The lines of the file's title belong to the first entry. A text without entries is cut as Markdown. With
    `spoken`, an entry that surely is a conversation is cut at its turns.
    """
    front = _front(page, parsed.source, parsed.front)
    first = front[-1].end + 1 if front else 1
    title = _shortened(parsed.title or "")
    entries = parsed.entries
    if not entries:
        yield from _markdown(page, first, len(page.lines))
    for number, entry in enumerate(entries):
        last = entries[number + 1].start - 1 if number + 1 < len(entries) else len(page.lines)
        own = _shortened(entry.part) if entry.part else title  # a part of a consolidation has its own name
        whole = TextChunk(first, last, entry.text, own, number, entry.time, entry.origin, entry.superseded)
        body = entry.start + (entry.time is not None)
        signature = entry.end if parsed.sections[number].signed is not None else last + 1
        text = document.unescape(page.text(body, min(signature - 1, last))) if spoken else ""
        said = turns.find_turns(text)
        yield from _unit(page, whole, body, signature, base=(own,) if own else (), said=said)
        first = last + 1


def _pinned(page: _Page, first: int, last: int) -> Iterator[TextChunk]:
    """Yield one chunk for each section, or several chunks for a section that is too long.

    A heading without text is joined with the deeper section that follows, if both fit into one chunk.
    """
    sections = _sections(page, first, last)
    for section, following in zip_longest(sections, sections[1:]):
        below = section.last if following is None or following.level <= section.level else following.last
        if section.bare and section.last < below and page.weight(first, below) <= page.limit:
            continue
        signed = dict(_signatures(page, first, section.last))
        end = section.last
        while end > first and page.blank(end):
            end -= 1
        signature = end if end in signed else section.last + 1
        text = document.unescape(page.text(first, signature - 1)).strip("\n")
        text = text if signature == end else text.rstrip()
        # A fence may contain lines that the store reads as sections: the least trusted origin counts for all.
        origin = max((each for each in signed.values() if each), key=lambda each: each.rank, default=None)
        whole = TextChunk(first, section.last, text, SEPARATOR.join(section.path), origin=origin)
        yield from _unit(page, whole, first, signature, base=section.above, lists=True)
        first = section.last + 1


def _signatures(page: _Page, first: int, last: int) -> Iterator[tuple[int, Origin | None]]:
    for number in range(first, last + 1):
        line = page.lines[number - 1]
        if line.startswith(_SIGNATURE):
            parsed = document.parse(line)
            if parsed.sections[0].signed is not None:
                yield number, parsed.entries[0].origin


def _unit(
    page: _Page,
    whole: TextChunk,
    body: int,
    signature: int,
    *,
    base: tuple[str, ...],
    lists: bool = False,
    said: Sequence[SpokenLines] = (),
) -> Iterator[TextChunk]:
    """Yield an entry or section as one chunk if it fits; else in pieces, its heading and signature hidden.

    A conversation, whose turns are `said`, is always cut.
    """
    if not said and weight_of(whole.text) <= page.limit:
        yield whole if whole.text.strip() else replace(whole, hidden=True)
        return
    if body > whole.start:
        above = page.text(whole.start, body - 1)
        yield replace(whole, end=body - 1, text=above, hidden=True)
    last = min(signature - 1, whole.end)
    pieces = (
        _conversation(page, body, last, said, base=base)
        if said
        else _markdown(page, body, last, base=base, lists=lists)
    )
    for piece in pieces:
        yield replace(
            whole,
            start=piece.start,
            end=piece.end,
            text=document.unescape(piece.text) if said else piece.text,
            heading=piece.heading,
            hidden=piece.hidden,
            speaker=piece.speaker,
        )
    if signature <= whole.end:
        below = page.text(signature, whole.end)
        yield replace(whole, start=signature, text=below, hidden=True)


# --- conversations ------------------------------------------------------------------------------------------


def _conversation(
    page: _Page, first: int, last: int, found: Sequence[SpokenLines], *, base: tuple[str, ...] = ()
) -> Iterator[TextChunk]:
    """Yield one chunk for each turn, or several for a long turn; a heading applies to the turns after it.

    `base` has the headings above the text. Blank lines below the last turn belong to it.
    """
    path = base
    for number, turn in enumerate(found, start=1):
        start = first + turn.first - 1
        end = last if number == len(found) else first + turn.last - 1
        if turn.speaker is None:
            sections = _sections(page, start, end, base=base)
            path = sections[-1].path
            bare = all(section.bare for section in sections)
            for piece in _markdown(page, start, end, base=base):
                yield replace(piece, hidden=piece.hidden or bare)
        elif page.weight(start, end) <= page.limit:
            yield TextChunk(start, end, page.text(start, end), SEPARATOR.join(path), speaker=turn.speaker)
        else:
            for piece in _markdown(page, start, end, base=path):
                yield replace(piece, speaker=turn.speaker)


# --- Markdown: sections, blocks, lines ----------------------------------------------------------------------


class _Kind(Enum):
    TEXT = auto()
    ITEM = auto()
    FENCE = auto()
    HEADING = auto()


class _Mark(NamedTuple):
    """The line at which a block begins, and the block's kind; the block ends where the next one begins."""

    line: int
    kind: _Kind
    level: int = 0
    title: str = ""


class _Block(NamedTuple):
    """Neighbouring lines that stay together where they fit: a paragraph, list item, fence or heading."""

    first: int
    last: int
    kind: _Kind


class _Section(NamedTuple):
    """A heading and the text under it, up to the next heading of any level."""

    first: int
    last: int
    level: int
    above: tuple[str, ...]
    title: str
    blocks: list[_Block]
    fences: dict[int, int]

    @property
    def path(self) -> tuple[str, ...]:
        return (*self.above, self.title) if self.title else self.above

    @property
    def bare(self) -> bool:
        return self.level > 0 and len(self.blocks) == 1


def _markdown(
    page: _Page, first: int, last: int, *, base: tuple[str, ...] = (), lists: bool = False
) -> Iterator[TextChunk]:
    """Cut Markdown at its headings; small neighbouring sections under a common heading share one chunk.

    `base` has the headings above the text. With `lists`, the items of a list stay together if they fit.
    """
    group: list[_Section] = []
    for section in _sections(page, first, last, base=base):
        if group and (
            section.level == 1
            or section.level < group[0].level
            or page.weight(group[0].first, section.last) > page.target
        ):
            yield from _grouped(page, group, lists=lists)
            group = []
        group.append(section)
    if group:
        yield from _grouped(page, group, lists=lists)


def _grouped(page: _Page, group: Sequence[_Section], *, lists: bool) -> Iterator[TextChunk]:
    first, last = group[0].first, group[-1].last
    path = group[0].path
    for section in group[1:]:
        path = _shared(path, section.path)
    text = page.text(first, last)
    hidden = not text or text.isspace()
    if page.weight(first, last) > page.limit and not hidden:
        yield from _split(page, group[0], lists=lists)  # a group of several fits
    else:
        yield TextChunk(first, last, text, SEPARATOR.join(path), hidden=hidden)


def _shared(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[str, ...]:
    same = 0
    while same < min(len(one), len(other)) and one[same] == other[same]:
        same += 1
    return one[:same]


def _split(page: _Page, section: _Section, *, lists: bool) -> Iterator[TextChunk]:
    """Cut a section that is too large into chunks: between blocks, then between lines, then inside lines."""
    heading = SEPARATOR.join(section.path)
    pieces = list(_pack_blocks(page, section, lists=lists))
    for number, (first, last) in enumerate(pieces):
        if first == last and page.weight(first, last) > page.limit:
            for part in _parts(page, page.lines[first - 1]):
                yield TextChunk(first, last, part, heading, hidden=part.isspace())
            continue
        text = page.text(first, last)
        # A heading that stands alone here is in the heading path of every piece that follows.
        alone = number == 0 < section.level and last == section.blocks[0].last
        title_only = alone and len(pieces) > 1 and len(section.title) < LONGEST_HEADING
        yield TextChunk(first, last, text, heading, hidden=title_only or not text.strip())


def _pack_blocks(page: _Page, section: _Section, *, lists: bool) -> Iterator[tuple[int, int]]:
    """Group a section's blocks into pieces, and yield the first and last line of each piece.

    A piece may begin with lines that repeat the end of the piece before. `lists` is that of `_markdown`.
    """
    first = last = fresh = size = 0
    heading = False
    for block in _small_blocks(page, section, lists=lists):
        weight = page.weight(block.first, block.last)
        room = page.limit if heading else page.target
        if size and size + weight > room:
            first = _overlap_start(page, first, last, fresh)
            yield first, last
            budget = min(page.overlap, page.limit - weight)
            first, fresh = _overlapping(page, first, last, budget, section.fences), block.first
            size = page.weight(first, last) if first <= last else 0
        elif not size:
            first = fresh = block.first
        last, size = block.last, size + weight
        heading = block.kind is _Kind.HEADING and first == block.first
    yield _overlap_start(page, first, last, fresh), last


def _overlap_start(page: _Page, first: int, last: int, fresh: int) -> int:
    """Return the first line of a piece: `first`, or the first new line `fresh` if all new lines are blank."""
    return fresh if all(page.blank(number) for number in range(fresh, last + 1)) else first


def _overlapping(page: _Page, first: int, last: int, budget: int, fences: dict[int, int]) -> int:
    """Return the line at which the next piece begins, so that it repeats lines of the piece before.

    The repeated lines weigh at most `budget`; a code fence that fits into a chunk is repeated as a whole or
    not at all.
    """
    if page.weight(last, last) > page.limit:
        return last + 1
    start = last + 1
    while start - 1 > first:
        above = min(start - 1, fences.get(start - 1, start))
        if page.weight(above, start - 1) > page.limit:
            above = start - 1
        weight = page.weight(above, start - 1)
        if weight > budget or above <= first:
            break
        budget -= weight
        start = above
    while start <= last and page.blank(start):
        start += 1
    return start


def _small_blocks(page: _Page, section: _Section, *, lists: bool) -> Iterator[_Block]:
    """Yield the blocks of a section; a block that is too large is divided into lines and code fences.

    With `lists`, the items of a list are one block if they fit.
    """
    for block in _lists(page, section.blocks) if lists else section.blocks:
        if page.weight(block.first, block.last) <= page.limit:
            yield block
            continue
        number = block.first
        while number <= block.last:
            end = max(number, section.fences.get(number, number))
            if page.weight(number, end) > page.limit:
                end = number
            yield _Block(number, end, _Kind.TEXT)
            number = end + 1


def _lists(page: _Page, blocks: Sequence[_Block]) -> Iterator[_Block]:
    """Yield the same blocks, with the items of a list joined into one block where the list fits."""
    at = 0
    while at < len(blocks):
        to = at
        while blocks[at].kind is _Kind.ITEM and to + 1 < len(blocks) and blocks[to + 1].kind is _Kind.ITEM:
            to += 1
        whole = _Block(blocks[at].first, blocks[to].last, blocks[at].kind)
        if page.weight(whole.first, whole.last) <= page.limit:
            yield whole
        else:
            yield from blocks[at : to + 1]
        at = to + 1


def _sections(page: _Page, first: int, last: int, *, base: tuple[str, ...] = ()) -> list[_Section]:
    if first > last:
        return []
    marks, fences = _scan(page.lines, first, last)
    found: list[_Section] = []
    above: list[tuple[int, str]] = []
    start = first
    blocks: list[_Block] = []
    opening = _Mark(first, _Kind.TEXT)
    for number, mark in enumerate(marks):
        if mark.kind is _Kind.HEADING and blocks:
            found.append(_section(opening, above, blocks, fences, base))
            blocks = []
        if mark.kind is _Kind.HEADING:
            while above and above[-1][0] >= mark.level:
                above.pop()
            if opening.title and opening.level < mark.level:
                above.append((opening.level, opening.title))
            opening = mark
        end = marks[number + 1].line - 1 if number + 1 < len(marks) else last
        blocks.append(_Block(start, end, mark.kind))
        start = end + 1
    found.append(_section(opening, above, blocks or [_Block(first, last, _Kind.TEXT)], fences, base))
    return found


def _section(
    mark: _Mark,
    above: Sequence[tuple[int, str]],
    blocks: list[_Block],
    fences: dict[int, int],
    base: tuple[str, ...],
) -> _Section:
    path = (*base, *(title for _, title in above))
    return _Section(blocks[0].first, blocks[-1].last, mark.level, path, mark.title, blocks, fences)


def _scan(lines: Sequence[str], first: int, last: int) -> tuple[list[_Mark], dict[int, int]]:
    """Return the beginnings of blocks, and a mapping from each fence's first line to its last, and back."""
    marks: list[_Mark] = []
    ends: dict[int, int] = {}
    running = False  # the line above belongs to a paragraph or item that this line may continue
    item: int | None = None  # the indent of the list item we are in
    number = first
    while number <= last:
        line = lines[number - 1]
        number += 1
        if not line or line.isspace():
            running = False
            continue
        if line[0] not in _SPECIAL:
            if not running:
                marks.append(_Mark(number - 1, _Kind.TEXT))
                item, running = None, True
            continue
        bare = line.lstrip(" \t")
        indent = len(line) - len(bare)
        if "\t" in line[:indent]:
            indent = len(line[:indent].expandtabs(4))
        nested = item is not None and indent >= item + 2
        flush = indent < 4 or item is not None
        if flush and (run := fences.opening(bare)):
            end = _closing(lines, number, last, run, indent)
            ends[number - 1], ends[end] = end, number - 1
            if not nested:
                marks.append(_Mark(number - 1, _Kind.FENCE))
                item = None
            running = False
            number = end + 1
        elif nested:
            running = True
        elif heading := _HEADING.match(line):
            marks.append(_Mark(number - 1, _Kind.HEADING, len(heading[1]), _title(line[heading.end() :])))
            item, running = None, False
        elif _underlines(marks, number - 1, running) and (rule := _UNDERLINE.match(line)):
            title = _title(lines[number - 3])
            marks[-1] = _Mark(number - 2, _Kind.HEADING, 1 if rule[1] else 2, title)
            item, running = None, False
        elif flush and _ITEM.match(bare):
            marks.append(_Mark(number - 1, _Kind.ITEM))
            item, running = indent, True
        elif not running:
            marks.append(_Mark(number - 1, _Kind.TEXT))
            item, running = None, True
    return marks, ends


def _underlines(marks: Sequence[_Mark], number: int, running: bool) -> bool:
    """Return whether a line stands right under a paragraph of one line, which it may turn into a heading."""
    return running and bool(marks) and marks[-1].kind is _Kind.TEXT and marks[-1].line == number - 1


def _closing(lines: Sequence[str], number: int, last: int, run: str, indent: int) -> int:
    """Return the number of the line that closes a code fence; the last line when nothing closes the fence."""
    for at in range(number, last + 1):
        if fences.is_closing(lines[at - 1], run, indent):
            return at
    return last


def _title(line: str) -> str:
    """Return the text of a heading without its closing number signs (`#`), shortened if it is very long."""
    title = line[: 2 * LONGEST_HEADING].strip()
    words = title.rstrip("#")
    return _shortened(words if words != title and (not words or words[-1] in " \t") else title)


def _shortened(title: str) -> str:
    words = " ".join(title[: 2 * LONGEST_HEADING].split())
    return words if len(words) <= LONGEST_HEADING else words[: _safe(words, LONGEST_HEADING)]


# --- lines too long for a chunk -----------------------------------------------------------------------------


def _parts(page: _Page, line: str) -> Iterator[str]:
    """Cut a long line into parts: after a sentence, else after white space, else between characters."""
    at, left = 0, weight_of(line)
    while left > page.limit:
        window = line[at : at + page.target + 1]  # one more character, to see what follows the cut
        part = window[: _cut(window, _reach(window, page.target))]
        yield part
        at += len(part)
        left -= weight_of(part)
    yield line[at:]


def _reach(window: str, target: int) -> int:
    """Return how many characters at the beginning of a text weigh no more than the target."""
    spent = end = 0
    for run in _CJK.finditer(window):
        plain = run.start() - end
        if spent + plain >= target:
            break
        spent, end = spent + plain, run.start()
        length = min(len(run[0]), (target - spent) // 4)
        spent, end = spent + 4 * length, end + length
        if end < run.end():
            return end
    return min(len(window), end + target - spent)


def _cut(window: str, reach: int) -> int:
    half = reach // 2
    for end in reversed([found.end() for found in SENTENCE_END.finditer(window, half, reach)]):
        if _may_cut(window, end):
            return end
    for end in range(reach, half, -1):
        if window[end - 1].isspace() and _may_cut(window, end):
            return end
    return _safe(window, reach)


def _safe(text: str, at: int) -> int:
    """Return the nearest position at or before `at` where a text may be cut; `at` itself if none is near."""
    return next((end for end in range(at, at // 2, -1) if _may_cut(text, end)), at)


def _may_cut(text: str, at: int) -> bool:
    """Return whether a text may be cut at this position: not inside a character of several code points."""
    if at >= len(text):
        return True
    before, after = text[at - 1], text[at]
    if after.isascii():
        return before != _ZWJ
    if _ZWJ in (before, after) or unicodedata.category(after)[0] == "M":
        return False
    if _flag(before) and _flag(after):
        run = at
        while run and _flag(text[run - 1]):
            run -= 1
        return (at - run) % 2 == 0
    if "\udc00" <= after <= "\udfff":
        return not "\ud800" <= before <= "\udbff"
    return not _JOINED.match(after)


def _flag(character: str) -> bool:
    """Return whether a character is one of the two letters that make up a flag emoji."""
    return "\U0001f1e6" <= character <= "\U0001f1ff"
