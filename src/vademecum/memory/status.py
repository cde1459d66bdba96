"""The status of a memory: its numbers, and the problems that need attention."""

from __future__ import annotations

import functools
from collections import Counter
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.config import LONGEST_HOOK
from vademecum.errors import Malformed, NewerFormat, OutsideMemory, StorageFailed
from vademecum.store import (
    Listed,
    Version,
    archive,
    audit,
    hook_counts,
    hook_log,
    lookup,
    pending_writes,
    request_view,
    scopes,
    sources,
    sync_problems,
)
from vademecum.store.home import FORMAT_FILE
from vademecum.store.records import LOST
from vademecum.text import filenames
from vademecum.text.filenames import key_of
from vademecum.types import Audience, Finding, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from vademecum.index import Survey
    from vademecum.memory.core import Memory
    from vademecum.store import Directory, Pinned, Workspace


class Status(NamedTuple):
    """The numbers, settings and problems of a memory."""

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
    hooks: Mapping[str, hook_counts.HookCounts] = MappingProxyType({})  # of the last day


def status_of(memory: Memory) -> Status:
    """Return the status of a memory."""
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
    private = work.caller.audience is Audience.PRIVATE
    places = scopes.visible(work.caller)
    counts: Counter[str] = Counter()
    findings: list[Finding] = []
    with work.reported("read the memory"), request_view():
        for each in work.records.listed(places, LOST):
            findings.append(each if isinstance(each, Finding) else _lost_finding(each))
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
            _deleted_finding(version)
            for version in lookup.gone_records(work.records, places)
            if version.image.why == archive.KEPT
        ]
        findings += _check_format(work)
        findings += _shared_settings(work)
        lost = audit.missing(work.home) if private else None
        findings += [lost] if lost else []
        findings += memory.projects.earlier()
        findings += memory.care.swept()
        findings += memory.care.held()
        findings += _check_requests(work)
        findings += memory.archive.purge_findings()
        findings += _sync_findings(work)
        findings += memory.review.to_review()
        findings += _hooks(work)
        attached = sources.visible(work.home, work.caller)
        scope_folder = scopes.own_folder(work.home, work.caller.project)
        return Status(
            **head,
            trusted=None if scope_folder is None else scope_folder.trusted,
            records=dict(+counts),
            notes=notes,
            pinned=tuple(documents),
            sources=tuple(attached),
            findings=tuple(findings),
            aliases=tuple(scopes.aliases(work.home, project.id)) if project else (),
            coverage=memory.care.survey() if private else None,
            hooks=hook_counts.last_day(work.home.path) if private else {},
        )


def _sync_findings(work: Workspace) -> Iterator[Finding]:
    """Yield the problems of the last sync with the folder and with each workspace."""
    for where, problems in sync_problems.read_all(work.home).items():
        for problem in problems:
            yield Finding("sync", f"hub/{where}", problem, "`vade sync status` shows more", "warning")


def _check_format(work: Workspace) -> Iterator[Finding]:
    """Yield a finding if this home cannot be written because its format is newer or unknown."""
    try:
        work.home.check_format()
    except (NewerFormat, Malformed, StorageFailed) as error:
        yield Finding("format", FORMAT_FILE, str(error), error.hint, "error")


def _shared_settings(work: Workspace) -> Iterator[Finding]:
    """Yield findings on the settings of the repository: problems, or that the settings are not trusted."""
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
    yield Finding("settings", str(shared.path), why, "read it, then run `vade review trust`", "info")


def _hooks(work: Workspace) -> Iterator[Finding]:
    """Yield a finding about late hooks in the last day; if none was late, about the last failure."""
    if work.caller.audience is not Audience.PRIVATE:
        return
    failure = hook_log.last(work.home.path)
    last = f"{failure.agent} {failure.event} at {failure.time}: {failure.why}" if failure else ""
    found = hook_counts.last_day(work.home.path)
    missed, calls = sum(each.missed for each in found.values()), sum(each.calls for each in found.values())
    if missed:
        lost = sum(each.lost for each in found.values())
        late = f"{missed:,} of {calls:,} hooks in the last day ({missed / calls:.1%}) had no answer in time"
        then = (
            f"{lost:,} of these answers did not reach the agent yet" if lost else "later prompts brought all"
        )
        cause = f"; the last failure is {last}" if last else ""
        bad = lost or missed > calls * hook_counts.TOLERATED
        state = "error" if bad else "info"
        yield Finding("hook", hook_log.NAME, f"{late}; {then}{cause}", _more_time(work, found), state)
    elif last:
        mend = f"{hook_log.NAME} has all of them; delete it once you have read them"
        yield Finding("hook", hook_log.NAME, last, mend, "info")


def _more_time(work: Workspace, found: Mapping[str, hook_counts.HookCounts]) -> str:
    """Return the command that raises the time limit of the kind of hook that was late most often.

    If the limit is already the highest, return other advice.
    """
    limits = work.settings.limits
    setting, limit = "hook_start", limits.hook_start
    if found["user-prompt"].missed > found["session-start"].missed:
        setting, limit = "hook_prompt", limits.hook_prompt
    if limit >= LONGEST_HOOK:
        return f"{hook_log.NAME} has each of them; find out what keeps this machine or its disk busy"
    return f"vade config set limits.{setting} {min(limit * 2, LONGEST_HOOK):g}s"


def _leftovers(work: Workspace, places: Iterable[Place]) -> Iterator[Finding]:
    """Yield findings about files that were left by killed processes or unfinished edits."""
    conflict = "a text that could not be merged into its file was saved here"
    for folder, path in _folders(work, places):
        with folder:
            for name in folder.leftovers():
                yield Finding(
                    "leftover", path(name), "a writer was killed here", "the next write cleans it up"
                )
            listed = folder.names(ordered=False)
            # Beside its file it is a second copy, which other findings report.
            alone = (name for name in listed if ".conflict-" in name and filenames.is_conflict(name))
            for name in sorted(alone):
                if f"{name.partition('.conflict-')[0]}.md" not in listed:
                    yield Finding("conflict", path(name), conflict, "keep what you want, delete the copy")


def _folders(work: Workspace, places: Iterable[Place]) -> Iterator[tuple[Directory, Callable[[str], str]]]:
    """Yield every visible folder of memory, with a function that gives the shown path of a file in it."""
    for place in places:
        for scope_folder in scopes.scope_folders(work.home, work.caller, place):
            for below in ((filenames.RECORDS,), (filenames.JOURNAL,), ()):
                if work.caller.audience is Audience.GROUP and below == (filenames.JOURNAL,):
                    continue
                try:
                    folder = scope_folder.open(*below)
                except (OutsideMemory, NotADirectoryError):
                    continue  # the records report it themselves
                if folder is not None:
                    yield folder, functools.partial(scope_folder.name_of, *below)


def _check_requests(work: Workspace) -> Iterator[Finding]:
    """Yield a finding if writes wait for a person's approval."""
    count = pending_writes.count(work.home) if work.caller.audience is Audience.PRIVATE else 0
    if count:
        count_text = "1 write is" if count == 1 else f"{count} writes are"
        yield Finding(
            "approval", "decisions/approvals", f"{count_text} pending", "vade review approve", "info"
        )


def _deleted_finding(version: Version) -> Finding:
    """Return the finding that somebody deleted the file of a record."""
    path = version.scope_folder.name_of(filenames.RECORDS, version.name)
    mend = f"vade restore {key_of(version.name)} --scope {version.scope_folder.place.scope}"
    return Finding("deleted", path, "the file is missing; its text is in the archive", mend, "info")


def _lost_finding(listed: Listed) -> Finding:
    """Return the finding that an edit removed entries from a record."""
    entries = "an entry" if listed.fact == 1 else f"{listed.fact} entries"
    mend = f"vade restore {key_of(listed.name)} --scope {listed.scope_folder.place.scope}"
    path = listed.scope_folder.name_of(filenames.RECORDS, listed.name)
    return Finding("edited", path, f"{entries} saved here changed or removed by hand", mend, "info")
