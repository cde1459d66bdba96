"""The page of members: members, their machines and agents, purges, and the log for owners."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vademecum_hub import members, workspace_rules
from vademecum_hub.streams import RequestContext, list_purges

if TYPE_CHECKING:
    from vademecum_hub.protocol import HubRequest

_LINES = 100


def list_everybody(request: HubRequest) -> dict[str, Any]:
    """Return the members and the caller's tokens; for owners all tokens and the log, too."""
    caller = request.caller
    owner = caller.has_role("owner")
    return {
        "members": members.list_members(request.connection, caller),
        "tokens": _list_tokens(request),
        "purges": _list_purges(request),
        "two_person": bool(
            workspace_rules.read_rules(request.connection, caller.ws).get(workspace_rules.TWO_PERSON)
        ),
        "owner": owner,
        "log": _read_log(request) if owner else None,
    }


def _list_tokens(request: HubRequest) -> list[dict[str, Any]]:
    """Return the tokens that the caller may see.

    Each has the time of its last request, and tells whether it is an agent's and whether it is the caller's.
    """
    seen = dict(
        request.connection.execute(
            "SELECT token::text, seen_at FROM hub.token WHERE ws = %s AND seen_at IS NOT NULL",
            (request.caller.ws,),
        ).fetchall()
    )
    return [
        {
            **each,
            "seen": seen[each["id"]].isoformat() if each["id"] in seen else "",
            "agent": "person" not in each["scopes"],
            "this": each["id"] == request.caller.token,
        }
        for each in members.list_tokens(request.connection, request.caller)
    ]


def _list_purges(request: HubRequest) -> list[dict[str, Any]]:
    """Return the newest purges, each with the number of machines that have carried it out."""
    rows = request.connection.execute(
        "SELECT DISTINCT stream FROM hub.fact WHERE ws = %s AND kind = 'purge'"
        " AND stream = ANY(SELECT stream FROM hub.stream WHERE ws = %s) LIMIT 50",
        (request.caller.ws, request.caller.ws),
    ).fetchall()
    found = [
        {"stream": stream, **each}
        for (stream,) in rows
        for each in list_purges(RequestContext(request.connection, request.caller, request.keys, stream))
    ]
    return sorted(found, key=lambda each: each["at"], reverse=True)[:_LINES]


def _read_log(request: HubRequest) -> dict[str, Any]:
    log = members.read_log(request.connection, request.caller, {})
    return {"whole": log["whole"], "broken": log["broken"], "lines": log["lines"][: -_LINES - 1 : -1]}
