"""Keys and ids: which words may become the name of a file or folder."""

from __future__ import annotations

import hashlib
import re
import unicodedata

from vademecum.errors import InvalidKey
from vademecum.store.outgoing import clean_text

LONGEST_KEY = 60
_KEY = re.compile(r"[a-z0-9-]{1,60}")
_ID = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,126}[A-Za-z0-9_-]|[A-Za-z0-9_-]")
# Names that Windows gives to devices, with any ending: a memory must be copyable to every system.
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in range(10)
}
# `index.md` and `log.md` are listings, never records.
_RESERVED = _DEVICES | {"index", "log"}


def is_key(key: str) -> bool:
    """Whether this can name a record on every system."""
    return bool(_KEY.fullmatch(key)) and key not in _RESERVED and key.strip("-") != ""


def check_key(key: str) -> str:
    """Return the key if it can name a record on every system."""
    if not is_key(key):
        raise InvalidKey(f"{shown(key)} is not a key that every system can take as a file name")
    return key


def check_id(name: str, what: str) -> str:
    """Return the id if it can name a folder on every system."""
    if not _ID.fullmatch(name) or name.partition(".")[0].lower() in _DEVICES:
        raise InvalidKey(
            f"{shown(name)} cannot be the name of {what}",
            hint="use up to 128 letters, digits, `.`, `_` and `-`, not beginning or ending with a dot",
        )
    return name


def slug(text: str, *, words: int | None = None) -> str:
    """Make a key from any text; a text without Latin letters or digits gives one made from its hash."""
    latin = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode().lower()
    parts = re.findall(r"[a-z0-9]+", re.sub(r"['’]", "", latin))[:words]
    key = "-".join(parts)[:LONGEST_KEY].strip("-")
    if not is_key(key):
        key = f"memory-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"
    return key


def auto_key(text: str) -> str:
    """The key of a text stored without one: its first six words."""
    return slug(text, words=6)


def numbered(key: str, number: int) -> str:
    """The key with a suffix, kept within its length."""
    suffix = f"-{number}"
    return key[: LONGEST_KEY - len(suffix)].rstrip("-") + suffix


def title(key: str, wanted: str) -> str:
    """A key as words; the number that only tells it from the one wanted, which was taken, is none of them."""
    number = key.rpartition("-")[2]
    clash = number.isdecimal() and wanted and key != wanted and key == numbered(wanted, int(number))
    return (wanted if clash else key).replace("-", " ").strip().capitalize()


def folded(name: str) -> str:
    """A name as a file system that ignores case and composition sees it."""
    if name.isascii():
        return name.lower().rstrip(". ")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).rstrip(". ")


def shown(name: str) -> str:
    """A name for a message: quoted, short, without control characters and secrets."""
    name = clean_text(name)
    return repr(name if len(name) <= 80 else name[:77] + "...")
