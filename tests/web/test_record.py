"""One record in a browser: whose word it is, its history, editing in place, conflicts, and the way back."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from vademecum.memory import Memory
    from web.conftest import Site, Web


@pytest.fixture(scope="module", autouse=True)
def _filled(site: Site) -> None:
    source = site.server.folder / "src" / "db.py"
    source.parent.mkdir()
    source.write_text("PORT = 8080\n\n\ndef open_pool(size):\n    return size\n")
    person = site.memory()
    person.store("Deploys run at ten.", key="deploys", tags=["ops"])
    person.store("Deploys run at **eleven**; see [[pool]].", key="deploys", mode="replace")
    person.store("`open_pool` in `src/db.py` opens the pool.", key="pool")
    for key in ("edited", "conflicted", "followed", "restored", "archived", "marked"):
        person.store(f"The {key} text.", key=key)
    person.store("The restored text, once more.", key="restored", mode="replace")
    agent = site.memory(agent="claude-code 2.1")
    agent.store("Found by an agent.", key="found")
    person.close()
    agent.close()


@pytest.fixture
def memory(site: Site) -> Iterator[Memory]:
    opened = site.memory()
    yield opened
    opened.close()


def test_a_replaced_entry_is_struck_out_and_leads_to_what_replaced_it(web: Web) -> None:
    page = web.open("/records/deploys?scope=project")
    assert page.inner_text(".entry >> nth=0 >> strong") == "eleven"
    assert "at ten" in page.inner_text(".entry.gone s")
    page.click("text=Replaced by the entry of")
    assert page.url.endswith("#entry-2")
    page.click(".entry a >> text=pool")
    page.wait_for_url(re.compile("/records/pool"))
    page.go_back()
    page.click("aside >> text=Pool")
    page.wait_for_url(re.compile("/records/pool"))


def test_the_page_is_accessible_in_all_its_parts(web: Web) -> None:
    page = web.open("/records/deploys?scope=project")
    web.inspect(page, "record")
    page.keyboard.press("3")
    page.wait_for_url(re.compile("tab=history"))
    web.inspect(page, "record-history")
    page.keyboard.press("2")
    page.wait_for_url(re.compile("tab=lines"))
    web.inspect(page, "record-lines")


def test_a_claim_shows_the_code_it_means_and_whether_it_holds(web: Web) -> None:
    page = web.open("/records/pool")
    told = page.inner_text(".claims")
    assert "def open_pool(size):" in told
    assert "still holds" in told
    source = web.site.server.folder / "src" / "db.py"
    source.write_text(source.read_text().replace("open_pool", "open_pools"))
    page.reload()
    assert "gone" in page.inner_text(".claims")


def test_each_line_tells_who_wrote_it(web: Web) -> None:
    page = web.open("/records/found?tab=lines")
    rows = page.locator(".source tr.first").all_inner_texts()
    assert any("claude-code 2.1" in each for each in rows)
    page = web.open("/records/deploys?tab=lines")
    assert any("you" in each for each in page.locator(".source tr.first").all_inner_texts())


def test_the_history_shows_what_changed_and_one_click_restores(web: Web, memory: Memory) -> None:
    page = web.open("/records/restored?tab=history")
    assert "+The restored text, once more." in page.inner_text(".timeline .diff >> nth=0")
    page.click("text=Restore the version before this >> nth=0")
    page.wait_for_selector(".toast >> text=Restored")
    assert memory.show("restored").text == "The restored text."
    page.keyboard.press("u")
    page.wait_for_selector(".toast >> text=The text before is back")
    assert memory.show("restored").text == "The restored text, once more."


def test_a_text_is_edited_in_place_with_a_preview_and_can_be_taken_back(web: Web, memory: Memory) -> None:
    page = web.open("/records/edited")
    page.keyboard.press("e")
    page.wait_for_selector("#field-texts textarea:focus")
    page.fill("#field-texts textarea", "The *edited* text, mended.")
    page.wait_for_selector("#text-preview em >> text=edited")
    web.inspect(page, "record-edit")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".toast >> text=Saved")
    assert memory.show("edited").text == "The *edited* text, mended."
    page.wait_for_selector(".entry em >> text=edited")
    page.keyboard.press("u")
    page.wait_for_selector(".toast >> text=The text before is back")
    assert memory.show("edited").text == "The edited text."


def test_a_stale_save_shows_both_versions_and_overwrites_nothing(web: Web, memory: Memory) -> None:
    page = web.open("/records/conflicted")
    web.live(page)
    page.keyboard.press("e")
    page.wait_for_selector("#field-texts textarea:focus")
    page.click("#as-file")
    page.wait_for_selector("#text:focus")
    mine = page.input_value("#text").replace("The conflicted text.", "My version.")
    page.fill("#text", mine)
    path, before = memory.care.editable("conflicted")
    memory.care.edited("conflicted", before, before.replace("The conflicted text.", "Their version."))
    page.wait_for_selector("#changed", state="visible")
    assert page.input_value("#text") == mine, path
    page.click("#save")
    page.wait_for_selector("#conflict", state="visible")
    assert "Their version." in page.inner_text("#theirs")
    assert "-Their version." in page.inner_text("#between")
    assert "+My version." in page.inner_text("#between")
    assert memory.show("conflicted").text == "Their version."
    web.inspect(page, "record-conflict")
    page.click("#keep-mine")
    page.wait_for_selector(".toast >> text=Saved")
    assert memory.show("conflicted").text == "My version."
    web.expect_errors("409")


def test_what_changes_elsewhere_appears_and_what_is_typed_stays(web: Web, memory: Memory) -> None:
    page, other = web.open("/records/followed"), web.open("/records/followed")
    web.live(page)
    web.live(other)
    page.keyboard.press("e")
    page.wait_for_selector("#field-texts textarea:focus")
    page.keyboard.type("typed here ")
    agent = web.site.memory(agent="codex 1")
    agent.store("Said by another.", key="followed")
    agent.close()
    for each in (page, other):
        each.wait_for_selector(".entry >> text=Said by another.", timeout=5_000)
    assert "typed here" in page.input_value("#field-texts textarea")
    assert page.evaluate("document.activeElement.id").startswith("field-text")


def test_an_archived_record_comes_back_from_the_list(web: Web, memory: Memory) -> None:
    page = web.open("/records/archived")
    page.click("#archive")
    page.wait_for_url(re.compile("/memories"))
    page.wait_for_selector(".toast >> text=Archived is archived")
    assert [each.key for each in memory.archive.forgotten()] == ["archived"]
    page.click("[data-undo]")
    page.wait_for_selector(".toast >> text=Archived is back")
    assert memory.show("archived").text == "The archived text."
    web.expect_errors("404")  # the record's own page, asked for anew before the list came


def test_a_record_is_protected_and_verified_by_a_click(web: Web, memory: Memory) -> None:
    page = web.open("/records/marked")
    page.click("text=Protect")
    page.wait_for_selector(".badge >> text=protected")
    assert memory.show("marked").protected
    page.keyboard.press("u")
    page.wait_for_selector(".badge >> text=protected", state="detached")
    page = web.open("/records/found")
    page.click("text=Verify")
    page.wait_for_selector('.badge >> text="verified"')
    assert memory.browse.table({"trust": ["verified"]}).matching == 1


def test_a_record_that_is_not_there_is_a_page_that_says_so(web: Web) -> None:
    page = web.open("/records/nothing-of-the-kind", expect=404)
    assert "no record" in page.inner_text("main")
    web.check_access(page, "not found")
    web.expect_errors("404")
