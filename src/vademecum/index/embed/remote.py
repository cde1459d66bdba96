"""Embed by asking a server: OpenAI and servers with its protocol, Gemini, Ollama.

Text leaves the machine only here, and only for a provider that the settings name. `llm.net` sends it,
protects the key and decides about retries.
"""

from __future__ import annotations

import hashlib
import json
import time
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from urllib.parse import quote, urlsplit

from vademecum.errors import EmbedderChanged, EmbedderFailed
from vademecum.index.embed.base import gather, patience, unit
from vademecum.lazy import LazyModule
from vademecum.llm import net
from vademecum.text.outgoing import clean_text

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
# Retries after timeouts: a person waits for a question's answer, nobody for a text.
PATIENCE = {True: 1, False: 4}
CONCURRENT = 4
# Far above a chunk, and below the providers' 8,192 tokens even with one token a character.
LONGEST_TEXT = 8_000

# The protocol of each provider.


@dataclass(frozen=True, slots=True)
class Wire:
    """How requests to one provider are built, and where its answers contain the vectors."""

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
    """Return the vectors of an answer sorted by their index, since the server may send them in any order."""
    ordered = sorted(answer["data"], key=lambda each: int(each["index"]))
    if [each["index"] for each in ordered] != list(range(len(ordered))):
        raise ValueError("the indexes have gaps")
    return [each["embedding"] for each in ordered]


# Later models refuse or ignore a task.
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
    """Make the embedder of a server's provider; no request is sent before the first text."""
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
    problem = net.find_address_problem(endpoint)
    if problem == "is not a URL":
        raise EmbedderFailed(f"embed.endpoint {problem}: it must start with https:// or http:// and a host")
    if problem:
        hint = "put the key in an environment variable and name it in `embed.key_env`"
        raise EmbedderFailed(f"embed.endpoint {problem}", hint=hint)
    return endpoint


# One embedder for all of them.


class RemoteEmbedder:
    """An embedder that asks a server in batches, several at a time, and retries when the server is busy."""

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
        # Not the address itself: an identity is stored and shown, and an address can be private.
        fingerprint = hashlib.sha256(endpoint.lower().encode()).hexdigest()[:12]
        self.identity = f"{provider}:{model}:{fingerprint}:{REVISION}"

    @property
    def _where(self) -> str:
        return f"{self.provider} at {urlsplit(self._endpoint).netloc}"

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Vectors:
        """Return the vectors of all texts; a blank text gets zeros and is not sent."""
        parts = list(self.parts(texts, query=query))
        return gather(parts, len(texts), dimension=self.dimension or 0)

    def forget_dimension(self) -> None:
        """Forget the length of earlier vectors, and accept any length in the next answer."""
        self.dimension = None

    def parts(
        self, texts: Sequence[str], *, query: bool = False, dimension: int | None = None
    ) -> Iterator[Part]:
        """Send the texts in batches, and yield the vectors of each answer as it arrives.

        A vector of another length than `dimension`, if that is given, is a failure. After a failure, the
        answers to requests that were already running are still yielded, before the error is raised.
        """
        # With a known dimension, a wrong answer cannot be accepted and the right one refused after it.
        self.dimension = self.dimension or dimension
        limit = patience()  # read here: the threads below have no context
        wanted = [number for number, text in enumerate(texts) if text.strip()]
        batches = [wanted[start : start + self._batch] for start in range(0, len(wanted), self._batch)]

        def ask(places: list[int]) -> Part:
            # Servers refuse lone surrogates, and must not get secrets.
            clean = [clean_text(texts[place])[:LONGEST_TEXT] for place in places]
            sent = [each.encode("utf-8", "replace").decode() for each in clean]
            return places, unit(self._ask(sent, query, limit))

        # The first request goes alone: a refused key or a wrong address then costs one request, not four.
        yield from map(ask, batches[:1])
        if len(batches) > 1:
            yield from _at_once(ask, batches[1:])

    def _ask(self, texts: list[str], query: bool, limit: float) -> Vectors:
        content = json.dumps(self._wire.body(self.model, texts, query)).encode()
        end = min(limit, time.monotonic() + self._timeout * PATIENCE[query])
        attempt = 0
        while True:
            attempt += 1
            answer = self._post(content, end)
            if isinstance(answer, bytes):
                return self._vectors(answer, len(texts))
            wait = net.next_wait(attempt, answer, end=end)
            if wait is None:
                late = f"no answer within {self._timeout:g} s"
                raise self._failed(late if answer.timeout else answer.reason)
            time.sleep(wait)

    def _post(self, content: bytes, limit: float) -> bytes | net.RequestProblem:
        key = net.read_key(
            (self._key_env,) if self._key_env else (),
            who=self.provider,
            needed=self._endpoint == self._wire.endpoint,
            refused=EmbedderFailed,
            instead="choose another embedder; keyword search still works",
        )
        return net.post_json(
            self._endpoint,
            self._wire.path(self.model),
            content,
            headers=self._wire.headers(key) if key else {},
            key=key,
            seconds=max(0.01, min(self._timeout, limit - time.monotonic())),
        )

    def _failed(self, reason: str) -> EmbedderFailed:
        return EmbedderFailed(f"{self._where} failed: {reason}")

    # The answer.

    def _vectors(self, content: bytes, count: int) -> Vectors:
        """Read the vectors from a server's answer; raise EmbedderFailed unless all `count` are valid."""
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
            with np.errstate(over="ignore"):  # an overflow is refused below
                vectors = wide.astype(np.float32)
        except (TypeError, ValueError, OverflowError) as error:
            raise self._failed("its vectors are not made of numbers") from error
        if vectors.ndim != 2 or not np.isfinite(vectors).all():
            raise self._failed("its vectors contain a value that is not a finite number")
        return vectors


def _at_once(ask: Callable[[list[int]], Part], batches: list[list[int]]) -> Iterator[Part]:
    """Send batches at the same time and yield the answers; a failure ends sending and is raised last."""
    pool = ThreadPoolExecutor(min(CONCURRENT, len(batches)), "vade-embed")
    failed: BaseException | None = None
    try:
        futures = [pool.submit(ask, batch) for batch in batches]
        for done in as_completed(futures):
            if done.cancelled():
                continue
            error = done.exception()
            if error is None:
                yield done.result()
            elif failed is None:
                failed = error
                # One by one: waiting for calls that the pool cancels would never end.
                for each in futures:
                    each.cancel()
    finally:
        pool.shutdown(cancel_futures=True)
    if failed is not None:
        raise failed
