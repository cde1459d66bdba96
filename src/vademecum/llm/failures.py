"""Tell what went wrong with a question from what the library raised, in words that hold no key.

What is raised is a new error without the old one behind it: the old one carries the request, and with it the
key, and a server may quote either. Its own words are shown only where no part of the key is in them. That a
prompt did not fit has no common code: most say it with status 400, older llama.cpp with 500, Groq with 413,
and only the words tell it from any other refusal.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vademecum.errors import (
    ModelBusy,
    ModelFailed,
    ModelNonsense,
    ModelOverflow,
    ModelTimeout,
    ModelUnauthorised,
    VadeError,
)
from vademecum.llm import net

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

    from vademecum.llm.base import Json
    from vademecum.llm.select import ModelEndpoint


# ------------------------------------------------------------ a prompt that did not fit

_WORDS = re.compile(
    r"""
      context_length_exceeded | exceed_context_size_error | model_context_window_exceeded | request_too_large
    | prompt\ is\ too\ long | prompt\ too\ long | prompt\ \(.*\)\ is\ too\ long
    | input\ is\ too\ long | input\ too\ long | input\ length\ too\ long
    | too\ many\ (?:input\ |total\ |prompt\ )?tokens\b (?!\ per\b) (?!.*\b(?:rate|quota|minute|day)\b)
    | context\ (?:length|window|size)\ (?:is\ |was\ |has\ been\ )?(?:exceeded|full|too\ small)
    | (?:exceed(?:s|ed)?|larger\ than|longer\ than|greater\ than|over|beyond|fits?\ (?:in|into))
      [^.\n]{0,60} \bcontext[\ -](?:length|window|size|limit)
    | maximum\ (?:context|prompt|input|sequence)\ length
    | context\ length\ (?:is|of)\ (?:only\ )?[\d,]+
    | (?:max_tokens|max\ tokens)[^.\n]{0,20}\ exceed\ context\ limit
    | input\ token(?:s|\ count)\b[^.\n]{0,60}\ exceed
    | input\ tokens\ exceeded
    | exceed(?:s|ed)?[^.\n]{0,40}\ maximum\ (?:number\ of\ )?(?:allowed\ )?(?:input\ )?tokens
    | exceed(?:s|ed)?\ (?:the\ )?(?:model['’]?s?\ )?(?:maximum\ )?token\ limit
    | (?:reduce|decrease|shorten)\ the\ (?:length|size)\ of\ (?:the|your)\ (?:messages?|prompt|input)
    | reduce\ your\ (?:prompt|message\ size)
    | too\ large\ for\ model\ with\ [\d,]+\ maximum\ context
    | token\ count\ of\ [\d,]+\ exceeds
    """,
    re.VERBOSE | re.IGNORECASE | re.DOTALL,
)
# A limit per minute also speaks of too many tokens; a shorter prompt is not what it asks for.
_RATE = re.compile(
    r"rate.?limit|tokens per (?:minute|day|second)|\b[TR]P[MD]\b|per[ -]minute|throttl", re.IGNORECASE
)
_LONGEST = 20_000


def is_overflow(said: object) -> bool:
    """Tell whether an error, its body or its words say that the prompt is larger than the window."""
    from vademecum.errors import ModelFailed, ModelOverflow

    if isinstance(said, ModelOverflow):
        return True
    if isinstance(said, ModelFailed):
        return False  # it has been read already
    words = " ".join(_words_of(said))[:_LONGEST]
    return bool(_WORDS.search(words)) and not _RATE.search(words)


def _words_of(said: object, depth: int = 0) -> list[str]:
    """All words of an error and what it carries, or of a body as JSON gives it."""
    if depth > 6 or said is None:
        return []
    if isinstance(said, bytes):
        return [said[:_LONGEST].decode("utf-8", "replace")]
    if isinstance(said, dict):
        return [word for value in list(said.values())[:50] for word in _words_of(value, depth + 1)]
    if isinstance(said, list | tuple):
        return [word for value in list(said)[:50] for word in _words_of(value, depth + 1)]
    if isinstance(said, BaseException):
        return [str(said), *_words_of(getattr(said, "body", None), depth + 1)]
    return [said[:_LONGEST]] if isinstance(said, str) else []


# ------------------------------------------------------------ everything else

# Codes of a quota that is used up; they come as 429 too, but waiting does not help.
_EMPTY = (
    "insufficient_quota",
    "billing",
    "credit balance",
    "spend_limit",
    "spend limit",
    "usage_limit_exceeded",
)


_FINAL = net.Trouble("")


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A failure as it is told, and whether it may pass."""

    error: VadeError
    trouble: net.Trouble = _FINAL


def read_failure(error: Exception, place: ModelEndpoint, key: str) -> CallFailure:
    """Understand what the library raised."""
    from pydantic_ai import exceptions as raised

    if isinstance(error, VadeError):
        return CallFailure(error)
    if isinstance(error, raised.ModelAPIError):
        return _refusal(error, place, key)
    if isinstance(error, raised.ContentFilterError):
        return CallFailure(_failed(place, "it declined to answer"))
    if isinstance(error, raised.UnexpectedModelBehavior):
        return CallFailure(_unreadable(place))
    if isinstance(error, raised.UserError):
        # The library's own words are about the call, and hold no key; they are for whoever wrote the call.
        return CallFailure(
            _failed(place, net.quote_words(error.message, key) or "the library refused the call")
        )
    return _unreachable(error, place)


def cut_off_failure(place: ModelEndpoint, text: str) -> CallFailure:
    """The failure of an answer that broke off in the middle; without a word said it may pass."""
    failed = _failed(place, f"the answer was cut off after {len(text)} characters", hint="ask again")
    return CallFailure(failed, net.Trouble("", passing=True))


def declined_error(place: ModelEndpoint) -> ModelFailed:
    """The error for an answer that the provider keeps back."""
    return _failed(place, "it declined to answer", hint="a filter of the provider kept the answer back")


def timeout_error(place: ModelEndpoint, seconds: float) -> ModelTimeout:
    """The error for a question that took too long."""
    return ModelTimeout(f"{place.where} gave no whole answer within {seconds:g} s")


def _refusal(error: ModelAPIError, place: ModelEndpoint, key: str) -> CallFailure:
    """Understand an error that the provider sent, before the answer or in the middle of it."""
    from pydantic_ai import exceptions as raised

    status, body = _status(error), error.body
    # First: llama.cpp sends it as 500, Groq as 413, some as 429.
    if isinstance(error, raised.ModelContextWindowExceededError) or is_overflow(error):
        said = net.find_words(body, key)
        told = f"{place.where} says the prompt is too long" + (f": {said}" if said else "")
        return CallFailure(ModelOverflow(told))
    if isinstance(error, raised.ModelAuthenticationError) or status in (401, 403):
        reason = net.REASONS[status if status in (401, 403) else 401]
        return CallFailure(ModelUnauthorised(f"{place.where} failed: {status or 401}, {reason}"))
    if isinstance(error, raised.ModelQuotaExceededError) or (status in (402, 429) and _is_empty(body)):
        told = f"{place.where} failed: {status or 402}, the quota or the credit is used up"
        return CallFailure(ModelBusy(told, hint="look at the credit and the limits of the account"))
    if isinstance(error, raised.ModelRateLimitError) or status == 429:
        trouble = net.read_refusal(429, body, key, wait=error.retry_after or 0.0)
        return CallFailure(ModelBusy(f"{place.where} failed: {trouble.reason}"), trouble)
    if isinstance(error, raised.ModelConnectionError | raised.ModelRequestTimeout):
        return _unreachable(error, place)
    if status < 300 and error.in_stream:
        trouble = net.Trouble("it sent an error instead of an answer", passing=True)
    elif status < 300:
        return CallFailure(_unreadable(place))
    else:
        trouble = net.read_refusal(status, body, key, wait=error.retry_after or 0.0)
    return CallFailure(_failed(place, trouble.reason), trouble)


def _unreachable(error: BaseException, place: ModelEndpoint) -> CallFailure:
    """Understand an error of the connection."""
    trouble = net.read_trouble(error)
    if trouble is None:
        # What is left are the stumbles of a library over an answer it did not expect.
        return CallFailure(_unreadable(place))
    if trouble.timeout:
        return CallFailure(ModelTimeout(f"{place.where} did not answer in time"), trouble)
    return CallFailure(_failed(place, trouble.reason), trouble)


def _status(error: ModelAPIError) -> int:
    """The HTTP status; one that is no error to the library stands only further back."""
    for each in net.follow_causes(error):
        status = getattr(each, "status_code", None) or getattr(
            getattr(each, "response", None), "status_code", None
        )
        if isinstance(status, int) and status:
            return status
    return 0


def _unreadable(place: ModelEndpoint) -> ModelNonsense:
    return ModelNonsense(f"{place.where} gave an answer that cannot be read")


def _failed(place: ModelEndpoint, reason: str, *, hint: str | None = None) -> ModelFailed:
    return ModelFailed(f"{place.where} failed: {reason}", hint=hint)


def _is_empty(body: Json) -> bool:
    words = json.dumps(body, default=str).lower()
    return any(each in words for each in _EMPTY)
