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
    page.click("[aria-label='Remove agent claude-code']")
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


def test_the_theme_that_was_chosen_stays(web: Web) -> None:
    page = web.open("/memories", color_scheme="light")
    light = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    page.click("#theme")
    dark = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert dark != light
    page.reload()
    assert page.evaluate("getComputedStyle(document.documentElement).backgroundColor") == dark
