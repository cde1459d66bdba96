"""Edits on the page: facts that the hub makes in a member's name, through the same checks as a push.

An answer means that PostgreSQL has them; they are in files after the next sync. A personal workspace's facts
are sealed with a key that the hub does not have, so there the page only reads.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from vademecum.errors import VadeError
from vademecum.interfaces.hub import members, review, streams
from vademecum.interfaces.hub.page import sessions
from vademecum.interfaces.hub.page.reading import mark_of, open_document
from vademecum.interfaces.hub.rejections import Rejection, absent, forbidden, wrong
from vademecum.interfaces.hub.streams import COLUMNS, Desk, Push
from vademecum.memory.sync import edits

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.interfaces.hub.page.sessions import HubSession
    from vademecum.interfaces.hub.server import HubRequest

_LONGEST = 200_000  # characters of one entry
READ_ONLY = (
    "this is a personal workspace: its texts are sealed with a key that the hub does not have,"
    " so they are edited on your machines"
)


def edit_entry(asked: HubRequest, session: HubSession) -> dict[str, Any]:
    """Give an entry another text, take it out, or add one."""
    said, entry = _text(asked, "text"), _text(asked, "entry")

    def changed(shows: edits.Shows) -> str:
        if not entry:
            return edits.add_entry(shows, said, datetime.now(UTC))
        _check_seen(asked, next((each.raw for each in shows.blocks if each.id == entry), ""))
        return edits.change_entry(shows, entry, said)

    return _change(asked, session, changed)


def settle_conflict(asked: HubRequest, session: HubSession) -> dict[str, Any]:
    """Decide which version of an entry stays: one, all of them, or a new text."""
    asked.caller.need("editor", person=True)
    entry, keep, said = _text(asked, "entry"), _text(asked, "keep"), _text(asked, "text")

    def changed(shows: edits.Shows) -> str:
        group = next((each for each in edits.group_versions(shows) if each[0].id == entry), [])
        _check_seen(asked, "\0".join(each.raw for each in group))
        return edits.settle(shows, entry, keep, said)

    return _change(asked, session, changed)


def vouch(asked: HubRequest, session: HubSession) -> dict[str, Any]:
    """Verify exactly this text in one's own name, or withdraw that."""
    yes = asked.body.get("yes") is not False
    asked.caller.need("editor" if yes else "reader", person=True)  # one's own word can always be withdrawn

    def made(desk: Desk, row: streams.StreamRow) -> Sequence[streams.SyncFact]:
        opened, shows = open_document(asked, desk.stream, _text(asked, "doc"))
        block = next((each for each in shows.blocks if each.id == _text(asked, "entry")), None)
        if block is None:
            raise _changed_meanwhile()
        _check_seen(asked, block.raw)
        place = _place(desk, row, session)
        return edits.vouch_facts(place, opened.state, shows, block, asked.caller.name, yes=yes)

    return _push(asked, session, made, need="writer" if yes else "reader")


def switch_rule(asked: HubRequest, _: HubSession) -> dict[str, Any]:
    """Switch the two-person rule."""
    done = review.set_rule(
        asked.connection, asked.caller, review.TWO_PERSON, on=asked.body.get(review.TWO_PERSON)
    )
    members.log(
        asked.connection, asked.caller.ws, asked.caller.name, "rule", rule=done["rule"], on=done["on"]
    )
    return done


def revoke(asked: HubRequest, _: HubSession) -> dict[str, Any]:
    """Revoke a token and what was made with it: one's own, or anybody's as an owner."""
    return members.revoke_token(asked.connection, asked.caller, _text(asked, "id"))


def leave(asked: HubRequest, session: HubSession) -> dict[str, Any]:
    """End this session."""
    sessions.leave(asked.connection, session)
    return {"left": True}


# ------------------------------------------------------------------------------- how facts are made


def _change(asked: HubRequest, session: HubSession, changed: Callable[[edits.Shows], str]) -> dict[str, Any]:
    """Make the facts of a document's new text."""

    def made(desk: Desk, row: streams.StreamRow) -> Sequence[streams.SyncFact]:
        opened, shows = open_document(asked, desk.stream, _text(asked, "doc"))
        text = changed(shows)
        return edits.edit_facts(_place(desk, row, session), opened.state, shows, shows.path, text)

    return _push(asked, session, made)


def _push(
    asked: HubRequest,
    session: HubSession,
    make: Callable[[Desk, streams.StreamRow], Sequence[streams.SyncFact]],
    *,
    need: str = "writer",
) -> dict[str, Any]:
    """Add facts under the lock of their stream, as if a machine of the member had sent them."""
    asked.caller.need(need, person=True)
    if asked.caller.kind == "personal":
        raise forbidden(READ_ONLY)
    desk = Desk(asked.connection, asked.caller, asked.keys, _text(asked, "stream"))
    _check_there(desk)
    row = streams.lock_stream(desk)
    try:
        facts = tuple(make(desk, row))
    except VadeError as error:
        raise Rejection(409, type(error).__name__, str(error), hint=error.hint) from error
    push = Push(row.epoch, session.replica(asked.keys, desk.stream, row.epoch), facts, (None,) * len(facts))
    streams.check_secrets(push)
    streams.check_shapes(facts)
    done = review.push_reviewed(desk, push)
    return {"changes": len(facts), "head": done["head"], "stale": bool(done.get("stale"))}


def _check_there(desk: Desk) -> None:
    """Refuse to make a place by asking for it; an absent one and somebody else's are the same."""
    found = desk.connection.execute(
        "SELECT 1 FROM hub.stream WHERE ws = %s AND stream = %s", (desk.caller.ws, desk.stream)
    ).fetchone()
    if found is None:
        raise absent()


def _place(desk: Desk, row: streams.StreamRow, session: HubSession) -> edits.EditPlace:
    """Where this session's facts of a stream go on from."""
    replica = session.replica(desk.keys, desk.stream, row.epoch)
    last = desk.connection.execute(
        f"SELECT {COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s AND replica = %s"
        " ORDER BY n DESC LIMIT 1",
        (desk.caller.ws, desk.stream, replica),
    ).fetchone()
    fact = streams.read_row(desk.stream, last)[0] if last else None
    return edits.EditPlace(desk.stream, replica, fact, row.max_lam)


def _check_seen(asked: HubRequest, now: str) -> None:
    """Refuse a change of what looks different by now: the person decided about what they saw."""
    if _text(asked, "was") != mark_of(now):
        raise _changed_meanwhile()


def _changed_meanwhile() -> Rejection:
    return Rejection(
        409, "changed", "somebody changed this meanwhile", hint="look at it again; what you typed is kept"
    )


def _text(asked: HubRequest, name: str) -> str:
    said = asked.body.get(name, "")
    if not isinstance(said, str) or len(said) > _LONGEST or "\0" in said:
        raise wrong(f"`{name}` is not a text, or is too long")
    return said
