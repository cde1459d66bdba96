"""The one way to a server, for models and embedders: address and key, client, what went wrong, when again.

A key is read from the environment for each request, goes to the endpoint alone and stands in no message:
redirects are refused, and a server's own words are shown only where no part of the key is in them. What went
wrong is a value or a new error, without the old one behind it: that one carries the request. The library is
imported when something is sent.
"""

from __future__ import annotations

import json
import os
import random
import re
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

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
    import ssl
    from collections.abc import Mapping

    from pydantic_ai.exceptions import ModelAPIError

    from vademecum.llm.base import Json
    from vademecum.llm.select import ModelEndpoint

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
CONNECT_SECONDS = 10.0
MAX_ANSWER = 64 << 20

PASSING = frozenset({408, 409, 425, 429})  # and whatever is the server's own fault
REASONS = {
    400: "it rejected this request",
    401: "it rejected this key",
    402: "the account has no credit left",
    403: "this key may not use it",
    404: "it has no such model or address",
    408: "it timed out waiting for the request",
    413: "the request is too large",
    422: "it rejected this request",
    429: "too many requests, or the quota is used up",
}
# Only for these are a server's own words worth showing; the answer to a wrong key may quote the key.
QUOTED = frozenset({400, 404, 413, 422})
_TIMEOUTS = frozenset({"ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutError"})
_UNREACHABLE = frozenset({"ConnectError", "ReadError", "WriteError", "APIConnectionError"})
_PART = 6  # characters of a key that must not be shown


@dataclass(frozen=True, slots=True)
class Trouble:
    """Why there is no answer, in the words that follow `failed:`; whether it may pass; how long to wait."""

    reason: str
    passing: bool = False
    wait: float = 0.0
    timeout: bool = False


# -------------------------------------------------------------------- address and key


def find_address_problem(endpoint: str) -> str:
    """What is wrong with an address, in the words that follow its setting; empty when nothing is."""
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        return "is not a URL"
    if not usable or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        return "is not a URL"
    return "contains more than a URL" if "@" in parts.netloc or parts.query or parts.fragment else ""


def is_local(endpoint: str) -> bool:
    """Whether an address is on this machine."""
    return urlsplit(endpoint).hostname in LOOPBACK


def read_key(
    names: tuple[str, ...], *, who: str, needed: bool, refused: type[VadeError], instead: str
) -> str:
    """The key in the first of these variables that is set; refused when it is needed or cannot be one."""
    key = next((found for name in names if (found := os.environ.get(name, "").strip())), "")
    if not key and needed and names:
        raise refused(
            f"{who} needs a key, and {' or '.join(names)} is not set", hint=f"set {names[0]}, or {instead}"
        )
    # The library would quote a broken header, and with it the key.
    if not key.isascii() or not key.isprintable():
        raise refused(f"{who}: what {' or '.join(names)} contains is not a valid key")
    return key


# -------------------------------------------------------------------- sending


@cache
def read_certificates() -> ssl.SSLContext:
    """Read once: it takes longer than everything else that is done for a question here."""
    import httpx2

    return httpx2.create_ssl_context()


def client_options(endpoint: str, seconds: float) -> dict[str, Any]:
    """How a client for an address is made, whichever kind of client."""
    import httpx2

    return {
        # The pool's differs from the others: a library warns of a timeout of 5 s in all four.
        "timeout": httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS), pool=seconds + 1),
        "verify": read_certificates(),
        "follow_redirects": False,  # another host would be handed the text, and perhaps the key
        "trust_env": not is_local(endpoint),  # a proxy's loopback is another machine
    }


def post_json(
    endpoint: str, path: str, content: bytes, *, headers: Mapping[str, str], key: str, seconds: float
) -> bytes | Trouble:
    """Send one request and read its answer, within the time and size one may take."""
    import httpx2

    end = time.monotonic() + seconds
    plain = {"Content-Type": "application/json", "Accept": "application/json", "Accept-Encoding": "identity"}
    begun = False
    try:
        with (
            httpx2.Client(**client_options(endpoint, seconds)) as client,
            client.stream("POST", endpoint + path, content=content, headers={**headers, **plain}) as answer,
        ):
            begun = answer.is_success
            body = _read_body(answer, end)
    except (httpx2.HTTPError, OSError) as error:
        trouble = read_trouble(error) or Trouble(
            f"it cannot be reached: {type(error).__name__}", passing=True
        )
        if begun and not trouble.timeout:
            return Trouble("its answer was cut off", passing=True)
        return trouble
    if isinstance(body, Trouble) or begun:
        return body
    return read_refusal(answer.status_code, parse_body(body), key, wait=_wait_of(answer.headers))


def _read_body(answer: Any, end: float) -> bytes | Trouble:
    parts, size = [], 0
    for part in answer.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER:
            return Trouble("its answer never ends")
        if time.monotonic() > end:
            raise TimeoutError
    return b"".join(parts)


def parse_body(body: bytes) -> Any:
    """The JSON of a body; None for anything else."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def next_wait(attempt: int, trouble: Trouble, *, end: float, most: int | None = None) -> float | None:
    """How long to wait after so many attempts, on the monotonic clock until `end`; None to give up."""
    # Jitter, so that those who failed together do not come back together.
    pause = min(FIRST_PAUSE * 2 ** min(attempt - 1, 30), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
    wait = max(trouble.wait, pause)
    again = trouble.passing and attempt != most and time.monotonic() + wait < end
    return wait if again else None


# -------------------------------------------------------------------- what went wrong


def read_refusal(status: int, body: Any, key: str, *, wait: float = 0.0) -> Trouble:
    """Understand a status that is no success."""
    if 300 <= status < 400:
        return Trouble(f"{status}, it redirects to another address, which is not followed")
    reason = REASONS.get(status, "it has an internal error" if status >= 500 else "it refused")
    said = find_words(body, key) if status in QUOTED else ""
    told = f"{status}, {reason}" + (f": {said}" if said else "")
    return Trouble(told, passing=status in PASSING or status >= 500, wait=wait)


def read_trouble(error: BaseException) -> Trouble | None:
    """Understand an error of the connection, whose own words may quote what was sent; None for another."""
    chain = follow_causes(error)
    names = {type(each).__name__ for each in chain}
    if names & _TIMEOUTS:
        return Trouble("it did not answer in time", passing=True, timeout=True)
    if any("CERTIFICATE_VERIFY_FAILED" in str(each) for each in chain):
        return Trouble("its certificate is not valid")
    if "RemoteProtocolError" in names:
        return Trouble("it closed the connection", passing=True)
    why = next((each.strerror for each in chain if isinstance(each, OSError) and each.strerror), "")
    # An address with no one behind it stays so: the words of the operating system say which it is.
    if names & _UNREACHABLE or why:
        return Trouble(f"it cannot be reached{f': {why}' if why else ''}", passing=True)
    if any(type(each).__module__.split(".")[0] in ("httpx2", "httpcore2") for each in chain):
        return Trouble("the connection broke", passing=True)
    return None


def follow_causes(error: BaseException) -> list[BaseException]:
    """An error, and what it came from."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found and len(found) < 20:
        found.append(each)
        each = each.__cause__ or each.__context__
    return found


def find_words(body: Any, key: str) -> str:
    """What a server says itself, from wherever it stands in the body, as far as it may be quoted."""
    for _ in range(4):
        if isinstance(body, list) and body:
            body = body[0]
        if isinstance(body, dict):
            body = body.get("error") or body.get("message") or body.get("detail")
    return quote_words(body, key) if isinstance(body, str) else ""


def quote_words(words: str, key: str) -> str:
    """Quote on one short line, unless the words hold a part of the key."""
    line = " ".join(words.split())[:200]
    parts = {key[start : start + _PART] for start in range(max(1, len(key) - _PART + 1))} if key else set()
    return "" if not line.isprintable() or any(part in line for part in parts) else line


def _wait_of(headers: Mapping[str, str]) -> float:
    """Read Retry-After, in seconds or as a date; nonsense counts as nothing."""
    said = headers.get("Retry-After", "").strip()
    try:
        seconds = float(said) if said[:1].isdigit() else parsedate_to_datetime(said).timestamp() - time.time()
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, seconds)


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


_NUMBER = r"[\[(\s:]{0,3}(\d[\d,]{1,11})"
# What the window is, by those who say it; a number of tokens that was asked for stands elsewhere.
_LIMITS = tuple(
    re.compile(each + _NUMBER, re.IGNORECASE)
    for each in (
        r"context (?:length|window|size)\b(?! by\b)[^.\d]{0,20}",
        r"maximum (?:context|prompt|input|sequence|model) length(?: is| of)?",
        r"\d tokens >",
        r"\d \+ [\d,]{1,12} >",
        r"tokens allowed",
        r"only supports up to",
        r"configured limit of",
        r"exceeds the limit of",
        r"model token limit",
        r"too large for model with",
        r"prompt cannot exceed",
        r"must be <=",
        r"input length should be \[1,",
    )
)


def overflow_limit(said: object) -> int | None:
    """How many tokens the window has, where an overflow says so; the smallest of several numbers."""
    words = " ".join([str(said)] if isinstance(said, VadeError) else _words_of(said))[:_LONGEST]
    found = [int(match[1].replace(",", "")) for each in _LIMITS for match in each.finditer(words)]
    return min(found, default=None)


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


_FINAL = Trouble("")


@dataclass(frozen=True, slots=True)
class CallFailure:
    """A failure as it is told, and whether it may pass."""

    error: VadeError
    trouble: Trouble = _FINAL


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
        return CallFailure(_failed(place, quote_words(error.message, key) or "the library refused the call"))
    return _unreachable(error, place)


def cut_off_failure(place: ModelEndpoint, text: str) -> CallFailure:
    """The failure of an answer that broke off in the middle; without a word said it may pass."""
    failed = _failed(place, f"the answer was cut off after {len(text)} characters", hint="ask again")
    return CallFailure(failed, Trouble("", passing=True))


def declined_error(place: ModelEndpoint) -> ModelFailed:
    """The error for an answer that the provider keeps back."""
    return _failed(place, "it declined to answer", hint="the provider's content filter blocked the answer")


def timeout_error(place: ModelEndpoint, seconds: float) -> ModelTimeout:
    """The error for a question that took too long."""
    return ModelTimeout(f"{place.where} gave no complete answer within {seconds:g} s")


def _refusal(error: ModelAPIError, place: ModelEndpoint, key: str) -> CallFailure:
    """Understand an error that the provider sent, before the answer or in the middle of it."""
    from pydantic_ai import exceptions as raised

    status, body = _status(error), error.body
    # First: llama.cpp sends it as 500, Groq as 413, some as 429.
    if isinstance(error, raised.ModelContextWindowExceededError) or is_overflow(error):
        said = find_words(body, key)
        told = f"{place.where} says the prompt is too long" + (f": {said}" if said else "")
        return CallFailure(ModelOverflow(told))
    if isinstance(error, raised.ModelAuthenticationError) or status in (401, 403):
        reason = REASONS[status if status in (401, 403) else 401]
        return CallFailure(ModelUnauthorised(f"{place.where} failed: {status or 401}, {reason}"))
    if isinstance(error, raised.ModelQuotaExceededError) or (status in (402, 429) and _is_empty(body)):
        told = f"{place.where} failed: {status or 402}, the quota or the credit is used up"
        return CallFailure(ModelBusy(told, hint="check the account's credit and limits"))
    if isinstance(error, raised.ModelRateLimitError) or status == 429:
        trouble = read_refusal(429, body, key, wait=error.retry_after or 0.0)
        return CallFailure(ModelBusy(f"{place.where} failed: {trouble.reason}"), trouble)
    if isinstance(error, raised.ModelConnectionError | raised.ModelRequestTimeout):
        return _unreachable(error, place)
    if status < 300 and error.in_stream:
        trouble = Trouble("it sent an error instead of an answer", passing=True)
    elif status < 300:
        return CallFailure(_unreadable(place))
    else:
        trouble = read_refusal(status, body, key, wait=error.retry_after or 0.0)
    return CallFailure(_failed(place, trouble.reason), trouble)


def _unreachable(error: BaseException, place: ModelEndpoint) -> CallFailure:
    """Understand an error of the connection."""
    trouble = read_trouble(error)
    if trouble is None:
        # What is left are the stumbles of a library over an answer it did not expect.
        return CallFailure(_unreadable(place))
    if trouble.timeout:
        return CallFailure(ModelTimeout(f"{place.where} did not answer in time"), trouble)
    return CallFailure(_failed(place, trouble.reason), trouble)


def _status(error: ModelAPIError) -> int:
    """The HTTP status; one that is no error to the library stands only further back."""
    for each in follow_causes(error):
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
