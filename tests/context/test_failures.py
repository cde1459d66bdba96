"""What a session teaches by its failures."""

from __future__ import annotations

import json

from cases import every_case
from vademecum.context.failures import find_lessons
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult

REFUSED = (
    "The user doesn't want to proceed with this tool use. The tool use was rejected (eg. if it was a file"
    " edit, the new_string was NOT written to the file). "
)


def user(text: str) -> Message:
    return Message(Role.USER, (Text(text),), id=text[:8])


def agent(text: str) -> Message:
    return Message(Role.ASSISTANT, (Text(text),))


def call(name: str, given: dict[str, str], output: str, *, failed: bool = False) -> list[Message]:
    made = ToolCall("1", name, json.dumps(given))
    result = ToolResult("1", (Text(output),), error=failed)
    return [Message(Role.ASSISTANT, (made,)), Message(Role.TOOL, (result,), id=f"after {output[:8]}")]


def ran(command: str, output: str = "ok", *, failed: bool = False) -> list[Message]:
    return call("Bash", {"command": command}, f"Exit code 1\n{output}" if failed else output, failed=failed)


def edited(path: str) -> list[Message]:
    return call("Edit", {"file_path": path, "old_string": "a", "new_string": "b"}, "done")


def taught(*messages: Message) -> list[dict[str, str]]:
    return [each.fields for each in find_lessons(messages)]


@every_case(
    ("failed", "error", "worked", "shown"),
    [
        ("ruff check .", "zsh: command not found: ruff", "uv run ruff check .", "uv run ruff check ."),
        (
            "cd app && cargo test --fast 2>&1 | tail -5",
            "error: unexpected argument '--fast' found",
            "cd app && cargo test --release 2>&1 | tail -5",
            "cargo test --release",
        ),
        (
            "gh pr diff 12 --stat",
            "unknown flag: --stat\n\nUsage: gh pr diff",
            "gh pr diff 12 --name-only",
            "gh pr diff 12 --name-only",
        ),
        (
            "llm --print 'say hello'",
            "Error: input must be provided through stdin",
            "echo 'say hello' | llm --print",
            "echo 'say hello' | llm --print",
        ),
    ],
)
def test_a_corrected_command_is_a_solution(failed: str, error: str, worked: str, shown: str) -> None:
    found = find_lessons([user("go"), *ran(failed, error, failed=True), *ran("ls"), *ran(worked)])
    assert [(str(each.type), each.fields["solution"]) for each in found] == [("solution", f"Run `{shown}`.")]
    assert found[0].fields["error"].endswith(error.split("\n", maxsplit=1)[0])
    assert found[0].evidence[1] == shown
    assert found[0].message == "after ok"


@every_case(
    ("failed", "error", "worked"),
    [
        ("git show --no-stat", "fatal: unrecognized argument: --no-stat", "git show"),  # only left out
        ("git gc --dry-run", "error: unknown option `dry-run'", "git reflog expire --dry-run"),
        ("go test ./... | grep --- FAIL", "grep: unrecognized option '--- FAIL'", "go test ./... -v"),
        ("cat notes.md", "cat: unknown option -- z", "cat -A notes.md"),
        ("make test", "2 failed", "make test FAST=1"),
        ("echo 'unfinished", "unknown option", "echo 'unfinished"),
    ],
)
def test_another_command_is_no_correction(failed: str, error: str, worked: str) -> None:
    assert taught(*ran(failed, error, failed=True), *ran(worked)) == []


def test_a_correction_after_an_edit_or_a_message_of_the_user_is_none() -> None:
    failed, worked = ran("ruff check .", "command not found: ruff", failed=True), ran("uv run ruff check .")
    assert taught(*failed, *edited("a.py"), *worked) == []
    assert taught(*failed, user("use uv"), *worked) == []
    assert taught(*failed, *worked, *failed, *worked) == taught(*failed, *worked)


def test_a_check_that_passes_after_its_cause_was_found_is_a_solution() -> None:
    cause = "The issue is that the reader closes the file before the last row is read."
    red = ran("pytest tests/test_reader.py", "E  ValueError: read of closed file\nFAILED", failed=True)
    green = ran("pytest tests/test_reader.py", "3 passed")
    assert taught(*red, agent(f"Found it. {cause}"), *edited("src/reader.py"), *green) == [
        {
            "error": "`pytest tests/test_reader.py`: E ValueError: read of closed file",
            "solution": f"{cause} Changed: reader.py.",
        }
    ]
    guess = "It might be because the reader closes the file before the last row is read."
    for between in ([agent(cause)], edited("src/reader.py"), [agent(guess), *edited("src/reader.py")]):
        assert taught(*red, *between, *green) == []
    assert taught(*red, agent(cause), *edited("src/reader.py"), *ran("pytest tests/other.py")) == []
    assert (
        taught(*ran("ruff lint .", "error", failed=True), agent(cause), *edited("a"), *ran("ruff lint ."))
        == []
    )


@every_case(
    "words",
    [
        "no, I did not say commit anything",
        "rebase from main first",
        "don't run the integration tests, too slow",
        "we should always use the strong types",
        "use pnpm here, not npm",
    ],
)
def test_what_the_user_says_to_refuse_an_action_is_a_rule(words: str) -> None:
    said = f"{REFUSED}To tell you how to proceed, the user said:\n{words}"
    assert taught(*call("Bash", {"command": "git push origin x"}, said, failed=True)) == [
        {"rule": f"{words} (said about `git push`)"}
    ]


@every_case(
    "words",
    [
        "wait",
        "don't do it yet",
        "what does lint say now?",
        "don't worry about lint for now",
        "I've done it",
        "rebase",
    ],
)
def test_what_holds_for_the_moment_only_is_no_rule(words: str) -> None:
    said = f"{REFUSED}To tell you how to proceed, the user said:\n{words}"
    assert taught(*call("Bash", {"command": "git push"}, said, failed=True)) == []


def test_a_correction_right_after_an_action_is_a_rule() -> None:
    stopped = call("Bash", {"command": "git stash"}, f"{REFUSED}STOP what you are doing.", failed=True)
    words = "do not stash anything, read the files you need"
    assert taught(*stopped, user("[Request interrupted by user for tool use]"), user(words)) == [
        {"rule": f"{words} (said about `git stash`)"}
    ]
    assert taught(*edited("a.py"), agent("Done."), user("never edit generated files")) == [
        {"rule": "never edit generated files (said about `Edit`)"}
    ]
    assert taught(user("never edit generated files")) == []
    assert taught(*edited("a.py"), user("thanks"), user("never edit generated files")) == []


def test_damaged_calls_and_long_commands_are_read_without_an_error() -> None:
    calls = ("{", "[]", "null", '{"command": 3}', json.dumps({"command": "a '" + "b" * 100_000}))
    for arguments in calls:
        call_ = Message(Role.ASSISTANT, (ToolCall("1", "bash", arguments),))
        result = Message(Role.TOOL, (ToolResult("1", (Text("command not found: a"),), error=True),))
        assert find_lessons([call_, result, result]) == []
