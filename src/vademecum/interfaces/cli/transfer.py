"""The commands `import` and `export`."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.options import (
    NOTHING,
    AgentHelpCommand,
    AgentName,
    common,
    confirm,
    scope_option,
)
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.values import ExportedBundle, ImportReport

FORMATS = ("okf", "ltm", "html")
_SHOWN = 20  # printed lines of each kind


@click.command("import", cls=AgentHelpCommand)
@click.argument("system", metavar="SYSTEM", type=AgentName("memories"))
@click.argument("path", metavar="PATH", type=click.Path())
@click.option("--dry-run", "dry", is_flag=True, help="Show what would be imported; write nothing.")
@click.option("--verify", is_flag=True, help="Verify everything imported, so that agents see it; asks first.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@scope_option("Import everything into this scope.")
@common
def import_(
    *,
    system: str,
    path: str,
    dry: bool,
    verify: bool,
    yes: bool,
    scope: str | None,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """Import memory from another tool.

    The other tool's files are only read.

    SYSTEM is {memories}; PATH is its folder, one file, or an archive.
    """
    if verify and dry:
        raise click.UsageError("--verify and --dry-run exclude each other.")
    if yes and not verify:
        raise click.UsageError("--yes answers the question of --verify.")
    memory = open_memory()
    if verify:
        memory.workspace.may_decide("verify what is imported", "vade import --verify")
        confirm(f"Verify all that comes from {system}, without reviewing each text?", yes=yes)
    message = "what was imported stays, and `vade undo` reverts it; run it again for the rest"
    with output.progress(NOTHING if dry else message) as step:
        report = memory.transfer.import_from(system, path, scope=scope, apply=not dry, progress=step)
    sitting, verified = _verify_run(memory, report.run) if verify and report.run else ("", 0)
    if as_json:
        output.as_json(to_json.memory_imported_json, report, verified=verified)
        return
    show_import(report, verified=bool(sitting))
    if sitting:
        output.line(f"{output.plural(verified, 'text')} verified; `vade undo {sitting}` reverts it")
    for each in report.over:
        verb = "holds" if report.applied else "would hold"
        output.line(
            f"{each.place} {verb} {each.records:,} records, more than decay.max_count = {each.limit:,};"
            " imported records are never consolidated automatically, your own notes are. To raise the limit,"
            f" put `decay.max_count = {each.enough}` at the top of {memory.home.path / 'config.toml'}"
        )


@click.command("export")
@click.argument("form", metavar="FORMAT", type=click.Choice(FORMATS))
@click.argument("path", metavar="PATH", type=click.Path())
@scope_option("Only this scope.  [default: all visible; project for ltm]")
@click.option("--redact", is_flag=True, help="Redact secrets instead of failing.")
@click.option("--force", is_flag=True, help="Overwrite existing files.")
@common
def export(
    *,
    form: str,
    path: str,
    scope: str | None,
    redact: bool,
    force: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """Export memory as Markdown, JSON or one page.

    FORMAT is okf (a folder or archive of Markdown), ltm (lessons) or html (one page).

    An okf PATH that ends in .tar.gz becomes an archive, any other a folder.
    """
    with output.progress("nothing was written"):
        made = open_memory().transfer.export(path, format=form, scope=scope, redact=redact, force=force)
    output.show(as_json, partial(show_exported, made), to_json.exported_json, made)


def _verify_run(memory: Memory, run: str) -> tuple[str, int]:
    """Verify the texts that an import brought; return the sitting that `vade undo` reverts, and their
    number.
    """
    items = memory.review.selected(run=run)
    if not items:
        return "", 0
    sitting, decided = memory.review.decide(items, yes=True)
    return sitting, sum(each.done for each in decided)


def show_import(report: ImportReport, *, verified: bool = False) -> None:
    """Print the result of an import: new, known and skipped items."""
    come = [each for each in report.mapped if each.outcome != "same"]
    for each in come[:_SHOWN]:
        count = f" +{each.added}" if each.added > 1 else ""
        cut = f" (without {', '.join(each.secrets)})" if each.secrets else ""
        output.line(
            f"{each.outcome:<6}{each.kind:<8}{each.source} -> {each.path or 'a transcript'}{count}{cut}"
        )
    _more(len(come))
    for left in report.skipped[:_SHOWN]:
        output.line(f"left   {left.source}: {left.why}")
    _more(len(report.skipped))
    dropped = Counter(name for each in come for name in each.dropped)
    if dropped:
        named = ", ".join(f"{name} ({count:,})" for name, count in sorted(dropped.items()))
        output.line(f"without {named}: only you decide that here, with `vade protect` and `vade review`")
    counts = report.counts
    known, skipped = counts.pop("same"), counts.pop("skipped")
    counts_text = [output.plural(count, _WORDS[kind]) for kind, count in counts.items()] or ["nothing new"]
    counts_text += [f"{known:,} here already"] if known else []
    counts_text += [f"{skipped:,} left"] if skipped else []
    ending = "; nothing was written" if not report.applied else ""
    back = f"; `vade undo {report.run}` reverts it" if report.run else ""
    output.line(f"{', '.join(counts_text)}{ending}{back}")
    if report.applied and not verified and any(each.kind in ("record", "pinned", "journal") for each in come):
        output.line("search finds it now; agents see it once you verify it: `vade review`")


def show_exported(made: ExportedBundle) -> None:
    """Print the result of an export."""
    cut = f", without {', '.join(made.secrets)}" if made.secrets else ""
    output.line(f"wrote {made.path} ({output.plural(made.files, 'file')}{cut})")
    for where, why in made.skipped:
        output.line(f"left   {where}: {why}")


def _more(count: int) -> None:
    if count > _SHOWN:
        output.line(f"       … and {count - _SHOWN:,} more; --json lists all")


_WORDS = {"record": "record", "journal": "journal page", "pinned": "pinned document", "session": "session"}
