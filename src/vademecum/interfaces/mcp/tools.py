"""What a tool is: arguments, and a plan that says which one call on memory answers them.

A plan is a pure function. Reads run at once; a write is first shown to whoever has to approve it, and may be
retried, so it is kept as the name of a call and its arguments.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.interfaces.mcp import arguments as taking

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.interfaces.mcp.arguments import Argument
    from vademecum.memory import Memory

TEXTS = Path(__file__).parent / "texts"


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
    arguments: tuple[Argument, ...]
    output: Mapping[str, Any]
    plan: Callable[[Mapping[str, Any]], Read | Write]
    read_only: bool = False
    destructive: bool = False
    idempotent: bool = False

    @property
    def description(self) -> str:
        """When to use it and when not, with an example."""
        return text(self.name)

    def planned(self, given: Mapping[str, Any] | None) -> Read | Write:
        """What to do for what was sent."""
        return self.plan(taking.parse(self.arguments, given))


def text(name: str) -> str:
    """A text beside the code."""
    return (TEXTS / f"{name}.md").read_text("utf-8").strip()


def answers(required: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    """The schema of an answer: what it always has, and what it may have."""
    return {"type": "object", "properties": {**required, **more}, "required": list(required)}


TEXT: Mapping[str, Any] = {"type": "string"}
COUNT: Mapping[str, Any] = {"type": "integer"}
NUMBER: Mapping[str, Any] = {"type": "number"}
TEXTS_: Mapping[str, Any] = {"type": "array", "items": TEXT}


def many(of: Mapping[str, Any]) -> dict[str, Any]:
    """The schema of a list."""
    return {"type": "array", "items": of}
