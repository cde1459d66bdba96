"""The declaration of API calls: name, permissions and answer; and the code that all calls share."""

from __future__ import annotations

import base64
import hashlib
import inspect
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import APIRouter, Header, Query, Request
from fastapi.routing import APIRoute
from pydantic import BaseModel, ConfigDict
from starlette.responses import Response

from vademecum.errors import Conflict
from vademecum.interfaces.http.guard import HOW_IN, holds_secret
from vademecum.interfaces.http.problems import HttpProblem, JsonAnswer
from vademecum.interfaces.http.site import owner_of, site_of, visitor_of
from vademecum.interfaces.present.safe import clean_value
from vademecum.types import RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping

    from vademecum.interfaces.http.access import Visitor
    from vademecum.interfaces.present.shape import JsonShape
    from vademecum.memory import Memory

ROOT = "/api/v1"
SCOPE_FIELD = "x-vade-scope"  # the field of the description that names the required scope
LONGEST_KEY = 200
_CHANGES = ("PUT", "PATCH", "DELETE")

# Parameters that several calls share.
ScopeQuery = Annotated[Scope | None, Query(description="Only this scope; default: all visible.")]
TypeQuery = Annotated[RecordType | None, Query(description="Only records of this type.")]
LimitQuery = Annotated[int, Query(ge=1, le=200, description="How many at most.")]
CursorQuery = Annotated[
    str | None, Query(max_length=64, description="Where to go on: `next` of the answer before.")
]


class Body(BaseModel):
    """The body of a call; unknown fields are refused, because they would otherwise be ignored."""

    model_config = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True)
class ApiCall:
    """The context of one API call: its visitor, the visitor's memory, and the headers that name a version."""

    memory: Memory
    visitor: Visitor
    matches: str | None = None  # If-Match
    known: str | None = None  # If-None-Match
    done: Any = None  # the result of an interrupted attempt with the same key

    @property
    def is_person(self) -> bool:
        """Return whether a person makes the call, from a page."""
        return self.visitor.kind == "person"

    def match(self, text: str | None, *, yours: str | None = None) -> None:
        """Raise an error with `text` and `yours` unless the If-Match header names the version `text`."""
        if not self.holds("" if text is None else tag_of(text)):
            raise stale(text, yours=yours)

    def holds(self, tag: str) -> bool:
        """Return whether the caller's If-Match header names this ETag; raise an error without the header.

        `tag` is empty for a document that does not exist yet.
        """
        if self.matches is None:
            raise HttpProblem(
                428,
                "this changes something, and does not say which version of it",
                hint="send its ETag as If-Match",
            )
        return bool(tag) and _matches(self.matches, tag)


class ApiReply(NamedTuple):
    """An answer with its body, version and status."""

    body: Mapping[str, Any]
    tag: str = ""
    status: int = 0
    raw: bool = False  # a person's own text for an editor, from which nothing is removed


class ApiOperation(NamedTuple):
    """A declared API call: its address, permission, function and answer."""

    id: str
    method: str
    path: str
    scope: str
    shapes: tuple[JsonShape, ...]
    status: int
    summary: str
    tagged: bool  # changes a version that the caller must name
    once: bool  # accepts a key that makes a retried call happen once


class ScopedRoute(APIRoute):
    """A route that checks the visitor's permission before it reads the request's body."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        """Return the function that answers a request."""
        answer = super().get_route_handler()
        scope = str((self.openapi_extra or {})[SCOPE_FIELD])

        async def checked(request: Request) -> Response:
            check_scope(request, scope)
            return await answer(request)

        return checked


@dataclass
class Calls:
    """The API calls of one noun, such as records."""

    noun: str
    router: APIRouter = field(default_factory=lambda: APIRouter(route_class=ScopedRoute))
    operations: list[ApiOperation] = field(default_factory=list)

    def add(
        self,
        method: str,
        path: str,
        *shapes: JsonShape,
        scope: str,
        status: int = 200,
        tagged: bool = False,
        once: bool = False,
        name: str = "",
    ) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Return a decorator that declares a function as an API call.

        The function's first argument is the `ApiCall`; the others are the request's parameters.
        """

        def declare(do: Callable[..., Any]) -> Callable[..., Any]:
            summary = (do.__doc__ or "").partition("\n")[0].rstrip(".")
            made = ApiOperation(do.__name__, method, path, scope, shapes, status, summary, tagged, once)
            self.operations.append(made)
            self.router.add_api_route(
                ROOT + path,
                _endpoint(made, do, name or do.__name__),
                methods=[method],
                operation_id=made.id,
                summary=summary,
                description=inspect.getdoc(do) or "",
                tags=[self.noun],
                response_model=None,
                status_code=status,
                openapi_extra={SCOPE_FIELD: scope},
            )
            return do

        return declare


def _endpoint(operation: ApiOperation, do: Callable[..., Any], name: str) -> Callable[..., Any]:
    """Return the endpoint of a call, which handles permissions, the thread, versions and retries."""
    asked = _parameters(do)

    async def endpoint(**given: Any) -> Response:
        request: Request = given.pop("request")
        key, matches = given.pop("idempotency_key", None), given.pop("if_match", None)
        visitor = visitor_of(request)
        known = request.headers.get("if-none-match")
        given.pop("project", None)  # which memory it is was decided by it

        def made(memory: Memory) -> ApiReply:
            def perform(done: Any = None) -> ApiReply:
                found = do(ApiCall(memory, visitor, matches, known, done), **given)
                return found if isinstance(found, ApiReply) else ApiReply(found)

            if key is None:
                return perform()
            told = _plain(given)
            told |= told.pop("body", {})
            return ApiReply(memory.requests.once(key, name, told, do=lambda done: perform(done).body))

        reviewing = operation.scope == "review"
        return _rendered(
            await site_of(request).pool.run(owner_of(request, deciding=reviewing), made), operation, known
        )

    endpoint.__name__ = operation.id
    endpoint.__signature__ = _signature(operation, asked)  # type: ignore[attr-defined]  # read by FastAPI
    return endpoint


def check_scope(request: Request, scope: str) -> Visitor:
    """Return the visitor of a call if they have the permission `scope`; raise an error otherwise."""
    visitor = request.state.visitor
    if visitor is None:
        raise HttpProblem(401, "this needs to know who asks", hint=HOW_IN)
    if not holds_secret(visitor, request.headers):
        raise HttpProblem(403, "the secret of the page is missing", hint="send it as the header Vade-Page")
    found: Visitor = visitor_of(request)
    if not found.may(scope):
        raise HttpProblem(
            403, f"this token has no scope {scope}", hint=f"`vade token add NAME --scope {scope}`"
        )
    return found


def _rendered(reply: ApiReply, operation: ApiOperation, known: str | None) -> Response:
    headers = {"etag": reply.tag} if reply.tag else {}
    if reply.tag and known is not None and _matches(known, reply.tag) and operation.method == "GET":
        return Response(status_code=304, headers=headers)
    body = reply.body if reply.raw else clean_value(dict(reply.body))
    return JsonAnswer(body, reply.status or operation.status, headers)


def _parameters(do: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters of a call's function after its `ApiCall`, with their types."""
    space = vars(sys.modules[do.__module__])
    _, *rest = inspect.signature(do).parameters.values()
    return [
        each.replace(annotation=eval(each.annotation, dict(space)), kind=inspect.Parameter.KEYWORD_ONLY)
        for each in rest
    ]


def _signature(operation: ApiOperation, parameters: list[inspect.Parameter]) -> inspect.Signature:
    only = inspect.Parameter.KEYWORD_ONLY
    all_parameters = [inspect.Parameter("request", only, annotation=Request), *parameters]
    if operation.method in _CHANGES or operation.tagged:
        header = Header(
            description="The ETag of the version that this changes; 428 without it, 409 if stale."
        )
        all_parameters.append(
            inspect.Parameter("if_match", only, default=None, annotation=Annotated[str | None, header])
        )
    if operation.once:
        header = Header(min_length=1, max_length=200, description="Makes a retried call happen once.")
        annotation = Annotated[str | None, header]
        all_parameters.append(inspect.Parameter("idempotency_key", only, default=None, annotation=annotation))
    project = Query(min_length=1, max_length=200, description="The id of another project that is known here.")
    all_parameters.append(
        inspect.Parameter("project", only, default=None, annotation=Annotated[str | None, project])
    )
    return inspect.Signature(all_parameters)


def _plain(value: Any) -> Any:
    """Return the request's parameters as plain JSON values, by which a retried call is recognised."""
    if isinstance(value, BaseModel):
        return value.model_dump(mode="json")
    if isinstance(value, dict):
        return {name: _plain(each) for name, each in value.items()}
    return str(value) if isinstance(value, Scope | RecordType) else value


# ---------------------------------------------------------------- versions


def tag_of(text: str) -> str:
    """Return the ETag of a text: the hash of its bytes."""
    return f'"{hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()}"'


def stale(current: str | None, *, yours: str | None) -> HttpProblem:
    """Return the error for a stale version, with the current text and the caller's text."""
    now = None if current is None else {"text": current, "etag": tag_of(current)}
    return HttpProblem(
        409,
        "it was changed meanwhile; nothing was written",
        hint="look at both versions, and send the ETag of the current one",
        kind=Conflict.__name__,
        current=now,
        yours=yours,
    )


def _matches(given: str, tag: str) -> bool:
    """Return whether an If-Match header names this ETag, or any version (`*`)."""
    return any(each.strip() in ("*", tag) for each in given.split(","))


# ---------------------------------------------------------------- pages of a list


def read_cursor(cursor: str | None) -> int:
    """Return the position at which a list continues, from its cursor; 0 without a cursor."""
    if cursor is None:
        return 0
    try:
        kind, _, number = base64.urlsafe_b64decode(cursor.encode() + b"==").decode().partition(":")
        if kind == "at" and number.isascii() and number.isdecimal() and len(number) < 12:
            return int(number)
    except ValueError:
        pass
    raise HttpProblem(400, "this is no cursor of ours", hint="pass `next` of the answer before, or none")


def write_cursor(at: int, total: int) -> str | None:
    """Return the cursor of the next page; None at the end."""
    return base64.urlsafe_b64encode(f"at:{at}".encode()).decode().rstrip("=") if at < total else None
