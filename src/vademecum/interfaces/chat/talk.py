"""The conversation: read a line, do what it says, until the person has had enough."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING

from vademecum.errors import VadeError
from vademecum.interfaces.chat import loop
from vademecum.interfaces.chat.commands import registry
from vademecum.transcripts import views
from vademecum.transcripts.messages import Role
from vademecum.transcripts.small_talk import is_command

if TYPE_CHECKING:
    from vademecum.interfaces.chat.prompting import Prompt
    from vademecum.interfaces.chat.state import Chat


def converse(chat: Chat, prompt: Prompt) -> int:
    """Talk until the end; returns the exit code, which says whether the last line could be answered."""
    greet(chat)
    in_background(chat)
    code, swept = 0, False
    while not chat.over:
        try:
            line = prompt.line()
        except EOFError:
            break
        except KeyboardInterrupt:
            chat.screen.dim("Ctrl-D ends the session")
            continue
        if line.strip():
            turned(chat, line)
            code = said(chat, line)
            swept = swept or tidy(chat)
    chat.end(why="quit")
    return code


def turned(chat: Chat, line: str) -> None:
    """Begin another session before words for the model when this one is over by `session.reset`."""
    if is_command(line):
        return
    try:
        why = chat.due()
        if why:
            note = chat.begin(why=why, note=True, named=False)
            told = f"; the last one is noted in {note}" if "/" in note else ""
            chat.screen.dim(f"a new session, as `session.reset` says{told}")
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")


def said(chat: Chat, line: str) -> int:
    """One line of the person's: a command, or words for the model."""
    try:
        if is_command(line):
            return int(not registry.run(chat, line))
        return int(not loop.turn(chat, line).ok)
    except KeyboardInterrupt:
        chat.screen.dim("stopped")
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")
    except OSError as error:
        chat.screen.error(f"the machine said no: {error.strerror or error}")
    except Exception as error:  # one line of a long conversation is no reason to end it
        if os.environ.get("VADE_DEBUG"):
            raise
        chat.screen.error(
            f"something went wrong inside vade ({type(error).__name__}: {error}); the session goes on"
        )
    return 1


def once(chat: Chat, question: str) -> int:
    """One question, one answer: for scripts."""
    code = said(chat, question)
    chat.end(why="print", note=False)
    return code


def greet(chat: Chat) -> None:
    """Say what answers, and where the conversation stands."""
    model = f"{chat.model_name}, {chat.window:,} tokens" if chat.model else "no model; /model names one"
    told = f" · memory {chat.mode}" if chat.mode != "on, private" else ""
    chat.screen.dim(f"vade chat · {model}{told} · /help")
    if chat.said:
        name = views.name(chat.log.events())
        chat.screen.dim(f"going on with {name or chat.log.session}: {chat.said:,} messages")
        if chat.thread[-1].role is Role.USER:
            chat.screen.dim("your last message has no answer yet: send it again to get one")
    for warning in chat.block.warnings:
        chat.screen.dim(warning)
    for notice in chat.person.notices():
        chat.screen.dim(notice.message)
    chat.person.saw_notices()


def in_background(chat: Chat) -> None:
    """Import the model's library while the person types."""
    warm = getattr(chat.model, "warm", None)
    if warm is not None:
        threading.Thread(target=warm, daemon=True, name="vade-warm").start()


def tidy(chat: Chat) -> bool:
    """The sweep that is due once a day; behind the first line, so that nobody waits for the prompt."""
    if not chat.person.readonly:
        done = chat.person.sweep_if_due()
        if done is not None and done.run:
            chat.screen.dim(f"{len(done.told)} old records archived; `vade undo {done.run}` brings them back")
            chat.person.saw_notices()
    return True
