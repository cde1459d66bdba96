"""The sessions that `Memory` offers: their transcripts, and the context window of the current session."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vademecum.errors import (
    Malformed,
    NotFound,
    NotVisible,
    OutsideMemory,
    ScopeUnresolved,
    Untrusted,
    UsageError,
    VadeError,
)
from vademecum.search import SessionHits, session_keywords
from vademecum.store import Fact, archive, decisions, scopes
from vademecum.text import filenames, names
from vademecum.tokens import Estimator
from vademecum.transcripts import read_event, read_excerpt, session_get
from vademecum.types import Audience, Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.context import engine
    from vademecum.context.engine import ContextEngine
    from vademecum.context.host import Complete, GitActivity, Host
    from vademecum.context.todo import TodoList
    from vademecum.context.window import Prepared
    from vademecum.search import Finder
    from vademecum.store import FileLines, Records, ScopeFolder, Workspace
    from vademecum.transcripts import (
        Excerpt,
        ImportedSession,
        JoinedFolders,
        Line,
        Log,
        Message,
        Session,
        Sessions,
        SessionTurn,
    )
    from vademecum.transcripts.events import Checkpoint, Ended
    from vademecum.transcripts.gone_folders import GoneFolder, KnownRepository
    from vademecum.types import Record

Progress = Callable[[str, int, int], None]
_WINDOW_SECONDS = 7 * 86_400  # seconds that a learned window counts, because a server may get a larger one


def _heard_in(records: Records, scope_folder: ScopeFolder, name: str, content: bytes) -> list[str]:
    """Return the ids, as agents know them, of the sessions in which an entry of a record was said."""
    sessions_by_entry = archive.said(records.home, scope_folder, filenames.RECORDS, name)
    return sorted(
        {each.partition(":")[2] for entry_sessions in sessions_by_entry.values() for each in entry_sessions}
        - {""}
    )


HEARD_IN = Fact("heard-in", 1, _heard_in, logged=True)
_RECENT = 10  # sessions that are searched for a checkpoint
_MARK_CHARS = 60  # characters of an entry that identify its line


class SessionPage(NamedTuple):
    """One page of sessions with the program each comes from, their total number, and counts by agent and
    project.
    """

    sessions: tuple[tuple[Session, str], ...]
    total: int
    agents: Mapping[str, int]
    projects: Mapping[str, int]


class TurnPage(NamedTuple):
    """Some turns of a session, the session's number of lines, and the line to continue at; 0 at the end."""

    turns: tuple[SessionTurn, ...]
    total: int
    next: int


def _with_lines(log: Log, found: Sequence[Record]) -> list[tuple[Record, int]]:
    """Return each record with the first line of a log that holds the beginning of one of its
    entries, or 0.
    """
    marks = {
        json.dumps(entry.text.strip()[:_MARK_CHARS], ensure_ascii=False)[1:-1].encode(): record.path
        for record in found
        for entry in record.entries
        if entry.text.strip()
    }
    lines: dict[str, int] = {}
    for raw in log.raw() if marks else ():
        for mark in [each for each in marks if each in raw.content]:
            lines.setdefault(marks.pop(mark), raw.number)
        if not marks:
            break
    return [(record, lines.get(record.path, 0)) for record in found]


class AgentMemory(Protocol):
    """The memory of the agent, to which a flush saves its notes."""

    def store(self, text: str) -> object:
        """Save a text as a record."""

    def note(self, text: str) -> object:
        """Append a note to today's journal."""

    def notes_of_today(self) -> FileLines:
        """Return today's journal."""


class Conversations:
    """All operations on sessions, reached as `Memory.sessions`."""

    def __init__(self, workspace: Workspace, finder: Finder, as_agent: Callable[[], AgentMemory]) -> None:
        self._work = workspace
        self._finder = finder
        self._as_agent = as_agent

    def list(self, *, all: bool = False) -> Sequence[Session]:
        """Return the sessions of this project and agent, newest first; with `all`, of every project."""
        return self._transcripts(all=all).list(all=all)

    def count_elsewhere(self) -> int:
        """Return how many sessions of this home belong to other projects or agents.

        It is 0 for a caller who may not look into other projects.
        """
        try:
            return len(self.list(all=True)) - len(self.list())
        except NotVisible:
            return 0

    def page(
        self, *, all: bool = False, project: str = "", agent: str = "", limit: int = 50, offset: int = 0
    ) -> SessionPage:
        """Return one page of the sessions of a project and agent, last written first, with the total.

        Only the logs of this page are read. With `all`, sessions of every project count. An empty `project`
        or `agent` selects all; `agent` is the program that a session was imported from, or `vade`.
        """
        from vademecum.agents import registry

        formats = sorted((each.name for each in registry.transcript_formats()), key=len, reverse=True)

        def agent_of(session: str) -> str:
            return next((each for each in formats if session.startswith(f"{each}-")), "vade")

        def wanted(owner: str, session: str) -> bool:
            return project in ("", owner) and agent in ("", agent_of(session))

        with self._work.reported("list the sessions"):
            found, every = self._transcripts(all=all).page(wanted, all=all, limit=limit, offset=offset)
        return SessionPage(
            tuple((each, agent_of(each.id)) for each in found),
            sum(wanted(*each) for each in every),
            Counter(agent_of(session) for owner, session in every if project in ("", owner)),
            Counter(owner for owner, session in every if agent in ("", agent_of(session))),
        )

    def kept_from(self, which: str, *, all: bool = False) -> Sequence[tuple[Record, int]]:
        """Return the records with an entry that was said in a session, each with the entry's line.

        The line is 0 if the log does not hold the entry's words.
        """
        from vademecum.agents import registry
        from vademecum.transcripts.paths import imported_id

        log = self.open(which, all=all)
        formats = [each.name for each in registry.transcript_formats()]

        def is_here(own: str) -> bool:
            return log.session in (own, *(imported_id(name, own) for name in formats))

        found: list[Record] = []
        with self._work.reported("read the memory"):
            known = self._work.records.listed(scopes.visible(self._work.caller), HEARD_IN)
            for each in known:
                if not isinstance(each, Finding) and any(map(is_here, each.fact)):
                    # the record was removed just now
                    with contextlib.suppress(NotFound, Malformed, OutsideMemory):
                        found.append(self._work.records.load(each.scope_folder, each.name).record)
            return _with_lines(log, found)

    def open(self, which: str, *, all: bool = False) -> Log:
        """Return the log of a session, found by its id, by the beginning of its id, or by its name."""
        return self._transcripts(all=all).open(which, all=all)

    def search(
        self,
        query: str,
        *,
        max_sessions: int = 10,
        max_results: int = 5,
        ranking: str = "relevance",
        own: bool = False,
        all: bool = False,
        now: str | datetime | None = None,
    ) -> SessionHits:
        """Return the messages of earlier sessions that match best, and how many sessions were searched.

        `ranking="keywords"` counts the query's words in the newest sessions, without an index. `own` does the
        same and includes calls of memory's own tools and their results, which otherwise never match. The
        query can have the filters `by:`, `after:`, `before:` and `path:`. If `now` is given, messages of
        later days are not found.
        """
        by_keywords = session_keywords.check_ranking(ranking) == "keywords" or own
        found = self._transcripts(all=all)
        asked = self._finder.session_question(query, now=now)
        if by_keywords:
            hits = session_keywords.session_search(
                asked.text,
                found.list(all=all),
                found.read,
                max_sessions=max_sessions,
                max_results=max_results,
                own=own,
                allows=asked.allows,
            )
            return hits._replace(notes=asked.notes)
        if self._work.settings.incognito:
            return SessionHits(degraded=("this session is incognito: nothing is read",))
        many, most = session_keywords.clamp_limits(max_sessions, max_results)
        with self._work.reported("search the sessions"):
            return self._finder.earlier.recall(
                asked,
                max_sessions=many,
                max_results=most,
                min_score=self._work.settings.search.min_score,
                seconds=self._work.settings.limits.open,
                all=all,
            )

    def search_elsewhere(
        self, query: str, *, max_results: int = 5, now: str | datetime | None = None
    ) -> Sequence[session_keywords.Hit]:
        """Return the messages of other projects and agents that match best, without weak matches.

        A caller who may not see other projects gets none.
        """
        if self._work.settings.incognito or not self.count_elsewhere():
            return ()
        own = {each.id for each in self.list()}
        found = self.search(query, max_results=session_keywords.MOST_RESULTS, all=True, now=now).hits
        sure = [hit for hit in found if hit.session not in own and hit.match != "weak"]
        return sure[:max_results]

    def get(self, which: str, place: int | str, *, lines: int = 1, all: bool = False) -> Sequence[Line]:
        """Return `lines` lines of a session as they were written.

        `place` is the number of the first line, or the id of a message or call.
        """
        return session_get(self.open(which, all=all), place, lines=lines)

    def read(
        self,
        which: str,
        place: int | str = 1,
        *,
        lines: int | None = None,
        chars: int | None = None,
        all: bool = False,
    ) -> Excerpt:
        """Return turns of a session as an agent reads them, with the place to continue at.

        `place` is a line, the id of a message or call, or `LINE:CHARACTER`. A single turn is whole; among
        several turns, the results of tools are shortened. There are at most `chars` characters, by default
        `limits.answer_chars`.
        """
        log = self.open(which, all=all)
        with self._work.reported("read the session"):
            most = self._work.settings.limits.answer_chars if chars is None else chars
            return read_excerpt(log, place, lines=lines, chars=most)

    def card(self, which: str, *, all: bool = False) -> Session:
        """Return the facts about a session for lists, without reading all its messages."""
        return self._transcripts(all=all).card(which, all=all)

    def turns(self, which: str, start: int = 1, *, lines: int = 100, all: bool = False) -> TurnPage:
        """Return the turns in `lines` lines of a session from the line `start` on, with secrets redacted.

        Each tool result is shown with its call.
        """
        from vademecum.transcripts.page_turns import read_turns

        log = self.open(which, all=all)
        found = session_get(log, start, lines=lines)
        last = total = found[-1].number if found else start - 1
        for raw in log.raw(found[-1].end, last + 1) if found else log.raw():
            total = raw.number
        return TurnPage(tuple(read_turns(found)), total, last + 1 if last < total else 0)

    def said_in(self, record: Record) -> Sequence[tuple[str, ...]]:
        """Return, for each entry of a record, the ids of the stored sessions in which it was said."""
        sessions_by_entry = {} if self._work.settings.incognito else self._work.records.said(record)
        entries = [sessions_by_entry.get(archive.fingerprint(each), ()) for each in record.entries]
        if not any(entries):
            return [() for _ in entries]
        from vademecum.agents import registry
        from vademecum.transcripts.paths import imported_id

        formats = [each.name for each in registry.transcript_formats()]
        session_ids: frozenset[str] = frozenset()
        with contextlib.suppress(ScopeUnresolved):
            session_ids = self._transcripts(all=False).ids()

        def found(identity: str) -> Iterator[str]:
            own = identity.partition(":")[2]
            yield from (
                each for each in (own, *(imported_id(name, own) for name in formats)) if each in session_ids
            )

        return [
            tuple(each for identity in entry_sessions for each in found(identity))
            for entry_sessions in entries
        ]

    def import_all(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Iterator[ImportedSession]:
        """Import other agents' transcripts: those at a path, or all in the agents' own folders."""
        from vademecum.agents import registry
        from vademecum.transcripts import importing

        self._work.may_write()
        self._work.at_a_command_line("import transcripts of this machine", "vade sessions import")
        found = (
            registry.find_transcripts(Path.home())
            if path is None
            else registry.find_transcripts_in(Path(path), without=self._work.home.path)
        )
        return importing.import_files(
            found, home=self._work.home, caller=self._work.caller, progress=progress, now=self._work.now
        )

    def join_folders(
        self, imported: Iterable[ImportedSession], *, project: str | os.PathLike[str] = ""
    ) -> JoinedFolders:
        """Join imported sessions of folders that no longer exist to the project of their repository.

        The transcripts have to show which repository it was. If `project` is given, by its name, id or path,
        the remaining folders join it. `vade undo` undoes the joins, and a later import does not repeat them.
        """
        from vademecum.store import Projects
        from vademecum.transcripts import gone_folders

        self._work.may_write()
        self._work.at_a_command_line("join sessions to a project", "vade sessions import --all")
        sessions, home = [*imported], self._work.home
        with self._work.reported("look for the projects of the sessions"):
            target = Projects(self._work).find(project) if project else ""
            gone = gone_folders.find_gone_folders(sessions, home=home)
            if not gone:
                return gone_folders.JoinedFolders()
            known = gone_folders.known_repositories(home, self._work.caller, sessions)
            declined = decisions.declined(home)
            owners: dict[str, tuple[str, str]] = {}
            for each in gone:
                owner = self._find_owner(each, known)
                above = next((folder for folder in owners if Path(folder) in Path(each.folder).parents), "")
                if not owner[0] and above:
                    owner = owners[above][0], f"it lies below {above}"
                # Memory of a folder, and joins that were undone, are for a person to decide about.
                is_open = decisions.mark_of(gone_folders.JOINED, each.id, owner[0]) not in declined
                if owner[0] and is_open and not home.names("memory", "project", each.id):
                    owners[each.folder] = owner
                elif target and target != each.id:
                    owners[each.folder] = target, gone_folders.CHOSEN
            joined = [each for each in gone if each.folder in owners]
            run = self._save_joins([(each, owners[each.folder][0]) for each in joined])
        return gone_folders.JoinedFolders(
            [each.result(*owners[each.folder]) for each in joined],
            [each.result() for each in gone if each.folder not in owners],
            run,
        )

    def _find_owner(self, gone: GoneFolder, known: Mapping[str, KnownRepository]) -> tuple[str, str]:
        """Return the project that a folder belonged to, and what shows it; empty texts in doubt."""
        from vademecum.agents import registry
        from vademecum.transcripts import gone_folders

        if noted := gone_folders.noted_project(self._work.home, gone.id):
            return noted, "memory was saved for it"
        evidence = gone_folders.read_evidence(gone, registry.transcript_format)
        return gone_folders.find_repository(gone.folder, evidence, known, project_at=self._project_at)

    def _project_at(self, folder: str) -> str:
        """Return the project of a folder that exists, or that memory was saved for; else an empty text."""
        if not os.path.isabs(folder) or "\0" in folder:
            return ""
        found, own = scopes.find_project(Path(folder), home=self._work.home.path), self._work.caller.project
        if own is not None and own.root == found.root:
            return own.id
        if found.root.is_dir():
            return found.id
        from vademecum.transcripts.gone_folders import noted_project

        return noted_project(self._work.home, found.by_path)

    def _save_joins(self, joins: Sequence[tuple[GoneFolder, str]]) -> str:
        """Save the joins of folders to projects, and return the name of the run that undoes them."""
        from vademecum.transcripts.gone_folders import JOIN, JOINED

        if not joins:
            return ""
        home, at, by = self._work.home, self._work.stamp(), self._work.caller.actor
        lines = tuple(
            {"what": JOINED, "path": each.folder, "id": each.id, "project": project}
            for each, project in joins
        )
        sitting = decisions.Sitting(
            decisions.new_sitting_id(self._work.now(), at), at, by, lines, undone=False, what=JOIN
        )
        decisions.put_sitting(home, sitting)
        for each, project in joins:
            scopes.add_alias(home, each.id, project, at=at)
        self._work.audit("alias")
        return sitting.id

    def import_transcript(
        self, path: str | os.PathLike[str], *, agent: str, checkpoint: bool | None = False
    ) -> ImportedSession:
        """Import one transcript from an agent's own folder; if it was imported before, add its new part.

        With `checkpoint`, the messages that a compaction is about to remove are summarized in the imported
        log too; with None, only if the new part of the transcript holds a compaction.
        """
        from vademecum.agents import registry
        from vademecum.transcripts import importing

        self._work.may_write()
        self._work.not_in_group("import a transcript")
        known, real = registry.find_owned_transcript(
            os.fspath(path), agent, person=Path.home(), environ=os.environ
        )
        done = importing.import_file(
            known, real, home=self._work.home, caller=self._work.caller, now=self._work.now
        )
        if done.session and (done.compacted if checkpoint is None else checkpoint):
            self._summarize_log(importing.imported_log(done, home=self._work.home, now=self._work.now))
        return done

    def _summarize_log(self, log: Log) -> None:
        """Summarize all but the newest messages of a log, and append the summary as a checkpoint."""
        from vademecum.context import engine

        model = engine.model_of(log)
        size = self.context(log, window=1, model=model).inspect().tokens.total
        self.context(log, window=max(size, 1), model=model).compact()

    def export(
        self, which: str, path: str | os.PathLike[str], *, all: bool = False, force: bool = False
    ) -> Path:
        """Write a session to a file, in the format of its ending: `.html`, `.md` or `.jsonl`.

        An existing file is overwritten only with `force`.
        """
        from vademecum.transcripts import export

        self._work.at_a_command_line("write files of this machine", "vade sessions export")
        target = Path(path)
        content = self.render(which, target.suffix, all=all)
        self._work.outside(target)
        with self._work.reported(f"write {target}"):
            export.write(target, content, force=force)
        return target

    def render(self, which: str, ending: str, *, all: bool = False) -> Iterator[str]:
        """Yield the text of a file that shows a session, as `.html`, `.md` or `.jsonl`, as `ending` says."""
        from vademecum.transcripts import export

        draw = export.renderer(ending)
        log = self.open(which, all=all)
        return draw(log.events(), log.title() or log.session, log.usage())

    def rename(self, which: str, name: str, *, all: bool = False) -> Log:
        """Rename a session."""
        self._work.may_write()
        return self._transcripts(all=all).rename(which, name, all=all)

    def new(self, *, id: str = "", name: str = "", model: str = "", cwd: str = "") -> Log:
        """Begin a session and return its log.

        The first line is on disk by then, except in an incognito session.
        """
        return self._finder.transcripts.new(id=id, name=name, model=model, cwd=cwd)

    def current(self, *, model: str = "", cwd: str = "", slug: Callable[[str], str] | None = None) -> Log:
        """Return the session to continue; a session that is over by `session.reset` is ended, and a new one
        begun.

        `slug` asks the host's model for a few words about a text, to name the note of a session that ends.
        """
        return replace(self._finder.transcripts, slug=slug).current(model=model, cwd=cwd)

    def messages(self, which: str, *, all: bool = False) -> Sequence[Message]:
        """Return the messages of a session without those taken back, so that a host can
        continue the session.
        """
        return [each.message for each in self.open(which, all=all).thread()]

    def record(self, log: Log, messages: Sequence[Message]) -> None:
        """Write to a log those messages of the whole thread `messages` that are new."""
        from vademecum.context.window import Thread

        Thread(log, [*log.events()]).absorb(messages)

    def end(self, which: str, *, why: str = "quit", slug: Callable[[str], str] | None = None) -> Ended:
        """End a session, with a note of its last messages in the journal."""
        return replace(self._finder.transcripts, slug=slug).end(which, why=why)

    def trim(
        self, which: str, *, window: int | None = None, all: bool = False, dry: bool = False
    ) -> tuple[int, Prepared]:
        """Remove all but the newest messages from a session's window; the log keeps every word.

        Returns the number of tokens before, and what would be sent now. Without `window`, the window counts
        as full, so that about half of it is removed. With `dry`, nothing is written.
        """
        from vademecum.context import engine

        if not dry:
            self._work.may_write()
        log = self.open(which, all=all)
        model = engine.model_of(log)
        before = self.context(log, window=window or 1, model=model).inspect().tokens.total
        target = log.copy_in_memory() if dry else log
        return before, self.context(target, window=window or max(before, 1), model=model).compact()

    def _transcripts(self, *, all: bool = False) -> Sessions:
        if all:
            self._work.only_a_person("look into every project", "vade sessions list --all")
        return self._finder.transcripts

    def context(
        self,
        session: str | Log | None = None,
        *,
        window: int,
        model: str = "",
        complete: Complete | None = None,
        compaction: bool = True,
        reply: int | None = None,
        endpoint: str = "",
        served: int | None = None,
        names: Mapping[str, str] | None = None,
    ) -> ContextEngine:
        """Return the context window of the named session, or of the session to continue.

        `complete` calls the host's model; without it there is no flush, and summaries are extracted. With
        `compaction` off, summaries are always extracted. `reply` is the model's longest answer, in tokens.

        A smaller window that a refusal reveals is remembered for the model at that `endpoint`, for a week;
        `served` is the window that its server reports.

        The summary and shortened messages name the tools that read the rest, among those that go with each
        request; `names` is for a host that has other names for `session_get` and `session_search`.
        """
        from vademecum.context import engine

        if window < 1:
            raise UsageError(f"a context window must have at least one token, not {window}")
        private = not self._work.settings.incognito
        # The state file does not reveal which model is used where, so the key is a hash.
        place = hashlib.sha256(f"{model} at {endpoint}".encode("utf-8", "surrogatepass")).hexdigest()
        state = self._work.state
        ratio = state.ratio(model) if private else None
        keeps = private and not self._work.readonly
        return engine.LearningEngine(
            self._log_for(session, model),
            self._host(complete),
            window,
            engine.settings_from(self._work.settings, compaction=compaction, reply=reply),
            model=model,
            estimator=Estimator({} if ratio is None else {model: ratio}),
            learned=state.learned if keeps else None,
            known=self._known_window(place, served, keeps=keeps) if private else served,
            found=(lambda tokens: self._save_window(place, tokens)) if keeps else None,
            names=names,
        )

    def _known_window(self, place: str, served: int | None, *, keeps: bool) -> int | None:
        """Return the smaller of a model's served and learned window size; None without either.

        A learned size is forgotten after a week, or when the server reports another size; `keeps` says
        whether such changes are saved.
        """
        state, served_key = self._work.state, f"{place} served"
        learned = state.window(place)
        since = state.moment(f"window {place}") or 0
        changed = served is not None and state.window(served_key) != served
        if changed and keeps:
            state.learned_window(served_key, served)
        if learned and (changed or self._work.now().timestamp() - since > _WINDOW_SECONDS):
            learned = None
            if keeps:
                state.learned_window(place, None)
        return min(filter(None, (served, learned)), default=None)

    def _save_window(self, place: str, tokens: int | None) -> None:
        self._work.state.learned_window(place, tokens)
        self._work.state.happened(f"window {place}", None if tokens is None else self._work.now())

    def trial(
        self,
        source: str,
        *,
        window: int,
        model: str = "",
        progress: Progress | None = None,
    ) -> engine.DryRun:
        """Replay a session, or a transcript file, with a window of `window` tokens; writes nothing."""
        from vademecum.context import engine

        if window < 1:
            raise UsageError(f"a context window must have at least one token, not {window}")
        self._work.at_a_command_line("look into files of this machine", "vade context inspect")
        found = self._dry_run_source(source)
        name = model or found.model
        ratio = None if self._work.settings.incognito else self._work.state.ratio(name)
        return engine.run(
            found,
            window=window,
            settings=engine.settings_from(self._work.settings),
            model=name,
            estimator=Estimator({} if ratio is None else {name: ratio}),
            progress=progress,
        )

    def _dry_run_source(self, source: str) -> engine.DryRunSource:
        from vademecum.context import engine

        if os.path.lexists(source) or os.sep in source:
            return engine.read_source(Path(source))
        try:
            return engine.from_log(self.open(source))
        except NotFound:
            raise NotFound(
                f"{names.shown(source)} is neither a file nor a visible session",
                hint="give the file of a transcript, or a session's id or name",
            ) from None

    def _log_for(self, session: str | Log | None, model: str) -> Log:
        """Return the log that a window writes to; a log in memory if nothing can be written to disk."""
        if session is not None and not isinstance(session, str):
            return session
        if not self._work.settings.incognito and not self._writable("transcripts"):
            if session is None:
                return replace(self._finder.transcripts, incognito=True, _own={}).new(model=model)
            return self.open(session).copy_in_memory()
        return self.current(model=model) if session is None else self.open(session)

    def _host(self, complete: Complete | None) -> Host:
        """Return the host for the engine: a host that reads from and writes to this memory."""
        from vademecum.context import host

        # Notes of a flush have the agent's origin, whichever interface is used.
        own = self._as_agent()

        def note(text: str) -> None:
            own.note(text)

        def remember(text: str) -> None:
            try:
                own.store(text)
            except Untrusted:  # the project's records are in an untrusted folder, but its journal never is
                own.note(text)

        def recent() -> GitActivity | None:
            return (
                None if self._work.caller.project is None else host.read_git(self._work.caller.project.root)
            )

        from vademecum.context.host import HostFunctions

        return HostFunctions(
            self._work.now,
            complete,
            bars=self._write_block,
            journal=lambda: own.notes_of_today().text,
            note=note,
            remember=remember,
            git=recent,
        )

    def _write_block(self) -> str:
        """Return why a flush must not write now; empty when it may."""
        if self._work.settings.incognito:
            return "incognito"
        if self._work.caller.audience is Audience.GROUP:
            return "group"
        return "" if self._writable("memory", "project") else "read-only"

    def _writable(self, *parts: str) -> bool:
        """Whether a folder of the home can be written to; a folder that does not exist yet counts as
        writable.
        """
        folder = self._work.home.path.joinpath(*parts)
        while not folder.exists() and folder != folder.parent:
            folder = folder.parent
        try:
            self._work.home.check_format()
        except VadeError:
            return False
        return not self._work.readonly and os.access(folder, os.W_OK)

    @property
    def transcripts(self) -> Sessions:
        """The sessions that the caller may reach, for an interface that keeps a session open."""
        return self._finder.transcripts

    def newest_logs(self, most: int) -> Iterator[Log]:
        """Yield the logs of the newest `most` sessions of this project and agent."""
        return self._finder.newest_logs(most)

    def checkpoint(self) -> Checkpoint | None:
        """Return the newest checkpoint of the caller's session, else that of the newest session that has
        one.
        """
        from vademecum.transcripts import events

        if self._work.settings.incognito:
            return None
        own: list[Log] = []
        session = self._work.caller.session
        with contextlib.suppress(NotFound, ScopeUnresolved):
            own += [] if session is None else [self._finder.transcripts.open(session)]
        for log in chain(own, self._finder.newest_logs(_RECENT)):
            points = [raw for raw in log.raw() if raw.kind == events.Checkpoint.kind]
            found = (read_event(raw) for raw in reversed(points))
            if newest := next((each for each in found if isinstance(each, events.Checkpoint)), None):
                return newest
        return None

    def todo(self, request: Mapping[str, Any]) -> tuple[TodoList, str]:
        """Run an operation on the session's to-do list: `write`, `update`, `add`, `list` or `done`."""
        from vademecum.context import todo as todos
        from vademecum.transcripts import events

        only_reads = request.get("operation", "list") == "list"
        if not only_reads:
            self._work.may_write()
        with self._work.reported("save the to-do list"):
            log = self._todo_log(only_reads=only_reads)
            if log is None:
                return todos.operate(todos.TodoList(), request)
            with contextlib.nullcontext() if only_reads else self._work.home.lock(f"todo {log.session}"):
                todo, text = todos.operate(todos.read_log(log), request)
                if not only_reads:
                    value = todos.to_json(todo)
                    log.append(events.Todo(items=tuple(value["items"]), next=value["next"]), sync=True)
        return todo, text

    def _todo_log(self, *, only_reads: bool) -> Log | None:
        """Return the log with the to-do list; None if `only_reads` and the session has no log.

        The log is the copy of the agent's own session, else the caller's session. The copy has the same id
        before and after the first import. Raises ScopeUnresolved for a session that ends with its connection.
        """
        caller, sessions = self._work.caller, self._finder.transcripts
        if caller.session is None or (caller.connection and not caller.conversation):
            raise ScopeUnresolved(
                "a to-do list belongs to a session that can be continued, and this connection has none",
                hint="keep the list in the conversation; `vade install` or `--session` would name a session",
            )
        if caller.connection and caller.project is not None:
            return sessions.copy_of(caller.project.id, self._copy_id(caller.conversation))
        if not only_reads:
            return sessions.current()
        with contextlib.suppress(NotFound):
            return sessions.open(caller.session)
        return None

    def _copy_id(self, own: str) -> str:
        """Return the id of the copy of an agent's session: an existing one, else that of its import."""
        from vademecum.agents import registry
        from vademecum.transcripts.paths import imported_id

        agent = registry.find(self._work.caller.client.partition(" ")[0])
        known = [each.name for each in registry.transcript_formats()]
        first = agent.transcripts.name if agent is not None and agent.transcripts is not None else known[0]
        ids = [imported_id(name, own) for name in (first, *known)]
        return next((each for each in ids if each in self._finder.transcripts.ids()), ids[0])
