"""A model on loopback that says what a script tells it to, in every dialect that agents speak.

Anthropic's Messages, OpenAI's Responses and Chat Completions, Google's generateContent, whole or streamed.
A script has a list of steps for each prompt: a tool with its arguments, or words. Which step is next is read
from the request itself, by the results that stand behind the prompt: an agent may ask again, ask beside, or
begin anew, and gets the same answer to the same conversation. Every request is kept.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from pathlib import Path

Json = Any
DONE = "That is done."
# What an agent is asked for when a tool is not in the request: to look for it, or only to wait a little.
HELPERS: Mapping[str, Mapping[str, str]] = {
    "ToolSearch": {"query": "select:{prefix}{tool}"},
    "tool_search": {"query": "select:{prefix}{tool}"},
    "exec_command": {"cmd": "sleep 3"},
}
COMPACTING = (  # words of agents that ask for a summary
    "Respond with TEXT ONLY",
    "CONTEXT CHECKPOINT COMPACTION",
    "<state_snapshot>",
    "create a detailed summary of the conversation",
    "anchored summary",
)
ASIDE = "Notes of a talk"  # what is answered to a request without a prompt of the script: a title, a summary
SUMMARY = "<state_snapshot>The crane is teal, says the summary.</state_snapshot>"  # some take no other shape


class Call(NamedTuple):
    """A tool that the model asks for, by the end of its name, and what it gives it."""

    tool: str
    arguments: Mapping[str, Json]


Step = Call | str
Script = Mapping[str, Sequence["Step | Reply"]]  # by a prompt, or words that only it has


class Offered(NamedTuple):
    """A tool of a request: its name, and the group it is in, for a dialect that has groups."""

    name: str
    group: str = ""


class Turn(NamedTuple):
    """One message of a request: whose it is, what it says, and how many results it brings."""

    role: str
    text: str
    results: int = 0


Reply = Callable[[Sequence[Turn]], Step]  # a step that depends on what was said


@dataclass(frozen=True, slots=True)
class Request:
    """One request: where it went, what it held, and what was answered."""

    path: str
    body: dict[str, Json]
    tools: tuple[Offered, ...]
    turns: tuple[Turn, ...]
    answer: Step
    prompted: str = ""  # the newest prompt of the script in it

    @property
    def text(self) -> str:
        """All of it."""
        return json.dumps(self.body, ensure_ascii=False)

    @property
    def tokens(self) -> int:
        """About how many tokens it has: agents decide by them when to compact."""
        return len(self.text) // 4

    @property
    def said(self) -> str:
        """What the conversation says, as plain text."""
        return "\n".join(each.text for each in self.turns)

    def offers(self, name: str) -> bool:
        """Whether a tool with that end of a name was in it."""
        return find_tool(self.tools, name) is not None


def find_tool(tools: Sequence[Offered], name: str) -> Offered | None:
    """The tool whose name ends so."""
    ends = (f"_{name}", f"-{name}")
    return next((each for each in tools if each.name == name or each.name.endswith(ends)), None)


def newest_prompt(script: Script, turns: Sequence[Turn]) -> tuple[str, int]:
    """The newest prompt of the script that was said, and where; empty when none was."""
    for at in range(len(turns) - 1, -1, -1):
        for prompt in script:
            if turns[at].role == "user" and prompt in turns[at].text:
                return prompt, at
    return "", len(turns)


def next_step(script: Script, turns: Sequence[Turn], tools: Sequence[Offered]) -> Step:
    """What the script says now: the step of the newest prompt that as many results lead to."""
    if turns and any(each in turns[-1].text for each in COMPACTING):
        return SUMMARY
    prompt, at = newest_prompt(script, turns)
    if not prompt or not tools:
        return ASIDE
    done = sum(turn.results for turn in turns[at:])
    steps = script[prompt]
    step = steps[done] if done < len(steps) else DONE
    return step if isinstance(step, Call | str) else step(turns)


@dataclass
class ModelServer:
    """The server, while it is entered; `requests` are those that came, in order."""

    script: Script = field(default_factory=dict)
    log: Path | None = None
    aside: str = ASIDE  # what is answered to a prompt that the script does not know
    prefix: str = "mcp__vade__"  # of our tools' names, in an agent that hides them
    requests: list[Request] = field(default_factory=list)

    def __enter__(self) -> ModelServer:
        server = self

        class Handler(_Handler):
            model = server

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        threading.Thread(target=self._http.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._http.shutdown()
        self._http.server_close()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def conversation(self) -> list[Request]:
        """The requests that tools were offered in: those of the agent itself, no titles and no counting."""
        return [each for each in self.requests if each.tools]

    def _help(self, wanted: Call, tools: Sequence[Offered]) -> Step:
        """Ask for a tool that is not there yet, where an agent has a way to, a few times at most."""
        helper_calls = [
            each.answer.tool in HELPERS for each in self.requests[-3:] if isinstance(each.answer, Call)
        ]
        if Offered("tool_call") in tools:  # a tool that calls those which are not shown
            return Call(
                "tool_call", {"name": f"{self.prefix}{wanted.tool}", "arguments": dict(wanted.arguments)}
            )
        helper = next((each for each in HELPERS if Offered(each) in tools), "")
        if helper and sum(helper_calls) < 3:
            given = {"prefix": self.prefix, "tool": wanted.tool}
            return Call(helper, {name: each.format(**given) for name, each in HELPERS[helper].items()})
        return f"NO SUCH TOOL: {wanted.tool}"

    def take(self, path: str, body: dict[str, Json]) -> Request:
        """One request, as it is read, answered and kept."""
        tools, turns = READERS[dialect_of(path)](body)
        step = next_step(self.script, turns, tools)
        step = self.aside if step == ASIDE else step
        if isinstance(step, Call) and find_tool(tools, step.tool) is None:
            step = self._help(step, tools)
        prompt, _ = newest_prompt(self.script, turns)
        request = Request(path, body, tuple(tools), tuple(turns), step, prompt)
        self.requests.append(request)
        if self.log is not None:
            with self.log.open("a") as file:
                file.write(json.dumps({"path": path, "body": body, "answer": step}) + "\n")
        return request


def dialect_of(path: str) -> str:
    """By the end of the path."""
    bare = path.partition("?")[0]
    for end, name in _ENDS.items():
        if bare.endswith(end):
            return name
    return ""


_ENDS = {
    "/messages": "anthropic",
    "/responses": "responses",
    "/chat/completions": "chat",
    ":generateContent": "google",
    ":streamGenerateContent": "google",
}


# -------------------------------------------------------------------- what a request holds


def _texts(content: Json) -> str:
    """All words of a content, whatever blocks it is made of."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        return "\n".join(filter(None, map(_texts, content)))
    if (
        isinstance(content, dict)
        and "functionResponse" not in content
        and content.get("type") != "tool_result"
    ):
        return _texts(content.get("text") or content.get("content") or "")
    return ""


def _read_anthropic(body: dict[str, Json]) -> tuple[list[Offered], list[Turn]]:
    turns = []
    for each in body.get("messages", ()):
        blocks = each["content"] if isinstance(each["content"], list) else []
        results = sum(
            _counts(block.get("tool_use_id")) for block in blocks if block.get("type") == "tool_result"
        )
        turns.append(Turn(each["role"], _texts(each["content"]), results))
    return [Offered(each["name"]) for each in body.get("tools") or ()], turns


def _read_responses(body: dict[str, Json]) -> tuple[list[Offered], list[Turn]]:
    tools: list[Offered] = []
    for each in body.get("tools") or ():
        inner = each.get("tools")
        if isinstance(inner, list):
            tools += [Offered(one["name"], each["name"]) for one in inner]
        elif "name" in each:
            tools.append(Offered(each["name"]))
    turns = []
    given = body.get("input") or ()
    for each in [{"role": "user", "content": given}] if isinstance(given, str) else given:
        kind = each.get("type", "message")
        brings = kind in ("function_call_output", "custom_tool_call_output")
        results = int(brings and _counts(each.get("call_id")))
        turns.append(Turn("tool" if brings else each.get("role", ""), _texts(each.get("content")), results))
    return tools, turns


def _read_chat(body: dict[str, Json]) -> tuple[list[Offered], list[Turn]]:
    tools = [Offered(each["function"]["name"]) for each in body.get("tools") or ()]
    return tools, [
        Turn(
            each["role"],
            _texts(each.get("content")),
            int(each["role"] == "tool" and _counts(each["tool_call_id"])),
        )
        for each in body.get("messages", ())
    ]


def _read_google(body: dict[str, Json]) -> tuple[list[Offered], list[Turn]]:
    tools = [
        Offered(one["name"])
        for each in body.get("tools") or ()
        for one in each.get("functionDeclarations") or ()
    ]
    turns = []
    for each in body.get("contents") or ():
        parts = each.get("parts") or []
        results = sum(
            part["functionResponse"]["name"] not in HELPERS for part in parts if "functionResponse" in part
        )
        turns.append(Turn(each.get("role", "user"), _texts(parts), results))
    return tools, turns


def _counts(id: Json) -> bool:
    """Whether a result is of a step of the script."""
    return not str(id).startswith(_HELP)


_HELP = "help_"
READERS = {
    "anthropic": _read_anthropic,
    "responses": _read_responses,
    "chat": _read_chat,
    "google": _read_google,
}


# -------------------------------------------------------------------- what is answered

Event = tuple[str, dict[str, Json]]  # its name, which some dialects do without


def _anthropic(request: Request, number: int) -> tuple[dict[str, Json], list[Event]]:
    step, tool = request.answer, _tool_of(request)
    block: dict[str, Json] = {"type": "text", "text": step}
    if isinstance(step, Call):
        block = {
            "type": "tool_use",
            "id": _id(request, f"toolu_{number}"),
            "name": tool.name,
            "input": dict(step.arguments),
        }
    why = "tool_use" if isinstance(step, Call) else "end_turn"
    usage = {"input_tokens": request.tokens, "output_tokens": 7}
    whole = {
        "id": f"msg_{number}",
        "type": "message",
        "role": "assistant",
        "model": request.body.get("model", ""),
        "content": [block],
        "stop_reason": why,
        "stop_sequence": None,
        "usage": usage,
    }
    if isinstance(step, Call):
        first = {**block, "input": {}}
        delta: dict[str, Json] = {
            "type": "input_json_delta",
            "partial_json": json.dumps(dict(step.arguments)),
        }
    else:
        first, delta = {"type": "text", "text": ""}, {"type": "text_delta", "text": step}
    opened = {**whole, "content": [], "stop_reason": None}
    events: list[dict[str, Json]] = [
        {"type": "message_start", "message": opened},
        {"type": "content_block_start", "index": 0, "content_block": first},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": why, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    ]
    return whole, [(each["type"], each) for each in events]


def _responses(request: Request, number: int) -> tuple[dict[str, Json], list[Event]]:
    step, tool = request.answer, _tool_of(request)
    if isinstance(step, Call):
        item: dict[str, Json] = {
            "type": "function_call",
            "id": f"fc_{number}",
            "call_id": _id(request, f"call_{number}"),
            "name": tool.name,
            "arguments": json.dumps(dict(step.arguments)),
            "status": "completed",
            **({"namespace": tool.group} if tool.group else {}),
        }
    else:
        item = {
            "type": "message",
            "id": f"msg_{number}",
            "role": "assistant",
            "status": "completed",
            "content": [{"type": "output_text", "text": step, "annotations": []}],
        }
    whole = {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": int(time.time()),
        "status": "completed",
        "model": request.body.get("model", ""),
        "output": [item],
        "usage": {
            "input_tokens": request.tokens,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 7,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": request.tokens + 7,
        },
    }
    events: list[dict[str, Json]] = [
        {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
        {"type": "response.output_item.added", "output_index": 0, "item": {**item, "status": "in_progress"}},
        *(
            [
                {
                    "type": "response.output_text.delta",
                    "item_id": item["id"],
                    "output_index": 0,
                    "content_index": 0,
                    "delta": step,
                }
            ]
            if isinstance(step, str)
            else []
        ),
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": whole},
    ]
    return whole, [(each["type"], each) for each in events]


def _chat(request: Request, number: int) -> tuple[dict[str, Json], list[Event]]:
    step, tool = request.answer, _tool_of(request)
    message: dict[str, Json] = {"role": "assistant", "content": step if isinstance(step, str) else None}
    if isinstance(step, Call):
        function = {"name": tool.name, "arguments": json.dumps(dict(step.arguments))}
        message["tool_calls"] = [
            {"id": _id(request, f"call_{number}"), "type": "function", "index": 0, "function": function}
        ]
    why = "tool_calls" if isinstance(step, Call) else "stop"
    usage = {"prompt_tokens": request.tokens, "completion_tokens": 7, "total_tokens": request.tokens + 7}
    about = {"id": f"chatcmpl-{number}", "created": int(time.time()), "model": request.body.get("model", "")}
    whole = {
        **about,
        "object": "chat.completion",
        "choices": [{"index": 0, "message": message, "finish_reason": why}],
        "usage": usage,
    }
    chunk = {**about, "object": "chat.completion.chunk"}
    return whole, [
        ("", {**chunk, "choices": [{"index": 0, "delta": message, "finish_reason": None}]}),
        ("", {**chunk, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]}),
        ("", {**chunk, "choices": [], "usage": usage}),
    ]


def _google(request: Request, number: int) -> tuple[dict[str, Json], list[Event]]:
    step, tool = request.answer, _tool_of(request)
    # Of a resumed session Gemini CLI guesses the size, without instructions and tools; so they do not count.
    tokens = len(json.dumps(request.body.get("contents", []))) // 4
    part: dict[str, Json] = {"text": step}
    if isinstance(step, Call):
        part = {"functionCall": {"name": tool.name, "args": dict(step.arguments)}}
    whole = {
        "candidates": [{"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}],
        "usageMetadata": {
            "promptTokenCount": tokens,
            "candidatesTokenCount": 7,
            "totalTokenCount": tokens + 7,
        },
        "modelVersion": request.path.partition("models/")[2].partition(":")[0],
        "responseId": f"answer-{number}",
    }
    return whole, [("", whole)]


def _tool_of(request: Request) -> Offered:
    found = find_tool(request.tools, request.answer.tool) if isinstance(request.answer, Call) else None
    return found or Offered("")


def _id(request: Request, id: str) -> str:
    helps = isinstance(request.answer, Call) and request.answer.tool in HELPERS
    return _HELP + id if helps else id


WRITERS = {"anthropic": _anthropic, "responses": _responses, "chat": _chat, "google": _google}


class _Handler(BaseHTTPRequestHandler):
    model: ModelServer
    protocol_version = "HTTP/1.1"

    def log_message(self, format: str, *args: object) -> None:
        """What came is kept elsewhere."""

    def do_HEAD(self) -> None:
        """Some look whether anybody is there."""
        self._send(b"", "application/json")

    def do_GET(self) -> None:
        """A list of models, for whoever asks for one."""
        models = [{"id": "scripted", "object": "model", "slug": "scripted"}]
        self._json({"object": "list", "data": models})

    def do_POST(self) -> None:
        """One request to the model, or something beside it."""
        raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        try:
            body = json.loads(raw or b"{}")
        except ValueError:
            body = {}
        dialect = dialect_of(self.path)
        if not dialect or not isinstance(body, dict):
            self._json({"input_tokens": 100, "totalTokens": 100})
            return
        request = self.model.take(self.path, body)
        whole, events = WRITERS[dialect](request, len(self.model.requests))
        if body.get("stream") is True or ":streamGenerateContent" in self.path:
            ended = b"data: [DONE]\n\n" if dialect == "chat" else b""
            self._send(b"".join(_lines(events)) + ended, "text/event-stream")
        else:
            self._json(whole)

    def _json(self, value: Json) -> None:
        self._send(json.dumps(value).encode(), "application/json")

    def _send(self, content: bytes, kind: str) -> None:
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def _lines(events: Sequence[Event]) -> Iterator[bytes]:
    for name, value in events:
        head = f"event: {name}\n" if name else ""
        yield f"{head}data: {json.dumps(value)}\n\n".encode()
