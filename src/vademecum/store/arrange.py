"""Records moved to another scope, renamed or tagged, one or many: a run that `undo` reverts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Conflict, NotFound, NotVisible, SecretFound, UsageError
from vademecum.store import archive, document, frontmatter, reading, scopes, teams
from vademecum.store import runs as running
from vademecum.text import names
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from vademecum.store.home import Shelf
    from vademecum.store.records import Found
    from vademecum.store.workspace import Workspace
    from vademecum.types import Place, Record, Scope


class Arranged(NamedTuple):
    """What a run did to records: its name, the records as they were, and what became of each file."""

    run: str
    records: tuple[Record, ...]
    told: tuple[running.Told, ...]


def tag(work: Workspace, chosen: Sequence[Found], *, add: Iterable[str], remove: Iterable[str]) -> Arranged:
    """Add tags to records and take others away."""
    added = document.clean_tags(add, work.settings.secrets.policy)
    removed = frozenset(remove)
    if not added and not removed:
        raise UsageError("no tag is given", hint="pass a tag to add, or one to remove")
    run = _begin(work, "tag")
    told = []
    for found in (work.records.standing_alone(each) for each in chosen):
        tags = [each for each in dict.fromkeys((*found.record.tags, *added)) if each not in removed]
        if tags != [*found.record.tags]:
            before = _content(found)
            after = frontmatter.edit(document.decode(before), {"tags": tags or None}).encode()
            told.append(run.do(running.Edit(found.shelf, archive.RECORDS, found.name, before, after), "tag"))
    return Arranged(run.id, tuple(each.record for each in chosen), tuple(told))


def rename(work: Workspace, found: Found, new: str) -> Arranged:
    """Give a record another key; the earlier one still finds it."""
    _check_own(work, found, "rename")
    key = names.check_key(new)
    found = work.records.standing_alone(found)
    old = found.record.key
    if key == old:
        raise UsageError(f"{old} is already its key")
    earlier = [each for each in dict.fromkeys((*found.record.aliases, old)) if each != key]
    return _relocate(
        work,
        "rename",
        [found],
        lambda _: found.shelf,
        lambda _: (f"{key}.md", {"key": key, "aliases": earlier}),
    )


def move(work: Workspace, chosen: Sequence[Found], scope: Scope) -> Arranged:
    """Move records to the caller's own place in another scope, each under its own key."""
    for found in chosen:
        _check_own(work, found, "move")
    place = scopes.place_for(work.caller, scope)
    shelf = scopes.shelf_for_new(scopes.shelves(work.home, work.caller, place))
    chosen = [work.records.standing_alone(found) for found in chosen if found.shelf.place != place]
    labels = {"scope": str(scope), "scope_id": place.id or None}
    return _relocate(work, "move", chosen, lambda _: shelf, lambda found: (found.name, labels))


def share(work: Workspace, chosen: Sequence[Found], team: str) -> Arranged:
    """Move records of one's own to the memory that a team shares, each under its own key."""
    for found in chosen:
        _check_own(work, found, "hub share")
        teams.find_shared(work.home, team, found.shelf.place.scope)
        if found.shelf.outside:
            raise UsageError(
                f"{found.record.key} lies in the repository's `.vade/`, which git shares",
                hint="save its text with `vade store --team`",
            )
    own = [work.records.standing_alone(found) for found in chosen if not found.shelf.team]
    meant = teams.find_team(work.home, team)
    return _relocate(work, "share", own, lambda each: teams.team_shelf(work.home, meant, each.shelf.place))


def unshare(work: Workspace, chosen: Sequence[Found]) -> Arranged:
    """Move records from a team's memory to one's own; the team keeps what it knew."""
    for found in chosen:
        _check_own(work, found, "hub unshare")
    theirs = [work.records.standing_alone(found) for found in chosen if found.shelf.team]
    return _relocate(work, "unshare", theirs, lambda each: work.home.shelf(each.shelf.place))


def put_back(
    work: Workspace, workspace: str, changes: Iterable[tuple[Place, str, str | None, str | None]], what: str
) -> Arranged:
    """Give files of a team, by place and path, another text than the one they have now, as one run."""
    run, told, team = _begin(work, what), [], teams.find_team(work.home, workspace)
    for place, path, *texts in changes:
        kind, _, name = path.rpartition("/")
        before, after = (None if text is None else text.encode() for text in texts)
        shelf = teams.team_shelf(work.home, team, place)
        edit = running.Edit(shelf, kind or archive.PINNED, name, before, after)
        told.append(run.do(edit, "hub undo", replacing=True))
    return Arranged(run.id, (), tuple(told))


def put_away(work: Workspace, workspace: str) -> Arranged:
    """Move all records of a team that was left to the archive."""
    run, told = _begin(work, "leave"), []
    for shelf in teams.shelves_of(work.home, workspace):
        for found in work.records.on(shelf):
            if not isinstance(found, Finding):
                edit = running.Edit(found.shelf, archive.RECORDS, found.name, _content(found), None)
                told.append(run.do(edit, "leave"))
    return Arranged(run.id, (), tuple(told))


def _relocate(
    work: Workspace,
    what: str,
    chosen: Sequence[Found],
    goes: Callable[[Found], Shelf],
    target: Callable[[Found], tuple[str, Mapping[str, Any]]] = lambda found: (found.name, {}),
) -> Arranged:
    """Write each record to its new file, then put the old file into the archive: never is it in neither."""
    planned = []
    for found in chosen:
        shelf, (name, labels) = goes(found), target(found)
        if reading.from_shelf(shelf, archive.RECORDS, name) is not None:
            raise Conflict(
                f"{shelf.name_of(archive.RECORDS, name)} already exists", hint="choose another key first"
            )
        before = _content(found)
        text = frontmatter.edit(document.decode(before), labels)
        kept, kinds = work.gate(text, shelf.place.scope)
        if kept != text:
            raise SecretFound(
                f"{found.record.key} holds what looks like a secret ({', '.join(kinds)}), which"
                f" {shelf.place.scope} memory must not contain",
                hint=f"remove it with `vade edit {found.record.key}` first",
            )
        planned.append((found, before, running.Edit(shelf, archive.RECORDS, name, None, text.encode())))
    run = _begin(work, what)
    told = []
    for found, before, edit in planned:
        made = run.do(edit, what)
        told.append(made)
        if made.done:
            told.append(run.do(running.Edit(found.shelf, archive.RECORDS, found.name, before, None), what))
    return Arranged(run.id, tuple(found.record for found in chosen), tuple(told))


def _begin(work: Workspace, what: str) -> running.Run:
    return running.Run(work.home, work.caller, work.now, work.announce, what)


def _check_own(work: Workspace, found: Found, what: str) -> None:
    """An agent leaves where it is what a person wrote."""
    if work.records.holds(found):
        raise NotVisible(
            f"{found.record.key} contains the user's text, and only the user can {what} it",
            hint=f"run `vade {what}` in a terminal",
        )


def _content(found: Found) -> bytes:
    content = reading.from_shelf(found.shelf, archive.RECORDS, found.name)
    if content is None:
        raise NotFound(f"{found.record.key} is gone", hint="`vade list` shows what is here")
    return content
