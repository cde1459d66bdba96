"""The conversation: read a line, do what it says, until the person has had enough.

In a turn the window is made ready, the model speaks, what it asks for is done, until it has answered.
What was said is in the log before it is sent, and what is answered as soon as it is there: whatever happens
in between, a session can be gone on with, and no turn is in it twice.
"""

from __future__ import annotations

import os
import re
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum import (
    Limits,
    Message,
    ModelFailed,
    ModelNonsense,
    ModelOverflow,
    ModelUsage,
    Role,
    Text,
    Used,
    VadeError,
    WindowFull,
)
from vademecum.context.host import ReplyListener
from vademecum.interfaces.chat import commands, tools
from vademecum.interfaces.chat.state import NO_MODEL, SHAPE, used
from vademecum.interfaces.present.safe import clean_text, noticing
from vademecum.text import is_command, is_silent

if TYPE_CHECKING:
    from vademecum import Call, Prepared
    from vademecum.interfaces.chat.state import Chat
    from vademecum.interfaces.chat.terminal import Prompt
    from vademecum.memory.values import ModelAnswer, Turn

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


class TurnOutcome(NamedTuple):
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


# ---------------------------------------------------------------- line by line


def converse(chat: Chat, prompt: Prompt) -> int:
    """Talk until the end; returns the exit code, which says whether the last line could be answered."""
    code, swept = 0, False
    try:
        greet(chat)
        warm_model(chat)
        while not chat.over:
            try:
                line = prompt.line()
            except EOFError:
                break
            except KeyboardInterrupt:
                chat.screen.dim("Ctrl-D ends the session")
                continue
            if line.strip():
                begin_if_due(chat, line)
                code = take_line(chat, line)
                swept = swept or sweep_if_due(chat)
    finally:
        chat.end(why="quit")
    return code


def begin_if_due(chat: Chat, line: str) -> None:
    """Begin another session before words for the model when this one is over by `session.reset`."""
    if is_command(line):
        return
    try:
        why = chat.due()
        if why:
            note = chat.begin(why=why, note=True, named=False)
            told = f"; the last one is noted in {note}" if "/" in note else ""
            chat.screen.dim(f"a new session, because of `session.reset`{told}")
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")


def take_line(chat: Chat, line: str) -> int:
    """One line of the person's: a command, or words for the model."""
    try:
        if is_command(line):
            return int(not commands.run(chat, line))
        return int(not turn(chat, line).ok)
    except KeyboardInterrupt:
        chat.screen.dim("stopped")
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")
    except BrokenPipeError:  # nobody reads any more
        raise
    except OSError as error:
        chat.screen.error(f"system error: {error.strerror or error}")
    except Exception as error:  # one line of a long conversation is no reason to end it
        if os.environ.get("VADE_DEBUG"):
            raise
        chat.screen.error(f"internal error ({type(error).__name__}: {error}); the session continues")
    return 1


def answer_once(chat: Chat, question: str) -> int:
    """One question, one answer: for scripts."""
    try:
        return take_line(chat, question)
    finally:
        chat.end(why="print", note=False)


def greet(chat: Chat) -> None:
    """Say what answers, and where the conversation stands."""
    model = f"{chat.model_name}, {chat.window:,} tokens" if chat.model else "no model; /model names one"
    told = f" · memory {chat.mode}" if chat.mode != "on, private" else ""
    if chat.model is not None and not chat.offered():
        told += " · no tools: the context window is too small"
    chat.screen.dim(f"vade chat · {model}{told} · /help")
    if chat.said:
        name = chat.log.title()
        chat.screen.dim(f"continuing {name or chat.log.session}: {chat.said:,} messages")
        if chat.thread[-1].role is Role.USER:
            chat.screen.dim("your last message has no answer yet: send it again")
    for warning in chat.block.warnings:
        chat.screen.dim(warning)
    for notice in chat.person.care.notices():
        chat.screen.dim(notice.message)
    chat.person.care.saw_notices()


def warm_model(chat: Chat) -> None:
    """Import the model's library while the person types."""
    warm = getattr(chat.model, "warm", None)
    if warm is not None:
        threading.Thread(target=warm, daemon=True, name="vade-warm").start()


def sweep_if_due(chat: Chat) -> bool:
    """The sweep that is due once a day; behind the first line, so that nobody waits for the prompt."""
    if not chat.person.workspace.readonly:
        done = chat.person.care.sweep_if_due()
        if done is not None and done.run:
            chat.screen.dim(f"{len(done.told)} old records archived; `vade undo {done.run}` restores them")
            chat.person.care.saw_notices()
    return True


# ---------------------------------------------------------------- a turn


def turn(chat: Chat, text: str) -> TurnOutcome:
    """Let the person say something and the model answer; never raises for what a model or a tool does."""
    if chat.model is None:
        chat.screen.error(NO_MODEL)
        return TurnOutcome(trouble=NO_MODEL)
    before = chat.spent.total
    try:
        outcome = _answered(chat, text)
    except KeyboardInterrupt:
        chat.screen.dim("stopped")
        outcome = TurnOutcome(interrupted=True)
    except WindowFull as error:
        outcome = _failed(chat, too_small(chat, error))
    except VadeError as error:
        outcome = _failed(chat, f"{error}: {error.hint}")
    chat.last = ModelUsage(
        chat.spent.total.input - before.input,
        chat.spent.total.output - before.output,
        None if chat.spent.total.cost is None else chat.spent.total.cost - (before.cost or 0),
        chat.spent.total.counted,
    )
    _footer(chat)
    _propose(chat, text)
    return outcome


def _failed(chat: Chat, why: str) -> TurnOutcome:
    chat.screen.error(why)
    return TurnOutcome(trouble=why)


def _answered(chat: Chat, text: str) -> TurnOutcome:
    text = _sendable(chat, text)
    last = chat.thread[-1]
    # Asked again after a failure or a crash: the turn is in the log already, and has no answer.
    if not (last.role is Role.USER and last.text == text):
        chat.thread.append(Message(Role.USER, (Text(text),)))
    with chat.engine.turn(chat.thread, lambda: _tools_now(chat)) as exchange:
        for _ in range(ROUNDS):
            said = _ask(chat, exchange)
            if isinstance(said, Stopped):
                return _broken(chat, said)
            if said.cut:
                limit = f"{chat.reply:,} tokens"
                chat.screen.dim(f"the answer reached its limit of {limit}; say `continue` for more")
            if not said.calls:
                return TurnOutcome("" if is_silent(said.text) else said.text)
            _work(chat, exchange, said.calls)
    chat.screen.dim(f"stopped after {ROUNDS} rounds of tools; say `continue` for more")
    return TurnOutcome(trouble=f"it ran {ROUNDS} rounds of tools")


def _sendable(chat: Chat, text: str) -> str:
    """What the person said, without what looks like a secret: a model is never sent one."""
    with noticing() as hidden:
        clean = clean_text(text)
    if hidden:
        chat.screen.dim(f"redacted before it is sent: {', '.join(sorted(hidden))}")
    return clean


def _tools_now(chat: Chat) -> list[Any]:
    """The tools of the next request; the system prompt tells of them and of no others."""
    chat.instruct()
    return chat.offered()


def _work(chat: Chat, exchange: Turn, calls: tuple[Call, ...]) -> None:
    """Do what the model asks for; a person who stops it leaves every call with a result."""
    results = []
    try:
        for each in calls:
            results.append(tools.call(chat, each))
    except KeyboardInterrupt:
        results += [tools.stopped(each) for each in calls[len(results) :]]
        raise
    finally:
        exchange.add(Message(Role.TOOL, tuple(results)))


# ---------------------------------------------------------------- asking the model


def _ask(chat: Chat, exchange: Turn) -> ModelAnswer | Stopped:
    """An answer, or what came of one that broke off; both are in the log then."""
    came: list[ModelAnswer | Stopped] = []

    def call(messages: tuple[Message, ...]) -> tuple[Message, Used]:
        _tell(chat, exchange.prepared)
        try:
            answer = _streamed(chat, messages, chat.offered())
        except Stopped as stop:
            came.append(stop)
            return _partial(chat, stop), Used()
        came.append(answer)
        chat.spent.add(answer.usage)
        return SHAPE.read([answer.message])[0], used(answer.usage, answer.model)

    try:
        exchange.send(call)
    except ModelFailed as error:
        if not (chat.offered() and _NO_TOOLS.search(str(error))):
            raise
        chat.tools_on = False
        chat.screen.dim(f"{chat.model_name} does not support tools: continuing without them")
        exchange.send(call)
    return came[-1]


def _streamed(chat: Chat, messages: tuple[Message, ...], offered: list[object]) -> ModelAnswer:
    assert chat.model is not None  # the turn has looked
    said: list[str] = []
    length, most = 0, chat.reply * _CHARS_PER_TOKEN
    limits = Limits(seconds=LONGER * chat.settings.llm.timeout, output=chat.reply)
    prompt = SHAPE.write(messages)
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


def _partial(chat: Chat, stop: Stopped) -> Message:
    """What came of an answer that broke off."""
    marked = {"vademecum": {"interrupted": True}}
    return Message(Role.ASSISTANT, (Text(stop.said or EMPTY),), model=chat.model_name, extra=marked)


def _broken(chat: Chat, stop: Stopped) -> TurnOutcome:
    """Say why an answer broke off."""
    if stop.error is not None:
        return _failed(chat, f"{stop.error}: the partial answer is saved")._replace(text=stop.said)
    if stop.too_long:
        return _failed(chat, f"the answer did not end within {chat.reply:,} tokens: it was stopped and saved")
    chat.screen.dim("stopped; the partial answer is saved")
    return TurnOutcome(stop.said, interrupted=True)


# ---------------------------------------------------------------- what is said beside it


def _tell(chat: Chat, ready: Prepared) -> None:
    """What happened to the window, for who wants to know."""
    if not chat.flags.verbose:
        return
    if ready.flushed:
        chat.screen.dim(f"memory flush: {ready.flushed}")
    if ready.pruned:
        chat.screen.dim(f"{len(ready.pruned)} old tool results shortened")
    if ready.trimmed or ready.compacted:
        chat.screen.dim(f"{DONE} ({ready.why}): {ready.tokens.total:,} of {ready.tokens.context:,} tokens")


def _footer(chat: Chat) -> None:
    if chat.footer == "off":
        return
    about = "" if chat.last.counted else "about "
    chat.screen.dim(f"{about}{chat.last.input:,} tokens in, {chat.last.output:,} out")
    if chat.footer == "full":
        tokens = chat.engine.filled(chat.thread[:1], chat.offered())
        cost = f", ${chat.spent.total.cost:.4f}" if chat.spent.total.cost is not None else ""
        chat.screen.dim(
            f"this chat: {chat.spent.total.tokens:,} tokens in and out, {chat.spent.calls:,} calls{cost};"
            f" window {tokens.total:,} of {tokens.context:,}"
        )


def _propose(chat: Chat, text: str) -> None:
    """Say what of a message is worth keeping; it is kept when the person says so."""
    if chat.settings.incognito or chat.person.workspace.readonly:
        return
    found = chat.person.knowledge.suggest(text).signals
    if not found:
        return  # what was proposed before can still be kept
    chat.proposed = found
    for number, each in enumerate(chat.proposed, 1):
        which = f" {number}" if len(chat.proposed) > 1 else ""
        chat.screen.dim(f"worth saving ({each.kind}): {each.text} — /remember{which} saves it")


def too_small(chat: Chat, error: WindowFull) -> str:
    """What to cut when even an empty conversation does not fit, the largest first."""
    tokens = chat.engine.filled(chat.thread[:1], chat.offered())
    if tokens.schemas + tokens.system <= tokens.limit // 2:
        return f"{error}: {error.hint}"
    sizes = sorted(
        ((item.size, item.path) for section in chat.block.sections for item in section.items), reverse=True
    )
    largest = ", ".join(f"{path} ({size:,} characters)" for size, path in sizes[:3])
    cut = f", or cut {largest}, or turn memory off with `--no-inject`" if largest else ""
    return (
        f"a window of {tokens.context:,} tokens is too small for a conversation: the system prompt"
        f" with injected memory takes {tokens.system:,} and the tools {tokens.schemas:,}; use a larger"
        f" `--window`{cut}"
    )
