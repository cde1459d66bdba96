"""Commands that share records with a team, end that, or undo a member's changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from vademecum.interfaces.cli.everyday import show_changed
from vademecum.interfaces.cli.hub_trust import workspace_option
from vademecum.interfaces.cli.options import common, complete_keys, confirm, scope_option
from vademecum.interfaces.present import output, to_json
from vademecum.interfaces.present.to_text import show_skipped

if TYPE_CHECKING:
    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory.sync import UndoneAuthor, WrittenFile

_KEYS = click.argument("names", metavar="KEY|NUM...", nargs=-1, required=True, shell_complete=complete_keys)


@click.command()
@_KEYS
@click.option("--workspace", metavar="NAME", default="", help="The team, where there are several.")
@scope_option("The scope of the records.")
@common
def share(
    *, names: tuple[str, ...], workspace: str, scope: str | None, as_json: bool, open_memory: OpenMemory
) -> int:
    """Share private records with a team.

    They move to the team's memory and reach its members with the next sync. `vade undo` moves them back.
    """
    from vademecum.memory import sync as syncing

    memory = open_memory()
    joined = syncing.find_membership(memory.home, workspace, kind="team")
    done = syncing.share(memory, names, joined.workspace, scope)
    return show_changed(done, f"shared with {joined.name}", as_json=as_json)


@click.command()
@_KEYS
@scope_option("The scope of the records.")
@common
def unshare(names: tuple[str, ...], scope: str | None, as_json: bool, open_memory: OpenMemory) -> int:
    """Move records from a team's memory to your private one.

    The next sync removes them for the other members. Their history, and with it their text, stays on the hub.
    """
    from vademecum.memory import sync as syncing

    done = syncing.unshare(open_memory(), names, scope)
    left = show_changed(done, "moved to your private memory", as_json=as_json)
    if done.run and not as_json:
        output.line("the team's history keeps the text; an owner can purge it")
    return left


@click.command()
@click.argument("name")
@click.option("--archive", is_flag=True, help="Move the team's files to the archive.")
@common
def leave(name: str, archive: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Stop syncing with a workspace; its files stay.

    What you shared stays on the hub. The token is deleted on this machine. `vade hub revoke NAME` removes a
    member.
    """
    from vademecum.memory import sync as syncing

    memory = open_memory()
    joined, archived = syncing.leave_hub(memory, name, archive=archive)
    if as_json:
        output.as_json(to_json.hub_left_json, workspace=joined.workspace, name=joined.name, archived=archived)
        return
    output.line(f"left {joined.name}; nothing was deleted there")
    if archived:
        output.line(f"moved {output.plural(len(archived), 'file')} to the archive")


@click.command()
@click.option("--by", metavar="MEMBER", required=True, help="Who wrote it, or whose agents did.")
@click.option(
    "--since", metavar="TIME", required=True, help="Since when: 30min, 2h, 3d, yesterday, or a time."
)
@click.option("--dry-run", "dry", is_flag=True, help="Only list it.")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@workspace_option
@common
def undo(
    *, by: str, since: str, dry: bool, yes: bool, workspace: str, as_json: bool, open_memory: OpenMemory
) -> int:
    """Undo what a member wrote to a team since a time.

    For owners, after a token was stolen: revoke it first. Syncs, lists the files and asks. Entries get the
    text they had before, new ones go to the archive; what others wrote over it later stays. It reaches
    everybody with the next sync, as an edit of yours; `vade undo` reverts it.
    """
    from vademecum.memory import sync as syncing

    memory = open_memory()
    found = syncing.undo_author(memory, by, since, workspace, dry=True)
    files = found.found.files
    if not as_json:
        _show_files(found, by)
    if files and not dry and (yes or not as_json):
        confirm(f"Undo what {by} wrote in {output.plural(len(files), 'file')}?", yes=yes)
        found = syncing.undo_author(memory, by, found.since.isoformat(), workspace, dry=False)
    _show_undone(found, by, as_json=as_json)
    return int(found.done is not None and not all(each.done for each in found.done.told))


def _show_undone(found: UndoneAuthor, by: str, *, as_json: bool) -> None:
    """Print the result of undoing a member's changes."""
    run, results = (found.done.run, found.done.told) if found.done else ("", ())
    if as_json:
        output.as_json(
            to_json.hub_undone_json,
            by=by,
            since=found.since.isoformat(),
            run=run,
            files=[_count_files(file) for file in found.found.files],
            verifications=found.found.verifications,
            purges=found.found.purges,
            told=results,
        )
    elif run:
        count = output.plural(sum(result.done for result in results), "file")
        output.line(f"undone in {count}; `vade sync` sends it, `vade undo {run}` reverts it")
        show_skipped([result for result in results if not result.done])


def _count_files(each: WrittenFile) -> dict[str, str]:
    what = "archive" if each.after is None else "restore" if each.before is None else "change back"
    return {"place": str(each.place), "path": each.path, "what": what}


def _show_files(found: UndoneAuthor, by: str) -> None:
    """Print the files that a member changed, and what stays in them."""
    for each in map(_count_files, found.found.files):
        output.line(f"{each['what']:<12} {each['place']} {each['path']}")
    if not found.found.files:
        output.line(f"{by} has written nothing that stands since {found.since.isoformat()[:16]}")
    if found.found.verifications:
        count = output.plural(found.found.verifications, "verification")
        output.line(f"{count} of theirs stay: only {by} can withdraw them")
    if found.found.purges:
        output.line(f"{output.plural(found.found.purges, 'purge')} of theirs cannot be undone")


COMMANDS = (share, unshare, leave, undo)
