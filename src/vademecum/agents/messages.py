"""A plain list of messages, in a JSON file or one on each line, in any shape that `shapes/` knows.

The list may stand in an object as `messages`, `input` or `history`, whose `title`, `model` and the like are
told. When no shape is recognised, or a message does not fit the one that was, it is read as well as it
goes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.agents.base import Agent, TranscriptFormat
from vademecum.errors import VadeError
from vademecum.transcripts.reading import (
    FactsSoFar,
    TranscriptUsage,
    Unread,
    chat_message,
    count,
    document,
    first_records,
    head_of,
    is_document,
    lines,
    listed,
    mapping,
    moment,
    text,
    unseen,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json, Message
    from vademecum.transcripts.reading import Found, Seen, SessionFacts
    from vademecum.transcripts.shapes import Shape

_LISTS = ("messages", "input", "history")
_ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning"})
_SAMPLE = 200  # messages that a shape is recognised by


def recognises(head: bytes, path: Path) -> bool:
    """By roles: a list of objects that have one, or lines that have."""
    if path.suffix not in (".json", ".jsonl"):
        return False
    records = first_records(head)
    if any(_is_message(record) or _inside(record) for record in records):
        return True
    begin = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return begin.startswith((b"[", b"{")) and b'"role"' in begin


def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
    """Everything in a file, in order."""
    head = head_of(path)
    records = first_records(head)
    if is_document(head) or (path.suffix == ".json" and len(records) < 2):
        return _document(path)
    return _lines(path, _shape([record for record in records if _is_message(record)]), seen)


def _is_message(record: dict[str, Json]) -> bool:
    return isinstance(record.get("role"), str) or text(record.get("type")) in _ITEMS


def _inside(value: dict[str, Json]) -> list[Json]:
    return next((value[name] for name in _LISTS if isinstance(value.get(name), list)), [])


def _shape(messages: list[Json]) -> Shape | None:
    from vademecum.transcripts.shapes import recognise

    return recognise(messages[:_SAMPLE])


def _document(path: Path) -> Iterator[Found]:
    value, problems = document(path)
    session = mapping(value)
    yield from _tell(session)
    found = listed(value) or _inside(session)
    said = [each for each in found if isinstance(each, dict)]
    yield from _messages(said, _shape(said))
    yield from _usage(session)
    if len(said) < len(found):
        yield Unread(0, f"{len(found) - len(said)} of {len(found)} messages are not objects")
    if not said and not problems:
        yield Unread(0, "no messages")
    yield from problems


def _tell(session: dict[str, Json]) -> list[SessionFacts]:
    return FactsSoFar().tell(
        id=text(session.get("session_id")) or text(session.get("id")),
        title=text(session.get("title")) or text(session.get("name")),
        folder=text(session.get("cwd")) or text(session.get("working_directory")),
        created=moment(session.get("created_at")) or moment(session.get("timestamp")),
        model=text(session.get("model")),
    )


def _lines(path: Path, shape: Shape | None, seen: Seen) -> Iterator[Found]:
    for line in lines(path, seen):
        if isinstance(line, Unread):
            yield line
        elif _is_message(line.value):
            yield from _messages([line.value], shape)
            yield from _usage(line.value)
        elif _inside(line.value):  # a conversation on each line, as models are tuned with
            said = [each for each in _inside(line.value) if isinstance(each, dict)]
            yield from _messages(said, _shape(said))
        else:
            yield Unread(line.number, "not a message")


def _messages(said: list[dict[str, Json]], shape: Shape | None) -> Iterator[Message]:
    """In their shape when they are in one; the times and ids that exports add to it are kept."""
    try:
        found = shape.read(said) if shape else None
    except VadeError:
        found = None
    if found is None:
        yield from (chat_message(each) for each in said)
        return
    if len(found) != len(said):
        yield from found
        return
    for message, given in zip(found, said, strict=True):
        time = message.time or moment(given.get("timestamp")) or moment(given.get("created_at"))
        yield message._replace(time=time, id=message.id or text(given.get("id")))


def _usage(value: dict[str, Json]) -> Iterator[TranscriptUsage]:
    counted = mapping(value.get("usage"))
    cached = count(counted.get("cache_read_input_tokens"))
    given = count(counted.get("prompt_tokens")) or (
        count(counted.get("input_tokens")) + cached + count(counted.get("cache_creation_input_tokens"))
    )
    output = count(counted.get("completion_tokens")) or count(counted.get("output_tokens"))
    if given or output:
        total = count(counted.get("total_tokens")) or given + output
        yield TranscriptUsage(given, output, cached, total, model=text(value.get("model")))


# No agent keeps them anywhere, and any list of messages would do: it is tried last.
AGENT = Agent("messages", transcripts=TranscriptFormat("messages", {}, recognises, read, rank=9))
