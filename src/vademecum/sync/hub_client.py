"""The client of a hub: requests, server-sent events, and the transport of streams.

The state of a stream (a cursor and the hub's stamps) is stored beside the token. If it is lost, everything is
read again, and known facts stay as they are. A cursor is saved only after the facts before it: `push` is
called when the facts from `pull` are in the log.
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
from vademecum.sync.facts import LARGEST_LINE, MOST_FACTS, FactId, is_withdrawn
from vademecum.sync.stream_sync import Forked
from vademecum.sync.stream_window import facts_since
from vademecum.sync.team_signing import STAMPS, read_stamp_lines

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from vademecum.store import DiskFolder
    from vademecum.sync.facts import SyncFact

PROTOCOL = "1"
LARGEST_PUSH = LARGEST_LINE * 3 // 4  # bytes that are sent at once; a larger fact is sent alone
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_ANSWER = 64 << 20  # bytes of an answer; a pull has at most 4 MiB and the rest of one fact
_TRIES, _PAUSE = 3, 0.2  # tries of a connection, and seconds between them
_LISTED = "streams.json"
_NO_TLS = ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE", "HTTP_REQUEST", "HTTPS_PROXY_REQUEST")
_FIRST, _SLOWEST = 1.0, 60.0  # seconds before reconnecting: at first, and at most
_STEADY = 30.0  # seconds after which a connection counts as successful
_NO_EVENTS = 600.0  # seconds before asking a hub without events again
_LONGEST_LINE = 1 << 16
_ALTERED = "tell whoever runs the hub; nothing of it was taken, and your memory works on"


class HubUnreachable(VadeError):
    """The hub could not be reached. Unsent changes wait, and local memory works without the hub."""

    hint = "nothing is lost: try again later"


class HubRefused(VadeError):
    """The hub answered a request with a refusal."""

    hint = "nothing is lost, and what was not sent waits here"

    def __init__(self, status: int, error: Mapping[str, Any]) -> None:
        super().__init__(f"the hub says: {error.get('message') or f'status {status}'}")
        self.status, self.code, self.told = status, str(error.get("code") or ""), error
        if self.code == "code":
            self.hint = "`vade hub invite` on a machine that has joined shows a new one"
        self.id: FactId | None = None  # the refused fact, if the hub named one


class Reply(NamedTuple):
    """An answer of the hub to a request."""

    status: int
    tag: str
    body: bytes

    def json(self) -> Any:
        """Return the body of the answer as JSON data."""
        try:
            return json.loads(self.body)
        except ValueError as error:
            raise Malformed("the hub's answer is not JSON", hint="check the hub's address") from error


def check_address(url: str) -> str:
    """Return a hub's address if it is allowed: https, or http for a hub on this machine."""
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
    """A client that sends requests to a hub over one connection, and repeats failed requests."""

    def __init__(self, url: str, token: str = "", *, seconds: float = 30, patience: float = 60) -> None:
        self._parts = urlsplit(check_address(url))
        self._token, self._seconds, self._patience = token, seconds, patience
        self._connection: http.client.HTTPConnection | None = None
        self.requests = 0

    def ask(
        self, method: str, path: str, body: bytes | None = None, *, headers: Mapping[str, str] | None = None
    ) -> Reply:
        """Send a request and return the answer.

        If the connection fails, try a few times. While the hub is busy, repeat the request as long as the
        client's patience allows. Raise HubUnreachable or HubRefused if there is no other answer.
        """
        until = time.monotonic() + self._patience
        failed = 0
        while True:
            try:
                reply, wait = self._send(method, path, body, headers or {})
            except (OSError, http.client.HTTPException) as error:
                self.close()
                failed += 1
                if isinstance(error, ssl.SSLCertVerificationError) or failed >= _TRIES:
                    raise HubUnreachable(f"the hub cannot be reached: {_describe_error(error)}") from error
                time.sleep(_PAUSE * failed)
                continue
            if reply.status in (429, 503) and time.monotonic() + wait < until:
                time.sleep(wait)
                continue
            if reply.status >= 400:
                raise HubRefused(reply.status, _read_error(reply))
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
        """Send a request without repeating it, and return the answer before its body is read."""
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
        """Shut the connection down, so that a read that waits in another thread ends."""
        connection = self._connection
        if connection is not None and connection.sock is not None:
            with suppress(OSError):
                connection.sock.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        """Close the connection to the hub."""
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def retry_after(answer: http.client.HTTPResponse) -> float:
    """Return the seconds that the answer's `Retry-After` asks to wait; 1 without a whole number."""
    after = answer.headers.get("Retry-After", "1")
    return float(after) if after.isdecimal() else 1.0


def _read_error(reply: Reply) -> Mapping[str, Any]:
    try:
        error = json.loads(reply.body)["error"]
    except (ValueError, KeyError, TypeError):
        return {}
    return error if isinstance(error, dict) else {}


def _describe_error(error: Exception) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError) and error.reason in _NO_TLS:
        return "what answers there does not speak TLS"
    return getattr(error, "strerror", None) or str(error) or type(error).__name__


# ------------------------------------------------------------------------------- events


class HubEvents:
    """A thread that receives the changes of a workspace, and reconnects when the connection ends.

    It calls `ring` when a sync is needed: after connecting, for a change that is not `known`, and when the
    token is no longer valid, so that the sync reports the invalid token.
    """

    def __init__(
        self, connect: Callable[[], HubClient], ring: Callable[[], None], known: Callable[[str, int], bool]
    ) -> None:
        self._connect, self._ring, self._known = connect, ring, known
        self.hears = False  # whether events arrive now
        self._stop = threading.Event()
        self._client: HubClient | None = None
        self._thread = threading.Thread(target=self._run, name="hub events", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop listening, and wait for the thread to end, one second at most."""
        self._stop.set()
        if self._client is not None:
            self._client.interrupt()
        self._thread.join(1)

    def _run(self) -> None:
        failed = 0
        while not self._stop.is_set():
            begun, wait = time.monotonic(), 0.0
            try:
                self._client = self._connect()
                wait = self._read_events(self._client)
            except (OSError, http.client.HTTPException, VadeError):
                pass  # the next sync reports the error
            finally:
                self.hears = False
                if self._client is not None:
                    self._client.close()
            failed = 0 if time.monotonic() - begun > _STEADY else failed + 1
            self._stop.wait(reconnect_after(failed, wait, random.random()))

    def _read_events(self, client: HubClient) -> float:
        """Read events until the connection ends; return the seconds to wait before reconnecting."""
        answer = client.open("GET", "/v1/events")
        if answer.status == 401:
            self._ring()
        if answer.status in (429, 503):
            return retry_after(answer)
        if answer.status != 200 or answer.headers.get_content_type() != "text/event-stream":
            return _NO_EVENTS
        while not self._stop.is_set() and (line := answer.readline(_LONGEST_LINE)):
            self._read_line_of_event(line)
        return 0.0

    def _read_line_of_event(self, line: bytes) -> None:
        name, _, value = line.strip().partition(b": ")
        if name == b"event" and value == b"hello":
            self.hears = True
            self._ring()
        elif name == b"data" and self._is_unknown_change(value):
            self._ring()

    def _is_unknown_change(self, value: bytes) -> bool:
        """Return whether an event announces a change that is not known here; True for an unreadable event."""
        try:
            change = json.loads(value)
            return bool(change) and not self._known(str(change["stream"]), int(change["head"]))
        except (ValueError, TypeError, KeyError):
            return True  # an event of a later version


def reconnect_after(failed: int, wait: float, chance: float) -> float:
    """Return the seconds to wait before connecting again, with exponential backoff and jitter.

    `failed` is the number of failures in a row, and `chance` a random number from 0 to 1. The seconds of
    `wait`, for which the hub asked, are added.
    """
    grown = min(_SLOWEST, _FIRST * float(1 << min(max(failed - 1, 0), 10)))
    return wait + grown * (0.5 + chance / 2)


def last_read(folder: DiskFolder, stream: str) -> int:
    """Return the position in a stream up to which this home has read, as saved; 0 if unknown."""
    try:
        return int(json.loads(folder.read(f"{_base_name(stream)}.json") or b"{}").get("seq", 0))
    except (ValueError, TypeError, AttributeError):
        return 0


# ------------------------------------------------------------------------------- transport


@dataclass(frozen=True, slots=True)
class Cursor:
    """The position up to which a stream was read, and how many facts of each replica the hub has."""

    epoch: int = 1
    seq: int = 0
    chain: str = "0" * 64
    seen: dict[str, int] = field(default_factory=dict)


class Remote:
    """A hub as a transport: `begin` is called once for a sync, then `pull` and `push` for each stream."""

    def __init__(
        self, client: HubClient, folder: DiskFolder, logged: Callable[[str], Iterable[SyncFact]]
    ) -> None:
        self._client, self._folder, self._logged = client, folder, logged
        self._listed: dict[str, dict[str, Any]] = {}
        self.standing: dict[str, Any] = {}  # role, scopes and rules at the hub
        self.key: dict[str, Any] | None = None  # check and generation of the workspace's key at the hub
        self.check = ""  # of the key with which the facts to send are sealed
        self._cursors: dict[str, Cursor] = {}
        self._hashes: dict[
            str, dict[FactId, str]
        ] = {}  # hashes of the facts in the log, to compare with the hub's
        self._lost: set[str] = set()  # streams of which the hub has lost facts

    def acknowledge(self, stream: str, purges: Iterable[str], replica: str) -> set[str]:
        """Tell the hub that this machine has carried out purges.

        Return the ids of the purges that need no further acknowledgement.
        """
        stamps, done = {str(fact_id): stamp for fact_id, stamp in self._stamps(stream).items()}, set()
        for fact_id in sorted(each for each in purges if each in stamps):
            body = json.dumps({"seq": stamps[fact_id]["seq"], "replica": replica}).encode()
            try:
                self._client.ask("POST", f"/v1/streams/{quote(stream)}/purge/ack", body)
            except HubRefused as error:
                # 404: a restored database does not know the purge yet. 422: another machine has acknowledged
                # with the same token, and a token counts for one machine.
                if error.status not in (404, 422):
                    raise
                done |= {fact_id} if error.status == 422 else set()
            else:
                done.add(fact_id)
        return done

    def begin(self, *, anew: bool = False) -> list[str]:
        """Read the list of the hub's streams and return their names, sorted.

        If nothing is new, this is the only request of a sync. With `anew`, the list is read even if it is
        unchanged.
        """
        listing = {} if anew else self._read_json(_LISTED)
        etag = str(listing.get("etag") or "")
        reply = self._client.ask("GET", "/v1/streams", headers={"If-None-Match": etag} if etag else {})
        if reply.status != 304:
            answer = reply.json()
            listing = {
                "etag": reply.tag,
                **{name: answer.get(name) for name in ("streams", "standing", "key")},
            }
            self._write_json(_LISTED, listing)
        self._listed = {each["stream"]: each for each in listing["streams"]}
        standing = listing.get("standing")
        self.standing = standing if isinstance(standing, dict) else {}
        key = listing.get("key")
        self.key = key if isinstance(key, dict) else None
        return sorted(self._listed)

    def pull(self, stream: str, known: Mapping[str, int]) -> Iterator[SyncFact]:
        """Yield each replica's facts after its first `known` facts, in the hub's order.

        Raise Forked if a known fact is different at the hub, and Malformed if the hub's facts were altered.
        """
        if stream not in self._listed:
            if self._cursor(stream).seq:  # the database was restored from before the stream
                self._cursors[stream] = Cursor()
                self._lost.add(stream)
            return
        cursor, have = self._cursor(stream), dict(known)
        self._hashes.pop(stream, None)
        if any(known.get(replica, 0) < n for replica, n in cursor.seen.items()):
            cursor = Cursor(epoch=cursor.epoch)  # the log lacks facts that were read: read all again
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
                cursor = _advance(cursor, fact, stamp)
                if fact.n > have.get(fact.replica, 0):
                    have[fact.replica] = fact.n
                    yield fact
                else:
                    self._check_same(stream, fact)
            self._keep_stamps(stream, lines)
            if stream in self._listed and self._is_current(stream, cursor):
                break  # the end as of the list of streams: no need for another request
        self._check_end(stream, cursor)
        self._cursors[stream] = cursor

    def push(self, stream: str, facts: Sequence[SyncFact]) -> None:
        """Send the facts that the hub lacks; if the hub has lost facts, also those of other replicas."""
        cursor = self._cursor(stream)
        self._save_cursor(stream, cursor)  # the log has all pulled facts now
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
        """Return those facts that the hub may not have yet."""
        return facts_since(facts, self._cursor(stream).seen)

    def send_seals(self, stream: str, facts: Sequence[SyncFact]) -> None:
        """Replace the seals of facts that the hub has already; other facts are left out."""
        seals = [[fact.replica, fact.n, fact.seal] for fact in facts]
        for first in range(0, len(seals), MOST_FACTS):
            body = json.dumps({"seals": seals[first : first + MOST_FACTS]}).encode()
            self._client.ask("POST", f"/v1/streams/{quote(stream)}/seals", body)

    # ------------------------------------------------------------------------------- steps

    def _check_same(self, stream: str, fact: SyncFact) -> None:
        """Raise Forked if the hub's fact differs from the fact with the same id in this home's log."""
        if stream not in self._hashes:
            self._hashes[stream] = {each.id: each.hash for each in self._logged(stream)}
        if self._hashes[stream].get(fact.id, fact.hash) != fact.hash:
            raise Forked(f"there is another fact {fact.id}: this home was copied or rolled back")

    def _check_end(self, stream: str, cursor: Cursor) -> None:
        """Raise Malformed if the hub sent fewer facts of a stream than its list of streams says."""
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
        """Return the next facts after the cursor with their stamps; None for a cursor unknown to the hub."""
        query = f"epoch={cursor.epoch}&after={cursor.seq}&chain={cursor.chain}&limit={MOST_FACTS}"
        try:
            reply = self._client.ask("GET", f"/v1/streams/{quote(stream)}/facts?{query}")
        except HubRefused as error:
            if error.code == "rewound":
                return None
            raise
        return [_read_line(line) for line in reply.body.splitlines()]

    def _rewind(self, stream: str) -> Cursor:
        """Prove to the hub that it has lost facts, and return a cursor at the beginning of the stream.

        Without a stamp as proof, only read the list of streams again.
        """
        known = {each.id: each for each in self._logged(stream)}
        stamps = self._stamps(stream)
        proven = [fact_id for fact_id in stamps if fact_id in known]
        if proven:
            last = max(proven, key=lambda fact_id: (stamps[fact_id]["epoch"], stamps[fact_id]["seq"]))
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
        """After a refused push, read all facts of a stream again, then send all facts that the hub lacks."""
        self._lost.add(stream)
        cursor = self._rewind(stream) if error.code == "rewound" else Cursor(self._cursor(stream).epoch)
        while lines := self._read(stream, cursor):
            for fact, stamp in lines:
                cursor = _advance(cursor, fact, stamp)
            self._keep_stamps(stream, lines)
        self._cursors[stream] = replace(self._cursor(stream), epoch=cursor.epoch, seen=cursor.seen)
        self._relay(stream)

    def _relay(self, stream: str) -> None:
        """Send all facts that the hub lacks, of all replicas.

        The stamps of the facts, where known, prove who wrote them.
        """
        seen, stamps = self._cursor(stream).seen, self._stamps(stream)
        missing = sorted(
            (each for each in self._logged(stream) if each.n > seen.get(each.replica, 0)),
            key=lambda fact: fact.order,
        )
        for batch, lines in _batches(missing):
            self._send(stream, batch, lines, [stamps.get(each.id) for each in batch])
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
        if self.check:
            head["key"] = self.check
        if any(stamps):
            head["stamps"] = list(stamps)
        body = b"\n".join([json.dumps(head).encode(), *lines])
        try:
            answer = self._client.ask("POST", f"/v1/streams/{quote(stream)}/facts", body).json()
        except HubRefused as error:
            if type(n := error.told.get("n")) is int and error.status in (403, 422, 507):
                error.id = FactId(batch[0].replica, n)
                before = [each for each in batch if each.n < n]  # the hub accepts these
                if not all(map(is_withdrawn, before)):
                    self._send(stream, before, lines[: len(before)], stamps[: len(before)])
            raise
        self._keep_stamps(stream, zip(batch, answer["stamps"], strict=True))
        seen = {**cursor.seen, batch[0].replica: batch[-1].n}
        if answer["stamps"][0]["seq"] == cursor.seq + 1 and answer["head"] == answer["stamps"][-1]["seq"]:
            # No fact of another replica came in between.
            cursor = replace(cursor, seq=answer["head"], chain=answer["chain"])
        self._save_cursor(stream, replace(cursor, seen=seen))

    # ------------------------------------------------------------------------------- on disk

    def _cursor(self, stream: str) -> Cursor:
        if stream not in self._cursors:
            values = self._read_json(f"{_base_name(stream)}.json")
            try:
                self._cursors[stream] = Cursor(**values)
            except TypeError:  # of another version: read all again
                self._cursors[stream] = Cursor()
        return self._cursors[stream]

    def _save_cursor(self, stream: str, cursor: Cursor) -> None:
        self._cursors[stream] = cursor
        self._write_json(f"{_base_name(stream)}.json", asdict(cursor))

    def _keep_stamps(self, stream: str, lines: Iterable[tuple[SyncFact, dict[str, Any]]]) -> None:
        """Append the hub's stamps of facts to the stream's file of stamps."""
        stamp_lines = [json.dumps({"dot": str(fact.id), **stamp}).encode() for fact, stamp in lines]
        if stamp_lines:  # on disk before any file names the authors
            with self._log_folder(stream) as folder:
                folder.append_line(STAMPS, b"\n".join(stamp_lines))

    def _stamps(self, stream: str) -> dict[FactId, dict[str, Any]]:
        """Return the newest stamp of each fact of a stream."""
        with self._log_folder(stream) as folder:
            return read_stamp_lines(folder)

    def authors(self, stream: str) -> dict[FactId, tuple[str, str]]:
        """Return the author and role of each fact of a stream, as the hub stamped it."""
        return {fact_id: (stamp["author"], stamp["role"]) for fact_id, stamp in self._stamps(stream).items()}

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


def _base_name(stream: str) -> str:
    """Return the name for a stream's state file, without its ending.

    It has a hash, since a stream's name may have a slash, or differ from others by letter case alone.
    """
    return f"{stream.partition('/')[0]}-{hashlib.sha256(stream.encode()).hexdigest()[:16]}"


def _read_line(line: bytes) -> tuple[SyncFact, dict[str, Any]]:
    cut = line.rfind(b',"stamp":{')
    try:
        stamp = json.loads(line[cut + 9 : -1])
    except ValueError as error:
        raise Malformed("a line of the hub has no fact and stamp", hint="check its version") from error
    return fact_rules.parse(line[8:cut]), stamp


def _advance(cursor: Cursor, fact: SyncFact, stamp: Mapping[str, Any]) -> Cursor:
    """Return the cursor after reading one more fact; raise Malformed if the hub's hash chain is broken."""
    chain = hashlib.sha256(bytes.fromhex(cursor.chain) + bytes.fromhex(fact.hash)).hexdigest()
    if stamp.get("chain") != chain or stamp.get("seq") != cursor.seq + 1:
        raise Malformed(
            f"somebody altered the hub's database: change {cursor.seq + 1} of {fact.stream} is another one",
            hint=_ALTERED,
        )
    seen = {**cursor.seen, fact.replica: max(fact.n, cursor.seen.get(fact.replica, 0))}
    return Cursor(cursor.epoch, cursor.seq + 1, chain, seen)


def _batches(given: Sequence[SyncFact]) -> Iterator[tuple[list[SyncFact], list[bytes]]]:
    """Yield the facts in batches that fit one push, each of a single replica, with their rendered lines."""
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
