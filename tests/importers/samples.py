"""Small folders as the other systems write them, each a realistic one."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TOPIC = """\
# testing-framework
<!-- id: 7b1c0a52-55aa-4c7e-8a11-0d2f0a9c1e01 | scope: project | type: feedback | tags: testing,pytest -->

## 2026-04-16T10:30:00Z
Use unittest for new tests.

## 2026-05-02T08:00:00Z
Always use pytest for testing in this project. Do not use unittest.
"""


def write(top: Path, files: dict[str, str]) -> Path:
    """Write these files below a folder."""
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return top


def cao(top: Path, project: str) -> Path:
    """A wiki with every scope, a listing, a late entry, and the topics of another project and agent."""
    return write(
        top,
        {
            f"{project}/wiki/index.md": "# CAO Memory Index\n<!-- Updated: 2026-07-01T09:00:00Z -->\n",
            f"{project}/wiki/project/testing-framework.md": TOPIC,
            f"{project}/wiki/project/auth.md": (
                "# auth\n<!-- id: a7 | scope: project | type: project | tags: security -->\n\n"
                "## 2026-06-01T00:00:00Z\n_Originally recorded: 2026-01-02T03:04:05Z_\n"
                "Sessions end after an hour.\n\n## See Also\n- [testing-framework](testing-framework.md)\n"
            ),
            "0123456789ab/wiki/project/elsewhere.md": (
                "# elsewhere\n<!-- id: e1 | scope: project | type: project | tags:  -->\n\n"
                "## 2026-07-01T09:00:00Z\nAnother project's own.\n"
            ),
            "global/wiki/index.md": "# CAO Memory Index\n",
            "global/wiki/global/answer-style.md": (
                "# answer-style\n<!-- id: g1 | scope: global | type: user | tags: style -->\n\n"
                "## 2026-07-01T09:00:00Z\nUser prefers concise answers.\n"
            ),
            "global/wiki/session/refactor-auth/review-notes.md": (
                "# review-notes\n<!-- id: s1 | scope: session | type: project | tags: style -->\n\n"
                "## 2026-07-01T09:00:00Z\nFor this session only: skip nits.\n"
            ),
            "global/wiki/agent/main/checklist.md": (
                "# checklist\n<!-- id: a1 | scope: agent | type: project | tags: style -->\n\n"
                "## 2026-07-01T09:00:00Z\nCheck error handling before naming.\n"
            ),
            "global/wiki/agent/reviewer/checklist.md": (
                "# checklist\n<!-- id: a2 | scope: agent | type: project | tags: style -->\n\n"
                "## 2026-07-01T09:00:00Z\nAs the reviewer, check tests.\n"
            ),
            "federated/wiki/federated/internal-pypi.md": (
                "# internal-pypi\n<!-- id: f1 | scope: federated | type: reference | tags: pkgs -->\n\n"
                "## 2026-07-01T09:00:00Z\nThe package index is at http://pkgs.corp.local/simple\n"
            ),
        },
    )


def clio(top: Path) -> Path:
    """A project with everything CLIO keeps in it, and some notes it cannot mean."""
    ltm = {
        "patterns": {
            "discoveries": [
                {
                    "fact": "Config uses YAML, not JSON",
                    "confidence": 0.9,
                    "verified": 1,
                    "timestamp": 1767225600,
                    "updated": 1769904000,
                }
            ],
            "problem_solutions": [
                {
                    "error": "Session save fails with permission denied",
                    "solution": "Check who owns .clio/",
                    "solved_count": 3,
                    "examples": ["lib/CLIO/Session/State.pm"],
                    "timestamp": 1767225600,
                    "updated": 1767225600,
                }
            ],
            "code_patterns": [],
            "workflows": [],
            "failures": [],
            "context_rules": {"lib/": ["No prints"]},
        },
        "metadata": {"created": 1767225600, "last_updated": 1769904000, "version": "1.0"},
    }
    session = {
        "session_name": "Token refresh",
        "working_directory": "",
        "created_at": 1767225600,
        "history": [
            {"role": "user", "content": "Why does the token refresh lose its result?"},
            {"role": "assistant", "content": "It returns inside an eval."},
        ],
        "stm": {},
        "yarn": {},
    }
    return write(
        top,
        {
            ".clio/ltm.json": json.dumps(ltm),
            ".clio/memory/auth_bug_analysis.json": json.dumps(
                {
                    "key": "auth_bug_analysis",
                    "content": "Root cause: token refresh uses return inside eval",
                    "timestamp": 1767311999,
                }
            ),
            ".clio/memory/table.json": json.dumps({"key": "table", "content": {"b": 2, "a": [1]}}),
            ".clio/memory/broken.json": "{nope",
            ".clio/memory/empty.json": json.dumps({"key": "empty"}),
            ".clio/memory/session_progress.md": "# Progress\n\nIteration 12, tests are green.\n",
            ".clio/profile.md": "Prefers short answers and British spelling.\n",
            ".clio/sessions/7f3a.json": json.dumps(session),
            "package.json": "{}",
        },
    )


def openclaw(top: Path) -> Path:
    """A workspace with documents, days and notes."""
    return write(
        top,
        {
            "SOUL.md": (
                "# SOUL.md - Who You Are\n\nBe genuinely helpful.\n\n"
                "## Boundaries\n\nPrivate stays private.\n"
            ),
            "AGENTS.md": "# AGENTS.md\n\nRead SOUL.md first.\n\n```bash\n# run the checks\nmake test\n```\n",
            "TOOLS.md": "# Tools\n\n- camera: front door\n",
            "IDENTITY.md": "- Name: Clawd\n",
            "USER.md": "# USER.md\n\n- Name: Ada\n- Timezone: Europe/Zurich\n",
            "MEMORY.md": (
                "# Long-term memory\n\n## Preferences\n- Tea, not coffee\n\n"
                "## People\n- Grace is the manager\n"
            ),
            "HEARTBEAT.md": "Check mail.\n",
            "README.md": "A workspace.\n",
            "memory/2026-01-26.md": (
                "# 2026-01-26\n\nWoke up.\n\n## 10:30 - API discussion\nChose REST over GraphQL.\n\n"
                "## Later\nNo time named.\n\n## 18:05 UTC Evening\nDeployed.\n"
            ),
            "memory/2026-01-27-api-design.md": "# Session: 2026-01-27\n\nWe designed the API.\n",
            "memory/research/sqlite-wal.md": "# SQLite WAL\n\nReaders never block the writer.\n",
            "skills/weather/SKILL.md": "---\nname: weather\n---\nAsk the sky.\n",
        },
    )


def co_cli(top: Path) -> Path:
    """A project's memories: protected, consolidated, malformed, and one without frontmatter."""
    return write(
        top,
        {
            ".co-cli/knowledge/context.md": (
                "---\nversion: 1\nupdated: 2026-02-01T00:00:00Z\n---\n# Project\n\nA FastAPI service.\n"
            ),
            ".co-cli/knowledge/memories/001-user-prefers-async.md": (
                "---\nid: 1\ncreated: '2026-02-09T14:30:00+00:00'\nupdated: '2026-02-11T08:00:00+00:00'\n"
                "tags: [preference, python]\nsource: detected\nauto_category: preference\n"
                "decay_protected: true\nmood: sunny  # nobody knows this key\n---\n\n"
                "User prefers async/await.\n"
            ),
            ".co-cli/knowledge/memories/002-team-of-five.md": (
                "---\nid: 2\ncreated: 2026-02-10T09:00:00Z\ntags: context, team\nsource: detected\n"
                "related: [001-user-prefers-async]\n---\nThe team has five people.\n"
            ),
            ".co-cli/knowledge/memories/003-broken.md": "---\ntags: [unclosed\n---\nText.\n",
            ".co-cli/knowledge/memories/004-bare.md": "Just a line.\n",
        },
    )


def claude_home(top: Path, folder: str) -> Path:
    """A person's `.claude` with notes of two projects."""
    return write(
        top,
        {
            "CLAUDE.md": "# My rules\n\nAnswer in English.\n",
            f"projects/{folder}/memory/MEMORY.md": "# Memory\n\n- [Build](build.md) - how to build\n",
            f"projects/{folder}/memory/build.md": (
                "---\nname: build-needs-node-22\ndescription: how to build\nmetadata:\n  type: project\n"
                "---\n\nThe build needs Node 22.\n"
            ),
            f"projects/{folder}/memory/no-mocks.md": (
                "---\nname: No mocks\ndescription: a correction\ntype: feedback\n---\n\n"
                "Never mock the database.\n"
            ),
            "projects/-somewhere-else/memory/secret-plan.md": "Another project's own.\n",
            "settings.json": "{}",
        },
    )


def claude_project(top: Path) -> Path:
    """A repository with instructions at its root and below, and a block that a memory wrote."""
    return write(
        top,
        {
            "CLAUDE.md": (
                "# Commands\n\nRun make test.\n\n"
                "<!-- vade:memory -->\nwhat memory said\n<!-- /vade:memory -->\n"
            ),
            ".claude/rules/style.md": "# Style\n\nTwo spaces.\n",
            "src/api/CLAUDE.md": "# API\n\nHandlers are thin.\n",
        },
    )


def codex(top: Path) -> Path:
    """A person's `.codex` with instructions and memories."""
    return write(
        top,
        {
            "AGENTS.md": "# Working agreements\n\nRun the linter.\n",
            "memories/memory_summary.md": "## User Profile\n\nWorks on compilers.\n",
            "memories/MEMORY.md": (
                "# Task Group: release pipeline\n\nscope: acme\n\n- tag first, then publish\n\n"
                "# Task Group: flaky tests\n\n- seed the clock\n"
            ),
            "memories/raw_memories.md": (
                "# Raw Memories\n\n## Thread `1`\nupdated_at: 2026-03-01T10:00:00Z\n\n"
                "Tagging first worked.\n\n"
                "## Thread `2`\nupdated_at: 2026-02-01T10:00:00Z\n\nThe clock was not seeded.\n"
            ),
            "memories/rollout_summaries/2026-03-01T10-00-00-aa-release.md": (
                "thread_id: 1\nupdated_at: 2026-03-01T10:00:00+00:00\n\nReleased 1.2.\n"
            ),
            "memories/skills/release/SKILL.md": "---\nname: release\n---\nTag, build, publish.\n",
        },
    )


def okf(top: Path) -> Path:
    """A bundle somebody else made."""
    return write(
        top,
        {
            "index.md": '---\nokf_version: "0.2"\n---\n# Shop\n\n* [Orders](tables/orders.md) - all orders\n',
            "log.md": "# Log\n\n## 2026-05-02\n* Added orders\n\n## 2026-05-01\n* Began\n",
            "tables/orders.md": (
                "---\ntype: BigQuery Table\ntitle: Orders\ndescription: All orders.\n"
                "resource: bq://shop.orders\ntags: [sales,   raw]   # as they came\n"
                "generated: {by: producer/1.0, at: 2026-05-01T00:00:00Z}\n"
                "verified: {by: human:grace, at: 2026-05-02}\nx-owner:\n  team: 'sales'\n---\n"
                "# Orders table\n\nOne row an order; see [customers](/tables/customers.md).\n"
            ),
            "tables/customers.md": (
                "---\ntype: BigQuery Table\ntimestamp: 2026-04-01T00:00:00Z\n---\nCustomers.\n"
            ),
            "bad.md": "---\ntype: [\n---\nText.\n",
        },
    )


def basic_memory(top: Path) -> Path:
    """A project of basic-memory: notes with observations, relations and keys of their own."""
    return write(
        top,
        {
            "specs/Authentication Design.md": (
                "---\ntitle: Authentication Design\ntype: note\ntags: [auth, security]\n"
                "permalink: specs/authentication-design\nstatus: active  # nobody here knows this key\n"
                "created: 2026-03-01T10:00:00Z\n---\n# Authentication Design\n\nTokens, and why.\n\n"
                "## Observations\n- [decision] Sessions use JWT tokens #stateless (after the outage)\n"
                "- [limit] Tokens expire after 15 minutes\n- [ ] ask the auditors #later\n\n"
                "```\n- [sample] no observation #coded\n- breaks [[Nothing]]\n```\n\n"
                "## Relations\n- implements [[API Security]] (since May)\n- supersedes [[specs/old-login]]\n"
                "- [[Session Store|the store]]\n"
            ),
            "specs/api.md": (
                "---\ntitle: API Security\ntype: requirement\npermalink: specs/api\n---\n"
                "Everything behind TLS; see [[Authentication Design]].\n"
            ),
            "specs/old-login.md": "# Old login\n\nPasswords in a table.\n",
            "bad.md": "---\ntitle: [\n---\nText.\n",
        },
    )


def obsidian(top: Path) -> Path:
    """A vault: properties, tags, links, embeds, daily notes of two formats, and all that is no note."""
    write(
        top,
        {
            ".obsidian/app.json": "{}",
            ".obsidian/daily-notes.json": json.dumps({"folder": "Journal", "format": "YYYY/MM-MMMM/DD ddd"}),
            ".obsidian/templates.json": json.dumps({"folder": "Templates"}),
            ".obsidian/plugins/x/README.md": "A plugin.\n",
            ".trash/Gone.md": "Deleted.\n",
            "Keys.md": (
                "---\naliases: [Key rotation, Schlüsseltausch]\ntags:\n  - security\n  - '#ops/oncall'\n"
                "up: '[[Runbooks|all of them]]'\nsource: https://example.org/keys\ncreated: 2026-03-01\n"
                "rating: 4  # out of five\n---\n# How keys rotate\n\nEvery March #keys/rotation, see "
                "[[Hosts#Staging|the hosts]] and [the plan](Projects/The%20Plan.md). Issue #12 is no tag, "
                "nor is https://x.org/#anchor.\n\n![[Scheme.png|300]] ![[Runbooks]]\n\n"
                "```\n#coded [[Nothing]]\n```\n"
            ),
            "Hosts.md": "Twelve of them. `#inline` is code. Opened on [[2026-03-02]].\n",
            "Runbooks.md": "---\nrelated:\n  - [[Keys]]\n---\nEverything for a bad night.\n",
            "Projects/The Plan.md": "Ship in May; then [[Projects/Log]].\n",
            "Projects/Log.md": "- done #ops\n",
            "Archive/Log.md": "- older\n",
            "Journal/2026/03-March/02 Mon.md": (
                "---\nmood: 4\n---\nSlept well.\n\n## 14:15 Call\nWith [[Hosts]] down.\n"
            ),
            "2026-03-05.md": "# 2026-03-05\n\nA quiet day.\n",
            "Templates/Daily.md": "# {{date}}\n",
            "Board.canvas": '{"nodes": []}',
            "Sketch.excalidraw.md": "---\nexcalidraw-plugin: parsed\n---\n%%\n",
            "Books.base": "views: []\n",
            "Bad.md": "---\ntitle: [\n---\nText.\n",
            "Only.md": "---\nrating: 3\n---\n",
        },
    )
    (top / "assets").mkdir()
    (top / "assets/Scheme.png").write_bytes(b"\x89PNG\r\n\x1a\n")
    return top


def gpt(id: str, parent: str | None, message: dict[str, Any] | None, *children: str) -> dict[str, Any]:
    """A node of a conversation of ChatGPT."""
    return {"id": id, "message": message and {"id": id, **message}, "parent": parent, "children": [*children]}


def gpt_said(role: str, content: object, at: float, **more: Any) -> dict[str, Any]:
    """A message of ChatGPT's export; words are its `text`."""
    content = {"content_type": "text", "parts": [content]} if isinstance(content, str) else content
    author = {"role": role, "name": more.pop("name", None), "metadata": {}}
    metadata = {"model_slug": "gpt-x"} if role == "assistant" else {}
    return {
        "author": author,
        "create_time": at,
        "update_time": None,
        "content": content,
        "status": "finished_successfully",
        "weight": 1.0,
        "metadata": {**metadata, **more.pop("metadata", {})},
        "recipient": "all",
        **more,
    }


def gpt_conversation() -> dict[str, Any]:
    """A tree with a branch that was left, a tool, thoughts, a picture, memories and custom instructions."""
    hidden = {"is_visually_hidden_from_conversation": True}
    context = {
        "content_type": "user_editable_context",
        "user_profile": "I live in Zurich.",
        "user_instructions": "Answer briefly.",
    }
    remembered = {
        "content_type": "model_editable_context",
        "model_set_context": "1. [2026-01-02]. Has a dog called Pixel.\n\n2. [2026-02-03]. Prefers trains.",
    }
    picture = {"content_type": "image_asset_pointer", "asset_pointer": "file-service://f1", "width": 5}
    content_parts = {"content_type": "multimodal_text", "parts": [picture, "What breed is this?"]}
    thoughts = {"content_type": "thoughts", "thoughts": [{"summary": "Dogs", "content": "Looks small."}]}
    code = {"content_type": "code", "language": "unknown", "text": "search('breed')"}
    output = {"content_type": "execution_output", "text": "a terrier"}
    nodes = [
        gpt("root", None, None, "ctx"),
        gpt("ctx", "root", gpt_said("user", context, 1770000000.0, metadata=hidden), "mem"),
        gpt("mem", "ctx", gpt_said("system", remembered, 1770000000.5, metadata=hidden), "empty"),
        gpt("empty", "mem", gpt_said("system", "", 1770000000.6), "u1"),
        gpt("u1", "empty", gpt_said("user", content_parts, 1770000001.0), "a0", "th"),
        gpt("a0", "u1", gpt_said("assistant", "A cat, I think.", 1770000002.0)),
        gpt("th", "u1", gpt_said("assistant", thoughts, 1770000003.0), "call"),
        gpt("call", "th", gpt_said("assistant", code, 1770000004.0, recipient="browser"), "res"),
        gpt("res", "call", gpt_said("tool", output, 1770000005.0, name="browser"), "a1"),
        gpt("a1", "res", gpt_said("assistant", "It is a terrier.", 1770000006.0), "bio"),
        gpt("bio", "a1", gpt_said("assistant", "Owns a terrier.", 1770000007.0, recipient="bio"), "done"),
        gpt("done", "bio", gpt_said("tool", "Model set context updated.", 1770000008.0, name="bio")),
    ]
    return {
        "title": "Which dog",
        "create_time": 1770000000.0,
        "update_time": 1770000009.0,
        "mapping": {each["id"]: each for each in nodes},
        "current_node": "done",
        "conversation_id": "c-1",
        "id": "c-1",
        "default_model_slug": "gpt-x",
        "gizmo_id": "g-1",
    }


def chatgpt(top: Path) -> Path:
    """A data export of ChatGPT: two conversations, one of them in a second file, and the account."""
    nodes = [gpt("r", None, None, "u"), gpt("u", "r", gpt_said("user", "Only a question?", 1770000100.0))]
    second = {
        "title": None,
        "create_time": 1770000100.0,
        "mapping": {each["id"]: each for each in nodes},
        "current_node": "u",
        "id": "c-2",
    }
    return write(
        top,
        {
            "conversations-000.json": json.dumps([gpt_conversation()]),
            "conversations-001.json": json.dumps([second, {"title": "no tree"}]),
            "user.json": json.dumps({"id": "user-1", "email": "ada@example.org"}),
        },
    )


def claude_ai(top: Path) -> Path:
    """A data export of Claude.ai: conversations, memories, a project, and the account."""
    answer = [
        {"type": "thinking", "thinking": "A tool helps.", "start_timestamp": "2026-03-01T10:00:01Z"},
        {"type": "tool_use", "id": "t1", "name": "web_search", "input": {"query": "tides"}},
        {"type": "tool_result", "tool_use_id": "t1", "content": [{"type": "text", "text": "high at nine"}]},
        {"type": "text", "text": "High tide is at nine.", "citations": []},
    ]
    attachment = {
        "file_name": "plan.txt",
        "file_size": 9,
        "file_type": "txt",
        "extracted_content": "Sail at 9",
    }
    messages = [
        {
            "uuid": "m1",
            "text": "When is the tide?",
            "content": [{"type": "text", "text": "When is the tide?"}],
            "sender": "human",
            "created_at": "2026-03-01T10:00:00.000000Z",
            "attachments": [attachment],
            "files": [{"file_name": "chart.png"}],
        },
        {
            "uuid": "m2",
            "text": "High tide is at nine.",
            "content": answer,
            "sender": "assistant",
            "created_at": "2026-03-01T10:00:02.000000Z",
            "attachments": [],
            "files": [],
        },
    ]
    conversation = {
        "uuid": "k-1",
        "name": "Tides",
        "summary": "About tides.",
        "created_at": "2026-03-01T10:00:00.000000Z",
        "updated_at": "2026-03-01T10:00:02.000000Z",
        "account": {"uuid": "acct"},
        "chat_messages": messages,
    }
    project = {
        "uuid": "p-1",
        "name": "Boat",
        "description": "All about the boat.",
        "prompt_template": "Answer as a sailor.",
        "is_private": True,
        "created_at": "2026-01-01T00:00:00Z",
        "docs": [{"uuid": "d-1", "filename": "rig.md", "content": "Two masts.", "created_at": "2026-01-02"}],
    }
    remembered = {
        "conversations_memory": "**Work**\n\nAda builds compilers.",
        "project_memories": {"p-1": "The boat lies in Kiel."},
        "account_uuid": "acct",
    }
    return write(
        top,
        {
            "conversations.json": json.dumps([conversation, 7]),
            "memories.json": json.dumps([remembered]),
            "projects.json": json.dumps([project]),
            "users.json": json.dumps([{"uuid": "acct", "email_address": "ada@example.org"}]),
        },
    )


def mem0(top: Path) -> Path:
    """An export of mem0, the history its library keeps, and the storage of Qdrant beside them."""
    import sqlite3

    tea = {
        "id": "m-1",
        "memory": "Drinks tea, not coffee",
        "hash": "h1",
        "metadata": {"room": "kitchen"},
        "categories": ["food", "preferences"],
        "created_at": "2026-01-02T10:00:00-08:00",
        "updated_at": "2026-02-03T10:00:00Z",
        "user_id": "ada",
    }
    trip = {"id": "m-2", "memory": "Travels by train", "created_at": "2026-01-05", "user_id": "ada"}
    edge = {"source": "ada", "relationship": "owns", "target": "pixel"}
    write(
        top,
        {
            "export.json": json.dumps({"results": [tea, trip, {"id": "m-9"}], "relations": [edge]}),
            "config.json": json.dumps({"user_id": "ada"}),
            "qdrant/collection/mem0/storage.sqlite": "pickles",
        },
    )
    connection = sqlite3.connect(top / "history.db")
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute(
        "CREATE TABLE history (id TEXT PRIMARY KEY, memory_id TEXT, old_memory TEXT, new_memory TEXT,"
        " event TEXT, created_at DATETIME, updated_at DATETIME, is_deleted INTEGER, actor_id TEXT, role TEXT)"
    )
    first, later = "2026-01-02T18:00:00Z", "2026-02-03T10:00:00Z"
    rows = [
        ("1", "m-1", None, "Drinks coffee", "ADD", first, None, 0, "ada", "user"),
        ("2", "m-1", "Drinks coffee", "Drinks tea, not coffee", "UPDATE", first, later, 0, None, None),
        ("3", "m-3", None, "Lives in Kiel", "ADD", first, None, 0, None, None),
        ("4", "m-4", None, "Owns a car", "ADD", first, None, 0, None, None),
        ("5", "m-4", "Owns a car", None, "DELETE", first, later, 1, None, None),
    ]
    connection.executemany(f"INSERT INTO history VALUES ({','.join('?' * 10)})", rows)
    connection.commit()
    connection.close()
    return top


def letta(top: Path) -> Path:
    """An agent of today's shape with two blocks and a conversation, and one of the first shape."""
    messages = [
        {"id": "message-0", "role": "system", "content": [{"type": "text", "text": "You remember."}]},
        {
            "id": "message-1",
            "role": "user",
            "content": [{"type": "text", "text": "I moved to Kiel."}],
            "created_at": "2026-03-01T10:00:00+00:00",
        },
        {
            "id": "message-2",
            "role": "assistant",
            "content": [{"type": "reasoning", "reasoning": "Note it."}, {"type": "text", "text": "Noted."}],
            "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "save", "arguments": "{}"}}],
            "otid": "o-1",
        },
        {
            "id": "message-3",
            "role": "tool",
            "tool_call_id": "t1",
            "content": [{"type": "text", "text": "ok"}],
        },
    ]
    agent = {
        "id": "agent-0",
        "name": "sam",
        "system": "You are Sam.",
        "block_ids": ["block-0", "block-1"],
        "llm_config": {"model": "gpt-x"},
        "messages": messages,
    }
    blocks = [
        {
            "id": "block-0",
            "label": "human",
            "value": "Name: Ada",
            "limit": 20000,
            "description": "The person.",
        },
        {"id": "block-1", "label": "persona", "value": "I am Sam.", "limit": 20000, "read_only": True},
    ]
    today = {"agents": [agent], "blocks": blocks, "tools": [{"id": "tool-0", "source_code": "import os"}]}
    first = {"agent_type": "memgpt_agent", "name": "old", "core_memory": [{"label": "human", "value": "Bob"}]}
    return write(top, {"sam.af": json.dumps(today), "old.af": json.dumps(first), "odd.json": "{}"})


def cursor(top: Path) -> Path:
    """A project with rules of Cursor of every kind, one of a folder below, and the old file."""
    return write(
        top,
        {
            ".cursorrules": "Write tests first.\n",
            ".cursor/rules/always.mdc": (
                "---\ndescription:\nglobs:\nalwaysApply: true\n---\nUse British spelling.\n"
            ),
            ".cursor/rules/ts.mdc": (
                "---\ndescription: TypeScript: how we write it\nglobs: *.ts,*.tsx\nalwaysApply: false\n---\n"
                "- No default exports.\n"
            ),
            ".cursor/rules/deploy.mdc": (
                "---\ndescription: How to deploy\nalwaysApply: false\n---\n# Deploy\n\nTag.\n"
            ),
            ".cursor/rules/vade.mdc": "---\nalwaysApply: true\n---\nOurs.\n",
            "web/.cursor/rules/css.mdc": "---\nalwaysApply: true\n---\nNo inline styles.\n",
            "README.md": "# No rule\n",
        },
    )


def windsurf(top: Path) -> Path:
    """A project with rules of Windsurf, of every trigger."""
    return write(
        top,
        {
            ".windsurfrules": "Write tests first.\n",
            ".windsurf/rules/always.md": "---\ntrigger: always_on\n---\nUse British spelling.\n",
            ".windsurf/rules/py.md": "---\ntrigger: glob\nglobs: **/*.py\n---\nType everything.\n",
            ".windsurf/rules/deploy.md": (
                "---\ntrigger: model_decision\ndescription: Deploys\n---\nTag first.\n"
            ),
        },
    )
