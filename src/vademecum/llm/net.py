"""Send HTTP requests to models and embedders: address and key, client, errors, and retries.

A key is read from the environment for each request, is sent only to the endpoint, and never appears in a
message: redirects are refused, and a server's text is shown only if it holds no part of the key. An error
becomes a value or a new exception without a cause, because the original exception holds the request. The HTTP
library is imported when something is sent.
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
    from vademecum.llm.providers import ModelEndpoint

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
CONNECT_SECONDS = 10.0
MAX_ANSWER = 64 << 20

TEMPORARY = frozenset({408, 409, 425, 429})  # and every server error
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
# Only for these a server's text is worth showing; the answer to a wrong key may quote the key.
QUOTED = frozenset({400, 404, 413, 422})
_TIMEOUTS = frozenset({"ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "TimeoutError"})
_UNREACHABLE = frozenset({"ConnectError", "ReadError", "WriteError", "APIConnectionError"})
_KEY_PART = 6  # characters of a key; a text with so many in a row is not shown


@dataclass(frozen=True, slots=True)
class RequestProblem:
    """Why a request has no answer, whether the problem is temporary, and how long to wait.

    The reason is worded to follow `failed:`.
    """

    reason: str
    temporary: bool = False
    wait: float = 0.0
    timeout: bool = False


# -------------------------------------------------------------------- address and key


def find_address_problem(endpoint: str) -> str:
    """Return what is wrong with an address, worded to follow its setting's name; empty if it is valid."""
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # the port is not a number
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
    """Return the key in the first of these environment variables that is set.

    Raises an error if the key is needed and missing, or if it is invalid.
    """
    key = next((found for name in names if (found := os.environ.get(name, "").strip())), "")
    if not key and needed and names:
        raise refused(
            f"{who} needs a key, and {' or '.join(names)} is not set", hint=f"set {names[0]}, or {instead}"
        )
    # The library would quote an invalid header, including the key.
    if not key.isascii() or not key.isprintable():
        raise refused(f"{who}: what {' or '.join(names)} contains is not a valid key")
    return key


# -------------------------------------------------------------------- sending


@cache
def read_certificates() -> ssl.SSLContext:
    """Return the trusted certificates, read only once because reading them is slow."""
    import httpx2

    return httpx2.create_ssl_context()


def client_options(endpoint: str, seconds: float) -> dict[str, Any]:
    """Return the options of an HTTP client for requests to an address."""
    import httpx2

    return {
        # The pool's timeout differs from the others, because a library warns if all four are 5 s.
        "timeout": httpx2.Timeout(seconds, connect=min(seconds, CONNECT_SECONDS), pool=seconds + 1),
        "verify": read_certificates(),
        "follow_redirects": False,  # another host would get the text, and perhaps the key
        "trust_env": not is_local(endpoint),  # a proxy's loopback is another machine
    }


def post_json(
    endpoint: str, path: str, content: bytes, *, headers: Mapping[str, str], key: str, seconds: float
) -> bytes | RequestProblem:
    """Send one request and return the body of the answer, or the problem if it fails or exceeds a limit."""
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
        trouble = read_connection_problem(error) or RequestProblem(
            f"it cannot be reached: {type(error).__name__}", temporary=True
        )
        if begun and not trouble.timeout:
            return RequestProblem("its answer was cut off", temporary=True)
        return trouble
    if isinstance(body, RequestProblem) or begun:
        return body
    return read_refusal(answer.status_code, parse_body(body), key, wait=_wait_of(answer.headers))


def _read_body(answer: Any, end: float) -> bytes | RequestProblem:
    parts, size = [], 0
    for part in answer.iter_bytes():
        parts.append(part)
        size += len(part)
        if size > MAX_ANSWER:
            return RequestProblem("its answer never ends")
        if time.monotonic() > end:
            raise TimeoutError
    return b"".join(parts)


def parse_body(body: bytes) -> Any:
    """Return the JSON value of a response body; None for a body that is not JSON."""
    try:
        return json.loads(body)
    except (ValueError, RecursionError):
        return None


def next_wait(attempt: int, trouble: RequestProblem, *, end: float, most: int | None = None) -> float | None:
    """Return the seconds to wait before the next attempt; None if there is none.

    Only a temporary problem is worth another attempt, up to `most` attempts, and none begins after `end`.
    """
    # Jitter keeps clients that failed together from retrying together.
    pause = min(FIRST_PAUSE * 2 ** min(attempt - 1, 30), LONGEST_PAUSE) * random.uniform(0.5, 1.0)
    wait = max(trouble.wait, pause)
    again = trouble.temporary and attempt != most and time.monotonic() + wait < end
    return wait if again else None


# -------------------------------------------------------------------- errors


def read_refusal(status: int, body: Any, key: str, *, wait: float = 0.0) -> RequestProblem:
    """Return the problem that an HTTP error status describes."""
    if 300 <= status < 400:
        return RequestProblem(f"{status}, it redirects to another address, which is not followed")
    reason = REASONS.get(status, "it has an internal error" if status >= 500 else "it refused")
    server_text = find_error_text(body, key) if status in QUOTED else ""
    reason_text = f"{status}, {reason}" + (f": {server_text}" if server_text else "")
    return RequestProblem(reason_text, temporary=status in TEMPORARY or status >= 500, wait=wait)


def read_connection_problem(error: BaseException) -> RequestProblem | None:
    """Return the problem behind a connection error; None for any other error.

    A connection error's own text may quote the request, and is not used.
    """
    chain = follow_causes(error)
    names = {type(each).__name__ for each in chain}
    if names & _TIMEOUTS:
        return RequestProblem("it did not answer in time", temporary=True, timeout=True)
    if any("CERTIFICATE_VERIFY_FAILED" in str(each) for each in chain):
        return RequestProblem("its certificate is not valid")
    if "RemoteProtocolError" in names:
        return RequestProblem("it closed the connection", temporary=True)
    why = next((each.strerror for each in chain if isinstance(each, OSError) and each.strerror), "")
    # An address without a server stays unreachable; the operating system's words say which case it is.
    if names & _UNREACHABLE or why:
        return RequestProblem(f"it cannot be reached{f': {why}' if why else ''}", temporary=True)
    if any(type(each).__module__.split(".")[0] in ("httpx2", "httpcore2") for each in chain):
        return RequestProblem("the connection broke", temporary=True)
    return None


def follow_causes(error: BaseException) -> list[BaseException]:
    """Return an error and the chain of its causes."""
    found: list[BaseException] = []
    each: BaseException | None = error
    while each is not None and each not in found and len(found) < 20:
        found.append(each)
        each = each.__cause__ or each.__context__
    return found


def find_error_text(body: Any, key: str) -> str:
    """Return the error text in a server's response body, as far as it is safe to quote."""
    for _ in range(4):
        if isinstance(body, list) and body:
            body = body[0]
        if isinstance(body, dict):
            body = body.get("error") or body.get("message") or body.get("detail")
    return quote_safely(body, key) if isinstance(body, str) else ""


def quote_safely(words: str, key: str) -> str:
    """Return a server's text on one line of at most 200 characters; empty if it holds a part of the key."""
    line = " ".join(words.split())[:200]
    parts = (
        {key[start : start + _KEY_PART] for start in range(max(1, len(key) - _KEY_PART + 1))}
        if key
        else set()
    )
    return "" if not line.isprintable() or any(part in line for part in parts) else line


def _wait_of(headers: Mapping[str, str]) -> float:
    """Return the seconds that a Retry-After header asks to wait, given as seconds or as a date;
    0 if invalid.
    """
    value = headers.get("Retry-After", "").strip()
    try:
        seconds = (
            float(value) if value[:1].isdigit() else parsedate_to_datetime(value).timestamp() - time.time()
        )
    except (ValueError, TypeError, OverflowError):
        return 0.0
    return max(0.0, seconds)


# ------------------------------------------------------------ context overflow

_OVERFLOW = re.compile(
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
# A rate limit also mentions too many tokens, but a shorter prompt does not help there.
_RATE = re.compile(
    r"rate.?limit|tokens per (?:minute|day|second)|\b[TR]P[MD]\b|per[ -]minute|throttl", re.IGNORECASE
)
_LONGEST = 20_000


def is_overflow(error: object) -> bool:
    """Whether an error, its body or its text says that the prompt is larger than the context window."""
    from vademecum.errors import ModelFailed, ModelOverflow

    if isinstance(error, ModelOverflow):
        return True
    if isinstance(error, ModelFailed):
        return False  # it was interpreted already
    words = " ".join(_texts_in(error))[:_LONGEST]
    return bool(_OVERFLOW.search(words)) and not _RATE.search(words)


_NUMBER = r"[\[(\s:]{0,3}(\d[\d,]{1,11})"
# Wordings of the window's size; the number of requested tokens has other wordings.
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


def overflow_limit(error: object) -> int | None:
    """Return the window's size in tokens if an overflow error names it; of several numbers the smallest."""
    words = " ".join([str(error)] if isinstance(error, VadeError) else _texts_in(error))[:_LONGEST]
    found = [int(match[1].replace(",", "")) for each in _LIMITS for match in each.finditer(words)]
    return min(found, default=None)


def _texts_in(value: object, depth: int = 0) -> list[str]:
    """Return the texts in an error and its body, or in a JSON body; long or deep values are cut."""
    if depth > 6 or value is None:
        return []
    if isinstance(value, bytes):
        return [value[:_LONGEST].decode("utf-8", "replace")]
    if isinstance(value, dict):
        return [word for value in list(value.values())[:50] for word in _texts_in(value, depth + 1)]
    if isinstance(value, list | tuple):
        return [word for value in list(value)[:50] for word in _texts_in(value, depth + 1)]
    if isinstance(value, BaseException):
        return [str(value), *_texts_in(getattr(value, "body", None), depth + 1)]
    return [value[:_LONGEST]] if isinstance(value, str) else []


# ------------------------------------------------------------ errors of pydantic-ai

# Codes of a used-up quota; they also come as 429, but waiting does not help.
_EMPTY = (
    "insufficient_quota",
    "billing",
    "credit balance",
    "spend_limit",
    "spend limit",
    "usage_limit_exceeded",
)


_FINAL = RequestProblem("")


@dataclass(frozen=True, slots=True)
class CallFailure:
    """The error to raise for a failed call, and whether the failure is temporary."""

    error: VadeError
    trouble: RequestProblem = _FINAL


def read_failure(error: Exception, place: ModelEndpoint, key: str) -> CallFailure:
    """Return the failure behind an exception of the model library."""
    from pydantic_ai import exceptions as pydantic_errors

    if isinstance(error, VadeError):
        return CallFailure(error)
    if isinstance(error, pydantic_errors.ModelAPIError):
        return _read_api_error(error, place, key)
    if isinstance(error, pydantic_errors.ContentFilterError):
        return CallFailure(_failed(place, "it declined to answer"))
    if isinstance(error, pydantic_errors.UnexpectedModelBehavior):
        return CallFailure(_unreadable(place))
    if isinstance(error, pydantic_errors.UserError):
        # The library's text is about the call, holds no key, and helps the author of the call.
        return CallFailure(_failed(place, quote_safely(error.message, key) or "the library refused the call"))
    return _read_connection_error(error, place)


def cut_off_failure(place: ModelEndpoint, text: str) -> CallFailure:
    """Return the failure for an answer that broke off after this text; it is marked as temporary."""
    failed = _failed(place, f"the answer was cut off after {len(text)} characters", hint="ask again")
    return CallFailure(failed, RequestProblem("", temporary=True))


def declined_error(place: ModelEndpoint) -> ModelFailed:
    """Return the error for an answer that the provider withholds."""
    return _failed(place, "it declined to answer", hint="the provider's content filter blocked the answer")


def timeout_error(place: ModelEndpoint, seconds: float) -> ModelTimeout:
    """Return the error for a question that took too long."""
    return ModelTimeout(f"{place.where} gave no complete answer within {seconds:g} s")


def _read_api_error(error: ModelAPIError, place: ModelEndpoint, key: str) -> CallFailure:
    """Return the failure behind an error that the provider sent, before the answer or during it."""
    from pydantic_ai import exceptions as pydantic_errors

    status, body = _status(error), error.body
    # This check comes first: llama.cpp sends an overflow as 500, Groq as 413, others as 429.
    if isinstance(error, pydantic_errors.ModelContextWindowExceededError) or is_overflow(error):
        server_text = find_error_text(body, key)
        message = f"{place.where} says the prompt is too long" + (f": {server_text}" if server_text else "")
        return CallFailure(ModelOverflow(message))
    if isinstance(error, pydantic_errors.ModelAuthenticationError) or status in (401, 403):
        reason = REASONS[status if status in (401, 403) else 401]
        return CallFailure(ModelUnauthorised(f"{place.where} failed: {status or 401}, {reason}"))
    if isinstance(error, pydantic_errors.ModelQuotaExceededError) or (
        status in (402, 429) and _is_empty(body)
    ):
        message = f"{place.where} failed: {status or 402}, the quota or the credit is used up"
        return CallFailure(ModelBusy(message, hint="check the account's credit and limits"))
    if isinstance(error, pydantic_errors.ModelRateLimitError) or status == 429:
        trouble = read_refusal(429, body, key, wait=error.retry_after or 0.0)
        return CallFailure(ModelBusy(f"{place.where} failed: {trouble.reason}"), trouble)
    if isinstance(error, pydantic_errors.ModelConnectionError | pydantic_errors.ModelRequestTimeout):
        return _read_connection_error(error, place)
    if status < 300 and error.in_stream:
        trouble = RequestProblem("it sent an error instead of an answer", temporary=True)
    elif status < 300:
        return CallFailure(_unreadable(place))
    else:
        trouble = read_refusal(status, body, key, wait=error.retry_after or 0.0)
    return CallFailure(_failed(place, trouble.reason), trouble)


def _read_connection_error(error: BaseException, place: ModelEndpoint) -> CallFailure:
    """Return the failure behind a connection error."""
    trouble = read_connection_problem(error)
    if trouble is None:
        # What remains are errors of a library that did not expect the answer.
        return CallFailure(_unreadable(place))
    if trouble.timeout:
        return CallFailure(ModelTimeout(f"{place.where} did not answer in time"), trouble)
    return CallFailure(_failed(place, trouble.reason), trouble)


def _status(error: ModelAPIError) -> int:
    """Return the HTTP status of an error; for some errors the library keeps the status only in a cause."""
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
