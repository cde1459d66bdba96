"""What is shown: nothing that moves a cursor, Markdown in whole blocks, questions until they are answered."""

from __future__ import annotations

import io
import random
import re
from typing import TYPE_CHECKING

from vademecum.interfaces.chat import conversation
from vademecum.interfaces.chat.terminal import PlainScreen, TerminalScreen, ask_letter, split_blocks
from vademecum.llm.base import Call
from vademecum.llm.scripted import Scripted

if TYPE_CHECKING:
    import pytest

    from .conftest import Room


def test_blocks_are_given_when_they_are_finished() -> None:
    assert split_blocks("one\n\ntwo") == (["one"], "two")
    assert split_blocks("one\n\n") == ([], "one\n\n")
    assert split_blocks("a list\n\n- one\n\n  still one\n\nafter") == (
        ["a list", "- one\n\n  still one"],
        "after",
    )


def test_a_fence_is_one_block_however_many_lines_it_has() -> None:
    fence = "```python\none\n\ntwo\n```"
    assert split_blocks(f"{fence}\n\nafter") == ([fence], "after")
    assert split_blocks("````\n```\n\ninside\n\nstill") == ([], "````\n```\n\ninside\n\nstill")


def test_pieces_in_any_cut_give_the_same_blocks() -> None:
    text = "# One\n\nSome words.\n\n```\na\n\nb\n```\n\n1. x\n\n2. y\n\nThe end."
    whole, rest = split_blocks(text)
    rng = random.Random(7)
    for _ in range(200):
        cuts = sorted(rng.sample(range(len(text)), 6))
        found: list[str] = []
        held = ""
        for start, end in zip([0, *cuts], [*cuts, len(text)], strict=True):
            done, held = split_blocks(held + text[start:end])
            found += done
        assert [*found, held] == [*whole, rest]


def test_what_a_model_says_cannot_move_the_cursor(room: Room, capsys: pytest.CaptureFixture[str]) -> None:
    sly = "\x1b[2Jhello \x1b]0;title\x07 wor\u202eld \x9b31m"
    chat = room.chat(Scripted(Call("1", sly, sly), sly))
    conversation.run_turn(chat, "Hello")
    shown = capsys.readouterr()
    assert not re.search("[\x1b\x9b\x07\u202e]", shown.out + shown.err)
    assert "hello" in shown.out


def test_a_terminal_draws_markdown_and_leaves_nothing_of_the_draft(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    screen = TerminalScreen(lambda question: "y")
    with screen.answer() as show:
        for piece in ("# Ti", "tle\n\nSome **bo", "ld** words.\n\n- o", "ne\n- two\x1b[2J"):
            show(piece)
    shown = capsys.readouterr().out
    assert "Title" in shown
    assert "Some bold words." in shown
    assert "• one" in shown
    assert "**" not in shown
    assert "[2J" not in shown


def test_a_question_is_asked_until_it_is_answered(capsys: pytest.CaptureFixture[str]) -> None:
    answers = iter(["", "maybe", "x", "YES"])
    assert ask_letter(lambda question: next(answers), "Keep it?", "yna") == "y"
    assert ask_letter(None, "Keep it?", "yna") == "n"


def test_the_end_of_the_input_is_a_no() -> None:
    def ended(question: str) -> str:
        raise EOFError

    assert PlainScreen(ended).ask("Keep it?", "yna") == "n"


def test_a_script_sees_answers_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    out = io.StringIO()
    monkeypatch.setattr("sys.stdout", out)
    screen = PlainScreen(only_answers=True)
    screen.say("chatter")
    screen.dim("more")
    with screen.answer() as show:
        show("words")
    assert out.getvalue() == "words\n"
