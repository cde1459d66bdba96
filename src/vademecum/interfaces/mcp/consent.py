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

import anyio
from mcp.shared.exceptions import MCPError
from mcp_types import (
    ElicitRequest,
    ElicitRequestFormParams,
    ElicitResult,
    InputRequiredResult,
)
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from vademecum.errors import Conflict, Refused
from vademecum.text import spelled

if TYPE_CHECKING:
    from mcp.server.context import ServerRequestContext
    from mcp_types import CallToolRequestParams

    from vademecum.interfaces.tools.declaration import Write

PATIENCE = 600.0  # seconds that a person has to answer
MOST = 1000  # questions that are open at once
_QUESTION = "approve"
_FORM = {
    "type": "object",
    "properties": {"save": {"type": "boolean", "title": "Do this", "default": False}},
    "required": ["save"],
}
NO = Refused("the person said no to this", hint="leave it as it is, and do not ask again in other words")


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


def can_ask(context: ServerRequestContext[Any, Any]) -> bool:
    """Whether the client shows questions to a person."""
    capabilities = context.session.client_capabilities
    asking = capabilities.elicitation if capabilities else None
    return asking is not None and (asking.form is not None or asking.url is None)


class Questions:
    """The questions that were asked and not answered yet, for clients that come back with the answer."""

    def __init__(self) -> None:
        self._open: OrderedDict[str, tuple[str, float]] = OrderedDict()

    async def agreed(
        self, context: ServerRequestContext[Any, Any], params: CallToolRequestParams, write: Write
    ) -> bool | InputRequiredResult:
        """Whether the person agrees; where the client asks between two calls, what it is to ask.

        Raises `Refused` for a no; False means that nobody answered.
        """
        asked = ElicitRequestFormParams(message=question(write), requested_schema=_FORM)
        if context.protocol_version not in MODERN_PROTOCOL_VERSIONS:
            return await _asked_now(context, asked)
        if params.request_state is None:
            token = self._ask(fingerprint(write))
            return InputRequiredResult(
                input_requests={_QUESTION: ElicitRequest(params=asked)}, request_state=token
            )
        self._answered(params.request_state, fingerprint(write))
        answer = (params.input_responses or {}).get(_QUESTION)
        return _is_yes(answer if isinstance(answer, ElicitResult) else None)

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
            raise Conflict("there is no open question to this answer", hint="make the call again")
        if asked != what:
            raise Conflict(
                "the person was asked about something else than this", hint="make the call again as it was"
            )


async def _asked_now(context: ServerRequestContext[Any, Any], asked: ElicitRequestFormParams) -> bool:
    try:
        with anyio.fail_after(PATIENCE):
            answer = await context.session.elicit_form(
                asked.message, asked.requested_schema, related_request_id=context.request_id
            )
    except (MCPError, TimeoutError):
        return False
    return _is_yes(answer)


def _is_yes(answer: ElicitResult | None) -> bool:
    if answer is None or answer.action != "accept" or (answer.content or {}).get("save") is not True:
        raise NO
    return True
