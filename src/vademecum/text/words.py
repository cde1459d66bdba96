"""A text without what does not count when it is compared: white space, and how characters are composed."""

from __future__ import annotations

import unicodedata


def normalise(text: str) -> str:
    """A text with its white space folded and its characters composed."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def is_same_text(one: str, other: str) -> bool:
    """Whether two texts say the same, white space and composition of characters aside."""
    return normalise(one) == normalise(other)
