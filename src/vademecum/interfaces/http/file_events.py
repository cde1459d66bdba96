"""Server-sent events about file changes, for every page that listens.

The index is updated later than a file, so a page that gets an event reads the files themselves.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from typing import TYPE_CHECKING, Any

import anyio
import watchfiles
from fastapi import APIRouter, Request
from starlette.responses import StreamingResponse

from vademecum.interfaces.connections import STREAMS
from vademecum.interfaces.http.api.base import ROOT
from vademecum.interfaces.http.guard import HOW_IN
from vademecum.interfaces.http.problems import HttpProblem
from vademecum.interfaces.http.site import owner_of, site_of, visitor_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

    from anyio.streams.memory import MemoryObjectSendStream
    from starlette.responses import Response
    from starlette.types import Receive, Scope, Send

    from vademecum.memory import Memory

_ALIVE = 15.0  # seconds without a change after which a stream sends a keep-alive
_QUEUE_SIZE = 256  # events that a reader may be behind; then its stream ends and it reloads
_STEP = 100  # milliseconds in which several changes are combined
_RECORD = re.compile(r"memory/(\w+)/(?:[^/]+/)?records/([^/]+)\.md")
_JOURNAL = re.compile(r"memory/(\w+)/(?:[^/]+/)?journal/([^/]+)\.md")
_PINNED = re.compile(r"memory/(\w+)/(?:[^/]+/)?([^/]+\.md)")


def describe_change(path: str) -> dict[str, Any] | None:
    """Return kind and path (or key) of a changed file, as an event; None for a file that no page shows."""
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
    """A watch on a home and a project's folder, which sends the changes to everybody who listens."""

    def __init__(self, home: Path, project: Path | None) -> None:
        self._home, self._project = home, project
        self._readers: set[MemoryObjectSendStream[dict[str, Any]]] = set()
        self._streams: Counter[str] = Counter()  # the number of open streams by visitor
        self._stop: anyio.Event | None = None

    async def listen(self) -> AsyncIterator[dict[str, Any] | None]:
        """Yield changes from now on, and None as a sign of life at the beginning and in quiet times.

        A listener that falls behind gets no more changes, and its stream ends.
        """
        send, receive = anyio.create_memory_object_stream[dict[str, Any]](_QUEUE_SIZE)
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

    def open_stream(self, caller: str) -> None:
        """Count a stream of this visitor; refuse it if they have too many."""
        if self._streams[caller] >= STREAMS:
            raise HttpProblem(
                429, f"at most {STREAMS} of these streams may be open", hint="close another one"
            )
        self._streams[caller] += 1

    def close_stream(self, caller: str) -> None:
        """Count a stream that has ended."""
        self._streams[caller] -= 1
        if not self._streams[caller]:
            del self._streams[caller]

    async def follow(self) -> None:
        """Watch the folders, and send changes to the listeners, until `end` is called."""
        self._stop = anyio.Event()
        places = [
            each for each in (self._home, self._project and self._project / ".vade") if each and each.is_dir()
        ]
        async for changed in watchfiles.awatch(
            *places, step=_STEP, debounce=4 * _STEP, stop_event=self._stop
        ):
            if self._readers:
                for event in _describe_changes(self._home_path(path) for _, path in changed):
                    self._send(event)

    def end(self) -> None:
        """End the watch quickly: its thread cannot be cancelled, and would otherwise wait for seconds."""
        if self._stop is not None:
            self._stop.set()

    def _home_path(self, path: str) -> str:
        """Return a path relative to the home; a project's own records get a path as if they lay there."""
        if self._project is not None and path.startswith(f"{self._project / '.vade'}/"):
            return f"memory/project/{path.removeprefix(f'{self._project}/.vade/')}"
        return path.removeprefix(f"{self._home}/")

    def _send(self, event: dict[str, Any]) -> None:
        for each in [*self._readers]:
            try:
                each.send_nowait(event)
            except anyio.WouldBlock:
                self._readers.discard(each)  # the reader fell behind: its stream ends, and it connects again
                each.close()
            except (anyio.BrokenResourceError, anyio.ClosedResourceError):
                self._readers.discard(each)


def _describe_changes(paths: Iterator[str]) -> list[dict[str, Any]]:
    found = {path: describe_change(path.replace("\\", "/")) for path in sorted(set(paths))}
    return [each for each in found.values() if each is not None]


def make_router() -> APIRouter:
    """Return a router with the route of the events, which is no part of the API's description."""
    router = APIRouter(include_in_schema=False)
    router.add_api_route(f"{ROOT}/events", follow_changes, methods=["GET"])
    return router


async def follow_changes(request: Request) -> Response:
    """Stream changes until the client leaves or loses its permission.

    A browser cannot send a header with this request; cookie and URL prefix are enough, because only names are
    sent.
    """
    if request.state.visitor is None:
        raise HttpProblem(401, "this needs to know who asks", hint=HOW_IN)
    visitor, site = visitor_of(request), site_of(request)
    if not visitor.may("read"):
        raise HttpProblem(403, "this token has no scope read")
    folders = None if visitor.kind == "person" else await site.pool.run(owner_of(request), _visible_folders)
    site.changes.open_stream(visitor.caller)
    stream = _stream(site.changes, folders, lambda: site.is_let_in(visitor))
    return _CountedStream(site.changes, visitor.caller, stream)


class _CountedStream(StreamingResponse):
    """A stream of events that counts as open until its client has left."""

    def __init__(self, changes: FileChanges, caller: str, stream: AsyncIterator[bytes]) -> None:
        super().__init__(stream, media_type="text/event-stream")
        self._changes, self._caller = changes, caller

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send the stream."""
        try:
            await super().__call__(scope, receive, send)
        finally:
            self._changes.close_stream(self._caller)


def _visible_folders(memory: Memory) -> tuple[str, ...]:
    """Return the folders whose files an agent may see, as beginnings of paths."""
    return memory.workspace.folders()


async def _stream(
    changes: FileChanges, folders: tuple[str, ...] | None, may_go_on: Callable[[], bool]
) -> AsyncIterator[bytes]:
    # sent once the stream listens, so that no change is missed
    quiet = b"retry: 1000\nevent: hello\ndata: {}\n\n"
    try:
        async for event in changes.listen():
            if not may_go_on():  # its token was revoked
                return
            if event is None:
                yield quiet
                quiet = b": still here\n\n"
            elif folders is None or event["path"].startswith(folders):
                yield f"event: change\ndata: {json.dumps(event)}\n\n".encode()
    except anyio.EndOfStream:
        return
