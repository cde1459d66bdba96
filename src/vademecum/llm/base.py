"""The interface of a language model: a prompt in, an answer out, within limits and a budget.

This module knows no provider, and code that uses a model needs only this file. A call reserves its tokens
before anything is sent, so that two calls cannot both take the last ones. Typed answers are read with
pydantic, if requested.
"""

from __future__ import annotations

import json
import re
import threading
from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

from vademecum.errors import ModelFailed, OverBudget, UsageError
from vademecum.text import fences
from vademecum.tokens import DEFAULT_RATIO, PER_IMAGE, PER_MESSAGE, PRIMING, Size, count, weigh

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Mapping, Sequence
    from types import TracebackType

T = TypeVar("T")

Json: TypeAlias = Any  # any value that JSON text can hold

# One question, or a conversation in pydantic-ai's JSON, which `transcripts.shapes` reads and writes.
Prompt: TypeAlias = "str | Sequence[Json]"

SECONDS = 120.0
# How often a model is asked to correct an answer of the wrong form.
MAX_CORRECTIONS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of one call; None stands for the model's own limit."""

    seconds: float | None = None  # for everything: retries, waits and corrections
    tokens: int | None = None  # of prompt and answer together
    output: int | None = None  # of the answer alone


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """The tokens of a call, and its cost in dollars where the price is known."""

    input: int = 0
    output: int = 0
    cost: Decimal | None = None
    counted: bool = True  # by the provider; False for our own estimate

    @property
    def tokens(self) -> int:
        """The tokens of input and output together."""
        return self.input + self.output

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            self.input + other.input,
            self.output + other.output,
            # If the price of one part is unknown, the total is unknown.
            None if self.cost is None or other.cost is None else self.cost + other.cost,
            self.counted and other.counted,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call that a model makes; `arguments` is the JSON text as the provider sent it."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """A model's answer and its usage."""

    text: str
    usage: ModelUsage
    model: str
    attempts: int = 1
    calls: tuple[Call, ...] = ()
    cut: bool = False  # the answer was cut off at the output limit
    message: Json = field(
        default=None, repr=False
    )  # the answer in pydantic-ai's JSON, to be sent back unchanged


@dataclass(frozen=True, slots=True)
class Typed(Generic[T]):
    """A value of the requested type, and its usage."""

    value: T
    usage: ModelUsage
    model: str
    attempts: int = 1


class Stream:
    """An answer that arrives in pieces: iterate over the pieces, then read `answer`.

    Leaving the `with` block early stops the model.
    """

    def __init__(self, pieces: Generator[str, None, ModelAnswer]) -> None:
        self._pieces = pieces
        self._answer: ModelAnswer | None = None

    def __iter__(self) -> Iterator[str]:
        if self._answer is None:
            self._answer = yield from self._pieces

    @property
    def answer(self) -> ModelAnswer:
        """The complete answer; waits for the missing pieces."""
        for _ in self:
            pass
        if self._answer is None:
            raise ValueError("the stream was closed before its end")
        return self._answer

    def close(self) -> None:
        """Stop the model; pieces received so far stay valid."""
        self._pieces.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Model(Protocol):
    """A language model; every call raises a ModelFailed if there is no answer."""

    @property
    def name(self) -> str:
        """The name by which settings and flags choose the model: `provider:name`."""

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Ask for text, or for calls of the tools: each has a `name`, a `description` and `parameters`."""

    def typed(
        self, prompt: Prompt, kind: type[T], *, system: str = "", limits: Limits | None = None
    ) -> Typed[T]:
        """Ask for a value of a dataclass or pydantic model; an answer of the wrong form may be corrected."""

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> Stream:
        """Ask as `text` does, and return the text as it arrives."""


@cache
def read_prompt(package: str, name: str) -> str:
    """Return a prompt from the folder `prompts` of a package."""
    return resources.files(package).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip()


# ------------------------------------------------------------ the budget

# The tokens assumed for an answer without a limit.
USUAL_OUTPUT = 1_000


@dataclass(frozen=True, slots=True)
class UsageTotal:
    """The usage of one model, added up over all its calls."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cost: Decimal = Decimal(0)  # of calls whose price is known
    unpriced: int = 0  # calls whose price is unknown

    def with_call(self, usage: ModelUsage) -> UsageTotal:
        """Return this usage with the usage of one more call added."""
        return UsageTotal(
            self.calls + 1,
            self.input + usage.input,
            self.output + usage.output,
            self.cost + (usage.cost or 0),
            self.unpriced + (usage.cost is None),
        )


class Budget:
    """The tokens that all calls together may use, and the usage so far; None means no limit."""

    def __init__(self, tokens: int | None = None) -> None:
        self.tokens = tokens
        self._lock = threading.Lock()
        self._spent = 0
        self._reserved = 0
        self._record: dict[str, UsageTotal] = {}

    @property
    def spent(self) -> int:
        """The number of tokens used so far."""
        return self._spent

    @property
    def record(self) -> Mapping[str, UsageTotal]:
        """The usage by model."""
        with self._lock:
            return dict(self._record)

    @contextmanager
    def reserve(self, tokens: int) -> Iterator[None]:
        """Reserve tokens while a call runs; raises OverBudget when too few are left."""
        with self._lock:
            if self.tokens is not None and self._spent + self._reserved + tokens > self.tokens:
                left = max(self.tokens - self._spent - self._reserved, 0)
                raise OverBudget(
                    f"the call needs about {tokens} tokens, and {left} of {self.tokens} are left"
                    " in the budget of this process"
                )
            self._reserved += tokens
        try:
            yield
        finally:
            with self._lock:
                self._reserved -= tokens

    def add(self, model: str, usage: ModelUsage) -> None:
        """Record the usage of a call."""
        with self._lock:
            self._spent += usage.tokens
            self._record[model] = self._record.get(model, UsageTotal()).with_call(usage)


# The budget of every model of this process that has none of its own.
PROCESS = Budget()


def estimate(prompt: Prompt, *, system: str = "", tools: Sequence[Json] = ()) -> int:
    """Return the estimated number of tokens of a prompt, before a provider counts them."""
    size = Size(weigh(system), PRIMING + PER_MESSAGE)
    for each in [prompt] if isinstance(prompt, str) else prompt:
        size += _size(each) + Size(0, PER_MESSAGE)
    for tool in tools:
        size += _size(tool)
    return count(size, DEFAULT_RATIO)


def check_needed(estimated: int, limits: Limits) -> int:
    """Return the tokens to reserve for a call; raises OverBudget when it needs more than its limit."""
    output = USUAL_OUTPUT if limits.output is None else limits.output
    total = estimated + output
    if limits.tokens is not None and total > limits.tokens:
        raise OverBudget(
            f"the call needs about {total} tokens ({estimated} for the prompt), and may use {limits.tokens}",
            hint="send less, or let the call use more tokens",
        )
    return total


def _size(value: Json) -> Size:
    """Return the size of the texts in a JSON value; a picture has a fixed size, whatever its bytes."""
    if isinstance(value, str):
        return Size(weigh(value))
    if isinstance(value, dict):
        if value.get("kind") == "binary":
            return Size(0, PER_IMAGE)
        return sum((Size(weigh(str(key))) + _size(each) for key, each in value.items()), Size())
    if isinstance(value, list | tuple):
        return sum((_size(each) for each in value), Size())
    return Size(len(str(value)))


# ------------------------------------------------------------ typed answers


TOOL = "answer"
_PROBLEMS = 8
_NAME = re.compile(r"[^A-Za-z0-9_-]")


class InvalidAnswer(Exception):
    """An answer of the wrong form; its message describes the errors in words that a model understands."""


class AnswerKind(Generic[T]):
    """The type of a wanted answer (dataclass or pydantic model), its schema, and the code that reads the
    answer.
    """

    def __init__(self, kind: type[T]) -> None:
        try:
            from pydantic import TypeAdapter
            from pydantic.errors import PydanticUserError
        except ImportError as error:
            raise ModelFailed(
                "typed answers need a library that is not installed",
                hint="install the extra of a provider, such as `pip install 'vademecum[openai]'`",
            ) from error
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(kind)
            self.schema: dict[str, Any] = self._adapter.json_schema()
        except (PydanticUserError, NameError, TypeError) as error:
            raise UsageError(
                f"{kind!r} is not a supported answer type", hint="use a dataclass or a pydantic model"
            ) from error
        if self.schema.get("type") != "object":
            raise UsageError(
                f"{kind!r} is not a supported answer type", hint="use a dataclass or a pydantic model"
            )
        self.name = _NAME.sub("_", getattr(kind, "__name__", TOOL))
        self.description = str(self.schema.get("description", "")) or f"Give the {self.name}."

    def read(self, answer: Json) -> T:
        """Return the value in an answer: from the arguments of a call, a JSON text, or a text with JSON in
        it.
        """
        from pydantic import ValidationError

        value = find_json(answer) if isinstance(answer, str) else answer
        try:
            # As JSON, so that a number is never accepted as a string, but a date may be a string.
            return self._adapter.validate_json(json.dumps(value), strict=None)
        except ValidationError as error:
            raise InvalidAnswer(_describe_errors(error)) from error


def find_json(text: str) -> Json:
    """Return the JSON object in a model's answer, also if other text or a code fence is around it."""
    fenced = [text[each.inner_start : each.inner_end] for each in fences.find(text)[:1]]
    braced = text[text.find("{") : text.rfind("}") + 1]
    for each in (text, *fenced, braced):
        try:
            value = json.loads(each)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise InvalidAnswer("- it is not a JSON object")


def correction_request(problems: str) -> str:
    """Return the message that asks a model to correct its answer."""
    return read_prompt(__package__, "mend").format(problems=problems)


def shorten_problems(problems: str) -> str:
    """Return the faults of an answer for a person, on one line and without list dashes."""
    return "; ".join(line.removeprefix("- ") for line in problems.splitlines())[:200]


def _describe_errors(error: Any) -> str:
    errors = error.errors(include_url=False, include_input=False)
    lines = [
        f"- {'.'.join(str(part) for part in each['loc']) or 'the answer'}: {each['msg']}"
        for each in errors[:_PROBLEMS]
    ]
    return "\n".join(lines + ["- and more"] * (len(errors) > _PROBLEMS))
