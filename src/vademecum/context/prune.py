"""Shorten old tool results before a call; the transcript keeps them in full.

A decision names one result and how it was shortened. A decision is made on a window with all earlier
decisions applied, is written down, and is never undone: `apply(messages, all decisions)` gives the same bytes
in every later call, so that a provider's prefix cache stays valid. Decisions refer to messages as the
transcript holds them, so apply them before `units.build_units` repairs anything.

Never shortened are messages before the user's first, the last assistant messages and everything after them,
results with pictures or unknown parts, tools that the lists protect, and messages without a unique id,
because the full text of such a message could not be read back.
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

    from vademecum.context.units import ReaderTools
    from vademecum.transcripts import Json, Message

PLACEHOLDER = "[Old tool result content cleared]"


class PruneMode(StrEnum):
    """The setting that says when tool results are pruned (shortened)."""

    OFF = "off"
    CACHE_TTL = "cache-ttl"  # when the provider's cache has expired, or a trim will change the prefix anyway
    ALWAYS = "always"


class PruneSettings(NamedTuple):
    """The settings in the section `[prune]`, for the shortening of tool results."""

    mode: PruneMode = PruneMode.CACHE_TTL
    ttl: float = 300.0
    keep_last_assistants: int = 3
    min_prunable_chars: int = 50_000
    max_chars: int = 4_000
    head_chars: int = 1_500
    tail_chars: int = 1_500
    hard_clear: bool = True
    placeholder: str = PLACEHOLDER
    tools_allow: tuple[str, ...] = ()  # patterns such as `read_*`; empty allows every tool
    tools_deny: tuple[str, ...] = ()  # overrides `tools_allow`


class PruneKind(StrEnum):
    """The way in which a tool result was shortened."""

    TRIM = "soft-trim"
    CLEAR = "hard-clear"


class PruneDecision(NamedTuple):
    """A tool result and how it was shortened, with all values that are needed to repeat it exactly."""

    message: str
    part: int
    result: str
    kind: PruneKind
    chars: int  # characters of its text at the time of the decision
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
    readers: ReaderTools = NO_READERS,
) -> list[PruneDecision]:
    """Return decisions about which tool results of a window to shorten; `now` and `last_call` are in seconds.

    In the mode `cache-ttl`, results are shortened only if `trimming`, or if no call was made in the last
    `ttl` seconds.
    """
    if settings.mode is PruneMode.OFF or not _is_due(settings, now, last_call, trimming=trimming):
        return []
    results = list(_prunable(messages, settings))
    trims = [each for each in (_trim(*place, settings, readers) for place in results) if each]
    return trims + (_clears(results, trims, settings, readers) if settings.hard_clear else [])


def apply(
    messages: Sequence[Message], decisions: Iterable[PruneDecision], readers: ReaderTools = NO_READERS
) -> tuple[Message, ...]:
    """Return the window with these decisions applied; a decision that does not fit its message changes
    nothing.
    """
    by_message: dict[str, list[PruneDecision]] = {}
    for decision in decisions:
        by_message.setdefault(decision.message, []).append(decision)
    if not by_message:
        return tuple(messages)
    return tuple(
        _apply_to_message(message, by_message[message.id], readers) if message.id in by_message else message
        for message in messages
    )


def to_json(decision: PruneDecision) -> dict[str, Json]:
    """Return a decision in the JSON form that the transcript holds."""
    return {**decision._asdict(), "kind": str(decision.kind)}


def from_json(value: Mapping[str, Json]) -> PruneDecision:
    """Return the decision that a transcript's JSON holds; raise ValueError, KeyError or TypeError for
    anything else.
    """
    return PruneDecision(**{**value, "kind": PruneKind(value["kind"])})


def _is_due(settings: PruneSettings, now: float, last_call: float | None, *, trimming: bool) -> bool:
    cold = last_call is None or now - last_call > settings.ttl
    return settings.mode is PruneMode.ALWAYS or trimming or cold


def _prunable(
    messages: Sequence[Message], settings: PruneSettings
) -> Iterator[tuple[Message, int, ToolResult]]:
    """Yield the tool results of a window that may be pruned (shortened), oldest first."""
    first = next((at for at, message in enumerate(messages) if is_request(message)), len(messages))
    ids = Counter(message.id for message in messages)
    names: dict[str, str] = {}
    for at, message in enumerate(messages[: _protected_start(messages, settings.keep_last_assistants)]):
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


def _protected_start(messages: Sequence[Message], keep: int) -> int:
    """Return the index of the oldest of the last `keep` assistant messages; from there all is protected.

    If there are fewer, the index is 0, and all messages are protected; with `keep` 0, none is.
    """
    if keep <= 0:
        return len(messages)
    places = [at for at, message in enumerate(messages) if message.role is Role.ASSISTANT]
    return places[-keep] if len(places) >= keep else 0


def _allowed(name: str, settings: PruneSettings) -> bool:
    def matches(patterns: tuple[str, ...]) -> bool:
        return any(fnmatchcase(name.lower(), pattern.lower()) for pattern in patterns)

    return not matches(settings.tools_deny) and (not settings.tools_allow or matches(settings.tools_allow))


def _trim(
    message: Message, index: int, result: ToolResult, settings: PruneSettings, readers: ReaderTools
) -> PruneDecision | None:
    chars = _chars(result)
    head, tail = max(settings.head_chars, 0), max(settings.tail_chars, 0)
    decision = PruneDecision(message.id, index, result.id, PruneKind.TRIM, chars, head, tail)
    if chars <= max(settings.max_chars, 0) or _trimmed_chars(decision, readers) >= chars:
        return None
    return decision


def _clears(
    results: list[tuple[Message, int, ToolResult]],
    trims: list[PruneDecision],
    settings: PruneSettings,
    readers: ReaderTools,
) -> list[PruneDecision]:
    """Return decisions to clear the oldest results that can be cleared.

    They end when the clearable rest has fewer than `min_prunable_chars` characters.
    """
    trimmed_sizes = {(each.message, each.part): _trimmed_chars(each, readers) for each in trims}
    sizes = [trimmed_sizes.get((message.id, index), _chars(result)) for message, index, result in results]
    # The placeholder has no pointer of its own: a cleared result is read back by its call's id.
    ids = Counter(result.id for _, _, result in results)
    has_unique_id = [
        result.id and not result.id.isdecimal() and ids[result.id] == 1 for _, _, result in results
    ]
    clearable = [
        size if size > len(settings.placeholder) and is_unique else 0
        for size, is_unique in zip(sizes, has_unique_id, strict=True)
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


def _trimmed_chars(decision: PruneDecision, readers: ReaderTools) -> int:
    return decision.head + decision.tail + len(_GAP) + len(_note(decision, readers))


_GAP = "\n...\n"


def _note(decision: PruneDecision, readers: ReaderTools) -> str:
    return (
        f"\n\n[Tool result trimmed: kept first {decision.head} chars and last {decision.tail} chars"
        f" of {decision.chars} chars; {readers.location(decision.message)}]"
    )


def _apply_to_message(message: Message, decisions: list[PruneDecision], readers: ReaderTools) -> Message:
    parts = list(message.parts)
    for decision in decisions:
        part = parts[decision.part] if 0 <= decision.part < len(parts) else None
        if isinstance(part, ToolResult) and part.id == decision.result:
            parts[decision.part] = _shorten(part, decision, readers)
    return message._replace(parts=tuple(parts))


def _shorten(result: ToolResult, decision: PruneDecision, readers: ReaderTools) -> ToolResult:
    """Return a tool result cleared or trimmed as decided.

    A result that is not only text stays; so does a result to trim whose length has changed since.
    """
    if not result.content or not all(isinstance(each, Text) for each in result.content):
        return result
    if decision.kind is PruneKind.CLEAR:
        return result._replace(content=(Text(decision.placeholder),))
    if _chars(result) != decision.chars:
        return result
    text = result.text
    tail = text[-decision.tail :] if decision.tail else ""
    return result._replace(content=(Text(text[: decision.head] + _GAP + tail + _note(decision, readers)),))
