"""What one sync wrote together is taken back where it was received, and the next sync carries that."""

from __future__ import annotations

from sync.test_folder import Machine, carrier, meet, two
from vademecum.text import frontmatter

__all__ = ["carrier", "two"]
Pair = tuple[Machine, Machine]


def edit(machine: Machine, name: str, old: str, new: str) -> None:
    path = machine.top / f"records/{name}.md"
    text = path.read_text("utf-8")
    assert text.count(old) == 1
    path.write_text(text.replace(old, new), "utf-8")


def changed(one: Machine, other: Machine) -> dict[str, bytes]:
    """One machine changes three records, deletes one and renames one, and the other receives that at once."""
    for key in ("first", "second", "third", "gone", "moved"):
        one.memory().store(f"Said of {key}.", key=key, scope="global")
    meet(one, other)
    before = other.files()
    for key in ("first", "second", "third"):
        edit(one, key, f"Said of {key}.", f"Changed in {key}.")
    one.memory().forget("gone", scope="global")
    (one.top / "records/moved.md").rename(one.top / "records/renamed.md")
    one.sync()
    [done] = [each.done for each in other.sync() if each.done.received]
    assert sorted(done.written) == [f"records/{each}.md" for each in ("first", "renamed", "second", "third")]
    assert sorted(done.removed) == ["records/gone.md", "records/moved.md"]
    assert one.files() == other.files()
    return before


def restore_all(machine: Machine) -> None:
    """Take back what the sync wrote, each record as `vade log` and `vade restore` offer it."""
    memory = machine.memory()
    for key in ("first", "second", "third"):
        *_, last = memory.archive.versions(key, scope="global")
        assert last.why == "sync"
        memory.restore(last.id, scope="global")
    memory.restore("gone", scope="global")


def test_what_one_sync_changed_and_deleted_is_restored_and_back_everywhere_with_the_next(two: Pair) -> None:
    one, other = two
    before = changed(one, other)
    restore_all(other)
    (other.top / "records/renamed.md").rename(other.top / "records/moved.md")
    assert other.files() == before
    meet(other, one)
    assert one.files() == other.files() == before
    assert [each.done.sent + each.done.received for each in (*one.sync(), *other.sync())] == [0, 0]
    # What was taken back is lost on neither.
    for machine in (one, other):
        for key in ("first", "second", "third"):
            kept = machine.memory().archive.versions(key, scope="global")
            texts = [(machine.base / "home").joinpath(*each.parts).read_text("utf-8") for each in kept]
            assert any(f"Changed in {key}." in each for each in texts)


def test_a_record_that_was_renamed_elsewhere_and_is_restored_here_stands_under_both_names(two: Pair) -> None:
    one, other = two
    changed(one, other)
    other.memory().restore("moved", scope="global")
    meet(other, one)
    assert one.files() == other.files()
    both = [one.files()[f"records/{each}.md"] for each in ("moved", "renamed")]
    assert [each.count(b"Said of moved.") for each in both] == [1, 1]
    ids = {frontmatter.parse(each.decode()).values["id"] for each in both}
    assert len(ids) == 2  # two records from now on
    edit(one, "moved", "Said of moved.", "Changed under the old name.")
    meet(one, other)
    assert b"Said of moved." in other.files()["records/renamed.md"]
    assert b"Changed under the old name." in other.files()["records/moved.md"]


def test_undo_takes_back_the_last_run_of_this_machine_and_nothing_that_a_sync_wrote(two: Pair) -> None:
    one, other = two
    for key in ("own-one", "own-two"):
        other.memory().store(f"Said of {key}.", key=key, scope="global")
    meet(other, one)
    other.memory().archive.forget_all(["own-one", "own-two"], scope="global")
    changed(one, other)
    there = other.files()
    told = other.memory().care.undo()[1]
    assert sorted(each.path for each in told if each.done) == [
        "memory/global/records/own-one.md",
        "memory/global/records/own-two.md",
    ]
    now = other.files()
    assert now.items() >= there.items()
    assert set(now) - set(there) == {"records/own-one.md", "records/own-two.md"}
    meet(other, one)
    assert one.files() == other.files() == now


def test_undo_leaves_a_file_that_a_sync_changed_since_and_says_so(two: Pair) -> None:
    one, other = two
    for key in ("first", "second"):
        other.memory().store(f"Said of {key}.", key=key, scope="global")
    meet(other, one)
    run = other.memory().care.tag(["first", "second"], add=["mine"], scope="global").run
    meet(other, one)
    edit(one, "first", "Said of first.", "Changed in first.")
    meet(one, other)
    told = {each.path.rpartition("/")[2]: (each.done, each.why) for each in other.memory().care.undo(run)[1]}
    assert told == {"first.md": (False, "it was changed since then"), "second.md": (True, "")}
    meet(other, one)
    assert one.files() == other.files()
    assert b"Changed in first." in one.files()["records/first.md"]
    assert b"tags" not in one.files()["records/second.md"]
