"""What every test starts from: no settings of the person who runs it, no agent, and a home of its own.

A command that decides needs a terminal, and tests have none: `allowing.allow` lets them through as a script.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

import allowing
import json_contract
from vademecum.store import people

if TYPE_CHECKING:
    from pathlib import Path

json_contract.hold()


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
