"""What is here, and what needs attention."""

from __future__ import annotations

import functools
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, NewerFormat, OutsideMemory, StorageFailed
from vademecum.store import (
    Listed,
    archive,
    audit,
    files,
    hook_log,
    reading,
    requests,
    scopes,
    sources,
)
from vademecum.store.home import FORMAT_FILE
from vademecum.store.records import LOST, key_of
from vademecum.types import Audience, Finding, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from vademecum.index.sync import Survey
    from vademecum.memory.core import Memory
    from vademecum.store import Directory, Pinned, Workspace


class Status(NamedTuple):
    """What is here, and what is wrong with it."""

    home: Path
    project: scopes.Project | None
    agent: str
    session: str | None
    audience: Audience
    incognito: bool
    trusted: bool | None
    records: Mapping[str, int] = MappingProxyType({})
    notes: int = 0
    pinned: tuple[Pinned, ...] = ()
    sources: tuple[sources.Source, ...] = ()
    findings: tuple[Finding, ...] = ()
    aliases: tuple[str, ...] = ()
    coverage: Survey | None = None


def status_of(memory: Memory) -> Status:
    """What is here, and what needs attention."""
    work = memory.workspace
    project, incognito = work.caller.project, work.settings.incognito
    head: dict[str, Any] = {
        "home": work.home.path,
        "project": project,
        "agent": work.settings.agent,
        "session": work.caller.session,
        "audience": work.caller.audience,
        "incognito": incognito,
    }
    if incognito:
        return Status(**head, trusted=None)
    places = scopes.visible(work.caller)
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    with work.reported("read the memory"), work.records.catalogue.one_look():
        for each in work.records.listed(places, LOST):
            findings.append(each if isinstance(each, Finding) else _lost(each))
        for known in work.records.known(places, LOST):
            if not isinstance(known, Finding):
                counts[str(known[0].place.scope)] += len(known[1].facts)
        notes = 0
        for day in work.journal.days(places):
            if isinstance(day, Finding):
                findings.append(day)
            else:
                notes += len(day.entries)
        documents, more = work.pinned(places)
        findings += more
        findings += work.hidden(places)
        findings += _leftovers(work, places)
        findings += [
            _deleted(version)
            for version in reading.gone_records(work.records, places)
            if version.image.why == archive.KEPT
        ]
        findings += _formatted(work)
        findings += _shared_settings(work)
        lost = audit.missing(work.home) if work.caller.audience is Audience.PRIVATE else None
        findings += [lost] if lost else []
        findings += memory.projects.earlier()
        findings += memory.care.swept()
        findings += memory.care.held()
        findings += _undecided(work)
        findings += memory.archive.purge_findings()
        findings += memory.review.to_review()
        findings += _hooks(work)
        attached = sources.visible(work.home, work.caller)
        shelf = scopes.own_shelf(work.home, work.caller.project)
        return Status(
            **head,
            trusted=None if shelf is None else shelf.trusted,
            records=dict(+counts),
            notes=notes,
            pinned=tuple(documents),
            sources=tuple(attached),
            findings=tuple(findings),
            aliases=tuple(scopes.aliases(work.home, project.id)) if project else (),
            coverage=memory.care.survey() if work.caller.audience is Audience.PRIVATE else None,
        )


def _formatted(work: Workspace) -> Iterator[Finding]:
    """That this home cannot be written to, because a newer version keeps it or nobody knows which."""
    try:
        work.home.check_format()
    except (NewerFormat, Malformed, StorageFailed) as error:
        yield Finding("format", FORMAT_FILE, str(error), error.hint, "error")


def _shared_settings(work: Workspace) -> Iterator[Finding]:
    """What is wrong in a trusted repository's settings; of one that is not, what it would set."""
    shared = work.loaded.shared
    if shared is None:
        return
    if shared.trusted:
        yield from (each for each in work.settings_findings() if each.where.startswith(str(shared.path)))
        return
    count = len(shared.wanted)
    would = f"would set {count} setting{'' if count == 1 else 's'}" if count else "sets nothing"
    wrong = f", and {len(shared.problems)} of its lines are invalid" if shared.problems else ""
    why = f"it {would}{wrong}; it has no effect until this folder is trusted"
    yield Finding("settings", str(shared.path), why, "read it, then run `vade trust`", "info")


def _hooks(work: Workspace) -> Iterator[Finding]:
    """The last hook that could not do its work."""
    failure = hook_log.last(work.home.path) if work.caller.audience is Audience.PRIVATE else None
    if failure is not None:
        when = "at" if failure.why.startswith("answered") else "failed at"
        what = f"{failure.agent} {failure.event} {when} {failure.time}: {failure.why}"
        mend = f"{hook_log.NAME} has all of them; delete it once you have read them"
        yield Finding("hook", hook_log.NAME, what, mend, "info")


def _leftovers(work: Workspace, places: Iterable[Place]) -> Iterator[Finding]:
    """What killed writers and unfinished edits left beside the files."""
    conflict = "a text that could not be merged into its file was saved here"
    for folder, path in _folders(work, places):
        with folder:
            for name in folder.leftovers():
                yield Finding(
                    "leftover", path(name), "a writer was killed here", "the next write cleans it up"
                )
            listed = folder.names(ordered=False)
            # Beside its file it is a second copy, which is told and merged as such.
            alone = (name for name in listed if ".conflict-" in name and files.is_conflict(name))
            for name in sorted(alone):
                if f"{name.partition('.conflict-')[0]}.md" not in listed:
                    yield Finding("conflict", path(name), conflict, "keep what you want, delete the copy")


def _folders(work: Workspace, places: Iterable[Place]) -> Iterator[tuple[Directory, Callable[[str], str]]]:
    """Every folder in sight that holds files of memory, and how a file in it is shown."""
    for place in places:
        for shelf in scopes.shelves(work.home, work.caller, place):
            for below in ((archive.RECORDS,), (archive.JOURNAL,), ()):
                if work.caller.audience is Audience.GROUP and below == (archive.JOURNAL,):
                    continue
                try:
                    folder = shelf.open(*below)
                except (OutsideMemory, NotADirectoryError):
                    continue  # told by the records themselves
                if folder is not None:
                    yield folder, functools.partial(shelf.name_of, *below)


def _undecided(work: Workspace) -> Iterator[Finding]:
    """That writes are pending."""
    count = requests.count(work.home) if work.caller.audience is Audience.PRIVATE else 0
    if count:
        said = "1 write is" if count == 1 else f"{count} writes are"
        yield Finding("approval", "decisions/approvals", f"{said} pending", "vade approve", "info")


def _deleted(version: reading.Version) -> Finding:
    """What to say of a record whose file somebody deleted."""
    path = version.shelf.name_of(archive.RECORDS, version.name)
    mend = f"vade restore {key_of(version.name)} --scope {version.shelf.place.scope}"
    return Finding("deleted", path, "the file is missing; its text is in the archive", mend, "info")


def _lost(listed: Listed) -> Finding:
    """What to say of a record that an edit has taken entries out of."""
    entries = "an entry" if listed.fact == 1 else f"{listed.fact} entries"
    mend = f"vade restore {key_of(listed.name)} --scope {listed.shelf.place.scope}"
    path = listed.shelf.name_of(archive.RECORDS, listed.name)
    return Finding("edited", path, f"{entries} saved here changed or removed by hand", mend, "info")
