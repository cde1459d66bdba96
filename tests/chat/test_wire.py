"""Chats with the real clients over a real socket: as providers answer, refuse, break off and hang."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from typing import TYPE_CHECKING, Any

import pytest

from llm.wire_server import KEY, MODEL, Cut, Drop, Fail, Hang, Refuse, Say, Send, Use, WireServer, serving
from vade_command import VADE
from vademecum.interfaces.chat import conversation, state
from vademecum.interfaces.chat.state import find_model
from vademecum.llm import providers
from vademecum.transcripts import Role
from vademecum.transcripts.events import MessageEvent, Used, end_of

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.interfaces.chat.state import Chat

    from .conftest import Room


@pytest.fixture
def wire() -> Iterator[WireServer]:
    with serving() as server:
        yield server


@pytest.fixture(params=["openai", "anthropic"])
def provider(request: pytest.FixtureRequest, wire: WireServer, monkeypatch: pytest.MonkeyPatch) -> str:
    name: str = request.param
    monkeypatch.setenv("VADE_LLM_ENDPOINT", wire.endpoint(name))
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("ANTHROPIC_API_KEY", KEY)
    return name


def talking(room: Room, provider: str, **given: Any) -> Chat:
    """A chat with a model at the server, as `vade chat --model` makes it."""
    chat = room.chat(None, **given)
    chat.model = find_model(chat.settings, f"{provider}:{MODEL}")
    chat.renew()
    return chat


def test_an_answer_streams_in_and_its_cost_is_counted(room: Room, wire: WireServer, provider: str) -> None:
    wire.script(Say("Polly wants a cracker.", input=900, output=7))
    chat = talking(room, provider)
    assert conversation.run_turn(chat, "What does Polly want?").text == "Polly wants a cracker."
    (used,) = [event for event in chat.log.events() if isinstance(event, Used)]
    assert (used.input, used.output) == (900, 7)
    assert wire.seen[0].body["stream"] is True
    assert chat.thread[-1].model == MODEL


def test_a_tool_call_goes_there_and_its_result_back(room: Room, wire: WireServer, provider: str) -> None:
    wire.script(Use("memory_search", {"query": "deploys"}, text="Let me look."), Say("On Tuesdays."))
    chat = talking(room, provider)
    chat.person.store("Deploys happen on Tuesdays.", key="deploys")
    assert conversation.run_turn(chat, "When do we deploy?").text == "On Tuesdays."
    assert "Deploys happen on Tuesdays." in wire.seen[1].text
    assert "memory_search" in json.dumps(wire.seen[0].body["tools"])


def test_a_tool_call_that_is_no_json_is_told_and_mended(
    room: Room, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADE_LLM_ENDPOINT", wire.endpoint("compatible"))
    wire.script(Use("memory_search", '{"query": '), Say("I give up."))
    chat = talking(room, "compatible")
    assert conversation.run_turn(chat, "When do we deploy?").text == "I give up."


@pytest.mark.parametrize("kind", ["busy", "fault"])
def test_a_server_that_is_busy_or_broken_for_a_moment_is_asked_again(
    room: Room, wire: WireServer, provider: str, kind: str
) -> None:
    wire.script(Refuse(kind, retry_after="0"), Say("Here."))
    assert conversation.run_turn(talking(room, provider), "Hello?").text == "Here."


def test_an_overflow_as_the_provider_words_it_makes_the_window_smaller(
    room: Room, wire: WireServer, provider: str
) -> None:
    long = Say("Fine. " * 60)
    wire.script(*[long] * 6, Refuse("overflow"), Say("NO_REPLY"), Say("Smaller, and here."))
    chat = talking(room, provider, window=20_000)
    for number in range(6):
        conversation.run_turn(chat, f"Tell me about part {number} of the import. " + "It is long. " * 80)
    assert conversation.run_turn(chat, "And the last part of it, in one word?").text == "Smaller, and here."
    assert len(wire.seen[-1].text) < len(wire.seen[6].text)
    assert "the last part of it" in wire.seen[-1].text


@pytest.mark.parametrize(
    "reply", [Cut("Polly wants a"), Cut("Polly wants a", clean=True), Fail("Polly wants a")]
)
def test_a_stream_that_breaks_off_keeps_what_came(
    room: Room, wire: WireServer, provider: str, reply: Cut | Fail, capsys: pytest.CaptureFixture[str]
) -> None:
    wire.script(reply, Say("Once more, whole."))
    chat = talking(room, provider)
    outcome = conversation.run_turn(chat, "What does Polly want?")
    assert not outcome.ok
    assert chat.thread[-1].text.startswith("Polly")
    assert chat.thread[-1].extra["vademecum"] == {"interrupted": True}
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert conversation.run_turn(chat, "Go on").text == "Once more, whole."


@pytest.mark.parametrize(
    ("reply", "said"),
    [
        (Refuse("key"), "key"),
        (Refuse("unknown"), "404"),
        (Say(""), "empty answer"),
        (Send(200, b"<html>"), ""),
        (Drop(), ""),
    ],
)
def test_what_goes_wrong_is_one_sentence_without_the_key(
    *,
    room: Room,
    wire: WireServer,
    provider: str,
    reply: Any,
    said: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("vademecum.llm.remote_model.ATTEMPTS", 1)
    wire.script(reply)
    outcome = conversation.run_turn(talking(room, provider), "Hello?")
    shown = capsys.readouterr().err
    assert not outcome.ok
    assert said in shown
    assert len(shown.splitlines()) == 1
    assert KEY not in shown


def test_a_missing_key_is_one_sentence(
    room: Room, provider: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv("VADE_LLM_ENDPOINT")
    monkeypatch.delenv(f"{provider.upper()}_API_KEY")
    assert not conversation.run_turn(talking(room, provider), "Hello?").ok
    assert f"{provider.upper()}_API_KEY" in capsys.readouterr().err


def test_a_local_server_that_takes_no_tools_answers_without_them(
    room: Room, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADE_LLM_ENDPOINT", wire.endpoint("ollama"))
    refused = {"error": {"message": "registry.ollama.ai/library/gemma does not support tools"}}
    wire.script(Send(400, json.dumps(refused).encode()), Say("Hello."))
    chat = talking(room, "ollama")
    assert conversation.run_turn(chat, "Hello?").text == "Hello."
    assert not wire.seen[1].body.get("tools")


def test_a_running_local_server_is_found_without_being_named(
    room: Room, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.ollama_models = ["parrot:1b"]
    wire.script(Say("Hello."))
    real = providers.discover_servers
    monkeypatch.setattr(state, "discover_servers", lambda: real(ollama=wire.port, llama=1))
    chat = room.chat(None)
    chat.model = find_model(chat.settings, None)
    chat.renew()
    assert chat.model_name == "ollama:parrot:1b"
    assert conversation.run_turn(chat, "Hello?").text == "Hello."


def test_a_model_that_only_makes_vectors_is_not_talked_to(
    room: Room, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.ollama_models = ["nomic-embed-text", "BGE-m3", "all-minilm:l6", "parrot:1b"]
    real = providers.discover_servers
    monkeypatch.setattr(state, "discover_servers", lambda: real(ollama=wire.port, llama=1))
    settings = room.chat(None).settings
    found = find_model(settings, None)
    assert found is not None
    assert found.name == "ollama:parrot:1b"
    wire.ollama_models = ["nomic-embed-text"]
    assert find_model(settings, None) is None


def test_a_llama_server_that_runs_here_is_named_without_its_address(
    room: Room, wire: WireServer, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    wire.llama_models = ["tiny"]
    wire.script(Say("Hello."))
    real = providers.discover_servers
    monkeypatch.setattr(state, "discover_servers", lambda: real(ollama=1, llama=wire.port))
    chat = room.chat(None)
    assert conversation.handle_line(chat, "/model compatible:tiny") == 0
    assert chat.model_name == "compatible:tiny"
    assert conversation.run_turn(chat, "Hello?").text == "Hello."
    wire.llama_models = []
    assert conversation.handle_line(chat, "/model compatible:tiny") == 1
    assert "llm.endpoint" in capsys.readouterr().err


def test_none_is_no_model_and_nothing_is_looked_for(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise AssertionError("nobody asked")

    monkeypatch.setattr(state, "discover_servers", refuse)
    assert find_model(room.chat(None).settings, providers.NONE) is None


# ---------------------------------------------------------------- processes


def run(room: Room, *words: str, question: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [VADE, "chat", "--home", str(room.home), *words],
        input=question,
        cwd=room.project,
        env={**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def named(wire: WireServer) -> dict[str, str]:
    return {"VADE_LLM_ENDPOINT": wire.endpoint("compatible"), "VADE_MODEL": f"compatible:{MODEL}"}


def test_over_a_pipe_the_answer_alone_is_printed(room: Room, wire: WireServer) -> None:
    wire.script(Say("Polly wants a cracker."))
    done = run(room, "--print", question="What does Polly want?\n", **named(wire))
    assert (done.returncode, done.stdout, done.stderr) == (0, "Polly wants a cracker.\n", "")


@pytest.mark.full
def test_over_a_pipe_tools_are_not_seen_and_silence_is_empty(room: Room, wire: WireServer) -> None:
    wire.script(Use("todo", {"operation": "list"}), Say("NO_REPLY"))
    done = run(room, "--print", question="Anything?\n", **named(wire))
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.full
def test_a_failure_over_a_pipe_is_told_and_ends_with_one(room: Room, wire: WireServer) -> None:
    wire.script(Refuse("key"))
    done = run(room, "--print", question="Hello?\n", **named(wire))
    assert done.returncode == 1
    assert not done.stdout
    assert len(done.stderr.splitlines()) == 1
    nothing = run(room, "--print", "--model", "none", question="Hello?\n")
    assert nothing.returncode == 1
    assert "no model" in nothing.stderr
    assert run(room, "--print", "--model", "none").returncode == 2
    assert run(room, "--print", "--model", "nonsense", question="Hello?").returncode == 2


def test_a_command_over_a_pipe_needs_no_model(room: Room) -> None:
    words = ("--print", "--model", "none")
    kept = run(room, *words, question="/remember Deploys happen on Tuesdays.\n")
    assert (kept.returncode, kept.stderr) == (0, "")
    listed = run(room, *words, question="/memory list\n")
    assert listed.returncode == 0
    assert "Deploys happen on Tuesdays." in listed.stdout


@pytest.mark.full
def test_a_session_named_by_the_environment_is_not_ended_by_one_question(
    room: Room, wire: WireServer
) -> None:
    wire.script(Say("Hello Ada."), Say("You are Ada."))
    for question in ("I am Ada.", "Who am I?"):
        done = run(room, "--print", question=question, VADE_SESSION="greeting", **named(wire))
        assert done.returncode == 0
    assert "I am Ada." in wire.seen[1].text
    assert end_of(room.chat(None).person.sessions.open("greeting").events()) is None


def test_lines_over_a_pipe_are_commands_and_questions(room: Room, wire: WireServer) -> None:
    wire.script(Say("Polly wants a cracker."))
    done = run(
        room, question="/remember Deploys happen on Tuesdays.\nWhat does Polly want?\n/quit\n", **named(wire)
    )
    assert done.returncode == 0
    assert "created: " in done.stdout
    assert "Polly wants a cracker." in done.stdout


@pytest.mark.full
def test_a_session_can_be_gone_on_with_by_name_and_as_the_last(
    room: Room, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADE_LLM_ENDPOINT", wire.endpoint("compatible"))
    wire.script(Say("Hello Ada."), Say("You are Ada."), Say("Still Ada."))
    for question in ("I am Ada.", "Who am I?"):
        chat = talking(room, "compatible", session="greeting")
        assert conversation.run_turn(chat, question).ok
        room.close()
    run(room, "--print", "--session", "last", question="And now?", **named(wire))
    assert "I am Ada." in wire.seen[2].text
    assert "You are Ada." in wire.seen[2].text
    chat = room.chat(None, session="greeting")
    assert [str(each.role) for each in chat.thread] == ["system", *["user", "assistant"] * 3]


def begun(room: Room, wire: WireServer, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [VADE, "chat", "--home", str(room.home), *words],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=room.project,
        env={**os.environ, **named(wire)},
        text=True,
    )


@pytest.mark.full
def test_killed_in_the_middle_of_an_answer_nothing_is_lost_and_no_turn_is_there_twice(
    room: Room, wire: WireServer
) -> None:
    wire.script(Say("First."), Hang("Half of the sec"))
    process = begun(room, wire, "--session", "work")
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write("The first question.\nThe second question.\n")
    process.stdin.flush()
    seen = ""
    while "Half" not in seen:
        piece = process.stdout.read(1)
        assert piece, process.stderr.read() if process.stderr else ""
        seen += piece
    process.send_signal(signal.SIGKILL)
    process.communicate()
    wire.script(Say("Second, whole."))
    done = run(room, "--session", "work", question="The second question.\n", **named(wire))
    assert "has no answer yet" in done.stdout
    assert "Second, whole." in done.stdout
    chat = room.chat(None, session="work")
    assert [each.text for each in chat.thread[1:]] == [
        "The first question.",
        "First.",
        "The second question.",
        "Second, whole.",
    ]
    assert wire.seen[-1].text.count("The second question.") == 1


@pytest.mark.full
def test_two_chats_at_once_each_have_a_session_and_lose_nothing(room: Room, wire: WireServer) -> None:
    wire.script(Say("Yes."))
    count = 12
    both = [begun(room, wire), begun(room, wire)]
    for number, process in enumerate(both):
        assert process.stdin is not None
        lines = "".join(
            f"Question {each} of chat {number}\n/remember Fact {each} of chat {number} is known.\n"
            for each in range(count)
        )
        process.stdin.write(lines)
        process.stdin.close()
    for process in both:
        assert process.wait(120) == 0, process.stderr.read() if process.stderr else ""
        for stream in (process.stdout, process.stderr):
            if stream is not None:
                stream.close()
    person = room.chat(None).person
    sessions = [each.id for each in person.sessions.list() if each.messages > 1]
    assert len(sessions) == 2
    for session in sessions:
        said = [
            event.message.text
            for event in person.sessions.open(session).events()
            if isinstance(event, MessageEvent) and event.message.role is Role.USER
        ]
        (chat,) = {text[-1] for text in said}
        assert said == [f"Question {each} of chat {chat}" for each in range(count)]
    texts = {entry.text for record in person.list().records for entry in record.entries}
    for number in (0, 1):
        for each in range(count):
            assert f"Fact {each} of chat {number} is known." in texts


def test_a_chat_and_an_editor_at_once_lose_nothing(room: Room, wire: WireServer) -> None:
    wire.script(Say("Yes."))
    process = begun(room, wire)
    assert process.stdin is not None
    process.stdin.write("/remember Deploys happen on Tuesdays.\n")
    process.stdin.flush()
    record: Path | None = None
    for _ in range(600):
        record = next(iter(room.home.rglob("records/*.md")), None)
        if record is not None:
            break
        time.sleep(0.05)
    assert record is not None
    record.write_text(record.read_text() + "\n## 2026-11-15T08:00:00Z\nWritten by hand.\n")
    out, err = process.communicate(f"/memory show {record.stem}\n/quit\n", timeout=120)
    assert process.returncode == 0, err
    assert "Written by hand." in out
    assert "Deploys happen on Tuesdays." in record.read_text()
