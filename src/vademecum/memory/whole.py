"""Memory: the one object that every interface talks to; it wires the parts and holds no rules of its own."""

from __future__ import annotations

import contextlib
import functools
import os
from collections import Counter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum import config
from vademecum.errors import Malformed, NewerFormat, OutsideMemory, StorageFailed, VadeError
from vademecum.lazy import LazyModule
from vademecum.memory.base import _audience, _split
from vademecum.memory.injecting import Injecting
from vademecum.memory.reviewing import Reviewing
from vademecum.store import archive, audit, clock, files, identity, people, scopes
from vademecum.store.home import FORMAT_FILE, Home
from vademecum.store.records import LOST, Listed, key_of
from vademecum.types import Audience, Finding, Origin, Place

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.index.sync import Survey
    from vademecum.store import hook_log, pinned, repository, sources, versions
    from vademecum.store.folders import Folder
    from vademecum.store.pinned import Pinned
else:
    hook_log = LazyModule("vademecum.store.hook_log")
    pinned = LazyModule("vademecum.store.pinned")
    repository = LazyModule("vademecum.store.repository")
    sources = LazyModule("vademecum.store.sources")
    versions = LazyModule("vademecum.store.versions")


class Status(NamedTuple):
    """What is here, and what is wrong with it."""

    home: Path
    project: identity.Project | None
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


class Memory(Reviewing, Injecting):
    """Long-term memory as one caller sees it."""

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        cwd: str | os.PathLike[str] | None = None,
        agent: str | None = None,
        session: str | None = None,
        audience: str | Audience | None = None,
        incognito: bool | None = None,
        person: bool = False,
    ) -> Memory:
        """Open the memory of an agent.

        With `person`, what is written is the user's own word. That is refused inside an agent, and where
        there is neither a terminal nor a script that the user allowed by name (`approval.scripts`).
        """
        given: dict[str, Any] = {"home": home, "cwd": cwd, "agent": agent, "session": session}
        given |= {"audience": audience, "incognito": incognito}
        if not person:
            return connect(**given)
        actor = f"human:{people.login()}"
        opened = connect(**given, origin=Origin.USER, actor=actor, terminal=people.has_terminal())
        opened.may_decide("open memory as a person", "vade")
        return opened

    def status(self) -> Status:
        """What is here, and what needs a look."""
        project, incognito = self.caller.project, self.settings.incognito
        head: dict[str, Any] = {
            "home": self.home.path,
            "project": project,
            "agent": self.settings.agent,
            "session": self.caller.session,
            "audience": self.caller.audience,
            "incognito": incognito,
        }
        if incognito:
            return Status(**head, trusted=None)
        places = scopes.visible(self.caller)
        counts: Counter[str] = Counter()
        findings: list[Finding] = []
        with self._reported("read the memory"), self.records.catalogue.one_look():
            for each in self.records.listed(places, LOST):
                findings.append(each if isinstance(each, Finding) else _lost(each))
            for known in self.records.known(places, LOST):
                if not isinstance(known, Finding) and known[1].facts:
                    counts[str(known[0].place.scope)] += len(known[1].facts)
            notes = 0
            for day in self.journal.days(places):
                if isinstance(day, Finding):
                    findings.append(day)
                else:
                    notes += len(day.entries)
            documents, more = _split(self.documents.all(places))
            findings += more
            findings += self._leftovers(places)
            findings += [
                _deleted(version)
                for version in versions.gone(self.records, places)
                if version.image.why == archive.KEPT
            ]
            findings += self._formatted()
            findings += self._shared_settings()
            lost = audit.missing(self.home) if self.caller.audience is Audience.PRIVATE else None
            findings += [lost] if lost else []
            findings += self._moved()
            findings += self._swept()
            findings += self._held()
            findings += self._undecided()
            findings += self._to_review()
            findings += self._hooks()
            attached = sources.visible(self.home, self.caller)
            shelf = repository.shelf(self.home, self.caller.project)
            return Status(
                **head,
                trusted=None if shelf is None else shelf.trusted,
                records=dict(counts),
                notes=notes,
                pinned=tuple(documents),
                sources=tuple(attached),
                findings=tuple(findings),
                aliases=tuple(scopes.aliases(self.home, project.id)) if project else (),
                coverage=self._survey() if self.caller.audience is Audience.PRIVATE else None,
            )

    def _formatted(self) -> Iterator[Finding]:
        """That this home cannot be written to, because a newer version keeps it or nobody knows which."""
        try:
            self.home.check_format()
        except (NewerFormat, Malformed, StorageFailed) as error:
            yield Finding("format", FORMAT_FILE, str(error), error.hint, "error")

    def _shared_settings(self) -> Iterator[Finding]:
        """What is wrong in a trusted repository's settings; of one that is not, what it would set."""
        shared = self.loaded.shared
        if shared is None:
            return
        if shared.trusted:
            yield from (each for each in self._settings_findings() if each.where.startswith(str(shared.path)))
            return
        count = len(shared.wanted)
        would = f"would set {count} setting{'' if count == 1 else 's'}" if count else "sets nothing"
        wrong = f", and {len(shared.problems)} of its lines cannot count" if shared.problems else ""
        why = f"it {would}{wrong}; it has no effect until this folder is trusted"
        yield Finding("settings", str(shared.path), why, "read it, then run `vade trust`", "info")

    def _hooks(self) -> Iterator[Finding]:
        """The last hook that could not do its work."""
        failure = hook_log.last(self.home.path) if self.caller.audience is Audience.PRIVATE else None
        if failure is not None:
            when = "at" if failure.why.startswith("answered") else "failed at"
            what = f"{failure.agent} {failure.event} {when} {failure.time}: {failure.why}"
            mend = f"{hook_log.NAME} has all of them; delete it once they are looked at"
            yield Finding("hook", hook_log.NAME, what, mend, "info")

    def _leftovers(self, places: Iterable[Place]) -> Iterator[Finding]:
        """What killed writers and unfinished edits left beside the files."""
        conflict = "a text that could not be joined with its file was kept here"
        compare = "compare both, keep what you want, delete the copy"
        for folder, path in self._folders(places):
            with folder:
                for name in files.leftovers(folder):
                    yield Finding(
                        "leftover", path(name), "a writer was killed here", "it is cleared by the next write"
                    )
                for name in folder.names():
                    if files.is_conflict(name):
                        yield Finding("conflict", path(name), conflict, compare)

    def _folders(self, places: Iterable[Place]) -> Iterator[tuple[Folder, Callable[[str], str]]]:
        """Every folder in sight that holds files of memory, and how a file in it is shown."""
        for place in places:
            for shelf in scopes.shelves(self.home, self.caller, place):
                for below in ((archive.RECORDS,), (archive.JOURNAL,), ()):
                    if self.caller.audience is Audience.GROUP and below == (archive.JOURNAL,):
                        continue
                    try:
                        folder = shelf.open(*below)
                    except (OutsideMemory, NotADirectoryError):
                        continue  # told by the records themselves
                    if folder is not None:
                        yield folder, functools.partial(shelf.name_of, *below)

    def elsewhere(self) -> Sequence[Finding]:
        """What is kept for a project that may be this one, with the command that joins it."""
        found = [*self._moved()]
        for each in self.moved_here()[:3]:
            count = "1 record" if each.records == 1 else f"{each.records} records"
            why = f"{count} kept for {each.root}, which is gone"
            found.append(Finding("project", str(each.root), why, f"vade project alias {each.id}", "info"))
        return found

    def _moved(self) -> Iterator[Finding]:
        """That the project had another id here, whose memory only a person can join."""
        project = self.caller.project
        if project is None or self.caller.audience is Audience.GROUP:
            return
        earlier = scopes.earlier_id(self.home, project)
        if earlier:
            why = f"project id changed from {earlier}; its memory is not joined"
            yield Finding("project", str(project.root), why, f"vade project alias {earlier}", "info")


def connect(
    *,
    home: str | os.PathLike[str] | None = None,
    cwd: str | os.PathLike[str] | None = None,
    agent: str | None = None,
    session: str | None = None,
    audience: str | Audience | None = None,
    incognito: bool | None = None,
    origin: Origin = Origin.AGENT,
    actor: str | None = None,
    terminal: bool | None = None,
    readonly: bool = False,
    now: Callable[[], datetime] = clock.now,
    environ: Mapping[str, str] = os.environ,
) -> Memory:
    """Open memory for one door; the door, never the caller, says what origin its texts have.

    A command line says whether it has a `terminal`. It is a person's only outside of agents, and decides only
    at a terminal or as a script that the user's own settings allow.
    """
    place = config.home_from(environ, home)
    here = Path(cwd) if cwd is not None else _working_directory()
    flags = {name: value for name, value in (("agent", agent), ("incognito", incognito)) if value is not None}
    with files.reported("look at this folder"):
        root = identity.find_root(here, home=place) if here is not None else None
        loaded = config.load(
            home=place,
            project_root=root,
            trusted=root is not None and _trusted(Home(place), root),
            environ=environ,
            flags=flags,
        )
        settings = loaded.settings
        override = settings.project_id
        project = identity.project(here, home=place, override=override) if here is not None else None
    speaker = people.Speaker(origin)
    if terminal is not None and origin is Origin.USER:
        speaker = people.speaker(environ, terminal=terminal, scripts=settings.approval.scripts)
        actor = actor if speaker.origin is Origin.USER else None
    caller = scopes.Caller(
        agent=settings.agent,
        session=session or environ.get("VADE_SESSION") or None,
        project=project,
        audience=_audience(audience or environ.get("VADE_AUDIENCE") or Audience.PRIVATE),
        origin=speaker.origin,
        actor=actor or f"process:{settings.agent}",
        undecided=speaker.undecided,
        undecided_hint=speaker.hint,
        command_line=terminal is not None,
        owners=scopes.owners(environ),
    )
    memory = Memory(Home(place, settings.limits.lock), caller, loaded, now=now, readonly=readonly)
    memory.home.check()
    asked = origin in (Origin.USER, Origin.AGENT) and caller.audience is Audience.PRIVATE
    if project is not None and asked and not settings.incognito and not readonly:
        with contextlib.suppress(VadeError, OSError):  # a convenience, which a read-only home does without
            scopes.join_by_path(memory.home, project, at=clock.stamp(now()))
    return memory


def _trusted(home: Home, root: Path) -> bool:
    """Whether the settings of a folder count; where that cannot be asked, whoever acts on it is told."""
    try:
        return scopes.is_trusted(home, root)
    except OutsideMemory:
        return False


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # the folder was deleted under us: there is no project then
        return None


def _deleted(version: versions.Version) -> Finding:
    """What to say of a record whose file somebody deleted."""
    path = version.shelf.name_of(archive.RECORDS, version.name)
    mend = f"vade restore {key_of(version.name)} --scope {version.shelf.place.scope}"
    return Finding("deleted", path, "the file is gone; what it said is kept", mend, "info")


def _lost(listed: Listed) -> Finding:
    """What to say of a record that an edit has taken entries out of."""
    entries = "an entry" if listed.fact == 1 else f"{listed.fact} entries"
    mend = f"vade restore {key_of(listed.name)} --scope {listed.shelf.place.scope}"
    path = listed.shelf.name_of(archive.RECORDS, listed.name)
    return Finding("edited", path, f"{entries} written here changed or left by hand", mend, "info")
