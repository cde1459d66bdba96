"""The flush turn: before older messages leave the window, the model may write down what should outlive them.

One silent turn, append-only. What comes of it is a word for the transcript: `written`, `nothing`,
`skipped:<why>` or `failed:<why>`; a flush never raises and never stops what comes after it.
"""

from __future__ import annotations

import json
import re
from datetime import datetime
from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.budget import FLUSH, FlushSettings
from vademecum.context.host import ask, ask_for, reply_of
from vademecum.context.no_reply import is_silent
from vademecum.errors import HostFailed
from vademecum.llm.base import read_prompt
from vademecum.transcripts import Message, Role, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.context.host import Host
    from vademecum.transcripts import Json, ToolCall

WRITTEN = "written"
NOTHING_NEW = "skipped:nothing new since the last flush"
SECONDS = 60.0
_WRITE_SECONDS = 20.0
_NOTES = 50  # of one flush
_NOTE_CHARS = 2000
_READ_CHARS = 4 * _NOTES * _NOTE_CHARS  # of a reply

JOURNAL_TOOL = "journal_append"
RECORD_TOOL = "memory_store"


def _tool(name: str, description: str) -> dict[str, Json]:
    text = {"type": "string", "description": "One line that can be understood alone."}
    parameters = {"type": "object", "properties": {"text": text}, "required": ["text"]}
    return {"name": name, "description": description, "parameters": parameters}


TOOLS: tuple[Json, ...] = (
    _tool(JOURNAL_TOOL, "Append to today's journal."),
    _tool(RECORD_TOOL, "Keep one durable fact on its own."),
)


class FlushNotes(NamedTuple):
    """What a reply asks to be written."""

    journal: tuple[str, ...] = ()
    records: tuple[str, ...] = ()


def flush(
    messages: Sequence[Message], host: Host, *, settings: FlushSettings = FLUSH, seconds: float = SECONDS
) -> str:
    """Run the flush turn over a window; returns its outcome."""
    try:
        barred = ask(lambda: host.barred, seconds=_WRITE_SECONDS)
        complete = ask(lambda: host.complete, seconds=_WRITE_SECONDS)
        if barred:
            return f"skipped:{barred}"
        if complete is None:
            return "skipped:no model"
        return _turn(messages, host, complete, settings, seconds)
    except HostFailed as error:
        return f"failed:{error}"


def _turn(
    messages: Sequence[Message],
    host: Host,
    complete: Callable[..., Message | str],
    settings: FlushSettings,
    limit: float,
) -> str:
    now = ask_for(host, "now", seconds=_WRITE_SECONDS)
    if not isinstance(now, datetime):
        raise HostFailed(f"the clock callback gave {type(now).__name__}, not a time")
    # Not `format`: a person's own prompt may have braces of its own.
    question = settings.prompt or read_prompt(__package__, "flush_user")
    question = question.replace("{date}", f"{now:%Y-%m-%d}")
    question = question.replace("{time}", f"{now:%Y-%m-%d %H:%M %Z}".strip())
    asked = [*messages, Message(Role.USER, (Text(question),))]
    system = settings.system_prompt or read_prompt(__package__, "flush_system")
    reply = reply_of(ask(complete, asked, system, TOOLS, limit, seconds=limit))
    found = read_reply(reply)
    if found is None:
        return "nothing"
    # Read as late as possible: somebody else may have written the same meanwhile.
    journal = ask_for(host, "journal", seconds=_WRITE_SECONDS)
    if not isinstance(journal, str):
        raise HostFailed(f"the journal callback gave {type(journal).__name__}, not a text")
    fresh = drop_written(found, journal)
    if fresh.journal:
        text = "\n".join(f"- {each}" for each in fresh.journal)
        ask_for(host, "note", text, seconds=_WRITE_SECONDS)
    for each in fresh.records:
        ask_for(host, "remember", each, seconds=_WRITE_SECONDS)
    return WRITTEN if fresh.journal or fresh.records else "nothing"


def read_reply(reply: Message | str) -> FlushNotes | None:
    """What a reply wants to be written; None when it is silent. Raises HostFailed for what says neither."""
    text = (reply if isinstance(reply, str) else reply.text)[:_READ_CHARS]
    calls = () if isinstance(reply, str) else reply.calls
    journal = [_argument(call) for call in calls if call.name == JOURNAL_TOOL]
    records = [_argument(call) for call in calls if call.name == RECORD_TOOL]
    if calls and not journal and not records:
        raise HostFailed(f"the reply asked for {calls[0].name!r}, which a flush does not have")
    if not calls:
        if is_silent(text):
            return None
        journal = _bullets(text)
        if not journal:
            raise HostFailed("the reply held no notes" if text.strip() else "the reply was empty")
    return FlushNotes(_tidy(journal), _tidy(records))


def drop_written(notes: FlushNotes, journal: str) -> FlushNotes:
    """The notes that the journal does not have yet, each once."""
    known = {_bare(line) for line in journal.splitlines()}
    whole = _bare(" ".join(journal.split()))

    def fresh(texts: Iterable[str]) -> tuple[str, ...]:
        found = []
        for text in texts:
            bare = _bare(text)
            if bare and bare not in known and not (len(bare) >= 40 and bare in whole):
                known.add(bare)
                found.append(text)
        return tuple(found)

    return FlushNotes(fresh(notes.journal), fresh(notes.records))


_BULLET = re.compile(r"[ \t]{0,8}(?:[-*+•]|\d{1,3}[.)])[ \t]+(\S.*)")


def _bullets(text: str) -> list[str]:
    """The lines of a list; a line below that is set in belongs to the one above it."""
    found: list[str] = []
    for line in text.splitlines():
        match = _BULLET.match(line)
        if match:
            found.append(match[1])
        elif found and line.startswith((" ", "\t")) and line.strip():
            found[-1] += " " + line.strip()
    return found


def _argument(call: ToolCall) -> str:
    try:
        value = json.loads(call.arguments)
    except (ValueError, RecursionError) as error:
        raise HostFailed(f"the arguments of {call.name} are no JSON") from error
    text = value.get("text") if isinstance(value, dict) else None
    if not isinstance(text, str):
        raise HostFailed(f"{call.name} was asked for without a text")
    return text


def _tidy(texts: Iterable[str]) -> tuple[str, ...]:
    lines = (" ".join(text.split()).removeprefix("- ") for text in texts)
    return tuple(line[:_NOTE_CHARS] for line in lines if line and not is_silent(line))[:_NOTES]


def _bare(text: str) -> str:
    """A line as it is compared: words only, in small letters."""
    return " ".join(re.findall(r"\w+", text.casefold()))
