"""Asking before a write: by a question that the client shows, or in a queue that `vade approve` shows.

An approval is for one write as it was asked: what was agreed to is known by its hash, and is used once.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import time
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from vademecum.errors import Conflict, Refused
from vademecum.text import spelled

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vademecum.interfaces.tools.declaration import Write

PATIENCE = 600.0  # seconds that a person has to answer
MOST = 1000  # questions that are open at once
_QUESTION = "approve"
_FORM = {
    "type": "object",
    "properties": {"save": {"type": "boolean", "title": "Do this", "default": False}},
    "required": ["save"],
}
NO = Refused("the user declined this", hint="leave it unchanged, and do not ask again with other words")


def fingerprint(write: Write) -> str:
    """What exactly is asked for, as a hash."""
    asked = {"operation": write.operation, "arguments": write.arguments, "scope": write.scope}
    return hashlib.sha256(json.dumps(asked, sort_keys=True).encode()).hexdigest()


def question(write: Write) -> str:
    """What a person is asked, with nothing hidden in it."""
    lines = [f"An agent asks to {write.operation.replace('_', ' ')} ({write.scope} memory):"]
    for name, value in write.arguments.items():
        if value not in (None, [], "") and name not in ("slug", "scope"):
            shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{name}: {spelled(shown)}")
    return "\n".join(lines)


def form(write: Write) -> dict[str, Any]:
    """The question as a client is asked to show it."""
    return {"mode": "form", "message": question(write), "requestedSchema": _FORM}


def is_yes(answer: Mapping[str, Any] | None) -> bool:
    """Whether a person agreed; anything but a yes is a no, and is raised as that."""
    content = (answer or {}).get("content")
    if answer is None or answer.get("action") != "accept" or not isinstance(content, dict):
        raise NO
    if content.get("save") is not True:
        raise NO
    return True


class Questions:
    """The questions that were asked and not answered yet, for clients that come back with the answer."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def asked(self, write: Write) -> dict[str, Any]:
        """What a client is to ask between two calls."""
        question_ = {"method": "elicitation/create", "params": form(write)}
        return {
            "resultType": "input_required",
            "inputRequests": {_QUESTION: question_},
            "requestState": self._ask(fingerprint(write)),
        }

    def agreed(self, state: str, answers: Mapping[str, Any], write: Write) -> bool:
        """Whether the person agreed to exactly this; raises for a no, and for an answer to something else."""
        self._answered(state, fingerprint(write))
        return is_yes(answers.get(_QUESTION))

    def _ask(self, what: str) -> str:
        token = secrets.token_urlsafe(24)
        self._open[token] = (what, time.monotonic())
        while len(self._open) > MOST:
            self._open.popitem(last=False)
        return token

    def _answered(self, token: str, what: str) -> None:
        """Use a question up; an answer to another question, or to none, is no answer."""
        asked, at = self._open.pop(token, ("", 0.0))
        if not asked or time.monotonic() - at > PATIENCE:
            raise Conflict("this answer matches no open question", hint="repeat the call")
        if asked != what:
            raise Conflict("the user was asked about something else", hint="repeat the call unchanged")
