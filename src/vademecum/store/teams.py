"""Teams whose memory lies in this home, in `memory/hub/<workspace>/<scope>/<id>/`, beside the private memory.

The teams are read from the files written when joining a hub; no hub is contacted.
"""

from __future__ import annotations

import contextlib
import json
import os
from typing import TYPE_CHECKING
from urllib.parse import quote

from vademecum.errors import NotFound, UsageError
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.store.home import ScopeFolder
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.store.home import Home

FOLDER = "hub"  # of what is known of hubs, and below `memory` of the teams' files
JOINED, LOGS, LOG, STATE = "workspace.json", "logs", "log.jsonl", "state.json"
LEFT = "left.json"  # in the place of the first, where a workspace is synced no longer
SCOPES = (Scope.GLOBAL, Scope.PROJECT, Scope.AGENT)  # what a team can have memory of
_ID = lazy_pattern(r"[0-9a-f][0-9a-f-]{7,63}")


class Team(NamedTuple):
    """A team to which this home belongs."""

    workspace: str
    name: str
    writes: bool  # whether new records of a project are the team's unless said otherwise


_Known = tuple[tuple[tuple[str, str, int, int], ...], tuple[Team, ...]]
# By folder, as long as their files are the same: this is asked for every record.
_known: dict[str, _Known] = {}
_applied: dict[str, tuple[tuple[int, int] | None, bool]] = {}


def list_teams(home: Home) -> tuple[Team, ...]:
    """Return every team whose memory is here, by name; a team with an unreadable file is left out."""
    top = os.path.join(home.path, FOLDER)
    try:
        names = sorted(name for name in os.listdir(top) if _ID.fullmatch(name))
    except (FileNotFoundError, NotADirectoryError):
        return ()
    stamps = []
    for name in names:
        for file in (JOINED, LEFT):
            with contextlib.suppress(OSError):
                state = os.stat(os.path.join(top, name, file))
                stamps.append((name, file, state.st_mtime_ns, state.st_ino))
                break
    seen = tuple(stamps)
    known = _known.get(top)
    if known is None or known[0] != seen:
        found = filter(None, (_read(home, name, file) for name, file, _, _ in seen))
        known = _known[top] = seen, tuple(sorted(found, key=lambda team: (team.name, team.workspace)))
    return known[1]


def find_team(home: Home, name: str) -> Team:
    """Return the team with this name or id; raise an error when there is none, or several."""
    teams = list_teams(home)
    meant = [team for team in teams if name in (team.name, team.workspace)]
    if not meant:
        listed = f"the teams are {', '.join(team.name for team in teams)}" if teams else "join one first"
        raise NotFound(f"no team {name}", hint=f"{listed}; `vade hub status` shows what was joined")
    if len(meant) > 1:
        ids = ", ".join(team.workspace for team in meant)
        raise UsageError(f"{len(meant)} teams are called {name}", hint=f"name one by its id: {ids}")
    return meant[0]


def find_shared(home: Home, name: str, scope: Scope) -> Team:
    """Return the team with this name; raise an error if teams do not share memory of this scope."""
    if scope not in SCOPES:
        raise UsageError(
            f"{scope} memory is not shared with teams", hint=f"a team shares {', '.join(SCOPES)} memory"
        )
    return find_team(home, name)


def team_folder(home: Home, team: Team, place: Place) -> ScopeFolder:
    """Return the folder of a team's memory of a place.

    The team's log says who wrote each file. Without that log the files' signatures are not believed.
    """
    parts = ("memory", FOLDER, team.workspace, str(place.scope), *((place.id,) if place.id else ()))
    logs = os.path.join(home.path, FOLDER, team.workspace, LOGS, quote(str(place), safe=""))
    return ScopeFolder(
        place,
        home.path,
        parts,
        "/".join(parts),
        shared=True,
        backend=home.backend,
        team=team.name,
        signed=_has_log(logs),
        writes=team.writes and place.scope is Scope.PROJECT,
    )


def team_folders(home: Home, place: Place) -> list[ScopeFolder]:
    """Return the folders of all teams' memory of a place, by the teams' names."""
    if place.scope not in SCOPES:
        return []
    return [team_folder(home, team, place) for team in list_teams(home)]


def scope_folders_of(home: Home, workspace: str) -> list[ScopeFolder]:
    """Return every folder with memory of a team."""
    team = find_team(home, workspace)
    found = []
    for scope in SCOPES:
        listed = home.names("memory", FOLDER, workspace, str(scope)) if scope.rule.owner else [""]
        found += [team_folder(home, team, Place(scope, name)) for name in listed if not name.startswith(".")]
    return found


def name_of_path(home: Home, path: str) -> str:
    """Return the name of the team that has the file at this path, its id if unknown; '' for other paths."""
    top, _, below = path.partition(f"memory/{FOLDER}/")
    if top or not below:
        return ""
    workspace = below.partition("/")[0]
    return next((team.name for team in list_teams(home) if team.workspace == workspace), workspace)


def only_own(scope_folders: Sequence[ScopeFolder]) -> list[ScopeFolder]:
    """Return the folders without those of teams that are not chosen for writing."""
    return [scope_folder for scope_folder in scope_folders if not scope_folder.team or scope_folder.writes]


def _has_log(folder: str) -> bool:
    """Return whether a team's folder has a log of which something was already applied."""
    try:
        os.stat(os.path.join(folder, LOG))
        state = os.stat(os.path.join(folder, STATE))
        stamp = state.st_mtime_ns, state.st_ino
        if _applied.get(folder, (None, False))[0] != stamp:
            with open(os.path.join(folder, STATE), "rb") as file:
                _applied[folder] = stamp, json.load(file).get("applied", 0) > 0
    except (OSError, ValueError, AttributeError, TypeError):
        return False
    return _applied[folder][1]


def _read(home: Home, workspace: str, file: str) -> Team | None:
    try:
        values = json.loads(home.read(FOLDER, workspace, file) or b"")
        rules = values.get("rules")
        writes = file == JOINED and isinstance(rules, dict) and rules.get("write") == "team"
        return Team(workspace, str(values["name"]), writes) if values["kind"] == "team" else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
