"""How well memory notices that the code it cites has changed: a repository of our own, before and after.

`sets/claims` holds the files of a project, scripted changes (moved, renamed, deleted, another value, another
language) and sentences that cite it, each with whether it is stale afterwards. The sentences are split in
halves by their id: rules were written from the development half, the held-out half is only counted. Every
sentence is stored while it holds, then the project is changed, and lint, search, heal and the injected block
say what they see: with git and without, and for entries of which nothing was kept when they were written.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from vademecum.inject import build
from vademecum.memory import connect
from vademecum.search import passages
from vademecum.types import Origin

if TYPE_CHECKING:
    from vademecum.memory import Memory

SETS = Path(__file__).parent / "sets" / "claims"
INJECTED = "[inject]\nscope_chars = 100000\nmax_per_scope = 1000\ntotal_tokens = 50000\n"


class Cited(NamedTuple):
    """A sentence that cites the project, and whether it is stale after the changes."""

    id: str
    kind: str
    stale: bool
    text: str


class Seen(NamedTuple):
    """Who calls one sentence stale."""

    lint: bool
    search: bool
    heal: bool
    told: bool  # by the injected block
    moved: bool  # it is there, and heal has nothing to mark


def read() -> list[Cited]:
    """All sentences."""
    lines = (SETS / "claims.jsonl").read_text(encoding="utf-8").splitlines()
    return [Cited(**json.loads(line)) for line in lines]


def held_out(cited: Cited) -> bool:
    """Which half a sentence is in: by its id, so that adding one moves no other."""
    return int(hashlib.sha256(cited.id.encode()).hexdigest(), 16) % 2 == 0


def make_project(root: Path, *, git: bool) -> None:
    """The project before the changes."""
    for path, content in json.loads((SETS / "project.json").read_text())["before"].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(content)
    if git:
        _commit(root, "before", begin=True)


def change_project(root: Path, *, git: bool) -> None:
    """Make every change of the script."""
    for change in json.loads((SETS / "project.json").read_text())["changes"]:
        [(verb, given)] = change.items()
        if verb == "delete":
            path = root / given
            shutil.rmtree(path) if path.is_dir() else path.unlink()
        elif verb == "move":
            (root / given[1]).parent.mkdir(parents=True, exist_ok=True)
            (root / given[0]).rename(root / given[1])
        elif verb == "write":
            (root / given[0]).write_text(given[1])
        else:
            before = (root / given[0]).read_text()
            if given[1] not in before:
                raise ValueError(f"{given[0]} has no {given[1]!r}")
            (root / given[0]).write_text(before.replace(given[1], given[2]))
    if git:
        _commit(root, "after")


def _commit(root: Path, message: str, *, begin: bool = False) -> None:
    who = ["-c", "user.name=bench", "-c", "user.email=bench@example.org"]
    steps = [["init", "-q"]] if begin else []
    for step in (*steps, ["add", "-A"], [*who, "commit", "-qm", message]):
        subprocess.run(["git", "-C", str(root), *step], check=True, capture_output=True)


def observe(
    cited: list[Cited], top: Path, *, git: bool, by_hand: bool = False, change: bool = True
) -> dict[str, Seen]:
    """Who calls which sentence stale after the changes, by the id of the sentence.

    Search and the block look at code for a moment only; here they have all the time they need.
    """
    constants = passages.SECONDS, build.CODE_SECONDS
    passages.SECONDS = build.CODE_SECONDS = 30.0
    try:
        return _observed(cited, top, git=git, by_hand=by_hand, change=change)
    finally:
        passages.SECONDS, build.CODE_SECONDS = constants


def _observed(cited: list[Cited], top: Path, *, git: bool, by_hand: bool, change: bool) -> dict[str, Seen]:
    root = top / "project"
    make_project(root, git=git)
    (top / "home").mkdir()
    (top / "home" / "config.toml").write_text(INJECTED)
    memory = connect(home=top / "home", cwd=root, origin=Origin.USER, environ={})
    for each in cited:
        memory.store(each.text, key=each.id, type="feedback")
    if by_hand:
        for path in (top / "home").rglob("records/c*.md"):
            path.write_text(re.sub(r" \| cites: [^|\n]*?(?= -->)", "", path.read_text()))
    if change:
        change_project(root, git=git)
    return _seen(memory, cited)


def _seen(memory: Memory, cited: list[Cited]) -> dict[str, Seen]:
    found = [each for each in memory.care.lint(seconds=120) if each.what == "stale_claim"]
    linted = {_key(each.where) for each in found}
    healed = {_key(each.where) for each in memory.care.heal().proposals if each.what == "stale_claim"}
    block = memory.injection.block().text.split("\n")
    seen = {}
    for each in cited:
        answer = memory.search(each.text, max_results=5, mode="bm25")
        hits = [hit for hit in answer.results if hit.key == each.id]
        standings = {claim.standing for hit in hits for claim in hit.claims}
        line = next(line for line in block if f" {each.id}" in line)
        seen[each.id] = Seen(
            each.id in linted,
            bool(standings - {"verified"}),
            each.id in healed,
            "[stale: " in line,
            standings - {"verified"} == {"moved"},
        )
    return seen


def _key(where: str) -> str:
    return where.rpartition("/")[2].partition(".md")[0]


def measure() -> list[dict[str, object]]:
    cited = read()
    rows: list[dict[str, object]] = []
    for name, git, by_hand in (
        ("stored, git", True, False),
        ("stored, no git", False, False),
        ("written by hand", True, True),
    ):
        with tempfile.TemporaryDirectory() as scratch:
            seen = observe(cited, Path(scratch), git=git, by_hand=by_hand)
        rows += [make_row(name, half, cited, seen) for half in (True, False)]
    return rows


def make_row(name: str, half: bool, cited: list[Cited], seen: dict[str, Seen]) -> dict[str, object]:
    """Recall and precision of one half, and how often those who say so do not agree."""
    mine = [each for each in cited if held_out(each) is half]
    stale = [each for each in mine if each.stale]
    found = [each for each in mine if seen[each.id].lint]
    right = sum(each.stale for each in found)
    return {
        "how": name,
        "half": "held out" if half else "development",
        "claims": len(mine),
        "stale": len(stale),
        "found": right,
        "false": len(found) - right,
        "recall": round(right / len(stale), 3),
        "precision": round(right / len(found), 3) if found else "-",
        "disagree": sum(not agree(seen[each.id]) for each in mine),
    }


def agree(seen: Seen) -> bool:
    """Whether search and the block say what lint says, and heal marks it unless it only moved."""
    return seen.lint == seen.search == seen.told and seen.heal == (seen.lint and not seen.moved)
