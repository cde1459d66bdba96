"""Sessions: their transcripts, and the window of the current one."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vademecum.errors import (
    Malformed,
    NotFound,
    OutsideMemory,
    ScopeUnresolved,
    Untrusted,
    UsageError,
    VadeError,
)
from vademecum.search.when import moment_of
from vademecum.stand_ins import renamed
from vademecum.store import Fact, archive, scopes
from vademecum.text import names
from vademecum.tokens import Estimator
from vademecum.transcripts import sessions as recalling
from vademecum.types import Audience, Finding

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from datetime import datetime

    from vademecum.context import engine
    from vademecum.context.engine import ContextEngine
    from vademecum.context.host import Complete, GitActivity, Host
    from vademecum.context.todo import TodoList
    from vademecum.context.window import Prepared
    from vademecum.knowledge.finder import Finder
    from vademecum.store import Records, Shelf, Workspace
    from vademecum.store.reading import Text
    from vademecum.transcripts import Message, importing
    from vademecum.transcripts.events import Ended
    from vademecum.transcripts.log import Line, Log
    from vademecum.transcripts.sessions import Session, Sessions
    from vademecum.transcripts.turns import SessionTurn
    from vademecum.types import Record

Progress = Callable[[str, int, int], None]
_WINDOW_SECONDS = 7 * 86_400  # how long a window that was learned counts: a server may get a larger one


def _heard_in(records: Records, shelf: Shelf, name: str, content: bytes) -> list[str]:
    """The sessions that said an entry of a record, by the agents' own ids."""
    told = archive.said(records.home, shelf, archive.RECORDS, name)
    return sorted({each.partition(":")[2] for said in told.values() for each in said} - {""})


HEARD_IN = Fact("heard-in", 1, _heard_in, logged=True)
_MARK = 60  # characters of an entry by which its line is found


class SessionPage(NamedTuple):
    """Sessions of a page with the program each is from, how many there are, and how many of what."""

    sessions: tuple[tuple[Session, str], ...]
    total: int
    agents: Mapping[str, int]
    projects: Mapping[str, int]


class TurnPage(NamedTuple):
    """Turns of a session, how many lines it has, and the first that comes after these; 0 when none does."""

    turns: tuple[SessionTurn, ...]
    total: int
    next: int


def _with_lines(log: Log, found: Sequence[Record]) -> list[tuple[Record, int]]:
    """Each record with the first line of a log that has the beginning of one of its entries, or 0."""
    marks = {
        json.dumps(entry.text.strip()[:_MARK], ensure_ascii=False)[1:-1].encode(): record.path
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


class Keeper(Protocol):
    """Memory as an agent has it, which keeps what leaves a window."""

    def store(self, text: str) -> object:
        """Keep a text."""

    def note(self, text: str) -> object:
        """Append a note to today's journal."""

    def notes_of_today(self) -> Text:
        """Today's journal."""


class Conversations:
    """Sessions, as `Memory` offers them."""

    def __init__(self, workspace: Workspace, finder: Finder, as_agent: Callable[[], Keeper]) -> None:
        self._work = workspace
        self._finder = finder
        self._as_agent = as_agent

    def list(self, *, all: bool = False) -> Sequence[Session]:
        """The sessions of this project and agent, newest first; with `all`, those of every project."""
        return self._transcripts(all=all).list(all=all)

    if not TYPE_CHECKING:
        __call__ = renamed("sessions()", "sessions.list()", list)

    def page(
        self, *, all: bool = False, project: str = "", agent: str = "", limit: int = 50, offset: int = 0
    ) -> SessionPage:
        """A page of the sessions, the one written to last first, and how many there are.

        Only those of the page are read. `agent` is the program a session was copied from, or `vade`.
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
        """The records with an entry that was said in a session, each with the line it was said in.

        The line is 0 where the log does not have those words.
        """
        from vademecum.agents import registry
        from vademecum.transcripts.importing import imported_id

        log = self.open(which, all=all)
        formats = [each.name for each in registry.transcript_formats()]

        def is_here(own: str) -> bool:
            return log.session in (own, *(imported_id(name, own) for name in formats))

        found: list[Record] = []
        with self._work.reported("read the memory"):
            known = self._work.records.listed(scopes.visible(self._work.caller), HEARD_IN)
            for each in known:
                if not isinstance(each, Finding) and any(map(is_here, each.fact)):
                    with contextlib.suppress(NotFound, Malformed, OutsideMemory):  # gone just now
                        found.append(self._work.records.load(each.shelf, each.name).record)
            return _with_lines(log, found)

    def open(self, which: str, *, all: bool = False) -> Log:
        """What was said and done in a session, by its id, the beginning of it, or its name."""
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
    ) -> recalling.Recalled:
        """The messages of earlier sessions that answer, from so many sessions at most, and what was covered.

        `ranking="keywords"` counts the words asked for, in the newest sessions alone and without an index.
        Calls of memory's own tools and their results are no answers; `own` asks for them too, by keywords.
        """
        by_keywords = recalling.check_ranking(ranking) == "keywords" or own
        found = self._transcripts(all=all)
        if by_keywords:
            return recalling.session_search(
                query,
                found.list(all=all),
                found.read,
                max_sessions=max_sessions,
                max_results=max_results,
                own=own,
            )
        if self._work.settings.incognito:
            return recalling.Recalled(degraded=("this session is incognito: nothing is read",))
        many, most = recalling.bounded(max_sessions, max_results)
        with self._work.reported("search the sessions"):
            return self._finder.earlier.recall(
                query,
                max_sessions=many,
                max_results=most,
                min_score=self._work.settings.search.min_score,
                seconds=self._work.settings.limits.open,
                all=all,
                now=moment_of(now or self._work.settings.search.now, self._work.now()),
            )

    def get(self, which: str, place: int | str, *, lines: int = 1, all: bool = False) -> Sequence[Line]:
        """Lines of a session as they were written, from a number on or from the id of a message or call."""
        return recalling.session_get(self.open(which, all=all), place, lines=lines)

    def card(self, which: str, *, all: bool = False) -> Session:
        """What is known of a session without reading all that was said in it."""
        return self._transcripts(all=all).card(which, all=all)

    def turns(self, which: str, start: int = 1, *, lines: int = 100, all: bool = False) -> TurnPage:
        """What some lines of a session say, without secrets, each result with its call."""
        from vademecum.transcripts.turns import read_turns

        log = self.open(which, all=all)
        found = recalling.session_get(log, start, lines=lines)
        last = total = found[-1].number if found else start - 1
        for raw in log.raw(found[-1].end, last + 1) if found else log.raw():
            total = raw.number
        return TurnPage(tuple(read_turns(found)), total, last + 1 if last < total else 0)

    def said_in(self, record: Record) -> Sequence[tuple[str, ...]]:
        """For each entry of a record, the kept sessions it was said in, by the ids that open them."""
        told = {} if self._work.settings.incognito else self._work.records.said(record)
        entries = [told.get(archive.fingerprint(each), ()) for each in record.entries]
        if not any(entries):
            return [() for _ in entries]
        from vademecum.agents import registry
        from vademecum.transcripts.importing import imported_id

        formats = [each.name for each in registry.transcript_formats()]
        kept: frozenset[str] = frozenset()
        with contextlib.suppress(ScopeUnresolved):
            kept = self._transcripts(all=False).ids()

        def found(identity: str) -> Iterator[str]:
            own = identity.partition(":")[2]
            yield from (each for each in (own, *(imported_id(name, own) for name in formats)) if each in kept)

        return [tuple(each for identity in said for each in found(identity)) for said in entries]

    def import_all(
        self,
        path: str | os.PathLike[str] | None = None,
        *,
        progress: Progress | None = None,
    ) -> Iterator[importing.ImportedSession]:
        """Keep copies of other agents' transcripts: those at a path, or all in the agents' own folders."""
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

    def import_transcript(
        self, path: str | os.PathLike[str], *, agent: str, checkpoint: bool | None = False
    ) -> importing.ImportedSession:
        """Keep a copy of one transcript in an agent's own folder, or add what it has more by now.

        With `checkpoint` what a compaction is about to take away is summed up in the copy's log as well; with
        None, only when what is new in the transcript shows that there was one.
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
            self._summed_up(importing.log_of(done, home=self._work.home, now=self._work.now))
        return done

    def _summed_up(self, log: Log) -> None:
        """Let all but the newest messages leave a log's window, with their summary and a checkpoint."""
        from vademecum.context import engine

        model = engine.model_of(log)
        size = self.context(log, window=1, model=model).inspect().tokens.total
        self.context(log, window=max(size, 1), model=model).compact()

    def export(
        self, which: str, path: str | os.PathLike[str], *, all: bool = False, force: bool = False
    ) -> Path:
        """Write a session to a new file, as its ending says: `.html`, `.md` or `.jsonl`."""
        from vademecum.transcripts import export

        self._work.at_a_command_line("write files of this machine", "vade sessions export")
        target = Path(path)
        drawn = self.render(which, target.suffix, all=all)
        self._work.outside(target)
        with self._work.reported(f"write {target}"):
            export.write(target, drawn, force=force)
        return target

    def render(self, which: str, ending: str, *, all: bool = False) -> Iterator[str]:
        """A session as a file of its own, piece by piece: `.html`, `.md` or `.jsonl`."""
        from vademecum.transcripts import export

        draw = export.renderer(ending)
        log = self.open(which, all=all)
        return draw(log.events(), log.title() or log.session, log.usage())

    def rename(self, which: str, name: str, *, all: bool = False) -> Log:
        """Give a session another name."""
        self._work.may_write()
        return self._transcripts(all=all).rename(which, name, all=all)

    def new(self, *, id: str = "", name: str = "", model: str = "", cwd: str = "") -> Log:
        """Begin a session; the first line of its log is on disk when this returns."""
        return self._finder.transcripts.new(id=id, name=name, model=model, cwd=cwd)

    def current(self, *, model: str = "", cwd: str = "", slug: Callable[[str], str] | None = None) -> Log:
        """The session to go on with; one that is over by `session.reset` is ended, and another begun.

        `slug` asks the host's model for a few words about a text, to name the note of one that ends.
        """
        return replace(self._finder.transcripts, slug=slug).current(model=model, cwd=cwd)

    def messages(self, which: str, *, all: bool = False) -> Sequence[Message]:
        """All that was said in a session and not taken back, for a host that goes on with it."""
        return [each.message for each in self.open(which, all=all).thread()]

    def record(self, log: Log, messages: Sequence[Message]) -> None:
        """Write to a log what is new in a thread; `messages` is the whole of it."""
        from vademecum.context.window import Thread

        Thread(log, [*log.events()]).absorb(messages)

    def end(self, which: str, *, why: str = "quit", slug: Callable[[str], str] | None = None) -> Ended:
        """End a session, with a note of its last messages in the journal."""
        return replace(self._finder.transcripts, slug=slug).end(which, why=why)

    def trim(
        self, which: str, *, window: int | None = None, all: bool = False, dry: bool = False
    ) -> tuple[int, Prepared]:
        """Let all but the newest messages leave a session's window; the log keeps every word.

        Returns how many tokens it had before, and what would be sent now. Without `window` it counts as
        full, so that about half of it goes. With `dry` nothing is written.
        """
        from vademecum.context import engine

        if not dry:
            self._work.may_write()
        log = self.open(which, all=all)
        model = engine.model_of(log)
        before = self.context(log, window=window or 1, model=model).inspect().tokens.total
        written = log.copy_in_memory() if dry else log
        return before, self.context(written, window=window or max(before, 1), model=model).compact()

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
        """The context window of a session: the one named, or the one to go on with.

        `complete` asks the host's model; without one there is no flush, and summaries are extracted. With
        `compaction` off they always are. `reply` is the longest answer the model can give, in tokens.

        A smaller window that a refusal shows is kept for the model at that `endpoint`, for a week; `served`
        is what its server says of itself.

        The summary and shortened messages say how the rest is read, with the tools that go with each request;
        `names` is for a host that calls `session_get` or `session_search` otherwise.
        """
        from vademecum.context import engine

        if window < 1:
            raise UsageError(f"a context window must have at least one token, not {window}")
        private = not self._work.settings.incognito
        # Which model is used where is nobody's business who reads that file.
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
            found=(lambda tokens: self._found_window(place, tokens)) if keeps else None,
            names=names,
        )

    def _known_window(self, place: str, served: int | None, *, keeps: bool) -> int | None:
        """How large a window is known to be; forgotten a week after, or when its server says another size."""
        state, told = self._work.state, f"{place} served"
        learned = state.window(place)
        since = state.moment(f"window {place}") or 0
        changed = served is not None and state.window(told) != served
        if changed and keeps:
            state.learned_window(told, served)
        if learned and (changed or self._work.now().timestamp() - since > _WINDOW_SECONDS):
            learned = None
            if keeps:
                state.learned_window(place, None)
        return min(filter(None, (served, learned)), default=None)

    def _found_window(self, place: str, tokens: int | None) -> None:
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
        """What the engine would do with a transcript, a file or a session, at that window; writes nothing."""
        from vademecum.context import engine

        if window < 1:
            raise UsageError(f"a context window must have at least one token, not {window}")
        self._work.at_a_command_line("look into files of this machine", "vade context inspect")
        found = self._tried(source)
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

    def _tried(self, source: str) -> engine.DryRunSource:
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
        """The log a window is written to; one in memory where nothing can be written."""
        if session is not None and not isinstance(session, str):
            return session
        if not self._work.settings.incognito and not self._writable("transcripts"):
            if session is None:
                return replace(self._finder.transcripts, incognito=True, _own={}).new(model=model)
            return self.open(session).copy_in_memory()
        return self.current(model=model) if session is None else self.open(session)

    def _host(self, complete: Complete | None) -> Host:
        """What a window asks of the program around it, answered from this memory."""
        from vademecum.context import host

        # What a flush writes is the agent's word, whoever sits at the door it came through.
        own = self._as_agent()

        def note(text: str) -> None:
            own.note(text)

        def remember(text: str) -> None:
            try:
                own.store(text)
            except Untrusted:  # the project's records lie in a folder of strangers: the journal never does
                own.note(text)

        def recent() -> GitActivity | None:
            return (
                None if self._work.caller.project is None else host.read_git(self._work.caller.project.root)
            )

        from vademecum.context.host import HostFunctions

        return HostFunctions(
            self._work.now,
            complete,
            bars=self._barred,
            journal=lambda: own.notes_of_today().text,
            note=note,
            remember=remember,
            git=recent,
        )

    def _barred(self) -> str:
        """Why a flush may not write now; empty when it may."""
        if self._work.settings.incognito:
            return "incognito"
        if self._work.caller.audience is Audience.GROUP:
            return "group"
        return "" if self._writable("memory", "project") else "read-only"

    def _writable(self, *parts: str) -> bool:
        """Whether something can be written in a folder of the home, which may not be there yet."""
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
        """The sessions in reach, for a door that holds one open."""
        return self._finder.transcripts

    def newest_logs(self, most: int) -> Iterator[Log]:
        """The logs of the newest sessions of this project and agent."""
        return self._finder.newest_logs(most)

    def todo(self, request: Mapping[str, Any]) -> tuple[TodoList, str]:
        """Work on the session's list of things to do: `write`, `update`, `add`, `list` or `done`."""
        from vademecum.context import todo as todos
        from vademecum.transcripts import events

        if self._work.caller.session is None:
            raise ScopeUnresolved("a to-do list belongs to a session, and this caller has none")
        looks = request.get("operation", "list") == "list"
        if not looks:
            self._work.may_write()
        with self._work.reported("save the to-do list"):
            try:
                kept = self._finder.transcripts
                log = kept.open(self._work.caller.session) if looks else kept.current()
            except NotFound:
                return todos.operate(todos.TodoList(), request)
            with contextlib.nullcontext() if looks else self._work.home.lock(f"todo {log.session}"):
                made, said = todos.operate(todos.read_log(log), request)
                if not looks:
                    value = todos.to_json(made)
                    log.append(events.Todo(items=tuple(value["items"]), next=value["next"]), sync=True)
        return made, said
