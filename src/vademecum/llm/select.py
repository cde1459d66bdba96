"""Find the model that the settings or a flag name, or one that runs on this machine; none is a normal state.

Nothing is imported and nothing is sent before the first question. A server here is looked for only when
asked, only on loopback, and only for a moment.
"""

from __future__ import annotations

import http.client
import json
import re
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from vademecum.errors import ConfigError, UnknownName
from vademecum.llm import net
from vademecum.llm.base import PROCESS, SECONDS

if TYPE_CHECKING:
    from vademecum.llm.base import Budget, Json, Model


NONE = "none"


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """Where a provider is, where its key comes from, and which extra brings its library."""

    endpoint: str  # empty where only the person knows it
    key_env: tuple[str, ...]  # the first that is set is the key
    extra: str


PROVIDERS = {
    "openai": ModelProvider("https://api.openai.com/v1", ("OPENAI_API_KEY",), "openai"),
    "anthropic": ModelProvider("https://api.anthropic.com", ("ANTHROPIC_API_KEY",), "anthropic"),
    "google": ModelProvider(
        "https://generativelanguage.googleapis.com", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "google"
    ),
    "ollama": ModelProvider("http://127.0.0.1:11434/v1", (), "ollama"),
    "compatible": ModelProvider("", (), "openai"),
}
ALSO = {"gemini": "google", "openai-compatible": "compatible"}
_HINT = (
    "name it as provider:model, such as openai:gpt-5-mini or ollama:qwen3; the providers are "
    + ", ".join(PROVIDERS)
    + ", and `none` for no model"
)


class GivenModel(Protocol):
    """What the section `llm` of the settings says."""

    @property
    def endpoint(self) -> str | None:
        """The address, instead of the provider's own."""

    @property
    def key_env(self) -> str | None:
        """The variable that holds the key, instead of the provider's usual one."""

    @property
    def timeout(self) -> float:
        """Seconds that one question may take in all."""

    @property
    def budget(self) -> int:
        """Tokens this process may use in all; 0 is no limit."""


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """One model at one address; the key itself is read from the environment for each question."""

    provider: str
    model: str
    endpoint: str
    key_env: tuple[str, ...]
    own: bool  # the provider's own address, where its prices hold and a key is needed

    @property
    def name(self) -> str:
        """How it is chosen."""
        return f"{self.provider}:{self.model}"

    @property
    def where(self) -> str:
        """How it is spoken of."""
        return f"{self.name} at {urlsplit(self.endpoint).netloc}"

    @property
    def local(self) -> bool:
        """Whether it is on this machine."""
        return net.is_local(self.endpoint)


def resolve(
    name: str | None,
    given: GivenModel | None = None,
    *,
    flag: str | None = None,
    budget: Budget | None = None,
) -> Model | None:
    """Make the model that a flag names, else the settings; None when neither does, or they say `none`."""
    wanted = (flag or name or NONE).strip()
    if wanted.lower() == NONE:
        return None
    place = find_model(
        wanted,
        endpoint=given.endpoint if given else None,
        key_env=given.key_env if given else None,
    )
    if budget is None:
        budget = PROCESS
        if given is not None:
            budget.tokens = given.budget or None
    from vademecum.llm.remote import RemoteModel

    return RemoteModel(place, seconds=given.timeout if given else SECONDS, budget=budget)


def find_model(name: str, *, endpoint: str | None = None, key_env: str | None = None) -> ModelEndpoint:
    """Read `provider:model`; what the model is called after the first colon is the provider's affair."""
    provider, colon, model = (part.strip() for part in name.partition(":"))
    provider = ALSO.get(provider.lower(), provider.lower())
    if provider not in PROVIDERS or not colon or not model:
        raise UnknownName(f"{name!r} names no model", hint=_HINT)
    known = PROVIDERS[provider]
    address = (endpoint or known.endpoint).rstrip("/")
    if not address:
        raise ConfigError(
            f"{name!r} needs an address, and llm.endpoint is not set",
            hint="set `llm.endpoint` to the server's address, such as http://127.0.0.1:8080/v1",
        )
    return ModelEndpoint(
        provider,
        model,
        _checked(address),
        (key_env,) if key_env else known.key_env,
        own=address == known.endpoint,
    )


def _checked(endpoint: str) -> str:
    problem = net.find_address_problem(endpoint)
    if problem:
        hints = {
            "is not a URL": "it must start with https:// or http:// and a host",
            "contains more than a URL": "put the key in an environment variable and name it in `llm.key_env`",
        }
        raise ConfigError(f"llm.endpoint {problem}", hint=hints[problem])
    return endpoint


# ------------------------------------------------------------ a server on this machine

HOST = "127.0.0.1"
OLLAMA_PORT = 11434
LLAMA_PORT = 8080
DISCOVER_SECONDS = 0.5
_LARGEST = 1 << 20
_MODELS = 200
_EMBEDS = ("embed", "bge", "bert", "minilm")  # in the names of models that make vectors and cannot talk


@dataclass(frozen=True, slots=True)
class FoundServer:
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


def discover_servers(
    *, ollama: int = OLLAMA_PORT, llama: int = LLAMA_PORT, seconds: float = DISCOVER_SECONDS
) -> tuple[FoundServer, ...]:
    """Ask both ports at once; a server without a model counts as none."""
    with ThreadPoolExecutor(2, "vade-discover") as pool:
        asked = pool.submit(_ollama, ollama, seconds), pool.submit(_llama, llama, seconds)
        found = [each.result() for each in asked]
    return tuple(each for each in found if each is not None and each.models)


def _ollama(port: int, seconds: float) -> FoundServer | None:
    answer = _get(port, "/api/tags", seconds)
    listed = answer.get("models") if isinstance(answer, dict) else None
    return FoundServer("ollama", f"http://{HOST}:{port}/v1", _names(listed, "name"))


def _llama(port: int, seconds: float) -> FoundServer | None:
    answer = _get(port, "/v1/models", seconds)
    listed = answer.get("data") if isinstance(answer, dict) else None
    # Port 8080 is everybody's: only one who says so is llama.cpp.
    if not isinstance(listed, list) or not any(
        isinstance(each, dict) and each.get("owned_by") == "llamacpp" for each in listed
    ):
        return None
    return FoundServer("compatible", f"http://{HOST}:{port}/v1", _names(listed, "id"))


def _names(listed: Json, key: str) -> tuple[str, ...]:
    if not isinstance(listed, list):
        return ()
    names = [each.get(key) for each in listed[:_MODELS] if isinstance(each, dict)]
    return tuple(name for name in names if isinstance(name, str) and name and name.isprintable())


def find_window(place: ModelEndpoint, *, seconds: float = DISCOVER_SECONDS) -> int | None:
    """How many tokens a server on this machine gives a model; None for one that does not say."""
    at = urlsplit(place.endpoint)
    if not place.local or at.scheme != "http" or place.provider not in ("ollama", "compatible"):
        return None
    host, port = at.hostname or HOST, at.port or 80
    found: Json
    if place.provider == "compatible":
        said = _get(port, "/props", seconds, host=host)
        settings = said.get("default_generation_settings") if isinstance(said, dict) else None
        found = settings.get("n_ctx") if isinstance(settings, dict) else None
    else:
        body = json.dumps({"model": place.model}).encode()
        said = _get(port, "/api/show", seconds, host=host, body=body)
        found = _ollama_window(said) if isinstance(said, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def _ollama_window(said: dict[str, Json]) -> Json:
    """What the model is loaded with if its file says so; what it was made for says nothing about that."""
    match = re.search(r"^num_ctx\s+(\d{1,9})\s*$", str(said.get("parameters", ""))[:_LARGEST], re.MULTILINE)
    return int(match[1]) if match else None


def _get(port: int, path: str, seconds: float, *, host: str = HOST, body: bytes | None = None) -> Json:
    """One small JSON document, or None for anything else."""
    end = time.monotonic() + seconds
    connection = http.client.HTTPConnection(host, port, timeout=seconds)
    try:
        connection.request("POST" if body else "GET", path, body, headers={"Accept": "application/json"})
        response = connection.getresponse()
        content = b""
        while (part := response.read1(1 << 16)) and len(content) < _LARGEST and time.monotonic() < end:
            content += part
        return json.loads(content) if response.status == 200 else None
    except (OSError, http.client.HTTPException, ValueError, RecursionError):
        return None
    finally:
        connection.close()
