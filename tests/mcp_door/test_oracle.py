"""Our stdio answers as the protocol's own SDK does: the same conversation with both gives the same JSON.

Where ours answers and the SDK says nothing, which is for lines that are no requests, `test_stdio` has it.
"""

from __future__ import annotations

import itertools
import json
import re
import runpy
import threading
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import anyio
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcp.shared.message import SessionMessage
from mcp_types import jsonrpc_message_adapter

from mcp_door.talking import HANG, home_of
from vademecum.interfaces.mcp import protocol, sdk, stdio
from vademecum.memory import connect

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Message = dict[str, Any]

META = {protocol.VERSION_KEY: "2026-07-28", protocol.CAPABILITIES_KEY: {}}
GREETING = {
    "protocolVersion": "2025-11-25",
    "capabilities": {},
    "clientInfo": {"name": "test", "version": "1"},
}


RECORDED = Path(__file__).parents[1] / "golden" / "script.py"
NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)
UNSERVED = ("logging/setLevel", "resources/subscribe")  # what is in it is not looked at


@pytest.fixture(autouse=True)
def _no_word_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """How long a call takes is no part of what is compared."""
    monkeypatch.setattr(protocol, "PROGRESS", 10 * HANG)


class SpeechGain(stdio.Pipes):
    """A wire in memory that keeps what is sent to the client."""

    def __init__(self) -> None:
        self.sent: list[Message] = []
        self.arrived = threading.Condition()
        self.unheard = lambda: None

    def send(self, message: Mapping[str, Any]) -> None:
        with self.arrived:
            self.sent.append(json.loads(json.dumps({"jsonrpc": "2.0", **message})))
            self.arrived.notify_all()

    def answer(self, id: Any) -> Message:
        """The answer to a request, taken away."""
        with self.arrived:
            assert self.arrived.wait_for(lambda: any(each.get("id") == id for each in self.sent), HANG)
            found = next(each for each in self.sent if each.get("id") == id)
            self.sent.remove(found)
            return found


def options(folder: Path) -> dict[str, Any]:
    """One session, in a home of its own, at one moment."""
    return {"home": home_of(folder), "cwd": folder, "session": "s1", "now": lambda: NOON}


def ours(folder: Path, messages: list[Message]) -> list[Message]:
    """What stdio answers, one request after the other."""
    wire = SpeechGain()
    front = stdio.StdioServer(wire, options(folder), "all")
    answers = []
    for each in messages:
        front.handle_line(json.dumps(each).encode())
        if "id" in each:
            answers.append(wire.answer(each["id"]))
    front._jobs.put(None)
    if front._worker is not None:
        front._worker.join(HANG)
    assert wire.sent == []
    return answers


def theirs(folder: Path, messages: list[Message]) -> list[Message]:
    """What the SDK's server answers over the same table of tools."""
    server, connections = sdk.make(options(folder), tools="all", own_session=True)
    answers = []

    async def run() -> None:
        send, receive = anyio.create_memory_object_stream[SessionMessage | Exception](0)
        answered, answer = anyio.create_memory_object_stream[SessionMessage](99)
        with anyio.fail_after(HANG):
            async with send, answer, anyio.create_task_group() as group:
                group.start_soon(server.run, receive, answered, server.create_initialization_options())
                for each in messages:
                    await send.send(SessionMessage(jsonrpc_message_adapter.validate_python(each)))
                    if "id" in each:
                        made = (await answer.receive()).message
                        answers.append(json.loads(made.model_dump_json(by_alias=True, exclude_unset=True)))
                await send.aclose()

    anyio.run(run)
    connections.close()
    return answers


_OWN = re.compile(
    # ids, one of digits alone in quotation marks, and folders
    r'(?:\\")?\b[0-9a-f]{12}\b(?:\\")?'
    r"|\b[0-9a-f]{8}-[0-9a-f-]{27}\b|/[\w/.-]+/(?:ours|theirs)/[\w-]+"
    r"|\bid: [0-9a-z]{10}\b"  # of an entry
    r'|\\"index\\": \{.*?\}'  # how far it got beside the work
)


def plain(answers: list[Message]) -> list[str]:
    """Answers without what is each home's own."""
    return [_OWN.sub("0", json.dumps(each, sort_keys=True)) for each in answers]


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    """Two projects that hold the same, one for each of the servers."""
    made = [tmp_path / name / "project" for name in ("ours", "theirs")]
    for each in made:
        each.mkdir(parents=True)
        memory = connect(home=home_of(each), cwd=each, environ={}, now=lambda: NOON)
        memory.store("The ledger is kept in Postgres.", key="ledger")
        memory.close()
    return made


def numbered(messages: list[Message]) -> list[Message]:
    """Messages of the protocol; requests get ids."""
    numbers = itertools.count(1)
    return [
        {"jsonrpc": "2.0", **each}
        if each["method"].startswith("notifications/")
        else {"jsonrpc": "2.0", "id": next(numbers), **each}
        for each in messages
    ]


def stateless(messages: list[Message]) -> Iterator[Message]:
    """The same without a greeting, each saying what it speaks."""
    for each in messages:
        if each["method"] != "initialize" and not each["method"].startswith("notifications/"):
            yield {**each, "params": {**each.get("params", {}), "_meta": META}}


def compare(folders: list[Path], messages: list[Message]) -> None:
    own, other = plain(ours(folders[0], messages)), plain(theirs(folders[1], messages))
    for sent, left, right in zip([each for each in messages if "id" in each], own, other, strict=True):
        assert left == right, sent


@pytest.mark.parametrize("version", [*protocol.HANDSHAKE, "2026-07-28", "1999-01-01"])
def test_a_recorded_conversation_gets_the_same_answers_in_every_revision(
    folders: list[Path], version: str
) -> None:
    recorded = runpy.run_path(str(RECORDED))["requests"]()
    if version in protocol.STATELESS:
        asked = [{"method": "server/discover", "params": {"_meta": META}}, *stateless(recorded)]
    else:
        greeting = {"method": "initialize", "params": {**GREETING, "protocolVersion": version}}
        asked = [greeting, *recorded[1:], {"method": "ping"}, greeting]
    compare(folders, numbered(asked))


# ---------------------------------------------------------------- generated

JSON: st.SearchStrategy[Any] = (
    st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=3) | st.just([]) | st.just({})
)


def fields(**shapes: st.SearchStrategy[Any]) -> st.SearchStrategy[Message]:
    """An object with some of these fields, most of them as they should be."""
    optional = {name: st.one_of(shape, shape, shape, JSON) for name, shape in shapes.items()}
    return st.fixed_dictionaries({}, optional=optional)


TOKEN = fields(progressToken=st.integers() | st.text(max_size=3))
CAPABILITIES = fields(
    elicitation=fields(form=st.just({}), url=st.just({})),
    experimental=st.just({"x": {}}),
    sampling=fields(context=st.just({}), tools=st.just({})),
)
CLIENT = fields(name=st.just("a"), version=st.just("1"), title=st.just("A"), icons=st.just([{"src": "x"}]))
METHODS: dict[str, st.SearchStrategy[Message]] = {
    "initialize": fields(
        protocolVersion=st.sampled_from(protocol.HANDSHAKE), capabilities=CAPABILITIES, clientInfo=CLIENT
    ),
    "ping": fields(),
    "server/discover": fields(),
    "tools/list": fields(cursor=st.text(max_size=3)),
    "prompts/list": fields(cursor=st.text(max_size=3)),
    "resources/templates/list": fields(cursor=st.text(max_size=3)),
    "tools/call": fields(
        name=st.sampled_from(["memory_get", "todo", "nothing"]),
        arguments=fields(path=st.just("ledger"), lines=st.integers(0, 3), operation=st.just("list")),
    ),
    "prompts/get": fields(
        name=st.sampled_from(["handoff", "sing"]), arguments=fields(focus=st.text(max_size=3))
    ),
    "resources/read": fields(uri=st.sampled_from(["vade://journal/today", "vade://file/ledger", "x"])),
    "logging/setLevel": st.just({"level": "info"}),
    "resources/subscribe": st.just({"uri": "vade://status"}),
    "no/such": fields(),
    "notifications/initialized": st.just({}),
    "notifications/roots/list_changed": st.just({}),
}


@st.composite
def messages(draw: st.DrawFn) -> Message:
    method = draw(st.sampled_from(sorted(METHODS)))
    params = draw(METHODS[method])
    if draw(st.integers(0, 3)) == 0 and method not in UNSERVED:
        params = {**params, "_meta": draw(TOKEN)}
    if draw(st.booleans()) and not params:
        return {"method": method}
    return {"method": method, "params": params}


CONVERSATIONS = st.tuples(
    st.sampled_from(["greeted", "not greeted", "stateless"]), st.lists(messages(), max_size=8)
)


@given(CONVERSATIONS)
@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_conversation_gets_the_same_answers(folders: list[Path], talk: tuple[str, list[Message]]) -> None:
    kind, said = talk
    asked = [*said]
    if kind == "greeted":
        asked = [{"method": "initialize", "params": GREETING}, *said]
    elif kind == "stateless":
        opening: Message = {"method": "server/discover", "params": {"_meta": META}}
        asked = [opening]
        for number, each in enumerate(said):
            meta = each.get("params", {}).get("_meta")
            own = {**(meta if isinstance(meta, dict) else {}), **META} if number % 4 != 3 else meta
            asked.append({**each, "params": {**each.get("params", {}), "_meta": own}})
    compare(folders, numbered(asked))


def test_a_question_to_the_person_looks_the_same_and_its_answer_counts(folders: list[Path]) -> None:
    for each in folders:
        (home_of(each) / "config.toml").write_text("[approval]\nmcp = 'ask'\n")
    wire = SpeechGain()
    front = stdio.StdioServer(wire, options(folders[0]), "core")
    asking = {**GREETING, "capabilities": {"elicitation": {}}}
    store = {"name": "memory_store", "arguments": {"content": "Tea is green.", "key": "tea"}}

    def send(**message: Any) -> None:
        front.handle_line(json.dumps({"jsonrpc": "2.0", **message}).encode())

    send(id="a", method="initialize", params=asking)
    wire.answer("a")
    send(id="b", method="tools/call", params=store)
    question = wire.answer(1)
    assert question["method"] == "elicitation/create"
    assert question["params"]["mode"] == "form"
    assert "Tea is green." in question["params"]["message"]
    send(id="c", method="tools/call", params={"name": "memory_get", "arguments": {"path": "ledger"}})
    assert not wire.answer("c")["result"]["isError"]  # nobody waits for a person's answer to another call
    send(id="1", result={"action": "accept", "content": {"save": True}})
    assert wire.answer("b")["result"]["structuredContent"]["outcome"] == "created"
    send(id="d", method="tools/call", params={**store, "arguments": {"content": "No."}})
    send(id=wire.answer(2)["id"], error={"code": -1, "message": "nobody is there"})
    assert wire.answer("d")["result"]["structuredContent"]["outcome"] == "waiting"
    send(id="e", method="tools/call", params={**store, "arguments": {"content": "Cancelled."}})
    wire.answer(3)
    send(method="notifications/cancelled", params={"requestId": "e"})
    send(id=3, result={"action": "accept", "content": {"save": True}})
    send(id="f", method="tools/call", params={"name": "memory_get", "arguments": {"path": "tea"}})
    assert "Tea is green." in wire.answer("f")["result"]["structuredContent"]["text"]
    cancelled = {"requestId": 3, "reason": "caller cancelled"}
    assert wire.sent == [{"jsonrpc": "2.0", "method": "notifications/cancelled", "params": cancelled}]
    front._jobs.put(None)
    assert not list(home_of(folders[0]).glob("memory/**/cancelled*.md"))
