"""Make output safe: without secrets, and without characters that hide text."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.text import visible
from vademecum.text.outgoing import clean_lines, clean_text, clean_value, noticing
from vademecum.text.secrets import find as find_secrets
from vademecum.text.secrets import gate as gate_secrets
from vademecum.text.secrets import mark as mark_secrets
from vademecum.text.secrets import redact as redact_secrets

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = [
    "clean_lines",
    "clean_text",
    "clean_value",
    "find_secrets",
    "gate_secrets",
    "has_secret",
    "mark_secrets",
    "noticing",
    "redact_secrets",
    "safe_answer",
    "safe_text",
]


def has_secret(text: str) -> bool:
    """Return whether a text contains something that looks like a secret."""
    return clean_text(text) != text


def safe_text(text: str) -> str:
    """Return a text without secrets and control characters."""
    return visible(clean_text(text))


def safe_answer(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return an answer with its texts made safe, and without fields that are None."""
    made: dict[str, Any] = _make_safe(clean_value(dict(value)))
    return made


def _make_safe(value: Any) -> Any:
    """Return a value with the texts in it made visible, and without fields that are None."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(str(name)): _make_safe(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_make_safe(each) for each in value]
    return value
