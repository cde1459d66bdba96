"""Group messages into units that are kept or dropped together: measure, repair, cut and trim them.

This module is pure. After `build_units`, every call has its result directly behind it, whatever the messages
were. A provider's data in `extra` is not counted, and a picture counts as a picture, not as its encoded
characters.

`trim` never drops the system messages at the start, the last message in which the user speaks, and the newest
unit. Of the rest it keeps the newest units without gaps. It does not keep the first task as a message,
because the thread summary holds it. When the units that are never dropped are too large, the newest unit and
the user's message are cut. The system prompt is never cut, so a window can stay above its target only when
the prompt, or the bare names and ids of the newest unit, are larger than the target.
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


# ------------------------------------------------------------ sizes

_BLOB = re.compile(r"(?:data:|[A-Za-z0-9+/_-]{256})")  # a picture or a file inside an unknown value


def measure(message: Message) -> Size:
    """Return the size of a message, from which its tokens are estimated."""
    chars = weigh(message.name)
    fixed = PER_MESSAGE + (PER_NAME if message.name else 0)
    for part in message.parts:
        more = _part_size(part)
        chars += more[0]
        fixed += more[1]
    return Size(chars, fixed)


def measure_all(messages: Iterable[Message]) -> Size:
    """Return the total size of messages, without the priming of a request."""
    chars = fixed = 0
    for message in messages:
        size = measure(message)
        chars += size.chars
        fixed += size.fixed
    return Size(chars, fixed)


def measure_schemas(tools: Iterable[Json]) -> Size:
    """Return the size of tool definitions, which are sent as JSON with every call."""
    texts = [json.dumps(tool, ensure_ascii=False, separators=(",", ":"), default=str) for tool in tools]
    return Size(sum(map(weigh, texts)), PER_CALL * len(texts))


def estimate(message: Message, ratio: float) -> int:
    """Return the estimated number of tokens of a message."""
    return count(measure(message), ratio)


def estimate_request(messages: Iterable[Message], tools: Iterable[Json], ratio: float) -> int:
    """Return the estimated number of tokens of a request, with its tool schemas and priming."""
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
    """Return the size of the texts in a JSON value, of any depth: the walk uses no recursion."""
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
    """Messages that belong together, such as a call and its result, and are kept or dropped together."""

    messages: tuple[Message, ...]

    @property
    def role(self) -> Role:
        """The author of the first message."""
        return self.messages[0].role

    @property
    def size(self) -> Size:
        """The total size of the messages."""
        return measure_all(self.messages)


class FixKind(StrEnum):
    """The kind of fault that was repaired in a message."""

    MOVED = "moved"  # a result did not stand behind its call
    NO_CALL = "no-call"  # a result without a call was removed
    NO_RESULT = "no-result"  # a call without a result got a result that says so
    RENAMED = "renamed"  # an id was missing or used twice
    EMPTY = "empty"  # a message without content was removed


class Fix(NamedTuple):
    """A repair of a message: its kind, with the ids of the message and the call."""

    kind: FixKind
    message: str
    call: str = ""


class BuiltUnits(NamedTuple):
    """Valid units, in the order of the messages, and the repairs that made them valid."""

    units: tuple[Unit, ...]
    fixes: tuple[Fix, ...]

    @property
    def messages(self) -> tuple[Message, ...]:
        """All messages, in order."""
        return flatten(self.units)


def flatten(units: Iterable[Unit]) -> tuple[Message, ...]:
    """Return the messages of units, in order."""
    return tuple(message for unit in units for message in unit.messages)


def is_request(message: Message) -> bool:
    """Whether the user wrote a message.

    Tool results alone, empty messages, summaries and messages of an agent's host do not count.
    """
    return (
        message.role is Role.USER
        and META not in message.extra
        and SUMMARY not in message.extra
        and not _is_empty(message)
        and any(not isinstance(part, ToolResult) for part in message.parts)
    )


def build_units(messages: Sequence[Message]) -> BuiltUnits:
    """Group any messages into valid units, and repair them where they are invalid."""
    links = _pair(messages)
    fixes: list[Fix] = []
    units: list[list[Message]] = []
    for at, message in enumerate(messages):
        parts, in_place = _valid_parts(message, at, links, fixes)
        repaired = message if parts == message.parts else message._replace(parts=parts)
        if at in links.groups:
            units.append([repaired, *_missing_results(messages, at, links, fixes)])
        elif in_place:  # only results of the same calls can stand between the call and this message
            result_message, rest = _split_results(repaired)
            units[-1].append(result_message)
            units += [[rest]] if not _is_empty(rest) else []
        elif not _is_empty(repaired):
            units.append([repaired])
        elif _is_empty(message):
            fixes.append(Fix(FixKind.EMPTY, message.id))
    return BuiltUnits(tuple(Unit(tuple(each)) for each in units), tuple(fixes))


class _Call:
    """A tool call: its place, its unique id, and the place of its result once that is found."""

    __slots__ = ("at", "id", "part", "result")

    def __init__(self, at: int, part: int, own: str) -> None:
        self.at = at
        self.part = part
        self.id = own
        self.result: tuple[int, int] | None = None


class _Links(NamedTuple):
    groups: dict[int, list[_Call]]  # by the index of their message
    calls: dict[tuple[int, int], _Call]  # by message and part index
    results: dict[tuple[int, int], _Call]
    in_place: set[tuple[int, int]]  # results that stand directly behind their call


def _pair(messages: Sequence[Message]) -> _Links:
    """Return which call each result belongs to, and which results stand directly behind their call."""
    links = _Links({}, {}, {}, set())
    open_calls: dict[str, deque[deque[_Call]]] = {}
    early: list[tuple[int, int, str]] = []
    names: dict[str, int] = {}
    for at, message in enumerate(messages):
        for index, part in enumerate(message.parts):
            if isinstance(part, ToolCall):
                call = _Call(at, index, _unique_id(part.id, names))
                links.calls[at, index] = call
                links.groups.setdefault(at, []).append(call)
                rows = open_calls.setdefault(part.id, deque())
                if not rows or rows[-1][0].at != at:
                    rows.append(deque())
                rows[-1].append(call)
            elif isinstance(part, ToolResult):
                rows = open_calls.get(part.id, deque())
                if rows:
                    _answer(links, rows, rows[-1], (at, index))
                else:
                    early.append((at, index, part.id))
    for at, index, name in early:
        rows = open_calls.get(name, deque())
        if rows:
            _answer(links, rows, rows[0], (at, index))
    _find_in_place(messages, links)
    return links


def _unique_id(name: str, names: dict[str, int]) -> str:
    """Return a call's id, or a new id made from it if it is missing or taken, and add the id to `names`.

    A new id adds only digits and `_`, which are always legal.
    """
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


def _find_in_place(messages: Sequence[Message], links: _Links) -> None:
    open_at: int | None = None
    for at, message in enumerate(messages):
        if at in links.groups:
            open_at = at
        results = [
            (at, index)
            for index, part in enumerate(message.parts)
            if isinstance(part, ToolResult)
            and (at, index) in links.results
            and links.results[at, index].at == open_at
        ]
        if at in links.groups:
            links.in_place.update(place for place in results if links.results[place].part < place[1])
            continue
        links.in_place.update(results)
        only_results = message.parts and all(isinstance(part, ToolResult) for part in message.parts)
        if not only_results:
            open_at = None


def _valid_parts(message: Message, at: int, links: _Links, fixes: list[Fix]) -> tuple[tuple[Part, ...], bool]:
    """Return a message's parts without misplaced results, and whether a result remains.

    Missing or repeated ids of calls are replaced. The repairs are added to `fixes`.
    """
    parts: list[Part] = []
    has_result = False
    for index, part in enumerate(message.parts):
        if isinstance(part, ToolCall):
            call = links.calls[at, index]
            if call.id != part.id:
                fixes.append(Fix(FixKind.RENAMED, message.id, call.id))
            parts.append(part if call.id == part.id else part._replace(id=call.id))
        elif not isinstance(part, ToolResult):
            parts.append(part)
        elif (at, index) not in links.results:
            fixes.append(Fix(FixKind.NO_CALL, message.id, part.id))
        elif (at, index) in links.in_place:
            has_result = True
            parts.append(_with_call_id(part, links.results[at, index]))
    return tuple(parts), has_result


def _missing_results(messages: Sequence[Message], at: int, links: _Links, fixes: list[Fix]) -> list[Message]:
    """Return tool messages with the results that are missing directly behind the calls of message `at`.

    A result from elsewhere is moved; if there is none, the new result says so. Results that already stand
    behind the calls follow after these messages. The repairs are added to `fixes`.
    """
    found: list[Message] = []
    for call in links.groups[at]:
        if call.result is None:
            fixes.append(Fix(FixKind.NO_RESULT, messages[at].id, call.id))
            no_result = ToolResult(call.id, (Text(NO_RESULT),), error=True)
            found.append(Message(Role.TOOL, (no_result,), time=messages[at].time))
        elif call.result not in links.in_place:
            source = messages[call.result[0]]
            fixes.append(Fix(FixKind.MOVED, source.id, call.id))
            part = source.parts[call.result[1]]
            assert isinstance(part, ToolResult)
            # a result takes no envelope from a message of user or assistant
            extra = source.extra if source.role is Role.TOOL else NOTHING
            found.append(source._replace(role=Role.TOOL, parts=(_with_call_id(part, call),), extra=extra))
    return found


def _split_results(message: Message) -> tuple[Message, Message]:
    """Return a message's tool results as a tool message, and the message with its other parts."""
    if message.role is Role.TOOL:
        return message, message._replace(parts=())
    results = tuple(part for part in message.parts if isinstance(part, ToolResult))
    others = tuple(part for part in message.parts if not isinstance(part, ToolResult))
    return message._replace(role=Role.TOOL, parts=results, extra=NOTHING), message._replace(parts=others)


def _with_call_id(result: ToolResult, call: _Call) -> ToolResult:
    return result if result.id == call.id else result._replace(id=call.id)


def _is_empty(message: Message) -> bool:
    return all(
        isinstance(part, Text | Thinking) and not part.extra and not part.text.strip()
        for part in message.parts
    )


# --- cutting a unit that is larger than its budget ----------------------------------------------------

_NOTE_ROOM = 200  # characters of a note in a cut text; a text barely above the limit is not cut
_LONGEST_CALL = 130  # characters of a call that a note names
_LEAST_CHARS = 200  # characters; a shorter head and tail say nothing, so the rest of the unit is cut as well


class Cut(NamedTuple):
    """How a unit was shortened; the same cut always gives the same bytes.

    Results longer than `limit` characters keep half of `limit` at the beginning and half at the end. With
    `deep`, other texts and argument values are cut too; pictures and unknown parts in results are left out,
    and so are reasoning and unknown parts longer than `limit`. Calls and a user's pictures always stay.
    """

    limit: int
    deep: bool = False


class ReaderTools(NamedTuple):
    """The names of the host's tools that read a session; an empty name for a tool that the host lacks."""

    session: str = ""
    get: str = ""
    search: str = ""
    knowledge: bool = False  # whether the system prompt already holds what memory knows

    def read(self, place: str) -> str:
        """Return the call that reads one place of this session; empty if there is no such tool."""
        return f"{self.get} session={self.session} place={place}" if self.get and place else ""

    def location(self, message: str) -> str:
        """Return a few words that say where the full text of a shortened message can be read."""
        call = self.read(message)
        return f"whole: {call}" if 0 < len(call) <= _LONGEST_CALL else "whole in the transcript"


NO_READERS = ReaderTools()
_FIND, _READ = "session_search", "session_get"
_INSTEAD = {_FIND: "memory_search"}  # finds messages of sessions too, where nothing else is offered


def find_reader_tools(
    session: str, tools: Iterable[Json], names: Mapping[str, str] | None = None
) -> ReaderTools:
    """Return the tools that read a session: those in `names`, else memory's own among the offered `tools`."""
    if names is None:
        offered = [*_offered_names(tools)]
        names = {
            own: _offered(own, offered) or _offered(_INSTEAD.get(own, own), offered) for own in (_READ, _FIND)
        }
    return ReaderTools(session, names.get(_READ, ""), names.get(_FIND, ""))


def _offered(own: str, offered: Iterable[str]) -> str:
    """Return the name under which one of memory's tools is offered, also with a server's name before it."""
    return next((each for each in offered if each == own or each.endswith(f"__{own}")), "")


def _offered_names(tools: Iterable[Json]) -> Iterator[str]:
    """Yield the names in tool definitions, whichever provider's API format they have."""
    for each in tools:
        if not isinstance(each, dict):
            continue
        if isinstance(name := each.get("name"), str):
            yield name
        for inner in ("function", "functionDeclarations", "function_declarations"):
            below = each.get(inner)
            yield from _offered_names(below if isinstance(below, list) else [below])


def cut_for(unit: Unit, tokens: int, ratio: float, readers: ReaderTools = NO_READERS) -> Cut | None:
    """Return the mildest cut with which a unit fits into these tokens; None when it fits without a cut.

    When names, ids and notes alone are too large, return the strongest cut.
    """
    if count(unit.size, ratio) <= tokens:
        return None
    for deep in (False, True):
        low = 0 if deep else _LEAST_CHARS
        if _fits(cut(unit, Cut(low, deep), readers), tokens, ratio):
            return Cut(_largest(unit, low, tokens, ratio, readers, deep=deep), deep)
    return Cut(0, deep=True)


def _largest(unit: Unit, low: int, tokens: int, ratio: float, readers: ReaderTools, *, deep: bool) -> int:
    high = max(int(tokens * ratio), low) + 1  # no longer text can fit
    while high - low > 1:
        middle = (low + high) // 2
        if _fits(cut(unit, Cut(middle, deep), readers), tokens, ratio):
            low = middle
        else:
            high = middle
    return low


def _fits(unit: Unit, tokens: int, ratio: float) -> bool:
    return count(unit.size, ratio) <= tokens


def cut(unit: Unit, how: Cut, readers: ReaderTools = NO_READERS) -> Unit:
    """Return a unit shortened; every call stays, and each cut text says where its full text can be read."""
    return Unit(tuple(_cut_message(message, how, readers) for message in unit.messages))


def _cut_message(message: Message, how: Cut, readers: ReaderTools) -> Message:
    parts: list[Part] = []
    location = readers.location(message.id)
    for part in message.parts:
        if isinstance(part, ToolResult):
            parts.append(_cut_result(part, location, how))
        elif not how.deep or isinstance(part, Image):
            parts.append(part)
        elif isinstance(part, ToolCall):
            parts.append(part._replace(arguments=_cut_arguments(part.arguments, location, how.limit)))
        elif isinstance(part, Text):
            parts.append(part._replace(text=clip(part.text, how.limit, location)))
        elif _weight(part) <= how.limit:
            parts.append(part)
    if not parts:  # the message had only reasoning, and providers refuse a message without parts
        parts.append(Text(_left_out_note("thoughts", location)))
    return message._replace(parts=tuple(parts))


def _weight(part: Thinking | Opaque) -> int:
    return weigh(part.text) if isinstance(part, Thinking) else weigh(json.dumps(part.value, default=str))


def _cut_result(result: ToolResult, location: str, how: Cut) -> ToolResult:
    content: list[Text | Image | Opaque] = []
    share = how.limit // max(sum(isinstance(each, Text) for each in result.content), 1)
    others = 0
    for each in result.content:
        if isinstance(each, Text):
            content.append(each._replace(text=clip(each.text, share, location)))
        elif how.deep:
            others += 1
        else:
            content.append(each)
    if others:
        content.append(Text(_left_out_note(f"{others} pictures or other parts", location)))
    if len(content) > 1 and how.deep:
        content = [
            Text(clip("\n".join(each.text for each in content if isinstance(each, Text)), share, location))
        ]
    return result._replace(content=tuple(content))


def _cut_arguments(arguments: str, where: str, limit: int) -> str:
    """Return arguments with long values cut, still valid JSON because providers parse them."""
    if len(arguments) <= limit + _NOTE_ROOM:
        return arguments
    replacement = json.dumps({"cut": clip(arguments, limit, where)}, ensure_ascii=False)
    try:
        value: Json = json.loads(arguments)
    except (ValueError, RecursionError):
        return replacement
    if not isinstance(value, dict) or not value:
        return replacement
    share = limit // len(value)
    short = {name: _cut_value(each, where, share) for name, each in value.items()}
    found = json.dumps(short, ensure_ascii=False)
    return found if len(found) <= limit + 4 * _NOTE_ROOM else replacement


def _cut_value(value: Json, where: str, limit: int) -> Json:
    if isinstance(value, str):
        return clip(value, limit, where)
    text = json.dumps(value, ensure_ascii=False)
    return value if len(text) <= limit + _NOTE_ROOM else clip(text, limit, where)


def clip(text: str, limit: int, where: str = "whole in the transcript") -> str:
    """Return a text; if it is much longer than `limit`, only its ends around a note that says `where`."""
    if len(text) <= limit + _NOTE_ROOM:
        return text
    head, tail = limit - limit // 2, limit // 2
    note = f"\n[... {len(text) - limit} of {len(text)} characters left out; {where} ...]\n"
    return text[:head] + note + (text[-tail:] if tail else "")


def _left_out_note(what: str, where: str) -> str:
    return f"[{what} left out; {where}]"


# ------------------------------------------------------------ choosing the units that stay


class TrimResult(NamedTuple):
    """The units that stay and leave, cuts by the id of a unit's first message, and the tokens that stay."""

    kept: tuple[Unit, ...]
    dropped: tuple[Unit, ...]
    cuts: tuple[tuple[str, Cut], ...]
    tokens: int


def trim(
    units: Sequence[Unit], *, tokens: int, ratio: float, readers: ReaderTools = NO_READERS
) -> TrimResult:
    """Return which units stay so that they fit into `tokens` tokens, and which leave.

    The last unit with a request of the user and the newest unit always stay, but are cut if they are too
    large. The system prompt stays whole, so the result can still be too large.
    """
    sizes = [count(unit.size, ratio) for unit in units]
    if sum(sizes) <= tokens or not units:
        return TrimResult(tuple(units), (), (), sum(sizes))
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
    return TrimResult(tuple(kept[at] for at in sorted(kept)), dropped, tuple(cuts), total)


def system_prompt(units: Sequence[Unit]) -> int:
    """Return the number of units of system messages at the start."""
    return next((at for at, unit in enumerate(units) if unit.role is not Role.SYSTEM), len(units))


def _anchors(units: Sequence[Unit], head: int) -> list[int]:
    """Return the indexes of the units that always stay: the last with a user's request, and the newest."""
    found = {len(units) - 1}
    for at in range(len(units) - 1, head - 1, -1):
        if any(is_request(message) for message in units[at].messages):
            found.add(at)
            break
    return sorted(at for at in found if at >= head)


def _shares(anchors: list[tuple[int, int]], room: int) -> list[tuple[int, int]]:
    """Return how many of `room` tokens each always-kept unit may use.

    If there is too little room, the smaller unit gets at most half, and the larger unit the rest.
    """
    room = max(room, 0)
    if sum(size for _, size in anchors) <= room:
        return anchors
    if len(anchors) == 1:
        return [(anchors[0][0], room)]
    (first, least), (second, _) = sorted(anchors, key=lambda each: (each[1], each[0]))
    small = min(least, room // 2)
    return [(first, small), (second, room - small)]


def _walk(units: Sequence[Unit], sizes: list[int], head: int, anchors: list[int], room: int) -> list[int]:
    """Return the indexes of other units to keep, from the newest back until a unit does not fit into `room`.

    System messages at the oldest end of these are not kept.
    """
    found: list[int] = []
    for at in range(len(units) - 1, head - 1, -1):
        if at in anchors:
            continue
        if sizes[at] > room:
            break
        room -= sizes[at]
        found.append(at)
    # A system note from the middle must not become part of the prompt because it is the oldest unit kept.
    while found and units[found[-1]].role is Role.SYSTEM:
        found.pop()
    return found
