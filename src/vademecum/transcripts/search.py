"""What was said in earlier sessions, found again through an index of its words that can be thrown away.

The index says where something was said; what is shown comes from the log itself, and only if that still says
what was taken in. Who may see what is one condition inside the question.
"""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import IndexFailed, InvalidKey, OutsideMemory, StorageFailed
from vademecum.index import words
from vademecum.index.corpus import moment
from vademecum.index.embed.base import common_direction, likeness
from vademecum.index.reads import ToRead
from vademecum.index.sqlite import SESSIONS, SqliteIndex
from vademecum.index.sync import Sync, SyncReport
from vademecum.index.upkeep import IndexFile, in_turn
from vademecum.search import rank, relevance
from vademecum.search.base import TRANSCRIPT, Passage, readable
from vademecum.search.legs import Legs, knows_english_only, knows_words, window
from vademecum.search.reading import Passages, read_passages
from vademecum.search.when import NO_TIMES, times_asked
from vademecum.store import files, reading, scopes
from vademecum.text import WORD, names, secrets
from vademecum.text.outgoing import clean_text
from vademecum.transcripts import Role, without_own
from vademecum.transcripts import sync as following
from vademecum.transcripts.events import Said, Started, Torn
from vademecum.transcripts.events import parse as parse_event
from vademecum.transcripts.events import render as render_event
from vademecum.transcripts.log import ENDING, FOLDER, Log, OnDisk, clean_event
from vademecum.transcripts.sessions import Hit, Recalled
from vademecum.transcripts.sync import Followed, FollowedLog, Spot, View, path_of
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from vademecum.index.base import ChunkRow, Filter, Index, Stamp
    from vademecum.index.embed.base import Embedder, PassageReader, Vector
    from vademecum.index.sync import Survey
    from vademecum.index.words import QuestionCues
    from vademecum.search.base import Query
    from vademecum.search.engine import Options
    from vademecum.search.rerank import Rerank
    from vademecum.search.when import TimesAsked
    from vademecum.store import Home
    from vademecum.transcripts.sessions import Sessions

    Progress = Callable[[str, int, int], None]

_DEPTH = 200  # candidates at least
_STEP = 50  # candidates that are weighed at once
_NEAREST = 50  # candidates by meaning
_VECTOR = 0.35  # what meaning counts beside words, as among notes
_ALIKE = 0.4  # a likeness from which on a message needs no word of the question
_READ_ALIKE = 0.25  # the same for a model that read both: nine of ten right ones have more
READ_COMMAND = "vade index --read sessions"
# What tools gave back is no talk, and would take most of the time.
_SAID = ToRead(speakers=(Role.USER, Role.ASSISTANT))
_MEANING = 0.3  # seconds that a question may spend on missing vectors
_STEMMED = 5  # times as many messages as wanted, among which a phrase is looked for word for word


class SessionQuestion(NamedTuple):
    """What is asked of the sessions."""

    text: str
    max_results: int
    min_score: float = 0.0
    max_sessions: int | None = None
    after: str | None = None
    before: str | None = None
    as_of: str | None = None
    path: str | None = None
    phrases: tuple[str, ...] = ()  # that a message must hold
    times: TimesAsked = NO_TIMES  # that it speaks of
    newest: bool = False  # by time alone: nothing is asked, or it does not count
    read: bool = True  # whether it may be read when no match is strong
    reranked: bool = True  # whether the best may be put in another order


class _Changed(Exception):
    """A log is no longer what was taken in, though nothing showed it."""

    def __init__(self, row: ChunkRow) -> None:
        super().__init__(row.path)
        self.file = row.file


class Earlier:
    """The sessions that a caller can see, followed and searched."""

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        sessions: Sessions,
        *,
        name: str,
        embedder: Callable[[], Embedder | None] = lambda: None,
        most_bytes: int = 0,
        reader: Callable[[], PassageReader | None] = lambda: None,
        rerank: Rerank | None = None,
    ) -> None:
        self.home, self.caller, self.name = home, caller, name
        self._embedder, self._most_bytes = embedder, most_bytes  # of logs that are searched by meaning
        self._by_meaning = False
        self._reader, self._rerank = reader, rerank
        self._read_count: tuple[object, tuple[int, int]] = (None, (0, 0))  # how much is read, and of what
        self._mean: Vector | None = None
        self._sessions = sessions
        self._file = IndexFile(home, self.path, SESSIONS)
        self._turn = threading.RLock()

    @property
    def path(self) -> Path:
        """The file; no agent's name has a tilde, so that it is never the notes' index of another."""
        return self.home.path / "index" / f"{names.check_id(self.name, 'an agent')}~sessions.db"

    # ---------------------------------------------------------------- asking

    @in_turn
    def recall(
        self,
        query: str,
        *,
        max_sessions: int,
        max_results: int,
        min_score: float,
        seconds: float,
        all: bool = False,
        now: datetime,
    ) -> Recalled:
        """The messages that answer best, from so many sessions at most, after a look at what is new."""
        text = readable(query)
        wanted = SessionQuestion(
            text,
            max_results,
            min_score,
            max_sessions,
            phrases=words.phrases_in(text),
            times=times_asked(text, now),
        )
        found = _without_weak(self._recalled(wanted, self._view(all=all), seconds), max_results)
        found = found._replace(notes=(*wanted.times.notes, *found.notes))
        if found.hits or not wanted.phrases:
            return found
        again = self._recalled(wanted._replace(phrases=()), self._view(all=all), seconds)
        said = " and ".join(names.shown(each) for each in wanted.phrases)
        return _without_weak(again, max_results)._replace(
            notes=(*wanted.times.notes, *again.notes),
            degraded=(*again.degraded, f"no message contains the phrase {said}; its words were searched"),
        )

    @in_turn
    def answer(
        self, query: Query, options: Options, *, places: int, seconds: float
    ) -> tuple[tuple[Passage, ...], Recalled]:
        """Passages for a search of everything, and what was covered to find them."""
        wanted = SessionQuestion(
            query.text,
            places,
            options.min_score,
            after=query.after,
            before=query.before,
            as_of=query.as_of,
            path=query.path,
            phrases=words.units(query.text, query.phrases) if options.mode == "metadata" else query.phrases,
            newest=not query.text,
            times=query.times,
            read=options.read,
            reranked=options.mode != "metadata" and options.sort_by is None,
        )
        found = self._recalled(wanted, self._view(), seconds)
        hits = list(found.hits)
        if options.sort_by == "recency" or options.mode == "metadata":
            hits.sort(key=lambda hit: moment(hit.time) or "", reverse=True)
        if options.mode == "vector" and not self._by_meaning:
            found = found._replace(degraded=(*found.degraded, "keywords only: sessions have no vectors"))
        place = scopes.place_for(self.caller, Scope.PROJECT)
        return tuple(passage(hit, place, explain=options.explain) for hit in hits), found

    def _recalled(self, wanted: SessionQuestion, view: View, seconds: float) -> Recalled:
        until = time.monotonic() + seconds
        for last in (False, False, True):
            try:
                followed = self._look(view, until=until)
                if not followed.sessions:
                    return Recalled((), followed.searched, followed.said)
                found = self._ask(wanted, view)
                counted = self._how_much_read(self._file.open(), view)
                return found._replace(
                    sessions=followed.searched,
                    degraded=(*followed.said, *found.degraded),
                    passages_read=counted[0],
                    passages_unread=counted[1],
                )
            except _Changed as changed:
                with contextlib.suppress(IndexFailed):  # the next look tells of it
                    self._file.open().drop([changed.file])
            except (IndexFailed, OSError) as error:
                if last:
                    raise
                self._file.begin_anew(error)
                until = time.monotonic() + seconds  # all has to be read again
        return Recalled((), 0, ("sessions changed during the search; try again",))

    def _ask(self, wanted: SessionQuestion, view: View) -> Recalled:
        if wanted.max_results < 1:
            return Recalled()
        filter = view.filter._replace(
            after=wanted.after, before=wanted.before, as_of=wanted.as_of, path=wanted.path
        )
        if wanted.newest:
            with self._file.open() as index:
                rows = _newest(index, wanted, filter)
            return Recalled(tuple(self._hit(_Scored(row, 0.0, 1.0, 0, exact=False), wanted) for row in rows))
        rerank, most = self._rerank if wanted.reranked else None, wanted.max_results
        if rerank is not None:
            wanted = wanted._replace(max_results=max(most, rerank.most))
        with self._file.open() as index:
            chosen, legs, trouble = self._answering(index, wanted, filter)
        if rerank is not None:
            chosen, said = self._reordered(rerank, wanted.text, chosen)
            chosen, trouble = chosen[:most], (*trouble, *said)
        hits = tuple(self._hit(each, wanted) for each in chosen)
        notes = legs.notes([hit.preview for hit in hits])
        return Recalled(hits, degraded=trouble, notes=notes, read=legs.read is not None)

    def _answering(
        self, index: Index, wanted: SessionQuestion, filter: Filter
    ) -> tuple[list[_Scored], Legs, tuple[str, ...]]:
        """The messages that answer and hold every phrase asked for, by which legs, and what was wrong."""
        needed = words.required(wanted.phrases)
        if not needed:
            legs = self._legs(index, wanted, filter)
            best, trouble = self._best(index, wanted, filter, legs)
            return best, legs, trouble
        only = filter._replace(only=tuple(index.match(needed, filter, None, every=True)))
        more = wanted._replace(max_results=wanted.max_results * _STEMMED)
        legs = self._legs(index, more, only)
        best, trouble = self._best(index, more, only, legs)
        # The index knows phrases by their stems.
        holding = (each for each in best if words.holds(self._text(each.row), wanted.phrases))
        return list(itertools.islice(holding, wanted.max_results)), legs, trouble

    def _reordered(
        self, rerank: Rerank, question: str, chosen: list[_Scored]
    ) -> tuple[list[_Scored], tuple[str, ...]]:
        """The best pieces in another order, their scores in the old one; else all as it was, and why."""
        best = chosen[: rerank.most]
        spots = [Spot.of(each.row) for each in best]
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

    def _legs(self, index: Index, wanted: SessionQuestion, filter: Filter) -> Legs:
        """What words find, and meaning where sessions have vectors and the model knows the question."""
        asked = words.terms(wanted.text)
        limit = max(_DEPTH, 8 * wanted.max_results)
        legs = Legs(index, asked)
        legs.find_words(filter, limit)
        embedder = self._embedder() if self._by_meaning else None
        if embedder is not None and (not legs.narrow or knows_words(embedder, wanted.text, asked)):
            legs.query = embedder.embed([wanted.text], query=True)[0]
            legs.english_only = knows_english_only(embedder)
            # Beyond the nearest few there is nothing that needs no word: others come by their words.
            legs.find_meaning(filter, _NEAREST, made_by=self._syncing(index, View()).identity[1] or "")
        if wanted.times.spans:
            legs.mark_all()
            legs.find_times(wanted.times, filter, limit)
        return legs

    def _alike(self, legs: Legs, ids: Sequence[int]) -> dict[int, float]:
        """How alike pieces and question are in meaning."""
        embedder = self._embedder() if legs.nearest is not None else None
        if embedder is None or legs.nearest is None:
            return {}
        if self._mean is None:
            self._mean = common_direction(embedder)
        known, vectors = legs.nearest.vectors(ids)
        return dict(zip(known, likeness(vectors, legs.query, mean=self._mean).tolist(), strict=True))

    def _best(
        self, index: Index, wanted: SessionQuestion, filter: Filter, legs: Legs
    ) -> tuple[list[_Scored], tuple[str, ...]]:
        """The messages that answer best, and what was wrong when the question was read."""
        chosen = self._chosen(index, wanted, filter, legs)
        reader = self._reader() if wanted.read else None
        if reader is None:
            return chosen, ()
        # Whether to read, and how much that counts, is decided as among notes.
        sure = relevance.curve("none" if legs.nearest is None else "static")
        trouble = legs.find_by_reading(
            reader.model,
            wanted.text,
            filter,
            _NEAREST,
            best=lambda: max((sure(each.signs) for each in chosen if each.signs), default=0.0),
            command=READ_COMMAND,
        )
        return (chosen if legs.read is None else self._chosen(index, wanted, filter, legs)), trouble

    def _chosen(self, index: Index, wanted: SessionQuestion, filter: Filter, legs: Legs) -> list[_Scored]:
        """The messages that answer at all, the best first, each text once, from so many sessions at most."""
        read = {} if legs.read is None else legs.read.cosines
        rows = index.rows({*legs.narrow, *legs.exact, *legs.vector, *legs.timely, *read}, filter)
        scores = _scores(legs, rows, words.cues_of(wanted.text, WORD.findall(wanted.text.lower())))
        weigh = legs.weigher(wanted.text)
        kind = "read" if read else "none" if legs.nearest is None else "static"
        curve = relevance.curve(kind, spoken=True)
        chosen: list[_Scored] = []
        sessions: set[int] = set()
        seen: set[object] = set()
        ordered = _ordered(scores, rows)
        for start in range(0, len(ordered), _STEP):
            ids = tuple(ordered[start : start + _STEP])
            these = filter._replace(only=ids)
            holding = [legs.holders(word, these) for word in legs.asked.words]
            alike = self._alike(legs, ids)
            for id_ in ids:
                row = rows[id_]
                marks: tuple[object, ...] = ((row.file, row.start), Spot.of(row).digest)
                held = legs.held(id_, [id_ in having for having in holding])
                score = legs.narrow.get(id_, 0.0)
                signs = weigh(
                    held,
                    row.size,
                    around=score,
                    score=score,
                    exact=legs.identified(id_),
                    alike=alike.get(id_, 0.0),
                    apart=legs.apart(id_),
                    read=read.get(id_, 0.0),
                    clear=legs.clear(id_),
                    said=row.speech,
                )
                weight = curve(signs)
                near = alike.get(id_, 0.0) >= _ALIKE or read.get(id_, 0.0) >= _READ_ALIKE
                answers = any(held) or id_ in legs.exact or near
                if weight < wanted.min_score or not answers or not seen.isdisjoint(marks):
                    continue
                full = wanted.max_sessions is not None and len(sessions) >= wanted.max_sessions
                if full and row.file not in sessions:
                    continue
                seen.update(marks)
                sessions.add(row.file)
                chosen.append(_Scored(row, scores[id_], weight, int(sum(held)), id_ in legs.certain, signs))
                if len(chosen) >= wanted.max_results:
                    return chosen
        return chosen

    def _hit(self, scored: _Scored, wanted: SessionQuestion) -> Hit:
        row, spot = scored.row, Spot.of(scored.row)
        said = self._text(row)
        text = clean_text(said)
        start, end = (spot.at, spot.at + spot.length) if text == said else (0, len(text))
        whole = " ".join(wanted.text.lower().split())
        return Hit(
            row.key or "",
            row.scope_id,
            clean_text(row.title),
            row.speech.speaker or "",
            spot.turn,
            row.start,
            row.time or "",
            window(text, words.terms(wanted.text).words, start=start, end=end),
            round(scored.score, 4),
            scored.held,
            scored.exact or bool(whole and whole in " ".join(text.lower().split())),
            round(scored.relevance, 4),
            scored.reranked,
        )

    def _text(self, row: ChunkRow) -> str:
        """What a message says, read from its log, and only if that is what was taken in."""
        spot = Spot.of(row)
        try:
            paper = OnDisk(self.home, row.scope_id, row.key or "")
            with files.reported(f"read the transcript {paper.path}"):
                file = paper.opened()
                if file is None:
                    raise _Changed(row)
                with file:
                    file.seek(spot.start)
                    event = parse_event(file.read(spot.last - spot.start).removesuffix(b"\n"))
        except (OutsideMemory, StorageFailed, InvalidKey) as error:
            raise _Changed(row) from error
        if not isinstance(event, Said):
            raise _Changed(row)
        text = following.told(without_own(event.message))
        if not _says(text, spot):  # results have no names in some formats: which are ours, the calls tell
            before = following.own_calls(Log(row.key or "", paper), spot.start)
            text = following.told(before.without(event.message))
        if not _says(text, spot):
            raise _Changed(row)
        return text

    # ---------------------------------------------------------------- following

    @in_turn
    def sync(self, *, check: bool = False, progress: Progress | None = None) -> Followed:
        """Bring the index up to date with every log in sight; a broken one is thrown away and made anew."""
        view = self._owners()
        if not following.listed(self.home, view)[0] and not self.path.exists():
            return Followed()
        try:
            if check:
                self._check(view)
            return self._finished(view, progress)
        except (IndexFailed, OSError) as error:
            self._file.begin_anew(error)
            return self._finished(view, progress)

    def read_said(self, *, progress: Progress | None = None) -> None:
        """Have what user and assistant said read by the model that reads, the newest first."""
        reader, view = self._reader(), self._owners()
        if reader is not None and self.path.exists():
            passages = Passages(self._file, self._turn, view.filter, _SAID, self._to_read, self.sync)
            read_passages(passages, reader, progress=progress)

    @in_turn
    def unread(self) -> int:
        """How many pieces of what was said were not read; none where nothing ever was."""
        return self._how_much_read(self._file.open(), self._owners())[1] if self.path.exists() else 0

    @in_turn
    def rebuild(self, *, progress: Progress | None = None) -> Followed:
        """Make the index anew from the logs, aside, and put it in place in one transaction."""
        view = self._owners()
        if not following.listed(self.home, view)[0] and not self.path.exists():
            return Followed()
        with self._file.rebuilding() as fresh:
            found = following.listed(self.home, view)
            followed = following.bring(self.home, fresh, view, *found, until=None, progress=progress)
            if self._has_meaning(found[0].values()):
                self._embed(fresh, view, None, progress)
            fresh.put(last=True)
        return followed

    @in_turn
    def survey(self, notes: Survey) -> Survey:
        """What the notes' index covers, with the sessions counted among the files; nothing is changed."""
        view = self._owners()
        there, wrong = following.listed(self.home, view)
        known: dict[following.Key, FollowedLog] = {}
        if self.path.exists():
            try:
                with contextlib.closing(SqliteIndex(self.path, SESSIONS)) as index:
                    known = following.logs_in(index, view.projects)
                    notes.sessions_unread = self._how_much_read(index, view)[1]
            except IndexFailed as error:
                notes.trouble = notes.trouble or str(error)
        following.survey(view, there, wrong, known=known, into=notes)
        return notes

    @in_turn
    def close(self) -> None:
        """Let go of the file; the next question opens it again."""
        self._file.close()

    def _finished(self, view: View, progress: Progress | None) -> Followed:
        followed = self._look(view, until=None, progress=progress)
        if followed.sessions:
            self._file.open().put(last=True)
        return followed

    def _look(self, view: View, *, until: float | None, progress: Progress | None = None) -> Followed:
        """Follow what is in sight, as far as the time goes."""
        listed, wrong = following.listed(self.home, view)
        if not listed and not wrong and not self.path.exists():
            return Followed()  # nothing was ever said here: no file is made for it
        index = self._file.open()
        index.patience = None if until is None else max(until - time.monotonic(), 0.05)
        try:
            followed = following.bring(self.home, index, view, listed, wrong, until=until, progress=progress)
            self._by_meaning = self._has_meaning(listed.values())
            if self._by_meaning and not followed.pending:
                self._embed(index, view, until, progress)
        finally:
            index.patience = None
        return followed._replace(degraded=tuple(self._file.told), unwritten=self._file.unwritten)

    def _has_meaning(self, stamps: Iterable[Stamp]) -> bool:
        """Whether sessions are searched by meaning too: vectors of more would cost more than they find."""
        return 0 < sum(each.size for each in stamps) <= self._most_bytes and self._embedder() is not None

    def _syncing(self, index: Index, view: View, progress: Progress | None = None) -> Sync:
        return Sync(index, view.filter, embedder=self._embedder, progress=progress, text_of=self._to_embed)

    def _embed(self, index: Index, view: View, until: float | None, progress: Progress | None) -> None:
        """Make the vectors that are missing; a question waits for a few of them only."""
        syncing, report = self._syncing(index, view, progress), SyncReport()
        syncing.renew(report, vectors=True)
        syncing.embed(report, None if until is None else min(until, time.monotonic() + _MEANING))

    def _to_embed(self, row: ChunkRow) -> str:
        """What a piece of a message says; nothing when its log has changed, which the next look tells."""
        spot = Spot.of(row)
        try:
            return self._text(row)[spot.at : spot.at + spot.length]
        except _Changed:
            return ""

    def _to_read(self, row: ChunkRow) -> str | None:
        """The same for a model that reads; what its log does not say any more is taken in anew."""
        spot = Spot.of(row)
        try:
            return self._text(row)[spot.at : spot.at + spot.length]
        except _Changed as changed:
            with self._turn:
                self._file.open().drop([changed.file])
            return None

    def _how_much_read(self, index: SqliteIndex, view: View) -> tuple[int, int]:
        """How many pieces of what was said were read, and how many not, once any was."""
        reader = self._reader()
        if reader is None or index.reads.made_by() is None:
            return 0, 0
        stats = index.stats()
        state = (stats.version, stats.settings.get("made"), view)
        if self._read_count[0] != state:
            total, unread = index.reads.count(view.filter, made_by=reader.model.identity, wanted=_SAID)
            self._read_count = state, (total - unread, unread)
        return self._read_count[1]

    def _check(self, view: View) -> None:
        """Compare what the index holds with what the logs say; a log it has wrong is taken in anew."""
        index = self._file.open()
        problems = index.check()
        if problems:
            raise IndexFailed(f"the sessions' index is damaged: {problems[0]}")
        listed, _ = following.listed(self.home, view)
        known = following.logs_in(index, view.projects)
        wrong = [
            log.id
            for key, log in known.items()
            if key in listed and not following.right(self.home, index, log)
        ]
        if wrong:
            index.drop(wrong)
            count = f"{len(wrong)} {'session' if len(wrong) == 1 else 'sessions'}"
            self._file.trouble.append(f"the index was missing content of {count}; indexed again")

    # ---------------------------------------------------------------- who is looking

    def _view(self, *, all: bool = False) -> View:
        if all:
            return View()
        place = scopes.place_for(self.caller, Scope.PROJECT)
        shelves = scopes.shelves(self.home, self.caller, place)
        projects = dict.fromkeys([place.id, *(shelf.parts[-1] for shelf in shelves if not shelf.shared)])
        if self.caller.audience is Audience.PRIVATE:
            return View(tuple(projects), self.caller.agent or "")
        own = tuple(each.id for each in self._sessions.list() if not each.trouble)
        return View(tuple(projects), self.caller.agent or "", own)

    def _owners(self) -> View:
        """What the index is kept up to date with; of no project, nothing."""
        return View((), "") if self.caller.project is None else self._view()

    def read(self, path: str, *, start: int = 1, count: int | None = None) -> reading.Text:
        """Lines of the log with this path, if it is in sight; else it is as if it were not there."""
        top, _, rest = path.partition("/")
        project, _, name = rest.partition("/")
        session = name.removesuffix(ENDING)
        refused = OutsideMemory(f"{names.shown(path)} is not a file of this memory")
        view = View(()) if self.caller.project is None else self._view()
        if top != FOLDER or not name.endswith(ENDING) or project not in (view.projects or ()):
            raise refused
        try:
            paper = OnDisk(self.home, project, session)
            begun = next(following.beginnings(Log(session, paper)), Started())
        except InvalidKey as error:
            raise refused from error
        seen = view.shows(FollowedLog(project, session, begun.agent, begun.audience))
        file = paper.opened() if seen else None
        if file is None:
            raise refused
        with file:
            found = reading.streamed(path, file, start=start, count=count)
        return replace(found, text="\n".join(map(_clean_line, found.text.split("\n"))))


def _without_weak(found: Recalled, wanted: int) -> Recalled:
    """What was found; of weak matches alone, a few: what reading put in order looks weak, and is shown."""
    weak = not found.read and all(hit.match == relevance.WEAK for hit in found.hits)
    return found._replace(hits=found.hits[: relevance.most_weak(wanted)]) if weak else found


def passage(hit: Hit, place: Place, *, explain: bool = False) -> Passage:
    """A message as a search of everything returns it; what was said came through many doors."""
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
        arithmetic=_arithmetic(hit) if explain else None,
    )


def _arithmetic(hit: Hit) -> dict[str, float]:
    told = {"words": float(hit.keyword_hits), "turn": float(hit.turn)}
    if hit.reranked is not None:
        told |= {"reranked": hit.reranked[0], "place_before": hit.reranked[1]}
    return told


# -------------------------------------------------------------------- what is looked for


class _Scored(NamedTuple):
    row: ChunkRow
    score: float
    relevance: float
    held: int  # words of the question
    exact: bool
    signs: relevance.Signs | None = None
    reranked: tuple[float, int] | None = None


def _newest(index: Index, wanted: SessionQuestion, filter: Filter) -> list[ChunkRow]:
    """Messages by their time alone, the newest first, each once however many pieces it has."""
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


def _scores(legs: Legs, rows: Mapping[int, ChunkRow], asked: QuestionCues) -> dict[int, float]:
    """Each candidate by its words, what stands in it as it was asked, its meaning, and who speaks.

    Where meaning has a vote, the second stage looks at the best of them as it does at notes; of a session its
    best piece stands for the whole.
    """
    legs.marks = {id_: row.mark for id_, row in rows.items()}
    for id_, (file, order, *_) in legs.marks.items():
        own = legs.own[file, order] = legs.narrow.get(id_, 0.0)
        legs.wide[file] = max(legs.wide.get(file, 0.0), own)
    merged = rank.weighted(
        {id_: mark.file for id_, mark in legs.marks.items()},
        vector=legs.vector,
        narrow=legs.narrow,
        wide={},
        exact=legs.exact,
        weights=rank.Weights(vector=_VECTOR, narrow=1 - _VECTOR if legs.vector else 1.0, wide=0.0),
    )
    scores = dict(zip(legs.marks, merged.scores, strict=True))
    for id_, mark in legs.marks.items():
        scores[id_] += sum(rank.heard(mark.speech, asked))
    if legs.vector:
        from vademecum.search import second_stage  # and numpy with it, which words alone do without

        second_stage.refine(scores, legs, asked)
    for added in legs.added.values():
        for id_, more in added.items():
            scores[id_] += more
    return legs.with_reading(scores)


def _ordered(scores: dict[int, float], rows: dict[int, ChunkRow]) -> list[int]:
    """The best first; among equals the newest session, in a session the last line."""

    def place(id_: int) -> tuple[float, str, str, str, int, int]:
        row = rows[id_]
        return round(scores[id_], 9), row.updated or "", row.scope_id, row.key or "", row.start, -row.order

    return sorted(rows, key=place, reverse=True)


def _says(text: str, spot: Spot) -> bool:
    return following.digest(text[spot.at : spot.at + spot.length]) == spot.digest


def _clean_line(line: str) -> str:
    """A line of a log as it may leave: an event whole, and anything else as a text."""
    if not any(secrets.clues(line)):
        return line
    event = parse_event(line.encode(errors="replace"))
    return clean_text(line) if isinstance(event, Torn) else render_event(clean_event(event)).decode()
