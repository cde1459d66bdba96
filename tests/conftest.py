"""What every test starts from: no settings of the person who runs it, no agent, and a home of its own.

A command that decides needs a terminal, and tests have none: `allowing.allow` lets them through as a script.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path

import pytest
from hypothesis import settings

import allowing
import json_contract
from vademecum.store import people

json_contract.hold()


# `make check` asks for few examples; everything else takes what a test says itself.
settings.register_profile("check", max_examples=10, deadline=None)
if os.environ.get("HYPOTHESIS_PROFILE") == "check":
    settings.load_profile("check")
TIERS = tomllib.loads((Path(__file__).parent / "tiers.toml").read_text("utf-8"))


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests of the files that `tiers.toml` names as fast or slow."""
    here = Path(__file__).parent
    for item in items:
        name = item.path.relative_to(here).as_posix() if item.path.is_relative_to(here) else ""
        for tier, names in TIERS.items():
            if name in names:
                item.add_marker(tier)


@pytest.fixture(autouse=True)
def _own_world(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Take every VADE_ variable and every agent's away, and put the user's home folder somewhere empty."""
    for name in list(os.environ):
        ours = name.startswith("VADE_") and name != "VADE_DATA"
        if ours or name in people.AGENTS or name in people.EDITORS:
            monkeypatch.delenv(name)
    empty: Path = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.setenv("USER", "ada")
    monkeypatch.setenv(people.SCRIPT, allowing.SCRIPT)  # which counts only in a home that allows it
