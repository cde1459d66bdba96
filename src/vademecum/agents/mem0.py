"""mem0: memories as JSON, as `get_all` and its export give them, and the `history.db` that its library keeps.

A memory is a record with its id; what `history.db` says it was before is an entry that no longer holds. The
same memory in several files is one record. Categories are its tags, all other fields stand under `mem0`. What
was deleted there stays out. Qdrant's local storage is refused: it holds pickles, which run code when read.
"""

from __future__ import annotations

import sqlite3
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.agents.base import Agent
from vademecum.agents.memories import stamp_of, text_of, value_in, words_of
from vademecum.errors import VadeError
from vademecum.knowledge.intake import Skipped, TopicPiece
from vademecum.text import names
from vademecum.transcripts.reading import LARGEST, listed, mapping, without
from vademecum.types import Entry, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.agents.memories import FileTree, Importing
    from vademecum.knowledge.intake import Piece
    from vademecum.transcripts import Json

_QDRANT = (
    "Qdrant's local storage contains pickles, which can run code when loaded: export the memories as JSON"
)
_KNOWN = ("id", "memory", "data", "categories", "created_at", "updated_at")
_LISTS = ("results", "memories", "data")
_EDGE = ("source", "relationship", "target")


class _Event(NamedTuple):
    """What happened to a memory, as `history.db` keeps it."""

    memory: str
    event: str
    said: str
    at: str
    rest: dict[str, Any]


def memories(tree: FileTree, here: Importing) -> Iterator[Piece]:
    """Every memory, with what it was before."""
    found: dict[str, TopicPiece] = {}
    for name in tree.names():
        last = name.rpartition("/")[2].lower()
        if last == "storage.sqlite":
            yield Skipped(name, _QDRANT)
        elif last.endswith((".db", ".sqlite")):
            yield from _history(tree, name, found)
        elif last.endswith(".json"):
            yield from _exported(tree, name, found)
    yield from found.values()


# -------------------------------------------------------------------- JSON


def _exported(tree: FileTree, name: str, found: dict[str, TopicPiece]) -> Iterator[Piece]:
    value, problems = value_in(tree, name)
    yield from problems
    given = [*_memories(value)]
    for number, each in enumerate(given):
        said = mapping(each).get("memory") or mapping(each).get("data")
        if isinstance(said, str) and said.strip():
            _add(found, _memory(mapping(each), said, f"{name}#{number + 1}"))
        else:
            yield Skipped(f"{name}#{number + 1}", "malformed: a memory has a text under `memory`")
    edges = [mapping(each) for each in listed(mapping(value).get("relations"))]
    if edges:
        lines = [" ".join(f"{text_of(each.get(end))}" for end in _EDGE) for each in edges]
        text = "\n".join(f"- {line}" for line in lines)
        entry = Entry(text, tree.changed(name) or None)
        yield TopicPiece(
            f"{name}#relations", "mem0-relations", (entry,), Scope.GLOBAL, title="mem0 relations"
        )
    if not given and not edges and not problems:
        yield Skipped(name, "it contains no memories")


def _memories(value: Json) -> Iterator[Json]:
    """The memories of an answer: a list, one in an object, or a list for each user."""
    if isinstance(value, list):
        yield from value
        return
    given = mapping(value)
    inside = next((given[each] for each in _LISTS if isinstance(given.get(each), list)), None)
    if inside is not None:
        yield from listed(inside)
    elif "memory" in given:
        yield given
    else:
        yield from (each for some in given.values() for each in listed(some) if "memory" in mapping(each))


def _memory(given: dict[str, Json], said: str, source: str) -> TopicPiece:
    own = text_of(given.get("id"))
    created, updated = stamp_of(given.get("created_at")), stamp_of(given.get("updated_at"))
    rest = without(given, _KNOWN)
    return TopicPiece(
        f"memory/{own}" if own else source,
        names.auto_key(said),
        (Entry(said, updated or created or None),),
        Scope.GLOBAL,
        id=own,
        named=False,
        type=RecordType.USER,
        tags=words_of(given.get("categories")),
        created=created,
        fields={"mem0": rest} if rest else {},
    )


def _add(found: dict[str, TopicPiece], piece: TopicPiece) -> None:
    """Join what several files say of one memory: each text once, and the fields of all."""
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


def _history(tree: FileTree, name: str, found: dict[str, TopicPiece]) -> Iterator[Piece]:
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
        said = [each for each in own if each.said.strip()]
        ends = [*(each.at for each in said[1:]), ""]
        entries = [
            Entry(e.said, e.at or None, superseded=end or None) for e, end in zip(said, ends, strict=True)
        ]
        if entries:
            rest: dict[str, Any] = next((each.rest for each in reversed(said) if each.rest), {})
            piece = _memory({"id": memory, "created_at": said[0].at}, said[-1].said, f"{name}#{memory}")
            _add(found, replace(piece, entries=tuple(entries), fields={"mem0": rest} if rest else {}))


def _events(content: bytes) -> list[_Event]:
    """The events in order; the file is read in memory, so that nothing is written beside it."""
    connection = sqlite3.connect(":memory:")
    try:
        # Bytes 18 and 19 say that a log belongs to it, which a database in memory cannot have.
        connection.deserialize(content[:18] + b"\1\1" + content[20:])
        connection.row_factory = sqlite3.Row
        tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
        rows = connection.execute("SELECT * FROM history ORDER BY rowid") if "history" in tables else ()
        return sorted((_event(dict(row)) for row in rows), key=lambda each: each.at)
    finally:
        connection.close()


def _event(row: dict[str, Any]) -> _Event:
    said = row.get("new_memory") or row.get("new_value")
    at = stamp_of(row.get("updated_at")) or stamp_of(row.get("created_at")) or stamp_of(row.get("timestamp"))
    rest = {each: row[each] for each in ("actor_id", "role", "user_id") if row.get(each)}
    event = "DELETE" if row.get("is_deleted") else text_of(row.get("event")).upper()
    return _Event(text_of(row.get("memory_id")), event, text_of(said), at, rest)


AGENT = Agent("mem0", memories=memories, keeps=(".db", ".sqlite"))
