"""Memory: the verbs that everybody uses, and the nouns behind them: it wires the parts.

Each noun is a plain class in the package whose work it is, and is imported when it is first asked for.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
from collections import Counter
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, NotFound, OutsideMemory, PendingReview, UnknownName, UsageError
from vademecum.memory.old_names import old_name
from vademecum.store import Draft, Workspace, archive, document, scopes, teams
from vademecum.store.merge import is_guarded
from vademecum.store.records import key_of
from vademecum.store.workspace import listing_order
from vademecum.text import clock, may_cite, names, outgoing
from vademecum.text.names import parse_type
from vademecum.types import Finding, Noted, Origin, Outcome, Record, Scope, Stored

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from datetime import datetime
    from typing import Literal, Self

    from vademecum.config import Loaded, Settings
    from vademecum.context.conversations import Conversations
    from vademecum.inject.injection import Injection
    from vademecum.knowledge.finder import Finder
    from vademecum.lifecycle.care import Care
    from vademecum.lifecycle.learning import Learning
    from vademecum.lifecycle.relations import Relations
    from vademecum.lifecycle.transfer import Transfer
    from vademecum.memory.archive import Archive
    from vademecum.memory.browse import Browse
    from vademecum.memory.requests import Requests
    from vademecum.memory.review import Review
    from vademecum.memory.status import Status
    from vademecum.search.base import Answer
    from vademecum.store import Home, Shelf
    from vademecum.store.audit import AuditLog
    from vademecum.store.projects import Projects
    from vademecum.store.reading import Text
    from vademecum.store.sources import Sources
    from vademecum.types import (
        Audience,
        Place,
        ScopeName,
        SearchMode,
        SortOrder,
        StoreMode,
        Swept,
        TypeName,
    )

_SCOPES = (*Scope,)


@dataclass(frozen=True, slots=True)
class Listing:
    """Records, and the files that could not be read as one: a sequence of the records."""

    records: tuple[Record, ...]
    findings: tuple[Finding, ...]
    limit: int  # how many notes a scope may hold before the cap acts
    counted: Mapping[Place, int]  # how many there are in each scope, whether listed or not
    total: int | None = None  # how many records there are, when these are a page of them

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __getitem__(self, at: int) -> Record:
        return self.records[at]


class Memory:
    """Long-term memory as one caller sees it."""

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        loaded: Loaded,
        *,
        now: Callable[[], datetime] = clock.now,
        readonly: bool = False,
    ) -> None:
        self.workspace = Workspace(home, caller, loaded, now=now, readonly=readonly)

    @classmethod
    def open(
        cls,
        home: str | os.PathLike[str] | None = None,
        *,
        project: str | os.PathLike[str] | Literal[False] | None = None,
        cwd: str | os.PathLike[str] | None = None,
        agent: str | None = None,
        session: str | None = None,
        audience: str | Audience | None = None,
        incognito: bool | None = None,
        person: bool = False,
    ) -> Memory:
        """Open the memory of an agent.

        `project` is a folder of the project, or False for none; without it, it is that of the working
        directory, or of `cwd`. With `person`, what is written is the user's own word. That is refused inside
        an agent, and where there is neither a terminal nor a script that the user allowed by name
        (`approval.scripts`).
        """
        from vademecum.memory.opening import actor, connect, has_terminal

        given: dict[str, Any] = {"home": home, "project": project, "cwd": cwd, "agent": agent}
        given |= {"session": session, "audience": audience, "incognito": incognito}
        if not person:
            return connect(**given)
        opened = connect(**given, origin=Origin.USER, actor=actor(), terminal=has_terminal())
        opened.workspace.may_decide("open memory as a person", "vade")
        return opened

    @property
    def home(self) -> Home:
        """The folder that all of it lies in."""
        return self.workspace.home

    @property
    def caller(self) -> scopes.Caller:
        """Who is asking, as the door knows it."""
        return self.workspace.caller

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.workspace.settings

    # ---------------------------------------------------------------- keeping

    def store(
        self,
        text: str | bytes,
        *,
        key: str | None = None,
        scope: ScopeName = Scope.PROJECT,
        type: TypeName | None = None,
        tags: Iterable[str] = (),
        mode: StoreMode = "append",
        confidence: float | None = None,
        protected: bool | None = None,
        slug: bool = False,
        team: str | None = None,
    ) -> Stored:
        """Keep a text; when this returns, it is on disk.

        With `slug`, a key that is not one is made into one; without, it is refused. With `team`, it is kept
        in the memory that this team shares.
        """
        work = self.workspace
        work.may_write()
        scope = scopes.parse_scope(scope)
        if key is not None:
            names.without_secret(key, "the key")  # before a slug hides it, and after one brought it out
            key = names.without_secret(names.slug(key) if slug else names.check_key(key), "the key")
        if protected and (work.caller.origin is Origin.USER or work.caller.command_line):
            # A program may keep its own text from age and number; from other hands only a person keeps it.
            work.may_decide("protect a memory", "vade store --protected")
        if mode not in ("append", "replace"):
            raise UnknownName(f"{names.shown(mode)} is not a mode", hint="the modes are append, replace")
        if confidence is not None and not 0 <= confidence <= 1:
            raise UsageError(f"confidence must be between 0 and 1, not {confidence:g}")
        kept, secret = work.gate(
            document.accept_text(text, largest=work.settings.limits.content_bytes), scope
        )
        cleaned = document.clean_tags(tags, work.settings.secrets.in_scope(scope))
        draft = Draft(kept, None if type is None else parse_type(type), cleaned, mode, confidence, protected)
        if team is not None:
            draft = draft._replace(team=teams.find_shared(work.home, team, scope).workspace)
        if scope is Scope.PROJECT:
            draft = draft._replace(cites=self._cited(kept))
        trouble = len(work.index_trouble)
        with work.reported("save this"):
            stored = work.records.store(draft, scope=scope, key=key, dedup=work.settings.dedup)
            stored = self._proposed(stored, draft)
            swept = self._sweep_after(stored)
        indexed = bool(work.listeners) and len(work.index_trouble) == trouble
        return stored._replace(secrets=secret, indexed=indexed, swept=swept)

    def _cited(self, text: str) -> str:
        """What is known of the project's code that a text cites; nothing for most texts."""
        root = self.workspace.root
        if root is None or not may_cite(text):  # then nothing has to be loaded either
            return ""
        from vademecum.knowledge import citations

        return citations.render_marks(citations.mark_claims(text, citations.ProjectTree(root, seconds=0.5)))

    def _proposed(self, stored: Stored, draft: Draft) -> Stored:
        """Ask a person whether a text that stands beside theirs may take its place."""
        if stored.beside is None:
            return stored
        labels = {"type": str(draft.type) if draft.type else None, "tags": [*draft.tags] or None}
        asked: dict[str, Any] = {
            "name": stored.key,
            "text": draft.text,
            "instead_of": stored.beside.text,
            **{name: value for name, value in labels.items() if value is not None},
        }
        waiting = self.workspace.wait_for_a_person("replace", asked, scope=stored.place.scope)
        return stored._replace(approval=waiting.id)

    def _sweep_after(self, stored: Stored) -> Swept | None:
        """Tidy up when a scope has grown beyond its cap; below it this costs one look at a folder."""
        if stored.outcome is not Outcome.CREATED or stored.team or not stored.path.startswith("memory/"):
            return None
        try:
            there = len(self.home.names(*stored.path.split("/")[:-1], ordered=False))
            return self.care.moved_if_due() if there > self.settings.decay.max_count else None
        except OSError:  # the text is kept, whatever becomes of this
            return None

    def note(self, text: str | bytes, *, scope: ScopeName = Scope.PROJECT) -> Noted:
        """Append a note to today's journal."""
        work = self.workspace
        work.may_write()
        work.not_in_group("write to a journal, which it cannot read")
        scope = scopes.parse_scope(scope)
        kept, secret = work.gate(
            document.accept_text(text, largest=work.settings.limits.content_bytes), scope
        )
        with work.reported("write the note"):
            noted = work.journal.note(kept, scope=scope)
        return noted._replace(secrets=secret)

    def forget(self, name: str | int, *, scope: ScopeName | None = None) -> Record:
        """Move a record to the archive; `restore` brings it back."""
        work = self.workspace
        work.may_write()
        found = work.find(name, scope, only=True)
        key, place = found.record.key, found.record.place
        if work.records.holds(found):
            asked = {"name": key, "scope": str(place.scope)}
            seen = work.content_hash(found)
            raise PendingReview(
                f"{key} is not forgotten: the user wrote, verified or protected it, so this is pending"
                f" review",
                approval=work.wait_for_a_person("forget", asked, scope=place.scope, seen=seen).id,
            )
        if is_guarded(found.record.fields) and not work.caller.approved:
            work.may_decide(f"forget {key}, which is protected", "vade forget")
        with work.reported(f"forget {key}"):
            work.records.forget(found)
        return found.record

    def restore(self, name: str | int, *, scope: ScopeName | None = None) -> Record:
        """Bring back a forgotten record, an archived version by its id, or entries that an edit took out.

        The name of a pinned document brings back its newest other version.
        """
        return self.archive.restore(name, scope=scope)

    # ---------------------------------------------------------------- reading

    def list(
        self,
        *,
        scope: ScopeName | None = None,
        type: TypeName | None = None,
        tag: str | None = None,
        all: bool = False,
        reveal: bool = False,
        limit: int | None = None,
        offset: int = 0,
    ) -> Listing:
        """The records in sight, the nearest scope first; with `all`, those of every project and agent.

        What looks like a secret in them is replaced, unless `reveal` asks for the files as they stand. With a
        `limit` it is a page: so many, after as many as `offset` says; the others are counted and not read.
        """
        from vademecum.lifecycle import passes

        kind = None if type is None else str(parse_type(type))
        if all:
            self.workspace.only_a_person("look into every project", "vade list --all")
        if limit is not None and not self.settings.incognito:
            with self.workspace.reported("list the records"):
                places = self.workspace.places(scope, all=all)
                page = self._page(places, kind, tag, range(offset, offset + limit))
            shown = page.records if reveal else (outgoing.clean_record(each) for each in page.records)
            return replace(page, records=tuple(shown))
        found: list[Record] = []
        places = self.workspace.places(scope, all=all)
        findings: list[Finding] = self.workspace.hidden(places)
        counted: Counter[Place] = Counter()
        for each in self.workspace.everything(places):
            if isinstance(each, Finding):
                findings.append(each)
                continue
            counted[each.record.place] += passes.is_countable(each)
            if (kind is None or each.record.type == kind) and (tag is None or tag in each.record.tags):
                found.append(each.record if reveal else outgoing.clean_record(each.record))
        found.sort(key=listing_order)
        return Listing(tuple(found), tuple(findings), self.settings.decay.max_count, dict(counted))

    def _page(self, places: Sequence[Place], kind: str | None, tag: str | None, wanted: range) -> Listing:
        """Some of the records in their order, as they stand; only those are read."""
        from vademecum.lifecycle import passes

        records, most = self.workspace.records, self.settings.decay.max_count
        findings: list[Finding] = self.workspace.hidden(places)
        counted: Counter[Place] = Counter()
        order: list[tuple[int, str, int, str, int, str]] = []
        shelves: list[Shelf] = []
        for each in records.known(places, passes.LISTED):
            if isinstance(each, Finding):
                findings.append(each)
                continue
            shelf, known = each
            handmade = {name: key_of(name) for name in names.not_keys(known.facts)}
            at, place, number = _SCOPES.index(shelf.place.scope), shelf.place, len(shelves)
            findings += records.unreadable(shelf, known)
            if known.facts:
                counted[place] += sum(fact[3] for fact in known.facts.values())
            order += [
                (at, place.id, num, handmade.get(name) or name[:-3], number, name)
                for name, (num, own, tags, _) in known.facts.items()
                if (kind is None or own == kind) and (tag is None or tag in tags)
            ]
            shelves.append(shelf)
        found: list[Record] = []
        for *_, number, name in heapq.nsmallest(wanted.stop, order)[wanted.start :]:
            with contextlib.suppress(NotFound, Malformed, OutsideMemory):  # gone or spoiled just now
                found.append(records.load(shelves[number], name).record)
        return Listing(tuple(found), tuple(findings), most, dict(counted), len(order))

    def show(self, name: str | int, *, scope: ScopeName | None = None, reveal: bool = False) -> Record:
        """One record with all its entries, by key, number or id.

        What looks like a secret in it is replaced, unless `reveal` asks for the file as it stands: for a
        person's eyes, never for a model.
        """
        record = self.workspace.find(name, scope).record
        return record if reveal else outgoing.clean_record(record)

    def get(self, target: str | int, *, start: int = 1, lines: int | None = None) -> Text:
        """Lines of a file by its path as shown, or of a record by its key or number; without secrets."""
        return self._finder.get(target, start=start, lines=lines)

    def notes_of_today(self, *, scope: ScopeName = Scope.PROJECT) -> Text:
        """Today's journal, by the local date."""
        place = scopes.journal_place(self.caller, scopes.parse_scope(scope))
        shelf = self.workspace.journal.shelves(place)[0]
        return self.get(shelf.name_of(archive.JOURNAL, f"{self.workspace.now():%Y-%m-%d}.md"))

    def search(
        self,
        query: str,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        mode: SearchMode | None = None,
        scope: ScopeName | None = None,
        type: TypeName | None = None,
        sources: Iterable[str] = (),
        as_of: str | None = None,
        sort_by: SortOrder | None = None,
        explain: bool = False,
        max_weak: int | None = None,
        now: str | datetime | None = None,
        hub: str | None = None,
    ) -> Answer:
        """The passages that answer a question, from everything in sight, with what was covered.

        When every match is weak, at most `max_weak` are returned: three, or half of `max_results`; all of a
        question that was read. "Last Tuesday" is seen from `now`, the clock's unless given: passages of that
        time gain, and `notes` says which time was understood.

        With `hub`, the workspace of that name answers instead, whether or not a copy of it is here; an empty
        name is the only one that was joined. While its hub is away this home answers, and `degraded` says so.
        """
        if self.settings.incognito:
            return self._finder.nothing()
        if hub is not None:
            from vademecum.memory.sync import search_hub

            given: dict[str, Any] = {"max_results": max_results, "min_score": min_score, "mode": mode}
            given |= {"scope": scope, "type": type, "as_of": as_of, "sort_by": sort_by, "explain": explain}
            seen_from = now if now is None or isinstance(now, str) else now.isoformat()
            return search_hub(self, query, hub, sources=sources, max_weak=max_weak, now=seen_from, **given)
        asked = self._finder.question(query, scope=scope, type=type, sources=sources, as_of=as_of, now=now)
        options = self._finder.options(
            max_results=max_results, min_score=min_score, mode=mode, sort_by=sort_by, explain=explain
        )
        return self._finder.answer(asked, options, max_weak=max_weak)

    def recall(
        self,
        query: str = "",
        *,
        scope: ScopeName | None = None,
        type: TypeName | None = None,
        limit: int = 10,
        mode: SearchMode | None = None,
        sort_by: SortOrder | None = None,
        include_related: bool = False,
        as_of: str | None = None,
        now: str | datetime | None = None,
    ) -> Answer:
        """Records alone: those that answer a question, or without one the newest.

        With `include_related`, behind them what they are joined to by one edge: at most three for each and
        five in all, beyond the limit, each with what it is `related` to.
        """
        if self.settings.incognito:
            return self._finder.nothing()
        asked = self._finder.question(
            query, scope=scope, type=type, sources=("memory",), as_of=as_of, now=now
        )
        options = self._finder.options(max_results=limit, mode=mode, sort_by=sort_by)
        found = self._finder.answer(asked, options)
        return self._finder.with_related(found, asked) if include_related and found.results else found

    def status(self) -> Status:
        """What is here, and what needs attention."""
        from vademecum.memory.status import status_of

        return status_of(self)

    def close(self) -> None:
        """Let go of the index and the counters; the next call opens them again."""
        if "_finder" in self.__dict__:
            self._finder.close()
        if "state" in self.workspace.__dict__:
            self.workspace.state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---------------------------------------------------------------- nouns

    @functools.cached_property
    def _finder(self) -> Finder:
        from vademecum.knowledge.finder import Finder

        return Finder(self.workspace)

    @functools.cached_property
    def archive(self) -> Archive:
        """What was forgotten, cleared or replaced; what is to go for good."""
        from vademecum.memory.archive import Archive

        return Archive(self.workspace, self.close)

    @functools.cached_property
    def audit(self) -> AuditLog:
        """The audit, and whether anyone tampered with it."""
        from vademecum.store.audit import AuditLog

        return AuditLog(self.workspace)

    @functools.cached_property
    def browse(self) -> Browse:
        """Memory to look through: a table of the records with its facets, and whose each entry is."""
        from vademecum.memory.browse import Browse

        return Browse(self)

    @functools.cached_property
    def care(self) -> Care:
        """Sweep, lint, heal, promote, compact, undo, the index: what keeps memory in order."""
        from vademecum.lifecycle.care import Care

        return Care(self.workspace, lambda: self._finder)

    @functools.cached_property
    def graph(self) -> Relations:
        """How records hang together."""
        from vademecum.lifecycle.relations import Relations

        return Relations(self.workspace, self._finder)

    @functools.cached_property
    def injection(self) -> Injection:
        """What an agent is told before it begins, and with a prompt."""
        from vademecum.inject.injection import Injection

        return Injection(self.workspace, self._finder)

    @functools.cached_property
    def knowledge(self) -> Learning:
        """What was learned, and the profile of the user."""
        from vademecum.lifecycle.learning import Learning

        return Learning(self.workspace, self._finder, self._sweep_after)

    @functools.cached_property
    def projects(self) -> Projects:
        """The projects with memory, and whether this one's folder is trusted."""
        from vademecum.store.projects import Projects

        return Projects(self.workspace)

    @functools.cached_property
    def requests(self) -> Requests:
        """Writes by their name: made, made once for a key, or left pending."""
        from vademecum.memory.requests import Requests

        return Requests(self)

    @functools.cached_property
    def review(self) -> Review:
        """What waits for a person, and what they decide: approve, verify, protect."""
        from vademecum.memory.review import Review

        return Review(self)

    @functools.cached_property
    def sessions(self) -> Conversations:
        """Transcripts of sessions, and the context window of the one that goes on."""
        from vademecum.context.conversations import Conversations

        return Conversations(self.workspace, self._finder, self._as_agent)

    @functools.cached_property
    def sources(self) -> Sources:
        """Folders of Markdown that are attached and read in place."""
        from vademecum.store.sources import Sources

        return Sources(self.workspace)

    @functools.cached_property
    def transfer(self) -> Transfer:
        """Imports and exports."""
        from vademecum.lifecycle.transfer import Transfer

        return Transfer(self.workspace, lambda: self._finder)

    def _as_agent(self) -> Memory:
        """The same memory, as an agent has it; whoever keeps a shadow of the files is told of its writes."""
        work = self.workspace
        other = Memory(work.home, work.caller.as_agent(), work.loaded, now=work.now, readonly=work.readonly)
        other.workspace.listeners, other.workspace.index_trouble = work.listeners, work.index_trouble
        return other

    if not TYPE_CHECKING:  # to a type checker an old name is a mistake

        def __getattr__(self, name: str) -> Any:
            return old_name(self, name)
