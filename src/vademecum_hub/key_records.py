"""The public record of a personal workspace's key: kept for the owner's machines, and checked at each push.

The hub cannot check seals, because it has no key. It rejects what a machine with another key sends, and it
replaces the seals of facts for a machine that had sent them under a wrong key.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from vademecum.errors import Malformed
from vademecum.sync.workspace_key import KeyRecord, parse_record
from vademecum_hub import members
from vademecum_hub.rejections import Rejection, malformed

if TYPE_CHECKING:
    from collections.abc import Mapping

    from psycopg import Connection

    from vademecum_hub.authorization import HubCaller
    from vademecum_hub.streams import RequestContext

_SEAL, _REPLICA = re.compile(r"[0-9a-f]{64}"), re.compile(r"[0-9a-hjkmnp-tv-z]{8,32}")
MOST_SEALS = 1_000


def read_key(connection: Connection[Any], caller: HubCaller, *, lock: str = "") -> KeyRecord | None:
    """Return the record of the workspace's key; None if there is none yet."""
    row = connection.execute(
        f"SELECT key_record FROM hub.workspace WHERE ws = %s {lock}", (caller.ws,)
    ).fetchone()
    return parse_record(row[0]) if row and row[0] else None


def describe_key(connection: Connection[Any], caller: HubCaller) -> dict[str, Any] | None:
    """Return check and generation of a personal workspace's key; None for a team, which has no key."""
    if caller.kind != "personal":
        return None
    row = connection.execute(
        "SELECT key_record->>'check', coalesce((key_record->>'generation')::int, 1)"
        " FROM hub.workspace WHERE ws = %s",
        (caller.ws,),
    ).fetchone()
    assert row is not None
    return {"check": row[0], "generation": row[1]}


def show_key(connection: Connection[Any], caller: HubCaller) -> dict[str, Any]:
    """Return the whole record of the workspace's key."""
    caller.require("reader", scope="read")
    record = read_key(connection, caller)
    return {"record": record.render() if record else None}


def keep_key(connection: Connection[Any], caller: HubCaller, body: Mapping[str, Any]) -> dict[str, Any]:
    """Save the record of the first key, or of a later generation, and return the record that is valid now.

    With `heads`, a later generation is taken only if no stream has facts that the client does not know.
    """
    caller.require("writer")
    if caller.kind != "personal":
        raise malformed("a team has no key")
    try:
        record = parse_record(body.get("record"))
    except Malformed as error:
        raise malformed(str(error)) from error
    if record.workspace != caller.public:
        raise malformed("the record is of another workspace")
    before = read_key(connection, caller, lock="FOR UPDATE")
    if before is not None and record.generation > before.generation:
        caller.require("writer", person=True)
        _check_heads(connection, caller, body.get("heads"))
    if before is None or record.generation > before.generation:
        connection.execute(
            "UPDATE hub.workspace SET key_record = %s WHERE ws = %s", (json.dumps(record.render()), caller.ws)
        )
        members.append_log(connection, caller.ws, caller.name, "key", generation=record.generation)
        before = record
    return {"record": before.render()}


def _check_heads(connection: Connection[Any], caller: HubCaller, heads: object) -> None:
    if heads is None:
        return
    rows = connection.execute("SELECT stream, head FROM hub.stream WHERE ws = %s", (caller.ws,)).fetchall()
    if heads != dict(rows):
        raise Rejection(409, "moved", "other machines have sent changes meanwhile")


def check_pushed_key(context: RequestContext, check: str) -> None:
    """Reject a push of a machine with another key than that of the workspace.

    A machine of an earlier version names no key; it may send until the key is changed for the first time.
    The row stays locked against such a change until the end of the transaction.
    """
    if context.caller.kind != "personal":
        return
    record = read_key(context.connection, context.caller, lock="FOR SHARE")
    if record is not None and (check != record.check if check else record.generation > 1):
        raise Rejection(409, "key", "this machine has another key than the workspace")


def replace_seals(context: RequestContext, body: Mapping[str, Any]) -> dict[str, Any]:
    """Replace the seals of facts that the caller has sent; an agent may do so only for its own facts."""
    context.caller.require("writer")
    seals = body.get("seals")
    if context.caller.kind != "personal" or not isinstance(seals, list) or len(seals) > MOST_SEALS:
        raise malformed(f"`seals` is a list of at most {MOST_SEALS} seals of a personal workspace")
    for each in seals:
        if not (isinstance(each, list) and len(each) == 3 and _is_seal(*each)):
            raise malformed("a seal is a list of replica, number and seal")
    done = context.connection.execute(
        "UPDATE hub.fact f SET seal = s.seal"
        " FROM unnest(%s::text[], %s::bigint[], %s::text[]) AS s (replica, n, seal)"
        " WHERE f.ws = %s AND f.stream = %s AND f.replica = s.replica AND f.n = s.n"
        " AND f.author = %s AND (%s OR f.role = 'agent')",
        (
            *([each[at] for each in seals] for at in range(3)),
            context.caller.ws,
            context.stream,
            context.caller.name,
            context.caller.person,
        ),
    )
    return {"replaced": done.rowcount}


def _is_seal(replica: object, n: object, seal: object) -> bool:
    fits = isinstance(replica, str) and isinstance(seal, str) and type(n) is int and 0 < n < 10**12
    return bool(fits and _REPLICA.fullmatch(str(replica)) and _SEAL.fullmatch(str(seal)))
