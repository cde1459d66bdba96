"""Shorten old tool results before a call; the transcript keeps them whole.

A decision names one result and says what became of it. Decisions are made on a window in which the earlier
ones are already applied, are written down, and are never taken back: `apply(whole, all of them)` gives the
same bytes in every later call, so a provider's cache of the prefix survives. They speak of messages as the
transcript holds them, so apply them before `units.gather` mends anything.

Left alone: what comes before the user first speaks, the last assistant messages and all behind them,
results with pictures or parts we do not know, tools the lists protect, and messages whose id is missing or
not unique: what cannot be pointed at could not be read back.
"""

from __future__ import annotations

from collections import Counter
from enum import StrEnum
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.units import NO_READERS, is_request
from vademecum.transcripts import Role, Text, ToolResult

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from vademecum.context.units import Readers
    from vademecum.transcripts import Json, Message

PLACEHOLDER = "[Old tool result content cleared]"


class PruneMode(StrEnum):
    """When results are pruned."""

    OFF = "off"
    CACHE_TTL = (
        "cache-ttl"  # when the provider's cache has gone cold, or a trim will change the prefix anyway
    )
    ALWAYS = "always"


class PruneSettings(NamedTuple):
    """`[prune]`."""

    mode: PruneMode = PruneMode.CACHE_TTL
    ttl: float = 300.0
    keep_last_assistants: int = 3
    min_prunable_chars: int = 50_000
    max_chars: int = 4_000
    head_chars: int = 1_500
    tail_chars: int = 1_500
    hard_clear: bool = True
    placeholder: str = PLACEHOLDER
    tools_allow: tuple[str, ...] = ()  # patterns such as `read_*`; none means every tool
    tools_deny: tuple[str, ...] = ()  # stronger than the other list


class PruneKind(StrEnum):
    """What became of a result."""

    TRIM = "soft-trim"
    CLEAR = "hard-clear"


class PruneDecision(NamedTuple):
    """One result and what became of it, with every number and word needed to do it again."""

    message: str
    part: int
    result: str
    kind: PruneKind
    chars: int  # of its text when it was decided
    head: int = 0
    tail: int = 0
    placeholder: str = ""


def decide(
    messages: Sequence[Message],
    settings: PruneSettings,
    *,
    now: float,
    last_call: float | None,
    trimming: bool = False,
    readers: Readers = NO_READERS,
) -> list[PruneDecision]:
    """Decide which results of a window get shorter; times are in seconds.

    With no last call nothing can be cached. A clock that went backwards prunes nothing.
    """
    if settings.mode is PruneMode.OFF or not _due(settings, now, last_call, trimming=trimming):
        return []
    results = list(_prunable(messages, settings))
    trims = [each for each in (_trim(*place, settings, readers) for place in results) if each]
    return trims + (_clears(results, trims, settings, readers) if settings.hard_clear else [])


def apply(
    messages: Sequence[Message], decisions: Iterable[PruneDecision], readers: Readers = NO_READERS
) -> tuple[Message, ...]:
    """The window as decided; what a decision does not fit is left as it is."""
    by_message: dict[str, list[PruneDecision]] = {}
    for decision in decisions:
        by_message.setdefault(decision.message, []).append(decision)
    if not by_message:
        return tuple(messages)
    return tuple(
        _applied(message, by_message[message.id], readers) if message.id in by_message else message
        for message in messages
    )


def to_json(decision: PruneDecision) -> dict[str, Json]:
    """A decision as it stands in a transcript."""
    return {**decision._asdict(), "kind": str(decision.kind)}


def from_json(value: Mapping[str, Json]) -> PruneDecision:
    """A decision from a transcript; raises ValueError, KeyError or TypeError for what is none."""
    return PruneDecision(**{**value, "kind": PruneKind(value["kind"])})


def _due(settings: PruneSettings, now: float, last_call: float | None, *, trimming: bool) -> bool:
    cold = last_call is None or now - last_call > settings.ttl
    return settings.mode is PruneMode.ALWAYS or trimming or cold


def _prunable(
    messages: Sequence[Message], settings: PruneSettings
) -> Iterator[tuple[Message, int, ToolResult]]:
    """The results that may be pruned, oldest first."""
    first = next((at for at, message in enumerate(messages) if is_request(message)), len(messages))
    ids = Counter(message.id for message in messages)
    names: dict[str, str] = {}
    for at, message in enumerate(messages[: _protected(messages, settings.keep_last_assistants)]):
        names.update((call.id, call.name) for call in message.calls)
        if at < first or not message.id or ids[message.id] > 1:
            continue
        for index, part in enumerate(message.parts):
            if (
                isinstance(part, ToolResult)
                and all(isinstance(each, Text) for each in part.content)
                and _allowed(part.name or names.get(part.id, ""), settings)
            ):
                yield message, index, part


def _protected(messages: Sequence[Message], keep: int) -> int:
    """Where the last assistant messages begin; with fewer than that, everything is protected."""
    if keep <= 0:
        return len(messages)
    places = [at for at, message in enumerate(messages) if message.role is Role.ASSISTANT]
    return places[-keep] if len(places) >= keep else 0


def _allowed(name: str, settings: PruneSettings) -> bool:
    def matches(patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)

    return not matches(settings.tools_deny) and (not settings.tools_allow or matches(settings.tools_allow))


def _trim(
    message: Message, index: int, result: ToolResult, settings: PruneSettings, readers: Readers
) -> PruneDecision | None:
    chars = _chars(result)
    head, tail = max(settings.head_chars, 0), max(settings.tail_chars, 0)
    made = PruneDecision(message.id, index, result.id, PruneKind.TRIM, chars, head, tail)
    if chars <= max(settings.max_chars, 0) or _trimmed_chars(made, readers) >= chars:
        return None
    return made


def _clears(
    results: list[tuple[Message, int, ToolResult]],
    trims: list[PruneDecision],
    settings: PruneSettings,
    readers: Readers,
) -> list[PruneDecision]:
    """Clear the oldest until less than the threshold could still be pruned."""
    left = {(each.message, each.part): _trimmed_chars(each, readers) for each in trims}
    sizes = [left.get((message.id, index), _chars(result)) for message, index, result in results]
    # The placeholder has no pointer of its own: a cleared result is read back by its call's id.
    ids = Counter(result.id for _, _, result in results)
    lead_back = [result.id and not result.id.isdecimal() and ids[result.id] == 1 for _, _, result in results]
    clearable = [
        size if size > len(settings.placeholder) and sure else 0
        for size, sure in zip(sizes, lead_back, strict=True)
    ]
    total = sum(clearable)
    found = []
    for (message, index, result), size in zip(results, clearable, strict=True):
        if total < max(settings.min_prunable_chars, 1):
            break
        if size:
            total -= size
            found.append(
                PruneDecision(
                    message.id, index, result.id, PruneKind.CLEAR, size, placeholder=settings.placeholder
                )
            )
    return found


def _chars(result: ToolResult) -> int:
    return sum(len(each.text) for each in result.content if isinstance(each, Text)) + max(
        len(result.content) - 1, 0
    )


def _trimmed_chars(decision: PruneDecision, readers: Readers) -> int:
    return decision.head + decision.tail + len(_GAP) + len(_note(decision, readers))


_GAP = "\n...\n"


def _note(decision: PruneDecision, readers: Readers) -> str:
    return (
        f"\n\n[Tool result trimmed: kept first {decision.head} chars and last {decision.tail} chars"
        f" of {decision.chars} chars; {readers.whole(decision.message)}]"
    )


def _applied(message: Message, decisions: list[PruneDecision], readers: Readers) -> Message:
    parts = list(message.parts)
    for decision in decisions:
        part = parts[decision.part] if 0 <= decision.part < len(parts) else None
        if isinstance(part, ToolResult) and part.id == decision.result:
            parts[decision.part] = _shortened(part, decision, readers)
    return message._replace(parts=tuple(parts))


def _shortened(result: ToolResult, decision: PruneDecision, readers: Readers) -> ToolResult:
    """A result as decided; one that is already shorter, or holds more than words, stays as it is."""
    if not result.content or not all(isinstance(each, Text) for each in result.content):
        return result
    if decision.kind is PruneKind.CLEAR:
        return result._replace(content=(Text(decision.placeholder),))
    if _chars(result) != decision.chars:
        return result
    text = result.text
    tail = text[-decision.tail :] if decision.tail else ""
    return result._replace(content=(Text(text[: decision.head] + _GAP + tail + _note(decision, readers)),))
