"""Find the model that the settings or a flag name; none is a normal state.

Nothing is imported and nothing is sent before the first question.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol
from urllib.parse import urlsplit

from vademecum.errors import ConfigError, UnknownName
from vademecum.llm.base import SECONDS
from vademecum.llm.budget import PROCESS

if TYPE_CHECKING:
    from vademecum.llm.base import Model
    from vademecum.llm.budget import Budget

NONE = "none"
LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})


@dataclass(frozen=True, slots=True)
class Provider:
    """Where a provider is, where its key comes from, and which extra brings its library."""

    endpoint: str  # empty where only the person knows it
    key_env: tuple[str, ...]  # the first that is set is the key
    extra: str


PROVIDERS = {
    "openai": Provider("https://api.openai.com/v1", ("OPENAI_API_KEY",), "openai"),
    "anthropic": Provider("https://api.anthropic.com", ("ANTHROPIC_API_KEY",), "anthropic"),
    "google": Provider(
        "https://generativelanguage.googleapis.com", ("GEMINI_API_KEY", "GOOGLE_API_KEY"), "google"
    ),
    "ollama": Provider("http://127.0.0.1:11434/v1", (), "ollama"),
    "compatible": Provider("", (), "openai"),
}
ALSO = {"gemini": "google", "openai-compatible": "compatible"}
_HINT = (
    "name it as provider:model, such as openai:gpt-5-mini or ollama:qwen3; the providers are "
    + ", ".join(PROVIDERS)
    + ", and `none` for no model"
)


class Given(Protocol):
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
class Place:
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
        return urlsplit(self.endpoint).hostname in LOOPBACK


def resolve(
    name: str | None, given: Given | None = None, *, flag: str | None = None, budget: Budget | None = None
) -> Model | None:
    """Make the model that a flag names, else the settings; None when neither does, or they say `none`."""
    wanted = (flag or name or NONE).strip()
    if wanted.lower() == NONE:
        return None
    place = find(
        wanted,
        endpoint=given.endpoint if given else None,
        key_env=given.key_env if given else None,
    )
    if budget is None:
        budget = PROCESS
        if given is not None:
            budget.tokens = given.budget or None
    from vademecum.llm.remote import Remote

    return Remote(place, seconds=given.timeout if given else SECONDS, budget=budget)


def find(name: str, *, endpoint: str | None = None, key_env: str | None = None) -> Place:
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
    return Place(
        provider,
        model,
        _checked(address),
        (key_env,) if key_env else known.key_env,
        own=address == known.endpoint,
    )


def _checked(endpoint: str) -> str:
    try:
        parts = urlsplit(endpoint)
        usable = parts.scheme in {"http", "https"} and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:  # a port that is no number
        usable = False
    if not usable or not endpoint.isascii() or not endpoint.isprintable() or " " in endpoint:
        raise ConfigError(
            "llm.endpoint is no address",
            hint="it must begin with https:// or http:// and a host",
        )
    if "@" in parts.netloc or parts.query or parts.fragment:
        raise ConfigError(
            "llm.endpoint holds more than an address",
            hint="put the key into the environment and name its variable in `llm.key_env`",
        )
    return endpoint
