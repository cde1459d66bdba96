"""Fuzz one parser: `python -m tests.fuzz NAME [--runs N]`, with Atheris where it is installed."""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
import time
from typing import Any


def main() -> None:
    """Run a property over many inputs and say how many there were."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("name", help="query, chunk, frontmatter, document or snippet")
    parser.add_argument("--runs", type=int, default=100_000)
    parser.add_argument("--seconds", type=int, default=3600, help="stop after this time")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--plain", action="store_true", help="seeded inputs even where Atheris is installed")
    given = parser.parse_args()
    guided = not given.plain and importlib.util.find_spec("atheris") is not None
    run = _guided if guided else _seeded
    run(given.name, runs=given.runs, seconds=given.seconds, seed=given.seed)


def _guided(name: str, *, runs: int, seconds: int, seed: int) -> None:
    """Let Atheris look for inputs that reach new code; it ends the process when it is done."""
    atheris: Any = importlib.import_module("atheris")
    with atheris.instrument_imports(include=["vademecum"]):
        from .properties import PROPERTIES, corpus
    with contextlib.ExitStack() as stack:
        folder = stack.enter_context(corpus())
        limits = ["-timeout=10", "-rss_limit_mb=2048", "-max_len=4096", "-print_final_stats=1"]
        limits += [f"-runs={runs}", f"-seed={seed}", f"-max_total_time={seconds}", "-artifact_prefix=/tmp/"]
        atheris.Setup([name, *limits, folder], PROPERTIES[name])
        atheris.Fuzz()


def _seeded(name: str, *, runs: int, seconds: int, seed: int) -> None:
    from .properties import PROPERTIES, samples

    begun, ran = time.monotonic(), 0
    for content in samples(seed, runs):
        try:
            PROPERTIES[name](content)
        except BaseException:
            print(f"input: {content!r}", file=sys.stderr)
            raise
        ran += 1
        if time.monotonic() - begun > seconds:
            break
    took = time.monotonic() - begun
    print(f"{name}: {ran:,} runs in {took:.0f} s, {ran / max(took, 1e-9):,.0f} a second, no failure")


main()
