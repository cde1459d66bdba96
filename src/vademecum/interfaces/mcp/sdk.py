"""The MCP server on top of the protocol's own SDK.

It serves HTTP, and tests of the stdio server compare their results with it.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

import anyio
import anyio.to_thread
from mcp.server.caching import CacheHint
from mcp.server.lowlevel.server import Server
from mcp.shared.exceptions import MCPError
from mcp_types import (
    CallToolResult,
    ElicitRequestFormParams,
    GetPromptResult,
    InputRequiredResult,
    ListPromptsResult,
    ListResourcesResult,
    ListResourceTemplatesResult,
    ListToolsResult,
    ReadResourceResult,
)

from vademecum.interfaces.mcp import consent, protocol
from vademecum.interfaces.mcp.protocol import (
    CACHED,
    SERVER,
    STATELESS,
    Offer,
    Peer,
    RpcError,
    can_ask,
    family_of,
    home_of,
)
from vademecum.interfaces.mcp.server import Connections, MemoryServer, offer, step

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Mapping

    from mcp.server.context import ServerRequestContext
    from mcp_types import (
        CallToolRequestParams,
        GetPromptRequestParams,
        PaginatedRequestParams,
        ReadResourceRequestParams,
    )

    from vademecum.interfaces.mcp.server import Connection

    Context = ServerRequestContext[Any, Any]

Result = TypeVar("Result")


def make(
    options: Mapping[str, Any], *, tools: str = "core", own_session: bool
) -> tuple[Server[Any], Connections]:
    """Return a server over the memory that these options open, and the server's connections."""
    connections = Connections(options, own_session=own_session)
    handlers = _SdkHandlers(connections, tools, home_of(options.get("home")))
    server: Server[Any] = Server(
        SERVER["name"],
        version=SERVER["version"],
        title=SERVER["title"],
        instructions=handlers.offer.instructions,
        on_list_tools=handlers.list_tools,
        on_call_tool=handlers.call_tool,
        on_list_resources=handlers.list_resources,
        on_list_resource_templates=handlers.list_templates,
        on_read_resource=handlers.read_resource,
        on_list_prompts=handlers.list_prompts,
        on_get_prompt=handlers.get_prompt,
        cache_hints={
            "tools/list": CacheHint(CACHED["tools/list"]),
            "prompts/list": CacheHint(CACHED["prompts/list"]),
        },
    )
    return server, connections


@contextlib.asynccontextmanager
async def _reporting(context: Context) -> AsyncIterator[None]:
    """Send progress messages while the context lasts, to a client that asked for them."""

    async def tell() -> None:
        seconds = 0.0
        with contextlib.suppress(anyio.BrokenResourceError, anyio.ClosedResourceError):  # the client is gone
            while True:
                await anyio.sleep(protocol.PROGRESS)
                seconds += protocol.PROGRESS
                await context.session.report_progress(seconds, message=protocol.WORKING)

    failed: Exception | None = None
    async with anyio.create_task_group() as group:
        group.start_soon(tell)
        try:
            yield
        except Exception as error:  # the task group would raise it as part of a group
            failed = error
        group.cancel_scope.cancel()
    if failed is not None:
        raise failed


class _SdkHandlers:
    """The functions that answer the SDK's requests, with the SDK's types."""

    def __init__(self, connections: Connections, family: str, home: str) -> None:
        self._connections = connections
        self._server = MemoryServer(family)
        offer_content = offer()
        tools, joined = family_of(offer_content, family)
        answers = offer_content["instructions"][family], tools, offer_content["prompts"][family]
        self.offer = Offer(*answers, offer_content["templates"], joined, home)

    async def list_tools(self, context: Context, params: PaginatedRequestParams | None) -> ListToolsResult:
        """Return the definitions of all tools."""
        return ListToolsResult.model_validate({"tools": self.offer.list_tools()}, by_name=False)

    async def call_tool(
        self, context: Context, params: CallToolRequestParams
    ) -> CallToolResult | InputRequiredResult:
        """Run a tool; if it has a question for the user, ask the client in between."""
        peer, connection = _peer(context), self._connection(context)
        given = params.model_dump(by_alias=True, mode="json", exclude_none=True)
        call = self._server.call_tool({**given, "arguments": params.arguments}, peer, connection)
        answer: dict[str, Any] | None = None
        while True:
            sent = answer
            async with _reporting(context):
                done, made = await _run(connection, lambda: step(call, sent))  # noqa: B023  it runs immediately
            if done:
                kind = InputRequiredResult if "requestState" in made else CallToolResult
                return kind.model_validate(made, by_name=False)
            answer = await _ask_user(context, made)

    async def list_resources(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourcesResult:
        """Return the resources."""
        return ListResourcesResult.model_validate(await self._read(context, {}), by_name=False)

    async def list_templates(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListResourceTemplatesResult:
        """Return the template of file addresses."""
        templates = {"resourceTemplates": self.offer.templates}
        return ListResourceTemplatesResult.model_validate(templates, by_name=False)

    async def read_resource(self, context: Context, params: ReadResourceRequestParams) -> ReadResourceResult:
        """Return the text of a resource."""
        made = await self._read(context, {"uri": str(params.uri)})
        return ReadResourceResult.model_validate(made, by_name=False)

    async def list_prompts(
        self, context: Context, params: PaginatedRequestParams | None
    ) -> ListPromptsResult:
        """Return the prompts."""
        return ListPromptsResult.model_validate({"prompts": self.offer.prompts}, by_name=False)

    async def get_prompt(self, context: Context, params: GetPromptRequestParams) -> GetPromptResult:
        """Return a prompt with its arguments filled in."""
        made = await self._read(context, {"name": params.name, "arguments": params.arguments})
        return GetPromptResult.model_validate(made, by_name=False)

    async def _read(self, context: Context, params: Mapping[str, Any]) -> dict[str, Any]:
        connection = self._connection(context)
        return await _run(connection, lambda: self._server.read(context.method, params, connection))

    def _connection(self, context: Context) -> Connection:
        """Return the connection to which a request belongs.

        Its id comes from the transport, never from the client's message.
        """
        request = context.request
        if request is None or context.protocol_version in STATELESS:
            found = self._connections.of()
        else:
            found = self._connections.of(str(request.headers.get("mcp-session-id") or ""))
        greeting = context.session.client_params
        found.introduce(greeting.client_info.model_dump(by_alias=True) if greeting else None)
        return found


async def _run(connection: Connection, do: Callable[[], Result]) -> Result:
    """Run a call on memory in a thread, after the connection's earlier calls have ended."""
    connection.turn = connection.turn or anyio.CapacityLimiter(1)
    with connection.busy():
        try:
            return await anyio.to_thread.run_sync(do, limiter=connection.turn)
        except RpcError as error:
            raise MCPError(code=error.code, message=error.message, data=error.data) from error


def _peer(context: Context) -> Peer:
    capabilities = context.session.client_capabilities
    known = capabilities.model_dump(by_alias=True, exclude_none=True) if capabilities else {}
    return Peer(context.protocol_version, can_ask(known))


async def _ask_user(context: Context, question: dict[str, Any]) -> dict[str, Any] | None:
    """Ask the user through the client, and return the answer; None if there is no answer in time."""
    form = ElicitRequestFormParams.model_validate(question, by_name=False)
    try:
        with anyio.fail_after(consent.PATIENCE):
            answer = await context.session.elicit_form(
                form.message, form.requested_schema, related_request_id=context.request_id
            )
    except (MCPError, TimeoutError):
        return None
    return answer.model_dump(by_alias=True, mode="json")
