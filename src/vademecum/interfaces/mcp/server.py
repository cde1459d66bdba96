"""The server: what it offers, how a call is answered, and the one place where errors become messages."""

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
from vademecum.interfaces.tools.core import TOOL_SETS
from vademecum.interfaces.tools.declaration import Read, render_instructions
from vademecum.memory import connect
from vademecum.memory.opening import client_label, find_conversation
from vademecum.types import Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator, Mapping

    from vademecum.interfaces.mcp.protocol import Peer
    from vademecum.interfaces.tools.declaration import Tool, Write
    from vademecum.memory import Memory

    # A call that may ask its client: it sends a question, gets the answer or None, ends with a result.
    Call = Generator[dict[str, Any], dict[str, Any] | None, dict[str, Any]]

DOOR = "mcp"
logger = logging.getLogger(__name__)

# What to try, in the words of this door; a hint that an error brings itself is kept.
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
IDLE = 5.0  # seconds without a call, after which passages are read that wait for it
MOST = 64  # connections whose memory is kept open; the one not used for longest is closed first

# ---------------------------------------------------------------- who is served
# The core is synchronous: one call at a time, in a thread of its own. A call that began is never abandoned:
# when the client goes away, the thread ends what it does, and what still waited for its turn never began.


class Connection:
    """One connection, and its memory."""

    def __init__(
        self, options: Mapping[str, Any], opened: Callable[[Memory], None], *, own: bool = False
    ) -> None:
        self._options, self._tell = dict(options), opened
        self._installed, self._own = str(options.get("client") or ""), own
        self.turn: Any = None  # whatever the transport lets calls wait with
        self._memory: Memory | None = None
        self._told: tuple[str | None, str] = (None, "")
        self.waiting = 0
        self._last = time.monotonic()

    @contextlib.contextmanager
    def busy(self) -> Iterator[None]:
        """While somebody waits for an answer."""
        self.waiting += 1
        try:
            yield
        finally:
            self.waiting -= 1
            self._last = time.monotonic()

    @property
    def idle(self) -> bool:
        """Whether nobody has asked for anything for a while."""
        return not self.waiting and time.monotonic() - self._last > IDLE

    def introduce(self, client: Mapping[str, Any] | None) -> None:
        """What the client says of itself, if it does; the memory that is opened next tells it."""
        if client is not None:
            label = client_label(self._installed, str(client["name"]), str(client["version"]))
            self._options["client"] = label or None

    def memory(self) -> Memory:
        """The memory; opened again when the client or the session of its agent has become another."""
        told = (self._options.get("client"), self._conversation())
        if self._memory is not None and self._told != told:
            self._memory.close()
            self._memory = None
        if self._memory is None:
            self._told = told
            self._memory = open_memory({**self._options, "conversation": told[1]})
            self._tell(self._memory)
        return self._memory

    def _conversation(self) -> str:
        """The agent's own session, where the process that serves is that agent's and a hook has told it."""
        return find_conversation(self._options.get("home"), self._installed) if self._own else ""

    def close(self) -> None:
        """Let go of the index; the next call opens it again."""
        if self._memory is not None:
            self._memory.close()


class Connections:
    """The connections that are served."""

    def __init__(self, options: Mapping[str, Any], *, own_session: bool) -> None:
        self._options = dict(options)
        self._open: OrderedDict[str, Connection] = OrderedDict()
        self._stop = threading.Event()
        self._reads = False
        # Over stdio the process is the connection, and all of it is one session, unless one is named.
        self._own_session = own_session and not self._options.get("session")
        if self._own_session:
            self._options["session"] = session_of(uuid.uuid4().hex)

    def of(self, id: str = "") -> Connection:
        """The connection with the id that the transport gave it, if it gave one."""
        if id not in self._open:
            options = dict(self._options)
            if id and not options.get("session"):
                options["session"] = session_of(id)
            self._open[id] = Connection(options, self._opened, own=self._own_session)
            self._close_some()
        self._open.move_to_end(id)
        return self._open[id]

    def _idle(self) -> bool:
        return all(each.idle for each in [*self._open.values()])

    def _opened(self, memory: Memory) -> None:
        """Have what is curated read while nobody asks, by the first memory that is opened alone."""
        if not self._reads:
            self._reads = True
            memory.care.read_when_idle(self._idle, self._stop)

    def close(self) -> None:
        """Let go of everything."""
        self._stop.set()
        for each in self._open.values():
            each.close()

    def _close_some(self) -> None:
        idle = [name for name, each in self._open.items() if not each.waiting]
        for name in idle[: max(0, len(self._open) - MOST)]:
            self._open.pop(name).close()


def session_of(connection: str) -> str:
    """The session that a connection is, named after it."""
    return f"mcp-{connection.replace('-', '')[:16]}"


def open_memory(options: Mapping[str, Any]) -> Memory:
    """Open memory for an agent: whatever comes through this door is the agent's word."""
    return connect(**options, origin=Origin.AGENT)


# ---------------------------------------------------------------- what is served


class MemoryServer:
    """Every request, as one call on the memory of whoever sent it."""

    def __init__(self, family: str) -> None:
        self.tools: Mapping[str, Tool] = {each.name: each for each in TOOL_SETS[family]}
        self._questions = consent.Questions()

    def call_tool(self, params: Mapping[str, Any], peer: Peer, connection: Connection) -> Call:
        """Call one tool; whatever goes wrong is told to the model."""
        tool = self.tools.get(params["name"])
        if tool is None:
            known = ", ".join(self.tools)
            raise RpcError(INVALID_PARAMS, f"Unknown tool: {params['name']} (there are: {known})")
        try:
            planned = tool.planned(params.get("arguments"))
            if isinstance(planned, Read):
                return answered(planned.do(connection.memory()))
            made = yield from self._write(planned, params, peer, connection)
            return dict(made) if "resultType" in made else answered(made)
        except VadeError as error:
            return failed(error)
        except Exception as error:
            logger.exception("the tool %s failed", tool.name)
            return failed(VadeError(f"internal error ({type(error).__name__})"))

    def _write(
        self, write: Write, params: Mapping[str, Any], peer: Peer, connection: Connection
    ) -> Generator[dict[str, Any], dict[str, Any] | None, Mapping[str, Any]]:
        """Make a write, or ask first, or let it wait, or refuse it, as the settings say."""
        earlier, policy = _before(connection.memory(), write)
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
                said = yield consent.form(write)
                agreed = said is not None and consent.is_yes(said)
            elif (state := params.get("requestState")) is not None:
                agreed = self._questions.agreed(state, params.get("inputResponses") or {}, write)
            else:
                return self._questions.asked(write)
        return _made(connection.memory(), write, wait=not agreed)

    def read(self, method: str, params: Mapping[str, Any], connection: Connection) -> dict[str, Any]:
        """What can be attached, one of it, or a prompt filled in."""
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
            raise RpcError(code, told(error), named) from error


def step(call: Call, sent: dict[str, Any] | None) -> tuple[bool, dict[str, Any]]:
    """Go on with a call: whether it is done, and its result or else its question."""
    try:
        return False, call.send(sent)
    except StopIteration as done:
        return True, done.value


def offer() -> dict[str, Any]:
    """What clients are told before memory is needed; a file of it is what stdio tells them from."""
    return {
        "instructions": {
            name: render_instructions([each.name for each in tools]) for name, tools in TOOL_SETS.items()
        },
        "prompts": {
            name: resources.offered_prompts([each.name for each in tools])
            for name, tools in TOOL_SETS.items()
        },
        "templates": [resources.TEMPLATE],
        "families": {name: [each.name for each in tools] for name, tools in TOOL_SETS.items()},
        "tools": {each.name: each.offered for each in TOOL_SETS["all"]},
        "joined": {each.name: each.where_joined for each in TOOL_SETS["all"] if each.where_joined},
    }


def answered(value: Mapping[str, Any]) -> dict[str, Any]:
    """An answer, as data and as text."""
    safe = safe_answer(value)
    content = [{"type": "text", "text": json.dumps(safe, ensure_ascii=False)}]
    return {"content": content, "structuredContent": safe, "isError": False}


def failed(error: VadeError) -> dict[str, Any]:
    """What went wrong, and what to try."""
    return {"content": [{"type": "text", "text": told(error)}], "isError": True}


def told(error: VadeError) -> str:
    """An error in the words of this door."""
    usual = next((hint for kind, hint in reversed([*_TRY.items()]) if isinstance(error, kind)), "")
    own = error.hint if error.hint != type(error).hint else usual or error.hint
    return safe_text(" ".join(f"{error}".split()) + f"\ntry: {own}")


def tidy(options: Mapping[str, Any]) -> None:
    """Put away what is due, beside the work, once: this door stays open for long."""

    def sweep() -> None:
        try:
            with open_memory(options) as memory:
                memory.care.sweep_if_due()
        except (VadeError, OSError) as error:
            logger.warning("nothing was archived: %s", error)

    threading.Thread(target=sweep, daemon=True).start()


def _before(memory: Memory, write: Write) -> tuple[Mapping[str, Any] | None, Consent]:
    earlier = memory.requests.answered(write.key, write.operation, write.arguments) if write.key else None
    return earlier, memory.settings.approval.before(DOOR, Scope(write.scope))


def _made(memory: Memory, write: Write, *, wait: bool) -> Mapping[str, Any]:
    """Make a write, or let it wait for a person; a key makes either of them happen once."""

    def do(done: Any = None) -> Mapping[str, Any]:
        if done is not None:
            return write.render(done)
        if not wait:
            try:
                return write.render(memory.requests.perform(write.operation, write.arguments))
            except PendingReview as error:
                return {"outcome": "waiting", "approval": error.approval, "message": f"{error}: {error.hint}"}
        waiting = memory.requests.propose(write.operation, write.arguments, scope=write.scope, door=DOOR)
        return {
            "outcome": "waiting",
            "approval": waiting.id,
            "message": "pending: the user decides with `vade approve`; continue without it",
        }

    return memory.requests.once(write.key, write.operation, write.arguments, do=do) if write.key else do()
