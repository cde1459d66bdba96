"""The MCP server: its tools, its calls, and the one place where errors become messages for a model."""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any

from vademecum import errors
from vademecum.config import Consent
from vademecum.errors import PendingReview, Refused, VadeError
from vademecum.interfaces.mcp import consent, resources
from vademecum.interfaces.mcp.protocol import INTERNAL_ERROR, INVALID_PARAMS, RpcError
from vademecum.interfaces.present.safe import safe_answer, safe_text
from vademecum.interfaces.tools.declaration import Read, render_instructions
from vademecum.interfaces.tools.sets import TOOL_SETS, every_tool
from vademecum.memory import connect
from vademecum.memory.opening import client_label, find_conversation
from vademecum.store import request_view
from vademecum.types import Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from vademecum.interfaces.mcp.protocol import Peer
    from vademecum.interfaces.tools.declaration import Tool, Write
    from vademecum.memory import Memory

    # A call that may ask its client: it sends a question, gets the answer or None, ends with a result.
    Call = Generator[dict[str, Any], dict[str, Any] | None, dict[str, Any]]

INTERFACE = "mcp"
logger = logging.getLogger(__name__)

# Hints for an agent; a hint that an error carries itself is kept.
_TRY: Mapping[type[VadeError], str] = {
    errors.UsageError: "check the arguments in the tool's description",
    errors.InvalidText: "pass a text that is neither empty nor very long",
    errors.InvalidKey: "use 1 to 60 of a-z, 0-9 and `-`, not first, or leave `key` out",
    errors.UnknownName: "check the names in the tool's description",
    errors.ScopeUnresolved: "choose another scope: this connection has none of that kind",
    errors.NotFound: "search memory to see what exists",
    errors.Ambiguous: "choose one with `scope`, or by its number",
    errors.SecretFound: "leave out the secret, and save where to find it instead",
    errors.NotVisible: "continue without it: this connection cannot see it",
    errors.IncognitoWrite: "do not store anything in this session",
    errors.OutsideMemory: "use a path from search results",
    errors.Locked: "try again in a moment",
    errors.StorageFailed: "tell the user that writing failed; `vade doctor` shows details",
}
IDLE = 5.0  # seconds without a call, after which the reading model reads waiting passages
MOST = 64  # connections whose memory stays open; the least recently used one is closed first

# ---------------------------------------------------------------- connections
# The core is synchronous: one call at a time, in its own thread. A call that has begun is never abandoned:
# when the client goes away, the thread finishes the call, and waiting calls are never begun.


class Connection:
    """The connection of one client, with the memory that is opened for it."""

    def __init__(
        self, options: Mapping[str, Any], opened: Callable[[Memory], None], *, own: bool = False
    ) -> None:
        self._options, self._on_open = dict(options), opened
        self._installed, self._own = str(options.get("client") or ""), own
        self.turn: Any = None  # the transport's limiter that makes calls wait
        self._memory: Memory | None = None
        self._opened_for: tuple[str | None, str] = (None, "")
        self.running_calls = 0
        self._last = time.monotonic()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """Count a call as running, for as long as the context lasts."""
        self.running_calls += 1
        try:
            yield
        finally:
            self.running_calls -= 1
            self._last = time.monotonic()

    @property
    def idle(self) -> bool:
        """Whether the connection has no running call, and has had none for a while."""
        return not self.running_calls and time.monotonic() - self._last > IDLE

    def introduce(self, client: Mapping[str, Any] | None) -> None:
        """Keep the client's name, if the client gives one, for the memory that is opened next."""
        if client is not None:
            label = client_label(self._installed, str(client["name"]), str(client["version"]))
            self._options["client"] = label or None

    def memory(self) -> Memory:
        """Return the connection's memory; open it again if the client or the session has changed."""
        told = (self._options.get("client"), self._conversation())
        if self._memory is not None and self._opened_for != told:
            self._memory.close()
            self._memory = None
        if self._memory is None:
            self._opened_for = told
            self._memory = open_memory({**self._options, "conversation": told[1]})
            self._on_open(self._memory)
        return self._memory

    def _conversation(self) -> str:
        """Return the session that a hook has recorded for this agent.

        Return an empty text if this process serves several agents or nothing was recorded.
        """
        return find_conversation(self._options.get("home"), self._installed) if self._own else ""

    def close(self) -> None:
        """Close the connection's memory; the next call opens its index again."""
        if self._memory is not None:
            self._memory.close()


class Connections:
    """The connections that are open, each with its own memory."""

    def __init__(self, options: Mapping[str, Any], *, own_session: bool) -> None:
        self._options = dict(options)
        self._open: OrderedDict[str, Connection] = OrderedDict()
        self._reads = False
        # Over stdio the process is the connection, and it is one session unless a session is named.
        self._own_session = own_session and not self._options.get("session")
        if self._own_session:
            self._options |= {"session": session_of(uuid.uuid4().hex), "connection": True}

    def of(self, id: str = "") -> Connection:
        """Return the connection with this id of the transport; create it at its first use."""
        if id not in self._open:
            options = dict(self._options)
            if id and not options.get("session"):
                options |= {"session": session_of(id), "connection": True}
            self._open[id] = Connection(options, self._start_reading, own=self._own_session)
            self._close_some()
        self._open.move_to_end(id)
        return self._open[id]

    def _idle(self) -> bool:
        return all(each.idle for each in [*self._open.values()])

    def _start_reading(self, memory: Memory) -> None:
        """Let the reading model work in idle times; the first memory is marked as having unread passages."""
        memory.reading.follow(self._idle)
        if not self._reads:
            self._reads = True
            memory.workspace.note_unread()

    def close(self) -> None:
        """Close the memory of all connections."""
        for each in self._open.values():
            each.close()

    def _close_some(self) -> None:
        idle = [name for name, each in self._open.items() if not each.running_calls]
        for name in idle[: max(0, len(self._open) - MOST)]:
            self._open.pop(name).close()


def session_of(connection: str) -> str:
    """Return the name of the session that belongs to a connection's id."""
    return f"mcp-{connection.replace('-', '')[:16]}"


def open_memory(options: Mapping[str, Any]) -> Memory:
    """Open memory for an agent; everything written through it gets the agent's origin."""
    return connect(**options, origin=Origin.AGENT)


# ---------------------------------------------------------------- requests


class MemoryServer:
    """The server's answers to requests; each request is one call on the sender's memory."""

    def __init__(self, family: str) -> None:
        self.tools: Mapping[str, Tool] = {each.name: each for each in TOOL_SETS[family]}
        self._questions = consent.Questions()

    def call_tool(self, params: Mapping[str, Any], peer: Peer, connection: Connection) -> Call:
        """Run a tool; an unknown tool raises RpcError, any other error becomes a message for the model."""
        tool = self.tools.get(params["name"])
        if tool is None:
            known = ", ".join(self.tools)
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {params['name']} (there are: {known})")
        try:
            planned = tool.planned(params.get("arguments"))
            if isinstance(planned, Read):
                with request_view():
                    return tool_answer(planned.do(connection.memory()))
            made = yield from self._write(planned, params, peer, connection)
            return dict(made) if "resultType" in made else tool_answer(made)
        except VadeError as error:
            return tool_error(error)
        except Exception as error:
            logger.exception("the tool %s failed", tool.name)
            return tool_error(VadeError(f"internal error ({type(error).__name__})"))

    def _write(
        self, write: Write, params: Mapping[str, Any], peer: Peer, connection: Connection
    ) -> Generator[dict[str, Any], dict[str, Any] | None, Mapping[str, Any]]:
        """Perform a write, or ask the user first, queue it, or refuse it, as the settings say."""
        earlier, policy = _policy_for(connection.memory(), write)
        if earlier is not None:
            return earlier
        if policy is Consent.DENY:
            raise Refused(
                f"writing to {write.scope} memory through MCP is disabled",
                hint="tell the user; `approval` in config.toml controls it",
            )
        agreed = policy is not Consent.ASK
        if not agreed and peer.can_ask:
            if not peer.stateless:
                answer = yield consent.form(write)
                agreed = answer is not None and consent.is_yes(answer)
            elif (state := params.get("requestState")) is not None:
                agreed = self._questions.is_agreed(state, params.get("inputResponses") or {}, write)
            else:
                return self._questions.ask(write)
        return _perform(connection.memory(), write, wait=not agreed)

    def read(self, method: str, params: Mapping[str, Any], connection: Connection) -> dict[str, Any]:
        """Return the list of resources, one resource, or a prompt, depending on the method."""
        try:
            memory = connection.memory()
            if method == "resources/list":
                return {"resources": resources.list_resources(memory)}
            if method == "resources/read":
                return {"contents": [resources.read_resource(memory, params["uri"])]}
            given = params.get("arguments") or {}
            return resources.get_prompt(memory, params["name"], given, tools=[*self.tools])
        except VadeError as error:
            code = INTERNAL_ERROR if method == "resources/list" else INVALID_PARAMS
            named = {"uri": params["uri"]} if method == "resources/read" else None
            raise RpcError(code, describe_error(error), named) from error


def step(call: Call, sent: dict[str, Any] | None) -> tuple[bool, dict[str, Any]]:
    """Run a call up to its end or its next question to the user.

    Return whether the call is done, and its result or the question.
    """
    try:
        return False, call.send(sent)
    except StopIteration as done:
        return True, done.value


def offer() -> dict[str, Any]:
    """Return the parts of answers that need no memory; the stdio server reads them from a file."""
    every = every_tool()
    return {
        "instructions": {
            name: render_instructions([each.name for each in tools]) for name, tools in TOOL_SETS.items()
        },
        "prompts": {
            name: resources.offered_prompts([each.name for each in tools])
            for name, tools in TOOL_SETS.items()
        },
        "templates": [resources.TEMPLATE],
        "families": {name: [each.text for each in tools] for name, tools in TOOL_SETS.items()},
        "tools": {each.text: each.offered for each in every},
        "joined": {each.text: each.where_joined for each in every if each.where_joined},
    }


def tool_answer(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return the result of a tool's successful call, with the answer as data and as text."""
    safe = safe_answer(value)
    content = [{"type": "text", "text": json.dumps(safe, ensure_ascii=False, separators=(",", ":"))}]
    return {"content": content, "structuredContent": safe, "isError": False}


def tool_error(error: VadeError) -> dict[str, Any]:
    """Return the result of a tool's failed call, with the error and a remedy as text."""
    return {"content": [{"type": "text", "text": describe_error(error)}], "isError": True}


def describe_error(error: VadeError) -> str:
    """Return an error as text for an agent, with a remedy that an agent can try."""
    usual = next((hint for kind, hint in reversed([*_TRY.items()]) if isinstance(error, kind)), "")
    own = error.hint if error.hint != type(error).hint else usual or error.hint
    return safe_text(" ".join(f"{error}".split()) + f"\ntry: {own}")


def sweep_in_background(options: Mapping[str, Any]) -> None:
    """Archive old records in the background if that is due.

    This is done at the start of the server, because this process may run for a long time.
    """

    def sweep() -> None:
        try:
            with open_memory(options) as memory:
                memory.care.sweep_if_due()
        except (VadeError, OSError) as error:
            logger.warning("nothing was archived: %s", error)

    threading.Thread(target=sweep, daemon=True).start()


def _policy_for(memory: Memory, write: Write) -> tuple[Mapping[str, Any] | None, Consent]:
    earlier = memory.requests.answered(write.key, write.operation, write.arguments) if write.key else None
    return earlier, memory.settings.approval.before(INTERFACE, Scope(write.scope))


def _perform(memory: Memory, write: Write, *, wait: bool) -> Mapping[str, Any]:
    """Perform a write, or with `wait` queue it for a person; a write with a retry key happens only once."""

    def do(done: Any = None) -> Mapping[str, Any]:
        if done is not None:
            return write.render(done)
        if not wait:
            try:
                return write.render(memory.requests.perform(write.operation, write.arguments))
            except PendingReview as error:
                return {"outcome": "waiting", "approval": error.approval, "message": f"{error}: {error.hint}"}
        queued = memory.requests.propose(write.operation, write.arguments, scope=write.scope, door=INTERFACE)
        return {
            "outcome": "waiting",
            "approval": queued.id,
            "message": "pending: the user decides with `vade review approve`; continue without it",
        }

    return memory.requests.once(write.key, write.operation, write.arguments, do=do) if write.key else do()
