"""Render memory as lines that an agent cannot mistake for instructions."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import fences, visible
from vademecum.text.outgoing import clean_text

if TYPE_CHECKING:
    import re
    from collections.abc import Iterable, Sequence


OPEN, CLOSE = "<vade-memory>", "</vade-memory>"
QUOTE = "> "  # before each line of a document
ITEM = "- "
BELOW = "  > "  # before each further line of an item

_IMAGE = lazy_pattern(r"!\[([^\]\n]{0,300})\](?:\([^)\n]{0,2000}\)|\[[^\]\n]{0,300}\])")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class BlockPart(NamedTuple):
    """A heading of the block, with the lines below it."""

    title: str
    lines: Sequence[str]


def safe(text: str) -> str:
    """Return a text that is safe to show: nothing hidden, no secrets, escaped brackets, images as names."""
    cleaned = _IMAGE.sub(_image_text, visible(clean_text(text)))
    return cleaned.translate(_ESCAPES).replace("\t", "    ")


def quote_lines(text: str) -> list[str]:
    """Return the lines of a document, each with a quote mark before it."""
    return [f"{QUOTE}{line}".rstrip() if not line.strip() else f"{QUOTE}{line}" for line in _lines(text)]


def item(label: str, text: str) -> list[str]:
    """Return the lines of a list item: the label with the first line of the text, then its other lines."""
    first, *rest = _lines(text) or [""]
    top = f"{ITEM}{_one_line(clean_text(label))}{first}".rstrip()
    return [top, *(f"{BELOW}{line}".rstrip() for line in rest)]


def block(opening: str, parts: Iterable[BlockPart], closing: str = "") -> str:
    """Return the text of the whole block; '' if no part has lines."""
    filled = [part for part in parts if part.lines]
    if not filled:
        return ""
    lines = [OPEN, opening]
    for part in filled:
        lines += ["", f"## {_one_line(safe(part.title))}", *part.lines]
    if closing:
        lines += ["", closing]
    return clean_text("\n".join([*lines, CLOSE]) + "\n")


def _lines(text: str) -> list[str]:
    return [line.rstrip() for line in safe(text).strip("\n").split("\n")]


def _one_line(text: str) -> str:
    return text.replace("\n", " ")


def _image_text(image: re.Match[str]) -> str:
    return f"[image: {image[1].strip()}]" if image[1].strip() else "[image]"


# ------------------------------------------------------------ pinned documents

_HEADING = lazy_pattern(r"(?m)^#{1,6}[ \t]+(.+)$")


class DocumentPart(NamedTuple):
    """A heading of a document with its text; the text before the first heading has none."""

    heading: str
    text: str


def split_document(text: str) -> list[DocumentPart]:
    """Split a document at its headings; a line inside a code fence is no heading."""
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
    """Return the parts of both documents, far ones first, without far headings that the near one has."""
    own = {part.heading for part in near if part.heading}
    return [*(part for part in far if part.heading not in own), *near]


def cut_document(text: str, size: int, *, unit: str = "characters") -> tuple[str, bool]:
    """Return the beginning of a text that fits into `size` characters or bytes, and whether anything was cut.

    The cut is at the end of a line, if there is one. Secrets are redacted first, because half a secret would
    not be recognised.
    """
    text = clean_text(text)
    length = len(text.encode()) if unit == "bytes" else len(text)
    if length <= size:
        return text, False
    head = text.encode()[:size].decode(errors="ignore") if unit == "bytes" else text[:size]
    whole, newline, _ = head.rpartition("\n")
    return (whole if newline else head).rstrip(), True
