"""What every test starts from: no settings of the person who runs it, and a home of its own."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(autouse=True)
def _own_world(monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Take every VADE_ variable away and put the user's home folder somewhere empty."""
    for name in list(os.environ):
        if name.startswith("VADE_") and name != "VADE_DATA":
            monkeypatch.delenv(name)
    empty: Path = tmp_path_factory.mktemp("user")
    monkeypatch.setenv("HOME", str(empty))
    monkeypatch.setenv("USER", "ada")
