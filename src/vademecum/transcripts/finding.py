"""What was said in earlier sessions, found again through an index of its words that can be thrown away.

The index says where something was said; what is shown comes from the log itself, and only if that still says
what was taken in. Who may see what is one condition inside the question.
"""

from __future__ import annotations

import contextlib
import functools
import itertools
import os
import re
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

from vademecum.errors import IndexFailed, IndexNewer, InvalidKey, OutsideMemory, StorageFailed, VadeError
from vademecum.index import lexicon, speech, turns, words
from vademecum.index.speech import Speech
from vademecum.index.sqlite import moment
from vademecum.index.turns import Kept, Part, Row, Turns
from vademecum.search import rank, relevance
from vademecum.search.answer import TRANSCRIPT, Passage
from vademecum.search.engine import COMMON, COMMON_FROM, EXACT_ROWS, MOST_WORDS
from vademecum.store import files, names, reading, scopes, secrets
from vademecum.store.outgoing import clean_text
from vademecum.text.words import WORD
from vademecum.transcripts import following
from vademecum.transcripts.events import Said, Started, Torn
from vademecum.transcripts.events import parse as parse_event
from vademecum.transcripts.events import render as render_event
from vademecum.transcripts.following import Followed, View
from vademecum.transcripts.log import ENDING, FOLDER, Log, OnDisk, clean_event
from vademecum.transcripts.recall import PREVIEW, Hit, Recalled
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from vademecum.index.sync import Survey
    from vademecum.search.engine import Options
    from vademecum.search.query import Query
    from vademecum.store.home import Home
    from vademecum.transcripts.sessions import Sessions

    Key = tuple[str, str]  # a project and a session
    State = tuple[int, int, int, int]  # size, times and inode of a file
    Progress = Callable[[str, int, int], None]

WITHOUT = 30.0  # seconds for which an index that cannot be used just now is done without
_DEPTH = 200  # candidates at least
_STEP = 50  # candidates that are weighed at once
_STEMMED = 5  # times as many messages as wanted, among which a phrase is looked for word for word
_TIDY = 1_000  # new pieces from which on the words are put in order


class Wanted(NamedTuple):
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
    newest: bool = False  # by time alone: nothing is asked, or it does not count


class _Changed(Exception):
    """A log is no longer what was taken in, though nothing showed it."""

    def __init__(self, log: Kept) -> None:
        super().__init__(log.session)
        self.log = log


P = ParamSpec("P")
T = TypeVar("T")


def _in_turn(call: Callable[Concatenate[Earlier, P], T]) -> Callable[Concatenate[Earlier, P], T]:
    """Let threads that share a connection wait for each other."""

    @functools.wraps(call)
    def waiting(self: Earlier, /, *args: P.args, **given: P.kwargs) -> T:
        with self._lock:
            return call(self, *args, **given)

    return waiting


class Earlier:
    """The sessions that a caller can see, followed and searched."""

    def __init__(self, home: Home, caller: scopes.Caller, sessions: Sessions, *, name: str) -> None:
        self.home, self.caller, self.name = home, caller, name
        self._sessions = sessions
        self._turns: Turns | None = None
        self._trouble: list[str] = []
        self._scanning = ""  # why the file is done without
        self._without_until = 0.0
        self._process = os.getpid()
        self._lock = threading.RLock()

    @property
    def path(self) -> Path:
        """The file; no agent's name has a tilde, so that it is never the notes' index of another."""
        return self.home.path / "index" / f"{names.check_id(self.name, 'an agent')}~sessions.db"

    # ---------------------------------------------------------------- asking

    @_in_turn
    def recall(
        self,
        query: str,
        *,
        max_sessions: int,
        max_results: int,
        min_score: float,
        seconds: float,
        all: bool = False,
    ) -> Recalled:
        """The messages that answer best, from so many sessions at most, after a look at what is new."""
        text = _readable(query)
        wanted = Wanted(text, max_results, min_score, max_sessions, phrases=words.phrases_in(text))
        found = self._without_weak(self._recalled(wanted, self._view(all=all), seconds))
        if found.hits or not wanted.phrases:
            return found
        again = self._without_weak(self._recalled(wanted._replace(phrases=()), self._view(all=all), seconds))
        said = " and ".join(names.shown(each) for each in wanted.phrases)
        return again._replace(
            degraded=(*again.degraded, f"no message holds the phrase {said}; its words were searched")
        )

    @_in_turn
    def answer(
        self, query: Query, options: Options, *, places: int, seconds: float
    ) -> tuple[tuple[Passage, ...], Recalled]:
        """Passages for a search of everything, and what was covered to find them."""
        wanted = Wanted(
            query.text,
            places,
            options.min_score,
            after=query.after,
            before=query.before,
            as_of=query.as_of,
            path=query.path,
            phrases=words.units(query.text, query.phrases) if options.mode == "metadata" else query.phrases,
            newest=not query.text,
        )
        found = self._recalled(wanted, self._view(), seconds)
        hits = list(found.hits)
        if options.sort_by == "recency" or options.mode == "metadata":
            hits.sort(key=lambda hit: moment(hit.time) or "", reverse=True)
        if options.mode == "vector":
            found = found._replace(degraded=(*found.degraded, "keywords only: sessions have no vectors"))
        place = scopes.place_for(self.caller, Scope.PROJECT)
        return tuple(passage(hit, place, explain=options.explain) for hit in hits), found

    def _without_weak(self, found: Recalled) -> Recalled:
        """What was found; of weak matches alone, a few."""
        weak = all(hit.match == relevance.WEAK for hit in found.hits)
        return found._replace(hits=found.hits[: relevance.MOST_WEAK]) if weak else found

    def _recalled(self, wanted: Wanted, view: View, seconds: float) -> Recalled:
        until = time.monotonic() + seconds
        for last in (False, False, True):
            try:
                followed = self._look(view, until=until)
                hits = self._ask(wanted, view) if followed.sessions else []
                return Recalled(tuple(hits), followed.searched, followed.said)
            except _Changed as changed:
                self._forget(changed.log)
            except (IndexFailed, OSError) as error:
                if last:
                    raise
                self._begin_anew(error)
                until = time.monotonic() + seconds  # all has to be read again
        return Recalled((), 0, ("sessions were rewritten while they were read; ask again",))

    def _ask(self, wanted: Wanted, view: View) -> list[Hit]:
        index = self._open()
        where, values = _condition(wanted, view)
        if wanted.max_results < 1:
            return []
        with index.reading():
            if wanted.newest:
                ids = index.newest(where, values, wanted.max_results)
                rows = index.rows(ids, where, values)
                chosen = [_Scored(rows[id_], 0.0, 1.0, 0, exact=False) for id_ in ids]
            elif wanted.phrases:
                more = wanted._replace(max_results=wanted.max_results * _STEMMED)
                found = _best(index, more, where, values)
                holding = (each for each in found if self._holds(each.row, wanted.phrases))
                chosen = list(itertools.islice(holding, wanted.max_results))
            else:
                chosen = _best(index, wanted, where, values)
        return [self._hit(each, wanted) for each in chosen]

    def _holds(self, row: Row, phrases: Sequence[str]) -> bool:
        """Whether a message holds phrases word for word; the index knows them by their stems."""
        return words.holds(self._text(row.log, row.part), phrases)

    def _hit(self, scored: _Scored, wanted: Wanted) -> Hit:
        part, log = scored.row.part, scored.row.log
        said = self._text(log, part)
        text = clean_text(said)
        start, end = (part.at, part.at + part.length) if text == said else (0, len(text))
        whole = " ".join(wanted.text.lower().split())
        return Hit(
            log.session,
            log.project,
            clean_text(log.name),
            part.role,
            part.turn,
            part.line,
            part.time,
            shown(text, words.terms(wanted.text).words, start=start, end=end),
            round(scored.score, 4),
            scored.held,
            scored.exact or bool(whole and whole in " ".join(text.lower().split())),
            round(scored.relevance, 4),
        )

    def _text(self, log: Kept, part: Part) -> str:
        """What a message says, read from its log, and only if that is what was taken in."""
        try:
            paper = OnDisk(self.home, log.project, log.session)
            with files.reported(f"read the transcript {paper.path}"):
                file = paper.opened()
                if file is None:
                    raise _Changed(log)
                with file:
                    file.seek(part.start)
                    event = parse_event(file.read(part.last - part.start).removesuffix(b"\n"))
        except (OutsideMemory, StorageFailed, InvalidKey) as error:
            raise _Changed(log) from error
        text = following.told(event.message) if isinstance(event, Said) else ""
        if following.digest(text[part.at : part.at + part.length]) != part.digest:
            raise _Changed(log)
        return text

    # ---------------------------------------------------------------- following

    @_in_turn
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
            self._begin_anew(error)
            return self._finished(view, progress)

    @_in_turn
    def rebuild(self, *, progress: Progress | None = None) -> Followed:
        """Make the index anew from the logs, aside, and put it in place in one transaction."""
        view = self._owners()
        if not following.listed(self.home, view)[0] and not self.path.exists():
            return Followed()
        with self.home.lock(f"index {self.path.stem}", derived=True):
            self._folder()
            aside = self.path.with_name(f"{self.path.stem}.{os.getpid()}.new")
            for left in self.path.parent.glob(f"{self.path.stem}.*.new*"):  # of a rebuild that was killed
                left.unlink(missing_ok=True)
            fresh = Turns(aside)
            try:
                found = following.listed(self.home, view)
                followed = following.bring(self.home, fresh, view, *found, until=None, progress=progress)
                fresh.tidy()
                self._adopt(fresh)
            finally:
                fresh.close()
                _remove(aside)
        return followed

    @_in_turn
    def survey(self, notes: Survey) -> Survey:
        """What the notes' index covers, with the sessions counted among the files; nothing is changed."""
        view = self._owners()
        there, wrong = following.listed(self.home, view)
        known: dict[following.Key, Kept] = {}
        if self.path.exists():
            try:
                index = Turns(self.path)
                with contextlib.closing(index):
                    known = index.logs(view.projects)
            except IndexFailed as error:
                notes.trouble = notes.trouble or str(error)
        following.survey(view, there, wrong, known=known, into=notes)
        return notes

    @_in_turn
    def close(self) -> None:
        """Let go of the file; the next question opens it again."""
        if self._turns is not None and self._process == os.getpid():
            self._turns.close()
        self._turns = None

    def _finished(self, view: View, progress: Progress | None) -> Followed:
        followed = self._look(view, until=None, progress=progress)
        if self._turns is not None and self._turns.inserted > max(_TIDY, self._turns.count() // 10):
            self._turns.tidy()
        return followed

    def _look(self, view: View, *, until: float | None, progress: Progress | None = None) -> Followed:
        """Follow what is in sight, as far as the time goes."""
        listed, wrong = following.listed(self.home, view)
        if not listed and not wrong and not self.path.exists():
            return Followed()  # nothing was ever said here: no file is made for it
        index = self._open()
        index.wait_at_most(None if until is None else max(until - time.monotonic(), 0.05))
        try:
            followed = following.bring(self.home, index, view, listed, wrong, until=until, progress=progress)
        finally:
            index.wait_at_most(None)
        said, self._trouble = self._trouble, []
        scanning = [self._scanning] if self._scanning else []
        return followed._replace(degraded=(*said, *scanning))

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
        seen = view.shows(Kept(project, session, begun.agent, begun.audience))
        file = paper.opened() if seen else None
        if file is None:
            raise refused
        with file:
            found = reading.streamed(path, file, start=start, count=count)
        return replace(found, text="\n".join(map(_clean_line, found.text.split("\n"))))

    # ---------------------------------------------------------------- the file

    def _open(self) -> Turns:
        if self._process != os.getpid():  # a connection must not be used on both sides of a fork
            self._turns = None
            self._process = os.getpid()
        if self._scanning and time.monotonic() >= self._without_until:
            self._scanning = ""
            self.close()
        if self._turns is None:
            try:
                self._folder()
                self._turns = Turns(":memory:" if self._scanning else self.path)
            except IndexNewer as error:
                self._without(error)
            except IndexFailed as error:
                if time.monotonic() >= self._without_until and turns.is_damage(error):
                    raise
                self._without(error)
            except (OSError, VadeError) as error:
                self._without(error)
        assert self._turns is not None
        return self._turns

    def _without(self, error: Exception) -> None:
        """Do without the file for a while, and say so as long as that lasts."""
        self._scanning = f"sessions were answered from a scan, not from their index: {error}"
        self._without_until = time.monotonic() + WITHOUT
        self._turns = Turns(":memory:")

    def _begin_anew(self, error: Exception) -> None:
        """Throw a damaged index away: it held nothing that the logs do not hold.

        One that others are using, or that the disk has no room for, is left alone and done without for a
        while.
        """
        self.close()
        damaged = isinstance(error, IndexFailed) and turns.is_damage(error)
        if not damaged or time.monotonic() < self._without_until:
            self._scanning = f"sessions were answered from a scan, not from their index: {error}"
            self._without_until = time.monotonic() + WITHOUT
            return
        self._without_until = time.monotonic() + 1.0  # a second failure in a row is no damage to the file
        self._trouble.append(f"the sessions' index could not be used and is made anew: {error}")
        with contextlib.suppress(OSError, VadeError), self.home.lock(f"index {self.path.stem}", derived=True):
            _remove(self.path)

    def _forget(self, log: Kept) -> None:
        with contextlib.suppress(IndexFailed):  # the next look tells of it
            self._open().drop([log])

    def _check(self, view: View) -> None:
        """Compare what the index holds with what the logs say; a log it has wrong is taken in anew."""
        index = self._open()
        problems = index.check()
        if problems:
            raise IndexFailed(f"the sessions' index is damaged: {problems[0]}")
        listed, _ = following.listed(self.home, view)
        known = index.logs(view.projects)
        wrong = [
            log for key, log in known.items() if key in listed and not following.right(self.home, index, log)
        ]
        if wrong:
            index.drop(wrong)
            count = f"{len(wrong)} {'session' if len(wrong) == 1 else 'sessions'}"
            self._trouble.append(f"the index did not hold what {count} said; taken in anew")

    def _adopt(self, fresh: Turns) -> None:
        """Copy a finished index over the one in use: readers see the old one until it is whole."""
        self.close()
        try:
            target = Turns(self.path)
        except IndexFailed:
            _remove(self.path)
            target = Turns(self.path)
        try:
            turns.copy(fresh, target)
        except IndexFailed as error:
            if not turns.is_damage(error):
                raise
            target.close()
            _remove(self.path)
            target = Turns(self.path)
            turns.copy(fresh, target)
        finally:
            target.close()

    def _folder(self) -> None:
        self.home.folder("index", create=True).close()


def passage(hit: Hit, place: Place, *, explain: bool = False) -> Passage:
    """A message as a search of everything returns it; what was said came through many doors."""
    return Passage(
        path_of(hit),
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
        arithmetic={"words": float(hit.keyword_hits), "turn": float(hit.turn)} if explain else None,
    )


def path_of(hit: Hit) -> str:
    """Where a message stands, as it is shown and asked for."""
    return f"{FOLDER}/{hit.project}/{hit.session}{ENDING}"


# -------------------------------------------------------------------- what is looked for


class _Scored(NamedTuple):
    row: Row
    score: float
    relevance: float
    held: int  # words of the question
    exact: bool


def _condition(wanted: Wanted, view: View) -> tuple[str, list[Any]]:
    """Visibility first, then the filters, all bound."""
    clauses, values = view.where()
    for clause, value in (
        ("p.moment >= ?", wanted.after),
        ("p.moment < ?", wanted.before),
        ("p.moment <= ?", wanted.as_of),
        (f"instr('{FOLDER}/' || l.project || '/' || l.session || '{ENDING}', ?) > 0", wanted.path),
    ):
        if value is not None:
            clauses.append(clause)
            values.append(value)
    if wanted.phrases and (expression := words.whole(wanted.phrases)):
        clauses.append("p.id in (select rowid from said where said match ?)")
        values.append(expression)
    return " and ".join(clauses), values


def _best(index: Turns, wanted: Wanted, where: str, values: list[Any]) -> list[_Scored]:
    """The messages that answer at all, the best first, each text once, from so many sessions at most."""
    asked = words.terms(wanted.text)
    count = index.count()
    frequency = {word: index.frequency(word) for word in asked.words}
    expression = _expression(frequency, count)
    limit = max(_DEPTH, 8 * wanted.max_results)
    matched = dict(index.match(expression, where, values, limit)) if expression else {}
    exact: dict[int, float] = {}
    certain: set[int] = set()
    for phrase, sure in asked.phrases:
        found = index.match(words.quoted(phrase), where, values, EXACT_ROWS + 1)
        if len(found) <= EXACT_ROWS:
            certain.update(id_ for id_, _ in found if sure)
            share = min(1.0, len(phrase) / max(1, len(asked.words)))
            for id_, _ in found:
                exact[id_] = exact.get(id_, 0.0) + share * share
    best = max(matched.values(), default=0.0) or 1.0
    scores = {id_: matched.get(id_, 0.0) / best + exact.get(id_, 0.0) for id_ in {**matched, **exact}}
    rows = index.rows(list(scores), where, values)
    question = speech.wanted(wanted.text, WORD.findall(wanted.text.lower()))
    for id_, row in rows.items():
        scores[id_] += sum(rank.heard(Speech(row.part.role, row.part.asks, row.part.says), question))
    weigh = relevance.Weigher(
        wanted.text, asked.words, frequency=frequency, count=count, scores=matched.values(), rank=lexicon.rank
    )
    chosen: list[_Scored] = []
    sessions: set[int] = set()
    seen: set[object] = set()
    ordered = _ordered(scores, rows)
    for start in range(0, len(ordered), _STEP):
        ids = ordered[start : start + _STEP]
        holding = [index.holding(word, ids) for word in asked.words]
        for id_ in ids:
            row = rows[id_]
            marks: tuple[object, ...] = ((row.log.id, row.part.line), row.part.digest)
            held = tuple([id_ in having for having in holding])
            signs = weigh(
                held,
                row.part.size,
                around=matched.get(id_, 0.0),
                score=matched.get(id_, 0.0),
                exact=relevance.identified(exact.get(id_, 0.0), certain=id_ in certain),
            )
            weight = relevance.curve("none")(signs)
            if weight < wanted.min_score or not (any(held) or id_ in exact) or not seen.isdisjoint(marks):
                continue
            full = wanted.max_sessions is not None and len(sessions) >= wanted.max_sessions
            if full and row.log.id not in sessions:
                continue
            seen.update(marks)
            sessions.add(row.log.id)
            chosen.append(_Scored(row, scores[id_], weight, int(sum(held)), id_ in certain))
            if len(chosen) >= wanted.max_results:
                return chosen
    return chosen


def _ordered(scores: dict[int, float], rows: dict[int, Row]) -> list[int]:
    """The best first; among equals the newest session, in a session the last line."""

    def place(id_: int) -> tuple[float, str, str, str, int, int]:
        part, log = rows[id_].part, rows[id_].log
        return round(scores[id_], 9), log.updated, log.project, log.session, part.line, -part.at

    return sorted(rows, key=place, reverse=True)


def _expression(frequency: dict[str, int], count: int) -> str:
    """What to match: any of the words that tell something apart, the rarest first."""
    live = sorted((word for word in frequency if frequency[word]), key=frequency.__getitem__)
    if count >= COMMON_FROM:
        rare = [word for word in live if frequency[word] <= COMMON * count]
        live = rare if len(rare) >= 2 else live
    return " OR ".join(words.quoted((word,)) for word in live[:MOST_WORDS])


def shown(
    text: str, asked: Sequence[str], *, start: int = 0, end: int | None = None, size: int = PREVIEW
) -> str:
    """The part of a text that shows why it was found: around most of the words asked for."""
    if len(text) <= size:
        return text
    end = len(text) if end is None else end
    lower = text.lower()
    if len(lower) != len(text):  # a few letters change their length, and places would shift
        lower = text
    places = sorted(
        (found.start(), word) for word in asked[:MOST_WORDS] for found in _finds(lower, word, start, end)
    )
    middle, most = start, 0
    for at, (first, _) in enumerate(places):
        inside = [each for each in places[at:] if each[0] < first + size - 40]
        if len({word for _, word in inside}) > most:
            most = len({word for _, word in inside})
            middle = (first + inside[-1][0] + len(inside[-1][1])) // 2
    begin = min(max(0, middle - size // 2), len(text) - size)
    cut = text[begin : begin + size]
    cut = "…" + cut[1:] if begin else cut
    return cut if begin + size >= len(text) else cut[:-1] + "…"


def _finds(text: str, word: str, start: int, end: int) -> list[re.Match[str]]:
    """Where a word stands, or what begins like it: the index knows words without their endings."""
    for form in dict.fromkeys((word, word[: max(4, len(word) - 3)])):
        found = []
        for match in re.compile(re.escape(form)).finditer(text, start, end):
            found.append(match)
            if len(found) == 50:
                break
        if found:
            return found
    return []


def _clean_line(line: str) -> str:
    """A line of a log as it may leave: an event whole, and anything else as a text."""
    if not any(secrets.clues(line)):
        return line
    event = parse_event(line.encode(errors="replace"))
    return clean_text(line) if isinstance(event, Torn) else render_event(clean_event(event)).decode()


def _readable(text: str) -> str:
    """A text that a database takes: without half characters and NULs."""
    return text.encode("utf-8", "ignore").decode().replace("\0", " ")


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{ending}")
