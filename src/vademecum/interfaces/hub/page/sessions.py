"""Who has the page open: a link that works once, then a cookie that is bound to one path and one token.

All that lets anybody in is a mac under the hub's key, so any server of the hub can check it and no database
or backup holds it. The row of a session says until when it counts. Its token, member and role are read with
every request: revoking the token ends the session at once.
"""

from __future__ import annotations

import hmac
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.interfaces.hub.access import HubCaller, HubKeys, enter
from vademecum.interfaces.hub.rejections import Rejection
from vademecum.interfaces.web.headers import read_cookies

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import Connection

COOKIE = "vade-hub"
DOOR = "/~"
LINK_MINUTES, SESSION_HOURS = 10, 12
HOW_IN = "run `vade hub open` on a machine that has joined this hub"
_LINK, _COOKIE, _SECRET, _REPLICA = "page link", "page cookie", "page secret", "page replica"


class HubSession(NamedTuple):
    """One browser that was let in."""

    ws: int
    id: str

    @property
    def door(self) -> str:
        """The beginning of the path of all its pages, to which its cookie is bound."""
        return DOOR + self.id

    def secret(self, keys: HubKeys) -> str:
        """What its pages send along with every change, and no other site can know."""
        return keys.sign(_SECRET, self.ws, self.id).hex()

    def replica(self, keys: HubKeys, stream: str, epoch: int) -> str:
        """Under which name its edits of a stream are made: nobody can take it before."""
        return "web" + keys.sign(_REPLICA, self.ws, self.id, stream, epoch).hex()[:24]

    def spelled(self, keys: HubKeys, purpose: str) -> str:
        """A text that proves this session: the cookie, or the key of the link."""
        return f"{self.ws}.{self.id}.{keys.sign(purpose, self.ws, self.id).hex()}"


def not_let_in() -> Rejection:
    """The one answer for no session, one that ended, and one of a token that was revoked."""
    return Rejection(401, "session", "this browser is not let in (any more)", hint=HOW_IN)


def make_link(connection: Connection[Any], caller: HubCaller, keys: HubKeys) -> dict[str, Any]:
    """A link that lets one browser in, once and soon, with the rights of the caller's token."""
    caller.need("reader", scope="read", person=True)
    connection.execute(
        "DELETE FROM hub.page_session WHERE ws = %s AND token = %s"
        " AND made_at < now() - make_interval(hours => %s)",
        (caller.ws, caller.token, 2 * SESSION_HOURS),
    )
    made = HubSession(caller.ws, uuid.uuid4().hex)
    connection.execute(
        "INSERT INTO hub.page_session (ws, session, token) VALUES (%s, %s, %s)",
        (caller.ws, made.id, caller.token),
    )
    return {"path": f"/enter?key={made.spelled(keys, _LINK)}", "minutes": LINK_MINUTES}


def open_link(connection: Connection[Any], keys: HubKeys, key: str) -> HubSession:
    """The session of a link that nobody has used."""
    found = _proven(keys, _LINK, key.encode("utf-8", "replace"))
    if found is not None:
        enter(connection, found.ws)
        done = connection.execute(
            "UPDATE hub.page_session SET opened_at = now() WHERE ws = %s AND session = %s"
            " AND opened_at IS NULL AND made_at > now() - make_interval(mins => %s)",
            (found.ws, found.id, LINK_MINUTES),
        )
        if done.rowcount:
            return found
    raise Rejection(403, "link", "this link was used already, or is too old", hint=HOW_IN)


def cookie_line(session: HubSession, keys: HubKeys, *, secure: bool) -> str:
    """The header that gives a browser its cookie."""
    value = session.spelled(keys, _COOKIE)
    kept = f"Max-Age={SESSION_HOURS * 3600}; HttpOnly; SameSite=Strict"
    return f"{COOKIE}={value}; Path={session.door}; {kept}{'; Secure' if secure else ''}"


def read_session(keys: HubKeys, cookies: Iterable[str], door: str) -> HubSession:
    """The session that a cookie proves, at its own door."""
    for each in read_cookies(cookies, COOKIE):
        found = _proven(keys, _COOKIE, each)
        if found is not None and hmac.compare_digest(found.id.encode(), door.encode("utf-8", "replace")):
            return found
    raise not_let_in()


def caller_of(connection: Connection[Any], session: HubSession) -> HubCaller:
    """Who has this session, with the rights that their token and role have now."""
    enter(connection, session.ws)
    row = connection.execute(
        "SELECT w.public, w.kind, t.token, m.member, m.name, m.role, t.scopes"
        " FROM hub.page_session s"
        " JOIN hub.token t ON t.ws = s.ws AND t.token = s.token"
        " JOIN hub.member m ON m.ws = t.ws AND m.member = t.member"
        " JOIN hub.workspace w ON w.ws = s.ws"
        " WHERE s.ws = %s AND s.session = %s AND s.left_at IS NULL"
        " AND s.opened_at > now() - make_interval(hours => %s)"
        " AND t.revoked_at IS NULL AND t.expires > now() AND m.removed_at IS NULL",
        (session.ws, session.id, SESSION_HOURS),
    ).fetchone()
    if row is None:
        raise not_let_in()
    public, kind, token, member, name, role, scopes = row
    return HubCaller(
        session.ws, str(public), kind, str(token), str(member), name, role, frozenset(scopes), None
    )


def leave(connection: Connection[Any], session: HubSession) -> None:
    """End a session."""
    connection.execute(
        "UPDATE hub.page_session SET left_at = now() WHERE ws = %s AND session = %s", (session.ws, session.id)
    )


def _proven(keys: HubKeys, purpose: str, spelled: bytes) -> HubSession | None:
    """The session that a text proves; the mac is looked at before anything in the database is."""
    parts = spelled.split(b".")
    if len(parts) != 3 or not parts[0].isdigit() or len(parts[0]) > 18:
        return None
    found = HubSession(int(parts[0]), parts[1].decode("ascii", "replace"))
    return found if hmac.compare_digest(found.spelled(keys, purpose).encode(), spelled) else None
