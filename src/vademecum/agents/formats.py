"""The transcripts that agents keep: which format a file is in, where they lie, and whose a path is."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.agents import registry
from vademecum.errors import NotFound, OutsideMemory, UnknownName
from vademecum.transcripts.reading import head_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vademecum.agents.base import TranscriptFormat

_ENDINGS = {".json", ".jsonl"}


def known() -> list[TranscriptFormat]:
    """All formats; those with the plainest marks first, and last the one that takes any list of messages."""
    found = [each.transcripts for each in registry.known() if each.transcripts is not None]
    return sorted(found, key=lambda each: each.rank)


def named(name: str) -> TranscriptFormat:
    """The format of that name."""
    agent = registry.find(name)
    if agent is not None and agent.transcripts is not None and agent.transcripts.name == name:
        return agent.transcripts
    for each in known():
        if each.name == name:
            return each
    names = ", ".join(each.name for each in known())
    raise UnknownName(f"there is no transcript format {name!r}", hint=f"use one of {names}")


def recognise(path: Path) -> TranscriptFormat | None:
    """The format a file is in, by its first bytes and its name; None when nobody knows it."""
    if not path.is_file():
        return None
    head = head_of(path)
    return next((each for each in known() if each.recognises(head, path)), None)


def find_all(person: Path) -> Iterator[tuple[TranscriptFormat, Path]]:
    """The transcripts that agents keep below a person's home folder."""
    seen: set[str] = set()
    for each in known():
        for name, pattern in each.folders.items():
            folder = person / name
            for path in sorted(each.files(folder, pattern)) if folder.is_dir() else ():
                real = os.path.realpath(path)
                if real not in seen:
                    seen.add(real)
                    yield each, path


def find_in(path: Path, *, without: Path) -> Iterator[tuple[TranscriptFormat, Path]]:
    """A file, or the transcripts of any format in a folder and those below it, but not our own."""
    if path.is_file():
        one = recognise(path)
        if one is None:
            formats = ", ".join(each.name for each in known())
            raise NotFound(f"{path} is no transcript that is known here", hint=f"the formats are {formats}")
        yield one, path
        return
    if not path.is_dir():
        raise NotFound(f"{path} is not there", hint="give a file or folder of transcripts, or --all")
    own = os.path.realpath(without)
    for top, folders, found in os.walk(path):
        folders[:] = sorted(
            each for each in folders if os.path.realpath(os.path.join(top, each)) != own and each != ".git"
        )
        for name in sorted(found):
            each = Path(top, name)
            if each.suffix in _ENDINGS and (one := _readable(each)) is not None:
                yield one, each


def _readable(path: Path) -> TranscriptFormat | None:
    try:
        return recognise(path)
    except OSError:
        return None


def find_owned(
    path: str, agent: str, *, person: Path, environ: Mapping[str, str]
) -> tuple[TranscriptFormat, Path]:
    """The file itself and its format; refuses what is not in its agent's folder, however written."""
    one = named(agent)
    if not os.path.isabs(path) or "\0" in path:
        raise OutsideMemory("the path of a transcript is not absolute", hint="give the whole path")
    real = os.path.realpath(path)
    if not any(_within(real, os.path.realpath(folder)) for folder in _folders(one, person, environ)):
        raise OutsideMemory(
            f"{path} is not in the folder of {agent}", hint="import it yourself with `vade sessions import`"
        )
    try:
        state = os.lstat(real)
    except OSError:
        raise NotFound(f"{path} is not there") from None
    if not stat.S_ISREG(state.st_mode):  # a pipe would be waited for
        raise OutsideMemory(f"{path} is not a file", hint="give the file of a transcript")
    return one, Path(real)


def _folders(one: TranscriptFormat, person: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    for name in one.folders:
        yield person / name
    variable, below = one.moved
    moved = environ.get(variable, "")
    if os.path.isabs(moved):
        for name in below:
            yield Path(moved, name)


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
