"""Memory for a program with an event loop: the same calls and attributes, but each call is awaited.

Each call has the signature of the call in `Memory`, so it is written once and typed in both. All calls of an
object run in a thread of its own, one after the other: a call that is cancelled before its turn does nothing,
and a running call is finished, even if nobody awaits it any more.
"""

from __future__ import annotations

import asyncio
import contextvars
import functools
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Protocol, TypeVar

from vademecum.context.conversations import Conversations
from vademecum.inject.injection import Injection
from vademecum.lifecycle.care import Care
from vademecum.lifecycle.heard_list import HeardList
from vademecum.lifecycle.learning import Learning
from vademecum.lifecycle.relations import Relations
from vademecum.lifecycle.transfer import Transfer
from vademecum.memory.archive import Archive
from vademecum.memory.browse import Browse
from vademecum.memory.core import Memory
from vademecum.memory.requests import Requests
from vademecum.memory.review import Review
from vademecum.store import AuditLog, Projects, Sources

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
    from typing import Self

    from vademecum.config import Settings
    from vademecum.store import Caller, Home

P = ParamSpec("P")
R = TypeVar("R")
_END = object()


class _Threaded(Protocol):
    """An object that runs its calls in another thread."""

    async def run(self, call: Callable[..., R], /, *given: Any, **named: Any) -> R: ...

    def _behind(self) -> Any: ...


def _awaited(
    call: Callable[Concatenate[Any, P], R],
) -> Callable[Concatenate[_Threaded, P], Coroutine[Any, Any, R]]:
    """Return a method that runs a call of `Memory` in its thread and can be awaited."""

    @functools.wraps(call)
    async def made(self: _Threaded, /, *given: P.args, **named: P.kwargs) -> R:
        return await self.run(lambda: call(self._behind(), *given, **named))

    return made


def _iterated(
    call: Callable[Concatenate[Any, P], Iterator[R]],
) -> Callable[Concatenate[_Threaded, P], AsyncIterator[R]]:
    """Return a method for `async for` that takes each step of an iterator in the thread."""

    @functools.wraps(call)
    async def made(self: _Threaded, /, *given: P.args, **named: P.kwargs) -> AsyncIterator[R]:
        steps = await self.run(lambda: iter(call(self._behind(), *given, **named)))
        while (step := await self.run(next, steps, _END)) is not _END:
            yield step

    return made


def _opened(call: Callable[P, Memory]) -> Callable[P, Coroutine[Any, Any, AsyncMemory]]:
    """Return an awaitable form of a function that opens a `Memory`; it gives an `AsyncMemory`."""

    @functools.wraps(call)
    async def made(*given: P.args, **named: P.kwargs) -> AsyncMemory:
        return AsyncMemory(await asyncio.to_thread(call, *given, **named))

    return made


class _Noun:
    """The awaited form of an attribute of `Memory`, whose calls run in the thread of its memory."""

    def __init__(self, memory: AsyncMemory, name: str) -> None:
        self.run = memory.run
        self._behind = lambda: getattr(memory.memory, name)


class AsyncArchive(_Noun):
    """The calls of `Memory.archive`, each awaited."""

    clear = _awaited(Archive.clear)
    events = _awaited(Archive.events)
    forgotten = _awaited(Archive.forgotten)
    lost_entries = _awaited(Archive.lost_entries)
    forget_all = _awaited(Archive.forget_all)
    history = _awaited(Archive.history)
    purge = _awaited(Archive.purge)
    purge_text = _awaited(Archive.purge_text)
    tombstones = _awaited(Archive.tombstones)
    finish_purges = _awaited(Archive.finish_purges)
    purge_findings = _awaited(Archive.purge_findings)
    held_texts = _awaited(Archive.held_texts)
    drop_held = _awaited(Archive.drop_held)
    restore = _awaited(Archive.restore)
    versions = _awaited(Archive.versions)


class AsyncAudit(_Noun):
    """The calls of `Memory.audit`, each awaited."""

    day = _awaited(AuditLog.day)
    days = _awaited(AuditLog.days)
    lines = _awaited(AuditLog.lines)
    verify = _awaited(AuditLog.verify)


class AsyncBrowse(_Noun):
    """The calls of `Memory.browse`, each awaited."""

    as_of = _awaited(Browse.as_of)
    entries = _awaited(Browse.entries)
    table = _awaited(Browse.table)


class AsyncCare(_Noun):
    """The calls of `Memory.care`, each awaited, without `watch`, which would block the thread."""

    accept_rewording = _awaited(Care.accept_rewording)
    compact = _awaited(Care.compact)
    editable = _awaited(Care.editable)
    edited = _awaited(Care.edited)
    heal = _awaited(Care.heal)
    index = _awaited(Care.index)
    leave_rewording = _awaited(Care.leave_rewording)
    lint = _awaited(Care.lint)
    merge = _awaited(Care.merge)
    move = _awaited(Care.move)
    notices = _awaited(Care.notices)
    promote = _awaited(Care.promote)
    rename = _awaited(Care.rename)
    reword = _awaited(Care.reword)
    runs = _awaited(Care.runs)
    saw_notices = _awaited(Care.saw_notices)
    select = _awaited(Care.select)
    split = _awaited(Care.split)
    survey = _awaited(Care.survey)
    tag = _awaited(Care.tag)
    sweep = _awaited(Care.sweep)
    sweep_if_due = _awaited(Care.sweep_if_due)
    due_for_sweep = _awaited(Care.due_for_sweep)
    undo = _awaited(Care.undo)
    write_listing = _awaited(Care.write_listing)


class AsyncGraph(_Noun):
    """The calls of `Memory.graph`, each awaited."""

    export = _awaited(Relations.export)
    propose = _awaited(Relations.propose)
    read = _awaited(Relations.read)
    reject = _awaited(Relations.reject)
    related = _awaited(Relations.related)


class AsyncHeard(_Noun):
    """The calls of `Memory.heard`, each awaited."""

    bar = _awaited(HeardList.bar)
    allow_model = _awaited(HeardList.allow_model)
    distill = _awaited(HeardList.distill)
    distilled = _awaited(HeardList.distilled)
    find_destination = _awaited(HeardList.find_destination)
    nudges = _awaited(HeardList.nudges)
    sessions = _awaited(HeardList.sessions)
    take_back = _awaited(HeardList.take_back)
    waiting = _awaited(HeardList.waiting)


class AsyncInjection(_Noun):
    """The calls of `Memory.injection`, each awaited."""

    block = _awaited(Injection.block)
    deliver = _awaited(Injection.deliver)
    deliveries = _awaited(Injection.deliveries)
    heard = _awaited(Injection.heard)
    nudge = _awaited(Injection.nudge)
    recent = _awaited(Injection.recent)
    remind = _awaited(Injection.remind)
    write_file = _awaited(Injection.write_file)


class AsyncKnowledge(_Noun):
    """The calls of `Memory.knowledge`, each awaited."""

    applied = _awaited(Learning.applied)
    draft_profile = _awaited(Learning.draft_profile)
    keep_profile = _awaited(Learning.keep_profile)
    learn = _awaited(Learning.learn)
    list = _awaited(Learning.list)
    profile = _awaited(Learning.profile)
    prune = _awaited(Learning.prune)
    stats = _awaited(Learning.stats)
    suggest = _awaited(Learning.suggest)


class AsyncProjects(_Noun):
    """The calls of `Memory.projects`, each awaited."""

    alias = _awaited(Projects.alias)
    elsewhere = _awaited(Projects.elsewhere)
    find = _awaited(Projects.find)
    init = _awaited(Projects.init)
    list = _awaited(Projects.list)
    moved_here = _awaited(Projects.moved_here)
    trust = _awaited(Projects.trust)


class AsyncRequests(_Noun):
    """The calls of `Memory.requests`, each awaited."""

    answered = _awaited(Requests.answered)
    once = _awaited(Requests.once)
    perform = _awaited(Requests.perform)
    propose = _awaited(Requests.propose)


class AsyncReview(_Noun):
    """The calls of `Memory.review`, each awaited."""

    approvals = _awaited(Review.approvals)
    approve = _awaited(Review.approve)
    damaged = _awaited(Review.damaged)
    decide = _awaited(Review.decide)
    inbox = _awaited(Review.inbox)
    protect = _awaited(Review.protect)
    reject = _awaited(Review.reject)
    selected = _awaited(Review.selected)
    trust_of = _awaited(Review.trust_of)
    verifiable = _awaited(Review.verifiable)
    verify = _awaited(Review.verify)
    waiting = _awaited(Review.waiting)


class AsyncSessions(_Noun):
    """The calls of `Memory.sessions`, each awaited."""

    card = _awaited(Conversations.card)
    checkpoint = _awaited(Conversations.checkpoint)
    context = _awaited(Conversations.context)
    count_elsewhere = _awaited(Conversations.count_elsewhere)
    current = _awaited(Conversations.current)
    end = _awaited(Conversations.end)
    export = _awaited(Conversations.export)
    get = _awaited(Conversations.get)
    read = _awaited(Conversations.read)
    kept_from = _awaited(Conversations.kept_from)
    page = _awaited(Conversations.page)
    import_all = _iterated(Conversations.import_all)
    import_transcript = _awaited(Conversations.import_transcript)
    join_folders = _awaited(Conversations.join_folders)
    list = _awaited(Conversations.list)
    messages = _awaited(Conversations.messages)
    new = _awaited(Conversations.new)
    open = _awaited(Conversations.open)
    rename = _awaited(Conversations.rename)
    render = _awaited(Conversations.render)
    said_in = _awaited(Conversations.said_in)
    search = _awaited(Conversations.search)
    search_elsewhere = _awaited(Conversations.search_elsewhere)
    todo = _awaited(Conversations.todo)
    trial = _awaited(Conversations.trial)
    trim = _awaited(Conversations.trim)
    turns = _awaited(Conversations.turns)


class AsyncSources(_Noun):
    """The calls of `Memory.sources`, each awaited."""

    add = _awaited(Sources.add)
    list = _awaited(Sources.list)
    remove = _awaited(Sources.remove)


class AsyncTransfer(_Noun):
    """The calls of `Memory.transfer`, each awaited."""

    backup = _awaited(Transfer.backup)
    export = _awaited(Transfer.export)
    export_ltm = _awaited(Transfer.export_ltm)
    import_from = _awaited(Transfer.import_from)
    import_ltm = _awaited(Transfer.import_ltm)
    import_from = _awaited(Transfer.import_from)
    import_pieces = _awaited(Transfer.import_pieces)
    ltm = _awaited(Transfer.ltm)
    restore_backup = _awaited(Transfer.restore_backup)
    verify_backup = _awaited(Transfer.verify_backup)


class AsyncMemory:
    """`Memory` with calls that are awaited."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._thread: ThreadPoolExecutor | None = None
        self.archive = AsyncArchive(self, "archive")
        self.audit = AsyncAudit(self, "audit")
        self.browse = AsyncBrowse(self, "browse")
        self.care = AsyncCare(self, "care")
        self.graph = AsyncGraph(self, "graph")
        self.heard = AsyncHeard(self, "heard")
        self.injection = AsyncInjection(self, "injection")
        self.knowledge = AsyncKnowledge(self, "knowledge")
        self.projects = AsyncProjects(self, "projects")
        self.requests = AsyncRequests(self, "requests")
        self.review = AsyncReview(self, "review")
        self.sessions = AsyncSessions(self, "sessions")
        self.sources = AsyncSources(self, "sources")
        self.transfer = AsyncTransfer(self, "transfer")

    open = staticmethod(_opened(Memory.open))

    @property
    def home(self) -> Home:
        """The home's folder."""
        return self.memory.home

    @property
    def caller(self) -> Caller:
        """The caller, as the interface knows it."""
        return self.memory.caller

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.memory.settings

    forget = _awaited(Memory.forget)
    get = _awaited(Memory.get)
    list = _awaited(Memory.list)
    note = _awaited(Memory.note)
    notes_of_today = _awaited(Memory.notes_of_today)
    recall = _awaited(Memory.recall)
    restore = _awaited(Memory.restore)
    search = _awaited(Memory.search)
    show = _awaited(Memory.show)
    status = _awaited(Memory.status)
    store = _awaited(Memory.store)

    async def run(self, call: Callable[..., R], /, *given: Any, **named: Any) -> R:
        """Run any function in the thread of this memory, such as a method of an object that a call
        returned.
        """
        if self._thread is None:
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="vademecum")
        inside = functools.partial(contextvars.copy_context().run, call, *given, **named)
        return await asyncio.get_running_loop().run_in_executor(self._thread, inside)

    async def close(self) -> None:
        """Close the index, the counters and the thread, after the calls that are still running."""
        try:
            await self.run(self.memory.close)
        finally:
            thread, self._thread = self._thread, None
            if thread is not None:
                thread.shutdown(wait=False)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def _behind(self) -> Memory:
        return self.memory
