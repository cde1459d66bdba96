"""Whole conversations with a scripted model: what it is sent, what is shown, what is kept."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.errors import ModelFailed, ModelNonsense, ModelOverflow
from vademecum.interfaces.chat import conversation, tools
from vademecum.interfaces.chat.state import ChatUsage
from vademecum.llm.base import Call, ModelUsage
from vademecum.llm.scripted import Scripted
from vademecum.transcripts import Role
from vademecum.transcripts.events import Flushed, MessageEvent, Trimmed, Used
from vademecum.types import Origin

if TYPE_CHECKING:
    from vademecum.interfaces.chat.state import Chat
    from vademecum.llm.scripted import Reply, ScriptedQuestion

    from .conftest import Room


def use(name: str, **arguments: object) -> Call:
    return Call(f"call-{name}", name, json.dumps(arguments))


def roles(chat: Chat) -> list[str]:
    """Who spoke, as the log of the session says it."""
    return [str(event.message.role) for event in chat.log.events() if isinstance(event, MessageEvent)]


def test_an_answer_is_shown_and_both_sides_are_in_the_transcript(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = room.chat(Scripted("Good **morning**."))
    assert conversation.run_turn(chat, "Good morning").text == "Good **morning**."
    assert "Good **morning**." in capsys.readouterr().out
    assert roles(chat) == ["system", "user", "assistant"]
    assert any(isinstance(event, Used) for event in chat.log.events())


def test_the_answer_is_on_disk_before_the_next_turn(room: Room) -> None:
    chat = room.chat(Scripted("The build is green."))
    conversation.run_turn(chat, "How is the build?")
    path = room.home / chat.log.path
    assert "The build is green." in path.read_text()


def test_what_is_remembered_is_told_to_the_model_before_it_begins(room: Room) -> None:
    room.chat().person.store("Deploys happen on Tuesdays.", key="deploys")
    room.close()
    model = Scripted("On Tuesdays.")
    conversation.run_turn(room.chat(model), "When do we deploy?")
    assert "Deploys happen on Tuesdays." in json.dumps(model.asked[0].prompt)


@pytest.mark.parametrize("flag", [{"inject": False}, {"incognito": True}])
def test_nothing_is_told_when_that_is_asked_for(room: Room, flag: dict[str, Any]) -> None:
    room.chat().person.store("Deploys happen on Tuesdays.", key="deploys")
    room.close()
    model = Scripted("I do not know.")
    conversation.run_turn(room.chat(model, **flag), "When do we deploy?")
    assert "Tuesdays" not in json.dumps(model.asked[0].prompt)


def test_what_was_learned_is_left_out_without_long_term_memory(room: Room) -> None:
    person = room.chat().person
    person.knowledge.learn("discovery", fact="The cache is in Redis.")
    person.store("Deploys happen on Tuesdays.", key="deploys")
    room.close()
    model = Scripted("Yes.")
    conversation.run_turn(room.chat(model, knowledge=False), "Well?")
    told = json.dumps(model.asked[0].prompt)
    assert "Tuesdays" in told
    assert "## Learned" not in told


def test_a_tool_is_called_and_its_result_goes_back_to_the_model(room: Room) -> None:
    chat = room.chat(Scripted(use("memory_search", query="deploys"), "On Tuesdays."))
    chat.person.store("Deploys happen on Tuesdays.", key="deploys")
    assert conversation.run_turn(chat, "When do we deploy?").text == "On Tuesdays."
    assert roles(chat) == ["system", "user", "assistant", "tool", "assistant"]
    result = next(each for each in chat.thread if each.role is Role.TOOL).results[0]
    assert "Deploys happen on Tuesdays." in result.text


def test_a_person_sees_exactly_what_would_be_kept_and_says_yes(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    secret = "ghp_" + "a1B2c3D4e5" * 4
    room.person.answers = ["y"]
    chat = room.chat(Scripted(use("memory_store", content=f"The token is {secret}.", key="token"), "Kept."))
    conversation.run_turn(chat, "Keep my token")
    shown = capsys.readouterr().out
    assert secret not in shown.split("The model asks")[1]
    kept = chat.person.show("token")
    assert f"text: {kept.text}" in shown
    assert kept.entries[-1].origin is Origin.AGENT
    assert room.person.asked == ["Save it? [y/n/a] "]


def test_a_person_says_no_and_nothing_is_kept(room: Room) -> None:
    room.person.answers = ["n"]
    chat = room.chat(Scripted(use("memory_store", content="Deploys happen on Tuesdays."), "Well."))
    conversation.run_turn(chat, "Deploys happen on Tuesdays")
    assert not chat.person.list().records
    assert "declined" in next(each for each in chat.thread if each.role is Role.TOOL).results[0].text


def test_always_is_asked_once_and_never_covers_what_everyone_reads(room: Room) -> None:
    room.person.answers = ["a", "n"]
    chat = room.chat(
        Scripted(
            use("memory_store", content="Deploys happen on Tuesdays.", key="deploys"),
            use("memory_store", content="Tests are run with pytest.", key="tests"),
            use("memory_store", content="Everybody may read this.", key="all", scope="federated"),
            "Done.",
        )
    )
    conversation.run_turn(chat, "Remember these")
    assert len(room.person.asked) == 2
    assert {record.key for record in chat.person.list().records} == {"deploys", "tests"}


def test_always_never_covers_what_a_team_reads(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    (room.home / "hub/11111111").mkdir(parents=True)
    told = {"workspace": "11111111", "name": "ours", "kind": "team", "member": "ada", "role": "writer"}
    (room.home / "hub/11111111/workspace.json").write_text(
        json.dumps({**told, "url": "http://127.0.0.1:1", "replica": "a" * 16})
    )
    room.person.answers = ["a", "a", "n"]
    chat = room.chat(
        Scripted(
            use("memory_store", content="Deploys happen on Tuesdays.", key="deploys"),
            use("memory_store", content="Tests are run with pytest.", key="tests", team="ours"),
            use("memory_store", content="The team must not read this.", key="all", team="ours"),
            "Done.",
        )
    )
    conversation.run_turn(chat, "Remember these")
    assert len(room.person.asked) == 3
    assert capsys.readouterr().out.count("team: ours") == 2
    kept = {record.key: record.team for record in chat.person.list().records}
    assert kept == {"deploys": "", "tests": "ours"}


def test_always_is_not_offered_for_what_takes_away(room: Room) -> None:
    room.person.answers = ["a", "y", "n"]
    chat = room.chat(
        Scripted(use("memory_forget", key="deploys"), use("memory_forget", key="tests"), "Done.")
    )
    chat.person.store("Deploys happen on Tuesdays.", key="deploys")
    chat.person.store("Tests are run with pytest.", key="tests")
    conversation.run_turn(chat, "Forget these")
    assert room.person.asked == ["Forget it? [y/n] "] * 3  # `a` is no answer to it
    assert [record.key for record in chat.person.list().records] == ["tests"]


def test_where_nobody_can_be_asked_a_write_waits_for_a_person(room: Room) -> None:
    chat = room.chat(
        Scripted(use("memory_store", content="Deploys happen on Tuesdays."), "Fine."), asks=False
    )
    conversation.run_turn(chat, "Deploys happen on Tuesdays")
    assert not chat.person.list().records
    (waiting,) = chat.person.review.approvals()
    chat.person.review.approve(waiting.id)
    assert chat.person.list().records[0].text == "Deploys happen on Tuesdays."


def test_an_agent_that_may_not_write_is_told_so(room: Room, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADE_APPROVAL_CHAT", "deny")
    chat = room.chat(Scripted(use("memory_store", content="Deploys happen on Tuesdays."), "Fine."))
    conversation.run_turn(chat, "Deploys happen on Tuesdays")
    assert not chat.person.list().records
    assert not room.person.asked


def test_where_agents_may_not_write_a_flush_writes_nothing_either(
    room: Room, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VADE_APPROVAL_CHAT", "deny")
    chat = room.chat(Scripted(*[full] * 80), window=16_000)
    for number in range(24):
        assert conversation.run_turn(chat, f"What is slow about part {number}? " + "Look at it. " * 40).ok
    outcomes = {event.outcome for event in chat.log.events() if isinstance(event, Flushed)}
    assert outcomes == {"nothing"}
    assert not list(room.home.rglob("journal/*.md"))


def test_a_signal_is_proposed_and_only_kept_when_the_person_says_so(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = room.chat(Scripted("Noted."))
    conversation.run_turn(chat, "I prefer tabs over spaces in Python files.")
    assert "/remember" in capsys.readouterr().out
    assert not chat.person.list().records
    conversation.handle_line(chat, "/remember")
    (record,) = chat.person.list().records
    assert record.entries[-1].origin is Origin.USER
    assert record.type == "user"
    assert str(record.place.scope) == "global"


@pytest.mark.parametrize("word", ["NO_REPLY", "no_reply.", "**NO_REPLY**"])
def test_a_silent_reply_is_never_seen(room: Room, word: str, capsys: pytest.CaptureFixture[str]) -> None:
    chat = room.chat(Scripted(word))
    outcome = conversation.run_turn(chat, "Anything?")
    assert outcome.ok
    assert "REPLY" not in capsys.readouterr().out.upper()


def test_an_overflow_is_answered_with_a_smaller_window_and_the_same_request(room: Room) -> None:
    refused = ModelOverflow("prompt is too long")
    replies: list[Reply] = [
        *["Fine. " * 40] * 6,
        refused,
        "NO_REPLY",  # to the flush, which comes first
        "Smaller, and here.",
    ]
    chat = room.chat(Scripted(*replies), window=20_000)
    for number in range(6):
        conversation.run_turn(chat, f"Tell me about part {number} of the import. " + "It is long. " * 80)
    outcome = conversation.run_turn(chat, "And what about the last part of the import, in one word?")
    assert outcome.text == "Smaller, and here."
    assert "the last part of the import" in json.dumps(chat.model._model.asked[-1].prompt)  # type: ignore[union-attr]
    assert any(isinstance(event, Trimmed) for event in chat.log.events())


def test_an_overflow_that_never_ends_is_one_sentence(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    chat = room.chat(Scripted(*[ModelOverflow("prompt is too long")] * 10), window=20_000)
    outcome = conversation.run_turn(chat, "Hello there, this is a question.")
    assert not outcome.ok
    assert "Traceback" not in capsys.readouterr().err
    assert roles(chat)[-1] == "user"


def full(asked: ScriptedQuestion) -> str:
    """Answer a flush with notes, a compaction with nothing usable, and everything else at length."""
    if asked.tools and asked.tools[0]["name"] == "journal_append":
        return "- The import reads the file twice."
    if not asked.tools:
        return "no"
    return "It is slow because the file is read twice. " * 30


def test_a_full_window_is_flushed_and_compacted_and_nobody_hears_of_the_flush(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = room.chat(Scripted(*[full] * 80), window=16_000, verbose=True)
    for number in range(24):
        assert conversation.run_turn(chat, f"What is slow about part {number}? " + "Look at it. " * 40).ok
    shown = capsys.readouterr().out
    assert "🧹 Auto-compaction complete" in shown
    assert "The import reads the file twice." not in shown
    assert "The import reads the file twice." in chat.person.notes_of_today().text
    flushes = [event for event in chat.log.events() if isinstance(event, Flushed)]
    assert flushes
    assert all(event.outcome in ("written", "nothing") for event in flushes)


def test_without_verbose_nothing_is_said_of_a_compaction(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = room.chat(Scripted(*[full] * 80), window=16_000)
    for number in range(24):
        conversation.run_turn(chat, f"What is slow about part {number}? " + "Look at it. " * 40)
    assert chat.engine.inspect().cycles
    assert "compaction" not in capsys.readouterr().out


def test_a_read_only_chat_writes_nothing_and_records_the_flush_as_skipped(room: Room) -> None:
    room.chat().person.store("Deploys happen on Tuesdays.", key="deploys")
    room.close()
    before = files(room)
    chat = room.chat(Scripted(*[full] * 80), window=16_000, readonly=True)
    for number in range(24):
        assert conversation.run_turn(chat, f"What is slow about part {number}? " + "Look at it. " * 40).ok
    conversation.handle_line(chat, "/remember tea")
    conversation.handle_line(chat, "/todo add tea")
    chat.end(why="quit")
    outcomes = {event.outcome for event in chat.log.events() if isinstance(event, Flushed)}
    assert outcomes == {"skipped:read-only"}
    assert "Tuesdays" in chat.block.text
    assert files(room) == before


def test_an_incognito_chat_reads_nothing_and_leaves_nothing_behind(room: Room) -> None:
    room.chat().person.store("Deploys happen on Tuesdays.", key="deploys")
    room.close()
    before = files(room)
    chat = room.chat(Scripted(*[full] * 80), window=16_000, incognito=True)
    for number in range(24):
        assert conversation.run_turn(chat, f"What is slow about part {number}? " + "Look at it. " * 40).ok
    chat.end(why="quit")
    assert {event.outcome for event in chat.log.events() if isinstance(event, Flushed)} == {
        "skipped:incognito"
    }
    assert files(room) == before
    assert all("memory" not in tool["name"] for tool in chat.offered())


def files(room: Room) -> dict[str, bytes]:
    """Every file of the home but for what is derived."""
    return {
        str(path.relative_to(room.home)): path.read_bytes()
        for path in sorted(room.home.rglob("*"))
        if path.is_file()
        and not path.relative_to(room.home).as_posix().startswith(("index/", "locks/", "state.db"))
    }


# ---------------------------------------------------------------- what goes wrong


def test_without_a_model_one_sentence_says_how_to_get_one(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = room.chat(None)
    assert not conversation.run_turn(chat, "Hello").ok
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 1
    for way in ("Ollama", "--model", "VADE_MODEL", "config.toml"):
        assert way in said
    assert conversation.handle_line(chat, "/memory list") == 0


@pytest.mark.parametrize(
    "error", [ModelFailed("the server is gone"), ModelNonsense("it gave an empty answer")]
)
def test_a_model_that_fails_is_one_sentence_and_the_turn_can_be_asked_again(
    room: Room, error: Exception, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = room.chat(Scripted(error, "Here."))
    assert not conversation.run_turn(chat, "Are you there?").ok
    assert len(capsys.readouterr().err.splitlines()) == 1
    assert conversation.run_turn(chat, "Are you there?").text == "Here."
    assert roles(chat) == ["system", "user", "assistant"]


def test_a_model_without_tools_goes_on_without_them(room: Room) -> None:
    refused = ModelFailed(
        "ollama:gemma at 127.0.0.1:11434 failed: 400, it refused: gemma does not support tools"
    )
    model = Scripted(refused, "Hello.", "Again.")
    chat = room.chat(model)
    assert conversation.run_turn(chat, "Hello").text == "Hello."
    assert conversation.run_turn(chat, "Again?").text == "Again."
    assert model.asked[0].tools
    assert not model.asked[1].tools
    assert not model.asked[2].tools


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (Call("1", "memory_store", "{broken"), "not JSON"),
        (Call("1", "memory_store", "[]"), "not a JSON object"),
        (Call("1", "memory_store", "{}"), "`content` is missing"),
        (Call("1", "memory_store", '{"content": 7}'), "must be a text"),
        (Call("1", "launch_missiles", "{}"), "there is no tool"),
        (Call("1", "todo", '{"operation": "explode"}'), "explode"),
        (Call("1", "read_file", '{"path": "not-there"}'), "there is no"),
        (Call("1", "grep", '{"pattern": "("}'), "regular expression"),
    ],
)
def test_a_call_that_is_none_is_told_to_the_model(room: Room, call: Call, said: str) -> None:
    chat = room.chat(Scripted(call, "I see."), allow=("read_file", "grep"))
    assert conversation.run_turn(chat, "Go").text == "I see."
    result = next(each for each in chat.thread if each.role is Role.TOOL).results[0]
    assert said in result.text
    assert result.error


def test_an_answer_without_end_is_stopped_and_kept(room: Room) -> None:
    chat = room.chat(Scripted("word " * 100_000), window=4_000)
    outcome = conversation.run_turn(chat, "Say everything")
    assert "did not end" in outcome.trouble
    assert chat.thread[-1].role is Role.ASSISTANT
    assert len(chat.thread[-1].text) <= chat.reply * 8


def test_a_model_that_calls_tools_for_ever_is_stopped(room: Room) -> None:
    chat = room.chat(Scripted(*[use("todo", operation="list")] * 100))
    outcome = conversation.run_turn(chat, "Go")
    assert "rounds" in outcome.trouble
    assert roles(chat).count("tool") == conversation.ROUNDS


def test_a_window_too_small_for_the_pinned_documents_says_what_to_cut(room: Room) -> None:
    person = room.chat().person
    path, before = person.care.editable("MEMORY.md", scope="global")
    person.care.edited(
        "MEMORY.md", before, "# Memory\n\n" + "Every line matters a lot. " * 150 + "\n", scope="global"
    )
    room.close()
    chat = room.chat(Scripted("Hello."), window=1_200)
    outcome = conversation.run_turn(chat, "Hello")
    assert path in outcome.trouble
    assert "--window" in outcome.trouble
    assert "--no-inject" in outcome.trouble


def test_an_error_inside_ends_a_line_and_not_the_session(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    chat = room.chat(Scripted(ZeroDivisionError("oops"), "Better."))
    assert conversation.handle_line(chat, "Hello") == 1
    assert "Traceback" not in capsys.readouterr().err
    assert conversation.handle_line(chat, "Hello") == 0


def test_a_person_who_stops_before_the_first_word_finds_it_in_the_transcript(room: Room) -> None:
    def interrupted(asked: ScriptedQuestion) -> str:
        raise KeyboardInterrupt

    chat = room.chat(Scripted(interrupted, "Here."))
    assert conversation.run_turn(chat, "Are you there?").interrupted
    assert chat.thread[-1].text == conversation.EMPTY
    assert chat.thread[-1].extra["vademecum"] == {"interrupted": True}
    assert conversation.run_turn(chat, "Are you there now?").text == "Here."


def test_a_person_who_stops_a_tool_leaves_every_call_with_a_result(room: Room) -> None:
    def stop(question: str) -> str:
        raise KeyboardInterrupt

    room.person.answer = stop  # type: ignore[method-assign]
    calls = (
        use("todo", operation="list"),
        use("memory_store", content="Deploys are on Tuesdays."),
        use("grep"),
    )
    chat = room.chat(Scripted(tuple(calls), "Fine."))
    assert conversation.run_turn(chat, "Do all of it").interrupted
    results = chat.thread[-1].results
    assert [tools.STOPPED in each.text for each in results] == [False, True, True]
    assert conversation.run_turn(chat, "Never mind").text == "Fine."
    assert not chat.person.list().records


def test_a_group_is_told_nothing_private(room: Room) -> None:
    person = room.chat().person
    person.store("Ada earns a lot.", key="pay", scope="global")
    person.note("Ada was at the doctor.")
    room.close()
    chat = room.chat(Scripted(use("memory_search", query="Ada doctor"), "I do not know."), audience="group")
    conversation.run_turn(chat, "What about Ada?")
    assert "Ada was" not in json.dumps(chat.model._model.asked[1].prompt)  # type: ignore[union-attr]
    assert "earns" not in json.dumps(chat.model._model.asked[1].prompt)  # type: ignore[union-attr]


def test_who_is_asked_to_forget_sees_what_goes(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    room.person.answers = ["y"]
    chat = room.chat(Scripted(use("memory_forget", key="deploys"), "Gone."))
    chat.person.store("Deploys happen on Tuesdays.", key="deploys")
    conversation.run_turn(chat, "Forget when we deploy")
    assert "text: Deploys happen on Tuesdays." in capsys.readouterr().out
    assert not chat.person.list().records
    assert chat.person.restore("deploys").key == "deploys"


def test_what_the_model_keeps_is_found_by_the_person_and_there_is_one_index(room: Room) -> None:
    room.person.answers = ["y"]
    chat = room.chat(
        Scripted(
            use("memory_search", query="deploys"),
            use("memory_store", content="Deploys happen on Tuesdays.", key="deploys"),
            use("memory_search", query="deploys"),
            "Kept.",
        )
    )
    conversation.run_turn(chat, "Deploys happen on Tuesdays, keep that")
    assert chat.agent.care.searcher is chat.person.care.searcher
    assert chat.person.search("deploys").results
    assert "Tuesdays" in chat.thread[-2].results[0].text


def test_usage_of_flushes_is_recorded_as_such(room: Room) -> None:
    chat = room.chat(Scripted(*[full] * 80), window=16_000)
    for number in range(24):
        conversation.run_turn(chat, f"What is slow about part {number}? " + "Look at it. " * 40)
    used = [event for event in chat.log.events() if isinstance(event, Used)]
    assert {event.extra.get("for") for event in used} == {None, "flush", "compaction"}
    assert len(used) == chat.spent.calls


def test_costs_add_up_where_a_price_is_known() -> None:
    spent = ChatUsage()
    spent.add(ModelUsage(10, 2))
    assert spent.total == ModelUsage(10, 2)
    spent.add(ModelUsage(10, 2, Decimal("0.5")))
    spent.add(ModelUsage(10, 2, Decimal("0.25"), counted=False))
    assert spent.total == ModelUsage(30, 6, Decimal("0.75"), counted=False)
    assert spent.calls == 3
