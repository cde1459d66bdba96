"""The state of a chat: memory for the person and for the model, the model, the session and its window.

This module knows no terminal: a `Screen` shows texts and asks the person.
"""

from __future__ import annotations

import contextlib
from dataclasses import dataclass, field, replace
from importlib import resources
from typing import TYPE_CHECKING, Any

from vademecum import (
    Limits,
    Locked,
    Memory,
    Message,
    ModelUsage,
    NotFound,
    Origin,
    Role,
    Text,
    Used,
    VadeError,
    connect,
    shape,
)
from vademecum.context.units import measure_schemas
from vademecum.llm.providers import ALSO, PROVIDERS, discover_servers, find_window, resolve
from vademecum.llm.redacting import without_secrets
from vademecum.tokens import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from vademecum import Block, ContextEngine, Log, Model, Session
    from vademecum.config import Settings
    from vademecum.interfaces.chat.terminal import Screen
    from vademecum.llm.providers import ModelEndpoint
    from vademecum.memory.values import Signal

WINDOWS = {"anthropic": 200_000, "openai": 128_000, "google": 200_000, "ollama": 8_192, "compatible": 8_192}
WINDOW = 32_000
LONGEST_REPLY = 8_192
SHAPE = shape("pydantic_ai")  # the format of messages to and from a model
_NOTES = 8_000  # characters of a session's last messages from which its title is made
NO_MODEL = (
    "no model: start Ollama or llama.cpp on this machine, or name one with `/model"
    " provider:name`, `--model`, VADE_MODEL or `model` in config.toml; commands such as /memory work without"
)
LAST = "last"
_OPEN = "the session is open in another chat"

# ---------------------------------------------------------------- whose word it is


@dataclass(frozen=True, slots=True)
class Callers:
    """The same memory twice: as the person calls it, and as the model calls it.

    Records typed by the person count as the person's own; records written by the model's tools do not.
    """

    person: Memory
    agent: Memory

    def reader(self) -> Memory:
        """Return the model's memory, after giving it the person's index: only one index is loaded."""
        self.agent.care.share_index(self.person.care)
        return self.agent

    def close(self) -> None:
        """Close both memories, with their indexes."""
        self.person.close()
        self.agent.close()


def open_callers(
    *,
    home: str | None = None,
    cwd: str | None = None,
    agent: str | None = None,
    audience: str | None = None,
    incognito: bool | None = None,
    readonly: bool = False,
    actor: str = "human:user",
    terminal: bool | None = None,
) -> Callers:
    """Open memory for the person and for the model, before a session is chosen."""
    return _make_callers(
        connect(
            home=home,
            cwd=cwd,
            agent=agent,
            audience=audience,
            incognito=incognito,
            readonly=readonly,
            origin=Origin.USER,
            actor=actor,
            terminal=terminal,
        )
    )


def open_in_session(callers: Callers, session: str) -> Callers:
    """Open the memory of person and model again in a session, so that both see its records.

    The given callers are closed, unless they are in that session already.
    """
    memory = callers.person
    if memory.caller.session == session:
        return callers
    callers.close()
    return _make_callers(_reopen(memory, session=session))


def _make_callers(person: Memory) -> Callers:
    agent = _reopen(person, agent=True)
    for memory in (person, agent):
        memory.reading.follow()
    # Both callers share one index, so that each finds what the other writes.
    agent.workspace.listeners, agent.workspace.index_trouble = (
        person.workspace.listeners,
        person.workspace.index_trouble,
    )
    return Callers(person, agent)


def _reopen(memory: Memory, *, agent: bool = False, session: str = "") -> Memory:
    """Return the same memory for another caller: the agent, or the person in a session."""
    caller = memory.caller.as_agent() if agent else memory.caller._replace(session=session)
    return Memory(
        memory.home,
        caller,
        memory.workspace.loaded,
        now=memory.workspace.now,
        readonly=memory.workspace.readonly,
    )


# ---------------------------------------------------------------- which session


def choose_session(
    memory: Memory, wanted: str | None, *, fresh: bool, model: str
) -> tuple[Log, AbstractContextManager[object]]:
    """Return the log of the session to continue or start, and a lock against other chats.

    `wanted` names an existing or new session; `last` is the newest session. Without `wanted`, continue the
    session that `session.reset` allows to continue. Start a new session if another chat has that one open, or
    with `fresh`.
    """
    if memory.settings.incognito or memory.workspace.readonly:
        return _copy_in_memory(memory, wanted, model), contextlib.nullcontext()
    if wanted == LAST:
        newest = newest_session(memory)
        if newest is None:
            raise NotFound("there is no session to continue yet", hint="run without `--session last`")
        return _open_locked(memory, lambda: memory.sessions.open(newest.id))
    if wanted:
        return _open_locked(memory, lambda: _open_named(memory, wanted, model))
    if not fresh:
        with contextlib.suppress(Locked):
            return _open_locked(memory, lambda: memory.sessions.current(model=model))
    return _open_locked(memory, lambda: memory.sessions.new(model=model))


def newest_session(memory: Memory) -> Session | None:
    """Return the session of this project and agent with the newest message; None without sessions."""
    return next((session for session in memory.sessions.list() if not session.trouble), None)


def lock_session(memory: Memory, session: str) -> AbstractContextManager[object]:
    """Lock a session for this chat; raise Locked if another chat has it open."""
    try:
        return memory.sessions.transcripts.hold(session)
    except Locked as error:
        raise Locked(f"{_OPEN}: {session}", hint="close it, or start another without `--session`") from error


def _open_locked(memory: Memory, find: Callable[[], Log]) -> tuple[Log, AbstractContextManager[object]]:
    log = find()
    return log, lock_session(memory, log.session)


def _open_named(memory: Memory, name: str, model: str) -> Log:
    try:
        return memory.sessions.open(name)
    except NotFound:
        return memory.sessions.new(id=name, model=model)


def _copy_in_memory(memory: Memory, wanted: str | None, model: str) -> Log:
    """Return a log that is never saved; it starts with the messages of the `wanted` session.

    In incognito mode it starts empty.
    """
    if wanted and not memory.settings.incognito:
        newest = newest_session(memory) if wanted == LAST else None
        return memory.sessions.open(newest.id if newest else wanted).copy_in_memory()
    return replace(memory.sessions.transcripts, incognito=True).new(model=model)


# The usual window of a provider. A local server often has a small one, and Ollama cuts longer prompts without
# an error.
# ---------------------------------------------------------------- the chat


@dataclass(frozen=True, slots=True)
class Flags:
    """The command-line options with which the chat was started."""

    inject: bool = True
    knowledge: bool = True
    verbose: bool = False
    window: int | None = None
    allow: tuple[str, ...] = ()


@dataclass(slots=True)
class ChatUsage:
    """The tokens and the cost of all model calls in this chat; the cost counts calls with a known price."""

    total: ModelUsage = field(default_factory=ModelUsage)
    calls: int = 0

    def add(self, usage: ModelUsage) -> None:
        """Add the tokens and the cost of one call."""
        costs = [each.cost for each in (self.total, usage) if each.cost is not None]
        self.total = ModelUsage(
            self.total.input + usage.input,
            self.total.output + usage.output,
            sum(costs[1:], costs[0]) if costs else None,
            self.total.counted and usage.counted,
        )
        self.calls += 1


def find_model(settings: Settings, flag: str | None) -> Model | None:
    """Return the model named by the option or the settings, else a model of a local server."""
    named = (flag or settings.model or "").strip()
    provider = named.partition(":")[0].strip().lower()
    llm = settings.llm
    if named and (llm.endpoint or ALSO.get(provider, provider) != "compatible"):
        return resolve(named, llm)
    for found in discover_servers():
        if named and found.provider == "compatible":  # only the discovered server knows its address
            return resolve(named, llm.replace(endpoint=found.endpoint))
        if not named and found.default:
            return resolve(found.default, llm.replace(endpoint=found.endpoint))
    return resolve(named, llm)


def local_models() -> list[tuple[str, str]]:
    """Return the models of servers on this machine as pairs of address and name."""
    return [(server.endpoint, name) for server in discover_servers() for name in server.names]


def known_providers() -> tuple[str, ...]:
    """Return the providers with which a model's name can begin."""
    return tuple(PROVIDERS)


def count_tools(tools: Sequence[Any], ratio: float) -> int:
    """Return the number of tokens that tool definitions take."""
    return count(measure_schemas(tools), ratio)


def default_window(model: str) -> int:
    """Return the usual context window of the model's provider, in tokens."""
    return WINDOWS.get(model.partition(":")[0], WINDOW)


class Chat:
    """A chat from its start to its end, with its current session, model and context window."""

    def __init__(
        self,
        callers: Callers,
        screen: Screen,
        *,
        model: Model | None = None,
        flags: Flags | None = None,
        session: str | None = None,
        fresh: bool = False,
    ) -> None:
        self.callers = callers
        self.screen = screen
        self.flags = flags or Flags()
        self.model = model
        self.allowed: set[str] = set(self.flags.allow)
        self.tools_on = True
        self.spent = ChatUsage()
        self.last = ModelUsage()
        self.footer = "off"
        self.proposed: tuple[Signal, ...] = ()
        self.over = False
        self.named = bool(session)  # only the person ends a session that they named
        self._hold: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        self.thread: list[Message] = []
        self.log: Log
        self.block: Block
        self.engine: ContextEngine
        self._served: int | None = None  # the window that the model's server reports
        self._renewed = False  # whether the engine fits the current model and session
        self._told: tuple[str, ...] | None = None  # the tools that the system prompt names
        log, held = choose_session(self.person, session, fresh=fresh, model=self.model_name)
        self.enter(log, held)

    # ---------------------------------------------------------------- what it is made of

    @property
    def person(self) -> Memory:
        """Memory as the person calls it."""
        return self.callers.person

    @property
    def agent(self) -> Memory:
        """Memory as the model calls it."""
        return self.callers.agent

    @property
    def settings(self) -> Settings:
        """The current settings of memory."""
        return self.person.settings

    @property
    def model(self) -> Model | None:
        """The model that answers, wrapped so that no secret is sent to it; None without a model."""
        return self._model

    @model.setter
    def model(self, model: Model | None) -> None:
        self._model = None if model is None else without_secrets(model)

    @property
    def model_name(self) -> str:
        """The name of the model; empty without a model."""
        return self.model.name if self.model is not None else ""

    @property
    def window(self) -> int:
        """The size of the context window in tokens; it is smaller after the model has refused a request."""
        return min(self.assumed, self.engine.window) if self._renewed else self.assumed

    @property
    def assumed(self) -> int:
        """The window's size in tokens, according to the option, the settings, the server or the provider."""
        given = self.flags.window or self.settings.llm.window
        return given or self._served or default_window(self.model_name)

    @property
    def reply(self) -> int:
        """The largest number of tokens in an answer."""
        return min(LONGEST_REPLY, self.window // 4)

    def offered(self) -> list[Any]:
        """Return the definitions of the tools that the model may call now."""
        from vademecum.interfaces.chat.tools import schemas

        return schemas(self)

    @property
    def mode(self) -> str:
        """A short text that says how this chat uses memory, such as `on, private`."""
        if self.settings.incognito:
            return "incognito: nothing is read, nothing is written"
        parts = ["read-only" if self.person.workspace.readonly else "on"]
        if not self.flags.inject or not self.settings.inject.enabled:
            parts.append("nothing injected")
        elif not self.flags.knowledge or not self.settings.inject.knowledge:
            parts.append("without lessons")
        parts.append(str(self.person.caller.audience))
        return ", ".join(parts)

    # ---------------------------------------------------------------- sessions

    def enter(self, log: Log, held: contextlib.AbstractContextManager[object]) -> None:
        """Continue with a session: load its messages, its context window and a current system prompt."""
        self._hold.__exit__(None, None, None)
        self._hold, self.log = held, log
        self.callers = open_in_session(self.callers, log.session)
        self.thread = [each.message for each in log.thread()]
        self.proposed = ()
        if not self.thread or self.thread[0].role is not Role.SYSTEM:
            self.thread.insert(0, Message(Role.SYSTEM, ()))
        self._told = None
        self.renew()

    def renew(self) -> None:
        """Make a new context window, after a change of session, model or size."""
        inner = None if self._model is None else self._model.inner
        place: ModelEndpoint | None = getattr(inner, "place", None)  # a scripted model has none
        self._renewed = False
        self._served = find_window(place) if place is not None else None
        self.engine = self.person.sessions.context(
            self.log,
            window=self.window,
            model=self.model_name,
            complete=self.complete if self.model is not None else None,
            reply=self.reply,
            endpoint=place.endpoint if place is not None else "",
            served=self._served,
        )
        self._renewed = True
        self.instruct()
        self.engine.offer(self.offered())

    def instruct(self) -> None:
        """Update the system prompt if the model is now offered other tools than before."""
        names = tuple(str(each["name"]) for each in self.offered())
        if names != self._told:
            self._told = names
            self.block = self._injected(names)
            self.thread[0] = Message(Role.SYSTEM, (Text(self._system(names)),))

    def due(self) -> str:
        """Return why `session.reset` ends this session now; an empty text while the session may go on."""
        if self.named or self.person.workspace.readonly or self.settings.incognito or not self.message_count:
            return ""
        return self.person.sessions.transcripts.due(self.log)

    def begin(self, *, why: str, note: bool, named: bool = True) -> str:
        """End this session and start a new one; with `note`, save a note of the ended session.

        With `named`, the model names the note. Return the path of the note, or the reason why there is no
        note.
        """
        note_path = self.end(why=why, note=note, named=note and named)
        log, held = choose_session(self.person, None, fresh=True, model=self.model_name)
        self.named = False
        self.enter(log, held)
        return note_path

    def end(self, *, why: str, note: bool = True, named: bool = False) -> str:
        """End the session, by default with a note of its last messages in the journal.

        With `named`, the model names the note. Return the path of the note, or the reason why there is no
        note, such as a session without messages.
        """
        if self.person.workspace.readonly or self.settings.incognito or not self.message_count:
            return "nothing"
        sessions = self.person.sessions.transcripts
        if not note:
            sessions = replace(sessions, note_messages=0)
        elif named and self.model is not None:
            sessions = replace(sessions, slug=self._slug)
        return sessions.end(self.log.session, why=why).note

    def close(self) -> None:
        """Unlock the session, and close memory."""
        self._hold.__exit__(None, None, None)
        self._hold = contextlib.nullcontext()
        self.callers.close()

    @property
    def message_count(self) -> int:
        """The number of messages in the session, without the system prompt."""
        return len(self.thread) - 1

    # ---------------------------------------------------------------- the model, for what is not an answer

    def complete(
        self, messages: Sequence[Message], system: str, tools: Sequence[Any], seconds: float
    ) -> Message | str:
        """Ask the model for a memory flush or a summary of messages; return its answer."""
        if self.model is None:
            raise VadeError("there is no model")
        if tools and str(self.settings.approval.chat) == "deny":
            return "NO_REPLY"  # an agent without write access is not asked for text to save
        answer = self.model.text(
            SHAPE.write(messages), system=system, tools=tools, limits=Limits(seconds, output=self.reply)
        )
        self.spent.add(answer.usage)
        self.log.append(to_usage(answer.usage, answer.model, why="flush" if tools else "compaction"))
        return SHAPE.read([answer.message])[0]

    def _slug(self, text: str) -> str:
        """Ask the model for a few words that name a session's note; log the call in the session that ends."""
        if self.model is None:
            return ""
        log = self.log
        answer = self.model.text(f"{load_prompt('slug')}\n\n{text[:_NOTES]}", limits=Limits(20, output=100))
        self.spent.add(answer.usage)
        log.append(to_usage(answer.usage, answer.model, why="slug"))
        return answer.text

    # ---------------------------------------------------------------- the system prompt

    def _injected(self, tools: Sequence[str]) -> Block:
        from vademecum import Block

        if not self.flags.inject:
            return Block("")
        return self.person.injection.block(knowledge=self.flags.knowledge, tools="memory_search" in tools)

    def _system(self, tools: Sequence[str]) -> str:
        from vademecum.interfaces.tools.declaration import render_instructions

        project = self.person.caller.project
        instructions = load_prompt("no_memory") if self.settings.incognito else render_instructions(tools)
        # `format` is not used, because the inserted text may contain braces.
        text = load_prompt("system").replace("{memory}", instructions)
        text = text.replace("{date}", _date(self.person))
        text = text.replace("{folder}", str(project.root) if project else ".")
        return f"{text}\n\n{self.block.text}".strip() + "\n"


def _date(memory: Memory) -> str:
    return f"{memory.workspace.now():%Y-%m-%d}"


def load_prompt(name: str) -> str:
    """Return the text of a prompt file of this package."""
    return resources.files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip()


def to_usage(usage: ModelUsage, model: str, *, why: str = "") -> Used:
    """Return a call's tokens and cost for the log; `why` is the purpose of a call that answers no message.

    Estimated counts have a field of their own, so that nobody takes them for counts of the provider.
    """
    extra: dict[str, Any] = {"for": why} if why else {}
    cost = float(usage.cost) if usage.cost is not None else 0.0
    if not usage.counted or why:
        # Not `input`, which is a whole window as a provider counted it.
        extra["about" if not usage.counted else "read"] = usage.input
        return Used(output=usage.output, total=usage.tokens, cost=cost, model=model, extra=extra)
    return Used(input=usage.input, output=usage.output, total=usage.tokens, cost=cost, model=model)
