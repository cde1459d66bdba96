"""The one renderer: what was remembered becomes lines that cannot be anything but data."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.text import fences, visible
from vademecum.text.outgoing import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


OPEN, CLOSE = "<vade-memory>", "</vade-memory>"
QUOTE = "> "  # before each line of a document
ITEM = "- "
BELOW = "  > "  # before each further line of an item

_IMAGE = re.compile(r"!\[([^\]\n]{0,300})\](?:\([^)\n]{0,2000}\)|\[[^\]\n]{0,300}\])")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class BlockPart(NamedTuple):
    """One heading of ours and the lines below it."""

    title: str
    lines: Sequence[str]


def safe(text: str) -> str:
    """A text as it may be shown: visible, without secrets and images, with brackets written out."""
    shown = _IMAGE.sub(_described, visible(clean_text(text)))
    return shown.translate(_ESCAPES).replace("\t", "    ")


def quoted(text: str) -> list[str]:
    """A document, line by line behind a mark."""
    return [f"{QUOTE}{line}".rstrip() if not line.strip() else f"{QUOTE}{line}" for line in _lines(text)]


def item(label: str, text: str) -> list[str]:
    """A list item: its label and first line, and the further lines marked below it."""
    first, *rest = _lines(text) or [""]
    top = f"{ITEM}{_one_line(clean_text(label))}{first}".rstrip()
    return [top, *(f"{BELOW}{line}".rstrip() for line in rest)]


def block(opening: str, parts: Iterable[BlockPart], closing: str = "") -> str:
    """The whole block; empty when there is nothing to say."""
    told = [part for part in parts if part.lines]
    if not told:
        return ""
    lines = [OPEN, opening]
    for part in told:
        lines += ["", f"## {_one_line(safe(part.title))}", *part.lines]
    if closing:
        lines += ["", closing]
    return clean_text("\n".join([*lines, CLOSE]) + "\n")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in safe(text).strip("\n").split("\n")]


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _described(image: re.Match[str]) -> str:
    return f"[image: {image[1].strip()}]" if image[1].strip() else "[image]"


# ------------------------------------------------------------ pinned documents

_HEADING = re.compile(r"(?m)^#{1,6}[ \t]+(.+)$")


class DocumentPart(NamedTuple):
    """A heading of a document with what stands below it; what comes before the first has none."""

    heading: str
    text: str


def split_document(text: str) -> list[DocumentPart]:
    """A document heading by heading; what looks like one inside a fence is none."""
    starts = [*_HEADING.finditer(fences.blank(text))]
    found = []
    first = starts[0].start() if starts else len(text)
    if text[:first].strip():
        found.append(DocumentPart("", text[:first].strip("\n")))
    for at, match in enumerate(starts):
        end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
        title = (match[1].rstrip(" \t#") or match[1]).strip().casefold()
        found.append(DocumentPart(title, text[match.start() : end].strip("\n")))
    return found


def combine_documents(near: Sequence[DocumentPart], far: Iterable[DocumentPart]) -> list[DocumentPart]:
    """The far document's parts that the near one has no such heading for, then the near one's."""
    own = {part.heading for part in near if part.heading}
    return [*(part for part in far if part.heading not in own), *near]


def cut_document(text: str, size: int, *, unit: str = "characters") -> tuple[str, bool]:
    """The beginning of a text, up to the last line that fits, and whether anything was left out.

    Secrets are replaced first: half of one would not be known as one.
    """
    text = clean_text(text)
    length = len(text.encode()) if unit == "bytes" else len(text)
    if length <= size:
        return text, False
    head = text.encode()[:size].decode(errors="ignore") if unit == "bytes" else text[:size]
    whole, newline, _ = head.rpartition("\n")
    return (whole if newline else head).rstrip(), True
