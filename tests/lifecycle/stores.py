"""A memory whose clock is turned by hand, and ways to fill it."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from vademecum.memory import Memory, connect
from vademecum.text import frontmatter
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)


class Clock:
    """A clock that stands still unless it is moved; each look is a little later than the one before."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        self.now += timedelta(milliseconds=1)
        return self.now

    def forward(self, **time: float) -> None:
        """Let time pass."""
        self.now += timedelta(**time)


class World:
    """A home, a project, and doors into it."""

    def __init__(self, top: Path) -> None:
        self.top = top
        self.home = top / "home"
        self.clock = Clock()
        self.settings: dict[str, str] = {"VADE_SWEEP": "off"}
        (top / "project").mkdir(parents=True)

    def memory(
        self,
        *,
        cwd: Path | None = None,
        session: str | None = None,
        origin: Origin = Origin.USER,
        audience: str = "private",
    ) -> Memory:
        """Memory through a person's door, unless said otherwise."""
        return connect(
            home=self.home,
            cwd=cwd or self.top / "project",
            session=session,
            origin=origin,
            audience=audience,
            now=self.clock,
            environ=self.settings,
        )

    def write(self, name: str, content: str | bytes, *, place: str = "global") -> Path:
        """A record made by hand."""
        folder = self.home / "memory" / place / "records"
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def age_files(self, *, days: float) -> None:
        """Date the files of all records so many days back, as if nothing was written or arrived since."""
        at = (self.clock.now - timedelta(days=days)).timestamp()
        for path in (self.home / "memory").rglob("records/*.md"):
            os.utime(path, (at, at))

    def tree(self, *, below: str = "memory") -> dict[str, bytes]:
        """Every file of memory, without what writers leave and clear."""
        top = self.home / below
        return {
            str(path.relative_to(top)): path.read_bytes() for path in sorted(top.rglob("*")) if path.is_file()
        }

    def everything(self) -> str:
        """All that stands in memory and in the archive, white space folded."""
        files = (path for part in ("memory", "archive") for path in (self.home / part).rglob("*.md"))
        return "\0".join(
            " ".join(path.read_text(errors="replace").split()) for path in files if path.is_file()
        )


def aged(text: str, days: float, **fields: object) -> str:
    """A record as it would have been written some days ago."""
    at = f"{NOW - timedelta(days=days):%Y-%m-%dT%H:%M:%SZ}"
    values = {"type": "project", "created": at, "updated": at} | fields
    return frontmatter.edit(f"# x\n\n## {at}\n{text}\n<!-- origin: agent -->\n", values)
