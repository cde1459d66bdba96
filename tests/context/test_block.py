"""The block for what has left: as rich as fits, and with both tasks whole wherever they can be."""

from __future__ import annotations

from functools import cache

from hypothesis import given, settings
from hypothesis import strategies as st

from vademecum.context import summary
from vademecum.context.host import GitActivity
from vademecum.context.summary import ThreadSummary, parse_summary, summarize
from vademecum.context.todo import TodoList, add
from vademecum.context.units import estimate
from vademecum.transcripts import Message, Role, Text

from .conversations import conversation

GIT = GitActivity("main", tuple(f"abc{at:04} a commit" for at in range(9)), ("M src/parser.py",))
TASK = "Please rewrite the tokenizer so that it reads tables from a stream instead of a list."


@cache
def known_of(seed: int) -> ThreadSummary:
    return summarize([Message(Role.USER, (Text(TASK),)), *conversation(seed, turns=20, huge=2_000)])


def tokens_of(text: str, ratio: float) -> int:
    return estimate(Message(Role.USER, (Text(text),)), ratio)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 40),
    st.integers(0, 4_000),
    st.integers(0, 30),
    st.floats(1.5, 4.0),
    st.sampled_from(["", "## Decisions\n- none\n" * 40]),
)
def test_both_tasks_are_whole_in_every_block_that_can_hold_them(
    seed: int, more: int, things: int, ratio: float, words: str
) -> None:
    known = known_of(seed)
    todo = add(TodoList(), [f"thing number {at} " + "that is long " * 9 for at in range(things)])
    room = summary.least_tokens(known, todo, ratio) + more
    text = summary.render_block(known, words, todo=todo, git=GIT, tokens=room, ratio=ratio)
    assert tokens_of(text, ratio) <= room
    assert f"task: {TASK}" in text
    assert f"Current task: {known.task}" in text
    assert parse_summary(text).task == known.task
    assert not things or "thing number 0" in text


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 40), st.integers(0, 400), st.floats(1.5, 4.0))
def test_a_block_with_less_room_than_that_cuts_them_and_stays_sound(
    seed: int, room: int, ratio: float
) -> None:
    known = known_of(seed)
    text = summary.render_block(known, "", todo=TodoList(), git=GIT, tokens=room, ratio=ratio)
    assert tokens_of(text, ratio) <= max(room, summary.least_tokens(ThreadSummary(), TodoList(), ratio) + 80)
    assert text.count("</thread_summary>") == 1


def test_with_room_for_all_of_it_nothing_is_left_out() -> None:
    known = known_of(1)
    todo = add(TodoList(), ["read the stream"])
    text = summary.render_block(known, "## Decisions\n- stay", todo=todo, git=GIT, tokens=50_000, ratio=3.0)
    assert summary.model_words(text) == "## Decisions\n- stay"
    assert parse_summary(text) == known
    assert "abc0008 a commit" in text
    assert "[ ] 1. read the stream" in text
