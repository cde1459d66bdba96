"""The machine that agents run on: quiet, or with `VADE_AGENTS_LOAD` busy processes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from bench.hooks import busy

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(autouse=True)
def load() -> Iterator[None]:
    """As many busy processes as the variable says, beside each agent."""
    count = int(os.environ.get("VADE_AGENTS_LOAD", "0"))
    if not count:
        yield
        return
    with busy(count):
        yield
