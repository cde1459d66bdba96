"""Where the adapters were: in this version `vademecum.interfaces.adapters.x` answers for the new name."""

from __future__ import annotations

import sys
import warnings
from importlib import import_module
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence
    from types import ModuleType

_NOW = "vademecum.adapters"
__path__: list[str] = []  # a package, whose modules only the finder below knows


class _Moved(Loader):
    """Finds and loads an adapter under its old name: the very module that its new name means."""

    @classmethod
    def find_spec(
        cls, name: str, path: Sequence[str] | None = None, target: object = None
    ) -> ModuleSpec | None:
        """The module asked for, if it is one of ours."""
        return ModuleSpec(name, cls()) if name.startswith(f"{__name__}.") else None

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module itself."""
        now = f"{_NOW}{spec.name.removeprefix(__name__)}"
        warnings.warn(f"{spec.name} is now {now}", DeprecationWarning, stacklevel=2)
        module = import_module(now)
        self._own = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """Nothing is run twice; the module stays what it is."""
        module.__spec__ = self._own


sys.meta_path.append(_Moved)
