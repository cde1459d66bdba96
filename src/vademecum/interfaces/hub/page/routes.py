"""The page's addresses on the hub: the way in, views as HTML and JSON, and what a person does there."""

from __future__ import annotations

import contextlib
import functools
import hmac
import json
from typing import TYPE_CHECKING, Any, NamedTuple

from starlette.concurrency import run_in_threadpool
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response

from vademecum.errors import NotFound
from vademecum.interfaces.hub import limits
from vademecum.interfaces.hub.events import open_stream
from vademecum.interfaces.hub.page import activity, editing, members, reading, sessions
from vademecum.interfaces.hub.rejections import Rejection, wrong
from vademecum.interfaces.hub.server import HubRequest
from vademecum.interfaces.web.headers import SAFE, is_from_here, is_prefetch
from vademecum.interfaces.web.pages import render_template, send_static

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from fastapi import FastAPI
    from starlette.requests import Request

    from vademecum.interfaces.hub.page.sessions import HubSession
    from vademecum.interfaces.hub.server import Hub

SECRET = "Vade-Page"
_LARGEST = 1 << 20  # bytes of what a page sends
_TITLES = {401: "Not let in", 403: "Refused", 404: "Not found", 409: "Conflict", 422: "Cannot be read",
           429: "Try again", 503: "Try again", 507: "This place is full"}  # fmt: skip


class HubView(NamedTuple):
    """A page: where it is, what it is called in the menu, its data and its template."""

    path: str
    title: str
    data: Callable[[HubRequest], dict[str, Any]]
    template: str
    icon: str
    key: str = ""  # that opens it after `g`
    menu: bool = True
    parent: str = ""
    group: str = ""
    snapshot: bool = False  # whether it asks much of one state of the database, in a turn of its own


VIEWS = (
    HubView("/activity", "Activity", activity.read_activity, "hub_activity.html", "audit", "a"),
    HubView("/documents", "Documents", reading.list_documents, "hub_documents.html", "memories", "d"),
    HubView(
        "/search", "Search", reading.search_documents, "hub_search.html", "search", "f",
        snapshot=True,
    ),
    HubView("/review", "Review", reading.list_review, "hub_review.html", "review", "r"),
    HubView("/members", "Members", members.list_everybody, "hub_members.html", "user", "m"),
    HubView(
        "/document", "Document", reading.show_document, "hub_document.html", "memories",
        menu=False, parent="/documents",
    ),
)  # fmt: skip
ACTIONS: dict[str, Callable[[HubRequest, HubSession], dict[str, Any]]] = {
    "/entries": editing.edit_entry,
    "/conflicts": editing.settle_conflict,
    "/vouches": editing.vouch,
    "/rules": editing.switch_rule,
    "/revoke": editing.revoke,
    "/leave": editing.leave,
}


def add_page(app: FastAPI, hub: Hub) -> None:
    """Add the page's routes to the hub's application."""
    at = "/~{session}"
    routes: list[tuple[str, str, Callable[[Request], Awaitable[Response]]]] = [
        ("GET", "/", _begin),
        ("GET", "/enter", functools.partial(_enter, hub)),
        ("GET", "/static/{name:path}", _static),
        ("GET", f"{at}/", functools.partial(_first, hub)),
        ("GET", f"{at}/api/v1/events", functools.partial(_follow, hub)),
    ]
    for view in VIEWS:
        routes.append(("GET", f"{at}{view.path}.json", functools.partial(_show, hub, view, as_json=True)))
        routes.append(("GET", f"{at}{view.path}", functools.partial(_show, hub, view, as_json=False)))
    routes += [
        ("POST", f"{at}/api/v1{path}", functools.partial(_do, hub, work)) for path, work in ACTIONS.items()
    ]
    for method, path, work in routes:
        app.router.add_route(path, _guarded(work), methods=[method], include_in_schema=False)


def _guarded(work: Callable[[Request], Awaitable[Response]]) -> Callable[[Request], Awaitable[Response]]:
    """A route with the checks and headers that all of them have."""

    async def answer(request: Request) -> Response:
        try:
            response = await work(request)
        except NotFound as error:
            response = _refused(request, Rejection(404, "absent", str(error)))
        except Rejection as refused:
            response = _refused(request, refused)
        for name, value in SAFE.items():
            response.headers[name] = value
        response.headers.setdefault("cache-control", "no-store")
        return response

    return answer


# ------------------------------------------------------------------------------- the way in


async def _static(request: Request) -> Response:
    return await send_static(request, request.path_params["name"])


async def _begin(_: Request) -> Response:
    page = render_template("stranger.html", title="Vademecum", how=sessions.HOW_IN)
    return HTMLResponse(page, 401)


async def _first(hub: Hub, request: Request) -> Response:
    return RedirectResponse(_session(hub, request).door + VIEWS[0].path, 303)


async def _enter(hub: Hub, request: Request) -> Response:
    """Let a browser in that brings a link."""
    if is_prefetch(request.headers):  # a browser that only looks ahead must not use it up
        raise Rejection(403, "prefetch", "a link is opened by a person")
    hub.buckets.take(f"enter {request.client.host if request.client else ''}")

    def opened() -> HubSession:
        with hub.transaction() as connection:
            return sessions.open_link(connection, hub.keys, request.query_params.get("key", ""))

    async with hub.turns.take("enter"):
        session = await run_in_threadpool(opened)
    to = session.door + VIEWS[0].path
    # A page, and no redirect: a cookie for this site alone is not sent along where another site led here.
    page = render_template("enter.html", title="Vademecum", to=to, door=session.door)
    secure = request.scope.get("scheme") == "https"
    return HTMLResponse(page, headers={"set-cookie": sessions.cookie_line(session, hub.keys, secure=secure)})


def _session(hub: Hub, request: Request) -> HubSession:
    """The session of a request, once it is certain that no other site set it off."""
    if not is_from_here(request.headers):
        raise sessions.not_let_in()
    session = sessions.read_session(
        hub.keys, request.headers.getlist("cookie"), request.path_params["session"]
    )
    hub.buckets.take(f"page {session.id}")
    return session


# ------------------------------------------------------------------------------- views and actions


async def _ask(
    hub: Hub,
    request: Request,
    session: HubSession,
    body: Any,
    work: Callable[[HubRequest], Any],
    *,
    snapshot: bool = False,
) -> Any:
    """Do something in the name of whoever has the session, in one transaction, when it is their turn."""

    def asked() -> Any:
        with hub.transaction(snapshot=snapshot) as connection:
            caller = sessions.caller_of(connection, session)
            return work(
                HubRequest(connection, caller, hub.keys, body, request.query_params, request.path_params)
            )

    async with contextlib.AsyncExitStack() as turn:
        if snapshot:
            await turn.enter_async_context(hub.searches.take(session.ws))
        await turn.enter_async_context(hub.turns.take(session.ws))
        return await run_in_threadpool(asked)


async def _show(hub: Hub, view: HubView, request: Request, *, as_json: bool) -> Response:
    session = _session(hub, request)

    def made(asked: HubRequest) -> tuple[dict[str, Any], dict[str, Any]]:
        return view.data(asked), _around(asked)

    data, around = await _ask(hub, request, session, {}, made, snapshot=view.snapshot)
    if data.get("stale"):
        hub.behind.wake(session.ws)
    if as_json:
        return JSONResponse(data)
    page = await run_in_threadpool(
        lambda: render_template(
            view.template, title=view.title, view=view, data=data, query=request.query_params,
            menu=[each for each in VIEWS if each.menu], door=session.door, secret=session.secret(hub.keys),
            **around,
        )
    )  # fmt: skip
    return HTMLResponse(page)


def _around(asked: HubRequest) -> dict[str, Any]:
    """What every page says: whose workspace it is, who looks at it, and what they may do."""
    caller = asked.caller
    row = asked.connection.execute("SELECT name FROM hub.workspace WHERE ws = %s", (caller.ws,)).fetchone()
    writes = caller.kind == "team" and caller.person and "write" in caller.scopes
    return {
        "workspace": {"name": row[0] if row else "", "kind": caller.kind},
        "me": {"name": caller.name, "role": caller.role},
        "may": {
            "write": writes and caller.at_least("writer"),
            "review": writes and caller.at_least("editor"),
            "withdraw": writes,
            "own": "write" in caller.scopes and caller.at_least("owner"),
        },
        "read_only": editing.READ_ONLY if caller.kind == "personal" else "",
    }


async def _do(
    hub: Hub, work: Callable[[HubRequest, HubSession], dict[str, Any]], request: Request
) -> Response:
    """One change; its page has to bring the secret that only it knows."""
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
        said = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise wrong("the body is not JSON") from error
    if not isinstance(said, dict):
        raise wrong("the body is not a JSON object")
    done = await _ask(hub, request, session, said, lambda asked: work(asked, session))
    if done.pop("stale", False):  # what was written is found a little later
        hub.behind.wake(session.ws)
    return JSONResponse(done)


async def _follow(hub: Hub, request: Request) -> Response:
    """Tell the page what changes."""
    session = _session(hub, request)
    async with hub.turns.take(session.ws):
        caller = await run_in_threadpool(_caller, hub, session)
    return open_stream(hub, caller, session.id)


def _caller(hub: Hub, session: HubSession) -> Any:
    with hub.transaction() as connection:
        return sessions.caller_of(connection, session)


def _refused(request: Request, refused: Rejection) -> Response:
    """A refusal as a page for a browser that asks for one, else as data."""
    title = _TITLES.get(refused.status, "Refused")
    told = {
        "title": title,
        "status": refused.status,
        "detail": str(refused),
        "hint": refused.more.pop("hint", ""),
        "kind": refused.code,
        **refused.more,
    }
    headers = {"retry-after": str(told["retry_after"])} if "retry_after" in told else None
    path = request.scope.get("path", "")
    if "/api/" in path or path.endswith(".json") or "text/html" not in request.headers.get("accept", ""):
        return JSONResponse(told, refused.status, headers, media_type="application/problem+json")
    page = render_template("hub_problem.html", title=title, problem=told)
    return HTMLResponse(page, refused.status, headers)
