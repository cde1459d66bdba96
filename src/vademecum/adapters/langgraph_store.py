"""LangGraph's `BaseStore` over records: each item is a record that a person can read, search and restore.

An item's namespace, key and value stand as JSON in the text of its record; tags name the namespaces it lies
in. A value that is put again supersedes the one before it, and what is deleted goes to the archive.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import re
import unicodedata
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, NamedTuple

try:
    from langgraph.store.base import (
        BaseStore,
        GetOp,
        InvalidNamespaceError,
        Item,
        ListNamespacesOp,
        PutOp,
        SearchItem,
        SearchOp,
        validate_op_namespace,
    )
except ModuleNotFoundError as error:
    raise ImportError(f"{error.name} is not installed: pip install 'vademecum[langgraph]'") from error

from vademecum import Malformed, NotFound, Scope
from vademecum.adapters.base import as_agent
from vademecum.interfaces.present.safe import clean_value, has_secret
from vademecum.text import fences
from vademecum.text.clock import parse as parse_stamp
from vademecum.text.names import LONGEST_KEY, slug
from vademecum.types import SecretPolicy

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from langgraph.store.base import MatchCondition, Op, Result

    from vademecum import Memory, Record

_log = logging.getLogger(__name__)

TAG = "langgraph"  # of every record that is an item
TTL = (
    "TTL is not supported by RecordStore: items stay until they are deleted, and deleted items can be"
    " restored. Set ttl=None."
)

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ODD = re.compile(
    r"(?<=[\s\"])\s|\s(?=\")|[^\S ]|[\ud800-\udfff]"
)  # what a record would not tell apart or hold
_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_CANDIDATES = 1000  # passages that a search draws upon before its filter


class StoredItem(NamedTuple):
    """An item, as its record says it."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    indexed: bool
    record: Record

    @property
    def fields(self) -> dict[str, Any]:
        """What the library's own items are made from."""
        created, updated = (_moment(each) for each in (self.record.created, self.record.updated))
        return {
            "namespace": self.namespace,
            "key": self.key,
            "value": self.value,
            "created_at": created,
            "updated_at": updated,
        }


# -------------------------------------------------------------------- an item and its text


def record_key(namespace: Sequence[str], key: str) -> str:
    """The key of an item's record: its last words for people, and a hash that no other item has."""
    whole = json.dumps([list(namespace), key])
    mark = hashlib.sha256(whole.encode()).hexdigest()[:16]
    words = slug(" ".join((*namespace, key)))[: LONGEST_KEY - len(mark) - 1].strip("-")
    return f"{words}-{mark}"


def tag_of(namespace: Sequence[str]) -> str:
    """The tag of all that lies in a namespace or below it; a hash, since a label may hold anything."""
    if not namespace:
        return TAG
    whole = json.dumps(list(namespace)).encode()
    return f"{TAG}-{hashlib.sha256(whole).hexdigest()[:16]}"


def render(namespace: Sequence[str], key: str, value: Mapping[str, Any], *, indexed: bool = True) -> str:
    """An item as the text of a record; raises TypeError or ValueError for what JSON cannot say."""
    whole: dict[str, Any] = {"namespace": list(namespace), "key": key, "value": value}
    if not indexed:
        whole["index"] = False
    try:
        text = json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False)
    except RecursionError as error:
        raise ValueError("the value is nested too deeply") from error
    return fences.wrap(_STRING.sub(_exact, text), "json")


def parse(record: Record) -> StoredItem:
    """The item that a record is; Malformed for one that a hand has broken."""
    texts = [entry.text.strip() for entry in record.live or record.entries]
    # Somebody may have appended words of their own behind it.
    inner = (fences.unwrap(text, "json") for text in reversed(texts))
    found = next((each for each in inner if each is not None), record.text)
    try:
        whole = json.loads(found)
        namespace, key, value = tuple(whole["namespace"]), whole["key"], whole["value"]
        if not (
            isinstance(key, str) and isinstance(value, dict) and all(isinstance(x, str) for x in namespace)
        ):
            raise TypeError(whole)
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise Malformed(f"{record.path} is tagged `{TAG}` and contains no item: {error}") from error
    # String by string, and only now: what is cut out of the whole may take a quotation mark along.
    return StoredItem(namespace, key, clean_value(value), whole.get("index") is not False, record)


def _exact(token: re.Match[str]) -> str:
    """A JSON string in which white space and composition count: two texts that differ there alone are one."""
    text = _ODD.sub(lambda found: _escaped(found[0]), token[0])
    if unicodedata.normalize("NFC", text) == text:
        return text
    return "".join(char if char.isascii() else _escaped(char) for char in text)


def _escaped(char: str) -> str:
    return json.dumps(char)[1:-1] if not char.isascii() else f"\\u{ord(char):04x}"


def _moment(stamp: str | None) -> datetime:
    return (parse_stamp(stamp) if stamp else None) or datetime.fromtimestamp(0, UTC)


# -------------------------------------------------------------------- the store


class RecordStore(BaseStore):
    """Items as records of one scope; `scopes` sends those whose namespace begins with a label elsewhere.

    A search brings the nearest items however far they are, as other stores do; `min_score` sets a bar.
    """

    supports_ttl = False

    def __init__(
        self,
        memory: Memory,
        *,
        scope: str | Scope = Scope.PROJECT,
        scopes: Mapping[str, str | Scope] | None = None,
        min_score: float = 0.0,
    ) -> None:
        self._memory = as_agent(memory)
        self._min_score = min_score
        self._scope = _reachable(memory, scope)
        self._scopes = {label: _reachable(memory, each) for label, each in (scopes or {}).items()}

    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do all operations: what is read is as it was before what is put; of two puts the last counts."""
        listed = [self._checked(op) for op in ops]
        results = [self._read(op) for op in listed]
        puts = {(op.namespace, op.key): op for op in listed if isinstance(op, PutOp)}
        texts = {place: self._text(op) for place, op in puts.items() if op.value is not None}
        for place, op in puts.items():
            if op.value is None:
                self._delete(op)
            else:
                self._put(op, texts[place])
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """The same in a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    # ---------------------------------------------------------------- reading

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            kept = self._get(op.namespace, op.key)
            return None if kept is None else Item(**kept.fields)
        if isinstance(op, SearchOp):
            found = self._search(op)[op.offset : op.offset + op.limit]
            return [SearchItem(**kept.fields, score=score) for kept, score in found]
        if isinstance(op, ListNamespacesOp):
            return self._namespaces(op)
        return None

    def _get(self, namespace: tuple[str, ...], key: str) -> StoredItem | None:
        try:
            record = self._memory.show(
                record_key(namespace, key), scope=self._scope_of(namespace), reveal=True
            )
        except NotFound:
            return None
        return parse(record)

    def _all(self, prefix: tuple[str, ...]) -> list[StoredItem]:
        """All items in a namespace or below it, those that changed last first."""
        found = []
        for scope in self._scopes_of(prefix):
            for record in self._memory.list(scope=scope, tag=tag_of(prefix), reveal=True).records:
                try:
                    kept = parse(record)
                except Malformed as error:  # told, and no reason to hide all others
                    _log.warning("%s", error)
                    continue
                if kept.namespace[: len(prefix)] == prefix:
                    found.append(kept)
        return sorted(found, key=lambda kept: (kept.record.updated or "", kept.record.num or 0), reverse=True)

    def _search(self, op: SearchOp) -> list[tuple[StoredItem, float | None]]:
        matching = [kept for kept in self._all(op.namespace_prefix) if matches(kept.value, op.filter)]
        if not (op.query and op.query.strip()):
            return [(kept, None) for kept in matching]
        by_path = {kept.record.path: kept for kept in matching if kept.indexed}
        ranked: dict[str, float] = {}
        for scope in self._scopes_of(op.namespace_prefix):
            answer = self._memory.search(
                f"{op.query} tag:{tag_of(op.namespace_prefix)}",
                scope=scope,
                sources=("memory",),
                max_results=_CANDIDATES,
                min_score=self._min_score,
                max_weak=_CANDIDATES,
            )
            for each in answer.results:
                if each.path in by_path and each.superseded is None:
                    ranked[each.path] = max(each.relevance, ranked.get(each.path, 0.0))
        order = sorted(
            ranked, key=lambda path: -ranked[path]
        )  # those that are equal stay as they were ranked
        return [(by_path[path], ranked[path]) for path in order]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found = {kept.namespace for kept in self._all(())}
        kept = {each for each in found if all(fits(each, condition) for condition in conditions)}
        if op.max_depth is not None:
            kept = {each[: op.max_depth] for each in kept}
        return sorted(kept)[op.offset : op.offset + op.limit]

    # ---------------------------------------------------------------- writing

    def _text(self, op: PutOp) -> str:
        """The text of an item, made and checked before anything is written."""
        value = op.value
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise TypeError(f"a value must be a mapping with string keys, not {type(value).__name__}")
        policy = self._memory.settings.secrets.in_scope(self._scope_of(op.namespace))
        indexed = op.index is not False
        text = render(op.namespace, op.key, dict(value), indexed=indexed)
        if policy is SecretPolicy.REDACT and has_secret(text):
            # String by string: what is cut out of the whole may take a quotation mark along.
            text = render(op.namespace, op.key, clean_value(dict(value)), indexed=indexed)
            if has_secret(text):
                raise ValueError(
                    "the namespace, the key or the value contains a secret that cannot be removed"
                )
        size, largest = len(text.encode(errors="surrogatepass")), self._memory.settings.limits.content_bytes
        if size > largest:
            raise ValueError(f"the item {op.key!r} has {size:,} bytes; at most {largest:,} are kept")
        return text

    def _put(self, op: PutOp, text: str) -> None:
        spaces = [op.namespace[:depth] for depth in range(len(op.namespace) + 1)]
        self._memory.store(
            text,
            key=record_key(op.namespace, op.key),
            scope=self._scope_of(op.namespace),
            tags=[tag_of(each) for each in spaces],
            mode="replace",
            protected=True,  # neither age nor a cap ends it: a program relies on what it has put
        )

    def _delete(self, op: PutOp) -> None:
        kept = self._get(op.namespace, op.key)
        if kept is not None:
            name = kept.record.id or kept.record.key
            self._memory.forget(name, scope=self._scope_of(op.namespace))

    def _checked(self, op: Op) -> Op:
        """An operation that can be done, before any of its batch is."""
        if not isinstance(op, GetOp | PutOp | SearchOp | ListNamespacesOp):
            raise ValueError(f"Unknown operation type: {type(op)}")
        validate_op_namespace(op)
        if isinstance(op, PutOp):
            if not op.namespace:
                raise InvalidNamespaceError("Namespace cannot be empty.")
            if op.ttl is not None:
                raise NotImplementedError(TTL)
        if isinstance(op, GetOp | PutOp) and not isinstance(op.key, str):
            raise TypeError(f"a key must be a string, not {type(op.key).__name__}")
        if isinstance(op, SearchOp | ListNamespacesOp) and (op.limit < 0 or op.offset < 0):
            raise ValueError("limit and offset must be 0 or more")
        if isinstance(op, SearchOp):
            matches({}, op.filter)  # raises for an operator that is none
            return op._replace(namespace_prefix=tuple(op.namespace_prefix))
        return op if isinstance(op, ListNamespacesOp) else op._replace(namespace=tuple(op.namespace))

    def _scope_of(self, namespace: Sequence[str]) -> Scope:
        return self._scopes.get(namespace[0], self._scope) if namespace else self._scope

    def _scopes_of(self, prefix: Sequence[str]) -> list[Scope]:
        if prefix:
            return [self._scope_of(prefix)]
        return [*dict.fromkeys((self._scope, *self._scopes.values()))]


def _reachable(memory: Memory, scope: str | Scope) -> Scope:
    """The scope, once it is sure that the caller has one."""
    return memory.caller.place(scope).scope


# -------------------------------------------------------------------- conditions


def fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Whether a namespace begins or ends as the condition says; `*` is any label."""
    wanted = condition.path
    if condition.match_type not in ("prefix", "suffix"):
        raise ValueError(f"Unsupported match type: {condition.match_type}")
    if len(namespace) < len(wanted):
        return False
    part = (
        namespace[: len(wanted)]
        if condition.match_type == "prefix"
        else namespace[len(namespace) - len(wanted) :]
    )
    return all(label in ("*", own) for label, own in zip(wanted, part, strict=True))


def matches(value: Mapping[str, Any], wanted: Mapping[str, Any] | None) -> bool:
    """Whether a value has all that a filter asks for."""
    return all([_has(value.get(name), each) for name, each in (wanted or {}).items()])  # noqa: C419


def _has(own: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all([_compared(own, name, each) for name, each in wanted.items()])  # noqa: C419
        return isinstance(own, Mapping) and all(_has(own.get(name), each) for name, each in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(own, list | tuple) and len(own) == len(wanted)
        return same and all(_has(*pair) for pair in zip(own, wanted, strict=True))
    return bool(own == wanted)


def _compared(own: Any, operator: str, wanted: Any) -> bool:
    if operator not in _OPERATORS:
        raise ValueError(f"Unsupported operator: {operator}")
    if operator in ("$eq", "$ne"):
        return bool(own == wanted) is (operator == "$eq")
    comparable = all(isinstance(each, int | float) for each in (own, wanted)) or (
        isinstance(own, str) and isinstance(wanted, str)
    )
    if not comparable:
        return False
    return bool(
        {"$gt": own > wanted, "$gte": own >= wanted, "$lt": own < wanted, "$lte": own <= wanted}[operator]
    )
