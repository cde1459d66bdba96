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

pass  # XXX dropped import


PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
REASONS = {
    400: "it does not take this request",
    401: "it does not take this key",
    402: "the account has no credit left",
    403: "this key may not use it",
    404: "it knows no such model or address",
    408: "it waited too long for us",
    413: "the request is too large for it",
    422: "it does not take this request",
    429: "too many requests",
}
# Only for these are a server's own words worth showing; the answer to a wrong key may quote the key.
QUOTED = frozenset({400, 404, 413, 422})
# Codes of a quota that is used up; they come as 429 too, but waiting does not help.
_EMPTY = (
    "insufficient_quota",
    "billing",
    "credit balance",
    "spend_limit",
    "spend limit",
    "usage_limit_exceeded",
)
_PART = 6  # characters of a key that must not be shown


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A failure as it is told, whether it may pass, and how long the server asks to wait."""

    error: VadeError
    passing: bool = False
    wait: float = 0.0


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
        return CallFailure(_failed(place, _quoted(error.message, key) or "the library refused the call"))
    return _unreachable(error, place)


def cut_off_failure(place: ModelEndpoint, text: str) -> CallFailure:
    """The failure of an answer that broke off in the middle; without a word said it may pass."""
    failed = _failed(place, f"the answer was cut off after {len(text)} characters", hint="ask again")
    return CallFailure(failed, passing=True)


def declined_error(place: ModelEndpoint) -> ModelFailed:
    """The error for an answer that the provider keeps back."""
    return _failed(place, "it declined to answer", hint="a filter of the provider kept the answer back")


def timeout_error(place: ModelEndpoint, seconds: float) -> ModelTimeout:
    """The error for a question that took too long."""
    return ModelTimeout(f"{place.where} gave no whole answer within {seconds:g} s")


def _refusal(error: ModelAPIError, place: ModelEndpoint, key: str) -> CallFailure:
    """Understand an error that the provider sent, before the answer or in the middle of it."""
    from pydantic_ai import exceptions as raised

    status = _status(error)
    body, wait = error.body, error.retry_after or 0.0
    # First: llama.cpp sends it as 500, Groq as 413, some as 429.
    if isinstance(error, raised.ModelContextWindowExceededError) or is_overflow(error):
        said = _said(body, key)
        return CallFailure(
            ModelOverflow(f"{place.where} says the prompt is too long" + (f": {said}" if said else ""))
        )
    if 300 <= status < 400:
        return CallFailure(_failed(place, f"{status}, it sends us to another address, where we do not go"))
    if isinstance(error, raised.ModelAuthenticationError) or status in (401, 403):
        reason = REASONS[status if status in (401, 403) else 401]
        return CallFailure(ModelUnauthorised(f"{place.where} failed: {status or 401}, {reason}"))
    if isinstance(error, raised.ModelQuotaExceededError) or (status in (402, 429) and _is_empty(body)):
        return CallFailure(
            ModelBusy(
                f"{place.where} failed: {status or 402}, the quota or the credit is used up",
                hint="look at the credit and the limits of the account",
            )
        )
    if isinstance(error, raised.ModelRateLimitError) or status == 429:
        return CallFailure(ModelBusy(f"{place.where} failed: 429, {REASONS[429]}"), passing=True, wait=wait)
    if isinstance(error, raised.ModelConnectionError | raised.ModelRequestTimeout):
        return _unreachable(error, place)
    if status < 300:
        if error.in_stream:
            return CallFailure(_failed(place, "it sent an error instead of an answer"), passing=True)
        return CallFailure(_unreadable(place))
    reason = REASONS.get(status, "it has a fault of its own" if status >= 500 else "it refused")
    said = _said(body, key) if status in QUOTED else ""
    failed = _failed(place, f"{status}, {reason}" + (f": {said}" if said else ""))
    return CallFailure(failed, passing=status in PASSING or status >= 500, wait=wait)


def _unreachable(error: BaseException, place: ModelEndpoint) -> CallFailure:
    """Understand an error of the connection; the words of these libraries may quote what was sent."""
    chain = list(_chain(error))
    names = {type(each).__name__ for each in chain}
    if names & {"ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutError"}:
        return CallFailure(ModelTimeout(f"{place.where} did not answer in time"), passing=True)
    if any("CERTIFICATE_VERIFY_FAILED" in str(each) for each in chain):
        return CallFailure(_failed(place, "its certificate is not valid"))
    if "RemoteProtocolError" in names:
        return CallFailure(_failed(place, "it broke the connection off"), passing=True)
    why = next((each.strerror for each in chain if isinstance(each, OSError) and each.strerror), "")
    # An address with no one behind it stays so: the words of the operating system say which it is.
    if names & {"ConnectError", "ReadError", "WriteError", "APIConnectionError"} or why:
        return CallFailure(_failed(place, f"it cannot be reached{f': {why}' if why else ''}"), passing=True)
    if any(type(each).__module__.split(".")[0] in ("httpx2", "httpcore2") for each in chain):
        return CallFailure(_failed(place, "the connection broke"), passing=True)
    # What is left are the stumbles of a library over an answer it did not expect.
    return CallFailure(_unreadable(place))


def _status(error: ModelAPIError) -> int:
    """The HTTP status; one that is no error to the library stands only further back."""
    for each in _chain(error):
        status = getattr(each, "status_code", None) or getattr(
            getattr(each, "response", None), "status_code", None
        )
        if isinstance(status, int) and status:
            return status
    return 0


def _unreadable(place: ModelEndpoint) -> ModelNonsense:
    return ModelNonsense(f"{place.where} gave an answer that cannot be read")


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found and len(found) < 20:
        found.append(each)
        each = each.__cause__ or each.__context__
    return found


def _failed(place: ModelEndpoint, reason: str, *, hint: str | None = None) -> ModelFailed:
    return ModelFailed(f"{place.where} failed: {reason}", hint=hint)


def _is_empty(body: Json) -> bool:
    words = json.dumps(body, default=str).lower()
    return any(each in words for each in _EMPTY)


def _said(body: Json, key: str) -> str:
    """What a server says itself, from wherever it stands in the body."""
    for _ in range(4):
        if isinstance(body, list) and body:
            body = body[0]
        if isinstance(body, dict):
            body = body.get("error") or body.get("message") or body.get("detail")
    return _quoted(body, key) if isinstance(body, str) else ""


def _quoted(words: str, key: str) -> str:
    """Quote on one short line, unless the words hold a part of the key."""
    line = " ".join(words.split())[:200]
    parts = {key[start : start + _PART] for start in range(max(1, len(key) - _PART + 1))} if key else set()
    return "" if not line.isprintable() or any(part in line for part in parts) else line
