"""Streams of facts in PostgreSQL: add facts, read them, purge them, and lease a stream.

Whoever adds facts locks the row of the stream, so sequence numbers (`seq`) have the order of commits, and a
reader's cursor cannot skip a fact that was committed late. A database sequence would not guarantee that.
"""

from __future__ import annotations

import hmac
import json
from dataclasses import dataclass, field
from datetime import UTC
from itertools import pairwise
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from vademecum.errors import Malformed
from vademecum.sync import facts, team_trust
from vademecum.sync.facts import MOST_FACTS, PURGE, FactId
from vademecum.text import secrets
from vademecum_hub.authorization import (
    HubCaller,
    HubKeys,
    PreviousFact,
    chain_after,
    check_own_replica,
    check_right,
)
from vademecum_hub.limits import LARGEST_BODY
from vademecum_hub.rejections import Rejection, malformed, not_found

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence
    from datetime import datetime

    from psycopg import Connection

SyncFact: TypeAlias = facts.SyncFact
ZERO = bytes(32)  # the hash chain before the first fact
MOST_STREAMS = 10_000
EXTERNAL = "external"  # the author of facts without a valid stamp


@dataclass(frozen=True, slots=True)
class Push:
    """The facts that a client sends: successive facts of one replica, with the stamps of relayed facts."""

    epoch: int
    replica: str
    facts: tuple[SyncFact, ...]
    stamps: tuple[HubStamp | None, ...]
    key: str = ""  # the check of the key with which a personal workspace's facts are sealed


class HubStamp(NamedTuple):
    """The hub's record of a fact: its position, its author, its time, and a MAC as proof."""

    epoch: int
    seq: int
    chain: str
    author: str
    role: str
    at: str
    num: int | None
    mac: str = ""

    def sign(self, keys: HubKeys, caller: HubCaller, fact: SyncFact) -> HubStamp:
        """Return the stamp with a MAC, which also covers the fact and the workspace."""
        signed = (caller.public, fact.stream, fact.replica, fact.n, fact.hash, *self[:-1])
        return self._replace(mac=keys.sign(*signed).hex())


@dataclass(slots=True)
class StreamRow:
    """The row of a stream in the database, which is locked while facts are added."""

    stream: str
    epoch: int
    head: int
    chain: bytes
    max_lamport: int
    bytes: int


class RequestContext(NamedTuple):
    """The context of a request about a stream: transaction, caller, keys and stream."""

    connection: Connection[Any]
    caller: HubCaller
    keys: HubKeys
    stream: str


# ------------------------------------------------------------------------------- parsing


def read_push(stream: str, body: bytes) -> Push:
    """Return the push in a request's body: the first line is its head, each other line a fact.

    Reject a body with facts that do not follow on each other.
    """
    first, *lines = body.removesuffix(b"\n").split(b"\n")
    if len(lines) > MOST_FACTS:
        raise Rejection(413, "large", f"a push has at most {MOST_FACTS} facts: send it in parts")
    head = _read_head(first)
    given = tuple(read_fact(line) for line in lines)
    stamps = tuple(read_stamp(each) for each in head.get("stamps") or [None] * len(given))
    if len(stamps) != len(given):
        raise malformed("there are not as many stamps as facts")
    for fact in given:
        if fact.stream != stream or fact.replica != head["replica"]:
            raise malformed("a fact is of another stream or replica than the push")
        if "\0" in fact.target:
            raise malformed("a target holds a character that no target has")
    for one, two in pairwise(given):
        if not facts.follows(two, one):
            raise Rejection(409, "forked", f"the fact {two.id} does not follow {one.id}")
    key = head.get("key")
    return Push(head["epoch"], head["replica"], given, stamps, key if isinstance(key, str) else "")


def _read_head(line: bytes) -> dict[str, Any]:
    try:
        head = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise malformed("the first line of a push is not JSON") from error
    if (
        not isinstance(head, dict)
        or type(head.get("epoch")) is not int
        or type(head.get("replica")) is not str
    ):
        raise malformed("the first line of a push names no epoch and replica")
    stamps = head.get("stamps")
    if stamps is not None and not (
        isinstance(stamps, list) and all(each is None or isinstance(each, dict) for each in stamps)
    ):
        raise malformed("the stamps of a push are a list of objects")
    return head


def read_stamp(given: Mapping[str, Any] | None) -> HubStamp | None:
    """Return the stamp that a client sends back; a malformed stamp becomes one with an invalid MAC."""
    if given is None:
        return None
    kinds = {"epoch": int, "seq": int, "chain": str, "author": str, "role": str, "at": str, "mac": str}
    fields = {name: given.get(name) for name in kinds}
    num = given.get("num")
    fits = all(type(fields[name]) is kind for name, kind in kinds.items()) and (
        num is None or type(num) is int
    )
    return HubStamp(num=num, **fields) if fits else HubStamp(0, 0, "", EXTERNAL, EXTERNAL, "", None)  # type: ignore[arg-type]  # looked at


def read_fact(line: str | bytes) -> SyncFact:
    """Return the fact in a client's line; reject a line that is no valid fact."""
    try:
        return facts.parse(line)
    except Malformed as error:
        raise malformed(str(error)) from error


def check_shapes(made: Sequence[SyncFact]) -> None:
    """Check facts that the hub has made in the same way as facts of a client."""
    for fact in made:
        read_fact(facts.render(fact))


def check_secrets(push: Push) -> None:
    """Reject a push with a secret in a fact; the answer names the kind of secret, never the text."""
    for fact in push.facts:
        text = "\n".join(_iter_strings([fact.value, fact.target, fact.origin, fact.interface]))
        found = secrets.find(text)
        if found:
            kinds = sorted({each.kind for each in found})
            raise Rejection(
                422,
                "secret",
                f"the fact {fact.id} holds what looks like a secret: {', '.join(kinds)}",
                n=fact.n,
                kinds=kinds,
            )


def _iter_strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for each in value.values():
            yield from _iter_strings(each)
    elif isinstance(value, list):
        for each in value:
            yield from _iter_strings(each)


# ------------------------------------------------------------------------------- reading


def list_streams(connection: Connection[Any], caller: HubCaller) -> list[dict[str, Any]]:
    """Return the workspace's streams, each with its epoch, newest sequence number and hash chain."""
    caller.require("reader", scope="read")
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


def read_facts(context: RequestContext, *, epoch: int, after: int, chain: str, limit: int) -> Iterator[bytes]:
    """Yield the facts after a cursor, one line for each; reject a cursor that the hub does not know.

    The number of facts is limited by `limit`, by the protocol, and by the size of an answer.
    """
    context.caller.require("reader", scope="read")
    row = context.connection.execute(
        "SELECT epoch, head FROM hub.stream WHERE ws = %s AND stream = %s",
        (context.caller.ws, context.stream),
    ).fetchone()
    if row is None:
        raise not_found()
    check_cursor(context, row, epoch=epoch, after=after, chain=chain)
    rows = context.connection.execute(
        f"SELECT {COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s AND seq > %s ORDER BY seq LIMIT %s",
        (context.caller.ws, context.stream, after, min(limit, MOST_FACTS)),
    )
    size = 0
    for each in rows:
        line = render_row(context.stream, each)
        size += len(line)
        if size > LARGEST_BODY and size > len(line):
            return
        yield line


def check_cursor(
    context: RequestContext, row: tuple[Any, ...], *, epoch: int, after: int, chain: str
) -> None:
    """Reject a cursor that does not fit the stream, such as after the database was restored."""
    now, head = row
    rewound = Rejection(
        409, "rewound", "the hub's past is another one than this machine's", epoch=now, head=head
    )
    if epoch != now or after > head or after < 0:
        raise rewound
    if after:
        there = context.connection.execute(
            "SELECT chain FROM hub.fact WHERE ws = %s AND stream = %s AND seq = %s",
            (context.caller.ws, context.stream, after),
        ).fetchone()
        if there is None or there[0].hex() != chain:
            raise rewound


def read_row(stream: str, row: Sequence[Any]) -> tuple[SyncFact, HubStamp]:
    """Return the fact and the stamp in a database row with the columns `COLUMNS`."""
    (
        seq, replica, n, hashed, prev, chain, lamport, doc, kind, target, based_on, removes, value, origin,
        interface, seal, num, author, role, at, mac, purged_at, epoch,
    ) = row  # fmt: skip
    fact = SyncFact(
        stream, replica, n, prev.hex(), lamport, doc, kind, target,
        _parse_fact_ids(based_on), _parse_fact_ids(removes),
        json.loads(value) if value is not None else None, origin, interface, seal,
        hashed.hex() if purged_at else "",
    )  # fmt: skip
    return fact, HubStamp(epoch, seq, chain.hex(), author, role, _format_time(at), num, mac.hex())


def render_row(stream: str, row: Sequence[Any]) -> bytes:
    """Return a database row as a line for a client: the fact and its stamp."""
    fact, stamp = read_row(stream, row)
    answer = json.dumps(stamp._asdict(), separators=(",", ":")).encode()
    return b'{"fact":' + facts.render(fact) + b',"stamp":' + answer + b"}\n"


def _format_time(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="microseconds")


def _parse_fact_ids(given: Sequence[str]) -> tuple[FactId, ...]:
    pairs = (each.rsplit(":", 1) for each in given)
    return tuple(FactId(replica, int(n)) for replica, n in pairs)


# ------------------------------------------------------------------------------- adding


def push_facts(context: RequestContext, push: Push) -> dict[str, Any]:
    """Add the facts of a push in the transaction, and return the stamps of all its facts.

    Facts that are stored already are not added again. The answer has `stale` if search does not find all
    facts yet.
    """
    _need_writer(context.caller, push.facts)
    row = lock_stream(context)
    if push.epoch != row.epoch:
        raise Rejection(
            409,
            "rewound",
            "the hub's past is another one than this machine's",
            epoch=row.epoch,
            head=row.head,
        )
    stamps, new, owner = _match_known_facts(context, row, push)
    if new:
        _need_writer(context.caller, new)
        start = len(push.facts) - len(new)
        stamps += _insert_facts(context, row, new, push.stamps[start:], owner=owner)
    answer = {"epoch": row.epoch, "head": row.head, "chain": row.chain.hex(), "stamps": stamps}
    return answer if _is_searchable(context, new, row.head) else {**answer, "stale": True}


def _need_writer(caller: HubCaller, new: Sequence[SyncFact]) -> None:
    """Reject a caller who is only a reader, unless a fact withdraws the caller's own vouch.

    The right to each fact is checked later.
    """
    caller.require("reader" if any(team_trust.takes_back(fact, caller.sender) for fact in new) else "writer")


def _is_searchable(context: RequestContext, new: Sequence[SyncFact], head: int) -> bool:
    """Index the added facts; return whether search finds all of them now."""
    from vademecum_hub.index_updates import project_push  # imports this module

    return not new or project_push(context.connection, context.caller, context.stream, new, head)


def lock_stream(context: RequestContext) -> StreamRow:
    """Lock and return the row of the stream until the end of the transaction; create a missing row."""
    ask = (
        "SELECT stream, epoch, head, chain, max_lam, bytes FROM hub.stream"
        " WHERE ws = %s AND stream = %s FOR UPDATE"
    )
    row = context.connection.execute(ask, (context.caller.ws, context.stream)).fetchone()
    if row is None:
        if not facts.is_stream(context.stream):
            raise not_found()
        count = context.connection.execute(
            "SELECT count(*) FROM hub.stream WHERE ws = %s", (context.caller.ws,)
        ).fetchone()
        if count and count[0] >= MOST_STREAMS:
            raise Rejection(507, "quota", f"a workspace has at most {MOST_STREAMS} streams")
        scope, _, place = context.stream.partition("/")
        context.connection.execute(
            "INSERT INTO hub.stream (ws, stream, scope, place, chain) VALUES (%s, %s, %s, %s, %s)"
            " ON CONFLICT DO NOTHING",
            (context.caller.ws, context.stream, scope, place, ZERO),
        )
        row = context.connection.execute(ask, (context.caller.ws, context.stream)).fetchone()
    assert row is not None
    return StreamRow(*row)


def _match_known_facts(
    context: RequestContext, row: StreamRow, push: Push
) -> tuple[list[dict[str, Any]], tuple[SyncFact, ...], str | None]:
    """Return the stamps of facts that are stored already, and the facts that are new.

    Also return the author of the replica's last fact.
    """
    last = context.connection.execute(
        "SELECT n, hash, lam, author FROM hub.fact WHERE ws = %s AND stream = %s AND replica = %s"
        " ORDER BY n DESC LIMIT 1",
        (context.caller.ws, context.stream, push.replica),
    ).fetchone()
    n, hashed, lamport, author = last or (0, ZERO, 0, None)
    if not push.facts:
        return [], (), author
    if push.facts[0].n > n + 1:
        raise Rejection(409, "gap", f"facts before {push.facts[0].id} are missing", first=n + 1)
    known = context.connection.execute(
        f"SELECT {COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s AND replica = %s"
        " AND n >= %s AND n <= %s ORDER BY n",
        (context.caller.ws, context.stream, push.replica, push.facts[0].n, push.facts[-1].n),
    ).fetchall()
    for fact, each in zip(push.facts, known, strict=False):
        if fact.hash != each[3].hex():
            raise _make_fork_rejection(fact)
    new = push.facts[len(known) :]
    if new and not known and (new[0].prev != hashed.hex() or new[0].lamport <= lamport):
        raise _make_fork_rejection(new[0])
    return [_render_stamp(each) for each in known], new, author


def _make_fork_rejection(fact: SyncFact) -> Rejection:
    return Rejection(
        409, "forked", f"there is another fact {fact.id}: this home was copied or rolled back", n=fact.n
    )


def _render_stamp(row: Sequence[Any]) -> dict[str, Any]:
    epoch, seq, chain, author, role, at, num, mac = (row[each] for each in (22, 0, 5, 17, 18, 19, 16, 20))
    return HubStamp(epoch, seq, chain.hex(), author, role, _format_time(at), num, mac.hex())._asdict()


def _insert_facts(
    context: RequestContext,
    row: StreamRow,
    new: Sequence[SyncFact],
    relayed: Sequence[HubStamp | None],
    *,
    owner: str | None,
) -> list[dict[str, Any]]:
    """Check and insert new facts, carry out their purges, and return their stamps.

    `relayed` has the stamps that the client sent, and `owner` is the author of the replica's last fact.
    """
    previous, known, limits = (
        _read_previous_facts(context, new),
        _read_authorship(context, new),
        read_limits(context.connection, context.caller),
    )
    now = _format_time(context.connection.execute("SELECT now()").fetchone()[0])  # type: ignore[index]  # always a row
    written, stamps = [], []
    for fact, old in zip(new, relayed, strict=True):
        _check_lamport(fact, row)
        replaced = _check_replaced(fact, previous)
        author, role, at = _find_author(context, fact, old, now)
        # The fact of a valid stamp was checked when the hub made the stamp. The stamp of a purged fact proves
        # only the hash.
        if old is None or author == EXTERNAL or fact.purged:
            check_own_replica(context.caller, fact.replica, owner)
            check_right(fact, context.caller, known.about(fact, replaced))
        owner = owner if author == EXTERNAL else author
        known.add(fact, (author, role))
        num = _assign_number(context, fact, old)
        row.head, row.chain = row.head + 1, chain_after(row.chain, fact.hash)
        row.max_lamport = max(row.max_lamport, fact.lamport)
        stamp = HubStamp(row.epoch, row.head, row.chain.hex(), author, role, at, num)
        stamp = stamp.sign(context.keys, context.caller, fact)
        previous[fact.id] = PreviousFact(fact.register, fact.lamport, author, role, bool(fact.purged))
        stamps.append(stamp._asdict())
        written.append(_make_row(context, fact, stamp, row.chain))
        size = len(written[-1]["value"] or b"")
        row.bytes += size + _ROW_BYTES
        _check_quota(limits, row, fact, size)
    with context.connection.cursor() as cursor:
        cursor.executemany(_INSERT, written)
    for fact in new:
        if fact.kind == PURGE and not fact.purged:
            _purge_facts(context, row, _parse_fact_ids(fact.value["dots"]))
    if any(relayed):
        _purge_resent_facts(context, row, new)
    context.connection.execute(
        "UPDATE hub.stream SET head = %s, chain = %s, max_lam = %s, bytes = %s WHERE ws = %s AND stream = %s",
        (row.head, row.chain, row.max_lamport, row.bytes, context.caller.ws, context.stream),
    )
    return stamps


_ROW_BYTES = 200  # bytes of a fact without its value
_NAMES = (
    "ws stream seq replica n hash prev chain lam doc kind target over kills value origin door seal num author"
    " role token at mac purged_at epoch"
).split()
_INSERT = f"INSERT INTO hub.fact ({', '.join(_NAMES)}) VALUES ({', '.join(f'%({each})s' for each in _NAMES)})"


def _make_row(context: RequestContext, fact: SyncFact, stamp: HubStamp, chain: bytes) -> dict[str, Any]:
    """Return the column values of a fact's row."""
    return {
        "ws": context.caller.ws,
        "stream": context.stream,
        "seq": stamp.seq,
        "replica": fact.replica,
        "n": fact.n,
        "hash": bytes.fromhex(fact.hash),
        "prev": bytes.fromhex(fact.prev),
        "chain": chain,
        "lam": fact.lamport,
        "doc": fact.doc,
        "kind": fact.kind,
        "target": fact.target,
        "over": [str(fact_id) for fact_id in fact.based_on],
        "kills": [str(fact_id) for fact_id in fact.removes],
        "value": None if fact.value is None else json.dumps(fact.value, ensure_ascii=False).encode(),
        "origin": fact.origin,
        "door": fact.interface,
        "seal": fact.seal,
        "num": stamp.num,
        "author": stamp.author,
        "role": stamp.role,
        "token": context.caller.token,
        "at": stamp.at,
        "mac": bytes.fromhex(stamp.mac),
        "purged_at": stamp.at if fact.purged else None,
        "epoch": stamp.epoch,
    }


def _check_lamport(fact: SyncFact, row: StreamRow) -> None:
    if fact.lamport > row.max_lamport + 1:
        raise Rejection(
            409, "lamport", f"the fact {fact.id} is too far ahead: pull first", largest=row.max_lamport
        )


def _check_replaced(fact: SyncFact, previous: Mapping[FactId, PreviousFact]) -> list[PreviousFact]:
    """Return the facts that a fact replaces, without purged facts.

    Reject the fact if a replaced fact is unknown, of another register, not older, or purged. A purged fact
    may replace purged facts and facts of another register.
    """
    replaced = []
    for fact_id in fact.based_on:
        other = previous.get(fact_id)
        if other is None:
            raise Rejection(422, "unknown", f"the fact {fact.id} replaces {fact_id}, which is not here")
        if other.purged:
            if not fact.purged:
                raise Rejection(410, "purged", f"the fact {fact.id} is over a text that was purged", n=fact.n)
            continue
        if (other.register != fact.register and not fact.purged) or other.lamport >= fact.lamport:
            raise malformed(
                f"the fact {fact.id} replaces {fact_id}, which is about something else or is not older"
            )
        replaced.append(other)
    return replaced


def _find_author(
    context: RequestContext, fact: SyncFact, old: HubStamp | None, now: str
) -> tuple[str, str, str]:
    """Return author, role and time for a fact's stamp.

    They come from the stamp that the client sent with the fact, if its MAC is valid. Without a stamp they are
    the caller and now; with an invalid stamp the author is `external`.
    """
    if old is None:
        return context.caller.name, context.caller.standing, now
    if not is_own_stamp(context, fact, old):
        return EXTERNAL, EXTERNAL, now
    return old.author, old.role, old.at


def is_own_stamp(context: RequestContext, fact: SyncFact, stamp: HubStamp | None) -> bool:
    """Return whether the stamp was made by this hub for exactly this fact."""
    return stamp is not None and hmac.compare_digest(
        stamp.sign(context.keys, context.caller, fact).mac, stamp.mac
    )


def _read_previous_facts(context: RequestContext, new: Sequence[SyncFact]) -> dict[FactId, PreviousFact]:
    """Return the facts that new facts replace, by id, with the columns that checks need."""
    wanted = sorted({fact_id for fact in new for fact_id in fact.based_on})
    if not wanted:
        return {}
    rows = context.connection.execute(
        "SELECT f.replica, f.n, f.doc, f.kind, f.target, f.lam, f.author, f.role, f.purged_at IS NOT NULL"
        " FROM unnest(%s::text[], %s::bigint[]) AS d (replica, n)"
        " JOIN hub.fact f ON f.ws = %s AND f.stream = %s AND f.replica = d.replica AND f.n = d.n",
        (
            [fact_id.replica for fact_id in wanted],
            [fact_id.n for fact_id in wanted],
            context.caller.ws,
            context.stream,
        ),
    ).fetchall()
    return {
        FactId(replica, n): PreviousFact(
            (doc, facts.GROUPS.get(kind, kind), target), lamport, author, role, purged
        )
        for replica, n, doc, kind, target, lamport, author, role, purged in rows
    }


@dataclass(slots=True)
class _Authorship:
    """The authors of the entries and documents that a push changes, as far as rights depend on them."""

    protected: set[str] = field(default_factory=set)
    entries: dict[tuple[str, str], set[team_trust.FactAuthor]] = field(default_factory=dict)
    heads: dict[str, set[team_trust.FactAuthor]] = field(default_factory=dict)
    leading: set[tuple[str, object]] = field(default_factory=set)  # documents with names they may not take
    words: dict[tuple[str, str], set[FactId]] = field(default_factory=dict)  # the sender's vouches in force

    def about(self, fact: SyncFact, replaced: Sequence[PreviousFact]) -> team_trust.FactContext:
        """Return the authors and facts that the rules need to decide about a fact."""
        words = self.words.get((fact.doc, fact.target), set())
        return team_trust.FactContext(
            [(each.author, each.role) for each in replaced],
            self.entries.get((fact.doc, team_trust.entry_of(fact)), ()),
            self.heads.get(fact.doc, ()),
            leads=fact.kind == "name" and (fact.doc, fact.value) in self.leading,
            protected=fact.doc in self.protected,
            ends=bool(words) and words <= set(fact.based_on),
        )

    def add(self, fact: SyncFact, author: team_trust.FactAuthor) -> None:
        """Note the author of a fact of this push, for the facts that follow in it."""
        if fact.kind == "put":
            self.entries.setdefault((fact.doc, fact.target), set()).add(author)
        elif fact.kind in _HEAD:
            self.heads.setdefault(fact.doc, set()).add(author)
        elif fact.kind == _VOUCH:
            self.words.pop((fact.doc, fact.target), None)  # a new vouch takes their place


_HEAD = ("name", "layout")
_VOUCH = "vouch"


def _read_authorship(context: RequestContext, new: Sequence[SyncFact]) -> _Authorship:
    """Return the authors on whom the right to add these facts depends.

    Nothing is read for a person who is editor or owner, whose right depends on no author.
    """
    if context.caller.person and context.caller.has_role("editor"):
        return _Authorship()
    known = _Authorship(_read_protected(context, new), words=_read_own_vouches(context, new))
    if context.caller.person and not known.protected:
        return known
    named = sorted({(fact.doc, entry) for fact in new if (entry := team_trust.entry_of(fact))})
    rows = context.connection.execute(
        "SELECT DISTINCT f.doc, f.target, f.author, f.role"
        " FROM unnest(%s::text[], %s::text[]) AS e (doc, target) JOIN hub.fact f"
        " ON f.ws = %s AND f.stream = %s AND f.doc = e.doc AND f.target = e.target AND f.kind = 'put'",
        (*([each[n] for each in named] for n in range(2)), context.caller.ws, context.stream),
    ).fetchall()
    for doc, target, author, role in rows:
        known.entries.setdefault((doc, target), set()).add((author, role))
    known.heads = _read_heads(context, {fact.doc for fact in new})
    if not context.caller.person:
        known.leading = _find_leading(context, [fact for fact in new if fact.kind == "name" and fact.value])
    return known


def _read_own_vouches(context: RequestContext, new: Sequence[SyncFact]) -> dict[tuple[str, str], set[FactId]]:
    """Return the sender's vouches in force for the texts whose vouch the new facts withdraw."""
    meant = [fact for fact in new if team_trust.takes_back(fact, context.caller.sender)]
    if not meant:
        return {}
    rows = context.connection.execute(
        "SELECT f.doc, f.target, f.replica, f.n FROM hub.fact f WHERE f.ws = %s AND f.stream = %s"
        " AND f.doc = ANY(%s) AND f.target = ANY(%s) AND f.kind = 'vouch' AND f.value = 'true'::bytea"
        " AND f.author = %s AND NOT EXISTS ("
        "  SELECT FROM hub.fact g WHERE g.ws = f.ws AND g.stream = f.stream AND g.doc = f.doc"
        "  AND g.kind = 'vouch' AND f.replica || ':' || f.n = ANY(g.over))",
        (
            context.caller.ws,
            context.stream,
            sorted({fact.doc for fact in meant}),
            sorted({fact.target for fact in meant}),
            context.caller.name,
        ),
    ).fetchall()
    found: dict[tuple[str, str], set[FactId]] = {}
    for doc, target, replica, n in rows:
        found.setdefault((doc, target), set()).add(FactId(replica, n))
    return found


def _read_heads(context: RequestContext, docs: Collection[str]) -> dict[str, set[team_trust.FactAuthor]]:
    """Return, for each document, the authors of its names and layouts."""
    rows = context.connection.execute(
        "SELECT DISTINCT doc, author, role FROM hub.fact"
        " WHERE ws = %s AND stream = %s AND doc = ANY(%s) AND kind = ANY(%s)",
        (context.caller.ws, context.stream, sorted(docs), list(_HEAD)),
    ).fetchall()
    found: dict[str, set[team_trust.FactAuthor]] = {}
    for doc, author, role in rows:
        found.setdefault(doc, set()).add((author, role))
    return found


def _find_leading(context: RequestContext, named: Sequence[SyncFact]) -> set[tuple[str, object]]:
    """Return the documents that would come first in another author's file under their new names."""
    from vademecum_hub.stream_documents import find_named, read_facts  # imports this module

    there = find_named(
        context.connection, context.caller.ws, context.stream, {str(fact.value) for fact in named}
    )
    if not there:
        return set()
    heads, own = _read_heads(context, there), {context.caller.sender.author}
    state = read_facts(context.connection, context.caller.ws, context.stream, there)
    return {
        (fact.doc, fact.value)
        for fact in named
        if team_trust.would_lead(state, fact.doc, fact.value, lambda doc: heads.get(doc, own) != own)
    }


def _read_protected(context: RequestContext, new: Sequence[SyncFact]) -> set[str]:
    """Return which of the documents that these facts change are protected."""
    rows = context.connection.execute(
        "SELECT f.doc FROM hub.fact f WHERE f.ws = %s AND f.stream = %s AND f.doc = ANY(%s)"
        " AND f.kind = 'protected' AND f.value = 'true'::bytea AND NOT EXISTS ("
        "  SELECT FROM hub.fact g WHERE g.ws = f.ws AND g.stream = f.stream AND g.doc = f.doc"
        "  AND g.kind = 'protected' AND f.replica || ':' || f.n = ANY(g.over))",
        (context.caller.ws, context.stream, sorted({fact.doc for fact in new})),
    ).fetchall()
    return {doc for (doc,) in rows}


_LARGEST_LEAP = 100_000  # between a claimed number and the last given one


def _assign_number(context: RequestContext, fact: SyncFact, old: HubStamp | None) -> int | None:
    """Return a record's number, assigned once; None if the fact is not about a number.

    This is the claimed number if it is free and not too large, else the next number.
    """
    if fact.kind != "num" or fact.purged:
        return None
    there = context.connection.execute(
        "SELECT num FROM hub.number WHERE ws = %s AND stream = %s AND doc = %s",
        (context.caller.ws, context.stream, fact.doc),
    ).fetchone()
    if there is not None:
        return int(there[0])
    last = context.connection.execute(
        "SELECT last_num FROM hub.workspace WHERE ws = %s FOR UPDATE", (context.caller.ws,)
    ).fetchone()
    claimed = (old.num if old else None) or fact.value
    free = (
        isinstance(claimed, int)
        and 0 < claimed <= last[0] + _LARGEST_LEAP  # type: ignore[index]  # one's own workspace is there
        and not context.connection.execute(
            "SELECT 1 FROM hub.number WHERE ws = %s AND num = %s", (context.caller.ws, claimed)
        ).fetchone()
    )
    num = claimed if free else last[0] + 1  # type: ignore[index]  # one's own workspace is there
    context.connection.execute(
        "INSERT INTO hub.number VALUES (%s, %s, %s, %s)", (context.caller.ws, num, context.stream, fact.doc)
    )
    context.connection.execute(
        "UPDATE hub.workspace SET last_num = greatest(last_num, %s) WHERE ws = %s", (num, context.caller.ws)
    )
    return int(num)


class StreamLimits(NamedTuple):
    """The quota of a stream, in bytes and facts."""

    bytes: int
    facts: int


def read_limits(connection: Connection[Any], caller: HubCaller) -> StreamLimits:
    """Return the quota that the workspace sets for each of its streams."""
    row = connection.execute(
        "SELECT quota_bytes, quota_facts FROM hub.workspace WHERE ws = %s", (caller.ws,)
    ).fetchone()
    return StreamLimits(*row) if row else StreamLimits(0, 0)


def _check_quota(limits: StreamLimits, row: StreamRow, fact: SyncFact, size: int) -> None:
    """Reject a fact that would exceed the quota.

    The answer has `n` if the same fact would fit without its value.
    """
    if row.bytes > limits.bytes or row.head > limits.facts:
        alone = row.head <= limits.facts and row.bytes - size <= limits.bytes
        why = "this place is full; whoever runs the hub can raise its quota"
        raise Rejection(507, "quota", why, **({"n": fact.n} if alone else {}))


# ------------------------------------------------------------------------------- purging


def _purge_facts(context: RequestContext, row: StreamRow, fact_ids: Sequence[FactId]) -> None:
    """Delete the content of facts and of the facts that replace them; the emptied facts stay."""
    names = [str(fact_id) for fact_id in fact_ids]
    freed = context.connection.execute(
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
            [fact_id.replica for fact_id in fact_ids],
            [fact_id.n for fact_id in fact_ids],
            *[context.caller.ws, context.stream] * 2,
            names,
            *[context.caller.ws, context.stream],
        ),
    ).fetchone()
    row.bytes -= int(freed[0]) if freed else 0


def _purge_resent_facts(context: RequestContext, row: StreamRow, sent: Sequence[SyncFact]) -> None:
    """Purge those facts of a push that a stored purge names, as after a restored database."""
    there = {fact.id for fact in sent if not fact.purged}
    purges = context.connection.execute(
        "SELECT value FROM hub.fact WHERE ws = %s AND stream = %s AND doc = '' AND kind = 'purge'"
        " AND value IS NOT NULL",
        (context.caller.ws, context.stream),
    ).fetchall()
    for (value,) in purges:
        named = there.intersection(_parse_fact_ids(json.loads(value)["dots"]))
        if named:
            _purge_facts(context, row, sorted(named))


def find_text(context: RequestContext, text: str) -> list[str]:
    """Return the ids of all facts of a stream that contain a text, old versions included."""
    context.caller.require("owner", person=True)
    if not text.strip():
        raise malformed("there is no text to look for")
    # The stored values are JSON, so the text is escaped as JSON does it.
    inside = json.dumps(text, ensure_ascii=False)[1:-1].encode()
    rows = context.connection.execute(
        "SELECT replica, n FROM hub.fact WHERE ws = %s AND stream = %s AND kind <> 'purge'"
        " AND (position(%s::bytea IN value) > 0 OR position(%s IN target) > 0) ORDER BY seq",
        (context.caller.ws, context.stream, inside, text.replace("\0", "")),
    ).fetchall()
    return [f"{replica}:{n}" for replica, n in rows]


def acknowledge_purge(context: RequestContext, seq: int, replica: str) -> None:
    """Save that a machine has carried out a purge."""
    context.caller.require("reader", scope="read")
    kind = context.connection.execute(
        "SELECT kind FROM hub.fact WHERE ws = %s AND stream = %s AND seq = %s",
        (context.caller.ws, context.stream, seq),
    ).fetchone()
    if kind is None or kind[0] != PURGE:
        raise not_found()
    # A token without a machine, such as an agent's, is bound to the first machine that acknowledges with it.
    bound = context.connection.execute(
        "UPDATE hub.token t SET replica = coalesce(t.replica, %s) WHERE t.ws = %s AND t.token = %s"
        " AND (t.replica IS NOT NULL OR NOT EXISTS ("
        "  SELECT FROM hub.token o WHERE o.ws = t.ws AND o.replica = %s AND o.member <> t.member))"
        " RETURNING t.replica",
        (replica, context.caller.ws, context.caller.token, replica),
    ).fetchone()
    if bound is None or bound[0] != replica:
        raise malformed("a machine acknowledges for itself alone")
    context.connection.execute(
        "INSERT INTO hub.purge_ack (ws, stream, seq, replica) VALUES (%s, %s, %s, %s) ON CONFLICT DO NOTHING",
        (context.caller.ws, context.stream, seq, replica),
    )


def list_purges(context: RequestContext) -> list[dict[str, Any]]:
    """Return the purges of a stream, each with author, time and two numbers of machines.

    The numbers are the machines that have carried it out (`acknowledged`), and all machines.
    """
    context.caller.require("reader", scope="read")
    machines = context.connection.execute(
        "SELECT count(DISTINCT t.replica) FROM hub.token t"
        " JOIN hub.member m ON m.ws = t.ws AND m.member = t.member"
        " WHERE t.ws = %s AND t.replica IS NOT NULL AND t.revoked_at IS NULL AND t.expires > now()"
        " AND m.removed_at IS NULL",
        (context.caller.ws,),
    ).fetchone()
    rows = context.connection.execute(
        "SELECT f.seq, f.author, f.at, count(a.replica) FROM hub.fact f"
        " LEFT JOIN hub.purge_ack a ON a.ws = f.ws AND a.stream = f.stream AND a.seq = f.seq"
        " WHERE f.ws = %s AND f.stream = %s AND f.kind = 'purge'"
        " GROUP BY f.seq, f.author, f.at ORDER BY f.seq",
        (context.caller.ws, context.stream),
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


# ------------------------------------------------------------------------------- epochs and leases


def begin_epoch(context: RequestContext, fact: SyncFact, stamp: HubStamp) -> int:
    """Begin a new epoch if a valid stamp proves that the database has lost an acknowledged fact.

    Return the current epoch. The key of a stamp's MAC is not in the database, so nobody can forge such a
    proof.
    """
    context.caller.require("writer")
    row = lock_stream(context)
    author, _, _ = _find_author(context, fact, stamp, "")
    there = context.connection.execute(
        "SELECT chain FROM hub.fact WHERE ws = %s AND stream = %s AND seq = %s",
        (context.caller.ws, context.stream, stamp.seq),
    ).fetchone()
    known = there is not None and there[0].hex() == stamp.chain
    if author == EXTERNAL or stamp.epoch < row.epoch or (stamp.epoch == row.epoch and known):
        return row.epoch  # no proof, or the new epoch has begun already
    context.connection.execute(
        "UPDATE hub.stream SET epoch = %s WHERE ws = %s AND stream = %s",
        (stamp.epoch + 1, context.caller.ws, context.stream),
    )
    return stamp.epoch + 1


def take_lease(context: RequestContext, holder: str, seconds: int) -> dict[str, Any]:
    """Lease a stream's maintenance to one machine for some seconds, an hour at most.

    The holder can renew the lease; others are rejected until it ends.
    """
    context.caller.require("writer")
    seconds = max(1, min(seconds, 3600))
    lock_stream(context)
    row = context.connection.execute(
        "INSERT INTO hub.lease (ws, stream, holder, until) VALUES (%(ws)s, %(stream)s, %(holder)s,"
        "  now() + make_interval(secs => %(seconds)s))"
        " ON CONFLICT (ws, stream) DO UPDATE SET holder = EXCLUDED.holder, until = EXCLUDED.until"
        " WHERE hub.lease.holder = EXCLUDED.holder OR hub.lease.until < now()"
        " RETURNING until",
        {"ws": context.caller.ws, "stream": context.stream, "holder": holder, "seconds": seconds},
    ).fetchone()
    if row is None:
        raise Rejection(409, "leased", "another machine cares for this place now")
    return {"holder": holder, "until": row[0].isoformat()}
