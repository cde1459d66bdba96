"""Every agent that is known, ours and those that other packages bring, and the transcripts they keep.

One is loaded when it is asked for by its name, all only for a list. Another package names its agent as an
entry point in the group `vademecum.agents`; a name that is ours stays ours.
"""

from __future__ import annotations

import os
import stat
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum import agents
from vademecum.agents.base import Agent
from vademecum.errors import Malformed, NotFound, OutsideMemory, UnknownName

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from importlib.metadata import EntryPoint

    from vademecum.agents.base import TranscriptFormat

GROUP = "vademecum.agents"
# In lists these come first, in the order people know; all others follow by name.
_FIRST = ("clio", "cao", "openclaw", "co-cli", "claude-code", "codex", "cursor", "gemini", "kiro", "okf")


def find(name: str) -> Agent | None:
    """The agent of that name, without a look at any other; None when nobody knows it."""
    module = name.replace("-", "_")
    if module.isidentifier() and find_spec(f"{agents.__name__}.{module}") is not None:
        found = _shipped(module)
        if found is not None and found.name == name:
            return found
    entry = _outside().get(name)
    return None if entry is None else _loaded(entry)


@cache
def known() -> tuple[Agent, ...]:
    """All of them; a package whose agent cannot be loaded is left out, and told of when it is named."""
    found = {each.name: each for each in map(_shipped, _modules()) if each is not None}
    for name, entry in _outside().items():
        try:
            found.setdefault(name, _loaded(entry))
        except Malformed:
            continue
    first = {name: place for place, name in enumerate(_FIRST)}
    return tuple(sorted(found.values(), key=lambda each: (first.get(each.name, len(first)), each.name)))


def having(part: str) -> dict[str, Agent]:
    """Those that have a part, such as `hooks`, by name."""
    return {each.name: each for each in known() if getattr(each, part) is not None}


def _modules() -> list[str]:
    import pkgutil  # a hook, which knows the name, does without

    return [each.name for each in pkgutil.iter_modules(agents.__path__)]


def _shipped(module: str) -> Agent | None:
    """The agent of a module here; the few that serve the others have none."""
    found = getattr(import_module(f"{agents.__name__}.{module}"), "AGENT", None)
    return found if isinstance(found, Agent) else None


def _outside() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=GROUP)}


def _loaded(entry: EntryPoint) -> Agent:
    try:
        found = entry.load()
    except (ImportError, AttributeError, SyntaxError) as error:
        raise Malformed(
            f"the package that provides the agent {entry.name} cannot be loaded: {error}",
            hint="install another version, or uninstall it",
        ) from error
    if not isinstance(found, Agent) or found.name != entry.name:
        raise Malformed(
            f"{entry.value} is not an agent named {entry.name}",
            hint="it has to be a value of vademecum.agents.base.Agent",
        )
    return found


# -------------------------------------------------------------------- the transcripts they keep


_ENDINGS = {".json", ".jsonl"}


def transcript_formats() -> list[TranscriptFormat]:
    """All formats; those with the plainest marks first, and last the one that takes any list of messages."""
    found = [each.transcripts for each in known() if each.transcripts is not None]
    return sorted(found, key=lambda each: each.rank)


def transcript_format(name: str) -> TranscriptFormat:
    """The format of that name."""
    agent = find(name)
    if agent is not None and agent.transcripts is not None and agent.transcripts.name == name:
        return agent.transcripts
    for each in transcript_formats():
        if each.name == name:
            return each
    names = ", ".join(each.name for each in transcript_formats())
    raise UnknownName(f"there is no transcript format {name!r}", hint=f"use one of {names}")


def recognise_transcript(path: Path) -> TranscriptFormat | None:
    """The format a file is in, by its first bytes and its name; None when nobody knows it."""
    if not path.is_file():
        return None
    from vademecum.transcripts.reading import head_of  # a hook that only looks for its agent does without

    head = head_of(path)
    return next((each for each in transcript_formats() if each.recognises(head, path)), None)


def find_transcripts(person: Path) -> Iterator[tuple[TranscriptFormat, Path]]:
    """The transcripts that agents keep below a person's home folder."""
    seen: set[str] = set()
    for each in transcript_formats():
        for name, pattern in each.folders.items():
            folder = person / name
            for path in sorted(each.files(folder, pattern)) if folder.is_dir() else ():
                real = os.path.realpath(path)
                if real not in seen:
                    seen.add(real)
                    yield each, path


def find_transcripts_in(path: Path, *, without: Path) -> Iterator[tuple[TranscriptFormat, Path]]:
    """A file, or the transcripts of any format in a folder and those below it, but not our own."""
    if path.is_file():
        one = recognise_transcript(path)
        if one is None:
            formats = ", ".join(each.name for each in transcript_formats())
            raise NotFound(f"{path} is not a known transcript format", hint=f"the formats are {formats}")
        yield one, path
        return
    if not path.is_dir():
        raise NotFound(f"{path} does not exist", hint="give a file or folder of transcripts, or --all")
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
        return recognise_transcript(path)
    except OSError:
        return None


def find_owned_transcript(
    path: str, agent: str, *, person: Path, environ: Mapping[str, str]
) -> tuple[TranscriptFormat, Path]:
    """The file itself and its format; refuses what is not in its agent's folder, however written."""
    one = transcript_format(agent)
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
        raise NotFound(f"{path} does not exist") from None
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
