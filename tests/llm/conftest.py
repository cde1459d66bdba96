from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from llm.benches import KEY_ENV
from llm.wire_server import KEY, serving
from vademecum.llm import net

if TYPE_CHECKING:
    from collections.abc import Iterator

    from llm.wire_server import WireServer


@pytest.fixture
def server() -> Iterator[WireServer]:
    with serving() as running:
        yield running


@pytest.fixture(autouse=True)
def _keys(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key of our own, nobody else's, and no long pauses between attempts."""
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv(KEY_ENV, KEY)
    monkeypatch.setattr(net, "FIRST_PAUSE", 0.01)
