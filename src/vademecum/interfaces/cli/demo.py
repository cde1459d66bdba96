"""`vade demo`: a tour in a temporary home whose steps are carried out and checked."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import click

from vademecum.errors import NotFound, VadeError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vademecum import Memory
    from vademecum.interfaces.cli.options import OpenMemory


S = TypeVar("S")


class StepFailed(VadeError):
    """A step of the tour did not do what it shows."""

    hint = "run `vade doctor`; if all is well there, report it"


@click.command()
@click.option("--web", is_flag=True, help="Serve a made-up year of memory as a page instead.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port of the page; 0 picks a free one.")
@click.option("--open", "opening", is_flag=True, help="Open the page in your browser.")
@common
def demo(*, web: bool, port: int | None, opening: bool, as_json: bool, open_memory: OpenMemory) -> None:
    """Take a tour in a temporary folder.

    Your own memory is not touched. With --web the folder holds a made-up year of a team and its agents, and
    is served as a page until you stop it.
    """
    if web:
        show_page(port, opening=opening, as_json=as_json)
        return
    if opening or port is not None:
        raise click.UsageError("--open and --port go with --web.")
    # The process behind a hook may still write there.
    with tempfile.TemporaryDirectory(prefix="vade-demo-", ignore_cleanup_errors=True) as folder:
        tour = Tour(Path(folder), quiet=as_json)
        played = run_steps(TOUR, tour)
    show_result(
        played, 'Now your own: `vade add "…"`. Two machines and a hub: `vade hub demo`', as_json=as_json
    )


class DemoResult(NamedTuple):
    """The steps of a demo with their titles and output, and the seconds they took."""

    steps: list[dict[str, str]]
    seconds: float


def run_steps(steps: Sequence[Callable[[S], str]], stage: S) -> DemoResult:
    """Run the steps of a demo in order."""
    started = time.monotonic()
    shown = [{"step": step.__name__, "shown": step(stage)} for step in steps]
    return DemoResult(shown, time.monotonic() - started)


def show_result(played: DemoResult, closing: str, *, as_json: bool) -> None:
    """Print that all steps of a demo worked."""
    if as_json:
        output.as_json(to_json.demo_json, steps=played.steps, seconds=round(played.seconds, 2))
    else:
        output.line(f"\nAll {len(played.steps)} steps worked, in {played.seconds:.1f} s. {closing}")


def show_page(port: int | None, *, opening: bool, as_json: bool) -> None:
    """Fill a temporary home with a year of memory, and serve it until stopped."""
    import os

    from vademecum.interfaces.cli import demo_year
    from vademecum.interfaces.cli.options import open_for_caller
    from vademecum.interfaces.cli.web import serve_memory

    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="vade-demo-") as folder:
        home, project = Path(folder, "home"), Path(folder, "harbour")
        made = demo_year.fill(home, project)
        if not as_json:
            counted = ", ".join(f"{count} {name}" for name, count in made.items())
            output.error(f"a year of memory in {folder}: {counted}")
        try:
            os.chdir(project)  # the server opens the memory of the folder it runs in
            with open_for_caller(home=home, cwd=project) as memory:
                serve_memory(memory, port, opening=opening, as_json=as_json)
        finally:
            os.chdir(before)


class Tour:
    """A temporary home and project, and a memory that is opened as the command line opens it."""

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

    def hook(self, event: str, **given: str) -> str:
        """Call a hook as Claude Code would, and return what its model is told."""
        import json
        import os
        import subprocess
        import sys

        words = [sys.executable, "-m", "vademecum", "hook", "claude-code", event, "--home", str(self.home)]
        environ = {
            name: value for name, value in os.environ.items() if not name.startswith(("VADE_", "CLAUDE"))
        }
        environ |= {
            "HOME": str(self.project.parent / "person"),
            "VADE_LIMITS_HOOK_START": "9s",
            "VADE_LIMITS_HOOK_PROMPT": "9s",
        }
        done = subprocess.run(
            words,
            input=json.dumps({"cwd": str(self.project), **given}),
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        expect(done.returncode == 0 and not done.stderr, "a hook to end with 0")
        return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""

    def print_step(self, title: str, *lines: str) -> str:
        """Print the output of a step."""
        if not self.quiet:
            output.line(f"\n• {title}")
            for line in lines:
                output.line(f"  {line}")
        return title


def expect(holds: bool, what: str) -> None:
    """Stop the tour when a condition does not hold."""
    if not holds:
        raise StepFailed(f"the demo expected {what}")


def keep_three(tour: Tour) -> str:
    """Save three memories in two scopes."""
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
    expect("Do not use unittest." in on_disk[0], "the first memory in its file")
    expect([each.num for each in (first, second, third)] == [1, 2, 3], "numbers one to three")
    return tour.print_step(
        "Save three memories, two for this project and one for all projects",
        *(f"#{each.num} {each.key} → {each.path}" for each in (first, second, third)),
    )


def edit_by_hand(tour: Tour) -> str:
    """Edit a file in another program; memory reads the new text."""
    memory = tour.memory()
    path = tour.home / memory.show("api-versioning").path
    path.write_text(path.read_text(encoding="utf-8").replace("/v1, /v2", "/v1, /v2, /v3"), encoding="utf-8")
    seen = tour.memory().show("api-versioning").text
    expect("/v3" in seen, "the edit to be seen at once")
    again = tour.memory().store("Version 1 ends in March.", key="api-versioning")
    texts = [entry.text for entry in tour.memory().show("api-versioning").entries]
    expect(
        str(again.outcome) == "appended" and "/v3" in texts[0] and texts[1] == "Version 1 ends in March.",
        "the edit to stay when more is added",
    )
    return tour.print_step("Edit the file by hand: the edit is seen, and stays when more is added", *texts)


def guard_a_secret(tour: Tour) -> str:
    """Save a secret, which is redacted before it reaches the disk."""
    token = "ghp_" + "Zk3v9QmX7rT1bN5cL8wY2pD6sF4gH0jKa1Bc"
    stored = tour.memory().store(f"The deploy token is {token}", key="deploy-token")
    text = (tour.home / stored.path).read_text(encoding="utf-8")
    expect(token not in text and stored.secrets != (), "the token to be redacted")
    return tour.print_step(
        "Save a token by mistake: it is redacted before it is written", text.split("\n")[-3]
    )


def forget_and_restore(tour: Tour) -> str:
    """Archive a record, and restore it byte for byte."""
    memory = tour.memory()
    path = tour.home / memory.show("testing-framework").path
    before = path.read_bytes()
    memory.forget("testing-framework")
    expect(not path.exists(), "the file to be gone")
    try:
        memory.show("testing-framework")
    except NotFound as error:
        message = str(error)
    else:
        raise StepFailed("the demo expected a forgotten memory not to be found")
    tour.memory().restore("testing-framework")
    expect(path.is_file() and path.read_bytes() == before, "the same bytes after restoring")
    return tour.print_step(
        "Forget a memory and restore it", f"after forget: {message}", "after restore: the same bytes"
    )


def find_the_lines(tour: Tour) -> str:
    """Find the right lines by meaning, by an exact name, without the index, and without the model."""
    import shutil

    asked = {"brief replies": "prefers-short-answers", "/v3": "api-versioning"}

    def answers(memory: Memory, question: str) -> list[str]:
        return [f"{result.path}#L{result.start}-L{result.end}" for result in memory.search(question).results]

    shown = []
    for question, key in asked.items():
        found = answers(tour.memory(), question)
        expect(bool(found) and key in found[0], f"{key} to answer {question!r}")
        shown.append(f"{question} → {found[0]}")
    before = {question: answers(tour.memory(), question) for question in asked}
    shutil.rmtree(tour.home / "index")
    expect({each: answers(tour.memory(), each) for each in asked} == before, "the same without the old index")
    plain = tour.memory(VADE_EMBEDDER="none").search("/v3")
    expect(plain.mode == "bm25" and "api-versioning" in plain.results[0].path, "keywords without the model")
    cake = tour.memory().search("a recipe for chocolate cake")
    expect(cake.match == "weak" and len(cake.results) <= 3, "a few weak matches for what is not saved")
    return tour.print_step(
        "Search by meaning and by name; the same with the index deleted and without the model", *shown
    )


def heal_a_contradiction(tour: Tour) -> str:
    """Find a contradiction, mark the older entry, and undo the run."""
    memory = tour.memory()
    memory.store("The staging server listens on port 8080.", key="staging-port")
    path = tour.home / memory.store("The staging server listens on port 9090.", key="staging-port").path
    before = path.read_bytes()
    findings = [each for each in tour.memory().care.lint() if each.what == "contradiction"]
    expect(len(findings) == 1 and "staging-port" in findings[0].where, "the contradiction to be found")
    outcome = tour.memory().care.heal(apply=True)
    live = [entry.text for entry in tour.memory().show("staging-port").live]
    expect(live == ["The staging server listens on port 9090."], "the newer entry alone to hold")
    expect(b"port 8080" in path.read_bytes(), "the older text to be kept")
    run, results = tour.memory().care.undo()
    expect(run == outcome.run and all(result.done for result in results), "the run to be undone")
    expect(path.read_bytes() == before, "every byte as it was")
    return tour.print_step(
        "Find a contradiction, fix it, and undo that byte for byte",
        f"{findings[0].where}: {findings[0].why}",
        f"undid {run}",
    )


def review_what_came_in(tour: Tour) -> str:
    """Import texts; agents see them after a person approves them."""
    from vademecum.memory import connect
    from vademecum.types import Origin

    came = connect(home=tour.home, cwd=tour.project, origin=Origin.IMPORT, actor="human:demo", environ={})
    for town in ("Lisbon", "Oslo", "Quito"):
        came.store(f"The {town} office opens at nine.", key=f"office-{town.lower()}")
    inbox = tour.memory().review.inbox(["text"])
    expect(inbox.counts == {"text": 3}, "three texts to be pending")
    expect("Lisbon" not in tour.memory().injection.block().text, "none of them to be shown yet")
    sitting, decided = tour.memory().review.decide(inbox.items, yes=True)
    expect(all(each.done for each in decided), "all of them to be verified")
    expect("Lisbon" in tour.memory().injection.block().text, "them to be shown now")
    tour.memory().care.undo(sitting)
    expect(len(tour.memory().review.inbox(["text"]).items) == 3, "the decision to be undone")
    return tour.print_step(
        "Review an import: one yes verifies all of it, one undo reverts that",
        *(f"{item.name}: {item.text}" for item in inbox.items),
        f"undid {sitting}",
    )


def go_on_with_an_agent(tour: Tour) -> str:
    """Run an agent's session through its hooks, find it by its words, and name it to the next session."""
    folder = tour.project.parent / "person" / ".claude" / "projects" / "-demo"
    folder.mkdir(parents=True)
    transcript = folder / "first.jsonl"
    transcript.write_text("".join(f"{line}\n" for line in _make_transcript(tour)), encoding="utf-8")
    tour.hook("session-end", session_id="first", transcript_path=str(transcript))
    _wait_for_transcript(tour)
    sessions = tour.memory().sessions
    found = sessions.search(ASKED).hits
    expect({each.role for each in found} == {"user", "assistant"}, "what was asked and what was answered")
    expect(not [each for each in found if "memory_search" in each.preview], "no call of memory's own tools")
    own = sessions.search(ASKED, own=True).hits
    expect(any("memory_search" in each.preview for each in own), "those calls when they are asked for")
    context = tour.hook("session-start", session_id="second")
    line = next((each for each in context.split("\n") if ASKED[:20] in each), "")
    expect(bool(line), "the next session to list the last one")
    return tour.print_step(
        "End an agent's session: search finds it without memory's own calls, and the next session lists it",
        f"{ASKED} → {found[0].role}: {found[0].preview.strip()[:60]}",
        line.strip(),
    )


HOOK_PATIENCE = 60.0  # seconds for what a hook does after its answer, on however busy a machine
ASKED = "Why does the harbour crane stop at noon?"


def _wait_for_transcript(tour: Tour) -> None:
    """Wait until the process behind a hook has saved the session."""
    until = time.monotonic() + HOOK_PATIENCE
    while not any(session.name.startswith(ASKED[:20]) for session in tour.memory().sessions.list()):
        expect(time.monotonic() < until, "the session to be kept after the hook")
        time.sleep(0.05)


def _make_transcript(tour: Tour) -> Iterator[str]:
    """Return a transcript as Claude Code writes it: a question, a call of a memory tool, and an answer."""
    import json

    call = {"type": "tool_use", "id": "t1", "name": "mcp__vade__memory_search", "input": {"query": ASKED}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": f'{{"results": [], "query": "{ASKED}"}}'}
    blocks = [
        ("user", {"type": "text", "text": ASKED}),
        ("assistant", call),
        ("user", answer),
        ("assistant", {"type": "text", "text": "Its timer resets at twelve; it is in crane/timer.py."}),
    ]
    for number, (role, block) in enumerate(blocks, 1):
        message = {"role": role, "content": [block]}
        yield json.dumps(
            {
                **{"type": role, "uuid": f"u{number}", "sessionId": "first", "cwd": str(tour.project)},
                **{"timestamp": f"2026-01-05T10:00:0{number}.000Z", "message": message},
            }
        )


def sync_two_machines(tour: Tour) -> str:
    """Sync two homes through a shared folder, in both directions."""
    from vademecum.memory import sync as syncing

    shared = tour.project.parent / "shared"
    shared.mkdir()
    (tour.project.parent / "laptop").mkdir()
    laptop = Tour(tour.project.parent / "laptop", quiet=True)
    name = tour.memory().store("Stand-ups are at ten.", key="stand-ups", scope="global").path
    joined, key = syncing.join(tour.memory(), shared, None)
    syncing.run(tour.memory(), joined, None)
    there, _ = syncing.join(laptop.memory(), shared, key)
    syncing.run(laptop.memory(), there, None)
    copy = laptop.home / name
    expect(copy.read_bytes() == (tour.home / name).read_bytes(), "the same bytes on the other machine")
    copy.write_text(copy.read_text("utf-8").replace("at ten", "at eleven"), "utf-8")
    syncing.run(laptop.memory(), there, None)
    done, _ = syncing.run(tour.memory(), joined, None)
    received = sum(each.done.received for each in done)
    expect("at eleven" in tour.memory().show("stand-ups").text, "the edit to come back")
    expect(key.replace("-", "").encode() not in _read_tree(shared), "the key not to lie in the folder")
    return tour.print_step(
        "Sync with a second machine through a shared folder: the same files there, its edit here",
        f"{name}: the edit came back ({received} received)",
        f"both know the key {key}; the folder never does",
    )


def _read_tree(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())


TOUR: tuple[Callable[[Tour], str], ...] = (
    keep_three,
    edit_by_hand,
    guard_a_secret,
    forget_and_restore,
    find_the_lines,
    heal_a_contradiction,
    review_what_came_in,
    go_on_with_an_agent,
    sync_two_machines,
)
