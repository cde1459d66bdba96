"""Draw the map of the house from its imports, and list every module by its first sentence.

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

# Floors from the top down; a package imports packages on lower floors. A package without a place is an error,
# so the drawing cannot go stale.
FLOORS = [
    ["vademecum_hub", "adapters"],
    ["interfaces"],
    ["memory"],
    ["context", "inject", "lifecycle"],
    ["search", "agents"],
    ["index", "transcripts", "knowledge", "sync"],
    ["llm", "store"],
    ["text", "config"],
    ["types", "errors", "fields", "tokens", "lazy", "named_tuple", "progress"],
]
GROUND = {*FLOORS[-1], *FLOORS[-2]}  # every floor above stands on it: drawn without a line from each
INTERFACES = ["cli", "http", "mcp", "chat", "hooks", "install", "tools", "web", "connections", "present"]
ABOUT = {
    "vademecum_hub": "the hub's server",
    "adapters": "other frameworks",
    "interfaces": "",
    "memory": "one object for all callers",
    "context": "window of a session",
    "inject": "what agents are told",
    "lifecycle": "care, lint, learning",
    "search": "answers, ranked",
    "agents": "one file an agent",
    "index": "words and vectors",
    "transcripts": "messages and logs",
    "knowledge": "trust, graph, intake",
    "sync": "facts, merged",
    "llm": "language models",
    "store": "files, records, runs",
    "text": "words, secrets, the text format",
    "config": "settings",
}
WIDTH, HEIGHT, STEP, TOP = 900, 46, 86, 30
_COLUMNS = {  # the middle of each box, and its width
    "vademecum_hub": (290, 180),
    "adapters": (570, 180),
    "interfaces": (430, 780),
    "memory": (430, 240),
    "context": (170, 170),
    "inject": (430, 170),
    "lifecycle": (650, 170),
    "search": (250, 180),
    "agents": (560, 180),
    "index": (110, 160),
    "transcripts": (320, 160),
    "knowledge": (530, 160),
    "sync": (780, 160),
    "llm": (110, 160),
    "store": (530, 320),
    "text": (330, 420),
    "config": (690, 220),
}


def packages() -> set[str]:
    """Every package and single module of the house, as it is drawn: the interfaces are one."""
    return {_drawn(name) for name in house.modules()} - {"__init__", "__main__", "vademecum", ""}


def interfaces() -> set[str]:
    """The names of the interfaces."""
    found = {house.package_of(name) for name in house.modules()}
    return {name.partition(".")[2] for name in found if name.startswith("interfaces.")}


def _drawn(module: str) -> str:
    return house.package_of(module).partition(".")[0]


def edges() -> set[tuple[str, str]]:
    """Which package imports which; the ground is imported by all."""
    known = packages() - GROUND
    pairs = {(_drawn(each.source), _drawn(each.target)) for each in house.imports()}
    return {(a, b) for a, b in pairs if a != b and a in known and b in known}


def arrows() -> set[tuple[str, str]]:
    """The imports that are drawn: none that a way over other packages says already."""
    every = edges()
    return {(a, b) for a, b in every if b not in _reached(a, every - {(a, b)})}


def _reached(start: str, pairs: set[tuple[str, str]]) -> set[str]:
    found: set[str] = set()
    waiting = [start]
    while waiting:
        here = waiting.pop()
        further = {b for a, b in pairs if a == here} - found
        found |= further
        waiting += further
    return found


def drawing() -> str:
    """The map as SVG: a band for each floor, and the arrows between packages."""
    tops = {name: TOP + floor * STEP for floor, row in enumerate(FLOORS) for name in row}
    height = TOP + len(FLOORS) * STEP - (STEP - HEIGHT) + 12
    shapes = [
        f'<rect x="8" y="{TOP + floor * STEP - 14}" width="{WIDTH - 16}" height="{HEIGHT + 28}" rx="8" '
        f'fill="{"#eef7ea" if row[0] in GROUND else "#f7f7f9"}"/>'
        for floor, row in enumerate(FLOORS)
    ]
    shapes += [_arrow(source, target, tops) for source, target in sorted(arrows())]
    for row in FLOORS[:-1]:
        shapes += [_box(name, ABOUT[name], *_COLUMNS[name], tops[name]) for name in row]
    for name, words in (("interfaces", "interfaces"), ("text", "for all"), ("types", "for all")):
        shapes.append(
            f'<text x="{WIDTH - 16}" y="{tops[name] + 28}" text-anchor="end" font-size="11" fill="#556">'
            f"{words}</text>"
        )
    shapes += _chips(INTERFACES, tops["interfaces"] + 8, "#fff6e0")
    shapes += _chips(FLOORS[-1], tops["types"] + 8, "#ffffff")
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" font-family="sans-serif" '
        'font-size="13">\n<title>Packages of vademecum on their floors; arrows are imports</title>\n'
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0 0L8 4L0 8z" fill="#667"/></marker></defs>\n'
        f'<rect width="{WIDTH}" height="{height}" fill="#ffffff"/>'
    )
    return "\n".join([head, *shapes, "</svg>\n"])


def _box(name: str, about: str, middle: int, width: int, y: int) -> str:
    fill = "#fff6e0" if name in ("interfaces", "adapters") else "#e8f0fa"
    fill = "#f1e6fa" if name == house.HUB else fill
    fill = "#ffffff" if name in GROUND else "#ffe3dc" if name == "memory" else fill
    box = (
        f'<rect x="{middle - width / 2:g}" y="{y}" width="{width}" height="{HEIGHT}" rx="5" fill="{fill}" '
        'stroke="#445"/>'
    )
    if not about:
        return box
    return (
        f'{box}<text x="{middle}" y="{y + 19}" text-anchor="middle" font-weight="bold">{escape(name)}</text>'
        f'<text x="{middle}" y="{y + 36}" text-anchor="middle" font-size="11" fill="#556">'
        f"{escape(about)}</text>"
    )


def _chips(names: list[str], y: int, fill: str) -> list[str]:
    """Small boxes side by side, from the left edge of the interfaces to their right one."""
    width = 762 / len(names)
    found = []
    for number, name in enumerate(names):
        x = 49 + number * width
        found.append(
            f'<rect x="{x + 3:g}" y="{y}" width="{width - 6:g}" height="{HEIGHT - 16}" rx="4" fill="{fill}" '
            f'stroke="#99a"/><text x="{x + width / 2:g}" y="{y + 20}" text-anchor="middle">'
            f"{escape(name)}</text>"
        )
    return found


def _arrow(source: str, target: str, tops: dict[str, int]) -> str:
    """An arrow from one box down to another; where it passes a floor, it goes around on the right."""
    x1, y1, x2, y2 = (
        _port(source, target, down=True),
        tops[source] + HEIGHT,
        _port(target, source),
        tops[target],
    )
    title = f"<title>{source} imports {target}</title>"
    if y2 - y1 > STEP:
        middle, width = _COLUMNS[source]
        start, y = middle + width / 2, tops[source] + HEIGHT / 2
        path = f"M{start:g} {y:g} L{x2 - 20:g} {y:g} Q{x2:g} {y:g} {x2:g} {y + 20:g} L{x2:g} {y2 - 2}"
    else:
        path = f"M{x1:g} {y1} L{x2:g} {y2 - 2}"
    return (
        f'<path d="{path}" fill="none" stroke="#667" stroke-width="1.3" marker-end="url(#tip)">{title}</path>'
    )


def _port(name: str, other: str, *, down: bool = False) -> float:
    """Where an arrow meets a box: the arrows share its side, in the order of the boxes they come from."""
    ends = [b if down else a for a, b in arrows() if (a if down else b) == name]
    ends.sort(key=lambda each: _COLUMNS[each][0])
    middle, width = _COLUMNS[name]
    at = (ends.index(other) + 1) / (len(ends) + 1) - 0.5
    return middle + at * min(width, 60 * (len(ends) + 1))


def listing() -> str:
    """Every module with the first sentence of its docstring, by package."""
    rows: dict[str, list[str]] = defaultdict(list)
    for path in house.modules().values():
        text = path.read_text("utf-8")
        sentence = (ast.get_docstring(ast.parse(text)) or "").partition("\n\n")[0]
        if path.name != "__init__.py" or text.count("\n") > 3:  # a front that is only there says nothing
            top = house.SOURCE if path.is_relative_to(house.SOURCE) else house.SOURCE.parent
            package = path.parent.relative_to(top).as_posix()
            rows[package].append(f"| `{path.name}` | {' '.join(sentence.split())} |")
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
