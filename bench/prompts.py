"""Whether a prompt brings back the record that it needs, and nothing where no record has to do with it.

The prompts are our own (`bench/sets/prompts`), over some of the stores of `bench/sets/block`. They are asked
by words alone, with the models (as if there were no deadline), and some of them by the real hook with all
defaults. Of the held-out half only totals are printed.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from bench import block
from bench.small_sets import HELD, TUNE

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterable, Sequence

    from bench.block import Rows

FOLDER = Path(__file__).parent / "sets" / "prompts"
WORDS, MODELS, HOOK = "words", "models", "hook"
SAMPLE = 4  # each so many prompts, one is asked by the hook


class Prompt(NamedTuple):
    """A prompt, and the keys of the records of which any one is right; none for a prompt about nothing."""

    text: str
    right: frozenset[str]


class Outcome(NamedTuple):
    """What one way of asking brought back for a prompt: the keys of records."""

    prompt: Prompt
    keys: tuple[str, ...]

    @property
    def is_right(self) -> bool:
        """Whether a right record was brought, or nothing if no record is right."""
        return bool(self.prompt.right.intersection(self.keys)) if self.prompt.right else not self.keys


def read(half: str) -> dict[str, list[Prompt]]:
    """Return the prompts of a half by the name of their store."""
    return {
        path.stem: [
            Prompt(each["prompt"], frozenset(each["right"]))
            for each in map(json.loads, path.read_text("utf-8").splitlines())
        ]
        for path in sorted((FOLDER / half).glob("*.jsonl"))
    }


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen on the command line."""
    parser.add_argument("--half", choices=(TUNE, HELD), action="append", help="both when left out")
    parser.add_argument("--by", choices=(WORDS, MODELS, HOOK), action="append", help="all when left out")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """Fill each store, send it its prompts, and count what they bring back."""
    tables: dict[str, Rows] = {"prompts, by half": []}
    for half in chosen.half or (TUNE, HELD):
        found: dict[str, list[Outcome]] = {}
        for name, prompts in read(half).items():
            for by, some in ask(block.read(half)[name], prompts, chosen.by or (WORDS, MODELS, HOOK)).items():
                found.setdefault(by, []).extend(some)
        tables["prompts, by half"] += [_total(half, by, some) for by, some in found.items()]
        if half == TUNE:
            tables["prompts, wrong ones of the half to tune on"] = [
                _row(by, each) for by, some in found.items() for each in some if not each.is_right
            ]
    return {title: rows for title, rows in tables.items() if rows}


def ask(
    records: list[block.SavedRecord], prompts: Sequence[Prompt], ways: Iterable[str]
) -> dict[str, list[Outcome]]:
    """Return what each way of asking brings back for the prompts of one store."""
    with tempfile.TemporaryDirectory(prefix="vade-prompts-", ignore_cleanup_errors=True) as name:
        folder = Path(name).resolve()
        memory = block.fill(folder, records)
        memory.care.index()
        texts = {each.key: each.text for each in records}
        finders: dict[str, Callable[[str], str]] = {
            WORDS: lambda text: memory.injection.remind(text, until=0.0).text,
            MODELS: lambda text: memory.injection.remind(text).text,
            HOOK: lambda text: _hook(folder, text),
        }
        try:
            return {
                by: [
                    Outcome(each, _keys(finders[by](each.text), texts))
                    for each in (prompts[::SAMPLE] if by == HOOK else prompts)
                ]
                for by in ways
            }
        finally:
            memory.close()


def _keys(answer: str, texts: dict[str, str]) -> tuple[str, ...]:
    """Return the keys of the records that an answer has, in its order."""
    lines = [line.partition("] ")[2] for line in answer.splitlines() if line.startswith("- [")]
    keys = [line.partition(":")[0].partition(" ")[0] for line in lines]
    return tuple(key for key in keys if key in texts)


def _hook(folder: Path, prompt: str) -> str:
    """Return what the hook answers as the agent starts it, with default settings."""
    given = json.dumps({"cwd": str(folder / "work"), "prompt": prompt, "hook_event_name": "UserPromptSubmit"})
    environment = {key: value for key, value in os.environ.items() if not key.startswith("VADE_")}
    environment |= {"HOME": str(folder), "VADE_HOME": str(folder / "home")}
    command = [str(Path(sys.executable).with_name("vade")), "hook", "claude-code", "user-prompt"]
    done = subprocess.run(
        command, env=environment, cwd=folder, input=given, stdout=subprocess.PIPE, check=True, text=True
    )
    if not done.stdout.strip():
        return ""
    answer: str = json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]
    return answer


def _row(by: str, each: Outcome) -> dict[str, object]:
    right, brought = " ".join(sorted(each.prompt.right)), " ".join(each.keys)
    return {"by": by, "prompt": each.prompt.text, "right": right, "brought": brought}


def _total(half: str, by: str, some: list[Outcome]) -> dict[str, object]:
    asked = [each for each in some if each.prompt.right]
    nothing = [each for each in some if not each.prompt.right]
    right, noise = sum(each.is_right for each in asked), sum(not each.is_right for each in nothing)
    brought = [len(each.keys) for each in asked if each.keys]
    return {
        "half": half,
        "by": by,
        "right record": f"{right} of {len(asked)}",
        "share": round(right / len(asked), 3),
        "records brought": round(sum(brought) / len(brought), 1) if brought else 0.0,
        "about nothing, something": f"{noise} of {len(nothing)}",
    }
