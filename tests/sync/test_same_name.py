"""Two documents of one name are one file: whatever happens to its state, each entry stays in its own."""

from __future__ import annotations

import pytest

from cases import every_case
from sync.world import MemoryFolder, Replica
from vademecum.text import document
from vademecum.types import Entry, Origin

PATH = "records/topic.md"
IDS = ("01111111-6f4e-7c1a-9a52-3d1c5b7e9f10", "02222222-6f4e-7c1a-9a52-3d1c5b7e9f10")
KILLS = range(14)


class Machines:
    """Three machines; two of them began a record of the same name, and all know both."""

    def __init__(self) -> None:
        self.folder = MemoryFolder()
        self.a, self.b, self.c = self.every = [Replica(name, self.folder) for name in "abc"]
        self.a.files.texts["records/other.md"] = "# other\n\n## 2026-01-01T00:00:00Z\nOther.\n"
        self.meet()
        self.folder.cut_off = {"a", "b"}
        for at, doc in zip((self.a, self.b), IDS, strict=True):
            text = f"---\nid: {doc}\ntype: project\n---\n# topic\n\n"
            for number in (1, 2):
                mark = f"{at.name}{number}" * 5
                said = Entry(f"Said {at.name}{number}.", f"2026-01-01T00:00:0{number}Z", Origin.USER, id=mark)
                text = document.append(text, said)
            at.files.texts[PATH] = text
            at.sync()
        self.meet()
        assert texts(self.c) == ["Said a1.", "Said b1.", "Said a2.", "Said b2."]
        docs = {fact.doc for log in self.folder.logs.values() for fact in log if fact.kind == "put"}
        assert docs > set(IDS)

    def meet(self) -> None:
        self.folder.cut_off.clear()
        for _ in range(3):
            for each in self.every:
                each.sync()
        assert self.a.files.texts == self.b.files.texts == self.c.files.texts

    def kept(self) -> str:
        return "\n".join(text for at in self.every for text in at.files.kept)


def remove(at: Replica, *gone: str) -> None:
    page = at.files.texts[PATH]
    for each in document.parse(page).sections:
        block = page[each.start : each.end]
        if any(text in block for text in gone):
            at.files.texts[PATH] = at.files.texts[PATH].replace(block, "")
    assert not set(gone) & set(texts(at))


def texts(at: Replica) -> list[str]:
    return [each.text for each in document.parse(at.files.texts[PATH]).entries]


GONE = [("Said a1.",), ("Said b1.",), ("Said a1.", "Said a2."), ("Said b1.", "Said b2.")]


@every_case("gone", GONE)
def test_what_was_removed_does_not_come_back_from_a_machine_that_lost_its_log(gone: tuple[str, ...]) -> None:
    world = Machines()
    remove(world.c, *gone)
    world.c.sync()
    world.b.new_log()
    world.meet()
    assert not set(gone) & set(texts(world.a))


@pytest.mark.full(but=8)
@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("kill", KILLS)
def test_what_was_removed_does_not_come_back_after_a_sync_that_was_killed(
    gone: tuple[str, ...], kill: int
) -> None:
    world = Machines()
    remove(world.c, *gone)
    world.c.sync()
    world.b.sync(kill=kill)
    world.meet()
    assert not set(gone) & set(texts(world.a))


@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("lost", [False, True])
def test_an_edit_of_what_was_removed_goes_to_the_archive_whichever_document_it_is_of(
    gone: tuple[str, ...], lost: bool
) -> None:
    world = Machines()
    remove(world.c, *gone)
    world.c.sync()
    world.b.files.texts[PATH] = world.b.files.texts[PATH].replace(gone[0], "Said otherwise.")
    if lost:
        world.b.new_log()
    world.meet()
    assert not {*gone, "Said otherwise."} & set(texts(world.a))
    assert "Said otherwise." in world.kept()


@pytest.mark.full(but=8)
@pytest.mark.parametrize("gone", GONE)
@pytest.mark.parametrize("kill", KILLS)
def test_an_edit_made_between_two_syncs_one_of_them_killed_does_not_undo_the_removal(
    gone: tuple[str, ...], kill: int
) -> None:
    world = Machines()
    remove(world.c, *gone)
    world.c.sync()
    world.b.sync(kill=kill)
    if gone[0] not in texts(world.b):
        return
    world.b.files.texts[PATH] = world.b.files.texts[PATH].replace(gone[0], "Said otherwise.")
    world.meet()
    assert not {*gone, "Said otherwise."} & set(texts(world.a))
    assert "Said otherwise." in world.kept()


def test_a_new_record_under_the_name_of_one_that_was_renamed_is_another_document() -> None:
    world = Machines()
    entry = world.c.files.texts["records/other.md"]
    world.folder.cut_off.add("c")
    page = world.a.files.texts
    page["records/renamed.md"] = page.pop(PATH)
    page[PATH] = f"---\nid: {IDS[1][:-1]}7\ntype: project\n---\n# topic\n\n## 2026-01-02T00:00:00Z\nNew.\n"
    world.a.sync()
    world.c.files.texts[PATH] = world.c.files.texts[PATH].replace("Said a1.", "Said otherwise.")
    world.meet()
    assert texts(world.b) == ["New."]
    there = [each.text for each in document.parse(world.b.files.texts["records/renamed.md"]).entries]
    assert there == ["Said otherwise.", "Said b1.", "Said a2.", "Said b2."]
    assert world.b.files.texts["records/other.md"] == entry
