"""The contract of an index kept by a PostgreSQL: candidates come from it, ranking is ours.

A proof that the seam holds, not a product. Stems lie in an array under a GIN index. PostgreSQL has no BM25:
it gives the rows that hold a word, how many there are and how long they are; the numbers are worked out here.
"""

from __future__ import annotations

import json
import math
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import psycopg

from index.memory_index import K1, B, Forms, MemoryIndex, _count, _holds_all, _marked, as_one, stemmed
from vademecum.index import languages, similar
from vademecum.index import words as wording
from vademecum.index.base import EVERYTHING, ChunkRow, Filter, KnownFile, Nearest, SimilarTerm, Stats
from vademecum.index.vectors import cosines_of, unpack
from vademecum.index.words import Speech
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.index.base import IndexDocument, Piece

_SCHEMA = """
drop table if exists files, chunks, settings;
create table files(
    id bigserial primary key, item text, scope text, scope_id text, path text, source text, kind text,
    root text, hash text, stamp bigint[], reason text, title text, key text, num int, type text, tags text[],
    updated text, state text, stems text[], unique(item, scope, scope_id)
);
create table chunks(
    id bigserial primary key, file bigint references files on delete cascade, ord int, start int, last int,
    body text, heading text, time text, moment text, origin text, superseded text, ended text, speaker text,
    asks int, says int, alone bool, size int, marks bytea, place bytea, stems text[], language text,
    vector bytea
);
create index on chunks using gin(stems);
create table settings(key text primary key, value text);
insert into settings values('made', 'here');
"""
_JOINED = "chunks c join files f on f.id = c.file"
_FILE = """item, scope, scope_id, path, source, kind, root, hash, stamp, reason, title, key, num, type, tags,
    updated, state, stems"""
_SCOPES = ", ".join(f"'{scope}'" for scope in Scope)
_PRECEDENCE = f"array_position(array[{_SCOPES}], f.scope)"


class PostgresIndex:
    """Files, chunks and vectors in the tables of a server."""

    patience: float | None = None
    reads = None

    def __init__(self, address: str) -> None:
        self._connection = psycopg.connect(address, autocommit=True)
        self._connection.execute(_SCHEMA)
        self._words = MemoryIndex()  # what cuts and stems
        self._version = 0

    def __enter__(self) -> Self:
        self._connection.execute("begin isolation level repeatable read")
        return self

    def __exit__(self, *error: object) -> None:
        self._connection.execute("rollback")

    def close(self) -> None:
        self._connection.close()

    def _ask(self, sql: str, values: Sequence[Any] = ()) -> list[Any]:
        return [*self._connection.execute(sql, values)]

    # --- writing

    def known(self, filter: Filter) -> dict[str, KnownFile]:
        where, values = _where(filter)
        rows = self._ask(
            f"""select item, id, hash, stamp, reason, path, source, kind, root, state from files f
            where {where}""",
            values,
        )
        return {
            row[0]: KnownFile(row[1], row[2], tuple(row[3]), row[4], row[5:9], state=row[9]) for row in rows
        }

    def put(
        self,
        documents: Iterable[IndexDocument] = (),
        *,
        vectors: Iterable[tuple[int, bytes]] = (),
        settings: Mapping[str, str] = {},
        last: bool = False,
    ) -> bool:
        here, coming = self._settings().get("dimension"), settings.get("dimension")
        if None not in (here, coming) and here != coming:
            return False
        with self._connection.transaction():
            for document in documents:
                self._put(document)
            for id_, vector in vectors:
                self._connection.execute("update chunks set vector = %s where id = %s", (vector, id_))
            self._remember(settings)
        return True

    def drop(
        self, files: Iterable[int] | None, *, vectors: bool = False, settings: Mapping[str, str] = {}
    ) -> None:
        with self._connection.transaction():
            if files is None:
                self._connection.execute("delete from files")
            else:
                self._connection.execute("delete from files where id = any(%s)", ([*files],))
            if vectors:
                self._connection.execute("update chunks set vector = null")
                self._connection.execute("delete from settings where key = 'dimension'")
            self._remember(settings)

    def _put(self, document: IndexDocument) -> None:
        item, labels = document.item, document.labels
        identity = (item.id, str(item.place.scope), item.place.id)
        if document.pieces is None and document.reason is None:
            self._connection.execute(
                "update files set stamp = %s where (item, scope, scope_id) = (%s, %s, %s)",
                ([*item.stamp], *identity),
            )
            return
        self._connection.execute("delete from files where (item, scope, scope_id) = (%s, %s, %s)", identity)
        pieces = document.pieces or ()
        once = " ".join(dict.fromkeys(" ".join(each.head for each in pieces).split()))
        whole = [self._words._tokens(each.text, each.language) for each in pieces]
        stems: list[str] | None = [*self._words._tokens(once), *(each for some in whole for each in some)]
        stems = stems if len(pieces) != 1 else None
        values: tuple[Any, ...] = (
            *identity,
            *item.labels,
            document.hash,
            [*item.stamp],
            document.reason,
            *labels[:4],
        )
        values = (*values, [*labels.tags], labels.updated, document.state, stems)
        file = self._ask(f"insert into files({_FILE}) values({', '.join(['%s'] * 18)}) returning id", values)[
            0
        ][0]
        for order, piece in enumerate(pieces):
            self._add(file, order, piece, alone=len(pieces) == 1)

    def _add(self, file: int, order: int, piece: Piece, *, alone: bool) -> None:
        known = languages.stems(sorted(piece.words), piece.language)
        marks = b"".join(_marked(self._words._cut._stems_of(word)) for word in known)
        size = len(piece.words - wording.LOW) if piece.words else piece.size
        stems = self._words._tokens(f"{piece.head}\n{piece.text}", piece.language)
        self._connection.execute(
            f"""insert into chunks(file, ord, start, last, body, heading, time, moment, origin, superseded,
            ended, speaker, asks, says, alone, size, marks, place, stems, language)
            values({", ".join(["%s"] * 20)})""",
            (file, order, *piece[:9], *piece.speech, alone, size, marks, piece.place, stems, piece.language),
        )

    def _remember(self, settings: Mapping[str, str]) -> None:
        self._version += 1
        for pair in settings.items():
            self._connection.execute(
                "insert into settings values(%s, %s) on conflict(key) do update set value = excluded.value",
                pair,
            )

    def _settings(self) -> dict[str, str]:
        return dict(self._ask("select key, value from settings"))

    # --- reading

    def match(
        self,
        phrases: Sequence[Sequence[str]],
        filter: Filter,
        limit: int | None,
        *,
        every: bool = False,
        wide: bool = False,
        terms: bool = False,
    ) -> dict[int, float]:
        where, values = _where(_of_files(filter) if wide else filter)
        if not phrases:
            order = f"coalesce(c.moment, f.updated, '') collate \"C\" desc, {_PRECEDENCE}, f.path, c.ord desc"
            order = "c.id" if filter.bare else order
            rows = self._ask(
                f"select c.id from {_JOINED} where {where} order by {order} limit %s", (*values, limit)
            )
            return dict.fromkeys([row[0] for row in rows], 0.0)
        table = "files" if wide else "chunks"
        forms = [as_one([[*each]] if terms else self._forms(each)) for each in phrases]
        wanted = [form for each in forms for form in each]
        held = self._ask(
            f"select id, stems from {table} where stems && %s",
            ([stem for each in wanted for word in each for stem in word],),
        )
        total, length = self._ask(
            f"select count(*), sum(cardinality(stems)) from {table} where stems is not null"
        )[0]
        scores = _bm25(dict(held), wanted, total, float(length or 0) / max(1, total))
        if every:
            found = dict(held)
            scores = {id_: score for id_, score in scores.items() if _holds_all(found[id_], forms)}
        joined = "files f" if wide else _JOINED
        column = "f.id" if wide else "c.id"
        seen = self._ask(
            f"select {column} from {joined} where {where} and {column} = any(%s)", (*values, [*scores])
        )
        ordered = sorted((row[0] for row in seen), key=lambda id_: (-scores[id_], id_))
        return {id_: scores[id_] for id_ in ordered[:limit]}

    def nearest(
        self, query: Any, filter: Filter, limit: int, *, made_by: str, also: Iterable[int] = ()
    ) -> Nearest:
        kept = self._ask("select id, vector from chunks where vector is not null order by id")
        if not kept or self._settings().get("vectors") != made_by:
            return Nearest({}, {}, 0.0, 1.0, 0, 0, self._vectors_of)
        all_of = unpack(np.frombuffer(b"".join(row[1] for row in kept), np.int8).reshape(len(kept), -1))
        if all_of.shape[1] != len(query):
            return Nearest({}, {}, 0.0, 1.0, len(kept), all_of.shape[1], self._vectors_of)
        near = dict(zip((row[0] for row in kept), cosines_of(all_of, query), strict=True))
        shown = self.rows(near, filter, text=False)
        best = sorted(shown, key=lambda id_: -near[id_])[:limit]
        chosen = [id_ for id_ in dict.fromkeys((*best, *also)) if id_ in near]
        numbers = np.array([*near.values()])
        return Nearest(
            {id_: near[id_] for id_ in chosen},
            {id_: row.mark for id_, row in self.rows(chosen, text=False).items()},
            float(numbers.mean()),
            max(float(numbers.std()), 1e-3),
            len(kept),
            all_of.shape[1],
            self._vectors_of,
        )

    def _vectors_of(self, ids: Sequence[int]) -> tuple[list[int], Any]:
        kept = self._ask("select id, vector from chunks where vector is not null and id = any(%s)", ([*ids],))
        packed = np.frombuffer(b"".join(row[1] for row in kept), np.int8)
        return [row[0] for row in kept], unpack(
            packed.reshape(len(kept), -1) if kept else packed.reshape(0, 0)
        )

    def rows(
        self, ids: Iterable[int], filter: Filter = EVERYTHING, *, text: bool = True
    ) -> dict[int, ChunkRow]:
        where, values = _where(filter)
        found = self._ask(
            f"""select c.id, f.id, c.ord, f.item, f.path, f.source, f.kind, f.scope, f.scope_id, f.title,
            f.key, f.num, f.type, f.tags, f.updated, c.start, c.last, c.body, c.heading, c.time, c.origin,
            c.superseded, c.alone, c.size, c.marks, c.speaker, c.asks, c.says, c.place
            from {_JOINED} where {where} and c.id = any(%s)""",
            (*values, [*ids]),
        )
        made = {}
        for cells in found:
            speech = Speech(cells[25], cells[26], cells[27])
            row = ChunkRow._make((*cells[:13], tuple(cells[13]), *cells[14:25], speech, cells[28]))
            made[row.id] = row if text else row._replace(body="", heading="")
        return made

    def stats(self, words: Iterable[str] = (), filter: Filter | None = None) -> Stats:
        asked = [*words]
        seen = {word: self._seen(*{form[0] for form in self._forms((word,))}) for word in asked}
        chunks = self._ask("select count(*) from chunks")[0][0]
        marks = {word: tuple(map(_marked, self._forms((word,)))) for word in asked}
        found = Stats((0, self._version), self._settings(), chunks, seen, marks)
        if filter is None:
            return found
        where, values = _where(_of_files(filter))
        files, indexed = self._ask(
            f"select count(*), count(*) filter (where reason is null) from files f where {where}", values
        )[0]
        where, values = _where(filter._replace(bare=True))
        waiting = self._ask(f"select count(*) from {_JOINED} where {where}", values)[0][0]
        return found._replace(files=files, indexed=indexed, waiting=waiting)

    def similar(self, word: str) -> list[SimilarTerm]:
        held = self._languages()
        others = [self._words._tokens(languages.stems((word,), each)[0]) for each in held]
        found = similar.terms_like(
            [form[0] for form in self._forms((word,)) if len(form) == 1],
            self._vocabulary((), [form[0] for form in others if form]),
            self._vocabulary,
            compounds=not languages.COMPOUNDING.isdisjoint(held),
            thorough=True,
        )
        return [SimilarTerm(*each, _marked([each[0]])) for each in found]

    def foreign(self, ids: Iterable[int]) -> set[int]:
        rows = self._ask("select id from chunks where id = any(%s) and language != 'en'", ([*ids],))
        return {row[0] for row in rows}

    def _vocabulary(self, ranges: Sequence[tuple[str, str]], terms: Sequence[str] = ()) -> dict[str, int]:
        known = [row[0] for row in self._ask("select distinct unnest(stems) from chunks")]
        asked = {term for term in known if term in terms or any(low <= term < high for low, high in ranges)}
        return {term: self._seen(term) for term in asked}

    def _seen(self, *terms: str) -> int:
        return int(self._ask("select count(*) from chunks where stems && %s", ([*terms],))[0][0])

    def _languages(self) -> dict[str, int]:
        return dict(self._ask("select language, count(*) from chunks group by language"))

    def _forms(self, phrase: Sequence[str]) -> list[list[str]]:
        spoken = languages.asked_in(self._languages().items())
        return stemmed(self._words, phrase, spoken)


def _bm25(table: dict[int, list[str]], phrases: list[Forms], total: int, average: float) -> dict[int, float]:
    counts = [{id_: _count(stems, phrase) for id_, stems in table.items()} for phrase in phrases]
    found: dict[int, float] = {}
    for id_, stems in table.items():
        held = [count[id_] for count in counts]
        if not any(held):
            continue
        found[id_] = 0.0
        for frequency, count in zip(held, counts, strict=True):
            hits = sum(map(bool, count.values()))
            idf = max(math.log((total - hits + 0.5) / (hits + 0.5)), 1e-6)
            weight = K1 * (1 - B + B * len(stems) / average)
            found[id_] += idf * frequency * (K1 + 1) / (frequency + weight)
    return found


def _of_files(filter: Filter) -> Filter:
    """What a filter says of files."""
    return filter._replace(after=None, before=None, as_of=None, only=None, bare=False)


def _where(filter: Filter) -> tuple[str, list[Any]]:
    """A filter in the words of PostgreSQL; all values are bound, and `collate "C"` orders as Python does."""
    clauses, values = ["true"], list[Any]()

    def add(clause: str, *bound: Any) -> None:
        clauses.append(clause)
        values.extend(bound)

    if filter.places is not None:
        pairs = json.dumps([[str(place.scope), place.id] for place in filter.places])
        add("jsonb_build_array(f.scope, f.scope_id) in (select jsonb_array_elements(%s::jsonb))", pairs)
        add("f.root in ('', %s)", filter.root)
    if filter.group:
        add("(f.source = 'memory' or (f.source = 'pinned' and right(f.path, 11) = '/context.md'))")
    if filter.tags:
        add("f.tags @> %s", [*filter.tags])
    if filter.path is not None:
        add("strpos(f.path, %s) > 0", filter.path)
    for clause, value in (
        ("f.type = %s", filter.type),
        ("f.key = any(%s)", filter.keys and [*filter.keys]),
        ("f.source = any(%s)", [*filter.sources] or None),
        ("f.item = any(%s)", filter.items and [*filter.items]),
        ("coalesce(c.moment, f.updated, '') collate \"C\" >= %s", filter.after),
        ("coalesce(c.moment, f.updated, '9') collate \"C\" < %s", filter.before),
        ('(c.moment is null or c.moment collate "C" <= %s)', filter.as_of),
        ('(c.ended is null or c.ended collate "C" > %s)', filter.as_of),
    ):
        if value is not None:
            add(clause, value)
    if filter.only is not None:
        add("c.id = any(%s)", [*filter.only])
    if filter.bare:
        add("c.vector is null")
    return " and ".join(clauses), values
