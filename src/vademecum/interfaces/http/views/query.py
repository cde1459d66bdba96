"""Reader of values in a query string."""

from __future__ import annotations


def read_number(text: str | None, default: int = 0) -> int:
    """Return the number in a query string's value; the default for an invalid or far too large one."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else default
