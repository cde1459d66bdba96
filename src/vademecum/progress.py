"""How far long work is, told to whoever watches it.

Work says `counted(things, "records")`, wherever it is done; an interface that shows it, `with watched(step)`.
"""

from __future__ import annotations

import contextlib
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    Step = Callable[[str, int, int], None]  # what, how many are done, how many there are

T = TypeVar("T")
_watching: ContextVar[Step | None] = ContextVar("watching", default=None)


@contextlib.contextmanager
def watched(step: Step | None) -> Iterator[None]:
    """Have what is done within told to `step`; None leaves it to whoever watches already."""
    token = _watching.set(step or _watching.get())
    try:
        yield
    finally:
        _watching.reset(token)


def counted(things: Sequence[T], what: str) -> Iterator[T]:
    """Some things one by one, with each that is done told."""
    step = _watching.get()
    if step is None:
        yield from things
        return
    for done, thing in enumerate(things):
        step(what, done, len(things))
        yield thing
    step(what, len(things), len(things))
