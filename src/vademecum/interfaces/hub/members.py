"""Members, their tokens, the codes they join with, and the log of who let whom in."""

from __future__ import annotations

import hashlib
import hmac
import json
import re
import uuid
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hub.access import (
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
from vademecum.interfaces.hub.rejections import Rejection, absent, forbidden, unknown_caller, wrong
from vademecum.text import secrets

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from psycopg import Connection

_NAME = re.compile(r"[a-z0-9][a-z0-9._-]{0,39}")
_REPLICA = re.compile(r"[0-9a-hjkmnp-tv-z]{8,32}")
_EVERYTHING = frozenset({"read", "write", "person"})


def check_name(name: object) -> str:
    """A member's name, which stands in files and logs."""
    if not isinstance(name, str) or not _NAME.fullmatch(name) or name in ("external", "me"):
        raise wrong("a member's name is 1 to 40 of a-z, 0-9, `.`, `_` and `-`")
    if secrets.find(name):
        raise Rejection(422, "secret", "this name looks like a secret")
    return name


def make_workspace(connection: Connection[Any], name: str, *, kind: str) -> tuple[int, str]:
    """A new, empty workspace; only who owns the database can make one."""
    public = str(uuid.uuid4())
    ws = int(connection.execute("SELECT nextval('hub.workspaces')").fetchone()[0])  # type: ignore[index]  # a sequence answers
    enter(connection, ws)
    connection.execute(
        "INSERT INTO hub.workspace (ws, public, name, kind) VALUES (%s, %s, %s, %s)", (ws, public, name, kind)
    )
    return ws, public


def list_members(connection: Connection[Any], caller: HubCaller) -> list[dict[str, Any]]:
    """Who belongs to the workspace."""
    caller.need("reader", scope="read")
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
    """Give a member another role, or remove them; the last owner stays."""
    if role is not None and role not in ROLES:
        raise wrong("there is no such role")
    if not (role is None and name == caller.name and caller.person):  # who leaves needs no owner
        caller.need("owner", person=True)
    found = connection.execute(
        "SELECT member, role FROM hub.member WHERE ws = %s AND name = %s AND removed_at IS NULL FOR UPDATE",
        (caller.ws, name),
    ).fetchone()
    if found is None:
        raise absent()
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
    if role != "owner":  # whom they invited and who has not come yet was let in by nobody
        _end_invites(connection, caller.ws, member, own=role is None)
    log(connection, caller.ws, caller.name, "removed" if role is None else "role", member=name, role=role)
    return {"name": name, "role": role}


def _end_invites(connection: Connection[Any], ws: int, member: object, *, own: bool) -> int:
    """Make codes invalid that a member made: those for others, or for `own` machines, or both; how many."""
    return connection.execute(
        "UPDATE hub.invite SET used_at = now() WHERE ws = %s AND made_by = %s AND used_at IS NULL"
        " AND (%s OR member IS NULL)",
        (ws, member, own),
    ).rowcount


# ------------------------------------------------------------------------------- tokens


def read_scopes(given: object) -> frozenset[str]:
    """The scopes that somebody asks for."""
    if not isinstance(given, list) or not given or not all(isinstance(each, str) for each in given):
        raise wrong("scopes are a list of read, write and person")
    if not set(given) <= SCOPES:
        raise wrong("there is no such scope")
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
    """A new token and its id; the token itself is kept nowhere."""
    token, number = new_token(), str(uuid.uuid4())
    label = secrets.redact(label, secrets.find(label))[:80]
    connection.execute(
        "INSERT INTO hub.token (ws, token, member, hash, scopes, label, replica, made_with, expires)"
        " VALUES (%s, %s, %s, %s, %s, %s, %s, %s, now() + make_interval(days => %s))",
        (ws, number, member, keys.hash_token(token), sorted(scopes), label, replica, made_with, TOKEN_DAYS),
    )
    return token, number


def _keep_valid(connection: Connection[Any], caller: HubCaller) -> None:
    """Let nobody revoke the caller's token before this transaction has ended: what it makes is seen then."""
    held = connection.execute(
        "SELECT 1 FROM hub.token WHERE ws = %s AND token = %s AND revoked_at IS NULL FOR SHARE",
        (caller.ws, caller.token),
    ).fetchone()
    if held is None:
        raise unknown_caller()


def add_token(
    connection: Connection[Any], caller: HubCaller, keys: HubKeys, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Another token of the caller's own, with no more rights than they have: an agent's, or the next one."""
    caller.need("reader", scope="read", person=True)
    scopes = read_scopes(asked.get("scopes"))
    if not scopes <= caller.scopes:
        raise forbidden("a token cannot give more than it has")
    _keep_valid(connection, caller)
    label = str(asked.get("label") or "")[:400]
    own: dict[str, Any] = {"ws": caller.ws, "member": caller.member, "made_with": caller.token}
    token, number = make_token(connection, keys, scopes=scopes, label=label, replica=None, **own)
    log(connection, caller.ws, caller.name, "token", token=number, scopes=sorted(scopes))
    return {"token": token, "id": number, "scopes": sorted(scopes), "days": TOKEN_DAYS}


def list_tokens(connection: Connection[Any], caller: HubCaller) -> list[dict[str, Any]]:
    """The caller's tokens that are valid, and which ones would end with each; an owner sees everybody's."""
    caller.need("reader", scope="read", person=True)
    rows = connection.execute(
        "SELECT t.token::text, m.name, t.scopes, t.label, t.replica, t.created_at, t.expires,"
        " t.made_with::text FROM hub.token t JOIN hub.member m ON m.ws = t.ws AND m.member = t.member"
        " WHERE t.ws = %s AND t.revoked_at IS NULL AND t.expires > now() AND (%s OR t.member = %s)"
        " ORDER BY t.created_at",
        (caller.ws, caller.at_least("owner"), caller.member),
    ).fetchall()
    listed, made = {row[0] for row in rows}, _read_made(connection, caller)
    return [
        {
            "id": token, "member": name, "scopes": sorted(scopes), "label": label, "replica": replica,
            "since": created.isoformat(), "expires": expires.isoformat(), "made_with": made_with,
            "made": [each for each in _list_below(made, token) if each in listed],
        }
        for token, name, scopes, label, replica, created, expires, made_with in rows
    ]  # fmt: skip


def _read_made(connection: Connection[Any], caller: HubCaller) -> dict[str, list[str]]:
    """The tokens that were made with each, but the one that asks."""
    rows = connection.execute(
        "SELECT made_with::text, array_agg(token::text ORDER BY created_at) FROM hub.token"
        " WHERE ws = %s AND made_with IS NOT NULL AND token <> %s GROUP BY made_with",
        (caller.ws, caller.token),
    ).fetchall()
    return dict(rows)


def _list_below(made: Mapping[str, list[str]], token: str) -> list[str]:
    """What was made with a token, and with what was made with it."""
    found = list(made.get(token, ()))
    for each in found:  # which grows
        found += made.get(each, ())
    return found


def revoke_token(
    connection: Connection[Any], caller: HubCaller, number: str, *, only: bool = False
) -> dict[str, Any]:
    """Make a token invalid from the next request on, and what was made with it unless `only` it is meant.

    One's own, or anybody's as an owner who may write. The token that asks stays valid, and what was made with
    it: whoever has lost their first machine revokes it from the second, which joined through the first.
    """
    anybodys = caller.at_least("owner") and "write" in caller.scopes
    caller.need("reader", scope="write" if anybodys else "read", person=True)
    try:
        uuid.UUID(number)
    except ValueError:
        raise absent() from None
    found, codes = _lock_made(connection, caller, number, anybodys=anybodys, only=only)
    ended = connection.execute(
        "UPDATE hub.token t SET revoked_at = now() FROM hub.member m WHERE t.ws = %s"
        " AND t.token = ANY(%s::uuid[]) AND t.revoked_at IS NULL AND m.ws = t.ws AND m.member = t.member"
        " RETURNING t.token::text, m.name, t.label, t.expires > now()",
        (caller.ws, found),
    ).fetchall()
    if not ended:
        raise absent()
    also = [
        {"id": token, "member": name, "label": label}
        for token, name, label, was_valid in sorted(ended, key=lambda row: found.index(row[0]))
        if was_valid and token != found[0]
    ]
    more = {"also": [each["id"] for each in also]} if also else {}
    log(connection, caller.ws, caller.name, "revoked", token=found[0], **more)
    return {"revoked": found[0], "also": also, "codes": codes}


_LOCKED = "SELECT token::text, member, scopes FROM hub.token WHERE ws = %s AND (%s OR member = %s)"


def _lock_made(
    connection: Connection[Any], caller: HubCaller, number: str, *, anybodys: bool, only: bool
) -> tuple[list[str], int]:
    """A token and what was made with it, and how many codes of theirs were ended.

    A level at a time: whoever makes something holds the row of their token until it can be seen.
    """
    whose = (caller.ws, anybodys, caller.member)
    root = connection.execute(f"{_LOCKED} AND token = %s FOR NO KEY UPDATE", (*whose, number)).fetchone()
    if root is None:
        raise absent()
    found, level, codes = [root[0]], [root[0]], 0
    if "person" in root[2]:  # whoever had it may have made a code before it was known with what
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
    """A code to join with: for a machine of the same member, ten minutes; for somebody new, seven days."""
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
    connection: Connection[Any], caller: HubCaller, keys: HubKeys, asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Let another machine of the caller's in, or a new member."""
    _keep_valid(connection, caller)
    own: dict[str, Any] = {"ws": caller.ws, "by": caller.member, "made_with": caller.token}
    if not asked.get("name"):
        caller.need("reader", scope="read", person=True)
        made = make_invite(connection, keys, member=caller.member, scopes=caller.scopes, **own)
        log(connection, caller.ws, caller.name, "invited", member=caller.name)
        return made
    caller.need("owner", person=True)
    if caller.kind == "personal":
        raise forbidden("a personal workspace has one member; make a team workspace to share")
    name, role = check_name(asked["name"]), asked.get("role") or "writer"
    if role not in ROLES:
        raise wrong("there is no such role")
    taken = connection.execute(
        "SELECT 1 FROM hub.member WHERE ws = %s AND name = %s AND removed_at IS NULL", (caller.ws, name)
    ).fetchone()
    if taken:
        raise Rejection(409, "taken", "there is a member of that name")
    made = make_invite(connection, keys, name=name, role=str(role), **own)
    log(connection, caller.ws, caller.name, "invited", member=name, role=role)
    return made


def wrong_code() -> Rejection:
    """The one answer for a code that is wrong, used, too old or was tried too often."""
    return Rejection(404, "code", "this code is mistyped, used or too old")


def count_try(connection: Connection[Any], code: str) -> tuple[int, tuple[Any, ...]] | None:
    """Find what a code may open, and count the try; the count must be kept whatever happens next."""
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
    connection: Connection[Any], keys: HubKeys, ws: int, row: tuple[Any, ...], asked: Mapping[str, Any]
) -> dict[str, Any]:
    """Open the workspace to whoever typed the right code, once."""
    code, replica = str(asked.get("code") or ""), str(asked.get("replica") or "")
    hashed, member, name, role, scopes, made_with = row
    if not hmac.compare_digest(bytes(hashed), keys.hash_token("".join(read_code(code)))):
        raise wrong_code()
    if not _REPLICA.fullmatch(replica):
        raise wrong("a replica's name is 8 to 32 characters of a-z and 0-9")
    enter(connection, ws)
    used = connection.execute(
        "UPDATE hub.invite SET used_at = now() WHERE ws = %s AND invite = %s AND used_at IS NULL"
        " AND expires > now()",
        (ws, read_code(code)[0]),
    )
    if not used.rowcount:
        raise wrong_code()
    if member is None:
        member = uuid.uuid4()
        taken = connection.execute(
            "INSERT INTO hub.member (ws, member, name, role) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
            (ws, member, name, role),
        )
        if not taken.rowcount:
            raise wrong_code()
    told = connection.execute(
        "SELECT w.public, w.name, w.kind, m.name, m.role"
        " FROM hub.workspace w JOIN hub.member m ON m.ws = w.ws"
        " WHERE w.ws = %s AND m.member = %s AND m.removed_at IS NULL",
        (ws, member),
    ).fetchone()
    if told is None:
        raise wrong_code()
    label = str(asked.get("label") or "")[:400]
    given: dict[str, Any] = {"ws": ws, "member": str(member), "made_with": made_with}
    token, number = make_token(connection, keys, scopes=scopes, label=label, replica=replica, **given)
    log(connection, ws, told[3], "joined", token=number, replica=replica)
    names = ("workspace", "name", "kind", "member", "role")
    return {"token": token, **dict(zip(names, (str(told[0]), *told[1:]), strict=True)), "days": TOKEN_DAYS}


# ------------------------------------------------------------------------------- log


def log(connection: Connection[Any], ws: int, by: str, did: str, **more: Any) -> None:
    """Add a line to the workspace's chained log; the row of the workspace keeps two from adding at once."""
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
    """The newest lines of the log, and the first line at which its chain does not hold.

    Who rewrites the end of the log, or cuts it off, leaves a chain that holds: that is noticed by whoever saw
    it before and says in `seen` the number (`seq`) and the hash (`head`) of the last line then.
    """
    caller.need("owner", scope="read", person=True)
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
    told = {"whole": not broken, "broken": broken or None, "seq": len(rows), "head": chain.hex()}
    return {**told, "lines": [line for _, line, _, _ in rows[-1000:]]}
