"""What one server consists of, and how a request gets at it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from vademecum.interfaces.http.access import PROJECT
from vademecum.interfaces.http.pool import Whose
from vademecum.interfaces.http.problems import HttpProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

    from vademecum.interfaces.http.access import Gate, Visitor
    from vademecum.interfaces.http.events import FileChanges
    from vademecum.interfaces.http.pages import PageView
    from vademecum.interfaces.http.pool import MemoryPool


@dataclass(frozen=True, slots=True)
class Site:
    """A server's memory, those who were let in, and its views."""

    pool: MemoryPool
    gate: Gate
    find_token: Callable[[str], Visitor | None]
    views: Sequence[PageView]
    port: int
    changes: FileChanges
    home: str = ""  # by which `vade open` knows a server of its own memory (`serve.mark_of`)

    def is_let_in(self, visitor: Visitor) -> bool:
        """Whether who was let in still is: a token can be revoked, and ends."""
        if visitor.session is not None:
            return self.gate.holds(visitor.session)
        found = self.find_token(visitor.shown)
        return found is not None and found.scopes == visitor.scopes


def site_of(request: Request) -> Site:
    """The server that a request came to."""
    found: Site = request.app.state.site
    return found


def visitor_of(request: Request) -> Visitor:
    """Who asks; nobody is refused."""
    found: Visitor | None = request.state.visitor
    if found is None:
        raise HttpProblem(401, "this needs to know who asks")
    return found


def base_of(request: Request, project: str | None = None) -> str:
    """What the addresses of a person's page begin with: the door, and a project that it was opened for."""
    named = request.state.project if project is None else project
    return str(request.state.door) + (f"{PROJECT}{quote(named, safe='')}" if named else "")


def whose(request: Request, *, deciding: bool = False) -> Whose:
    """Whose memory a request is about: of the project that it names, or of the one that is served.

    Who may decide through a token does so in the name of the person who made it.
    """
    visitor = visitor_of(request)
    opened, named = request.state.project, request.query_params.get("project") or None
    if opened is not None and named not in (None, opened):
        raise HttpProblem(400, f"this page is of project {opened}, and asks for project {named}")
    return Whose(
        person=visitor.kind == "person" or deciding,
        project=named if opened is None else opened,
        token=visitor.name,
    )
