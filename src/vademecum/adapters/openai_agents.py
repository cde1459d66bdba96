"""A session of the OpenAI Agents SDK as a transcript: removed items leave the session, not the log.

Items are converted through the Responses shape and returned unchanged. Only in another process they come back
with secrets replaced, because the log holds no secrets.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, cast

try:
    from agents.exceptions import UserError
    from agents.memory import SessionSettings
except ModuleNotFoundError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'vademecum[openai-agents]'") from error

from vademecum import InvalidText, UsageError, shape
from vademecum.adapters.base import as_agent, describe_error, locked, open_session
from vademecum.text.names import new_id
from vademecum.transcripts import MessageEvent
from vademecum.transcripts.events import LARGEST, render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agents import TResponseInputItem

    from vademecum import Memory, Message

_SHAPE = shape("openai_responses")
_ENVELOPE = 1024  # the largest size of a line around its message


class TranscriptSession:
    """A `Session` for `Runner.run(..., session=...)` on a new transcript, or on one that exists already."""

    session_settings: SessionSettings | None = None

    def __init__(
        self, memory: Memory, session_id: str = "", *, session_settings: SessionSettings | None = None
    ) -> None:
        self._memory = as_agent(memory)
        self._log = open_session(self._memory, session_id)
        self.session_id = self._log.session
        self.session_settings = session_settings or SessionSettings()
        self._original_items: dict[str, list[Any]] = {}  # the original items, by the event that holds them
        self._turn = threading.Lock()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """Return the items, oldest first; with a limit, only the newest."""
        settings = self.session_settings
        most = limit if limit is not None else settings.limit if settings else None
        if most is not None and (type(most) is not int or most < 0):
            raise UserError(f"limit must be 0 or more, not {most!r}")
        items = await asyncio.to_thread(self._items)
        return cast("list[TResponseInputItem]", items if most is None else items[max(len(items) - most, 0) :])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items; all or none of them are on disk when this returns."""
        if items:
            await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Remove and return the session's newest item; the log keeps the item and notes its removal."""
        return cast("TResponseInputItem | None", await asyncio.to_thread(self._pop))

    async def clear_session(self) -> None:
        """Remove all items from the session; the log keeps them."""
        await asyncio.to_thread(self._clear)

    # ---------------------------------------------------------------- the log

    def _items(self) -> list[Any]:
        return [item for event in self._log.thread() for item in self._items_of(event)]

    def _items_of(self, event: MessageEvent) -> list[Any]:
        items = self._original_items.get(event.id)
        return _SHAPE.write([event.message]) if items is None else list(items)

    def _add(self, items: Sequence[Any]) -> None:
        events = self._make_events(items)
        with self._locked():
            self._write(events)

    def _pop(self) -> Any:
        with self._locked():
            for event in reversed(self._log.thread()):
                if items := self._items_of(event):
                    rest = self._make_events(items[:-1])
                    self._log.take_back([event], sync=not rest)
                    self._write(rest)
                    return items[-1]
        return None

    def _clear(self) -> None:
        with self._locked():
            self._log.take_back(self._log.thread(), sync=True)

    def _make_events(self, items: Sequence[Any]) -> list[tuple[MessageEvent, list[Any]]]:
        """Return items as events for the log, each with its items; a model's turn is a single event."""
        found = []
        rest = list(items)
        try:
            for message in _SHAPE.read(rest):
                key = new_id()
                event = MessageEvent(_with_id(message, key), id=key)
                if len(render(event)) > LARGEST - _ENVELOPE:
                    raise InvalidText(f"an item is larger than the {LARGEST:,} bytes that a transcript holds")
                count = len(_SHAPE.write([message]))
                found.append((event, rest[:count]))
                rest = rest[count:]
        except (UsageError, ValueError, TypeError, RecursionError) as error:
            why = describe_error(error) if isinstance(error, UsageError) else str(error)
            raise UserError(f"these items cannot be saved, and none was: {why}") from error
        return found

    def _write(self, events: Sequence[tuple[MessageEvent, list[Any]]]) -> None:
        if events:
            self._log.append_all([event for event, _ in events], sync=True)
            self._original_items |= {event.id: items for event, items in events}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        """Hold a lock while one change runs, because finding the last item and removing it are two steps."""
        with self._turn, contextlib.ExitStack() as stack:
            if self._log.path:  # one in memory is this process's alone
                what = f"items of session {self.session_id}"
                doing = f"write to the session {self.session_id}"
                stack.enter_context(locked(self._memory, what, doing=doing))
            yield


def _with_id(message: Message, key: str) -> Message:
    return message if message.id and not message.id.isdecimal() else message._replace(id=key)
