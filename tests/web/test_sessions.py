"""Sessions, in a browser."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import MessageEvent, Used

if TYPE_CHECKING:
    from web.conftest import Site, Web

HOSTILE = (
    '<script>window.hacked = 1</script> <svg onload="window.hacked = 1"> [x](javascript:alert(1)) \u202egnp'
)
SAVED = "The deploy job waits for the smoke test."


@pytest.fixture(scope="module", autouse=True)
def _filled(site: Site) -> None:
    memory = site.memory()
    log = memory.sessions.new(id="deploys", name="Fix the deploy job", model="some-model")

    def say(role: Role, *parts: object) -> None:
        log.append(MessageEvent(Message(role, tuple(parts))))  # type: ignore[arg-type]  # parts of any kind

    say(Role.USER, Text("Why does the deploy fail?"))
    say(Role.ASSISTANT, Text("I'll **look**."), ToolCall("c1", "Bash", '{"command": "gh run view"}'))
    say(Role.TOOL, ToolResult("c1", (Text(f"{SAVED}\n" + "x" * 20_000),), error=True))
    log.append(Used(input=14_200, output=310, cached=12_000, cost=0.021))
    say(Role.USER, Text(HOSTILE))
    for number in range(150):
        say(Role.ASSISTANT, Text(f"Step {number}."))
    agent = site.memory(agent="claude-code")
    connected = agent.workspace.caller._replace(session="deploys", conversation="")
    from vademecum.memory import Memory

    Memory(agent.home, connected, agent.workspace.loaded).store(SAVED, key="deploy-wait")


def test_the_list_leads_to_a_session_by_keyboard(web: Web) -> None:
    page = web.open("/sessions")
    assert "$0.02" in page.locator("main").inner_text()
    web.inspect(page, "sessions")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/sessions/deploys"))
    assert page.get_by_role("heading", level=1).inner_text() == "Fix the deploy job"


def test_a_session_folds_its_tools_and_renders_what_was_said(web: Web) -> None:
    page = web.open("/sessions/deploys")
    assert page.locator(".turn strong", has_text="look").count() == 1
    fold = page.locator("details.fold").first
    assert fold.get_attribute("open") is None
    page.locator(".turn").nth(2).focus()
    page.keyboard.press("o")
    assert fold.get_attribute("open") is not None
    assert "gh run view" in fold.inner_text()
    assert page.evaluate("window.hacked") is None
    assert page.locator("a[href^='javascript']").count() == 0
    web.inspect(page, "session")


def test_a_long_session_comes_in_pages_and_a_long_result_whole_on_demand(web: Web) -> None:
    page = web.open("/sessions/deploys")
    assert page.locator(".turn").count() < 101
    page.get_by_role("link", name="Later lines").click()
    page.wait_for_url(re.compile("start=101"))
    assert "Step 149." in (page.locator(".turns").text_content() or "")
    page.get_by_role("link", name="Earlier lines").click()
    page.wait_for_url(re.compile("start=1$"))
    page.locator("details.fold summary").first.click()
    page.get_by_role("link", name="Show all").first.click()
    page.wait_for_url(re.compile("whole=1"))
    assert page.locator(".fold-text").last.inner_text().count("x") >= 20_000


def test_a_memory_leads_to_the_line_it_came_from_and_back(web: Web) -> None:
    page = web.open("/sessions/deploys?key=deploy-wait")
    at = page.locator(".turn[aria-current]")
    assert "Bash" in at.inner_text()
    link = at.get_by_role("link", name="Deploy wait")
    assert (link.get_attribute("href") or "").endswith("/records/deploy-wait?scope=project")


def test_a_search_finds_the_line(web: Web) -> None:
    page = web.open("/sessions")
    page.get_by_label("Search what was said").fill("smoke test")
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("q=smoke"))
    page.locator("[data-open]").first.click()
    page.wait_for_url(re.compile("line="))
    assert page.locator(".turn[aria-current]").count() == 1


@pytest.mark.parametrize("kind", ["html", "md", "jsonl"])
def test_a_session_is_exported(web: Web, kind: str) -> None:
    page = web.open("/sessions/deploys")
    with page.expect_download() as download:
        page.get_by_role("button", name=kind, exact=True).click()
    assert download.value.suggested_filename == f"deploys.{kind}"
    assert "Why does the deploy fail?" in download.value.path().read_text("utf-8")


def test_a_session_that_is_not_there_is_told_so(web: Web) -> None:
    page = web.open("/sessions/nothing", expect=404)
    assert "no session" in page.locator("body").inner_text()
    web.expect_errors("404")


def test_it_can_be_read_without_a_script(web: Web) -> None:
    page = web.open("/sessions/deploys", java_script_enabled=False)
    page.locator("details.fold summary").first.click()
    assert "gh run view" in page.locator("details.fold").first.inner_text()
