"""Who belongs to a workspace: members, their machines and agents, purges, and the log for owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hub import members, review
from vademecum.interfaces.hub.streams import Desk, list_purges

if TYPE_CHECKING:
    from vademecum.interfaces.hub.server import HubRequest

_LINES = 100


def list_everybody(asked: HubRequest) -> dict[str, Any]:
    """Members for everybody; one's own tokens, or all of them and the log for owners."""
    caller = asked.caller
    owner = caller.at_least("owner")
    return {
        "members": members.list_members(asked.connection, caller),
        "tokens": _tokens(asked),
        "purges": _purges(asked),
        "two_person": bool(review.read_rules(asked.connection, caller.ws).get(review.TWO_PERSON)),
        "owner": owner,
        "log": _log(asked) if owner else None,
    }


def _tokens(asked: HubRequest) -> list[dict[str, Any]]:
    """Tokens with when each was last seen: a machine's has a replica, an agent's no person."""
    seen = dict(
        asked.connection.execute(
            "SELECT token::text, seen_at FROM hub.token WHERE ws = %s AND seen_at IS NOT NULL",
            (asked.caller.ws,),
        ).fetchall()
    )
    return [
        {
            **each,
            "seen": seen[each["id"]].isoformat() if each["id"] in seen else "",
            "agent": "person" not in each["scopes"],
            "this": each["id"] == asked.caller.token,
        }
        for each in members.list_tokens(asked.connection, asked.caller)
    ]


def _purges(asked: HubRequest) -> list[dict[str, Any]]:
    """Every purge, newest first, with how many machines have carried it out."""
    rows = asked.connection.execute(
        "SELECT DISTINCT stream FROM hub.fact WHERE ws = %s AND kind = 'purge'"
        " AND stream = ANY(SELECT stream FROM hub.stream WHERE ws = %s) LIMIT 50",
        (asked.caller.ws, asked.caller.ws),
    ).fetchall()
    found = [
        {"stream": stream, **each}
        for (stream,) in rows
        for each in list_purges(Desk(asked.connection, asked.caller, asked.keys, stream))
    ]
    return sorted(found, key=lambda each: each["at"], reverse=True)[:_LINES]


def _log(asked: HubRequest) -> dict[str, Any]:
    told = members.read_log(asked.connection, asked.caller, {})
    return {"whole": told["whole"], "broken": told["broken"], "lines": told["lines"][: -_LINES - 1 : -1]}
