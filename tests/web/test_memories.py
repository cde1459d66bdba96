"""Memories in a browser: a table that loads as one scrolls, facets, a selection, and what is done with it."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from web.conftest import Site, Web

ROW = "[data-row]"


@pytest.fixture(scope="module", autouse=True)
def _filled(site: Site) -> None:
    """A project with more records than one page shows, of two origins."""
    person, agent = site.memory(), site.memory(agent="claude-code 2.1")
    for number in range(25):
        person.store(
            f"Service {number} listens on port {8000 + number}.", key=f"service-{number}", tags=["ports"]
        )
    person.store("I like short answers.", key="answers", type="user", scope="global")
    agent.store("The retry test is flaky under load.", key="flaky", type="discovery", tags=["tests"])
    person.close()
    agent.close()


def keys_of(page: Page) -> list[str]:
    found: list[str] = page.eval_on_selector_all(ROW, "rows => rows.map(row => row.dataset.name)")
    return found


def test_the_table_shows_the_newest_first_and_loads_more_as_one_scrolls(web: Web) -> None:
    page = web.open("/memories?limit=15", viewport={"width": 1000, "height": 250})
    assert page.inner_text(".lead").startswith("27 records")
    times = page.eval_on_selector_all(f"{ROW} time", "each => each.map(one => one.dateTime)")
    assert len(times) == 15
    assert times == sorted(times, reverse=True)
    page.mouse.wheel(0, 20_000)
    web.until(page, f"document.querySelectorAll('{ROW}').length === 27")
    assert len({*keys_of(page)}) == 27


def test_the_page_is_accessible_and_fits_every_width(web: Web) -> None:
    web.inspect(web.open("/memories"), "memories")


def test_facets_narrow_the_table_and_count_what_is_left(web: Web) -> None:
    page = web.open("/memories")
    page.click(".facet >> text=claude-code")
    page.wait_for_url(re.compile("agent=claude-code"))
    assert keys_of(page) == ["flaky"]
    assert page.inner_text(".lead").startswith("1 of 27")
    page.click("[aria-label='Remove Program claude-code']")
    page.wait_for_url(re.compile(r"/memories\??$"))
    assert page.inner_text(".lead").startswith("27 records")


def test_the_same_data_are_at_the_json_address(web: Web) -> None:
    page = web.open("/memories?type=discovery")
    told = page.evaluate(
        "fetch(document.querySelector('[aria-label=\"This page as JSON\"]').href).then(r => r.json())"
    )
    assert [each["key"] for each in told["records"]] == ["flaky"]
    assert told["matching"] == 1
    assert told["total"] == 27


def test_the_table_can_be_read_without_javascript(web: Web) -> None:
    page = web.open("/memories?limit=15", java_script_enabled=False)
    assert page.locator(ROW).count() == 15
    page.click("text=Show more")
    assert page.locator(ROW).count() == 12


def test_the_keyboard_walks_opens_and_searches(web: Web) -> None:
    page = web.open("/memories")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("k")
    assert page.evaluate("document.querySelector('.row.current').dataset.name") == keys_of(page)[0]
    page.keyboard.press("?")
    assert page.is_visible("#help")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    second = keys_of(page)[1]
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/records/{second}"))
    page.keyboard.press("g")
    page.keyboard.press("m")
    page.wait_for_url(re.compile("/memories"))
    page.keyboard.press("/")
    page.keyboard.type("flaky")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/search\?q=flaky"))


def test_what_is_selected_is_archived_after_a_preview_and_undo_brings_it_back(web: Web) -> None:
    page = web.open("/memories?tag=ports&sort=key")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.keyboard.press("j")
    page.keyboard.press("j")
    page.keyboard.press("X")
    assert page.inner_text("#picked") == "3"
    chosen = keys_of(page)[:3]
    page.keyboard.press("#")
    assert chosen[0] in page.inner_text("#preview-list")
    web.check_access(page, "the preview")
    page.click("#preview-yes")
    page.wait_for_selector("text=3 records archived")
    web.until(page, f"document.querySelector('[data-row]').dataset.name !== '{chosen[0]}'")
    memory = web.site.memory()
    assert memory.browse.table().total == 24
    page.keyboard.press("u")
    page.wait_for_selector("text=Undone")
    web.until(page, f"document.querySelector('[data-row]').dataset.name === '{chosen[0]}'")
    assert memory.browse.table().total == 27
    memory.close()


def test_tags_of_several_are_changed_at_once(web: Web) -> None:
    page = web.open("/memories?tag=tests")
    page.keyboard.press("j")
    page.keyboard.press("x")
    page.click("[data-do=tag]")
    page.fill("#bulk-add", "slow, ci")
    page.click("#preview-yes")
    page.wait_for_selector("text=1 record tagged")
    page.wait_for_selector("a.tag >> text=slow")
    page.click("[data-undo]")
    page.wait_for_selector("text=Undone")
    web.until(page, "!document.querySelector('.row-meta').textContent.includes('slow')")


def test_what_another_program_saves_appears_and_the_selection_stays(web: Web) -> None:
    page = web.open("/memories")
    web.live(page)
    page.keyboard.press("j")
    page.keyboard.press("x")
    chosen = page.evaluate("document.querySelector('.row.picked').dataset.name")
    agent = web.site.memory(agent="codex 1")
    agent.store("The cache is Redis, port 6380.", key="cache")
    page.wait_for_selector("[data-name=cache]", timeout=5_000)
    assert page.evaluate("document.querySelector('.row.picked').dataset.name") == chosen
    agent.close()
    person = web.site.memory()
    person.forget("cache")
    page.wait_for_selector("[data-name=cache]", state="detached", timeout=5_000)
    person.close()


def test_what_is_done_in_one_tab_appears_in_the_other(web: Web) -> None:
    one, other = web.open("/memories"), web.open("/memories")
    web.live(other)
    one.keyboard.press("j")
    name = one.evaluate("document.querySelector('.row.current').dataset.name")
    one.keyboard.press("#")
    one.click("#preview-yes")
    other.wait_for_selector(f"[data-name={name}]", state="detached", timeout=5_000)
    one.keyboard.press("u")
    other.wait_for_selector(f"[data-name={name}]", timeout=5_000)


def test_the_theme_that_was_chosen_stays(web: Web) -> None:
    page = web.open("/memories", color_scheme="light")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.click("#theme")
    web.until(page, f"getComputedStyle(document.documentElement).backgroundColor !== '{light}'")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
