"""What was said and not saved: whether each agent's model gets it after a compaction, and at a turn's end."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NamedTuple

import pytest

from real_agents import programs, with_codex, with_copilot, with_gemini, with_opencode, with_qwen_code
from real_agents import with_claude_code as with_claude
from real_agents.model_server import Call, ModelServer, Script
from real_agents.world import World

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


RULE = "We never push to main, so open a branch."
FIRST = f"Hello there. {RULE}"
NEXT = "Which branch are we on?"
LISTED, ASKED = "before the conversation was compacted", "Before this turn ends"
SAVED = Call("memory_store", {"content": "Never push to main; open a branch", "key": "branches"})
# What a history is compacted for; the same words again and again would be taken for a loop.
FILLER = " ".join(f"Berth {number} takes ships of {number * 7 % 301} feet." for number in range(450))
MORE = "Tell me more of the harbour"
SCRIPT: Script = {
    FIRST: [f"{FILLER} I will."],
    MORE: [f"{FILLER} There is more to say."],
    NEXT: ["On a branch of its own."],
    ASKED: [SAVED, "It is saved."],
}


# Qwen Code does not wait for the hook after a compaction: what it answers is in a later request of the turn.
BUSY: Script = {
    **SCRIPT,
    NEXT: [*(Call("memory_search", {"query": f"branch {number}"}) for number in range(6)), "On a branch."],
}


class Moves(NamedTuple):
    """How an agent is given a prompt, and how its conversation is compacted."""

    name: str  # for `vade install`
    environ: Callable[[ModelServer], dict[str, str]]
    say: Callable[[World, str, bool], Sequence[str]]  # the words for a prompt; whether it goes on
    compact: Callable[[World], object] | None = None
    prepare: Callable[[World, ModelServer], object] = lambda *_: None
    server_prefix: str = "mcp__vade__"


def _claude(world: World, prompt: str, again: bool) -> list[str]:
    words = [str(programs.program("claude")), "-p", prompt, "--output-format", "json"]
    return [*words, "--allowedTools", "mcp__vade", *(["--continue"] if again else [])]


def _codex(world: World, prompt: str, again: bool) -> list[str]:
    words = [str(programs.program("codex")), "exec", "--dangerously-bypass-hook-trust", "--json"]
    limit = (world.top / "tight").exists()
    tight = ["-c", "model_auto_compact_token_limit=9000"] if limit else []
    return [*words, *tight, *(["resume", "--last"] if again else []), prompt]


def _gemini(world: World, prompt: str, again: bool) -> list[str]:
    words = [str(programs.program("gemini")), "-m", "gemini-2.5-flash", "--yolo", "-p", prompt]
    return [*words, *(["--resume", "latest"] if again else [])]


def _qwen(world: World, prompt: str, again: bool) -> list[str]:
    return [str(programs.program("qwen")), "--yolo", *(["--continue"] if again else []), "-p", prompt]


def _copilot(world: World, prompt: str, again: bool) -> list[str]:
    words = [str(programs.program("copilot")), "-p", prompt, "--allow-tool=vade"]
    return [*words, *(["--continue"] if again else [])]


def _opencode(world: World, prompt: str, again: bool) -> list[str]:
    return [str(programs.program("opencode")), "run", *(["--continue"] if again else []), prompt]


def _tighten(world: World, name: str, **settings: object) -> None:
    """Change settings, so that the agent compacts its history by itself."""
    path = world.person / name
    path.write_text(json.dumps({**json.loads(path.read_text("utf-8")), **settings}), "utf-8")


AGENTS = {
    "claude": Moves(
        "claude-code",
        with_claude._environ,
        _claude,
        lambda world: world.run(_claude(world, "/compact", again=True)),
    ),
    "codex": Moves(
        "codex",
        lambda server: {"OPENAI_API_KEY": "scripted"},
        _codex,
        lambda world: (world.top / "tight").touch(),
        lambda world, server: world.write(".codex/config.toml", with_codex.CONFIG.format(url=server.url)),
    ),
    "gemini": Moves(
        "gemini",
        with_gemini._environ,
        _gemini,
        lambda world: _tighten(world, ".gemini/settings.json", model={"compressionThreshold": 0.011}),
        lambda world, server: world.write(".gemini/settings.json", with_gemini.SETTINGS),
    ),
    "qwen": Moves(
        "qwen-code",
        with_qwen_code._environ,
        _qwen,
        lambda world: _tighten(world, ".qwen/settings.json", context={"autoCompactThreshold": 0.1}),
        lambda world, server: world.write(
            ".qwen/settings.json", {"security": {"auth": {"selectedType": "openai"}}}
        ),
    ),
    "copilot": Moves(
        "copilot",
        with_copilot._environ,
        _copilot,
        lambda world: world.run(_copilot(world, "/compact", again=True)),
    ),
    "opencode": Moves(
        "opencode",
        lambda server: {"OPENCODE_DISABLE_AUTOUPDATE": "1"},
        _opencode,
        lambda world: with_opencode._compact(str(programs.program("opencode")), world),
        lambda world, server: world.write(".config/opencode/opencode.json", with_opencode._config(server)),
    ),
}


def _prepared(moves: Moves, top: Path, server: ModelServer) -> World:
    world = World(top, server, moves.environ(server))
    world.memory().store("Deploys run at ten", key="deploys")
    moves.prepare(world, server)
    world.vademecum("install", moves.name)
    world.seat_person()
    return world


@pytest.mark.parametrize("name", AGENTS)
def test_what_was_not_saved_is_listed_once_after_a_compaction(name: str, tmp_path: Path) -> None:
    moves = AGENTS[name]
    assert moves.compact is not None
    with ModelServer(BUSY if name == "qwen" else SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = _prepared(moves, tmp_path, server)
        for number, prompt in enumerate((FIRST, MORE, NEXT, NEXT, NEXT)):
            if prompt == NEXT and number == 2:
                world.settled("more to say")
                moves.compact(world)
            done = world.run(moves.say(world, prompt, bool(number)))
            assert done.code == 0, done.err
        listed = [each for each in world.hooks() if LISTED in each.out]
        assert [RULE.rstrip(".") in each.out for each in listed] == [True], world.hooks()
        assert [each for each in server.conversation if LISTED in each.text], "its model did not get it"
        assert all("compact" not in each.event or not each.out for each in world.hooks())


@pytest.mark.parametrize("name", [each for each in AGENTS if each != "opencode"])
def test_an_agent_is_asked_once_at_the_end_of_a_turn(name: str, tmp_path: Path) -> None:
    moves = AGENTS[name]
    with ModelServer(SCRIPT, log=tmp_path / "requests.jsonl") as server:
        world = _prepared(moves, tmp_path, server)
        (world.home / "config.toml").write_text('[capture]\nask = "end"\n', "utf-8")
        for number, prompt in enumerate((FIRST, NEXT)):
            done = world.run(moves.say(world, prompt, bool(number)))
            assert done.code == 0, done.err
        asked = [each for each in world.hooks("stop") if ASKED in each.out]
        assert len(asked) == 1, [each.out for each in world.hooks("stop")]
        assert [each for each in server.conversation if each.prompted == ASKED], "its model was not asked"
        assert [each for each in world.memory().list() if each.key == "branches"]
