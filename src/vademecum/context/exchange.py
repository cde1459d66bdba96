"""One turn of a host with its model that cannot be half done: the question, the answers, what came between.

A turn writes down what is said as it is said: the question before anything is sent, each answer before the
host sees it, what the host adds at once. Whatever happens in the block, or is forgotten there, the log holds
what was said by then, and the host's own list says the same. A step of the engine is finished once it has
begun, also when the task that waits for it is cancelled.
"""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any, TypeVar

from vademecum.errors import UsageError, VadeError
from vademecum.llm.net import is_overflow
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import Used

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence
    from typing import Self

    from vademecum.context.engine import ContextEngine
    from vademecum.context.window import Prepared
    from vademecum.transcripts import Json

    Said = Message | str | Sequence[Message]
    Reply = Said | tuple[Said, Used]
    Tools = Sequence[Json] | Callable[[], Sequence[Json]]  # a function says which go with a request now
    Send = Callable[[tuple[Message, ...]], Reply]
    SendAwaited = Callable[[tuple[Message, ...]], Awaitable[Reply]]

R = TypeVar("R")


class Turn:
    """A turn under way; `engine.turn(messages, tools)` makes it, and `with` or `async with` begins it."""

    def __init__(self, engine: ContextEngine, messages: Sequence[Message], tools: Tools) -> None:
        # The host's own list where it has one, so that an answer cannot be missing from it.
        self.thread: list[Message] = messages if isinstance(messages, list) else [*messages]
        self.answers: tuple[Message, ...] = ()  # all that the model said in this turn
        self._engine = engine
        self._tools = tools
        self._prepared: Prepared | None = None  # None before the block and after it
        self._fits: tuple[list[Message], list[Json]] = [], []  # the thread and tools that were prepared
        self._last: tuple[int, int] = (0, 0)  # where the newest answer stands, and how many messages it has

    @property
    def prepared(self) -> Prepared:
        """What to send now, and what was done so that it fits."""
        if self._prepared is None:
            raise UsageError(
                "this turn is not in progress",
                hint="use `with engine.turn(messages, tools) as turn:`, and use the turn only inside that"
                " block",
            )
        return self._prepared

    # ---------------------------------------------------------------- what a host calls

    def send(self, call: Send) -> Message:
        """Let `call` send the messages it is given, and write down what it answers.

        It is called again with fewer of them while the provider refuses them as too long, and returns what
        the model said, as messages or a text, with `Used` beside it where the provider counts.
        """
        ready = self._ready()
        while True:
            try:
                made = call(ready.messages)
            except Exception as error:
                if not is_overflow(error):
                    raise
                ready = self.refused(error)
            else:
                return self.keep(made)

    async def asend(self, call: SendAwaited) -> Message:
        """The same with a `call` that is awaited; the engine works in a thread meanwhile."""
        ready = await _aside(self._ready)
        while True:
            try:
                made = await call(ready.messages)
            except Exception as error:
                if not is_overflow(error):
                    raise
                ready = await _aside(self.refused, error)
            else:
                return await _aside(self.keep, made)

    # Where a framework makes the call, these are what `send` does: it sends what is `prepared`.

    def refused(self, error: Exception) -> Prepared:
        """The provider refused it as too long: what to send instead; raises WindowFull in the end."""
        _ = self.prepared
        self._engine.learn_window(error)  # tools may be fewer in a window that is smaller by now
        tools = self._offered()
        self._record()
        self._prepared = self._engine.overflowed(error, tools)
        self._fits = [*self.thread], tools
        return self._prepared

    def keep(self, made: Reply) -> Message:
        """The model has answered: write it down, and what it cost."""
        _ = self.prepared
        said, used = read_reply(made)
        self._last = len(self.thread), len(said)
        self.thread += said
        self.answers += said
        self._record()
        self._engine.observe(used)
        self._engine.answered = len(said)
        return next(each for each in reversed(said) if each.role is Role.ASSISTANT)

    def add(self, messages: Message | Sequence[Message]) -> None:
        """Put messages at the end of the thread, as results of tools, and into the log."""
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
        await _aside(self._begin)
        return self

    async def __aexit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        await _aside(self._end, error)

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
        # What broke the block is what the host must hear of.
        with contextlib.suppress(*([VadeError] if error is not None else [])):
            self._record()
            if error is None and not self.answers:
                raise UsageError(
                    "the turn ended without an answer; the request is in the log",
                    hint="call the model with `turn.send(call)`, or raise its error",
                )

    # ---------------------------------------------------------------- steps

    def _offered(self) -> list[Json]:
        if callable(self._tools):
            self._record()  # it may never come back, and the host may have put something into its list
            return [*self._tools()]
        return [*self._tools]

    def _prepare(self) -> Prepared:
        tools = self._offered()
        self._drop_repeated()
        self._prepared = self._engine.prepare(self.thread, tools)
        self._fits = [*self.thread], tools
        return self._prepared

    def _ready(self) -> Prepared:
        ready, tools = self.prepared, self._offered()
        return ready if (self.thread, tools) == self._fits else self._prepare()

    def _record(self) -> None:
        self._drop_repeated()
        self._engine.record(self.thread)

    def _drop_repeated(self) -> None:
        drop_repeated(self.thread, *self._last)


def drop_repeated(thread: list[Message], at: int, many: int) -> None:
    """Take out an answer that the host has put behind itself once more."""
    behind = at + many
    while many and same_words(thread[at:behind], thread[behind : behind + many]):
        del thread[behind : behind + many]


def same_words(one: Sequence[object], other: Sequence[object]) -> bool:
    """Whether messages say the same; ids and times may be lost on their way through a host."""
    return len(one) == len(other) and all(
        isinstance(left, Message)
        and isinstance(right, Message)
        and (left.role, left.parts, left.name) == (right.role, right.parts, right.name)
        for left, right in zip(one, other, strict=True)
    )


def read_reply(made: Any) -> tuple[tuple[Message, ...], Used]:
    """What a host's call gave, as messages and what they cost; raises UsageError for what is no answer."""
    used = Used()
    if not isinstance(made, Message) and isinstance(made, tuple) and len(made) == 2:
        made, used = made if isinstance(made[1], Used) else (made, used)
    if isinstance(made, str):
        made = Message(Role.ASSISTANT, (Text(made),))
    said = (made,) if isinstance(made, Message) else made
    if (
        not isinstance(said, list | tuple)
        or not all(isinstance(each, Message) for each in said)
        or not any(each.role is Role.ASSISTANT for each in said)
    ):
        raise UsageError(
            f"the call gave {_kind(made)}, which is not a model's answer",
            hint="return a text or messages, as `shape(...).read([answer])` gives them, or one of them and"
            " `Used(...)`",
        )
    return tuple(said), used


def _kind(made: Any) -> str:
    if isinstance(made, list | tuple) and not isinstance(made, Message):
        kinds = dict.fromkeys(
            f"{each.role} messages" if isinstance(each, Message) else type(each).__name__ for each in made
        )
        return f"a {type(made).__name__} of {', '.join(kinds) or 'nothing'}"
    return f"a message of the {made.role}" if isinstance(made, Message) else type(made).__name__


async def _aside(step: Callable[..., R], *given: Any) -> R:
    """Make a step in a thread; one that has begun is finished before a cancellation goes on."""
    import asyncio

    task = asyncio.ensure_future(asyncio.to_thread(step, *given))
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task])
        raise
