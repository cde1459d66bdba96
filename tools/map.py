"""Draw the map of the house from its real imports, and list every module by its first sentence.

`python -m tools.map` writes `docs/architecture.svg` and the list in `docs/architecture.md`; a test says when
they are out of date.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from html import escape
from pathlib import Path

from tools import house

DOCS = Path(__file__).parent.parent / "docs"
PAGE, DRAWING = DOCS / "architecture.md", DOCS / "architecture.svg"
BEGIN, END = "<!-- modules: made by `python -m tools.map` -->", "<!-- end of modules -->"

# From the top down. A package that stands in no row is an error, so that the drawing cannot go stale.
ROWS = [
    ["interfaces.cli"],
    ["interfaces.http"],
    [
        "interfaces.mcp",
        "interfaces.chat",
        "interfaces.hooks",
        "interfaces.hub",
        "interfaces.install",
        "adapters",
    ],
    ["interfaces.tools", "interfaces.web"],
    ["interfaces.present"],
    ["memory"],
    ["context", "lifecycle", "inject", "sync"],
    ["agents"],
    ["knowledge"],
    ["transcripts"],
    ["search"],
    ["index"],
    ["store"],
    ["llm", "config"],
    ["text", "types", "errors", "tokens", "stand_ins", "progress"],
]
GROUND = set(ROWS[-1]) | {"config"}  # everybody stands on it: drawn, but without a line from each
WIDTH, HEIGHT, STEP, TOP = 132, 34, 66, 40


def packages() -> set[str]:
    """Every package and single module of the house, as it is drawn."""
    found = {house.package_of(name) for name in house.modules()}
    return found - {"__init__", "__main__", "vademecum", "interfaces", "interfaces.adapters", ""}


def edges() -> set[tuple[str, str]]:
    """Which package imports which."""
    pairs = {(house.package_of(each.source), house.package_of(each.target)) for each in house.imports()}
    known = packages()
    return {(a, b) for a, b in pairs if a != b and a in known and b in known and b not in GROUND}


def drawing() -> str:
    """The map as SVG: a row for each layer, a line for each import between packages."""
    width = max(len(row) for row in ROWS) * (WIDTH + 28) + 40
    places = {}
    for line, row in enumerate(ROWS):
        left = (width - len(row) * (WIDTH + 28) + 28) / 2
        for number, name in enumerate(row):
            places[name] = (left + number * (WIDTH + 28), TOP + line * STEP)
    shapes = [_line(places[a], places[b], a, b) for a, b in sorted(edges())]
    shapes += [_box(name, *places[name]) for name in sorted(packages())]
    height = TOP + len(ROWS) * STEP
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" font-family="sans-serif" '
        'font-size="13">\n<title>Packages of vademecum; lines are imports, all lead down</title>\n'
        f'<rect width="{width}" height="{height}" fill="#ffffff"/>'
    )
    return "\n".join([head, *shapes, "</svg>\n"])


def _box(name: str, x: float, y: float) -> str:
    shown = escape(name.removeprefix("interfaces."))
    fill = "#fff6e0" if name.startswith("interfaces") or name == "adapters" else "#e8f0fa"
    fill = "#e9f5e4" if name in GROUND else "#ffe3dc" if name == "memory" else fill
    return (
        f'<rect x="{x:g}" y="{y:g}" width="{WIDTH}" height="{HEIGHT}" rx="5" fill="{fill}" stroke="#445"/>'
        f'<text x="{x + WIDTH / 2:g}" y="{y + HEIGHT / 2 + 5:g}" text-anchor="middle">{shown}</text>'
    )


def _line(start: tuple[float, float], end: tuple[float, float], source: str, target: str) -> str:
    x1, y1 = start[0] + WIDTH / 2, start[1] + HEIGHT
    x2, y2 = end[0] + WIDTH / 2, end[1]
    rows = round((y2 - y1) / STEP)
    aside = (40 + 17 * rows) * (1 if rows % 2 else -1) if rows else 0  # around the boxes between them
    bend = aside if abs(x1 - x2) < WIDTH else (x1 - x2) * 0.25
    reach = 30 if abs(x1 - x2) >= WIDTH or not rows else (y2 - y1) * 0.3
    path = f"M{x1:g} {y1:g} C{x1 + bend:g} {y1 + reach:g} {x2 + bend:g} {y2 - reach:g} {x2:g} {y2:g}"
    told = f"<title>{source} imports {target}</title>"
    return f'<path d="{path}" fill="none" stroke="#8894a8" stroke-width="1">{told}</path>'


def listing() -> str:
    """Every module with the first sentence of its docstring, by package."""
    rows: dict[str, list[str]] = defaultdict(list)
    for path in house.modules().values():
        text = path.read_text("utf-8")
        said = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
        if path.name != "__init__.py" or text.count("\n") > 3:  # a front that is only there says nothing
            package = path.parent.relative_to(house.SOURCE).as_posix()
            rows[package].append(f"| `{path.name}` | {' '.join(said.split())} |")
    parts = []
    for package in sorted(rows):
        parts += [
            f"### `{package}/`".replace("./", "vademecum/"),
            "| module | |",
            "|---|---|",
            *rows[package],
            "",
        ]
    return "\n".join(parts)


def page(text: str) -> str:
    """The page with its list of modules made anew."""
    before, begin, rest = text.partition(BEGIN)
    _, end, after = rest.partition(END)
    if not (begin and end):
        raise SystemExit(f"{PAGE.name} has no place for the list of modules")
    return f"{before}{begin}\n{listing()}{end}{after}"


def main() -> None:
    """Write both."""
    DRAWING.write_text(drawing(), "utf-8")
    PAGE.write_text(page(PAGE.read_text("utf-8")), "utf-8")


if __name__ == "__main__":
    main()
