"""Recognise the files of memory by their names: records, days of a journal, pinned documents."""

from __future__ import annotations

import re

from vademecum.lazy import lazy_pattern
from vademecum.text import names

RECORDS = "records"
JOURNAL = "journal"
PINNED = "pinned"  # what the archive calls pinned documents, which lie in no folder of their own

MEMORY = "MEMORY.md"
CONTEXT = "context.md"
PROFILE = "profile.md"
DOCUMENTS = (MEMORY, CONTEXT, PROFILE)

LISTING = "index.md"  # generated
_GENERATED = (LISTING, "log.md")
_DAY = lazy_pattern(r"\d{4}-\d\d-\d\d(?:-[a-z0-9-]{1,60})?\.md")
_CONFLICT = lazy_pattern(r".+\.conflict-\d{8}T\d{6}-[0-9a-f]{16}(?:\.[^.]+)?", re.DOTALL)


def is_record(name: str) -> bool:
    """Whether a file of this name can be a record: hidden files, listings and conflict files cannot."""
    return (
        name.endswith(".md")
        and name[0] != "."
        and name not in _GENERATED
        and (".conflict-" not in name or not is_conflict(name))
    )


def key_of(name: str) -> str:
    """Return the key of a record by its file name: the name itself, or a key made from it if it is no valid
    key.
    """
    stem = name.removesuffix(".md")
    return stem if names.is_key(stem) else names.slug(stem)


def is_day(name: str) -> bool:
    """Whether a file of this name can be a day of a journal: its date, perhaps followed by a few words."""
    return bool(_DAY.fullmatch(name))


def is_document(name: str) -> bool:
    """Whether a name is that of a pinned document, in capitals or small letters."""
    return name.lower() in {known.lower() for known in DOCUMENTS}


def is_conflict(name: str) -> bool:
    """Whether a file is a person's version that a write displaced; only the person removes such a file."""
    return bool(_CONFLICT.fullmatch(name))
