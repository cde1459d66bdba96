"""The conversation of a chat: read a line from the person, run it as a command or let the model answer.

In a turn the context window is prepared, the model answers, and its tool calls are run, until the model makes
no more calls. Messages are in the log before they are sent, and answers as soon as they arrive. So after a
crash a session can be continued, and the log has no turn twice.
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
from vademecum.interfaces.chat.state import NO_MODEL, SHAPE, to_usage
from vademecum.interfaces.present.safe import clean_text, noticing
from vademecum.text import is_command, is_silent

if TYPE_CHECKING:
    from vademecum import Call, Prepared
    from vademecum.interfaces.chat.state import Chat
    from vademecum.interfaces.chat.terminal import Prompt
    from vademecum.memory.values import ModelAnswer, Turn

ROUNDS = 50  # rounds of tool calls in one turn
LONGER = 5  # a streamed answer may take this many times `llm.timeout`
_CHARS_PER_TOKEN = 8  # no model exceeds this; the rest of a longer answer is ignored
# Messages of Ollama, vLLM, OpenRouter and llama.cpp for a model that cannot call tools.
_NO_TOOLS = re.compile(
    r"\b(?:tool|function)[^.]{0,60}\b(?:not|n't)\b[^.]{0,20}\b(?:support|allow|implement)"
    r"|(?:not|n't|no)(?: \w+){0,2} support[^.]{0,40}\b(?:tool|function)"
    r"|tools param requires",
    re.IGNORECASE,
)
EMPTY = "[stopped before the first word]"
DONE = "🧹 Auto-compaction complete"


class TurnOutcome(NamedTuple):
    """The result of a turn: the model's last text, and the reason if the turn failed or was stopped."""

    text: str = ""
    trouble: str = ""
    interrupted: bool = False

    @property
    def ok(self) -> bool:
        """Whether the turn ended without an error and without being stopped."""
        return not self.trouble and not self.interrupted


class AnswerStopped(Exception):
    """An answer that broke off: the person stopped it, it was too long, or the model failed."""

    def __init__(self, text: str, error: ModelFailed | None = None, *, too_long: bool = False) -> None:
        super().__init__()
        self.text = text
        self.error = error
        self.too_long = too_long


# ---------------------------------------------------------------- line by line


def converse(chat: Chat, prompt: Prompt) -> int:
    """Read and answer lines until the person ends the chat.

    Return the exit code: 0 if the last line was answered without an error, else 1.
    """
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
                code = handle_line(chat, line)
                swept = swept or sweep_if_due(chat)
    finally:
        chat.end(why="quit")
    return code


def begin_if_due(chat: Chat, line: str) -> None:
    """Start a new session before a message to the model if `session.reset` says the old one is over."""
    if is_command(line):
        return
    try:
        why = chat.due()
        if why:
            note = chat.begin(why=why, note=True, named=False)
            noted = f"; the last one is noted in {note}" if "/" in note else ""
            chat.screen.dim(f"a new session, because of `session.reset`{noted}")
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")


def handle_line(chat: Chat, line: str) -> int:
    """Run one line of the person, a command or a message to the model; return 0, or 1 after an error."""
    try:
        if is_command(line):
            return int(not commands.run_command(chat, line))
        return int(not run_turn(chat, line).ok)
    except KeyboardInterrupt:
        chat.screen.dim("stopped")
    except VadeError as error:
        chat.screen.error(f"{error}: {error.hint}")
    except BrokenPipeError:  # the reader of the output has ended
        raise
    except OSError as error:
        chat.screen.error(f"system error: {error.strerror or error}")
    except Exception as error:  # a failure of one line does not end a long conversation
        if os.environ.get("VADE_DEBUG"):
            raise
        chat.screen.error(f"internal error ({type(error).__name__}: {error}); the session continues")
    return 1


def answer_once(chat: Chat, question: str) -> int:
    """Answer a single question of a script, and end the session; return 0, or 1 after an error."""
    try:
        return handle_line(chat, question)
    finally:
        chat.end(why="print", note=False)


def greet(chat: Chat) -> None:
    """Show the model, the state of memory, and whether an earlier session is continued."""
    model = f"{chat.model_name}, {chat.window:,} tokens" if chat.model else "no model; /model names one"
    details = f" · memory {chat.mode}" if chat.mode != "on, private" else ""
    if chat.model is not None and not chat.offered():
        details += " · no tools: the context window is too small"
    chat.screen.dim(f"vade chat · {model}{details} · /help")
    if chat.message_count:
        name = chat.log.title()
        chat.screen.dim(f"continuing {name or chat.log.session}: {chat.message_count:,} messages")
        if chat.thread[-1].role is Role.USER:
            chat.screen.dim("your last message has no answer yet: send it again")
    for warning in chat.block.warnings:
        chat.screen.dim(warning)
    for notice in chat.person.care.notices():
        chat.screen.dim(notice.message)
    chat.person.care.saw_notices()


def warm_model(chat: Chat) -> None:
    """Import the model's library in a thread, while the person types the first line."""
    warm = getattr(chat.model, "warm", None)
    if warm is not None:
        threading.Thread(target=warm, daemon=True, name="vade-warm").start()


def sweep_if_due(chat: Chat) -> bool:
    """Archive old records if the daily sweep is due; return True, so that the caller asks only once.

    This runs after the first line, so that nobody waits for the prompt.
    """
    if not chat.person.workspace.readonly:
        done = chat.person.care.sweep_if_due()
        if done is not None and done.run:
            chat.screen.dim(f"{len(done.results)} old records archived; `vade undo {done.run}` restores them")
            chat.person.care.saw_notices()
    return True


# ---------------------------------------------------------------- a turn


def run_turn(chat: Chat, text: str) -> TurnOutcome:
    """Send the person's message to the model and show the answer.

    A VadeError is shown and returned in the outcome, not raised; so is Ctrl-C.
    """
    if chat.model is None:
        chat.screen.error(NO_MODEL)
        return TurnOutcome(trouble=NO_MODEL)
    before = chat.spent.total
    answer = chat.thread[-1].text if chat.thread[-1].role is Role.ASSISTANT else ""
    try:
        outcome = _answer_turn(chat, text)
    except KeyboardInterrupt:
        chat.screen.dim("stopped")
        outcome = TurnOutcome(interrupted=True)
    except WindowFull as error:
        outcome = _show_failure(chat, describe_overflow(chat, error))
    except VadeError as error:
        outcome = _show_failure(chat, f"{error}: {error.hint}")
    chat.last = ModelUsage(
        chat.spent.total.input - before.input,
        chat.spent.total.output - before.output,
        None if chat.spent.total.cost is None else chat.spent.total.cost - (before.cost or 0),
        chat.spent.total.counted,
    )
    _show_usage(chat)
    _propose(chat, text, answer)
    return outcome


def _show_failure(chat: Chat, why: str) -> TurnOutcome:
    chat.screen.error(why)
    return TurnOutcome(trouble=why)


def _answer_turn(chat: Chat, text: str) -> TurnOutcome:
    text = _clean_message(chat, text)
    last = chat.thread[-1]
    # After a failure or a crash the same message may be in the log already, without an answer.
    if not (last.role is Role.USER and last.text == text):
        chat.thread.append(Message(Role.USER, (Text(text),)))
    with chat.engine.turn(chat.thread, lambda: _update_tools(chat)) as exchange:
        for _ in range(ROUNDS):
            answer = _ask_model(chat, exchange)
            if isinstance(answer, AnswerStopped):
                return _show_broken(chat, answer)
            if answer.cut:
                limit = f"{chat.reply:,} tokens"
                chat.screen.dim(f"the answer reached its limit of {limit}; say `continue` for more")
            if not answer.calls:
                return TurnOutcome("" if is_silent(answer.text) else answer.text)
            _run_calls(chat, exchange, answer.calls)
    chat.screen.dim(f"stopped after {ROUNDS} rounds of tools; say `continue` for more")
    return TurnOutcome(trouble=f"it ran {ROUNDS} rounds of tools")


def _clean_message(chat: Chat, text: str) -> str:
    """Return the person's message with its secrets redacted, and show the kinds of these secrets."""
    with noticing() as hidden:
        clean = clean_text(text)
    if hidden:
        chat.screen.dim(f"redacted before it is sent: {', '.join(sorted(hidden))}")
    return clean


def _update_tools(chat: Chat) -> list[Any]:
    """Return the tools for the next request, and make the system prompt explain exactly these tools."""
    chat.instruct()
    return chat.offered()


def _run_calls(chat: Chat, exchange: Turn, calls: tuple[Call, ...]) -> None:
    """Run the tool calls of the model, and add their results to the turn.

    If the person stops them, the remaining calls get a result that says so.
    """
    results = []
    try:
        for each in calls:
            results.append(tools.run_call(chat, each))
    except KeyboardInterrupt:
        results += [tools.stopped_result(call) for call in calls[len(results) :]]
        raise
    finally:
        exchange.add(Message(Role.TOOL, tuple(results)))


# ---------------------------------------------------------------- asking the model


def _ask_model(chat: Chat, exchange: Turn) -> ModelAnswer | AnswerStopped:
    """Ask the model and return its answer, or an `AnswerStopped` for an answer that broke off.

    The answer or its first part is then in the log.
    """
    came: list[ModelAnswer | AnswerStopped] = []

    def call(messages: tuple[Message, ...]) -> tuple[Message, Used]:
        _show_window_changes(chat, exchange.prepared)
        try:
            answer = _stream_answer(chat, messages, chat.offered())
        except AnswerStopped as stop:
            came.append(stop)
            return _partial_answer(chat, stop), Used()
        came.append(answer)
        chat.spent.add(answer.usage)
        return SHAPE.read([answer.message])[0], to_usage(answer.usage, answer.model)

    try:
        exchange.send(call)
    except ModelFailed as error:
        if not (chat.offered() and _NO_TOOLS.search(str(error))):
            raise
        chat.tools_on = False
        chat.screen.dim(f"{chat.model_name} does not support tools: continuing without them")
        exchange.send(call)
    return came[-1]


def _stream_answer(chat: Chat, messages: tuple[Message, ...], offered: list[object]) -> ModelAnswer:
    assert chat.model is not None  # checked by the turn
    pieces: list[str] = []
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
                pieces.append(piece)
                length += len(piece)
                if length > most:
                    raise AnswerStopped("".join(pieces)[:most], too_long=True)
                listener, text = listener.feed(piece)
                if text:
                    show(text)
            if held := listener.finish():
                show(held)
            return stream.answer
    except KeyboardInterrupt:
        raise AnswerStopped("".join(pieces)) from None
    except ModelFailed as error:
        if pieces and not isinstance(error, ModelOverflow | ModelNonsense):
            raise AnswerStopped("".join(pieces), error) from error
        raise


def _partial_answer(chat: Chat, stop: AnswerStopped) -> Message:
    """Return the first part of an answer that broke off as a message, marked as interrupted."""
    marked = {"vademecum": {"interrupted": True}}
    return Message(Role.ASSISTANT, (Text(stop.text or EMPTY),), model=chat.model_name, extra=marked)


def _show_broken(chat: Chat, stop: AnswerStopped) -> TurnOutcome:
    """Show why an answer broke off, and return the outcome of the turn."""
    if stop.error is not None:
        return _show_failure(chat, f"{stop.error}: the partial answer is saved")._replace(text=stop.text)
    if stop.too_long:
        return _show_failure(
            chat, f"the answer did not end within {chat.reply:,} tokens: it was stopped and saved"
        )
    chat.screen.dim("stopped; the partial answer is saved")
    return TurnOutcome(stop.text, interrupted=True)


# ---------------------------------------------------------------- messages beside the answer


def _show_window_changes(chat: Chat, ready: Prepared) -> None:
    """With `--verbose`, show whether messages in the context window were shortened or summarized."""
    if not chat.flags.verbose:
        return
    if ready.flushed:
        chat.screen.dim(f"memory flush: {ready.flushed}")
    if ready.pruned:
        chat.screen.dim(f"{len(ready.pruned)} old tool results shortened")
    if ready.trimmed or ready.compacted:
        chat.screen.dim(f"{DONE} ({ready.why}): {ready.tokens.total:,} of {ready.tokens.context:,} tokens")


def _show_usage(chat: Chat) -> None:
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


def _propose(chat: Chat, text: str, before: str) -> None:
    """Show which parts of the person's message are worth saving; `/remember` saves them."""
    if chat.settings.incognito or chat.person.workspace.readonly:
        return
    found = chat.person.knowledge.suggest(text, before=before).signals
    if not found:
        return  # earlier proposals can still be saved
    chat.proposed = found
    for number, each in enumerate(chat.proposed, 1):
        which = f" {number}" if len(chat.proposed) > 1 else ""
        chat.screen.dim(f"worth saving ({each.kind}): {each.text} — /remember{which} saves it")


def describe_overflow(chat: Chat, error: WindowFull) -> str:
    """Return the error's text; if system prompt and tools take most of the window, say how to make room."""
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
