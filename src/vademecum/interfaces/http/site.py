"""The parts of one server (memory, visitors, views), and functions that find them from a request."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import quote

from vademecum.interfaces.http.access import PROJECT
from vademecum.interfaces.http.pool import MemoryOwner
from vademecum.interfaces.http.problems import HttpProblem

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from starlette.requests import Request

    from vademecum.interfaces.http.access import Gate, Visitor
    from vademecum.interfaces.http.file_events import FileChanges
    from vademecum.interfaces.http.pages import PageView
    from vademecum.interfaces.http.pool import MemoryPool


@dataclass(frozen=True, slots=True)
class Site:
    """A server's memory, its signed-in visitors, and its views."""

    pool: MemoryPool
    gate: Gate
    find_token: Callable[[str], Visitor | None]
    views: Sequence[PageView]
    port: int
    changes: FileChanges
    home: str = ""  # by which `vade open` recognises a server of its own memory (`serve.mark_of`)

    def is_let_in(self, visitor: Visitor) -> bool:
        """Return whether a visitor is still allowed in: a token may have been revoked or have expired."""
        if visitor.session is not None:
            return self.gate.holds(visitor.session)
        found = self.find_token(visitor.token)
        return found is not None and found.scopes == visitor.scopes


def site_of(request: Request) -> Site:
    """Return the server's parts for a request."""
    found: Site = request.app.state.site
    return found


def visitor_of(request: Request) -> Visitor:
    """Return the visitor of a request; raise an error if there is none."""
    found: Visitor | None = request.state.visitor
    if found is None:
        raise HttpProblem(401, "this needs to know who asks")
    return found


def base_of(request: Request, project: str | None = None) -> str:
    """Return the beginning of a page's addresses: the URL prefix, and the project if there is one.

    `project` replaces the project of the request; '' means the served project.
    """
    named = request.state.project if project is None else project
    return str(request.state.url_prefix) + (f"{PROJECT}{quote(named, safe='')}" if named else "")


def owner_of(request: Request, *, deciding: bool = False) -> MemoryOwner:
    """Return the owner of the memory that a request needs: of the named project, or the served one.

    With `deciding`, the owner is a person: a token that may decide does so for the person who created it.
    """
    visitor = visitor_of(request)
    path_project, query_project = request.state.project, request.query_params.get("project") or None
    if path_project is not None and query_project not in (None, path_project):
        raise HttpProblem(
            400, f"this page is of project {path_project}, and asks for project {query_project}"
        )
    return MemoryOwner(
        person=visitor.kind == "person" or deciding,
        project=query_project if path_project is None else path_project,
        token=visitor.name,
    )
