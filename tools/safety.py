"""The table of promises and threats in docs/safety.md: how many tests hold each, and how they ended last.

`python -m tools.safety` counts the tests and writes the table; with ids (`R1 S4`), or `all`, it runs theirs
before that, with `--soak` the long ones as well; `--from report.xml` takes the results of a run with
`--junitxml`.
"""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import tempfile
import tomllib
from collections import Counter
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

ROOT = Path(__file__).parents[1]
TESTS, PAGE = ROOT / "tests", ROOT / "docs/safety.md"
MAPPING, RESULTS = TESTS / "safety.toml", TESTS / "safety_results.json"
IDS = [f"{kind}{number}" for kind in "RS" for number in range(1, 28)]
BEGIN, END = "<!-- promises: made by `python -m tools.safety` -->", "<!-- end of promises -->"


def mapping() -> dict[str, dict[str, Any]]:
    """What is held by which tests."""
    return tomllib.loads(MAPPING.read_text("utf-8"))


def results() -> dict[str, dict[str, Any]]:
    """What was counted and how it ended, by the names of the mapping."""
    found: dict[str, dict[str, Any]] = json.loads(RESULTS.read_text("utf-8")) if RESULTS.exists() else {}
    return found


@cache
def tests_in(file: Path) -> frozenset[str]:
    """The names of the tests in a file."""
    tree = ast.parse(file.read_text("utf-8"))
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


def unknown(names: list[str]) -> list[str]:
    """Names that stand for no test."""
    wrong = []
    for name in names:
        file, _, test = name.partition("::")
        path = TESTS / file
        if not path.is_file() or (test and test not in tests_in(path)):
            wrong.append(name)
    return wrong


def table() -> str:
    """The table as Markdown."""
    known = results()
    lines = ["| | promise or threat | tests | last result | not tested |", "|---|---|---|---|---|"]
    for id_, row in mapping().items():
        names = row["tests"]
        counted = [known.get(name, {}) for name in names]
        usual, long = (sum(each.get(kind, 0) for each in counted) for kind in ("usual", "soak"))
        which = ", ".join(dict.fromkeys(f"`{name.partition('::')[0]}`" for name in names)) or "none"
        number = f"{usual}{f' and {long} long' if long else ''} in {which}" if names else "none"
        lines.append(
            f"| {id_} | {row['what']} | {number} | {_ended(names, known)} | {row.get('missing', '')} |"
        )
    return "\n".join(lines)


def _ended(names: list[str], known: dict[str, dict[str, Any]]) -> str:
    runs = [known[name]["last"] for name in names if "last" in known.get(name, {})]
    if not names:
        return "none"
    if len(runs) < len(names):
        return f"not recorded for {len(names) - len(runs)} of {len(names)}" if runs else "not recorded"
    total = Counter[str]()
    for each in runs:
        total.update({kind: each[kind] for kind in ("passed", "failed", "skipped")})
    said = ", ".join(f"{total[kind]} {kind}" for kind in ("passed", "failed", "skipped") if total[kind])
    return f"{said} ({min(each['day'] for each in runs)})"


def write_page() -> None:
    """Put the table into the page."""
    page = PAGE.read_text("utf-8")
    above, _, rest = page.partition(BEGIN)
    below = rest.partition(END)[2]
    PAGE.write_text(f"{above}{BEGIN}\n{table()}\n{END}{below}", "utf-8")


def count() -> None:
    """Count the tests of every name."""
    names = sorted({name for row in mapping().values() for name in row["tests"]})
    known = results()
    for kind, marks in (("usual", "not soak"), ("soak", "soak")):
        said = _pytest("--collect-only", "-q", "-m", marks, *(_path(name) for name in names)).stdout
        nodes = [line.removeprefix("tests/") for line in said.splitlines() if "::" in line]
        for name in names:
            known.setdefault(name, {})[kind] = sum(_is_of(node, name) for node in nodes)
    _keep({name: known[name] for name in names})


def run(ids: list[str], *, soak: bool) -> int:
    """Run the tests of these ids and keep how they ended."""
    names = sorted({name for id_ in ids for name in mapping()[id_]["tests"]})
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        marks = [] if soak else ["-m", "not soak"]
        done = _pytest("-q", "-n0", f"--junitxml={report}", *marks, *map(_path, names), shown=True)
        take(report, names)
    return done.returncode


def take(report: Path, names: list[str]) -> None:
    """Keep how the tests of these names ended, by a report of a run."""
    ended: dict[str, Counter[str]] = {name: Counter() for name in names}
    for case in ElementTree.parse(report).iter("testcase"):
        file = case.get("classname", "").removeprefix("tests.").replace(".", "/") + ".py"
        node = f"{file}::{case.get('name', '')}"
        kinds = {child.tag for child in case}
        how = "failed" if kinds & {"failure", "error"} else "skipped" if "skipped" in kinds else "passed"
        for name in names:
            ended[name][how] += _is_of(node, name)
    known = results()
    day = f"{datetime.now(UTC):%Y-%m-%d}"
    for name, counted in ended.items():
        if counted.total():
            known.setdefault(name, {})["last"] = {
                **{kind: counted[kind] for kind in ("passed", "failed", "skipped")},
                "day": day,
            }
    _keep(known)


def _is_of(node: str, name: str) -> bool:
    return node.partition("[")[0] == name if "::" in name else node.startswith(f"{name}::")


def _path(name: str) -> str:
    return f"tests/{name}"


def _pytest(*words: str, shown: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, cwd=ROOT, capture_output=not shown, text=True, check=False)


def _keep(known: dict[str, dict[str, Any]]) -> None:
    RESULTS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n", "utf-8")


def main(words: list[str]) -> int:
    """Do what was asked, and write the table."""
    code = 0
    if words[:1] == ["--from"]:
        take(Path(words[1]), sorted({name for row in mapping().values() for name in row["tests"]}))
    elif words:
        ids = [word for word in words if word != "--soak"]
        code = run(IDS if ids == ["all"] else ids, soak="--soak" in words)
    else:
        count()
    write_page()
    return code


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
