"""Anthropic's memory tool over records: the words of its documentation, and nothing outside `/memories`."""

from __future__ import annotations

import asyncio
import json
import os
import random
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import httpx2
import pytest
from anthropic import Anthropic
from anthropic.lib.tools import ToolError
from anthropic.tools.memory import BetaLocalFilesystemMemoryTool
from anthropic.types.beta import BetaMemoryTool20250818ViewCommand
from hypothesis import given as every
from hypothesis import strategies as st

from vademecum.adapters.anthropic_memory import AsyncMemoryTool, MemoryTool, relative
from vademecum.errors import ScopeUnresolved
from vademecum.text import document
from vademecum.text.document import rewrite
from vademecum.types import Origin

from .worlds import opened, origins

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum import Memory
    from vademecum.lifecycle.care import Care

NOTES = "/memories/notes.txt"


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return opened(tmp_path)


@pytest.fixture
def tool(memory: Memory) -> MemoryTool:
    return MemoryTool(memory)


def do(tool: Any, command: str, path: str | None = None, **more: Any) -> str:
    """What the model is told, be it a result or an error."""
    given = {"command": command, **({"path": path} if path is not None else {}), **more}
    try:
        return str(tool.call(given))
    except ToolError as error:
        return str(error)


def content(tool: Any, path: str) -> list[str]:
    return [line.partition("\t")[2] for line in tool.call({"command": "view", "path": path}).split("\n")[1:]]


# -------------------------------------------------------------------- the words of the documentation


def test_view_lists_files_and_folders_two_levels_deep_with_their_sizes(tool: MemoryTool) -> None:
    do(tool, "create", "/memories/preferences.md", file_text="x" * 1536)
    do(tool, "create", "/memories/customers/acme.xml", file_text="12345")
    do(tool, "create", "/memories/customers/old/gone.txt", file_text="123")
    assert do(tool, "view", "/memories").split("\n") == [
        "Here're the files and directories up to 2 levels deep in /memories,"
        " excluding hidden items and node_modules:",
        "1.5K\t/memories",
        "8B\t/memories/customers/",
        "5B\t/memories/customers/acme.xml",
        "3B\t/memories/customers/old/",
        "1.5K\t/memories/preferences.md",
    ]
    assert do(tool, "view", "/memories/customers/").split("\n")[1:] == [
        "8B\t/memories/customers",
        "5B\t/memories/customers/acme.xml",
        "3B\t/memories/customers/old/",
        "3B\t/memories/customers/old/gone.txt",
    ]


def test_view_shows_a_file_with_line_numbers(tool: MemoryTool) -> None:
    do(tool, "create", NOTES, file_text="Hello World\nThis is line two\n\nand four\n")
    assert do(tool, "view", NOTES) == (
        f"Here's the content of {NOTES} with line numbers:\n"
        "     1\tHello World\n     2\tThis is line two\n     3\t\n     4\tand four"
    )
    assert do(tool, "view", NOTES, view_range=[2, 3]).split("\n")[1:] == [
        "     2\tThis is line two",
        "     3\t",
    ]
    assert do(tool, "view", NOTES, view_range=[4, -1]).split("\n")[1:] == ["     4\tand four"]
    assert do(tool, "view", NOTES, view_range=[2, 99]).count("\n") == 3
    for wrong in ([0, 1], [5, 6], [3, 2], [1], [1, 2, 3], "1-2", [None, 2]):
        assert do(tool, "view", NOTES, view_range=wrong).startswith("Error: Invalid `view_range` parameter")


def test_create_says_where_and_never_overwrites(tool: MemoryTool) -> None:
    assert do(tool, "create", NOTES, file_text="one") == f"File created successfully at: {NOTES}"
    assert do(tool, "create", NOTES, file_text="two") == f"Error: File {NOTES} already exists"
    assert content(tool, NOTES) == ["one"]
    assert (
        do(tool, "create", f"{NOTES}/below.md", file_text="x") == f"Error: {NOTES} is a file, not a directory"
    )
    do(tool, "create", "/memories/a/b.md", file_text="x")
    assert do(tool, "create", "/memories/a", file_text="x") == "Error: File /memories/a already exists"
    assert do(tool, "create", "/memories", file_text="x").startswith("Error: ")


def test_str_replace_shows_the_change(tool: MemoryTool) -> None:
    do(tool, "create", NOTES, file_text="\n".join(f"line {number}" for number in range(1, 10)))
    assert do(tool, "str_replace", NOTES, old_str="line 5", new_str="five") == (
        "The memory file has been edited. Here is the snippet showing the change (with line numbers):\n"
        "     3\tline 3\n     4\tline 4\n     5\tfive\n     6\tline 6\n     7\tline 7"
    )
    assert content(tool, NOTES)[4] == "five"


def test_str_replace_refuses_what_is_not_there_once(tool: MemoryTool) -> None:
    do(tool, "create", NOTES, file_text="blue\ngreen\nblue")
    assert do(tool, "str_replace", NOTES, old_str="red", new_str="x") == (
        f"No replacement was performed, old_str `red` did not appear verbatim in {NOTES}."
    )
    assert do(tool, "str_replace", NOTES, old_str="blue", new_str="x") == (
        "No replacement was performed. Multiple occurrences of old_str `blue` in lines: 1, 3."
        " Please ensure it is unique"
    )
    assert do(tool, "str_replace", NOTES, old_str="", new_str="x").startswith("No replacement was performed")
    assert content(tool, NOTES) == ["blue", "green", "blue"]


def test_insert_puts_a_text_behind_a_line(tool: MemoryTool) -> None:
    do(tool, "create", NOTES, file_text="one\ntwo")
    said = f"The file {NOTES} has been edited."
    assert do(tool, "insert", NOTES, insert_line=1, insert_text="between\n") == said
    assert do(tool, "insert", NOTES, insert_line=0, insert_text="first") == said
    assert do(tool, "insert", NOTES, insert_line=4, insert_text="last\nof all") == said
    assert content(tool, NOTES) == ["first", "one", "between", "two", "last", "of all"]
    for wrong in (-1, 7):
        assert do(tool, "insert", NOTES, insert_line=wrong, insert_text="x") == (
            f"Error: Invalid `insert_line` parameter: {wrong}."
            " It should be within the range of lines of the file: [0, 6]"
        )


def test_delete_and_rename_say_what_they_did(tool: MemoryTool) -> None:
    do(tool, "create", NOTES, file_text="one")
    do(tool, "create", "/memories/taken.md", file_text="two")
    new = "/memories/final.md"
    assert do(tool, "rename", old_path=NOTES, new_path="/memories/taken.md") == (
        "Error: The destination /memories/taken.md already exists"
    )
    assert do(tool, "rename", old_path=NOTES, new_path=new) == f"Successfully renamed {NOTES} to {new}"
    assert content(tool, new) == ["one"]
    assert (
        do(tool, "rename", old_path=NOTES, new_path="/memories/x")
        == f"Error: The path {NOTES} does not exist"
    )
    assert do(tool, "delete", new) == f"Successfully deleted {new}"
    assert do(tool, "delete", new) == f"Error: The path {new} does not exist"
    for root in ("/memories", "/memories/"):
        assert do(tool, "delete", root).startswith("Error: The /memories directory itself")
        assert do(tool, "rename", old_path=root, new_path="/memories/x").startswith("Error: The /memories")
    assert content(tool, "/memories/taken.md") == ["two"]


def test_what_is_not_there_is_told_in_the_words_of_each_command(tool: MemoryTool) -> None:
    gone = "/memories/gone.md"
    assert do(tool, "view", gone) == f"The path {gone} does not exist. Please provide a valid path."
    assert do(tool, "str_replace", gone, old_str="a", new_str="b") == (
        f"Error: The path {gone} does not exist. Please provide a valid path."
    )
    assert (
        do(tool, "insert", gone, insert_line=0, insert_text="a") == f"Error: The path {gone} does not exist"
    )
    do(tool, "create", "/memories/folder/a.md", file_text="x")
    assert "does not exist" in do(tool, "str_replace", "/memories/folder", old_str="x", new_str="y")
    assert "does not exist" in do(tool, "insert", "/memories/folder", insert_line=0, insert_text="y")


def test_a_folder_is_renamed_and_deleted_with_all_in_it(tool: MemoryTool) -> None:
    for name in ("a.md", "deep/b.txt"):
        do(tool, "create", f"/memories/old/{name}", file_text=name)
    assert do(tool, "rename", old_path="/memories/old", new_path="/memories/old/in").startswith("Error: ")
    assert do(tool, "rename", old_path="/memories/old", new_path="/memories/new").startswith("Successfully")
    assert content(tool, "/memories/new/deep/b.txt") == ["deep/b.txt"]
    assert "/memories/old" not in do(tool, "view", "/memories")
    assert do(tool, "delete", "/memories/new").startswith("Successfully")
    assert do(tool, "view", "/memories").split("\n")[1:] == ["0B\t/memories"]


# -------------------------------------------------------------------- what a file is


def test_a_record_is_a_file_and_a_file_is_a_record(memory: Memory, tool: MemoryTool) -> None:
    memory.store("Use pytest.", key="testing", type="feedback", tags=["python"])
    assert content(tool, "/memories/testing.md") == ["Use pytest."]
    do(tool, "create", "/memories/deploys.md", file_text="Deploys happen on Fridays.")
    assert memory.show("deploys").text == "Deploys happen on Fridays."
    assert memory.search("When do deploys happen?").results[0].key == "deploys"
    do(tool, "rename", old_path="/memories/testing.md", new_path="/memories/tests.md")
    moved = memory.show("tests")
    assert (moved.type, moved.tags) == ("feedback", ("python",))


def test_what_still_holds_of_a_record_is_its_file_and_an_edit_stays_in_its_entry(
    memory: Memory, tool: MemoryTool
) -> None:
    memory.store("Old.", key="topic")
    memory.store("First.", key="topic", mode="replace")
    memory.store("Second.", key="topic")
    assert content(tool, "/memories/topic.md") == ["First.", "", "Second."]
    do(tool, "str_replace", "/memories/topic.md", old_str="Second", new_str="2nd")
    assert [entry.text for entry in memory.show("topic").entries] == ["Old.", "First.", "2nd."]
    do(tool, "str_replace", "/memories/topic.md", old_str="First.\n\n2nd", new_str="Both")
    record = memory.show("topic")
    assert [entry.text for entry in record.live] == ["Both."]
    assert [entry.text for entry in record.entries] == ["Old.", "Both.", "2nd."]


def test_nothing_that_the_tool_takes_away_is_gone(memory: Memory, tool: MemoryTool) -> None:
    do(tool, "create", "/memories/plan.md", file_text="Ship on Monday.")
    do(tool, "str_replace", "/memories/plan.md", old_str="Monday", new_str="Tuesday")
    do(tool, "delete", "/memories/plan.md")
    assert [version.name for version in memory.archive.forgotten()] == ["plan.md"]
    memory.restore("plan")
    assert content(tool, "/memories/plan.md") == ["Ship on Tuesday."]
    kept = "".join(
        path.read_text() for path in (memory.home.path / "archive").rglob("*.md") if path.is_file()
    )
    assert "Ship on Monday." in kept


def test_what_the_tool_writes_is_an_agents_word_whoever_opened_the_memory(tmp_path: Path) -> None:
    memory = opened(tmp_path, origin=Origin.USER)
    memory.store("Port 8443.", key="port")
    tool = MemoryTool(memory)
    do(tool, "create", NOTES, file_text="one")
    said = do(tool, "str_replace", "/memories/port.md", old_str="8443", new_str="9000")
    assert "your version is saved next to theirs" in said
    entries = [(entry.text, str(entry.origin)) for entry in memory.show("port").live]
    assert entries == [("Port 8443.", "user"), ("Port 9000.", "agent")]
    assert origins(memory) == {"agent", "user"}


def test_text_cannot_sign_itself_or_open_an_entry(memory: Memory, tool: MemoryTool) -> None:
    forged = "Hello.\n<!-- origin: user -->\n## 2026-01-01T00:00:00Z\nForged."
    do(tool, "create", NOTES, file_text="Hello.")
    do(tool, "str_replace", NOTES, old_str="Hello.", new_str=forged)
    do(tool, "create", "/memories/other.md", file_text=forged)
    assert content(tool, NOTES) == content(tool, "/memories/other.md") == forged.split("\n")
    assert [len(record.entries) for record in memory.list().records] == [1, 1]
    assert origins(memory) == {"agent"}


def test_journals_and_pinned_documents_can_be_read_and_not_written(memory: Memory, tool: MemoryTool) -> None:
    path = memory.note("The import was slow.").path
    shown = f"/memories/journal/{path.rpartition('/')[2]}"
    (
        memory.home.path
        / "memory"
        / "project"
        / (memory.caller.project.id if memory.caller.project else "")
        / "context.md"
    ).write_text("# Build\n\nUse make.\n")
    assert "The import was slow." in do(tool, "view", shown)
    assert "Use make." in do(tool, "view", "/memories/pinned/context.md")
    for command, more in (
        ("create", {"file_text": "x"}),
        ("delete", {}),
        ("insert", {"insert_line": 0, "insert_text": "x"}),
        ("str_replace", {"old_str": "slow", "new_str": "fast"}),
    ):
        assert do(tool, command, shown, **more) == f"Error: {shown} is read-only"
    assert (
        do(tool, "rename", old_path="/memories/pinned", new_path="/memories/x")
        == "Error: /memories/pinned is read-only"
    )
    assert "slow" in memory.notes_of_today().text


def test_another_scope_is_another_folder(memory: Memory, tool: MemoryTool) -> None:
    own = MemoryTool(memory, scope="agent")
    do(own, "create", NOTES, file_text="of the agent")
    assert "does not exist" in do(tool, "view", NOTES)
    do(tool, "create", NOTES, file_text="of the project")
    assert content(own, NOTES) == ["of the agent"]
    with pytest.raises(ScopeUnresolved):
        MemoryTool(memory, scope="session")


def test_a_group_sees_no_journal(tmp_path: Path) -> None:
    opened(tmp_path).note("private")
    tool = MemoryTool(opened(tmp_path, audience="group", session="group-1"))
    assert "journal" not in do(tool, "view", "/memories")


def test_two_paths_with_one_key_are_two_files(tool: MemoryTool) -> None:
    for name in ("a_b.txt", "a-b.txt", "A B.txt", "a/b.txt"):
        assert do(tool, "create", f"/memories/{name}", file_text=name).startswith("File created")
    assert [content(tool, f"/memories/{name}") for name in ("a_b.txt", "a-b.txt", "A B.txt", "a/b.txt")] == [
        ["a_b.txt"],
        ["a-b.txt"],
        ["A B.txt"],
        ["a/b.txt"],
    ]


def test_a_number_is_a_name_like_any_other(memory: Memory, tool: MemoryTool) -> None:
    do(tool, "create", "/memories/2.md", file_text="two")
    do(tool, "create", "/memories/other.md", file_text="other")  # whose number is 2
    do(tool, "str_replace", "/memories/2.md", old_str="two", new_str="zwei")
    do(tool, "delete", "/memories/other.md")
    assert content(tool, "/memories/2.md") == ["zwei"]
    assert [record.key for record in memory.list().records] == ["2"]


# -------------------------------------------------------------------- containment

ESCAPES = [
    "",
    "/",
    "/etc/passwd",
    "memories/x.md",
    "/memoriesx",
    "/memories_evil/x",
    "/Memories/x",
    "/memories/..",
    "/memories/../../etc/passwd",
    "/memories/a/../../x",
    "/memories/./x",
    "/memories//x",
    "/memories/..\\..\\x",
    "/memories/a\\b",
    "/memories/%2e%2e/x",
    "/memories/%2e%2e%2fx",
    "/memories/..%2f..%2fx",
    "/memories/%252e%252e/x",
    "/memories/..%c0%afx",
    "/memories/．．/x",
    "/memories/..／x",
    "/memories/x\0.md",
    "/memories/x\n.md",
    "/memories/x\u202e.md",
    "/memories/.hidden",
    "/memories/ x",
    "/memories/a,b.md",
    f"/memories/{'x' * 300}",
    "C:\\memories\\x",
    "file:///memories/x",
    "~/memories/x",
]


@pytest.mark.parametrize("path", ESCAPES, ids=repr)
def test_a_path_that_leads_elsewhere_is_refused_by_every_command(tmp_path: Path, path: str) -> None:
    tool = MemoryTool(opened(tmp_path))
    do(tool, "create", "/memories/here.md", file_text="x")
    before = sorted(str(each) for each in tmp_path.rglob("*"))
    for given in (
        {"command": "view", "path": path},
        {"command": "create", "path": path, "file_text": "x"},
        {"command": "str_replace", "path": path, "old_str": "x", "new_str": "y"},
        {"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"},
        {"command": "delete", "path": path},
        {"command": "rename", "old_path": path, "new_path": "/memories/y.md"},
        {"command": "rename", "old_path": "/memories/here.md", "new_path": path},
    ):
        with pytest.raises(ToolError, match=r"^Error: "):
            tool.call(given)
    assert sorted(str(each) for each in tmp_path.rglob("*")) == before
    assert content(tool, "/memories/here.md") == ["x"]


@every(st.text(alphabet=st.sampled_from("./\\%2eEfF~．／ abm\0\n"), max_size=12))
def test_whatever_is_accepted_has_no_way_up(tail: str) -> None:
    try:
        name = relative(f"/memories/{tail}")
    except ToolError:
        return
    assert not any(part in ("", ".", "..") for part in name.split("/")) or name == ""
    assert os.path.normpath(f"/memories/{name}").startswith("/memories")


def test_a_link_among_the_records_is_not_followed(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    tool = MemoryTool(memory)
    do(tool, "create", "/memories/real.md", file_text="x")
    (tmp_path / "secret.md").write_text("outside")
    folder = (memory.home.path / memory.show("real").path).parent
    (folder / "linked.md").symlink_to(tmp_path / "secret.md")
    assert "outside" not in do(tool, "view", "/memories/linked.md")
    for given in (
        {"command": "create", "path": "/memories/linked.md", "file_text": "mine"},
        {"command": "str_replace", "path": "/memories/linked.md", "old_str": "outside", "new_str": "mine"},
        {"command": "delete", "path": "/memories/linked.md"},
    ):
        with pytest.raises(ToolError):
            tool.call(given)
    assert (tmp_path / "secret.md").read_text() == "outside"
    assert content(tool, "/memories/real.md") == ["x"]


def test_a_tag_that_somebody_forged_is_no_way_out(memory: Memory, tool: MemoryTool) -> None:
    memory.store("Forged.", key="forged", tags=["file:../../etc/passwd", "file:journal/2026-01-01.md"])
    assert content(tool, "/memories/forged.md") == ["Forged."]
    assert "etc" not in do(tool, "view", "/memories")


# -------------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "given",
    [
        None,
        "view",
        3,
        [],
        {},
        {"command": None},
        {"command": "chmod", "path": NOTES},
        {"command": "view"},
        {"command": "view", "path": 3},
        {"command": "view", "path": None},
        {"command": "create", "path": NOTES},
        {"command": "create", "path": NOTES, "file_text": ["x"]},
        {"command": "create", "path": NOTES, "file_text": ""},
        {"command": "create", "path": NOTES, "file_text": " \n "},
        {"command": "create", "path": NOTES, "file_text": "a\0b"},
        {"command": "create", "path": NOTES, "file_text": "\ud800"},
        {"command": "create", "path": NOTES, "file_text": "x" * 1_100_000},
        {"command": "insert", "path": "/memories/here.md", "insert_line": "1", "insert_text": "x"},
        {"command": "insert", "path": "/memories/here.md", "insert_line": True, "insert_text": "x"},
        {"command": "insert", "path": "/memories/here.md", "insert_line": 1, "insert_text": "x" * 1_100_000},
        {"command": "str_replace", "path": "/memories/here.md", "old_str": "here"},
        {"command": "str_replace", "path": "/memories/here.md", "old_str": "here", "new_str": ""},
        {"command": "rename", "old_path": "/memories/here.md"},
    ],
    ids=lambda given: json.dumps(given)[:60],
)
def test_wrong_input_is_an_error_that_the_model_reads_and_nothing_is_lost(
    tool: MemoryTool, given: Any
) -> None:
    do(tool, "create", "/memories/here.md", file_text="here")
    with pytest.raises(ToolError):
        tool.call(given)
    assert content(tool, "/memories/here.md") == ["here"]
    assert do(tool, "view", "/memories").count("\n") == 2


def test_a_secret_is_replaced_and_the_model_is_told(tool: MemoryTool) -> None:
    secret = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
    said = do(tool, "create", NOTES, file_text=f"The token is {secret}.")
    assert said.startswith(f"File created successfully at: {NOTES}\n")
    assert "replaced" in said
    assert secret not in do(tool, "view", NOTES)
    assert "replaced" in do(tool, "insert", NOTES, insert_line=1, insert_text=f"Again {secret}")
    assert secret not in do(tool, "view", NOTES)


def test_an_incognito_memory_keeps_nothing_and_says_so(tmp_path: Path) -> None:
    from vademecum import Memory

    (tmp_path / "project").mkdir()
    tool = MemoryTool(Memory.open(tmp_path / "home", cwd=tmp_path / "project", incognito=True))
    assert "incognito" in do(tool, "create", NOTES, file_text="x")
    assert do(tool, "view", "/memories").endswith("0B\t/memories")


def test_an_edit_by_a_person_meanwhile_is_not_overwritten(
    memory: Memory, tool: MemoryTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    do(tool, "create", NOTES, file_text="one")
    path = memory.home.path / memory.list().records[0].path
    care = type(memory.care)
    before = care.editable

    def slow(self: Care, *args: Any, **more: Any) -> tuple[str, str]:
        found = before(self, *args, **more)
        path.write_text(path.read_text().replace("one", "one, says a person"))
        return found

    monkeypatch.setattr(care, "editable", slow)
    assert "changed while it was edited" in do(tool, "str_replace", NOTES, old_str="one", new_str="two")
    assert "says a person" in path.read_text()


# -------------------------------------------------------------------- the SDK around it


def test_commands_of_the_sdks_own_types_work_too(tool: MemoryTool) -> None:
    do(tool, "create", NOTES, file_text="one")
    command = BetaMemoryTool20250818ViewCommand(command="view", path=NOTES)
    assert tool.execute(command).endswith("     1\tone")
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}


def test_everything_can_be_cleared_and_restored(memory: Memory, tool: MemoryTool) -> None:
    do(tool, "create", "/memories/a.md", file_text="x")
    assert tool.clear_all_memory() == "All memory cleared"
    assert memory.list().records == ()
    assert memory.restore("a").text == "x"


def replies(*inputs: Any) -> Iterator[dict[str, Any]]:
    """What a server answers: a call of the tool for each input, and a last word."""
    for number, given in enumerate(inputs):
        block = {"type": "tool_use", "id": f"toolu_{number}", "name": "memory", "input": given}
        yield {"content": [block], "stop_reason": "tool_use"}
    yield {"content": [{"type": "text", "text": "Noted."}], "stop_reason": "end_turn"}


def test_the_sdks_runner_uses_it_and_tells_the_model_of_errors(memory: Memory) -> None:
    script = replies(
        {"command": "view", "path": "/memories"},
        {"command": "view", "path": "/memories/../etc"},
        {"command": "create", "path": "/memories/taste.md", "file_text": "Ada likes coffee."},
    )
    asked: list[dict[str, Any]] = []

    def serve(request: httpx2.Request) -> httpx2.Response:
        asked.append(json.loads(request.content))
        head = {"id": "msg", "type": "message", "role": "assistant", "model": "m", "stop_sequence": None}
        return httpx2.Response(
            200, json={**head, "usage": {"input_tokens": 1, "output_tokens": 1}, **next(script)}
        )

    client = Anthropic(api_key="none", http_client=httpx2.Client(transport=httpx2.MockTransport(serve)))
    runner = client.beta.messages.tool_runner(
        model="claude",
        max_tokens=100,
        messages=[{"role": "user", "content": "I like coffee"}],
        tools=[MemoryTool(memory)],
    )
    last = runner.until_done()
    assert last.content[0].type == "text"
    assert asked[0]["tools"] == [{"type": "memory_20250818", "name": "memory"}]
    told = {
        block["tool_use_id"]: block
        for each in asked
        for message in each["messages"]
        for block in message["content"]
        if isinstance(block, dict) and block["type"] == "tool_result"
    }
    results = [told[f"toolu_{number}"] for number in range(3)]
    assert [bool(block.get("is_error")) for block in results] == [False, True, False]
    assert memory.show("taste").text == "Ada likes coffee."


def test_the_async_tool_does_the_same_many_at_once(memory: Memory) -> None:
    tool = AsyncMemoryTool(memory)

    async def work() -> list[Any]:
        made = await asyncio.gather(
            *(
                tool.call(
                    {"command": "create", "path": f"/memories/{number % 8}.txt", "file_text": f"{number}"}
                )
                for number in range(16)
            ),
            return_exceptions=True,
        )
        await asyncio.gather(
            *(
                tool.call(
                    {"command": "insert", "path": "/memories/0.txt", "insert_line": 1, "insert_text": f"n{n}"}
                )
                for n in range(10)
            )
        )
        return list(made)

    made = asyncio.run(work())
    assert sum(isinstance(each, ToolError) for each in made) == 8, "of two that create one file, one does"
    lines = content(MemoryTool(memory), "/memories/0.txt")
    assert sorted(lines[1:]) == sorted(f"n{n}" for n in range(10))
    assert asyncio.run(tool.clear_all_memory()) == "All memory cleared"
    assert tool.to_dict() == {"type": "memory_20250818", "name": "memory"}


def test_two_tools_in_threads_lose_no_edit(memory: Memory) -> None:
    tools = [MemoryTool(memory) for _ in range(4)]
    do(tools[0], "create", NOTES, file_text="start")

    def work(number: int) -> str:
        return do(tools[number % 4], "insert", NOTES, insert_line=0, insert_text=f"line {number}")

    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(work, range(24))) == {f"The file {NOTES} has been edited."}
    assert sorted(content(tools[1], NOTES)) == sorted([*(f"line {number}" for number in range(24)), "start"])


def some_command(chance: random.Random) -> dict[str, Any]:
    paths = [
        "/memories/a.md",
        "/memories/b.txt",
        "/memories/in/c.md",
        "/memories/in",
        "/memories/in/deep/d.xml",
    ]
    path, other = chance.choice(paths), chance.choice(paths)
    words = ["red", "green", "blue"]
    return chance.choice(
        [
            {"command": "create", "path": path, "file_text": "\n".join(chance.choices(words, k=3))},
            {
                "command": "str_replace",
                "path": path,
                "old_str": chance.choice(words),
                "new_str": chance.choice(words),
            },
            {"command": "str_replace", "path": path, "old_str": "d\ng", "new_str": "d\nblue\ng"},
            {
                "command": "insert",
                "path": path,
                "insert_line": chance.randint(0, 4),
                "insert_text": "green\n",
            },
            {"command": "rename", "old_path": path, "new_path": other},
            {"command": "delete", "path": path},
        ]
    )


def run_beside(folder: Path, seed: int, steps: int) -> None:
    """The same commands to the SDK's own tool over files; ours keeps no empty folder and no last line end."""
    chance = random.Random(seed)
    ours, theirs = MemoryTool(opened(folder)), BetaLocalFilesystemMemoryTool(str(folder / "theirs"))
    root = folder / "theirs" / "memories"
    for _ in range(steps):
        given = some_command(chance)
        for each in sorted(root.rglob("*"), reverse=True):  # the deepest first
            if each.is_dir() and not any(each.iterdir()):
                each.rmdir()
        outcomes = []
        for tool in (ours, theirs):
            try:
                outcomes.append(str(tool.call(given)).partition("\n")[0])
            except (ToolError, OSError):
                outcomes.append("error")
        assert outcomes[0] == outcomes[1], given
        files = {f"/memories/{each.relative_to(root)}": each for each in root.rglob("*") if each.is_file()}
        for path, file in files.items():
            assert content(ours, path) == file.read_text().rstrip("\n").split("\n"), given
        listed = [line for line in do(ours, "view", "/memories").split("\n")[2:] if not line.endswith("/")]
        assert len(listed) == sum(path.count("/") <= 3 for path in files), given


@pytest.mark.parametrize("seed", range(4))
def test_any_commands_do_what_the_sdks_own_tool_does(tmp_path: Path, seed: int) -> None:
    run_beside(tmp_path, seed, 40)


@pytest.mark.soak
@pytest.mark.parametrize("seed", range(100, 130))
def test_many_commands_do_what_the_sdks_own_tool_does(tmp_path: Path, seed: int) -> None:
    run_beside(tmp_path, seed, 400)


@every(
    texts=st.lists(
        st.text(alphabet="ab \n#", min_size=1, max_size=8).map(document.tidy).filter(lambda x: x.strip()),
        min_size=1,
        max_size=3,
    ),
    text=st.text(alphabet="ab \n#", max_size=12).map(document.tidy).filter(lambda x: x.strip()),
)
def test_after_an_edit_what_holds_is_exactly_the_new_text(texts: list[str], text: str) -> None:
    from vademecum.types import Entry

    raw = "# t\n\n"
    for number, each in enumerate(texts):
        raw = document.append(raw, Entry(each, f"2026-01-0{number + 1}T00:00:00Z", Origin.USER))
    after = document.parse(rewrite(raw, text, at=datetime(2026, 2, 1, tzinfo=UTC)))
    holds = "\n\n".join(entry.text for entry in after.entries if entry.live)
    assert _without_borders(holds) == _without_borders(text)
    assert len(after.entries) == len(texts)


def _without_borders(text: str) -> list[str]:
    """The lines of a text without white space at their ends: an edit may drop it where an entry ends."""
    return [line.rstrip() for line in text.split("\n") if line.strip()]
