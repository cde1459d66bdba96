"""A world for each test of hooks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hooks.calls import World

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    made = World.at(tmp_path)
    monkeypatch.setenv("HOME", str(made.person))
    return made
