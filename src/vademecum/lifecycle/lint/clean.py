"""Texts in which no secret was found, by their hash: those need not be looked through again.

Looking for secrets takes more time than everything else together. The file is derived and safe to delete; it
holds for one set of rules, and one that cannot be read or written costs nothing but time.
"""

from __future__ import annotations

import contextlib
import hashlib
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING

from vademecum.errors import VadeError
from vademecum.store import files

if TYPE_CHECKING:
    from vademecum.store.home import Home

NAME = "clean"
MOST = 100_000
_SIZE = 16


class Clean:
    """What is known to be clean; without a home it remembers nothing."""

    def __init__(self, home: Home | None = None) -> None:
        self._home = home
        self._known = _parse(_read(home)) if home is not None else set()
        self._used: set[bytes] = set()

    def __contains__(self, text: str) -> bool:
        mark = _mark(text)
        found = mark in self._known
        if found:
            self._used.add(mark)
        return found

    def add(self, text: str) -> None:
        """Remember a text in which nothing was found."""
        self._used.add(_mark(text))

    def save(self) -> None:
        """Keep it for the next time, where that can be done."""
        if self._home is None or self._used <= self._known:
            return
        with (
            contextlib.suppress(VadeError, OSError),
            self._home.folder("index", create=True) as folder,
        ):
            files.update(folder, NAME, lambda before: _render(self._used, _parse(before)))


def _read(home: Home) -> bytes | None:
    try:
        return home.read("index", NAME)
    except (VadeError, OSError):
        return None


def _parse(content: bytes | None) -> set[bytes]:
    """The marks of a file that was made by the same rules; a torn one says nothing."""
    body = (content or b"").removeprefix(_rules())
    if content is None or len(body) == len(content) or len(body) % _SIZE:
        return set()
    return {body[at : at + _SIZE] for at in range(0, len(body), _SIZE)}


def _render(used: set[bytes], before: set[bytes]) -> bytes:
    """What was used now, and as much of the rest as there is room for."""
    rest = sorted(before - used)[: max(0, MOST - len(used))]
    return _rules() + b"".join([*sorted(used)[:MOST], *rest])


def _mark(text: str) -> bytes:
    return hashlib.sha256(text.encode()).digest()[:_SIZE]


@cache
def _rules() -> bytes:
    """The rules that are in force: their very text, so that no change of them is overlooked."""
    return hashlib.sha256(resources.files("vademecum.store").joinpath("secrets.py").read_bytes()).digest()
