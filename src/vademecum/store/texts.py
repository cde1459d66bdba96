"""What counts as a text: what is accepted from a caller, and what can be read from a file."""

from __future__ import annotations

from vademecum.errors import InvalidText, Malformed
from vademecum.store import document


def accept(text: str | bytes, *, largest: int) -> str:
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
