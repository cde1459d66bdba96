"""The search index of a workspace: turn facts into files, and files into indexed passages.

This module knows no callers and no rights: the caller's transaction sees one workspace.
"""

from __future__ import annotations

import hashlib
import json
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.index import (
    EVERYTHING,
    JOURNAL,
    MEMORY,
    PINNED,
    Filter,
    IndexDocument,
    IndexItem,
    Stamp,
    Sync,
    SyncReport,
    lazily_shipped,
    pack,
    read_document,
    shipped,
    text_to_embed,
)
from vademecum.search import ChunkShape, base
from vademecum.sync import blocks
from vademecum.sync.folder_sync import place_of
from vademecum.sync.projection import FactSet, project
from vademecum.sync.team_trust import verified_texts
from vademecum.text import names
from vademecum_hub import postgres_index as postgres
from vademecum_hub.postgres_index import PostgresIndex

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vademecum.sync.facts import FactId, SyncFact
    from vademecum.sync.projection import ShownBlock, ShownFile
    from vademecum.sync.team_trust import FactAuthor
    from vademecum.types import Place

_SHAPE = ChunkShape()
_KINDS = {"records": (MEMORY, "record"), "journal": (JOURNAL, "journal")}
_NEVER = Stamp(0, 0, 0, 0)


class BlockLabel(NamedTuple):
    """The author of a block and the members who verified it, with the line on which it begins."""

    line: int
    origin: str | None = None  # None: the origin in the text itself counts
    vouched: tuple[str, ...] = ()
    second: tuple[str, ...] = ()  # the members whose vouch counts under the two-person rule


class HubFile(NamedTuple):
    """A file made from the facts of a stream, for the index."""

    docs: tuple[str, ...]
    folded: str  # the name with folded letter case
    item: str
    path: str
    place: Place
    folder: str  # records, journal, or empty
    text: str
    blocks: tuple[BlockLabel, ...] = ()

    @property
    def hash(self) -> str:
        """A hash that changes with the path, the text or the labels of the file."""
        return hashlib.sha256(json.dumps([self.path, self.text, self.blocks]).encode()).hexdigest()


def make_files(
    stamped: Iterable[tuple[SyncFact, FactAuthor]], stream: str, *, team: str = ""
) -> list[HubFile]:
    """Return the files that the facts make; in a team, blocks are labelled with their authors."""
    authors: dict[FactId, FactAuthor] = {}
    state = FactSet()
    for fact, author in stamped:
        state.add(fact)
        authors[fact.id] = author
    place = place_of(stream)
    if place is None:
        return []
    top = f"memory/hub/{team}/{stream}" if team else f"memory/{stream}"
    found = []
    for path, file in project(state).items():
        folder, _, name = path.rpartition("/")
        labels = tuple(_make_labels(state, file, authors)) if team else ()
        folded = f"{folder}/{names.folded(name)}"
        item = f"{stream}/{path}"
        found.append(HubFile(file.docs, folded, item, f"{top}/{path}", place, folder, file.text, labels))
    return found


def _make_labels(
    state: FactSet, file: ShownFile, authors: Mapping[FactId, FactAuthor]
) -> Iterator[BlockLabel]:
    """Yield a label for each block of a file: first line, author, and verifying members."""
    counted = [
        {doc: verified_texts(state, doc, authors, two_person=two) for doc in file.docs}
        for two in (False, True)
    ]
    text, at, line = file.text.replace("\r\n", "\n"), 0, 1
    for block in file.blocks:
        raw = block.raw.replace("\r\n", "\n").strip("\n")
        begin = text.find(raw, at)
        if begin < 0:
            continue
        line += text.count("\n", at, begin)
        whose = (_find_vouching_members(block, each) for each in counted)
        yield BlockLabel(line, f"member:{_find_last_author(state, block, authors)}", *whose)
        line, at = line + raw.count("\n"), begin + len(raw)


def _find_last_author(state: FactSet, block: ShownBlock, authors: Mapping[FactId, FactAuthor]) -> str:
    """Return the author of a block's newest fact."""
    return authors[max(block.fact_ids, key=lambda fact_id: state.facts[fact_id].order)][0]


def _find_vouching_members(
    block: ShownBlock, counted: Mapping[str, Mapping[str, tuple[str, ...]]]
) -> tuple[str, ...]:
    """Return the members whose verification of a block's text counts, in alphabetical order."""
    if not any(counted.values()):
        return ()
    name = blocks.name_of(block.raw)
    return tuple(sorted({each for source in block.sources for each in counted[source.doc].get(name, ())}))


def is_outdated(connection: Any, ws: int) -> bool:
    """Return whether another model, stemmer or passage size was used to make the index."""
    index = PostgresIndex(connection, ws)
    made, (keywords, vectors) = index.row.settings, make_sync(index, EVERYTHING).identity
    return bool(made) and (made.get("keywords"), made.get("vectors")) != (keywords, vectors)


def exact_search_limit() -> int:
    """Return the largest number of passages for which a search compares every vector."""
    return postgres.EXACT


def clear_index(connection: Any, ws: int) -> None:
    """Delete everything in the index of a workspace."""
    PostgresIndex(connection, ws).drop(None, vectors=True)


def read_size(connection: Any, ws: int) -> tuple[int, bool]:
    """Return the number of passages, and whether search is slow because there is no HNSW index."""
    return PostgresIndex(connection, ws).size


def update_index(
    connection: Any, ws: int, files: Iterable[HubFile], gone: Iterable[str], *, purge: bool
) -> tuple[int, bool]:
    """Index new versions of files with their vectors, and delete the files in `gone`.

    With `purge`, no stem of the earlier versions stays in the index. Return the index's size as `read_size`
    does.
    """
    index, coming, leaving = PostgresIndex(connection, ws), [*files], [*gone]
    index.lock()
    sync = make_sync(index, Filter(items=tuple(each.item for each in coming)))
    sync.renew(SyncReport(), vectors=True)
    known = index.known(Filter(items=(*(sync.filter.items or ()), *leaving)))
    changed = [each for each in coming if each.item not in known or known[each.item].hash != each.hash]
    # An edited passage keeps its id, but the id of a purged passage is not used again.
    left = [known[item].id for item in leaving if item in known]
    left += [known[each.item].id for each in changed if purge and each.item in known]
    if left:
        index.drop(left)
    if changed:
        index.put([_make_document(each) for each in changed], embed=_embed_texts)
    if purge:
        index.scrub()
    return index.size


def _embed_texts(texts: Sequence[tuple[str, str]]) -> list[bytes]:
    """Return vectors for titles and texts, made by the model that comes with vademecum."""
    return pack(shipped().embed([text_to_embed(*each) for each in texts]))


def make_sync(index: PostgresIndex, filter: Filter) -> Sync:
    """Return the updater for a part of the index, with the model and passage size that all hubs use."""
    return Sync(index, filter, embedder=lazily_shipped(), tokens=_SHAPE.tokens, overlap=_SHAPE.overlap)


def _make_document(file: HubFile) -> IndexDocument:
    """Return a file's passages, split as machines split them, with the authors that the hub knows.

    A file that cannot be read has no passages, but a reason.
    """
    source, kind = _KINDS.get(file.folder, (PINNED, "pinned"))
    item = IndexItem(file.item, file.path, source, kind, file.place, "", _NEVER, lambda: None)
    content = base.readable(file.text).encode()
    try:
        made = read_document(item, content, file.hash, tokens=_SHAPE.tokens, overlap=_SHAPE.overlap)
    except Malformed as error:
        return IndexDocument(item, file.hash, reason=str(error))
    lines = [each.line for each in file.blocks]
    pieces = []
    for piece in made.pieces or ():
        first = max(0, bisect_right(lines, piece.start) - 1)
        covered = file.blocks[first : bisect_right(lines, piece.last)] or (BlockLabel(0),)
        # Members who verified every block of the passage; the rule in force chooses one list at search time.
        vouched = sorted(set.intersection(*({*each.vouched} for each in covered)))
        second = sorted(set.intersection(*({*each.second} for each in covered)))
        place = json.dumps([vouched, second]).encode() if vouched else b""
        pieces.append(piece._replace(origin=covered[-1].origin or piece.origin, place=place))
    return made._replace(pieces=pieces)
