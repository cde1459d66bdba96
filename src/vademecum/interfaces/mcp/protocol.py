"""The MCP protocol as this server speaks it: revisions, errors, the form of requests, and fixed answers.

This module imports almost nothing, because an agent's first request waits for it. It knows no memory and no
transport.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from vademecum import __version__
from vademecum.interfaces.tools import add_workspace_arguments, read_workspaces

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # revisions that begin with a handshake
STATELESS = ("2026-07-28",)  # revisions in which every request names its revision
_NAMESPACE = "io.modelcontextprotocol/"
VERSION_KEY = _NAMESPACE + "protocolVersion"
CAPABILITIES_KEY = _NAMESPACE + "clientCapabilities"
CLIENT_KEY = _NAMESPACE + "clientInfo"
_LEVEL_KEY = _NAMESPACE + "logLevel"

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
CONNECTION_CLOSED, UNSUPPORTED_VERSION = -32000, -32022

HOUR = 3_600_000
# How many milliseconds a client may cache a list; lists that change with memory are not cached.
CACHED = {
    "tools/list": HOUR,
    "prompts/list": HOUR,
    "resources/list": 0,
    "resources/read": 0,
    "resources/templates/list": 0,
    "server/discover": 0,
}
SERVER = {"name": "vademecum", "title": "Vademecum", "version": __version__}
_CAPABILITIES = {
    "prompts": {"listChanged": False},
    "resources": {"listChanged": False, "subscribe": False},
    "tools": {"listChanged": False},
}


class RpcError(Exception):
    """An error with which a request is answered."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    @property
    def body(self) -> dict[str, Any]:
        """The error as an object of JSON-RPC."""
        body = {"code": self.code, "message": self.message}
        return body if self.data is None else {**body, "data": self.data}


class Peer(NamedTuple):
    """The client that sent a request: its protocol revision, and whether it can ask its user."""

    version: str
    can_ask: bool = False
    client: Any = None

    @property
    def stateless(self) -> bool:
        """Whether the client's requests are independent of each other."""
        return self.version in STATELESS


# ---------------------------------------------------------------- the form of requests
# A shape is a type, a list with the shape of its items, or the fields of an object: `?` behind a name means
# that the field may be missing or null, `~` that it may be missing, and `*` stands for every name. Fields
# that are not named here are not checked.

_TOKEN = (str, int)
_OBJECT: dict[str, Any] = {}
_ICONS = [{"src": str}]
_CLIENT = {
    "name": str,
    "version": str,
    "title?": str,
    "description?": str,
    "websiteUrl?": str,
    "icons?": _ICONS,
}
_ABILITIES = {
    "elicitation?": {"form?": _OBJECT, "url?": _OBJECT},
    "experimental?": {"*": _OBJECT},
    "roots?": _OBJECT,
    "sampling?": {"context?": _OBJECT, "tools?": _OBJECT},
}
_META = {"_meta?": {"progressToken~": _TOKEN}}
_ENVELOPE = {
    "_meta": {
        "progressToken~": _TOKEN,
        VERSION_KEY: str,
        CAPABILITIES_KEY: _ABILITIES,
        CLIENT_KEY + "?": _CLIENT,
        _LEVEL_KEY + "?": str,
    }
}
PROGRESS = 2.0  # seconds between two progress messages
WORKING = "working"  # the text of a progress message; the remaining time is unknown
_PAGE = {"cursor?": str}
_AGAIN = {"requestState?": str, "inputResponses?": {"*": _OBJECT}}
_GREETING = {"protocolVersion": str, "capabilities": _ABILITIES, "clientInfo": _CLIENT}
_LISTS = dict.fromkeys(("tools/list", "prompts/list", "resources/list", "resources/templates/list"), _PAGE)
_CALL = {"name": str, "arguments?": _OBJECT}
_PROMPT = {"name": str, "arguments?": {"*": str}}
_SHAPES: dict[str, dict[str, Any]] = {
    "initialize": _GREETING,
    "ping": {},
    **_LISTS,
    "tools/call": _CALL,
    "prompts/get": _PROMPT,
    "resources/read": {"uri": str},
}
_STATELESS_SHAPES: dict[str, dict[str, Any]] = {
    "server/discover": {},
    **_LISTS,
    "tools/call": _CALL | _AGAIN,
    "prompts/get": _PROMPT | _AGAIN,
    "resources/read": {"uri": str} | _AGAIN,
}


def _fits(value: Any, shape: Any) -> bool:
    if isinstance(shape, dict):
        return isinstance(value, dict) and all(_field_fits(value, name, shape[name]) for name in shape)
    if isinstance(shape, list):
        return isinstance(value, list) and all(_fits(each, shape[0]) for each in value)
    return isinstance(value, shape)


def _field_fits(value: dict[str, Any], name: str, shape: Any) -> bool:
    if name == "*":
        return all(_fits(each, shape) for each in value.values())
    if name.endswith("~"):
        return name[:-1] not in value or _fits(value[name[:-1]], shape)
    found = value.get(name.removesuffix("?"))
    return name.endswith("?") if found is None else _fits(found, shape)


def check(method: str, params: dict[str, Any] | None, *, stateless: bool) -> None:
    """Raise RpcError for an unknown method, and for parameters that do not have the method's form."""
    shapes = _STATELESS_SHAPES if stateless else _SHAPES
    if method not in shapes:
        raise RpcError(METHOD_NOT_FOUND, "Method not found", method)
    if not _fits(params or {}, shapes[method] | (_ENVELOPE if stateless else _META)):
        raise malformed()


def malformed() -> RpcError:
    """Return the error for a request with parameters of the wrong form."""
    return RpcError(INVALID_PARAMS, "Invalid request parameters", "")


def has_envelope(params: dict[str, Any] | None) -> bool:
    """Return whether a request names its own protocol revision, as stateless requests do."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, dict) and VERSION_KEY in meta


def peer_from_envelope(params: dict[str, Any] | None) -> Peer:
    """Return the client of a stateless request, as the request itself describes it."""
    meta = (params or {}).get("_meta")
    if not isinstance(meta, dict):
        raise RpcError(
            INVALID_PARAMS,
            f"params._meta must be an object carrying the required {VERSION_KEY!r} and"
            f" {CAPABILITIES_KEY!r} envelope keys",
        )
    if missing := [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in meta]:
        raise RpcError(
            INVALID_PARAMS, f"params._meta is missing the required envelope key(s): {', '.join(missing)}"
        )
    version = meta[VERSION_KEY]
    if not isinstance(version, str):
        raise RpcError(INVALID_PARAMS, "the protocol-version envelope value must be a string")
    if version not in STATELESS:
        served = {"supported": list(STATELESS), "requested": version}
        raise RpcError(UNSUPPORTED_VERSION, "Unsupported protocol version", served)
    return Peer(version, can_ask(meta[CAPABILITIES_KEY]), meta.get(CLIENT_KEY))


def peer_from_handshake(params: dict[str, Any]) -> Peer:
    """Return the client that a handshake describes.

    A client of an unknown revision gets the newest revision with a handshake.
    """
    version = params["protocolVersion"]
    known = version if version in HANDSHAKE else HANDSHAKE[-1]
    return Peer(known, can_ask(params["capabilities"]), params["clientInfo"])


def can_ask(capabilities: Any) -> bool:
    """Return whether a client with these capabilities can show a form to its user."""
    asks = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(asks, dict) and (asks.get("form") is not None or asks.get("url") is None)


# ---------------------------------------------------------------- answers


def with_revision_fields(method: str, result: dict[str, Any], peer: Peer) -> dict[str, Any]:
    """Return a result with the further fields that the client's revision requires."""
    if not peer.stateless:
        return result
    result_fields = {"resultType": "complete", **result, "_meta": {_NAMESPACE + "serverInfo": SERVER}}
    if method in CACHED and result_fields["resultType"] == "complete":
        result_fields |= {"ttlMs": CACHED[method], "cacheScope": "private"}
    return result_fields


class Offer(NamedTuple):
    """The answers that need no access to memory, read from a file that `python -m tools.offer` writes."""

    instructions: str
    tools: list[dict[str, Any]]
    prompts: list[dict[str, Any]]
    templates: list[dict[str, Any]]
    joined: dict[str, dict[str, Any]]  # arguments of some tools that name a workspace
    home: str = ""  # the folder of memory, which records the joined workspaces

    def answer(self, method: str, peer: Peer) -> dict[str, Any] | None:
        """Return the answer to a request that needs no memory; None for all other requests."""
        if method == "tools/list":
            return {"tools": self.list_tools()}
        if method == "initialize":
            return {**self._self(), "protocolVersion": peer.version, "serverInfo": SERVER}
        if method == "server/discover":
            return {**self._self(), "supportedVersions": list(STATELESS)}
        if method == "prompts/list":
            return {"prompts": self.prompts}
        if method == "resources/templates/list":
            return {"resourceTemplates": self.templates}
        return {} if method == "ping" else None

    def list_tools(self) -> list[dict[str, Any]]:
        """Return the definitions of the tools.

        If workspaces were joined, tools have the arguments that name a workspace.
        """
        found = read_workspaces(self.home)
        return [self._with_workspaces(each, found) for each in self.tools] if found else self.tools

    def _with_workspaces(self, tool: dict[str, Any], found: tuple[tuple[str, str], ...]) -> dict[str, Any]:
        schema = add_workspace_arguments(tool["inputSchema"], self.joined.get(tool["name"], {}), found)
        return {**tool, "inputSchema": schema}

    def _self(self) -> dict[str, Any]:
        return {"capabilities": _CAPABILITIES, "instructions": self.instructions}


OFFER = os.path.join(os.path.dirname(__file__), "offer.json")


def home_of(given: str | os.PathLike[str] | None) -> str:
    """Return the path of the memory folder, found as `config` finds it.

    The path is not checked; opening memory reports a wrong path.
    """
    path = os.environ.get("VADE_HOME") or "~/.vade" if given is None else os.fspath(given)
    return os.path.abspath(os.path.expanduser(path))


def family_of(content: dict[str, Any], family: str) -> tuple[list[dict[str, Any]], dict[str, dict[str, Any]]]:
    """Return the tools of a family, and by tool the arguments that name a workspace."""
    ids = content["families"][family]
    joined = {content["tools"][id]["name"]: content["joined"][id] for id in ids if id in content["joined"]}
    return [content["tools"][id] for id in ids], joined


def read_offer(family: str, client: str = "", home: str = "") -> Offer:
    """Return the prepared answers for one set of tools.

    For a client whose installation includes instructions, the server's instructions are shorter.
    """
    with open(OFFER, "rb") as file:
        content = json.load(file)
    tools, joined = family_of(content, family)
    installed = content["installed"]
    instructions = (
        installed["instructions"] if client in installed["clients"] else content["instructions"][family]
    )
    return Offer(instructions, tools, content["prompts"][family], content["templates"], joined, home)
