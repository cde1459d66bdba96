"""Report how far long work has come to an interface that watches.

The code that works calls `counted(things, "records")`; an interface that shows progress calls `with
watched(step)`.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    Step = Callable[[str, int, int], None]  # what, how many are done, how many there are (0: unknown)

T = TypeVar("T")
_watching: ContextVar[Step | None] = ContextVar("watching", default=None)


@contextlib.contextmanager
def watched(step: Step | None) -> Iterator[None]:
    """Report the progress of the block to the function `step`; with None, to that of an outer block."""
    token = _watching.set(step or _watching.get())
    try:
        yield
    finally:
        _watching.reset(token)


def counted(things: Sequence[T], what: str) -> Iterator[T]:
    """Yield the items one by one, and report to the watcher, if there is one, how many are finished."""
    step = _watching.get()
    if step is None:
        yield from things
        return
    for done, thing in enumerate(things):
        step(what, done, len(things))
        yield thing
    step(what, len(things), len(things))


def counted_up(things: Iterable[T], what: str) -> Iterator[T]:
    """Yield the items one by one, and report how many are finished, with 0 for the unknown total."""
    step = _watching.get()
    for done, thing in enumerate(things):
        if step is not None:
            step(what, done, 0)
        yield thing
