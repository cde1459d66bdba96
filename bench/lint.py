"""Lint and heal by number of records; lint of a folder of Markdown beside `grep -r` over it."""

from __future__ import annotations

import subprocess
import tarfile
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator

ROUNDS = 9
SIZES = (1_000, 10_000)
WORDS = """amber basalt cedar delta ember fjord garnet heron iris juniper kelp larch maple nectar onyx pine
quartz rowan sable thorn""".split()
# One word; and one expression that looks for no more than names of secrets beside a value.
GREPS = {
    "grep -r, one word": ["memory"],
    "grep -rE, links": ["-E", r"\[\[[^]]+\]\]|\]\([^)]+\.md\)"],
    "grep -riE, names of secrets and a value": [
        "-iE",
        "(api[_-]?key|token|secret|passw(or)?d|auth|bearer|credential)[ :=]+[a-z0-9/+_-]{16,}",
    ],
}


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--data", type=Path, help="also a folder of Markdown, or a tar of one, beside grep")


def measure(chosen: argparse.Namespace) -> dict[str, list[dict[str, object]]]:
    results = {"lint and heal, by records": by_records()}
    if chosen.data is not None:
        results["lint beside grep"] = beside_grep(chosen.data)
    return results


def by_records() -> list[dict[str, object]]:
    """Seconds of a lint and a heal over many records and ten times as many, about some code."""
    rows: list[dict[str, object]] = []
    for count in SIZES:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch:
            top = Path(scratch).absolute()
            (top / "project" / "src").mkdir(parents=True)
            for number in range(200):
                code = f"def part_{number}():\n    return {number}\n"
                (top / "project" / "src" / f"part_{number}.py").write_text(code)
            memory = connect(home=top / "home", cwd=top / "project", origin=Origin.USER, environ={})
            memory.store("The first record.", key="first")
            folder = next((top / "home").glob("memory/project/*/records"))
            for number, text in enumerate(_texts(count)):
                (folder / f"r{number}.md").write_text(text)
            row: dict[str, object] = {"records": count}
            for name in ("lint", "again", "heal"):
                begun = time.process_time()
                found = len(memory.care.heal().proposals if name == "heal" else memory.care.lint())
                row[f"{name}, CPU s"] = round(time.process_time() - begun, 3)
                row[f"{name} found"] = found
            rows.append(row)
    return rows


def _texts(count: int) -> Iterator[str]:
    """Records as agents write them; one in a hundred contradicts itself, one cites what is gone."""
    for number in range(count):
        texts = [
            f"The {WORDS[number % 20]} worker {number} writes to queue {number % 7}.",
            f"`part_{number % 200}()` of src/part_{number % 200}.py does it.",
            f"See [[r{(number * 7) % count}]].",
        ]
        if number % 100 == 0:
            texts.append(f"The worker {number} limit is {number}.")
        if number % 100 == 50:
            texts.append(f"The rest is in src/gone_{number}.py.")
        more = (
            f"\n## 2026-02-02T00:00:00Z\nThe worker {number} limit is {number + 1}.\n"
            if number % 100 == 0
            else ""
        )
        yield f"---\ntype: project\n---\n# r{number}\n\n## 2026-01-01T00:00:00Z\n{' '.join(texts)}\n{more}"


def beside_grep(data: Path) -> list[dict[str, object]]:
    """Milliseconds of a lint of a folder that is attached as a source."""
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as scratch:
        folder = markdown_folder(data, Path(scratch))
        rows = [_row(name, partial(_grep, folder, words)) for name, words in GREPS.items()]
        memory = connect(home=Path(scratch, "home").absolute(), cwd=scratch, origin=Origin.USER, environ={})
        memory.sources.add(folder, name="bench")
        begun = time.perf_counter()
        found = memory.care.lint()
        first = time.perf_counter() - begun
        rows.append({"what": "lint, the first time", "p50 ms": round(first * 1000, 1)})
        rows.append(_row("lint, again", memory.care.lint))
        fastest = float(str(rows[0]["p50 ms"]))
        for row in rows:
            row["times grep -r"] = round(float(str(row["p50 ms"])) / fastest, 1)
        kinds = {finding.what for finding in found}
        counts = [f"{kind} {sum(each.what == kind for each in found)}" for kind in sorted(kinds)]
        files = sum(1 for _ in memory.sources.list()[0].markdown())
        return [{**row, "files": files, "findings": ", ".join(counts) or "none"} for row in rows]


def markdown_folder(data: Path, scratch: Path) -> Path:
    """A folder of Markdown, unpacked if it is a tar."""
    if data.is_dir():
        return data.absolute()
    target = scratch / "data"
    with tarfile.open(data) as archive:
        archive.extractall(target, filter="data")
    return target.absolute()


def _grep(folder: Path, words: list[str]) -> None:
    subprocess.run(["grep", "-r", *words, folder], stdout=subprocess.DEVNULL, check=False)


def _row(name: str, action: Callable[[], object]) -> dict[str, object]:
    seconds = []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - begun)
    return {"what": name, "p50 ms": round(sorted(seconds)[ROUNDS // 2] * 1000, 1)}
