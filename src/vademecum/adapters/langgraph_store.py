"""LangGraph's `BaseStore` over records: each item is a record that a person can read, search and restore.

An item's namespace, key and value stand as JSON in the text of its record; tags name its namespaces. A new
value supersedes the old one, and deleted items go to the archive.
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

TAG = "langgraph"  # the tag of every record that is an item
TTL = (
    "TTL is not supported by RecordStore: items stay until they are deleted, and deleted items can be"
    " restored. Set ttl=None."
)

_STRING = re.compile(r'"(?:[^"\\]|\\.)*"')
_ODD = re.compile(
    r"(?<=[\s\"])\s|\s(?=\")|[^\S ]|[\ud800-\udfff]"
)  # characters that a record would change or cannot hold
_OPERATORS = ("$eq", "$ne", "$gt", "$gte", "$lt", "$lte")
_CANDIDATES = 1000  # passages that a search fetches before its filter


class StoredItem(NamedTuple):
    """An item of the store, as read from its record."""

    namespace: tuple[str, ...]
    key: str
    value: dict[str, Any]
    indexed: bool
    record: Record

    @property
    def fields(self) -> dict[str, Any]:
        """Return the arguments for creating the library's own item."""
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
    """Return the key of an item's record: readable words and a hash that is unique to the item."""
    whole = json.dumps([list(namespace), key])
    mark = hashlib.sha256(whole.encode()).hexdigest()[:16]
    words = slug(" ".join((*namespace, key)))[: LONGEST_KEY - len(mark) - 1].strip("-")
    return f"{words}-{mark}"


def tag_of(namespace: Sequence[str]) -> str:
    """Return the tag of all items in or below a namespace: a hash, because labels may hold any text."""
    if not namespace:
        return TAG
    whole = json.dumps(list(namespace)).encode()
    return f"{TAG}-{hashlib.sha256(whole).hexdigest()[:16]}"


def render(namespace: Sequence[str], key: str, value: Mapping[str, Any], *, indexed: bool = True) -> str:
    """Return an item as a record's text; raise TypeError or ValueError for values that JSON lacks."""
    whole: dict[str, Any] = {"namespace": list(namespace), "key": key, "value": value}
    if not indexed:
        whole["index"] = False
    try:
        text = json.dumps(whole, ensure_ascii=False, indent=1, allow_nan=False)
    except RecursionError as error:
        raise ValueError("the value is nested too deeply") from error
    return fences.wrap(_STRING.sub(_exact, text), "json")


def parse(record: Record) -> StoredItem:
    """Return the item in a record; raise Malformed if the record holds no valid item."""
    texts = [entry.text.strip() for entry in record.live or record.entries]
    # A person may have appended text behind the item.
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
    # Secrets are removed from each string after parsing; removed from the JSON text, they could take a quote
    # along.
    return StoredItem(namespace, key, clean_value(value), whole.get("index") is not False, record)


def _exact(token: re.Match[str]) -> str:
    """Return a JSON string with escapes, so that its white space and Unicode form survive in a record."""
    text = _ODD.sub(lambda found: _escape(found[0]), token[0])
    if unicodedata.normalize("NFC", text) == text:
        return text
    return "".join(char if char.isascii() else _escape(char) for char in text)


def _escape(char: str) -> str:
    return json.dumps(char)[1:-1] if not char.isascii() else f"\\u{ord(char):04x}"


def _moment(stamp: str | None) -> datetime:
    return (parse_stamp(stamp) if stamp else None) or datetime.fromtimestamp(0, UTC)


# -------------------------------------------------------------------- the store


class RecordStore(BaseStore):
    """A store with an item in each record of one scope; `scopes` maps first labels to other scopes.

    A search returns the nearest items however far they are, as other stores do; `min_score` sets a limit.
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
        """Run all operations: reads see the state before the writes; of two writes to an item the last
        counts.
        """
        checked_ops = [self._check_op(op) for op in ops]
        results = [self._read(op) for op in checked_ops]
        puts = {(op.namespace, op.key): op for op in checked_ops if isinstance(op, PutOp)}
        texts = {place: self._text(op) for place, op in puts.items() if op.value is not None}
        for place, op in puts.items():
            if op.value is None:
                self._delete(op)
            else:
                self._put(op, texts[place])
        return results

    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Run `batch` in a worker thread."""
        return await asyncio.to_thread(self.batch, list(ops))

    # ---------------------------------------------------------------- reading

    def _read(self, op: Op) -> Result:
        if isinstance(op, GetOp):
            item = self._get(op.namespace, op.key)
            return None if item is None else Item(**item.fields)
        if isinstance(op, SearchOp):
            found = self._search(op)[op.offset : op.offset + op.limit]
            return [SearchItem(**item.fields, score=score) for item, score in found]
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
        """Return all items in or below a namespace, the last changed first; broken items are skipped."""
        found = []
        for scope in self._scopes_of(prefix):
            for record in self._memory.list(scope=scope, tag=tag_of(prefix), reveal=True).records:
                try:
                    item = parse(record)
                except Malformed as error:  # logged; one broken item must not hide the others
                    _log.warning("%s", error)
                    continue
                if item.namespace[: len(prefix)] == prefix:
                    found.append(item)
        return sorted(found, key=lambda item: (item.record.updated or "", item.record.num or 0), reverse=True)

    def _search(self, op: SearchOp) -> list[tuple[StoredItem, float | None]]:
        matching = [item for item in self._all(op.namespace_prefix) if matches(item.value, op.filter)]
        if not (op.query and op.query.strip()):
            return [(item, None) for item in matching]
        by_path = {item.record.path: item for item in matching if item.indexed}
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
        order = sorted(ranked, key=lambda path: -ranked[path])  # equal items keep their order
        return [(by_path[path], ranked[path]) for path in order]

    def _namespaces(self, op: ListNamespacesOp) -> list[tuple[str, ...]]:
        conditions = op.match_conditions or ()
        found = {namespaces.namespace for namespaces in self._all(())}
        namespaces = {each for each in found if all(fits(each, condition) for condition in conditions)}
        if op.max_depth is not None:
            namespaces = {each[: op.max_depth] for each in namespaces}
        return sorted(namespaces)[op.offset : op.offset + op.limit]

    # ---------------------------------------------------------------- writing

    def _text(self, op: PutOp) -> str:
        """Return an item's text for its record; raise an error if the item cannot be saved."""
        value = op.value
        if not isinstance(value, Mapping) or not all(isinstance(name, str) for name in value):
            raise TypeError(f"a value must be a mapping with string keys, not {type(value).__name__}")
        policy = self._memory.settings.secrets.in_scope(self._scope_of(op.namespace))
        indexed = op.index is not False
        text = render(op.namespace, op.key, dict(value), indexed=indexed)
        if policy is SecretPolicy.REDACT and has_secret(text):
            # Secrets are removed from each string; removed from the JSON text, they could take a quote along.
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
            lasting=True,  # age and caps never remove it, because a program relies on it
        )

    def _delete(self, op: PutOp) -> None:
        item = self._get(op.namespace, op.key)
        if item is not None:
            name = item.record.id or item.record.key
            self._memory.forget(name, scope=self._scope_of(op.namespace))

    def _check_op(self, op: Op) -> Op:
        """Return an operation with its namespace as a tuple; raise an error if it cannot be run."""
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
            matches({}, op.filter)  # raises for an unknown operator
            return op._replace(namespace_prefix=tuple(op.namespace_prefix))
        return op if isinstance(op, ListNamespacesOp) else op._replace(namespace=tuple(op.namespace))

    def _scope_of(self, namespace: Sequence[str]) -> Scope:
        return self._scopes.get(namespace[0], self._scope) if namespace else self._scope

    def _scopes_of(self, prefix: Sequence[str]) -> list[Scope]:
        if prefix:
            return [self._scope_of(prefix)]
        return [*dict.fromkeys((self._scope, *self._scopes.values()))]


def _reachable(memory: Memory, scope: str | Scope) -> Scope:
    """Return the scope; raise an error if the caller has no access to it."""
    return memory.caller.place(scope).scope


# -------------------------------------------------------------------- conditions


def fits(namespace: tuple[str, ...], condition: MatchCondition) -> bool:
    """Return whether a namespace begins or ends with the condition's path; `*` matches any label."""
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
    """Return whether a value meets all conditions of a filter; None as filter accepts any value."""
    return all([_has(value.get(name), each) for name, each in (wanted or {}).items()])  # noqa: C419


def _has(own: Any, wanted: Any) -> bool:
    if isinstance(wanted, Mapping):
        if any(name.startswith("$") for name in wanted):
            return all([_compare(own, name, each) for name, each in wanted.items()])  # noqa: C419
        return isinstance(own, Mapping) and all(_has(own.get(name), each) for name, each in wanted.items())
    if isinstance(wanted, list | tuple):
        same = isinstance(own, list | tuple) and len(own) == len(wanted)
        return same and all(_has(*pair) for pair in zip(own, wanted, strict=True))
    return bool(own == wanted)


def _compare(own: Any, operator: str, wanted: Any) -> bool:
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
