"""Write `docs/cli.md` from the commands, and the table of `docs/settings.md`: `python -m tools.cli_page`.

What a command is called, its summary and its options come from the code; the paragraphs between them are
written by hand in the page and stay. A new command gets those of its own help.
"""

from __future__ import annotations

import re
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vademecum.config import describe
from vademecum.interfaces.cli.app import SECTIONS, cli
from vademecum.interfaces.cli.options import AgentHelpCommand
from vademecum.interfaces.cli.plugins import ENTRY_POINT_GROUP

if TYPE_CHECKING:
    from collections.abc import Iterator

PAGE = Path(__file__).parent.parent / "docs" / "cli.md"
SETTINGS_PAGE = PAGE.with_name("settings.md")
COMMON = {"as_json", "home", "agent", "session", "audience", "incognito", "help"}
_SETTINGS = re.compile(r"(?<=\| setting \|)(.*\n\|[-|]+\|\n)(?:\| `.*\n)+")
_TABLE = re.compile(r"^\| option \|.*\n(?:\|.*\n?)*", re.MULTILINE)


def written(page: str) -> tuple[str, dict[str, str]]:
    """What stands before the first command, and the paragraphs of each command without summary and table."""
    head, *_ = re.split(r"^## (?!JSON)", page, maxsplit=1, flags=re.MULTILINE)
    found = {}
    for part in re.split(r"^#{2,5} (?=`vade)", page, flags=re.MULTILINE)[1:]:
        title, _, rest = part.partition("\n")
        name = re.match(r"`(vade(?: [a-z]+)+)", title)
        body = re.split(r"^## ", rest, maxsplit=1, flags=re.MULTILINE)[0]
        prose = _TABLE.sub("", body).strip()
        if name:
            found[name[1]] = prose
    return head.rstrip() + "\n", found


def made(page: str) -> str:
    """The page as it should be."""
    head, prose = written(page)
    context = click.Context(cli, info_name="vade")
    parts = [head]
    for heading, commands in SECTIONS.items():
        parts.append(f"## {heading}\n")
        for name in commands:
            command = cli.get_command(context, name)
            assert command is not None
            parts += _describe_command(
                command, click.Context(command, info_name=name, parent=context), prose, level=3
            )
    return "\n".join(parts).rstrip() + "\n"


def settings_made(page: str) -> str:
    """The page about settings with its table as it should be."""
    rows = [
        f"| `{row.name}` | `{row.default}` | `{row.environment}` | {row.repository} | {row.meaning} |\n"
        for row in describe()
    ]
    return _SETTINGS.sub(lambda found: found[1] + "".join(rows), page)


def _describe_command(
    command: click.Command, ctx: click.Context, prose: dict[str, str], *, level: int
) -> Iterator[str]:
    words = " ".join(each.make_metavar(ctx) for each in command.params if isinstance(each, click.Argument))
    usage = f"{ctx.command_path} {words}".rstrip()
    yield f"{'#' * level} `{usage}`\n"
    summary, *more = _paragraphs(command)
    prose_of_command = prose.get(ctx.command_path, "")
    own = prose_of_command.removeprefix(summary).strip() if prose_of_command else "\n\n".join(more)
    yield f"{summary}\n"
    if own:
        yield f"{own}\n"
    rows = [*_rows(command, ctx)]
    if rows:
        yield "\n".join(["| option | meaning |", "|---|---|", *rows]) + "\n"
    if isinstance(command, click.Group):
        for name in dict.fromkeys([*command.commands, *command.list_commands(ctx)]):
            inner = command.get_command(ctx, name)
            assert inner is not None
            yield from _describe_command(
                inner, click.Context(inner, info_name=name, parent=ctx), prose, level=level + 1
            )


def _paragraphs(command: click.Command) -> list[str]:
    text = command.help or ""
    if isinstance(command, AgentHelpCommand):
        text = re.sub(r"\{(\w+)\}", command._names, text)
    return [" ".join(each.split()) for each in text.split("\n\n")]


def _rows(command: click.Command, ctx: click.Context) -> Iterator[str]:
    for each in command.params:
        if isinstance(each, click.Option) and each.name not in COMMON:
            record = each.get_help_record(ctx)
            if record is not None:
                option, meaning = record
                option = re.sub(r"\s+RANGE\b.*", " N", option) if "RANGE" in option else option
                yield f"| `{_cell(option)}` | {_cell(' '.join(meaning.split()))} |"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def main() -> int:
    """Write the pages, or with --check say whether they are as they should be."""
    if "hub.serve" not in (entry.name for entry in entry_points(group=ENTRY_POINT_GROUP)):
        raise SystemExit("tools.cli_page: the commands of vademecum-hub are missing: run `make` again")
    wrong = 0
    for path, wanted in ((PAGE, made), (SETTINGS_PAGE, settings_made)):
        page = path.read_text("utf-8")
        wrong += page != wanted(page)
        if "--check" not in sys.argv:
            path.write_text(wanted(page), encoding="utf-8")
    return int(wrong > 0 and "--check" in sys.argv)


if __name__ == "__main__":
    raise SystemExit(main())
