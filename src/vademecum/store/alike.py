"""Are two texts the same statement, worded a little differently?

Likeness of letters alone takes "Ticket 101" and "Ticket 102", or "do" and "do not", for one. So beside being
alike as a whole, two texts must not differ in a number or a negation.
"""

from __future__ import annotations

import re

_WORD = re.compile(r"[^\W_]+(?:['’][^\W_]+)?")
_NEGATIONS = frozenset(
    """not no never none nobody nothing nowhere neither nor without cannot cant dont doesnt didnt isnt arent
    wasnt werent wont wouldnt shouldnt couldnt mustnt stop avoid except unless instead""".split()
)

_BEYOND_LETTERS = 0x530  # after Latin, Greek and Cyrillic


def likeness(one: str, other: str, *, threshold: float) -> float | None:
    """How alike two texts are, from the threshold to 100; None when they say different things."""
    from rapidfuzz import fuzz

    first, second = one.strip().lower(), other.strip().lower()
    found = fuzz.token_sort_ratio(first, second, score_cutoff=threshold)
    if found < threshold or _differ(first, second):
        return None
    return float(found)


def is_negation(word: str) -> bool:
    """Whether a word, in small letters and without apostrophes, turns a statement round."""
    return word in _NEGATIONS


def is_slip(one: str, other: str) -> bool:
    """Whether one word may be the other one mistyped: a letter or two, in a word long enough to tell.

    Only of scripts that write a word with many letters: in others a single sign is a word of its own.
    """
    from rapidfuzz.distance import OSA

    longer = max(len(one), len(other))
    allowed = 0 if longer < 5 else 1 if longer < 8 else 2
    if not one or not other or max(map(ord, one + other)) >= _BEYOND_LETTERS:
        return False
    return allowed > 0 and OSA.distance(one, other, score_cutoff=allowed) <= allowed


def _differ(one: str, other: str) -> bool:
    """Whether the words in which two texts differ change what is said."""
    first, second = set(_words(one)), set(_words(other))
    return any(_telling(word) for word in first ^ second)


def _telling(word: str) -> bool:
    return word in _NEGATIONS or any(letter.isdigit() for letter in word)


def _words(text: str) -> list[str]:
    return [word.replace("'", "").replace("’", "") for word in _WORD.findall(text)]
