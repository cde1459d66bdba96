"""What hubs and this home's rules for them allow here: whose verified texts count, and who archives unasked.

`hub/<workspace>/vouched.json` is what the last sync made of the facts: for each stream the SHA-256 of texts
and who verified them. It is never a decision of this home: without the member's name in `inject_from` of
`workspace.json` it means nothing, and it counts for files of that team alone.

One machine at a time archives by itself in a synced place: the one to which the hub lends that right for a
while (`care.json`), or in a shared folder the one that began it; in a team nobody's does. What a person asks
for is not asked here.
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
    """The team whose file that is, by its path as it is shown; nothing when it is no team's."""
    return path.removeprefix(_TOP).partition("/")[0] if path.startswith(_TOP) else ""


def vouched_by(home: Home, path: str, name: str) -> str:
    """The member who verified the text of that name and whose word counts here; nothing when nobody did."""
    workspace = workspace_of(path)
    return _counting(home, workspace).get(name, "") if workspace else ""


def stamp(home: Home) -> tuple[tuple[str, _Stamp], ...]:
    """What stands for all vouches and rules: it differs when any of them has changed."""
    try:
        names = sorted(os.listdir(os.path.join(home.path, FOLDER)))
    except OSError:
        return ()
    return tuple((each, _stamp(home, each)) for each in names)


def keep_vouches(home: Home, workspace: str, stream: str, vouched: Mapping[str, tuple[str, ...]]) -> None:
    """Keep who verified which texts of one stream of a team."""
    with home.disk(FOLDER, workspace) as folder:
        told = load(folder.read(VOUCHED, largest=_LARGEST))
        listed = {name: list(members) for name, members in sorted(vouched.items())}
        if told.get(stream) != listed:
            content = json.dumps({**told, stream: listed}, sort_keys=True).encode() + b"\n"
            folder.update(VOUCHED, lambda _: content)


def note_withdrawal(home: Home, name: str, *, on: bool) -> None:
    """Keep that a person no longer verifies a text, until every team has heard it; or that they do again."""
    for workspace in _list(home, kind="team"):
        known = read_withdrawn(home, workspace)
        if (name in known) is not on:
            keep_withdrawn(home, workspace, known ^ {name})


def read_withdrawn(home: Home, workspace: str) -> frozenset[str]:
    """The texts, by their SHA-256, that this home's person no longer verifies."""
    listed = load(home.read(FOLDER, workspace, WITHDRAWN)).get("texts")
    return frozenset(map(str, listed)) if isinstance(listed, list) else frozenset()


def keep_withdrawn(home: Home, workspace: str, names: frozenset[str]) -> None:
    """Keep which texts these are."""
    with home.disk(FOLDER, workspace) as folder:
        folder.update(WITHDRAWN, lambda _: json.dumps({"texts": sorted(names)}).encode() + b"\n")


def _counting(home: Home, workspace: str) -> dict[str, str]:
    """Of each text that somebody verified whose word counts, who that is."""
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
        told = load(folder.read(VOUCHED, largest=_LARGEST))
    listed_texts = [each.items() for each in told.values() if isinstance(each, dict)]
    for name, members in itertools.chain(*listed_texts):
        trusted = sorted(named.intersection(members)) if isinstance(members, list) else []
        if trusted:
            found[name] = trusted[0]
    return found


def load(content: bytes | None) -> dict[str, Any]:
    """A small file of JSON; what cannot be read says nothing."""
    try:
        told = json.loads(content or b"{}")
    except ValueError:
        return {}
    return told if isinstance(told, dict) else {}


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
    """Whether what is old in a place may be archived here without anybody having asked for it."""
    if place.scope not in SYNCED:
        return True
    return all(_is_ours(home, name, told, place, now) for name, told in _joined(home))


def keep_lease(home: Home, workspace: str, lent: Mapping[str, str]) -> None:
    """Keep until when the hub lends the care of which places to this machine."""
    with home.disk(FOLDER, workspace) as folder:
        folder.update(LENT, lambda _: json.dumps(dict(lent)).encode() + b"\n")


def _is_ours(home: Home, name: str, told: Mapping[str, Any], place: Place, now: datetime) -> bool:
    if name == SHARED:
        return told.get("began") is True
    until = load(home.read(FOLDER, name, LENT)).get(str(place))
    try:
        return isinstance(until, str) and now < datetime.fromisoformat(until)
    except (ValueError, TypeError):  # no time, or one without a zone
        return False


def _joined(home: Home) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The shared folder, and the personal workspaces that this home has joined."""
    for name, told in _list(home).items():
        if told.get("kind") == "personal" or (name == SHARED and told):
            yield name, told


def _list(home: Home, *, kind: str = "") -> dict[str, Mapping[str, Any]]:
    """What this home has joined, or what of one kind."""
    try:
        names = sorted(os.listdir(os.path.join(home.path, FOLDER)))
    except OSError:
        return {}
    listed = {name: load(home.read(FOLDER, name, RULES)) for name in names if "." not in name}
    return {name: told for name, told in listed.items() if kind in ("", told.get("kind"))}
