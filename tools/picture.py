"""Draw real terminal sessions as SVG: `python -m tools.picture [NAME…]` writes `docs/pictures/NAME.svg`.

The commands are run in a temporary folder, and what they print is what is drawn; no font is fetched.
"""

from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from rich.color import parse_rgb_hex
from rich.console import Console
from rich.terminal_theme import TerminalTheme
from rich.text import Text

if TYPE_CHECKING:
    from collections.abc import Mapping

FOLDER = Path(__file__).parent.parent / "docs" / "pictures"
WIDTH = 84


class TerminalSession(NamedTuple):
    """Commands to run one after the other, and the files that are there before."""

    title: str
    commands: list[str]
    files: Mapping[str, str] = MappingProxyType({})


SESSIONS = {
    "terminal": TerminalSession(
        "Save, find, replace, forget and restore",
        [
            'vade add "Deploys run on Thursdays, never on Fridays" --key deploys --tag ops',
            'vade add "Ann owns billing; ask her before touching invoices" --key billing',
            "vade search who to ask about invoices --max-results 1",
            "vade add --key deploys --mode replace Deploys run on Tuesdays now",
            "vade search when do we deploy --max-results 2",
            "vade forget deploys --yes",
            "vade restore deploys",
        ],
    ),
    "help": TerminalSession("The first help screen", ["vade --help"]),
    "inject": TerminalSession(
        "What an agent is told when a session starts",
        [
            'vade add "Deploys run on Tuesdays, after the standup" --key deploys',
            'vade add "Answer in short sentences" --key style --type feedback --scope global',
            'vade add --type solution --error "port 5432 is in use" --solution "stop the old container"',
            "vade inject",
        ],
    ),
    "import": TerminalSession(
        "Look at an import, make it, find it, undo it",
        [
            "vade import openclaw workspace --dry-run",
            "vade import openclaw workspace",
            "vade search which tea --max-results 1",
            "vade undo",
        ],
        {
            "workspace/MEMORY.md": "## Preferences\n- Green tea, not coffee\n",
            "workspace/USER.md": "- Name: Ada\n- Timezone: Europe/Zurich\n",
            "workspace/HEARTBEAT.md": "Check mail.\n",
            "workspace/memory/2026-01-26.md": "## 10:30 - API\nChose REST over GraphQL.\n",
            "workspace/memory/sqlite-wal.md": "# SQLite WAL\n\nReaders never block the writer.\n",
        },
    ),
    "history": TerminalSession(
        "The history of a record",
        [
            'vade add "The staging database is reset every night" --key staging',
            'vade add --key staging --mode replace "The staging database is reset on Sundays"',
            "vade show staging",
            "vade diff staging",
        ],
    ),
}
_COLOURS = "7d8590 ff7b72 3fb950 d29922 58a6ff bc8cff 39c5cf b1bac4"
_THEME = TerminalTheme((22, 27, 34), (201, 209, 217), [parse_rgb_hex(each) for each in _COLOURS.split()])
_SVG = """\
<svg viewBox="0 0 {width} {height}" xmlns="http://www.w3.org/2000/svg" role="img">
<title>{title}</title>
<style>
.{unique_id}-matrix {{ font: {char_height}px/{line_height}px ui-monospace, Menlo, Consolas, monospace; }}
.{unique_id}-title {{ font: bold 18px sans-serif; }}
{styles}
</style>
<defs>
<clipPath id="{unique_id}-clip-terminal">
<rect width="{terminal_width}" height="{terminal_height}"/>
</clipPath>
{lines}
</defs>
{chrome}
<g transform="translate({terminal_x}, {terminal_y})" clip-path="url(#{unique_id}-clip-terminal)">
{backgrounds}
<g class="{unique_id}-matrix">
{matrix}
</g>
</g>
</svg>
"""


def play(session: TerminalSession, folder: Path) -> list[tuple[str, str]]:
    """Each command with what it printed, in a project of its own and at a terminal's width."""
    for name, text in session.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    git = ["git", "-c", "init.defaultBranch=main", "-C", str(folder)]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "remote", "add", "origin", "git@github.com:acme/api.git"], check=True)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("VADE_")},
        "VADE_HOME": str(folder / "home"),
        "HOME": str(folder),
        "COLUMNS": str(WIDTH),
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    frames = []
    for command in session.commands:
        done = subprocess.run(
            ["bash", "-c", command], cwd=folder, env=environment, capture_output=True, text=True, check=True
        )
        frames.append((command, done.stdout.rstrip("\n")))
    return frames


def draw(session: list[tuple[str, str]], name: str) -> str:
    """A session as a picture."""
    console = Console(record=True, width=WIDTH, file=io.StringIO(), color_system="truecolor", highlight=False)
    for at, (command, printed) in enumerate(session):
        if at:
            console.print()
        console.print(Text.assemble(("$ ", "bold green"), (command, "bold")))
        for line in printed.split("\n"):
            console.print(_coloured(line), overflow="fold")
    code = _SVG.replace("{title}", SESSIONS[name].title)
    svg = console.export_svg(title="", theme=_THEME, code_format=code, unique_id=f"vade-{name}")
    return re.sub(r"[ \t]+$", "", svg, flags=re.MULTILINE)


def _coloured(line: str) -> Text:
    """What the terminal shows in colour: headings of hits bold, places dim."""
    text = Text(line)
    if re.match(r"#\d+ |\d{4}-\d\d-\d\d · ", line):
        text.stylize("bold", 0, line.find(" · "))
        text.highlight_regex(r"\bstrong\b", "green")
        text.highlight_regex(r"\b(?:weak|superseded)\b.*", "black")
    elif re.match(r"  memory/\S+#L", line):
        text.stylize("black")
    return text


def undated(svg: str) -> str:
    """A picture without its times, the names made from them, and ids that are made up each time."""
    shorter = re.sub(r"\d{8}T\d{6,12}Z-[0-9a-f]+", "VERSION", svg)
    shorter = re.sub(r"\bid:(&#160;| )[0-9a-z]{10}\b", "ID", shorter)
    return re.sub(r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\dZ)?", "TIME", shorter)


def main(names: list[str]) -> None:
    """Draw these sessions, or every one; a picture that would only have other times stays."""
    FOLDER.mkdir(exist_ok=True)
    for name in names or SESSIONS:
        with tempfile.TemporaryDirectory() as folder:
            drawn = draw(play(SESSIONS[name], Path(folder)), name)
        path = FOLDER / f"{name}.svg"
        if not path.exists() or undated(path.read_text("utf-8")) != undated(drawn):
            path.write_text(drawn, encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1:])
