"""Writes by the name of their operation: made at once, made only once for a key, or left pending."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound, UnknownName
from vademecum.store import pending_writes, scopes
from vademecum.text import clock, document, names
from vademecum.types import Finding, Noted, Place, Record, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.memory.core import Memory
    from vademecum.store import PendingRequest


class Requests:
    """`Memory.requests`: writes that an interface asks for by the name of an operation."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._work = memory.workspace

    def perform(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Make a write by its operation's name: `store`, `note`, `learn`, `count_use`, `forget` or
        `prune_knowledge`.
        """
        return self._write(operation)(**arguments)

    def _write(self, operation: str) -> Callable[..., Any]:
        memory = self._memory
        writes: dict[str, Callable[[], Callable[..., Any]]] = {  # a noun is made at its first use
            "store": lambda: memory.store,
            "note": lambda: memory.note,
            "learn": lambda: memory.knowledge.learn,
            "count_use": lambda: memory.knowledge.applied,
            "forget": lambda: memory.forget,
            "prune_knowledge": lambda: memory.knowledge.prune,
        }
        if operation not in writes:
            raise UnknownName(
                f"{names.shown(operation)} is not a write", hint=f"the writes are {', '.join(writes)}"
            )
        return writes[operation]()

    def once(
        self,
        key: str,
        operation: str,
        arguments: Mapping[str, Any],
        *,
        do: Callable[[Any], Mapping[str, Any]],
    ) -> Mapping[str, Any]:
        """Make a write only once for a key; a second call with the key gets the first answer again.

        `do` makes the write and returns the answer. Its argument is the result of an interrupted attempt, or
        None.
        """
        self._work.may_write()

        def tried(begun: str | None) -> Mapping[str, Any]:
            return do(None if begun is None else self._find_done(begun, operation, arguments))

        request = {"operation": operation, "arguments": arguments}
        with self._work.reported("save this"):
            return pending_writes.once(
                self._work.home, self._unique_key(key), request=request, at=self._work.stamp(), do=tried
            )

    def answered(self, key: str, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the answer that a write with this key got earlier; None when the key is new."""
        request = {"operation": operation, "arguments": arguments}
        with self._work.reported("look for an earlier answer"):
            return pending_writes.answer(self._work.home, self._unique_key(key), request=request)

    def _unique_key(self, key: str) -> str:
        """Return a key with the agent and the project added, so that others can use the same key."""
        project = self._work.caller.project
        return f"{self._work.caller.agent}/{project.id if project else ''}/{pending_writes.check_key(key)}"

    def propose(
        self, operation: str, arguments: Mapping[str, Any], *, scope: str | Scope, door: str
    ) -> PendingRequest:
        """Leave a write pending until a person approves exactly this write; its secrets are not stored."""
        self._work.may_write()
        place = scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        self._write(operation)
        if arguments.get("team"):  # an unknown team is refused now, and not at the approval
            self._work.find_team(str(arguments["team"]), place.scope)
        values = {name: self._check_secrets(value, place.scope) for name, value in arguments.items()}
        seen = self.seen(operation, values, place.scope)
        return self._work.wait_for_a_person(
            operation, values, scope=place.scope, door=door, seen=seen, once=False
        )

    def seen(self, operation: str, arguments: Mapping[str, Any], scope: Scope) -> str | None:
        """Return the hash of the content that a request would replace, to notice changes at approval."""
        if operation in ("forget", "reword"):
            return self._work.content_hash(self._work.find(str(arguments["name"]), scope, only=True))
        if operation == "store" and arguments.get("mode") == "replace" and arguments.get("key"):
            key = names.slug(arguments["key"]) if arguments.get("slug") else str(arguments["key"])
            with contextlib.suppress(NotFound):
                return self._work.content_hash(self._work.find(key, scope, only=True))
        return None

    def _find_done(self, begun: str, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Return the result of an interrupted attempt; None if the write can safely be repeated."""
        if operation == "note":
            return self._find_note(begun, arguments["text"], arguments.get("scope", Scope.PROJECT))
        if operation != "forget":
            return None  # saving the same text again only confirms it
        name, scope = str(arguments["name"]), scopes.parse_scope(arguments.get("scope") or Scope.PROJECT)
        try:
            self._work.find(name, scope, only=True)
        except NotFound:
            return Record(name, Place(scope), "", "", "", ())
        return None

    def _find_note(self, begun: str, text: str, scope: str | Scope) -> Noted | None:
        scope, since = scopes.parse_scope(scope), clock.parse(begun)
        clean_text, _ = self._work.gate(
            document.accept_text(text, largest=self._work.settings.limits.content_bytes), scope
        )
        for day in self._work.journal.days([scopes.journal_place(self._work.caller, scope)]):
            if isinstance(day, Finding):
                continue
            for entry in day.entries:
                at = clock.parse(entry.time)
                if entry.text.strip() == clean_text.strip() and at and since and at >= since:
                    return Noted(day.path, entry.time or "")
        return None

    def _check_secrets(self, value: Any, scope: Scope) -> Any:
        """Return a value in which each text has passed the check for secrets."""
        if isinstance(value, str):
            return self._work.gate(value, scope)[0]
        if isinstance(value, list | tuple):
            return [self._check_secrets(each, scope) for each in value]
        return value
