"""Serving one client over standard input and output: answering each request once, and leaving with it.

Only JSON-RPC goes to standard output: while serving, whatever else is printed goes to standard error. The
greeting and the lists are answered from what was prepared; memory is imported after that, in the thread in
which all calls on it are made, one after the other. So nothing heavy may be imported here.
"""

from __future__ import annotations

import itertools
import json
import math
import os
import re
import select
import signal
import sys
import threading
import time
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from vademecum.interfaces.mcp import protocol
from vademecum.interfaces.mcp.protocol import Peer, RpcError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from typing import NoReturn

    from vademecum.interfaces.mcp.server import Call

PATIENCE = 1.2  # seconds for what was asked, once the client has nothing more to say
GRACE = 1.5  # and for everything, once it is gone
BACKLOG = 30.0  # and while what it wrote is not even read
TO_ANSWER = 600.0  # seconds that a person has to answer a question
_LOOK = 0.25  # seconds between two looks at the parent
_FIRST = 0.15  # seconds that the import of memory waits for the list of tools to be asked for
_LATER = 1.0  # seconds that retention leaves to the first calls
_GREETING = ("initialize", "server/discover", "ping")
_PIECE = 1 << 16


def serve(options: Mapping[str, Any], *, tools: str) -> NoReturn:
    """Serve until the client closes its end; the process ends with it."""
    front = StdioServer(Pipes(), options, tools)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, front.stop)
    leave_with_the_client(front.wire.source, front.loaded)
    for line in front.wire.lines():
        front.take(line)
    front.leave()


# ---------------------------------------------------------------- bytes


class Pipes:
    """The two pipes, taken away from everybody else in this process."""

    def __init__(self) -> None:
        self.source, self._target = os.dup(0), os.dup(1)
        nothing = os.open(os.devnull, os.O_RDWR)
        os.dup2(nothing, 0)
        try:
            os.dup2(2, 1)
        except OSError:
            os.dup2(nothing, 1)
        os.close(nothing)
        self._turn = threading.Lock()
        self.unheard: Callable[[], None] = lambda: None  # what to do once nobody reads

    def lines(self) -> Iterator[bytes]:
        """What the client says, line by line, however long they are."""
        begun = bytearray()
        while piece := self._read():
            begun += piece
            if b"\n" in piece:
                *whole, rest = begun.split(b"\n")
                begun = rest
                yield from map(bytes, whole)
        yield bytes(begun)

    def _read(self) -> bytes:
        try:
            return os.read(self.source, _PIECE)
        except OSError:
            return b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Write one message; to a client that reads no more nothing is said."""
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
        left = memoryview(text.encode("utf-8", "replace") + b"\n")
        with self._turn:
            try:
                while left:
                    left = left[os.write(self._target, left) :]
            except OSError:
                self.unheard()


_ESCAPED = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]')  # an open string takes all the rest
_ID = re.compile(r'\s*:\s*(-?\d{1,18}(?![\d.eE])|"[^"\\]*(?:\\.[^"\\]*)*")')


def parse(line: bytes) -> Any:
    """What a line says; half a character, which models send when they cut an emoji, becomes a mark for one.

    Raises RpcError with the id of the request for what is JSON and still cannot be read.
    """
    text = line.decode("utf-8", "replace")
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPED.sub(lambda found: "\\ufffd" if found[1] else found[0], text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise Unreadable(None, protocol.PARSE_ERROR, "Parse error") from error
    except (RecursionError, ValueError) as error:  # nested too deep, or a number of thousands of digits
        why = "Invalid request: nested too deep, or a number too long"
        raise Unreadable(_id_in(text), protocol.INVALID_REQUEST, why) from error


class Unreadable(RpcError):
    """A line that is no message, and the id that its sender waits for as far as it can be seen."""

    def __init__(self, id: Any, code: int, message: str) -> None:
        super().__init__(code, message)
        self.id = id


def _id_in(text: str) -> Any:
    """The id of a request that cannot be read whole, found without reading it whole."""
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if depth == 1 and token[0] == '"id"' and (found := _ID.match(text, token.end())):
            return json.loads(found[1])
    return None


# ---------------------------------------------------------------- messages


class Pending:
    """One request, from its line to its one answer."""

    __slots__ = ("call", "id", "method", "params", "peer", "question", "settled")

    def __init__(self, id: Any, method: str, params: dict[str, Any] | None) -> None:
        self.id, self.method, self.params = id, method, params
        self.peer = Peer("")
        self.call: Call | None = None
        self.question: int | None = None  # that its client was asked and has not answered
        self.settled = False  # answered, or cancelled


class StdioServer:
    """What one client has said, and what it is owed."""

    def __init__(self, wire: Pipes, options: Mapping[str, Any], tools: str) -> None:
        self.wire = wire
        wire.unheard = self.stop
        self._options = {**options, "session": options.get("session") or os.environ.get("VADE_SESSION")}
        self._family = tools
        home = protocol.home_of(options.get("home"))
        self._offer = protocol.read_offer(tools, str(options.get("client") or ""), home)
        self._peer: Peer | None = None  # who greeted, or asked last
        self._stateless: bool | None = None  # which of the two kinds of revision the first request chose
        self._due: dict[Any, Pending] = {}
        self._asked: dict[Any, Pending] = {}
        self._numbers = itertools.count(1)
        self._turn = threading.RLock()
        self._jobs: SimpleQueue[tuple[Pending, dict[str, Any] | None] | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self._wanted = threading.Event()  # memory is
        self.loaded = threading.Event()  # and it is there, or cannot be
        self._failed = False

    def take(self, line: bytes) -> None:
        """Take one line, which may hold several messages or none."""
        if not line.strip():
            return
        try:
            said = parse(line)
        except Unreadable as error:
            self.wire.send({"id": error.id, "error": error.told})
            return
        for each in said if isinstance(said, list) and said else [said]:
            self._take(each)

    def _take(self, message: Any) -> None:
        if not isinstance(message, dict):
            self._refuse(None, "Invalid request")
        elif "method" not in message and ("result" in message or "error" in message):
            self._heard(message)
        elif "id" not in message and isinstance(message.get("method"), str):
            self._notified(message["method"], message.get("params"))
        elif not _is_id(message.get("id")):
            self._refuse(None, "Invalid request: the id must be a text or a whole number")
        elif message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            self._refuse(message["id"], "Invalid request")
        else:
            self._request(Pending(message["id"], message["method"], message.get("params")))

    def _refuse(self, id: Any, why: str) -> None:
        self.wire.send({"id": id, "error": RpcError(protocol.INVALID_REQUEST, why).told})

    def _request(self, request: Pending) -> None:
        """Answer what needs no memory at once, and give the rest to the thread that has it."""
        with self._turn:
            self._due[_key(request.id)] = request
        try:
            if request.params is not None and not isinstance(request.params, dict):
                raise protocol.malformed()
            request.peer = self._admitted(request.method, request.params)
            ready = self._offer.answer(request.method, request.peer)
        except RpcError as error:
            self._settle(request, error)
            return
        if ready is not None:
            self._settle(request, ready)
        else:
            self._jobs.put((request, None))
            self._report(request, 0)
        self._prepare(wanted=request.method not in _GREETING)

    def _report(self, request: Pending, seconds: float) -> None:
        """Tell a client that asked for it, every two seconds, that its call is being worked on."""
        meta = (request.params or {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if not _is_id(token):
            return
        with self._turn:  # no word of it comes after the answer
            if request.settled:
                return
            if seconds:
                told = {"progressToken": token, "progress": seconds, "message": protocol.WORKING}
                self.wire.send({"method": "notifications/progress", "params": told})
        later = threading.Timer(protocol.PROGRESS, self._report, [request, seconds + protocol.PROGRESS])
        later.daemon = True
        later.start()

    def _admitted(self, method: str, params: dict[str, Any] | None) -> Peer:
        """Who sent a request; refuses what does not fit to the revision that this connection began with."""
        if self._stateless is None:
            self._stateless = method != "initialize" and protocol.has_envelope(params)
        if self._stateless:
            self._peer = _stateless(method, params)
            return self._peer
        if method != "initialize" and protocol.has_envelope(params):
            raise RpcError(
                protocol.INVALID_REQUEST,
                "this connection serves the handshake protocol era; "
                "requests carrying the 2026-07-28 envelope are not accepted on it",
            )
        protocol.check(method, params, stateless=False)
        if method == "initialize":
            self._peer = protocol.greeted(params or {})
        if self._peer is None and method != "ping":
            raise protocol.malformed()
        return self._peer or Peer(protocol.HANDSHAKE[-1])

    def _notified(self, method: str, params: Any) -> None:
        """What gets no answer; all that counts is that a client is ready, or no longer wants an answer."""
        if method == "notifications/initialized" and self._peer is None:
            self._peer = Peer(protocol.HANDSHAKE[-1])
        number = params.get("requestId") if isinstance(params, dict) else None
        if method != "notifications/cancelled" or not _is_id(number):
            return
        with self._turn:
            request = self._due.pop(_key(number), None)
            if request is None or request.settled:
                return
            request.settled = True
            question = request.question
            self._asked.pop(question, None)
        if question is not None:
            gone = {"requestId": question, "reason": "caller cancelled"}
            self.wire.send({"method": "notifications/cancelled", "params": gone})

    def _heard(self, message: dict[str, Any]) -> None:
        """The answer to a question of ours."""
        number = message.get("id")
        with self._turn:
            request = self._asked.pop(_key(number), None) if _is_id(number) else None
        if request is not None:
            request.question = None
            result = message.get("result")
            self._jobs.put((request, result if isinstance(result, dict) else None))

    def _settle(self, request: Pending, answer: dict[str, Any] | RpcError) -> None:
        """Answer a request, unless it is answered or was cancelled."""
        with self._turn:
            if request.settled:
                return
            request.settled = True
            if self._due.get(_key(request.id)) is request:
                del self._due[_key(request.id)]
        if isinstance(answer, RpcError):
            self.wire.send({"id": request.id, "error": answer.told})
        else:
            made = protocol.finished(request.method, answer, request.peer)
            self.wire.send({"id": request.id, "result": made})

    # ------------------------------------------------------------ memory

    def _prepare(self, *, wanted: bool) -> None:
        """Have memory imported soon, and now if it is wanted."""
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="memory", daemon=True)
            self._worker.start()
        if wanted:
            self._wanted.set()

    def _work(self) -> None:
        """Make every call on memory, one after the other."""
        self._wanted.wait(_FIRST)
        memory = None
        try:
            memory = _Memory(self._options, self._family)
            memory.open(self._peer)
        except Exception as error:  # who calls is told, and may try again once it is mended
            self._failed = True
            said = f"vade: {error}: {getattr(error, 'hint', '')}".rstrip(": ")
            print(" ".join(said.split()), file=sys.stderr, flush=True)
        self.loaded.set()
        while job := self._jobs.get():
            self._go_on(memory, *job)
        if memory is not None:
            memory.close()

    def _go_on(self, memory: _Memory | None, request: Pending, sent: dict[str, Any] | None) -> None:
        if request.settled:
            return
        try:
            if memory is None:
                raise RpcError(protocol.INTERNAL_ERROR, "Internal error: memory could not be loaded")
            done, made = memory.step(request, sent)
        except RpcError as error:
            self._settle(request, error)
        except Exception as error:
            said = f"Internal error: {type(error).__name__}"
            self._settle(request, RpcError(protocol.INTERNAL_ERROR, said))
        else:
            self._settle(request, made) if done else self._ask(request, made)

    def _ask(self, request: Pending, question: dict[str, Any]) -> None:
        """Put a question to the client; its answer, or none in time, brings the call back."""
        with self._turn:
            if request.settled:
                return
            request.question = number = next(self._numbers)
            self._asked[number] = request
        self.wire.send({"id": number, "method": "elicitation/create", "params": question})
        late = threading.Timer(TO_ANSWER, self._unanswered, [number])
        late.daemon = True
        late.start()

    def _unanswered(self, number: int) -> None:
        with self._turn:
            request = self._asked.pop(number, None)
        if request is not None:
            gone = {"requestId": number, "reason": f"timed out after {TO_ANSWER:g}s"}
            self.wire.send({"method": "notifications/cancelled", "params": gone})
            self._jobs.put((request, None))

    # ------------------------------------------------------------ leaving

    def stop(self, *_: object) -> None:
        """Leave because of a signal: beside the work, which may be in the middle of a line."""
        threading.Thread(target=self.leave, name="leave", daemon=True).start()

    def leave(self) -> NoReturn:
        """End the process once what was asked is answered, or after a while."""
        if self._stateless is None:  # nobody asked for anything: at least say whether it could be served
            self._prepare(wanted=True)
        if self._due or self._stateless is None:
            self.loaded.wait(BACKLOG)
        with self._turn:
            unheard = [*self._asked.values()]
            self._asked.clear()
        for request in unheard:  # nobody will answer: what it asks for waits for a person
            self._jobs.put((request, None))
        last = time.monotonic() + PATIENCE
        while self._due and time.monotonic() < last:
            time.sleep(0.01)
        with self._turn:
            left = [*self._due.values()]
        for request in left:
            self._settle(request, RpcError(protocol.CONNECTION_CLOSED, "Connection closed"))
        if self.loaded.is_set() and self._worker is not None:
            self._jobs.put(None)
            self._worker.join(max(0.2, last - time.monotonic()))
        os._exit(1 if self._failed else 0)  # at once: taking an interpreter down politely takes longer


def _stateless(method: str, params: dict[str, Any] | None) -> Peer:
    if method == "initialize":
        wanted = (params or {}).get("protocolVersion")
        asked = {"requested": wanted} if isinstance(wanted, str) else {}
        raise RpcError(
            protocol.UNSUPPORTED_VERSION,
            "connection is serving the 2026-07-28 protocol; the initialize handshake is not accepted",
            {"supported": list(protocol.STATELESS), **asked},
        )
    peer = protocol.opened(params)
    protocol.check(method, params, stateless=True)
    return peer


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _key(id: Any) -> Any:
    """An id as it is compared: some clients send a number back as a text."""
    return int(id) if isinstance(id, str) and re.fullmatch(r"-?\d{1,18}", id) else id


class _Memory:
    """What is imported after the greeting: the server, and the one connection there is."""

    def __init__(self, options: Mapping[str, Any], family: str) -> None:
        from vademecum.interfaces.mcp import server

        self._module = server
        self._server = server.MemoryServer(family)
        self._connections = server.Connections(options, own_session=True)
        self._sweeping = threading.Timer(_LATER, server.tidy, [options])
        self._sweeping.daemon = True

    def open(self, peer: Peer | None) -> None:
        """Open memory, so that the first call finds it open; what is due is put away a little later."""
        self._sweeping.start()
        connection = self._connections.of()
        connection.introduce(peer.client if peer else None)
        connection.memory()

    def step(self, request: Pending, sent: dict[str, Any] | None) -> tuple[bool, dict[str, Any]]:
        """Go on with a request: whether it is done, and its result or its question."""
        connection = self._connections.of()
        connection.introduce(request.peer.client)
        with connection.busy():
            if request.method != "tools/call":
                return True, self._server.read(request.method, request.params or {}, connection)
            if request.call is None:
                request.call = self._server.call_tool(request.params or {}, request.peer, connection)
            return self._module.step(request.call, sent)

    def close(self) -> None:
        """Let go of the index."""
        self._connections.close()


# ---------------------------------------------------------------- leaving with the client


def leave_with_the_client(wire: int, loaded: threading.Event) -> None:
    """End this process soon after the client closed its end or died, whatever is still running.

    The kernel's own signal at a parent's death is not used: it comes when the *thread* ends that started
    this process. What was being written is whole or was never begun, as after any kill.
    """
    parent = os.getppid()

    def watch() -> None:
        last = math.inf
        while (now := time.monotonic()) < last:
            if os.getppid() != parent:
                last = min(last, now + GRACE)
            elif _closed(wire):
                heard = _drained(wire) and loaded.is_set()
                last = min(last, now + (GRACE if heard else BACKLOG))
            if last < math.inf:
                time.sleep(0.05)
        os._exit(0)

    threading.Thread(target=watch, name="leave", daemon=True).start()


def _closed(wire: int) -> bool:
    """Whether the other end is closed; waits a little to see."""
    if not hasattr(select, "poll"):  # Windows: the end of the input and the look at the parent are enough
        time.sleep(_LOOK)
        return False
    looking = select.poll()
    looking.register(wire, 0)
    gone = select.POLLHUP | select.POLLERR | select.POLLNVAL
    return any(event & gone for _, event in looking.poll(_LOOK * 1000))


def _drained(wire: int) -> bool:
    """Whether all that was written is read."""
    try:
        import fcntl
        import struct
        import termios

        left = fcntl.ioctl(wire, termios.FIONREAD, b"\0\0\0\0")
        return not struct.unpack("i", left)[0]
    except (ImportError, OSError):
        return True
