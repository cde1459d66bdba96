"""Who verified what in a team: facts made of this home's verified texts, and those of others, counted.

A vouch is a member's word that exactly one text is true, by the text's SHA-256. Nobody's vouch ever becomes a
decision of this home: what counts here is kept apart, and means nothing without this home's own rules.
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

from vademecum.store import decisions, document, hub_rules
from vademecum.sync import blocks
from vademecum.sync.facts import heads, is_withdrawn
from vademecum.sync.membership import ROLES, VOUCHING, client_of, identify_vouching, keep_rules
from vademecum.sync.project import FactSet, folded_path, is_in, is_live, path_of, safe_path
from vademecum.sync.remote import HubRefused, HubUnreachable
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime

    from vademecum.store import Directory, Home
    from vademecum.sync.diff import Ledger
    from vademecum.sync.facts import Dot, SyncFact
    from vademecum.sync.log import DiskLog
    from vademecum.sync.membership import LocalRules, Membership
    from vademecum.sync.project import Shows
    from vademecum.sync.remote import HubClient

    Authors = Mapping[Dot, tuple[str, str]]
    from vademecum.types import Entry, Place

_VOUCH = "vouch"
TWO_PERSON = "two_person"


class VouchRight(NamedTuple):
    """As whom the hub knows this machine, and whether the workspace wants two people for each text."""

    role: str
    person: bool = True
    two_person: bool = False

    @property
    def is_given(self) -> bool:
        """Whether the hub takes vouches from here: a person's, who is an editor or owner."""
        return self.person and self.role in VOUCHING


def read_right(told: Mapping[str, Any]) -> VouchRight:
    """The hub's answer to who this is."""
    rules = told.get("rules")
    two = isinstance(rules, dict) and rules.get(TWO_PERSON) is True
    return VouchRight(str(told.get("role")), "person" in (told.get("scopes") or ()), two)


def vouch_facts(
    ledger: Ledger,
    shows: Iterable[Shows],
    member: str,
    *,
    verified: Callable[[str], bool],
    is_mine: Callable[[SyncFact], bool],
    right: Callable[[], VouchRight],
    authors: Callable[[], Authors] = dict,
    withdrawn: Collection[str] = (),
) -> None:
    """Write down what this home's person verified, or no longer does, of the texts that stand in a stream.

    `verified` tells it by a text's SHA-256, `is_mine` which facts were made here: what this person said on
    another machine, or on this one before it lost its log, stays unless they have `withdrawn` it here. The
    hub is asked for the `right`, and `authors` for who wrote what, only when there is something to say;
    nothing is written that the hub would refuse.
    """
    standing = {
        (doc, decisions.exactly(text)) for shown in shows for doc, text in texts_of(shown) if text.strip()
    }
    wishes = [*_wishes(ledger, standing, member, verified, is_mine, withdrawn=withdrawn)]
    given = right() if wishes else None
    if given is None or not given.person:
        return
    if not given.is_given:  # whoever may not verify any more can still take back what they said
        wishes = [each for each in wishes if not each[2] and is_in(each[3])]
    seen, written = ledger.seen, dict[str, dict[str, set[str]]]()
    known = {dot: (member, "") for dot, fact in seen.facts.items() if is_mine(fact)} | dict(authors())
    for doc, name, wanted, facts in wishes:
        if given.two_person and doc not in written:
            written[doc] = writers_of(seen, doc, known)
        if wanted and member in written.get(doc, {}).get(name, ()):
            continue
        over = ledger.seen.closure(fact.dot for fact in facts)
        ledger.write(doc, _VOUCH, f"{name} {member}", value=wanted, over=over, origin="user")


def _wishes(
    ledger: Ledger,
    standing: set[tuple[str, str]],
    member: str,
    verified: Callable[[str], bool],
    is_mine: Callable[[SyncFact], bool],
    *,
    withdrawn: Collection[str],
) -> Iterable[tuple[str, str, bool, list[SyncFact]]]:
    """Each text about which something else is to be said than was said from here last."""
    said = {
        (doc, target.partition(" ")[0])
        for doc in ledger.seen.docs
        for target in ledger.seen.of(doc, _VOUCH)
        if target.partition(" ")[2] == member
    }
    for doc, name in sorted(standing | said):
        facts = ledger.seen.of(doc, _VOUCH).get(f"{name} {member}", [])
        own = [fact for fact in facts if is_mine(fact) and not fact.purged]
        last = max(own, key=lambda fact: fact.order).value if own else False
        last = last or (name in withdrawn and is_in(facts))
        wanted = verified(name) and ((doc, name) in standing or last)
        if wanted is not last:
            yield doc, name, wanted, facts


# ------------------------------------------------------------------------------- whose word counts


def counting(vouchers: Iterable[str], writers: Collection[str], *, two_person: bool) -> tuple[str, ...]:
    """The members whose word makes a text fit to be given to agents: the one place where that is decided.

    With the two-person rule nobody's word counts for what they, or an agent of theirs, wrote. Where it is not
    known who wrote a text it may have been any of them, so that two have to say so.
    """
    given = sorted(set(vouchers))
    if not two_person:
        return tuple(given)
    others = [name for name in given if name not in writers]
    known = bool(writers) and not {"", str(Origin.EXTERNAL)} & {*writers}
    return tuple(others) if len(others) >= (1 if known else 2) else ()


def verified_texts(
    state: FactSet, doc: str, authors: Mapping[Dot, FactAuthor], *, two_person: bool = False
) -> dict[str, tuple[str, ...]]:
    """The texts of a document, by their SHA-256, that may be given to agents, and by whose word.

    A vouch is who the hub's stamp says made it, and theirs who could verify then; without a stamp nobody's.
    """
    given: dict[str, set[str]] = {}
    for target, facts in state.of(doc, _VOUCH).items():
        name, _, member = target.partition(" ")
        standing = (fact for fact in heads(facts) if fact.value is True and not state.is_gone(fact))
        said = {authors.get(fact.dot, ("", "")) for fact in standing}
        if any(author == member and role in VOUCHING for author, role in said):
            given.setdefault(name, set()).add(member)
    written = writers_of(state, doc, authors) if given and two_person else {}
    found = {
        name: counting(members, written.get(name, ()), two_person=two_person)
        for name, members in given.items()
    }
    return {name: members for name, members in found.items() if members}


def writers_of(state: FactSet, doc: str, authors: Mapping[Dot, FactAuthor]) -> dict[str, set[str]]:
    """Who wrote each text of a document, in any version of any entry."""
    found: dict[str, set[str]] = {}
    for facts in state.of(doc, "entry").values():
        for fact in facts:
            if fact.kind == "put" and fact.value:
                found.setdefault(blocks.name_of(fact.value["raw"]), set()).add(
                    authors.get(fact.dot, ("", ""))[0]
                )
    return found


def _given(state: FactSet) -> dict[str, set[str]]:
    """In whose name which texts of a stream are verified, whether it counts or not."""
    found: dict[str, set[str]] = {}
    for doc in state.docs:
        for target, facts in state.of(doc, _VOUCH).items():
            name, _, member = target.partition(" ")
            if is_in(facts):
                found.setdefault(name, set()).add(member)
    return found


def count_vouches(
    state: FactSet, authors: Mapping[Dot, FactAuthor], *, two_person: bool = False
) -> dict[str, tuple[str, ...]]:
    """Who verified which text of a stream, by its SHA-256, as far as it counts."""
    found: dict[str, set[str]] = {}
    for doc in state.docs:
        for name, members in verified_texts(state, doc, authors, two_person=two_person).items():
            found.setdefault(name, set()).update(members)
    return {name: tuple(sorted(members)) for name, members in found.items()}


# ------------------------------------------------------------------------------- texts


def texts_of(shown: Shows) -> list[tuple[str, str]]:
    """The texts of a file as the store reads them, each with the document that it belongs to."""
    pinned = blocks.is_pinned(shown.path)
    found: list[Entry] = document.blocks(shown.text) if pinned else [*document.parse(shown.text).entries]
    if len(found) != len(shown.blocks):  # something stands there that is no block: then all is the first's
        return [(shown.doc, each.text) for each in found if each.live]
    return [
        (block.stands[0].doc, each.text)
        for each, block in zip(found, shown.blocks, strict=True)
        if each.live and not block.conflict
    ]


# ------------------------------------------------------------------------------- members


class Newcomers(NamedTuple):
    """Who may verify and is new to this home: others, and those who took a name that was trusted."""

    others: tuple[str, ...] = ()
    namesakes: tuple[str, ...] = ()


def meet_members(rules: LocalRules, members: Iterable[Mapping[str, Any]]) -> tuple[LocalRules, Newcomers]:
    """The rules once these members are known, and who is new since; nobody new is trusted.

    Somebody else under a trusted name is taken out of the list: the name was trusted for who had it then.
    """
    now, known = identify_vouching(members), set(rules.known)
    fresh = [each.partition(" ")[0] for each in now if each not in known]
    before = {each.partition(" ")[0] for each in known}
    namesakes = tuple(name for name in fresh if name in rules.inject_from and name in before)
    kept = tuple(name for name in rules.inject_from if name not in namesakes)
    others = tuple(name for name in fresh if name not in kept and name not in namesakes)
    # Who is no longer an editor stays known: coming back is no news, another id under the name is.
    met = replace(rules, inject_from=kept, known=tuple(sorted(known | set(now))))
    return met, Newcomers(others, namesakes)


# ------------------------------------------------------------------------------- one sync of a team

_STATE = "trust.json"


@dataclass(slots=True)
class TeamTrust:
    """What a sync of a team does about trust; the hub is asked only when something has changed."""

    home: Home
    joined: Membership
    client: HubClient
    told: Mapping[str, Any] = field(default_factory=dict)  # as whom the hub lists streams to us
    changed: bool = False
    standing: set[str] = field(default_factory=set)  # texts that this member still verifies in some stream
    _right: VouchRight | None = None

    def right(self) -> VouchRight:
        """As whom the hub knows this machine now; an older hub is asked once."""
        if self._right is None:
            self._right = read_right(self.told or self.client.ask("GET", "/v1/me").json())
        return self._right

    def vouch(
        self,
        ledger: Ledger,
        log: DiskLog,
        folder: Directory,
        *,
        project: Callable[[FactSet], Mapping[str, Shows]],
        authors: Callable[[], Authors],
    ) -> None:
        """Add this person's vouches to what a sync sends, from all that the stream holds."""
        if _read_state(folder) == self._state(log):
            return
        own = {each.fact.dot for each in log.read() if each.own} | {fact.dot for fact in ledger.made}
        window, ledger.seen = ledger.seen, FactSet([*(each.fact for each in log.read()), *ledger.made])
        try:
            vouch_facts(
                ledger,
                project(ledger.seen).values(),
                self.joined.member,
                verified=decisions.verdicts(self.home),
                is_mine=lambda fact: fact.dot in own,
                right=self.right,
                authors=authors,
                withdrawn=self._withdrawn(),
            )
        finally:
            ledger.seen = window

    def count(self, stream: str, log: DiskLog, folder: Directory, authors: Callable[[], Authors]) -> None:
        """Count whose word stands for which text, once a stream is synced."""
        now = self._state(log)
        if _read_state(folder) == now:
            return
        self.changed = True
        state = FactSet(each.fact for each in log.read())
        counted = count_vouches(state, authors(), two_person=self.right().two_person)
        self.standing |= {name for name, members in _given(state).items() if self.joined.member in members}
        hub_rules.keep_vouches(self.home, self.joined.workspace, stream, counted)
        folder.update(_STATE, lambda _: json.dumps(now).encode() + b"\n")

    def meet(self) -> list[str]:
        """Look who belongs to the team, and say who is new among those who may verify."""
        if not self.changed:
            return []
        members = self.client.ask("GET", "/v1/members").json()["members"]
        rules, new = meet_members(self.joined.rules, members)
        if rules != self.joined.rules:
            self.joined = keep_rules(self.home, self.joined, rules)
        return describe_newcomers(self.joined, new)

    def _state(self, log: DiskLog) -> dict[str, Any]:
        """What stands for the log, for what this home's person verified, and for the workspace's rules."""
        names = "\n".join(sorted(self.home.names("decisions", decisions.VERIFIED)))
        names += "".join(f"\n-{name}" for name in sorted(self._withdrawn()))
        verified = hashlib.sha256(names.encode()).hexdigest()
        return {"lines": len(log.read()), "verified": verified, "right": list(self.right())}

    def _withdrawn(self) -> frozenset[str]:
        return hub_rules.read_withdrawn(self.home, self.joined.workspace)

    def forget_withdrawn(self) -> None:
        """Let go of what was withdrawn here and stands nowhere any more, once every stream was counted."""
        known = self._withdrawn()
        if self.changed and known - self.standing:
            hub_rules.keep_withdrawn(self.home, self.joined.workspace, known & self.standing)


def describe_newcomers(joined: Membership, new: Newcomers) -> list[str]:
    """That there are new editors, who are not trusted unasked."""
    said = [
        f"{name} may verify in {joined.name} now, and is not trusted here:"
        f" `vade hub rules --inject-from {name}` changes that"
        for name in new.others
        if name != joined.member
    ]
    return said + [
        f"{name} in {joined.name} is somebody else now, and no longer trusted here:"
        f" `vade hub rules --inject-from {name}` changes that"
        for name in new.namesakes
    ]


def _read_state(folder: Directory) -> object:
    try:
        return json.loads(folder.read(_STATE) or b"null")
    except ValueError:
        return None


# ------------------------------------------------------------------------------- who may add which fact

_AGENT = "agent"  # the role on stamps
_ORIGINS = frozenset({str(Origin.AGENT), str(Origin.TOOL), str(Origin.IMPORT)})
_NEEDED = {"vouch": "editor", "protected": "editor", "purge": "owner"}  # and a person
_OF_ENTRIES = frozenset({"put", "drop", "pos", "mark"})
PROPOSE, FORBIDDEN = "propose", "forbidden"

FactAuthor = tuple[str, str]  # who made a fact, and in which role, as the hub's stamp says


class FactSender(NamedTuple):
    """Who wants to add a fact."""

    name: str
    role: str
    person: bool = True  # whoever is none is an agent, whatever their member may do

    def at_least(self, role: str) -> bool:
        """Whether the member may do what that role may."""
        return ROLES.index(self.role) >= ROLES.index(role)

    @property
    def author(self) -> FactAuthor:
        """As whom a fact of theirs is stamped."""
        return self.name, self.role if self.person else _AGENT


class FactContext(NamedTuple):
    """Who made what a fact is about, as far as the rule depends on it."""

    replaced: Collection[FactAuthor] = ()
    entry: Collection[FactAuthor] = ()  # the texts of the entry that it names
    head: Collection[FactAuthor] = ()  # the names and heads of its document
    leads: bool = False  # a name by which it would be the head of somebody else's file
    protected: bool = False
    ends: bool = False  # it replaces every word of the sender's for this text that stands, and there is one


def entry_of(fact: SyncFact) -> str:
    """The entry that a fact is about; nothing when it is about its document."""
    return fact.target.partition(" ")[0] if fact.kind in _OF_ENTRIES else ""


def why_not(fact: SyncFact, sender: FactSender, about: FactContext) -> tuple[str, str] | None:
    """Why somebody may not add a fact: a word for programs and a sentence; nothing when they may.

    A hub asks this of every fact, and a machine before it writes one down.
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
        and not _adds(fact, sender, about)
    ):
        return FORBIDDEN if sender.person else PROPOSE, "this document is protected"
    return None if sender.person else _why_no_agent(fact, sender, about)


def takes_back(fact: SyncFact, sender: FactSender) -> bool:
    """Whether somebody withdraws their own word for a text, which they may in any role."""
    own = fact.kind == _VOUCH and fact.target.partition(" ")[2] == sender.name
    return own and sender.person and fact.value is False


def _adds(fact: SyncFact, sender: FactSender, about: FactContext) -> bool:
    """Whether a fact leaves everything as it is that was there before."""
    if fact.kind == "put":
        return not fact.over and not about.entry
    if fact.kind == "pos":
        return bool(about.entry) and all(name == sender.name for name, _ in about.entry)
    return bool(fact.value) and (
        fact.kind == "confirmed" or (fact.kind == "applied" and not fact.purged and fact.value > 0)
    )


def _why_no_agent(fact: SyncFact, sender: FactSender, about: FactContext) -> tuple[str, str] | None:
    """An agent adds, and changes what agents of the same member wrote."""

    def of_others(authors: Collection[FactAuthor]) -> bool:
        return any(each != sender.author for each in authors)

    if fact.origin not in _ORIGINS:
        return PROPOSE, "a text with a person's origin needs a person"
    if of_others(about.replaced):
        return PROPOSE, "it would change what somebody else wrote"
    if fact.kind == "put" and not fact.over and of_others(about.entry):
        return PROPOSE, "it would be a second version of what somebody else wrote"
    if fact.kind in ("pos", "mark") and (not about.entry or of_others(about.entry)):
        return PROPOSE, "it would move or mark what somebody else wrote"
    if about.leads or (
        fact.kind not in _OF_ENTRIES and not _adds(fact, sender, about) and of_others(about.head)
    ):  # most of these replace nothing by name
        return PROPOSE, "it would change the head of what somebody else wrote"
    return None


def would_lead(state: FactSet, doc: str, path: object, is_others: Callable[[str], bool]) -> bool:
    """Whether a document under that name would be the head of a file that shows somebody else's, too."""
    named = safe_path(path) if isinstance(path, str) else ""
    same = [
        other
        for other in state.docs
        if other and other != doc and is_live(state, other)
        if folded_path(path_of(state, other)) == folded_path(named)
    ]
    return bool(named) and doc < min(same, default="") and any(map(is_others, same))


def sign_as_agent(fact: SyncFact) -> SyncFact:
    """A fact as an agent makes it: what says of no origin is the agent's."""
    return fact if fact.origin else replace(fact, origin=str(Origin.AGENT))


def may_agent_send(
    member: str, authors: Mapping[Dot, FactAuthor], is_own: Callable[[SyncFact], bool]
) -> Callable[[SyncFact, FactSet], bool]:
    """Whether the hub takes a fact from an agent of a member, as far as it is known here who wrote what."""
    sender = FactSender(member, ROLES[-1], person=False)

    def author(fact: SyncFact) -> FactAuthor:
        return authors.get(fact.dot) or (sender.author if is_own(fact) else ("", ""))

    def head(state: FactSet, doc: str) -> list[FactAuthor]:
        known = (state.of(doc, kind).values() for kind in ("name", "layout"))
        return [author(fact) for listed in known for facts in listed for fact in facts]

    def is_others(state: FactSet, doc: str) -> bool:
        return any(each != sender.author for each in head(state, doc))

    def check(fact: SyncFact, state: FactSet) -> bool:
        texts = state.of(fact.doc, "entry").get(entry_of(fact), ())
        guards = heads(state.of(fact.doc, "protected").get("", []))
        about = FactContext(
            [author(state.facts[dot]) if dot in state.facts else ("", "") for dot in fact.over],
            [author(each) for each in texts if each.kind == "put" and each.dot != fact.dot],
            head(state, fact.doc),
            leads=fact.kind == "name" and would_lead(state, fact.doc, fact.value, partial(is_others, state)),
            protected=any(each.value is True for each in guards),
        )
        return why_not(fact, sender, about) is None

    return check


# ------------------------------------------------------------------------------- who archives unasked

LEASE = 1800  # seconds for which a machine cares for a place


def take_leases(home: Home, joined: Membership, places: Iterable[Place], *, now: datetime) -> bool:
    """Ask the hub for the care of places; whether any is lent. Another machine's turn is no failure."""
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
