"""The index and the engine behind one door: kept fresh, mended when broken, and honest about both."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Concatenate, NamedTuple, ParamSpec, TypeVar

import apsw

from vademecum.errors import IndexFailed, IndexNewer, VadeError
from vademecum.index.base import Stack
from vademecum.index.corpus import Attached, Shelves
from vademecum.index.freshness import Freshness
from vademecum.index.sqlite import Index
from vademecum.index.sync import NO_VECTORS, Report, Survey, Sync
from vademecum.search.answer import Answer, Coverage, Passage
from vademecum.search.engine import Engine, Found, Hit, Meaning, Options
from vademecum.search.query import Query, View, predicate
from vademecum.store import archive, clock, names, scopes
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.index.embed.base import Embedder
    from vademecum.store.home import Home
    from vademecum.store.state import State
    from vademecum.types import Change, Finding

    Progress = Callable[[str, int, int], None]
    Prints = dict[tuple[str, int], tuple[Any, ...]]  # of chunks

COUNTED = 1.0  # seconds between two counts of what was shown
WITHOUT = 30.0  # seconds for which an index that cannot be used just now is done without
# What is wrong with the file itself; all else is trouble of the disk, of other processes or of our own.
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.SchemaChangeError, apsw.SQLError)
# What people decided about what is seen: a change there means another look at everything.
_DECISIONS = ("aliases", "projects", "sources", "trusted")


P = ParamSpec("P")
T = TypeVar("T")


def _in_turn(call: Callable[Concatenate[Searcher, P], T]) -> Callable[Concatenate[Searcher, P], T]:
    """Let threads that share a searcher wait for each other."""

    @functools.wraps(call)
    def waiting(self: Searcher, /, *args: P.args, **given: P.kwargs) -> T:
        with self._turn:
            return call(self, *args, **given)

    return waiting


class Shape(NamedTuple):
    """How texts are cut."""

    tokens: int = 400
    overlap: int = 80


class Searcher:
    """Answers questions for one caller."""

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        *,
        choose: Callable[[], tuple[Embedder | None, str]],
        shape: Shape,
        name: str,
        state: State | None = None,
    ) -> None:
        self.home, self.caller = home, caller
        self.shape, self.name, self.state = shape, name, state
        self._choose = choose
        self._chosen: tuple[Embedder | None, str] | None = None
        self.trouble: list[str] = []
        self._index: Index | None = None
        self._engine: Engine | None = None
        self._fresh: Freshness | None = None
        self._shown: dict[str, None] = {}  # what was shown and is not counted yet
        self._counted = -math.inf
        self._turn = threading.RLock()  # a connection answers one thread at a time
        self._without_until = 0.0  # when the file may be tried again
        self._scanning = ""  # why the file is done without
        self._process = os.getpid()

    @property
    def embedder(self) -> Embedder | None:
        """What makes vectors; chosen when first needed, since words do without it."""
        return self._embedder[0]

    @embedder.setter
    def embedder(self, embedder: Embedder | None) -> None:
        self._chosen = embedder, "no embedder is set"

    @property
    def _embedder(self) -> tuple[Embedder | None, str]:
        if self._chosen is None:
            self._chosen = self._choose()
        return self._chosen

    @property
    def path(self) -> Path:
        """The index file of this agent."""
        return self.home.path / "index" / f"{names.check_id(self.name, 'an agent')}.db"

    @property
    def watching(self) -> bool:
        """Whether changes are told by the system; otherwise files are compared from time to time."""
        return self._fresh is not None and self._fresh.watching

    @_in_turn
    def sync(
        self,
        *,
        seconds: float | None = None,
        check: bool = False,
        probe: bool = False,
        progress: Progress | None = None,
    ) -> Report:
        """Bring the index up to date by every file; a broken one is thrown away and made anew.

        With `probe`, also ask whether the model is still the one that made its vectors.
        """
        try:
            report = self._compare(seconds=seconds, check=check, probe=probe, progress=progress)
        except (IndexFailed, apsw.Error) as error:
            self._begin_anew(error)
            report = self._compare(seconds=seconds, check=False, probe=False, progress=progress)
        return self._with_trouble(report)

    @_in_turn
    def update(self, *, seconds: float, vectors: bool = True) -> Report:
        """Bring the index up to date with what has changed."""
        try:
            return self._keeper().update(seconds=seconds, vectors=vectors)
        except (IndexFailed, apsw.Error) as error:
            self._begin_anew(error)
            return self._keeper().update(seconds=seconds, vectors=vectors)

    @_in_turn
    def take(self, change: Change) -> None:
        """Bring the index up to date with what was just written."""
        try:
            self._keeper().take(change.path)
        except apsw.Error as error:
            raise IndexFailed(f"the index {self.path} cannot be written: {error}") from error

    @_in_turn
    def survey(self) -> Survey:
        """What the index covers, without changing it."""
        stacks = list(self._stacks())
        try:
            index = Index(self.path if self.path.exists() else ":memory:")
        except (IndexFailed, OSError) as error:
            index = Index(":memory:")
            trouble = str(error)
        else:
            trouble = ""
        try:
            survey = self._syncing(index, None).survey(stacks)
        except apsw.Error as error:
            return Survey(trouble=f"the index is damaged: {error}")
        finally:
            index.close()
        survey.trouble = trouble
        return survey

    def watch(self, stop: threading.Event) -> Iterator[tuple[str, Report]]:
        """Keep the index up to date until told to stop, and say what was done and why."""
        from vademecum.index.watch import wakings

        self.home.folder(create=True).close()
        yield "opened", self.sync()
        own = str(self.home.path)
        # Written by searches and locks themselves: hearing that would never end.
        derived = tuple(os.path.join(own, name) for name in ("index", "state.db", "locks", "audit"))
        folders = {own, *(stack.path for stack in self._stacks() if isinstance(stack, Stack))}
        tops = [each for each in sorted(folders) if os.path.isdir(each)]
        tops = [each for each in tops if not any(each.startswith(f"{other}{os.sep}") for other in tops)]
        for why in wakings(tops, ignore=lambda path: path.startswith(derived), stop=stop):
            report = self.sync()
            if report.changed or report.removed or why not in ("changed", "due"):
                yield why, report

    @_in_turn
    def rebuild(self, *, progress: Progress | None = None) -> Report:
        """Make the index anew from the files, aside, and put it in place in one transaction."""
        with self.home.lock(f"index {self.name}", derived=True):
            aside = self.path.with_name(f"{self.name}.{os.getpid()}.new")
            self._folder()
            for left in self.path.parent.glob(f"{self.name}.*.new*"):  # of a rebuild that was killed
                left.unlink(missing_ok=True)
            fresh = Index(aside)
            try:
                making = self._syncing(fresh, progress)
                report = making.run(self._stacks())
                making.probe(report)
                self._adopt(fresh)
            finally:
                fresh.close()
                _remove(aside)
        return report

    @_in_turn
    def search(self, query: Query, options: Options, *, seconds: float) -> Answer:
        """Answer a question, after a short look at what has changed."""
        vectors = options.mode in ("hybrid", "vector") and bool(query.text)
        report = self.update(seconds=seconds, vectors=vectors)
        private = self.caller.audience is not Audience.GROUP
        view = View(tuple(scopes.visible(self.caller)), self._root, group=not private)
        try:
            report, meaning = self._meaning(query, options, report, seconds=seconds)
            found = self._ask(query, view, options, meaning)
        except (IndexFailed, apsw.Error) as error:
            self._begin_anew(error)
            report = self.update(seconds=seconds, vectors=vectors)
            found = self._ask(query, view, options, self._engine_of().meaning(query, options))
        if self.state is not None and private:
            self._shown.update(dict.fromkeys(hit.row.item for hit in found.hits))
            if time.monotonic() - self._counted >= COUNTED:
                self._count_uses()
        return self._answer(found, report, explain=options.explain)

    @_in_turn
    def close(self) -> None:
        """Let go of the index file; the next question opens it again."""
        self._count_uses()
        if self._fresh is not None:
            self._fresh.close()
        if self._index is not None and self._process == os.getpid():
            self._index.close()
        self._index = self._engine = self._fresh = None

    # ---------------------------------------------------------------- parts

    @property
    def _root(self) -> str:
        return "" if self.caller.project is None else str(self.caller.project.root)

    def _meaning(
        self, query: Query, options: Options, report: Report, *, seconds: float
    ) -> tuple[Report, Meaning]:
        """The vector of a question; a model that gives others than before has all of them made anew."""
        engine = self._engine_of()
        meaning = engine.meaning(query, options)
        if meaning.changed is None:
            return report, meaning
        said = self._keeper().sync.changed(meaning.changed)
        if said:
            self.trouble.append(said)
            report = self._keeper().compare(seconds=seconds)
        again = engine.meaning(query, options)
        return report, again

    def _ask(self, query: Query, view: View, options: Options, meaning: Meaning) -> Found:
        engine = self._engine_of()
        with engine.index.reading():
            found = engine.search(query, view, options, meaning)
        engine.index.raise_damage()
        return found

    def _compare(
        self, *, seconds: float | None, check: bool, probe: bool, progress: Progress | None
    ) -> Report:
        keeper = self._keeper()
        if check:
            problems = keeper.sync.index.check()
            if problems:
                raise IndexFailed(f"the index is damaged: {problems[0]}")
        keeper.sync.progress = progress
        try:
            report = keeper.compare(seconds=seconds, check=check)
            if probe:
                keeper.sync.probe(report)
        finally:
            keeper.sync.progress = None
        keeper.sync.index.raise_damage()
        if check and not self._holds_what_files_say(keeper):
            keeper.compare(seconds=seconds, check=True)  # somebody may have saved in between
            if not self._holds_what_files_say(keeper):
                raise IndexFailed("the index does not hold what the files say")
        return report

    def _holds_what_files_say(self, keeper: Freshness) -> bool:
        """Compare all that the index holds with one made anew: a page of yesterday has a checksum too."""
        fresh = Index(":memory:")
        try:
            again = self._syncing(fresh, keeper.sync.progress)
            pending = again.run(self._stacks()).vectors_pending
            here = keeper.sync.index.fingerprints(again.places, self._root)
            there = fresh.fingerprints(again.places, self._root)
            if pending:  # what no model makes now cannot be compared: good vectors are not thrown away for it
                here, there = _without_vectors(here), _without_vectors(there)
            return there == here
        finally:
            fresh.close()

    def _keeper(self) -> Freshness:
        if self._process != os.getpid():  # a connection must not be used on both sides of a fork
            self._index = self._engine = self._fresh = None
            self._process = os.getpid()
        if self._scanning and time.monotonic() >= self._without_until:
            self._scanning = ""
            self.close()
        if self._fresh is None:
            decisions = [str(self.home.path / "decisions" / kind) for kind in _DECISIONS]
            folders = [*decisions, *([f"{self._root}/.vade"] if self._root else [])]
            self._fresh = Freshness(self._syncing(self._open(), None), self._stacks, folders)
        return self._fresh

    def _syncing(self, index: Index, progress: Progress | None) -> Sync:
        return Sync(
            index,
            scopes.visible(self._owner),
            self._root,
            embedder=lambda: self.embedder,
            tokens=self.shape.tokens,
            overlap=self.shape.overlap,
            progress=progress,
        )

    @property
    def _owner(self) -> scopes.Caller:
        """Whose index it is: the agent's own, also when a group listens to what is answered from it."""
        return replace(self.caller, audience=Audience.PRIVATE)

    def _stacks(self) -> Iterator[Stack | Finding]:
        yield from Shelves(self.home, self._owner).stacks()
        yield from Attached(self.home, self._owner).stacks()

    @property
    def _shared(self) -> tuple[str, ...]:
        """How the paths begin that a group may know."""
        return tuple(
            f"{shelf.name_of(archive.RECORDS)}/"
            for place in scopes.visible(self.caller)
            for shelf in scopes.shelves(self.home, self.caller, place)
        )

    def _in_sight(self) -> tuple[int, int]:
        allowed = predicate(Query(""), View(tuple(scopes.visible(self.caller)), self._root, group=True))
        return self._open().count_files(allowed.files, allowed.file_values)

    def _open(self) -> Index:
        if self._index is None:
            try:
                self._folder()
                self._index = Index(":memory:" if self._scanning else self.path)
            except IndexNewer as error:
                self._without(error)
            except IndexFailed as error:
                if time.monotonic() >= self._without_until:
                    raise
                self._without(error)
            except (OSError, VadeError) as error:
                self._without(error)
        assert self._index is not None
        return self._index

    def _without(self, error: Exception) -> None:
        """Do without the file for a while, and say so as long as that lasts."""
        self._scanning = f"answered from a scan, not from the index: {error}"
        self._without_until = time.monotonic() + WITHOUT
        self._index = Index(":memory:")

    def _folder(self) -> None:
        self.home.folder("index", create=True).close()

    def _engine_of(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(self._open(), self._keeper().sync, self._uses, lambda: self._embedder[1])
        return self._engine

    def _count_uses(self) -> None:
        """Count what was shown since the last time; many questions in a row are counted together."""
        shown, self._shown = self._shown, {}
        self._counted = time.monotonic()
        if self.state is not None and shown:
            self.state.used(shown, at=clock.now())

    def _uses(self, items: list[str]) -> dict[str, int]:
        self._count_uses()
        if self.state is None:
            return {}
        return {item: use.count for item, use in self.state.uses(items).items()}

    def _begin_anew(self, error: Exception) -> None:
        """Throw a damaged index away: it held nothing that the files do not hold.

        One that others are using, or that the disk has no room for, is left alone and done without for a
        while.
        """
        self.close()
        cause = error if isinstance(error, apsw.Error) else error.__cause__
        damaged = cause is None or isinstance(cause, _DAMAGE)
        if not damaged or time.monotonic() < self._without_until:
            self._without_until = time.monotonic() + WITHOUT
            self._scanning = f"answered from a scan, not from the index: {error}"
            return
        self._without_until = time.monotonic() + 1.0  # a second failure in a row is no damage to the file
        self.trouble.append(f"the index could not be used and is made anew: {error}")
        with contextlib.suppress(OSError, VadeError), self.home.lock(f"index {self.name}", derived=True):
            _remove(self.path)

    def _adopt(self, fresh: Index) -> None:
        """Copy a finished index over the one in use: readers see the old one until it is whole."""
        self.close()
        try:
            target = Index(self.path)
        except IndexFailed:
            _remove(self.path)
            target = Index(self.path)
        try:
            _copy(fresh, target)
        except (apsw.CorruptError, apsw.NotADBError):  # what is there is damaged: nothing to keep
            target.close()
            _remove(self.path)
            target = Index(self.path)
            _copy(fresh, target)
        except apsw.Error as error:
            raise IndexFailed(f"the index {self.path} cannot be replaced now: {error}") from error
        finally:
            target.close()

    def _with_trouble(self, report: Report) -> Report:
        said, self.trouble = self.trouble, []
        scanning = [self._scanning] if self._scanning else []
        told = replace(report, degraded=[*said, *scanning, *report.degraded])
        report.degraded = _lasting(report.degraded)
        return told

    def _answer(self, found: Found, report: Report, *, explain: bool) -> Answer:
        findings = report.findings
        coverage = Coverage(
            report.files, report.indexed, report.pending, len(findings), report.vectors_pending
        )
        if self.caller.audience is Audience.GROUP:  # neither names nor numbers of what it may not see
            findings = [each for each in findings if each.where.startswith(self._shared)]
            files, indexed = self._in_sight()
            coverage = Coverage(files, indexed, 0, len(findings), 0)
        failed = len(findings)
        scanning = [self._scanning] if self._scanning else []
        degraded = [*self.trouble, *scanning, *report.degraded, *found.degraded]
        if coverage.pending:
            degraded.append(f"{report.pending} files are not indexed yet; `vade index` finishes it")
        if report.outdated and self.caller.audience is not Audience.GROUP:
            degraded.append(
                f"the index is being upgraded: {report.outdated} of {report.files} files are ranked as "
                "before; `vade index` finishes it"
            )
        if failed:
            first = findings[0]
            degraded.append(f"{failed} files could not be read, first {first.where}: {first.why}")
        self.trouble = []
        report.degraded = _lasting(report.degraded)
        asked = None if found.by_words else self.embedder
        provider, model = ("none", "") if asked is None else (asked.provider, asked.model)
        return Answer(
            tuple(passage(hit, explain=explain) for hit in found.hits),
            found.mode,
            coverage,
            tuple(degraded),
            provider,
            model,
            hidden=found.hidden,
        )


def _without_vectors(prints: Prints) -> Prints:
    """What is kept of chunks but for their vectors, which stand before their words."""
    return {key: (*kept[:-3], *kept[-2:]) for key, kept in prints.items()}


def _lasting(said: list[str]) -> list[str]:
    """What holds until something changes; the rest is told once."""
    return [each for each in said if each.startswith(NO_VECTORS)]


def passage(hit: Hit, *, explain: bool) -> Passage:
    """A hit as callers get it."""
    row, evidence = hit.row, hit.evidence
    return Passage(  # by position: a page of them is made for every question
        row.path,
        row.start,
        row.last,
        hit.snippet,
        round(hit.score, 4),
        round(hit.relevance, 4),
        row.source,
        _place(row.scope, row.scope_id),
        {name: round(value, 4) for name, value in zip(evidence._fields, evidence, strict=True)},
        row.title,
        row.key,
        row.type,
        row.num,
        row.tags,
        row.time,
        row.origin,
        row.superseded,
        hit.arithmetic if explain else None,
    )


@functools.lru_cache(maxsize=64)
def _place(scope: str, id_: str) -> Place:
    return Place(Scope(scope), id_)


def _copy(fresh: Index, target: Index) -> None:
    with target.connection.backup("main", fresh.connection, "main") as copying:
        while not copying.done:
            copying.step(1000)


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{ending}")
