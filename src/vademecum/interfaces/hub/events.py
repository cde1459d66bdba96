"""Server-sent events: which streams of a workspace have something new, to machines and pages that listen.

One look a second at the heads of the workspaces that somebody listens to, by one connection of this server;
it also finds out whose token was revoked meanwhile.
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

from vademecum.interfaces.hub.access import enter
from vademecum.interfaces.hub.limits import busy
from vademecum.interfaces.hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from psycopg import Connection

    from vademecum.interfaces.hub.access import HubCaller
    from vademecum.interfaces.hub.server import Hub

MOST, MOST_OF_ALL = 32, 400  # open streams of a workspace, and of a server
EVERY = 1.0  # seconds between two looks
_ALIVE = 15  # looks after which a silent stream says that it is one
_BEHIND = 64  # changes that a listener may be behind; then its stream ends, and it begins anew
_LOG = logging.getLogger("vademecum.hub")


@dataclass(eq=False, slots=True)
class HubListener:
    """One open stream."""

    caller: HubCaller
    session: str  # of the page, if it is one
    queue: asyncio.Queue[dict[str, Any] | None] = field(default_factory=lambda: asyncio.Queue(_BEHIND))

    def tell(self, change: dict[str, Any] | None) -> None:
        """Pass on a change, or None for the end; who is too far behind is ended."""
        try:
            self.queue.put_nowait(change)
        except asyncio.QueueFull:
            while not self.queue.empty():
                self.queue.get_nowait()
            self.queue.put_nowait(None)


class HubChanges:
    """Everybody who listens to this server, and the one task that looks for them."""

    def __init__(self) -> None:
        self._listeners: set[HubListener] = set()
        self._heads: dict[int, dict[str, int]] = {}
        self._task: asyncio.Task[None] | None = None

    def add(self, hub: Hub, caller: HubCaller, session: str) -> HubListener:
        """Begin to listen, unless too many do."""
        mine = sum(each.caller.ws == caller.ws for each in self._listeners)
        if mine >= MOST or len(self._listeners) >= MOST_OF_ALL:
            raise busy("too many listen to this workspace already", seconds=30)
        made = HubListener(caller, session)
        self._listeners.add(made)
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._follow(hub))
        return made

    async def ready(self, hub: Hub, listener: HubListener) -> None:
        """Wait until it is known where the listener's workspace stands: what comes later is a change."""
        ws = listener.caller.ws
        while ws not in self._heads:
            try:
                heads, _ = await run_in_threadpool(self._look, hub, [listener])
                self._heads.setdefault(ws, heads[ws])
            except Rejection:  # the database is away
                await asyncio.sleep(EVERY)

    def remove(self, listener: HubListener) -> None:
        """Listen no longer."""
        self._listeners.discard(listener)
        listened = {each.caller.ws for each in self._listeners}
        self._heads = {ws: heads for ws, heads in self._heads.items() if ws in listened}

    async def _follow(self, hub: Hub) -> None:
        """Look and tell, for as long as somebody listens."""
        while self._listeners:
            with contextlib.suppress(Rejection):  # the database is away: looked again in a moment
                found = await run_in_threadpool(self._look, hub, list(self._listeners))
                self._tell(*found)
            await asyncio.sleep(EVERY)

    def _look(
        self, hub: Hub, listeners: list[HubListener]
    ) -> tuple[dict[int, dict[str, int]], list[HubListener]]:
        """The heads of the workspaces that are listened to, and who may listen no longer."""
        heads, ended = {}, []
        with hub.transaction() as connection:
            for ws in sorted({each.caller.ws for each in listeners}):
                enter(connection, ws)
                heads[ws] = dict(
                    connection.execute("SELECT stream, head FROM hub.stream WHERE ws = %s", (ws,)).fetchall()
                )
                own = [each for each in listeners if each.caller.ws == ws]
                valid = _valid(connection, ws, own)
                ended += [each for each in own if (each.caller.token, each.session) not in valid]
        return heads, ended

    def _tell(self, heads: dict[int, dict[str, int]], ended: list[HubListener]) -> None:
        for each in ended:
            each.tell(None)
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
                            each.tell(change)


def _valid(connection: Connection[Any], ws: int, listeners: list[HubListener]) -> set[tuple[str, str]]:
    """Of tokens and the sessions made with them those that still count."""
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
    """A stream of what changes in the caller's workspace."""
    caller.need("reader", scope="read")
    listener = hub.changes.add(hub, caller, session)
    return StreamingResponse(_events(hub, listener), media_type="text/event-stream")


async def _events(hub: Hub, listener: HubListener) -> AsyncIterator[bytes]:
    try:
        await hub.changes.ready(hub, listener)
        yield b"retry: 2000\nevent: hello\ndata: {}\n\n"
        while True:
            try:
                told = await asyncio.wait_for(listener.queue.get(), _ALIVE * EVERY)
            except TimeoutError:
                yield b": still here\n\n"
                continue
            if told is None:
                return
            yield f"event: change\ndata: {json.dumps(told)}\n\n".encode()
    finally:
        hub.changes.remove(listener)
