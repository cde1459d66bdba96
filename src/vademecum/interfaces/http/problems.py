"""Errors as problem+json (RFC 9457) or as a page, with the same words and hints as the command line."""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Any

from starlette.responses import HTMLResponse, JSONResponse

from vademecum import errors
from vademecum.errors import PendingReview, VadeError
from vademecum.interfaces.present.safe import safe_text

if TYPE_CHECKING:
    from collections.abc import Mapping

    from starlette.requests import Request
    from starlette.responses import Response

logger = logging.getLogger(__name__)
TYPE = "application/problem+json"

# The status of the nearest base class counts.
_STATUS: Mapping[type[VadeError], int] = {
    errors.UsageError: 400,
    errors.ConfigError: 422,
    errors.NotFound: 404,
    errors.Ambiguous: 409,
    errors.Refused: 403,
    errors.PendingReview: 202,
    errors.Malformed: 422,
    errors.Collision: 409,
    errors.Conflict: 409,
    errors.Locked: 503,
    errors.IndexFailed: 503,
    errors.EmbedderFailed: 502,
    errors.ModelFailed: 502,
    errors.StorageFailed: 507,
    VadeError: 500,
}
_TITLES = {
    202: "Waiting for review",
    400: "The request is wrong",
    401: "Not let in",
    403: "Refused",
    404: "Not found",
    405: "Not done here",
    409: "Conflict",
    413: "Too large",
    415: "Not JSON",
    421: "Another address",
    422: "Cannot be read",
    428: "If-Match is missing",
    431: "Too large",
    500: "Something went wrong",
    502: "No answer from a model",
    503: "Try again",
    507: "The disk refused",
}


class HttpProblem(Exception):
    """An error of the HTTP interface: a status, a message, a hint, and more fields."""

    def __init__(self, status: int, message: str, *, hint: str = "", **more: Any) -> None:
        super().__init__(message)
        self.status, self.hint, self.more = status, hint, more


class JsonAnswer(JSONResponse):
    """A JSON response for any text: half a surrogate pair becomes a question mark instead of an error."""

    def render(self, content: Any) -> bytes:
        """Return the content as bytes of JSON."""
        return json.dumps(content, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def status_of(error: VadeError) -> int:
    """Return the HTTP status of an error."""
    return next(_STATUS[kind] for kind in type(error).__mro__ if kind in _STATUS)


def problem_of(error: Exception) -> dict[str, Any]:
    """Return an error as an object; an unexpected error reveals only its type."""
    if isinstance(error, HttpProblem):
        return render_problem(error.status, str(error), hint=error.hint, **error.more)
    if isinstance(error, PendingReview):
        fields = {"approval": error.approval, "outcome": "waiting"}
        return render_problem(202, str(error), hint=error.hint, kind=type(error).__name__, **fields)
    if isinstance(error, VadeError):
        return render_problem(status_of(error), str(error), hint=error.hint, kind=type(error).__name__)
    logger.error("a request failed", exc_info=error)
    message = f"something went wrong inside vade ({type(error).__name__})"
    return render_problem(500, message, hint="run `vade doctor`, and report it if it stays")


def render_problem(
    status: int, message: str, *, hint: str = "", kind: str = "", **more: Any
) -> dict[str, Any]:
    """Return the JSON object of an error: `type`, `title`, `status`, `detail`, and our `hint` and `kind`."""
    return {
        "type": "about:blank",
        "title": _TITLES.get(status, "Refused"),
        "status": status,
        "detail": safe_text(" ".join(message.split())),
        "hint": safe_text(hint),
        "kind": kind,
        **more,
    }


def answer_problem(
    problem: dict[str, Any],
    *,
    html: bool,
    headers: Mapping[str, str] | None = None,
    page_context: Mapping[str, Any] | None = None,
) -> Response:
    """Return the response for an error as HTML or JSON; `page_context` has values for the visitor's pages."""
    status = int(problem["status"])
    if html:
        from vademecum.interfaces.web.pages import render_template

        return HTMLResponse(
            render_template("problem.html", title=problem["title"], problem=problem, **(page_context or {})),
            status,
            headers,
        )
    return JsonAnswer(problem, status, headers, media_type=TYPE)


def wants_html(request: Request) -> bool:
    """Return whether a browser asks for a page, rather than a program for data."""
    path = request.scope.get("path", "")
    if path.startswith(("/api/", "/mcp")) or path.endswith(".json"):
        return False
    return "text/html" in request.headers.get("accept", "")
