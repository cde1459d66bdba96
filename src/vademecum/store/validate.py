"""What counts as a text: what is accepted from a caller or an editor, and what can be read from a file."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import InvalidText, Malformed, SecretFound, UsageError
from vademecum.store import clock, document, names, secrets
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from vademecum.types import Record


def accept_text(text: str | bytes, *, largest: int) -> str:
    """A caller's text as it will be kept; refused when empty, too long or not text."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise InvalidText(f"the text is not UTF-8 (byte {error.start})") from error
    if not isinstance(text, str):
        raise InvalidText(f"a text is wanted, not {type(text).__name__}")
    if "\0" in text:
        raise InvalidText("the text holds a NUL byte")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidText("the text holds half a surrogate pair, which UTF-8 cannot hold") from error
    if size > largest:
        raise InvalidText(
            f"the text is {size:,} bytes long; at most {largest:,} are kept in one entry",
            hint="attach the file's folder with `vade sources add`, or raise limits.content_bytes",
        )
    kept = document.tidy(text.removeprefix("\ufeff"))
    if not kept.strip():
        raise InvalidText("the text is empty")
    return kept


def decode(content: bytes) -> str:
    """The text of a file; anything but UTF-8 is malformed."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from error
    if "\0" in text:
        raise Malformed("holds NUL bytes")
    return text


_LONGEST_TAG = 200
# By these a record is known to others: to the archive, the audit and every link to it.
_FIXED = ("id", "num", "key")


def check_document(text: str, *, largest: int) -> str:
    """Return a whole document if it could be read again; an empty one could."""
    if text.strip():
        accept_text(text, largest=largest)
    return text


def check_record(before: str, after: Record, *, largest: int) -> None:
    """Refuse a record that lost its identity, its type or all its text; one that was broken had none."""
    try:
        old = document.parse(before)
    except Malformed:
        old = None
    if not any(entry.text.strip() for entry in after.entries):
        raise InvalidText("no entry with a text is left", hint="to drop the record run `vade forget`")
    known = {entry.text for entry in old.entries} if old else set()
    for entry in after.entries:
        if entry.text.strip() and entry.text not in known:
            accept_text(entry.text, largest=largest)
    if old is None:
        return
    values, kind = old.front.values, after.fields.get("type")
    if kind is not None and kind != values.get("type"):
        names.parse_type(str(kind))
    for name in _FIXED:
        if after.fields.get(name) != values.get(name):
            raise UsageError(f"the {name} of {after.key} cannot be changed", hint=f"leave its line `{name}:`")


def rewrite(raw: str, text: str, *, at: datetime) -> str:
    """A record's file in which `text` is what holds now.

    A change inside one entry is made there. One that reaches over several becomes the first of them, and the
    others are marked superseded.
    """
    parsed = document.parse(raw)
    alive = [index for index, section in enumerate(parsed.sections) if section.live]
    alive = alive or [len(parsed.sections) - 1]
    living = [parsed.text_of(parsed.sections[index]) for index in alive]
    for place, index in enumerate(alive):
        before = "".join(f"{each}\n\n" for each in living[:place])
        after = "".join(f"\n\n{each}" for each in living[place + 1 :])
        inner = text[len(before) : len(text) - len(after)]
        if text == f"{before}{inner}{after}" and inner.strip():
            return _put(parsed, index, inner)
    for index in alive[1:]:
        raw = document.sign(document.parse(raw), index, superseded=clock.stamp(at))
    return _put(document.parse(raw), alive[0], text)


def _put(parsed: document.Document, index: int, text: str) -> str:
    section = parsed.sections[index]
    was = parsed.source[section.text_start : section.text_end]
    lead, tail = len(was) - len(was.lstrip("\r\n")), len(was.rstrip("\r\n"))
    words = document.escape(document.tidy(text))
    return f"{parsed.source[: section.text_start + lead]}{words}{parsed.source[section.text_start + tail :]}"


def clean_tags(given: Iterable[str], policy: SecretPolicy) -> tuple[str, ...]:
    """Tags, cleaned and each once."""
    cleaned = [accept_text(tag, largest=_LONGEST_TAG) for tag in given]
    for tag in cleaned:
        if "\n" in tag or "," in tag:
            raise UsageError(f"the tag {names.shown(tag)} must be one line without commas")
        if policy is not SecretPolicy.WARN and secrets.find(tag):
            raise SecretFound("a tag holds a secret")
    return tuple(dict.fromkeys(cleaned))
