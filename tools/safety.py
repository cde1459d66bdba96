"""Make the table of promises and threats in docs/safety.md, with the target of make that proves each row.

`python -m tools.safety` counts the tests of every row in `make test`, `make test-all` and `make soak`, and
writes the table. `python -m tools.safety R1 S4` runs the tests of these rows, `--soak` adds the long ones.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
TESTS, PAGE = ROOT / "tests", ROOT / "docs/safety.md"
MAPPING, COUNTS = TESTS / "safety.toml", TESTS / "safety_counts.json"
IDS = [f"{kind}{number}" for kind, last in (("R", 27), ("S", 28)) for number in range(1, last + 1)]
TIERS = ("test", "full", "soak")  # as `pytest --tier` calls them
BEGIN, END = "<!-- promises: made by `python -m tools.safety` -->", "<!-- end of promises -->"


def mapping() -> dict[str, dict[str, Any]]:
    """Return every row: its sentence, its tests, and the gaps that no test covers."""
    return tomllib.loads(MAPPING.read_text("utf-8"))


def counts() -> dict[str, dict[str, int]]:
    """Return the number of tests in each tier, by the names that the rows use."""
    found: dict[str, dict[str, int]] = json.loads(COUNTS.read_text("utf-8")) if COUNTS.exists() else {}
    return found


@cache
def tests_in(file: Path) -> frozenset[str]:
    """Return the names of the tests in a file."""
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def unknown(names: list[str]) -> list[str]:
    """Return the names that stand for no test."""
    wrong = []
    for name in names:
        file, _, test = name.partition("::")
        path = TESTS / file
        if not path.is_file() or (test and test not in tests_in(path)):
            wrong.append(name)
    return wrong


def count_row(id_: str) -> dict[str, int]:
    """Return the number of tests of a row in each tier."""
    known = counts()
    return {tier: sum(known.get(name, {}).get(tier, 0) for name in mapping()[id_]["tests"]) for tier in TIERS}


def table() -> str:
    """Return the table as Markdown."""
    lines = [
        "| | promise or threat | `make test` | `make test-all` adds | `make soak` | tests | not tested |",
        "|---|---|---|---|---|---|---|",
    ]
    for id_, row in mapping().items():
        numbers = " | ".join(str(number or "") for number in count_row(id_).values())
        files = ", ".join(dict.fromkeys(f"`{name.partition('::')[0]}`" for name in row["tests"])) or "none"
        lines.append(f"| {id_} | {row['what']} | {numbers} | {files} | {row.get('missing', '')} |")
    return "\n".join(lines)


def write_page() -> None:
    """Put the table into the page."""
    page = PAGE.read_text("utf-8")
    above, _, rest = page.partition(BEGIN)
    below = rest.partition(END)[2]
    PAGE.write_text(f"{above}{BEGIN}\n{table()}\n{END}{below}", "utf-8")


def count() -> None:
    """Count the tests of every name in each tier."""
    names = sorted({name for row in mapping().values() for name in row["tests"]})
    found: dict[str, dict[str, int]] = {name: {} for name in names}
    for tier in TIERS:
        listed = _pytest("--collect-only", "-q", f"--tier={tier}", *map(_path, names), capture=True).stdout
        nodes = [line.removeprefix("tests/") for line in listed.splitlines() if "::" in line]
        for name in names:
            found[name][tier] = sum(_is_of(node, name) for node in nodes)
    COUNTS.write_text(json.dumps(found, indent=1, sort_keys=True) + "\n", "utf-8")


def run(ids: list[str], *, soak: bool) -> int:
    """Run the tests of these rows and return pytest's exit code."""
    names = sorted({name for id_ in ids for name in mapping()[id_]["tests"]})
    code = _pytest("-q", "-n0", *map(_path, names)).returncode
    if soak:
        code = _pytest("-q", "-n0", "--tier=soak", *map(_path, names)).returncode or code
    return code


def _is_of(node: str, name: str) -> bool:
    return node.partition("[")[0] == name if "::" in name else node.startswith(f"{name}::")


def _path(name: str) -> str:
    return f"tests/{name}"


def _pytest(*words: str, capture: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=capture, text=True, check=False)


def main(words: list[str]) -> int:
    """Run the tests of the named rows, or count and write the table."""
    ids = [word for word in words if word != "--soak"]
    if ids:
        return run(IDS if ids == ["all"] else ids, soak="--soak" in words)
    count()
    write_page()
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
