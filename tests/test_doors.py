"""Whatever door one reads through, nothing comes out that is somebody else's (S20)."""

from __future__ import annotations

import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest
from anthropic.lib.tools import ToolError
from pydantic_ai.exceptions import ToolFailed

import tiers
from vademecum.adapters.anthropic_memory import MemoryTool
from vademecum.adapters.base import as_agent
from vademecum.adapters.pydantic_ai import memory_toolset
from vademecum.errors import VadeError
from vademecum.interfaces.cli.app import run
from vademecum.interfaces.hooks.deadline import Channel, Job
from vademecum.interfaces.hooks.work import run as answer_hook
from vademecum.memory import connect
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import MessageEvent
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.memory import Memory

AGENTS, PROJECTS = ("ann", "bob", "cy"), ("alpha", "beta")
SCOPES = ("session", "project", "agent", "global", "federated")
DOORS = ("python", "cli", "hooks", "adapters")


class Reader(NamedTuple):
    """Who looks: an agent in a project, alone with its person or in the project's group."""

    agent: str
    project: str
    audience: str

    @property
    def session(self) -> str:
        """A group is one session for all agents in it."""
        return f"group-{self.project}" if self.audience == "group" else f"{self.agent}-{self.project}"


READERS = [
    Reader(agent, project, audience)
    for agent in AGENTS
    for project in PROJECTS
    for audience in ("private", "group")
]


@dataclass
class World:
    """A home that several agents, projects and groups share, and which word is whose."""

    home: Path
    top: Path
    capsys: pytest.CaptureFixture[str]
    monkeypatch: pytest.MonkeyPatch
    owners: dict[str, Callable[[Reader], bool]] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)
    open: dict[Reader, Memory] = field(default_factory=dict)

    def canary(self, may: Callable[[Reader], bool]) -> tuple[str, str]:
        """A text with a word that only some may see, and a key with another one."""
        number = f"{len(self.owners):03}"
        text, key = f"canary-{number}-text", f"canary-{number}-key"
        self.owners |= {text: may, key: may}
        self.keys.append(key)
        return f"Shared word about the deploy gateway, {text}", key

    def foreign(self, reader: Reader) -> list[str]:
        """The words that a reader must not see."""
        return [word for word, may in self.owners.items() if not may(reader)]

    def connected(self, reader: Reader, **more: Any) -> Memory:
        """Memory as one reader has it."""
        return connect(
            home=self.home,
            cwd=self.top / reader.project,
            agent=reader.agent,
            session=reader.session,
            audience=reader.audience,
            environ={},
            **more,
        )

    def memory(self, reader: Reader) -> Memory:
        """The same, kept open as a long program has it."""
        if reader not in self.open:
            self.open[reader] = self.connected(reader)
        return self.open[reader]

    def paths(self) -> list[str]:
        """Every file there is, as somebody might guess it."""
        return sorted(str(each.relative_to(self.home)) for each in self.home.rglob("*.*") if each.is_file())


@pytest.fixture
def world(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[World]:
    made = World(tmp_path / "home", tmp_path, capsys, monkeypatch)
    for name in PROJECTS:
        (tmp_path / name).mkdir()
    plant(made)
    yield made
    for memory in made.open.values():
        memory.close()


def alone(reader: Reader) -> bool:
    return reader.audience == "private"


def plant(world: World) -> None:
    """Something in every place: records, lessons, notes, documents, sessions, folders, an archive."""
    for reader in READERS:
        memory = world.connected(reader, origin=Origin.USER, actor="human:ada")

        def mine(other: Reader, reader: Reader = reader) -> bool:
            return other.session == reader.session

        keep(world, memory, "session", mine)
        if not alone(reader):
            continue

        def own(other: Reader, reader: Reader = reader) -> bool:
            return other == reader

        text, name = world.canary(own)
        log = memory.sessions.new(id=f"talk-{reader.session}", name=f"Shared word {name}")
        log.append(MessageEvent(message=Message(role=Role.USER, parts=(Text(text),))), sync=True)
    for agent in AGENTS:
        memory = world.connected(Reader(agent, "alpha", "private"), origin=Origin.USER, actor="human:ada")

        def agents(other: Reader, agent: str = agent) -> bool:
            return alone(other) and other.agent == agent

        keep(world, memory, "agent", agents)
        memory.note(world.canary(agents)[0], scope="agent")
        text, key = world.canary(agents)
        memory.store(text, key=key, scope="agent")
        memory.forget(key, scope="agent")
        attach(world, memory, agents, scope="agent")
    for project in PROJECTS:
        memory = world.connected(Reader("ann", project, "private"), origin=Origin.USER, actor="human:ada")

        def here(other: Reader, project: str = project) -> bool:
            return other.project == project

        def here_alone(other: Reader, project: str = project) -> bool:
            return alone(other) and other.project == project

        keep(world, memory, "project", here)
        memory.knowledge.learn("discovery", fact=world.canary(here)[0])
        memory.note(world.canary(here_alone)[0])
        scope_folder = (
            world.home / "memory" / "project" / str(memory.caller.project and memory.caller.project.id)
        )
        (scope_folder / "context.md").write_text(f"# Project\n\n{world.canary(here)[0]}\n")
    memory = world.connected(READERS[0], origin=Origin.USER, actor="human:ada")
    for scope in ("global", "federated"):
        keep(world, memory, scope, alone)
    memory.note(world.canary(alone)[0], scope="global")
    attach(world, memory, alone, scope="global")
    for name in ("MEMORY.md", "profile.md", "context.md"):
        (world.home / "memory" / "global" / name).write_text(f"# Person\n\n{world.canary(alone)[0]}\n")


def keep(world: World, memory: Memory, scope: str, may: Callable[[Reader], bool]) -> None:
    text, key = world.canary(may)
    memory.store(text, key=key, scope=scope, tags=["shared"])


def attach(world: World, memory: Memory, may: Callable[[Reader], bool], *, scope: str) -> None:
    text, name = world.canary(may)
    folder = world.top / f"folder-{name}"
    folder.mkdir()
    (folder / "page.md").write_text(f"# Page\n\n{text}\n")
    memory.sources.add(folder, name=name, scope=scope, inject=True)


# -------------------------------------------------------------------- the questions


class Asked(NamedTuple):
    """What somebody asks for, in the words that all doors share."""

    query: str
    path: str
    key: str
    scope: str | None
    session: str
    all: bool

    @property
    def words(self) -> str:
        """What may come back because it was said."""
        return f"{self.query} {self.path} {self.key} {self.session}"


def asked(world: World, choose: random.Random, paths: list[str], reader: Reader) -> Asked:
    path = choose.choice(paths)
    return Asked(
        query=choose.choice(
            ["shared word", "deploy gateway", "canary", choose.choice([*world.owners]), *AGENTS]
        ),
        path=choose.choice([path, f"{world.home}/{path}", f"x/../{path}", "MEMORY.md", "profile.md"]),
        key=choose.choice(world.keys),
        scope=choose.choice([*SCOPES, None]),
        session=choose.choice([f"talk-{a}-{p}" for a in AGENTS for p in PROJECTS]),
        # Alone at the command line a person may look everywhere, and has to say so.
        all=not alone(reader) and choose.random() < 0.3,
    )


def by_python(world: World, reader: Reader, given: Asked, choose: random.Random) -> str:
    """Any method of `Memory` that reads."""
    memory = world.memory(reader)
    calls: list[Callable[[], object]] = [
        lambda: memory.search(given.query, scope=given.scope, max_results=100, min_score=0),
        lambda: memory.search(given.query, sources=("transcript", "journal", "pinned"), max_results=100),
        lambda: memory.search(given.query, sources=(given.key,), max_results=100, min_score=0),
        lambda: memory.recall(given.query, scope=given.scope, limit=100, include_related=True),
        lambda: memory.recall(sort_by=choose.choice(["recency", "score", "usage"]), limit=100),
        lambda: memory.get(given.path),
        lambda: memory.get(given.key),
        lambda: memory.get(choose.randrange(1, 40)),
        lambda: memory.show(given.key, scope=given.scope),
        lambda: memory.graph.related(given.key),
        lambda: memory.list(scope=given.scope, all=given.all).records,
        lambda: memory.archive.forgotten(scope=given.scope),
        lambda: memory.injection.block(query=given.query).text,
        lambda: memory.injection.block(audience="private").text,
        lambda: memory.injection.remind(f"What about the {given.query}?", budget=5000).text,
        lambda: memory.sessions.list(all=given.all),
        lambda: memory.sessions.search(given.query, max_results=20, max_sessions=50, all=given.all),
        lambda: memory.sessions.search(given.query, max_results=20, ranking="keywords"),
        lambda: memory.sessions.get(given.session, 1, lines=50),
        lambda: memory.sessions.messages(given.session),
        lambda: memory.graph.read(scope=given.scope),
        lambda: memory.knowledge.list(scope=given.scope),
        lambda: memory.transfer.ltm(scope=given.scope or "project"),
        lambda: memory.notes_of_today(scope=given.scope or "project"),
        memory.sources.list,
        memory.knowledge.profile,
        memory.status,
    ]
    return repr(choose.choice(calls)())


def by_cli(world: World, reader: Reader, given: Asked, choose: random.Random) -> str:
    """Any command that shows something, with all that it prints."""
    scope = ["--scope", given.scope] if given.scope else []
    everywhere = ["--all"] if given.all else []
    calls = [
        ["search", given.query, *scope, "--max-results", "100", "--min-score", "0"],
        ["search", given.query, "--source", choose.choice(["transcript", "journal", "pinned", given.key])],
        ["search", "--records", given.query, *scope, "--max-results", "100", "--include-related"],
        ["search", "--records", "--sort-by", choose.choice(["recency", "score", "usage"])],
        ["show", given.path, "--lines", "1-"],
        ["show", given.key, "--lines", "1-"],
        ["show", given.key, *scope],
        ["list", *scope, *everywhere],
        ["list", "--forgotten"],
        ["inject", "--query", given.query],
        ["sessions", "list", *everywhere],
        ["sessions", "search", given.query, *everywhere],
        ["sessions", "show", given.session, *everywhere],
        ["sessions", "get", given.session, "1", *everywhere],
        ["knowledge", "list", *scope],
        ["knowledge", "stats"],
        ["graph", *scope, "--format", choose.choice(["text", "mermaid", "json"])],
        ["sources", "list"],
        ["profile"],
        ["check"],
        ["status"],
    ]
    who = ["--home", str(world.home), "--agent", reader.agent, "--session", reader.session]
    as_json = choose.choice([[], ["--json"]])
    world.monkeypatch.chdir(world.top / reader.project)
    run([*choose.choice(calls), *who, "--audience", reader.audience, *as_json])
    told = world.capsys.readouterr()
    assert "Traceback" not in told.err
    return told.out + told.err


def by_hook(world: World, reader: Reader, given: Asked, choose: random.Random) -> str:
    """What an agent's own moments tell it."""
    event = choose.choice(["session-start", "user-prompt"])
    said = {
        "cwd": str(world.top / reader.project),
        "session_id": reader.session,
        "prompt": f"What about the {given.query}?",
    }
    channel = Channel()
    with world.monkeypatch.context() as environ:
        environ.setenv("VADE_AGENT", reader.agent)
        environ.setenv("VADE_AUDIENCE", reader.audience)
        environ.setenv("VADE_LIMITS_HOOK_PROMPT", "9s")  # a busy machine must not make it silent
        answer_hook(Job("claude-code", event, json.dumps(said).encode(), str(world.home)), channel)
    return channel.offers[-1].decode() if channel.offers else ""


def by_adapter(world: World, reader: Reader, given: Asked, choose: random.Random) -> str:
    """The tools that frameworks get."""
    memory = as_agent(world.memory(reader))
    tools: dict[str, Any] = dict(memory_toolset(memory).tools)
    calls: list[Callable[[], object]] = [
        lambda: viewed(memory, given.scope, "/memories"),
        lambda: viewed(memory, given.scope, f"/memories/{given.key}.md"),
        lambda: viewed(memory, given.scope, f"/memories/{given.path}"),
        lambda: tools["memory_search"].function(query=given.query, maxResults=50, scope=given.scope),
        lambda: tools["memory_get"].function(path=given.path),
        lambda: tools["memory_get"].function(path=given.key),
        lambda: tools["memory_search"].function(query=given.query, sources=["transcript"], limit=50),
    ]
    return repr(choose.choice(calls)())


def viewed(memory: Memory, scope: str | None, path: str) -> str:
    return str(MemoryTool(memory, scope=scope or "project").call({"command": "view", "path": path}))


def answered(world: World, door: str, reader: Reader, given: Asked, choose: random.Random) -> str:
    """All that comes back through a door, a refusal too."""
    read = {"python": by_python, "cli": by_cli, "hooks": by_hook, "adapters": by_adapter}[door]
    try:
        return read(world, reader, given, choose)
    except VadeError as error:
        return f"{error} {error.hint}"
    except (ToolError, ToolFailed) as error:
        return str(error)


def reads(world: World, count: int, seed: int) -> None:
    choose = random.Random(seed)
    paths = world.paths()
    foreign = {reader: world.foreign(reader) for reader in READERS}
    seen = set()
    for number in range(count):
        door, reader = DOORS[number % len(DOORS)], choose.choice(READERS)
        given = asked(world, choose, paths, reader)
        text = answered(world, door, reader, given, choose)
        leaked = [word for word in foreign[reader] if word in text and word not in given.words]
        assert not leaked, (number, door, reader, given, text)
        if any(word in text for word in world.owners if word not in foreign[reader]):
            seen.add((door, reader.audience))
    # What is one's own is found through every door, so that the absence of the rest means something.
    assert seen == {(door, audience) for door in DOORS for audience in ("private", "group")}


@pytest.mark.scaled
def test_random_reads_through_every_door_find_nothing_of_others(world: World) -> None:
    reads(world, tiers.few(240, 400), seed=20)


@pytest.mark.soak
def test_ten_thousand_random_reads_through_every_door_find_nothing_of_others(world: World) -> None:
    reads(world, 10_000, seed=21)


def test_every_planted_text_is_found_by_those_it_belongs_to(world: World) -> None:
    """Nothing that the random reads look out for is hidden from everybody."""
    texts = [word for word in world.owners if word.endswith("-text")]
    for reader in READERS:
        memory = world.memory(reader)
        found = repr(
            [
                memory.search("shared word", max_results=200, min_score=0, mode="bm25").results,
                memory.sessions.search("shared word", max_results=20),
                memory.knowledge.list(),
                memory.injection.block(budget=10_000).text,
            ]
        )
        missing = [word for word in texts if world.owners[word](reader) and word not in found]
        gone = [word for word in missing if word.replace("-text", "-key") in repr(memory.archive.forgotten())]
        assert missing == gone
        assert len(gone) == (1 if alone(reader) else 0)
