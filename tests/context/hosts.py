"""A host for tests: a clock that stands still, a journal in memory, a model that says what it was told to."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from vademecum.transcripts import Message, Role, Text

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.context.host import Complete, GitActivity
    from vademecum.transcripts import Json

FACT = "- The staging database moved to db7."


@dataclass
class Asked:
    messages: list[Message]
    system: str
    tools: list[Json]


@dataclass
class ScriptedHost:
    reply: Callable[[Asked], Message | str] | None = None
    time: datetime = datetime(2026, 11, 15, 8, 0, tzinfo=UTC)
    barred: str = ""
    days: dict[str, str] = field(default_factory=dict)
    records: list[str] = field(default_factory=list)
    asked: list[Asked] = field(default_factory=list)

    @property
    def complete(self) -> Complete | None:
        return self._complete if self.reply else None

    def _complete(
        self, messages: Sequence[Message], system: str, tools: Sequence[Json], seconds: float
    ) -> Message | str:
        assert self.reply
        assert seconds > 0
        self.asked.append(Asked(list(messages), system, list(tools)))
        return self.reply(self.asked[-1])

    def now(self) -> datetime:
        return self.time

    def journal(self) -> str:
        return self.days.get(f"{self.time:%Y-%m-%d}", "")

    def note(self, text: str) -> None:
        self.days[f"{self.time:%Y-%m-%d}"] = f"{self.journal()}{text}\n"

    def remember(self, text: str) -> None:
        self.records.append(text)

    def git(self) -> GitActivity | None:
        return None


def said(text: str) -> Message:
    return Message(Role.ASSISTANT, (Text(text),))


def is_flush(asked: Asked) -> bool:
    return "memory flush" in asked.system


def obedient(asked: Asked) -> str:
    """A model that flushes one fact and writes a sound summary of whatever it is asked for."""
    if is_flush(asked):
        return FACT
    question = asked.messages[0].text
    wanted = question.split("<record>")[0]
    names = re.findall(r"^- (.*)$", wanted.split("Requests that must")[0], re.MULTILINE)
    requests = re.findall(r"^- (.*)$", wanted.split("Requests that must")[1], re.MULTILINE)
    return "\n".join(
        [
            *("## Decisions", "- none", "## Open TODOs", "- none", "## Constraints/Rules", "- none"),
            *("## Pending user asks", *(f"- {each}" for each in requests)),
            *("## Exact identifiers", *(f"- {each}" for each in names)),
        ]
    )
