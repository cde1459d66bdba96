"""What every tool really sends is what its declaration says: no field more, and none that nobody sends."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from jsonschema import Draft202012Validator

from mcp_door.talking import call, home_of, in_process, talk
from vademecum.errors import InvalidKey
from vademecum.interfaces.tools.clio import OPERATIONS
from vademecum.interfaces.tools.declaration import outline
from vademecum.interfaces.tools.sets import TOOL_SETS
from vademecum.memory import connect
from vademecum.text.names import is_new_key
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import MessageEvent
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

    from mcp.client.client import Client

TOOLS = {each.name: each for each in TOOL_SETS["all"]}


def strict(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The same schema, in which an object has the fields that are named and no other."""
    made = dict(schema)
    if "anyOf" in made:
        made["anyOf"] = [strict(each) for each in made["anyOf"]]
    if "properties" in made:
        made["properties"] = {name: strict(each) for name, each in made["properties"].items()}
        made["additionalProperties"] = False
    elif isinstance(made.get("additionalProperties"), dict):
        made["additionalProperties"] = strict(made["additionalProperties"])
    if "items" in made:
        made["items"] = strict(made["items"])
    return made


def fields(value: Any, schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """The declared fields that a value has."""
    for each in schema.get("anyOf", ()):
        yield from fields(value, each, at)
    if isinstance(value, list):
        for each in value:
            yield from fields(each, schema.get("items", {}), at)
    elif isinstance(value, dict):
        for name, each in value.items():
            if name in schema.get("properties", {}):
                yield f"{at}.{name}"
                yield from fields(each, schema["properties"][name], f"{at}.{name}")


def declared(schema: Mapping[str, Any], at: str = "") -> Iterator[str]:
    """All fields that a schema names."""
    for each in schema.get("anyOf", ()):
        yield from declared(each, at)
    for name, each in schema.get("properties", {}).items():
        yield f"{at}.{name}"
        yield from declared(each, f"{at}.{name}")
    if "items" in schema:
        yield from declared(schema["items"], at)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A project with a person's records, one of which points to another and cites a file that is gone."""
    made = tmp_path / "project"
    made.mkdir()
    (made / "src").mkdir()
    (made / "src" / "ledger.py").write_text("ROWS = []\n")
    memory = connect(home=home_of(made), cwd=made, session="s1", origin=Origin.USER)
    memory.store("The ledger is kept in src/ledger.py. See [[backups]].", key="ledger", protected=True)
    memory.store("Backups of the ledger run nightly.", key="backups", tags=["preference"])
    memory.store("The release train leaves on Mondays.", key="release-train")
    (made / "src" / "ledger.py").unlink()
    log = memory.sessions.new(id="earlier")
    log.append(MessageEvent(Message(Role.USER, (Text("The lighthouse keeper is called Ione."),))))
    log.append(MessageEvent(Message(Role.USER, (Text("Her dog swims every morning."),))))
    with open(home_of(made) / log.path, "ab") as file:
        file.write(b'{"torn": \n')
    memory.close()
    return made


class Talk:
    """A conversation in which every answer is held against what its tool declares."""

    def __init__(self, client: Client, sent: dict[str, set[str]], family: str = "all") -> None:
        self.client = client
        self.tools = {each.name: each for each in TOOL_SETS[family]}
        self.sent = sent  # which fields each tool has answered with

    async def ask(self, name: str, **given: Any) -> dict[str, Any]:
        """Call a tool; its answer must be exactly of the declared kind."""
        answer = await call(self.client, name, **given)
        declaration = self.tools[name].answer
        if name == "memory_operations":
            declaration = OPERATIONS[given["operation"]].answer
            name = f"{name} {given['operation']}"
        Draft202012Validator(strict(declaration)).validate(answer)
        Draft202012Validator(self.tools[name.split()[0]].offered["outputSchema"]).validate(answer)
        self.sent.setdefault(name, set()).update(fields(answer, declaration))
        return answer


async def use_all(ask: Any) -> None:
    """Every tool, every operation, and every field of an answer that a small home can bring about."""
    await ask("memory_store", content="Tests run with pytest.", key="tests", tags="testing")
    await ask("memory_store", content="The cache of the ledger is emptied nightly.")
    await ask("memory_store", content="The caches of the ledger are emptied nightly.")
    await ask("memory_store", content="Trains leave on Tuesdays.", key="release-train", replace=True)
    await ask("memory_store", content="Stop the old one.", error="Port in use", examples=["a.py"])
    await ask("memory_recall", query="where is the ledger kept?", limit=1, include_related=True)
    await ask("memory_recall")
    await ask("memory_search")
    await ask("memory_store", content="Answers are short.", scope="global", type="user")
    assert (await ask("memory_search", scope="global"))["results"][0]["scope"] == "global"
    await ask("memory_search", query="short ledger", min_score=0.9)
    await ask("memory_store", content="The lamp is green.", key="lamp")
    await ask("memory_store", content="The lamp is amber.", key="lamp", replace=True)
    found = await ask("memory_search", query="lamp green")
    assert any("green" in each["snippet"] and "superseded" in each for each in found["results"])
    await ask("memory_note", content="Looked at the ledger.\n" * 360)
    await ask("memory_note", content="Looked at it again.\n" * 400)
    await ask("memory_note", content="Looked at it once more.\n" * 330)
    journal = (await ask("memory_search", sources=["journal"]))["results"][0]["path"]
    assert (await ask("memory_get", path=journal))["next"]
    await ask("memory_search", query="zyzzyva", mode="bm25")
    await ask("memory_search", query="where is the ledger kept?", limit=1, include_related=True)
    await ask("memory_search", query="lighthouse keeper", sources=["transcript"])
    await ask("memory_search", sources=["transcript"], mode="metadata")
    await ask("memory_get", key="ledger")
    await ask("memory_get", path="memory/global/records/nothing-here.md")
    await ask("memory_note", content="Looked at the ledger.")
    await ask("memory_store", type="discovery", content="Config is YAML.", confidence=0.9)
    await ask("memory_store", content="", key="config-is-yaml", applied=True)
    await ask("session_search", query="lighthouse keeper")
    await ask("session_get", session="earlier", place=1, lines=9)
    await ask("session_get", session="earlier", raw=True)
    await ask("todo", operation="write", items=["one"])
    await ask("save_memory", content="The printer is on the second floor.")
    await ask("recall_memory", query="printer")
    await ask("list_memories")
    await ask("memory_forget", key="tests")
    operate: dict[str, dict[str, Any]] = {
        "store": {"key": "port", "content": "The port is 8377."},
        "retrieve": {"key": "port"},
        "search": {"query": "port"},
        "list": {},
        "delete": {"key": "port"},
        "add_discovery": {"fact": "Dates are UTC."},
        "add_solution": {"error": "Port in use", "solution": "Stop the old one."},
        "add_pattern": {"pattern": "Names are nouns."},
        "mark_applied": {"key": "dates-are-utc"},
        "ltm_stats": {},
        "prune_ltm": {"max_age_days": 0, "min_confidence": 1},
        "recall_sessions": {"query": "lighthouse"},
    }
    assert operate.keys() == OPERATIONS.keys()
    for operation, given in operate.items():
        await ask("memory_operations", operation=operation, **given)


def test_every_tool_answers_exactly_what_it_declares(folder: Path) -> None:
    sent: dict[str, set[str]] = {}

    async def conversation() -> None:
        async with in_process(folder) as client:
            await use_all(Talk(client, sent).ask)

    talk(conversation)
    assert {name.split()[0] for name in sent} == TOOLS.keys()
    answers = [*(each.answer for each in TOOLS.values()), *(each.answer for each in OPERATIONS.values())]
    # A full scope, an entry that a pass marked, a queue, read sessions, hubs and teams have their own tests.
    rare = {".swept", ".swept.run", ".swept.moved", ".swept.into", ".results.stale", ".waiting"}
    rare |= {".coverage.sessionsRead", ".coverage.sessionsUnread", ".results.team", ".team"}
    rare |= {".hub", ".results.vouched", ".coverage.failed", ".coverage.pending", ".coverage.vectorsPending"}
    rare |= {".results.key"}  # a part of a consolidation
    rare |= {".results.newer"}  # a value that changed on a later day
    rare |= {".results.heard"}  # a statement that no person has confirmed
    unsent = {field for each in answers for field in declared(each)} - set().union(*sent.values())
    assert unsent <= rare


def test_the_families_answer_in_the_shapes_of_their_systems(folder: Path) -> None:
    sent: dict[str, set[str]] = {}

    async def conversation() -> None:
        async with in_process(folder, tools="cao") as client:
            ask = Talk(client, sent, "cao").ask
            given = {"content": "Always use pytest.", "memory_type": "feedback", "tags": "testing,pytest"}
            made = await ask("memory_store", key="testing-framework", scope="project", **given)
            assert (made["success"], made["key"], made["action"]) == (True, "testing-framework", "created")
            again = await ask("memory_store", key="testing-framework", content="With two workers.")
            assert (again["action"], again["file_path"]) == ("updated", made["file_path"])
            for scope in ("agent", "federated", "global"):
                await ask("memory_store", content=f"Said in {scope}.", scope=scope)
            found = await ask("memory_recall", query="pytest", search_mode="bm25", sort_by="recency", limit=3)
            assert found["memories"][0] == {
                "key": "testing-framework",
                "content": "Always use pytest.",
                "memory_type": "feedback",
                "scope": "project",
                "tags": "testing,pytest",
                "file_path": made["file_path"],
                "updated_at": found["memories"][0]["updated_at"],
            }
            newest = await ask("memory_recall", include_related=True)
            assert len(newest["memories"]) >= 3
            assert (await ask("memory_recall", query="zyzzyva", search_mode="bm25"))[
                "message"
            ] == "Nothing found."
            gone = await ask("memory_forget", key="testing-framework", scope="project")
            assert gone == {
                "success": True,
                "deleted": True,
                "key": "testing-framework",
                "scope": "project",
            }
        async with in_process(folder, tools="openclaw") as client:
            ask = Talk(client, sent, "openclaw").ask
            found = await ask("memory_search", query="Where is the ledger kept?", maxResults=6, minScore=0.0)
            assert set(found) == {"results", "provider", "model"}
            (first, *_) = found["results"]
            assert set(first) == {"path", "startLine", "endLine", "score", "snippet", "source"}
            read = await ask("memory_get", path=first["path"], lines=5, **{"from": first["startLine"]})
            assert set(read) == {"text", "path"}
            assert "The ledger is kept" in read["text"]
            missing = "memory/2026-01-20.md"
            assert await ask("memory_get", path=missing) == {"text": "", "path": missing}

    talk(conversation)


def test_a_field_that_no_declaration_names_is_seen() -> None:
    answer = {"text": "", "path": "x", "surprise": 1}
    schema = TOOLS["memory_get"].answer
    assert Draft202012Validator(schema).is_valid(answer)
    assert not Draft202012Validator(strict(schema)).is_valid(answer)


def test_clients_are_told_the_same_schemas_those_of_answers_in_outline(folder: Path) -> None:
    async def conversation() -> None:
        async with in_process(folder) as client:
            for each in (await client.list_tools()).tools:
                whole = TOOLS[each.name].answer
                assert each.output_schema == outline(whole)
                told = each.output_schema.get("properties", {})
                assert bool(told) == bool(whole.get("required"))
                assert all(whole["properties"][name]["type"] == told[name]["type"] for name in told)
                assert set(told) <= set(whole.get("required", ()))
                assert each.input_schema == TOOLS[each.name].parameters

    talk(conversation)


def test_a_key_at_the_command_line_is_the_same_key_for_an_agent(folder: Path) -> None:
    async def conversation() -> None:
        async with in_process(folder) as client:
            memory = connect(home=home_of(folder), cwd=folder, agent="main", origin=Origin.USER)
            for key in ("a", "a-", "a--b", "1", "A B", "-a", "--", "index", "ä", "a_b", "x" * 61):
                made = await call(client, "memory_store", content=f"Of the key {key!r}.", key=key)
                typed = memory.store(f"Of the key {key!r}.", key=key, slug=True)
                assert (typed.outcome, typed.key) == ("confirmed", made["key"]), key
                if is_new_key(key):
                    assert made["key"] == key
                else:
                    with pytest.raises(InvalidKey):
                        memory.store("Something.", key=key)

    talk(conversation)
