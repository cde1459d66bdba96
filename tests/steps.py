"""Count the steps of a function, where a clock would measure the machine as well."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    Trace = Callable[[FrameType, str, Any], Any]


def count_steps(act: Callable[[], object]) -> int:
    """Return how many lines of Python run; work inside one call of a C function is not counted.

    The function runs once before, so that no import and no cache counts.
    """
    act()
    lines = 0

    def trace(frame: FrameType, event: str, argument: Any) -> Trace:
        nonlocal lines
        lines += event == "line"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        act()
    finally:
        sys.settrace(before)
    return lines
