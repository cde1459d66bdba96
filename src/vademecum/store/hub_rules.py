"""Rules about hubs in this home: whose verified texts count, and which machine archives automatically.

`hub/<workspace>/vouched.json` comes from the last sync: for each stream, the SHA-256 of texts that members
verified, and the member's name. A verification counts only if `inject_from` in `workspace.json` has the
member's name, and only for files of that team.

In a synced place only one machine archives automatically: the one to which the hub lends that right for some
time (`care.json`), or in a shared folder the one that created it; in a team none does. These rules do not
apply to a person's own commands.
"""

from __future__ import annotations

import itertools
import json
import os
from datetime import datetime
from typing import TYPE_CHECKING, Any

from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from vademecum.store.home import Home
    from vademecum.types import Place

FOLDER, VOUCHED, RULES, WITHDRAWN = "hub", "vouched.json", "workspace.json", "withdrawn.json"
_TOP = "memory/hub/"
_LARGEST = 256 << 20

_Stamp = tuple[tuple[int, int, int] | None, ...]
# By folder, as long as its files are the same: this is asked for every text.
_known: dict[str, tuple[_Stamp, dict[str, str]]] = {}


def workspace_of(path: str) -> str:
    """Return the team to which a file belongs, by its path as users see it; empty when it is no team's."""
    return path.removeprefix(_TOP).partition("/")[0] if path.startswith(_TOP) else ""


def vouched_by(home: Home, path: str, name: str) -> str:
    """Return the member, trusted by this home, who verified the text with this hash; empty if there is none.

    `path` is the file with the text; only members of that file's team are considered.
    """
    workspace = workspace_of(path)
    return _counting(home, workspace).get(name, "") if workspace else ""


def stamp(home: Home) -> tuple[tuple[str, _Stamp], ...]:
    """Return a value that differs whenever any of the saved verifications or rules has changed."""
    try:
        names = sorted(os.listdir(os.path.join(home.path, FOLDER)))
    except OSError:
        return ()
    return tuple((each, _stamp(home, each)) for each in names)


def keep_vouches(home: Home, workspace: str, stream: str, vouched: Mapping[str, tuple[str, ...]]) -> None:
    """Save which members verified which texts in a stream of a team."""
    with home.disk(FOLDER, workspace) as folder:
        vouches = load(folder.read(VOUCHED, largest=_LARGEST))
        listed = {name: list(members) for name, members in sorted(vouched.items())}
        if vouches.get(stream) != listed:
            content = json.dumps({**vouches, stream: listed}, sort_keys=True).encode() + b"\n"
            folder.update(VOUCHED, lambda _: content)


def note_withdrawal(home: Home, name: str, *, on: bool) -> None:
    """Note for each team that a person withdrew a verification; with `on` false, delete the notes."""
    for workspace in _list(home, kind="team"):
        known = read_withdrawn(home, workspace)
        if (name in known) is not on:
            keep_withdrawn(home, workspace, known ^ {name})


def read_withdrawn(home: Home, workspace: str) -> frozenset[str]:
    """Return the SHA-256 of the texts whose verification this home's person withdrew, for one team."""
    listed = load(home.read(FOLDER, workspace, WITHDRAWN)).get("texts")
    return frozenset(map(str, listed)) if isinstance(listed, list) else frozenset()


def keep_withdrawn(home: Home, workspace: str, names: frozenset[str]) -> None:
    """Save the SHA-256 of the texts whose verification was withdrawn, for one team."""
    with home.disk(FOLDER, workspace) as folder:
        folder.update(WITHDRAWN, lambda _: json.dumps({"texts": sorted(names)}).encode() + b"\n")


def _counting(home: Home, workspace: str) -> dict[str, str]:
    """Return the trusted member who verified each text of a team, by the text's hash."""
    top = os.path.join(home.path, FOLDER, workspace)
    now = _stamp(home, workspace)
    known = _known.get(top)
    if known is None or known[0] != now:
        known = _known[top] = now, _read(home, workspace)
    return known[1]


def _read(home: Home, workspace: str) -> dict[str, str]:
    rules = load(home.read(FOLDER, workspace, RULES)).get("rules")
    listed = rules.get("inject_from") if isinstance(rules, dict) else None
    named = {each for each in listed if isinstance(each, str)} if isinstance(listed, list) else set()
    if not named:
        return {}
    found: dict[str, str] = {}
    with home.disk(FOLDER, workspace) as folder:
        vouches = load(folder.read(VOUCHED, largest=_LARGEST))
    listed_texts = [each.items() for each in vouches.values() if isinstance(each, dict)]
    for name, members in itertools.chain(*listed_texts):
        trusted = sorted(named.intersection(members)) if isinstance(members, list) else []
        if trusted:
            found[name] = trusted[0]
    return found


def load(content: bytes | None) -> dict[str, Any]:
    """Return the object in a small JSON file; empty when the file cannot be read."""
    try:
        value = json.loads(content or b"{}")
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _stamp(home: Home, workspace: str) -> _Stamp:
    found: list[tuple[int, int, int] | None] = []
    for name in (VOUCHED, RULES):
        try:
            state = os.stat(os.path.join(home.path, FOLDER, workspace, name))
            found.append((state.st_mtime_ns, state.st_size, state.st_ino))
        except OSError:
            found.append(None)
    return tuple(found)


# ------------------------------------------------------------------------------- who archives unasked

LENT, SHARED = "care.json", "folder"
SYNCED = (Scope.GLOBAL, Scope.PROJECT, Scope.AGENT)


def may_care(home: Home, place: Place, *, now: datetime) -> bool:
    """Return whether old records of a place may be archived on this machine without a person's request."""
    if place.scope not in SYNCED:
        return True
    return all(_is_ours(home, name, fields, place, now) for name, fields in _joined(home))


def keep_lease(home: Home, workspace: str, lent: Mapping[str, str]) -> None:
    """Save for which places, and until when, the hub lends this machine the right to archive."""
    with home.disk(FOLDER, workspace) as folder:
        folder.update(LENT, lambda _: json.dumps(dict(lent)).encode() + b"\n")


def _is_ours(home: Home, name: str, fields: Mapping[str, Any], place: Place, now: datetime) -> bool:
    if name == SHARED:
        return fields.get("began") is True
    until = load(home.read(FOLDER, name, LENT)).get(str(place))
    try:
        return isinstance(until, str) and now < datetime.fromisoformat(until)
    except (ValueError, TypeError):  # no time, or one without a zone
        return False


def _joined(home: Home) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the shared folder and the personal workspaces that this home has joined."""
    for name, fields in _list(home).items():
        if fields.get("kind") == "personal" or (name == SHARED and fields):
            yield name, fields


def _list(home: Home, *, kind: str = "") -> dict[str, Mapping[str, Any]]:
    """Return what this home has joined (teams, workspaces, folders), or only entries of one kind."""
    try:
        names = sorted(os.listdir(os.path.join(home.path, FOLDER)))
    except OSError:
        return {}
    listed = {name: load(home.read(FOLDER, name, RULES)) for name in names if "." not in name}
    return {name: fields for name, fields in listed.items() if kind in ("", fields.get("kind"))}
