"""What a tool takes: the schema that a model reads, and the check of what it then sends."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vademecum.errors import UsageError
from vademecum.store import names
from vademecum.types import RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

STRING, WHOLE, NUMBER, BOOLEAN, TEXTS, ITEMS = "string", "integer", "number", "boolean", "texts", "items"
PLACE = "place"  # a number of a line, or an id

_SCHEMAS: Mapping[str, Mapping[str, Any]] = {
    STRING: {"type": "string"},
    WHOLE: {"type": "integer"},
    NUMBER: {"type": "number"},
    BOOLEAN: {"type": "boolean"},
    TEXTS: {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
    ITEMS: {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}},
    PLACE: {"anyOf": [{"type": "integer"}, {"type": "string"}]},
}
_WANTED = {
    STRING: "a text",
    WHOLE: "a whole number",
    NUMBER: "a number",
    BOOLEAN: "true or false",
    TEXTS: 'a list of texts, or one text with commas such as "testing,pytest"',
    ITEMS: "a list of texts or objects",
    PLACE: "the number of a line, or an id",
}


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool."""

    name: str
    kind: str
    meaning: str
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    least: float | None = None
    most: float | None = None


def schema(arguments: Sequence[Argument]) -> dict[str, Any]:
    """The arguments as JSON Schema."""
    required = [each.name for each in arguments if each.required]
    return {
        "type": "object",
        "properties": {each.name: _property(each) for each in arguments},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def parse(arguments: Sequence[Argument], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was sent, checked, with the defaults filled in."""
    known = {each.name: each for each in arguments}
    sent = dict(given or {})
    for name in sent:
        if name not in known:
            raise UsageError(
                f"there is no argument {names.shown(name)}", hint=f"the arguments are {', '.join(known)}"
            )
    found = {}
    for each in arguments:
        value = sent.get(each.name)
        if value is None:
            if each.required:
                raise UsageError(f"`{each.name}` is missing", hint=f"pass `{each.name}`: {each.meaning}")
            value = each.default
        else:
            value = _checked(each, value)
        found[each.name] = value
    return found


def _property(argument: Argument) -> dict[str, Any]:
    made: dict[str, Any] = {**_SCHEMAS[argument.kind], "description": argument.meaning}
    if argument.choices:
        made["enum"] = list(argument.choices)
    if argument.least is not None:
        made["minimum"] = argument.least
    if argument.most is not None:
        made["maximum"] = argument.most
    if argument.default is not None:
        made["default"] = argument.default
    return made


def _checked(argument: Argument, value: Any) -> Any:
    fits = {
        STRING: isinstance(value, str),
        WHOLE: _is_number(value) and float(value).is_integer(),
        NUMBER: _is_number(value),
        BOOLEAN: isinstance(value, bool),
        TEXTS: isinstance(value, str) or _is_list(value, str),
        ITEMS: _is_list(value, str | dict),
        PLACE: isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)),
    }
    if not fits[argument.kind]:
        raise UsageError(f"`{argument.name}` must be {_WANTED[argument.kind]}, not {_told(value)}")
    if argument.kind == WHOLE:
        value = int(value)
    if argument.kind == TEXTS:
        value = (
            [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value
        )
    if argument.choices and value not in argument.choices:
        raise UsageError(
            f"`{argument.name}` cannot be {_told(value)}", hint=f"use one of {', '.join(argument.choices)}"
        )
    low, high = argument.least, argument.most
    if (low is not None and value < low) or (high is not None and value > high):
        span = f"from {low:g} to {high:g}" if high is not None else f"{low:g} or more"
        raise UsageError(f"`{argument.name}` must be {span}, not {_told(value)}")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


def _told(value: Any) -> str:
    return names.shown(value if isinstance(value, str) else repr(value))


SCOPES = tuple(str(each) for each in Scope)
TYPES = tuple(str(each) for each in RecordType)
_WHERE = (
    "session (this conversation only), project (this code base), agent (this role everywhere),"
    " global (the person, everywhere), federated (everyone on this machine)"
)
SCOPE = Argument("scope", STRING, f"Where it is kept: {_WHERE}.", default="project", choices=SCOPES)
ONLY_SCOPE = Argument("scope", STRING, "Only this scope; without it, everything in sight.", choices=SCOPES)
TAGS = Argument("tags", TEXTS, 'Labels to find it by, such as "testing,pytest" or ["testing", "pytest"].')
RETRY = Argument(
    "idempotency_key",
    STRING,
    "A random text of your own. A retry with the same key is never written twice.",
)
