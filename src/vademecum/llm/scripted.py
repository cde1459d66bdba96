"""A model with prepared replies, for tests of code that uses a model, and for trials without one."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from vademecum.errors import ModelFailed, ModelNonsense
from vademecum.llm.base import (
    MAX_CORRECTIONS,
    AnswerKind,
    Budget,
    Call,
    InvalidAnswer,
    Limits,
    ModelAnswer,
    ModelUsage,
    Stream,
    Typed,
    check_needed,
    correction_request,
    estimate,
    shorten_problems,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from vademecum.llm.base import Json, Prompt

T = TypeVar("T")

# A text; a JSON object, for a typed answer; tool calls; an error to raise; or a function of the question that
# returns one of these.
Reply: TypeAlias = (
    "str | dict[str, Any] | Call | tuple[Call, ...] | Exception | Callable[[ScriptedQuestion], Reply]"
)


@dataclass(frozen=True, slots=True)
class ScriptedQuestion:
    """A question that the scripted model was asked."""

    prompt: Prompt
    system: str = ""
    tools: tuple[Json, ...] = ()
    kind: type | None = None
    limits: Limits = field(default_factory=Limits)


class Scripted:
    """A model that returns its prepared replies one after another, and records the questions."""

    def __init__(self, *replies: Reply, name: str = "scripted:model", budget: Budget | None = None) -> None:
        self.name = name
        self.asked: list[ScriptedQuestion] = []
        self.budget = Budget() if budget is None else budget
        self._replies = list(replies)

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Return the next reply."""
        question = ScriptedQuestion(prompt, system, tuple(tools), None, limits or Limits())
        return self._answer(question)

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> Stream:
        """Return the next reply word by word."""
        return Stream(self._pieces(ScriptedQuestion(prompt, system, tuple(tools), None, limits or Limits())))

    def typed(
        self, prompt: Prompt, kind: type[T], *, system: str = "", limits: Limits | None = None
    ) -> Typed[T]:
        """Return the next reply that has the right form; each correction takes another reply."""
        wanted = AnswerKind(kind)
        usage, problems, attempts = ModelUsage(), "", 0
        for _ in range(1 + MAX_CORRECTIONS):
            whole = prompt if not problems else _add_question(prompt, correction_request(problems))
            answer = self._answer(
                ScriptedQuestion(whole, system, (), kind, limits or Limits()), spent=usage.tokens
            )
            usage, attempts = usage + answer.usage, attempts + 1
            try:
                content = answer.calls[0].arguments if answer.calls else answer.text
                return Typed(wanted.read(content), usage, self.name, attempts)
            except InvalidAnswer as misfit:
                problems = str(misfit)
        raise ModelNonsense(
            f"{self.name} gave no {wanted.name} in {attempts} answers: {shorten_problems(problems)}"
        )

    def _pieces(self, question: ScriptedQuestion) -> Generator[str, None, ModelAnswer]:
        answer = self._answer(question)
        yield from re.findall(r"\S*\s*", answer.text)[:-1]
        return answer

    def _answer(self, question: ScriptedQuestion, *, spent: int = 0) -> ModelAnswer:
        estimated = estimate(question.prompt, system=question.system, tools=question.tools)
        with self.budget.reserve(check_needed(estimated + spent, question.limits)):
            self.asked.append(question)
            reply = self._next(question)
            calls = (reply,) if isinstance(reply, Call) else reply if isinstance(reply, tuple) else ()
            text = reply if isinstance(reply, str) else json.dumps(reply) if isinstance(reply, dict) else ""
            if not text.strip() and not calls:
                raise ModelNonsense(f"{self.name} gave an empty answer")
            output = estimate(text + "".join(each.arguments for each in calls))
            usage = ModelUsage(estimated, output, counted=False)
            self.budget.add(self.name, usage)
            return ModelAnswer(text, usage, self.name, 1, calls, False, _message(text, calls, self.name))

    def _next(self, question: ScriptedQuestion) -> str | dict[str, Any] | Call | tuple[Call, ...]:
        if not self._replies:
            raise ModelFailed(f"{self.name} has no more replies", hint="give the script one more reply")
        reply = self._replies.pop(0)
        while callable(reply):
            reply = reply(question)
        if isinstance(reply, Exception):
            raise reply
        return reply


def _add_question(prompt: Prompt, question: str) -> list[Json]:
    """Return a conversation with one more question at its end."""
    messages = [_question(prompt)] if isinstance(prompt, str) else list(prompt)
    return [*messages, _question(question)]


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
