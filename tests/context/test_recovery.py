"""The block that stands in for older messages."""

from __future__ import annotations

import pytest

from vademecum.context.host import GitActivity
from vademecum.context.summary import ThreadSummary, parse_summary, render_recovery
from vademecum.context.todo import TodoList, add

SUMMARY = ThreadSummary(task="Make the reader stream its tables.", original="Look at the reader.")
BLOCK = render_recovery(
    SUMMARY,
    todo=add(TodoList(), ["write the test"]),
    git=GitActivity("main", ("abc1234 read from a stream",), (" M src/tables.py",)),
)


def test_it_holds_summary_task_todo_and_git_activity() -> None:
    assert parse_summary(BLOCK) == SUMMARY
    assert "\nCurrent task: Make the reader stream its tables.\nFirst task: Look at the reader.\n" in BLOCK
    assert "\n\nTodo list:\n[ ] 1. write the test\n" in BLOCK
    assert "Recent git activity: (branch main)\n- abc1234 read from a stream\nWorking tree:\n- M src" in BLOCK


def test_it_says_where_the_rest_is_and_asks_to_continue() -> None:
    for words in ("system prompt", "session_search", "session_progress", "go on with the current"):
        assert words in BLOCK


def test_the_task_stands_in_it_once() -> None:
    assert BLOCK.count("Make the reader stream its tables.") == 1


@pytest.mark.parametrize("word", ["lost", "trimmed", "truncated", "dropped", "recover", "overflow", "error"])
def test_its_words_are_neutral(word: str) -> None:
    assert word not in BLOCK.lower()


def test_what_is_not_there_is_not_mentioned() -> None:
    bare = render_recovery(ThreadSummary(), todo=TodoList(), git=GitActivity())
    for words in ("Current task:", "Todo", "git", "Working tree"):
        assert words not in bare


def test_a_long_list_of_changes_is_cut_and_says_so() -> None:
    found = render_recovery(
        ThreadSummary(), git=GitActivity(changes=tuple(f"?? {number}\n# x" for number in range(50)))
    )
    assert "- and 30 more" in found
    assert "\n# x" not in found
