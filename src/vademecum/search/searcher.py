"""The index and the engine behind one interface: kept fresh, repaired when broken, and honest about both."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import IndexFailed
from vademecum.index.base import Stack
from vademecum.index.corpus import Corpus, to_read
from vademecum.index.freshness import Freshness, wakings
from vademecum.index.reads import CURATED, WHOLE
from vademecum.index.sqlite import NOTES, SqliteIndex
from vademecum.index.sync import NO_VECTORS, Survey, Sync, SyncReport
from vademecum.index.upkeep import IndexFile, in_turn
from vademecum.search.base import Answer, Coverage, Passage
from vademecum.search.engine import Engine, Meaning, Options, RankedRow, Ranking
from vademecum.search.reading import Passages, read_in_background, read_passages
from vademecum.store import archive, scopes, teams
from vademecum.text import clock, names
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.index.base import Filter, Index
    from vademecum.index.embed.base import Embedder, PassageReader
    from vademecum.search.base import Query
    from vademecum.search.rerank import Rerank
    from vademecum.store import Home
    from vademecum.store.state import State
    from vademecum.types import Change

    Progress = Callable[[str, int, int], None]
    Contents = dict[tuple[str, int], tuple[Any, ...]]

COUNTED = 1.0  # seconds between two counts of what was shown


class ChunkShape(NamedTuple):
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
        shape: ChunkShape,
        name: str,
        state: State | None = None,
        rerank: Rerank | None = None,
        reader: Callable[[], PassageReader | None] = lambda: None,
    ) -> None:
        self.home, self.caller = home, caller
        self._rerank = rerank
        self.shape, self.name, self.state = shape, name, state
        self._choose, self._reader = choose, reader
        self._read: tuple[Any, tuple[int, int]] = (None, (0, 0))  # how much is read, and in which index
        self._chosen: tuple[Embedder | None, str] | None = None
        self._corpus = Corpus(home, caller._replace(audience=Audience.PRIVATE))  # also when a group listens
        self._file = IndexFile(home, self.path, NOTES)
        self._engine: Engine | None = None
        self._fresh: Freshness | None = None
        self._shown: dict[str, None] = {}  # what was shown and is not counted yet
        self._counted = -math.inf
        self._turn = threading.RLock()  # a connection answers one thread at a time

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
    def unwritten(self) -> str:
        """Why nothing is written to the index file just now; empty when it is."""
        return self._file.unwritten

    @property
    def watching(self) -> bool:
        """Whether changes are told by the system; otherwise files are compared from time to time."""
        return self._fresh is not None and self._fresh.watching

    @in_turn
    def sync(
        self,
        *,
        seconds: float | None = None,
        check: bool = False,
        probe: bool = False,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Bring the index up to date by every file; a broken one is thrown away and made anew.

        With `probe`, also ask whether the model is still the one that made its vectors.
        """
        try:
            report = self._compare(seconds=seconds, check=check, probe=probe, progress=progress)
        except IndexFailed as error:
            self._file.begin_anew(error)
            report = self._compare(seconds=seconds, check=False, probe=False, progress=progress)
        return self._with_trouble(report)

    @in_turn
    def update(self, *, seconds: float, vectors: bool = True) -> SyncReport:
        """Bring the index up to date with what has changed."""
        return self._file.mended(lambda: self._keeper().update(seconds=seconds, vectors=vectors))

    @in_turn
    def take(self, change: Change) -> None:
        """Bring the index up to date with what was just written."""
        self._keeper().take(change.path)

    @in_turn
    def survey(self) -> Survey:
        """What the index covers, without changing it."""
        trouble = ""
        try:
            index = SqliteIndex(self.path if self.path.exists() else ":memory:")
        except (IndexFailed, OSError) as error:
            index = SqliteIndex(":memory:")
            trouble = str(error)
        with contextlib.closing(index):
            try:
                survey = self._syncing(index, None).survey(self._corpus.stacks())
                reader = self._read_by()
                if reader is not None:
                    survey.unread = index.reads.count(self._corpus.curated, made_by=reader.identity)[1]
            except IndexFailed as error:
                return Survey(trouble=f"the index is damaged: {error}")
        survey.trouble = trouble
        return survey

    def read(
        self,
        *,
        most: int | None = None,
        everything: bool = False,
        progress: Progress | None = None,
    ) -> int:
        """Have what is curated read by the model that reads, and say how many passages are left.

        With `everything`, sources too; at most so many passages.
        """
        reading = self._reader()
        if reading is None:
            return 0
        wanted = WHOLE if everything else CURATED
        passages = Passages(self._file, self._turn, self._corpus.curated, wanted, to_read, self.sync)
        return read_passages(passages, reading, most=most, progress=progress)

    def watch(self, stop: threading.Event) -> Iterator[tuple[str, SyncReport]]:
        """Keep the index up to date until told to stop, and say what was done and why."""
        self.home.folder(create=True).close()
        yield "opened", self.sync()
        own = str(self.home.path)
        # Written by searches and locks themselves: hearing that would never end.
        derived = tuple(os.path.join(own, name) for name in ("index", "state.db", "locks", "audit"))
        folders = {own, *(stack.path for stack in self._corpus.stacks() if isinstance(stack, Stack))}
        tops = [each for each in sorted(folders) if os.path.isdir(each)]
        tops = [each for each in tops if not any(each.startswith(f"{other}{os.sep}") for other in tops)]
        read_in_background(lambda most: self.read(most=most), lambda: True, stop)
        for why in wakings(tops, ignore=lambda path: path.startswith(derived), stop=stop):
            report = self.sync()
            if report.changed or report.removed or why not in ("changed", "due"):
                yield why, report

    @in_turn
    def rebuild(self, *, progress: Progress | None = None) -> SyncReport:
        """Make the index anew from the files, aside, and put it in place in one transaction."""
        with self._file.rebuilding() as fresh:
            making = self._syncing(fresh, progress)
            report = making.run(self._corpus.stacks())
            making.probe(report)
        return report

    @in_turn
    def search(self, query: Query, options: Options, *, seconds: float) -> Answer:
        """Answer a question, after a short look at what has changed."""
        vectors = options.mode in ("hybrid", "vector") and bool(query.text)
        report = self.update(seconds=seconds, vectors=vectors)
        private = self.caller.audience is not Audience.GROUP
        try:
            report, meaning = self._meaning(query, options, report, seconds=seconds)
            found = self._ask(query, options, meaning)
        except IndexFailed as error:
            self._file.begin_anew(error)
            report = self.update(seconds=seconds, vectors=vectors)
            found = self._ask(query, options, self._engine_of().meaning(query, options))
        if self._rerank is not None and found.mode != "metadata" and options.sort_by is None:
            self._rerank.reorder(query.text, found, options)
        if self.state is not None and private:
            self._shown.update(dict.fromkeys(hit.row.item for hit in found.hits))
            if time.monotonic() - self._counted >= COUNTED:
                self._count_uses()
        return self._answer(found, report, explain=options.explain)

    @in_turn
    def close(self) -> None:
        """Let go of the index file; the next question opens it again."""
        self._count_uses()
        if self._fresh is not None:
            self._fresh.close()
        self._engine = self._fresh = None
        self._file.close()

    # ---------------------------------------------------------------- parts

    @functools.cached_property
    def _visible(self) -> Filter:
        """What may be answered, whatever is asked; a caller stays the same."""
        group = self.caller.audience is Audience.GROUP
        return self._corpus.filter._replace(places=tuple(scopes.visible(self.caller)), group=group)

    def _meaning(
        self, query: Query, options: Options, report: SyncReport, *, seconds: float
    ) -> tuple[SyncReport, Meaning]:
        """The vector of a question; a model that gives others than before has all of them made anew."""
        engine = self._engine_of()
        meaning = engine.meaning(query, options)
        if meaning.changed is None:
            return report, meaning
        said = self._keeper().sync.changed(meaning.changed)
        if said:
            self._file.trouble.append(said)
            report = self._keeper().compare(seconds=seconds)
        again = engine.meaning(query, options)
        return report, again

    def _ask(self, query: Query, options: Options, meaning: Meaning) -> Ranking:
        engine = self._engine_of()
        if self._rerank is not None and options.sort_by is None:
            options = options._replace(max_results=max(options.max_results, self._rerank.most))
        self._how_much_read()  # here, where an index that cannot be used is made anew
        with engine.index:
            return engine.search(query, self._visible, options, meaning)

    def _compare(
        self, *, seconds: float | None, check: bool, probe: bool, progress: Progress | None
    ) -> SyncReport:
        index, keeper = self._file.open(), self._keeper()
        if check and (problems := index.check()):
            raise IndexFailed(f"the index is damaged: {problems[0]}")
        keeper.sync.progress = progress
        try:
            report = keeper.compare(seconds=seconds, check=check)
            if probe:
                keeper.sync.probe(report)
            if check and not self._holds_what_files_say(index):
                keeper.compare(seconds=seconds, check=True)  # somebody may have saved in between
                if not self._holds_what_files_say(index):
                    raise IndexFailed("the index does not match the files")
        finally:
            keeper.sync.progress = None
        return report

    def _holds_what_files_say(self, index: SqliteIndex) -> bool:
        """Compare all that the index holds with one made anew: a page of yesterday has a checksum too."""
        with contextlib.closing(SqliteIndex(":memory:")) as fresh:
            again = self._syncing(fresh, None)
            pending = again.run(self._corpus.stacks()).vectors_pending
            here, there = index.contents(again.filter), fresh.contents(again.filter)
            if pending:  # what no model makes now cannot be compared: good vectors are not thrown away for it
                here, there = _without_vectors(here), _without_vectors(there)
            return there == here

    def _keeper(self) -> Freshness:
        index = self._file.open()
        if self._fresh is None or self._fresh.sync.index is not index:
            if self._fresh is not None:
                self._fresh.close()
            self._fresh = Freshness(self._syncing(index, None), self._corpus)
        return self._fresh

    def _syncing(self, index: Index, progress: Progress | None) -> Sync:
        return Sync(
            index,
            self._corpus.filter,
            embedder=lambda: self.embedder,
            tokens=self.shape.tokens,
            overlap=self.shape.overlap,
            progress=progress,
        )

    @property
    def _shared(self) -> tuple[str, ...]:
        """How the paths begin that a group may know."""
        return tuple(
            f"{shelf.name_of(archive.RECORDS)}/"
            for place in scopes.visible(self.caller)
            for shelf in scopes.shelves(self.home, self.caller, place)
        )

    def _engine_of(self) -> Engine:
        keeper = self._keeper()
        if self._engine is None or self._engine.index is not keeper.sync.index:
            self._engine = Engine(
                keeper.sync.index, keeper.sync, self._uses, lambda: self._embedder[1], self._read_by
            )
        return self._engine

    def _read_by(self) -> Embedder | None:
        """The model that reads, if one does."""
        reading = self._reader()
        return None if reading is None else reading.model

    def _how_much_read(self) -> tuple[int, int]:
        """How many passages of what is curated were read, and how many not; counted when that changed."""
        reader = self._read_by()
        if reader is None:
            return 0, 0
        index = self._file.open()
        state = (index.stats().version, index.stats().settings.get("made"))
        if self._read[0] != state:
            total, unread = index.reads.count(self._corpus.curated, made_by=reader.identity)
            self._read = state, (total - unread, unread)
        return self._read[1]

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

    def _with_trouble(self, report: SyncReport) -> SyncReport:
        told = replace(report, degraded=[*self._file.told, *report.degraded], unwritten=self._file.unwritten)
        report.degraded = _lasting(report.degraded)
        return told

    def _of_team(self, found: Passage) -> Passage:
        """A hit with the team that shares it."""
        name = teams.name_of_path(self.home, found.path)
        return found._replace(team=name) if name else found

    def _answer(self, found: Ranking, report: SyncReport, *, explain: bool) -> Answer:
        findings = report.findings
        coverage = Coverage(
            report.files,
            report.indexed,
            report.pending,
            len(findings),
            report.vectors_pending,
            0,
            0,
            0,
            *self._how_much_read(),
        )
        if self.caller.audience is Audience.GROUP:  # neither names nor numbers of what it may not see
            findings = [each for each in findings if each.where.startswith(self._shared)]
            seen = self._file.open().stats(filter=self._visible)
            coverage = Coverage(seen.files, seen.indexed, 0, len(findings), 0)
        failed = len(findings)
        degraded = [*self._file.told, *report.degraded, *found.degraded]
        if coverage.pending:
            degraded.append(f"{report.pending} files are not indexed yet; run `vade index`")
        if report.outdated and self.caller.audience is not Audience.GROUP:
            degraded.append(
                f"the index is being upgraded: {report.outdated} of {report.files} files still use the"
                f" old ranking; run `vade index`"
            )
        if failed:
            first = findings[0]
            degraded.append(f"{failed} files could not be read, first {first.where}: {first.why}")
        report.degraded = _lasting(report.degraded)
        asked = None if found.by_words else self.embedder
        provider, model = ("none", "") if asked is None else (asked.provider, asked.model)
        return Answer(
            tuple(self._of_team(passage(hit, explain=explain)) for hit in found.hits),
            found.mode,
            coverage,
            tuple(degraded),
            provider,
            model,
            notes=found.notes,
            hidden=found.hidden,
            read=found.read,
        )


def _without_vectors(contents: Contents) -> Contents:
    """What is kept of chunks but for their vectors."""
    return {key: kept[:-1] for key, kept in contents.items()}


def _lasting(said: list[str]) -> list[str]:
    """What holds until something changes; the rest is told once."""
    return [each for each in said if each.startswith(NO_VECTORS)]


def passage(hit: RankedRow, *, explain: bool) -> Passage:
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
