"""How many tokens may be used, how many have been, and what they cost.

A call holds what it may use before anything is sent, so that two at once cannot both take the last of it.
Knows numbers alone.
"""

from __future__ import annotations

import threading
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING

from vademecum.errors import OverBudget
from vademecum.tokens import DEFAULT_RATIO, PER_IMAGE, PER_MESSAGE, PRIMING, Size, count, weigh

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from vademecum.llm.base import CallUsage, Json, Limits, Prompt

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

    def with_call(self, usage: CallUsage) -> Spending:
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

    def add(self, model: str, usage: CallUsage) -> None:
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
