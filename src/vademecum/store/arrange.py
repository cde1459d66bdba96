"""Changes of records' scope, key, tags or owner: each is a run, which `vade undo` reverts."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Conflict, NotFound, NotVisible, SecretFound, UsageError
from vademecum.store import runs as running
from vademecum.store import scopes, teams
from vademecum.text import document, filenames, frontmatter, names
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from typing import Any

    from vademecum.store.home import ScopeFolder
    from vademecum.store.records import Found
    from vademecum.store.workspace import Workspace
    from vademecum.types import Place, Record, Scope


class Arranged(NamedTuple):
    """The result of a run: its id, the chosen records before the run, and the result of each edit."""

    run: str
    records: tuple[Record, ...]
    told: tuple[running.EditResult, ...]


def tag(work: Workspace, chosen: Sequence[Found], *, add: Iterable[str], remove: Iterable[str]) -> Arranged:
    """Add tags to records and remove tags from them; a tag in both `add` and `remove` is removed."""
    added = document.clean_tags(add, work.settings.secrets.policy)
    removed = frozenset(remove)
    if not added and not removed:
        raise UsageError("no tag is given", hint="pass a tag to add, or one to remove")
    run = _begin(work, "tag")
    results = []
    for found in (work.records.as_own_record(each) for each in chosen):
        tags = [each for each in dict.fromkeys((*found.record.tags, *added)) if each not in removed]
        if tags != [*found.record.tags]:
            before = _content(found)
            after = frontmatter.edit(document.decode(before), {"tags": tags or None}).encode()
            results.append(
                run.do(running.Edit(found.scope_folder, filenames.RECORDS, found.name, before, after), "tag")
            )
    return Arranged(run.id, tuple(each.record for each in chosen), tuple(results))


def rename(work: Workspace, found: Found, new: str) -> Arranged:
    """Give a record another key; the earlier key still finds the record."""
    _check_own(work, found, "rename")
    key = names.check_key(new)
    found = work.records.as_own_record(found)
    old = found.record.key
    if key == old:
        raise UsageError(f"{old} is already its key")
    earlier = [each for each in dict.fromkeys((*found.record.aliases, old)) if each != key]
    return _relocate(
        work,
        "rename",
        [found],
        lambda _: found.scope_folder,
        lambda _: (f"{key}.md", {"key": key, "aliases": earlier}),
    )


def move(work: Workspace, chosen: Sequence[Found], scope: Scope) -> Arranged:
    """Move records, with their keys, to the caller's place in a scope; records already there are skipped."""
    for found in chosen:
        _check_own(work, found, "move")
    place = scopes.place_for(work.caller, scope)
    scope_folder = scopes.folder_for_new(scopes.scope_folders(work.home, work.caller, place))
    chosen = [work.records.as_own_record(found) for found in chosen if found.scope_folder.place != place]
    labels = {"scope": str(scope), "scope_id": place.id or None}
    return _relocate(work, "move", chosen, lambda _: scope_folder, lambda found: (found.name, labels))


def share(work: Workspace, chosen: Sequence[Found], team: str) -> Arranged:
    """Move the user's own records, with their keys, to a team's memory; records of any team are skipped."""
    for found in chosen:
        _check_own(work, found, "hub share")
        teams.find_shared(work.home, team, found.scope_folder.place.scope)
        if found.scope_folder.outside:
            raise UsageError(
                f"{found.record.key} lies in the repository's `.vade/`, which git shares",
                hint="save its text with `vade add --team`",
            )
    own = [work.records.as_own_record(found) for found in chosen if not found.scope_folder.team]
    meant = teams.find_team(work.home, team)
    return _relocate(
        work, "share", own, lambda each: teams.team_folder(work.home, meant, each.scope_folder.place)
    )


def unshare(work: Workspace, chosen: Sequence[Found]) -> Arranged:
    """Move the team records among `chosen` to the user's own memory; the team's history still has them."""
    for found in chosen:
        _check_own(work, found, "hub unshare")
    theirs = [work.records.as_own_record(found) for found in chosen if found.scope_folder.team]
    return _relocate(work, "unshare", theirs, lambda each: work.home.scope_folder(each.scope_folder.place))


def put_back(
    work: Workspace, workspace: str, changes: Iterable[tuple[Place, str, str | None, str | None]], what: str
) -> Arranged:
    """Replace the texts of a team's files in one run that can be undone.

    Each change is a place, a path, the expected text and the new text; a text of None means no file. A file
    with another text than the expected one is not changed.
    """
    run, results, team = _begin(work, what), [], teams.find_team(work.home, workspace)
    for place, path, *texts in changes:
        kind, _, name = path.rpartition("/")
        before, after = (None if text is None else text.encode() for text in texts)
        scope_folder = teams.team_folder(work.home, team, place)
        edit = running.Edit(scope_folder, kind or filenames.PINNED, name, before, after)
        results.append(run.do(edit, "hub undo", replacing=True))
    return Arranged(run.id, (), tuple(results))


def put_away(work: Workspace, workspace: str) -> Arranged:
    """Archive the readable records of a team that the user has left."""
    run, results = _begin(work, "leave"), []
    for scope_folder in teams.scope_folders_of(work.home, workspace):
        for found in work.records.on(scope_folder):
            if not isinstance(found, Finding):
                edit = running.Edit(found.scope_folder, filenames.RECORDS, found.name, _content(found), None)
                results.append(run.do(edit, "leave"))
    return Arranged(run.id, (), tuple(results))


def _relocate(
    work: Workspace,
    what: str,
    chosen: Sequence[Found],
    goes: Callable[[Found], ScopeFolder],
    target: Callable[[Found], tuple[str, Mapping[str, Any]]] = lambda found: (found.name, {}),
) -> Arranged:
    """Write each record to its new file, then archive the old file, so that a crash loses no record.

    `goes` returns a record's new folder; `target` returns its new file name and its changed fields. If a new
    file already exists or a text holds a secret, an error is raised before anything is written.
    """
    planned = []
    for found in chosen:
        scope_folder, (name, labels) = goes(found), target(found)
        if scope_folder.read(filenames.RECORDS, name) is not None:
            raise Conflict(
                f"{scope_folder.name_of(filenames.RECORDS, name)} already exists",
                hint="choose another key first",
            )
        before = _content(found)
        text = frontmatter.edit(document.decode(before), labels)
        clean_text, kinds = work.gate(text, scope_folder.place.scope)
        if clean_text != text:
            raise SecretFound(
                f"{found.record.key} holds what looks like a secret ({', '.join(kinds)}), which"
                f" {scope_folder.place.scope} memory must not contain",
                hint=f"remove it with `vade edit {found.record.key}` first",
            )
        planned.append(
            (found, before, running.Edit(scope_folder, filenames.RECORDS, name, None, text.encode()))
        )
    run = _begin(work, what)
    results = []
    for found, before, edit in planned:
        made = run.do(edit, what)
        results.append(made)
        if made.done:
            results.append(
                run.do(running.Edit(found.scope_folder, filenames.RECORDS, found.name, before, None), what)
            )
    return Arranged(run.id, tuple(found.record for found in chosen), tuple(results))


def _begin(work: Workspace, what: str) -> running.Run:
    return running.Run(work.home, work.caller, work.now, work.announce, what)


def _check_own(work: Workspace, found: Found, what: str) -> None:
    """Raise an error if the record has a person's text that the caller must not change."""
    if work.records.holds(found):
        raise NotVisible(
            f"{found.record.key} contains the user's text, and only the user can {what} it",
            hint=f"run `vade {what}` in a terminal",
        )


def _content(found: Found) -> bytes:
    content = found.scope_folder.read(filenames.RECORDS, found.name)
    if content is None:
        raise NotFound(f"{found.record.key} is gone", hint="`vade list` shows what is here")
    return content
