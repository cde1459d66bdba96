"""Reading by path: what is attached can be read line by line, and nothing beside it, whoever asks."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest

from vademecum.errors import OutsideMemory, UsageError, VadeError
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

SECRET = "the secret that lies outside"
LINES = "".join(f"line {number}\n" for number in range(1, 11))

# Swaps a folder for a link to another and back, as fast as it can, until told to stop.
SWAPPER = """
import os, sys
base = sys.argv[1]
print("ready", flush=True)
while not os.path.exists(f"{base}/stop"):
    os.rename(f"{base}/vault/below", f"{base}/aside")
    os.symlink(f"{base}/outside", f"{base}/vault/below")
    os.unlink(f"{base}/vault/below")
    os.rename(f"{base}/aside", f"{base}/vault/below")
"""


def opened(base: Path, **given: str) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(
        home=base / "home",
        cwd=base / "work",
        environ={"VADE_EMBEDDER": "none"},
        origin=Origin.USER,
        audience=given.get("audience"),
    )


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    """A memory with an attached folder, and a file outside of it."""
    (tmp_path / "vault" / "below" / "deep").mkdir(parents=True)
    (tmp_path / "vault" / "lines.md").write_text(LINES)
    (tmp_path / "vault" / "below" / "note.md").write_text("The heron stands in the pond.\n")
    (tmp_path / "vault" / "below" / "deep" / "deeper.markdown").write_text("The stork.\n")
    (tmp_path / "vault" / ".hidden").mkdir()
    (tmp_path / "vault" / ".hidden" / "note.md").write_text(SECRET)
    (tmp_path / "vault" / "key.txt").write_text(SECRET)
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "note.md").write_text(SECRET)
    (tmp_path / "vault-2").mkdir()
    (tmp_path / "vault-2" / "note.md").write_text(SECRET)
    made = opened(tmp_path)
    made.sources.add(tmp_path / "vault")
    return made


# --- lines --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "lines", "wanted"),
    [
        (1, None, (LINES.rstrip("\n"), 10)),
        (3, 2, ("line 3\nline 4", 4)),
        (10, 5, ("line 10", 10)),
        (4, 0, ("", 3)),
        (11, None, ("", 10)),
        (10**9, 1, ("", 10**9 - 1)),
    ],
)
def test_lines_of_an_attached_file_are_read_by_its_path(
    memory: Memory, tmp_path: Path, start: int, lines: int | None, wanted: tuple[str, int]
) -> None:
    path = str(tmp_path / "vault" / "lines.md")
    found = memory.get(path, start=start, lines=lines)
    assert (found.path, found.start, found.text, found.end) == (path, start, *wanted)
    assert found.lines == 10


def test_what_a_search_names_can_be_read_by_that_name(memory: Memory, tmp_path: Path) -> None:
    for word, below in (("heron", "below/note.md"), ("stork", "below/deep/deeper.markdown")):
        first = memory.search(word).results[0]
        assert first.path == str(tmp_path / "vault" / below)
        assert word in memory.get(first.path, start=first.start, lines=first.end - first.start + 1).text


def test_an_attached_file_alone_is_read_and_its_neighbours_are_not(memory: Memory, tmp_path: Path) -> None:
    memory.sources.add(tmp_path / "outside" / "note.md")
    (tmp_path / "outside" / "other.md").write_text(SECRET)
    assert memory.get(str(tmp_path / "outside" / "note.md")).text == SECRET
    with pytest.raises(OutsideMemory):
        memory.get(str(tmp_path / "outside" / "other.md"))


@pytest.mark.parametrize("name", ["vault/missing.md", "vault/below/missing.md", "vault/no/such/folder.md"])
def test_a_file_that_is_not_there_is_an_empty_text_with_its_path(
    memory: Memory, tmp_path: Path, name: str
) -> None:
    found = memory.get(str(tmp_path / name), start=4, lines=2)
    assert (found.path, found.text, found.lines) == (str(tmp_path / name), "", 0)


def test_a_file_whose_folder_is_now_a_file_is_an_empty_text(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "vault" / "folder").write_text("a file")
    assert memory.get(str(tmp_path / "vault" / "folder" / "note.md")).text == ""


def test_a_source_that_went_away_reads_as_empty(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "vault").rename(tmp_path / "elsewhere")
    assert memory.get(str(tmp_path / "vault" / "lines.md")).text == ""


@pytest.mark.parametrize(("start", "lines"), [(0, None), (-1, 2), (1, -1)])
def test_lines_are_counted_from_one(memory: Memory, tmp_path: Path, start: int, lines: int | None) -> None:
    with pytest.raises(UsageError):
        memory.get(str(tmp_path / "vault" / "lines.md"), start=start, lines=lines)


# --- not outside --------------------------------------------------------------------------------------------


def readable(memory: Memory, path: str) -> str:
    """What comes back, whichever way it is refused."""
    try:
        return memory.get(path).text
    except VadeError as error:
        return SECRET if SECRET in str(error) else ""


@pytest.mark.parametrize(
    "path",
    [
        "{base}/outside/note.md",
        "{base}/vault/../outside/note.md",
        "{base}/vault/below/../../outside/note.md",
        "{base}/vault/./../outside/note.md",
        "{base}/vault//../outside/note.md",
        "{base}/vault/below/..%2f..%2foutside/note.md",
        "{base}/vault-2/note.md",
        "{base}/vault/.hidden/note.md",
        "{base}/vault/below/../.hidden/note.md",
        "{base}/vault/key.txt",
        "{base}/vault/../vault/key.txt",
        "{base}/vault",
        "{base}/vault/",
        "vault/../outside/note.md",
        "../outside/note.md",
        "~/outside/note.md",
        "{base}/vault/\0/note.md",
        "{base}/outside/note.md\0{base}/vault/lines.md",
        "{base}/vault/\udcff/../../outside/note.md",
        "{base}\\vault\\..\\outside\\note.md",
        "/proc/self/environ.md",
    ],
)
def test_no_spelling_of_a_path_leads_out_of_a_source(memory: Memory, tmp_path: Path, path: str) -> None:
    assert readable(memory, path.format(base=tmp_path)) == ""


def test_links_in_a_source_are_not_followed(memory: Memory, tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    (vault / "file.md").symlink_to(tmp_path / "outside" / "note.md")
    (vault / "folder").symlink_to(tmp_path / "outside")
    (vault / "below" / "up").symlink_to("../..")
    os.link(vault / "lines.md", vault / "hard.md")  # a second name of its own file is no way out
    for name in ("file.md", "folder/note.md", "below/up/outside/note.md", "below/up/vault/.hidden/note.md"):
        assert readable(memory, str(vault / name)) == ""
    assert memory.get(str(vault / "hard.md"), lines=1).text == "line 1"
    assert memory.search("secret").results == ()


def test_a_pipe_or_a_folder_with_such_a_name_keeps_nobody_waiting(memory: Memory, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "vault" / "pipe.md")
    (tmp_path / "vault" / "folder.md").mkdir()
    begun = time.monotonic()
    for name in ("pipe.md", "folder.md"):
        assert readable(memory, str(tmp_path / "vault" / name)) == ""
    assert time.monotonic() - begun < 30  # a pipe that is waited for never ends


def test_a_folder_swapped_for_a_link_while_it_is_read_never_leads_outside(
    memory: Memory, tmp_path: Path
) -> None:
    path = str(tmp_path / "vault" / "below" / "note.md")
    inside, empty, told = 0, 0, 0
    with subprocess.Popen(
        [sys.executable, "-c", SWAPPER, str(tmp_path)], stdout=subprocess.PIPE, text=True
    ) as swapping:
        assert swapping.stdout is not None
        assert swapping.stdout.readline() == "ready\n"
        try:
            begun = time.monotonic()
            for _ in range(1_500):
                try:
                    text = memory.get(path).text
                except OutsideMemory:
                    told += 1
                    continue
                assert SECRET not in text
                inside += "heron" in text
                empty += text == ""
                if time.monotonic() - begun > 5:
                    break
        finally:
            (tmp_path / "stop").touch()
            with contextlib.suppress(subprocess.TimeoutExpired):
                swapping.wait(5)
    assert inside  # both were met, or nothing was tried
    assert empty + told
    assert memory.get(path).text == "The heron stands in the pond."


# --- who asks -----------------------------------------------------------------------------------------------


def test_a_group_reads_no_source_no_journal_and_no_document_of_the_user(
    memory: Memory, tmp_path: Path
) -> None:
    kept = memory.store("The heron is known to all.", key="heron").path
    private = [
        str(tmp_path / "vault" / "lines.md"),
        memory.note("The stork is a secret.").path,
        memory.store("The owl is a secret.", key="owl", scope="global").path,
        memory.store("The kite is a secret.", key="kite", scope="agent").path,
    ]
    memory.care.edited("MEMORY.md", "", "# Memory\n\nThe wren is a secret.\n")
    private += ["MEMORY.md", "profile.md", "memory/global/MEMORY.md"]
    group = opened(tmp_path, audience="group")
    assert "heron" in group.get(kept).text
    for path in private:
        assert readable(group, path) == ""
        for prefixed in (f"{tmp_path}/home/{path}", f"{kept.rpartition('/')[0]}/../../../../{path}"):
            assert readable(group, prefixed) == ""
    assert "line 1" in memory.get(private[0]).text
    assert "secret" in memory.get(private[1]).text


def test_a_source_of_another_project_is_not_readable_here(memory: Memory, tmp_path: Path) -> None:
    memory.sources.remove("vault")
    memory.sources.add(tmp_path / "vault", scope="project")
    assert readable(memory, str(tmp_path / "vault" / "lines.md"))
    (tmp_path / "elsewhere").mkdir()
    other = connect(home=tmp_path / "home", cwd=tmp_path / "elsewhere", environ={}, origin=Origin.USER)
    assert readable(other, str(tmp_path / "vault" / "lines.md")) == ""


def test_a_detached_source_is_not_readable_any_more(memory: Memory, tmp_path: Path) -> None:
    memory.sources.remove("vault")
    assert readable(memory, str(tmp_path / "vault" / "lines.md")) == ""
