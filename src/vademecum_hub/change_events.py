"""Server-sent events that tell machines and pages which streams of their workspace have new facts.

Each second one task reads the newest sequence numbers of all watched streams, through one connection. It also
ends the events for revoked tokens.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from starlette.concurrency import run_in_threadpool
from starlette.responses import StreamingResponse

from vademecum.interfaces.connections import STREAMS
from vademecum_hub.authorization import enter
from vademecum_hub.limits import busy
from vademecum_hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import Connection

    from vademecum_hub.authorization import HubCaller
    from vademecum_hub.protocol import Hub

MOST, MOST_OF_ALL = 32, 400  # open streams of a workspace, and of a server
EVERY = 1.0  # seconds between two reads
_ALIVE = 15  # reads without a change after which a comment keeps the connection alive
_BEHIND = 64  # queued changes of a slow listener; then its connection ends, and the client connects again
_LOG = logging.getLogger("vademecum.hub")


@dataclass(eq=False, slots=True)
class HubListener:
    """An open connection that receives the changes of a workspace."""

    caller: HubCaller
    session: str  # of a page; empty for a machine
    queue: asyncio.Queue[dict[str, Any] | None] = field(default_factory=lambda: asyncio.Queue(_BEHIND))

    def notify(self, change: dict[str, Any] | None) -> None:
        """Queue a change for the listener, or None to end the listener; a full queue ends it, too."""
        try:
            self.queue.put_nowait(change)
        except asyncio.QueueFull:
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(None)


class HubChanges:
    """The listeners of this server, and the task that reads the streams' newest numbers for them."""

    def __init__(self) -> None:
        self._listeners: set[HubListener] = set()
        self._heads: dict[int, dict[str, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, hub: Hub, caller: HubCaller, session: str) -> HubListener:
        """Add and return a listener for this caller; reject it when there are too many listeners."""
        own = [each for each in self._listeners if each.caller.ws == caller.ws]
        same = sum((each.caller.token, each.session) == (caller.token, session) for each in own)
        if same >= STREAMS:
            raise busy("this token or page has too many open event streams already", seconds=30)
        if len(own) >= MOST or len(self._listeners) >= MOST_OF_ALL:
            raise busy("too many listen to this workspace already", seconds=30)
        listener = HubListener(caller, session)
        self._listeners.add(listener)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow(hub))
        return listener

    async def wait_for_heads(self, hub: Hub, listener: HubListener) -> None:
        """Wait until the newest numbers of the workspace's streams are known.

        Only from then on can a new fact be noticed as a change.
        """
        ws = listener.caller.ws
        while ws not in self._heads:
            try:
                heads, _ = await run_in_threadpool(self._read_heads, hub, [listener])
                self._heads.setdefault(ws, heads[ws])
            except Rejection:  # the database is away
                await asyncio.sleep(EVERY)

    def remove(self, listener: HubListener) -> None:
        """Remove a listener, and forget workspaces that nobody listens to any more."""
        self._listeners.discard(listener)
        listened = {each.caller.ws for each in self._listeners}
        self._heads = {ws: heads for ws, heads in self._heads.items() if ws in listened}

    async def _follow(self, hub: Hub) -> None:
        """Read the newest numbers each second and notify the listeners, until there are no listeners."""
        while self._listeners:
            with contextlib.suppress(Rejection):  # the database is away; the next round reads again
                found = await run_in_threadpool(self._read_heads, hub, list(self._listeners))
                self._notify(*found)
            await asyncio.sleep(EVERY)

    def _read_heads(
        self, hub: Hub, listeners: list[HubListener]
    ) -> tuple[dict[int, dict[str, int]], list[HubListener]]:
        """Return the newest number of each stream by workspace, and the listeners whose access has ended."""
        heads, ended = {}, []
        with hub.transaction() as connection:
            for ws in sorted({each.caller.ws for each in listeners}):
                enter(connection, ws)
                heads[ws] = dict(
                    connection.execute("SELECT stream, head FROM hub.stream WHERE ws = %s", (ws,)).fetchall()
                )
                own = [each for each in listeners if each.caller.ws == ws]
                valid = _find_valid(connection, ws, own)
                ended += [each for each in own if (each.caller.token, each.session) not in valid]
        return heads, ended

    def _notify(self, heads: dict[int, dict[str, int]], ended: list[HubListener]) -> None:
        for each in ended:
            each.notify(None)
        for ws, now in heads.items():
            before = self._heads.get(ws)
            self._heads[ws] = now
            if before is None:
                continue
            for stream, head in now.items():
                if before.get(stream) != head:
                    change = {"kind": "stream", "stream": stream, "head": head}
                    for each in self._listeners:
                        if each.caller.ws == ws:
                            each.notify(change)


def _find_valid(connection: Connection[Any], ws: int, listeners: list[HubListener]) -> set[tuple[str, str]]:
    """Return those pairs of a listener's token and page session that are still valid."""
    rows = connection.execute(
        "SELECT t.token::text FROM hub.token t JOIN hub.member m ON m.ws = t.ws AND m.member = t.member"
        " WHERE t.ws = %s AND t.token = ANY(%s::uuid[]) AND t.revoked_at IS NULL AND t.expires > now()"
        " AND m.removed_at IS NULL",
        (ws, [each.caller.token for each in listeners]),
    ).fetchall()
    left = connection.execute(
        "SELECT replace(session::text, '-', '') FROM hub.page_session"
        " WHERE ws = %s AND session = ANY(%s::uuid[]) AND left_at IS NOT NULL",
        (ws, [each.session for each in listeners if each.session]),
    ).fetchall()
    tokens, gone = {token for (token,) in rows}, {session for (session,) in left}
    return {
        (each.caller.token, each.session)
        for each in listeners
        if each.caller.token in tokens and each.session not in gone
    }


def open_stream(hub: Hub, caller: HubCaller, session: str = "") -> StreamingResponse:
    """Return a response that streams the changes of the caller's workspace."""
    caller.require("reader", scope="read")
    listener = hub.changes.add(hub, caller, session)
    return StreamingResponse(_stream_events(hub, listener), media_type="text/event-stream")


async def _stream_events(hub: Hub, listener: HubListener) -> AsyncIterator[bytes]:
    try:
        await hub.changes.wait_for_heads(hub, listener)
        yield b"retry: 2000\nevent: hello\ndata: {}\n\n"
        while True:
            try:
                change = await asyncio.wait_for(listener.queue.get(), _ALIVE * EVERY)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if change is None:
                return
            yield f"event: change\ndata: {json.dumps(change)}\n\n".encode()
    finally:
        hub.changes.remove(listener)
