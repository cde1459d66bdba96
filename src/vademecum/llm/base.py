"""What a language model is to the rest of the system: a prompt in, an answer out, within limits and a budget.

Knows no provider; whoever uses a model sees only this file. A call holds what it may use before anything is
sent, so that two at once cannot both take the last of it. Typed answers are read with pydantic, if asked for.
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

Json: TypeAlias = Any  # what a JSON text can hold

# One question, or a conversation in pydantic-ai's own JSON, which `transcripts.shapes` reads and writes.
Prompt: TypeAlias = "str | Sequence[Json]"

SECONDS = 120.0
# How often a model is asked to mend an answer that is not what was asked for.
MENDS = 2


@dataclass(frozen=True, slots=True)
class Limits:
    """What one call may use up; None leaves it to the model's own."""

    seconds: float | None = None  # for everything: retries, waiting, mending
    tokens: int | None = None  # of the prompt and the answer together
    output: int | None = None  # of the answer alone


@dataclass(frozen=True, slots=True)
class ModelUsage:
    """What a call used up: tokens, and dollars where the price is known."""

    input: int = 0
    output: int = 0
    cost: Decimal | None = None
    counted: bool = True  # by the provider; False for our own estimate

    @property
    def tokens(self) -> int:
        """Both directions together."""
        return self.input + self.output

    def __add__(self, other: ModelUsage) -> ModelUsage:
        return ModelUsage(
            self.input + other.input,
            self.output + other.output,
            # The price of a part is not the price of the whole.
            None if self.cost is None or other.cost is None else self.cost + other.cost,
            self.counted and other.counted,
        )


@dataclass(frozen=True, slots=True)
class Call:
    """A tool the model asks for; `arguments` is the JSON text as it was given."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """What a model said, and what it took."""

    text: str
    usage: ModelUsage
    model: str
    attempts: int = 1
    calls: tuple[Call, ...] = ()
    cut: bool = False  # it reached the limit of the answer
    message: Json = field(
        default=None, repr=False
    )  # the same in pydantic-ai's JSON, to be sent back as it is


@dataclass(frozen=True, slots=True)
class Typed(Generic[T]):
    """A value of the kind that was asked for, and what it took."""

    value: T
    usage: ModelUsage
    model: str
    attempts: int = 1


class Stream:
    """An answer as it comes: iterate over its pieces, then look at `answer`.

    Leaving the `with` block before the end stops the model.
    """

    def __init__(self, pieces: Generator[str, None, ModelAnswer]) -> None:
        self._pieces = pieces
        self._answer: ModelAnswer | None = None

    def __iter__(self) -> Iterator[str]:
        if self._answer is None:
            self._answer = yield from self._pieces

    @property
    def answer(self) -> ModelAnswer:
        """The whole answer; waits for what has not come yet."""
        for _ in self:
            pass
        if self._answer is None:
            raise ValueError("the stream was closed before its end")
        return self._answer

    def close(self) -> None:
        """Stop the model; what has come stays."""
        self._pieces.close()

    def __enter__(self) -> Stream:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Model(Protocol):
    """A language model; every call raises a ModelFailed for what is no answer."""

    @property
    def name(self) -> str:
        """How it is chosen: `provider:name`."""

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Ask for words, or for calls of the tools: each a `name`, a `description` and its `parameters`."""

    def typed(
        self, prompt: Prompt, kind: type[T], *, system: str = "", limits: Limits | None = None
    ) -> Typed[T]:
        """Ask for a value of a dataclass or a pydantic model; what does not fit is asked for again."""

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> Stream:
        """Ask as `text` does, and give the words as they come."""


@cache
def read_prompt(package: str, name: str) -> str:
    """A prompt from the folder `prompts` of a package."""
    return resources.files(package).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip()


# ------------------------------------------------------------ the budget

# What an answer is taken to need when nobody limits it.
USUAL_OUTPUT = 1_000


@dataclass(frozen=True, slots=True)
class Spending:
    """What was used of one model."""

    calls: int = 0
    input: int = 0
    output: int = 0
    cost: Decimal = Decimal(0)  # of the calls whose price is known
    unpriced: int = 0  # calls whose price is not

    def with_call(self, usage: ModelUsage) -> Spending:
        """The same after one more call."""
        return Spending(
            self.calls + 1,
            self.input + usage.input,
            self.output + usage.output,
            self.cost + (usage.cost or 0),
            self.unpriced + (usage.cost is None),
        )


class Budget:
    """The tokens that may be used in all, and the record of those that were; None is no limit."""

    def __init__(self, tokens: int | None = None) -> None:
        self.tokens = tokens
        self._lock = threading.Lock()
        self._spent = 0
        self._held = 0
        self._record: dict[str, Spending] = {}

    @property
    def spent(self) -> int:
        """How many tokens were used so far."""
        return self._spent

    @property
    def record(self) -> Mapping[str, Spending]:
        """What was used, by model."""
        with self._lock:
            return dict(self._record)

    @contextmanager
    def holding(self, tokens: int) -> Iterator[None]:
        """Keep tokens aside for a call; raises OverBudget when there are not so many left."""
        with self._lock:
            if self.tokens is not None and self._spent + self._held + tokens > self.tokens:
                left = max(self.tokens - self._spent - self._held, 0)
                raise OverBudget(
                    f"the call needs about {tokens} tokens, and {left} of {self.tokens} are left"
                    " in the budget of this process"
                )
            self._held += tokens
        try:
            yield
        finally:
            with self._lock:
                self._held -= tokens

    def add(self, model: str, usage: ModelUsage) -> None:
        """Put a call on record."""
        with self._lock:
            self._spent += usage.tokens
            self._record[model] = self._record.get(model, Spending()).with_call(usage)


# What every model of this process uses that is given no budget of its own.
PROCESS = Budget()


def estimate(prompt: Prompt, *, system: str = "", tools: Sequence[Json] = ()) -> int:
    """About how many tokens a prompt is, before a provider has counted it."""
    size = Size(weigh(system), PRIMING + PER_MESSAGE)
    for each in [prompt] if isinstance(prompt, str) else prompt:
        size += _size(each) + Size(0, PER_MESSAGE)
    for tool in tools:
        size += _size(tool)
    return count(size, DEFAULT_RATIO)


def check_needed(estimated: int, limits: Limits) -> int:
    """What to hold for a call; raises OverBudget when the prompt alone is more than the call may use."""
    output = USUAL_OUTPUT if limits.output is None else limits.output
    total = estimated + output
    if limits.tokens is not None and total > limits.tokens:
        raise OverBudget(
            f"the call needs about {total} tokens ({estimated} for the prompt), and may use {limits.tokens}",
            hint="send less, or let the call use more tokens",
        )
    return total


def _size(value: Json) -> Size:
    """The weight of the words in a JSON value; a picture counts as one, whatever its bytes."""
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


class Misfit(Exception):
    """An answer that is not of the kind; says what is wrong with it, in words a model understands."""


class AnswerKind(Generic[T]):
    """A dataclass or a pydantic model, its schema, and how an answer is read as one."""

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

    def read(self, said: Json) -> T:
        """Read an answer: the arguments of a call, a JSON text, or a text that holds one."""
        from pydantic import ValidationError

        value = find_json(said) if isinstance(said, str) else said
        try:
            # As JSON, so that a number is never taken for a word, but a date may come as one.
            return self._adapter.validate_json(json.dumps(value), strict=None)
        except ValidationError as error:
            raise Misfit(_told(error)) from error


def find_json(text: str) -> Json:
    """The JSON object in a text; small models put words or a fence around it."""
    fenced = [text[each.inner_start : each.inner_end] for each in fences.find(text)[:1]]
    braced = text[text.find("{") : text.rfind("}") + 1]
    for each in (text, *fenced, braced):
        try:
            value = json.loads(each)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise Misfit("- it is not a JSON object")


def mend_request(problems: str) -> str:
    """What a model is told whose answer does not fit."""
    return read_prompt(__package__, "mend").format(problems=problems)


def shorten_problems(problems: str) -> str:
    """What was wrong with an answer, for a person: on one line, without the dashes of a list."""
    return "; ".join(line.removeprefix("- ") for line in problems.splitlines())[:200]


def _told(error: Any) -> str:
    listed = error.errors(include_url=False, include_input=False)
    lines = [
        f"- {'.'.join(str(part) for part in each['loc']) or 'the answer'}: {each['msg']}"
        for each in listed[:_PROBLEMS]
    ]
    return "\n".join(lines + ["- and more"] * (len(listed) > _PROBLEMS))
