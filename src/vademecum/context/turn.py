"""One turn of a host with its model, which is never half recorded: the question, the answers, and tool
results.

A turn logs every message at once: the question before the request is sent, each answer before the host sees
it, and whatever the host adds. If the block fails or leaves something out, the log and the host's own list
still hold every message so far. A step of the engine that has begun is finished even when the task that waits
for it is cancelled.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from vademecum.errors import UsageError, VadeError
from vademecum.llm.net import is_overflow
from vademecum.transcripts import Message, Role, Text, Used

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Self

    from vademecum.context.engine import ContextEngine
    from vademecum.context.window import Prepared
    from vademecum.transcripts import Json

    ReplyMessages = Message | str | Sequence[Message]
    Reply = ReplyMessages | tuple[ReplyMessages, Used]
    Tools = (
        Sequence[Json] | Callable[[], Sequence[Json]]
    )  # a function returns the tools of the current request
    Send = Callable[[tuple[Message, ...]], Reply]
    SendAwaited = Callable[[tuple[Message, ...]], Awaitable[Reply]]

R = TypeVar("R")


class Turn:
    """A host's exchange with its model; `engine.turn(messages, tools)` makes it, and `with` or `async with`
    begins it.
    """

    def __init__(self, engine: ContextEngine, messages: Sequence[Message], tools: Tools) -> None:
        # The host's own list, if it is a list, so that no answer can be missing from it.
        self.thread: list[Message] = messages if isinstance(messages, list) else [*messages]
        self.answers: tuple[Message, ...] = ()  # all messages of the model in this turn
        self._engine = engine
        self._tools = tools
        self._prepared: Prepared | None = None  # None before the block and after it
        self._prepared_for: tuple[list[Message], list[Json]] = (
            [],
            [],
        )  # the thread and tools of the prepared request
        self._last_answer: tuple[int, int] = (
            0,
            0,
        )  # the index of the newest answer, and its number of messages

    @property
    def prepared(self) -> Prepared:
        """The messages to send now, and what was done to make them fit."""
        if self._prepared is None:
            raise UsageError(
                "this turn is not in progress",
                hint="use `with engine.turn(messages, tools) as turn:`, and use the turn only inside that"
                " block",
            )
        return self._prepared

    # ---------------------------------------------------------------- for the host

    def send(self, call: Send) -> Message:
        """Let `call` send the prepared messages, and record its answer.

        `call` is called again with fewer messages while the provider refuses them as too long. It returns the
        model's answer, as messages or a text, together with `Used` if the provider counts tokens.
        """
        ready = self._ready()
        while True:
            try:
                reply = call(ready.messages)
            except Exception as error:
                if not is_overflow(error):
                    raise
                ready = self.refused(error)
            else:
                return self.keep(reply)

    async def asend(self, call: SendAwaited) -> Message:
        """Do the same as `send` with an asynchronous `call`; the engine's own steps run in a thread."""
        ready = await _run_in_thread(self._ready)
        while True:
            try:
                reply = await call(ready.messages)
            except Exception as error:
                if not is_overflow(error):
                    raise
                ready = await _run_in_thread(self.refused, error)
            else:
                return await _run_in_thread(self.keep, reply)

    # A framework that makes the call itself sends what is `prepared` and uses these methods instead of
    # `send`.

    def refused(self, error: Exception) -> Prepared:
        """Return a smaller request after the provider refused one as too long.

        Raises WindowFull if no smaller request is possible.
        """
        _ = self.prepared
        self._engine.learn_window(error)  # the window may be smaller now, so fewer tools may be offered
        tools = self._offered_tools()
        self._record()
        self._prepared = self._engine.overflowed(error, tools)
        self._prepared_for = [*self.thread], tools
        return self._prepared

    def keep(self, reply: Reply) -> Message:
        """Record the model's answer and its usage, and return the last message of the assistant in it."""
        _ = self.prepared
        messages, used = read_reply(reply)
        self._last_answer = len(self.thread), len(messages)
        self.thread += messages
        self.answers += messages
        self._record()
        self._engine.observe(used)
        self._engine.answered = len(messages)
        return next(message for message in reversed(messages) if message.role is Role.ASSISTANT)

    def add(self, messages: Message | Sequence[Message]) -> None:
        """Append messages, such as tool results, to the thread and the log."""
        _ = self.prepared
        self.thread += [messages] if isinstance(messages, Message) else messages
        self._record()

    # ---------------------------------------------------------------- the block

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        self._end(error)

    async def __aenter__(self) -> Self:
        await _run_in_thread(self._begin)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await _run_in_thread(self._end, error)

    def _begin(self) -> None:
        self._engine.begin_turn(self)
        try:
            self._engine.check_answered(self.thread)
            self._record()
            self._prepare()
        except BaseException:
            self._engine.end_turn(self)
            raise

    def _end(self, error: BaseException | None) -> None:
        _ = self.prepared
        self._prepared = None
        self._engine.end_turn(self)
        # The caller must see the error that ended the block, not a later one.
        with contextlib.suppress(*([VadeError] if error is not None else [])):
            self._record()
            if error is None and not self.answers:
                raise UsageError(
                    "the turn ended without an answer; the request is in the log",
                    hint="call the model with `turn.send(call)`, or raise its error",
                )

    # ---------------------------------------------------------------- steps

    def _offered_tools(self) -> list[Json]:
        if callable(self._tools):
            self._record()  # the function may never return, and the host may have added messages to its list
            return [*self._tools()]
        return [*self._tools]

    def _prepare(self) -> Prepared:
        tools = self._offered_tools()
        self._drop_repeated()
        self._prepared = self._engine.prepare(self.thread, tools)
        self._prepared_for = [*self.thread], tools
        return self._prepared

    def _ready(self) -> Prepared:
        ready, tools = self.prepared, self._offered_tools()
        return ready if (self.thread, tools) == self._prepared_for else self._prepare()

    def _record(self) -> None:
        self._drop_repeated()
        self._engine.record(self.thread)

    def _drop_repeated(self) -> None:
        drop_repeated_answer(self.thread, *self._last_answer)


def drop_repeated_answer(thread: list[Message], at: int, many: int) -> None:
    """Remove copies that directly follow an answer: the `many` messages at index `at` of the thread."""
    behind = at + many
    while many and same_content(thread[at:behind], thread[behind : behind + many]):
        del thread[behind : behind + many]


def same_content(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether two lists hold messages with equal content; ids and times are ignored: a host may lose them."""
    return len(one) == len(other) and all(
        isinstance(left, Message)
        and isinstance(right, Message)
        and (left.role, left.parts, left.name) == (right.role, right.parts, right.name)
        for left, right in zip(one, other, strict=True)
    )


def read_reply(reply: Any) -> tuple[tuple[Message, ...], Used]:
    """Return the messages and usage that a host's call returned; raises UsageError if it is no answer."""
    used = Used()
    if not isinstance(reply, Message) and isinstance(reply, tuple) and len(reply) == 2:
        reply, used = reply if isinstance(reply[1], Used) else (reply, used)
    if isinstance(reply, str):
        reply = Message(Role.ASSISTANT, (Text(reply),))
    messages = (reply,) if isinstance(reply, Message) else reply
    if (
        not isinstance(messages, list | tuple)
        or not all(isinstance(message, Message) for message in messages)
        or not any(message.role is Role.ASSISTANT for message in messages)
    ):
        raise UsageError(
            f"the call gave {_kind(reply)}, which is not a model's answer",
            hint="return a text or messages, as `shape(...).read([answer])` gives them, or one of them and"
            " `Used(...)`",
        )
    return tuple(messages), used


def _kind(made: Any) -> str:
    if isinstance(made, list | tuple) and not isinstance(made, Message):
        kinds = dict.fromkeys(
            f"{each.role} messages" if isinstance(each, Message) else type(each).__name__ for each in made
        )
        return f"a {type(made).__name__} of {', '.join(kinds) or 'nothing'}"
    return f"a message of the {made.role}" if isinstance(made, Message) else type(made).__name__


async def _run_in_thread(step: Callable[..., R], *arguments: Any) -> R:
    """Run a step of the engine in a thread; if the caller is cancelled, finish the step first."""
    import asyncio

    task = asyncio.ensure_future(asyncio.to_thread(step, *arguments))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
