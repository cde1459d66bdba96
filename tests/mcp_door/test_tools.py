"""What the tools do for an agent, over both revisions of the protocol and over every transport."""

from __future__ import annotations

import json
import os
import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from mcp.shared.exceptions import MCPError

from cases import every_case
from mcp_door.talking import (
    ERAS,
    call,
    home_of,
    in_process,
    over_http,
    over_stdio,
    read_record,
    refusal,
    served,
    talk,
)
from vademecum.interfaces.mcp import protocol
from vademecum.interfaces.tools.declaration import input_schema as schema
from vademecum.interfaces.tools.declaration import parse_arguments as parse
from vademecum.interfaces.tools.sets import TOOL_SETS as FAMILIES
from vademecum.memory import connect
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import MessageEvent

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.client import Client

CORE = {
    *("memory_search", "memory_get", "memory_store", "memory_note", "memory_forget", "session_get"),
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


@pytest.fixture
def with_session(folder: Path) -> Path:
    """A project with an earlier session."""
    memory = connect(home=home_of(folder), cwd=folder, environ={})
    log = memory.sessions.new(id="earlier")
    for role, text in ((Role.USER, "Where is the lighthouse?"), (Role.ASSISTANT, "At the harbour.")):
        log.append(MessageEvent(Message(role, (Text(text),))))
    memory.close()
    return folder


async def use_everything(client: Client, folder: Path) -> None:
    """One conversation that uses each of the core tools, a resource and a prompt."""
    made = await call(
        client,
        "memory_store",
        content="Always use pytest for testing in this project. Do not use unittest.",
        key="testing-framework",
        type="feedback",
        tags="testing,pytest",
    )
    assert (made["outcome"], made["key"], made["scope"]) == ("created", "testing-framework", "project")
    record = read_record(folder, "testing-framework")
    assert "type: feedback" in record
    assert "origin: agent" in record
    newest = await call(client, "memory_search", type="feedback", limit=3)
    assert [each["path"].rpartition("/")[2] for each in newest["results"]] == ["testing-framework.md"]
    found = await call(client, "memory_search", query="pytest", limit=2)
    assert {"results", "provider", "model", "mode", "coverage", "degraded"} <= set(found)
    hit = found["results"][0]
    assert {"path", "startLine", "endLine", "score", "snippet", "source"} <= set(hit)
    read = await call(client, "memory_get", path=hit["path"], lines=hit["endLine"], place=hit["startLine"])
    assert "Always use pytest" in read["text"]
    same = await call(client, "memory_get", path=hit["path"], startLine=hit["startLine"])
    assert same["text"] == read["text"]
    assert await call(client, "memory_get", path="memory/global/records/none.md") == {
        "text": "",
        "path": "memory/global/records/none.md",
        "message": "there is no such file",
    }
    noted = await call(client, "memory_note", content="Chose pytest.")
    assert noted["outcome"] == "noted"
    learned = await call(client, "memory_store", type="discovery", content="Config is YAML", confidence=0.9)
    assert learned["outcome"] == "created"
    read_session = await call(client, "session_get", session="earlier", place=1, lines=40)
    assert [each["text"] for each in read_session["turns"]] == ["Where is the lighthouse?", "At the harbour."]
    uris = {str(each.uri) for each in (await client.list_resources()).resources}
    assert {"vade://status", "vade://journal/today"} <= uris
    today = (await client.read_resource("vade://journal/today")).contents[0]
    assert "Chose pytest." in getattr(today, "text", "")
    status = (await client.read_resource("vade://status")).contents[0]
    assert json.loads(getattr(status, "text", ""))["records"] == {"project": 2}
    prompt = await client.get_prompt("recall", {"topic": "tests"})
    assert "Always use pytest" in str(prompt.messages[0].content)
    gone = await call(client, "memory_forget", key=hit["path"])
    assert (gone["outcome"], gone["key"]) == ("forgotten", "testing-framework")
    nothing = await call(client, "memory_search", query="pytest", mode="bm25", sources=["memory"])
    assert (nothing["results"], nothing["message"]) == ([], "Nothing found about this in memory.")


@pytest.mark.parametrize("era", ERAS)
def test_an_agent_uses_every_tool_over_stdio(with_session: Path, era: str) -> None:
    async def conversation() -> None:
        async with over_stdio(with_session, era=era) as client:
            assert {each.name for each in (await client.list_tools()).tools} == CORE
            await use_everything(client, with_session)

    talk(conversation)


def test_a_merge_is_told_with_what_it_superseded_and_the_way_back(folder: Path) -> None:
    async def conversation() -> None:
        async with over_stdio(folder) as client:
            older, newer = "The backup of the ledger runs nightly.", "The backups of the ledger run nightly."
            first = await call(client, "memory_store", content=older)
            assert "merged" not in first
            again = await call(client, "memory_store", content=newer)
            undo = f"vade split {first['key']} --scope project"
            assert (again["outcome"], again["key"]) == ("consolidated", first["key"])
            assert again["merged"] == {"key": first["key"], "superseded": older, "undo": undo}
            other = await call(client, "memory_store", content=older.replace("ledger", "letter"))
            assert other["outcome"] == "created"

    talk(conversation)


@pytest.mark.full
def test_an_agent_uses_every_tool_over_http_in_both_eras(with_session: Path) -> None:
    with served(with_session, "--session", "here") as address:

        async def conversation() -> None:
            async with over_http(address, era="2026-07-28") as client:
                await use_everything(client, with_session)
            async with over_http(address, era="legacy") as client:
                found = await call(client, "memory_search", query="config", sources=["memory"])
                assert [each["path"].rpartition("/")[2] for each in found["results"]] == ["config-is-yaml.md"]

        talk(conversation)


@every_case("family", sorted(FAMILIES))
def test_every_tool_says_when_to_use_it_and_gives_an_example_that_it_takes(family: str) -> None:
    for tool in FAMILIES[family]:
        assert re.search(r"Examples?: \{", tool.description), tool.name
        assert not re.search(r"\b(CRITICAL|IMPORTANT|MUST|ALWAYS|NEVER|immediately)\b", tool.description)
        for example in re.findall(
            r"(?<= )\{[^{}]*(?:\[[^\]]*\])?[^{}]*\}", tool.description.split("Example")[-1]
        ):
            parse(tool.arguments, json.loads(example))
        if tool.name in ("memory_store", "save_memory"):
            for word in ("preference", "correction", "decision", "context", "pattern"):
                assert word in tool.description
            for word in ("peculation", "questions", "already known", "sure"):
                assert word in tool.description
        assert schema(tool.arguments)["additionalProperties"] is False
    assert "proactively" in next(t for t in FAMILIES["co-cli"] if t.name == "recall_memory").description


def test_the_list_of_tools_leaves_room_for_the_work() -> None:
    """Every agent pays for it in every session: at most 8,500 characters, as the server sends it."""
    sent = protocol.read_offer("core").list_tools()
    assert [each["name"] for each in sent] == [each.name for each in FAMILIES["core"]]
    assert len(json.dumps(sent, ensure_ascii=False)) <= 8_500


def test_every_argument_is_explained_by_its_schema_or_by_the_text_of_its_tool() -> None:
    """What has no words of its own is named in the description, or is one of the names that say it all."""
    plain = {
        *("content", "query", "scope", "tags", "mode", "idempotency_key", "type"),
    }
    for tool in FAMILIES["core"]:
        for name, each in tool.parameters["properties"].items():
            assert "description" in each or f"`{name}`" in tool.description or name in plain, (
                tool.name,
                name,
            )


def test_hints_tell_reads_from_writes_and_what_takes_away(folder: Path) -> None:
    async def conversation() -> None:
        async with in_process(folder) as client:
            tools = {each.name: each for each in (await client.list_tools()).tools}
        marks = {name: each.annotations for name, each in tools.items() if each.annotations}
        assert len(marks) == len(tools)
        reads = {name for name, each in marks.items() if each.read_only_hint}
        assert reads == {
            *("memory_search", "memory_get", "session_search", "session_get"),
            *("memory_recall", "recall_memory", "list_memories"),
        }
        assert {name for name, each in marks.items() if each.destructive_hint} == {
            "memory_forget",
            "memory_operations",
        }
        for name, each in tools.items():
            assert each.output_schema
            assert "origin" not in each.input_schema["properties"]
            if name not in reads | {"todo"}:
                assert "idempotency_key" in each.input_schema["properties"]

    talk(conversation)


WRONG: list[tuple[str, dict[str, Any], str]] = [
    ("memory_store", {}, "`content` is missing"),
    ("memory_store", {"content": 5}, "`content` must be a text"),
    ("memory_store", {"content": ""}, "empty"),
    ("memory_store", {"content": "x", "scope": "user"}, "`scope` cannot be 'user'"),
    ("memory_store", {"content": "a" * 300_000}, "`content` has 300,000 characters, and at most 8,000"),
    ("memory_store", {"content": "x", "type": "mood"}, "`type` cannot be"),
    ("memory_store", {"content": "x", "tags": [1]}, "`tags` must be"),
    ("memory_store", {"content": "x", "origin": "user"}, "there is no argument 'origin'"),
    ("memory_store", {"content": "x", "idempotency_key": " "}, "idempotency key"),
    ("memory_store", {"content": "x", "type": "solution"}, "a solution needs `error`"),
    ("memory_store", {"content": "x", "type": "pattern", "steps": ["a"]}, "a pattern has no `steps`"),
    ("memory_store", {"content": "x", "type": "user", "error": "a"}, "`error` belongs to a lesson"),
    ("memory_store", {"content": "x", "type": "pattern", "key": "k"}, "a pattern takes no `key`"),
    ("memory_store", {"content": "x", "remplace": True}, "did you mean `replace`?"),
    ("memory_note", {"content": "a" * 300_000}, "at most 8,000"),
    ("memory_search", {"query": ""}, "`query` is empty"),
    ("memory_search", {"query": " \n"}, "`query` is empty"),
    ("memory_search", {"limit": 101}, "`limit` must be from 1 to 100"),
    ("memory_search", {"limit": "ten"}, "`limit` must be a whole number"),
    ("memory_search", {"limit": True}, "`limit` must be a whole number"),
    ("memory_search", {"sort": "mood"}, "`sort` cannot be"),
    ("memory_search", {"querry": "x"}, "did you mean `query`?"),
    ("memory_search", {"maxResult": 3}, "did you mean `limit`?"),
    ("memory_note", {"text": "x"}, "did you mean `content`?"),
    ("memory_store", {"content": "x", "kind": "rule"}, "did you mean `type`?"),
    ("memory_forget", {"id": "x"}, "did you mean `key`?"),
    ("session_get", {"name": "x"}, "did you mean `session`?"),
    ("memory_search", {"limit": 3, "maxResults": 4}, "are the same argument"),
    ("memory_search", {"query": "x", "minScore": 2}, "`min_score` must be from 0 to 1"),
    ("memory_search", {"query": "x", "sources": ["bogus"]}, "the sources are memory, journal, pinned"),
    ("memory_get", {"path": "x", "from": 1, "startLine": 2}, "are the same argument"),
    ("memory_get", {"path": "../../etc/passwd"}, "try:"),
    ("memory_get", {"key": "never-saved"}, "never-saved"),
    ("memory_get", {"path": "never-saved"}, "never-saved"),
    ("memory_get", {}, "pass either `key` or `path`"),
    ("memory_get", {"key": "x", "path": "y"}, "pass either `key` or `path`"),
    ("memory_get", {"key": "x", "place": "here"}, "`place` cannot be"),
    ("memory_forget", {"key": "nothing-here"}, "nothing-here"),
    ("memory_note", {"content": "x", "scope": "session"}, "`scope` cannot be"),
    ("session_get", {"session": "none", "place": 1}, "no session"),
    ("session_get", {"session": "none", "place": 1, "lines": 201}, "`lines` must be from 1 to 200"),
    ("memory_recall", {"query": ""}, "`query` is empty"),
    ("todo", {"operation": "dance"}, "`operation` cannot be"),
    ("memory_operations", {"operation": "store", "key": "k"}, "store needs `content`"),
    ("memory_operations", {"operation": "retrieve", "key": "never"}, "never"),
]


def test_what_cannot_be_done_is_told_with_what_to_try(folder: Path) -> None:
    async def conversation() -> None:
        async with in_process(folder) as client:
            for name, given, words in WRONG:
                assert words in await refusal(client, name, given), (name, given)
            with pytest.raises(MCPError, match="Unknown tool"):
                await client.call_tool("memory_sing", {})
            with pytest.raises(MCPError, match="no resource"):
                await client.read_resource("vade://file/memory/global/records/none.md")
            with pytest.raises(MCPError, match="no prompt"):
                await client.get_prompt("sing")
            with pytest.raises(MCPError, match="`what` is missing"):
                await client.get_prompt("remember", {"what": " "})

    talk(conversation)
    assert not list(home_of(folder).glob("memory/*/**/*.md"))


def test_the_tools_of_other_systems_reach_the_same_memory(folder: Path) -> None:
    async def conversation() -> None:
        async with in_process(folder) as client:
            await call(
                client, "save_memory", content="User prefers async/await", tags=["preference", "python"]
            )
            for number in range(8):
                await call(client, "save_memory", content=f"Tea number {number} was {'x' * number * 9} green")
            recalled = await call(client, "recall_memory", query="tea green")
            assert len(recalled["results"]) == 5
            listed = await call(client, "list_memories")
            assert listed["count"] == 9
            assert listed["memories"][0]["category"] == "preference"
            say = "memory_operations"
            await call(
                client, say, operation="store", key="auth_bug", content="The refresh loses its result."
            )
            await call(client, say, operation="store", key="auth_bug", content="It was the cache.")
            kept = await call(client, say, operation="retrieve", key="auth_bug")
            assert kept["content"] == "It was the cache."
            assert (await call(client, say, operation="search", query="cache"))["results"]
            assert len((await call(client, say, operation="list"))["memories"]) == 10
            await call(client, say, operation="add_discovery", fact="Config is YAML", confidence=0.1)
            await call(client, say, operation="add_solution", error="400 errors", solution="Retry 20 times")
            await call(client, say, operation="add_pattern", pattern="Writes are atomic", examples=["a.py"])
            stats = await call(client, say, operation="ltm_stats")
            assert stats["total"]["count"] == 3
            pruned = await call(client, say, operation="prune_ltm", min_confidence=0.3)
            assert pruned["count"] == 1
            assert (await call(client, say, operation="recall_sessions", query="cache"))["hits"] == []
            gone = await call(client, say, operation="delete", key="auth_bug")
            assert gone["key"] == "auth-bug"

    talk(conversation)


@pytest.mark.parametrize(
    ("family", "count"), [("core", 6), ("cao", 3), ("clio", 1), ("co-cli", 3), ("openclaw", 4), ("all", 13)]
)
def test_families_are_chosen_by_name(folder: Path, family: str, count: int) -> None:
    async def conversation() -> None:
        async with in_process(folder, tools=family) as client:
            assert len((await client.list_tools()).tools) == count

    talk(conversation)


@pytest.mark.full
def test_a_connection_is_a_session_of_its_own_unless_one_is_named(folder: Path) -> None:
    with served(folder) as address:

        async def conversation() -> None:
            async with over_http(address) as one, over_http(address) as other:
                await call(one, "memory_store", content="Only for this talk.", key="here", scope="session")
                assert (await call(one, "memory_search", scope="session"))["results"]
                assert not (await call(other, "memory_search", scope="session"))["results"]
            async with over_http(address, era="2026-07-28") as stateless:
                given = {"content": "Only for this talk.", "scope": "session"}
                assert "session" in await refusal(stateless, "memory_store", given)

        talk(conversation)


def test_what_an_agent_reads_hides_nothing(folder: Path) -> None:
    """Invisible and direction-changing characters stay on disk and do not reach the model."""
    hidden = "Prefers tea\u200b\u202e\U000e0041 and coffee"

    async def conversation() -> None:
        async with in_process(folder) as client:
            await call(client, "memory_store", content=hidden, key="drinks")
            found = await call(client, "memory_search", query="tea")
            assert found["results"][0]["snippet"] == "Prefers tea and coffee"
            whole = await call(client, "memory_get", key="drinks")
            assert "Prefers tea and coffee" in whole["text"]

    talk(conversation)
    assert hidden in read_record(folder, "drinks")


def test_a_host_can_say_from_which_moment_questions_are_seen(folder: Path) -> None:
    async def conversation() -> None:
        async with in_process(folder, environ={"VADE_SEARCH_NOW": "2026-11-12T08:00"}) as client:
            await call(client, "memory_note", content="The plumber came.")
            for tool in ("memory_search", "session_search"):
                found = await call(client, tool, query="what did the plumber do yesterday")
                assert '"yesterday" understood as 2026-11-11' in str(found), tool

    talk(conversation)


def test_what_was_recalled_and_stored_again_gains_nothing(folder: Path) -> None:
    """An agent that keeps what it was told adds no entry and no trust, however often."""

    async def conversation() -> None:
        async with in_process(folder) as client:
            await call(client, "memory_store", content="The build takes nine minutes on Tuesdays.")
            for _ in range(20):
                found = await call(client, "memory_search", query="how long does the build take")
                for each in found["results"]:
                    await call(client, "memory_store", content=each["snippet"])

    talk(conversation)
    memory = connect(home=home_of(folder), cwd=folder, environ={})
    (record,) = memory.list().records
    assert len(record.entries) == 1
    assert memory.review.trust_of(record).level == "unverified"


PATHS = (
    *(
        "../secret.txt",
        "../../secret.txt",
        "/etc/passwd",
        "memory/../../secret.txt",
        "memory/global/../../../secret.txt",
    ),
    *(
        "x/../secret.txt",
        "~/secret.txt",
        "file:///etc/passwd",
        "memory\\..\\secret.txt",
        "memory/global/link.md",
    ),
    *(
        "memory/global/records/link.md",
        "./secret.txt",
        "memory//secret.txt",
        "\0",
        "memory/\0",
        "a" * 5000,
        "/",
        ".",
    ),
    *(
        "config.toml",
        "mcp-token",
        "audit/head",
        "state.db",
        "index/main.db",
        "decisions/approvals",
        "locks/x",
    ),
    *("%2e%2e/secret.txt", "..%2fsecret.txt", "memory/global/records/%2e%2e/%2e%2e/%2e%2e/%2e%2e/secret.txt"),
)


def test_no_path_leads_out_of_memory(folder: Path) -> None:
    """Traversal, links and foreign files, through every tool and resource that takes a name (S15)."""
    secret = "the secret that lies outside"
    home = home_of(folder)
    for place in (home.parent, home, folder):
        place.mkdir(exist_ok=True)
        (place / "secret.txt").write_text(secret)
    (home / "mcp-token").write_text(secret)
    (home / "memory" / "global" / "records").mkdir(parents=True)
    for name in ("memory/global/link.md", "memory/global/records/link.md"):
        (home / name).symlink_to(home.parent / "secret.txt")

    async def conversation() -> None:
        async with in_process(folder) as client:
            for path in (*PATHS, str(home.parent / "secret.txt"), str(home / "secret.txt")):
                for name, given in (
                    ("memory_get", {"path": path}),
                    ("memory_forget", {"key": path}),
                    ("session_get", {"session": path, "place": 1}),
                    ("memory_store", {"content": "x", "key": path, "idempotency_key": path[:200] or "x"}),
                    ("memory_operations", {"operation": "retrieve", "key": path}),
                    ("memory_search", {"query": f"path:{path}", "sources": [path]}),
                    ("memory_store", {"type": "rule", "content": "x", "path": path, "examples": [path]}),
                ):
                    assert secret not in (await client.call_tool(name, given)).model_dump_json()
                try:
                    read = (await client.read_resource(f"vade://file/{path}")).model_dump_json()
                except MCPError as error:
                    read = str(error)
                assert secret not in read

    talk(conversation)
    for place in (home.parent, home, folder):
        assert (place / "secret.txt").read_text() == secret


def test_a_store_over_the_cap_tells_the_agent_what_moved_and_how_to_undo_it(folder: Path) -> None:
    home_of(folder).mkdir()
    (home_of(folder) / "config.toml").write_text("decay.max_count = 5\n")
    before = datetime.now(UTC) - timedelta(days=2)
    earlier = connect(home=home_of(folder), cwd=folder, now=lambda: before, environ={"VADE_SWEEP": "off"})
    for number in range(6):
        stored = earlier.store(f"Number {number}.", key=f"k{number}")
        os.utime(home_of(folder) / stored.path, (before.timestamp(), before.timestamp()))

    async def conversation() -> None:
        async with in_process(folder) as client:
            made = await call(client, "memory_store", content="One too many.", key="last")
            assert made["swept"]["moved"] == 1
            assert made["message"].endswith(f"undo with `vade undo {made['swept']['run']}`")
            kept = await call(client, "memory_get", key="k0")
            assert "Number 0." in kept["text"]

    talk(conversation)
