"""Ask a model over the network through pydantic-ai, which is imported when the first question is asked.

Text leaves the machine here, and only for a provider the settings or a flag name. The library's own retries
are off: when it is tried again is `net`'s affair, as for embedders. The asking has a thread and an event loop
of its own, so it may be asked for from a plain script, a thread, or inside somebody else's event loop.
"""

from __future__ import annotations

import asyncio
import json
import queue
import threading
import time
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from vademecum.errors import ModelFailed, ModelNonsense, ModelUnauthorised, UsageError
from vademecum.llm import net
from vademecum.llm.base import (
    MENDS,
    PROCESS,
    SECONDS,
    TOOL,
    AnswerKind,
    Budget,
    Call,
    Limits,
    Misfit,
    ModelAnswer,
    ModelUsage,
    Stream,
    Typed,
    check_needed,
    estimate,
    mend_request,
    shorten_problems,
)
from vademecum.llm.select import PROVIDERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
    from contextlib import AbstractContextManager
    from decimal import Decimal

    import httpx2
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model as Asking
    from pydantic_ai.models import ModelRequestParameters

    from vademecum.llm.base import Json, Prompt
    from vademecum.llm.select import ModelEndpoint

T = TypeVar("T")

ATTEMPTS = 6  # of one request; the time limit usually ends it sooner
# The libraries refuse to be made without a key; a server that needs none does not look at it.
NO_KEY = "none"


@dataclass(slots=True)
class _Question:
    """One question and what has been used up for it so far."""

    messages: list[ModelMessage]
    parameters: ModelRequestParameters
    limits: Limits
    estimated: int
    end: float  # on the monotonic clock
    key: str = field(repr=False)
    usage: ModelUsage | None = None
    attempts: int = 0

    def used(self, usage: ModelUsage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def spent(self) -> int:
        return self.usage.tokens if self.usage else 0


class _CutOff(Exception):
    """A stream that ended without saying why: every provider says why it ends."""


class RemoteModel:
    """One model of one provider."""

    def __init__(self, place: ModelEndpoint, *, seconds: float = SECONDS, budget: Budget = PROCESS) -> None:
        self._place = place
        self._seconds = seconds
        self.budget = budget

    def __repr__(self) -> str:
        return f"Remote({self.name!r})"

    @property
    def name(self) -> str:
        """How it is chosen: `provider:name`."""
        return self._place.name

    @property
    def place(self) -> ModelEndpoint:
        """Where it is."""
        return self._place

    def warm(self) -> None:
        """Import ahead of the first question what it will need; a library that is missing is told then."""
        with suppress(ModelFailed):
            _imported(self._place)
            net.read_certificates()

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Ask for words, or for calls of the tools."""

        async def work(_: Callable[[str], None], asking: Asking, question: _Question) -> ModelAnswer:
            response = await self._request(asking, question)
            return self._answer(response, question)

        return finish(self._run(work, prompt, system, tools, limits))

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> Stream:
        """Ask as `text` does, and give the words as they come; after the first, nothing is tried again."""

        async def work(emit: Callable[[str], None], asking: Asking, question: _Question) -> ModelAnswer:
            response = await self._streamed(asking, question, emit)
            return self._answer(response, question)

        return Stream(self._run(work, prompt, system, tools, limits))

    def typed(
        self, prompt: Prompt, kind: type[T], *, system: str = "", limits: Limits | None = None
    ) -> Typed[T]:
        """Ask for a value of a dataclass or a pydantic model; what does not fit is asked for again."""
        wanted = AnswerKind(kind)

        async def work(_: Callable[[str], None], asking: Asking, question: _Question) -> Typed[T]:
            question.parameters = _output(wanted)
            value = await self._mended(asking, question, wanted)
            return Typed(value, question.usage or ModelUsage(), self.name, question.attempts)

        return finish(self._run(work, prompt, system, (), limits, schema=wanted.schema))

    # Running.

    def _run(
        self,
        work: Callable[[Callable[[str], None], Asking, _Question], Awaitable[T]],
        prompt: Prompt,
        system: str,
        tools: Sequence[Json],
        limits: Limits | None,
        *,
        schema: Json = None,
    ) -> Generator[str, None, T]:
        """Do the work within the time limit; what goes wrong is raised here, with nothing behind it."""
        limits = limits or Limits()
        seconds = self._seconds if limits.seconds is None else limits.seconds
        estimated = estimate(prompt, system=system, tools=[*tools, *([schema] if schema else [])])
        check_needed(estimated, limits)  # before anything is imported for it
        key = self._key()
        _imported(self._place)

        async def whole(emit: Callable[[str], None]) -> T | net.CallFailure:
            # Building a client reads certificates and prices; that is part of the time, too.
            end = time.monotonic() + seconds
            try:
                async with _opened(self._place, key, seconds) as asking:
                    messages, parameters = _messages(prompt, system), _tools(tools)
                    return await work(
                        emit, asking, _Question(messages, parameters, limits, estimated, end, key)
                    )
            except Exception as error:  # a stranger's code below: whatever it raises is an outcome
                return net.read_failure(error, self._place, key)

        failed: Exception
        try:
            result = yield from run_async(whole, seconds=seconds)
        except TimeoutError:
            failed = net.timeout_error(self._place, seconds)
        else:
            if not isinstance(result, net.CallFailure):
                return result
            failed = result.error
        raise failed

    def _key(self) -> str:
        return net.read_key(
            self._place.key_env,
            who=self.name,
            needed=self._place.own,
            refused=ModelUnauthorised,
            instead="choose another model; models are optional",
        )

    # Asking.

    async def _request(self, asking: Asking, question: _Question) -> ModelResponse:
        """Send a request, again when it fails in a way that may pass, and put it on record."""
        from pydantic_ai.direct import model_request

        async def send() -> ModelResponse:
            return await model_request(
                asking,
                question.messages,
                model_settings=_settings(question),
                model_request_parameters=question.parameters,
            )

        with self._held(question):
            response = await self._patiently(send, question)
            self._record(response, question)
        return response

    async def _streamed(
        self, asking: Asking, question: _Question, emit: Callable[[str], None]
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request_stream

        said: list[str] = []

        async def send() -> ModelResponse:
            async with model_request_stream(
                asking,
                question.messages,
                model_settings=_settings(question),
                model_request_parameters=question.parameters,
            ) as stream:
                try:
                    async for event in stream:
                        if piece := _words(event):
                            said.append(piece)
                            emit(piece)
                finally:
                    response = stream.get()
                    if said:
                        self._record(response, question)
                if not _ended(response):
                    raise _CutOff
                if not said:
                    self._record(response, question)
                return response

        with self._held(question):
            return await self._patiently(send, question, said=said)

    async def _mended(self, asking: Asking, question: _Question, wanted: AnswerKind[T]) -> T:
        """Ask until the answer fits, and tell the model each time what does not."""
        problems = ""
        for _ in range(1 + MENDS):
            response = await self._request(asking, question)
            if response.finish_reason == "content_filter":
                raise self._declined()
            try:
                return wanted.read(_said(response))
            except Misfit as misfit:
                problems = str(misfit)
            if response.finish_reason == "length":
                raise ModelNonsense(
                    f"{self._place.where} ran out of tokens for the {wanted.name}",
                    hint="allow more tokens for the answer",
                )
            words = mend_request(problems)
            question.messages += [response, _reply(response, words)]
            question.estimated += estimate(_said(response) + words)
        wrong = shorten_problems(problems)
        raise ModelNonsense(f"{self._place.where} gave no {wanted.name} in {1 + MENDS} answers: {wrong}")

    async def _patiently(
        self,
        send: Callable[[], Awaitable[ModelResponse]],
        question: _Question,
        *,
        said: Sequence[str] = (),
    ) -> ModelResponse:
        """Try until it works, it cannot work, or there is no time is left; with words said, only once."""
        attempt = 0
        while True:
            attempt += 1
            question.attempts += 1
            try:
                return await send()
            except _CutOff:
                failure = net.cut_off_failure(self._place, "".join(said))
            except Exception as error:  # read below: only what may pass goes on
                failure = net.read_failure(error, self._place, question.key)
            if said:
                cut = net.cut_off_failure(self._place, "".join(said))
                raise cut.error if failure.trouble.passing else failure.error
            wait = net.next_wait(attempt, failure.trouble, end=question.end, most=ATTEMPTS)
            if wait is None:
                raise failure.error
            await asyncio.sleep(wait)

    # What it took.

    def _held(self, question: _Question) -> AbstractContextManager[None]:
        total = check_needed(question.estimated + question.spent, question.limits)
        return self.budget.holding(total - question.spent)

    def _record(self, response: ModelResponse, question: _Question) -> None:
        usage = self._usage(response, question)
        self.budget.add(self.name, usage)
        question.used(usage)

    def _usage(self, response: ModelResponse, question: _Question) -> ModelUsage:
        used = response.usage
        if used.input_tokens or used.output_tokens:
            return ModelUsage(used.input_tokens, used.output_tokens, self._price(response))
        # Not every server counts. A budget that takes this for nothing would never end.
        return ModelUsage(question.estimated, estimate(_said(response)), counted=False)

    def _price(self, response: ModelResponse) -> Decimal | None:
        """What it costs; a server of the person's own has no price, whatever its models are called."""
        if not self._place.own or self._place.local:
            return None
        return price(self._place.provider, self._place.model, response)

    def _answer(self, response: ModelResponse, question: _Question) -> ModelAnswer:
        from pydantic_ai.messages import ModelMessagesTypeAdapter, ToolCallPart

        calls = tuple(
            Call(part.tool_call_id, part.tool_name, part.args_as_json_str())
            for part in response.parts
            if isinstance(part, ToolCallPart)
        )
        text = response.text or ""
        if response.finish_reason == "content_filter":
            raise self._declined()
        if not text.strip() and not calls:
            raise ModelNonsense(f"{self._place.where} gave an empty answer")
        return ModelAnswer(
            text,
            question.usage or ModelUsage(),
            self.name,
            question.attempts,
            calls,
            response.finish_reason == "length",
            ModelMessagesTypeAdapter.dump_python([response], mode="json")[0],
        )

    def _declined(self) -> ModelFailed:
        return net.declined_error(self._place)


def price(provider: str, model: str, response: ModelResponse) -> Decimal | None:
    """What an answer costs by the public price lists, in dollars; None where they do not know the model."""
    known = replace(response, model_name=response.model_name or model, provider_name=provider)
    try:
        return known.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None


# Talking to the library.


def _imported(place: ModelEndpoint) -> None:
    """Import the library here, in the caller's thread and time."""
    try:
        import pydantic_ai.direct

        if place.provider == "anthropic":
            import pydantic_ai.models.anthropic
        elif place.provider == "google":
            import pydantic_ai.models.google
        else:
            import pydantic_ai.models.openai  # noqa: F401
    except ImportError as error:
        extra = PROVIDERS[place.provider].extra
        raise ModelFailed(
            f"{place.name} needs a library that is not installed: pip install 'vademecum[{extra}]'",
            hint="nothing else depends on it",
        ) from error


@asynccontextmanager
async def _opened(place: ModelEndpoint, key: str, seconds: float) -> AsyncIterator[Asking]:
    """A model with a connection of its own, which goes with it."""
    import httpx2

    async with httpx2.AsyncClient(**net.client_options(place.endpoint, seconds)) as client:
        yield _asking(place, key or NO_KEY, client)


def _asking(place: ModelEndpoint, key: str, client: httpx2.AsyncClient) -> Asking:
    if place.provider == "anthropic":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        return AnthropicModel(
            place.model,
            provider=AnthropicProvider(api_key=key, base_url=place.endpoint, http_client=client),
        )
    if place.provider == "google":
        from pydantic_ai.models.google import GoogleModel
        from pydantic_ai.providers.google import GoogleProvider

        return GoogleModel(
            place.model, provider=GoogleProvider(api_key=key, base_url=place.endpoint, http_client=client)
        )
    from pydantic_ai.models.openai import OpenAIChatModel

    if place.provider == "ollama":
        from pydantic_ai.models.ollama import OllamaModel
        from pydantic_ai.providers.ollama import OllamaProvider

        return OllamaModel(
            place.model, provider=OllamaProvider(base_url=place.endpoint, api_key=key, http_client=client)
        )
    if place.provider == "openai":
        from pydantic_ai.providers.openai import OpenAIProvider

        return OpenAIChatModel(
            place.model, provider=OpenAIProvider(base_url=place.endpoint, api_key=key, http_client=client)
        )
    from pydantic_ai.providers.openai_compatible import OpenAICompatibleProvider

    return OpenAIChatModel(
        place.model,
        provider=OpenAICompatibleProvider(
            "compatible", base_url=place.endpoint, api_key=key, http_client=client
        ),
    )


def _settings(question: _Question) -> Any:
    from pydantic_ai.settings import ModelSettings

    settings = ModelSettings(max_retries=0, timeout=max(question.end - time.monotonic(), 0.1))
    if question.limits.output is not None:
        settings["max_tokens"] = question.limits.output
    return settings


def _messages(prompt: Prompt, system: str) -> list[ModelMessage]:
    from pydantic import ValidationError
    from pydantic_ai.messages import ModelMessagesTypeAdapter, ModelRequest, UserPromptPart

    if isinstance(prompt, str):
        return [ModelRequest([UserPromptPart(_sendable(prompt))], instructions=_sendable(system) or None)]
    try:
        text = _sendable(json.dumps(list(prompt), ensure_ascii=False))
        messages = ModelMessagesTypeAdapter.validate_json(text)
    except (ValidationError, TypeError, ValueError, RecursionError) as error:
        raise UsageError("the conversation is not in pydantic-ai's JSON") from error
    if not messages or not isinstance(messages[-1], ModelRequest):
        raise UsageError("the conversation does not end with a question")
    last = replace(messages[-1], instructions=_sendable(system) or messages[-1].instructions)
    return [*messages[:-1], last]


def _sendable(text: str) -> str:
    """A lone surrogate is no text to a server."""
    return text.encode("utf-8", "replace").decode()


def _tools(tools: Sequence[Json]) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    try:
        listed = [
            ToolDefinition(
                name=str(each["name"]),
                description=str(each.get("description") or "") or None,
                parameters_json_schema=each.get("parameters") or {"type": "object", "properties": {}},
            )
            for each in tools
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError("a tool needs a name, a description and its parameters") from error
    return ModelRequestParameters(function_tools=listed)


def _output(wanted: AnswerKind[Any]) -> ModelRequestParameters:
    """Ask for a value in the way the model is best at: as a call of a tool, natively, or in words."""
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.output import OutputObjectDefinition
    from pydantic_ai.tools import ToolDefinition

    return ModelRequestParameters(
        output_mode="auto",
        output_tools=[
            ToolDefinition(
                name=TOOL,
                description=wanted.description,
                parameters_json_schema=wanted.schema,
                kind="output",
            )
        ],
        output_object=OutputObjectDefinition(
            json_schema=wanted.schema, name=wanted.name, description=wanted.description
        ),
        allow_text_output=False,
    )


def _said(response: ModelResponse) -> str:
    """What an answer holds: the arguments of its first call, else its words."""
    from pydantic_ai.messages import ToolCallPart

    for part in response.parts:
        if isinstance(part, ToolCallPart):
            return part.args_as_json_str()
    return response.text or ""


def _reply(response: ModelResponse, words: str) -> ModelMessage:
    """Our word on an answer; every call in it must have its result."""
    from pydantic_ai.messages import ModelRequest, ToolCallPart, ToolReturnPart, UserPromptPart

    results: list[ModelRequestPart] = [
        ToolReturnPart(tool_name=part.tool_name, content=words, tool_call_id=part.tool_call_id)
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    return ModelRequest(results or [UserPromptPart(words)])


def _ended(response: ModelResponse) -> bool:
    """Whether the provider itself said why it stopped; the library would make it up."""
    details = response.provider_details or {}
    return bool(details.get("finish_reason")) or response.finish_reason == "content_filter"


def _words(event: object) -> str:
    """The words that an event of a stream brings; thoughts and arguments are none."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


# ------------------------------------------------------------ asynchronous work for a synchronous caller


# What closing connections may take after the time is up; then the thread is left alone.
GRACE = 2.0


def run_async(
    work: Callable[[Callable[[str], None]], Awaitable[T]], *, seconds: float
) -> Generator[str, None, T]:
    """Give the pieces that the work emits, and return its result; raises TimeoutError when time is up.

    Closing the generator cancels the work.
    """
    job = _Job(work, seconds)
    thread = threading.Thread(target=job.run, daemon=True, name="vademecum-llm")
    end = time.monotonic() + seconds + GRACE
    thread.start()
    try:
        while isinstance(said := _next(job.inbox, end), str):
            yield said
        return said.value()
    finally:
        job.cancel()
        # Sockets are closed before the caller goes on; a name that is still looked up may take longer.
        thread.join(GRACE)


def finish(pieces: Generator[str, None, T]) -> T:
    """Run to the end and give the result alone."""
    while True:
        try:
            next(pieces)
        except StopIteration as done:
            value: T = done.value
            return value


def _next(inbox: queue.SimpleQueue[str | _Outcome[T]], end: float) -> str | _Outcome[T]:
    try:
        return inbox.get(timeout=max(end - time.monotonic(), 0.01))
    except queue.Empty:
        raise TimeoutError from None


class _Outcome(Generic[T]):
    """How the work ended."""

    def __init__(self, result: T | None = None, error: BaseException | None = None) -> None:
        self._result = result
        self._error = error

    def value(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # there is one when there is no error


class _Job(Generic[T]):
    """The work in its thread."""

    def __init__(self, work: Callable[[Callable[[str], None]], Awaitable[T]], seconds: float) -> None:
        self.inbox: queue.SimpleQueue[str | _Outcome[T]] = queue.SimpleQueue()
        self._work = work
        self._seconds = seconds
        self._lock = threading.Lock()
        self._task: asyncio.Task[Any] | None = None
        self._over = False

    def run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        with self._lock:
            if self._over:
                return
            self._task = asyncio.current_task()
        # What a library leaves half closed is tidied up with the loop, and is nobody's news.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        try:
            async with asyncio.timeout(self._seconds):
                outcome = _Outcome(result=await self._work(self.inbox.put))
        except asyncio.CancelledError:
            outcome = _Outcome(error=TimeoutError())
        except BaseException as error:  # whatever it is, it belongs to the caller, not to this thread
            outcome = _Outcome(error=error)
        with self._lock:
            self._over = True
        # From inside the loop: closing it waits for names that are still looked up, the caller does not.
        self.inbox.put(outcome)

    def cancel(self) -> None:
        """Stop the work, unless it is over."""
        with self._lock:
            if not self._over and self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            self._over = True
