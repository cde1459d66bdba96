"""Memory for agents written with pydantic-ai: tools to remember with, a context window that loses nothing.

The agent's own history stays whole and is never changed: what the context engine decides about it shapes the
request alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any, Literal, ParamSpec

from pydantic_ai import FunctionToolset, RetryModelRequest
from pydantic_ai.capabilities import AbstractCapability
from pydantic_ai.direct import model_request
from pydantic_ai.exceptions import ModelContextWindowExceededError, ToolFailed, UserError
from pydantic_ai.messages import ModelMessagesTypeAdapter
from pydantic_ai.models import ModelRequestParameters
from pydantic_ai.tools import AgentDepsT, ToolDefinition

from vademecum.adapters.base import as_agent, opened, told
from vademecum.context.window import Thread
from vademecum.errors import VadeError, WindowFull
from vademecum.llm.overflow import is_overflow
from vademecum.store.outgoing import clean_value
from vademecum.transcripts.events import Used
from vademecum.transcripts.messages import Message, Role, Text
from vademecum.transcripts.shapes import pydantic_ai as shape

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pydantic_ai import RunContext
    from pydantic_ai.capabilities import WrapRunHandler
    from pydantic_ai.messages import ModelMessage, ModelResponse
    from pydantic_ai.models import Model, ModelRequestContext
    from pydantic_ai.run import AgentRunResult

    from vademecum.context.engine import ContextEngine
    from vademecum.context.host import Complete
    from vademecum.context.window import Prepared
    from vademecum.memory import Memory
    from vademecum.search.answer import Passage
    from vademecum.transcripts.messages import Json
    from vademecum.types import Stored

P = ParamSpec("P")
Scopes = Literal["session", "project", "agent", "global"]
Types = Literal["project", "user", "feedback", "reference"]
Lessons = Literal["discovery", "solution", "pattern", "workflow", "failure", "rule"]

# -------------------------------------------------------------------- tools


def memory_toolset(memory: Memory, *, id: str | None = "memory") -> FunctionToolset[Any]:
    """Six tools over a memory: search, get, store, note, learn, and the search of earlier sessions."""
    own = as_agent(memory)

    def memory_search(query: str, max_results: int = 6, scope: Scopes | None = None) -> dict[str, Any]:
        """Find what memory holds about a question: notes, journals, pinned documents, earlier sessions.

        Args:
            query: What to look for, in words or as a question.
            max_results: How many passages at most.
            scope: Only what is kept there.
        """
        found = own.search(query, max_results=max_results, scope=scope)
        return {
            "results": [_passage(each) for each in found.results],
            "mode": found.mode,
            "coverage": found.coverage.share,
            "degraded": list(found.degraded),
            "notes": list(found.notes),
        }

    def memory_get(path: str, start_line: int = 1, lines: int | None = None) -> dict[str, Any]:
        """Read lines of a file of memory.

        Args:
            path: A path as memory_search shows it, or the key of a record.
            start_line: The first line, counted from 1.
            lines: How many lines; all of them unless given.
        """
        found = own.get(path, start=start_line, lines=lines)
        return {"path": found.path, "text": found.text, "startLine": found.start, "endLine": found.end}

    def memory_store(
        text: str,
        *,
        key: str | None = None,
        scope: Scopes = "project",
        type: Types | None = None,
        tags: list[str] | None = None,
        replace: bool = False,
    ) -> dict[str, Any]:
        """Keep a fact, preference, decision or correction beyond this conversation.

        Args:
            text: One statement that can be understood alone.
            key: A short name for its topic; an existing one adds to that record.
            scope: Who it is for: this project, this agent everywhere, everybody, or this session.
            type: `user` for what is true of the user, `feedback` for how they want things done.
            tags: A few words to find it by.
            replace: Whether it takes the place of what the record said last.
        """
        mode = "replace" if replace else "append"
        return _stored(
            own.store(text, key=key, scope=scope, type=type, tags=tags or (), mode=mode, slug=True)
        )

    def memory_note(text: str) -> dict[str, Any]:
        """Write a line into today's journal: what happened, was tried or was decided along the way.

        Args:
            text: What to write down.
        """
        noted = own.note(text)
        return {"path": noted.path, "time": noted.time, "redacted": list(noted.secrets)}

    def memory_learn(
        type: Lessons,
        *,
        confidence: float | None = None,
        examples: list[str] | None = None,
        tags: list[str] | None = None,
        fact: str | None = None,
        error: str | None = None,
        solution: str | None = None,
        pattern: str | None = None,
        sequence: list[str] | None = None,
        success_rate: float | None = None,
        what: str | None = None,
        impact: str | None = None,
        prevention: str | None = None,
        path: str | None = None,
        rule: str | None = None,
    ) -> dict[str, Any]:
        """Keep something learned about this project; learning it again confirms it.

        Args:
            type: `discovery` has a fact; `solution` an error and a solution; `pattern` a pattern;
                `workflow` a sequence and a success_rate; `failure` what, impact and prevention; `rule` a path
                and a rule.
            confidence: From 0 to 1.
            examples: Paths of files that show it.
            tags: A few words to find it by.
            fact: What was discovered.
            error: What went wrong, as it was reported.
            solution: What solved it.
            pattern: How things are done here.
            sequence: The steps, in order.
            success_rate: How often the steps work, from 0 to 1.
            what: What failed.
            impact: What that did.
            prevention: How to avoid it.
            path: The files the rule is for.
            rule: The rule.
        """
        fields: dict[str, Any] = {
            "fact": fact,
            "error": error,
            "solution": solution,
            "pattern": pattern,
            "sequence": sequence,
            "success_rate": success_rate,
            "what": what,
            "impact": impact,
            "prevention": prevention,
            "path": path,
            "rule": rule,
        }
        given = {name: value for name, value in fields.items() if value is not None}
        return _stored(
            own.learn(type, confidence=confidence, examples=examples or (), tags=tags or (), **given)
        )

    def session_search(query: str, max_results: int = 5) -> dict[str, Any]:
        """Find what was said in earlier sessions of this project.

        Args:
            query: The words to look for.
            max_results: How many messages at most.
        """
        found = own.session_search(query, max_results=max_results)
        hits = [
            {
                "session": hit.session,
                "title": hit.title,
                "role": hit.role,
                "time": hit.time,
                "text": hit.preview,
            }
            for hit in found.hits
        ]
        return {"results": hits, "sessions": found.sessions, "degraded": list(found.degraded)}

    tools = (memory_search, memory_get, memory_store, memory_note, memory_learn, session_search)
    return FunctionToolset([_telling(tool) for tool in tools], id=id, instructions=_instructions())


def _instructions() -> str:
    """When to use the tools, and when not."""
    return resources.files("vademecum.adapters").joinpath("instructions.txt").read_text().strip()


def _telling(tool: Callable[P, dict[str, Any]]) -> Callable[P, dict[str, Any]]:
    """A tool whose answers hold no secret, and whose refusals reach the model and never end a run."""

    @functools.wraps(tool)
    def call(*args: P.args, **kwargs: P.kwargs) -> dict[str, Any]:
        try:
            answer: dict[str, Any] = clean_value(tool(*args, **kwargs))
        except VadeError as error:
            raise ToolFailed(told(error)) from error
        return answer

    return call


def _passage(found: Passage) -> dict[str, Any]:
    shown = {
        "path": found.path,
        "startLine": found.start,
        "endLine": found.end,
        "snippet": found.snippet,
        "score": round(found.score, 4),
        "source": found.source,
        "key": found.key,
        "scope": str(found.place.scope),
        "type": found.type,
        "time": found.time,
        "origin": found.origin,
        "superseded": found.superseded,
    }
    return {name: value for name, value in shown.items() if value is not None}


def _stored(stored: Stored) -> dict[str, Any]:
    return {
        "outcome": str(stored.outcome),
        "key": stored.key,
        "scope": str(stored.place.scope),
        "path": stored.path,
        "redacted": list(stored.secrets),
        **({} if stored.swept is None else {"swept": stored.swept.message}),
        **({"approval": stored.approval} if stored.approval else {}),
        **({} if stored.merged is None else {"merged": stored.merged._asdict()}),
    }


# -------------------------------------------------------------------- the window


class _Run:
    """What one run of an agent knows of its session."""

    def __init__(self, memory: Memory, session: str) -> None:
        self.memory = memory
        self.session = session
        self.history: list[ModelMessage] = []  # the run's own, which grows
        self.engine: ContextEngine | None = None
        self.served = ""  # the model that the engine was made for
        self.refused: Exception | None = None  # what the provider said of a request that was too long
        self.turn = threading.Lock()

    def prepare(
        self,
        messages: Sequence[Message],
        tools: Sequence[Json],
        *,
        model: str,
        window: int,
        complete: Complete | None,
    ) -> Prepared:
        """What to send: the whole window, or after a refusal a smaller one."""
        with self.turn:
            if self.engine is None or model != self.served:
                log = opened(self.memory, self.session)
                self.engine = self.memory.context(log, window=window, model=model, complete=complete)
                self.served = model
            refused, self.refused = self.refused, None
            if refused is None:
                return self.engine.prepare(messages, tools)
            try:
                return self.engine.overflowed(refused)
            except WindowFull as full:
                raise refused from full

    def observe(self, usage: Used) -> None:
        """A request was answered."""
        with self.turn:
            if self.engine is not None:
                self.engine.observe(usage)

    def keep(self, messages: Sequence[Message]) -> None:
        """Write to the log what was said since the last request."""
        with self.turn:
            if self.engine is not None:
                log = opened(self.memory, self.session)
                Thread(log, [*log.events()]).absorb(messages)


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
        if wanted not in {each.id for each in self.memory.sessions()}:
            return []
        return _theirs(self.memory.session_messages(wanted))

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
            raise UserError(f"the context window of {model.model_name} is not known: say it with `window=`")
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
        """Learn from what the provider counted."""
        used = response.usage
        if self._run is not None and used.input_tokens:
            event = Used(
                input=used.input_tokens,
                output=used.output_tokens,
                cached=used.cache_read_tokens,
                total=used.total_tokens,
                model=response.model_name or "",
            )
            await asyncio.to_thread(self._run.observe, event)
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
    return shape.read(ModelMessagesTypeAdapter.dump_python(list(messages), mode="json"))


def _theirs(messages: Sequence[Message]) -> list[ModelMessage]:
    return ModelMessagesTypeAdapter.validate_python(shape.write(messages))


def _schemas(parameters: ModelRequestParameters) -> list[Json]:
    """All that is sent beside the messages: tools, and the instructions, which are no part of any of them."""
    tools = [
        {"name": each.name, "description": each.description or "", "parameters": each.parameters_json_schema}
        for each in (*parameters.function_tools, *parameters.output_tools)
    ]
    words = [part.content for part in parameters.instruction_parts or ()]
    return [*tools, *([{"instructions": "\n\n".join(words)}] if words else [])]


def _asking(model: Model, loop: asyncio.AbstractEventLoop) -> Complete:
    """Questions of the engine, which waits in a thread, to the model, which lives on the loop."""

    def complete(messages: Sequence[Message], system: str, tools: Sequence[Json], seconds: float) -> Message:
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
