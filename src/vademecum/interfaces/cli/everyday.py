"""Commands for every day: today, log, diff, open, move, rename, tag and backup."""

from __future__ import annotations

import os
import re
import sys
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from vademecum.errors import NotFound, VadeError
from vademecum.interfaces.cli.options import (
    JOURNALS,
    NOTHING,
    SCOPES,
    common,
    complete_keys,
    confirm,
    key_argument,
    one_view,
    scope_option,
)
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import diff_lines, shorten, show_skipped
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.values import Arranged, FileLines, HeardStatement, HistoryEvent
    from vademecum.types import Finding, Record

_SHOWN = 20  # records that are listed; the others are counted
MATCH = click.option(
    "--match", metavar="FILTER", help="All records that match, such as `tag:old before:2026-01`."
)


class DayReport(NamedTuple):
    """The new records and notes of a day, and what is pending."""

    date: str
    journal: tuple[FileLines, ...]
    records: tuple[Record, ...]
    pending: dict[str, int]
    problems: tuple[Finding, ...]
    nudges: Sequence[HeardStatement]
    bar: str


@click.command()
@click.option("--journal", is_flag=True, help="Only today's journal, in full.")
@click.option(
    "--scope",
    type=JOURNALS,
    default="project",
    show_default=True,
    help="With --journal: the journal to show.",
)
@common
@one_view
def today(*, journal: bool, scope: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Show what was added today, and what is pending."""
    memory = open_memory()
    if journal:
        show_notes(memory, scope, as_json=as_json)
        return
    since = datetime.now().astimezone().replace(hour=0, minute=0, second=0, microsecond=0)
    changed = [
        record for record in memory.list().records if _is_since(record.updated or record.created, since)
    ]
    notes = [memory.notes_of_today(scope=each) for each in _journal_scopes(memory)]
    day = DayReport(
        since.date().isoformat(),
        tuple(note for note in notes if note.text),
        tuple(sorted(changed, key=lambda each: each.updated or "", reverse=True)),
        _count_pending(memory),
        tuple(finding for finding in memory.status().findings if finding.severity != "info"),
        memory.heard.nudges(since=since),
        memory.heard.bar(),
    )
    if as_json:
        output.as_json(to_json.today_json, day)
        return
    output.line(f"{since:%A, %d %B %Y}")
    show_new(day)
    show_nudges(day.nudges)
    if day.bar:
        output.line(f"\n{day.bar}")
    if day.pending:
        kinds = ", ".join(output.plural(count, kind) for kind, count in day.pending.items())
        output.line(f"\n{sum(day.pending.values()):,} pending ({kinds}): `vade review`")
    if day.problems:
        output.line(f"\n{output.plural(len(day.problems), 'problem')}: `vade status`")


def show_notes(memory: Memory, scope: str, *, as_json: bool) -> None:
    """Print today's notes of one scope."""
    found = memory.notes_of_today(scope=scope)
    if as_json:
        output.as_json(to_json.notes_json, found)
    elif found.text:
        output.line(f"{found.path}\n\n{found.text}")
    else:
        output.line("no notes today: `vade add --journal TEXT` adds one")


def show_new(day: DayReport) -> None:
    """Print the notes and records of a day, or a hint when there are none."""
    for note in day.journal:
        output.line(f"\nJournal · {note.path}")
        for line in _format_notes(note.text):
            output.line(f"  {line}")
    if day.records:
        output.line(f"\n{output.plural(len(day.records), 'record')} added or changed")
        rows = [
            [str(record.num or "-"), record.key, str(record.place.scope), shorten(record.text, 60)]
            for record in day.records[:_SHOWN]
        ]
        output.table(rows, ["#", "key", "scope", "text"])
        if len(day.records) > _SHOWN:
            output.line(f"… and {len(day.records) - _SHOWN:,} more; `vade list` shows all")
    if not day.journal and not day.records:
        output.line('\nNothing was added today. `vade add "…"` saves a memory, with --journal a note.')


def show_nudges(nudges: Sequence[HeardStatement]) -> None:
    """Print which of your words agents were told to consider, and what came of each."""
    if nudges:
        output.line(f"\nAgents were shown {output.plural(len(nudges), 'statement')} of yours")
        rows = [[each.outcome or "open", each.kind, shorten(each.text, 60)] for each in nudges[:_SHOWN]]
        output.table(rows, ["outcome", "kind", "text"])


def _format_notes(text: str) -> list[str]:
    """Return the notes of a day, each after its time, without comments."""
    lines: list[str] = []
    time = ""
    for line in text.splitlines():
        heading = re.fullmatch(r"## \S*T(\d\d:\d\d)\S*", line)
        if heading:
            time = f"{heading[1]}  "
        elif line.strip() and not line.startswith(("# ", "<!--")):
            lines.append(f"{time or ' ' * 7}{line}")
            time = ""
    return lines


def _journal_scopes(memory: Memory) -> list[str]:
    """Return the scopes of the caller that have a journal."""
    has = memory.caller.project is not None
    return [str(each) for each in Scope if each.rule.journal and (each is not Scope.PROJECT or has)]


def _is_since(stamp: str | None, moment: datetime) -> bool:
    try:
        return stamp is not None and datetime.fromisoformat(stamp) >= moment
    except (ValueError, TypeError):
        return False


def _count_pending(memory: Memory) -> dict[str, int]:
    """Return the number of pending items by kind; empty for an agent."""
    try:
        return dict(memory.review.inbox().counts)
    except VadeError:
        return {}


@click.command()
@key_argument(metavar="KEY|NUM|DOCUMENT")
@scope_option("The scope of the record.")
@click.option(
    "--limit", type=click.IntRange(1), default=10, show_default=True, help="The number of events to show."
)
@common
@one_view
def log(key: str, scope: str | None, limit: int, as_json: bool, open_memory: OpenMemory) -> None:
    """Show the history of a record.

    Prints each event, newest first, with its time, author, diff and the id for `vade restore`. A rename or a
    move is an event, and what came before it stays. A forgotten record has a history too.
    """
    events = list(open_memory().archive.events(key, scope=scope))
    chosen = [(event, _diff(event)) for event in events[: -limit - 1 : -1]]
    if as_json:
        changes = [
            {
                "at": event.at,
                "by": event.writer,
                "what": event.what,
                "made": event.made,
                "replaced": event.version,
                "run": event.run,
                "diff": "\n".join(lines),
            }
            for event, lines in chosen
        ]
        versions = sum(1 for event in events if event.version)
        output.as_json(to_json.history_json, key=key, changes=changes, versions=versions)
        return
    _print_paged(_format_history(chosen))


def _diff(event: HistoryEvent) -> list[str]:
    """Return the diff of an event; empty without a text before or after it, or if one is not known."""
    if event.before is None or event.after is None:
        return []
    return list(diff_lines(event.before, event.after))


def _format_history(events: Sequence[tuple[HistoryEvent, list[str]]]) -> list[str]:
    """Return a history as lines, newest event first."""
    lines: list[str] = []
    for event, changed in events:
        replaced = f"  (before: `vade restore {event.version}`)" if event.version else ""
        made = f", made {event.made}" if event.made else ""
        who = f" · {event.writer}" if event.writer else ""
        lines += [output.plain(f"{event.at or 'undated'}{who} · {event.what}{made}{replaced}")]
        lines += [*_colour_diff(changed), ""] if changed else []
    return lines


@click.command()
@key_argument(metavar="KEY|NUM|DOCUMENT")
@click.argument("version", metavar="[ID]", required=False)
@scope_option("The scope of the record.")
@common
def diff(key: str, version: str | None, scope: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Compare a record with an earlier version.

    Compares with the previous version, or with an ID from `vade log`.
    """
    steps = list(open_memory().archive.history(key, scope=scope))
    if not steps:
        raise NotFound(f"{key} has no version", hint="`vade list` shows what is here")
    now = steps[-1]
    if version is not None:
        chosen = next((step for step in steps if step.id and step.id.startswith(version)), None)
        if chosen is None:
            raise NotFound(f"{key} has no version {version}", hint=f"`vade log {key}` lists them")
    else:
        chosen = next((step for step in reversed(steps) if step.text != now.text), now)
    lines = diff_lines(chosen.text, now.text)
    text = partial(_print_paged, _colour_diff(lines)) if lines else f"{key} has not changed"
    output.show(as_json, text, to_json.diff_json, key=key, version=chosen.id, diff="\n".join(lines))


def _colour_diff(lines: Sequence[str]) -> list[str]:
    """Return the lines of a diff, escaped and indented, in colour on a terminal."""
    colours = {"+": "green", "-": "red", "@": "cyan"}
    coloured = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    safe = [(line[:1], f"  {output.plain(line)}") for line in lines]
    return [click.style(line, fg=colours.get(first)) if coloured else line for first, line in safe]


def _print_paged(lines: Sequence[str]) -> None:
    """Print lines, through the person's pager when they do not fit the screen."""
    import shutil

    if not sys.stdout.isatty() or len(lines) < shutil.get_terminal_size().lines:
        click.echo("\n".join(lines))
        return
    os.environ.setdefault("LESS", "-FRX")
    click.echo_via_pager("\n".join(lines) + "\n", color="NO_COLOR" not in os.environ)


@click.command("open")
@click.argument("key", metavar="[KEY|NUM|DOCUMENT]", required=False, shell_complete=complete_keys)
@click.option("--web", is_flag=True, help="Open the record's page in your browser instead.")
@scope_option("The scope of the record.")
@common
def open_(key: str | None, *, web: bool, scope: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Open the page in your browser, or a record's file.

    Without a KEY it is the page (`vade serve`), on the server that runs or on one that is started; with a KEY
    the record's file in its default program, or with --web its page. Edits you save in the file take effect
    at once. `vade edit` opens your editor and checks the result.
    """
    memory = open_memory()
    if key is None or web:
        from vademecum.interfaces.cli.web import open_page

        open_page(memory, _web_path(memory, key, scope), as_json=as_json)
        return
    path = _find_file(memory, key, scope)
    if as_json:
        output.as_json(to_json.path_json, path=path)
        return
    # Only xdg-open returns at once, with an exit code that says whether a program opened the file.
    if click.launch(str(path), wait=sys.platform not in ("darwin", "win32", "cygwin")):
        raise NotFound(
            f"no program on this machine opens {path}", hint=f"`vade edit {key}` opens it in your editor"
        )
    output.line(f"opened {path}")


def _web_path(memory: Memory, key: str | None, scope: str | None) -> str:
    """Return the path of a record's page, or of the first page."""
    from urllib.parse import quote

    if key is None:
        return "/"
    record = memory.show(key, scope=scope)
    return f"/records/{quote(record.key)}?scope={record.place.scope}"


def _find_file(memory: Memory, key: str, scope: str | None) -> Path:
    """Return the file of a record or document."""
    shown = memory.care.editable(key, scope=scope)[0]
    root = memory.caller.project.root if memory.caller.project else None
    below = Path(shown)
    places = [memory.home.path / below, *([root / below] if root else [])]
    return next((place for place in places if place.exists()), places[0])


# ---------------------------------------------------------------- records put in order


@click.command()
@click.argument("names", metavar="[KEY|NUM]...", nargs=-1, shell_complete=complete_keys)
@click.option("--scope", "to", type=SCOPES, required=True, help="The scope to move to.")
@click.option("--from", "scope", type=SCOPES, help="The scope to move from.")
@MATCH
@click.option("--yes", is_flag=True, help="Do not ask.")
@common
def move(
    *,
    names: tuple[str, ...],
    to: str,
    scope: str | None,
    match: str | None,
    yes: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> int:
    """Move a record to another scope.

    Takes several keys, or a filter whose matches are shown first. `vade undo` moves them back.
    """
    memory = open_memory()
    _confirm_match(memory, names, match, scope, f"Move {{}} to {to}?", yes=yes)
    done = memory.care.move(names, to=to, match=match, scope=scope)
    return show_changed(done, f"moved {{}} to {to}", as_json=as_json)


@click.command()
@key_argument()
@click.argument("new", metavar="NEW")
@scope_option("The scope of the record.")
@common
def rename(key: str, new: str, scope: str | None, as_json: bool, open_memory: OpenMemory) -> int:
    """Rename a record; the old key still finds it."""
    done = open_memory().care.rename(key, new, scope=scope)
    return show_changed(done, f"renamed {{}} to {new}", as_json=as_json)


@click.command()
@click.argument("names", metavar="[KEY|NUM]...", nargs=-1, shell_complete=complete_keys)
@click.option("--add", multiple=True, metavar="TAG", help="A tag to add; repeatable.")
@click.option("--remove", multiple=True, metavar="TAG", help="A tag to remove; repeatable.")
@scope_option("Only this scope.")
@MATCH
@click.option("--yes", is_flag=True, help="Do not ask.")
@common
def tag(
    *,
    names: tuple[str, ...],
    add: tuple[str, ...],
    remove: tuple[str, ...],
    scope: str | None,
    match: str | None,
    yes: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> int:
    """Add tags to records, or remove them.

    `vade tag deploys --add ops`, or `vade tag --match type:reference --add docs` for all that match.
    """
    if not add and not remove:
        raise click.UsageError("Pass --add TAG or --remove TAG.")
    memory = open_memory()
    _confirm_match(memory, names, match, scope, "Change the tags of {}?", yes=yes)
    done = memory.care.tag(names, add=add, remove=remove, match=match, scope=scope)
    return show_changed(done, "tagged", as_json=as_json)


def _confirm_match(
    memory: Memory, names: Sequence[str], match: str | None, scope: str | None, question: str, *, yes: bool
) -> None:
    """Show the records that a filter matches, and ask once; records named one by one need no question."""
    if not names and match is None:
        raise click.UsageError("Name the records, or pass --match FILTER.")
    if match is None:
        return
    chosen = list(memory.care.select(names, match=match, scope=scope))
    if not chosen:
        raise NotFound(f"no record matches {match!r}", hint="`vade list` shows what is here")
    if not yes:
        show_chosen(chosen)
    confirm(question.format(output.plural(len(chosen), "record")), yes=yes)


def show_chosen(chosen: Sequence[Record]) -> None:
    """Print the records that a question is about."""
    for record in chosen[:_SHOWN]:
        output.error(f"  {record.key} ({record.place.scope}): {shorten(record.text, 60)}")
    if len(chosen) > _SHOWN:
        output.error(f"  … and {len(chosen) - _SHOWN:,} more")


def show_changed(done: Arranged, what: str, *, as_json: bool) -> int:
    """Print which records were changed and how to undo it, and return the exit code.

    The key of a single record, or the number of records, takes the place of `{}` in `what`, or follows it.
    """
    left = [each for each in done.told if not each.done]
    if as_json:
        output.as_json(to_json.arranged_json, done)
        return int(bool(left))
    if not done.run:
        output.line("nothing to change")
    else:
        count = output.plural(len(done.records), "record")
        named = done.records[0].key if len(done.records) == 1 else count
        output.line(f"{what.format(named) if '{}' in what else f'{what}: {named}'}; `vade undo` undoes it")
    show_skipped(left)
    return int(bool(left))


# ---------------------------------------------------------------- backup


@click.command()
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--verify", is_flag=True, help="Check a backup instead of writing one.")
@click.option("--restore", is_flag=True, help="Restore a backup into an empty memory folder (--home).")
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@common
def backup(
    path: str, *, verify: bool, restore: bool, force: bool, as_json: bool, open_memory: OpenMemory
) -> int:
    """Write a backup of all memory, or verify one.

    FILE is a .tar.gz with every record, journal, pinned document, session, archived version, decision and
    audit line, and a list of checksums. The search index is left out and rebuilt on restore.
    """
    if verify and restore:
        raise click.UsageError("Give one of --verify and --restore.")
    transfer = open_memory().transfer
    with output.progress("no backup was written" if not (verify or restore) else NOTHING) as step:
        if verify:
            made = transfer.verify_backup(path, progress=step)
        elif restore:
            made = transfer.restore_backup(path, progress=step)
        else:
            made = transfer.backup(path, force=force, progress=step)
    if as_json:
        output.as_json(to_json.backup_json, made)
        return int(bool(made.problems))
    what = "verified" if verify else "restored" if restore else "wrote"
    for problem in made.problems[:_SHOWN]:
        output.line(f"problem: {problem}")
    size = made.size / 1_000_000
    if made.problems:
        output.line(f"{made.path} is damaged: {output.plural(len(made.problems), 'problem')}")
    else:
        output.line(
            f"{what} {made.path}: {output.plural(made.files, 'file')}, {size:,.1f} MB, from {made.at}"
        )
    return int(bool(made.problems))
