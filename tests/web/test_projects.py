"""The page of another project than the one served: it stays in it, and what is done there is done there."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

import pytest

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

    from playwright.sync_api import Page

    from vademecum.memory import Memory
    from web.conftest import Site, Web

KEYS = ("deploys", "port", "answers", "many-1", "many-2")


class Two(NamedTuple):
    """The project that is served and another one, with the same keys."""

    site: Site
    other: Path
    served_id: str
    other_id: str

    def memory(self) -> Memory:
        """The other one's memory, as a person has it."""
        return connect(
            home=self.site.server.home, cwd=self.other, environ={}, origin=Origin.USER, actor="human:tester"
        )

    def files(self) -> dict[str, bytes]:
        """All that is kept of the served project."""
        root = self.site.server.home / "memory" / "project" / self.served_id
        return {str(each.relative_to(root)): each.read_bytes() for each in root.rglob("*") if each.is_file()}


@pytest.fixture(scope="module")
def two(site: Site) -> Two:
    """Two projects whose records have the same keys."""
    other = site.server.folder.parent / "borealis"
    (other / ".git").mkdir(parents=True)
    made = Two(site, other, "", "")
    ids = []
    for memory, name in ((site.memory(), "atlas"), (made.memory(), "borealis")):
        for key in KEYS:
            memory.store(f"The {key} of {name}.", key=key)
        _, empty = memory.care.editable("context.md", scope="project")
        memory.care.edited("context.md", empty, f"# Stack\nOf {name}.\n", scope="project")
        memory.note(f"A note of {name}.")
        assert memory.caller.project
        ids.append(memory.caller.project.id)
        memory.close()
    return made._replace(served_id=ids[0], other_id=ids[1])


def is_in_other(two: Two, page: Page) -> bool:
    return f"{two.site.door}/@{two.other_id}/" in page.url


def test_a_page_of_another_project_changes_nothing_of_the_served_one(web: Web, two: Two) -> None:
    before = two.files()
    assert len(before) > len(KEYS)
    page = web.open(f"/memories?project={two.other_id}")
    assert is_in_other(two, page)
    assert "borealis" in page.locator("main").inner_text()
    edit(page)
    archive(page)
    note(page)
    pin(page)
    many(page)
    web.expect_errors("404")  # the page of a record that was archived just now
    with two.memory() as memory:
        assert "edited here" in memory.get("deploys").text
        assert "port" not in {each.key for each in memory.list()}
        assert "Noted here." in memory.notes_of_today().text
        assert "Pinned here." in memory.care.editable("context.md", scope="project")[1]
        assert not {"many-1", "many-2"} & {each.key for each in memory.list()}
    assert two.files() == before


def edit(page: Page) -> None:
    page.click("[data-open] >> text=Deploys")
    page.wait_for_url(re.compile(r"/@[^/]+/records/deploys"))
    page.keyboard.press("e")
    box = page.locator("#field-texts textarea")
    box.wait_for()
    box.fill(box.input_value().replace("of borealis", "edited here"))
    page.click("#save")
    page.locator(".toast").wait_for()


def archive(page: Page) -> None:
    page.goto(re.sub(r"/records/.*", "/records/port?scope=project", page.url))
    page.click("#archive")
    page.locator(".toast", has_text="archived").wait_for()


def note(page: Page) -> None:
    page.keyboard.press("g")
    page.keyboard.press(page.locator("a", has_text="Journal").first.get_attribute("data-go") or "")
    page.wait_for_url(re.compile(r"/@[^/]+/journal"))
    page.locator("#note-text").fill("Noted here.")
    page.keyboard.press("Control+Enter")
    page.locator(".notes", has_text="Noted here.").wait_for()


def pin(page: Page) -> None:
    page.goto(re.sub(r"/journal.*", "/pinned/context.md?scope=project", page.url))
    box = page.locator("#text:not([readonly])")
    box.wait_for()
    box.fill(box.input_value() + "Pinned here.\n")
    page.keyboard.press("Control+s")
    page.get_by_text("Saved context.md").wait_for()


def many(page: Page) -> None:
    page.goto(re.sub(r"/pinned/.*", "/memories?sort=key", page.url))
    for key in ("many-1", "many-2"):
        while page.evaluate("document.querySelector('[data-row].current')?.dataset.name") != key:
            page.keyboard.press("j")
        page.keyboard.press("x")
    page.keyboard.press("#")
    page.click("#preview-yes")
    page.wait_for_selector("text=2 records archived")


def test_every_address_of_a_page_stays_in_its_project(web: Web, two: Two) -> None:
    page = web.open("/", java_script_enabled=False)
    menu = page.eval_on_selector_all("nav.side a", "all => all.map(each => each.getAttribute('href'))")
    base = f"{two.site.door}/@{two.other_id}/"
    paths = [each.removeprefix(two.site.door) for each in menu]
    for path in (*paths, "/records/deploys", "/pinned/context.md?scope=project", "/records/missing"):
        gone = path.endswith("missing")
        joined = f"{path}{'&' if '?' in path else '?'}project={two.other_id}"
        web.go(page, joined, expect=404 if gone else 200)
        assert page.url.startswith(f"{two.site.address}{base}"), path
        found = page.eval_on_selector_all(
            "[href], [action]",
            """all => all.filter(each => !each.closest("svg, head") && each.method !== "dialog")
                .map(each => each.getAttribute("href") ?? each.getAttribute("action"))""",
        )
        inside = [each for each in found if each not in (None, f"{two.site.door}/")]
        assert inside, path
        assert [each for each in inside if not each.startswith((base, "?", "#", "deploys?"))] == [], path
        assert f"{two.site.door}/" in found  # the one way back
    web.expect_errors("404")


def test_the_way_back_leads_to_the_served_project(web: Web, two: Two) -> None:
    page = web.open(f"/journal?project={two.other_id}")
    web.inspect(page, "other-project")
    page.click("text=Back to the project that is served")
    page.wait_for_url(re.compile(r"/~[^/@]+/memories"))
    assert "/@" not in page.url
    web.go(page, f"/journal?project={two.served_id}")
    assert "/@" not in page.url


def test_a_project_that_is_not_known_is_refused_with_a_way_back(web: Web, two: Two) -> None:
    page = web.open("/memories?project=nowhere", expect=404)
    web.expect_errors("404")
    assert "no project nowhere is known here" in page.locator("main").inner_text()
    page.click("text=Back to the project that is served")
    page.wait_for_url(re.compile("/memories"))
    assert page.locator("[data-row]").count()
    assert two.served_id
