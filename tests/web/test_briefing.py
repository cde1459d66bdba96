"""What my agent is told, in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from web.conftest import Site, Web

HOSTILE = (
    '<script>window.hacked = 1</script> <img src=x onerror="window.hacked = 1"> [x](javascript:alert(1))'
)


@pytest.fixture(scope="module", autouse=True)
def _filled(site: Site) -> None:
    memory = site.memory()
    for number in range(42):
        memory.store(f"Fact number {number} is about topic {number * 7}.", key=f"fact-{number}")
    memory.store(HOSTILE, key="hostile")
    memory.note("Deployed at noon.")


def test_the_block_is_shown_as_it_is_sent_with_its_reasons(web: Web) -> None:
    page = web.open("/briefing")
    sent = web.site.memory().injection.block(recent=True, notices=True).text
    assert page.locator("#block").inner_text().strip() == sent.strip()
    assert page.get_by_role("heading", name=re.compile("tokens$")).count() == 1
    assert (
        "only 40 records of project memory are told"
        in page.locator("section", has_text="What is out").inner_text()
    )
    assert page.evaluate("window.hacked") is None
    web.inspect(page, "briefing")


def test_something_is_left_out_and_taken_in_again(web: Web) -> None:
    page = web.open("/briefing")
    page.get_by_role("link", name="Leave out hostile in this preview").click()
    page.wait_for_url(re.compile("without="))
    effect = page.get_by_label("Effect").inner_text()
    assert "Nothing was changed" in effect
    assert "hostile" in effect
    assert "hostile" not in page.locator("#block").inner_text()
    page.get_by_role("link", name="Include hostile again").click()
    page.wait_for_load_state()
    assert page.get_by_label("Effect").count() == 0
    assert "hostile" in page.locator("#block").inner_text()


def test_a_prompt_and_a_budget_are_tried_from_the_keyboard(web: Web) -> None:
    page = web.open("/briefing")
    page.get_by_label("A prompt, to see what it brings back").fill("what is fact number 2 about?")
    page.get_by_label("Token budget").fill("200")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("tokens=200"))
    assert page.get_by_role("heading", name="With this prompt").count() == 1
    assert "of a budget of 200" in page.locator("main").inner_text()
    page.get_by_role("link", name="Reset").click()
    page.wait_for_load_state()
    assert "tokens=" not in page.url


def test_the_same_is_there_as_json_and_without_a_script(web: Web) -> None:
    page = web.open("/briefing", java_script_enabled=False)
    assert "Fact number 3" in page.locator("#block").inner_text()
    told = page.request.get(
        page.url.replace("/briefing", "/briefing.json") + "?agent=kiro&prompt=fact+number+1"
    )
    assert told.json()["agent"] == "kiro"
