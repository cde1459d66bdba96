"""Actions of the page: the hub makes facts in a member's name, and checks them like pushed facts.

When an action is answered, PostgreSQL has its facts; machines get them with their next sync. The page of a
personal workspace is read-only, since its facts are sealed with a key that the hub does not have.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vademecum.errors import VadeError
from vademecum.sync import edits
from vademecum_hub import members, streams, workspace_rules
from vademecum_hub.page import browser_sessions
from vademecum_hub.page.document_views import digest_of, open_document
from vademecum_hub.rejections import Rejection, forbidden, malformed, not_found
from vademecum_hub.streams import COLUMNS, Push, RequestContext

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum_hub.page.browser_sessions import HubSession
    from vademecum_hub.protocol import HubRequest

_LONGEST = 200_000  # characters of one entry
READ_ONLY = (
    "this is a personal workspace: its texts are sealed with a key that the hub does not have,"
    " so they are edited on your machines"
)


def edit_entry(request: HubRequest, session: HubSession) -> dict[str, Any]:
    """Change an entry; without an entry's id add an entry, and with an empty text remove the entry."""
    text, entry = _read_text(request, "text"), _read_text(request, "entry")

    def changed(file: edits.ShownFile) -> str:
        if not entry:
            return edits.add_entry(file, text, datetime.now(UTC))
        _check_unchanged(request, next((each.raw for each in file.blocks if each.id == entry), ""))
        return edits.change_entry(file, entry, text)

    return _push_changed_text(request, session, changed)


def settle_conflict(request: HubRequest, session: HubSession) -> dict[str, Any]:
    """Settle the conflict of an entry: keep one version, keep all versions, or write a new text."""
    request.caller.require("editor", person=True)
    entry, keep, text = _read_text(request, "entry"), _read_text(request, "keep"), _read_text(request, "text")

    def changed(file: edits.ShownFile) -> str:
        group = next((each for each in edits.group_versions(file) if each[0].id == entry), [])
        _check_unchanged(request, "\0".join(each.raw for each in group))
        return edits.settle(file, entry, keep, text)

    return _push_changed_text(request, session, changed)


def vouch(request: HubRequest, session: HubSession) -> dict[str, Any]:
    """Vouch for the current text of an entry, or withdraw the vouch if the request's `yes` is false."""
    yes = request.body.get("yes") is not False
    role = "editor" if yes else "reader"  # every role can withdraw its own vouch
    request.caller.require(role, person=True)

    def made(context: RequestContext, row: streams.StreamRow) -> Sequence[streams.SyncFact]:
        opened, file = open_document(request, context.stream, _read_text(request, "doc"))
        block = next((each for each in file.blocks if each.id == _read_text(request, "entry")), None)
        if block is None:
            raise _make_conflict()
        _check_unchanged(request, block.raw)
        place = _find_place(context, row, session)
        return edits.vouch_facts(place, opened.state, file, block, request.caller.name, yes=yes)

    return _push_facts(request, session, made, need="writer" if yes else "reader")


def switch_rule(request: HubRequest, _: HubSession) -> dict[str, Any]:
    """Switch the two-person rule on or off."""
    done = workspace_rules.set_rule(
        request.connection,
        request.caller,
        workspace_rules.TWO_PERSON,
        on=request.body.get(workspace_rules.TWO_PERSON),
    )
    members.append_log(
        request.connection, request.caller.ws, request.caller.name, "rule", rule=done["rule"], on=done["on"]
    )
    return done


def revoke(request: HubRequest, _: HubSession) -> dict[str, Any]:
    """Revoke a token and all tokens made with it."""
    return members.revoke_token(request.connection, request.caller, _read_text(request, "id"))


def leave(request: HubRequest, session: HubSession) -> dict[str, Any]:
    """End the session of this browser."""
    browser_sessions.leave(request.connection, session)
    return {"left": True}


# ------------------------------------------------------------------------------- making facts


def _push_changed_text(
    request: HubRequest, session: HubSession, changed: Callable[[edits.ShownFile], str]
) -> dict[str, Any]:
    """Add the facts that give a document its new text, which `changed` makes from its file."""

    def made(context: RequestContext, row: streams.StreamRow) -> Sequence[streams.SyncFact]:
        opened, file = open_document(request, context.stream, _read_text(request, "doc"))
        text = changed(file)
        return edits.edit_facts(_find_place(context, row, session), opened.state, file, file.path, text)

    return _push_facts(request, session, made)


def _push_facts(
    request: HubRequest,
    session: HubSession,
    make: Callable[[RequestContext, streams.StreamRow], Sequence[streams.SyncFact]],
    *,
    need: str = "writer",
) -> dict[str, Any]:
    """Make facts while their stream is locked, and add them like a push of the member.

    `need` is the role that the member must have at least.
    """
    request.caller.require(need, person=True)
    if request.caller.kind == "personal":
        raise forbidden(READ_ONLY)
    context = RequestContext(request.connection, request.caller, request.keys, _read_text(request, "stream"))
    _check_stream_exists(context)
    row = streams.lock_stream(context)
    try:
        facts = tuple(make(context, row))
    except VadeError as error:
        raise Rejection(409, type(error).__name__, str(error), hint=error.hint) from error
    push = Push(
        row.epoch, session.replica(request.keys, context.stream, row.epoch), facts, (None,) * len(facts)
    )
    streams.check_secrets(push)
    streams.check_shapes(facts)
    done = workspace_rules.push_reviewed(context, push)
    return {"changes": len(facts), "head": done["head"], "stale": bool(done.get("stale"))}


def _check_stream_exists(context: RequestContext) -> None:
    """Reject a stream that the workspace does not have, so that an action creates no stream."""
    found = context.connection.execute(
        "SELECT 1 FROM hub.stream WHERE ws = %s AND stream = %s", (context.caller.ws, context.stream)
    ).fetchone()
    if found is None:
        raise not_found()


def _find_place(context: RequestContext, row: streams.StreamRow, session: HubSession) -> edits.EditPlace:
    """Return the session's replica and its last fact in a stream, where new facts are added."""
    replica = session.replica(context.keys, context.stream, row.epoch)
    last = context.connection.execute(
        f"SELECT {COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s AND replica = %s"
        " ORDER BY n DESC LIMIT 1",
        (context.caller.ws, context.stream, replica),
    ).fetchone()
    fact = streams.read_row(context.stream, last)[0] if last else None
    return edits.EditPlace(context.stream, replica, fact, row.max_lamport)


def _check_unchanged(request: HubRequest, now: str) -> None:
    """Reject an action if the text has changed since the person saw it."""
    if _read_text(request, "was") != digest_of(now):
        raise _make_conflict()


def _make_conflict() -> Rejection:
    return Rejection(
        409, "changed", "somebody changed this meanwhile", hint="look at it again; what you typed is kept"
    )


def _read_text(request: HubRequest, name: str) -> str:
    text = request.body.get(name, "")
    if not isinstance(text, str) or len(text) > _LONGEST or "\0" in text:
        raise malformed(f"`{name}` is not a text, or is too long")
    return text
