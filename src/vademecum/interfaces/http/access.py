"""Who asks: a person who came by a one-time link, or a program that shows a token.

Cookies do not know ports: what a browser keeps for 127.0.0.1 it also sends to every other server of this
machine. So a session has a door, a random first part of the path (`/~…/`), to which its cookie is bound: a
browser sends the cookie to nobody who does not know that path. Calls of the API need the page's secret as a
header on top of that. Sessions live in this process alone: what another program could learn on this port
after the server has ended opens nothing.
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
HOME = "Vade-Home"  # which memory a server has, as a hash: it opens nothing
DOOR = "/~"
PROJECT = "/@"
_LINK_LASTS = 600.0  # seconds that a one-time link waits to be used
_MOST_SESSIONS = 64  # the oldest goes when there are more

_ALL = frozenset(SCOPES)


@dataclass(frozen=True, slots=True)
class Visitor:
    """Who asks, and what they may: a person may everything, a token what its scopes say."""

    kind: Literal["person", "token"]
    name: str = ""
    scopes: frozenset[str] = _ALL
    session: PageSession | None = None
    shown: str = field(default="", repr=False)  # the token itself, to look it up again

    def may(self, scope: str) -> bool:
        """Whether this is within their scopes; whoever may write or review may read as well."""
        return scope in self.scopes or (scope == "read" and bool(self.scopes & {"write", "review"}))


@dataclass(frozen=True, slots=True)
class PageSession:
    """One browser that was let in: its door, the cookie that goes with it, and the secret of its pages."""

    door: str = field(default_factory=lambda: DOOR + secrets.token_urlsafe(16))
    cookie: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)


class Gate:
    """The links that were made and the browsers that were let in, for as long as this process lives."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._links: dict[bytes, float] = {}
        self._sessions: dict[str, PageSession] = {}

    def make_link(self) -> str:
        """A secret that lets one browser in, once."""
        made = secrets.token_urlsafe(32)
        with self._lock:
            self._links[_digest(made)] = time.monotonic() + _LINK_LASTS
        return made

    def enter(self, link: str) -> PageSession | None:
        """A new session for whoever brings a link that was not used yet."""
        with self._lock:
            ends = self._links.pop(_digest(link), None)
            if ends is None or ends < time.monotonic():
                return None
            made = PageSession()
            self._sessions[made.door] = made
            for door in [*self._sessions][:-_MOST_SESSIONS]:
                del self._sessions[door]
            return made

    def leave(self, session: PageSession) -> None:
        """End a session."""
        with self._lock:
            self._sessions.pop(session.door, None)

    def holds(self, session: PageSession) -> bool:
        """Whether a session goes on."""
        return self._sessions.get(session.door) is session

    def session_of(self, door: str, cookies: Iterable[str]) -> PageSession | None:
        """The session of a door, for whoever brings its cookie."""
        session = self._sessions.get(door)
        held = [*read_cookies(cookies, COOKIE)]
        if session is None or not any(hmac.compare_digest(each, session.cookie.encode()) for each in held):
            return None
        return session


def split_door(path: str) -> tuple[str, str]:
    """The door that a path begins with, if any, and the rest."""
    if not path.startswith(DOOR):
        return "", path
    door, slash, rest = path[1:].partition("/")
    return f"/{door}", slash + rest


def split_project(path: str) -> tuple[str | None, str]:
    """The project that the path behind a door begins with (`/@ID/…`), if any, and the rest.

    It is part of the path, and no word of the query: every link, form and script of a page stays in it.
    """
    if not path.startswith(PROJECT):
        return None, path
    project, slash, rest = path.removeprefix(PROJECT).partition("/")
    return project, slash + rest


def cookie_line(session: PageSession) -> str:
    """The header that gives a browser its cookie."""
    return f"{COOKIE}={session.cookie}; Path={session.door}; HttpOnly; SameSite=Strict"


def _digest(secret: str) -> bytes:
    return hashlib.sha256(secret.encode("utf-8", "replace")).digest()
