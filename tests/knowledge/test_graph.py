"""How records hang together."""

from __future__ import annotations

import random
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING

from cases import every_case
from vademecum.knowledge import graph
from vademecum.knowledge.graph import Relation
from vademecum.memory import Memory, connect
from vademecum.store import scopes
from vademecum.types import Entry, Origin, Place, Record, Scope

if TYPE_CHECKING:
    from pathlib import Path

HERE, THERE = Place(Scope.PROJECT, "here"), Place(Scope.GLOBAL)


def record(
    key: str, text: str, *, place: Place = HERE, tags: tuple[str, ...] = (), **fields: object
) -> Record:
    return Record(
        key,
        place,
        f"memory/{place}/records/{key}.md",
        "project",
        key,
        (Entry(text, "2026-11-01T00:00:00Z", start=5, end=9),),
        id=f"id-{key}",
        tags=tags,
        fields=fields,
    )


def joined(found: graph.Graph) -> set[tuple[str, str, str, str]]:
    def name(path: str) -> str:
        return path.rpartition("/")[2].removesuffix(".md")

    return {(name(e.source), name(e.target), str(e.relation), e.origin) for e in found.edges}


def test_links_wiki_links_and_the_frontmatter_make_edges() -> None:
    found = graph.build_graph(
        [
            record("deploys", "See [the hosts](hosts.md) and [[On Call|people]]."),
            record("hosts", "build-7"),
            record("on-call", "Anna", related=[{"key": "hosts", "rel": "contradicts"}, "deploys"]),
        ]
    )
    assert joined(found) == {
        ("deploys", "hosts", "relates_to", "link"),
        ("deploys", "on-call", "relates_to", "wiki"),
        ("on-call", "hosts", "contradicts", "frontmatter"),
        ("on-call", "deploys", "relates_to", "frontmatter"),
    }
    assert found.broken == ()


@every_case(
    "text",
    [
        "[a page](https://example.org/hosts.md)",
        "`[[hosts]]` is how one links",
        "```\n[[hosts]]\n```",
        "![picture](hosts.md)",
        "[a file](/etc/hosts.md)",
        "[self](here.md)",
        "plain hosts",
    ],
)
def test_what_is_no_edge(text: str) -> None:
    found = graph.build_graph([record("here", text), record("hosts", "x")])
    assert joined(found) == set()
    assert found.broken == ()


def test_a_link_that_leads_nowhere_is_told_with_its_line() -> None:
    found = graph.build_graph([record("here", "one\ntwo [[missing thing]]\n[x](gone.md)")])
    assert {(each.wanted, each.line) for each in found.broken} == {("missing thing", 7), ("gone.md", 8)}


def test_the_record_of_the_same_place_is_meant_before_another_of_the_same_key() -> None:
    far = record("hosts", "far", place=THERE)
    near = record("hosts", "near")
    found = graph.build_graph([far, record("here", "[[hosts]]"), near])
    assert [edge.target for edge in found.edges] == [near.path]


def test_a_shared_tag_joins_only_what_is_alike() -> None:
    found = graph.build_graph(
        [
            record("one", "The retry policy of the payment gateway waits two seconds", tags=("net",)),
            record("two", "The payment gateway retry policy gives up after five tries", tags=("net",)),
            record("three", "Lunch is at noon in the kitchen", tags=("net",)),
            record("four", "The retry policy of the payment gateway waits two seconds", tags=("other",)),
            record("five", "The retry policy of the payment gateway", tags=("net",), place=THERE),
        ]
    )
    assert joined(found) == {("one", "two", "relates_to", "tags")}


def test_a_rejection_survives_and_can_be_taken_back(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "home", cwd=tmp_path)
    memory.store("see [[two]]", key="one")
    memory.store("nothing", key="two")

    def found() -> graph.Graph:
        return graph.build_graph(memory.list().records, rejected=graph.rejections(memory.home))

    one, two = (graph.identity(memory.show(key)) for key in ("one", "two"))
    assert [edge.rejected for edge in found().edges] == [False]
    graph.reject(memory.home, two, one, at="2026-11-15T00:00:00Z", by="human:x")
    assert [edge.rejected for edge in found().edges] == [True]
    assert found().standing().edges == ()
    memory.store("see [[two]] again", key="one")  # whatever is computed anew, a person's no holds
    assert [edge.rejected for edge in found().edges] == [True]
    assert graph.accept(memory.home, one, two)
    assert not graph.accept(memory.home, one, two)
    assert len(found().standing().edges) == 1


def test_an_unknown_relation_is_a_plain_one() -> None:
    found = graph.build_graph([record("a", "x", related=[{"key": "b", "rel": "loves"}]), record("b", "y")])
    assert [edge.relation for edge in found.edges] == [Relation.RELATES_TO]


def test_the_graph_goes_out_as_graphml_and_mermaid() -> None:
    found = graph.build_graph([record("a", 'x <b> & "q" [[b]]'), record("b", "y\u202e")])
    tree = ET.fromstring(graph.as_graphml(found))
    space = {"g": "http://graphml.graphdrawing.org/xmlns"}
    assert len(tree.findall(".//g:node", space)) == 2
    assert len(tree.findall(".//g:edge", space)) == 1
    drawn = graph.as_mermaid(found)
    assert drawn.startswith("graph LR\n")
    assert "r0 --- r1" in drawn


def test_what_surrounds_a_record_is_what_the_whole_graph_says_of_it(tmp_path: Path) -> None:
    chance = random.Random(7)
    words = "cache queue worker schema token replica latency timeout retry invoice ledger refund".split()
    (tmp_path / "work").mkdir()
    memory = connect(home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER)
    for number in range(60):
        text = " ".join(chance.sample(words, 6))
        links = "".join(f" [[key-{chance.randrange(70)}]]" for _ in range(chance.randrange(3)))
        tags = chance.sample(["one", "two", "three", "four"], chance.randrange(3))
        scope = "global" if number % 4 == 0 else "project"
        memory.store(f"The {text}.{links}", key=f"key-{number}", tags=tags, scope=scope)
    held = tmp_path / "home" / "memory" / "global" / "records" / "Key held.md"
    held.write_text("---\naliases: [key-65, key-3]\ntags: [one]\n---\n# Held\n\nThe cache [[key-8]].\n")
    places = scopes.visible(memory.caller)
    whole = graph.Sight(memory.workspace.records).graph(places)
    assert len(whole.edges) > 60
    for record in whole.records:
        near = graph.graph_of_record(memory.workspace.records, places, record.path)
        assert graph.find_related(near, [record.path], each=20, most=20) == graph.find_related(
            whole, [record.path], each=20, most=20
        )
    assert {edge.origin for edge in whole.edges} >= {"tags", "wiki"}
