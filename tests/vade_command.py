"""The command line: inside the test's own process with a home of its own, and as a program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import checkout
from vademecum.interfaces.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


VADE = checkout.program()  # the `vade` of this checkout, for what starts it as a program


class Vade:
    """Runs `vade` in a project folder with a home of its own."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.capsys, self.code, self.err = home, capsys, 0, ""

    def __call__(self, *words: str) -> str:
        self.code = run(["--home", str(self.home), *words])
        captured = self.capsys.readouterr()
        self.err = captured.err
        return captured.out

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))
