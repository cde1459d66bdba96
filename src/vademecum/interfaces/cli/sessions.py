"""Commands for sessions, and for trying out a context window."""

from __future__ import annotations

import os
import shutil
import sys
from functools import partial
from typing import TYPE_CHECKING

import click

from vademecum.errors import NotFound
from vademecum.interfaces.cli.options import common, words_argument
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import list_sessions, show_distilled

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.values import DryRun, ImportedSession, JoinedFolder, JoinedFolders, Line
    from vademecum.search import Hit

_everything = click.option(
    "--all", "everything", is_flag=True, help="Search every project, agent and session."
)


@click.group(invoke_without_command=True)
@common
@click.pass_context
def sessions(ctx: click.Context, as_json: bool, open_memory: OpenMemory) -> None:
    """Search and read past sessions.

    Sessions of other agents can be imported.
    """
    if ctx.invoked_subcommand is None:
        _list(open_memory(), as_json=as_json)


@sessions.command("list")
@_everything
@common
def list_(everything: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """List sessions, the newest first."""
    _list(open_memory(), everything=everything, as_json=as_json)


def _list(memory: Memory, *, everything: bool = False, as_json: bool) -> None:
    found = memory.sessions.list(all=everything)
    elsewhere = 0 if found or everything or as_json else memory.sessions.count_elsewhere()
    list_sessions(found, as_json=as_json, elsewhere=elsewhere)


@sessions.command()
@click.argument("which", metavar="ID|NAME")
@click.option("--last", type=click.IntRange(1), help="Show only this many of the last lines.")
@_everything
@common
def show(which: str, last: int | None, everything: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Show a session's messages and tool calls."""
    log = open_memory().sessions.open(which, all=everything)
    lines = log.lines() if last is None else iter(log.tail(last))
    if as_json:
        output.as_json(to_json.session_shown_json, log, lines=lines)
        return
    output.line(f"{log.session} · {log.path}")
    used = log.usage()
    if used.calls:
        output.line(used.tell())
    for line in lines:
        _show_hits(line, whole=False)


@sessions.command()
@words_argument(required=True)
@click.option(
    "--max-sessions",
    type=click.IntRange(1, 50),
    default=10,
    show_default=True,
    help="The number of sessions.",
)
@click.option(
    "--max-results", type=click.IntRange(1, 20), default=5, show_default=True, help="The number of messages."
)
@click.option(
    "--ranking",
    type=click.Choice(["relevance", "keywords"]),
    default="relevance",
    show_default=True,
    help="Rank by the session index, or by word counts in the newest sessions.",
)
@click.option("--now", metavar="TIME", help="The time relative dates refer to.  [default: now]")
@click.option("--own", is_flag=True, help="Include calls of memory tools and their results; keywords only.")
@_everything
@common
def search(
    *,
    query: str,
    max_sessions: int,
    max_results: int,
    ranking: str,
    now: str | None,
    own: bool,
    everything: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """Search messages of earlier sessions.

    QUERY can contain "phrases" and the filters by:, after:, before: and path:. by:user finds what you
    said, by:assistant what an agent said, by:tool what a tool printed.
    """
    memory = open_memory()
    answer = memory.sessions.search(
        query,
        max_sessions=max_sessions,
        max_results=max_results,
        ranking=ranking,
        own=own,
        all=everything,
        now=now,
    )
    found = answer.hits
    if as_json:
        output.as_json(to_json.hits_json, answer)
        return
    show_hits(found)
    if not found:
        output.line("nothing found")
    if not everything and all(each.match == "weak" for each in found):
        show_elsewhere(memory, query, "vade sessions search --all", found_here=bool(found), now=now)
    for note in (*answer.notes, *answer.degraded):
        output.error(note)


def show_elsewhere(memory: Memory, query: str, command: str, *, found_here: bool, now: str | None) -> None:
    """Print how many sessions of other projects may answer, and the command that shows them.

    Without a match anywhere, an answer about nothing names the sessions that it did not cover.
    """
    if found := memory.sessions.search_elsewhere(query, max_results=1000, now=now):
        sessions = output.plural(len({each.session for each in found}), "session")
        output.line(f"{sessions} of other projects may answer: `{command}`")
    elif not found_here and not memory.settings.incognito and (count := memory.sessions.count_elsewhere()):
        sessions = output.plural(count, "session")
        output.line(f"`vade sessions search --all` searches {sessions} of other projects.")


def show_hits(found: Sequence[Hit]) -> None:
    """Print messages of sessions with their place, their speaker and the part that matches."""
    for number, each in enumerate(found):
        if number:
            output.line()
        title = f" · {each.title}" if each.title else ""
        sure = each.match or f"{each.score:.1f}"
        output.line(
            f"{each.session}#L{each.line} · turn {each.turn} · {each.role} · {each.time[:10]} · {sure}{title}"
        )
        output.line("\n".join(f"  {line}" for line in each.preview.split("\n")))


@sessions.command()
@click.argument("which", metavar="ID|NAME")
@click.argument("place", metavar="LINE|ID")
@click.option("--lines", type=click.IntRange(1), default=1, show_default=True, help="How many lines.")
@_everything
@common
def get(
    *, which: str, place: str, lines: int, everything: bool, as_json: bool, open_memory: OpenMemory
) -> None:
    """Print messages of a session in full."""
    found = open_memory().sessions.get(which, place, lines=lines, all=everything)
    if as_json:
        output.as_json(to_json.session_lines_json, lines=found)
    elif not found:
        output.error("the session ends before that line")
    for each in found if not as_json else ():
        _show_hits(each, whole=True)


def _show_hits(line: Line, *, whole: bool) -> None:
    from vademecum.transcripts.export import format_line

    for note in format_line(line, whole=whole):
        output.line(note)


@sessions.command()
@click.argument("which", metavar="[ID|NAME]", required=False)
@common
def distill(which: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Let the model of `capture.model` propose what to remember.

    It reads a session, by default the newest one. What the session supports waits in `vade review`.
    """
    memory = open_memory()
    memory.workspace.may_decide("let a model read a session", "vade sessions distill")
    found = memory.sessions.list()
    if which is None and not found:
        raise NotFound("this project has no session")
    session = memory.sessions.open(which).session if which else found[0].id
    result = memory.heard.distill(session)
    if as_json:
        output.as_json(to_json.distilled_json, result, session=session)
        return
    show_distilled(session, result)


@sessions.command("import")
@click.argument("path", required=False, type=click.Path())
@click.option("--all", "everything", is_flag=True, help="All sessions in the agents' own folders.")
@click.option(
    "--project",
    metavar="NAME|PATH",
    default="",
    help="The project for sessions whose folder is gone and whose repository is unknown.",
)
@common
def import_(
    *, path: str | None, everything: bool, project: str, as_json: bool, open_memory: OpenMemory
) -> int:
    """Import transcripts of other agents; originals stay.

    Sessions of a folder that is gone, such as a deleted worktree, join the project whose repository their
    transcripts show; `vade undo` reverts that.
    """
    if (path is None) is not everything:
        raise click.UsageError("give a file or folder, or --all for the agents' own folders")
    memory = open_memory()
    if project:
        memory.projects.find(project)  # a wrong name ends the command before anything is imported
    with output.progress("sessions that are in stay; run it again for the rest") as step:
        found = list(memory.sessions.import_all(path, progress=step))
    joins = memory.sessions.join_folders(found, project=project)
    if as_json:
        given = {"imported": found, "joined": joins.joined, "left": joins.left, "run": joins.run}
        output.as_json(to_json.sessions_imported_json, **given)
    else:
        show_imported(found, {each.id for each in memory.sessions.list()})
        show_joins(joins)
        if joins.left and (chosen := _ask_project(joins.left)):
            show_joins(memory.sessions.join_folders(found, project=chosen))
    return 1 if any(each.outcome == "failed" for each in found) else 0


def _ask_project(left: Sequence[JoinedFolder]) -> str:
    """Ask a person for the project of the folders that are left.

    Without a terminal, or when no session is new and the person was asked before, name the option instead.
    """
    sessions = output.plural(sum(each.sessions for each in left), "session")
    folders = "a folder that is gone" if len(left) == 1 else f"{len(left)} folders that are gone"
    if not any(each.new for each in left) or sys.stdin is None or not sys.stdin.isatty():
        output.line(f"{sessions} of {folders} joined no project: --project NAME puts them into one")
        return ""
    output.line(f"\n{sessions} of {folders} joined no project, because nothing shows their repository:")
    output.table([[str(each.sessions), each.folder] for each in left], ["sessions", "folder"])
    question = "Their project, by name or path (empty keeps them apart)"
    return str(click.prompt(question, default="", show_default=False)).strip()


@sessions.command()
@click.argument("which", metavar="ID|NAME")
@click.argument("path", metavar="FILE", type=click.Path())
@click.option("--force", is_flag=True, help="Overwrite an existing file.")
@_everything
@common
def export(
    *, which: str, path: str, force: bool, everything: bool, as_json: bool, open_memory: OpenMemory
) -> None:
    """Export a session as .html, .md or .jsonl."""
    made = open_memory().sessions.export(which, path, all=everything, force=force)
    output.show(as_json, f"wrote {made}", to_json.path_json, path=made)


@sessions.command()
@click.argument("which", metavar="ID|NAME")
@click.argument("name", metavar="NEW-NAME")
@_everything
@common
def rename(which: str, name: str, everything: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Rename a session."""
    log = open_memory().sessions.rename(which, name, all=everything)
    text = f"{log.session} is now called {name}"
    output.show(as_json, text, to_json.session_renamed_json, session=log.session, name=name)


@sessions.command()
@click.argument("which", metavar="ID|NAME")
@click.option(
    "--window",
    type=click.IntRange(1000),
    help="The model's context window, in tokens.  [default: the session's size, which removes half]",
)
@click.option("--dry-run", "dry", is_flag=True, help="Show what would be removed; change nothing.")
@_everything
@common
def trim(
    *, which: str, window: int | None, dry: bool, everything: bool, as_json: bool, open_memory: OpenMemory
) -> None:
    """Summarize all but the newest messages of a session.

    The session then resumes with a smaller context window. Nothing is removed from its log.
    """
    before, made = open_memory().sessions.trim(which, window=window, all=everything, dry=dry)
    gone, after = len(made.trimmed), made.tokens.total
    if as_json:
        applied = not dry and bool(made.trimmed or made.cut)
        given = {"session": which, "window": window, "before": before, "after": after, "applied": applied}
        output.as_json(to_json.trimmed_json, made, **given)
    elif not gone and not made.cut:
        enough = f"few enough for a window of {window:,}" if window else "all new"
        output.line(f"nothing to trim: its {before:,} tokens are {enough}")
    else:
        verb = "would leave" if dry else "left"
        output.line(
            f"{output.plural(gone, 'message')} {verb} the window: {before:,} → {after:,} tokens;"
            " the log has all of them"
        )


def show_imported(found: Sequence[ImportedSession], own: Collection[str]) -> None:
    """Print the result of an import: new and updated sessions, failures, and how many are not this project's.

    `own` are the ids of this project's sessions.
    """
    for each in found:
        if each.outcome in ("new", "grown"):
            missing = f", {output.plural(each.unread, 'line')} not understood" if each.unread else ""
            count = output.plural(each.added, "message")
            output.line(f"{each.outcome:<6}{each.session}  {count}{missing}  {each.path}")
        elif each.outcome in ("failed", "purged"):
            output.error(f"{each.path}: {each.why}")
    counts = {
        name: sum(each.outcome == name for each in found)
        for name in ("new", "grown", "same", "empty", "purged", "failed")
    }
    output.line(
        ", ".join(f"{count} {name}" for name, count in counts.items() if count) or "no transcript found"
    )
    elsewhere = sum(each.outcome in ("new", "grown") and each.session not in own for each in found)
    if elsewhere:
        output.line(
            f"{output.plural(elsewhere, 'session')} of other projects: `vade sessions list --all` lists all,"
            " `vade search --all` searches them too"
        )


def show_joins(joins: JoinedFolders) -> None:
    """Print which folders that no longer exist were joined to which project, and how to undo that."""
    for each in joins.joined:
        count = output.plural(each.sessions, "session")
        output.line(f"joined {each.folder} ({count}) to {each.project}: {each.why}")
    if joins.joined:
        output.line(f"`vade undo {joins.run}` separates them again")


_WIDEST = 100
_STEPS = 12  # of a long session, the last ones


@click.group()
@common
def context(as_json: bool, open_memory: OpenMemory) -> None:
    """Inspect a context window."""


@context.command()
@click.argument("source", metavar="FILE|ID|NAME")
@click.option(
    "--window",
    type=click.IntRange(1000),
    default=200_000,
    show_default=True,
    help="The model's context window, in tokens.",
)
@click.option("--model", default="", metavar="NAME", help="The model whose token ratio to use.")
@common
def inspect(source: str, window: int, model: str, as_json: bool, open_memory: OpenMemory) -> None:
    """Show how a transcript fits a context window.

    FILE is a transcript of any format that `vade sessions import` reads, or a session of your own by its
    id or name. It is replayed answer by answer, at its original times. Nothing is written.
    """
    with output.progress() as step:
        found = open_memory().sessions.trial(source, window=window, model=model, progress=step)
    output.show(as_json, partial(show_trial, found), to_json.trial_json, found)


def show_trial(found: DryRun) -> None:
    """Print a trial for people: the bar, the sections, the steps and the summary."""
    source, tokens = found.source, found.window.tokens
    model = f" · {source.model}" if source.model else ""
    output.line(f"{source.name} · {source.format}{model}")
    count = output.plural(len(source.messages), "message")
    output.line(f"{count}, {found.tokens:,} tokens in all; a window of {tokens.context:,}\n")
    shares = to_json.shares_of(found)
    draw_bar(shares)
    output.line()
    output.table(
        [
            [share.sign, share.name, f"{share.tokens:>9,}", f"{share.tokens / tokens.context:>6.1%}"]
            for share in shares
            if share.tokens
        ],
        [" ", "section", "tokens", "share"],
    )
    at = found.window.points
    output.line(f"\nflush at {at.flush:,}, trim at {at.trim:,} down to {at.target:,}, limit {at.limit:,}")
    pruned = output.plural(len(found.pruned), "result")
    output.line(f"pruned   {pruned}, {found.pruned_chars:,} characters")
    cycles = output.plural(found.window.cycles, "cycle")
    output.line(f"trimmed  {output.plural(found.trimmed, 'message')} in {cycles}")
    output.line(f"flushed  {output.plural(found.flushes, 'time')}, if there is a model")
    steps = [step for step in found.steps if step.trimmed or step.cut or step.flushed]
    if steps:
        output.line()
        if len(steps) > _STEPS:
            output.line(f"the last {_STEPS} of {len(steps)} times:")
        output.table(
            [
                [
                    str(step.message),
                    step.why or "flush",
                    str(step.pruned or "-"),
                    str(step.trimmed or "-"),
                    str(step.cut or "-"),
                    f"{step.tokens:,}",
                ]
                for step in steps[-_STEPS:]
            ],
            ["message", "why", "pruned", "left", "cut", "tokens then"],
        )
    if found.full:
        output.line(f"\nit could not continue: {found.full}")
    if found.window.summary:
        output.line(f"\nsummary of the rest ({tokens.summary:,} tokens):\n")
        output.line("\n".join(f"  {line}" for line in found.window.summary.split("\n")))


def draw_bar(shares: Sequence[to_json.Share]) -> None:
    """Print the sections as one bar, coloured on a terminal, in letters elsewhere."""
    width = min(shutil.get_terminal_size().columns - 2, _WIDEST)
    cells = share_cells([share.tokens for share in shares], width)
    if not (sys.stdout.isatty() and "NO_COLOR" not in os.environ):
        bar = "".join(share.sign * count for share, count in zip(shares, cells, strict=True))
        output.line(f"[{bar}]")
        return
    from rich.console import Console
    from rich.text import Text

    text = Text()
    for share, count in zip(shares, cells, strict=True):
        text.append(share.sign * count, style=f"{share.colour} reverse" if share.sign not in ".-" else "dim")
    Console().print(text)


def share_cells(amounts: Sequence[int], width: int) -> list[int]:
    """Return how many of `width` cells each amount gets: its share, and at least one if it is not zero."""
    total = sum(amounts)
    if total <= 0 or width <= 0:
        return [0] * len(amounts)
    cells = [max(amount * width // total, 1) if amount > 0 else 0 for amount in amounts]
    while sum(cells) > width and max(cells) > 1:
        cells[cells.index(max(cells))] -= 1
    left = width - sum(cells)
    by_rest = sorted(range(len(amounts)), key=lambda at: (-(amounts[at] * width % total), at))
    for at in [each for each in by_rest if amounts[each] > 0][:left]:
        cells[at] += 1
    cells[cells.index(max(cells))] += max(width - sum(cells), 0)
    return cells
