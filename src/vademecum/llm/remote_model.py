"""Call a model over the network through pydantic-ai, which is imported for the first question.

Text leaves the machine here, and only for a provider that the settings or a flag name. The library's own
retries are off: `net` decides about retries, as it does for embedders. A call runs in its own thread with its
own event loop, so that it works from a plain script, a thread, or inside a running event loop.
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
    MAX_CORRECTIONS,
    PROCESS,
    SECONDS,
    TOOL,
    AnswerKind,
    Budget,
    Call,
    InvalidAnswer,
    Limits,
    ModelAnswer,
    ModelUsage,
    Stream,
    Typed,
    check_needed,
    correction_request,
    estimate,
    shorten_problems,
)
from vademecum.llm.providers import PROVIDERS

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Sequence
    from contextlib import AbstractContextManager
    from decimal import Decimal

    import httpx2
    from pydantic_ai.messages import ModelMessage, ModelRequestPart, ModelResponse
    from pydantic_ai.models import Model as ProviderModel
    from pydantic_ai.models import ModelRequestParameters

    from vademecum.llm.base import Json, Prompt
    from vademecum.llm.providers import ModelEndpoint

T = TypeVar("T")

ATTEMPTS = 6  # for one request; the time limit usually ends it sooner
# The libraries refuse to work without a key; a server that needs no key ignores this one.
NO_KEY = "none"


@dataclass(slots=True)
class _Question:
    """A question to the model, and the tokens and requests used for it so far."""

    messages: list[ModelMessage]
    parameters: ModelRequestParameters
    limits: Limits
    estimated: int
    end: float  # on the monotonic clock
    key: str = field(repr=False)
    usage: ModelUsage | None = None
    attempts: int = 0

    def add_usage(self, usage: ModelUsage) -> None:
        self.usage = usage if self.usage is None else self.usage + usage

    @property
    def spent(self) -> int:
        return self.usage.tokens if self.usage else 0


class _CutOff(Exception):
    """Raised when a stream ends without the finish reason that every provider sends."""


class RemoteModel:
    """A model of a provider, called over the network."""

    def __init__(self, place: ModelEndpoint, *, seconds: float = SECONDS, budget: Budget = PROCESS) -> None:
        self._place = place
        self._seconds = seconds
        self.budget = budget

    def __repr__(self) -> str:
        return f"Remote({self.name!r})"

    @property
    def name(self) -> str:
        """The name by which settings and flags choose the model: `provider:name`."""
        return self._place.name

    @property
    def place(self) -> ModelEndpoint:
        """The model's provider and address."""
        return self._place

    def warm(self) -> None:
        """Import the libraries before the first question; a missing library is reported by that question."""
        with suppress(ModelFailed):
            _import_library(self._place)
            net.read_certificates()

    def text(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> ModelAnswer:
        """Ask for text, or for calls of the tools."""

        async def work(
            _: Callable[[str], None], provider_model: ProviderModel, question: _Question
        ) -> ModelAnswer:
            response = await self._request(provider_model, question)
            return self._answer(response, question)

        return finish(self._run(work, prompt, system, tools, limits))

    def stream(
        self, prompt: Prompt, *, system: str = "", tools: Sequence[Json] = (), limits: Limits | None = None
    ) -> Stream:
        """Ask as `text` does, and return the text as it arrives; after the first piece there are
        no retries.
        """

        async def work(
            emit: Callable[[str], None], provider_model: ProviderModel, question: _Question
        ) -> ModelAnswer:
            response = await self._request_stream(provider_model, question, emit)
            return self._answer(response, question)

        return Stream(self._run(work, prompt, system, tools, limits))

    def typed(
        self, prompt: Prompt, kind: type[T], *, system: str = "", limits: Limits | None = None
    ) -> Typed[T]:
        """Ask for a value of a dataclass or pydantic model; an answer of the wrong form may be corrected."""
        wanted = AnswerKind(kind)

        async def work(
            _: Callable[[str], None], provider_model: ProviderModel, question: _Question
        ) -> Typed[T]:
            question.parameters = _output(wanted)
            value = await self._request_typed(provider_model, question, wanted)
            return Typed(value, question.usage or ModelUsage(), self.name, question.attempts)

        return finish(self._run(work, prompt, system, (), limits, schema=wanted.schema))

    # ---------------------------------------------------------------- running

    def _run(
        self,
        work: Callable[[Callable[[str], None], ProviderModel, _Question], Awaitable[T]],
        prompt: Prompt,
        system: str,
        tools: Sequence[Json],
        limits: Limits | None,
        *,
        schema: Json = None,
    ) -> Generator[str, None, T]:
        """Run some work within the time limit: yield the pieces of its answer, then return its result.

        Errors are raised without a cause. `schema` counts towards the estimated size of the prompt.
        """
        limits = limits or Limits()
        seconds = self._seconds if limits.seconds is None else limits.seconds
        estimated = estimate(prompt, system=system, tools=[*tools, *([schema] if schema else [])])
        check_needed(estimated, limits)  # before any import
        key = self._key()
        _import_library(self._place)

        async def whole_work(emit: Callable[[str], None]) -> T | net.CallFailure:
            # Building a client reads certificates and prices, which counts as part of the time.
            end = time.monotonic() + seconds
            try:
                async with _open_model(self._place, key, seconds) as provider_model:
                    messages, parameters = _messages(prompt, system), _tools(tools)
                    return await work(
                        emit, provider_model, _Question(messages, parameters, limits, estimated, end, key)
                    )
            except Exception as error:  # foreign code may raise anything, and every error becomes a result
                return net.read_failure(error, self._place, key)

        failed: Exception
        try:
            result = yield from run_async(whole_work, seconds=seconds)
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

    # ---------------------------------------------------------------- requests

    async def _request(self, provider_model: ProviderModel, question: _Question) -> ModelResponse:
        """Send a request to the model, retry temporary failures, and record the usage."""
        from pydantic_ai.direct import model_request

        async def send() -> ModelResponse:
            return await model_request(
                provider_model,
                question.messages,
                model_settings=_settings(question),
                model_request_parameters=question.parameters,
            )

        with self._reserve_tokens(question):
            response = await self._send_with_retries(send, question)
            self._record(response, question)
        return response

    async def _request_stream(
        self, provider_model: ProviderModel, question: _Question, emit: Callable[[str], None]
    ) -> ModelResponse:
        from pydantic_ai.direct import model_request_stream

        pieces: list[str] = []

        async def send() -> ModelResponse:
            async with model_request_stream(
                provider_model,
                question.messages,
                model_settings=_settings(question),
                model_request_parameters=question.parameters,
            ) as stream:
                try:
                    async for event in stream:
                        if piece := _event_text(event):
                            pieces.append(piece)
                            emit(piece)
                finally:
                    response = stream.get()
                    if pieces:
                        self._record(response, question)
                if not _has_finish_reason(response):
                    raise _CutOff
                if not pieces:
                    self._record(response, question)
                return response

        with self._reserve_tokens(question):
            return await self._send_with_retries(send, question, pieces=pieces)

    async def _request_typed(
        self, provider_model: ProviderModel, question: _Question, wanted: AnswerKind[T]
    ) -> T:
        """Ask for a typed answer; if its form is wrong, name the errors and ask again, up to two times."""
        problems = ""
        for _ in range(1 + MAX_CORRECTIONS):
            response = await self._request(provider_model, question)
            if response.finish_reason == "content_filter":
                raise self._declined()
            try:
                return wanted.read(_answer_content(response))
            except InvalidAnswer as misfit:
                problems = str(misfit)
            if response.finish_reason == "length":
                raise ModelNonsense(
                    f"{self._place.where} ran out of tokens for the {wanted.name}",
                    hint="allow more tokens for the answer",
                )
            words = correction_request(problems)
            question.messages += [response, _reply(response, words)]
            question.estimated += estimate(_answer_content(response) + words)
        wrong = shorten_problems(problems)
        raise ModelNonsense(
            f"{self._place.where} gave no {wanted.name} in {1 + MAX_CORRECTIONS} answers: {wrong}"
        )

    async def _send_with_retries(
        self,
        send: Callable[[], Awaitable[ModelResponse]],
        question: _Question,
        *,
        pieces: Sequence[str] = (),
    ) -> ModelResponse:
        """Repeat a request until it works, cannot work, or time is up; never after text has arrived."""
        attempt = 0
        while True:
            attempt += 1
            question.attempts += 1
            try:
                return await send()
            except _CutOff:
                failure = net.cut_off_failure(self._place, "".join(pieces))
            except Exception as error:  # only temporary failures are retried below
                failure = net.read_failure(error, self._place, question.key)
            if pieces:
                cut = net.cut_off_failure(self._place, "".join(pieces))
                raise cut.error if failure.trouble.temporary else failure.error
            wait = net.next_wait(attempt, failure.trouble, end=question.end, most=ATTEMPTS)
            if wait is None:
                raise failure.error
            await asyncio.sleep(wait)

    # ---------------------------------------------------------------- usage

    def _reserve_tokens(self, question: _Question) -> AbstractContextManager[None]:
        total = check_needed(question.estimated + question.spent, question.limits)
        return self.budget.reserve(total - question.spent)

    def _record(self, response: ModelResponse, question: _Question) -> None:
        usage = self._usage(response, question)
        self.budget.add(self.name, usage)
        question.add_usage(usage)

    def _usage(self, response: ModelResponse, question: _Question) -> ModelUsage:
        reported = response.usage
        if reported.input_tokens or reported.output_tokens:
            return ModelUsage(reported.input_tokens, reported.output_tokens, self._price(response))
        # Some servers do not count tokens. Counting zero would make the budget endless.
        return ModelUsage(question.estimated, estimate(_answer_content(response)), counted=False)

    def _price(self, response: ModelResponse) -> Decimal | None:
        """Return the cost of an answer; None for a person's own server, whatever its models are called."""
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
    """Return the cost of an answer by public price lists, in dollars; None for an unknown model."""
    known = replace(response, model_name=response.model_name or model, provider_name=provider)
    try:
        return known.cost().total_price
    except (LookupError, ValueError, AssertionError):
        return None


# ------------------------------------------------------------ pydantic-ai


def _import_library(place: ModelEndpoint) -> None:
    """Import the library in the caller's thread, so that the import counts towards the caller's time."""
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
async def _open_model(place: ModelEndpoint, key: str, seconds: float) -> AsyncIterator[ProviderModel]:
    """Yield the library's model object with a connection of its own, which is closed afterwards."""
    import httpx2

    async with httpx2.AsyncClient(**net.client_options(place.endpoint, seconds)) as client:
        yield _provider_model(place, key or NO_KEY, client)


def _provider_model(place: ModelEndpoint, key: str, client: httpx2.AsyncClient) -> ProviderModel:
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
    """Return a text without lone surrogates, which servers do not accept."""
    return text.encode("utf-8", "replace").decode()


def _tools(tools: Sequence[Json]) -> ModelRequestParameters:
    from pydantic_ai.models import ModelRequestParameters
    from pydantic_ai.tools import ToolDefinition

    try:
        definitions = [
            ToolDefinition(
                name=str(each["name"]),
                description=str(each.get("description") or "") or None,
                parameters_json_schema=each.get("parameters") or {"type": "object", "properties": {}},
            )
            for each in tools
        ]
    except (KeyError, TypeError, AttributeError) as error:
        raise UsageError("a tool needs a name, a description and its parameters") from error
    return ModelRequestParameters(function_tools=definitions)


def _output(wanted: AnswerKind[Any]) -> ModelRequestParameters:
    """Return the request parameters for a typed answer in the way that suits the model: tool call, native or
    text.
    """
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


def _answer_content(response: ModelResponse) -> str:
    """Return the content of an answer: the arguments of its first call, else its text."""
    from pydantic_ai.messages import ToolCallPart

    for part in response.parts:
        if isinstance(part, ToolCallPart):
            return part.args_as_json_str()
    return response.text or ""


def _reply(response: ModelResponse, words: str) -> ModelMessage:
    """Return the message that says what is wrong with an answer: a result for each call, else a prompt."""
    from pydantic_ai.messages import ModelRequest, ToolCallPart, ToolReturnPart, UserPromptPart

    results: list[ModelRequestPart] = [
        ToolReturnPart(tool_name=part.tool_name, content=words, tool_call_id=part.tool_call_id)
        for part in response.parts
        if isinstance(part, ToolCallPart)
    ]
    return ModelRequest(results or [UserPromptPart(words)])


def _has_finish_reason(response: ModelResponse) -> bool:
    """Whether the provider itself sent a finish reason; the library would otherwise invent one."""
    details = response.provider_details or {}
    return bool(details.get("finish_reason")) or response.finish_reason == "content_filter"


def _event_text(event: object) -> str:
    """Return the text in a stream event; reasoning and arguments are not text."""
    from pydantic_ai.messages import PartDeltaEvent, PartStartEvent, TextPart, TextPartDelta

    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""


# ------------------------------------------------------------ asynchronous work for a synchronous caller


# The time that closing connections may take after the deadline; then the thread is abandoned.
GRACE = 2.0


def run_async(
    work: Callable[[Callable[[str], None]], Awaitable[T]], *, seconds: float
) -> Generator[str, None, T]:
    """Yield the text pieces of asynchronous work as they come, and return its result.

    Raises TimeoutError when time is up. Closing the generator cancels the work.
    """
    job = _Job(work, seconds)
    thread = threading.Thread(target=job.run, daemon=True, name="vademecum-llm")
    end = time.monotonic() + seconds + GRACE
    thread.start()
    try:
        while isinstance(item := _next(job.inbox, end), str):
            yield item
        return item.value()
    finally:
        job.cancel()
        # Sockets are closed before the caller continues; a running name lookup may take longer.
        thread.join(GRACE)


def finish(pieces: Generator[str, None, T]) -> T:
    """Run a generator to its end, and return only its result."""
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
    """The result of some work, or the error that the work raised."""

    def __init__(self, result: T | None = None, error: BaseException | None = None) -> None:
        self._result = result
        self._error = error

    def value(self) -> T:
        if self._error is not None:
            raise self._error
        return self._result  # type: ignore[return-value]  # there is a result if there is no error


class _Job(Generic[T]):
    """Some asynchronous work that runs in a thread of its own."""

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
        # A library may leave connections half closed; the loop cleans them up, without messages.
        asyncio.get_running_loop().set_exception_handler(lambda *_: None)
        try:
            async with asyncio.timeout(self._seconds):
                outcome = _Outcome(result=await self._work(self.inbox.put))
        except asyncio.CancelledError:
            outcome = _Outcome(error=TimeoutError())
        except BaseException as error:  # any error belongs to the caller, not to this thread
            outcome = _Outcome(error=error)
        with self._lock:
            self._over = True
        # Sent from inside the loop, because closing the loop waits for name lookups and the caller should
        # not.
        self.inbox.put(outcome)

    def cancel(self) -> None:
        """Stop the work, unless it has ended."""
        with self._lock:
            if not self._over and self._task is not None:
                self._task.get_loop().call_soon_threadsafe(self._task.cancel)
            self._over = True
