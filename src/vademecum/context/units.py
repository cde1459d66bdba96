"""Messages in units kept or dropped whole: how large, repaired for providers, and which of them leave.

Pure. Every call has its result right behind it after `gather`, whatever the messages were. What rides along
in `extra` is a provider's envelope and is not counted; pictures count as pictures, never as the letters that
carry them.

Never dropped by `trim`: the system messages the conversation starts with, the last message in which the user
speaks, and the newest unit. The rest is kept from the newest backwards, without gaps. The first task is not
kept as a message: the thread summary carries it. When what is never dropped is too large by itself, the
newest unit and the user's message are cut; the system prompt never is, so a window can stay above its target
only when that prompt, or the mere names and ids of the newest unit, are larger than it.
"""

from __future__ import annotations

import json
import re
from collections import deque
from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple

from vademecum.tokens import (
    PER_CALL,
    PER_IMAGE,
    PER_MESSAGE,
    PER_NAME,
    PER_RESULT,
    PRIMING,
    Size,
    count,
    weigh,
)
from vademecum.transcripts import (
    META,
    NOTHING,
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

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vademecum.transcripts import Json, Part


# ------------------------------------------------------------ how large it is

_BLOB = re.compile(r"(?:data:|[A-Za-z0-9+/_-]{256})")  # a picture or a file inside what we do not know


def measure(message: Message) -> Size:
    """What one message weighs."""
    chars = weigh(message.name)
    fixed = PER_MESSAGE + (PER_NAME if message.name else 0)
    for part in message.parts:
        more = _part_size(part)
        chars += more[0]
        fixed += more[1]
    return Size(chars, fixed)


def measure_all(messages: Iterable[Message]) -> Size:
    """What messages weigh together, without the priming of a request."""
    chars = fixed = 0
    for message in messages:
        size = measure(message)
        chars += size.chars
        fixed += size.fixed
    return Size(chars, fixed)


def measure_schemas(tools: Iterable[Json]) -> Size:
    """What tool definitions weigh: they are sent with every call, as JSON."""
    texts = [json.dumps(tool, ensure_ascii=False, separators=(",", ":"), default=str) for tool in tools]
    return Size(sum(map(weigh, texts)), PER_CALL * len(texts))


def estimate(message: Message, ratio: float) -> int:
    """How many tokens one message is."""
    return count(measure(message), ratio)


def estimate_request(messages: Iterable[Message], tools: Iterable[Json], ratio: float) -> int:
    """How many tokens a whole request is, with its schemas and the priming."""
    return count(measure_all(messages) + measure_schemas(tools), ratio) + PRIMING


def _part_size(part: Part) -> tuple[int, int]:
    if isinstance(part, Text | Thinking):
        return weigh(part.text), 0
    if isinstance(part, ToolCall):
        return weigh(part.name) + weigh(part.arguments), PER_CALL + PER_NAME
    if isinstance(part, Image):
        return 0, PER_IMAGE
    if isinstance(part, Opaque):
        return _json_size(part.value)
    pairs = [_part_size(each) for each in part.content]
    return sum(chars for chars, _ in pairs), PER_RESULT + sum(fixed for _, fixed in pairs)


def _json_size(value: Json) -> tuple[int, int]:
    """The letters of a JSON value, walked without recursion: a stranger chose how deep it is."""
    chars = fixed = 0
    pending = [value]
    while pending:
        each = pending.pop()
        if isinstance(each, dict):
            chars += sum(weigh(str(name)) for name in each)
            pending.extend(each.values())
        elif isinstance(each, list | tuple):
            pending.extend(each)
        elif isinstance(each, str) and _BLOB.match(each):
            fixed += PER_IMAGE
        elif each is not None:
            chars += weigh(str(each))
    return chars, fixed


# ------------------------------------------------------------ units

NO_RESULT = "[No result was recorded for this call]"


class Unit(NamedTuple):
    """Messages that are kept or dropped together."""

    messages: tuple[Message, ...]

    @property
    def role(self) -> Role:
        """Who speaks first."""
        return self.messages[0].role

    @property
    def size(self) -> Size:
        """What it weighs."""
        return measure_all(self.messages)


class Mend(StrEnum):
    """What was wrong."""

    MOVED = "moved"  # a result stood elsewhere than behind its call
    NO_CALL = "no-call"  # a result without a call left the window
    NO_RESULT = "no-result"  # a call without a result got one that says so
    RENAMED = "renamed"  # an id was missing or used twice
    EMPTY = "empty"  # a message that said nothing left the window


class Fix(NamedTuple):
    """One thing that was mended, in the message and the call with these ids."""

    kind: Mend
    message: str
    call: str = ""


class Gathered(NamedTuple):
    """Sound units in order, and what was mended to make them so."""

    units: tuple[Unit, ...]
    fixes: tuple[Fix, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, in order."""
        return flatten(self.units)


def flatten(units: Iterable[Unit]) -> tuple[Message, ...]:
    """The messages of units, in order."""
    return tuple(message for unit in units for message in unit.messages)


def is_request(message: Message) -> bool:
    """Whether a user speaks in it; what only carries results is a tool's, and some an agent's host wrote."""
    return (
        message.role is Role.USER
        and META not in message.extra
        and SUMMARY not in message.extra
        and not _says_nothing(message)
        and any(not isinstance(part, ToolResult) for part in message.parts)
    )


def gather(messages: Sequence[Message]) -> Gathered:
    """Make sound units of any messages."""
    links = _pair(messages)
    fixes: list[Fix] = []
    units: list[list[Message]] = []
    for at, message in enumerate(messages):
        parts, placed = _sound_parts(message, at, links, fixes)
        mended = message if parts == message.parts else message._replace(parts=parts)
        if at in links.groups:
            units.append([mended, *_results_from_elsewhere(messages, at, links, fixes)])
        elif placed:  # nothing but results of the same calls can stand between
            carrier, rest = _apart(mended)
            units[-1].append(carrier)
            units += [[rest]] if not _says_nothing(rest) else []
        elif not _says_nothing(mended):
            units.append([mended])
        elif _says_nothing(message):
            fixes.append(Fix(Mend.EMPTY, message.id))
    return Gathered(tuple(Unit(tuple(each)) for each in units), tuple(fixes))


class _Call:
    """A call while results look for it."""

    __slots__ = ("at", "id", "part", "result")

    def __init__(self, at: int, part: int, own: str) -> None:
        self.at = at
        self.part = part
        self.id = own
        self.result: tuple[int, int] | None = None


class _Links(NamedTuple):
    groups: dict[int, list[_Call]]  # by the message they stand in
    calls: dict[tuple[int, int], _Call]  # by message and part
    results: dict[tuple[int, int], _Call]
    placed: set[tuple[int, int]]  # results that stand right behind their call


def _pair(messages: Sequence[Message]) -> _Links:
    """Find the call of each result, and those results that already stand where they belong."""
    links = _Links({}, {}, {}, set())
    waiting: dict[str, deque[deque[_Call]]] = {}
    early: list[tuple[int, int, str]] = []
    names: dict[str, int] = {}
    for at, message in enumerate(messages):
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                call = _Call(at, index, _unused(part.id, names))
                links.calls[at, index] = call
                links.groups.setdefault(at, []).append(call)
                rows = waiting.setdefault(part.id, deque())
                if not rows or rows[-1][0].at != at:
                    rows.append(deque())
                rows[-1].append(call)
            elif isinstance(part, ToolResult):
                rows = waiting.get(part.id, deque())
                if rows:
                    _answer(links, rows, rows[-1], (at, index))
                else:
                    early.append((at, index, part.id))
    for at, index, name in early:
        rows = waiting.get(name, deque())
        if rows:
            _answer(links, rows, rows[0], (at, index))
    _find_placed(messages, links)
    return links


def _unused(name: str, names: dict[str, int]) -> str:
    """A call's id, or one made from it when it is missing or taken; digits and `_` are legal everywhere."""
    base = name or "call"
    found = base
    while found in names:
        names[base] += 1
        found = f"{base}_{names[base]}"
    names[found] = 1
    return found


def _answer(links: _Links, rows: deque[deque[_Call]], row: deque[_Call], place: tuple[int, int]) -> None:
    call = row.popleft()
    if not row and row is rows[-1]:
        rows.pop()
    elif not row:
        rows.popleft()
    call.result = place
    links.results[place] = call


def _find_placed(messages: Sequence[Message], links: _Links) -> None:
    opened: int | None = None
    for at, message in enumerate(messages):
        if at in links.groups:
            opened = at
        results = [
            (at, index)
            for index, part in enumerate(message.parts)
            if isinstance(part, ToolResult)
            and (at, index) in links.results
            and links.results[at, index].at == opened
        ]
        if at in links.groups:
            links.placed.update(place for place in results if links.results[place].part < place[1])
            continue
        links.placed.update(results)
        only_results = message.parts and all(isinstance(part, ToolResult) for part in message.parts)
        if not only_results:
            opened = None


def _sound_parts(message: Message, at: int, links: _Links, fixes: list[Fix]) -> tuple[tuple[Part, ...], bool]:
    """A message's parts without the results that do not belong there, and whether any does."""
    parts: list[Part] = []
    placed = False
    for index, part in enumerate(message.parts):
        if isinstance(part, ToolCall):
            call = links.calls[at, index]
            if call.id != part.id:
                fixes.append(Fix(Mend.RENAMED, message.id, call.id))
            parts.append(part if call.id == part.id else part._replace(id=call.id))
        elif not isinstance(part, ToolResult):
            parts.append(part)
        elif (at, index) not in links.results:
            fixes.append(Fix(Mend.NO_CALL, message.id, part.id))
        elif (at, index) in links.placed:
            placed = True
            parts.append(_named(part, links.results[at, index]))
    return tuple(parts), placed


def _results_from_elsewhere(
    messages: Sequence[Message], at: int, links: _Links, fixes: list[Fix]
) -> list[Message]:
    """What the calls of a message lack behind it; results that stand there already come after these."""
    found: list[Message] = []
    for call in links.groups[at]:
        if call.result is None:
            fixes.append(Fix(Mend.NO_RESULT, messages[at].id, call.id))
            said = ToolResult(call.id, (Text(NO_RESULT),), error=True)
            found.append(Message(Role.TOOL, (said,), time=messages[at].time))
        elif call.result not in links.placed:
            source = messages[call.result[0]]
            fixes.append(Fix(Mend.MOVED, source.id, call.id))
            part = source.parts[call.result[1]]
            assert isinstance(part, ToolResult)
            extra = source.extra if source.role is Role.TOOL else NOTHING  # no user's or assistant's envelope
            found.append(source._replace(role=Role.TOOL, parts=(_named(part, call),), extra=extra))
    return found


def _apart(message: Message) -> tuple[Message, Message]:
    """The results of a message as the tool's own, and the words beside them."""
    if message.role is Role.TOOL:
        return message, message._replace(parts=())
    results = tuple(part for part in message.parts if isinstance(part, ToolResult))
    others = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    return message._replace(role=Role.TOOL, parts=results, extra=NOTHING), message._replace(parts=others)


def _named(result: ToolResult, call: _Call) -> ToolResult:
    return result if result.id == call.id else result._replace(id=call.id)


def _says_nothing(message: Message) -> bool:
    return all(
        isinstance(part, Text | Thinking) and not part.extra and not part.text.strip()
        for part in message.parts
    )


# --- a unit that is larger than its budget ------------------------------------------------------------

_NOTE_ROOM = 200  # what a note in a cut text takes at most; a text barely above the limit is left whole
_LONGEST_CALL = 130  # characters of a call that a note names
_LEAST = 200  # below this a head and a tail say nothing, and the rest of the unit is cut as well


class Cut(NamedTuple):
    """How a unit was made smaller: enough to do it again, byte for byte.

    Texts above `limit` characters keep half of it at the head and half at the tail. Only results, unless
    `deep`: then also words and the values inside arguments, while pictures and unknown parts of results,
    and thoughts and unknown parts above the limit, are left out. Calls stay, and so do pictures a user
    sent.
    """

    limit: int
    deep: bool = False


class Readers(NamedTuple):
    """The tools of a host that read a session, by its own names; empty for those that it does not have."""

    session: str = ""
    get: str = ""
    search: str = ""

    def read(self, place: str) -> str:
        """The call that reads one place of this session; empty when there is none."""
        return f"{self.get} session={self.session} place={place}" if self.get and place else ""

    def whole(self, message: str) -> str:
        """Where the whole of a shortened message is, in a few words."""
        call = self.read(message)
        return f"whole: {call}" if 0 < len(call) <= _LONGEST_CALL else "whole in the transcript"


NO_READERS = Readers()
_FIND, _READ = "session_search", "session_get"


def find_readers(session: str, tools: Iterable[Json], names: Mapping[str, str] | None = None) -> Readers:
    """Which tools of a host read its sessions: those it names, else those of memory's own that it offers."""
    if names is None:
        offered = [*_offered_names(tools)]
        names = {
            own: next((each for each in offered if each == own or each.endswith(f"__{own}")), "")
            for own in (_READ, _FIND)
        }
    return Readers(session, names.get(_READ, ""), names.get(_FIND, ""))


def _offered_names(tools: Iterable[Json]) -> Iterator[str]:
    """The names in tool definitions, as the providers' APIs write them."""
    for each in tools:
        if not isinstance(each, dict):
            continue
        if isinstance(name := each.get("name"), str):
            yield name
        for inner in ("function", "functionDeclarations", "function_declarations"):
            below = each.get(inner)
            yield from _offered_names(below if isinstance(below, list) else [below])


def cut_for(unit: Unit, tokens: int, ratio: float, readers: Readers = NO_READERS) -> Cut | None:
    """The mildest cut after which a unit fits; None when it does already.

    When nothing fits, because names, ids and notes alone are too many, it is the strongest cut there is.
    """
    if count(unit.size, ratio) <= tokens:
        return None
    for deep in (False, True):
        low = 0 if deep else _LEAST
        if _fits(cut(unit, Cut(low, deep), readers), tokens, ratio):
            return Cut(_largest(unit, low, tokens, ratio, readers, deep=deep), deep)
    return Cut(0, deep=True)


def _largest(unit: Unit, low: int, tokens: int, ratio: float, readers: Readers, *, deep: bool) -> int:
    high = max(int(tokens * ratio), low) + 1  # no text longer than this can fit
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(cut(unit, Cut(middle, deep), readers), tokens, ratio):
            low = middle
        else:
            high = middle
    return low


def _fits(unit: Unit, tokens: int, ratio: float) -> bool:
    return count(unit.size, ratio) <= tokens


def cut(unit: Unit, how: Cut, readers: Readers = NO_READERS) -> Unit:
    """A unit made smaller; every call is still there, every text says where it is whole."""
    return Unit(tuple(_cut_message(message, how, readers) for message in unit.messages))


def _cut_message(message: Message, how: Cut, readers: Readers) -> Message:
    parts: list[Part] = []
    whole = readers.whole(message.id)
    for part in message.parts:
        if isinstance(part, ToolResult):
            parts.append(_cut_result(part, whole, how))
        elif not how.deep or isinstance(part, Image):
            parts.append(part)
        elif isinstance(part, ToolCall):
            parts.append(part._replace(arguments=_cut_arguments(part.arguments, whole, how.limit)))
        elif isinstance(part, Text):
            parts.append(part._replace(text=clip(part.text, how.limit, whole)))
        elif _weight(part) <= how.limit:
            parts.append(part)
    if not parts:  # it had only thoughts; a message with no parts is refused
        parts.append(Text(_left_out("thoughts", whole)))
    return message._replace(parts=tuple(parts))


def _weight(part: Thinking | Opaque) -> int:
    return weigh(part.text) if isinstance(part, Thinking) else weigh(json.dumps(part.value, default=str))


def _cut_result(result: ToolResult, whole: str, how: Cut) -> ToolResult:
    content: list[Text | Image | Opaque] = []
    share = how.limit // max(sum(isinstance(each, Text) for each in result.content), 1)
    others = 0
    for each in result.content:
        if isinstance(each, Text):
            content.append(each._replace(text=clip(each.text, share, whole)))
        elif how.deep:
            others += 1
        else:
            content.append(each)
    if others:
        content.append(Text(_left_out(f"{others} pictures or other parts", whole)))
    if len(content) > 1 and how.deep:
        content = [
            Text(clip("\n".join(each.text for each in content if isinstance(each, Text)), share, whole))
        ]
    return result._replace(content=tuple(content))


def _cut_arguments(arguments: str, where: str, limit: int) -> str:
    """Arguments with their long values cut, still JSON: providers parse what they are sent."""
    if len(arguments) <= limit + _NOTE_ROOM:
        return arguments
    whole = json.dumps({"cut": clip(arguments, limit, where)}, ensure_ascii=False)
    try:
        value: Json = json.loads(arguments)
    except (ValueError, RecursionError):
        return whole
    if not isinstance(value, dict) or not value:
        return whole
    share = limit // len(value)
    short = {name: _cut_value(each, where, share) for name, each in value.items()}
    found = json.dumps(short, ensure_ascii=False)
    return found if len(found) <= limit + 4 * _NOTE_ROOM else whole


def _cut_value(value: Json, where: str, limit: int) -> Json:
    if isinstance(value, str):
        return clip(value, limit, where)
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= limit + _NOTE_ROOM else clip(text, limit, where)


def clip(text: str, limit: int, where: str = "whole in the transcript") -> str:
    """Head and tail of a text, with a note between them that says where the whole is."""
    if len(text) <= limit + _NOTE_ROOM:
        return text
    head, tail = limit - limit // 2, limit // 2
    note = f"\n[... {len(text) - limit} of {len(text)} characters left out; {where} ...]\n"
    return text[:head] + note + (text[-tail:] if tail else "")


def _left_out(what: str, where: str) -> str:
    return f"[{what} left out; {where}]"


# ------------------------------------------------------------ which units leave


class Trimming(NamedTuple):
    """What stays, what leaves, both in order; which kept units were cut, by the id of their first message."""

    kept: tuple[Unit, ...]
    dropped: tuple[Unit, ...]
    cuts: tuple[tuple[str, Cut], ...]
    tokens: int


def trim(units: Sequence[Unit], *, tokens: int, ratio: float, readers: Readers = NO_READERS) -> Trimming:
    """Keep what fits into that many tokens."""
    sizes = [count(unit.size, ratio) for unit in units]
    if sum(sizes) <= tokens or not units:
        return Trimming(tuple(units), (), (), sum(sizes))
    head = system_prompt(units)
    anchors = _anchors(units, head)
    kept = dict(enumerate(units[:head]))
    spent = sum(sizes[:head])
    cuts = []
    for at, share in _shares([(at, sizes[at]) for at in anchors], tokens - spent):
        how = cut_for(units[at], share, ratio, readers)
        kept[at] = cut(units[at], how, readers) if how else units[at]
        sizes[at] = count(kept[at].size, ratio)
        if how:
            cuts.append((units[at].messages[0].id, how))
    spent += sum(sizes[at] for at in anchors)
    for at in _walk(units, sizes, head, anchors, tokens - spent):
        kept[at] = units[at]
    dropped = tuple(unit for at, unit in enumerate(units) if at not in kept)
    total = sum(sizes[at] for at in kept)
    return Trimming(tuple(kept[at] for at in sorted(kept)), dropped, tuple(cuts), total)


def system_prompt(units: Sequence[Unit]) -> int:
    """How many units at the start are system messages."""
    return next((at for at, unit in enumerate(units) if unit.role is not Role.SYSTEM), len(units))


def _anchors(units: Sequence[Unit], head: int) -> list[int]:
    """The last unit in which the user speaks, and the newest one."""
    found = {len(units) - 1}
    for at in range(len(units) - 1, head - 1, -1):
        if any(is_request(message) for message in units[at].messages):
            found.add(at)
            break
    return sorted(at for at in found if at >= head)


def _shares(anchors: list[tuple[int, int]], room: int) -> list[tuple[int, int]]:
    """How many tokens each anchor may take: all it needs, or half, or what the smaller one leaves."""
    room = max(room, 0)
    if sum(size for _, size in anchors) <= room:
        return anchors
    if len(anchors) == 1:
        return [(anchors[0][0], room)]
    (first, least), (second, _) = sorted(anchors, key=lambda each: (each[1], each[0]))
    small = min(least, room // 2)
    return [(first, small), (second, room - small)]


def _walk(units: Sequence[Unit], sizes: list[int], head: int, anchors: list[int], room: int) -> list[int]:
    """The units kept beside the anchors: from the newest back to the first that does not fit."""
    found: list[int] = []
    for at in range(len(units) - 1, head - 1, -1):
        if at in anchors:
            continue
        if sizes[at] > room:
            break
        room -= sizes[at]
        found.append(at)
    # A note of the system's from the middle must not become part of the prompt by being the oldest one left.
    while found and units[found[-1]].role is Role.SYSTEM:
        found.pop()
    return found
