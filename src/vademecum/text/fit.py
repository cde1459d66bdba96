"""Fit texts into the number of characters that a reader takes at once, counted as JSON counts them."""

from __future__ import annotations

import json
from typing import Any


def json_size(value: Any) -> int:
    """Return the number of characters of a value as compact JSON."""
    return len(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def cut_to(text: str, room: int) -> str:
    """Return the beginning of a text that fits into `room` characters of JSON, cut at a line end if one is
    near.

    The result has at least one character of the text, so that reading part after part always reaches the end.
    """
    if json_size(text) <= room:
        return text
    low, high = 1, max(1, min(len(text), room))
    while low < high:
        middle = (low + high + 1) // 2
        if json_size(text[:middle]) <= room:
            low = middle
        else:
            high = middle - 1
    line_end = text.rfind("\n", low // 2, low)
    return text[: line_end + 1] if line_end >= 0 else text[:low]
