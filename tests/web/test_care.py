"""Check and tidy, today, the journal and pinned documents, in a browser."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING

import pytest

from vademecum.memory import Memory

if TYPE_CHECKING:
    from web.conftest import Site, Web

HOSTILE = '<script>window.hacked = 1</script> <img src=x onerror="window.hacked = 1">'


def pin(memory: Memory, name: str, text: str, scope: str) -> None:
    _, before = memory.care.editable(name, scope=scope)
    memory.care.edited(name, before, text, scope=scope)


@pytest.fixture(scope="module", autouse=True)
def _filled(site: Site) -> None:
    memory = site.memory()
    now = memory.workspace.now()
    work = memory.workspace
    for back in (700, 200, 3):
        moment = now - timedelta(days=back)
        then = Memory(work.home, work.caller, work.loaded, now=partial(datetime.fromisoformat, f"{moment}"))
        then.note(f"Note of {back} days ago.")
        if back == 700:
            then.store("The build server is called osprey.", key="build-server", type="project")
    memory.store("See [[nowhere-at-all]] for more.", key="links")
    site.memory(agent="claude-code").store("Order totals are in cents.", key="money")
    pin(memory, "profile.md", "Prefers short answers.", "global")


# ---------------------------------------------------------------- check and tidy


def test_findings_are_shown_and_filtered(web: Web) -> None:
    page = web.open("/check")
    assert "nowhere-at-all" in page.locator("main").inner_text()
    assert page.get_by_role("link", name="links", exact=True).count() == 1
    web.inspect(page, "check")
    page.get_by_role("group", name="Filter").get_by_role("link").first.click()
    page.wait_for_url(re.compile("severity="))


def test_a_pass_is_applied_and_undone_from_the_toast(web: Web) -> None:
    memory = web.site.memory()
    page = web.open("/check?show=tidy")
    web.inspect(page, "tidy")
    section = page.locator("section", has_text="Archive old, expired and duplicate memories")
    assert "osprey" in section.inner_text()
    section.get_by_role("button", name=re.compile("^Apply")).click()
    page.get_by_text("Changed 1 file").wait_for()
    assert [each.key for each in memory.list(scope="project") if each.key == "build-server"] == []
    page.keyboard.press("u")
    page.get_by_text("Undone", exact=True).wait_for()
    assert [each.key for each in memory.list(scope="project") if each.key == "build-server"]


def test_what_is_applied_is_what_was_shown(web: Web) -> None:
    memory = web.site.memory()
    work = memory.workspace
    then = work.now() - timedelta(days=700)
    page = web.open("/check?show=tidy")
    web.live(page)
    apply = page.get_by_role("button", name=re.compile("^Apply"))
    assert "osprey" in page.locator("main").inner_text()
    Memory(work.home, work.caller, work.loaded, now=lambda: then).store(
        "The old mail relay is called heron.", key="mail-relay", type="project"
    )
    apply.click()
    page.get_by_text("changed meanwhile").wait_for()
    web.expect_errors("409")
    page.get_by_text("heron").first.wait_for()  # what is proposed now
    assert {"build-server", "mail-relay"} <= {each.key for each in memory.list(scope="project")}
    memory.forget("mail-relay")


def test_a_clean_up_is_run_only_when_it_is_asked_for(web: Web) -> None:
    page = web.open("/check?show=tidy&only=heal")
    web.live(page)
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    web.site.memory(agent="codex").note("Something else changed.")
    web.until(page, "performance.getEntriesByType('resource').some(each => each.name.includes('show=runs'))")
    assert [each for each in asked if "show=tidy" in each] == []
    page.get_by_role("link", name="Merge second copies that sync tools left").click()
    page.wait_for_url(re.compile("only=merge"))
    assert "No sync tool left a second copy." in page.locator("main").inner_text()
    web.inspect(page, "tidy-merge")


def test_a_run_is_undone_from_the_list(web: Web) -> None:
    memory = web.site.memory()
    done = memory.care.tag(["money"], add=["billing"])
    page = web.open("/check?show=runs")
    web.inspect(page, "runs")
    page.locator(f"[data-undo-run='{done.run}']").click()
    page.get_by_text("Undone", exact=True).first.wait_for()
    page.locator(f"tr[data-key='{done.run}']").get_by_text("undone", exact=True).wait_for()
    assert memory.show("money").tags == ()


# ---------------------------------------------------------------- today


def test_today_says_what_was_added_by_whom_and_draws_a_year(web: Web) -> None:
    page = web.open("/today")
    added = page.locator("section", has_text="Added or changed today").inner_text()
    assert "Money" in added
    assert "claude-code" in added
    assert page.locator(".heat rect").count() >= 365
    assert page.locator(".heat rect:not(.h0)").count() >= 2
    page.get_by_text("By month, as a table").click()
    assert page.locator(".heat-foot table tbody tr").count() >= 12
    web.inspect(page, "today")


def test_what_an_agent_saves_appears_by_itself(web: Web) -> None:
    page = web.open("/today")
    web.live(page)
    web.site.memory(agent="codex").store("Fresh from an agent.", key="fresh")
    page.get_by_role("link", name="Fresh", exact=True).wait_for()


# ---------------------------------------------------------------- journal


def test_a_note_is_written_and_hostile_text_stays_text(web: Web) -> None:
    page = web.open("/journal")
    page.keyboard.press("n")
    page.keyboard.type(f"Written in the **browser**. {HOSTILE}")
    page.keyboard.press("Control+Enter")
    page.locator(".notes strong", has_text="browser").wait_for()
    assert page.evaluate("window.hacked") is None
    assert page.locator("#note-text").input_value() == ""
    assert "Written in the" in web.site.memory().notes_of_today().text
    web.inspect(page, "journal")


def test_a_month_is_turned_and_a_day_is_read(web: Web) -> None:
    then = web.site.memory().workspace.now() - timedelta(days=200)
    page = web.open(f"/journal?month={then:%Y-%m}")
    assert "Note of 200 days ago." in page.locator("main").inner_text()
    assert page.locator("a[aria-current=date]").get_attribute("data-count") == "1"
    page.keyboard.press("]")
    page.wait_for_url(re.compile("month="))
    assert f"{then:%B %Y}" not in page.locator(".month").inner_text()
    web.open("/journal?day=no-date", expect=400)
    web.expect_errors("400")


def test_a_note_made_elsewhere_does_not_disturb_what_is_typed(web: Web) -> None:
    page = web.open("/journal")
    web.live(page)
    page.locator("#note-text").fill("Half a sent")
    web.site.memory(agent="codex").note("Of an agent.")
    page.get_by_text("Of an agent.").wait_for()
    assert page.locator("#note-text").input_value() == "Half a sent"


# ---------------------------------------------------------------- pinned


def test_pinned_documents_are_shown_with_their_budgets(web: Web) -> None:
    page = web.open("/pinned")
    assert "22 of 1,500 characters" in page.locator("main").inner_text()
    web.inspect(page, "pinned")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/pinned/profile.md"))


def test_a_pinned_document_is_edited_and_the_save_is_undone(web: Web) -> None:
    page = web.open("/pinned/profile.md?scope=global")
    box = page.locator("#text:not([readonly])")
    box.wait_for()
    before = box.input_value()
    box.fill(before.replace("short", "long"))
    page.locator("#preview", has_text="Prefers long answers.").wait_for()
    page.keyboard.press("Control+s")
    page.get_by_text("Saved profile.md").wait_for()
    assert "Prefers long answers." in web.site.memory().care.editable("profile.md", scope="global")[1]
    web.inspect(page, "pinned-edit")
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Undone", exact=True).wait_for()
    assert "Prefers short answers." in web.site.memory().care.editable("profile.md", scope="global")[1]


def test_a_stale_save_shows_both_versions_and_overwrites_nothing(web: Web) -> None:
    memory = web.site.memory()
    pin(memory, "MEMORY.md", "Anna owns billing.\n", "global")
    page = web.open("/pinned/MEMORY.md?scope=global")
    box = page.locator("#text:not([readonly])")
    box.wait_for()
    box.fill(box.input_value() + "\nMine.\n")
    pin(memory, "MEMORY.md", "Ben owns billing.\n", "global")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("It was changed meanwhile.").wait_for()
    web.expect_errors("409")
    diff = page.locator("#conflict-diff").inner_text()
    assert "-Anna owns billing." in diff
    assert "+Ben owns billing." in diff
    assert "Mine." in box.input_value()
    assert "Ben owns" in memory.care.editable("MEMORY.md", scope="global")[1]
    web.check_access(page, "conflict")
    page.get_by_role("button", name="Save mine over it").click()
    page.get_by_text("Saved MEMORY.md").wait_for()
    assert "Mine." in memory.care.editable("MEMORY.md", scope="global")[1]


def test_an_earlier_version_is_brought_back(web: Web) -> None:
    memory = web.site.memory()
    pin(memory, "context.md", "# First\nOne.\n", "global")
    pin(memory, "context.md", "# Second\nTwo.\n", "global")
    page = web.open("/pinned/context.md?scope=global")
    page.locator("#text:not([readonly])").wait_for()
    page.locator("section", has_text="Versions").locator("summary").first.click()
    page.get_by_role("button", name="Bring back the version before").first.click()
    page.get_by_text("The version before is back").wait_for()
    assert "# First" in memory.care.editable("context.md", scope="global")[1]
