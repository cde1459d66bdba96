"""The server: what it offers, how a call is answered, and the one place where errors become messages."""

from __future__ import annotations

import json
import logging
import threading
import time
import uuid
from collections import OrderedDict
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    CallToolResult,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
    TextContent,
    ToolAnnotations,
)
from mcp_types import Tool as Offered
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from vademecum import __version__, errors
from vademecum.config import Consent
from vademecum.errors import PendingReview, Refused, VadeError
from vademecum.interfaces.mcp import consent, resources
from vademecum.interfaces.present.safe import safe_answer, safe_text
from vademecum.interfaces.tools.core import TOOL_SETS
from vademecum.interfaces.tools.declaration import Read, Tool, Write, read_text
from vademecum.memory import connect
from vademecum.memory.opening import client_label, find_conversation
from vademecum.types import Origin, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from mcp.server.context import ServerRequestContext
    from mcp_types import (
        CallToolRequestParams,
        GetPromptRequestParams,
        PaginatedRequestParams,
        ReadResourceRequestParams,
    )

    from vademecum.memory import Memory

    Context = ServerRequestContext[Any, Any]

DOOR = "mcp"
_HOUR = 3_600_000
logger = logging.getLogger(__name__)

# What to try, in the words of this door; a hint that an error brings itself is kept.
_TRY: Mapping[type[VadeError], str] = {
    errors.UsageError: "look at the arguments in the tool's description",
    errors.InvalidText: "pass a text that is neither empty nor very long",
    errors.InvalidKey: "use 1 to 60 of a-z, 0-9 and `-`, or leave `key` out",
    errors.UnknownName: "look at the names in the tool's description",
    errors.ScopeUnresolved: "choose another scope: this connection has none of that kind",
    errors.NotFound: "use memory_recall or memory_search to see what is there",
    errors.Ambiguous: "say which one with `scope`, or by its number",
    errors.SecretFound: "leave the secret out, and store where it can be found instead",
    errors.NotVisible: "do without it: this connection may not see that",
    errors.IncognitoWrite: "do not store anything in this session",
    errors.OutsideMemory: "use a path as memory_search gave it",
    errors.Locked: "try once more in a moment",
    errors.StorageFailed: "tell the person that the disk refused; `vade doctor` says more",
}
IDLE = 5.0  # seconds without a call, after which passages are read that wait for it
MOST = 64  # connections whose memory is kept open; the one not used for longest is closed first
Made = TypeVar("Made")

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
        self._turn = anyio.CapacityLimiter(1)
        self._memory: Memory | None = None
        self._told: tuple[str | None, str] = (None, "")
        self.waiting = 0
        self._last = time.monotonic()

    async def run(self, do: Callable[[Memory], Made]) -> Made:
        """Make one call on memory, after those before it."""
        self.waiting += 1
        try:
            return await anyio.to_thread.run_sync(lambda: do(self._opened()), limiter=self._turn)
        finally:
            self.waiting -= 1
            self._last = time.monotonic()

    @property
    def idle(self) -> bool:
        """Whether nobody has asked for anything for a while."""
        return not self.waiting and time.monotonic() - self._last > IDLE

    def introduce(self, name: str, version: str) -> None:
        """What the client says of itself; the memory that is opened next tells it."""
        self._options["client"] = client_label(self._installed, name, version) or None

    def _opened(self) -> Memory:
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


def make(
    options: Mapping[str, Any], *, tools: str = "core", own_session: bool
) -> tuple[Server[Any], Connections]:
    """A server over the memory that these options open, and the connections it serves."""
    connections = Connections(options, own_session=own_session)
    memory = MemoryServer(connections, {each.name: each for each in TOOL_SETS[tools]})
    server: Server[Any] = Server(
        "vademecum",
        version=__version__,
        title="Vademecum",
        instructions=read_text("instructions"),
        on_list_tools=memory.list_tools,
        on_call_tool=memory.call_tool,
        on_list_resources=memory.list_resources,
        on_list_resource_templates=memory.list_templates,
        on_read_resource=memory.read_resource,
        on_list_prompts=memory.list_prompts,
        on_get_prompt=memory.get_prompt,
        cache_hints={"tools/list": CacheHint(_HOUR), "prompts/list": CacheHint(_HOUR)},
    )
    return server, connections


class MemoryServer:
    """Every request, as one call on the memory of whoever sent it."""

    def __init__(self, connections: Connections, tools: Mapping[str, Tool]) -> None:
        self._connections = connections
        self._tools = tools
        self._questions = consent.Questions()

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """All tools."""
        return ListToolsResult(tools=[offered(each) for each in self._tools.values()])

    async def call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Call one tool; whatever goes wrong is told to the model."""
        tool = self._tools.get(params.name)
        if tool is None:
            known = ", ".join(self._tools)
            raise MCPError(code=INVALID_PARAMS, message=f"Unknown tool: {params.name} (there are: {known})")
        try:
            planned = tool.planned(params.arguments)
            connection = self._connection(context)
            if isinstance(planned, Read):
                return answered(await connection.run(planned.do))
            result = await self._write(connection, context, params, planned)
            return result if isinstance(result, InputRequiredResult) else answered(result)
        except VadeError as error:
            return failed(error)
        except Exception as error:
            logger.exception("the tool %s failed", tool.name)
            return failed(VadeError(f"something went wrong inside vade ({type(error).__name__})"))

    async def _write(
        self, connection: Connection, context: Context, params: CallToolRequestParams, write: Write
    ) -> Mapping[str, Any] | InputRequiredResult:
        """Make a write, or ask first, or let it wait, or refuse it, as the settings say."""
        earlier, policy = await connection.run(lambda memory: _before(memory, write))
        if earlier is not None:
            return earlier
        if policy is Consent.DENY:
            raise Refused(
                f"writing to {write.scope} memory through MCP is switched off",
                hint="tell the person; `approval` in config.toml decides it",
            )
        if policy is Consent.ASK:
            agreed: bool | InputRequiredResult = False
            if consent.can_ask(context):
                agreed = await self._questions.agreed(context, params, write)
            if isinstance(agreed, InputRequiredResult):
                return agreed
            if not agreed:
                return await connection.run(lambda memory: _made(memory, write, wait=True))
        return await connection.run(lambda memory: _made(memory, write, wait=False))

    async def list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """What can be attached."""
        try:
            return ListResourcesResult(
                resources=await self._connection(context).run(resources.list_resources)
            )
        except VadeError as error:
            raise MCPError(code=INTERNAL_ERROR, message=told(error)) from error

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """How any file of memory is named."""
        return ListResourceTemplatesResult(resource_templates=[resources.TEMPLATE])

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """The text of one."""
        try:
            found = await self._connection(context).run(
                lambda memory: resources.read_resource(memory, str(params.uri))
            )
        except VadeError as error:
            raise MCPError(code=INVALID_PARAMS, message=told(error), data={"uri": str(params.uri)}) from error
        return ReadResourceResult(contents=[found])

    async def list_prompts(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """What a person can begin with."""
        return ListPromptsResult(prompts=list(resources.PROMPTS))

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """One of them, filled in."""
        given = params.arguments or {}
        try:
            return await self._connection(context).run(
                lambda memory: resources.get_prompt(memory, params.name, given)
            )
        except VadeError as error:
            raise MCPError(code=INVALID_PARAMS, message=told(error)) from error

    def _connection(self, context: Context) -> Connection:
        """The memory of whoever sent this; the connection's id is the transport's own, never the client's."""
        request = context.request
        if request is None or context.protocol_version in MODERN_PROTOCOL_VERSIONS:
            found = self._connections.of()
        else:
            found = self._connections.of(str(request.headers.get("mcp-session-id") or ""))
        told = context.session.client_params
        if told is not None:
            found.introduce(told.client_info.name, told.client_info.version)
        return found


def offered(tool: Tool) -> Offered:
    """A tool as a model sees it."""
    return Offered(
        name=tool.name,
        title=tool.title,
        description=tool.description,
        input_schema=tool.parameters,
        output_schema=dict(tool.answer),
        annotations=ToolAnnotations(
            title=tool.title,
            read_only_hint=tool.read_only,
            destructive_hint=tool.destructive,
            idempotent_hint=tool.idempotent or tool.read_only,
            open_world_hint=False,
        ),
    )


def answered(value: Mapping[str, Any]) -> CallToolResult:
    """An answer, as data and as text."""
    safe = safe_answer(value)
    said = json.dumps(safe, ensure_ascii=False)
    return CallToolResult(content=[TextContent(text=said)], structured_content=safe)


def failed(error: VadeError) -> CallToolResult:
    """What went wrong, and what to try."""
    return CallToolResult(content=[TextContent(text=told(error))], is_error=True)


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
            logger.warning("nothing was put away: %s", error)

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
            "message": "nothing is written yet: a person decides with `vade approve`; go on without it",
        }

    return memory.requests.once(write.key, write.operation, write.arguments, do=do) if write.key else do()
