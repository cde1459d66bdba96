"""Gemini CLI's files: `~/.gemini/tmp/<project>/chats/session-*.json`, `.jsonl` and older files.

A chat is one JSON object with a list of messages or, in newer versions, lines: a header, messages, `$set`
lines that change the header and `$rewindTo` lines that take messages back. A message that changes is appended
again with the same id: the last copy counts, in its place. Messages that were taken back are yielded with
`left` in `extra`; finding them takes another pass, and memory for the ids. `checkpoint-*.json` is written by
`/chat save`, and `logs.json` holds the prompts of several sessions: they are used only for a project without
chats.

A message of the model holds its reasoning, text and tool calls, and the calls hold their results, which
become a message of their own. The same results are repeated in the user message behind it, and a `$set` line
repeats all messages when a session is resumed, and under new ids the last ones when it is compressed: here a
call has one result, and a message is yielded once.
Flagged are `info`, `warning` and `error` messages, Gemini CLI's messages about the session before anybody
speaks (`meta`), and the summary that a compression put in place of the history (`summary`). The contexts of
hooks stand before a prompt in `<hook_context>`; they are moved to `extra`, out of the person's text. The
session facts are its id, first time and summary, and its folder from the `.project_root` file that newer
versions put next to the chats, since chats hold only a hash of it. The display of a tool's result is left
out, unless there is no other result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.agents.gemini import HOOK_CONTEXT, split_hook_context
from vademecum.transcripts import (
    LEFT,
    META,
    SUMMARY,
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from vademecum.transcripts.foreign import (
    JsonLine,
    NewFacts,
    TranscriptUsage,
    Unread,
    as_list,
    as_text,
    count,
    document,
    first_records,
    ignore_progress,
    lines,
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

    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.foreign import FileItem, OnBytes, SessionFacts

_KNOWN = ("id", "timestamp", "type", "content", "thoughts", "tokens", "model", "toolCalls")
_KNOWN_CALL = "id name args result resultDisplay description displayName renderOutputAsMarkdown".split()
_PATH = 4096
_SETTING = "<session_context>"
_TAKEN = "Got it. Thanks for the additional context!"  # the message after a compression's summary


def recognises(head: bytes, path: Path) -> bool:
    """Return whether a file has the header of a chat, or fields that only logs and checkpoints have."""
    first = next(iter(first_records(head, most=1)), {})
    if "sessionId" in first and "projectHash" in first:
        return True
    begin = head[:2048]
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return b'"sessionId"' in begin and b'"projectHash"' in begin
    logged = b'"messageId"' in begin and b'"sessionId"' in begin
    return path.suffix == ".json" and (logged or (b'"role"' in begin and b'"parts"' in begin))


def read(path: Path, on_bytes: OnBytes = ignore_progress) -> Iterator[FileItem]:
    """Yield everything in a chat, in order: messages and session facts."""
    facts = NewFacts()
    yield from facts.add(folder=_folder(path))
    yield from _lines(path, facts, on_bytes) if path.suffix == ".jsonl" else _document(path, facts)


def _folder(path: Path) -> str:
    for above in path.parents[:3]:
        try:
            with (above / ".project_root").open("rb") as file:
                return file.read(_PATH).decode("utf-8", "replace").strip()
        except OSError:
            continue
    return ""


def _session_facts(header: dict[str, Json], facts: NewFacts) -> list[SessionFacts]:
    return facts.add(
        id=text(header.get("sessionId")),
        created=moment(header.get("startTime")),
        title=text(header.get("summary")),
        folder=next((each for each in as_list(header.get("directories")) if isinstance(each, str)), ""),
    )


def _document(path: Path, facts: NewFacts) -> Iterator[FileItem]:
    value, problems = document(path)
    header = mapping(value)
    yield from _session_facts(header, facts)
    messages = as_list(value) or as_list(header.get("messages")) or as_list(header.get("history"))
    for each in messages:
        yield from (
            _message(each, facts)
            if isinstance(each, dict)
            else [Unread(0, "a message that is not an object")]
        )
    if not messages and not problems:
        yield Unread(0, "no messages")
    yield from problems


def _lines(path: Path, facts: NewFacts, on_bytes: OnBytes) -> Iterator[FileItem]:
    last, taken_back = _changes(path)
    once = _Deduplicator()
    for line in lines(path, on_bytes):
        if isinstance(line, Unread):
            yield line
            continue
        value = line.value
        changed = value.get("$set")
        if isinstance(changed, dict):
            yield from _session_facts(changed, facts)
            messages = [each for each in as_list(changed.get("messages")) if isinstance(each, dict)]
            kept = _kept_by_compression(messages)
            new = [
                each
                for at, each in enumerate(messages)
                if _key(each) not in last and once.is_new(each) and not (at in kept and once.was_said(each))
            ]
            for each in new:
                yield from once.only(_snapshot(each, messages, facts))
        elif "$rewindTo" in value:
            continue
        elif "type" in value and ("id" in value or "content" in value):
            once.note_words(value)
            if last.get(_key(value), line.number) == line.number:
                yield from once.only(_flag_left(_message(value, facts), left=line.number in taken_back))
        elif "sessionId" in value:
            yield from _session_facts(value, facts)
        else:
            yield Unread(line.number, "neither a message nor a header")


class _Deduplicator:
    """The content yielded so far: results by calls and texts, and messages of snapshots by ids.

    A result with a known call's id but another text is kept, as several calls may share an id.
    """

    def __init__(self) -> None:
        self._results: dict[str, set[int]] = {}
        self._messages: set[int] = set()
        self._words: set[int] = set()

    def is_new(self, value: dict[str, Json]) -> bool:
        """Return whether no earlier snapshot had a message of this id, and remember the message.

        A message without an id is compared by its content.
        """
        key = _key(value) if text(value.get("id")) else hash(as_text(value.get("content")))
        new = key not in self._messages
        self._messages.add(key)
        return new

    def note_words(self, value: dict[str, Json]) -> None:
        """Remember the words of a message for `was_said`."""
        self._words.add(hash(_words(value)))

    def was_said(self, value: dict[str, Json]) -> bool:
        """Return whether a message has the words of an earlier message, or no words, as calls do."""
        words = _words(value)
        return not words or hash(words) in self._words

    def only(self, found: Iterator[FileItem]) -> Iterator[FileItem]:
        """Yield the items without repeated results; messages that become empty are left out."""
        for each in found:
            if not isinstance(each, Message):
                yield each
                continue
            parts = tuple(part for part in each.parts if not self._was_yielded(part))
            if parts or not each.parts:
                yield each if len(parts) == len(each.parts) else each._replace(parts=parts)

    def _was_yielded(self, part: Part) -> bool:
        if not isinstance(part, ToolResult) or not part.id:
            return False
        known_hashes = self._results.setdefault(part.id, set())
        text_hash = hash(" ".join(part.text.split()))
        is_known = text_hash in known_hashes or (bool(known_hashes) and not part.text.strip())
        known_hashes.add(text_hash)
        return is_known


def _snapshot(value: dict[str, Json], messages: list[dict[str, Json]], facts: NewFacts) -> Iterator[FileItem]:
    """Yield a message that only a snapshot has: about the environment, or a compression's summary."""
    after = messages[messages.index(value) + 1 :][:1]
    summary = any(_words(each) == _TAKEN for each in after)
    mark = SUMMARY if summary else META if _words(value) == _TAKEN else ""
    for each in _message(value, facts):
        if mark and isinstance(each, Message):
            yield each._replace(extra={**each.extra, mark: True if summary else "compression"})
        else:
            yield each


def _kept_by_compression(messages: list[dict[str, Json]]) -> range:
    """Return the positions of the messages after a compression's summary, which the compression kept."""
    taken = [at for at, each in enumerate(messages) if _words(each) == _TAKEN]
    return range(taken[-1] + 1 if taken else len(messages), len(messages))


def _words(value: dict[str, Json]) -> str:
    return "\n".join(part.text for part in parts_of(value.get("content")) if isinstance(part, Text))


def _changes(path: Path) -> tuple[dict[int, int], set[int]]:
    """Return the last line of each message, by the message's id, and the lines that were taken back."""
    last: dict[int, int] = {}  # in message order
    taken_back: set[int] = set()
    current: dict[int, None] = {}
    for line in lines(path):
        if not isinstance(line, JsonLine):
            continue
        back = line.value.get("$rewindTo")
        if isinstance(back, str):
            ids = list(current)
            start = ids.index(hash(back)) if hash(back) in current else 0
            for each in ids[start:]:
                taken_back.add(last[each])
                del current[each]
        elif isinstance(line.value.get("id"), str) and "type" in line.value:
            key = _key(line.value)
            last[key] = line.number
            current[key] = None
    return last, taken_back


def _key(value: dict[str, Json]) -> int:
    return hash(text(value.get("id")))


def _flag_left(found: Iterator[FileItem], *, left: bool) -> Iterator[FileItem]:
    for each in found:
        yield each._replace(extra={**each.extra, LEFT: True}) if left and isinstance(each, Message) else each


def _message(value: dict[str, Json], facts: NewFacts) -> Iterator[FileItem]:
    if "parts" in value and "type" not in value:
        yield from _content(value)
        return
    kind = text(value.get("type"))
    extra = without(value, _KNOWN)
    if "message" in value and "content" not in value:  # a line of `logs.json`
        value = {**value, "content": value["message"], "id": as_text(value.get("messageId"))}
        extra = without(extra, ("message", "messageId"))
    time, model = moment(value.get("timestamp")), text(value.get("model"))
    if kind == "user":
        role = Role.USER
    elif kind == "gemini":
        role = Role.ASSISTANT
    else:
        role, extra[META] = Role.SYSTEM, kind or "unknown"
    parts, results = _read_parts(value)
    name = text(value.get("id"))
    yield from facts.add(model=model)
    if role is Role.USER:
        parts, contexts = _without_hook_context(parts)
        extra |= {"hook_context": contexts} if contexts else {}
        if any(isinstance(part, Text) and part.text.startswith(_SETTING) for part in parts[:1]):
            extra[META] = "session_context"
    if parts or not results:
        yield Message(role, parts, id=name, time=time, model=model, extra=extra)
    yield from _usage(mapping(value.get("tokens")), model, time)
    if results:
        yield Message(Role.TOOL, results, id=f"{name}:results" if name else "", time=time)


def _without_hook_context(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], list[str]]:
    """Return the parts without hook contexts, and the removed contexts."""
    contexts: list[str] = []
    other_parts: list[Part] = []
    for part in parts:
        if isinstance(part, Text) and HOOK_CONTEXT in part.text:
            found, rest = split_hook_context(part.text)
            contexts += found
            other_parts += [part._replace(text=rest)] if rest.strip() else []
        else:
            other_parts.append(part)
    return tuple(other_parts), contexts


def _read_parts(value: dict[str, Json]) -> tuple[tuple[Part, ...], tuple[ToolResult, ...]]:
    thoughts = [each for each in as_list(value.get("thoughts")) if isinstance(each, dict)]
    thinking = tuple(
        Thinking(
            "\n".join(filter(None, (text(each.get("subject")), text(each.get("description"))))),
            without(each, ("subject", "description")),
        )
        for each in thoughts
    )
    calls = [each for each in as_list(value.get("toolCalls")) if isinstance(each, dict)]
    tool_calls = tuple(
        ToolCall(
            text(each.get("id")),
            text(each.get("name")),
            as_text(each.get("args")),
            without(each, _KNOWN_CALL),
        )
        for each in calls
    )
    content = parts_of(value.get("content"))
    results = tuple(part for part in content if isinstance(part, ToolResult))
    spoken_parts = tuple(part for part in content if not isinstance(part, ToolResult))
    return (*thinking, *spoken_parts, *tool_calls), (
        *results,
        *(_result(each) for each in calls if _is_over(each)),
    )


def _is_over(call: dict[str, Json]) -> bool:
    return bool(call.get("result") or call.get("resultDisplay")) or text(call.get("status")) in (
        "success",
        "error",
        "cancelled",
    )


def _result(call: dict[str, Json]) -> ToolResult:
    raw = call.get("result")
    content: tuple[Text | Image | Opaque, ...] = ()
    for part in parts_of(raw):
        content += part.content if isinstance(part, ToolResult) else result_parts([_plain(part)])
    if not content:
        content = result_parts(as_text(call.get("resultDisplay")))
    failed = text(call.get("status")) in ("error", "cancelled")
    return ToolResult(text(call.get("id")), content, text(call.get("name")), failed)


def _plain(part: Part) -> Json:
    """Return a part that is not a function's answer as a block."""
    if isinstance(part, Text):
        return part.text
    if isinstance(part, Image):
        return (
            {"type": "image", "data": part.data, "mimeType": part.media_type}
            if part.data
            else {"url": part.url}
        )
    return part.value if isinstance(part, Opaque) else list(part)


def _content(value: dict[str, Json]) -> Iterator[Message]:
    """Yield the messages in a content of Google's API: `{role, parts}`."""
    parts = parts_of(value.get("parts"))
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    spoken_parts = tuple(part for part in parts if not isinstance(part, ToolResult))
    extra = without(value, ("role", "parts"))
    if spoken_parts or not results:
        role = Role.ASSISTANT if value.get("role") == "model" else Role.USER
        yield Message(role, spoken_parts, extra=extra)
    if results:
        yield Message(Role.TOOL, results, extra=extra)


def _usage(counted: dict[str, Json], model: str, time: str) -> Iterator[TranscriptUsage]:
    prompt_tokens = count(counted.get("input")) + count(counted.get("tool"))
    output = count(counted.get("output")) + count(counted.get("thoughts"))
    total = count(counted.get("total")) or prompt_tokens + output
    if total:
        yield TranscriptUsage(
            prompt_tokens, output, count(counted.get("cached")), total, model=model, time=time
        )
