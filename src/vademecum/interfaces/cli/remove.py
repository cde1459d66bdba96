"""Commands that take something away or bring it back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.errors import NotFound
from vademecum.interfaces.cli.options import SCOPES, common, confirmed, key_argument, scope_option
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import Door

YES = click.option("--yes", is_flag=True, help="Do not ask.")


@click.command()
@key_argument()
@scope_option("Where it is kept.")
@YES
@common
def forget(key: str, scope: str | None, yes: bool, as_json: bool, door: Door) -> None:
    """Move a record to the archive; `vade restore` brings it back."""
    memory = door()
    record = memory.show(key, scope=scope)
    confirmed(f"Forget {record.key} ({record.place.scope}): {output.plain(record.text)[:80]!r}?", yes=yes)
    forgotten = memory.forget(key, scope=scope)
    text = f"forgot {forgotten.key}; `vade restore {forgotten.key}` brings it back"
    output.tell(as_json, text, to_json.brief_json, forgotten)


@click.command()
@click.argument("name", metavar="KEY|NUM|ID")
@scope_option("Where it was kept.")
@common
def restore(name: str, scope: str | None, as_json: bool, door: Door) -> None:
    """Bring back a forgotten record, an earlier version, or entries that an edit took out."""
    record = door().restore(name, scope=scope)
    output.tell(as_json, f"restored {record.key} ({record.place.scope})", to_json.brief_json, record)


@click.command()
@click.option("--scope", type=SCOPES, required=True, help="The scope to empty.")
@click.option("--include-protected", is_flag=True, help="Protected records as well.")
@YES
@common
def clear(scope: str, include_protected: bool, yes: bool, as_json: bool, door: Door) -> None:
    """Move all records of a scope to the archive."""
    memory = door()
    chosen = [each for each in memory.list(scope=scope).records if include_protected or not each.protected]
    if chosen:
        confirmed(f"Forget {output.plural(len(chosen), 'record')} of {chosen[0].place}?", yes=yes)
    cleared = memory.archive.clear(scope=scope, protected=include_protected)
    back = "; `vade undo` brings all back, `vade restore KEY` one" if cleared else ""
    text = f"forgot {output.plural(len(cleared), 'record')}{back}"
    output.tell(as_json, text, to_json.cleared_json, cleared=cleared)


@click.command()
@click.argument("key", metavar="[KEY|NUM]", required=False)
@click.option("--text", help="Delete this text wherever it stands, instead of one record.")
@scope_option("Where the record is kept.")
@YES
@common
def purge(
    *, key: str | None, text: str | None, scope: str | None, yes: bool, as_json: bool, door: Door
) -> None:
    """Delete a record, or a text wherever it stands, for good: it cannot be brought back.

    Goes through records, journals, pinned documents, the archive and its copies. Attached sources are not
    ours to change: what is found there is only reported. What a disk or a backup keeps below the files is
    out of reach.
    """
    if (key is None) == (text is None):
        raise click.UsageError("Give either a KEY or --text TEXT.")
    memory = door()
    what = f"record {key}" if key is not None else f"every occurrence of {output.plain(text or '')[:60]!r}"
    confirmed(f"Delete {what} for good?", yes=yes)
    found = list(
        memory.archive.purge(key, scope=scope) if key is not None else memory.archive.purge_text(text or "")
    )
    if as_json:
        output.as_json(to_json.purged_json, found=found)
        return
    if not found:
        raise NotFound("that text stands nowhere in memory")
    for each in found:
        why = f": {each.why}" if each.why else ""
        output.line(f"{'deleted' if each.gone else 'NOT deleted'}: {each.where} ({each.count}){why}")
