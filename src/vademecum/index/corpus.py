"""What is indexed: the folders that a caller sees, and a file of them as the index takes it in.

Records, journals, pinned documents and attached sources are folders alike; a file has labels, passages, and
what is looked for in each.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
from typing import TYPE_CHECKING

from vademecum.errors import Malformed
from vademecum.index import words
from vademecum.index.base import JOURNAL, MEMORY, PINNED, Filter, IndexDocument, Labels, Piece, Stack
from vademecum.index.languages import language_of
from vademecum.store import archive, copies, document, pinned, scopes, sources
from vademecum.store.files import Disk, DiskFolder
from vademecum.store.journal import is_day
from vademecum.store.merge import read_tags
from vademecum.store.records import is_record, key_of
from vademecum.text import clock, fences, outgoing
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vademecum.index.base import ChunkRow, IndexItem
    from vademecum.index.chunk import TextChunk
    from vademecum.index.words import Speech
    from vademecum.store import Directory, Home, Shelf

# What people decided about what is seen: a change there means another look at everything.
_DECISIONS = ("aliases", "projects", "sources", "trusted")
_WORDY = re.compile(r"[^\W\d_]{3}")
_MOST_ALIASES, _LONGEST_ALIAS = 20, 100  # names that a note goes by beside its title, and their characters
_MOST_TAGS = 50  # in the text of a note
_TAG = re.compile(r"(?:^|(?<=\s))#(?=[\w/-]*[^\W\d])([\w-]{1,80}(?:/[\w-]{1,80}){0,5})", re.MULTILINE)
_CODE = re.compile(r"`[^`\n]{1,300}`")


class Corpus:
    """All that one caller can see: what is on their shelves, and the sources attached to them."""

    def __init__(self, home: Home, caller: scopes.Caller) -> None:
        self.home, self.caller = home, caller
        self._tops: dict[Disk, DiskFolder] | None = None  # while it is looked at

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Open the home and the repository once for all that is looked at meanwhile."""
        if self._tops is not None:
            yield
            return
        self._tops = {}
        try:
            yield
        finally:
            for top in self._tops.values():
                top.close()
            self._tops = None

    @property
    def root(self) -> str:
        """The clone that the caller stands in."""
        return "" if self.caller.project is None else str(self.caller.project.root)

    @property
    def decisions(self) -> tuple[str, ...]:
        """The folders whose content decides what there is to see."""
        decided = [str(self.home.path / "decisions" / kind) for kind in _DECISIONS]
        return (*decided, *([f"{self.root}/.vade"] if self.root else []))

    @functools.cached_property
    def filter(self) -> Filter:
        """What of an index it is; a caller stays the same."""
        return Filter(tuple(scopes.visible(self.caller)), self.root)

    @property
    def curated(self) -> Filter:
        """What of it a model reads: nothing that came with a repository nobody has trusted."""
        shelf = scopes.own_shelf(self.home, self.caller.project)
        return self.filter if shelf is None or shelf.trusted else self.filter._replace(root="")

    def stacks(self) -> Iterator[Stack | Finding]:
        """Every folder there is or may come to be; one that cannot be looked at is a finding.

        Records first, then journals, then pinned documents, place by place; then the folders of sources.
        """
        for place in scopes.visible(self.caller):
            for shelf in scopes.shelves(self.home, self.caller, place):
                yield self._on(shelf, (archive.RECORDS,), is_record, MEMORY, "record")
                if not shelf.shared and place.scope in scopes.WITH_JOURNAL:
                    yield self._on(shelf, (archive.JOURNAL,), is_day, JOURNAL, "journal")
                names = place.scope.rule.documents
                documents = {name for name in names if not shelf.shared or name == pinned.CONTEXT}
                if documents:
                    yield self._on(shelf, (), documents.__contains__, PINNED, "pinned")
        yield from self._attached()

    def _attached(self) -> Iterator[Stack | Finding]:
        """The Markdown of each source in sight, folder by folder."""
        for source in sources.visible(self.home, self.caller):
            if source.problem:
                yield Finding("source", str(source.path), f"{source.name} {source.problem}", severity="error")
                continue
            closed: list[OSError] = []
            for top, below, wanted in source.folders(closed.append):
                path = os.path.join(top, *below)
                yield Stack(
                    path,
                    path.rstrip("/"),
                    path.rstrip("/"),
                    source.name,
                    "markdown",
                    source.place,
                    wanted,
                    functools.partial(_below, top, below),
                    plain=True,
                )
            for error in closed:
                where = str(error.filename or source.path)
                yield Finding("unreadable", where, error.strerror or str(error), severity="error")

    def _on(
        self, shelf: Shelf, below: tuple[str, ...], wanted: Callable[[str], bool], source: str, kind: str
    ) -> Stack:
        shown = shelf.name_of(*below)
        return Stack(
            str(shelf.top.joinpath(*shelf.parts, *below)),
            f"{shelf.top}/{shown}" if shelf.outside else shown,
            shown,
            source,
            kind,
            shelf.place,
            wanted,
            functools.partial(self._open, shelf, below),
            str(shelf.top) if shelf.outside else "",
            hidden=copies.hidden_in if kind == "record" else None,
        )

    def _open(self, shelf: Shelf, below: tuple[str, ...]) -> Directory | None:
        if self._tops is None or shelf.backend is not None:
            return shelf.open(*below)
        try:
            disk = Disk(shelf.top, shelf.outside, shelf.trusted)
            top = self._tops.get(disk)
            if top is None:
                top = self._tops[disk] = disk.kind.at(shelf.top)
            return top.enter(*shelf.parts, *below)
        except FileNotFoundError:
            return None


def _below(top: str, parts: tuple[str, ...]) -> Directory | None:
    """A folder of a source, entered from its top without following links."""
    try:
        return sources.entered(top, parts)
    except FileNotFoundError:
        return None


def read_document(
    item: IndexItem, content: bytes, digest: str, *, tokens: int, overlap: int
) -> IndexDocument:
    """Cut a file into passages."""
    from vademecum.index.chunk import chunks  # not needed to ask

    # What is found is handed to agents, and a passage may begin or end in the middle of a secret.
    text = document.decode(content)
    clean = outgoing.clean_lines(text)
    cut = [each for each in chunks(clean, kind=item.kind, tokens=tokens, overlap=overlap) if not each.hidden]
    labels = _labels(item, text)
    said = [words.all_in(each.text) for each in cut]
    pieces = [
        _piece(chunk, labels, own, speaks)
        for chunk, own, speaks in zip(cut, said, _speeches(cut, said), strict=True)
    ]
    return IndexDocument(item, digest, labels, pieces)


def _piece(chunk: TextChunk, labels: Labels, own: set[str], speaks: Speech) -> Piece:
    top = head(labels.title, chunk.heading, chunk.time, labels.tags, chunk.text)
    return Piece(
        chunk.start,
        chunk.end,
        chunk.text,
        chunk.heading,
        chunk.time,
        moment(chunk.time),
        None if chunk.origin is None else str(chunk.origin),
        chunk.superseded,
        moment(chunk.superseded),
        speaks,
        chunk.text,
        top,
        words=frozenset(own | words.all_in(top)),
        language=language_of(chunk.text, own),
    )


def _speeches(cut: Sequence[TextChunk], said: Sequence[set[str]]) -> list[Speech]:
    """Who speaks in each chunk and of what; a later part of an entry, or of a line, is its first one's."""
    found: list[Speech] = []
    for at, (chunk, own) in enumerate(zip(cut, said, strict=True)):
        last = cut[at - 1] if at else None
        cut_off = last is not None and (
            (chunk.entry is not None and chunk.entry == last.entry) or chunk.start == last.start
        )
        found.append(words.speech_of(chunk.text, own, before=found[-1].speaker if cut_off else None))
    return found


def _labels(item: IndexItem, text: str) -> Labels:
    """What a file says of itself, for filters and for the indexed text."""
    try:
        parsed = document.parse(text)
    except Malformed:
        if item.kind != "markdown":  # a source's frontmatter is its own business
            raise
        parsed = None
    values = {} if parsed is None else parsed.front.values
    name = item.path.rpartition("/")[2]
    title = values.get("title") or (parsed and parsed.title) or name.rpartition(".")[0]
    tags = read_tags(values.get("tags"))
    if item.kind == "markdown":
        title = _with_aliases(str(title), read_tags(values.get("aliases") or values.get("alias")))
        tags = tuple(dict.fromkeys([*tags, *_tags_in(text if parsed is None else text[parsed.front.body :])]))
    num = values.get("num")
    return Labels(
        title=outgoing.clean_text(str(title)),
        key=key_of(name) if item.kind == "record" else None,
        num=num if type(num) is int else None,
        type=str(values.get("type") or "project") if item.kind == "record" else None,
        tags=outgoing.clean_all(tags),
        updated=moment(str(values["updated"])) if values.get("updated") is not None else _day_of(item, name),
    )


def _day_of(item: IndexItem, name: str) -> str | None:
    """The day whose notes a file holds, by its name: those of a journal, or of somebody's vault."""
    return moment(name[:10]) if item.kind in ("journal", "markdown") and is_day(name) else None


def _tags_in(text: str) -> list[str]:
    """The tags that a note has in its text, as `#tag` or `#tag/below`, which is a `tag` too; none in code."""
    if "#" not in text:
        return []
    found: dict[str, None] = {}
    for match in _TAG.finditer(_CODE.sub("", fences.blank(text))):
        found |= dict.fromkeys((match[1], match[1].partition("/")[0]))
    return [*found][:_MOST_TAGS]


def _with_aliases(title: str, aliases: Sequence[str]) -> str:
    """A title with the other names that a note of someone else's goes by: it is asked for by any of them."""
    others = [each[:_LONGEST_ALIAS] for each in aliases if each.lower() != title.lower()][:_MOST_ALIASES]
    return f"{title} ({', '.join(others)})" if others else title


def head(title: str, heading: str, time: str | None, tags: Sequence[str], body: str) -> str:
    """What goes into the indexed text beside the chunk itself, nothing twice.

    A day is written out: people ask for a Saturday in May, not for 2023-05-20.
    """
    when = clock.parse(time)
    day = "" if when is None else f"{when:%Y-%m-%d %A %d %B %Y}"
    path = "" if heading and (day.startswith(heading) or _opens(body, heading)) else heading
    name = "" if day.startswith(title) or path.startswith(title) or _opens(body, title) else title
    return " ".join(part for part in (name, path, day, *tags) if part)


def _opens(body: str, title: str) -> bool:
    """Whether a text begins with its own title."""
    return body.lstrip("# \n").startswith(title)


def holds(row: ChunkRow, phrases: Sequence[str]) -> bool:
    """Whether a chunk, with what stands above it, holds each of some phrases word for word."""
    return words.holds(f"{head(row.title, row.heading, row.time, row.tags, row.body)}\n{row.body}", phrases)


def to_embed(row: ChunkRow) -> str:
    """The text a vector is made from; a date for a title would only blur its meaning."""
    return text_to_embed(row.title, row.body)


def text_to_embed(title: str, body: str) -> str:
    """The same of a passage that is on its way into the index."""
    return body if not title or clock.parse(title) or _opens(body, title) else f"{title}. {body}"


def to_read(row: ChunkRow) -> str:
    """The text that a model reads; a title that is no word, as an id, would only blur it."""
    title = row.title.replace("-", " ") if row.kind == "record" else row.title
    says = _WORDY.search(title) and not clock.parse(row.title) and not _opens(row.body, row.title)
    return f"{title}. {row.body}" if says else row.body


def moment(stamp: str | None) -> str | None:
    """A time as it is compared: in UTC, whatever offset it was written with."""
    found = clock.parse(stamp)
    return None if found is None else clock.stamp(found)
