"""Whose transcript a path is: a file in its agent's own folder, and not a way out of it."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.errors import NotFound, OutsideMemory
from vademecum.transcripts.formats import registry

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vademecum.transcripts.formats.base import Format

# Variables that move an agent's folder, and what its transcripts are called in it.
_MOVED = {
    "claude-code": ("CLAUDE_CONFIG_DIR", ("projects",)),
    "codex": ("CODEX_HOME", ("sessions", "archived_sessions")),
}


def find(path: str, agent: str, *, person: Path, environ: Mapping[str, str]) -> tuple[Format, Path]:
    """The file itself and its format; refuses what lies elsewhere, however the path is written."""
    known = registry.named(agent)
    if not os.path.isabs(path) or "\0" in path:
        raise OutsideMemory("the path of a transcript is not absolute", hint="give the whole path")
    real = os.path.realpath(path)
    if not any(_within(real, os.path.realpath(folder)) for folder in _folders(known, person, environ)):
        raise OutsideMemory(
            f"{path} is not in the folder of {agent}", hint="import it yourself with `vade sessions import`"
        )
    try:
        state = os.lstat(real)
    except OSError:
        raise NotFound(f"{path} is not there") from None
    if not stat.S_ISREG(state.st_mode):  # a pipe would be waited for
        raise OutsideMemory(f"{path} is not a file", hint="give the file of a transcript")
    return known, Path(real)


def _folders(known: Format, person: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    yield from known.folders(person)
    name, below = _MOVED.get(known.name, ("", ()))
    moved = environ.get(name, "")
    if os.path.isabs(moved):
        for each in below:
            yield Path(moved, each)


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
