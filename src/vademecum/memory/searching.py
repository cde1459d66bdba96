"""Finding: questions answered from the index, and lines read by their place."""

from __future__ import annotations

import functools
import math
import os
import time
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderFailed, UnknownName, UsageError
from vademecum.lazy import LazyModule
from vademecum.memory.base import Base
from vademecum.store import archive, names, outgoing, scopes
from vademecum.store.records import parse_type
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Self

    from vademecum.index.embed.base import Embedder
    from vademecum.index.sync import Survey, SyncReport
    from vademecum.knowledge import citations
    from vademecum.knowledge import graph as graphs
    from vademecum.search import answer as answering
    from vademecum.search import query as querying
    from vademecum.search.engine import Options
    from vademecum.search.searcher import Searcher
    from vademecum.store import purge as purging
    from vademecum.store import reading, retries, sources
    from vademecum.transcripts.search import Earlier
    from vademecum.types import RecordType
else:
    retries = LazyModule("vademecum.store.retries")
    graphs = LazyModule("vademecum.knowledge.graph")
    citations = LazyModule("vademecum.knowledge.citations")
    purging = LazyModule("vademecum.store.purge")
    answering = LazyModule("vademecum.search.answer")
    querying = LazyModule("vademecum.search.query")
    reading = LazyModule("vademecum.store.reading")
    sources = LazyModule("vademecum.store.sources")


class Searching(Base):
    """Finding, as a part of `Memory`."""

    def notes_of_today(self, *, scope: str | Scope = Scope.PROJECT) -> reading.Text:
        """Today's journal, by the local date."""
        place = scopes.journal_place(self.caller, scopes.parse_scope(scope))
        shelf = self.journal.shelves(place)[0]
        return self.get(shelf.name_of(archive.JOURNAL, f"{self.now():%Y-%m-%d}.md"))

    def get(self, target: str | int, *, start: int = 1, lines: int | None = None) -> reading.Text:
        """Lines of a file by its path as shown, or of a record by its key or number; without secrets."""
        if start < 1 or (lines is not None and lines < 0):
            raise UsageError("lines are counted from 1")
        path = str(target)
        if self.settings.incognito:
            return reading.Text(path, "")
        with self._reported(f"read {path}"):
            if (inside := path.removeprefix(f"{self.home.path}/")).startswith("transcripts/"):
                return self._earlier.read(inside, start=start, count=lines)
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
                if found.part and start == 1 and lines is None:  # of a consolidation, what was asked for
                    start = min(entry.start for entry in found.record.entries)
                    lines = max(entry.end for entry in found.record.entries) - start + 1
            return reading.clean_lines_of(path, content, start=start, count=lines)

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
        max_weak: int = 3,
    ) -> answering.Answer:
        """The passages that answer a question, from everything in sight, with what was covered.

        When every match is weak, at most `max_weak` are returned.
        """
        if self.settings.incognito:
            return answering.nothing("this session is incognito: nothing is read")
        # The index has a mark where a secret stood, so a mark finds it; and no note repeats the secret.
        asked = querying.parse(outgoing.clean_text(str(query)))
        moment = None if as_of is None else querying.as_of(as_of)
        wanted = self._sources(sources)
        asked = (
            asked._replace(
                scope=self._scope(scope) or asked.scope,
                type=asked.type if type is None else str(parse_type(type)),
                sources=wanted,
                notes=(*asked.notes, *self._unknown_to_group(wanted)),
                as_of=moment,
            )
            if (scope or type or wanted or as_of)
            else asked
        )
        if asked.scope is not None:
            scopes.place_for(self.caller, asked.scope)
        options = self._options(
            max_results=max_results, min_score=min_score, mode=mode, sort_by=sort_by, explain=explain
        )
        begun = time.monotonic()
        with self._reported("search"):
            found = self._found(asked, options, begun=begun)
            if asked.phrases and not found.results and not self._holds(asked, options):
                asked = querying.without_phrases(asked)
                found = self._found(asked, options, begun=begun)
            found = self._with_standing(answering.without_weak(found, max_weak))
            return found._replace(notes=(*asked.notes, *found.notes)) if asked.notes else found

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

        With `include_related`, behind them what they are joined to by one edge: at most three for each and
        five in all, beyond the limit, each with what it is `related` to.
        """
        found = self.search(
            query,
            max_results=limit,
            mode=mode,
            scope=scope,
            type=type,
            sources=("memory",),
            as_of=as_of,
            sort_by=sort_by,
        )
        if not include_related or not found.results or self.settings.incognito:
            return found
        places = self._places(scope or querying.parse(str(query)).scope, all=False)
        moment = None if as_of is None else querying.as_of(as_of)
        with self._reported("follow the edges"):
            graph = self._sight.graph(places)
        more = graphs.find_related(graph, [each.path for each in found.results])
        passages = (graphs.related_passage(each, moment) for each in more)
        beside = found._replace(results=tuple(each for each in passages if each is not None))
        return found._replace(results=(*found.results, *self._with_standing(beside).results))

    def index(
        self,
        *,
        rebuild: bool = False,
        check: bool = False,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> SyncReport:
        """Bring the index of notes and that of sessions up to date, or make or compare them anew."""
        self._may_write()
        with self._reported("index"):
            if rebuild:
                report = self.searcher.rebuild(progress=progress)
                said = self._earlier.rebuild(progress=progress)
            else:
                report = self.searcher.sync(check=check, probe=True, progress=progress)
                said = self._earlier.sync(check=check, progress=progress)
        return said.beside(report)

    @functools.cached_property
    def searcher(self) -> Searcher:
        """The index of this agent and what answers from it."""
        from vademecum.search.searcher import ChunkShape, Searcher

        shape = ChunkShape(self.settings.chunk.tokens, self.settings.chunk.overlap)
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

    def _found(self, asked: querying.Query, options: Options, *, begun: float) -> answering.Answer:
        """What answers in notes and behind them in sessions."""
        if asked.sources == (answering.TRANSCRIPT,):
            found = answering.Answer((), "metadata" if options.mode == "metadata" else "bm25")
        else:
            found = self.searcher.search(asked, options, seconds=self.settings.limits.open)
        return self._with_sessions(found, asked, options, begun=begun)

    def _holds(self, asked: querying.Query, options: Options) -> bool:
        """Whether anything holds the phrases asked for, though it may not be relevant enough to be shown."""
        if options.max_results < 1:
            return True
        if options.min_score <= 0:
            return False
        anything = options._replace(min_score=0.0, max_results=1)
        return bool(self._found(asked, anything, begun=time.monotonic()).results)

    def _with_sessions(
        self, found: answering.Answer, asked: querying.Query, options: Options, *, begun: float
    ) -> answering.Answer:
        """An answer with what was said in sessions behind it, in places that it left free or filled badly."""
        strong = sum(each.match != "weak" for each in found.results)
        places = answering.places_left(asked, options, strong)
        if not places or self.caller.project is None or not os.path.isdir(f"{self.home.path}/transcripts"):
            return found
        left = self.settings.limits.open - (time.monotonic() - begun)
        passages, said = self._earlier.answer(asked, options, places=places, seconds=left)
        free = options.max_results - len(found.results)
        passages = tuple(each for at, each in enumerate(passages) if each.match != "weak" or at < free)
        return found._replace(
            results=answering.joined(found, passages, options.max_results),
            coverage=found.coverage._replace(sessions=said.sessions),
            degraded=(*found.degraded, *said.degraded),
        )

    def _with_standing(self, found: answering.Answer) -> answering.Answer:
        """An answer whose hits say how the code they cite stands; nothing is looked at for the others."""
        project = self.caller.project
        if project is None or not found.results:
            return found
        own = Place(Scope.PROJECT, project.id)
        if not any(each.place == own for each in found.results):
            return found
        results = citations.attach_standing(
            found.results, home=self.home, caller=self.caller, root=project.root, project=own
        )
        return found._replace(results=results)

    def _sources(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """Sources to look in, each once; one that is not there is refused with those that are."""
        asked = tuple(dict.fromkeys(querying.readable(str(each)) for each in wanted))
        if set(asked) <= set(sources.KINDS) or self.caller.audience is Audience.GROUP:
            return asked
        attached = [each.name for each in sources.visible(self.home, self.caller)]
        for each in asked:
            if each not in (*sources.KINDS, *attached):
                raise UnknownName(
                    f"{names.shown(each)} is not a source",
                    hint=f"the sources are {', '.join([*sources.KINDS, *attached])}",
                )
        return asked

    def _unknown_to_group(self, wanted: Iterable[str]) -> tuple[str, ...]:
        """What a group is told of sources it may not know: the same, whether they are there or not."""
        if self.caller.audience is not Audience.GROUP:
            return ()
        return tuple(
            f"a group sees no source {names.shown(each)}" for each in wanted if each not in sources.KINDS
        )[: querying.MOST_NOTES]

    def _survey(self) -> Survey:
        """What the indexes cover now."""
        found = self.searcher.survey()
        return self._earlier.survey(found) if self.home.names("transcripts") else found

    @functools.cached_property
    def _earlier(self) -> Earlier:
        """The index of what was said in sessions, and what answers from it."""
        from vademecum.transcripts.search import Earlier

        return Earlier(self.home, self.caller, self.transcripts, name=self.settings.agent)

    def close(self) -> None:
        """Let go of the index and the counters; the next call opens them again."""
        if "searcher" in self.__dict__:
            self.searcher.close()
        if "_earlier" in self.__dict__:
            self._earlier.close()
        if "_state" in self.__dict__:
            self._state.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

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
        retries.clear(self.home)

    def _embedder(self) -> tuple[Embedder | None, str]:
        """What makes vectors, or None and why there is none: words are then all there is to go by."""
        from vademecum.index.embed.circuit_breaker import CircuitBreaker
        from vademecum.index.embed.select import REMOTE, select_embedder

        own, search = self.settings.embed, self.settings.search
        if not search.hybrid:
            return None, "`search.hybrid` is off"
        try:
            chosen = select_embedder(
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
        return CircuitBreaker(
            chosen
        ) if chosen and chosen.provider in REMOTE else chosen, "no embedder is set"
