"""Answer questions from the indexes of notes and sessions, and read lines of files."""

from __future__ import annotations

import contextlib
import functools
import json
import math
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vademecum.errors import EmbedderFailed, UnknownName, UsageError, VadeError
from vademecum.index.words import terms
from vademecum.search import base as searching
from vademecum.search import evidence, relevance
from vademecum.search.question_times import moment_of, times_asked
from vademecum.store import heard, scopes, sources
from vademecum.text import filenames, names, outgoing
from vademecum.text.names import parse_type
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from datetime import datetime

    from vademecum.index import LazyEmbedder, PassageReader, Survey, SyncReport
    from vademecum.knowledge import Sight
    from vademecum.llm.base import Model
    from vademecum.search.engine import Options
    from vademecum.search.rerank import Rerank
    from vademecum.search.searcher import Searcher
    from vademecum.search.session_search import SessionSearch
    from vademecum.store import FileLines, Workspace
    from vademecum.store.heard import HeardStatement
    from vademecum.transcripts import Log, Sessions
    from vademecum.types import RecordType

NOT_RERANKED = "not reranked"  # the beginning of the message of `search.rerank`
_HEAD = 400  # bytes of a log's line that hold its id
SOURCES, SESSIONS = "sources", "sessions"  # kinds of passages that are read on request


class Finder:
    """The search of a workspace, over the index of its notes and the index of its sessions."""

    def __init__(self, workspace: Workspace) -> None:
        self._work = workspace

    @functools.cached_property
    def transcripts(self) -> Sessions:
        """The transcripts of the sessions that the caller sees."""
        from vademecum.transcripts import Sessions

        workspace = self._work
        own = workspace.settings.session
        return Sessions(
            workspace.home,
            workspace.caller,
            workspace.now,
            reset=own.reset,
            note_messages=own.note_messages,
            incognito=workspace.settings.incognito,
            announce=workspace.announce,
        )

    @functools.cached_property
    def sight(self) -> Sight:
        """The relations between visible records, cached until a file changes."""
        from vademecum.knowledge import Sight

        return Sight(self._work.records)

    def get(self, target: str | int, *, start: int = 1, lines: int | None = None) -> FileLines:
        """Return lines of a file by its shown path, or of a record by key or number, without secrets.

        Without `lines`, return all lines from `start` on. An incognito session gets no text.
        """
        from vademecum.store import FileLines, lookup

        if start < 1 or (lines is not None and lines < 0):
            raise UsageError("line numbers start at 1")
        path = str(target)
        if self._work.settings.incognito:
            return FileLines(path, "")
        with self._work.reported(f"read {path}"):
            if (inside := path.removeprefix(f"{self._work.home.path}/")).startswith("transcripts/"):
                return self.earlier.read(inside, start=start, count=lines)
            if "/" in path or "\\" in path:
                path, content = lookup.by_path(self._work.home, self._work.caller, path)
            elif path.endswith(".md"):
                scope_folder, name, content = self._work.documents.find(path)
                path = scope_folder.name_of(name)
            else:
                found = self._work.find(path, None)
                path, content = (
                    found.record.path,
                    found.scope_folder.read(filenames.RECORDS, found.name),
                )
                if found.part and start == 1 and lines is None:  # only the requested part of a consolidation
                    start = min(entry.start for entry in found.record.entries)
                    lines = max(entry.end for entry in found.record.entries) - start + 1
            return lookup.clean_lines_of(path, content, start=start, count=lines)

    def question(
        self,
        query: str,
        *,
        scope: str | Scope | None = None,
        type: str | RecordType | None = None,
        sources: Iterable[str] = (),
        as_of: str | None = None,
        now: str | datetime | None = None,
    ) -> searching.Query:
        """Return the query of a call, with filters from the question's text and from the arguments."""
        # The index has a mark in place of each secret, so the query gets one too; no note repeats the secret.
        asked = searching.parse(outgoing.clean_text(str(query)))
        moment = None if as_of is None else searching.as_of(as_of)
        wanted = self._sources(sources)
        if scope or type or wanted or as_of:
            asked = asked._replace(
                scope=self._work.scope(scope) or asked.scope,
                type=asked.type if type is None else str(parse_type(type)),
                sources=wanted,
                notes=(*asked.notes, *self._unknown_to_group(wanted)),
                as_of=moment,
            )
        if asked.scope is not None:
            scopes.place_for(self._work.caller, asked.scope)
        return self._at(asked, now)

    def session_question(self, query: str, *, now: str | datetime | None = None) -> searching.Query:
        """Return the query of a search of sessions alone, with the filters in its text."""
        return self._at(searching.parse(outgoing.clean_text(str(query)), sessions=True), now)

    def _at(self, asked: searching.Query, now: str | datetime | None) -> searching.Query:
        """Return a query with the moment at which it is asked, and the times that it mentions."""
        named = now or self._work.settings.search.now
        at = moment_of(named, self._work.now())
        return asked._replace(times=times_asked(asked.text, at), now=at if named else None)

    def nothing(self) -> searching.Answer:
        """Return the empty answer that an incognito session gets."""
        return searching.nothing("this session is incognito: nothing is read")

    def answer(
        self,
        asked: searching.Query,
        options: Options,
        *,
        max_weak: int | None = None,
        usual: int | None = None,
    ) -> searching.Answer:
        """Return the passages that answer a query; when every match is weak, at most `max_weak` passages.

        The default of `max_weak` is half of the wanted number, or of the `usual` number if that is smaller;
        if a model read the question, all stay. If no passage has the quoted phrases, their words are
        searched.
        """
        begun = time.monotonic()
        with self._work.reported("search"):
            found = self._found(asked, options, begun=begun)
            if asked.phrases and not found.results and not self._holds(asked, options):
                asked = searching.without_phrases(asked)
                found = self._found(asked, options, begun=begun)
            if max_weak is None:  # a paraphrase looks weak: results that a model ordered are shown
                wanted = options.max_results
                max_weak = wanted if found.read else relevance.most_weak(min(wanted, usual or wanted))
            found = self._with_standing(_falling(searching.without_weak(found, max_weak), options))
            if found.coverage.unread:
                self._work.note_unread()
            notes = asked.notes if found.mode == "metadata" else (*asked.notes, *asked.times.notes)
            hidden = self._work.hidden_note(self._work.places(asked.scope))
            found = replace(found, degraded=(*found.degraded, *hidden)) if hidden else found
            return replace(found, notes=(*notes, *found.notes), now=asked.now)

    def search(
        self,
        asked: searching.Query,
        *,
        max_results: int | None,
        max_weak: int | None,
        chars: int | None,
        **how: Any,
    ) -> searching.Answer:
        """Return the answer to a query, with what else was said in the conversations that hold its results.

        A query that counts gets half more than the usual number of results, unless the caller names a number.
        `chars` is the number of characters for each result; with 0, texts are not cut.
        """
        own = self._work.settings.search
        each = own.result_chars if chars is None else chars
        notes: tuple[str, ...] = ()
        if max_results is None and searching.counts(asked.text):
            max_results = own.max_results * 3 // 2
            notes = (f"this question counts, so up to {max_results} results are shown",)
        options = self.options(max_results=max_results, whole=each == 0, **how)
        found = self.answer(asked, options, max_weak=max_weak, usual=own.max_results if notes else None)
        if found.mode != "metadata" and options.sort_by is None:
            found = replace(found, results=searching.newer_first(found.results))
        room = evidence.room(each, max_results or own.max_results)
        room = room if found.match != relevance.WEAK else room * 2 // 3
        found = self._with_conversations(found, asked, chars=room)
        return replace(found, notes=(*notes, *found.notes)) if notes and found.results else found

    def _with_conversations(
        self, found: searching.Answer, asked: searching.Query, *, chars: int
    ) -> searching.Answer:
        """Return an answer with the conversations of its results, in about `chars` characters."""
        if not found.results or found.mode == "metadata":
            return found
        notes: dict[str, list[int]] = {}
        sessions: dict[str, list[int]] = {}
        for each in found.results:
            if each.role:
                lines = sessions if each.source == searching.TRANSCRIPT else notes
                lines.setdefault(each.path, []).append(each.start)
        turns = self.searcher.turns(notes) if notes else {}
        turns |= self.earlier.turns(sessions) if sessions else {}
        words = terms(asked.text).words
        results, conversations = evidence.gather(found.results, turns, words, chars=chars)
        return replace(found, results=results, conversations=conversations)

    def with_related(self, found: searching.Answer, asked: searching.Query) -> searching.Answer:
        """Return an answer, followed by the records with a direct relation to a record in the answer."""
        from vademecum.knowledge import graph as graphs
        from vademecum.search import passages

        with self._work.reported("follow the edges"):
            graph = self.sight.graph(self._work.places(asked.scope))
        more = graphs.find_related(graph, [each.path for each in found.results])
        shown = (passages.related_passage(each, asked.as_of) for each in more)
        beside = replace(found, results=tuple(each for each in shown if each is not None))
        return replace(found, results=(*found.results, *self._with_standing(beside).results))

    def index(
        self, *, rebuild: bool, check: bool, progress: Callable[[str, int, int], None] | None
    ) -> SyncReport:
        """Update the indexes of notes and sessions; `rebuild` makes new ones, `check` compares content."""
        if rebuild:
            report = self.searcher.rebuild(progress=progress)
            said = self.earlier.rebuild(progress=progress)
        else:
            report = self.searcher.sync(check=check, probe=True, progress=progress)
            said = self.earlier.sync(check=check, progress=progress)
        return said.add_to(report)

    def to_read(self, wanted: Iterable[str], *, everything: bool) -> frozenset[str]:
        """Return the kinds of passages to read beside curated ones; raise an error for an unknown name.

        With `everything`, return all kinds.
        """
        known = (SOURCES, SESSIONS)
        for each in wanted:
            if each not in known:
                raise UnknownName(
                    f"{names.shown(each)} cannot be read", hint=f"what can be read is {' and '.join(known)}"
                )
        return frozenset(known if everything else wanted)

    def read(
        self, report: SyncReport, *, more: Collection[str], progress: Callable[[str, int, int], None] | None
    ) -> None:
        """Let the reader model read curated passages and the kinds in `more`; report how many are left."""
        try:
            report.unread = self.searcher.read(everything=SOURCES in more, progress=progress)
            if SESSIONS in more:
                self.earlier.read_said(progress=progress)
            report.sessions_unread = self.earlier.unread()
            report.unwritten = self.searcher.unwritten
        except EmbedderFailed as error:
            report.degraded.append(f"no reader vectors: {error}")

    @functools.cached_property
    def searcher(self) -> Searcher:
        """The searcher with the index of this agent."""
        from vademecum.search.searcher import ChunkShape, Searcher

        shape = ChunkShape(self._work.settings.chunk.tokens, self._work.settings.chunk.overlap)
        searcher = Searcher(
            self._work.home,
            self._work.caller,
            embedder=self._embedder(),
            shape=shape,
            name=self._work.settings.agent,
            state=self._work.state,
            rerank=self._rerank,
            reader=self._reader,
        )
        self._work.listeners.append(searcher.update_file)
        return searcher

    @functools.cached_property
    def _rerank(self) -> Rerank | None:
        """The reranker that the settings name, which pauses after a failure; None if they name none."""
        own = self._work.settings.search
        if own.rerank == "none":
            return None
        from vademecum.search.rerank import make_rerank

        return make_rerank(
            own.rerank,
            model=own.rerank_model,
            key_env=own.rerank_key_env,
            seconds=own.rerank_seconds,
            language_model=self._language_model,
        )

    def _language_model(self) -> Model:
        from vademecum.llm.providers import require_model

        return require_model(None, self._work.settings.model, self._work.settings.llm)

    def _found(self, asked: searching.Query, options: Options, *, begun: float) -> searching.Answer:
        """Return an answer with passages of notes and, if they are searched, of sessions."""
        if asked.sources == (searching.TRANSCRIPT,):
            found = searching.Answer((), "metadata" if options.mode == "metadata" else "bm25")
        else:
            found = self.searcher.search(asked, options, seconds=self._work.settings.limits.open)
        return self._with_heard(self._with_sessions(found, asked, options, begun=begun), asked, options)

    def _holds(self, asked: searching.Query, options: Options) -> bool:
        """Return whether a passage has the query's phrases, but was left out by a limit of the caller."""
        if options.max_results < 1:
            return True
        if options.min_score <= 0:
            return False
        anything = options._replace(min_score=0.0, max_results=1)
        return bool(self._found(asked, anything, begun=time.monotonic()).results)

    def _with_sessions(
        self, found: searching.Answer, asked: searching.Query, options: Options, *, begun: float
    ) -> searching.Answer:
        """Return an answer that also has the passages of sessions, if sessions are searched."""
        if (
            not searching.asks_sessions(asked, options)
            or self._work.caller.project is None
            or not os.path.isdir(f"{self._work.home.path}/transcripts")
        ):
            return found
        left = self._work.settings.limits.open - (time.monotonic() - begun)
        passages, said = self.earlier.answer(asked, options, places=options.max_results, seconds=left)
        return replace(
            found,
            results=searching.merged(found.results, passages, options.max_results, sort_by=options.sort_by),
            coverage=found.coverage._replace(
                sessions=said.sessions,
                sessions_read=said.passages_read,
                sessions_unread=said.passages_unread,
            ),
            read=found.read or said.read,
            degraded=(*found.degraded, *_new_messages(said.degraded, found.degraded)),
            notes=tuple(dict.fromkeys((*found.notes, *said.notes))),
        )

    def _with_heard(
        self, found: searching.Answer, asked: searching.Query, options: Options
    ) -> searching.Answer:
        """Return an answer that also has what was heard in sessions, if sessions are searched."""
        caller, settings = self._work.caller, self._work.settings
        if (
            not searching.asks_sessions(asked, options)
            or not settings.capture.hear
            or caller.audience is not Audience.PRIVATE
            or caller.project is None
            or not self._work.home.names(heard.FOLDER, caller.project.id)
        ):
            return found
        from vademecum.search import heard_hits

        days, now = settings.capture.fade_days, self._work.now()
        statements = [
            each
            for each in heard.read_projects(self._work.home, [caller.project.id])
            if each.outcome in heard.UNDECIDED
            and each.agent in ("", settings.agent)
            and not heard.is_faded(each, days=days, now=now)
        ]
        place = Place(Scope.PROJECT, caller.project.id)
        return heard_hits.add_heard(found, asked, options, statements, place=place, line_of=self._line_of)

    def _line_of(self, statement: HeardStatement) -> int:
        """Return the line of the message in which a statement was heard; 1 if its log is gone."""
        mark = json.dumps(statement.place).encode()
        with contextlib.suppress(VadeError):
            for raw in self.transcripts.open(statement.session).raw() if statement.place else ():
                if mark in raw.content[:_HEAD]:
                    return raw.number
        return 1

    def _with_standing(self, found: searching.Answer) -> searching.Answer:
        """Return an answer whose results of the project tell whether the code that they cite has changed."""
        project = self._work.caller.project
        if project is None or not found.results:
            return found
        own = Place(Scope.PROJECT, project.id)
        if not any(each.place == own for each in found.results):
            return found
        from vademecum.search import passages

        results = passages.attach_standing(
            found.results,
            home=self._work.home,
            caller=self._work.caller,
            root=project.root,
            project=own,
        )
        return replace(found, results=results)

    def _sources(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Return the sources to search without repetitions; raise UnknownName for one that does not exist.

        For a group nothing is raised, because an error would reveal which sources exist.
        """
        asked = tuple(dict.fromkeys(searching.readable(str(each)) for each in wanted))
        if set(asked) <= set(sources.KINDS) or self._work.caller.audience is Audience.GROUP:
            return asked
        attached = [each.name for each in sources.visible(self._work.home, self._work.caller)]
        for each in asked:
            if each not in (*sources.KINDS, *attached):
                raise UnknownName(
                    f"{names.shown(each)} is not a source",
                    hint=f"the sources are {', '.join([*sources.KINDS, *attached])}",
                )
        return asked

    def _unknown_to_group(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Return notes that a group sees none of these sources, whether or not they exist."""
        if self._work.caller.audience is not Audience.GROUP:
            return ()
        return tuple(
            f"a group sees no source {names.shown(each)}" for each in wanted if each not in sources.KINDS
        )[: searching.MOST_NOTES]

    def survey(self) -> Survey:
        """Return how much of the files the indexes cover now."""
        found = self.searcher.survey()
        return self.earlier.survey(found) if self._work.home.names("transcripts") else found

    @functools.cached_property
    def earlier(self) -> SessionSearch:
        """The search over earlier sessions."""
        from vademecum.search.session_search import SessionSearch

        return SessionSearch(
            self._work.home,
            self._work.caller,
            self.transcripts,
            name=self._work.settings.agent,
            embedder=self._session_embedder(),
            reader=self._session_reader,
            rerank=self._rerank,
        )

    def _session_reader(self) -> PassageReader | None:
        """Return the reader model for sessions; it has no cache, since texts there would outlive a purge."""
        from vademecum.index import select_reader

        return None if self._reader() is None else select_reader()

    def _session_embedder(self) -> LazyEmbedder:
        """Return the shipped embedder, as sessions stay on this machine; none if words alone are searched."""
        from vademecum.index import LazyEmbedder, lazily_shipped

        settings = self._work.settings
        by_words = not settings.search.hybrid or str(settings.embedder) == "none"
        return LazyEmbedder(None) if by_words else lazily_shipped()

    def newest_logs(self, most: int) -> Iterator[Log]:
        """Yield the logs of up to `most` of the newest sessions of this project and agent."""
        if self._work.caller.project is not None and self._work.home.names("transcripts"):
            for each in [each for each in self.transcripts.list() if not each.trouble][:most]:
                yield self.transcripts.open(each.id)

    def close(self) -> None:
        """Close the indexes of notes and sessions; the next call opens them again."""
        for name in ("searcher", "earlier"):
            if name in self.__dict__:
                self.__dict__[name].close()

    def options(
        self,
        *,
        max_results: int | None = None,
        min_score: float | None = None,
        mode: str | None = None,
        sort_by: str | None = None,
        explain: bool = False,
        whole: bool = False,
    ) -> Options:
        """Return the options of a search: the call's own where given, else those of the settings."""
        from vademecum.search.engine import MODES, MOST_RESULTS, ORDERS, Options
        from vademecum.search.rank import Weights

        if mode is not None and mode not in MODES:
            raise UnknownName(f"{names.shown(mode)} is not a mode", hint=f"the modes are {', '.join(MODES)}")
        if sort_by is not None and sort_by not in ORDERS:
            raise UnknownName(
                f"{names.shown(sort_by)} is not an order", hint=f"the orders are {', '.join(ORDERS)}"
            )
        if min_score is not None and math.isnan(min_score):
            raise UsageError("min_score must be a number")
        own = self._work.settings.search
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
            whole=whole,
            # Ranks have no scale for a part by reading.
            read=mode in (None, "hybrid", "vector") and own.hybrid and str(own.fusion) == "weighted",
        )

    @functools.cached_property
    def _read_by(self) -> PassageReader | None:
        from vademecum.index import select_reader

        settings = self._work.settings
        if not settings.reader_is_shipped:
            return None
        return select_reader(self._work.state, settings.search.cache_max_mb * 1_000_000)

    def _reader(self) -> PassageReader | None:
        """Return the reader model; None where there is none."""
        return self._read_by

    def _embedder(self) -> LazyEmbedder:
        """Return the embedder that the settings name; none if `search.hybrid` is off."""
        from vademecum.index import EmbedderSetting, LazyEmbedder

        own, search = self._work.settings.embed, self._work.settings.search
        if not search.hybrid:
            return LazyEmbedder(None, reason="`search.hybrid` is off")
        return LazyEmbedder(
            EmbedderSetting(
                str(self._work.settings.embedder),
                model=own.model,
                endpoint=own.endpoint,
                path=own.path,
                key_env=own.key_env,
                batch=own.batch,
                timeout=own.timeout,
                state=self._work.state,
                largest=search.cache_max_mb * 1_000_000,
            )
        )


def _falling(found: searching.Answer, options: Options) -> searching.Answer:
    """Return an answer in which no result is more relevant than a result before it.

    If the caller chose an order, nothing changes.
    """
    if found.mode == "metadata" or options.sort_by is not None:
        return found
    relevances = relevance.falling([each.relevance for each in found.results])
    both = zip(found.results, relevances, strict=True)
    return replace(found, results=tuple(each._replace(relevance=round(own, 4)) for each, own in both))


def _new_messages(more: Iterable[str], said: Iterable[str]) -> list[str]:
    """Return the messages in `more`, without that of a failed reranking if `said` has such a message."""
    known = {each.partition(":")[0] for each in said if each.startswith(NOT_RERANKED)}
    return [each for each in more if each.partition(":")[0] not in known]
