"""Authentication: a person with a one-time link, or a program with a token.

Cookies ignore ports: a browser sends a cookie for 127.0.0.1 to every server of this machine. So each session
has a random first path segment, its URL prefix (`/~…/`), to which its cookie is bound: a browser sends the
cookie only to a path with that prefix. API calls of a page also need the page's secret in a header. Sessions
live in this process only, so that nothing another program learns on this port later gives access.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from vademecum.interfaces.web.headers import read_cookies

if TYPE_CHECKING:
    from collections.abc import Iterable

SCOPES = ("read", "write", "review")
COOKIE = "vade-session"
HEADER = "Vade-Page"
HOME = "Vade-Home"  # the hash of a server's memory folder; it gives no access
PREFIX_START = "/~"
PROJECT = "/@"
_LINK_LASTS = 600.0  # seconds for which a one-time link is valid
_MOST_SESSIONS = 64  # with more sessions, the oldest ends

_ALL = frozenset(SCOPES)


@dataclass(frozen=True, slots=True)
class Visitor:
    """The sender of a request and its permissions.

    A person may do everything, a token only what its scopes allow.
    """

    kind: Literal["person", "token"]
    name: str = ""
    scopes: frozenset[str] = _ALL
    session: PageSession | None = None
    token: str = field(default="", repr=False)  # the token itself, for looking it up again

    @property
    def caller(self) -> str:
        """The name under which the visitor's connections are counted."""
        return f"{self.kind} {self.name if self.session is None else self.session.url_prefix}"

    def may(self, scope: str) -> bool:
        """Return whether the visitor has this permission; a token that may write or review may also read."""
        return scope in self.scopes or (scope == "read" and bool(self.scopes & {"write", "review"}))


@dataclass(frozen=True, slots=True)
class PageSession:
    """A browser's session: its URL prefix, the cookie bound to it, and the secret of its pages."""

    url_prefix: str = field(default_factory=lambda: PREFIX_START + secrets.token_urlsafe(16))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


class Gate:
    """The one-time links and the browser sessions, kept as long as this process lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[bytes, float] = {}
        self._sessions: dict[str, PageSession] = {}

    def make_link(self) -> str:
        """Return the secret of a one-time link, which lets a single browser in."""
        link = secrets.token_urlsafe(32)
        with self._lock:
            self._links[_digest(link)] = time.monotonic() + _LINK_LASTS
        return link

    def enter(self, link: str) -> PageSession | None:
        """Return a new session for an unused link; None for a used, expired or unknown one."""
        with self._lock:
            ends = self._links.pop(_digest(link), None)
            if ends is None or ends < time.monotonic():
                return None
            session = PageSession()
            self._sessions[session.url_prefix] = session
            for url_prefix in [*self._sessions][:-_MOST_SESSIONS]:
                del self._sessions[url_prefix]
            return session

    def leave(self, session: PageSession) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(session.url_prefix, None)

    def holds(self, session: PageSession) -> bool:
        """Return whether a session is still valid."""
        return self._sessions.get(session.url_prefix) is session

    def session_of(self, url_prefix: str, cookies: Iterable[str]) -> PageSession | None:
        """Return the session with this URL prefix if the cookies hold its cookie; else None."""
        session = self._sessions.get(url_prefix)
        values = [*read_cookies(cookies, COOKIE)]
        if session is None or not any(hmac.compare_digest(each, session.cookie.encode()) for each in values):
            return None
        return session


def split_prefix(path: str) -> tuple[str, str]:
    """Split a path into its session's URL prefix (empty if there is none) and the rest."""
    if not path.startswith(PREFIX_START):
        return "", path
    url_prefix, slash, rest = path[1:].partition("/")
    return f"/{url_prefix}", slash + rest


def split_project(path: str) -> tuple[str | None, str]:
    """Split a path without prefix into its project (`/@ID/…`; None if there is none) and the rest.

    The project is part of the path and not of the query, so that every link, form and script of a page stays
    in the project.
    """
    if not path.startswith(PROJECT):
        return None, path
    project, slash, rest = path.removeprefix(PROJECT).partition("/")
    return project, slash + rest


def cookie_line(session: PageSession) -> str:
    """Return the header that sets the session's cookie."""
    return f"{COOKIE}={session.cookie}; Path={session.url_prefix}; HttpOnly; SameSite=Strict"


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
