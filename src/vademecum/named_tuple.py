"""A `NamedTuple` that is made in a fifth of the time.

`typing.NamedTuple` compiles a constructor, and each annotation, for every class. A hook loads more than a
hundred of such classes, and its agent waits. Here a constructor is a compiled one with other names.
"""

from __future__ import annotations

import sys
from _collections import _tuplegetter  # type: ignore[import-not-found]
from collections import namedtuple
from types import FunctionType

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable
    from typing import Any, Self
    from typing import NamedTuple as NamedTuple  # noqa: PLC0414  - for others to import
else:
    _new = tuple.__new__
    # One for each number of fields; a class with more fields gets its constructor from `collections`.
    _CONSTRUCTORS = (
        lambda _cls: _new(_cls, ()),
        lambda _cls, a: _new(_cls, (a,)),
        lambda _cls, a, b: _new(_cls, (a, b)),
        lambda _cls, a, b, c: _new(_cls, (a, b, c)),
        lambda _cls, a, b, c, d: _new(_cls, (a, b, c, d)),
        lambda _cls, a, b, c, d, e: _new(_cls, (a, b, c, d, e)),
        lambda _cls, a, b, c, d, e, f: _new(_cls, (a, b, c, d, e, f)),
        lambda _cls, a, b, c, d, e, f, g: _new(_cls, (a, b, c, d, e, f, g)),
        lambda _cls, a, b, c, d, e, f, g, h: _new(_cls, (a, b, c, d, e, f, g, h)),
        lambda _cls, a, b, c, d, e, f, g, h, i: _new(_cls, (a, b, c, d, e, f, g, h, i)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j: _new(_cls, (a, b, c, d, e, f, g, h, i, j)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m: _new(_cls, (a, b, c, d, e, f, g, h, i, j, k, m)),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n: _new(
            _cls, (a, b, c, d, e, f, g, h, i, j, k, m, n)
        ),
        lambda _cls, a, b, c, d, e, f, g, h, i, j, k, m, n, o: _new(
            _cls, (a, b, c, d, e, f, g, h, i, j, k, m, n, o)
        ),
    )

    class _Values(tuple):
        """The methods that all named tuples share."""

        __slots__ = ()

        @classmethod
        def _make(cls, values: Iterable[Any]) -> Self:
            made = _new(cls, values)
            if len(made) != len(cls._fields):
                raise TypeError(f"Expected {len(cls._fields)} arguments, got {len(made)}")
            return made

        def _replace(self, /, **changes: Any) -> Self:
            made = self._make(map(changes.pop, self._fields, self))
            if changes:
                raise ValueError(f"Got unexpected field names: {list(changes)!r}")
            return made

        __replace__ = _replace

        def _asdict(self) -> dict[str, Any]:
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self) -> str:
            shown = ", ".join(f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True))
            return f"{type(self).__name__}({shown})"

        def __getnewargs__(self) -> tuple[Any, ...]:
            return tuple(self)

    class _NamedTupleType(type):
        """The type that makes a named tuple from a class with the base `NamedTuple`."""

        def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> type:
            annotations = namespace.get("__annotations__", {})
            fields = tuple(map(sys.intern, annotations))
            defaults = {field: namespace.pop(field) for field in fields if field in namespace}
            if fields[len(fields) - len(defaults) :] != tuple(defaults):
                raise TypeError(f"in {name}, a field without a default follows one with a default")
            for place, field in enumerate(fields):
                namespace[field] = _tuplegetter(place, None)
            constructor = _constructor(name, fields, tuple(defaults.values()))
            constructor.__annotations__ = annotations
            namespace |= {
                "__slots__": (),
                "__match_args__": fields,
                "_fields": fields,
                "_field_defaults": defaults,
                "__new__": constructor,
            }
            return type(name, (_Values,), namespace)

    def _constructor(name: str, fields: tuple[str, ...], defaults: tuple[Any, ...]) -> FunctionType:
        if len(fields) >= len(_CONSTRUCTORS):
            return namedtuple("_", fields, defaults=defaults).__new__
        code = _CONSTRUCTORS[len(fields)].__code__
        code = code.replace(co_name="__new__", co_qualname=f"{name}.__new__", co_varnames=("_cls", *fields))
        return FunctionType(code, globals(), "__new__", defaults or None)

    _NAMED_TUPLE = type.__new__(_NamedTupleType, "NamedTuple", (), {})

    class _Base:
        """The object behind the name `NamedTuple`, as whose subclasses named tuples are written."""

        def __mro_entries__(self, bases: tuple[type, ...]) -> tuple[type, ...]:
            return (_NAMED_TUPLE,)

    NamedTuple = _Base()
