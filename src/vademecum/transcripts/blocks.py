"""What agents write of a conversation, as our messages: blocks, messages of a chat, and answers in pieces.

Takes the blocks of Anthropic, OpenAI, Google and pi; what it does not know it carries as `Opaque`.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

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
from vademecum.transcripts.reading import (
    LONGEST,
    SessionFacts,
    TranscriptUsage,
    Unread,
    listed,
    mapping,
    moment,
    text,
    without,
    written,
)
from vademecum.transcripts.shapes.round_trip import ROLES

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.transcripts.messages import Json, Part
    from vademecum.transcripts.reading import Found

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
