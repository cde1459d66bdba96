"""One home's sync with the hubs that it joined: its own places in a personal workspace, a team's in its own.

`hub/<workspace>/logs/` has a log for each place; beside it lies what is known of the hub. In a personal
workspace every fact is sealed with its key, which the hub does not have: what it made up itself is never
taken. A team's facts are taken as the hub stamped them, and files say whose they are.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from vademecum.errors import Locked, NotFound
from vademecum.store import archive, hub_rules, reading, teams
from vademecum.store.teams import LOGS
from vademecum.sync import facts as fact_rules
from vademecum.sync import purges
from vademecum.sync.facts import PURGE
from vademecum.sync.folder import PlaceSynced, place_of, places
from vademecum.sync.log import DiskLog, HomeFiles
from vademecum.sync.membership import (
    FOLDER,
    TOKEN,
    TOLD,
    client_of,
    find_membership,
    keep_standing,
    key_of,
    list_memberships,
)
from vademecum.sync.place import FactsRefused, Forked, PurgedMeanwhile, SyncStream, Withheld
from vademecum.sync.project import FactSet, project, read_front
from vademecum.sync.remote import HubEvents, HubRefused, Remote, last_read
from vademecum.sync.team import make_signing
from vademecum.sync.trust import TeamTrust, may_agent_send, sign_as_agent
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store import Directory, Home, Shelf
    from vademecum.store.files import DiskFolder
    from vademecum.sync.facts import SyncFact
    from vademecum.sync.membership import Membership
    from vademecum.sync.place import Synced
    from vademecum.sync.project import Shows
    from vademecum.sync.remote import HubClient
    from vademecum.types import Place

TEAM, PRIVATE = "team", "private"

LAST, ACKED, WITHHELD = "synced.json", "acked.json", "withheld.json"
TWO_PERSON, _FULL = "two-person", "quota"
_HELD = frozenset({"propose", "forbidden", "secret", TWO_PERSON, _FULL})  # refusals of one fact
PATIENCE = 10.0  # seconds for which a hub that is busy, or takes nothing now, is asked again


def find_hub(home: Home, name: str = "") -> tuple[Membership, bytes]:
    """The personal workspace that this home is synced with, and its key."""
    joined = find_membership(home, name, kind="personal")
    return joined, find_key(home, joined)


def find_hubs(home: Home, name: str = "") -> list[Membership]:
    """The workspaces that this home is synced with, or the one that is named, the personal one first."""
    if name:
        return [find_membership(home, name)]
    joined = list_memberships(home)
    if sum(each.kind != TEAM for each in joined) > 1:
        find_membership(home, kind="personal")  # refuses: a home's own files are synced with one
    if not joined:
        raise NotFound("this home has joined no hub", hint="join one with `vade hub join URL`")
    return sorted(joined, key=lambda each: (each.kind == TEAM, each.name, each.workspace))


def find_key(home: Home, joined: Membership) -> bytes:
    """The key of a personal workspace; a team has none."""
    key = b"" if joined.kind == TEAM else key_of(home, joined)
    if key is None:
        raise NotFound(
            f"the key of the workspace {joined.name} is not here", hint="join again with `vade hub join`"
        )
    return key


@dataclass(slots=True)
class HubSide:
    """The hub as one stream's transport: what it does not take is told once everything else is done."""

    remote: Remote
    log: DiskLog
    refusal: HubRefused | None = None
    sent: int = 0  # changes, also those that an earlier sync could not send
    full: bool = False  # whether something did not fit

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterator[SyncFact]:
        """Facts of others; one in this home's own name is a copy's, or was made before it was rolled back."""
        for fact in self.remote.pull(stream, known):
            if fact.replica == self.log.replica:
                self.log.renew()
            yield fact

    def push(self, stream: str, facts: Sequence[SyncFact]) -> None:
        """Leave this home's facts there; those that are refused wait, and what came is shown nevertheless."""
        waiting = sum(not fact_rules.is_withdrawn(each) for each in self.remote.unsent(stream, facts))
        try:
            self.remote.push(stream, facts)
        except HubRefused as error:
            if error.code == "forked":
                raise Forked(str(error)) from error
            if error.status == 401:
                raise
            if refused := self._refused(stream, facts, error):
                raise FactsRefused(str(error), refused) from error
            self.refusal = error
            if error.code == "purged":  # since we read what is there: read again, and let go of it
                self.remote.begin(anew=True)
                raise PurgedMeanwhile(str(error)) from error
        else:
            self.refusal, self.sent = None, waiting

    def _refused(self, stream: str, facts: Sequence[SyncFact], error: HubRefused) -> list[SyncFact]:
        """Of what was not sent the facts that stand in the way of the rest.

        A text goes with all that was done to its document, a verification alone; where this member verifies
        nothing any more, all of them do, and what they withdraw stays. Of a place that is full more than one
        document waits.
        """
        waiting = self.remote.unsent(stream, facts) if error.code in _HELD else []
        found = next((fact for fact in waiting if fact.dot == error.dot), None)
        if found is None or found.purged or (error.code == _FULL and self.full):
            return []
        self.full = self.full or error.code == _FULL
        if found.kind == "vouch" and error.code != TWO_PERSON:
            return [fact for fact in waiting if fact.kind == "vouch" and fact.value == found.value]
        if found.kind in ("vouch", PURGE):
            return [fact for fact in waiting if fact.register == found.register]
        same = (fact for fact in waiting if fact.doc == found.doc and not fact.purged)
        return [fact for fact in same if fact.kind != "vouch" or fact.value]


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
    _trust: TeamTrust | None = None

    def run(self, client: HubClient | None = None) -> list[PlaceSynced]:
        """Sync every place; with nothing new anywhere this is one request."""
        asking = client or client_of(self.home, self.joined, patience=PATIENCE)
        with (
            self.home.lock(f"hub {self.joined.workspace}"),
            self.home.disk(FOLDER, self.joined.workspace) as folder,
        ):
            self._trust = TeamTrust(self.home, self.joined, asking) if self.joined.kind == TEAM else None
            try:
                return self._run(Remote(asking, folder, self._logged), folder)
            finally:
                asking.close()

    def _run(self, remote: Remote, folder: DiskFolder) -> list[PlaceSynced]:
        found, refusals = [], []
        listed = filter(None, map(place_of, remote.begin()))
        self._take_standing(remote.standing)
        for place in sorted({*places(self.home, *self._below()), *listed}, key=str):
            aside = (FOLDER, self.joined.workspace, "held")
            kept = HomeFiles(self.home, self._shelf(place), self.actor, self.now, aside=aside)
            done, refusal = self._sync_place(remote, kept)
            found.append(done)
            refusals += [refusal] if refusal else []
        if self._trust is not None and found:
            found[-1] = replace(found[-1], news=tuple(self._trust.meet()))
        if refusals:
            raise refusals[0]
        if self._trust is not None:
            self._trust.forget_withdrawn()
        folder.update(LAST, lambda _: json.dumps({"at": self.now().isoformat()}).encode() + b"\n")
        return found

    def _take_standing(self, told: Mapping[str, Any]) -> None:
        """Go by the role and the rules that the hub has now, whatever they were when this home joined."""
        self.joined = keep_standing(self.home, self.joined, told)
        if self._trust is not None:
            self._trust.told, self._trust.joined = told, self.joined

    def _sync_place(self, remote: Remote, kept: HomeFiles) -> tuple[PlaceSynced, HubRefused | None]:
        name = str(kept.shelf.place)
        with (
            self.home.lock(f"sync {name}"),
            self.home.disk(FOLDER, self.joined.workspace, LOGS, quote(name, safe=""), create=True) as folder,
        ):
            log = self._logs[name] = DiskLog(folder, self.joined.replica)
            side = HubSide(remote, log)
            stream = self._stream(kept, log, side, folder)
            stream.withheld = read_withheld(folder, remote.standing)
            try:
                done = stream.sync(deletions=self.deletions)
            except Forked:
                log.begin_anew()
                done = stream.sync(deletions=self.deletions)
            done.sent = max(done.sent, side.sent)
            self._acknowledge(remote, name, log, folder)
            kept.keep_notices(done.notices)
            told = _keep_withheld(folder, remote.standing, stream.withheld, kept, done)
            if self._trust is not None:
                self._trust.count(name, log, folder, lambda: remote.authors(name))
            return PlaceSynced(name, done, (*kept.findings, *told)), side.refusal

    def _acknowledge(self, remote: Remote, name: str, log: DiskLog, folder: DiskFolder) -> None:
        """Tell the hub which purges were carried out here, each once."""
        every = {str(dot) for dot in purges.purges_of(each.fact for each in log.of_kind(PURGE))}
        try:
            told = set(json.loads(folder.read(ACKED) or b"[]"))
        except ValueError:
            told = set()
        if every - told:
            done = remote.acknowledge(name, every - told, self.joined.replica)
            folder.update(ACKED, lambda _: json.dumps(sorted(told | done)).encode())

    def _stream(self, kept: HomeFiles, log: DiskLog, side: HubSide, folder: DiskFolder) -> SyncStream:
        place, agent, authors = kept.shelf.place, self.joined.agent, side.remote.authors
        allowed = may_agent_send(self.joined.member, authors(str(place)), log.is_own) if agent else None
        origin = sign_as_agent if agent else (lambda fact: fact)
        if self.joined.kind != TEAM:
            return SyncStream(
                str(place),
                log,
                kept,
                side,
                accept=lambda fact: fact_rules.is_sealed(fact, self.key),
                make=lambda fact: fact_rules.seal(origin(fact), self.key),
                allowed=allowed,
                may_purge=not agent,
            )
        signing = make_signing(place, self.joined.member, folder, log.is_own)
        stream = SyncStream(str(place), log, kept, side, signing=signing, rules=signing.rules)
        stream.moved = self._moved(place)
        stream.make, stream.allowed = origin, allowed
        stream.may_purge = self.joined.role == "owner" and not agent
        if self._trust is not None:
            also, shows = self._trust.vouch, partial(project, signing=signing)
            asked = partial(authors, str(place))
            stream.also = lambda ledger: also(ledger, log, folder, project=shows, authors=asked)
        return stream

    def _moved(self, place: Place) -> Callable[[Shows], str]:
        """Where records go that a member takes out of a team's memory."""
        own = self.home.shelf(place)

        def to(shows: Shows) -> str:
            kind, _, name = shows.path.rpartition("/")
            there = reading.from_shelf(own, kind, name) if kind == archive.RECORDS else None
            known = None if there is None else read_front(there.decode(errors="replace")).get("id")
            return PRIVATE if known and known == shows.values.get("id") else ""

        return to

    def _below(self) -> tuple[str, ...]:
        return (teams.FOLDER, self.joined.workspace) if self.joined.kind == TEAM else ()

    def _shelf(self, place: Place) -> Shelf:
        if self.joined.kind != TEAM:
            return self.home.shelf(place)
        return teams.team_shelf(self.home, teams.find_team(self.home, self.joined.workspace), place)

    def _logged(self, stream: str) -> list[SyncFact]:
        return [each.fact for each in self._logs[stream].read()]


def read_withheld(folder: Directory, standing: Mapping[str, Any] | None = None) -> dict[str, Withheld]:
    """What the hub refused of the files of a stream; with another role or other rules it is tried again."""
    told = hub_rules.load(folder.read(WITHHELD))
    if standing is not None and told.get("standing") != standing:
        return {}
    listed = told.get("files")
    return {
        str(path): Withheld(str(each[0]), str(each[1]), str(each[2]), int(each[3]))
        for path, each in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(each, list) and len(each) == 4
    }


def _keep_withheld(
    folder: Directory,
    standing: Mapping[str, Any],
    before: Mapping[str, Withheld],
    kept: HomeFiles,
    done: Synced,
) -> list[Finding]:
    """Remember what is not sent until it may be, or is no longer so; what is told of verifications."""
    files = {path: each for path, each in before.items() if path in kept.held()} | done.withheld
    if files or before:
        told = {"standing": dict(standing), "files": {path: list(each) for path, each in files.items()}}
        folder.update(WITHHELD, lambda _: json.dumps(told).encode() + b"\n")
    return [
        Finding("not sent", kept.shelf.name_of(*filter(None, [path])), why, "")
        for path, why in sorted(done.unsaid.items())
    ]


def holds_text(home: Home, joined: Membership, text: str) -> bool:
    """Whether the hub still has facts with a text that a purge would take; it forgets the question."""
    client = client_of(home, joined, patience=PATIENCE)
    try:
        for name in home.names(FOLDER, joined.workspace, LOGS):
            path = f"/v1/streams/{quote(unquote(name))}/purge"
            reply = client.ask("POST", path, json.dumps({"text": text}).encode())
            with home.disk(FOLDER, joined.workspace, LOGS, name) as folder:
                known = {str(each.fact.dot): each.fact for each in DiskLog(folder, joined.replica).read()}
            listed = [str(each) for each in reply.json()["dots"]]
            if any(dot not in known or purges.find_text([known[dot]], text) for dot in listed):
                return True
        return False
    finally:
        client.close()


def count_purged(home: Home, joined: Membership) -> dict[str, tuple[int, int]]:
    """Of each stream with purges on how many machines of how many the least known one was carried out."""
    client, found = client_of(home, joined, patience=PATIENCE), {}
    try:
        for name in home.names(FOLDER, joined.workspace, LOGS):
            with home.disk(FOLDER, joined.workspace, LOGS, name) as folder:
                if not DiskLog(folder, joined.replica).of_kind(PURGE):
                    continue
            listed = client.ask("GET", f"/v1/streams/{quote(unquote(name))}/purge").json()["purges"]
            if listed:
                found[unquote(name)] = min((each["acknowledged"], each["machines"]) for each in listed)
    finally:
        client.close()
    return found


def leave_hub(home: Home, joined: Membership, *, forget: bool = False) -> None:
    """Sync with a workspace no longer; with `forget`, whoever joins it again begins from what the hub has."""
    with home.lock(f"hub {joined.workspace}"), home.disk(FOLDER, joined.workspace) as folder:
        for name in home.names(FOLDER, joined.workspace, LOGS) if forget else ():
            with home.disk(FOLDER, joined.workspace, LOGS, name) as logged:
                DiskLog(logged, joined.replica).begin_anew()
        told = folder.read(TOLD)
        folder.update(teams.LEFT, lambda _: told or b"")
        for name in (TOLD, TOKEN):
            folder.delete(name)


def hear(home: Home, joined: Membership, ring: Callable[[], None]) -> HubEvents:
    """Listen to what changes in a workspace; `ring` is called when a sync would bring something."""

    def known(stream: str, head: int) -> bool:
        try:  # a sync that runs now says at its end how far it read
            with (
                home.lock(f"hub {joined.workspace}", derived=True),
                home.disk(FOLDER, joined.workspace) as folder,
            ):
                return last_read(folder, stream) == head
        except Locked:  # it runs for long
            return False

    return HubEvents(lambda: client_of(home, joined), ring, known)


@dataclass(frozen=True, slots=True)
class HubStanding:
    """What a home knows of its sync with a hub without asking it."""

    unsent: int
    synced: str | None
    refused: Sequence[str] = ()  # files with changes that the hub does not take, and why


def read_standing(home: Home, joined: Membership) -> HubStanding:
    """How many changes are written down here and not there, and when the last whole sync was."""
    waiting, refused = 0, list[str]()
    with home.disk(FOLDER, joined.workspace) as folder:
        remote = Remote(client_of(home, joined), folder, lambda _: ())
        for name in home.names(FOLDER, joined.workspace, LOGS):
            with home.disk(FOLDER, joined.workspace, LOGS, name) as logged:
                own = DiskLog(logged, joined.replica).tail().own_facts()
                refused += _tell_withheld(name, logged)
            unsent = remote.unsent(unquote(name), own)
            waiting += sum(not fact_rules.is_withdrawn(each) for each in unsent)
        try:
            last = json.loads(folder.read(LAST) or b"{}").get("at")
        except (ValueError, AttributeError):
            last = None
    return HubStanding(waiting, last, refused)


class WrittenFile(NamedTuple):
    """A file of a team as it is, and as it would be without what somebody wrote; None for no file."""

    place: Place
    path: str
    before: str | None
    after: str | None


class AuthorsWork(NamedTuple):
    """What a member wrote since some moment: the files that differ by it, and what no edit takes back."""

    files: Sequence[WrittenFile] = ()
    verifications: int = 0
    purges: int = 0


def find_written(home: Home, joined: Membership, by: str, since: datetime) -> AuthorsWork:
    """What the hub says that a member, or an agent of theirs, has added since then, as this home knows it.

    What others wrote over it later stays as they left it.
    """
    names = home.names(FOLDER, joined.workspace, LOGS)
    found = [_written_in(home, joined, name, by, since) for name in names]
    files = [each for one in found for each in one.files]
    verified = sum(each.verifications for each in found)
    return AuthorsWork(files, verified, sum(each.purges for each in found))


def _written_in(home: Home, joined: Membership, name: str, by: str, since: datetime) -> AuthorsWork:
    """What a member wrote to one place."""
    place = place_of(unquote(name))
    if place is None:
        return AuthorsWork()
    with home.disk(FOLDER, joined.workspace, LOGS, name) as folder:
        log = DiskLog(folder, joined.replica)
        signing = make_signing(place, joined.member, folder, log.is_own)
        stamps = (dot for dot, each in signing.stamps().items() if each.is_of(by, since))
        facts, theirs = [each.fact for each in log.read()], set(stamps)
        now = project(FactSet(facts), signing)
        then = project(FactSet(fact for fact in facts if fact.dot not in theirs), signing)
    texts = (WrittenFile(place, path, _text_of(now, path), _text_of(then, path)) for path in {*now, *then})
    given = [fact for fact in facts if fact.dot in theirs]
    verified = sum(fact.kind == "vouch" and fact.value is True for fact in given)
    return AuthorsWork(_differing(texts), verified, sum(fact.kind == PURGE for fact in given))


def _differing(texts: Iterable[WrittenFile]) -> list[WrittenFile]:
    return sorted((each for each in texts if each.before != each.after), key=lambda each: each.path)


def _text_of(shown: Mapping[str, Shows], path: str) -> str | None:
    return shown[path].text if path in shown else None


def list_refused(home: Home) -> list[str]:
    """The files with changes that hubs did not take, and why, as the last syncs left it; no hub is asked."""
    found = []
    for joined in list_memberships(home):
        for name in home.names(FOLDER, joined.workspace, LOGS):
            with home.disk(FOLDER, joined.workspace, LOGS, name) as logged:
                found += [f"{joined.name}: {said}" for said in _tell_withheld(name, logged)]
    return found


def _tell_withheld(name: str, logged: Directory) -> list[str]:
    held = read_withheld(logged)
    return [f"{unquote(name)} {path}: {each.why}" for path, each in sorted(held.items())]


def has_hub(home: Home) -> bool:
    """Whether this home has joined a workspace."""
    return bool(list_memberships(home))
