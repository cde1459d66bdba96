"""The problems of the last sync with the shared folder and with each workspace, saved for status commands.

These say "everything was sent" only if there are no problems.
"""

from __future__ import annotations

import contextlib
import json
from typing import TYPE_CHECKING

from vademecum.text import outgoing

if TYPE_CHECKING:
    from collections.abc import Iterable

    from vademecum.store.home import Home

_TOP, _NAME = "hub", "problems.json"
_MOST = 100


def keep(home: Home, where: str, problems: Iterable[str]) -> None:
    """Save the problems of a sync with `where`: the id of a workspace, or `folder`."""
    listed = [" ".join(outgoing.clean_text(each).split()) for each in problems][:_MOST]
    with contextlib.suppress(FileNotFoundError), home.disk(_TOP, where) as folder:
        if listed != _parse(folder.read(_NAME)):
            folder.update(_NAME, lambda _: json.dumps(listed).encode() + b"\n")


def read(home: Home, where: str) -> list[str]:
    """Return the problems of the last sync with `where`."""
    with contextlib.suppress(FileNotFoundError, NotADirectoryError), home.disk(_TOP, where) as folder:
        return _parse(folder.read(_NAME))
    return []


def read_all(home: Home) -> dict[str, list[str]]:
    """Return the problems of the last syncs, by the folder below `hub/` in which they are kept."""
    return {name: found for name in home.names(_TOP) if (found := read(home, name))}


def _parse(content: bytes | None) -> list[str]:
    try:
        found = json.loads(content or b"[]")
    except ValueError:
        return []
    return [str(each) for each in found] if isinstance(found, list) else []
