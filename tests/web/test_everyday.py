"""The everyday commands, done on the page at a desk and on a phone: by mouse, by touch and by keyboard."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest

from http_door.serving import served
from vademecum.memory import connect
from vademecum.transcripts import Message, Role, Text
from vademecum.types import Origin
from web.conftest import Site, Web

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from playwright.sync_api import Browser, Page

    from vademecum.memory import Memory

WINDOWS: dict[str, dict[str, Any]] = {
    "desk": {"viewport": {"width": 1280, "height": 800}, "color_scheme": "light"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "dark", "has_touch": True},
}


@pytest.fixture(params=WINDOWS)
def window(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def memory(site: Site) -> Iterator[Memory]:
    opened = site.memory()
    yield opened
    opened.close()


def opened(web: Web, window: str, path: str) -> Page:
    page = web.open(path, **WINDOWS[window])
    web.live(page)
    return page


def picture(web: Web, page: Page, name: str) -> None:
    """Axe finds nothing, nothing is cut off sideways, and a picture is kept."""
    assert page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth") <= 0
    web.keep_picture(page, name)
    web.check_access(page, name)


def test_a_memory_is_saved_found_edited_and_added_to(web: Web, memory: Memory, window: str) -> None:
    page = opened(web, window, "/today")
    if window == "desk":
        page.keyboard.press("n")
    else:
        page.click("#new-open")
    page.wait_for_selector("#new-text:focus")
    page.fill("#new-text", f"The {window} deploys at ten, said <b>loudly</b>.")
    page.fill("#new-name", f"Große of the {window}")
    page.fill("#new-tags", "#ops, staging")
    page.select_option("#new-type", "feedback")
    picture(web, page, f"new-{window}")
    page.keyboard.press("Control+Enter")
    page.wait_for_selector(".toast >> text=Saved as")
    key = f"grosse-of-the-{window}"
    saved = memory.show(key)
    assert (saved.title, saved.type, saved.tags) == (f"Große of the {window}", "feedback", ("ops", "staging"))
    assert str(saved.place.scope) == "project"

    page.fill("#find", f"{window} deploys")
    page.wait_for_selector(f"#found [role=option] >> text=Große of the {window}")
    picture(web, page, f"find-{window}")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(f"/records/{key}"))

    page.click("#edit")
    page.wait_for_selector("#field-texts textarea:focus")
    page.fill("#field-texts textarea", f"The {window} deploys at *eleven*.")
    page.fill("#field-title", f"When the {window} deploys")
    page.fill("#field-tags", "ops")
    page.wait_for_selector("#text-preview em >> text=eleven")
    picture(web, page, f"edit-{window}")
    page.click("#as-file")
    page.wait_for_selector("#text:focus")
    assert f"title: When the {window} deploys" in page.input_value("#text")
    page.fill("#text", page.input_value("#text").replace("*eleven*", "*noon*"))
    page.click("#as-fields")
    page.wait_for_selector("#field-texts textarea:focus")
    assert "noon" in page.input_value("#field-texts textarea")
    page.click("#save")
    page.wait_for_selector(".toast >> text=Saved")
    saved = memory.show(key)
    assert saved.text == f"The {window} deploys at *noon*."
    assert (saved.title, saved.tags) == (f"When the {window} deploys", ("ops",))

    page.click("[data-add-to]")
    page.fill("#new-text", "Never on Fridays.")
    page.click("#new-form [type=submit]")
    page.wait_for_selector(".entry >> text=Never on Fridays.")
    assert len(memory.show(key).entries) == 2


def test_an_archived_record_is_brought_back_from_three_places(web: Web, memory: Memory, window: str) -> None:
    key = f"away-{window}"
    memory.store(f"Goes away from the {window}.", key=key)

    def archive() -> Page:
        page = opened(web, window, f"/records/{key}")
        page.click("#archive")
        page.wait_for_url(re.compile("/memories"))
        return page

    page = archive()
    page.wait_for_selector(f".toast >> text=Away {window} is archived")
    page.click(".toast [data-undo]")
    page.wait_for_selector(f".toast >> text=Away {window} is back")
    assert memory.show(key).text == f"Goes away from the {window}."

    archive()
    page = opened(web, window, "/archive?q=goes+away")
    row = page.locator("[data-row]", has_text=f"Away {window}")
    assert "by you" in row.inner_text()
    picture(web, page, f"archive-{window}")
    row.locator("[data-bring-back]").click()
    page.wait_for_selector(f".toast >> text=Away {window} is restored")
    assert memory.show(key).text == f"Goes away from the {window}."

    archive()
    page = web.open(f"/records/{key}", expect=404, **WINDOWS[window])
    assert f"Goes away from the {window}." in page.inner_text("main")
    picture(web, page, f"archived-record-{window}")
    page.click("main >> text=Restore")
    page.wait_for_selector(f".entry >> text=Goes away from the {window}.")
    web.expect_errors("404")


@pytest.fixture(scope="module")
def beside(site: Site) -> str:
    """Another project of the same home, and its name."""
    folder = site.server.folder.parent / "borealis"
    (folder / ".git").mkdir(parents=True)
    with connect(
        home=site.server.home, cwd=folder, environ={}, origin=Origin.USER, actor="human:tester"
    ) as other:
        other.store("The lighthouse of borealis has a green lamp.", key="lamp")
    return "borealis"


def test_projects_are_searched_together_and_switched_by_name(web: Web, beside: str, window: str) -> None:
    page = opened(web, window, "/search?q=lighthouse+lamp")
    assert "Nothing found" in page.inner_text("#results")
    page.click("#results >> text=all projects")
    page.wait_for_selector("[data-row] >> text=Lamp")
    assert beside in page.inner_text("[data-row]")
    picture(web, page, f"search-all-{window}")
    page.click("[data-row] [data-open]")
    page.wait_for_url(re.compile(r"/@[^/]+/records/lamp"))
    web.go(page, "/journal")
    web.live(page)
    if window == "phone":
        page.click("#menu-open")
    page.click("[data-projects]")
    page.wait_for_selector(f"#palette-list >> text={beside}")
    page.keyboard.type("borea")
    picture(web, page, f"switch-{window}")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile(r"/@[^/]+/journal"))
    assert page.inner_text(".side .switch").strip().endswith(beside) or window == "phone"
    web.go(page, "/projects")
    assert beside in page.inner_text("main")
    picture(web, page, f"projects-{window}")


def test_nonsense_finds_nothing_and_a_conversation_opens_at_the_hit(web: Web, memory: Memory) -> None:
    log = memory.sessions.new(id="talk-1", name="The talk")
    lines = [Message(Role.USER, (Text(f"Line {number} of idle talk."),)) for number in range(30)]
    lines[20:20] = [
        Message(Role.USER, (Text(f"The walrus wears spats {each}."),)) for each in ("twice", "once")
    ]
    memory.sessions.record(log, lines)
    page = opened(web, "desk", "/search?q=zzqqxx+blorp")
    assert "Nothing found" in page.inner_text("#results")
    page.fill("#find", "walrus spats")
    page.wait_for_selector("[data-row] .also >> text=walrus")
    assert page.locator("[data-row]", has_text="walrus").count() == 1
    picture(web, page, "search-conversation")
    page.click("[data-row] [data-open]")
    page.wait_for_selector(".turn[aria-current] >> text=walrus")


def test_the_palette_searches_opens_adds_and_goes_to_views(web: Web, memory: Memory) -> None:
    memory.store("The palette finds the quince jam.", key="quince")
    page = opened(web, "desk", "/today")
    page.keyboard.press("Control+k")
    page.wait_for_selector("#palette-input:focus")
    page.keyboard.type("quince")
    page.wait_for_selector("#palette-list [role=option][aria-selected=true] >> text=Quince")
    picture(web, page, "palette")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/records/quince"))
    page.keyboard.press("Control+k")
    page.keyboard.type("run check")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/check"))
    web.live(page)
    page.keyboard.press("Control+k")
    page.keyboard.type("zzqqxx blorp")
    page.click("#palette-list >> text=Save “zzqqxx blorp” as a memory")
    assert page.input_value("#new-text") == "zzqqxx blorp"
    page.keyboard.press("Escape")
    page.reload()  # what was typed is still there
    web.live(page)
    page.keyboard.press("n")
    assert page.input_value("#new-text") == "zzqqxx blorp"


def test_what_is_typed_outlives_a_conflict_a_deletion_and_a_reload(web: Web, memory: Memory) -> None:
    memory.store("The contested text.", key="contested")
    page = opened(web, "desk", "/records/contested?edit=1")
    area = "#field-texts textarea"
    page.wait_for_selector(f"{area}:focus")
    page.fill(area, "My long text.")
    memory.care.tag(["contested"], add=["theirs"])  # changed on disk meanwhile, in another field
    page.click("#save")
    page.wait_for_selector("#conflict", state="visible")
    assert "+My long text." in page.inner_text("#between")
    page.click("#keep-mine")
    page.wait_for_selector(".toast >> text=Saved")
    assert (memory.show("contested").text, memory.show("contested").tags) == ("My long text.", ("theirs",))

    page.click("#edit")
    page.wait_for_selector(f"{area}:focus")
    page.fill(area, "A later text.")
    memory.forget("contested")  # deleted while it is open
    page.wait_for_selector("#changed", state="visible")
    page.click("#save")
    page.wait_for_selector("#wrong >> text=archived or deleted meanwhile")
    assert page.input_value(area) == "A later text."
    picture(web, page, "edit-deleted")
    page.click("#bring-back")
    page.wait_for_selector("#editor", state="hidden")
    assert memory.show("contested").text == "A later text."

    page.click("#edit")
    page.wait_for_selector(f"{area}:focus")
    page.fill(area, "Typed before a reload.")
    page.on("dialog", lambda dialog: dialog.accept())
    page.reload()
    page.wait_for_selector("#saving >> text=your text that was not saved")
    assert page.input_value(area) == "Typed before a reload."
    page.click("#cancel")
    web.expect_errors("409", "404")


def test_what_is_typed_outlives_a_server_that_is_started_again(
    chromium: Browser, axe: str, tmp_path: Path
) -> None:
    folder, home = tmp_path / "atlas", tmp_path / "home"
    (folder / ".git").mkdir(parents=True)
    with served(folder, home=home, HOME=str(tmp_path)) as server:
        web = Web(Site(server, chromium), axe)
        with web.site.memory() as memory:
            memory.store("The lasting text.", key="lasting")
        page = opened(web, "desk", "/records/lasting?edit=1")
        page.wait_for_selector("#field-texts textarea:focus")
        page.fill("#field-texts textarea", "Typed before the server went away.")
    with served(folder, "--port", str(server.port), home=home, HOME=str(tmp_path)) as server:
        page.click("#save")
        page.wait_for_selector("#again[open]")
        picture(web, page, "session-ended")
        page.fill("#again-link", f"http://127.0.0.1:{server.port}{server.link}")
        page.click("#again >> text=Go on")
        page.wait_for_selector(".toast >> text=Saved")
        with web.site.memory() as memory:
            assert memory.show("lasting").text == "Typed before the server went away."
        page.click(".side >> text=Journal")
        page.wait_for_url(re.compile("/journal"))
    page.context.close()
    web.expect_errors("401", "ERR_", "/events")
    web.close()
