"""Open memory: find out the home, the project, the settings and the caller."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum import config
from vademecum.agents.environment import read_variables
from vademecum.errors import OutsideMemory, VadeError
from vademecum.memory.core import Memory
from vademecum.store import Home, parse_audience, people, reported, scopes
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
    connection: bool = False,
    terminal: bool | None = None,
    readonly: bool = False,
    now: Callable[[], datetime] = clock.now,
    environ: Mapping[str, str] = os.environ,
) -> Memory:
    """Open memory for an interface; the interface, never the caller, sets the origin of texts.

    A command line says whether it has a `terminal`. Its caller counts as a person only outside of agents, and
    can decide only at a terminal or in a script that the user's own settings allow. The project is that of
    the folder `project`, else of `cwd`, else of the working directory; with `project=False` there is none.
    `client` names the program and `conversation` the agent's session; both are only recorded. `connection`
    says that `session` ends with a connection, and so cannot be continued.
    """
    place = config.home_from(environ, home)
    here = _project_folder(project, cwd)
    flags = {name: value for name, value in (("agent", agent), ("incognito", incognito)) if value is not None}
    with reported("look at this folder"):
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
        scripts, variables = settings.approval.scripts, read_variables()
        speaker = people.speaker(environ, terminal=terminal, scripts=scripts, variables=variables)
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
        connection=connection,
    )
    memory = Memory(Home(place, settings.limits.lock), caller, loaded, now=now, readonly=readonly)
    memory.home.check()
    is_private = origin in (Origin.USER, Origin.AGENT) and caller.audience is Audience.PRIVATE
    if found is not None and is_private and not settings.incognito and not readonly:
        with contextlib.suppress(VadeError, OSError):  # only a convenience, which a read-only home lacks
            scopes.join_by_path(memory.home, found, at=clock.stamp(now()))
    return memory


def client_label(installed: str, name: str, version: str) -> str:
    """Return the name of the calling program in the form that the origin of a text records."""
    return names.client_label(installed, name, version)


def find_conversation(home: str | os.PathLike[str] | None, agent: str) -> str:
    """Return the session of the agent that started this process, if its hooks have recorded the session."""
    try:
        folder = os.getcwd()
    except OSError:
        folder = ""
    from vademecum.store import hook_log

    return hook_log.find_session(config.home_from(os.environ, home), agent=agent, folder=folder)


def actor() -> str:
    """Return the name of the person at the keyboard, for the audit log."""
    return f"human:{people.login()}"


def has_terminal() -> bool:
    """Return whether there is a terminal at which a person can be asked."""
    return people.has_terminal()


def _trusted(home: Home, root: Path) -> bool:
    """Return whether the user trusts a folder's settings; False if unknown, as later steps report that."""
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
    except OSError:  # the working directory was deleted, so there is no project
        return None
