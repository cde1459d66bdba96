"""Commands that decide, without a terminal: as a script that the user's own settings allow by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

SCRIPT = "tests"


def allow(home: Path) -> Path:
    """Allow the tests in the settings of a home."""
    path = home / "config.toml"
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    text = path.read_text("utf-8") if path.exists() else ""
    if "scripts" not in text:
        path.write_text(f'approval.scripts = ["{SCRIPT}"]\n{text}', "utf-8")
    return home
