"""Settings, Sources, Audit, Time travel and Graph in a browser."""

from __future__ import annotations

import json
import random
import re
import statistics
import time
from collections import Counter
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from vademecum.memory import connect
from vademecum.types import Origin
from web.conftest import HANG, PICTURES

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from playwright.sync_api import Page

    from web.conftest import Site, Web

NOW = datetime.now(UTC)
LATER = NOW - timedelta(days=20)
LONG_AGO = NOW - timedelta(days=200)


@pytest.fixture(scope="module", autouse=True)
def _filled(site: Site) -> None:
    """A memory with a past: texts that were replaced or archived since, by a person and an agent."""
    server = site.server

    def at(moment: datetime) -> dict[str, object]:
        return {"home": server.home, "cwd": server.folder, "environ": {}, "now": lambda: moment}

    person = {"origin": Origin.USER, "actor": "human:tester"}
    with connect(**at(LONG_AGO), **person) as memory:  # type: ignore[arg-type]
        memory.store("Deploys go out on Mondays.", key="deploys", tags=["ops"])
        memory.store("The old wiki is at wiki.example, see [[deploys]].", key="wiki")
        memory.store("Rollbacks follow [[deploys]].", key="rollbacks", type="rule")
    with connect(**at(LATER), **person) as memory:  # type: ignore[arg-type]
        memory.store("Deploys go out on Tuesdays.", key="deploys", mode="replace")
        memory.forget("wiki")
    with site.memory(agent="claude-code 2.1") as agent:
        agent.store("The retry test is flaky, and so are [[rollbacks]].", key="flaky", type="discovery")


def json_of(page: Page) -> dict[str, object]:
    told: dict[str, object] = page.evaluate(
        "fetch(document.querySelector('[aria-label=\"This page as JSON\"]').href).then(r => r.json())"
    )
    return told


# ---------------------------------------------------------------- settings


def test_settings_say_where_each_value_came_from_and_are_found_by_words(web: Web) -> None:
    page = web.open("/settings")
    assert page.locator(".setting").count() > 50
    page.fill("main [name=q]", "dedup window")
    page.click("main [type=submit]")
    page.wait_for_url(re.compile("q=dedup"))
    row = page.locator(".setting", has_text="dedup.window_days")
    assert "VADE_DEDUP_WINDOW_DAYS" in (row.text_content() or "")
    row.locator("summary").click()
    row.locator("[name=value]").fill("9")
    row.locator("[type=submit]").click()
    page.wait_for_selector(".toast >> text=dedup.window_days = 9")
    page.wait_for_selector(".value.own >> text=9")
    page.keyboard.press("Escape")
    page.keyboard.press("u")
    page.wait_for_selector(".value.own", state="detached")
    assert json_of(page)["matching"] == page.locator(".setting").count()


def test_settings_are_accessible_at_every_width(web: Web) -> None:
    web.inspect(web.open("/settings"), "settings")


# ---------------------------------------------------------------- sources


def test_a_folder_is_attached_and_detached_on_the_page_and_an_undo_brings_it_back(
    web: Web, tmp_path: Path
) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "garden.md").write_text("# Garden\n")
    page = web.open("/sources")
    assert "No folder is attached" in page.inner_text("main")
    web.check_access(page, "sources, empty")
    page.fill("#src-path", str(tmp_path / "notes"))
    page.click("text=Attach >> nth=-1")
    page.wait_for_selector("#src-notes")
    assert "1 file" in page.inner_text("#src-notes")
    web.inspect(page, "sources")
    page.click("[aria-label='Detach notes']")
    page.wait_for_selector("#src-notes", state="detached")
    page.click(".toast [data-undo] >> nth=-1")
    page.wait_for_selector("#src-notes")
    page.click("[aria-label='Detach notes']")
    page.wait_for_selector("#src-notes", state="detached")
    assert (tmp_path / "notes" / "garden.md").exists()


def test_a_folder_that_is_not_there_is_refused_with_a_hint(web: Web, tmp_path: Path) -> None:
    page = web.open("/sources")
    page.fill("#src-path", str(tmp_path / "nowhere"))
    page.click("text=Attach >> nth=-1")
    page.wait_for_selector(".toast[data-tone=bad]")
    assert "does not exist" in page.inner_text(".toast[data-tone=bad]")
    web.expect_errors("status of 4")


# ---------------------------------------------------------------- audit


def test_the_audit_leads_to_records_and_is_narrowed_down(web: Web) -> None:
    page = web.open("/audit")
    assert "chain is whole" in page.inner_text("main")
    total = page.locator("main [data-row]").count()
    page.click(".facet >> text=claude-code")
    page.wait_for_url(re.compile("by=claude"))
    rows = page.locator("main [data-row]")
    assert 0 < rows.count() < total
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/records/"))
    assert "flaky" in page.inner_text("h1").lower()


def test_the_audit_is_accessible_at_every_width(web: Web) -> None:
    web.inspect(web.open("/audit"), "audit")


# ---------------------------------------------------------------- time travel


def test_the_slider_shows_memory_as_of_a_day_and_the_address_stays(web: Web) -> None:
    page = web.open("/time")
    assert "Deploys go out on Tuesdays." in page.inner_text("#past")
    page.focus("#slide")
    page.keyboard.press("Home")
    web.until(page, "document.querySelector('#past').innerText.includes('Mondays')")
    first = page.inner_text("#past")
    assert "replaced since" in first
    assert "archived since" in first
    assert "flaky" not in first
    assert page.url.endswith(f"at={LONG_AGO:%Y-%m-%d}")
    page.reload()
    assert "Deploys go out on Mondays." in page.inner_text("#past")
    page.click("#past >> text=today")
    web.until(page, "!document.querySelector('#past').innerText.includes('archived since')")
    page.locator("h1").click()
    page.keyboard.press("[")
    yesterday = f"{NOW - timedelta(days=1):%Y-%m-%d}"
    web.until(page, f"document.querySelector('#at').value === '{yesterday}'")


def test_time_travel_is_accessible_and_works_without_javascript(web: Web) -> None:
    web.inspect(web.open(f"/time?at={LONG_AGO:%Y-%m-%d}"), "time")
    page = web.open("/time", java_script_enabled=False)
    page.fill("#at", f"{LONG_AGO:%Y-%m-%d}")
    page.click("#travel [type=submit]")
    assert "Deploys go out on Mondays." in page.inner_text("#past")
    page.fill("#at", f"{LONG_AGO - timedelta(days=3):%Y-%m-%d}")
    page.click("#travel [type=submit]")
    assert "Memory was empty on this day" in page.inner_text("#past")


def test_what_is_no_day_is_a_page_that_says_how_to_write_one(web: Web) -> None:
    page = web.open("/time?at=someday", expect=400)
    assert "2026-11-15" in page.inner_text("main")
    web.expect_errors("status of 400")


# ---------------------------------------------------------------- graph


def settled(web: Web, page: Page) -> None:
    web.until(page, "document.querySelector('#graph').dataset.state === 'done'")


def test_the_list_beside_the_picture_leads_from_record_to_record_by_keyboard(web: Web) -> None:
    page = web.open("/graph")
    settled(web, page)
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("focus="))
    web.until(page, "document.querySelector('#list h2') !== null")
    joined = page.eval_on_selector_all("#list [data-row]", "rows => rows.map(row => row.dataset.path)")
    assert joined
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    web.until(page, f"document.querySelector('#list').dataset.focus === {joined[0]!r}")
    page.go_back()
    web.until(page, f"document.querySelector('#list').dataset.focus !== {joined[0]!r}")
    page.click("#list >> text=Open")
    page.wait_for_url(re.compile("/records/"))


def test_a_node_is_focused_by_a_click_and_what_is_new_appears_in_the_picture(web: Web, site: Site) -> None:
    page = web.open("/graph")
    settled(web, page)
    web.live(page)
    box = page.locator("#graph").bounding_box()
    assert box
    # The picture fits its frame: a click on every place of a grid meets a node somewhere.
    for step in range(400):
        page.mouse.click(
            box["x"] + box["width"] * (step % 20 + 0.5) / 20,
            box["y"] + box["height"] * (step // 20 + 0.5) / 20,
        )
        if "focus=" in page.url:
            break
    assert "focus=" in page.url
    before = page.get_attribute("#graph", "aria-label")
    with site.memory() as memory:
        memory.store("Alarms are muted during [[deploys]].", key="alarms")
    web.until(page, "document.querySelector('.lead').innerText.startsWith('4 records')")
    assert before != ""


def test_the_graph_is_accessible_and_its_list_reads_without_javascript(web: Web) -> None:
    page = web.open("/graph")
    settled(web, page)
    web.inspect(page, "graph")
    plain = web.open("/graph?type=rule", java_script_enabled=False)
    assert plain.locator("#list [data-row]").count() == 1
    plain.click("#list [data-row] a")
    assert "by a [[link]]" in plain.inner_text("#list")


def large_graph(size: int) -> dict[str, object]:
    """A graph as memory makes them: a few hubs, many with an edge or two."""
    dice = random.Random(7)
    edges = [
        [at, int(at * dice.random() ** 2), 0] for at in range(1, size) for _ in range(dice.choice((1, 1, 2)))
    ]
    degree = Counter(each for a, b, _ in edges for each in (a, b))
    types = ["project", "rule", "discovery", "solution"]
    nodes = [
        {"path": f"n{at}.md", "key": f"n{at}", "title": f"Record {at}", "scope": "project"}
        | {"type": types[at % 4], "tags": [], "page": True, "degree": degree[at]}
        for at in range(size)
    ]
    return {"nodes": nodes, "edges": edges, "types": types}


def test_five_thousand_records_are_drawn_while_they_move(
    web: Web, record_property: Callable[[str, object], None]
) -> None:
    page = web.open("/graph")
    page.emulate_media(reduced_motion="no-preference")
    told = json.dumps(large_graph(5_000))
    page.route("**/graph.json*", lambda route: route.fulfill(body=told, content_type="application/json"))
    page.reload()
    page.set_default_timeout(4 * HANG)
    ends = time.monotonic() + 4 * HANG / 1000
    while page.get_attribute("#graph", "data-state") != "done":
        assert time.monotonic() < ends
        page.wait_for_timeout(200)
    frames = page.evaluate("performance.getEntriesByName('vade-graph-frame').map(each => each.duration)")
    assert len(frames) > 10
    record_property("frames", len(frames))
    record_property("median_ms", statistics.median(frames))
    print(f"{len(frames)} frames, {statistics.median(frames):.2f} ms of script at the median")
    PICTURES.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=PICTURES / "graph-5000.png")
