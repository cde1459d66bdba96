"""`vade demo`: a tour in a temporary home, in which every step really happens and is checked."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from vademecum.errors import NotFound, VadeError
from vademecum.interfaces.cli import output
from vademecum.interfaces.cli.options import common

if TYPE_CHECKING:
    from collections.abc import Callable

    from vademecum.memory import Memory


class StepFailed(VadeError):
    """A step of the tour did not do what it shows."""

    hint = "run `vade doctor`; if all is well there, report it"


@click.command()
@common
def demo(as_json: bool, door: Callable[[], Memory]) -> None:
    """Take a short tour in a temporary folder; your own memory is not touched."""
    steps: list[dict[str, str]] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vade-demo-") as folder:
        tour = Tour(Path(folder), quiet=as_json)
        for step in TOUR:
            shown = step(tour)
            steps.append({"step": step.__name__, "shown": shown})
    if as_json:
        output.as_json({"steps": steps, "seconds": round(time.monotonic() - begun, 2)})
    else:
        output.line(
            f"\nAll {len(steps)} steps worked, in {time.monotonic() - begun:.1f} s. "
            'Now your own: `vade store "…"`'
        )


class Tour:
    """A home and a project of their own, and a memory opened through the same door as the command line's."""

    def __init__(self, folder: Path, *, quiet: bool) -> None:
        self.home, self.project, self.quiet = folder / "home", folder / "project", quiet
        self.project.mkdir()

    def memory(self, **environ: str) -> Memory:
        """Open memory anew, as each command does."""
        from vademecum.memory import connect
        from vademecum.types import Origin

        return connect(
            home=self.home, cwd=self.project, origin=Origin.USER, actor="human:demo", environ=environ
        )

    def say(self, title: str, *lines: str) -> str:
        """Print what a step did."""
        if not self.quiet:
            output.line(f"\n• {title}")
            for each in lines:
                output.line(f"  {each}")
        return title


def check(holds: bool, what: str) -> None:
    """Stop the tour when something shown is not so."""
    if not holds:
        raise StepFailed(f"the demo expected {what}")


def keep_three(tour: Tour) -> str:
    """Three memories in two scopes."""
    memory = tour.memory()
    first = memory.store(
        "Always use pytest in this project. Do not use unittest.",
        key="testing-framework",
        type="feedback",
        tags=["testing"],
    )
    second = memory.store("The API is versioned in the path: /v1, /v2.", key="api-versioning")
    third = memory.store("Prefers short answers without a summary at the end.", scope="global", type="user")
    on_disk = [(tour.home / each.path).read_text(encoding="utf-8") for each in (first, second, third)]
    check("Do not use unittest." in on_disk[0], "the first memory in its file")
    check([each.num for each in (first, second, third)] == [1, 2, 3], "numbers one to three")
    return tour.say(
        "Keep three memories, two for this project and one for everywhere",
        *(f"#{each.num} {each.key} → {each.path}" for each in (first, second, third)),
    )


def write_a_note(tour: Tour) -> str:
    """A note in today's journal."""
    noted = tour.memory().note("Talked to Ann: the API freeze is on Friday.")
    text = (tour.home / noted.path).read_text(encoding="utf-8")
    check("API freeze" in text and f"## {noted.time}" in text, "the note under its time")
    return tour.say("Add a note to today's journal", noted.path)


def edit_by_hand(tour: Tour) -> str:
    """A file changed with any editor is what memory says from then on."""
    memory = tour.memory()
    path = tour.home / memory.show("api-versioning").path
    path.write_text(path.read_text(encoding="utf-8").replace("/v1, /v2", "/v1, /v2, /v3"), encoding="utf-8")
    seen = tour.memory().show("api-versioning").text
    check("/v3" in seen, "the edit to be seen at once")
    again = tour.memory().store("Version 1 ends in March.", key="api-versioning")
    texts = [entry.text for entry in tour.memory().show("api-versioning").entries]
    check(
        str(again.outcome) == "appended" and "/v3" in texts[0] and texts[1] == "Version 1 ends in March.",
        "the edit to stay when more is added",
    )
    return tour.say("Edit the file by hand: the edit is seen, and stays when more is added", *texts)


def change_a_mind(tour: Tour) -> str:
    """What no longer holds is marked, not lost."""
    memory = tour.memory()
    memory.store("Use pytest with xdist in this project.", key="testing-framework", mode="replace")
    old, new = tour.memory().show("testing-framework").entries
    check(old.superseded is not None and new.live, "the old entry to be superseded by the new one")
    return tour.say("Change a decision: the old entry stays, marked", f"old: {old.text}", f"now: {new.text}")


def guard_a_secret(tour: Tour) -> str:
    """A secret does not get as far as the disk."""
    token = "ghp_" + "Zk3v9QmX7rT1bN5cL8wY2pD6sF4gH0jKa1Bc"
    stored = tour.memory().store(f"The deploy token is {token}", key="deploy-token")
    text = (tour.home / stored.path).read_text(encoding="utf-8")
    check(token not in text and stored.secrets != (), "the token to be redacted")
    return tour.say("Store a token by mistake: it is redacted before it is written", text.split("\n")[-3])


def forget_and_restore(tour: Tour) -> str:
    """Forgetting archives; restoring brings back every byte."""
    memory = tour.memory()
    path = tour.home / memory.show("testing-framework").path
    before = path.read_bytes()
    memory.forget("testing-framework")
    check(not path.exists(), "the file to be gone")
    try:
        memory.show("testing-framework")
    except NotFound as error:
        said = str(error)
    else:
        raise StepFailed("the demo expected a forgotten memory not to be found")
    tour.memory().restore("testing-framework")
    check(path.is_file() and path.read_bytes() == before, "the same bytes after restoring")
    return tour.say(
        "Forget a memory and restore it", f"after forget: {said}", "after restore: the same bytes"
    )


def find_the_lines(tour: Tour) -> str:
    """By meaning, by an exact name, with the index thrown away, and without the model: the right lines."""
    import shutil

    asked = {"brief replies": "prefers-short-answers", "/v3": "api-versioning"}

    def answers(memory: Memory, question: str) -> list[str]:
        return [f"{each.path}#L{each.start}-L{each.end}" for each in memory.search(question).results]

    shown = []
    for question, key in asked.items():
        found = answers(tour.memory(), question)
        check(bool(found) and key in found[0], f"{key} to answer {question!r}")
        shown.append(f"{question} → {found[0]}")
    before = {question: answers(tour.memory(), question) for question in asked}
    shutil.rmtree(tour.home / "index")
    check({each: answers(tour.memory(), each) for each in asked} == before, "the same without the old index")
    plain = tour.memory(VADE_EMBEDDER="none").search("/v3")
    check(plain.mode == "bm25" and "api-versioning" in plain.results[0].path, "keywords without the model")
    check(not tour.memory().search("a recipe for chocolate cake").results, "nothing about what is not there")
    return tour.say(
        "Search by meaning and by name; the same with the index deleted and without the model", *shown
    )


def show_the_audit(tour: Tour) -> str:
    """Every change has its line, and the lines are chained."""
    memory = tour.memory()
    lines = list(memory.audit_lines())
    report = memory.verify_audit()
    check(len(lines) >= 9 and report.lines == len(lines) and not report.problems, "an unbroken audit")
    text = "".join(each.read_text() for each in sorted((tour.home / "audit").glob("*.jsonl")))
    check("pytest" not in text and "testing-framework" not in text, "no text and no key in the audit")
    log = next((tour.home / "audit").glob("*.jsonl"))
    log.write_text(log.read_text().replace('"op":"forget"', '"op":"created"'))
    check(bool(memory.verify_audit().problems), "a changed line to be found")
    shown = [f"{each['at']}  {each['op']:<10} #{each['num'] or '-'}" for each in lines[-3:]]
    return tour.say("Read the audit: one line a change, chained, and a changed line is found", *shown)


TOUR: tuple[Callable[[Tour], str], ...] = (
    keep_three,
    write_a_note,
    edit_by_hand,
    change_a_mind,
    guard_a_secret,
    forget_and_restore,
    find_the_lines,
    show_the_audit,
)

COMMANDS = {"demo": demo}
