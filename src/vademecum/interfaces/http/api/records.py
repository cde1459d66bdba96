"""Records: list, read, save, edit, arrange, forget and restore."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated, Any, Literal

from fastapi import Path, Query
from pydantic import Field

from vademecum import fields
from vademecum.errors import Conflict, NotFound, Refused
from vademecum.interfaces.http.api.base import (
    LONGEST_KEY,
    ApiReply,
    Body,
    Calls,
    CursorQuery,
    LimitQuery,
    ScopeQuery,
    TypeQuery,
    read_cursor,
    stale,
    tag_of,
    write_cursor,
)
from vademecum.interfaces.present import to_json
from vademecum.interfaces.present.safe import clean_text, has_secret
from vademecum.interfaces.present.shape import COUNT, FLAG, TEXT, JsonShape, many, maybe, prepared
from vademecum.interfaces.web import markdown
from vademecum.store import request_view
from vademecum.text import document
from vademecum.text.document import LONGEST_TITLE
from vademecum.types import RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.interfaces.http.api.base import ApiCall
    from vademecum.memory import Memory
    from vademecum.types import Entry

calls = Calls("records")
_NO_PROSE = re.compile(r"(?s)\A---\n.*?\n---\n|^<!-- origin:[^\n]*-->\n?", re.MULTILINE)  # bookkeeping
Key = Annotated[str, Path(min_length=1, max_length=LONGEST_KEY, description="A key, number or id.")]
Texts = Annotated[list[str], Field(max_length=100)]
Content = Annotated[str, Field(min_length=1, max_length=4 << 20)]

page_json = JsonShape(
    "record_page",
    records=many(to_json.listed_json),
    total=COUNT,
    next=maybe(TEXT),
    findings=many(to_json.finding_json),
)
text_json = JsonShape("text", "path text etag dropped:list!", editable=FLAG)
preview_json = JsonShape("preview", "html")
fields_json = JsonShape(
    "record_fields",
    "text title type tags:list",
    entries=many(prepared(JsonShape("entry_field", "index:int id? time? text live:bool"))),
)
versions_json = JsonShape("versions", "key", versions=many(JsonShape("version", "id why at by text")))


class NewRecord(Body):
    """A text to save."""

    text: Content
    key: str | None = Field(None, max_length=LONGEST_KEY)
    scope: Scope = Scope.PROJECT
    title: str | None = Field(None, max_length=LONGEST_TITLE)
    type: RecordType | None = None
    tags: Texts = Field(default_factory=list)
    confidence: float | None = Field(None, ge=0, le=1)
    protected: bool | None = None


class NewEntry(Body):
    """A text to add to a record."""

    text: Content


class WholeText(Body):
    """The whole text of a file, as it is to be."""

    text: str = Field(max_length=4 << 20)


class EntryText(Body):
    """Another text for an entry, which is found by its id, or by its index if it has none."""

    index: int = Field(ge=0)
    id: str | None = Field(None, max_length=LONGEST_KEY)
    text: str = Field(min_length=1, max_length=4 << 20)


class ChangedFields(WholeText):
    """The text of a record's file, and other values of its fields."""

    title: str | None = Field(None, max_length=LONGEST_TITLE)
    type: RecordType | None = None
    tags: Texts | None = None
    entries: Annotated[list[EntryText], Field(max_length=1000)] = Field(default_factory=list)


class NewTags(Body):
    """Tags to add and to remove."""

    add: Texts = Field(default_factory=list)
    remove: Texts = Field(default_factory=list)


class NewName(Body):
    """Another key."""

    key: str = Field(min_length=1, max_length=LONGEST_KEY)


class NewPlace(Body):
    """Another scope."""

    scope: Scope


class OnOff(Body):
    """Whether it holds."""

    on: bool = True


class WhichVersion(Body):
    """A version, by its id; the newest unless named."""

    version: str | None = Field(None, max_length=LONGEST_KEY)


class BulkChange(Body):
    """Many records at once, by name or by a filter such as `tag:old before:2026-01`."""

    action: Literal["forget", "tag", "move"]
    keys: Annotated[list[str], Field(max_length=1000)] = Field(default_factory=list)
    match: str | None = Field(None, max_length=1000)
    add: Texts = Field(default_factory=list)
    remove: Texts = Field(default_factory=list)
    to: Scope | None = None
    dry_run: bool = False


@calls.add("GET", "/records", page_json, scope="read")
def list_records(
    call: ApiCall,
    *,
    scope: ScopeQuery = None,
    type: TypeQuery = None,
    tag: Annotated[str | None, Query(max_length=200)] = None,
    limit: LimitQuery = 50,
    cursor: CursorQuery = None,
) -> dict[str, Any]:
    """List records, the nearest scope first."""
    at = read_cursor(cursor)
    found = call.memory.list(scope=scope, type=type, tag=tag, limit=limit, offset=at)
    total = len(found.records) if found.total is None else found.total
    return page_json(
        records=found.records, total=total, next=write_cursor(at + limit, total), findings=found.findings
    )


@calls.add("POST", "/records", to_json.stored_json, scope="write", status=201, once=True, name="store")
def create_record(call: ApiCall, body: NewRecord) -> dict[str, Any]:
    """Save a text; under an existing key it becomes another entry of that record."""
    return to_json.stored_json(call.memory.store(**body.model_dump()))


@calls.add("GET", "/records/{key}", to_json.record_json, scope="read")
def get_record(call: ApiCall, key: Key, scope: ScopeQuery = None) -> ApiReply:
    """Read a record with all its entries; its ETag is that of its text."""
    return ApiReply(show_record(call.memory, key, scope), tag_of(read_text(call.memory, key, scope)[1]))


@calls.add("GET", "/records/{key}/text", text_json, scope="read")
def get_record_text(call: ApiCall, key: Key, scope: ScopeQuery = None) -> ApiReply:
    """Read the file of a record as it stands, to edit it."""
    return editable_text(call, *read_text(call.memory, key, scope))


@calls.add("PUT", "/records/{key}/text", text_json, scope="write")
def replace_record_text(call: ApiCall, key: Key, body: WholeText, scope: ScopeQuery = None) -> ApiReply:
    """Replace the text of a record's file; the old text goes to the archive."""
    _no_document(key)
    return edit_text(call, key, body.text, scope)


@calls.add("GET", "/records/{key}/versions", versions_json, scope="read")
def list_record_versions(call: ApiCall, key: Key, scope: ScopeQuery = None) -> dict[str, Any]:
    """List every version of a record, oldest first; the last one is the current version."""
    return versions_json(key=key, versions=call.memory.archive.history(key, scope=scope))


@calls.add(
    "POST", "/records/{key}/entries", to_json.stored_json, scope="write", status=201, once=True, name="store"
)
def append_entry(call: ApiCall, key: Key, body: NewEntry, scope: ScopeQuery = None) -> dict[str, Any]:
    """Add an entry to a record; existing entries stay unchanged, so no version is needed."""
    record = call.memory.show(key, scope=scope)
    return to_json.stored_json(call.memory.store(body.text, key=record.key, scope=record.place.scope))


@calls.add("DELETE", "/records/{key}", to_json.brief_json, scope="write")
def forget_record(call: ApiCall, key: Key, scope: ScopeQuery = None) -> dict[str, Any]:
    """Move a record to the archive."""
    call.match(read_text(call.memory, key, scope)[1])
    return to_json.brief_json(call.memory.forget(key, scope=scope))


@calls.add("POST", "/records/{key}/restore", to_json.brief_json, scope="write", tagged=True)
def restore_record(call: ApiCall, key: Key, body: WhichVersion, scope: ScopeQuery = None) -> dict[str, Any]:
    """Restore a forgotten record, or an earlier version of a record by its id."""
    if body.version is not None:
        try:
            current = read_text(call.memory, key, scope)[1]
        except NotFound:  # a forgotten record has no current text to compare
            pass
        else:
            call.match(current)
        return to_json.brief_json(call.memory.restore(body.version, scope=scope))
    return to_json.brief_json(call.memory.restore(key, scope=scope))


@calls.add("POST", "/records/{key}/tags", to_json.arranged_json, scope="write", tagged=True)
def tag_record(call: ApiCall, key: Key, body: NewTags, scope: ScopeQuery = None) -> dict[str, Any]:
    """Add tags to a record and remove others."""
    call.match(read_text(call.memory, key, scope)[1])
    return to_json.arranged_json(call.memory.care.tag([key], add=body.add, remove=body.remove, scope=scope))


@calls.add("POST", "/records/{key}/rename", to_json.arranged_json, scope="write", tagged=True)
def rename_record(call: ApiCall, key: Key, body: NewName, scope: ScopeQuery = None) -> dict[str, Any]:
    """Give a record another key; the old key still finds it."""
    call.match(read_text(call.memory, key, scope)[1])
    return to_json.arranged_json(call.memory.care.rename(key, body.key, scope=scope))


@calls.add("POST", "/records/{key}/move", to_json.arranged_json, scope="write", tagged=True)
def move_record(call: ApiCall, key: Key, body: NewPlace, scope: ScopeQuery = None) -> dict[str, Any]:
    """Move a record to another scope."""
    call.match(read_text(call.memory, key, scope)[1])
    return to_json.arranged_json(call.memory.care.move([key], to=body.scope, scope=scope))


@calls.add("POST", "/records/{key}/protect", to_json.protected_json, scope="review", tagged=True)
def protect_record(call: ApiCall, key: Key, body: OnOff, scope: ScopeQuery = None) -> dict[str, Any]:
    """Protect a record from automatic removal, or withdraw the protection."""
    call.match(read_text(call.memory, key, scope)[1])
    return to_json.protected_json(call.memory.review.protect(key, scope=scope, on=body.on))


@calls.add("POST", "/records/{key}/verify", to_json.verified_json, scope="review", tagged=True)
def verify_record(call: ApiCall, key: Key, body: OnOff, scope: ScopeQuery = None) -> dict[str, Any]:
    """Verify a record as it stands, or withdraw the verification."""
    call.match(read_text(call.memory, key, scope)[1])
    entries = call.memory.review.verify(key, scope=scope, on=body.on)
    verified = {"key": key, "verified": body.on, "texts": [each.text for each in entries]}
    return to_json.verified_json(verified=[verified])


@calls.add("POST", "/bulk", to_json.arranged_json, scope="write", once=True)
def change_records(call: ApiCall, body: BulkChange, scope: ScopeQuery = None) -> dict[str, Any]:
    """Forget, tag or move many records as one run that can be undone; `dry_run` only lists them."""
    care = call.memory.care
    if not body.keys and not body.match:
        return to_json.arranged_json(run="", records=[], told=[])
    if body.dry_run:
        found = care.select(body.keys, match=body.match, scope=scope)
        return to_json.arranged_json(run="", records=found, told=[])
    if body.action == "tag":
        made = care.tag(body.keys, add=body.add, remove=body.remove, match=body.match, scope=scope)
        return to_json.arranged_json(made)
    if body.action == "move":
        to = body.to or Scope.PROJECT
        return to_json.arranged_json(care.move(body.keys, to=to, match=body.match, scope=scope))
    gone = call.memory.archive.forget_all(body.keys, match=body.match, scope=scope)
    run = next((each.run for each in care.runs() if each.what == "clear"), "") if gone else ""
    return to_json.arranged_json(run=run, records=gone, told=[])


@calls.add("POST", "/preview", preview_json, scope="read")
def preview_text(call: ApiCall, body: WholeText) -> dict[str, Any]:
    """Render a text as the page will show it; nothing is saved."""
    return preview_json(html=str(markdown.render(_NO_PROSE.sub("", body.text))))


@calls.add("POST", "/fields", fields_json, scope="read")
def change_fields(call: ApiCall, body: ChangedFields) -> ApiReply:
    """Put other fields into the text of a record's file, and read its fields; nothing is saved."""
    parsed = document.parse(body.text)
    texts = {_index_of(each, parsed.entries): each.text for each in body.entries}
    given = body.model_dump(include={"title", "type", "tags"}, exclude_none=True, mode="json")
    text = document.change(body.text, fields=given, texts=texts)
    parsed = document.parse(text)
    values, entries = parsed.front.values, enumerate(parsed.entries)
    return ApiReply(
        fields_json(
            text=text,
            title=values.get("title") or parsed.title or "",
            type=values.get("type") or RecordType.PROJECT,
            tags=fields.read_tags(values.get("tags")),
            entries=[
                {"index": index, "id": each.id, "time": each.time, "text": each.text, "live": each.live}
                for index, each in entries
            ],
        ),
        raw=call.is_person,
    )


def _index_of(wanted: EntryText, entries: Sequence[Entry]) -> int:
    """Return the index of the entry that `wanted` names by its id or index."""
    for index, each in enumerate(entries):
        if each.id == wanted.id if wanted.id else index == wanted.index:
            return index
    raise NotFound(
        "this entry is no longer in the record", hint="look at the record, and add your text again"
    )


@calls.add("GET", "/archive", to_json.forgotten_json, scope="read")
def list_forgotten(call: ApiCall, scope: ScopeQuery = None) -> dict[str, Any]:
    """List forgotten records that can be restored."""
    found = call.memory.archive.forgotten(scope=scope)
    return to_json.forgotten_json(forgotten=[forgotten_of(each) for each in found])


def show_record(memory: Memory, key: str, scope: Scope | str | None) -> dict[str, Any]:
    """Return a record as in `vade show --json`."""
    with request_view():
        record = memory.show(key, scope=scope, reveal=True)
        trust = [memory.review.trust_of(entry, record=record) for entry in record.entries]
        return to_json.record_json(
            record,
            entries=[
                to_json.entry_json(entry, trust=each, sessions=said)
                for entry, each, said in zip(
                    record.entries, trust, memory.sessions.said_in(record), strict=True
                )
            ],
            trust=memory.review.trust_of(record),
            related=memory.graph.related(key, scope=scope),
            lost=len(memory.archive.lost_entries(key, scope=scope)),
            versions=list(memory.archive.versions(key, scope=scope)),
        )


# ---------------------------------------------------------------- the text of a record or pinned document


def read_text(memory: Memory, name: str, scope: Scope | str | None) -> tuple[str, str]:
    """Return the path and the text of a record's file, from its key, number or id."""
    _no_document(name)
    return memory.workspace.text_of(name, scope)


def editable_text(call: ApiCall, path: str, text: str, *, dropped: tuple[str, ...] = ()) -> ApiReply:
    """Return the answer with a text to edit: unchanged for a person, without secrets for an agent.

    `dropped` names the fields of an edit that were not saved because only a person sets them.
    """
    tag = tag_of(text)
    hidden = not call.is_person and has_secret(text)
    visible_text = clean_text(text) if hidden else text
    shown = text_json(path=path, text=visible_text, etag=tag, editable=not hidden, dropped=dropped)
    return ApiReply(shown, tag, raw=True)


def edit_text(call: ApiCall, name: str, text: str, scope: Scope | str | None) -> ApiReply:
    """Replace a file's text if it is still the text that the caller has seen; return the new text."""
    care = call.memory.care
    path, before = care.editable(name, scope=scope)
    call.match(before, yours=text)
    if not call.is_person and has_secret(before):
        raise Refused(
            f"{path} holds what looks like a secret, which an agent does not see", hint="ask a person"
        )
    try:
        saved = care.edited(name, before, text, scope=scope)
    except Conflict as error:
        raise stale(care.editable(name, scope=scope)[1], yours=text) from error
    return editable_text(call, *care.editable(name, scope=scope), dropped=saved.dropped)


def _no_document(name: str) -> None:
    if name.lower().endswith(".md"):
        raise NotFound(f"{name} is not a record", hint="pinned documents are at /api/v1/pinned")


def forgotten_of(version: Any) -> dict[str, Any]:
    """Return a forgotten record as JSON data, as in `vade list --forgotten --json`."""
    scope = str(version.scope_folder.place.scope)
    return {"key": version.key, "scope": scope, "at": version.image.at, "why": version.why}
