"""Exports: one file, whole, without secrets, and nothing in it runs but its own search."""

from __future__ import annotations

import base64
import hashlib
import html
import re
from html.parser import HTMLParser
from typing import TYPE_CHECKING

import pytest

from vademecum.errors import Collision, UnknownName
from vademecum.transcripts import Image, Message, Opaque, Role, Text, Thinking, ToolCall, ToolResult, export
from vademecum.transcripts import events as kinds
from vademecum.transcripts.events import Compacted, Event, Said, Started, Torn

if TYPE_CHECKING:
    from pathlib import Path

KEY = "sk-ant-api03-" + "a1B2c3D4" * 11 + "AA"
NASTY = "</pre><script>alert(1)</script><img src=https://evil.example/x onerror=alert(1)> & \x00\u202e"

EVENTS: list[Event | Torn] = [
    Started("/home/ada/api", "Fix it", "2026-11-15T08:00:00Z", "m-1", "main", seq=1),
    Said(Message(Role.USER, (Text(f"Please fix {NASTY}"),)), time="2026-11-15T08:00:01Z", seq=2),
    Said(
        Message(
            Role.ASSISTANT,
            (Thinking("hm"), Text("I look."), ToolCall("c1", "bash<b>", '{"command": "ls </details>"}')),
        ),
        seq=3,
    ),
    Said(
        Message(
            Role.TOOL,
            (ToolResult("c1", (Text("````\nREADME.md\n```"), Image("image/png", "aGk="), Opaque({"a": 1}))),),
        ),
        seq=4,
    ),
    Said(
        Message(Role.USER, (Image(url="https://evil.example/p.png"), Image("image/svg+xml", "aGk="))), seq=5
    ),
    Torn("cut off", 12),
    Compacted("What came before.", seq=6),
    Said(Message(Role.USER, (Text(f"The key is {KEY}."),)), seq=7),
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
    text = "".join(export.renderer(ending)(EVENTS, "x"))
    assert KEY not in text
    assert "REDACTED" in text


def test_markdown_fences_cannot_be_closed_from_inside() -> None:
    text = "".join(export.as_markdown(EVENTS, "Fix it"))
    assert text.startswith("# Fix it\n")
    assert "`````\n````\nREADME.md\n```" in text
    assert "\n## user · 2026-11-15T08:00:01Z\n" in text


def test_jsonl_gives_the_events_back() -> None:
    lines = "".join(export.as_jsonl(EVENTS, "")).encode().splitlines()
    wanted = [each for each in EVENTS if not isinstance(each, Torn)]
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
