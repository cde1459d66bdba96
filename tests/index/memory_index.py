"""An index of dictionaries: the contract of `Index` kept in the plainest way, for tests.

Words are cut and stemmed as FTS5 does it, and weighed by the same BM25, so that what it answers can be
compared with what SQLite answers. It says what any implementation has to do and nothing of how to be quick.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Self

import numpy as np

from vademecum.index import languages, similar
from vademecum.index import words as wording
from vademecum.index.base import (
    EVERYTHING,
    MEMORY,
    PINNED,
    ChunkRow,
    Filter,
    Index,
    IndexDocument,
    KnownFile,
    Mark,
    Nearest,
    Piece,
    SimilarTerm,
    Stats,
)
from vademecum.index.sqlite import new_stems
from vademecum.index.vectors import cosines_of, unpack
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.types import Place

K1, B = 1.2, 0.75  # of FTS5's BM25
PRECEDENCE = [*Scope]
Forms = list[set[str]]  # of each word of a phrase


class Chunk(NamedTuple):
    id: int
    file: int
    order: int
    alone: bool
    piece: Piece


class MemoryIndex:
    """Files, chunks and vectors in dictionaries."""

    patience: float | None = None
    stemming = ""
    reads = None

    def __init__(self) -> None:
        self.files: dict[int, IndexDocument] = {}
        self.chunks: dict[int, Chunk] = {}
        self.vectors: dict[int, bytes] = {}
        self.settings: dict[str, str] = {"made": "here"}
        self.version = 0
        self._narrow: dict[int, list[str]] = {}
        self._wide: dict[int, list[str]] = {}
        self._next = 1
        self._cut = new_stems()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        pass

    def close(self) -> None:
        """Nothing is held."""

    # --- writing

    def known(self, filter: Filter) -> dict[str, KnownFile]:
        return {
            each.item.id: KnownFile(
                id_, each.hash, each.item.stamp, each.reason, each.item.labels, state=each.state
            )
            for id_, each in self.files.items()
            if self._shows_file(filter, each)
        }

    def put(
        self,
        documents: Iterable[IndexDocument] = (),
        *,
        vectors: Iterable[tuple[int, bytes]] = (),
        settings: Mapping[str, str] = {},
        last: bool = False,
    ) -> bool:
        here, coming = self.settings.get("dimension"), settings.get("dimension")
        if None not in (here, coming) and here != coming:
            return False
        before = dict(self.files), dict(self.chunks), dict(self._narrow), dict(self._wide)
        for document in documents:
            if not self._put(document):
                self.files, self.chunks, self._narrow, self._wide = before
                return False
        self.vectors.update((id_, vector) for id_, vector in vectors if id_ in self.chunks)
        self.settings.update(settings)
        self.version += 1
        return True

    def drop(
        self, files: Iterable[int] | None, *, vectors: bool = False, settings: Mapping[str, str] = {}
    ) -> None:
        for file in [*self.files] if files is None else files:
            self._clear(file)
            self.files.pop(file, None)
        if vectors:
            self.vectors.clear()
            self.settings.pop("dimension", None)
        self.settings.update(settings)
        self.version += 1

    def _put(self, document: IndexDocument) -> bool:
        item = document.item
        found = (
            id_
            for id_, each in self.files.items()
            if (each.item.id, each.item.place) == (item.id, item.place)
        )
        file = next(found, None)
        if document.grown is not None:
            if document.grown != ("" if file is None else self.files[file].state):
                return False
        elif document.reason is None and document.pieces is None:
            if file is not None:
                self.files[file] = self.files[file]._replace(item=item, hash=document.hash)
            return True
        elif file is not None:
            self._clear(file)
        if file is None:
            file = self._id()
        self.files[file] = document
        self._add(file, document.pieces or (), grown=document.grown is not None)
        return True

    def _add(self, file: int, pieces: Sequence[Piece], *, grown: bool) -> None:
        first = sum(each.file == file for each in self.chunks.values())
        for order, piece in enumerate(pieces, first):
            id_ = self._id()
            self.chunks[id_] = Chunk(id_, file, order, not grown and len(pieces) == 1, piece)
            self._narrow[id_] = self._tokens(f"{piece.head}\n{piece.text}", piece.language)
        if not grown and len(pieces) != 1:
            once = " ".join(dict.fromkeys(" ".join(each.head for each in pieces).split()))
            whole = [self._tokens(each.text, each.language) for each in pieces]
            self._wide[file] = [*self._tokens(once), *(token for each in whole for token in each)]

    def _clear(self, file: int) -> None:
        for id_ in [each.id for each in self.chunks.values() if each.file == file]:
            for remaining in (self.chunks, self._narrow, self.vectors):
                remaining.pop(id_, None)
        self._wide.pop(file, None)

    def _id(self) -> int:
        self._next += 1
        return self._next

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
        if not phrases:
            visible = [each for each in self.chunks.values() if self._shows(filter, each)]
            if not filter.bare:  # those come in the order of their numbers
                visible.sort(key=self._age)
                visible.sort(key=self._moment, reverse=True)
            return dict.fromkeys([each.id for each in visible[:limit]], 0.0)
        table = self._wide if wide else self._narrow
        forms = [as_one([[*each]] if terms else self._forms(each)) for each in phrases]
        scores = self._bm25([form for each in forms for form in each], table)
        if every:
            scores = {id_: score for id_, score in scores.items() if _holds_all(table[id_], forms)}
        seen = {
            id_: score
            for id_, score in scores.items()
            if (self._shows_file(filter, self.files[id_]) if wide else self._shows(filter, self.chunks[id_]))
        }
        ordered = sorted(seen, key=lambda id_: (-seen[id_], id_))
        return {id_: seen[id_] for id_ in ordered[:limit]}

    def _bm25(self, phrases: list[Forms], table: dict[int, list[str]]) -> dict[int, float]:
        average = sum(map(len, table.values())) / max(1, len(table))
        found: dict[int, float] = {}
        counts = [{id_: _count(tokens, phrase) for id_, tokens in table.items()} for phrase in phrases]
        for id_, tokens in table.items():
            counts_held = [count[id_] for count in counts]
            if not any(counts_held):
                continue
            found[id_] = 0.0
            for frequency, count in zip(counts_held, counts, strict=True):
                hits = sum(map(bool, count.values()))
                idf = math.log((len(table) - hits + 0.5) / (hits + 0.5))
                weight = K1 * (1 - B + B * len(tokens) / average)
                found[id_] += max(idf, 1e-6) * frequency * (K1 + 1) / (frequency + weight)
        return found

    def nearest(
        self, query: Any, filter: Filter, limit: int, *, made_by: str, also: Iterable[int] = ()
    ) -> Nearest:
        ids = sorted(self.vectors) if self.settings.get("vectors") == made_by else []
        if not ids:
            return Nearest({}, {}, 0.0, 1.0, 0, 0, self._vectors_of)
        _, all_of = self._vectors_of(ids)
        if all_of.shape[1] != len(query):
            return Nearest({}, {}, 0.0, 1.0, len(ids), all_of.shape[1], self._vectors_of)
        near = dict(zip(ids, cosines_of(all_of, query), strict=True))
        visible = [id_ for id_ in ids if self._shows(filter, self.chunks[id_])]
        best = sorted(visible, key=lambda id_: -near[id_])[:limit]
        cosines = {id_: near[id_] for id_ in dict.fromkeys((*best, *also)) if id_ in near}
        numbers = np.array([*near.values()])
        return Nearest(
            cosines,
            {id_: self._mark(self.chunks[id_]) for id_ in cosines},
            float(numbers.mean()),
            max(float(numbers.std()), 1e-3),
            len(ids),
            all_of.shape[1],
            self._vectors_of,
        )

    def _vectors_of(self, ids: Sequence[int]) -> tuple[list[int], Any]:
        known = [id_ for id_ in ids if id_ in self.vectors]
        rows = np.frombuffer(b"".join(self.vectors[id_] for id_ in known), np.int8)
        return known, unpack(rows.reshape(len(known), -1) if known else rows.reshape(0, 0))

    def rows(
        self, ids: Iterable[int], filter: Filter = EVERYTHING, *, text: bool = True
    ) -> dict[int, ChunkRow]:
        found = [self.chunks[id_] for id_ in ids if id_ in self.chunks]
        return {each.id: self._row(each, text=text) for each in found if self._shows(filter, each)}

    def _row(self, chunk: Chunk, *, text: bool) -> ChunkRow:
        file, piece = self.files[chunk.file], chunk.piece
        item, labels = file.item, file.labels
        known = languages.stems(sorted(piece.words), piece.language)
        stems = b"".join(_marked(self._cut.of(word)) for word in known)
        return ChunkRow(
            chunk.id,
            chunk.file,
            chunk.order,
            item.id,
            item.path,
            item.source,
            item.kind,
            str(item.place.scope),
            item.place.id,
            *labels,
            piece.start,
            piece.last,
            piece.body if text else "",
            piece.heading if text else "",
            piece.time,
            piece.origin,
            piece.superseded,
            chunk.alone,
            len(piece.words - wording.LOW) if piece.words else piece.size,
            stems,
            piece.speech,
            piece.place,
        )

    def stats(self, words: Iterable[str] = (), filter: Filter | None = None) -> Stats:
        terms_asked = [*words]
        seen = {word: self._seen(*{form[0] for form in self._forms((word,))}) for word in terms_asked}
        found = Stats((0, self.version), dict(self.settings), len(self.chunks), seen)
        found = found._replace(
            marks={word: tuple(map(_marked, self._forms((word,)))) for word in terms_asked}
        )
        if filter is None:
            return found
        files = [each for each in self.files.values() if self._shows_file(filter, each)]
        bare = [each for each in self.chunks.values() if self._shows(filter._replace(bare=True), each)]
        return found._replace(
            files=len(files), indexed=sum(each.reason is None for each in files), waiting=len(bare)
        )

    # --- parts

    def _mark(self, chunk: Chunk) -> Mark:
        return self._row(chunk, text=False).mark

    def similar(self, word: str) -> list[SimilarTerm]:
        others = [self._tokens(languages.stems((word,), each)[0]) for each in self._languages()]
        found = similar.terms_like(
            [form[0] for form in self._forms((word,)) if len(form) == 1],
            self._vocabulary((), [form[0] for form in others if form]),
            self._vocabulary,
            compounds=not languages.COMPOUNDING.isdisjoint(self._languages()),
            thorough=True,
        )
        return [SimilarTerm(*each, _marked([each[0]])) for each in found]

    def foreign(self, ids: Iterable[int]) -> set[int]:
        return {id_ for id_ in ids if self.chunks[id_].piece.language != wording.ENGLISH}

    def _vocabulary(self, ranges: Sequence[tuple[str, str]], terms: Sequence[str] = ()) -> dict[str, int]:
        known = sorted({token for tokens in self._narrow.values() for token in tokens})
        asked = {term for term in known if term in terms or any(low <= term < high for low, high in ranges)}
        return {term: self._seen(term) for term in asked}

    def _seen(self, *terms: str) -> int:
        return sum(not {*terms}.isdisjoint(tokens) for tokens in self._narrow.values())

    def _languages(self) -> dict[str, int]:
        counts: dict[str, int] = {}
        for each in self.chunks.values():
            counts[each.piece.language] = counts.get(each.piece.language, 0) + 1
        return counts

    def _forms(self, phrase: Sequence[str]) -> list[list[str]]:
        return stemmed(self, phrase, languages.asked_in(self._languages().items()))

    def _tokens(self, text: str, language: str = wording.ENGLISH) -> list[str]:
        return self._cut.terms(text, language).split()

    def _moment(self, chunk: Chunk) -> str:
        return chunk.piece.moment or self.files[chunk.file].labels.updated or ""

    def _age(self, chunk: Chunk) -> tuple[int, str, int]:
        item = self.files[chunk.file].item
        return PRECEDENCE.index(item.place.scope), item.path, -chunk.order

    def _shows(self, filter: Filter, chunk: Chunk) -> bool:
        piece = chunk.piece
        moment = piece.moment or self.files[chunk.file].labels.updated
        return (
            self._shows_file(filter, self.files[chunk.file])
            and (filter.after is None or (moment or "") >= filter.after)
            and (filter.before is None or (moment or "9") < filter.before)
            and (filter.as_of is None or piece.moment is None or piece.moment <= filter.as_of)
            and (filter.as_of is None or piece.ended is None or piece.ended > filter.as_of)
            and (filter.only is None or chunk.id in filter.only)
            and (not filter.bare or chunk.id not in self.vectors)
        )

    @staticmethod
    def _shows_file(filter: Filter, file: IndexDocument) -> bool:
        item, labels = file.item, file.labels
        shared = item.source == MEMORY or (item.source == PINNED and item.path.endswith("/context.md"))
        return (
            _sees(filter.places, filter.root, item.place, item.root)
            and (not filter.group or shared)
            and (filter.type is None or labels.type == filter.type)
            and set(filter.tags) <= set(labels.tags)
            and (filter.keys is None or labels.key in filter.keys)
            and (filter.path is None or filter.path in item.path)
            and (not filter.sources or item.source in filter.sources)
            and (filter.items is None or item.id in filter.items)
        )


def _sees(places: tuple[Place, ...] | None, root: str, place: Place, of: str) -> bool:
    return places is None or (place in places and of in ("", root))


def _count(tokens: list[str], phrase: Forms) -> int:
    """How often some words stand together, each in any of its forms."""
    if not phrase:
        return 0
    starts = range(len(tokens) - len(phrase) + 1)
    return sum(all(tokens[at + on] in word for on, word in enumerate(phrase)) for at in starts)


def as_one(forms: list[list[str]]) -> list[Forms]:
    """The forms of a phrase, each of its words being one word: by how many words they have."""
    lengths = dict.fromkeys(map(len, forms))
    return [
        [{*words} for words in zip(*(f for f in forms if len(f) == size), strict=True)] for size in lengths
    ]


def stemmed(index: MemoryIndex, phrase: Sequence[str], spoken: Sequence[str]) -> list[list[str]]:
    """Some words in each of some languages and in English, each way once."""
    ways = [phrase, *(languages.stems(phrase, each) for each in spoken)]
    forms = dict.fromkeys(tuple(t for word in way for t in index._cut.of(word)) for way in ways)
    return [[*form] for form in forms if form]


def _holds_all(tokens: list[str], forms: list[list[Forms]]) -> bool:
    return all(any(_count(tokens, form) for form in each) for each in forms)


def _marked(stems: Sequence[str]) -> bytes:
    return f"|{' '.join(stems)}|".encode() if stems else b""


def _is_an_index() -> Index:
    return MemoryIndex()  # as mypy sees it
