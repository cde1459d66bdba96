"""The window of a model is what its server takes, whatever was assumed: learned once, and kept."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from llm.wire_server import MODEL, Say, WireServer, serving
from vademecum.interfaces.chat import conversation
from vademecum.interfaces.chat.state import find_model
from vademecum.llm import providers
from vademecum.llm.scripted import Scripted
from vademecum.transcripts import Role
from vademecum.transcripts.events import Flushed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.interfaces.chat.state import Chat
    from vademecum.llm.scripted import ScriptedQuestion

    from .conftest import Room

SILENT = "the input length exceeds the context length"


@pytest.fixture
def wire(monkeypatch: pytest.MonkeyPatch) -> Iterator[WireServer]:
    with serving() as server:
        monkeypatch.setenv("VADE_LLM_ENDPOINT", server.endpoint("compatible"))
        server.script(Say("NO_REPLY", counted=False))
        yield server


def talking(room: Room, *, provider: str = "compatible", window: int | None = 32_000, **given: Any) -> Chat:
    chat = room.chat(None, window=window, **given)
    chat.model = find_model(chat.settings, f"{provider}:{MODEL}")
    chat.renew()
    return chat


def talk(chat: Chat, turns: int = 8) -> None:
    for number in range(turns):
        text = f"Tell me about part {number} of the import. " + "It is long and winding. " * 120
        assert conversation.run_turn(chat, text).ok


@pytest.mark.full(but=1)
@pytest.mark.parametrize("limit", [6_000, 7_000])
@pytest.mark.parametrize("words", ["", "prompt is too long: {sent} tokens > {limit} maximum", SILENT])
def test_of_eight_turns_one_is_refused(room: Room, wire: WireServer, limit: int, words: str) -> None:
    wire.limit, wire.refusal = limit, words or wire.refusal
    chat = talking(room)
    talk(chat)
    assert wire.refused == 1
    assert limit / 2 < chat.window <= limit * 1.25  # an estimate, where the refusal has no number
    assert chat.window == limit or words == SILENT
    outcomes = [event.outcome for event in chat.log.events() if isinstance(event, Flushed)]
    assert outcomes
    assert not [each for each in outcomes if each.startswith("failed")]


@pytest.mark.full
def test_another_chat_knows_what_was_learned_and_one_with_another_model_or_address_does_not(
    room: Room, wire: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    wire.limit = 6_000
    talk(talking(room))
    room.close()
    assert wire.refused == 1
    again = talking(room, fresh=True)
    assert again.window == 6_000
    talk(again)
    assert wire.refused == 1
    again.model = find_model(again.settings, "compatible:other")
    again.renew()
    assert again.window == 32_000
    room.close()
    with serving() as other:
        monkeypatch.setenv("VADE_LLM_ENDPOINT", other.endpoint("compatible"))
        assert talking(room, fresh=True).window == 32_000


def test_a_session_without_memory_learns_for_itself_alone(room: Room, wire: WireServer) -> None:
    wire.limit = 6_000
    chat = talking(room, incognito=True)
    talk(chat)
    assert wire.refused == 1
    assert chat.window == 6_000
    room.close()
    assert talking(room, fresh=True).window == 32_000


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    ("provider", "path", "answer"),
    [
        ("compatible", "/props", {"default_generation_settings": {"n_ctx": 6_144}}),
        ("ollama", "/api/show", {"parameters": 'stop "<end>"\nnum_ctx                        6144'}),
    ],
)
def test_a_server_that_says_its_window_refuses_nothing(
    room: Room, wire: WireServer, provider: str, path: str, answer: dict[str, Any]
) -> None:
    wire.served[path], wire.limit = answer, 6_144
    chat = talking(room, provider=provider)
    assert chat.window == 6_144
    talk(chat)
    assert wire.refused == 0
    room.close()
    assert talking(room, provider=provider, window=None, fresh=True).window == 6_144
    room.close()
    assert talking(room, provider=provider, window=4_096, fresh=True).window == 4_096


@pytest.mark.parametrize(
    "answer", [[], {}, {"default_generation_settings": {"n_ctx": n}} if (n := -1) else None, "x", None]
)
@pytest.mark.parametrize("path", ["/props", "/api/show"])
def test_a_server_that_says_nonsense_of_its_window_says_nothing(
    wire: WireServer, path: str, answer: object
) -> None:
    wire.served[path] = answer
    provider = "compatible" if path == "/props" else "ollama"
    place = providers.find_model(f"{provider}:{MODEL}", endpoint=wire.endpoint(provider))
    assert providers.find_window(place) is None


def test_no_server_of_another_machine_is_asked() -> None:
    place = providers.find_model("compatible:x", endpoint="http://192.0.2.1:8080/v1")
    assert providers.find_window(place, seconds=60) is None


@pytest.mark.full
def test_a_server_that_says_more_than_it_takes_is_believed_once(room: Room, wire: WireServer) -> None:
    wire.served["/props"], wire.limit = {"default_generation_settings": {"n_ctx": 16_000}}, 6_000
    talk(talking(room))
    room.close()
    chat = talking(room, fresh=True)
    assert chat.window == 6_000
    talk(chat)
    assert wire.refused == 1


def test_a_server_that_got_a_larger_window_has_it(room: Room, wire: WireServer) -> None:
    wire.served["/props"], wire.limit = {"default_generation_settings": {"n_ctx": 16_000}}, 6_000
    talk(talking(room))
    room.close()
    wire.served["/props"], wire.limit = {"default_generation_settings": {"n_ctx": 20_000}}, 20_000
    assert talking(room, fresh=True).window == 20_000


def test_a_server_that_got_a_smaller_window_refuses_once_more(room: Room, wire: WireServer) -> None:
    wire.limit = 12_000
    chat = talking(room)
    talk(chat, 16)
    wire.limit = 6_000
    talk(chat, 8)
    assert chat.window == 6_000
    assert wire.refused == 2


@pytest.mark.full(but=1)
@pytest.mark.parametrize("said", ["1", "600", "999999999"])
def test_a_server_whose_number_cannot_be_is_still_talked_with(
    room: Room, wire: WireServer, said: str
) -> None:
    wire.limit = 6_000
    wire.refusal = f"exceeds the available context size ({said} tokens)"
    chat = talking(room)
    talk(chat)
    assert chat.window > 2_000


# -------------------------------------------------------------------- windows with hardly any room


@pytest.mark.parametrize("window", [700, 1_200, 2_048, 3_000])
def test_a_small_window_answers_or_says_what_to_cut_and_flushes_nothing_first(
    room: Room, capsys: pytest.CaptureFixture[str], window: int
) -> None:
    person = room.chat().person
    for number in range(30):
        person.store(f"Service {number} listens on port {8000 + number}. " * 4, key=f"service-{number}")
    room.close()
    asked: list[ScriptedQuestion] = []

    def answer(question: ScriptedQuestion) -> str:
        asked.append(question)
        return "Paris."

    chat = room.chat(Scripted(answer, answer), window=window)
    outcome = conversation.run_turn(chat, "What is the capital of France?")
    said = capsys.readouterr().err
    assert outcome.ok or "is too small for a conversation" in said
    assert not [event for event in chat.log.events() if isinstance(event, Flushed)]
    assert len(asked) == outcome.ok  # no turn of the model's over that one question
    if not outcome.ok:
        assert "service-" in said
        assert "--no-inject" in said
        assert "fewer tools" not in said
        room.close()
        bare = room.chat(Scripted("Paris."), window=window, inject=False, session=chat.log.session)
        told = conversation.run_turn(bare, "What is the capital of France?")
        assert told.ok or "use a larger `--window`" in capsys.readouterr().err
        assert [each.text for each in bare.thread if each.role is Role.USER][:1] == [
            "What is the capital of France?"
        ]


def test_a_window_too_small_for_tools_talks_without_them_and_says_so(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = room.chat(Scripted("Paris."), window=2_000)
    assert chat.offered() == []
    conversation.greet(chat)
    assert "no tools: the context window is too small" in capsys.readouterr().out
    assert conversation.run_turn(chat, "What is the capital of France?").text == "Paris."


def test_a_pinned_document_larger_than_the_window_is_named_and_nothing_is_lost(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = room.home / "memory" / "global"
    folder.mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Everything\n\n" + "The build takes four steps.\n" * 600)
    chat = room.chat(Scripted("Paris."), window=3_000)
    assert not conversation.run_turn(chat, "What is the capital of France?").ok
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "MEMORY.md" in said
    assert "`--no-inject`" in said
    room.close()
    again = room.chat(Scripted("Paris."), window=3_000, inject=False, session=chat.log.session)
    assert conversation.run_turn(again, "What is the capital of France?").text == "Paris."
    assert [str(each.role) for each in again.thread] == ["system", "user", "assistant"]
