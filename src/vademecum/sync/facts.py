"""The fact: the one thing that is replicated. Facts are never changed; joining two sets of them is union.

A fact is `{stream, replica, n, prev, lam, doc, kind, target, over, kills, value, origin, door}`.

- `stream` is a place, `global` or `project/<id>`; `replica` a machine's home; (`replica`, `n`) is the fact's
  **dot**, where `n` counts from 1 without gaps in one stream; `prev` is the hash of the fact n - 1 of that
  replica, zeros for the first.
- `lam` is 1 + the largest that the replica had seen. (`lam`, `replica`, `n`) is the only order; no clock
  decides anything.
- (`doc`, group of `kind`, `target`) is the **register**. `over` are all dots of that register that the fact
  replaces, what those replaced included; `kills`, of a drop alone, the dots of `over` it removes directly.
- A fact is one line: JSON with sorted names, no white space, UTF-8. Its `hash` is the SHA-256 of that line
  without `seal` and `purged`. `seal` is a personal workspace's HMAC of the hash, which a hub keeps and cannot
  make. A purged fact has no value, and its `purged` is the hash it had, so that chains still hold.

`parse` refuses a line that is no fact; `check` refuses one whose `over` or `kills` name dots that are not
known, are of another register or are not older. Knows nothing of files, servers or who may do what.
"""

from __future__ import annotations

import hashlib
import hmac
import json
import re
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

NOTHING = "0" * 64  # the hash before the first
LARGEST_LINE = 4 * 1024 * 1024
LARGEST_VALUE = 1024 * 1024
MOST_DOTS = 10_000  # in one `over`
PURGE = "purge"

# The kinds whose `over` says what they replace; those that share a group share registers.
GROUPS = {
    "put": "entry",  # value {"raw": a block as it stands in a file}; target its id
    "drop": "entry",  # value None, or {"to": the stream it was moved to}
    "mark": "mark",  # sets: target is the element (after the entry's id and a space), value whether it is in
    "tag": "tag",
    "related": "related",
    "source": "source",
    "example": "example",
    "alias": "alias",
    "vouch": "vouch",  # target "<SHA-256 of the text> <member>"
    "protected": "protected",  # registers: target "", value of the key
    "type": "type",
    "confidence": "confidence",
    "stale_after": "stale_after",
    "status": "status",
    "name": "name",  # value the file's path in its place, `records/<name>`, `journal/<name>`, `MEMORY.md`
}
SETS = frozenset({"mark", "tag", "related", "source", "example", "alias", "vouch"})
# The kinds of which the largest (lam, dot), the newest or the sum counts: they replace nothing by name.
PLAIN = frozenset({
    "front",  # target a key of the frontmatter, value what it says, None for gone
    "layout",  # value {"front", "head", "eol", "gaps"}: as it was typed
    "pos",  # target an entry, value [instant, fraction]
    "confirmed",  # target "<by> <session>", value {"by", "session", "at"}
    "applied",  # value a whole number to be added
    "num",  # value the number of a record
    PURGE,  # doc "" and target ""; value {"dots": [...]} whose contents are gone for good
})  # fmt: skip

_REPLICA = re.compile(r"[0-9a-hjkmnp-tv-z]{8,32}")
_STREAM = re.compile(r"[a-z]{1,20}(?:/[A-Za-z0-9._-]{1,128})?")
_DOC = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|n-[0-9a-f]{32}")
_HASH = re.compile(r"[0-9a-f]{64}")
_DOT = re.compile(r"([0-9a-hjkmnp-tv-z]{8,32}):([1-9][0-9]{0,11})")
_ENTRY = re.compile(r"[0-9a-z]{1,32}(?:-[0-9]{1,5})?(?:~[0-9a-f]{6})?")
_WORD = re.compile(r"[a-z0-9:._ -]{0,120}", re.IGNORECASE)
_MOST = 10**12
_OUTSIDE = ("seal", "purged")


class Dot(NamedTuple):
    """Which fact of which replica, in one stream."""

    replica: str
    n: int

    def __str__(self) -> str:
        return f"{self.replica}:{self.n}"


Register = tuple[str, str, str]


@dataclass(frozen=True, slots=True)
class SyncFact:
    """One thing that was done, for ever."""

    stream: str
    replica: str
    n: int
    prev: str
    lam: int
    doc: str
    kind: str
    target: str = ""
    over: tuple[Dot, ...] = ()
    kills: tuple[Dot, ...] = ()
    value: Any = None
    origin: str = ""
    door: str = ""
    seal: str = ""
    purged: str = ""
    _hash: str = field(default="", init=False, repr=False, compare=False)  # once it was asked for
    _dot: Dot | None = field(default=None, init=False, repr=False, compare=False)  # likewise

    @property
    def dot(self) -> Dot:
        """Its name among all facts of the stream."""
        known = self._dot
        if known is None:
            known = Dot(self.replica, self.n)
            object.__setattr__(self, "_dot", known)
        return known

    @property
    def order(self) -> tuple[int, str, int]:
        """Where it stands in the only order there is."""
        return (self.lam, self.replica, self.n)

    @property
    def register(self) -> Register:
        """What it speaks of: facts about the same thing have the same."""
        return (self.doc, GROUPS.get(self.kind, self.kind), self.target)

    @property
    def hash(self) -> str:
        """What stands for it in chains; a purged fact keeps the one it had."""
        if not self._hash:
            found = self.purged or hashlib.sha256(_render(self, hashed=True)).hexdigest()
            object.__setattr__(self, "_hash", found)
        return self._hash


_NAMES = frozenset(SyncFact.__slots__) - {"_hash", "_dot"}
_WANTED = _NAMES - set(_OUTSIDE)
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"))


def render(fact: SyncFact) -> bytes:
    """The fact as its line, without a line end."""
    return _render(fact, hashed=False)


def read_known(line: bytes) -> SyncFact:
    """A line that was parsed before as the very fact it was."""
    given = json.loads(line.decode())
    for name in ("over", "kills"):
        given[name] = tuple([read_dot(each) for each in given[name]])
    return SyncFact(**given)


def is_stream(name: str) -> bool:
    """Whether a stream can have that name."""
    return _STREAM.fullmatch(name) is not None


def parse(line: bytes | str) -> SyncFact:
    """A line as the fact it is; anything else is malformed."""
    if len(line) > LARGEST_LINE:
        raise Malformed("a fact is longer than 4 MiB")
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
        for name in ("over", "kills"):
            given[name] = tuple([read_dot(each) for each in given[name]])
        fact = SyncFact(**given)
        _check_shape(fact, size=len(line))
        fact.hash  # noqa: B018  (a text that cannot be UTF-8 is found here)
    except (TypeError, ValueError) as error:
        raise Malformed("a fact has a value of the wrong type") from error
    return fact


def check(fact: SyncFact, known: Callable[[Dot], SyncFact | None]) -> None:
    """Refuse a fact that replaces what is not known, is of another register or is not older than it."""
    for dot in fact.over:
        other = known(dot)
        if other is None:
            raise Malformed(f"the fact {fact.dot} replaces {dot}, which is not known")
        # A purged fact may have lost its target with its words.
        same = other.register[:2] == fact.register[:2] if other.purged else other.register == fact.register
        if not same or other.stream != fact.stream:
            raise Malformed(f"the fact {fact.dot} replaces {dot}, which is about something else")
        if other.lam >= fact.lam:
            raise Malformed(f"the fact {fact.dot} replaces {dot}, which is not older")


def follows(fact: SyncFact, last: SyncFact | None) -> bool:
    """Whether a fact is the next one of its replica after `last`."""
    if last is None:
        return fact.n == 1 and fact.prev == NOTHING
    return fact.n == last.n + 1 and fact.prev == last.hash and fact.lam > last.lam


def blank(fact: SyncFact) -> SyncFact:
    """The fact without its content, for good: what stays is that it was there."""
    return fact if fact.purged else replace(fact, value=None, purged=fact.hash, target=_blank_target(fact))


_EMPTY = "front"  # of the key without a name, which no frontmatter has


def withdraw(fact: SyncFact) -> SyncFact:
    """An empty fact in the place of one that a hub refused: it says nothing, and the chain goes on."""
    empty = replace(fact, kind=_EMPTY, target="", over=(), kills=(), value=None, origin="", door="")
    return replace(empty, purged=fact.hash)


def is_withdrawn(fact: SyncFact) -> bool:
    """Whether a fact says nothing at all, so that anybody who may write may leave it."""
    return bool(fact.purged) and (fact.kind, fact.target, fact.over) == (_EMPTY, "", ())


def seal(fact: SyncFact, key: bytes) -> SyncFact:
    """The fact with the proof that whoever made it has the workspace's key."""
    sealed = replace(fact, seal=hmac.digest(key, fact.hash.encode(), "sha256").hex())
    object.__setattr__(sealed, "_hash", fact.hash)  # of which a seal is no part
    return sealed


def is_sealed(fact: SyncFact, key: bytes) -> bool:
    """Whether whoever made the fact had the workspace's key."""
    return hmac.compare_digest(hmac.digest(key, fact.hash.encode(), "sha256").hex(), fact.seal)


def join(*sets: Mapping[Dot, SyncFact]) -> dict[Dot, SyncFact]:
    """All facts of all sets; of one that was purged anywhere the purged one."""
    joined: dict[Dot, SyncFact] = {}
    for each in sets:
        for dot, fact in each.items():
            there = joined.setdefault(dot, fact)
            if there.hash != fact.hash:
                raise Malformed(f"there are two facts {dot}: a home was copied or rolled back")
            if fact.purged and not there.purged:
                joined[dot] = fact
    return joined


def heads(facts: Iterable[SyncFact]) -> list[SyncFact]:
    """Of the facts of one register those that no other replaces, oldest first."""
    listed = list(facts)
    if len(listed) < 2:
        return listed
    replaced = {dot for fact in listed for dot in fact.over}
    return sorted((fact for fact in listed if fact.dot not in replaced), key=lambda fact: fact.order)


def _render(fact: SyncFact, *, hashed: bool) -> bytes:
    shown = {
        "stream": fact.stream,
        "replica": fact.replica,
        "n": fact.n,
        "prev": fact.prev,
        "lam": fact.lam,
        "doc": fact.doc,
        "kind": fact.kind,
        "target": fact.target,
        "over": [f"{replica}:{n}" for replica, n in fact.over],
        "kills": [f"{replica}:{n}" for replica, n in fact.kills],
        "value": fact.value,
        "origin": fact.origin,
        "door": fact.door,
    }
    if not hashed and fact.seal:
        shown["seal"] = fact.seal
    if not hashed and fact.purged:
        shown["purged"] = fact.purged
    return _ENCODER.encode(shown).encode()


def read_dot(text: Any) -> Dot:
    """A dot as it is written; ValueError or TypeError for anything else."""
    found = _DOT.fullmatch(text)
    if found is None:
        raise ValueError("no dot")
    return Dot(found[1], int(found[2]))


def _check_shape(fact: SyncFact, *, size: int) -> None:
    """Refuse what no version of ours writes; whatever raises TypeError here is of the wrong type as well."""
    words = (
        (_STREAM, fact.stream, "stream"),
        (_REPLICA, fact.replica, "replica"),
        (_HASH, fact.prev, "prev"),
        (_WORD, fact.origin, "origin"),
        (_WORD, fact.door, "door"),
    )
    for pattern, word, name in words:
        if not pattern.fullmatch(word):
            raise Malformed(f"a fact has a `{name}` that is none")
    for number in (fact.n, fact.lam):
        if type(number) is not int or not 0 < number < _MOST:
            raise Malformed("a fact has a number out of bounds")
    if not _DOC.fullmatch(fact.doc) and (fact.kind != PURGE or fact.doc):
        raise Malformed("a fact has a `doc` that is none")
    if fact.kind not in GROUPS and fact.kind not in PLAIN:
        raise Malformed("a fact is of a kind that this version does not know")
    if any(word and not _HASH.fullmatch(word) for word in (fact.seal, fact.purged)):
        raise Malformed("a fact has a `seal` or `purged` that is none")
    _check_dots(fact)
    _check_value(fact, size)


def _check_dots(fact: SyncFact) -> None:
    if len(fact.over) > MOST_DOTS or (fact.over and fact.kind in PLAIN):
        raise Malformed("a fact replaces what its kind cannot")
    for dots in (fact.over, fact.kills):
        if list(dots) != sorted(set(dots)):
            raise Malformed("the dots of a fact are not in order")
    if any(dot.replica == fact.replica and dot.n >= fact.n for dot in fact.over):
        raise Malformed("a fact replaces itself or what comes after it")
    if bool(fact.kills) is not (fact.kind == "drop") or not set(fact.kills) <= set(fact.over):
        raise Malformed("a fact removes what its kind cannot")


def _check_value(fact: SyncFact, size: int) -> None:
    value, kind = fact.value, fact.kind
    if not isinstance(fact.target, str) or len(fact.target) > LARGEST_VALUE:
        raise Malformed("a fact has a `target` that is none")
    if fact.purged:
        if value is not None:
            raise Malformed("a purged fact has a value")
        return
    if kind in ("put", "drop", "pos") and not _ENTRY.fullmatch(fact.target):
        raise Malformed(f"a {kind} names no entry")
    # A character is at most twelve in JSON without others than ASCII: a short line has no long value.
    large = 2 * size > LARGEST_VALUE and len(json.dumps(value)) > 6 * LARGEST_VALUE
    if large or not _FITS.get(kind, _fits_anything)(value):
        raise Malformed(f"a {kind} has a value that does not fit")


def _blank_target(fact: SyncFact) -> str:
    """A target that is a person's words goes with the value; an entry's id and a key's name stay."""
    return fact.target if fact.kind in ("put", "drop", "pos", "front") else ""


def _fits_anything(value: object) -> bool:
    return True


def _fits_put(value: object) -> bool:
    return (
        isinstance(value, dict) and isinstance(value.get("raw"), str) and len(value["raw"]) <= LARGEST_VALUE
    )


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
    return all(isinstance(each, str) and _DOT.fullmatch(each) for each in value["dots"])


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
