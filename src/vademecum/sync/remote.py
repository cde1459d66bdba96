"""The hub as the place where replicas leave their facts for each other.

What it knows of a stream (how far it has read, the hub's stamps) lies beside the token and can be lost: then
everything is read again, and what is known already stays as it is. A cursor is written only after the facts
before it were: `push` comes after the log took what `pull` gave.
"""

from __future__ import annotations

import hashlib
import http.client
import json
import random
import socket
import ssl
import threading
import time
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote, urlsplit

from vademecum.errors import Malformed, UsageError, VadeError
from vademecum.store.teams import LOGS
from vademecum.sync import facts as fact_rules
from vademecum.sync.facts import Dot, is_withdrawn
from vademecum.sync.place import Forked
from vademecum.sync.team import STAMPS, read_stamp_lines
from vademecum.sync.window import facts_since

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.store.files import DiskFolder
    from vademecum.sync.facts import SyncFact

PROTOCOL = "1"
MOST_FACTS, LARGEST_PUSH = 1_000, 3 << 20
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANSWER = 64 << 20  # bytes; a pull has at most 4 MiB and what one fact has beyond
_TRIES, _PAUSE = 3, 0.2  # of a connection that fails
_LISTED = "streams.json"
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")
_FIRST, _SLOWEST = 1.0, 60.0  # seconds until events are asked for again: the first time, and at most
_STEADY = 30.0  # seconds after which a stream that ends counts as one that worked
_NO_EVENTS = 600.0  # seconds until a hub without events, or one that says no, is asked for them again
_LONGEST_LINE = 1 << 16
_ALTERED = "tell whoever runs the hub; nothing of it was taken, and your memory works on"


class HubUnreachable(VadeError):
    """The hub did not answer, or not in time; local memory works on and unsent changes wait."""

    hint = "nothing is lost: try again later"


class HubRefused(VadeError):
    """The hub answered, and said no."""

    hint = "nothing is lost, and what was not sent waits here"

    def __init__(self, status: int, told: Mapping[str, Any]) -> None:
        super().__init__(f"the hub says: {told.get('message') or f'status {status}'}")
        self.status, self.code, self.told = status, str(told.get("code") or ""), told
        if self.code == "code":
            self.hint = "`vade hub invite` on a machine that has joined shows a new one"
        self.dot: Dot | None = None  # the one fact that it does not take, when it is that


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
        answer = self.open(method, path, body, headers)
        content = answer.read(_ANSWER + 1)
        if len(content) > _ANSWER:
            raise Malformed("the hub's answer is too large", hint="check the hub's address")
        return Reply(answer.status, answer.headers.get("ETag", ""), content), retry_after(answer)

    def open(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> http.client.HTTPResponse:
        """One request, whose answer is still to be read; nothing is tried again."""
        if self._connection is None:
            secure = self._parts.scheme == "https"
            kind = http.client.HTTPSConnection if secure else http.client.HTTPConnection
            self._connection = kind(self._parts.netloc, timeout=self._seconds)
        given = {"Vade-Protocol": PROTOCOL, **(headers or {})}
        if self._token:
            given["Authorization"] = f"Bearer {self._token}"
        self.requests += 1
        self._connection.request(method, self._parts.path + path, body, given)
        return self._connection.getresponse()

    def interrupt(self) -> None:
        """End what another thread is reading from the hub."""
        kept = self._connection
        if kept is not None and kept.sock is not None:
            with suppress(OSError):
                kept.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Let the connection go."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def retry_after(answer: http.client.HTTPResponse) -> float:
    """Seconds after which the hub wants to be asked again."""
    after = answer.headers.get("Retry-After", "1")
    return float(after) if after.isdecimal() else 1.0


def _told(reply: Reply) -> Mapping[str, Any]:
    try:
        told = json.loads(reply.body)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return told if isinstance(told, dict) else {}


def _why(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return "what answers there does not speak TLS"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# ------------------------------------------------------------------------------- what the hub tells by itself


class HubEvents:
    """Hears in a thread of its own what changes in a workspace, and connects again when that ends.

    `ring` is called whenever a sync is worth its request: after connecting, since what came before was not
    heard; for a change of which `known` does not say that it is this home's own; and when the token no
    longer counts, which a sync then says.
    """

    def __init__(
        self, connect: Callable[[], HubClient], ring: Callable[[], None], known: Callable[[str, int], bool]
    ) -> None:
        self._connect, self._ring, self._known = connect, ring, known
        self.hears = False  # whether the hub tells by itself now
        self._stop = threading.Event()
        self._client: HubClient | None = None
        self._thread = threading.Thread(target=self._run, name="hub events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no longer."""
        self._stop.set()
        if self._client is not None:
            self._client.interrupt()
        self._thread.join(1)

    def _run(self) -> None:
        failed = 0
        while not self._stop.is_set():
            begun, asked = time.monotonic(), 0.0
            try:
                self._client = self._connect()
                asked = self._hear(self._client)
            except (OSError, http.client.HTTPException, VadeError):
                pass  # the sync that runs meanwhile says what is wrong
            finally:
                self.hears = False
                if self._client is not None:
                    self._client.close()
            failed = 0 if time.monotonic() - begun > _STEADY else failed + 1
            self._stop.wait(reconnect_after(failed, asked, random.random()))

    def _hear(self, client: HubClient) -> float:
        """Listen until the stream ends; how many seconds the hub wants to be left alone then."""
        answer = client.open("GET", "/v1/events")
        if answer.status == 401:
            self._ring()
        if answer.status in (429, 503):
            return retry_after(answer)
        if answer.status != 200 or answer.headers.get_content_type() != "text/event-stream":
            return _NO_EVENTS
        while not self._stop.is_set() and (line := answer.readline(_LONGEST_LINE)):
            self._take(line)
        return 0.0

    def _take(self, line: bytes) -> None:
        name, _, value = line.strip().partition(b": ")
        if name == b"event" and value == b"hello":
            self.hears = True
            self._ring()
        elif name == b"data" and self._is_news(value):
            self._ring()

    def _is_news(self, value: bytes) -> bool:
        """Whether this tells of a change that this home does not know."""
        try:
            told = json.loads(value)
            return bool(told) and not self._known(str(told["stream"]), int(told["head"]))
        except (ValueError, TypeError, KeyError):
            return True  # what a later version tells


def reconnect_after(failed: int, asked: float, chance: float) -> float:
    """Seconds to wait: longer each time, never less than asked for, and not the same for everybody."""
    grown = min(_SLOWEST, _FIRST * float(1 << min(max(failed - 1, 0), 10)))
    return asked + grown * (0.5 + chance / 2)


def last_read(folder: DiskFolder, stream: str) -> int:
    """How far a stream was read, as it is known without a sync."""
    try:
        return int(json.loads(folder.read(f"{_file(stream)}.json") or b"{}").get("seq", 0))
    except (ValueError, TypeError, AttributeError):
        return 0


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
        self.standing: dict[str, Any] = {}  # role, scopes and the workspace's rules, as the hub has them
        self._cursors: dict[str, Cursor] = {}
        self._hashes: dict[str, dict[Dot, str]] = {}  # of what the log had when the hub's were compared
        self._lost: set[str] = set()  # streams of which the hub has forgotten something

    def acknowledge(self, stream: str, purges: Iterable[str], replica: str) -> set[str]:
        """Tell the hub that these purges were carried out here; returned are those that it knows."""
        stamps, done = {str(dot): stamp for dot, stamp in self._stamps(stream).items()}, set()
        for dot in sorted(each for each in purges if each in stamps):
            body = json.dumps({"seq": stamps[dot]["seq"], "replica": replica}).encode()
            try:
                self._client.ask("POST", f"/v1/streams/{quote(stream)}/purge/ack", body)
            except HubRefused as error:
                if error.status not in (404, 422):  # a restored database does not know it yet,
                    raise
                done |= {dot} if error.status == 422 else set()  # and of two with one token one is counted
            else:
                done.add(dot)
        return done

    def begin(self, *, anew: bool = False) -> list[str]:
        """Ask which streams the hub has; when nothing is new, this is the only request of a sync."""
        kept = {} if anew else self._read_json(_LISTED)
        etag = str(kept.get("etag") or "")
        reply = self._client.ask("GET", "/v1/streams", headers={"If-None-Match": etag} if etag else {})
        if reply.status != 304:
            told = reply.json()
            kept = {"etag": reply.tag, "streams": told["streams"], "standing": told.get("standing")}
            self._write_json(_LISTED, kept)
        self._listed = {each["stream"]: each for each in kept["streams"]}
        standing = kept.get("standing")
        self.standing = standing if isinstance(standing, dict) else {}
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
            if stream in self._listed and self._is_current(stream, cursor):
                break  # as far as the hub had anything when this sync began: no request to hear of nothing
        self._check_end(stream, cursor)
        self._cursors[stream] = cursor

    def push(self, stream: str, facts: Sequence[SyncFact]) -> None:
        """Send what the hub lacks of these; after a rewind, what it lacks of anybody's."""
        cursor = self._cursor(stream)
        self._save(stream, cursor)  # by now the log has everything that was pulled
        if stream in self._lost:
            self._relay(stream)
            return
        for batch, lines in _batches(self.unsent(stream, facts)):
            try:
                self._send(stream, batch, lines)
            except HubRefused as error:
                if error.code not in ("gap", "rewound", "unknown", "lamport"):
                    raise
                self._recover(stream, error)
                return

    def unsent(self, stream: str, facts: Iterable[SyncFact]) -> list[SyncFact]:
        """Those that the hub is not known to have."""
        return facts_since(facts, self._cursor(stream).seen)

    # ------------------------------------------------------------------------------- one step each

    def _check_same(self, stream: str, fact: SyncFact) -> None:
        """Whether the hub's fact is the one that is known by that name."""
        if stream not in self._hashes:
            self._hashes[stream] = {each.dot: each.hash for each in self._logged(stream)}
        if self._hashes[stream].get(fact.dot, fact.hash) != fact.hash:
            raise Forked(f"there is another fact {fact.dot}: this home was copied or rolled back")

    def _check_end(self, stream: str, cursor: Cursor) -> None:
        """Whether the hub gave as much as it said that it has."""
        listed = self._listed.get(stream, {})
        if listed.get("epoch") == cursor.epoch and cursor.seq < listed["head"]:
            raise Malformed(
                f"somebody altered the hub's database: change {cursor.seq + 1} of {stream} is missing",
                hint=_ALTERED,
            )

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
        for batch, lines in _batches(missing):
            self._send(stream, batch, lines, [stamps.get(each.dot) for each in batch])
        self._lost.discard(stream)

    def _send(
        self,
        stream: str,
        batch: Sequence[SyncFact],
        lines: Sequence[bytes],
        stamps: Sequence[dict[str, Any] | None] = (),
    ) -> None:
        cursor = self._cursor(stream)
        head: dict[str, Any] = {"epoch": cursor.epoch, "replica": batch[0].replica}
        if any(stamps):
            head["stamps"] = list(stamps)
        body = b"\n".join([json.dumps(head).encode(), *lines])
        try:
            told = self._client.ask("POST", f"/v1/streams/{quote(stream)}/facts", body).json()
        except HubRefused as error:
            if type(n := error.told.get("n")) is int and error.status in (403, 422, 507):
                error.dot = Dot(batch[0].replica, n)
                before = [each for each in batch if each.n < n]  # these it does take
                if not all(map(is_withdrawn, before)):
                    self._send(stream, before, lines[: len(before)], stamps[: len(before)])
            raise
        self._keep_stamps(stream, zip(batch, told["stamps"], strict=True))
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
        told = [json.dumps({"dot": str(fact.dot), **stamp}).encode() for fact, stamp in lines]
        if told:  # on disk before any file shows whose text it is
            with self._log_folder(stream) as folder:
                folder.append_line(STAMPS, b"\n".join(told))

    def _stamps(self, stream: str) -> dict[Dot, dict[str, Any]]:
        """The newest stamp of each fact."""
        with self._log_folder(stream) as folder:
            return read_stamp_lines(folder)

    def authors(self, stream: str) -> dict[Dot, tuple[str, str]]:
        """Who made each fact, and in which role, as the hub says."""
        return {dot: (stamp["author"], stamp["role"]) for dot, stamp in self._stamps(stream).items()}

    def _log_folder(self, stream: str) -> DiskFolder:
        return self._folder.enter(LOGS, quote(stream, safe=""), create=True)

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
        raise Malformed(
            f"somebody altered the hub's database: change {cursor.seq + 1} of {fact.stream} is another one",
            hint=_ALTERED,
        )
    seen = {**cursor.seen, fact.replica: max(fact.n, cursor.seen.get(fact.replica, 0))}
    return Cursor(cursor.epoch, cursor.seq + 1, chain, seen)


def _batches(given: Sequence[SyncFact]) -> Iterator[tuple[list[SyncFact], list[bytes]]]:
    """Facts in parts that one push takes, each of one replica, with their lines."""
    batch: list[SyncFact] = []
    lines: list[bytes] = []
    size = 0
    for fact in given:
        line = fact_rules.render(fact)
        if batch and (
            len(batch) >= MOST_FACTS or size + len(line) > LARGEST_PUSH or batch[-1].replica != fact.replica
        ):
            yield batch, lines
            batch, lines, size = [], [], 0
        batch.append(fact)
        lines.append(line)
        size += len(line)
    if batch:
        yield batch, lines
