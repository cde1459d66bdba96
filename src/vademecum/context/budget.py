"""What must happen before the next call, decided from numbers alone.

Counts tokens of the whole prompt: schemas, system prompt and messages together. Knows no messages.
"""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

_REPLY = 8192  # with tools a reply is short; what a model could say at most would waste half of small windows


class TrimSettings(NamedTuple):
    """`[trim]`: when the window is trimmed, to which share of it, and what a compaction keeps."""

    proactive: float = 0.75
    target: float = 0.5
    keep_recent_tokens: int = 20_000


class FlushSettings(NamedTuple):
    """`[flush]`: whether and when it runs, and other words than those in the files beside it."""

    enabled: bool = True
    reserve_tokens: int = 20_000
    soft_tokens: int = 4_000
    system_prompt: str = ""
    prompt: str = ""


TRIM = TrimSettings()
FLUSH = FlushSettings()


class Window(NamedTuple):
    """A model's window and what in it is not ours to trim."""

    context: int
    reply: int
    schemas: int = 0
    system: int = 0  # the system prompt with all that is injected into it

    @property
    def limit(self) -> int:
        """How large a prompt may be."""
        return max(self.context - self.reply, 0)

    @property
    def room(self) -> int:
        """How large all messages together may be, the system prompt among them."""
        return max(self.limit - self.schemas, 0)

    @property
    def fixed(self) -> int:
        """What is there before anybody has said a word."""
        return self.schemas + self.system


class Points(NamedTuple):
    """At how many tokens of prompt what happens."""

    flush: int
    trim: int
    target: int
    limit: int


class Move(StrEnum):
    """What to do next."""

    SEND = "send"
    FLUSH = "flush"
    TRIM = "trim"
    FAIL = "fail"


class Stage(StrEnum):
    """Why a trim happens; after a refusal each stage is smaller than the one before."""

    NONE = ""
    PROACTIVE = "proactive"
    HALF = "half"
    QUARTER = "quarter"
    MINIMAL = "minimal"


class Step(NamedTuple):
    """What to do next; for a trim, its stage and how large the prompt may be afterwards."""

    move: Move
    stage: Stage = Stage.NONE
    target: int = 0


_LADDER = ((Stage.HALF, 0.5), (Stage.QUARTER, 0.25), (Stage.MINIMAL, 0.1))


def reply_reserve(context: int, longest: int | None = None) -> int:
    """What is kept free for the reply: 8,192 tokens, less if the model says less or the window is small."""
    return max(min(longest if longest and longest > 0 else _REPLY, _REPLY, context // 4), 0)


def keep_recent(context: int, settings: TrimSettings = TRIM) -> int:
    """How many of the newest tokens a compaction leaves alone."""
    return min(settings.keep_recent_tokens, context // 4)


def points(window: Window, trim: TrimSettings = TRIM, flush: FlushSettings = FLUSH) -> Points:
    """Where in this window the flush, the trim and its target are.

    Schemas and system prompt can be so large that half the window is less than they are: then the
    conversation may fill half of what they leave before it is trimmed, and a quarter of that stays.
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
    """Decide what must happen before the next call.

    `used` is the prompt as estimated now; `flushed`, whether the flush of this cycle has run; `trims`, how
    many trims were made for this call. `overflows` is how often the provider has refused since it last
    accepted, and is given only when a refusal is being answered: then something must go, whatever the
    estimate says.
    """
    if overflows:
        return _after_overflow(window, used, overflows, may_drop=flushed or not flush.enabled)
    at = points(window, trim, flush)
    if trims:  # the check before sending: it must fit, or become smaller still
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
    """The trim of one rung: a share of what the conversation may be, and at most half of what it is."""
    if rung >= len(_LADDER):
        return Step(Move.FAIL)
    stage, share = _LADDER[rung]
    most = max(window.limit - window.fixed, 0) * share
    half = max(used - window.fixed, 0) / 2
    return Step(Move.TRIM, stage, window.fixed + int(min(most, half)))
