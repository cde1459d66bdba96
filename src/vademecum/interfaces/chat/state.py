"""What a chat consists of: two callers of memory, a model, a session with its window, and a few switches.

Knows no terminal: what is shown goes to a screen, what is asked comes from one.
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
from vademecum.llm.guarded import guarded
from vademecum.llm.select import ALSO, PROVIDERS, discover_servers, find_window, resolve
from vademecum.tokens import count

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager

    from vademecum import Block, ContextEngine, Log, Model, Session
    from vademecum.config import Settings
    from vademecum.interfaces.chat.terminal import Screen
    from vademecum.llm.select import ModelEndpoint
    from vademecum.memory.values import Signal

WINDOWS = {"anthropic": 200_000, "openai": 128_000, "google": 200_000, "ollama": 8_192, "compatible": 8_192}
WINDOW = 32_000
LONGEST_REPLY = 8_192
SHAPE = shape("pydantic_ai")  # in which messages go to a model and come back
_NOTES = 8_000  # characters of a session's last messages that a title is made of
NO_MODEL = (
    "no model: start Ollama or llama.cpp on this machine, or name one with `/model"
    " provider:name`, `--model`, VADE_MODEL or `model` in config.toml; commands such as /memory work without"
)
LAST = "last"
_OPEN = "the session is open in another chat"

# ---------------------------------------------------------------- whose word it is


@dataclass(frozen=True, slots=True)
class Callers:
    """The same memory, as the person and as the model call it.

    What a person types in a chat is theirs, what the model asks for through tools is not.
    """

    person: Memory
    agent: Memory

    def reader(self) -> Memory:
        """The model's memory with the person's index: to have one loaded is enough."""
        self.agent.care.share_index(self.person.care)
        return self.agent

    def close(self) -> None:
        """Let go of indexes and counters."""
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
    """Both, before a session is chosen."""
    return _pair(
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


def in_session(callers: Callers, session: str) -> Callers:
    """Both as they are in a session, whose own records are then in sight."""
    memory = callers.person
    if memory.caller.session == session:
        return callers
    callers.close()
    return _pair(_again(memory, session=session))


def _pair(person: Memory) -> Callers:
    agent = _again(person, agent=True)
    # One index for both: what one writes, the other finds.
    agent.workspace.listeners, agent.workspace.index_trouble = (
        person.workspace.listeners,
        person.workspace.index_trouble,
    )
    return Callers(person, agent)


def _again(memory: Memory, *, agent: bool = False, session: str = "") -> Memory:
    """The same memory as the agent sees it, or in a session."""
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
    """The session to talk in, and the hold on it: no two chats write to one.

    Named, it is that one, or a new one of that name; `last` is the newest; without a name it is the one that
    `session.reset` says to go on with, unless another chat has it.
    """
    if memory.settings.incognito or memory.workspace.readonly:
        return _in_memory(memory, wanted, model), contextlib.nullcontext()
    if wanted == LAST:
        newest = newest_session(memory)
        if newest is None:
            raise NotFound("there is no session to continue yet", hint="run without `--session last`")
        return _held(memory, lambda: memory.sessions.open(newest.id))
    if wanted:
        return _held(memory, lambda: _named(memory, wanted, model))
    if not fresh:
        with contextlib.suppress(Locked):
            return _held(memory, lambda: memory.sessions.current(model=model))
    return _held(memory, lambda: memory.sessions.new(model=model))


def newest_session(memory: Memory) -> Session | None:
    """The session of this project and agent in which something was said last."""
    return next((each for each in memory.sessions.list() if not each.trouble), None)


def hold_session(memory: Memory, session: str) -> AbstractContextManager[object]:
    """Hold a session among all chats of a home; raises Locked when another one has it."""
    try:
        return memory.sessions.transcripts.hold(session)
    except Locked as error:
        raise Locked(f"{_OPEN}: {session}", hint="close it, or start another without `--session`") from error


def _held(memory: Memory, find: Callable[[], Log]) -> tuple[Log, AbstractContextManager[object]]:
    log = find()
    return log, hold_session(memory, log.session)


def _named(memory: Memory, name: str, model: str) -> Log:
    try:
        return memory.sessions.open(name)
    except NotFound:
        return memory.sessions.new(id=name, model=model)


def _in_memory(memory: Memory, wanted: str | None, model: str) -> Log:
    """A log that leaves nothing behind; where memory may be read, with all that an earlier one says."""
    if wanted and not memory.settings.incognito:
        newest = newest_session(memory) if wanted == LAST else None
        return memory.sessions.open(newest.id if newest else wanted).copy_in_memory()
    return replace(memory.sessions.transcripts, incognito=True).new(model=model)


# What is usual for a provider when nobody says: a local server often has a small window, and Ollama cuts what
# does not fit without a word.
# ---------------------------------------------------------------- the chat


@dataclass(frozen=True, slots=True)
class Flags:
    """What was asked for when the chat began."""

    inject: bool = True
    knowledge: bool = True
    verbose: bool = False
    window: int | None = None
    allow: tuple[str, ...] = ()


@dataclass(slots=True)
class Spent:
    """What a chat has used up so far; the cost is of those calls whose price is known."""

    total: ModelUsage = field(default_factory=ModelUsage)
    calls: int = 0

    def add(self, usage: ModelUsage) -> None:
        """One call more."""
        costs = [each.cost for each in (self.total, usage) if each.cost is not None]
        self.total = ModelUsage(
            self.total.input + usage.input,
            self.total.output + usage.output,
            sum(costs[1:], costs[0]) if costs else None,
            self.total.counted and usage.counted,
        )
        self.calls += 1


def find_model(settings: Settings, flag: str | None) -> Model | None:
    """The model named by a flag or the settings, else one of a server that runs on this machine."""
    named = (flag or settings.model or "").strip()
    provider = named.partition(":")[0].strip().lower()
    llm = settings.llm
    if named and (llm.endpoint or ALSO.get(provider, provider) != "compatible"):
        return resolve(named, llm)
    for found in discover_servers():
        if named and found.provider == "compatible":  # only the server knows where it is
            return resolve(named, llm.replace(endpoint=found.endpoint))
        if not named and found.default:
            return resolve(found.default, llm.replace(endpoint=found.endpoint))
    return resolve(named, llm)


def local_models() -> list[tuple[str, str]]:
    """Models of servers on this machine, each with its address."""
    return [(each.endpoint, name) for each in discover_servers() for name in each.names]


def known_providers() -> tuple[str, ...]:
    """The names that a model's name may begin with."""
    return tuple(PROVIDERS)


def count_tools(tools: Sequence[Any], ratio: float) -> int:
    """How many tokens tool definitions are."""
    return count(measure_schemas(tools), ratio)


def usual_window(model: str) -> int:
    """How large the window of a model is taken to be."""
    return WINDOWS.get(model.partition(":")[0], WINDOW)


class Chat:
    """One conversation, from the first prompt to the last."""

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
        self.spent = Spent()
        self.last = ModelUsage()
        self.footer = "off"
        self.proposed: tuple[Signal, ...] = ()
        self.over = False
        self.named = bool(session)  # a session that the person named is theirs to end
        self._hold: contextlib.AbstractContextManager[object] = contextlib.nullcontext()
        self.thread: list[Message] = []
        self.log: Log
        self.block: Block
        self.engine: ContextEngine
        self._served: int | None = None  # what the model's server says of its window
        self._renewed = False  # whether the engine is of this model and session
        self._told: tuple[str, ...] | None = None  # the tools that the system prompt tells of
        log, held = choose_session(self.person, session, fresh=fresh, model=self.model_name)
        self.enter(log, held)

    # ---------------------------------------------------------------- what it is made of

    @property
    def person(self) -> Memory:
        """Memory as the person reaches it."""
        return self.callers.person

    @property
    def agent(self) -> Memory:
        """Memory as the model reaches it."""
        return self.callers.agent

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.person.settings

    @property
    def model(self) -> Model | None:
        """What answers; it is sent no secret."""
        return self._model

    @model.setter
    def model(self, model: Model | None) -> None:
        self._model = None if model is None else guarded(model)

    @property
    def model_name(self) -> str:
        """How the model is chosen; empty when there is none."""
        return self.model.name if self.model is not None else ""

    @property
    def window(self) -> int:
        """How many tokens the model sees."""
        return min(self.assumed, self.engine.window) if self._renewed else self.assumed

    @property
    def assumed(self) -> int:
        """How many tokens it sees as far as the person, the settings or its server say."""
        given = self.flags.window or self.settings.llm.window
        return given or self._served or usual_window(self.model_name)

    @property
    def reply(self) -> int:
        """How many tokens an answer may have."""
        return min(LONGEST_REPLY, self.window // 4)

    def offered(self) -> list[Any]:
        """The tools that the model is offered."""
        from vademecum.interfaces.chat.tools import schemas

        return schemas(self)

    @property
    def mode(self) -> str:
        """What memory does in this chat, in a few words."""
        if self.settings.incognito:
            return "incognito: nothing is read, nothing is written"
        told = ["read-only" if self.person.workspace.readonly else "on"]
        if not self.flags.inject or not self.settings.inject.enabled:
            told.append("nothing injected")
        elif not self.flags.knowledge or not self.settings.inject.knowledge:
            told.append("without show lessons")
        told.append(str(self.person.caller.audience))
        return ", ".join(told)

    # ---------------------------------------------------------------- sessions

    def enter(self, log: Log, held: contextlib.AbstractContextManager[object]) -> None:
        """Go on with a session: its thread, its window, and the system prompt as it is now."""
        self._hold.__exit__(None, None, None)
        self._hold, self.log = held, log
        self.callers = in_session(self.callers, log.session)
        self.thread = [each.message for each in log.thread()]
        self.proposed = ()
        if not self.thread or self.thread[0].role is not Role.SYSTEM:
            self.thread.insert(0, Message(Role.SYSTEM, ()))
        self._told = None
        self.renew()

    def renew(self) -> None:
        """Make the window anew: another session, model or size."""
        place: ModelEndpoint | None = getattr(getattr(self.model, "behind", None), "place", None)
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
        """Have the system prompt tell of the tools that the model is offered now, and of no others."""
        names = tuple(str(each["name"]) for each in self.offered())
        if names != self._told:
            self._told = names
            self.block = self._injected(names)
            self.thread[0] = Message(Role.SYSTEM, (Text(self._system(names)),))

    def due(self) -> str:
        """Why this session is over by `session.reset`; empty while it goes on."""
        if self.named or self.person.workspace.readonly or self.settings.incognito or not self.said:
            return ""
        return self.person.sessions.transcripts.due(self.log)

    def begin(self, *, why: str, note: bool, named: bool = True) -> str:
        """End this session and begin another; returns where its note is, or why there is none."""
        told = self.end(why=why, note=note, named=note and named)
        log, held = choose_session(self.person, None, fresh=True, model=self.model_name)
        self.named = False
        self.enter(log, held)
        return told

    def end(self, *, why: str, note: bool = True, named: bool = False) -> str:
        """End the session, with a note of its last messages in the journal; nothing said, nothing noted."""
        if self.person.workspace.readonly or self.settings.incognito or not self.said:
            return "nothing"
        sessions = self.person.sessions.transcripts
        if not note:
            sessions = replace(sessions, note_messages=0)
        elif named and self.model is not None:
            sessions = replace(sessions, slug=self._slug)
        return sessions.end(self.log.session, why=why).note

    def close(self) -> None:
        """Let go of the session and of memory."""
        self._hold.__exit__(None, None, None)
        self._hold = contextlib.nullcontext()
        self.callers.close()

    @property
    def said(self) -> int:
        """How many messages the thread has beside the system prompt."""
        return len(self.thread) - 1

    # ---------------------------------------------------------------- the model, for what is not an answer

    def complete(
        self, messages: Sequence[Message], system: str, tools: Sequence[Any], seconds: float
    ) -> Message | str:
        """Ask the model for a flush or a summary, as the window asks for it."""
        if self.model is None:
            raise VadeError("there is no model")
        if tools and str(self.settings.approval.chat) == "deny":
            return "NO_REPLY"  # an agent that may not write is not asked what to write
        answer = self.model.text(
            SHAPE.write(messages), system=system, tools=tools, limits=Limits(seconds, output=self.reply)
        )
        self.spent.add(answer.usage)
        self.log.append(used(answer.usage, answer.model, why="flush" if tools else "compaction"))
        return SHAPE.read([answer.message])[0]

    def _slug(self, text: str) -> str:
        """A few words for the name of a note; the call belongs to the session that ends."""
        if self.model is None:
            return ""
        log = self.log
        answer = self.model.text(f"{prompt('slug')}\n\n{text[:_NOTES]}", limits=Limits(20, output=100))
        self.spent.add(answer.usage)
        log.append(used(answer.usage, answer.model, why="slug"))
        return answer.text

    # ---------------------------------------------------------------- what the model is told first

    def _injected(self, tools: Sequence[str]) -> Block:
        from vademecum import Block

        if not self.flags.inject:
            return Block("")
        return self.person.injection.block(knowledge=self.flags.knowledge, tools="memory_search" in tools)

    def _system(self, tools: Sequence[str]) -> str:
        from vademecum.interfaces.tools.declaration import render_instructions

        project = self.person.caller.project
        told = prompt("no_memory") if self.settings.incognito else render_instructions(tools)
        # Not `format`: what is put in may have braces of its own.
        text = prompt("system").replace("{memory}", told)
        text = text.replace("{date}", _date(self.person))
        text = text.replace("{folder}", str(project.root) if project else ".")
        return f"{text}\n\n{self.block.text}".strip() + "\n"


def _date(memory: Memory) -> str:
    return f"{memory.workspace.now():%Y-%m-%d}"


def prompt(name: str) -> str:
    """A prompt from its file."""
    return resources.files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip()


def used(usage: ModelUsage, model: str, *, why: str = "") -> Used:
    """What a call took, as the log keeps it; an estimate of ours teaches nothing about the model."""
    extra: dict[str, Any] = {"for": why} if why else {}
    cost = float(usage.cost) if usage.cost is not None else 0.0
    if not usage.counted or why:
        # Not as `input`, which stands for a whole window that a provider counted.
        extra["about" if not usage.counted else "read"] = usage.input
        return Used(output=usage.output, total=usage.tokens, cost=cost, model=model, extra=extra)
    return Used(input=usage.input, output=usage.output, total=usage.tokens, cost=cost, model=model)
