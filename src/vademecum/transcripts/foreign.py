"""Helpers for reading other agents' transcript files: JSON from damaged files, and messages from JSON.

This module knows bytes, lines, JSON and content blocks, and no agent. It reports damage as `Unread` values
with their line, and still returns everything that is whole before and after the damage. The value readers
accept any JSON and never raise. It knows the content blocks of Anthropic, OpenAI, Google and pi, and keeps
any other block as `Opaque`.
"""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vademecum.lazy import lazy_pattern
from vademecum.text import clock
from vademecum.transcripts.messages import (
    META,
    SIDE,
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    ToolResult,
)
from vademecum.transcripts.shapes import ROLES

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping
    from pathlib import Path

    from vademecum.transcripts.messages import Json, Part

    OnBytes = Callable[[int], object]

LONGEST = 64 * 1024 * 1024  # bytes of a line
LARGEST = 256 * 1024 * 1024  # bytes of a file that is one JSON value and must fit into memory
DEEPEST = 200  # levels of nesting; Python's own limit is near 1,000, and later code needs some of it
HEAD = 64 * 1024  # bytes of a file that are read to recognise its format

_LONG_HEAD = 8 * 1024 * 1024
_SKIP = 1024 * 1024

# Half a surrogate pair is not a character, and no file, index or terminal accepts it. JavaScript writes one
# when it cuts a text in the middle of an emoji. The pattern matches every escape, so that text that only
# looks like half a pair, behind an escaped backslash, is left unchanged.
_ESCAPE = lazy_pattern(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.S,
)
_SURROGATE = lazy_pattern(r"\\u[dD][89a-fA-F]")

_MILLISECONDS = 1e11  # a number of seconds as large as this is in the year 5138
_LARGEST_COUNT = 2**63 - 1
_STAMP = 100  # characters; a longer text is not a time, and is not cached


class TranscriptUsage(NamedTuple):
    """The tokens and cost of a call, as the provider counted them.

    `input` is the whole prompt, however a provider splits it, and `cached` the part of the prompt that came
    from a cache; `output` includes reasoning. A reader yields one value for each call, directly after the
    answer if the file says which answer that is.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float = 0.0
    model: str = ""
    time: str = ""


class SessionFacts(NamedTuple):
    """Facts about the whole session; later values of a field replace earlier ones."""

    id: str = ""
    title: str = ""
    folder: str = ""  # the working directory of the session
    created: str = ""
    model: str = ""
    branch: str = ""  # of git, in a repository
    repository: str = ""  # the URL of the remote `origin`
    checkout: str = ""  # the folder from which the session's worktree was made


class Unread(NamedTuple):
    """A line or part of a file that could not be understood, and the reason; the rest of the file is read."""

    line: int
    why: str


def ignore_progress(_bytes: int) -> None:
    """Do nothing with a progress report; the default callback."""


FileItem: TypeAlias = Message | TranscriptUsage | SessionFacts | Unread


class NewFacts:
    """The facts about a session yielded so far, so that each is yielded only once; a title again when it
    changes.
    """

    def __init__(self) -> None:
        self._known: dict[str, str] = {}

    def add(self, **found: str) -> list[SessionFacts]:
        """Return a list of one `SessionFacts` with those facts that are new; empty if none is new."""
        new = {
            name: value
            for name, value in found.items()
            if value and (name not in self._known or (name == "title" and self._known[name] != value))
        }
        self._known.update(new)
        return [SessionFacts(**new)] if new else []

    def __getitem__(self, name: str) -> str:
        return self._known.get(name, "")


# -------------------------------------------------------------------- lines and documents


class JsonLine(NamedTuple):
    """A JSON object in a file: its line number, its value and its size in bytes."""

    number: int
    value: dict[str, Json]
    size: int


def lines(path: Path, seen: OnBytes = ignore_progress) -> Iterator[JsonLine | Unread]:
    """Yield the objects of a JSONL file, and an `Unread` for what is damaged, one line in memory at a time.

    `seen` is called with the offset behind each line.
    """
    with path.open("rb") as file:
        number = 0
        while raw := file.readline(LONGEST + 1):
            number += 1
            seen(file.tell())
            ended = raw.endswith(b"\n")
            if len(raw) > LONGEST and not ended:
                while (rest := file.readline(_SKIP)) and not rest.endswith(b"\n"):
                    pass
                yield Unread(number, f"the line is longer than {LONGEST // (1024 * 1024)} MiB")
                continue
            yield from _line(number, raw, ended=ended)
            if not ended:  # the end as read here: bytes that the agent appended meanwhile belong to this line
                return


def _line(number: int, raw: bytes, *, ended: bool) -> Iterator[JsonLine | Unread]:
    body = raw.strip(b"\0 \t\r\n")
    if number == 1:
        body = body.removeprefix(b"\xef\xbb\xbf")
    if not body:
        if b"\0" in raw:
            yield Unread(number, "only NUL bytes")
        return
    decoded = body.decode("utf-8", "replace")
    try:
        value = parse(decoded)
    except ValueError as error:
        yield Unread(number, f"not JSON ({error})" if ended else f"the last line is incomplete ({error})")
        return
    if not isinstance(value, dict):
        yield Unread(number, "not an object")
        return
    yield JsonLine(number, value, len(raw))
    if "\ufffd" in decoded and not _valid(body):
        yield Unread(number, "not UTF-8; each damaged character is read as U+FFFD")


def _valid(body: bytes) -> bool:
    try:
        body.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def parse(source: str) -> Json:
    """Parse JSON text, tolerating control characters, NaN and half surrogate pairs; ValueError if it is not
    JSON.
    """
    try:
        value = _DECODER.decode(_whole(source))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if source.count("[") + source.count("{") > DEEPEST and _too_deep(value):
        raise ValueError("nested too deeply")
    return value


def _whole(source: str) -> str:
    if not _SURROGATE.search(source):
        return source
    return _ESCAPE.sub(lambda found: "\\ufffd" if found["half"] else found[0], source)


def _finite(digits: str) -> float | None:
    """Return a number from its digits; None for NaN and the infinities, which JSON does not have."""
    value = float(digits)
    return value if math.isfinite(value) else None


_DECODER = json.JSONDecoder(strict=False, parse_float=_finite, parse_constant=_finite)


def _too_deep(value: Json) -> bool:
    level = [value]
    for _ in range(DEEPEST):
        level = [
            inner
            for each in level
            if isinstance(each, list | dict)
            for inner in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return False
    return True


def document(path: Path) -> tuple[Json, list[Unread]]:
    """Return the JSON value that a file consists of; of a damaged file, everything whole before the damage.

    Also returns what could not be read.
    """
    if path.stat().st_size > LARGEST:
        return None, [Unread(0, f"the file is larger than {LARGEST // (1024 * 1024)} MiB")]
    return document_in(path.read_bytes())


def document_in(content: bytes) -> tuple[Json, list[Unread]]:
    """Return the JSON value in the bytes of a file, as `document` does for a path."""
    body = content.removeprefix(b"\xef\xbb\xbf").strip(b"\0 \t\r\n")
    problems = [] if _valid(body) else [Unread(0, "not UTF-8; each damaged character is read as U+FFFD")]
    source = body.decode("utf-8", "replace")
    if not source:
        return None, [*problems, Unread(0, "the file is empty")]
    try:
        return parse(source), problems
    except ValueError:
        source = _whole(source)
        value, where, why = _salvage(source)
        return value, [
            *problems,
            Unread(source.count("\n", 0, where) + 1, why or "there is data after the end"),
        ]


_BLANK = lazy_pattern(r"[ \t\r\n]*")


def _salvage(source: str) -> tuple[Json, int, str]:
    """Return the readable part of a damaged list or object, the offset where reading stopped, and the reason.

    Lists directly below the top level are salvaged too.
    """
    if source[0] == "[":
        return _salvage_list(source, 0)
    if source[0] != "{":
        return None, 0, "not JSON"
    found: dict[str, Json] = {}
    at = _after_blanks(source, 1)
    while at < len(source) and source[at] != "}":
        try:
            name, at = _value(source, at)
            at = _after_blanks(source, at)
            if not isinstance(name, str) or source[at : at + 1] != ":":
                return found, at, "not JSON from here on"
            at = _after_blanks(source, at + 1)
            if source[at : at + 1] == "[":
                items, end, why = _salvage_list(source, at)
                found[name] = items
                if why:
                    return found, end, why
                at = end
            else:
                found[name], at = _value(source, at)
        except ValueError as error:
            return found, at, str(error)
        at = _after_comma(source, at)
    return found, at, "" if at < len(source) else "the file is incomplete"


def _salvage_list(source: str, at: int) -> tuple[list[Json], int, str]:
    found: list[Json] = []
    at = _after_blanks(source, at + 1)
    while at < len(source) and source[at] != "]":
        try:
            value, at = _value(source, at)
        except ValueError as error:
            return found, at, str(error)
        found.append(value)
        at = _after_comma(source, at)
    return found, at + 1, "" if at < len(source) else "the file is incomplete"


def _value(source: str, at: int) -> tuple[Json, int]:
    try:
        value, end = _DECODER.raw_decode(source, at)
    except RecursionError:
        raise ValueError("nested too deeply from here on") from None
    except ValueError as error:
        raise ValueError(f"not JSON from here on ({error})") from None
    if _too_deep(value):
        raise ValueError("nested too deeply from here on")
    return value, end


def _after_blanks(source: str, at: int) -> int:
    found = _BLANK.match(source, at)
    return found.end() if found else at


def _after_comma(source: str, at: int) -> int:
    at = _after_blanks(source, at)
    return _after_blanks(source, at + 1) if source[at : at + 1] == "," else at


def head_of(path: Path) -> bytes:
    """Return the first bytes of a file, enough to recognise its format: at least one whole line of a JSONL
    file.
    """
    with path.open("rb") as file:
        head = file.read(HEAD)
        # The first line may hold all the agent's instructions, or a long pasted text.
        return head if path.suffix != ".jsonl" or b"\n" in head else head + file.readline(_LONG_HEAD)


def first_records(head: bytes, most: int = 50) -> list[dict[str, Json]]:
    """Return the JSON objects among the first lines of a file; other lines and cut-off lines are skipped."""
    found = []
    for raw in head.split(b"\n")[:most]:
        try:
            value = parse(raw.strip(b"\0 \t\r\n").removeprefix(b"\xef\xbb\xbf").decode("utf-8", "replace"))
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)
    return found


def is_document(head: bytes) -> bool:
    """Whether a file, by its first bytes, is one JSON value and not a file of JSON lines."""
    body = head.lstrip(b"\xef\xbb\xbf\0 \t\r\n")
    if first_records(head, most=1) or not body:
        return False
    return body.startswith(b"[") or (body.startswith(b"{") and not first_records(head))


# -------------------------------------------------------------------- values


def text(value: Json) -> str:
    """Return the value if it is a string, else an empty string."""
    return value if isinstance(value, str) else ""


def mapping(value: Json) -> dict[str, Json]:
    """Return the value if it is an object, else an empty dict."""
    return value if isinstance(value, dict) else {}


def as_list(value: Json) -> list[Json]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else []


def count(value: Json) -> int:
    """Return a JSON number as a whole number; 0 for negative numbers and other values."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return min(max(int(value), 0), _LARGEST_COUNT)


def amount(value: Json) -> float:
    """Return a JSON number as a sum of money; 0.0 for any other value."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        return float(value) if math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


def as_text(value: Json) -> str:
    """Return a value as text: a string unchanged, None as an empty string, the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def moment(value: Json) -> str:
    """Return a time as our stamps are written, from ISO text or (milli)seconds since 1970; empty for any
    other value.
    """
    if isinstance(value, str):
        return _stamped(value) if len(value) <= _STAMP else ""
    if isinstance(value, bool) or not isinstance(value, int | float) or not value:
        return ""
    try:
        return clock.stamp(datetime.fromtimestamp(value / 1000 if value > _MILLISECONDS else value, UTC))
    except (ValueError, OverflowError, OSError):
        return ""


@lru_cache(maxsize=256)  # a reader asks for the time of a line several times
def _stamped(text: str) -> str:
    found = clock.parse(text)
    return clock.stamp(found) if found else ""


def without(value: Mapping[str, Json], names: Iterable[str]) -> dict[str, Json]:
    """Return the fields of an object except these names; fields with empty or false values are
    left out too.
    """
    known = frozenset(names)
    return {name: each for name, each in value.items() if name not in known and _has_value(each)}


def _has_value(value: Json) -> bool:
    return bool(value) or (
        value is not None and value is not False and not isinstance(value, str | list | dict)
    )


# -------------------------------------------------------------------- blocks


_TEXTS = frozenset(
    {"text", "input_text", "output_text", "summary_text", "reasoning_text", "inputText", "Text"}
)
_DATA = lazy_pattern(r"data:(?P<media>[^;,]*);base64,", re.ASCII)


def parts_of(content: Json) -> tuple[Part, ...]:
    """Return the content of a message as parts; the content is a string, one block, or a list of blocks."""
    if content is None or content == "":
        return ()
    if isinstance(content, list):
        return tuple(part_of(block) for block in content)
    return (part_of(content),)


def part_of(block: Json) -> Part:
    """Return one content block of any known provider as a part of our format."""
    if isinstance(block, str):
        return Text(block)
    if not isinstance(block, dict):
        return Opaque(block)
    kind = text(block.get("type"))
    if kind in _TEXTS or not kind:
        return _text(block)
    if kind == "thinking" and isinstance(block.get("thinking"), str):
        return Thinking(block["thinking"], without(block, ("type", "thinking")))
    if kind in ("image", "input_image", "image_url"):
        return image_of(block) or Opaque(block)
    if kind in ("tool_use", "toolCall"):
        arguments = block.get("input") if kind == "tool_use" else block.get("arguments")
        rest = without(block, ("type", "id", "name", "input" if kind == "tool_use" else "arguments"))
        return ToolCall(text(block.get("id")), text(block.get("name")), as_text(arguments), rest)
    if kind == "tool_result":
        return ToolResult(
            text(block.get("tool_use_id")),
            result_parts(block.get("content")),
            error=block.get("is_error") is True,
            extra=without(block, ("type", "tool_use_id", "content", "is_error")),
        )
    return Opaque(block)


def _text(block: dict[str, Json]) -> Part:
    """Return a text block as a part; Google's text blocks are recognised although they have no type."""
    if isinstance(block.get("text"), str):
        rest = without(block, ("type", "text", "thought"))
        return (Thinking if block.get("thought") is True else Text)(block["text"], rest)
    call = block.get("functionCall")
    if isinstance(call, dict):
        rest = without({**block, **call}, ("functionCall", "id", "name", "args"))
        return ToolCall(text(call.get("id")), text(call.get("name")), as_text(call.get("args")), rest)
    answer = block.get("functionResponse")
    if isinstance(answer, dict):
        return ToolResult(text(answer.get("id")), answer_parts(answer), text(answer.get("name")))
    return image_of(block) or Opaque(block)


def answer_parts(answer: dict[str, Json]) -> tuple[Text | Image | Opaque, ...]:
    """Return the response of a Google function as parts: its output if that is text, else the
    whole response.
    """
    response = answer.get("response")
    output = mapping(response).get("output")
    if isinstance(output, str) and len(mapping(response)) == 1:
        return (Text(output), *result_parts(answer.get("parts")))
    return (*result_parts(as_text(response)), *result_parts(answer.get("parts")))


def result_parts(content: Json) -> tuple[Text | Image | Opaque, ...]:
    """Return the content of a tool's result as parts of the kinds that a result may have."""
    found = (part if isinstance(part, Text | Image | Opaque) else None for part in parts_of(content))
    blocks = content if isinstance(content, list) else [content]
    return tuple(
        part if part is not None else Opaque(block) for part, block in zip(found, blocks, strict=False)
    )


def image_of(block: dict[str, Json]) -> Image | None:
    """Return the picture in a content block, in any of the known encodings; None if the block holds none."""
    source = (
        mapping(block.get("source"))
        or mapping(block.get("inlineData"))
        or mapping(block.get("fileData"))
        or block
    )
    media = text(source.get("media_type")) or text(source.get("mimeType"))
    rest = without(
        block, ("type", "source", "inlineData", "fileData", "image_url", "data", "mimeType", "media_type")
    )
    if isinstance(source.get("data"), str):
        return Image(media, data=source["data"], extra=rest)
    where = source.get("image_url") or source.get("url") or source.get("fileUri")
    address = text(mapping(where).get("url")) or text(where)
    if not address:
        return None
    inline = _DATA.match(address)
    if inline:
        return Image(inline["media"], data=address[inline.end() :], extra=rest)
    return Image(media, url=address, extra=without(rest, ("url",)))


def texts_of(value: Json) -> list[str]:
    """Return the texts in a list of blocks."""
    return [part.text for part in parts_of(as_list(value)) if isinstance(part, Text)]


# -------------------------------------------------------------------- messages of a chat


_ROLES = {**ROLES, "human": Role.USER, "ai": Role.ASSISTANT, "model": Role.ASSISTANT}
_KNOWN = (
    "role content id timestamp created_at name model tool_calls tool_call_id reasoning_content "
    "reasoning function_call"
).split()


def chat_message(value: dict[str, Json]) -> Message:
    """Return a chat message of OpenAI's or Anthropic's in our format.

    A message with an unknown role becomes a system message that is marked with `META`.
    """
    raw_role = value.get("role")
    if isinstance(raw_role, dict):  # old versions of CLIO put the message into its role
        return chat_message({**value, "role": None, **raw_role})
    role = _ROLES.get(text(raw_role))
    extra = without(value, _KNOWN)
    if role is None:
        role, extra[META] = Role.SYSTEM, as_text(raw_role) or "no role"
    parts = _parts(value, role)
    if role is Role.USER and parts and all(isinstance(part, ToolResult) for part in parts):
        role = Role.TOOL
    return Message(
        role,
        parts,
        id=text(value.get("id")),
        time=moment(value.get("timestamp")) or moment(value.get("created_at")),
        name="" if role is Role.TOOL else text(value.get("name")),
        model=text(value.get("model")),
        extra=extra,
    )


def _parts(value: dict[str, Json], role: Role) -> tuple[Part, ...]:
    content = value.get("content")
    if role is Role.TOOL:
        return (ToolResult(text(value.get("tool_call_id")), result_parts(content), text(value.get("name"))),)
    thought = text(value.get("reasoning_content")) or text(value.get("reasoning"))
    calls = tuple(_call(each) for each in as_list(value.get("tool_calls")) if isinstance(each, dict))
    if isinstance(value.get("function_call"), dict):
        calls = (*calls, _call({"function": value["function_call"]}))
    return (*((Thinking(thought),) if thought else ()), *parts_of(content), *calls)


def _call(call: dict[str, Json]) -> ToolCall:
    function = mapping(call.get("function"))
    return ToolCall(
        text(call.get("id")),
        text(function.get("name")) or text(call.get("name")),
        as_text(function.get("arguments", call.get("arguments"))),
        without(call, ("id", "type", "function", "name", "arguments")),
    )


# -------------------------------------------------------------------- answers in pieces


_MOST_WAITING = 1000  # items that may wait behind an open answer
_REMEMBERED = 1024  # answers whose usage is remembered; the pieces of an answer are never far apart


class Fragment(NamedTuple):
    """A message, or a piece of a message, as a single line of a file holds it."""

    message: Message
    answer: str = ""  # the id of the answer it is a piece of; without an id, only neighbours are joined
    usage: TranscriptUsage | None = None  # the usage of the whole answer, as far as this line knows it
    size: int = 0

    @property
    def side(self) -> object:
        """The conversation that the fragment belongs to: a subagent's id, or None for the main
        conversation.
        """
        return self.message.extra.get(SIDE)


StreamItem: TypeAlias = "Fragment | TranscriptUsage | SessionFacts | Unread"
Stream: TypeAlias = "Iterator[StreamItem]"


def join_answers(stream: Stream) -> Iterator[FileItem]:
    """Yield the messages of a stream with the pieces of each answer joined into one message.

    Agents write each thought, text and tool call on a line of its own, with tool results between them. Here
    each answer is one message, followed by its usage and its results, as the provider received it: a call
    split from its neighbours would look like a call without a result. Everything else keeps its order.
    """
    joining = _AnswerJoiner()
    for each in stream:
        yield from joining.add(each)
    yield from joining.close()


class _AnswerJoiner:
    def __init__(self) -> None:
        self._open: Fragment | None = None
        self._waiting: list[StreamItem] = []
        self._size = 0
        self._counted: OrderedDict[str, TranscriptUsage] = OrderedDict()

    def add(self, item: StreamItem) -> Iterator[FileItem]:
        if self._open is None:
            yield from self._first(item)
            return
        if not isinstance(item, Fragment):
            self._waiting.append(item)
        elif item.side != self._open.side and item.side:
            self._keep_for_later(item)
        elif self._continues(item):
            self._open = _join(self._open, item)
        elif item.message.role is Role.TOOL and item.side == self._open.side:
            self._waiting.append(item)
        else:
            yield from self.close()
            yield from self._first(item)
            return
        self._size += item.size if isinstance(item, Fragment) else 0
        if self._size > LONGEST or len(self._waiting) > _MOST_WAITING:
            yield from self.close()

    def close(self) -> Iterator[FileItem]:
        """Yield the answer that is being joined, its usage, and the items that waited for its end."""
        waiting, self._waiting, self._size = self._waiting, [], 0
        if self._open is not None:
            yield from self._emit(self._open)
            self._open = None
        yield from (item for item in waiting if isinstance(item, TranscriptUsage))
        for item in waiting:
            if isinstance(item, Fragment):
                yield from self._emit(item)
            elif not isinstance(item, TranscriptUsage):
                yield item

    def _first(self, item: StreamItem) -> Iterator[FileItem]:
        if isinstance(item, Fragment) and item.message.role is Role.ASSISTANT:
            self._open, self._size = item, item.size
        elif isinstance(item, Fragment):
            yield from self._emit(item)
        else:
            yield item

    def _continues(self, fragment: Fragment) -> bool:
        if (
            self._open is None
            or fragment.message.role is not Role.ASSISTANT
            or fragment.answer != self._open.answer
        ):
            return False
        return bool(fragment.answer) or not any(
            isinstance(item, Fragment) and item.message.role is Role.TOOL for item in self._waiting
        )

    def _keep_for_later(self, fragment: Fragment) -> None:
        """Keep a subagent's line until the main answer is complete.

        It is joined to the subagent's line before if both are pieces of one answer.
        """
        for at in range(len(self._waiting) - 1, -1, -1):
            item = self._waiting[at]
            if isinstance(item, Fragment) and item.side == fragment.side:
                if (
                    fragment.answer
                    and fragment.answer == item.answer
                    and fragment.message.role is Role.ASSISTANT
                ):
                    self._waiting[at] = _join(item, fragment)
                    return
                break
        self._waiting.append(fragment)

    def _emit(self, fragment: Fragment) -> Iterator[FileItem]:
        yield fragment.message
        if fragment.usage is None:
            return
        usage = fragment.usage
        if fragment.answer:
            before = self._counted.pop(fragment.answer, None)
            self._counted[fragment.answer] = usage
            if len(self._counted) > _REMEMBERED:
                self._counted.popitem(last=False)
            usage = _added_usage(usage, before) if before else usage
        if usage.total or usage.cost:
            yield usage


def _join(first: Fragment, second: Fragment) -> Fragment:
    first_message, second_message = first.message, second.message
    ids = [
        *first_message.extra.get("ids", ()),
        *((second_message.id,) if second_message.id and second_message.id != first_message.id else ()),
    ]
    extra = {**second_message.extra, **first_message.extra, **({"ids": ids} if ids else {})}
    if second_message.extra.get("stop_reason"):
        extra["stop_reason"] = second_message.extra["stop_reason"]
    message = first_message._replace(
        parts=first_message.parts + second_message.parts,
        model=first_message.model or second_message.model,
        extra=extra,
    )
    usage = _later_usage(first.usage, second.usage)
    return first._replace(message=message, usage=usage, size=first.size + second.size)


def _later_usage(one: TranscriptUsage | None, two: TranscriptUsage | None) -> TranscriptUsage | None:
    """Return the later usage of a call that several lines report; its counts only grow while the answer is
    written.
    """
    if one is None or two is None:
        return one or two
    return two if two.total >= one.total else one


def _added_usage(usage: TranscriptUsage, before: TranscriptUsage) -> TranscriptUsage:
    """Return the usage that a late line of an answer adds to the usage already counted."""
    return usage._replace(
        input=max(usage.input - before.input, 0),
        output=max(usage.output - before.output, 0),
        cached=max(usage.cached - before.cached, 0),
        total=max(usage.total - before.total, 0),
        cost=max(usage.cost - before.cost, 0.0),
    )
