"""Modules and names of packages that are imported, and patterns that are compiled, when first used.

A command pays only for the modules that it runs: `vade add` needs neither purge nor sources.
"""

from __future__ import annotations

import re
import sys
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, Any, AnyStr, cast

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping


class LazyModule:
    """A stand-in for a module, which imports the module when an attribute is first read."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._module: Any = None

    def __getattr__(self, name: str) -> Any:
        if self._module is None:
            self._module = import_module(self._name)
        return getattr(self._module, name)


class LazyPattern:
    """A stand-in for a regular expression, which is compiled when an attribute is first read."""

    def __init__(self, expression: str | bytes, flags: int) -> None:
        self._source = expression, flags

    @property
    def compiled(self) -> re.Pattern[Any]:
        """The regular expression."""
        return re.compile(*self._source)

    def __getattr__(self, name: str) -> Any:
        found = self.__dict__[name] = getattr(self.compiled, name)  # the next read asks nobody
        return found


def lazy_pattern(expression: AnyStr, flags: int = 0) -> re.Pattern[AnyStr]:
    """Return a regular expression that is compiled when it is first used.

    For modules that a command or hook loads: compiling their patterns takes a tenth of its time. The
    functions of `re` do not take such a pattern; its own methods do the same.
    """
    return cast("re.Pattern[AnyStr]", LazyPattern(expression, flags))


def defer_modules(*names: str) -> None:
    """Let modules of Python be imported when they are used, and not when other modules import them.

    Only for short processes: `dataclasses`, for one, imports `inspect`, which our classes never need.
    """
    for name in names:
        if name not in sys.modules:
            sys.modules[name] = _StandIn(name)


class _StandIn(ModuleType):
    """A placeholder in `sys.modules` for a module that is imported when an attribute is first read."""

    def __getattr__(self, attribute: str) -> Any:
        if sys.modules.get(self.__name__) is self:
            del sys.modules[self.__name__]
        return getattr(import_module(self.__name__), attribute)


def lazy_names(package: str, homes: Mapping[str, str]) -> Callable[[str], Any]:
    """Return a `__getattr__` for a package, which imports the module of a name when the name is first read.

    `homes` gives for each module of the package the names that it contributes, separated by spaces.
    """
    modules = {name: module for module, names in homes.items() for name in names.split()}

    def read(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(import_module(f"{package}.{modules[name]}"), name)

    return read
