"""Review in a browser: one inbox, y and n and e, exact texts, and every decision can be taken back."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from vademecum.memory import connect
from vademecum.store.heard import HeardSession, HeardStatement
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.memory import Memory
    from web.conftest import Site, Web


@pytest.fixture(autouse=True)
def waiting(site: Site) -> Iterator[Memory]:
    """Three texts from a tool, which wait for a person; the last hides a mark that turns its direction."""
    server = site.server
    tool = connect(home=server.home, cwd=server.folder, environ={}, origin=Origin.TOOL)
    tool.store("The build takes 4 minutes.", key="build")
    tool.store("The mirror is at mirror.example.", key="mirror")
    tool.store("Run \u202etxt.sh\u202c\u200b first.", key="script")
    tool.close()
    person = site.memory()
    yield person
    for each in ("build", "mirror", "script"):
        person.review.verify(each, on=False)
    for run in person.care.runs():
        if not run.undone:
            person.care.undo(run.run)
    person.close()


def names(page: object) -> list[str]:
    return page.locator(".item h2").all_inner_texts()  # type: ignore[attr-defined,no-any-return]  # a Page


def test_yes_and_no_by_the_keyboard_and_both_can_be_taken_back(web: Web, waiting: Memory) -> None:
    page = web.open("/review")
    assert sorted(names(page)) == ["Build", "Mirror", "Script"]
    page.keyboard.press("j")
    first, second, third = names(page)
    page.keyboard.press("y")
    page.wait_for_selector(f".toast >> text=Yes to {first}")
    assert str(waiting.review.trust_of(waiting.show(first.lower())).level) == "verified"
    web.until(page, f"document.querySelector('.item.current h2')?.textContent === '{second}'")
    page.keyboard.press("n")
    page.wait_for_selector(f".toast >> text=No to {second}")
    assert [each.name for each in waiting.review.inbox(declined=True).items] == [second.lower()]
    web.until(page, "document.querySelectorAll('.item h2').length === 1")
    assert names(page) == [third]
    page.keyboard.press("u")
    page.wait_for_selector(f"h2 >> text={second}")
    assert waiting.review.inbox(declined=True).items == ()


def test_a_text_that_a_purge_left_open_is_saved_or_discarded_and_taken_back(
    web: Web, site: Site, waiting: Memory
) -> None:
    held = site.server.home / "hub/folder/held"
    held.mkdir(parents=True)
    raw = "## 2026-11-01T10:00:00Z\nIt is in the cellar.\n<!-- origin: user | id: aaaa111122 -->\n"
    told = {"place": "global", "path": "records/cellar.md", "at": "2026-11-02T10:00:00Z", "text": raw}
    (held / "x-1.json").write_text(json.dumps(told))
    page = web.open("/review?kind=held")
    assert names(page) == ["cellar"]
    said = page.inner_text(".item")
    assert "It is in the cellar." in said
    assert "Save as a new memory" in said
    assert "Discard it" in said
    page.keyboard.press("j")
    page.keyboard.press("n")
    page.wait_for_selector(".toast >> text=No to cellar")
    assert waiting.archive.held_texts() == []
    page.keyboard.press("u")
    page.wait_for_selector("h2 >> text=cellar")
    page.keyboard.press("j")
    page.keyboard.press("y")
    page.wait_for_selector(".toast >> text=Yes to cellar")
    assert waiting.show("cellar", scope="global").text == "It is in the cellar."
    page.keyboard.press("u")
    page.wait_for_selector("h2 >> text=cellar")
    assert [each.id for each in waiting.archive.held_texts()] == ["x-1"]
    assert "cellar" not in [each.key for each in waiting.list(scope="global")]
    waiting.archive.drop_held("x-1")


def test_the_exact_text_is_shown_with_what_cannot_be_seen_written_out(web: Web) -> None:
    page = web.open("/review")
    shown = page.inner_text("article:has(h2:text-is('Script')) .exact")
    assert shown == "Run ⟨U+202E⟩txt.sh⟨U+202C⟩⟨U+200B⟩ first."
    assert page.locator(".unseen").count() == 3
    web.inspect(page, "review")


def test_e_opens_the_record_to_edit_it_first(web: Web) -> None:
    page = web.open("/review")
    page.keyboard.press("j")
    key = names(page)[0].lower()
    page.keyboard.press("e")
    page.wait_for_url(re.compile(f"/records/{key}"))
    page.wait_for_selector("#field-texts textarea:focus")


def test_what_changed_since_it_was_shown_is_not_decided(web: Web, waiting: Memory) -> None:
    page = web.open("/review?kind=text")
    page.evaluate("document.querySelector('[data-live=inbox]').removeAttribute('data-live')")  # stays
    path, before = waiting.care.editable("build")
    waiting.care.edited("build", before, before.replace("4 minutes", "9 minutes"))
    page.click("article:has(h2:text-is('Build')) [data-decide=yes]")
    page.wait_for_selector(".toast[data-tone=bad]")
    assert decided(waiting) == [], path
    web.expect_errors("404", "409")


def decided(memory: Memory) -> list[str]:
    return [each.run for each in memory.care.runs() if each.what == "review" and not each.undone]


def test_an_empty_inbox_says_what_will_come_here(web: Web, waiting: Memory) -> None:
    while items := waiting.review.inbox().items:
        waiting.review.decide(items, yes=True)
    page = web.open("/review")
    assert "Nothing is pending" in page.inner_text("main")
    web.check_access(page, "an empty inbox")
    page.click("text=Declined")
    assert "Nothing declined" in page.inner_text("main")


def test_one_key_accepts_all_that_was_heard_in_a_session(web: Web, waiting: Memory) -> None:
    project = waiting.caller.project
    assert project is not None
    at = "2026-11-18T10:00:00Z"
    said = [HeardStatement("", text, "rule", at) for text in ("We deploy from main.", "We use tabs in CSS.")]
    other = HeardStatement("", "We review each other's work.", "rule", at)
    waiting.heard.add(HeardSession(project.id, "heard-one"), said)
    waiting.heard.add(HeardSession(project.id, "heard-two"), [other])
    page = web.open("/review?kind=signal")
    page.locator(".item").first.wait_for()
    page.locator(".item[data-session]").first.click()
    page.keyboard.press("h")
    page.wait_for_selector(".toast >> text=Yes to 2 of this session")
    web.until(page, "document.querySelectorAll('.item').length === 1")
    texts = {record.text for record in waiting.list().records}
    assert {each.text for each in said} <= texts
    assert other.text not in texts
    for run in ("heard-heard-one", "heard-heard-two"):
        waiting.care.undo(run)
    for record in waiting.list().records:
        if record.text in {each.text for each in said}:
            waiting.forget(record.key)
