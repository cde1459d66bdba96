"""Memory for agents written with pydantic-ai: memory tools, and a context window that loses nothing.

The agent's own history stays whole and is never changed; the decisions of the context engine only affect the
request.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

try:
    from pydantic_ai import FunctionToolset, RetryModelRequest
    from pydantic_ai.capabilities import AbstractCapability
    from pydantic_ai.direct import model_request
    from pydantic_ai.exceptions import ModelContextWindowExceededError, ToolFailed, UserError
    from pydantic_ai.messages import ModelMessagesTypeAdapter
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import AgentDepsT, ToolDefinition
    from pydantic_ai.tools import Tool as Offered
except ModuleNotFoundError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'vademecum[pydantic-ai]'") from error

from vademecum import Message, Role, Scope, Text, Used, VadeError, WindowFull, is_overflow, shape
from vademecum.adapters.base import as_agent, describe_error, open_session
from vademecum.interfaces.present.safe import safe_answer
from vademecum.interfaces.tools import read_workspaces
from vademecum.interfaces.tools.core import (
    memory_get,
    memory_note,
    memory_search,
    memory_store,
    session_get,
)
from vademecum.interfaces.tools.declaration import Read, Tool

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import WrapRunHandler
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from vademecum import ContextEngine, Memory, Prepared
    from vademecum.memory.values import Turn

    Complete = Callable[[Sequence[Message], str, Sequence[Any], float], Message]

_OTHERS = tuple(str(scope) for scope in Scope if scope.rule.others)
_SHAPE = shape("pydantic_ai")
_TOOLS = (memory_search, memory_get, memory_store, memory_note, session_get)

# -------------------------------------------------------------------- tools


def memory_toolset(memory: Memory, *, id: str | None = "memory") -> FunctionToolset[Any]:
    """Return five tools over a memory: search, get, store, note, and reading of earlier sessions."""
    own = as_agent(memory)
    tools = [_convert_tool(_without_shared_scopes(each), own) for each in _TOOLS]
    return FunctionToolset(tools, id=id, instructions=_instructions())


def _convert_tool(tool: Tool, memory: Memory) -> Offered[Any]:
    """Return one of our tools as a tool of pydantic-ai, which checks that the model's input is an object."""

    async def declared(_: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
        # Called before each request, because a workspace may be joined or left while an agent runs.
        return replace(
            definition, parameters_json_schema=tool.parameters_where(read_workspaces(memory.home.path))
        )

    return Offered(_make_call(tool, memory), name=tool.name, description=tool.description, prepare=declared)


def _without_shared_scopes(tool: Tool) -> Tool:
    """Return a tool without the scopes that all agents of this machine share.

    No person confirms an agent's call, so the agent must not write there.
    """
    arguments = (
        replace(
            each,
            choices=tuple(one for one in each.choices if one not in _OTHERS),
            unlisted_choices=tuple(one for one in each.unlisted_choices if one not in _OTHERS),
        )
        for each in tool.without_retries().arguments
    )
    return replace(tool, arguments=tuple(arguments))


def _make_call(tool: Tool, memory: Memory) -> Callable[..., dict[str, Any]]:
    """Return a function that calls a tool; secrets are redacted, and an error is raised as ToolFailed."""

    def call(**given: Any) -> dict[str, Any]:
        try:
            plan = tool.planned(given)
            if isinstance(plan, Read):
                return safe_answer(plan.do(memory))
            return safe_answer(plan.render(memory.requests.perform(plan.operation, plan.arguments)))
        except VadeError as error:
            raise ToolFailed(describe_error(error)) from error

    return call


def _instructions() -> str:
    """Return the instructions that tell a model when to use the tools."""
    return resources.files("vademecum.adapters").joinpath("instructions.txt").read_text().strip()


# -------------------------------------------------------------------- the window


UNANSWERED = VadeError("the request was not answered")  # why a turn ends early; pydantic-ai reports the cause


class _Run:
    """The state of one run of an agent."""

    def __init__(self, memory: Memory, session: str) -> None:
        self.memory = memory
        self.session = session
        self.history: list[ModelMessage] = []  # the run's own messages, a list that grows
        self.engine: ContextEngine | None = None
        self.served = ""  # the model that the engine was made for
        self.refused: Exception | None = None  # the error of a request that was too long
        self.turn: Turn | None = None  # the turn in progress
        self.alone = threading.Lock()

    def prepare(
        self,
        messages: Sequence[Message],
        tools: Sequence[Any],
        *,
        model: str,
        window: int,
        complete: Complete | None,
    ) -> Prepared:
        """Return the request to send; a smaller one if the provider refused the last one as too long."""
        with self.alone:
            refused, self.refused = self.refused, None
            if refused is not None and self.turn is not None:
                try:
                    return self.turn.refused(refused)
                except WindowFull as full:
                    raise refused from full
            self.leave()
            if self.engine is None or model != self.served:
                log = open_session(self.memory, self.session)
                self.engine = self.memory.sessions.context(log, window=window, model=model, complete=complete)
                self.served = model
            self.turn = self.engine.turn(messages, tools).__enter__()
            return self.turn.prepared

    def answer(self, messages: Sequence[Message], usage: Used) -> None:
        """Record the model's answer."""
        with self.alone:
            if self.turn is not None:
                self.turn.keep((messages, usage))
                self.leave()

    def leave(self, error: BaseException | None = None) -> None:
        """End the turn in progress, if there is any; its request is already in the log."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.__exit__(None, error or (None if turn.answers else UNANSWERED), None)

    def keep(self, messages: Sequence[Message]) -> None:
        """End the turn in progress, and log the messages that are new since the last request."""
        with self.alone:
            self.leave()
            if self.engine is not None:
                self.memory.sessions.record(open_session(self.memory, self.session), messages)


@dataclass
class ContextWindow(AbstractCapability[AgentDepsT]):
    """A capability that keeps an agent's requests within its model's window and logs every message.

    The session is the named one, else the run's own conversation. `window` is in tokens; the default is the
    window in the model's profile. With `ask_model` off there is no flush, and no model makes summaries.
    """

    memory: Memory
    window: int | None = None
    session: str = ""
    ask_model: bool = True
    _run: _Run | None = field(default=None, init=False, repr=False)

    def history(self, session: str = "") -> list[ModelMessage]:
        """Return the messages of a session, for use as `message_history`; empty if there is no session."""
        wanted = session or self.session
        if wanted not in {each.id for each in self.memory.sessions.list()}:
            return []
        return _to_pydantic(self.memory.sessions.messages(wanted))

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        """Return a window for this run only."""
        own = replace(self)
        own._run = _Run(as_agent(self.memory), self.session or ctx.conversation_id or "")
        return own

    async def prepare_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Log new messages; prune, flush and trim the request until it fits into the window."""
        if self._run is None:
            return request_context
        self._run.history = ctx.messages
        model = request_context.model
        window = self.window or model.context_window
        if not window:
            raise UserError(f"the context window of {model.model_name} is unknown: pass `window=`")
        ours = _from_pydantic(request_context.messages)
        complete = _make_complete(model, asyncio.get_running_loop()) if self.ask_model else None
        ready = await asyncio.to_thread(
            self._run.prepare,
            ours,
            _schemas(request_context.model_request_parameters),
            model=model.model_name,
            window=window,
            complete=complete,
        )
        if [(each.role, each.parts) for each in ready.messages] == [(each.role, each.parts) for each in ours]:
            return request_context
        return replace(request_context, messages=_to_pydantic(ready.messages))

    async def after_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Record the answer, and learn from the provider's token counts."""
        used = response.usage
        if self._run is not None:
            event = Used(
                input=used.input_tokens,
                output=used.output_tokens,
                cached=used.cache_read_tokens,
                total=used.total_tokens,
                model=response.model_name or "",
            )
            # The run adds these ids to the answer after all hooks; the log gets the answer before that.
            named = replace(
                response,
                run_id=ctx.run_id,
                conversation_id=ctx.conversation_id,
                model_id=response.model_id or request_context.model.model_id,
            )
            await asyncio.to_thread(self._run.answer, _from_pydantic([named]), event)
        return response

    async def on_model_request_error(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Retry with a smaller request if the provider says that it was too long; else raise the error."""
        if self._run is None or not (
            isinstance(error, ModelContextWindowExceededError) or is_overflow(error)
        ):
            raise error
        self._run.refused = error
        raise RetryModelRequest

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Run the agent and log the last messages, however the run ends."""
        try:
            result = await handler()
        except BaseException:
            with contextlib.suppress(VadeError):  # the error that ended the run is reported, and not this one
                await self._keep(self._run.history if self._run else [])
            raise
        await self._keep(result.all_messages())
        return result

    async def _keep(self, messages: list[ModelMessage]) -> None:
        if self._run is not None:
            await asyncio.to_thread(self._run.keep, _from_pydantic(messages))


# -------------------------------------------------------------------- conversions


def _from_pydantic(messages: Sequence[ModelMessage]) -> list[Message]:
    return _SHAPE.read(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))


def _to_pydantic(messages: Sequence[Message]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_python(_SHAPE.write(messages))


def _schemas(parameters: ModelRequestParameters) -> list[Any]:
    """Return everything sent besides messages: the tools' schemas, and the instructions."""
    tools = [
        {"name": each.name, "description": each.description or "", "parameters": each.parameters_json_schema}
        for each in (*parameters.function_tools, *parameters.output_tools)
    ]
    words = [part.content for part in parameters.instruction_parts or ()]
    return [*tools, *([{"instructions": "\n\n".join(words)}] if words else [])]


def _make_complete(model: Model, loop: asyncio.AbstractEventLoop) -> Complete:
    """Return a function by which the engine, in a thread, asks the model on the event loop."""

    def complete(messages: Sequence[Message], system: str, tools: Sequence[Any], seconds: float) -> Message:
        request = _to_pydantic([Message(Role.SYSTEM, (Text(system),)), *messages])
        parameters = ModelRequestParameters(
            function_tools=[
                ToolDefinition(
                    name=each["name"],
                    description=each["description"],
                    parameters_json_schema=each["parameters"],
                )
                for each in tools
            ]
        )
        future = asyncio.run_coroutine_threadsafe(
            model_request(model, request, model_request_parameters=parameters), loop
        )
        try:
            return _from_pydantic([future.result(seconds)])[0]
        finally:
            future.cancel()

    return complete
