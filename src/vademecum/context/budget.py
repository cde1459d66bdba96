"""Decide, from token counts alone, what must happen before the next model call: flush, trim or nothing.

The counts are tokens of the whole prompt: tool schemas, system prompt and messages. This module never sees
the messages themselves.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

# with tools a reply is short; reserving the model's longest reply would waste half of a small window
_REPLY = 8192


class TrimSettings(NamedTuple):
    """The settings `[trim]`: when the window is trimmed, to which share, and what a compaction keeps."""

    proactive: float = 0.75
    target: float = 0.5
    keep_recent_tokens: int = 20_000


class FlushSettings(NamedTuple):
    """The settings `[flush]`: whether and when a flush runs, and prompts that replace the built-in ones."""

    enabled: bool = True
    reserve_tokens: int = 20_000
    soft_tokens: int = 4_000
    system_prompt: str = ""
    prompt: str = ""


TRIM = TrimSettings()
FLUSH = FlushSettings()


class Window(NamedTuple):
    """The size of a model's window, and the sizes of the parts that cannot be trimmed."""

    context: int
    reply: int
    schemas: int = 0
    system: int = 0  # the system prompt with everything injected into it

    @property
    def limit(self) -> int:
        """The size of the largest prompt that leaves room for the reply."""
        return max(self.context - self.reply, 0)

    @property
    def room(self) -> int:
        """The room for all messages, including the system prompt."""
        return max(self.limit - self.schemas, 0)

    @property
    def fixed(self) -> int:
        """The size of everything before the first message: tool schemas and system prompt."""
        return self.schemas + self.system


class Points(NamedTuple):
    """The prompt sizes, in tokens, at which a flush or a trim begins, and the size that a trim aims at."""

    flush: int
    trim: int
    target: int
    limit: int


class Move(StrEnum):
    """The next action before a model call: send, flush, trim or fail."""

    SEND = "send"
    FLUSH = "flush"
    TRIM = "trim"
    FAIL = "fail"


class Stage(StrEnum):
    """The stage of a trim: before the window is full, or after a refused request, smaller with each refusal.

    After the first refusal the messages may use half of their room, then a quarter, then a tenth.
    """

    NONE = ""
    PROACTIVE = "proactive"
    HALF = "half"
    QUARTER = "quarter"
    MINIMAL = "minimal"


class Step(NamedTuple):
    """The next action before a model call; for a trim, its stage and the largest prompt afterwards."""

    move: Move
    stage: Stage = Stage.NONE
    target: int = 0


_LADDER = ((Stage.HALF, 0.5), (Stage.QUARTER, 0.25), (Stage.MINIMAL, 0.1))


def reply_reserve(context: int, longest: int | None = None) -> int:
    """Return the tokens reserved for the reply: 8,192, or fewer for a small model or window."""
    return max(min(longest if longest and longest > 0 else _REPLY, _REPLY, context // 4), 0)


def keep_recent(context: int, settings: TrimSettings = TRIM) -> int:
    """Return how many tokens of the newest messages a compaction leaves as they are."""
    return min(settings.keep_recent_tokens, context // 4)


def points(window: Window, trim: TrimSettings = TRIM, flush: FlushSettings = FLUSH) -> Points:
    """Return the prompt sizes at which flush and trim happen in this window.

    Schemas and system prompt can be larger than half the window. Then the conversation may fill half of the
    remaining room before it is trimmed, and a trim keeps a quarter of it.
    """
    limit = window.limit
    left = max(limit - window.fixed, 0)
    at = max(min(int(window.context * trim.proactive), limit), min(window.fixed + left // 2, limit))
    least = window.fixed + max(at - window.fixed, 0) // 4
    target = min(max(int(window.context * min(trim.target, trim.proactive)), least), at)
    reserve = min(flush.reserve_tokens, window.context // 5)
    soft = min(flush.soft_tokens, window.context // 20)
    return Points(max(min(window.context - reserve - soft, at), 0), at, target, limit)


def next_step(
    window: Window,
    *,
    used: int,
    flushed: bool,
    trims: int = 0,
    overflows: int = 0,
    trim: TrimSettings = TRIM,
    flush: FlushSettings = FLUSH,
) -> Step:
    """Return what must happen before the next model call.

    `used` is the estimated size of the prompt; `flushed` says whether the flush of this cycle has run;
    `trims` is the number of trims made for this call. `overflows` is the number of refusals since the
    provider last accepted a request, if a refusal is being answered, and else 0: after a refusal the prompt
    must become smaller, whatever the estimate says.
    """
    if overflows:
        return _after_overflow(window, used, overflows, may_drop=flushed or not flush.enabled)
    at = points(window, trim, flush)
    if trims:  # the check before sending: the prompt must fit, or shrink further
        if used <= at.limit:
            return Step(Move.SEND)
        return _rung(window, used, trims)
    if used < min(at.flush, at.trim) and used <= at.limit:
        return Step(Move.SEND)
    if flush.enabled and not flushed:
        return Step(Move.FLUSH)
    if used >= at.trim:
        return Step(Move.TRIM, Stage.PROACTIVE, at.target)
    return Step(Move.SEND)


def _after_overflow(window: Window, used: int, overflows: int, *, may_drop: bool) -> Step:
    if overflows > len(_LADDER):
        return Step(Move.FAIL)
    return _rung(window, used, overflows - 1) if may_drop else Step(Move.FLUSH)


def _rung(window: Window, used: int, rung: int) -> Step:
    """Return a trim to the share of the room for messages that `rung` 0, 1 or 2 allows; else FAIL.

    At most half of the current messages, in tokens, stays.
    """
    if rung >= len(_LADDER):
        return Step(Move.FAIL)
    stage, share = _LADDER[rung]
    most = max(window.limit - window.fixed, 0) * share
    half = max(used - window.fixed, 0) / 2
    return Step(Move.TRIM, stage, window.fixed + int(min(most, half)))
