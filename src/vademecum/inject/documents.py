"""Pinned documents on their way into the block: one over the other by heading, and cut where too long."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.store.outgoing import clean_text
from vademecum.text import fences

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_HEADING = re.compile(r"(?m)^#{1,6}[ \t]+(.+?)[ \t#]*$")


class Part(NamedTuple):
    """A heading of a document with what stands below it; what comes before the first has none."""

    heading: str
    text: str


def parts(text: str) -> list[Part]:
    """A document heading by heading; what looks like one inside a fence is none."""
    starts = [*_HEADING.finditer(fences.blank(text))]
    found = []
    first = starts[0].start() if starts else len(text)
    if text[:first].strip():
        found.append(Part("", text[:first].strip("\n")))
    for at, match in enumerate(starts):
        end = starts[at + 1].start() if at + 1 < len(starts) else len(text)
        found.append(Part(match[1].strip().casefold(), text[match.start() : end].strip("\n")))
    return found


def combined(near: Sequence[Part], far: Iterable[Part]) -> list[Part]:
    """The far document's parts that the near one has no such heading for, then the near one's."""
    own = {part.heading for part in near if part.heading}
    return [*(part for part in far if part.heading not in own), *near]


def cut(text: str, size: int, *, unit: str = "characters") -> tuple[str, bool]:
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
