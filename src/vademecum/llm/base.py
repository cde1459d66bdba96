"""What a language model is to the rest of the system: a prompt in, an answer out, within limits.

Knows no library and no provider; whoever uses a model sees only this file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator, Sequence
    from decimal import Decimal
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
class CallUsage:
    """What a call used up: tokens, and dollars where the price is known."""

    input: int = 0
    output: int = 0
    cost: Decimal | None = None
    counted: bool = True  # by the provider; False for our own estimate

    @property
    def tokens(self) -> int:
        """Both directions together."""
        return self.input + self.output

    def __add__(self, other: CallUsage) -> CallUsage:
        return CallUsage(
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
    usage: CallUsage
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
    usage: CallUsage
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
