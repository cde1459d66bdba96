"""What a word is, where a sentence ends, and a text without what does not count when it is compared."""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

# Three views of one idea: a run of letters and digits; its letters alone; and as it is spoken, where an
# apostrophe or a hyphen joins ("don't", "pre-commit").
WORD = re.compile(r"[^\W_]+")
LETTERS = re.compile(r"[^\W\d_]+")
SPOKEN = re.compile(r"[^\W_]+(?:['’-][^\W_]+)*")

# A sentence ends at its mark and what closes with it, before white space; Asian marks need none.
SENTENCE_END = re.compile(r"[.!?…]+[\"'”’»)\]]*\s+|[。！？｡]+[」』”’）]*\s*")
_BREAK = re.compile(rf"{SENTENCE_END.pattern}|\n")
_ABBREVIATED = re.compile(
    r"(?:\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|nos?|nr|z\.b|d\.h|bzw|p\.ex|dr|mr|mrs|ms|st|fig|sec|ca)|\b[a-z])\.",
    re.IGNORECASE,
)
_LONGEST_ABBREVIATION = 8


def sentence_spans(text: str, *, lines: bool = False) -> Iterator[tuple[int, int]]:
    """Where each sentence begins and ends, white space after it aside; with `lines` a line's end ends one."""
    start = 0
    for match in (_BREAK if lines else SENTENCE_END).finditer(text):
        end = match.start() + len(match[0].rstrip())
        whole = lines and "\n" in match[0]
        if not whole and _is_abbreviated(text[max(start, end - _LONGEST_ABBREVIATION) : end]):
            continue
        if text[start:end].strip():
            yield start, end
        start = match.end()
    if text[start:].strip():
        yield start, start + len(text[start:].rstrip())


def _is_abbreviated(tail: str) -> bool:
    return any(match.end() == len(tail) for match in _ABBREVIATED.finditer(tail))


def split_sentences(text: str, *, lines: bool = False) -> list[str]:
    """The sentences of a text."""
    return [text[start:end] for start, end in sentence_spans(text, lines=lines)]


def normalise(text: str) -> str:
    """A text with its white space folded and its characters composed."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_same_text(one: str, other: str) -> bool:
    """Whether two texts say the same, white space and composition of characters aside."""
    return normalise(one) == normalise(other)
