"""A file of notes as the index takes it in: its labels, its passages, and what is looked for in each.

Knows text only; knows nothing of databases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.errors import Malformed
from vademecum.index import words
from vademecum.index.base import IndexDocument, Labels, Piece
from vademecum.store import clock, document, outgoing, validate
from vademecum.store.merge import read_tags

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.index.base import ChunkRow, IndexItem
    from vademecum.index.chunk import TextChunk
    from vademecum.index.words import Speech

_MOST_ALIASES, _LONGEST_ALIAS = 20, 100  # names that a note goes by beside its title, and their characters


def read_document(
    item: IndexItem, content: bytes, digest: str, *, tokens: int, overlap: int
) -> IndexDocument:
    """Cut a file into passages."""
    from vademecum.index.chunk import chunks  # not needed to ask

    # What is found is handed to agents, and a passage may begin or end in the middle of a secret.
    text = validate.decode(content)
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
    from vademecum.store.records import key_of

    try:
        parsed = document.parse(text)
    except Malformed:
        if item.kind != "markdown":  # a source's frontmatter is its own business
            raise
        parsed = None
    values = {} if parsed is None else parsed.front.values
    name = item.path.rpartition("/")[2]
    title = values.get("title") or (parsed and parsed.title) or name.rpartition(".")[0]
    if item.kind == "markdown":
        title = _with_aliases(str(title), read_tags(values.get("aliases") or values.get("alias")))
    num = values.get("num")
    return Labels(
        title=outgoing.clean_text(str(title)),
        key=key_of(name) if item.kind == "record" else None,
        num=num if type(num) is int else None,
        type=str(values.get("type") or "project") if item.kind == "record" else None,
        tags=outgoing.clean_all(read_tags(values.get("tags"))),
        updated=None if values.get("updated") is None else moment(str(values["updated"])),
    )


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
    title, body = row.title, row.body
    return body if not title or clock.parse(title) or _opens(body, title) else f"{title}. {body}"


def moment(stamp: str | None) -> str | None:
    """A time as it is compared: in UTC, whatever offset it was written with."""
    found = clock.parse(stamp)
    return None if found is None else clock.stamp(found)
