"""The protocol as this server speaks it: revisions, errors, the shape of a request, what an answer carries.

Imports next to nothing: an agent's first request waits for it. Knows no memory and no transport.
"""

from __future__ import annotations

import json
import os
from typing import Any, NamedTuple

from vademecum import __version__
from vademecum.interfaces.tools import add_joined, read_joined

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")  # a greeting, then requests
STATELESS = ("2026-07-28",)  # every request says by itself what it speaks
_NAMESPACE = "io.modelcontextprotocol/"
VERSION_KEY = _NAMESPACE + "protocolVersion"
CAPABILITIES_KEY = _NAMESPACE + "clientCapabilities"
CLIENT_KEY = _NAMESPACE + "clientInfo"
_LEVEL_KEY = _NAMESPACE + "logLevel"

PARSE_ERROR, INVALID_REQUEST, METHOD_NOT_FOUND = -32700, -32600, -32601
INVALID_PARAMS, INTERNAL_ERROR = -32602, -32603
CONNECTION_CLOSED, UNSUPPORTED_VERSION = -32000, -32022

HOUR = 3_600_000
# What of the lists may be kept, and for how many milliseconds: what changes with memory is asked for anew.
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
    """A request that gets an error for an answer."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    @property
    def told(self) -> dict[str, Any]:
        """The error as it is sent."""
        made = {"code": self.code, "message": self.message}
        return made if self.data is None else {**made, "data": self.data}


class Peer(NamedTuple):
    """Who sent a request, as far as it says: the revision it speaks, and whether it asks its person."""

    version: str
    can_ask: bool = False
    client: Any = None

    @property
    def stateless(self) -> bool:
        """Whether nothing is known of what it sent before."""
        return self.version in STATELESS


# ---------------------------------------------------------------- what a request must look like
# A shape is a type, a list with the shape of its items, or the fields of an object: `?` behind a name means
# that it may be missing or null, `~` that it may be missing, and `*` stands for every name. What is not named
# here is not looked at.

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
PROGRESS = 2.0  # seconds between two words to who asked how a call goes
WORKING = "working"  # what they say; how much is left is not known
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
    """Refuse a method that is not served, and what does not look like its request."""
    shapes = _STATELESS_SHAPES if stateless else _SHAPES
    if method not in shapes:
        raise RpcError(METHOD_NOT_FOUND, "Method not found", method)
    if not _fits(params or {}, shapes[method] | (_ENVELOPE if stateless else _META)):
        raise malformed()


def malformed() -> RpcError:
    """The answer to a request that does not look like one."""
    return RpcError(INVALID_PARAMS, "Invalid request parameters", "")


def has_envelope(params: dict[str, Any] | None) -> bool:
    """Whether a request says by itself what it speaks."""
    meta = (params or {}).get("_meta")
    return isinstance(meta, dict) and VERSION_KEY in meta


def opened(params: dict[str, Any] | None) -> Peer:
    """Who sent a request of the stateless revision, from the request alone."""
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


def greeted(params: dict[str, Any]) -> Peer:
    """Who greets; a revision that is not known gets the newest that begins with a greeting."""
    version = params["protocolVersion"]
    known = version if version in HANDSHAKE else HANDSHAKE[-1]
    return Peer(known, can_ask(params["capabilities"]), params["clientInfo"])


def can_ask(capabilities: Any) -> bool:
    """Whether a client shows questions with a form to its person."""
    asks = capabilities.get("elicitation") if isinstance(capabilities, dict) else None
    return isinstance(asks, dict) and (asks.get("form") is not None or asks.get("url") is None)


# ---------------------------------------------------------------- what is answered


def finished(method: str, result: dict[str, Any], peer: Peer) -> dict[str, Any]:
    """A result with what its revision adds."""
    if not peer.stateless:
        return result
    made = {"resultType": "complete", **result, "_meta": {_NAMESPACE + "serverInfo": SERVER}}
    if method in CACHED and made["resultType"] == "complete":
        made |= {"ttlMs": CACHED[method], "cacheScope": "private"}
    return made


class Offer(NamedTuple):
    """What is answered without a look at memory, prepared: `python -m tools.offer` writes it."""

    instructions: str
    tools: list[dict[str, Any]]
    prompts: list[dict[str, Any]]
    templates: list[dict[str, Any]]
    joined: dict[str, dict[str, Any]]  # arguments of some tools that name a workspace
    home: str = ""  # in which it is written what was joined

    def answer(self, method: str, peer: Peer) -> dict[str, Any] | None:
        """The answer to a request that needs nothing else; None for all others."""
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
        """The tools; where workspaces were joined, with the arguments that name one."""
        found = read_joined(self.home)
        return [self._with_joined(each, found) for each in self.tools] if found else self.tools

    def _with_joined(self, tool: dict[str, Any], found: tuple[tuple[str, str], ...]) -> dict[str, Any]:
        schema = add_joined(tool["inputSchema"], self.joined.get(tool["name"], {}), found)
        return {**tool, "inputSchema": schema}

    def _self(self) -> dict[str, Any]:
        return {"capabilities": _CAPABILITIES, "instructions": self.instructions}


OFFER = os.path.join(os.path.dirname(__file__), "offer.json")


def home_of(given: str | os.PathLike[str] | None) -> str:
    """The folder of memory, as `config` finds it; one that is none is told by whoever opens it."""
    said = os.environ.get("VADE_HOME") or "~/.vade" if given is None else os.fspath(given)
    return os.path.abspath(os.path.expanduser(said))


def read_offer(family: str, client: str = "", home: str = "") -> Offer:
    """The prepared answers with one family of tools, for a client that may have been instructed."""
    with open(OFFER, "rb") as file:
        kept = json.load(file)
    tools = [kept["tools"][name] for name in kept["families"][family]]
    installed = kept["installed"]
    told = installed["instructions"] if client in installed["clients"] else kept["instructions"][family]
    return Offer(told, tools, kept["prompts"][family], kept["templates"], kept["joined"], home)
