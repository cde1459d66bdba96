"""Commands that save, remove and restore."""

from __future__ import annotations

import os
import sys
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import NotFound, SecretFound, VadeError
from vademecum.interfaces.cli.options import (
    CONFIDENCE,
    JOURNALS,
    MODE,
    SCOPES,
    SLUG,
    TAGS,
    TYPES,
    common,
    common_but,
    complete_keys,
    confirmed,
    key_argument,
    scope_option,
)
from vademecum.interfaces.present import output
from vademecum.interfaces.present.output import discard, from_editor
from vademecum.interfaces.present.safe import find_secrets
from vademecum.interfaces.present.to_text import show_merged, show_purged, show_tombstones, tell_purged
from vademecum.stand_ins import LazyModule
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.interfaces.cli.options import Door
    from vademecum.interfaces.present import to_json
    from vademecum.memory import Memory
    from vademecum.memory.values import Purge
    from vademecum.types import Swept
else:
    to_json = LazyModule("vademecum.interfaces.present.to_json")


_ORIGINS = click.Choice([str(each) for each in Origin])


class TextCommand(click.Command):
    """A command whose text may begin with a dash, as an item of a list does."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Put such a text behind `--`, where it cannot be taken for an option."""
        valued = {
            name for param in self.params if not getattr(param, "is_flag", False) for name in param.opts
        }
        for index, word in enumerate(args):
            if word == "--":
                break
            is_value = index > 0 and args[index - 1] in valued
            if word.startswith("-") and any(each.isspace() for each in word) and not is_value:
                args = [*args[:index], *args[index + 1 :], "--", word]
                break
        return super().parse_args(ctx, args)


TEAM = click.option("--team", metavar="NAME", help="Save it in the memory that this team shares.")


@click.command(cls=TextCommand)
@click.argument("text", metavar="TEXT|-")
@click.option(
    "--key",
    help="The record to add to; without it, the text joins a matching record or creates one.",
    shell_complete=complete_keys,
)
@SLUG
@click.option("--scope", type=SCOPES, default="project", show_default=True, help="The scope.")
@click.option("--type", type=TYPES, help="What it is.  [default: project]")
@TAGS
@MODE
@CONFIDENCE
@click.option("--protected", is_flag=True, help="Never archive it automatically.")
@TEAM
@common
def store(text: str, protected: bool, as_json: bool, door: Door, **given: Any) -> None:
    """Save TEXT as a memory; `-` reads standard input."""
    save_record(door(), text, protected=protected, as_json=as_json, **given)


def save_record(memory: Memory, text: str, *, protected: bool, as_json: bool, **given: Any) -> None:
    """Save a text as a memory, and say what became of it."""
    stored = memory.store(read_text(text), protected=protected or None, **given)
    if as_json:
        output.as_json(to_json.stored_json, stored)
        return
    words = {
        "created": "saved as",
        "appended": "added to",
        "replaced": "replaced the last entry of",
        "confirmed": "confirmed",
        "consolidated": "merged into",
        "waiting": "saved next to the user's text in",
    }
    where = f"{stored.place.scope}{f', team:{stored.team}' if stored.team else ''}"
    output.line(f"{words[stored.outcome]} {stored.key} (#{stored.num}, {where})")
    tell_purged(stored.purged)
    show_merged(stored.merged)
    tell_swept(stored.swept, memory)
    if stored.approval:
        output.line(f"the replacement is pending: `vade approve yes {stored.approval[:12]}`")
    warn_of_secrets(stored.secrets, memory, stored.place.scope)


@click.command(cls=TextCommand)
@click.argument("text", metavar="[TEXT|-]", required=False)
@click.option("--scope", type=JOURNALS, default="project", show_default=True, help="The journal to use.")
@common
def note(text: str | None, scope: str, as_json: bool, door: Door) -> None:
    """Add TEXT to today's journal, or show today's notes.

    `-` reads TEXT from standard input.
    """
    memory = door()
    if text is None:
        show_notes(memory, scope, as_json=as_json)
        return
    save_note(memory, text, scope, as_json=as_json)


def save_note(memory: Memory, text: str, scope: str, *, as_json: bool) -> None:
    """Add a text to today's journal, and say where it went."""
    noted = memory.note(read_text(text), scope=scope)
    if as_json:
        output.as_json(to_json.noted_json, noted)
        return
    output.line(f"noted in {noted.path}")
    tell_purged(noted.purged)
    warn_of_secrets(noted.secrets, memory, scope)


@click.command()
@click.argument("key", metavar="KEY|NUM|DOCUMENT", shell_complete=complete_keys)
@scope_option("The scope.")
@common
def edit(key: str, scope: str | None, as_json: bool, door: Door) -> None:
    """Edit a record in your editor.

    Also MEMORY.md, context.md and profile.md.

    Checks the new text before it replaces the old one, which is archived. If the text is
    invalid, the error names a file that contains it.
    """
    memory = door()
    path, before = memory.care.editable(key, scope=scope)
    kinds = sorted({each.kind for each in find_secrets(before)})
    if kinds and not output.for_a_person(memory):
        raise SecretFound(
            f"{path} holds what looks like a secret ({', '.join(kinds)}), so it is not shown here",
            hint="edit it in a terminal",
        )
    if kinds:
        output.error(f"{path} holds what looks like a secret ({', '.join(kinds)})")
    after, draft = from_editor(before, os.path.basename(path), quiet=as_json)
    if after is None or after == before:
        if draft:
            discard(draft)
        output.tell(as_json, "nothing changed", to_json.unchanged_json, path=path, changed=False)
        return
    try:
        found = memory.care.edited(key, before, after, scope=scope)
    except VadeError as error:
        raise type(error)(f"{error}; your text is kept in {draft}", hint=error.hint) from error
    discard(draft)
    if as_json:
        output.as_json(to_json.edited_json, path=path, changed=True, secrets=found)
        return
    output.line(f"saved {path}")
    warn_of_secrets(found, memory, scope or "project")


@click.command()
@key_argument()
@click.option("--off", is_flag=True, help="Remove the protection.")
@scope_option("The scope.")
@common
def protect(key: str, off: bool, scope: str | None, as_json: bool, door: Door) -> None:
    """Protect a record from automatic removal.

    It is never archived because of its age or the number of records.
    """
    record = door().review.protect(key, scope=scope, on=not off)
    text = f"{record.key} is {'no longer ' if off else ''}protected"
    output.tell(as_json, text, to_json.protected_json, record)


def read_text(text: str) -> str | bytes:
    """The argument itself, or all of standard input for `-`."""
    if text != "-":
        return text
    if sys.stdin is None or sys.stdin.isatty():
        output.error("reading standard input; end with Ctrl-D")
    return b"" if sys.stdin is None else sys.stdin.buffer.read()


def show_notes(memory: Memory, scope: str, *, as_json: bool) -> None:
    """Print the notes of today."""
    found = memory.notes_of_today(scope=scope)
    if as_json:
        output.as_json(to_json.notes_json, found)
    elif found.text:
        output.line(f"{found.path}\n\n{found.text}")
    else:
        output.line("no notes today: `vade note TEXT` adds one")


def tell_swept(swept: Swept | None, memory: Memory) -> None:
    """Say what a store moved to the archive, and how to undo that."""
    if swept is not None:
        output.line(swept.message)
        memory.care.saw_notices()


def warn_of_secrets(kinds: tuple[str, ...], memory: Memory, scope: str) -> None:
    """Say what the secret gate saw, by type, and what became of it."""
    if not kinds:
        return
    from vademecum.types import Scope, SecretPolicy

    warned = memory.settings.secrets.in_scope(Scope(scope)) is SecretPolicy.WARN
    done = "was saved, because `secrets.policy` allows it" if warned else "was redacted"
    output.error(f"a secret {done}: {', '.join(kinds)}")


# ---------------------------------------------------------------- taking away, bringing back

YES = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command()
@click.argument("names", metavar="[KEY|NUM]...", nargs=-1, shell_complete=complete_keys)
@scope_option("The scope of the record.")
@click.option("--match", metavar="FILTER", help="All records that match, such as `tag:old before:2026-01`.")
@YES
@common
def forget(
    *, names: tuple[str, ...], scope: str | None, match: str | None, yes: bool, as_json: bool, door: Door
) -> None:
    """Move a record to the archive.

    Takes several keys, or a filter whose matches are shown first. `vade restore KEY` restores one;
    `vade undo` restores all that were archived together.
    """
    if not names and match is None:
        raise click.UsageError("Name the records to forget, or pass --match FILTER.")
    memory = door()
    if len(names) != 1 or match is not None:
        forget_many(memory, names, scope, match, yes=yes, as_json=as_json)
        return
    record = memory.show(names[0], scope=scope)
    confirmed(f"Forget {record.key} ({record.place.scope}): {output.plain(record.text)[:80]!r}?", yes=yes)
    forgotten = memory.forget(names[0], scope=scope)
    text = f"forgot {forgotten.key}; `vade restore {forgotten.key}` restores it"
    output.tell(as_json, text, to_json.brief_json, forgotten)


def forget_many(
    memory: Memory,
    names: tuple[str, ...],
    scope: str | None,
    match: str | None,
    *,
    yes: bool,
    as_json: bool,
) -> None:
    """Show records and archive them as one run, after a question."""
    from vademecum.interfaces.cli.everyday import show_chosen

    chosen = list(memory.care.select(names, match=match, scope=scope))
    if not chosen:
        raise NotFound("no record matches", hint="`vade list` shows what is here")
    if not yes:
        show_chosen(chosen)
    confirmed(f"Forget {output.plural(len(chosen), 'record')}?", yes=yes)
    gone = list(memory.archive.forget_all(names, match=match, scope=scope))
    text = f"forgot {output.plural(len(gone), 'record')}; `vade undo` restores them"
    output.tell(as_json, text, to_json.cleared_json, cleared=gone)


@click.command()
@click.argument("name", metavar="KEY|NUM|ID")
@scope_option("The scope it was in.")
@common
def restore(name: str, scope: str | None, as_json: bool, door: Door) -> None:
    """Restore a record or an earlier version.

    Restores a forgotten record, an earlier version by its id, or entries that an edit removed. To undo a
    whole run, such as an import, use `vade undo`.
    """
    record = door().restore(name, scope=scope)
    output.tell(as_json, f"restored {record.key} ({record.place.scope})", to_json.brief_json, record)


@click.command()
@click.option("--scope", type=SCOPES, required=True, help="The scope to empty.")
@click.option("--include-protected", is_flag=True, help="Include protected records.")
@YES
@common
def clear(scope: str, include_protected: bool, yes: bool, as_json: bool, door: Door) -> None:
    """Move all records of a scope to the archive."""
    memory = door()
    chosen = [each for each in memory.list(scope=scope).records if include_protected or not each.protected]
    if chosen:
        confirmed(f"Forget {output.plural(len(chosen), 'record')} of {chosen[0].place}?", yes=yes)
    cleared = memory.archive.clear(scope=scope, protected=include_protected)
    back = "; `vade undo` restores all, `vade restore KEY` one" if cleared else ""
    text = f"forgot {output.plural(len(cleared), 'record')}{back}"
    output.tell(as_json, text, to_json.cleared_json, cleared=cleared)


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
    door: Door,
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
    memory = door()
    if listing:
        stones = memory.archive.tombstones()
        output.tell(as_json, partial(show_tombstones, stones), to_json.tombstones_json, tombstones=stones)
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
        output.tell(as_json and dry_run, partial(show_purged, seen), to_json.purged_json, seen)
        if dry_run or not any(each.gone for each in seen):
            return
    confirmed(f"Permanently delete {what}?", yes=yes)
    done = run()
    _tell_purge(done, as_json=as_json, wanted=text)
    _spread(memory, text, None if finish else done)


def _spread(memory: Memory, text: str | None, found: Purge | None) -> None:
    """Let a purge reach the other machines of synced memory, and say on how many it was carried out."""
    if memory.home.names("hub"):
        from vademecum.memory import sync as syncing

        for said in syncing.spread_purge(memory, text, found=found):
            output.error(said)


def _tell_purge(found: Purge, *, as_json: bool, wanted: str | None) -> None:
    if not (found or as_json or wanted is None):
        raise NotFound("no occurrence found")
    output.tell(as_json, partial(show_purged, found), to_json.purged_json, found)
