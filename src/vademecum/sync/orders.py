"""The purges that a person orders in a home that is synced, and the texts that are held for them after one.

An order lies in `purges/` beside the logs before anything is deleted. It names facts, and where in them the
text stands, by counting characters; never a text or a hash of one. The content goes from the log last, so an
order that was cut short can be finished: what it is about is still there, or everything is done.
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
from vademecum.sync import blocks, purges
from vademecum.sync import facts as fact_rules
from vademecum.sync.facts import Dot
from vademecum.sync.folder import TOP, FolderTransport, find_folder, place_of
from vademecum.sync.log import DiskLog, HomeFiles
from vademecum.sync.membership import (
    FOLDER,
    KEY,
    SHARED,
    TEAM,
    client_of,
    find_membership,
    list_memberships,
)
from vademecum.sync.project import FactSet
from vademecum.sync.remote import Remote
from vademecum.text import names

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from vademecum.store.home import Home, Shelf
    from vademecum.sync.purges import Cut

ORDERS, HELD = "purges", "held"


class SyncedLog(NamedTuple):
    """A log of this home: where it lies, of which stream, and where the things of its workspace lie."""

    parts: tuple[str, ...]
    stream: str
    top: tuple[str, ...]
    replica: str = ""
    team: str = ""  # the workspace of the team whose log it is
    own: bool = True  # whether this person may purge there


class PurgeOrder(NamedTuple):
    """What is to go from one log."""

    id: str
    log: SyncedLog
    named: Mapping[Dot, Cut | None]


class HeldText(NamedTuple):
    """A text that whoever purged had not seen: it is in no file until a person adds it again."""

    id: str
    place: str
    path: str
    at: str
    text: str
    workspace: str = ""  # below which it lies


def list_logs(home: Home) -> Iterator[SyncedLog]:
    """Every log of a home: this person's own, and those of their teams."""
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


Finder = Callable[[FactSet], Mapping[Dot, "Cut | None"]]


def place_orders(home: Home, find: Finder, *, shelf: Shelf | None = None) -> list[PurgeOrder]:
    """Write down which facts go, before anything does; `shelf` is the only one that is meant.

    A team's record of the same name is another one, and so is a private one.
    """
    made = []
    for log, named in _meant(home, find, shelf):
        made.append(PurgeOrder(names.new_mark(16), log, named))
        _put(home, made[-1])
    return made


def preview(home: Home, find: Finder, *, shelf: Shelf | None = None) -> Iterator[tuple[str, int]]:
    """How much would go from each log, and from where it was sent to as of the last sync."""
    for log, named in _meant(home, find, shelf):
        yield "/".join(log.parts), len(named)
        with contextlib.suppress(NotFound):
            where, waiting = _sent_to(home, log)
            if count := len(set(named) - waiting):
                yield where, count


def _sent_to(home: Home, log: SyncedLog) -> tuple[str, set[Dot]]:
    """Where the facts of a log are sent to, and those that were not sent yet."""
    with home.disk(*log.parts) as folder:
        logged = DiskLog(folder, log.replica)
        own = logged.tail().own_facts()
    if log.top == (FOLDER, SHARED):
        shared = find_folder(home)
        there = FolderTransport(shared.path).last(log.stream, logged.replica)
        waiting = {fact.dot for fact in own if fact.replica == logged.replica and fact.n > there}
        return f"{shared.path}/{TOP}/{quote(log.stream, safe='')}", waiting
    joined = find_membership(home, log.top[1])
    with home.disk(*log.top) as top:
        unsent = Remote(client_of(home, joined), top, lambda _: ()).unsent(log.stream, own)
    return f"{joined.url} {joined.name} {log.stream}", {fact.dot for fact in unsent}


def _meant(
    home: Home, find: Finder, shelf: Shelf | None
) -> Iterator[tuple[SyncedLog, Mapping[Dot, Cut | None]]]:
    """The logs that a purge here reaches and that hold something of it."""
    for log in list_logs(home):
        if log.own and (shelf is None or (log.stream, log.team) == (str(shelf.place), shelf.workspace)):
            named = _find(home, log, find)
            if named:
                yield log, named


def check_role(home: Home, shelf: Shelf) -> None:
    """Refuse a purge of what is a team's to whoever does not own the team."""
    joined = find_membership(home, shelf.workspace)
    if joined.role != "owner":
        raise Refused(
            f"only an owner of {joined.name} can purge its records", hint="`vade forget` archives it for all"
        )


def held_by_teams(home: Home, find: Finder) -> Iterator[tuple[str, int]]:
    """The teams that go on holding something because only their owners may purge it, and how often."""
    count: dict[str, int] = {}
    for log in list_logs(home):
        if not log.own and (named := _find(home, log, find)):
            count[log.team] = count.get(log.team, 0) + len(named)
    names = {joined.workspace: joined.name for joined in list_memberships(home)}
    return ((names[team], number) for team, number in count.items())


def _find(home: Home, log: SyncedLog, find: Finder) -> Mapping[Dot, Cut | None]:
    with home.lock(f"sync {log.stream}"), home.disk(*log.parts) as folder:
        return find(FactSet(each.fact for each in DiskLog(folder, log.replica).read()))


def _put(home: Home, order: PurgeOrder) -> None:
    [value, *more] = purges.values_of(order.named)
    for each in more:
        value["dots"] += each["dots"]
        value["cuts"] |= each["cuts"]
    told = {"log": order.log._asdict(), **value}
    with home.folder(*order.log.top, ORDERS, create=True) as folder:
        folder.update(f"{order.id}.json", lambda _: json.dumps(told).encode() + b"\n")


def list_orders(home: Home) -> list[PurgeOrder]:
    """The orders that are not carried out yet."""
    found = []
    for top in _tops(home):
        for name in home.names(*top, ORDERS):
            with contextlib.suppress(ValueError, TypeError, KeyError):
                given = json.loads(home.read(*top, ORDERS, name) or b"")
                told = given["log"]
                log = SyncedLog(**{**told, "parts": tuple(told["parts"]), "top": tuple(told["top"])})
                cuts = {key: (int(cut[0]), int(cut[1])) for key, cut in given["cuts"].items()}
                named = {fact_rules.read_dot(each): cuts.get(each) for each in given["dots"]}
                found.append(PurgeOrder(name.removesuffix(".json"), log, named))
    return found


def carry_out(home: Home, orders: Iterable[PurgeOrder]) -> None:
    """Put orders into the logs as facts, and take the content away there; the files are done by now."""
    for order in orders:
        log = order.log
        key = (home.read(*log.top, KEY) or b"").strip()

        def make(fact: fact_rules.SyncFact, key: bytes = key) -> fact_rules.SyncFact:
            return fact_rules.seal(fact, key) if key else fact

        with home.lock(f"sync {log.stream}"), home.disk(*log.parts) as folder:
            purges.enact(log.stream, DiskLog(folder, log.replica), make, order.named, order.id)
        with contextlib.suppress(FileNotFoundError), home.folder(*log.top, ORDERS) as folder_:
            folder_.delete(f"{order.id}.json")


def finish(home: Home, actor: str, now: Callable[[], datetime]) -> int:
    """Carry out the orders that were cut short, in files and logs; how many there were."""
    orders = list_orders(home)
    for order in orders:
        place = place_of(order.log.stream)
        with home.lock(f"sync {order.log.stream}"), home.disk(*order.log.parts) as folder:
            facts = [each.fact for each in DiskLog(folder, order.log.replica).read()]
        removed = purges.removed_by(order.named, facts)
        if place is not None and any(removed):
            team = order.log.team
            shelf = teams.team_shelf(home, teams.find_team(home, team), place) if team else home.shelf(place)
            HomeFiles(home, shelf, actor, now).purge(removed)
        carry_out(home, [order])
    return len(orders)


# ------------------------------------------------------------------------------- what waits for a person


def list_held(home: Home) -> list[HeldText]:
    """The texts that wait, oldest first."""
    found = []
    for top in _tops(home):
        for name in home.names(*top, HELD):
            if not name.endswith(".json"):  # a person has decided about it
                continue
            with contextlib.suppress(ValueError, TypeError):
                given: dict[str, Any] = json.loads(home.read(*top, HELD, name) or b"")
                said = {key: str(given.get(key) or "") for key in ("place", "path", "at", "text")}
                found.append(HeldText(name.removesuffix(".json"), **said, workspace=top[1]))
    return sorted(found, key=lambda each: (each.at, each.id))


def drop_held(home: Home, id: str) -> None:
    """Delete one that waits, or that a person has decided about, and the change that brought it.

    That change may have been sent: it was an entry of its own in a record that was purged, so no purge names
    it. It is ordered as one, unless the text stands anew; in a team only owners may.
    """
    for top in _tops(home):
        there = [each for each in home.names(*top, HELD) if f"{each}.".startswith(f"{id}.json.")]
        if there:
            placed = place_orders(home, functools.partial(_find_held, id))
            with home.folder(*top, HELD) as folder:
                for name in there:
                    folder.delete(name)
            carry_out(home, placed)
            return
    raise NotFound(f"no text {id!r} is waiting", hint="`vade sync held` lists them")


def _find_held(id: str, state: FactSet) -> dict[Dot, Cut | None]:
    """The fact of which a held text was made, if its content is there and nowhere else."""
    replica, _, n = id.rpartition("-")
    texts = {
        dot: blocks.text_of(fact.value["raw"])
        for dot, fact in state.facts.items()
        if fact.kind == "put" and fact.value is not None
    }
    dot = Dot(replica, int(n) if n.isdecimal() else 0)
    return {dot: None} if [*texts.values()].count(texts.get(dot, "")) == 1 and dot in texts else {}


def purge_held(home: Home, wanted: str) -> None:
    """Take a text out of those that wait."""
    for top in _tops(home):
        for name in home.names(*top, HELD):
            with contextlib.suppress(ValueError, TypeError, Malformed):
                given = json.loads(home.read(*top, HELD, name) or b"")
                rest = purges.Removed((wanted,)).clean("records/held.md", str(given["text"])) or ""
                if rest != given["text"]:
                    content = json.dumps({**given, "text": rest}, indent=1).encode() + b"\n"
                    with home.folder(*top, HELD) as folder:
                        folder.delete(name)
                        folder.create(name, content)


def _tops(home: Home) -> list[tuple[str, ...]]:
    return [(FOLDER, name) for name in home.names(FOLDER)]
