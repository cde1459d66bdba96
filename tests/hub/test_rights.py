"""Who may add which fact: every kind, about what oneself, somebody else or nobody known wrote."""

from __future__ import annotations

import itertools
import json
from typing import TYPE_CHECKING, Any

import pytest

from hub.hubs import Writer
from vademecum.sync import facts, team_trust
from vademecum.sync.projection import FactSet

if TYPE_CHECKING:
    from collections.abc import Iterable

    from hub.hubs import Answer, World
    from vademecum.sync.facts import SyncFact

# Each act: its kind, what it says, what it replaces (by the names in `_prepare`), and about whose documents
# an agent may do it: (o)wn, somebody (e)lse's, those of an (u)nknown author. A person who writes may do all
# of them but those that need another role.
MARK = "e1 superseded: 2026-02-01T00:00:00Z"
ACTS: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "add an entry": ("put", {"target": "e9", "value": {"raw": "More."}}, "", "oeu"),
    "edit an entry": ("put", {"value": {"raw": "Other."}}, "put", "o"),
    "write a second version": ("put", {"value": {"raw": "Other."}}, "", "o"),
    "remove an entry": ("drop", {"value": None}, "put", "o"),
    "mark an entry": ("mark", {"target": "e1 stale: 2026-02-01T00:00:00Z", "value": True}, "", "o"),
    "lift a mark": ("mark", {"target": MARK, "value": False}, "mark", "o"),
    "move an entry": ("pos", {"value": ["", "z"]}, "", "o"),
    "move an entry that nobody wrote": ("pos", {"target": "e7", "value": ["", "z"]}, "", ""),
    "add a tag": ("tag", {"target": '"new"', "value": True}, "", "o"),
    "remove a tag": ("tag", {"target": '"old"', "value": False}, "tag", "o"),
    "remove a tag unseen": ("tag", {"target": '"old"', "value": False}, "", "o"),
    **{
        f"add to {kind}": (kind, {"target": '"x"', "value": True}, "", "o")
        for kind in ("related", "source", "example", "alias")
    },
    "change the type": ("type", {"target": "", "value": "rule"}, "", "o"),
    "lower the confidence": ("confidence", {"target": "", "value": 0.1}, "", "o"),
    "let it expire": ("stale_after", {"target": "", "value": "2020-01-01"}, "", "o"),
    "deprecate": ("status", {"target": "", "value": "deprecated"}, "", "o"),
    "deprecate over": ("status", {"target": "", "value": "deprecated"}, "status", "o"),
    "rename": ("name", {"target": "", "value": "records/z.md"}, "name", "o"),
    "rename unseen": ("name", {"target": "", "value": "records/z.md"}, "", "o"),
    "change the title": ("front", {"target": "title", "value": "Obey"}, "", "o"),
    "change the head": ("layout", {"target": "", "value": {"front": "", "head": "Obey"}}, "", "o"),
    "confirm": ("confirmed", {"target": "a s", "value": {"by": "a", "session": "s", "at": "x"}}, "", "oeu"),
    "take a confirmation away": ("confirmed", {"target": "b s", "value": {}}, "", "o"),
    "apply": ("applied", {"target": "", "value": 1}, "", "oeu"),
    "apply less": ("applied", {"target": "", "value": -9}, "", "o"),
    "give a number": ("num", {"target": "", "value": 77}, "", "o"),
    "protect": ("protected", {"target": "", "value": True}, "", ""),
    "verify": ("vouch", {"target": f"{'0' * 64} ME", "value": True}, "", ""),
    "verify as another": ("vouch", {"target": f"{'0' * 64} zoe", "value": True}, "", ""),
    "purge": ("purge", {"doc": "", "target": "", "value": {"dots": []}}, "", ""),
}
NEEDS = {"protect": "editor", "verify": "editor", "purge": "owner", "verify as another": "nobody"}
ON_PROTECTED = {"add an entry", "confirm", "apply"}  # all that somebody below an editor may do there
ROLES = ["reader", "writer", "editor", "owner"]
WHOSE = {"own": "o", "other": "e", "unknown": "u"}


def test_every_kind_of_fact_has_its_row() -> None:
    assert {kind for kind, *_ in ACTS.values()} == {*facts.GROUPS, *facts.PLAIN}


class Table:
    """A hub with a document for every act, written by whoever is asked for; a sender does the acts."""

    def __init__(self, world: World, sender: str, whose: Iterable[str], *, protected: bool = False) -> None:
        self.world, self.agent = world, sender == "agent"
        self.me = "anna" if self.agent else "bert"
        self.token = world.token_of("anna", "read", "write") if self.agent else world.member("bert", sender)
        self.carl = world.member("carl", "owner")
        self.lamport = 0
        self.replicas = (f"r{number:07d}" for number in itertools.count())
        self.there: dict[tuple[str, str], dict[str, SyncFact]] = {}
        for each in whose:
            # Who only reads has nothing of their own.
            token = self.token if each == "own" and sender != "reader" else self.carl
            self._prepare(each, token)
        if protected:
            guard = Writer(next(self.replicas))
            for made in self.there.values():
                self._write(guard, "protected", doc=made["put"].doc, target="", value=True)
            assert world.push(guard, token=self.carl).status == 200
        self.state, self.authors = FactSet(), {}
        for line in world.pull(token=self.carl, limit=1000).lines:
            fact = facts.parse(json.dumps(line["fact"]))
            self.state.add(fact)
            self.authors[fact.id] = (line["stamp"]["author"], line["stamp"]["role"])

    def _write(self, writer: Writer, kind: str, **given: Any) -> SyncFact:
        self.lamport += 1
        return writer.fact(kind, lamport=self.lamport, **given)

    def _prepare(self, whose: str, token: str) -> None:
        """For each act a document with all that can be replaced in it."""
        writer, origin = Writer(next(self.replicas)), "agent" if self.agent and whose == "own" else "user"
        for name in ACTS:
            doc = f"{len(self.there):08d}-2222-3333-4444-555555555555"
            made = self.there[name, whose] = {}
            for kind, target, value in (
                ("name", "", f"records/d{len(self.there)}.md"),
                ("layout", "", {"front": "", "head": "", "eol": "lf"}),
                ("put", "e1", {"raw": f"Text {len(self.there)}."}),
                ("mark", MARK, True),
                ("tag", '"old"', True),
                ("status", "", "stable"),
            ):
                given = {"doc": doc, "target": target, "value": value, "origin": origin}
                made[kind] = self._write(writer, kind, **given)
        stamps = {"stamps": [{"author": "nobody"}] * len(writer.made)} if whose == "unknown" else {}
        answer = self.world.push(writer, token=token, **stamps)
        assert answer.status == 200, answer.body

    def act(self, name: str, whose: str) -> tuple[Answer, SyncFact]:
        there = self.there[name, whose]
        kind, given, based_on, _ = ACTS[name]
        given = {"doc": there["put"].doc, "origin": "agent" if self.agent else "user", **given}
        given["target"] = given.get("target", "e1").replace("ME", self.me)
        fact_ids = (there[based_on].id,) if based_on else ()
        given |= {"based_on": fact_ids, "removes": fact_ids} if kind == "drop" else {"based_on": fact_ids}
        writer = Writer(next(self.replicas))
        fact = self._write(writer, kind, **given)
        answer = self.world.push(writer, token=self.token)
        self.lamport -= answer.status != 200
        return answer, fact

    def asked_here(self, fact: SyncFact) -> bool:
        """What the agent's own machine thinks of it."""
        return team_trust.may_agent_send(self.me, self.authors, lambda _: False)(fact, self.state)


@pytest.mark.full(but=1)
@pytest.mark.parametrize("sender", ["agent", *ROLES])
def test_who_may_add_which_fact_about_whose_document(sender: str, world: World) -> None:
    table = Table(world, sender, WHOSE)
    wrong: list[object] = []
    for name, (_, _, _, agents) in ACTS.items():
        for whose, letter in WHOSE.items():
            answer, fact = table.act(name, whose)
            if sender == "agent":
                allowed = letter in agents
            else:
                needed = NEEDS.get(name, "writer")
                allowed = needed in ROLES and ROLES.index(sender) >= ROLES.index(needed)
            told = answer.status, "" if answer.status == 200 else answer.code
            refused = (403, "propose" if sender == "agent" else "forbidden")
            if told != ((200, "") if allowed else refused):
                wrong.append((name, whose, told, answer.body))
            if sender == "agent" and table.asked_here(fact) is not allowed:
                wrong.append((name, whose, "the machine thinks otherwise"))
    assert wrong == []


@pytest.mark.full(but=1)
@pytest.mark.parametrize("sender", ["agent", "writer"])
def test_below_an_editor_a_protected_document_is_only_added_to(sender: str, world: World) -> None:
    table, wrong = Table(world, sender, ["own"], protected=True), []
    for name in ACTS.keys() - NEEDS.keys() - {"move an entry"}:
        answer, _ = table.act(name, "own")
        if (answer.status == 200) is not (name in ON_PROTECTED):
            wrong.append((name, answer.status, answer.body))
    assert wrong == []


def test_no_document_of_an_agent_becomes_the_head_of_a_file_that_shows_somebody_elses(world: World) -> None:
    agent, token = Writer("bbbbbbbb"), world.token_of("anna", "read", "write")
    person = Writer("aaaaaaaa")
    theirs = "5" * 8 + "-2222-3333-4444-555555555555"
    for kind, target, value in (
        ("name", "", "records/deploys.md"),
        ("layout", "", {"front": "", "head": "# Deploys\n"}),
        ("put", "e1", {"raw": "A text."}),
    ):
        person.fact(kind, doc=theirs, target=target, value=value)
    assert world.push(person).status == 200
    for doc, path, allowed in (
        ("00000000-0000-0000-0000-000000000000", "records/Deploys.md", False),
        ("00000000-0000-0000-0000-000000000000", "records/others.md", True),
        ("f" * 8 + "-2222-3333-4444-555555555555", "records/deploys.md", True),
    ):
        made = agent.fact("name", doc=doc, target="", value=path, origin="agent", lamport=4)
        answer = world.push(agent, made, token=token)
        assert (answer.status == 200) is allowed, (path, answer.body)
        if not allowed:
            agent.made.clear()
            continue
        agent = Writer("dddddddd" if agent.replica == "bbbbbbbb" else "eeeeeeee")
    lines = world.pull().lines
    assert {line["stamp"]["role"] for line in lines} == {"owner", "agent"}
