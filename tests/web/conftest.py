"""A real `vade serve`, a real Chromium, and what every page must be: quiet, open to all, of any width.

A test of a view is a few lines: `page = web.open("/memories")`, what it does, and `web.inspect(page,
"memories")`, which looks at it in light and dark and at three widths, has axe-core check it, and leaves
pictures in `build/web`. At the end of each test no page may have written an error to its console or asked
for anything but this server.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from http_door.serving import Served, served
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser, BrowserContext, ConsoleMessage, Page, Request

    from vademecum.memory import Memory

CHROMIUM = next(
    (each for each in ("chromium", "chromium-browser", "google-chrome") if shutil.which(each)), ""
)
AXE = "4.11.0"
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"]
PICTURES = Path(__file__).parents[2] / "build" / "web"
WIDTHS = {"phone": 360, "laptop": 1280, "wide": 2560}
AXED = {("light", "laptop"), ("dark", "phone")}  # each colour once, each layout once
HANG = 20_000  # milliseconds after which something is stuck, on however slow a machine


# For one file of tests: while it is open its event loop is this thread's, and no other could run in it.
@pytest.fixture(scope="module")
def chromium() -> Iterator[Browser]:
    """The system's Chromium; without one, a skip that says so."""
    api = pytest.importorskip("playwright.sync_api")
    if not CHROMIUM:
        pytest.skip("no Chromium here (apt-get install chromium): the page was not looked at in a browser")
    with api.sync_playwright() as playwright:
        flags = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []
        browser = playwright.chromium.launch(executable_path=shutil.which(CHROMIUM), args=flags)
        yield browser
        browser.close()


@pytest.fixture(scope="session")
def axe() -> str:
    """The source of axe-core, from npm, kept in the cache of whoever runs the tests."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "vade-tests" / f"axe-{AXE}"
    source = cache / "node_modules" / "axe-core" / "axe.min.js"
    if not source.exists():
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm here: accessibility was not checked by axe-core")
        cache.mkdir(parents=True, exist_ok=True)
        command = [npm, "install", "--prefix", str(cache), "--no-audit", "--no-fund", f"axe-core@{AXE}"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            pytest.skip(f"axe-core could not be had from npm: {done.stderr[-200:]}")
    return source.read_text("utf-8")


class Site:
    """A server, a browser that was let in, and memory as a person and as an agent have it beside them."""

    def __init__(self, server: Served, chromium: Browser) -> None:
        self.server = server
        self.address = f"http://127.0.0.1:{server.port}"
        self._chromium = chromium
        context = chromium.new_context()
        page = context.new_page()
        page.goto(self.address + server.link)
        page.wait_for_url(re.compile(r"/~[^/]+/"), timeout=HANG)
        found = re.search(r"/~[^/]+", page.url)
        assert found
        self.door = found[0]
        self._state = context.storage_state()
        context.close()

    def context(self, **given: Any) -> BrowserContext:
        """A fresh window of the browser that was let in."""
        return self._chromium.new_context(storage_state=self._state, reduced_motion="reduce", **given)

    def memory(self, *, agent: str = "") -> Memory:
        """Memory of the project that is served: a person's, or through the program of an agent."""
        given: dict[str, Any] = {"origin": Origin.USER, "actor": "human:tester"}
        if agent:
            given = {"origin": Origin.AGENT, "client": agent, "conversation": f"{agent}-1"}
        return connect(home=self.server.home, cwd=self.server.folder, environ={}, **given)


_WIDEST = """[...document.querySelectorAll("body *")]
  .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .filter((each) => {
    for (let up = each; up && up !== document.body; up = up.parentElement)
      if (getComputedStyle(up).overflowX !== "visible") return false;
    return true;
  })
  .slice(0, 8).map((each) => `${each.tagName} ${each.getAttribute("class")} ${each.id}`)"""


class Web:
    """The windows of one test; what they wrote to the console and asked for is looked at when it ends."""

    def __init__(self, site: Site, axe: str) -> None:
        self.site, self._axe = site, axe
        self.told: list[str] = []
        self._contexts: list[BrowserContext] = []

    def open(self, path: str, *, expect: int = 200, **given: Any) -> Page:
        """A page in a window of its own."""
        context = self.site.context(**given)
        self._contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(HANG)
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.told.append(f"page error: {error}"))
        page.on("request", self._request)
        self.go(page, path, expect=expect)
        return page

    def go(self, page: Page, path: str, *, expect: int = 200) -> None:
        """Go to another page of the site."""
        answer = page.goto(f"{self.site.address}{self.site.door}{path}")
        assert answer is not None
        assert answer.status == expect, (path, answer.status, answer.text()[:2000])

    def live(self, page: Page) -> None:
        """Wait until the page hears of changes."""
        page.wait_for_selector("#live[data-state=on]")

    def until(self, page: Page, script: str) -> None:
        """Wait until a script is true; the page's policy forbids the browser's own way of waiting."""
        ends = time.monotonic() + HANG / 1000
        while not page.evaluate(script):
            assert time.monotonic() < ends, f"never: {script}"
            page.wait_for_timeout(30)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.told.append(f"console: {message.text} ({message.location.get('url', '')})")

    def _request(self, request: Request) -> None:
        if not request.url.startswith((f"{self.site.address}/", "data:image/")):
            self.told.append(f"asked for {request.url}")

    def expect_errors(self, *words: str) -> None:
        """Errors that a test sets off on purpose are no errors of the page."""
        self.told = [each for each in self.told if not any(word in each for word in words)]

    def inspect(self, page: Page, name: str) -> None:
        """Light and dark at three widths: nothing is cut off, axe finds nothing, and a picture is kept."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        before = page.viewport_size
        for scheme in ("light", "dark"):
            page.emulate_media(color_scheme=scheme)
            for kind, width in WIDTHS.items():
                page.set_viewport_size({"width": width, "height": 900})
                over = page.evaluate(
                    "document.documentElement.scrollWidth - document.documentElement.clientWidth"
                )
                assert over <= 0, f"{name} is {over} pixels wider than {width}: {page.evaluate(_WIDEST)}"
                page.screenshot(path=PICTURES / f"{name}-{scheme}-{kind}.png")
                if (scheme, kind) in AXED:
                    self.check_access(page, f"{name}, {scheme}, {kind}")
        page.emulate_media(color_scheme=None)
        if before:
            page.set_viewport_size(before)

    def keep_picture(self, page: Page, name: str) -> None:
        """Keep a picture of the page as it is."""
        PICTURES.mkdir(parents=True, exist_ok=True)
        page.screenshot(path=PICTURES / f"{name}.png")

    def check_access(self, page: Page, name: str) -> None:
        """WCAG 2.2 AA, as far as axe-core can tell."""
        if not page.evaluate("'axe' in window"):
            page.evaluate(self._axe)
        # What is out of sight is not drawn, and keeps the colours that it had: axe must see it drawn.
        page.evaluate("document.styleSheets[0].insertRule('*{content-visibility:visible!important}')")
        found = page.evaluate("(tags) => axe.run(document, {runOnly: {type: 'tag', values: tags}})", RULES)
        wrong = [
            f"{each['id']}: {node['html'][:160]} {node.get('failureSummary', '')}"
            for each in found["violations"]
            for node in each["nodes"][:3]
        ]
        assert wrong == [], f"{name}:\n" + "\n".join(wrong)

    def close(self) -> None:
        """Close every window, and hold what they did against what a page may do."""
        for context in self._contexts:
            context.close()
        assert self.told == []


@pytest.fixture(scope="module")
def site(chromium: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server with a small memory, for the tests of one file."""
    top = tmp_path_factory.mktemp("web")
    home, project = top / "home", top / "atlas"
    project.mkdir()
    (project / ".git").mkdir()
    with served(project, home=home, HOME=str(top)) as server:
        yield Site(server, chromium)


@pytest.fixture
def web(site: Site, axe: str) -> Iterator[Web]:
    """The browser, for one test."""
    made = Web(site, axe)
    yield made
    made.close()


@contextlib.contextmanager
def offline(page: Page) -> Iterator[None]:
    """A page whose server cannot be reached for a while."""
    page.context.set_offline(True)
    try:
        yield
    finally:
        page.context.set_offline(False)
