"""Guard in front of every route: limits, checks of Host and Origin, sign-in, and safe headers.

Limits and checks are those of `mcp --http`.
"""

from __future__ import annotations

import contextlib
import hmac
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders

from vademecum.interfaces import connections
from vademecum.interfaces.http import access
from vademecum.interfaces.http.problems import answer_problem, render_problem
from vademecum.interfaces.mcp.http import HEADERS, RequestGuard
from vademecum.interfaces.mcp.http import PATH as MCP_PATH
from vademecum.interfaces.web.headers import SAFE, is_from_here

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from vademecum.interfaces.http.access import Visitor
    from vademecum.interfaces.http.site import Site

HOW_IN = "open the link that `vade serve` shows in a terminal, or send a token of `vade token add`"


class PageGuard(RequestGuard):
    """The ASGI application that lets in persons (by cookie and URL prefix) and programs (by token).

    It adds safe headers to every response.
    """

    def __init__(self, application: ASGIApp, site: Site, *, mcp: ASGIApp | None = None) -> None:
        super().__init__(self._route, port=site.port, token=None)
        self._pages, self._site, self._mcp = application, site, mcp

    async def _route(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request to `/mcp` (for tokens that may write), else to the application of pages and API."""
        if self._mcp is None or scope["type"] != "http" or scope["path"] != MCP_PATH:
            await self._pages(scope, receive, send)
            return
        visitor: Visitor | None = scope["state"]["visitor"]
        if visitor is not None and visitor.kind == "token" and visitor.scopes & {"mcp", "write"}:
            await self._mcp(scope, receive, send)
            return
        why = "MCP needs the token of the file mcp-token, or one with the scope write"
        await self.refuse(401 if visitor is None else 403, why)(scope, receive, send)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or refuse it."""

        async def safely(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SAFE.items():
                    headers[name] = value
                headers.setdefault("cache-control", "no-store")
                headers[access.HOME] = self._site.home
            await send(message)

        if scope["type"] == "http":
            scope = self._with_visitor(scope)
            async with contextlib.AsyncExitStack() as turn:
                if scope["state"]["visitor"] is None:
                    await turn.enter_async_context(connections.turn_of_stranger(scope))
                await super().__call__(scope, receive, safely)
        else:
            await super().__call__(scope, receive, send)

    def _with_visitor(self, scope: Scope) -> Scope:
        """Return the request with visitor and project moved from the path into its state."""
        headers = Headers(scope=scope)
        url_prefix, path = access.split_prefix(scope["path"])
        visitor = self._person(url_prefix, headers) if url_prefix else self._program(headers)
        project, path = access.split_project(path) if url_prefix else (None, path)
        if visitor is not None:
            connections.identify(scope, visitor.caller)
        state = {**scope.get("state", {}), "visitor": visitor, "url_prefix": url_prefix, "project": project}
        if not url_prefix:
            return {**scope, "state": state}
        raw = access.split_project(scope.get("raw_path", b"")[len(url_prefix) :].decode("latin-1"))[1]
        return {**scope, "state": state, "path": path or "/", "raw_path": raw.encode("latin-1") or b"/"}

    def _person(self, url_prefix: str, headers: Headers) -> Visitor | None:
        """Return the person whose session sent the request; None without one, or if another site sent it."""
        if not is_from_here(headers):
            return None
        session = self._site.gate.session_of(url_prefix, headers.getlist("cookie"))
        return None if session is None else access.Visitor("person", session=session)

    def _program(self, headers: Headers) -> Visitor | None:
        given = headers.getlist("authorization")
        kind, _, token = given[0].partition(" ") if len(given) == 1 else ("", "", "")
        return self._site.find_token(token.strip()) if kind.lower() == "bearer" else None

    def refuse(self, status: int, why: str) -> ASGIApp:
        """Return the response to a request that is refused, for this reason."""
        return answer_problem(render_problem(status, why), html=False, headers=HEADERS.get(status))


def holds_secret(visitor: Visitor, headers: Headers) -> bool:
    """Return whether an API call from a page has the page's secret; a token's call needs none."""
    if visitor.session is None:
        return True
    given = headers.getlist(access.HEADER)
    return len(given) == 1 and hmac.compare_digest(
        given[0].encode("utf-8", "replace"), visitor.session.secret.encode()
    )
