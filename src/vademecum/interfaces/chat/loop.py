"""One turn: make the window ready, let the model speak, do what it asks for, and go on until it has answered.

What was said is in the log before it is sent, and what is answered as soon as it is there: whatever happens
in between, a session can be gone on with, and no turn is in it twice.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.context.no_reply import ReplyListener, is_silent
from vademecum.errors import ModelFailed, ModelNonsense, ModelOverflow, VadeError, WindowFull
from vademecum.interfaces.chat import tools
from vademecum.interfaces.chat.state import NO_MODEL, used
from vademecum.llm.base import CallUsage, Limits
from vademecum.llm.failures import is_overflow
from vademecum.store import outgoing
from vademecum.transcripts.messages import Message, Role, Text
from vademecum.transcripts.shapes import pydantic_ai as shape

if TYPE_CHECKING:
    from vademecum.context.window import Prepared
    from vademecum.interfaces.chat.state import Chat
    from vademecum.llm.base import Call, ModelAnswer

ROUNDS = 50  # of tool calls in one turn
LONGER = 5  # times `llm.timeout`, for an answer that is read while it comes
_CHARS_PER_TOKEN = 8  # no model says more in one; what goes beyond is not heeded any more
# How servers word it that a model cannot call tools: Ollama, vLLM, OpenRouter, llama.cpp.
_NO_TOOLS = re.compile(
    r"\b(?:tool|function)[^.]{0,60}\b(?:not|n't)\b[^.]{0,20}\b(?:support|allow|implement)"
    r"|(?:not|n't|no)(?: \w+){0,2} support[^.]{0,40}\b(?:tool|function)"
    r"|tools param requires",
    re.IGNORECASE,
)
EMPTY = "[stopped before the first word]"
DONE = "🧹 Auto-compaction complete"


class Outcome(NamedTuple):
    """How a turn ended: the last words of the model, and why it ended if not by itself."""

    text: str = ""
    trouble: str = ""
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether there is an answer."""
        return not self.trouble and not self.interrupted


class Stopped(Exception):
    """An answer that broke off: by the person, by its length, or by a failure."""

    def __init__(self, said: str, error: ModelFailed | None = None, *, too_long: bool = False) -> None:
        super().__init__()
        self.said = said
        self.error = error
        self.too_long = too_long


def turn(chat: Chat, text: str) -> Outcome:
    """Let the person say something and the model answer; never raises for what a model or a tool does."""
    if chat.model is None:
        chat.screen.error(NO_MODEL)
        return Outcome(trouble=NO_MODEL)
    before = chat.spent.total
    try:
        outcome = _answered(chat, text)
    except KeyboardInterrupt:
        chat.screen.dim("stopped")
        outcome = Outcome(interrupted=True)
    except WindowFull as error:
        outcome = _failed(chat, too_small(chat, error))
    except VadeError as error:
        outcome = _failed(chat, f"{error}: {error.hint}")
    chat.last = CallUsage(
        chat.spent.total.input - before.input,
        chat.spent.total.output - before.output,
        None if chat.spent.total.cost is None else chat.spent.total.cost - (before.cost or 0),
        chat.spent.total.counted,
    )
    _footer(chat)
    _propose(chat, text)
    return outcome


def _failed(chat: Chat, why: str) -> Outcome:
    chat.screen.error(why)
    return Outcome(trouble=why)


def _answered(chat: Chat, text: str) -> Outcome:
    text = _sendable(chat, text)
    last = chat.thread[-1]
    # Asked again after a failure or a crash: the turn is in the log already, and has no answer.
    if not (last.role is Role.USER and last.text == text):
        chat.thread.append(Message(Role.USER, (Text(text),)))
    for _ in range(ROUNDS):
        ready = chat.engine.prepare(chat.thread, chat.offered())
        _tell(chat, ready)
        try:
            answer = _ask(chat, ready)
        except Stopped as stop:
            return _broken(chat, stop)
        message = shape.read([answer.message])[0]
        chat.thread.append(message)
        chat.engine.record(chat.thread)
        if answer.cut:
            chat.screen.dim(f"the answer reached its limit of {chat.reply:,} tokens; say `go on` for more")
        if not answer.calls:
            return Outcome("" if is_silent(answer.text) else answer.text)
        _work(chat, answer.calls)
    chat.engine.record(chat.thread)
    chat.screen.dim(f"stopped after {ROUNDS} rounds of tools; say `go on` for more")
    return Outcome(trouble=f"it went on for {ROUNDS} rounds of tools")


def _sendable(chat: Chat, text: str) -> str:
    """What the person said, without what looks like a secret: a model is never sent one."""
    with outgoing.noticing() as hidden:
        clean = outgoing.clean_text(text)
    if hidden:
        chat.screen.dim(f"redacted before it is sent: {', '.join(sorted(hidden))}")
    return clean


def _work(chat: Chat, calls: tuple[Call, ...]) -> None:
    """Do what the model asks for; a person who stops it leaves every call with a result."""
    results = []
    try:
        for each in calls:
            results.append(tools.call(chat, each))
    except KeyboardInterrupt:
        results += [tools.stopped(each) for each in calls[len(results) :]]
        raise
    finally:
        chat.thread.append(Message(Role.TOOL, tuple(results)))
        chat.engine.record(chat.thread)


# ---------------------------------------------------------------- asking the model


def _ask(chat: Chat, ready: Prepared) -> ModelAnswer:
    """An answer; what the provider refuses as too long is made smaller, until it cannot be."""
    offered = chat.offered()
    while True:
        try:
            answer = _streamed(chat, ready, offered)
        except ModelOverflow as error:
            ready = chat.engine.overflowed(error)
            _tell(chat, ready)
        except ModelFailed as error:
            if is_overflow(error):
                ready = chat.engine.overflowed(error)
                _tell(chat, ready)
            elif offered and _NO_TOOLS.search(str(error)):
                chat.tools_on, offered = False, []
                chat.screen.dim(f"{chat.model_name} takes no tools: it goes on without them")
                ready = chat.engine.prepare(chat.thread)
            else:
                raise
        else:
            chat.spent.add(answer.usage)
            chat.engine.observe(used(answer.usage, answer.model))
            return answer


def _streamed(chat: Chat, ready: Prepared, offered: list[object]) -> ModelAnswer:
    assert chat.model is not None  # the turn has looked
    said: list[str] = []
    length, most = 0, chat.reply * _CHARS_PER_TOKEN
    limits = Limits(seconds=LONGER * chat.settings.llm.timeout, output=chat.reply)
    prompt = shape.write(ready.messages)
    try:
        with (
            chat.model.stream(prompt, tools=offered, limits=limits) as stream,
            chat.screen.answer() as show,
        ):
            listener = ReplyListener()
            for piece in stream:
                said.append(piece)
                length += len(piece)
                if length > most:
                    raise Stopped("".join(said)[:most], too_long=True)
                listener, heard = listener.feed(piece)
                if heard:
                    show(heard)
            if held := listener.finish():
                show(held)
            return stream.answer
    except KeyboardInterrupt:
        raise Stopped("".join(said)) from None
    except ModelFailed as error:
        if said and not isinstance(error, ModelOverflow | ModelNonsense):
            raise Stopped("".join(said), error) from error
        raise


def _broken(chat: Chat, stop: Stopped) -> Outcome:
    """Keep what came of an answer that broke off, and say why it did."""
    chat.thread.append(
        Message(
            Role.ASSISTANT,
            (Text(stop.said or EMPTY),),
            model=chat.model_name,
            extra={"vademecum": {"interrupted": True}},
        )
    )
    chat.engine.record(chat.thread)
    if stop.error is not None:
        return _failed(chat, f"{stop.error}: what came of the answer is kept")._replace(text=stop.said)
    if stop.too_long:
        return _failed(chat, f"the answer did not end within {chat.reply:,} tokens: it was stopped and kept")
    chat.screen.dim("stopped; what came of the answer is kept")
    return Outcome(stop.said, interrupted=True)


# ---------------------------------------------------------------- what is said beside it


def _tell(chat: Chat, ready: Prepared) -> None:
    """What happened to the window, for who wants to know."""
    if not chat.flags.verbose:
        return
    if ready.flushed:
        chat.screen.dim(f"memory flush: {ready.flushed}")
    if ready.pruned:
        chat.screen.dim(f"{len(ready.pruned)} old tool results were made shorter")
    if ready.trimmed or ready.compacted:
        chat.screen.dim(f"{DONE} ({ready.why}): {ready.tokens.total:,} of {ready.tokens.context:,} tokens")


def _footer(chat: Chat) -> None:
    if chat.footer == "off":
        return
    about = "" if chat.last.counted else "about "
    chat.screen.dim(f"{about}{chat.last.input:,} tokens in, {chat.last.output:,} out")
    if chat.footer == "full":
        tokens = chat.filled()
        cost = f", ${chat.spent.total.cost:.4f}" if chat.spent.total.cost is not None else ""
        chat.screen.dim(
            f"this chat: {chat.spent.total.tokens:,} tokens in {chat.spent.calls:,} calls{cost};"
            f" window {tokens.total:,} of {tokens.context:,}"
        )


def _propose(chat: Chat, text: str) -> None:
    """Say what of a message is worth keeping; it is kept when the person says so."""
    if chat.settings.incognito or chat.person.readonly:
        return
    chat.proposed = chat.person.suggest(text).signals
    for number, each in enumerate(chat.proposed, 1):
        which = f" {number}" if len(chat.proposed) > 1 else ""
        chat.screen.dim(f"worth keeping ({each.kind}): {each.text} — /remember{which} keeps it")


def too_small(chat: Chat, error: WindowFull) -> str:
    """What to cut when even an empty conversation does not fit, the largest first."""
    tokens = chat.filled()
    if tokens.schemas + tokens.system <= tokens.limit // 2:
        return f"{error}: {error.hint}"
    sizes = sorted(
        ((item.size, item.path) for section in chat.block.sections for item in section.items), reverse=True
    )
    largest = ", ".join(f"{path} ({size:,} characters)" for size, path in sizes[:3])
    cut = f"cut {largest}, or leave memory out with `--no-inject`" if largest else "use fewer tools"
    return (
        f"a window of {tokens.context:,} tokens has no room for a conversation: the system prompt with what"
        f" is injected takes {tokens.system:,} and the tools {tokens.schemas:,}; use a larger `--window`,"
        f" {cut}"
    )
