"""Origin of every entry: who said it, through which program, in which session, from which source.

The origin comes from signatures, the log of acknowledged entries, frontmatter, the audit and an entry's
place; it holds for every copy of the entry. From the origins a purge decides which entries to delete.
This module changes nothing.
"""

from __future__ import annotations

import functools
import json
import os
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, OutsideMemory, UnknownName
from vademecum.store import archive, audit, heard, pending_writes, purge, teams, tombstones
from vademecum.store.files import DiskFolder
from vademecum.store.purge import Purged
from vademecum.text import clock, filenames, frontmatter, names, normalise
from vademecum.text.document import decode
from vademecum.types import Entry, Origin, Scope, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
    from datetime import datetime
    from pathlib import Path

    from vademecum.store.home import Home

_TRANSCRIPTS = "transcripts"
_LOG = ".jsonl"
REQUESTS = ("decisions", "approvals")
_NOTE = re.compile(r"\(transcripts/[^/\s]+/([^/\s]+)\.jsonl\b")  # how a session's note names its transcript
_IMPORT = "import "  # how the log of a run begins that imported
_WORDS = 4  # of a line that can be told to come from another text
OTHERS = "others said it too; purge it by its key or with --text to delete it"
TWO = "two sources wrote in that second; purge it by its key or with --text"
SOURCES = "its record came from several sources; purge it by its key or with --text"
NO_FILE = "which file of {} it came from is not known; `--source {}` deletes it"
REPEATED = "it repeats purged text; purge it by its key or with --text to delete it"
BEGUN = "it began before that time; `vade purge --session` deletes all of it"
UNREAD = "it cannot be read, so its author is unknown"


class Wanted(NamedTuple):
    """The criteria of a purge; a purged entry meets all of them."""

    origin: Origin | None = None
    session: str = ""
    agent: str = ""
    since: datetime | None = None
    until: datetime | None = None
    source: str = ""
    scope: Scope | None = None

    @property
    def names_somebody(self) -> bool:
        """Return whether the criteria name more than a time and a scope."""
        return bool(self.session or self.agent or self.source or self.origin)

    def __str__(self) -> str:
        """Return the criteria as the receipt of the purge shows them."""
        conditions = [f"{name} {value}" for name, value in self._asdict().items() if value and name in _NAMED]
        times = (("since", self.since), ("until", self.until))
        conditions += [f"{name} {clock.stamp(moment)}" for name, moment in times if moment is not None]
        return ", ".join(conditions)


_NAMED = ("origin", "session", "agent", "source", "scope")


class StoredFile(NamedTuple):
    """A Markdown file of memory or of the archive: its path, and the memory file of which it is a version."""

    top: Path
    parts: tuple[str, ...]
    area: tuple[str, ...]
    kind: str
    name: str

    @property
    def where(self) -> str:
        """Return the file's path as reports show it."""
        return "/".join(self.parts)

    @property
    def archived(self) -> bool:
        """Return whether the file is an archived version."""
        return self.parts[0] == "archive"


@dataclass(slots=True)
class KnownEntry:
    """The origin of an entry, gathered from all of its copies."""

    entry: Entry
    origin: Origin
    said: set[str] = field(default_factory=set)  # who said it: agent and session
    sessions: set[str] = field(default_factory=set)
    writers: set[tuple[str, str]] = field(default_factory=set)  # who wrote it, and through which program
    sources: set[str] = field(default_factory=set)
    scopes: set[str] = field(default_factory=set)
    where: set[str] = field(default_factory=set)

    def stays(self, why: str) -> list[Purged]:
        """Return one report for each file with the entry, which says that the entry stays there, and why."""
        return [Purged(where, 1, gone=False, why=why) for where in sorted(self.where)]

    @property
    def is_made(self) -> bool:
        """Whether an automatic pass wrote the entry: no person wrote it, and no session is logged for it."""
        return self.origin is not Origin.USER and not self.said

    @property
    def heard(self) -> set[str]:
        """Every session that is known to have said or confirmed the entry."""
        return self.sessions | {each.partition(":")[2] for each in self.said}


class KnownEntries(NamedTuple):
    """The known entries by fingerprint, and facts about the files in which they are."""

    entries: dict[str, KnownEntry]
    confirmed: dict[str, set[str]]  # the files whose labels name a session
    records: dict[str, tuple[str, int]]  # the id of each record, and how many entries it has
    unread: list[Purged]


class PurgePlan(NamedTuple):
    """The entries, files, sessions and records to purge, and reports (`told`) on what stays, with reasons."""

    entries: tuple[Entry, ...]
    files: tuple[str, ...]
    sessions: tuple[str, ...]
    told: tuple[Purged, ...]
    where: frozenset[str]  # the Markdown files that hold any of it
    records: tuple[str, ...]  # the ids of those of which nothing is left


# -------------------------------------------------------------------- deciding


def plan(home: Home, shared: Path | None, wanted: Wanted) -> PurgePlan:
    """Decide what a purge deletes; nothing is changed."""
    known = gather(home, shared)
    logs = {each.where: each for each in _sessions(home)}
    ids = _ids(wanted.session, logs.values()) if wanted.session else frozenset[str]()
    doomed, rows = _doomed(known.entries, wanted, ids)
    gone, later = _transcripts(logs.values(), wanted, ids)
    waiting = [f"{'/'.join(REQUESTS)}/{each.id}.json" for each in _requests(home, wanted, ids)]
    sessions = {*ids} | {id for each in gone for id in (logs[each].id, logs[each].own)}
    found = [doomed[mark] for mark in sorted(doomed)]
    holding = Counter(where for each in found for where in each.where)
    labelled = (where for one in ids for where in known.confirmed.get(one, ()))
    findings = [*known.unread, *rows, *later]
    return PurgePlan(
        tuple(each.entry for each in found),
        tuple(sorted((*gone, *waiting))),
        tuple(sorted(sessions - {""})),
        tuple(each for each in dict.fromkeys(findings) if not each.where.startswith("archive/")),
        frozenset(holding) | frozenset(labelled),
        tuple(sorted(id for where, (id, size) in known.records.items() if id and holding[where] == size)),
    )


def _doomed(
    known: Mapping[str, KnownEntry], wanted: Wanted, ids: Collection[str]
) -> tuple[dict[str, KnownEntry], list[Purged]]:
    """Return the entries that meet the criteria, their automatic copies, and reports on entries that stay."""
    doomed: dict[str, KnownEntry] = {}
    rows: list[Purged] = []
    for mark, each in known.items():
        verdict = _verdict(each, wanted, ids)
        if verdict is True:
            doomed[mark] = each
        elif verdict:
            rows += each.stays(str(verdict))
    if not wanted.names_somebody:
        return doomed, rows
    copies, repeated = _copies(known, doomed, wanted)
    return doomed | copies, rows + repeated


def gather(home: Home, shared: Path | None) -> KnownEntries:
    """Read the entries of a home and of the `shared` folder with their origins; report unreadable files."""
    found: dict[str, KnownEntry] = {}
    confirmed: dict[str, set[str]] = {}
    records: dict[str, tuple[str, int]] = {}
    rows: list[Purged] = []
    origins = _from_logs(home, found)
    wrote, days = _writers(home), _imported_days(home)
    for file in markdown(home, shared):
        content = read_file(file)
        values = _values(content)
        if values is None:
            rows.append(Purged(file.where, 1, gone=False, why=UNREAD))
            continue
        for session in _confirming(values):
            confirmed.setdefault(session, set()).add(file.where)
        entries = {archive.fingerprint(each): each for each in tombstones.read_entries(content, file.kind)}
        if file.kind == filenames.RECORDS and not file.archived:
            records[file.where] = str(values.get("id") or ""), len(entries)
        for mark, entry in entries.items():
            origin = _origin_of(file, entry, origins.get((file.area, mark)))
            each = found.setdefault(mark, KnownEntry(entry, origin))
            each.origin = each.origin if file.archived else origin
            each.where.add(file.where)
            _learn(each, file, values, wrote)
            if each.origin is Origin.IMPORT and file.kind == filenames.JOURNAL:
                each.sources |= days.get((file.area, file.name), set())
    return KnownEntries(found, confirmed, records, rows)


def _origin_of(file: StoredFile, entry: Entry, log_origin: Origin | None) -> Origin:
    """Return an entry's origin: for a repository's file from the log, as its signatures are only claims."""
    if file.area[0] == "repository":
        return log_origin or Origin.EXTERNAL
    return entry.origin or Origin.USER


def _from_logs(home: Home, found: dict[str, KnownEntry]) -> dict[tuple[tuple[str, ...], str], Origin]:
    """Read the logs of acknowledged entries: add the entries to `found`, and return their origins."""
    origins: dict[tuple[tuple[str, ...], str], Origin] = {}
    for parts, line in kept_lines(home):
        entry = Entry(line["text"], line["time"], parse_origin(line["origin"]))
        mark, area = archive.fingerprint(entry), parts[2:4]
        each = found.setdefault(mark, KnownEntry(entry, entry.origin or Origin.USER))
        each.said |= set(map(str, line.get("said") or ()))
        each.scopes.add(archive.scope_of(area))
        origins[area, mark] = each.origin
        if line.get("by"):
            each.writers.add((str(line["by"]), str(line.get("client") or "")))
        if area[0] == Scope.SESSION:
            each.sessions.add(area[1])
    return origins


def _learn(each: KnownEntry, file: StoredFile, values: Mapping[str, Any], wrote: Mapping[Any, Any]) -> None:
    """Add to a known entry the facts that its file and the audit tell about it."""
    scope, owner = file.area[:2]
    each.scopes.add(archive.scope_of(file.area))
    if scope == Scope.SESSION:
        each.sessions.add(owner)
    if each.origin is Origin.TOOL and file.kind == filenames.JOURNAL:
        each.sessions |= set(_NOTE.findall(each.entry.text.split("\n", 1)[0]))
    moment = clock.parse(each.entry.time)
    at = clock.stamp(moment) if moment is not None else ""
    each.sessions |= _confirming(values, at)
    each.sources |= _sources_of(each, values, at)
    if not each.writers:  # who wrote it was not logged then: the second tells it
        subject = str(values.get("id") or "") if file.kind == filenames.RECORDS else f"{file.kind} {scope}"
        each.writers |= wrote.get((subject, at), set()) | _generated(values, at)


def _confirming(values: Mapping[str, Any], at: str | None = None) -> set[str]:
    """Return the sessions that confirmed a record, by its frontmatter: all, or those of a given time."""
    confirmations = [each for each in _list(values.get("confirmed")) if at is None or each.get("at") == at]
    return {str(each["session"]) for each in confirmations if each.get("session")}


def _generated(values: Mapping[str, Any], at: str) -> set[tuple[str, str]]:
    """Return the writer from a record's field `generated`, if the field has the time of the entry."""
    label = values.get("generated")
    if not isinstance(label, dict) or not at or label.get("at") != at:
        return set()
    return {(str(label.get("by") or ""), str(label.get("client") or ""))}


def _sources_of(each: KnownEntry, values: Mapping[str, Any], at: str) -> set[str]:
    """Return the sources of an entry, from the fields of its record.

    Unless the entry was imported, the record's source counts only for the entry with which the record began.
    """
    label = str(values.get("source") or "")
    if each.origin is Origin.IMPORT:
        return {str(one.get("resource")) for one in _list(values.get("sources"))} or ({label} - {""})
    return {label} - {""} if at and values.get("created") == at else set()


def _imported_days(home: Home) -> dict[tuple[tuple[str, ...], str], set[str]]:
    """Return the systems from which each journal day was imported, according to the logs of runs.

    A journal has no frontmatter that could tell this.
    """
    found: dict[tuple[tuple[str, ...], str], set[str]] = {}
    for name in home.names("archive", "runs"):
        lines = [line for raw in home.lines("archive", "runs", name) if (line := _parsed(raw))]
        system = str(lines[0].get("what") or "") if lines else ""
        for line in lines if system.startswith(_IMPORT) else ():
            if line.get("kind") == filenames.JOURNAL:
                area = (str(line.get("scope")), str(line.get("id") or "_"))
                found.setdefault((area, str(line.get("name"))), set()).add(f"{system.removeprefix(_IMPORT)}:")
    return found


def _parsed(raw: bytes) -> dict[str, Any]:
    try:
        line = json.loads(raw)
    except ValueError:
        return {}
    return line if isinstance(line, dict) else {}


def _list(value: object) -> list[dict[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []


def _writers(home: Home) -> dict[tuple[str, str], set[tuple[str, str]]]:
    """Return from the audit the writers to each record and to each scope's journal, by the second."""
    found: dict[tuple[str, str], set[tuple[str, str]]] = {}
    for line in audit.lines(home):
        subject = line.get("record") or (
            f"{filenames.JOURNAL} {line.get('scope')}" if line.get("op") == "note" else ""
        )
        if subject and line.get("op") != "confirmed":
            who = str(line.get("actor") or ""), str(line.get("client") or "")
            found.setdefault((str(subject), str(line.get("at"))), set()).add(who)
    return found


def _verdict(each: KnownEntry, wanted: Wanted, ids: Collection[str]) -> bool | str:
    """Return whether an entry meets the criteria; if only a part of it does, return why the entry stays."""
    if wanted.origin not in (None, each.origin) or not _timely(each.entry.time, wanted):
        return False
    if wanted.scope is not None and str(wanted.scope) not in each.scopes:
        return False
    checks: list[bool | str] = []
    if wanted.session:
        checks.append(_all_of(each.heard, each.heard & {*ids}, OTHERS))
    if wanted.agent:
        checks.append(_by_agent(each, wanted.agent))
    if wanted.source:
        checks.append(_from_source(each.sources, wanted.source))
    return next((one for one in checks if isinstance(one, str)), True) if all(checks) else False


def _from_source(known: Collection[str], source: str) -> bool | str:
    """Return whether an entry came from a source; if that is not certain, return a text that says why."""
    matching = {one for one in known if _of_source(one, source)}
    if not matching and any(source.startswith(one) for one in known if one.endswith(":")):
        system = source.partition(":")[0]
        return NO_FILE.format(system, system)
    return _all_of(known, matching, SOURCES)


def _all_of(known: Collection[Any], matching: Collection[Any], otherwise: str) -> bool | str:
    """Return whether all known values match; if only some do, the text `otherwise`."""
    if not matching:
        return False
    return True if matching == known else otherwise


def _timely(time: str | None, wanted: Wanted) -> bool:
    if wanted.since is None and wanted.until is None:
        return True
    moment = clock.parse(time)
    if moment is None:
        return False
    after = wanted.since is None or moment >= wanted.since
    return after and (wanted.until is None or moment <= wanted.until)


def _by_agent(each: KnownEntry, agent: str) -> bool | str:
    own = {who for who in each.writers if is_agent(agent, *who)}
    spoke = {one for one in each.said if is_agent(agent, one.partition(":")[0], "")}
    found = _all_of(each.writers, own, TWO) if each.writers else bool(spoke)
    shared = len(each.said) > 1 and spoke != each.said
    return OTHERS if shared and found is True else found


def is_agent(name: str, actor: str, client: str) -> bool:
    """Return whether a name is that of the writer's agent or of the program that the agent used."""
    words = {word for part in client.split() for word in (part, part.partition("/")[0])}
    return name.lower() in {actor.lower(), actor.partition(":")[2].lower(), *map(str.lower, words)}


def _of_source(resource: str, source: str) -> bool:
    """Return whether a text came from this source, which is a system, a file or a folder."""
    system, _, path = resource.partition(":")
    inner = source.rstrip("/")
    return (
        inner in (resource, system, path)
        or f"{path}/".startswith(f"{inner}/")
        or (f"{resource}/".startswith(f"{inner}/"))
    )


def _copies(
    known: Mapping[str, KnownEntry], doomed: Mapping[str, KnownEntry], wanted: Wanted
) -> tuple[dict[str, KnownEntry], list[Purged]]:
    """Return entries copied from deleted entries by an automatic pass, and reports on other copies.

    An automatic copy is deleted with its original. A text that repeats the same lines but that somebody wrote
    stays and is reported.
    """
    lines = {line: each for each in doomed.values() for line in _telling_lines(each.entry.text)}
    copies: dict[str, KnownEntry] = {}
    rows: list[Purged] = []
    for mark, each in known.items() if lines else ():
        own = _telling_lines(each.entry.text)
        originals = [lines[line] for line in own if line in lines]
        if not originals or mark in doomed or (wanted.scope and str(wanted.scope) not in each.scopes):
            continue
        if each.is_made and len(originals) == len(own) and not _earlier(each.entry, originals[0].entry):
            copies[mark] = each
        else:
            rows += each.stays(REPEATED)
    return copies, rows


def _telling_lines(text: str) -> list[str]:
    lines = (normalise(re.sub(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+", "", line)) for line in text.split("\n"))
    return [line for line in lines if line.count(" ") >= _WORDS - 1]


def _earlier(one: Entry, other: Entry) -> bool:
    first, second = clock.parse(one.time), clock.parse(other.time)
    return first is not None and second is not None and first < second


# -------------------------------------------------------------------- sessions and requests


class _Session(NamedTuple):
    """A session's transcript, with the values of its first event."""

    where: str
    id: str
    own: str  # the id that the agent gave it
    agent: str
    begun: str
    source: str
    scope: str = str(Scope.PROJECT)


def _sessions(home: Home) -> Iterator[_Session]:
    """Yield the transcript of each session, and the file of statements heard in each session."""
    for folder in (_TRANSCRIPTS, heard.FOLDER):
        for project in home.names(folder):
            for name in home.names(folder, project):
                if name.endswith(_LOG) and not name.startswith("."):
                    yield _read_session(home, (folder, project, name))


def _read_session(home: Home, parts: tuple[str, ...]) -> _Session:
    try:
        event = json.loads(next(iter(home.lines(*parts)), b""))
    except ValueError:
        event = None
    event = event if isinstance(event, dict) else {}
    about = next(iter(_list([event.get("import")])), {})
    return _Session(
        "/".join(parts),
        parts[-1].removesuffix(_LOG),
        str(about.get("id") or ""),
        str(event.get("agent") or ""),
        str(event.get("created") or event.get("time") or ""),
        f"{about.get('format')}:{about.get('path')}" if about else "",
    )


def _ids(session: str, logs: Iterable[_Session]) -> frozenset[str]:
    """Return every id of a session, including the ids of its subagents."""
    logs = [*logs]
    own = {session} | {each.own for each in logs if each.id == session and each.own}
    return frozenset(own | {each.id for each in logs if each.own in own})


def _transcripts(
    logs: Iterable[_Session], wanted: Wanted, ids: Collection[str]
) -> tuple[list[str], list[Purged]]:
    """Return the transcripts to delete, and reports on those that began outside of the wanted time.

    If the criteria name an origin, or a scope other than project, no transcript matches.
    """
    gone: list[str] = []
    rows: list[Purged] = []
    if wanted.origin is not None or wanted.scope not in (None, Scope.PROJECT):
        return gone, rows
    for each in logs:
        if not _came_from(each, wanted, ids):
            continue
        if _timely(each.begun, wanted):
            gone.append(each.where)
        elif wanted.names_somebody:
            rows.append(Purged(each.where, 1, gone=False, why=BEGUN))
    return gone, rows


def _came_from(log: _Session, wanted: Wanted, ids: Collection[str]) -> bool:
    if wanted.session and log.id not in ids:
        return False
    if wanted.agent and not is_agent(wanted.agent, log.agent, log.source.partition(":")[0]):
        return False
    return not wanted.source or bool(log.source and _of_source(log.source, wanted.source))


def _requests(home: Home, wanted: Wanted, ids: Collection[str]) -> Iterator[pending_writes.PendingRequest]:
    """Yield the pending writes that meet the criteria; if these name a source, no pending write does."""
    for each in pending_writes.every(home) if not wanted.source else ():
        request = each.request
        if request is not None and _timely(request.at, wanted) and _asked_by(request, wanted, ids):
            yield each


def _asked_by(request: pending_writes.Request, wanted: Wanted, ids: Collection[str]) -> bool:
    if wanted.origin not in (None, request.origin) or wanted.scope not in (None, request.scope):
        return False
    if wanted.session and not {request.session, request.conversation}.intersection(ids):
        return False
    own = (request.actor, request.client or ""), (request.agent, "")
    return not wanted.agent or any(is_agent(wanted.agent, *who) for who in own)


def parse_kind(name: str) -> Origin:
    """Return the origin with this name; raise UnknownName for any other name."""
    try:
        return Origin(name)
    except ValueError:
        hint = f"the origins are {', '.join(Origin)}"
        raise UnknownName(f"{names.shown(name)} is not an origin", hint=hint) from None


# -------------------------------------------------------------------- walking


def markdown(home: Home, shared: Path | None) -> Iterator[StoredFile]:
    """Yield the Markdown files of memory, of the archive and, unless it is None, of the `shared` `.vade/`."""
    yield from below(home.path, "memory", _memory_file)
    if shared is not None:
        area = purge.repository_area(shared.parent)
        yield from below(shared.parent, shared.name, functools.partial(shared_file, area))
    yield from below(home.path, "archive", _archived_file)


def below(
    top: Path, start: str, place: Callable[[tuple[str, ...]], tuple[tuple[str, ...], str, str] | None]
) -> Iterator[StoredFile]:
    """Yield every Markdown file below a folder that `place` recognises; raise if a folder is unreadable."""
    for path, below, inside in os.walk(top / start, onerror=purge.raise_unless_gone):
        below.sort()
        parts = tuple(os.path.relpath(path, top).split(os.sep))
        for name in sorted(inside):
            if name.endswith(".md") and not name.startswith("."):
                found = place((*parts, name))
                if found is not None:
                    yield StoredFile(top, (*parts, name), *found)


def _memory_file(parts: tuple[str, ...]) -> tuple[tuple[str, ...], str, str] | None:
    if parts[1] == teams.FOLDER and len(parts) > 4 and parts[3] in teams.SCOPES:
        owned = 4 + bool(Scope(parts[3]).rule.owner)  # where the folder of a team's place ends
        return _named(archive.team_area("/".join(parts[:owned]), parts[3]), parts[owned:])
    if len(parts) < 3 or parts[1] not in list(Scope):
        return None
    owned = bool(Scope(parts[1]).rule.owner)
    owner, rest = (parts[2], parts[3:]) if owned else ("_", parts[2:])
    return _named((parts[1], owner), rest)


def shared_file(area: tuple[str, ...], parts: tuple[str, ...]) -> tuple[tuple[str, ...], str, str] | None:
    """Return archive area, kind and file name for a file in a repository's `.vade/`; None for other files."""
    return _named(area, parts[1:])


def _archived_file(parts: tuple[str, ...]) -> tuple[tuple[str, ...], str, str] | None:
    if len(parts) != 6 or parts[1] in (archive.KEPT, "runs"):
        return None
    return parts[1:3], parts[3], parts[4]


def _named(area: tuple[str, ...], rest: tuple[str, ...]) -> tuple[tuple[str, ...], str, str] | None:
    if len(rest) == 2 and rest[0] in (filenames.RECORDS, filenames.JOURNAL) and rest[1] != filenames.LISTING:
        return area, rest[0], rest[1]
    return (area, filenames.PINNED, rest[0]) if len(rest) == 1 and rest[0] in filenames.DOCUMENTS else None


def read_file(file: StoredFile) -> bytes:
    """Return the content of a file; empty when it is missing or outside of memory."""
    try:
        with DiskFolder.at(file.top) as top, top.enter(*file.parts[:-1]) as folder:
            return folder.read(file.parts[-1]) or b""
    except (OutsideMemory, FileNotFoundError):
        return b""


def _values(content: bytes) -> Mapping[str, Any] | None:
    try:
        return frontmatter.parse(decode(content)).values
    except Malformed:
        return None


def kept_logs(home: Home) -> Iterator[tuple[str, ...]]:
    """Yield the path parts of every log of acknowledged entries."""
    top = ("archive", archive.KEPT)
    for scope in home.names(*top):
        for owner in home.names(*top, scope):
            for kind in home.names(*top, scope, owner):
                for name in home.names(*top, scope, owner, kind):
                    if name.endswith(_LOG) and not name.startswith("."):
                        yield (*top, scope, owner, kind, name)


def kept_lines(home: Home) -> Iterator[tuple[tuple[str, ...], dict[str, Any]]]:
    """Yield every readable line of the logs of acknowledged entries, with the log's path parts."""
    for parts in kept_logs(home):
        for raw in home.lines(*parts):
            if kept_entry(raw) is not None:
                yield parts, json.loads(raw)


def kept_entry(raw: bytes) -> Entry | None:
    """Return the entry in a line of a log of acknowledged entries; None for an unreadable line."""
    try:
        line = json.loads(raw)
        return Entry(str(line["text"]), line["time"], parse_origin(line["origin"]))
    except (ValueError, KeyError, TypeError):
        return None
