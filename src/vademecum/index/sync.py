"""Bringing the index up to date: by what files hold, never by when something was last done.

Events and stamps are hints that save reading; the comparison of content is what counts. Whatever state the
index is in, a sync makes it what a rebuild would make it.
"""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderFailed, Malformed, OutsideMemory
from vademecum.store import files
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.index.base import Corpus, Item
    from vademecum.index.embed.base import Embedder
    from vademecum.index.sqlite import Index, Known
    from vademecum.types import Place

_BATCH = 64  # files in one transaction: a waiting writer gets its turn between two
_VECTORS = 256  # texts given to the embedder at once


@dataclass(slots=True)
class Report:
    """How much of what is there the index covers, and what happened to the rest."""

    files: int = 0
    indexed: int = 0
    changed: int = 0
    removed: int = 0
    pending: int = 0
    vectors_pending: int = 0
    findings: list[Finding] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)

    @property
    def coverage(self) -> float:
        """The share of files that can be found, from 0 to 1."""
        return 1.0 if not self.files else self.indexed / self.files


@dataclass(frozen=True, slots=True)
class Sync:
    """Everything a sync needs to know."""

    index: Index
    corpora: Sequence[Corpus]
    places: Sequence[Place]
    embedder: Embedder | None
    tokens: int = 400
    overlap: int = 80

    def run(self, *, seconds: float | None = None, check: bool = False) -> Report:
        """Bring the index up to date, within a time if one is given; `check` reads every file again."""
        deadline = None if seconds is None else time.monotonic() + seconds
        report = Report()
        self._renew(report)
        waiting = self._compare(report, check=check)
        for batch in _batched(waiting, _BATCH):
            if deadline is not None and time.monotonic() >= deadline:
                report.pending += len(batch)
                continue
            with self.index.writing():
                for item, known in batch:
                    self._take(item, known, report)
        self._embed(report, deadline)
        report.indexed = report.files - report.pending - len(report.findings)
        return report

    def _renew(self, report: Report) -> None:
        """Start over with the half of the index that other settings have made."""
        keywords = f"{self.tokens}/{self.overlap}"
        vectors = None if self.embedder is None else f"{self.embedder.identity} {keywords}"
        if self.index.meta("keywords") == keywords and vectors in (None, self.index.meta("vectors")):
            return
        with self.index.writing():
            if self.index.meta("keywords") not in (None, keywords):
                for known in self.index.known().values():
                    self.index.remove(known.id)
            self.index.remember("keywords", keywords)
            if vectors is not None and self.index.meta("vectors") != vectors:
                if self.index.meta("vectors") is not None:
                    report.degraded.append("another embedder: all vectors are made anew")
                self.index.drop_vectors()
                self.index.remember("vectors", vectors)

    def _compare(self, report: Report, *, check: bool) -> list[tuple[Item, Known | None]]:
        """What has to be read; what has left is taken out at once."""
        wanted = {(str(place.scope), place.id) for place in self.places}
        known = self.index.known(wanted)
        waiting = []
        for item in itertools.chain.from_iterable(corpus.items() for corpus in self.corpora):
            if isinstance(item, Finding):
                report.findings.append(item)
                report.files += 1
                continue
            report.files += 1
            old = known.pop(item.id, None)
            if old is None or check or old.stamp != tuple(item.stamp):
                waiting.append((item, old))
            elif old.reason:
                report.findings.append(Finding("not indexed", item.path, old.reason, severity="warning"))
        if known:
            with self.index.writing():
                for gone in known.values():
                    self.index.remove(gone.id)
                    report.removed += 1
        return waiting

    def _take(self, item: Item, known: Known | None, report: Report) -> None:
        """Read one file and put it in, unless it holds what it held."""
        try:
            content = item.load()
            if content is None:
                if known is not None:
                    self.index.remove(known.id)
                report.files -= 1
                return
            digest = files.digest(content)
            if known is not None and known.hash == digest:
                self.index.touch(known.id, item.stamp)
                return
            self.index.add(item, content, digest, tokens=self.tokens, overlap=self.overlap)
            report.changed += 1
        except (Malformed, OutsideMemory, OSError) as error:
            reason = str(error)
            self.index.fail(item, reason)
            report.findings.append(Finding("not indexed", item.path, reason, severity="warning"))

    def _embed(self, report: Report, deadline: float | None) -> None:
        """Make the vectors that are missing."""
        if self.embedder is None:
            return
        from vademecum.index.matrix import pack

        while waiting := self.index.without_vectors(_VECTORS):
            if deadline is not None and time.monotonic() >= deadline:
                report.vectors_pending = self.index.count_without_vectors()
                return
            try:
                made = self.embedder.embed([text for _, text in waiting])
            except EmbedderFailed as error:
                report.vectors_pending = self.index.count_without_vectors()
                report.degraded.append(f"no new vectors: {error}")
                return
            with self.index.writing():
                self.index.put_vectors(zip((id_ for id_, _ in waiting), pack(made), strict=True))


def _batched(
    waiting: Iterable[tuple[Item, Known | None]], size: int
) -> Iterable[list[tuple[Item, Known | None]]]:
    iterator = iter(waiting)
    while batch := list(itertools.islice(iterator, size)):
        yield batch
