"""The key of a shared folder or a personal workspace, and the public record from which machines check it.

The key never leaves a person's machines. A `KeyRecord` is in the folder, or at the hub; nobody can compute
the key from it. A rotation begins a new generation: a record with the check of the new key, and with the
`ends` of all chains of facts that were accepted until then. Facts up to these ends are accepted by their
hashes, so that nobody who knows the old key can change them; later facts need a seal made with the new key.

This module knows no files and no network.
"""

from __future__ import annotations

import hmac
import json
import re
import secrets
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

from vademecum.errors import Malformed, Refused, UsageError
from vademecum.sync import facts as fact_rules
from vademecum.sync.facts import FactId

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.sync.facts import SyncFact
    from vademecum.sync.stream_window import Logged

_ALPHABET = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"  # Crockford's: no I, L, O, U
_KEY_LENGTH = 26
_CHECK = re.compile(r"[0-9a-f]{64}")
TAKE_KEY = "`vade sync key` shows the key on a machine that syncs; `vade sync key set` takes it here"
RETYPE_KEY = "`vade sync key` shows the key on a machine that syncs; run this again and type that one"

End: TypeAlias = tuple[int, str]  # the number and the hash of a replica's last accepted fact
StreamEnds: TypeAlias = "Mapping[str, End]"  # by replica
Ends: TypeAlias = "Mapping[str, StreamEnds]"  # by stream


class WrongKey(Refused):
    """This machine has another key than the folder or workspace; it neither sends nor receives."""

    hint = TAKE_KEY


def new_key() -> str:
    """Return a new random key: 130 bits in characters that a person can type."""
    return "".join(secrets.choice(_ALPHABET) for _ in range(_KEY_LENGTH))


def read_key(typed: str) -> str:
    """Return the key that a person has typed, without spaces and dashes; refuse a wrong length."""
    plain = "".join(each for each in typed.upper() if each.isalnum()).translate(str.maketrans("ILO", "110"))
    if len(plain) != _KEY_LENGTH or not set(plain) <= set(_ALPHABET):
        raise UsageError(
            f"a key of a sync has {_KEY_LENGTH} letters and digits", hint="type it as it was shown"
        )
    return plain


def spell_key(key: str) -> str:
    """Return a key in groups of five characters, for reading."""
    return "-".join(key[at : at + 5] for at in range(0, len(key), 5))


@dataclass(frozen=True, slots=True)
class KeyRecord:
    """The public record of a key, against which machines check their own key."""

    workspace: str
    check: str
    generation: int = 1
    ends: Ends = field(default_factory=dict)
    mac: str = ""  # signs the other fields with the key; a first generation has no ends, and needs no mac

    def fits(self, key: str) -> bool:
        """Return whether this is the record of a key."""
        return hmac.compare_digest(_compute_check(key), self.check)

    def verify(self, key: str) -> KeyRecord:
        """Return the record; raise Malformed if somebody without the key has changed it."""
        if self.generation > 1 and not hmac.compare_digest(_sign(self, key), self.mac):
            raise Malformed(
                "somebody has altered the record of the key", hint="`vade sync key rotate` makes a new one"
            )
        return self

    def render(self) -> dict[str, Any]:
        """Return the record as JSON data."""
        ends = {stream: {name: list(end) for name, end in each.items()} for stream, each in self.ends.items()}
        plain = {"workspace": self.workspace, "check": self.check, "generation": self.generation}
        return {**plain, "ends": ends, "mac": self.mac} if self.generation > 1 else plain


def make_record(workspace: str, key: str, generation: int = 1, ends: Ends | None = None) -> KeyRecord:
    """Return the signed record of a key."""
    record = KeyRecord(workspace, _compute_check(key), generation, ends or {})
    return KeyRecord(workspace, record.check, generation, record.ends, _sign(record, key))


def parse_record(given: Any) -> KeyRecord:
    """Return the record in JSON data; raise Malformed for other data."""
    try:
        generation = given.get("generation", 1)
        ends = {
            str(stream): {str(replica): (int(n), str(hashed)) for replica, (n, hashed) in each.items()}
            for stream, each in given.get("ends", {}).items()
        }
        if type(generation) is int and 0 < generation < 1 << 31 and _CHECK.fullmatch(given["check"]):
            return KeyRecord(
                str(given["workspace"]), given["check"], generation, ends, str(given.get("mac", ""))
            )
    except (ValueError, TypeError, KeyError, AttributeError):
        pass
    raise Malformed("the record of the key cannot be read", hint="wait until it is whole, or upgrade")


def _compute_check(key: str) -> str:
    """Return a value to check a typed key against, which does not reveal the key."""
    return hmac.digest(key.encode(), b"vade sync", "sha256").hex()


def _sign(record: KeyRecord, key: str) -> str:
    signed = [record.workspace, record.check, record.generation, record.ends]
    content = json.dumps(signed, sort_keys=True, separators=(",", ":")).encode()
    return hmac.digest(key.encode(), b"vade key record " + content, "sha256").hex()


# ------------------------------------------------------------------------------- what a generation covers


def find_ends(facts: Iterable[SyncFact]) -> dict[str, End]:
    """Return the end of each replica's chain in a stream."""
    found: dict[str, End] = {}
    for fact in facts:
        if fact.n > found.get(fact.replica, (0, ""))[0]:
            found[fact.replica] = fact.n, fact.hash
    return found


def covers(ends: StreamEnds, fact: SyncFact) -> bool:
    """Return whether a fact in this home's log was accepted before the key was changed."""
    return fact.n <= ends.get(fact.replica, (0, ""))[0]


def find_covered(
    waiting: Iterable[Sequence[SyncFact]], last: Mapping[str, SyncFact], ends: StreamEnds
) -> set[FactId]:
    """Return the ids of those received facts whose chain of hashes leads to the end of their replica.

    `waiting` has the facts of each replica that follow its `last` known fact. A chain that stops before
    its end proves nothing yet.
    """
    covered: set[FactId] = set()
    for listed in waiting:
        before, ids = (last.get(listed[0].replica) if listed else None), set[FactId]()
        for fact in listed:
            end = ends.get(fact.replica)
            if end is None or fact.n > end[0] or not fact_rules.follows(fact, before):
                break
            ids.add(fact.id)
            if (fact.n, fact.hash) == end:
                covered |= ids
            before = fact
    return covered


def find_unsealed(logged: Iterable[Logged], key: bytes, ends: StreamEnds) -> dict[FactId, SyncFact]:
    """Return this home's facts that others would refuse, by id, sealed with the key.

    `ends` does not cover these facts, and their seal is of another key: this machine had a wrong key, or did
    not know of a rotation yet.
    """
    return {
        each.fact.id: fact_rules.seal(each.fact, key)
        for each in logged
        if each.own and not covers(ends, each.fact) and not fact_rules.is_sealed(each.fact, key)
    }
