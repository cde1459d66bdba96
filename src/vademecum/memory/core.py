"""Memory: the calls that everybody uses, and attributes that lead to all other calls.

The class of each attribute is in the package that does its work, and is imported at its first use.
"""

from __future__ import annotations

import contextlib
import functools
import heapq
import weakref
from collections import Counter
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed, NotFound, OutsideMemory, PendingReview, UnknownName
from vademecum.fields import check_values, parse_order, sort_values
from vademecum.store import Draft, Workspace, is_guarded, listing_order, request_view, scopes, teams
from vademecum.text import clock, document, filenames, may_cite, names, outgoing
from vademecum.text.filenames import key_of
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
    from vademecum.lifecycle.care import Care
    from vademecum.lifecycle.heard_list import HeardList
    from vademecum.lifecycle.learning import Learning
    from vademecum.lifecycle.relations import Relations
    from vademecum.lifecycle.transfer import Transfer
    from vademecum.memory.archive import Archive
    from vademecum.memory.background_reading import BackgroundReading
    from vademecum.memory.browse import Browse
    from vademecum.memory.requests import Requests
    from vademecum.memory.review import Review
    from vademecum.memory.status import Status
    from vademecum.search import Answer, Finder
    from vademecum.store import AuditLog, FileLines, Home, Projects, ScopeFolder, Sources
    from vademecum.store.heard import HeardStatement
    from vademecum.transcripts import MessageEvent
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


class Listing:
    """A sequence of records, and the files that could not be read as records."""

    __slots__ = "counted", "findings", "limit", "records", "total"

    def __init__(
        self,
        records: tuple[Record, ...],
        findings: tuple[Finding, ...],
        limit: int,
        counted: Mapping[Place, int],
        total: int | None = None,
    ) -> None:
        self.records, self.findings = records, findings
        self.limit = limit  # records that a scope may hold before a sweep archives the oldest
        self.counted = counted  # the number in each scope, whether listed or not
        self.total = total  # the number of all records, if these are a page

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def __getitem__(self, at: int) -> Record:
        return self.records[at]


class Memory:
    """Long-term memory as a certain caller sees it."""

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

        `project` is a folder of the project, or False for no project; by default, it is the project of `cwd`
        or of the working directory. With `person`, texts are written as the user's own words. That is refused
        inside an agent, and where there is neither a terminal nor a script that the user allowed by name
        (`approval.scripts`).
        """
        from vademecum.memory.opening import actor, connect, has_terminal

        given: dict[str, Any] = {"home": home, "project": project, "cwd": cwd, "agent": agent}
        given |= {"session": session, "audience": audience, "incognito": incognito}
        if person:
            opened = connect(**given, origin=Origin.USER, actor=actor(), terminal=has_terminal())
            opened.workspace.may_decide("open memory as a person", "vade")
        else:
            opened = connect(**given)
        opened.reading.follow()
        weakref.finalize(opened, opened.reading.hand_over)  # of a program that closes nothing
        return opened

    @property
    def home(self) -> Home:
        """The folder that holds the whole memory."""
        return self.workspace.home

    @property
    def caller(self) -> scopes.Caller:
        """The caller, as the interface identified them."""
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
        title: str | None = None,
        scope: ScopeName = Scope.PROJECT,
        type: TypeName | None = None,
        tags: Iterable[str] = (),
        mode: StoreMode = "append",
        confidence: float | None = None,
        protected: bool | None = None,
        lasting: bool = False,
        slug: bool = False,
        team: str | None = None,
        fields: Mapping[str, object] | None = None,
    ) -> Stored:
        """Save a text; when this returns, the text is on disk.

        With the `mode` "append", the text becomes another entry of an existing record; with "replace", it
        replaces the record's text. `fields` sets further fields of the record by the names of their keys, as
        `vade add` does with options. With `slug`, an invalid key is converted; without, it is refused. With
        `team`, the text is saved in the memory that this team shares. A new record gets the `title`; without
        a `key`, its key is made from the title. Only a person who decides sets `protected`; from any other
        caller the text is saved without it, and `dropped` names it. With `lasting`, for a program that relies
        on a record, neither age nor a cap archives the record, and the program may still change it.
        """
        work = self.workspace
        work.may_write()
        scope = scopes.parse_scope(scope)
        title, named = self._clean_title(title, scope)
        if title and key is None:
            key, slug = title, True
        if key is not None:
            names.without_secret(
                key, "the key"
            )  # before and after the conversion, which can hide or reveal one
            key = names.without_secret(names.slug(key) if slug else names.check_key(key), "the key")
        dropped = ("protected",) if protected and not work.caller.decides else ()
        if mode not in ("append", "replace"):
            raise UnknownName(f"{names.shown(mode)} is not a mode", hint="the modes are append, replace")
        values = check_values({"confidence": confidence, **(fields or {})})
        clean_text, secret = work.gate(
            document.accept_text(text, largest=work.settings.limits.content_bytes), scope
        )
        cleaned = document.clean_tags(tags, work.settings.secrets.in_scope(scope))
        draft = Draft(
            clean_text,
            None if type is None else parse_type(type),
            cleaned,
            mode,
            values,
            lasting or (protected and not dropped),
        )._replace(title=title)
        if team is not None:
            draft = draft._replace(team=teams.find_shared(work.home, team, scope).workspace)
        if scope is Scope.PROJECT:
            draft = draft._replace(cites=self._find_cited(clean_text))
        trouble = len(work.index_trouble)
        with work.reported("save this"):
            stored = work.records.store(draft, scope=scope, key=key, dedup=work.settings.dedup)
            stored = self._ask_for_replacement(stored, draft)
            swept = self._sweep_after(stored)
        indexed = bool(work.listeners) and len(work.index_trouble) == trouble
        return stored._replace(secrets=(*secret, *named), indexed=indexed, swept=swept, dropped=dropped)

    def _clean_title(self, title: str | None, scope: Scope) -> tuple[str, tuple[str, ...]]:
        """Return a title as one line without secrets, and the kinds of secrets found in it."""
        words = " ".join((title or "").split())
        if not words:
            return "", ()
        return self.workspace.gate(document.accept_text(words, largest=document.LONGEST_TITLE), scope)

    def _find_cited(self, text: str) -> str:
        """Return the state of the code that a text cites, as text; '' for most texts, which cite no code."""
        root = self.workspace.root
        if root is None or not may_cite(text):  # most texts cite nothing, and then nothing is loaded
            return ""
        from vademecum.knowledge import citations

        return citations.render_marks(citations.mark_claims(text, citations.ProjectTree(root, seconds=0.5)))

    def _ask_for_replacement(self, stored: Stored, draft: Draft) -> Stored:
        """Ask the user to approve that a text replaces their own entry, if the text contradicts such an
        entry.
        """
        if stored.beside is None:
            return stored
        labels = {"type": str(draft.type) if draft.type else None, "tags": [*draft.tags] or None}
        arguments: dict[str, Any] = {
            "name": stored.key,
            "text": draft.text,
            "instead_of": stored.beside.text,
            **{name: value for name, value in labels.items() if value is not None},
        }
        waiting = self.workspace.wait_for_a_person("replace", arguments, scope=stored.place.scope)
        return stored._replace(approval=waiting.id)

    def _sweep_after(self, stored: Stored) -> Swept | None:
        """Archive old records if the new record makes a scope too large; return None if nothing was due."""
        if stored.outcome is not Outcome.CREATED or stored.team or not stored.path.startswith("memory/"):
            return None
        try:
            there = len(self.home.names(*stored.path.split("/")[:-1], ordered=False))
            return self.care.moved_if_due() if there > self.settings.decay.max_count else None
        except OSError:  # the text is saved, whatever happens here
            return None

    def note(self, text: str | bytes, *, scope: ScopeName = Scope.PROJECT) -> Noted:
        """Append a note to today's journal."""
        work = self.workspace
        work.may_write()
        work.not_in_group("write to a journal, which it cannot read")
        scope = scopes.parse_scope(scope)
        clean_text, secret = work.gate(
            document.accept_text(text, largest=work.settings.limits.content_bytes), scope
        )
        with work.reported("write the note"):
            noted = work.journal.note(clean_text, scope=scope)
        return noted._replace(secrets=secret)

    def forget(self, name: str | int, *, scope: ScopeName | None = None) -> Record:
        """Move a record to the archive, from which `restore` can return it.

        If the caller may not change the record, nothing is moved and the user is asked to approve.
        """
        work = self.workspace
        work.may_write()
        found = work.find(name, scope, only=True)
        key, place = found.record.key, found.record.place
        if work.records.holds(found):
            arguments = {"name": key, "scope": str(place.scope)}
            seen = work.content_hash(found)
            raise PendingReview(
                f"{key} is not forgotten: the user wrote, verified or protected it, so this is pending"
                f" review",
                approval=work.wait_for_a_person("forget", arguments, scope=place.scope, seen=seen).id,
            )
        if is_guarded(found.record.fields) and not work.caller.approved:
            work.may_decide(f"forget {key}, which is protected", "vade forget")
        with work.reported(f"forget {key}"):
            work.records.forget(found)
        return found.record

    def restore(self, name: str | int, *, scope: ScopeName | None = None) -> Record:
        """Restore a forgotten record, an archived version by its id, or entries that an edit has removed.

        The name of a pinned document restores the newest version of it that differs from the current one.
        """
        return self.archive.restore(name, scope=scope)

    # ---------------------------------------------------------------- reading

    @request_view()
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
        sort: str | None = None,
    ) -> Listing:
        """Return the visible records, those of the nearest scope first; `all` adds every project and agent.

        `sort` names another order, one of `fields.ORDERS` such as "updated". Secrets in the records are
        replaced, unless `reveal` is set. With a `limit`, the result is a page that begins at `offset`;
        records outside the page are only counted.
        """
        from vademecum.lifecycle import passes

        kind = None if type is None else str(parse_type(type))
        order = None if sort is None else parse_order(sort)
        if all:
            self.workspace.only_a_person("look into every project", "vade list --all")
        if limit is not None and not self.settings.incognito:
            with self.workspace.reported("list the records"):
                places = self.workspace.places(scope, all=all)
                page = self._page(places, kind, tag, range(offset, offset + limit), order)
            records = page.records if reveal else (outgoing.clean_record(each) for each in page.records)
            return Listing(tuple(records), page.findings, page.limit, page.counted, page.total)
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
                record = self.workspace.records.dated(each)
                found.append(record if reveal else outgoing.clean_record(record))
        found.sort(key=listing_order)
        if order is not None:
            position, newest_first = order
            found.sort(key=lambda record: sort_values(record)[position], reverse=newest_first)
        return Listing(tuple(found), tuple(findings), self.settings.decay.max_count, dict(counted))

    def _page(
        self,
        places: Sequence[Place],
        kind: str | None,
        tag: str | None,
        wanted: range,
        order: tuple[int, bool] | None,
    ) -> Listing:
        """Return the records at the positions `wanted` of the whole list, including their secrets; read no
        others.
        """
        from vademecum.lifecycle import passes

        records, most = self.workspace.records, self.settings.decay.max_count
        findings: list[Finding] = self.workspace.hidden(places)
        counted: Counter[Place] = Counter()
        rows: list[tuple[int, str, int, str, int, str, tuple[Any, ...]]] = []
        scope_folders: list[ScopeFolder] = []
        for each in records.known(places, passes.LISTED):
            if isinstance(each, Finding):
                findings.append(each)
                continue
            scope_folder, known = each
            handmade = {name: key_of(name) for name in names.not_keys(known.facts)}
            at, place, number = (
                _SCOPES.index(scope_folder.place.scope),
                scope_folder.place,
                len(scope_folders),
            )
            findings += records.unreadable(scope_folder, known)
            if known.facts:
                counted[place] += sum(fact[3] for fact in known.facts.values())
            rows += [
                (at, place.id, num, handmade.get(name) or name[:-3], number, name, values)
                for name, (num, own, tags, _, values) in known.facts.items()
                if (kind is None or own == kind) and (tag is None or tag in tags)
            ]
            scope_folders.append(scope_folder)
        found: list[Record] = []
        if order is None:
            chosen = heapq.nsmallest(wanted.stop, rows)
        else:
            position, newest_first = order
            chosen = sorted(sorted(rows), key=lambda row: row[-1][position], reverse=newest_first)
        for *_, number, name, _ in chosen[wanted.start : wanted.stop]:
            with contextlib.suppress(NotFound, Malformed, OutsideMemory):  # deleted or damaged meanwhile
                found.append(records.dated(records.load(scope_folders[number], name)))
        return Listing(tuple(found), tuple(findings), most, dict(counted), len(rows))

    @request_view()
    def show(self, name: str | int, *, scope: ScopeName | None = None, reveal: bool = False) -> Record:
        """Return a record with all its entries, by its key, number or id.

        Secrets in the record are replaced, unless `reveal` asks for the file as it is: for a person's eyes,
        never for a model.
        """
        record = self.workspace.records.dated(self.workspace.find(name, scope))
        return record if reveal else outgoing.clean_record(record)

    @request_view()
    def get(self, target: str | int, *, start: int = 1, lines: int | None = None) -> FileLines:
        """Return lines of a file by its shown path, or of a record by key or number, with secrets
        replaced.
        """
        return self._finder.get(target, start=start, lines=lines)

    def notes_of_today(self, *, scope: ScopeName = Scope.PROJECT) -> FileLines:
        """Return today's journal, by the local date."""
        place = scopes.journal_place(self.caller, scopes.parse_scope(scope))
        scope_folder = self.workspace.journal.scope_folders(place)[0]
        return self.get(scope_folder.name_of(filenames.JOURNAL, f"{self.workspace.now():%Y-%m-%d}.md"))

    @request_view()
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
        include_related: bool = False,
        explain: bool = False,
        max_weak: int | None = None,
        now: str | datetime | None = None,
        chars: int | None = None,
        hub: str | None = None,
    ) -> Answer:
        """Return the passages of all visible texts that answer a question, and how much of them was searched.

        The passages of one conversation count as one result; `conversations` has what else was said there.
        Texts are cut to `chars` characters for each result on average, by default the setting
        `search.result_chars`; 0 cuts nothing. Without `max_results`, a question that counts ("how many",
        "which of") gets half more results, and `notes` says so.

        An empty question lists the newest passages. `include_related` adds related records, as in `recall`.

        When every match is weak, at most `max_weak` are returned: by default three, or half of `max_results`;
        all of them if a model read the question. Phrases such as "last Tuesday" are relative to `now`, by
        default the clock's time: passages of that time rank higher, and `notes` names the understood time.

        With `hub`, the workspace of that name answers instead, whether or not a copy of it is here; an empty
        name means the only joined workspace. While the hub is unreachable, this home answers, and `degraded`
        says so.
        """
        if self.settings.incognito:
            return self._finder.nothing()
        if hub is not None:
            from vademecum.memory.sync import search_hub

            given: dict[str, Any] = {"max_results": max_results, "min_score": min_score, "mode": mode}
            given |= {"scope": scope, "type": type, "as_of": as_of, "sort_by": sort_by, "explain": explain}
            seen_from = now if now is None or isinstance(now, str) else now.isoformat()
            return search_hub(self, query, hub, sources=sources, max_weak=max_weak, now=seen_from, **given)
        question = self._finder.question(query, scope=scope, type=type, sources=sources, as_of=as_of, now=now)
        found = self._finder.search(
            question,
            max_results=max_results,
            max_weak=max_weak,
            chars=chars,
            min_score=min_score,
            mode=mode,
            sort_by=sort_by,
            explain=explain,
        )
        return self._finder.with_related(found, question) if include_related and found.results else found

    @request_view()
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
        """Return only records: those that answer a question, or the newest records if the question is empty.

        `include_related` adds records that one edge relates to a result: at most three for each result and
        five in all, beyond the limit. Each of them has its `related` record.
        """
        if self.settings.incognito:
            return self._finder.nothing()
        question = self._finder.question(
            query, scope=scope, type=type, sources=("memory",), as_of=as_of, now=now
        )
        options = self._finder.options(max_results=limit, mode=mode, sort_by=sort_by)
        found = self._finder.answer(question, options)
        return self._finder.with_related(found, question) if include_related and found.results else found

    @request_view()
    def status(self) -> Status:
        """Return the numbers, settings and problems of this memory."""
        from vademecum.memory.status import status_of

        return status_of(self)

    def close(self) -> None:
        """Stop background reading, and close the index and the counters; the next call opens them again."""
        if "reading" in self.__dict__:
            self.reading.hand_over()
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
        from vademecum.search import Finder

        return Finder(self.workspace)

    @functools.cached_property
    def archive(self) -> Archive:
        """The archive: forgotten, cleared and replaced records, and permanent deletion."""
        from vademecum.memory.archive import Archive

        return Archive(self.workspace, self.close)

    @functools.cached_property
    def audit(self) -> AuditLog:
        """The audit log, and whether anybody changed it."""
        from vademecum.store import AuditLog

        return AuditLog(self.workspace)

    @functools.cached_property
    def browse(self) -> Browse:
        """Browsing: a table of the records with facets, and the origin of each entry."""
        from vademecum.memory.browse import Browse

        return Browse(self)

    @functools.cached_property
    def care(self) -> Care:
        """Care: sweep, lint, heal, promote, compact, undo, the index."""
        from vademecum.lifecycle.care import Care

        return Care(self.workspace, lambda: self._finder)

    @functools.cached_property
    def graph(self) -> Relations:
        """The relations between records."""
        from vademecum.lifecycle.relations import Relations

        return Relations(self.workspace, self._finder)

    @functools.cached_property
    def injection(self) -> Injection:
        """The texts that agents receive at the start of a session and with a prompt."""
        from vademecum.inject.injection import Injection

        return Injection(self.workspace, lambda: self._finder)

    @functools.cached_property
    def knowledge(self) -> Learning:
        """Learned records, and the profile of the user."""
        from vademecum.lifecycle.learning import Learning

        return Learning(self.workspace, self._finder, self._sweep_after)

    @functools.cached_property
    def heard(self) -> HeardList:
        """Statements that were heard in sessions and are not saved as records."""
        from vademecum.lifecycle.heard_list import HeardList

        def find_lessons(events: Sequence[MessageEvent]) -> Sequence[HeardStatement]:
            from vademecum.context import failures

            return failures.find_statements(events)

        return HeardList(self.workspace, lambda: self._finder, find_lessons)

    @functools.cached_property
    def projects(self) -> Projects:
        """Operations on projects: list those with memory; set up, trust or join this one."""
        from vademecum.store import Projects

        return Projects(self.workspace)

    @functools.cached_property
    def reading(self) -> BackgroundReading:
        """Background reading: the work of the reader model while nobody waits for it."""
        from vademecum.memory.background_reading import BackgroundReading

        memory = weakref.ref(self)  # a thread that reads must not keep a memory that nobody uses

        def finder() -> Finder | None:
            found = memory()
            return None if found is None else found._finder

        return BackgroundReading(self.workspace, finder)

    @functools.cached_property
    def requests(self) -> Requests:
        """Writes by the name of their operation: made at once, made only once for a key, or pending."""
        from vademecum.memory.requests import Requests

        return Requests(self)

    @functools.cached_property
    def review(self) -> Review:
        """Pending items, and a person's decisions: approve, verify, protect."""
        from vademecum.memory.review import Review

        return Review(self)

    @functools.cached_property
    def sessions(self) -> Conversations:
        """Transcripts of sessions, and the context window of the current one."""
        from vademecum.context.conversations import Conversations

        return Conversations(self.workspace, self._finder, self._as_agent)

    @functools.cached_property
    def sources(self) -> Sources:
        """Attached folders of Markdown, which are read in place."""
        from vademecum.store import Sources

        return Sources(self.workspace)

    @functools.cached_property
    def transfer(self) -> Transfer:
        """Imports and exports."""
        from vademecum.lifecycle.transfer import Transfer

        return Transfer(self.workspace, lambda: self._finder)

    def _as_agent(self) -> Memory:
        """Return this memory opened as its agent; both share the listeners that are notified of writes."""
        work = self.workspace
        other = Memory(work.home, work.caller.as_agent(), work.loaded, now=work.now, readonly=work.readonly)
        other.workspace.listeners, other.workspace.index_trouble = work.listeners, work.index_trouble
        return other
