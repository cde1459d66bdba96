"""Messages in one format of our own, whichever provider they go to or come from.

This module knows no provider's format: `shapes/` converts between those and ours. Fields of a provider that
our format lacks are kept in `extra` and `Opaque`, so that a conversion to our format and back loses nothing.
"""

from __future__ import annotations

import json
from enum import StrEnum
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import SPOKEN, is_command
from vademecum.tokens import weigh

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

Json: TypeAlias = Any  # any value that JSON text can hold
NOTHING: Mapping[str, Json] = {}

# Keys of a message's `extra` that say where the message stands in the conversation. An ordinary message has
# none of them.
META = "meta"  # the agent's machinery wrote the message, no person or model; the value names the kind of line
SIDE = "side"  # the message belongs to a subagent's conversation; the value is the subagent's id, or True
LEFT = "left"  # the message is on an abandoned branch, or was taken back
SUMMARY = "summary"  # the message is the summary that replaced compacted messages


class Role(StrEnum):
    """The author of a message."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Text(NamedTuple):
    """A part of a message that is text."""

    text: str
    extra: Mapping[str, Json] = NOTHING


class Thinking(NamedTuple):
    """A part of a message with the model's reasoning before its answer; some providers want it sent back,
    signed.
    """

    text: str
    extra: Mapping[str, Json] = NOTHING


class Image(NamedTuple):
    """A part of a message with a picture: base64 in `data`, or an address in `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    extra: Mapping[str, Json] = NOTHING


class ToolCall(NamedTuple):
    """An assistant's call of a tool; `arguments` is the JSON text as the provider sent it."""

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Json] = NOTHING


class ToolResult(NamedTuple):
    """The result of a tool; `id` is the id of the call that it answers."""

    id: str
    content: tuple[Text | Image | Opaque, ...]
    name: str = ""
    error: bool = False
    extra: Mapping[str, Json] = NOTHING

    @property
    def text(self) -> str:
        """The text of the result, without pictures."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


class Opaque(NamedTuple):
    """A value in a provider's format that our format does not know, kept unchanged."""

    value: Json


Part: TypeAlias = Text | Thinking | Image | ToolCall | ToolResult | Opaque


class Message(NamedTuple):
    """A message: its author and its parts in order."""

    role: Role
    parts: tuple[Part, ...]
    id: str = ""
    time: str = ""  # as stamps are written: 2026-11-15T08:15:32Z
    name: str = ""
    model: str = ""
    extra: Mapping[str, Json] = NOTHING

    @property
    def text(self) -> str:
        """The text of the message, without reasoning, tool calls and pictures."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tool calls in this message."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The tool results in this message."""
        return tuple(part for part in self.parts if isinstance(part, ToolResult))


_NAMES: dict[type, str] = {
    Text: "text",
    Thinking: "thinking",
    Image: "image",
    ToolCall: "tool_call",
    ToolResult: "tool_result",
    Opaque: "opaque",
}
_KINDS: dict[str, type] = {name: kind for kind, name in _NAMES.items()}


def to_json(message: Message) -> dict[str, Json]:
    """Return the JSON object that a transcript holds for a message; empty fields are left out."""
    fields = {name: value for name, value in message._asdict().items() if value and name != "parts"}
    return {**fields, "role": str(message.role), "parts": [_part_to_json(part) for part in message.parts]}


def from_json(value: Mapping[str, Json]) -> Message:
    """Return the message in a transcript's JSON; raise ValueError, KeyError or TypeError for
    anything else.
    """
    fields = {name: value[name] for name in ("id", "time", "name", "model", "extra") if name in value}
    return Message(Role(value["role"]), tuple(_part_from_json(part) for part in value["parts"]), **fields)


def _part_to_json(part: Part) -> dict[str, Json]:
    fields = {name: value for name, value in part._asdict().items() if value and name != "content"}
    if isinstance(part, ToolResult):
        fields["content"] = [_part_to_json(each) for each in part.content]
    if isinstance(part, Opaque):
        fields["value"] = part.value
    return {"type": _NAMES[type(part)], **fields}


def _part_from_json(value: Mapping[str, Json]) -> Part:
    kind = _KINDS[value["type"]]
    fields = {name: each for name, each in value.items() if name != "type"}
    if kind is ToolResult:
        fields["content"] = tuple(_part_from_json(each) for each in fields.get("content", ()))
    for name in _REQUIRED.get(kind, ()):
        fields.setdefault(name, "")
    part: Part = kind(**fields)
    return part


_REQUIRED: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    Thinking: ("text",),
    ToolCall: ("id", "name", "arguments"),
    ToolResult: ("id",),
    Opaque: ("value",),
}


# -------------------------------------------------------------------- requests and small talk
# Two tests tell a request from a greeting or a confirmation. `asks_something` is lenient: one real word is
# enough to name a session. `is_substantive` is strict: only a message that surely is a new task replaces a
# task.

_ENOUGH_BYTES = 50
_ENOUGH_WORDS = 4
_ENOUGH_CONTENT = 18
_JUDGED_CHARS = 2000  # characters of a text, enough to judge the text
_SMALL = frozenset(
    """a about absolutely ack afternoon again agreed ah ahead all alright also am amazing and another
    any approve approved are as at awesome b back be begin best bitte bonjour both but bye c can carry
    cheers ciao claro clear continue cool correct could course danke definitely do does doing don't
    done either else evening everyone everything exactly excellent fantastic far fine first for from
    gerne go going good got gracias great gut haha hallo have hello help here hey hi hm hmm hola how i
    i'm if in indeed instead is it it's ja just k keep kk last later let let's lets lgtm like lol
    looking looks los love makes many maybe me merci mind moin more morning move much my n nah nein
    next nice no non none nope not nothing now of off oh ok okay okey oki on one onward option or
    other oui our out over perfect please pls possible proceed proceeding ready really resume right
    salut same second see sense servus shall ship should si so some sounds start still stop stuff
    super sure sweet sì sí ta take thank thanks that that's thats the them then there these they thing
    things think third this those thumbs thx to too try two ty up us use very vielen wait want was way
    we weiter well what when which will with wonderful work works would wow wunderbar y ya yay yeah
    yep yes yet you you're your yup
    好 好的 是 是的 对 继续 可以 行 嗯 谢谢 你好 您好
    はい いいえ うん お願いします ありがとう こんにちは 続けて
    네 예 계속 감사합니다 안녕하세요 да нет хорошо спасибо""".split()
)
_SMALL_ALONE = frozenset(("day", "ping", "test"))  # small talk alone, real words among others
_CONTROL = lazy_pattern(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
LONGEST_NAME = 60


def content_words(text: str) -> list[str]:
    """Return the words of a text without words of small talk."""
    words = (word.lower().replace("’", "'") for word in SPOKEN.findall(text[:_JUDGED_CHARS]))
    return [word for word in words if word not in _SMALL and not word.isdecimal()]


def asks_something(text: str) -> bool:
    """Whether a text asks for something; greetings, short confirmations and chat commands do not."""
    words = content_words(text)
    return not is_command(text) and sum(map(weigh, words)) > 2 and not set(words) <= _SMALL_ALONE


def is_substantive(text: str) -> bool:
    """Whether a text is long enough to be a task.

    It is if four of its words are not small talk, or if it has 50 bytes and some words that are not small
    talk. Bytes are counted because 17 Chinese characters make a sentence. "yes, that looks good to me, please
    commit it and go on" is long, but only a confirmation.
    """
    words = content_words(text)
    bytes_ = sum(map(weigh, words))
    return len(words) >= _ENOUGH_WORDS or (weigh(text) >= _ENOUGH_BYTES and bytes_ >= _ENOUGH_CONTENT)


def name_from(message: Message) -> str:
    """Return a session name made from a user's request; empty for other messages, greetings and
    confirmations.
    """
    text = message.text.replace(ASIDE, "")
    if message.role is not Role.USER or is_aside(message) or not asks_something(text):
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    line = next(filter(asks_something, lines), lines[0])
    words = " ".join(_CONTROL.sub("", line).split()).lstrip("#>*- ")
    if len(words) <= LONGEST_NAME:
        return words
    short = words[: LONGEST_NAME - 1]
    return (short.rpartition(" ")[0] if " " in short[20:] else short).rstrip(" ,.;:") + "…"


def is_aside(message: Message) -> bool:
    """Whether an imported message is outside of the conversation: machinery, an abandoned branch or a
    summary.
    """
    return any(message.extra.get(mark) for mark in (META, SIDE, LEFT, SUMMARY))


# -------------------------------------------------------------------- calls of memory's tools
# Text that memory injected and calls of memory's tools are not part of the conversation: if a search found
# them, memory would confirm itself by its own echo. The copy of a session leaves out injected blocks. It
# keeps the calls and results, and search skips them.

ASIDE = "[what memory told the agent]"
# The first line of memory's own prompts to an agent's command; a session with this line is not imported.
OWN_REQUEST = "<vade-request>Memory asks this by itself.</vade-request>"
_NAMED = "vade-memory"
# Agents escape the marks in different ways: as HTML entities, once or twice, or as JSON escapes.
_LESS, _MORE = r"(?:<|&(?:amp;)?lt;|\\u003[cC])", r"(?:>|&(?:amp;)?gt;|\\u003[eE])"
_BLOCK_START = lazy_pattern(rf"{_LESS}{_NAMED}{_MORE}")
_BLOCK_END = lazy_pattern(
    rf"{_LESS}/{_NAMED}{_MORE}"
)  # content cannot hold this mark, because the renderer escapes brackets
_OURS = lazy_pattern(r"(?<![a-z])vade(?![a-z])")
_BARE = frozenset(
    """memory_store memory_recall memory_forget memory_search memory_get memory_note memory_operations
    recall_memory list_memories session_search session_get""".split()
)
# Tools that call or look up other tools, which the agent has not listed to the model.
_DISPATCHERS = frozenset({"tool_call", "tool_search", "ToolSearch"})


def replace_memory_blocks(text: str, replacement: str = "") -> str:
    """Return a text with each block that memory injected replaced, however an agent has escaped the block.

    A block that was cut off has no end mark. Its first mark is recognised because it stands on a line of its
    own.
    """
    if _NAMED not in text:
        return text
    pieces, at = [], 0
    for start in _BLOCK_START.finditer(text):
        if start.start() < at:
            continue
        end = _BLOCK_END.search(text, start.end())
        if end is None and not text.startswith(("\n", "\\n"), start.end()):
            continue
        pieces += [text[at : start.start()], replacement]
        at = len(text) if end is None else end.end()
    return "".join([*pieces, text[at:]])


def is_memory_call(call: ToolCall) -> bool:
    """Whether a tool call is of one of memory's tools, under whatever name the agent uses for the tool."""
    if call.name in _DISPATCHERS:
        return any(map(is_memory_tool, _dispatched_names(call.arguments)))
    return is_memory_tool(call.name) or any(
        isinstance(value := call.extra.get(name), str) and bool(_OURS.search(value))
        for name in ("namespace", "server")
    )


def is_memory_tool(name: str) -> bool:
    """Whether a name belongs to one of memory's tools, such as `mcp__vade__todo` or `memory_search`."""
    return name in _BARE or bool(_OURS.search(name))


def _dispatched_names(arguments: str) -> list[str]:
    """Return the names of the tools that a dispatcher tool (a tool that calls others) is asked for."""
    if not _OURS.search(arguments):
        return []
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return []
    names = value.get("name") or value.get("query") if isinstance(value, dict) else None
    return names.removeprefix("select:").split(",") if isinstance(names, str) else []


def without_memory_calls(message: Message, calls: Container[str] = ()) -> Message:
    """Return a message without calls of memory's tools and without their results.

    `calls` are the ids of such calls in earlier messages.
    """
    parts = tuple(part for part in message.parts if not _is_memory_part(part, calls))
    return message if len(parts) == len(message.parts) else message._replace(parts=parts)


def _is_memory_part(part: Part, calls: Container[str]) -> bool:
    if isinstance(part, ToolCall):
        return is_memory_call(part)
    return isinstance(part, ToolResult) and (is_memory_tool(part.name) or bool(part.id and part.id in calls))


class OpenMemoryCalls:
    """The calls of memory's tools whose results have not come yet, while a thread is read in order."""

    MOST = 256  # open calls; the oldest are forgotten, because some calls never get a result

    def __init__(self, open: Iterable[str] = ()) -> None:
        self._open = dict.fromkeys(open)

    @property
    def open(self) -> tuple[str, ...]:
        """The ids of the calls that have no result yet."""
        return tuple(self._open)

    def without(self, message: Message) -> Message:
        """Return the next message without memory's tool calls and their results; update the open calls."""
        cleaned = without_memory_calls(message, self._open)
        for part in message.parts if cleaned is not message or self._open else ():
            if isinstance(part, ToolCall) and part.id and is_memory_call(part):
                self._open[part.id] = None
            elif isinstance(part, ToolResult):
                self._open.pop(part.id, None)
        for id in list(self._open)[: -self.MOST]:
            del self._open[id]
        return cleaned
