"""No secret that stands in memory leaves it: one canary of every kind, held against every way out.

The canaries are made when the tests run. They stand in records written under the policy `warn` and in records
changed by hand, in the journal, in pinned documents, in an attached folder and in a transcript.
"""

from __future__ import annotations

import asyncio
import json
import random
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pexpect
import pytest

import tiers
from cases import every_case
from hooks.calls import World as Hooks
from made_up_secrets import ALNUM, HEX, SEED, UPPER, Sample, draw, halves, is_gone
from made_up_secrets import secrets as samples
from mcp_door.talking import in_process, talk
from vade_command import VADE
from vademecum.adapters.anthropic_memory import MemoryTool
from vademecum.adapters.langgraph_store import RecordStore
from vademecum.adapters.openai_agents import TranscriptSession
from vademecum.adapters.pydantic_ai import memory_toolset
from vademecum.index.embed import remote as embedding
from vademecum.interfaces.chat import conversation, state
from vademecum.interfaces.chat.state import Chat, Flags
from vademecum.interfaces.chat.terminal import PlainScreen
from vademecum.interfaces.cli.app import run
from vademecum.llm.base import Call
from vademecum.llm.providers import require_model
from vademecum.llm.scripted import Scripted
from vademecum.memory import Memory, connect
from vademecum.search.rerank import Rerank
from vademecum.text import names, outgoing, secrets
from vademecum.transcripts import Message, Role, Text, ToolResult, events
from vademecum.transcripts.events import MessageEvent
from vademecum.transcripts.shapes import pydantic_ai as shape
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

NOON = "2026-11-15T12:00:00Z"
SETTINGS = """
[secrets]
policy = "warn"
[inject]
total_tokens = 2000000
scope_chars = 1000000
max_per_scope = 1000
journal_chars = 1000000
memory_chars = 1000000
profile_chars = 1000000
cut_kib = 1024
warn_kib = 1024
[decay]
max_count = 100000
"""


# What the set of the gate's own tests has no sample of: what stands before the random part, and its length.
SHAPES = {
    "aws-bedrock-key": ("ABS" + "K", ALNUM, 120),
    "resend-key": ("re" + "_Ab3Xk9Qz_", ALNUM, 24),
    "elevenlabs-key": ("sk" + "_", HEX, 48),
    "pulumi-token": ("pu" + "l-", HEX, 40),
    "netlify-token": ("nf" + "p_", ALNUM, 40),
    "tailscale-key": ("tsk" + "ey-auth-", ALNUM, 40),
    "artifactory-key": ("AK" + "Cp", ALNUM, 70),
    "figma-token": ("fig" + "d_", ALNUM, 40),
    "sentry-token": ("sntr" + "ys_", ALNUM, 60),
    "gemini-key": ("AQ" + ".Ab", ALNUM, 50),
    "cerebras-key": ("cs" + "k-", ALNUM, 48),
    "jina-key": ("jin" + "a_", ALNUM, 60),
    "azure-sas": ("https://x.blob.core.windows.net/c?sv=1&" + "sig=", ALNUM, 44),
    "age-key": ("AGE-SECRET" + "-KEY-1", UPPER, 58),
    "onepassword-token": ("ops" + "_eyJ", ALNUM, 120),
    "doppler-token": ("dp" + ".pt.", ALNUM, 43),
    "brevo-key": ("xkey" + "sib-", HEX, 64),
    "flyio-token": ("fm" + "2_", ALNUM, 80),
    "planetscale-token": ("pscale" + "_tkn_", ALNUM, 43),
    "teams-webhook": ("https://acme.webhook.office.com/" + "webhookb2/", HEX, 80),
    "square-token": ("sq0" + "atp-", ALNUM, 22),
    "rubygems-key": ("rubyg" + "ems_", HEX, 48),
    "tavily-key": ("tv" + "ly-", ALNUM, 32),
    "newrelic-key": ("NR" + "AK-", UPPER, 27),
    "azure-devops-token": ("", ALNUM, 76),
    "airtable-token": ("pa" + "t", ALNUM, 14),
    **{
        f"{name}-credential": (f"{name.upper()}_API_KEY=", ALNUM, 40)
        for name in ("wandb", "bitbucket", "vercel", "deepgram", "okta")
    },
}


def canaries() -> list[Sample]:
    """One secret of each kind, in a text by which it is known."""
    found: dict[str, Sample] = {}
    for each in samples(random.Random(SEED)):
        if is_gone(each):
            for secret in secrets.find(each.text):
                found.setdefault(secret.kind, Sample(secret.kind, each.carrier, each.text, each.pieces))
    chance = random.Random(SEED)
    for kind, (prefix, letters, size) in SHAPES.items():
        value = draw(chance, letters, size)
        if kind == "airtable-token":
            value = f"{value}.{draw(chance, HEX, 64)}"
        if kind == "azure-devops-token":
            value = f"{value}AZDO{draw(chance, ALNUM, 4)}"
        found[kind] = Sample(kind, "prose", f"It is {prefix}{value} for now.", halves(value))
    return list(found.values())


@dataclass(frozen=True)
class Planted:
    """A home and a project in which every kind of secret stands in every kind of place."""

    home: Path
    project: Path
    canaries: tuple[Sample, ...]
    session: str

    def memory(self, origin: Origin = Origin.AGENT, **more: Any) -> Memory:
        """Its memory, as an agent has it unless said otherwise."""
        return connect(home=self.home, cwd=self.project, origin=origin, actor="test", **more)

    def leaked(self, text: str) -> list[str]:
        """The kinds of which at least half a secret is in a text."""
        plain = text.replace("\u200b", "").replace("\u2060", "").replace("\\n", "\n").replace("\\/", "/")
        return sorted({each.kind for each in self.canaries for piece in each.pieces if piece in plain})

    def named(self) -> list[str]:
        """The key of each canary's record."""
        return [f"marker{number}" for number in range(len(self.canaries))]

    @property
    def filled(self) -> str:
        """All canaries in one text."""
        return "\n\n".join(f"marker{n}: {each.text}" for n, each in enumerate(self.canaries))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Planted:
    top = tmp_path_factory.mktemp("planted")
    home, project, notes = top / "project-home", top / "project", top / "notes"
    for folder in (home, project, notes):
        folder.mkdir()
    (home / "config.toml").write_text(SETTINGS)
    every = canaries()
    chosen = [each for number, each in enumerate(every) if number % 10 == 0 or each.kind == "github-token"]
    world = Planted(home, project, tuple(tiers.few(chosen, every)), "planted-session")
    memory = world.memory(Origin.USER)
    for number, each in enumerate(world.canaries):
        if number % 2:  # under the policy `warn`
            memory.store(f"marker{number} stands here.\n\n{each.text}", key=f"marker{number}")
        else:  # by hand
            path = home / memory.store(f"marker{number} stands here.", key=f"marker{number}").path
            path.write_text(f"{path.read_text()}\n{each.text}\n")
    day = home / memory.note("marker of the day").path
    day.write_text(f"{day.read_text()}\n{world.filled}\n")
    scope_folder = home / "memory" / "global"
    scope_folder.mkdir(parents=True, exist_ok=True)
    for name in ("MEMORY.md", "profile.md", "context.md"):
        (scope_folder / name).write_text(f"# Marker of {name}\n\n{world.filled}\n")
    (notes / "attached.md").write_text(f"# Marker of the source\n\n{world.filled}\n")
    memory.sources.add(str(notes), name="notes", inject=True)
    log = memory.sessions.new(id=world.session, name="markers")
    path = home / log.path
    with path.open("a") as file:
        for number, each in enumerate(world.canaries):
            text = f"marker{number} said\n{each.text}"
            said = MessageEvent(Message(Role.USER, (Text(text),)), seq=number + 1, id=f"m{number}", time=NOON)
            file.write(events.render(said).decode() + "\n")
    memory.close()
    return world


@pytest.mark.full
def test_the_canaries_are_of_every_kind_and_stand_where_they_were_planted(planted: Planted) -> None:
    assert {each.kind for each in planted.canaries} == {kind for kind, _ in secrets.KINDS}
    everywhere = {each.kind for each in planted.canaries}
    memory = planted.memory()
    raw = [entry.text for record in memory.list(reveal=True).records for entry in record.entries]
    said = [
        each.message.text
        for each in memory.sessions.open(planted.session).events()
        if isinstance(each, MessageEvent)
    ]
    assert set(planted.leaked("\n".join(raw))) == everywhere
    assert set(planted.leaked("\n".join(said))) == everywhere


# ---------------------------------------------------------------- what an agent is told


def clean(planted: Planted, text: str, *, marks: int | None = None) -> str:
    """A text in which no canary is, and so many of their marks at least."""
    assert planted.leaked(text) == []
    for number in range(len(planted.canaries) if marks is None else marks):
        assert f"marker{number}" in text
    return text


@pytest.mark.scaled
def test_the_block_tells_every_record_document_note_and_source_without_a_secret(planted: Planted) -> None:
    for origin in (Origin.USER, Origin.AGENT, Origin.TOOL):
        block = planted.memory(origin).injection.block()
        text = clean(planted, block.text)
        for mark in ("Marker of MEMORY", "Marker of profile", "Marker of the source", "marker of the day"):
            assert mark in text
        assert any("vade check" in warning and "github-token" in warning for warning in block.warnings)
        assert clean(
            planted, "\n".join(line for each in block.sections for item in each.items for line in item.lines)
        )


@pytest.mark.scaled
def test_what_a_prompt_brings_back_holds_no_secret(planted: Planted) -> None:
    memory = planted.memory()
    for key in planted.named():
        block = memory.injection.remind(f"what do we know of {key}?", budget=100_000)
        assert planted.leaked(block.text) == []
        assert key in block.text


@pytest.mark.scaled
def test_a_block_that_is_cut_anywhere_shows_no_half_of_a_secret(planted: Planted) -> None:
    for size in range(60, 700, 40):
        memory = planted.memory()
        inject = memory.settings.inject.replace(
            scope_chars=size, memory_chars=size, profile_chars=size, cut_kib=1
        )
        settings = memory.settings.replace(inject=inject)
        memory.workspace.loaded = memory.workspace.loaded._replace(settings=settings)
        assert planted.leaked(memory.injection.block().text) == []


@pytest.mark.scaled
@pytest.mark.parametrize("agent", ["claude-code", "codex", "cursor", "gemini", "kiro"])
def test_no_secret_is_written_into_the_file_that_an_agent_reads(planted: Planted, agent: str) -> None:
    kept = planted.memory(Origin.USER).injection.write_file(agent, audience="private")
    clean(planted, kept.path.read_text())
    assert any("github-token" in warning for warning in kept.warnings)


@pytest.mark.scaled
def test_hooks_answer_without_a_secret(planted: Planted) -> None:
    world = Hooks(planted.home.parent, planted.project, planted.home)
    begun = world.call("claude-code", "session-start", {"session_id": "s1"})
    clean(planted, begun.context)
    for key in planted.named()[:5]:
        asked = world.call("claude-code", "user-prompt", {"session_id": "s2", "prompt": f"what of {key}?"})
        assert planted.leaked(asked.out.decode()) == []


# ---------------------------------------------------------------- tools of agents


@pytest.mark.scaled
def test_every_tool_resource_and_prompt_over_mcp_answers_without_a_secret(planted: Planted) -> None:
    async def conversation() -> None:
        async with in_process(planted.project, tools="all") as client:
            said: list[str] = []

            async def call(name: str, **given: Any) -> None:
                said.append((await client.call_tool(name, given)).model_dump_json())

            for key in planted.named():
                await call("memory_recall", query=key, include_related=True)
                await call("memory_search", query=key)
                await call("memory_get", path=key)
                for line in range(10, 30, 3):
                    await call("memory_get", key=key, place=line, lines=1)
                await call("memory_operations", operation="retrieve", key=key)
                await call("session_search", query=key)
            await call("memory_recall", limit=100)
            await call("recall_memory", query="marker", max_results=100)
            await call("list_memories")
            await call("memory_operations", operation="list")
            await call("memory_operations", operation="search", query="marker stands")
            await call("memory_operations", operation="recall_sessions", query="marker0 said")
            await call("memory_operations", operation="ltm_stats")
            await call("session_get", session=planted.session, place=1, lines=200)
            for number in range(0, len(planted.canaries), 7):
                await call("session_get", session=planted.session, place=f"m{number}")
            for each in planted.canaries:
                await call("memory_get", path=f"memory/{each.text}")
                await call("memory_recall", query=each.text)
                await call(
                    "memory_store", content=f"seen {each.text}", key=f"stored-{each.kind}", scope="session"
                )
            for found in (await client.list_resources()).resources:
                said.append(found.model_dump_json())
                said.append((await client.read_resource(found.uri)).model_dump_json())
            for name, argument in (("recall", "topic"), ("remember", "what"), ("handoff", "focus")):
                for asked in ("marker", *(each.text for each in planted.canaries[::9])):
                    said.append((await client.get_prompt(name, {argument: asked})).model_dump_json())
            for text in said:
                assert planted.leaked(json.dumps(json.loads(text), ensure_ascii=False)) == [], text[:3000]
            clean(planted, "\n".join(said))

    talk(conversation)


@pytest.mark.scaled
def test_adapters_answer_without_a_secret(planted: Planted) -> None:
    memory = planted.memory()
    tools: dict[str, Any] = dict(memory_toolset(memory).tools)
    said = [
        str(tools["memory_search"].function(query="marker", maxResults=100)),
        str(tools["memory_search"].function(query="marker0 said", sources=["transcript"])),
    ]
    for key in planted.named():
        said.append(str(tools["memory_get"].function(path=key)))
        said.append(str(tools["memory_search"].function(query=key)))
    files = MemoryTool(memory)
    listed = files.call({"command": "view", "path": "/memories"})
    for line in listed.splitlines()[1:]:
        path = line.partition("\t")[2]
        if path.endswith(".md"):
            said.append(files.call({"command": "view", "path": path}))
            said += [files.call({"command": "view", "path": path, "view_range": [at, at]}) for at in (1, 3)]
    found = MemoryTool(memory, scope="global")
    said += [
        found.call({"command": "view", "path": f"/memories/pinned/{name}"})
        for name in ("MEMORY.md", "context.md")
    ]
    clean(planted, "\n".join(said))
    items = asyncio.run(TranscriptSession(memory, planted.session).get_items())
    clean(planted, json.dumps(items, ensure_ascii=False))
    clean(planted, "\n".join(each.text for each in memory.sessions.messages(planted.session)))


@pytest.mark.scaled
def test_an_item_of_another_framework_comes_back_without_a_secret(planted: Planted) -> None:
    store = RecordStore(planted.memory(), scope="agent")
    for number, each in enumerate(planted.canaries):
        store.put(("notes",), f"marker{number}", {"text": f"marker{number}", "value": each.text})
    got = [store.get(("notes",), key) for key in planted.named()]
    clean(planted, "\n".join(str(each.value) for each in got if each is not None))
    clean(planted, "\n".join(str(each.value) for each in store.search(("notes",), limit=1000)))


# ---------------------------------------------------------------- models


@dataclass(frozen=True)
class Words:
    """What a model is asked for."""

    words: str


@pytest.fixture
def screen(capsys: pytest.CaptureFixture[str]) -> PlainScreen:
    return PlainScreen(lambda question: "y")


@pytest.mark.scaled
def test_a_chat_sends_no_secret_to_its_model(
    planted: Planted, screen: PlainScreen, capsys: pytest.CaptureFixture[str]
) -> None:
    (planted.project / ".env").write_text(planted.filled)
    calls: list[Any] = [
        Call(f"c{number}", name, json.dumps(given))
        for number, (name, given) in enumerate(
            [
                ("memory_search", {"query": "marker", "maxResults": 100}),
                *(("memory_get", {"path": key}) for key in planted.named()),
                ("memory_search", {"query": "marker0 said", "sources": ["transcript"]}),
                ("session_get", {"session": planted.session, "place": 2, "lines": 200}),
                ("read_file", {"path": ".env"}),
                *(("read_file", {"path": ".env", "start": line, "lines": 1}) for line in range(1, 60)),
                ("run_command", {"command": "cat .env"}),
                ("grep", {"pattern": "marker", "path": ".env"}),
            ]
        )
    ]
    model = Scripted(tuple(calls), "done", "done")
    doors = state.open_callers(home=str(planted.home), cwd=str(planted.project), actor="human:ada")
    flags = Flags(allow=("read_file", "run_command", "grep"), window=10_000_000)
    chat = Chat(doors, screen, model=model, flags=flags, session=planted.session)
    try:
        assert conversation.run_turn(chat, f"Look at this:\n{planted.filled}").ok
        assert conversation.run_turn(chat, "And now?").ok
    finally:
        chat.close()
    assert "redacted before it is sent" in capsys.readouterr().out
    for asked in model.asked:
        clean(planted, json.dumps(asked.prompt, ensure_ascii=False) + asked.system)
    assert len(model.asked) == 3


@pytest.mark.scaled
def test_no_model_that_memory_asks_is_sent_a_secret(planted: Planted) -> None:
    script = Scripted(*["nothing to say"] * 3, {"words": "none"})
    model = require_model(script, None, None)
    said = Message(Role.USER, (Text(planted.filled), ToolResult("c", (Text(planted.filled),), name="t")))
    model.text(planted.filled, system=planted.filled)
    model.text(shape.write([said]))
    with model.stream(planted.filled, system=planted.filled) as stream:
        assert stream.answer.text == "nothing to say"
    model.typed(planted.filled, Words, system=planted.filled)
    assert len(script.asked) == 4
    for asked in script.asked:
        clean(planted, json.dumps(asked.prompt, ensure_ascii=False) + asked.system)


@pytest.mark.scaled
def test_no_pass_that_asks_a_model_sends_it_a_secret(planted: Planted) -> None:
    memory = planted.memory(Origin.USER)
    for number, each in enumerate(planted.canaries):
        memory.store(f"marker{number} about deployments: {each.text}", key="large-topic", scope="agent")
    model = Scripted(*["nothing to say"] * 500)
    memory.care.compact("large-topic", scope="agent", model=model)
    memory.care.compact(model=model)
    assert planted.leaked(json.dumps([(each.prompt, each.system) for each in model.asked])) == []


@pytest.mark.scaled
def test_no_secret_goes_to_a_server_that_makes_vectors(
    planted: Planted, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent: list[str] = []

    def ask(self: Any, texts: list[str], query: bool, limit: float) -> Any:
        sent.extend(texts)
        import numpy

        return numpy.ones((len(texts), 4), dtype=numpy.float32)

    monkeypatch.setattr(embedding.RemoteEmbedder, "_ask", ask)
    made = embedding.make_remote(
        "ollama", model="m", endpoint="http://127.0.0.1:1", key_env=None, batch=8, timeout=1.0
    )
    list(made.parts([each.text for each in planted.canaries]))
    list(made.parts([planted.filled], query=True))
    assert len(sent) == len(planted.canaries) + 1
    assert planted.leaked("\n".join(sent)) == []


@pytest.mark.scaled
def test_no_secret_goes_to_what_reranks(planted: Planted) -> None:
    sent: list[str] = []

    def score(question: str, texts: Sequence[str]) -> list[float]:
        sent.extend((question, *texts))
        return [0.0] * len(texts)

    texts = [each.text for each in planted.canaries]
    assert Rerank("test", score)(planted.filled, texts) == [0.0] * len(texts)
    assert len(sent) == len(texts) + 1
    assert planted.leaked("\n".join(sent)) == []


# ---------------------------------------------------------------- the command line, and files


def printed(capsys: pytest.CaptureFixture[str], *words: str) -> str:
    run(list(words))
    captured = capsys.readouterr()
    return captured.out + captured.err


@pytest.fixture
def here(planted: Planted, monkeypatch: pytest.MonkeyPatch) -> Planted:
    monkeypatch.chdir(planted.project)
    monkeypatch.setenv("VADE_HOME", str(planted.home))
    return planted


@pytest.mark.scaled
def test_no_command_prints_a_secret_into_a_pipe(here: Planted, capsys: pytest.CaptureFixture[str]) -> None:
    commands = [
        ("list",),
        ("search", "--records"),
        ("search", "--records", "--max-results", "100"),
        ("search", "marker", "--max-results", "1000"),
        ("inject",),
        ("inject", "--query", "marker"),
        ("sessions", "show", here.session),
        ("sessions", "get", here.session, "1", "--lines", "500"),
        ("sessions", "search", "marker0 said"),
        ("sessions", "search", "marker said", "--ranking", "keywords"),
        ("sessions", "list"),
        ("show", f"transcripts/{here.memory().caller.project.id}/{here.session}.jsonl", "--lines", "1-"),  # type: ignore[union-attr]
        ("show", "MEMORY.md"),
        ("today", "--journal"),
        ("graph",),
        ("status",),
        ("check",),
        ("tidy", "--only", "sweep"),
        ("tidy", "--only", "promote"),
        ("tidy", "--only", "heal"),
        ("review", "verify", "--list"),
        ("list", "--forgotten"),
        ("context", "inspect", here.session, "--window", "100000"),
    ]
    commands += [("show", key) for key in here.named()]
    commands += [("show", key, "--lines", "1-") for key in here.named()]
    commands += [("show", key, "--lines", "14+2") for key in here.named()]
    told = []
    for words in commands:
        for more in ((), ("--json",)):
            text = printed(capsys, *words, *more)
            assert here.leaked(text) == [], words
            told.append(text)
    clean(here, "\n".join(told))


@pytest.mark.scaled
@pytest.mark.parametrize("ending", [".html", ".md", ".jsonl"])
def test_a_session_is_exported_without_a_secret(here: Planted, tmp_path: Path, ending: str) -> None:
    made = here.memory(Origin.USER).sessions.export(here.session, tmp_path / f"session{ending}")
    clean(here, made.read_text().replace("&quot;", '"').replace("&#x27;", "'").replace("&amp;", "&"))


@pytest.mark.scaled
def test_memory_is_exported_without_a_secret_or_not_at_all(
    here: Planted, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number, words in enumerate((("okf",), ("html",), ("ltm",))):
        target = tmp_path / f"out{number}{'.html' if words == ('html',) else ''}"
        assert here.leaked(printed(capsys, "export", *words, str(target))) == []
        assert not target.exists() or here.leaked(everything(target)) == []
        assert here.leaked(printed(capsys, "export", *words, str(target), "--redact", "--force")) == []
        assert target.exists()
        assert here.leaked(everything(target)) == []


def everything(path: Path) -> str:
    """All that stands in a file, or in a folder with its names."""
    if path.is_file():
        return path.read_text().replace("&quot;", '"').replace("&#x27;", "'").replace("&amp;", "&")
    return "\n".join(f"{each}\n{each.read_text()}" for each in path.rglob("*") if each.is_file())


OUR_IDS = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}")


def indexed(here: Planted) -> str:
    memory = here.memory()
    memory.care.index(rebuild=True)
    memory.close()
    paths = [path for path in (here.home / "index").iterdir() if "~" not in path.name]
    content = b"".join(path.read_bytes() for path in paths).decode("latin-1")
    return OUR_IDS.sub("", content)  # six of their hexadecimal digits happen to be half a short secret


@pytest.mark.scaled
def test_the_index_holds_no_secret(here: Planted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADE_EMBEDDER", "static")
    content = indexed(here)
    assert "marker0" in content
    assert here.leaked(content) == []


@pytest.mark.scaled
def test_an_index_of_what_was_read_holds_no_secret(planted: Planted, tmp_path: Path) -> None:
    """Of a few: to read all of them takes a minute."""
    world = Planted(tmp_path / "home", tmp_path / "project", planted.canaries[:8], planted.session)
    for folder in (world.home, world.project):
        folder.mkdir()
    (world.home / "config.toml").write_text(SETTINGS)
    memory = world.memory(Origin.USER)
    for number, each in enumerate(world.canaries):
        memory.store(f"marker{number} stands here.\n\n{each.text}", key=f"marker{number}")
    memory.close()
    content = indexed(world)
    memory = world.memory()
    assert memory.search("what stands here").coverage.unread == 0
    memory.close()
    assert "marker0" in content
    assert world.leaked(content) == []


@pytest.mark.scaled
def test_listings_beside_the_records_hold_no_secret(here: Planted) -> None:
    for path in here.memory(Origin.USER).care.write_listing():
        assert here.leaked((here.home / path).read_text()) == []


# ---------------------------------------------------------------- a person at a terminal


@pytest.mark.scaled
def test_a_person_sees_it_at_a_terminal_marked_and_is_told(here: Planted) -> None:
    number = next(n for n, each in enumerate(here.canaries) if each.kind == "github-token")
    child = pexpect.spawn(
        VADE, ["show", f"marker{number}"], encoding="utf-8", dimensions=(60, 400), timeout=60
    )
    child.expect(pexpect.EOF)
    text = child.before or ""
    assert "github-token" in here.leaked(text)
    assert "⟨secret: github-token⟩" in text
    assert f"vade edit marker{number}" in text


@pytest.mark.scaled
def test_an_editor_is_not_handed_a_secret_where_nobody_sits(
    here: Planted, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDITOR", "cat")
    text = printed(capsys, "edit", "marker0")
    assert "edit it in a terminal" in text
    assert here.leaked(text) == []


# ---------------------------------------------------------------- names


@pytest.mark.scaled
def test_no_secret_becomes_the_name_of_a_file(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "config.toml").write_text('[secrets]\npolicy = "warn"\n')
    memory = connect(home=tmp_path / "home", cwd=tmp_path, origin=Origin.USER, actor="test")
    given = [
        "api_key = abcdefabcdefabcdefabcdef",
        "AKI" + "AIOSFODNN7EXAMPLE is the sample key",
        "gh" + "p_abcdefghijklmnopqrstuvwxyz0123456789",
        "The deploy token is " + "gh" + "p_" + "aB3x" * 9,
        *(f"Use {each.text}" for each in [*canaries()][:: tiers.few(4, 1)]),
    ]
    for text in given:
        memory.store(text, scope="global")
    stems = [path.stem for path in (tmp_path / "home" / "memory").rglob("*.md")]
    for stem in stems:
        assert not any(
            run.isalnum() and len(run) >= 16 and any(map(str.isdigit, run)) for run in stem.split("-")
        )
        assert "abcdefabcdef" not in stem
    said = [
        piece.lower() for each in canaries() for piece in each.pieces if piece.isalnum() and len(piece) > 8
    ]
    assert [piece for piece in said if any(piece in stem for stem in stems)] == []


@every_case(
    ("text", "key"),
    [
        ("Run make lint before every commit", "run-make-lint-before-every-commit"),
        ("api_key = abcdefabcdefabcdefabcdef", "api-key"),
        ("The port of staging is 5433", "the-port-of-staging-is-5433"),
        ("Internationalization lives in src/i18n", "internationalization-lives-in-src-i18n"),
        ("Release v2.11.0 on 2026-11-15", "release-v2-11-0-on-2026"),
    ],
)
def test_a_key_is_made_of_the_first_words_that_say_something(text: str, key: str) -> None:
    assert names.key_from(text) == key


def test_a_text_of_nothing_but_a_secret_is_named_by_chance() -> None:
    assert names.key_from("gh" + "p_" + "aB3x" * 9).startswith("memory-")


# ---------------------------------------------------------------- the gate itself


def test_a_cleaned_text_has_as_many_lines_as_before() -> None:
    for each in canaries():
        text = f"first\n{each.text}\nlast"
        assert outgoing.clean_lines(text).count("\n") == text.count("\n")
        assert outgoing.clean_lines(text).endswith("last")


def test_what_was_replaced_is_noticed_by_whoever_watches() -> None:
    with outgoing.noticing() as outer:
        with outgoing.noticing() as inner:
            outgoing.clean_text("it is gh" + "p_" + "aB3x" * 9)
        outgoing.clean_value({"password": "hunter2Wq9!"})
    assert inner == {"github-token"}
    assert outer == {"github-token", "password"}
