"""The real application in the test's own process: guard, routes and memory, without a socket."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

from fastapi.testclient import TestClient

from vademecum.interfaces.http.access import Gate
from vademecum.interfaces.http.app import create_app, with_guard
from vademecum.interfaces.http.file_events import FileChanges
from vademecum.interfaces.http.pool import MemoryPool
from vademecum.interfaces.http.serve import find_token, opener
from vademecum.interfaces.http.site import Site
from vademecum.interfaces.http.views import VIEWS
from vademecum.memory import connect, tokens
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    import httpx2
    from starlette.types import ASGIApp

PORT = 8378


class Place(NamedTuple):
    """An application over a home of its own."""

    site: Site
    application: ASGIApp
    home: Path
    folder: Path

    def token(self, *scopes: str, name: str = "", expires: str = "1h") -> str:
        """A new token, made by a person."""
        with connect(home=self.home, cwd=self.folder, origin=Origin.USER, actor="human:ada") as memory:
            return tokens.add(memory, name or f"t-{'-'.join(scopes)}", scopes=scopes, expires=expires)[1]

    def client(self, *scopes: str) -> Client:
        """A program with a token of these scopes."""
        return Client(self, {"Authorization": f"Bearer {self.token(*scopes)}"})

    def person(self) -> Client:
        """A page that a person has opened."""
        session = self.site.gate.enter(self.site.gate.make_link())
        assert session is not None
        headers = {"Cookie": f"vade-session={session.cookie}", "Vade-Page": session.secret}
        return Client(self, headers, session.url_prefix)


class Client:
    """Who calls the API."""

    def __init__(self, place: Place, headers: dict[str, str], door: str = "") -> None:
        self.http = TestClient(place.application, f"http://127.0.0.1:{PORT}", raise_server_exceptions=False)
        self.headers, self.door = headers, door

    def __call__(self, method: str, path: str, body: Any = None, **headers: str) -> httpx2.Response:
        sent = {**self.headers, **{name.replace("_", "-"): value for name, value in headers.items()}}
        content = None if body is None else json.dumps(body).encode()
        if body is not None:
            sent["Content-Type"] = "application/json"
        return self.http.request(method, f"{self.door}/api/v1{path}", content=content, headers=sent)


def made(top: Path) -> Place:
    """An application over a new home below a folder."""
    home, folder = top / "home", top / "project"
    folder.mkdir(parents=True)
    (folder / ".git").mkdir()
    with connect(home=home, cwd=folder) as memory:
        opened = memory.home
        opened.folder(create=True).close()
    pool = MemoryPool(opener({"home": home, "cwd": folder}))
    site = Site(pool, Gate(), lambda shown: find_token(opened, shown), VIEWS, PORT, FileChanges(home, folder))
    return Place(site, with_guard(create_app(site)), home, folder)


def said(place: Place, text: str) -> str:
    """A session in which a text was said; its id."""
    from vademecum.transcripts import Message, Role, Text

    with connect(home=place.home, cwd=place.folder, session="s1") as memory:
        log = memory.sessions.new(id="s1", name="talk")
        memory.sessions.record(log, [Message(Role.USER, (Text(text),))])
        return log.session
