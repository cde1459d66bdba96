"""Every format reads its samples whole, survives any damage, and says what it could not read."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.agents.registry import recognise_transcript, transcript_format, transcript_formats
from vademecum.errors import UnknownName
from vademecum.transcripts import (
    LEFT,
    META,
    SIDE,
    SUMMARY,
    Image,
    Message,
    Opaque,
    Role,
    Text,
    Thinking,
    ToolCall,
    foreign,
    from_json,
    is_memory_call,
    to_json,
)
from vademecum.transcripts.foreign import SessionFacts, TranscriptUsage, Unread, moment

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.agents.base import TranscriptFormat

    Read = Sequence[Message | TranscriptUsage | SessionFacts | Unread]

DATA = Path(os.environ.get("VADE_DATA", "")) / "transcripts"
needs_data = pytest.mark.skipif(
    not os.environ.get("VADE_DATA") or not DATA.is_dir(),
    reason="VADE_DATA does not name a folder with real transcripts in it",
)

T = "2026-11-15T08:15:3{}.123Z"


def claude(kind: str, number: int, **more: Any) -> dict[str, Any]:
    return {
        "type": kind,
        "uuid": f"u{number}",
        "parentUuid": f"u{number - 1}" if number else None,
        "sessionId": "s-1",
        "cwd": "/home/ada/api",
        "timestamp": T.format(number % 10),
        "version": "2.1.0",
        "isSidechain": False,
        **more,
    }


def answer(name: str, *blocks: dict[str, Any], output: int = 5, model: str = "claude-x") -> dict[str, Any]:
    usage = {"input_tokens": 3, "cache_creation_input_tokens": 10, "cache_read_input_tokens": 100}
    return {
        "role": "assistant",
        "id": name,
        "model": model,
        "content": list(blocks),
        "stop_reason": None,
        "usage": {**usage, "output_tokens": output},
    }


def words(said: str) -> dict[str, Any]:
    return {"type": "text", "text": said}


def use(name: str, tool: str = "Bash") -> dict[str, Any]:
    return {"type": "tool_use", "id": name, "name": tool, "input": {"command": "ls"}}


def result(name: str, said: str) -> dict[str, Any]:
    return {"type": "tool_result", "tool_use_id": name, "content": said, "is_error": False}


CLAUDE: list[dict[str, Any]] = [
    {"type": "summary", "summary": "Fix the build", "leafUuid": "u9"},
    {"type": "file-history-snapshot", "messageId": "u0", "snapshot": {}},
    claude("user", 0, message={"role": "user", "content": "please fix the build"}),
    claude(
        "assistant",
        1,
        message=answer("m1", {"type": "thinking", "thinking": "hm", "signature": "sig"}, output=1),
    ),
    claude("assistant", 2, message=answer("m1", words("I will look."), output=1)),
    claude("assistant", 3, message=answer("m1", use("t1"), output=1)),
    claude(
        "user",
        4,
        message={"role": "user", "content": [result("t1", "a.txt")]},
        toolUseResult={"stdout": "a.txt", "durationMs": 5},
    ),
    claude("progress", 5, data={"type": "hook_progress", "command": "true"}),
    claude("assistant", 6, message=answer("m1", use("t2", "Task"), output=9)),
    claude(
        "progress",
        7,
        data={
            "type": "agent_progress",
            "agentId": "a7",
            "message": {"type": "assistant", "uuid": "x1", "message": answer("m-side", words("from aside"))},
        },
    ),
    claude("user", 8, message={"role": "user", "content": [result("t2", "done"), words("and hurry up")]}),
    claude("queue-operation", 9, operation="enqueue", content="typed ahead"),
    claude("system", 10, subtype="compact_boundary", content="Conversation compacted"),
    claude(
        "user", 11, isCompactSummary=True, message={"role": "user", "content": "This session is continued"}
    ),
    claude("user", 12, isMeta=True, message={"role": "user", "content": "Caveat: made by a command"}),
    claude("assistant", 13, message=answer("m2", words("All green 🚀."), output=7)),
]

CODEX: list[dict[str, Any]] = [
    {"type": kind, "timestamp": T.format(at % 10), "payload": payload}
    for at, (kind, payload) in enumerate(
        [
            (
                "session_meta",
                {"id": "c-1", "timestamp": T.format(0), "cwd": "/home/ada/api", "instructions": None},
            ),
            ("turn_context", {"cwd": "/home/ada/api", "model": "gpt-x"}),
            ("event_msg", {"type": "user_message", "message": "list the files"}),
            (
                "response_item",
                {
                    "type": "message",
                    "role": "user",
                    "content": [
                        {"type": "input_text", "text": "<environment_context>x</environment_context>"}
                    ],
                },
            ),
            (
                "response_item",
                {
                    "type": "message",
                    "role": "user",
                    "id": "i1",
                    "content": [
                        {"type": "input_text", "text": "list the files"},
                        {"type": "input_image", "image_url": "data:image/png;base64,QUJD"},
                    ],
                },
            ),
            (
                "response_item",
                {
                    "type": "reasoning",
                    "summary": [{"type": "summary_text", "text": "ls"}],
                    "encrypted_content": "zz",
                },
            ),
            ("event_msg", {"type": "agent_reasoning", "text": "ls"}),
            (
                "response_item",
                {
                    "type": "function_call",
                    "call_id": "k1",
                    "name": "shell",
                    "arguments": '{"command":["ls"]}',
                },
            ),
            (
                "response_item",
                {"type": "custom_tool_call", "call_id": "k2", "name": "apply_patch", "input": "***"},
            ),
            ("event_msg", {"type": "exec_command_end", "call_id": "k1", "stdout": "a.txt", "exit_code": 0}),
            ("response_item", {"type": "function_call_output", "call_id": "k1", "output": "a.txt"}),
            (
                "event_msg",
                {
                    "type": "token_count",
                    "info": {
                        "total_token_usage": {"total_tokens": 130},
                        "last_token_usage": {
                            "input_tokens": 120,
                            "cached_input_tokens": 100,
                            "output_tokens": 10,
                            "total_tokens": 130,
                        },
                    },
                },
            ),
            (
                "event_msg",
                {
                    "type": "token_count",
                    "info": {"total_token_usage": {"total_tokens": 130}, "last_token_usage": {}},
                },
            ),
            (
                "response_item",
                {
                    "type": "custom_tool_call_output",
                    "call_id": "k2",
                    "output": [{"type": "input_text", "text": "ok"}],
                },
            ),
            (
                "event_msg",
                {
                    "type": "mcp_tool_call_end",
                    "call_id": "k3",
                    "invocation": {"server": "s", "tool": "look", "arguments": {"q": 1}},
                    "result": {"Ok": {"content": [{"type": "text", "text": "seen"}], "isError": False}},
                },
            ),
            ("event_msg", {"type": "agent_message", "message": "Two files."}),
            (
                "response_item",
                {
                    "type": "message",
                    "role": "assistant",
                    "id": "i9",
                    "content": [{"type": "output_text", "text": "Two files."}],
                },
            ),
            ("event_msg", {"type": "thread_name_updated", "thread_name": "Files"}),
            ("compacted", {"message": "so far: files", "replacement_history": []}),
        ]
    )
]

EXEC: list[dict[str, Any]] = [
    {"type": "thread.started", "thread_id": "e-1"},
    {"type": "turn.started"},
    {"type": "item.completed", "item": {"id": "i0", "type": "reasoning", "text": "think"}},
    {
        "type": "item.started",
        "item": {"id": "i1", "type": "command_execution", "command": "ls", "status": "in_progress"},
    },
    {"type": "item.started", "item": {"id": "i2", "type": "command_execution", "command": "pwd"}},
    {
        "type": "item.completed",
        "item": {
            "id": "i1",
            "type": "command_execution",
            "command": "ls",
            "aggregated_output": "a.txt",
            "exit_code": 0,
        },
    },
    {
        "type": "item.completed",
        "item": {
            "id": "i2",
            "type": "command_execution",
            "command": "pwd",
            "aggregated_output": "no",
            "exit_code": 1,
        },
    },
    {"type": "item.completed", "item": {"id": "i3", "type": "agent_message", "text": "Done."}},
    {"type": "turn.completed", "usage": {"input_tokens": 90, "cached_input_tokens": 80, "output_tokens": 7}},
]


def entry(own: str, parent: str | None, message: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    body = {"type": "message", "message": message} if message else {}
    return {**body, "id": own, "parentId": parent, "timestamp": T.format(1), **more}


PI: list[dict[str, Any]] = [
    {"type": "session", "version": 3, "id": "p-1", "timestamp": T.format(0), "cwd": "/home/ada/api"},
    entry("a", None, {"role": "user", "content": "hello"}),
    entry("b", "a", {"role": "assistant", "content": [words("wrong way")], "model": "pi-x"}),
    entry("c", "a", type="branch_summary", fromId="b", summary="tried the wrong way"),
    entry("d", "c", type="model_change", provider="p", modelId="pi-y"),
    entry(
        "e",
        "d",
        {
            "role": "user",
            "content": [words("again"), {"type": "image", "data": "QUJD", "mimeType": "image/png"}],
        },
    ),
    entry(
        "f",
        "e",
        {
            "role": "assistant",
            "model": "pi-y",
            "content": [
                {"type": "thinking", "thinking": "hm"},
                words("reading"),
                {"type": "toolCall", "id": "t1", "name": "read", "arguments": {"path": "a"}},
            ],
            "usage": {"input": 1, "output": 2, "cacheRead": 30, "cacheWrite": 4, "cost": {"total": 0.5}},
            "stopReason": "toolUse",
        },
    ),
    entry(
        "g",
        "f",
        {
            "role": "toolResult",
            "toolCallId": "t1",
            "toolName": "read",
            "content": [words("A")],
            "isError": True,
        },
    ),
    entry("h", "g", type="compaction", summary="read a", firstKeptEntryId="e", tokensBefore=9),
    entry("i", "h", type="session_info", name="Reading"),
    entry("j", "i", {"role": "bashExecution", "command": "ls", "output": "a", "exitCode": 0}),
]

GEMINI: dict[str, Any] = {
    "sessionId": "g-1",
    "projectHash": "ff",
    "startTime": T.format(0),
    "lastUpdated": T.format(9),
    "summary": "Colours",
    "messages": [
        {"id": "1", "timestamp": T.format(1), "type": "user", "content": [{"text": "choose a colour"}]},
        {"id": "2", "timestamp": T.format(2), "type": "info", "content": "an update is there"},
        {
            "id": "3",
            "timestamp": T.format(3),
            "type": "gemini",
            "content": "I will write.",
            "model": "gemini-x",
            "thoughts": [{"subject": "Colour", "description": "blue is fine", "timestamp": T.format(3)}],
            "tokens": {"input": 100, "output": 5, "cached": 50, "thoughts": 6, "tool": 0, "total": 111},
            "toolCalls": [
                {
                    "id": "w1",
                    "name": "write_file",
                    "args": {"path": "blue.md"},
                    "result": [
                        {"functionResponse": {"id": "w1", "name": "write_file", "response": {"output": "ok"}}}
                    ],
                    "status": "success",
                },
                {"id": "w2", "name": "shell", "args": {}, "status": "cancelled", "resultDisplay": "stopped"},
            ],
        },
        {"id": "4", "timestamp": T.format(4), "type": "gemini", "content": "Done."},
    ],
}

GEMINI_LINES: list[dict[str, Any]] = [
    {name: GEMINI[name] for name in ("sessionId", "projectHash", "startTime", "lastUpdated")},
    GEMINI["messages"][0],
    {**GEMINI["messages"][2], "toolCalls": [], "tokens": None},
    GEMINI["messages"][2],
    {"id": "5", "timestamp": T.format(5), "type": "user", "content": "no, stop"},
    {"$rewindTo": "5"},
    {"$set": {"summary": "Colours"}},
    GEMINI["messages"][3],
]

CLIO_SAID: list[dict[str, Any]] = [
    {
        "role": "user",
        "content": "save the session atomically",
        "id": "t1",
        "timestamp": "2026-11-15T08:00:00Z",
    },
    {
        "role": "assistant",
        "content": "",
        "id": "t2",
        "tool_calls": [
            {"id": "k1", "type": "function", "function": {"name": "file", "arguments": '{"path":"a"}'}}
        ],
    },
    {"role": "tool", "content": "written", "tool_call_id": "k1", "id": "t3"},
    {"role": "assistant", "content": "Saved.", "id": "t4"},
    {"role": "user", "content": "thanks", "id": "t5"},
]

CLIO: dict[str, Any] = {
    "session_name": "Atomic saves",
    "working_directory": "/home/ada/clio",
    "created_at": 1794700000,
    "history": [{"role": "system", "content": "<thread_summary>x</thread_summary>"}, *CLIO_SAID[3:]],
    "stm": [{"role": "user", "content": "thanks"}],
    "yarn": {"c-1": {"messages": CLIO_SAID}},
    "billing": {
        "model": "clio-x",
        "requests": [
            {
                "timestamp": 1794700001,
                "model": "clio-x",
                "prompt_tokens": 50,
                "completion_tokens": 5,
                "total_tokens": 55,
            }
        ],
    },
}

CHAT: list[dict[str, Any]] = [
    {"role": "system", "content": "be brief"},
    {"role": "user", "content": "list the files"},
    {
        "role": "assistant",
        "content": "Looking.",
        "tool_calls": [{"id": "k1", "type": "function", "function": {"name": "ls", "arguments": "{}"}}],
    },
    {"role": "tool", "tool_call_id": "k1", "content": "a.txt"},
    {"role": "assistant", "content": "One file."},
]


def copilot(kind: str, number: int, *, agent: str = "", **data: Any) -> dict[str, Any]:
    about = {"id": f"e{number}", "timestamp": T.format(number % 10), "parentId": f"e{number - 1}"}
    return {"type": kind, "data": data, **about, **({"agentId": agent} if agent else {})}


COPILOT = [
    copilot(
        "session.start",
        0,
        sessionId="s-1",
        startTime=T.format(0),
        selectedModel="gpt-x",
        context={"cwd": "/home/ada/api", "branch": "main"},
    ),
    copilot("system.message", 1, role="system", content="You are the GitHub Copilot CLI."),
    copilot(
        "user.message",
        2,
        content="please fix the build",
        transformedContent="please fix the build\n<system_reminder>from a hook</system_reminder>",
        messageId="m1",
    ),
    copilot(
        "session.usage_record",
        3,
        usage={
            "model": "gpt-x",
            "inputTokens": 120,
            "outputTokens": 10,
            "cacheReadTokens": 100,
            "apiCallId": "a1",
        },
    ),
    copilot(
        "assistant.message",
        4,
        content="I will look.",
        reasoningText="Where is it?",
        model="gpt-x",
        apiCallId="a1",
        toolRequests=[
            {"toolCallId": "t1", "name": "bash", "arguments": {"command": "make"}, "type": "function"},
            {"toolCallId": "t2", "name": "task", "arguments": {"prompt": "look"}, "type": "function"},
        ],
    ),
    copilot("tool.execution_start", 5, toolCallId="t1", toolName="bash"),
    copilot("tool.execution_complete", 6, toolCallId="t1", success=False, error={"message": "exit 2"}),
    copilot("assistant.message", 7, agent="sub-1", content="I am a subagent.", parentToolCallId="t2"),
    copilot("tool.execution_complete", 8, toolCallId="t2", success=True, result={"content": "done"}),
    copilot("session.title_changed", 9, title="Fix the build"),
    copilot("user.message", 10, content="a skill", source="skill-pdf"),
    copilot("session.compaction_complete", 11, success=True, summaryContent="The build was fixed."),
    copilot("session.compaction_complete", 12, success=False, error="no"),
    copilot("assistant.message", 13, content="All green 🚀.", model="gpt-x", apiCallId="a2", toolRequests=[]),
]

AMP = {
    "amp": 1,
    "thread": {"id": "T-1", "cwd": "/home/ada/api", "title": "Fix the build"},
    "messages": [
        {
            "role": "user",
            "id": "m0",
            "time": T.format(0),
            "content": [{"type": "text", "text": "please fix the build"}],
        },
        {
            "role": "assistant",
            "id": "m1",
            "time": T.format(1),
            "content": [
                {"type": "thinking", "thinking": "Where is it?"},
                {"type": "text", "text": "I will look."},
                {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"cmd": "make"}},
                {"type": "tool_use", "id": "t2", "name": "Read", "input": {}},
            ],
        },
        {
            "role": "user",
            "id": "m2",
            "time": T.format(2),
            "content": [
                {"type": "tool_result", "toolUseID": "t1", "output": "exit 2", "status": "error"},
                {
                    "type": "tool_result",
                    "toolUseID": "t2",
                    "output": [{"type": "text", "text": "done"}],
                    "status": "done",
                },
                {"type": "text", "text": "and hurry up"},
            ],
        },
        {
            "role": "info",
            "id": "m3",
            "time": T.format(3),
            "content": [{"type": "text", "text": "Reconnected"}],
        },
        {
            "role": "assistant",
            "id": 4,
            "time": T.format(4),
            "content": [{"type": "text", "text": "All green 🚀."}],
        },
    ],
}


def as_lines(records: Iterable[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(record, ensure_ascii=False).encode() + b"\n" for record in records)


# name of the format, name of the file, its bytes
CLINE: dict[str, Any] = {
    "version": 1,
    "updated_at": "2026-11-15T08:15:39.123Z",
    "sessionId": "n-1",
    "messages": [
        {
            "id": "m1",
            "role": "user",
            "content": [words('<user_input mode="act">list the files</user_input>')],
            "ts": 1794730530123,
        },
        {
            "id": "m2",
            "role": "user",
            "content": [words('<hook_context source="RunStart">\nAda likes tabs\n</hook_context>')],
            "ts": 1794730530200,
            "metadata": {"displayRole": "system"},
        },
        {
            "id": "m3",
            "role": "assistant",
            "content": [{"type": "thinking", "thinking": "hm"}, use("k1", "run_commands")],
            "ts": 1794730531123,
            "modelInfo": {"id": "cline-x", "provider": "p"},
            "metrics": {"inputTokens": 30, "outputTokens": 2, "cacheReadTokens": 20, "cost": 0.5},
        },
        {
            "id": "m4",
            "role": "user",
            "content": [{**result("k1", "a.txt"), "name": "run_commands"}],
            "ts": 1794730532123,
        },
        {"id": "m5", "role": "assistant", "content": [words("One file.")], "ts": 1794730533123},
    ],
}

GOOSE: dict[str, Any] = {
    "id": "20261115_1",
    "working_dir": "/home/ada/api",
    "name": "Files",
    "session_type": "user",
    "created_at": "2026-11-15T08:15:30Z",
    "conversation": [
        {
            "id": "g1",
            "role": "user",
            "created": 1794730530,
            "content": [words("list the files"), {"type": "image", "data": "QUJD", "mimeType": "image/png"}],
            "metadata": {"userVisible": True, "agentVisible": True},
        },
        {
            "id": "g2",
            "role": "user",
            "created": 1794730530,
            "content": [words("<turn-context>now</turn-context>")],
            "metadata": {"userVisible": False, "agentVisible": True, "turnContext": True},
        },
        {
            "id": "g3",
            "role": "assistant",
            "created": 1794730531,
            "content": [
                {"type": "thinking", "thinking": "hm", "signature": ""},
                {
                    "type": "toolRequest",
                    "id": "k1",
                    "toolCall": {
                        "status": "success",
                        "value": {"name": "shell", "arguments": {"command": "ls"}},
                    },
                },
                {
                    "type": "toolRequest",
                    "id": "k2",
                    "toolCall": {
                        "status": "success",
                        "value": {"name": "shell", "arguments": {"command": "no"}},
                    },
                },
            ],
            "metadata": {
                "userVisible": True,
                "agentVisible": True,
                "inference": {"provider": "p", "requestedModel": "goose-x"},
                "usage": {"inputTokens": 30, "outputTokens": 2, "totalTokens": 32, "cost": 0.5},
            },
        },
        {
            "id": "g4",
            "role": "user",
            "created": 1794730532,
            "content": [
                {
                    "type": "toolResponse",
                    "id": "k1",
                    "toolResult": {
                        "status": "success",
                        "value": {"content": [words("a.txt")], "isError": False},
                    },
                },
                {
                    "type": "toolResponse",
                    "id": "k2",
                    "toolResult": {"status": "error", "error": "no such command"},
                },
            ],
            "metadata": {"userVisible": True, "agentVisible": True},
        },
        {"id": "g5", "role": "assistant", "created": 1794730533, "content": [words("One file.")]},
    ],
}

WINDSURF: list[dict[str, Any]] = [
    {
        "status": "done",
        "type": "user_input",
        "user_input": {"rules_applied": {"always_on": ["vade.md"]}, "user_response": "make a file"},
    },
    {"planner_response": {"response": "I will."}, "status": "done", "type": "planner_response"},
    {
        "code_action": {"new_content": "print()\n", "path": "/home/ada/api/a.py"},
        "status": "done",
        "type": "code_action",
    },
    {
        "mcp_tool": {"tool_name": "memory_search", "arguments": '{"query": "tabs"}', "result": "nothing"},
        "status": "done",
        "type": "mcp_tool",
    },
    {"planner_response": {"response": "Made."}, "status": "done", "type": "planner_response"},
]

SAMPLES: dict[str, tuple[str, str, bytes]] = {
    "claude-code": ("claude-code", "s-1.jsonl", as_lines(CLAUDE)),
    "codex": ("codex", "rollout-2026-c-1.jsonl", as_lines(CODEX)),
    "codex-exec": ("codex", "out.jsonl", as_lines(EXEC)),
    "openclaw": ("openclaw", "p-1.jsonl", as_lines(PI)),
    "gemini": ("gemini-cli", "session-1.json", json.dumps(GEMINI, indent=2).encode()),
    "gemini-lines": ("gemini-cli", "session-1.jsonl", as_lines(GEMINI_LINES)),
    "clio": ("clio", "c-1.json", json.dumps(CLIO).encode()),
    "cline": ("cline", "n-1.messages.json", json.dumps(CLINE, indent=2).encode()),
    "goose": ("goose", "20261115_1.json", json.dumps(GOOSE, indent=2).encode()),
    "windsurf": ("windsurf", "w-1.jsonl", as_lines(WINDSURF)),
    "copilot": ("copilot", "events.jsonl", as_lines(COPILOT)),
    "amp": ("amp", "T-1.json", json.dumps(AMP).encode()),
    "list": ("messages", "chat.json", json.dumps(CHAT, indent=1).encode()),
    "list-lines": ("messages", "chat.jsonl", as_lines(CHAT)),
}
IN_LINES = [name for name, (_, file, _) in SAMPLES.items() if file.endswith("l")]


def read(name: str, folder: Path, body: bytes | None = None) -> Read:
    form, file, sample = SAMPLES[name]
    path = folder / file
    path.write_bytes(sample if body is None else body)
    return list(transcript_format(form).read(path))


def messages(found: Read) -> list[Message]:
    return [each for each in found if isinstance(each, Message)]


def usages(found: Read) -> list[TranscriptUsage]:
    return [each for each in found if isinstance(each, TranscriptUsage)]


def unread(found: Read) -> list[Unread]:
    return [each for each in found if isinstance(each, Unread)]


def told(found: Read) -> SessionFacts:
    whole: dict[str, str] = {}
    for each in found:
        if isinstance(each, SessionFacts):
            whole.update({name: value for name, value in each._asdict().items() if value})
    return SessionFacts(**whole)


def said(found: Read) -> Counter[tuple[str, str]]:
    """Everything anybody said, asked for and got, however it is cut into messages."""
    counted: Counter[tuple[str, str]] = Counter()
    for message in messages(found):
        for part in message.parts:
            if isinstance(part, Text | Thinking):
                counted[type(part).__name__, part.text] += 1
        counted.update(("call", call.id) for call in message.calls)
        counted.update(("result", f"{each.id}: {each.text}") for each in message.results)
    return counted


# What holds for every format.


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_recognised_as_its_format_and_as_no_other(name: str, tmp_path: Path) -> None:
    form, file, body = SAMPLES[name]
    (tmp_path / file).write_bytes(body)
    found = recognise_transcript(tmp_path / file)
    assert found is not None
    assert found.name == form


@pytest.mark.parametrize("name", SAMPLES)
def test_a_sample_is_read_without_anything_unread(name: str, tmp_path: Path) -> None:
    found = read(name, tmp_path)
    assert unread(found) == []
    assert messages(found)


@pytest.mark.parametrize("name", SAMPLES)
def test_every_call_of_a_sample_is_followed_by_its_result_before_the_next_answer(
    name: str, tmp_path: Path
) -> None:
    waiting: set[str] = set()
    for message in messages(read(name, tmp_path)):
        if SIDE in message.extra:
            continue
        if message.role is Role.ASSISTANT:
            assert not waiting
        waiting |= {call.id for call in message.calls}
        for each in message.results:
            waiting.remove(each.id)
    assert not waiting


@pytest.mark.parametrize("name", SAMPLES)
def test_what_is_read_goes_into_a_transcript_and_back(name: str, tmp_path: Path) -> None:
    for message in messages(read(name, tmp_path)):
        text = json.dumps(to_json(message), ensure_ascii=False)
        text.encode()
        assert from_json(json.loads(text)) == message


@pytest.mark.parametrize("name", IN_LINES)
def test_a_file_whose_first_line_is_long_is_recognised(name: str, tmp_path: Path) -> None:
    form, file, body = SAMPLES[name]
    first, _, rest = body.partition(b"\n")
    (tmp_path / file).write_bytes(first[:-1] + b', "pasted": "' + b"x" * 200_000 + b'"}\n' + rest)
    known = recognise_transcript(tmp_path / file)
    assert known is not None
    assert known.name == form


def test_formats_are_found_by_name() -> None:
    assert [each.name for each in transcript_formats()] == [
        "qwen-code",
        "claude-code",
        "copilot",
        "codex",
        "openclaw",
        "amp",
        "cline",
        "goose",
        "opencode",
        "windsurf",
        "gemini-cli",
        "clio",
        "messages",
    ]
    with pytest.raises(UnknownName, match="no transcript format 'emacs'"):
        transcript_format("emacs")


@pytest.mark.parametrize("body", [b"", b"hello", b"[1, 2]", b'{"a": 1}', b"\0\0\0", b"\xff\xfe{}", b"PK\3\4"])
def test_a_file_that_is_no_transcript_is_recognised_as_none(body: bytes, tmp_path: Path) -> None:
    for name in ("x.json", "x.jsonl", "x.bin"):
        (tmp_path / name).write_bytes(body)
        assert recognise_transcript(tmp_path / name) is None
    assert recognise_transcript(tmp_path) is None
    assert recognise_transcript(tmp_path / "absent") is None


def test_each_agent_is_looked_for_where_it_keeps_its_transcripts(tmp_path: Path) -> None:
    places = {
        "claude-code": [
            ".claude/projects/-home-ada/s.jsonl",
            ".claude/projects/-home-ada/s/subagents/agent-1.jsonl",
        ],
        "codex": [".codex/sessions/2026/11/15/rollout-1.jsonl"],
        "copilot": [".copilot/session-state/s-1/events.jsonl"],
        "amp": [".local/share/amp/vade/T-1.json"],
        "openclaw": [".openclaw/agents/main/sessions/s.jsonl", ".pi/agent/sessions/--home--/s.jsonl"],
        "gemini-cli": [".gemini/tmp/ff/chats/session-1.json", ".gemini/tmp/ee/logs.json"],
        "clio": [".clio/sessions/s.json"],
        "messages": [],
        "cline": [".cline/data/sessions/1/1.messages.json"],
        "goose": [".local/share/goose/vade/20261115_1.json"],
        "opencode": [".local/share/opencode/vade/ses_1.json"],
        "windsurf": [".windsurf/transcripts/w-1.jsonl"],
        "qwen-code": [".qwen/projects/-home-ada/chats/s.jsonl"],
    }
    for path in [
        *(each for some in places.values() for each in some),
        ".codex/sessions/other.jsonl",
        ".cline/data/sessions/1/1.json",
        ".gemini/tmp/ff/logs.json",
    ]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("{}\n")
    for form in transcript_formats():
        kept = [(tmp_path / folder, pattern) for folder, pattern in form.folders.items()]
        found = [file for folder, pattern in kept for file in form.files(folder, pattern)]
        assert sorted(found) == sorted(tmp_path / each for each in places[form.name])


# Copilot and Amp.


def test_copilots_prompts_are_read_as_they_were_typed_and_its_asides_are_flagged(tmp_path: Path) -> None:
    found = read("copilot", tmp_path)
    users = [each for each in messages(found) if each.role is Role.USER]
    assert [each.text for each in users] == ["please fix the build", "a skill"]
    assert [each.extra.get(META) for each in users] == [None, "skill-pdf"]
    first = next(each for each in messages(found) if each.role is Role.ASSISTANT)
    assert [type(part) for part in first.parts] == [Thinking, Text, ToolCall, ToolCall]
    (side,) = [each for each in messages(found) if SIDE in each.extra]
    assert (side.text, side.extra[SIDE]) == ("I am a subagent.", "sub-1")
    (summary,) = [each for each in messages(found) if SUMMARY in each.extra]
    assert (summary.role, summary.text) == (Role.SYSTEM, "The build was fixed.")
    failed, done = [part for each in messages(found) for part in each.results]
    assert (failed.text, failed.error, done.text, done.error) == ("exit 2", True, "done", False)
    assert usages(found) == [TranscriptUsage(120, 10, 100, 130, 0.0, "gpt-x", "2026-11-15T08:15:33Z")]
    assert told(found) == SessionFacts(
        "s-1", "Fix the build", "/home/ada/api", "2026-11-15T08:15:30Z", "gpt-x"
    )


def test_a_thread_of_amp_has_results_apart_from_what_a_person_said(tmp_path: Path) -> None:
    found = messages(read("amp", tmp_path))
    assert [str(each.role) for each in found] == ["user", "assistant", "tool", "user", "system", "assistant"]
    assert [(part.text, part.error) for part in found[2].results] == [("exit 2", True), ("done", False)]
    assert (found[3].text, found[4].extra[META]) == ("and hurry up", "info")
    assert told(read("amp", tmp_path)) == SessionFacts(
        "T-1", "Fix the build", "/home/ada/api", "2026-11-15T08:15:30Z"
    )


# Claude Code.


def test_claude_codes_lines_of_one_answer_are_one_message_and_its_usage_is_told_once(tmp_path: Path) -> None:
    found = read("claude-code", tmp_path)
    first = next(each for each in messages(found) if each.role is Role.ASSISTANT)
    assert [type(part) for part in first.parts] == [Thinking, Text, ToolCall, ToolCall]
    assert first.id == "u1"
    assert first.extra["ids"] == ["u2", "u3", "u6"]
    assert first.time == "2026-11-15T08:15:31Z"
    assert usages(found) == [
        TranscriptUsage(113, 9, 100, 122, 0.0, "claude-x", "2026-11-15T08:15:36Z"),
        TranscriptUsage(113, 7, 100, 120, 0.0, "claude-x", "2026-11-15T08:15:33Z"),
    ]
    assert found.index(first) + 1 == found.index(usages(found)[0])


def test_claude_codes_asides_are_flagged(tmp_path: Path) -> None:
    found = messages(read("claude-code", tmp_path))
    flags = {
        each.text: {key: each.extra[key] for key in (META, SIDE, SUMMARY) if key in each.extra}
        for each in found
    }
    assert flags["please fix the build"] == {}
    assert flags["and hurry up"] == {}
    assert flags["from aside"] == {SIDE: "a7"}
    assert flags["typed ahead"] == {META: "queue-operation"}
    assert flags["Conversation compacted"] == {META: "compact_boundary"}
    assert flags["This session is continued"] == {SUMMARY: True}
    assert flags["Caveat: made by a command"] == {META: "isMeta"}


def test_claude_code_tells_its_session(tmp_path: Path) -> None:
    found = told(read("claude-code", tmp_path))
    assert found == SessionFacts("s-1", "Fix the build", "/home/ada/api", "2026-11-15T08:15:30Z", "claude-x")


def test_a_title_that_a_person_gave_stays(tmp_path: Path) -> None:
    titles = [
        {"type": "custom-title", "customTitle": "Mine", "sessionId": "s-1"},
        {"type": "ai-title", "aiTitle": "Theirs", "sessionId": "s-1"},
    ]
    assert told(read("claude-code", tmp_path, as_lines([*CLAUDE, *titles]))).title == "Mine"


def test_claude_code_keeps_of_a_results_other_copy_what_the_result_has_not(tmp_path: Path) -> None:
    results = [each for message in messages(read("claude-code", tmp_path)) for each in message.results]
    assert results[0].extra["toolUseResult"] == {"durationMs": 5}


def test_a_late_piece_of_an_answer_adds_only_what_was_not_counted(tmp_path: Path) -> None:
    late = claude("assistant", 14, message=answer("m1", words("and more"), output=20))
    found = read("claude-code", tmp_path, as_lines([*CLAUDE, late]))
    assert sum(each.output for each in usages(found)) == 20 + 7
    assert sum(each.input for each in usages(found)) == 113 * 2


def test_pieces_that_never_end_do_not_pile_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("vademecum.transcripts.foreign.LONGEST", 10_000)
    many = [claude("assistant", at, message=answer("m1", words("x" * 1000), output=3)) for at in range(50)]
    found = read("claude-code", tmp_path, as_lines(many))
    assert max(len(each.text) for each in messages(found)) < 12_000
    assert said(found)["Text", "x" * 1000] == 50
    assert [each.output for each in usages(found)] == [3]


# Codex.


def test_codex_says_each_thing_once_although_its_file_says_it_twice(tmp_path: Path) -> None:
    found = messages(read("codex", tmp_path))
    assert [(each.role.value, each.text) for each in found if each.text] == [
        ("user", "<environment_context>x</environment_context>"),
        ("user", "list the files"),
        ("assistant", "Two files."),
        ("system", "so far: files"),
    ]
    assert found[0].extra[META] == "context"
    assert found[-1].extra[SUMMARY] == "compacted"
    assert found[1].parts[1] == Image("image/png", "QUJD")


def test_codexs_items_between_results_are_one_answer(tmp_path: Path) -> None:
    found = messages(read("codex", tmp_path))
    first = next(each for each in found if each.role is Role.ASSISTANT)
    assert [type(part) for part in first.parts] == [Thinking, ToolCall, ToolCall]
    assert [call.name for each in found for call in each.calls] == ["shell", "apply_patch", "look"]
    assert [each.text for message in found for each in message.results] == ["a.txt", "ok", "seen"]


def test_codexs_repeated_count_is_no_second_call(tmp_path: Path) -> None:
    found = read("codex", tmp_path)
    assert usages(found) == [TranscriptUsage(120, 10, 100, 130, model="gpt-x", time="2026-11-15T08:15:31Z")]
    assert told(found) == SessionFacts("c-1", "Files", "/home/ada/api", "2026-11-15T08:15:30Z", "gpt-x")


def test_words_that_only_an_event_of_codex_has_are_read(tmp_path: Path) -> None:
    events = [each for each in CODEX if each["type"] != "response_item"]
    found = messages(read("codex", tmp_path, as_lines(events)))
    assert [each.text for each in found if each.text] == ["list the files", "Two files.", "so far: files"]
    assert [call.id for each in found for call in each.calls] == ["k1", "k3"]


def test_thoughts_that_codex_shows_one_by_one_are_read_once(tmp_path: Path) -> None:
    thoughts = ["first this", "then that"]
    item = {"type": "reasoning", "summary": [{"type": "summary_text", "text": each} for each in thoughts]}
    events = [
        {"type": "event_msg", "payload": {"type": "agent_reasoning", "text": each}} for each in thoughts
    ]
    whole = {"type": "response_item", "payload": item}
    for records in ([*events, whole], [whole, *events]):
        found = messages(read("codex", tmp_path, as_lines(records)))
        assert [part.text for each in found for part in each.parts if isinstance(part, Thinking)] == thoughts


def test_a_second_run_of_codex_exec_in_one_file_counts_its_items_anew(tmp_path: Path) -> None:
    once = said(read("codex-exec", tmp_path))
    twice = said(read("codex-exec", tmp_path, as_lines([*EXEC, *EXEC])))
    assert twice == once + once


def test_a_rollout_of_the_first_codex_has_bare_items(tmp_path: Path) -> None:
    items = [each["payload"] for each in CODEX if each["type"] == "response_item"]
    head = {"id": "old", "timestamp": T.format(0), "instructions": None}
    body = as_lines([head, {"record_type": "state"}, *items])
    found = read("codex", tmp_path, body)
    assert recognise_transcript(tmp_path / SAMPLES["codex"][1]) is not None
    assert unread(found) == []
    assert told(found).id == "old"
    assert said(found)["Text", "Two files."] == 1


def test_the_stream_of_codex_exec_pairs_calls_that_ran_at_once(tmp_path: Path) -> None:
    found = read("codex-exec", tmp_path)
    first, *rest = messages(found)
    assert [type(part) for part in first.parts] == [Thinking, ToolCall, ToolCall]
    assert [(each.id, each.text, each.error) for message in rest for each in message.results] == [
        ("i1", "a.txt", False),
        ("i2", "no", True),
    ]
    assert rest[-1].text == "Done."
    assert usages(found) == [TranscriptUsage(90, 7, 80, 97)]
    assert told(found).id == "e-1"


# Cline, goose and Windsurf.


def test_clines_prompt_loses_its_tag_and_the_text_of_hooks_is_flagged(tmp_path: Path) -> None:
    (tmp_path / "n-1.json").write_text(
        '{"cwd": "/home/ada/api", "started_at": "2026-11-15T08:15:30.1Z", "metadata": {"title": "Files"}}'
    )
    found = read("cline", tmp_path)
    assert [each.text for each in messages(found) if each.role is Role.USER and META not in each.extra] == [
        "list the files"
    ]
    assert [each.extra[META] for each in messages(found) if META in each.extra] == ["for the model"]
    results = [each for message in messages(found) for each in message.results]
    assert [(each.id, each.name, each.text) for each in results] == [("k1", "run_commands", "a.txt")]
    assert usages(found) == [TranscriptUsage(30, 2, 20, 32, 0.5, "cline-x", "2026-11-15T08:15:31Z")]
    assert told(found) == SessionFacts("n-1", "Files", "/home/ada/api", "2026-11-15T08:15:30Z", "cline-x")


@pytest.mark.parametrize("beside", [None, "", "[]", '{"cwd": 7, "metadata": "x"}', "{"])
def test_a_session_of_cline_is_read_whatever_stands_beside_it(beside: str | None, tmp_path: Path) -> None:
    if beside is not None:
        (tmp_path / "n-1.json").write_text(beside)
    found = read("cline", tmp_path)
    assert (told(found).id, told(found).folder) == ("n-1", "")
    assert len(messages(found)) == 5


def test_goose_tells_a_failed_call_from_one_that_worked(tmp_path: Path) -> None:
    found = read("goose", tmp_path)
    results = [each for message in messages(found) for each in message.results]
    assert [(each.id, each.text, each.error) for each in results] == [
        ("k1", "a.txt", False),
        ("k2", "no such command", True),
    ]
    assert [each.text for each in messages(found) if META in each.extra] == [
        "<turn-context>now</turn-context>"
    ]
    assert messages(found)[0].parts[1] == Image("image/png", data="QUJD")
    assert usages(found) == [TranscriptUsage(30, 2, 0, 32, 0.5, "goose-x", "2026-11-15T08:15:31Z")]
    assert told(found) == SessionFacts(
        "20261115_1", "Files", "/home/ada/api", "2026-11-15T08:15:30Z", "goose-x"
    )


def test_a_step_of_windsurf_that_nobody_knows_is_a_call_with_all_that_it_has(tmp_path: Path) -> None:
    found = messages(read("windsurf", tmp_path))
    assert [(each.role.value, each.text) for each in found if each.text] == [
        ("user", "make a file"),
        ("assistant", "I will."),
        ("assistant", "Made."),
    ]
    action, own = [call for each in found for call in each.calls]
    assert (action.name, json.loads(action.arguments)) == ("code_action", WINDSURF[2]["code_action"])
    assert (own.name, own.arguments) == ("memory_search", '{"query": "tabs"}')
    assert is_memory_call(own)
    assert [each.text for message in found for each in message.results] == ["", "nothing"]


# OpenClaw and pi.


def test_a_branch_that_was_left_is_read_and_flagged(tmp_path: Path) -> None:
    found = messages(read("openclaw", tmp_path))
    assert [each.id for each in found] == ["a", "b", "c", "e", "f", "g", "h", "j"]
    assert [each.id for each in found if LEFT in each.extra] == ["b"]
    assert [each.id for each in found if SUMMARY in each.extra] == ["c", "h"]
    assert found[-1].text == "! ls\n\na"


def test_openclaw_tells_what_it_cost_and_what_it_was_about(tmp_path: Path) -> None:
    found = read("openclaw", tmp_path)
    assert usages(found) == [TranscriptUsage(35, 2, 30, 37, 0.5, "pi-y", "2026-11-15T08:15:31Z")]
    assert told(found) == SessionFacts("p-1", "Reading", "/home/ada/api", "2026-11-15T08:15:30Z", "pi-x")
    results = [each for message in messages(found) for each in message.results]
    assert [(each.id, each.name, each.error) for each in results] == [("t1", "read", True)]


def test_a_torn_line_in_the_middle_does_not_make_a_branch_of_what_is_before_it(tmp_path: Path) -> None:
    pieces = as_lines(PI).splitlines(keepends=True)
    pieces[5] = pieces[5][:40] + b"\n"
    found = read("openclaw", tmp_path, b"".join(pieces))
    assert [each.id for each in messages(found) if LEFT in each.extra] == ["b"]
    assert [each.line for each in unread(found)] == [6]


def test_entries_that_are_each_others_parents_end_the_walk(tmp_path: Path) -> None:
    ring = [
        entry("a", "c", {"role": "user", "content": "1"}),
        entry("b", "a", {"role": "user", "content": "2"}),
    ]
    ring += [
        entry("c", "b", {"role": "user", "content": "3"}),
        entry("c", "c", {"role": "user", "content": "4"}),
    ]
    assert len(messages(read("openclaw", tmp_path, as_lines(ring)))) == 4


# Gemini CLI.


def test_gemini_keeps_thoughts_words_calls_and_results_apart(tmp_path: Path) -> None:
    found = read("gemini", tmp_path)
    spoken = messages(found)
    assert [each.role.value for each in spoken] == ["user", "system", "assistant", "tool", "assistant"]
    assert [type(part) for part in spoken[2].parts] == [Thinking, Text, ToolCall, ToolCall]
    assert [(each.id, each.text, each.error) for each in spoken[3].results] == [
        ("w1", "ok", False),
        ("w2", "stopped", True),
    ]
    assert usages(found) == [TranscriptUsage(100, 11, 50, 111, model="gemini-x", time="2026-11-15T08:15:33Z")]
    assert told(found) == SessionFacts("g-1", "Colours", "", "2026-11-15T08:15:30Z", "gemini-x")


def test_geminis_lines_give_the_last_state_of_a_message_and_flag_what_was_taken_back(tmp_path: Path) -> None:
    found = read("gemini-lines", tmp_path)
    assert [(each.id, LEFT in each.extra) for each in messages(found)] == [
        ("1", False),
        ("3", False),
        ("3:results", False),
        ("5", True),
        ("4", False),
    ]
    assert told(found).title == "Colours"
    assert len(usages(found)) == 1


def test_what_gemini_keeps_of_a_compressed_history_is_read_once(tmp_path: Path) -> None:
    def said(id: str, type: str, words: str) -> dict[str, Any]:
        return {"id": id, "timestamp": T.format(1), "type": type, "content": [{"text": words}]}

    summary = [
        said("s", "user", "<state_snapshot>Colours.</state_snapshot>"),
        said("t", "gemini", "Got it. Thanks for the additional context!"),
    ]
    kept = [said("3", "user", "And the crane?"), said("4", "gemini", "Teal.")]
    lines = [
        GEMINI_LINES[0],
        *(said("1", "user", "And the crane?"), said("2", "gemini", "Teal.")),
        {"$set": {"messages": [*summary, *kept, said("5", "user", "Only here.")]}},
        said("6", "user", "And the crane?"),
    ]
    found = [each.text for each in messages(read("gemini-lines", tmp_path, as_lines(lines)))]
    assert [each for each in found if not each.startswith(("<state", "Got it"))] == [
        *("And the crane?", "Teal.", "Only here.", "And the crane?"),
    ]


def test_gemini_finds_its_folder_beside_the_chats(tmp_path: Path) -> None:
    chats = tmp_path / "api" / "chats"
    chats.mkdir(parents=True)
    (tmp_path / "api" / ".project_root").write_text("/home/ada/api\n")
    assert told(read("gemini", chats)).folder == "/home/ada/api"


def test_geminis_logs_and_checkpoints_are_read(tmp_path: Path) -> None:
    logs = [
        {"sessionId": "g-1", "messageId": 0, "type": "user", "message": "hello", "timestamp": T.format(1)}
    ]
    found = messages(read("gemini", tmp_path, json.dumps(logs).encode()))
    assert [(each.id, each.text, each.extra["sessionId"]) for each in found] == [("0", "hello", "g-1")]
    kept = [
        {"role": "user", "parts": [{"text": "hi"}]},
        {"role": "model", "parts": [{"functionCall": {"name": "ls", "args": {}}}]},
        {"role": "user", "parts": [{"functionResponse": {"name": "ls", "response": {"output": "a"}}}]},
    ]
    found = messages(read("gemini", tmp_path, json.dumps(kept).encode()))
    assert [each.role.value for each in found] == ["user", "assistant", "tool"]
    form = recognise_transcript(tmp_path / "session-1.json")
    assert form is not None
    assert form.name == "gemini-cli"


# CLIO.


def test_clios_archive_and_history_are_laid_over_one_another(tmp_path: Path) -> None:
    found = read("clio", tmp_path)
    spoken = messages(found)
    assert [each.id for each in spoken] == ["", "t1", "t2", "t3", "t4", "t5"]
    assert [each.id for each in spoken if "archived" in each.extra] == ["t1", "t2", "t3"]
    assert spoken[0].extra[SUMMARY] == "thread_summary"
    assert spoken[2].calls[0].arguments == '{"path":"a"}'
    assert spoken[3].results[0].text == "written"
    assert told(found) == SessionFacts("c-1", "Atomic saves", "/home/ada/clio", moment(1794700000), "clio-x")
    assert usages(found) == [TranscriptUsage(50, 5, 0, 55, model="clio-x", time=moment(1794700001))]


# Lists of messages.


@pytest.mark.parametrize("name", ["list", "list-lines"])
def test_a_plain_list_of_messages_is_read(name: str, tmp_path: Path) -> None:
    found = messages(read(name, tmp_path))
    assert [each.role.value for each in found] == ["system", "user", "assistant", "tool", "assistant"]
    assert found[2].calls[0].name == "ls"
    assert found[3].results[0].text == "a.txt"


def test_a_list_of_anthropics_messages_is_read(tmp_path: Path) -> None:
    given = [
        {"role": "user", "content": "list"},
        {"role": "assistant", "content": [words("Looking."), use("t1")]},
        {"role": "user", "content": [result("t1", "a.txt")]},
    ]
    for body in (json.dumps(given), json.dumps({"messages": given}), "\n".join(map(json.dumps, given))):
        found = messages(read("list-lines", tmp_path, body.encode()))
        assert [each.role.value for each in found] == ["user", "assistant", "tool"]
        assert said(found)["result", "t1: a.txt"] == 1


def test_a_conversation_on_each_line_is_read(tmp_path: Path) -> None:
    body = as_lines([{"messages": CHAT}, {"messages": CHAT[:2]}])
    found = read("list-lines", tmp_path, body)
    assert (len(messages(found)), unread(found)) == (7, [])


def test_lines_in_a_file_that_is_named_as_a_document_are_read(tmp_path: Path) -> None:
    assert len(messages(read("list", tmp_path, as_lines(CHAT)))) == 5


def test_a_torn_first_line_does_not_hide_the_others(tmp_path: Path) -> None:
    found = read("list-lines", tmp_path, as_lines(CHAT)[9:])
    assert (len(messages(found)), [each.line for each in unread(found)]) == (4, [1])


def test_an_unknown_role_is_carried(tmp_path: Path) -> None:
    body = json.dumps([{"role": "oracle", "content": "beware"}, {"content": "no role"}, {"role": 7}]).encode()
    found = read("list", tmp_path, body)
    assert len(messages(found)) == 3
    assert "beware" in json.dumps([to_json(each) for each in messages(found)])


# Damage.


@pytest.mark.parametrize("name", ["claude-code", "codex", "list-lines"])
def test_what_is_written_behind_a_torn_end_meanwhile_waits_for_the_next_time(
    name: str, tmp_path: Path
) -> None:
    form, file, body = SAMPLES[name]
    path = tmp_path / file
    cut = body.rindex(b"\n", 0, -1) - 20  # within the last line but one
    path.write_bytes(body[:cut])

    def grow(count: int) -> None:
        if count == cut:  # its reader has just seen the torn end
            path.write_bytes(body)

    found = list(transcript_format(form).read(path, grow))
    path.write_bytes(body[:cut])
    assert found == list(transcript_format(form).read(path))


def cut_off(name: str, folder: Path) -> Iterator[tuple[bytes, Read]]:
    """A sample cut off at each of its last 500 bytes, and what is read of it."""
    form, file, body = SAMPLES[name]
    path = folder / file
    path.write_bytes(body)
    for end in range(len(body), max(len(body) - 500, 0) - 1, -1):
        os.truncate(path, end)
        yield body[:end], list(transcript_format(form).read(path))


@pytest.mark.full(but=2)
@pytest.mark.parametrize("name", IN_LINES)
def test_a_file_cut_off_anywhere_gives_every_whole_line(name: str, tmp_path: Path) -> None:
    (tmp_path / "whole").mkdir()
    expected: dict[bytes, Read] = {}
    for body, found in cut_off(name, tmp_path):
        whole, newline, tail = body.rpartition(b"\n")
        torn = bool(tail) and not parses(tail)
        ending = whole + newline if torn or not tail else body + b"\n"
        if ending not in expected:
            expected[ending] = read(name, tmp_path / "whole", ending)
        assert len(unread(found)) == torn
        assert [each for each in found if not isinstance(each, Unread)] == expected[ending]


def parses(tail: bytes) -> bool:
    try:
        json.loads(tail)
    except ValueError:
        return False
    return True


@pytest.mark.full(but=2)
@pytest.mark.parametrize("name", sorted(set(SAMPLES) - set(IN_LINES)))
def test_a_document_cut_off_anywhere_gives_every_whole_message(name: str, tmp_path: Path) -> None:
    before = 0
    for body, found in cut_off(name, tmp_path):
        assert bool(unread(found)) == (len(body) < len(SAMPLES[name][2]))
        if name != "clio":  # its lists are laid over one another: more of one can leave less of the other
            assert len(messages(found)) <= before or not before
            before = len(messages(found))
        if name == "list":
            whole = body.count(b"\n },\n") + body.count(b"\n }\n]")
            assert len(messages(found)) >= whole


def test_a_torn_document_gives_what_is_before_the_tear(tmp_path: Path) -> None:
    body = SAMPLES["gemini"][2]
    found = read("gemini", tmp_path, body[: body.index(b'"Done."')])
    assert [each.id for each in messages(found)] == ["1", "2", "3", "3:results"]
    assert told(found).id == "g-1"
    assert unread(found)[0].line > 50


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.data())
def test_flipped_bytes_lose_nothing_before_them(name: str, tmp_path: Path, draw: st.DataObject) -> None:
    body = bytearray(SAMPLES[name][2])
    places = draw.draw(st.lists(st.integers(0, len(body) - 1), min_size=1, max_size=4))
    for at in places:
        body[at] = draw.draw(st.integers(0, 255))
    found = read(name, tmp_path, bytes(body))
    assert_clean(found)
    if name in IN_LINES:
        whole = SAMPLES[name][2]
        before = whole[: whole.rfind(b"\n", 0, min(places)) + 1]
        kept = read(name, tmp_path, before)
        if name == "gemini-lines":  # a damaged state of a message takes the place of the one before
            assert {each.id for each in messages(kept)} <= {each.id for each in messages(found)} | {
                "3:results"
            }
        else:
            assert not said(kept) - said(found)


def assert_clean(found: Read) -> None:
    """Everything can be written down again."""
    for each in found:
        if isinstance(each, Message):
            json.dumps(to_json(each), ensure_ascii=False, allow_nan=False).encode()
        elif isinstance(each, Unread):
            assert each.why
        else:
            json.dumps(each, ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(body=st.binary(max_size=300))
def test_any_bytes_are_read_without_an_exception(name: str, tmp_path: Path, body: bytes) -> None:
    assert_clean(read(name, tmp_path, body))
    for form in transcript_formats():
        form.recognises(body, Path(SAMPLES[name][1]))


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.just("2026-11-15T08:00:00Z"),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["type", "text", "id", "role", "content", "message", "data"]), inner, max_size=3
        )
    ),
    max_leaves=6,
)


@pytest.mark.full(but=3)
@pytest.mark.parametrize("name", SAMPLES)
@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(draw=st.data())
def test_any_value_in_any_place_is_read_without_an_exception(
    name: str, tmp_path: Path, draw: st.DataObject
) -> None:
    body = SAMPLES[name][2]
    values = [json.loads(line) for line in body.splitlines()] if name in IN_LINES else [json.loads(body)]
    inside: Any = values
    for _ in range(12):
        keys = list(inside) if isinstance(inside, dict) else list(range(len(inside)))
        key = draw.draw(st.sampled_from(keys))
        if isinstance(inside[key], dict | list) and inside[key] and draw.draw(st.booleans() | st.just(True)):
            inside = inside[key]
            continue
        inside[key] = draw.draw(ANYTHING)
        break
    encoded = b"".join(json.dumps(value).encode() + b"\n" for value in values)
    assert_clean(read(name, tmp_path, encoded))


def test_damaged_lines_are_named_and_the_others_are_read(tmp_path: Path) -> None:
    good = [json.dumps(each).encode() for each in CLAUDE]
    bad = [
        b"\0\0\0\0",
        b'{"type": "user", "mess',
        b"[1, 2]",
        b'{"type": "holography", "uuid": "h"}',
        b'{"type": "user", "uuid": "n"}',
        b'{"type":"user","message":{"role":"user","content":"caf\xe9"}}',
        b"[" * 5000 + b"]" * 5000,
        b'{"a":' * 300 + b"1" + b"}" * 300,
    ]
    found = read("claude-code", tmp_path, b"\n".join([*good, *bad, b"\0\0" + good[2], b""]))
    assert {each.line - len(good): each.why.split(" (")[0] for each in unread(found)} == {
        1: "only NUL bytes",
        2: "not JSON",
        3: "not an object",
        4: "an unknown kind of line: holography",
        5: "a user line without a message",
        6: "not UTF-8; each damaged character is read as U+FFFD",
        7: "not JSON",
        8: "not JSON",
    }
    counted = said(found)
    assert counted["Text", "caf\ufffd"] == 1
    assert counted["Text", "please fix the build"] == 2


def test_half_a_character_is_replaced_so_that_the_text_can_be_written(tmp_path: Path) -> None:
    line = rb'{"role": "user", "content": "cut \ud83d and whole \ud83d\ude80 and C:\\ud83d\\x \udc00"}'
    found = messages(read("list-lines", tmp_path, line))
    assert found[0].text == "cut \ufffd and whole 🚀 and C:\\ud83d\\x \ufffd"


def test_a_line_that_is_too_long_is_named_and_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(foreign, "LONGEST", 1000)
    monkeypatch.setattr(foreign, "_SKIP", 64)
    long = json.dumps({"role": "user", "content": "x" * 2000}).encode()
    exact = json.dumps({"role": "user", "content": ""}).encode()
    exact = exact[:-2] + b"y" * (1000 - len(exact)) + exact[-2:]
    body = b"\n".join([json.dumps(CHAT[1]).encode(), long, exact, json.dumps(CHAT[4]).encode(), long])
    found = read("list-lines", tmp_path, body)
    assert [each.line for each in unread(found)] == [2, 5]
    assert [len(each.text) for each in messages(found)] == [14, 1000 - 31, 9]


def test_a_document_that_is_too_large_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foreign, "LARGEST", 100)
    assert "larger than" in unread(read("clio", tmp_path))[0].why


@pytest.mark.full(but=2)
@pytest.mark.parametrize("name", IN_LINES)
def test_a_long_file_is_read_in_little_memory(name: str, tmp_path: Path) -> None:
    records = [json.loads(line) for line in SAMPLES[name][2].splitlines()]
    path = tmp_path / SAMPLES[name][1]
    with path.open("wb") as file:
        for turn in range(120):
            for record in records:
                for key in ("id", "uuid"):
                    if isinstance(record.get(key), str):
                        record[key] = f"{record[key].partition('-')[0]}-{turn}"
                file.write(as_lines([{**record, "padding": "z" * 8000}]))
    tracemalloc.start()
    count = sum(1 for _ in transcript_format(SAMPLES[name][0]).read(path))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count > 120
    assert path.stat().st_size > 4_500_000
    assert peak < 1_500_000


# Real transcripts: counted here with plain JSON, apart from the readers.


def raw(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines() if line.strip()]


def real(form: str, folder: str, pattern: str) -> list[Any]:
    files = sorted((DATA / folder).glob(pattern)) if os.environ.get("VADE_DATA") else []
    return [pytest.param(transcript_format(form), path, id=path.stem[:24]) for path in files] or [
        pytest.param(transcript_format(form), Path("absent"), id="absent")
    ]


def texts(found: Iterable[Message], role: Role | None = None) -> Counter[str]:
    return Counter(
        part.text
        for each in found
        if role in (None, each.role)
        for part in each.parts
        if isinstance(part, Text)
    )


@needs_data
@pytest.mark.parametrize(("form", "path"), real("claude-code", "claude-code", "*.jsonl"))
def test_everything_in_real_claude_code_sessions_comes_out(form: TranscriptFormat, path: Path) -> None:
    found = list(form.read(path))
    spoken = [record for record in raw(path) if record["type"] in ("user", "assistant")]
    ids: Counter[str] = Counter()
    expected: dict[str, Counter[str]] = {"text": Counter(), "tool_use": Counter(), "tool_result": Counter()}
    outputs: dict[str, int] = {}
    for record in spoken:
        ids[record["uuid"]] += 1
        content = record["message"]["content"]
        for block in [words(content)] if isinstance(content, str) else content:
            if block["type"] in expected:
                key = {"text": "text", "tool_use": "id", "tool_result": "tool_use_id"}[block["type"]]
                expected[block["type"]][block[key]] += 1
        if record["type"] == "assistant":
            outputs[record["message"]["id"]] = record["message"]["usage"]["output_tokens"]
    assert unread(found) == []
    assert_clean(found)
    main = [each for each in messages(found) if SIDE not in each.extra]
    conversation = [
        each for each in main if each.extra.get(META) not in ("queue-operation", "compact_boundary")
    ]
    assert texts(conversation) == expected["text"]
    assert Counter(call.id for each in main for call in each.calls) == expected["tool_use"]
    assert Counter(each.id for message in main for each in message.results) == expected["tool_result"]
    kept = Counter(
        name for each in conversation for name in (each.id, *each.extra.get("ids", ())) if ":" not in name
    )
    assert kept == ids
    assert sum(each.output for each in usages(found)) == sum(outputs.values())
    assert len(usages(found)) == sum(1 for each in outputs.values() if each)
    assert all(each.time for each in messages(found))
    assert all(told(found)._replace(title="x", branch="x", repository="x", checkout="x"))


@needs_data
@pytest.mark.parametrize(("form", "path"), real("codex", "codex", "rollout-*.jsonl"))
def test_everything_in_real_rollouts_comes_out(form: TranscriptFormat, path: Path) -> None:
    found = list(form.read(path))
    items = [record["payload"] for record in raw(path) if record["type"] == "response_item"]
    events = [record["payload"] for record in raw(path) if record["type"] == "event_msg"]
    expected = Counter(
        block["text"] for item in items for block in item.get("content") or () if block.get("text")
    )
    calls = [item for item in items if item["type"].endswith("_call")]
    outputs = [item for item in items if item["type"].endswith(("_output", "tool_result"))]
    assert unread(found) == []
    assert_clean(found)
    assert not expected - texts(messages(found))
    for event in events:
        if event["type"] in ("user_message", "agent_message"):
            assert event["message"] in texts(messages(found))
    called = Counter(call.id for each in messages(found) for call in each.calls)
    brought = Counter(each.id for message in messages(found) for each in message.results)
    assert not Counter(item.get("call_id") or item.get("id") or "" for item in calls) - called
    assert not Counter(item.get("call_id") or "" for item in outputs) - brought
    for event in events:
        if event["type"] in ("mcp_tool_call_end", "exec_command_end", "patch_apply_end"):
            assert event["call_id"] in called
            assert event["call_id"] in brought
    counted = [
        event["info"]["total_token_usage"]
        for event in events
        if event["type"] == "token_count" and event["info"]
    ]
    assert len(usages(found)) == len({json.dumps(each) for each in counted if each["total_tokens"]})
    assert told(found).id
    assert told(found).folder
    assert told(found).model


@needs_data
@pytest.mark.parametrize(("form", "path"), real("codex", "codex", "exec-*.jsonl"))
def test_everything_in_a_real_exec_stream_comes_out(form: TranscriptFormat, path: Path) -> None:
    found = list(form.read(path))
    items = [record["item"] for record in raw(path) if record["type"] == "item.completed"]
    ran = {item["id"]: item for item in items if item["type"] == "command_execution"}
    assert unread(found) == []
    assert texts(messages(found)) == Counter(
        item["text"] for item in items if item["type"] == "agent_message"
    )
    assert Counter(call.id for each in messages(found) for call in each.calls) == Counter(ran.keys())
    results = {each.id: each.text for message in messages(found) for each in message.results}
    assert results == {name: item["aggregated_output"] or item["status"] for name, item in ran.items()}
    assert sum(each.output for each in usages(found)) == sum(
        record["usage"]["output_tokens"] for record in raw(path) if record["type"] == "turn.completed"
    )


@needs_data
@pytest.mark.parametrize(("form", "path"), real("openclaw", "openclaw", "*.jsonl"))
def test_everything_in_a_real_pi_session_comes_out(form: TranscriptFormat, path: Path) -> None:
    found = list(form.read(path))
    spoken = [record for record in raw(path) if record["type"] == "message"]
    blocks = [block for record in spoken for block in record["message"]["content"]]
    inside = [record["message"] for record in spoken]
    assert unread(found) == []
    assert_clean(found)
    assert [each.id for each in messages(found)] == [record["id"] for record in spoken]
    assert not any(LEFT in each.extra for each in messages(found))
    given = texts(messages(found)) + Counter(
        part.text
        for each in messages(found)
        for brought in each.results
        for part in brought.content
        if isinstance(part, Text)
    )
    assert given == Counter(block["text"] for block in blocks if block["type"] == "text")
    assert Counter(call.id for each in messages(found) for call in each.calls) == Counter(
        block["id"] for block in blocks if block["type"] == "toolCall"
    )
    assert Counter(each.id for message in messages(found) for each in message.results) == Counter(
        each["toolCallId"] for each in inside if each["role"] == "toolResult"
    )
    costs = [each["usage"]["cost"]["total"] for each in inside if each.get("usage")]
    assert sum(each.cost for each in usages(found)) == pytest.approx(sum(costs))
    assert len(usages(found)) == sum(1 for each in costs if each)
    assert all(each.time for each in messages(found))
    assert all(told(found)._replace(title="x", branch="x", repository="x", checkout="x"))


@needs_data
@pytest.mark.parametrize(("form", "path"), real("gemini-cli", "gemini-cli", "*.json"))
def test_everything_in_a_real_gemini_session_comes_out(form: TranscriptFormat, path: Path) -> None:
    found = list(form.read(path))
    spoken = json.loads(path.read_text())["messages"]
    calls = [call for each in spoken for call in each.get("toolCalls", ())]
    assert unread(found) == []
    assert_clean(found)
    assert texts(messages(found)) == Counter(each["content"] for each in spoken if each["content"])
    assert [each.id for each in messages(found) if ":" not in each.id] == [each["id"] for each in spoken]
    assert [call.id for each in messages(found) for call in each.calls] == [call["id"] for call in calls]
    assert [each.text for message in messages(found) for each in message.results] == [
        call["result"][0]["functionResponse"]["response"]["output"] for call in calls
    ]
    assert sum(each.total for each in usages(found)) == sum(
        each.get("tokens", {}).get("total", 0) for each in spoken
    )


@needs_data
def test_real_transcripts_are_recognised() -> None:
    names = {
        "claude-code": "claude-code",
        "codex": "codex",
        "openclaw": "openclaw",
        "gemini-cli": "gemini-cli",
    }
    for folder, name in names.items():
        for path in sorted((DATA / folder).glob("*.json*")):
            found = recognise_transcript(path)
            assert found is not None
            assert found.name == name


@needs_data
@pytest.mark.parametrize(
    ("form", "path"), [*real("codex", "codex", "rollout-small*"), *real("openclaw", "openclaw", "*.jsonl")]
)
def test_a_real_file_cut_off_at_its_end_gives_every_whole_line(
    form: TranscriptFormat, path: Path, tmp_path: Path
) -> None:
    body = path.read_bytes()[-60_000:].partition(b"\n")[2]
    whole = sum(1 for _ in form.read(_written(tmp_path / path.name, body)))
    for cut in range(1, 500, 7):
        found = list(form.read(_written(tmp_path / path.name, body[:-cut])))
        assert_clean(found)
        assert len(found) >= whole - 4


def _written(path: Path, body: bytes) -> Path:
    path.write_bytes(body)
    return path


def test_opaque_blocks_are_carried(tmp_path: Path) -> None:
    block = {"type": "hologram", "beams": [1, 2]}
    line = claude("user", 0, message={"role": "user", "content": [block, words("see?"), 7]})
    found = messages(read("claude-code", tmp_path, as_lines([line])))
    assert found[0].parts == (Opaque(block), Text("see?"), Opaque(7))
