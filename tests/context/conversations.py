"""Conversations as agents have them, and as they must not be: one generator for every test of the window."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING

from hypothesis import strategies as st

from vademecum.context.units import flatten
from vademecum.transcripts import (
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
    from collections.abc import Callable, Iterable, Sequence

    from vademecum.context.units import Unit
    from vademecum.transcripts import Part

WORDS = "the parser fails on empty input while reading tables from disk and nobody knows why it stops".split()
TOOLS = ("bash", "read_file", "write_file", "ask_user", "Grep")
SMALL_TALK = ("yes", "ok, go ahead", "Sounds good, please continue!", "👍", "好的", "thanks", "/status")
ODD_TEXTS = (
    "",
    " \n",
    "\x00\x01binary\ufffd",
    "</thread_summary>",
    "- [original] forged",
    "\ud800",
    "表が空です" * 9,
)


class Conversation(list[Message]):
    """Messages that print as the call which makes them again."""

    made = ""

    def __repr__(self) -> str:
        return self.made


def conversation(seed: int, *, turns: int = 12, broken: bool = True, huge: int = 60_000) -> Conversation:
    """A conversation of a number; with `broken`, everything that real logs have gone wrong."""
    found = Conversation(_Talk(random.Random(seed), broken=broken, huge=huge).run(turns))
    found.made = f"conversation({seed}, turns={turns}, broken={broken}, huge={huge})"
    return found


def conversations(
    *, turns: int = 12, broken: bool = True, huge: int = 60_000
) -> st.SearchStrategy[list[Message]]:
    """Any conversation; shrinking goes to a small number of turns and a small seed."""
    return st.builds(
        lambda seed, count: conversation(seed, turns=count, broken=broken, huge=huge),
        st.integers(0, 2**32),
        st.integers(0, turns),
    )


class _Talk:
    def __init__(self, chance: random.Random, *, broken: bool, huge: int) -> None:
        self.chance = chance
        self.broken = broken
        self.huge = huge
        self.messages: list[Message] = []
        self.calls = 0

    def run(self, turns: int) -> list[Message]:
        if self.maybe(0.8):
            self.say(Role.SYSTEM, Text("You are a careful engineer. " + self.words(40)))
        for _ in range(turns):
            self.turn()
        return self.spoil() if self.broken else self.messages

    def maybe(self, share: float) -> bool:
        return self.chance.random() < share

    def words(self, most: int) -> str:
        return " ".join(self.chance.choices(WORDS, k=self.chance.randint(1, most)))

    def say(self, role: Role, *parts: Part) -> None:
        number = len(self.messages)
        self.messages.append(Message(role, tuple(parts), id=f"m{number}", time="2026-11-15T08:00:00Z"))

    def turn(self) -> None:
        request_text = (
            self.chance.choice(SMALL_TALK) if self.maybe(0.3) else f"Please look into why {self.words(30)}"
        )
        parts: list[Part] = [Text(request_text)]
        if self.maybe(0.1):
            parts.append(Image("image/png", data="A" * 5000))
        self.say(Role.USER, *parts)
        if self.broken and self.maybe(0.1):
            self.say(Role.SYSTEM, Text("Reminder: " + self.words(20)))
        for _ in range(self.chance.randint(0, 3)):
            self.use_tools()
        if self.maybe(0.8):
            self.say(Role.ASSISTANT, Text(self.words(60) + self.chance.choice((".", " Shall I go on?"))))

    def use_tools(self) -> None:
        parts: list[Part] = []
        if self.maybe(0.3):
            parts.append(Thinking(self.words(30), {"signature": "c2ln"}))
        if self.maybe(0.5):
            parts.append(Text("Decision: " + self.words(8)))
        made = []
        for _ in range(self.chance.choice((1, 1, 1, 2, 4))):
            self.calls += 1
            made.append(ToolCall(f"call_{self.calls}", self.chance.choice(TOOLS), self.arguments()))
        self.say(Role.ASSISTANT, *parts, *made)
        results = [self.result(call) for call in made]
        if self.maybe(0.3):  # as Anthropic has it: all in one user message
            self.say(Role.USER, *results, *([Text("and hurry")] if self.maybe(0.1) else []))
            return
        for result in results:
            self.say(Role.TOOL, result)

    def arguments(self) -> str:
        if self.broken and self.maybe(0.1):
            return self.chance.choice(("", "not json", '{"path": ', "[1,2]", "\x00"))
        long = self.words(30) * (self.chance.choice((1, 1, 1, self.huge // 400)))
        return json.dumps({"path": f"src/part{self.chance.randint(0, 60)}.py", "content": long})

    def result(self, call: ToolCall) -> ToolResult:
        content: list[Text | Image | Opaque] = [Text(self.output())]
        if self.maybe(0.1):
            content.append(Image("image/png", data="A" * 9000))
        if self.maybe(0.05):
            content.append(Opaque({"type": "resource", "blob": "x" * 50}))
        if self.maybe(0.1):
            content.append(Text(self.words(10)))
        named = call.name if self.maybe(0.5) else ""
        return ToolResult(call.id, tuple(content), named, error=self.maybe(0.1))

    def output(self) -> str:
        commit = f"[main {self.chance.getrandbits(32):08x}] {self.words(6)}\n"
        length = self.chance.choice((0, 80, 800, 5_000, self.huge))
        body = (self.words(20) + "\n") * (length // 60 + 1)
        return (commit if self.maybe(0.3) else "") + body[: max(length, 1)]

    def spoil(self) -> list[Message]:
        found: list[Message] = []
        for message in self.messages:
            found += self.spoiled(message)
        if found and self.maybe(0.3):
            moved = found.pop(self.chance.randrange(len(found)))
            found.insert(self.chance.randint(0, len(found)), moved)
        return found

    def spoiled(self, message: Message) -> list[Message]:
        if not self.maybe(0.15):
            return [message]
        kinds: tuple[Callable[[], list[Message]], ...] = (
            lambda: [],
            lambda: [message, message],
            lambda: [message._replace(id="")],
            lambda: [message._replace(parts=())],
            lambda: [
                message._replace(
                    parts=(*message.parts, Opaque({"type": "unknown", "deep": [1, {"a": None}]}))
                )
            ],
            lambda: [message._replace(parts=tuple(self.renamed(part) for part in message.parts))],
            lambda: [
                message._replace(parts=tuple(p for p in message.parts if not isinstance(p, ToolResult)))
            ],
            lambda: [message._replace(parts=(*message.parts, Text(self.chance.choice(ODD_TEXTS))))],
        )
        return self.chance.choice(kinds)()

    def renamed(self, part: Part) -> Part:
        if isinstance(part, ToolCall | ToolResult):
            return part._replace(id=self.chance.choice(("", "call_1", part.id)))
        return part


def orphans(messages: Iterable[Message]) -> list[str]:
    """The ids a provider would complain of: calls and results that are not paired right behind each other."""
    found: list[str] = []
    waiting: list[str] = []
    seen: set[str] = set()
    for message in messages:
        if waiting and not message.results:
            found += waiting
            waiting = []
        for part in message.parts:
            if isinstance(part, ToolCall):
                found += [part.id] if part.id in seen or not part.id else []
                seen.add(part.id)
                waiting.append(part.id)
            elif isinstance(part, ToolResult):
                if part.id in waiting:
                    waiting.remove(part.id)
                else:
                    found.append(part.id)
    return found + waiting


def ids(units: Sequence[Unit]) -> list[str]:
    """The ids of all messages of units, in order."""
    return [message.id for message in flatten(units)]
