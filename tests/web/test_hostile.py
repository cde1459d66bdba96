"""What a record says does nothing to who reads it: script, SVG, data addresses, marks of direction."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from web.conftest import Site, Web

ATTACKS = {
    "script": "<script>window.hit = 1</script> and <img src=x onerror='window.hit = 1'>",
    "svg": "<svg onload='window.hit = 1'><a xlink:href='javascript:window.hit=1'>x</a></svg>",
    "link": "[click](javascript:window.hit=1) [data](data:text/html,<script>window.hit=1</script>)",
    "picture": "![p](https://tracker.example/p.png) <iframe src='https://tracker.example'></iframe>",
    "style": "<style>body{display:none}</style><p style='position:fixed;inset:0'>over</p>",
    "template": "{{ 7*7 }} {% raw %} ${7*7} </textarea><script>window.hit=1</script>",
    "quotes": "\"'><b onmouseover=window.hit=1>bold</b>",
    "bidi": "user\u202egnp.exe\u202c and \u2066hidden\u2069",
    "meta": "<meta http-equiv=refresh content='0;url=https://tracker.example'><base href='https://tracker.example/'>",
}
LONG = "x" * 600_000


@pytest.fixture(scope="module", autouse=True)
def _filled(site: Site) -> None:
    memory = site.memory()
    for key, text in ATTACKS.items():
        memory.store(f"{text}\n\nEnd of {key}.", key=f"attack-{key}", tags=["attack"])
    memory.store("A line to replace.", key="long")
    path, before = memory.care.editable("long")
    titled = before.replace("title: Long", 'title: "\u202e<script>window.hit=1</script>"')
    memory.care.edited("long", before, titled.replace("A line to replace.", LONG))
    memory.close()
    assert path


@pytest.mark.full(but=3)
@pytest.mark.parametrize("name", sorted(ATTACKS))
def test_a_hostile_text_is_shown_and_does_nothing(web: Web, name: str) -> None:
    page = web.open(f"/records/attack-{name}?scope=project")
    assert f"End of {name}." in page.inner_text(".entry")
    for tab in ("lines", "history"):
        web.go(page, f"/records/attack-{name}?tab={tab}")
    assert page.evaluate("window.hit") is None
    assert page.locator("main iframe, main script, main style, main [onerror], main [onload]").count() == 0
    links = page.eval_on_selector_all("main a", "all => all.map(each => each.protocol)")
    assert {*links} <= {"http:"}


def test_lists_searches_and_the_editor_show_it_as_plainly(web: Web) -> None:
    page = web.open("/memories?tag=attack")
    assert page.locator("[data-row]").count() == len(ATTACKS)
    web.go(page, "/search?q=window.hit%20%3Cscript%3E")
    assert page.locator("[data-row]").count() > 0
    web.go(page, "/records/attack-template?edit=1")
    page.wait_for_selector("#field-texts textarea:focus")
    assert ATTACKS["template"] in page.input_value("#field-texts textarea")
    page.wait_for_selector("#text-preview >> text=End of template.")
    page.fill("#find", "window.hit script")
    page.wait_for_selector("#found [role=option]")
    assert page.evaluate("window.hit") is None


def test_what_turns_the_direction_of_a_text_is_written_out(web: Web) -> None:
    page = web.open("/records/attack-bidi")
    assert "user⟨U+202E⟩gnp.exe" in page.inner_text(".entry")
    assert "\u202e" not in page.content()


@pytest.mark.full
def test_a_line_of_any_length_stays_in_its_box(web: Web) -> None:
    page = web.open("/records/long?scope=project")
    assert "\u202e" not in page.title()
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    web.go(page, "/records/long?tab=lines")
    assert page.evaluate("document.documentElement.scrollWidth <= document.documentElement.clientWidth")
    assert page.evaluate("window.hit") is None
