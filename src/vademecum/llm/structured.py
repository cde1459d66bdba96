"""Read a model's answer as a value of the kind that was asked for, or say what does not fit."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vademecum.errors import ModelFailed, UsageError
from vademecum.llm.base import read_prompt
from vademecum.text import fences

if TYPE_CHECKING:
    from vademecum.llm.base import Json

T = TypeVar("T")

TOOL = "answer"
_PROBLEMS = 8
_NAME = re.compile(r"[^A-Za-z0-9_-]")


class Misfit(Exception):
    """An answer that is not of the kind; says what is wrong with it, in words a model understands."""


class AnswerKind(Generic[T]):
    """A dataclass or a pydantic model, its schema, and how an answer is read as one."""

    def __init__(self, kind: type[T]) -> None:
        try:
            from pydantic import TypeAdapter
            from pydantic.errors import PydanticUserError
        except ImportError as error:
            raise ModelFailed(
                "typed answers need a library that is not installed",
                hint="install the extra of a provider, such as `pip install vademecum[openai]`",
            ) from error
        try:
            self._adapter: TypeAdapter[T] = TypeAdapter(kind)
            self.schema: dict[str, Any] = self._adapter.json_schema()
        except (PydanticUserError, NameError, TypeError) as error:
            raise UsageError(
                f"{kind!r} is no kind of answer", hint="use a dataclass or a pydantic model"
            ) from error
        if self.schema.get("type") != "object":
            raise UsageError(f"{kind!r} is no kind of answer", hint="use a dataclass or a pydantic model")
        self.name = _NAME.sub("_", getattr(kind, "__name__", TOOL))
        self.description = str(self.schema.get("description", "")) or f"Give the {self.name}."

    def read(self, said: Json) -> T:
        """Read an answer: the arguments of a call, a JSON text, or a text that holds one."""
        from pydantic import ValidationError

        value = find_json(said) if isinstance(said, str) else said
        try:
            # As JSON, so that a number is never taken for a word, but a date may come as one.
            return self._adapter.validate_json(json.dumps(value), strict=None)
        except ValidationError as error:
            raise Misfit(_told(error)) from error


def find_json(text: str) -> Json:
    """The JSON object in a text; small models put words or a fence around it."""
    fenced = [text[each.inner_start : each.inner_end] for each in fences.find(text)[:1]]
    braced = text[text.find("{") : text.rfind("}") + 1]
    for each in (text, *fenced, braced):
        try:
            value = json.loads(each)
        except (ValueError, RecursionError):
            continue
        if isinstance(value, dict):
            return value
    raise Misfit("- it is no JSON object")


def mend_request(problems: str) -> str:
    """What a model is told whose answer does not fit."""
    return read_prompt(__package__, "mend").format(problems=problems)


def _told(error: Any) -> str:
    listed = error.errors(include_url=False, include_input=False)
    lines = [
        f"- {'.'.join(str(part) for part in each['loc']) or 'the answer'}: {each['msg']}"
        for each in listed[:_PROBLEMS]
    ]
    return "\n".join(lines + ["- and more"] * (len(listed) > _PROBLEMS))
