"""A first sync that is killed: a new file whose name others gave, too, is renamed before the next one."""

from __future__ import annotations

from collections import Counter

import pytest

from sync.world import MemoryFolder, Replica
from vademecum.text import document
from vademecum.types import Entry, Origin

PATH, RENAMED = "records/topic.md", "records/renamed.md"
IDS = ("01111111-6f4e-7c1a-9a52-3d1c5b7e9f10", "02222222-6f4e-7c1a-9a52-3d1c5b7e9f10")
KILLS = range(16)


class Machines:
    """Two machines know a record; a third begins one of the same name before it ever syncs."""

    def __init__(self, ids: tuple[str, str]) -> None:
        self.folder = MemoryFolder()
        self.a, self.b, self.new = self.every = [Replica(name, self.folder) for name in "abc"]
        self.a.files.texts[PATH] = page(ids[0], "a1", "a2")
        self.a.sync()
        self.b.sync()
        self.new.files.texts[PATH] = page(ids[1], "c1", "c2")

    def meet(self) -> None:
        for _ in range(3):
            for each in self.every:
                each.sync()
        assert self.a.files.texts == self.b.files.texts == self.new.files.texts

    def said(self) -> Counter[str]:
        """Each text of all files, and how often it stands there."""
        pages = self.b.files.texts.values()
        return Counter(each.text for text in pages for each in document.parse(text).entries)


def page(doc: str, *marks: str) -> str:
    text = f"---\nid: {doc}\ntype: project\nkey: topic\n---\n# topic\n\n"
    for number, mark in enumerate(marks):
        said = Entry(f"Said {mark}.", f"2026-01-01T00:00:0{number}Z", Origin.USER, id=mark * 5)
        text = document.append(text, said)
    return text


EACH = Counter({f"Said {mark}.": 1 for mark in ("a1", "a2", "c1", "c2")})


@pytest.mark.parametrize("ids", [IDS, IDS[::-1]], ids=["theirs is the first", "ours is the first"])
@pytest.mark.parametrize("kill", [None, *KILLS])
def test_a_file_that_is_renamed_after_a_first_sync_that_was_killed_stands_once(
    kill: int | None, ids: tuple[str, str]
) -> None:
    world = Machines(ids)
    world.new.sync(kill=kill)
    world.new.files.texts[RENAMED] = world.new.files.texts.pop(PATH)
    world.meet()
    assert world.said() == EACH


@pytest.mark.parametrize("ids", [IDS, IDS[::-1]], ids=["theirs is the first", "ours is the first"])
@pytest.mark.parametrize("kill", KILLS)
def test_an_entry_that_is_edited_and_whose_file_is_renamed_after_such_a_sync_stands_once(
    kill: int, ids: tuple[str, str]
) -> None:
    world = Machines(ids)
    world.new.sync(kill=kill)
    text = world.new.files.texts.pop(PATH)
    world.new.files.texts[RENAMED] = text.replace("Said c1.", "Said otherwise.")
    world.meet()
    assert world.said() == EACH - Counter(["Said c1."]) + Counter(["Said otherwise."])
