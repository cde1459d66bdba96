"""Ask the user before a write: with a form in the client, or later through `vade review approve`.

An approval covers exactly one write. The approved write is identified by its hash, and the approval is used
once.
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

PATIENCE = 600.0  # seconds in which a person may answer
MOST = 1000  # open questions at the same time
_QUESTION = "approve"
_FORM = {
    "type": "object",
    "properties": {"save": {"type": "boolean", "title": "Do this", "default": False}},
    "required": ["save"],
}
NO = Refused("the user declined this", hint="leave it unchanged, and do not ask again with other words")


def fingerprint(write: Write) -> str:
    """Return a hash that identifies exactly this write."""
    write_fields = {"operation": write.operation, "arguments": write.arguments, "scope": write.scope}
    return hashlib.sha256(json.dumps(write_fields, sort_keys=True).encode()).hexdigest()


def question(write: Write) -> str:
    """Return the question whether to allow a write, as text for a person, with hidden characters shown."""
    lines = [f"An agent asks to {write.operation.replace('_', ' ')} ({write.scope} memory):"]
    for name, value in write.arguments.items():
        if value not in (None, [], "") and name not in ("slug", "scope"):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            lines.append(f"{name}: {spelled(text)}")
    return "\n".join(lines)


def form(write: Write) -> dict[str, Any]:
    """Return the question whether to allow a write, as a form that the client shows."""
    return {"mode": "form", "message": question(write), "requestedSchema": _FORM}


def is_yes(answer: Mapping[str, Any] | None) -> bool:
    """Return True if the person's answer is a yes; raise `NO` for every other answer."""
    content = (answer or {}).get("content")
    if answer is None or answer.get("action") != "accept" or not isinstance(content, dict):
        raise NO
    if content.get("save") is not True:
        raise NO
    return True


class Questions:
    """The unanswered questions to clients that bring the answer with a later call."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()

    def ask(self, write: Write) -> dict[str, Any]:
        """Return a result that makes the client ask its user, and repeat the call with the answer."""
        question_ = {"method": "elicitation/create", "params": form(write)}
        return {
            "resultType": "input_required",
            "inputRequests": {_QUESTION: question_},
            "requestState": self._ask(fingerprint(write)),
        }

    def is_agreed(self, state: str, answers: Mapping[str, Any], write: Write) -> bool:
        """Return True if the person agreed to exactly this write.

        Raise for a no, for a late answer, and for an answer to another question.
        """
        self._use_question(state, fingerprint(write))
        return is_yes(answers.get(_QUESTION))

    def _ask(self, what: str) -> str:
        token = secrets.token_urlsafe(24)
        self._open[token] = (what, time.monotonic())
        while len(self._open) > MOST:
            self._open.popitem(last=False)
        return token

    def _use_question(self, token: str, what: str) -> None:
        """Remove a question when its answer comes; raise for a late answer or one to another question."""
        question_hash, at = self._open.pop(token, ("", 0.0))
        if not question_hash or time.monotonic() - at > PATIENCE:
            raise Conflict("this answer matches no open question", hint="repeat the call")
        if question_hash != what:
            raise Conflict("the user was asked about something else", hint="repeat the call unchanged")
