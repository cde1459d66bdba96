"""Members of a workspace, their tokens and join codes, and the log of changes to them."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from vademecum.text import secrets
from vademecum_hub.authorization import (
    DEVICE_MINUTES,
    INVITE_DAYS,
    ROLES,
    SCOPES,
    TOKEN_DAYS,
    HubCaller,
    HubKeys,
    enter,
    new_code,
    new_token,
    read_code,
)
from vademecum_hub.rejections import Rejection, forbidden, malformed, not_found, unknown_caller

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from psycopg import Connection

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_REPLICA = re.compile(r"[0-9a-hjkmnp-tv-z]{8,32}")
_EVERYTHING = frozenset({"read", "write", "person"})


def check_name(name: object) -> str:
    """Return a member's name; reject a name that could not safely stand in files and logs."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in ("external", "me"):
        raise malformed("a member's name is 1 to 40 of a-z, 0-9, `.`, `_` and `-`")
    if secrets.find(name):
        raise Rejection(422, "secret", "this name looks like a secret")
    return name


def make_workspace(connection: Connection[Any], name: str, *, kind: str) -> tuple[int, str]:
    """Create an empty workspace; return its internal number and its public id."""
    public = str(uuid.uuid4())
    ws = int(connection.execute("SELECT nextval('hub.workspaces')").fetchone()[0])  # type: ignore[index]  # a sequence answers
    enter(connection, ws)
    connection.execute(
        "INSERT INTO hub.workspace (ws, public, name, kind) VALUES (%s, %s, %s, %s)", (ws, public, name, kind)
    )
    return ws, public


def list_members(connection: Connection[Any], caller: HubCaller) -> list[dict[str, Any]]:
    """Return the members of the caller's workspace."""
    caller.require("reader", scope="read")
    rows = connection.execute(
        "SELECT member, name, role, added_at FROM hub.member"
        " WHERE ws = %s AND removed_at IS NULL ORDER BY name",
        (caller.ws,),
    ).fetchall()
    return [
        {"member": str(member), "name": name, "role": role, "since": added.isoformat()}
        for member, name, role, added in rows
    ]


def change_member(
    connection: Connection[Any], caller: HubCaller, name: str, *, role: str | None
) -> dict[str, Any]:
    """Change a member's role, or with None remove the member; a workspace keeps at least one owner."""
    if role is not None and role not in ROLES:
        raise malformed("there is no such role")
    if not (role is None and name == caller.name and caller.person):  # members may leave by themselves
        caller.require("owner", person=True)
    found = connection.execute(
        "SELECT member, role FROM hub.member WHERE ws = %s AND name = %s AND removed_at IS NULL FOR UPDATE",
        (caller.ws, name),
    ).fetchone()
    if found is None:
        raise not_found()
    member, before = found
    owners = connection.execute(
        "SELECT member FROM hub.member WHERE ws = %s AND role = 'owner' AND removed_at IS NULL FOR UPDATE",
        (caller.ws,),
    ).fetchall()
    if before == "owner" and role != "owner" and len(owners) == 1:
        raise forbidden("a workspace keeps at least one owner")
    if role is None:
        connection.execute(
            "UPDATE hub.member SET removed_at = now() WHERE ws = %s AND member = %s", (caller.ws, member)
        )
        connection.execute(
            "UPDATE hub.token SET revoked_at = coalesce(revoked_at, now()) WHERE ws = %s AND member = %s",
            (caller.ws, member),
        )
    else:
        connection.execute(
            "UPDATE hub.member SET role = %s WHERE ws = %s AND member = %s", (role, caller.ws, member)
        )
    if role != "owner":  # a former owner's open invitations end
        _end_invites(connection, caller.ws, member, own=role is None)
    append_log(
        connection, caller.ws, caller.name, "removed" if role is None else "role", member=name, role=role
    )
    return {"name": name, "role": role}


def _end_invites(connection: Connection[Any], ws: int, member: object, *, own: bool) -> int:
    """End a member's unused join codes for new members; return how many were ended.

    With `own`, also end the codes for the member's own machines.
    """
    return connection.execute(
        "UPDATE hub.invite SET used_at = now() WHERE ws = %s AND made_by = %s AND used_at IS NULL"
        " AND (%s OR member IS NULL)",
        (ws, member, own),
    ).rowcount


# ------------------------------------------------------------------------------- tokens


def read_scopes(given: object) -> frozenset[str]:
    """Return the scopes in a request; reject unknown scopes."""
    if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
        raise malformed("scopes are a list of read, write and person")
    if not set(given) <= SCOPES:
        raise malformed("there is no such scope")
    return frozenset(given)


def make_token(
    connection: Connection[Any],
    keys: HubKeys,
    *,
    ws: int,
    member: str,
    scopes: Iterable[str],
    label: str,
    replica: str | None,
    made_with: str | None = None,
) -> tuple[str, str]:
    """Create a token, and return the token and its id; the database stores only its hash."""
    token, number = new_token(), str(uuid.uuid4())
    label = secrets.redact(label, secrets.find(label))[:80]
    connection.execute(
        "INSERT INTO hub.token (ws, token, member, hash, scopes, label, replica, made_with, expires)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, now() + make_interval(days => %s))",
        (ws, number, member, keys.hash_token(token), sorted(scopes), label, replica, made_with, TOKEN_DAYS),
    )
    return token, number


def _lock_token(connection: Connection[Any], caller: HubCaller) -> None:
    """Lock the caller's token, so that a revocation also ends everything this transaction makes with it."""
    row = connection.execute(
        "SELECT 1 FROM hub.token WHERE ws = %s AND token = %s AND revoked_at IS NULL FOR SHARE",
        (caller.ws, caller.token),
    ).fetchone()
    if row is None:
        raise unknown_caller()


def add_token(
    connection: Connection[Any], caller: HubCaller, keys: HubKeys, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Create another token for the caller, such as an agent's, with the caller's scopes at most."""
    caller.require("reader", scope="read", person=True)
    scopes = read_scopes(body.get("scopes"))
    if not scopes <= caller.scopes:
        raise forbidden("a token cannot give more than it has")
    _lock_token(connection, caller)
    label = str(body.get("label") or "")[:400]
    own: dict[str, Any] = {"ws": caller.ws, "member": caller.member, "made_with": caller.token}
    token, number = make_token(connection, keys, scopes=scopes, label=label, replica=None, **own)
    append_log(connection, caller.ws, caller.name, "token", token=number, scopes=sorted(scopes))
    return {"token": token, "id": number, "scopes": sorted(scopes), "days": TOKEN_DAYS}


def list_tokens(connection: Connection[Any], caller: HubCaller) -> list[dict[str, Any]]:
    """Return the caller's valid tokens, or for an owner all valid tokens.

    Each token names the tokens that were made with it and would be revoked with it.
    """
    caller.require("reader", scope="read", person=True)
    rows = connection.execute(
        "SELECT t.token::text, m.name, t.scopes, t.label, t.replica, t.created_at, t.expires,"
        " t.made_with::text FROM hub.token t JOIN hub.member m ON m.ws = t.ws AND m.member = t.member"
        " WHERE t.ws = %s AND t.revoked_at IS NULL AND t.expires > now() AND (%s OR t.member = %s)"
        " ORDER BY t.created_at",
        (caller.ws, caller.has_role("owner"), caller.member),
    ).fetchall()
    listed, invitation = {row[0] for row in rows}, _read_children(connection, caller)
    return [
        {
            "id": token, "member": name, "scopes": sorted(scopes), "label": label, "replica": replica,
            "since": created.isoformat(), "expires": expires.isoformat(), "made_with": made_with,
            "made": [each for each in _list_descendants(invitation, token) if each in listed],
        }
        for token, name, scopes, label, replica, created, expires, made_with in rows
    ]  # fmt: skip


def _read_children(connection: Connection[Any], caller: HubCaller) -> dict[str, list[str]]:
    """Return the tokens that were made with each token, by that token; the caller's token is left out."""
    rows = connection.execute(
        "SELECT made_with::text, array_agg(token::text ORDER BY created_at) FROM hub.token"
        " WHERE ws = %s AND made_with IS NOT NULL AND token <> %s GROUP BY made_with",
        (caller.ws, caller.token),
    ).fetchall()
    return dict(rows)


def _list_descendants(invitation: Mapping[str, list[str]], token: str) -> list[str]:
    """Return all tokens that were made with a token, directly or through other tokens."""
    found = list(invitation.get(token, ()))
    for each in found:  # the list grows meanwhile
        found += invitation.get(each, ())
    return found


def revoke_token(
    connection: Connection[Any], caller: HubCaller, number: str, *, only: bool = False
) -> dict[str, Any]:
    """Revoke a token, and unless `only` is set all tokens made with it, directly or through others.

    The join codes made with a revoked token end; for a person's token, all unused join codes of the member
    end. Members revoke their own tokens, owners with the scope `write` all tokens. If the caller's token was
    made with the revoked one, it stays valid with those made with it. So the second machine of a member can
    revoke the first one, through which it joined.
    """
    anybodys = caller.has_role("owner") and "write" in caller.scopes
    caller.require("reader", scope="write" if anybodys else "read", person=True)
    try:
        uuid.UUID(number)
    except ValueError:
        raise not_found() from None
    found, codes = _lock_descendants(connection, caller, number, anybodys=anybodys, only=only)
    ended = connection.execute(
        "UPDATE hub.token t SET revoked_at = now() FROM hub.member m WHERE t.ws = %s"
        " AND t.token = ANY(%s::uuid[]) AND t.revoked_at IS NULL AND m.ws = t.ws AND m.member = t.member"
        " RETURNING t.token::text, m.name, t.label, t.expires > now()",
        (caller.ws, found),
    ).fetchall()
    if not ended:
        raise not_found()
    also = [
        {"id": token, "member": name, "label": label}
        for token, name, label, was_valid in sorted(ended, key=lambda row: found.index(row[0]))
        if was_valid and token != found[0]
    ]
    more = {"also": [each["id"] for each in also]} if also else {}
    append_log(connection, caller.ws, caller.name, "revoked", token=found[0], **more)
    return {"revoked": found[0], "also": also, "codes": codes}


_LOCKED = "SELECT token::text, member, scopes FROM hub.token WHERE ws = %s AND (%s OR member = %s)"


def _lock_descendants(
    connection: Connection[Any], caller: HubCaller, number: str, *, anybodys: bool, only: bool
) -> tuple[list[str], int]:
    """Lock a token and all tokens made with it, and end the join codes made with them.

    With `only`, lock the token alone; `anybodys` allows tokens of other members. Return the tokens, and the
    number of ended codes. One level is locked at a time: whoever makes a token holds the row of its parent
    until the new row is visible.
    """
    whose = (caller.ws, anybodys, caller.member)
    root = connection.execute(f"{_LOCKED} AND token = %s FOR NO KEY UPDATE", (*whose, number)).fetchone()
    if root is None:
        raise not_found()
    found, level, codes = [root[0]], [root[0]], 0
    if "person" in root[2]:  # codes made before schema 4 do not name their token
        codes += _end_invites(connection, caller.ws, root[1], own=True)
    while level:
        codes += connection.execute(
            "UPDATE hub.invite SET used_at = now() WHERE ws = %s AND made_with = ANY(%s::uuid[])"
            " AND used_at IS NULL",
            (caller.ws, level),
        ).rowcount
        rows = connection.execute(
            f"{_LOCKED} AND made_with = ANY(%s::uuid[]) AND token <> %s ORDER BY token FOR NO KEY UPDATE",
            (*whose, level, caller.token),
        ).fetchall()
        level = [] if only else [row[0] for row in rows]
        found += level
    return found, codes


# ------------------------------------------------------------------------------- joining


def make_invite(
    connection: Connection[Any],
    keys: HubKeys,
    *,
    ws: int,
    by: str | None,
    made_with: str | None = None,
    member: str | None = None,
    name: str = "",
    role: str = "",
    scopes: Iterable[str] = _EVERYTHING,
) -> dict[str, Any]:
    """Create a join code: for another machine of `member`, else for a new member with `name` and `role`.

    The code is valid ten minutes for a machine, seven days for a new member.
    """
    finds, opens = new_code(strong=member is None)
    lasts = timedelta(minutes=DEVICE_MINUTES) if member is not None else timedelta(days=INVITE_DAYS)
    connection.execute(
        "INSERT INTO hub.invite (ws, invite, hash, member, name, role, scopes, made_by, made_with, expires)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, now() + %s)",
        (
            ws,
            finds,
            keys.hash_token(finds + opens),
            member,
            name or None,
            role or None,
            sorted(scopes),
            by,
            made_with,
            lasts,
        ),
    )
    whole = finds + opens
    code = "-".join(whole[at : at + 4] for at in range(0, len(whole), 4))
    return {"code": code, "minutes": int(lasts.total_seconds() // 60)}


def invite(
    connection: Connection[Any], caller: HubCaller, keys: HubKeys, body: Mapping[str, Any]
) -> dict[str, Any]:
    """Create a join code for another machine of the caller, or for the new member that the request names."""
    _lock_token(connection, caller)
    own: dict[str, Any] = {"ws": caller.ws, "by": caller.member, "made_with": caller.token}
    if not body.get("name"):
        caller.require("reader", scope="read", person=True)
        invitation = make_invite(connection, keys, member=caller.member, scopes=caller.scopes, **own)
        append_log(connection, caller.ws, caller.name, "invited", member=caller.name)
        return invitation
    caller.require("owner", person=True)
    if caller.kind == "personal":
        raise forbidden("a personal workspace has one member; make a team workspace to share")
    name, role = check_name(body["name"]), body.get("role") or "writer"
    if role not in ROLES:
        raise malformed("there is no such role")
    row = connection.execute(
        "SELECT 1 FROM hub.member WHERE ws = %s AND name = %s AND removed_at IS NULL", (caller.ws, name)
    ).fetchone()
    if row:
        raise Rejection(409, "taken", "there is a member of that name")
    invitation = make_invite(connection, keys, name=name, role=str(role), **own)
    append_log(connection, caller.ws, caller.name, "invited", member=name, role=role)
    return invitation


def invalid_code() -> Rejection:
    """Return the rejection of a join code, the same for a wrong, used, expired or blocked code."""
    return Rejection(404, "code", "this code is mistyped, used or too old")


def count_attempt(connection: Connection[Any], code: str) -> tuple[int, tuple[Any, ...]] | None:
    """Count an attempt to use a join code; return its workspace and its invitation.

    Return None if the code is unknown, was used, or has had too many attempts. Commit the count before the
    secret part of the code is checked, so that failed attempts count.
    """
    finds, _ = read_code(code)
    found = connection.execute("SELECT ws FROM hub.find_invite(%s)", (finds,)).fetchone()
    if found is None:
        return None
    enter(connection, found[0])
    row = connection.execute(
        "UPDATE hub.invite SET tries = tries + 1"
        " WHERE ws = %s AND invite = %s AND used_at IS NULL AND tries < 5"
        " RETURNING hash, member, name, role, scopes, made_with",
        (found[0], finds),
    ).fetchone()
    return None if row is None else (int(found[0]), row)


def join(
    connection: Connection[Any], keys: HubKeys, ws: int, row: tuple[Any, ...], body: Mapping[str, Any]
) -> dict[str, Any]:
    """Join a workspace with a join code, which works once; return the new token and the membership.

    `row` is the invitation that `count_attempt` has returned.
    """
    code, replica = str(body.get("code") or ""), str(body.get("replica") or "")
    hashed, member, name, role, scopes, made_with = row
    if not hmac.compare_digest(bytes(hashed), keys.hash_token("".join(read_code(code)))):
        raise invalid_code()
    if not _REPLICA.fullmatch(replica):
        raise malformed("a replica's name is 8 to 32 characters of a-z and 0-9")
    enter(connection, ws)
    used = connection.execute(
        "UPDATE hub.invite SET used_at = now() WHERE ws = %s AND invite = %s AND used_at IS NULL"
        " AND expires > now()",
        (ws, read_code(code)[0]),
    )
    if not used.rowcount:
        raise invalid_code()
    if member is None:
        member = uuid.uuid4()
        result = connection.execute(
            "INSERT INTO hub.member (ws, member, name, role) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (ws, member, name, role),
        )
        if not result.rowcount:
            raise invalid_code()
    answer = connection.execute(
        "SELECT w.public, w.name, w.kind, m.name, m.role"
        " FROM hub.workspace w JOIN hub.member m ON m.ws = w.ws"
        " WHERE w.ws = %s AND m.member = %s AND m.removed_at IS NULL",
        (ws, member),
    ).fetchone()
    if answer is None:
        raise invalid_code()
    label = str(body.get("label") or "")[:400]
    given: dict[str, Any] = {"ws": ws, "member": str(member), "made_with": made_with}
    token, number = make_token(connection, keys, scopes=scopes, label=label, replica=replica, **given)
    append_log(connection, ws, answer[3], "joined", token=number, replica=replica)
    names = ("workspace", "name", "kind", "member", "role")
    return {
        "token": token,
        **dict(zip(names, (str(answer[0]), *answer[1:]), strict=True)),
        "days": TOKEN_DAYS,
    }


# ------------------------------------------------------------------------------- log


def append_log(connection: Connection[Any], ws: int, by: str, did: str, **more: Any) -> None:
    """Append a line to the workspace's log of members, whose lines are chained by hashes.

    The row of the workspace stays locked until the end of the transaction.
    """
    connection.execute("SELECT 1 FROM hub.workspace WHERE ws = %s FOR UPDATE", (ws,))
    last = connection.execute(
        "SELECT seq, hash FROM hub.admin_log WHERE ws = %s ORDER BY seq DESC LIMIT 1", (ws,)
    ).fetchone()
    seq, prev = last or (0, bytes(32))
    line = {"at": datetime.now(UTC).isoformat(timespec="seconds"), "by": by, "did": did, **more}
    text = json.dumps(line, sort_keys=True)
    hashed = hashlib.sha256(prev + text.encode()).digest()
    connection.execute(
        "INSERT INTO hub.admin_log (ws, seq, line, prev, hash) VALUES (%s, %s, %s, %s, %s)",
        (ws, seq + 1, text, prev, hashed),
    )


def read_log(connection: Connection[Any], caller: HubCaller, seen: Mapping[str, str]) -> dict[str, Any]:
    """Return the newest lines of the log, and the number of the first line with a broken hash chain.

    A chain stays valid when somebody rewrites or cuts off its end. A client that has read the log before
    passes the number (`seq`) and the hash (`head`) of its last line in `seen`, and so notices such a change.
    """
    caller.require("owner", scope="read", person=True)
    rows = connection.execute(
        "SELECT seq, line, prev, hash FROM hub.admin_log WHERE ws = %s ORDER BY seq", (caller.ws,)
    ).fetchall()
    chain, broken = bytes(32), 0
    for at, (seq, line, prev, hashed) in enumerate(rows, 1):
        text = json.dumps(line, sort_keys=True)
        holds = seq == at and prev == chain and hashlib.sha256(prev + text.encode()).digest() == hashed
        broken = broken or (0 if holds else at)
        chain = hashed
    last = int(seen["seq"]) if seen.get("seq", "").isdecimal() and len(seen["seq"]) < 15 else 0
    if last and not broken and (last > len(rows) or rows[last - 1][3].hex() != seen.get("head")):
        broken = min(last, len(rows) + 1)
    answer = {"whole": not broken, "broken": broken or None, "seq": len(rows), "head": chain.hex()}
    return {**answer, "lines": [line for _, line, _, _ in rows[-1000:]]}
