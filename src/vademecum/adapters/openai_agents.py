"""A session of the OpenAI Agents SDK as a transcript: what is removed leaves it, not the log.

Items go through the Responses shape and come back as they were given. Only in another process do secrets come
back replaced, since no log holds them.
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
from vademecum.adapters.base import alone, as_agent, opened, told
from vademecum.text.names import new_id
from vademecum.transcripts.events import LARGEST, Said, render

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from agents import TResponseInputItem

    from vademecum import Memory, Message

_SHAPE = shape("openai_responses")
_ENVELOPE = 1024  # bytes around a message on its line, at most


class TranscriptSession:
    """A `Session` for `Runner.run(..., session=...)`: begun when it is not there, gone on with when it is."""

    session_settings: SessionSettings | None = None

    def __init__(
        self, memory: Memory, session_id: str = "", *, session_settings: SessionSettings | None = None
    ) -> None:
        self._memory = as_agent(memory)
        self._log = opened(self._memory, session_id)
        self.session_id = self._log.session
        self.session_settings = session_settings or SessionSettings()
        self._given: dict[str, list[Any]] = {}  # items as they came, by the event that holds them
        self._turn = threading.Lock()

    async def get_items(self, limit: int | None = None) -> list[TResponseInputItem]:
        """What was said, oldest first; with a limit, the newest so many items."""
        settings = self.session_settings
        most = limit if limit is not None else settings.limit if settings else None
        if most is not None and (type(most) is not int or most < 0):
            raise UserError(f"limit must be 0 or more, not {most!r}")
        items = await asyncio.to_thread(self._items)
        return cast("list[TResponseInputItem]", items if most is None else items[max(len(items) - most, 0) :])

    async def add_items(self, items: list[TResponseInputItem]) -> None:
        """Add items; they are on disk when this returns, all of them or none."""
        if items:
            await asyncio.to_thread(self._add, items)

    async def pop_item(self) -> TResponseInputItem | None:
        """Take back the newest item and return it; the log keeps it, and that it was taken back."""
        return cast("TResponseInputItem | None", await asyncio.to_thread(self._pop))

    async def clear_session(self) -> None:
        """Take back all items; the log keeps every one."""
        await asyncio.to_thread(self._clear)

    # ---------------------------------------------------------------- the log

    def _items(self) -> list[Any]:
        return [item for said in self._log.thread() for item in self._of(said)]

    def _of(self, said: Said) -> list[Any]:
        given = self._given.get(said.id)
        return _SHAPE.write([said.message]) if given is None else list(given)

    def _add(self, items: Sequence[Any]) -> None:
        said = self._said(items)
        with self._alone():
            self._write(said)

    def _pop(self) -> Any:
        with self._alone():
            for said in reversed(self._log.thread()):
                if items := self._of(said):
                    rest = self._said(items[:-1])
                    self._log.take_back([said], sync=not rest)
                    self._write(rest)
                    return items[-1]
        return None

    def _clear(self) -> None:
        with self._alone():
            self._log.take_back(self._log.thread(), sync=True)

    def _said(self, items: Sequence[Any]) -> list[tuple[Said, list[Any]]]:
        """Items as events that can be written, each with those that it holds; a turn of the model is one."""
        found = []
        rest = list(items)
        try:
            for message in _SHAPE.read(rest):
                key = new_id()
                event = Said(_named(message, key), id=key)
                if len(render(event)) > LARGEST - _ENVELOPE:
                    raise InvalidText(f"an item is larger than the {LARGEST:,} bytes that a transcript holds")
                count = len(_SHAPE.write([message]))
                found.append((event, rest[:count]))
                rest = rest[count:]
        except (UsageError, ValueError, TypeError, RecursionError) as error:
            why = told(error) if isinstance(error, UsageError) else str(error)
            raise UserError(f"these items cannot be saved, and none was: {why}") from error
        return found

    def _write(self, said: Sequence[tuple[Said, list[Any]]]) -> None:
        if said:
            self._log.append_all([event for event, _ in said], sync=True)
            self._given |= {event.id: items for event, items in said}

    @contextlib.contextmanager
    def _alone(self) -> Iterator[None]:
        """One change at a time: to look for the last item and to take it back are two steps."""
        with self._turn, contextlib.ExitStack() as stack:
            if self._log.path:  # one in memory is this process's alone
                what = f"items of session {self.session_id}"
                doing = f"write to the session {self.session_id}"
                stack.enter_context(alone(self._memory, what, doing=doing))
            yield


def _named(message: Message, key: str) -> Message:
    return message if message.id and not message.id.isdecimal() else message._replace(id=key)
