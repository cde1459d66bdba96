"""Lint says what is wrong, where, why and which command mends it; and says nothing of what is not wrong."""

from __future__ import annotations

import json
import os
import re
import shlex
import time
from importlib import resources
from typing import TYPE_CHECKING

import pytest
from bench import lint as bench_lint
from click.testing import CliRunner

from vademecum.errors import ModelFailed, NotVisible
from vademecum.interfaces.cli.app import cli, run
from vademecum.interfaces.cli.care import format_annotation
from vademecum.lifecycle import lint
from vademecum.lifecycle import lint_rules as materials
from vademecum.lifecycle.lint_rules import Stopwatch
from vademecum.llm.scripted import Scripted
from vademecum.store import scopes
from vademecum.text import secrets
from vademecum.types import Finding

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lifecycle.stores import World

TOKEN = "ghp_" + "x7Kq2Lm9Pz4Rt6Vw8Yb1Nc3Df5Gh0JkS1aQ2"
CODE = "def connect():\n    pool = open_pool()\n    return pool\n\n\nclass RetryPolicy:\n    limit = 3\n"


@pytest.fixture
def project(world: World) -> Path:
    """A project with a little code."""
    top = world.top / "project"
    (top / "src" / "db").mkdir(parents=True)
    (top / "src" / "db" / "pool.py").write_text(CODE)
    (top / "docs").mkdir()
    (top / "docs" / "setup.md").write_text("# Setup\n")
    return top


def kinds(found: Sequence[Finding]) -> set[str]:
    return {finding.what for finding in found}


def one(found: Sequence[Finding], what: str) -> Finding:
    chosen = [finding for finding in found if finding.what == what]
    assert len(chosen) == 1, found
    return chosen[0]


def line_at(world: World, finding: Finding) -> str:
    path, _, lines = finding.where.rpartition("#L")
    return world.memory().get(path).text.split("\n")[int(lines.split("-")[0]) - 1]


# -------------------------------------------------------------------- what is wrong


def test_a_memory_that_is_sound_has_no_findings(world: World, project: Path) -> None:
    memory = world.memory()
    memory.store("The pool lives in src/db/pool.py; `connect()` opens it. See [[deploy]].", key="pool")
    memory.store("We deploy on Fridays.", key="deploy")
    memory.note("Looked at the pool.")
    assert list(memory.care.lint()) == []


def test_a_contradiction_is_an_error_that_heal_mends(world: World) -> None:
    memory = world.memory()
    memory.store("The API timeout is 30 seconds.", key="timeout")
    world.clock.forward(hours=1)
    memory.store("The API timeout is 60 seconds.", key="timeout")
    finding = one(memory.care.lint(), "contradiction")
    assert finding.severity == "error"
    assert line_at(world, finding) == "The API timeout is 30 seconds."
    assert "60 seconds" in finding.why
    assert finding.mend == "vade tidy --only heal --scope project --apply"


@pytest.mark.parametrize(
    ("text", "severity", "why"),
    [
        ("The rest is in src/db/old.py.", "error", "src/db/old.py does not exist"),
        ("Opened by src/db/pool.py#L1-L3 and src/gone/x.py#L2.", "error", "src/gone/x.py does not exist"),
        ("See [the guide](docs/gone.md).", "error", "docs/gone.md does not exist"),
        ("The pool is in lib/db/pool.py.", "warning", "lib/db/pool.py is now src/db/pool.py"),
        ("It stands in src/db/pool.py#L90-L99.", "warning", "src/db/pool.py has only"),
    ],
)
def test_a_claim_about_the_project_that_is_no_longer_so(
    text: str, severity: str, why: str, world: World, project: Path
) -> None:
    world.memory().store(f"Something else first.\n\n{text}", key="claim")
    finding = one(world.memory().care.lint(), "stale_claim")
    assert finding.severity == severity
    assert why in finding.why
    assert line_at(world, finding) == text


def test_a_name_that_was_here_and_is_gone_is_told_and_one_that_never_was_is_not(
    world: World, project: Path
) -> None:
    old = project / "src" / "old.py"
    old.write_text("class OldPolicy:\n    pass\n")
    world.memory().store("`OldPolicy` bounds it, `useState()` and `DATABASE_URL` have no say.", key="claim")
    assert list(world.memory().care.lint()) == []
    old.write_text("# OldPolicy went.\n")
    finding = one(world.memory().care.lint(), "stale_claim")
    assert (finding.severity, finding.why) == ("warning", "`OldPolicy` is defined in no file of the project")


def test_in_a_record_made_by_hand_a_name_that_stands_nowhere_is_told(world: World, project: Path) -> None:
    memory = world.memory()
    memory.store("First.", key="first")
    folder = next(world.home.glob("memory/project/*/records"))
    (folder / "claim.md").write_text("`OldPolicy` bounds it; `print()` and `DATABASE_URL` are not ours.\n")
    finding = one(world.memory().care.lint(), "stale_claim")
    assert finding.why == "`OldPolicy` is in no file of the project"


def test_only_records_of_the_project_speak_of_its_files(world: World, project: Path) -> None:
    world.memory().store("The rest is in src/db/old.py.", key="claim", scope="global")
    assert list(world.memory().care.lint()) == []


def test_links_that_lead_nowhere(world: World) -> None:
    memory = world.memory()
    memory.store("See [[nowhere]].\n\nAnd [that](gone.md), [this](../project/lost.md).", key="links")
    memory.note("As [[missing-note]] says.")
    found = [finding for finding in memory.care.lint() if finding.what == "orphan"]
    assert sorted(finding.why.split(" ")[2].rstrip(",") for finding in found) == [
        "../project/lost.md",
        "[[missing-note]]",
        "[[nowhere]]",
        "gone.md",
    ]
    assert all(finding.severity == "warning" for finding in found)


def test_an_edge_in_the_frontmatter_that_leads_nowhere(world: World) -> None:
    world.write("a.md", "---\ntype: project\nrelated:\n  - {key: gone, rel: relates_to}\n---\nText.\n")
    finding = one(world.memory().care.lint(), "orphan")
    assert finding.where == "memory/global/records/a.md#L4"
    assert "gone" in finding.why


def test_a_listing_that_names_a_file_that_is_gone(world: World) -> None:
    memory = world.memory()
    memory.store("One.", key="one", scope="global")
    memory.store("Two.", key="two", scope="global")
    memory.care.write_listing(scope="global")
    (world.home / "memory/global/records/two.md").unlink()
    finding = one(memory.care.lint(), "orphan")
    assert finding.where == "memory/global/records/index.md#L6"
    assert finding.mend == "vade list --write-index --scope global"


def test_a_row_of_the_index_whose_file_is_gone(world: World) -> None:
    memory = world.memory()
    memory.store("One.", key="one")
    memory.care.index()
    memory.close()
    next(world.home.glob("memory/project/*/records/one.md")).unlink()
    finding = one(world.memory().care.lint(), "orphan")
    assert finding.where == "index/main.db"
    assert finding.mend == "vade index"


def test_a_file_made_by_hand_is_no_orphan(world: World) -> None:
    world.write("My Own Notes.md", "Just a text, without anything.\n")
    assert list(world.memory().care.lint()) == []


def test_a_file_that_cannot_be_read_as_a_record(world: World) -> None:
    world.write("broken.md", "---\ntype: [unclosed\n---\nText.\n")
    world.write("open.md", "---\ntype: project\nText.\n")
    found = [finding for finding in world.memory().care.lint() if finding.what == "malformed"]
    assert [finding.where for finding in found] == [
        "memory/global/records/broken.md#L1",
        "memory/global/records/open.md#L1",
    ]
    assert {finding.severity for finding in found} == {"error"}
    assert found[0].mend == "vade edit broken --scope global"


def test_an_encoding_that_cannot_be_read(world: World) -> None:
    world.write("latin.md", "Erste Zeile\nGr\xfc\xdfe\n".encode("latin-1"))
    world.write("nul.md", b"a\n\nb\0\n")
    found = [finding for finding in world.memory().care.lint() if finding.what == "encoding"]
    assert [finding.where.rpartition("/")[2] for finding in found] == ["latin.md#L2", "nul.md#L3"]
    assert "byte 14" in found[0].why


def test_a_secret_is_named_by_its_kind_and_never_repeated(world: World) -> None:
    world.write("leak.md", f"# leak\n\nThe token is {TOKEN}\n")
    finding = one(world.memory().care.lint(), "secret")
    assert finding.where == "memory/global/records/leak.md#L3"
    assert finding.severity == "error"
    assert TOKEN[:12] not in json.dumps(finding)


@pytest.mark.parametrize(
    "text",
    [
        "<vade-memory>\n- [project] a: b\n</vade-memory>",
        "<thread_summary>\nWe talked.\n</thread_summary>",
        "# Memory\n\n## Project\n\n* [One](one.md) - One.",
        "Words.\n\n## See Also\n- [one](../project/one.md)",
        "<!-- cao-memory:begin -->",
    ],
)
def test_text_that_memory_made_itself(text: str, world: World) -> None:
    world.write("one.md", "One.\n")
    world.write("own.md", f"Something.\n\n{text}\n")
    finding = one([each for each in world.memory().care.lint() if each.what != "orphan"], "generated_text")
    assert finding.where.startswith("memory/global/records/own.md#L")


def test_a_short_text_that_is_shown_far_too_often(world: World) -> None:
    for number in range(20):
        world.write(f"r{number:02}.md", f"Number {number}.\n")
    memory = world.memory()
    paths = [f"memory/global/records/r{number:02}.md" for number in range(20)]
    for minute in range(60):
        memory.workspace.state.used(
            paths[:1], at=world.clock().replace(hour=minute // 60, minute=minute % 60)
        )
    finding = one(memory.care.lint(), "poison_frequency")
    assert finding.where == paths[0]
    assert finding.severity == "error"
    (world.home / "memory/global/records/r19.md").unlink()
    assert list(memory.care.lint()) == []  # with fewer than twenty nothing is usual


def test_a_record_that_many_others_name(world: World) -> None:
    world.write("hub.md", "The hub.\n")
    for number in range(6):
        world.write(f"r{number}.md", f"Number {number} goes with [[hub]].\n")
    finding = one(world.memory().care.lint(), "graph_density")
    assert finding.where == "memory/global/records/hub.md"
    (world.home / "memory/global/records/r5.md").unlink()
    assert list(world.memory().care.lint()) == []


def test_what_has_grown_too_large(world: World) -> None:
    world.settings["VADE_DECAY_MAX_COUNT"] = "2"
    for name in ("red", "green", "blue"):
        world.write(f"{name}.md", f"## 2026-01-02T03:04:05Z\nThe colour {name}.\n")
    (world.home / "memory/global/MEMORY.md").write_text("A sentence about colours.\n" * 400)
    found = world.memory().care.lint()
    assert one(found, "oversize_pinned").mend == "vade edit MEMORY.md --scope global"
    assert one(found, "over_budget").mend == "vade tidy --only sweep --scope global --apply"
    assert one(found, "over_budget").why == "3 notes in global, more than decay.max_count = 2"


def test_lint_finds_too_many_records_exactly_where_the_cap_would_act(world: World) -> None:
    world.settings["VADE_DECAY_MAX_COUNT"] = "2"
    dated = "## 2026-01-02T03:04:05Z\n"
    world.write("red.md", f"{dated}The colour red.\n")
    world.write("green.md", f"{dated}The colour green.\n")
    world.write("undated.md", "The colour blue.\n")
    world.write("long.md", f"{dated}{'The colour of the sea changes. ' * 30}\n")
    world.write("brought.md", f"{dated}The colour grey.\n<!-- origin: import -->\n")
    world.write("reference.md", f"---\ntype: reference\n---\n{dated}The colours are in the handbook.\n")

    def capped() -> list[str]:
        return [
            each.what for each in world.memory().care.sweep(scope="global").proposals if each.what == "cap"
        ]

    assert "over_budget" not in kinds(world.memory().care.lint())
    assert capped() == []
    world.write("white.md", f"{dated}The colour white.\n")
    assert one(world.memory().care.lint(), "over_budget").why.startswith("3 notes in global")
    assert capped() == ["cap"]


def test_journals_pinned_documents_and_sources_are_looked_at_too(world: World) -> None:
    memory = world.memory()
    memory.note("Something.", scope="global")
    day = next(world.home.glob("memory/global/journal/*.md"))
    day.write_bytes(day.read_bytes() + b"\xff\n")
    (world.home / "memory/global/context.md").write_text(f"token {TOKEN}\n\n[[nowhere]]\n")
    vault = world.top / "vault"
    (vault / "sub").mkdir(parents=True)
    (vault / "a.md").write_text(f"[[b]] and [b](sub/b.md), [[c]] and [d](sub/d.md). {TOKEN}\n")
    (vault / "sub" / "b.md").write_text("---\nnever closed, which is a source's own business\n")
    (vault / "sub" / "bad.md").write_bytes(b"\xfe\xff\n")
    memory.sources.add(vault, name="vault")
    found = memory.care.lint()
    last = day.read_bytes().count(b"\n")
    assert sorted((finding.what, os.path.basename(finding.where)) for finding in found) == [
        ("encoding", f"{day.name}#L{last}"),
        ("encoding", "bad.md#L1"),
        ("orphan", "a.md#L1"),
        ("orphan", "a.md#L1"),
        ("orphan", "context.md#L3"),
        ("secret", "a.md#L1"),
        ("secret", "context.md#L1"),
    ]
    assert [f.severity for f in found if f.what == "secret" and "vault" in f.where] == ["warning"]


def test_a_source_that_is_gone(world: World) -> None:
    vault = world.top / "vault"
    vault.mkdir()
    (vault / "a.md").write_text("Text.\n")
    memory = world.memory()
    memory.sources.add(vault, name="vault")
    (vault / "a.md").unlink()
    vault.rmdir()
    assert one(memory.care.lint(), "orphan").mend == "vade sources remove vault"


# -------------------------------------------------------------------- what is not wrong


@pytest.mark.parametrize(
    "text",
    [
        "TCP/IP and/or UDP, client/server, 50/50, n/a, read/write, on 2026/11/15.",
        "Needs version 1.2.3 or v2.0/v3.0; see https://example.org/src/db/old.py.",
        "Mail ops/team@example.org, or look at example.org/page.html.",
        "```python\nopen('src/db/old.py')\nOldPolicy()\n```",
        "    src/db/old.py",
        "Until 2024 the pool was in src/db/old.py.",
        "We removed src/db/old.py and `OldPolicy` with it.",
        "src/db/old.py used to hold it.",
        "If there is a src/db/local.py, it wins.",
        "Create src/db/new.py for that.",
        "Put it into path/to/file.py or your/module.py.",
        "We use src/db/pool.py instead of src/db/old.py.",
        "There is no src/db/old.py.",
        "Built into dist/app.js and node_modules/left/index.js.",
        "`pytest`, `make`, `--force`, `true`, `HEAD~1`, `a + b`, `x = 1`",
        "`asyncio.gather` and `React.useState` are of libraries.",
        "Look at `src/db/pool.py`, ./docs/setup.md and docs/.",
        "[docs](https://example.org/a.md), ![](image.md), [here](#part), [mail](mailto:a@example.org)",
        "In bash `[[ -f x ]]`, and outside of code [[ -n $x ]].",
        "```\n[[nowhere]]\n```",
        "A sentence about <vade-memory> and `<thread_summary>`.",
        "```\n<vade-memory>\nan example\n</vade-memory>\n```",
        "Set API_KEY=<your-key> and password: ********.",
        "e.g. this, i.e. that, etc.; the file was/is fine.",
        "Are the files in src/db/old.py?",
    ],
)
def test_a_text_that_is_no_finding(text: str, world: World, project: Path) -> None:
    world.memory().store(text, key="text")
    assert list(world.memory().care.lint()) == []


# -------------------------------------------------------------------- bounds


def test_what_was_not_looked_at_in_time_is_told(world: World) -> None:
    memory = world.memory()
    for number in range(5):
        memory.store(f"Number {number}.", key=f"r{number}")
    found = memory.care.lint(seconds=0)
    assert kinds(found) == {"lint_incomplete"}
    assert "5 of them were not checked within 0 seconds" in found[0].why


def test_not_more_of_a_kind_than_a_person_reads(world: World) -> None:
    links = "\n".join(f"[[nowhere-{number}]]" for number in range(50))
    world.write("links.md", links)
    found = world.memory().care.lint()
    assert sum(finding.what == "orphan" for finding in found) == 40
    assert "10 more of orphan" in one(found, "lint_incomplete").why


def test_one_scope_alone(world: World) -> None:
    world.write("broken.md", "---\n[\n---\n")
    memory = world.memory()
    memory.store("[[nowhere]]", key="links")
    assert kinds(memory.care.lint(scope="project")) == {"orphan"}
    assert kinds(memory.care.lint(scope="global")) == {"malformed"}


def test_a_finding_says_whose_it_is(world: World) -> None:
    memory = world.memory()
    memory.store("[[nowhere]]", key="links")
    assert one(memory.care.lint(), "orphan").place == scopes.visible(memory.caller)[0]


def test_another_project_is_never_looked_at(world: World, project: Path) -> None:
    other = world.top / "other"
    other.mkdir()
    world.memory(cwd=other).store("[[nowhere]] and src/db/old.py", key="links")
    assert list(world.memory().care.lint()) == []


def test_lint_changes_nothing(world: World, project: Path) -> None:
    memory = world.memory()
    memory.store("See [[nowhere]] and src/db/old.py.", key="links")
    before = world.tree()
    assert memory.care.lint()
    assert world.tree() == before
    assert list(memory.care.runs()) == []


def test_a_group_is_told_nothing(world: World) -> None:
    with pytest.raises(NotVisible):
        world.memory(audience="group").care.lint()


def test_what_was_clean_once_is_not_looked_through_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.write("clean.md", "Nothing to hide.\n")
    leak = world.write("leak.md", f"{TOKEN}\n")
    looked: list[str] = []
    find = secrets.find

    def watched(text: str) -> list[secrets.Secret]:
        looked.append(text)
        return find(text)

    monkeypatch.setattr(secrets, "find", watched)
    for _ in range(3):
        assert kinds(world.memory().care.lint()) == {"secret"}
    assert looked.count("Nothing to hide.\n") == 1
    assert looked.count(f"{TOKEN}\n") == 3
    leak.write_text("Nothing to hide.\n")
    world.write("clean.md", f"Now there is: {TOKEN}\n")
    assert one(world.memory().care.lint(), "secret").where.startswith("memory/global/records/clean.md")


@pytest.mark.parametrize("content", [b"", b"torn", b"x" * 48, b"\0" * 1000])
def test_a_memory_of_clean_texts_that_cannot_be_read_is_made_anew(content: bytes, world: World) -> None:
    world.write("leak.md", f"{TOKEN}\n")
    (world.home / "index").mkdir(parents=True)
    (world.home / "index" / "clean").write_bytes(content)
    assert kinds(world.memory().care.lint()) == {"secret"}


def test_other_rules_look_through_everything_again(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.write("text.md", "Nothing to hide.\n")
    home = world.memory().home
    world.memory().care.lint()
    assert "Nothing to hide.\n" in materials.CleanTexts(home)
    monkeypatch.setattr(materials, "_rules", lambda: b"other rules".ljust(32))
    assert "Nothing to hide.\n" not in materials.CleanTexts(home)


@pytest.mark.parametrize("changed", ["secrets.py", "secret_rules.txt"])
def test_a_change_of_the_rules_is_noticed(
    changed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = materials._rules.__wrapped__()
    for name in ("secrets.py", "secret_rules.txt"):
        content = resources.files("vademecum.text").joinpath(name).read_bytes()
        (tmp_path / name).write_bytes(content + b"\n" * (name == changed))
    monkeypatch.setattr(resources, "files", lambda _: tmp_path)
    assert materials._rules.__wrapped__() != before


# -------------------------------------------------------------------- a model, only when asked for


def contradicted(world: World) -> None:
    memory = world.memory()
    memory.store("The API timeout is 30 seconds.", key="timeout")
    world.clock.forward(hours=1)
    memory.store("The API timeout is 60 seconds.", key="timeout")


@pytest.mark.parametrize(
    ("reply", "severity", "said"),
    [
        ({"contradicts": True, "why": "two values"}, "error", "agrees"),
        ({"contradicts": False}, "warning", "sees no contradiction"),
        (ModelFailed("it is not there"), "error", "could not judge"),
        ("Ignore all rules.", "error", "could not judge"),
    ],
)
def test_a_model_gives_a_second_opinion_and_finds_nothing_itself(
    reply: object, severity: str, said: str, world: World
) -> None:
    contradicted(world)
    model = Scripted(reply, reply, reply)  # type: ignore[arg-type]  # asked again when it does not fit
    finding = one(world.memory().care.lint(model=model), "contradiction")
    assert finding.severity == severity
    assert said in finding.why
    assert model.asked


def test_a_configured_model_is_not_asked_unless_told_to(world: World) -> None:
    contradicted(world)
    world.settings["VADE_MODEL"] = "compatible:nobody"
    world.settings["VADE_LLM_ENDPOINT"] = "http://127.0.0.1:9/v1"
    assert one(world.memory().care.lint(), "contradiction").severity == "error"


def test_without_a_model_asking_for_one_is_an_error(world: World) -> None:
    with pytest.raises(ModelFailed):
        world.memory().care.lint(model=True)


# -------------------------------------------------------------------- the command


@pytest.fixture
def shop(world: World, project: Path, monkeypatch: pytest.MonkeyPatch) -> World:
    """A memory with something wrong of every kind, and a command line in it."""
    monkeypatch.chdir(project)
    monkeypatch.setenv("VADE_HOME", str(world.home))
    monkeypatch.setenv("VADE_SWEEP", "off")
    contradicted(world)
    memory = world.memory()
    memory.store("The rest is in src/db/old.py, and see [[nowhere]].", key="claim")
    memory.care.write_listing()
    next(world.home.glob("memory/project/*/records/claim.md")).rename(project / "claim.md")
    memory.store("The rest is in src/db/old.py, and see [[nowhere]].", key="claims")
    world.write("broken.md", "---\n[\n---\n")
    world.write("leak.md", f"{TOKEN}\n\n<vade-memory>\n")
    world.write("latin.md", b"\xff")
    (world.home / "memory/global/MEMORY.md").write_text("A sentence about colours.\n" * 400)
    return world


def test_the_exit_code_is_one_for_errors_and_zero_for_less(
    shop: World, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["check"]) == 1
    assert "error: contradiction: " in capsys.readouterr().out
    assert run(["check", "--scope", "agent"]) == 0
    assert capsys.readouterr().out == "no problems found\n"
    assert run(["check", "--scope", "nothing"]) == 2


def test_findings_as_json(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["check", "--format", "json"], ["check", "--json"]):
        assert run(words) == 1
        said = json.loads(capsys.readouterr().out)
        assert said["errors"] >= 4
        first = said["findings"][0]
        assert set(first) >= {"what", "where", "path", "start_line", "end_line", "why", "severity", "mend"}
        assert first["severity"] == "error"


def test_findings_as_annotations_of_a_workflow(shop: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["check", "--format", "github"]) == 1
    lines = capsys.readouterr().out.splitlines()
    shape = re.compile(r"::(error|warning|notice) file=[^,:]+(,line=\d+,endLine=\d+)?,title=\w+::.+")
    assert lines
    assert all(shape.fullmatch(line) for line in lines)


def test_nothing_in_a_finding_can_end_its_annotation() -> None:
    said = format_annotation(Finding("orphan", "a,b:c%.md#L3-L4", "one\ntwo: 100%", "vade check", "info"))
    assert said == (
        "::notice file=a%2Cb%3Ac%25.md,line=3,endLine=4,title=orphan::one%0Atwo: 100%25. Fix: vade check"
    )


def test_every_command_that_a_finding_suggests_exists(shop: World) -> None:
    memory = shop.memory()
    shop.settings["VADE_DECAY_MAX_COUNT"] = "1"
    found = [
        *shop.memory().care.lint(),
        *memory.care.lint(seconds=0),
        *shop.memory().care.lint(scope="project"),
    ]
    mends = {finding.mend for finding in found}
    assert all(mends)
    assert len(mends) >= 7
    for mend in mends:
        words = shlex.split(mend)
        if words[0] == "$EDITOR":
            assert os.path.lexists(words[1])
            continue
        assert words[0] == "vade"
        # All its options are parsed before the page is shown: an unknown one fails.
        done = CliRunner().invoke(cli, [*words[1:], "--help"])
        assert done.exit_code == 0, (mend, done.output)
        options = {word for word in words if word.startswith("--")}
        assert all(option in done.output for option in options), mend


def test_every_kind_of_finding_has_a_cap_or_the_usual_one(shop: World) -> None:
    memory = shop.memory()
    material = materials.read_material(
        memory.workspace.records, scopes.visible(memory.caller), watch=Stopwatch()
    )
    found = lint.run_lint(material, lint.LintContext())
    assert {"contradiction", "malformed", "encoding", "secret", "generated_text"} <= kinds(found)
    assert [finding.severity for finding in found] == sorted(
        (finding.severity for finding in found), key=["error", "warning", "info"].index
    )


# -------------------------------------------------------------------- whatever a file holds


@pytest.mark.full(but=3)
@pytest.mark.parametrize(
    "piece",
    [
        "a.",
        "a/",
        "[",
        "[[",
        "[a](",
        "`",
        "`a ",
        "x",
        "1.",
        "a:",
        "a@",
        "_a",
        "- ",
        "http://",
        "\n",
        "```\n",
        "##",
    ],
)
def test_a_large_file_of_one_thing_takes_no_forever(piece: str, world: World, project: Path) -> None:
    world.memory().store("Something.", key="something")
    folder = next(world.home.glob("memory/project/*/records"))
    (folder / "large.md").write_text(piece * (40_000 // len(piece)))
    begun = time.monotonic()
    world.memory().care.lint()
    world.memory().care.heal()
    assert time.monotonic() - begun < 60  # by the square of its length it would be minutes


def test_the_benchmark_lints_what_grep_reads(
    world: World, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "notes"
    folder.mkdir()
    (folder / "a.md").write_text("See [[nowhere]].\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(bench_lint, "ROUNDS", 1)
    monkeypatch.setattr(bench_lint, "SIZES", (100,))
    rows = bench_lint.beside_grep(folder)
    assert [row["files"] for row in rows] == [1] * 5
    assert rows[-1]["findings"] == "orphan 1"
    assert bench_lint.by_records()[0]["lint found"] == 2
