"""Search over a hub's workspace: documents that facts show go into its index, and the same engine answers.

Knows one workspace's index and nothing of who asks: whoever calls is in a transaction that sees it alone.
"""

from __future__ import annotations

import json
from bisect import bisect_right
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, UsageError
from vademecum.index import postgres
from vademecum.index.base import EVERYTHING, JOURNAL, MEMORY, PINNED, Filter, IndexDocument, IndexItem, Stamp
from vademecum.index.corpus import read_document, text_to_embed
from vademecum.index.embed.select import shipped
from vademecum.index.postgres import PostgresIndex
from vademecum.index.sync import Sync, SyncReport
from vademecum.index.vectors import pack
from vademecum.search import base, relevance
from vademecum.search.engine import MODES, ORDERS, Engine, Options
from vademecum.search.searcher import ChunkShape, passage
from vademecum.search.when import moment_of, times_asked
from vademecum.store import files
from vademecum.sync import blocks
from vademecum.sync.folder import place_of
from vademecum.sync.project import FactSet, project
from vademecum.sync.trust import verified_texts
from vademecum.text import names, outgoing
from vademecum.types import Place, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vademecum.search.base import Answer
    from vademecum.search.engine import Ranking
    from vademecum.sync.facts import Dot, SyncFact
    from vademecum.sync.project import ShownBlock, Shows
    from vademecum.sync.trust import FactAuthor

MOST_RESULTS = 100
LONGEST_QUERY = 10_000  # characters
_SHAPE = ChunkShape()
_KINDS = {"records": (MEMORY, "record"), "journal": (JOURNAL, "journal")}
_NEVER = Stamp(0, 0, 0, 0)


class BlockLabel(NamedTuple):
    """What the hub knows of the block that begins at a line: who wrote it, and who verified it."""

    line: int
    origin: str | None = None  # None: what the text itself says
    vouched: tuple[str, ...] = ()
    second: tuple[str, ...] = ()  # whose word counts with the two-person rule


class HubFile(NamedTuple):
    """One file that the facts of a stream show."""

    docs: tuple[str, ...]
    folded: str  # its name as it is compared
    item: str
    path: str
    place: Place
    folder: str  # records, journal, or none
    text: str
    blocks: tuple[BlockLabel, ...] = ()

    @property
    def hash(self) -> str:
        """What is compared to know whether anything of it changed."""
        return files.digest(json.dumps([self.path, self.text, self.blocks]).encode())


def show_files(
    stamped: Iterable[tuple[SyncFact, FactAuthor]], stream: str, *, team: str = ""
) -> list[HubFile]:
    """The files that facts with their authors show; in a team, who wrote each block by the hub's own word."""
    authors: dict[Dot, FactAuthor] = {}
    state = FactSet()
    for fact, author in stamped:
        state.add(fact)
        authors[fact.dot] = author
    place = place_of(stream)
    if place is None:
        return []
    top = f"memory/hub/{team}/{stream}" if team else f"memory/{stream}"
    found = []
    for path, shown in project(state).items():
        folder, _, name = path.rpartition("/")
        labels = tuple(_labels(state, shown, authors)) if team else ()
        folded = f"{folder}/{names.folded(name)}"
        item = f"{stream}/{path}"
        found.append(HubFile(shown.docs, folded, item, f"{top}/{path}", place, folder, shown.text, labels))
    return found


def _labels(state: FactSet, shown: Shows, authors: Mapping[Dot, FactAuthor]) -> Iterator[BlockLabel]:
    """Who wrote and who verified each block of a file, by the line at which it begins."""
    counted = [
        {doc: verified_texts(state, doc, authors, two_person=two) for doc in shown.docs}
        for two in (False, True)
    ]
    text, at, line = shown.text.replace("\r\n", "\n"), 0, 1
    for block in shown.blocks:
        raw = block.raw.replace("\r\n", "\n").strip("\n")
        begin = text.find(raw, at)
        if begin < 0:
            continue
        line += text.count("\n", at, begin)
        whose = (_vouched(block, each) for each in counted)
        yield BlockLabel(line, f"member:{_author(state, block, authors)}", *whose)
        line, at = line + raw.count("\n"), begin + len(raw)


def _author(state: FactSet, block: ShownBlock, authors: Mapping[Dot, FactAuthor]) -> str:
    """Who wrote a block last."""
    return authors[max(block.dots, key=lambda dot: state.facts[dot].order)][0]


def _vouched(block: ShownBlock, counted: Mapping[str, Mapping[str, tuple[str, ...]]]) -> tuple[str, ...]:
    """The members whose word counts for the text of a block."""
    if not any(counted.values()):
        return ()
    name = blocks.name_of(block.raw)
    return tuple(sorted({each for stand in block.stands for each in counted[stand.doc].get(name, ())}))


def is_of_another_version(connection: Any, ws: int) -> bool:
    """Whether the workspace's index was made with another model, or by cutting texts or words otherwise."""
    index = PostgresIndex(connection, ws)
    made, (keywords, vectors) = index.row.settings, _sync(index, EVERYTHING).identity
    return bool(made) and (made.get("keywords"), made.get("vectors")) != (keywords, vectors)


def many() -> int:
    """The number of passages from which on a workspace has an index of its vectors."""
    return postgres.EXACT


def clear(connection: Any, ws: int) -> None:
    """Take everything out of a workspace's index."""
    PostgresIndex(connection, ws).drop(None, vectors=True)


def read_standing(connection: Any, ws: int) -> tuple[int, bool]:
    """How many passages a workspace has, and whether it is slow for want of an index of their vectors."""
    return PostgresIndex(connection, ws).standing


def take_in(
    connection: Any, ws: int, shown: Iterable[HubFile], gone: Iterable[str], *, purge: bool
) -> tuple[int, bool]:
    """Put files into the index in the place of what they were, with their vectors; take others out.

    With `purge`, no stem of what they were is left, whatever made it. Returns what `read_standing` does.
    """
    index, coming, leaving = PostgresIndex(connection, ws), [*shown], [*gone]
    index.lock()
    sync = _sync(index, Filter(items=tuple(each.item for each in coming)))
    sync.renew(SyncReport(), vectors=True)
    known = index.known(Filter(items=(*(sync.filter.items or ()), *leaving)))
    changed = [each for each in coming if each.item not in known or known[each.item].hash != each.hash]
    # A passage may keep its number when it is edited; of one that is purged not even the number is kept.
    left = [known[item].id for item in leaving if item in known]
    left += [known[each.item].id for each in changed if purge and each.item in known]
    if left:
        index.drop(left)
    if changed:
        index.put([_read(each) for each in changed], embed=_vectors)
    if purge:
        index.scrub()
    return index.standing


def _vectors(texts: Sequence[tuple[str, str]]) -> list[bytes]:
    """The vectors of titles and texts, by the model that every hub has."""
    return pack(shipped().embed([text_to_embed(*each) for each in texts]))


def _sync(index: PostgresIndex, filter: Filter) -> Sync:
    return Sync(index, filter, embedder=shipped, tokens=_SHAPE.tokens, overlap=_SHAPE.overlap)


def _read(shown: HubFile) -> IndexDocument:
    """A file as the index takes it in: cut as on every machine, with the hub's word on who wrote what."""
    source, kind = _KINDS.get(shown.folder, (PINNED, "pinned"))
    item = IndexItem(shown.item, shown.path, source, kind, shown.place, "", _NEVER, lambda: None)
    content = base.readable(shown.text).encode()
    try:
        made = read_document(item, content, shown.hash, tokens=_SHAPE.tokens, overlap=_SHAPE.overlap)
    except Malformed as error:
        return IndexDocument(item, shown.hash, reason=str(error))
    lines = [each.line for each in shown.blocks]
    pieces = []
    for piece in made.pieces or ():
        first = max(0, bisect_right(lines, piece.start) - 1)
        covered = shown.blocks[first : bisect_right(lines, piece.last)] or (BlockLabel(0),)
        # Of all that it shows; which of the two counts is known when somebody asks.
        vouched = sorted(set.intersection(*({*each.vouched} for each in covered)))
        second = sorted(set.intersection(*({*each.second} for each in covered)))
        place = json.dumps([vouched, second]).encode() if vouched else b""
        pieces.append(piece._replace(origin=covered[-1].origin or piece.origin, place=place))
    return made._replace(pieces=pieces)


# ------------------------------------------------------------------------------- answering


class HubQuestion(NamedTuple):
    """What a client may ask, once it was looked at."""

    query: base.Query
    options: Options
    max_weak: int | None = None
    places: frozenset[str] | None = None  # in which alone is looked


def read_question(given: Mapping[str, Any]) -> HubQuestion:
    """A question as a client sends it; what it may not be is refused with a sentence."""
    text = given.get("query")
    if not isinstance(text, str) or len(text) > LONGEST_QUERY:
        raise UsageError(f"a query is a text of at most {LONGEST_QUERY} characters")
    most = _number(given, "max_results", 6, 1, MOST_RESULTS)
    options = Options(
        mode=_choice(given, "mode", MODES, "hybrid"),
        max_results=int(most),
        min_score=_number(given, "min_score", 0.0, 0.0, 1.0),
        sort_by=_choice(given, "sort_by", ORDERS[:1], None),
        explain=given.get("explain") is True,
    )
    asked = base.parse(outgoing.clean_text(text))
    scope, kind = _choice(given, "scope", Scope, None), _choice(given, "type", RecordType, None)
    at, when = given.get("as_of"), given.get("now")
    moment = moment_of(None if when is None else str(when), datetime.now(UTC))
    asked = asked._replace(
        scope=asked.scope if scope is None else Scope(scope),
        type=kind or asked.type,
        as_of=None if at is None else base.as_of(str(at)),
        times=times_asked(asked.text, moment),
    )
    weak = None if given.get("max_weak") is None else int(_number(given, "max_weak", 0, 0, MOST_RESULTS))
    return HubQuestion(asked, options, weak, _places(given.get("places")))


def _places(said: Any) -> frozenset[str] | None:
    if said is None:
        return None
    named = isinstance(said, list) and all(isinstance(each, str) for each in said)
    if not named or len(said) > MOST_RESULTS:
        raise UsageError(f"`places` are at most {MOST_RESULTS} names")
    return frozenset(said)


def _choice(given: Mapping[str, Any], name: str, known: Iterable[str], default: Any) -> Any:
    said = given.get(name)
    if said is None:
        return default
    if said not in (choices := [*map(str, known)]):
        raise UsageError(f"`{name}` is one of {', '.join(choices)}")
    return said


def _number(given: Mapping[str, Any], name: str, default: float, least: float, most: float) -> float:
    said = given.get(name, default)
    if type(said) not in (int, float) or not least <= said <= most:
        raise UsageError(f"`{name}` is a number from {least:g} to {most:g}")
    return float(said)


def answer(
    connection: Any, ws: int, asked: HubQuestion, *, stale: int, two_person: bool = False
) -> tuple[Answer, list[list[str]]]:
    """The passages of a workspace that answer, as local search ranks them; with who verified each.

    `stale` is the number of changed documents that are not in the index yet: the answer says so.
    """
    index = PostgresIndex(connection, ws)
    engine = Engine(index, _sync(index, EVERYTHING), lambda _: {}, lambda: "no embedder")
    query, options = asked.query, asked.options
    found = _found(engine, index, query, options, asked.places)
    if query.phrases and not found.hits:
        anything = options._replace(min_score=0.0, max_results=1)
        if options.min_score <= 0 or not _found(engine, index, query, anything, asked.places).hits:
            query = base.without_phrases(query)
            found = _found(engine, index, query, options, asked.places)
    held, indexed = index.count_files()
    coverage = base.Coverage(held, indexed, stale, held - indexed)
    told = [f"stale: {stale} changed documents are not searched yet"] if stale else []
    embedder = None if found.by_words else engine.embedder
    made = base.Answer(
        tuple(passage(hit, explain=options.explain) for hit in found.hits),
        found.mode,
        coverage,
        (*told, *found.degraded),
        *(("none", "") if embedder is None else (embedder.provider, embedder.model)),
        notes=found.notes,
        hidden=found.hidden,
    )
    weak = relevance.most_weak(options.max_results) if asked.max_weak is None else asked.max_weak
    made = base.without_weak(made, weak)
    notes = query.notes if made.mode == "metadata" else (*query.notes, *query.times.notes)
    vouched = [_counted(hit.row.place, two_person=two_person) for hit in found.hits]
    return replace(made, notes=(*notes, *made.notes)), vouched[: len(made.results)]


def _counted(place: bytes, *, two_person: bool) -> list[str]:
    """Whose word counts for a passage by the workspace's rule."""
    both = json.loads(place) if place else [[], []]
    if not all(isinstance(each, list) for each in both):  # of a version that knew no rule
        both = [both, []]
    return [str(each) for each in both[1 if two_person else 0]]


def _found(
    engine: Engine,
    index: PostgresIndex,
    query: base.Query,
    options: Options,
    places: frozenset[str] | None,
) -> Ranking:
    """The ranking of a workspace: whoever may ask sees all of it, narrowed by what is asked."""
    visible = EVERYTHING
    if query.scope is not None or places is not None:
        asked = (each for each in index.places() if query.scope in (None, each.scope))
        visible = Filter(tuple(each for each in asked if places is None or str(each) in places))
    with index:
        return engine.search(query, visible, options, engine.meaning(query, options))
