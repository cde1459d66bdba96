"""Streams in PostgreSQL: facts in the order in which they were committed, added and read.

The row of the stream is locked by whoever adds to it, so that the order of `seq` is the order of commits and
no reader's cursor can skip a fact that was committed late; a sequence would allow that.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from datetime import UTC
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vademecum.errors import Malformed
from vademecum.interfaces.hub.access import (
    HubCaller,
    HubKeys,
    Replaced,
    chain_after,
    check_own_replica,
    check_right,
)
from vademecum.interfaces.hub.limits import LARGEST_BODY, MOST_FACTS
from vademecum.interfaces.hub.rejections import Rejection, absent, wrong
from vademecum.memory.sync import trust
from vademecum.sync import facts
from vademecum.sync.facts import PURGE, Dot

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from psycopg import Connection

SyncFact: TypeAlias = facts.SyncFact  # for the rest of the hub
ZERO = bytes(32)  # a chain before its first fact
MOST_STREAMS = 10_000
EXTERNAL = "external"  # the author of what came without a proof of who made it


@dataclass(frozen=True, slots=True)
class Push:
    """What a client wants to add: facts of one replica without a gap, and the stamps of those it relays."""

    epoch: int
    replica: str
    facts: tuple[SyncFact, ...]
    stamps: tuple[HubStamp | None, ...]


class HubStamp(NamedTuple):
    """What the hub says of a fact: where it stands, who made it, when, and a proof that the hub said so."""

    epoch: int
    seq: int
    chain: str
    author: str
    role: str
    at: str
    num: int | None
    mac: str = ""

    def sign(self, keys: HubKeys, caller: HubCaller, fact: SyncFact) -> HubStamp:
        """The same with its mac, which covers the fact and the workspace as well."""
        signed = (caller.public, fact.stream, fact.replica, fact.n, fact.hash, *self[:-1])
        return self._replace(mac=keys.sign(*signed).hex())


@dataclass(slots=True)
class StreamRow:
    """A stream while somebody adds to it."""

    stream: str
    epoch: int
    head: int
    chain: bytes
    max_lam: int
    bytes: int


class Desk(NamedTuple):
    """Where one request works: its transaction, who asks, and in which stream."""

    connection: Connection[Any]
    caller: HubCaller
    keys: HubKeys
    stream: str


# ------------------------------------------------------------------------------- what was sent


def read_push(stream: str, body: bytes) -> Push:
    """The lines of a push: what it says of itself, then facts."""
    first, *lines = body.removesuffix(b"\n").split(b"\n")
    if len(lines) > MOST_FACTS:
        raise Rejection(413, "large", f"a push has at most {MOST_FACTS} facts: send it in parts")
    head = _read_head(first)
    given = tuple(read_fact(line) for line in lines)
    stamps = tuple(read_stamp(each) for each in head.get("stamps") or [None] * len(given))
    if len(stamps) != len(given):
        raise wrong("there are not as many stamps as facts")
    for fact in given:
        if fact.stream != stream or fact.replica != head["replica"]:
            raise wrong("a fact is of another stream or replica than the push")
        if "\0" in fact.target:
            raise wrong("a target holds a character that no target has")
    for one, two in pairwise(given):
        if not facts.follows(two, one):
            raise Rejection(409, "forked", f"the fact {two.dot} does not follow {one.dot}")
    return Push(head["epoch"], head["replica"], given, stamps)


def _read_head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise wrong("the first line of a push is not JSON") from error
    if (
        not isinstance(head, dict)
        or type(head.get("epoch")) is not int
        or type(head.get("replica")) is not str
    ):
        raise wrong("the first line of a push names no epoch and replica")
    stamps = head.get("stamps")
    if stamps is not None and not (
        isinstance(stamps, list) and all(each is None or isinstance(each, dict) for each in stamps)
    ):
        raise wrong("the stamps of a push are a list of objects")
    return head


def read_stamp(given: Mapping[str, Any] | None) -> HubStamp | None:
    """A stamp that a client sends back; one that this version cannot have made proves nothing."""
    if given is None:
        return None
    kinds = {"epoch": int, "seq": int, "chain": str, "author": str, "role": str, "at": str, "mac": str}
    said = {name: given.get(name) for name in kinds}
    num = given.get("num")
    fits = all(type(said[name]) is kind for name, kind in kinds.items()) and (num is None or type(num) is int)
    return HubStamp(num=num, **said) if fits else HubStamp(0, 0, "", EXTERNAL, EXTERNAL, "", None)  # type: ignore[arg-type]  # looked at


def read_fact(line: str | bytes) -> SyncFact:
    """One fact that a client shows."""
    try:
        return facts.parse(line)
    except Malformed as error:
        raise wrong(str(error)) from error


def check_shapes(made: Sequence[SyncFact]) -> None:
    """Refuse facts of our own making that would not be taken from a client."""
    for fact in made:
        read_fact(facts.render(fact))


def check_secrets(push: Push) -> None:
    """Refuse what looks like a secret; the answer names its kind, never the text."""
    from vademecum.text import secrets

    for fact in push.facts:
        text = "\n".join(_texts([fact.value, fact.target, fact.origin, fact.door]))
        found = secrets.find(text)
        if found:
            kinds = sorted({each.kind for each in found})
            raise Rejection(
                422,
                "secret",
                f"the fact {fact.dot} holds what looks like a secret: {', '.join(kinds)}",
                n=fact.n,
                kinds=kinds,
            )


def _texts(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _texts(each)
    elif isinstance(value, list):
        for each in value:
            yield from _texts(each)


# ------------------------------------------------------------------------------- reading


def list_streams(connection: Connection[Any], caller: HubCaller) -> list[dict[str, Any]]:
    """Every stream of the workspace, with its epoch and head."""
    caller.need("reader", scope="read")
    rows = connection.execute(
        "SELECT stream, epoch, head, chain FROM hub.stream WHERE ws = %s ORDER BY stream", (caller.ws,)
    ).fetchall()
    names = ("stream", "epoch", "head", "chain")
    return [
        dict(zip(names, (stream, epoch, head, chain.hex()), strict=True))
        for stream, epoch, head, chain in rows
    ]


COLUMNS = (
    "seq, replica, n, hash, prev, chain, lam, doc, kind, target, over, kills, value, origin, door, seal, num,"
    " author, role, at, mac, purged_at, epoch"
)


def read_facts(desk: Desk, *, epoch: int, after: int, chain: str, limit: int) -> Iterator[bytes]:
    """The facts after a point, a line each; whoever's past is another one than the hub's is told so."""
    desk.caller.need("reader", scope="read")
    row = desk.connection.execute(
        "SELECT epoch, head FROM hub.stream WHERE ws = %s AND stream = %s", (desk.caller.ws, desk.stream)
    ).fetchone()
    if row is None:
        raise absent()
    check_past(desk, row, epoch=epoch, after=after, chain=chain)
    rows = desk.connection.execute(
        f"SELECT {COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s AND seq > %s ORDER BY seq LIMIT %s",
        (desk.caller.ws, desk.stream, after, min(limit, MOST_FACTS)),
    )
    size = 0
    for each in rows:
        line = render_row(desk.stream, each)
        size += len(line)
        if size > LARGEST_BODY and size > len(line):
            return
        yield line


def check_past(desk: Desk, row: tuple[Any, ...], *, epoch: int, after: int, chain: str) -> None:
    """Whether the client's past is the hub's own: a restored database cannot know that it is old."""
    now, head = row
    rewound = Rejection(
        409, "rewound", "the hub's past is another one than this machine's", epoch=now, head=head
    )
    if epoch != now or after > head or after < 0:
        raise rewound
    if after:
        there = desk.connection.execute(
            "SELECT chain FROM hub.fact WHERE ws = %s AND stream = %s AND seq = %s",
            (desk.caller.ws, desk.stream, after),
        ).fetchone()
        if there is None or there[0].hex() != chain:
            raise rewound


def read_row(stream: str, row: Sequence[Any]) -> tuple[SyncFact, HubStamp]:
    """A row of `COLUMNS` as the fact that was sent, and the hub's stamp."""
    (
        seq, replica, n, hashed, prev, chain, lam, doc, kind, target, over, kills, value, origin, door, seal,
        num, author, role, at, mac, purged_at, epoch,
    ) = row  # fmt: skip
    fact = SyncFact(
        stream, replica, n, prev.hex(), lam, doc, kind, target, _dots(over), _dots(kills),
        json.loads(value) if value is not None else None, origin, door, seal,
        hashed.hex() if purged_at else "",
    )  # fmt: skip
    return fact, HubStamp(epoch, seq, chain.hex(), author, role, _when(at), num, mac.hex())


def render_row(stream: str, row: Sequence[Any]) -> bytes:
    """A line of a pull: the fact and its stamp."""
    fact, stamp = read_row(stream, row)
    told = json.dumps(stamp._asdict(), separators=(",", ":")).encode()
    return b'{"fact":' + facts.render(fact) + b',"stamp":' + told + b"}\n"


def _when(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _dots(given: Sequence[str]) -> tuple[Dot, ...]:
    pairs = (each.rsplit(":", 1) for each in given)
    return tuple(Dot(replica, int(n)) for replica, n in pairs)


# ------------------------------------------------------------------------------- adding


def push_facts(desk: Desk, push: Push) -> dict[str, Any]:
    """Add facts in one transaction; what was added before is acknowledged again."""
    _need_writer(desk.caller, push.facts)
    row = lock_stream(desk)
    if push.epoch != row.epoch:
        raise Rejection(
            409,
            "rewound",
            "the hub's past is another one than this machine's",
            epoch=row.epoch,
            head=row.head,
        )
    stamps, new, owner = _acknowledge(desk, row, push)
    if new:
        _need_writer(desk.caller, new)
        start = len(push.facts) - len(new)
        stamps += _add(desk, row, new, push.stamps[start:], owner=owner)
    told = {"epoch": row.epoch, "head": row.head, "chain": row.chain.hex(), "stamps": stamps}
    return told if _is_searchable(desk, new, row.head) else {**told, "stale": True}


def _need_writer(caller: HubCaller, new: Sequence[SyncFact]) -> None:
    """Refuse whoever only reads, unless they take back their own word; each fact is looked at then."""
    caller.need("reader" if any(trust.takes_back(fact, caller.sender) for fact in new) else "writer")


def _is_searchable(desk: Desk, new: Sequence[SyncFact], head: int) -> bool:
    """Make what was added searchable, and say whether all of it is."""
    from vademecum.interfaces.hub.projection import project_push  # which reads streams

    return not new or project_push(desk.connection, desk.caller, desk.stream, new, head)


def lock_stream(desk: Desk) -> StreamRow:
    """The stream's row, ours until the end of the transaction; made when it is new."""
    ask = (
        "SELECT stream, epoch, head, chain, max_lam, bytes FROM hub.stream"
        " WHERE ws = %s AND stream = %s FOR UPDATE"
    )
    row = desk.connection.execute(ask, (desk.caller.ws, desk.stream)).fetchone()
    if row is None:
        if not facts.is_stream(desk.stream):
            raise absent()
        count = desk.connection.execute(
            "SELECT count(*) FROM hub.stream WHERE ws = %s", (desk.caller.ws,)
        ).fetchone()
        if count and count[0] >= MOST_STREAMS:
            raise Rejection(507, "quota", f"a workspace has at most {MOST_STREAMS} streams")
        scope, _, place = desk.stream.partition("/")
        desk.connection.execute(
            "INSERT INTO hub.stream (ws, stream, scope, place, chain) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (desk.caller.ws, desk.stream, scope, place, ZERO),
        )
        row = desk.connection.execute(ask, (desk.caller.ws, desk.stream)).fetchone()
    assert row is not None
    return StreamRow(*row)


def _acknowledge(
    desk: Desk, row: StreamRow, push: Push
) -> tuple[list[dict[str, Any]], tuple[SyncFact, ...], str | None]:
    """The stamps of facts that are there already, the facts that are new, and whose machine it is so far."""
    last = desk.connection.execute(
        "SELECT n, hash, lam, author FROM hub.fact WHERE ws = %s AND stream = %s AND replica = %s"
        " ORDER BY n DESC LIMIT 1",
        (desk.caller.ws, desk.stream, push.replica),
    ).fetchone()
    n, hashed, lam, author = last or (0, ZERO, 0, None)
    if not push.facts:
        return [], (), author
    if push.facts[0].n > n + 1:
        raise Rejection(409, "gap", f"facts before {push.facts[0].dot} are missing", first=n + 1)
    known = desk.connection.execute(
        f"SELECT {COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s AND replica = %s"
        " AND n >= %s AND n <= %s ORDER BY n",
        (desk.caller.ws, desk.stream, push.replica, push.facts[0].n, push.facts[-1].n),
    ).fetchall()
    for fact, each in zip(push.facts, known, strict=False):
        if fact.hash != each[3].hex():
            raise _forked(fact)
    new = push.facts[len(known) :]
    if new and not known and (new[0].prev != hashed.hex() or new[0].lam <= lam):
        raise _forked(new[0])
    return [_stamp_of(each) for each in known], new, author


def _forked(fact: SyncFact) -> Rejection:
    return Rejection(
        409, "forked", f"there is another fact {fact.dot}: this home was copied or rolled back", n=fact.n
    )


def _stamp_of(row: Sequence[Any]) -> dict[str, Any]:
    epoch, seq, chain, author, role, at, num, mac = (row[each] for each in (22, 0, 5, 17, 18, 19, 16, 20))
    return HubStamp(epoch, seq, chain.hex(), author, role, _when(at), num, mac.hex())._asdict()


def _add(
    desk: Desk,
    row: StreamRow,
    new: Sequence[SyncFact],
    relayed: Sequence[HubStamp | None],
    *,
    owner: str | None,
) -> list[dict[str, Any]]:
    """Check and insert facts that are not there yet."""
    earlier, known, limits = (
        _earlier(desk, new),
        _read_known(desk, new),
        read_limits(desk.connection, desk.caller),
    )
    now = _when(desk.connection.execute("SELECT now()").fetchone()[0])  # type: ignore[index]  # always a row
    written, stamps = [], []
    for fact, old in zip(new, relayed, strict=True):
        _check_lamport(fact, row)
        replaced = _check_replaced(fact, earlier)
        author, role, at = _author(desk, fact, old, now)
        # What a stamp of ours vouches for was checked when it was stamped; of a purged fact it vouches for
        # the hash alone.
        if old is None or author == EXTERNAL or fact.purged:
            check_own_replica(desk.caller, fact.replica, owner)
            check_right(fact, desk.caller, known.about(fact, replaced))
        owner = owner if author == EXTERNAL else author
        known.add(fact, (author, role))
        num = _number(desk, fact, old)
        row.head, row.chain = row.head + 1, chain_after(row.chain, fact.hash)
        row.max_lam = max(row.max_lam, fact.lam)
        stamp = HubStamp(row.epoch, row.head, row.chain.hex(), author, role, at, num)
        stamp = stamp.sign(desk.keys, desk.caller, fact)
        earlier[fact.dot] = Replaced(fact.register, fact.lam, author, role, bool(fact.purged))
        stamps.append(stamp._asdict())
        written.append(_columns(desk, fact, stamp, row.chain))
        size = len(written[-1]["value"] or b"")
        row.bytes += size + _ROW
        _check_quota(limits, row, fact, size)
    with desk.connection.cursor() as cursor:
        cursor.executemany(_INSERT, written)
    for fact in new:
        if fact.kind == PURGE and not fact.purged:
            _blank(desk, row, _dots(fact.value["dots"]))
    if any(relayed):
        _blank_again(desk, row, new)
    desk.connection.execute(
        "UPDATE hub.stream SET head = %s, chain = %s, max_lam = %s, bytes = %s WHERE ws = %s AND stream = %s",
        (row.head, row.chain, row.max_lam, row.bytes, desk.caller.ws, desk.stream),
    )
    return stamps


_ROW = 200  # bytes that a fact takes without its value
_NAMES = (
    "ws stream seq replica n hash prev chain lam doc kind target over kills value origin door seal num author"
    " role token at mac purged_at epoch"
).split()
_INSERT = f"INSERT INTO hub.fact ({', '.join(_NAMES)}) VALUES ({', '.join(f'%({each})s' for each in _NAMES)})"


def _columns(desk: Desk, fact: SyncFact, stamp: HubStamp, chain: bytes) -> dict[str, Any]:
    """A fact as its row."""
    return {
        "ws": desk.caller.ws,
        "stream": desk.stream,
        "seq": stamp.seq,
        "replica": fact.replica,
        "n": fact.n,
        "hash": bytes.fromhex(fact.hash),
        "prev": bytes.fromhex(fact.prev),
        "chain": chain,
        "lam": fact.lam,
        "doc": fact.doc,
        "kind": fact.kind,
        "target": fact.target,
        "over": [str(dot) for dot in fact.over],
        "kills": [str(dot) for dot in fact.kills],
        "value": None if fact.value is None else json.dumps(fact.value, ensure_ascii=False).encode(),
        "origin": fact.origin,
        "door": fact.door,
        "seal": fact.seal,
        "num": stamp.num,
        "author": stamp.author,
        "role": stamp.role,
        "token": desk.caller.token,
        "at": stamp.at,
        "mac": bytes.fromhex(stamp.mac),
        "purged_at": stamp.at if fact.purged else None,
        "epoch": stamp.epoch,
    }


def _check_lamport(fact: SyncFact, row: StreamRow) -> None:
    if fact.lam > row.max_lam + 1:
        raise Rejection(
            409, "lamport", f"the fact {fact.dot} is too far ahead: pull first", largest=row.max_lam
        )


def _check_replaced(fact: SyncFact, earlier: Mapping[Dot, Replaced]) -> list[Replaced]:
    """What a fact replaces: known, about the same, older and not purged."""
    replaced = []
    for dot in fact.over:
        other = earlier.get(dot)
        if other is None:
            raise Rejection(422, "unknown", f"the fact {fact.dot} replaces {dot}, which is not here")
        if other.purged:
            if not fact.purged:
                raise Rejection(
                    410, "purged", f"the fact {fact.dot} is over a text that was purged", n=fact.n
                )
            continue
        if (other.register != fact.register and not fact.purged) or other.lam >= fact.lam:
            raise wrong(f"the fact {fact.dot} replaces {dot}, which is about something else or is not older")
        replaced.append(other)
    return replaced


def _author(desk: Desk, fact: SyncFact, old: HubStamp | None, now: str) -> tuple[str, str, str]:
    """Who made a fact and when: the caller now, or whom a stamp of this hub names that was sent along."""
    if old is None:
        return desk.caller.name, desk.caller.standing, now
    if not is_own_stamp(desk, fact, old):
        return EXTERNAL, EXTERNAL, now
    return old.author, old.role, old.at


def is_own_stamp(desk: Desk, fact: SyncFact, stamp: HubStamp | None) -> bool:
    """Whether this hub once gave the fact this stamp."""
    return stamp is not None and hmac.compare_digest(stamp.sign(desk.keys, desk.caller, fact).mac, stamp.mac)


def _earlier(desk: Desk, new: Sequence[SyncFact]) -> dict[Dot, Replaced]:
    """What is known of the facts that new ones replace."""
    wanted = sorted({dot for fact in new for dot in fact.over})
    if not wanted:
        return {}
    rows = desk.connection.execute(
        "SELECT f.replica, f.n, f.doc, f.kind, f.target, f.lam, f.author, f.role, f.purged_at IS NOT NULL"
        " FROM unnest(%s::text[], %s::bigint[]) AS d (replica, n)"
        " JOIN hub.fact f ON f.ws = %s AND f.stream = %s AND f.replica = d.replica AND f.n = d.n",
        ([dot.replica for dot in wanted], [dot.n for dot in wanted], desk.caller.ws, desk.stream),
    ).fetchall()
    return {
        Dot(replica, n): Replaced((doc, facts.GROUPS.get(kind, kind), target), lam, author, role, purged)
        for replica, n, doc, kind, target, lam, author, role, purged in rows
    }


@dataclass(slots=True)
class _Known:
    """Who wrote what the facts of a push are about, as far as their right depends on it."""

    protected: set[str] = field(default_factory=set)
    entries: dict[tuple[str, str], set[trust.FactAuthor]] = field(default_factory=dict)
    heads: dict[str, set[trust.FactAuthor]] = field(default_factory=dict)
    leading: set[tuple[str, object]] = field(
        default_factory=set
    )  # documents, and names that they may not take
    words: dict[tuple[str, str], set[Dot]] = field(default_factory=dict)  # the sender's, that stand

    def about(self, fact: SyncFact, replaced: Sequence[Replaced]) -> trust.FactContext:
        """What is known of what one fact is about."""
        words = self.words.get((fact.doc, fact.target), set())
        return trust.FactContext(
            [(each.author, each.role) for each in replaced],
            self.entries.get((fact.doc, trust.entry_of(fact)), ()),
            self.heads.get(fact.doc, ()),
            leads=fact.kind == "name" and (fact.doc, fact.value) in self.leading,
            protected=fact.doc in self.protected,
            ends=bool(words) and words <= set(fact.over),
        )

    def add(self, fact: SyncFact, author: trust.FactAuthor) -> None:
        """Take in a fact of the same push."""
        if fact.kind == "put":
            self.entries.setdefault((fact.doc, fact.target), set()).add(author)
        elif fact.kind in _HEAD:
            self.heads.setdefault(fact.doc, set()).add(author)
        elif fact.kind == _VOUCH:
            self.words.pop((fact.doc, fact.target), None)  # whoever verifies anew has no need of them


_HEAD = ("name", "layout")
_VOUCH = "vouch"


def _read_known(desk: Desk, new: Sequence[SyncFact]) -> _Known:
    """What the right to add these facts depends on; of an editor and owner it depends on nothing."""
    if desk.caller.person and desk.caller.at_least("editor"):
        return _Known()
    known = _Known(_protected(desk, new), words=_read_words(desk, new))
    if desk.caller.person and not known.protected:
        return known
    named = sorted({(fact.doc, entry) for fact in new if (entry := trust.entry_of(fact))})
    rows = desk.connection.execute(
        "SELECT DISTINCT f.doc, f.target, f.author, f.role"
        " FROM unnest(%s::text[], %s::text[]) AS e (doc, target) JOIN hub.fact f"
        " ON f.ws = %s AND f.stream = %s AND f.doc = e.doc AND f.target = e.target AND f.kind = 'put'",
        (*([each[n] for each in named] for n in range(2)), desk.caller.ws, desk.stream),
    ).fetchall()
    for doc, target, author, role in rows:
        known.entries.setdefault((doc, target), set()).add((author, role))
    known.heads = _read_heads(desk, {fact.doc for fact in new})
    if not desk.caller.person:
        known.leading = _find_leading(desk, [fact for fact in new if fact.kind == "name" and fact.value])
    return known


def _read_words(desk: Desk, new: Sequence[SyncFact]) -> dict[tuple[str, str], set[Dot]]:
    """Where facts of a push take back a word of the sender's: the vouches of theirs that stand."""
    meant = [fact for fact in new if trust.takes_back(fact, desk.caller.sender)]
    if not meant:
        return {}
    rows = desk.connection.execute(
        "SELECT f.doc, f.target, f.replica, f.n FROM hub.fact f WHERE f.ws = %s AND f.stream = %s"
        " AND f.doc = ANY(%s) AND f.target = ANY(%s) AND f.kind = 'vouch' AND f.value = 'true'::bytea"
        " AND f.author = %s AND NOT EXISTS ("
        "  SELECT FROM hub.fact g WHERE g.ws = f.ws AND g.stream = f.stream AND g.doc = f.doc"
        "  AND g.kind = 'vouch' AND f.replica || ':' || f.n = ANY(g.over))",
        (
            desk.caller.ws,
            desk.stream,
            sorted({fact.doc for fact in meant}),
            sorted({fact.target for fact in meant}),
            desk.caller.name,
        ),
    ).fetchall()
    found: dict[tuple[str, str], set[Dot]] = {}
    for doc, target, replica, n in rows:
        found.setdefault((doc, target), set()).add(Dot(replica, n))
    return found


def _read_heads(desk: Desk, docs: Collection[str]) -> dict[str, set[trust.FactAuthor]]:
    """Who has given documents a name or a head."""
    rows = desk.connection.execute(
        "SELECT DISTINCT doc, author, role FROM hub.fact"
        " WHERE ws = %s AND stream = %s AND doc = ANY(%s) AND kind = ANY(%s)",
        (desk.caller.ws, desk.stream, sorted(docs), list(_HEAD)),
    ).fetchall()
    found: dict[str, set[trust.FactAuthor]] = {}
    for doc, author, role in rows:
        found.setdefault(doc, set()).add((author, role))
    return found


def _find_leading(desk: Desk, named: Sequence[SyncFact]) -> set[tuple[str, object]]:
    """The names by which a document would be the head of a file that shows somebody else's, too."""
    from vademecum.interfaces.hub.documents import find_named, read_facts  # which read streams

    there = find_named(desk.connection, desk.caller.ws, desk.stream, {str(fact.value) for fact in named})
    if not there:
        return set()
    heads, own = _read_heads(desk, there), {desk.caller.sender.author}
    state = read_facts(desk.connection, desk.caller.ws, desk.stream, there)
    return {
        (fact.doc, fact.value)
        for fact in named
        if trust.would_lead(state, fact.doc, fact.value, lambda doc: heads.get(doc, own) != own)
    }


def _protected(desk: Desk, new: Sequence[SyncFact]) -> set[str]:
    """Which of the touched documents are protected now."""
    rows = desk.connection.execute(
        "SELECT f.doc FROM hub.fact f WHERE f.ws = %s AND f.stream = %s AND f.doc = ANY(%s)"
        " AND f.kind = 'protected' AND f.value = 'true'::bytea AND NOT EXISTS ("
        "  SELECT FROM hub.fact g WHERE g.ws = f.ws AND g.stream = f.stream AND g.doc = f.doc"
        "  AND g.kind = 'protected' AND f.replica || ':' || f.n = ANY(g.over))",
        (desk.caller.ws, desk.stream, sorted({fact.doc for fact in new})),
    ).fetchall()
    return {doc for (doc,) in rows}


_LEAP = 100_000  # by which a claimed number may be ahead of all that were given


def _number(desk: Desk, fact: SyncFact, old: HubStamp | None) -> int | None:
    """The number of a record, given once: the one it claims when that is free, else the next one."""
    if fact.kind != "num" or fact.purged:
        return None
    there = desk.connection.execute(
        "SELECT num FROM hub.number WHERE ws = %s AND stream = %s AND doc = %s",
        (desk.caller.ws, desk.stream, fact.doc),
    ).fetchone()
    if there is not None:
        return int(there[0])
    last = desk.connection.execute(
        "SELECT last_num FROM hub.workspace WHERE ws = %s FOR UPDATE", (desk.caller.ws,)
    ).fetchone()
    claimed = (old.num if old else None) or fact.value
    free = (
        isinstance(claimed, int)
        and 0 < claimed <= last[0] + _LEAP  # type: ignore[index]  # one's own workspace is there
        and not desk.connection.execute(
            "SELECT 1 FROM hub.number WHERE ws = %s AND num = %s", (desk.caller.ws, claimed)
        ).fetchone()
    )
    num = claimed if free else last[0] + 1  # type: ignore[index]  # one's own workspace is there
    desk.connection.execute(
        "INSERT INTO hub.number VALUES (%s, %s, %s, %s)", (desk.caller.ws, num, desk.stream, fact.doc)
    )
    desk.connection.execute(
        "UPDATE hub.workspace SET last_num = greatest(last_num, %s) WHERE ws = %s", (num, desk.caller.ws)
    )
    return int(num)


class StreamLimits(NamedTuple):
    """How much a stream of a workspace may hold."""

    bytes: int
    facts: int


def read_limits(connection: Connection[Any], caller: HubCaller) -> StreamLimits:
    """The quota of the workspace."""
    row = connection.execute(
        "SELECT quota_bytes, quota_facts FROM hub.workspace WHERE ws = %s", (caller.ws,)
    ).fetchone()
    return StreamLimits(*row) if row else StreamLimits(0, 0)


def _check_quota(limits: StreamLimits, row: StreamRow, fact: SyncFact, size: int) -> None:
    """Refuse what does not fit; `n` says that it is this fact alone, and that an empty one would."""
    if row.bytes > limits.bytes or row.head > limits.facts:
        alone = row.head <= limits.facts and row.bytes - size <= limits.bytes
        why = "this place is full; whoever runs the hub can raise its quota"
        raise Rejection(507, "quota", why, **({"n": fact.n} if alone else {}))


# ------------------------------------------------------------------------------- purging


def _blank(desk: Desk, row: StreamRow, dots: Sequence[Dot]) -> None:
    """Take the content of facts away for good, and of what replaces them; that they were there stays."""
    names = [str(dot) for dot in dots]
    freed = desk.connection.execute(
        "WITH named AS ("
        " SELECT f.seq, f.doc FROM unnest(%s::text[], %s::bigint[]) AS d (replica, n)"
        " JOIN hub.fact f ON f.ws = %s AND f.stream = %s AND f.replica = d.replica AND f.n = d.n"
        "), gone AS ("
        " SELECT f.seq, coalesce(length(f.value), 0) AS size FROM hub.fact f"
        " WHERE f.ws = %s AND f.stream = %s AND f.doc IN (SELECT doc FROM named)"
        " AND f.purged_at IS NULL AND f.kind <> 'purge'"
        " AND (f.seq IN (SELECT seq FROM named) OR f.over && %s::text[])"
        "), done AS ("
        " UPDATE hub.fact f SET value = NULL, purged_at = now(),"
        "  target = CASE WHEN f.kind IN ('put', 'drop', 'pos', 'front') THEN f.target ELSE '' END"
        " FROM gone WHERE f.ws = %s AND f.stream = %s AND f.seq = gone.seq"
        ") SELECT coalesce(sum(size), 0) FROM gone",
        (
            [dot.replica for dot in dots],
            [dot.n for dot in dots],
            *[desk.caller.ws, desk.stream] * 2,
            names,
            *[desk.caller.ws, desk.stream],
        ),
    ).fetchone()
    row.bytes -= int(freed[0]) if freed else 0


def _blank_again(desk: Desk, row: StreamRow, sent: Sequence[SyncFact]) -> None:
    """Take away what a machine sent again after the hub had lost it, if a purge that is here names it."""
    there = {fact.dot for fact in sent if not fact.purged}
    purges = desk.connection.execute(
        "SELECT value FROM hub.fact WHERE ws = %s AND stream = %s AND doc = '' AND kind = 'purge'"
        " AND value IS NOT NULL",
        (desk.caller.ws, desk.stream),
    ).fetchall()
    for (value,) in purges:
        named = there.intersection(_dots(json.loads(value)["dots"]))
        if named:
            _blank(desk, row, sorted(named))


def find_text(desk: Desk, text: str) -> list[str]:
    """The dots of all facts of a stream, history included, that hold a text; the text is kept nowhere."""
    desk.caller.need("owner", person=True)
    if not text.strip():
        raise wrong("there is no text to look for")
    # As it stands in the JSON that is kept, with what JSON escapes.
    inside = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    rows = desk.connection.execute(
        "SELECT replica, n FROM hub.fact WHERE ws = %s AND stream = %s AND kind <> 'purge'"
        " AND (position(%s::bytea IN value) > 0 OR position(%s IN target) > 0) ORDER BY seq",
        (desk.caller.ws, desk.stream, inside, text.replace("\0", "")),
    ).fetchall()
    return [f"{replica}:{n}" for replica, n in rows]


def acknowledge_purge(desk: Desk, seq: int, replica: str) -> None:
    """Remember that a machine has carried out a purge."""
    desk.caller.need("reader", scope="read")
    kind = desk.connection.execute(
        "SELECT kind FROM hub.fact WHERE ws = %s AND stream = %s AND seq = %s",
        (desk.caller.ws, desk.stream, seq),
    ).fetchone()
    if kind is None or kind[0] != PURGE:
        raise absent()
    # A token that was made without a machine, such as an agent's, is that of the first that uses it so.
    bound = desk.connection.execute(
        "UPDATE hub.token t SET replica = coalesce(t.replica, %s) WHERE t.ws = %s AND t.token = %s"
        " AND (t.replica IS NOT NULL OR NOT EXISTS ("
        "  SELECT FROM hub.token o WHERE o.ws = t.ws AND o.replica = %s AND o.member <> t.member))"
        " RETURNING t.replica",
        (replica, desk.caller.ws, desk.caller.token, replica),
    ).fetchone()
    if bound is None or bound[0] != replica:
        raise wrong("a machine acknowledges for itself alone")
    desk.connection.execute(
        "INSERT INTO hub.purge_ack (ws, stream, seq, replica) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
        (desk.caller.ws, desk.stream, seq, replica),
    )


def list_purges(desk: Desk) -> list[dict[str, Any]]:
    """Every purge of a stream: who ordered it, and which machines have carried it out."""
    desk.caller.need("reader", scope="read")
    machines = desk.connection.execute(
        "SELECT count(DISTINCT t.replica) FROM hub.token t"
        " JOIN hub.member m ON m.ws = t.ws AND m.member = t.member"
        " WHERE t.ws = %s AND t.replica IS NOT NULL AND t.revoked_at IS NULL AND t.expires > now()"
        " AND m.removed_at IS NULL",
        (desk.caller.ws,),
    ).fetchone()
    rows = desk.connection.execute(
        "SELECT f.seq, f.author, f.at, count(a.replica) FROM hub.fact f"
        " LEFT JOIN hub.purge_ack a ON a.ws = f.ws AND a.stream = f.stream AND a.seq = f.seq"
        " WHERE f.ws = %s AND f.stream = %s AND f.kind = 'purge'"
        " GROUP BY f.seq, f.author, f.at ORDER BY f.seq",
        (desk.caller.ws, desk.stream),
    ).fetchall()
    total = machines[0] if machines else 0
    return [
        {
            "seq": seq,
            "author": author,
            "at": at.isoformat(),
            "acknowledged": count,
            "machines": max(total, count),
        }
        for seq, author, at, count in rows
    ]


# ------------------------------------------------------------------------------- rewind and lease


def begin_epoch(desk: Desk, fact: SyncFact, stamp: HubStamp) -> int:
    """Begin a new epoch when a stamp proves that the hub has forgotten what it once acknowledged.

    The stamp's mac is under a key outside of the database, so nobody can claim a past that never was.
    """
    desk.caller.need("writer")
    row = lock_stream(desk)
    author, _, _ = _author(desk, fact, stamp, "")
    there = desk.connection.execute(
        "SELECT chain FROM hub.fact WHERE ws = %s AND stream = %s AND seq = %s",
        (desk.caller.ws, desk.stream, stamp.seq),
    ).fetchone()
    known = there is not None and there[0].hex() == stamp.chain
    if author == EXTERNAL or stamp.epoch < row.epoch or (stamp.epoch == row.epoch and known):
        return row.epoch  # no proof, or another machine was first
    desk.connection.execute(
        "UPDATE hub.stream SET epoch = %s WHERE ws = %s AND stream = %s",
        (stamp.epoch + 1, desk.caller.ws, desk.stream),
    )
    return stamp.epoch + 1


def take_lease(desk: Desk, holder: str, seconds: int) -> dict[str, Any]:
    """Let one machine care for a stream, until it says so again or the time is up."""
    desk.caller.need("writer")
    seconds = max(1, min(seconds, 3600))
    lock_stream(desk)
    row = desk.connection.execute(
        "INSERT INTO hub.lease (ws, stream, holder, until) VALUES (%(ws)s, %(stream)s, %(holder)s,"
        "  now() + make_interval(secs => %(seconds)s))"
        " ON CONFLICT (ws, stream) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until"
        " WHERE hub.lease.holder = EXCLUDED.holder OR hub.lease.until < now()"
        " RETURNING until",
        {"ws": desk.caller.ws, "stream": desk.stream, "holder": holder, "seconds": seconds},
    ).fetchone()
    if row is None:
        raise Rejection(409, "leased", "another machine cares for this place now")
    return {"holder": holder, "until": row[0].isoformat()}
