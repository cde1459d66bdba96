"""Declare tools: a tool is a function whose signature gives its arguments, and which returns a plan.

A plan is a value that says what a call will do. A read runs at once. A write may first wait for an approval,
and may be retried, so its plan has the name of an operation and the arguments, which can be stored.
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
from vademecum.interfaces.tools import add_workspace_arguments
from vademecum.text.names import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from vademecum.interfaces.present.shape import JsonShape
    from vademecum.memory import Memory

    Schema = Mapping[str, Any]

RETRY = "idempotency_key"  # the argument that identifies a retried call
_NULL = {"type": "null"}
_TEXTS = Path(__file__).parent / "texts"


class Read(NamedTuple):
    """A plan that only reads memory, and so needs no person's consent."""

    do: Callable[[Memory], Mapping[str, Any]]


class Write(NamedTuple):
    """A plan that saves or removes something: an operation, its arguments, and how to render its result."""

    operation: str
    arguments: Mapping[str, Any]
    scope: str
    render: Callable[[Any], Mapping[str, Any]]
    key: str | None = None  # identifies a retry


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool for models; the description that models read is in `texts/<text>.md`."""

    name: str
    title: str
    plan: Callable[..., Read | Write]
    arguments: tuple[Argument, ...]
    shapes: tuple[JsonShape, ...]  # the shapes of its answers; without any, there is no answer schema
    text: str = ""  # the name of its text
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @property
    def description(self) -> str:
        """The text that tells a model when to use the tool and when not, with an example."""
        return read_text(self.text)

    @property
    def parameters(self) -> dict[str, Any]:
        """The JSON Schema of the tool's arguments."""
        return input_schema([each for each in self.arguments if each.offered])

    @property
    def where_joined(self) -> dict[str, dict[str, Any]]:
        """The arguments that are offered only if workspaces were joined: their kind and JSON Schema."""
        return {
            each.name: {"kind": each.joined.kind, "schema": _property(each)}
            for each in self.arguments
            if each.joined is not None
        }

    def parameters_where(self, joined: tuple[tuple[str, str], ...]) -> dict[str, Any]:
        """Return the JSON Schema of the tool's arguments in a home that has joined these workspaces."""
        return add_workspace_arguments(self.parameters, self.where_joined, joined)

    @property
    def answer(self) -> dict[str, Any]:
        """The JSON Schema of the tool's answers."""
        return answer_schema(*self.shapes)

    @property
    def hints(self) -> dict[str, bool]:
        """Hints for a client that decides whether a model may call the tool; default hints are left out."""
        if self.read_only:
            return {"readOnlyHint": True, "openWorldHint": False}
        again = {"idempotentHint": True} if self.idempotent else {}
        return {"destructiveHint": self.destructive, **again, "openWorldHint": False}

    @property
    def offered(self) -> dict[str, Any]:
        """The tool's definition for a client, as short as possible because a model reads it every time."""
        return {
            "name": self.name,
            "title": self.title,
            "description": self.description,
            "inputSchema": self.parameters,
            "outputSchema": outline(self.answer),
            "annotations": self.hints,
        }

    def planned(self, given: Mapping[str, Any] | None) -> Read | Write:
        """Return the plan for a call with these arguments; raise UsageError if the arguments do not fit."""
        parsed = parse_arguments(self.arguments, given)
        return self.plan(**{f"{name}_" if keyword.iskeyword(name) else name: parsed[name] for name in parsed})

    def without_retries(self) -> Tool:
        """Return the tool without the argument that identifies retries, as some callers never retry."""
        return replace(self, arguments=tuple(each for each in self.arguments if each.name != RETRY))


def tool(
    title: str, *shapes: JsonShape, family: str = "", **hints: bool
) -> Callable[[Callable[..., Read | Write]], Tool]:
    """Return a decorator that makes a tool from a function from arguments to a plan.

    Each answer of the tool has one of the shapes. The texts of a family's tools are in a folder of their own.
    """

    def make(plan: Callable[..., Read | Write]) -> Tool:
        name = plan.__name__
        text = f"{family}/{name}" if family else name
        return Tool(name, title, plan, arguments_of(plan), shapes, text, **hints)

    return make


@functools.cache
def read_text(name: str) -> str:
    """Return the text of a file in `texts`; each file is read once."""
    return (_TEXTS / f"{name}.md").read_text("utf-8").strip()


_GROUP = re.compile(r"\{([^{}]+)\}")


def render_instructions(offered: Collection[str]) -> str:
    """Return the text that tells an agent with exactly these tools when to use memory.

    In `{one … | another … || instead …}` each choice begins with its tool. The text behind two bars is for an
    agent without any of the tools before them; a line without a remaining choice is left out.
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
        choice = ", ".join(next(filter(None, left), []))
        if choice:
            lines.append(line[: group.start()] + choice + line[group.end() :])
    return " ".join(lines)


# ---------------------------------------------------------------- arguments


class Span(NamedTuple):
    """The smallest and the largest value that an argument may have."""

    least: float
    most: float | None = None


class TextSize(NamedTuple):
    """The smallest and the largest number of characters that a text may have."""

    least: int
    most: int | None = None


class Spellings(NamedTuple):
    """Other names under which an argument is understood; they are not offered."""

    names: tuple[str, ...]


class Unlisted(NamedTuple):
    """A mark for an argument, or for some of its choices, that a call may use but no model is told about."""

    choices: tuple[str, ...] = ()


class WorkspaceNames(NamedTuple):
    """A mark for an argument that names a workspace.

    The argument is offered only if workspaces were joined, and it lists their names.
    """

    kind: str = ""  # the kind of the workspaces; empty means any


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a tool: its name, its type, its meaning for a model, and its limits."""

    name: str
    kind: Any
    meaning: str
    joined: WorkspaceNames | None = None
    required: bool = False
    default: Any = None
    choices: tuple[str, ...] = ()
    span: Span | None = None
    size: TextSize | None = None
    spellings: tuple[str, ...] = ()
    unlisted_choices: tuple[str, ...] = ()
    listed: bool = True  # whether a model is offered it

    @property
    def offered(self) -> bool:
        """Whether every model is offered the argument, also where no workspace was joined."""
        return self.listed and self.joined is None


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
        lambda value: _is_list(value, int | str | dict),  # other types that are accepted
    ),
    LineOrId: _Kind(
        {"anyOf": [{"type": "integer"}, {"type": "string"}]},
        "a line number, or an id",
        lambda value: isinstance(value, str) or (isinstance(value, int) and not isinstance(value, bool)),
    ),
}


def arguments_of(plan: Callable[..., Any]) -> tuple[Argument, ...]:
    """Return the arguments that a function's signature declares.

    Each is declared as `name: Annotated[type, meaning, choices or Span] = default`.
    """
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
    marks = {type(each): each for each in limits}
    unlisted = marks.get(Unlisted)
    return Argument(
        parameter.name.removesuffix("_"),
        kind,
        meaning,
        required=required,
        default=None if required else parameter.default,
        joined=marks.get(WorkspaceNames),
        choices=marks.get(tuple, ()),
        span=marks.get(Span),
        size=marks.get(TextSize),
        spellings=marks.get(Spellings, Spellings(())).names,
        unlisted_choices=unlisted.choices if unlisted else (),
        listed=unlisted is None or bool(unlisted.choices),
    )


def input_schema(arguments: Collection[Argument]) -> dict[str, Any]:
    """Return the JSON Schema for an object with these arguments."""
    required = [each.name for each in arguments if each.required]
    return {
        "type": "object",
        "properties": {each.name: _property(each) for each in arguments},
        **({"required": required} if required else {}),
        "additionalProperties": False,
    }


def _property(argument: Argument) -> dict[str, Any]:
    made: dict[str, Any] = dict(_KINDS[argument.kind].schema)
    if argument.meaning:  # the tool's text may explain the argument instead
        made["description"] = argument.meaning
    if argument.choices:
        made["enum"] = list(argument.choices)
    if argument.span is not None:
        made["minimum"] = argument.span.least
        if argument.span.most is not None:
            made["maximum"] = argument.span.most
    if argument.default not in (None, False):  # a model takes a flag that is not passed for false
        made["default"] = argument.default
    return made


def parse_arguments(arguments: Collection[Argument], given: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return the arguments of a call, with defaults; raise UsageError for an argument that does not fit."""
    known = {name: each for each in arguments for name in (each.name, *each.spellings)}
    sent: dict[str, Any] = {}
    for name, value in (given or {}).items():
        if name not in known:
            raise _unknown_argument(name, arguments)
        own = known[name].name
        if sent.get(own) is not None and value is not None and sent[own] != value:
            raise UsageError(f"`{name}` and `{own}` are the same argument", hint=f"pass `{own}` alone")
        sent[own] = sent.get(own) if value is None else value
    return {each.name: _check_value(each, sent.get(each.name)) for each in arguments}


# Names that models choose, and that no spelling is near to; the first argument that a tool has is meant.
_OFTEN_MEANT = {
    **dict.fromkeys(("text", "body", "note", "memory", "message", "value", "fact"), ("content",)),
    **dict.fromkeys(("id", "name", "title", "topic", "record"), ("key", "session")),
    **dict.fromkeys(("kind", "category"), ("type",)),
    **dict.fromkeys(("count", "max", "n", "k", "topk", "size"), ("limit", "lines")),
    **dict.fromkeys(("q", "question", "search", "keywords", "words"), ("query",)),
    **dict.fromkeys(("order", "orderby"), ("sort",)),
    **dict.fromkeys(("file", "filename"), ("path",)),
}


def _unknown_argument(name: str, arguments: Collection[Argument]) -> UsageError:
    """Return the error for an argument that does not exist; it names the nearest one."""
    import difflib  # only needed for a mistake

    names = {spelling: each.name for each in arguments for spelling in (each.name, *each.spellings)}
    plain = {_letters(spelling): own for spelling, own in names.items()}
    own_names = {each.name for each in arguments}
    near = [each for each in _OFTEN_MEANT.get(_letters(name), ()) if each in own_names]
    near = near or difflib.get_close_matches(_letters(name), plain, n=1, cutoff=0.6)
    listed = ", ".join(each.name for each in arguments if each.offered)
    hint = f"the arguments are {listed}"
    return UsageError(
        f"there is no argument {quote_value(name)}",
        hint=f"did you mean `{plain[_letters(near[0])]}`? {hint}" if near else hint,
    )


def _letters(name: str) -> str:
    return "".join(each for each in name.lower() if each.isalnum())


def _check_value(argument: Argument, value: Any) -> Any:
    name, kind = argument.name, _KINDS[argument.kind]
    if value is None:
        if argument.required:
            more = f": {argument.meaning}" if argument.meaning else ""
            raise UsageError(f"`{name}` is missing", hint=f"pass `{name}`{more}")
        return argument.default
    if not kind.fits(value):
        raise UsageError(f"`{name}` must be {kind.wanted}, not {quote_value(value)}")
    value = kind.read(value)
    if argument.choices and value not in (*argument.choices, *argument.unlisted_choices):
        raise UsageError(
            f"`{name}` cannot be {quote_value(value)}", hint=f"use one of {', '.join(argument.choices)}"
        )
    if argument.span is not None:
        low, high = argument.span
        if value < low or (high is not None and value > high):
            span = f"from {low:g} to {high:g}" if high is not None else f"{low:g} or more"
            raise UsageError(f"`{name}` must be {span}, not {quote_value(value)}")
    if argument.size is not None:
        _check_size(name, str(value), argument.size)
    return value


def _check_size(name: str, text: str, size: TextSize) -> None:
    if size.least and not text.strip():
        raise UsageError(f"`{name}` is empty", hint=f"pass some words as `{name}`, or leave it out")
    if size.most is not None and len(text) > size.most:
        raise UsageError(
            f"`{name}` has {len(text):,} characters, and at most {size.most:,} are saved at once",
            hint="save the conclusion in one or two sentences; a long text belongs in a file",
        )


def quote_value(value: Any) -> str:
    """Return a value as text for an error message, shortened and without control characters."""
    return shown(value if isinstance(value, str) else repr(value))


# ---------------------------------------------------------------- answers


@functools.cache
def answer_schema(*shapes: JsonShape) -> dict[str, Any]:
    """Return the JSON Schema for an answer that has one of these shapes.

    The schema is that of a single object, whose fields are never null.
    """
    known: dict[str, Any] = {}
    schemas = [_as_sent(each.schema(known), known) for each in shapes]
    if not schemas:
        return {"type": "object"}
    always = set(schemas[0]["required"]).intersection(*(each["required"] for each in schemas))
    properties = {name: each for one in schemas for name, each in one["properties"].items()}
    return {
        "type": "object",
        "properties": properties,
        "required": [name for name in properties if name in always],
    }


def outline(schema: Schema) -> dict[str, Any]:
    """Return a shorter schema, which every valid answer still fits.

    It has the lists that every answer has, or all required fields if there is no list.
    """
    kinds = {name: schema["properties"][name]["type"] for name in schema.get("required", ())}
    kept_names = [name for name in kinds if kinds[name] == "array"] or [*kinds]
    short = {name: {"type": kinds[name]} for name in kept_names}
    return {"type": "object", "properties": short} if short else {"type": "object"}


def _as_sent(schema: Schema, known: Schema) -> dict[str, Any]:
    """Return a schema without references and without nulls, because fields with null are not sent."""
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
