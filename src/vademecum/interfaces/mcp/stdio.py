"""Serve MCP to one client over standard input and output, until the client ends.

Only JSON-RPC goes to standard output: while serving, all other output goes to standard error. The handshake
and the lists are answered from a prepared file. Memory is imported after that, in the thread that makes all
calls on memory, one after the other. So this module must import nothing heavy.
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

PATIENCE = 1.2  # seconds for open requests, once the client has closed its end
GRACE = 1.5  # and for everything, once the client is gone
BACKLOG = 30.0  # and while the client's messages are not even read
TO_ANSWER = 600.0  # seconds in which a person may answer a question
_POLL_SECONDS = 0.25  # seconds between two checks whether the parent process is alive
_FIRST = 0.15  # seconds that the import of memory waits for the list of tools to be requested
_LATER = 1.0  # seconds in which retention yields to the first calls
_GREETING = ("initialize", "server/discover", "ping")
_PIECE = 1 << 16


def serve(options: Mapping[str, Any], *, tools: str) -> NoReturn:
    """Serve until the client closes standard input or a signal arrives, then end the process."""
    front = StdioServer(Pipes(), options, tools)
    for each in (signal.SIGTERM, signal.SIGINT):
        signal.signal(each, front.stop)
    leave_with_the_client(front.wire.source, front.loaded)
    for line in front.wire.lines():
        front.handle_line(line)
    front.leave()


# ---------------------------------------------------------------- bytes


class Pipes:
    """Standard input and output, moved to other descriptors so that no other code can use them."""

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
        self.on_closed: Callable[[], None] = lambda: None  # called when the client no longer reads

    def lines(self) -> Iterator[bytes]:
        """Yield the lines that the client writes, however long they are."""
        buffer = bytearray()
        while piece := self._read():
            buffer += piece
            if b"\n" in piece:
                *whole, rest = buffer.split(b"\n")
                buffer = rest
                yield from map(bytes, whole)
        yield bytes(buffer)

    def _read(self) -> bytes:
        try:
            return os.read(self.source, _PIECE)
        except OSError:
            return b""

    def send(self, message: Mapping[str, Any]) -> None:
        """Write a message to the client; call `on_closed` if the client no longer reads."""
        text = json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False, separators=(",", ":"))
        left = memoryview(text.encode("utf-8", "replace") + b"\n")
        with self._turn:
            try:
                while left:
                    left = left[os.write(self._target, left) :]
            except OSError:
                self.on_closed()


_ESCAPED = re.compile(
    r"\\(?:u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(u[dD][89a-fA-F][0-9a-fA-F]{2})|.)"
)
# an unclosed string takes the rest of the text
_TOKENS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+(?:"|\\?\Z)|[{}\[\]]')
_ID = re.compile(r'\s*:\s*(-?\d{1,18}(?![\d.eE])|"[^"\\]*(?:\\.[^"\\]*)*")')


def parse(line: bytes) -> Any:
    """Return the JSON message in a line; raise UnreadableLine for a line that is not valid JSON.

    Half a surrogate pair, which models send when they cut an emoji, is replaced.
    """
    text = line.decode("utf-8", "replace")
    if "\\ud" in text or "\\uD" in text:
        text = _ESCAPED.sub(lambda found: "\\ufffd" if found[1] else found[0], text)
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        raise UnreadableLine(None, protocol.PARSE_ERROR, "Parse error") from error
    except (RecursionError, ValueError) as error:  # nested too deeply, or a number of thousands of digits
        why = "Invalid request: nested too deep, or a number too long"
        raise UnreadableLine(_id_in(text), protocol.INVALID_REQUEST, why) from error


class UnreadableLine(RpcError):
    """A line that has no readable message, with the id of its request if that can be found."""

    def __init__(self, id: Any, code: int, message: str) -> None:
        super().__init__(code, message)
        self.id = id


def _id_in(text: str) -> Any:
    """Return the id in the text of a request that cannot be parsed; None if no id is found."""
    depth = 0
    for token in _TOKENS.finditer(text):
        depth += (token[0] in "{[") - (token[0] in "}]")
        if depth == 1 and token[0] == '"id"' and (found := _ID.match(text, token.end())):
            return json.loads(found[1])
    return None


# ---------------------------------------------------------------- messages


class StdioRequest:
    """A request of the client, from the arrival of its line until its answer."""

    __slots__ = ("answered", "call", "id", "method", "params", "peer", "question")

    def __init__(self, id: Any, method: str, params: dict[str, Any] | None) -> None:
        self.id, self.method, self.params = id, method, params
        self.peer = Peer("")
        self.call: Call | None = None
        self.question: int | None = None  # the id of an open question to the client
        self.answered = False  # answered or cancelled


class StdioServer:
    """The server for one client: it reads the client's requests and answers them."""

    def __init__(self, wire: Pipes, options: Mapping[str, Any], tools: str) -> None:
        self.wire = wire
        wire.on_closed = self.stop
        self._options = {**options, "session": options.get("session") or os.environ.get("VADE_SESSION")}
        self._family = tools
        home = protocol.home_of(options.get("home"))
        self._offer = protocol.read_offer(tools, str(options.get("client") or ""), home)
        self._peer: Peer | None = None  # the client of the handshake, or of the last request
        self._stateless: bool | None = None  # which kind of revision the first request chose
        self._open_requests: dict[Any, StdioRequest] = {}
        self._open_questions: dict[Any, StdioRequest] = {}
        self._numbers = itertools.count(1)
        self._turn = threading.RLock()
        self._jobs: SimpleQueue[tuple[StdioRequest, dict[str, Any] | None] | None] = SimpleQueue()
        self._worker: threading.Thread | None = None
        self._wanted = threading.Event()  # set when memory is needed
        self.loaded = threading.Event()  # set when memory is loaded or has failed to load
        self._failed = False

    def handle_line(self, line: bytes) -> None:
        """Handle a line of the client, which may hold several messages or none."""
        if not line.strip():
            return
        try:
            parsed = parse(line)
        except UnreadableLine as error:
            self.wire.send({"id": error.id, "error": error.body})
            return
        for each in parsed if isinstance(parsed, list) and parsed else [parsed]:
            self._handle(each)

    def _handle(self, message: Any) -> None:
        if not isinstance(message, dict):
            self._refuse(None, "Invalid request")
        elif "method" not in message and ("result" in message or "error" in message):
            self._handle_answer(message)
        elif "id" not in message and isinstance(message.get("method"), str):
            self._handle_notification(message["method"], message.get("params"))
        elif not _is_id(message.get("id")):
            self._refuse(None, "Invalid request: the id must be a text or a whole number")
        elif message.get("jsonrpc") != "2.0" or not isinstance(message.get("method"), str):
            self._refuse(message["id"], "Invalid request")
        else:
            self._request(StdioRequest(message["id"], message["method"], message.get("params")))

    def _refuse(self, id: Any, why: str) -> None:
        self.wire.send({"id": id, "error": RpcError(protocol.INVALID_REQUEST, why).body})

    def _request(self, request: StdioRequest) -> None:
        """Answer a request at once if it needs no memory; queue any other request."""
        with self._turn:
            self._open_requests[_key(request.id)] = request
        try:
            if request.params is not None and not isinstance(request.params, dict):
                raise protocol.malformed()
            request.peer = self._check_request(request.method, request.params)
            ready = self._offer.answer(request.method, request.peer)
        except RpcError as error:
            self._finish(request, error)
            return
        if ready is not None:
            self._finish(request, ready)
        else:
            self._jobs.put((request, None))
            self._report(request, 0)
        self._prepare(wanted=request.method not in _GREETING)

    def _report(self, request: StdioRequest, seconds: float) -> None:
        """Send progress messages until a request is answered, if its client asked for them."""
        meta = (request.params or {}).get("_meta")
        token = meta.get("progressToken") if isinstance(meta, dict) else None
        if not _is_id(token):
            return
        with self._turn:  # no progress message may follow the answer
            if request.answered:
                return
            if seconds:
                progress = {"progressToken": token, "progress": seconds, "message": protocol.WORKING}
                self.wire.send({"method": "notifications/progress", "params": progress})
        later = threading.Timer(protocol.PROGRESS, self._report, [request, seconds + protocol.PROGRESS])
        later.daemon = True
        later.start()

    def _check_request(self, method: str, params: dict[str, Any] | None) -> Peer:
        """Return the client that sent a request.

        Raise RpcError if the request is stateless and the connection is not, or the other way round.
        """
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
            self._peer = protocol.peer_from_handshake(params or {})
        if self._peer is None and method != "ping":
            raise protocol.malformed()
        return self._peer or Peer(protocol.HANDSHAKE[-1])

    def _handle_notification(self, method: str, params: Any) -> None:
        """Handle a notification; only "initialized" and "cancelled" have an effect."""
        if method == "notifications/initialized" and self._peer is None:
            self._peer = Peer(protocol.HANDSHAKE[-1])
        number = params.get("requestId") if isinstance(params, dict) else None
        if method != "notifications/cancelled" or not _is_id(number):
            return
        with self._turn:
            request = self._open_requests.pop(_key(number), None)
            if request is None or request.answered:
                return
            request.answered = True
            question = request.question
            self._open_questions.pop(question, None)
        if question is not None:
            cancellation = {"requestId": question, "reason": "caller cancelled"}
            self.wire.send({"method": "notifications/cancelled", "params": cancellation})

    def _handle_answer(self, message: dict[str, Any]) -> None:
        """Continue a call with the client's answer to the server's question."""
        number = message.get("id")
        with self._turn:
            request = self._open_questions.pop(_key(number), None) if _is_id(number) else None
        if request is not None:
            request.question = None
            result = message.get("result")
            self._jobs.put((request, result if isinstance(result, dict) else None))

    def _finish(self, request: StdioRequest, answer: dict[str, Any] | RpcError) -> None:
        """Send the answer to a request, unless the request was answered or cancelled before."""
        with self._turn:
            if request.answered:
                return
            request.answered = True
            if self._open_requests.get(_key(request.id)) is request:
                del self._open_requests[_key(request.id)]
        if isinstance(answer, RpcError):
            self.wire.send({"id": request.id, "error": answer.body})
        else:
            made = protocol.with_revision_fields(request.method, answer, request.peer)
            self.wire.send({"id": request.id, "result": made})

    # ------------------------------------------------------------ memory

    def _prepare(self, *, wanted: bool) -> None:
        """Start the thread that imports memory; with `wanted`, it imports memory at once."""
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="memory", daemon=True)
            self._worker.start()
        if wanted:
            self._wanted.set()

    def _work(self) -> None:
        """Import memory, then run all calls on memory, one after the other, in this thread."""
        self._wanted.wait(_FIRST)
        from vademecum.lazy import defer_modules

        defer_modules("inspect", "copy", "ipaddress")
        memory = None
        try:
            memory = _Memory(self._options, self._family)
            memory.open(self._peer)
        except Exception as error:  # the caller gets an error, and may try again once it is fixed
            self._failed = True
            message = f"vade: {error}: {getattr(error, 'hint', '')}".rstrip(": ")
            print(" ".join(message.split()), file=sys.stderr, flush=True)
        self.loaded.set()
        while job := self._jobs.get():
            self._continue(memory, *job)
        if memory is not None:
            memory.close()

    def _continue(self, memory: _Memory | None, request: StdioRequest, sent: dict[str, Any] | None) -> None:
        if request.answered:
            return
        try:
            if memory is None:
                raise RpcError(protocol.INTERNAL_ERROR, "Internal error: memory could not be loaded")
            done, made = memory.step(request, sent)
        except RpcError as error:
            self._finish(request, error)
        except Exception as error:
            message = f"Internal error: {type(error).__name__}"
            self._finish(request, RpcError(protocol.INTERNAL_ERROR, message))
        else:
            self._finish(request, made) if done else self._ask(request, made)

    def _ask(self, request: StdioRequest, question: dict[str, Any]) -> None:
        """Send a question of a call to the client; its answer, or a timeout, continues the call."""
        with self._turn:
            if request.answered:
                return
            request.question = number = next(self._numbers)
            self._open_questions[number] = request
        self.wire.send({"id": number, "method": "elicitation/create", "params": question})
        late = threading.Timer(TO_ANSWER, self._question_timed_out, [number])
        late.daemon = True
        late.start()

    def _question_timed_out(self, number: int) -> None:
        with self._turn:
            request = self._open_questions.pop(number, None)
        if request is not None:
            cancellation = {"requestId": number, "reason": f"timed out after {TO_ANSWER:g}s"}
            self.wire.send({"method": "notifications/cancelled", "params": cancellation})
            self._jobs.put((request, None))

    # ------------------------------------------------------------ leaving

    def stop(self, *_: object) -> None:
        """End the process after a signal, from a new thread: this thread may be in the middle of a line."""
        threading.Thread(target=self.leave, name="leave", daemon=True).start()

    def leave(self) -> NoReturn:
        """End the process once open requests are answered, or after a time limit."""
        if self._stateless is None:  # without any request, at least report whether memory could be opened
            self._prepare(wanted=True)
        if self._open_requests or self._stateless is None:
            self.loaded.wait(BACKLOG)
        with self._turn:
            open_questions = [*self._open_questions.values()]
            self._open_questions.clear()
        for request in open_questions:  # nobody will answer, so the write is queued for a person
            self._jobs.put((request, None))
        last = time.monotonic() + PATIENCE
        while self._open_requests and time.monotonic() < last:
            time.sleep(0.01)
        with self._turn:
            left = [*self._open_requests.values()]
        for request in left:
            self._finish(request, RpcError(protocol.CONNECTION_CLOSED, "Connection closed"))
        if self.loaded.is_set() and self._worker is not None:
            self._jobs.put(None)
            self._worker.join(max(0.2, last - time.monotonic()))
        os._exit(1 if self._failed else 0)  # at once, because a normal interpreter shutdown takes longer


def _stateless(method: str, params: dict[str, Any] | None) -> Peer:
    if method == "initialize":
        wanted = (params or {}).get("protocolVersion")
        asked = {"requested": wanted} if isinstance(wanted, str) else {}
        raise RpcError(
            protocol.UNSUPPORTED_VERSION,
            "connection is serving the 2026-07-28 protocol; the initialize handshake is not accepted",
            {"supported": list(protocol.STATELESS), **asked},
        )
    peer = protocol.peer_from_envelope(params)
    protocol.check(method, params, stateless=True)
    return peer


def _is_id(value: Any) -> bool:
    return isinstance(value, int | str) and not isinstance(value, bool)


def _key(id: Any) -> Any:
    """Return an id in a form for comparison, because some clients send a number back as a text."""
    return int(id) if isinstance(id, str) and re.fullmatch(r"-?\d{1,18}", id) else id


class _Memory:
    """The server's access to memory, whose modules are imported only after the handshake."""

    def __init__(self, options: Mapping[str, Any], family: str) -> None:
        from vademecum.interfaces.mcp import server

        self._module = server
        self._server = server.MemoryServer(family)
        self._connections = server.Connections(options, own_session=True)
        self._sweeping = threading.Timer(_LATER, server.sweep_in_background, [options])
        self._sweeping.daemon = True

    def open(self, peer: Peer | None) -> None:
        """Open memory before the first call; old records are archived a little later."""
        self._sweeping.start()
        connection = self._connections.of()
        connection.introduce(peer.client if peer else None)
        connection.memory()

    def step(self, request: StdioRequest, sent: dict[str, Any] | None) -> tuple[bool, dict[str, Any]]:
        """Run a request up to its end or its next question to the user.

        Return whether it is done, and its result or the question.
        """
        connection = self._connections.of()
        connection.introduce(request.peer.client)
        with connection.busy():
            if request.method != "tools/call":
                return True, self._server.read(request.method, request.params or {}, connection)
            if request.call is None:
                request.call = self._server.call_tool(request.params or {}, request.peer, connection)
            return self._module.step(request.call, sent)

    def close(self) -> None:
        """Close memory with its index."""
        self._connections.close()


# ---------------------------------------------------------------- leaving with the client


def leave_with_the_client(wire: int, loaded: threading.Event) -> None:
    """End this process soon after the client has closed standard input or died.

    It ends whatever is still running: as after any kill, a write is either complete or was never begun. The
    kernel's parent-death signal is not used, because it comes when the *thread* that started this process
    ends.
    """
    parent = os.getppid()

    def watch() -> None:
        last = math.inf
        while (now := time.monotonic()) < last:
            if os.getppid() != parent:
                last = min(last, now + GRACE)
            elif _is_closed(wire):
                all_read = _is_drained(wire) and loaded.is_set()
                last = min(last, now + (GRACE if all_read else BACKLOG))
            if last < math.inf:
                time.sleep(0.05)
        os._exit(0)

    threading.Thread(target=watch, name="leave", daemon=True).start()


def _is_closed(wire: int) -> bool:
    """Return whether the client has closed its end of the pipe, after waiting a moment for that."""
    if not hasattr(select, "poll"):  # on Windows, the end of the input and the check of the parent are enough
        time.sleep(_POLL_SECONDS)
        return False
    looking = select.poll()
    looking.register(wire, 0)
    closed_flags = select.POLLHUP | select.POLLERR | select.POLLNVAL
    return any(event & closed_flags for _, event in looking.poll(_POLL_SECONDS * 1000))


def _is_drained(wire: int) -> bool:
    """Return whether everything that the client wrote into the pipe has been read."""
    try:
        import fcntl
        import struct
        import termios

        left = fcntl.ioctl(wire, termios.FIONREAD, b"\0\0\0\0")
        return not struct.unpack("i", left)[0]
    except (ImportError, OSError):
        return True
