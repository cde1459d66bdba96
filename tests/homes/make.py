"""Make the home in `tests/fixtures/home`: one of every kind of thing, as the code of today writes it.

Made anew only before a release; the home that a release wrote stays as it is:

    PYTHONPATH=tests python -m homes.make tests/fixtures/home

Its bytes differ each time, because ids are random. Machine paths and the names made from them are replaced by
placeholders, which `worlds.py` fills in.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from homes.seen import seen
from vademecum.memory import Memory, connect
from vademecum.store import hook_log
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import Compacted, MessageEvent, Used
from vademecum.types import Origin, RecordType, Scope

FOLDERS = ("site", "api", "moved", "vault")
DERIVED = ("index", "locks", "state.db", "state.db-wal", "state.db-shm")
LEARNED: dict[str, dict[str, Any]] = {
    "discovery": {"fact": "The build cache lives in {scope} folder tmp/cache"},
    "solution": {
        "error": "ImportError: no module named yaml in {scope}",
        "solution": "Install PyYAML first",
    },
    "pattern": {"pattern": "Handlers in {scope} return a Result instead of raising"},
    "workflow": {"sequence": ["read the log", "write a test for {scope}", "mend it"], "success_rate": 0.8},
    "failure": {
        "what": "The {scope} migration ran twice",
        "impact": "rows were doubled",
        "prevention": "take the lock first",
    },
    "rule": {"path": "src/{scope}/", "rule": "Keep {scope} free of global state"},
}
PLAIN = {
    "project": "The {scope} service listens on port 8080.",
    "user": "The user of {scope} wants answers in German.",
    "feedback": "In {scope}, always run the linter before a commit.",
    "reference": "The {scope} handbook is at https://example.org/{scope}.",
}


class Clock:
    """A time that goes on by a minute with every look at it."""

    def __init__(self, begin: str) -> None:
        self.moment = datetime.fromisoformat(begin).replace(tzinfo=UTC)

    def __call__(self) -> datetime:
        self.moment += timedelta(minutes=1)
        return self.moment


class Maker:
    """The world around the home, and its doors."""

    def __init__(self, world: Path) -> None:
        self.world, self.home = world, world / "home"
        self.clock = Clock("2026-03-02T09:00:00")
        for name in FOLDERS:
            (world / name).mkdir()
        for name in ("site", "api"):
            (world / name / ".git").mkdir()
            url = f"https://github.com/acme/{name}.git"
            (world / name / ".git/config").write_text(f'[remote "origin"]\n\turl = {url}\n')

    def door(self, folder: str = "site", **given: Any) -> Memory:
        environ = {"VADE_SWEEP": "off", "VADE_EMBEDDER": "none", **given.pop("environ", {})}
        origin, session = given.pop("origin", Origin.USER), given.pop("session", "s-one")
        actor = "user:ada" if origin is Origin.USER else None
        return connect(
            home=self.home,
            cwd=self.world / folder,
            session=session,
            origin=origin,
            actor=given.pop("actor", actor),
            now=self.clock,
            environ=environ,
            **given,
        )


def make(maker: Maker) -> None:
    records(maker)
    states(maker)
    merges(maker)
    journal_and_pinned(maker)
    sessions(maker)
    repository(maker)
    elsewhere(maker)
    decided(maker)
    tidied(maker)


def records(maker: Maker) -> None:
    """Ten types in five scopes."""
    person = maker.door()
    for scope in Scope:
        for type, text in PLAIN.items():
            person.store(
                text.format(scope=scope), key=f"{type}-in-{scope}", scope=scope, type=type, tags=[type]
            )
        for type, fields in LEARNED.items():
            filled: dict[str, Any] = {
                name: [each.format(scope=scope) for each in value]
                if isinstance(value, list)
                else value.format(scope=scope)
                if isinstance(value, str)
                else value
                for name, value in fields.items()
            }
            person.knowledge.learn(type, scope=scope, **filled)
    assert {each.type for each in person.list(scope="global").records} == {str(each) for each in RecordType}


def states(maker: Maker) -> None:
    """Several entries, superseded, protected, verified, confirmed, applied, from every door."""
    person = maker.door()
    agent = maker.door(origin=Origin.AGENT, actor="process:main")
    tool = maker.door(origin=Origin.TOOL, actor="hook:claude-code")
    for text in ("We deploy on Mondays.", "Deploys are announced in the channel.", "Deploys take an hour."):
        person.store(text, key="deploys")
    person.store("Use unittest for tests.", key="testing", type="feedback")
    person.store("Use pytest for tests.", key="testing", mode="replace")
    person.store("The on-call phone is in the safe.", key="on-call", protected=True, scope="global")
    agent.store("The cache is cleared at night.", key="cache", confidence=0.7, tags=["cache", "decision"])
    tool.store("The tool saw a flaky test.", key="flaky")
    agent.store("An agent believes the queue is Redis.", key="queue")
    person.review.verify("queue")
    tool.store("A tool read that the limit is 50.", key="limit")
    person.review.verify("limit")
    fact: dict[str, Any] = {"fact": "The staging database is rebuilt every night"}
    for session in ("s-two", "s-three"):
        maker.door(origin=Origin.AGENT, actor="process:main", session=session).knowledge.learn(
            "discovery", examples=["ops/staging.sql"], **fact
        )
    solved = agent.knowledge.learn(
        "solution", error="TimeoutError in test_upload", solution="Raise the limit to 30 s"
    )
    for _ in range(3):
        agent.knowledge.applied(solved.key)
    edited = "Edited by a person in an editor."
    _, before = person.care.editable("deploys")
    person.care.edited("deploys", before, before.replace("Deploys take an hour.", edited))
    path = maker.home / person.show("cache").path
    path.write_text(path.read_text() + "\nA line typed by hand below the signature.\n")
    by_hand = path.parent / "Made By Hand.md"
    by_hand.write_text("# Made by hand\n\nA file without any frontmatter is a record too.\n")
    unknown = path.parent / "unknown-keys.md"
    unknown.write_text(
        "---\ntype: musing\nx-own: {deep: [1, 2]}\ntags: one, two\n---\n# unknown-keys\n\nAn unknown type.\n"
    )
    related = path.parent / "related.md"
    related.write_text(
        "---\ntype: reference\nrelated:\n  - {key: deploys, rel: relates_to}\n"
        "  - {key: testing, rel: contradicts}\n---\n# related\n\nSee also [[cache]].\n"
    )


def merges(maker: Maker) -> None:
    """Different facts in similar words, and a rewording of one fact."""
    person = maker.door()
    for text in (
        "Alice owns the billing service.",
        "Alice owns the mailing service.",
        "Run make lint before every commit.",
        "Run make test before every commit.",
        "The report is sent on Fridays.",
        "The report is sent on Friday.",
    ):
        person.store(text, scope="agent")


def journal_and_pinned(maker: Maker) -> None:
    person = maker.door()
    agent = maker.door(origin=Origin.AGENT, actor="process:main")
    for scope in ("project", "agent", "global"):
        person.note(f"A note of a person in the {scope} journal.", scope=scope)
        agent.note(f"A note of an agent in the {scope} journal.", scope=scope)
    maker.clock.moment += timedelta(days=1)
    person.note("A note of the next day.")
    agent.workspace.journal.note("A note under a slug of its own.", scope=Scope.PROJECT, slug="api-design")
    for name, scope, text in (
        ("MEMORY.md", "global", "# About\n\nThe person is called Ada.\n\n## Tools\n\nPrefers uv.\n"),
        ("context.md", "global", "# Everywhere\n\nBritish spelling.\n"),
        ("profile.md", "global", "# Profile\n\nAn engineer.\n"),
        ("context.md", "project", "# Site\n\nThe site is static.\n"),
        ("MEMORY.md", "agent", "# Main\n\nThe agent keeps answers short.\n"),
    ):
        person.care.edited(name, "", text, scope=scope)
    _, before = person.care.editable("MEMORY.md", scope="global")
    agent.care.edited(
        "MEMORY.md", before, before + "\n## Habits\n\nAn agent says: works late.\n", scope="global"
    )


def sessions(maker: Maker) -> None:
    """A session that was pruned, trimmed and ended; one that goes on; one of another agent."""
    pruning = {"VADE_PRUNE_MODE": "always", "VADE_PRUNE_MIN_PRUNABLE_CHARS": "10000"}
    agent = maker.door(origin=Origin.AGENT, actor="process:main", session="s-long", environ=pruning)
    log = agent.sessions.new(
        id="s-long", name="Rewrite the tokenizer", model="gpt-5-mini", cwd=str(maker.world)
    )
    engine = agent.sessions.context(log, window=12_000, model="gpt-5-mini")
    thread = [
        Message(Role.SYSTEM, (Text("You are a careful engineer."),), id="system"),
        Message(Role.USER, (Text("Please rewrite the tokenizer so that it reads a stream."),), id="first"),
    ]
    for at in range(8):
        call, given = f"call-{at}", '{"command": "cat table.txt"}'
        thread += [
            Message(Role.ASSISTANT, (ToolCall(call, "bash", given),), id=f"{call}-a"),
            Message(Role.TOOL, (ToolResult(call, (Text(f"row {at} " + "word " * 1_000),)),), id=f"{call}-r"),
            Message(Role.USER, (Text(f"Please look at case {at} of the tokenizer next."),), id=f"u{at}"),
        ]
        engine.prepare(thread)
    agent.sessions.todo(
        {"operation": "write", "todos": [{"id": 1, "title": "read the stream", "status": "in-progress"}]}
    )
    agent.sessions.trim("s-long")
    agent.sessions.end("s-long")
    other = maker.door(origin=Origin.AGENT, actor="process:main", session="s-open")
    other.sessions.new(id="s-open", name="Still going on", cwd=str(maker.world / "site"))
    opened = other.sessions.context("s-open", window=50_000)
    opened.prepare(thread[:4])
    opened.observe(Used(input=900, output=20, total=920, model="gpt-5-mini"))
    log = other.sessions.open("s-open")
    message_ids = [event.id for event in log.events() if isinstance(event, MessageEvent)]
    log.append(
        Compacted(text="The tokenizer is to read a stream.", covers=tuple(message_ids[1:3]), role="user")
    )
    claude = maker.world / "claude.jsonl"
    lines = [
        {
            "type": kind,
            "uuid": f"00000000-0000-4000-8000-00000000000{at}",
            "parentUuid": None,
            "sessionId": "11111111-2222-4333-8444-555555555555",
            "timestamp": f"2026-03-01T10:0{at}:00.000Z",
            "cwd": str(maker.world / "site"),
            "message": {"role": kind, "content": text},
        }
        for at, (kind, text) in enumerate(
            [("user", "Why does the sitemap lack pages?"), ("assistant", "The crawler stops at redirects.")]
        )
    ]
    claude.write_text("".join(json.dumps(line) + "\n" for line in lines))
    outcomes = [each.outcome for each in maker.door().sessions.import_all(claude)]
    assert outcomes == ["new"], outcomes
    claude.unlink()


def repository(maker: Maker) -> None:
    person = maker.door("api")
    person.projects.init()
    person.store("The API speaks JSON only.", key="wire-format", type="reference")
    person.store("The API speaks JSON and CBOR.", key="wire-format", mode="replace")
    person.store("Endpoints are versioned by header.", key="versions")
    person.store("A private thought about the API.", key="thought", scope="agent")
    person.care.edited("context.md", "", "# API\n\nA service in Rust.\n", scope="project")
    stranger = maker.world / "api/.vade/records/stranger.md"
    stranger.write_text(
        "---\ntype: project\nkey: stranger\n---\n# stranger\n\n## 2026-03-01T08:00:00Z\nBy a colleague.\n"
        "<!-- origin: user -->\n"
    )
    (maker.world / "api/.vade/config.toml").write_text("[inject]\nmax_per_scope = 5\n")
    person.store("A record that is put away again.", key="away")
    person.forget("away")


def elsewhere(maker: Maker) -> None:
    """A folder without a remote that was moved and joined, a source, and an import."""
    moved = maker.door("moved")
    moved.store("The moved folder had this fact.", key="from-the-moved-folder")
    old = moved.caller.project.id if moved.caller.project else ""
    person = maker.door()
    person.projects.alias(old)
    (maker.world / "vault/notes.md").write_text("# Vault\n\nThe vault mentions marmalade.\n")
    person.sources.add(maker.world / "vault", name="vault", inject=True)
    ltm = maker.world / "ltm.json"
    known = [{"fact": "Imported: the gateway caches for 60 s", "confidence": 0.8}]
    ltm.write_text(json.dumps({"metadata": {"version": "1.0"}, "patterns": {"discoveries": known}}))
    person.transfer.import_ltm(ltm)
    ltm.unlink()


def decided(maker: Maker) -> None:
    """What waits for a person, and what a person rejected."""
    agent = maker.door(origin=Origin.AGENT, actor="mcp:claude")
    person = maker.door()
    wanted = {"text": "A write that waits.", "key": "waits", "scope": "federated"}
    agent.requests.propose("store", wanted, scope="federated", door="mcp")
    agent.requests.propose("forget", {"name": "queue", "scope": "project"}, scope="project", door="mcp")
    rejected = agent.requests.propose(
        "note", {"text": "No.", "scope": "project"}, scope="project", door="mcp"
    )
    person.review.reject(rejected.id[:12])
    person.graph.reject("related", "cache")
    wanted = {"text": "Said once, however often it is sent.", "key": "once"}
    agent.requests.once(
        "key-1", "store", wanted, do=lambda _: {"key": agent.requests.perform("store", wanted).key}
    )
    hook_log.write(maker.home, agent="claude-code", event="stop", why="no answer within the time limit")


def tidied(maker: Maker) -> None:
    """Forgotten, cleared, swept and summed up, each as a run or as single versions."""
    person = maker.door()
    person.store("Forgotten on purpose.", key="forgotten")
    person.forget("forgotten")
    person.store("Forgotten and said anew: the old text.", key="anew")
    person.forget("anew")
    person.store("Forgotten and said anew: the new text.", key="anew")
    ended = maker.door(session="s-cleared")
    for number in range(3):
        ended.store(f"Session thought {number}.", key=f"thought-{number}", scope="session")
    ended.archive.clear(scope="session")
    crowded = maker.door(agent="crowded", environ={"VADE_DECAY_MAX_COUNT": "10"})
    topics = ("apples", "bridges", "clocks", "doors", "engines", "forests", "gates", "harbours", "islands")
    for topic in (*topics, "jackets", "kettles", "lamps"):
        crowded.store(f"{topic}\n\n- a list about {topic}\n- of two lines", key=topic, scope="agent")
    capped = crowded.care.sweep(scope="agent", apply=True)
    assert len(capped.results) > 2, capped
    old = maker.clock.moment
    maker.clock.moment = old - timedelta(days=120)
    person.store("Nobody touched this for a season.", key="unused", scope="project")
    maker.clock.moment = old
    swept = person.care.sweep(scope="project", apply=True)
    assert any(each.path.endswith("unused.md") and each.done for each in swept.results), swept


# --- from a world to a fixture ------------------------------------------------------------------------------


def store(world: Path, target: Path) -> None:
    """Copy a world, with placeholders for what depends on where it lies."""
    if target.exists():
        shutil.rmtree(target)
    marks = placeholders(world)
    for folder, inside, found in os.walk(world):
        here = Path(folder)
        inside[:] = [
            name for name in inside if name != ".git" and (here != world / "home" or name not in DERIVED)
        ]
        for name in found:
            if here == world / "home" and name in DERIVED:
                continue
            source = here / name
            parts = [_marked(part, marks) for part in source.relative_to(world).parts]
            text = _marked(source.read_bytes().decode(), marks)
            into = target.joinpath(*parts)
            into.parent.mkdir(parents=True, exist_ok=True)
            into.write_bytes(text.encode())


def placeholders(world: Path) -> dict[str, str]:
    """What stands in a world for where it lies, and what is put instead; the longest first."""
    marks: dict[str, str] = {}
    for name in FOLDERS:
        mark = hashlib.sha256(os.fsencode(world / name)).hexdigest()
        marks |= {mark[:24]: f"@path24-{name}@", mark[:12]: f"@path12-{name}@"}
    return {**marks, str(world): "@world@"}


def _marked(text: str, marks: dict[str, str]) -> str:
    for found, mark in marks.items():
        text = text.replace(found, mark)
    return text


if __name__ == "__main__":
    os.environ["TZ"] = "UTC"
    time.tzset()
    with tempfile.TemporaryDirectory() as made:
        base = Path(os.path.realpath(made)) / "world"
        base.mkdir()
        os.environ["HOME"] = made
        maker = Maker(base)
        make(maker)
        doors = (json.dumps({name: told}, ensure_ascii=False) for name, told in seen(maker.door).items())
        (base / "seen.jsonl").write_text("".join(f"{each}\n" for each in doors))
        store(base, Path(sys.argv[1]))
