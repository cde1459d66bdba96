"""The same model to a test, whether it speaks over a socket or from a script."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from llm.wire_server import Refuse, Say, Use
from vademecum.errors import ModelBusy, ModelFailed, ModelOverflow, ModelUnauthorised
from vademecum.llm.base import Budget, Call
from vademecum.llm.providers import find_model
from vademecum.llm.remote_model import RemoteModel
from vademecum.llm.scripted import Scripted

if TYPE_CHECKING:
    from llm.wire_server import Reply, WireServer
    from vademecum.llm.base import Model

PROVIDERS = ("openai", "anthropic", "google", "ollama", "compatible")
DIALECTS = ("openai", "anthropic", "google")  # what the others speak is one of these
KEY_ENV = "PARROT_KEY"
_ERRORS = {"key": ModelUnauthorised, "busy": ModelBusy, "overflow": ModelOverflow, "bad": ModelFailed}


@dataclass
class Bench:
    """Makes a model that gives the replies of a test, and shows what it was asked."""

    kind: str  # a provider, or `scripted`
    server: WireServer
    budget: Budget = field(default_factory=Budget)
    seconds: float = 20.0
    scripted: Scripted | None = None

    def model(self, *replies: Reply) -> Model:
        if self.kind == "scripted":
            self.scripted = Scripted(*(_scripted(each) for each in replies), budget=self.budget)
            return self.scripted
        self.server.script(*replies)
        return remote(self.server, self.kind, budget=self.budget, seconds=self.seconds)

    @property
    def asked(self) -> list[str]:
        """Each question as text."""
        if self.scripted is not None:
            return [
                json.dumps([each.prompt, each.system, each.tools], ensure_ascii=False)
                for each in self.scripted.asked
            ]
        return [each.text for each in self.server.seen]


def remote(
    server: WireServer, provider: str, *, budget: Budget | None = None, seconds: float = 20.0
) -> RemoteModel:
    """A model of this provider, at the server."""
    place = find_model(f"{provider}:parrot-1", endpoint=server.endpoint(provider), key_env=KEY_ENV)
    return RemoteModel(place, seconds=seconds, budget=Budget() if budget is None else budget)


def _scripted(reply: Reply) -> Any:
    match reply:
        case Say(text):
            return text
        case Use(name, arguments):
            given = arguments if isinstance(arguments, str) else json.dumps(arguments)
            return Call("call_1", name, given)
        case Refuse(kind):
            return _ERRORS[kind](kind)
    raise NotImplementedError(reply)
