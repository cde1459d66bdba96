"""Secrets that stand in memory; what they are is told, never what they say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lifecycle.lint.base import ERROR, SOURCE, WARNING, line_of
from vademecum.store import secrets

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.lifecycle.lint.base import Material
    from vademecum.lifecycle.lint.clean import Clean
    from vademecum.types import Finding

NAME = "secret"


def check(material: Material, clean: Clean) -> Iterator[Finding]:
    """Whatever looks like a secret, in whatever file."""
    for page in material.watch.each(material.pages, NAME):
        if page.text in clean:
            continue
        found = secrets.find(page.text)
        if not found:
            clean.add(page.text)
        for secret in found:
            line, last = line_of(page.text, secret.start), line_of(page.text, secret.end - 1)
            why = f"looks like a secret ({secret.kind}); `vade purge` also takes it out of the archive"
            theirs = page.kind == SOURCE
            if theirs:
                why = f"looks like a secret ({secret.kind}) in an attached file"
            yield page.found(NAME, why, line=line, last=last, severity=WARNING if theirs else ERROR)
