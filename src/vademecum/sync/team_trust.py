"""Verification and rights in a team: send own verifications, count all, decide who may add a fact.

A vouch is a member's statement that exactly one text, named by its SHA-256, is true. A vouch never becomes a
decision of this home: counted vouches are stored separately, and this home's own rules decide about them.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

from vademecum.store import decisions, hub_rules
from vademecum.sync import blocks
from vademecum.sync.facts import heads, is_withdrawn
from vademecum.sync.hub_client import HubRefused, HubUnreachable
from vademecum.sync.membership import ROLES, VOUCHING, client_of, identify_vouching, keep_rules
from vademecum.sync.projection import FactSet, fold_path, has_file, is_member, path_of, safe_path
from vademecum.text import document
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime

    from vademecum.store import Directory, Home
    from vademecum.sync.diff import FactWriter
    from vademecum.sync.facts import FactId, SyncFact
    from vademecum.sync.hub_client import HubClient
    from vademecum.sync.membership import LocalRules, Membership
    from vademecum.sync.projection import ShownFile
    from vademecum.sync.stream_log import DiskLog

    Authors = Mapping[FactId, tuple[str, str]]
    from vademecum.types import Entry, Place

_VOUCH = "vouch"
TWO_PERSON = "two_person"


class VouchRight(NamedTuple):
    """This machine's role at the hub, and whether the workspace has the two-person rule."""

    role: str
    person: bool = True
    two_person: bool = False

    @property
    def is_given(self) -> bool:
        """Whether the hub accepts vouches from here: those of a person who is editor or owner."""
        return self.person and self.role in VOUCHING


def read_right(standing: Mapping[str, Any]) -> VouchRight:
    """Return the right to vouch that follows from the hub's answer about this machine."""
    rules = standing.get("rules")
    two = isinstance(rules, dict) and rules.get(TWO_PERSON) is True
    return VouchRight(str(standing.get("role")), "person" in (standing.get("scopes") or ()), two)


def vouch_facts(
    writer: FactWriter,
    file: Iterable[ShownFile],
    member: str,
    *,
    verified: Callable[[str], bool],
    is_mine: Callable[[SyncFact], bool],
    right: Callable[[], VouchRight],
    authors: Callable[[], Authors] = dict,
    withdrawn: Collection[str] = (),
) -> None:
    """Write vouches for newly verified texts of a stream, and withdraw those no longer verified.

    `verified` tells by a text's SHA-256 whether it is verified, `is_mine` whether a fact was made here.
    Vouches that the same person made on another machine, or that this machine made before it lost its log,
    stay unless they are `withdrawn` here. `right` and `authors` are called only when there is something to
    write. Facts that the hub would refuse are not written.
    """
    standing = {
        (doc, decisions.exactly(text))
        for base_file in file
        for doc, text in texts_of(base_file)
        if text.strip()
    }
    wishes = [*_find_changes(writer, standing, member, verified, is_mine, withdrawn=withdrawn)]
    given = right() if wishes else None
    if given is None or not given.person:
        return
    if not given.is_given:  # without the right to verify, only withdrawals are possible
        wishes = [each for each in wishes if not each[2] and is_member(each[3])]
    seen, written = writer.seen, dict[str, dict[str, set[str]]]()
    known = {fact_id: (member, "") for fact_id, fact in seen.facts.items() if is_mine(fact)} | dict(authors())
    for doc, name, wanted, facts in wishes:
        if given.two_person and doc not in written:
            written[doc] = writers_of(seen, doc, known)
        if wanted and member in written.get(doc, {}).get(name, ()):
            continue
        based_on = writer.seen.with_replaced(fact.id for fact in facts)
        writer.write(doc, _VOUCH, f"{name} {member}", value=wanted, based_on=based_on, origin="user")


def _find_changes(
    writer: FactWriter,
    standing: set[tuple[str, str]],
    member: str,
    verified: Callable[[str], bool],
    is_mine: Callable[[SyncFact], bool],
    *,
    withdrawn: Collection[str],
) -> Iterable[tuple[str, str, bool, list[SyncFact]]]:
    """Yield the texts whose verification here has changed since the last vouch from here.

    Each text comes as document, SHA-256, whether it is verified now, and the facts about the vouch.
    """
    pairs = {
        (doc, target.partition(" ")[0])
        for doc in writer.seen.docs
        for target in writer.seen.of(doc, _VOUCH)
        if target.partition(" ")[2] == member
    }
    for doc, name in sorted(standing | pairs):
        facts = writer.seen.of(doc, _VOUCH).get(f"{name} {member}", [])
        own = [fact for fact in facts if is_mine(fact) and not fact.purged]
        last = max(own, key=lambda fact: fact.order).value if own else False
        last = last or (name in withdrawn and is_member(facts))
        wanted = verified(name) and ((doc, name) in standing or last)
        if wanted is not last:
            yield doc, name, wanted, facts


# ------------------------------------------------------------------------------- counting vouches


def count_for_text(vouchers: Iterable[str], writers: Collection[str], *, two_person: bool) -> tuple[str, ...]:
    """Return the members whose vouch for a text counts; with at least one, agents get the text.

    Under the two-person rule a vouch does not count for a text by the same member or by that member's agent.
    If the author of a text is unknown, any member may have written it, so two members have to vouch.
    """
    given = sorted(set(vouchers))
    if not two_person:
        return tuple(given)
    others = [name for name in given if name not in writers]
    known = bool(writers) and not {"", str(Origin.EXTERNAL)} & {*writers}
    return tuple(others) if len(others) >= (1 if known else 2) else ()


def verified_texts(
    state: FactSet, doc: str, authors: Mapping[FactId, FactAuthor], *, two_person: bool = False
) -> dict[str, tuple[str, ...]]:
    """Return the verified texts of a document by SHA-256, with the members whose vouch counts.

    A vouch counts if the hub's stamp on it names the same member, with a role that may verify. With
    `two_person`, `count_for_text` leaves out further vouches.
    """
    given: dict[str, set[str]] = {}
    for target, facts in state.of(doc, _VOUCH).items():
        name, _, member = target.partition(" ")
        standing = (fact for fact in heads(facts) if fact.value is True and not state.is_purged(fact))
        author_roles = {authors.get(fact.id, ("", "")) for fact in standing}
        if any(author == member and role in VOUCHING for author, role in author_roles):
            given.setdefault(name, set()).add(member)
    written = writers_of(state, doc, authors) if given and two_person else {}
    found = {
        name: count_for_text(members, written.get(name, ()), two_person=two_person)
        for name, members in given.items()
    }
    return {name: members for name, members in found.items() if members}


def writers_of(state: FactSet, doc: str, authors: Mapping[FactId, FactAuthor]) -> dict[str, set[str]]:
    """Return the authors of each text of a document by SHA-256, old versions included."""
    found: dict[str, set[str]] = {}
    for facts in state.of(doc, "entry").values():
        for fact in facts:
            if fact.kind == "put" and fact.value:
                found.setdefault(blocks.name_of(fact.value["raw"]), set()).add(
                    authors.get(fact.id, ("", ""))[0]
                )
    return found


def _list_vouches(state: FactSet) -> dict[str, set[str]]:
    """Return the members who vouch for each text of a stream, even if their vouch does not count."""
    found: dict[str, set[str]] = {}
    for doc in state.docs:
        for target, facts in state.of(doc, _VOUCH).items():
            name, _, member = target.partition(" ")
            if is_member(facts):
                found.setdefault(name, set()).add(member)
    return found


def count_vouches(
    state: FactSet, authors: Mapping[FactId, FactAuthor], *, two_person: bool = False
) -> dict[str, tuple[str, ...]]:
    """Return the members whose vouch counts, by the SHA-256 of each text of a stream."""
    found: dict[str, set[str]] = {}
    for doc in state.docs:
        for name, members in verified_texts(state, doc, authors, two_person=two_person).items():
            found.setdefault(name, set()).update(members)
    return {name: tuple(sorted(members)) for name, members in found.items()}


# ------------------------------------------------------------------------------- texts


def texts_of(file: ShownFile) -> list[tuple[str, str]]:
    """Return the texts of a file's entries, each with the id of its document, without replaced entries.

    Conflicting versions are left out, too, unless the file has text outside of its blocks.
    """
    pinned = blocks.is_pinned(file.path)
    found: list[Entry] = document.blocks(file.text) if pinned else [*document.parse(file.text).entries]
    if len(found) != len(file.blocks):  # there is text outside of blocks: count all as the first document's
        return [(file.doc, each.text) for each in found if each.live]
    return [
        (block.sources[0].doc, each.text)
        for each, block in zip(found, file.blocks, strict=True)
        if each.live and not block.conflict
    ]


# ------------------------------------------------------------------------------- members


class Newcomers(NamedTuple):
    """Members who may verify now and did not before.

    `namesakes` are new members with the name of a trusted former member, `others` are the rest.
    """

    others: tuple[str, ...] = ()
    namesakes: tuple[str, ...] = ()


def meet_members(rules: LocalRules, members: Iterable[Mapping[str, Any]]) -> tuple[LocalRules, Newcomers]:
    """Return this home's rules, updated for these members, and the members who may verify since then.

    New members are not trusted. A trusted name that now belongs to another member is removed from
    `inject_from`.
    """
    now, known = identify_vouching(members), set(rules.known)
    fresh = [each.partition(" ")[0] for each in now if each not in known]
    before = {each.partition(" ")[0] for each in known}
    namesakes = tuple(name for name in fresh if name in rules.inject_from and name in before)
    inject_from = tuple(name for name in rules.inject_from if name not in namesakes)
    others = tuple(name for name in fresh if name not in inject_from and name not in namesakes)
    # A former editor stays known: a return is no news, but a new id under the same name is.
    met = replace(rules, inject_from=inject_from, known=tuple(sorted(known | set(now))))
    return met, Newcomers(others, namesakes)


# ------------------------------------------------------------------------------- syncing a team

_STATE = "trust.json"


@dataclass(slots=True)
class TeamTrust:
    """The vouches and members in one sync of a team; the hub is asked only after a change."""

    home: Home
    joined: Membership
    client: HubClient
    hub_standing: Mapping[str, Any] = field(default_factory=dict)  # role and scopes of this machine
    changed: bool = False
    standing: set[str] = field(default_factory=set)  # texts for which this member vouches in some stream
    _right: VouchRight | None = None

    def right(self) -> VouchRight:
        """Return this machine's right to vouch; ask the hub once, unless `hub_standing` is known."""
        if self._right is None:
            self._right = read_right(self.hub_standing or self.client.ask("GET", "/v1/me").json())
        return self._right

    def vouch(
        self,
        writer: FactWriter,
        log: DiskLog,
        folder: Directory,
        *,
        project: Callable[[FactSet], Mapping[str, ShownFile]],
        authors: Callable[[], Authors],
    ) -> None:
        """Write facts for this person's new and withdrawn vouches for texts of the whole stream.

        Do nothing if nothing has changed since `count` was last called for the stream.
        """
        if _read_state(folder) == self._state(log):
            return
        own = {each.fact.id for each in log.read() if each.own} | {fact.id for fact in writer.made}
        window, writer.seen = writer.seen, FactSet([*(each.fact for each in log.read()), *writer.made])
        try:
            vouch_facts(
                writer,
                project(writer.seen).values(),
                self.joined.member,
                verified=decisions.verdicts(self.home),
                is_mine=lambda fact: fact.id in own,
                right=self.right,
                authors=authors,
                withdrawn=self._withdrawn(),
            )
        finally:
            writer.seen = window

    def count(self, stream: str, log: DiskLog, folder: Directory, authors: Callable[[], Authors]) -> None:
        """Count the vouches of a synced stream, and save the result.

        Do nothing if nothing has changed since the last call for the stream.
        """
        now = self._state(log)
        if _read_state(folder) == now:
            return
        self.changed = True
        state = FactSet(each.fact for each in log.read())
        counted = count_vouches(state, authors(), two_person=self.right().two_person)
        self.standing |= {
            name for name, members in _list_vouches(state).items() if self.joined.member in members
        }
        hub_rules.keep_vouches(self.home, self.joined.workspace, stream, counted)
        folder.update(_STATE, lambda _: json.dumps(now).encode() + b"\n")

    def meet(self) -> list[str]:
        """Read the members from the hub, save who is new, and return messages about new members.

        Do nothing unless `count` has found a change in this sync.
        """
        if not self.changed:
            return []
        members = self.client.ask("GET", "/v1/members").json()["members"]
        rules, new = meet_members(self.joined.rules, members)
        if rules != self.joined.rules:
            self.joined = keep_rules(self.home, self.joined, rules)
        return describe_newcomers(self.joined, new)

    def _state(self, log: DiskLog) -> dict[str, Any]:
        """Return a value that changes with the log, the verified texts, and this machine's right to vouch."""
        names = "\n".join(sorted(self.home.names("decisions", decisions.VERIFIED)))
        names += "".join(f"\n-{name}" for name in sorted(self._withdrawn()))
        verified = hashlib.sha256(names.encode()).hexdigest()
        return {"lines": len(log.read()), "verified": verified, "right": list(self.right())}

    def _withdrawn(self) -> frozenset[str]:
        return hub_rules.read_withdrawn(self.home, self.joined.workspace)

    def forget_withdrawn(self) -> None:
        """Forget withdrawn vouches for texts for which no stream has a vouch any more.

        Call this after the vouches of all streams were counted.
        """
        known = self._withdrawn()
        if self.changed and known - self.standing:
            hub_rules.keep_withdrawn(self.home, self.joined.workspace, known & self.standing)


def describe_newcomers(joined: Membership, new: Newcomers) -> list[str]:
    """Return messages about new members who may verify, who are not trusted here yet."""
    lines = [
        f"{name} may verify in {joined.name} now, and is not trusted here:"
        f" `vade hub rules --inject-from {name}` changes that"
        for name in new.others
        if name != joined.member
    ]
    return lines + [
        f"{name} in {joined.name} is somebody else now, and no longer trusted here:"
        f" `vade hub rules --inject-from {name}` changes that"
        for name in new.namesakes
    ]


def _read_state(folder: Directory) -> object:
    try:
        return json.loads(folder.read(_STATE) or b"null")
    except ValueError:
        return None


# ------------------------------------------------------------------------------- rights to add facts

_AGENT = "agent"  # the role on stamps
_ORIGINS = frozenset({str(Origin.AGENT), str(Origin.TOOL), str(Origin.IMPORT)})
_NEEDED = {"vouch": "editor", "protected": "editor", "purge": "owner"}  # each needs a person, too
_OF_ENTRIES = frozenset({"put", "drop", "pos", "mark"})
PROPOSE, FORBIDDEN = "propose", "forbidden"

FactAuthor = tuple[str, str]  # author and role in the hub's stamp


class FactSender(NamedTuple):
    """The member who sends a fact, with the role and whether a person or an agent sends."""

    name: str
    role: str
    person: bool = True  # False for an agent, whatever its member may do

    def at_least(self, role: str) -> bool:
        """Return whether the member has this role or a higher one."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def author(self) -> FactAuthor:
        """The author and role that the hub's stamps give to facts of this sender."""
        return self.name, self.role if self.person else _AGENT


class FactContext(NamedTuple):
    """The authors of other facts on which the right to add a fact depends."""

    replaced: Collection[FactAuthor] = ()
    entry: Collection[FactAuthor] = ()  # authors of the entry that the fact names
    head: Collection[FactAuthor] = ()  # authors of the names and heads of its document
    leads: bool = False  # the name would put it first in another author's file
    protected: bool = False
    ends: bool = False  # it replaces all vouches of the sender for this text


def entry_of(fact: SyncFact) -> str:
    """Return the id of the entry that a fact is about; an empty text for a fact about a document."""
    return fact.target.partition(" ")[0] if fact.kind in _OF_ENTRIES else ""


def find_refusal(fact: SyncFact, sender: FactSender, about: FactContext) -> tuple[str, str] | None:
    """Return why a sender may not add a fact, as a code and a sentence; None if the sender may.

    The hub checks facts with this function, and a machine with an agent's token checks a fact before it sends
    it.
    """
    if is_withdrawn(fact) or (about.ends and takes_back(fact, sender)):
        return None
    if not sender.at_least("writer"):
        return FORBIDDEN, f"this needs the role writer, and yours is {sender.role}"
    needed = _NEEDED.get(fact.kind)
    if needed and not sender.person:
        return PROPOSE, f"a {fact.kind} needs a person"
    if needed and not sender.at_least(needed):
        return FORBIDDEN, f"a {fact.kind} needs the role {needed}, and yours is {sender.role}"
    if fact.kind == _VOUCH and fact.target.split(" ", 1)[-1] != sender.name:
        return FORBIDDEN, "only the member can verify in their own name"
    if (
        about.protected
        and not (sender.person and sender.at_least("editor"))
        and not _only_adds(fact, sender, about)
    ):
        return FORBIDDEN if sender.person else PROPOSE, "this document is protected"
    return None if sender.person else _refusal_for_agent(fact, sender, about)


def takes_back(fact: SyncFact, sender: FactSender) -> bool:
    """Return whether a fact withdraws the sender's own vouch, which every person may do."""
    own = fact.kind == _VOUCH and fact.target.partition(" ")[2] == sender.name
    return own and sender.person and fact.value is False


def _only_adds(fact: SyncFact, sender: FactSender, about: FactContext) -> bool:
    """Return whether a fact only adds something, without a change to existing texts or values."""
    if fact.kind == "put":
        return not fact.based_on and not about.entry
    if fact.kind == "pos":
        return bool(about.entry) and all(name == sender.name for name, _ in about.entry)
    return bool(fact.value) and (
        fact.kind == "confirmed" or (fact.kind == "applied" and not fact.purged and fact.value > 0)
    )


def _refusal_for_agent(fact: SyncFact, sender: FactSender, about: FactContext) -> tuple[str, str] | None:
    """Return why an agent may not add a fact, as a code and a sentence; None if it may.

    An agent may add texts, and change texts of agents of the same member.
    """

    def of_others(authors: Collection[FactAuthor]) -> bool:
        return any(each != sender.author for each in authors)

    if fact.origin not in _ORIGINS:
        return PROPOSE, "a text with a person's origin needs a person"
    if of_others(about.replaced):
        return PROPOSE, "it would change what somebody else wrote"
    if fact.kind == "put" and not fact.based_on and of_others(about.entry):
        return PROPOSE, "it would be a second version of what somebody else wrote"
    if fact.kind in ("pos", "mark") and (not about.entry or of_others(about.entry)):
        return PROPOSE, "it would move or mark what somebody else wrote"
    if about.leads or (
        fact.kind not in _OF_ENTRIES and not _only_adds(fact, sender, about) and of_others(about.head)
    ):  # most of these kinds have no `based_on`
        return PROPOSE, "it would change the head of what somebody else wrote"
    return None


def would_lead(state: FactSet, doc: str, path: object, is_others: Callable[[str], bool]) -> bool:
    """Return whether this path would put a document first in a file that it shares with other authors."""
    named = safe_path(path) if isinstance(path, str) else ""
    same = [
        other
        for other in state.docs
        if other and other != doc and has_file(state, other)
        if fold_path(path_of(state, other)) == fold_path(named)
    ]
    return bool(named) and doc < min(same, default="") and any(map(is_others, same))


def sign_as_agent(fact: SyncFact) -> SyncFact:
    """Return an agent's fact; a fact without an origin gets the origin `agent`."""
    return fact if fact.origin else replace(fact, origin=str(Origin.AGENT))


def may_agent_send(
    member: str, authors: Mapping[FactId, FactAuthor], is_own: Callable[[SyncFact], bool]
) -> Callable[[SyncFact, FactSet], bool]:
    """Return a function that tells whether the hub would accept a fact from a member's agent.

    It decides by the authors that this home knows.
    """
    sender = FactSender(member, ROLES[-1], person=False)

    def author(fact: SyncFact) -> FactAuthor:
        return authors.get(fact.id) or (sender.author if is_own(fact) else ("", ""))

    def head(state: FactSet, doc: str) -> list[FactAuthor]:
        known = (state.of(doc, kind).values() for kind in ("name", "layout"))
        return [author(fact) for listed in known for facts in listed for fact in facts]

    def is_others(state: FactSet, doc: str) -> bool:
        return any(each != sender.author for each in head(state, doc))

    def check(fact: SyncFact, state: FactSet) -> bool:
        texts = state.of(fact.doc, "entry").get(entry_of(fact), ())
        guards = heads(state.of(fact.doc, "protected").get("", []))
        about = FactContext(
            [
                author(state.facts[fact_id]) if fact_id in state.facts else ("", "")
                for fact_id in fact.based_on
            ],
            [author(each) for each in texts if each.kind == "put" and each.id != fact.id],
            head(state, fact.doc),
            leads=fact.kind == "name" and would_lead(state, fact.doc, fact.value, partial(is_others, state)),
            protected=any(each.value is True for each in guards),
        )
        return find_refusal(fact, sender, about) is None

    return check


# ------------------------------------------------------------------------------- leases

LEASE = 1800  # seconds


def take_leases(home: Home, joined: Membership, places: Iterable[Place], *, now: datetime) -> bool:
    """Ask the hub for the lease of each synced place, and save the leases; return whether it gave any.

    A refused place is left out. If the hub cannot be reached, there are no leases.
    """
    client, lent = client_of(home, joined, patience=1), {}
    body = json.dumps({"replica": joined.replica, "seconds": LEASE}).encode()
    try:
        for place in (each for each in places if each.scope in hub_rules.SYNCED):
            with contextlib.suppress(HubRefused):
                client.ask("POST", f"/v1/streams/{quote(str(place))}/lease", body)
                lent[str(place)] = (now + timedelta(seconds=LEASE)).isoformat()
    except HubUnreachable:
        lent.clear()
    finally:
        client.close()
    hub_rules.keep_lease(home, joined.workspace, lent)
    return bool(lent)
