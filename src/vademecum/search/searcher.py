"""An index and its engine behind one interface, which keeps the index current and reports problems."""

from __future__ import annotations

import contextlib
import functools
import math
import os
import threading
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vademecum.errors import IndexFailed
from vademecum.index import Corpus, Freshness, IndexedFolder, IndexFile, SqliteIndex, Survey, Sync, SyncReport
from vademecum.index.corpus import to_read
from vademecum.index.freshness import watch_changes
from vademecum.index.reads import CURATED, WHOLE
from vademecum.index.sqlite import NOTES
from vademecum.index.sync import NO_VECTORS
from vademecum.named_tuple import NamedTuple
from vademecum.search.base import Answer, Coverage, Passage
from vademecum.search.conversations import turns_around
from vademecum.search.engine import Engine, Meaning, Options, RankedRow, Ranking
from vademecum.search.evidence import OtherTurn
from vademecum.search.locking import one_at_a_time
from vademecum.search.reading import Passages, read_in_background, read_passages
from vademecum.store import scopes, teams
from vademecum.text import clock, filenames, names
from vademecum.text.outgoing import clean_text
from vademecum.types import Audience, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.index import ChunkRow, Embedder, Filter, Index, LazyEmbedder, PassageReader
    from vademecum.search.base import Query
    from vademecum.search.rerank import Rerank
    from vademecum.store import Home, State
    from vademecum.types import Change

    Progress = Callable[[str, int, int], None]
    Contents = dict[tuple[str, int], tuple[Any, ...]]

COUNTED = 1.0  # seconds between two counts of shown results
FEW_UNREAD = 20  # passages; an answer tells when there are more


class ChunkShape(NamedTuple):
    """The size of the passages in an index, and how much neighbouring passages overlap."""

    tokens: int = 400
    overlap: int = 80


class Searcher:
    """The search over one caller's notes: an index, its engine, and what keeps the index current."""

    def __init__(
        self,
        home: Home,
        caller: scopes.Caller,
        *,
        embedder: LazyEmbedder,
        shape: ChunkShape,
        name: str,
        state: State | None = None,
        rerank: Rerank | None = None,
        reader: Callable[[], PassageReader | None] = lambda: None,
    ) -> None:
        self.home, self.caller = home, caller
        self._rerank = rerank
        self.shape, self.name, self.state = shape, name, state
        self.lazy, self._reader = embedder, reader
        self._read: tuple[Any, tuple[int, int]] = (
            None,
            (0, 0),
        )  # the number of read and unread passages, with the state it belongs to
        self._corpus = Corpus(
            home, caller._replace(audience=Audience.PRIVATE)
        )  # the index covers everything; a group's filter leaves out private files
        self._file = IndexFile(home, self.path, NOTES)
        self._engine: Engine | None = None
        self._fresh: Freshness | None = None
        self._uncounted: dict[str, None] = {}  # shown results that are not counted yet
        self._counted = -math.inf
        self._turn = threading.RLock()  # a connection serves one thread at a time

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that makes vectors; None where there is none."""
        return self.lazy.embedder

    @embedder.setter
    def embedder(self, embedder: Embedder | None) -> None:
        self.lazy.embedder = embedder

    @property
    def path(self) -> Path:
        """The path of this agent's index file."""
        return self.home.path / "index" / f"{names.check_id(self.name, 'an agent')}.db"

    @property
    def unwritten(self) -> str:
        """The reason why nothing is written to the index file now; '' when it is written as usual."""
        return self._file.unwritten

    @property
    def watching(self) -> bool:
        """Whether the system reports changed files; if not, all files are compared from time to time."""
        return self._fresh is not None and self._fresh.watching

    @one_at_a_time
    def sync(
        self,
        *,
        seconds: float | None = None,
        check: bool = False,
        probe: bool = False,
        progress: Progress | None = None,
    ) -> SyncReport:
        """Bring the index up to date by comparing every file; a broken index is deleted and rebuilt.

        With `check`, every file is read and the index is compared with a new one. With `probe`, also ask the
        embedder whether its model is still the one that made the vectors.
        """
        try:
            report = self._compare(seconds=seconds, check=check, probe=probe, progress=progress)
        except IndexFailed as error:
            self._file.discard(error)
            report = self._compare(seconds=seconds, check=False, probe=False, progress=progress)
        return self._with_messages(report)

    @one_at_a_time
    def update(self, *, seconds: float, vectors: bool = True) -> SyncReport:
        """Bring the index up to date with the files that have changed, within this many seconds.

        Without `vectors`, missing vectors are not made.
        """
        try:
            return self._freshness().update(seconds=seconds, vectors=vectors)
        except IndexFailed as error:
            self._file.discard(error)
            return self._freshness().update(seconds=seconds, vectors=vectors)

    @one_at_a_time
    def update_file(self, change: Change) -> None:
        """Bring the index up to date with one file that was just written."""
        self._freshness().update_file(change.path)

    @one_at_a_time
    def survey(self) -> Survey:
        """Return how much of the files the index covers, without changing the index."""
        trouble = ""
        try:
            index = SqliteIndex(self.path if self.path.exists() else ":memory:")
        except (IndexFailed, OSError) as error:
            index = SqliteIndex(":memory:")
            trouble = str(error)
        with contextlib.closing(index):
            try:
                survey = self._make_sync(index, None).survey(self._corpus.folders())
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
        """Let the reader model read curated passages, and return how many are left.

        With `everything`, passages of attached sources are read too; `most` limits the number of passages.
        """
        reading = self._reader()
        if reading is None:
            return 0
        wanted = WHOLE if everything else CURATED
        passages = Passages(self._file, self._turn, self._corpus.curated, wanted, to_read, self.sync)
        return read_passages(passages, reading, most=most, progress=progress)

    def watch(self, stop: threading.Event) -> Iterator[tuple[str, SyncReport]]:
        """Keep the index up to date until `stop` is set; yield the reason and the report of updates.

        An update because of a change or of the time that has passed is yielded only if it changed something.
        Meanwhile, the reader model reads passages in the background.
        """
        self.home.folder(create=True).close()
        yield "opened", self.sync()
        own = str(self.home.path)
        # Searches and locks write these themselves: watching them would never end.
        derived = tuple(os.path.join(own, name) for name in ("index", "state.db", "locks", "audit"))
        folders = {own, *(stack.path for stack in self._corpus.folders() if isinstance(stack, IndexedFolder))}
        tops = [each for each in sorted(folders) if os.path.isdir(each)]
        tops = [each for each in tops if not any(each.startswith(f"{other}{os.sep}") for other in tops)]
        read_in_background(lambda most: self.read(most=most), lambda: True, stop)
        for why in watch_changes(tops, ignore=lambda path: path.startswith(derived), stop=stop):
            report = self.sync()
            if report.changed or report.removed or why not in ("changed", "due"):
                yield why, report

    @one_at_a_time
    def rebuild(self, *, progress: Progress | None = None) -> SyncReport:
        """Make a new index from the files, and replace the old one in one transaction."""
        with self._file.rebuilding() as fresh:
            making = self._make_sync(fresh, progress)
            report = making.run(self._corpus.folders())
            making.probe(report)
        return report

    @one_at_a_time
    def search(self, query: Query, options: Options, *, seconds: float) -> Answer:
        """Answer a question, after an update of the index that may take this many seconds."""
        vectors = options.mode in ("hybrid", "vector") and bool(query.text)
        report = self.update(seconds=seconds, vectors=vectors)
        private = self.caller.audience is not Audience.GROUP
        try:
            report, meaning = self._meaning(query, options, report, seconds=seconds)
            found = self._ask(query, options, meaning)
        except IndexFailed as error:
            self._file.discard(error)
            report = self.update(seconds=seconds, vectors=vectors)
            found = self._ask(query, options, self._get_engine().meaning(query, options))
        if self._rerank is not None and found.mode != "metadata" and options.sort_by is None:
            self._rerank.reorder(query.text, found, options)
        if self.state is not None and private:
            self._uncounted.update(dict.fromkeys(hit.row.item for hit in found.hits))
            if time.monotonic() - self._counted >= COUNTED:
                self._count_uses()
        return self._answer(found, report, explain=options.explain)

    @one_at_a_time
    def turns(self, lines: Mapping[str, Sequence[int]]) -> dict[str, list[OtherTurn]]:
        """Return, by path, turns of conversations: what the user said, and turns around the given lines."""
        with self._file.open() as index:
            return {
                path: [_other_turn(row) for row in turns_around(index, self._visible, path, those)]
                for path, those in lines.items()
            }

    @one_at_a_time
    def close(self) -> None:
        """Close the index file; the next question opens it again."""
        self._count_uses()
        if self._fresh is not None:
            self._fresh.close()
        self._engine = self._fresh = None
        self._file.close()

    # ---------------------------------------------------------------- parts

    @functools.cached_property
    def _visible(self) -> Filter:
        """The filter for everything that this caller may see."""
        group = self.caller.audience is Audience.GROUP
        return self._corpus.filter._replace(places=tuple(scopes.visible(self.caller)), group=group)

    def _meaning(
        self, query: Query, options: Options, report: SyncReport, *, seconds: float
    ) -> tuple[SyncReport, Meaning]:
        """Return the report and a question's vector; if the model changed, first make all vectors again."""
        engine = self._get_engine()
        meaning = engine.meaning(query, options)
        if meaning.changed is None:
            return report, meaning
        said = self._freshness().sync.changed(meaning.changed)
        if said:
            self._file.trouble.append(said)
            report = self._freshness().compare(seconds=seconds)
        again = engine.meaning(query, options)
        return report, again

    def _ask(self, query: Query, options: Options, meaning: Meaning) -> Ranking:
        engine = self._get_engine()
        if self._rerank is not None and options.sort_by is None:
            options = options._replace(max_results=max(options.max_results, self._rerank.most))
        self._count_read()  # here, where a broken index is replaced
        with engine.index:
            return engine.search(query, self._visible, options, meaning)

    def _compare(
        self, *, seconds: float | None, check: bool, probe: bool, progress: Progress | None
    ) -> SyncReport:
        index, keeper = self._file.open(), self._freshness()
        if check and (problems := index.check()):
            raise IndexFailed(f"the index is damaged: {problems[0]}")
        keeper.sync.progress = progress
        try:
            report = keeper.compare(seconds=seconds, check=check)
            if probe:
                keeper.sync.probe(report)
            if check and not self._equals_rebuild(index):
                keeper.compare(seconds=seconds, check=True)  # a person may have saved meanwhile
                if not self._equals_rebuild(index):
                    raise IndexFailed("the index does not match the files")
        finally:
            keeper.sync.progress = None
        return report

    def _equals_rebuild(self, index: SqliteIndex) -> bool:
        """Return whether the index equals a new one; checksums do not show that a page is outdated.

        Vectors are not compared if the new index could not get all of them.
        """
        with contextlib.closing(SqliteIndex(":memory:")) as fresh:
            again = self._make_sync(fresh, None)
            pending = again.run(self._corpus.folders()).vectors_pending
            here, there = index.contents(again.filter), fresh.contents(again.filter)
            if pending:  # without a model vectors cannot be compared, and good ones are not discarded
                here, there = _without_vectors(here), _without_vectors(there)
            return there == here

    def _freshness(self) -> Freshness:
        index = self._file.open()
        if self._fresh is None or self._fresh.sync.index is not index:
            if self._fresh is not None:
                self._fresh.close()
            self._fresh = Freshness(self._make_sync(index, None), self._corpus)
        return self._fresh

    def _make_sync(self, index: Index, progress: Progress | None) -> Sync:
        return Sync(
            index,
            self._corpus.filter,
            embedder=self.lazy,
            tokens=self.shape.tokens,
            overlap=self.shape.overlap,
            progress=progress,
        )

    @property
    def _shared(self) -> tuple[str, ...]:
        """The beginnings of the paths that a group may know."""
        return tuple(
            f"{scope_folder.name_of(filenames.RECORDS)}/"
            for place in scopes.visible(self.caller)
            for scope_folder in scopes.scope_folders(self.home, self.caller, place)
        )

    def _get_engine(self) -> Engine:
        keeper = self._freshness()
        if self._engine is None or self._engine.index is not keeper.sync.index:
            self._engine = Engine(keeper.sync.index, keeper.sync, self._load_uses, self._read_by)
        return self._engine

    def _read_by(self) -> Embedder | None:
        """Return the reader model; None where there is none."""
        reading = self._reader()
        return None if reading is None else reading.model

    def _count_read(self) -> tuple[int, int]:
        """Return how many curated passages the model has read, and how many not; both numbers are cached."""
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
        """Add the results shown since the last call to the stored counts of uses."""
        shown, self._uncounted = self._uncounted, {}
        self._counted = time.monotonic()
        if self.state is not None and shown:
            self.state.used(shown, at=clock.now())

    def _load_uses(self, items: list[str]) -> dict[str, int]:
        self._count_uses()
        if self.state is None:
            return {}
        return {item: use.count for item, use in self.state.uses(items).items()}

    def _with_messages(self, report: SyncReport) -> SyncReport:
        told = replace(report, degraded=[*self._file.told, *report.degraded], unwritten=self._file.unwritten)
        report.degraded = _lasting_messages(report.degraded)
        return told

    def _with_team(self, found: Passage) -> Passage:
        """Return a passage with the name of the team that shares it, if there is a team."""
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
            *self._count_read(),
        )
        if self.caller.audience is Audience.GROUP:  # no names and numbers of invisible files
            findings = [each for each in findings if each.where.startswith(self._shared)]
            seen = self._file.open().stats(filter=self._visible)
            coverage = Coverage(seen.files, seen.indexed, 0, len(findings), 0)
        failed = len(findings)
        degraded = [*self._file.told, *report.degraded, *found.degraded]
        if coverage.pending:
            degraded.append(f"{report.pending} files are not indexed yet; run `vade index`")
        if failed:
            first = findings[0]
            degraded.append(
                f"{failed} file{'s' * (failed > 1)} could not be read, first {first.where}: {first.why}"
            )
        if coverage.unread > FEW_UNREAD and not found.by_words:
            degraded.append(
                f"{coverage.unread} passages are not read yet, and are found by their own words only;"
                f" `vade index` reads them now"
            )
        report.degraded = _lasting_messages(report.degraded)
        asked = None if found.by_words else self.embedder
        provider, model = ("none", "") if asked is None else (asked.provider, asked.model)
        return Answer(
            tuple(self._with_team(passage(hit, explain=explain)) for hit in found.hits),
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
    """Return the content of an index without the vectors of its chunks."""
    return {key: kept[:-1] for key, kept in contents.items()}


def _lasting_messages(said: list[str]) -> list[str]:
    """Return those messages that stay true until something changes; the others are reported only once."""
    return [each for each in said if each.startswith(NO_VECTORS)]


def passage(hit: RankedRow, *, explain: bool) -> Passage:
    """Return a search result in the form that callers get."""
    row, evidence = hit.row, hit.evidence
    return Passage(  # by position, which is faster: every question makes a page of them
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
        role=(row.speech.speaker or "") if row.mark.in_conversation else "",
    )


@functools.lru_cache(maxsize=64)
def _place(scope: str, id_: str) -> Place:
    return Place(Scope(scope), id_)


def _other_turn(row: ChunkRow) -> OtherTurn:
    return OtherTurn(row.start, row.speech.speaker or "", row.time or "", lambda: clean_text(row.body))
