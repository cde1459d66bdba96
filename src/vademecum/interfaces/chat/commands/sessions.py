"""Commands about sessions, and about the list of things to do that belongs to one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.context import todo as todos
from vademecum.errors import Refused
from vademecum.interfaces.chat import door
from vademecum.interfaces.chat.commands.base import Command, below, first_of, nothing, parted, wrong
from vademecum.interfaces.present import output
from vademecum.interfaces.present.to_text import list_sessions
from vademecum.transcripts import views

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from vademecum.interfaces.chat.state import Chat

_SESSION = "show|list|switch ID|rename NAME|trim|export FILE"


def new(chat: Chat, rest: str) -> None:
    """Another session, with a note of this one."""
    note = chat.begin(why="new", note=True)
    said = f"; the last one is noted in {note}" if "/" in note else ""
    output.line(f"a new session: {chat.log.session}{said}")


def reset(chat: Chat, rest: str) -> None:
    """Another session, without a note of this one."""
    chat.begin(why="reset", note=False)
    output.line(f"a new session: {chat.log.session}; the last one is in its transcript alone")


def session(chat: Chat, rest: str) -> None:
    """Look at sessions, and change between them."""
    which, more = parted(rest or "show")
    if which == "show" and not more:
        _show(chat)
    elif which == "list" and not more:
        list_sessions(chat.person.sessions(), as_json=False)
    elif which == "switch" and more:
        _switch(chat, more)
    elif which == "rename" and more:
        _written(chat)
        chat.person.rename_session(chat.log.session, more)
        output.line(f"this session is now called {more}")
    elif which == "trim" and not more:
        _trim(chat)
    elif which == "export" and more:
        _written(chat)
        output.line(f"wrote {chat.person.export_session(chat.log.session, more)}")
    else:
        raise wrong("session", _SESSION)


def _written(chat: Chat) -> None:
    if not chat.log.path:
        raise Refused("this session is kept in memory only", hint="leave `--incognito` and `--readonly` away")


def _show(chat: Chat) -> None:
    events = list(chat.log.events())
    used = views.usage(events)
    begun = views.started(events)
    output.line(f"session     {chat.log.session}")
    output.line(f"name        {views.name(events) or '-'}")
    output.line(f"begun       {begun.created if begun else '-'}")
    output.line(f"transcript  {chat.log.path or 'in memory only'}")
    output.line(f"messages    {chat.said:,}")
    cost = f", ${used.cost:.4f}" if used.cost else ""
    output.line(f"used        {used.total:,} tokens in {used.calls:,} calls{cost}")
    output.line(f"compactions {chat.engine.inspect().cycles:,}")


def _switch(chat: Chat, which: str) -> None:
    if chat.person.readonly or chat.settings.incognito:
        raise Refused("this chat keeps to itself", hint="leave `--incognito` and `--readonly` away")
    newest = door.newest_of(chat.person) if which == door.LAST else None
    log = chat.person.session(newest.id if newest else which)
    if log.session == chat.log.session:
        output.line("that is this session")
        return
    chat.enter(log, door.hold(chat.person, log.session))
    chat.named = True
    name = views.name(log.events())
    output.line(f"going on with {log.session}{f' ({name})' if name else ''}: {chat.said:,} messages")


def _trim(chat: Chat) -> None:
    """Without a model: what leaves is summed up by extraction."""
    before = chat.engine.inspect().tokens.total
    made = chat.person.context(
        chat.log, window=max(before, 1), model=chat.model_name, reply=chat.reply
    ).compact()
    chat.renew()
    if not made.trimmed and not made.cut:
        output.line("nothing to trim: what is in the window is new")
        return
    output.line(
        f"{output.plural(len(made.trimmed), 'message')} left the window: {before:,} → {made.tokens.total:,}"
        " tokens; the transcript has all of them"
    )


def todo(chat: Chat, rest: str) -> None:
    """The list of things to do."""
    which, more = parted(rest or "list")
    if which == "list" and not more:
        output.line(todos.render(todos.read_log(chat.log)))
    elif which == "add" and more:
        output.line(chat.engine.todo({"operation": "add", "title": more}))
    elif which == "done" and more:
        output.line(chat.engine.todo({"operation": "done", "id": more}))
    else:
        raise wrong("todo", "list|add TEXT|done NUM")


def ids(chat: Chat, words: Sequence[str]) -> Iterable[str]:
    """The sessions there are."""
    return () if words else [door.LAST, *(each.id for each in chat.person.sessions()[:50])]


COMMANDS = (
    Command("new", "", "end this session with a note in the journal, and begin another", new),
    Command("reset", "", "begin another session, without a note of this one", reset),
    Command(
        "session",
        _SESSION,
        "look at sessions, go on with another, name, trim or export this one",
        session,
        below(show=nothing, list=nothing, switch=ids, rename=nothing, trim=nothing, export=nothing),
    ),
    Command(
        "todo", "list|add TEXT|done NUM", "the list of things to do", todo, first_of("list", "add", "done")
    ),
)
