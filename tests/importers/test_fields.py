"""What the formats of the other systems can say comes with a record: every field, every time, every link."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from importers import samples
from importers.samples import write
from importers.test_systems import paths, project_id, reasons
from vademecum.text import document, frontmatter

if TYPE_CHECKING:
    from pathlib import Path

    from importers.worlds import Vade


def values(vade: Vade, key: str) -> dict[str, Any]:
    """The frontmatter of a record."""
    text = (vade.home / vade.json("show", key)["path"]).read_text()
    return dict(frontmatter.parse(text).values)


def times(vade: Vade, day: str) -> list[tuple[str | None, str]]:
    """The entries of a day of the global journal: when, and the first line."""
    text = (vade.home / f"memory/global/journal/{day}.md").read_text()
    return [(each.time, each.text.split("\n")[0]) for each in document.parse(text).entries]


def edges(vade: Vade, *words: str) -> set[tuple[str, str, str]]:
    """The edges of the graph."""
    return {(each["from"], each["to"], each["origin"]) for each in vade.json("graph", *words)["edges"]}


# -------------------------------------------------------------------- OpenClaw


@pytest.mark.parametrize(
    ("heading", "time"),
    [
        ("10:30 AM - API Discussion", "10:30:00"),
        ("2:15 PM - Deployment", "14:15:00"),
        ("2:15pm deployment", "14:15:00"),
        ("02:15 p.m. Deployment", "14:15:00"),
        ("12:05 AM Night", "00:05:00"),
        ("12:05 PM Noon", "12:05:00"),
        ("9 pm Wrap-up", "21:00:00"),
        ("14:15 PM Somebody's mistake", "14:15:00"),
        ("14:15:09 Exactly", "14:15:09"),
        ("14:15 UTC", "14:15:00Z"),
        ("2:15 PM UTC", "14:15:00Z"),
        ("14:15 UTC+2 Berlin", "14:15:00+02:00"),
        ("14:15+05:30 Delhi", "14:15:00+05:30"),
        ("9:00-10:00 Stand-up", "09:00:00"),
        ("Version 2:1 won", ""),
        ("The 3 PMs met", ""),
    ],
)
def test_a_heading_of_a_day_tells_the_time_as_a_person_writes_it(
    heading: str, time: str, vade: Vade, tmp_path: Path
) -> None:
    top = write(tmp_path / "ws", {"MEMORY.md": "# M\n", "memory/2026-01-26.md": f"## {heading}\nDone.\n"})
    vade("import", "openclaw", top)
    expected = f"2026-01-26T{time}" if time else "2026-01-26"
    assert times(vade, "2026-01-26") == [(expected, f"## {heading}")]


def test_a_day_in_the_seed_s_own_words_stands_in_its_order(vade: Vade, tmp_path: Path) -> None:
    day = (
        "# 2026-01-26\n\n## 10:30 AM - API Discussion\nREST.\n\n## 2:15 PM - Deployment\nDeployed v2.3.0.\n\n"
        "## User Preference\nUser mentioned they prefer TypeScript.\n"
    )
    vade("import", "openclaw", write(tmp_path / "ws", {"memory/2026-01-26.md": day}))
    assert times(vade, "2026-01-26") == [
        ("2026-01-26T10:30:00", "## 10:30 AM - API Discussion"),
        ("2026-01-26T14:15:00", "## 2:15 PM - Deployment"),
        ("2026-01-26T14:15:00", "## User Preference"),
    ]


def test_what_openclaw_annotates_and_puts_above_a_document_comes_with_it(vade: Vade, tmp_path: Path) -> None:
    top = write(
        tmp_path / "ws",
        {
            "MEMORY.md": (
                "# Long-term\n\n- Tea, not coffee <!-- importance: 8 --> <!-- trigger: tea, drinks -->\n"
                "- The API is in Go <!-- project: example.org/acme/api -->\n"
            ),
            "USER.md": "- Call me Ada | observed: 2026-01-02 | status: active\n",
            "SOUL.md": "---\nsummary: Who the agent is\nread_when: [always]\n---\n# Soul\n\nBe kind.\n",
            "memory/2026-01-27-api-design.md": (
                "# Session: 2026-01-27 14:30:00 UTC\n\n- **Session Key**: agent:main:main\n"
                "- **Session ID**: 0f3a\n- **Source**: telegram\n\n## Summary\n\nWe designed it.\n"
            ),
            "memory/research/wal.md": "---\ntags: [sqlite]\nimportance: 7\n---\n# WAL\n\nReaders run on.\n",
        },
    )
    vade("import", "openclaw", top)
    memory = (vade.home / "memory/global/MEMORY.md").read_text()
    for said in ("<!-- importance: 8 -->", "trigger: tea, drinks", "project: example.org/acme/api"):
        assert said in memory
    assert "observed: 2026-01-02 | status: active" in (vade.home / "memory/global/profile.md").read_text()
    context = frontmatter.parse((vade.home / "memory/global/context.md").read_text()).values
    (source,) = context["sources"]
    assert source["front"] == {"summary": "Who the agent is", "read_when": ["always"]}
    text = (vade.home / "memory/global/journal/2026-01-27-api-design.md").read_text()
    first = document.parse(text).entries[0]
    assert first.time == "2026-01-27T14:30:00Z"
    for said in ("agent:main:main", "0f3a", "telegram"):
        assert said in first.text
    assert values(vade, "research-wal")["importance"] == 7


# -------------------------------------------------------------------- co-cli


CO_CLI = """\
---
id: 7
created: '2026-02-09T14:30:00+00:00'
updated: '2026-02-11T08:00:00+00:00'
tags: [preference, python]
source: user-told
auto_category: preference
decay_protected: true
related: [001-other]
consolidation_reason: merged with 5
---
Prefers async.
"""
CO_CLI_LATER = """\
---
id: 0b8f9a4e-6a1e-4c58-9d6e-1c1f3a5b7d90
memory_kind: article
title: On retries
created_at: 2026-06-01T10:00:00Z
updated_at: 2026-06-03T11:00:00Z
description: How retries are done
related: [other]
source_type: web_fetch
source_ref: https://example.org/retries
decay_protected: false
recall_count: 4
last_recalled_at: 2026-06-05T00:00:00Z
recall_days: ['2026-06-04', '2026-06-05']
---
Retry three times.
"""


def test_every_field_of_a_co_cli_memory_comes_with_it(vade: Vade, tmp_path: Path) -> None:
    folder = ".co-cli/knowledge/memories"
    top = write(
        tmp_path / "co",
        {
            f"{folder}/007-prefers-async.md": CO_CLI,
            f"{folder}/on-retries-0b8f9a4e.md": CO_CLI_LATER,
            f"{folder}/008-odd.md": "---\nid: 8\nsource: auto_decay\nauto_category: research\n---\nOdd.\n",
            ".co-cli/knowledge/context.md": "---\nversion: 3\nupdated: 2026-02-01T00:00:00Z\n---\nText.\n",
        },
    )
    vade("import", "co-cli", top)
    mine = values(vade, "prefers-async")
    assert mine["claims"] == {"source": "user-told", "protected": True}
    assert mine["consolidation_reason"] == "merged with 5"
    assert (mine.get("protected"), mine["category"], mine["tags"]) == (
        None,
        "preference",
        ["preference", "python"],
    )
    assert mine["related"] == [{"key": "other", "rel": "relates_to"}]
    assert mine["sources"] == [{"resource": "co-cli:memories/007-prefers-async.md", "id": "7"}]
    assert (mine["created"], mine["updated"]) == ("2026-02-09T14:30:00Z", "2026-02-11T08:00:00Z")
    later = values(vade, "on-retries")
    assert (later["created"], later["updated"]) == ("2026-06-01T10:00:00Z", "2026-06-03T11:00:00Z")
    assert vade.entries("on-retries")[0][0] == "2026-06-03T11:00:00Z"
    for name, value in {
        "title": "On retries",
        "memory_kind": "article",
        "description": "How retries are done",
        "source_type": "web_fetch",
        "source_ref": "https://example.org/retries",
        "recall_count": 4,
        "recall_days": ["2026-06-04", "2026-06-05"],
        "last_recalled_at": "2026-06-05T00:00:00Z",
        "id": "0b8f9a4e-6a1e-4c58-9d6e-1c1f3a5b7d90",
    }.items():
        assert later[name] == value
    odd = values(vade, "odd")
    assert (odd["claims"], odd["auto_category"]) == ({"source": "auto_decay"}, "research")
    own = f"memory/project/{project_id(vade)}/context.md"
    context = frontmatter.parse((vade.home / own).read_text()).values
    assert context["sources"][0]["front"] == {"version": 3, "updated": "2026-02-01T00:00:00Z"}


# -------------------------------------------------------------------- Claude Code


def test_a_rule_for_some_paths_stays_one_for_these_paths(vade: Vade, tmp_path: Path) -> None:
    top = write(
        tmp_path / "repo",
        {
            "CLAUDE.md": "# Commands\n\nRun make test.\n",
            ".claude/rules/api.md": '---\npaths:\n  - "src/api/**"\n  - "lib/**/*.ts"\n---\n# API\n\nThin.\n',
            ".claude/rules/front.md": "---\npaths: web/**\n---\nTwo spaces.\n",
            ".claude/rules/deep/style.md": "---\ndescription: how we write\n---\n# Style\n\nBe brief.\n",
        },
    )
    report = vade.json("import", "claude-code", top)
    context = (vade.home / paths(report)["CLAUDE.md"]).read_text()
    assert "Thin." not in context
    assert "Two spaces." not in context
    rules = {each["path_prefix"]: each for each in vade.json("knowledge", "list")["lessons"]}
    assert set(rules) == {"src/api/**, lib/**/*.ts", "web/**"}
    api = (vade.home / paths(report)[".claude/rules/api.md"]).read_text()
    front = frontmatter.parse(api).values
    assert (front["type"], front["paths"]) == ("rule", ["src/api/**", "lib/**/*.ts"])
    assert "Thin." in api
    assert "Be brief." in context
    front = frontmatter.parse(context).values
    told = {each["resource"]: each.get("front") for each in front["sources"]}
    assert told["claude-code:rules/deep/style.md"] == {"description": "how we write"}


def test_a_note_of_claude_keeps_every_field_and_a_listing_that_says_more_is_kept(
    vade: Vade, tmp_path: Path
) -> None:
    from importers.test_systems import folder_name

    notes = f".claude/projects/{folder_name(vade)}/memory"
    top = write(
        tmp_path,
        {
            f"{notes}/build.md": (
                "---\nname: build-needs-node\ndescription: how to build\nmetadata:\n  type: project\n"
                "  node_type: memory\n  originSessionId: 5e1f\n---\nSee [style](style.md) and [[no-mocks]].\n"
            ),
            f"{notes}/style.md": "---\nname: style\ntype: feedback\n---\nBe brief.\n",
            f"{notes}/no-mocks.md": "Never mock the database.\n",
            f"{notes}/MEMORY.md": "# Memory\n\n- [Gone](gone.md) - the port is 8123\n",
        },
    )
    report = vade.json("import", "claude-code", top / ".claude")
    front = values(vade, "build-needs-node")
    assert front["description"] == "how to build"
    assert front["metadata"] == {"type": "project", "node_type": "memory", "originSessionId": "5e1f"}
    assert values(vade, "style")["type"] == "feedback"
    assert edges(vade) >= {
        ("build-needs-node", "style", "link"),
        ("build-needs-node", "no-mocks", "wiki"),
    }
    assert "the port is 8123" in (vade.home / paths(report)["memory/MEMORY.md"]).read_text()


# -------------------------------------------------------------------- CLIO


LTM: dict[str, Any] = {
    "patterns": {
        "discoveries": [
            {
                "fact": "YAML, not JSON",
                "confidence": 0.9,
                "verified": True,
                "timestamp": 1767225600,
                "updated": 1769904000,
                "tier": "trusted",
                "corroborations": ["main:s1"],
                "search_count": 3,
            }
        ],
        "problem_solutions": [
            {
                "error": "Denied",
                "solution": "chown",
                "solved_count": 3,
                "examples": ["a.pm"],
                "timestamp": 1767225600,
                "updated": 1767225600,
            }
        ],
        "code_patterns": [
            {
                "pattern": "Use Carp",
                "confidence": 0.7,
                "examples": ["b.pm"],
                "timestamp": 1767225600,
                "updated": 1767225600,
            }
        ],
        "workflows": [
            {
                "sequence": ["edit", "test"],
                "count": 4,
                "success_rate": 0.75,
                "timestamp": 1767225600,
                "updated": 1767225600,
            }
        ],
        "failures": [
            {
                "what": "Pushed broken",
                "impact": "Red main",
                "prevention": "Run tests",
                "occurrences": 2,
                "timestamp": 1767225600,
                "updated": 1767225600,
            }
        ],
        "context_rules": {"lib/": ["No prints"], "t/": ["Use Test::More", "Plan tests"]},
    },
    "metadata": {"created": 1767225600, "last_updated": 1769904000, "version": "1.0", "project": "x"},
}


def test_every_field_of_an_ltm_json_comes_back_out(vade: Vade, tmp_path: Path) -> None:
    vade("import", "clio", write(tmp_path / "clio", {".clio/ltm.json": json.dumps(LTM)}))
    vade("export", "ltm", tmp_path / "out.json")
    assert json.loads((tmp_path / "out.json").read_text()) == LTM


@pytest.mark.parametrize(
    "content",
    [
        '{"metadata": {"version": "1.0", "created": 1767225600}}',
        "{}",
        '{"patterns": {}}',
        json.dumps({"a": [1]}),
    ],
)
def test_an_ltm_json_in_which_nothing_was_learned_leaves_nothing_behind(
    content: str, vade: Vade, tmp_path: Path
) -> None:
    report = vade.json("import", "clio", write(tmp_path / "clio", {".clio/ltm.json": content}))
    assert report["counts"].get("record", 0) == 0
    assert "no lessons" in reasons(report)[".clio/ltm.json"]
    assert vade.records() == []


def test_a_note_of_clio_keeps_what_stands_beside_its_content(vade: Vade, tmp_path: Path) -> None:
    note = {"key": "auth", "content": "Look at eval", "timestamp": 1767311999, "tags": ["bug"], "by": "main"}
    vade("import", "clio", write(tmp_path / "clio", {".clio/memory/auth.json": json.dumps(note)}))
    front = values(vade, "auth")
    assert (front["tags"], front["note"]) == (["bug"], {"by": "main"})
    assert vade.entries("auth")[0][0] == "2026-01-01T23:59:59Z"


# -------------------------------------------------------------------- CAO


def test_a_topic_of_cao_keeps_its_header_and_what_was_added_after_see_also(
    vade: Vade, tmp_path: Path
) -> None:
    text = (
        "# auth\n<!-- id: a7 | scope: project | type: insight | tags: a,b | origin: human -->\n\n"
        "## 2026-06-01T00:00:00Z\nSessions end after an hour.\n\n"
        "## See Also\n- [rota](../project/rota.md)\n\n## 2026-06-02T00:00:00Z\nTokens too.\n"
    )
    said = (
        "# rota\n<!-- id: r1 | scope: project | type: project | tags:  -->\n\n## 2026-06-01T00:00:00Z\n"
        "Ada.\n\n"
        "## See Also\n- [auth](auth.md)\n- the paper list in the kitchen\n"
    )
    wiki = f"{project_id(vade)}/wiki/project"
    vade("import", "cao", write(tmp_path / "cao", {f"{wiki}/auth.md": text, f"{wiki}/rota.md": said}))
    assert [(time, words) for time, words, _ in vade.entries("auth")] == [
        ("2026-06-01T00:00:00Z", "Sessions end after an hour."),
        ("2026-06-02T00:00:00Z", "Tokens too."),
    ]
    front = values(vade, "auth")
    assert (front["type"], front["tags"]) == ("project", ["a", "b"])
    assert front["claims"] == {"type": "insight", "origin": "human"}
    assert front["sources"] == [{"resource": "cao:project/auth.md", "id": "a7"}]
    assert "the paper list in the kitchen" in vade.entries("rota")[0][1]
    assert edges(vade) >= {("auth", "rota", "frontmatter"), ("rota", "auth", "frontmatter")}


# -------------------------------------------------------------------- the Open Knowledge Format


def test_links_between_the_files_of_a_bundle_are_edges(vade: Vade, tmp_path: Path) -> None:
    top = write(
        tmp_path / "bundle",
        {
            "tables/orders.md": (
                "---\ntype: Table\n---\n"
                "See [customers](/tables/customers.md#key),\n[the plan](../plan%20b.md),\n"
                "[gone](/tables/gone.md), [a site](https://example.org/x.md) and `[not](customers.md)`.\n"
            ),
            "tables/customers.md": (
                "---\ntype: Table\n---\nBack to [orders](orders.md). [[Plan B]] and [[orders]].\n"
            ),
            "plan b.md": '---\ntype: Plan\n---\nUses [customers](tables/customers.md "title").\n',
            "other/customers.md": "---\ntype: Table\n---\nOthers.\n",
        },
    )
    vade("import", "okf", top)
    assert edges(vade) == {
        ("tables-orders", "tables-customers", "link"),
        ("tables-orders", "plan-b", "link"),
        ("tables-customers", "tables-orders", "link"),
        ("tables-customers", "plan-b", "wiki"),
        ("plan-b", "tables-customers", "link"),
    }
    also = vade("show", "tables-orders")
    assert "tables-customers" in also
    assert [each["wanted"] for each in vade.json("graph")["broken"]] == []


def test_what_a_bundle_says_beside_its_records_comes_too(vade: Vade, tmp_path: Path) -> None:
    top = write(
        tmp_path / "bundle",
        {
            "index.md": "# Shop\n\nPrices are in cents everywhere.\n\n* [Orders](orders.md) - all orders\n",
            "sub/index.md": "# Sub\n\n* [Orders](../orders.md) - all orders\n",
            "log.md": (
                "# Log\n\nKept by Ada.\n\n## 2026-05-02 Release\n* Added orders\n\n## 2026-05-01\n* Began\n"
            ),
            "orders.md": (
                "---\ntype: Table\ntitle: Orders\ndescription: All.\nresource: bq://orders\ntags: [a]\n"
                "status: stable\nsources: [{resource: 'https://example.org'}]\nstale_after: 2027-01-01\n"
                "scope: galaxy\nx-owner: {team: sales}\n---\nRows.\n"
            ),
        },
    )
    report = vade.json("import", "okf", top)
    front = values(vade, "orders")
    assert front["type"] == "Table"
    assert front["resource"] == "bq://orders"
    assert (front["description"], front["status"], front["stale_after"]) == ("All.", "stable", "2027-01-01")
    assert front["x-owner"] == {"team": "sales"}
    assert front["claims"] == {"scope": "galaxy"}
    assert front["sources"][0] == {"resource": "https://example.org"}
    assert "Prices are in cents everywhere." in vade.entries("bundle-index")[0][1]
    assert "sub/index.md" not in paths(report)
    days = f"memory/project/{project_id(vade)}/journal"
    assert "Release" in (vade.home / days / "2026-05-02.md").read_text()
    assert "Kept by Ada." in vade("search", "who is it kept by, Ada")


# -------------------------------------------------------------------- codex


def test_every_part_of_codex_memories_comes_with_its_times(vade: Vade, tmp_path: Path) -> None:
    top = samples.codex(tmp_path / ".codex")
    vade("import", "codex", top)
    assert "scope: acme" in vade.entries("release-pipeline")[0][1]
    assert [time for time, _, _ in vade.entries("codex-raw-memories")] == [
        "2026-02-01T10:00:00Z",
        "2026-03-01T10:00:00Z",
    ]
    day = times(vade, "2026-03-01-codex")
    assert day == [("2026-03-01T10:00:00Z", "thread_id: 1")]


# -------------------------------------------------------------------- after an import


# -------------------------------------------------------------------- basic-memory


def test_a_note_of_basic_memory_keeps_its_text_keys_tags_and_relations(vade: Vade, tmp_path: Path) -> None:
    vade("import", "basic-memory", samples.basic_memory(tmp_path / "notes"))
    assert vade.code == 0, vade.err
    record = vade.json("show", "specs-authentication-design")
    assert (record["title"], record["type"]) == ("Authentication Design", "note")
    assert record["tags"] == ["auth", "security", "stateless"]
    ((time, text, origin),) = vade.entries("specs-authentication-design")
    assert (time, origin) == ("2026-03-01T10:00:00Z", "import")
    original = (tmp_path / "notes/specs/Authentication Design.md").read_text().partition("Design\n\n")[2]
    assert text.strip() == original.strip()
    kept = values(vade, "specs-authentication-design")
    assert (kept["permalink"], kept["status"]) == ("specs/authentication-design", "active")
    assert kept["observed"] == ["decision", "limit"]
    assert kept["related"] == [
        {"key": "api-security", "rel": "relates_to", "type": "implements", "context": "since May"},
        {"key": "old-login", "rel": "supersedes"},
        {"key": "session-store", "rel": "relates_to"},
    ]


def test_notes_of_basic_memory_are_linked_by_title_and_permalink(vade: Vade, tmp_path: Path) -> None:
    vade("import", "basic-memory", samples.basic_memory(tmp_path / "notes"))
    assert {each[:2] for each in edges(vade)} == {
        ("specs-authentication-design", "specs-api"),
        ("specs-authentication-design", "specs-old-login"),
        ("specs-api", "specs-authentication-design"),
    }
    assert vade.json("show", "authentication-design")["title"] == "Authentication Design"


def test_the_first_search_after_an_import_answers_from_all_of_it(vade: Vade, tmp_path: Path) -> None:
    notes = {
        f"note-{number:03}.md": f"---\ntype: project\n---\nThe {word} valve opens at {number} bar.\n"
        for number, word in enumerate(["brass", "copper", "zinc", "iron"] * 60)
    }
    vade.home.mkdir(exist_ok=True)
    (vade.home / "config.toml").write_text("limits.open = 0.001\n")  # what a search may spend on indexing
    vade("import", "okf", write(tmp_path / "bundle", notes))
    assert vade.code == 0, vade.err
    found = vade.json("search", "which valve opens at 239 bar")
    assert found["coverage"]["pending"] == 0
    assert found["coverage"]["indexed"] == 240
    assert not [each for each in found["degraded"] if "not indexed" in each or "vectors" in each]


def test_an_import_that_cannot_be_indexed_is_an_import_all_the_same(vade: Vade, tmp_path: Path) -> None:
    (vade.home / "index").parent.mkdir(exist_ok=True)
    (vade.home / "index").write_text("no folder")
    report = vade.json("import", "okf", samples.okf(tmp_path / "bundle"))
    assert report["counts"]["record"] == 2


def test_undoing_an_import_says_how_far_it_is(vade: Vade, tmp_path: Path) -> None:
    from vademecum.memory import connect
    from vademecum.types import Origin

    report = vade.json("import", "okf", samples.okf(tmp_path / "bundle"))
    memory = connect(home=vade.home, cwd=vade.project, origin=Origin.USER)
    steps: list[tuple[str, int, int]] = []
    memory.care.undo(report["run"], progress=lambda *step: steps.append(step))
    assert steps == [("undo", done, 4) for done in range(4)]
