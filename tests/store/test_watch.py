"""A watch tells every change of a folder at once, says so when it cannot, and costs nothing that stays."""

from __future__ import annotations

import contextlib
import os
import shutil
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from vademecum.store import folders as watching
from vademecum.store.folders import ANYTHING, NOTHING, Seen, Watch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does

QUEUED = Path("/proc/sys/fs/inotify/max_queued_events")

needs_events = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="only Linux has inotify")


@pytest.fixture
def watch() -> Iterator[Watch]:
    made = Watch()
    yield made
    made.close()


def covering(watch: Watch, *folders: Path) -> None:
    watch.cover([str(folder) for folder in folders])
    watch.look()
    assert watch.look() == NOTHING


def names(seen: Seen) -> set[str]:
    assert not seen.anything
    return {name for _, name in seen.names}


# --- what is told -------------------------------------------------------------------------------------------


def in_place(path: Path) -> None:
    with path.open("r+") as file:
        file.write("T")


def appended(path: Path) -> None:
    with path.open("a") as file:
        file.write("more\n")


def renamed_over(path: Path) -> None:
    beside = path.with_name("beside.tmp")
    beside.write_text("The heron stands elsewhere.\n")
    beside.replace(path)


def deleted(path: Path) -> None:
    path.unlink()


def touched(path: Path) -> None:
    os.utime(path, ns=(1, 1))


def moved_away(path: Path) -> None:
    path.rename(path.parent.parent / "elsewhere.md")


def linked(path: Path) -> None:
    os.link(path, path.with_name("other.md"))
    path.unlink()


@needs_events
@pytest.mark.parametrize(
    "change",
    [in_place, appended, renamed_over, deleted, touched, moved_away, linked],
    ids=lambda each: each.__name__,
)
def test_every_way_to_change_a_file_is_told_by_its_name_once(
    tmp_path: Path, watch: Watch, change: Callable[[Path], None]
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    path = folder / "heron.md"
    path.write_text("The heron stands in the pond.\n")
    covering(watch, folder)
    change(path)
    seen = watch.look()
    assert (str(folder), "heron.md") in seen.names
    assert watch.look() == NOTHING


@needs_events
def test_a_new_file_is_told_also_before_it_is_closed(tmp_path: Path, watch: Watch) -> None:
    covering(watch, tmp_path)
    with (tmp_path / "new.md").open("w") as file:
        assert names(watch.look()) == {"new.md"}
        file.write("The stork came by.\n")
        file.flush()
        assert names(watch.look()) == {"new.md"}
        assert watch.look() == NOTHING


@needs_events
def test_names_are_told_with_their_folder_whatever_letters_they_have(tmp_path: Path, watch: Watch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    covering(watch, one, other)
    (one / "鷺 é.md").write_text("x")
    (other / os.fsdecode(b"\xff.md")).write_text("x")
    (other / ("n" * 255)).write_text("x")
    assert watch.look().names == {
        (str(one), "鷺 é.md"),
        (str(other), os.fsdecode(b"\xff.md")),
        (str(other), "n" * 255),
    }


@pytest.mark.full
@needs_events
def test_more_changes_than_one_read_holds_are_all_told(tmp_path: Path, watch: Watch) -> None:
    covering(watch, tmp_path)
    wanted = {f"{number:05}-{'n' * 80}.md" for number in range(2_000)}
    for name in wanted:
        (tmp_path / name).touch()
    assert names(watch.look()) == wanted


@needs_events
def test_reading_a_file_is_no_change(tmp_path: Path, watch: Watch) -> None:
    (tmp_path / "heron.md").write_text("The heron stands in the pond.\n")
    covering(watch, tmp_path)
    (tmp_path / "heron.md").read_text()
    os.listdir(tmp_path)
    (tmp_path / "heron.md").stat()
    assert watch.look() == NOTHING


@needs_events
def test_a_folder_that_is_no_longer_covered_tells_nothing(tmp_path: Path, watch: Watch) -> None:
    one, other = tmp_path / "one", tmp_path / "other"
    for folder in (one, other):
        folder.mkdir()
    covering(watch, one, other)
    (one / "before.md").touch()
    watch.cover([str(other)])
    (one / "after.md").touch()
    (other / "here.md").touch()
    assert names(watch.look()) == {"here.md"}


# --- folders ------------------------------------------------------------------------------------------------


@needs_events
def test_a_folder_below_means_that_anything_may_have_changed(tmp_path: Path, watch: Watch) -> None:
    covering(watch, tmp_path)
    (tmp_path / "below").mkdir()
    assert watch.look() == ANYTHING


@needs_events
def test_a_folder_that_comes_later_is_seen_at_once_and_watched_from_then_on(
    tmp_path: Path, watch: Watch
) -> None:
    folder = tmp_path / "memory" / "global" / "records"
    covering(watch, folder)
    folder.mkdir(parents=True)
    (folder / "first.md").touch()
    assert watch.look() == ANYTHING
    covering(watch, folder)
    (folder / "second.md").touch()
    assert names(watch.look()) == {"second.md"}


@needs_events
def test_a_folder_that_comes_later_is_seen_at_once_beside_very_many_others(
    tmp_path: Path, watch: Watch
) -> None:
    others = [tmp_path / f"folder-{number}" for number in range(100)]
    for folder in others:
        folder.mkdir()
    late = tmp_path / "late" / "records"
    covering(watch, late, *others)
    late.mkdir(parents=True)
    assert watch.look() == ANYTHING


@needs_events
def test_a_folder_deleted_and_made_again_is_seen_and_watched_again(tmp_path: Path, watch: Watch) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    covering(watch, folder)
    for number in range(5):
        shutil.rmtree(folder)
        folder.mkdir()  # most file systems give it the number it had
        assert watch.look() == ANYTHING
        covering(watch, folder)
        (folder / f"{number}.md").touch()
        assert names(watch.look()) == {f"{number}.md"}


@needs_events
def test_a_folder_deleted_and_made_again_while_it_is_covered_anew_is_watched(
    tmp_path: Path, watch: Watch
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    covering(watch, folder)
    shutil.rmtree(folder)
    folder.mkdir()
    watch.cover([str(folder)])  # nobody has looked since
    watch.look()
    watch.cover([str(folder)])
    watch.look()
    (folder / "heron.md").touch()
    assert watch.look() != NOTHING


@needs_events
def test_a_folder_swapped_for_another_is_seen_and_the_new_one_watched(tmp_path: Path, watch: Watch) -> None:
    folder, other = tmp_path / "notes", tmp_path / "other"
    for each in (folder, other):
        each.mkdir()
    covering(watch, folder)
    folder.rename(tmp_path / "old")
    other.rename(folder)
    assert watch.look() == ANYTHING
    covering(watch, folder)
    (tmp_path / "old" / "unseen.md").touch()
    (folder / "seen.md").touch()
    assert names(watch.look()) == {"seen.md"}


@needs_events
def test_a_folder_moved_away_with_the_one_above_it_is_seen_within_a_second(
    tmp_path: Path, watch: Watch
) -> None:
    folder = tmp_path / "above" / "notes"
    folder.mkdir(parents=True)
    covering(watch, folder)
    (tmp_path / "above").rename(tmp_path / "elsewhere")
    begun = time.monotonic()
    while watch.look() != ANYTHING:
        assert time.monotonic() - begun < 30
        time.sleep(0.02)


@needs_events
def test_a_file_in_the_place_of_a_folder_is_never_taken_for_one(tmp_path: Path, watch: Watch) -> None:
    path = tmp_path / "notes"
    path.write_text("a file")
    watch.cover([str(path)])
    assert watch.look() == ANYTHING  # it cannot be watched, so nothing can be told


@needs_events
def test_two_names_of_one_folder_are_both_told(tmp_path: Path, watch: Watch) -> None:
    folder, link = tmp_path / "notes", tmp_path / "link"
    folder.mkdir()
    link.symlink_to(folder)
    covering(watch, folder, link)
    (folder / "heron.md").touch()
    seen = watch.look()
    assert seen.anything or {where for where, _ in seen.names} == {str(folder), str(link)}


# --- when it cannot tell ------------------------------------------------------------------------------------


def test_before_it_covers_anything_and_after_it_is_closed_anything_may_have_changed(
    tmp_path: Path, watch: Watch
) -> None:
    assert watch.look() == ANYTHING
    watch.cover([str(tmp_path)])
    watch.close()
    assert not watch.working
    assert watch.look() == ANYTHING
    watch.close()


@needs_events
def test_a_closed_watch_can_be_used_again(tmp_path: Path, watch: Watch) -> None:
    covering(watch, tmp_path)
    watch.close()
    covering(watch, tmp_path)
    (tmp_path / "heron.md").touch()
    assert names(watch.look()) == {"heron.md"}


def test_where_the_system_has_no_events_anything_may_have_changed(
    tmp_path: Path, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(watching, "_calls", lambda: None)
    watch.cover([str(tmp_path)])
    assert not watch.working
    assert watch.look() == ANYTHING
    watch.cover([])
    watch.close()


@contextlib.contextmanager
def limited(setting: Path, value: int) -> Iterator[None]:
    """Set a limit of the whole machine, and put it back."""
    before = setting.read_text() if setting.exists() else ""
    try:
        setting.write_text(str(value))
    except OSError as error:
        pytest.skip(f"{setting} cannot be set: {error}")
    try:
        yield
    finally:
        setting.write_text(before)


@needs_events
def test_a_queue_that_ran_over_says_that_anything_may_have_changed_and_then_works_again(
    tmp_path: Path, watch: Watch
) -> None:
    with limited(QUEUED, 16):
        watch.cover([str(tmp_path)])  # the limit is that of the moment it is opened
        watch.look()
    for number in range(100):
        (tmp_path / f"{number}.md").touch()
    assert watch.look() == ANYTHING
    watch.cover([str(tmp_path)])
    watch.look()
    (tmp_path / "later.md").touch()
    assert names(watch.look()) == {"later.md"}


# --- what it costs ------------------------------------------------------------------------------------------


def handles() -> int:
    return len(os.listdir("/proc/self/fd"))


@needs_events
def test_two_hundred_covers_hold_one_handle_and_closing_gives_it_back(tmp_path: Path) -> None:
    folders = [tmp_path / f"folder-{number}" for number in range(20)]
    for folder in folders:
        folder.mkdir()
    before = handles()
    watch = Watch()
    for number in range(200):
        watch.cover([str(folder) for folder in folders[number % 7 : number % 19 + 1]])
        watch.look()
    assert handles() == before + 1
    watch.close()
    assert handles() == before
    covered = Watch()
    covered.cover([str(tmp_path)])
    del covered
    assert handles() == before


@needs_events
def test_two_hundred_covers_leave_no_watch_behind_that_nobody_reads(tmp_path: Path, watch: Watch) -> None:
    folders = [tmp_path / f"folder-{number}" for number in range(20)]
    for folder in folders:
        folder.mkdir()
    for number in range(200):
        watch.cover([str(folders[number % 20])])
    told = Path(f"/proc/self/fdinfo/{watch._fd}").read_text()
    assert told.count("inotify wd:") == 1


@needs_events
def test_a_child_process_does_not_take_its_parents_events(tmp_path: Path, watch: Watch) -> None:
    covering(watch, tmp_path)
    (tmp_path / "heron.md").touch()
    child = os.fork()
    if child == 0:  # pragma: no cover - in another process
        try:
            seen = watch.look()  # on its own it knows nothing of what changed
            watch.cover([])
            watch.close()
            os._exit(0 if seen == ANYTHING else 1)
        finally:
            os._exit(2)
    _, status = os.waitpid(child, 0)
    assert names(watch.look()) == {"heron.md"}
    (tmp_path / "stork.md").touch()
    assert names(watch.look()) == {"stork.md"}
    assert os.waitstatus_to_exitcode(status) == 0
