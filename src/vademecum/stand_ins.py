"""Names that stand for something else: a module until it is needed, a method under its old name.

A command pays only for what it runs: `vade store` needs neither purge nor sources. Old names answer in this
version and warn once each.
"""

from __future__ import annotations

import functools
import warnings
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable


class LazyModule:
    """Stands for a module until it is needed."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            self._module = import_module(self._name)
        return getattr(self._module, name)


_WARNED: set[str] = set()


def warn_of(old: str, new: str, *, level: int = 3) -> None:
    """Say once that something has another name now; where warnings are errors it is one each time."""
    if old not in _WARNED:
        text = f"`Memory.{old}` is `Memory.{new}` now, and goes with the next version"
        warnings.warn(text, DeprecationWarning, stacklevel=level)
        _WARNED.add(old)


def renamed(old: str, new: str, method: Callable[..., Any]) -> Callable[..., Any]:
    """A method under an old name."""

    @functools.wraps(method)
    def call(*given: Any, **named: Any) -> Any:
        warn_of(old, new)
        return method(*given, **named)

    return call
