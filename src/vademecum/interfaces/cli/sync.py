"""Commands that sync memory with other machines."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import NotFound, UsageError, VadeError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.cli.sync_key import key
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from types import FrameType

    from vademecum.interfaces.cli.options import OpenMemory
    from vademecum.memory import Memory
    from vademecum.memory.sync import FolderSync, FolderSynced, HubSynced, Membership, PlaceSynced

_KEY = "VADE_SYNC_KEY"


@click.group(invoke_without_command=True)
@click.option(
    "--folder", metavar="PATH", type=click.Path(path_type=Path), help="A folder that your machines share."
)
@click.option("--accept-deletions", "accept", is_flag=True, help="Delete everywhere what is gone here.")
@click.option("--restore", is_flag=True, help="Restore here what is gone.")
@click.option("--workspace", metavar="NAME", default="", help="Which one, where several hubs were joined.")
@click.option("--watch", is_flag=True, help="Keep syncing: when something changes here or there.")
@click.option(
    "--every",
    metavar="SECONDS",
    type=click.IntRange(1),
    default=60,
    show_default=True,
    help="With --watch: how often to look where changes are not announced.",
)
@common
@click.pass_context
def sync(
    ctx: click.Context, /, *, folder: Path | None, as_json: bool, open_memory: OpenMemory, **given: Any
) -> None:
    """Sync memory with your other machines.

    They meet at a hub (`vade hub join`), or with --folder in a folder that something else carries: Syncthing,
    Dropbox, a network drive, a USB stick. The first machine shows a key; the others ask for it, or take it
    from VADE_SYNC_KEY.
    """
    if ctx.invoked_subcommand is not None:
        return
    if given["accept"] and given["restore"]:
        raise UsageError("--accept-deletions and --restore exclude each other")
    if given["watch"] and as_json:
        raise UsageError("--watch prints what it does line by line", hint="leave out `--json`")
    from vademecum.memory import sync as syncing

    memory = open_memory()
    deletions = True if given["accept"] else False if given["restore"] else None
    hub = folder is None and (given["workspace"] or syncing.has_hub(memory))
    if hub and given["watch"]:
        _watch_hubs(memory, given["workspace"], deletions, given["every"])
    elif hub:
        sync_hubs(memory, given["workspace"], deletions, as_json=as_json)
    elif given["watch"]:
        _watch_folder(memory, folder, deletions, given["every"])
    else:
        sync_folder(memory, folder, deletions, as_json=as_json)


def sync_hubs(memory: Memory, workspace: str, deletions: bool | None, *, as_json: bool) -> None:
    """Sync with hubs and, unless one workspace was named, through the folder."""
    from vademecum.memory import sync as syncing

    done = syncing.run_hubs(memory, workspace, deletions)
    shared = None if workspace else syncing.run_shared(memory, deletions)
    ended: list[HubSynced | FolderSynced] = [*done, *([shared] if shared else [])]
    failed = next((each.error for each in ended if each.error is not None), None)
    if as_json and failed is None:
        first = done[0].joined
        output.as_json(
            to_json.synced_json,
            folder=str(shared.joined.path) if shared else None,
            hub=first.url,
            workspace=first.workspace,
            key=None,
            ignored=shared.ignored if shared else [],
            places=[
                *(_count_changes(place, _format_team(one)) for one in done for place in one.places),
                *(_count_changes(each) for each in (shared.places if shared else ())),
            ],
            findings=[finding for one in ended for place in one.places for finding in place.findings],
        )
    elif not as_json:
        for one in done:
            _show_hub_sync(one, quiet=False, several=len(ended) > 1)
        if shared:
            _show_folder_sync(shared, quiet=False)
    if failed is not None and (as_json or len(ended) == 1):
        raise failed
    _fail_with(ended)


def _fail_with(ended: Sequence[HubSynced | FolderSynced]) -> None:
    """Print why each of several syncs failed and what to do, and return the exit code."""
    failed = [(_name(each), each.error) for each in ended if each.error is not None]
    for name, error in failed:
        output.error(f"{name}: {error}: {error.hint}")
    if failed:
        click.get_current_context().exit(1)


def _name(one: HubSynced | FolderSynced) -> str:
    return getattr(one.joined, "name", "folder")


def _show_hub_sync(one: HubSynced, *, quiet: bool, several: bool) -> None:
    """Print the result of a sync with one workspace."""
    team = _format_team(one)
    _show_places(one.places, f"team:{team}" if team else one.joined.name if several else "", quiet=quiet)
    if not quiet and one.error is None and not _is_notable(one.places, quiet=False):
        output.line(f"{one.joined.name}: nothing new{'' if one.places else '; there is nothing to sync yet'}")


def _show_folder_sync(one: FolderSynced, *, quiet: bool) -> None:
    """Print the result of a sync through the folder, after those with hubs."""
    _show_places(one.places, "folder", quiet=quiet)
    if not quiet and one.error is None and not _is_notable(one.places, quiet=False):
        output.line("folder: nothing new")
    _show_ignored(() if quiet else one.ignored)


def _is_notable(places: Sequence[PlaceSynced], *, quiet: bool) -> list[PlaceSynced]:
    return [place for place in places if _has_changes(place) or (place.findings and not quiet)]


def _show_places(places: Sequence[PlaceSynced], whose: str, *, quiet: bool) -> None:
    for each in _is_notable(places, quiet=quiet):
        _show_result(each, whose)


def _show_ignored(names: Sequence[str]) -> None:
    for name in names:
        output.line(f"ignored in the folder: {name} (a conflict copy)")


def _format_team(one: HubSynced) -> str:
    return one.joined.name if one.joined.kind == "team" else ""


def _has_changes(each: PlaceSynced) -> bool:
    done = each.done
    changed = done.sent or done.received or done.written or done.removed
    return bool(changed or done.archived or done.purged or done.held or done.refused or each.news)


def _watch_hubs(memory: Memory, workspace: str, deletions: bool | None, every: int) -> None:
    """Sync with hubs until interrupted; what fails is printed once and tried again."""
    from vademecum.memory import sync as syncing

    problems: dict[str, str] = {}
    stop = _stop_on_interrupt("syncing when a file or the hub changes; stop with Ctrl-C")
    for done in syncing.watch_hubs(memory, workspace, deletions, every=every, stop=stop):
        for one in done:
            _show_hub_sync(one, quiet=True, several=len(done) > 1)
            _show_problem(problems, one.joined.name, one.error)
        if shared := None if workspace else syncing.run_shared(memory, deletions):
            _show_folder_sync(shared, quiet=True)
            _show_problem(problems, "folder", shared.error)
        sys.stdout.flush()


def _watch_folder(memory: Memory, folder: Path | None, deletions: bool | None, every: int) -> None:
    """Sync through the folder until interrupted; what fails is printed once and tried again."""
    from vademecum.memory import sync as syncing

    problems: dict[str, str] = {}
    joined, key = syncing.join(memory, folder, _read_typed_key(memory, folder))
    _show_key(key)
    stop = _stop_on_interrupt(f"syncing when a file changes, and every {every} s; stop with Ctrl-C")
    for _ in syncing.watch_folder(memory, joined, every, stop):
        problem = None
        try:
            _run_folder(memory, joined, deletions, quiet=True)
        except VadeError as error:
            problem = error
        _show_problem(problems, str(joined.path), problem)
        sys.stdout.flush()


def _stop_on_interrupt(message: str) -> threading.Event:
    """Return an event that the first Ctrl-C sets; a second Ctrl-C does not wait for a sync to end."""
    import signal
    import threading

    stop = threading.Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.default_int_handler(number, frame)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    output.error(message)
    return stop


def _show_problem(known: dict[str, str], where: str, error: VadeError | None) -> None:
    """Print a problem of a workspace or folder when it begins, and once when it is over."""
    problem = str(error or "")
    if problem != known.get(where, ""):
        output.error(f"{where}: {problem or 'syncing again'}")
    known[where] = problem


def _read_typed_key(memory: Memory, folder: Path | None) -> str | None:
    from vademecum.memory import sync as syncing

    typed = os.environ.get(_KEY)
    if folder and not typed and sys.stdin.isatty() and syncing.needs_key(memory, folder):
        typed = click.prompt("key of that folder", hide_input=True, err=True)
    return typed


def _show_key(key: str) -> None:
    if key:
        output.line(f"key: {key}")
        output.line("Type it on your other machines: vade sync --folder PATH")


def _run_folder(memory: Memory, joined: FolderSync, deletions: bool | None, *, quiet: bool) -> None:
    from vademecum.memory import sync as syncing

    found, ignored = syncing.run(memory, joined, deletions)
    _show_places(found, "", quiet=quiet)
    if not quiet and not _is_notable(found, quiet=False):
        output.line("nothing new")
    _show_ignored([] if quiet else ignored)


def sync_folder(memory: Memory, folder: Path | None, deletions: bool | None, *, as_json: bool) -> None:
    """Sync through the folder."""
    from vademecum.memory import sync as syncing

    joined, key = syncing.join(memory, folder, _read_typed_key(memory, folder))
    if not as_json:
        _run_folder(memory, joined, deletions, quiet=False)
        _show_key(key)
        return
    found, ignored = syncing.run(memory, joined, deletions)
    output.as_json(
        to_json.synced_json,
        folder=str(joined.path),
        hub=None,
        workspace=joined.workspace,
        key=key or None,
        ignored=ignored,
        places=[_count_changes(each) for each in found],
        findings=[finding for one in found for finding in one.findings],
    )


sync.add_command(key)


@sync.command()
@common
def status(as_json: bool, open_memory: OpenMemory) -> None:
    """Show what is not sent yet, and what a hub refused."""
    from vademecum.memory import sync as syncing

    memory = open_memory()
    hubs = [
        _read_hub_status(memory, membership)
        for membership in syncing.membership.list_memberships(memory.home)
    ]
    state = _read_folder_status(memory, optional=bool(hubs))
    if as_json:
        output.as_json(to_json.sync_status_json, hubs=hubs, **state)
        return
    if state["folder"]:
        output.line(f"{state['folder']}{'' if state['reachable'] else ' (missing now)'}")
        output.line(describe_sent(state["unsent"], state["problems"]))
        for line in (*state["purges"], *state["problems"]):
            output.line(f"  {line}")
        if state["background"]:
            output.line(format_background(state["background"], state["background_problem"]))
    for hub in hubs:
        output.line(f"{hub['name']} ({hub['kind']})")
        format_sync_status(hub)


def _read_folder_status(memory: Memory, *, optional: bool) -> dict[str, Any]:
    """Return the sync state of the folder; None without a folder, if that is no failure."""
    from vademecum.memory import sync as syncing

    try:
        joined, unsent = syncing.status(memory)
    except NotFound:
        if not optional:
            raise
        empty = dict.fromkeys(("folder", "workspace", "reachable", "background", "background_problem"))
        return {**empty, "unsent": 0, "purges": [], "problems": []}
    return {
        "folder": str(joined.path),
        "workspace": joined.workspace,
        "reachable": joined.path.is_dir(),
        "unsent": unsent,
        "purges": syncing.tell_purged(syncing.purged_in_folder(memory)),
        "problems": [
            *syncing.read_problems(memory.home),
            *([] if joined.path.is_dir() else [f"{joined.path} is missing"]),
        ],
        **read_background(memory.home),
    }


def _read_hub_status(memory: Memory, joined: Membership) -> dict[str, Any]:
    """Return the local sync state of a workspace, without asking the hub."""
    from vademecum.memory import sync as syncing

    standing = syncing.read_standing(memory.home, joined)
    status = {each: getattr(joined, each) for each in ("name", "workspace", "kind")}
    status |= {"unsent": standing.unsent, "synced": standing.synced, "refused": list(standing.refused)}
    status["problems"] = syncing.read_problems(memory.home, joined.workspace)
    return status | read_background(memory.home, joined.workspace)


def describe_sent(unsent: int, problems: Sequence[str], refused: Sequence[str] = ()) -> str:
    """Return in a few words whether everything was sent and received."""
    if unsent:
        return f"{output.plural(unsent, 'change')} to send"
    if problems or refused:
        return "not everything is synced:"
    return "everything was sent"


def format_sync_status(each: dict[str, Any]) -> None:
    """Print lines about a workspace: what was sent, what was not and why, and the last background sync."""
    waits = describe_sent(each["unsent"], each["problems"], each["refused"])
    never = "never synced; `vade sync` syncs"
    output.line(f"  last sync {each['synced'][:16]}, {waits}" if each["synced"] else f"  {never}")
    refused = (f"not sent: {why}" for why in each["refused"])
    for line in (*each.get("purges", ()), *refused, *each["problems"]):
        output.line(f"  {line}")
    if each["background"]:
        output.line(f"  {format_background(each['background'], each['background_problem'])}")


def read_background(home: Any, *where: str) -> dict[str, Any]:
    """Return the time of the last background sync, and its problem."""
    from vademecum.memory import sync as syncing

    last = syncing.last_background(home, *where)
    return {
        "background": last.time if last else None,
        "background_problem": last.problem if last else None,
    }


def format_background(time: str, problem: str | None) -> str:
    """Return the result of the last background sync, in a line."""
    return f"last sync after a session: {time[:16]}, {problem or 'done'}"


@sync.command()
@click.option("--drop", metavar="ID", help="Delete one of them.")
@common
def held(drop: str | None, as_json: bool, open_memory: OpenMemory) -> None:
    """List texts that a purge on another machine has left open.

    They were edited here while another machine purged what they were made from: they are in no file and are
    not synced. Save or discard each with `vade review`; --drop deletes one permanently.
    """
    memory = open_memory()
    if drop is not None:
        memory.archive.drop_held(drop)
    found = memory.archive.held_texts()
    if as_json:
        output.as_json(to_json.held_texts_json, texts=found)
        return
    for each in found:
        output.line(f"{each.id}  {each.place} {each.path}, {each.at[:10]}")
        output.line("  " + "\n  ".join(each.text.splitlines()))
    if not found:
        output.line("no text is waiting")


@sync.command()
@common
def off(as_json: bool, open_memory: OpenMemory) -> None:
    """Stop syncing; all files stay."""
    from vademecum.memory import sync as syncing

    left = syncing.leave(open_memory())
    if as_json:
        output.as_json(to_json.sync_off_json, folder=str(left.path))
    else:
        output.line(f"{left.path} is no longer used; nothing was deleted here or there")


def _count_changes(each: PlaceSynced, team: str = "") -> dict[str, Any]:
    done = each.done
    return {
        "team": team,
        "place": each.stream,
        "sent": done.sent,
        "received": done.received,
        "written": done.written,
        "removed": done.removed,
        "conflicts": done.conflicts,
        "archived": done.archived,
        "refused": done.refused,
        "purged": done.purged,
        "held": done.held,
    }


def _show_result(each: PlaceSynced, whose: str = "") -> None:
    done = each.done
    place = f"{whose} {each.stream}" if whose else each.stream
    output.line(f"{place}: {output.plural(done.sent, 'change')} sent, {done.received} received")
    for path in done.conflicts:
        output.line(f"  two versions, both kept: {path}; decide with `vade review`")
    if done.purged:
        output.line(f"  purged: {done.purged} changes have no content any more")
    for path in done.held:
        output.line(f"  edited here and purged on another machine: {path}; decide with `vade review`")
    for path in done.archived:
        output.line(
            f"  edited there and removed here, or the other way round: {path}; the text is in the archive"
        )
    for line in done.refused:
        output.line(f"  not taken: {line}")
    for line in each.news:
        output.line(f"  {line}")
    for finding in each.findings:
        output.line(f"  not synced: {finding.where}: {finding.why}")
