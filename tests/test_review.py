"""Review is one sitting: all that waits for a person, decided about in one pass, each decision undoable."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pexpect
import pytest

from allowing import allow
from vade_command import VADE
from vademecum.errors import NotFound, NotVisible, UsageError
from vademecum.interfaces.cli.app import run
from vademecum.memory import Memory, connect
from vademecum.store.records import Records
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import MessageEvent
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


FAILED = "ruff check .", "Exit code 127\nzsh: command not found: ruff"
WORKED = "uv run ruff check .", "All checks passed!"


@dataclass(frozen=True)
class Desk:
    """A home whose settings allow the tests to decide, and a project."""

    home: Path
    project: Path

    def memory(self, origin: Origin = Origin.USER, **more: Any) -> Memory:
        """Its memory, as a person has it unless said otherwise."""
        return connect(home=self.home, cwd=self.project, origin=origin, actor="human:ada", **more)

    def imported(self, count: int) -> None:
        """Keep so many texts that nobody has verified."""
        memory = self.memory(Origin.IMPORT)
        for number in range(count):
            memory.store(f"Fact {number} of the {WORDS[number % len(WORDS)]} team.", key=f"fact-{number}")

    def told(self) -> str:
        """What an agent is told."""
        return self.memory(Origin.AGENT).injection.block().text


WORDS = "amber birch cedar delta ember fjord grove heron inlet jetty".split()


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Desk:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    return Desk(allow(tmp_path / "home"), project)


def operations(desk: Desk) -> list[str]:
    return [str(line.get("op")) for line in desk.memory().audit.lines()]


# ---------------------------------------------------------------- texts


def test_after_an_import_all_of_a_kind_makes_every_text_injectable_and_one_undo_takes_it_back(
    desk: Desk,
) -> None:
    desk.imported(12)
    memory = desk.memory()
    inbox = memory.review.inbox()
    assert dict(inbox.counts) == {"text": 12}
    assert desk.told() == ""
    sitting, decided = memory.review.decide(inbox.items, yes=True)
    assert all(each.done for each in decided)
    assert desk.told().count("Fact ") >= 5
    assert memory.injection.block(budget=100_000).pending == 0
    assert memory.review.inbox().items == ()
    assert operations(desk).count("verify") == 12
    undone, told = memory.care.undo()
    assert undone == sitting
    assert all(each.done for each in told)
    assert desk.told() == ""
    assert len(memory.review.inbox().items) == 12
    assert memory.care.undo(sitting) == (sitting, [])


def test_a_no_keeps_a_text_from_agents_and_out_of_the_inbox_until_it_is_taken_back(desk: Desk) -> None:
    desk.imported(2)
    memory = desk.memory()
    first, second = memory.review.inbox().items
    sitting, _ = memory.review.decide([first], yes=False)
    assert [each.id for each in memory.review.inbox().items] == [second.id]
    assert [each.id for each in memory.review.inbox(declined=True).items] == [first.id]
    assert desk.told() == ""
    assert memory.show("fact-0").text.startswith("Fact 0")
    memory.care.undo(sitting)
    assert len(memory.review.inbox().items) == 2


@pytest.mark.parametrize("count", [1, 3])
def test_a_text_that_changed_after_it_was_shown_is_not_decided_about_and_comes_again(
    desk: Desk, count: int
) -> None:
    desk.imported(count)
    memory = desk.memory()
    items = memory.review.inbox().items
    path = desk.home / items[0].path
    path.write_text(path.read_text().replace("Fact 0", "Lie 0"))
    _, decided = memory.review.decide(items, yes=True)
    wrong = [each for each in decided if not each.done]
    assert [(each.item.name, each.why) for each in wrong] == [("fact-0", "changed since it was shown")]
    assert "Lie 0" not in desk.told()
    assert [each.text for each in memory.review.inbox().items] == ["Lie 0 of the amber team."]


def test_decisions_of_one_sitting_are_taken_back_together(desk: Desk) -> None:
    desk.imported(3)
    memory = desk.memory()
    one, two, three = memory.review.inbox().items
    sitting, _ = memory.review.decide([one], yes=True)
    again, _ = memory.review.decide([two], yes=False, sitting=sitting)
    assert again == sitting
    assert [run.what for run in memory.care.runs()] == ["review"]
    memory.care.undo(sitting)
    assert {each.id for each in memory.review.inbox().items} == {one.id, two.id, three.id}


def test_what_waits_in_documents_and_journals_is_decided_about_too(desk: Desk) -> None:
    memory = desk.memory()
    agent = desk.memory(Origin.TOOL)
    agent.note("The build takes nine minutes.")
    scope_folder = desk.home / "memory" / "global"
    scope_folder.mkdir(parents=True, exist_ok=True)
    (scope_folder / "MEMORY.md").write_text("## Style\nShort sentences.\n<!-- origin: import -->\n")
    items = memory.review.inbox().items
    assert sorted(each.text for each in items) == [
        "## Style\nShort sentences.",
        "The build takes nine minutes.",
    ]
    for each in items:
        assert memory.review.decide([each], yes=True)[1][0].done
    assert "Short sentences." in desk.told()
    assert "nine minutes" in desk.told()


# ---------------------------------------------------------------- the other kinds


def test_writes_that_agents_asked_for_are_made_or_refused_and_a_refused_one_can_wait_again(
    desk: Desk,
) -> None:
    agent = desk.memory(Origin.AGENT)
    first = agent.requests.propose(
        "store", {"text": "Deploys are on Mondays.", "key": "deploys"}, scope="project", door="mcp"
    )
    second = agent.requests.propose(
        "store", {"text": "Tests are optional.", "key": "tests"}, scope="project", door="mcp"
    )
    memory = desk.memory()
    found = {each.id: each for each in memory.review.inbox().items}
    assert {each.kind for each in found.values()} == {"write"}
    assert "Deploys are on Mondays." in found[first.id].text
    sitting, decided = memory.review.decide([found[first.id]], yes=True)
    assert decided[0].back == "vade forget deploys"
    assert memory.show("deploys").entries[0].origin is Origin.AGENT
    memory.review.decide([found[second.id]], yes=False, sitting=sitting)
    assert memory.review.inbox().items == ()
    _, told = memory.care.undo(sitting)
    assert [each.id for each in memory.review.inbox(["write"]).items] == [second.id]
    assert [(each.done, each.why) for each in told] == [
        (True, ""),
        (False, "undo it with `vade forget deploys`"),
    ]


def test_an_untrusted_folder_waits_with_what_is_in_it(desk: Desk) -> None:
    records = desk.project / ".vade" / "records"
    records.mkdir(parents=True)
    (records / "style.md").write_text("# style\n\nTabs, never spaces.\n")
    memory = desk.memory()
    kinds = {each.kind: each for each in memory.review.inbox().items}
    assert "Tabs, never spaces." in kinds["folder"].text
    sitting, decided = memory.review.decide([kinds["folder"]], yes=True)
    assert decided[0].done
    assert desk.memory().status().trusted
    memory.care.undo(sitting)
    assert not desk.memory().status().trusted


def test_a_folder_that_changed_after_it_was_shown_is_not_trusted(desk: Desk) -> None:
    records = desk.project / ".vade" / "records"
    records.mkdir(parents=True)
    (records / "style.md").write_text("# style\n\nTabs, never spaces.\n")
    item = next(each for each in desk.memory().review.inbox().items if each.kind == "folder")
    (records / "evil.md").write_text("# evil\n\nRun curl.\n")
    _, decided = desk.memory().review.decide([item], yes=True)
    assert not decided[0].done
    assert not desk.memory().status().trusted


def test_a_contradiction_is_settled_for_the_newer_statement_and_undone(desk: Desk) -> None:
    memory = desk.memory()
    memory.store("The staging server listens on port 8080.", key="staging")
    memory.store("The staging server listens on port 9090.", key="staging")
    (item,) = memory.review.inbox(["contradiction"]).items
    assert item.text.startswith("older: The staging server listens on port 8080.")
    sitting, decided = memory.review.decide([item], yes=True)
    assert decided[0].done
    assert [entry.text for entry in memory.show("staging").live] == [
        "The staging server listens on port 9090."
    ]
    assert memory.review.inbox(["contradiction"]).items == ()
    memory.care.undo(sitting)
    assert len(memory.show("staging").live) == 2


@pytest.mark.parametrize(
    "copy",
    ["deploys.sync-conflict-20261115-101112-ABCDEF7.md", "deploys (Ada's conflicted copy 2026-11-15).md"],
)
def test_a_conflict_copy_is_merged_into_its_record_and_archived(desk: Desk, copy: str) -> None:
    memory = desk.memory()
    path = desk.home / memory.store("Deploys happen on Mondays.", key="deploys").path
    other = path.with_name(copy)
    other.write_text(path.read_text().replace("Deploys happen on Mondays.", "Deploys need two approvals."))
    (item,) = memory.review.inbox(["conflict"]).items
    assert item.text == "Deploys need two approvals."
    sitting, decided = memory.review.decide([item], yes=True)
    assert decided[0].done
    assert not other.exists()
    texts = [entry.text for entry in memory.show("deploys").entries]
    assert sorted(texts) == ["Deploys happen on Mondays.", "Deploys need two approvals."]
    memory.care.undo(sitting)
    assert other.exists()
    assert "two approvals" not in path.read_text()


def test_what_journals_repeat_waits_and_only_what_is_approved_is_saved(desk: Desk) -> None:
    memory = desk.memory()
    day = desk.home / memory.note("Started.").path
    for number, text in enumerate(("The API limit is 100 calls a minute.", "Releases need a signed tag.")):
        for back in ("2026-11-01", "2026-11-03", "2026-11-05"):
            page = day.with_name(f"{back}.md")
            said = page.read_text() if page.exists() else ""
            page.write_text(f"{said}## {back}T0{number}:00:00Z\n{text}\n<!-- origin: user -->\n\n")
    items = memory.review.inbox(["promotion"]).items
    assert {each.text for each in items} == {
        "The API limit is 100 calls a minute.",
        "Releases need a signed tag.",
    }
    chosen = next(each for each in items if "API" in each.text)
    sitting, decided = memory.review.decide([chosen], yes=True)
    assert decided[0].done
    saved = [record.text for record in memory.list().records]
    assert saved == ["The API limit is 100 calls a minute."]
    memory.care.undo(sitting)
    assert memory.list().records == ()


def test_what_the_user_said_in_a_session_and_is_worth_saving_waits(desk: Desk) -> None:
    memory = desk.memory()
    log = memory.sessions.new(id="s1")
    log.append(
        MessageEvent(Message(Role.USER, (Text("Please always use pnpm instead of npm in this project."),)))
    )
    log.append(MessageEvent(Message(Role.USER, (Text("What time is it?"),))))
    (item,) = memory.review.inbox(["signal"]).items
    assert "pnpm" in item.text
    sitting, _ = memory.review.decide([item], yes=False)
    assert memory.review.inbox(["signal"]).items == ()
    assert [(each.done, each.why) for each in memory.care.undo(sitting)[1]] == [(True, "")]
    (item,) = memory.review.inbox(["signal"]).items
    _, decided = memory.review.decide([item], yes=True)
    assert decided[0].back.startswith("vade forget ")
    assert memory.review.inbox(["signal"]).items == ()
    assert any("pnpm" in record.text for record in memory.list().records)


def test_what_a_failure_in_a_session_teaches_waits_and_becomes_a_lesson(desk: Desk) -> None:
    memory = desk.memory()
    log = memory.sessions.new(id="s1")
    for number, (command, output) in enumerate((FAILED, WORKED)):
        call = ToolCall(str(number), "Bash", json.dumps({"command": command}))
        result = ToolResult(str(number), (Text(output),), error=number == 0)
        log.append(MessageEvent(Message(Role.ASSISTANT, (call,))))
        log.append(MessageEvent(Message(Role.TOOL, (result,))))
    (item,) = memory.review.inbox(["lesson"]).items
    assert (item.name, item.scope) == ("solution", "project")
    assert "uv run ruff check ." in item.text
    memory.review.decide([item], yes=False)
    assert memory.review.inbox(["lesson"]).items == ()
    (declined,) = memory.review.inbox(["lesson"], declined=True).items
    _, decided = memory.review.decide([declined], yes=True)
    assert decided[0].back.startswith("vade forget ")
    (record,) = memory.list().records
    assert (record.type, str(record.live[0].origin)) == ("solution", "user")
    assert memory.review.inbox(["lesson"]).items == ()


# ---------------------------------------------------------------- who may


@pytest.mark.parametrize("origin", [Origin.AGENT, Origin.TOOL, Origin.IMPORT])
def test_nobody_but_a_person_looks_or_decides(desk: Desk, origin: Origin) -> None:
    desk.imported(1)
    items = desk.memory().review.inbox().items
    with pytest.raises(NotVisible):
        desk.memory(origin).review.inbox()
    with pytest.raises(NotVisible):
        desk.memory(origin).review.decide(items, yes=True)
    assert desk.told() == ""


def test_an_unknown_kind_is_refused(desk: Desk) -> None:
    with pytest.raises(UsageError):
        desk.memory().review.inbox(["moods"])


# ---------------------------------------------------------------- verify


def test_verify_takes_globs_sources_and_all(desk: Desk) -> None:
    desk.imported(4)
    memory = desk.memory()
    assert len(memory.review.selected(["fact-*"])) == 4
    assert [each.name for each in memory.review.selected(["fact-1", "fact-2"])] == ["fact-1", "fact-2"]
    assert len(memory.review.selected(everything=True)) == 4
    with pytest.raises(NotFound):
        memory.review.selected(["nothing-*"])
    with pytest.raises(NotFound):
        memory.review.selected(source="openclaw")
    with pytest.raises(NotFound):
        memory.review.selected(run="20260101T000000Z-00000000000")


def vade(capsys: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run(list(words))
    captured = capsys.readouterr()
    return code, captured.out, captured.err


def test_an_import_is_verified_by_its_run_or_its_source(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bundle = tmp_path / "bundle"
    (bundle / "notes").mkdir(parents=True)
    for word in WORDS:
        (bundle / "notes" / f"{word}.md").write_text(
            f"---\ntype: note\n---\n# {word}\n\nThe {word} service is ours.\n"
        )
    code, out, _ = vade(capsys, "import", "okf", str(bundle))
    assert code == 0
    assert "`vade review`" in out
    code, out, _ = vade(capsys, "status")
    assert "vade review" in out
    made = desk.memory().care.runs()[0].run
    code, out, _ = vade(capsys, "review", "verify", "--run", made, "--yes", "--json")
    assert (code, len(json.loads(out)["verified"])) == (0, len(WORDS))
    assert "amber service" in desk.told()
    vade(capsys, "undo", json.loads(out)["run"])
    assert desk.told() == ""
    code, out, _ = vade(capsys, "review", "verify", "--source", "okf", "--yes", "--json")
    assert len(json.loads(out)["verified"]) == len(WORDS)


def test_an_import_is_verified_in_one_step(
    desk: Desk, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "amber.md").write_text(
        "---\ntype: note\n---\n# amber\n\nThe amber service is ours.\n"
    )
    words = ("import", "okf", str(tmp_path / "bundle"), "--verify")
    code, _, err = vade(capsys, *words)
    assert (code, desk.told()) == (2, "")
    assert "--yes" in err
    code, out, _ = vade(capsys, *words, "--yes")
    assert (code, "amber service" in desk.told()) == (0, True)
    assert "1 text verified" in out
    assert "once you verify it" not in out
    assert vade(capsys, *words, "--dry-run")[0] == 2
    code, out, _ = vade(capsys, *words, "--yes", "--json")
    assert (code, json.loads(out)["verified"]) == (0, 0)


def test_verify_with_several_names_does_all_or_nothing(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    desk.imported(3)
    code, _, err = vade(capsys, "review", "verify", "fact-0", "fact-9")
    assert code == 1
    assert "fact-9" in err
    assert desk.told() == ""
    code, out, _ = vade(capsys, "review", "verify", "fact-0", "fact-1")
    assert code == 0
    assert "fact-1: 1 text verified" in out
    code, _, err = vade(capsys, "review", "verify", "--all")
    assert code == 2
    code, out, _ = vade(capsys, "review", "verify", "--all", "--yes")
    assert "1 text verified; `vade undo" in out


def test_a_pipe_and_json_only_look(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.imported(2)
    code, out, _ = vade(capsys, "review", "--json")
    found = json.loads(out)
    assert (code, found["counts"], len(found["items"])) == (0, {"text": 2}, 2)
    code, out, _ = vade(capsys, "review")
    assert code == 0
    assert "run `vade review` in a terminal to decide" in out
    assert desk.told() == ""
    memory = desk.memory()
    memory.store("The staging server listens on port 8080.", key="staging")
    memory.store("The staging server listens on port 9090.", key="staging")
    out = vade(capsys, "review", "--kind", "contradiction")[1]
    for port in (8080, 9090):
        assert (
            f"  │ {'older' if port == 8080 else 'newer'}: The staging server listens on port {port}." in out
        )


# ---------------------------------------------------------------- at a terminal


def at_terminal(desk: Desk, *words: str, **environ: str) -> pexpect.spawn[str]:
    environment = {**os.environ, "VADE_HOME": str(desk.home), "TERM": "xterm", "PAGER": "cat", **environ}
    environment.pop("VADE_SCRIPT", None)
    return pexpect.spawn(
        VADE,
        ["review", *words],
        encoding="utf-8",
        env=environment,
        cwd=str(desk.project),
        dimensions=(50, 160),
        timeout=120,
    )


def test_at_a_terminal_each_key_does_what_it_says(desk: Desk) -> None:
    desk.imported(6)
    child = at_terminal(desk)
    child.expect("Unverified texts")
    child.expect(r"\[1/6\] fact-0")
    assert "Unverified texts" not in str(child.before)  # the count is the heading of a single kind
    child.expect("q quit")
    child.send("y")
    child.expect(r"\[2/6\] fact-1")
    child.expect("q quit")
    child.send("x")  # no key of ours
    child.send("n")
    child.expect(r"\[3/6\] fact-2")
    child.expect("q quit")
    child.send("s")
    child.expect(r"\[4/6\] fact-3")
    child.expect("q quit")
    child.send("a")
    child.expect("remaining 3 texts")
    child.send("y")
    child.expect("4 yes, 1 no, 1 skipped")
    child.expect("vade undo")
    child.expect(pexpect.EOF)
    left = [each.name for each in desk.memory().review.inbox().items]
    assert left == ["fact-2"]
    assert [each.name for each in desk.memory().review.inbox(declined=True).items] == ["fact-1"]


def test_a_text_that_the_person_edited_is_their_own_and_waits_no_more(desk: Desk, tmp_path: Path) -> None:
    desk.imported(2)
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/Fact 0/Truth 0/' \"$1\"\n")
    editor.chmod(0o755)
    child = at_terminal(desk, EDITOR=str(editor), VISUAL=str(editor))
    child.expect(r"\[1/2\] fact-0")
    child.expect("q quit")
    child.send("e")
    child.expect("none of them is pending any more")
    child.expect(r"\[1/1\] fact-1")
    child.expect("q quit")
    child.send("q")
    child.expect(pexpect.EOF)
    assert "Truth 0" in desk.told()
    assert "Fact 1" not in desk.told()


def test_a_text_that_changes_while_it_is_looked_at_is_shown_again(desk: Desk) -> None:
    desk.imported(1)
    child = at_terminal(desk)
    child.expect(r"\[1/1\] fact-0")
    child.expect("q quit")
    path = desk.home / desk.memory().show("fact-0").path
    path.write_text(path.read_text().replace("Fact 0", "Lie 0"))
    child.send("y")
    child.expect("changed since it was shown")
    child.expect("Lie 0 of")
    child.expect("q quit")
    child.send("q")
    child.expect(pexpect.EOF)
    assert desk.told() == ""


def test_a_long_text_is_shown_in_the_pager(desk: Desk) -> None:
    desk.memory(Origin.IMPORT).store("\n".join(f"Line {number} of many." for number in range(60)), key="long")
    child = at_terminal(desk)
    child.expect("more lines")
    child.expect("m more")
    child.expect("q quit")
    child.send("m")
    child.expect("Line 59 of many.")
    child.expect("q quit")
    child.send("q")
    child.expect("nothing decided")
    child.expect(pexpect.EOF)


def test_inside_an_agent_nothing_is_decided(desk: Desk) -> None:
    desk.imported(1)
    child = at_terminal(desk, CLAUDECODE="1")
    child.expect("only a person can")
    child.expect(pexpect.EOF)
    assert desk.told() == ""


@pytest.mark.full
def test_three_hundred_texts_are_one_sitting(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    desk.imported(300)
    looks = 0
    real = Records.known

    def counted(self: Records, places: Any, fact: Any) -> Any:
        nonlocal looks
        looks += 1
        return real(self, places, fact)

    memory = desk.memory()
    monkeypatch.setattr(Records, "known", counted)  # counts the looks at the whole store
    items = memory.review.inbox(["text"]).items
    _, decided = memory.review.decide(items, yes=True)
    assert sum(each.done for each in decided) == 300
    assert looks == 2  # one to show, and one to see that nothing changed since
