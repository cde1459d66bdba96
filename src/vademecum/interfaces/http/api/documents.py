"""The journal and the pinned documents."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Path, Query

from vademecum.errors import NotFound
from vademecum.interfaces.http.api.base import (
    ApiReply,
    Body,
    Calls,
    CursorQuery,
    LimitQuery,
    ScopeQuery,
    read_cursor,
    write_cursor,
)
from vademecum.interfaces.http.api.records import (
    Content,
    WhichVersion,
    WholeText,
    edit_text,
    editable_text,
    text_json,
    versions_json,
)
from vademecum.interfaces.present import to_json
from vademecum.interfaces.present.shape import COUNT, FLAG, TEXT, JsonShape, at, many, maybe
from vademecum.types import Finding, Scope

if TYPE_CHECKING:
    from vademecum.interfaces.http.api.base import ApiCall

calls = Calls("documents")
Name = Annotated[str, Path(pattern=r"^[A-Za-z]{1,40}\.md$", description="Such as MEMORY.md.")]
_note = JsonShape("note", "time? text origin~", start_line=at("start", COUNT), end_line=at("end", COUNT))
_day = JsonShape("day", "path date scope", entries=many(_note))
journal_json = JsonShape("journal", days=many(_day), total=COUNT, next=maybe(TEXT))
_document = JsonShape(
    "document", "path name scope=place.scope text size:int budget:int", over=FLAG, trusted=FLAG
)
pinned_json = JsonShape("pinned", documents=many(_document))


class NewNote(Body):
    """A note for today's journal."""

    text: Content
    scope: Scope = Scope.PROJECT


@calls.add("GET", "/journal", journal_json, scope="read")
def list_journal(
    call: ApiCall,
    scope: ScopeQuery = None,
    day: Annotated[str | None, Query(pattern=r"^\d{4}-\d{2}-\d{2}$")] = None,
    limit: LimitQuery = 30,
    cursor: CursorQuery = None,
) -> dict[str, Any]:
    """List days of the journal with their notes, the newest first."""
    work, start = call.memory.workspace, read_cursor(cursor)
    if work.settings.incognito:
        return journal_json(days=[], total=0, next=None)
    with work.reported("read the journal"):
        names = {f"{day}.md"} if day else None
        found = [
            each
            for each in work.journal.days(work.places(scope), only=names)
            if not isinstance(each, Finding)
        ]
    found.sort(key=lambda each: (each.path.rpartition("/")[2], each.path), reverse=True)
    days = [
        _day(each, date=each.path.rpartition("/")[2][:-3], scope=each.path.split("/")[1])
        for each in found[start : start + limit]
    ]
    return {"days": days, "total": len(found), "next": write_cursor(start + limit, len(found))}


@calls.add("POST", "/journal", to_json.noted_json, scope="write", status=201, once=True, name="note")
def add_note(call: ApiCall, body: NewNote) -> dict[str, Any]:
    """Add a note to today's journal."""
    return to_json.noted_json(call.done or call.memory.note(body.text, scope=body.scope))


@calls.add("GET", "/pinned", pinned_json, scope="read")
def list_pinned(call: ApiCall, scope: ScopeQuery = None) -> dict[str, Any]:
    """List the pinned documents, each with its text and how much of its budget it uses."""
    work = call.memory.workspace
    with work.reported("read the pinned documents"):
        return pinned_json(documents=[] if work.settings.incognito else work.pinned(work.places(scope))[0])


@calls.add("GET", "/pinned/{name}/text", text_json, scope="read")
def get_pinned_text(call: ApiCall, name: Name, scope: ScopeQuery = None) -> ApiReply:
    """Read a pinned document; a document that does not exist yet is empty, and can be written."""
    return editable_text(call, *call.memory.care.editable(name, scope=scope))


@calls.add("PUT", "/pinned/{name}/text", text_json, scope="write")
def replace_pinned_text(call: ApiCall, name: Name, body: WholeText, scope: ScopeQuery = None) -> ApiReply:
    """Put an edited text in the place of a pinned document; the old one goes to the archive."""
    return edit_text(call, name, body.text, scope)


@calls.add("POST", "/pinned/{name}/restore", text_json, scope="write", tagged=True)
def restore_pinned(call: ApiCall, name: Name, body: WhichVersion, scope: ScopeQuery = None) -> ApiReply:
    """Bring back an earlier version of a pinned document, by its id; the one that is there is archived."""
    care, archive = call.memory.care, call.memory.archive
    call.match(care.editable(name, scope=scope)[1])
    if body.version not in (None, *(each.id for each in archive.versions(name, scope=scope))):
        raise NotFound(f"{name} has no such version", hint="list its versions again")
    archive.restore(body.version or name, scope=scope)
    return editable_text(call, *care.editable(name, scope=scope))


@calls.add("GET", "/pinned/{name}/versions", versions_json, scope="read")
def list_pinned_versions(call: ApiCall, name: Name, scope: ScopeQuery = None) -> dict[str, Any]:
    """List every version of a pinned document, oldest first; the last one is how it stands."""
    return versions_json(key=name, versions=call.memory.archive.history(name, scope=scope))
