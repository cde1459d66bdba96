"""Find the model that the settings or a flag name, or a model on this machine; it is normal to have none.

Nothing is imported and nothing is sent before the first question. Local servers are looked for only on
request, only on loopback, and with a short timeout.
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

from vademecum.errors import ConfigError, ModelFailed, UnknownName
from vademecum.llm import net
from vademecum.llm.base import PROCESS, SECONDS

if TYPE_CHECKING:
    from vademecum.llm.base import Budget, Json, Model


NONE = "none"


@dataclass(frozen=True, slots=True)
class ModelProvider:
    """A provider's address, the environment variables that may hold its key, and the extra with
    its library.
    """

    endpoint: str  # empty if only the person knows it
    key_env: tuple[str, ...]  # the first variable that is set holds the key
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


class LlmSettings(Protocol):
    """The settings in the section `llm`."""

    @property
    def endpoint(self) -> str | None:
        """The address that replaces the provider's own."""

    @property
    def key_env(self) -> str | None:
        """The variable with the key, if not the provider's usual one."""

    @property
    def timeout(self) -> float:
        """Seconds that one question may take in total."""

    @property
    def budget(self) -> int:
        """Tokens that this process may use in total; 0 means no limit."""


@dataclass(frozen=True, slots=True)
class ModelEndpoint:
    """A model at an address; its key is read from the environment for each question."""

    provider: str
    model: str
    endpoint: str
    key_env: tuple[str, ...]
    own: bool  # the provider's own address, where its prices apply and a key is needed

    @property
    def name(self) -> str:
        """The name by which settings and flags choose the model: `provider:model`."""
        return f"{self.provider}:{self.model}"

    @property
    def where(self) -> str:
        """The name of the model for messages, with the host of its address."""
        return f"{self.name} at {urlsplit(self.endpoint).netloc}"

    @property
    def local(self) -> bool:
        """Whether the model's address is on this machine."""
        return net.is_local(self.endpoint)


def resolve(
    name: str | None,
    given: LlmSettings | None = None,
    *,
    flag: str | None = None,
    budget: Budget | None = None,
) -> Model | None:
    """Return the model that `flag` names, else the one that `name` does; None without a name, or for `none`.

    `given` are the settings. Without a `budget`, the call counts against the process's budget, whose limit is
    set from the settings.
    """
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
    from vademecum.llm.remote_model import RemoteModel

    return RemoteModel(place, seconds=given.timeout if given else SECONDS, budget=budget)


def require_model(model: str | Model | None, name: str | None, given: LlmSettings | None) -> Model:
    """Return the model that a call passes or names, else the settings' model; raises ModelFailed without one.

    Secrets are redacted from the prompts that are sent to it.
    """
    from vademecum.llm.redacting import without_secrets

    if model is not None and not isinstance(model, str):
        return without_secrets(model)
    found = resolve(name, given, flag=model)
    if found is None:
        raise ModelFailed(
            "no language model is configured, so nothing was changed",
            hint="name one with `--model provider:name`, VADE_MODEL, or `model` in config.toml",
        )
    return without_secrets(found)


def find_model(name: str, *, endpoint: str | None = None, key_env: str | None = None) -> ModelEndpoint:
    """Return the model that `provider:model` names; the model's own name may contain further colons.

    `endpoint` and `key_env` replace the provider's address and the variables with its key.
    """
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
        _check_endpoint(address),
        (key_env,) if key_env else known.key_env,
        own=address == known.endpoint,
    )


def _check_endpoint(endpoint: str) -> str:
    problem = net.find_address_problem(endpoint)
    if problem:
        hints = {
            "is not a URL": "it must start with https:// or http:// and a host",
            "contains more than a URL": "put the key in an environment variable and name it in `llm.key_env`",
        }
        raise ConfigError(f"llm.endpoint {problem}", hint=hints[problem])
    return endpoint


# ------------------------------------------------------------ local servers

HOST = "127.0.0.1"
OLLAMA_PORT = 11434
LLAMA_PORT = 8080
DISCOVER_SECONDS = 0.5
_LARGEST = 1 << 20
_MODELS = 200
_EMBEDS = ("embed", "bge", "bert", "minilm")  # parts of the names of embedding models, which cannot chat


@dataclass(frozen=True, slots=True)
class LocalServer:
    """A model server on this machine: its provider name and its models."""

    provider: str  # `ollama`, or `compatible` for llama.cpp
    endpoint: str
    models: tuple[str, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The models' names for `model` and `--model`."""
        return tuple(f"{self.provider}:{model}" for model in self.models)

    @property
    def default(self) -> str:
        """The first model that can chat; empty if there is none."""
        return next((name for name in self.names if not any(each in name.lower() for each in _EMBEDS)), "")


def discover_servers(
    *, ollama: int = OLLAMA_PORT, llama: int = LLAMA_PORT, seconds: float = DISCOVER_SECONDS
) -> tuple[LocalServer, ...]:
    """Return the model servers on this machine, found at two known ports; servers without a model are left
    out.
    """
    with ThreadPoolExecutor(2, "vade-discover") as pool:
        futures = pool.submit(_ollama, ollama, seconds), pool.submit(_llama, llama, seconds)
        found = [each.result() for each in futures]
    return tuple(each for each in found if each is not None and each.models)


def _ollama(port: int, seconds: float) -> LocalServer | None:
    answer = _get(port, "/api/tags", seconds)
    models = answer.get("models") if isinstance(answer, dict) else None
    return LocalServer("ollama", f"http://{HOST}:{port}/v1", _names(models, "name"))


def _llama(port: int, seconds: float) -> LocalServer | None:
    answer = _get(port, "/v1/models", seconds)
    models = answer.get("data") if isinstance(answer, dict) else None
    # Many programs use port 8080, so the server must identify itself as llama.cpp.
    if not isinstance(models, list) or not any(
        isinstance(each, dict) and each.get("owned_by") == "llamacpp" for each in models
    ):
        return None
    return LocalServer("compatible", f"http://{HOST}:{port}/v1", _names(models, "id"))


def _names(models: Json, key: str) -> tuple[str, ...]:
    if not isinstance(models, list):
        return ()
    names = [each.get(key) for each in models[:_MODELS] if isinstance(each, dict)]
    return tuple(name for name in names if isinstance(name, str) and name and name.isprintable())


def find_window(place: ModelEndpoint, *, seconds: float = DISCOVER_SECONDS) -> int | None:
    """Return the context window, in tokens, of a model on this machine; None if its server does not say."""
    at = urlsplit(place.endpoint)
    if not place.local or at.scheme != "http" or place.provider not in ("ollama", "compatible"):
        return None
    host, port = at.hostname or HOST, at.port or 80
    found: Json
    if place.provider == "compatible":
        answer = _get(port, "/props", seconds, host=host)
        settings = answer.get("default_generation_settings") if isinstance(answer, dict) else None
        found = settings.get("n_ctx") if isinstance(settings, dict) else None
    else:
        body = json.dumps({"model": place.model}).encode()
        answer = _get(port, "/api/show", seconds, host=host, body=body)
        found = _ollama_window(answer) if isinstance(answer, dict) else None
    return found if isinstance(found, int) and not isinstance(found, bool) and found > 0 else None


def _ollama_window(answer: dict[str, Json]) -> Json:
    """Return the context window that is set for a model in Ollama, not the larger one it was trained with."""
    match = re.search(r"^num_ctx\s+(\d{1,9})\s*$", str(answer.get("parameters", ""))[:_LARGEST], re.MULTILINE)
    return int(match[1]) if match else None


def _get(port: int, path: str, seconds: float, *, host: str = HOST, body: bytes | None = None) -> Json:
    """Return one small JSON document from a local server; None when there is no valid answer."""
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
