"""What Gemini CLI leaves on disk: `~/.gemini/tmp/<project>/chats/session-*.json`, `.jsonl` and older files.

A chat is one JSON object with a list of messages, or, in newer versions, lines: a header, messages, `$set`
lines that change the header and `$rewindTo` lines that take messages back. A message that changes is
appended again with the same id: the last one counts, in its place. What was taken back comes out with
`left` in `extra`; finding it takes one more pass, and memory for the ids. `checkpoint-*.json` holds what
`/chat save` kept, and `logs.json` the prompts of several sessions: these are found only for a project that
has no chats, where they are all there is.

A message of the model has its thoughts, words and tool calls at once, and the calls have their results with
them, which come out as a message of their own. The same results stand in a message of the user behind it,
and a `$set` line has all messages again when a session is resumed: a call has one result here, and what
was said comes out once. Flagged: `info`, `warning` and `error` messages, what Gemini CLI says of the session
before anybody speaks (`meta`), and what a compression left in place of the history (`summary`). What hooks
told the agent stands before a prompt in `<hook_context>`; it is kept in `extra`, out of what the person said.
Told: the session, its first time and summary; the folder from the `.project_root` file that newer versions
keep beside the chats, since chats have only a hash of it. Left out: what a tool showed on the screen,
unless it is all there is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.agents.gemini import TOLD, split_told
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
_SETTING = "<session_context>"
_TAKEN = "Got it. Thanks for the additional context!"  # what follows the summary that a compression made


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
            _message(each, telling)
            if isinstance(each, dict)
            else [Unread(0, "a message that is not an object")]
        )
    if not said and not problems:
        yield Unread(0, "no messages")
    yield from problems


def _lines(path: Path, telling: FactsSoFar, seen: Seen) -> Iterator[Found]:
    last, taken = _changes(path)
    once = _Once()
    for line in lines(path, seen):
        if isinstance(line, Unread):
            yield line
            continue
        value = line.value
        changed = value.get("$set")
        if isinstance(changed, dict):
            yield from _tell(changed, telling)
            said = [each for each in listed(changed.get("messages")) if isinstance(each, dict)]
            new = [each for each in said if _key(each) not in last and once.is_new(each)]
            for each in new:
                yield from once.only(_snapshot(each, said, telling))
        elif "$rewindTo" in value:
            continue
        elif "type" in value and ("id" in value or "content" in value):
            if last.get(_key(value), line.number) == line.number:
                yield from once.only(_flagged(_message(value, telling), left=line.number in taken))
        elif "sessionId" in value:
            yield from _tell(value, telling)
        else:
            yield Unread(line.number, "neither a message nor a header")


class _Once:
    """What a file has told already: results by their calls and words, and messages of snapshots by their ids.

    Another text under the id of a call is kept: ids are not always of one call, and nothing said is lost.
    """

    def __init__(self) -> None:
        self._results: dict[str, set[int]] = {}
        self._messages: set[int] = set()

    def is_new(self, value: dict[str, Json]) -> bool:
        """Whether a message of a snapshot was in none before; its id is all that stays the same."""
        key = _key(value) if text(value.get("id")) else hash(written(value.get("content")))
        new = key not in self._messages
        self._messages.add(key)
        return new

    def only(self, found: Iterator[Found]) -> Iterator[Found]:
        """The same without results that were told before, and without messages that say nothing then."""
        for each in found:
            if not isinstance(each, Message):
                yield each
                continue
            parts = tuple(part for part in each.parts if not self._told(part))
            if parts or not each.parts:
                yield each if len(parts) == len(each.parts) else each._replace(parts=parts)

    def _told(self, part: Part) -> bool:
        if not isinstance(part, ToolResult) or not part.id:
            return False
        told = self._results.setdefault(part.id, set())
        said = hash(" ".join(part.text.split()))
        known = said in told or (bool(told) and not part.text.strip())
        told.add(said)
        return known


def _snapshot(value: dict[str, Json], said: list[dict[str, Json]], telling: FactsSoFar) -> Iterator[Found]:
    """A message that only a snapshot has: of the setting, or of what a compression put in place of others."""
    after = said[said.index(value) + 1 :][:1]
    summary = any(_words(each) == _TAKEN for each in after)
    mark = SUMMARY if summary else META if _words(value) == _TAKEN else ""
    for each in _message(value, telling):
        if mark and isinstance(each, Message):
            yield each._replace(extra={**each.extra, mark: True if summary else "compression"})
        else:
            yield each


def _words(value: dict[str, Json]) -> str:
    return "\n".join(part.text for part in parts_of(value.get("content")) if isinstance(part, Text))


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
    if role is Role.USER:
        parts, told = _without_told(parts)
        extra |= {"hook_context": told} if told else {}
        if any(isinstance(part, Text) and part.text.startswith(_SETTING) for part in parts[:1]):
            extra[META] = "session_context"
    if parts or not results:
        yield Message(role, parts, id=name, time=time, model=model, extra=extra)
    yield from _usage(mapping(value.get("tokens")), model, time)
    if results:
        yield Message(Role.TOOL, results, id=f"{name}:results" if name else "", time=time)


def _without_told(parts: tuple[Part, ...]) -> tuple[tuple[Part, ...], list[str]]:
    """What somebody said, without what hooks told the agent in front of it; and that."""
    told: list[str] = []
    kept: list[Part] = []
    for part in parts:
        if isinstance(part, Text) and TOLD in part.text:
            found, said = split_told(part.text)
            told += found
            kept += [part._replace(text=said)] if said.strip() else []
        else:
            kept.append(part)
    return tuple(kept), told


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
