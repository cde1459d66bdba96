"""Split texts into words and sentences, and keep the part of a text that counts when it is
compared or shown.
"""

from __future__ import annotations

import re
import unicodedata
from typing import TYPE_CHECKING

from vademecum.lazy import lazy_pattern

if TYPE_CHECKING:
    from collections.abc import Iterator

# Three views of one idea: a run of letters and digits; its letters alone; and as it is spoken, where an
# apostrophe or a hyphen joins ("don't", "pre-commit").
WORD = lazy_pattern(r"[^\W_]+")
LETTERS = lazy_pattern(r"[^\W\d_]+")
SPOKEN = lazy_pattern(r"[^\W_]+(?:['’-][^\W_]+)*")

# A sentence ends at its mark and what closes with it, before white space; Asian marks need none.
SENTENCE_END = lazy_pattern(r"(?<![.!?…])[.!?…]++[\"'”’»)\]]*+\s+|[。！？｡]+[」』”’）]*\s*")
_ABBREVIATED = (  # as a text, like others below: compiled when it is first used
    r"(?i:\b(?:e\.g|i\.e|etc|vs|cf|approx|resp|nos?|nr|z\.b|d\.h|bzw|p\.ex|dr|mr|mrs|ms|st|fig|sec|ca)|\b[a-z])\."
)
_LONGEST_ABBREVIATION = 8


def sentence_spans(text: str, *, lines: bool = False) -> Iterator[tuple[int, int]]:
    """Yield the begin and end of each sentence, without trailing space; with `lines`, a line end ends a
    sentence.
    """
    start = 0
    ends = re.finditer(rf"{SENTENCE_END.pattern}|\n", text) if lines else SENTENCE_END.finditer(text)
    for match in ends:
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
    return any(match.end() == len(tail) for match in re.finditer(_ABBREVIATED, tail))


def split_sentences(text: str, *, lines: bool = False) -> list[str]:
    """Return the sentences of a text; with `lines`, a line end ends a sentence."""
    return [text[start:end] for start, end in sentence_spans(text, lines=lines)]


def may_cite(text: str) -> bool:
    """Whether a text may cite a path or a name of code; most texts do not, and need no check
    against files.
    """
    return re.search(r"[/`]|\w\.[a-zA-Z]", text) is not None


def is_command(text: str) -> bool:
    """Whether a text is a command to the chat program, such as `/new`; a path such as
    `/etc/hosts` is no command.
    """
    return re.match(r"/[\w:-]+(?:\s|$)", text.strip()) is not None


SILENCE = "NO_REPLY"  # what a model answers that has nothing to say to the person
SILENCE_WRAP = r"""[\s*`"'(\[<]{0,32}"""  # what models put around it
_SILENT = lazy_pattern(rf"{SILENCE_WRAP}{SILENCE}(?![\w-])", re.IGNORECASE)


def is_silent(text: str) -> bool:
    """Whether a reply consists only of the mark by which an agent asks to show nothing."""
    return _SILENT.match(text) is not None


def normalise(text: str) -> str:
    """Return a text with each run of white space as one blank and with its characters composed (NFC)."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_same_text(one: str, other: str) -> bool:
    """Whether two texts are equal, except for white space and the composition of characters."""
    return normalise(one) == normalise(other)


# -------------------------------------------------------------------- what can be seen
# What is on disk keeps every character, since some scripts need them; whatever is shown to a person or put
# before a model goes through here.

# Escape sequences of terminals, whole where they are whole.
_SEQUENCES = (
    "\x1b(?:\\[[0-?]*[ -/]*[@-~]|[\\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\\\)?|[ -/]*[0-~])?|\x9b[0-?]*[ -/]*[@-~]"
)
# Every character of the Unicode property Default_Ignorable_Code_Point; Python's tables do not have it.
_IGNORABLE = (
    "\u00ad\u034f\u061c\u115f-\u1160\u17b4-\u17b5\u180b-\u180f\u200b-\u200f\u202a-\u202e\u2060-\u206f\u3164"
    "\ufe00-\ufe0f\ufeff\uffa0\ufff0-\ufff8\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
# Controls but for tab and line feed, marks of annotations, halves of characters, private characters.
_UNSEEN = (
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ufff9-\ufffb\ud800-\udfff\ue000-\uf8ff"
    f"\U000f0000-\U000ffffd\U00100000-\U0010fffd{_IGNORABLE}]"
)
_BREAKS = "\r\n|[\r\x0b\x0c\x1c-\x1e\x85\u2028\u2029]"


def visible(text: str) -> str:
    """Return a text without characters that move a cursor, change a colour or hide text."""
    if text.isascii() and text.isprintable():
        return text
    return re.sub(_UNSEEN, "", re.sub(_SEQUENCES, "", re.sub(_BREAKS, "\n", text)))


def spelled(text: str) -> str:
    """Return a text with invisible characters written as names, for a person who decides about the text."""
    return re.sub(_UNSEEN, lambda found: f"⟨U+{ord(found[0]):04X}⟩", text)
