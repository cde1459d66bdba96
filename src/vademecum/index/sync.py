"""Bringing the index up to date: by what files hold, never by when something was last done.

Events and stamps are hints that save reading; the comparison of content is what counts. Whatever state the
index is in, a sync makes it what a rebuild would make it.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderChanged, EmbedderFailed, Malformed, OutsideMemory
from vademecum.index.base import Filter, IndexDocument
from vademecum.index.corpus import read_document, to_embed
from vademecum.index.embed.base import PROBES, renews, within
from vademecum.store import files
from vademecum.store.catalogue import no_collection
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.index.base import ChunkRow, Index, IndexItem, KnownFile, Stack, Stamp
    from vademecum.index.embed.base import Embedder
    from vademecum.types import Place

    Waiting = tuple[IndexItem, KnownFile | None]

NO_VECTORS = "no new vectors"
_TURN = 0.5  # seconds that one transaction may last
_VECTORS = 512  # texts given to the embedder at once
_UPGRADE = 0.2  # seconds that a question may spend on rows of an earlier version


@dataclass(slots=True)
class SyncReport:
    """How much of what is there the index covers, and what happened to the rest."""

    files: int = 0
    indexed: int = 0
    changed: int = 0
    removed: int = 0
    pending: int = 0
    vectors_pending: int = 0
    unread: int = 0  # passages of what is curated that no model has read
    sessions_unread: int = 0  # the same of what was said, once any of it was read
    outdated: int = 0  # files that are found, and whose rows an earlier version made
    findings: list[Finding] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    ids: set[tuple[str, Place]] = field(default_factory=set, repr=False)  # of all files that are there
    beside: int = 0  # folders and sources that could not be looked into
    unwritten: str = ""  # why nothing of this is in a file, though it can be searched

    def count(self) -> None:
        """Work the numbers out again."""
        self.files = len(self.ids) + self.beside
        self.indexed = self.files - self.pending - len(self.findings)

    @property
    def coverage(self) -> float:
        """The share of files that can be found, from 0 to 1."""
        return 1.0 if not self.files else self.indexed / self.files


@dataclass(slots=True)
class Survey:
    """What the index covers now, found without changing anything."""

    files: int = 0
    indexed: int = 0
    pending: int = 0  # not in it yet
    stale: int = 0  # in it as they were before
    gone: int = 0  # in it, and no longer there
    vectors_pending: int = 0
    unread: int = 0  # passages of what is curated that no model has read
    sessions_unread: int = 0  # the same of what was said, once any of it was read
    chunks: int = 0
    failed: list[Finding] = field(default_factory=list)
    trouble: str = ""


class Sync:
    """Brings one index up to date with what its caller can see."""

    def __init__(
        self,
        index: Index,
        filter: Filter,
        *,
        embedder: Callable[[], Embedder | None],
        tokens: int = 400,
        overlap: int = 80,
        progress: Callable[[str, int, int], None] | None = None,
        text_of: Callable[[ChunkRow], str] = to_embed,
    ) -> None:
        self.index, self.filter, self._text_of = index, filter, text_of
        self._embedder, self.tokens, self.overlap = embedder, tokens, overlap
        self.progress = progress  # told what is done: how many of how many

    def run(
        self,
        found: Iterable[Stack | Finding],
        *,
        seconds: float | None = None,
        check: bool = False,
        vectors: bool = True,
    ) -> SyncReport:
        """Bring the index up to date, within a time if one is given; `check` reads every file again.

        Without `vectors`, those are left for whoever needs them.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        report = SyncReport()
        self.renew(report, vectors=vectors)
        waiting, outdated = self._compare(found, report, check=check)
        self._take_all(waiting, report, deadline)
        self._upgrade(outdated, report, deadline)
        if vectors:
            self.embed(report, deadline)
        else:
            report.vectors_pending = self._without_vectors()
        report.count()
        if not report.pending:
            self.index.put(last=True)
        return report

    def survey(self, found: Iterable[Stack | Finding]) -> Survey:
        """Compare the index with what is there, and leave both as they are."""
        survey = Survey(chunks=self.index.stats().chunks)
        with no_collection():
            known = self.index.known(self.filter)
        for stack in found:
            if isinstance(stack, Finding):
                survey.failed.append(stack)
                survey.files += 1
                continue
            failed: list[Finding] = []
            wrong: list[Finding] = []
            try:
                for name, stamp in stack.states():
                    survey.files += 1
                    old = known.pop(f"{stack.prefix}/{name}", None)
                    if old is None:
                        survey.pending += 1
                    elif old.stamp != stamp:
                        survey.stale += 1
                    elif old.reason:
                        failed.append(_not_indexed(f"{stack.shown}/{name}", old.reason))
                    else:
                        survey.indexed += 1
            except (OutsideMemory, OSError) as error:
                wrong.append(_unreadable(stack, error))
                survey.files += 1
            survey.failed += [*sorted(failed), *wrong]
        survey.gone = len(known)
        if self.embedder is not None:
            survey.vectors_pending = self._waiting()
        return survey

    def run_some(
        self,
        hints: Iterable[tuple[Stack, str]],
        report: SyncReport,
        *,
        seconds: float,
        vectors: bool = True,
    ) -> SyncReport:
        """Bring the index up to date with a few files by name, and the last report with it."""
        deadline = time.monotonic() + seconds
        report.changed = report.removed = 0
        report.degraded = []
        waiting = []
        for stack, name in hints:
            if not stack.wanted(name):
                continue
            path = f"{stack.shown}/{name}"
            report.findings = [each for each in report.findings if each.where != path]
            if not _is_text(name):
                report.findings.append(_not_text(path))
                continue
            here = Filter((stack.place,), stack.root, items=(f"{stack.prefix}/{name}",))
            known = self.index.known(here).get(f"{stack.prefix}/{name}")
            try:
                stamp = stack.state(name)
            except (OutsideMemory, OSError) as error:
                report.findings.append(_unreadable(stack, error))
                continue
            id_ = (f"{stack.prefix}/{name}", stack.place)
            if stamp is None:
                report.ids.discard(id_)
                if known is not None:
                    self.index.drop([known.id])
                    report.removed += 1
                continue
            report.ids.add(id_)
            item = stack.item(name, stamp)
            if known is None or known.stamp != stamp or known.labels != item.labels:
                waiting.append((item, known))
            elif known.reason:
                report.findings.append(_not_indexed(path, known.reason))
        before = report.pending  # what an earlier look left over is still to be read
        self._take_all(waiting, report, deadline)
        report.pending += before
        if vectors:
            self.embed(report, deadline)
        else:
            report.vectors_pending = self._without_vectors()
        report.count()
        return report

    @property
    def identity(self) -> tuple[str, str | None]:
        """What the keywords and the vectors of this index depend on."""
        vectors = None if self.embedder is None else f"{self.embedder.identity} {self.tokens}/{self.overlap}"
        return self._keywords, vectors

    @property
    def _keywords(self) -> str:
        """How texts become passages and stems; an index that was made in another way is made anew."""
        return f"{self.tokens}/{self.overlap} {self.index.stemming}".rstrip()

    @property
    def embedder(self) -> Embedder | None:
        """What makes vectors; asked for when it is needed, since it may be slow to load."""
        return self._embedder()

    def agrees(self, *, vectors: bool) -> bool:
        """Whether the index was made with these settings; without `vectors`, its words."""
        if self._setting("keywords") != self._keywords:
            return False
        return not vectors or self.identity[1] in (None, self._setting("vectors"))

    def _without_vectors(self) -> int:
        """How many chunks wait for vectors, in an index that has any."""
        return 0 if self._setting("vectors") is None else self._waiting()

    def _waiting(self) -> int:
        return self.index.stats(filter=self.filter._replace(bare=True)).waiting

    def _setting(self, name: str) -> str | None:
        return self.index.stats().settings.get(name)

    def renew(self, report: SyncReport, *, vectors: bool) -> None:
        """Start over with the half of the index that other settings have made."""
        if self.agrees(vectors=vectors):
            return
        keywords, made_by = self.identity
        settings = {"keywords": keywords}
        others = made_by is not None and self._setting("vectors") != made_by
        if made_by is not None and others:
            if self._setting("vectors") is not None:
                report.degraded.append(self._why_anew())
            settings["vectors"] = made_by
        every = self._setting("keywords") not in (None, keywords)
        self.index.drop(None if every else (), vectors=others, settings=settings)

    def _why_anew(self) -> str:
        """What to say when vectors are made anew: another model, or texts that are cut elsewhere."""
        before = (self._setting("vectors") or "").rpartition(" ")[0]
        same = self.embedder is not None and self.embedder.identity == before
        return f"another {'chunk size' if same else 'embedder'}: all vectors will be rebuilt"

    def changed(self, error: EmbedderChanged) -> str:
        """Start over with the vectors if the model does give other ones now, and say so; else say nothing."""
        embedder = self.embedder
        if renews(embedder) and not embedder.renew(error.dimension):
            return ""
        return self.start_over(error.dimension)

    def probe(self, report: SyncReport) -> None:
        """Ask the model for one vector, to find out whether it is still the one that made these."""
        embedder = self.embedder
        if embedder is None or not renews(embedder) or self._setting("dimension") is None:
            return
        try:
            said = self.start_over(embedder.embed(PROBES[:1], query=True).shape[1])
        except EmbedderChanged as error:
            said = self.changed(error)
        except EmbedderFailed:
            return  # what needs it says so
        if said:
            report.degraded.append(said)
            self.embed(report, None)

    def start_over(self, dimension: int) -> str:
        """Drop vectors of another length than the model's, and say so; those of this one stay."""
        known = self._setting("dimension")
        if known == str(dimension):
            return ""
        self.index.drop((), vectors=True)
        before = f" instead of {known}" if known else ""
        return f"the model now returns {dimension} dimensions{before}: all vectors will be rebuilt"

    def _compare(
        self, found: Iterable[Stack | Finding], report: SyncReport, *, check: bool
    ) -> tuple[list[Waiting], list[Waiting]]:
        """What has to be read, and what an earlier version has read; what has left is taken out at once."""
        with no_collection():
            known = self.index.known(self.filter)
        waiting: list[Waiting] = []
        outdated: list[Waiting] = []
        for stack in found:
            if isinstance(stack, Finding):
                report.findings.append(stack)
                report.beside += 1
                continue
            try:
                labels = (stack.source, stack.kind, stack.root)
                with no_collection():
                    here = stack.states() if check else _changed(stack, labels, known, report.ids)
                    different = sorted(here)
                for name, stamp in different:
                    id_, path = f"{stack.prefix}/{name}", f"{stack.shown}/{name}"
                    if (id_, stack.place) in report.ids:  # a source may lie inside another
                        continue
                    report.ids.add((id_, stack.place))
                    if not _is_text(name):
                        report.findings.append(_not_text(path))
                        continue
                    old = known.pop(id_, None)
                    if old is None or check or old.stamp != stamp or old.labels != (path, *labels):
                        waiting.append((stack.item(name, stamp), old))
                    elif old.reason:
                        report.findings.append(_not_indexed(path, old.reason))
                    elif old.outdated:
                        outdated.append((stack.item(name, stamp), old))
            except (OutsideMemory, OSError) as error:
                report.beside += 1
                report.findings.append(_unreadable(stack, error))
        if known:
            self.index.drop([gone.id for gone in known.values()])
            report.removed += len(known)
        return waiting, outdated

    def _upgrade(self, outdated: Sequence[Waiting], report: SyncReport, deadline: float | None) -> None:
        """Bring rows of an earlier version up to date, a few at a time: they are found all the while."""
        if not outdated:
            return
        until = None if deadline is None else min(deadline, time.monotonic() + _UPGRADE)
        changed = report.changed
        done = self._take_some(outdated, report, until)
        report.changed = changed  # they say what they said
        report.outdated = len(outdated) - done

    def _take_all(self, waiting: Sequence[Waiting], report: SyncReport, deadline: float | None) -> None:
        """Take files in, in short transactions, so that a waiting writer gets its turn between two."""
        report.pending = len(waiting) - self._take_some(waiting, report, deadline)

    def _take_some(self, waiting: Sequence[Waiting], report: SyncReport, deadline: float | None) -> int:
        """Take in as many files as there is time for, and say how many."""
        done = 0
        while done < len(waiting) and not _over(deadline):
            gone: list[int] = []
            turn = time.monotonic() + _TURN

            def documents(turn: float = turn, gone: list[int] = gone) -> Iterator[IndexDocument]:
                nonlocal done
                while done < len(waiting) and not _over(deadline) and not _over(turn):
                    item, known = waiting[done]
                    document = self._read(item, known, report)
                    if document is not None:
                        yield document
                    elif known is not None:
                        gone.append(known.id)
                    done += 1

            self.index.put(documents())
            if gone:
                self.index.drop(gone)
            if self.progress is not None:
                self.progress("files", done, len(waiting))
        return done

    def _read(self, item: IndexItem, known: KnownFile | None, report: SyncReport) -> IndexDocument | None:
        """One file as it is now; None when it is gone."""
        try:
            content = item.load()
            if content is None:
                report.ids.discard((item.id, item.place))
                return None
            digest = files.digest(content)
            same = known is not None and known.hash == digest and known.labels == item.labels
            if known is not None and same and not known.outdated:
                return IndexDocument(item, digest)
            document = read_document(item, content, digest, tokens=self.tokens, overlap=self.overlap)
        except (Malformed, OutsideMemory, OSError) as error:
            reason = str(error)
            report.findings.append(_not_indexed(item.path, reason))
            return IndexDocument(item, "", reason=reason)
        report.changed += 1
        return document

    def embed(self, report: SyncReport, deadline: float | None) -> None:
        """Make the vectors that are missing."""
        report.vectors_pending = 0
        total = 0 if self.embedder is None else self._waiting()
        if self.embedder is None or not total:
            return
        from vademecum.index.vectors import pack  # and numpy with it, which words alone do without

        done = 0
        renewed = False
        bare = self.filter._replace(bare=True)
        while waiting := self.index.rows(self.index.match((), bare, _VECTORS)):
            if _over(deadline):
                report.vectors_pending = self._waiting()
                return
            try:
                with within(deadline):
                    made = self.embedder.embed([self._text_of(row) for row in waiting.values()])
                settings = {"dimension": self._one_length(made.shape[1])}
                self.index.put(vectors=zip(waiting, pack(made), strict=True), settings=settings)
            except EmbedderChanged as error:
                said = "" if renewed else self.changed(error)
                renewed = True
                if said or self._setting("dimension") == str(error.dimension):
                    report.degraded += [said] if said else []
                    total = self._waiting()
                    continue
                self._no_vectors(report, error)
                return
            except EmbedderFailed as error:
                self._no_vectors(report, error)
                return
            done += len(waiting)
            if self.progress is not None:
                self.progress("vectors", done, max(done, total))

    def _no_vectors(self, report: SyncReport, error: EmbedderFailed) -> None:
        report.vectors_pending = self._waiting()
        report.degraded.append(f"{NO_VECTORS}: {error}")

    def _one_length(self, length: int) -> str:
        """Refuse vectors of another length than those that are here: they cannot be compared."""
        known = self._setting("dimension")
        if known is not None and known != str(length):
            raise EmbedderChanged(
                f"the model now returns {length} dimensions, and the index has {known}",
                dimension=length,
            )
        return str(length)


def _changed(
    stack: Stack, labels: tuple[str, ...], known: dict[str, KnownFile], ids: set[tuple[str, Place]]
) -> Iterator[tuple[str, Stamp]]:
    """The files of a stack but for those, nearly all of many thousands, that are known just as they are."""
    prefix, shown, place = stack.prefix, stack.shown, stack.place
    for name, stamp in stack.states():
        id_ = f"{prefix}/{name}"
        old = known.get(id_)
        same = old is not None and old.stamp == stamp and old.labels == (f"{shown}/{name}", *labels)
        mark = id_, place
        if same and old and not old.reason and not old.outdated and name.isascii() and mark not in ids:
            ids.add(mark)
            del known[id_]
        else:
            yield name, stamp


def _not_indexed(path: str, reason: str) -> Finding:
    return Finding("not indexed", path, reason, severity="warning")


def _unreadable(stack: Stack, error: Exception) -> Finding:
    why = str(getattr(error, "strerror", None) or error)
    return Finding("unreadable", stack.shown, why, severity="error")


def _is_text(name: str) -> bool:
    """Whether a name can be written down; a file system takes any bytes."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def _not_text(path: str) -> Finding:
    shown = path.encode("utf-8", "backslashreplace").decode()
    return Finding("not indexed", shown, "its name is not text; rename it", severity="warning")


def _over(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
