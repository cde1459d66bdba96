"""A JSON object, declared once: where each field comes from, what it is, and the schema that tells of it.

Knows plain values and their attributes; knows nothing of memory.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

VERSION = 1  # of all shapes; raised when a field is taken away or changes its meaning, not when one is added
_DRAFT = "https://json-schema.org/draft/2020-12/schema"


class JsonKind(NamedTuple):
    """What a field holds: how a value becomes it, and how a schema says so."""

    schema: Callable[[dict[str, Any]], dict[str, Any]]  # is given the definitions, to add its own
    convert: Callable[[Any], Any]
    source: Callable[[Any], Any] | None = None  # not the attribute of the field's name
    absent: bool = False  # left out when there is nothing to say
    spread: dict[str, JsonKind] | None = None  # fields of their own in the place of this one


def _plain(type_: str, convert: Callable[[Any], Any]) -> JsonKind:
    return JsonKind(lambda _: {"type": type_}, convert)


def _same(value: Any) -> Any:
    return value


TEXT = _plain("string", str)
COUNT = _plain("integer", _same)
NUMBER = _plain("number", _same)
FLAG = _plain("boolean", _same)
ANYTHING = JsonKind(lambda _: {}, _same)
OBJECT = _plain("object", dict)  # of names that are not ours to say


def maybe(kind: JsonKind | JsonShape) -> JsonKind:
    """The kind, or null for None."""
    inner = _kind(kind)
    return inner._replace(
        schema=lambda known: {"anyOf": [inner.schema(known), {"type": "null"}]},
        convert=lambda value: None if value is None else inner.convert(value),
    )


def some(kind: JsonKind | JsonShape) -> JsonKind:
    """The kind, or null for what is empty."""
    inner = maybe(kind)
    return inner._replace(convert=lambda value: inner.convert(value or None))


def many(kind: JsonKind | JsonShape) -> JsonKind:
    """A list of the kind."""
    inner = _kind(kind)
    return JsonKind(
        lambda known: {"type": "array", "items": inner.schema(known)},
        lambda values: [inner.convert(each) for each in values],
    )


def by_name(kind: JsonKind | JsonShape) -> JsonKind:
    """An object whose names are data, such as scopes or settings, each with the kind."""
    inner = _kind(kind)
    return JsonKind(
        lambda known: {"type": "object", "additionalProperties": inner.schema(known)},
        lambda values: {str(name): inner.convert(each) for name, each in values.items()},
    )


def at(source: str | Callable[[Any], Any], kind: JsonKind | JsonShape = TEXT) -> JsonKind:
    """The kind, read from elsewhere: the path of an attribute, or a function of the value."""
    return _kind(kind)._replace(source=attrgetter(source) if isinstance(source, str) else source)


def optional(kind: JsonKind | JsonShape) -> JsonKind:
    """The kind, and no field at all for what is empty."""
    return _kind(kind)._replace(absent=True)


def prepared(*shapes: JsonShape, make: Callable[[Any], Any] = dict) -> JsonKind:
    """An object of one of some shapes that a function makes, or that was made already."""

    def schema(known: dict[str, Any]) -> dict[str, Any]:
        told = [each.schema(known) for each in shapes]
        return told[0] if len(told) == 1 else {"anyOf": told}

    return JsonKind(schema, make)


def spread(source: Callable[[Any], dict[str, Any]], **fields: JsonKind) -> JsonKind:
    """Those of some fields that a value has, in the place of one."""
    return JsonKind(lambda _: {}, _same, source, spread=fields)


class JsonShape:
    """An object for programs, which a value is turned into.

    Its parts are words, each a field (`name`, `count:int`, `num:int?` may be null, `why~` is null when it is
    empty, `scope=place.scope` is read from there), another shape whose fields it has as well, or such a shape
    and the attribute it is read from. What words cannot say is told by name.
    """

    def __init__(
        self, name: str, /, *parts: str | JsonShape | tuple[str, JsonShape], **fields: JsonKind | JsonShape
    ) -> None:
        self.name = name
        self._parts, self._given = parts, fields
        self._made: dict[str, JsonKind] = {}

    @property
    def fields(self) -> dict[str, JsonKind]:
        """All fields, with where they come from; made when first needed, since most shapes never are."""
        if not self._made:
            made: dict[str, JsonKind] = {}
            for part in self._parts:
                if isinstance(part, JsonShape):
                    made |= part.fields
                elif isinstance(part, str):
                    made |= dict(_read_word(word) for word in part.split())
                else:
                    path, shape = part
                    made |= {name: _below(path, kind) for name, kind in shape.fields.items()}
            self._made = made | {name: _sourced(name, _kind(given)) for name, given in self._given.items()}
        return self._made

    def __call__(self, value: Any = None, /, **given: Any) -> dict[str, Any]:
        """The object for a value."""
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
        """A reference to what this is, which stands among the definitions then."""
        if self.name not in known:
            known[self.name] = {}  # while it is being told
            known[self.name] = _told(dict(self._properties()), known)
        return {"$ref": f"#/$defs/{self.name}"}

    def _properties(self) -> Iterator[tuple[str, JsonKind]]:
        for name, kind in self.fields.items():
            if kind.spread is None:
                yield name, kind
            else:
                yield from ((each, inner._replace(absent=True)) for each, inner in kind.spread.items())


def describe(title: str, shapes: tuple[JsonShape, ...]) -> dict[str, Any]:
    """The schema of an answer that is one of some shapes, as a whole document."""
    known: dict[str, Any] = {}
    body = prepared(*shapes).schema(known)
    version = {"properties": {"schemaVersion": {"const": VERSION}}, "required": ["schemaVersion"]}
    return {"$schema": _DRAFT, "title": title, "allOf": [version, body], "$defs": dict(sorted(known.items()))}


def _told(properties: dict[str, JsonKind], known: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: kind.schema(known) for name, kind in properties.items()},
        "required": [name for name, kind in properties.items() if not kind.absent],
    }


def _read_word(word: str) -> tuple[str, JsonKind]:
    told, _, path = word.partition("=")
    name, _, kind = told.rstrip("?~").partition(":")
    found = _KINDS[kind]
    if told[-1] in "?~":
        found = maybe(found) if told[-1] == "?" else some(found)
    return name, _sourced(path or name, found)


def _sourced(name: str, kind: JsonKind) -> JsonKind:
    return kind if kind.source else kind._replace(source=attrgetter(name))


def _kind(given: JsonKind | JsonShape) -> JsonKind:
    return given if isinstance(given, JsonKind) else JsonKind(given.schema, given)


def _below(path: str, kind: JsonKind) -> JsonKind:
    source, outer = kind.source, attrgetter(path)
    return kind._replace(source=lambda value: source(outer(value)) if source else None)


_KINDS = {"": TEXT, "int": COUNT, "float": NUMBER, "bool": FLAG, "list": many(TEXT)}
