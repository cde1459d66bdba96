"""Commands that edit, protect, archive, restore and delete records."""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import NotFound, SecretFound, VadeError
from vademecum.interfaces.cli.add import warn_of_secrets
from vademecum.interfaces.cli.options import (
    common,
    common_but,
    complete_keys,
    confirm,
    key_argument,
    scope_option,
)
from vademecum.interfaces.present import output
from vademecum.interfaces.present.output import discard_draft, edit_text
from vademecum.interfaces.present.safe import find_secrets
from vademecum.interfaces.present.to_text import show_purged, show_tombstones, warn_of_dropped
from vademecum.lazy import LazyModule
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.interfaces.present import to_json
    from vademecum.memory import Memory
    from vademecum.memory.values import Purge
else:
    to_json = LazyModule("vademecum.interfaces.present.to_json")


_ORIGINS = click.Choice([str(each) for each in Origin])


@click.command()
@click.argument("key", metavar="KEY|NUM|DOCUMENT", shell_complete=complete_keys)
@scope_option("The scope.")
@common
def edit(key: str, scope: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Edit a record in your editor.

    Also MEMORY.md, context.md and profile.md.

    Checks the new text before it replaces the old one, which is archived. If the text is
    invalid, the error names a file that contains it.
    """
    memory = open_memory()
    path, before = memory.care.editable(key, scope=scope)
    kinds = sorted({secret.kind for secret in find_secrets(before)})
    if kinds and not output.is_for_person(memory):
        raise SecretFound(
            f"{path} holds what looks like a secret ({', '.join(kinds)}), so it is not shown here",
            hint="edit it in a terminal",
        )
    if kinds:
        output.error(f"{path} holds what looks like a secret ({', '.join(kinds)})")
    after, draft = edit_text(before, os.path.basename(path), quiet=as_json)
    if after is None or after == before:
        if draft:
            discard_draft(draft)
        output.show(as_json, "nothing changed", to_json.unchanged_json, path=path, changed=False)
        return
    try:
        found = memory.care.edited(key, before, after, scope=scope)
    except VadeError as error:
        raise type(error)(f"{error}; your text is kept in {draft}", hint=error.hint) from error
    discard_draft(draft)
    if as_json:
        output.as_json(to_json.edited_json, found, path=path, changed=True)
        return
    output.line(f"saved {path}")
    warn_of_dropped(found.dropped)
    warn_of_secrets(found.secrets, memory, scope or "project")


@click.command()
@key_argument()
@click.option("--off", is_flag=True, help="Remove the protection.")
@scope_option("The scope.")
@common
def protect(key: str, off: bool, scope: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Protect a record from automatic removal.

    It is never archived because of its age or the number of records.
    """
    record = open_memory().review.protect(key, scope=scope, on=not off)
    text = f"{record.key} is {'no longer ' if off else ''}protected"
    output.show(as_json, text, to_json.protected_json, record)


# ---------------------------------------------------------------- taking away, bringing back

YES = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command()
@click.argument("names", metavar="[KEY|NUM]...", nargs=-1, shell_complete=complete_keys)
@scope_option("The scope of the record.")
@click.option("--match", metavar="FILTER", help="All records that match, such as `tag:old before:2026-01`.")
@click.option("--all", "everything", is_flag=True, help="All records of the --scope that are not protected.")
@click.option("--include-protected", is_flag=True, help="With --all: include protected records.")
@YES
@common
def forget(
    *,
    names: tuple[str, ...],
    scope: str | None,
    match: str | None,
    everything: bool,
    include_protected: bool,
    yes: bool,
    as_json: bool,
    open_memory: OpenMemory,
) -> None:
    """Move a record to the archive.

    Takes several keys, a filter whose matches are shown first, or --all with a --scope. `vade restore KEY`
    restores one record; `vade undo` restores all that were archived together.
    """
    if everything:
        if names or match is not None or scope is None:
            raise click.UsageError("--all requires --scope, and takes no KEY and no --match.")
        forget_scope(open_memory(), scope, include_protected=include_protected, yes=yes, as_json=as_json)
        return
    if include_protected:
        raise click.UsageError("--include-protected requires --all.")
    if not names and match is None:
        raise click.UsageError("Name the records to forget, or pass --match FILTER.")
    memory = open_memory()
    if len(names) != 1 or match is not None:
        forget_many(memory, names, scope, match, yes=yes, as_json=as_json)
        return
    record = memory.show(names[0], scope=scope)
    confirm(f"Forget {record.key} ({record.place.scope}): {output.plain(record.text)[:80]!r}?", yes=yes)
    forgotten = memory.forget(names[0], scope=scope)
    text = f"forgot {forgotten.key}; `vade restore {forgotten.key}` restores it"
    output.show(as_json, text, to_json.brief_json, forgotten)


def forget_scope(memory: Memory, scope: str, *, include_protected: bool, yes: bool, as_json: bool) -> None:
    """Archive all records of a scope as one run, after a question."""
    chosen = [
        record for record in memory.list(scope=scope).records if include_protected or not record.protected
    ]
    if chosen:
        confirm(f"Forget {output.plural(len(chosen), 'record')} of {chosen[0].place}?", yes=yes)
    cleared = memory.archive.clear(scope=scope, protected=include_protected)
    back = "; `vade undo` restores all, `vade restore KEY` one" if cleared else ""
    text = f"forgot {output.plural(len(cleared), 'record')}{back}"
    output.show(as_json, text, to_json.cleared_json, cleared=cleared)


def forget_many(
    memory: Memory,
    names: tuple[str, ...],
    scope: str | None,
    match: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Show records, ask, and archive them as one run."""
    from vademecum.interfaces.cli.everyday import show_chosen

    chosen = list(memory.care.select(names, match=match, scope=scope))
    if not chosen:
        raise NotFound("no record matches", hint="`vade list` shows what is here")
    if not yes:
        show_chosen(chosen)
    confirm(f"Forget {output.plural(len(chosen), 'record')}?", yes=yes)
    gone = list(memory.archive.forget_all(names, match=match, scope=scope))
    text = f"forgot {output.plural(len(gone), 'record')}; `vade undo` restores them"
    output.show(as_json, text, to_json.cleared_json, cleared=gone)


@click.command()
@click.argument("name", metavar="KEY|NUM|ID")
@scope_option("The scope it was in.")
@common
def restore(name: str, scope: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """Restore a record or a version.

    Restores a forgotten record, an earlier version by its id, or entries that an edit removed. To undo a
    whole run, such as an import, use `vade undo`.
    """
    record = open_memory().restore(name, scope=scope)
    output.show(as_json, f"restored {record.key} ({record.place.scope})", to_json.brief_json, record)


@click.command()
@click.argument("key", metavar="[KEY|NUM]", required=False)
@click.option("--text", help="Delete this text everywhere, instead of one record.")
@click.option("--origin", type=_ORIGINS, help="Delete everything with this origin.")
@click.option("--session", help="Delete everything this session wrote, and its transcript.")
@click.option("--agent", help="Delete everything this agent or program wrote.")
@click.option("--since", metavar="TIME", help="Only what was written at this time or later.")
@click.option("--until", metavar="TIME", help="Only what was written at this time or earlier.")
@click.option("--source", help="Delete everything imported from this system, file or folder.")
@scope_option("Only this scope.")
@click.option("--dry-run", is_flag=True, help="Show what would be deleted; delete nothing.")
@click.option("--prove", is_flag=True, help="Write a receipt, and block the text from being saved again.")
@click.option("--list", "listing", is_flag=True, help="List the tombstones that --prove wrote.")
@click.option("--finish", is_flag=True, help="Finish interrupted purges, and delete what reappeared.")
@YES
@common_but("agent", "session")
def purge(
    *,
    key: str | None,
    text: str | None,
    dry_run: bool,
    prove: bool,
    listing: bool,
    finish: bool,
    yes: bool,
    as_json: bool,
    open_memory: OpenMemory,
    **given: Any,
) -> None:
    """Permanently delete a record, text or session.

    It cannot be restored.

    Goes through records, journals, pinned documents, transcripts, the archive and its copies. Attached
    sources are never changed: matches there are only reported. Copies on the disk itself or in backups
    are out of reach. --origin, --session, --agent, --since, --until and --source can be
    combined: only what matches all of them is deleted.
    """
    by_origin = any(value for name, value in given.items() if name != "scope")
    if sum((key is not None, text is not None, by_origin, listing, finish)) != 1:
        raise click.UsageError(
            "Pass a KEY, --text TEXT, or a filter (--origin, --session, --agent,"
            " --since, --until, --source); or --list or --finish."
        )
    memory = open_memory()
    if listing:
        stones = memory.archive.tombstones()
        output.show(as_json, partial(show_tombstones, stones), to_json.tombstones_json, tombstones=stones)
        return
    run: Callable[..., Purge] = memory.archive.finish_purges
    what = "interrupted purges and what reappeared"
    if text is not None:
        run = partial(memory.archive.purge_text, text, prove=prove)
        what = f"every occurrence of {output.plain(text)[:60]!r}"
    elif not finish:
        run = partial(memory.archive.purge, key, prove=prove, **given)
        what = f"record {key}" if key is not None else "all of this"
    if dry_run or (by_origin and not yes):
        seen = run(dry_run=True)
        output.show(as_json and dry_run, partial(show_purged, seen), to_json.purged_json, seen)
        if dry_run or not any(each.gone for each in seen):
            return
    confirm(f"Permanently delete {what}?", yes=yes)
    done = run()
    _show_purge(done, as_json=as_json, wanted=text)
    _purge_elsewhere(memory, text, None if finish else done)
    if text is not None and done.remains:
        raise click.exceptions.Exit(REMAINS)


REMAINS = 3  # the exit code if the text is still in a place that a purge reaches


def _purge_elsewhere(memory: Memory, text: str | None, found: Purge | None) -> None:
    """Send a purge to the other machines of synced memory, and print how many carried it out."""
    if memory.home.names("hub"):
        from vademecum.memory import sync as syncing

        for message in syncing.spread_purge(memory, text, found=found):
            output.error(message)


def _show_purge(found: Purge, *, as_json: bool, wanted: str | None) -> None:
    if not (found or as_json or wanted is None):
        raise NotFound("no occurrence found")
    output.show(as_json, partial(show_purged, found), to_json.purged_json, found)
