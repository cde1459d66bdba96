"""Conversations in attached files are cut by turns, and nothing else is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from index.not_conversations import texts
from vademecum.index import sync, turns
from vademecum.index.chunk import chunks
from vademecum.index.turns import find_turns
from vademecum.memory import Memory, connect
from vademecum.text import document
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

CHAT = [
    ("A", "Where do we put the heron photos?"),
    ("B", "I would put them on the big disk.\n\nIt has 2 TB:\n\n- fast\n- quiet"),
    ("A", "Thanks! And the owls?"),
    ("B", "You can leave them where they are."),
    ("A", "Note: they are 40 GB."),
    ("B", "Then I will move them tonight."),
]

FORMS: dict[str, Callable[[str, int, str], str]] = {
    "said": lambda who, _, text: f"{who}: {text}\n\n",
    "without blank lines": lambda who, _, text: f"{who}: {text}\n",
    "bold": lambda who, _, text: f"**{who}:** {text}\n\n",
    "bold name": lambda who, _, text: f"**{who}**: {text}\n\n",
    "full width": lambda who, _, text: f"{who}：{text}\n\n",
    "phone, Android": lambda who, at, text: f"12/05/2024, 10:3{at} - {who}: {text}\n",
    "phone, iOS": lambda who, at, text: f"[12.05.24, 10:3{at}:11] {who}: {text}\n",
    "with the time": lambda who, at, text: f"[10:3{at}] {who}: {text}\n",
    "IRC": lambda who, at, text: f"10:3{at} <{who}> {text}\n",
    "name and time above": lambda who, at, text: f"{who}  10:3{at} AM\n{text}\n\n",
    "Telegram": lambda who, at, text: f"{who}, [12.05.2024 10:3{at}]\n{text}\n\n",
    "Discord": lambda who, at, text: f"{who} — Today at 10:3{at}\n{text}\n\n",
}
ROLE_FORMS: dict[str, Callable[[str, int, str], str]] = {
    "heading": lambda who, _, text: f"## {who}\n\n{text}\n\n",
    "heading with time": lambda who, at, text: f"### {who} (2026-05-12 10:3{at})\n\n{text}\n\n",
    "bold line": lambda who, _, text: f"**{who}**\n\n{text}\n\n",
    "saved session": lambda who, at, text: f"_**{who} (2026-05-12 10:3{at}Z)**_\n\n{text}\n\n---\n\n",
    "icon": lambda who, _, text: f"## 🧑 {who}\n\n{text}\n\n",
}


def written(form: Callable[[str, int, str], str], *speakers: str) -> str:
    return "".join(form(speakers["AB".index(who)], at, text) for at, (who, text) in enumerate(CHAT))


def speakers_of(text: str) -> list[str]:
    return [each.speaker for each in find_turns(text) if each.speaker is not None]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize(
    ("one", "other"), [("Anna Lima", "Ben O'Neil"), ("user", "assistant"), ("田中", "佐藤")], ids=str
)
def test_a_conversation_is_cut_at_each_turn(form: str, one: str, other: str) -> None:
    assert speakers_of(written(FORMS[form], one, other)) == [one.lower(), other.lower()] * 3


@pytest.mark.parametrize("form", ROLE_FORMS)
@pytest.mark.parametrize(("one", "other"), [("User", "Assistant"), ("You", "ChatGPT"), ("Human", "Claude")])
def test_a_conversation_with_a_program_is_cut_at_each_turn(form: str, one: str, other: str) -> None:
    assert speakers_of(f"# A talk\n\n{written(ROLE_FORMS[form], one, other)}") == ["user", "assistant"] * 3


@pytest.mark.parametrize("name", ["xX_Owl_Xx", "~kim", "+49 170 1234567", "Ann-Marie D'Arcy", "🦊 Fox"])
def test_an_exported_chat_may_have_speakers_with_odd_names(name: str) -> None:
    assert speakers_of(written(FORMS["phone, Android"], name, "Ben")) == [name.lower(), "ben"] * 3


def test_no_list_of_questions_terms_points_or_events_is_cut_by_turns() -> None:
    named = list(texts())
    assert len({text for _, text in named}) == 200
    assert [name for name, text in named if find_turns(text)] == []


@pytest.mark.parametrize(
    "text",
    [
        written(FORMS["said"], "User", "Assistant") + "# Next\n\n" + "A plain line.\n\n" * 20,
        "```\n" + written(FORMS["said"], "user", "assistant") + "```\n",
        "".join(f"{who}: {text}\n" for who, text in [("user", "Hi?"), ("assistant", "You?"), ("user", "I?")]),
        "user: the person.\nassistant: the program.\nuser: types.\nassistant: answers.\n",
    ],
    ids=["followed by a manual", "in a code block", "half of one", "terms"],
)
def test_what_is_only_like_a_conversation_is_not_cut_by_turns(text: str) -> None:
    assert not find_turns(text)


def test_the_turns_of_a_file_are_its_passages() -> None:
    text = f"---\ntags: [birds]\n---\n# Herons\n\n{written(FORMS['said'], 'user', 'assistant')}"
    shown = [each for each in chunks(text, kind="markdown") if not each.hidden]
    assert [each.text.strip() for each in shown] == [
        f"{('user', 'assistant')['AB'.index(who)]}: {said}" for who, said in CHAT
    ]
    assert {each.heading for each in shown} == {"Herons"}
    assert [each.speaker for each in shown] == ["user", "assistant"] * 3


def test_a_long_turn_is_divided_and_keeps_its_speaker() -> None:
    long = "\n\n".join(f"Step {number}: take a photo of the heron, and wait." for number in range(100))
    text = written(FORMS["said"], "user", "assistant") + f"user: Why?\n\nassistant: I think so.\n\n{long}\n"
    last = [
        each for each in chunks(text, kind="markdown") if each.start >= text[: text.index("Why")].count("\n")
    ]
    assert len(last) > 3
    assert {each.speaker for each in last[1:]} == {"assistant"}
    assert max(each.end for each in last) == text.count("\n")


def test_a_turn_of_a_million_characters_is_divided() -> None:
    text = written(FORMS["said"], "user", "assistant") + f"user: {'heron ' * 170_000}?\n"
    found = chunks(text, kind="markdown")
    assert found[-1].speaker == "user"
    assert max(len(each.text) for each in found) < 3_000


ENTRY = (
    "## 2026-05-12T10:30:00Z\n{}<!-- origin: agent | id: h7j95wydcg -->\n\n## 2026-05-12T12:00:00Z\nLunch.\n"
)


@pytest.mark.parametrize("form", [FORMS["said"], FORMS["IRC"], ROLE_FORMS["heading"]])
@pytest.mark.parametrize("day", [f"# 2026-05-12\n\n{ENTRY}", "# 2026-05-12\n\n{}", "{}"])
def test_a_conversation_in_a_journal_is_cut_at_each_turn(
    form: Callable[[str, int, str], str], day: str
) -> None:
    text = day.format(document.escape(written(form, "user", "assistant")))
    found = chunks(text, kind="journal")
    shown = [each for each in found if each.speaker]
    assert [each.speaker for each in shown] == ["user", "assistant"] * 3
    dated = ("2026-05-12T10:30:00Z", Origin.AGENT) if "Lunch" in text else (None, None)
    assert {(each.time, each.origin) for each in shown} == {dated}
    covered = {line for each in found for line in range(each.start, each.end + 1)}
    assert covered == set(range(1, len(text.splitlines()) + 1))
    assert not [each for each in chunks(text, kind="record") if each.speaker]


def test_no_entry_of_a_journal_that_is_only_like_a_conversation_is_cut_by_turns() -> None:
    for name, text in texts():
        day = f"# 2026-05-12\n\n{ENTRY.format(document.escape(text))}"
        assert not [each for each in chunks(day, kind="journal") if each.speaker], name


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "chats"
    folder.mkdir()
    (folder / "chat.md").write_text(written(FORMS["said"], "user", "assistant"))
    (folder / "faq.md").write_text("".join(f"Q: Why {each}?\n\nA: Because you asked.\n\n" for each in "abcd"))
    return folder


def test_only_conversations_of_an_older_index_are_cut_again(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def memory() -> Memory:
        return connect(home=tmp_path / "home", cwd=tmp_path, environ={}, origin=Origin.USER)

    with monkeypatch.context() as older, memory() as opened:
        older.setattr(turns, "find_turns", lambda _: [])
        older.setattr(sync, "_BY_TURNS", "")
        opened.sources.add(folder)
        opened.note("Lunch by the river.", scope="global")
        opened.note(written(FORMS["said"], "user", "assistant").replace("owls", "storks"))
        opened.care.index()
        assert opened.search("owls").results[0].start == 1
    with memory() as opened:
        report = opened.care.index()
        assert (report.changed, report.indexed, report.vectors_pending) == (2, 4, 0)
        assert opened.search("storks").results[0].snippet.strip() == "user: Thanks! And the storks?"
        assert opened.search("owls").results[0].start == 10
        assert opened.care.index().changed == 0


def test_a_written_speaker_changes_neither_origin_nor_trust(tmp_path: Path, folder: Path) -> None:
    with connect(home=tmp_path / "home", cwd=tmp_path, environ={}, origin=Origin.USER) as memory:
        memory.sources.add(folder)
        said, asked = (memory.search(each).results[0] for each in ("herons photos", "because you asked"))
        assert said.snippet.startswith("user: ")
        assert said.origin == asked.origin is None
