"""The short words around a text, its key and its tags, which have no need of a secret."""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING

from vademecum.errors import SecretFound, UsageError
from vademecum.store import names, secrets, texts
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST_TAG = 200
_MARK = re.compile(r"\[REDACTED:[a-z0-9-]{1,60}\]")
_NAMED = r"[\w.-]{0,40}(?:key|token|secret|passw\w{1,10}|pwd|credentials?)\w{0,10}[\"']?"
_ASSIGNED = re.compile(rf"(?i)({_NAMED})\s{{0,3}}[:=]\s{{0,3}}\S{{8,}}")
_RUN = re.compile(r"[A-Za-z0-9]{16,}")


def without_secret(name: str, what: str) -> str:
    """Return a name that becomes a file's, whatever the policy for texts: it cannot be redacted later."""
    if secrets.find(name):
        raise SecretFound(f"{what} holds what looks like a secret", hint="choose another name")
    return name


def key_from(text: str) -> str:
    """The key of a text stored without one: its first words, none of which is or could be a secret.

    A file's name is seen by everybody, so more is left out here than is taken for a secret in a text: what is
    assigned to a name like `api_key`, and long runs of letters and digits, samples included.
    """
    clean = secrets.redact(text, secrets.find(text))
    clean = _RUN.sub(_or_nothing, _ASSIGNED.sub(r"\1 ", _MARK.sub(" ", clean)))
    if not any(each.isalnum() for each in clean):
        clean = f"memory {hashlib.sha256(text.encode(errors='replace')).hexdigest()[:8]}"
    return names.auto_key(clean)


def _or_nothing(run: re.Match[str]) -> str:
    """A long word, unless it mixes letters and digits."""
    letters, digits = any(map(str.isalpha, run[0])), any(map(str.isdecimal, run[0]))
    return " " if letters and digits else run[0]


def tags(given: Iterable[str], policy: SecretPolicy) -> tuple[str, ...]:
    """Tags, cleaned and each once."""
    cleaned = [texts.accept(tag, largest=_LONGEST_TAG) for tag in given]
    for tag in cleaned:
        if "\n" in tag or "," in tag:
            raise UsageError(f"the tag {names.shown(tag)} must be one line without commas")
        if policy is not SecretPolicy.WARN and secrets.find(tag):
            raise SecretFound("a tag holds a secret")
    return tuple(dict.fromkeys(cleaned))
