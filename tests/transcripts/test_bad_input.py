"""What no agent should write and some do, in every format: all that was said is kept, and nothing raises."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from vademecum.agents.registry import recognise_transcript, transcript_format
from vademecum.store import scopes
from vademecum.store.home import Home
from vademecum.transcripts import Message, to_json
from vademecum.transcripts.events import MessageEvent
from vademecum.transcripts.importing import import_file
from vademecum.transcripts.log import Log, LogFile
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    Record = dict[str, Any]

T = "2026-11-15T08:15:3{}.123Z"


class Way(NamedTuple):
    """How one format says a few things; an id of None is left out."""

    form: str
    file: str
    said: Callable[[str, str, str | None], Record]
    call: Callable[[str | None, str], Record]
    result: Callable[[str | None, str], Record]
    body: Callable[[Sequence[Record]], bytes]


def having(**fields: Any) -> Record:
    return {name: value for name, value in fields.items() if value is not None}


def as_lines(*first: Record) -> Callable[[Sequence[Record]], bytes]:
    def body(records: Sequence[Record]) -> bytes:
        return "".join(json.dumps(each) + "\n" for each in (*first, *records)).encode()

    return body


def claude(kind: str, own: str | None, role: str, content: Any) -> Record:
    known = kind if kind in ("user", "assistant") else "user"
    message = {"role": role, "content": content}
    return having(type=known, uuid=own, sessionId="s-1", timestamp=T.format(1), message=message)


def block(kind: str, **fields: Any) -> list[Record]:
    return [{"type": kind, **having(**fields)}]


CLAUDE = Way(
    "claude-code",
    "s-1.jsonl",
    lambda role, text, own: claude(role, own, role, text),
    lambda own, text: claude(
        "assistant", "a", "assistant", block("tool_use", id=own, name="ls", input={"path": text})
    ),
    lambda own, text: claude("user", "r", "user", block("tool_result", tool_use_id=own, content=text)),
    as_lines(),
)


def item(**fields: Any) -> Record:
    return {"type": "response_item", "timestamp": T.format(1), "payload": having(**fields)}


CODEX = Way(
    "codex",
    "rollout-1.jsonl",
    lambda role, text, own: item(
        type="message",
        role=role,
        id=own,
        content=block("input_text" if role == "user" else "output_text", text=text),
    ),
    lambda own, text: item(
        type="function_call", call_id=own, name="shell", arguments=json.dumps({"path": text})
    ),
    lambda own, text: item(type="function_call_output", call_id=own, output=text),
    as_lines({"type": "session_meta", "timestamp": T.format(0), "payload": {"id": "c-1", "cwd": "/x"}}),
)


def done(**fields: Any) -> Record:
    return {"type": "item.completed", "item": having(**fields)}


EXEC = Way(
    "codex",
    "out.jsonl",
    lambda role, text, own: done(
        type="agent_message" if role in ("user", "assistant") else role, id=own, text=text
    ),
    lambda own, text: {
        "type": "item.started",
        "item": having(type="command_execution", id=own, command=text, status="in_progress"),
    },
    lambda own, text: done(
        type="command_execution", id=own, command="ls", aggregated_output=text, exit_code=0
    ),
    as_lines({"type": "thread.started", "thread_id": "e-1"}),
)


def entry(own: str | None, **message: Any) -> Record:
    return having(type="message", id=own, timestamp=T.format(1), message=having(**message))


PI = Way(
    "openclaw",
    "p-1.jsonl",
    lambda role, text, own: entry(own, role=role, content=text),
    lambda own, text: entry(
        "x", role="assistant", content=block("toolCall", id=own, name="ls", arguments={"path": text})
    ),
    lambda own, text: entry(
        "y", role="toolResult", toolCallId=own, toolName="ls", content=block("text", text=text)
    ),
    as_lines({"type": "session", "version": 3, "id": "p-1", "timestamp": T.format(0), "cwd": "/x"}),
)


def gemini_used(own: str | None, name: str, **fields: Any) -> Record:
    used = having(id=own, name="ls", **fields)
    return {"id": name, "timestamp": T.format(1), "type": "gemini", "content": "", "toolCalls": [used]}


HEADER = {"sessionId": "g-1", "projectHash": "ff", "startTime": T.format(0), "lastUpdated": T.format(9)}
GEMINI = Way(
    "gemini-cli",
    "session-1.json",
    lambda role, text, own: having(
        id=own, timestamp=T.format(1), type={"assistant": "gemini"}.get(role, role), content=text
    ),
    lambda own, text: gemini_used(own, f"c-{text}", args={"path": text}, status="cancelled"),
    lambda own, text: gemini_used(own, f"r-{text[:9]}", args={}, status="success", resultDisplay=text),
    lambda records: json.dumps({**HEADER, "messages": list(records)}).encode(),
)
GEMINI_LINES = GEMINI._replace(file="session-1.jsonl", body=as_lines(HEADER))


def chat(role: str, own: str | None, content: Any, **more: Any) -> Record:
    return having(role=role, content=content, id=own, **more)


CLIO = Way(
    "clio",
    "c-1.json",
    lambda role, text, own: chat(role, own, text),
    lambda own, text: chat(
        "assistant",
        None,
        "",
        tool_calls=[
            having(id=own, type="function", function={"name": "ls", "arguments": json.dumps({"path": text})})
        ],
    ),
    lambda own, text: chat("tool", None, text, tool_call_id=own),
    lambda records: json.dumps(
        {"session_name": "x", "working_directory": "/x", "history": list(records), "yarn": {}, "stm": []}
    ).encode(),
)
CHAT = CLIO._replace(form="messages", file="chat.json", body=lambda records: json.dumps(records).encode())
CHAT_LINES = CHAT._replace(file="chat.jsonl", body=as_lines())
ANTHROPIC = Way(
    "messages",
    "anthropic.json",
    lambda role, text, own: chat(role, own, block("text", text=text)),
    lambda own, text: chat("assistant", None, block("tool_use", id=own, name="ls", input={"path": text})),
    lambda own, text: chat("user", None, block("tool_result", tool_use_id=own, content=text)),
    lambda records: json.dumps(records).encode(),
)

WAYS = {
    "claude-code": CLAUDE,
    "codex": CODEX,
    "codex-exec": EXEC,
    "openclaw": PI,
    "gemini": GEMINI,
    "gemini-lines": GEMINI_LINES,
    "clio": CLIO,
    "messages": CHAT,
    "messages-lines": CHAT_LINES,
    "anthropic": ANTHROPIC,
}

BINARY = "MARK-before \x00\x01\x1b[31m\x7f\u0085\ud800 MARK-behind"
CASES: dict[str, Callable[[Way], list[Record]]] = {
    "an unknown role": lambda way: [
        way.said("wizard", "MARK-spell", "i1"),
        way.said("assistant", "MARK-after", "i2"),
    ],
    "missing ids": lambda way: [
        way.said("user", "MARK-one", None),
        way.call(None, "MARK-call"),
        way.result(None, "MARK-result"),
        way.said("assistant", "MARK-two", None),
    ],
    "duplicated ids": lambda way: [
        way.said("user", "MARK-one", "i1"),
        way.said("user", "MARK-two", "i1"),
        way.call("c1", "MARK-call"),
        way.result("c1", "MARK-result"),
        way.call("c1", "MARK-again"),
        way.result("c1", "MARK-other"),
    ],
    "a result before its call": lambda way: [
        way.result("c1", "MARK-result"),
        way.call("c1", "MARK-call"),
        way.said("assistant", "MARK-after", "i2"),
    ],
    "a result without a call, and a call without a result": lambda way: [
        way.result("c1", "MARK-result"),
        way.said("user", "MARK-one", "i1"),
        way.call("c2", "MARK-call"),
        way.said("user", "MARK-two", "i2"),
    ],
    "empty content": lambda way: [
        way.said("user", "", "i1"),
        way.call("c1", ""),
        way.result("c1", ""),
        way.said("assistant", "", "i2"),
        way.said("user", "MARK-after", "i3"),
    ],
    "binary in text": lambda way: [
        way.said("user", BINARY, "i1"),
        way.call("c1", "MARK-call"),
        way.result("c1", BINARY.replace("MARK", "MARK-result")),
    ],
}
# What a format means by it: the newest of several states of one message, by its id.
MEANT = {("gemini-lines", "duplicated ids"): {"MARK-one"}}


def marks(value: str) -> set[str]:
    return {
        word for word in json.dumps(value).replace("\\", '"').replace(" ", '"').split('"') if "MARK-" in word
    }


def written(way: Way, records: list[Record], folder: Path) -> Path:
    path = folder / way.file
    path.write_bytes(way.body([way.said("user", "MARK-begin", "i0"), *records]))
    return path


def kept(way: Way, path: Path, base: Path) -> str:
    """All that is in the log after an import, which a second one leaves as it is."""
    (base / "work").mkdir()
    project = scopes.find_project(base / "work", home=base / "home", override="acme")
    home = Home(base / "home", 5)
    caller = scopes.Caller(agent="main", project=project, origin=Origin.USER)
    found = import_file(transcript_format(way.form), path, home=home, caller=caller)
    assert found.outcome == "new"
    assert import_file(transcript_format(way.form), path, home=home, caller=caller).outcome == "same"
    log = Log(found.session, LogFile(home, found.project, found.session))
    return json.dumps([to_json(each.message) for each in log.events() if isinstance(each, MessageEvent)])


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("case", CASES)
def test_all_that_was_said_is_kept(name: str, case: str, tmp_path: Path) -> None:
    way = WAYS[name]
    path = written(way, CASES[case](way), tmp_path)
    known = recognise_transcript(path)
    assert known is not None
    assert known.name == way.form
    wanted = marks(path.read_text()) - MEANT.get((name, case), set())
    read = [to_json(each) for each in known.read(path) if isinstance(each, Message)]
    assert wanted <= marks(json.dumps(read))
    assert wanted <= marks(kept(way, path, tmp_path))


@pytest.mark.parametrize("name", WAYS)
def test_bytes_that_are_no_text_are_told_and_the_words_around_them_kept(name: str, tmp_path: Path) -> None:
    way = WAYS[name]
    path = written(way, [way.said("user", "MARK-before HERE MARK-behind", "i1")], tmp_path)
    path.write_bytes(path.read_bytes().replace(b"HERE", b"\xff\xfe\x80"))
    found = list(transcript_format(way.form).read(path))
    assert [each for each in found if not isinstance(each, Message) and "UTF-8" in str(each)]
    assert {"MARK-begin", "MARK-before", "MARK-behind"} <= marks(kept(way, path, tmp_path))


@pytest.mark.full(but=2)
@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("size", [2, pytest.param(50, marks=pytest.mark.soak)])
def test_a_result_of_many_megabytes_is_kept_whole(name: str, size: int, tmp_path: Path) -> None:
    way = WAYS[name]
    text = "a line of what some tool has printed\n" * (size * 1_000_000 // 37 + 1)
    path = written(way, [way.call("c1", "MARK-call"), way.result("c1", text)], tmp_path)
    said = [each for each in transcript_format(way.form).read(path) if isinstance(each, Message)]
    assert [each.text for message in said for each in message.results if len(each.text) > 100] == [text]
    assert json.dumps(text)[1:-1] in kept(way, path, tmp_path)
