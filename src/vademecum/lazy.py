"""Modules, and names of packages, that are imported only when they are first used.

A command pays only for the modules that it runs: `vade add` needs neither purge nor sources.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

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
