"""A plain list of messages, in a JSON file or one on each line, in any shape that `shapes/` knows.

The list may stand in an object as `messages`, `input` or `history`; the object's `title`, `model` and the
like become session facts. If no shape is recognised, or a message does not fit the shape, the message is read
as well as possible.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.agents.base import Agent, TranscriptFormat
from vademecum.errors import VadeError
from vademecum.transcripts.foreign import (
    NewFacts,
    TranscriptUsage,
    Unread,
    as_list,
    chat_message,
    count,
    document,
    first_records,
    head_of,
    ignore_progress,
    is_document,
    lines,
    mapping,
    moment,
    text,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json, Message, Shape
    from vademecum.transcripts.foreign import FileItem, OnBytes, SessionFacts

_LISTS = ("messages", "input", "history")
_ITEMS = frozenset({"message", "function_call", "function_call_output", "reasoning"})
_SAMPLE = 200  # messages that are used to recognise the shape


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file holds a list of objects with roles, or lines with roles."""
    if path.suffix not in (".json", ".jsonl"):
        return False
    records = first_records(head)
    if any(_is_message(record) or _messages_in(record) for record in records):
        return True
    begin = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return begin.startswith((b"[", b"{")) and b'"role"' in begin


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a file, in order: messages and session facts."""
    head = head_of(path)
    records = first_records(head)
    if is_document(head) or (path.suffix == ".json" and len(records) < 2):
        return _document(path)
    return _lines(path, _shape([record for record in records if _is_message(record)]), on_bytes)


def _is_message(record: dict[str, Json]) -> bool:
    return isinstance(record.get("role"), str) or text(record.get("type")) in _ITEMS


def _messages_in(value: dict[str, Json]) -> list[Json]:
    return next((value[name] for name in _LISTS if isinstance(value.get(name), list)), [])


def _shape(messages: list[Json]) -> Shape | None:
    from vademecum.transcripts.shapes import recognise

    return recognise(messages[:_SAMPLE])


def _document(path: Path) -> Iterator[FileItem]:
    value, problems = document(path)
    session = mapping(value)
    yield from _session_facts(session)
    found = as_list(value) or _messages_in(session)
    messages = [each for each in found if isinstance(each, dict)]
    yield from _messages(messages, _shape(messages))
    yield from _usage(session)
    if len(messages) < len(found):
        yield Unread(0, f"{len(found) - len(messages)} of {len(found)} messages are not objects")
    if not messages and not problems:
        yield Unread(0, "no messages")
    yield from problems


def _session_facts(session: dict[str, Json]) -> list[SessionFacts]:
    return NewFacts().add(
        id=text(session.get("session_id")) or text(session.get("id")),
        title=text(session.get("title")) or text(session.get("name")),
        folder=text(session.get("cwd")) or text(session.get("working_directory")),
        created=moment(session.get("created_at")) or moment(session.get("timestamp")),
        model=text(session.get("model")),
    )


def _lines(path: Path, shape: Shape | None, on_bytes: OnBytes) -> Iterator[FileItem]:
    for line in lines(path, on_bytes):
        if isinstance(line, Unread):
            yield line
        elif _is_message(line.value):
            yield from _messages([line.value], shape)
            yield from _usage(line.value)
        elif _messages_in(line.value):  # a conversation on each line, as in training data
            messages = [each for each in _messages_in(line.value) if isinstance(each, dict)]
            yield from _messages(messages, _shape(messages))
        else:
            yield Unread(line.number, "not a message")


def _messages(messages: list[dict[str, Json]], shape: Shape | None) -> Iterator[Message]:
    """Yield messages, read in their shape if they have one; times and ids from an export are kept."""
    try:
        found = shape.read(messages) if shape else None
    except VadeError:
        found = None
    if found is None:
        yield from (chat_message(each) for each in messages)
        return
    if len(found) != len(messages):
        yield from found
        return
    for message, raw in zip(found, messages, strict=True):
        time = message.time or moment(raw.get("timestamp")) or moment(raw.get("created_at"))
        yield message._replace(time=time, id=message.id or text(raw.get("id")))


def _usage(value: dict[str, Json]) -> Iterator[TranscriptUsage]:
    counted = mapping(value.get("usage"))
    cached = count(counted.get("cache_read_input_tokens"))
    prompt_tokens = count(counted.get("prompt_tokens")) or (
        count(counted.get("input_tokens")) + cached + count(counted.get("cache_creation_input_tokens"))
    )
    output = count(counted.get("completion_tokens")) or count(counted.get("output_tokens"))
    if prompt_tokens or output:
        total = count(counted.get("total_tokens")) or prompt_tokens + output
        yield TranscriptUsage(prompt_tokens, output, cached, total, model=text(value.get("model")))


# No agent stores files of this kind in a folder, and any list of messages fits, so this format is tried last.
AGENT = Agent("messages", transcripts=TranscriptFormat("messages", {}, recognises, read, rank=9))
