"""Registry of all known agents, built-in or from other packages, and of the transcripts they store.

An agent's module is loaded when the agent is asked for by name; all are loaded only for a list. Another
package registers its agent as an entry point in the group `vademecum.agents`; it cannot replace a built-in
agent.
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
# Lists show these first, in this order; the others follow by name.
_FIRST = ("clio", "cao", "openclaw", "co-cli", "claude-code", "codex", "cursor", "gemini", "kiro", "okf")


def find(name: str) -> Agent | None:
    """Return the agent with this name, without loading other agents; None if the name is unknown."""
    module = name.replace("-", "_")
    if module.isidentifier() and find_spec(f"{agents.__name__}.{module}") is not None:
        found = _agent_in(module)
        if found is not None and found.name == name:
            return found
    entry = _entry_points().get(name)
    return None if entry is None else _load(entry)


@cache
def known() -> tuple[Agent, ...]:
    """Return all agents; an agent that cannot be loaded is left out, and `find` raises its error."""
    found = {each.name: each for each in map(_agent_in, _modules()) if each is not None}
    for name, entry in _entry_points().items():
        try:
            found.setdefault(name, _load(entry))
        except Malformed:
            continue
    first = {name: place for place, name in enumerate(_FIRST)}
    return tuple(sorted(found.values(), key=lambda each: (first.get(each.name, len(first)), each.name)))


def having(part: str) -> dict[str, Agent]:
    """Return the agents that have a part, such as `hooks`, by name."""
    return {each.name: each for each in known() if getattr(each, part) is not None}


def _modules() -> list[str]:
    import pkgutil  # a hook knows its agent's name and does not need this import

    return [each.name for each in pkgutil.iter_modules(agents.__path__)]


def _agent_in(module: str) -> Agent | None:
    """Return the agent defined in a built-in module; None for a helper module."""
    found = getattr(import_module(f"{agents.__name__}.{module}"), "AGENT", None)
    return found if isinstance(found, Agent) else None


def _entry_points() -> Mapping[str, EntryPoint]:
    from importlib.metadata import entry_points

    return {each.name: each for each in entry_points(group=GROUP)}


def _load(entry: EntryPoint) -> Agent:
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


# -------------------------------------------------------------------- transcripts


_ENDINGS = {".json", ".jsonl"}


def transcript_formats() -> list[TranscriptFormat]:
    """Return all formats, most distinctive first; last the format that accepts any list of messages."""
    found = [each.transcripts for each in known() if each.transcripts is not None]
    return sorted(found, key=lambda each: each.rank)


def transcript_format(name: str) -> TranscriptFormat:
    """Return the transcript format with this name."""
    agent = find(name)
    if agent is not None and agent.transcripts is not None and agent.transcripts.name == name:
        return agent.transcripts
    for each in transcript_formats():
        if each.name == name:
            return each
    names = ", ".join(each.name for each in transcript_formats())
    raise UnknownName(f"there is no transcript format {name!r}", hint=f"use one of {names}")


def recognise_transcript(path: Path) -> TranscriptFormat | None:
    """Return the format of a transcript by the file's first bytes and name; None if unknown."""
    if not path.is_file():
        return None
    # a hook that only looks for its agent does not need this import
    from vademecum.transcripts.foreign import head_of

    head = head_of(path)
    return next((each for each in transcript_formats() if each.recognises(head, path)), None)


def find_transcripts(person: Path) -> Iterator[tuple[TranscriptFormat, Path]]:
    """Yield the transcripts that agents store below a person's home folder."""
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
    """Yield a file, or the transcripts of any format in a folder and below.

    The folder `without` and folders named `.git` are left out.
    """
    if path.is_file():
        format_ = recognise_transcript(path)
        if format_ is None:
            formats = ", ".join(each.name for each in transcript_formats())
            raise NotFound(f"{path} is not a known transcript format", hint=f"the formats are {formats}")
        yield format_, path
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
            if each.suffix in _ENDINGS and (format_ := _readable(each)) is not None:
                yield format_, each


def _readable(path: Path) -> TranscriptFormat | None:
    try:
        return recognise_transcript(path)
    except OSError:
        return None


def find_owned_transcript(
    path: str, agent: str, *, person: Path, environ: Mapping[str, str]
) -> tuple[TranscriptFormat, Path]:
    """Return a transcript's real path and format; raise an error if it is outside its agent's folder."""
    format_ = transcript_format(agent)
    if not os.path.isabs(path) or "\0" in path:
        raise OutsideMemory("the path of a transcript is not absolute", hint="give the whole path")
    real = os.path.realpath(path)
    if not any(_within(real, os.path.realpath(folder)) for folder in _folders(format_, person, environ)):
        raise OutsideMemory(
            f"{path} is not in the folder of {agent}", hint="import it yourself with `vade sessions import`"
        )
    try:
        state = os.lstat(real)
    except OSError:
        raise NotFound(f"{path} does not exist") from None
    if not stat.S_ISREG(state.st_mode):  # opening a pipe would block
        raise OutsideMemory(f"{path} is not a file", hint="give the file of a transcript")
    return format_, Path(real)


def _folders(format_: TranscriptFormat, person: Path, environ: Mapping[str, str]) -> Iterator[Path]:
    for name in format_.folders:
        yield person / name
    variable, below = format_.moved
    moved = environ.get(variable, "")
    if os.path.isabs(moved):
        for name in below:
            yield Path(moved, name)


def _within(path: str, folder: str) -> bool:
    return path.startswith(folder.rstrip(os.sep) + os.sep)
