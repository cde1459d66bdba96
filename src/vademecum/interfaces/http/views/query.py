"""Words in an address, read as what they mean."""

from __future__ import annotations


def read_number(text: str | None, default: int = 0) -> int:
    """A number that was written in an address; what is none, or absurdly large, counts as the default."""
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 10 else default
