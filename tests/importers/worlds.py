"""`vade` in a project folder with a home of its own, and a look at every byte of a folder."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vademecum.interfaces.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path

    import pytest


class Vade:
    """Runs `vade` in a project folder with a home of its own."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base, self.capsys = base, capsys
        self.project, self.home = base / "project", base / "home"
        self.code, self.out, self.err = 0, "", ""

    def __call__(self, *words: object) -> str:
        self.code = run([str(each) for each in words])
        captured = self.capsys.readouterr()
        self.out, self.err = captured.out, captured.err
        return self.out

    def json(self, *words: object) -> Any:
        self(*words, "--json")
        assert self.code == 0, (self.out, self.err)
        return json.loads(self.out)

    def fails(self, *words: object, code: int = 1) -> str:
        self(*words)
        assert self.code == code, (self.code, self.out, self.err)
        assert len(self.err.strip().split("\n")) == 1, self.err
        return self.err

    def records(self, *words: object) -> list[dict[str, Any]]:
        """What `list` shows."""
        found: list[dict[str, Any]] = self.json("list", *words)["records"]
        return found

    def entries(self, key: str, *words: object) -> list[tuple[str | None, str, str]]:
        """The entries of a record: time, text, origin."""
        return [(e["time"], e["text"], e["origin"]) for e in self.json("show", key, *words)["entries"]]


def snapshot(top: Path, *, without: tuple[str, ...] = ()) -> dict[str, tuple[bytes, int, int]]:
    """Every file below a folder with its bytes, time and mode."""
    found = {}
    for path in sorted(top.rglob("*")):
        name = path.relative_to(top).as_posix()
        if path.is_file() and not path.is_symlink() and not name.startswith(without or ("\0",)):
            state = path.stat()
            found[name] = (path.read_bytes(), state.st_mtime_ns, state.st_mode)
    return found
