"""Draw the two pictures of `docs/concepts.md`, and the README's badges: `python -m tools.drawing`.

A drawing is boxes and arrows between them, written as SVG with the reader's own fonts. It has a ground of its
own, so that it can be read on a light page and on a dark one. A badge says what `pyproject.toml` says, and
needs no server to draw it.
"""

from __future__ import annotations

import re
import tomllib
from html import escape
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "pictures"
LINE = 18


class Box(NamedTuple):
    """A titled box with lines of text; its kind decides the colour."""

    x: int
    y: int
    width: int
    height: int
    title: str
    lines: tuple[str, ...] = ()
    kind: str = "plain"


class Arrow(NamedTuple):
    """A way through points, with words beside its middle."""

    points: tuple[tuple[int, int], ...]
    words: str = ""
    at: tuple[int, int] = (0, 0)


class Drawing(NamedTuple):
    """What is drawn, and how large."""

    title: str
    width: int
    height: int
    boxes: tuple[Box, ...]
    arrows: tuple[Arrow, ...]


WHERE = Drawing(
    "Where text lives",
    900,
    470,
    (
        Box(20, 60, 190, 62, "You", ("your editor, vade add",), "person"),
        Box(20, 142, 190, 62, "Agents", ("memory_store and others",), "agent"),
        Box(20, 224, 190, 62, "Hooks", ("copies of conversations",), "agent"),
        Box(20, 306, 190, 62, "Other tools", ("vade import",), "agent"),
        Box(270, 30, 350, 350, "~/.vade: plain files, the truth", (), "frame"),
        Box(
            290,
            68,
            310,
            66,
            "records/KEY.md",
            ("one topic with dated entries",),
        ),
        Box(290, 144, 310, 66, "journal/DAY.md", ("notes of one day, only added to",)),
        Box(290, 220, 310, 66, "MEMORY.md, context.md, profile.md", ("pinned: short, always in context",)),
        Box(290, 296, 310, 66, "transcripts/", ("conversations, word for word",)),
        Box(
            690,
            30,
            190,
            120,
            "Index",
            ("words and vectors,", "made from the files;", "safe to delete"),
            "derived",
        ),
        Box(690, 190, 190, 86, "Session start, prompts", ("what agents get",), "agent"),
        Box(690, 296, 190, 66, "Search", ("vade search, MCP tools",), "agent"),
        Box(270, 410, 350, 46, "archive/: every earlier version", ()),
    ),
    (
        Arrow(((210, 91), (286, 91))),
        Arrow(((210, 173), (286, 173))),
        Arrow(((210, 255), (250, 255), (250, 329), (286, 329))),
        Arrow(((210, 337), (230, 337), (230, 110), (286, 110))),
        Arrow(((620, 80), (686, 80))),
        Arrow(((620, 233), (686, 233))),
        Arrow(((785, 150), (785, 186))),
        Arrow(((880, 120), (890, 120), (890, 329), (884, 329))),
        Arrow(((400, 380), (400, 406)), "replace, edit, forget", (262, 399)),
        Arrow(((490, 410), (490, 384)), "restore, undo", (500, 399)),
    ),
)

QUESTION = Drawing(
    "The way of a question",
    900,
    430,
    (
        Box(20, 150, 150, 80, "Question", ("“when do we", "deploy?”"), "person"),
        Box(210, 150, 150, 80, "Fresh", ("files that changed", "are indexed first"), "derived"),
        Box(410, 40, 200, 84, "Words", ("BM25, stemmed in", "25 languages"), "derived"),
        Box(410, 148, 200, 84, "Meaning", ("vectors of the model", "in the package"), "derived"),
        Box(410, 256, 200, 84, "Reading", ("a small transformer, when", "no match is strong"), "derived"),
        Box(
            670,
            120,
            210,
            140,
            "Merge and rank",
            (
                "one score of all;",
                "superseded entries lower,",
                "times in questions count,",
                "the best sixty once more",
            ),
        ),
        Box(
            410,
            364,
            470,
            52,
            "Answer",
            ("passages with file and lines; a strong, likely or weak match",),
            "person",
        ),
    ),
    (
        Arrow(((170, 190), (206, 190))),
        Arrow(((360, 178), (385, 178), (385, 82), (406, 82))),
        Arrow(((360, 190), (406, 190))),
        Arrow(((360, 202), (385, 202), (385, 298), (406, 298))),
        Arrow(((610, 82), (640, 82), (640, 160), (666, 160))),
        Arrow(((610, 190), (666, 190))),
        Arrow(((610, 298), (640, 298), (640, 220), (666, 220))),
        Arrow(((775, 260), (775, 360))),
    ),
)

DRAWINGS = {"where-text-lives": WHERE, "question": QUESTION}
_STYLE = """\
text { font: 13px system-ui, sans-serif; fill: #24292f; }
.title { font-weight: 600; }
.ground { fill: #f6f8fa; }
.box { fill: #ffffff; stroke: #8c959f; }
.frame { fill: #eef6f5; stroke: #00897b; }
.person { fill: #fff8e1; stroke: #b08800; }
.agent { fill: #eaf2ff; stroke: #4078c0; }
.derived { fill: #ffffff; stroke: #8c959f; stroke-dasharray: 5 4; }
.arrow { fill: none; stroke: #57606a; stroke-width: 1.5; marker-end: url(#head); }
.words { font-size: 12px; fill: #57606a; }"""


def draw(drawing: Drawing) -> str:
    """A drawing as SVG."""
    shapes = [line for box in drawing.boxes for line in _box(box)]
    shapes += [line for arrow in drawing.arrows for line in _arrow(arrow)]
    head = (
        f'<svg viewBox="0 0 {drawing.width} {drawing.height}" xmlns="http://www.w3.org/2000/svg" role="img">'
    )
    return "\n".join(
        [
            head,
            f"<title>{escape(drawing.title)}</title>",
            f"<style>\n{_STYLE}\n</style>",
            '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0 0 L8 4 L0 8 z" fill="#57606a"/></marker></defs>',
            f'<rect class="ground" width="{drawing.width}" height="{drawing.height}" rx="10"/>',
            *shapes,
            "</svg>\n",
        ]
    )


def _box(box: Box) -> list[str]:
    name = "box" if box.kind == "plain" else box.kind
    place = f'x="{box.x}" y="{box.y}" width="{box.width}" height="{box.height}"'
    made = [f'<rect class="{name}" {place} rx="6"/>', _words(box.x + 12, box.y + 24, box.title, "title")]
    return made + [_words(box.x + 12, box.y + 24 + LINE * at, each) for at, each in enumerate(box.lines, 1)]


def _arrow(arrow: Arrow) -> list[str]:
    way = " L".join(f"{x} {y}" for x, y in arrow.points)
    made = [f'<path class="arrow" d="M{way}"/>']
    return [*made, _words(*arrow.at, arrow.words, "words")] if arrow.words else made


def _words(x: int, y: int, text: str, name: str = "") -> str:
    kind = f' class="{name}"' if name else ""
    return f'<text x="{x}" y="{y}"{kind}>{escape(text)}</text>'


def badges() -> dict[str, str]:
    """The README's badges by name, as SVG."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    classifiers = " ".join(project["project"]["classifiers"])
    versions = re.findall(r"Python :: (3\.\d+)", classifiers)
    types = "mypy strict" if project["tool"]["mypy"]["strict"] else "mypy"
    return {
        "python": _badge("Python", f"{versions[0]} to {versions[-1]}"),
        "license": _badge("license", project["project"]["license"]),
        "types": _badge("types", types),
        "changelog": _badge("changelog", "what is new"),
    }


def _badge(label: str, value: str) -> str:
    left, right = (round(7.2 * len(each)) + 14 for each in (label, value))
    size = f'viewBox="0 0 {left + right} 20" width="{left + right}" height="20"'
    return "\n".join(
        [
            f'<svg {size} xmlns="http://www.w3.org/2000/svg" role="img">',
            f"<title>{escape(label)}: {escape(value)}</title>",
            "<style>text { font: 12px system-ui, sans-serif; fill: #ffffff; text-anchor: middle; }</style>",
            f'<rect width="{left + right}" height="20" rx="3" fill="#00796b"/>',
            f'<path d="M3 0 H{left} V20 H3 A3 3 0 0 1 0 17 V3 A3 3 0 0 1 3 0 z" fill="#424a53"/>',
            f'<text x="{left / 2:g}" y="14">{escape(label)}</text>',
            f'<text x="{left + right / 2:g}" y="14">{escape(value)}</text>',
            "</svg>\n",
        ]
    )


def main() -> None:
    """Draw all of them."""
    (FOLDER / "badges").mkdir(parents=True, exist_ok=True)
    for name, badge in badges().items():
        (FOLDER / "badges" / f"{name}.svg").write_text(badge, encoding="utf-8")
    for name, drawing in DRAWINGS.items():
        (FOLDER / f"{name}.svg").write_text(draw(drawing), encoding="utf-8")


if __name__ == "__main__":
    main()
