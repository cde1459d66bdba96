"""mem0: memories as JSON, from `get_all` or an export, and the library's `history.db`.

A memory becomes a record with its id; its earlier texts in `history.db` become superseded entries. A memory
that stands in several files becomes one record. Categories become tags, and all other fields are stored under
`mem0`. Deleted memories are left out. Qdrant's local storage is refused: it holds pickles, which run code
when read.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.agents.base import Agent
from vademecum.agents.memory_files import stamp_of, text_of, value_in, word_list
from vademecum.errors import VadeError
from vademecum.knowledge import Skipped, TopicPiece
from vademecum.text import names
from vademecum.transcripts.foreign import LARGEST, as_list, mapping, without
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memory_files import FileTree, Importing
    from vademecum.knowledge import Piece
    from vademecum.transcripts import Json

_QDRANT = (
    "Qdrant's local storage contains pickles, which can run code when loaded: export the memories as JSON"
)
_KNOWN = ("id", "memory", "data", "categories", "created_at", "updated_at")
_LISTS = ("results", "memories", "data")
_EDGE = ("source", "relationship", "target")


class _Event(NamedTuple):
    """A change of a memory in `history.db`."""

    memory: str
    event: str
    text: str
    at: str
    rest: dict[str, Any]


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Yield a record for every memory, with its earlier texts."""
    found: dict[str, TopicPiece] = {}
    for name in tree.names():
        last = name.rpartition("/")[2].lower()
        if last == "storage.sqlite":
            yield Skipped(name, _QDRANT)
        elif last.endswith((".db", ".sqlite")):
            yield from _read_history(tree, name, found)
        elif last.endswith(".json"):
            yield from _read_export(tree, name, found)
    yield from found.values()


# -------------------------------------------------------------------- JSON


def _read_export(tree: FileTree, name: str, found: dict[str, TopicPiece]) -> Iterator[Piece]:
    value, problems = value_in(tree, name)
    yield from problems
    raw = [*_memories(value)]
    for number, each in enumerate(raw):
        text = mapping(each).get("memory") or mapping(each).get("data")
        if isinstance(text, str) and text.strip():
            _add(found, _memory(mapping(each), text, f"{name}#{number + 1}"))
        else:
            yield Skipped(f"{name}#{number + 1}", "malformed: a memory has a text under `memory`")
    edges = [mapping(each) for each in as_list(mapping(value).get("relations"))]
    if edges:
        lines = [" ".join(f"{text_of(each.get(end))}" for end in _EDGE) for each in edges]
        text = "\n".join(f"- {line}" for line in lines)
        entry = Entry(text, tree.changed(name) or None)
        yield TopicPiece(
            f"{name}#relations", "mem0-relations", (entry,), Scope.GLOBAL, title="mem0 relations"
        )
    if not raw and not edges and not problems:
        yield Skipped(name, "it contains no memories")


def _memories(value: Json) -> Iterator[Json]:
    """Yield the memories in a JSON value: a list, a list in an object, or a list for each user."""
    if isinstance(value, list):
        yield from value
        return
    raw = mapping(value)
    inside = next((raw[each] for each in _LISTS if isinstance(raw.get(each), list)), None)
    if inside is not None:
        yield from as_list(inside)
    elif "memory" in raw:
        yield raw
    else:
        yield from (each for some in raw.values() for each in as_list(some) if "memory" in mapping(each))


def _memory(raw: dict[str, Json], text: str, source: str) -> TopicPiece:
    own = text_of(raw.get("id"))
    created, updated = stamp_of(raw.get("created_at")), stamp_of(raw.get("updated_at"))
    rest = without(raw, _KNOWN)
    return TopicPiece(
        f"memory/{own}" if own else source,
        names.auto_key(text),
        (Entry(text, updated or created or None),),
        Scope.GLOBAL,
        id=own,
        named=False,
        type=RecordType.USER,
        tags=word_list(raw.get("categories")),
        created=created,
        fields={"mem0": rest} if rest else {},
    )


def _add(found: dict[str, TopicPiece], piece: TopicPiece) -> None:
    """Add a piece to the found ones; if several files hold the same memory, merge their texts and fields."""
    before = found.get(piece.source)
    if before is None:
        found[piece.source] = piece
        return
    texts = {each.text for each in before.entries}
    more = tuple(each for each in piece.entries if each.text not in texts)
    fields = {**piece.fields.get("mem0", {}), **before.fields.get("mem0", {})}
    found[piece.source] = replace(
        before,
        entries=(*before.entries, *more),
        tags=(*before.tags, *(each for each in piece.tags if each not in before.tags)),
        created=min(filter(None, (before.created, piece.created)), default=""),
        fields={"mem0": fields} if fields else {},
    )


# -------------------------------------------------------------------- history.db


def _read_history(tree: FileTree, name: str, found: dict[str, TopicPiece]) -> Iterator[Piece]:
    try:
        events = _events(tree.content(name, largest=LARGEST))
    except (VadeError, OSError, sqlite3.Error) as error:
        yield Skipped(name, f"cannot be read: {error}")
        return
    if not events:
        yield Skipped(name, "it contains no memory history")
    for memory in dict.fromkeys(each.memory for each in events):
        own = [each for each in events if each.memory == memory]
        if own[-1].event == "DELETE":
            yield Skipped(f"{name}#{memory}", f"it was deleted there{f' on {own[-1].at}' * bool(own[-1].at)}")
            continue
        text = [each for each in own if each.text.strip()]
        ends = [*(each.at for each in text[1:]), ""]
        entries = [
            Entry(e.text, e.at or None, superseded=end or None) for e, end in zip(text, ends, strict=True)
        ]
        if entries:
            rest: dict[str, Any] = next((each.rest for each in reversed(text) if each.rest), {})
            piece = _memory({"id": memory, "created_at": text[0].at}, text[-1].text, f"{name}#{memory}")
            _add(found, replace(piece, entries=tuple(entries), fields={"mem0": rest} if rest else {}))


def _events(content: bytes) -> list[_Event]:
    """Return the events of `history.db` by time; the database is read from memory, not in place."""
    connection = sqlite3.connect(":memory:")
    try:
        # Bytes 18 and 19 declare a write-ahead log, which a database in memory cannot have.
        connection.deserialize(content[:18] + b"\1\1" + content[20:])
        connection.row_factory = sqlite3.Row
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = connection.execute("SELECT * FROM history ORDER BY rowid") if "history" in tables else ()
        return sorted((_event(dict(row)) for row in rows), key=lambda each: each.at)
    finally:
        connection.close()


def _event(row: dict[str, Any]) -> _Event:
    text = row.get("new_memory") or row.get("new_value")
    at = stamp_of(row.get("updated_at")) or stamp_of(row.get("created_at")) or stamp_of(row.get("timestamp"))
    rest = {each: row[each] for each in ("actor_id", "role", "user_id") if row.get(each)}
    event = "DELETE" if row.get("is_deleted") else text_of(row.get("event")).upper()
    return _Event(text_of(row.get("memory_id")), event, text_of(text), at, rest)


AGENT = Agent("mem0", memories=memories, keeps=(".db", ".sqlite"))
