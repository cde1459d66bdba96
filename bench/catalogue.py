"""What everyday commands cost in homes of different sizes, in CPU seconds and as ratios to the smallest.

The homes are written as files, as `vade` writes them, and indexed once. Each command runs in a process of its
own; what a hook does is run in one too, without the door that only waits. How many of the session-start hooks
answer in time is counted with the door, as an agent calls it.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import notes
from vademecum.memory import connect
from vademecum.text import names
from vademecum.types import Origin, Place, Scope

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Mapping

    Rows = list[dict[str, object]]

SIZES = (100, 10_000, 50_000)
ROUNDS = 5
HOOKS = 20
_TYPES = ("project", "project", "project", "feedback", "user", "reference", "solution", "discovery", "rule")
_ORIGINS = ("user", "user", "agent", "agent", "agent", "agent", "agent", "agent", "agent", "import")
_HOOK = """import sys
from vademecum.interfaces.hooks.deadline import Channel, Job
from vademecum.interfaces.hooks.work import run
run(Job("claude-code", sys.argv[1], sys.stdin.buffer.read()), Channel())
"""


class Home(NamedTuple):
    """One home: its folders, and what is asked of it."""

    records: int
    folder: Path
    keys: tuple[str, ...]

    @property
    def environment(self) -> Mapping[str, str]:
        # Bytecode must be cached, as it is for anyone who has installed the package.
        environment_variables = {
            key: value for key, value in os.environ.items() if key != "PYTHONDONTWRITEBYTECODE"
        }
        return environment_variables | {"HOME": str(self.folder), "VADE_HOME": str(self.folder / "home")}


class Command(NamedTuple):
    """How a command is called in a round, and what it is given."""

    words: Callable[[Home, int], list[str]]
    given: Callable[[Home, int], bytes] = lambda home, round_: b""


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument(
        "--sizes", type=int, nargs="+", default=SIZES, help="numbers of records (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, default=ROUNDS, help="of each command (default: %(default)s)")
    parser.add_argument("--hooks", type=int, default=HOOKS, help="session starts (default: %(default)s)")
    parser.add_argument("--only", nargs="+", default=(), help="these commands alone")
    parser.add_argument("--folder", type=Path, help="where the homes are made, and found again")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Make the homes, run every command in each in turn, and compare."""
    folder = chosen.folder or Path(tempfile.mkdtemp(prefix="vade-catalogue-"))
    try:
        homes = [made(folder.resolve() / str(size), size) for size in sorted(chosen.sizes)]
        commands = {
            name: each for name, each in _commands().items() if not chosen.only or name in chosen.only
        }
        spent: dict[tuple[str, int], list[float]] = {}
        for round_ in range(chosen.rounds + 2):  # in turn, so that a noisy moment hits all; two to warm up
            for name, command in commands.items():
                for home in homes:
                    seconds = _run(command, home, round_)
                    if round_ >= 2:
                        spent.setdefault((name, home.records), []).append(seconds)
        answered = [_answered(home, chosen.hooks) for home in homes] if chosen.hooks else []
    finally:
        if chosen.folder is None:
            shutil.rmtree(folder)
    title = f"CPU seconds by number of records, median of {chosen.rounds}, load {os.getloadavg()[0]:.1f}"
    found = {title: [_row(name, homes, spent) for name in commands]}
    return found | ({"session-start, as an agent calls it": answered} if answered else {})


def _row(name: str, homes: list[Home], spent: Mapping[tuple[str, int], list[float]]) -> dict[str, object]:
    middle = {home.records: statistics.median(spent[name, home.records]) for home in homes}
    first = homes[0].records
    row: dict[str, object] = {"command": name}
    row |= {f"{size:,}": f"{seconds:.3f}" for size, seconds in middle.items()}
    return row | {f"{size:,} ×": f"{middle[size] / middle[first]:.2f}" for size in middle if size != first}


def _commands() -> dict[str, Command]:
    vade = str(Path(sys.executable).with_name("vade"))

    def call(*words: str) -> Command:
        return Command(lambda home, round_: [vade, *words])

    def hook(event: str) -> Command:
        return Command(
            lambda home, round_: [sys.executable, "-c", _HOOK, event],
            lambda home, round_: json.dumps(
                {
                    "cwd": str(home.folder),
                    "session_id": f"s{round_}",
                    "prompt": "What about the payload parser?",
                }
            ).encode(),
        )

    def named(verb: str, *more: str) -> Command:
        return Command(lambda home, round_: [vade, verb, home.keys[round_ % len(home.keys)], *more])

    def stored(home: Home, round_: int) -> list[str]:
        return [
            vade,
            "add",
            f"Bench of {home.records}, {time.time_ns()}: number {round_} of the {round_} is kept.",
        ]

    return {
        "--version": call("--version"),
        "show KEY": named("show"),
        "store TEXT": Command(stored),
        "store TEXT --key": Command(
            lambda home, round_: [*stored(home, round_), "--key", f"b{time.time_ns()}"]
        ),
        "inject": call("inject"),
        "list --limit 20": call("list", "--limit", "20"),
        "status": call("status"),
        "hook session-start": hook("session-start"),
        "hook user-prompt": hook("user-prompt"),
        "search": call("search", "payload parser", "--mode", "bm25"),
        "forget": named("forget", "--yes"),
        "restore": named("restore"),
    }


def _run(command: Command, home: Home, round_: int) -> float:
    """The CPU seconds of one process and what it waited for."""
    begun = os.times()
    subprocess.run(
        command.words(home, round_),
        input=command.given(home, round_),
        env=home.environment,
        cwd=home.folder,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        check=True,
    )
    ended = os.times()
    return ended.children_user + ended.children_system - begun.children_user - begun.children_system


def _answered(home: Home, rounds: int) -> dict[str, object]:
    vade = str(Path(sys.executable).with_name("vade"))
    times, answers = [], 0
    for round_ in range(rounds):
        given = json.dumps(
            {"cwd": str(home.folder), "session_id": f"h{round_}", "source": "startup"}
        ).encode()
        begun = time.perf_counter()
        done = subprocess.run(
            [vade, "hook", "claude-code", "session-start"],
            input=given,
            env=home.environment,
            cwd=home.folder,
            stdout=subprocess.PIPE,
            check=True,
        )
        times.append(time.perf_counter() - begun)
        answers += b"Notes from earlier sessions" in done.stdout
    return {
        "records": home.records,
        "answered": f"{answers} of {rounds}",
        "p50 ms": round(statistics.median(times) * 1000),
        "max ms": round(max(times) * 1000),
    }


# -------------------------------------------------------------------- homes


def made(folder: Path, size: int, *, indexed: bool = True) -> Home:
    """A home of so many records, made unless it is there."""
    (folder / "home").mkdir(parents=True, exist_ok=True)
    memory = connect(home=folder / "home", cwd=folder, origin=Origin.USER, actor="human:bench")
    assert memory.caller.project is not None
    near = Place(Scope.PROJECT, memory.caller.project.id)
    wanted = [
        (near if at % 10 else Place(Scope.GLOBAL), text) for at, text in enumerate(notes.notes(size, seed=5))
    ]
    done = folder / "home" / "last-number"
    if not done.exists():
        for at, (place, text) in enumerate(wanted):
            _write(folder / "home", place, at, text)
        (folder / "home" / "memory" / "global" / "MEMORY.md").write_text(
            "# Memory\n\nPrefers short answers.\n"
        )
        (folder / "home" / "config.toml").write_text('embedder = "static"\n[decay]\nmax_count = 1000000\n')
        memory.note("Looked at the payload parser.")
        time.sleep(1.5)  # what was written just now is not in the catalogue yet
        if indexed:
            memory.care.index()
        done.write_text(f"{size + 10}\n")
    memory.close()
    middle = range(size // 2, size // 2 + 40)
    return Home(size, folder, tuple(_key(at, wanted[at][1]) for at in middle))


def _key(at: int, text: str) -> str:
    words = "".join(each if each.isascii() and each.isalnum() else " " for each in text.lower()).split()
    return f"{'-'.join(words[:5])}-{at}"


def _write(home: Path, place: Place, at: int, text: str) -> None:
    chance = random.Random(at)
    key, id_ = _key(at, text), names.new_id()
    begun = datetime(2025, 11, 1, tzinfo=UTC) + timedelta(minutes=10 * at + chance.randrange(60))
    said = [begun + timedelta(days=5 * number) for number in range(chance.choice((1, 1, 1, 2, 3)))]
    stamps = [f"{each:%Y-%m-%dT%H:%M:%SZ}" for each in said]
    origin = chance.choice(_ORIGINS)
    kind = _TYPES[at % len(_TYPES)]
    tags = [f"topic-{at // 40}", f"area-{at % 12}"] if chance.random() < 0.5 else []
    front = [
        f"type: {kind}",
        f"id: {id_}",
        f"num: {at + 1}",
        f"key: {key}",
        f"title: {json.dumps(' '.join(text.split()[:6]))}",
        f"scope: {place.scope}",
        *([f'scope_id: "{place.id}"'] if place.id else []),
        *([f"tags: [{', '.join(tags)}]"] if tags else []),
        "source: user-told" if origin == "user" else "source: agent",
        f"created: {stamps[0]}",
        f"updated: {stamps[-1]}",
        f"generated: {{by: human:bench, at: {stamps[-1]}}}",
    ]
    texts = [text if not number else f"{text} Said again, part {number}." for number in range(len(stamps))]
    entries = [
        f"## {stamp}\n{each}\n<!-- origin: {origin} -->\n" for stamp, each in zip(stamps, texts, strict=True)
    ]
    top = home.joinpath("memory", str(place.scope), *([place.id] if place.id else []), "records")
    logs = home.joinpath("archive", "kept", str(place.scope), place.id or "_", "records")
    for each in (top, logs):
        if not each.exists():
            each.mkdir(parents=True)
    (top / f"{key}.md").write_text("\n".join(["---", *front, "---", f"# {key}", "", "\n".join(entries)]))
    with (logs / f"{key}.md.jsonl").open("w") as log:
        for stamp, words in zip(stamps, texts, strict=True):
            log.write(json.dumps({"record": id_, "time": stamp, "origin": origin, "text": words}) + "\n")
