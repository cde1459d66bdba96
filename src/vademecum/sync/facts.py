"""Facts, the units that replicas exchange. A fact never changes; sets of facts are joined by union.

A fact is `{stream, replica, n, prev, lam, doc, kind, target, over, kills, value, origin, door}` in logs and
on the wire.

- `stream` is a place, `global` or `project/<id>`. `replica` is the home of a machine. (`replica`, `n`) is the
  **id** of the fact in its stream; `n` counts from 1 without gaps. `prev` is the hash of the fact n - 1 of
  the replica, zeros for the first fact.
- `lam` (`lamport`) is a Lamport clock: 1 + the largest clock that the replica had seen. Facts are ordered by
  (`lam`, `replica`, `n`); wall clocks decide nothing.
- (`doc`, group of `kind`, `target`) is the **register**. `over` (`based_on`) has the ids of all facts of the
  register that the fact replaces, directly or through other facts. `kills` (`removes`) has the ids in `over`
  that a drop removes directly; only a drop has it.
- `door` (`interface`) is the interface through which the change came.
- A fact is a line of JSON with sorted names and without white space, in UTF-8. Its `hash` is the SHA-256 of
  that line without `seal` and `purged`. `seal` is an HMAC of the hash with a personal workspace's key; a hub
  stores seals and cannot make them. A purged fact has no value; its `purged` is the hash it had before, so
  that hash chains still hold.

`parse` refuses a line that is no fact. `check` refuses a fact whose `over` names facts that are unknown, of
another register or not older. This module knows no files, no servers and no rights.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed
from vademecum.fields import FIELDS, MergeRule

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NOTHING = "0" * 64  # `prev` of a first fact
# The limits of what is synced; clients and hubs read them here.
LARGEST_DOCUMENT = 1024 * 1024  # characters of a file, and of one value of a fact
LARGEST_LINE = 4 * 1024 * 1024  # bytes of a fact, and of a request to a hub
MOST_FACTS = 1_000  # in a request to a hub, or its answer
MOST_FACT_IDS = 10_000  # in `over`
PURGE = "purge"

# The kinds without `over`: the newest fact counts, or the largest, or the sum of all.
PLAIN = frozenset({
    "front",  # target a key of the frontmatter, value its value, None when the key was removed
    "layout",  # value {"front", "head", "eol", "gaps"} as they were typed
    "pos",  # target an entry, value [instant, fraction]
    "confirmed",  # target "<by> <session>", value {"by", "session", "at"}
    "applied",  # value a whole number to add
    "num",  # value the number of a record
    PURGE,  # doc "" and target ""; value {"dots": [...]}, the ids of the purged facts
})  # fmt: skip
# The kinds of facts that replace others through `over`, with their group; kinds of a group share registers.
GROUPS = {
    "put": "entry",  # value {"raw": a block as it stands in a file}; target its id
    "drop": "entry",  # value None, or {"to": the stream it was moved to}
    "mark": "mark",  # sets: target is the element (after the entry's id and a space), value is true for added
    "vouch": "vouch",  # target "<SHA-256 of the text> <member>"
    "name": "name",  # value the file's path in its place, `records/<name>`, `journal/<name>`, `MEMORY.md`
    # A field's set, where the target is an element, or its register, where the target is empty.
    **{field.fact: field.fact for field in FIELDS if field.fact not in PLAIN},
}
_FIELD_SETS = {field.fact for field in FIELDS if field.merge is MergeRule.UNION and field.fact not in PLAIN}
SETS = frozenset({"mark", "vouch"} | _FIELD_SETS)

_REPLICA = re.compile(r"[0-9a-hjkmnp-tv-z]{8,32}")
_STREAM = re.compile(r"[a-z]{1,20}(?:/[A-Za-z0-9._-]{1,128})?")
_DOC = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|n-[0-9a-f]{32}")
_HASH = re.compile(r"[0-9a-f]{64}")
_FACT_ID = re.compile(r"([0-9a-hjkmnp-tv-z]{8,32}):([1-9][0-9]{0,11})")
_ENTRY = re.compile(r"[0-9a-z]{1,32}(?:-[0-9]{1,5})?(?:~[0-9a-f]{6})?")
_WORD = re.compile(r"[a-z0-9:._ -]{0,120}", re.IGNORECASE)
_MOST = 10**12
_OUTSIDE = ("seal", "purged")


class FactId(NamedTuple):
    """The id of a fact in its stream: the replica that wrote it, and its number among the replica's facts."""

    replica: str
    n: int

    def __str__(self) -> str:
        return f"{self.replica}:{self.n}"


Register = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class SyncFact:
    """A fact: the record of one change to a document, or of a purge."""

    stream: str
    replica: str
    n: int
    prev: str
    lamport: int
    doc: str
    kind: str
    target: str = ""
    based_on: tuple[FactId, ...] = ()
    removes: tuple[FactId, ...] = ()
    value: Any = None
    origin: str = ""
    interface: str = ""
    seal: str = ""
    purged: str = ""
    _hash: str = field(default="", init=False, repr=False, compare=False)  # cached by `hash`
    _id: FactId | None = field(default=None, init=False, repr=False, compare=False)  # cached by `id`

    @property
    def id(self) -> FactId:
        """The id of the fact in its stream."""
        known = self._id
        if known is None:
            known = FactId(self.replica, self.n)
            object.__setattr__(self, "_id", known)
        return known

    @property
    def order(self) -> tuple[int, str, int]:
        """The key by which facts are sorted: Lamport clock, replica, number."""
        return (self.lamport, self.replica, self.n)

    @property
    def register(self) -> Register:
        """The register that the fact sets: its document, the group of its kind, and its target."""
        return (self.doc, GROUPS.get(self.kind, self.kind), self.target)

    @property
    def hash(self) -> str:
        """The hash of the fact in its replica's chain; a purged fact keeps the hash it had before."""
        if not self._hash:
            found = self.purged or hashlib.sha256(_render(self, hashed=True)).hexdigest()
            object.__setattr__(self, "_hash", found)
        return self._hash


_WIRE_NAMES = {"lamport": "lam", "based_on": "over", "removes": "kills", "interface": "door"}
_NAMES = frozenset(_WIRE_NAMES.get(name, name) for name in SyncFact.__slots__ if not name.startswith("_"))
_WANTED = _NAMES - set(_OUTSIDE)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def render(fact: SyncFact) -> bytes:
    """Return a fact as its line of JSON, without a line end."""
    return _render(fact, hashed=False)


def read_known(line: bytes) -> SyncFact:
    """Return the fact in a line that `parse` has accepted before, without checking the line again."""
    return _make_fact(json.loads(line.decode()))


def _make_fact(given: dict[str, Any]) -> SyncFact:
    """Return the fact in the JSON object of a line; this changes the object."""
    for name in ("over", "kills"):
        given[name] = tuple([parse_fact_id(each) for each in given[name]])
    for name, wire_name in _WIRE_NAMES.items():
        given[name] = given.pop(wire_name)
    return SyncFact(**given)


def is_stream(name: str) -> bool:
    """Return whether a text is a valid stream name, such as `global` or `project/<id>`."""
    return _STREAM.fullmatch(name) is not None


def parse(line: bytes | str) -> SyncFact:
    """Return the fact in a line; raise Malformed if the line is no valid fact."""
    if len(line) > LARGEST_LINE:
        raise Malformed(f"a fact is longer than {LARGEST_LINE >> 20} MiB")
    try:
        given = json.loads(line if isinstance(line, str) else line.decode())
    except (ValueError, RecursionError) as error:
        raise Malformed("a fact is not JSON") from error
    if not isinstance(given, dict):
        raise Malformed("a fact is not a JSON object")
    if unknown := given.keys() - _NAMES:
        raise Malformed(f"a fact has {len(unknown)} names that this version does not know")
    if missing := _WANTED - given.keys():
        raise Malformed(f"a fact has no `{min(missing)}`")
    try:
        fact = _make_fact(given)
        _check_shape(fact, size=len(line))
        fact.hash  # noqa: B018  (fails for a text that is not UTF-8)
    except (TypeError, ValueError) as error:
        raise Malformed("a fact has a value of the wrong type") from error
    return fact


def check(fact: SyncFact, known: Callable[[FactId], SyncFact | None]) -> None:
    """Raise Malformed if a fact replaces facts that are unknown, of another register or not older.

    `known` returns the fact with a given id, or None.
    """
    for fact_id in fact.based_on:
        other = known(fact_id)
        if other is None:
            raise Malformed(f"the fact {fact.id} replaces {fact_id}, which is not known")
        # A purged fact may have lost its target.
        same = other.register[:2] == fact.register[:2] if other.purged else other.register == fact.register
        if not same or other.stream != fact.stream:
            raise Malformed(f"the fact {fact.id} replaces {fact_id}, which is about something else")
        if other.lamport >= fact.lamport:
            raise Malformed(f"the fact {fact.id} replaces {fact_id}, which is not older")


def follows(fact: SyncFact, last: SyncFact | None) -> bool:
    """Return whether a fact is the one that comes directly after `last` in its replica's chain."""
    if last is None:
        return fact.n == 1 and fact.prev == NOTHING
    return fact.n == last.n + 1 and fact.prev == last.hash and fact.lamport > last.lamport


def blank(fact: SyncFact) -> SyncFact:
    """Return a purged copy of a fact: without value and words, but with the hash it had before."""
    return fact if fact.purged else replace(fact, value=None, purged=fact.hash, target=_blank_target(fact))


_EMPTY = "front"  # with the empty key, which no frontmatter has


def withdraw(fact: SyncFact) -> SyncFact:
    """Return an empty fact with the id and the hash of a fact that a hub refused.

    It replaces the refused fact, so that the hash chain stays valid.
    """
    empty = replace(
        fact, kind=_EMPTY, target="", based_on=(), removes=(), value=None, origin="", interface=""
    )
    return replace(empty, purged=fact.hash)


def is_withdrawn(fact: SyncFact) -> bool:
    """Return whether a fact is an empty fact made by `withdraw`; every member may send such a fact."""
    return bool(fact.purged) and (fact.kind, fact.target, fact.based_on) == (_EMPTY, "", ())


def seal(fact: SyncFact, key: bytes) -> SyncFact:
    """Return a fact with its seal, an HMAC made with the workspace's key."""
    sealed = replace(fact, seal=hmac.digest(key, fact.hash.encode(), "sha256").hex())
    object.__setattr__(sealed, "_hash", fact.hash)  # the hash does not cover the seal
    return sealed


def is_sealed(fact: SyncFact, key: bytes) -> bool:
    """Return whether a fact has a seal that was made with this key."""
    return hmac.compare_digest(hmac.digest(key, fact.hash.encode(), "sha256").hex(), fact.seal)


def join(*sets: Mapping[FactId, SyncFact]) -> dict[FactId, SyncFact]:
    """Return the union of sets of facts; a fact that is purged in one set is purged in the union.

    Raise Malformed if two sets have different facts with the same id.
    """
    joined: dict[FactId, SyncFact] = {}
    for each in sets:
        for fact_id, fact in each.items():
            there = joined.setdefault(fact_id, fact)
            if there.hash != fact.hash:
                raise Malformed(f"there are two facts {fact_id}: a home was copied or rolled back")
            if fact.purged and not there.purged:
                joined[fact_id] = fact
    return joined


def heads(facts: Iterable[SyncFact]) -> list[SyncFact]:
    """Return those facts of one register that no other fact replaces, oldest first."""
    listed = list(facts)
    if len(listed) < 2:
        return listed
    replaced = {fact_id for fact in listed for fact_id in fact.based_on}
    return sorted((fact for fact in listed if fact.id not in replaced), key=lambda fact: fact.order)


def _render(fact: SyncFact, *, hashed: bool) -> bytes:
    values = {
        "stream": fact.stream,
        "replica": fact.replica,
        "n": fact.n,
        "prev": fact.prev,
        "lam": fact.lamport,
        "doc": fact.doc,
        "kind": fact.kind,
        "target": fact.target,
        "over": [f"{replica}:{n}" for replica, n in fact.based_on],
        "kills": [f"{replica}:{n}" for replica, n in fact.removes],
        "value": fact.value,
        "origin": fact.origin,
        "door": fact.interface,
    }
    if not hashed and fact.seal:
        values["seal"] = fact.seal
    if not hashed and fact.purged:
        values["purged"] = fact.purged
    return _ENCODER.encode(values).encode()


def parse_fact_id(text: Any) -> FactId:
    """Return the fact id in a text `replica:n`; raise ValueError or TypeError for anything else."""
    found = _FACT_ID.fullmatch(text)
    if found is None:
        raise ValueError("no id of a fact")
    return FactId(found[1], int(found[2]))


def _check_shape(fact: SyncFact, *, size: int) -> None:
    """Raise Malformed for a fact with field values that this version does not accept.

    Some values of a wrong type raise TypeError instead.
    """
    words = (
        (_STREAM, fact.stream, "stream"),
        (_REPLICA, fact.replica, "replica"),
        (_HASH, fact.prev, "prev"),
        (_WORD, fact.origin, "origin"),
        (_WORD, fact.interface, "door"),
    )
    for pattern, word, name in words:
        if not pattern.fullmatch(word):
            raise Malformed(f"a fact has a `{name}` that is none")
    for number in (fact.n, fact.lamport):
        if type(number) is not int or not 0 < number < _MOST:
            raise Malformed("a fact has a number out of bounds")
    if not _DOC.fullmatch(fact.doc) and (fact.kind != PURGE or fact.doc):
        raise Malformed("a fact has a `doc` that is none")
    if fact.kind not in GROUPS and fact.kind not in PLAIN:
        raise Malformed("a fact is of a kind that this version does not know")
    if any(word and not _HASH.fullmatch(word) for word in (fact.seal, fact.purged)):
        raise Malformed("a fact has a `seal` or `purged` that is none")
    _check_ids(fact)
    _check_value(fact, size)


def _check_ids(fact: SyncFact) -> None:
    if len(fact.based_on) > MOST_FACT_IDS or (fact.based_on and fact.kind in PLAIN):
        raise Malformed("a fact replaces what its kind cannot")
    for fact_ids in (fact.based_on, fact.removes):
        if list(fact_ids) != sorted(set(fact_ids)):
            raise Malformed("the dots of a fact are not in order")
    if any(fact_id.replica == fact.replica and fact_id.n >= fact.n for fact_id in fact.based_on):
        raise Malformed("a fact replaces itself or what comes after it")
    if bool(fact.removes) is not (fact.kind == "drop") or not set(fact.removes) <= set(fact.based_on):
        raise Malformed("a fact removes what its kind cannot")


def _check_value(fact: SyncFact, size: int) -> None:
    value, kind = fact.value, fact.kind
    if not isinstance(fact.target, str) or len(fact.target) > LARGEST_DOCUMENT:
        raise Malformed("a fact has a `target` that is none")
    if fact.purged:
        if value is not None:
            raise Malformed("a purged fact has a value")
        return
    if kind in ("put", "drop", "pos") and not _ENTRY.fullmatch(fact.target):
        raise Malformed(f"a {kind} names no entry")
    # ASCII JSON needs at most twelve characters for one, so a short line has no long value.
    large = 2 * size > LARGEST_DOCUMENT and len(json.dumps(value)) > 6 * LARGEST_DOCUMENT
    if large or not _FITS.get(kind, _fits_anything)(value):
        raise Malformed(f"a {kind} has a value that does not fit")


def _blank_target(fact: SyncFact) -> str:
    """Return the target that a fact keeps when it is purged.

    Entry ids and frontmatter keys stay; a target that may have a person's words becomes empty.
    """
    return fact.target if fact.kind in ("put", "drop", "pos", "front") else ""


def _fits_anything(value: object) -> bool:
    return True


def _fits_put(value: object) -> bool:
    raw = value.get("raw") if isinstance(value, dict) else None
    return isinstance(raw, str) and len(raw) <= LARGEST_DOCUMENT


def _fits_drop(value: object) -> bool:
    return value is None or (isinstance(value, dict) and isinstance(value.get("to"), str))


def _fits_member(value: object) -> bool:
    return isinstance(value, bool)


def _fits_count(value: object) -> bool:
    return type(value) is int and abs(value) < _MOST


def _fits_text(value: object) -> bool:
    return isinstance(value, str) and len(value) <= 1_000


def _fits_mapping(value: object) -> bool:
    return isinstance(value, dict)


def _fits_position(value: object) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(each, str) for each in value)


def _fits_purge(value: object) -> bool:
    if not isinstance(value, dict) or not isinstance(value.get("dots"), list):
        return False
    return all(isinstance(each, str) and _FACT_ID.fullmatch(each) for each in value["dots"])


_FITS: dict[str, Callable[[object], bool]] = {
    "put": _fits_put,
    "drop": _fits_drop,
    **dict.fromkeys(SETS, _fits_member),
    "layout": _fits_mapping,
    "confirmed": _fits_mapping,
    "pos": _fits_position,
    "name": _fits_text,
    "applied": _fits_count,
    "num": _fits_count,
    PURGE: _fits_purge,
}
