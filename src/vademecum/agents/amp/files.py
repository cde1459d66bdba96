"""A thread of Amp as our plugin saves it: one JSON object with `thread` and `messages`.

Amp keeps threads on its own server; the plugin saves a thread when a turn ends, in the form in which Amp
gives messages to plugins, with the time at which it first saw each message. Results of tools stand in
messages of the user and become messages of their own. Notices of Amp are flagged (`meta`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import META, Message, Role, ToolResult
from vademecum.transcripts.foreign import (
    NewFacts,
    Unread,
    as_list,
    as_text,
    document,
    ignore_progress,
    mapping,
    moment,
    parts_of,
    result_parts,
    text,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json
    from vademecum.transcripts.foreign import FileItem, OnBytes

_ROLES = {"user": Role.USER, "assistant": Role.ASSISTANT, "info": Role.SYSTEM}


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file begins as a thread that our plugin saved."""
    begin = head[:4096].lstrip(b"\xef\xbb\xbf \t\r\n")
    return path.suffix == ".json" and begin.startswith(b'{"amp"') and b'"thread"' in begin


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a saved thread, in order: messages and session facts."""
    value, problems = document(path)
    thread, messages = mapping(mapping(value).get("thread")), as_list(mapping(value).get("messages"))
    yield from NewFacts().add(
        id=text(thread.get("id")),
        folder=text(thread.get("cwd")),
        title=text(thread.get("title")),
        created=moment(mapping(messages[0]).get("time")) if messages else "",
    )
    for each in messages:
        message = mapping(each)
        if text(message.get("role")) in _ROLES:
            yield from _messages(message)
        else:
            yield Unread(0, "not a message of Amp")
    yield from problems
    on_bytes(path.stat().st_size)


def _messages(value: dict[str, Json]) -> Iterator[Message]:
    """Yield a message with the results of tools, if any, then a message with the other parts, if any."""
    blocks = [mapping(each) for each in as_list(value.get("content"))]
    results = tuple(_result(each) for each in blocks if each.get("type") == "tool_result")
    others = parts_of([each for each in blocks if each.get("type") != "tool_result"])
    role, id, time = _ROLES[text(value.get("role"))], as_text(value.get("id")), moment(value.get("time"))
    extra: dict[str, Json] = {META: "info"} if role is Role.SYSTEM else {}
    if results:
        yield Message(Role.TOOL, results, id=id, time=time)
    if others:
        yield Message(role, others, id=id, time=time, extra=extra)


def _result(block: dict[str, Json]) -> ToolResult:
    status = text(block.get("status"))
    return ToolResult(
        text(block.get("toolUseID")),
        result_parts(block.get("output")),
        error=status in ("error", "cancelled"),
        extra=without(block, ("type", "toolUseID", "output", "status")),
    )
