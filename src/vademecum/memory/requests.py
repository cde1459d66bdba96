"""Writes by their name: made, made once for a key, or left pending."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from vademecum.errors import NotFound, UnknownName
from vademecum.store import document, requests, scopes
from vademecum.text import clock, names
from vademecum.types import Finding, Noted, Place, Record, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from vademecum.memory.core import Memory
    from vademecum.store.requests import Waiting


class Requests:
    """Writes that a door asks for by their name, as `Memory` offers them."""

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self._work = memory.workspace

    def perform(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Make a write by its name: `store`, `note`, `learn`, `forget` or `prune_knowledge`."""
        return self._write(operation)(**arguments)

    def _write(self, operation: str) -> Callable[..., Any]:
        memory = self._memory
        writes: dict[str, Callable[[], Callable[..., Any]]] = {  # a noun is made when it is asked for
            "store": lambda: memory.store,
            "note": lambda: memory.note,
            "learn": lambda: memory.knowledge.learn,
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
        """Make a write once for a key, however often it is asked for: a retry gets the first answer again.

        `do` makes it and returns the answer; it is given what an attempt that was cut off had done already.
        """
        self._work.may_write()

        def tried(begun: str | None) -> Mapping[str, Any]:
            return do(None if begun is None else self._done_since(begun, operation, arguments))

        asked = {"operation": operation, "arguments": arguments}
        with self._work.reported("save this"):
            return requests.once(
                self._work.home, self._whose(key), asked=asked, at=self._work.stamp(), do=tried
            )

    def answered(self, key: str, operation: str, arguments: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """The answer that a write with this key got before; None when it is new."""
        asked = {"operation": operation, "arguments": arguments}
        with self._work.reported("look for an earlier answer"):
            return requests.answer(self._work.home, self._whose(key), asked=asked)

    def _whose(self, key: str) -> str:
        """A key that is its agent's and project's own."""
        project = self._work.caller.project
        return f"{self._work.caller.agent}/{project.id if project else ''}/{requests.check_key(key)}"

    def propose(
        self, operation: str, arguments: Mapping[str, Any], *, scope: str | Scope, door: str
    ) -> Waiting:
        """Let a write wait until a person approves exactly this one; what is secret does not wait on disk."""
        self._work.may_write()
        place = scopes.place_for(self._work.caller, scopes.parse_scope(scope))
        self._write(operation)
        if arguments.get("team"):  # what names no team is refused now, and not when a person looks at it
            self._work.find_team(str(arguments["team"]), place.scope)
        asked = {name: self._gated(value, place.scope) for name, value in arguments.items()}
        seen = self.seen(operation, asked, place.scope)
        return self._work.wait_for_a_person(
            operation, asked, scope=place.scope, door=door, seen=seen, once=False
        )

    def seen(self, operation: str, arguments: Mapping[str, Any], scope: Scope) -> str | None:
        """The hash of what a request would take the place of, which must still be so when it is approved."""
        if operation in ("forget", "reword"):
            return self._work.content_hash(self._work.find(str(arguments["name"]), scope, only=True))
        if operation == "store" and arguments.get("mode") == "replace" and arguments.get("key"):
            key = names.slug(arguments["key"]) if arguments.get("slug") else str(arguments["key"])
            with contextlib.suppress(NotFound):
                return self._work.content_hash(self._work.find(key, scope, only=True))
        return None

    def _done_since(self, begun: str, operation: str, arguments: Mapping[str, Any]) -> Any:
        """What an attempt that was cut off had done, where doing it again would not be the same."""
        if operation == "note":
            return self._noted_since(begun, arguments["text"], arguments.get("scope", Scope.PROJECT))
        if operation != "forget":
            return None  # the same text again is a confirmation
        name, scope = str(arguments["name"]), scopes.parse_scope(arguments.get("scope") or Scope.PROJECT)
        try:
            self._work.find(name, scope, only=True)
        except NotFound:
            return Record(name, Place(scope), "", "", "", ())
        return None

    def _noted_since(self, begun: str, text: str, scope: str | Scope) -> Noted | None:
        scope, since = scopes.parse_scope(scope), clock.parse(begun)
        kept, _ = self._work.gate(
            document.accept_text(text, largest=self._work.settings.limits.content_bytes), scope
        )
        for day in self._work.journal.days([scopes.journal_place(self._work.caller, scope)]):
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
            return self._work.gate(value, scope)[0]
        if isinstance(value, list | tuple):
            return [self._gated(each, scope) for each in value]
        return value
