"""The application: the API, the pages and `/mcp` on one port, behind one guard."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException

from vademecum import __version__
from vademecum.errors import VadeError
from vademecum.interfaces.http import events, pages
from vademecum.interfaces.http.api import schema
from vademecum.interfaces.http.api.base import ROOT
from vademecum.interfaces.http.guard import PageGuard
from vademecum.interfaces.http.problems import (
    HttpProblem,
    JsonAnswer,
    answer_problem,
    problem_of,
    render_problem,
    wants_html,
)
from vademecum.interfaces.mcp.http import HEADERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Mapping

    from starlette.responses import Response
    from starlette.types import ASGIApp

    from vademecum.interfaces.http.site import Site


def create_app(site: Site, *, mcp: Any = None) -> FastAPI:
    """The application without its guard; `mcp` is an application that answers at `/mcp`."""

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        async with contextlib.AsyncExitStack() as stack:
            if mcp is not None:
                await stack.enter_async_context(mcp.router.lifespan_context(mcp))
            async with anyio.create_task_group() as group:
                group.start_soon(site.changes.follow)
                yield
                site.changes.end()
                group.cancel_scope.cancel()
        site.pool.close()

    made = FastAPI(
        title="Vademecum",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    made.state.site = site
    for kind in (VadeError, HttpProblem, Exception):
        made.add_exception_handler(kind, _failed)
    made.add_exception_handler(HTTPException, _refused)
    made.add_exception_handler(RequestValidationError, _invalid)
    made.include_router(schema.make_router())
    made.include_router(events.make_router())
    made.add_api_route(f"{ROOT}/openapi.json", _described, methods=["GET"], include_in_schema=False)
    made.include_router(pages.make_router(site.views))
    return made


def guarded(application: FastAPI, *, mcp: ASGIApp | None = None) -> ASGIApp:
    """The same as it is served: nothing reaches it past the guard."""
    return PageGuard(application, application.state.site, mcp=mcp)


async def _described() -> Response:
    """The description of the API, which holds nothing of anybody."""
    return JsonAnswer(schema.describe_api())


async def _failed(request: Request, error: Exception) -> Response:
    told = problem_of(error)
    headers = HEADERS.get(told["status"]) if told["status"] == 401 else None
    return _told(request, told, headers)


async def _refused(request: Request, error: Exception) -> Response:
    """What the framework itself refuses: an address that is not there, a method that is not done."""
    assert isinstance(error, HTTPException)
    told = render_problem(error.status_code, f"{request.method} {request.scope['path']}: {error.detail}")
    return _told(request, told, error.headers)


async def _invalid(request: Request, error: Exception) -> Response:
    """A request whose parts are not what the API's description says."""
    assert isinstance(error, RequestValidationError)
    wrong = [
        {"where": ".".join(map(str, each["loc"])), "why": str(each["msg"])} for each in error.errors()[:20]
    ]
    said = "; ".join(f"{each['where']}: {each['why']}" for each in wrong)
    hint = "look at the API's description, /api/v1/openapi.json"
    return _told(request, render_problem(422, said, hint=hint, kind="UsageError", errors=wrong))


def _told(request: Request, told: dict[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """A problem: as a page with the menu to whoever was let in, as one without to another, or as data."""
    visitor = request.scope.get("state", {}).get("visitor")
    around = pages.page_parts(request) if visitor is not None and visitor.session is not None else None
    return answer_problem(told, html=wants_html(request), headers=headers, around=around)
