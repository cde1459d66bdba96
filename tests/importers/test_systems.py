"""Every system's files come in whole: texts, times, labels, in the place they belong to."""

from __future__ import annotations

import os
import re
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from importers import samples
from importers.worlds import snapshot
from vademecum.agents import registry
from vademecum.text import document, normalise

if TYPE_CHECKING:
    from collections.abc import Callable

    from importers.worlds import Vade
    from vademecum.types import Entry, Record


def project_id(vade: Vade) -> str:
    return str(vade.json("project")["id"])


def folder_name(vade: Vade) -> str:
    return re.sub(r"[^A-Za-z0-9]", "-", os.path.realpath(vade.project))


SYSTEMS: dict[str, Callable[[Vade, Path], Path]] = {
    "clio": lambda vade, top: samples.clio(top),
    "cao": lambda vade, top: samples.cao(top, project_id(vade)),
    "openclaw": lambda vade, top: samples.openclaw(top),
    "co-cli": lambda vade, top: samples.co_cli(top),
    "claude-code": lambda vade, top: samples.claude_home(top / ".claude", folder_name(vade)),
    "codex": lambda vade, top: samples.codex(top / ".codex"),
    "okf": lambda vade, top: samples.okf(top),
    "basic-memory": lambda vade, top: samples.basic_memory(top),
    "obsidian": lambda vade, top: samples.obsidian(top),
    "chatgpt": lambda vade, top: samples.chatgpt(top),
    "claude-ai": lambda vade, top: samples.claude_ai(top),
    "mem0": lambda vade, top: samples.mem0(top),
    "letta": lambda vade, top: samples.letta(top),
    "cursor": lambda vade, top: samples.cursor(top),
    "windsurf": lambda vade, top: samples.windsurf(top),
}
EXPECTED = {
    "clio": {"record": 7, "pinned": 1, "session": 1, "same": 0, "skipped": 2},
    "cao": {"record": 6, "same": 0, "skipped": 4},
    "openclaw": {"journal": 2, "pinned": 6, "record": 1, "same": 0, "skipped": 3},
    "co-cli": {"pinned": 1, "record": 3, "same": 0, "skipped": 1},
    "claude-code": {"pinned": 1, "record": 2, "same": 0, "skipped": 2},
    "codex": {"journal": 1, "pinned": 2, "record": 4, "same": 0, "skipped": 0},
    "okf": {"journal": 2, "record": 2, "same": 0, "skipped": 1},
    "basic-memory": {"record": 3, "same": 0, "skipped": 1},
    "obsidian": {"journal": 2, "record": 6, "same": 0, "skipped": 10},
    "chatgpt": {"record": 2, "session": 2, "same": 0, "skipped": 2},
    "claude-ai": {"record": 4, "session": 1, "same": 0, "skipped": 2},
    "mem0": {"record": 4, "same": 0, "skipped": 4},
    "letta": {"record": 4, "session": 1, "same": 0, "skipped": 2},
    "cursor": {"pinned": 2, "record": 3, "same": 0, "skipped": 1},
    "windsurf": {"pinned": 2, "record": 2, "same": 0, "skipped": 0},
}


def reasons(report: dict[str, Any]) -> dict[str, str]:
    return {each["source"]: each["why"] for each in report["skipped"]}


def paths(report: dict[str, Any]) -> dict[str, str]:
    return {each["source"]: each["path"] for each in report["mapped"]}


def test_every_system_named_by_the_command_has_a_reader() -> None:
    only_sessions = {"aider"}  # has tests of its own, in `test_aider.py`
    assert set(SYSTEMS) | only_sessions == set(registry.having("memories"))


@pytest.mark.parametrize("system", SYSTEMS)
def test_everything_comes_once_and_goes_again_and_no_original_is_touched(
    system: str, vade: Vade, tmp_path: Path
) -> None:
    vade("add", "What was here before.", "--key", "before", "--scope", "global")
    top = SYSTEMS[system](vade, tmp_path / "theirs")
    originals = snapshot(top)
    memory = vade.home / "memory"
    before = snapshot(memory)

    dry = vade.json("import", system, top, "--dry-run")
    assert dry["counts"] == EXPECTED[system]
    assert (dry["applied"], dry["run"]) == (False, None)
    assert snapshot(memory) == before

    report = vade.json("import", system, top)
    assert report["counts"] == EXPECTED[system]
    assert reasons(report) == reasons(dry)
    assert [(each["source"], each["outcome"]) for each in report["mapped"]] == [
        (each["source"], each["outcome"]) for each in dry["mapped"]
    ]
    come = {name: each[0] for name, each in snapshot(memory).items()}
    for path in paths(report).values():
        assert (vade.home / path).is_file()

    again = vade.json("import", system, top)
    assert {each["outcome"] for each in again["mapped"]} == {"same"}
    assert again["run"] is None
    assert {name: each[0] for name, each in snapshot(memory).items()} == come

    vade("undo", report["run"])
    assert vade.code == 0, vade.out + vade.err
    assert {name: each[0] for name, each in snapshot(memory).items()} == {
        name: each[0] for name, each in before.items()
    }
    assert snapshot(top) == originals

    once_more = vade.json("import", system, top)
    expected = {**EXPECTED[system]}
    if "session" in expected:  # a transcript is no part of the run, and is still here
        expected["same"] = expected.pop("session")
    assert once_more["counts"] == expected
    assert set(snapshot(memory)) == set(come)


@pytest.mark.parametrize("system", SYSTEMS)
def test_nothing_imported_may_be_injected_before_a_person_verified_it(
    system: str, vade: Vade, tmp_path: Path
) -> None:
    from vademecum.memory import connect
    from vademecum.types import Finding, Scope

    vade("import", system, SYSTEMS[system](vade, tmp_path / "theirs"))
    assert vade.code == 0, vade.err
    memory = connect(home=vade.home, cwd=vade.project)
    places = memory.workspace.places(None, all=False)
    listed = memory.list().records
    texts: list[tuple[Entry, Record | None]] = [
        (each, record) for record in listed for each in record.entries
    ]
    for each in memory.workspace.documents.all(places):
        assert not isinstance(each, Finding)
        texts += [(section, None) for section in each.sections]
    for day in memory.workspace.journal.days(places):
        assert not isinstance(day, Finding)
        texts += [(entry, None) for entry in day.entries]
    assert len(texts) >= 3
    for entry, owner in texts:
        assert not memory.review.trust_of(entry, record=owner).injectable, entry
    assert not any(memory.review.trust_of(record).injectable for record in listed)
    if "context.md" in {
        each.name for each in memory.workspace.documents.all(places) if not isinstance(each, Finding)
    }:
        scope = "project" if system in ("co-cli", "cursor", "windsurf") else "global"
        vade("review", "verify", "context.md", "--scope", scope)
        place = next(each for each in places if each.scope is Scope(scope))
        found = [each for each in memory.workspace.documents.all([place]) if not isinstance(each, Finding)]
        context = next(each for each in found if each.name == "context.md")
        assert all(memory.review.trust_of(section).injectable for section in context.sections)


@pytest.mark.full(but=2)
@pytest.mark.parametrize("system", SYSTEMS)
def test_verify_by_source_leaves_nothing_of_that_system_pending(
    system: str, vade: Vade, tmp_path: Path
) -> None:
    vade("import", system, SYSTEMS[system](vade, tmp_path / "theirs"))
    assert vade.json("review")["counts"].get("text", 0) > 0
    vade("review", "verify", "--source", system, "--yes")
    assert vade.code == 0, vade.err
    assert vade.json("review")["counts"].get("text", 0) == 0


def test_verify_by_source_does_not_touch_what_another_system_brought(vade: Vade, tmp_path: Path) -> None:
    vade("import", "cursor", samples.cursor(tmp_path / "one"))
    report = vade.json("import", "windsurf", samples.windsurf(tmp_path / "two"))
    brought = vade.json("review")["counts"]["text"]
    vade("review", "verify", "--source", "cursor:.cursorrules", "--yes")
    assert vade.json("review")["counts"]["text"] == brought - 1
    vade("review", "verify", "--source", "cursor", "--yes")
    left = {each["path"] for each in vade.json("review")["items"] if each["kind"] == "text"}
    assert left == {*paths(report).values()}
    vade("review", "verify", "--source", "windsurf", "--yes")
    assert vade.json("review")["counts"].get("text", 0) == 0


def test_a_day_that_two_systems_wrote_to_is_verified_by_its_run_or_name_only(
    vade: Vade, tmp_path: Path
) -> None:
    day = "2026-03-02.md"
    for system, name in (("openclaw", f"memory/{day}"), ("obsidian", day)):
        vade("import", system, samples.write(tmp_path / system, {name: f"Said in {system}.\n"}))
        assert vade.code == 0, vade.err
    assert "nothing pending came from" in vade.fails("review", "verify", "--source", "obsidian", "--yes")
    vade("review", "verify", "memory/global/journal/2026-03-02.md", "--yes")
    assert vade.code == 0, vade.err
    assert vade.json("review")["counts"].get("text", 0) == 0


def test_what_came_is_searched_at_once_and_put_before_agents_only_when_verified(
    vade: Vade, tmp_path: Path
) -> None:
    vade("import", "openclaw", samples.openclaw(tmp_path / "ws"))
    vade("import", "cao", samples.cao(tmp_path / "wiki-home", project_id(vade)))
    assert "Readers never block" in vade("search", "do readers block the writer in WAL mode")
    said = ("genuinely helpful", "Europe/Zurich", "Tea, not coffee", "always use pytest", "concise answers")
    before = vade("inject").lower()
    assert vade.code == 0, vade.err
    assert not [each for each in said if each.lower() in before]
    for name in ("context.md", "profile.md", "MEMORY.md", "testing-framework", "answer-style"):
        vade("review", "verify", name)
        assert vade.code == 0, vade.err
    after = vade("inject").lower()
    assert [each for each in said if each.lower() in after] == [*said]


def test_cao_topics_keep_all_entries_with_their_times_and_land_in_their_scopes(
    vade: Vade, tmp_path: Path
) -> None:
    top = samples.cao(tmp_path / "wiki-home", project_id(vade))
    report = vade.json("import", "cao", top)
    assert vade.entries("testing-framework") == [
        ("2026-04-16T10:30:00Z", "Use unittest for new tests.", "import"),
        (
            "2026-05-02T08:00:00Z",
            "Always use pytest for testing in this project. Do not use unittest.",
            "import",
        ),
    ]
    record = vade.json("show", "testing-framework")
    assert (record["type"], record["tags"], record["source"]) == (
        "feedback",
        ["testing", "pytest"],
        "import:cao",
    )
    assert (record["created"], record["updated"]) == ("2026-04-16T10:30:00Z", "2026-05-02T08:00:00Z")
    assert vade.entries("auth") == [("2026-01-02T03:04:05Z", "Sessions end after an hour.", "import")]
    assert "related: [{key: testing-framework" in (vade.home / paths(report)["project/auth.md"]).read_text()
    assert vade.json("show", "answer-style")["scope"] == "global"
    assert vade.json("show", "internal-pypi")["scope"] == "federated"
    assert vade.json("show", "checklist")["scope"] == "agent"
    assert vade.json("show", "review-notes", "--session", "refactor-auth")["scope"] == "session"
    why = reasons(report)
    assert "belongs to the project 0123456789ab" in why["project/elsewhere.md"]
    assert "--agent reviewer" in why["agent/reviewer/checklist.md"]
    assert any("listing" in each for each in why.values())


def test_a_wiki_of_another_project_comes_here_when_its_own_folder_or_a_scope_is_named(
    vade: Vade, tmp_path: Path
) -> None:
    top = samples.cao(tmp_path / "memory", project_id(vade))
    assert vade.json("import", "cao", top / "0123456789ab")["counts"]["record"] == 1
    assert vade.json("show", "elsewhere")["scope"] == "project"
    report = vade.json("import", "cao", top, "--scope", "global")
    assert report["counts"]["record"] >= 7
    assert vade.json("show", "auth", "--scope", "global")["scope"] == "global"


def test_an_entry_that_comes_late_is_put_where_its_time_belongs(vade: Vade, tmp_path: Path) -> None:
    top = samples.cao(tmp_path / "wiki-home", project_id(vade))
    vade("import", "cao", top)
    path = top / project_id(vade) / "wiki/project/testing-framework.md"
    path.write_text(path.read_text() + "\n## 2026-04-20T00:00:00Z\nAsk before adding a plug-in.\n")
    report = vade.json("import", "cao", top)
    grown = [each for each in report["mapped"] if each["outcome"] == "grown"]
    assert [(each["source"], each["added"]) for each in grown] == [("project/testing-framework.md", 1)]
    assert [time for time, _, _ in vade.entries("testing-framework")] == [
        "2026-04-16T10:30:00Z",
        "2026-04-20T00:00:00Z",
        "2026-05-02T08:00:00Z",
    ]


def test_a_record_of_the_user_with_the_same_key_is_added_to_and_never_worded_anew(
    vade: Vade, tmp_path: Path
) -> None:
    vade(
        "add",
        "Always use pytest for testing in this project. Never unittest.",
        "--key",
        "testing-framework",
    )
    vade("import", "cao", samples.cao(tmp_path / "wiki-home", project_id(vade)))
    found = vade.entries("testing-framework")
    assert [origin for _, _, origin in found] == ["import", "import", "user"]
    assert found[-1][1] == "Always use pytest for testing in this project. Never unittest."
    assert all(each["superseded"] is None for each in vade.json("show", "testing-framework")["entries"])


def test_a_topic_that_only_sounds_like_a_record_gets_a_key_of_its_own(vade: Vade, tmp_path: Path) -> None:
    vade("add", "Something else entirely.", "--key", "team-of-five")
    vade("import", "co-cli", samples.co_cli(tmp_path / "co"))
    assert vade.entries("team-of-five")[0][1] == "Something else entirely."
    assert vade.entries("team-of-five-2")[0][1] == "The team has five people."


def test_what_somebody_took_out_or_worded_anew_does_not_come_again(vade: Vade, tmp_path: Path) -> None:
    top = samples.cao(tmp_path / "wiki-home", project_id(vade))
    report = vade.json("import", "cao", top)
    path = vade.home / paths(report)["project/testing-framework.md"]
    path.write_text(path.read_text().replace("Use unittest for new tests.", "Use unittest in old code only."))
    openclaw = samples.openclaw(tmp_path / "ws")
    vade("import", "openclaw", openclaw)
    context = vade.home / "memory/global/context.md"
    context.write_text(context.read_text().replace("Be genuinely helpful.", "Be kind."))
    assert vade.json("import", "cao", top)["run"] is None
    assert vade.json("import", "openclaw", openclaw)["run"] is None
    assert "Be genuinely helpful" not in context.read_text()


def test_clio_keeps_what_was_learned_with_its_times_notes_and_sessions(vade: Vade, tmp_path: Path) -> None:
    vade("import", "clio", samples.clio(tmp_path / "theirs"))
    assert vade.entries("config-uses-yaml-not-json") == [
        ("2026-01-01T00:00:00Z", "Config uses YAML, not JSON", "import")
    ]
    learned = {each["type"]: each for each in vade.json("knowledge", "list")["lessons"]}
    assert learned["solution"]["examples"] == ["lib/CLIO/Session/State.pm"]
    assert learned["rule"]["path_prefix"] == "lib/"
    assert vade.entries("auth-bug-analysis") == [
        ("2026-01-01T23:59:59Z", "Root cause: token refresh uses return inside eval", "import")
    ]
    assert '"b": 2' in vade.entries("table")[0][1]
    assert "Iteration 12" in vade.entries("session-progress")[0][1]
    assert "British spelling" in (vade.home / "memory/global/profile.md").read_text()
    assert [each["name"] for each in vade.json("sessions", "list")["sessions"]] == ["Token refresh"]


def test_clio_comes_the_same_from_the_project_its_folder_or_one_file(vade: Vade, tmp_path: Path) -> None:
    top = samples.clio(tmp_path / "theirs")
    whole = vade.json("import", "clio", top, "--dry-run")
    assert paths(vade.json("import", "clio", top / ".clio", "--dry-run")).keys() == paths(whole).keys()
    one = vade.json("import", "clio", top / ".clio/ltm.json", "--dry-run")
    assert {each["source"] for each in one["mapped"]} == {"ltm.json"}


def test_openclaw_days_become_the_journal_and_documents_their_pinned_ones(vade: Vade, tmp_path: Path) -> None:
    vade("import", "openclaw", samples.openclaw(tmp_path / "ws"))
    day = document.parse((vade.home / "memory/global/journal/2026-01-26.md").read_text())
    assert [(each.time, each.text.split("\n")[0]) for each in day.entries] == [
        ("2026-01-26", "Woke up."),
        ("2026-01-26T10:30:00", "## 10:30 - API discussion"),
        ("2026-01-26T10:30:00", "## Later"),
        ("2026-01-26T18:05:00Z", "## 18:05 UTC Evening"),
    ]
    assert (vade.home / "memory/global/journal/2026-01-27-api-design.md").is_file()
    memory = document.blocks((vade.home / "memory/global/MEMORY.md").read_text())
    headings = [each.text.split("\n")[0] for each in memory]
    assert headings == ["# Long-term memory", "## Preferences", "## People"]
    context = (vade.home / "memory/global/context.md").read_text()
    for said in ("Be genuinely helpful", "camera: front door", "Name: Clawd", "Read SOUL.md first"):
        assert said in context
    # A comment in a code block looks like a heading and must not be cut off from its signature.
    code = next(each for each in document.blocks(context) if "make test" in each.text)
    assert "# run the checks" in code.text
    assert "Europe/Zurich" in (vade.home / "memory/global/profile.md").read_text()
    assert vade.json("show", "research-sqlite-wal")["title"] == "SQLite WAL"


def test_openclaw_can_go_to_the_project_and_says_what_has_no_place_there(vade: Vade, tmp_path: Path) -> None:
    top = samples.openclaw(tmp_path / "ws")
    found = paths(vade.json("import", "openclaw", top, "--scope", "project"))
    own = f"memory/project/{project_id(vade)}"
    assert found["SOUL.md"] == f"{own}/context.md"
    assert found["memory/2026-01-26.md"] == f"{own}/journal/2026-01-26.md"
    assert found["MEMORY.md"] == "memory/global/MEMORY.md"
    left = reasons(vade.json("import", "openclaw", top, "--scope", "federated", "--dry-run"))
    assert left["memory/2026-01-26.md"] == "federated memory has no journal"
    assert left["SOUL.md"] == "federated memory has no pinned documents"


def test_co_cli_keeps_tags_dates_and_keys_nobody_knows_and_its_protection_is_a_claim(
    vade: Vade, tmp_path: Path
) -> None:
    report = vade.json("import", "co-cli", samples.co_cli(tmp_path / "co"))
    record = vade.json("show", "user-prefers-async")
    assert (record["protected"], record["tags"], record["category"]) == (
        False,
        ["preference", "python"],
        "preference",
    )
    assert (record["created"], record["updated"]) == ("2026-02-09T14:30:00Z", "2026-02-11T08:00:00Z")
    assert vade.entries("user-prefers-async")[0][0] == "2026-02-11T08:00:00Z"
    text = (vade.home / record["path"]).read_text()
    assert "mood: sunny  # nobody knows this key\n" in text
    assert "decay_protected" not in text
    assert vade.json("show", "team-of-five")["tags"] == ["context", "team"]
    assert vade.entries("bare")[0][1] == "Just a line."
    assert any("malformed" in each for each in reasons(report).values())


def test_claude_code_notes_of_this_project_come_and_listings_and_others_do_not(
    vade: Vade, tmp_path: Path
) -> None:
    top = samples.claude_home(tmp_path / ".claude", folder_name(vade))
    report = vade.json("import", "claude-code", top)
    assert vade.json("show", "build-needs-node-22")["type"] == "project"
    assert vade.json("show", "no-mocks")["type"] == "feedback"
    assert paths(report)["CLAUDE.md"] == "memory/global/context.md"
    why = " ".join(reasons(report).values())
    assert "listing" in why
    assert "belongs to the project in -somewhere-else" in why
    named = vade.json("import", "claude-code", top / "projects/-somewhere-else")
    assert named["counts"]["record"] == 1


def test_a_memory_of_claude_code_that_says_something_itself_becomes_context(
    vade: Vade, tmp_path: Path
) -> None:
    name = f"projects/{folder_name(vade)}/memory/MEMORY.md"
    text = "# Memory\n\n- [Build](build.md) - how to build\n- Deploys need a second pair of eyes\n"
    top = samples.write(tmp_path / ".claude", {name: text})
    found = paths(vade.json("import", "claude-code", top))
    assert found == {"memory/MEMORY.md": f"memory/project/{project_id(vade)}/context.md"}
    assert "second pair of eyes" in (vade.home / found["memory/MEMORY.md"]).read_text()


def test_claude_code_instructions_of_a_repository_become_its_context(vade: Vade, tmp_path: Path) -> None:
    report = vade.json("import", "claude-code", samples.claude_project(tmp_path / "repo"))
    assert report["counts"] == {"pinned": 2, "record": 1, "same": 0, "skipped": 0}
    context = (vade.home / f"memory/project/{project_id(vade)}/context.md").read_text()
    assert "Run make test" in context
    assert "Two spaces" in context
    assert "what memory said" not in context
    assert vade.entries("src-api-claude")[0][1] == "Handlers are thin."


def test_what_a_memory_wrote_between_its_markers_is_not_taken_for_the_users(
    vade: Vade, tmp_path: Path
) -> None:
    from vademecum.inject import injection
    from vademecum.interfaces.install import runner

    blocks = [(injection.BEGIN, injection.END), (runner.BEGIN, runner.END)]
    blocks += [("<vade-memory>", "</vade-memory>"), ("<!-- cao-memory:begin -->", "<!-- cao-memory:end -->")]
    text = "# Mine\n\n" + "".join(f"{a}\nnot mine\n{b}\nmine {n}\n" for n, (a, b) in enumerate(blocks))
    text += f"{runner.END}\nbetween an orphan and a beginning\n{injection.BEGIN}\n"
    for name, system in (("CLAUDE.md", "claude-code"), ("AGENTS.md", "codex")):
        top = samples.write(tmp_path / system, {name: text})
        vade("import", system, top, "--scope", "global")
    context = (vade.home / "memory/global/context.md").read_text()
    assert "not mine" not in context
    assert "between an orphan" in context
    assert all(f"mine {n}" in context for n in range(4))
    (tmp_path / "codex" / "AGENTS.md").write_text(f"{runner.BEGIN}\nnot mine\n{runner.END}\n")
    why = reasons(vade.json("import", "codex", tmp_path / "codex"))
    assert why["AGENTS.md"] == "it contains only what a memory tool wrote"


def test_codex_groups_become_records_and_summaries_notes_of_their_day(vade: Vade, tmp_path: Path) -> None:
    report = vade.json("import", "codex", samples.codex(tmp_path / ".codex"))
    assert "tag first" in vade.entries("release-pipeline")[0][1]
    assert [time for time, _, _ in vade.entries("codex-raw-memories")] == [
        "2026-02-01T10:00:00Z",
        "2026-03-01T10:00:00Z",
    ]
    assert "compilers" in (vade.home / "memory/global/MEMORY.md").read_text()
    assert "Run the linter" in (vade.home / "memory/global/context.md").read_text()
    assert "memory/global/journal/2026-03-01-codex.md" in paths(report).values()


def test_a_bundle_keeps_types_and_keys_nobody_knows_byte_for_byte(vade: Vade, tmp_path: Path) -> None:
    vade("import", "okf", samples.okf(tmp_path / "bundle"))
    record = vade.json("show", "tables-orders")
    assert (record["type"], record["title"]) == ("BigQuery Table", "Orders")
    text = (vade.home / record["path"]).read_text()
    for line in (
        "resource: bq://shop.orders\n",
        "tags: [sales,   raw]   # as they came\n",
        "x-owner:\n  team: 'sales'\n",
        "generated: {by: producer/1.0, at: 2026-05-01T00:00:00Z}\n",
        "# Orders table\n",
    ):
        assert line in text
    assert "\nverified:" not in text
    assert vade.entries("tables-customers")[0][0] == "2026-04-01T00:00:00Z"


@pytest.mark.parametrize("system", ["cao", "openclaw", "okf", "co-cli"])
def test_an_archive_is_read_as_its_folder_is(system: str, vade: Vade, tmp_path: Path) -> None:
    top = SYSTEMS[system](vade, tmp_path / "theirs")
    packed = tmp_path / "packed.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(top, arcname="theirs")
    folder = vade.json("import", system, top, "--dry-run")
    assert vade.json("import", system, packed, "--dry-run")["counts"] == folder["counts"]


def test_a_repositorys_folder_that_is_not_trusted_gets_nothing(vade: Vade, tmp_path: Path) -> None:
    (vade.project / ".vade" / "records").mkdir(parents=True)
    before = snapshot(vade.project)
    report = vade.json("import", "co-cli", samples.co_cli(tmp_path / "co"))
    assert "not trusted" in reasons(report)["memories/002-team-of-five.md"]
    assert snapshot(vade.project) == before
    vade("review", "trust")
    assert vade.json("import", "co-cli", tmp_path / "co")["counts"]["record"] == 3
    assert (vade.project / ".vade/records/team-of-five.md").is_file()
    assert vade.entries("team-of-five")[0][2] == "import"


def test_an_imported_record_is_as_young_as_its_import_for_retention(vade: Vade, tmp_path: Path) -> None:
    vade("import", "co-cli", samples.co_cli(tmp_path / "co"))
    assert vade.json("tidy", "--only", "sweep")["sweep"]["proposals"] == []


def real_workspace() -> Path:
    where = os.environ.get("VADE_DATA")
    packed = Path(where or "") / "openclaw-workspace.tar.xz"
    if not where or not packed.is_file():
        pytest.skip("VADE_DATA names no folder with openclaw-workspace.tar.xz")
    return packed


def test_all_of_a_real_workspaces_memory_has_a_place(vade: Vade) -> None:
    report = vade.json("import", "openclaw", real_workspace(), "--dry-run")
    with tarfile.open(real_workspace()) as archive:
        names = [each.name.partition("/")[2] for each in archive if each.isreg()]
    wanted = {each for each in names if each.startswith("memory/") and each.endswith(".md")}
    assert len(wanted) > 200
    assert wanted <= set(paths(report))
    assert report["counts"]["journal"] == sum(bool(re.fullmatch(r"memory/\d.*", each)) for each in wanted)
    assert not [*vade.home.rglob("*.md")]


@pytest.mark.soak
def test_a_real_workspace_comes_whole_once_and_goes(vade: Vade, tmp_path: Path) -> None:
    packed, top = real_workspace(), tmp_path / "theirs"
    with tarfile.open(packed) as archive:
        archive.extractall(top, filter="data")
    originals = snapshot(top)
    report = vade.json("import", "openclaw", top)
    words = " ".join(
        normalise(document.unescape(each.read_text())) for each in (vade.home / "memory").rglob("*.md")
    )
    for path in top.rglob("memory/**/*.md"):
        for line in path.read_text().split("\n"):
            said = normalise(line)
            assert said.startswith("# ") or said in words, (path, said)
    assert vade.json("import", "openclaw", top)["run"] is None
    vade("undo", report["run"])
    assert not [*(vade.home / "memory").rglob("*.md")]
    assert snapshot(top) == originals
