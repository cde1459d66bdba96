"""Commands that bring several machines together."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import NotFound, UsageError, VadeError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    import threading
    from collections.abc import Sequence
    from types import FrameType

    from vademecum.interfaces.cli.options import Door
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
def sync(ctx: click.Context, /, *, folder: Path | None, as_json: bool, door: Door, **given: Any) -> None:
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

    memory = door()
    deletions = True if given["accept"] else False if given["restore"] else None
    hub = folder is None and (given["workspace"] or syncing.has_hub(memory))
    if hub and given["watch"]:
        _watch_hubs(memory, given["workspace"], deletions, given["every"])
    elif hub:
        _sync_hub(memory, given["workspace"], deletions, as_json=as_json)
    elif given["watch"]:
        _watch_folder(memory, folder, deletions, given["every"])
    else:
        _sync_folder(memory, folder, deletions, as_json=as_json)


def _sync_hub(memory: Memory, workspace: str, deletions: bool | None, *, as_json: bool) -> None:
    """Sync with hubs and, unless one workspace was named, through the folder that is used beside them."""
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
                *(_told(each, _team(one)) for one in done for each in one.places),
                *(_told(each) for each in (shared.places if shared else ())),
            ],
            findings=[each for one in ended for place in one.places for each in place.findings],
        )
    elif not as_json:
        for one in done:
            _tell_hub(one, quiet=False, several=len(ended) > 1)
        if shared:
            _tell_folder(shared, quiet=False)
    if failed is not None and (as_json or len(ended) == 1):
        raise failed
    _tell_failed(ended)


def _tell_failed(ended: Sequence[HubSynced | FolderSynced]) -> None:
    """Say of each of several that could not be synced why, and what to do; the command has failed then."""
    failed = [(_name(each), each.error) for each in ended if each.error is not None]
    for name, error in failed:
        output.error(f"{name}: {error}: {error.hint}")
    if failed:
        click.get_current_context().exit(1)


def _name(one: HubSynced | FolderSynced) -> str:
    return getattr(one.joined, "name", "folder")


def _tell_hub(one: HubSynced, *, quiet: bool, several: bool) -> None:
    """What a sync with one workspace did."""
    team = _team(one)
    _tell_places(one.places, f"team:{team}" if team else one.joined.name if several else "", quiet=quiet)
    if not quiet and one.error is None and not _worth_telling(one.places, quiet=False):
        output.line(f"{one.joined.name}: nothing new{'' if one.places else '; there is nothing to sync yet'}")


def _tell_folder(one: FolderSynced, *, quiet: bool) -> None:
    """What a sync through the folder did, beside those with hubs."""
    _tell_places(one.places, "folder", quiet=quiet)
    if not quiet and one.error is None and not _worth_telling(one.places, quiet=False):
        output.line("folder: nothing new")
    _tell_ignored(() if quiet else one.ignored)


def _worth_telling(places: Sequence[PlaceSynced], *, quiet: bool) -> list[PlaceSynced]:
    return [each for each in places if _did_something(each) or (each.findings and not quiet)]


def _tell_places(places: Sequence[PlaceSynced], whose: str, *, quiet: bool) -> None:
    for each in _worth_telling(places, quiet=quiet):
        _tell(each, whose)


def _tell_ignored(names: Sequence[str]) -> None:
    for name in names:
        output.line(f"ignored in the folder: {name} (a conflict copy)")


def _team(one: HubSynced) -> str:
    return one.joined.name if one.joined.kind == "team" else ""


def _did_something(each: PlaceSynced) -> bool:
    done = each.done
    changed = done.sent or done.received or done.written or done.removed
    return bool(changed or done.archived or done.purged or done.held or each.news)


def _watch_hubs(memory: Memory, workspace: str, deletions: bool | None, every: int) -> None:
    """Sync with hubs until interrupted; what fails is printed once and tried again."""
    from vademecum.memory import sync as syncing

    said: dict[str, str] = {}
    stop = _until_interrupted("syncing when a file or the hub changes; stop with Ctrl-C")
    for done in syncing.watch_hubs(memory, workspace, deletions, every=every, stop=stop):
        for one in done:
            _tell_hub(one, quiet=True, several=len(done) > 1)
            _tell_problem(said, one.joined.name, one.error)
        if shared := None if workspace else syncing.run_shared(memory, deletions):
            _tell_folder(shared, quiet=True)
            _tell_problem(said, "folder", shared.error)
        sys.stdout.flush()


def _watch_folder(memory: Memory, folder: Path | None, deletions: bool | None, every: int) -> None:
    """Sync through the folder until interrupted; what fails is printed once and tried again."""
    from vademecum.memory import sync as syncing

    said: dict[str, str] = {}
    joined, key = syncing.join(memory, folder, _typed_key(memory, folder))
    _tell_key(key)
    stop = _until_interrupted(f"syncing when a file changes, and every {every} s; stop with Ctrl-C")
    for _ in syncing.watch_folder(memory, joined, every, stop):
        problem = None
        try:
            _run_folder(memory, joined, deletions, quiet=True)
        except VadeError as error:
            problem = error
        _tell_problem(said, str(joined.path), problem)
        sys.stdout.flush()


def _until_interrupted(told: str) -> threading.Event:
    """What is set by the first Ctrl-C; a second one does not wait for a sync to end."""
    import signal
    import threading

    stop = threading.Event()

    def interrupted(number: int, frame: FrameType | None) -> None:
        if stop.is_set():
            signal.default_int_handler(number, frame)
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, interrupted)
    output.error(told)
    return stop


def _tell_problem(said: dict[str, str], where: str, error: VadeError | None) -> None:
    """Say what is wrong with a workspace or folder when that begins, and once when it is over."""
    problem = str(error or "")
    if problem != said.get(where, ""):
        output.error(f"{where}: {problem or 'syncing again'}")
    said[where] = problem


def _typed_key(memory: Memory, folder: Path | None) -> str | None:
    from vademecum.memory import sync as syncing

    typed = os.environ.get(_KEY)
    if folder and not typed and sys.stdin.isatty() and syncing.needs_key(memory, folder):
        typed = click.prompt("key of that folder", hide_input=True, err=True)
    return typed


def _tell_key(key: str) -> None:
    if key:
        output.line(f"key: {key}")
        output.line("Type it on your other machines: vade sync --folder PATH")


def _run_folder(memory: Memory, joined: FolderSync, deletions: bool | None, *, quiet: bool) -> None:
    from vademecum.memory import sync as syncing

    found, ignored = syncing.run(memory, joined, deletions)
    _tell_places(found, "", quiet=quiet)
    if not quiet and not _worth_telling(found, quiet=False):
        output.line("nothing new")
    _tell_ignored([] if quiet else ignored)


def _sync_folder(memory: Memory, folder: Path | None, deletions: bool | None, *, as_json: bool) -> None:
    from vademecum.memory import sync as syncing

    joined, key = syncing.join(memory, folder, _typed_key(memory, folder))
    if not as_json:
        _run_folder(memory, joined, deletions, quiet=False)
        _tell_key(key)
        return
    found, ignored = syncing.run(memory, joined, deletions)
    output.as_json(
        to_json.synced_json,
        folder=str(joined.path),
        hub=None,
        workspace=joined.workspace,
        key=key or None,
        ignored=ignored,
        places=[_told(each) for each in found],
        findings=[each for one in found for each in one.findings],
    )


@sync.command()
@common
def status(as_json: bool, door: Door) -> None:
    """Show what is not sent yet, and what a hub refused."""
    from vademecum.memory import sync as syncing

    memory = door()
    hubs = [_hub_standing(memory, each) for each in syncing.membership.list_memberships(memory.home)]
    told = _folder_standing(memory, optional=bool(hubs))
    if as_json:
        output.as_json(to_json.sync_status_json, hubs=hubs, **told)
        return
    if told["folder"]:
        output.line(f"{told['folder']}{'' if told['reachable'] else ' (missing now)'}")
        waits = f"{output.plural(told['unsent'], 'change')} to send"
        output.line(waits if told["unsent"] else "everything was sent at the last sync")
        for said in told["purges"]:
            output.line(said)
        if told["background"]:
            output.line(tell_background(told["background"], told["background_problem"]))
    for each in hubs:
        output.line(f"{each['name']} ({each['kind']})")
        tell_standing(each)


def _folder_standing(memory: Memory, *, optional: bool) -> dict[str, Any]:
    """How it stands with the folder; without one, and where that is no failure, nothing."""
    from vademecum.memory import sync as syncing

    try:
        joined, unsent = syncing.status(memory)
    except NotFound:
        if not optional:
            raise
        told = dict.fromkeys(("folder", "workspace", "reachable", "background", "background_problem"))
        return {**told, "unsent": 0, "purges": []}
    return {
        "folder": str(joined.path),
        "workspace": joined.workspace,
        "reachable": joined.path.is_dir(),
        "unsent": unsent,
        "purges": syncing.tell_purged(syncing.purged_in_folder(memory)),
        **read_background(memory.home),
    }


def _hub_standing(memory: Memory, joined: Membership) -> dict[str, Any]:
    """How it stands with a workspace of a hub, which is not asked."""
    from vademecum.memory import sync as syncing

    standing = syncing.read_standing(memory.home, joined)
    told = {each: getattr(joined, each) for each in ("name", "workspace", "kind")}
    told |= {"unsent": standing.unsent, "synced": standing.synced, "refused": list(standing.refused)}
    return told | read_background(memory.home, joined.workspace)


def tell_standing(each: dict[str, Any]) -> None:
    """Lines about a workspace of a hub: what was sent, what is not and why, and the last sync by itself."""
    waits = f"{output.plural(each['unsent'], 'change')} to send" if each["unsent"] else "everything was sent"
    never = "never synced; `vade sync` syncs"
    output.line(f"  last sync {each['synced'][:16]}, {waits}" if each["synced"] else f"  {never}")
    for said in (*each.get("purges", ()), *(f"not sent: {why}" for why in each["refused"])):
        output.line(f"  {said}")
    if each["background"]:
        output.line(f"  {tell_background(each['background'], each['background_problem'])}")


def read_background(home: Any, *where: str) -> dict[str, Any]:
    """When the last sync that ran by itself was, and what was wrong then."""
    from vademecum.memory import sync as syncing

    last = syncing.last_background(home, *where)
    return {
        "background": last.time if last else None,
        "background_problem": last.problem if last else None,
    }


def tell_background(time: str, problem: str | None) -> str:
    """What came of the last sync that ran by itself, in a line."""
    return f"last sync after a session: {time[:16]}, {problem or 'done'}"


@sync.command()
@click.option("--drop", metavar="ID", help="Delete one of them.")
@common
def held(drop: str | None, as_json: bool, door: Door) -> None:
    """List texts that a purge on another machine has left open.

    They were edited here while another machine purged what they were made from: they are in no file and are
    not synced. Save or discard each with `vade review`; --drop deletes one permanently.
    """
    memory = door()
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
def off(as_json: bool, door: Door) -> None:
    """Stop syncing; all files stay."""
    from vademecum.memory import sync as syncing

    left = syncing.leave(door())
    if as_json:
        output.as_json(to_json.sync_off_json, folder=str(left.path))
    else:
        output.line(f"{left.path} is no longer used; nothing was deleted here or there")


def _told(each: PlaceSynced, team: str = "") -> dict[str, Any]:
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


def _tell(each: PlaceSynced, whose: str = "") -> None:
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
    for said in done.refused:
        output.line(f"  not taken: {said}")
    for said in each.news:
        output.line(f"  {said}")
    for finding in each.findings:
        output.line(f"  not synced: {finding.where}: {finding.why}")
