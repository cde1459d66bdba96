"""An argument that was not given changes nothing on what is there already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from mcp_door.talking import call, home_of, in_process, talk
from vademecum.adapters import pydantic_ai
from vademecum.interfaces.cli.app import run
from vademecum.interfaces.tools.declaration import Read
from vademecum.interfaces.tools.declaration import input_schema as schema
from vademecum.interfaces.tools.sets import TOOL_SETS as FAMILIES
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from vademecum.types import Record

TEXT, FACT = "Merge commits are signed.", "The cache lies in /var."
# What a call needs beyond what its schema requires, so that it is about what is there already.
GIVEN: Mapping[str, Mapping[str, Any]] = {
    "memory_store": {"content": TEXT, "key": "merging"},
    "memory_note": {"content": TEXT},
    "save_memory": {"content": "Never squash merges."},
    "todo": {},
}
OPERATIONS: Mapping[str, Mapping[str, Any]] = {
    "store": {"key": "merging", "content": TEXT},
    "add_discovery": {"fact": FACT},
    "add_solution": {"error": "It broke.", "solution": "Turn it on."},
    "add_pattern": {"pattern": "Names are nouns."},
    "mark_applied": {"key": "the-cache-lies-in-var"},
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def filled(folder: Path, origin: Origin) -> Memory:
    """Records with every label that there is, of the caller's own trust, so that nothing else keeps them."""
    memory = connect(home=home_of(folder), cwd=folder, origin=origin)
    labels: dict[str, Any] = {"type": "feedback", "tags": ["git"], "confidence": 0.7, "lasting": True}
    memory.store("Never squash merges.", key="merging", **labels)
    memory.knowledge.learn("discovery", fact=FACT, tags=["cache"], confidence=0.6)
    memory.knowledge.learn("solution", error="It broke.", solution="Turn it on.", tags=["power"])
    memory.knowledge.learn("pattern", pattern="Names are nouns.", tags=["style"])
    return memory


def labels(record: Record) -> tuple[Any, ...]:
    return record.type, record.tags, record.place, record.protected, record.title, record.category


def unchanged(before: Memory, mine: Mapping[str, Record], tool: str) -> None:
    now = {each.key: each for each in before.list().records}
    for key, record in mine.items():
        assert labels(now[key]) == labels(record), tool
        # Learning the same again makes it surer; nothing else does, and nothing makes it less sure.
        sure, before_it = now[key].confidence or 0.0, record.confidence or 0.0
        assert sure == before_it or (record.type != "feedback" and sure > before_it), tool


WRITING = [each for each in FAMILIES["all"] if not each.read_only]


def test_every_tool_that_writes_is_walked_here() -> None:
    takes = {"memory_forget", "memory_operations"}
    assert {each.name for each in WRITING} == {*GIVEN, *takes}
    operations = next(each for each in WRITING if each.name == "memory_operations").arguments[0].choices
    plans = next(each for each in WRITING if each.name == "memory_operations")
    every = {
        "key": "k",
        "content": "c",
        "query": "q",
        "fact": "f",
        "error": "e",
        "solution": "s",
        "pattern": "p",
    }
    writes = {
        name for name in operations if not isinstance(plans.planned({"operation": name, **every}), Read)
    }
    assert writes == {*OPERATIONS, "delete", "prune_ltm"}


@pytest.mark.parametrize("origin", [Origin.AGENT, Origin.USER])
@pytest.mark.parametrize(
    "tool", [*GIVEN, "memory_store of a lesson", *(f"memory_operations {name}" for name in OPERATIONS)]
)
def test_a_tool_called_with_what_it_needs_and_nothing_more_changes_no_label(
    folder: Path, tool: str, origin: Origin
) -> None:
    memory = filled(folder, origin)
    mine = {each.key: each for each in memory.list().records}
    name, _, operation = tool.partition(" ")
    given = {"operation": operation, **OPERATIONS[operation]} if operation in OPERATIONS else GIVEN[name]
    if operation == "of a lesson":
        given = {"type": "discovery", "content": FACT}

    async def conversation() -> None:
        async with in_process(folder) as client:
            await call(client, name, **given)

    talk(conversation)
    unchanged(memory, mine, tool)


def test_no_schema_states_a_label_that_nobody_gave() -> None:
    stated = {
        f"{tool.name}.{name}"
        for tool in WRITING
        for name, each in schema(tool.arguments)["properties"].items()
        if "default" in each
    }
    assert stated == {
        "memory_store.scope",
        "memory_forget.scope",
        "memory_note.scope",
    } | {
        "todo.operation",
    }


@pytest.mark.parametrize("origin", [Origin.AGENT, Origin.USER])
def test_neither_the_command_line_nor_python_nor_an_adapter_changes_one(
    folder: Path, origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory = filled(folder, origin)
    mine = {each.key: each for each in memory.list().records}
    monkeypatch.chdir(folder)
    monkeypatch.setenv("VADE_HOME", str(home_of(folder)))
    assert run(["add", "By hand.", "--key", "merging"]) == 0
    assert run(["add", "--type", "discovery", FACT]) == 0
    memory.store("In Python.", key="merging")
    store: Any = pydantic_ai.memory_toolset(memory).tools["memory_store"].function
    store(content="By a tool.", key="merging")
    unchanged(memory, mine, "command line, Python, adapter")
