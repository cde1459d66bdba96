"""A lock for methods that share a connection to an index, which only one thread may use at a time."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable

P = ParamSpec("P")
S = TypeVar("S", bound=Any)
T = TypeVar("T")


def one_at_a_time(call: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method hold its object's lock `_turn`, so that one thread at a time uses the connection."""

    @functools.wraps(call)
    def waiting(self: S, /, *args: P.args, **given: P.kwargs) -> T:
        with self._turn:
            return call(self, *args, **given)

    return waiting
