"""A home as a release wrote it, put where a test can use it.

The fixture has placeholders for what depends on where it lies: `@world@` is the folder everything is in,
`@path12-<folder>@` and `@path24-<folder>@` are what memory calls a folder by its path.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from vademecum.memory import Memory

FIXTURE = Path(__file__).parents[1] / "fixtures" / "home"
REMOTES = {name: f"https://github.com/acme/{name}.git" for name in ("site", "api")}
FOLDERS = ("site", "api", "moved", "vault")
NOW = datetime(2026, 3, 5, 9, 0, tzinfo=UTC)  # two days after the last write in the fixture


@dataclass(frozen=True, slots=True)
class World:
    """A home and the folders around it, as a person has them."""

    path: Path

    @property
    def home(self) -> Path:
        """The memory itself."""
        return self.path / "home"

    def door(self, folder: str = "site", **given: Any) -> Memory:
        """Open it for the person, or for whom it is said."""
        settings = {
            "home": self.home,
            "cwd": self.path / folder,
            "session": "s-one",
            "origin": Origin.USER,
            "actor": "user:ada",
            "now": lambda: NOW,
            "environ": {"VADE_SWEEP": "off", "VADE_EMBEDDER": "none"},
        }
        return connect(**{**settings, **given})


MADE = 1_772_323_200  # 2026-03-01


def place(into: Path) -> World:
    """Copy the fixture, and fill in everything that depends on its folder."""
    world = Path(os.path.realpath(into)) / "world"
    for source in sorted(FIXTURE.rglob("*")):
        if source.is_file():
            parts = [_filled(part, world) for part in source.relative_to(FIXTURE).parts]
            target = world.joinpath(*parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(_filled(source.read_bytes().decode(), world).encode())
    _named_by_content(world / "home/decisions/approvals")
    for name in FOLDERS:
        (world / name).mkdir(exist_ok=True)
    for name, url in REMOTES.items():
        (world / name / ".git").mkdir()
        (world / name / ".git/config").write_text(f'[remote "origin"]\n\turl = {url}\n')
    for folder, _, names in os.walk(world / "home"):
        os.chmod(folder, 0o700)
        for name in names:
            os.chmod(os.path.join(folder, name), 0o600)
            # As old as what is in them: the time of a file that was changed by hand is when that was.
            os.utime(os.path.join(folder, name), (MADE, MADE))
    return World(world)


def _filled(text: str, world: Path) -> str:
    for name in FOLDERS:
        mark = hashlib.sha256(os.fsencode(world / name)).hexdigest()
        text = text.replace(f"@path12-{name}@", mark[:12]).replace(f"@path24-{name}@", mark[:24])
    return text.replace("@world@", str(world))


def _named_by_content(folder: Path) -> None:
    """Requests are called by the hash of their bytes, which say where the project lies."""
    for path in [*folder.glob("*.json")]:
        shutil.move(path, folder / f"{hashlib.sha256(path.read_bytes()).hexdigest()}.json")
