"""A real server on 127.0.0.1 that speaks like OpenAI, Anthropic and Google, and fails when told to.

    with serving() as server:
        server.script(Say("Hello."), Refuse("busy", retry_after="0"), Say("Again."))
        ... point a client at server.endpoint("openai") ...
        server.seen[0].body["messages"]

The dialect is known by the path, so one script serves all: the same `Say` goes out as a chat completion, as
an Anthropic message or as a Gemini candidate, whole or streamed, as the client asked. Replies are given in
order and the last one stays; what was asked is in `seen`. Also answers `GET /api/tags` as Ollama and `GET
/v1/models` as llama.cpp do, with the names in `ollama_models` and `llama_models`, and any path in `served`.
With a `limit` it refuses what is longer.
"""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

KEY = "sk-secret-0123456789-abcdefghij"
MODEL = "parrot-1"
ROOTS = {"openai": "/v1", "anthropic": "", "google": "", "ollama": "/v1", "compatible": "/v1"}


# What the server can be told to do.


@dataclass(frozen=True)
class Say:
    """Answer in words; streamed, they go out in pieces of a few characters."""

    text: str
    input: int = 11
    output: int = 7
    finish: str = "stop"  # or `length`, `filter`
    counted: bool = True  # whether the answer says how many tokens it took


@dataclass(frozen=True)
class Use:
    """Answer by asking for a tool, after some words if any are given."""

    name: str
    arguments: dict[str, Any] | str  # a text goes out as it is, whether or not it is JSON
    text: str = ""
    input: int = 11
    output: int = 7
    finish: str = "stop"
    counted: bool = True


@dataclass(frozen=True)
class Refuse:
    """Refuse as this dialect's provider words it: a name of REFUSALS."""

    kind: str
    retry_after: str = ""


@dataclass(frozen=True)
class Send:
    """Send any body with any status."""

    status: int
    body: bytes
    type: str = "application/json"
    headers: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Cut:
    """Begin an answer and break off in the middle; `clean` ends the body as if that were all."""

    text: str
    clean: bool = False


@dataclass(frozen=True)
class Fail:
    """Begin a streamed answer and put an error into the middle of it."""

    text: str


@dataclass(frozen=True)
class Hang:
    """Say nothing until the client goes away or the server is closed; with words, streamed, first those."""

    text: str = ""


@dataclass(frozen=True)
class Drop:
    """Close the connection without a word."""


Reply = Say | Use | Refuse | Send | Cut | Fail | Hang | Drop


def _openai(message: str, type_: str, code: str | None = None, **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": type_, "param": None, "code": code, **more}}


def _anthropic(message: str, type_: str) -> dict[str, Any]:
    return {"type": "error", "error": {"type": type_, "message": message}, "request_id": "req_011CParrot"}


def _google(code: int, message: str, status: str) -> dict[str, Any]:
    return {"error": {"code": code, "message": message, "status": status}}


# What each provider sends, by dialect and kind: status and body.
REFUSALS: dict[str, dict[str, tuple[int, dict[str, Any]]]] = {
    "openai": {
        # Some quote the key whole, where OpenAI itself shows its ends.
        "key": (
            401,
            _openai(f"Incorrect API key provided: {KEY}.", "invalid_request_error", "invalid_api_key"),
        ),
        "busy": (
            429,
            _openai(
                "Rate limit reached for parrot-1 on requests per min (RPM).",
                "requests",
                "rate_limit_exceeded",
            ),
        ),
        "quota": (
            429,
            _openai("You exceeded your current quota.", "insufficient_quota", "insufficient_quota"),
        ),
        "fault": (500, _openai("The server had an error while processing your request.", "server_error")),
        "overflow": (
            400,
            _openai(
                "This model's maximum context length is 8192 tokens. However, your messages resulted in 8227"
                " tokens. Please reduce the length of the messages.",
                "invalid_request_error",
                "context_length_exceeded",
            ),
        ),
        # llama.cpp, which speaks the same and says it with 500
        "overflow500": (
            500,
            _openai(
                "the request exceeds the available context size. try increasing the context size or enable"
                " context shift",
                "exceed_context_size_error",
                n_prompt_tokens=1407,
                n_ctx=256,
            ),
        ),
        "bad": (
            400,
            _openai("Unsupported value: 'temperature'.", "invalid_request_error", "unsupported_value"),
        ),
        "unknown": (
            404,
            _openai("The model `parrot-1` does not exist.", "invalid_request_error", "model_not_found"),
        ),
    },
    "anthropic": {
        "key": (401, _anthropic(f"invalid x-api-key {KEY}", "authentication_error")),
        "busy": (
            429,
            _anthropic(
                "This request would exceed your organization's rate limit of 50,000 input tokens per minute.",
                "rate_limit_error",
            ),
        ),
        "quota": (
            400,
            _anthropic(
                "Your credit balance is too low to access the Anthropic API.", "invalid_request_error"
            ),
        ),
        "fault": (500, _anthropic("Internal server error", "api_error")),
        "overflow": (
            400,
            _anthropic("prompt is too long: 209353 tokens > 199999 maximum", "invalid_request_error"),
        ),
        "bad": (400, _anthropic("messages: at least one message is required", "invalid_request_error")),
        "unknown": (404, _anthropic("model: parrot-1", "not_found_error")),
    },
    "google": {
        "key": (400, _google(400, f"API key not valid: {KEY}.", "INVALID_ARGUMENT")),
        "busy": (429, _google(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED")),
        "fault": (500, _google(500, "An internal error has occurred.", "INTERNAL")),
        "overflow": (
            400,
            _google(
                400,
                "The input token count (1219354) exceeds the maximum number of tokens allowed (1048576).",
                "INVALID_ARGUMENT",
            ),
        ),
        "bad": (400, _google(400, "Invalid value at 'contents'.", "INVALID_ARGUMENT")),
        "unknown": (404, _google(404, "models/parrot-1 is not found.", "NOT_FOUND")),
    },
}
REFUSALS["google"]["key"][1]["error"]["details"] = [
    {"@type": "type.googleapis.com/google.rpc.ErrorInfo", "reason": "API_KEY_INVALID"}
]


# The server.


@dataclass
class Seen:
    """One request as it came."""

    dialect: str
    path: str
    headers: dict[str, str]
    body: dict[str, Any]

    @property
    def text(self) -> str:
        """The whole request as text, to look for words in it."""
        return json.dumps(self.body, ensure_ascii=False)


@dataclass
class WireServer:
    """What is to be said, and what was asked."""

    port: int = 0
    replies: list[Reply] = field(default_factory=lambda: [Say("Polly.")])
    seen: list[Seen] = field(default_factory=list)
    ollama_models: list[str] = field(default_factory=list)
    llama_models: list[str] = field(default_factory=list)
    limit: int = 0  # tokens of a request above which it is refused, a quarter of its characters each
    refusal: str = (
        "request ({sent} tokens) exceeds the available context size ({limit} tokens), try increasing it"
    )
    served: dict[str, Any] = field(default_factory=dict)  # what is answered at other paths
    refused: int = 0
    closing: threading.Event = field(default_factory=threading.Event)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def endpoint(self, provider: str) -> str:
        """The address a client of this provider is given."""
        return f"http://127.0.0.1:{self.port}{ROOTS[provider]}"

    def script(self, *replies: Reply) -> None:
        """Forget what was, and say these from now on; the last one stays."""
        with self.lock:
            self.replies, self.seen = list(replies), []

    def next(self) -> Reply:
        """The reply whose turn it is."""
        with self.lock:
            return self.replies.pop(0) if len(self.replies) > 1 else self.replies[0]


@contextmanager
def serving() -> Iterator[WireServer]:
    """Run the server for as long as the block lasts."""
    wire = WireServer()

    class Bound(_Handler):
        state = wire

    server = ThreadingHTTPServer(("127.0.0.1", 0), Bound)
    server.daemon_threads = True
    wire.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield wire
    finally:
        wire.closing.set()
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    state: WireServer
    dialect = ""
    streamed = False

    def log_message(self, *_: object) -> None:
        pass

    def do_GET(self) -> None:
        if self.path in self.state.served:
            models: Any = self.state.served[self.path]
        elif self.path == "/api/tags" and self.state.ollama_models:
            models = {"models": [{"name": name, "size": 1} for name in self.state.ollama_models]}
        elif self.path == "/v1/models" and self.state.llama_models:
            listed = [{"id": name, "owned_by": "llamacpp"} for name in self.state.llama_models]
            models = {"object": "list", "data": listed}
        else:
            self._whole(404, b"{}")
            return
        self._whole(200, json.dumps(models).encode())

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        if self.path == "/api/show":
            known = self.path in self.state.served
            self._whole(200 if known else 404, json.dumps(self.state.served.get(self.path)).encode())
            return
        self.dialect, self.streamed = _dialect(self.path, body)
        headers = {name.lower(): value for name, value in self.headers.items()}
        with self.state.lock:
            self.state.seen.append(Seen(self.dialect, self.path, headers, body))
        if not self.dialect:
            self._whole(404, b'{"error": "no such path"}')
            return
        sent = len(json.dumps(body.get("messages", [])) + json.dumps(body.get("tools", []))) // 4
        if self.state.limit and sent > self.state.limit:
            self.state.refused += 1
            words = self.state.refusal.format(sent=sent, limit=self.state.limit)
            self._whole(400, json.dumps({"error": {"message": words, "code": 400}}).encode())
            return
        with suppress(BrokenPipeError, ConnectionResetError):  # the client gave up, as some tests want
            self._answer(self.state.next())

    def _answer(self, reply: Reply) -> None:
        match reply:
            case Say() | Use():
                self._say(reply)
            case Refuse(kind, retry_after):
                status, body = REFUSALS[self.dialect][kind]
                after = (("Retry-After", retry_after),) if retry_after else ()
                self._whole(status, json.dumps(body).encode(), headers=after)
            case Send(status, content, type_, headers):
                self._whole(status, content, type_=type_, headers=headers)
            case Cut(text, clean):
                self._cut(text, clean=clean)
            case Fail(text):
                self._begin_stream()
                self._events(_EVENTS[self.dialect](Say(text))[:-1][: _HEAD[self.dialect] + 1])
                self._event("error", REFUSALS[self.dialect]["fault"][1])
                self._chunk(b"")
            case Hang(text):
                if text and self.streamed:
                    self._begin_stream()
                    self._events(_EVENTS[self.dialect](Say(text))[: _HEAD[self.dialect] + 1])
                self._wait_for_the_end()
            case Drop():
                self.close_connection = True
                self.connection.close()

    def _say(self, reply: Say | Use) -> None:
        if not self.streamed:
            self._whole(200, json.dumps(_WHOLE[self.dialect](reply)).encode())
            return
        self._begin_stream()
        self._events(_EVENTS[self.dialect](reply))
        if self.dialect == "openai":
            self._chunk(b"data: [DONE]\n\n")
        self._chunk(b"")

    def _cut(self, text: str, *, clean: bool) -> None:
        self.close_connection = True
        if not self.streamed:
            content = json.dumps(_WHOLE[self.dialect](Say(text))).encode()
            half = content[: len(content) // 2]
            self._whole(200, half, length=len(half) if clean else len(content))
            return
        self._begin_stream()
        events = _EVENTS[self.dialect](Say(text))
        pieces = len(_pieces(text))
        self._events(events[: _HEAD[self.dialect] + pieces])
        if clean:
            self._chunk(b"")

    def _wait_for_the_end(self) -> None:
        self.close_connection = True
        self.connection.settimeout(0.05)
        while not self.state.closing.is_set():
            try:
                if not self.connection.recv(1):
                    return
            except TimeoutError:
                continue

    # Writing.

    def _whole(
        self,
        status: int,
        content: bytes,
        *,
        type_: str = "application/json",
        length: int | None = None,
        headers: tuple[tuple[str, str], ...] = (),
    ) -> None:
        self.send_response(status)
        for name, value in headers:
            self.send_header(name, value)
        self.send_header("Content-Type", type_)
        self.send_header("Content-Length", str(len(content) if length is None else length))
        self.end_headers()
        self.wfile.write(content)

    def _begin_stream(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()

    def _events(self, events: list[tuple[str, Any]]) -> None:
        for name, value in events:
            self._event(name, value)

    def _event(self, name: str, value: Any) -> None:
        head = f"event: {name}\n" if self.dialect == "anthropic" else ""
        self._chunk(f"{head}data: {json.dumps(value)}\n\n".encode())

    def _chunk(self, content: bytes) -> None:
        self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
        self.wfile.flush()


def _dialect(path: str, body: dict[str, Any]) -> tuple[str, bool]:
    bare = path.partition("?")[0]
    if bare.endswith("/chat/completions"):
        return "openai", bool(body.get("stream"))
    if bare.endswith("/v1/messages"):
        return "anthropic", bool(body.get("stream"))
    if bare.endswith((":generateContent", ":streamGenerateContent")):
        return "google", "stream" in bare
    return "", False


def _pieces(text: str) -> list[str]:
    return [text[start : start + 5] for start in range(0, len(text), 5)]


def _arguments(reply: Use) -> str:
    return reply.arguments if isinstance(reply.arguments, str) else json.dumps(reply.arguments)


# OpenAI: whole, and as chunks. Before the words there is one chunk with the role.


def _openai_finish(reply: Say | Use) -> str:
    if reply.finish == "stop":
        return "tool_calls" if isinstance(reply, Use) else "stop"
    return {"length": "length", "filter": "content_filter"}[reply.finish]


def _openai_usage(reply: Say | Use) -> dict[str, int]:
    return {
        "prompt_tokens": reply.input,
        "completion_tokens": reply.output,
        "total_tokens": reply.input + reply.output,
    }


def _openai_whole(reply: Say | Use) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.text or None}
    if isinstance(reply, Use):
        function = {"name": reply.name, "arguments": _arguments(reply)}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    whole: dict[str, Any] = {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1_700_000_000,
        "model": MODEL,
        "choices": [{"index": 0, "message": message, "finish_reason": _openai_finish(reply)}],
    }
    return whole | ({"usage": _openai_usage(reply)} if reply.counted else {})


def _openai_events(reply: Say | Use) -> list[tuple[str, Any]]:
    def chunk(delta: dict[str, Any], finish: str | None = None) -> tuple[str, Any]:
        choice = {"index": 0, "delta": delta, "finish_reason": finish}
        about = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_700_000_000,
            "model": MODEL,
        }
        return "", {**about, "choices": [choice]}

    events = [chunk({"role": "assistant", "content": ""})]
    events += [chunk({"content": piece}) for piece in _pieces(reply.text)]
    if isinstance(reply, Use):
        function = {"name": reply.name, "arguments": ""}
        events.append(
            chunk({"tool_calls": [{"index": 0, "id": "call_1", "type": "function", "function": function}]})
        )
        for piece in _pieces(_arguments(reply)):
            events.append(chunk({"tool_calls": [{"index": 0, "function": {"arguments": piece}}]}))
    events.append(chunk({}, _openai_finish(reply)))
    if reply.counted:
        last = chunk({})[1]
        events.append(("", {**last, "choices": [], "usage": _openai_usage(reply)}))
    return events


# Anthropic: whole, and as named events. Before the words there are two: the message and its first block.


def _anthropic_finish(reply: Say | Use) -> str:
    if reply.finish == "stop":
        return "tool_use" if isinstance(reply, Use) else "end_turn"
    return {"length": "max_tokens", "filter": "refusal"}[reply.finish]


def _anthropic_usage(reply: Say | Use) -> dict[str, int]:
    counted = reply.counted
    return {"input_tokens": reply.input if counted else 0, "output_tokens": reply.output if counted else 0}


def _anthropic_whole(reply: Say | Use) -> dict[str, Any]:
    content: list[dict[str, Any]] = [{"type": "text", "text": reply.text}] if reply.text else []
    if isinstance(reply, Use):
        given = json.loads(_arguments(reply))
        content.append({"type": "tool_use", "id": "toolu_1", "name": reply.name, "input": given})
    return {
        "id": "msg_1",
        "type": "message",
        "role": "assistant",
        "model": MODEL,
        "content": content,
        "stop_reason": _anthropic_finish(reply),
        "stop_sequence": None,
        "usage": _anthropic_usage(reply),
    }


def _anthropic_events(reply: Say | Use) -> list[tuple[str, Any]]:
    begun = {
        **_anthropic_whole(Say("")),
        "stop_reason": None,
        "usage": {**_anthropic_usage(reply), "output_tokens": 1},
    }
    events: list[tuple[str, Any]] = [("message_start", {"type": "message_start", "message": begun})]
    index = 0

    def block(first: dict[str, Any], deltas: list[dict[str, Any]]) -> None:
        nonlocal index
        about = {"index": index}
        events.append(
            ("content_block_start", {"type": "content_block_start", **about, "content_block": first})
        )
        for delta in deltas:
            events.append(("content_block_delta", {"type": "content_block_delta", **about, "delta": delta}))
        events.append(("content_block_stop", {"type": "content_block_stop", **about}))
        index += 1

    if reply.text:
        words = [{"type": "text_delta", "text": piece} for piece in _pieces(reply.text)]
        block({"type": "text", "text": ""}, words)
    if isinstance(reply, Use):
        parts = [{"type": "input_json_delta", "partial_json": piece} for piece in _pieces(_arguments(reply))]
        block({"type": "tool_use", "id": "toolu_1", "name": reply.name, "input": {}}, parts)
    ended = {"stop_reason": _anthropic_finish(reply), "stop_sequence": None}
    used = {"output_tokens": _anthropic_usage(reply)["output_tokens"]}
    events.append(("message_delta", {"type": "message_delta", "delta": ended, "usage": used}))
    events.append(("message_stop", {"type": "message_stop"}))
    return events


# Google: whole, and as candidates that each hold a piece.


def _google_candidate(
    reply: Say | Use, parts: list[dict[str, Any]], *, last: bool, counted: bool
) -> dict[str, Any]:
    finish = {"stop": "STOP", "length": "MAX_TOKENS", "filter": "SAFETY"}[reply.finish]
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
    whole: dict[str, Any] = {
        "candidates": [candidate | ({"finishReason": finish} if last else {})],
        "modelVersion": MODEL,
    }
    used = {
        "promptTokenCount": reply.input,
        "candidatesTokenCount": reply.output,
        "totalTokenCount": reply.input + reply.output,
    }
    return whole | ({"usageMetadata": used} if counted else {})


def _google_calls(reply: Say | Use) -> list[dict[str, Any]]:
    if not isinstance(reply, Use):
        return []
    return [{"functionCall": {"name": reply.name, "args": json.loads(_arguments(reply))}}]


def _google_whole(reply: Say | Use) -> dict[str, Any]:
    parts = [{"text": reply.text}] if reply.text else []
    return _google_candidate(reply, parts + _google_calls(reply), last=True, counted=reply.counted)


def _google_events(reply: Say | Use) -> list[tuple[str, Any]]:
    parts = [*({"text": piece} for piece in _pieces(reply.text)), *_google_calls(reply)]
    events = [("", _google_candidate(reply, [part], last=False, counted=False)) for part in parts]
    return [*events, ("", _google_candidate(reply, [], last=True, counted=reply.counted))]


_WHOLE = {"openai": _openai_whole, "anthropic": _anthropic_whole, "google": _google_whole}
_EVENTS = {"openai": _openai_events, "anthropic": _anthropic_events, "google": _google_events}
# How many events come before the first words.
_HEAD = {"openai": 1, "anthropic": 2, "google": 0}
