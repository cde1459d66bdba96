"""Search in a browser: as one types, sure and unsure apart, why each stands where, and what was covered."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from web.conftest import Site, Web


@pytest.fixture(scope="module", autouse=True)
def _filled(site: Site) -> None:
    person = site.memory()
    person.store(
        "The staging database is PostgreSQL 16.\nIt runs on port 5433.", key="database", tags=["ops"]
    )
    person.store("Deploys run from main at ten.", key="deploys", tags=["ops"])
    person.store("I like short answers.", key="answers", type="user", scope="global")
    person.close()


def test_results_come_as_one_types_and_the_address_keeps_up(web: Web) -> None:
    page = web.open("/search")
    page.type("#find", "which port has the database", delay=5)
    page.wait_for_selector("#results >> text=Strong matches")
    assert page.inner_text("mark >> nth=0").lower() in ("database", "port")
    assert page.input_value("#find") == "which port has the database"
    page.wait_for_url(re.compile(r"q=which\+port"))
    page.reload()
    page.wait_for_selector("#results >> text=Strong matches")


def test_each_result_says_why_it_stands_where_it_stands(web: Web) -> None:
    page = web.open("/search?q=staging%20database")
    page.click("text=Why this rank >> nth=0")
    parts = page.locator(".result >> nth=0 >> .legend li").all_inner_texts()
    assert any(each.startswith("words here") for each in parts)
    assert page.locator(".result >> nth=0 >> svg.bar rect").count() == len(parts)
    page.click("text=What did it cover?")
    assert "3 of 3" in page.inner_text(".covered .facts")
    web.inspect(page, "search")


def test_filters_are_chips_that_can_be_taken_off(web: Web) -> None:
    page = web.open("/search?q=port%20tag%3Aops")
    assert page.locator(".result").count() >= 1
    page.click("[aria-label='Remove tag:ops']")
    page.wait_for_url(re.compile(r"\?q=port$"))
    page.click("text=+ last week")
    page.wait_for_url(re.compile(r"after%3A\d{4}-"))
    page.click("text=only records")
    page.wait_for_url(re.compile("only=records"))


def test_nothing_found_says_what_was_looked_through(web: Web) -> None:
    page = web.open("/search?q=tag%3Anothing")
    assert "Nothing found" in page.inner_text("#results")
    assert "3 files were looked through" in page.inner_text("#results")
    web.check_access(page, "nothing found")


def test_an_empty_question_teaches_how_to_ask(web: Web) -> None:
    page = web.open("/search")
    assert "Ask your memory" in page.inner_text("#results")
    page.click(".chip >> text=tag:ops")
    page.wait_for_selector(".result >> text=deploys")


def test_from_a_result_the_keyboard_reaches_the_record(web: Web) -> None:
    page = web.open("/search?q=deploys")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/records/deploys\?scope=project"))
    assert page.inner_text("h1") == "Deploys"
