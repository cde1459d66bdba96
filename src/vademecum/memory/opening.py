"""Opening memory: which home, which project, which settings, and who is speaking."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum import config
from vademecum.errors import OutsideMemory, VadeError
from vademecum.memory.core import Memory
from vademecum.store import Home, files, hook_log, people, scopes
from vademecum.store.workspace import parse_audience
from vademecum.text import clock, names
from vademecum.types import Audience, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from typing import Literal


def connect(
    *,
    home: str | os.PathLike[str] | None = None,
    project: str | os.PathLike[str] | Literal[False] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    agent: str | None = None,
    session: str | None = None,
    audience: str | Audience | None = None,
    incognito: bool | None = None,
    origin: Origin = Origin.AGENT,
    actor: str | None = None,
    client: str | None = None,
    conversation: str = "",
    terminal: bool | None = None,
    readonly: bool = False,
    now: Callable[[], datetime] = clock.now,
    environ: Mapping[str, str] = os.environ,
) -> Memory:
    """Open memory for one door; the door, never the caller, says what origin its texts have.

    A command line says whether it has a `terminal`. It is a person's only outside of agents, and decides only
    at a terminal or as a script that the user's own settings allow. A project is looked for in `project`,
    else in `cwd`, else in the working directory; with `project=False` there is none. `client` says
    which program it came through, `conversation` in which of the agent's sessions; neither decides anything.
    """
    place = config.home_from(environ, home)
    here = _project_folder(project, cwd)
    flags = {name: value for name, value in (("agent", agent), ("incognito", incognito)) if value is not None}
    with files.reported("look at this folder"):
        root = scopes.find_root(here, home=place) if here is not None else None
        loaded = config.load(
            home=place,
            project_root=root,
            trusted=root is not None and _trusted(Home(place), root),
            environ=environ,
            flags=flags,
        )
        settings = loaded.settings
        override = settings.project_id
        found = scopes.find_project(here, home=place, override=override) if here is not None else None
    speaker = people.Speaker(origin)
    if terminal is not None and origin is Origin.USER:
        speaker = people.speaker(environ, terminal=terminal, scripts=settings.approval.scripts)
        actor = actor if speaker.origin is Origin.USER else None
    caller = scopes.Caller(
        agent=settings.agent,
        session=session or environ.get("VADE_SESSION") or None,
        project=found,
        audience=parse_audience(audience or environ.get("VADE_AUDIENCE") or Audience.PRIVATE),
        origin=speaker.origin,
        actor=actor or f"process:{settings.agent}",
        undecided=speaker.undecided,
        undecided_hint=speaker.hint,
        command_line=terminal is not None,
        owners=scopes.owners(environ),
        client=client or names.client_label(environ.get("VADE_CLIENT") or speaker.agent),
        conversation=conversation,
    )
    memory = Memory(Home(place, settings.limits.lock), caller, loaded, now=now, readonly=readonly)
    memory.home.check()
    asked = origin in (Origin.USER, Origin.AGENT) and caller.audience is Audience.PRIVATE
    if found is not None and asked and not settings.incognito and not readonly:
        with contextlib.suppress(VadeError, OSError):  # a convenience, which a read-only home does without
            scopes.join_by_path(memory.home, found, at=clock.stamp(now()))
    return memory


def client_label(installed: str, name: str, version: str) -> str:
    """The program that a door is opened for, as provenance names it."""
    return names.client_label(installed, name, version)


def find_conversation(home: str | os.PathLike[str] | None, agent: str) -> str:
    """The session of the agent that started this process, where one of its hooks has told it."""
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""
    return hook_log.find_session(config.home_from(os.environ, home), agent=agent, folder=folder)


def actor() -> str:
    """Who is at the keyboard, as the audit names them."""
    return f"human:{people.login()}"


def has_terminal() -> bool:
    """Whether a person can be asked."""
    return people.has_terminal()


def _trusted(home: Home, root: Path) -> bool:
    """Whether the settings of a folder count; where that cannot be asked, whoever acts on it is told."""
    try:
        return scopes.is_trusted(home, root)
    except OutsideMemory:
        return False


def _project_folder(
    project: str | os.PathLike[str] | Literal[False] | None, cwd: str | os.PathLike[str] | None
) -> Path | None:
    if project is False:
        return None
    given = cwd if project is None else project
    if given is not None:
        return Path(given)
    try:
        return Path.cwd()
    except OSError:  # the folder was deleted under us: there is no project then
        return None
