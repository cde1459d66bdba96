"""Browser sessions of the page: a link that works once, then a cookie bound to one path and one token.

Links and cookies are MACs under the hub's key, so every server of the hub can check them, and neither the
database nor its backups hold them. The row of a session has its end. Token, member and role are read with
every request, so revoking the token ends the session at once.
"""

from __future__ import annotations

import hmac
import uuid
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.interfaces.web.headers import read_cookies
from vademecum_hub.authorization import HubCaller, HubKeys, enter
from vademecum_hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterable

    from psycopg import Connection

COOKIE = "vade-hub"
PATH_PREFIX = "/~"
LINK_MINUTES, SESSION_HOURS = 10, 12
HOW_IN = "run `vade hub open` on a machine that has joined this hub"
_LINK, _COOKIE, _SECRET, _REPLICA = "page link", "page cookie", "page secret", "page replica"


class HubSession(NamedTuple):
    """A browser's session on the page: its workspace and its id."""

    ws: int
    id: str

    @property
    def path_prefix(self) -> str:
        """The beginning of all paths of the session; its cookie is sent for these paths alone."""
        return PATH_PREFIX + self.id

    def secret(self, keys: HubKeys) -> str:
        """Return the secret that the session's pages send with every change, as a protection against CSRF."""
        return keys.sign(_SECRET, self.ws, self.id).hex()

    def replica(self, keys: HubKeys, stream: str, epoch: int) -> str:
        """Return the replica name for the session's edits of a stream, which nobody can guess."""
        return "web" + keys.sign(_REPLICA, self.ws, self.id, stream, epoch).hex()[:24]

    def sign_text(self, keys: HubKeys, purpose: str) -> str:
        """Return the session's text with a MAC.

        `purpose` decides whether this is the value of the session's cookie or the key of its link.
        """
        return f"{self.ws}.{self.id}.{keys.sign(purpose, self.ws, self.id).hex()}"


def no_session() -> Rejection:
    """Return the rejection of a request without a valid session, the same for every reason."""
    return Rejection(401, "session", "this browser is not let in (any more)", hint=HOW_IN)


def make_link(connection: Connection[Any], caller: HubCaller, keys: HubKeys) -> dict[str, Any]:
    """Create a link that opens one session within ten minutes, with the rights of the caller's token."""
    caller.require("reader", scope="read", person=True)
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
    return {"path": f"/enter?key={made.sign_text(keys, _LINK)}", "minutes": LINK_MINUTES}


def open_link(connection: Connection[Any], keys: HubKeys, key: str) -> HubSession:
    """Return the session that a link opens; reject a link that is used, old or invalid."""
    found = _verify(keys, _LINK, key.encode("utf-8", "replace"))
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


def make_cookie_header(session: HubSession, keys: HubKeys, *, secure: bool) -> str:
    """Return the value of the `Set-Cookie` header for a session."""
    value = session.sign_text(keys, _COOKIE)
    attributes = f"Max-Age={SESSION_HOURS * 3600}; HttpOnly; SameSite=Strict"
    return f"{COOKIE}={value}; Path={session.path_prefix}; {attributes}{'; Secure' if secure else ''}"


def read_session(keys: HubKeys, cookies: Iterable[str], path_prefix: str) -> HubSession:
    """Return the session of a valid cookie; the path must have the session's id, too."""
    for each in read_cookies(cookies, COOKIE):
        found = _verify(keys, _COOKIE, each)
        if found is not None and hmac.compare_digest(
            found.id.encode(), path_prefix.encode("utf-8", "replace")
        ):
            return found
    raise no_session()


def read_caller(connection: Connection[Any], session: HubSession) -> HubCaller:
    """Return the caller behind a session, with the token's and the member's current rights."""
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
        raise no_session()
    public, kind, token, member, name, role, scopes = row
    return HubCaller(
        session.ws, str(public), kind, str(token), str(member), name, role, frozenset(scopes), None
    )


def leave(connection: Connection[Any], session: HubSession) -> None:
    """End a session."""
    connection.execute(
        "UPDATE hub.page_session SET left_at = now() WHERE ws = %s AND session = %s", (session.ws, session.id)
    )


def _verify(keys: HubKeys, purpose: str, sign_text: bytes) -> HubSession | None:
    """Return the session in a text with a valid MAC, else None; the database is not read."""
    parts = sign_text.split(b".")
    if len(parts) != 3 or not parts[0].isdigit() or len(parts[0]) > 18:
        return None
    found = HubSession(int(parts[0]), parts[1].decode("ascii", "replace"))
    return found if hmac.compare_digest(found.sign_text(keys, purpose).encode(), sign_text) else None
