"""Server-sent events: what changed, as the file system tells it, to every page that listens.

The index comes after: a page that is told of a change reads the files.
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import anyio
import watchfiles
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from vademecum.interfaces.http.api.base import ROOT
from vademecum.interfaces.http.guard import HOW_IN
from vademecum.interfaces.http.problems import HttpProblem
from vademecum.interfaces.http.site import site_of, visitor_of, whose

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from anyio.streams.memory import MemoryObjectSendStream
    from starlette.responses import Response

    from vademecum.memory import Memory

_ALIVE = 15.0  # seconds after which a silent stream says that it is one
_WAITING = 256  # events that a reader may be behind; then it is told to look at everything
_STEP = 100  # milliseconds in which several changes are one
_RECORD = re.compile(r"memory/(\w+)/(?:[^/]+/)?records/([^/]+)\.md")
_JOURNAL = re.compile(r"memory/(\w+)/(?:[^/]+/)?journal/([^/]+)\.md")
_PINNED = re.compile(r"memory/(\w+)/(?:[^/]+/)?([^/]+\.md)")


def describe_change(path: str) -> dict[str, Any] | None:
    """What a file of the home is; None for what no page shows."""
    for kind, pattern in (("record", _RECORD), ("journal", _JOURNAL), ("pinned", _PINNED)):
        found = pattern.fullmatch(path)
        if found:
            return {"kind": kind, "scope": found[1], "key": found[2], "path": path}
    if path == "config.toml":
        return {"kind": "settings", "path": path}
    top, _, rest = path.partition("/")
    kinds = {"decisions": "review", "transcripts": "session", "sessions": "session"}
    return {"kind": kinds[top], "path": path} if top in kinds and not rest.startswith(".") else None


class FileChanges:
    """The watch over a home and a project's folder, kept up while somebody listens."""

    def __init__(self, home: Path, project: Path | None) -> None:
        self._home, self._project = home, project
        self._readers: set[MemoryObjectSendStream[dict[str, Any]]] = set()
        self._stop: anyio.Event | None = None

    async def listen(self) -> AsyncIterator[dict[str, Any] | None]:
        """Every change from now on; None at the beginning, and when there was none for a while."""
        send, receive = anyio.create_memory_object_stream[dict[str, Any]](_WAITING)
        self._readers.add(send)
        try:
            async with receive:
                yield None
                while True:
                    found: dict[str, Any] | None = None
                    with anyio.move_on_after(_ALIVE):
                        found = await receive.receive()
                    yield found
        finally:
            self._readers.discard(send)

    async def follow(self) -> None:
        """Watch until told to end."""
        self._stop = anyio.Event()
        places = [
            each for each in (self._home, self._project and self._project / ".vade") if each and each.is_dir()
        ]
        async for changed in watchfiles.awatch(
            *places, step=_STEP, debounce=4 * _STEP, stop_event=self._stop
        ):
            if self._readers:
                for told in _described(self._shown(path) for _, path in changed):
                    self._tell(told)

    def end(self) -> None:
        """End the watch within a step: a thread of its own is not cancelled, and would look for seconds."""
        if self._stop is not None:
            self._stop.set()

    def _shown(self, path: str) -> str:
        """A path below the home; a project's own records as if they lay there."""
        if self._project is not None and path.startswith(f"{self._project / '.vade'}/"):
            return f"memory/project/{path.removeprefix(f'{self._project}/.vade/')}"
        return path.removeprefix(f"{self._home}/")

    def _tell(self, told: dict[str, Any]) -> None:
        for each in [*self._readers]:
            try:
                each.send_nowait(told)
            except anyio.WouldBlock:
                self._readers.discard(each)  # it fell behind: its stream ends, and it begins anew
                each.close()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._readers.discard(each)


def _described(paths: Iterator[str]) -> list[dict[str, Any]]:
    found = {path: describe_change(path.replace("\\", "/")) for path in sorted(set(paths))}
    return [each for each in found.values() if each is not None]


def make_router() -> APIRouter:
    """The one route; it is not called for an answer, so it stands in no description."""
    router = APIRouter(include_in_schema=False)
    router.add_api_route(f"{ROOT}/events", follow_changes, methods=["GET"])
    return router


async def follow_changes(request: Request) -> Response:
    """Tell what changes, until the other side leaves.

    A browser cannot send a header with this; cookie and door are enough to be told names.
    """
    if request.state.visitor is None:
        raise HttpProblem(401, "this needs to know who asks", hint=HOW_IN)
    visitor, site = visitor_of(request), site_of(request)
    if not visitor.may("read"):
        raise HttpProblem(403, "this token has no scope read")
    seen = None if visitor.kind == "person" else await site.pool.run(whose(request), _in_sight)
    stream = _stream(site.changes, seen, lambda: site.is_let_in(visitor))
    return StreamingResponse(stream, media_type="text/event-stream")


def _in_sight(memory: Memory) -> tuple[str, ...]:
    """Where the files lie that an agent sees."""
    return memory.workspace.folders()


async def _stream(
    changes: FileChanges, seen: tuple[str, ...] | None, may_go_on: Callable[[], bool]
) -> AsyncIterator[bytes]:
    quiet = b"retry: 1000\nevent: hello\ndata: {}\n\n"  # said once it listens: nothing falls in between
    try:
        async for told in changes.listen():
            if not may_go_on():  # its token was revoked meanwhile
                return
            if told is None:
                yield quiet
                quiet = b": still here\n\n"
            elif seen is None or told["path"].startswith(seen):
                yield f"event: change\ndata: {json.dumps(told)}\n\n".encode()
    except anyio.EndOfStream:
        return
