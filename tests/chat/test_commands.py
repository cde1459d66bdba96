"""Every command that can be typed in a chat: what it shows, what it does, what it says to nonsense."""

from __future__ import annotations

import itertools
import json
import os
import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from cases import every_case
from vademecum.interfaces.chat import commands, conversation
from vademecum.interfaces.present import output
from vademecum.llm.scripted import Scripted
from vademecum.transcripts.events import Flushed, Used, end_of, name_of

if TYPE_CHECKING:
    from vademecum.interfaces.chat.state import Chat

    from .conftest import Room

SPOKEN = (
    *("help", "status", "context", "usage", "compact", "new", "reset", "memory", "forget", "protect"),
    *("review", "remember", "session", "todo", "model", "profile", "knowledge", "check", "tidy", "quit"),
)


class Typing:
    """Types commands into a chat and reads what is shown."""

    def __init__(self, chat: Chat, capsys: pytest.CaptureFixture[str]) -> None:
        self.chat = chat
        self._capsys = capsys
        self.error = ""

    def __call__(self, line: str) -> str:
        self._capsys.readouterr()
        conversation.handle_line(self.chat, line)
        shown = self._capsys.readouterr()
        self.error = shown.err
        return shown.out


@pytest.fixture
def typing(room: Room, capsys: pytest.CaptureFixture[str]) -> Typing:
    return Typing(room.chat(Scripted(*["Fine."] * 20), window=32_000), capsys)


def test_every_command_has_help_and_is_listed(typing: Typing) -> None:
    assert set(commands.all_commands()) == set(SPOKEN)
    page = typing("/help")
    for name in SPOKEN:
        assert f"/{name}" in page
        assert commands.all_commands()[name].help in typing(f"/help {name}")


@every_case("name", SPOKEN)
def test_every_command_is_documented(name: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "chat.md").read_text()
    assert f"`/{name}" in page


@pytest.mark.parametrize("name", SPOKEN)
def test_nonsense_behind_a_command_is_one_sentence(name: str, typing: Typing) -> None:
    typing(f"/{name} \x00 ///  nonsense nonsense")
    assert len(typing.error.splitlines()) <= 1
    assert "internal error" not in typing.error


def test_an_unknown_command_names_the_nearest(typing: Typing) -> None:
    typing("/memroy list")
    assert "did you mean /memory?" in typing.error
    typing("/xyzzy")
    assert "/help" in typing.error


def test_a_path_is_no_command(typing: Typing) -> None:
    typing("/etc/hosts has a line too many, why?")
    assert typing.chat.thread[-1].text == "Fine."


def test_status_shows_model_window_session_memory_and_index(typing: Typing) -> None:
    typing("Hello there")
    typing("/remember Deploys happen on Tuesdays.")
    shown = typing("/status")
    assert "scripted:model" in shown
    assert "░" in shown
    assert "of 32,000 tokens" in shown
    assert typing.chat.log.session in shown
    assert "on, private" in shown
    assert "1 project" in shown
    assert "files" in shown
    assert "compactions 0" in shown


def test_a_merge_in_a_chat_is_told_with_its_way_back(typing: Typing) -> None:
    typing("/remember The backup of the ledger runs nightly.")
    told = typing("/remember The backups of the ledger run nightly.")
    assert "superseded: “The backup of the ledger runs nightly.”" in told
    assert "`vade split the-backup-of-the-ledger-runs --scope project` undoes the merge" in told


def test_context_lists_what_is_sent_and_detail_names_every_item_and_tool(typing: Typing) -> None:
    typing("/remember Deploys happen on Tuesdays.")
    typing("/new")
    listed = typing("/context list")
    assert "memory: Remembered" in listed
    assert "memory_search" not in listed
    detail = typing("/context detail")
    assert "records/deploys-happen" in detail
    for tool in typing.chat.offered():
        assert tool["name"] in detail
    typing("/context nonsense")
    assert "list|detail" in typing.error


def test_usage_is_said_below_each_answer_as_asked(typing: Typing) -> None:
    assert "tokens in" not in typing("Hello")
    typing("/usage tokens")
    assert "tokens in" in typing("Hello again")
    typing("/usage full")
    assert "this chat:" in typing("And again")
    typing("/usage off")
    assert "tokens in" not in typing("Bye")
    typing("/usage loud")
    assert "off|tokens|full" in typing.error


def test_compact_makes_room_and_the_transcript_keeps_all(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    long = "It is slow because the file is read twice. " * 60
    typing = Typing(room.chat(Scripted(*[long] * 17, *["NO_REPLY"] * 6), window=32_000), capsys)
    for number in range(17):
        typing(f"What is slow about part {number} of the import, and why is it so?")
    before = typing.chat.engine.inspect().tokens.total
    shown = typing("/compact what is slow")
    assert "🧹 Compacted" in shown
    assert typing.chat.engine.inspect().tokens.total < before
    assert "part 0 of the import" in (room.home / typing.chat.log.path).read_text()


def test_compact_of_nothing_says_so(typing: Typing) -> None:
    assert "nothing to compact" in typing("/compact")


def test_new_leaves_a_note_and_reset_leaves_none(room: Room, typing: Typing) -> None:
    typing("Where is the parser of the import?")
    first = typing.chat.log.session
    assert "journal/" in typing("/new")
    assert typing.chat.log.session != first
    assert not typing.chat.message_count
    typing("And who wrote the exporter, by the way?")
    typing("/reset")
    journals = "".join(path.read_text() for path in room.home.rglob("journal/*.md"))
    assert "parser" in journals
    assert "exporter" not in journals


def test_the_title_of_a_note_is_asked_for_counted_and_logged(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    model = Scripted("In parser.py.", "where the parser lives")
    typing = Typing(room.chat(model, window=32_000), capsys)
    typing("Where is the parser of the import?")
    log = typing.chat.log
    assert "where-the-parser-lives.md" in typing("/new")
    assert str(model.asked[1].prompt).startswith("Give a title")
    assert typing.chat.spent.calls == 2
    assert [each.extra.get("for") for each in log.events() if isinstance(each, Used)] == [None, "slug"]


def test_memory_is_listed_found_shown_counted_and_pruned(typing: Typing) -> None:
    assert "no memories yet" in typing("/memory list")
    typing("/remember Deploys happen on Tuesdays.")
    assert "deploys-happen" in typing("/memory list")
    assert "Deploys happen on Tuesdays." in typing("/memory search deploys")
    assert "weak matches" in typing("/memory search xylophone")
    assert "origin: user" in typing("/memory show 1")
    assert "project: 1 record" in typing("/memory stats")
    assert "nothing to archive" in typing("/memory prune")
    typing("/memory show not-there")
    assert typing.error


def test_pruning_asks_first(room: Room, typing: Typing, monkeypatch: pytest.MonkeyPatch) -> None:
    typing.chat.agent.knowledge.learn("discovery", fact="The cache may be in Redis.", confidence=0.1)
    room.person.answers = ["n"]
    assert "nothing was changed" in typing("/memory prune")
    assert len(typing.chat.person.knowledge.list()) == 1
    room.person.answers = ["y"]
    assert "vade undo" in typing("/knowledge prune")
    assert not typing.chat.person.knowledge.list()


@pytest.mark.parametrize("command", ["/memory prune", "/knowledge prune"])
def test_where_nobody_can_be_asked_pruning_takes_the_yes_it_asks_for(
    command: str, room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    typing = Typing(room.chat(asks=False), capsys)
    typing.chat.agent.knowledge.learn("discovery", fact="The cache may be in Redis.", confidence=0.1)
    typing(command)
    assert "add --yes" in typing.error
    assert typing.chat.person.knowledge.list()
    assert "vade undo" in typing(f"{command} --yes")
    assert not typing.chat.person.knowledge.list()


def test_forget_shows_what_goes_and_asks(room: Room, typing: Typing) -> None:
    typing("/remember Deploys happen on Tuesdays.")
    room.person.answers = ["n"]
    assert "Deploys happen" in typing("/forget 1")
    assert typing.chat.person.list().records
    room.person.answers = ["y"]
    typing("/forget 1")
    assert not typing.chat.person.list().records
    typing("/forget")
    assert "KEY|NUM" in typing.error


def test_where_nobody_can_be_asked_forget_wants_a_yes(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    typing = Typing(room.chat(asks=False), capsys)
    typing("/remember Deploys happen on Tuesdays.")
    typing("/forget 1")
    assert "--yes" in typing.error
    assert typing.chat.person.list().records
    typing("/forget 1 --yes")
    assert not typing.chat.person.list().records


def test_protect_and_back(typing: Typing) -> None:
    typing("/remember Deploys happen on Tuesdays.")
    typing("/protect 1")
    assert typing.chat.person.show(1).protected
    typing("/protect 1 off")
    assert not typing.chat.person.show(1).protected


def test_approve_lists_makes_and_refuses(typing: Typing) -> None:
    for text in ("Deploys happen on Tuesdays.", "Tests are run with pytest."):
        typing.chat.agent.requests.propose("store", {"text": text}, scope="project", door="mcp")
    shown = typing("/review")
    assert "Deploys happen on Tuesdays." in shown
    waiting = {
        each.request.arguments["text"]: each.id
        for each in typing.chat.person.review.approvals()
        if each.request
    }
    typing(f"/review {waiting['Deploys happen on Tuesdays.'][:12]} yes")
    typing(f"/review {waiting['Tests are run with pytest.'][:12]} no")
    assert [record.text for record in typing.chat.person.list().records] == ["Deploys happen on Tuesdays."]
    assert "nothing is pending" in typing("/review")


def test_approve_of_an_id_shows_every_character_and_asks(room: Room, typing: Typing) -> None:
    typing.chat.agent.requests.propose(
        "store", {"text": "Deploys happen\u200b on Tuesdays."}, scope="project", door="mcp"
    )
    id = typing.chat.person.review.approvals()[0].id[:12]
    room.person.answers = ["n"]
    shown = typing(f"/review {id}")
    assert "Deploys happen⟨U+200B⟩ on Tuesdays." in shown
    assert "nothing was changed" in shown
    assert not typing.chat.person.list().records
    room.person.answers = ["y"]
    assert "store was done, as agent" in typing(f"/review {id}")
    assert len(typing.chat.person.list().records) == 1
    assert room.person.asked == ["Write it? [y/n] "] * 2
    typing(f"/review {id}")
    assert "no pending write" in typing.error


def test_where_nobody_can_be_asked_approve_wants_a_yes(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    typing = Typing(room.chat(asks=False), capsys)
    typing.chat.agent.requests.propose("store", {"text": "Deploys happen."}, scope="project", door="mcp")
    id = typing.chat.person.review.approvals()[0].id[:12]
    typing(f"/review {id}")
    assert "add yes" in typing.error
    assert not typing.chat.person.list().records
    typing(f"/review {id[:2]} yes")
    assert "no pending write" in typing.error
    typing(f"/review {id} yes")
    assert typing.chat.person.list().records


def test_remember_without_a_proposal_says_so(typing: Typing) -> None:
    typing("/remember")
    assert "there are no proposals" in typing.error


def test_of_several_proposals_one_can_be_kept(typing: Typing) -> None:
    shown = typing("I prefer tabs over spaces. We decided to use Postgres for the ledger.")
    assert "/remember 2" in shown
    second = typing.chat.proposed[1].text
    typing("/remember 2")
    assert [record.text for record in typing.chat.person.list().records] == [second]
    typing("/remember 9")
    assert "no proposal 9" in typing.error


def test_a_session_is_shown_named_listed_switched_trimmed_and_exported(
    room: Room, typing: Typing, tmp_path: Path
) -> None:
    typing("Where is the parser of the import?")
    first = typing.chat.log.session
    assert first in typing("/session show")
    assert "the parser hunt" in typing("/session rename the parser hunt")
    typing("/new")
    typing("Who wrote the exporter, by the way?")
    assert "the parser hunt" in typing("/session list")
    assert "2 messages" in typing("/session switch the parser hunt")
    assert typing.chat.log.session == first
    typing("/session switch not-there")
    assert "not-there" in typing.error
    target = tmp_path / "said.md"
    typing(f"/session export {target}")
    assert "parser of the import" in target.read_text()
    assert "nothing to trim" in typing("/session trim")
    assert name_of(typing.chat.log.events()) == "the parser hunt"


def test_a_session_that_another_chat_has_open_cannot_be_switched_to(room: Room, typing: Typing) -> None:
    typing("Where is the parser of the import?")
    other = room.chat(Scripted("Hello."), fresh=True)
    conversation.run_turn(other, "Hello there, other one")
    typing(f"/session switch {other.log.session}")
    assert "open in another chat" in typing.error
    assert typing("/session show")


def test_things_to_do(typing: Typing) -> None:
    assert "to-do list is empty" in typing("/todo")
    assert "[ ] 1. buy tea" in typing("/todo add buy tea")
    assert "[x] 1. buy tea" in typing("/todo done 1")
    typing("/todo done many")
    assert typing.error


def test_the_model_is_shown_and_another_one_takes_over(
    typing: Typing, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "scripted:model" in typing("/model")
    monkeypatch.setenv("VADE_LLM_WINDOW", "0")
    assert "ollama:qwen3" in typing("/model ollama:qwen3")
    assert typing.chat.model_name == "ollama:qwen3"
    typing("/model nonsense")
    assert "names no model" in typing.error
    assert typing.chat.model_name == "ollama:qwen3"
    assert "no model" in typing("/model none")
    assert "providers: openai" in typing("/model list")


def test_the_profile_is_shown_added_to_and_edited(
    room: Room, typing: Typing, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "no profile yet" in typing("/profile")
    typing("/profile add Writes Python for a living.")
    assert "Writes Python for a living." in typing("/profile show")
    editor = tmp_path / "editor.py"
    editor.write_text(
        "import sys; p = sys.argv[1]; t = open(p).read(); open(p, 'w').write(t.replace('Python', 'Rust'))"
    )
    monkeypatch.setenv("EDITOR", shlex.join([sys.executable, str(editor)]))
    monkeypatch.delenv("VISUAL", raising=False)
    typing("/profile edit")
    assert "Writes Rust for a living." in typing("/profile")
    typing("/new")
    assert "Writes Rust for a living." in typing.chat.block.text


def test_knowledge_is_listed_and_counted(typing: Typing) -> None:
    typing.chat.person.knowledge.learn("discovery", fact="The cache is in Redis.")
    assert "The cache is in Redis." in typing("/knowledge list")
    assert "discovery" in typing("/knowledge stats")
    typing("/knowledge list nonsense")
    assert typing.error


def test_lint_and_heal_say_what_they_find(typing: Typing) -> None:
    assert "no problems found" in typing("/check")
    assert typing("/tidy heal")
    assert typing("/tidy heal apply")


def test_quit_ends_the_session_with_a_note(room: Room) -> None:
    lines = ["Where is the parser of the import?", "/quit", "never said"]

    class Lines:
        def line(self) -> str:
            return lines.pop(0)

        def ask(self, question: str) -> str:
            raise EOFError

    chat = room.chat(Scripted("In parser.py."))
    assert conversation.converse(chat, Lines()) == 0
    assert end_of(chat.log.events()) is not None
    assert "parser.py" in "".join(path.read_text() for path in room.home.rglob("journal/*.md"))
    assert lines == ["never said"]


# ---------------------------------------------------------------- completion


def test_commands_their_words_and_keys_are_completed(typing: Typing) -> None:
    def offered(text: str) -> list[str]:
        return commands.complete_line(typing.chat, text)[0]

    typing("/remember Deploys happen on Tuesdays.")
    key = typing.chat.person.show(1).key
    assert offered("/mem") == ["memory"]
    assert set(offered("/")) == set(SPOKEN)
    assert offered("/memory s") == ["search", "show", "stats"]
    assert offered("/memory show de") == [key]
    assert offered("/forget ") == [key]
    assert offered("/protect ") == [key]
    assert offered("/usage ") == ["off", "tokens", "full"]
    assert offered("/context d") == ["detail"]
    assert offered("/help me") == ["memory"]
    assert typing.chat.log.session in offered("/session switch ")
    assert "anthropic:" in offered("/model a")
    assert offered("/tidy heal ") == ["apply"]
    assert offered("words for the model") == []
    assert offered("/nonsense x") == []
    assert commands.complete_line(typing.chat, "/memory sea")[1] == 3


def test_completion_never_raises(typing: Typing) -> None:
    for text in ("/", "//", "/ ", "/\x00", "/session  switch  ", "/memory show \ud800", "/review x y z"):
        commands.complete_line(typing.chat, text)


def test_what_is_typed_says_nothing_to_the_model(typing: Typing) -> None:
    typing("/status")
    typing("/remember Deploys happen on Tuesdays.")
    typing("Hello there")
    sent = json.dumps(typing.chat.model._model.asked[0].prompt)  # type: ignore[union-attr]
    assert "/status" not in sent
    assert os.fspath(typing.chat.person.home.path) not in sent


# -------------------------------------------------------------------- numbers, room, sums


@pytest.mark.parametrize("number", ["1", "#1", "1.", "7)", "0", "007"])
def test_a_number_is_never_kept_as_a_text(typing: Typing, number: str) -> None:
    typing(f"/remember {number}")
    assert "there are no proposals" in typing.error
    typing("We decided to use Postgres for the ledger.")
    typing(f"/remember {number}")
    assert [record.text for record in typing.chat.person.list().records] in (
        [],
        ["We decided to use Postgres for the ledger."],
    )


def test_what_was_proposed_can_be_kept_a_few_messages_later(typing: Typing) -> None:
    typing("We decided to use Postgres for the ledger.")
    typing("Thanks.")
    typing("What is the time?")
    typing("/remember 1")
    assert [record.text for record in typing.chat.person.list().records] == [
        "We decided to use Postgres for the ledger."
    ]


LONG = "It is slow because the file is read twice. " * 60


def long_chat(room: Room, capsys: pytest.CaptureFixture[str], *more: str, turns: int = 17) -> Typing:
    typing = Typing(room.chat(Scripted(*[LONG] * turns, *more), window=32_000), capsys)
    for number in range(turns):
        typing(f"What is slow about part {number} of the import, and why is it so?")
    return typing


def test_trimming_a_session_flushes_and_says_the_size_that_status_says(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    typing = long_chat(room, capsys, "- The importer reads each file twice.")
    shown = typing("/session trim")
    assert "making room" in shown
    outcomes = [event.outcome for event in typing.chat.log.events() if isinstance(event, Flushed)]
    assert outcomes == ["written"]
    assert "memory flush: written" in shown
    after = shown.partition("→ ")[2].partition(" tokens")[0]
    assert f" {after} of 32,000 tokens" in typing("/status")
    assert "reads each file twice" in "".join(path.read_text() for path in room.home.rglob("journal/*.md"))


def test_compacting_shows_that_it_is_at_work(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    typing = long_chat(room, capsys, *["NO_REPLY"] * 6)
    shown = typing("/compact")
    assert shown.index("summarizing the older messages") < shown.index("🧹 Compacted")


@pytest.mark.parametrize("turns", [0, 1, 17])
def test_what_context_lists_adds_up_to_the_bar(
    room: Room, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, turns: int
) -> None:
    person = room.chat().person
    for number in range(5):
        person.store(f"Service {number} listens on port {8000 + number}.", key=f"service-{number}")
    room.close()
    typing = long_chat(room, capsys, *["NO_REPLY"] * 6, turns=turns)
    typing("/compact")
    for which in ("list", "detail"):
        tables: list[list[list[str]]] = []
        monkeypatch.setattr(output, "table", lambda rows, _, tables=tables: tables.append(rows))
        shown = typing(f"/context {which}")
        monkeypatch.undo()
        (rows,) = tables
        total = int(re.search(r"% ([\d,]+) of 32,000 tokens", shown)[1].replace(",", ""))  # type: ignore[index]  # it is there
        sizes = [(what.startswith("  "), int(tokens.replace(",", ""))) for what, tokens, _ in rows]
        assert sum(tokens for below, tokens in sizes if not below) == total
        for at, (below, tokens) in enumerate(sizes):
            inner = list(itertools.takewhile(lambda each: each[0], sizes[at + 1 :]))
            assert below or not inner or sum(each for _, each in inner) == tokens
        assert not any(row[0] == "  system" for row in rows)
        assert f"{total:,} of 32,000" in typing("/status")


def test_a_session_has_as_many_messages_wherever_they_are_counted(typing: Typing) -> None:
    typing("Where is the parser of the import?")
    typing("/usage full")
    assert "messages    2" in typing("/session show")
    (listed,) = typing.chat.person.sessions.list()
    assert listed.messages == 2


# -------------------------------------------------------------------- what a session took


def test_a_resumed_chat_knows_what_the_session_took_before(
    room: Room, capsys: pytest.CaptureFixture[str]
) -> None:
    first = Typing(room.chat(Scripted("Yes.", "No."), session="work"), capsys)
    first("One?")
    first("Two?")
    said = first("/status").partition("used")[2].strip()
    assert ", 2 calls" in said
    room.close()
    again = Typing(room.chat(Scripted("Well."), session="work"), capsys)
    assert again("/status").partition("used")[2].strip() == said
    assert said in again("/session show")
    again("Three?")
    assert ", 3 calls" in again("/usage")
