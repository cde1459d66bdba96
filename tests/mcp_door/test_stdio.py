"""Every request is answered once, whatever its bytes; and what a server is told of leaving, it does."""

from __future__ import annotations

import itertools
import json
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from tools import offer as written

from cases import every_case
from mcp_door.talking import HANG, home_of
from vade_command import VADE
from vademecum import Memory
from vademecum.agents.base import Program
from vademecum.interfaces import cli
from vademecum.interfaces.cli import app
from vademecum.interfaces.mcp import consent, protocol, stdio
from vademecum.interfaces.tools.sets import TOOL_SETS
from vademecum.types import Audience

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from pathlib import Path

GREETING = {
    "jsonrpc": "2.0",
    "id": "greeting",
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-11-25",
        "capabilities": {},
        "clientInfo": {"name": "test", "version": "1"},
    },
}
META = {protocol.VERSION_KEY: "2026-07-28", protocol.CAPABILITIES_KEY: {}}
DISCOVER = {"jsonrpc": "2.0", "id": "greeting", "method": "server/discover", "params": {"_meta": META}}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


class Counting:
    """A client that writes lines as fast as they are taken, and counts the answers by their ids."""

    def __init__(self, folder: Path, *words: str, command: tuple[str, ...] = (VADE,)) -> None:
        self.process = subprocess.Popen(
            [*command, "mcp", "--home", str(home_of(folder)), *words],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.answers: Counter[str] = Counter()
        self.count = 0  # of all of them: adding a million up at each would take hours
        self.messages: list[dict[str, Any]] = []
        self.keep = True
        self._came = threading.Condition()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            message = json.loads(line)
            assert message["jsonrpc"] == "2.0"
            assert ("result" in message) != ("error" in message)
            with self._came:
                self.answers[json.dumps(message["id"])] += 1
                self.count += 1
                if self.keep:
                    self.messages.append(message)
                self._came.notify_all()

    def send(self, *lines: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(b"".join(each + b"\n" for each in lines))
        self.process.stdin.flush()

    def wait(self, count: int) -> None:
        """Wait until so many answers have come."""
        with self._came:
            assert self._came.wait_for(lambda: self.count >= count, HANG), "an answer is missing"

    def end(self) -> int:
        """Close, and take what still comes."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        code = self.process.wait(HANG)
        self._reader.join(HANG)
        assert self.process.stdout is not None
        self.process.stdout.close()
        return code


def line(method: str, id: Any = 1, **params: Any) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}).encode()


# ---------------------------------------------------------------- bytes

DEEP = b'{"jsonrpc":"2.0","method":"ping","params":' + b'{"a":' * 10_000 + b"1" + b"}" * 10_000 + b',"id":7}'
# A line, the id of its answer, and its code: None for a result, "" for no answer.
LINES: list[tuple[bytes, Any, int | str | None]] = [
    (b"no json", None, -32700),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping"', None, -32700),
    (b"\xff\xfe", None, -32700),
    (b"", None, ""),
    (b" \t\r", None, ""),
    (b"{}", None, -32600),
    (b"5", None, -32600),
    (b'"text"', None, -32600),
    (b"null", None, -32600),
    (b"[]", None, -32600),
    (b"[1]", None, -32600),
    (b'{"jsonrpc":"1.0","id":1,"method":"ping"}', 1, -32600),
    (b'{"jsonrpc":"2.0","id":1}', 1, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":5}', 1, -32600),
    (b'{"jsonrpc":"2.0","id":null,"method":"ping"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":1.5,"method":"ping"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":true,"method":"ping"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":{"a":1},"method":"ping"}', None, -32600),
    (b'{"jsonrpc":"2.0","id":"","method":"ping"}', "", None),
    (b'{"jsonrpc":"2.0","id":-5,"method":"ping"}', -5, None),
    (b'{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}', 9007199254740993, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":null}', 1, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":[]}', 1, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"no/such"}', 1, -32601),
    (b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{}}', 1, -32602),
    (b'{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":7}}', 1, -32602),
    (b'{"jsonrpc":"2.0","method":"ping"}', None, ""),
    (b'{"jsonrpc":"2.0","method":"no/such","params":[]}', None, ""),
    (b'{"jsonrpc":"2.0","id":99,"result":{}}', None, ""),
    (b'{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}', None, ""),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"_meta":{"a":"\\ud83d"}}}', 1, None),
    (b'{"jsonrpc":"2.0","id":"\\ud83d","method":"ping"}', "\ufffd", None),
    (b'{"jsonrpc":"2.0","id":"\\\\ud83d","method":"ping"}', "\\ud83d", None),
    (b'{"jsonrpc":"2.0","id":"\\ud83d\\ude00","method":"ping"}', "\U0001f600", None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":NaN,"b":-Infinity}}', 1, None),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":' + b"9" * 5000 + b"}}", 1, -32600),
    (DEEP, 7, -32600),
    (b"[" * 100_000, None, -32600),
    (b'{"jsonrpc":"2.0","id":1,"method":"ping","params":{"a":"' + b"x" * 5_000_000 + b'"}}', 1, None),
]


@pytest.mark.parametrize("which", range(len(LINES)))
def test_a_line_gets_the_answer_that_the_protocol_has_for_it(folder: Path, which: int) -> None:
    given, id, code = LINES[which]
    sent: list[dict[str, Any]] = []
    front = stdio.StdioServer(_Kept(sent), {"home": home_of(folder)}, "core")
    front.handle_line(json.dumps(GREETING).encode())
    front.handle_line(given)
    front._jobs.put(None)
    answers = [(each["id"], each.get("error", {}).get("code")) for each in sent[1:]]
    assert answers == ([] if code == "" else [(id, code)])


class _Kept(stdio.Pipes):
    """A wire that keeps what is sent."""

    def __init__(self, sent: list[dict[str, Any]]) -> None:
        self._sent = sent
        self.unheard = lambda: None

    def send(self, message: Mapping[str, Any]) -> None:
        json.dumps(message).encode()
        self._sent.append(dict(message))


def test_half_an_emoji_in_any_argument_is_answered_and_kept_as_a_mark(folder: Path) -> None:
    client = Counting(folder)
    arguments = [
        ("memory_store", b'{"content":"cut \\ud83d off","key":"cut"}'),
        ("memory_store", b'{"content":"again","key":"\\udfff","tags":["\\ud800"]}'),
        ("memory_search", b'{"query":"\\ud83d"}'),
        ("memory_get", b'{"path":"\\ud83d\\ud83d"}'),
        ("memory_note", b'{"content":"\\uDE00"}'),
        ("nothing\ud83d", b'{"\\ud83d":"\\ud83d"}'),
    ]
    client.send(json.dumps(GREETING).encode())
    for number, (name, given) in enumerate(arguments):
        head = b'{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%s,"arguments":'
        client.send(head % (number, json.dumps(name).encode()) + given + b"}}")
    client.wait(1 + len(arguments))
    assert client.end() == 0
    assert client.answers == {'"greeting"': 1, **{str(number): 1 for number in range(len(arguments))}}
    (record,) = home_of(folder).glob("memory/*/**/records/cut.md")
    assert "cut \ufffd off" in record.read_text()


def test_each_request_of_an_array_is_answered_by_itself(folder: Path) -> None:
    client = Counting(folder)
    client.send(json.dumps(GREETING).encode())
    inner = [line("ping", 1), line("no/such", "2"), b'{"jsonrpc":"2.0","method":"ping"}', b"[]", b"3"]
    client.send(b"[" + b",".join(inner) + b"]")
    client.wait(5)
    assert client.end() == 0
    assert client.answers == {'"greeting"': 1, "1": 1, '"2"': 1, "null": 2}


def test_two_requests_with_one_id_are_both_answered_and_a_cancelled_one_never_is(folder: Path) -> None:
    client = Counting(folder)
    client.send(json.dumps(GREETING).encode())
    client.send(*[line("tools/call", 5, name="memory_note", arguments={"content": "x"})] * 3)
    client.send(line("tools/call", "6", name="memory_note", arguments={"content": "never"}))
    client.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":6}}')
    client.send(b'{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":[]}}')
    client.send(line("ping", 7))
    client.wait(5)
    assert client.end() == 0
    assert client.answers == {'"greeting"': 1, "5": 3, "7": 1}


def test_who_asks_how_a_call_goes_is_told_until_it_is_answered(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "PROGRESS", 0.01)
    note = Memory.note

    def slow(*given: Any, **named: Any) -> Any:
        time.sleep(0.2)  # longer than it takes to tell
        return note(*given, **named)

    monkeypatch.setattr(Memory, "note", slow)
    sent: list[dict[str, Any]] = []
    front = stdio.StdioServer(_Kept(sent), {"home": home_of(folder)}, "core")
    front.handle_line(json.dumps(GREETING).encode())
    asked = {"name": "memory_note", "arguments": {"content": "Noted."}}
    front.handle_line(line("tools/call", 1, **asked, _meta={"progressToken": "t-1"}))
    front.handle_line(line("tools/call", 2, **asked))
    assert front.loaded.wait(HANG)
    until = time.monotonic() + HANG
    while not [each for each in sent if each.get("id") == 2]:
        assert time.monotonic() < until
        time.sleep(0.01)
    time.sleep(0.1)
    front._jobs.put(None)
    told = [at for at, each in enumerate(sent) if each.get("method") == "notifications/progress"]
    answered = next(at for at, each in enumerate(sent) if each.get("id") == 1)
    assert told
    assert max(told) < answered, "a word after the answer"
    given = [sent[at]["params"] for at in told]
    assert {each["progressToken"] for each in given} == {"t-1"}
    steps = [each["progress"] for each in given]
    assert steps == sorted(set(steps)), "it only grows"


# ---------------------------------------------------------------- any bytes

NASTY = (
    *(b"\\ud83d", b"\\udc00\\ud83d", b"\xff\xfe", b"\xed\xa0\xbd", b"\0", b"\\u0000", b"NaN", b"1e999", b"-"),
    *(b"[" * 2000, b'{"a":' * 2000, b"9" * 5000, b'"', b"\\", b"}", b"]", b",", b"null", b"\r", b"\x1b[31m"),
    *(
        b'"id":null',
        b'"id":[1]',
        b'"id":1.0',
        b'"method":7',
        b'"params":[]',
        b'"jsonrpc":"1"',
        "é😀".encode(),
    ),
)


def bases(era: str) -> list[tuple[str, dict[str, Any]]]:
    """Requests that cost little, most of them answered without memory."""
    meta = {"_meta": META} if era == "stateless" else {}
    return [
        ("ping", meta),
        ("prompts/list", meta),
        ("resources/templates/list", meta),
        ("no/such", meta),
        ("notifications/progress", {"progressToken": 1, "progress": 1}),
        ("tools/call", {"name": "memory_get", "arguments": {"path": "memory/x.md", "lines": 2}, **meta}),
        ("prompts/get", {"name": "handoff", "arguments": {"focus": "x"}, **meta}),
        ("resources/read", {"uri": "vade://x", **meta}),
    ]


def mutated(choose: random.Random, era: str) -> Iterator[bytes]:
    """Lines for ever: requests, some of them whole, most with something done to their bytes."""
    known = bases(era)
    for number in itertools.count():
        method, params = choose.choice(known[:5] if choose.random() < 0.9 else known)
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method, "params": params}
        if not method.startswith("notifications/"):
            message["id"] = choose.choice([number, str(number), f"n{number}"])
        content = bytearray(json.dumps(message).encode())
        for _ in range(choose.choice([0, 1, 1, 1, 2, 5])):
            at, width = choose.randrange(len(content) + 1), choose.randrange(9)
            kind = choose.randrange(6)
            if kind == 0:
                content[at : at + width] = b""
            elif kind == 1:
                content[at:at] = choose.choice(NASTY)
            elif kind == 2:
                content[at : at + 1] = bytes([choose.randrange(256)])
            elif kind == 3:
                content[at:at] = content[:at][-width:]
            elif kind == 4:
                del content[at:]
            else:
                content = bytearray(b"[" + content + b"," + content + b"]")
        yield bytes(content.replace(b"\n", b" "))


def owed(content: bytes) -> Counter[str]:
    """The ids of the answers that a line must get."""
    if not content.strip():
        return Counter()
    text = content.decode("utf-8", "replace")
    try:
        said = json.loads(text)
    except json.JSONDecodeError:
        return Counter(["null"])
    except (RecursionError, ValueError):
        return Counter(["any"])
    return Counter(id for each in (said if isinstance(said, list) and said else [said]) for id in _owed(each))


def _owed(message: Any) -> list[str]:
    if not isinstance(message, dict):
        return ["null"]
    if "method" not in message and {"result", "error"} & set(message):
        return []
    if "id" not in message and isinstance(message.get("method"), str):
        return []
    id = message.get("id")
    whole = isinstance(id, str) or (isinstance(id, int) and not isinstance(id, bool))
    if not whole:
        return ["null"]
    return (
        [json.dumps(id.encode("utf-16", "surrogatepass").decode("utf-16", "replace"))]
        if (isinstance(id, str))
        else [json.dumps(id)]
    )


def fuzz(folder: Path, era: str, *, lines: int, seed: int) -> None:
    """Send mutated lines, and hold the count of answers against what each line is owed."""
    client = Counting(folder)
    client.keep = False
    client.send(json.dumps(DISCOVER if era == "stateless" else GREETING).encode())
    expected = Counter(['"greeting"'])
    source = mutated(random.Random(seed), era)
    for _ in range(0, lines, 500):
        batch = list(itertools.islice(source, 500))
        for each in batch:
            expected.update(owed(each))
        client.send(*batch)
        client.wait(expected.total())
    assert client.end() == 0
    # What nests too deep is answered with the id that can be seen in it, or none.
    missing, surplus = expected - client.answers, client.answers - expected
    assert set(missing) <= {"any"}
    assert missing.total() == surplus.total()


@pytest.mark.parametrize("era", ["greeted", "stateless"])
def test_every_request_among_mutated_lines_is_answered_once(folder: Path, era: str) -> None:
    fuzz(folder, era, lines=3_000, seed=17)


@pytest.mark.soak
@pytest.mark.parametrize("era", ["greeted", "stateless"])
def test_every_request_among_a_million_mutated_lines_is_answered_once(folder: Path, era: str) -> None:
    fuzz(folder, era, lines=500_000, seed=18)


# ---------------------------------------------------------------- leaving


@pytest.mark.parametrize("word", ["SIGTERM", "SIGINT"])
@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such signals")
def test_a_signal_ends_it_with_what_was_asked_answered(folder: Path, word: str) -> None:
    client = Counting(folder)
    client.send(json.dumps(GREETING).encode())
    client.send(line("tools/call", 1, name="memory_note", arguments={"content": "Noted."}))
    client.wait(2)
    client.send(
        line("tools/call", 2, name="memory_note", arguments={"content": "And this."}), line("ping", 3)
    )
    client.wait(3)  # so the second is read, and perhaps not yet answered
    client.process.send_signal(getattr(signal, word))
    assert client.process.wait(HANG) == 0
    assert client.end() == 0
    assert client.answers == {'"greeting"': 1, "1": 1, "2": 1, "3": 1}


def test_a_client_that_stops_reading_is_left(folder: Path) -> None:
    process = subprocess.Popen(
        [VADE, "mcp", "--home", str(home_of(folder))],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdin
    assert process.stdout
    assert process.stderr
    process.stdin.write(json.dumps(GREETING).encode() + b"\n")
    process.stdin.flush()
    process.stdout.readline()
    process.stdout.close()
    process.stdin.write(line("ping") + b"\n")
    process.stdin.flush()
    assert process.wait(HANG) == 0
    assert process.stderr.read() == b""
    process.stdin.close()
    process.stderr.close()


def test_a_home_that_cannot_be_opened_is_told_to_who_calls_and_can_be_mended_meanwhile(folder: Path) -> None:
    home_of(folder).write_text("no folder")
    client = Counting(folder)
    recall = {"name": "memory_search", "arguments": {}}
    client.send(json.dumps(GREETING).encode(), line("tools/list", 1), line("tools/call", 2, **recall))
    client.wait(3)
    told = next(each for each in client.messages if each["id"] == 2)["result"]
    assert told["isError"]
    assert str(home_of(folder)) in told["content"][0]["text"]
    home_of(folder).unlink()
    client.send(line("tools/call", 3, **recall), line("resources/list", 4))
    client.wait(5)
    assert not next(each for each in client.messages if each["id"] == 3)["result"]["isError"]
    assert client.end() == 1  # as it said on standard error


# ---------------------------------------------------------------- what is prepared


def test_what_is_prepared_is_what_the_table_of_tools_says() -> None:
    with open(protocol.OFFER, encoding="utf-8") as file:
        assert file.read() == written.rendered(), "run `python -m tools.offer`"


@every_case("family", cli.FAMILIES)
def test_each_family_is_offered_whole(family: str) -> None:
    assert [each["name"] for each in protocol.read_offer(family).tools] == [
        each.name for each in TOOL_SETS[family]
    ]


def test_an_agent_that_has_an_instruction_file_is_not_told_the_same_again() -> None:
    whole, brief = (protocol.read_offer("core", client).instructions for client in ("", "claude-code"))
    assert "memory_store" in whole
    assert "memory_store" not in brief
    assert "not instructions" in brief
    assert protocol.read_offer("core", "cursor").instructions == whole  # a person's Cursor has no such file
    assert protocol.read_offer("core", "somebody").instructions == whole


def test_what_the_quick_way_in_knows_by_heart_is_so() -> None:
    assert set(cli.FAMILIES) == set(TOOL_SETS)
    assert tuple(map(str, Audience)) == cli.AUDIENCES
    assert stdio.TO_ANSWER == consent.PATIENCE


QUICK: list[tuple[list[str], dict[str, Any] | None]] = [
    ([], {"tools": "core"}),
    (["--home", "x", "--tools", "all"], {"tools": "all", "home": "x"}),
    (
        ["--home=x", "--agent=a", "--session", "s"],
        {"tools": "core", "home": "x", "agent": "a", "session": "s"},
    ),
    (["--audience", "group", "--incognito"], {"tools": "core", "audience": "group", "incognito": True}),
    (["--help"], None),
    (["--http"], None),
    (["--home"], None),
    (["--home", "--incognito"], None),
    (["--audience", "all"], None),
    (["--tools", "none"], None),
    (["x"], None),
]


@pytest.mark.parametrize(("words", "wanted"), QUICK)
def test_plain_options_need_no_command_tree_and_everything_else_gets_it(
    words: list[str], wanted: dict[str, Any] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    served: list[dict[str, Any]] = []
    monkeypatch.setattr(stdio, "serve", lambda options, *, tools: served.append({**options, "tools": tools}))
    cli.serve_mcp(words)
    found = [{name: value for name, value in each.items() if value is not None} for each in served]
    assert found == ([] if wanted is None else [wanted])


def test_what_an_installation_writes_needs_no_command_tree(monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("", "/somewhere else"):
        started = Program(("vade",), home, "codex").server
        served: list[Any] = []
        monkeypatch.setattr(stdio, "serve", lambda options, *, tools, found=served: found.append(options))
        monkeypatch.setattr(sys, "argv", [*started])
        monkeypatch.setattr(app, "run", lambda: 0)
        monkeypatch.setattr(cli, "end_process", sys.exit)  # which would end this process
        with pytest.raises(SystemExit):
            cli.main()
        assert [(each["home"], each["client"]) for each in served] == [(home or None, "codex")]


HEAVY = ("mcp", "anyio", "asyncio", "pydantic", "click", "apsw", "numpy", "yaml", "dataclasses", "logging")


def test_a_greeting_and_the_list_of_tools_need_none_of_the_heavy_libraries(folder: Path) -> None:
    code = (
        "import sys, json\n"
        "from vademecum.interfaces import cli\n"
        "from vademecum.interfaces.mcp import stdio\n"
        "stdio.StdioServer._prepare = lambda *_, **__: None\n"
        "front = stdio.StdioServer(stdio.Pipes(), {}, 'core')\n"
        "for line in front.wire.lines(): front.handle_line(line)\n"
        "print(*sys.modules, file=sys.stderr)\n"
    )
    asked = json.dumps(GREETING).encode() + b"\n" + line("tools/list") + b"\n"
    done = subprocess.run(
        [sys.executable, "-c", code], input=asked, capture_output=True, check=True, timeout=HANG
    )
    assert len(done.stdout.splitlines()) == 2
    loaded = set(done.stderr.decode().split())
    assert not loaded & set(HEAVY)
    assert not {
        each for each in loaded if each.startswith(("vademecum.memory", "vademecum.interfaces.tools."))
    }
