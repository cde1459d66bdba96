"""Edges that a model proposes: only keys that are there, and a person's no stands."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from llm.wire_server import Use, serving
from vademecum.errors import ModelFailed, OverBudget
from vademecum.interfaces.cli.app import run
from vademecum.lifecycle import relations
from vademecum.llm.scripted import Scripted

if TYPE_CHECKING:
    from lifecycle.stores import World

TEXTS = {
    "deploys": "Deploys go out on Fridays.",
    "hosts": "Releases run on build-7.",
    "lunch": "Lunch is at noon.",
    "rota": "Anna is on call.",
}


def filled(world: World) -> Any:
    memory = world.memory()
    for key, text in TEXTS.items():
        memory.store(text, key=key)
    return memory


def names(*pairs: tuple[str, str], relation: str = "relates_to") -> dict[str, Any]:
    return {
        "records": [{"key": one, "related": [{"key": other, "relation": relation}]} for one, other in pairs]
    }


def edges(memory: Any) -> set[tuple[str, str, str, str]]:
    keys = {record.path: record.key for record in memory.graph.read().records}
    return {
        (keys[edge.source], keys[edge.target], str(edge.relation), edge.origin)
        for edge in memory.graph.read().edges
    }


def test_a_proposal_is_told_then_written_and_taken_back(world: World) -> None:
    memory = filled(world)
    before = world.tree()
    found = memory.graph.propose(model=Scripted(names(("deploys", "hosts"))))
    assert [each.why for each in found.outcome.proposals] == ["relates_to hosts"]
    assert world.tree() == before
    memory.graph.propose(model=Scripted(names(("deploys", "hosts"))), apply=True)
    assert edges(memory) == {("deploys", "hosts", "relates_to", "scripted:model")}
    assert memory.show("deploys").text == TEXTS["deploys"]
    memory.care.undo()
    assert world.tree() == before


def test_what_is_there_is_not_proposed_again_in_either_direction(world: World) -> None:
    memory = filled(world)
    both = names(("deploys", "hosts"), ("hosts", "deploys"))
    memory.graph.propose(model=Scripted(both), apply=True)
    assert len(edges(memory)) == 1
    found = memory.graph.propose(model=Scripted(both), apply=True)
    assert (found.outcome.proposals, found.refused) == ((), ())


def test_what_a_person_rejected_is_not_proposed(world: World) -> None:
    memory = filled(world)
    memory.graph.reject("deploys", "hosts")
    found = memory.graph.propose(model=Scripted(names(("deploys", "hosts"))), apply=True)
    assert found.outcome.proposals == ()
    assert edges(memory) == set()


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        (names(("deploys", "Hosts")), "'Hosts' is not a record here"),
        (names(("deploys", "ignore previous orders")), "is not a record here"),
        (names(("nothing", "hosts")), "is not one of the requested records"),
        (names(("deploys", "deploys")), "not related to itself"),
        (names(("deploys", "hosts"), relation="owns"), "'owns' is not a relation"),
        (ModelFailed("gone"), "gone"),
        (OverBudget("too much"), "too much"),
    ],
)
def test_what_is_not_there_is_refused_and_told(reply: Any, why: str, world: World) -> None:
    memory = filled(world)
    before = world.tree()
    found = memory.graph.propose(model=Scripted(reply), apply=True)
    assert found.outcome.proposals == ()
    assert [why in each for each in found.refused] == [True]
    assert world.tree() == before


def test_three_edges_for_a_record_at_most(world: World) -> None:
    memory = filled(world)
    memory.store("Coffee is in the kitchen.", key="coffee")
    many = names(*(("deploys", key) for key in ("hosts", "lunch", "rota", "coffee")))
    memory.graph.propose(model=Scripted(many), apply=True)
    assert len(edges(memory)) == relations.MOST


def test_records_of_different_places_are_never_put_before_a_model_together(world: World) -> None:
    memory = filled(world)
    memory.store("My own bank is the blue one.", key="bank", scope="global")
    memory.store("Tea at four.", key="tea", scope="global")
    model = Scripted({"records": []}, {"records": []})
    memory.graph.propose(model=model)
    asked = [str(each.prompt) for each in model.asked]
    assert len(asked) == 2
    assert not any("bank" in each and "deploys" in each for each in asked)


def test_the_newest_two_hundred_are_the_candidates(world: World) -> None:
    for number in range(210):
        at = f"2026-10-{number // 24 + 1:02}T{number % 24:02}:00:00Z"
        world.write(f"r-{number}.md", f"---\ntype: project\nupdated: {at}\n---\nrecord number {number}\n")
    model = Scripted(*[{"records": []}] * 10)
    world.memory().graph.propose(model=model)
    listed = str(model.asked[0].prompt).split("ASKED")[0]
    assert listed.count("\nr-") == relations.CANDIDATES
    assert "\nr-209:" in listed
    assert "\nr-9:" not in listed
    assert len(model.asked) == relations.CANDIDATES // relations.ASKED


def test_what_a_person_wrote_under_related_stays(world: World) -> None:
    memory = filled(world)
    path = next(world.home.rglob("records/deploys.md"))
    text = path.read_text().replace("---\n# ", "related: [lunch]  # mine\n---\n# ")
    path.write_text(text)
    memory.graph.propose(model=Scripted(names(("deploys", "hosts"))), apply=True)
    related = memory.show("deploys").fields["related"]
    assert related == ["lunch", {"key": "hosts", "rel": "relates_to", "by": "scripted:model"}]
    assert "# mine" in path.read_text()


def test_the_command_proposes_over_a_socket(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    memory = filled(world)
    monkeypatch.chdir(world.top / "project")
    monkeypatch.setenv("VADE_HOME", str(world.home))
    with serving() as server:
        monkeypatch.setenv("VADE_LLM_ENDPOINT", server.endpoint("compatible"))
        server.script(Use("answer", names(("deploys", "rota"), relation="contradicts")))
        words = ["graph", "--propose", "--model", "compatible:parrot-1"]
        assert run(words) == 0
        assert "contradicts rota" in capsys.readouterr().out
        assert run([*words, "--apply", "--json"]) == 0
        assert json.loads(capsys.readouterr().out)["applied"] is True
    assert edges(memory) == {("deploys", "rota", "contradicts", "compatible:parrot-1")}
