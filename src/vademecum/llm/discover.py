"""Look for a model server on this machine: Ollama or llama.cpp, at their usual ports.

Only when asked, only on loopback, and only for a moment.
"""

from __future__ import annotations

import http.client
import json
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vademecum.llm.base import Json

HOST = "127.0.0.1"
OLLAMA_PORT = 11434
LLAMA_PORT = 8080
SECONDS = 0.5
_LARGEST = 1 << 20
_MODELS = 200
_EMBEDS = ("embed", "bge", "bert", "minilm")  # in the names of models that make vectors and cannot talk


@dataclass(frozen=True, slots=True)
class Found:
    """A server that runs here, what it is called by, and the models it has."""

    provider: str  # `ollama`, or `compatible` for llama.cpp
    endpoint: str
    models: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The models as `model` and `--model` take them."""
        return tuple(f"{self.provider}:{model}" for model in self.models)

    @property
    def default(self) -> str:
        """The first of them that can talk; empty when none can."""
        return next((name for name in self.names if not any(each in name.lower() for each in _EMBEDS)), "")


def discover(
    *, ollama: int = OLLAMA_PORT, llama: int = LLAMA_PORT, seconds: float = SECONDS
) -> tuple[Found, ...]:
    """Ask both ports at once; a server without a model counts as none."""
    with ThreadPoolExecutor(2, "vade-discover") as pool:
        asked = pool.submit(_ollama, ollama, seconds), pool.submit(_llama, llama, seconds)
        found = [each.result() for each in asked]
    return tuple(each for each in found if each is not None and each.models)


def _ollama(port: int, seconds: float) -> Found | None:
    answer = _get(port, "/api/tags", seconds)
    listed = answer.get("models") if isinstance(answer, dict) else None
    return Found("ollama", f"http://{HOST}:{port}/v1", _names(listed, "name"))


def _llama(port: int, seconds: float) -> Found | None:
    answer = _get(port, "/v1/models", seconds)
    listed = answer.get("data") if isinstance(answer, dict) else None
    # Port 8080 is everybody's: only one who says so is llama.cpp.
    if not isinstance(listed, list) or not any(
        isinstance(each, dict) and each.get("owned_by") == "llamacpp" for each in listed
    ):
        return None
    return Found("compatible", f"http://{HOST}:{port}/v1", _names(listed, "id"))


def _names(listed: Json, key: str) -> tuple[str, ...]:
    if not isinstance(listed, list):
        return ()
    names = [each.get(key) for each in listed[:_MODELS] if isinstance(each, dict)]
    return tuple(name for name in names if isinstance(name, str) and name and name.isprintable())


def _get(port: int, path: str, seconds: float) -> Json:
    """One small JSON document, or None for anything else."""
    end = time.monotonic() + seconds
    connection = http.client.HTTPConnection(HOST, port, timeout=seconds)
    try:
        connection.request("GET", path, headers={"Accept": "application/json"})
        response = connection.getresponse()
        content = b""
        while (part := response.read1(1 << 16)) and len(content) < _LARGEST and time.monotonic() < end:
            content += part
        return json.loads(content) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()
