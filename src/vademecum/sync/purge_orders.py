"""Purge orders of a person in a synced home, and texts that are held for the person after a purge.

An order is written to `purges/` beside the logs before anything is deleted. It names facts and the positions
of the text in them, never the text or its hash. The content leaves the log last, so an interrupted order can
be finished.
"""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from vademecum.errors import Malformed, NotFound, Refused
from vademecum.store import teams
from vademecum.sync import blocks, purge_facts
from vademecum.sync import facts as fact_rules
from vademecum.sync.facts import FactId
from vademecum.sync.folder_sync import TOP, FolderTransport, find_folder, place_of
from vademecum.sync.hub_client import Remote
from vademecum.sync.key_files import KEY
from vademecum.sync.membership import (
    FOLDER,
    SHARED,
    TEAM,
    client_of,
    find_membership,
    list_memberships,
)
from vademecum.sync.projection import FactSet
from vademecum.sync.stream_log import DiskLog, HomeFiles
from vademecum.text import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from vademecum.store import Home, ScopeFolder
    from vademecum.sync.purge_facts import Cut

ORDERS, HELD = "purges", "held"


class SyncedLog(NamedTuple):
    """A log of this home: the parts of its path, its stream, and the folder of its workspace."""

    parts: tuple[str, ...]
    stream: str
    top: tuple[str, ...]
    replica: str = ""
    team: str = ""  # the workspace of the team; empty for an own log
    own: bool = True  # whether this person may purge in it


class PurgeOrder(NamedTuple):
    """An order to purge facts of one log: the facts, with the positions of the purged text in each."""

    id: str
    log: SyncedLog
    named: Mapping[FactId, Cut | None]


class HeldText(NamedTuple):
    """A text that is newer than the purge of its entry.

    It is in no file until a person adds it again.
    """

    id: str
    place: str
    path: str
    at: str
    text: str
    workspace: str = ""  # the workspace whose folder has it


def list_logs(home: Home) -> Iterator[SyncedLog]:
    """Yield all logs of a home, those of its own places and those of teams."""
    top: tuple[str, ...] = (FOLDER, SHARED)
    for workspace in home.names(*top):
        for name in home.names(*top, workspace) if workspace not in (ORDERS, HELD) else ():
            yield SyncedLog((*top, workspace, name), unquote(name), top)
    for joined in list_memberships(home):
        top = (FOLDER, joined.workspace)
        team = joined.workspace if joined.kind == TEAM else ""
        for name in home.names(*top, teams.LOGS):
            own = not team or joined.role == "owner"
            yield SyncedLog((*top, teams.LOGS, name), unquote(name), top, joined.replica, team, own)


Finder = Callable[[FactSet], Mapping[FactId, "Cut | None"]]


def place_orders(home: Home, find: Finder, *, scope_folder: ScopeFolder | None = None) -> list[PurgeOrder]:
    """Write and return purge orders for the facts that `find` returns for each log.

    Only logs in which this person may purge count. With `scope_folder`, only the logs of this folder count:
    records with the same name in a team and in private memory are different records.
    """
    made = []
    for log, named in _find_reached_logs(home, find, scope_folder):
        made.append(PurgeOrder(names.new_mark(16), log, named))
        _write_order(home, made[-1])
    return made


def preview(
    home: Home, find: Finder, *, scope_folder: ScopeFolder | None = None
) -> Iterator[tuple[str, int]]:
    """Yield what purge orders would reach: each log, and each folder or hub that has received its facts.

    Each comes with its number of facts to purge. `scope_folder` has the same meaning as in `place_orders`.
    """
    for log, named in _find_reached_logs(home, find, scope_folder):
        yield "/".join(log.parts), len(named)
        with contextlib.suppress(NotFound):
            where, waiting = _find_destination(home, log)
            if count := len(set(named) - waiting):
                yield where, count


def _find_destination(home: Home, log: SyncedLog) -> tuple[str, set[FactId]]:
    """Return the folder or hub to which a log's facts are sent, and the ids of the unsent facts."""
    with home.disk(*log.parts) as folder:
        logged = DiskLog(folder, log.replica)
        own = logged.tail().own_facts()
    if log.top == (FOLDER, SHARED):
        shared = find_folder(home)
        there = FolderTransport(shared.path).last(log.stream, logged.replica)
        waiting = {fact.id for fact in own if fact.replica == logged.replica and fact.n > there}
        return f"{shared.path}/{TOP}/{quote(log.stream, safe='')}", waiting
    joined = find_membership(home, log.top[1])
    with home.disk(*log.top) as top:
        unsent = Remote(client_of(home, joined), top, lambda _: ()).unsent(log.stream, own)
    return f"{joined.url} {joined.name} {log.stream}", {fact.id for fact in unsent}


def _find_reached_logs(
    home: Home, find: Finder, scope_folder: ScopeFolder | None
) -> Iterator[tuple[SyncedLog, Mapping[FactId, Cut | None]]]:
    """Yield each log that has facts to purge, with these facts, if this person may purge in the log."""
    for log in list_logs(home):
        if log.own and (
            scope_folder is None
            or (log.stream, log.team) == (str(scope_folder.place), scope_folder.workspace)
        ):
            named = _find_in_log(home, log, find)
            if named:
                yield log, named


def check_role(home: Home, scope_folder: ScopeFolder) -> None:
    """Raise Refused if this member is no owner of the team whose record shall be purged."""
    joined = find_membership(home, scope_folder.workspace)
    if joined.role != "owner":
        raise Refused(
            f"only an owner of {joined.name} can purge its records", hint="`vade forget` archives it for all"
        )


def held_by_teams(home: Home, find: Finder) -> Iterator[tuple[str, int]]:
    """Yield the teams that keep facts because only their owners may purge, with the number of facts."""
    count: dict[str, int] = {}
    for log in list_logs(home):
        if not log.own and (named := _find_in_log(home, log, find)):
            count[log.team] = count.get(log.team, 0) + len(named)
    names = {joined.workspace: joined.name for joined in list_memberships(home)}
    return ((names[team], number) for team, number in count.items())


def _find_in_log(home: Home, log: SyncedLog, find: Finder) -> Mapping[FactId, Cut | None]:
    with home.lock(f"sync {log.stream}"), home.disk(*log.parts) as folder:
        return find(FactSet(each.fact for each in DiskLog(folder, log.replica).read()))


def _write_order(home: Home, order: PurgeOrder) -> None:
    [value, *more] = purge_facts.values_of(order.named)
    for each in more:
        value["dots"] += each["dots"]
        value["cuts"] |= each["cuts"]
    values = {"log": order.log._asdict(), **value}
    with home.folder(*order.log.top, ORDERS, create=True) as folder:
        folder.update(f"{order.id}.json", lambda _: json.dumps(values).encode() + b"\n")


def list_orders(home: Home) -> list[PurgeOrder]:
    """Return the purge orders that are not finished yet."""
    found = []
    for top in _workspace_folders(home):
        for name in home.names(*top, ORDERS):
            with contextlib.suppress(ValueError, TypeError, KeyError):
                given = json.loads(home.read(*top, ORDERS, name) or b"")
                log_fields = given["log"]
                log = SyncedLog(
                    **{**log_fields, "parts": tuple(log_fields["parts"]), "top": tuple(log_fields["top"])}
                )
                cuts = {key: (int(cut[0]), int(cut[1])) for key, cut in given["cuts"].items()}
                named = {fact_rules.parse_fact_id(each): cuts.get(each) for each in given["dots"]}
                found.append(PurgeOrder(name.removesuffix(".json"), log, named))
    return found


def carry_out(home: Home, orders: Iterable[PurgeOrder]) -> None:
    """Carry out orders in the logs: write the purge facts and delete the content of the named facts.

    Call this only after the content was deleted from the files.
    """
    for order in orders:
        log = order.log
        key = (home.read(*log.top, KEY) or b"").strip()

        def make(fact: fact_rules.SyncFact, key: bytes = key) -> fact_rules.SyncFact:
            return fact_rules.seal(fact, key) if key else fact

        with home.lock(f"sync {log.stream}"), home.disk(*log.parts) as folder:
            purge_facts.enact(log.stream, DiskLog(folder, log.replica), make, order.named, order.id)
        with contextlib.suppress(FileNotFoundError), home.folder(*log.top, ORDERS) as folder_:
            folder_.delete(f"{order.id}.json")


def finish(home: Home, actor: str, now: Callable[[], datetime]) -> int:
    """Finish interrupted purge orders in files and logs; return the number of orders."""
    orders = list_orders(home)
    for order in orders:
        place = place_of(order.log.stream)
        with home.lock(f"sync {order.log.stream}"), home.disk(*order.log.parts) as folder:
            facts = [each.fact for each in DiskLog(folder, order.log.replica).read()]
        removed = purge_facts.removed_by(order.named, facts)
        if place is not None and any(removed):
            team = order.log.team
            scope_folder = (
                teams.team_folder(home, teams.find_team(home, team), place)
                if team
                else home.scope_folder(place)
            )
            HomeFiles(home, scope_folder, actor, now).purge(removed)
        carry_out(home, [order])
    return len(orders)


# ------------------------------------------------------------------------------- held texts


def list_held(home: Home) -> list[HeldText]:
    """Return the texts that are held for the person, oldest first."""
    found = []
    for top in _workspace_folders(home):
        for name in home.names(*top, HELD):
            if not name.endswith(".json"):  # decided about by a person
                continue
            with contextlib.suppress(ValueError, TypeError):
                given: dict[str, Any] = json.loads(home.read(*top, HELD, name) or b"")
                fields = {key: str(given.get(key) or "") for key in ("place", "path", "at", "text")}
                found.append(HeldText(name.removesuffix(".json"), **fields, workspace=top[1]))
    return sorted(found, key=lambda each: (each.at, each.id))


def drop_held(home: Home, id: str) -> None:
    """Delete a held text; also purge the fact of this text, unless the person added the text again.

    The fact may have been sent to others, and no purge names it, since it was a separate entry of a purged
    record. In a team only owners may purge it.
    """
    for top in _workspace_folders(home):
        there = [each for each in home.names(*top, HELD) if f"{each}.".startswith(f"{id}.json.")]
        if there:
            placed = place_orders(home, functools.partial(_find_held, id))
            with home.folder(*top, HELD) as folder:
                for name in there:
                    folder.delete(name)
            carry_out(home, placed)
            return
    raise NotFound(f"no text {id!r} is waiting", hint="`vade sync held` lists them")


def _find_held(id: str, state: FactSet) -> dict[FactId, Cut | None]:
    """Return the fact of a held text; nothing if another fact has the same text."""
    replica, _, n = id.rpartition("-")
    texts = {
        fact_id: blocks.text_of(fact.value["raw"])
        for fact_id, fact in state.facts.items()
        if fact.kind == "put" and fact.value is not None
    }
    fact_id = FactId(replica, int(n) if n.isdecimal() else 0)
    return (
        {fact_id: None} if [*texts.values()].count(texts.get(fact_id, "")) == 1 and fact_id in texts else {}
    )


def purge_held(home: Home, wanted: str) -> None:
    """Delete a purged text from all held texts."""
    for top in _workspace_folders(home):
        for name in home.names(*top, HELD):
            with contextlib.suppress(ValueError, TypeError, Malformed):
                given = json.loads(home.read(*top, HELD, name) or b"")
                rest = purge_facts.Removed((wanted,)).clean("records/held.md", str(given["text"])) or ""
                if rest != given["text"]:
                    content = json.dumps({**given, "text": rest}, indent=1).encode() + b"\n"
                    with home.folder(*top, HELD) as folder:
                        folder.delete(name)
                        folder.create(name, content)


def _workspace_folders(home: Home) -> list[tuple[str, ...]]:
    return [(FOLDER, name) for name in home.names(FOLDER)]
