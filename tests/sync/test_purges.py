"""`vade purge` in a home that is synced through a folder: gone on every machine, and in the folder."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from allowing import allow
from sync.test_folder import Machine, carrier, meet, two
from vademecum.errors import NotFound
from vademecum.memory import sync as syncing
from vademecum.sync import folder_sync as shared
from vademecum.sync import purge_orders

__all__ = ["carrier", "two"]
Pair = tuple[Machine, Machine]
SECRET = "the combination is 7 left 31 right"


def holding(top: Path, words: str) -> list[str]:
    """The files below a folder that hold some words in any form."""
    forms = {words.encode(), json.dumps(words)[1:-1].encode()}
    files = [path for path in sorted(top.rglob("*")) if path.is_file()]
    return [str(path.relative_to(top)) for path in files if any(form in path.read_bytes() for form in forms)]


def nowhere(pair: Pair, words: str) -> None:
    for machine in pair:
        assert holding(machine.base / "home", words) == []
    assert holding(pair[0].carrier, words) == []


def test_a_purged_text_is_nowhere_and_the_rest_of_its_entry_stays(two: Pair) -> None:
    one, other = two
    one.memory().store(f"The safe: {SECRET}, says Ada.", key="safe", scope="global")
    other.memory().note(f"She said {SECRET} again.", scope="global")
    meet(*two)
    other.memory().store("Nothing to hide.", key="open", scope="global")
    assert holding(one.carrier, SECRET)
    one.memory().archive.purge_text(SECRET)
    meet(*two)
    nowhere(two, SECRET)
    assert one.files() == other.files()
    assert other.memory().show("safe", scope="global").text == "The safe: [purged], says Ada."
    assert b"She said [purged] again." in b"".join(other.files().values())
    assert [(each.done.sent, each.done.received) for each in (*one.sync(), *other.sync())] == [(0, 0)] * 2


def test_a_purged_text_of_an_earlier_version_goes_and_what_stands_now_stays(two: Pair) -> None:
    one, other = two
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(*two)
    path = one.top / "records/safe.md"
    path.write_text(path.read_text().replace(SECRET, "a key"))
    meet(*two)
    assert holding(other.base / "home", SECRET)
    one.memory().archive.purge_text(SECRET)
    meet(*two)
    nowhere(two, SECRET)
    assert other.memory().show("safe", scope="global").text == "Open with a key."
    assert one.files() == other.files()


def test_a_purged_record_is_nowhere_and_what_was_added_unseen_waits_for_a_person(two: Pair) -> None:
    one, other = two
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(*two)
    other.memory().store("It is in the cellar.", key="safe", scope="global", mode="append")
    one.memory().archive.purge("safe", scope="global")
    one.sync()
    [done] = [each.done for each in other.sync() if each.stream == "global"]
    assert done.held == ["records/safe.md"]
    meet(*two)
    nowhere(two, SECRET)
    assert "records/safe.md" not in one.files()
    assert one.files() == other.files()
    [held] = other.memory().archive.held_texts()
    assert "It is in the cellar." in held.text
    assert any(each.what == "held" for each in other.memory().status().findings)
    other.memory().archive.drop_held(held.id)
    assert other.memory().archive.held_texts() == []


@pytest.fixture
def left_open(two: Pair) -> Machine:
    """A machine with a text that a purge on the other one has left open."""
    one, other = two
    for machine in two:
        allow(machine.base / "home")
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(*two)
    other.memory().store("It is in the cellar.", key="safe", scope="global", mode="append")
    one.memory().archive.purge("safe", scope="global")
    meet(*two)
    return other


def test_what_a_purge_left_open_is_saved_as_a_new_text_and_synced(left_open: Machine, two: Pair) -> None:
    review = left_open.memory().review
    (item,) = review.inbox(["held"]).items
    assert (item.name, item.scope, item.text) == ("safe", "global", "It is in the cellar.")
    sitting, (done,) = review.decide([item], yes=True)
    assert done.done, done.why
    assert left_open.memory().show("safe", scope="global").text == "It is in the cellar."
    assert left_open.memory().archive.held_texts() == []
    assert not review.inbox(["held"]).items
    meet(*two)
    assert two[0].files() == two[1].files()
    assert two[0].memory().show("safe", scope="global").text == "It is in the cellar."
    nowhere(two, SECRET)
    told = left_open.memory().care.undo(sitting)[1]
    assert all(each.done for each in told), told
    assert "records/safe.md" not in left_open.files()
    assert [each.text for each in left_open.memory().review.inbox(["held"]).items] == [item.text]


def test_what_a_purge_left_open_is_discarded_and_undo_has_it_wait_again(
    left_open: Machine, two: Pair
) -> None:
    review = left_open.memory().review
    (item,) = review.inbox(["held"]).items
    sitting, (done,) = review.decide([item], yes=False)
    assert done.done
    assert left_open.memory().archive.held_texts() == []
    assert "records/safe.md" not in left_open.files()
    left_open.memory().care.undo(sitting)
    (held,) = left_open.memory().archive.held_texts()
    (again,) = left_open.memory().review.inbox(["held"]).items
    left_open.memory().review.decide([again], yes=False)
    left_open.memory().archive.drop_held(held.id)
    assert not list((left_open.base / "home/hub/folder/held").iterdir())


@pytest.mark.parametrize("discarded", [True, False])
def test_what_a_purge_left_open_and_a_person_drops_is_nowhere(
    left_open: Machine, two: Pair, discarded: bool
) -> None:
    (held,) = left_open.memory().archive.held_texts()
    if discarded:  # which `undo` takes back: until it is dropped it is still there
        review = left_open.memory().review
        review.decide(review.inbox(["held"]).items, yes=False)
        assert holding(left_open.base / "home", "in the cellar")
    left_open.memory().archive.drop_held(held.id)
    assert holding(left_open.base / "home", "in the cellar") == []
    meet(*two)
    nowhere(two, "in the cellar")
    assert two[0].files() == two[1].files()


def test_what_was_saved_of_a_text_that_is_dropped_stays_everywhere(left_open: Machine, two: Pair) -> None:
    (held,) = left_open.memory().archive.held_texts()
    review = left_open.memory().review
    review.decide(review.inbox(["held"]).items, yes=True)
    left_open.memory().archive.drop_held(held.id)
    meet(*two)
    for machine in two:
        assert machine.memory().show("safe", scope="global").text == "It is in the cellar."


def test_what_was_saved_of_it_and_added_to_since_is_not_undone(left_open: Machine) -> None:
    review = left_open.memory().review
    sitting, _ = review.decide(review.inbox(["held"]).items, yes=True)
    left_open.memory().store("And the key is in the attic.", key="safe", scope="global", mode="append")
    (told,) = left_open.memory().care.undo(sitting)[1]
    assert (told.done, told.why) == (False, "it was changed since then")
    assert len(left_open.memory().show("safe", scope="global").entries) == 2


def test_a_later_purge_reaches_what_was_discarded(left_open: Machine) -> None:
    review = left_open.memory().review
    review.decide(review.inbox(["held"]).items, yes=False)
    left_open.memory().archive.purge_text("in the cellar")
    assert holding(left_open.base / "home", "in the cellar") == []


@pytest.mark.parametrize(
    ("place", "command"),
    [
        ("project/web", "VADE_PROJECT_ID=web vade review --kind held"),
        ("agent/reviewer", "vade review --kind held --agent reviewer"),
    ],
)
def test_a_text_of_another_place_is_decided_with_the_command_that_review_names(
    two: Pair, place: str, command: str
) -> None:
    _, other = two
    folder = other.base / "home/hub/folder/held"
    folder.mkdir(parents=True)
    kept = {"place": place, "path": "records/safe.md", "at": "2026-01-01T00:00:00Z", "text": CELLAR}
    (folder / "aaaa-1.json").write_text(json.dumps(kept))
    seen = other.memory().review.inbox()
    assert not [each for each in seen.items if each.kind == "held"]
    assert f"a purge on another machine left 1 text of {place} open: `{command}` decides" in seen.notes
    assert not other.memory().review.inbox(["held"], scope="global").notes
    ours = Path(sys.executable).parent
    listed = subprocess.run(
        ["/bin/sh", "-c", f"{command} --json"],
        cwd=other.base,
        env={**os.environ, "PATH": f"{ours}:{os.environ['PATH']}", "VADE_HOME": str(other.base / "home")},
        capture_output=True,
        text=True,
        check=True,
    )
    assert [each["text"] for each in json.loads(listed.stdout)["items"]] == ["It is in the cellar."]


CELLAR = "## 2026-01-01T00:00:00Z\nIt is in the cellar.\n<!-- origin: user | id: ny22pg55rw -->\n"


def test_a_file_that_cannot_be_read_keeps_its_name_too(left_open: Machine) -> None:
    broken = left_open.top / "records/safe.md"
    broken.write_bytes(b"---\ntype: [\n---\n\xff")
    review = left_open.memory().review
    _, (done,) = review.decide(review.inbox(["held"]).items, yes=True)
    assert done.done, done.why
    assert broken.read_bytes() == b"---\ntype: [\n---\n\xff"
    assert left_open.memory().show("safe-2", scope="global").text == "It is in the cellar."


def test_a_free_name_is_found_however_many_are_taken(
    left_open: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    review = left_open.memory().review
    taken = {"s" * 60, *(f"{'s' * (59 - len(str(each)))}-{each}" for each in range(2, 1200))}

    def find(key: str, *_: object, **__: object) -> None:
        if key not in taken:
            raise NotFound("no such record")

    monkeypatch.setattr(review._work, "find", find)
    assert review._free_key("s" * 60, "global") == f"{'s' * 55}-1200"


def test_a_new_text_takes_no_name_that_is_taken(left_open: Machine) -> None:
    left_open.memory().store("Another safe stands upstairs.", key="safe", scope="global")
    review = left_open.memory().review
    review.decide(review.inbox(["held"]).items, yes=True)
    assert left_open.memory().show("safe", scope="global").text == "Another safe stands upstairs."
    assert left_open.memory().show("safe-2", scope="global").text == "It is in the cellar."


def test_an_edit_that_was_not_sent_does_not_bring_it_back(two: Pair) -> None:
    one, other = two
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(*two)
    path = other.top / "records/safe.md"
    path.write_text(path.read_text().replace("Open with", "Always open with"))
    one.memory().archive.purge_text(SECRET)
    one.sync()
    other.sync()
    meet(*two)
    nowhere(two, SECRET)
    assert one.files() == other.files()
    [held] = other.memory().archive.held_texts()
    assert "Always open with [purged]." in held.text


def test_what_a_machine_sent_under_an_earlier_name_goes_from_the_folder_too(
    two: Pair, tmp_path: Path
) -> None:
    """A backup that is brought back goes on under another name; its old files are still its own."""
    one, other = two
    one.memory().store(f"Early: {SECRET}.", key="early", scope="global")
    meet(*two)
    shutil.copytree(one.base / "home", tmp_path / "kept")
    one.memory().store(f"Late: {SECRET}.", key="late", scope="global")
    meet(*two)
    shutil.rmtree(one.base / "home")
    shutil.copytree(tmp_path / "kept", one.base / "home")
    one.memory().store("After the restore.", key="restored", scope="global")
    meet(*two)
    names = {path.name.partition(".")[0] for path in one.carrier.glob("vade-sync/global/*.jsonl")}
    assert len(names) == 3  # two machines, and the earlier name of one of them
    other.memory().archive.purge_text(SECRET)
    meet(*two)
    nowhere(two, SECRET)
    assert one.files() == other.files()
    assert [(each.done.sent, each.done.received) for each in (*one.sync(), *other.sync())] == [(0, 0)] * 2


def test_what_a_copied_machine_sent_goes_from_the_folder_whichever_of_both_syncs(
    two: Pair, tmp_path: Path
) -> None:
    """Both went on under one name until they met; one of them puts its log aside and takes another."""
    one, other = two
    meet(*two)
    shutil.copytree(one.base, tmp_path / "copy")
    copy = Machine.__new__(Machine)
    copy.base, copy.carrier, copy.count, copy.joined = tmp_path / "copy", one.carrier, one.count, one.joined
    one.memory().store(f"On the first: {SECRET}.", key="first", scope="global")
    copy.memory().store(f"On the copy: {SECRET}.", key="second", scope="global")
    for _ in range(3):
        for machine in (one, copy, other):
            machine.sync()
    assert one.files() == copy.files() == other.files()
    other.memory().archive.purge_text(SECRET)
    for _ in range(3):
        for machine in (other, copy):  # the first one never comes back
            machine.sync()
    assert holding(copy.base / "home", SECRET) == holding(other.base / "home", SECRET) == []
    assert holding(one.carrier, SECRET) == []
    meet(one, other)
    nowhere(two, SECRET)


def test_a_dry_run_counts_what_would_go_from_logs_and_the_folder(two: Pair) -> None:
    one, _ = two
    one.memory().store(f"The safe: {SECRET}, says Ada.", key="safe", scope="global")
    meet(*two)
    path = one.top / "records/safe.md"
    path.write_text(path.read_text().replace("says Ada", "says Bert"))
    meet(*two)
    one.memory().store(f"Not sent: {SECRET}.", key="unsent", scope="global")
    before = holding(one.carrier, SECRET), holding(one.base / "home", SECRET)
    log, folder = f"hub/folder/{one.joined.workspace}/global", f"{one.carrier}/vade-sync/global"
    for seen in (
        one.memory().archive.purge_text(SECRET, dry_run=True),
        one.memory().archive.purge("safe", scope="global", dry_run=True),
        one.memory().archive.purge(since="2026-01-01", dry_run=True),
    ):
        counts = {each.where: each.count for each in seen if each.gone}
        assert counts[log] >= counts[folder] >= 2, counts
    assert (holding(one.carrier, SECRET), holding(one.base / "home", SECRET)) == before
    counts = {each.where: each.count for each in one.memory().archive.purge_text(SECRET, dry_run=True)}
    assert (counts[log], counts[folder]) == (2, 2)  # two versions were sent; the third is in no log yet


def test_how_many_machines_have_purged_is_told(two: Pair) -> None:
    one, other = two
    one.memory().store(f"Open with {SECRET}.", key="safe", scope="global")
    meet(*two)
    one.memory().archive.purge_text(SECRET)
    assert syncing.spread_purge(one.memory()) == [
        "purged on 1 of 2 machines; the others follow when they sync"
    ]
    other.sync()
    one.sync()
    assert shared.count_purged(one.memory().home, one.joined) == {"global": (2, 2)}


KILLED = """
import itertools, os, signal, sys
from vademecum.store import purge
from vademecum.store.files import DiskFolder
from vademecum.sync import stream_log
left = itertools.count(int(sys.argv.pop(1)), -1)
def dying(call):
    def act(*given, **named):
        if next(left) <= 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return call(*given, **named)
    return act
for holder, name in (
    (DiskFolder, "update"), (DiskFolder, "delete"), (DiskFolder, "append_line"), (purge, "derived"),
):
    setattr(holder, name, dying(getattr(holder, name)))
from vademecum.interfaces.cli.app import run
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.parametrize(
    "points",
    [pytest.param((2, 5, 8), id="some"), pytest.param(range(30), id="all", marks=pytest.mark.soak)],
)
def test_a_purge_that_is_killed_is_finished_by_the_next_sync(two: Pair, points: list[int]) -> None:
    """Each write and deletion is a point to die at; before the order is on disk nothing has happened."""
    one, other = two
    allow(one.base / "home")
    for point in points:
        words = f"{SECRET} {point}"
        one.memory().store(f"Open with {words}.", key=f"safe-{point}", scope="global")
        meet(*two)
        call = ("purge", "--text", words, "--yes", "--home", str(one.base / "home"))
        done = subprocess.run(
            (sys.executable, "-c", KILLED, str(point), *call), capture_output=True, text=True, check=False
        )
        assert done.returncode in (0, -signal.SIGKILL), done.stderr
        begun = bool(purge_orders.list_orders(one.memory().home))
        if begun:
            assert any(each.what == "purge" for each in one.memory().archive.purge_findings())
        syncing.run(one.memory(), one.joined, None)
        if holding(one.base / "home", words):
            assert not begun
            one.memory().archive.purge_text(words)
        meet(*two)
        nowhere(two, words)
        assert one.files() == other.files()


@pytest.mark.parametrize("by_text", [True, False])
@pytest.mark.parametrize("seen", [True, False])
@pytest.mark.parametrize("which", [0, 1])
def test_a_notice_of_a_record_that_came_back_is_purged_on_whichever_machine_it_waits(
    two: Pair, which: int, seen: bool, by_text: bool
) -> None:
    one, other = two
    one.memory().store("The safe is new.", key="safe", scope="global")
    meet(*two)
    one.memory().forget("safe", scope="global")
    other.memory().store(f"Open with {SECRET}.", key="safe", scope="global", mode="append")
    meet(*two)
    assert [each.kind for each in one.memory().review.inbox(["notice"]).items] == ["notice"]
    assert any(name.startswith("decisions/sync-notices/") for name in holding(one.base / "home", SECRET))
    if seen:  # then the decision repeats it
        one.memory().review.decide(one.memory().review.inbox(["notice"]).items, yes=True)
        assert any(name.startswith("decisions/reviews/") for name in holding(one.base / "home", SECRET))
    memory = two[which].memory()
    if by_text:
        found = memory.archive.purge_text(SECRET, prove=True)
        assert found.remains == ()
    else:
        memory.archive.purge("safe", scope="global", prove=True)
    meet(*two)
    nowhere(two, SECRET)
