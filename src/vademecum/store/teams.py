"""The teams whose memory lies in this home: `memory/hub/<workspace>/<scope>/<id>/`, beside the private one.

Read from what joining a hub wrote down. Knows nothing of hubs: whether one answers makes no difference here.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import quote

from vademecum.errors import NotFound, UsageError
from vademecum.store.home import Shelf
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.store.home import Home

FOLDER = "hub"  # of what is known of hubs, and below `memory` of the teams' files
JOINED, LOGS, LOG, STATE = "workspace.json", "logs", "log.jsonl", "state.json"
LEFT = "left.json"  # in the place of the first, where a workspace is synced no longer
SCOPES = (Scope.GLOBAL, Scope.PROJECT, Scope.AGENT)  # what a team can have memory of
_ID = re.compile(r"[0-9a-f][0-9a-f-]{7,63}")


class Team(NamedTuple):
    """A team that this home belongs to."""

    workspace: str
    name: str
    writes: bool  # whether new records of a project are the team's unless said otherwise


_Known = tuple[tuple[tuple[str, str, int, int], ...], tuple[Team, ...]]
# By folder, as long as their files are the same: this is asked for every record.
_known: dict[str, _Known] = {}
_applied: dict[str, tuple[tuple[int, int] | None, bool]] = {}


def list_teams(home: Home) -> tuple[Team, ...]:
    """Every team whose memory is here, by name; one whose file cannot be read is left out."""
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
    """The team of that name or id."""
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
    """The team of that name, for memory of a scope that teams share."""
    if scope not in SCOPES:
        raise UsageError(
            f"{scope} memory is not shared with teams", hint=f"a team shares {', '.join(SCOPES)} memory"
        )
    return find_team(home, name)


def team_shelf(home: Home, team: Team, place: Place) -> Shelf:
    """Where a team's things of a place lie.

    Its files are signed by what the hub says of their authors. Without the log that says so, what a file
    claims is anybody's word.
    """
    parts = ("memory", FOLDER, team.workspace, str(place.scope), *((place.id,) if place.id else ()))
    logs = os.path.join(home.path, FOLDER, team.workspace, LOGS, quote(str(place), safe=""))
    return Shelf(
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


def team_shelves(home: Home, place: Place) -> list[Shelf]:
    """Where the teams' things of a place lie, in the order of their names."""
    if place.scope not in SCOPES:
        return []
    return [team_shelf(home, team, place) for team in list_teams(home)]


def shelves_of(home: Home, workspace: str) -> list[Shelf]:
    """Every folder that a team has things in."""
    team = find_team(home, workspace)
    found = []
    for scope in SCOPES:
        listed = home.names("memory", FOLDER, workspace, str(scope)) if scope.rule.owner else [""]
        found += [team_shelf(home, team, Place(scope, name)) for name in listed if not name.startswith(".")]
    return found


def name_of_path(home: Home, path: str) -> str:
    """The name of the team whose file that is; nothing when it is no team's."""
    top, _, below = path.partition(f"memory/{FOLDER}/")
    if top or not below:
        return ""
    workspace = below.partition("/")[0]
    return next((team.name for team in list_teams(home) if team.workspace == workspace), workspace)


def only_own(shelves: Sequence[Shelf]) -> list[Shelf]:
    """Shelves without the teams' that nothing is written to unasked."""
    return [shelf for shelf in shelves if not shelf.team or shelf.writes]


def _has_log(folder: str) -> bool:
    """Whether there is a log that files were made from; one that is begun anew has not shown anything yet."""
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
        told = json.loads(home.read(FOLDER, workspace, file) or b"")
        rules = told.get("rules")
        writes = file == JOINED and isinstance(rules, dict) and rules.get("write") == "team"
        return Team(workspace, str(told["name"]), writes) if told["kind"] == "team" else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
