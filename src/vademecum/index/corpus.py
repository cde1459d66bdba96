"""The indexed files: the folders that a caller sees, and the passages and labels of each file.

Records, journals, pinned documents and attached sources are all folders of files.
"""

from __future__ import annotations

import errno
import functools
import os
import re
from typing import TYPE_CHECKING

from vademecum.errors import Malformed
from vademecum.fields import read_indexed, read_tags
from vademecum.index import words
from vademecum.index.base import JOURNAL, MEMORY, PINNED, Filter, IndexDocument, IndexedFolder, Labels, Piece
from vademecum.index.languages import language_of
from vademecum.lazy import lazy_pattern
from vademecum.store import copies, scopes, sources
from vademecum.text import clock, document, fences, filenames, outgoing
from vademecum.text.filenames import is_day, is_record, key_of
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vademecum.index.base import ChunkRow, IndexItem
    from vademecum.index.chunk import TextChunk
    from vademecum.index.words import Speech
    from vademecum.store import Directory, Home, ScopeFolder

# Decisions about what is visible: a change there means that all files are compared again.
_DECISIONS = ("aliases", "projects", "sources", "trusted")
_WORDY = lazy_pattern(r"[^\W\d_]{3}")
# Errors of a file and not of the system: a link in place of a folder, a name that is too long.
_OF_THE_FILE = (errno.ELOOP, errno.ENAMETOOLONG)
_MOST_ALIASES, _LONGEST_ALIAS = 20, 100  # other names of a note, and characters of each
MOST_LINES = 250_000  # of a file that is indexed; a longer file would take seconds of each search
_MOST_TAGS = 50  # tags in the text of a note
_TAG = lazy_pattern(r"(?:^|(?<=\s))#(?=[\w/-]*[^\W\d])([\w-]{1,80}(?:/[\w-]{1,80}){0,5})", re.MULTILINE)
_CODE = lazy_pattern(r"`[^`\n]{1,300}`")
NOT_READ_NOW = "not read now"  # the finding for a folder whose error may pass: the index keeps its files


class Corpus:
    """All files that a caller sees: the folders of the caller's scopes, and the sources attached to them."""

    def __init__(self, home: Home, caller: scopes.Caller) -> None:
        self.home, self.caller = home, caller

    @property
    def root(self) -> str:
        """The path of the caller's clone of the project."""
        return "" if self.caller.project is None else str(self.caller.project.root)

    @property
    def decisions(self) -> tuple[str, ...]:
        """The folders whose content decides which files the caller sees."""
        decided = [str(self.home.path / "decisions" / kind) for kind in _DECISIONS]
        return (*decided, *([f"{self.root}/.vade"] if self.root else []))

    @functools.cached_property
    def filter(self) -> Filter:
        """The index filter that allows exactly the files of this corpus."""
        return Filter(tuple(scopes.visible(self.caller)), self.root)

    @property
    def curated(self) -> Filter:
        """The index filter for the files that the reader model reads: none of an untrusted repository."""
        scope_folder = scopes.own_folder(self.home, self.caller.project)
        return self.filter if scope_folder is None or scope_folder.trusted else self.filter._replace(root="")

    def folders(self) -> Iterator[IndexedFolder | Finding]:
        """Yield the folders whose files are indexed, even folders that do not exist yet.

        Place by place, the folders of records, of the journal and of pinned documents come in this order; the
        folders of sources come last. A source, or a folder in it, that cannot be read gives a finding.
        """
        for place in scopes.visible(self.caller):
            for scope_folder in scopes.scope_folders(self.home, self.caller, place):
                yield self._on(scope_folder, (filenames.RECORDS,), is_record, MEMORY, "record")
                if not scope_folder.shared and place.scope in scopes.WITH_JOURNAL:
                    yield self._on(scope_folder, (filenames.JOURNAL,), is_day, JOURNAL, "journal")
                names = place.scope.rule.documents
                documents = {name for name in names if not scope_folder.shared or name == filenames.CONTEXT}
                if documents:
                    yield self._on(scope_folder, (), documents.__contains__, PINNED, "pinned")
        yield from self._attached()

    def _attached(self) -> Iterator[IndexedFolder | Finding]:
        """Yield the folders of each visible source, and a finding for each unreadable source or folder."""
        for source in sources.visible(self.home, self.caller):
            if source.problem:
                yield Finding("source", str(source.path), f"{source.name} {source.problem}", severity="error")
                continue
            closed: list[OSError] = []
            for top, below, wanted in source.folders(closed.append):
                path = os.path.join(top, *below)
                yield IndexedFolder(
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
                what = NOT_READ_NOW if may_pass(error) else "unreadable"
                where = str(error.filename or source.path).rstrip("/")
                yield Finding(what, where, error.strerror or str(error), severity="error")

    def _on(
        self,
        scope_folder: ScopeFolder,
        below: tuple[str, ...],
        wanted: Callable[[str], bool],
        source: str,
        kind: str,
    ) -> IndexedFolder:
        display_path = scope_folder.name_of(*below)
        return IndexedFolder(
            str(scope_folder.top.joinpath(*scope_folder.parts, *below)),
            f"{scope_folder.top}/{display_path}" if scope_folder.outside else display_path,
            display_path,
            source,
            kind,
            scope_folder.place,
            wanted,
            functools.partial(scope_folder.open, *below),
            str(scope_folder.top) if scope_folder.outside else "",
            hidden=copies.hidden_in if kind == "record" else None,
        )


def _below(top: str, parts: tuple[str, ...]) -> Directory | None:
    """Open the folder at a path below a source's top folder, without following links; None if absent."""
    try:
        return sources.entered(top, parts)
    except FileNotFoundError:
        return None


def may_pass(error: Exception) -> bool:
    """Return whether reading failed for a reason of the system, such as too many open files.

    After such an error the index keeps what it has of the file. After others it does not: a file that is
    gone, or that may not be read, leaves the index.
    """
    facts = (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError)
    return isinstance(error, OSError) and not isinstance(error, facts) and error.errno not in _OF_THE_FILE


def read_document(
    item: IndexItem, content: bytes, digest: str, *, tokens: int, overlap: int
) -> IndexDocument:
    """Cut the content of a file, with secrets replaced, into passages, and return them with its labels.

    `tokens` and `overlap` are the size of a passage and what neighbours share; `digest` becomes the stored
    hash.
    """
    from vademecum.index.chunk import chunks  # a question does not need it

    lines = content.count(b"\n")
    if lines > MOST_LINES:
        raise Malformed(f"it has {lines:,} lines; at most {MOST_LINES:,} of one file are indexed")
    # Agents see passages, and a passage may begin or end in the middle of a secret.
    text = document.decode(content)
    clean = outgoing.clean_lines(text)
    parsed = _parsed(item, text)
    same = parsed if clean == text else None  # without a secret, the text need not be parsed again
    found = chunks(clean, kind=item.kind, tokens=tokens, overlap=overlap, parsed=same)
    cut = [each for each in found if not each.hidden]
    labels = _labels(item, text, parsed)
    word_sets = [frozenset(words.all_in(each.text)) for each in cut]
    pieces = [
        _piece(chunk, labels, own, speaks)
        for chunk, own, speaks in zip(cut, word_sets, _speeches(cut, word_sets), strict=True)
    ]
    return IndexDocument(item, digest, labels, pieces)


def is_conversation(content: bytes, *, kind: str) -> bool:
    """Return whether an attached file, or an entry of a journal, is a conversation, which is cut by turns."""
    from vademecum.index import chunk  # a question does not need it

    try:
        return chunk.is_conversation(document.decode(content), kind=kind)
    except Malformed:
        return False


def _piece(chunk: TextChunk, labels: Labels, own: frozenset[str], speaks: Speech) -> Piece:
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
        words=own | _words_above(top),
        language=language_of(chunk.text, own),
    )


@functools.lru_cache(maxsize=256)
def _words_above(head: str) -> frozenset[str]:
    """Return the words of a passage's head; they are cached, as all entries of a day have the same head."""
    return frozenset(words.all_in(head))


def _speeches(cut: Sequence[TextChunk], word_sets: Sequence[frozenset[str]]) -> list[Speech]:
    """Return the speaker, questions and mentions of each chunk.

    A later part of an entry or line has the speaker of the part before it, unless it names another. A chunk
    that is a turn of a conversation has the speaker of the turn.
    """
    found: list[Speech] = []
    for at, (chunk, own) in enumerate(zip(cut, word_sets, strict=True)):
        last = cut[at - 1] if at else None
        cut_off = last is not None and (
            (chunk.entry is not None and chunk.entry == last.entry) or chunk.start == last.start
        )
        speech = words.speech_of(chunk.text, own, before=found[-1].speaker if cut_off else None)
        found.append(speech if chunk.speaker is None else speech._replace(speaker=chunk.speaker))
    return found


def _parsed(item: IndexItem, text: str) -> document.Document | None:
    """Return a file's text parsed; None for an attached file whose frontmatter is invalid."""
    try:
        return document.parse(text)
    except Malformed:
        if item.kind != "markdown":
            raise
        return None


def _labels(item: IndexItem, text: str, parsed: document.Document | None) -> Labels:
    """Return the labels of a file, which filters use and which are indexed with its text."""
    values = {} if parsed is None else parsed.front.values
    name = item.path.rpartition("/")[2]
    own = read_indexed(values)
    title = own["title"] or (parsed and parsed.title) or name.rpartition(".")[0]
    tags = own["tags"]
    if item.kind == "markdown":
        title = _with_aliases(str(title), read_tags(values.get("aliases") or values.get("alias")))
        tags = tuple(dict.fromkeys([*tags, *_tags_in(text if parsed is None else text[parsed.front.body :])]))
    return Labels(
        title=outgoing.clean_text(str(title)),
        key=key_of(name) if item.kind == "record" else None,
        num=own["num"],
        type=own["type"] if item.kind == "record" else None,
        tags=outgoing.clean_all(tags),
        updated=_day_of(item, name) if own["updated"] is None else moment(own["updated"]),
    )


def _day_of(item: IndexItem, name: str) -> str | None:
    """Return the date in the name of a journal file or an attached file; None when there is no date."""
    return moment(name[:10]) if item.kind in ("journal", "markdown") and is_day(name) else None


def _tags_in(text: str) -> list[str]:
    """Return the first hashtags in a note's text, except in code; `#tag/below` counts as `tag` too."""
    if "#" not in text:
        return []
    found: dict[str, None] = {}
    for match in _TAG.finditer(_CODE.sub("", fences.blank(text))):
        found |= dict.fromkeys((match[1], match[1].partition("/")[0]))
    return [*found][:_MOST_TAGS]


def _with_aliases(title: str, aliases: Sequence[str]) -> str:
    """Return a title followed by the note's other names, so that a search for any of the names finds it."""
    others = [each[:_LONGEST_ALIAS] for each in aliases if each.lower() != title.lower()][:_MOST_ALIASES]
    return f"{title} ({', '.join(others)})" if others else title


def head(title: str, heading: str, time: str | None, tags: Sequence[str], body: str) -> str:
    """Return the text that is indexed with a passage: title, heading, date and tags.

    A title or heading is left out if the date or the passage begins with it. The date is written out, because
    people ask for a Saturday in May, not for 2023-05-20.
    """
    when = clock.parse(time)
    day = "" if when is None else f"{when:%Y-%m-%d %A %d %B %Y}"
    path = "" if heading and (day.startswith(heading) or _opens(body, heading)) else heading
    name = "" if day.startswith(title) or path.startswith(title) or _opens(body, title) else title
    return " ".join(part for part in (name, path, day, *tags) if part)


def _opens(body: str, title: str) -> bool:
    """Return whether the body of a passage begins with its own title."""
    return body.lstrip("# \n").startswith(title)


def holds(row: ChunkRow, phrases: Sequence[str]) -> bool:
    """Return whether a chunk with its title, heading, date and tags contains each phrase word for word."""
    return words.holds(f"{head(row.title, row.heading, row.time, row.tags, row.body)}\n{row.body}", phrases)


def to_embed(row: ChunkRow) -> str:
    """Return the text from which the vector of a chunk is made: its body, and a title that adds to it."""
    return text_to_embed(row.title, row.body)


def text_to_embed(title: str, body: str) -> str:
    """Return the text from which the vector of a passage is made: its title and its body.

    A title that is a date, or with which the body begins, is left out.
    """
    return body if not title or clock.parse(title) or _opens(body, title) else f"{title}. {body}"


def to_read(row: ChunkRow) -> str:
    """Return the text of a chunk that the reader model reads: its title and its body.

    A title without words, a title that is a date, and a title with which the body begins are left out.
    """
    title = row.title.replace("-", " ") if row.kind == "record" else row.title
    says = _WORDY.search(title) and not clock.parse(row.title) and not _opens(row.body, row.title)
    return f"{title}. {row.body}" if says else row.body


def moment(stamp: str | None) -> str | None:
    """Return a time converted to UTC, the form in which times are compared; None for an unreadable time."""
    found = clock.parse(stamp)
    return None if found is None else clock.stamp(found)
