"""What the tests of the lifecycle begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from lifecycle.stores import World

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def world(tmp_path: Path) -> World:
    """A home with nothing in it."""
    return World(tmp_path)
