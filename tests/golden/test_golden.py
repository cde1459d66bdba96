"""A long script, played with one clock and counted ids, gives what it gave when it was recorded.

`python tests/golden/test_golden.py` records anew. Do that only for a change that was wanted, and say which.
"""

from __future__ import annotations

import difflib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # for the run that records
from checkout import python_path

HERE = Path(__file__).parent
RECORDED = HERE / "recorded"


def play(folder: Path) -> dict[str, Any]:
    """Play everything in an empty folder, in a process whose clock stands still."""
    (folder / "stage").mkdir()
    start = [sys.executable, str(HERE / "play.py"), str(folder / "stage"), str(folder / "out")]
    clean = {
        name: value for name, value in os.environ.items() if name in ("PATH", "LD_LIBRARY_PATH", "TMPDIR")
    }
    frozen = {
        "GOLDEN_NOW": "2026-09-01T00:00:00+00:00",
        "PYTHONPATH": os.pathsep.join((str(HERE / "child"), python_path())),
        "PYTHONHASHSEED": "0",
    }
    subprocess.run(start, env={**clean, **frozen}, check=True)
    return read(folder / "out")


def read(folder: Path) -> dict[str, Any]:
    return {path.stem: json.loads(path.read_text("utf-8")) for path in sorted(folder.glob("*.json"))}


def differences(was: object, now: object, where: str = "") -> list[str]:
    """What is not the same, with where it stands; lines of a text are compared one by one."""
    if isinstance(was, dict) and isinstance(now, dict):
        names = sorted(set(was) | set(now))
        return [
            said for name in names for said in differences(was.get(name), now.get(name), f"{where}/{name}")
        ]
    if isinstance(was, list) and isinstance(now, list) and len(was) == len(now):
        pairs = enumerate(zip(was, now, strict=True))
        return [said for number, (old, new) in pairs for said in differences(old, new, f"{where}[{number}]")]
    if was == now:
        return []
    told = difflib.unified_diff(str(was).splitlines(), str(now).splitlines(), lineterm="", n=0)
    return [where, *list(told)[2:12]]


def test_what_comes_out_is_what_was_recorded(tmp_path: Path) -> None:
    # One test: two would be played twice, by two processes.
    recorded, played = read(RECORDED), play(tmp_path)
    assert sorted(recorded["runs"]) == ["commands", "home", "hooks", "last", "mcp"]
    assert "\n".join(differences(recorded["runs"], played["runs"])) == ""
    was, now = recorded["rankings"], played["rankings"]
    assert len(was) == len(now) == 500
    assert [old for old, new in zip(was, now, strict=True) if not same(old, new)] == []


def same(was: list[Any], now: list[Any]) -> bool:
    """Whether an answer is the same; the last digit of a score is the machine's."""
    if was[:3] != now[:3] or len(was[3]) != len(now[3]):
        return False
    pairs = zip(was[3], now[3], strict=True)
    return all(
        [*old[:3], old[4]] == [*new[:3], new[4]] and old[3] == pytest.approx(new[3], abs=2e-4)
        for old, new in pairs
    )


def test_the_comparison_sees_one_changed_word() -> None:
    was = {"commands": {"a": {"out": "one\ntwo\n", "code": 0}}}
    now = {"commands": {"a": {"out": "one\nthree\n", "code": 0}}}
    assert differences(was, now) == ["/commands/a/out", "@@ -2 +2 @@", "-two", "+three"]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        made = play(Path(folder))
    RECORDED.mkdir(exist_ok=True)
    for name, content in made.items():
        text = json.dumps(content, indent=1, sort_keys=name == "runs")
        (RECORDED / f"{name}.json").write_text(text + "\n", "utf-8")
