"""The pages: each view's data as HTML, or as JSON at the same address with `.json` behind it."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from vademecum.interfaces.http import access
from vademecum.interfaces.http.guard import HOW_IN
from vademecum.interfaces.http.pool import Whose
from vademecum.interfaces.http.problems import HttpProblem, JsonAnswer, wants_html
from vademecum.interfaces.http.site import base_of, site_of, visitor_of, whose
from vademecum.interfaces.present.safe import clean_value
from vademecum.interfaces.web.headers import is_prefetch
from vademecum.interfaces.web.pages import render_template, send_static

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from starlette.datastructures import QueryParams

    from vademecum.interfaces.http.access import Visitor
    from vademecum.memory import Memory


class Ask(NamedTuple):
    """What a view is asked: by whom, of which memory, with which words in the address."""

    memory: Memory
    visitor: Visitor
    query: QueryParams  # `ask.query.get("q", "")`, `ask.query.getlist("tag")`
    path: Mapping[str, str]  # the parts of the address in braces: `ask.path["key"]`


class PageView(NamedTuple):
    """A page: where it is, what it is called in the menu, its data, and the template that shows them."""

    path: str
    title: str
    data: Callable[[Ask], dict[str, Any]]
    template: str
    menu: bool = True  # a page of one thing, such as a record, is in no menu,
    parent: str = ""  # but below this one
    icon: str = "memories"  # a symbol of static/icons.svg
    key: str = ""  # that opens it after `g`
    group: str = ""  # a heading of the menu, above the first of its group


def make_router(views: Sequence[PageView]) -> APIRouter:
    """Every view at its address and at its `.json`; the first one is the home page."""
    router = APIRouter(include_in_schema=False)
    router.add_api_route("/enter", enter, methods=["GET"])
    router.add_api_route("/static/{name:path}", send_static, methods=["GET"])
    for view in views:
        shown = functools.partial(_answer, view, as_json=False)
        data = functools.partial(_answer, view, as_json=True)
        router.add_api_route(f"{view.path}.json", _route(data), methods=["GET"])
        router.add_api_route(view.path, _route(shown), methods=["GET"])
    first = views[0].path

    async def begin(request: Request) -> Response:
        return await come_in(request) or RedirectResponse(_with_query(base_of(request) + first, request), 303)

    router.add_api_route("/", begin, methods=["GET"])
    return router


def _route(answer: Callable[[Request], Any]) -> Callable[[Request], Any]:
    async def page(request: Request) -> Response:
        made: Response = await answer(request)
        return made

    return page


async def _answer(view: PageView, request: Request, *, as_json: bool) -> Response:
    stranger = await come_in(request)
    if stranger is not None:
        return stranger
    visitor, site = visitor_of(request), site_of(request)
    if not as_json and visitor.session is None:
        raise HttpProblem(403, "pages are for people", hint=f"ask for {view.path}.json")
    if visitor.session is not None and request.query_params.get("project"):
        return await _into_project(request)

    def made(memory: Memory) -> dict[str, Any]:
        return view.data(Ask(memory, visitor, request.query_params, request.path_params))

    data = clean_value(await site.pool.run(whose(request), made))
    if as_json:
        return JsonAnswer(data)
    return HTMLResponse(render_page(view, data, request))


async def _into_project(request: Request) -> Response:
    """Lead to the same page below the path of the project that it asks for, where everything stays in it."""

    def served(memory: Memory) -> str:
        return memory.caller.project.id if memory.caller.project else ""

    project = request.query_params["project"]
    own = await site_of(request).pool.run(Whose(person=True), served)
    base = base_of(request, "" if project == own else project)
    return RedirectResponse(_with_query(base + quote(request.scope["path"]), request, but="project"), 303)


def _with_query(path: str, request: Request, but: str = "") -> str:
    query = urlencode([each for each in request.query_params.multi_items() if each[0] != but])
    return f"{path}?{query}" if query else path


async def come_in(request: Request) -> Response | None:
    """What whoever is not let in gets instead: a page that knows the way, if this browser does; or None."""
    if request.state.visitor is not None:
        return None
    if wants_html(request) and not request.state.door:
        return HTMLResponse(render_template("stranger.html", title="Vademecum", how=HOW_IN), 401)
    raise HttpProblem(401, "this needs to know who asks", hint=HOW_IN)


async def enter(request: Request) -> Response:
    """Let a browser in that brings a one-time link, and forget the link."""
    if is_prefetch(request.headers):  # a browser that only looks ahead must not use it up
        raise HttpProblem(403, "a link is opened by a person")
    site = site_of(request)
    session = site.gate.enter(request.query_params.get("key", ""))
    if session is None:
        raise HttpProblem(403, "this link was used already, or is too old", hint=HOW_IN)
    to = request.query_params.get("to", "/")
    to = session.door + (to if to.startswith("/") and not to.startswith("//") else "/")
    # A page, and no redirect: a cookie for this site alone is not sent along where another site led here.
    page = render_template("enter.html", title="Vademecum", to=to, door=session.door)
    return HTMLResponse(page, headers={"set-cookie": access.cookie_line(session)})


# ---------------------------------------------------------------- templates


def render_page(view: PageView, data: Mapping[str, Any], request: Request) -> str:
    """A view's data as a page."""
    return render_template(view.template, title=view.title, view=view, data=data, **page_parts(request))


def page_parts(request: Request) -> dict[str, Any]:
    """What every page of a session has: its menu, its door and its secret."""
    session = visitor_of(request).session
    return {
        "query": request.query_params,
        "menu": [each for each in site_of(request).views if each.menu],
        "door": base_of(request) if session else "",
        "project": request.state.project or "",
        "served": session.door if session else "",
        "secret": session.secret if session else "",
    }
