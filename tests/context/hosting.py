"""A host that has a conversation with the engine, call by call, and looks at everything that comes of it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from context.replaying import replay
from vademecum.context.engine import ContextEngine
from vademecum.context.units import build_units, estimate_request
from vademecum.text.outgoing import clean_value
from vademecum.transcripts import Message, Role, ToolCall, ToolResult, to_json
from vademecum.transcripts.events import TAKEN_BACK, Compacted, Flushed, MessageEvent, Summary, Trimmed, Used
from vademecum.transcripts.log import Log, MemoryLog

from .conversations import orphans
from .hosts import ScriptedHost

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.context.window import Prepared, WindowSettings
    from vademecum.transcripts import Part

    from .hosts import Asked


def cycles(log: Log) -> list[list[str]]:
    """The outcomes of the flushes of each cycle, and of the one that has begun."""
    found: list[list[str]] = [[]]
    for event in log.events():
        if isinstance(event, Flushed):
            found[-1].append(event.outcome)
        cuts_only = isinstance(event, Trimmed) and not event.ids and event.why == "compaction"
        drop = isinstance(event, Trimmed) and event.why != TAKEN_BACK and not cuts_only
        if drop or isinstance(event, Compacted):
            found.append([])
    return found


def same_but_secrets(one: Sequence[Message], other: Sequence[Message]) -> bool:
    """Whether two windows are the same; a secret and what stands for it are."""
    return len(one) == len(other) and all(
        left == right or clean_value(to_json(left)) == clean_value(to_json(right))
        for left, right in zip(one, other, strict=True)
    )


def says(messages: Iterable[Message], words: str) -> bool:
    """Whether a window has a user's words, said or told of; the beginning is enough."""
    start = words[:200].replace("<", "‹")
    return any(
        start in " ".join(message.text.split()).replace("<", "‹")
        for message in messages
        if message.role is Role.USER
    )


# What asks for work and what asks for nothing, as this host sees it: the engine's own idea of a task is what
# is looked at here, so it is not asked. All else is unclear, and may or may not be a task.
ORDERS = re.compile(
    r"(?:please |now )*(?:add|build|change|check|create|explain|find|fix|go on with|implement|inspect"
    r"|investigate|look at|look into|move|refactor|remove|rename|rewrite|update|write)\b",
    re.IGNORECASE,
)
ORDER_WORDS = 7  # at least; what is shorter may be a remark
SMALL_TALK = {
    "",
    "and hurry",
    "go on",
    "ok, go ahead",
    "sounds good, please continue!",
    "thanks",
    "yes",
    "👍",
}
SMALL_TALK |= {"好的", "/status"}


def is_order(words: str) -> bool:
    """Whether a user's words are an order to anyone who reads them."""
    return bool(ORDERS.match(words)) and len(words.split()) >= ORDER_WORDS


class Hosting:
    """One session: its thread as the host has it, the engine, and what was seen."""

    def __init__(
        self,
        window: int,
        reply: Callable[[Asked], Message | str] | None = None,
        *,
        log: Log | None = None,
        settings: WindowSettings | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.log = log or Log("s", MemoryLog())
        self.host = ScriptedHost(reply)
        self.window = window
        self.settings = settings
        self.engine = ContextEngine(self.log, self.host, window, settings, names=names)
        self.thread: list[Message] = []
        self.sent: Prepared | None = None
        self.first: str | None = None  # the first task; empty where it is unclear, None before any
        self.task = ""  # the current one; empty where that is unclear
        self.judged = 0  # windows that have overflowed and in which it was looked for
        self.calls = self.heard = 0
        self.drops = 0
        self.largest_block = 0

    def restart(self) -> None:
        """End the program, and begin it again with nothing but the log."""
        self.engine = ContextEngine(
            self.log, self.host, self.window, self.settings, estimator=self.engine.estimator
        )

    def hear(self, message: Message) -> None:
        """Add a message to the thread."""
        self.thread.append(message)
        words = " ".join(message.text.split())
        if message.role is Role.USER and words.lower() not in SMALL_TALK:
            self.task = words if is_order(words) else ""
            self.first = self.task if self.first is None else self.first

    def call(self, usage: Used | None = None, *, deep: bool = True) -> Prepared:
        """Prepare a request, look at it, and let it be answered; `deep` reads the whole log as well."""
        sent = self.engine.prepare(self.thread)
        before, self.sent = self.sent, sent
        changed = sent.pruned or sent.trimmed or sent.cut
        if before is not None and not changed and sent.messages[: len(before.messages)] != before.messages:
            assert self._mended_anew(), "the prefix has changed"
        self.heard = len(self.thread)
        self.look(sent, deep=deep)
        self.engine.observe(usage or Used(input=sent.tokens.total))
        self.calls += 1
        return sent

    def _mended_anew(self) -> bool:
        """Whether the new messages change how the old ones are mended, as a late result does."""
        named = [message._replace(id=str(at)) for at, message in enumerate(self.thread)]
        before = build_units(named[: self.heard]).messages
        return build_units(named).messages[: len(before)] != before

    def look(self, sent: Prepared, *, deep: bool = True) -> None:
        """What must be so in every window."""
        self.sent = sent
        self.drops += bool(sent.trimmed)
        assert orphans(sent.messages) == []
        assert sent.tokens.total <= sent.tokens.limit
        assert estimate_request(sent.messages, [], self.engine.estimator.ratio("")) == sent.tokens.total
        assert sent.tokens.summary <= self.window // 5 + 50
        self.largest_block = max(self.largest_block, sent.tokens.summary)
        self.judged += bool(self.task and sent.tokens.summary)
        assert not self.task or says(sent.messages, self.task), "the current task is not there"
        assert not self.first or says(sent.messages, self.first), "the original task is not there"
        if deep:
            assert same_but_secrets(replay(self.log.events()), sent.messages)

    def look_back(self) -> list[list[str]]:
        """What must be so of the whole log: every message once and in order, one flush for each drop."""
        messages = [event.message for event in self.log.events() if isinstance(event, MessageEvent)]
        assert len(messages) == len(self.thread)
        assert same_but_secrets(
            [message._replace(id="") for message in messages],
            [message._replace(id="") for message in self.thread],
        )
        found = cycles(self.log)
        assert all(len(each) == 1 for each in found[:-1])
        assert len(found[-1]) <= 1
        summaries = sum(isinstance(event, Summary | Compacted) for event in self.log.events())
        assert summaries >= self.drops > 0 or not self.drops
        return found


def responses(messages: Sequence[Message]) -> Iterator[tuple[bool, Message]]:
    """The messages of a conversation, each with whether the model is called right before it."""
    spoke = False
    for message in messages:
        speaks = message.role is Role.ASSISTANT
        yield speaks and not spoke, message
        spoke = speaks


def renamed(messages: Iterable[Message], mark: str) -> list[Message]:
    """The same conversation once more, with ids of its own."""

    def part(each: Part) -> Part:
        return each._replace(id=f"{each.id}{mark}") if isinstance(each, ToolCall | ToolResult) else each

    return [
        each._replace(id=f"{each.id}{mark}" if each.id else "", parts=tuple(map(part, each.parts)))
        for each in messages
    ]
