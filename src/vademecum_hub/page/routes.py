"""The page's routes on the hub: the login, views as HTML and JSON, and the actions of a person."""

from __future__ import annotations

import contextlib
import functools
import hmac
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from vademecum.errors import NotFound
from vademecum.interfaces.connections import identify
from vademecum.interfaces.web.headers import SAFE, is_from_here, is_prefetch
from vademecum.interfaces.web.pages import Pages
from vademecum_hub import limits
from vademecum_hub.change_events import open_stream
from vademecum_hub.page import activity_views, browser_sessions, document_views, edit_actions, member_views
from vademecum_hub.protocol import HubRequest
from vademecum_hub.rejections import Rejection, malformed

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI
    from starlette.requests import Request

    from vademecum_hub.page.browser_sessions import HubSession
    from vademecum_hub.protocol import Hub

SECRET = "Vade-Page"
_PAGES = Pages("vademecum_hub.page")
_LARGEST = 1 << 20  # bytes of a page's request
_TITLES = {401: "Not let in", 403: "Refused", 404: "Not found", 409: "Conflict", 422: "Cannot be read",
           429: "Try again", 503: "Try again", 507: "This place is full"}  # fmt: skip


class HubView(NamedTuple):
    """One view of the page: its path, its title in the menu, the function for its data, and its template."""

    path: str
    title: str
    data: Callable[[HubRequest], dict[str, Any]]
    template: str
    icon: str
    key: str = ""  # the key that opens the page after `g`
    menu: bool = True
    parent: str = ""
    group: str = ""
    snapshot: bool = False  # long queries: one snapshot of the database, in a queue of their own


VIEWS = (
    HubView("/activity", "Activity", activity_views.read_activity, "hub_activity.html", "audit", "a"),
    HubView("/documents", "Documents", document_views.list_documents, "hub_documents.html", "memories", "d"),
    HubView(
        "/search", "Search", document_views.search_documents, "hub_search.html", "search", "f",
        snapshot=True,
    ),
    HubView("/review", "Review", document_views.list_review, "hub_review.html", "review", "r"),
    HubView("/members", "Members", member_views.list_everybody, "hub_members.html", "user", "m"),
    HubView(
        "/document", "Document", document_views.show_document, "hub_document.html", "memories",
        menu=False, parent="/documents",
    ),
)  # fmt: skip
ACTIONS: dict[str, Callable[[HubRequest, HubSession], dict[str, Any]]] = {
    "/entries": edit_actions.edit_entry,
    "/conflicts": edit_actions.settle_conflict,
    "/vouches": edit_actions.vouch,
    "/rules": edit_actions.switch_rule,
    "/revoke": edit_actions.revoke,
    "/leave": edit_actions.leave,
}


def add_page(app: FastAPI, hub: Hub) -> None:
    """Add the page's routes to the hub's application."""
    at = "/~{session}"
    routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("GET", "/", _show_stranger),
        ("GET", "/enter", functools.partial(_enter, hub)),
        ("GET", "/static/{name:path}", _PAGES.send_static),
        ("GET", f"{at}/", functools.partial(_redirect_to_first_view, hub)),
        ("GET", f"{at}/api/v1/events", functools.partial(_stream_changes, hub)),
    ]
    for view in VIEWS:
        routes.append(
            ("GET", f"{at}{view.path}.json", functools.partial(_show_view, hub, view, as_json=True))
        )
        routes.append(("GET", f"{at}{view.path}", functools.partial(_show_view, hub, view, as_json=False)))
    routes += [
        ("POST", f"{at}/api/v1{path}", functools.partial(_run_action, hub, work))
        for path, work in ACTIONS.items()
    ]
    for method, path, work in routes:
        app.router.add_route(path, _guarded(work), methods=[method], include_in_schema=False)


def _guarded(work: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """Return a route's function wrapped so that rejections are rendered and security headers are added."""

    async def answer(request: Request) -> Response:
        try:
            response = await work(request)
        except NotFound as error:
            response = _render_rejection(request, Rejection(404, "absent", str(error)))
        except Rejection as refused:
            response = _render_rejection(request, refused)
        for name, value in SAFE.items():
            response.headers[name] = value
        response.headers.setdefault("cache-control", "no-store")
        return response

    return answer


# ------------------------------------------------------------------------------- the way in


async def _show_stranger(_: Request) -> Response:
    page = _PAGES.render("stranger.html", title="Vademecum", how=browser_sessions.HOW_IN)
    return HTMLResponse(page, 401)


async def _redirect_to_first_view(hub: Hub, request: Request) -> Response:
    return RedirectResponse(_session(hub, request).path_prefix + VIEWS[0].path, 303)


async def _enter(hub: Hub, request: Request) -> Response:
    """Open a session for a browser that brings a login link."""
    if is_prefetch(request.headers):  # a prefetching browser must not use the link up
        raise Rejection(403, "prefetch", "a link is opened by a person")
    hub.buckets.take(f"enter {request.client.host if request.client else ''}")

    def opened() -> HubSession:
        with hub.transaction() as connection:
            return browser_sessions.open_link(connection, hub.keys, request.query_params.get("key", ""))

    async with hub.turns.take("enter"):
        session = await run_in_threadpool(opened)
    to = session.path_prefix + VIEWS[0].path
    # A page, not a redirect: browsers send no SameSite=Strict cookie after a redirect from another site.
    page = _PAGES.render("enter.html", title="Vademecum", to=to, door=session.path_prefix)
    secure = request.scope.get("scheme") == "https"
    return HTMLResponse(
        page, headers={"set-cookie": browser_sessions.make_cookie_header(session, hub.keys, secure=secure)}
    )


def _session(hub: Hub, request: Request) -> HubSession:
    """Return the session of a request; reject a request that another website caused."""
    if not is_from_here(request.headers):
        raise browser_sessions.no_session()
    session = browser_sessions.read_session(
        hub.keys, request.headers.getlist("cookie"), request.path_params["session"]
    )
    identify(request.scope, f"page {session.id}")
    hub.buckets.take(f"page {session.id}")
    return session


# ------------------------------------------------------------------------------- views and actions


async def _run(
    hub: Hub,
    request: Request,
    session: HubSession,
    body: Any,
    work: Callable[[HubRequest], Any],
    *,
    snapshot: bool = False,
) -> Any:
    """Run `work` for the session's member in one transaction, when it is the workspace's turn.

    With `snapshot`, it also waits in the queue of long queries, and its queries see the same state of the
    database.
    """

    def hub_request() -> Any:
        with hub.transaction(snapshot=snapshot) as connection:
            caller = browser_sessions.read_caller(connection, session)
            return work(
                HubRequest(connection, caller, hub.keys, body, request.query_params, request.path_params)
            )

    async with contextlib.AsyncExitStack() as turn:
        if snapshot:
            await turn.enter_async_context(hub.searches.take(session.ws))
        await turn.enter_async_context(hub.turns.take(session.ws))
        return await run_in_threadpool(hub_request)


async def _show_view(hub: Hub, view: HubView, request: Request, *, as_json: bool) -> Response:
    session = _session(hub, request)

    def made(hub_request: HubRequest) -> tuple[dict[str, Any], dict[str, Any]]:
        return view.data(hub_request), _read_page_context(hub_request)

    data, page_context = await _run(hub, request, session, {}, made, snapshot=view.snapshot)
    if data.get("stale"):
        hub.catch_up.wake(session.ws)
    if as_json:
        return JSONResponse(data)
    page = await run_in_threadpool(
        lambda: _PAGES.render(
            view.template, title=view.title, view=view, data=data, query=request.query_params,
            menu=[each for each in VIEWS if each.menu], door=session.path_prefix,
            secret=session.secret(hub.keys),
            **page_context,
        )
    )  # fmt: skip
    return HTMLResponse(page)


def _read_page_context(hub_request: HubRequest) -> dict[str, Any]:
    """Return the values that every view needs: workspace, member, and the member's rights."""
    caller = hub_request.caller
    row = hub_request.connection.execute(
        "SELECT name FROM hub.workspace WHERE ws = %s", (caller.ws,)
    ).fetchone()
    writes = caller.kind == "team" and caller.person and "write" in caller.scopes
    return {
        "workspace": {"name": row[0] if row else "", "kind": caller.kind},
        "me": {"name": caller.name, "role": caller.role},
        "may": {
            "write": writes and caller.has_role("writer"),
            "review": writes and caller.has_role("editor"),
            "withdraw": writes,
            "own": "write" in caller.scopes and caller.has_role("owner"),
        },
        "read_only": edit_actions.READ_ONLY if caller.kind == "personal" else "",
    }


async def _run_action(
    hub: Hub, work: Callable[[HubRequest, HubSession], dict[str, Any]], request: Request
) -> Response:
    """Run an action; reject a request without the secret of the session's pages."""
    session = _session(hub, request)
    given = request.headers.get(SECRET, "").encode("utf-8", "replace")
    if not hmac.compare_digest(given, session.secret(hub.keys).encode()):
        raise Rejection(403, "secret", "this did not come from the page", hint="load the page again")
    if not request.headers.get("content-type", "").startswith("application/json"):
        raise Rejection(415, "json", "a change is sent as JSON")
    body = await limits.read_body(request)
    if len(body) > _LARGEST:
        raise Rejection(413, "large", "this is too much at once")
    try:
        fields = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise malformed("the body is not JSON") from error
    if not isinstance(fields, dict):
        raise malformed("the body is not a JSON object")
    done = await _run(hub, request, session, fields, lambda hub_request: work(hub_request, session))
    if done.pop("stale", False):  # the search index is updated a little later
        hub.catch_up.wake(session.ws)
    return JSONResponse(done)


async def _stream_changes(hub: Hub, request: Request) -> Response:
    """Return a response that streams the changes of the workspace to the page."""
    session = _session(hub, request)
    async with hub.turns.take(session.ws):
        caller = await run_in_threadpool(_read_caller, hub, session)
    return open_stream(hub, caller, session.id)


def _read_caller(hub: Hub, session: HubSession) -> Any:
    with hub.transaction() as connection:
        return browser_sessions.read_caller(connection, session)


def _render_rejection(request: Request, refused: Rejection) -> Response:
    """Return the response for a rejection: HTML for a browser that accepts it, else JSON."""
    title = _TITLES.get(refused.status, "Refused")
    problem = {
        "title": title,
        "status": refused.status,
        "detail": str(refused),
        "hint": refused.more.pop("hint", ""),
        "kind": refused.code,
        **refused.more,
    }
    headers = {"retry-after": str(problem["retry_after"])} if "retry_after" in problem else None
    path = request.scope.get("path", "")
    if "/api/" in path or path.endswith(".json") or "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(problem, refused.status, headers, media_type="application/problem+json")
    page = _PAGES.render("hub_problem.html", title=title, problem=problem)
    return HTMLResponse(page, refused.status, headers)
