"""`vade serve`: one process with the page, the API and `/mcp`, and the link by which a person gets in."""

from __future__ import annotations

import hashlib
import hmac
import logging
import os
from functools import partial
from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound, VadeError
from vademecum.interfaces.http.access import HOME, Gate, Visitor
from vademecum.interfaces.http.app import create_app, guarded
from vademecum.interfaces.http.events import FileChanges
from vademecum.interfaces.http.pool import MemoryPool
from vademecum.interfaces.http.site import Site
from vademecum.interfaces.mcp import http as over_http
from vademecum.memory import connect, tokens
from vademecum.memory.opening import actor
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Mapping
    from pathlib import Path

    from vademecum.interfaces.http.pool import Opener, Whose
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
    """Serve memory until told to stop; `ready` gets the address, and what makes a one-time link."""
    from vademecum.interfaces.http.views import VIEWS
    from vademecum.interfaces.mcp import sdk
    from vademecum.interfaces.mcp.server import tidy

    taken = over_http.listen(port)
    known = partial(find_token, home, for_mcp=_mcp_token(home))
    pool = MemoryPool(opener(options), lambda: _stamp(home.path / "config.toml"))
    changes = FileChanges(home.path, project)
    site = Site(pool, Gate(), known, VIEWS, taken.getsockname()[1], changes, mark_of(home))
    server, connections = sdk.make(options, tools="core", own_session=False)
    mcp = over_http.application(server)
    tidy(options)
    address = f"http://{over_http.HOST}:{site.port}"

    def link() -> str:
        return f"{address}/enter?key={site.gate.make_link()}"

    try:
        over_http.run_guarded(
            guarded(create_app(site, mcp=mcp), mcp=mcp), taken, ready=lambda: ready(f"{address}/", link)
        )
    finally:
        connections.close()


def mark_of(home: Home) -> str:
    """What a server says of its memory to whoever asks: nothing can be opened with it."""
    return hashlib.sha256(os.path.realpath(home.path).encode("utf-8", "surrogateescape")).hexdigest()[:16]


def find_server(port: int, home: Home) -> tuple[bool, str]:
    """Whether somebody listens on a port of this machine, and the address if they serve this memory."""
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
    """How memory is opened: for a person as their own word, for a token as an agent's."""

    def opened(whose: Whose) -> Memory:
        given = {**options, "client": CLIENT}
        if whose.project is not None:
            with connect(**given) as memory:
                given["project"] = _root_of(memory, whose.project)
        said_by = f"token:{whose.token}" if whose.token or not whose.person else actor()
        made = connect(**given, origin=Origin.USER if whose.person else Origin.AGENT, actor=said_by)
        found = made.caller.project
        if whose.project is not None and (found is None or found.id != whose.project):
            made.close()  # what is in the folder now is not what was asked for
            raise NotFound(
                f"the folder of project {whose.project} holds another one", hint="run `vade project list`"
            )
        return made

    return opened


def find_token(home: Home, shown: str, *, for_mcp: str = "") -> Visitor | None:
    """Who shows a token, unless it was revoked or has ended; that of `mcp --http` opens `/mcp` alone."""
    if for_mcp and hmac.compare_digest(shown.encode("utf-8", "replace"), for_mcp.encode()):
        return Visitor("token", "mcp", frozenset({"mcp"}))
    token = tokens.find(home, shown)
    return token and Visitor("token", token.name, frozenset(token.scopes), shown=shown)


def _mcp_token(home: Home) -> str:
    """The token of `mcp --http`; none where it cannot be read or made, as in a home that is read-only."""
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
    """What changes when the settings do."""
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino
