"""Declare a JSON object once: the source and type of each field, and its schema.

Knows plain values and their attributes; knows nothing of memory.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION = 1  # of all shapes; raised when a field is removed or changes its meaning, not when one is added
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class JsonKind(NamedTuple):
    """A field's type: how a value is converted, and its schema."""

    schema: Callable[[dict[str, Any]], dict[str, Any]]  # adds its own definition to those it gets
    convert: Callable[[Any], Any]
    source: Callable[[Any], Any] | None = (
        None  # reads the value, if not from the attribute with the field's name
    )
    absent: bool = False  # whether an empty field is left out
    spread: dict[str, JsonKind] | None = None  # the fields that take the place of this one


def _plain(type_: str, convert: Callable[[Any], Any]) -> JsonKind:
    return JsonKind(lambda _: {"type": type_}, convert)


def _same(value: Any) -> Any:
    return value


TEXT = _plain("string", str)
COUNT = _plain("integer", _same)
NUMBER = _plain("number", _same)
FLAG = _plain("boolean", _same)
ANYTHING = JsonKind(lambda _: {}, _same)
OBJECT = _plain("object", dict)  # its names are data


def maybe(kind: JsonKind | JsonShape) -> JsonKind:
    """Return a kind that may also be null: None becomes null."""
    inner = _as_kind(kind)
    return inner._replace(
        schema=lambda known: {"anyOf": [inner.schema(known), {"type": "null"}]},
        convert=lambda value: None if value is None else inner.convert(value),
    )


def some(kind: JsonKind | JsonShape) -> JsonKind:
    """Return a kind that may also be null: any empty value becomes null."""
    inner = maybe(kind)
    return inner._replace(convert=lambda value: inner.convert(value or None))


def many(kind: JsonKind | JsonShape) -> JsonKind:
    """Return the kind of a list whose items are of this kind."""
    inner = _as_kind(kind)
    return JsonKind(
        lambda known: {"type": "array", "items": inner.schema(known)},
        lambda values: [inner.convert(each) for each in values],
    )


def by_name(kind: JsonKind | JsonShape) -> JsonKind:
    """Return the kind of an object whose names are data, such as scopes, with values of this kind."""
    inner = _as_kind(kind)
    return JsonKind(
        lambda known: {"type": "object", "additionalProperties": inner.schema(known)},
        lambda values: {str(name): inner.convert(each) for name, each in values.items()},
    )


def at(source: str | Callable[[Any], Any], kind: JsonKind | JsonShape = TEXT) -> JsonKind:
    """Return the kind read from another source: an attribute path, or a function of the value."""
    return _as_kind(kind)._replace(source=attrgetter(source) if isinstance(source, str) else source)


def optional(kind: JsonKind | JsonShape) -> JsonKind:
    """Return the kind for a field that is left out when it is empty."""
    return _as_kind(kind)._replace(absent=True)


def prepared(*shapes: JsonShape, make: Callable[[Any], Any] = dict) -> JsonKind:
    """Return the kind of an object that has one of these shapes; `make` makes it, or copies it by default."""

    def schema(known: dict[str, Any]) -> dict[str, Any]:
        schemas = [shape.schema(known) for shape in shapes]
        return schemas[0] if len(schemas) == 1 else {"anyOf": schemas}

    return JsonKind(schema, make)


def spread(source: Callable[[Any], dict[str, Any]], **fields: JsonKind) -> JsonKind:
    """Return a kind that puts several fields in place of one; `source` returns those that a value has."""
    return JsonKind(lambda _: {}, _same, source, spread=fields)


class JsonShape:
    """The shape of a JSON object: its fields, and where each field is read from a value.

    The parts of a shape are words, other shapes, whose fields are added, and pairs of a shape and the
    attribute that it is read from. A word is a field: `name`, `count:int`, `num:int?` (may be null), `why~`
    (null when it is empty), `team!` (left out when it is empty), `scope=place.scope` (read from there). Other
    fields are keywords.
    """

    def __init__(
        self, name: str, /, *parts: str | JsonShape | tuple[str, JsonShape], **fields: JsonKind | JsonShape
    ) -> None:
        self.name = name
        self._parts, self._given = parts, fields
        self._made: dict[str, JsonKind] = {}

    @property
    def fields(self) -> dict[str, JsonKind]:
        """Return all fields with their sources; made when first needed, since a command uses few shapes."""
        if not self._made:
            made: dict[str, JsonKind] = {}
            for part in self._parts:
                if isinstance(part, JsonShape):
                    made |= part.fields
                elif isinstance(part, str):
                    made |= dict(_read_word(word) for word in part.split())
                else:
                    path, shape = part
                    made |= {name: _read_from(path, kind) for name, kind in shape.fields.items()}
            self._made = made | {
                name: _with_source(name, _as_kind(given)) for name, given in self._given.items()
            }
        return self._made

    def __call__(self, value: Any = None, /, **given: Any) -> dict[str, Any]:
        """Return the object for a value; fields in `given` are not read from the value."""
        unknown = given.keys() - self.fields.keys()
        if unknown:
            raise TypeError(f"{self.name} has no {', '.join(sorted(unknown))}")
        made: dict[str, Any] = {}
        for name, kind in self.fields.items():
            if name not in given and value is None and kind.absent:
                continue
            found = given[name] if name in given else kind.source(value)  # type: ignore[misc]  # see `fields`
            if kind.spread is not None:
                made |= found
            elif found or not kind.absent:
                made[name] = kind.convert(found)
        return made

    def schema(self, known: dict[str, Any]) -> dict[str, Any]:
        """Return a reference to the shape's schema, and add the schema to the definitions in `known`."""
        if self.name not in known:
            known[self.name] = {}  # so that a recursive shape ends
            known[self.name] = _object_schema(dict(self._properties()), known)
        return {"$ref": f"#/$defs/{self.name}"}

    def _properties(self) -> Iterator[tuple[str, JsonKind]]:
        for name, kind in self.fields.items():
            if kind.spread is None:
                yield name, kind
            else:
                yield from ((each, inner._replace(absent=True)) for each, inner in kind.spread.items())


def describe(title: str, shapes: tuple[JsonShape, ...]) -> dict[str, Any]:
    """Return the schema document of an answer that has one of some shapes."""
    known: dict[str, Any] = {}
    body = prepared(*shapes).schema(known)
    version = {"properties": {"schemaVersion": {"const": VERSION}}, "required": ["schemaVersion"]}
    return {"$schema": _DRAFT, "title": title, "allOf": [version, body], "$defs": dict(sorted(known.items()))}


def _object_schema(properties: dict[str, JsonKind], known: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: kind.schema(known) for name, kind in properties.items()},
        "required": [name for name, kind in properties.items() if not kind.absent],
    }


def _read_word(word: str) -> tuple[str, JsonKind]:
    words, _, path = word.partition("=")
    name, _, kind = words.rstrip("?~!").partition(":")
    found = _KINDS[kind]
    if words[-1] in "?~":
        found = maybe(found) if words[-1] == "?" else some(found)
    elif words[-1] == "!":
        found = optional(found)
    return name, _with_source(path or name, found)


def _with_source(name: str, kind: JsonKind) -> JsonKind:
    return kind if kind.source else kind._replace(source=attrgetter(name))


def _as_kind(given: JsonKind | JsonShape) -> JsonKind:
    return given if isinstance(given, JsonKind) else JsonKind(given.schema, given)


def _read_from(path: str, kind: JsonKind) -> JsonKind:
    source, outer = kind.source, attrgetter(path)
    return kind._replace(source=lambda value: source(outer(value)) if source else None)


_KINDS = {"": TEXT, "int": COUNT, "float": NUMBER, "bool": FLAG, "list": many(TEXT)}
