"""Split a file's text into frontmatter, head, blocks and gaps, and join these parts again.

`join(cut(text)) == text`. A block is an entry with its heading and its signature line, or a section of a
pinned document. The head is the text before the first block. A gap is the white space after a block; it
belongs to the layout of the file.
"""

from __future__ import annotations

import functools
import hashlib
import re
from datetime import UTC
from itertools import pairwise
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed
from vademecum.store import decisions
from vademecum.text import clock, document, frontmatter, names, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

RECORDS, JOURNAL = "records", "journal"
LF, CRLF, MIXED = "lf", "crlf", "mixed"
END = "end"  # the gap after the last block
BETWEEN, LAST = "\n\n", "\n"  # the default gaps
MARKS = ("superseded", "stale")  # parts of a signature that change independently of the text
_SIGNED = re.compile(r"(?:^|\n)<!-- (origin: [^\n]*?) -->[^\S\n]*\Z")
_ANY_HEADING = re.compile(r"^(#{1,6}) +([^\n]*)", re.MULTILINE)


class TextBlock(NamedTuple):
    """A block of a file: an entry, or a section of a pinned document.

    Its text has line feeds as line ends, unless the file mixes different line ends.
    """

    raw: str
    time: str | None
    words: str  # the text with folded white space; equal for blocks with the same text
    gap: str = BETWEEN
    path: str = ""  # the headings above a section of a pinned document

    @property
    def id(self) -> str:
        """The id in the block's signature; an empty text without one."""
        return parts(self.raw).get("id", "")

    @property
    def instant(self) -> str:
        """The time in the block's heading as sortable text; an empty text without a time."""
        moment = clock.parse(self.time)
        return "" if moment is None else moment.astimezone(UTC).isoformat()

    def derived(self) -> str:
        """Return an id for a block without one in its signature.

        The id is made from a section's own heading and the headings above it, or from an entry's time and
        words.
        """
        identity = self.path or f"{self.instant}\0{self.words}"
        return f"h{hashlib.sha256(identity.encode('utf-8', 'surrogatepass')).hexdigest()[:15]}"


class CutText(NamedTuple):
    """The parts of a file: frontmatter, head (the text before the first block), blocks, and line ends."""

    front: str
    head: str
    blocks: tuple[TextBlock, ...]
    eol: str = LF

    @property
    def gaps(self) -> dict[int | str, str]:
        """The gaps that differ from the default, by the position of the block before them.

        The key of the last gap is `END`.
        """
        odd: dict[int | str, str] = {}
        for place, block in enumerate(self.blocks):
            last = place == len(self.blocks) - 1
            if block.gap != (LAST if last else BETWEEN):
                odd[END if last else place] = block.gap
        return odd


def text_of(raw: str) -> str:
    """Return the text of a block as the memory store reads it, without time heading and signature.

    A block that looks like frontmatter is returned unchanged.
    """
    try:
        entries = document.parse(f"# t\n\n{raw}\n").entries if instant_of(raw) else document.blocks(raw)
    except Malformed:  # the text looks like frontmatter
        return raw
    return "\n\n".join(each.text for each in entries)


def name_of(raw: str) -> str:
    """Return the hash of a block's exact text, by which verifications name the text."""
    return decisions.exactly(text_of(raw))


@functools.lru_cache(maxsize=2048)
def cut(text: str, path: str) -> CutText:
    """Split a file's text into frontmatter, head and blocks.

    The path decides whether blocks are entries or sections of a pinned document. Raise Malformed when the
    frontmatter cannot be read.
    """
    ends, carried = text.count("\n"), text.count("\r\n")
    eol = LF if not carried else CRLF if ends == carried else MIXED
    if eol == CRLF:
        text = text.replace("\r\n", "\n")
    starts, body = _find_starts(text, path)
    places = pairwise([*starts, len(text)])
    blocks = tuple(_make_block(text, start, end, path) for start, end in places)
    if is_pinned(path):
        blocks = tuple(_add_paths(blocks))
    return CutText(text[:body], text[body : starts[0] if starts else len(text)], blocks, eol)


def join(page: CutText) -> str:
    """Return the whole text of a file, joined from its parts."""
    text = page.front + page.head + "".join(f"{block.raw}{block.gap}" for block in page.blocks)
    return text.replace("\n", "\r\n") if page.eol == CRLF else text


def lay(front: str, head: str, raws: Sequence[str], gaps: Mapping[int | str, str], eol: str) -> str:
    """Return the whole text of a file, joined from merged parts.

    `gaps` has the gaps that differ from the default. A gap that has text, or that would run two blocks
    together, is replaced by the default gap.
    """
    if raws and (front + head).strip("\ufeff \t\r\n") and not (front + head).endswith("\n"):
        head += BETWEEN
    pieces = [front, head]
    for place, raw in enumerate(raws):
        last = place == len(raws) - 1
        gap = gaps.get(END if last else place, LAST if last else BETWEEN)
        if not last and (not gap.endswith("\n") or gap.strip()):
            gap = BETWEEN
        pieces += [raw, gap if not gap.strip() else LAST]
    text = "".join(pieces)
    return text.replace("\n", "\r\n") if eol == CRLF else text


def is_pinned(path: str) -> bool:
    """Return whether a path is that of a pinned document, whose blocks are sections and not dated entries."""
    return "/" not in path


@functools.lru_cache(maxsize=4096)
def parts(raw: str) -> Mapping[str, str]:
    """Return the parts of a block's signature by their names; no parts for an unsigned block."""
    signed = _SIGNED.search(raw)
    pairs = (part.split(":", 1) for part in (signed[1] if signed else "").split("|") if ":" in part)
    return MappingProxyType({name.strip(): value.strip() for name, value in pairs})


def sign(raw: str, **changes: str) -> str:
    """Return a block with the parts in `changes` set in its signature; an empty value removes a part.

    An unsigned block gets a signature with the origin `user`, unless `changes` has another origin.
    """
    signed = _SIGNED.search(raw)
    if signed is None and not any(changes.values()):
        return raw
    line = signed[1] if signed else "origin: user"
    rest = [part for part in line.split(" | ") if part.partition(":")[0].strip() not in changes]
    added = [f"{name}: {value}" for name, value in changes.items() if value]
    origins = [each for each in added if each.startswith("origin: ")]
    line = " | ".join([*origins, *rest, *(each for each in added if each not in origins)])
    if signed is None:
        return f"{raw}\n<!-- {line} -->"
    return f"{raw[: signed.start()]}{raw[signed.start() : signed.start(1)]}{line}{raw[signed.end(1) :]}"


def unsigned(raw: str) -> str:
    """Return a block without its signature line."""
    signed = _SIGNED.search(raw)
    return raw.rstrip() if signed is None else raw[: signed.start()].rstrip()


@functools.lru_cache(maxsize=4096)
def content(raw: str) -> str:
    """Return a block without the marks in its signature, to compare whether its content changed.

    A signature that is left with `origin: user` alone is removed, too.
    """
    bare = sign(raw, **dict.fromkeys(MARKS, ""))
    signed = _SIGNED.search(bare)
    if signed is not None and signed[1].strip() == "origin: user":  # the default signature counts as none
        return bare[: signed.start()].rstrip()
    return bare


@functools.lru_cache(maxsize=4096)
def instant_of(raw: str) -> str:
    """Return the time in a block's heading as sortable text; an empty text without a time."""
    heading = raw.partition("\n")[0]
    return TextBlock(raw, heading[3:].strip(), "").instant if heading.startswith("## ") else ""


@functools.lru_cache(maxsize=4096)
def words_of(raw: str, *, dated: bool | None = None) -> str:
    """Return the text of a block without time heading and signature, with folded white space.

    `dated` says whether the first line is a time heading; with None, the line itself decides.
    """
    heading, _, below = raw.partition("\n")
    dated = _is_dated(heading) if dated is None else dated
    return normalise(_SIGNED.sub("", (below if dated else raw).removeprefix("\ufeff")))


def document_id(path: str, given: object) -> str:
    """Return the id of a file's document: for a record `given`, the id in its frontmatter, if it is valid.

    For any other file the id is made from the path.
    """
    if path.startswith(f"{RECORDS}/") and isinstance(given, str) and names.is_id(given):
        return given
    kind, _, name = path.rpartition("/")
    named = f"{kind}\0{names.folded(name)}"
    return f"n-{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _find_starts(text: str, path: str) -> tuple[list[int], int]:
    """Return the offsets at which the blocks begin, and the offset at which the frontmatter ends."""
    if not is_pinned(path):
        parsed = document.parse(text)
        return [section.start for section in parsed.sections], parsed.front.body
    body = frontmatter.parse(text).body
    starts = [found.start() for found in _ANY_HEADING.finditer(text, body)]
    if text[body : starts[0] if starts else len(text)].strip():
        starts.insert(0, body)
    return starts, body


def _make_block(text: str, start: int, end: int, path: str) -> TextBlock:
    raw = text[start:end].rstrip()
    heading = raw.partition("\n")[0]
    time = heading[3:].strip() if not is_pinned(path) and _is_dated(heading) else None
    return TextBlock(raw, time, words_of(raw, dated=time is not None), text[start + len(raw) : end])


def _is_dated(heading: str) -> bool:
    return heading.removeprefix("\ufeff").startswith("## ") and clock.parse(heading[3:].strip()) is not None


def _add_paths(blocks: Iterable[TextBlock]) -> Iterator[TextBlock]:
    """Yield the sections of a pinned document, each with its heading and those above it as `path`."""
    above: list[tuple[int, str]] = []
    for block in blocks:
        found = _ANY_HEADING.match(block.raw)
        depth, title = (len(found[1]), normalise(found[2])) if found else (0, "")
        above = [each for each in above if each[0] < depth] + [(depth, title)]
        yield block._replace(path="\0".join(f"{deep} {name}" for deep, name in above))
