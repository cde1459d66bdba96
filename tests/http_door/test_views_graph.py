"""What the page says of how records hang together."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.interfaces.http.views import graph as graphs
from vademecum.interfaces.http.views.graph import read_graph
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    """Three records that lead to one, a rule of everywhere, and a link that leads nowhere."""
    (tmp_path / "work").mkdir()
    opened = connect(
        home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER, actor="human:ada", environ={}
    )
    opened.store("Deploys go out on Tuesdays.", key="deploys", tags=["ops"])
    opened.store("Rollbacks follow [[deploys]].", key="rollbacks", type="rule")
    opened.store("Alarms are muted during [[deploys]], see [[nowhere]].", key="alarms")
    opened.store("I like tea.", key="tea", scope="global", type="user")
    return opened


def plain(found: dict[str, Any]) -> dict[str, Any]:
    assert json.loads(json.dumps(found)) == found
    return found


def keys_of(found: dict[str, Any]) -> list[str]:
    return [each["key"] for each in found["nodes"]]


def test_the_most_joined_record_comes_first_and_edges_name_nodes_by_place(memory: Memory) -> None:
    found = plain(read_graph(memory))
    keys = keys_of(found)
    assert keys == ["deploys", "alarms", "rollbacks", "tea"]
    joined = {frozenset({keys[a], keys[b]}) for a, b, _ in found["edges"]}
    assert joined == {frozenset({"alarms", "deploys"}), frozenset({"rollbacks", "deploys"})}
    assert found["nodes"][0]["degree"] == 2
    assert found["joined"] == 3
    assert [each["wanted"] for each in found["broken"]] == ["nowhere"]


def test_the_graph_is_narrowed_down_and_every_filter_counted_under_the_others(memory: Memory) -> None:
    found = plain(read_graph(memory, {"type": "rule"}))
    assert keys_of(found) == ["rollbacks"]
    assert found["edges"] == []
    types = next(each for each in found["filters"] if each["name"] == "type")
    assert {each["value"]: each["count"] for each in types["values"]} == {"project": 2, "rule": 1, "user": 1}
    assert keys_of(read_graph(memory, words="OPS")) == ["deploys"]
    assert keys_of(read_graph(memory, {"scope": "global"}, words="ops")) == []


def test_a_record_in_focus_is_told_with_what_it_is_joined_to_and_by_what(memory: Memory) -> None:
    path = memory.show("deploys").path
    focus = plain(read_graph(memory, focus=path))["focus"]
    assert focus["key"] == "deploys"
    assert {each["key"] for each in focus["joined"]} == {"alarms", "rollbacks"}
    edge = focus["joined"][0]["edges"][0]
    assert (edge["relation"], edge["out"], edge["why"]) == ("relates_to", False, "a [[link]]")
    assert read_graph(memory, focus="nowhere.md")["focus"] is None


def test_of_a_large_graph_the_most_joined_are_drawn(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(graphs, "MOST", 2)
    found = plain(read_graph(memory))
    assert keys_of(found) == ["deploys", "alarms"]
    assert len(found["edges"]) == 1
    assert (found["matching"], found["total"]) == (4, 4)


def test_a_file_of_an_attached_folder_has_no_page_of_its_own(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "garden.md").write_text("# Garden\n\nAs with [[deploys]].\n")
    memory.sources.add(tmp_path / "notes")
    pages = {each["key"]: each["page"] for each in read_graph(memory)["nodes"]}
    assert pages["deploys"] is True
    assert all(not page for key, page in pages.items() if "garden" in key)
