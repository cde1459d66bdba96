"""`vade demo`: a tour in a temporary home, in which every step really happens and is checked."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from vademecum.errors import NotFound, VadeError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output, to_json

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from vademecum import Memory, Message
    from vademecum.interfaces.cli.options import Door


class StepFailed(VadeError):
    """A step of the tour did not do what it shows."""

    hint = "run `vade doctor`; if all is well there, report it"


@click.command()
@click.option("--web", is_flag=True, help="Serve a made-up year of memory as a page instead.")
@click.option("--port", type=click.IntRange(0, 65535), help="The port of the page; 0 picks a free one.")
@click.option("--open", "opening", is_flag=True, help="Open the page in your browser.")
@common
def demo(*, web: bool, port: int | None, opening: bool, as_json: bool, door: Door) -> None:
    """Take a tour in a temporary folder.

    Your own memory is not touched. With --web the folder holds a made-up year of a team and its agents, and
    is served as a page until you stop it.
    """
    if web:
        show_page(port, opening=opening, as_json=as_json)
        return
    if opening or port is not None:
        raise click.UsageError("--open and --port go with --web.")
    steps: list[dict[str, str]] = []
    begun = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="vade-demo-") as folder:
        tour = Tour(Path(folder), quiet=as_json)
        for step in TOUR:
            shown = step(tour)
            steps.append({"step": step.__name__, "shown": shown})
    if as_json:
        output.as_json(to_json.demo_json, steps=steps, seconds=round(time.monotonic() - begun, 2))
    else:
        output.line(
            f"\nAll {len(steps)} steps worked, in {time.monotonic() - begun:.1f} s. "
            'Now your own: `vade add "…"`. Two machines and a hub: `vade hub demo`'
        )


def show_page(port: int | None, *, opening: bool, as_json: bool) -> None:
    """Fill a temporary home with a year of memory, and serve it until stopped."""
    import os

    from vademecum.interfaces.cli import demo_year
    from vademecum.interfaces.cli.options import open_memory
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
            with open_memory(home=home, cwd=project) as memory:
                serve_memory(memory, port, opening=opening, as_json=as_json)
        finally:
            os.chdir(before)


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
        environ |= {"HOME": str(self.project.parent / "person"), "VADE_LIMITS_HOOK": "20s"}
        done = subprocess.run(
            words,
            input=json.dumps({"cwd": str(self.project), **given}),
            env=environ,
            capture_output=True,
            text=True,
            check=False,
        )
        check(done.returncode == 0 and not done.stderr, "a hook to end with 0")
        return str(json.loads(done.stdout)["hookSpecificOutput"]["additionalContext"]) if done.stdout else ""

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
        "Save three memories, two for this project and one for all projects",
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
    return tour.say(
        "Change a decision: the old entry stays, marked superseded", f"old: {old.text}", f"now: {new.text}"
    )


def guard_a_secret(tour: Tour) -> str:
    """A secret does not get as far as the disk."""
    token = "ghp_" + "Zk3v9QmX7rT1bN5cL8wY2pD6sF4gH0jKa1Bc"
    stored = tour.memory().store(f"The deploy token is {token}", key="deploy-token")
    text = (tour.home / stored.path).read_text(encoding="utf-8")
    check(token not in text and stored.secrets != (), "the token to be redacted")
    return tour.say("Save a token by mistake: it is redacted before it is written", text.split("\n")[-3])


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
    cake = tour.memory().search("a recipe for chocolate cake")
    check(cake.match == "weak" and len(cake.results) <= 3, "a few weak matches for what is not saved")
    return tour.say(
        "Search by meaning and by name; the same with the index deleted and without the model", *shown
    )


def overflow_three_times(tour: Tour) -> str:
    """A session that is far too long for its window goes on as if it were not."""
    from vademecum import Used

    with tour.memory() as memory:
        log = memory.sessions.new(name="billing")
        engine = memory.sessions.context(log, window=WINDOW, complete=_write_the_fact, compaction=False)
        said: list[Message] = []
        left: list[str] = []
        for turn in _billing():
            said += turn
            made = engine.prepare(said)
            left += made.trimmed
            check(made.tokens.total <= made.tokens.limit, "every request to fit its window")
            engine.observe(Used())
        window = engine.inspect()
        check(window.cycles >= 3, "the window to overflow three times")
        sent = "\n".join(
            text for each in made.messages for text in (each.text, *(result.text for result in each.results))
        )
        for each in (TASK, NOW, *(words for work in WORK for words in work)):
            check(each in sent, f"{each!r} to be in the window")
        whole = [line for each in left for line in memory.sessions.get("billing", each)]
        check(len(left) > 0 and len(whole) == len(left), "every message that left to be in the log")
    found = tour.memory().search("who is on call for the cut-over?").results
    check(bool(found) and "/journal/" in found[0].path and "Ann is" in found[0].snippet, "the flushed fact")
    return tour.say(
        f"Let a session of {len(said)} messages overflow its window {window.cycles} times",
        f"{len(left)} messages left it, {window.tokens.total:,} of {window.tokens.limit:,} tokens are in use",
        f"still there: both tasks, {len(WORK)} commits, {len(WORK)} decisions; in the log: every message",
        f"who is on call for the cut-over? → {found[0].path}#L{found[0].start}-L{found[0].end}",
    )


WINDOW = 16_000
TASK = "Move the billing service from MySQL to PostgreSQL without downtime."
NOW = "Now write the runbook for the cut-over, step by step, with a way back after each step."
FACT = "The cut-over of billing is on Saturday at 06:00 UTC, and Ann is on call for it."
WORK = (
    (
        "3f1c2a9",
        "Write to both databases",
        "Decision: write to both databases for a week before the cut-over",
    ),
    (
        "b07d114",
        "Backfill invoices in batches of 500",
        "Decision: backfill in batches of 500 to spare the disk",
    ),
    (
        "91ae5d0",
        "Compare checksums every night",
        "Decision: a night with a differing checksum stops the move",
    ),
    ("c4409fe", "Read from PostgreSQL behind a flag", "Decision: reads move first, one customer at a time"),
    ("7d2b6e8", "Keep money as integers of cents", "Decision: amounts are integers of cents, never floats"),
    ("e85f03c", "Drop the MySQL triggers", "Decision: triggers become code, since nobody reviews them"),
)


def _billing() -> Iterator[list[Message]]:
    """What was said in a long session, turn by turn, as an agent's host would hand it over."""
    import json

    from vademecum import Message, Role, Text, ToolCall, ToolResult

    def says(role: Role, text: str, *calls: ToolCall) -> Message:
        return Message(role, (Text(text), *calls))

    def runs(number: str, command: str, result: str, words: str) -> list[Message]:
        call = ToolCall(number, "bash", json.dumps({"command": command}))
        answer = Message(Role.TOOL, (ToolResult(number, (Text(result),)),))
        return [says(Role.ASSISTANT, words, call), answer]

    yield [says(Role.SYSTEM, "You are a careful engineer."), says(Role.USER, f"{TASK} {FACT}")]
    for at, (commit, words, decision) in enumerate(WORK):
        for step in range(4):
            listing = "\n".join(f"services/billing/{at}_{step}_{row}.py: import mysql" for row in range(75))
            yield runs(f"look-{at}-{step}", "grep -rn mysql services", listing, "I look where it is used.")
        made = f"[main {commit}] {words}\n 3 files changed"
        yield runs(f"commit-{at}", f"git commit -am '{words}'", made, decision)
    yield [says(Role.ASSISTANT, "All of it is in place."), says(Role.USER, NOW)]


def _write_the_fact(messages: Sequence[Message], system: str, tools: Sequence[Any], seconds: float) -> str:
    """A model that knows one thing worth keeping, and says nothing once it is out of sight."""
    return f"- {FACT}" if any(FACT in each.text for each in messages[:-1]) else "NO_REPLY"


def learn_a_solution_twice(tour: Tour) -> str:
    """The same lesson again makes it surer, and the newer words stand."""
    error = "sqlite3.OperationalError: database is locked"
    first = "Set a busy timeout of 5 s."
    tour.memory().knowledge.learn("solution", error=error, solution=first, examples=["src/db.py"])
    before = tour.memory().knowledge.list(type="solution")[0]
    again = "Set a busy timeout of 5 s, please."
    stored = tour.memory().knowledge.learn("solution", error=error, solution=again, examples=["src/jobs.py"])
    found = tour.memory().knowledge.list(type="solution")
    check(len(found) == 1, "one lesson, learned twice")
    lesson = found[0].lesson
    check(lesson.confidence > before.lesson.confidence, "more confidence than before")
    check(lesson.examples == ("src/db.py", "src/jobs.py"), "the examples of both")
    check(len(tour.memory().show(stored.key).entries) == 2, "the older wording to be kept, superseded")
    return tour.say(
        "Learn a solution twice: one lesson, with more confidence",
        f"{stored.key}: confidence {before.lesson.confidence:g} → {lesson.confidence:g}",
    )


def heal_a_contradiction(tour: Tour) -> str:
    """Lint finds what cannot both be true, heal marks the older one, and the run can be undone."""
    memory = tour.memory()
    memory.store("The staging server listens on port 8080.", key="staging-port")
    path = tour.home / memory.store("The staging server listens on port 9090.", key="staging-port").path
    before = path.read_bytes()
    findings = [each for each in tour.memory().care.lint() if each.what == "contradiction"]
    check(len(findings) == 1 and "staging-port" in findings[0].where, "the contradiction to be found")
    outcome = tour.memory().care.heal(apply=True)
    live = [entry.text for entry in tour.memory().show("staging-port").live]
    check(live == ["The staging server listens on port 9090."], "the newer entry alone to hold")
    check(b"port 8080" in path.read_bytes(), "the older text to be kept")
    run, told = tour.memory().care.undo()
    check(run == outcome.run and all(each.done for each in told), "the run to be undone")
    check(path.read_bytes() == before, "every byte as it was")
    return tour.say(
        "Find a contradiction, fix it, and undo that byte for byte",
        f"{findings[0].where}: {findings[0].why}",
        f"undid {run}",
    )


def merge_a_second_copy(tour: Tour) -> str:
    """What a sync tool left twice is out of sight until one command makes one file of both."""
    path = tour.home / tour.memory().store("Deploys need two approvals.", key="deploys").path
    copy = path.with_name("deploys.sync-conflict-20261115-101500-ABCDEFG.md")
    copy.write_text(path.read_text().replace("need two approvals", "run on Fridays"))
    hidden = [each for each in tour.memory().status().findings if each.what == "copy"]
    check(len(hidden) == 1 and "Fridays" not in tour.memory().injection.block().text, "the copy to be hidden")
    merged = tour.memory().care.merge(apply=True)
    texts = {entry.text for entry in tour.memory().show("deploys").entries}
    check(texts == {"Deploys need two approvals.", "Deploys run on Fridays."}, "both texts to be there")
    check(bool(merged.run) and not copy.exists(), "the copy to be archived")
    return tour.say("Merge the conflict copies of a sync tool", merged.proposals[0].why, *sorted(texts))


def review_what_came_in(tour: Tour) -> str:
    """What came from elsewhere is told to no agent before a person has said yes, to all of it at once."""
    from vademecum.memory import connect
    from vademecum.types import Origin

    came = connect(home=tour.home, cwd=tour.project, origin=Origin.IMPORT, actor="human:demo", environ={})
    for town in ("Lisbon", "Oslo", "Quito"):
        came.store(f"The {town} office opens at nine.", key=f"office-{town.lower()}")
    inbox = tour.memory().review.inbox(["text"])
    check(inbox.counts == {"text": 3}, "three texts to be pending")
    check("Lisbon" not in tour.memory().injection.block().text, "none of them to be shown yet")
    sitting, decided = tour.memory().review.decide(inbox.items, yes=True)
    check(all(each.done for each in decided), "all of them to be verified")
    check("Lisbon" in tour.memory().injection.block().text, "them to be shown now")
    tour.memory().care.undo(sitting)
    check(len(tour.memory().review.inbox(["text"]).items) == 3, "the decision to be undone")
    return tour.say(
        "Review an import: one yes verifies all of it, one undo reverts that",
        *(f"{each.name}: {each.text}" for each in inbox.items),
        f"undid {sitting}",
    )


def go_on_with_an_agent(tour: Tour) -> str:
    """An agent's session through its own hooks: kept, found by what was said, named to the next one."""
    folder = tour.project.parent / "person" / ".claude" / "projects" / "-demo"
    folder.mkdir(parents=True)
    transcript = folder / "first.jsonl"
    transcript.write_text("".join(f"{line}\n" for line in _agent_lines(tour)), encoding="utf-8")
    tour.hook("session-end", session_id="first", transcript_path=str(transcript))
    _wait_for_the_copy(tour)
    sessions = tour.memory().sessions
    found = sessions.search(ASKED).hits
    check(bool(found) and found[0].role == "user", "what the person said to come first")
    check(not [each for each in found if "memory_search" in each.preview], "no call of memory's own tools")
    own = sessions.search(ASKED, own=True).hits
    check(any("memory_search" in each.preview for each in own), "those calls when they are asked for")
    told = tour.hook("session-start", session_id="second")
    line = next((each for each in told.split("\n") if ASKED[:20] in each), "")
    check(bool(line), "the next session to list the last one")
    return tour.say(
        "End an agent's session: search finds it without memory's own calls, and the next session lists it",
        f"{ASKED} → {found[0].role}: {found[0].preview.strip()[:60]}",
        line.strip(),
    )


HOOK_PATIENCE = 60.0  # seconds for what a hook does after its answer, on however busy a machine
ASKED = "Why does the harbour crane stop at noon?"


def _wait_for_the_copy(tour: Tour) -> None:
    """A hook answers at once, and keeps the session beside that."""
    until = time.monotonic() + HOOK_PATIENCE
    while not any(each.name.startswith(ASKED[:20]) for each in tour.memory().sessions.list()):
        check(time.monotonic() < until, "the session to be kept after the hook")
        time.sleep(0.05)


def _agent_lines(tour: Tour) -> Iterator[str]:
    """A transcript as Claude Code writes it: a question, a call of memory's own, and an answer."""
    import json

    call = {"type": "tool_use", "id": "t1", "name": "mcp__vade__memory_search", "input": {"query": ASKED}}
    answer = {"type": "tool_result", "tool_use_id": "t1", "content": f'{{"results": [], "query": "{ASKED}"}}'}
    said = [
        ("user", {"type": "text", "text": ASKED}),
        ("assistant", call),
        ("user", answer),
        ("assistant", {"type": "text", "text": "Its timer resets at twelve; it is in crane/timer.py."}),
    ]
    for number, (role, block) in enumerate(said, 1):
        message = {"role": role, "content": [block]}
        yield json.dumps(
            {
                **{"type": role, "uuid": f"u{number}", "sessionId": "first", "cwd": str(tour.project)},
                **{"timestamp": f"2026-01-05T10:00:0{number}.000Z", "message": message},
            }
        )


def sync_two_machines(tour: Tour) -> str:
    """Another machine gets the same files through a folder that both share, and its edit comes back."""
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
    check(copy.read_bytes() == (tour.home / name).read_bytes(), "the same bytes on the other machine")
    copy.write_text(copy.read_text("utf-8").replace("at ten", "at eleven"), "utf-8")
    syncing.run(laptop.memory(), there, None)
    done, _ = syncing.run(tour.memory(), joined, None)
    received = sum(each.done.received for each in done)
    check("at eleven" in tour.memory().show("stand-ups").text, "the edit to come back")
    check(key.replace("-", "").encode() not in _bytes_below(shared), "the key not to lie in the folder")
    return tour.say(
        "Sync with a second machine through a shared folder: the same files there, its edit here",
        f"{name}: the edit came back ({received} received)",
        f"both know the key {key}; the folder never does",
    )


def _bytes_below(folder: Path) -> bytes:
    return b"".join(each.read_bytes() for each in folder.rglob("*") if each.is_file())


def show_the_audit(tour: Tour) -> str:
    """Every change has its line, and the lines are chained."""
    memory = tour.memory()
    lines = list(memory.audit.lines())
    report = memory.audit.verify()
    check(len(lines) >= 9 and report.lines == len(lines) and not report.problems, "an unbroken audit")
    text = "".join(each.read_text() for each in sorted((tour.home / "audit").glob("*.jsonl")))
    check("pytest" not in text and "testing-framework" not in text, "no text and no key in the audit")
    log = next((tour.home / "audit").glob("*.jsonl"))
    log.write_text(log.read_text().replace('"op":"forget"', '"op":"created"'))
    check(bool(memory.audit.verify().problems), "a changed line to be found")
    shown = [f"{each['at']}  {each['op']:<10} #{each['num'] or '-'}" for each in lines[-3:]]
    return tour.say("Read the audit log: one line per change, chained by hash, so tampering shows", *shown)


TOUR: tuple[Callable[[Tour], str], ...] = (
    keep_three,
    write_a_note,
    edit_by_hand,
    change_a_mind,
    guard_a_secret,
    forget_and_restore,
    find_the_lines,
    overflow_three_times,
    learn_a_solution_twice,
    heal_a_contradiction,
    merge_a_second_copy,
    review_what_came_in,
    go_on_with_an_agent,
    sync_two_machines,
    show_the_audit,
)
