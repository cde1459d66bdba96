"""Put a model's answer together again when a file has it in pieces.

Agents write each thought, text and tool call on a line of its own, and results in between as they come. One
answer is one message here, followed by what it cost and by its results, as the provider was sent it: a call
apart from its neighbours would look like one whose result is missing.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING, NamedTuple

from vademecum.transcripts.formats.base import SIDE, Told, Unread, Usage
from vademecum.transcripts.formats.lines import LONGEST
from vademecum.transcripts.messages import Message, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vademecum.transcripts.formats.values import Found

_MOST = 1000  # what may wait behind an open answer
_REMEMBERED = 1024  # answers whose cost is remembered; pieces of one are never far apart


class Piece(NamedTuple):
    """A message, or a piece of one, as a line had it."""

    message: Message
    answer: str = ""  # the answer it is a piece of; without one, only neighbours are joined
    usage: Usage | None = None  # what the whole answer cost, as far as this line knew
    size: int = 0

    @property
    def side(self) -> object:
        """Whose conversation it is part of."""
        return self.message.extra.get(SIDE)


def joined(stream: Iterable[Piece | Usage | Told | Unread]) -> Iterator[Found]:
    """The same messages with each answer whole; everything else keeps its order."""
    joining = _Joining()
    for each in stream:
        yield from joining.add(each)
    yield from joining.close()


class _Joining:
    def __init__(self) -> None:
        self._open: Piece | None = None
        self._held: list[Piece | Usage | Told | Unread] = []
        self._size = 0
        self._counted: OrderedDict[str, Usage] = OrderedDict()

    def add(self, each: Piece | Usage | Told | Unread) -> Iterator[Found]:
        if self._open is None:
            yield from self._first(each)
            return
        if not isinstance(each, Piece):
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
        self._size += each.size if isinstance(each, Piece) else 0
        if self._size > LONGEST or len(self._held) > _MOST:
            yield from self.close()

    def close(self) -> Iterator[Found]:
        """Give out the open answer, what it cost, and what waited behind it."""
        held, self._held, self._size = self._held, [], 0
        if self._open is not None:
            yield from self._given(self._open)
            self._open = None
        yield from (each for each in held if isinstance(each, Usage))
        for each in held:
            if isinstance(each, Piece):
                yield from self._given(each)
            elif not isinstance(each, Usage):
                yield each

    def _first(self, each: Piece | Usage | Told | Unread) -> Iterator[Found]:
        if isinstance(each, Piece) and each.message.role is Role.ASSISTANT:
            self._open, self._size = each, each.size
        elif isinstance(each, Piece):
            yield from self._given(each)
        else:
            yield each

    def _continues(self, each: Piece) -> bool:
        if self._open is None or each.message.role is not Role.ASSISTANT or each.answer != self._open.answer:
            return False
        return bool(each.answer) or not any(
            isinstance(held, Piece) and held.message.role is Role.TOOL for held in self._held
        )

    def _hold(self, each: Piece) -> None:
        """Keep a subagent's line for later, joined to the line before it in the same conversation."""
        for at in range(len(self._held) - 1, -1, -1):
            held = self._held[at]
            if isinstance(held, Piece) and held.side == each.side:
                if each.answer and each.answer == held.answer and each.message.role is Role.ASSISTANT:
                    self._held[at] = _join(held, each)
                    return
                break
        self._held.append(each)

    def _given(self, each: Piece) -> Iterator[Found]:
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


def _join(piece: Piece, other: Piece) -> Piece:
    one, two = piece.message, other.message
    ids = [*one.extra.get("ids", ()), *((two.id,) if two.id and two.id != one.id else ())]
    extra = {**two.extra, **one.extra, **({"ids": ids} if ids else {})}
    if two.extra.get("stop_reason"):
        extra["stop_reason"] = two.extra["stop_reason"]
    message = one._replace(parts=one.parts + two.parts, model=one.model or two.model, extra=extra)
    usage = _most(piece.usage, other.usage)
    return piece._replace(message=message, usage=usage, size=piece.size + other.size)


def _most(one: Usage | None, two: Usage | None) -> Usage | None:
    """What is known of a call's cost after another line of it; the counts only grow while it is written."""
    if one is None or two is None:
        return one or two
    return two if two.total >= one.total else one


def _more(usage: Usage, before: Usage) -> Usage:
    """What a late line of an answer adds to what was already counted for it."""
    return usage._replace(
        input=max(usage.input - before.input, 0),
        output=max(usage.output - before.output, 0),
        cached=max(usage.cached - before.cached, 0),
        total=max(usage.total - before.total, 0),
        cost=max(usage.cost - before.cost, 0.0),
    )
