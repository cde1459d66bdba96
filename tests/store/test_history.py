"""The history of a record has each event once, in order, with actor and time, whatever its file is called."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest

from person import Person
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory
    from vademecum.store import HistoryEvent


@pytest.fixture
def ada(tmp_path: Path) -> Person:
    return Person(tmp_path)


def told(memory: Memory, key: str) -> list[str]:
    return [each.what for each in memory.archive.events(key)]


def changed(event: HistoryEvent) -> tuple[str, ...]:
    """Return the lines that an event removed and added, without frontmatter and signatures."""
    before, after = ((text or "").split("\n---\n")[-1].split("\n") for text in (event.before, event.after))
    gone = (f"-{each}" for each in before if each not in after and "<!--" not in each)
    return (*gone, *(f"+{each}" for each in after if each not in before and "<!--" not in each))


def test_an_edit_has_its_own_time_and_its_own_writer(ada: Person) -> None:
    ada.opened(Origin.AGENT).store("I use Neovim for everything.", key="editor")
    ada.edit("editor", "Neovim", "Helix")
    first, edit = ada.memory.archive.events("editor")
    assert (first.what, first.by, edit.what, edit.by) == ("created", "process:main", "edit", "human:user")
    assert first.at < edit.at
    assert changed(edit) == ("-I use Neovim for everything.", "+I use Helix for everything.")
    record = ada.memory.show("editor")
    assert first.at < str(record.updated) <= edit.at
    assert record.fields["generated"] == {"by": "human:user", "at": record.updated}
    old, new = ada.memory.archive.history("editor")
    assert [(each.at, each.by) for each in (old, new)] == [
        (first.at, "process:main"),
        (edit.at, "human:user"),
    ]


def test_an_edit_by_hand_is_an_event_with_the_time_of_the_file(ada: Person) -> None:
    ada.memory.store("The meeting is at nine.", key="meeting")
    at = ada.change_by_hand("meeting", "nine", "ten")
    before = ada.file("meeting").read_bytes()
    for _ in range(2):
        *_, hand = ada.memory.archive.events("meeting")
        assert (hand.what, hand.at, hand.by) == ("by hand", at, "")
        assert changed(hand) == ("-The meeting is at nine.", "+The meeting is at ten.")
    assert ada.file("meeting").read_bytes() == before
    ada.memory.store("Bring the figures.", key="meeting")
    _, hand, appended = ada.memory.archive.events("meeting")
    assert (hand.at, appended.what) == (at, "appended")
    assert changed(hand) == ("-The meeting is at nine.", "+The meeting is at ten.")


def test_a_rename_and_a_move_keep_the_history_and_are_events(ada: Person) -> None:
    ada.memory.store("A uses 5 workers", key="a")
    ada.memory.store("A uses 9 workers", key="a", mode="replace")
    ada.memory.care.rename("a", "b")
    assert told(ada.memory, "b") == ["created", "replaced", "rename"]
    ada.memory.care.move(["b"], to="global")
    assert told(ada.memory, "b") == ["created", "replaced", "rename", "move"]
    events = ada.memory.archive.events("b")
    assert [each.at for each in events] == sorted(each.at for each in events)
    assert all(each.version for each in events[1:])
    first = events[1].version
    assert first in [each.id for each in ada.memory.archive.versions("b")]
    restored = ada.memory.restore(first)
    assert (restored.key, str(restored.place.scope)) == ("b", "global")
    assert [each.text for each in restored.live] == ["A uses 5 workers"]
    assert [each.key for each in ada.memory.list().records] == ["b"]
    assert told(ada.memory, "b")[-1] == "restore"


def test_undoing_a_rename_is_one_event_and_the_first_name_has_all_of_them(ada: Person) -> None:
    ada.memory.store("Deploys run on Tuesdays.", key="deploys")
    ada.memory.care.rename("deploys", "releases")
    ada.memory.care.undo()
    assert told(ada.memory, "deploys") == ["created", "rename", "undo"]


def test_a_new_record_under_a_freed_name_has_none_of_the_old_ones_past(ada: Person) -> None:
    ada.memory.store("The old secret plan.", key="plan")
    ada.edit("plan", "old", "older")
    ada.memory.forget("plan")
    assert told(ada.memory, "plan") == ["created", "edit", "forget"]
    ada.memory.store("A new plan.", key="plan")
    [only] = ada.memory.archive.events("plan")
    assert only.what == "created"
    assert ada.memory.archive.versions("plan") == []


def test_a_forgotten_record_has_a_log_and_restoring_it_is_in_it(ada: Person) -> None:
    number = ada.memory.store("Kubernetes is at 1.31.", key="kubernetes").num
    ada.memory.forget("kubernetes")
    for name in ("kubernetes", str(number)):
        assert told(ada.memory, name) == ["created", "forget"]
    ada.memory.restore("kubernetes")
    assert told(ada.memory, "kubernetes") == ["created", "forget", "restore"]


def test_after_mine_was_saved_over_a_change_by_hand_nobody_misses_an_entry(ada: Person) -> None:
    ada.memory.store("The budget is 900 EUR.", key="budget")
    _, typed = ada.memory.care.editable("budget")
    ada.change_by_hand("budget", "900", "950")
    _, seen = ada.memory.care.editable("budget")
    ada.memory.care.edited("budget", seen, typed.replace("900", "1000"))
    assert ada.memory.archive.lost_entries("budget") == []
    first, hand, edit = ada.memory.archive.events("budget")
    assert [changed(each)[:1] for each in (hand, edit)] == [
        ("-The budget is 900 EUR.",),
        ("-The budget is 950 EUR.",),
    ]
    texts = [each.text for each in ada.memory.archive.history("budget")]
    assert [amount in text for amount, text in zip(("900", "950", "1000"), texts, strict=True)] == [True] * 3
    assert first.what == "created"


def test_what_an_editor_cut_out_is_still_missed_after_another_entry_is_edited(ada: Person) -> None:
    ada.memory.store("One.", key="list")
    ada.memory.store("Two, which is cut out.", key="list")
    path = ada.file("list")
    path.write_text(path.read_text().split("\n## ")[0] + "\n## " + path.read_text().split("\n## ")[1])
    ada.edit("list", "One.", "One more.")
    assert [each.text for each in ada.memory.archive.lost_entries("list")] == ["Two, which is cut out."]


def test_the_history_of_a_home_without_its_audit_is_made_of_the_versions(ada: Person) -> None:
    ada.memory.store("First.", key="topic")
    ada.edit("topic", "First", "Second")
    ada.edit("topic", "Second", "Third")
    for path in (ada.base / "home/audit").iterdir():
        path.unlink()
    texts = [each.text for each in ada.memory.archive.history("topic")]
    assert [word in text for word, text in zip(("First", "Second", "Third"), texts, strict=True)] == [
        True
    ] * 3


def test_a_pinned_document_has_events_too(ada: Person) -> None:
    ada.memory.care.edited("MEMORY.md", "", "# Me\n\nI like tea.\n")
    ada.edit("MEMORY.md", "tea", "coffee")
    events = ada.memory.archive.events("MEMORY.md")
    assert [each.what for each in events] == ["pin", "pin"]
    assert changed(events[1]) == ("-I like tea.", "+I like coffee.")


def test_a_purge_of_a_renamed_record_leaves_nothing_of_it_under_its_earlier_names(ada: Person) -> None:
    ada.memory.store("The code word is quokka.", key="code")
    ada.edit("code", "quokka", "wombat")
    ada.memory.care.rename("code", "signal")
    ada.memory.care.move(["signal"], to="global")
    seen = ada.memory.archive.purge("signal", dry_run=True)
    gone = ada.memory.archive.purge("signal")
    assert {each.where for each in seen} == {each.where for each in gone}
    for path in (ada.base / "home").rglob("*"):
        if path.is_file():
            assert not any(word in path.read_bytes() for word in (b"quokka", b"wombat")), path


def test_after_a_purge_of_a_word_the_log_tells_of_it_and_does_not_have_the_word(ada: Person) -> None:
    ada.memory.store("The code word is quokka.", key="code")
    ada.edit("code", "quokka", "quokka, says Ada")
    ada.memory.archive.purge_text("quokka")
    events = ada.opened(Origin.USER).archive.events("code")
    assert [(each.what, each.by) for each in events][-1] == ("purge", "human:user")
    assert [each.what for each in events] == ["created", "edit", "purge"]
    assert not any("quokka" in (text or "") for each in events for text in (each.before, each.after))


def test_a_change_by_hand_counts_in_lists_and_orders_without_a_byte_of_the_file_changing(ada: Person) -> None:
    for key in ("first", "second"):
        ada.memory.store(f"This is the {key} one.", key=key)
    assert [each.key for each in ada.memory.list(sort="updated", limit=5).records] == ["second", "first"]
    ada.minutes = itertools.count(600)
    at = ada.change_by_hand("first", "one", "1")
    before = ada.file("first").read_bytes()
    for limit in (5, None):
        newest = ada.memory.list(sort="updated", limit=limit).records[0]
        assert (newest.key, newest.updated) == ("first", at)
    assert ada.memory.browse.table({}, sort="updated").rows[0].record.updated == at
    assert ada.memory.show("first").updated == at
    assert ada.file("first").read_bytes() == before
    ada.memory.care.tag(["second"], add=["x"])  # the program's own write of a later time is no news
    assert ada.memory.list(sort="updated", limit=5).records[0].key == "first"
