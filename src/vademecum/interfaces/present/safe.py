"""What leaves through an interface: no secret goes with it, and nothing in it hides what it says."""

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
    """Whether a text holds what looks like a secret."""
    return clean_text(text) != text


def safe_text(text: str) -> str:
    """A text as it is sent."""
    return visible(clean_text(text))


def safe_answer(value: Mapping[str, Any]) -> dict[str, Any]:
    """An answer as it is sent."""
    made: dict[str, Any] = _shown(clean_value(dict(value)))
    return made


def _shown(value: Any) -> Any:
    """A value whose texts are all as they look; what is not known is left out, as nobody need read that."""
    if isinstance(value, str):
        return visible(value)
    if isinstance(value, dict):
        return {visible(str(name)): _shown(each) for name, each in value.items() if each is not None}
    if isinstance(value, list | tuple):
        return [_shown(each) for each in value]
    return value
