"""Memory on several machines: through a shared folder or a hub."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, NotFound, Refused, UsageError, VadeError
from vademecum.index import freshness
from vademecum.lifecycle.transfer import write_folder
from vademecum.store import arrange, hook_log, sync_problems
from vademecum.sync import folder_sync as shared
from vademecum.sync import hub_key, membership
from vademecum.sync import hub_sync as hubs
from vademecum.sync.folder_sync import FolderSync, PlaceSynced
from vademecum.sync.hub_client import HubRefused, HubUnreachable
from vademecum.sync.hub_sync import WrittenFile, read_standing
from vademecum.sync.key_files import KEY, read_own_key
from vademecum.sync.membership import SHARED, Membership, find_membership, list_memberships
from vademecum.sync.team_trust import take_leases
from vademecum.sync.workspace_key import WrongKey, new_key, read_key, spell_key
from vademecum.text import clock, outgoing
from vademecum.types import Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from vademecum.memory.core import Memory
    from vademecum.search import Answer, Passage
    from vademecum.store import Arranged, BackgroundSync, Home, Purged
    from vademecum.sync.hub_client import HubEvents

_ROUNDS = 3  # rounds of a purge, while others write the same text
__all__ = [
    "FolderSync",
    "HubRefused",
    "Membership",
    "PlaceSynced",
    "WrittenFile",
    "WrongKey",
    "find_membership",
    "hub_key",
    "membership",
    "new_key",
    "read_key",
    "read_standing",
    "spell_key",
    "write_folder",
]


def join(memory: Memory, path: Path | None, key: str | None) -> tuple[FolderSync, str]:
    """Start to sync through the folder `path`; without a path, return the folder that is already used.

    The second value is the new key that was made for the folder, or '' if none was made.
    """
    memory.workspace.may_write()
    if path is None:
        return shared.find_folder(memory.home), ""
    joined, made = shared.join_folder(memory.home, path, key)
    return joined, spell_key(joined.key) if made else ""


def needs_key(memory: Memory, path: Path) -> bool:
    """Return whether a person must enter the key of this shared folder on this machine."""
    return shared.needs_key(memory.home, path)


def run(memory: Memory, joined: FolderSync, deletions: bool | None) -> tuple[list[PlaceSynced], list[str]]:
    """Sync every place through the folder; return the results, and the names in the folder that were ignored.

    If many documents are missing, `deletions` says whether to delete them everywhere (True) or to restore
    them (False).
    """
    memory.workspace.may_write()
    with _noting_problems(memory.home, SHARED) as problems:
        _finish_purges(memory)
        with memory.workspace.reported("sync"):
            found, ignored = shared.sync_folder(
                memory.home,
                joined,
                actor=memory.caller.actor,
                now=memory.workspace.now,
                deletions=deletions,
            )
        problems.extend(describe_problems(found))
    return found, ignored


@contextlib.contextmanager
def _noting_problems(home: Home, where: str) -> Iterator[list[str]]:
    """Yield a list for the problems of a sync, and save it at the end, with the error that ended the sync."""
    problems: list[str] = []
    try:
        yield problems
    except VadeError as error:
        problems.append(str(error))
        raise
    finally:
        sync_problems.keep(home, where, problems)


def describe_problems(places: Iterable[PlaceSynced]) -> list[str]:
    """Return the problems of a sync: refused changes and findings, a sentence each."""
    return [
        *(f"{each.stream}: changes of {why}" for each in places for why in each.done.refused),
        *(f"{finding.where}: {finding.why}" for each in places for finding in each.findings),
    ]


def _finish_purges(memory: Memory) -> None:
    """Finish purges that were interrupted here, before anything is sent."""
    from vademecum.sync import purge_orders

    with memory.workspace.reported("sync"):
        purge_orders.finish(memory.home, memory.caller.actor, memory.workspace.now)


def spread_purge(
    memory: Memory, text: str | None = None, *, found: Iterable[Purged] | None = None
) -> list[str]:
    """Sync so that a purge reaches the other machines; return messages on how far the purge got.

    A hub searches all its content for `text`; if it finds the text in places that this machine has not
    purged, those are purged too. Given `found`, the result of the purge, only the affected places are
    reported.
    """
    reached = None if found is None else _find_logs(found)
    counts: dict[str, Iterable[tuple[int, int]]] = {}
    problems = []
    with contextlib.suppress(NotFound):
        folder = shared.find_folder(memory.home)
        meant = reached is None or SHARED in reached
        try:
            run(memory, folder, None)
        except VadeError as error:
            problems += [f"not sent to the shared folder yet: {error}"] if meant else []
        counts["folder"] = shared.count_purged(memory.home, folder).values() if meant else ()
    for joined in list_memberships(memory.home):
        meant = reached is None or joined.workspace in reached
        try:
            counts[joined.name] = _spread_at(memory, joined, text, meant=meant)
        except VadeError as error:
            problems += [f"not sent to {joined.name} yet: {error}"] if meant or text is not None else []
            counts[joined.name] = ()
    several = len(counts) > 1
    problems += [
        f"{name}: {_count_reached(*min(each))}" if several else _count_reached(*min(each))
        for name, each in counts.items()
        if each
    ]
    return problems


def _find_logs(found: Iterable[Purged]) -> set[str]:
    """Return the workspaces from whose logs a purge deleted something; SHARED is the shared folder."""
    parts = [each.where.split("/") for each in found]
    return {each[1] for each in parts if each[0] == membership.FOLDER and len(each) > 1}


def _spread_at(
    memory: Memory, joined: Membership, text: str | None, *, meant: bool
) -> Iterable[tuple[int, int]]:
    """Sync a purge with one workspace; return for each place how many of all machines have carried it out.

    If the hub still holds `text`, purge the text here too. Return () unless `meant` is set or the hub held
    the text.
    """
    owned = (
        joined.kind != hubs.TEAM or joined.role == "owner"
    )  # only owners may let the hub search for a text
    for _ in range(_ROUNDS):
        run_hub(memory, joined.workspace, None)
        if text is None or not owned or not hubs.holds_text(memory.home, joined, text):
            break
        memory.archive.purge_text(text)
        meant = True
    return hubs.count_purged(memory.home, joined).values() if meant else ()


def _count_reached(done: int, machines: int) -> str:
    rest = "" if done >= machines else "; the others follow when they sync"
    return f"purged on {done} of {machines} machine{'' if machines == 1 else 's'}{rest}"


# ------------------------------------------------------------------------------- keys


class SyncKey(NamedTuple):
    """The key of the shared folder or of a personal workspace, as this home has it."""

    name: str  # the workspace's, or the path of the folder
    kind: str  # `folder` or `hub`
    workspace: str
    key: str  # empty if this home has lost it
    file: str
    generation: int


def list_keys(memory: Memory, name: str = "") -> list[SyncKey]:
    """Return the keys of the folder and the personal workspaces that this home syncs with.

    With a `name`, return the key of that workspace alone; the folder is named by `folder` or by its path.
    """
    memory.workspace.may_decide("see the key of a sync", "vade sync key")
    found = []
    with contextlib.suppress(NotFound):
        folder = shared.find_folder(memory.home)
        found.append(_read_own_key(memory.home, SHARED, str(folder.path), "folder", folder.workspace))
    found += [
        _read_own_key(memory.home, joined.workspace, joined.name, "hub", joined.workspace)
        for joined in list_memberships(memory.home)
        if joined.kind != hubs.TEAM
    ]
    if not found:
        raise NotFound(
            "this home syncs with nothing that has a key",
            hint="run `vade sync --folder PATH`, or join a hub with `vade hub join URL`",
        )
    chosen = [each for each in found if name in ("", each.name, each.kind, each.workspace)]
    if not chosen:
        known = ", ".join("folder" if each.kind == "folder" else each.name for each in found)
        raise UsageError(f"this home does not sync with {name}", hint=f"it syncs with {known}")
    return chosen


def _read_own_key(home: Home, below: str, name: str, kind: str, workspace: str) -> SyncKey:
    with home.disk(membership.FOLDER, below) as folder:
        own = read_own_key(folder)
    file = os.path.join(home.path, membership.FOLDER, below, KEY)
    return SyncKey(
        name, kind, workspace, spell_key(own.key), file, own.record.generation if own.record else 1
    )


def find_sync_key(memory: Memory, name: str = "") -> SyncKey:
    """Return the key of the folder or workspace `name`, or the only key; raise UsageError for several."""
    found = list_keys(memory, name)
    if len(found) > 1:
        known = ", ".join("folder" if each.kind == "folder" else each.name for each in found)
        raise UsageError("this home has several keys", hint=f"name one with `--workspace`: {known}")
    return found[0]


def set_key(memory: Memory, meant: SyncKey, typed: str) -> None:
    """Save the key that a person `typed` for the folder or workspace `meant`.

    The next sync seals the changes of this home again that were sealed with the earlier key, and sends them.
    """
    memory.workspace.may_write()
    key = read_key(typed)
    with memory.workspace.reported("sync"):
        if meant.kind == "folder":
            shared.join_folder(memory.home, shared.find_folder(memory.home).path, key)
            return
        joined = find_membership(memory.home, meant.workspace)
        hub_key.keep_hub_key(memory.home, joined, key)


def rotate_key(memory: Memory, meant: SyncKey) -> str:
    """Change the key of a folder or a workspace and return the new key.

    Everything is synced first. A home that has lost the key cannot sync: there the new generation covers the
    changes in the home's own log.
    """
    memory.workspace.may_write()
    if meant.kind == "folder":
        joined = shared.find_folder(memory.home)
        if meant.key:
            run(memory, joined, None)
        with memory.workspace.reported("sync"):
            return spell_key(shared.rotate_folder_key(memory.home, joined))
    at_hub = find_membership(memory.home, meant.workspace)
    sync = partial(run_hub, memory, at_hub.workspace, None) if meant.key else None
    with memory.workspace.reported("sync"):
        return spell_key(hub_key.rotate_hub_key(memory.home, at_hub, sync))


def read_problems(home: Home, where: str = SHARED) -> list[str]:
    """Return the problems of the last sync with the folder or a workspace, whose id is `where`."""
    return sync_problems.read(home, where)


def status(memory: Memory) -> tuple[FolderSync, int]:
    """Return the shared folder, and how many changes have not been sent to it yet."""
    joined = shared.find_folder(memory.home)
    return joined, shared.count_unsent(memory.home, joined)


def purged_in_folder(memory: Memory) -> dict[str, tuple[int, int]]:
    """Return for each place in the folder that has purges how far the slowest purge is.

    The two numbers are the machines that have carried out this purge, and all machines.
    """
    return shared.count_purged(memory.home, shared.find_folder(memory.home))


def purged_at_hub(home: Home, joined: Membership) -> dict[str, tuple[int, int]]:
    """Return for each place in a workspace that has purges how far the slowest purge is.

    The two numbers are the machines that have carried out this purge, and all machines.
    """
    return hubs.count_purged(home, joined)


def tell_purged(counts: Mapping[str, tuple[int, int]]) -> list[str]:
    """Return sentences on how many machines have carried out the purges of each place."""
    return [f"{place}: {_count_reached(*each)}" for place, each in sorted(counts.items())]


class UndoneAuthor(NamedTuple):
    """A member's contributions to a team since some time, and the result of removing them."""

    joined: Membership
    since: datetime
    found: hubs.AuthorsWork
    done: Arranged | None = None


def leave(memory: Memory) -> FolderSync:
    """Stop syncing through the folder."""
    memory.workspace.may_write()
    return shared.leave_folder(memory.home)


def has_hub(memory: Memory) -> bool:
    """Return whether this home has joined a workspace of a hub."""
    return hubs.has_hub(memory.home)


class FolderSynced(NamedTuple):
    """The result of a sync through the folder, or the reason why it failed."""

    joined: FolderSync
    places: Sequence[PlaceSynced] = ()
    ignored: Sequence[str] = ()
    error: VadeError | None = None


def run_shared(memory: Memory, deletions: bool | None) -> FolderSynced | None:
    """Sync through the folder; return None without a folder, and a failure as a result, not an exception."""
    try:
        joined = shared.find_folder(memory.home)
    except NotFound:
        return None
    try:
        return FolderSynced(joined, *run(memory, joined, deletions))
    except VadeError as error:
        return FolderSynced(joined, error=error)


class HubSynced(NamedTuple):
    """The result of a sync with one workspace, or the reason why it failed."""

    joined: Membership
    places: Sequence[PlaceSynced]
    error: VadeError | None = None


def run_hub(memory: Memory, workspace: str, deletions: bool | None) -> tuple[Membership, list[PlaceSynced]]:
    """Sync with a workspace, by default the first of `find_hubs`; then archive old records if due."""
    memory.workspace.may_write()
    joined = hubs.find_hubs(memory.home, workspace)[0]
    with _noting_problems(memory.home, joined.workspace) as problems:
        _finish_purges(memory)
        with memory.workspace.reported("sync"):
            key = hubs.find_key(memory.home, joined)
            now, actor = memory.workspace.now, memory.caller.actor
            found = hubs.HubSync(memory.home, joined, key, actor, now, deletions).run()
        problems.extend(describe_problems(found))
    _archive_old(memory, joined)
    return joined, found


def _archive_old(memory: Memory, joined: Membership) -> None:
    """Archive old records if that is due and the hub leaves it to this machine."""
    due = memory.care.due_for_sweep() if joined.may_care else []
    if due and take_leases(memory.home, joined, due, now=memory.workspace.now()):
        memory.care.sweep_if_due()


def run_hubs(
    memory: Memory, workspace: str = "", deletions: bool | None = None, *, without: Collection[str] = ()
) -> list[HubSynced]:
    """Sync with every joined workspace, or only with the named one, except the workspaces in `without`.

    A failure in one workspace does not stop the others.
    """
    done: list[HubSynced] = []
    for joined in hubs.find_hubs(memory.home, workspace):
        if joined.workspace in without:
            continue
        try:
            done.append(HubSynced(*run_hub(memory, joined.workspace, deletions)))
        except VadeError as error:
            done.append(HubSynced(joined, (), error))
    return done


def share(memory: Memory, names: Sequence[str], team: str, scope: str | None = None) -> Arranged:
    """Move records to the memory of a team; only a person may do this, and `undo` reverts it."""
    memory.workspace.may_write()
    memory.workspace.may_decide("share with a team", "vade hub share")
    with memory.workspace.reported("share with a team"):
        chosen = [memory.workspace.find(name, memory.workspace.scope(scope), only=True) for name in names]
        return arrange.share(memory.workspace, chosen, team)


def unshare(memory: Memory, names: Sequence[str], scope: str | None = None) -> Arranged:
    """Move records from the memory of a team back to one's own memory."""
    memory.workspace.may_write()
    memory.workspace.may_decide("take a record from a team", "vade hub unshare")
    with memory.workspace.reported("take a record from a team"):
        chosen = [memory.workspace.find(name, memory.workspace.scope(scope), only=True) for name in names]
        return arrange.unshare(memory.workspace, chosen)


def undo_author(memory: Memory, by: str, since: str, workspace: str = "", *, dry: bool) -> UndoneAuthor:
    """Remove what a member wrote to a team since some time, by edits of the team's owner.

    With `dry`, these contributions are only listed. Later edits of other members stay. `undo` reverts the
    run.
    """
    memory.workspace.may_write()
    memory.workspace.may_decide("undo what a member wrote", "vade hub undo")
    moment = _moment(memory, since)
    joined = find_membership(memory.home, workspace, kind=hubs.TEAM)
    joined, _ = run_hub(memory, joined.workspace, None)  # the member's contributions must be here
    joined = find_membership(memory.home, joined.workspace)
    if joined.role != "owner":
        raise Refused(
            f"this needs the role owner, and yours in {joined.name} is {joined.role}",
            hint="ask an owner of the team",
        )
    found = hubs.find_written(memory.home, joined, by, moment)
    if dry or not found.files:
        return UndoneAuthor(joined, moment, found)
    with memory.workspace.reported("undo what a member wrote"):
        done = arrange.put_back(memory.workspace, joined.workspace, found.files, f"hub undo {by}")
    return UndoneAuthor(joined, moment, found, done)


def _moment(memory: Memory, since: str) -> datetime:
    """Return the moment that a person named by a date, or by a duration before the present."""
    given = clock.parse_since(since, "--since", now=memory.workspace.now())
    if given is None:
        raise UsageError(
            "since when is not said", hint="write `--since 30min`, `--since 2h` or `--since yesterday`"
        )
    return given


def leave_hub(memory: Memory, name: str, *, archive: bool = False) -> tuple[Membership, list[str]]:
    """Stop syncing with a workspace; with `archive`, move the team's files to the archive in one run."""
    memory.workspace.may_write()
    memory.workspace.may_decide("leave a hub", "vade hub leave")
    joined = find_membership(memory.home, name)
    with memory.workspace.reported("leave a hub"):
        hubs.leave_hub(memory.home, joined, forget=archive)
        if not archive or joined.kind != hubs.TEAM:
            return joined, []
        results = arrange.put_away(memory.workspace, joined.workspace).told
        return joined, [each.path for each in results if each.done]


def sync_joined(memory: Memory) -> None:
    """Sync with the folder and all workspaces that were joined, and record the result of each."""
    for each in list_memberships(memory.home):
        _record(memory, each.workspace, partial(run_hub, memory, each.workspace, None))
    try:
        joined = shared.find_folder(memory.home)
    except NotFound:
        return
    _record(memory, SHARED, partial(run, memory, joined, None))


def _record(memory: Memory, where: str, sync: Callable[[], object]) -> None:
    try:
        sync()
        problem = ""
    except VadeError as error:
        problem = str(error)
    hook_log.record_sync(memory.home.path, where, problem)


def last_background(home: Home, where: str = SHARED) -> BackgroundSync | None:
    """Return the last background sync with a workspace or with the folder, and its result."""
    return hook_log.last_sync(home.path, where)


# ------------------------------------------------------------------------------- `vade sync --watch`

_WHILE_HEARD = 900.0  # seconds between two syncs with a hub that sends events, which are hints


def watch_folder(memory: Memory, joined: FolderSync, every: float, stop: threading.Event) -> Iterator[str]:
    """Yield whenever a sync is due: at once after a change here or in the folder, and periodically."""
    yield from freshness.watch_changes(
        [_top(memory), os.path.join(joined.path, shared.TOP)],
        ignore=lambda _: False,
        stop=stop,
        every=lambda: every,
    )


def watch_hubs(
    memory: Memory, workspace: str, deletions: bool | None, *, every: float, stop: threading.Event
) -> Iterator[list[HubSynced]]:
    """Sync with hubs whenever a sync is due, and yield the results.

    A sync is due after a change here, after an event from a hub, and periodically with a hub that sends no
    events. A workspace with an invalid token is left out; if none remains, the last refusal is raised.
    Without `workspace`, changes in a shared folder also make a sync due; the caller syncs through that
    folder.
    """
    rung = threading.Event()
    tops = [_top(memory)]
    if not workspace:
        with contextlib.suppress(NotFound):
            tops.append(os.path.join(shared.find_folder(memory.home).path, shared.TOP))
    heard: dict[str, HubEvents] = {}
    ended: set[str] = set()

    def called() -> bool:
        was = rung.is_set()
        rung.clear()
        return was

    def pause() -> float:
        announced = len(tops) == 1 and heard and all(each.hears for each in heard.values())
        return max(every, _WHILE_HEARD) if announced else every

    try:
        for _ in freshness.watch_changes(tops, ignore=lambda _: False, stop=stop, every=pause, called=called):
            done = run_hubs(memory, workspace, deletions, without=ended)
            lost = [one for one in done if _is_over(one.error)]
            ended.update(one.joined.workspace for one in lost)
            if len(lost) == len(done):
                raise next((one.error for one in lost if one.error), NotFound("this home has joined no hub"))
            yield done
            _listen(memory, [one.joined for one in done if one not in lost], heard, rung.set)
    finally:
        for each in heard.values():
            each.close()


def _listen(
    memory: Memory, joined: Sequence[Membership], heard: dict[str, HubEvents], ring: Callable[[], None]
) -> None:
    """Listen for events of these workspaces, and stop listening to all others."""
    now = {each.workspace: each for each in joined}
    for gone in heard.keys() - now.keys():
        heard.pop(gone).close()
    for new in now.keys() - heard.keys():
        heard[new] = hubs.listen(memory.home, now[new], ring)


def _is_over(error: VadeError | None) -> bool:
    """Return whether the hub will never accept this home's token again."""
    return isinstance(error, HubRefused) and (error.status, error.code) == (401, "token")


def _top(memory: Memory) -> str:
    memory.workspace.may_write()
    memory.home.folder("memory", create=True).close()
    return os.path.join(memory.home.path, "memory")


# ------------------------------------------------------------------------------- search without a copy


def search_hub(
    memory: Memory, query: str, workspace: str = "", *, sources: Iterable[str] = (), **given: Any
) -> Answer:
    """Return the passages of a workspace that answer, whether or not this home has a copy of them.

    A caller other than a person sees only places that are visible here. While the hub is unreachable or
    refuses, this home answers, and the answer says so.
    """
    work = memory.workspace
    work.not_in_group("search a hub")
    if [*sources]:
        raise UsageError("a hub has no sources", hint="leave out `sources` or `hub`")
    joined = membership.find_membership(memory.home, workspace)
    places = None if memory.caller.origin is Origin.USER else work.streams_in_sight(given.get("scope"))
    # No secret leaves this machine in a question; a day is a day of the caller.
    arguments = {name: value for name, value in given.items() if value is not None}
    if arguments.get("max_weak", 0) < 0:
        arguments["max_weak"] = 100  # all that a hub returns
    arguments |= {
        "query": outgoing.clean_text(query),
        "now": str(arguments.get("now") or work.now().isoformat()),
    }
    client = membership.client_of(memory.home, joined, patience=hubs.PATIENCE, seconds=hubs.PATIENCE)
    try:
        body = arguments if places is None else {**arguments, "places": places}
        answer = client.ask("POST", "/v1/search", json.dumps(body).encode()).json()
    except (HubUnreachable, HubRefused) as error:
        if isinstance(error, HubRefused) and error.status == 422:
            raise UsageError(str(error)) from error
        found = memory.search(query, **given)
        reason = f"{joined.name} was not searched, and these are from this machine: {error}"
        return replace(found, degraded=(reason, *found.degraded))
    finally:
        client.close()
    return _read_answer(answer, joined, places)


def find_stream(path: str, scope: str) -> tuple[str, str]:
    """Split the path of a file, with or without its workspace, into its place and its path in that place."""
    parts = path.split("/")
    inner = 2 if len(parts) > 1 and parts[-2] in ("records", "journal") else 1
    owner = parts[-inner - 1 : -inner] if Scope(scope).rule.owner else []
    return "/".join([scope, *owner]), "/".join(parts[-inner:])


def _read_answer(answer: Mapping[str, Any], joined: Membership, places: Collection[str] | None) -> Answer:
    """Return a hub's answer in the form of a local search, without passages from other places."""
    from vademecum.search import Answer, Coverage

    try:
        covered, team = answer["coverage"], joined.name if joined.kind == hubs.TEAM else ""
        listed = [
            each
            for each in answer["results"]
            if places is None or find_stream(str(each["path"]), str(each["scope"]))[0] in places
        ]
        return Answer(
            tuple(_read_passage(each, team) for each in listed),
            str(answer["mode"]),
            Coverage(*(int(covered[name]) for name in ("files", "indexed", "pending", "failed"))),
            tuple(map(str, answer["degraded"])),
            str(answer["provider"]),
            str(answer["model"]),
            notes=tuple(map(str, answer["notes"])),
            hidden=int(answer["hidden"]),
            hub=joined.name,
        )
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Malformed("the hub's answer cannot be read", hint="check the hub's version") from error


def _read_passage(fields: Mapping[str, Any], team: str) -> Passage:
    from vademecum.search import Passage

    optional: Any = {name: None if fields.get(name) is None else str(fields[name]) for name in _OPTIONAL}
    arithmetic = fields.get("arithmetic")
    return Passage(
        str(fields["path"]),
        int(fields["startLine"]),
        int(fields["endLine"]),
        outgoing.clean_text(str(fields["snippet"])),
        float(fields["score"]),
        float(fields["relevance"]),
        str(fields["source"]),
        Place(Scope(fields["scope"])),
        {str(name): float(value) for name, value in (fields.get("components") or {}).items()},
        num=None if fields.get("num") is None else int(fields["num"]),
        vouched=tuple(map(str, fields.get("vouched") or ())),
        arithmetic=None if arithmetic is None else {str(k): float(v) for k, v in arithmetic.items()},
        team=team,
        **optional,
    )


_OPTIONAL = ("key", "type", "time", "origin", "superseded", "stale")
