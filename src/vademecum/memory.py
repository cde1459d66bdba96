"""Memory: the one object that every interface talks to; it wires the parts and holds no rules of its own."""

from __future__ import annotations

import contextlib
import functools
import math
import os
from collections import Counter
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum import config
from vademecum.errors import (
    EmbedderFailed,
    IncognitoWrite,
    Malformed,
    NotFound,
    NotVisible,
    OutsideMemory,
    StorageFailed,
    UnknownName,
    UsageError,
    VadeError,
)
from vademecum.lazy import LazyModule
from vademecum.store import archive, audit, clock, files, identity, labels, names, scopes, secrets, texts
from vademecum.store.home import Home
from vademecum.store.joining import Draft
from vademecum.store.records import Found, Records, key_of, parse_type
from vademecum.types import (
    Audience,
    Change,
    Finding,
    Noted,
    Origin,
    Place,
    Record,
    Scope,
    Stored,
)

if TYPE_CHECKING:
    import threading
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from contextlib import AbstractContextManager
    from datetime import datetime
    from typing import Self

    from vademecum.config import Loaded, Settings
    from vademecum.index.embed.base import Embedder
    from vademecum.index.sync import Report, Survey
    from vademecum.search import answer as answering
    from vademecum.search import query as querying
    from vademecum.search.engine import Options
    from vademecum.search.searcher import Searcher
    from vademecum.store import editing, listing, pinned, reading, repository, sources, versions
    from vademecum.store import purge as purging
    from vademecum.store.folders import Folder
    from vademecum.store.home import Shelf
    from vademecum.store.journal import Journal
    from vademecum.store.pinned import Documents, Pinned
    from vademecum.store.state import State
    from vademecum.transcripts import export, importing, views
    from vademecum.transcripts import recall as recalling
    from vademecum.transcripts.log import Line, Log
    from vademecum.transcripts.sessions import Session, Sessions
    from vademecum.types import Entry, RecordType
else:
    editing = LazyModule("vademecum.store.editing")
    export = LazyModule("vademecum.transcripts.export")
    importing = LazyModule("vademecum.transcripts.importing")
    recalling = LazyModule("vademecum.transcripts.recall")
    views = LazyModule("vademecum.transcripts.views")
    listing = LazyModule("vademecum.store.listing")
    pinned = LazyModule("vademecum.store.pinned")
    purging = LazyModule("vademecum.store.purge")
    answering = LazyModule("vademecum.search.answer")
    querying = LazyModule("vademecum.search.query")
    reading = LazyModule("vademecum.store.reading")
    repository = LazyModule("vademecum.store.repository")
    sources = LazyModule("vademecum.store.sources")
    versions = LazyModule("vademecum.store.versions")


class Listing(NamedTuple):
    """Records, and the files that could not be read as one."""

    records: tuple[Record, ...]
    findings: tuple[Finding, ...]
    limit: int


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


class Memory:
    """Long-term memory as one caller sees it."""

    def __init__(
        self, home: Home, caller: scopes.Caller, loaded: Loaded, *, now: Callable[[], datetime] = clock.now
    ) -> None:
        self.home = home
        self.caller = caller
        self.loaded = loaded
        self.now = now
        self.listeners: list[Callable[[Change], None]] = []
        self.index_trouble: list[str] = []
        self.records = Records(home, caller, now, self._announce)

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
    ) -> Memory:
        """Open the memory of an agent."""
        return connect(
            home=home, cwd=cwd, agent=agent, session=session, audience=audience, incognito=incognito
        )

    @functools.cached_property
    def journal(self) -> Journal:
        """The journals in reach."""
        from vademecum.store.journal import Journal

        return Journal(self.home, self.caller, self.now, self._announce)

    @functools.cached_property
    def documents(self) -> Documents:
        """The pinned documents in reach."""
        from vademecum.store.pinned import Documents

        return Documents(self.home, self.caller, self.settings.inject, self.now, self._announce)

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.loaded.settings

    # ---------------------------------------------------------------- keeping

    def store(
        self,
        text: str | bytes,
        *,
        key: str | None = None,
        scope: str | Scope = Scope.PROJECT,
        type: str | RecordType | None = None,
        tags: Iterable[str] = (),
        mode: str = "append",
        confidence: float | None = None,
        protected: bool | None = None,
        slug: bool = False,
    ) -> Stored:
        """Keep a text; when this returns, it is on disk.

        With `slug`, a key that is not one is made into one; without, it is refused.
        """
        self._may_write()
        scope = scopes.parse_scope(scope)
        if key is not None:
            labels.without_secret(key, "the key")  # before a slug hides it, and after one brought it out
            key = labels.without_secret(names.slug(key) if slug else names.check_key(key), "the key")
        if mode not in ("append", "replace"):
            raise UnknownName(f"{names.shown(mode)} is not a mode", hint="the modes are append, replace")
        if confidence is not None and not 0 <= confidence <= 1:
            raise UsageError(f"a confidence lies between 0 and 1, not at {confidence:g}")
        kept, found = self._gate(texts.accept(text, largest=self.settings.limits.content_bytes), scope)
        cleaned = labels.tags(tags, self.settings.secrets.in_scope(scope))
        draft = Draft(kept, None if type is None else parse_type(type), cleaned, mode, confidence, protected)
        trouble = len(self.index_trouble)
        with self._reported("keep this"):
            stored = self.records.store(draft, scope=scope, key=key, dedup=self.settings.dedup)
        indexed = bool(self.listeners) and len(self.index_trouble) == trouble
        return stored._replace(secrets=found, indexed=indexed)

    def note(self, text: str | bytes, *, scope: str | Scope = Scope.PROJECT) -> Noted:
        """Append a note to today's journal."""
        self._may_write()
        self._not_in_group("write to a journal, which it cannot read")
        scope = scopes.parse_scope(scope)
        kept, found = self._gate(texts.accept(text, largest=self.settings.limits.content_bytes), scope)
        with self._reported("write the note"):
            noted = self.journal.note(kept, scope=scope)
        return Noted(noted.path, noted.time, found)

    # ---------------------------------------------------------------- reading

    def notes_of_today(self, *, scope: str | Scope = Scope.PROJECT) -> reading.Text:
        """Today's journal, by the local date."""
        place = scopes.journal_place(self.caller, scopes.parse_scope(scope))
        shelf = self.journal.shelves(place)[0]
        return self.get(shelf.name_of(archive.JOURNAL, f"{self.now():%Y-%m-%d}.md"))

    def list(
        self,
        *,
        scope: str | Scope | None = None,
        type: str | RecordType | None = None,
        tag: str | None = None,
        all: bool = False,
    ) -> Listing:
        """The records in sight, the nearest scope first; with `all`, those of every project and agent."""
        kind = None if type is None else str(parse_type(type))
        if all:
            self._only_a_person("look into every project", "vade list --all")
        found: list[Record] = []
        findings: list[Finding] = []
        for each in self._everything(self._places(scope, all=all)):
            if isinstance(each, Finding):
                findings.append(each)
            elif (kind is None or each.record.type == kind) and (tag is None or tag in each.record.tags):
                found.append(each.record)
        found.sort(key=_order)
        return Listing(tuple(found), tuple(findings), self.settings.decay.max_count)

    def show(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """One record with all its entries, by key, number or id."""
        return self._find(name, scope).record

    def forgotten(self, *, scope: str | Scope | None = None) -> Sequence[versions.Version]:
        """The records that are gone from sight and can be brought back, forgotten or deleted by hand."""
        if self.settings.incognito:
            return []
        with self._reported("read the archive"):
            return [*versions.gone(self.records, self._places(scope, all=False))]

    def lost_entries(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[Entry]:
        """Entries of a record that were acknowledged and that an edit has taken out of its file."""
        return self.records.lost(self._find(name, scope))

    def get(self, target: str | int, *, start: int = 1, lines: int | None = None) -> reading.Text:
        """Lines of a file by its path as shown, or of a record by its key or number."""
        if start < 1 or (lines is not None and lines < 0):
            raise UsageError("lines are counted from 1")
        path = str(target)
        if self.settings.incognito:
            return reading.Text(path, "")
        with self._reported(f"read {path}"):
            if "/" in path or "\\" in path:
                path, content = reading.by_path(self.home, self.caller, path)
            elif path.endswith(".md"):
                shelf, name, content = self.documents.find(path)
                path = shelf.name_of(name)
            else:
                found = self._find(path, None)
                path, content = (
                    found.record.path,
                    reading.from_shelf(found.shelf, archive.RECORDS, found.name),
                )
            return reading.lines_of(path, content, start=start, count=lines)

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
        with self._reported("read the memory"):
            for each in self._everything(places):
                if isinstance(each, Finding):
                    findings.append(each)
                else:
                    counts[str(each.record.place.scope)] += 1
                    findings += _lost(each, self.records)
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
            findings += self._moved()
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
                coverage=self.searcher.survey() if self.caller.audience is Audience.PRIVATE else None,
            )

    # ---------------------------------------------------------------- finding

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        mode: str | None = None,
        scope: str | Scope | None = None,
        type: str | RecordType | None = None,
        sources: Iterable[str] = (),
        as_of: str | None = None,
        sort_by: str | None = None,
        explain: bool = False,
    ) -> answering.Answer:
        """The passages that answer a question, from everything in sight, with what was covered."""
        if self.settings.incognito:
            return answering.nothing("this session is incognito: nothing is read")
        asked = querying.parse(str(query))
        moment = None if as_of is None else querying.as_of(as_of)
        asked = (
            asked._replace(
                scope=self._scope(scope) or asked.scope,
                type=asked.type if type is None else str(parse_type(type)),
                sources=tuple(dict.fromkeys(querying.readable(str(each)) for each in sources)),
                as_of=moment,
            )
            if (scope or type or sources or as_of)
            else asked
        )
        if asked.scope is not None:
            scopes.place_for(self.caller, asked.scope)
        options = self._options(
            max_results=max_results, min_score=min_score, mode=mode, sort_by=sort_by, explain=explain
        )
        with self._reported("search"):
            return self.searcher.search(asked, options, seconds=self.settings.limits.open)

    def recall(
        self,
        query: str = "",
        *,
        scope: str | Scope | None = None,
        type: str | RecordType | None = None,
        limit: int = 10,
        mode: str | None = None,
        sort_by: str | None = None,
        include_related: bool = False,
        as_of: str | None = None,
    ) -> answering.Answer:
        """Records alone: those that answer a question, or without one the newest.

        `include_related` is accepted for callers that know it; records have no edges yet to follow.
        """
        return self.search(
            query,
            max_results=limit,
            mode=mode,
            scope=scope,
            type=type,
            sources=("memory",),
            as_of=as_of,
            sort_by=sort_by,
        )

    def index(
        self,
        *,
        rebuild: bool = False,
        check: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Report:
        """Bring the index up to date, make it anew, or compare it with every file."""
        self._may_write()
        with self._reported("index"):
            if rebuild:
                return self.searcher.rebuild(progress=progress)
            return self.searcher.sync(check=check, progress=progress)

    def watch(self, stop: threading.Event) -> Iterator[tuple[str, Report]]:
        """Keep the index up to date until told to stop, giving each report and what it was made for."""
        self._may_write()
        with self._reported("watch"):
            yield from self.searcher.watch(stop)

    @functools.cached_property
    def searcher(self) -> Searcher:
        """The index of this agent and what answers from it."""
        from vademecum.search.searcher import Searcher, Shape

        shape = Shape(self.settings.chunk.tokens, self.settings.chunk.overlap)
        searcher = Searcher(
            self.home,
            self.caller,
            choose=self._embedder,
            shape=shape,
            name=self.settings.agent,
            state=self._state,
        )
        self.listeners.append(searcher.take)
        return searcher

    @functools.cached_property
    def _state(self) -> State:
        """Counters and caches of this home, which nothing depends on."""
        from vademecum.store.state import State

        return State(self.home)

    def close(self) -> None:
        """Let go of the index and the counters; the next call opens them again."""
        if "searcher" in self.__dict__:
            self.searcher.close()
        if "_state" in self.__dict__:
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------- sessions

    def sessions(self, *, all: bool = False) -> Sequence[Session]:
        """The sessions of this project and agent, newest first; with `all`, those of every project."""
        return self._transcripts(all=all).list(all=all)

    def session(self, which: str, *, all: bool = False) -> Log:
        """What was said and done in a session, by its id, the beginning of it, or its name."""
        return self._transcripts(all=all).open(which, all=all)

    def session_search(
        self,
        query: str,
        *,
        max_sessions: int = 10,
        max_results: int = 5,
        ranking: str = "keywords",
        all: bool = False,
    ) -> Sequence[recalling.Hit]:
        """The messages of earlier sessions that answer, looked for in the newest ones first."""
        found = self._transcripts(all=all)
        return recalling.session_search(
            query,
            found.list(all=all),
            found.read,
            max_sessions=max_sessions,
            max_results=max_results,
            ranking=ranking,
        )

    def session_get(
        self, which: str, place: int | str, *, lines: int = 1, all: bool = False
    ) -> Sequence[Line]:
        """Lines of a session as they were written, from a number on or from the id of a message or call."""
        return recalling.session_get(self.session(which, all=all), place, lines=lines)

    def import_sessions(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Iterator[importing.Imported]:
        """Keep copies of other agents' transcripts: those at a path, or all in the agents' own folders."""
        self._may_write()
        self._only_a_person("import transcripts of this machine", "vade sessions import")
        found = (
            importing.find_all(Path.home())
            if path is None
            else importing.find_in(Path(path), without=self.home.path)
        )
        return importing.import_files(
            found, home=self.home, caller=self.caller, progress=progress, now=self.now
        )

    def export_session(
        self, which: str, path: str | os.PathLike[str], *, all: bool = False, force: bool = False
    ) -> Path:
        """Write a session to a new file, as its ending says: `.html`, `.md` or `.jsonl`."""
        self._only_a_person("write files of this machine", "vade sessions export")
        target = Path(path)
        render = export.renderer(target.suffix)
        log = self.session(which, all=all)
        self._outside(target)
        with self._reported(f"write {target}"):
            export.write(target, render(log.events(), views.name(log.events()) or log.session), force=force)
        return target

    def rename_session(self, which: str, name: str, *, all: bool = False) -> Log:
        """Give a session another name."""
        self._may_write()
        return self._transcripts(all=all).rename(which, name, all=all)

    def _transcripts(self, *, all: bool = False) -> Sessions:
        if all:
            self._only_a_person("look into every project", "vade sessions list --all")
        return self._sessions

    @functools.cached_property
    def _sessions(self) -> Sessions:
        """The sessions in reach."""
        from vademecum.transcripts.sessions import Sessions

        own = self.settings.session
        return Sessions(
            self.home,
            self.caller,
            self.now,
            reset=own.reset,
            note_messages=own.note_messages,
            incognito=self.settings.incognito,
            announce=self._announce,
        )

    def _outside(self, path: Path) -> None:
        """Refuse to write among the files of memory, where it would be taken for one of them."""
        if Path(os.path.realpath(path)).is_relative_to(os.path.realpath(self.home.path)):
            raise OutsideMemory(f"{path} is inside the memory folder", hint="choose a place outside of it")

    # ---------------------------------------------------------------- taking away and bringing back

    def forget(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Move a record to the archive; `restore` brings it back."""
        self._may_write()
        found = self._find(name, scope, only=True)
        with self._reported(f"forget {found.record.key}"):
            self.records.forget(found)
        return found.record

    def restore(self, name: str | int, *, scope: str | Scope | None = None) -> Record:
        """Bring back a forgotten record, an archived version by its id, or entries that an edit took out.

        The name of a pinned document brings back its newest other version.
        """
        self._may_write()
        with self._reported(f"restore {name}"):
            if pinned.is_name(str(name)):
                newest = self.documents.newest(str(name), scope=self._scope(scope))
                return self.documents.restore(*newest).as_record()
            places = self._places(scope, all=False)
            version = versions.find(self.records, str(name), places)
            if version is not None:
                return self.records.restore(version.shelf, version.name, version.image)
            image = self.documents.image(str(name), places)
            if image is not None:
                return self.documents.restore(*image).as_record()
            found = self._find(name, scope, only=True)
            lost = self.records.lost(found)
            if not lost:
                raise NotFound(f"{found.record.key} is not forgotten and has lost nothing")
            return self.records.restore_entries(found, lost)

    def versions(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[archive.Image]:
        """The archived versions of a record or pinned document, oldest first."""
        if self.settings.incognito:
            return []
        if pinned.is_name(str(name)):
            return self.documents.images(str(name), scope=self._scope(scope))[2]
        found = self._find(name, scope)
        return archive.images(self.home, found.shelf, archive.RECORDS, found.name)

    def clear(self, *, scope: str | Scope, protected: bool = False) -> Sequence[Record]:
        """Move all records of a scope to the archive, protected ones only when asked to."""
        self._may_write()
        place = scopes.place_for(self.caller, scopes.parse_scope(scope))
        with self._reported(f"clear {place}"):
            self.records.tidy(place)
            every = [*self.records.all([place])]
            for each in every:
                if isinstance(each, Finding):
                    raise Malformed(f"{each.where} cannot be read, so nothing was forgotten: {each.why}")
            chosen = [
                each
                for each in every
                if isinstance(each, Found) and each.shelf.trusted and (protected or not each.record.protected)
            ]
            for found in chosen:
                self.records.forget(found, operation="clear")
        return [found.record for found in chosen]

    def protect(self, name: str | int, *, scope: str | Scope | None = None, on: bool = True) -> Record:
        """Keep a record from ever being removed by age or number, or take that back."""
        self._may_write()
        found = self._find(name, scope, only=True)
        with self._reported(f"protect {found.record.key}"):
            fields: dict[str, Any] = {"protected": True if on else None}
            if not found.record.fields.get("type"):
                fields["type"] = found.record.type
            return self.records.change_fields(found, fields, operation="protect" if on else "unprotect")

    def purge(self, name: str | int, *, scope: str | Scope | None = None) -> Sequence[purging.Purged]:
        """Delete a record for good, with every version and copy of it."""
        self._may_write()
        self._only_a_person("delete for good", "vade purge")
        with self._reported(f"purge {name}"):
            shelf, file, record = self._purgeable(str(name), scope)
            with self.records.locked(shelf, file):
                found = purging.record(self.home, shelf, file)
            self._forget_derived()
            self._audit("purge", scope=shelf.place.scope, record=record)
        return found

    def purge_text(self, text: str) -> Sequence[purging.Purged]:
        """Delete a text for good wherever it stands; attached sources are reported, not changed."""
        self._may_write()
        self._only_a_person("delete for good", "vade purge --text")
        wanted = texts.accept(text, largest=self.settings.limits.content_bytes)
        with self._reported("purge that text"):
            self._forget_derived()
            shelf = repository.shelf(self.home, self.caller.project)
            found = purging.text(
                self.home, shelf.top / ".vade" if shelf is not None and shelf.trusted else None, wanted
            )
            for source in sources.every(self.home):
                for path in source.markdown():
                    count = purging.occurrences(path, wanted)
                    if count:
                        found.append(
                            purging.Purged(
                                str(path), count, gone=False, why="an attached source is not ours to change"
                            )
                        )
            for root in scopes.trusted_folders(self.home):
                if shelf is None or root != shelf.top:
                    found += purging.elsewhere(root, wanted)
            self._forget_derived()
            self._audit("purge")
        return found

    # ---------------------------------------------------------------- editing by hand

    def editable(self, name: str, *, scope: str | Scope | None = None) -> tuple[str, str]:
        """The path and text of a record or pinned document, for an editor."""
        self._may_write()
        with self._reported(f"read {name}"):
            if name.lower().endswith(".md"):
                shelf, file, content = self.documents.find(name, scope=self._scope(scope))
                return shelf.name_of(file), "" if content is None else texts.decode(content)
            found = self._mendable(name, scope)
            content = reading.from_shelf(found.shelf, archive.RECORDS, found.name)
            return found.record.path, texts.decode(content or b"")

    def edited(
        self, name: str, before: str, after: str, *, scope: str | Scope | None = None
    ) -> tuple[str, ...]:
        """Put an edited text in place of the one that was handed out; returns the kinds of secrets in it."""
        self._may_write()
        largest = self.settings.limits.content_bytes
        with self._reported(f"write {name}"):
            if name.lower().endswith(".md"):
                shelf, file, _ = self.documents.find(name, scope=self._scope(scope))
                kept, secret = self._gate(editing.check_text(after, largest=largest), shelf.place.scope)
                self.documents.write(shelf, file, kept, seen=before.encode() if before else None)
                return secret
            found = self._mendable(name, scope)
            whole = editing.check_text(after, largest=files.LARGEST)
            kept, secret = self._gate(whole, found.shelf.place.scope)
            record = self.records.parse(found.shelf, found.name, kept.encode())
            if found.shelf.trusted:  # one that is not cannot be edited at all, which is told first
                editing.check_record(before, record, largest=largest)
            self.records.replace_text(found, before.encode(), kept, operation="edit")
            return secret

    # ---------------------------------------------------------------- projects, trust, sources, audit

    def init(self) -> Path:
        """Make and trust `.vade/` in the project's root, so that its records are versioned with the code."""
        self._may_write()
        self._only_a_person("trust a folder", "vade init")
        project = self._project()
        with self._reported(f"make {project.root / '.vade'}"):
            made = repository.make(self.home, project, at=self._stamp(), by=self.caller.actor)
            self._audit("trust")
        return made

    def trust(self, *, on: bool = True) -> Path:
        """Trust the `.vade/` of this project, or take that back."""
        self._may_write()
        self._only_a_person("trust a folder", "vade trust")
        project = self._project()
        with self._reported(f"trust {project.root}"):
            if on:
                repository.trust(self.home, project, at=self._stamp(), by=self.caller.actor)
            else:
                scopes.distrust(self.home, project.root)
            self._audit("trust" if on else "distrust")
        return project.root

    def alias(self, old: str) -> str:
        """Join what was kept under another project id to this project."""
        self._may_write()
        self._only_a_person("join another project's memory", "vade project alias")
        project = self._project()
        names.check_id(old, "a project")
        if old == project.id:
            raise UsageError(f"{old} is this project's own id")
        with self._reported(f"join {old}"):
            if not self.home.names("memory", "project", old):
                raise NotFound(f"nothing is kept for a project {old}", hint="run `vade project list`")
            scopes.add_alias(self.home, old, project.id, at=self._stamp())
            self._audit("alias")
        return project.id

    def projects(self) -> Sequence[str]:
        """The ids of all projects that have memory here."""
        if self.caller.audience is Audience.GROUP:
            raise NotVisible("a group session sees its own project only")
        return [] if self.settings.incognito else self.home.names("memory", "project")

    def add_source(
        self,
        path: str | os.PathLike[str],
        *,
        name: str | None = None,
        inject: bool = False,
        scope: str | Scope = Scope.GLOBAL,
    ) -> sources.Source:
        """Attach a folder of Markdown, to be read in place."""
        self._may_write()
        self._only_a_person("attach a folder of this machine", "vade sources add")
        with self._reported(f"attach {os.fspath(path)}"):
            source = sources.add(
                self.home,
                self.caller,
                Path(path),
                name=name,
                inject=inject,
                scope=scopes.parse_scope(scope),
                at=self._stamp(),
            )
            self._audit("source")
        return source

    def sources(self) -> Sequence[sources.Source]:
        """The attached folders in sight."""
        return [] if self.settings.incognito else sources.visible(self.home, self.caller)

    def remove_source(self, name: str) -> None:
        """Detach a folder; its files stay as they are."""
        self._may_write()
        self._only_a_person("detach a folder", "vade sources remove")
        with self._reported(f"detach {name}"):
            sources.remove(self.home, self.caller, name)
            self._audit("source")

    def audit_lines(self) -> Sequence[dict[str, Any]]:
        """The audit, oldest line first."""
        self._not_in_group("read the audit")
        return [] if self.settings.incognito else list(audit.lines(self.home))

    def verify_audit(self) -> audit.Report:
        """Check the audit for edits, deletions and a cut-off end."""
        return audit.Report(0, ()) if self.settings.incognito else audit.verify(self.home)

    def write_listing(self, *, scope: str | Scope | None = None) -> Sequence[str]:
        """Write `index.md` beside the records of each place in sight."""
        self._may_write()
        written = []
        with self._reported("write index.md"):
            for place in self._places(scope, all=False):
                for shelf in scopes.shelves(self.home, self.caller, place):
                    records = [each.record for each in self.records.on(shelf) if isinstance(each, Found)]
                    path = listing.write(shelf, records) if records and shelf.trusted else None
                    if path:
                        written.append(path)
        return written

    # ---------------------------------------------------------------- parts

    def _options(
        self,
        *,
        max_results: int | None,
        min_score: float | None,
        mode: str | None,
        sort_by: str | None,
        explain: bool,
    ) -> Options:
        """How to answer: what the call asks for, else the settings."""
        from vademecum.search.engine import MODES, MOST_RESULTS, ORDERS, Options
        from vademecum.search.fuse import Weights

        if mode is not None and mode not in MODES:
            raise UnknownName(f"{names.shown(mode)} is not a mode", hint=f"the modes are {', '.join(MODES)}")
        if sort_by is not None and sort_by not in ORDERS:
            raise UnknownName(
                f"{names.shown(sort_by)} is not an order", hint=f"the orders are {', '.join(ORDERS)}"
            )
        if min_score is not None and math.isnan(min_score):
            raise UsageError("a min_score is a number, and this is none")
        own = self.settings.search
        most = own.max_results if max_results is None else max_results
        total = own.vector_weight + own.text_weight or 1.0
        words = own.text_weight / total
        return Options(
            mode=mode or ("hybrid" if own.hybrid else "bm25"),
            max_results=min(max(most, 0), MOST_RESULTS),
            min_score=own.min_score if min_score is None else min_score,
            fusion=str(own.fusion),
            weights=Weights(own.vector_weight / total, words * 6 / 13, words * 7 / 13),
            multiplier=own.candidate_multiplier,
            sort_by=sort_by,
            explain=explain,
        )

    def _forget_derived(self) -> None:
        """Delete what was made from the files: it may hold what was purged, and is made again when needed."""
        self.close()
        purging.derived(self.home)

    def _embedder(self) -> tuple[Embedder | None, str]:
        """What makes vectors, or None and why there is none: words are then all there is to go by."""
        from vademecum.index.embed.choose import REMOTE, choose
        from vademecum.index.embed.resting import Resting

        own, search = self.settings.embed, self.settings.search
        if not search.hybrid:
            return None, "`search.hybrid` is off"
        try:
            chosen = choose(
                str(self.settings.embedder),
                model=own.model,
                endpoint=own.endpoint,
                path=own.path,
                key_env=own.key_env,
                batch=own.batch,
                timeout=own.timeout,
                state=self._state,
                largest=search.cache_max_mb * 1_000_000,
            )
        except EmbedderFailed as error:
            return None, str(error)
        # What runs here fails at once; a server that is gone is not waited for at every question.
        return Resting(chosen) if chosen and chosen.provider in REMOTE else chosen, "no embedder is set"

    def _announce(self, change: Change) -> None:
        """Tell who keeps a shadow of the files; their trouble does not undo what is on disk."""
        for listener in self.listeners:
            try:
                listener(change)
            except (VadeError, OSError) as error:
                self.index_trouble.append(f"{change.path}: {error}")

    def _reported(self, doing: str) -> AbstractContextManager[None]:
        return files.reported(doing)

    def _not_in_group(self, doing: str) -> None:
        if self.caller.audience is Audience.GROUP:
            raise NotVisible(f"a group session cannot {doing}")

    def _only_a_person(self, doing: str, command: str) -> None:
        """Refuse a decision that is a person's to agents and groups."""
        self._not_in_group(doing)
        if self.caller.origin is not Origin.USER:
            raise NotVisible(f"only a person can {doing}", hint=f"run `{command}` in a terminal")

    def _may_write(self) -> None:
        if self.settings.incognito:
            raise IncognitoWrite("this session is incognito: nothing is kept")
        self.home.check()

    def _gate(self, text: str, scope: Scope) -> tuple[str, tuple[str, ...]]:
        return secrets.gate(text, self.settings.secrets.in_scope(scope))

    def _scope(self, scope: str | Scope | None) -> Scope | None:
        return None if scope is None else scopes.parse_scope(scope)

    def _places(self, scope: str | Scope | None, *, all: bool) -> Sequence[Place]:
        if not all:
            wanted = self._scope(scope)
            return [scopes.place_for(self.caller, wanted)] if wanted else scopes.visible(self.caller)
        if self.caller.audience is Audience.GROUP:
            raise NotVisible("a group session sees its own project only")
        places = scopes.visible(self.caller)
        for each in (Scope.SESSION, Scope.PROJECT, Scope.AGENT):
            places += [Place(each, name) for name in self.home.names("memory", str(each)) if name[:1] != "."]
        aliased = {alias for place in places for alias in scopes.aliases(self.home, place.id) if place.id}
        chosen = dict.fromkeys(place for place in places if place.id not in aliased)
        return [place for place in chosen if scope is None or place.scope is scopes.parse_scope(scope)]

    def _everything(self, places: Iterable[Place]) -> Iterator[Found | Finding]:
        if self.settings.incognito:
            return iter(())
        return self.records.all(places)

    def _find(self, name: str | int, scope: str | Scope | None, *, only: bool = False) -> Found:
        if self.settings.incognito:
            raise NotFound("this session is incognito: nothing is read", hint="leave incognito mode")
        with self._reported(f"read {name}"):
            return self.records.find(str(name), scope=self._scope(scope), only=only)

    def _mendable(self, name: str, scope: str | Scope | None) -> Found:
        """A record, or the file of one that cannot be read."""
        try:
            return self._find(name, scope, only=True)
        except Malformed:
            found = self.records.raw(name, scope=self._scope(scope))
            if found is None:
                raise
            return found

    def _purgeable(self, name: str, scope: str | Scope | None) -> tuple[Shelf, str, str | None]:
        """A record that is here, or one that is only in the archive."""
        try:
            found = self._find(name, scope, only=True)
        except NotFound:
            version = versions.find(self.records, name, self._places(scope, all=False))
            if version is None:
                raise
            return version.shelf, version.name, None
        return found.shelf, found.name, found.record.id

    def _project(self) -> identity.Project:
        scopes.place_for(self.caller, Scope.PROJECT)
        if self.caller.project is None:
            raise StorageFailed("this folder has no project")
        return self.caller.project

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

    def _moved(self) -> Iterator[Finding]:
        """That the project had another id here, whose memory only a person can join."""
        project = self.caller.project
        if project is None or self.caller.audience is Audience.GROUP:
            return
        earlier = scopes.earlier_id(self.home, project)
        if earlier:
            why = f"project id changed from {earlier}; its memory is not joined"
            yield Finding("project", str(project.root), why, f"vade project alias {earlier}", "info")

    def _audit(self, operation: str, *, scope: Scope | None = None, record: str | None = None) -> None:
        audit.write(
            self.home, at=self.now(), actor=self.caller.actor, operation=operation, scope=scope, record=record
        )

    def _stamp(self) -> str:
        return clock.stamp(self.now())


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
    now: Callable[[], datetime] = clock.now,
    environ: Mapping[str, str] = os.environ,
) -> Memory:
    """Open memory for one door; the door, never the caller, says what origin its texts have."""
    place = config.home_from(environ, home)
    here = Path(cwd) if cwd is not None else _working_directory()
    flags = {name: value for name, value in (("agent", agent), ("incognito", incognito)) if value is not None}
    with files.reported("look at this folder"):
        root = identity.find_root(here, home=place) if here is not None else None
        loaded = config.load(home=place, project_root=root, environ=environ, flags=flags)
        settings = loaded.settings
        override = settings.project_id
        project = identity.project(here, home=place, override=override) if here is not None else None
    caller = scopes.Caller(
        agent=settings.agent,
        session=session or environ.get("VADE_SESSION") or None,
        project=project,
        audience=_audience(audience or environ.get("VADE_AUDIENCE") or Audience.PRIVATE),
        origin=origin,
        actor=actor or f"process:{settings.agent}",
    )
    memory = Memory(Home(place, settings.limits.lock), caller, loaded, now=now)
    memory.home.check()
    asked = origin in (Origin.USER, Origin.AGENT) and caller.audience is Audience.PRIVATE
    if project is not None and asked and not settings.incognito:
        with contextlib.suppress(VadeError, OSError):  # a convenience, which a read-only home does without
            scopes.join_by_path(memory.home, project, at=clock.stamp(now()))
    return memory


def _working_directory() -> Path | None:
    try:
        return Path.cwd()
    except OSError:  # the folder was deleted under us: there is no project then
        return None


def _audience(name: str | Audience) -> Audience:
    try:
        return Audience(name)
    except ValueError:
        raise UnknownName(
            f"{names.shown(str(name))} is not an audience", hint=f"the audiences are {', '.join(Audience)}"
        ) from None


def _order(record: Record) -> tuple[int, str, int, str]:
    return list(Scope).index(record.place.scope), record.place.id, record.num or 0, record.key


def _deleted(version: versions.Version) -> Finding:
    """What to say of a record whose file somebody deleted."""
    path = version.shelf.name_of(archive.RECORDS, version.name)
    mend = f"vade restore {key_of(version.name)} --scope {version.shelf.place.scope}"
    return Finding("deleted", path, "the file is gone; what it said is kept", mend, "info")


def _lost(found: Found, records: Records) -> Sequence[Finding]:
    lost = records.lost(found)
    if not lost:
        return []
    entries = "an entry" if len(lost) == 1 else f"{len(lost)} entries"
    mend = f"vade restore {found.record.key} --scope {found.record.place.scope}"
    return [
        Finding("edited", found.record.path, f"{entries} written here changed or left by hand", mend, "info")
    ]


def _split(found: Iterable[Pinned | Finding]) -> tuple[list[Pinned], list[Finding]]:
    pinned: list[Pinned] = []
    findings: list[Finding] = []
    for each in found:
        if isinstance(each, Finding):
            findings.append(each)
        else:
            pinned.append(each)
            if each.over:
                why = f"{each.size:,} of {each.budget:,}: injection will cut it"
                findings.append(Finding("over budget", each.path, why, f"vade edit {each.name}"))
    return pinned, findings
