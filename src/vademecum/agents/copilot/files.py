"""Copilot CLI's transcripts, `~/.copilot/session-state/<session>/events.jsonl`.

Each line is an event with a type, its data, an id and a time. `user.message`, `assistant.message` and
`tool.execution_complete` are messages; of a prompt the text that a person typed is read, and not the text
with hook context that was sent to the model. Flagged in `extra` are prompts that Copilot wrote itself
(`meta`), events of subagents (`side`), and the summary of a compaction (`summary`). The usage of a call is an
event of its own before the answer. The session facts are its id, folder, model, first time and title. System
prompts, hooks, permissions, reasoning in other events and all other events are left out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import META, SIDE, SUMMARY, Message, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.foreign import (
    Fragment,
    NewFacts,
    TranscriptUsage,
    Unread,
    as_list,
    as_text,
    count,
    first_records,
    ignore_progress,
    join_answers,
    lines,
    mapping,
    moment,
    text,
    without,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.foreign import FileItem, JsonLine, OnBytes, Stream

_STARTS = ("session.start", "session.resume")
_PERSON = frozenset({"", "user"})  # values of `source` for a prompt that a person typed
_PROMPT = (
    "content transformedContent messageId supportedNativeDocumentMimeTypes nativeDocumentPathFallbackPaths"
    " source delivery agentMode interactionId turnId parentAgentTaskId responsesReasoning"
).split()
_ANSWER = (
    "messageId originatingMessageId model content toolRequests reasoningText reasoningOpaque"
    " reasoningWireField encryptedContent interactionId requestId clientRequestId serviceRequestId rte"
    " apiCallId turnId parentToolCallId outputTokens providerId reasoningBlocks serverTools"
).split()


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file begins with the event that starts a session of Copilot."""
    return path.suffix == ".jsonl" and any(
        record.get("type") in _STARTS
        and "parentId" in record
        and isinstance(mapping(record.get("data")).get("context"), dict)
        for record in first_records(head, most=5)
    )


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a transcript, in order: messages, usage and session facts."""
    return join_answers(_pieces(path, on_bytes))


def _pieces(path: Path, on_bytes: OnBytes) -> Stream:
    facts = NewFacts()
    usage: dict[str, TranscriptUsage] = {}  # of calls whose answer is not read yet, by the call's id
    for line in lines(path, on_bytes):
        if isinstance(line, Unread):
            yield line
            continue
        kind, data = text(line.value.get("type")), mapping(line.value.get("data"))
        if not kind:
            yield Unread(line.number, "not an event of a session")
        elif kind in _STARTS:
            yield from facts.add(
                id=text(data.get("sessionId")),
                folder=text(mapping(data.get("context")).get("cwd")),
                created=moment(data.get("startTime")),
                model=text(data.get("selectedModel")),
            )
        elif kind == "session.title_changed":
            yield from facts.add(title=text(data.get("title")))
        elif kind == "session.usage_record":
            counted = mapping(data.get("usage"))
            usage = {text(counted.get("apiCallId")): _usage(counted, line)}
        elif kind == "user.message":
            yield Fragment(_prompt(line, data), size=line.size)
        elif kind == "assistant.message":
            call = text(data.get("apiCallId"))
            yield Fragment(_answer(line, data), answer=call, usage=usage.pop(call, None), size=line.size)
        elif kind == "tool.execution_complete":
            yield Fragment(_message(line, Role.TOOL, (_result(data),), _side(line, data)), size=line.size)
        elif kind == "session.compaction_complete" and data.get("success") is True:
            summary = (Text(text(data.get("summaryContent"))),)
            yield Fragment(_message(line, Role.SYSTEM, summary, {SUMMARY: True}), size=line.size)


def _prompt(line: JsonLine, data: dict[str, Json]) -> Message:
    extra = {**without(data, _PROMPT), **_side(line, data)}
    source = text(data.get("source"))
    if source not in _PERSON or data.get("isAutopilotContinuation") is True:
        extra[META] = source or "autopilot"
    return _message(line, Role.USER, (Text(text(data.get("content"))),), extra)


def _answer(line: JsonLine, data: dict[str, Json]) -> Message:
    thought, said = text(data.get("reasoningText")), text(data.get("content"))
    calls = tuple(
        ToolCall(text(each.get("toolCallId")), text(each.get("name")), as_text(each.get("arguments")))
        for each in map(mapping, as_list(data.get("toolRequests")))
    )
    parts = (*((Thinking(thought),) if thought else ()), *((Text(said),) if said else ()), *calls)
    extra = {**without(data, _ANSWER), **_side(line, data)}
    return _message(line, Role.ASSISTANT, parts, extra)._replace(model=text(data.get("model")))


def _result(data: dict[str, Json]) -> ToolResult:
    result = mapping(data.get("result"))
    said = text(result.get("content")) or text(mapping(data.get("error")).get("message"))
    return ToolResult(text(data.get("toolCallId")), (Text(said),), error=data.get("success") is False)


def _side(line: JsonLine, data: dict[str, Json]) -> dict[str, Json]:
    """Return the mark of an event that belongs to a subagent; empty for the main conversation."""
    agent = text(line.value.get("agentId")) or text(data.get("parentToolCallId"))
    return {SIDE: agent} if agent else {}


def _message(line: JsonLine, role: Role, parts: tuple[Part, ...], extra: dict[str, Json]) -> Message:
    time = moment(line.value.get("timestamp"))
    return Message(role, parts, id=text(line.value.get("id")), time=time, extra=extra)


def _usage(counted: dict[str, Json], line: JsonLine) -> TranscriptUsage:
    read, written = count(counted.get("inputTokens")), count(counted.get("outputTokens"))
    return TranscriptUsage(
        read,
        written,
        count(counted.get("cacheReadTokens")),
        read + written,
        model=text(counted.get("model")),
        time=moment(line.value.get("timestamp")),
    )
