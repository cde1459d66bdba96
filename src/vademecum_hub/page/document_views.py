"""The pages of documents, search and review: each entry with its author and the members who verified it."""

from __future__ import annotations

import contextlib
import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import urlencode

from psycopg import errors

from vademecum.interfaces.web import markdown
from vademecum.memory.sync import find_stream
from vademecum.sync import edits, team_trust
from vademecum.text import names
from vademecum_hub import hub_search, workspace_rules
from vademecum_hub.rejections import not_found
from vademecum_hub.stream_documents import find_named, find_namesakes, read_names, read_stamped

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from vademecum_hub.protocol import HubRequest
    from vademecum_hub.streams import HubStamp

PAGE = 50
RESULTS, LONGEST = 20, 2_000  # default number of results; characters of a question
PENDING = 30  # documents that the review page reads
_NEWEST = 2_000  # facts among which the review page finds them


class OpenedDocuments(NamedTuple):
    """The facts of documents, with the stamps and verifications that the page shows."""

    stream: str
    state: edits.FactSet
    stamps: Mapping[str, HubStamp]
    verified: Mapping[str, Mapping[str, tuple[str, ...]]]  # members by document and text
    two: bool


def open_documents(request: HubRequest, stream: str, docs: Collection[str]) -> OpenedDocuments:
    """Read the facts of documents and of documents with the same names, with stamps and vouches."""
    connection, ws = request.connection, request.caller.ws
    wanted = find_namesakes(connection, ws, stream, docs)
    stamped = list(read_stamped(connection, ws, stream, wanted))
    state = edits.FactSet(fact for fact, _ in stamped)
    authors = {fact.id: (stamp.author, stamp.role) for fact, stamp in stamped}
    two = workspace_rules.needs_two_people(connection, ws)
    return OpenedDocuments(
        stream,
        state,
        {str(fact.id): stamp for fact, stamp in stamped},
        {doc: team_trust.verified_texts(state, doc, authors, two_person=two) for doc in state.docs},
        two,
    )


def open_document(request: HubRequest, stream: str, doc: str) -> tuple[OpenedDocuments, edits.ShownFile]:
    """Return a document's facts and its file; reject the request if there is no such document."""
    request.caller.require("reader", scope="read")
    opened = open_documents(request, stream, [doc])
    for file in edits.project(opened.state).values():
        if doc in file.docs:
            return opened, file
    raise not_found()


def digest_of(raw: str) -> str:
    """Return a hash of a block; an action sends it back, so that a change in between is noticed."""
    return hashlib.sha256(raw.encode("utf-8", "surrogatepass")).hexdigest()[:24]


def show_document(request: HubRequest) -> dict[str, Any]:
    """Return a document and its entries for the page."""
    stream, doc = request.query.get("stream", ""), request.query.get("doc", "")
    opened, file = open_document(request, stream, doc)
    return {
        "stream": stream,
        "doc": doc,
        "path": file.path,
        "title": title_of(file),
        "entries": [show_entry(opened, file, each) for each in file.blocks],
        "conflicts": len(edits.group_versions(file)),
        "tags": [str(each) for each in file.values.get("tags") or [] if isinstance(each, str)],
        "protected": file.values.get("protected") is True,
        "two": opened.two,
        "text": file.text,
    }


def title_of(file: edits.ShownFile) -> str:
    """Return the title of a document, or its file name if it has no title."""
    title = file.values.get("title")
    return title if isinstance(title, str) and title else file.path.rpartition("/")[2].removesuffix(".md")


def show_entry(opened: OpenedDocuments, file: edits.ShownFile, block: edits.ShownBlock) -> dict[str, Any]:
    """Return an entry for the page, with its author, its origin and the members who verified it."""
    newest = max((opened.stamps[str(fact_id)] for fact_id in block.fact_ids), key=lambda stamp: stamp.seq)
    given = edits.verified_by(opened.state, file, block)
    name = edits.blocks.name_of(block.raw)
    counted = sorted({each for doc in file.docs for each in opened.verified.get(doc, {}).get(name, ())})
    fact = max((opened.state.facts[fact_id] for fact_id in block.fact_ids), key=lambda fact: fact.order)
    parts = edits.blocks.parts(block.raw)
    return {
        "id": block.id,
        "was": digest_of(block.raw),
        "text": edits.blocks.text_of(block.raw),
        "heading": edits.blocks.instant_of(block.raw),
        "author": newest.author,
        "role": newest.role,
        "at": newest.at,
        "agent": newest.role == "agent" or fact.origin in ("agent", "tool", "import"),
        "origin": fact.origin,
        "door": fact.interface,
        "conflict": block.conflict,
        "superseded": parts.get("superseded", ""),
        "verified": sorted(given),
        "counted": counted,
        "people": min(2, 1 + len(counted)),
        "given": bool(counted) and not block.conflict,
    }


# ------------------------------------------------------------------------------- lists


def list_documents(request: HubRequest) -> dict[str, Any]:
    """Return a page of the list of a place's documents, sorted by path."""
    request.caller.require("reader", scope="read")
    places = list_places(request)
    stream = request.query.get("stream") or next((each["stream"] for each in places if each["head"]), "")
    wanted, start = names.folded(request.query.get("q", "")), request.number("start", 0)
    paths = read_names(request.connection, request.caller.ws, stream)
    listed = sorted((path, doc) for doc, path in paths.items() if wanted in names.folded(path))
    rows, count = _make_rows(request, stream, listed[start:])
    return {
        "stream": stream,
        "streams": places,
        "q": request.query.get("q", ""),
        "total": len(listed),
        "documents": rows,
        "next": start + count if start + count < len(listed) else None,
    }


def _make_rows(
    request: HubRequest, stream: str, listed: list[tuple[str, str]]
) -> tuple[list[dict[str, Any]], int]:
    """Return the list's rows for the next documents, and how many documents were read for them.

    Documents without a file have no row.
    """
    page = [doc for _, doc in listed[:PAGE]]
    stamped = list(read_stamped(request.connection, request.caller.ws, stream, page)) if page else []
    files = edits.project(edits.FactSet(fact for fact, _ in stamped))
    last = {fact.doc: stamp for fact, stamp in stamped}
    rows = [
        {
            "doc": file.doc,
            "path": path,
            "title": title_of(file),
            "entries": len(file.blocks),
            "conflict": any(each.conflict for each in file.blocks),
            "author": last[file.doc].author,
            "role": last[file.doc].role,
            "at": last[file.doc].at,
        }
        for path, file in sorted(files.items())
    ]
    return rows, len(page)


def list_places(request: HubRequest) -> list[dict[str, Any]]:
    """Return the streams of the workspace with the numbers of their facts, 200 streams at most."""
    rows = request.connection.execute(
        "SELECT stream, head FROM hub.stream WHERE ws = %s ORDER BY stream LIMIT 200", (request.caller.ws,)
    ).fetchall()
    return [{"stream": stream, "head": head} for stream, head in rows]


# ------------------------------------------------------------------------------- search


def search_documents(request: HubRequest) -> dict[str, Any]:
    """Search the workspace for `?q=`; return passages with their entries and authors."""
    question, most = (
        request.query.get("q", "")[:LONGEST],
        min(request.number("limit", RESULTS), 100) or RESULTS,
    )
    context: dict[str, Any] = {"q": question, "filters": markdown.find_filters(question), "groups": []}
    context |= {"answer": None, "more": "", "stale": 0}
    request.caller.require("reader", scope="read")
    if not question.strip():
        return context
    given = {"query": question, "max_results": most, "max_weak": most, "explain": True}
    answer = hub_search.search_workspace(request.connection, request.caller, given)
    _add_entries(request, answer["results"])
    context["groups"] = markdown.group_passages(answer, question)
    if len(answer["results"]) >= most < 100:
        context["more"] = urlencode({"q": question, "limit": min(most * 2, 100)})
    return {**context, "answer": {**answer, "results": []}, "stale": answer["stale"]}


def _add_entries(request: HubRequest, results: list[dict[str, Any]]) -> None:
    """Add to each found passage its document and its entry."""
    places: dict[str, set[str]] = {}
    for each in results:
        each["stream"], each["file"] = find_stream(each["path"], each["scope"])
        places.setdefault(each["stream"], set()).add(each["file"])
    opened: dict[str, tuple[OpenedDocuments, dict[str, edits.ShownFile]]] = {}
    for stream, paths in places.items():
        docs = find_named(request.connection, request.caller.ws, stream, paths)
        state = open_documents(request, stream, docs)
        opened[stream] = (
            state,
            {names.folded(path): each for path, each in edits.project(state.state).items()},
        )
    for each in results:
        state, files = opened[each["stream"]]
        file = files.get(names.folded(each["file"]))
        if file is None:  # removed since it was indexed
            continue
        each |= {"doc": file.doc, "title": title_of(file), "two": state.two}
        blocks = _blocks_at(file, each["startLine"], each["endLine"])
        each["entry"] = show_entry(state, file, blocks[-1]) if blocks else None


def _blocks_at(file: edits.ShownFile, start: int, end: int) -> list[edits.ShownBlock]:
    """Return the blocks of a file that overlap these lines."""
    text, at, line, found = file.text.replace("\r\n", "\n"), 0, 1, []
    for block in file.blocks:
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


def list_review(request: HubRequest) -> dict[str, Any]:
    """Return the entries with conflicting versions, and in a team the newest unverified texts."""
    request.caller.require("reader", scope="read")
    return {
        "conflicts": _list_conflicts(request),
        "pending": _list_pending(request) if request.caller.kind == "team" else [],
        "two": bool(
            workspace_rules.read_rules(request.connection, request.caller.ws).get(workspace_rules.TWO_PERSON)
        ),
    }


def _list_conflicts(request: HubRequest) -> list[dict[str, Any]]:
    rows = request.connection.execute(
        "SELECT DISTINCT stream, doc FROM hub.conflict WHERE ws = %s ORDER BY stream, doc LIMIT %s",
        (request.caller.ws, PAGE),
    ).fetchall()
    found: list[dict[str, Any]] = []
    for stream, doc in rows:
        answer = _find_conflicts(request, stream, doc)
        if not answer:
            _forget_conflicts(request, stream, doc)
        found += answer
    return found


def _find_conflicts(request: HubRequest, stream: str, doc: str) -> list[dict[str, Any]]:
    opened = open_documents(request, stream, [doc])
    return [
        {
            "stream": stream,
            "doc": doc,
            "path": file.path,
            "title": title_of(file),
            "entry": group[0].id,
            "was": digest_of("\0".join(each.raw for each in group)),
            "versions": [show_entry(opened, file, each) for each in group],
        }
        for file in edits.project(opened.state).values()
        for group in edits.group_versions(file)
        if any(source.doc == doc for each in group for source in each.sources)
    ]


def _forget_conflicts(request: HubRequest, stream: str, doc: str) -> None:
    """Delete a document's noted conflicts once they are settled; do nothing if the database is read-only."""
    with contextlib.suppress(errors.ReadOnlySqlTransaction), request.connection.transaction():
        request.connection.execute(
            "DELETE FROM hub.conflict WHERE ws = %s AND stream = %s AND doc = %s",
            (request.caller.ws, stream, doc),
        )


def _list_pending(request: HubRequest) -> list[dict[str, Any]]:
    """Return the newest texts without a verification that counts; only the newest facts are searched."""
    rows = request.connection.execute(
        "SELECT stream, doc, dot FROM ("
        "  SELECT stream, doc, replica || ':' || n AS dot, kind, purged_at FROM hub.fact WHERE ws = %s"
        "  ORDER BY at DESC, stream DESC, seq DESC LIMIT %s"
        ") AS newest WHERE kind = 'put' AND purged_at IS NULL",
        (request.caller.ws, _NEWEST),
    ).fetchall()
    places: dict[tuple[str, str], set[str]] = {}
    for stream, doc, fact_id in rows:
        if (stream, doc) in places or len(places) < PENDING:
            places.setdefault((stream, doc), set()).add(fact_id)
    found: list[dict[str, Any]] = []
    for stream in dict.fromkeys(stream for stream, _ in places):
        docs = {doc: fact_ids for (place, doc), fact_ids in places.items() if place == stream}
        found += _find_unverified(open_documents(request, stream, docs), docs.values())
    found.sort(key=lambda each: each["at"], reverse=True)
    return found[:PAGE]


def _find_unverified(opened: OpenedDocuments, newest: Iterable[set[str]]) -> list[dict[str, Any]]:
    fact_ids = {fact_id for each in newest for fact_id in each}
    found = []
    for file in edits.project(opened.state).values():
        for block in file.blocks:
            if block.conflict or not fact_ids & {str(fact_id) for fact_id in block.fact_ids}:
                continue
            entry = show_entry(opened, file, block)
            if not entry["counted"] and not entry["superseded"]:
                where = {"stream": opened.stream, "doc": file.doc, "path": file.path}
                found.append({**entry, **where, "title": title_of(file)})
    return found
