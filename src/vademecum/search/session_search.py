"""Search earlier sessions through an index of their words, which can always be rebuilt.

The index tells where a message is; the text that is shown comes from the log, and only if the log still holds
the indexed text. A filter in each query of the index decides what the caller may see.
"""

from __future__ import annotations

import contextlib
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import IndexFailed, InvalidKey, OutsideMemory, StorageFailed
from vademecum.index import Filter, IndexFile, SqliteIndex, Sync, SyncReport, moment, words
from vademecum.index.embed.base import common_direction, likeness
from vademecum.index.reads import ReadScope
from vademecum.index.sqlite import SESSIONS
from vademecum.search import rank, relevance, session_index
from vademecum.search.base import TRANSCRIPT, Passage
from vademecum.search.conversations import turns_around
from vademecum.search.evidence import OtherTurn
from vademecum.search.legs import Legs, knows_english_only, knows_words, window
from vademecum.search.locking import one_at_a_time
from vademecum.search.question_times import NO_TIMES
from vademecum.search.ranking import Weighing, score_candidates
from vademecum.search.reading import Passages, read_passages
from vademecum.search.session_index import IndexedLog, LogFilter, PieceLocation, SessionIndexReport, path_of
from vademecum.search.session_keywords import Hit, SessionHits
from vademecum.store import FileLines, lookup, reported, scopes
from vademecum.text import names, secrets
from vademecum.text.outgoing import clean_text
from vademecum.transcripts import Log, LogFile, MessageEvent, Role, without_memory_calls
from vademecum.transcripts.events import Started, TornLine
from vademecum.transcripts.events import parse as parse_event
from vademecum.transcripts.events import render as render_event
from vademecum.transcripts.log import clean_event
from vademecum.transcripts.paths import ENDING, FOLDER
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
    from pathlib import Path

    from vademecum.index import (
        ChunkRow,
        Index,
        LazyEmbedder,
        PassageReader,
        Stamp,
        Survey,
    )
    from vademecum.index.embed.base import Vector
    from vademecum.search.base import Query
    from vademecum.search.engine import Options
    from vademecum.search.question_times import TimesAsked
    from vademecum.search.rerank import Rerank
    from vademecum.store import Home
    from vademecum.transcripts import Sessions

    Progress = Callable[[str, int, int], None]

_DEPTH = 200  # candidates at least
_STEP = 50  # candidates that are scored in one step
_NEAREST = 50  # candidates by meaning
_ALIKE = 0.4  # from this similarity on, a message needs no word of the query
_READ_ALIKE = 0.25  # the same for a model that read both texts: nine of ten right messages have more
_IDENTIFIED = 0.7  # the share that a message with an identifier of the question keeps at least
# The exponent by which a tool's output gains if it has more of the question's words than any message.
_OWN_WORDS = 6.0
_OF_USER = 100  # candidates among what the user said, if there are more candidates than are looked at
_WITH_TOOLS = 0.03  # from this share of tool output among the candidates on, they are of work with tools


class _Kind(NamedTuple):
    """What ranking does differently in talk and in work with tools; docs/retrieval.md has the effect.

    `by_speaker` is the share of its score that a message keeps: people look for what was said, and a file
    that a tool printed is in the repository anyway. The trees of the second stage were fitted on talk.
    """

    by_speaker: Mapping[str | None, float]
    vector: float  # the weight of meaning beside words
    staged: bool
    spread: bool  # whether each further message of a session loses a little, since such sessions are long


_TALK = _Kind({Role.USER: 1.0, Role.ASSISTANT: 0.9, Role.TOOL: 0.6}, vector=0.35, staged=True, spread=False)
_WORK = _Kind({Role.USER: 1.0, Role.ASSISTANT: 0.7, Role.TOOL: 0.4}, vector=0.5, staged=False, spread=True)
READ_COMMAND = "vade index --read sessions"
# Tool results are not read by the model: they are not talk, and reading them would take most of the time.
_SAID = ReadScope(speakers=(Role.USER, Role.ASSISTANT))
_MEANING = 0.3  # seconds that a question may spend on missing vectors
# a query with a phrase fetches this many times more messages, and checks the phrase word for word
_STEMMED = 5


class SessionQuery(NamedTuple):
    """A query of sessions: its words, its filters, and the limits of the answer."""

    text: str
    max_results: int
    min_score: float = 0.0
    max_sessions: int | None = None
    after: str | None = None
    before: str | None = None
    as_of: str | None = None
    until: str | None = None
    speakers: tuple[str, ...] = ()
    path: str | None = None
    phrases: tuple[str, ...] = ()  # phrases that a message must contain
    times: TimesAsked = NO_TIMES  # times that a message must mention
    newest: bool = False  # order by time alone, because there is no query text or it does not count
    read: bool = True  # whether a model may read the query when no match is strong
    reranked: bool = True  # whether the best hits may be reranked
    grouped: bool = False  # whether the hits of one session count as one result
    whole: bool = False  # whether messages are returned without cutting their texts


class _LogChanged(Exception):
    """The error that a log no longer holds the indexed text, though its stamp did not change."""

    def __init__(self, row: ChunkRow) -> None:
        super().__init__(row.path)
        self.file = row.file


# Above this size, vectors cost more time than they find.
_MOST_EMBEDDED = 200_000_000  # bytes of a project's transcripts


class SessionSearch:
    """The search over the sessions that a caller can see, with an index that follows their logs."""

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        sessions: Sessions,
        *,
        name: str,
        embedder: LazyEmbedder,
        reader: Callable[[], PassageReader | None] = lambda: None,
        rerank: Rerank | None = None,
    ) -> None:
        self.home, self.caller, self.name = home, caller, name
        self._lazy = embedder
        self._by_meaning = False
        self._reader, self._rerank = reader, rerank
        # the number of passages that a model has read, and the state that it was counted for
        self._read_count: tuple[object, tuple[int, int]] = (None, (0, 0))
        self._mean: Vector | None = None
        self._sessions = sessions
        self._file = IndexFile(home, self.path, SESSIONS)
        self._turn = threading.RLock()

    @property
    def path(self) -> Path:
        """The path of the index file.

        An agent's name has no tilde, so no agent's index of notes can have this path.
        """
        return self.home.path / "index" / f"{names.check_id(self.name, 'an agent')}~sessions.db"

    # ---------------------------------------------------------------- asking

    @one_at_a_time
    def recall(
        self,
        query: Query,
        *,
        max_sessions: int,
        max_results: int,
        min_score: float,
        seconds: float,
        all: bool = False,
    ) -> SessionHits:
        """Return the messages that match a query best, after new messages are indexed.

        A query of filters alone returns the newest messages. With `all`, the sessions of all projects and
        agents are searched. If no message has a quoted phrase, its words are searched.
        """
        filtered = any((query.speakers, query.after, query.before, query.path))
        wanted = SessionQuery(
            query.text,
            max_results,
            min_score,
            max_sessions,
            after=query.after,
            before=query.before,
            until=query.until,
            speakers=query.speakers,
            path=query.path,
            phrases=query.phrases,
            newest=filtered and not query.text,
            times=query.times,
        )
        notes = (*query.notes, *query.times.notes)
        found = _without_weak(self._search(wanted, self._view(all=all), seconds), max_results)
        found = found._replace(notes=(*notes, *found.notes))
        if found.hits or not wanted.phrases:
            return found
        again = self._search(wanted._replace(phrases=()), self._view(all=all), seconds)
        phrases = " and ".join(names.shown(each) for each in wanted.phrases)
        return _without_weak(again, max_results)._replace(
            notes=(*notes, *again.notes),
            degraded=(*again.degraded, f"no message contains the phrase {phrases}; its words were searched"),
        )

    @one_at_a_time
    def answer(
        self, query: Query, options: Options, *, places: int, seconds: float
    ) -> tuple[tuple[Passage, ...], SessionHits]:
        """Return passages of sessions for a search of all memory, and the numbers of what was searched."""
        wanted = SessionQuery(
            query.text,
            places,
            options.min_score,
            after=query.after,
            before=query.before,
            as_of=query.as_of,
            until=query.until,
            speakers=query.speakers,
            path=query.path,
            phrases=words.units(query.text, query.phrases) if options.mode == "metadata" else query.phrases,
            newest=not query.text,
            times=query.times,
            read=options.read,
            reranked=options.mode != "metadata" and options.sort_by is None,
            grouped=True,
            whole=options.whole,
        )
        found = self._search(wanted, self._view(), seconds)
        hits = list(found.hits)
        if options.sort_by == "recency" or options.mode == "metadata":
            hits.sort(key=lambda hit: moment(hit.time) or "", reverse=True)
            hits.sort(key=lambda hit: options.mode != "metadata" and hit.match == relevance.WEAK)
        if options.mode == "vector" and not self._by_meaning:
            found = found._replace(degraded=(*found.degraded, "keywords only: sessions have no vectors"))
        place = scopes.place_for(self.caller, Scope.PROJECT)
        return tuple(passage(hit, place, explain=options.explain) for hit in hits), found

    @one_at_a_time
    def turns(self, lines: Mapping[str, Sequence[int]]) -> dict[str, list[OtherTurn]]:
        """Return, by path, turns of sessions: what the user said, and the turns around the given lines.

        Tool output is left out.
        """
        visible = self._view().filter
        try:
            with self._file.open() as index:
                return {
                    path: [
                        self._other_turn(row)
                        for row in turns_around(index, visible, path, those)
                        if row.speech.speaker != Role.TOOL
                    ]
                    for path, those in lines.items()
                }
        except (IndexFailed, OSError):
            return {}  # the hits are shown without the turns around them

    def _other_turn(self, row: ChunkRow) -> OtherTurn:
        def read() -> str:
            return clean_text(self._piece_text(row))

        return OtherTurn(row.start, row.speech.speaker or "", row.time or "", read)

    def _search(self, wanted: SessionQuery, view: LogFilter, seconds: float) -> SessionHits:
        until = time.monotonic() + seconds
        for last in (False, False, True):
            try:
                followed = self._look(view, until=until)
                if not followed.sessions:
                    return SessionHits((), followed.searched, followed.warnings)
                found = self._ask(wanted, view)
                counted = self._count_read(self._file.open(), view)
                return found._replace(
                    sessions=followed.searched,
                    degraded=(*followed.warnings, *found.degraded),
                    passages_read=counted[0],
                    passages_unread=counted[1],
                )
            except _LogChanged as changed:
                with contextlib.suppress(IndexFailed):  # the next update reports the problem
                    self._file.open().drop([changed.file])
            except (IndexFailed, OSError) as error:
                if last:
                    raise
                self._file.discard(error)
                until = time.monotonic() + seconds  # the whole index must be made again
        return SessionHits((), 0, ("sessions changed during the search; try again",))

    def _ask(self, wanted: SessionQuery, view: LogFilter) -> SessionHits:
        if wanted.max_results < 1:
            return SessionHits()
        filter = view.filter._replace(
            after=wanted.after,
            before=wanted.before,
            as_of=wanted.as_of,
            path=wanted.path,
            until=wanted.until,
            speakers=wanted.speakers,
        )
        if wanted.newest:
            with self._file.open() as index:
                rows = _newest(index, wanted, filter)
            newest = _first_turns((_Scored(row, 0.0, 1.0, 0, exact=False) for row in rows), wanted)
            return SessionHits(tuple(self._hit(each, wanted) for each in newest))
        rerank, most = self._rerank if wanted.reranked else None, wanted.max_results
        if rerank is not None:
            wanted = wanted._replace(max_results=max(most, rerank.most))
        with self._file.open() as index:
            chosen, legs, trouble = self._matching(index, wanted, filter)
        if rerank is not None:
            chosen, problems = self._rerank_hits(rerank, wanted.text, chosen)
            chosen, trouble = _first_turns(chosen, wanted._replace(max_results=most)), (*trouble, *problems)
        hits = tuple(self._hit(each, wanted) for each in chosen)
        notes = legs.notes([hit.preview for hit in hits])
        return SessionHits(hits, degraded=trouble, notes=notes, read=legs.read is not None)

    def _matching(
        self, index: Index, wanted: SessionQuery, filter: Filter
    ) -> tuple[list[_Scored], Legs, tuple[str, ...]]:
        """Return the matching messages with every required phrase, how they were found, and any problems."""
        needed = words.required(wanted.phrases)
        if not needed:
            legs = self._legs(index, wanted, filter)
            best, trouble = self._best(index, wanted, filter, legs)
            return best, legs, trouble
        only = filter._replace(only=tuple(index.match(needed, filter, None, every=True)))
        more = wanted._replace(max_results=wanted.max_results * _STEMMED)
        legs = self._legs(index, more, only)
        best, trouble = self._best(index, more, only, legs)
        # The index holds stems, so the exact phrase is checked in the text.
        holding = (each for each in best if words.holds(self._text(each.row), wanted.phrases))
        return _first_turns(holding, wanted), legs, trouble

    def _rerank_hits(
        self, rerank: Rerank, question: str, chosen: list[_Scored]
    ) -> tuple[list[_Scored], tuple[str, ...]]:
        """Return the messages with the best ones in the reranker's order; each place keeps its old score.

        If there is no new order, return the messages unchanged, with the reason if reranking failed.
        """
        best = chosen[: rerank.most]
        spots = [PieceLocation.of(each.row) for each in best]
        texts = [
            self._text(each.row)[spot.at : spot.at + spot.length]
            for each, spot in zip(best, spots, strict=True)
        ]
        order = rerank.ordered(question, texts)
        if isinstance(order, str):
            return chosen, (order,)
        if not order:
            return chosen, ()
        moved = [
            best[at]._replace(score=best[place].score, reranked=(made, at + 1))
            for place, (at, made) in enumerate(order)
        ]
        return [*moved, *chosen[len(best) :]], ()

    def _legs(self, index: Index, wanted: SessionQuery, filter: Filter) -> Legs:
        """Search for candidates by words, by the times in the query, and by meaning if that is possible.

        Meaning needs vectors, and a model that knows the query's words, unless no message has its words.
        """
        asked = words.terms(wanted.text)
        limit = max(_DEPTH, 8 * wanted.max_results)
        legs = Legs(index, asked)
        legs.has_stems = False
        legs.find_words(filter, limit)
        if len(legs.narrow) >= limit:  # what tools printed may fill all places
            legs.find_more_words(filter._replace(speakers=(Role.USER,)), _OF_USER)
        embedder = self._lazy.embedder if self._by_meaning else None
        legs.unknown = embedder is not None and not knows_words(embedder, wanted.text, asked)
        if embedder is not None and (not legs.narrow or not legs.unknown):
            legs.query = embedder.embed([wanted.text], query=True)[0]
            legs.english_only = knows_english_only(embedder)
            # Only the nearest few match by meaning alone; the others are found by their words.
            legs.find_meaning(filter, _NEAREST, made_by=self._syncing(index, LogFilter()).identity[1] or "")
        if wanted.times.spans:
            legs.mark_all()
            legs.find_times(wanted.times, filter, limit)
        return legs

    def _similarities(self, legs: Legs, ids: Sequence[int]) -> dict[int, float] | None:
        """Return how similar these messages are to the query in meaning; None where that is unknown."""
        embedder = self._lazy.embedder if legs.nearest is not None else None
        if embedder is None or legs.nearest is None:
            return None
        if self._mean is None:
            self._mean = common_direction(embedder)
        known, vectors = legs.nearest.vectors(ids)
        return dict(zip(known, likeness(vectors, legs.query, mean=self._mean).tolist(), strict=True))

    def _best(
        self, index: Index, wanted: SessionQuery, filter: Filter, legs: Legs
    ) -> tuple[list[_Scored], tuple[str, ...]]:
        """Return the messages that match best, and the problems of the model that reads the query."""
        weigh = Weighing(
            wanted.text,
            legs,
            held=lambda rows: _held_by_rows(legs, rows),
            alike=lambda ids: self._similarities(legs, ids),
            kind=lambda: "static",
            whole=False,
        )
        chosen = self._chosen(index, wanted, filter, legs, weigh)
        reader = self._reader() if wanted.read else None
        if reader is None:
            return chosen, ()
        trouble = legs.find_by_reading(
            reader.model,
            wanted.text,
            filter,
            _NEAREST,
            best=lambda: weigh.surest(each.signs for each in chosen if each.signs),
            command=READ_COMMAND,
        )
        return (chosen if legs.read is None else self._chosen(index, wanted, filter, legs, weigh)), trouble

    def _chosen(
        self, index: Index, wanted: SessionQuery, filter: Filter, legs: Legs, weigh: Weighing
    ) -> list[_Scored]:
        """Return the matching messages, best first, from at most `max_sessions` sessions.

        Of messages with the same text, only the best is returned.
        """
        read = {} if legs.read is None else legs.read.cosines
        rows = index.rows({*legs.narrow, *legs.exact, *legs.vector, *legs.timely, *read}, filter)
        _with_sessions_best(legs, rows)
        kind = _kind_of(rows.values())
        weights = rank.Weights(vector=kind.vector, narrow=1 - kind.vector if legs.vector else 1.0, wide=0.0)
        scores, _ = score_candidates(
            legs, wanted.text, fusion="weighted", weights=weights, staged=bool(legs.vector) and kind.staged
        )
        telling = _telling_output(legs, rows)
        for id_, row in rows.items():
            share = kind.by_speaker.get(row.speech.speaker, 1.0)
            share = min(1.0, share * telling.get(id_, 1.0) ** _OWN_WORDS)
            # An identifier may stand in the output of a tool alone.
            scores[id_] *= max(share, _IDENTIFIED) if id_ in legs.certain else share
        if kind.spread:
            scores = dict(rank.spread(scores, {id_: row.mark for id_, row in rows.items()}))
        turns = _Turns(wanted)
        seen: set[object] = set()
        ordered = _ordered(scores, rows)
        for start in range(0, len(ordered), _STEP):
            weighed = weigh({id_: rows[id_] for id_ in ordered[start : start + _STEP]})
            for id_, (weight, signs, words_held) in weighed.items():
                row = rows[id_]
                marks: tuple[object, ...] = ((row.file, row.start), PieceLocation.of(row).digest)
                near = signs.alike >= _ALIKE or read.get(id_, 0.0) >= _READ_ALIKE
                answers = any(words_held) or id_ in legs.exact or near
                if weight < wanted.min_score or not answers or not seen.isdisjoint(marks):
                    continue
                hit = _Scored(row, scores[id_], weight, int(sum(words_held)), id_ in legs.certain, signs)
                if turns.add(hit):
                    seen.update(marks)
                if turns.full:
                    return turns.hits()
        return turns.hits()

    def _hit(self, scored: _Scored, wanted: SessionQuery) -> Hit:
        row, spot = scored.row, PieceLocation.of(scored.row)
        raw_text = self._text(row)
        text = clean_text(raw_text)
        start, end = (spot.at, spot.at + spot.length) if text == raw_text else (0, len(text))
        whole = " ".join(wanted.text.lower().split())
        return Hit(
            row.key or "",
            row.scope_id,
            clean_text(row.title),
            row.speech.speaker or "",
            spot.turn,
            row.start,
            row.time or "",
            text if wanted.whole else window(text, words.terms(wanted.text).words, start=start, end=end),
            round(scored.score, 4),
            scored.word_count,
            scored.exact or bool(whole and whole in " ".join(text.lower().split())),
            round(scored.relevance, 4),
            scored.reranked,
        )

    def _text(self, row: ChunkRow) -> str:
        """Return the text of a message from its log; raise an error if the log has changed there."""
        spot = PieceLocation.of(row)
        try:
            log_file = LogFile(self.home, row.scope_id, row.key or "")
            with reported(f"read the transcript {log_file.path}"):
                file = log_file.open()
                if file is None:
                    raise _LogChanged(row)
                with file:
                    file.seek(spot.start)
                    event = parse_event(file.read(spot.last - spot.start).removesuffix(b"\n"))
        except (OutsideMemory, StorageFailed, InvalidKey) as error:
            raise _LogChanged(row) from error
        if not isinstance(event, MessageEvent):
            raise _LogChanged(row)
        text = session_index.searchable_text(without_memory_calls(event.message))
        # some formats give results no tool name, so the calls before them show which belong to memory
        if not _matches_digest(text, spot):
            open_calls = session_index.open_memory_calls(Log(row.key or "", log_file), spot.start)
            text = session_index.searchable_text(open_calls.without(event.message))
        if not _matches_digest(text, spot):
            raise _LogChanged(row)
        return text

    # ---------------------------------------------------------------- updating the index

    @one_at_a_time
    def sync(self, *, check: bool = False, progress: Progress | None = None) -> SessionIndexReport:
        """Bring the index up to date with the logs of all projects, and report on the logs of this one.

        For a group, only its own sessions are indexed. A broken index is deleted and rebuilt. With `check`,
        logs that are indexed wrongly are indexed again.
        """
        view = self._indexed_logs()
        if not self._has_logs(view) and not self.path.exists():
            return SessionIndexReport()
        try:
            if check:
                self._check(view)
            return self._finished(view, progress)
        except (IndexFailed, OSError) as error:
            self._file.discard(error)
            return self._finished(view, progress)

    def read_said(self, *, most: int | None = None, progress: Progress | None = None) -> int:
        """Let the reader model read the messages of user and assistant, the newest first.

        Return how many passages are left; `most` limits the number of passages.
        """
        reader, view = self._reader(), self._indexed_logs()
        if reader is None or not self.path.exists():
            return 0
        passages = Passages(self._file, self._turn, view.filter, _SAID, self._to_read, self.sync)
        return read_passages(passages, reader, most=most, progress=progress)

    @one_at_a_time
    def unread(self) -> int:
        """Return how many passages the reader model has not read; 0 if it never read any passage."""
        return self._count_read(self._file.open(), self._indexed_logs())[1] if self.path.exists() else 0

    @one_at_a_time
    def rebuild(self, *, progress: Progress | None = None) -> SessionIndexReport:
        """Make a new index from the logs in another file, and replace the old index in one transaction."""
        view = self._indexed_logs()
        if not self._has_logs(view) and not self.path.exists():
            return SessionIndexReport()
        with self._file.rebuilding() as fresh:
            found = session_index.list_logs(self.home, view)
            followed = session_index.update_index(
                self.home, fresh, view, *found, until=None, progress=progress
            )
            if self._has_meaning(found[0].values()):
                self._embed(fresh, view, None, progress)
            for others in self._other_projects():
                logs = session_index.list_logs(self.home, others)
                session_index.update_index(self.home, fresh, others, *logs, until=None, progress=progress)
                if self._has_meaning(logs[0].values()):
                    self._embed(fresh, others, None, progress)
            fresh.put(last=True)
        return followed

    @one_at_a_time
    def survey(self, notes: Survey) -> Survey:
        """Add the sessions to the survey of notes and return it, without changing the index."""
        view = self._indexed_logs()
        there, wrong = session_index.list_logs(self.home, view)
        known: dict[session_index.Key, IndexedLog] = {}
        if self.path.exists():
            try:
                with contextlib.closing(SqliteIndex(self.path, SESSIONS)) as index:
                    known = session_index.logs_in(index, view.projects)
                    notes.sessions_unread = self._count_read(index, view)[1]
            except IndexFailed as error:
                notes.trouble = notes.trouble or str(error)
        session_index.survey(view, there, wrong, known=known, into=notes)
        return notes

    @one_at_a_time
    def close(self) -> None:
        """Close the index file; the next query opens it again."""
        self._file.close()

    def _finished(self, view: LogFilter, progress: Progress | None) -> SessionIndexReport:
        followed = self._look(view, until=None, progress=progress)
        for others in self._other_projects():
            self._look(others, until=None, progress=progress)
        if self.path.exists():
            self._file.open().put(last=True)
        return followed

    def _has_logs(self, view: LogFilter) -> bool:
        """Whether there is a log that the index should cover."""
        return any(session_index.list_logs(self.home, each)[0] for each in (view, *self._other_projects()))

    def _other_projects(self) -> tuple[LogFilter, ...]:
        """Return the filter for the logs of this agent in all projects, which a search with `all` asks for.

        A group has none: it searches its own sessions only.
        """
        private = self.caller.audience is Audience.PRIVATE
        return (LogFilter(agent=self.caller.agent or ""),) if private else ()

    def _look(
        self, view: LogFilter, *, until: float | None, progress: Progress | None = None
    ) -> SessionIndexReport:
        """Index the new lines of the logs in `view` and make missing vectors, until the moment `until`."""
        listed, wrong = session_index.list_logs(self.home, view)
        if not listed and not wrong and not self.path.exists():
            return SessionIndexReport()  # there are no sessions, so no index file is made
        index = self._file.open()
        index.patience = None if until is None else max(until - time.monotonic(), 0.05)
        try:
            followed = session_index.update_index(
                self.home, index, view, listed, wrong, until=until, progress=progress
            )
            self._by_meaning = self._has_meaning(listed.values())
            if self._by_meaning and not followed.pending:
                self._embed(index, view, until, progress)
        finally:
            index.patience = None
        return followed._replace(degraded=tuple(self._file.told), unwritten=self._file.unwritten)

    def _has_meaning(self, stamps: Iterable[Stamp]) -> bool:
        """Whether there is an embedder, and sessions are small enough to be searched by meaning."""
        return 0 < sum(each.size for each in stamps) <= _MOST_EMBEDDED and self._lazy.embedder is not None

    def _syncing(self, index: Index, view: LogFilter, progress: Progress | None = None) -> Sync:
        return Sync(index, view.filter, embedder=self._lazy, progress=progress, text_of=self._piece_text)

    def _embed(self, index: Index, view: LogFilter, until: float | None, progress: Progress | None) -> None:
        """Make the missing vectors of messages; during a query, only for a short time."""
        syncing, report = self._syncing(index, view, progress), SyncReport()
        syncing.renew(report, vectors=True)
        syncing.embed(report, None if until is None else min(until, time.monotonic() + _MEANING))

    def _piece_text(self, row: ChunkRow) -> str:
        """Return the text of a piece of a message; '' when its log has changed."""
        spot = PieceLocation.of(row)
        try:
            return self._text(row)[spot.at : spot.at + spot.length]
        except _LogChanged:
            return ""

    def _to_read(self, row: ChunkRow) -> str | None:
        """Return the text of a piece for the reader model.

        When the log has changed, remove the log from the index and return None.
        """
        spot = PieceLocation.of(row)
        try:
            return self._text(row)[spot.at : spot.at + spot.length]
        except _LogChanged as changed:
            with self._turn:
                self._file.open().drop([changed.file])
            return None

    def _count_read(self, index: SqliteIndex, view: LogFilter) -> tuple[int, int]:
        """Return how many pieces of messages the model has read, and how many not; zeros before the first."""
        reader = self._reader()
        if reader is None or index.reads.made_by() is None:
            return 0, 0
        stats = index.stats()
        state = (stats.version, stats.settings.get("made"), view)
        if self._read_count[0] != state:
            total, unread = index.reads.count(view.filter, made_by=reader.model.identity, wanted=_SAID)
            self._read_count = state, (total - unread, unread)
        return self._read_count[1]

    def _check(self, view: LogFilter) -> None:
        """Compare the index with the logs; a log that is indexed wrongly is removed and indexed again."""
        index = self._file.open()
        problems = index.check()
        if problems:
            raise IndexFailed(f"the sessions' index is damaged: {problems[0]}")
        listed, _ = session_index.list_logs(self.home, view)
        known = session_index.logs_in(index, view.projects)
        wrong_ids = [
            log.id
            for key, log in known.items()
            if key in listed and not session_index.is_indexed_correctly(self.home, index, log)
        ]
        if wrong_ids:
            index.drop(wrong_ids)
            count = f"{len(wrong_ids)} {'session' if len(wrong_ids) == 1 else 'sessions'}"
            self._file.trouble.append(f"the index was missing content of {count}; indexed again")

    # ---------------------------------------------------------------- visibility

    def _view(self, *, all: bool = False) -> LogFilter:
        if all:
            return LogFilter()
        place = scopes.place_for(self.caller, Scope.PROJECT)
        scope_folders = scopes.scope_folders(self.home, self.caller, place)
        projects = dict.fromkeys(
            [place.id, *(scope_folder.parts[-1] for scope_folder in scope_folders if not scope_folder.shared)]
        )
        if self.caller.audience is Audience.PRIVATE:
            return LogFilter(tuple(projects), self.caller.agent or "")
        own = tuple(each.id for each in self._sessions.list() if not each.trouble)
        return LogFilter(tuple(projects), self.caller.agent or "", own)

    def _indexed_logs(self) -> LogFilter:
        """Return the filter for the logs that the index covers; without a project, for no logs."""
        return LogFilter((), "") if self.caller.project is None else self._view()

    def read(self, path: str, *, start: int = 1, count: int | None = None) -> FileLines:
        """Return lines of the log with this path, without secrets.

        A log that the caller may not see counts as missing.
        """
        top, _, rest = path.partition("/")
        project, _, name = rest.partition("/")
        session = name.removesuffix(ENDING)
        refused = OutsideMemory(f"{names.shown(path)} is not a file of this memory")
        view = LogFilter(()) if self.caller.project is None else self._view()
        if top != FOLDER or not name.endswith(ENDING) or project not in (view.projects or ()):
            raise refused
        try:
            log_file = LogFile(self.home, project, session)
            started = next(session_index.start_events(Log(session, log_file)), Started())
        except InvalidKey as error:
            raise refused from error
        visible = view.allows(IndexedLog(project, session, started.agent, started.audience))
        file = log_file.open() if visible else None
        if file is None:
            raise refused
        with file:
            found = lookup.streamed(path, file, start=start, count=count)
        return replace(found, text="\n".join(map(_clean_line, found.text.split("\n"))))


def _without_weak(found: SessionHits, wanted: int) -> SessionHits:
    """Return the messages that were found, none more relevant than one before it; only a few if all are weak.

    Messages that the reader model ordered look weak but are all returned.
    """
    relevances = relevance.falling([hit.relevance for hit in found.hits])
    hits = tuple(hit._replace(relevance=own) for hit, own in zip(found.hits, relevances, strict=True))
    most = relevance.most_weak(wanted)
    if found.read or len(hits) <= most or any(hit.match != relevance.WEAK for hit in hits):
        return found._replace(hits=hits)
    return found._replace(hits=hits[:most], notes=(*found.notes, *relevance.only_weak(len(hits), most)))


def passage(hit: Hit, place: Place, *, explain: bool = False) -> Passage:
    """Return a message that was found as a passage for a search of all memory; its origin is a tool."""
    return Passage(
        path_of((hit.project, hit.session)),
        hit.line,
        hit.line,
        hit.preview,
        hit.score,
        hit.relevance,
        TRANSCRIPT,
        place,
        {"keywords": hit.score},
        hit.title,
        time=hit.time or None,
        origin="tool",
        arithmetic=_score_parts(hit) if explain else None,
        role=hit.role,
    )


def _score_parts(hit: Hit) -> dict[str, float]:
    parts = {"words": float(hit.keyword_hits), "turn": float(hit.turn)}
    if hit.reranked is not None:
        parts |= {"reranked": hit.reranked[0], "place_before": hit.reranked[1]}
    return parts


# -------------------------------------------------------------------- scores


class _Scored(NamedTuple):
    row: ChunkRow
    score: float
    relevance: float
    word_count: int  # words of the query that it contains
    exact: bool
    signs: relevance.Signs | None = None
    reranked: tuple[float, int] | None = None


def _first_turns(hits: Iterable[_Scored], wanted: SessionQuery) -> list[_Scored]:
    """Return the hits that fill the places of an answer."""
    turns = _Turns(wanted)
    for hit in hits:
        turns.add(hit)
    return turns.hits()


class _Turns:
    """The hits that an answer takes, the best first, until its places are filled.

    With `grouped`, the first hits of one session take one place together, as in `rank.take_turns`; further
    hits fill places that nothing else takes.
    """

    def __init__(self, wanted: SessionQuery) -> None:
        self._wanted = wanted
        self._each = rank.most_of_one(wanted.max_results) if wanted.grouped else 0
        self._sessions: dict[int, int] = {}
        self._first: list[tuple[int, _Scored]] = []
        self._later: list[tuple[int, _Scored]] = []
        self._count = self._places = 0
        self.full = False

    def add(self, hit: _Scored) -> bool:
        """Take the next best hit if there is a place for it; return whether it was taken."""
        seen = self._sessions.get(hit.row.file, 0)
        most = self._wanted.max_sessions
        if not seen and most is not None and len(self._sessions) >= most:
            return False
        self._count += 1
        shares = self._wanted.grouped and seen > 0
        if shares and seen >= self._each:
            self._later.append((self._count, hit))
            return True
        if not shares:
            if self._places >= self._wanted.max_results:
                self.full = True
                return False
            self._places += 1
        self._sessions[hit.row.file] = seen + 1
        self._first.append((self._count, hit))
        self.full = not self._wanted.grouped and self._places >= self._wanted.max_results
        return True

    def hits(self) -> list[_Scored]:
        """Return the hits that got a place, best first; further hits of a session fill what is left."""
        left = self._wanted.max_results - self._places
        return [hit for _, hit in sorted([*self._first, *self._later[:left]], key=lambda each: each[0])]


def _kind_of(rows: Collection[ChunkRow]) -> _Kind:
    """Return whether these candidates are talk, or work in which tools printed much."""
    printed = sum(row.speech.speaker == Role.TOOL for row in rows)
    return _WORK if printed >= max(1, _WITH_TOOLS * len(rows)) else _TALK


def _telling_output(legs: Legs, rows: Mapping[int, ChunkRow]) -> dict[int, float]:
    """Return the outputs of tools that have more of the question's words than any message.

    The values are their BM25 divided by that of the best message.
    """
    said = {id_ for id_, row in rows.items() if row.speech.speaker != Role.TOOL}
    best = max((legs.narrow.get(id_, 0.0) for id_ in said), default=0.0)
    above = {id_ for id_ in rows.keys() - said if legs.narrow.get(id_, 0.0) > best > 0.0}
    if not above:
        return {}
    held = _held_by_rows(legs, {id_: rows[id_] for id_ in said | above})
    most = max(sum(held[id_]) for id_ in said)
    return {id_: legs.narrow[id_] / best for id_ in above if sum(held[id_]) > most}


def _newest(index: Index, wanted: SessionQuery, filter: Filter) -> list[ChunkRow]:
    """Return messages by time alone, the newest first; a message in several pieces counts once."""
    limit = wanted.max_results
    while True:
        ids = index.match((), filter, limit)
        rows = index.rows(ids)
        pieces = sorted((rows[id_] for id_ in ids), key=lambda row: row.order)
        firsts = {(row.file, row.start): row.id for row in reversed(pieces)}
        chosen = [rows[id_] for id_ in ids if firsts[rows[id_].file, rows[id_].start] == id_]
        if len(chosen) >= wanted.max_results or len(ids) < limit:
            return chosen[: wanted.max_results]
        limit *= 4


def _held_by_rows(legs: Legs, rows: Mapping[int, ChunkRow]) -> dict[int, list[bool]]:
    """Return which words of the question each row holds; the index of sessions stores no stems of rows."""
    these = Filter(only=tuple(rows))  # a filter allowed these rows already
    holding = [legs.holders(word, these) for word in legs.asked.words]
    return {id_: [id_ in having for having in holding] for id_ in rows}


def _with_sessions_best(legs: Legs, rows: Mapping[int, ChunkRow]) -> None:
    """Store in `legs` what ranking needs of each candidate; a session gets the score of its best piece."""
    legs.marks = {id_: row.mark for id_, row in rows.items()}
    for id_, (file, order, *_) in legs.marks.items():
        own = legs.own[file, order] = legs.narrow.get(id_, 0.0)
        legs.wide[file] = max(legs.wide.get(file, 0.0), own)


def _ordered(scores: dict[int, float], rows: dict[int, ChunkRow]) -> list[int]:
    """Return the ids in the order of their scores, the best first.

    Among equals, the newest session comes first, and within a session the last line.
    """

    def place(id_: int) -> tuple[float, str, str, str, int, int]:
        row = rows[id_]
        return round(scores[id_], 9), row.updated or "", row.scope_id, row.key or "", row.start, -row.order

    return sorted(rows, key=place, reverse=True)


def _matches_digest(text: str, spot: PieceLocation) -> bool:
    return session_index.digest(text[spot.at : spot.at + spot.length]) == spot.digest


def _clean_line(line: str) -> str:
    """Return a line of a log without secrets; a line that is no readable event is treated as plain text."""
    if not any(secrets.clues(line)):
        return line
    event = parse_event(line.encode(errors="replace"))
    return clean_text(line) if isinstance(event, TornLine) else render_event(clean_event(event)).decode()
