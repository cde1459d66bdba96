"""A file cut into what is replicated apart: frontmatter, head, blocks as they were typed, and the gaps.

`join(cut(text)) == text`. A block is an entry with its heading and its last line, or a section of a pinned
document; white space after it is a gap, which belongs to the layout and to no block.
"""

from __future__ import annotations

import functools
import hashlib
import re
from datetime import UTC
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed
from vademecum.store import decisions, document, frontmatter
from vademecum.text import clock, names, normalise

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

RECORDS, JOURNAL = "records", "journal"
LF, CRLF, MIXED = "lf", "crlf", "mixed"
END = "end"  # the gap after the last block
BETWEEN, LAST = "\n\n", "\n"  # the gaps that nobody has to write down
MARKS = ("superseded", "stale")  # parts of a last line that are set and lifted apart from the text
_SIGNED = re.compile(r"(?:^|\n)<!-- (origin: [^\n]*?) -->[^\S\n]*\Z")
_ANY_HEADING = re.compile(r"^(#{1,6}) +([^\n]*)", re.MULTILINE)


class TextBlock(NamedTuple):
    """One block as it stands in a file, line feeds only unless the file mixes line endings."""

    raw: str
    time: str | None
    words: str  # its text, white space folded: what makes two blocks say the same
    gap: str = BETWEEN
    path: str = ""  # the headings above a section of a pinned document

    @property
    def id(self) -> str:
        """The id in its last line, if it has one."""
        return parts(self.raw).get("id", "")

    @property
    def instant(self) -> str:
        """Its heading's time as text that sorts; nothing for an undated one."""
        moment = clock.parse(self.time)
        return "" if moment is None else moment.astimezone(UTC).isoformat()

    def derived(self) -> str:
        """The id of a block that has none: by its time and words, or by the headings above it."""
        said = self.path or f"{self.instant}\0{self.words}"
        return f"h{hashlib.sha256(said.encode('utf-8', 'surrogatepass')).hexdigest()[:15]}"


class CutText(NamedTuple):
    """A whole file."""

    front: str
    head: str
    blocks: tuple[TextBlock, ...]
    eol: str = LF

    @property
    def gaps(self) -> dict[int | str, str]:
        """The gaps that are not as they always are, by the place of their block."""
        odd: dict[int | str, str] = {}
        for place, block in enumerate(self.blocks):
            last = place == len(self.blocks) - 1
            if block.gap != (LAST if last else BETWEEN):
                odd[END if last else place] = block.gap
        return odd


def text_of(raw: str) -> str:
    """What a block says as the store reads it, without its heading's time and its last line."""
    try:
        entries = document.parse(f"# t\n\n{raw}\n").entries if instant_of(raw) else document.blocks(raw)
    except Malformed:  # a text that begins as frontmatter does
        return raw
    return "\n\n".join(each.text for each in entries)


def name_of(raw: str) -> str:
    """The name under which exactly this text is verified."""
    return decisions.exactly(text_of(raw))


@functools.lru_cache(maxsize=2048)
def cut(text: str, path: str) -> CutText:
    """A file's text in its parts; Malformed when its frontmatter cannot be read."""
    ends, carried = text.count("\n"), text.count("\r\n")
    eol = LF if not carried else CRLF if ends == carried else MIXED
    if eol == CRLF:
        text = text.replace("\r\n", "\n")
    starts, body = _starts(text, path)
    blocks = tuple(_block(text, start, end, path) for start, end in zip(starts, [*starts[1:], len(text)]))  # noqa: B905
    if is_pinned(path):
        blocks = tuple(_with_paths(blocks))
    return CutText(text[:body], text[body : starts[0] if starts else len(text)], blocks, eol)


def join(page: CutText) -> str:
    """The text of a file from its parts."""
    text = page.front + page.head + "".join(f"{block.raw}{block.gap}" for block in page.blocks)
    return text.replace("\n", "\r\n") if page.eol == CRLF else text


def lay(front: str, head: str, raws: Sequence[str], gaps: Mapping[int | str, str], eol: str) -> str:
    """A file's text from merged parts: a gap that would glue two blocks together is not taken."""
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
    """Whether a file is free Markdown, cut at its headings."""
    return "/" not in path


@functools.lru_cache(maxsize=4096)
def parts(raw: str) -> Mapping[str, str]:
    """The parts of a block's last line, by name; none when nobody signed it."""
    signed = _SIGNED.search(raw)
    pairs = (part.split(":", 1) for part in (signed[1] if signed else "").split("|") if ":" in part)
    return MappingProxyType({name.strip(): value.strip() for name, value in pairs})


def sign(raw: str, **changes: str) -> str:
    """A block with parts of its last line set, or taken away where they are empty; else as it was typed."""
    signed = _SIGNED.search(raw)
    if signed is None and not any(changes.values()):
        return raw
    line = signed[1] if signed else "origin: user"
    kept = [part for part in line.split(" | ") if part.partition(":")[0].strip() not in changes]
    added = [f"{name}: {value}" for name, value in changes.items() if value]
    told = [each for each in added if each.startswith("origin: ")]
    line = " | ".join([*told, *kept, *(each for each in added if each not in told)])
    if signed is None:
        return f"{raw}\n<!-- {line} -->"
    return f"{raw[: signed.start()]}{raw[signed.start() : signed.start(1)]}{line}{raw[signed.end(1) :]}"


def unsigned(raw: str) -> str:
    """A block without its last line, if that signs it."""
    signed = _SIGNED.search(raw)
    return raw.rstrip() if signed is None else raw[: signed.start()].rstrip()


@functools.lru_cache(maxsize=4096)
def content(raw: str) -> str:
    """A block without its marks: what a person or a program changed if it differs."""
    bare = sign(raw, **dict.fromkeys(MARKS, ""))
    signed = _SIGNED.search(bare)
    if signed is not None and signed[1].strip() == "origin: user":  # as good as not signed
        return bare[: signed.start()].rstrip()
    return bare


@functools.lru_cache(maxsize=4096)
def instant_of(raw: str) -> str:
    """The time in a block's heading, as text that sorts."""
    heading = raw.partition("\n")[0]
    return TextBlock(raw, heading[3:].strip(), "").instant if heading.startswith("## ") else ""


@functools.lru_cache(maxsize=4096)
def words_of(raw: str, *, dated: bool | None = None) -> str:
    """What a block says, without its heading and its last line."""
    heading, _, below = raw.partition("\n")
    dated = _is_dated(heading) if dated is None else dated
    return normalise(_SIGNED.sub("", (below if dated else raw).removeprefix("\ufeff")))


def document_id(path: str, given: object) -> str:
    """What a file is the document of: the id in its frontmatter, or its name where it has none."""
    if path.startswith(f"{RECORDS}/") and isinstance(given, str) and names.is_id(given):
        return given
    kind, _, name = path.rpartition("/")
    named = f"{kind}\0{names.folded(name)}"
    return f"n-{hashlib.sha256(named.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}"


def _starts(text: str, path: str) -> tuple[list[int], int]:
    """Where the blocks begin, and where the body does."""
    if not is_pinned(path):
        parsed = document.parse(text)
        return [section.start for section in parsed.sections], parsed.front.body
    body = frontmatter.parse(text).body
    starts = [found.start() for found in _ANY_HEADING.finditer(text, body)]
    if text[body : starts[0] if starts else len(text)].strip():
        starts.insert(0, body)
    return starts, body


def _block(text: str, start: int, end: int, path: str) -> TextBlock:
    raw = text[start:end].rstrip()
    heading = raw.partition("\n")[0]
    time = heading[3:].strip() if not is_pinned(path) and _is_dated(heading) else None
    return TextBlock(raw, time, words_of(raw, dated=time is not None), text[start + len(raw) : end])


def _is_dated(heading: str) -> bool:
    return heading.removeprefix("\ufeff").startswith("## ") and clock.parse(heading[3:].strip()) is not None


def _with_paths(blocks: Iterable[TextBlock]) -> Iterator[TextBlock]:
    """Sections, each with the headings that lead to it."""
    above: list[tuple[int, str]] = []
    for block in blocks:
        found = _ANY_HEADING.match(block.raw)
        depth, title = (len(found[1]), normalise(found[2])) if found else (0, "")
        above = [each for each in above if each[0] < depth] + [(depth, title)]
        yield block._replace(path="\0".join(f"{deep} {name}" for deep, name in above))
