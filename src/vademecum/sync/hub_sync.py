"""Sync a home with its hubs: own places with a personal workspace, a team's places with the team's.

`hub/<workspace>/logs/` has a log for each place, beside the state of the hub. In a personal workspace every
fact is sealed with a key that the hub does not have, so a hub cannot make up facts. A team's facts have the
hub's stamps, and files name their authors.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, unquote

from vademecum.errors import Locked, NotFound
from vademecum.store import hub_rules, teams
from vademecum.store.teams import LOGS
from vademecum.sync import facts as fact_rules
from vademecum.sync import purge_facts
from vademecum.sync.facts import PURGE
from vademecum.sync.folder_sync import PlaceSynced, place_of, places
from vademecum.sync.hub_client import HubEvents, HubRefused, Remote, last_read
from vademecum.sync.hub_key import check_key
from vademecum.sync.key_files import NEXT, settle_staged
from vademecum.sync.membership import (
    FOLDER,
    TOKEN,
    WORKSPACE_FILE,
    client_of,
    find_membership,
    keep_standing,
    key_of,
    list_memberships,
)
from vademecum.sync.projection import FactSet, project, read_front
from vademecum.sync.stream_log import DiskLog, HomeFiles
from vademecum.sync.stream_sync import FactsRefused, Forked, PurgedMeanwhile, SyncStream, Withheld
from vademecum.sync.team_signing import make_signing
from vademecum.sync.team_trust import TeamTrust, may_agent_send, sign_as_agent
from vademecum.sync.workspace_key import WrongKey, parse_record
from vademecum.text import filenames
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.store import Directory, DiskFolder, Home, ScopeFolder
    from vademecum.sync.facts import SyncFact
    from vademecum.sync.hub_client import HubClient
    from vademecum.sync.membership import Membership
    from vademecum.sync.projection import ShownFile
    from vademecum.sync.stream_sync import Synced
    from vademecum.sync.workspace_key import KeyRecord
    from vademecum.types import Place

TEAM, PRIVATE = "team", "private"

LAST, ACKED, WITHHELD = "synced.json", "acked.json", "withheld.json"
TWO_PERSON, _FULL = "two-person", "quota"
_FACT_REFUSALS = frozenset(
    {"propose", "forbidden", "secret", TWO_PERSON, _FULL}
)  # the hub's codes for refusing a single fact
PATIENCE = 10.0  # seconds of retries with a busy or read-only hub


def find_hub(home: Home, name: str = "") -> tuple[Membership, bytes]:
    """Return a personal workspace that this home has joined, and its key.

    Without a `name`, return the only personal workspace.
    """
    joined = find_membership(home, name, kind="personal")
    return joined, find_key(home, joined)


def find_hubs(home: Home, name: str = "") -> list[Membership]:
    """Return the workspaces that this home has joined, the personal workspace first.

    With a `name`, return the named workspace alone.
    """
    if name:
        return [find_membership(home, name)]
    joined = list_memberships(home)
    if sum(each.kind != TEAM for each in joined) > 1:
        find_membership(home, kind="personal")  # raises an error: a home's own files sync with one workspace
    if not joined:
        raise NotFound("this home has joined no hub", hint="join one with `vade hub join URL`")
    return sorted(joined, key=lambda each: (each.kind == TEAM, each.name, each.workspace))


def find_key(home: Home, joined: Membership) -> bytes:
    """Return the key of a personal workspace; an empty key for a team.

    Raise NotFound if the key of a personal workspace is not stored here.
    """
    key = b"" if joined.kind == TEAM else key_of(home, joined)
    if key is None:
        raise NotFound(
            f"the key of the workspace {joined.name} is not here",
            hint="`vade sync key set` takes it; if no machine has it, `vade sync key rotate` makes another",
        )
    return key


@dataclass(slots=True)
class HubSide:
    """The hub as the transport of one stream; a refusal is kept until the rest of the sync is done."""

    remote: Remote
    log: DiskLog
    refusal: HubRefused | None = None
    sent: int = 0  # number of changes, also unsent ones of earlier syncs
    full: bool = False  # whether a document was over the quota

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterator[SyncFact]:
        """Yield the facts of the hub that are not `known`.

        If a fact has this home's replica name, another home uses the name, so take a new one.
        """
        for fact in self.remote.pull(stream, known):
            if fact.replica == self.log.replica:
                self.log.renew()
            yield fact

    def push(self, stream: str, facts: Sequence[SyncFact]) -> None:
        """Send this home's facts to the hub.

        After most refusals the facts wait, and the sync still writes received facts to files. An error is
        raised if the token is invalid, or if the sync has to handle the refusal: a fork, a purged text, or
        facts to withdraw.
        """
        waiting = sum(not fact_rules.is_withdrawn(each) for each in self.remote.unsent(stream, facts))
        try:
            self.remote.push(stream, facts)
        except HubRefused as error:
            if error.code == "forked":
                raise Forked(str(error)) from error
            if error.code == "key":
                raise WrongKey("another machine changed the key of this workspace meanwhile") from error
            if error.status == 401:
                raise
            if refused := self._find_refused(stream, facts, error):
                raise FactsRefused(str(error), refused) from error
            self.refusal = error
            if error.code == "purged":  # purged since the last pull: pull again
                self.remote.begin(anew=True)
                raise PurgedMeanwhile(str(error)) from error
        else:
            self.refusal, self.sent = None, waiting

    def _find_refused(self, stream: str, facts: Sequence[SyncFact], error: HubRefused) -> list[SyncFact]:
        """Return the unsent facts to withdraw, so that the hub takes the other facts after a refusal.

        For a refused vouch these are all unsent vouches with the same value. For a vouch refused under the
        two-person rule, and for a purge, these are the facts of the same register. For any other fact these
        are all facts of its document, except withdrawals of vouches. The list is empty if the refusal is not
        about a single unsent fact, or if a place is full for the second time.
        """
        waiting = self.remote.unsent(stream, facts) if error.code in _FACT_REFUSALS else []
        found = next((fact for fact in waiting if fact.id == error.id), None)
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
    """One sync of a home with one workspace of a hub."""

    home: Home
    joined: Membership
    key: bytes
    actor: str
    now: Callable[[], datetime]
    deletions: bool | None = None
    _logs: dict[str, DiskLog] = field(default_factory=dict)
    _trust: TeamTrust | None = None
    _key_record: KeyRecord | None = None  # of a personal workspace

    def run(self, client: HubClient | None = None) -> list[PlaceSynced]:
        """Sync all places with the hub and return the results; if nothing is new, this needs one request.

        The `client`, given or new, is closed at the end.
        """
        asking = client or client_of(self.home, self.joined, patience=PATIENCE)
        with (
            self.home.lock(f"hub {self.joined.workspace}"),
            self.home.disk(FOLDER, self.joined.workspace) as folder,
        ):
            self._trust = TeamTrust(self.home, self.joined, asking) if self.joined.kind == TEAM else None
            try:
                remote = Remote(asking, folder, self._read_log)
                listed = remote.begin()
                if self.joined.kind != TEAM:
                    self._check_key(remote, asking, folder)
                return self._run(remote, folder, listed)
            finally:
                asking.close()

    def _check_key(self, remote: Remote, client: HubClient, folder: DiskFolder) -> None:
        """Raise WrongKey before anything is read or sent if this home has another key than the workspace."""
        if remote.key is not None and folder.stat(NEXT) is not None:
            settle_staged(folder, parse_record(client.ask("GET", "/v1/key").json()["record"]))
            self.key = find_key(self.home, self.joined)
        self._key_record = check_key(self.home, self.joined, self.key.decode(), client, remote.key)
        remote.check = self._key_record.check if remote.key is not None else ""

    def _run(self, remote: Remote, folder: DiskFolder, listed: Iterable[str]) -> list[PlaceSynced]:
        found, refusals = [], []
        named = filter(None, map(place_of, listed))
        self._save_standing(remote.standing)
        for place in sorted({*places(self.home, *self._team_folder()), *named}, key=str):
            aside = (FOLDER, self.joined.workspace, "held")
            home_files = HomeFiles(self.home, self._scope_folder(place), self.actor, self.now, aside=aside)
            done, refusal = self._sync_place(remote, home_files)
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

    def _save_standing(self, standing: Mapping[str, Any]) -> None:
        """Save the member's role and the workspace's rules, as the hub reports them now."""
        self.joined = keep_standing(self.home, self.joined, standing)
        if self._trust is not None:
            self._trust.hub_standing, self._trust.joined = standing, self.joined

    def _sync_place(self, remote: Remote, home_files: HomeFiles) -> tuple[PlaceSynced, HubRefused | None]:
        name = str(home_files.scope_folder.place)
        with (
            self.home.lock(f"sync {name}"),
            self.home.disk(FOLDER, self.joined.workspace, LOGS, quote(name, safe=""), create=True) as folder,
        ):
            log = self._logs[name] = DiskLog(folder, self.joined.replica)
            side = HubSide(remote, log)
            if self._key_record is not None and remote.key is not None:
                ends = self._key_record.ends.get(name, {})
                log.seal_own(self.key, self._key_record.check, ends, partial(remote.send_seals, name))
            stream = self._stream(home_files, log, side, folder)
            stream.withheld = read_withheld(folder, remote.standing)
            try:
                done = stream.sync(deletions=self.deletions)
            except Forked:
                log.begin_anew()
                done = stream.sync(deletions=self.deletions)
            done.sent = max(done.sent, side.sent)
            self._acknowledge(remote, name, log, folder)
            home_files.keep_notices(done.notices)
            findings = _save_withheld(folder, remote.standing, stream.withheld, home_files, done)
            if self._trust is not None:
                self._trust.count(name, log, folder, lambda: remote.authors(name))
            return PlaceSynced(name, done, (*home_files.findings, *findings)), side.refusal

    def _acknowledge(self, remote: Remote, name: str, log: DiskLog, folder: DiskFolder) -> None:
        """Tell the hub that this machine has carried out purges, once for each purge."""
        every = {str(fact_id) for fact_id in purge_facts.purges_of(each.fact for each in log.of_kind(PURGE))}
        try:
            known_ids = set(json.loads(folder.read(ACKED) or b"[]"))
        except ValueError:
            known_ids = set()
        if every - known_ids:
            done = remote.acknowledge(name, every - known_ids, self.joined.replica)
            folder.update(ACKED, lambda _: json.dumps(sorted(known_ids | done)).encode())

    def _stream(self, home_files: HomeFiles, log: DiskLog, side: HubSide, folder: DiskFolder) -> SyncStream:
        place, agent, authors = home_files.scope_folder.place, self.joined.agent, side.remote.authors
        allowed = may_agent_send(self.joined.member, authors(str(place)), log.is_own) if agent else None
        origin = sign_as_agent if agent else (lambda fact: fact)
        if self.joined.kind != TEAM:
            return SyncStream(
                str(place),
                log,
                home_files,
                side,
                accept=lambda fact: fact_rules.is_sealed(fact, self.key),
                ends=self._key_record.ends.get(str(place), {}) if self._key_record else {},
                make=lambda fact: fact_rules.seal(origin(fact), self.key),
                allowed=allowed,
                may_purge=not agent,
            )
        signing = make_signing(place, self.joined.member, folder, log.is_own)
        stream = SyncStream(str(place), log, home_files, side, signing=signing, rules=signing.rules)
        stream.moved = self._make_moved(place)
        stream.make, stream.allowed = origin, allowed
        stream.may_purge = self.joined.role == "owner" and not agent
        if self._trust is not None:
            also, file = self._trust.vouch, partial(project, signing=signing)
            find_authors = partial(authors, str(place))
            stream.also = lambda writer: also(writer, log, folder, project=file, authors=find_authors)
        return stream

    def _make_moved(self, place: Place) -> Callable[[ShownFile], str]:
        """Return a function that tells whether a file removed from the team was moved to private memory.

        The function returns `private`, or an empty text.
        """
        own = self.home.scope_folder(place)

        def to(file: ShownFile) -> str:
            kind, _, name = file.path.rpartition("/")
            there = own.read(kind, name) if kind == filenames.RECORDS else None
            known = None if there is None else read_front(there.decode(errors="replace")).get("id")
            return PRIVATE if known and known == file.values.get("id") else ""

        return to

    def _team_folder(self) -> tuple[str, ...]:
        return (teams.FOLDER, self.joined.workspace) if self.joined.kind == TEAM else ()

    def _scope_folder(self, place: Place) -> ScopeFolder:
        if self.joined.kind != TEAM:
            return self.home.scope_folder(place)
        return teams.team_folder(self.home, teams.find_team(self.home, self.joined.workspace), place)

    def _read_log(self, stream: str) -> list[SyncFact]:
        return [each.fact for each in self._logs[stream].read()]


def read_withheld(folder: Directory, standing: Mapping[str, Any] | None = None) -> dict[str, Withheld]:
    """Return the refused changes of a stream by path, as saved in its folder.

    With `standing`, the member's current role and the hub's rules, return none if these have changed since.
    """
    values = hub_rules.load(folder.read(WITHHELD))
    if standing is not None and values.get("standing") != standing:
        return {}
    listed = values.get("files")
    return {
        str(path): Withheld(str(each[0]), str(each[1]), str(each[2]), int(each[3]))
        for path, each in (listed.items() if isinstance(listed, dict) else ())
        if isinstance(each, list) and len(each) == 4
    }


def _save_withheld(
    folder: Directory,
    standing: Mapping[str, Any],
    before: Mapping[str, Withheld],
    home_files: HomeFiles,
    done: Synced,
) -> list[Finding]:
    """Save the changes that the hub refused: those of this sync, and earlier ones whose files are held.

    `before` has the earlier ones. Return findings about refused verifications and purges.
    """
    files = {path: each for path, each in before.items() if path in home_files.held()} | done.withheld
    if files or before:
        values = {"standing": dict(standing), "files": {path: list(each) for path, each in files.items()}}
        folder.update(WITHHELD, lambda _: json.dumps(values).encode() + b"\n")
    return [
        Finding("not sent", home_files.scope_folder.name_of(*filter(None, [path])), why, "")
        for path, why in sorted(done.unsaid.items())
    ]


def holds_text(home: Home, joined: Membership, text: str) -> bool:
    """Return whether the hub has facts with this text, which a purge would then delete."""
    client = client_of(home, joined, patience=PATIENCE)
    try:
        for name in home.names(FOLDER, joined.workspace, LOGS):
            path = f"/v1/streams/{quote(unquote(name))}/purge"
            reply = client.ask("POST", path, json.dumps({"text": text}).encode())
            with home.disk(FOLDER, joined.workspace, LOGS, name) as folder:
                known = {str(each.fact.id): each.fact for each in DiskLog(folder, joined.replica).read()}
            listed = [str(each) for each in reply.json()["dots"]]
            if any(
                fact_id not in known or purge_facts.find_text([known[fact_id]], text) for fact_id in listed
            ):
                return True
        return False
    finally:
        client.close()


def count_purged(home: Home, joined: Membership) -> dict[str, tuple[int, int]]:
    """Return the progress of the slowest purge of each stream that has purges.

    The first number counts the machines that have carried out this purge, the second all machines.
    """
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
    """Leave a workspace; with `forget`, a later join starts from the hub's facts, not from the local log."""
    with home.lock(f"hub {joined.workspace}"), home.disk(FOLDER, joined.workspace) as folder:
        for name in home.names(FOLDER, joined.workspace, LOGS) if forget else ():
            with home.disk(FOLDER, joined.workspace, LOGS, name) as logged:
                DiskLog(logged, joined.replica).begin_anew()
        content = folder.read(WORKSPACE_FILE)
        folder.update(teams.LEFT, lambda _: content or b"")
        for name in (WORKSPACE_FILE, TOKEN):
            folder.delete(name)


def listen(home: Home, joined: Membership, ring: Callable[[], None]) -> HubEvents:
    """Listen to the changes of a workspace in a thread; call `ring` when a sync is needed."""

    def known(stream: str, head: int) -> bool:
        try:  # wait for a running sync, which saves how far it has read
            with (
                home.lock(f"hub {joined.workspace}", derived=True),
                home.disk(FOLDER, joined.workspace) as folder,
            ):
                return last_read(folder, stream) == head
        except Locked:  # the sync takes too long
            return False

    return HubEvents(lambda: client_of(home, joined), ring, known)


@dataclass(frozen=True, slots=True)
class HubStanding:
    """How far a home is synced with a hub: unsent changes, last complete sync, refused changes."""

    unsent: int
    synced: str | None
    refused: Sequence[str] = ()  # files with refused changes, and the reasons


def read_standing(home: Home, joined: Membership) -> HubStanding:
    """Return the number of unsent changes, the time of the last complete sync, and the refused changes."""
    waiting, refused = 0, list[str]()
    with home.disk(FOLDER, joined.workspace) as folder:
        remote = Remote(client_of(home, joined), folder, lambda _: ())
        for name in home.names(FOLDER, joined.workspace, LOGS):
            with home.disk(FOLDER, joined.workspace, LOGS, name) as logged:
                own = DiskLog(logged, joined.replica).tail().own_facts()
                refused += _describe_withheld(name, logged)
            unsent = remote.unsent(unquote(name), own)
            waiting += sum(not fact_rules.is_withdrawn(each) for each in unsent)
        try:
            last = json.loads(folder.read(LAST) or b"{}").get("at")
        except (ValueError, AttributeError):
            last = None
    return HubStanding(waiting, last, refused)


class WrittenFile(NamedTuple):
    """A team's file as it is, and as it would be without a member's changes; None if there is no file."""

    place: Place
    path: str
    before: str | None
    after: str | None


class AuthorsWork(NamedTuple):
    """The changes of one member since a time: their files, and counts of verifications and purges."""

    files: Sequence[WrittenFile] = ()
    verifications: int = 0
    purges: int = 0


def find_written(home: Home, joined: Membership, by: str, since: datetime) -> AuthorsWork:
    """Return the changes of a member and of their agents since a time, known by the hub's stamps.

    Later changes of the same texts by other members are not among them.
    """
    names = home.names(FOLDER, joined.workspace, LOGS)
    found = [_find_in_place(home, joined, name, by, since) for name in names]
    files = [each for one in found for each in one.files]
    verified = sum(each.verifications for each in found)
    return AuthorsWork(files, verified, sum(each.purges for each in found))


def _find_in_place(home: Home, joined: Membership, name: str, by: str, since: datetime) -> AuthorsWork:
    """Return the changes of a member in one place."""
    place = place_of(unquote(name))
    if place is None:
        return AuthorsWork()
    with home.disk(FOLDER, joined.workspace, LOGS, name) as folder:
        log = DiskLog(folder, joined.replica)
        signing = make_signing(place, joined.member, folder, log.is_own)
        stamps = (fact_id for fact_id, each in signing.stamps().items() if each.is_of(by, since))
        facts, theirs = [each.fact for each in log.read()], set(stamps)
        now = project(FactSet(facts), signing)
        then = project(FactSet(fact for fact in facts if fact.id not in theirs), signing)
    texts = (WrittenFile(place, path, _text_of(now, path), _text_of(then, path)) for path in {*now, *then})
    given = [fact for fact in facts if fact.id in theirs]
    verified = sum(fact.kind == "vouch" and fact.value is True for fact in given)
    return AuthorsWork(_keep_changed(texts), verified, sum(fact.kind == PURGE for fact in given))


def _keep_changed(texts: Iterable[WrittenFile]) -> list[WrittenFile]:
    return sorted((each for each in texts if each.before != each.after), key=lambda each: each.path)


def _text_of(files: Mapping[str, ShownFile], path: str) -> str | None:
    return files[path].text if path in files else None


def list_refused(home: Home) -> list[str]:
    """Return the files whose changes the hub refused, and the reasons, as the last syncs saved them."""
    found = []
    for joined in list_memberships(home):
        for name in home.names(FOLDER, joined.workspace, LOGS):
            with home.disk(FOLDER, joined.workspace, LOGS, name) as logged:
                found += [f"{joined.name}: {line}" for line in _describe_withheld(name, logged)]
    return found


def _describe_withheld(name: str, logged: Directory) -> list[str]:
    withheld = read_withheld(logged)
    return [f"{unquote(name)} {path}: {each.why}" for path, each in sorted(withheld.items())]


def has_hub(home: Home) -> bool:
    """Return whether this home has joined a workspace."""
    return bool(list_memberships(home))
