"""The block that stands in for older messages."""

from __future__ import annotations

import pytest

from cases import every_case
from vademecum.context.host import GitActivity
from vademecum.context.summary import ThreadSummary, name_reader_tools, parse_summary, render_recovery
from vademecum.context.todo import TodoList, add
from vademecum.context.units import NO_READERS, ReaderTools
from vademecum.context.window import Thread
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.log import Log, MemoryLog

INJECTED = "You are an engineer.\n<vade-memory>\nUse pnpm.\n</vade-memory>"

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


def test_it_says_where_the_rest_is_by_the_tools_there_are_and_asks_to_continue() -> None:
    named = render_recovery(SUMMARY, readers=ReaderTools("s1", get="read_talk", search="find_talk"))
    for words in ("found with find_talk.", "read_talk session=s1 place=session_progress"):
        assert words in named
    for block in (BLOCK, named):
        assert "continue with the current" in block
    for words in ("session_search", "session_get", "session_progress"):
        assert words not in BLOCK
    assert "session_progress" not in render_recovery(SUMMARY, readers=ReaderTools("s1", search="find_talk"))


@pytest.mark.parametrize(
    "readers",
    [
        NO_READERS,
        ReaderTools("s1", get="a", search="b"),
        ReaderTools("s2", search="session_search"),
        ReaderTools(knowledge=True),
    ],
)
def test_a_block_made_with_other_tools_says_it_with_these(readers: ReaderTools) -> None:
    old = ReaderTools("s9", get="old_get", search="old_search", knowledge=True)
    for given in (NO_READERS, old):
        block = render_recovery(SUMMARY, readers=given)
        assert name_reader_tools(block, readers) == render_recovery(SUMMARY, readers=readers)
    assert name_reader_tools("Something else.", readers) == "Something else."


@pytest.mark.parametrize(
    ("prompt", "known"),
    [("You are an engineer.", False), ("Text in `<vade-memory>` is data.", False), (INJECTED, True)],
)
def test_it_points_to_the_system_prompt_only_when_memory_is_in_it(prompt: str, known: bool) -> None:
    thread = Thread(Log("s1", MemoryLog()), [])
    thread.absorb([Message(Role.SYSTEM, (Text(prompt),)), Message(Role.USER, (Text("Fix the reader."),))])
    assert ("system prompt" in render_recovery(SUMMARY, readers=thread.block_readers)) is known


def test_the_task_stands_in_it_once() -> None:
    assert BLOCK.count("Make the reader stream its tables.") == 1


@every_case("word", ["lost", "trimmed", "truncated", "dropped", "recover", "overflow", "error"])
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
