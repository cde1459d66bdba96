"""The hub's page in a real browser: what members see, edit and decide, light and dark, on a phone too."""

from __future__ import annotations

import contextlib
import re
from typing import TYPE_CHECKING, Any

import pytest

from hub.databases import WHY_NOT, served
from hub.hubs import World, world_of
from hub.pages import STREAM, Machine, entry, link_of
from web.conftest import Web

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext

PATH = "records/deploy-checklist.md"
HOSTILE = "<script>window.hit=1</script> <img src=x onerror=window.hit=1> [x](javascript:window.hit=1)"


class HubSite:
    """A hub that is served, and a browser that one of its members opened the page in."""

    def __init__(self, world: World, chromium: Browser, token: str | None = None) -> None:
        self.world, self.address, self._chromium = world, world.url, chromium
        context = chromium.new_context()
        page = context.new_page()
        page.goto(world.url + link_of(world, token))
        page.wait_for_url("**/activity")
        self.door = "/" + page.url.split("/")[3]
        self._state = context.storage_state()
        context.close()

    def context(self, **given: Any) -> BrowserContext:
        return self._chromium.new_context(storage_state=self._state, reduced_motion="reduce", **given)


@pytest.fixture(scope="module")
def hub() -> Iterator[World]:
    """A team of three with a record, an agent's idea, a conflict and a purge."""
    if WHY_NOT:
        pytest.skip(f"no PostgreSQL: {WHY_NOT}")
    with contextlib.contextmanager(served)() as postgres:
        name = postgres.database()
        with world_of(postgres, postgres.url(name)) as world:
            world.sql("UPDATE hub.workspace SET name = 'Atlas team'")
            world.sql("UPDATE hub.token SET label = 'studio', replica = 'aaaaaaaa'")
            bert = world.member("bert", "editor", replica="bbbbbbbb")
            world.member("rita", "reader", replica="cccccccc")
            fill(world, bert)
            yield world


def fill(world: World, bert: str) -> None:
    anna, his = Machine(world, "aaaaaaaa", world.anna), Machine(world, "bbbbbbbb", bert)
    text = entry("Deploy on **Mondays**, after the standup.", "aaaa1111")
    text += "\n" + entry("Ask Bert before the database changes.", "bbbb2222", time="2026-11-02T10:00:00Z")
    assert anna.write(PATH, f"---\ntitle: Deploy checklist\ntags: [release]\n---\n{text}").status == 200
    agent = Machine(world, "dddddddd", world.token_of("anna", "read", "write"), agent=True)
    agent.pull()
    idea = entry("The staging database is rebuilt every night at two.", "cccc3333", origin="agent")
    assert agent.write("records/staging.md", idea, door="mcp").status == 200
    his.pull()
    assert his.write("records/hostile.md", entry(HOSTILE, "dddd4444")).status == 200
    anna.pull()
    his.pull()
    other = anna.pull()[PATH]
    assert anna.write(PATH, other.replace("Mondays", "Tuesdays")).status == 200
    assert his.write(PATH, other.replace("Mondays", "Fridays")).status == 200


@pytest.fixture
def web(hub: World, chromium: Browser, axe: str) -> Iterator[Web]:
    """The owner's browser, for one test."""
    made = Web(HubSite(hub, chromium), axe)  # type: ignore[arg-type]  # all that it asks of a site is there
    yield made
    made.close()


def open_as(web: Web, hub: World, chromium: Browser, name: str) -> Web:
    return Web(HubSite(hub, chromium, hub.token_of(name)), "")  # type: ignore[arg-type]  # as above


def document(web: Web, hub: World, path: str) -> str:
    (doc,) = [
        doc
        for (doc,) in hub.sql(
            "SELECT doc FROM hub.fact WHERE kind = 'name' AND value = %s", f'"{path}"'.encode()
        )
    ]
    return f"/document?stream={STREAM}&doc={doc}"


@pytest.mark.parametrize("name", ["activity", "documents", "search", "review", "members"])
def test_each_page_is_readable_by_everybody_at_every_width(web: Web, name: str) -> None:
    page = web.open(f"/{name}")
    assert page.inner_text("h1").lower() == name
    assert "Atlas team" in page.inner_text(".top")
    web.inspect(page, f"hub-{name}")


def test_on_a_phone_nothing_is_cut_off(web: Web, hub: World) -> None:
    page = web.open("/activity", viewport={"width": 390, "height": 844}, color_scheme="dark")
    pages = ("/activity", "/documents", "/search?q=deploy", "/review", "/members")
    for path in (*pages, document(web, hub, PATH)):
        web.go(page, path)
        assert page.evaluate(
            "document.documentElement.scrollWidth <= document.documentElement.clientWidth"
        ), path
        here = page.locator(".side a[aria-current]").bounding_box()
        assert here is None or here["x"] >= 0, path
        assert here is None or here["x"] + here["width"] <= 390, path
    web.go(page, "/review")
    widths = page.eval_on_selector_all(".card > header h3", "all => all.map(each => each.clientWidth)")
    assert min(widths) >= 170, "a title is broken up beside the name of its place"


def test_activity_says_which_agent_wrote_through_what(web: Web) -> None:
    page = web.open("/activity?who=agents")
    assert page.locator("[data-row]").count() == 1
    line = page.inner_text("[data-row]")
    assert "through mcp" in line
    assert "The staging database" in line


def test_search_from_any_page_shows_whose_entry_answers_and_leads_to_it(web: Web, hub: World) -> None:
    page = web.open("/activity")
    page.keyboard.press("/")
    page.keyboard.type("when is the staging database rebuilt")
    page.keyboard.press("Enter")
    page.wait_for_url("**/search?q=*")
    row = page.locator("[data-row]").first
    said = row.inner_text()
    assert "every night at two" in said
    assert "through mcp" in said
    assert "agent" in said
    assert "not given to agents" in said
    assert "project/atlas" in said
    assert row.locator("mark").count()
    web.inspect(page, "hub-search-results")
    page.focus("#find")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/document\?.*#e-"))
    entry = page.url.partition("#")[2]
    assert "every night at two" in page.inner_text(f"[id='{entry}']")


def test_search_answers_as_one_types_and_hostile_texts_are_shown_as_they_are(web: Web) -> None:
    page = web.open("/search")
    page.type("#find", "script window hit <img src=x onerror=window.hit=1>", delay=5)
    page.wait_for_selector("[data-row] >> text=<script>")
    assert page.evaluate("window.hit") is None
    assert page.locator("main script, main img[src=x]").count() == 0
    page.fill("#find", "")
    page.wait_for_selector("text=Search this workspace")
    page.fill("#find", "tag:nothing-has-this zebra")
    page.wait_for_selector("text=Nothing answers this")


def test_an_edit_is_saved_shown_and_told_to_others_who_look(web: Web, hub: World) -> None:
    page, other = web.open(document(web, hub, "records/staging.md")), web.open("/activity")
    web.live(other)
    page.click("[data-edit]")
    page.fill(
        "textarea[name=text] >> visible=true >> nth=0",
        "The staging database is rebuilt every night at three.",
    )
    page.click("form[data-editing] button[type=submit]")
    page.wait_for_selector("text=at three")
    other.wait_for_selector("text=at three")
    page.fill("#add-text", "Added on the page.")
    page.click("#add button[type=submit]")
    page.wait_for_selector(".entry >> text=Added on the page.")
    assert hub.sql("SELECT DISTINCT author FROM hub.fact WHERE door = 'page'") == [("anna",)]
    web.inspect(page, "hub-document")
    page.click(".entry >> nth=0 >> [data-vouch=yes]")
    page.wait_for_selector("text=given to agents >> nth=0")
    page.click(".entry >> nth=1 >> [data-remove]")
    web.until(page, "document.querySelectorAll('.entry').length === 1")


def test_what_is_typed_stays_while_others_change_the_page(web: Web, hub: World) -> None:
    page = web.open(document(web, hub, "records/hostile.md"))
    web.live(page)
    page.fill("#add-text", "Half a sentence")
    anna = Machine(hub, "eeeeeeee", hub.token_of("anna"))
    text = anna.pull()["records/hostile.md"]
    more = entry("Another entry.", "eeee5555", time="2026-11-05T10:00:00Z")
    assert anna.write("records/hostile.md", f"{text}\n{more}").status == 200
    page.wait_for_selector("text=Another entry.")
    assert page.input_value("#add-text") == "Half a sentence"
    assert page.evaluate("window.hit") is None
    assert page.locator("main script, main img[src=x]").count() == 0


def test_an_entry_that_was_changed_meanwhile_is_shown_beside_what_was_typed(web: Web, hub: World) -> None:
    page = web.open(document(web, hub, "records/hostile.md"))
    page.click(".entry >> nth=0 >> [data-edit]")
    page.fill(".entry >> nth=0 >> textarea", "What I typed.")
    anna = Machine(hub, "ffffffff", hub.token_of("anna"))
    text = anna.pull()["records/hostile.md"]
    assert anna.write("records/hostile.md", text.replace(HOSTILE, "What others wrote.")).status == 200
    page.click(".entry >> nth=0 >> form button[type=submit]")
    page.wait_for_selector(".entry >> nth=0 >> text=What others wrote.")
    assert page.input_value(".entry >> nth=0 >> textarea") == "What I typed."
    web.expect_errors("409")
    page.click(".entry >> nth=0 >> form button[type=submit]")
    page.wait_for_selector(".entry >> nth=0 >> .prose >> text=What I typed.")


def test_a_conflict_is_settled_and_gone_and_a_reader_cannot(web: Web, hub: World, chromium: Browser) -> None:
    reader = open_as(web, hub, chromium, "rita")
    looking = reader.open("/review")
    assert looking.locator("[data-conflict]").count() == 1
    assert looking.locator("[data-keep-version], [data-vouch], [data-edit]").count() == 0
    page = web.open("/review")
    versions = page.locator("[data-conflict] pre").all_inner_texts()
    assert len(versions) == 2
    page.click("[data-conflict] [data-buttons] [data-edit]")
    page.fill("[data-conflict] textarea", "Deploy on Wednesdays.")
    page.click("[data-conflict] [data-editing] button[type=submit]")
    web.until(page, "!document.querySelector('[data-conflict]')")
    web.go(page, document(web, hub, PATH))
    assert "Deploy on Wednesdays." in page.inner_text(".entry >> nth=0")
    reader.close()


def test_two_people_are_needed_once_an_owner_says_so(web: Web, hub: World, chromium: Browser) -> None:
    page = web.open("/members")
    page.click("[data-two-person=on]")
    page.wait_for_selector("text=Two people are needed.")
    web.go(page, document(web, hub, PATH))
    assert "1 of 2 people" in page.inner_text(".entry >> nth=1")
    page.click(".entry >> nth=1 >> [data-vouch=yes]")
    page.wait_for_selector(".toast >> text=somebody else has to verify")
    web.expect_errors("403")
    his = open_as(web, hub, chromium, "bert")
    other = his.open(document(web, hub, PATH))
    other.click(".entry >> nth=1 >> [data-vouch=yes]")
    other.wait_for_selector(".entry >> nth=1 >> text=2 of 2 people")
    his.close()


def test_logging_out_ends_the_session(web: Web) -> None:
    page = web.open("/activity")
    page.click("#leave")
    page.wait_for_selector("text=not let in")
    assert page.goto(f"{web.site.address}{web.site.door}/activity").status == 401  # type: ignore[union-attr]  # answered
    web.expect_errors("401")
