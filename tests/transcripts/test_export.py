"""Exports: one file, whole, without secrets, and nothing in it runs but its own search."""

from __future__ import annotations

import base64
import hashlib
import html
import json
import re
import shutil
import subprocess
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from cases import every_case
from vademecum.errors import Collision, UnknownName
from vademecum.transcripts import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult, export
from vademecum.transcripts import events as kinds
from vademecum.transcripts.events import (
    NO_USAGE,
    Compacted,
    Event,
    MessageEvent,
    Started,
    TornLine,
    Usage,
    Used,
)

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-ant-api03-" + "a1B2c3D4" * 11 + "AA"
NASTY = "</pre><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)> & \x00\u202e"

EVENTS: list[Event | TornLine] = [
    Started("/home/ada/api", "Fix it", "2026-11-15T08:00:00Z", "m-1", "main", seq=1),
    MessageEvent(Message(Role.USER, (Text(f"Please fix {NASTY}"),)), time="2026-11-15T08:00:01Z", seq=2),
    MessageEvent(
        Message(
            Role.ASSISTANT,
            (Thinking("hm"), Text("I look."), ToolCall("c1", "bash<b>", '{"command": "ls </details>"}')),
        ),
        seq=3,
    ),
    MessageEvent(
        Message(
            Role.TOOL,
            (ToolResult("c1", (Text("````\nREADME.md\n```"), Image("image/png", "aGk="), Opaque({"a": 1}))),),
        ),
        seq=4,
    ),
    MessageEvent(
        Message(Role.USER, (Image(url="https://evil.example/p.png"), Image("image/svg+xml", "aGk="))), seq=5
    ),
    TornLine("cut off", 12),
    Compacted("What came before.", seq=6),
    MessageEvent(Message(Role.USER, (Text(f"The key is {KEY}."),)), seq=7),
]


def page() -> str:
    return "".join(export.as_html(EVENTS, f"Fix {NASTY}"))


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "img"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def tags() -> Tags:
    parser = Tags()
    parser.feed(page())
    return parser


def test_the_page_is_well_formed_and_fetches_nothing() -> None:
    found = tags()
    assert not found.open
    for tag, attributes in found.found:
        assert tag not in ("link", "iframe", "object", "a", "form", "base")
        assert not any(name.startswith("on") for name in attributes)
        assert "style" not in attributes
        assert (attributes.get("src") or "data:").startswith("data:image/png;base64,") or tag != "img"
    assert [tag for tag, _ in found.found].count("script") == 1
    assert [tag for tag, _ in found.found].count("img") == 1


def test_its_policy_allows_its_own_script_and_style_alone() -> None:
    text = page()
    policy = html.unescape(re.search(r'Policy" content="([^"]+)"', text)[1])  # type: ignore[index]  # it is there
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    for tag in ("script", "style"):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)[1]  # type: ignore[index]  # it is there
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in policy
    assert text.index("Content-Security-Policy") < text.index("<style>")


def test_it_fits_a_phone_and_folds_tools() -> None:
    found = tags().found
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in found
    assert [tag for tag, _ in found].count("details") == 3
    assert not any("open" in attributes for tag, attributes in found if tag == "details")


def test_everything_said_is_in_it_and_escaped() -> None:
    text = page()
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert "\x00" not in text
    assert "\u202e" not in text
    for words in ("I look.", "README.md", "What came before.", "ls &lt;/details&gt;", "evil.example/p.png"):
        assert words in text


@pytest.mark.parametrize("ending", [".html", ".md", ".jsonl"])
def test_no_secret_leaves(ending: str) -> None:
    text = "".join(export.renderer(ending)(EVENTS, "x", NO_USAGE))
    assert KEY not in text
    assert "REDACTED" in text


def test_markdown_fences_cannot_be_closed_from_inside() -> None:
    text = "".join(export.as_markdown(EVENTS, "Fix it"))
    assert text.startswith("# Fix it\n")
    assert "`````\n````\nREADME.md\n```" in text
    assert "\n## user · 2026-11-15 08:00 UTC\n" in text


def test_jsonl_gives_the_events_back() -> None:
    lines = "".join(export.as_jsonl(EVENTS, "")).encode().splitlines()
    wanted = [each for each in EVENTS if not isinstance(each, TornLine)]
    assert [kinds.parse(each) for each in lines][:-1] == wanted[:-1]


def test_an_ending_that_is_not_known_is_refused() -> None:
    with pytest.raises(UnknownName, match="pdf"):
        export.renderer(".pdf")


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "out.md"
    export.write(path, ["a", "b\ud800"])
    assert path.read_text() == "ab?"
    assert path.stat().st_mode & 0o777 == 0o600
    with pytest.raises(Collision):
        export.write(path, ["c"])

    def broken() -> object:
        yield "half"
        raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        export.write(path, broken(), force=True)  # type: ignore[arg-type]  # a generator of texts
    assert path.read_text() == "ab?"
    export.write(path, ["c"], force=True)
    assert [each.name for each in tmp_path.iterdir()] == ["out.md"]
    assert path.read_text() == "c"


# -------------------------------------------------------------------- Markdown on the page


def shown(*events: Event | TornLine, usage: Usage = NO_USAGE) -> str:
    """The body of a page."""
    text = "".join(export.as_html(events, "x", usage))
    parser = Tags()
    parser.feed(text)
    assert not parser.open
    return text[text.index("<main>") : text.index("</main>")]


def says(text: str) -> MessageEvent:
    return MessageEvent(Message(Role.ASSISTANT, (Text(text),)))


def test_markdown_is_rendered() -> None:
    text = shown(
        says("# Plan\n\nUse `make`, see [the page](https://example.org/a?b=1&c=2).\nNext line."),
        says("- one\n- two\n\n```py\nif a < b: pass\n```\n\n| a | b |\n|---|---|\n| 1 | ~~2~~ |"),
    )
    for piece in (
        "<h1>Plan</h1>",
        "<code>make</code>",
        '<a href="https://example.org/a?b=1&amp;c=2">the page</a>',
        "<br />\nNext line.",
        "<li>one</li>",
        "if a &lt; b: pass",
        "<td>1</td>",
        "<s>2</s>",
    ):
        assert piece in text


@every_case(
    "text",
    [
        "[x](javascript:alert(1))",
        "[x](JaVaScRiPt:alert(1))",
        "[x](data:text/html;base64,PHNjcmlwdD4=)",
        "[x](file:///etc/passwd)",
        "[x](vbscript:x)",
        "[x](&#106;avascript:alert(1))",
        "<javascript:alert(1)>",
        "![x](https://evil.example/x.png)",
        "<img src=x onerror=alert(1)>",
        "<svg/onload=alert(1)>",
        '[x](https://e.example/"onmouseover="alert(1))',
        "```html\n</code></pre><script>alert(1)</script>\n```",
        "| <b>a</b> |\n|---|\n| <script> |",
        "x\n\n</article><script>alert(1)</script>",
    ],
)
def test_no_text_brings_tags_pictures_or_running_links(text: str) -> None:
    parser = Tags()
    parser.feed(shown(says(text)))
    for tag, attributes in parser.found:
        assert tag not in ("script", "img", "svg", "b", "style", "iframe")
        assert not any(name.startswith("on") or name == "style" for name in attributes)
        assert (attributes.get("href") or "https:").startswith(("https:", "http:", "mailto:"))


def test_a_text_that_is_very_long_is_shown_as_it_is() -> None:
    text = shown(says("*" * 300_000))
    assert "<pre>" + "*" * 300_000 + "</pre>" in text


# -------------------------------------------------------------------- results under their calls


def asks(*calls: str, words: str = "") -> MessageEvent:
    said = (Text(words),) if words else ()
    return MessageEvent(
        Message(Role.ASSISTANT, (*said, *(ToolCall(each, f"tool-{each}", "{}") for each in calls)))
    )


def gives(*calls: str, words: str = "") -> MessageEvent:
    said = (Text(words),) if words else ()
    results = (ToolResult(each, (Text(f"result-{each}"),)) for each in calls)
    return MessageEvent(Message(Role.TOOL, (*results, *said)))


def test_a_result_stands_under_its_call() -> None:
    text = shown(asks("a", "b", words="I look."), Used(input=3), gives("b"), gives("a"), says("Done."))
    assert text.count("<article") == 2
    first, second = text.index("tool-a"), text.index("tool-b")
    assert first < text.index("result-a") < second < text.index("result-b") < text.index("Done.")
    assert text.count("result-a") == 2  # in the fold's title, and in it


def test_calls_that_stand_in_several_messages_have_their_own_results() -> None:
    text = shown(asks("a"), asks("b"), gives("a"), gives("b"), says("Done."))
    assert text.index("tool-a") < text.index("result-a") < text.index("tool-b") < text.index("result-b")
    assert text.count("<article") == 3


def test_what_has_no_call_or_no_result_and_words_beside_a_result_are_all_there() -> None:
    text = shown(gives("x"), asks("a"), gives("a", "y", words="And this."), asks("b"), says("Bye."))
    for words in ("result-x", "tool-a", "result-a", "result-y", "And this.", "tool-b", "Bye."):
        assert words in text
    assert text.index("tool-a") < text.index("result-a") < text.index("And this.") < text.index("tool-b")


def test_many_calls_without_results_are_told_in_order() -> None:
    text = shown(*(asks(f"n{at:03}") for at in range(130)))
    places = [text.index(f"tool-n{at:03}") for at in range(130)]
    assert places == sorted(places)
    assert text.count("<article") == 130


# -------------------------------------------------------------------- hits, time and tokens


@pytest.mark.skipif(shutil.which("node") is None, reason="the page's own script is run by node")
@pytest.mark.parametrize(
    ("text", "words", "wanted"),
    [
        ("Postgres or MySQL?", ["post"], ["", "Post", "gres or MySQL?"]),
        ("a.b a.b", ["a.b"], ["", "a.b", " ", "a.b", ""]),
        ("abcabc", ["ab", "abc"], ["", "abc", "", "abc", ""]),
        ("nothing", ["zz"], ["nothing"]),
        ("", ["a"], [""]),
    ],
)
def test_hits_are_marked_where_they_are(text: str, words: list[str], wanted: list[str]) -> None:
    script = re.search(r"<script>(.*?)</script>", page(), re.DOTALL)[1]  # type: ignore[index]  # it is there
    function = script[script.index("function pieces") : script.index("function mark")]
    asked = f"{function}\nconsole.log(JSON.stringify(pieces({json.dumps(text)}, {json.dumps(words)})))"
    done = subprocess.run(["node", "-e", asked], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == wanted


def test_the_page_says_what_the_session_took_and_when_it_was_by_the_minute() -> None:
    used = Usage(5, 1200, 34, 0, 1234, 0.0125, 3)
    text = shown(*EVENTS, usage=used)
    assert "used 1,200 tokens in, 34 out, 5 calls, $0.0125 for 3 of them" in text
    assert "created 2026-11-15 08:00 UTC" in text
    assert "user · 2026-11-15 08:00 UTC" in text
    assert "used" not in shown(*EVENTS)
