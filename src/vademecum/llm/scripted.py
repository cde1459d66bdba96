"""A model that says what it is told to: for tests of whatever uses one, and for trying things without one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from vademecum.errors import ModelFailed, ModelNonsense
from vademecum.llm.base import (
    MENDS,
    AnswerKind,
    Budget,
    Call,
    Limits,
    Misfit,
    ModelAnswer,
    ModelUsage,
    Stream,
    Typed,
    check_needed,
    estimate,
    mend_request,
    shorten_problems,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from vademecum.llm.base import Json, Prompt

T = TypeVar("T")

# Words; a JSON object, for a typed answer; calls of tools; an error to be raised; or a function of what was
# asked that gives one of these.
Reply: TypeAlias = (
    "str | dict[str, Any] | Call | tuple[Call, ...] | Exception | Callable[[ScriptedQuestion], Reply]"
)


@dataclass(frozen=True, slots=True)
class ScriptedQuestion:
    """One question as it came."""

    prompt: Prompt
    system: str = ""
    tools: tuple[Json, ...] = ()
    kind: type | None = None
    limits: Limits = field(default_factory=Limits)


class Scripted:
    """Gives its replies one after another, and keeps what it was asked."""

    def __init__(self, *replies: Reply, name: str = "scripted:model", budget: Budget | None = None) -> None:
        self.name = name
        self.asked: list[ScriptedQuestion] = []
        self.budget = Budget() if budget is None else budget
        self._replies = list(replies)

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Give the next reply."""
        asked = ScriptedQuestion(prompt, system, tuple(tools), None, limits or Limits())
        return self._answer(asked)

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> Stream:
        """Give the next reply word by word."""
        return Stream(self._pieces(ScriptedQuestion(prompt, system, tuple(tools), None, limits or Limits())))

    def typed(
        self, prompt: Prompt, kind: type[T], *, system: str = "", limits: Limits | None = None
    ) -> Typed[T]:
        """Give the next reply that fits the kind; the script must hold one for each time it is mended."""
        wanted = AnswerKind(kind)
        usage, problems, attempts = ModelUsage(), "", 0
        for _ in range(1 + MENDS):
            whole = prompt if not problems else _continued(prompt, mend_request(problems))
            answer = self._answer(
                ScriptedQuestion(whole, system, (), kind, limits or Limits()), spent=usage.tokens
            )
            usage, attempts = usage + answer.usage, attempts + 1
            try:
                said = answer.calls[0].arguments if answer.calls else answer.text
                return Typed(wanted.read(said), usage, self.name, attempts)
            except Misfit as misfit:
                problems = str(misfit)
        raise ModelNonsense(
            f"{self.name} gave no {wanted.name} in {attempts} answers: {shorten_problems(problems)}"
        )

    def _pieces(self, asked: ScriptedQuestion) -> Generator[str, None, ModelAnswer]:
        answer = self._answer(asked)
        yield from re.findall(r"\S*\s*", answer.text)[:-1]
        return answer

    def _answer(self, asked: ScriptedQuestion, *, spent: int = 0) -> ModelAnswer:
        estimated = estimate(asked.prompt, system=asked.system, tools=asked.tools)
        with self.budget.holding(check_needed(estimated + spent, asked.limits)):
            self.asked.append(asked)
            reply = self._next(asked)
            calls = (reply,) if isinstance(reply, Call) else reply if isinstance(reply, tuple) else ()
            text = reply if isinstance(reply, str) else json.dumps(reply) if isinstance(reply, dict) else ""
            if not text.strip() and not calls:
                raise ModelNonsense(f"{self.name} gave an empty answer")
            output = estimate(text + "".join(each.arguments for each in calls))
            usage = ModelUsage(estimated, output, counted=False)
            self.budget.add(self.name, usage)
            return ModelAnswer(text, usage, self.name, 1, calls, False, _message(text, calls, self.name))

    def _next(self, asked: ScriptedQuestion) -> str | dict[str, Any] | Call | tuple[Call, ...]:
        if not self._replies:
            raise ModelFailed(f"{self.name} has no more replies", hint="give the script one more reply")
        reply = self._replies.pop(0)
        while callable(reply):
            reply = reply(asked)
        if isinstance(reply, Exception):
            raise reply
        return reply


def _continued(prompt: Prompt, question: str) -> list[Json]:
    """A conversation that goes on with one more question."""
    before = [_question(prompt)] if isinstance(prompt, str) else list(prompt)
    return [*before, _question(question)]


def _question(text: str) -> Json:
    return {"kind": "request", "parts": [{"part_kind": "user-prompt", "content": text}]}


def _message(text: str, calls: Sequence[Call], model: str) -> Json:
    parts: list[Json] = [{"part_kind": "text", "content": text}] if text else []
    parts += [
        {
            "part_kind": "tool-call",
            "tool_name": call.name,
            "args": call.arguments,
            "tool_call_id": call.id,
        }
        for call in calls
    ]
    return {"kind": "response", "parts": parts, "model_name": model}
