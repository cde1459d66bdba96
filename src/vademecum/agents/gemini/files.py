"""What Gemini CLI leaves on disk: `~/.gemini/tmp/<project>/chats/session-*.json`, `.jsonl` and older files.

A chat is one JSON object with a list of messages, or, in newer versions, lines: a header, messages, `$set`
lines that change the header and `$rewindTo` lines that take messages back. A message that changes is
appended again with the same id: the last one counts, in its place. What was taken back comes out with
`left` in `extra`; finding it takes one more pass, and memory for the ids. `checkpoint-*.json` holds what
`/chat save` kept, and `logs.json` the prompts of several sessions: these are found only for a project that
has no chats, where they are all there is.

A message of the model has its thoughts, words and tool calls at once, and the calls have their results with
them, which come out as a message of their own. Flagged: `info`, `warning` and `error` messages (`meta`).
Told: the session, its first time and summary; the folder from the `.project_root` file that newer versions
keep beside the chats, since chats have only a hash of it. Left out: what a tool showed on the screen,
unless it is all there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.transcripts import (
    LEFT,
    META,
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from vademecum.transcripts.reading import (
    FactsSoFar,
    JsonLine,
    TranscriptUsage,
    Unread,
    count,
    document,
    first_records,
    lines,
    listed,
    mapping,
    moment,
    parts_of,
    result_parts,
    text,
    unseen,
    without,
    written,
)

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.transcripts import Json, Part
    from vademecum.transcripts.reading import Found, Seen, SessionFacts

_KNOWN = ("id", "timestamp", "type", "content", "thoughts", "tokens", "model", "toolCalls")
_KNOWN_CALL = "id name args result resultDisplay description displayName renderOutputAsMarkdown".split()
_PATH = 4096


def recognises(head: bytes, path: Path) -> bool:
    """By the header of a chat, or by what only logs and checkpoints have."""
    first = next(iter(first_records(head, most=1)), {})
    if "sessionId" in first and "projectHash" in first:
        return True
    begin = head[:2048]
    if begin.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"{"):
        return b'"sessionId"' in begin and b'"projectHash"' in begin
    logged = b'"messageId"' in begin and b'"sessionId"' in begin
    return path.suffix == ".json" and (logged or (b'"role"' in begin and b'"parts"' in begin))


def read(path: Path, seen: Seen = unseen) -> Iterator[Found]:
    """Everything in a file, in order."""
    telling = FactsSoFar()
    yield from telling.tell(folder=_folder(path))
    yield from _lines(path, telling, seen) if path.suffix == ".jsonl" else _document(path, telling)


def _folder(path: Path) -> str:
    for above in path.parents[:3]:
        try:
            with (above / ".project_root").open("rb") as file:
                return file.read(_PATH).decode("utf-8", "replace").strip()
        except OSError:
            continue
    return ""


def _tell(header: dict[str, Json], telling: FactsSoFar) -> list[SessionFacts]:
    return telling.tell(
        id=text(header.get("sessionId")),
        created=moment(header.get("startTime")),
        title=text(header.get("summary")),
        folder=next((each for each in listed(header.get("directories")) if isinstance(each, str)), ""),
    )


def _document(path: Path, telling: FactsSoFar) -> Iterator[Found]:
    value, problems = document(path)
    header = mapping(value)
    yield from _tell(header, telling)
    said = listed(value) or listed(header.get("messages")) or listed(header.get("history"))
    for each in said:
        yield from (
            _message(each, telling) if isinstance(each, dict) else [Unread(0, "a message that is no object")]
        )
    if not said and not problems:
        yield Unread(0, "no messages")
    yield from problems


def _lines(path: Path, telling: FactsSoFar, seen: Seen) -> Iterator[Found]:
    last, taken = _changes(path)
    for line in lines(path, seen):
        if isinstance(line, Unread):
            yield line
            continue
        value = line.value
        changed = value.get("$set")
        if isinstance(changed, dict):
            yield from _tell(changed, telling)
            for each in listed(changed.get("messages")):
                if isinstance(each, dict) and _key(each) not in last:
                    yield from _message(each, telling)
        elif "$rewindTo" in value:
            continue
        elif "type" in value and ("id" in value or "content" in value):
            if last.get(_key(value), line.number) == line.number:
                yield from _flagged(_message(value, telling), left=line.number in taken)
        elif "sessionId" in value:
            yield from _tell(value, telling)
        else:
            yield Unread(line.number, "neither a message nor a header")


def _changes(path: Path) -> tuple[dict[int, int], set[int]]:
    """The last line of each message by its id, and the lines that were taken back."""
    last: dict[int, int] = {}  # in the order of the messages
    taken: set[int] = set()
    live: dict[int, None] = {}
    for line in lines(path):
        if not isinstance(line, JsonLine):
            continue
        back = line.value.get("$rewindTo")
        if isinstance(back, str):
            ids = list(live)
            start = ids.index(hash(back)) if hash(back) in live else 0
            for each in ids[start:]:
                taken.add(last[each])
                del live[each]
        elif isinstance(line.value.get("id"), str) and "type" in line.value:
            key = _key(line.value)
            last[key] = line.number
            live[key] = None
    return last, taken


def _key(value: dict[str, Json]) -> int:
    return hash(text(value.get("id")))


def _flagged(found: Iterator[Found], *, left: bool) -> Iterator[Found]:
    for each in found:
        yield each._replace(extra={**each.extra, LEFT: True}) if left and isinstance(each, Message) else each


def _message(value: dict[str, Json], telling: FactsSoFar) -> Iterator[Found]:
    if "parts" in value and "type" not in value:
        yield from _content(value)
        return
    kind = text(value.get("type"))
    extra = without(value, _KNOWN)
    if "message" in value and "content" not in value:  # a line of the logs
        value = {**value, "content": value["message"], "id": written(value.get("messageId"))}
        extra = without(extra, ("message", "messageId"))
    time, model = moment(value.get("timestamp")), text(value.get("model"))
    if kind == "user":
        role = Role.USER
    elif kind == "gemini":
        role = Role.ASSISTANT
    else:
        role, extra[META] = Role.SYSTEM, kind or "unknown"
    parts, results = _spoken(value)
    name = text(value.get("id"))
    yield from telling.tell(model=model)
    yield Message(role, parts, id=name, time=time, model=model, extra=extra)
    yield from _usage(mapping(value.get("tokens")), model, time)
    if results:
        yield Message(Role.TOOL, results, id=f"{name}:results" if name else "", time=time)


def _spoken(value: dict[str, Json]) -> tuple[tuple[Part, ...], tuple[ToolResult, ...]]:
    thoughts = [each for each in listed(value.get("thoughts")) if isinstance(each, dict)]
    thinking = tuple(
        Thinking(
            "\n".join(filter(None, (text(each.get("subject")), text(each.get("description"))))),
            without(each, ("subject", "description")),
        )
        for each in thoughts
    )
    calls = [each for each in listed(value.get("toolCalls")) if isinstance(each, dict)]
    asked = tuple(
        ToolCall(
            text(each.get("id")),
            text(each.get("name")),
            written(each.get("args")),
            without(each, _KNOWN_CALL),
        )
        for each in calls
    )
    content = parts_of(value.get("content"))
    brought = tuple(part for part in content if isinstance(part, ToolResult))
    said = tuple(part for part in content if not isinstance(part, ToolResult))
    return (*thinking, *said, *asked), (*brought, *(_result(each) for each in calls if _is_over(each)))


def _is_over(call: dict[str, Json]) -> bool:
    return bool(call.get("result") or call.get("resultDisplay")) or text(call.get("status")) in (
        "success",
        "error",
        "cancelled",
    )


def _result(call: dict[str, Json]) -> ToolResult:
    given = call.get("result")
    content: tuple[Text | Image | Opaque, ...] = ()
    for part in parts_of(given):
        content += part.content if isinstance(part, ToolResult) else result_parts([_plain(part)])
    if not content:
        content = result_parts(written(call.get("resultDisplay")))
    failed = text(call.get("status")) in ("error", "cancelled")
    return ToolResult(text(call.get("id")), content, text(call.get("name")), failed)


def _plain(part: Part) -> Json:
    """A part that is no answer of a function, as a block again."""
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
    """A message as Google's API has it: `{role, parts}`."""
    parts = parts_of(value.get("parts"))
    results = tuple(part for part in parts if isinstance(part, ToolResult))
    said = tuple(part for part in parts if not isinstance(part, ToolResult))
    extra = without(value, ("role", "parts"))
    if said or not results:
        role = Role.ASSISTANT if value.get("role") == "model" else Role.USER
        yield Message(role, said, extra=extra)
    if results:
        yield Message(Role.TOOL, results, extra=extra)


def _usage(counted: dict[str, Json], model: str, time: str) -> Iterator[TranscriptUsage]:
    given = count(counted.get("input")) + count(counted.get("tool"))
    output = count(counted.get("output")) + count(counted.get("thoughts"))
    total = count(counted.get("total")) or given + output
    if total:
        yield TranscriptUsage(given, output, count(counted.get("cached")), total, model=model, time=time)
