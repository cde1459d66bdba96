"""One view of memory for a request: it opens each folder once, and ends with the request or at a write."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import pytest
from tools import handles

from vademecum.memory import Memory, connect
from vademecum.store import Home, request_view
from vademecum.store.view import current_view, look_at
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


def opened(base: Path) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER, actor="human:me")


def a_home(base: Path) -> Home:
    (base / "notes" / "deep").mkdir(parents=True)
    (base / "notes" / "one.md").write_text("one")
    return Home(base)


def is_markdown(name: str) -> bool:
    return name.endswith(".md")


def test_a_question_over_ten_records_opens_at_most_twelve_folders(tmp_path: Path) -> None:
    (tmp_path / "project").mkdir()
    handles.fill(tmp_path / "home", tmp_path / "project")
    found = handles.run(tmp_path / "home", tmp_path / "project", "search", "when", "are", "deploys")
    assert len(found) <= 12, found
    assert any(path.endswith("/records") for path in found), "the count has missed what a question must open"
    assert len({*found}) == len(found), "a folder was opened twice"


def test_a_folder_is_opened_once_and_closed_with_its_request(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    with request_view():
        with home.folder("notes", "deep") as first:
            pass
        with home.folder("notes", "deep") as second, home.folder("notes") as above:
            assert second is first
            assert second.names() == []
            assert above.read("one.md") == b"one"
        handle: Any = first
        assert handle.fd is not None
    assert handle.fd is None
    with home.folder("notes") as after:
        assert after is not above


def test_a_request_within_a_request_shares_its_view_and_a_thread_does_not(tmp_path: Path) -> None:
    seen: list[object] = []
    with request_view() as outer:
        with request_view() as inner:
            assert inner is outer
        assert current_view() is outer
        thread = threading.Thread(target=lambda: seen.append(current_view()))
        thread.start()
        thread.join()
    assert seen == [None]
    assert current_view() is None


def test_a_folder_that_is_missing_is_found_once_it_was_made_here(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    with request_view():
        assert home.names("later") == []
        home.folder("later", create=True).close()
        (tmp_path / "later" / "new.md").write_text("new")
        assert home.names("later") == ["new.md"]


def test_a_file_that_comes_within_a_request_is_seen(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    with request_view(), home.folder("notes") as notes:
        assert set(look_at(notes, is_markdown).stamps) == {"one.md"}
        (tmp_path / "notes" / "two.md").write_text("two")
        assert set(look_at(notes, is_markdown).stamps) == {"one.md", "two.md"}


def test_stamps_are_read_once_in_a_request(tmp_path: Path) -> None:
    home = a_home(tmp_path)
    os.utime(tmp_path / "notes", (1, 1))
    with request_view(), home.folder("notes") as notes:
        first = look_at(notes, is_markdown)
        settled = first.mark[1] < first.at - 1_000_000_000  # the folder's own change is a moment ago
        assert (look_at(notes, is_markdown) is first) == settled


def test_an_edit_before_a_request_is_seen_by_it(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        stored = memory.store("The build takes 7 minutes.", key="build")
        with request_view():
            assert "7 minutes" in memory.show("build").entries[0].text
            assert memory.search("how long does the build take").results
        path = memory.home.path / stored.path
        path.write_text(path.read_text().replace("7 minutes", "9 minutes"))
        with request_view():
            assert "9 minutes" in memory.show("build").entries[0].text
            assert "9 minutes" in memory.search("how long does the build take").results[0].snippet


def test_a_write_is_read_back_by_the_request_that_made_it(tmp_path: Path) -> None:
    with opened(tmp_path) as memory, request_view():
        assert len(memory.list()) == 0
        assert not memory.search("where is the cache").results
        memory.store("The cache is on the second server.", key="cache")
        assert [record.key for record in memory.list()] == ["cache"]
        assert memory.search("where is the cache").results[0].key == "cache"


def test_a_write_goes_into_the_folder_that_has_the_name_now(tmp_path: Path) -> None:
    with opened(tmp_path) as memory, request_view():
        stored = memory.store("The cache is on the second server.", key="cache")
        assert len(memory.list()) == 1
        records = (memory.home.path / stored.path).parent
        records.rename(tmp_path / "aside")
        records.mkdir()
        memory.store("The queue is on the third server.", key="queue")
        assert [path.name for path in records.glob("*.md")] == ["queue.md"]
        assert [record.key for record in memory.list()] == ["queue"]


def fail_while_searching(memory: Memory) -> None:
    with request_view():
        memory.search("cache")
        raise ZeroDivisionError


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="Linux alone lists a process's handles")
def test_no_handle_is_left_open(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        memory.store("The cache is on the second server.", key="cache")
        memory.search("cache")
        memory.search("cache")  # the second question begins to watch folders
        before = len(os.listdir("/proc/self/fd"))
        with pytest.raises(ZeroDivisionError):
            fail_while_searching(memory)
        memory.search("cache")
        assert len(os.listdir("/proc/self/fd")) == before
