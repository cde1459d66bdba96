"""The documentation as a site: no warning, every link leads somewhere, nothing comes from another host."""

from __future__ import annotations

import functools
import http.server
import os
import re
import subprocess
import sys
import threading
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import unquote, urljoin, urlsplit

import pytest
import yaml
from tools.page_picture import PICTURE, SIZE, chromium, take

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parent.parent
HERE = "http://site.invalid/"
FOREIGN = re.compile(r"(?:https?:)?//", re.IGNORECASE)
# What a browser fetches by itself, by tag; a link in the text is fetched by who clicks it.
FETCHED = {
    "script": "src",
    "img": "src",
    "iframe": "src",
    "source": "src",
    "video": "src",
    "audio": "src",
    "embed": "src",
    "link": "href",
    "object": "data",
}


class PageReader(HTMLParser):
    """What one page names: its anchors, the links it has, and what it makes a browser fetch."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.anchors: set[str] = set()
        self.links: list[str] = []
        self.fetched: list[str] = []
        self.classes: set[str] = set()
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attrs}
        self.anchors |= {given[name] for name in ("id", "name") if given.get(name)}
        self.classes |= set(given.get("class", "").split())
        if tag == "a" and "href" in given:
            self.links.append(given["href"])
        if given.get(FETCHED.get(tag, "")):
            self.fetched.append(given[FETCHED[tag]])
        self.fetched += [each.split()[0] for each in given.get("srcset", "").split(",") if each.strip()]


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, built as `make docs` builds it, in a folder of its own."""
    made = tmp_path_factory.mktemp("built") / "site"
    recipe = (ROOT / "Makefile").read_text()
    asked = re.search(r"-m (mkdocs .*)$", recipe, flags=re.MULTILINE)
    assert asked is not None
    words = asked[1].split()
    assert "--strict" in words
    done = subprocess.run(
        [sys.executable, "-m", *words, "--site-dir", str(made)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return made


@pytest.fixture(scope="module")
def pages(site: Path) -> dict[str, PageReader]:
    """Every page of the site, by its path below it."""
    return {
        path.relative_to(site).as_posix(): PageReader(path.read_text("utf-8"))
        for path in site.rglob("*.html")
    }


def problems(site: Path, pages: dict[str, PageReader]) -> list[str]:
    """Links and pictures of the site that lead nowhere."""
    found = []
    for name, page in pages.items():
        for link in [*page.links, *page.fetched]:
            target = urlsplit(urljoin(f"{HERE}{name}", link))
            if target.netloc != urlsplit(HERE).netloc:
                continue
            path, anchor = unquote(target.path).lstrip("/") or "index.html", unquote(target.fragment)
            if path.endswith("/"):
                path = f"{path}index.html"
            if not (site / path).is_file() or (
                anchor and path in pages and anchor not in pages[path].anchors
            ):
                found.append(f"{name} -> {link}")
    return found


@pytest.mark.full
def test_every_link_and_anchor_of_the_site_leads_somewhere(site: Path, pages: dict[str, PageReader]) -> None:
    assert len(pages) > 30
    assert sum(len(page.links) for page in pages.values()) > 1000
    assert problems(site, pages) == []


@pytest.mark.parametrize("link", ["nowhere.html", "cli.html#nowhere", "#nowhere", "pictures/none.svg"])
def test_the_check_of_links_sees_a_planted_one(link: str, site: Path, pages: dict[str, PageReader]) -> None:
    planted = {**pages, "index.html": PageReader(f'<a href="{link}">here</a>')}
    assert problems(site, planted) == [f"index.html -> {link}"]


def test_no_page_fetches_anything_from_another_host(site: Path, pages: dict[str, PageReader]) -> None:
    for name, page in pages.items():
        assert not [each for each in page.fetched if FOREIGN.match(each)], name
        # The theme's script would fetch a library for a drawing of this kind, and stars for a repository.
        assert not {"mermaid", "md-source__repository"} & page.classes, name
        text = (site / name).read_text("utf-8")
        styles = "".join(re.findall(r"<style.*?</style>", text, flags=re.DOTALL))
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", styles), name
    for path in [*site.rglob("*.css"), *site.rglob("*.svg")]:
        text = path.read_text("utf-8")
        assert not re.search(r"(?:url\(|@import)\s*[\"']?(?:https?:)?//", text), path
        assert not re.search(r"(?:href|src)=[\"'](?:https?:)?//", text), path


def test_every_page_is_in_the_navigation(site: Path, pages: dict[str, PageReader]) -> None:
    class Loader(yaml.SafeLoader):
        """Passes over what names a function."""

    Loader.add_multi_constructor("tag:yaml.org,2002:python/", lambda *_: None)
    settings = yaml.load((ROOT / "mkdocs.yml").read_text(), Loader)

    def leaves(branch: object) -> Iterator[str]:
        if isinstance(branch, str):
            yield branch
        elif isinstance(branch, dict):
            for inner in branch.values():
                yield from leaves(inner)
        elif isinstance(branch, list):
            for inner in branch:
                yield from leaves(inner)

    named = [*leaves(settings["nav"])]
    assert len(named) == len(set(named))
    assert {f"{name.removesuffix('.md')}.html" for name in named} == set(pages) - {"404.html"}
    written = {path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")}
    assert written <= set(named)


def test_the_source_archive_has_all_that_the_site_is_made_from() -> None:
    import tomllib

    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    packed = set(project["tool"]["hatch"]["build"]["targets"]["sdist"]["include"])
    needed = {
        "docs",
        "examples",
        "tools",
        "Makefile",
        "mkdocs.yml",
        "CHANGELOG.md",
        "CONTRIBUTING.md",
        "SECURITY.md",
    }
    assert needed <= packed


def test_markdown_of_the_pages_is_rendered_whole(site: Path, pages: dict[str, PageReader]) -> None:
    """What one renderer takes for a table, a list or an escape, the other does too."""
    for name in pages:
        text = (site / name).read_text("utf-8")
        prose = re.sub(r"<(pre|script|style|code)\b.*?</\1>", "", text, flags=re.DOTALL)
        assert not re.search(r"^\|.*\|$", prose, flags=re.MULTILINE), f"{name} has a table that is none"
        assert not re.search(r"(?:<p>|^)(?:[-*] |\d\. )\S", prose, flags=re.MULTILINE), f"{name}: no list"
        assert "](" not in re.sub(r"<[^>]*>", "", prose), f"{name} has a link that is none"
        for cell in re.findall(r"<td.*?</td>", text, flags=re.DOTALL):
            assert "\\|" not in cell, name


CHROMIUM = chromium()
FLAGS = ["--no-sandbox"] if hasattr(os, "geteuid") and os.geteuid() == 0 else []


def size_of(picture: Path) -> tuple[int, int]:
    """The width and height that a PNG says it has."""
    head = picture.read_bytes()[:24]
    assert head[:8] == b"\x89PNG\r\n\x1a\n"
    return int.from_bytes(head[16:20]), int.from_bytes(head[20:24])


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_the_picture_of_the_web_page_is_taken_by_its_script(tmp_path: Path) -> None:
    taken = tmp_path / "page.png"
    take(tmp_path, taken)
    assert size_of(taken) == size_of(PICTURE) == (SIZE["width"], SIZE["height"])
    assert "docs/pictures/page.png" in (ROOT / "README.md").read_text()


@pytest.mark.full
@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_in_a_browser_search_and_dark_mode_work_and_no_request_leaves_the_machine(site: Path) -> None:
    from playwright.sync_api import sync_playwright

    handler = functools.partial(Quiet, directory=str(site))
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    top = f"http://127.0.0.1:{server.server_port}/"
    asked: list[str] = []
    try:
        with sync_playwright() as play:
            browser = play.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
            page = browser.new_page()
            page.on("request", lambda request: asked.append(request.url))
            page.goto(f"{top}index.html")
            body = page.locator("body")
            before = body.get_attribute("data-md-color-scheme")
            page.locator("label[title^='Switch to']:visible").click()
            assert body.get_attribute("data-md-color-scheme") != before
            page.locator("input.md-search__input").click()
            page.keyboard.type("transcripts")
            page.locator(".md-search-result__item").first.wait_for()
            page.goto(f"{top}howto.html")
            block = page.locator(".highlight code", has_text="vade add --journal").first
            assert block.inner_text().startswith("$ vade add")
            block.evaluate("each => each.setAttribute('data-md-copying', '')")  # as its button does
            assert block.inner_text().startswith("vade add")
            browser.close()
    finally:
        server.shutdown()
        server.server_close()
    assert len(asked) > 5
    assert not [url for url in asked if not url.startswith((top, "data:", "blob:"))]


class Quiet(http.server.SimpleHTTPRequestHandler):
    """Serves a folder without a word."""

    def log_message(self, format: str, *args: object) -> None:
        """Say nothing."""
