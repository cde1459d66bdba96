"""Markdown of whatever origin becomes HTML that can do nothing."""

from __future__ import annotations

import re

from cases import every_case
from vademecum.interfaces.web.markdown import LONGEST_ROW, plain, render

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)><script>alert(1)</script></svg>",
    '<a href="javascript:alert(1)">x</a>',
    "[x](javascript:alert(1))",
    "[x](JaVaScRiPt:alert(1))",
    "[x](data:text/html;base64,PHNjcmlwdD4=)",
    "[x](vbscript:x)",
    "![x](https://evil.example/pixel.png)",
    "![x](data:image/svg+xml;base64,PHN2Zz4=)",
    '<https://evil.example/"onmouseover=alert(1)>',
    '[x](https://e.example "\\" onclick=\\"alert(1)")',
    "<style>body{display:none}</style>",
    "<iframe src=https://evil.example></iframe>",
    "<form action=https://evil.example><input></form>",
    "<meta http-equiv=refresh content=0>",
    "<base href=https://evil.example>",
    "```html\n</code></pre><script>alert(1)</script>\n```",
    "x <!--><script>alert(1)</script>-->",
    "&lt;script&gt;alert(1)&lt;/script&gt;",
    "<math><mtext><table><mglyph><style><img src=x onerror=alert(1)>",
]


@every_case("text", HOSTILE)
def test_nothing_in_a_text_runs_or_asks_anybody_else(text: str) -> None:
    made = str(render(text))
    tags = re.findall(r"<(\w+)([^>]*)>", made)
    assert {name for name, _ in tags} <= {"p", "a", "pre", "code", "em", "strong", "table", "h1"}, made
    for _, written in tags:
        attributes = re.sub(r'title="[^"]*"', "", written)
        assert not re.search(r"\bon\w+\s*=|style=|src=", attributes), made
        assert not re.search(r"(javascript|data|vbscript):", attributes, re.I), made


def test_a_link_opens_nothing_behind_it() -> None:
    assert render("[x](https://example.com)") == (
        '<p><a href="https://example.com" rel="noopener noreferrer nofollow">x</a></p>\n'
    )


def test_what_cannot_be_seen_is_written_out() -> None:
    made = str(render("pay \u202eecila\u202c to\u200b bob"))
    assert "⟨U+202E⟩" in made
    assert "⟨U+200B⟩" in made
    assert "\u202e" not in made


def test_a_line_of_ten_megabytes_is_shown_as_it_stands() -> None:
    line = "<b>" + "a" * (10 << 20)
    made = str(render(line))
    assert made.startswith("<pre>&lt;b&gt;aaa")
    assert len(made) < len(line) + 100


def test_markdown_is_markdown() -> None:
    made = str(render("# Title\n\n- one\n- **two**\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n`x`"))
    for tag in ("<h1>", "<li>", "<strong>", "<table>", "<code>"):
        assert tag in made


@every_case(
    ("line", "shown"),
    [
        ("**Path:** src/api **Rule:** Handlers are `thin`", "Path: src/api Rule: Handlers are thin"),
        ("see [the page](https://a.example/b) and _this_", "see the page and this"),
        ("5 * 3 * 2 and snake_case_name stay", "5 * 3 * 2 and snake_case_name stay"),
        ("two\nlines", "two lines"),
        ("<b>not ours</b> &lt;", "<b>not ours</b> <"),
        ("", ""),
        ("**a**" * LONGEST_ROW, "**a**" * LONGEST_ROW),
    ],
)
def test_a_row_reads_without_marks(line: str, shown: str) -> None:
    assert plain(line) == shown
