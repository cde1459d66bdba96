"""Check and make names: keys, ids and tags.

A name may have to serve as a file or folder name, and never contains a secret.
"""

from __future__ import annotations

import hashlib
import os
import re
import time
import unicodedata
from typing import TYPE_CHECKING

from vademecum.errors import InvalidKey, SecretFound, UnknownName
from vademecum.lazy import lazy_pattern
from vademecum.text import secrets
from vademecum.text.outgoing import clean_text
from vademecum.types import RecordType

if TYPE_CHECKING:
    from collections.abc import Iterable

LONGEST_KEY = 60
_KEY = lazy_pattern(r"[a-z0-9-]{1,60}")
_PLAIN = lazy_pattern(r"(?!-{1,60}\.md$)[a-z0-9-]{1,60}\.md")
_ID = lazy_pattern(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,126}[A-Za-z0-9_-]|[A-Za-z0-9_-]")
# Names that Windows gives to devices, with any ending: a memory must be copyable to every system.
_DEVICES = {"con", "prn", "aux", "nul", "conin$", "conout$"} | {
    f"{port}{n}" for port in ("com", "lpt") for n in range(10)
}
# `index.md` and `log.md` are listings, never records.
_RESERVED = _DEVICES | {"index", "log"}


def is_key(key: str) -> bool:
    """Whether a text can be the key of a record, on every operating system."""
    return bool(_KEY.fullmatch(key)) and key not in _RESERVED and key.strip("-") != ""


def not_keys(files: Iterable[str]) -> list[str]:
    """Return those file names that are not a valid key followed by `.md`."""
    plain = _PLAIN.fullmatch
    return [name for name in files if not plain(name) or name[:-3] in _RESERVED]


def is_device(name: str) -> bool:
    """Whether Windows reserves this name for a device."""
    return name.partition(".")[0].lower() in _DEVICES


def is_new_key(key: str) -> bool:
    """Whether a new record may have this key: a valid key that does not begin with a dash."""
    return is_key(key) and not key.startswith("-")


def check_key(key: str) -> str:
    """Return a key that is valid as a file name on every system and does not look like an
    option; else raise.
    """
    if not is_key(key):
        raise InvalidKey(f"{shown(key)} is not a key that works as a file name on every system")
    if not is_new_key(key):
        hint = "start it with a letter or a digit"
        raise InvalidKey(f"{shown(key)} begins with a dash, like an option", hint=hint)
    return key


def check_id(name: str, what: str) -> str:
    """Return an id that is valid as a folder name on every operating system; raise for any other."""
    if not _ID.fullmatch(name) or name.partition(".")[0].lower() in _DEVICES:
        raise InvalidKey(
            f"{shown(name)} cannot be the name of {what}",
            hint="use up to 128 letters, digits, `.`, `_` and `-`, not beginning or ending with a dot",
        )
    return name


# Latin letters that have no form without a mark.
_LETTERS = str.maketrans(
    {"ß": "ss", "ẞ": "SS", "æ": "ae", "Æ": "AE", "œ": "oe", "Œ": "OE", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L"}
)


def slug(text: str, *, words: int | None = None) -> str:
    """Return a key made from a text, of at most `words` words.

    A text without Latin letters or digits becomes a hash. Without `words`, a valid key stays unchanged.
    """
    if words is None and is_new_key(text):
        return text
    plain = unicodedata.normalize("NFKD", text.translate(_LETTERS))
    latin = plain.encode("ascii", "ignore").decode().lower()
    parts = re.findall(r"[a-z0-9]+", re.sub(r"['’]", "", latin))[:words]
    key = "-".join(parts)[:LONGEST_KEY].strip("-")
    if not is_key(key):
        key = f"memory-{hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"
    return key


def auto_key(text: str) -> str:
    """Return the key of a text saved without one: its first six words."""
    return slug(text, words=6)


def numbered(key: str, number: int) -> str:
    """Return a key with a number added at its end, cut to the maximum length of keys."""
    suffix = f"-{number}"
    return key[: LONGEST_KEY - len(suffix)].rstrip("-") + suffix


def title(key: str, wanted: str) -> str:
    """Return a key as words; a number that was only added because the `wanted` key was in use is left out."""
    number = key.rpartition("-")[2]
    clash = number.isdecimal() and wanted and key != wanted and key == numbered(wanted, int(number))
    return (wanted if clash else key).replace("-", " ").strip().capitalize()


def folded(name: str) -> str:
    """Return a name in the form in which file systems that ignore case and composition compare names."""
    if name.isascii():
        return name.lower().rstrip(". ")
    return unicodedata.normalize("NFC", unicodedata.normalize("NFC", name).casefold()).rstrip(". ")


def shown(name: str) -> str:
    """Return a name as messages show it: in quotation marks, short, without control characters
    and secrets.
    """
    name = clean_text(name)
    return repr(name if len(name) <= 80 else name[:77] + "...")


_MARK = r"\[REDACTED:[a-z0-9-]{1,60}\]"  # texts, compiled when a key is made of one
_NAMED = r"[\w.-]{0,40}(?:key|token|secret|passw\w{1,10}|pwd|credentials?)\w{0,10}[\"']?"
_ASSIGNED = rf"(?i)({_NAMED})\s{{0,3}}[:=]\s{{0,3}}\S{{8,}}"
_RUN = r"[A-Za-z0-9]{16,}"


def without_secret(name: str, what: str) -> str:
    """Return a name that contains no secret; raise if it contains one, since names cannot be
    redacted later.
    """
    if secrets.find(name):
        raise SecretFound(f"{what} contains what looks like a secret", hint="choose another name")
    return name


def client_label(installed: str, name: str = "", version: str = "") -> str:
    """Return a name for a program from the name we installed it under and the name and version it sends.

    For example `codex codex-mcp-client/0.9`. A client may send anything as its name: only plain words are
    kept, and no secret.
    """
    own, client, number = (_client_word(each) for each in (installed, name, version))
    label = f"{client}/{number}" if client and number else client
    return label if client == own else " ".join(each for each in (own, label) if each)


def _client_word(text: str) -> str:
    word = re.sub(r"[^A-Za-z0-9._+@-]+", "-", text[:200]).strip("-")[:40]
    return "" if secrets.find(word) or not any(map(str.isalnum, word)) else word


def key_from(text: str) -> str:
    """Return a key for a text stored without one: its first words, without any that could be a secret.

    A file's name is seen by everybody, so the test is stricter than for a secret in a text: values assigned
    to a name like `api_key` are left out, and so are long runs of letters and digits, samples included.
    """
    clean = secrets.redact(text, secrets.find(text))
    clean = re.sub(_RUN, _or_nothing, re.sub(_ASSIGNED, r"\1 ", re.sub(_MARK, " ", clean)))
    if not any(each.isalnum() for each in clean):
        clean = f"memory {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"
    return auto_key(clean)


def _or_nothing(run: re.Match[str]) -> str:
    """Return a long word as it is, or a blank if the word mixes letters and digits."""
    letters, digits = any(map(str.isalpha, run[0])), any(map(str.isdecimal, run[0]))
    return " " if letters and digits else run[0]


_UUID = lazy_pattern(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")


def parse_type(name: str | RecordType) -> RecordType:
    """Return the record type with that name; raise an error when there is none."""
    try:
        return RecordType(name)
    except ValueError:
        raise UnknownName(
            f"{shown(str(name))} is not a type", hint=f"the types are {', '.join(RecordType)}"
        ) from None


def new_id() -> str:
    """Return a new unique id."""
    moment = time.time_ns() // 1_000_000
    tail = int.from_bytes(os.urandom(10), "big")
    value = (
        (moment & (1 << 48) - 1) << 80 | 7 << 76 | (tail >> 68 & 0xFFF) << 64 | 2 << 62 | tail & (1 << 62) - 1
    )
    text = f"{value:032x}"
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"


_CROCKFORD = "0123456789abcdefghjkmnpqrstvwxyz"  # no letter that is taken for another, and no `u`


def new_mark(length: int = 10) -> str:
    """Return random letters and digits that are easy to read out, as the id of an entry or a home."""
    drawn = int.from_bytes(os.urandom((length * 5 + 7) // 8), "big")
    return "".join(_CROCKFORD[drawn >> 5 * place & 31] for place in range(length))


def is_id(text: str) -> bool:
    """Whether a text has the form of an id."""
    return bool(_UUID.fullmatch(text))
