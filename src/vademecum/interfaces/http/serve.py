"""Server for `vade serve`: one process with pages, API and `/mcp`, and a one-time link for a person."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound, VadeError
from vademecum.interfaces.http.access import HOME, Gate, Visitor
from vademecum.interfaces.http.app import create_app, with_guard
from vademecum.interfaces.http.file_events import FileChanges
from vademecum.interfaces.http.pool import MemoryPool
from vademecum.interfaces.http.site import Site
from vademecum.interfaces.mcp import http as over_http
from vademecum.memory import connect, tokens
from vademecum.memory.opening import actor
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from pathlib import Path

    from vademecum.interfaces.http.pool import MemoryOwner, Opener
    from vademecum.memory import Memory
    from vademecum.memory.values import Home

logger = logging.getLogger(__name__)
PORT = 8378
CLIENT = "vade-serve"


def run(
    options: Mapping[str, Any],
    *,
    home: Home,
    project: Path | None,
    port: int,
    ready: Callable[[str, Callable[[], str]], None],
) -> None:
    """Serve memory until stopped; call `ready` with the address and a function that makes one-time links."""
    from vademecum.interfaces.http.views import VIEWS
    from vademecum.interfaces.mcp import sdk
    from vademecum.interfaces.mcp.server import sweep_in_background

    listener = over_http.listen(port)
    known = partial(find_token, home, for_mcp=_mcp_token(home))
    pool = MemoryPool(opener(options), lambda: _stamp(home.path / "config.toml"))
    changes = FileChanges(home.path, project)
    site = Site(pool, Gate(), known, VIEWS, listener.getsockname()[1], changes, mark_of(home))
    server, connections = sdk.make(options, tools="core", own_session=False)
    mcp = over_http.application(server)
    sweep_in_background(options)
    address = f"http://{over_http.HOST}:{site.port}"

    def link() -> str:
        return f"{address}/enter?key={site.gate.make_link()}"

    try:
        over_http.run_server(
            with_guard(create_app(site, mcp=mcp), mcp=mcp), listener, ready=lambda: ready(f"{address}/", link)
        )
    finally:
        connections.close()


def mark_of(home: Home) -> str:
    """Return a hash that identifies a server's memory and gives no access to it."""
    return hashlib.sha256(os.path.realpath(home.path).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def find_server(port: int, home: Home) -> tuple[bool, str]:
    """Return whether a port of this machine is in use, and the address if its server has the same memory."""
    import http.client

    connection = http.client.HTTPConnection(over_http.HOST, port, timeout=2)
    try:
        connection.connect()
        connection.request("GET", "/memories.json")
        served = connection.getresponse().getheader(HOME)
    except http.client.HTTPException:
        return True, ""
    except OSError:
        return connection.sock is not None, ""
    finally:
        connection.close()
    return True, f"http://{over_http.HOST}:{port}" if served == mark_of(home) else ""


def opener(options: Mapping[str, Any]) -> Opener:
    """Return a function that opens memory for an owner: as a person, or for a token as an agent."""

    def open_memory(owner: MemoryOwner) -> Memory:
        own_options = {**options, "client": CLIENT}
        if owner.project is not None:
            with connect(**own_options) as memory:
                own_options["project"] = _root_of(memory, owner.project)
        actor_name = f"token:{owner.token}" if owner.token or not owner.person else actor()
        opened_memory = connect(
            **own_options, origin=Origin.USER if owner.person else Origin.AGENT, actor=actor_name
        )
        found = opened_memory.caller.project
        if owner.project is not None and (found is None or found.id != owner.project):
            opened_memory.close()  # the folder holds another project now
            raise NotFound(
                f"the folder of project {owner.project} holds another one", hint="run `vade project list`"
            )
        return opened_memory

    return open_memory


def find_token(home: Home, token_text: str, *, for_mcp: str = "") -> Visitor | None:
    """Return the visitor with a valid token; None for others. The MCP token opens only `/mcp`."""
    if for_mcp and hmac.compare_digest(token_text.encode("utf-8", "replace"), for_mcp.encode()):
        return Visitor("token", "mcp", frozenset({"mcp"}))
    token = tokens.find(home, token_text)
    return token and Visitor("token", token.name, frozenset(token.scopes), token=token_text)


def _mcp_token(home: Home) -> str:
    """Return the token of `mcp --http`; empty if its file cannot be read or created (read-only home)."""
    try:
        return over_http.token_of(home)
    except (VadeError, OSError) as error:
        logger.warning("no token for /mcp: %s", error)
        return ""


def _root_of(memory: Memory, project: str) -> Path:
    for each in memory.projects.list():
        if each.id == project and each.root:
            return each.root
    raise NotFound(f"no project {project} is known here", hint="run `vade project list`")


def _stamp(path: Path) -> Hashable:
    """Return a stamp that changes when a settings file does."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
