"""Wrap a model so that secrets are redacted from everything that is sent to it.

`text.outgoing` decides which text may leave the machine; this module applies that to conversations.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from vademecum.text.outgoing import clean_text, clean_value

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vademecum.llm.base import Json, Limits, Model, ModelAnswer, Prompt, Stream, Typed

T = TypeVar("T")
# the fields of a message that hold text; other fields are the provider's own
_TEXT_FIELDS = ("content", "args", "instructions")


def without_secrets(model: Model) -> RedactingModel:
    """Return a model that redacts secrets from prompts and system texts before they are sent."""
    return model if isinstance(model, RedactingModel) else RedactingModel(model)


class RedactingModel:
    """A model that redacts secrets from each prompt and system text, and returns each answer unchanged."""

    def __init__(self, model: Model) -> None:
        self._model = model

    @property
    def inner(self) -> Model:
        """The wrapped model, which gets the questions without secrets."""
        return self._model

    @property
    def name(self) -> str:
        """The name by which settings and flags choose the model: `provider:name`."""
        return self._model.name

    def warm(self) -> None:
        """Import the libraries before the first question, if the model supports this."""
        warm = getattr(self._model, "warm", None)
        if warm is not None:
            warm()

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Ask for text, or for calls of the tools."""
        return self._model.text(clean_prompt(prompt), system=clean_text(system), tools=tools, limits=limits)

    def typed(
        self, prompt: Prompt, kind: type[T], *, system: str = "", limits: Limits | None = None
    ) -> Typed[T]:
        """Ask for a value of a type."""
        return self._model.typed(clean_prompt(prompt), kind, system=clean_text(system), limits=limits)

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> Stream:
        """Ask as `text` does, and return the text as it arrives."""
        return self._model.stream(clean_prompt(prompt), system=clean_text(system), tools=tools, limits=limits)


def clean_prompt(prompt: Prompt) -> Prompt:
    """Return a question or a conversation without secrets; signed content of a provider stays as it is."""
    if isinstance(prompt, str):
        return clean_text(prompt)
    return [_clean_message(each) for each in prompt]


def _clean_message(message: Any) -> Any:
    if not isinstance(message, Mapping):
        return message
    parts = message.get("parts")
    cleaned = _clean_fields(message)
    return (
        {**cleaned, "parts": [_clean_fields(part) for part in parts]} if isinstance(parts, list) else cleaned
    )


def _clean_fields(part: Any) -> Any:
    if not isinstance(part, Mapping):
        return part
    return {name: _clean(value) if name in _TEXT_FIELDS else value for name, value in part.items()}


def _clean(value: Any) -> Any:
    return clean_text(value) if isinstance(value, str) and value[:1] not in "{[" else clean_value(value)
