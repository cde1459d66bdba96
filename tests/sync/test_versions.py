"""Two versions of one entry: which is the first may change while nobody looks, and each stays itself."""

from __future__ import annotations

import re

import pytest

from cases import every_case
from sync.world import MemoryFolder, Replica
from vademecum.sync import blocks
from vademecum.text import document
from vademecum.types import Entry, Origin

TEXT = re.compile(r"^(?:Port \d+|Stays)\.", re.MULTILINE)
PATH = "records/topic.md"
START = "---\nid: 0198c9b2-6f4e-7c1a-9a52-3d1c5b7e9f10\ntype: project\n---\n# topic\n\n"
KILLS = range(14)


def entry(text: str, mark: str) -> Entry:
    return Entry(text, "2026-01-01T00:00:00Z", Origin.USER, id=mark)


class Machines:
    """Three machines that know one record; two of them have edited its entry at the same time."""

    def __init__(self) -> None:
        self.folder = MemoryFolder()
        self.a, self.b, self.c = (Replica(name, self.folder) for name in "abc")
        text = document.append(START, entry("Stays.", "1111111111"))
        self.a.files.texts[PATH] = document.append(text, entry("Port 80.", "2222222222"))
        self.meet()

    def conflict(self) -> None:
        """The first version is `Port 81.`, the second `Port 82.`."""
        for at, text in ((self.a, "Port 81."), (self.b, "Port 82.")):
            self.edit(at, "Port 80.", text)
            at.sync()
        self.meet()
        assert texts(self.c) == ["Stays.", "Port 81.", "Port 82."]

    def meet(self) -> None:
        self.folder.cut_off.clear()
        for _ in range(3):
            for each in (self.a, self.b, self.c):
                each.sync()
        assert self.a.files.texts == self.b.files.texts == self.c.files.texts

    def edit(self, at: Replica, old: str, new: str) -> None:
        assert at.files.texts[PATH].count(old) == 1
        at.files.texts[PATH] = at.files.texts[PATH].replace(old, new)

    def copy_above(self, at: Replica, old: str, new: str) -> None:
        """Somebody copies the last block, id and all, and writes something else into the upper one."""
        page = at.files.texts[PATH]
        block = page[page.index(f"## 2026-01-01T00:00:00Z\n{old}") :]
        at.files.texts[PATH] = page.replace(block, block.replace(old, new) + "\n" + block)

    def remove(self, at: Replica, *gone: str) -> None:
        page = at.files.texts[PATH]
        for each in document.parse(page).sections:
            block = page[each.start : each.end]
            if any(text in block for text in gone):
                at.files.texts[PATH] = at.files.texts[PATH].replace(block, "")
        assert not set(gone) & set(texts(at))


def texts(at: Replica) -> list[str]:
    return [each.text for each in document.parse(at.files.texts[PATH]).entries]


def kept(world: Machines) -> str:
    return "\n".join(each for at in (world.a, world.b, world.c) for each in at.files.kept)


@pytest.mark.parametrize("edited", ["Port 82.", "Port 83."])
def test_a_machine_that_lost_its_log_does_not_bring_back_the_second_version_of_what_was_removed(
    edited: str,
) -> None:
    world = Machines()
    world.folder.cut_off.add("c")
    for at, text in ((world.a, "Port 81."), (world.b, "Port 82.")):
        world.edit(at, "Port 80.", text)
        at.sync()
    world.b.sync()
    world.edit(world.b, "Port 82.", edited)
    world.b.new_log()
    world.remove(world.c, "Port 80.")
    world.folder.cut_off.clear()
    world.c.sync()
    world.meet()
    assert texts(world.a) == ["Stays."]
    assert edited in kept(world)


@every_case("kill", KILLS)
def test_the_version_that_is_left_stands_once_after_a_sync_that_was_killed(kill: int) -> None:
    world = Machines()
    world.conflict()
    world.remove(world.a, "Port 81.")
    world.edit(world.b, "Stays.", "Stays here.")
    world.b.sync()
    world.a.sync(kill=kill)
    world.meet()
    assert texts(world.c) == ["Stays here.", "Port 82."]
    assert "~" not in world.c.files.texts[PATH]


@every_case("kill", KILLS)
def test_a_second_version_that_was_edited_elsewhere_does_not_come_back_after_a_sync_that_was_killed(
    kill: int,
) -> None:
    world = Machines()
    world.conflict()
    world.edit(world.b, "Port 82.", "Port 83.")
    world.b.sync()
    world.edit(world.a, "Stays.", "Stays here.")
    world.a.sync(kill=kill)
    world.meet()
    assert texts(world.c) == ["Stays here.", "Port 81.", "Port 83."]


@every_case("kill", KILLS)
def test_an_edit_of_a_version_that_was_removed_elsewhere_leaves_the_other_one(kill: int) -> None:
    world = Machines()
    world.conflict()
    world.remove(world.b, "Port 81.")
    world.b.sync()
    world.a.sync(kill=kill)
    if "Port 81." in texts(world.a):
        world.edit(world.a, "Port 81.", "Port 83.")
    world.meet()
    assert "Port 82." in texts(world.c)
    assert "Port 81." not in texts(world.c)


def test_who_settles_a_conflict_offline_removes_one_version_and_an_edit_of_the_other_stands() -> None:
    world = Machines()
    world.conflict()
    world.folder.cut_off.add("a")
    world.remove(world.a, "Port 81.")
    for _ in range(3):
        world.a.sync()
    world.edit(world.b, "Port 82.", "Port 83.")
    world.b.sync()
    world.meet()
    assert texts(world.c) == ["Stays.", "Port 83."]
    assert kept(world) == ""


def test_an_edit_of_the_first_version_offline_leaves_the_second_in_conflict() -> None:
    world = Machines()
    world.conflict()
    world.folder.cut_off.add("a")
    world.edit(world.a, "Port 81.", "Port 83.")
    world.a.sync()
    count = len(world.a.log.lines)
    for _ in range(3):
        world.a.sync()
    assert len(world.a.log.lines) == count
    world.edit(world.a, "Port 83.", "Port 84.")
    world.a.sync()
    world.edit(world.b, "Port 82.", "Port 85.")
    world.b.sync()
    world.meet()
    assert sorted(texts(world.c)) == ["Port 84.", "Port 85.", "Stays."]
    assert world.c.files.texts[PATH].count("contradicts") == 1
    assert kept(world) == ""


@every_case("kill", [None, *KILLS])
def test_the_second_version_may_be_edited_offline_again_and_again(kill: int | None) -> None:
    world = Machines()
    world.conflict()
    world.folder.cut_off.add("a")
    for old, new in (("Port 82.", "Port 83."), ("Port 83.", "Port 84.")):
        world.edit(world.a, old, new)
        world.a.sync(kill=kill)
        world.a.sync()
    world.meet()
    assert texts(world.c) == ["Stays.", "Port 81.", "Port 84."]
    assert world.c.files.texts[PATH].count("contradicts") == 1
    told = [line.fact for line in world.c.log.lines if line.fact.kind in ("put", "drop")]
    assert {(fact.kind, fact.target) for fact in told} == {("put", "1111111111"), ("put", "2222222222")}
    world.edit(world.b, "Port 84.", "Port 85.")
    world.meet()
    assert texts(world.c) == ["Stays.", "Port 81.", "Port 85."]


@pytest.mark.parametrize("version", [0, 1])
def test_a_mark_that_is_set_or_lifted_offline_at_one_version_is_the_entrys(version: int) -> None:
    world = Machines()
    world.conflict()
    for mark, count in (("2026-02-02T00:00:00Z", 2), ("", 0)):
        world.folder.cut_off.add("a")
        page = blocks.cut(world.a.files.texts[PATH], PATH)
        block = page.blocks[1 + version]
        world.edit(world.a, block.raw, blocks.sign(block.raw, superseded=mark))
        for _ in range(3):
            world.a.sync()
        world.meet()
        assert world.c.files.texts[PATH].count("superseded") == count


def test_an_id_that_is_written_below_an_entry_that_had_none_stays() -> None:
    world = Machines()
    typed = "\n## 2026-01-01T00:00:05Z\nTyped.\n"
    world.a.files.texts[PATH] += typed
    world.meet()
    world.edit(world.a, typed, f"{typed}<!-- origin: user | id: 3333333333 -->\n")
    world.meet()
    assert world.c.files.texts[PATH].endswith("Typed.\n<!-- origin: user | id: 3333333333 -->\n")


@every_case("kill", KILLS)
def test_a_copy_of_an_entry_stands_once_after_a_sync_that_was_killed(kill: int) -> None:
    world = Machines()
    world.edit(world.b, "Port 80.", "Port 81.")
    world.b.sync()
    world.copy_above(world.a, "Port 80.", "Port 90.")
    world.a.sync(kill=kill)
    world.meet()
    assert sorted(texts(world.c)) == ["Port 81.", "Port 90.", "Stays."]


def test_a_copy_above_its_entry_does_not_bring_back_an_old_text_when_the_log_is_lost() -> None:
    world = Machines()
    world.edit(world.b, "Port 80.", "Port 81.")
    world.b.sync()
    world.copy_above(world.a, "Port 80.", "Port 90.")
    world.a.new_log()
    world.meet()
    assert sorted(texts(world.c)) == ["Port 81.", "Port 90.", "Stays."]
    assert "contradicts" not in world.c.files.texts[PATH]


@every_case("kill", KILLS)
def test_a_tag_added_between_two_syncs_one_of_them_killed_brings_back_no_other(kill: int) -> None:
    world = Machines()
    page = world.a.files.texts
    page[PATH] = page[PATH].replace("type: project\n", "type: project\ntags: [one, two]\n")
    world.meet()
    world.edit(world.a, "[one, two]", "[two]")
    world.a.sync()
    world.b.sync(kill=kill)
    there = world.b.files.texts[PATH]
    world.b.files.texts[PATH] = there.replace("two]", "two, three]")
    world.meet()
    assert "tags: [two, three]" in world.c.files.texts[PATH]


@every_case("kill", KILLS)
def test_a_first_version_that_was_edited_elsewhere_does_not_come_back_after_a_sync_that_was_killed(
    kill: int,
) -> None:
    world = Machines()
    world.conflict()
    world.edit(world.a, "Port 81.", "Port 83.")
    world.a.sync()
    world.c.sync(kill=kill)
    world.meet()
    assert texts(world.b) == ["Stays.", "Port 82.", "Port 83."]


def test_a_text_without_its_id_does_not_come_back_from_a_machine_that_lost_its_log() -> None:
    world = Machines()
    world.edit(world.a, "Port 80.", "Port 81.")
    world.a.sync()
    world.edit(world.b, "\n<!-- origin: user | id: 2222222222 -->", "")
    world.b.new_log()
    world.meet()
    assert texts(world.c) == ["Stays.", "Port 81."]


@every_case("kill", KILLS)
def test_a_version_that_is_copied_after_a_sync_that_was_killed_is_not_taken_for_the_copy(kill: int) -> None:
    world = Machines()
    world.conflict()
    world.remove(world.a, "Port 81.")
    world.a.sync()
    world.c.sync(kill=kill)
    world.copy_above(world.c, "Port 82.", "Port 84.")
    world.meet()
    assert sorted(texts(world.b)) == ["Port 82.", "Port 84.", "Stays."]
    made = [fact for log in world.folder.logs.values() for fact in log if fact.kind == "put"]
    assert sum("Port 82." in fact.value["raw"] for fact in made) == 1


@every_case("kill", KILLS)
def test_a_copy_is_not_taken_for_its_original_that_was_renamed_elsewhere(kill: int) -> None:
    folder = MemoryFolder()
    a, b = (Replica(name, folder) for name in "ab")
    start = START.replace("type: project", "type: project\nkey: topic")
    original = document.append(start, entry("Port 80.", "2222222222"))
    a.files.texts = {PATH: original, "records/copy.md": original.replace("Port 80.", "Port 90.")}
    a.sync(kill=kill)
    b.sync()
    if PATH in b.files.texts:
        b.files.texts["records/renamed.md"] = b.files.texts.pop(PATH)
        b.sync()
    a.files.texts[PATH] = document.append(a.files.texts[PATH], entry("Port 81.", "3333333333"))
    for _ in range(3):
        a.sync()
        b.sync()
    assert a.files.texts == b.files.texts
    found = [each.text for text in a.files.texts.values() for each in document.parse(text).entries]
    assert sorted(found) == ["Port 80.", "Port 81.", "Port 90."]


@every_case("kill", KILLS)
def test_an_entry_that_lost_its_id_to_a_copy_stays_the_entry_after_a_sync_that_was_killed(kill: int) -> None:
    world = Machines()
    world.copy_above(world.b, "Port 80.", "Port 90.")
    world.b.files.texts[PATH] = world.b.files.texts[PATH].rpartition("\n<!-- ")[0] + "\n"
    world.b.sync(kill=kill)
    world.meet()
    assert sorted(texts(world.a)) == ["Port 80.", "Port 90.", "Stays."]


@pytest.mark.parametrize("away", [False, True], ids=["at once", "the copy was written down before"])
def test_an_entry_that_loses_its_id_to_an_edited_copy_stays_the_entry(*, away: bool) -> None:
    world = Machines()
    world.copy_above(world.b, "Port 80.", "Port 90.")
    if away:  # its facts are in the log, and the file still shows the id twice
        world.folder.cut_off.add("b")
        world.b.sync()
    bare = world.b.files.texts[PATH].rpartition("\n<!-- ")[0]
    world.b.files.texts[PATH] = f"{bare}\n"
    world.meet()
    assert sorted(texts(world.a)) == ["Port 80.", "Port 90.", "Stays."]
    made = [fact for log in world.folder.logs.values() for fact in log if fact.kind == "put"]
    assert {fact.target for fact in made if "Port 80." in fact.value["raw"]} == {"2222222222"}
    assert "2222222222" not in {fact.target for fact in made if "Port 90." in fact.value["raw"]}
    world.edit(world.c, "Port 80.", "Port 81.")
    world.meet()
    assert sorted(texts(world.a)) == ["Port 81.", "Port 90.", "Stays."]


@pytest.mark.parametrize("mark", ["", " | superseded: 2026-02-02T00:00:00Z"])
@pytest.mark.parametrize("kill", KILLS)
def test_a_version_that_was_settled_elsewhere_is_not_sent_again_after_a_sync_that_was_killed(
    kill: int, mark: str
) -> None:
    world = Machines()
    world.conflict()
    if mark:
        world.edit(world.b, "| id: 2222222222 -->", f"| id: 2222222222{mark} -->")
        world.meet()
        assert world.a.files.texts[PATH].count(mark) == 2
    text, second, below = world.a.files.texts[PATH].rpartition("Port 82.")
    world.a.files.texts[PATH] = (
        text + second + below.replace(mark, "").replace(" | contradicts: 2026-01-01T00:00:00Z", "")
    )
    world.a.sync()
    known = {fact.id for log in world.folder.logs.values() for fact in log}
    world.c.sync(kill=kill)
    world.meet()
    assert [fact for log in world.folder.logs.values() for fact in log if fact.id not in known] == []
    assert "contradicts" not in world.c.files.texts[PATH]
    assert sorted(texts(world.c)) == ["Port 81.", "Port 82.", "Stays."]


def test_a_new_entry_with_an_id_is_no_edit_of_one_that_lost_its_own() -> None:
    world = Machines()
    world.edit(world.a, "\n<!-- origin: user | id: 2222222222 -->", "")
    world.meet()
    world.folder.cut_off.add("b")
    world.remove(world.b, "Port 80.")
    world.b.files.texts[PATH] = document.append(world.b.files.texts[PATH], entry("Port 90.", "3333333333"))
    world.remove(world.a, "Port 80.")
    world.a.sync()
    world.meet()
    assert texts(world.c) == ["Stays.", "Port 90."]


def test_a_copy_of_a_second_version_is_an_entry_that_contradicts_nothing() -> None:
    world = Machines()
    world.conflict()
    world.copy_above(world.b, "Port 82.", "Port 84.")
    world.meet()
    page = blocks.cut(world.a.files.texts[PATH], PATH)
    said = {block.words: blocks.parts(block.raw) for block in page.blocks}
    assert "contradicts" in said["Port 82."]
    assert said["Port 84."].keys() == {"origin", "id"}
    assert "~" not in said["Port 84."]["id"]


MARK = " | superseded: 2026-02-02T00:00:00Z"


def test_a_mark_that_is_lifted_with_an_edit_stays_lifted() -> None:
    world = Machines()
    world.edit(world.a, "id: 2222222222 -->", f"id: 2222222222{MARK} -->")
    world.meet()
    world.edit(world.b, "Port 80.", "Port 81.")
    world.edit(world.b, MARK, "")
    world.meet()
    assert texts(world.c) == ["Stays.", "Port 81."]
    assert "superseded" not in world.c.files.texts[PATH]


def test_a_mark_that_is_set_with_an_edit_outlives_one_that_somebody_lifted_meanwhile() -> None:
    world = Machines()
    world.edit(world.a, "id: 2222222222 -->", f"id: 2222222222{MARK} -->")
    world.a.sync()
    world.c.sync()
    world.edit(world.b, "Port 80.", "Port 81.")  # has not seen the mark, and sets the same
    world.edit(world.b, "id: 2222222222 -->", f"id: 2222222222{MARK} -->")
    world.folder.cut_off.add("b")
    world.b.sync()
    world.edit(world.c, MARK, "")
    world.c.sync()
    world.meet()
    assert texts(world.a) == ["Stays.", "Port 81."]
    assert world.a.files.texts[PATH].count("superseded") == 1


@pytest.mark.full
@every_case("kill", KILLS)
def test_a_file_that_was_renamed_between_two_syncs_that_were_killed_is_no_copy(kill: int) -> None:
    for again in KILLS:
        world = Machines()
        world.edit(world.a, "Port 80.", "Port 81.")
        world.a.sync()
        world.b.sync(kill=kill)
        world.b.files.texts["records/zebra.md"] = world.b.files.texts.pop(PATH)
        world.b.sync(kill=again)
        world.meet()
        found = [text for body in world.a.files.texts.values() for text in TEXT.findall(body)]
        assert (kill, again, sorted(found)) == (kill, again, ["Port 81.", "Stays."])


def test_a_new_entry_with_an_id_is_no_edit_of_a_typed_one_that_was_removed() -> None:
    world = Machines()
    world.b.files.texts[PATH] += "\n## 2026-01-02T00:00:00Z\nTyped.\n"
    world.meet()
    world.remove(world.b, "Typed.")
    new = Entry("Port 90.", "2026-01-02T00:00:00Z", Origin.USER, id="3333333333")
    world.b.files.texts[PATH] = document.append(world.b.files.texts[PATH], new)
    world.b.sync()
    world.c.sync()
    world.edit(world.c, "Port 90.", "Port 91.")
    world.meet()
    assert texts(world.a) == ["Stays.", "Port 80.", "Port 91."]
    made = [fact for log in world.folder.logs.values() for fact in log if fact.kind == "put"]
    assert {fact.target for fact in made if "Port 9" in fact.value["raw"]} == {"3333333333"}
