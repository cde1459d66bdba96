"""The part of a text that shows why it was found."""

from __future__ import annotations

import itertools
import re
from typing import TYPE_CHECKING

from vademecum.search.legs import MOST_WORDS

if TYPE_CHECKING:
    from collections.abc import Sequence

SNIPPET = 700  # characters of a passage
PREVIEW = 600  # characters of a message


def snippet(body: str, asked: Sequence[str], phrases: Sequence[str] = ()) -> str:
    """The part of a chunk that shows why it was found, cut at words; a phrase before single words."""
    if len(body) <= SNIPPET:
        return body
    lower = lowered(body)
    whole = [each for each in map(str.lower, phrases) if each in lower]
    at, length = min(
        ((at, len(word)) for word in whole or asked if (at := lower.find(word)) >= 0), default=(0, 0)
    )
    start = max(0, at - SNIPPET // 3)
    start = start and max(start, body.find(" ", start, at) + 1)
    end = min(len(body), start + SNIPPET)
    if end < len(body):  # the last space after the word; there may be none
        end = max(body.rfind(" ", at + length, end), 0) or end
    return ("… " if start else "") + body[start:end].strip() + (" …" if end < len(body) else "")


def lowered(text: str) -> str:
    """A text in small letters in which places are the same; İ has two in lower case, and then it stays."""
    lower = text.lower()
    return lower if len(lower) == len(text) else text


def window(
    text: str, asked: Sequence[str], *, start: int = 0, end: int | None = None, size: int = PREVIEW
) -> str:
    """The part of a text that holds most of the words asked for."""
    if len(text) <= size:
        return text
    end = len(text) if end is None else end
    lower = lowered(text)
    places = sorted(
        (found.start(), word) for word in asked[:MOST_WORDS] for found in _finds(lower, word, start, end)
    )
    middle, most = start, 0
    for at, (first, _) in enumerate(places):
        inside = [each for each in places[at:] if each[0] < first + size - 40]
        if len({word for _, word in inside}) > most:
            most = len({word for _, word in inside})
            middle = (first + inside[-1][0] + len(inside[-1][1])) // 2
    return around(text, middle, size)


def around(text: str, middle: int, size: int = PREVIEW) -> str:
    """So many characters of a text around a place in it, with a mark where something was left out."""
    begin = min(max(0, middle - size // 2), len(text) - size)
    cut = text[begin : begin + size]
    cut = "…" + cut[1:] if begin else cut
    return cut if begin + size >= len(text) else cut[:-1] + "…"


def _finds(text: str, word: str, start: int, end: int) -> list[re.Match[str]]:
    """Where a word stands, or what begins like it: the index knows words without their endings."""
    for form in dict.fromkeys((word, word[: max(4, len(word) - 3)])):
        found = list(itertools.islice(re.compile(re.escape(form)).finditer(text, start, end), 50))
        if found:
            return found
    return []
