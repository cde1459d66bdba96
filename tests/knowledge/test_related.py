"""What goes with a record: in `recall`, in `show`, in `index.md` and in `vade graph`."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import NotFound, NotVisible, UsageError
from vademecum.interfaces.cli.app import run
from vademecum.knowledge import graph
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory


def door(base: Path, **given: Any) -> Memory:
    (base / "project").mkdir(exist_ok=True)
    given = {"origin": Origin.USER} | given
    return connect(home=base / "home", cwd=base / "project", environ={"VADE_SWEEP": "off"}, **given)


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    memory = door(tmp_path)
    memory.store("Deploys go out on Fridays; see [[release-hosts]] and [[on-call]].", key="deploys")
    memory.store("build-7 and build-9", key="release-hosts")
    memory.store("Anna, then Bo", key="on-call", scope="global")
    memory.store("Lunch is at noon", key="lunch")
    return memory


def recalled(memory: Memory, query: str, **given: Any) -> list[tuple[str | None, dict[str, str] | None]]:
    found = memory.recall(query, include_related=True, **given).results
    return [(each.key, None if each.related is None else dict(each.related)) for each in found]


def test_recall_goes_one_step_along_the_edges_and_says_so(memory: Memory) -> None:
    def beside(origin: str) -> dict[str, str]:
        return {"to": "deploys", "relation": "relates_to", "origin": origin}

    found = recalled(memory, "deploys on Fridays", limit=1)
    assert found[0] == ("deploys", None)
    assert sorted(found[1:], key=str) == [("on-call", beside("wiki")), ("release-hosts", beside("wiki"))]
    assert [each.related for each in memory.recall("deploys on Fridays", limit=1).results] == [None]


def test_an_edge_is_followed_against_its_direction_too_but_only_one_step(memory: Memory) -> None:
    keys = [key for key, _ in recalled(memory, "build-7 and build-9", limit=1)]
    assert keys == ["release-hosts", "deploys"]


def test_what_a_person_rejected_does_not_come_along(memory: Memory) -> None:
    memory.graph.reject("deploys", "on-call")
    keys = [key for key, _ in recalled(memory, "deploys on Fridays", limit=1)]
    assert keys == ["deploys", "release-hosts"]
    memory.store("again [[on-call]]", key="deploys")  # whatever is found anew, the word holds
    assert "on-call" not in [each.record.key for each in memory.graph.related("deploys")]
    memory.graph.reject("on-call", "deploys", on=False)
    assert "on-call" in [each.record.key for each in memory.graph.related("deploys")]
    with pytest.raises(NotFound):
        memory.graph.reject("on-call", "deploys", on=False)
    with pytest.raises(UsageError):
        memory.graph.reject("on-call", "on-call")


def test_a_rejection_of_a_record_made_by_hand_holds_when_it_is_given_an_id(
    memory: Memory, tmp_path: Path
) -> None:
    folder = tmp_path / "home" / "memory" / "global" / "records"
    (folder / "by-hand.md").write_text("see [[on-call]]\n")
    assert memory.show("by-hand").id is None
    memory.graph.reject("by-hand", "on-call")
    memory.store("more about [[on-call]]", key="by-hand", scope="global")
    assert memory.show("by-hand").id is not None
    assert ("by-hand", "on-call") not in pairs(memory)
    memory.graph.reject("by-hand", "on-call", on=False)
    assert ("by-hand", "on-call") in pairs(memory)


def test_a_scope_that_was_asked_for_is_not_left(memory: Memory) -> None:
    keys = [key for key, _ in recalled(memory, "deploys on Fridays", limit=1, scope="project")]
    assert keys == ["deploys", "release-hosts"]


def test_three_for_each_hit_and_five_in_all(tmp_path: Path) -> None:
    memory = door(tmp_path)
    for number in range(8):
        memory.store(f"leaf {number} of a tree", key=f"leaf-{number}")
    memory.store("oak stands " + " ".join(f"[[leaf-{n}]]" for n in range(4)), key="oak")
    memory.store("elm stands " + " ".join(f"[[leaf-{n}]]" for n in range(4, 8)), key="elm")
    found = [each for each in recalled(memory, "stands", limit=2) if each[1] is not None]
    assert len(found) == 5
    assert sum(each["to"] == "oak" for _, each in found if each) <= 3
    assert sum(each["to"] == "elm" for _, each in found if each) <= 3


def test_a_group_sees_nothing_private_along_an_edge(tmp_path: Path, memory: Memory) -> None:
    group = door(tmp_path, audience="group", session="g", origin=Origin.AGENT)
    keys = [key for key, _ in recalled(group, "deploys on Fridays", limit=1)]
    assert keys == ["deploys", "release-hosts"]
    assert {record.key for record in group.graph.read().records} == {"deploys", "release-hosts", "lunch"}
    with pytest.raises(NotVisible):
        group.graph.reject("deploys", "release-hosts")


def test_only_a_person_rejects(tmp_path: Path, memory: Memory) -> None:
    with pytest.raises(NotVisible):
        door(tmp_path, origin=Origin.AGENT).graph.reject("deploys", "release-hosts")


def test_another_project_is_out_of_sight(tmp_path: Path, memory: Memory) -> None:
    (tmp_path / "else").mkdir()
    other = connect(home=tmp_path / "home", cwd=tmp_path / "else", environ={})
    other.store("see [[deploys]]", key="mine")
    assert {record.key for record in other.graph.read().records} == {"mine", "on-call"}
    assert [each.wanted for each in other.graph.read().broken] == ["deploys"]


def test_an_earlier_date_gets_what_the_related_record_said_then(tmp_path: Path) -> None:
    memory = door(tmp_path)
    records = tmp_path / "home" / "memory" / "global" / "records"
    records.mkdir(parents=True)
    (records / "hosts.md").write_text(
        "# hosts\n\n## 2026-01-01T00:00:00Z\nold-1\n"
        "<!-- origin: user | superseded: 2026-03-01T00:00:00Z -->\n\n"
        "## 2026-03-01T00:00:00Z\nnew-1\n<!-- origin: user -->\n"
    )
    (records / "ships.md").write_text("# ships\n\n## 2026-01-01T00:00:00Z\nthe ships lie at [[hosts]]\n")
    then = memory.recall("ships lie", include_related=True, limit=1, as_of="2026-02-01").results
    now = memory.recall("ships lie", include_related=True, limit=1).results
    assert [each.snippet for each in then if each.related] == ["old-1"]
    assert [each.snippet for each in now if each.related] == ["new-1"]


def test_edges_are_computed_anew_only_when_a_file_changed(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.graph.read()
    counted = []
    real = graph.build_graph

    def counting(*given: Any, **named: Any) -> Any:
        counted.append(given)
        return real(*given, **named)

    monkeypatch.setattr(graph, "build_graph", counting)
    for _ in range(3):
        memory.graph.read()
    assert counted == []
    memory.store("now see [[lunch]]", key="on-call", scope="global")
    assert ("on-call", "lunch") in pairs(memory)
    assert len(counted) == 1
    memory.forget("lunch")
    assert ("on-call", "lunch") not in pairs(memory)
    memory.graph.reject("deploys", "release-hosts")
    assert ("deploys", "release-hosts") not in pairs(memory)


def pairs(memory: Memory) -> set[tuple[str, str]]:
    return {(each["from"], each["to"]) for each in graph.as_json(memory.graph.read())["edges"]}


def test_see_also_is_shown_and_never_stored_or_found(memory: Memory, tmp_path: Path) -> None:
    memory.care.write_listing()
    listing = next((tmp_path / "home" / "memory" / "project").rglob("index.md")).read_text()
    assert "See also: [Release hosts](release-hosts.md)" in listing
    assert "on-call" not in listing.split("See also", 1)[1].split("\n")[0]  # of another place
    assert not any("See also" in path.read_text() for path in tmp_path.rglob("records/[!i]*.md"))
    found = memory.search("See also release hosts", mode="bm25").results
    assert not [each for each in found if each.path.endswith("index.md")]


def test_incognito_reads_no_edges(tmp_path: Path, memory: Memory) -> None:
    hidden = door(tmp_path, incognito=True)
    assert hidden.graph.read().records == ()
    assert recalled(hidden, "deploys") == []


# -------------------------------------------------------------------- the command


@pytest.fixture
def vade(
    tmp_path: Path, memory: Memory, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Any:
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))

    def call(*words: str, code: int = 0) -> str:
        assert run(list(words)) == code
        said = capsys.readouterr()
        return said.err if code else said.out

    return call


def test_the_command_prints_edges_with_origin_and_status(vade: Any) -> None:
    said = vade("graph")
    assert "deploys (project) · relates_to · on-call (global) · wiki\n" in said
    assert said.endswith("2 edges between 4 records\n")
    assert (
        vade("graph", "--reject", "deploys", "on-call") == "rejected: no edge between deploys and on-call\n"
    )
    assert "on-call" not in vade("graph")
    assert "wiki · rejected" in vade("graph", "--all")
    told = json.loads(vade("graph", "--all", "--json"))
    assert {(each["to"], each["status"]) for each in told["edges"]} == {
        ("on-call", "rejected"),
        ("release-hosts", "active"),
    }
    vade("graph", "--accept", "deploys", "on-call")
    assert "rejected" not in vade("graph", "--all")


def test_the_graph_goes_into_files_that_other_programs_read(vade: Any, tmp_path: Path) -> None:
    for name in ("out.graphml", "out.mmd", "out.json"):
        vade("graph", "--out", str(tmp_path / name))
    space = {"g": "http://graphml.graphdrawing.org/xmlns"}
    tree = ET.parse(tmp_path / "out.graphml")
    ids = {node.get("id") for node in tree.findall(".//g:node", space)}
    assert len(ids) == 4
    assert all({edge.get("source"), edge.get("target")} <= ids for edge in tree.findall(".//g:edge", space))
    assert (tmp_path / "out.mmd").read_text().startswith("graph LR\n")
    assert len(json.loads((tmp_path / "out.json").read_text())["edges"]) == 2
    assert "already exists" in vade("graph", "--out", str(tmp_path / "out.json"), code=1)
    assert "inside the memory folder" in vade("graph", "--out", str(tmp_path / "home" / "x.json"), code=1)
    vade("graph", "--out", str(tmp_path / "out.json"), "--force")
    assert "Name the file" in vade("graph", "--out", str(tmp_path / "out"), code=2)


def test_wrong_calls_are_told_in_a_line(vade: Any) -> None:
    assert "--propose" in vade("graph", "--apply", code=2)
    assert "Use only one of" in vade("graph", "--reject", "a", "b", "--accept", "a", "b", code=2)
    assert "no record 'nope'" in vade("graph", "--reject", "nope", "deploys", code=1)
    assert "no language model" in vade("graph", "--propose", code=1)


def test_show_has_a_see_also(vade: Any) -> None:
    assert "See Also: deploys (relates_to, wiki)" in vade("show", "release-hosts")
    shown = json.loads(vade("show", "deploys", "--json"))["related"]
    assert {(each["key"], each["direction"]) for each in shown} == {
        ("release-hosts", "out"),
        ("on-call", "out"),
    }
    assert "See Also" not in vade("show", "lunch")


def test_the_command_recalls_with_what_is_related(vade: Any) -> None:
    said = vade("search", "--records", "deploys Fridays", "--include-related", "--max-results", "1")
    assert "relates_to deploys (wiki)" in said
    told = json.loads(
        vade("search", "--records", "deploys Fridays", "--include-related", "--max-results", "1", "--json")
    )
    assert [each.get("related", {}).get("to") for each in told["results"]] == [None, "deploys", "deploys"]


def test_a_file_whose_name_is_no_text_does_not_spoil_the_graph(vade: Any, tmp_path: Path) -> None:
    folder = tmp_path / "home" / "memory" / "global" / "records"
    (folder / "a\x01<b>&\ufffe.md").write_text("see [[on-call]]\n")
    vade("graph", "--out", str(tmp_path / "odd.graphml"))
    ET.parse(tmp_path / "odd.graphml")
    assert "graph LR" in vade("graph", "--format", "mermaid")


def test_edges_are_followed_in_a_repository_that_shares_its_memory(tmp_path: Path) -> None:
    memory = door(tmp_path)
    memory.projects.init()
    memory.store("Ships lie at [[harbour]] at night", key="ships")
    memory.store("Pier nine", key="harbour")
    found = recalled(memory, "ships at night", limit=1)
    assert [key for key, _ in found] == ["ships", "harbour"]
