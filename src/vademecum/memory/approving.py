"""What waits for a person, and what was asked for twice."""

from __future__ import annotations

import contextlib
import os
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from vademecum.errors import Conflict, NotFound, ScopeUnresolved, UnknownName
from vademecum.lazy import LazyModule
from vademecum.memory.base import Base
from vademecum.store import clock, names, scopes, texts
from vademecum.types import Audience, Finding, Noted, Origin, Place, Record, Scope, parse_origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from vademecum.context import todo as todos
    from vademecum.memory.whole import Memory
    from vademecum.store import approvals as approving
    from vademecum.store import reading, retries
else:
    todos = LazyModule("vademecum.context.todo")
    approving = LazyModule("vademecum.store.approvals")
    retries = LazyModule("vademecum.store.retries")
    reading = LazyModule("vademecum.store.reading")

_WRITES = ("store", "note", "learn", "forget", "prune_knowledge")  # what a door may ask for by name
_BRINGS = ("store", "note", "learn")  # whose text stays that of who asked for it


class Approving(Base):
    """What waits for a person, and what was asked for twice, as a part of `Memory`."""

    def perform(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Make a write by its name: `store`, `note`, `learn`, `forget` or `prune_knowledge`."""
        if operation not in _WRITES:
            raise UnknownName(
                f"{names.shown(operation)} is not a write", hint=f"the writes are {', '.join(_WRITES)}"
            )
        return getattr(self, operation)(**arguments)

    def once(
        self,
        key: str,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        do: Callable[[Any], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        """Make a write once for a key, however often it is asked for: a retry gets the first answer again.

        `do` makes it and returns the answer; it is given what an attempt that was cut off had done already.
        """
        self._may_write()

        def tried(begun: str | None) -> Mapping[str, Any]:
            return do(None if begun is None else self._done_since(begun, operation, arguments))

        asked = {"operation": operation, "arguments": arguments}
        with self._reported("keep this"):
            return retries.once(self.home, self._whose(key), asked=asked, at=self._stamp(), do=tried)

    def answered(self, key: str, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The answer that a write with this key got before; None when it is new."""
        asked = {"operation": operation, "arguments": arguments}
        with self._reported("look for an earlier answer"):
            return retries.answer(self.home, self._whose(key), asked=asked)

    def _whose(self, key: str) -> str:
        """A key that is its agent's and project's own."""
        project = self.caller.project
        return f"{self.caller.agent}/{project.id if project else ''}/{retries.check(key)}"

    def propose(
        self, operation: str, arguments: Mapping[str, Any], *, scope: str | Scope, door: str
    ) -> approving.Waiting:
        """Let a write wait until a person approves exactly this one; what is secret does not wait on disk."""
        self._may_write()
        place = scopes.place_for(self.caller, scopes.parse_scope(scope))
        if operation not in _WRITES:
            raise UnknownName(f"{names.shown(operation)} is not a write")
        asked = {name: self._gated(value, place.scope) for name, value in arguments.items()}
        seen = self._seen(operation, asked, place.scope)
        return self._wait_for_a_person(operation, asked, scope=place.scope, door=door, seen=seen, once=False)

    def _seen(self, operation: str, arguments: Mapping[str, Any], scope: Scope) -> str | None:
        """The hash of what a request would take the place of, which must still be so when it is approved."""
        if operation == "forget":
            return self._content_hash(self._find(str(arguments["name"]), scope, only=True))
        if operation == "store" and arguments.get("mode") == "replace" and arguments.get("key"):
            key = names.slug(arguments["key"]) if arguments.get("slug") else str(arguments["key"])
            with contextlib.suppress(NotFound):
                return self._content_hash(self._find(key, scope, only=True))
        return None

    def approvals(self) -> Sequence[approving.Waiting]:
        """The writes that wait for a person, oldest first."""
        self._only_a_person("look at what waits", "vade approve")
        return [] if self.settings.incognito else approving.every(self.home)

    def approve(self, which: str) -> tuple[approving.Request, Any]:
        """Do what waits, by its id; it is used up by this.

        The act is the person's, whatever it takes away. A text that it brings keeps the origin it came with.
        """
        self._may_write()
        self.may_decide("approve a write", "vade approve")
        with self._reported(f"approve {which}"), approving.held(self.home, which) as waiting:
            request = approving.unchanged(waiting)
            with self._as_asked(request) as asked:
                seen = asked._seen(request.operation, request.arguments, Scope(request.scope))
                if request.seen not in (None, seen):
                    raise _changed(str(request.arguments.get("name") or request.arguments.get("key")))
                # A text never takes the place of what the person was not shown.
                result = (asked._backed() if request.seen == seen else asked)._approved(request)
            self._audit("approve", scope=Scope(request.scope))
        return request, result

    def _backed(self) -> Memory:
        """The same memory, in which a person stands behind what is done."""
        from vademecum.memory.whole import Memory  # which is made of this part

        return Memory(self.home, replace(self.caller, approved=True), self.loaded, now=self.now)

    def _approved(self, request: approving.Request) -> Any:
        """What a request asks for, once a person has approved it."""
        given, scope = request.arguments, Scope(request.scope)
        if request.operation == "replace":
            found = self._find(str(given["name"]), scope, only=True)
            labels = {name: given[name] for name in ("type", "tags") if given.get(name)}
            with self._reported(f"replace an entry of {found.record.key}"):
                return self.records.settle(found, old=given["instead_of"], new=given["text"], labels=labels)
        if request.operation == "archive":
            chosen = [self._find(str(each["name"]), scope, only=True) for each in given["records"]]
            for found, each in zip(chosen, given["records"], strict=True):
                if self._content_hash(found) != each["seen"]:
                    raise _changed(found.record.key)
            with self._reported("put these away"):
                return self._backed()._cleared(chosen)
        return self.perform(request.operation, given)

    def reject(self, which: str) -> approving.Waiting:
        """Say no to a write that waits; it is never made."""
        self._may_write()
        self.may_decide("reject a write", "vade approve")
        with self._reported(f"reject {which}"), approving.held(self.home, which) as waiting:
            self._audit("reject", scope=Scope(waiting.request.scope) if waiting.request else None)
        return waiting

    def todo(self, request: Mapping[str, Any]) -> tuple[todos.TodoList, str]:
        """Work on the session's list of things to do: `write`, `update`, `add`, `list` or `done`."""
        if self.caller.session is None:
            raise ScopeUnresolved("a list of things to do belongs to a session, and this caller has none")
        from vademecum.transcripts.events import Todo as Listed

        looks = request.get("operation", "list") == "list"
        if not looks:
            self._may_write()
        with self._reported("keep the list of things to do"):
            try:
                log = self.transcripts.open(self.caller.session) if looks else self.transcripts.current()
            except NotFound:
                return todos.operate(todos.TodoList(), request)
            with contextlib.nullcontext() if looks else self.home.lock(f"todo {log.session}"):
                made, said = todos.operate(todos.read_log(log), request)
                if not looks:
                    value = todos.to_json(made)
                    log.append(Listed(items=tuple(value["items"]), next=value["next"]), sync=True)
        return made, said

    def _undecided(self) -> Iterator[Finding]:
        """That writes wait for a person."""
        count = approving.count(self.home) if self.caller.audience is Audience.PRIVATE else 0
        if count:
            said = "1 write waits" if count == 1 else f"{count} writes wait"
            yield Finding("approval", "decisions/approvals", f"{said} for a person", "vade approve", "info")

    def _as_asked(self, request: approving.Request) -> Memory:
        """Memory as the one who asked for a write has it; refuses when that project is no longer here."""
        from vademecum.memory.whole import connect  # which is made of this part

        environ = {
            name: value for name, value in os.environ.items() if name not in ("VADE_SESSION", "VADE_AUDIENCE")
        }
        asked = connect(
            home=self.home.path,
            cwd=request.root or self.home.path,
            agent=request.agent,
            session=request.session,
            audience=request.audience,
            origin=parse_origin(request.origin) if request.operation in _BRINGS else Origin.USER,
            actor=request.actor if request.operation in _BRINGS else self.caller.actor,
            now=self.now,
            environ=environ,
        )
        own = asked.caller.project
        if request.scope == Scope.PROJECT and (own.id if own else None) != request.project:
            raise NotFound(
                f"the project {request.project} is not at {request.root} any more",
                hint="nothing was written; reject it, and ask again from where the project is now",
            )
        return asked

    def _done_since(self, begun: str, operation: str, arguments: Mapping[str, Any]) -> Any:
        """What an attempt that was cut off had done, where doing it again would not be the same."""
        if operation == "note":
            return self._noted_since(begun, arguments["text"], arguments.get("scope", Scope.PROJECT))
        if operation != "forget":
            return None  # the same text again is a confirmation
        name, scope = str(arguments["name"]), scopes.parse_scope(arguments.get("scope") or Scope.PROJECT)
        try:
            self._find(name, scope, only=True)
        except NotFound:
            return Record(name, Place(scope), "", "", "", ())
        return None

    def _noted_since(self, begun: str, text: str, scope: str | Scope) -> Noted | None:
        scope, since = scopes.parse_scope(scope), clock.parse(begun)
        kept, _ = self._gate(texts.accept(text, largest=self.settings.limits.content_bytes), scope)
        for day in self.journal.days([scopes.journal_place(self.caller, scope)]):
            if isinstance(day, Finding):
                continue
            for entry in day.entries:
                at = clock.parse(entry.time)
                if entry.text.strip() == kept.strip() and at and since and at >= since:
                    return Noted(day.path, entry.time or "")
        return None

    def _gated(self, value: Any, scope: Scope) -> Any:
        """A value whose texts passed the secret gate."""
        if isinstance(value, str):
            return self._gate(value, scope)[0]
        if isinstance(value, list | tuple):
            return [self._gated(each, scope) for each in value]
        return value


def _changed(name: str) -> Conflict:
    return Conflict(
        f"{name} was changed after it was asked for", hint="nothing was done; reject it, and ask again"
    )
