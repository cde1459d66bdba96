"""Messages as every part of the system sees them, whichever provider they go to or come from.

Knows no provider's shape: `shapes/` turns theirs into these and back. What a shape has and these have not is
carried along as it is, in `extra` and `Opaque`, so that nothing is lost on the way there and back.
"""

from __future__ import annotations

import json
import re
from enum import StrEnum
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vademecum.text import SPOKEN, is_command
from vademecum.tokens import weigh

if TYPE_CHECKING:
    from collections.abc import Container, Iterable, Mapping

Json: TypeAlias = Any  # what a JSON text can hold
NOTHING: Mapping[str, Json] = {}

# What a message's `extra` may say of its place in the conversation; a plain part of it has none of these.
META = "meta"  # the agent's machinery wrote it, nobody said it: the kind of line it was
SIDE = "side"  # it belongs to a subagent's conversation: the subagent's id, or True
LEFT = "left"  # it is on a branch that was left, or was taken back
SUMMARY = "summary"  # it stands for what a compaction took away


class Role(StrEnum):
    """Who speaks."""

    SYSTEM = "system"
    USER = "user"
    ASSISTANT = "assistant"
    TOOL = "tool"


class Text(NamedTuple):
    """Words."""

    text: str
    extra: Mapping[str, Json] = NOTHING


class Thinking(NamedTuple):
    """What a model thought before it spoke; some providers want it back, signed."""

    text: str
    extra: Mapping[str, Json] = NOTHING


class Image(NamedTuple):
    """A picture, as base64 in `data` or by its address in `url`."""

    media_type: str = ""
    data: str = ""
    url: str = ""
    extra: Mapping[str, Json] = NOTHING


class ToolCall(NamedTuple):
    """An assistant asks for a tool; `arguments` is the JSON text as it was given."""

    id: str
    name: str
    arguments: str
    extra: Mapping[str, Json] = NOTHING


class ToolResult(NamedTuple):
    """What a tool gave back, for the call with this id."""

    id: str
    content: tuple[Text | Image | Opaque, ...]
    name: str = ""
    error: bool = False
    extra: Mapping[str, Json] = NOTHING

    @property
    def text(self) -> str:
        """Its words, without pictures."""
        return "\n".join(part.text for part in self.content if isinstance(part, Text))


class Opaque(NamedTuple):
    """Something of a provider's that we do not know, carried as it is."""

    value: Json


Part: TypeAlias = Text | Thinking | Image | ToolCall | ToolResult | Opaque


class Message(NamedTuple):
    """One message: who speaks, and the parts in order."""

    role: Role
    parts: tuple[Part, ...]
    id: str = ""
    time: str = ""  # as stamps are written: 2026-11-15T08:15:32Z
    name: str = ""
    model: str = ""
    extra: Mapping[str, Json] = NOTHING

    @property
    def text(self) -> str:
        """Its words, without thoughts, tools and pictures."""
        return "\n".join(part.text for part in self.parts if isinstance(part, Text))

    @property
    def calls(self) -> tuple[ToolCall, ...]:
        """The tools it asks for."""
        return tuple(part for part in self.parts if isinstance(part, ToolCall))

    @property
    def results(self) -> tuple[ToolResult, ...]:
        """The results it brings."""
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
    """A message as it stands in a transcript; what is empty is left out."""
    found = {name: value for name, value in message._asdict().items() if value and name != "parts"}
    return {**found, "role": str(message.role), "parts": [_part_to_json(part) for part in message.parts]}


def from_json(value: Mapping[str, Json]) -> Message:
    """A message from a transcript; raises ValueError, KeyError or TypeError for what is none."""
    known = {name: value[name] for name in ("id", "time", "name", "model", "extra") if name in value}
    return Message(Role(value["role"]), tuple(_part_from_json(part) for part in value["parts"]), **known)


def _part_to_json(part: Part) -> dict[str, Json]:
    found = {name: value for name, value in part._asdict().items() if value and name != "content"}
    if isinstance(part, ToolResult):
        found["content"] = [_part_to_json(each) for each in part.content]
    if isinstance(part, Opaque):
        found["value"] = part.value
    return {"type": _NAMES[type(part)], **found}


def _part_from_json(value: Mapping[str, Json]) -> Part:
    kind = _KINDS[value["type"]]
    given = {name: each for name, each in value.items() if name != "type"}
    if kind is ToolResult:
        given["content"] = tuple(_part_from_json(each) for each in given.get("content", ()))
    for name in _REQUIRED.get(kind, ()):
        given.setdefault(name, "")
    part: Part = kind(**given)
    return part


_REQUIRED: dict[type, tuple[str, ...]] = {
    Text: ("text",),
    Thinking: ("text",),
    ToolCall: ("id", "name", "arguments"),
    ToolResult: ("id",),
    Opaque: ("value",),
}


# -------------------------------------------------------------------- what asks for something
# Which words of a user's ask for something, and which only greet, agree or hurry along. Two questions,
# because two mistakes are possible: a session may be named after one telling word, but a task is replaced
# only by what surely is another.

_ENOUGH_BYTES = 50
_ENOUGH_WORDS = 4
_ENOUGH_TELLING = 18
_LOOKED_AT = 2000  # characters of a text, enough to judge it by
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
_ALONE = frozenset(("day", "ping", "test"))  # small when nothing else is said, telling beside other words
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
LONGEST_NAME = 60


def telling(text: str) -> list[str]:
    """The words of a text that are no small talk."""
    words = (word.lower().replace("’", "'") for word in SPOKEN.findall(text[:_LOOKED_AT]))
    return [word for word in words if word not in _SMALL and not word.isdecimal()]


def says_something(text: str) -> bool:
    """Whether a text asks for something: not a greeting, a short confirmation or a command of the chat."""
    words = telling(text)
    return not is_command(text) and sum(map(weigh, words)) > 2 and not set(words) <= _ALONE


def is_substantive(text: str) -> bool:
    """Whether a text can be a task: four words that are no small talk, or 50 bytes of which some are none.

    Bytes, because 17 Chinese signs are a sentence; only some, because "yes, that looks good to me, please
    commit it and go on" is long and still a confirmation.
    """
    words = telling(text)
    bytes_ = sum(map(weigh, words))
    return len(words) >= _ENOUGH_WORDS or (weigh(text) >= _ENOUGH_BYTES and bytes_ >= _ENOUGH_TELLING)


def name_from(message: Message) -> str:
    """A name from a user's request; empty when it is none, or only a greeting or a word of consent."""
    text = message.text.replace(ASIDE, "")
    if message.role is not Role.USER or is_aside(message) or not says_something(text):
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    line = next(filter(says_something, lines), lines[0])
    words = " ".join(_CONTROL.sub("", line).split()).lstrip("#>*- ")
    if len(words) <= LONGEST_NAME:
        return words
    short = words[: LONGEST_NAME - 1]
    return (short.rpartition(" ")[0] if " " in short[20:] else short).rstrip(" ,.;:") + "…"


def is_aside(message: Message) -> bool:
    """Whether a message of an import is no plain part of the conversation: machinery, a branch, a summary."""
    return any(message.extra.get(mark) for mark in (META, SIDE, LEFT, SUMMARY))


# -------------------------------------------------------------------- our own traffic
# What memory told an agent, and what an agent asked of memory, is not what anybody said: were it found again,
# memory would confirm itself from its own echo. The block is left out of a copy; calls and results are kept
# there, and passed over by whoever looks for what was said.

ASIDE = "[what memory told the agent]"
_NAMED = "vade-memory"
# Agents write the marks out in their own ways: as entities, once or twice, or as escapes of JSON.
_LESS, _MORE = r"(?:<|&(?:amp;)?lt;|\\u003[cC])", r"(?:>|&(?:amp;)?gt;|\\u003[eE])"
_OPENED = re.compile(rf"{_LESS}{_NAMED}{_MORE}")
_CLOSED = re.compile(rf"{_LESS}/{_NAMED}{_MORE}")  # content cannot hold one: the renderer writes brackets out
_OURS = re.compile(r"(?<![a-z])vade(?![a-z])")
_BARE = frozenset(
    """memory_store memory_recall memory_forget memory_search memory_get memory_note memory_learn
    memory_operations session_search session_get""".split()
)
# Tools by which agents call others that they have not shown the model, or look for them.
_DISPATCHERS = frozenset({"tool_call", "tool_search", "ToolSearch"})


def without_block(text: str, instead: str = "") -> str:
    """A text with something else in place of every block of ours, however an agent has escaped it.

    A block that was cut off has no end; it is known by the line that its first mark has to itself.
    """
    if _NAMED not in text:
        return text
    found, at = [], 0
    for opened in _OPENED.finditer(text):
        if opened.start() < at:
            continue
        closed = _CLOSED.search(text, opened.end())
        if closed is None and not text.startswith(("\n", "\\n"), opened.end()):
            continue
        found += [text[at : opened.start()], instead]
        at = len(text) if closed is None else closed.end()
    return "".join([*found, text[at:]])


def is_own_call(call: ToolCall) -> bool:
    """Whether a call asks memory itself, whatever its agent calls the tool."""
    if call.name in _DISPATCHERS:
        return any(map(is_own_tool, _dispatched(call.arguments)))
    return is_own_tool(call.name) or any(
        isinstance(where := call.extra.get(name), str) and bool(_OURS.search(where))
        for name in ("namespace", "server")
    )


def is_own_tool(name: str) -> bool:
    """Whether a tool is one of memory's, by its name alone: `mcp__vade__todo`, or `memory_search`."""
    return name in _BARE or bool(_OURS.search(name))


def _dispatched(arguments: str) -> list[str]:
    """The tools that a dispatcher is to call, or to look for by their names."""
    if not _OURS.search(arguments):
        return []
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return []
    wanted = given.get("name") or given.get("query") if isinstance(given, dict) else None
    return wanted.removeprefix("select:").split(",") if isinstance(wanted, str) else []


def without_own(message: Message, calls: Container[str] = ()) -> Message:
    """A message without what it asks memory and what it answered; `calls` are ids of earlier such calls."""
    kept = tuple(part for part in message.parts if not _is_own(part, calls))
    return message if len(kept) == len(message.parts) else message._replace(parts=kept)


def _is_own(part: Part, calls: Container[str]) -> bool:
    if isinstance(part, ToolCall):
        return is_own_call(part)
    return isinstance(part, ToolResult) and (is_own_tool(part.name) or bool(part.id and part.id in calls))


class OwnCalls:
    """The calls of memory's own tools that wait for their results, while a thread is read in its order."""

    MOST = 256  # that are waited for: a call whose result never came is forgotten one day

    def __init__(self, open: Iterable[str] = ()) -> None:
        self._open = dict.fromkeys(open)

    @property
    def open(self) -> tuple[str, ...]:
        """The ids of those that are still without a result."""
        return tuple(self._open)

    def without(self, message: Message) -> Message:
        """The next message, without what is ours."""
        said = without_own(message, self._open)
        for part in message.parts if said is not message or self._open else ():
            if isinstance(part, ToolCall) and part.id and is_own_call(part):
                self._open[part.id] = None
            elif isinstance(part, ToolResult):
                self._open.pop(part.id, None)
        for id in list(self._open)[: -self.MOST]:
            del self._open[id]
        return said
