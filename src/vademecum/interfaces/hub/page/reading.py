"""Documents of a workspace as the page shows them: each entry with who wrote it, and who verified it."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from vademecum.interfaces.hub import review, search
from vademecum.interfaces.hub.documents import find_named, find_namesakes, read_names, read_stamped
from vademecum.interfaces.hub.rejections import absent
from vademecum.interfaces.web import markdown
from vademecum.memory.sync import edits, find_stream, trust
from vademecum.text import names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from vademecum.interfaces.hub.server import HubRequest
    from vademecum.interfaces.hub.streams import HubStamp

PAGE = 50
RESULTS, LONGEST = 20, 2_000  # of a search, unless more are asked for; characters of a question
PENDING = 30  # documents that one page of review looks at
_NEWEST = 2_000  # facts among which it looks for them


class Opened(NamedTuple):
    """Documents with all that the page says of them."""

    stream: str
    state: edits.FactSet
    stamps: Mapping[str, HubStamp]
    verified: Mapping[str, Mapping[str, tuple[str, ...]]]  # by document and text, by whose word
    two: bool


def open_documents(asked: HubRequest, stream: str, docs: Collection[str]) -> Opened:
    """Documents and those that share their files, with stamps."""
    connection, ws = asked.connection, asked.caller.ws
    wanted = find_namesakes(connection, ws, stream, docs)
    stamped = list(read_stamped(connection, ws, stream, wanted))
    state = edits.FactSet(fact for fact, _ in stamped)
    authors = {fact.dot: (stamp.author, stamp.role) for fact, stamp in stamped}
    two = bool(review.read_rules(connection, ws).get(review.TWO_PERSON))
    return Opened(
        stream,
        state,
        {str(fact.dot): stamp for fact, stamp in stamped},
        {doc: trust.verified_texts(state, doc, authors, two_person=two) for doc in state.docs},
        two,
    )


def open_document(asked: HubRequest, stream: str, doc: str) -> tuple[Opened, edits.Shows]:
    """One document; what is not there and what is somebody else's are the same."""
    asked.caller.need("reader", scope="read")
    opened = open_documents(asked, stream, [doc])
    for shows in edits.project(opened.state).values():
        if doc in shows.docs:
            return opened, shows
    raise absent()


def mark_of(raw: str) -> str:
    """What a block looked like to whoever changes it: what was changed meanwhile is noticed by it."""
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def show_document(asked: HubRequest) -> dict[str, Any]:
    """One document with its entries."""
    stream, doc = asked.query.get("stream", ""), asked.query.get("doc", "")
    opened, shows = open_document(asked, stream, doc)
    return {
        "stream": stream,
        "doc": doc,
        "path": shows.path,
        "title": title_of(shows),
        "entries": [show_entry(opened, shows, each) for each in shows.blocks],
        "conflicts": len(edits.group_versions(shows)),
        "tags": [str(each) for each in shows.values.get("tags") or [] if isinstance(each, str)],
        "protected": shows.values.get("protected") is True,
        "two": opened.two,
        "text": shows.text,
    }


def title_of(shows: edits.Shows) -> str:
    """What a document is called."""
    said = shows.values.get("title")
    return said if isinstance(said, str) and said else shows.path.rpartition("/")[2].removesuffix(".md")


def show_entry(opened: Opened, shows: edits.Shows, block: edits.ShownBlock) -> dict[str, Any]:
    """An entry, who wrote it through what, and whose word it has."""
    newest = max((opened.stamps[str(dot)] for dot in block.dots), key=lambda stamp: stamp.seq)
    given = edits.verified_by(opened.state, shows, block)
    name = edits.blocks.name_of(block.raw)
    counted = sorted({each for doc in shows.docs for each in opened.verified.get(doc, {}).get(name, ())})
    fact = max((opened.state.facts[dot] for dot in block.dots), key=lambda fact: fact.order)
    parts = edits.blocks.parts(block.raw)
    return {
        "id": block.id,
        "was": mark_of(block.raw),
        "text": edits.blocks.text_of(block.raw),
        "heading": edits.blocks.instant_of(block.raw),
        "author": newest.author,
        "role": newest.role,
        "at": newest.at,
        "agent": newest.role == "agent" or fact.origin in ("agent", "tool", "import"),
        "origin": fact.origin,
        "door": fact.door,
        "conflict": block.conflict,
        "superseded": parts.get("superseded", ""),
        "verified": sorted(given),
        "counted": counted,
        "people": min(2, 1 + len(counted)),
        "given": bool(counted) and not block.conflict,
    }


# ------------------------------------------------------------------------------- lists


def list_documents(asked: HubRequest) -> dict[str, Any]:
    """The documents of a place, by name, a page at a time."""
    asked.caller.need("reader", scope="read")
    places = list_places(asked)
    stream = asked.query.get("stream") or next((each["stream"] for each in places if each["head"]), "")
    wanted, start = names.folded(asked.query.get("q", "")), asked.number("start", 0)
    paths = read_names(asked.connection, asked.caller.ws, stream)
    listed = sorted((path, doc) for doc, path in paths.items() if wanted in names.folded(path))
    rows, taken = _live_rows(asked, stream, listed[start:])
    return {
        "stream": stream,
        "streams": places,
        "q": asked.query.get("q", ""),
        "total": len(listed),
        "documents": rows,
        "next": start + taken if start + taken < len(listed) else None,
    }


def _live_rows(
    asked: HubRequest, stream: str, listed: list[tuple[str, str]]
) -> tuple[list[dict[str, Any]], int]:
    """Of documents in their order those that show something, and how many were looked at for them."""
    page = [doc for _, doc in listed[:PAGE]]
    stamped = list(read_stamped(asked.connection, asked.caller.ws, stream, page)) if page else []
    shown = edits.project(edits.FactSet(fact for fact, _ in stamped))
    last = {fact.doc: stamp for fact, stamp in stamped}
    rows = [
        {
            "doc": shows.doc,
            "path": path,
            "title": title_of(shows),
            "entries": len(shows.blocks),
            "conflict": any(each.conflict for each in shows.blocks),
            "author": last[shows.doc].author,
            "role": last[shows.doc].role,
            "at": last[shows.doc].at,
        }
        for path, shows in sorted(shown.items())
    ]
    return rows, len(page)


def list_places(asked: HubRequest) -> list[dict[str, Any]]:
    """The places of the workspace, with how many facts each has."""
    rows = asked.connection.execute(
        "SELECT stream, head FROM hub.stream WHERE ws = %s ORDER BY stream LIMIT 200", (asked.caller.ws,)
    ).fetchall()
    return [{"stream": stream, "head": head} for stream, head in rows]


# ------------------------------------------------------------------------------- search


def search_documents(asked: HubRequest) -> dict[str, Any]:
    """What answers `?q=`, found as machines find it, with the entry of each passage and who wrote that."""
    question, most = asked.query.get("q", "")[:LONGEST], min(asked.number("limit", RESULTS), 100) or RESULTS
    shown: dict[str, Any] = {"q": question, "filters": markdown.find_filters(question), "groups": []}
    shown |= {"answer": None, "more": "", "stale": 0}
    asked.caller.need("reader", scope="read")
    if not question.strip():
        return shown
    given = {"query": question, "max_results": most, "max_weak": most, "explain": True}
    told = search.search(asked.connection, asked.caller, given)
    _add_entries(asked, told["results"])
    shown["groups"] = markdown.group_passages(told, question)
    if len(told["results"]) >= most < 100:
        shown["more"] = urlencode({"q": question, "limit": min(most * 2, 100)})
    return {**shown, "answer": {**told, "results": []}, "stale": told["stale"]}


def _add_entries(asked: HubRequest, results: list[dict[str, Any]]) -> None:
    """Say of each passage where its document is, and which entry it is of."""
    places: dict[str, set[str]] = {}
    for each in results:
        each["stream"], each["file"] = find_stream(each["path"], each["scope"])
        places.setdefault(each["stream"], set()).add(each["file"])
    opened: dict[str, tuple[Opened, dict[str, edits.Shows]]] = {}
    for stream, paths in places.items():
        docs = find_named(asked.connection, asked.caller.ws, stream, paths)
        state = open_documents(asked, stream, docs)
        opened[stream] = (
            state,
            {names.folded(path): each for path, each in edits.project(state.state).items()},
        )
    for each in results:
        state, shown = opened[each["stream"]]
        shows = shown.get(names.folded(each["file"]))
        if shows is None:  # it was removed since it was indexed
            continue
        each |= {"doc": shows.doc, "title": title_of(shows), "two": state.two}
        blocks = _blocks_at(shows, each["startLine"], each["endLine"])
        each["entry"] = show_entry(state, shows, blocks[-1]) if blocks else None


def _blocks_at(shows: edits.Shows, start: int, end: int) -> list[edits.ShownBlock]:
    """The blocks of a file that stand on these lines."""
    text, at, line, found = shows.text.replace("\r\n", "\n"), 0, 1, []
    for block in shows.blocks:
        raw = block.raw.replace("\r\n", "\n").strip("\n")
        begin = text.find(raw, at)
        if begin < 0:
            continue
        line += text.count("\n", at, begin)
        last, at = line + raw.count("\n"), begin + len(raw)
        if line <= end and start <= last:
            found.append(block)
        line = last
    return found


# ------------------------------------------------------------------------------- review


def list_review(asked: HubRequest) -> dict[str, Any]:
    """Entries with two versions, and the newest texts that nobody's word makes fit for agents."""
    asked.caller.need("reader", scope="read")
    return {
        "conflicts": _conflicts(asked),
        "pending": _pending(asked) if asked.caller.kind == "team" else [],
        "two": bool(review.read_rules(asked.connection, asked.caller.ws).get(review.TWO_PERSON)),
    }


def _conflicts(asked: HubRequest) -> list[dict[str, Any]]:
    rows = asked.connection.execute(
        "SELECT DISTINCT stream, doc FROM hub.conflict WHERE ws = %s ORDER BY stream, doc LIMIT %s",
        (asked.caller.ws, PAGE),
    ).fetchall()
    found: list[dict[str, Any]] = []
    for stream, doc in rows:
        told = _conflicts_of(asked, stream, doc)
        if not told:
            _forget_conflicts(asked, stream, doc)
        found += told
    return found


def _conflicts_of(asked: HubRequest, stream: str, doc: str) -> list[dict[str, Any]]:
    opened = open_documents(asked, stream, [doc])
    return [
        {
            "stream": stream,
            "doc": doc,
            "path": shows.path,
            "title": title_of(shows),
            "entry": group[0].id,
            "was": mark_of("\0".join(each.raw for each in group)),
            "versions": [show_entry(opened, shows, each) for each in group],
        }
        for shows in edits.project(opened.state).values()
        for group in edits.group_versions(shows)
        if any(stand.doc == doc for each in group for stand in each.stands)
    ]


def _forget_conflicts(asked: HubRequest, stream: str, doc: str) -> None:
    """Take out what was settled; a database that takes nothing now keeps it."""
    from psycopg import errors

    with contextlib.suppress(errors.ReadOnlySqlTransaction), asked.connection.transaction():
        asked.connection.execute(
            "DELETE FROM hub.conflict WHERE ws = %s AND stream = %s AND doc = %s",
            (asked.caller.ws, stream, doc),
        )


def _pending(asked: HubRequest) -> list[dict[str, Any]]:
    """The newest texts that are not verified, out of a bounded number of them."""
    rows = asked.connection.execute(
        "SELECT stream, doc, dot FROM ("
        "  SELECT stream, doc, replica || ':' || n AS dot, kind, purged_at FROM hub.fact WHERE ws = %s"
        "  ORDER BY at DESC, stream DESC, seq DESC LIMIT %s"
        ") AS newest WHERE kind = 'put' AND purged_at IS NULL",
        (asked.caller.ws, _NEWEST),
    ).fetchall()
    places: dict[tuple[str, str], set[str]] = {}
    for stream, doc, dot in rows:
        if (stream, doc) in places or len(places) < PENDING:
            places.setdefault((stream, doc), set()).add(dot)
    found: list[dict[str, Any]] = []
    for stream in dict.fromkeys(stream for stream, _ in places):
        docs = {doc: dots for (place, doc), dots in places.items() if place == stream}
        found += _unverified(open_documents(asked, stream, docs), docs.values())
    found.sort(key=lambda each: each["at"], reverse=True)
    return found[:PAGE]


def _unverified(opened: Opened, newest: Iterable[set[str]]) -> list[dict[str, Any]]:
    dots = {dot for each in newest for dot in each}
    found = []
    for shows in edits.project(opened.state).values():
        for block in shows.blocks:
            if block.conflict or not dots & {str(dot) for dot in block.dots}:
                continue
            entry = show_entry(opened, shows, block)
            if not entry["counted"] and not entry["superseded"]:
                where = {"stream": opened.stream, "doc": shows.doc, "path": shows.path}
                found.append({**entry, **where, "title": title_of(shows)})
    return found
