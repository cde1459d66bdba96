"""The hub as the place where replicas leave their facts for each other.

What it knows of a stream (how far it has read, the hub's stamps) lies beside the token and can be lost: then
everything is read again, and what is known already stays as it is. A cursor is written only after the facts
before it were: `push` comes after the log took what `pull` gave.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import ssl
import time
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from vademecum.errors import Malformed, UsageError, VadeError
from vademecum.sync import facts as fact_rules
from vademecum.sync.place import Forked

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.store.files import DiskFolder
    from vademecum.sync.facts import Dot, SyncFact

PROTOCOL = "1"
MOST_FACTS, LARGEST_PUSH = 1_000, 3 << 20
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANSWER = 64 << 20  # bytes; a pull has at most 4 MiB and what one fact has beyond
_TRIES, _PAUSE = 3, 0.2  # of a connection that fails
_LISTED = "streams.json"


class HubUnreachable(VadeError):
    """The hub did not answer, or not in time; local memory works on and unsent changes wait."""

    hint = "nothing is lost: sync again later"


class HubRefused(VadeError):
    """The hub answered, and said no."""

    hint = "nothing is lost: what was not sent waits here"

    def __init__(self, status: int, told: Mapping[str, Any]) -> None:
        super().__init__(f"the hub says: {told.get('message') or f'status {status}'}")
        self.status, self.code, self.told = status, str(told.get("code") or ""), told


class Reply(NamedTuple):
    """An answer of the hub."""

    status: int
    tag: str
    body: bytes

    def json(self) -> Any:
        """The body as JSON."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Malformed("the hub's answer is not JSON", hint="check the hub's address") from error


def check_address(url: str) -> str:
    """The address of a hub, which is reached over TLS unless it is on this machine."""
    try:
        parts = urlsplit(url)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.query or parts.fragment:
        raise UsageError(f"{url!r} is not the address of a hub", hint="give it as https://hub.example")
    if parts.scheme == "http" and parts.hostname not in _LOOPBACK:
        raise UsageError("a hub on another machine is reached over TLS alone", hint="begin it with https://")
    return url.rstrip("/")


class HubClient:
    """Requests to one hub over one connection that is kept; what fails on the way is tried again."""

    def __init__(self, url: str, token: str = "", *, seconds: float = 30, patience: float = 60) -> None:
        self._parts = urlsplit(check_address(url))
        self._token, self._seconds, self._patience = token, seconds, patience
        self._connection: http.client.HTTPConnection | None = None
        self.requests = 0

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """One request; a busy hub is asked again when it says so, until patience ends."""
        until = time.monotonic() + self._patience
        failed = 0
        while True:
            try:
                reply, wait = self._send(method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                self.close()
                failed += 1
                if isinstance(error, ssl.SSLCertVerificationError) or failed >= _TRIES:
                    raise HubUnreachable(f"the hub cannot be reached: {_why(error)}") from error
                time.sleep(_PAUSE * failed)
                continue
            if reply.status in (429, 503) and time.monotonic() + wait < until:
                time.sleep(wait)
                continue
            if reply.status >= 400:
                raise HubRefused(reply.status, _told(reply))
            return reply

    def _send(
        self, method: str, path: str, body: bytes | None, headers: Mapping[str, str]
    ) -> tuple[Reply, float]:
        if self._connection is None:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            self._connection = kind(self._parts.netloc, timeout=self._seconds)
        given = {"Vade-Protocol": PROTOCOL, **headers}
        if self._token:
            given["Authorization"] = f"Bearer {self._token}"
        self.requests += 1
        self._connection.request(method, self._parts.path + path, body, given)
        answer = self._connection.getresponse()
        content = answer.read(_ANSWER + 1)
        if len(content) > _ANSWER:
            raise Malformed("the hub's answer is too large", hint="check the hub's address")
        after = answer.headers.get("Retry-After", "1")
        wait = float(after) if after.isdecimal() else 1.0
        return Reply(answer.status, answer.headers.get("ETag", ""), content), wait

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def _told(reply: Reply) -> Mapping[str, Any]:
    try:
        told = json.loads(reply.body)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return told if isinstance(told, dict) else {}


def _why(error: Exception) -> str:
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# ------------------------------------------------------------------------------- what is known of a stream


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a stream was read, and how much of each replica the hub is known to have."""

    epoch: int = 1
    seq: int = 0
    chain: str = "0" * 64
    seen: dict[str, int] = field(default_factory=dict)


class Remote:
    """A hub as a transport: `begin` once for a sync, then `pull` and `push` for each stream."""

    def __init__(
        self, client: HubClient, folder: DiskFolder, logged: Callable[[str], Iterable[SyncFact]]
    ) -> None:
        self._client, self._folder, self._logged = client, folder, logged
        self._listed: dict[str, dict[str, Any]] = {}
        self._cursors: dict[str, Cursor] = {}
        self._hashes: dict[str, dict[Dot, str]] = {}  # of what the log had when the hub's were compared
        self._lost: set[str] = set()  # streams of which the hub has forgotten something

    def begin(self) -> list[str]:
        """Ask which streams the hub has; when nothing is new, this is the only request of a sync."""
        kept = self._read_json(_LISTED)
        etag = str(kept.get("etag") or "")
        reply = self._client.ask("GET", "/v1/streams", headers={"If-None-Match": etag} if etag else {})
        if reply.status != 304:
            kept = {"etag": reply.tag, "streams": reply.json()["streams"]}
            self._write_json(_LISTED, kept)
        self._listed = {each["stream"]: each for each in kept["streams"]}
        return sorted(self._listed)

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterator[SyncFact]:
        """Facts that are not known, in the hub's order."""
        if stream not in self._listed:
            if self._cursor(stream).seq:  # a restored database that is older than the stream
                self._cursors[stream] = Cursor()
                self._lost.add(stream)
            return
        cursor, have = self._cursor(stream), dict(known)
        self._hashes.pop(stream, None)
        if any(known.get(replica, 0) < n for replica, n in cursor.seen.items()):
            cursor = Cursor(epoch=cursor.epoch)  # some that were read were not taken, or the log is new
        if self._is_current(stream, cursor):
            self._cursors[stream] = cursor
            return
        while True:
            lines = self._read(stream, cursor)
            if lines is None:
                cursor = self._rewind(stream)
                continue
            if not lines:
                break
            for fact, stamp in lines:
                cursor = _follow(cursor, fact, stamp)
                if fact.n > have.get(fact.replica, 0):
                    have[fact.replica] = fact.n
                    yield fact
                else:
                    self._check_same(stream, fact)
            self._keep_stamps(stream, lines)
        self._cursors[stream] = cursor

    def push(self, stream: str, facts: Sequence[SyncFact]) -> None:
        """Send what the hub lacks of these; after a rewind, what it lacks of anybody's."""
        cursor = self._cursor(stream)
        self._save(stream, cursor)  # by now the log has everything that was pulled
        if stream in self._lost:
            self._relay(stream)
            return
        for batch in _batches(self.unsent(stream, facts)):
            try:
                self._send(stream, batch)
            except HubRefused as error:
                if error.code not in ("gap", "rewound", "unknown", "lamport"):
                    raise
                self._recover(stream, error)
                return

    def unsent(self, stream: str, facts: Iterable[SyncFact]) -> list[SyncFact]:
        """Those that the hub is not known to have."""
        seen = self._cursor(stream).seen
        return [each for each in facts if each.n > seen.get(each.replica, 0)]

    # ------------------------------------------------------------------------------- one step each

    def _check_same(self, stream: str, fact: SyncFact) -> None:
        """Whether the hub's fact is the one that is known by that name."""
        if stream not in self._hashes:
            self._hashes[stream] = {each.dot: each.hash for each in self._logged(stream)}
        if self._hashes[stream].get(fact.dot, fact.hash) != fact.hash:
            raise Forked(f"there is another fact {fact.dot}: this home was copied or rolled back")

    def _is_current(self, stream: str, cursor: Cursor) -> bool:
        listed = self._listed[stream]
        return (listed["epoch"], listed["head"], listed["chain"]) == (cursor.epoch, cursor.seq, cursor.chain)

    def _read(self, stream: str, cursor: Cursor) -> list[tuple[SyncFact, dict[str, Any]]] | None:
        """The next facts with their stamps; None when the hub's past is not the one that was read."""
        query = f"epoch={cursor.epoch}&after={cursor.seq}&chain={cursor.chain}&limit={MOST_FACTS}"
        try:
            reply = self._client.ask("GET", f"/v1/streams/{quote(stream)}/facts?{query}")
        except HubRefused as error:
            if error.code == "rewound":
                return None
            raise
        return [_read_line(line) for line in reply.body.splitlines()]

    def _rewind(self, stream: str) -> Cursor:
        """Show the hub that it has forgotten something, and read everything again."""
        known = {each.dot: each for each in self._logged(stream)}
        stamps = self._stamps(stream)
        proven = [dot for dot in stamps if dot in known]
        if proven:
            last = max(proven, key=lambda dot: (stamps[dot]["epoch"], stamps[dot]["seq"]))
            line = b'{"fact":' + fact_rules.render(known[last]) + b',"stamp":'
            body = line + json.dumps(stamps[last]).encode() + b"}"
            epoch = self._client.ask("POST", f"/v1/streams/{quote(stream)}/epoch", body).json()["epoch"]
        else:
            self._client_streams()
            epoch = self._listed.get(stream, {"epoch": 1})["epoch"]
        self._lost.add(stream)
        return Cursor(epoch=int(epoch))

    def _client_streams(self) -> None:
        listed = self._client.ask("GET", "/v1/streams").json()["streams"]
        self._listed = {each["stream"]: each for each in listed}

    def _recover(self, stream: str, error: HubRefused) -> None:
        """After a push that the hub could not place: read all that it has, then send all that it lacks."""
        self._lost.add(stream)
        cursor = self._rewind(stream) if error.code == "rewound" else Cursor(self._cursor(stream).epoch)
        while lines := self._read(stream, cursor):
            for fact, stamp in lines:
                cursor = _follow(cursor, fact, stamp)
            self._keep_stamps(stream, lines)
        self._cursors[stream] = replace(self._cursor(stream), epoch=cursor.epoch, seen=cursor.seen)
        self._relay(stream)

    def _relay(self, stream: str) -> None:
        """Send every fact that is known here and not there, with the stamps that say whose it is."""
        seen, stamps = self._cursor(stream).seen, self._stamps(stream)
        missing = sorted(
            (each for each in self._logged(stream) if each.n > seen.get(each.replica, 0)),
            key=lambda fact: fact.order,
        )
        for batch in _batches(missing):
            self._send(stream, batch, [stamps.get(each.dot) for each in batch])
        self._lost.discard(stream)

    def _send(
        self, stream: str, batch: Sequence[SyncFact], stamps: Sequence[dict[str, Any] | None] = ()
    ) -> None:
        cursor = self._cursor(stream)
        head: dict[str, Any] = {"epoch": cursor.epoch, "replica": batch[0].replica}
        if any(stamps):
            head["stamps"] = list(stamps)
        body = b"\n".join([json.dumps(head).encode(), *map(fact_rules.render, batch)])
        told = self._client.ask("POST", f"/v1/streams/{quote(stream)}/facts", body).json()
        lines = list(zip(batch, told["stamps"], strict=True))
        self._keep_stamps(stream, lines)
        seen = {**cursor.seen, batch[0].replica: batch[-1].n}
        if told["stamps"][0]["seq"] == cursor.seq + 1 and told["head"] == told["stamps"][-1]["seq"]:
            cursor = replace(cursor, seq=told["head"], chain=told["chain"])  # nobody else came in between
        self._save(stream, replace(cursor, seen=seen))

    # ------------------------------------------------------------------------------- on disk

    def _cursor(self, stream: str) -> Cursor:
        if stream not in self._cursors:
            kept = self._read_json(f"{_file(stream)}.json")
            try:
                self._cursors[stream] = Cursor(**kept)
            except TypeError:  # another version's: it is read anew
                self._cursors[stream] = Cursor()
        return self._cursors[stream]

    def _save(self, stream: str, cursor: Cursor) -> None:
        self._cursors[stream] = cursor
        self._write_json(f"{_file(stream)}.json", asdict(cursor))

    def _keep_stamps(self, stream: str, lines: Iterable[tuple[SyncFact, dict[str, Any]]]) -> None:
        """Remember who the hub says made each fact, and the proof that it said so."""
        pen = self._folder.pen(f"{_file(stream)}.stamps")
        try:
            for fact, stamp in lines:
                pen.write(json.dumps({"dot": str(fact.dot), **stamp}).encode() + b"\n", sync=False)
        finally:
            pen.close()

    def _stamps(self, stream: str) -> dict[Dot, dict[str, Any]]:
        """The newest stamp of each fact."""
        found: dict[Dot, dict[str, Any]] = {}
        for line in (self._folder.read(f"{_file(stream)}.stamps", largest=1 << 30) or b"").splitlines():
            try:
                stamp = json.loads(line)
                replica, n = stamp.pop("dot").rsplit(":", 1)
            except (ValueError, KeyError, AttributeError):
                continue  # cut off by a crash
            found[fact_rules.Dot(replica, int(n))] = stamp
        return found

    def authors(self, stream: str) -> dict[Dot, tuple[str, str]]:
        """Who made each fact, and in which role, as the hub says."""
        return {dot: (stamp["author"], stamp["role"]) for dot, stamp in self._stamps(stream).items()}

    def _read_json(self, name: str) -> dict[str, Any]:
        try:
            found = json.loads(self._folder.read(name) or b"{}")
        except ValueError:
            return {}
        return found if isinstance(found, dict) else {}

    def _write_json(self, name: str, value: Mapping[str, Any]) -> None:
        self._folder.update(name, lambda _: json.dumps(value).encode())


def _file(stream: str) -> str:
    """The name of a stream's files: it may hold a slash, and letters that a file system takes for one."""
    return f"{stream.partition('/')[0]}-{hashlib.sha256(stream.encode()).hexdigest()[:16]}"


def _read_line(line: bytes) -> tuple[SyncFact, dict[str, Any]]:
    cut = line.rfind(b',"stamp":{')
    try:
        stamp = json.loads(line[cut + 9 : -1])
    except ValueError as error:
        raise Malformed("a line of the hub has no fact and stamp", hint="check its version") from error
    return fact_rules.parse(line[8:cut]), stamp


def _follow(cursor: Cursor, fact: SyncFact, stamp: Mapping[str, Any]) -> Cursor:
    """The cursor after a fact, if the hub's chain holds."""
    chain = hashlib.sha256(bytes.fromhex(cursor.chain) + bytes.fromhex(fact.hash)).hexdigest()
    if stamp.get("chain") != chain or stamp.get("seq") != cursor.seq + 1:
        raise Malformed("the hub's chain does not hold", hint="tell whoever runs the hub")
    seen = {**cursor.seen, fact.replica: max(fact.n, cursor.seen.get(fact.replica, 0))}
    return Cursor(cursor.epoch, cursor.seq + 1, chain, seen)


def _batches(given: Sequence[SyncFact]) -> Iterator[list[SyncFact]]:
    """Facts in parts that one push takes, each of one replica."""
    batch: list[SyncFact] = []
    size = 0
    for fact in given:
        length = len(fact_rules.render(fact))
        if batch and (
            len(batch) >= MOST_FACTS or size + length > LARGEST_PUSH or batch[-1].replica != fact.replica
        ):
            yield batch
            batch, size = [], 0
        batch.append(fact)
        size += length
    if batch:
        yield batch
