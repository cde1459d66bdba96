"""What a tool is: a function whose signature is what a model may send, and the plan for what it sent.

A plan is a value. A read runs at once; a write is first shown to whoever has to approve it, and may be
retried, so it is kept as the name of a call and its arguments.
"""

from __future__ import annotations

import functools
import inspect
import keyword
import math
import re
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

from vademecum.errors import UsageError
from vademecum.interfaces.tools import add_joined
from vademecum.text.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from vademecum.interfaces.present.shape import JsonShape
    from vademecum.memory import Memory

    Schema = Mapping[str, Any]

RETRY = "idempotency_key"  # the argument by which a retried call is known
_NULL = {"type": "null"}
_TEXTS = Path(__file__).parent / "texts"


class Read(NamedTuple):
    """A call that changes nothing that needs a person's word."""

    do: Callable[[Memory], Mapping[str, Any]]


class Write(NamedTuple):
    """A call that keeps or takes away something: its name, its arguments, and how its result is told."""

    operation: str
    arguments: Mapping[str, Any]
    scope: str
    render: Callable[[Any], Mapping[str, Any]]
    key: str | None = None  # by which a retry is known


@dataclass(frozen=True, slots=True)
class Tool:
    """One tool; what a model reads about it stands in `texts/<name>.md`."""

    name: str
    title: str
    plan: Callable[..., Read | Write]
    arguments: tuple[Argument, ...]
    shapes: tuple[JsonShape, ...]  # of its answers; nothing is told of an answer without any
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @property
    def description(self) -> str:
        """When to use it and when not, with an example."""
        return read_text(self.name)

    @property
    def parameters(self) -> dict[str, Any]:
        """What may be sent, as JSON Schema."""
        return input_schema([each for each in self.arguments if each.joined is None])

    @property
    def where_joined(self) -> dict[str, dict[str, Any]]:
        """What may be sent besides where a workspace was joined: of which kind, and the JSON Schema."""
        return {
            each.name: {"kind": each.joined.kind, "schema": _property(each)}
            for each in self.arguments
            if each.joined is not None
        }

    def parameters_where(self, joined: tuple[tuple[str, str], ...]) -> dict[str, Any]:
        """What may be sent where these workspaces were joined, as JSON Schema."""
        return add_joined(self.parameters, self.where_joined, joined)

    @property
    def answer(self) -> dict[str, Any]:
        """What is answered, as JSON Schema."""
        return answer_schema(*self.shapes)

    @property
    def hints(self) -> dict[str, bool]:
        """What a client may want to know before it lets a model call this; what is not said is the usual."""
        if self.read_only:
            return {"readOnlyHint": True, "openWorldHint": False}
        again = {"idempotentHint": True} if self.idempotent else {}
        return {"destructiveHint": self.destructive, **again, "openWorldHint": False}

    @property
    def offered(self) -> dict[str, Any]:
        """The tool as a client is told of it, in as few words as will do: a model reads them every time."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.parameters,
            "outputSchema": outline(self.answer),
            "annotations": self.hints,
        }

    def planned(self, given: Mapping[str, Any] | None) -> Read | Write:
        """What to do for what was sent."""
        parsed = parse_arguments(self.arguments, given)
        return self.plan(**{f"{name}_" if keyword.iskeyword(name) else name: parsed[name] for name in parsed})

    def without_retries(self) -> Tool:
        """The same for whoever never sends a call twice."""
        return replace(self, arguments=tuple(each for each in self.arguments if each.name != RETRY))


def tool(title: str, *shapes: JsonShape, **hints: bool) -> Callable[[Callable[..., Read | Write]], Tool]:
    """Declare a tool: a function that makes a plan of its arguments; an answer is of one of the shapes."""
    return lambda plan: Tool(plan.__name__, title, plan, arguments_of(plan), shapes, **hints)


@functools.cache
def read_text(name: str) -> str:
    """A text beside the code, which is read once."""
    return (_TEXTS / f"{name}.md").read_text("utf-8").strip()


_GROUP = re.compile(r"\{([^{}]+)\}")


def render_instructions(offered: Collection[str]) -> str:
    """When to use memory, for an agent with these tools; nothing is said of others.

    In `{one … | another … || instead …}` each choice begins with its tool. What stands behind two bars is for
    who has none of those before; a line of which no choice is left is left out.
    """
    paragraphs = (_with_offered(each, offered) for each in read_text("instructions").split("\n\n"))
    return "\n\n".join(each for each in paragraphs if each)


def _with_offered(paragraph: str, offered: Collection[str]) -> str:
    lines = []
    for line in paragraph.split("\n"):
        group = _GROUP.search(line)
        if group is None:
            lines.append(line)
            continue
        families = ([each.strip() for each in family.split("|")] for family in group[1].split("||"))
        left = ([each for each in family if each.split()[0] in offered] for family in families)
        said = ", ".join(next(filter(None, left), []))
        if said:
            lines.append(line[: group.start()] + said + line[group.end() :])
    return " ".join(lines)


# ---------------------------------------------------------------- arguments


class Span(NamedTuple):
    """From which number to which an argument goes."""

    least: float
    most: float | None = None


class Joined(NamedTuple):
    """Of an argument that names a workspace: it is offered where one was joined, with those names."""

    kind: str = ""  # of the workspaces; any unless said


@dataclass(frozen=True, slots=True)
class Argument:
    """One argument of a tool."""

    name: str
    kind: Any
    meaning: str
    joined: Joined | None = None
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    span: Span | None = None


class _Kind(NamedTuple):
    schema: Schema
    wanted: str
    fits: Callable[[Any], bool]
    read: Callable[[Any], Any] = lambda value: value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _is_list(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(each, kind) for each in value)


def _split(value: str | list[str]) -> list[str]:
    return [each.strip() for each in value.split(",") if each.strip()] if isinstance(value, str) else value


Texts = list[str]
Items = list[str | dict[str, Any]]
LineOrId = int | str
Numbers = list[int]
_KINDS: Mapping[Any, _Kind] = {
    str: _Kind({"type": "string"}, "a text", lambda value: isinstance(value, str)),
    int: _Kind(
        {"type": "integer"},
        "a whole number",
        lambda value: _is_number(value) and float(value).is_integer(),
        int,
    ),
    float: _Kind({"type": "number"}, "a number", _is_number),
    bool: _Kind({"type": "boolean"}, "true or false", lambda value: isinstance(value, bool)),
    Texts: _Kind(
        {"anyOf": [{"type": "array", "items": {"type": "string"}}, {"type": "string"}]},
        'a list of texts, or one text with commas such as "testing,pytest"',
        lambda value: isinstance(value, str) or _is_list(value, str),
        _split,
    ),
    Items: _Kind(
        {"type": "array", "items": {"anyOf": [{"type": "string"}, {"type": "object"}]}},
        "a list of texts or objects",
        lambda value: _is_list(value, str | dict),
    ),
    Numbers: _Kind(
        {"type": "array", "items": {"type": "integer"}},
        "a list of numbers",
        lambda value: _is_list(value, int | str | dict),  # as earlier versions took them
    ),
    LineOrId: _Kind(
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "a line number, or an id",
        lambda value: isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)),
    ),
}


def arguments_of(plan: Callable[..., Any]) -> tuple[Argument, ...]:
    """The arguments of a function, as in `name: Annotated[type, meaning, choices or Span] = default`."""
    hints = get_type_hints(plan, include_extras=True)
    parameters = inspect.signature(plan).parameters.values()
    return tuple(
        _argument(each, hints[each.name]) for each in parameters if get_origin(hints[each.name]) is Annotated
    )


def _argument(parameter: inspect.Parameter, hint: Any) -> Argument:
    whole, meaning, *limits = get_args(hint)
    kind = next((each for each in _KINDS if whole in (each, each | None)), None)
    if kind is None:
        raise TypeError(f"{parameter} is of no kind that a model can send")
    required = parameter.default is parameter.empty
    return Argument(
        parameter.name.removesuffix("_"),
        kind,
        meaning,
        required=required,
        default=None if required else parameter.default,
        joined=next((each for each in limits if isinstance(each, Joined)), None),
        choices=next((each for each in limits if not isinstance(each, Span | Joined)), ()),
        span=next((each for each in limits if isinstance(each, Span)), None),
    )


def input_schema(arguments: Collection[Argument]) -> dict[str, Any]:
    """The arguments as JSON Schema."""
    required = [each.name for each in arguments if each.required]
    return {
        "type": "object",
        "properties": {each.name: _property(each) for each in arguments},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _property(argument: Argument) -> dict[str, Any]:
    made: dict[str, Any] = dict(_KINDS[argument.kind].schema)
    if argument.meaning:  # the tool's own text may say it already
        made["description"] = argument.meaning
    if argument.choices:
        made["enum"] = list(argument.choices)
    if argument.span is not None:
        made["minimum"] = argument.span.least
        if argument.span.most is not None:
            made["maximum"] = argument.span.most
    if argument.default is not None:
        made["default"] = argument.default
    return made


def parse_arguments(arguments: Collection[Argument], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """What was sent, checked, with the defaults filled in."""
    sent = dict(given or {})
    known = {each.name: each for each in arguments}
    for name in sent:
        if name not in known:
            listed = ", ".join(each.name for each in arguments if each.joined is None)
            raise UsageError(f"there is no argument {quoted(name)}", hint=f"the arguments are {listed}")
    return {each.name: _checked(each, sent.get(each.name)) for each in arguments}


def _checked(argument: Argument, value: Any) -> Any:
    name, kind = argument.name, _KINDS[argument.kind]
    if value is None:
        if argument.required:
            more = f": {argument.meaning}" if argument.meaning else ""
            raise UsageError(f"`{name}` is missing", hint=f"pass `{name}`{more}")
        return argument.default
    if not kind.fits(value):
        raise UsageError(f"`{name}` must be {kind.wanted}, not {quoted(value)}")
    value = kind.read(value)
    if argument.choices and value not in argument.choices:
        raise UsageError(
            f"`{name}` cannot be {quoted(value)}", hint=f"use one of {', '.join(argument.choices)}"
        )
    if argument.span is not None:
        low, high = argument.span
        if value < low or (high is not None and value > high):
            span = f"from {low:g} to {high:g}" if high is not None else f"{low:g} or more"
            raise UsageError(f"`{name}` must be {span}, not {quoted(value)}")
    return value


def quoted(value: Any) -> str:
    """What was sent, as it can be told."""
    return shown(value if isinstance(value, str) else repr(value))


# ---------------------------------------------------------------- answers


@functools.cache
def answer_schema(*shapes: JsonShape) -> dict[str, Any]:
    """An answer that is of one of some shapes, as clients are told: one object, and no field that is null."""
    known: dict[str, Any] = {}
    told = [_as_sent(each.schema(known), known) for each in shapes]
    if not told:
        return {"type": "object"}
    always = set(told[0]["required"]).intersection(*(each["required"] for each in told))
    properties = {name: each for one in told for name, each in one["properties"].items()}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name in always],
    }


def outline(schema: Schema) -> dict[str, Any]:
    """A schema shortened to the lists that every answer has, or else its fields; what fits it fits this."""
    kinds = {name: schema["properties"][name]["type"] for name in schema.get("required", ())}
    told = [name for name in kinds if kinds[name] == "array"] or [*kinds]
    short = {name: {"type": kinds[name]} for name in told}
    return {"type": "object", "properties": short} if short else {"type": "object"}


def _as_sent(schema: Schema, known: Schema) -> dict[str, Any]:
    """A schema without references and without nulls: what is null is left out when it is sent."""
    if "$ref" in schema:
        return _as_sent(known[schema["$ref"].rpartition("/")[2]], known)
    if "anyOf" in schema:
        kinds = [_as_sent(each, known) for each in schema["anyOf"] if each != _NULL]
        return kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    made = dict(schema)
    if "properties" in made:
        given = made["properties"]
        made["properties"] = {name: _as_sent(each, known) for name, each in given.items()}
        made["required"] = [each for each in made["required"] if _NULL not in given[each].get("anyOf", ())]
    for name in ("items", "additionalProperties"):
        if name in made:
            made[name] = _as_sent(made[name], known)
    return made
