"""Pages of the web interface: each view's data as HTML, or as JSON at the same address with `.json`."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from vademecum.interfaces.http import access
from vademecum.interfaces.http.guard import HOW_IN
from vademecum.interfaces.http.pool import MemoryOwner
from vademecum.interfaces.http.problems import HttpProblem, JsonAnswer, wants_html
from vademecum.interfaces.http.site import base_of, owner_of, site_of, visitor_of
from vademecum.interfaces.present.safe import clean_value
from vademecum.interfaces.web import labels
from vademecum.interfaces.web.headers import is_prefetch
from vademecum.interfaces.web.pages import render_template, send_static
from vademecum.types import Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.datastructures import QueryParams

    from vademecum.interfaces.http.access import Visitor
    from vademecum.memory import Memory


class ViewRequest(NamedTuple):
    """A request to a view: the visitor's memory, the visitor, the query, and the parts of the address."""

    memory: Memory
    visitor: Visitor
    query: QueryParams  # `ask.query.get("q", "")`, `ask.query.getlist("tag")`
    path: Mapping[str, str]  # the parts of the address in braces: `ask.path["key"]`


class PageView(NamedTuple):
    """A page: its address, title in the menu, data function, and template."""

    path: str
    title: str
    data: Callable[[ViewRequest], dict[str, Any]]
    template: str
    menu: bool = True  # False for a page of a single thing, such as a record,
    parent: str = ""  # which belongs to this page
    icon: str = "memories"  # a symbol of static/icons.svg
    key: str = ""  # the key that opens it after `g`
    group: str = ""  # a heading in the menu, above the first page of its group


def make_router(views: Sequence[PageView]) -> APIRouter:
    """Return a router with two routes for every view, HTML and `.json`; the first view is the home page."""
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/enter", enter, methods=["GET"])
    router.add_api_route("/static/{name:path}", send_static, methods=["GET"])
    for view in views:
        page_route = functools.partial(_answer, view, as_json=False)
        data = functools.partial(_answer, view, as_json=True)
        router.add_api_route(f"{view.path}.json", _route(data), methods=["GET"])
        router.add_api_route(view.path, _route(page_route), methods=["GET"])
    first = views[0].path

    async def begin(request: Request) -> Response:
        return await sign_in_response(request) or RedirectResponse(
            _with_query(base_of(request) + first, request), 303
        )

    router.add_api_route("/", begin, methods=["GET"])
    return router


def _route(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def page(request: Request) -> Response:
        made: Response = await answer(request)
        return made

    return page


async def _answer(view: PageView, request: Request, *, as_json: bool) -> Response:
    stranger = await sign_in_response(request)
    if stranger is not None:
        return stranger
    visitor, site = visitor_of(request), site_of(request)
    if not as_json and visitor.session is None:
        raise HttpProblem(403, "pages are for people", hint=f"ask for {view.path}.json")
    if visitor.session is not None and request.query_params.get("project"):
        return await _redirect_to_project(request)

    def made(memory: Memory) -> tuple[dict[str, Any], str]:
        data = view.data(ViewRequest(memory, visitor, request.query_params, request.path_params))
        project = memory.caller.project
        return data, project.root.name if project else ""

    data, name = clean_value(await site.pool.run(owner_of(request), made))
    if as_json:
        return JsonAnswer(data)
    return HTMLResponse(render_page(view, data, request, name=name))


async def _redirect_to_project(request: Request) -> Response:
    """Return a redirect to the same page below `/@ID/`, so that all its links stay in that project."""

    def served(memory: Memory) -> str:
        return memory.caller.project.id if memory.caller.project else ""

    project = request.query_params["project"]
    own = await site_of(request).pool.run(MemoryOwner(person=True), served)
    base = base_of(request, "" if project == own else project)
    return RedirectResponse(_with_query(base + quote(request.scope["path"]), request, but="project"), 303)


def _with_query(path: str, request: Request, but: str = "") -> str:
    query = urlencode([each for each in request.query_params.multi_items() if each[0] != but])
    return f"{path}?{query}" if query else path


async def sign_in_response(request: Request) -> Response | None:
    """Return None for a signed-in visitor, and a page with instructions for any other browser.

    Raise an error with status 401 if a page does not help: for a program, or an address with a URL prefix.
    """
    if request.state.visitor is not None:
        return None
    if wants_html(request) and not request.state.url_prefix:
        return HTMLResponse(render_template("stranger.html", title="Vademecum", how=HOW_IN), 401)
    raise HttpProblem(401, "this needs to know who asks", hint=HOW_IN)


async def enter(request: Request) -> Response:
    """Sign in a browser with a one-time link; the link cannot be used again."""
    if is_prefetch(request.headers):  # a browser's prefetch must not use up the link
        raise HttpProblem(403, "a link is opened by a person")
    site = site_of(request)
    session = site.gate.enter(request.query_params.get("key", ""))
    if session is None:
        raise HttpProblem(403, "this link was used already, or is too old", hint=HOW_IN)
    to = request.query_params.get("to", "/")
    to = session.url_prefix + (to if to.startswith("/") and not to.startswith("//") else "/")
    # A page instead of a redirect: a same-site cookie is not sent when another site led here.
    page = render_template("enter.html", title="Vademecum", to=to, door=session.url_prefix)
    return HTMLResponse(page, headers={"set-cookie": access.cookie_line(session)})


# ---------------------------------------------------------------- templates


def render_page(view: PageView, data: Mapping[str, Any], request: Request, *, name: str = "") -> str:
    """Return a page as HTML, from a view's data and the name of the project."""
    parts = page_parts(request, name)
    return render_template(view.template, title=view.title, view=view, data=data, **parts)


def page_parts(request: Request, name: str = "") -> dict[str, Any]:
    """Return the values that every page of a session needs: its menu, its URL prefix and its secret."""
    session = visitor_of(request).session
    return {
        "query": request.query_params,
        "menu": [each for each in site_of(request).views if each.menu],
        "door": base_of(request) if session else "",
        "project": request.state.project or "",
        "served": session.url_prefix if session else "",
        "secret": session.secret if session else "",
        "site": {
            "name": name,
            "scopes": labels.SCOPES,
            "types": labels.TYPES,
            "places": {each: label for each, label in labels.SCOPES.items() if each != Scope.SESSION},
        },
    }
