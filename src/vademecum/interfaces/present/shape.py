"""A JSON object, declared once: where each field comes from, what it is, and its schema.

Knows plain values and their attributes; knows nothing of memory.
"""

from __future__ import annotations

import re
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


# ---------------------------------------------------------------- as it was before shapes were declared
# For programs that still read it; goes with the setting `output.json_shape`, in the next version.

# What was a bare list, or an object of names, has the one field that holds it.
_BARE = {
    "audit": "lines",
    "checks": "checks",
    "forgotten": "forgotten",
    "lessons": "lessons",
    "projects": "projects",
    "session_lines": "lines",
    "sessions": "sessions",
    "sessions_imported": "imported",
    "settings": "settings",
    "sources": "sources",
}
# What was camelCase beside snake_case.
_CAMEL = {
    "block": ("left_out",),
    "graph": ("from_path", "to_path"),
    "index_report": ("vectors_pending",),
    "installed": ("dry_run",),
    "lessons": ("first_confirmed", "last_confirmed"),
    "lint": ("start_line", "end_line", "scope_id"),
    "projects": ("joined_to",),
    "record": ("start_line", "end_line"),
    "source": ("folders_left_out",),
    "sources": ("folders_left_out",),
    "status": ("vectors_pending",),
    "whole_status": ("vectors_pending", "repository_settings"),
}
# Where a finding was told without its lines and scope.
_FINDINGS = {
    "audit_verified": "problems",
    "listing": "findings",
    "status": "findings",
    "whole_status": "findings",
}
_FINDING = ("what", "where", "why", "mend", "severity")


def to_old(name: str, made: dict[str, Any]) -> Any:
    """An object of the shape with that name, as it was before."""
    found: Any = dict(made)
    if name in _FINDINGS:
        field = _FINDINGS[name]
        found[field] = [{part: each[part] for part in _FINDING} for each in found[field]]
    if name in _CAMEL:
        found = _renamed(found, {each: _camel(each) for each in _CAMEL[name]})
    if name in _OTHERS:
        found = _OTHERS[name](found)
    return found[_BARE[name]] if name in _BARE else found


def _renamed(value: Any, names: dict[str, str]) -> Any:
    if isinstance(value, dict):
        return {names.get(name, name): _renamed(each, names) for name, each in value.items()}
    return [_renamed(each, names) for each in value] if isinstance(value, list) else value


def _camel(name: str) -> str:
    return re.sub(r"_(.)", lambda found: found[1].upper(), name)


def _explained(found: dict[str, Any]) -> dict[str, Any]:
    """The names in the arithmetic were snake_case."""
    for each in found["results"]:
        each["arithmetic"] = {
            re.sub(r"([A-Z])", r"_\1", name).lower(): value for name, value in each["arithmetic"].items()
        }
    return found


def _trial(found: dict[str, Any]) -> dict[str, Any]:
    """The names of sections were words with spaces."""
    return {**found, "sections": {name.replace("_", " "): size for name, size in found["sections"].items()}}


def _verified(found: dict[str, Any]) -> Any:
    """What was verified alone stood alone."""
    return found["verified"][0] if len(found["verified"]) == 1 else found


def _verified_many(found: dict[str, Any]) -> dict[str, Any]:
    return found if found["run"] else {name: each for name, each in found.items() if name != "left"}


_OTHERS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "explained_answer": _explained,
    "verified": _verified,
    "verified_many": _verified_many,
    "window_trial": _trial,
}
