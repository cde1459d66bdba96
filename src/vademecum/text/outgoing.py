"""What may leave: texts, values and records in which every secret is replaced, whoever wrote it there.

The gate of `secrets` keeps secrets from being written; this one keeps those that stand in a file all the same
from going to a model, or into a file that is not ours: typed by hand, written by an earlier version that knew
fewer kinds, or kept under the policy `warn`. Knows nothing of who asks: whoever hands something out calls it.
A text is cleaned before it is cut, since half a secret is known to nobody as one.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import replace
from hashlib import blake2b
from typing import TYPE_CHECKING, Any

from vademecum.text import secrets
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vademecum.types import Entry, Record

_SHORTEST = 8  # characters; no password is looked for in less
_NAMED = 512  # how long a value may be that only the name of its field gives away
_REMEMBERED = 1 << 14  # texts that are known to be clean, by their hash
_HASHED = 200  # characters; to look through less takes no longer than to remember it

_noticed: ContextVar[set[str] | None] = ContextVar("noticed", default=None)
_known_clean: set[bytes] = set()


@contextlib.contextmanager
def noticing() -> Iterator[set[str]]:
    """The kinds of secrets that are replaced while this is open."""
    kinds: set[str] = set()
    token = _noticed.set(kinds)
    try:
        yield kinds
    finally:
        _noticed.reset(token)
        around = _noticed.get()
        if around is not None:
            around |= kinds


def clean_text(text: str) -> str:
    """A text as it may leave."""
    found = _found(text)
    return secrets.redact(text, found) if found else text


def clean_lines(text: str) -> str:
    """A text as it may leave, with as many lines as it had: whoever reads some of them counts the rest."""
    parts: list[str] = []
    at = 0
    for secret in _found(text):
        breaks = text.count("\n", secret.start, secret.end)
        parts += [text[at : secret.start], f"[REDACTED:{secret.kind}]", "\n" * breaks]
        at = secret.end
    return "".join([*parts, text[at:]]) if parts else text


def clean_value(value: Any) -> Any:
    """A JSON value as it may leave, and without numbers that JSON does not have."""
    clues = clues_of(dumped(value))
    return clean_within(value, clues) if any(clues) else value


def clean_record(record: Record) -> Record:
    """A record as it may leave: its texts, title, tags and other fields; its key and place stay."""
    title, tags = clean_text(record.title), clean_all(record.tags)
    entries = tuple(map(clean_entry, record.entries))
    clues = secrets.clues(json.dumps(record.fields, ensure_ascii=False, default=str))
    fields = clean_within(record.fields, clues) if any(clues) else record.fields
    same = title == record.title and tags == record.tags and fields == record.fields
    if same and all(one is other for one, other in zip(entries, record.entries, strict=True)):
        return record
    return replace(record, title=title, tags=tags, entries=entries, fields=fields)


def clean_entry(entry: Entry) -> Entry:
    """An entry as it may leave."""
    text = clean_text(entry.text)
    return entry if text == entry.text else replace(entry, text=text)


def clean_all(texts: Iterable[str]) -> tuple[str, ...]:
    """Texts as they may leave."""
    return tuple(map(clean_text, texts))


def _found(text: str) -> list[secrets.Secret]:
    """The secrets of a text; one that was looked through before is not looked through again."""
    if len(text) < _SHORTEST:
        return []
    if len(text) < _HASHED:
        return _told(secrets.find(text))
    mark = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    if mark in _known_clean:
        return []
    found = secrets.find(text)
    if not found:
        if len(_known_clean) >= _REMEMBERED:
            _known_clean.clear()
        _known_clean.add(mark)
    return _told(found)


def _told(found: list[secrets.Secret]) -> list[secrets.Secret]:
    kinds = _noticed.get()
    if kinds is not None:
        kinds.update(each.kind for each in found)
    return found


# -------------------------------------------------------------------- values


def dumped(value: Any) -> str:
    """A value as a line of JSON; nothing where it cannot be written before it is cleaned."""
    try:
        return _encoder.encode(value)
    except (ValueError, TypeError, RecursionError):  # numbers or things that JSON does not have
        return ""


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def clues_of(text: str) -> secrets.Clues:
    """Where searches of a line of JSON can start; everywhere, when there is no such line."""
    return secrets.clues(text) if text else secrets.EVERYTHING


def clean_within(value: Any, clues: secrets.Clues) -> Any:
    """The same of a value that is a part of what the clues are of."""
    if isinstance(value, str):
        return _clean_part(value, clues)
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, each in value.items():
            name = kept = _clean_part(key, clues) if isinstance(key, str) else str(key)
            while name in found:  # two secrets as names: both values stay
                name = f"{kept}-{len(found)}"
            found[name] = (
                _clean_named(key, each, clues) if isinstance(each, str) else clean_within(each, clues)
            )
        return found
    if isinstance(value, list | tuple):
        return [clean_within(each, clues) for each in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _clean_part(text: str, clues: secrets.Clues) -> str:
    if len(text) < _SHORTEST or not any(clues):
        return text
    kept, found = secrets.gate(text, SecretPolicy.REDACT, clues)
    if found:
        kinds = _noticed.get()
        if kinds is not None:
            kinds.update(found)
    if found and text.lstrip()[:1] in ("{", "["):
        # Arguments of a tool are JSON, and must be so without their secrets.
        with contextlib.suppress(ValueError, RecursionError):
            whole = json.loads(text)
            try:
                json.loads(kept)
            except ValueError:
                return json.dumps(clean_value(whole), ensure_ascii=False)
    return kept


def _clean_named(name: Any, text: str, clues: secrets.Clues) -> str:
    """A value without secrets, those included that only the name of the field gives away."""
    kept = _clean_part(text, clues)
    if kept == text and 4 <= len(text) <= _NAMED and any(clues) and name not in _OWN:
        found = secrets.find(json.dumps({str(name): text}, ensure_ascii=False), clues)
        if found:
            _told(found)
            return f"[REDACTED:{found[0].kind}]"
    return kept


_OWN = {"seq", "kind", "time", "id", "role", "type", "text", "name", "model", "media_type", "url", "data"}
