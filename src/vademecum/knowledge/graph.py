"""Build the graph of records, with edges made from links, frontmatter, cited files and shared tags."""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import posixpath
import re
import sys
from array import array
from collections import Counter
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias
from urllib.parse import unquote

from vademecum.errors import Malformed, NotFound, OutsideMemory, UnknownName
from vademecum.fields import read_tags
from vademecum.store import Fact, decisions, in_folder, scopes, sources
from vademecum.text import LETTERS, clock, fences, filenames, frontmatter, names, visible
from vademecum.text.document import decode
from vademecum.types import Entry, Finding, Record

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from pathlib import Path

    from vademecum.store import Facts, Home, Records, ScopeFolder, Source
    from vademecum.types import Place

    Stamp: TypeAlias = tuple[int, ...]


REJECTED = "edges"  # the kind of decision
NOTE = "note"  # the type of a file in an attached folder, among records
ALIKE = 0.3  # cosine of weighted words; below it a shared tag says nothing
MOST_BY_TAG = 3  # of a record, the most alike
_CROWD = 60  # records under one tag: with more of them a tag tells nothing

_CODE = re.compile(r"`[^`\n]{1,300}`")
LINK = re.compile(r"(?<!!)\[[^\]\n]{1,300}\]\(\s*<?([^)\s>]{1,500}?)>?(?:\s+\"[^\"\n]*\")?\s*\)")
WIKI = re.compile(r"\[\[([^\]|#\n]{1,120}+)(?:#[^\]|\n]{0,200}+)?(?:\|[^\]\n]{0,200}+)?\]\]")
_SHOWN = re.compile(r"!\[\[[^\]|#\n]+\.(?!md\b)[a-z0-9]{2,5}\s*$", re.IGNORECASE)  # a picture in its text
_LONG = 3  # letters of a word that counts
_XML_NEVER = re.compile("[\ufffe\uffff]")  # what is left that XML cannot hold


class Relation(StrEnum):
    """The kind of relation that one record has to another record."""

    RELATES_TO = "relates_to"
    SUPERSEDES = "supersedes"
    CONTRADICTS = "contradicts"


class Edge(NamedTuple):
    """An edge from one record to another."""

    source: str  # paths as shown
    target: str
    relation: Relation
    origin: str  # link, wiki, frontmatter, tags, or the name of the model that said so
    weight: float = 1.0
    rejected: bool = False

    @property
    def status(self) -> str:
        """`rejected` if a person rejected the edge, else `active`."""
        return "rejected" if self.rejected else "active"


class Broken(NamedTuple):
    """A link to a record that does not exist, with the line of the link."""

    source: str
    wanted: str
    line: int


class Graph(NamedTuple):
    """Records, the edges between them, and the links to records that do not exist."""

    records: tuple[Record, ...]
    edges: tuple[Edge, ...]
    broken: tuple[Broken, ...]

    def standing(self) -> Graph:
        """Return the graph without the edges that a person rejected."""
        return self._replace(edges=tuple(edge for edge in self.edges if not edge.rejected))

    def render(self, format: str) -> str:
        """Return the graph as text in the format `json`, `mermaid` or `graphml`."""
        if format == "mermaid":
            return as_mermaid(self)
        if format == "graphml":
            return as_graphml(self)
        if format == "json":
            return json.dumps(as_json(self), ensure_ascii=False, indent=2) + "\n"
        raise UnknownName(
            f"{names.shown(format)} is not a format of graphs", hint=f"the formats are {', '.join(FORMATS)}"
        )


def surest(edge: Edge) -> tuple[float, str, str, str]:
    """Return the sort key that puts the edges with the highest weight first."""
    return -edge.weight, edge.source, edge.target, edge.relation


def build_graph(
    records: Iterable[Record],
    *,
    rejected: Callable[[str, str], bool] = lambda one, other: False,
    by_tags: bool = True,
    crowd: Crowd | None = None,
) -> Graph:
    """Return the graph of these records; two records have at most one edge of each relation.

    `rejected` tells which edges a person rejected. Without `by_tags`, shared tags make no edges; a `crowd`
    has the counts of a place of which only some records are given.
    """
    listed = tuple(records)
    named = _index_names(listed)
    found: dict[tuple[str, str, Relation], Edge] = {}
    broken: list[Broken] = []
    for record in listed:
        for edge in _frontmatter_edges(record, named, broken):
            found.setdefault((edge.source, edge.target, edge.relation), edge)
    if by_tags:
        for edge in _tag_edges(listed, crowd):
            pair = (edge.source, edge.target, edge.relation), (edge.target, edge.source, edge.relation)
            if not any(each in found for each in pair):
                found[pair[0]] = edge
    known = {record.path: record for record in listed}
    edges = (
        edge._replace(rejected=is_rejected(known[edge.source], known[edge.target], rejected))
        for edge in found.values()
    )
    order = sorted(edges, key=lambda edge: (edge.source, edge.target, edge.relation))
    return Graph(listed, tuple(order), tuple(broken))


# -------------------------------------------------------------------- a person's no


def identity(record: Record) -> str:
    """Return the id under which decisions about a record are saved; it stays when the record is renamed."""
    return identities(record)[0]


def identities(record: Record) -> tuple[str, ...]:
    """Return all names under which decisions about a record may be saved: its id, and its place
    with its key.
    """
    named = f"{record.place} {record.key}"
    return (record.id, named) if record.id else (named,)


def is_rejected(one: Record, other: Record, rejected: Callable[[str, str], bool]) -> bool:
    """Whether a person has rejected the edge between two records."""
    return any(rejected(mine, theirs) for mine in identities(one) for theirs in identities(other))


def reject(home: Home, one: str, other: str, *, at: str, by: str) -> None:
    """Save a person's decision that two records are not related."""
    pair = sorted((one, other))
    decisions.put(home, REJECTED, _pair(one, other), {"records": pair, "at": at, "by": by})


def accept(home: Home, one: Record | str, other: Record | str) -> bool:
    """Revert a person's decision that two records are not related; return False when there was none."""
    ends = [(each,) if isinstance(each, str) else identities(each) for each in (one, other)]
    dropped = [decisions.drop(home, REJECTED, _pair(mine, theirs)) for mine in ends[0] for theirs in ends[1]]
    return any(dropped)


def rejections(home: Home) -> Callable[[str, str], bool]:
    """Return a function of two ids that says whether a person has rejected the edge between their records."""
    listed = {name for name, _ in decisions.every(home, REJECTED)}
    return lambda one, other: bool(listed) and _pair(one, other) in listed


def _pair(one: str, other: str) -> str:
    return hashlib.sha256("\0".join(sorted((one, other))).encode()).hexdigest()[:24]


# -------------------------------------------------------------------- what the files say


def _index_names(records: Sequence[Record]) -> dict[str, list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        found.setdefault(record.key, []).append(record)
    for record in records:
        # An earlier key leads to it where nothing has that key now, and so does where it came from.
        for alias in (*record.aliases, *_import_names(record)):
            here = found.setdefault(alias, [])
            if all(each.place != record.place for each in here):
                here.append(record)
    return found


def _import_names(record: Record) -> Iterator[str]:
    """Yield the names of an imported record in the other system: its file's path, and the bare file name.

    They begin with the system and a colon, which no key has.
    """
    for system, path in import_paths(record):
        yield f"{system}:{path}"
        yield f"{system}:{_stem(path)}"


def import_paths(record: Record) -> Iterator[tuple[str, str]]:
    """Yield the systems that a record was imported from, each with the path of the record's file there."""
    listed = record.fields.get("sources")
    for each in listed if isinstance(listed, list) else ():
        system, _, path = str(each.get("resource") or "" if isinstance(each, dict) else "").partition(":")
        if path and not path.startswith("//"):
            yield system, path.partition("#")[0]


def _stem(path: str) -> str:
    return names.slug(path.rpartition("/")[2].removesuffix(".markdown").removesuffix(".md"))


def _imported_targets(record: Record, wanted: str, origin: str) -> Iterator[str]:
    """Yield the imported names that a link in an imported record may mean, the likeliest first.

    The link may be a path from the top of the bundle, or from the folder of its file.
    """
    path = unquote(wanted.partition("#")[0])
    if "://" in path or not (origin == "wiki" or path.endswith((".md", ".markdown"))):
        return
    for system, own in import_paths(record):
        if origin == "wiki":
            yield f"{system}:{path}.md"
            yield f"{system}:{_stem(path)}"
        else:
            below = path if path.startswith("/") else posixpath.join("/", posixpath.dirname(own), path)
            yield f"{system}:{posixpath.normpath(below).lstrip('/')}"


def _frontmatter_edges(
    record: Record, named: Mapping[str, Sequence[Record]], broken: list[Broken]
) -> Iterator[Edge]:
    for key, relation, origin in _related(record):
        target = _target(record, key, named)
        if target is not None:
            yield Edge(record.path, target.path, relation, origin)
        else:
            broken.append(Broken(record.path, key, 1))
    for entry in record.live:
        text = without_code(entry.text)
        for match, origin, keys in _links(record, text):
            target = next(filter(None, (_target(record, key, named) for key in keys)), None)
            if target is not None and target.path != record.path:
                yield Edge(record.path, target.path, Relation.RELATES_TO, origin)
            elif target is None and ":" not in keys[-1]:  # else it may be any file that did not come with it
                line = entry.start + 1 + text.count("\n", 0, match.start())
                broken.append(Broken(record.path, match[1].strip(), min(line, entry.end)))


def _links(record: Record, text: str) -> Iterator[tuple[re.Match[str], str, list[str]]]:
    """Yield each link in a text, its kind (`link` or `wiki`), and the names that it may mean, likeliest
    first.
    """
    for pattern, origin in ((LINK, "link"), (WIKI, "wiki")):
        for match in pattern.finditer(text):
            wanted = match[1].strip()
            if _SHOWN.search(text, max(0, match.start() - 1), match.end(1)):
                continue
            keys = [*_imported_targets(record, wanted, origin)]
            if origin == "wiki" or _is_record_link(wanted):
                keys.append(_key(wanted))
            if keys:
                yield match, origin, keys


def without_code(text: str) -> str:
    """Return a text with its code blanked out, line for line, so that nothing in code counts as a link."""
    return _CODE.sub("", fences.blank(text))


def _related(record: Record) -> Iterator[tuple[str, Relation, str]]:
    """Yield the relations in a record's frontmatter, each as the other record's key, the relation and its
    author.
    """
    listed = record.fields.get("related")
    for each in listed if isinstance(listed, list) else ():
        edge_values: Mapping[str, Any] = each if isinstance(each, dict) else {"key": each}
        key = _key(str(edge_values.get("key") or ""))
        if not key:
            continue
        try:
            relation = Relation(str(edge_values.get("rel") or Relation.RELATES_TO))
        except ValueError:
            relation = Relation.RELATES_TO
        yield key, relation, str(edge_values.get("by") or "frontmatter")


def _is_record_link(target: str) -> bool:
    """Whether a link's target is a record: a Markdown file beside this one, or in a folder of records.

    A file in another folder, or at an address, is some document that the record cites.
    """
    path = target.partition("#")[0]
    folder, _, name = path.removeprefix("./").rpartition("/")
    beside = not folder or (not path.startswith(("/", "~")) and folder.endswith("records"))
    return name.endswith(".md") and "://" not in path and beside


def _key(target: str) -> str:
    stem = target.partition("#")[0].rpartition("/")[2].removesuffix(".md").strip()
    return stem if names.is_key(stem) else names.slug(stem) if stem else ""


def _target(record: Record, key: str, named: Mapping[str, Sequence[Record]]) -> Record | None:
    """Return the record that a key means: one of the same place, or else the first; None without one."""
    found = named.get(key, ())
    return next((each for each in found if each.place == record.place), next(iter(found), None))


# -------------------------------------------------------------------- shared tags


class Crowd(NamedTuple):
    """Counts over all tagged records of a place, so that a few can be compared without reading the others."""

    place: Place
    total: int
    documents: Callable[[str], int]  # how many of them have a word
    tags: Collection[str]  # those that tell something


def _tag_edges(records: Sequence[Record], crowd: Crowd | None = None) -> Iterator[Edge]:
    """Yield edges between records of one place that share a tag and many rare words."""
    places: dict[Any, list[Record]] = {}
    for record in records:
        if any(not tag.startswith("_") for tag in record.tags):
            places.setdefault(record.place, []).append(record)
    for place, own in places.items():
        if crowd is not None and place != crowd.place:
            continue
        weights = _weights(own, crowd)
        pairs: dict[tuple[str, str], float] = {}
        for members in _by_tag(own, crowd):
            for at, one in enumerate(members):
                for other in members[at + 1 :]:
                    pair = (min(one.path, other.path), max(one.path, other.path))
                    if pair not in pairs:
                        pairs[pair] = _cosine(weights[one.path], weights[other.path])
        yield from _best(pairs)


def _by_tag(records: Sequence[Record], crowd: Crowd | None) -> Iterator[list[Record]]:
    found: dict[str, list[Record]] = {}
    for record in records:
        for tag in record.tags:
            if not tag.startswith("_") and (crowd is None or tag in crowd.tags):
                found.setdefault(tag, []).append(record)
    return (members for members in found.values() if 1 < len(members) <= _CROWD)


def _weights(records: Sequence[Record], crowd: Crowd | None = None) -> dict[str, dict[str, float]]:
    """Return a vector of length 1 for each record, by path: its words, of which rarer words weigh more."""
    words = {each.path: _counted(each) for each in records}
    if crowd is None:
        everywhere = Counter(word for counted in words.values() for word in counted)
        crowd = Crowd(records[0].place, len(records), everywhere.__getitem__, ())
    documents = {word: crowd.documents(word) for counted in words.values() for word in counted}
    rarity = {word: math.log(1 + crowd.total / count) for word, count in documents.items()}
    found = {}
    for path, counted in words.items():
        # A word that no other record has joins nothing, but it makes the others count for less.
        weighed = {word: (1 + math.log(n)) * rarity[word] for word, n in counted.items()}
        norm = math.sqrt(sum(value * value for value in weighed.values())) or 1.0
        found[path] = {word: value / norm for word, value in weighed.items() if documents[word] > 1}
    return found


def _counted(record: Record) -> Counter[str]:
    return Counter(word.casefold() for word in LETTERS.findall(record.text) if len(word) >= _LONG)


def _cosine(one: Mapping[str, float], other: Mapping[str, float]) -> float:
    return sum(one[word] * other[word] for word in one.keys() & other.keys())


def _best(pairs: Mapping[tuple[str, str], float]) -> Iterator[Edge]:
    count: Counter[str] = Counter()
    for (one, other), weight in sorted(pairs.items(), key=lambda each: (-each[1], each[0])):
        if weight < ALIKE:
            return
        if count[one] < MOST_BY_TAG and count[other] < MOST_BY_TAG:
            count.update((one, other))
            yield Edge(one, other, Relation.RELATES_TO, "tags", round(weight, 4))


# -------------------------------------------------------------------- for people and other programs


FORMATS = ("json", "mermaid", "graphml")


def as_json(found: Graph) -> dict[str, Any]:
    """Return the graph as data for JSON."""
    keys = {record.path: record.key for record in found.records}
    return {
        "nodes": [
            {
                "path": record.path,
                "key": record.key,
                "scope": str(record.place.scope),
                "type": record.type,
                "title": record.title,
            }
            for record in found.records
        ],
        "edges": [
            {
                "from": keys[edge.source],
                "to": keys[edge.target],
                "relation": str(edge.relation),
                "origin": edge.origin,
                "weight": edge.weight,
                "status": edge.status,
                "fromPath": edge.source,
                "toPath": edge.target,
            }
            for edge in found.edges
        ],
        "broken": [{"path": each.source, "line": each.line, "wanted": each.wanted} for each in found.broken],
    }


def as_mermaid(found: Graph) -> str:
    """Return the records that have edges as a Mermaid diagram; rejected edges are dotted."""
    joined = {path for edge in found.edges for path in (edge.source, edge.target)}
    ids = {record.path: f"r{at}" for at, record in enumerate(found.records)}
    lines = ["graph LR"]
    for record in found.records:
        if record.path in joined:
            label = re.sub(r'[\["\]<>{}|\n]', " ", f"{record.key} ({record.place.scope})")
            lines.append(f'  {ids[record.path]}["{label}"]')
    for edge in found.edges:
        lines.append(f"  {ids[edge.source]} {_arrow(edge)} {ids[edge.target]}")
    return "\n".join(lines) + "\n"


def _arrow(edge: Edge) -> str:
    if edge.rejected:
        return "-.-|rejected|"
    return "---" if edge.relation is Relation.RELATES_TO else f"-->|{edge.relation}|"


_GRAPHML = (
    ("path", "node", "string"),
    ("key", "node", "string"),
    ("scope", "node", "string"),
    ("type", "node", "string"),
    ("relation", "edge", "string"),
    ("origin", "edge", "string"),
    ("status", "edge", "string"),
    ("weight", "edge", "double"),
)


def as_graphml(found: Graph) -> str:
    """Return the graph as GraphML."""
    from xml.sax.saxutils import escape

    # A name of a file may hold anything, also what XML cannot.
    def data(**values: str) -> str:
        pairs = ((name, _XML_NEVER.sub("", visible(value))) for name, value in values.items())
        return "".join(f'<data key="{name}">{escape(value)}</data>' for name, value in pairs)

    keys = (
        f'  <key id="{name}" for="{kind}" attr.name="{name}" attr.type="{type_}"/>'
        for name, kind, type_ in _GRAPHML
    )
    lines = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        '<graphml xmlns="http://graphml.graphdrawing.org/xmlns">',
        *keys,
        '  <graph id="memory" edgedefault="directed">',
    ]
    ids = {}
    for at, record in enumerate(found.records):
        ids[record.path] = f"r{at}"
        inner = data(path=record.path, key=record.key, scope=str(record.place.scope), type=record.type)
        lines.append(f'    <node id="r{at}">{inner}</node>')
    for edge in found.edges:
        inner = data(
            relation=str(edge.relation),
            origin=edge.origin,
            status=edge.status,
            weight=f"{edge.weight:g}",
        )
        lines.append(f'    <edge source="{ids[edge.source]}" target="{ids[edge.target]}">{inner}</edge>')
    return "\n".join([*lines, "  </graph>", "</graphml>"]) + "\n"


# ------------------------------------------------------------ one step along the edges

EACH, ALL = 3, 5  # related records of one hit, and of an answer
_SNIPPET = 700  # characters


class Related(NamedTuple):
    """A record, and the edge that joins it to the record that was asked about (`to`)."""

    record: Record
    to: Record
    edge: Edge

    @property
    def outward(self) -> bool:
        """Whether the edge leads from the record asked about to this record, and not the other way round."""
        return self.edge.target == self.record.path


class Sight:
    """The graph of the records that a caller may see, cached until a file changes."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._read: dict[tuple[str, str], tuple[Stamp, Record]] = {}
        self._made: dict[tuple[Place, ...], tuple[object, Graph]] = {}

    def graph(self, places: Iterable[Place]) -> Graph:
        """Return the graph of the records of these places and of attached notes, with rejected edges."""
        chosen = tuple(places)
        stamps: dict[tuple[str, str], Stamp] = {}
        own = [record for place in chosen for record in self._all(place, stamps)]
        records = [*own, *self._notes(chosen, stamps)]
        home = self._records.home
        rejected = tuple(home.names("decisions", REJECTED))
        mark = (stamps, rejected)
        known = self._made.get(chosen)
        if known is None or known[0] != mark:
            made = build_graph(records, rejected=rejections(home))
            paths = {record.path for record in own}
            # Where a note of someone else's leads nowhere is told by lint alone.
            known = mark, made._replace(broken=tuple(each for each in made.broken if each.source in paths))
            self._made[chosen] = known
        return known[1]

    def _all(self, place: Place, stamps: dict[tuple[str, str], Stamp]) -> Iterable[Record]:
        """Yield the records of a place; unreadable files are left out, since lint reports them."""
        for scope_folder in scopes.scope_folders(self._records.home, self._records.caller, place):
            try:
                folder = scope_folder.open(filenames.RECORDS)
            except (OutsideMemory, NotADirectoryError):
                continue
            if folder is None:
                continue
            with folder:
                for name in in_folder(folder):
                    at = str(scope_folder.top), scope_folder.name_of(filenames.RECORDS, name)
                    state = folder.stat(name)
                    if state is None:
                        continue
                    stamp = (
                        state.st_size,
                        state.st_mtime_ns,
                        state.st_ctime_ns,
                        state.st_ino,
                        scope_folder.trusted,
                    )
                    stamps[at] = stamp
                    known = self._read.get(at)
                    if known is None or known[0] != stamp:
                        with contextlib.suppress(Malformed, OutsideMemory, OSError):
                            content = folder.read(name)
                            if content is not None:
                                known = stamp, self._records.parse(scope_folder, name, content)
                                self._read[at] = known
                    if known is not None and known[0] == stamp:
                        yield known[1]

    def _notes(self, places: Collection[Place], stamps: dict[tuple[str, str], Stamp]) -> Iterator[Record]:
        """Yield the notes in the folders that are attached to these places, in the form of records."""
        for source in sources.visible(self._records.home, self._records.caller):
            if source.place not in places or source.problem:
                continue
            for path in source.markdown():
                at = source.name, str(path)
                with contextlib.suppress(OSError, Malformed):
                    state = path.stat()
                    stamp = state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino
                    known = self._read.get(at)
                    if known is None or known[0] != stamp:
                        known = stamp, _note(source, path, decode(path.read_bytes()))
                        self._read[at] = known
                    stamps[at] = stamp
                    yield known[1]


def _note(source: Source, path: Path, text: str) -> Record:
    """Return a note of an attached folder in the form of a record, so that the graph can contain it."""
    try:
        front = frontmatter.parse(text)
        values, body = front.values, text[front.body :]
    except Malformed:  # its frontmatter is its owner's business
        values, body = {}, text
    others = [names.slug(each) for each in read_tags(values.get("aliases") or values.get("alias"))]
    below = path.name if source.path.is_file() else path.relative_to(source.path).as_posix()
    first = text.count("\n", 0, len(text) - len(body)) + 1
    return Record(
        names.slug(path.stem),
        source.place,
        str(path),
        NOTE,
        str(values.get("title") or path.stem),
        (Entry(body.strip(), start=first, end=max(first, text.rstrip("\n").count("\n") + 1)),),
        source=source.name,
        fields={"aliases": others, "sources": [{"resource": f"{source.name}:{below}"}]},
    )


# What the graph has to know of every record, to find those that one record can be joined to.
_KEY, _ALIASES, _LINKS, _TAGS, _WORDS = range(5)


def _catalogue_ends(
    records: Records, scope_folder: ScopeFolder, name: str, content: bytes
) -> tuple[Any, ...]:
    """Return the facts by which a record may be joined to others: its key, names, links, tags and words."""
    record = records.parse(scope_folder, name, content)
    tags = tuple(tag for tag in record.tags if not tag.startswith("_"))
    return (
        "" if record.key == name.removesuffix(".md") else record.key,
        (*record.aliases, *dict.fromkeys(_import_names(record))),
        tuple(dict.fromkeys(_linked_keys(record))),
        tags,
        b"".join(map(_hash_word, _counted(record))) if tags else b"",
    )


ENDS = Fact("ends", 2, _catalogue_ends)


def _linked_keys(record: Record) -> Iterator[str]:
    """Yield the keys of other records that a record names in its frontmatter and text."""
    yield from (key for key, _, _ in _related(record))
    for entry in record.live:
        for _, _, keys in _links(record, without_code(entry.text)):
            yield from keys


def _hash_word(word: str) -> bytes:
    return hashlib.blake2b(word.encode(errors="surrogatepass"), digest_size=8).digest()


def _number(hashed: bytes) -> int:
    return int.from_bytes(hashed, sys.byteorder)


_Where: TypeAlias = tuple[int, str]  # which folder, and the name of a file on it


class _Surroundings:
    """Finds the records that may be connected to one record: by links, and by tags after reading them."""

    def __init__(
        self, records: Records, scope_folders: Sequence[tuple[ScopeFolder, Facts]], own: _Where
    ) -> None:
        self._records, self._scope_folders, self._own = records, scope_folders, own
        self._read: dict[_Where, Record | None] = {}
        self._weighed: dict[_Where, dict[str, float]] = {}

    def linked(self) -> Iterator[_Where]:
        """Yield the folder number and file name of each linked record.

        A linked record is named by this record, names this record, or shares one of its keys.
        """
        ends = self._ends(self._own)
        answers = {ends[_KEY] or self._own[1].removesuffix(".md"), *ends[_ALIASES]}
        keys = {*answers, *ends[_LINKS]}
        for at, (_, known) in enumerate(self._scope_folders):
            yield from ((at, f"{key}.md") for key in keys if f"{key}.md" in known.facts)
            for name, (key, aliases, links, *_) in known.facts.items():
                if (
                    (key and key in keys)
                    or (aliases and not keys.isdisjoint(aliases))
                    or (links and not answers.isdisjoint(links))
                ):
                    yield at, name

    def tagged(self) -> tuple[Crowd | None, set[_Where]]:
        """Return the records that shared tags may join to this one, directly or through others.

        The first value has the counts for comparing them; it is None when no shared tag tells anything.
        """
        place = self._scope_folders[self._own[0]][0].place
        by_tag: dict[str, list[_Where]] = {}
        words: Counter[int] = Counter()
        total = 0
        scope_folders = [
            (at, known)
            for at, (scope_folder, known) in enumerate(self._scope_folders)
            if scope_folder.place == place
        ]
        for at, known in scope_folders if self._ends(self._own)[_TAGS] else ():
            for name, (_, _, _, tags, hashed) in known.facts.items():
                if tags:
                    total += 1
                    words.update(array("Q", hashed))
                    for tag in tags:
                        by_tag.setdefault(tag, []).append((at, name))
        telling = {tag: members for tag, members in by_tag.items() if 1 < len(members) <= _CROWD}
        if not any(tag in telling for tag in self._ends(self._own)[_TAGS]):
            return None, set()
        crowd = Crowd(place, total, lambda word: words[_number(_hash_word(word))], telling)
        found, waiting = {self._own}, [self._own]
        while waiting:
            one = waiting.pop()
            for tag in self._ends(one)[_TAGS]:
                for other in telling.get(tag, ()):
                    if other not in found and self._likeness(one, other, crowd) >= ALIKE:
                        found.add(other)
                        waiting.append(other)
        return crowd, found

    def record(self, at: _Where) -> Record | None:
        """Return the record at this folder and file name; None when it can no longer be read."""
        if at not in self._read:
            self._read[at] = None
            with contextlib.suppress(NotFound, Malformed, OutsideMemory, OSError):
                self._read[at] = self._records.load(self._scope_folders[at[0]][0], at[1]).record
        return self._read[at]

    def _ends(self, at: _Where) -> tuple[Any, ...]:
        ends: tuple[Any, ...] = self._scope_folders[at[0]][1].facts[at[1]]
        return ends

    def _likeness(self, one: _Where, other: _Where, crowd: Crowd) -> float:
        return _cosine(self._weights(one, crowd), self._weights(other, crowd))

    def _weights(self, at: _Where, crowd: Crowd) -> dict[str, float]:
        if at not in self._weighed:
            record = self.record(at)
            self._weighed[at] = {} if record is None else _weights([record], crowd)[record.path]
        return self._weighed[at]


def graph_of_record(records: Records, places: Iterable[Place], path: str) -> Graph:
    """Return the graph of one record and those joined to it, while reading as few files as possible."""
    scope_folders = [each for each in records.known(places, ENDS) if not isinstance(each, Finding)]
    folder, _, name = path.rpartition("/")
    own = next(
        (
            (at, name)
            for at, (scope_folder, known) in enumerate(scope_folders)
            if scope_folder.name_of(filenames.RECORDS) == folder and name in known.facts
        ),
        None,
    )
    if own is None:
        return Graph((), (), ())
    around = _Surroundings(records, scope_folders, own)
    crowd, joined = around.tagged()
    near = (around.record(at) for at in sorted({own, *around.linked(), *joined}))
    listed = [each for each in near if each is not None]
    return build_graph(listed, rejected=rejections(records.home), by_tags=crowd is not None, crowd=crowd)


def find_related(found: Graph, paths: Sequence[str], *, each: int = EACH, most: int = ALL) -> list[Related]:
    """Return the records joined to those at these paths, at most `each` for a path and `most` in all."""
    by_path = {record.path: record for record in found.records}
    wanted = dict.fromkeys(path for path in paths if path in by_path)
    own: dict[str, list[Edge]] = {path: [] for path in wanted}
    for edge in found.edges:
        for path in (edge.source, edge.target):
            if path in own and not edge.rejected:
                own[path].append(edge)
    chosen: dict[str, Related] = {}
    for path, joined in own.items():
        count = 0
        for edge in sorted(joined, key=surest):
            other = edge.target if edge.source == path else edge.source
            if len(chosen) >= most or count >= each:
                break
            if other not in wanted and other not in chosen:
                chosen[other] = Related(by_path[other], by_path[path], edge)
                count += 1
    return [*chosen.values()]


def see_also(records: Sequence[Record], *, rejected: Callable[[str, str], bool]) -> dict[str, list[Record]]:
    """Return, by path, the records joined to each record by edges that are not rejected, at most five."""
    found = build_graph(records, rejected=rejected).standing()
    by_path = {record.path: record for record in records}
    joined: dict[str, list[Record]] = {}
    for edge in sorted(found.edges, key=surest):
        for path, other in ((edge.source, edge.target), (edge.target, edge.source)):
            listed = joined.setdefault(path, [])
            if by_path[other] not in listed and len(listed) < ALL:
                listed.append(by_path[other])
    return joined


def text_at(record: Record, as_of: str | None = None) -> Entry | None:
    """Return the current entry of a record, or the one that was current at `as_of`; None without one."""
    if as_of is None:
        return next(iter((record.live or record.entries)[-1:]), None)
    moment = clock.parse(as_of)
    if moment is None:
        return None
    held = [
        entry
        for entry in record.entries
        if (at := clock.parse(entry.time)) is not None
        and at <= moment
        and ((gone := clock.parse(entry.superseded)) is None or gone > moment)
    ]
    return held[-1] if held else None
