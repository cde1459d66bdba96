"""A group reaches no private memory through any tool, resource or prompt of this door (S20)."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

import pytest
from mcp.shared.exceptions import MCPError

import tiers
from mcp_door.talking import ERAS, home_of, in_process, talk
from vademecum.interfaces.tools.sets import TOOL_SETS as FAMILIES
from vademecum.memory import connect
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import MessageEvent
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.client import Client

OWN = "canary-of-the-group"
USERS, GROUPS = ("ann", "bob", "cy"), ("g1", "g2")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def planted(folder: Path) -> list[str]:
    """Canaries of every kind of private memory; returns the words that a group must never see."""
    foreign: list[str] = []

    def canary(kind: str) -> str:
        foreign.append(f"canary-{kind}-{len(foreign)}x")
        return foreign[-1]

    home = home_of(folder)
    for user in USERS:
        memory = connect(
            home=home, cwd=folder, agent=user, session=f"private-{user}", environ={}, origin=Origin.USER
        )
        for scope in ("global", "federated", "agent", "session"):
            memory.store(f"Shared word, {canary(f'{user}-{scope}')}", key=f"{user}-{scope}", scope=scope)
        for scope in ("project", "agent", "global"):
            memory.note(f"Shared word, {canary(f'{user}-note-{scope}')}", scope=scope)
        log = memory.sessions.new(id=f"talk-{user}", name=f"Shared word {user}")
        words = f"Shared word, {canary(f'{user}-said')} was said in private here"
        log.append(MessageEvent(message=Message(role=Role.USER, parts=(Text(words),))), sync=True)
    for name in ("MEMORY.md", "profile.md", "context.md"):
        path = home / "memory" / "global" / name
        path.write_text(f"# Shared word\n\n{canary(name)}\n")
    other = folder.parent / "other"
    other.mkdir(exist_ok=True)
    connect(home=home, cwd=other, environ={}).store(f"Shared word, {canary('other-project')}", key="other")
    for group in GROUPS:
        memory = connect(home=home, cwd=folder, session=group, audience="group", environ={})
        memory.store(f"Shared word, {OWN}-{group}", key=f"own-{group}", scope="session")
    connect(home=home, cwd=folder, environ={}).store(f"Shared word, {OWN}-project", key="own-project")
    return foreign


def requests(folder: Path, choose: random.Random, foreign: list[str]) -> tuple[str, str, dict[str, Any]]:
    """One way to ask for something."""
    home = home_of(folder)
    paths = [str(each.relative_to(home)) for each in home.rglob("*") if each.is_file()]
    words = ["shared word", "canary", choose.choice(foreign), *USERS, "private", ""]
    query = choose.choice(words)
    path = choose.choice(
        [
            *paths,
            *(f"{home}/{each}" for each in paths),
            *(f"x/../{each}" for each in paths),
            "MEMORY.md",
            "profile.md",
        ]
    )
    key = choose.choice([f"{user}-{scope}" for user in USERS for scope in ("global", "agent", "session")])
    scope = choose.choice(["session", "project", "agent", "global", "federated", None])
    calls: list[tuple[str, str, dict[str, Any]]] = [
        ("tool", "memory_recall", {"query": query, "scope": scope, "include_related": True, "limit": 100}),
        ("tool", "memory_recall", {"sort_by": choose.choice(["recency", "score", "usage"])}),
        (
            "tool",
            "memory_search",
            {"query": query or "word", "scope": scope, "minScore": 0, "maxResults": 100},
        ),
        ("tool", "memory_search", {"query": query or "word", "sources": ["transcript", "journal", "pinned"]}),
        ("tool", "memory_get", {"path": path}),
        ("tool", "memory_get", {"path": key}),
        ("tool", "session_search", {"query": query or "word", "max_sessions": 50, "max_results": 20}),
        ("tool", "session_get", {"session": f"talk-{choose.choice(USERS)}", "place": 1, "lines": 50}),
        ("tool", "todo", {}),
        ("tool", "recall_memory", {"query": query or "word", "max_results": 100}),
        ("tool", "list_memories", {}),
        ("tool", "memory_operations", {"operation": "search", "query": query or "word"}),
        ("tool", "memory_operations", {"operation": "list"}),
        ("tool", "memory_operations", {"operation": "retrieve", "key": key}),
        ("tool", "memory_operations", {"operation": "recall_sessions", "query": query or "word"}),
        ("tool", "memory_operations", {"operation": "ltm_stats"}),
        ("resource", f"vade://file/{path}", {}),
        ("resource", choose.choice(["vade://journal/today", "vade://status"]), {}),
        (
            "prompt",
            choose.choice(["recall", "remember", "handoff"]),
            {"topic": query, "what": "x", "focus": "y"},
        ),
        ("list", "", {}),
    ]
    kind, name, given = choose.choice(calls)
    return kind, name, {key: value for key, value in given.items() if value is not None}


async def ask(client: Client, kind: str, name: str, given: dict[str, Any]) -> str:
    """All that comes back, in one text."""
    try:
        if kind == "tool":
            return (await client.call_tool(name, given)).model_dump_json()
        if kind == "resource":
            return (await client.read_resource(name)).model_dump_json()
        if kind == "prompt":
            wanted = {"recall": ("topic",), "remember": ("what",), "handoff": ("focus",)}[name]
            return (await client.get_prompt(name, {each: given[each] for each in wanted})).model_dump_json()
        return (await client.list_resources()).model_dump_json()
    except MCPError as error:
        return str(error)


def reads(folder: Path, count: int, seed: int) -> None:
    foreign = planted(folder)
    choose = random.Random(seed)
    seen = 0

    async def conversation(group: str, era: str, share: int) -> None:
        nonlocal seen
        async with in_process(folder, era=era, session=group, audience="group") as client:
            for _ in range(share):
                kind, name, given = requests(folder, choose, foreign)
                asked = str(given)
                answer = await ask(client, kind, name, given)
                for canary in foreign:
                    assert canary not in answer or canary in asked, (kind, name, given)
                other = next(each for each in GROUPS if each != group)
                assert f"{OWN}-{other}" not in answer, (kind, name, given)
                seen += f"{OWN}-{group}" in answer

    for group in GROUPS:
        for era in ERAS:
            talk(lambda group=group, era=era: conversation(group, era, count // 4))  # type: ignore[misc]
    assert seen  # what is the group's own is found


@pytest.mark.scaled
def test_random_reads_of_a_group_find_nothing_private(folder: Path) -> None:
    reads(folder, tiers.few(240, 400), seed=20)


@pytest.mark.soak
def test_ten_thousand_random_reads_of_groups_find_nothing_private(folder: Path) -> None:
    reads(folder, 10_000, seed=21)


def test_a_private_session_finds_what_the_group_does_not(folder: Path) -> None:
    """The canaries can be found at all, so that their absence means something."""
    foreign = planted(folder)

    async def conversation() -> None:
        answers = ""
        async with in_process(folder, session="private-ann", agent="ann") as client:
            for kind, name, given in (
                ("tool", "memory_recall", {"query": "shared word", "limit": 100}),
                ("tool", "memory_search", {"query": "shared word", "maxResults": 100, "minScore": 0}),
                ("tool", "session_search", {"query": "shared word"}),
                ("resource", "vade://journal/today", {}),
                ("resource", "vade://file/memory/global/MEMORY.md", {}),
                ("prompt", "recall", {"topic": "shared word"}),
                ("list", "", {}),
            ):
                answers += await ask(client, kind, name, given)
        mine = [each for each in foreign if "-ann-" in each or each.startswith("canary-MEMORY")]
        assert [each for each in mine if each not in answers] == []
        assert "vade://file/memory/global/MEMORY.md" in answers

    talk(conversation)


def test_every_tool_is_among_the_questions() -> None:
    choose = random.Random(1)
    asked = {requests_of(choose)[1] for _ in range(3000)}
    reading = {each.name for each in FAMILIES["all"] if each.read_only} | {"todo", "memory_operations"}
    assert reading <= asked


def requests_of(choose: random.Random) -> tuple[str, str, dict[str, Any]]:
    from pathlib import Path

    return requests(Path("/nonexistent"), choose, ["x"])
