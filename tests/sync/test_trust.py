"""Who is injected when, and whose word counts: by hand-made files and facts."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.knowledge import trust as trusting
from vademecum.memory import connect
from vademecum.store import decisions, hub_rules
from vademecum.sync import team_trust
from vademecum.sync.diff import FactWriter, diff
from vademecum.sync.membership import LocalRules
from vademecum.sync.projection import FactSet, project
from vademecum.types import Entry, Origin, Place, Record, Scope, find_versions, in_conflict

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory
    from vademecum.sync.facts import FactId, SyncFact

WS = "11111111-2222-3333-4444-555555555555"
SAID = "Deploys go out on Tuesdays."
NAME = decisions.exactly(SAID)


def _team(home: Path, inject_from: list[str], vouched: dict[str, list[str]]) -> None:
    folder = home / "hub" / WS
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "workspace.json").write_text(json.dumps({"rules": {"inject_from": inject_from}}))
    (folder / "vouched.json").write_text(json.dumps({"project/p": vouched}))


def _record(entry: Entry, *, team: bool = True, trusted: bool = True) -> Record:
    top = f"memory/hub/{WS}/project/p" if team else "memory/project/p"
    place = Place(Scope.PROJECT, "p")
    return Record("deploys", place, f"{top}/records/deploys.md", "rule", "", (entry,), trusted=trusted)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    (tmp_path / "work").mkdir()
    return connect(home=tmp_path / "home", cwd=tmp_path / "work", environ={})


# What a text is, what was decided about it, and whether agents are given it.
ANNAS = {"by": ["anna"], "from": ["anna"]}
TABLE: list[tuple[str, Origin, dict[str, Any], bool]] = [
    ("mine", Origin.USER, {}, True),
    ("my agent's", Origin.AGENT, {}, True),
    ("another's", Origin.IMPORT, {}, False),
    ("another's, verified here", Origin.IMPORT, {"verified": True}, True),
    ("another's, verified by one I trust", Origin.IMPORT, ANNAS, True),
    ("another's, verified by one I do not trust", Origin.IMPORT, ANNAS | {"by": ["mallory"]}, False),
    ("another's, verified, nobody is trusted", Origin.IMPORT, ANNAS | {"from": []}, False),
    ("another's, verified by two, one is trusted", Origin.IMPORT, ANNAS | {"by": ["bert", "anna"]}, True),
    ("another's, verified by one I trust, edited since", Origin.IMPORT, ANNAS | {"text": f"{SAID}!"}, False),
    ("a file's of which the log is lost", Origin.EXTERNAL, {}, False),
    ("imported by me, verified in a team", Origin.IMPORT, ANNAS | {"team": False}, False),
    ("verified by one I trust, its folder is not trusted", Origin.IMPORT, ANNAS | {"trusted": False}, False),
]  # fmt: skip


@pytest.mark.parametrize(("origin", "given", "told"), [each[1:] for each in TABLE], ids=[e[0] for e in TABLE])
def test_who_is_injected_when(
    memory: Memory, tmp_path: Path, origin: Origin, *, given: dict[str, Any], told: bool
) -> None:
    _team(tmp_path / "home", given.get("from", []), {NAME: given.get("by", [])})
    if given.get("verified"):
        decisions.verify(memory.home, SAID, at="2026-01-01", by="human:ada")
    entry = Entry(given.get("text", SAID), "2026-01-01T00:00:00Z", origin)
    record = _record(entry, team=given.get("team", True), trusted=given.get("trusted", True))
    assert memory.review.trust_of(record).injectable is told
    assert memory.review.trust_of(entry, record=record).injectable is told
    if not given.get("verified"):
        assert not list((tmp_path / "home" / "decisions").rglob("verified/*"))


def test_a_member_who_is_taken_out_of_the_rules_counts_no_longer_at_once(
    memory: Memory, tmp_path: Path
) -> None:
    record = _record(Entry(SAID, None, Origin.IMPORT))
    _team(tmp_path / "home", ["anna"], {NAME: ["anna"]})
    before = hub_rules.stamp(memory.home)
    assert "anna verified exactly this text" in memory.review.trust_of(record).why
    _team(tmp_path / "home", [], {NAME: ["anna"]})
    assert not memory.review.trust_of(record).injectable
    assert hub_rules.stamp(memory.home) != before


@pytest.mark.parametrize("spoiled", ["", "[]", '{"rules": 1}', '{"rules": {"inject_from": "anna"}}', "\xff{"])
def test_files_of_a_team_that_cannot_be_read_let_nothing_through(
    memory: Memory, tmp_path: Path, spoiled: str
) -> None:
    record = _record(Entry(SAID, None, Origin.IMPORT))
    _team(tmp_path / "home", ["anna"], {NAME: ["anna"]})
    for name in ("workspace.json", "vouched.json"):
        _team(tmp_path / "home", ["anna"], {NAME: ["anna"]})
        (tmp_path / "home/hub" / WS / name).write_text(spoiled, "latin-1")
        assert not memory.review.trust_of(record).injectable


def test_no_version_of_an_entry_in_conflict_is_injected_even_when_it_was_verified(memory: Memory) -> None:
    first = Entry("Port 1.", "2026-01-01T00:00:00Z", Origin.USER, id="aaaaaaaaaa")
    second = Entry(
        "Port 2.", "2026-01-01T00:00:00Z", Origin.USER, id="aaaaaaaaaa~123456", contradicts=first.time
    )
    other = Entry("Else.", "2026-01-02T00:00:00Z", Origin.USER, id="bbbbbbbbbb")
    record = _record(first, team=False)
    record = Record(record.key, record.place, record.path, "rule", "", (first, second, other))
    decisions.verify(memory.home, second.text, at="2026-01-01", by="human:ada")
    told = [memory.review.trust_of(each, record=record).injectable for each in record.entries]
    assert told == [False, False, True]
    assert find_versions(record.entries) == [(first, second)]
    settled = Entry("Port 2.", first.time, Origin.USER, id="aaaaaaaaaa~123456")
    assert not in_conflict(settled, (first, settled))


# ------------------------------------------------------------------------------- vouches as facts


class Replica:
    """One machine of a member, and the facts it knows."""

    def __init__(self, name: str, member: str) -> None:
        self.name, self.member = name, member
        self.known: dict[FactId, SyncFact] = {}
        self.verified: set[str] = set()
        self.right = team_trust.VouchRight("editor")
        self.asked = 0

    def _make_writer(self) -> FactWriter:
        mine = [each for each in self.known.values() if each.replica == self.name]
        last = max(mine, key=lambda each: each.n, default=None)
        largest = max((each.lamport for each in self.known.values()), default=0)
        return FactWriter("global", self.name, FactSet(self.known.values()), last, largest)

    def write(self, path: str, text: str) -> None:
        ledger = self._make_writer()
        doc = "n-" + "0" * 32
        diff(ledger, project(ledger.seen).get(path), path, text, doc=doc)
        self._take(ledger.made)

    def vouch(self) -> list[SyncFact]:
        def asked() -> team_trust.VouchRight:
            self.asked += 1
            return self.right

        ledger = self._make_writer()
        team_trust.vouch_facts(
            ledger,
            project(ledger.seen).values(),
            self.member,
            verified=self.verified.__contains__,
            is_mine=lambda fact: fact.replica == self.name,
            right=asked,
        )
        self._take(ledger.made)
        return ledger.made

    def meet(self, other: Replica) -> None:
        self.known = other.known = {**self.known, **other.known}
        self.known, other.known = dict(self.known), dict(other.known)

    def _take(self, made: list[SyncFact]) -> None:
        self.known |= {each.id: each for each in made}

    def counted(self, authors: dict[str, tuple[str, str]], **given: bool) -> dict[str, tuple[str, ...]]:
        told = {fact_id: authors[fact_id.replica] for fact_id in self.known if fact_id.replica in authors}
        return team_trust.count_vouches(FactSet(self.known.values()), told, **given)


FILE = f"---\nkey: deploys\n---\n# deploys\n\n## 2026-01-01T00:00:00Z\n{SAID}\n"
ANNA, BERT = "aaaaaaaa", "bbbbbbbb"
AUTHORS = {ANNA: ("anna", "editor"), BERT: ("bert", "writer")}


def _pair() -> tuple[Replica, Replica]:
    anna, bert = Replica(ANNA, "anna"), Replica(BERT, "bert")
    bert.write("records/deploys.md", FILE)
    anna.meet(bert)
    return anna, bert


def test_a_verified_text_becomes_one_vouch_and_taking_it_back_removes_it() -> None:
    anna, _ = _pair()
    assert anna.vouch() == []
    assert anna.asked == 0  # nothing to say: the hub is not asked
    anna.verified.add(NAME)
    (made,) = anna.vouch()
    assert (made.kind, made.target, made.value, made.origin) == ("vouch", f"{NAME} anna", True, "user")
    assert anna.vouch() == []
    assert anna.counted(AUTHORS) == {NAME: ("anna",)}
    anna.verified.clear()
    (back,) = anna.vouch()
    assert (back.value, back.based_on) == (False, (made.id,))
    assert anna.counted(AUTHORS) == {}
    anna.verified.add(NAME)
    assert len(anna.vouch()) == 1
    assert anna.counted(AUTHORS) == {NAME: ("anna",)}


@pytest.mark.parametrize(
    "right",
    [
        team_trust.VouchRight("writer"),
        team_trust.VouchRight("reader"),
        team_trust.VouchRight("owner", person=False),
    ],
)
def test_who_may_not_vouch_sends_nothing_that_would_be_refused(right: team_trust.VouchRight) -> None:
    anna, _ = _pair()
    anna.right = right
    anna.verified.add(NAME)
    assert anna.vouch() == []


def test_another_machine_of_mine_neither_repeats_nor_takes_back_what_this_one_said() -> None:
    anna, _ = _pair()
    anna.verified.add(NAME)
    anna.vouch()
    second = Replica("cccccccc", "anna")
    second.meet(anna)
    assert second.vouch() == []
    authors = {**AUTHORS, "cccccccc": ("anna", "editor")}
    assert second.counted(authors) == {NAME: ("anna",)}
    second.verified.add(NAME)
    second.vouch()
    second.verified.clear()
    second.vouch()  # taken back, there and on the first machine
    anna.meet(second)
    assert anna.vouch() == []
    assert anna.counted(authors) == {}


def test_a_vouch_counts_as_the_stamps_say_and_not_as_its_target_claims() -> None:
    anna, _ = _pair()
    anna.verified.add(NAME)
    anna.vouch()
    assert anna.counted({**AUTHORS, ANNA: ("mallory", "editor")}) == {}
    assert anna.counted({**AUTHORS, ANNA: ("anna", "writer")}) == {}
    assert anna.counted({**AUTHORS, ANNA: ("anna", "agent")}) == {}
    assert anna.counted({BERT: AUTHORS[BERT]}) == {}  # without a stamp


def test_an_edited_text_has_nobodys_vouch() -> None:
    anna, _ = _pair()
    anna.verified.add(NAME)
    anna.vouch()
    anna.write("records/deploys.md", FILE.replace("Tuesdays", "Fridays"))
    other = decisions.exactly(SAID.replace("Tuesdays", "Fridays"))
    assert other not in anna.counted(AUTHORS)


def test_with_the_two_person_rule_nobody_vouches_for_their_own_text() -> None:
    anna, bert = _pair()
    bert.right = team_trust.VouchRight("owner", two_person=True)
    bert.verified.add(NAME)
    assert bert.vouch() == []  # the hub would refuse it
    bert.right = team_trust.VouchRight("owner")
    bert.vouch()
    authors = {**AUTHORS, BERT: ("bert", "owner")}
    assert bert.counted(authors) == {NAME: ("bert",)}
    assert bert.counted(authors, two_person=True) == {}
    anna.meet(bert)
    anna.right = team_trust.VouchRight("editor", two_person=True)
    anna.verified.add(NAME)
    anna.vouch()
    assert anna.counted(authors, two_person=True) == {NAME: ("anna",)}


@pytest.mark.parametrize(
    ("vouchers", "writers", "two_person", "counted"),
    [
        (["anna"], ["anna"], False, ("anna",)),
        (["anna"], ["anna"], True, ()),
        (["anna"], ["bert"], True, ("anna",)),
        (["anna", "bert"], ["bert"], True, ("anna",)),
        (["anna", "bert"], ["anna", "bert"], True, ()),
        (["anna"], ["external"], True, ()),  # it may be hers
        (["anna", "bert"], ["external"], True, ("anna", "bert")),
        (["anna", "bert"], ["external", "anna"], True, ()),
        (["anna"], [""], True, ()),
        (["anna"], [], True, ()),  # a text that nobody is known to have written
        (["anna", "carl"], [], True, ("anna", "carl")),
        ([], [], False, ()),
    ],
)
def test_one_function_decides_whose_word_counts(
    vouchers: list[str], writers: list[str], *, two_person: bool, counted: tuple[str, ...]
) -> None:
    assert team_trust.count_for_text(vouchers, writers, two_person=two_person) == counted


# ------------------------------------------------------------------------------- members


def _member(name: str, role: str, mark: str) -> dict[str, str]:
    return {"name": name, "role": role, "member": mark}


def test_an_editor_who_comes_later_is_named_once_and_not_trusted() -> None:
    rules = LocalRules(inject_from=("anna",), known=("anna 1",))
    anna, bert = _member("anna", "owner", "1"), _member("bert", "editor", "2")
    met, new = team_trust.meet_members(rules, [anna, bert, _member("carl", "writer", "3")])
    assert (met.inject_from, new) == (("anna",), team_trust.Newcomers(("bert",)))
    assert team_trust.meet_members(met, [anna, bert])[1] == team_trust.Newcomers()


def test_somebody_else_under_a_trusted_name_is_not_trusted() -> None:
    rules = LocalRules(inject_from=("anna",), known=("anna 1",))
    met, new = team_trust.meet_members(rules, [_member("anna", "editor", "9")])
    assert (met.inject_from, new) == ((), team_trust.Newcomers((), ("anna",)))


def test_the_levels_of_trust_are_as_they_were() -> None:
    assert [str(each) for each in trusting.Level] == [
        "user",
        "verified",
        "confirmed",
        "unverified",
        "waiting",
    ]
