"""Memory for agents written with pydantic-ai: tools to remember with, a context window that loses nothing.

The agent's own history stays whole and is never changed: what the context engine decides about it shapes the
request alone.
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
from vademecum.adapters.base import as_agent, opened, told
from vademecum.interfaces.present.safe import safe_answer
from vademecum.interfaces.tools import read_joined
from vademecum.interfaces.tools.core import (
    memory_get,
    memory_learn,
    memory_note,
    memory_search,
    memory_store,
    session_search,
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
_OFFERED = (memory_search, memory_get, memory_store, memory_note, memory_learn, session_search)

# -------------------------------------------------------------------- tools


def memory_toolset(memory: Memory, *, id: str | None = "memory") -> FunctionToolset[Any]:
    """Six tools over a memory: search, get, store, note, learn, and the search of earlier sessions."""
    own = as_agent(memory)
    tools = [_offered(_alone(each), own) for each in _OFFERED]
    return FunctionToolset(tools, id=id, instructions=_instructions())


def _offered(tool: Tool, memory: Memory) -> Offered[Any]:
    """A tool of ours as one of theirs; theirs sees to it that what a model sends is an object at all."""

    async def declared(_: RunContext[Any], definition: ToolDefinition) -> ToolDefinition:
        # Asked before each request: a workspace may be joined or left while an agent lives.
        return replace(
            definition, parameters_json_schema=tool.parameters_where(read_joined(memory.home.path))
        )

    return Offered(_calling(tool, memory), name=tool.name, description=tool.description, prepare=declared)


def _alone(tool: Tool) -> Tool:
    """A tool for an agent whom nobody is asked about: what all agents of this machine share is not for it."""
    alone = (
        replace(each, choices=tuple(one for one in each.choices if one not in _OTHERS))
        for each in tool.without_retries().arguments
    )
    return replace(tool, arguments=tuple(alone))


def _calling(tool: Tool, memory: Memory) -> Callable[..., dict[str, Any]]:
    """A function whose answers hold no secret, and whose refusals reach the model and never end a run."""

    def call(**given: Any) -> dict[str, Any]:
        try:
            plan = tool.planned(given)
            if isinstance(plan, Read):
                return safe_answer(plan.do(memory))
            return safe_answer(plan.render(memory.requests.perform(plan.operation, plan.arguments)))
        except VadeError as error:
            raise ToolFailed(told(error)) from error

    return call


def _instructions() -> str:
    """When to use the tools, and when not."""
    return resources.files("vademecum.adapters").joinpath("instructions.txt").read_text().strip()


# -------------------------------------------------------------------- the window


UNANSWERED = VadeError("the request was not answered")  # why a turn ends early: pydantic-ai tells the cause


class _Run:
    """What one run of an agent knows of its session."""

    def __init__(self, memory: Memory, session: str) -> None:
        self.memory = memory
        self.session = session
        self.history: list[ModelMessage] = []  # the run's own, which grows
        self.engine: ContextEngine | None = None
        self.served = ""  # the model that the engine was made for
        self.refused: Exception | None = None  # what the provider said of a request that was too long
        self.turn: Turn | None = None  # the one that is under way
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
        """What to send: the whole window, or after a refusal a smaller one."""
        with self.alone:
            refused, self.refused = self.refused, None
            if refused is not None and self.turn is not None:
                try:
                    return self.turn.refused(refused)
                except WindowFull as full:
                    raise refused from full
            self.leave()
            if self.engine is None or model != self.served:
                log = opened(self.memory, self.session)
                self.engine = self.memory.sessions.context(log, window=window, model=model, complete=complete)
                self.served = model
            self.turn = self.engine.turn(messages, tools).__enter__()
            return self.turn.prepared

    def answer(self, said: Sequence[Message], usage: Used) -> None:
        """A request was answered."""
        with self.alone:
            if self.turn is not None:
                self.turn.keep((said, usage))
                self.leave()

    def leave(self, error: BaseException | None = None) -> None:
        """End the turn that is under way, if there is one; what was asked is in the log."""
        turn, self.turn = self.turn, None
        if turn is not None:
            turn.__exit__(None, error or (None if turn.answers else UNANSWERED), None)

    def keep(self, messages: Sequence[Message]) -> None:
        """Write to the log what was said since the last request."""
        with self.alone:
            self.leave()
            if self.engine is not None:
                self.memory.sessions.record(opened(self.memory, self.session), messages)


@dataclass
class ContextWindow(AbstractCapability[AgentDepsT]):
    """Keeps an agent's requests within its model's window, and every message in a transcript.

    The session is the one named, else the run's own conversation. `window` is in tokens; without it, it is
    what the model's profile says. With `ask_model` off there is no flush, and no model makes summaries.
    """

    memory: Memory
    window: int | None = None
    session: str = ""
    ask_model: bool = True
    _run: _Run | None = field(default=None, init=False, repr=False)

    def history(self, session: str = "") -> list[ModelMessage]:
        """All that was said in a session, to go on with as `message_history`; nothing if there is none."""
        wanted = session or self.session
        if wanted not in {each.id for each in self.memory.sessions.list()}:
            return []
        return _theirs(self.memory.sessions.messages(wanted))

    async def for_run(self, ctx: RunContext[AgentDepsT]) -> AbstractCapability[AgentDepsT]:
        """A window for this run alone."""
        own = replace(self)
        own._run = _Run(as_agent(self.memory), self.session or ctx.conversation_id or "")
        return own

    async def prepare_model_request(
        self, ctx: RunContext[AgentDepsT], request_context: ModelRequestContext
    ) -> ModelRequestContext:
        """Log what is new, and prune, flush and trim what no longer fits."""
        if self._run is None:
            return request_context
        self._run.history = ctx.messages
        model = request_context.model
        window = self.window or model.context_window
        if not window:
            raise UserError(f"the context window of {model.model_name} is unknown: pass `window=`")
        ours = _ours(request_context.messages)
        complete = _asking(model, asyncio.get_running_loop()) if self.ask_model else None
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
        return replace(request_context, messages=_theirs(ready.messages))

    async def after_model_request(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, response: ModelResponse
    ) -> ModelResponse:
        """Write the answer down, and learn from what the provider counted."""
        used = response.usage
        if self._run is not None:
            event = Used(
                input=used.input_tokens,
                output=used.output_tokens,
                cached=used.cache_read_tokens,
                total=used.total_tokens,
                model=response.model_name or "",
            )
            # The run puts its names on the answer when all hooks are through; the log has it before that.
            named = replace(
                response,
                run_id=ctx.run_id,
                conversation_id=ctx.conversation_id,
                model_id=response.model_id or request_context.model.model_id,
            )
            await asyncio.to_thread(self._run.answer, _ours([named]), event)
        return response

    async def on_model_request_error(
        self, ctx: RunContext[AgentDepsT], *, request_context: ModelRequestContext, error: Exception
    ) -> ModelResponse:
        """Try again with less when the provider says that it was too much."""
        if self._run is None or not (
            isinstance(error, ModelContextWindowExceededError) or is_overflow(error)
        ):
            raise error
        self._run.refused = error
        raise RetryModelRequest

    async def wrap_run(self, ctx: RunContext[AgentDepsT], *, handler: WrapRunHandler) -> AgentRunResult[Any]:
        """Have the transcript hold the last words too, however the run ends."""
        try:
            result = await handler()
        except BaseException:
            with contextlib.suppress(VadeError):  # what ended the run is told, and not this
                await self._keep(self._run.history if self._run else [])
            raise
        await self._keep(result.all_messages())
        return result

    async def _keep(self, messages: list[ModelMessage]) -> None:
        if self._run is not None:
            await asyncio.to_thread(self._run.keep, _ours(messages))


# -------------------------------------------------------------------- theirs and ours


def _ours(messages: Sequence[ModelMessage]) -> list[Message]:
    return _SHAPE.read(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))


def _theirs(messages: Sequence[Message]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_python(_SHAPE.write(messages))


def _schemas(parameters: ModelRequestParameters) -> list[Any]:
    """All that is sent beside the messages: tools, and the instructions, which are no part of any of them."""
    tools = [
        {"name": each.name, "description": each.description or "", "parameters": each.parameters_json_schema}
        for each in (*parameters.function_tools, *parameters.output_tools)
    ]
    words = [part.content for part in parameters.instruction_parts or ()]
    return [*tools, *([{"instructions": "\n\n".join(words)}] if words else [])]


def _asking(model: Model, loop: asyncio.AbstractEventLoop) -> Complete:
    """Questions of the engine, which waits in a thread, to the model, which lives on the loop."""

    def complete(messages: Sequence[Message], system: str, tools: Sequence[Any], seconds: float) -> Message:
        asked = _theirs([Message(Role.SYSTEM, (Text(system),)), *messages])
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
        waiting = asyncio.run_coroutine_threadsafe(
            model_request(model, asked, model_request_parameters=parameters), loop
        )
        try:
            return _ours([waiting.result(seconds)])[0]
        finally:
            waiting.cancel()

    return complete
