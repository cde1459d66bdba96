"""One home's sync with the hub that it joined: its own places, in a personal workspace.

`hub/<workspace>/logs/` has a log for each place; beside it lies what is known of the hub. Every fact is
sealed with the workspace's key, which the hub does not have: what it made up itself is never taken.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING
from urllib.parse import quote, unquote

from vademecum.errors import NotFound, UsageError
from vademecum.sync import facts as fact_rules
from vademecum.sync.folder import PlaceSynced, place_of, places
from vademecum.sync.log import DiskLog, HomeFiles
from vademecum.sync.membership import FOLDER, client_of, find_membership, key_of
from vademecum.sync.place import Forked, SyncStream
from vademecum.sync.remote import HubRefused, Remote

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store.files import DiskFolder
    from vademecum.store.home import Home
    from vademecum.sync.facts import SyncFact
    from vademecum.sync.membership import Membership
    from vademecum.sync.remote import HubClient

LOGS, LAST = "logs", "synced.json"
PATIENCE = 10.0  # seconds for which a hub that is busy, or takes nothing now, is asked again


def find_hub(home: Home, name: str = "") -> tuple[Membership, bytes]:
    """The personal workspace that this home is synced with, and its key."""
    joined = find_membership(home, name, kind="personal")
    key = key_of(home, joined)
    if key is None:
        raise NotFound(
            f"the key of the workspace {joined.name} is not here", hint="join again with `vade hub join`"
        )
    return joined, key


@dataclass(slots=True)
class HubSide:
    """The hub as one stream's transport: what it does not take is told once everything else is done."""

    remote: Remote
    log: DiskLog
    refusal: HubRefused | None = None

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterator[SyncFact]:
        """Facts of others; one in this home's own name is a copy's, or was made before it was rolled back."""
        for fact in self.remote.pull(stream, known):
            if fact.replica == self.log.replica:
                self.log.renew()
            yield fact

    def push(self, stream: str, facts: Sequence[SyncFact]) -> None:
        """Leave this home's facts there; those that are refused wait, and what came is shown nevertheless."""
        try:
            self.remote.push(stream, facts)
        except HubRefused as error:
            if error.code == "forked":
                raise Forked(str(error)) from error
            if error.status == 401:
                raise
            self.refusal = error


@dataclass(slots=True)
class HubSync:
    """A sync of a home with its hub, place by place."""

    home: Home
    joined: Membership
    key: bytes
    actor: str
    now: Callable[[], datetime]
    deletions: bool | None = None
    _logs: dict[str, DiskLog] = field(default_factory=dict)

    def run(self, client: HubClient | None = None) -> list[PlaceSynced]:
        """Sync every place; with nothing new anywhere this is one request."""
        asking = client or client_of(self.home, self.joined, patience=PATIENCE)
        with (
            self.home.lock(f"hub {self.joined.workspace}"),
            self.home.disk(FOLDER, self.joined.workspace) as folder,
        ):
            try:
                return self._run(Remote(asking, folder, self._logged), folder)
            finally:
                asking.close()

    def _run(self, remote: Remote, folder: DiskFolder) -> list[PlaceSynced]:
        found, refusals = [], []
        listed = filter(None, map(place_of, remote.begin()))
        for place in sorted({*places(self.home), *listed}, key=str):
            kept = HomeFiles(self.home, self.home.shelf(place), self.actor, self.now)
            done, refusal = self._sync_place(remote, kept)
            found.append(done)
            refusals += [refusal] if refusal else []
        if refusals:
            raise refusals[0]
        folder.update(LAST, lambda _: json.dumps({"at": self.now().isoformat()}).encode() + b"\n")
        return found

    def _sync_place(self, remote: Remote, kept: HomeFiles) -> tuple[PlaceSynced, HubRefused | None]:
        name = str(kept.shelf.place)
        with (
            self.home.lock(f"sync {name}"),
            self.home.disk(FOLDER, self.joined.workspace, LOGS, quote(name, safe=""), create=True) as folder,
        ):
            log = self._logs[name] = DiskLog(folder, self.joined.replica)
            side = HubSide(remote, log)
            stream = SyncStream(
                name,
                log,
                kept,
                side,
                accept=lambda fact: fact_rules.is_sealed(fact, self.key),
                make=lambda fact: fact_rules.seal(fact, self.key),
            )
            try:
                done = stream.sync(deletions=self.deletions)
            except Forked:
                log.begin_anew()
                done = stream.sync(deletions=self.deletions)
            return PlaceSynced(name, done, tuple(kept.findings)), side.refusal

    def _logged(self, stream: str) -> list[SyncFact]:
        return [each.fact for each in self._logs[stream].read()]


@dataclass(frozen=True, slots=True)
class HubStanding:
    """What a home knows of its sync with a hub without asking it."""

    unsent: int
    synced: str | None


def read_standing(home: Home, joined: Membership) -> HubStanding:
    """How many changes are written down here and not there, and when the last whole sync was."""
    waiting = 0
    with home.disk(FOLDER, joined.workspace) as folder:
        remote = Remote(client_of(home, joined), folder, lambda _: ())
        for name in home.names(FOLDER, joined.workspace, LOGS):
            with home.disk(FOLDER, joined.workspace, LOGS, name) as logged:
                own = [each.fact for each in DiskLog(logged, joined.replica).read() if each.own]
            waiting += len(remote.unsent(unquote(name), own))
        try:
            last = json.loads(folder.read(LAST) or b"{}").get("at")
        except (ValueError, AttributeError):
            last = None
    return HubStanding(waiting, last)


def has_hub(home: Home) -> bool:
    """Whether this home has joined a personal workspace."""
    try:
        find_membership(home, kind="personal")
    except NotFound:
        return False
    except UsageError:  # several
        return True
    return True
