"""The index and the engine behind one door: kept fresh, mended when broken, and honest about both."""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

import apsw

from vademecum.errors import IndexFailed, VadeError
from vademecum.index.corpus import Attached, Shelves
from vademecum.index.sqlite import Index
from vademecum.index.sync import Report, Sync
from vademecum.search.answer import Answer, Coverage, Passage
from vademecum.search.engine import Engine, Found, Hit, Options
from vademecum.store import scopes
from vademecum.types import Place, Scope

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.index.embed.base import Embedder
    from vademecum.search.query import Query
    from vademecum.store.home import Home


@dataclass(frozen=True, slots=True)
class Shape:
    """How texts are cut."""

    tokens: int = 400
    overlap: int = 80


class Searcher:
    """Answers questions for one caller."""

    def __init__(
        self, home: Home, caller: scopes.Caller, *, embedder: Embedder | None, shape: Shape, name: str
    ) -> None:
        self.home, self.caller = home, caller
        self.embedder, self.shape, self.name = embedder, shape, name
        self.trouble: list[str] = []
        self._index: Index | None = None
        self._engine: Engine | None = None
        self._report: Report | None = None

    @property
    def path(self) -> Path:
        """The index file of this agent."""
        return self.home.path / "index" / f"{self.name}.db"

    def sync(self, *, seconds: float | None = None, check: bool = False) -> Report:
        """Bring the index up to date; a broken one is thrown away and made anew."""
        try:
            report = self._sync(seconds=seconds, check=check)
        except (IndexFailed, apsw.Error) as error:
            self._begin_anew(error)
            report = self._sync(seconds=seconds, check=check)
        self._report = report
        return report

    def rebuild(self) -> Report:
        """Make the index anew from the files, aside, and put it in place in one transaction."""
        with self.home.lock(f"index {self.name}"):
            aside = self.path.with_name(f"{self.name}.{os.getpid()}.new")
            self._folder()
            fresh = Index(aside)
            try:
                report = self._syncing(fresh).run()
                self._adopt(fresh)
            finally:
                fresh.close()
                _remove(aside)
        self._report = report
        return report

    def search(self, query: Query, options: Options, *, seconds: float) -> Answer:
        """Answer a question, after a short look at what has changed."""
        report = self.sync(seconds=seconds)
        places = scopes.visible(self.caller)
        try:
            found = self._engine_of().search(query, places, options)
        except (IndexFailed, apsw.Error) as error:
            self._begin_anew(error)
            report = self.sync(seconds=seconds)
            found = self._engine_of().search(query, places, options)
        return self._answer(found, report)

    def close(self) -> None:
        """Let go of the index file."""
        if self._index is not None:
            self._index.close()
        self._index = self._engine = None

    # ---------------------------------------------------------------- parts

    def _sync(self, *, seconds: float | None, check: bool) -> Report:
        index = self._open()
        if check:
            problems = index.check()
            if problems:
                raise IndexFailed(f"the index is damaged: {problems[0]}")
        return self._syncing(index).run(seconds=seconds, check=check)

    def _syncing(self, index: Index) -> Sync:
        corpora = (Shelves(self.home, self.caller), Attached(self.home, self.caller))
        return Sync(
            index,
            corpora,
            scopes.visible(self.caller),
            self.embedder,
            self.shape.tokens,
            self.shape.overlap,
        )

    def _open(self) -> Index:
        if self._index is None:
            try:
                self._folder()
                self._index = Index(self.path)
            except (OSError, VadeError) as error:
                if isinstance(error, IndexFailed) and "cannot be opened" in str(error) and self.path.exists():
                    raise
                self.trouble.append(f"answered from a scan, not from the index: {error}")
                self._index = Index(":memory:")
        return self._index

    def _folder(self) -> None:
        self.home.folder("index", create=True).close()

    def _engine_of(self) -> Engine:
        if self._engine is None:
            self._engine = Engine(self._open(), self.embedder)
        return self._engine

    def _begin_anew(self, error: Exception) -> None:
        """Throw a broken index away; it held nothing that the files do not hold."""
        self.close()
        self.trouble.append(f"the index was damaged and is made anew: {error}")
        with contextlib.suppress(OSError, VadeError), self.home.lock(f"index {self.name}"):
            _remove(self.path)

    def _adopt(self, fresh: Index) -> None:
        """Copy a finished index over the one in use: readers see the old one until it is whole."""
        self.close()
        try:
            target = Index(self.path)
        except IndexFailed:
            _remove(self.path)
            target = Index(self.path)
        with target.connection.backup("main", fresh.connection, "main") as copying:
            while not copying.done:
                copying.step(1000)
        target.close()

    def _answer(self, found: Found, report: Report) -> Answer:
        failed = len(report.findings)
        coverage = Coverage(report.files, report.indexed, report.pending, failed, report.vectors_pending)
        degraded = [*self.trouble, *report.degraded, *found.degraded]
        if report.pending:
            degraded.append(f"{report.pending} files are not indexed yet; `vade index` finishes it")
        if failed:
            first = report.findings[0]
            degraded.append(f"{failed} files could not be read, first {first.where}: {first.why}")
        self.trouble = []
        provider, model = (
            ("none", "") if self.embedder is None else (self.embedder.provider, self.embedder.model)
        )
        return Answer(
            tuple(passage(hit) for hit in found.hits), found.mode, coverage, tuple(degraded), provider, model
        )


def passage(hit: Hit) -> Passage:
    """A hit as callers get it."""
    row, evidence = hit.row, hit.evidence
    return Passage(
        path=row.path,
        start=row.start,
        end=row.last,
        snippet=hit.snippet,
        score=round(hit.score, 4),
        relevance=round(hit.relevance, 4),
        source=row.source,
        place=Place(Scope(row.scope), row.scope_id),
        components={name: round(value, 4) for name, value in evidence._asdict().items()},
        title=row.title,
        key=row.key,
        type=row.type,
        num=row.num,
        tags=row.tags,
        time=row.time,
        origin=row.origin,
        superseded=row.superseded,
    )


def _remove(path: Path) -> None:
    for ending in ("", "-wal", "-shm", "-journal"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(f"{path}{ending}")
