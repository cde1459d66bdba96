"""What a reader of foreign transcripts works with: JSON out of files in any state, and messages out of JSON.

Knows bytes, lines, JSON and blocks, and no agent. Damage is told as `Unread` values with the line it is on,
and what is whole before and after it is still given; a value takes whatever is there and never raises. Takes
the blocks of Anthropic, OpenAI, Google and pi; what it does not know it carries as `Opaque`.
"""

from __future__ import annotations

import json
import math
import re
from collections import OrderedDict
from datetime import UTC, datetime
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from vademecum.text import clock
from vademecum.transcripts import (
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

    from vademecum.transcripts import Json, Part

    Seen = Callable[[int], object]

LONGEST = 64 * 1024 * 1024  # of a line, in bytes
LARGEST = 256 * 1024 * 1024  # of a file that is one JSON value and has to be held as a whole
DEEPEST = 200  # levels of nesting; Python's own limit is near 1,000, and others come after us
HEAD = 64 * 1024  # what is read of a file to recognise it

_LONG_HEAD = 8 * 1024 * 1024
_SKIP = 1024 * 1024

# Half a surrogate pair is no character, and no file, index or terminal takes it. JavaScript writes them when
# it cuts a text in the middle of an emoji. Every escape is matched, so that one that only looks like half a
# pair, behind an escaped backslash, is left alone.
_ESCAPE = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>u[dD][89a-fA-F][0-9a-fA-F]{2})|.)",
    re.S,
)
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")

_MILLISECONDS = 1e11  # a number of seconds as large as this is in the year 5138
_LARGEST_COUNT = 2**63 - 1
_STAMP = 100  # characters; a time is shorter, and nothing longer is remembered


class TranscriptUsage(NamedTuple):
    """What a call cost, as the provider counted it.

    `input` is the whole prompt, whichever way a provider splits it, and `cached` the part of it read from
    a cache; `output` has the thoughts in it. A reader tells it once for each call, and right after the answer
    it paid for where the file says which that is.
    """

    input: int = 0
    output: int = 0
    cached: int = 0
    total: int = 0
    cost: float = 0.0
    model: str = ""
    time: str = ""


class SessionFacts(NamedTuple):
    """What a file says of its session as a whole; later ones add to earlier ones."""

    id: str = ""
    title: str = ""
    folder: str = ""  # the working directory
    created: str = ""
    model: str = ""


class Unread(NamedTuple):
    """A line or a part that could not be understood: where, and why; everything else is read."""

    line: int
    why: str


def unseen(_bytes: int) -> None:
    """Nobody wants to know how far a reader is."""


Found: TypeAlias = Message | TranscriptUsage | SessionFacts | Unread


class FactsSoFar:
    """What was told of a session so far; each thing is told once, and a title again when it changes."""

    def __init__(self) -> None:
        self._told: dict[str, str] = {}

    def tell(self, **found: str) -> list[SessionFacts]:
        """One `SessionFacts` with what is new in this, or none."""
        new = {
            name: value
            for name, value in found.items()
            if value and (name not in self._told or (name == "title" and self._told[name] != value))
        }
        self._told.update(new)
        return [SessionFacts(**new)] if new else []

    def __getitem__(self, name: str) -> str:
        return self._told.get(name, "")


# -------------------------------------------------------------------- lines and documents


class JsonLine(NamedTuple):
    """One record of a file: where it stands, what it is, and how many bytes it took."""

    number: int
    value: dict[str, Json]
    size: int


def lines(path: Path, seen: Seen = unseen) -> Iterator[JsonLine | Unread]:
    """Every record of a JSONL file, one line in memory at a time."""
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
            if not ended:  # the end as we saw it: what its agent has written behind it by now is of this line
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


def parse(words: str) -> Json:
    """A JSON text, with control characters, NaN and half characters forgiven; ValueError when it is none."""
    try:
        value = _DECODER.decode(_whole(words))
    except RecursionError:
        raise ValueError("nested too deeply") from None
    if words.count("[") + words.count("{") > DEEPEST and _too_deep(value):
        raise ValueError("nested too deeply")
    return value


def _whole(words: str) -> str:
    if not _SURROGATE.search(words):
        return words
    return _ESCAPE.sub(lambda found: "\\ufffd" if found["half"] else found[0], words)


def _finite(digits: str) -> float | None:
    """A number; NaN and the infinities, which JSON has not, are nothing."""
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
    """A file that is one JSON value; of a damaged one, everything whole before the damage."""
    if path.stat().st_size > LARGEST:
        return None, [Unread(0, f"the file is larger than {LARGEST // (1024 * 1024)} MiB")]
    return document_in(path.read_bytes())


def document_in(content: bytes) -> tuple[Json, list[Unread]]:
    """The one JSON value in a file's bytes, as `document` reads it."""
    body = content.removeprefix(b"\xef\xbb\xbf").strip(b"\0 \t\r\n")
    problems = [] if _valid(body) else [Unread(0, "not UTF-8; each damaged character is read as U+FFFD")]
    words = body.decode("utf-8", "replace")
    if not words:
        return None, [*problems, Unread(0, "the file is empty")]
    try:
        return parse(words), problems
    except ValueError:
        words = _whole(words)
        value, where, why = _salvage(words)
        return value, [
            *problems,
            Unread(words.count("\n", 0, where) + 1, why or "there is data after the end"),
        ]


_BLANK = re.compile(r"[ \t\r\n]*")


def _salvage(words: str) -> tuple[Json, int, str]:
    """What can be read of a torn list or object, and of lists right below it; where it stops, and why."""
    if words[0] == "[":
        return _salvage_list(words, 0)
    if words[0] != "{":
        return None, 0, "not JSON"
    found: dict[str, Json] = {}
    at = _after_blanks(words, 1)
    while at < len(words) and words[at] != "}":
        try:
            name, at = _value(words, at)
            at = _after_blanks(words, at)
            if not isinstance(name, str) or words[at : at + 1] != ":":
                return found, at, "not JSON from here on"
            at = _after_blanks(words, at + 1)
            if words[at : at + 1] == "[":
                items, end, why = _salvage_list(words, at)
                found[name] = items
                if why:
                    return found, end, why
                at = end
            else:
                found[name], at = _value(words, at)
        except ValueError as error:
            return found, at, str(error)
        at = _after_comma(words, at)
    return found, at, "" if at < len(words) else "the file is incomplete"


def _salvage_list(words: str, at: int) -> tuple[list[Json], int, str]:
    found: list[Json] = []
    at = _after_blanks(words, at + 1)
    while at < len(words) and words[at] != "]":
        try:
            value, at = _value(words, at)
        except ValueError as error:
            return found, at, str(error)
        found.append(value)
        at = _after_comma(words, at)
    return found, at + 1, "" if at < len(words) else "the file is incomplete"


def _value(words: str, at: int) -> tuple[Json, int]:
    try:
        value, end = _DECODER.raw_decode(words, at)
    except RecursionError:
        raise ValueError("nested too deeply from here on") from None
    except ValueError as error:
        raise ValueError(f"not JSON from here on ({error})") from None
    if _too_deep(value):
        raise ValueError("nested too deeply from here on")
    return value, end


def _after_blanks(words: str, at: int) -> int:
    found = _BLANK.match(words, at)
    return found.end() if found else at


def _after_comma(words: str, at: int) -> int:
    at = _after_blanks(words, at)
    return _after_blanks(words, at + 1) if words[at : at + 1] == "," else at


def head_of(path: Path) -> bytes:
    """The first bytes of a file, enough to recognise it by: of lines, at least one that is whole."""
    with path.open("rb") as file:
        head = file.read(HEAD)
        # An agent's first line may hold all its instructions, or what a person pasted.
        return head if path.suffix != ".jsonl" or b"\n" in head else head + file.readline(_LONG_HEAD)


def first_records(head: bytes, most: int = 50) -> list[dict[str, Json]]:
    """The records among the first lines of a file; a line that is none, or is cut off, is passed over."""
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
    """Whether a file is one JSON value, over several lines or on one that is longer than the head."""
    body = head.lstrip(b"\xef\xbb\xbf\0 \t\r\n")
    if first_records(head, most=1) or not body:
        return False
    return body.startswith(b"[") or (body.startswith(b"{") and not first_records(head))


# -------------------------------------------------------------------- values


def text(value: Json) -> str:
    """The string, or nothing."""
    return value if isinstance(value, str) else ""


def mapping(value: Json) -> dict[str, Json]:
    """The object, or an empty one."""
    return value if isinstance(value, dict) else {}


def listed(value: Json) -> list[Json]:
    """The list, or an empty one."""
    return value if isinstance(value, list) else []


def count(value: Json) -> int:
    """The number of something, or none."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return min(max(int(value), 0), _LARGEST_COUNT)


def amount(value: Json) -> float:
    """The sum of money, or none."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return 0.0
    try:
        return float(value) if math.isfinite(value) else 0.0
    except OverflowError:
        return 0.0


def written(value: Json) -> str:
    """A value as text: a string as it is, nothing as nothing, the rest as JSON."""
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def moment(value: Json) -> str:
    """A time as our stamps are written, from ISO text or (milli)seconds since 1970; else nothing."""
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
    """What else an object holds and says; the empty and the false are left out."""
    known = frozenset(names)
    return {name: each for name, each in value.items() if name not in known and _says(each)}


def _says(value: Json) -> bool:
    return bool(value) or (
        value is not None and value is not False and not isinstance(value, str | list | dict)
    )


# -------------------------------------------------------------------- blocks


_TEXTS = frozenset(
    {"text", "input_text", "output_text", "summary_text", "reasoning_text", "inputText", "Text"}
)
_DATA = re.compile(r"data:(?P<media>[^;,]*);base64,", re.ASCII)


def parts_of(content: Json) -> tuple[Part, ...]:
    """A message's content as parts: words, one block, or a list of them."""
    if content is None or content == "":
        return ()
    if isinstance(content, list):
        return tuple(part_of(block) for block in content)
    return (part_of(content),)


def part_of(block: Json) -> Part:
    """One block as a part."""
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
        return ToolCall(text(block.get("id")), text(block.get("name")), written(arguments), rest)
    if kind == "tool_result":
        return ToolResult(
            text(block.get("tool_use_id")),
            result_parts(block.get("content")),
            error=block.get("is_error") is True,
            extra=without(block, ("type", "tool_use_id", "content", "is_error")),
        )
    return Opaque(block)


def _text(block: dict[str, Json]) -> Part:
    """Words, or one of Google's parts, which have no type."""
    if isinstance(block.get("text"), str):
        rest = without(block, ("type", "text", "thought"))
        return (Thinking if block.get("thought") is True else Text)(block["text"], rest)
    call = block.get("functionCall")
    if isinstance(call, dict):
        rest = without({**block, **call}, ("functionCall", "id", "name", "args"))
        return ToolCall(text(call.get("id")), text(call.get("name")), written(call.get("args")), rest)
    answer = block.get("functionResponse")
    if isinstance(answer, dict):
        return ToolResult(text(answer.get("id")), answer_parts(answer), text(answer.get("name")))
    return image_of(block) or Opaque(block)


def answer_parts(answer: dict[str, Json]) -> tuple[Text | Image | Opaque, ...]:
    """What a Google function answered: its output when it is words, else all of it."""
    response = answer.get("response")
    words = mapping(response).get("output")
    if isinstance(words, str) and len(mapping(response)) == 1:
        return (Text(words), *result_parts(answer.get("parts")))
    return (*result_parts(written(response)), *result_parts(answer.get("parts")))


def result_parts(content: Json) -> tuple[Text | Image | Opaque, ...]:
    """A tool's result as the parts that a result may have."""
    found = (part if isinstance(part, Text | Image | Opaque) else None for part in parts_of(content))
    blocks = content if isinstance(content, list) else [content]
    return tuple(
        part if part is not None else Opaque(block) for part, block in zip(found, blocks, strict=False)
    )


def image_of(block: dict[str, Json]) -> Image | None:
    """A picture, however it is enclosed."""
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
    """The words in a list of blocks."""
    return [part.text for part in parts_of(listed(value)) if isinstance(part, Text)]


# -------------------------------------------------------------------- messages of a chat


_ROLES = {**ROLES, "human": Role.USER, "ai": Role.ASSISTANT, "model": Role.ASSISTANT}
_KNOWN = (
    "role content id timestamp created_at name model tool_calls tool_call_id reasoning_content "
    "reasoning function_call"
).split()


def chat_message(value: dict[str, Json]) -> Message:
    """A message of OpenAI's chat or Anthropic's as ours; an unknown role is the system's, and flagged."""
    spoken = value.get("role")
    if isinstance(spoken, dict):  # an old CLIO put the message into its role
        return chat_message({**value, "role": None, **spoken})
    role = _ROLES.get(text(spoken))
    extra = without(value, _KNOWN)
    if role is None:
        role, extra[META] = Role.SYSTEM, written(spoken) or "no role"
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
    calls = tuple(_call(each) for each in listed(value.get("tool_calls")) if isinstance(each, dict))
    if isinstance(value.get("function_call"), dict):
        calls = (*calls, _call({"function": value["function_call"]}))
    return (*((Thinking(thought),) if thought else ()), *parts_of(content), *calls)


def _call(given: dict[str, Json]) -> ToolCall:
    function = mapping(given.get("function"))
    return ToolCall(
        text(given.get("id")),
        text(function.get("name")) or text(given.get("name")),
        written(function.get("arguments", given.get("arguments"))),
        without(given, ("id", "type", "function", "name", "arguments")),
    )


# -------------------------------------------------------------------- answers in pieces


_MOST = 1000  # what may wait behind an open answer
_REMEMBERED = 1024  # answers whose cost is remembered; pieces of one are never far apart


class Fragment(NamedTuple):
    """A message, or a piece of one, as a line had it."""

    message: Message
    answer: str = ""  # the answer it is a piece of; without one, only neighbours are joined
    usage: TranscriptUsage | None = None  # what the whole answer cost, as far as this line knew
    size: int = 0

    @property
    def side(self) -> object:
        """Whose conversation it is part of."""
        return self.message.extra.get(SIDE)


Bit: TypeAlias = "Fragment | TranscriptUsage | SessionFacts | Unread"
Stream: TypeAlias = "Iterator[Bit]"


def joined(stream: Stream) -> Iterator[Found]:
    """The same messages with each answer whole; everything else keeps its order.

    Agents write each thought, text and tool call on a line of its own, and results in between as they come.
    One answer is one message here, followed by what it cost and by its results, as the provider was sent it:
    a call apart from its neighbours would look like one whose result is missing.
    """
    joining = _Joining()
    for each in stream:
        yield from joining.add(each)
    yield from joining.close()


class _Joining:
    def __init__(self) -> None:
        self._open: Fragment | None = None
        self._held: list[Bit] = []
        self._size = 0
        self._counted: OrderedDict[str, TranscriptUsage] = OrderedDict()

    def add(self, each: Bit) -> Iterator[Found]:
        if self._open is None:
            yield from self._first(each)
            return
        if not isinstance(each, Fragment):
            self._held.append(each)
        elif each.side != self._open.side and each.side:
            self._hold(each)
        elif self._continues(each):
            self._open = _join(self._open, each)
        elif each.message.role is Role.TOOL and each.side == self._open.side:
            self._held.append(each)
        else:
            yield from self.close()
            yield from self._first(each)
            return
        self._size += each.size if isinstance(each, Fragment) else 0
        if self._size > LONGEST or len(self._held) > _MOST:
            yield from self.close()

    def close(self) -> Iterator[Found]:
        """Give out the open answer, what it cost, and what waited behind it."""
        held, self._held, self._size = self._held, [], 0
        if self._open is not None:
            yield from self._given(self._open)
            self._open = None
        yield from (each for each in held if isinstance(each, TranscriptUsage))
        for each in held:
            if isinstance(each, Fragment):
                yield from self._given(each)
            elif not isinstance(each, TranscriptUsage):
                yield each

    def _first(self, each: Bit) -> Iterator[Found]:
        if isinstance(each, Fragment) and each.message.role is Role.ASSISTANT:
            self._open, self._size = each, each.size
        elif isinstance(each, Fragment):
            yield from self._given(each)
        else:
            yield each

    def _continues(self, each: Fragment) -> bool:
        if self._open is None or each.message.role is not Role.ASSISTANT or each.answer != self._open.answer:
            return False
        return bool(each.answer) or not any(
            isinstance(held, Fragment) and held.message.role is Role.TOOL for held in self._held
        )

    def _hold(self, each: Fragment) -> None:
        """Keep a subagent's line for later, joined to the line before it in the same conversation."""
        for at in range(len(self._held) - 1, -1, -1):
            held = self._held[at]
            if isinstance(held, Fragment) and held.side == each.side:
                if each.answer and each.answer == held.answer and each.message.role is Role.ASSISTANT:
                    self._held[at] = _join(held, each)
                    return
                break
        self._held.append(each)

    def _given(self, each: Fragment) -> Iterator[Found]:
        yield each.message
        if each.usage is None:
            return
        usage = each.usage
        if each.answer:
            before = self._counted.pop(each.answer, None)
            self._counted[each.answer] = usage
            if len(self._counted) > _REMEMBERED:
                self._counted.popitem(last=False)
            usage = _more(usage, before) if before else usage
        if usage.total or usage.cost:
            yield usage


def _join(piece: Fragment, other: Fragment) -> Fragment:
    one, two = piece.message, other.message
    ids = [*one.extra.get("ids", ()), *((two.id,) if two.id and two.id != one.id else ())]
    extra = {**two.extra, **one.extra, **({"ids": ids} if ids else {})}
    if two.extra.get("stop_reason"):
        extra["stop_reason"] = two.extra["stop_reason"]
    message = one._replace(parts=one.parts + two.parts, model=one.model or two.model, extra=extra)
    usage = _most(piece.usage, other.usage)
    return piece._replace(message=message, usage=usage, size=piece.size + other.size)


def _most(one: TranscriptUsage | None, two: TranscriptUsage | None) -> TranscriptUsage | None:
    """What is known of a call's cost after another line of it; the counts only grow while it is written."""
    if one is None or two is None:
        return one or two
    return two if two.total >= one.total else one


def _more(usage: TranscriptUsage, before: TranscriptUsage) -> TranscriptUsage:
    """What a late line of an answer adds to what was already counted for it."""
    return usage._replace(
        input=max(usage.input - before.input, 0),
        output=max(usage.output - before.output, 0),
        cached=max(usage.cached - before.cached, 0),
        total=max(usage.total - before.total, 0),
        cost=max(usage.cost - before.cost, 0.0),
    )
