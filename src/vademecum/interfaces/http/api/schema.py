"""All calls of the API, and their description as OpenAPI 3.1."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi import APIRouter
from fastapi.openapi.utils import get_openapi

from vademecum.interfaces.http import access
from vademecum.interfaces.http.api import about, care, documents, find, records
from vademecum.interfaces.http.problems import TYPE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.interfaces.http.api.base import ApiOperation
    from vademecum.interfaces.present.shape import JsonShape

NOUNS = (records.calls, documents.calls, find.calls, care.calls, about.calls)
_PROBLEM = {
    "type": "object",
    "description": "What happened, and what to try (RFC 9457).",
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "hint": {"type": "string"},
        "kind": {"type": "string"},
    },
    "required": ["type", "title", "status", "detail", "hint", "kind"],
}
_TAG = {"description": "The version of what is shown.", "schema": {"type": "string"}}
_SECURITY = {
    "token": {"type": "http", "scheme": "bearer", "description": "A token of `vade token add`."},
    "session": {
        "type": "apiKey",
        "in": "cookie",
        "name": access.COOKIE,
        "description": "Only below a session's path.",
    },
    "page": {
        "type": "apiKey",
        "in": "header",
        "name": access.HEADER,
        "description": "The secret of the page.",
    },
}


def operations() -> Iterator[ApiOperation]:
    """Yield every declared call of the API."""
    for noun in NOUNS:
        yield from noun.operations


def make_router() -> APIRouter:
    """Return a router with the routes of all calls."""
    made = APIRouter()
    for noun in NOUNS:
        made.include_router(noun.router)
    return made


def describe_api() -> dict[str, Any]:
    """Return the API as an OpenAPI document, which holds nothing about this server or its memory."""
    made = get_openapi(
        title="Vademecum",
        version="1",
        openapi_version="3.1.0",
        summary="Long-term memory for AI agents, over HTTP on one's own machine.",
        routes=make_router().routes,
    )
    known: dict[str, Any] = {"problem": _PROBLEM}
    by_id = {each.id: each for each in operations()}
    for methods in made["paths"].values():
        for call_description in methods.values():
            _complete(call_description, by_id[call_description["operationId"]], known)
    schemas = made.setdefault("components", {}).setdefault("schemas", {})
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    schemas |= known
    made["components"]["securitySchemes"] = _SECURITY
    made["security"] = [{"token": []}, {"session": [], "page": []}]
    found: dict[str, Any] = _with_openapi_refs(made)
    return found


def _complete(description: dict[str, Any], operation: ApiOperation, known: dict[str, Any]) -> None:
    """Add a call's possible answers and permissions to the API's description."""
    success = {"description": operation.summary, "content": _json(_schema(operation.shapes, known))}
    if operation.path.endswith("/text") or operation.id == "get_record":
        success["headers"] = {"ETag": _TAG}
    waiting = "It waits until a person has decided."
    description["responses"] = {
        str(operation.status): success,
        "default": {"description": "A problem.", "content": {TYPE: {"schema": _ref("problem")}}},
    }
    if operation.scope == "write":
        description["responses"]["202"] = {
            "description": waiting,
            "content": {TYPE: {"schema": _ref("problem")}},
        }
    if operation.method == "GET":
        description["responses"]["304"] = {"description": "The version that If-None-Match names."}


def _schema(shapes: tuple[JsonShape, ...], known: dict[str, Any]) -> dict[str, Any]:
    found = [each.schema(known) for each in shapes]
    return found[0] if len(found) == 1 else {"anyOf": found}


def _json(schema: dict[str, Any]) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}


def _ref(name: str) -> dict[str, Any]:
    return {"$ref": f"#/components/schemas/{name}"}


def _with_openapi_refs(value: Any) -> Any:
    """Return a schema whose references point to where OpenAPI keeps definitions."""
    if isinstance(value, dict):
        return {
            name: each.replace("#/$defs/", "#/components/schemas/")
            if name == "$ref"
            else _with_openapi_refs(each)
            for name, each in value.items()
        }
    return [_with_openapi_refs(each) for each in value] if isinstance(value, list) else value
