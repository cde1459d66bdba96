"""Redact secrets from texts, values and records before they leave memory.

The gate of `secrets` keeps secrets from being written. This module redacts secrets that stand in a file all
the same, typed by hand or kept under the policy `warn`, before they go to a model or into an exported file. A
text is redacted before it is cut, since half a secret is not recognised.
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
_known_clean: set[str | bytes] = set()


@contextlib.contextmanager
def noticing() -> Iterator[set[str]]:
    """Yield a set that collects the kinds of secrets redacted while this context is open."""
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
    """Return a text with its secrets redacted."""
    found = _find_secrets(text)
    return secrets.redact(text, found) if found else text


def clean_lines(text: str) -> str:
    """Return a text with its secrets redacted and with the same number of lines."""
    parts: list[str] = []
    at = 0
    for secret in _find_secrets(text):
        breaks = text.count("\n", secret.start, secret.end)
        parts += [text[at : secret.start], f"[REDACTED:{secret.kind}]", "\n" * breaks]
        at = secret.end
    return "".join([*parts, text[at:]]) if parts else text


def clean_value(value: Any) -> Any:
    """Return a JSON value with its secrets redacted, and None for numbers that JSON does not have."""
    clues = clues_of(dumped(value))
    return clean_within(value, clues) if any(clues) else value


def clean_record(record: Record) -> Record:
    """Return a record with secrets redacted from its entries, tags and fields; key and place stay."""
    from vademecum.fields import TYPED_TEXTS  # only a caller with records needs the table

    texts: dict[str, Any] = {
        name: clean_text(text) for name in TYPED_TEXTS if (text := getattr(record, name))
    }
    tags = clean_all(record.tags)
    entries = tuple(map(clean_entry, record.entries))
    clues = secrets.clues(json.dumps(record.fields, ensure_ascii=False, default=str))
    fields = clean_within(record.fields, clues) if any(clues) else record.fields
    same = tags == record.tags and fields == record.fields
    same = same and all(text == getattr(record, name) for name, text in texts.items())
    if same and all(one is other for one, other in zip(entries, record.entries, strict=True)):
        return record
    return replace(record, **texts, tags=tags, entries=entries, fields=fields)


def clean_entry(entry: Entry) -> Entry:
    """Return an entry without secrets."""
    text = clean_text(entry.text)
    return entry if text == entry.text else replace(entry, text=text)


def clean_all(texts: Iterable[str]) -> tuple[str, ...]:
    """Return texts without secrets."""
    return tuple(map(clean_text, texts))


def _find_secrets(text: str) -> list[secrets.Secret]:
    """Return the secrets of a text, and note their kinds; texts without secrets are remembered."""
    if len(text) < _SHORTEST:
        return []
    mark: str | bytes = text
    if len(text) >= _HASHED:
        mark = blake2b(text.encode(errors="surrogatepass"), digest_size=16).digest()
    if mark in _known_clean:
        return []
    found = secrets.find(text)
    if not found:
        if len(_known_clean) >= _REMEMBERED:
            _known_clean.clear()
        _known_clean.add(mark)
    return _note_kinds(found)


def _note_kinds(found: list[secrets.Secret]) -> list[secrets.Secret]:
    kinds = _noticed.get()
    if kinds is not None:
        kinds.update(each.kind for each in found)
    return found


# -------------------------------------------------------------------- values


def dumped(value: Any) -> str:
    """Return a value as a line of JSON; empty when JSON cannot express the value as it is."""
    try:
        return _encoder.encode(value)
    except (ValueError, TypeError, RecursionError):  # numbers or things that JSON does not have
        return ""


_encoder = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def clues_of(text: str) -> secrets.Clues:
    """Return where a search for secrets in a line of JSON can start; for an empty line, everywhere."""
    return secrets.clues(text) if text else secrets.EVERYTHING


def clean_within(value: Any, clues: secrets.Clues) -> Any:
    """Return a part of a JSON value with secrets redacted, given the clues found in the whole value."""
    if isinstance(value, str):
        return _clean_part(value, clues)
    if isinstance(value, Mapping):
        found: dict[str, Any] = {}
        for key, each in value.items():
            name = clean_key = _clean_part(key, clues) if isinstance(key, str) else str(key)
            while name in found:  # two secrets as names: both values stay
                name = f"{clean_key}-{len(found)}"
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
    result, found = secrets.gate(text, SecretPolicy.REDACT, clues)
    if found:
        kinds = _noticed.get()
        if kinds is not None:
            kinds.update(found)
    if found and text.lstrip()[:1] in ("{", "["):
        # Arguments of a tool are JSON, and must be so without their secrets.
        with contextlib.suppress(ValueError, RecursionError):
            whole = json.loads(text)
            try:
                json.loads(result)
            except ValueError:
                return json.dumps(clean_value(whole), ensure_ascii=False)
    return result


def _clean_named(name: Any, text: str, clues: secrets.Clues) -> str:
    """Return a field's text with secrets redacted, including those that only the field's name reveals."""
    result = _clean_part(text, clues)
    if result == text and 4 <= len(text) <= _NAMED and any(clues) and name not in _OWN:
        found = secrets.find(json.dumps({str(name): text}, ensure_ascii=False), clues)
        if found:
            _note_kinds(found)
            return f"[REDACTED:{found[0].kind}]"
    return result


_OWN = {"seq", "kind", "time", "id", "role", "type", "text", "name", "model", "media_type", "url", "data"}
