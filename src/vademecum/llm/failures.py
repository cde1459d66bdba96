"""Tell what went wrong with a question from what the library raised, in words that hold no key.

What is raised is a new error without the old one behind it: the old one carries the request, and with it the
key, and a server may quote either. Its own words are shown only where no part of the key is in them.
"""

from __future__ import annotations

import json
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
from vademecum.llm.overflow import is_overflow

if TYPE_CHECKING:
    from pydantic_ai.exceptions import ModelAPIError

    from vademecum.llm.base import Json
    from vademecum.llm.choose import Place

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
class Failure:
    """A failure as it is told, whether it may pass, and how long the server asks to wait."""

    error: VadeError
    passing: bool = False
    wait: float = 0.0


def read(error: Exception, place: Place, key: str) -> Failure:
    """Understand what the library raised."""
    from pydantic_ai import exceptions as raised

    if isinstance(error, VadeError):
        return Failure(error)
    if isinstance(error, raised.ModelAPIError):
        return _refusal(error, place, key)
    if isinstance(error, raised.ContentFilterError):
        return Failure(_failed(place, "it declined to answer"))
    if isinstance(error, raised.UnexpectedModelBehavior):
        return Failure(_unreadable(place))
    if isinstance(error, raised.UserError):
        # The library's own words are about the call, and hold no key; they are for whoever wrote the call.
        return Failure(_failed(place, _quoted(error.message, key) or "the library refused the call"))
    return _unreachable(error, place)


def cut_off(place: Place, text: str) -> Failure:
    """The failure of an answer that broke off in the middle; without a word said it may pass."""
    failed = _failed(place, f"the answer was cut off after {len(text)} characters", hint="ask again")
    return Failure(failed, passing=True)


def declined(place: Place) -> ModelFailed:
    """The error for an answer that the provider keeps back."""
    return _failed(place, "it declined to answer", hint="a filter of the provider kept the answer back")


def timed_out(place: Place, seconds: float) -> ModelTimeout:
    """The error for a question that took too long."""
    return ModelTimeout(f"{place.where} gave no whole answer within {seconds:g} s")


def _refusal(error: ModelAPIError, place: Place, key: str) -> Failure:
    """Understand an error that the provider sent, before the answer or in the middle of it."""
    from pydantic_ai import exceptions as raised

    status = _status(error)
    body, wait = error.body, error.retry_after or 0.0
    # First: llama.cpp sends it as 500, Groq as 413, some as 429.
    if isinstance(error, raised.ModelContextWindowExceededError) or is_overflow(error):
        said = _said(body, key)
        return Failure(
            ModelOverflow(f"{place.where} says the prompt is too long" + (f": {said}" if said else ""))
        )
    if 300 <= status < 400:
        return Failure(_failed(place, f"{status}, it sends us to another address, where we do not go"))
    if isinstance(error, raised.ModelAuthenticationError) or status in (401, 403):
        reason = REASONS[status if status in (401, 403) else 401]
        return Failure(ModelUnauthorised(f"{place.where} failed: {status or 401}, {reason}"))
    if isinstance(error, raised.ModelQuotaExceededError) or (status in (402, 429) and _is_empty(body)):
        return Failure(
            ModelBusy(
                f"{place.where} failed: {status or 402}, the quota or the credit is used up",
                hint="look at the credit and the limits of the account",
            )
        )
    if isinstance(error, raised.ModelRateLimitError) or status == 429:
        return Failure(ModelBusy(f"{place.where} failed: 429, {REASONS[429]}"), passing=True, wait=wait)
    if isinstance(error, raised.ModelConnectionError | raised.ModelRequestTimeout):
        return _unreachable(error, place)
    if status < 300:
        if error.in_stream:
            return Failure(_failed(place, "it sent an error instead of an answer"), passing=True)
        return Failure(_unreadable(place))
    reason = REASONS.get(status, "it has a fault of its own" if status >= 500 else "it refused")
    said = _said(body, key) if status in QUOTED else ""
    failed = _failed(place, f"{status}, {reason}" + (f": {said}" if said else ""))
    return Failure(failed, passing=status in PASSING or status >= 500, wait=wait)


def _unreachable(error: BaseException, place: Place) -> Failure:
    """Understand an error of the connection; the words of these libraries may quote what was sent."""
    chain = list(_chain(error))
    names = {type(each).__name__ for each in chain}
    if names & {"ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutError"}:
        return Failure(ModelTimeout(f"{place.where} did not answer in time"), passing=True)
    if any("CERTIFICATE_VERIFY_FAILED" in str(each) for each in chain):
        return Failure(_failed(place, "its certificate is not valid"))
    if "RemoteProtocolError" in names:
        return Failure(_failed(place, "it broke the connection off"), passing=True)
    why = next((each.strerror for each in chain if isinstance(each, OSError) and each.strerror), "")
    # An address with no one behind it stays so: the words of the operating system say which it is.
    if names & {"ConnectError", "ReadError", "WriteError", "APIConnectionError"} or why:
        return Failure(_failed(place, f"it cannot be reached{f': {why}' if why else ''}"), passing=True)
    if any(type(each).__module__.split(".")[0] in ("httpx2", "httpcore2") for each in chain):
        return Failure(_failed(place, "the connection broke"), passing=True)
    # What is left are the stumbles of a library over an answer it did not expect.
    return Failure(_unreadable(place))


def _status(error: ModelAPIError) -> int:
    """The HTTP status; one that is no error to the library stands only further back."""
    for each in _chain(error):
        status = getattr(each, "status_code", None) or getattr(
            getattr(each, "response", None), "status_code", None
        )
        if isinstance(status, int) and status:
            return status
    return 0


def _unreadable(place: Place) -> ModelNonsense:
    return ModelNonsense(f"{place.where} gave an answer that cannot be read")


def _chain(error: BaseException) -> list[BaseException]:
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found and len(found) < 20:
        found.append(each)
        each = each.__cause__ or each.__context__
    return found


def _failed(place: Place, reason: str, *, hint: str | None = None) -> ModelFailed:
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
