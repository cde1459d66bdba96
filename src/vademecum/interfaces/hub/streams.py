"""Streams in PostgreSQL: facts in the order in which they were committed, added and read.

The row of the stream is locked by whoever adds to it, so that the order of `seq` is the order of commits and
no reader's cursor can skip a fact that was committed late; a sequence would allow that.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass
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
from vademecum.sync import facts
from vademecum.sync.facts import PURGE, Dot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
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


def check_secrets(push: Push) -> None:
    """Refuse what looks like a secret; the answer names its kind, never the text."""
    from vademecum.text import secrets

    for fact in push.facts:
        if fact.value is None and not fact.target:
            continue
        text = "\n".join(_texts([fact.value, fact.target]))
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


_COLUMNS = (
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
        f"SELECT {_COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s AND seq > %s ORDER BY seq LIMIT %s",
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


def render_row(stream: str, row: Sequence[Any]) -> bytes:
    """A line of a pull: the fact as it was sent, and the hub's stamp."""
    (
        seq, replica, n, hashed, prev, chain, lam, doc, kind, target, over, kills, value, origin, door, seal,
        num, author, role, at, mac, purged_at, epoch,
    ) = row  # fmt: skip
    fact = SyncFact(
        stream, replica, n, prev.hex(), lam, doc, kind, target, _dots(over), _dots(kills),
        json.loads(value) if value is not None else None, origin, door, seal,
        hashed.hex() if purged_at else "",
    )  # fmt: skip
    stamp = HubStamp(epoch, seq, chain.hex(), author, role, _when(at), num, mac.hex())._asdict()
    told = json.dumps(stamp, separators=(",", ":")).encode()
    return b'{"fact":' + facts.render(fact) + b',"stamp":' + told + b"}\n"


def _when(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _dots(given: Sequence[str]) -> tuple[Dot, ...]:
    pairs = (each.rsplit(":", 1) for each in given)
    return tuple(Dot(replica, int(n)) for replica, n in pairs)


# ------------------------------------------------------------------------------- adding


def push_facts(desk: Desk, push: Push) -> dict[str, Any]:
    """Add facts in one transaction; what was added before is acknowledged again."""
    desk.caller.need("writer")
    row = _locked(desk)
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
        start = len(push.facts) - len(new)
        stamps += _add(desk, row, new, push.stamps[start:], owner=owner)
    return {"epoch": row.epoch, "head": row.head, "chain": row.chain.hex(), "stamps": stamps}


def _locked(desk: Desk) -> StreamRow:
    """The stream's row, ours until the end of the transaction; made when it is new."""
    ask = (
        "SELECT stream, epoch, head, chain, max_lam, bytes FROM hub.stream"
        " WHERE ws = %s AND stream = %s FOR UPDATE"
    )
    row = desk.connection.execute(ask, (desk.caller.ws, desk.stream)).fetchone()
    if row is None:
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
        f"SELECT {_COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s AND replica = %s"
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
    earlier, protected = _earlier(desk, new), _protected(desk, new)
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
            check_right(fact, desk.caller, replaced, protected=fact.doc in protected)
        num = _number(desk, fact, old)
        row.head, row.chain = row.head + 1, chain_after(row.chain, fact.hash)
        row.max_lam = max(row.max_lam, fact.lam)
        stamp = HubStamp(row.epoch, row.head, row.chain.hex(), author, role, at, num)
        stamp = stamp.sign(desk.keys, desk.caller, fact)
        earlier[fact.dot] = Replaced(fact.register, fact.lam, author, role, bool(fact.purged))
        stamps.append(stamp._asdict())
        written.append(_columns(desk, fact, stamp, row.chain))
        row.bytes += len(written[-1]["value"] or b"") + _ROW
    _check_quota(desk, row)
    with desk.connection.cursor() as cursor:
        cursor.executemany(_INSERT, written)
    for fact in new:
        if fact.kind == PURGE and not fact.purged:
            _blank(desk, row, _dots(fact.value["dots"]))
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
    if not hmac.compare_digest(old.sign(desk.keys, desk.caller, fact).mac, old.mac):
        return EXTERNAL, EXTERNAL, now
    return old.author, old.role, old.at


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


def _protected(desk: Desk, new: Sequence[SyncFact]) -> set[str]:
    """Which of the touched documents are protected now."""
    docs = sorted({fact.doc for fact in new if fact.over})
    rows = desk.connection.execute(
        "SELECT f.doc FROM hub.fact f WHERE f.ws = %s AND f.stream = %s AND f.doc = ANY(%s)"
        " AND f.kind = 'protected' AND f.value = 'true'::bytea AND NOT EXISTS ("
        "  SELECT FROM hub.fact g WHERE g.ws = f.ws AND g.stream = f.stream AND g.doc = f.doc"
        "  AND g.kind = 'protected' AND f.replica || ':' || f.n = ANY(g.over))",
        (desk.caller.ws, desk.stream, docs),
    ).fetchall()
    return {doc for (doc,) in rows}


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
        and 0 < claimed < 10**12
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


def _check_quota(desk: Desk, row: StreamRow) -> None:
    limits = desk.connection.execute(
        "SELECT quota_bytes, quota_facts FROM hub.workspace WHERE ws = %s", (desk.caller.ws,)
    ).fetchone()
    if limits is not None and (row.bytes > limits[0] or row.head > limits[1]):
        raise Rejection(507, "quota", "this place is full: its owner can raise the quota of the workspace")


# ------------------------------------------------------------------------------- purging


def _blank(desk: Desk, row: StreamRow, dots: Sequence[Dot]) -> None:
    """Take the content of facts away for good; that they were there stays."""
    freed = desk.connection.execute(
        "WITH gone AS ("
        " SELECT f.seq, coalesce(length(f.value), 0) AS size"
        " FROM unnest(%s::text[], %s::bigint[]) AS d (replica, n)"
        " JOIN hub.fact f ON f.ws = %s AND f.stream = %s AND f.replica = d.replica AND f.n = d.n"
        " WHERE f.purged_at IS NULL AND f.kind <> 'purge'"
        "), done AS ("
        " UPDATE hub.fact f SET value = NULL, purged_at = now(),"
        "  target = CASE WHEN f.kind IN ('put', 'drop', 'pos', 'front') THEN f.target ELSE '' END"
        " FROM gone WHERE f.ws = %s AND f.stream = %s AND f.seq = gone.seq"
        ") SELECT coalesce(sum(size), 0) FROM gone",
        ([dot.replica for dot in dots], [dot.n for dot in dots], *[desk.caller.ws, desk.stream] * 2),
    ).fetchone()
    row.bytes -= int(freed[0]) if freed else 0


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
    if desk.caller.replica is not None and replica != desk.caller.replica:
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
    row = _locked(desk)
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
    _locked(desk)
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
