"""What the tests of the importers begin with."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allowing import allow
from importers.worlds import Vade

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("VADE_SWEEP", "off")
    allow(tmp_path / "home")
    return Vade(tmp_path, capsys)
