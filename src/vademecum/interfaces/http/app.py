"""The web application: the API, the pages and `/mcp` on one port, behind one guard."""

from __future__ import annotations

import contextlib
import functools
from typing import TYPE_CHECKING, Any

import anyio
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response

from vademecum import __version__
from vademecum.errors import VadeError
from vademecum.interfaces.http import file_events, pages
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

    from starlette.types import ASGIApp

    from vademecum.interfaces.http.site import Site


def create_app(site: Site, *, mcp: Any = None) -> FastAPI:
    """Return the application without its guard; `mcp` is an application that answers at `/mcp`."""

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

    app = FastAPI(
        title="Vademecum",
        version=__version__,
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
    )
    app.state.site = site
    for kind in (VadeError, HttpProblem, Exception):
        app.add_exception_handler(kind, _handle_error)
    app.add_exception_handler(HTTPException, _handle_http_error)
    app.add_exception_handler(RequestValidationError, _handle_validation_error)
    app.include_router(schema.make_router())
    app.include_router(file_events.make_router())
    app.add_api_route(f"{ROOT}/openapi.json", _api_description, methods=["GET"], include_in_schema=False)
    app.include_router(pages.make_router(site.views))
    return app


def with_guard(application: FastAPI, *, mcp: ASGIApp | None = None) -> ASGIApp:
    """Return the application behind the guard, which checks every request."""
    return PageGuard(application, application.state.site, mcp=mcp)


async def _api_description() -> Response:
    """Return the response with the API's description, which holds nobody's data and so needs no token."""
    return Response(_render_api_description(), media_type="application/json")


@functools.cache
def _render_api_description() -> bytes:
    """Return the API's description, made once: that takes a hundred times as long as an answer."""
    return bytes(JsonAnswer(schema.describe_api()).body)


async def _handle_error(request: Request, error: Exception) -> Response:
    problem = problem_of(error)
    headers = HEADERS.get(problem["status"]) if problem["status"] == 401 else None
    return _answer_problem(request, problem, headers)


async def _handle_http_error(request: Request, error: Exception) -> Response:
    """Return the response to an error of the framework: unknown address, or method not allowed."""
    assert isinstance(error, HTTPException)
    if error.status_code == 404 and wants_html(request):
        if not request.state.url_prefix:  # the page for strangers finds this browser's session
            stranger = await pages.sign_in_response(request)
            if stranger is not None:
                return stranger
        path = request.scope["path"]
        problem = render_problem(404, f"there is no page {path}", hint="choose a view of the menu")
        return _answer_problem(request, problem)
    problem = render_problem(error.status_code, f"{request.method} {request.scope['path']}: {error.detail}")
    return _answer_problem(request, problem, error.headers)


async def _handle_validation_error(request: Request, error: Exception) -> Response:
    """Return the response to a request that does not fit the API's description."""
    assert isinstance(error, RequestValidationError)
    wrong = [
        {"where": ".".join(map(str, each["loc"])), "why": str(each["msg"])} for each in error.errors()[:20]
    ]
    detail = "; ".join(f"{each['where']}: {each['why']}" for each in wrong)
    hint = "look at the API's description, /api/v1/openapi.json"
    return _answer_problem(request, render_problem(422, detail, hint=hint, kind="UsageError", errors=wrong))


def _answer_problem(
    request: Request, problem: dict[str, Any], headers: Mapping[str, str] | None = None
) -> Response:
    """Return the response for an error: JSON, or a page, with the menu if a person is signed in."""
    visitor = request.scope.get("state", {}).get("visitor")
    page_context = pages.page_parts(request) if visitor is not None and visitor.session is not None else None
    return answer_problem(problem, html=wants_html(request), headers=headers, page_context=page_context)
