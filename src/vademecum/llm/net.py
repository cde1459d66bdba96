"""The one way to a server, for models and embedders: address and key, client, what went wrong, when again.

A key is read from the environment for each request, goes to the endpoint alone and stands in no message:
redirects are refused, and a server's own words are shown only where no part of the key is in them. What went
wrong is a value, without the error behind it: that one carries the request. The library is imported when
something is sent.
"""

from __future__ import annotations

import json
import os
import random
import time
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

if TYPE_CHECKING:
    import ssl
    from collections.abc import Mapping

    from vademecum.errors import VadeError

LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
CONNECT_SECONDS = 10.0
MAX_ANSWER = 64 << 20

PASSING = frozenset({408, 409, 425, 429})  # and whatever is the server's own fault
REASONS = {
    400: "it does not take this request",
    401: "it does not take this key",
    402: "the account has no credit left",
    403: "this key may not use it",
    404: "it knows no such model or address",
    408: "it waited too long for us",
    413: "the request is too large for it",
    422: "it does not take this request",
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
        return "is no address"
    if not usable or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        return "is no address"
    return "holds more than an address" if "@" in parts.netloc or parts.query or parts.fragment else ""


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
        raise refused(f"{who}: what {' or '.join(names)} holds cannot be a key")
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
            return Trouble("its answer has no end")
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
        return Trouble(f"{status}, it sends us to another address, where we do not go")
    reason = REASONS.get(status, "it has a fault of its own" if status >= 500 else "it refused")
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
        return Trouble("it broke the connection off", passing=True)
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
