"""Every parser over thousands of odd inputs; `python -m tests.fuzz` runs the same properties for longer."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cases import every_case
from fuzz.properties import PROPERTIES, samples

ROOT = Path(__file__).parents[2]
RUNS = {"query": 3_000, "chunk": 3_000, "frontmatter": 6_000, "document": 4_000, "snippet": 6_000}
GUIDED = importlib.util.find_spec("atheris") is not None


@every_case("name", PROPERTIES)
def test_no_bytes_break_a_parser(name: str) -> None:
    for content in samples(20261115, RUNS[name]):
        begun = time.process_time()
        try:
            PROPERTIES[name](content)
        except Exception as error:
            raise AssertionError(f"{type(error).__name__} for {content!r}") from error
        assert time.process_time() - begun < 30, content  # no input takes for ever


@pytest.mark.soak
@pytest.mark.parametrize("name", PROPERTIES)
def test_a_million_inputs_break_no_parser(name: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-m", "tests.fuzz", name, "--runs", str(1_000_000 if GUIDED else 200_000)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
    )
    assert ran.returncode == 0, (ran.stdout + ran.stderr)[-4000:]
