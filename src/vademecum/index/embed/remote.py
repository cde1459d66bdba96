"""Embed by asking a server: OpenAI and all who speak like it, Gemini, Ollama.

Text leaves the machine here and nowhere else, and only for a provider the settings name. A key is read from
the environment for each request, is sent to the endpoint alone, and is in no message: redirects are refused,
and a server's own words are shown only where no part of the key is in them.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import random
import ssl
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from vademecum.errors import EmbedderChanged, EmbedderFailed
from vademecum.index.embed.base import gather, patience, unit
from vademecum.lazy import LazyModule
from vademecum.store.outgoing import clean_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    import numpy as np
    from numpy.typing import NDArray

    from vademecum.index.embed.base import Part, Vectors
else:
    np = LazyModule("numpy")

# Raised whenever this file makes other vectors from the same answers.
REVISION = 1

TIMEOUT = 30.0
# For how many timeouts a batch is tried again: a person waits for a question's answer, nobody for a text.
PATIENCE = {True: 1, False: 4}
FIRST_PAUSE = 0.5
LONGEST_PAUSE = 8.0
CONCURRENT = 4
# Far above a chunk, and below the 8,192 tokens the providers take, even in scripts of one token a character.
LONGEST_TEXT = 8_000
MAX_ANSWER = 64 << 20
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})

REASONS = {
    400: "it does not take this request",
    401: "it does not take this key",
    402: "the account has no credit left",
    403: "this key may not use it",
    404: "it knows no such model or address",
    413: "the request is too large for it",
    429: "too many requests, or the quota is used up",
}
# Only for these are a server's own words worth showing; the answer to a wrong key may quote the key.
QUOTED = frozenset({400, 404, 422})
PASSING = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})

# What each provider speaks.


@dataclass(frozen=True, slots=True)
class Wire:
    """How one provider is asked, and where its answer holds the vectors."""

    endpoint: str
    model: str
    key_env: str | None
    batch: int
    max_batch: int
    path: Callable[[str], str]
    headers: Callable[[str], dict[str, str]]
    body: Callable[[str, list[str], bool], dict[str, Any]]
    rows: Callable[[Any], list[Any]]


def _bearer(key: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {key}"}


def _openai_rows(answer: Any) -> list[Any]:
    """Put the vectors in the order of their index; the answer need not be."""
    ordered = sorted(answer["data"], key=lambda each: int(each["index"]))
    if [each["index"] for each in ordered] != list(range(len(ordered))):
        raise ValueError("the indexes have gaps")
    return [each["embedding"] for each in ordered]


# Later models take no task and would refuse it, or ignore it.
_GEMINI_WITH_TASK = frozenset({"gemini-embedding-001", "text-embedding-004", "embedding-001"})


def _gemini_body(model: str, texts: list[str], query: bool) -> dict[str, Any]:
    task = {"taskType": "RETRIEVAL_QUERY" if query else "RETRIEVAL_DOCUMENT"}
    common = {"model": f"models/{model}"} | (task if model in _GEMINI_WITH_TASK else {})
    return {"requests": [common | {"content": {"parts": [{"text": text}]}} for text in texts]}


WIRES = {
    "openai": Wire(
        endpoint="https://api.openai.com/v1",
        model="text-embedding-3-small",
        key_env="OPENAI_API_KEY",
        batch=64,
        max_batch=2048,
        path=lambda model: "/embeddings",
        headers=_bearer,
        body=lambda model, texts, query: {"model": model, "input": texts},
        rows=_openai_rows,
    ),
    "gemini": Wire(
        endpoint="https://generativelanguage.googleapis.com/v1beta",
        model="gemini-embedding-001",
        key_env="GEMINI_API_KEY",
        batch=64,
        max_batch=100,
        path=lambda model: f"/models/{quote(model, safe='')}:batchEmbedContents",
        headers=lambda key: {"x-goog-api-key": key},
        body=_gemini_body,
        rows=lambda answer: [each["values"] for each in answer["embeddings"]],
    ),
    "ollama": Wire(
        endpoint="http://127.0.0.1:11434",
        model="embeddinggemma",
        key_env=None,
        batch=32,
        max_batch=512,
        path=lambda model: "/api/embed",
        headers=_bearer,
        body=lambda model, texts, query: {"model": model, "input": texts, "truncate": True},
        rows=lambda answer: list(answer["embeddings"]),
    ),
}


def make_remote(
    provider: str,
    *,
    model: str | None = None,
    endpoint: str | None = None,
    key_env: str | None = None,
    batch: int | None = None,
    timeout: float | None = None,
) -> RemoteEmbedder:
    """Make the embedder of a provider; nothing is sent before the first text."""
    wire = WIRES[provider]
    return RemoteEmbedder(
        provider,
        wire,
        model=(model or wire.model).removeprefix("models/" if provider == "gemini" else ""),
        endpoint=_checked((endpoint or wire.endpoint).rstrip("/")),
        key_env=key_env or wire.key_env,
        batch=max(1, min(batch or wire.batch, wire.max_batch)),
        timeout=timeout or TIMEOUT,
    )


def _checked(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        usable = False
    if not usable or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise EmbedderFailed(
            "embed.endpoint is no address: it must begin with https:// or http:// and a host"
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise EmbedderFailed(
            "embed.endpoint holds more than an address",
            hint="put the key into the environment and name its variable in `embed.key_env`",
        )
    return endpoint


# One embedder for all of them.


class RemoteEmbedder:
    """Vectors from a server, asked in batches, a few at a time, and again when it was busy."""

    cached = True
    mean = None

    def __init__(
        self,
        provider: str,
        wire: Wire,
        *,
        model: str,
        endpoint: str,
        key_env: str | None,
        batch: int,
        timeout: float,
    ) -> None:
        self.provider = provider
        self.model = model
        self.dimension: int | None = None
        self._wire = wire
        self._endpoint = endpoint
        self._key_env = key_env
        self._batch = batch
        self._timeout = timeout
        # Not the address itself: an identity is kept and shown, and an address can be private.
        fingerprint = hashlib.sha256(endpoint.lower().encode()).hexdigest()[:12]
        self.identity = f"{provider}:{model}:{fingerprint}:{REVISION}"

    @property
    def _where(self) -> str:
        return f"{self.provider} at {urlsplit(self._endpoint).netloc}"

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Ask for the vectors of all texts that hold something; blank ones get zeros."""
        parts = list(self.parts(texts, query=query))
        return gather(parts, len(texts), dimension=self.dimension or 0)

    def forget_dimension(self) -> None:
        """Take the next answer for what it is."""
        self.dimension = None

    def parts(
        self, texts: Sequence[str], *, query: bool = False, dimension: int | None = None
    ) -> Iterator[Part]:
        """Ask, and give each answer as it comes; when one is a failure, those under way still count."""
        # Told beforehand, a wrong answer is not taken for the right one, and the right one after it refused.
        self.dimension = self.dimension or dimension
        limit = patience()  # asked for here: the threads below have no context of their own
        wanted = [number for number, text in enumerate(texts) if text.strip()]
        batches = [wanted[start : start + self._batch] for start in range(0, len(wanted), self._batch)]

        def ask(places: list[int]) -> Part:
            # A lone surrogate is no text to a server, and a secret is none of its business.
            clean = [clean_text(texts[place])[:LONGEST_TEXT] for place in places]
            sent = [each.encode("utf-8", "replace").decode() for each in clean]
            return places, unit(self._ask(sent, query, limit))

        # The first goes alone: a refused key or a wrong address then costs one request, not four.
        yield from map(ask, batches[:1])
        if len(batches) > 1:
            yield from _at_once(ask, batches[1:])

    def _ask(self, texts: list[str], query: bool, limit: float) -> Vectors:
        content = json.dumps(self._wire.body(self.model, texts, query)).encode()
        end = min(limit, time.monotonic() + self._timeout * PATIENCE[query])
        pause = FIRST_PAUSE
        while True:
            try:
                return self._vectors(self._post(content, end), len(texts))
            except _Passing as passing:
                # Jitter, so that those who failed together do not come back together.
                wait = max(passing.wait, pause * random.uniform(0.5, 1.0))
                if time.monotonic() + wait >= end:
                    raise passing.failed from passing
                time.sleep(wait)
                pause = min(pause * 2, LONGEST_PAUSE)

    # The answer.

    def _vectors(self, content: bytes, count: int) -> Vectors:
        """Take the vectors out of an answer, and believe nothing about them."""
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError) as error:
            raise self._failed("its answer is not JSON") from error
        try:
            rows = self._wire.rows(answer)
            lengths = {len(row) for row in rows}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise self._failed("its answer holds no vectors") from error
        if len(rows) != count:
            raise self._failed(f"it gave {len(rows)} vectors for {count} texts")
        expected = self.dimension or max(lengths)
        if lengths != {expected} or not expected:
            found = ", ".join(str(length) for length in sorted(lengths - {expected})[:3]) or "0"
            failed = self._failed(f"it gave vectors of {found} dimensions instead of {expected}")
            if len(lengths) == 1 and (other := lengths.pop()):
                raise EmbedderChanged(str(failed), dimension=other)
            raise failed
        vectors = self._numbers(rows)
        self.dimension = expected
        return vectors

    def _numbers(self, rows: list[Any]) -> Vectors:
        try:
            wide: NDArray[np.float64] = np.array(rows, np.float64)
            with np.errstate(over="ignore"):  # what overflows is refused in a moment
                vectors = wide.astype(np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._failed("its vectors are not made of numbers") from error
        if vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise self._failed("its vectors hold something that is no finite number")
        return vectors

    # The request.

    def _post(self, content: bytes, limit: float) -> bytes:
        """Send one request; what may go better in a moment is raised as _Passing."""
        key = self._key()
        request = urllib.request.Request(self._endpoint + self._wire.path(self.model), content, method="POST")
        headers = self._wire.headers(key) if key else {}
        for name, value in (
            headers | {"Content-Type": "application/json", "Accept": "application/json"}
        ).items():
            request.add_header(name, value)
        seconds = max(0.01, min(self._timeout, limit - time.monotonic()))
        end = time.monotonic() + seconds
        try:
            with self._opener().open(request, timeout=seconds) as response:
                return self._read(response, end)
        except urllib.error.HTTPError as error:
            with error:
                raise self._refusal(error, key) from error
        except (OSError, http.client.HTTPException) as error:
            raise self._unreachable(error) from error

    def _opener(self) -> urllib.request.OpenerDirector:
        local = urlsplit(self._endpoint).hostname in LOOPBACK
        # A proxy's loopback is another machine.
        return urllib.request.build_opener(_NoRedirect, urllib.request.ProxyHandler({} if local else None))

    def _key(self) -> str:
        if not self._key_env:
            return ""
        key = os.environ.get(self._key_env, "").strip()
        if not key and self._endpoint == self._wire.endpoint:
            raise EmbedderFailed(
                f"{self.provider} needs a key, and {self._key_env} is not set",
                hint=f"set {self._key_env}, or choose another embedder; keyword search still answers",
            )
        # The library would quote a broken header, and with it the key.
        if not key.isascii() or not key.isprintable():
            raise EmbedderFailed(f"{self.provider}: what {self._key_env} holds cannot be a key")
        return key

    def _read(self, response: Any, end: float) -> bytes:
        """Read the body within the time and size one answer may take."""
        parts, size = [], 0
        while part := response.read1(1 << 16):
            parts.append(part)
            size += len(part)
            if size > MAX_ANSWER:
                raise self._failed("its answer has no end")
            if time.monotonic() > end:
                raise TimeoutError
        promised = response.headers.get("Content-Length", "")
        if promised.isdecimal() and size < int(promised):
            raise http.client.IncompleteRead(b"")
        return b"".join(parts)

    # What went wrong.

    def _failed(self, reason: str, *, hint: str | None = None) -> EmbedderFailed:
        return EmbedderFailed(f"{self._where} failed: {reason}", hint=hint)

    def _refusal(self, error: urllib.error.HTTPError, key: str) -> Exception:
        status = error.code
        if 300 <= status < 400:
            return self._failed(f"{status}, it sends us to another address, where we do not go")
        reason = REASONS.get(status, "it has a fault of its own" if status >= 500 else "it refused")
        said = _said(error, key) if status in QUOTED else ""
        failed = self._failed(f"{status}, {reason}" + (f": {said}" if said else ""))
        return _Passing(failed, _wait_of(error.headers)) if status in PASSING else failed

    def _unreachable(self, error: Exception) -> Exception:
        cause = error.reason if isinstance(error, urllib.error.URLError) else error
        if isinstance(cause, TimeoutError):
            return _Passing(self._failed(f"no answer within {self._timeout:g} s"))
        if isinstance(cause, ssl.SSLCertVerificationError):
            return self._failed("its certificate is not valid")
        if isinstance(cause, http.client.IncompleteRead):
            return _Passing(self._failed("its answer was cut off"))
        # Some errors of these libraries quote what was sent; an operating system's words do not.
        why = cause.strerror if isinstance(cause, OSError) and cause.strerror else type(cause).__name__
        return _Passing(self._failed(f"it cannot be reached: {why}"))


def _at_once(ask: Callable[[list[int]], Part], batches: list[list[int]]) -> Iterator[Part]:
    """Ask a few at a time; after a failure nothing new is begun, and what was answered is given first."""
    pool = ThreadPoolExecutor(min(CONCURRENT, len(batches)), "vade-embed")
    failed: BaseException | None = None
    try:
        asked = [pool.submit(ask, batch) for batch in batches]
        for done in as_completed(asked):
            if done.cancelled():
                continue
            error = done.exception()
            if error is None:
                yield done.result()
            elif failed is None:
                failed = error
                # One by one: those that a pool itself cancels would be waited for without end.
                for each in asked:
                    each.cancel()
    finally:
        pool.shutdown(cancel_futures=True)
    if failed is not None:
        raise failed


class _Passing(Exception):
    """A failure that may pass: how it would be told, and how long the server asks to wait."""

    def __init__(self, failed: EmbedderFailed, wait: float = 0.0) -> None:
        super().__init__(str(failed))
        self.failed = failed
        self.wait = wait


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Go nowhere else: another host would be handed the text and the key."""

    def redirect_request(self, *_: Any, **__: Any) -> None:
        """Leave the redirect as the error it is."""


def _wait_of(headers: Any) -> float:
    """Read Retry-After, in seconds or as a date; nonsense counts as nothing."""
    said = str(headers.get("Retry-After") or "").strip()
    try:
        return max(
            0.0, float(said) if said[:1].isdigit() else parsedate_to_datetime(said).timestamp() - time.time()
        )
    except (ValueError, TypeError, OverflowError):
        return 0.0


def _said(error: urllib.error.HTTPError, key: str) -> str:
    """Quote a server on one short line, unless its words hold a part of the key."""
    try:
        answer = json.loads(error.read(1 << 16))
        said = answer["error"]
        said = str(said["message"] if isinstance(said, dict) else said)
    except (OSError, http.client.HTTPException, ValueError, RecursionError, KeyError, TypeError):
        return ""
    line = " ".join(said.split())[:200]
    parts = {key[start : start + 6] for start in range(max(1, len(key) - 5))} if key else set()
    return "" if not line.isprintable() or any(part in line for part in parts) else line
