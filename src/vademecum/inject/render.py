"""The one renderer: what was remembered becomes lines that cannot be anything but data.

Every line of somebody's text stands behind a mark of ours, so that it opens no heading, list or fence of its
own; angle brackets and ampersands are written out, so that it neither closes the wrapper nor opens another.
What looks like a secret is replaced, before a text is taken apart into lines and once more in the whole.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.store.outgoing import clean_text
from vademecum.text.visible import visible

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

OPEN, CLOSE = "<vade-memory>", "</vade-memory>"
QUOTE = "> "  # before each line of a document
ITEM = "- "
BELOW = "  > "  # before each further line of an item

_IMAGE = re.compile(r"!\[([^\]\n]{0,300})\](?:\([^)\n]{0,2000}\)|\[[^\]\n]{0,300}\])")
_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;"})


class Part(NamedTuple):
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


def block(opening: str, parts: Iterable[Part], closing: str = "") -> str:
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
