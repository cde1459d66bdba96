"""Ids of records: version 7 UUIDs, unique and in the order of creation."""

from __future__ import annotations

import os
import re
import time

_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def new() -> str:
    """An id that nobody else has."""
    moment = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (
        (moment & (1 << 48) - 1) << 80 | 7 << 76 | (tail >> 68 & 0xFFF) << 64 | 2 << 62 | tail & (1 << 62) - 1
    )
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


def is_id(text: str) -> bool:
    """Whether this is written as an id is."""
    return bool(_UUID.fullmatch(text))
