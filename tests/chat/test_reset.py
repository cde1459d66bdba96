"""When a session is over by `session.reset`: between two lines of a chat, and beside a chat that is open."""

from __future__ import annotations

import contextlib
from datetime import datetime, timedelta
from typing import TYPE_CHECKING

from vademecum.interfaces.chat import conversation, state
from vademecum.llm.scripted import Scripted
from vademecum.transcripts.events import end_of

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.interfaces.chat.state import Chat
    from vademecum.memory import Memory

    from .conftest import Room


class Lines:
    """A person who types these lines, and then goes to bed or goes on the next day."""

    def __init__(self, chat: Chat, *lines: str) -> None:
        self._chat = chat
        self._lines = list(lines)

    def line(self) -> str:
        if not self._lines:
            raise EOFError
        line = self._lines.pop(0)
        if line == "SLEEP":
            next_day(self._chat.person)
            return self.line()
        return line

    def ask(self, question: str) -> str:
        raise EOFError


def next_day(memory: Memory) -> None:
    now = memory.workspace.now()

    def later() -> datetime:
        return now + timedelta(days=1)

    memory.workspace.now = later


@contextlib.contextmanager
def other(room: Room) -> Iterator[Memory]:
    """The memory of a process that comes the day after."""
    doors = state.open_callers(home=str(room.home), cwd=str(room.project))
    next_day(doors.person)
    yield doors.person
    doors.close()


def test_a_session_that_a_chat_has_open_is_not_ended_by_another_process(room: Room) -> None:
    chat = room.chat(Scripted("Fine.", "Still here."))
    conversation.run_turn(chat, "Where is the parser?")
    with other(room) as memory:
        begun = memory.sessions.current()
        assert begun.session != chat.log.session
        assert end_of(chat.log.events()) is None
        assert memory.sessions.current().session == begun.session
    assert conversation.run_turn(chat, "Are you still there?").text == "Still here."


def test_a_session_that_nobody_has_open_is_ended_the_day_after(room: Room) -> None:
    chat = room.chat(Scripted("Fine."))
    conversation.run_turn(chat, "Where is the parser?")
    room.close()
    with other(room) as memory:
        assert memory.sessions.current().session != chat.log.session
    over = end_of(chat.log.events())
    assert over is not None
    assert over.why == "daily"


def test_the_first_words_of_the_next_day_begin_another_session(room: Room) -> None:
    model = Scripted("In parser.py.", "Good morning.")
    chat = room.chat(model)
    first = chat.log
    assert (
        conversation.converse(chat, Lines(chat, "Where is the parser?", "SLEEP", "/status", "Good morning"))
        == 0
    )
    assert chat.log.session != first.session
    over = end_of(first.events())
    assert over is not None
    assert over.why == "daily"
    assert "/journal/" in over.note
    assert "In parser.py." not in str(model.asked[1].prompt)
    assert [each.text for each in chat.thread[1:]] == ["Good morning", "Good morning."]


def test_a_command_of_the_next_day_leaves_the_session_as_it_is(room: Room) -> None:
    chat = room.chat(Scripted("In parser.py."))
    first = chat.log.session
    conversation.converse(chat, Lines(chat, "Where is the parser?", "SLEEP", "/status"))
    assert chat.log.session == first


def test_a_session_that_was_named_goes_on_the_next_day(room: Room) -> None:
    chat = room.chat(Scripted("In parser.py.", "Good morning."), session="parser")
    conversation.converse(chat, Lines(chat, "Where is the parser?", "SLEEP", "Good morning"))
    assert chat.log.session == "parser"
    assert len(chat.thread) == 5


def test_a_chat_that_may_not_write_has_one_session_for_good(room: Room) -> None:
    chat = room.chat(Scripted("In parser.py.", "Good morning."), incognito=True)
    first = chat.log.session
    conversation.converse(chat, Lines(chat, "Where is the parser?", "SLEEP", "Good morning"))
    assert chat.log.session == first
