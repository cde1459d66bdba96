"""Bring the index up to date by the content of the files.

Events and stamps only save the reading of unchanged files. Whatever state the index is in, a sync makes it
equal to a rebuilt index.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vademecum.errors import EmbedderChanged, EmbedderFailed, Malformed, OutsideMemory
from vademecum.index.base import Filter, IndexDocument
from vademecum.index.corpus import NOT_READ_NOW, is_conversation, may_pass, read_document, to_embed
from vademecum.index.embed.base import PROBES, renews, within
from vademecum.store import files
from vademecum.store.view import no_collection
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.index.base import ChunkRow, Index, IndexedFolder, IndexItem, KnownFile, Stamp
    from vademecum.index.embed.base import Embedder
    from vademecum.index.embed.select import LazyEmbedder
    from vademecum.types import Place

    Waiting = tuple[IndexItem, KnownFile | None]

NO_VECTORS = "no new vectors"
_TURN = 0.5  # seconds of one transaction
_VECTORS = 512  # texts that the embedder gets at once
# Behind the hash of a file that was cut with regard to turns. A file without it was indexed before; it is
# read once more, and cut again only if it holds a conversation.
_BY_TURNS = "/turns"
_SPOKEN = frozenset({"markdown", "journal"})  # kinds of files that may hold conversations


@dataclass(slots=True)
class SyncReport:
    """The result of a sync: how much the index covers, and what was changed."""

    files: int = 0
    indexed: int = 0
    changed: int = 0
    removed: int = 0
    pending: int = 0
    vectors_pending: int = 0
    unread: int = 0  # curated passages that no model has read
    sessions_unread: int = 0  # unread passages of sessions, if any were read
    findings: list[Finding] = field(default_factory=list)
    degraded: list[str] = field(default_factory=list)
    ids: set[tuple[str, Place]] = field(default_factory=set, repr=False)  # of all present files
    unreadable: int = 0  # unreadable folders and sources
    unwritten: str = ""  # why the index is in memory only

    def count(self) -> None:
        """Set the numbers of all files and of indexed files from the other fields."""
        self.files = len(self.ids) + self.unreadable
        self.indexed = self.files - self.pending - len(self.findings)

    @property
    def coverage(self) -> float:
        """The share of files that a search can find, from 0 to 1."""
        return 1.0 if not self.files else self.indexed / self.files


@dataclass(slots=True)
class Survey:
    """Numbers on how much the index covers, found without changing the index."""

    files: int = 0
    indexed: int = 0
    pending: int = 0  # not in the index yet
    stale: int = 0  # in the index with earlier content
    gone: int = 0  # in the index, but deleted
    vectors_pending: int = 0
    unread: int = 0  # passages of what is curated that no model has read
    sessions_unread: int = 0  # the same of what was said, once any of it was read
    chunks: int = 0
    failed: list[Finding] = field(default_factory=list)
    trouble: str = ""


class Sync:
    """An updater that brings one index up to date with everything its caller can see."""

    def __init__(
        self,
        index: Index,
        filter: Filter,
        *,
        embedder: LazyEmbedder,
        tokens: int = 400,
        overlap: int = 80,
        progress: Callable[[str, int, int], None] | None = None,
        text_of: Callable[[ChunkRow], str] = to_embed,
    ) -> None:
        self.index, self.filter, self._text_of = index, filter, text_of
        self.lazy, self.tokens, self.overlap = embedder, tokens, overlap
        self.progress = progress  # called with what is done, how many, and of how many

    def run(
        self,
        found: Iterable[IndexedFolder | Finding],
        *,
        seconds: float | None = None,
        check: bool = False,
        vectors: bool = True,
    ) -> SyncReport:
        """Bring the index up to date, within a time if `seconds` is given; `check` reads every file again.

        Without `vectors`, missing vectors stay missing until a question needs them.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        report = SyncReport()
        self.renew(report, vectors=vectors)
        waiting = self._compare(found, report, check=check)
        self._index_all(waiting, report, deadline)
        if vectors:
            self.embed(report, deadline)
        else:
            report.vectors_pending = self._without_vectors()
        report.count()
        if not report.pending:
            self.index.put(last=True)
        return report

    def survey(self, found: Iterable[IndexedFolder | Finding]) -> Survey:
        """Return in numbers how much of the files the index covers, without changing either."""
        survey = Survey(chunks=self.index.stats().chunks)
        with no_collection():
            known = self.index.known(self.filter)
        for folder in found:
            if isinstance(folder, Finding):
                survey.failed.append(folder)
                survey.files += 1
                _keep(known, folder.where if folder.what == NOT_READ_NOW else None)
                continue
            failed: list[Finding] = []
            wrong: list[Finding] = []
            try:
                for name, stamp in folder.states():
                    survey.files += 1
                    old = known.pop(f"{folder.prefix}/{name}", None)
                    if old is None:
                        survey.pending += 1
                    elif old.stamp != stamp:
                        survey.stale += 1
                    elif old.reason:
                        failed.append(_not_indexed(f"{folder.shown}/{name}", old.reason))
                    else:
                        survey.indexed += 1
            except (OutsideMemory, OSError) as error:
                _keep(known, folder.prefix if may_pass(error) else None)
                wrong.append(_unreadable(folder, error))
                survey.files += 1
            survey.failed += [*sorted(failed), *wrong]
        survey.gone = len(known)
        if self.embedder is not None:
            survey.vectors_pending = self._waiting()
        return survey

    def run_files(
        self,
        hints: Iterable[tuple[IndexedFolder, str]],
        report: SyncReport,
        *,
        seconds: float,
        vectors: bool = True,
    ) -> SyncReport:
        """Bring the index and the last report up to date with the few files that `hints` names.

        Without `vectors`, missing vectors stay missing. After `seconds`, the rest stays pending.
        """
        deadline = time.monotonic() + seconds
        report.changed = report.removed = 0
        report.degraded = []
        waiting = []
        for folder, name in hints:
            if not folder.wanted(name):
                continue
            path = f"{folder.shown}/{name}"
            report.findings = [each for each in report.findings if each.where != path]
            if not _is_text(name):
                report.findings.append(_not_text(path))
                continue
            here = Filter((folder.place,), folder.root, items=(f"{folder.prefix}/{name}",))
            known = self.index.known(here).get(f"{folder.prefix}/{name}")
            try:
                stamp = folder.state(name)
            except (OutsideMemory, OSError) as error:
                report.findings.append(_unreadable(folder, error))
                continue
            id_ = (f"{folder.prefix}/{name}", folder.place)
            if stamp is None:
                report.ids.discard(id_)
                if known is not None:
                    self.index.drop([known.id])
                    report.removed += 1
                continue
            report.ids.add(id_)
            item = folder.item(name, stamp)
            if known is None or known.stamp != stamp or known.labels != item.labels:
                waiting.append((item, known))
            elif known.reason:
                report.findings.append(_not_indexed(path, known.reason))
        before = report.pending  # files left over by an earlier sync still wait
        self._index_all(waiting, report, deadline)
        report.pending += before
        if vectors:
            self.embed(report, deadline)
        else:
            report.vectors_pending = self._without_vectors()
        report.count()
        return report

    @property
    def identity(self) -> tuple[str, str | None]:
        """The settings that the keywords of this index depend on, and those that its vectors depend on."""
        vectors = None if self.embedder is None else f"{self.embedder.identity} {self.tokens}/{self.overlap}"
        return self._keywords, vectors

    @property
    def _keywords(self) -> str:
        """The settings on which passages and stems depend; an index made with others is made anew."""
        return f"{self.tokens}/{self.overlap} {self.index.stemming}".rstrip()

    @property
    def embedder(self) -> Embedder | None:
        """The embedder that makes vectors; None where there is none."""
        return self.lazy.embedder

    def has_same_settings(self, *, vectors: bool) -> bool:
        """Return whether the present settings made the index; with `vectors`, those of vectors count too."""
        if self._setting("keywords") != self._keywords:
            return False
        return not vectors or self.identity[1] in (None, self._setting("vectors"))

    def _without_vectors(self) -> int:
        """Return how many chunks lack a vector; 0 in an index that has no vectors at all."""
        return 0 if self._setting("vectors") is None else self._waiting()

    def _waiting(self) -> int:
        return self.index.stats(filter=self.filter._replace(bare=True)).waiting

    def _setting(self, name: str) -> str | None:
        return self.index.stats().settings.get(name)

    def renew(self, report: SyncReport, *, vectors: bool) -> None:
        """Remove all files, all vectors, or both, if other settings made them; store the present settings.

        Without `vectors`, nothing is removed if only the settings of vectors differ.
        """
        if self.has_same_settings(vectors=vectors):
            return
        keywords, made_by = self.identity
        settings = {"keywords": keywords}
        others = made_by is not None and self._setting("vectors") != made_by
        if made_by is not None and others:
            if self._setting("vectors") is not None:
                report.degraded.append(self._explain_reset())
            settings["vectors"] = made_by
        every = self._setting("keywords") not in (None, keywords)
        self.index.drop(None if every else (), vectors=others, settings=settings)

    def _explain_reset(self) -> str:
        """Return the reason why vectors are made anew: another model, or another size of passages."""
        before = (self._setting("vectors") or "").rpartition(" ")[0]
        same = self.embedder is not None and self.embedder.identity == before
        return f"another {'chunk size' if same else 'embedder'}: all vectors will be rebuilt"

    def changed(self, error: EmbedderChanged) -> str:
        """Remove all vectors if the model's vectors really have another length now.

        Return a message about that, or '' when nothing was removed.
        """
        embedder = self.embedder
        if renews(embedder) and not embedder.renew(error.dimension):
            return ""
        return self.reset_vectors(error.dimension)

    def probe(self, report: SyncReport) -> None:
        """Ask the model for one vector; if its length is not the stored one, make all vectors again.

        Nothing is asked if the model cannot change, or if there are no stored vectors.
        """
        embedder = self.embedder
        if embedder is None or not renews(embedder) or self._setting("dimension") is None:
            return
        try:
            problem = self.reset_vectors(embedder.embed(PROBES[:1], query=True).shape[1])
        except EmbedderChanged as error:
            problem = self.changed(error)
        except EmbedderFailed:
            return  # the question that needs vectors will report it
        if problem:
            report.degraded.append(problem)
            self.embed(report, None)

    def reset_vectors(self, dimension: int) -> str:
        """Remove all vectors unless this is their stored dimension.

        Return a message about the removal, or '' when nothing was removed.
        """
        known = self._setting("dimension")
        if known == str(dimension):
            return ""
        self.index.drop((), vectors=True)
        before = f" instead of {known}" if known else ""
        return f"the model now returns {dimension} dimensions{before}: all vectors will be rebuilt"

    def _compare(
        self, found: Iterable[IndexedFolder | Finding], report: SyncReport, *, check: bool
    ) -> list[Waiting]:
        """Return the files that must be read, and remove files that were not found from the index.

        With `check`, all files must be read.
        """
        with no_collection():
            known = self.index.known(self.filter)
        waiting: list[Waiting] = []
        for folder in found:
            if isinstance(folder, Finding):
                report.findings.append(folder)
                report.unreadable += 1
                _keep(known, folder.where if folder.what == NOT_READ_NOW else None)
                continue
            try:
                labels = (folder.source, folder.kind, folder.root)
                with no_collection():
                    here = folder.states() if check else _changed(folder, labels, known, report.ids)
                    different = sorted(here)
                for name, stamp in different:
                    id_, path = f"{folder.prefix}/{name}", f"{folder.shown}/{name}"
                    if (id_, folder.place) in report.ids:  # a source may lie inside another one
                        continue
                    report.ids.add((id_, folder.place))
                    if not _is_text(name):
                        report.findings.append(_not_text(path))
                        continue
                    old = known.pop(id_, None)
                    if (
                        old is None
                        or check
                        or old.stamp != stamp
                        or old.labels != (path, *labels)
                        or _is_cut_without_turns(old, folder.kind)
                    ):
                        waiting.append((folder.item(name, stamp), old))
                    elif old.reason:
                        report.findings.append(_not_indexed(path, old.reason))
            except (OutsideMemory, OSError) as error:
                _keep(known, folder.prefix if may_pass(error) else None)
                report.unreadable += 1
                report.findings.append(_unreadable(folder, error))
        if known:
            self.index.drop([gone.id for gone in known.values()])
            report.removed += len(known)
        return waiting

    def _index_all(self, waiting: Sequence[Waiting], report: SyncReport, deadline: float | None) -> None:
        """Index files in short transactions, so that other processes can write between two of them."""
        report.pending = len(waiting) - self._index_some(waiting, report, deadline)

    def _index_some(self, waiting: Sequence[Waiting], report: SyncReport, deadline: float | None) -> int:
        """Index as many of the waiting files as there is time for, and return their number."""
        done = 0
        while done < len(waiting) and not _is_past(deadline):
            gone: list[int] = []
            turn = time.monotonic() + _TURN

            def documents(turn: float = turn, gone: list[int] = gone) -> Iterator[IndexDocument]:
                nonlocal done
                while done < len(waiting) and not _is_past(deadline) and not _is_past(turn):
                    item, known = waiting[done]
                    try:
                        document = self._read(item, known, report)
                    except OSError as error:  # the index keeps the file as it was; the next sync reads it
                        report.findings.append(_not_indexed(item.path, _tell_kept(error)))
                        done += 1
                        continue
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
        """Read a file and return it with its passages; return None when the file no longer exists.

        The document has no passages if the content is unchanged, and the reason if the file cannot be
        indexed. An error that may pass is raised.
        """
        try:
            content = item.load()
            if content is None:
                report.ids.discard((item.id, item.place))
                return None
            digest = files.digest(content)
            same = known is not None and known.hash.removesuffix(_BY_TURNS) == digest
            digest += _BY_TURNS if item.kind in _SPOKEN else ""
            same = known is not None and same and known.labels == item.labels
            cut = known is not None and known.hash == digest
            if known is not None and same and (cut or not is_conversation(content, kind=item.kind)):
                return IndexDocument(item, digest)
            document = read_document(item, content, digest, tokens=self.tokens, overlap=self.overlap)
        except (Malformed, OutsideMemory, OSError) as error:
            if may_pass(error):
                raise
            reason = str(error)
            report.findings.append(_not_indexed(item.path, reason))
            return IndexDocument(item, "", reason=reason)
        report.changed += 1
        return document

    def embed(self, report: SyncReport, deadline: float | None) -> None:
        """Make the missing vectors and store them, until the deadline."""
        report.vectors_pending = 0
        total = 0 if self.embedder is None else self._waiting()
        if self.embedder is None or not total:
            return
        from vademecum.index.vectors import pack  # and numpy with it, which words alone do without

        done = 0
        renewed = False
        bare = self.filter._replace(bare=True)
        while waiting := self.index.rows(self.index.match((), bare, _VECTORS)):
            if _is_past(deadline):
                report.vectors_pending = self._waiting()
                return
            try:
                with within(deadline):
                    made = self.embedder.embed([self._text_of(row) for row in waiting.values()])
                settings = {"dimension": self._one_length(made.shape[1])}
                self.index.put(vectors=zip(waiting, pack(made), strict=True), settings=settings)
            except EmbedderChanged as error:
                problem = "" if renewed else self.changed(error)
                renewed = True
                if problem or self._setting("dimension") == str(error.dimension):
                    report.degraded += [problem] if problem else []
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
        """Return a length of vectors as a setting; raise EmbedderChanged if stored vectors have another."""
        known = self._setting("dimension")
        if known is not None and known != str(length):
            raise EmbedderChanged(
                f"the model now returns {length} dimensions, and the index has {known}",
                dimension=length,
            )
        return str(length)


def _changed(
    folder: IndexedFolder, labels: tuple[str, ...], known: dict[str, KnownFile], ids: set[tuple[str, Place]]
) -> Iterator[tuple[str, Stamp]]:
    """Yield the files of a folder that may have changed; move the unchanged ones from `known` to `ids`.

    Files that could not be indexed are yielded as well, so that they are reported again.
    """
    prefix, display_prefix, place = folder.prefix, folder.shown, folder.place
    for name, stamp in folder.states():
        id_ = f"{prefix}/{name}"
        old = known.get(id_)
        same = old is not None and old.stamp == stamp and old.labels == (f"{display_prefix}/{name}", *labels)
        mark = id_, place
        if old and _is_cut_without_turns(old, folder.kind):
            same = False
        if same and old and not old.reason and name.isascii() and mark not in ids:
            ids.add(mark)
            del known[id_]
        else:
            yield name, stamp


def _is_cut_without_turns(known: KnownFile, kind: str) -> bool:
    """Return whether a file was indexed before conversations in files of its kind were cut by turns."""
    return kind in _SPOKEN and known.reason is None and not known.hash.endswith(_BY_TURNS)


def _not_indexed(path: str, reason: str) -> Finding:
    return Finding("not indexed", path, reason, severity="warning")


def _unreadable(folder: IndexedFolder, error: Exception) -> Finding:
    why = _tell_kept(error) if may_pass(error) else str(getattr(error, "strerror", None) or error)
    return Finding("unreadable", folder.shown, why, severity="error")


def _tell_kept(error: Exception) -> str:
    """Return why a file or folder is not read now, and that its earlier passages are searched."""
    why = str(getattr(error, "strerror", None) or error)
    return f"{why}; what was indexed before is searched, and the next search tries again"


def _keep(known: dict[str, KnownFile], folder: str | None) -> None:
    """Remove the files below a folder, if one is given, from `known`: files left there leave the index."""
    if folder is not None:
        for id_ in [each for each in known if each.startswith(f"{folder}/")]:
            del known[id_]


def _is_text(name: str) -> bool:
    """Return whether a file's name is valid text, since a file system accepts any bytes."""
    return name.isascii() or not any("\ud800" <= each <= "\udfff" for each in name)


def _not_text(path: str) -> Finding:
    display_path = path.encode("utf-8", "backslashreplace").decode()
    return Finding("not indexed", display_path, "its name is not text; rename it", severity="warning")


def _is_past(deadline: float | None) -> bool:
    return deadline is not None and time.monotonic() >= deadline
