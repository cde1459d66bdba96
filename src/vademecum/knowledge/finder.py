"""Finding: questions answered from the index, and lines read by their place."""

from __future__ import annotations

import functools
import math
import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderFailed, UnknownName, UsageError
from vademecum.search import base as searching
from vademecum.search import relevance
from vademecum.search.when import moment_of, times_asked
from vademecum.store import archive, scopes, sources
from vademecum.text import names, outgoing
from vademecum.text.names import parse_type
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from datetime import datetime

    from vademecum.index.embed.base import Embedder, PassageReader
    from vademecum.index.sync import Survey, SyncReport
    from vademecum.knowledge.graph import Sight
    from vademecum.search.engine import Options
    from vademecum.search.rerank import Rerank
    from vademecum.search.searcher import Searcher
    from vademecum.store import Workspace
    from vademecum.store.reading import Text
    from vademecum.transcripts.log import Log
    from vademecum.transcripts.search import Earlier
    from vademecum.transcripts.sessions import Sessions
    from vademecum.types import RecordType

NOT_RERANKED = "not reranked"  # as `search.rerank` tells it
SOURCES, SESSIONS = "sources", "sessions"  # what is read when that is asked for


class Finder:
    """What answers questions in a workspace, from the indexes of its notes and of its sessions."""

    def __init__(self, workspace: Workspace) -> None:
        self._work = workspace

    @functools.cached_property
    def transcripts(self) -> Sessions:
        """The sessions in reach."""
        from vademecum.transcripts.sessions import Sessions

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
        """The edges between what is in sight, kept while no file changes."""
        from vademecum.knowledge.graph import Sight

        return Sight(self._work.records)

    def get(self, target: str | int, *, start: int = 1, lines: int | None = None) -> Text:
        """Lines of a file by its path as shown, or of a record by its key or number; without secrets."""
        from vademecum.store import reading

        if start < 1 or (lines is not None and lines < 0):
            raise UsageError("line numbers start at 1")
        path = str(target)
        if self._work.settings.incognito:
            return reading.Text(path, "")
        with self._work.reported(f"read {path}"):
            if (inside := path.removeprefix(f"{self._work.home.path}/")).startswith("transcripts/"):
                return self.earlier.read(inside, start=start, count=lines)
            if "/" in path or "\\" in path:
                path, content = reading.by_path(self._work.home, self._work.caller, path)
            elif path.endswith(".md"):
                shelf, name, content = self._work.documents.find(path)
                path = shelf.name_of(name)
            else:
                found = self._work.find(path, None)
                path, content = (
                    found.record.path,
                    reading.from_shelf(found.shelf, archive.RECORDS, found.name),
                )
                if found.part and start == 1 and lines is None:  # of a consolidation, what was asked for
                    start = min(entry.start for entry in found.record.entries)
                    lines = max(entry.end for entry in found.record.entries) - start + 1
            return reading.clean_lines_of(path, content, start=start, count=lines)

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
        """What is asked for: the filters in a question, and those of the call before them."""
        # The index has a mark where a secret stood, so a mark finds it; and no note repeats the secret.
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
        at = moment_of(now or self._work.settings.search.now, self._work.now())
        asked = asked._replace(times=times_asked(asked.text, at))
        if asked.scope is not None:
            scopes.place_for(self._work.caller, asked.scope)
        return asked

    def nothing(self) -> searching.Answer:
        """The answer of a session that keeps no memory."""
        return searching.nothing("this session is incognito: nothing is read")

    def answer(
        self, asked: searching.Query, options: Options, *, max_weak: int | None = None
    ) -> searching.Answer:
        """The passages that answer; when every match is weak, at most `max_weak` of them."""
        begun = time.monotonic()
        with self._work.reported("search"):
            found = self._found(asked, options, begun=begun)
            if asked.phrases and not found.results and not self._holds(asked, options):
                asked = searching.without_phrases(asked)
                found = self._found(asked, options, begun=begun)
            if max_weak is None:  # an answer in other words looks weak: what reading put in order is shown
                wanted = options.max_results
                max_weak = wanted if found.read else relevance.most_weak(wanted)
            found = self._with_standing(searching.without_weak(found, max_weak))
            notes = asked.notes if found.mode == "metadata" else (*asked.notes, *asked.times.notes)
            hidden = self._work.hidden_note(self._work.places(asked.scope))
            found = replace(found, degraded=(*found.degraded, *hidden)) if hidden else found
            return replace(found, notes=(*notes, *found.notes)) if notes else found

    def with_related(self, found: searching.Answer, asked: searching.Query) -> searching.Answer:
        """An answer, and behind it what its records are joined to by one edge."""
        from vademecum.knowledge import graph as graphs

        with self._work.reported("follow the edges"):
            graph = self.sight.graph(self._work.places(asked.scope))
        more = graphs.find_related(graph, [each.path for each in found.results])
        passages = (graphs.related_passage(each, asked.as_of) for each in more)
        beside = replace(found, results=tuple(each for each in passages if each is not None))
        return replace(found, results=(*found.results, *self._with_standing(beside).results))

    def index(
        self, *, rebuild: bool, check: bool, progress: Callable[[str, int, int], None] | None
    ) -> SyncReport:
        """Bring both indexes up to date, or make or compare them anew."""
        if rebuild:
            report = self.searcher.rebuild(progress=progress)
            said = self.earlier.rebuild(progress=progress)
        else:
            report = self.searcher.sync(check=check, probe=True, progress=progress)
            said = self.earlier.sync(check=check, progress=progress)
        return said.beside(report)

    def to_read(self, wanted: Iterable[str], *, everything: bool) -> frozenset[str]:
        """What is read beside what is curated; a name that stands for nothing is refused."""
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
        """Have what is curated read, `more` of what there is too, and the report say what is left."""
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
        """The index of this agent and what answers from it."""
        from vademecum.search.searcher import ChunkShape, Searcher

        shape = ChunkShape(self._work.settings.chunk.tokens, self._work.settings.chunk.overlap)
        searcher = Searcher(
            self._work.home,
            self._work.caller,
            choose=self._embedder,
            shape=shape,
            name=self._work.settings.agent,
            state=self._work.state,
            rerank=self._rerank,
            reader=self._reader,
        )
        self._work.listeners.append(searcher.take)
        return searcher

    @functools.cached_property
    def _rerank(self) -> Rerank | None:
        """What looks at the best again, if the settings name anything; one, that rests after a failure."""
        own = self._work.settings.search
        if own.rerank == "none":
            return None
        from vademecum.search.rerank import make_rerank

        return make_rerank(
            own.rerank,
            model=own.rerank_model,
            key_env=own.rerank_key_env,
            seconds=own.rerank_seconds,
            language_model=lambda: self._work.language_model(None),
        )

    def _found(self, asked: searching.Query, options: Options, *, begun: float) -> searching.Answer:
        """What answers in notes and behind them in sessions."""
        if asked.sources == (searching.TRANSCRIPT,):
            found = searching.Answer((), "metadata" if options.mode == "metadata" else "bm25")
        else:
            found = self.searcher.search(asked, options, seconds=self._work.settings.limits.open)
        return self._with_sessions(found, asked, options, begun=begun)

    def _holds(self, asked: searching.Query, options: Options) -> bool:
        """Whether anything holds the phrases asked for, though it may not be relevant enough to be shown."""
        if options.max_results < 1:
            return True
        if options.min_score <= 0:
            return False
        anything = options._replace(min_score=0.0, max_results=1)
        return bool(self._found(asked, anything, begun=time.monotonic()).results)

    def _with_sessions(
        self, found: searching.Answer, asked: searching.Query, options: Options, *, begun: float
    ) -> searching.Answer:
        """An answer with what was said in sessions behind it, in places that it left free or filled badly."""
        strong = sum(each.match != "weak" for each in found.results)
        places = searching.places_left(asked, options, strong)
        if (
            not places
            or self._work.caller.project is None
            or not os.path.isdir(f"{self._work.home.path}/transcripts")
        ):
            return found
        left = self._work.settings.limits.open - (time.monotonic() - begun)
        passages, said = self.earlier.answer(asked, options, places=places, seconds=left)
        free = options.max_results - len(found.results)
        passages = tuple(each for at, each in enumerate(passages) if each.match != "weak" or at < free)
        return replace(
            found,
            results=searching.joined(found, passages, options.max_results),
            coverage=found.coverage._replace(
                sessions=said.sessions,
                sessions_read=said.passages_read,
                sessions_unread=said.passages_unread,
            ),
            read=found.read or said.read,
            degraded=(*found.degraded, *_not_said_yet(said.degraded, found.degraded)),
            notes=tuple(dict.fromkeys((*found.notes, *said.notes))),
        )

    def _with_standing(self, found: searching.Answer) -> searching.Answer:
        """An answer whose hits say how the code they cite stands; nothing is looked at for the others."""
        project = self._work.caller.project
        if project is None or not found.results:
            return found
        own = Place(Scope.PROJECT, project.id)
        if not any(each.place == own for each in found.results):
            return found
        from vademecum.knowledge import citations

        results = citations.attach_standing(
            found.results,
            home=self._work.home,
            caller=self._work.caller,
            root=project.root,
            project=own,
        )
        return replace(found, results=results)

    def _sources(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Sources to look in, each once; one that is not there is refused with those that are."""
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
        """What a group is told of sources it may not know: the same, whether they are there or not."""
        if self._work.caller.audience is not Audience.GROUP:
            return ()
        return tuple(
            f"a group sees no source {names.shown(each)}" for each in wanted if each not in sources.KINDS
        )[: searching.MOST_NOTES]

    def survey(self) -> Survey:
        """What the indexes cover now."""
        found = self.searcher.survey()
        return self.earlier.survey(found) if self._work.home.names("transcripts") else found

    @functools.cached_property
    def earlier(self) -> Earlier:
        """The index of what was said in sessions, and what answers from it."""
        from vademecum.transcripts.search import Earlier

        return Earlier(
            self._work.home,
            self._work.caller,
            self.transcripts,
            name=self._work.settings.agent,
            embedder=self._session_embedder,
            most_bytes=self._work.settings.search.session_vectors_mb * 1_000_000,
            reader=self._session_reader,
            rerank=self._rerank,
        )

    def _session_reader(self) -> PassageReader | None:
        """What reads sessions: the same model, of which nothing is kept that would outlive a purge."""
        from vademecum.index.embed.select import select_reader

        return None if self._reader() is None else select_reader()

    def _session_embedder(self) -> Embedder | None:
        """What makes the vectors of sessions: the shipped model alone, since they are many and go nowhere."""
        from vademecum.index.embed.select import shipped

        settings = self._work.settings
        by_words = not settings.search.hybrid or str(settings.embedder) == "none"
        return None if by_words else shipped()

    def newest_logs(self, most: int) -> Iterator[Log]:
        """The logs of the newest sessions of this project and agent."""
        if self._work.caller.project is not None and self._work.home.names("transcripts"):
            for each in [each for each in self.transcripts.list() if not each.trouble][:most]:
                yield self.transcripts.open(each.id)

    def close(self) -> None:
        """Let go of the index and the counters; the next call opens them again."""
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
    ) -> Options:
        """How to answer: what the call asks for, else the settings."""
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
            # Ranks have no scale that a part could be by reading.
            read=mode in (None, "hybrid", "vector") and own.hybrid and str(own.fusion) == "weighted",
        )

    @functools.cached_property
    def _read_by(self) -> PassageReader | None:
        from vademecum.index.embed.select import select_reader

        settings = self._work.settings
        named = str(settings.embedder) == "local" and not settings.embed.path
        if not named or not settings.search.hybrid:
            return None
        return select_reader(self._work.state, settings.search.cache_max_mb * 1_000_000)

    def _reader(self) -> PassageReader | None:
        """What reads passages and questions: with the models in the package alone, and when none is named."""
        return self._read_by

    def _embedder(self) -> tuple[Embedder | None, str]:
        """What makes vectors, or None and why there is none: words are then all there is to go by."""
        from vademecum.index.embed.select import REMOTE, CircuitBreaker, select_embedder

        own, search = self._work.settings.embed, self._work.settings.search
        if not search.hybrid:
            return None, "`search.hybrid` is off"
        try:
            chosen = select_embedder(
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
        except EmbedderFailed as error:
            return None, str(error)
        # What runs here fails at once; a server that is gone is not waited for at every question.
        if chosen is not None and chosen.provider in REMOTE:
            chosen = CircuitBreaker(chosen)
        return chosen, "no embedder is set"


def _not_said_yet(more: Iterable[str], said: Iterable[str]) -> list[str]:
    """What is to be told beside what is told; that nothing was reranked, once for notes and sessions."""
    known = {each.partition(":")[0] for each in said if each.startswith(NOT_RERANKED)}
    return [each for each in more if each.partition(":")[0] not in known]
