"""The short words around a text, its key and its tags, which have no need of a secret."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import SecretFound, UsageError
from vademecum.store import names, secrets, texts
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_TAG = 200


def without_secret(name: str, what: str) -> str:
    """Return a name that becomes a file's, whatever the policy for texts: it cannot be redacted later."""
    if secrets.find(name):
        raise SecretFound(f"{what} holds what looks like a secret", hint="choose another name")
    return name


def tags(given: Iterable[str], policy: SecretPolicy) -> tuple[str, ...]:
    """Tags, cleaned and each once."""
    cleaned = [texts.accept(tag, largest=_LONGEST_TAG) for tag in given]
    for tag in cleaned:
        if "\n" in tag or "," in tag:
            raise UsageError(f"the tag {names.shown(tag)} must be one line without commas")
        if policy is not SecretPolicy.WARN and secrets.find(tag):
            raise SecretFound("a tag holds a secret")
    return tuple(dict.fromkeys(cleaned))
