"""A model that is sent no secret, and a question without any.

What a conversation holds goes to a model's server; `text.outgoing` says what may leave, here it is asked.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from vademecum.text.outgoing import clean_text, clean_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.llm.base import Json, Limits, Model, ModelAnswer, Prompt, Stream, Typed

T = TypeVar("T")
_SAID = ("content", "args", "instructions")  # where a message holds words; the rest is the provider's own


def guarded(model: Model) -> Guarded:
    """A model that is sent no secret."""
    return model if isinstance(model, Guarded) else Guarded(model)


class Guarded:
    """Hands on every question without its secrets, and every answer as it is."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def behind(self) -> Model:
        """The model itself."""
        return self._model

    @property
    def name(self) -> str:
        """How it is chosen: `provider:name`."""
        return self._model.name

    def warm(self) -> None:
        """Import ahead of the first question what it will need, where it knows how."""
        warm = getattr(self._model, "warm", None)
        if warm is not None:
            warm()

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Ask for words, or for calls of the tools."""
        return self._model.text(clean_prompt(prompt), system=clean_text(system), tools=tools, limits=limits)

    def typed(
        self, prompt: Prompt, kind: type[T], *, system: str = "", limits: Limits | None = None
    ) -> Typed[T]:
        """Ask for a value of a kind."""
        return self._model.typed(clean_prompt(prompt), kind, system=clean_text(system), limits=limits)

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> Stream:
        """Ask as `text` does, and give the words as they come."""
        return self._model.stream(clean_prompt(prompt), system=clean_text(system), tools=tools, limits=limits)


def clean_prompt(prompt: Prompt) -> Prompt:
    """A question or a conversation without secrets; what a provider has signed stays as it is."""
    if isinstance(prompt, str):
        return clean_text(prompt)
    return [_clean_message(each) for each in prompt]


def _clean_message(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return message
    parts = message.get("parts")
    said = _clean_said(message)
    return {**said, "parts": [_clean_said(part) for part in parts]} if isinstance(parts, list) else said


def _clean_said(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {name: _clean(value) if name in _SAID else value for name, value in part.items()}


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) and value[:1] not in "{[" else clean_value(value)
