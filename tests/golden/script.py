# ruff: noqa: E501  # one line is one step
"""What is played: commands as a person might type them, hooks, tool calls, and five hundred questions.

Every command is called at least once, most of them with and without `--json`, many wrongly. Nothing in here
knows a module of vademecum.
"""

from __future__ import annotations

import json
import re
import subprocess
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

BEGIN = datetime(2026, 9, 1, 8, tzinfo=UTC)
ASKED = "2026-09-14T06:00:00+00:00"
SETTINGS = {
    "VADE_SCRIPT": "golden",
    "VADE_SEARCH_BACKGROUND_READING": "false",
    "EDITOR": "true",
    "VISUAL": "true",
}
# What is made from the rest and may be made otherwise tomorrow: indexes, caches, locks. What is heard depends on
# whether the machine says that nobody sits at it.
DERIVED = re.compile(
    r"(heard|index|cache|state|locks?|catalogue|watch|tmp)([./-]|$)|.*\.(lock|db|sqlite)(-\w+)?$|config\.toml$"
)
SETS = Path(__file__).parent.parent.parent / "bench" / "sets"

JSON = ("--json",)


def prepare(stage: Any) -> None:
    """The files that are there before the first command."""
    stage.home.mkdir(mode=0o700)
    (stage.home / "config.toml").write_text('approval.scripts = ["golden"]\n')
    subprocess.run(["git", "init", "-q", "-b", "main", "."], check=True, cwd=stage.project)
    remote = ["git", "remote", "add", "origin", "git@github.com:acme/shop.git"]
    subprocess.run(remote, check=True, cwd=stage.project)
    (stage.project / "app.py").write_text("def total(items):\n    return sum(items)\n")
    (stage.project / "README.md").write_text("# Shop\n\nRun `make test`.\n")
    _vault(stage.other / "vault")
    _openclaw(stage.other / "openclaw")
    _claude(stage.person / ".claude" / "projects" / "-shop")
    (stage.other / "messages.json").write_text(
        json.dumps([{"role": "user", "content": "hello"}, {"role": "assistant", "content": "Hello, Ada."}])
    )
    (stage.other / "broken.jsonl").write_text("{not json\n")
    (stage.other / "ltm.json").write_text(json.dumps(LTM))
    for name in ("clio", "cao", "co-cli", "empty"):
        (stage.other / name).mkdir()


LTM = {
    "version": "1.0",
    "patterns": {
        "discoveries": [{"fact": "The cache key includes the tenant", "confidence": 0.9, "verified": True, "timestamp": 1756700000}],
        "problem_solutions": [{"error": "EADDRINUSE 8080", "solution": "stop the old server", "solved_count": 2, "examples": ["dev.sh"]}],
        "code_patterns": [{"pattern": "Use early returns", "confidence": 0.8, "examples": ["a.py"]}],
        "workflows": [{"name": "release", "steps": ["tag", "push"], "success_rate": 1.0, "count": 3}],
        "failures": [{"what": "edited a migration", "impact": "a broken clone", "prevention": "add a new one"}],
    },
}  # fmt: skip


def _vault(folder: Path) -> None:
    folder.mkdir(parents=True)
    (folder / "Gardening.md").write_text(
        "# Gardening\n\nTomatoes go out after the ice saints.\n\n## Soil\n\nCompost in March.\n"
    )
    (folder / "Travel.md").write_text(
        "---\ntags: [travel]\n---\n# Travel\n\nThe night train to Vienna leaves at nine. See [[Gardening]].\n"
    )


def _openclaw(folder: Path) -> None:
    (folder / "memory").mkdir(parents=True)
    (folder / "MEMORY.md").write_text("# Memory\n\n- Ada prefers tea.\n- The staging host is blue-7.\n")
    (folder / "USER.md").write_text("# User\n\nName: Ada\n")
    (folder / "memory" / "2026-08-30.md").write_text(
        "# 2026-08-30\n\n## 10:00\n\nWe moved the queue to Redis.\n"
    )


def _claude(folder: Path) -> None:
    folder.mkdir(parents=True)
    lines = [
        {"type": "user", "uuid": "u1", "parentUuid": None, "sessionId": "c0ffee00-0000-4000-8000-000000000001",
         "timestamp": "2026-08-31T09:00:00.000Z", "cwd": "/shop", "version": "2.0.0",
         "message": {"role": "user", "content": "Why does the checkout time out?"}},
        {"type": "assistant", "uuid": "a1", "parentUuid": "u1", "sessionId": "c0ffee00-0000-4000-8000-000000000001",
         "timestamp": "2026-08-31T09:00:09.000Z", "cwd": "/shop", "version": "2.0.0",
         "message": {"role": "assistant", "id": "m1", "model": "claude-x", "content": [
             {"type": "text", "text": "I will look at the gateway."},
             {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": "grep -n timeout gateway.py"}}],
             "usage": {"input_tokens": 40, "output_tokens": 12}}},
        {"type": "user", "uuid": "u2", "parentUuid": "a1", "sessionId": "c0ffee00-0000-4000-8000-000000000001",
         "timestamp": "2026-08-31T09:00:11.000Z", "cwd": "/shop", "version": "2.0.0",
         "message": {"role": "user", "content": [
             {"type": "tool_result", "tool_use_id": "t1", "content": "12: timeout = 3"}]}},
        {"type": "assistant", "uuid": "a2", "parentUuid": "u2", "sessionId": "c0ffee00-0000-4000-8000-000000000001",
         "timestamp": "2026-08-31T09:00:20.000Z", "cwd": "/shop", "version": "2.0.0",
         "message": {"role": "assistant", "id": "m2", "model": "claude-x", "content": [
             {"type": "text", "text": "The gateway gives up after three seconds; the payment provider needs eight."}]}},
    ]  # fmt: skip
    path = folder / "c0ffee00-0000-4000-8000-000000000001.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def commands(stage: Any) -> Iterator[tuple[list[str], str]]:
    """Command lines with what they are given on standard input; some edit a file by hand on the way."""
    other = stage.other

    def both(*words: str, given: str = "") -> Iterator[tuple[list[str], str]]:
        yield [*words], given
        yield [*words, "--json"], given

    yield ["--version"], ""
    yield ["--help"], ""
    yield [], ""
    for name in HELP:
        yield [*name.split(), "--help"], ""
    yield from both("status")
    yield from both("add", "Ada deploys on Tuesdays, never on Fridays.")
    yield from both(
        "add", "The API listens on port 8080.", "--key", "api-port", "--type", "project", "--tag", "net"
    )
    yield from both("add", "The API listens on port 9090.", "--key", "api-port", "--mode", "replace")
    yield from both(
        "add", "I prefer tabs over spaces.", "--scope", "global", "--type", "user", "--confidence", "0.9"
    )
    yield from both("add", "I prefer tabs over spaces, really.", "--scope", "global")
    yield from both("add", "-", "--key", "from-stdin", given="Line one.\n\n- a list\n- of two\n")
    yield from both("add", "`app.py:1` holds total().", "--key", "total", "--type", "project")
    yield from both(
        "add", "See [[api-port]] before touching the gateway.", "--key", "gateway", "--tag", "net"
    )
    yield from both("add", "Session thought.", "--scope", "session", "--session", "s1", "--key", "thought")
    yield from both("add", "Agent thought.", "--scope", "agent", "--agent", "coder", "--key", "athought")
    yield from both("add", "Everyone knows this.", "--scope", "federated", "--key", "shared-fact")
    yield from both("add", "Keep me forever.", "--key", "forever", "--protected")
    yield from both("add", "secret AKIAIOSFODNN7EXAMPLE here", "--key", "leak")
    yield from both("add", "")
    yield from both("add", "x", "--scope", "galaxy")
    yield from both("add", "x", "--type", "poem")
    yield from both("add", "x", "--key", "../../etc/passwd")
    yield from both("add", "x", "--key", "api-port", "--mode", "merge")
    yield from both("add", "--journal", "Talked to Grace about the outage.")
    yield from both("add", "--journal", "The outage began at 09:12.", "--scope", "global")
    yield from both("add", "--journal", "-", given="A longer note.\n\nWith two paragraphs.\n")
    yield from both("today", "--journal", given="")
    yield from both("protect", "gateway")
    yield from both("protect", "gateway", "--off")
    yield from both("protect", "nobody")
    yield from both("edit", "api-port")
    yield from both("edit", "nobody")
    yield from both("suggest", "I always use pnpm. Never commit to main. My dog is called Rex.")
    yield from both("suggest", "thanks")
    yield from both("add", "--type", "discovery", "The cache is per tenant.")
    yield from both(
        "add",
        "--type",
        "solution",
        "--error",
        "EADDRINUSE",
        "--solution",
        "stop the old server",
        "--example",
        "dev.sh",
    )
    yield from both("add", "--type", "workflow", "--step", "tag", "--step", "push", "--success-rate", "0.9")
    yield from both(
        "add",
        "--type",
        "failure",
        "Edited a migration",
        "--impact",
        "broken clone",
        "--prevention",
        "add a new one",
    )
    yield from both("add", "--type", "pattern", "Early returns", "--example", "app.py")
    yield from both("add", "--type", "rule", "Invoices belong to billing.", "--path", "app.py")
    yield from both("add", "--type", "poem", "x")
    yield from both("knowledge")
    yield from both("knowledge", "list", "--type", "discovery")
    yield from both("knowledge", "stats")
    yield from both("knowledge", "import", str(other / "ltm.json"))
    yield from both("knowledge", "export", str(other / "out-ltm.json"))
    yield from both("knowledge", "applied", "nobody")
    yield from both("knowledge", "prune")
    yield from both("search", "which port does the API listen on?")
    yield from both("search", "port", "--explain")
    yield from both("search", "port", "--mode", "bm25", "--max-results", "2")
    yield from both("search", "port", "--mode", "vector")
    yield from both("search", "port", "--as-of", "2026-09-01T09:00:00Z")
    yield from both("search", "type:project tag:net")
    yield from both("search", "zebra crossings on the moon", "--min-score", "0.9")
    yield from both("search", "port", "--sort-by", "recency", "--scope", "project")
    yield from both("search", "port", "--mode", "magic")
    yield from both("search", "")
    yield from both("search", "--records", "deploy day")
    yield from both("search", "--records")
    yield from both("search", "--records", "gateway", "--include-related", "--max-results", "3")
    yield from both("search", "--records", "port", "--type", "project", "--as-of", "2026-09-01T09:00:00Z")
    yield from both("index")
    yield from both("index", "--check")
    yield from both("index", "--rebuild")
    yield from both("list")
    yield from both("list", "--all")
    yield from both("list", "--scope", "global", "--type", "user")
    yield from both("list", "--tag", "net")
    yield from both("list", "--forgotten")
    yield from both("list", "--write-index")
    yield from both("show", "api-port")
    yield from both("show", "2")
    yield from both("show", "nobody")
    yield from both("show", "api-port", "--lines", "1-")
    yield from both("show", "api-port", "--lines", "3+2")
    yield from both("show", "../../etc/passwd")
    yield from both("graph")
    yield from both("graph", "--format", "graphml")
    yield from both("graph", "--format", "mermaid")
    yield from both("status")
    yield from both("audit")
    yield from both("audit", "verify")
    yield from both("sessions", "list")
    yield from both("sessions", "import", str(stage.person / ".claude" / "projects"))
    yield from both("sessions", "import", str(other / "messages.json"))
    yield from both("sessions", "import", str(other / "broken.jsonl"))
    yield from both("sessions", "list")
    yield from both("sessions", "search", "payment provider timeout")
    yield from both("sessions", "search", "payment provider timeout", "--ranking", "keywords")
    yield from both("sessions", "show", "last")
    yield from both("sessions", "get", "last", "1")
    yield from both("sessions", "trim", "last", "--window", "2000", "--dry-run")
    yield from both("sessions", "rename", "last", "checkout timeouts")
    yield from both("sessions", "export", "last", str(other / "last.md"))
    yield from both("sessions", "show", "nobody")
    yield from both("search", "payment provider timeout")
    yield from both("context", "inspect", str(other / "messages.json"), "--window", "8000")
    yield from both("inject")
    yield from both("inject", "--query", "port", "--budget", "300")
    yield from both("inject", "--format", "json")
    yield from both("inject", "--write", "claude-code")
    yield from both("inject", "--write", "claude-code")
    yield from both("inject", "--write", "emacs")
    yield from both("install", "--list")
    for agent in ("claude-code", "codex", "cursor", "gemini", "kiro"):
        for scope in ("user", "project"):
            yield ["install", agent, "--scope", scope, "--dry-run"], ""
            yield ["install", agent, "--scope", scope, "--json"], ""
            yield ["install", agent, "--scope", scope], ""
    yield from both("install", "--list")
    for agent in ("claude-code", "codex", "cursor", "gemini", "kiro"):
        yield ["uninstall", agent, "--scope", "project"], ""
        yield ["uninstall", agent, "--scope", "user", "--json"], ""
    yield from both("install", "emacs")
    yield from both("review", "approve", "list")
    yield from both("review", "approve", "yes", "zzzz")
    yield from both("review", "approve", "no", "--all", "--yes")
    yield from both("import", "openclaw", str(other / "openclaw"), "--dry-run")
    yield from both("import", "openclaw", str(other / "openclaw"))
    yield from both("import", "okf", str(other / "vault"))
    yield from both("import", "claude-code", str(stage.person / ".claude"))
    yield from both("import", "codex", str(other / "empty"))
    yield from both("import", "clio", str(other / "clio"))
    yield from both("import", "cao", str(other / "cao"))
    yield from both("import", "co-cli", str(other / "co-cli"))
    yield from both("import", "emacs", str(other / "empty"))
    yield from both("import", "openclaw", str(other / "missing"))
    yield from both("review")
    yield from both("review", "--declined")
    yield from both("review", "verify", "--list")
    yield from both("review", "verify", "--run", "last", "--yes")
    yield from both("review", "verify", "api-port")
    yield from both("review", "verify", "api-port", "--off")
    yield from both("review", "verify", "nobody")
    yield from both("profile")
    yield from both("profile", "build")
    yield from both("sources", "add", str(other / "vault"), "--name", "vault")
    yield from both("sources", "add", str(other / "missing"))
    yield from both("sources", "list")
    yield from both("search", "night train to Vienna")
    yield from both("sources", "remove", "vault")
    yield from both("sources", "remove", "vault")
    yield from both("check")
    yield from both("check", "--format", "github")
    yield from both("tidy", "--only", "heal")
    yield from both("tidy", "--only", "heal", "--apply")
    yield from both("tidy", "--only", "sweep")
    yield from both("tidy", "--only", "sweep", "--apply", "--yes")
    yield from both("tidy", "--only", "promote")
    yield from both("tidy", "--only", "promote", "--apply")
    yield from both("tidy", "--only", "compact")
    yield from both("split", "api-port")
    yield from both("split", "nobody")
    yield from both("undo", "--list")
    yield from both("undo")
    yield from both("undo", "nothing")
    yield from both("forget", "gateway", "--yes")
    yield from both("list", "--forgotten")
    yield from both("restore", "gateway")
    yield from both("restore", "nobody")
    yield from both("forget", "from-stdin", "--yes")
    yield from both("purge", "from-stdin", "--yes")
    yield from both("purge", "--text", "Session thought.", "--yes")
    yield from both("forget", "--all", "--scope", "session", "--session", "s1", "--yes")
    yield from both("export", "okf", str(other / "out-okf"))
    yield from both("export", "ltm", str(other / "out2-ltm.json"))
    yield from both("export", "html", str(other / "out.html"))
    yield from both("export", "html", str(other / "out.html"), "--redact", "--force")
    yield from both("init")
    yield from both("add", "Versioned with the code.", "--key", "versioned")
    yield from both("review", "trust", "--off")
    yield from both("review", "trust")
    yield from both("project", "list")
    yield from both("project", "alias", "old-shop")
    yield from both("config")
    yield ["completion", "bash"], ""
    yield from both("doctor")
    yield from both("add", "Nobody reads this.", "--incognito")
    yield from both("search", "port", "--incognito")
    yield from both("search", "port", "--audience", "group")
    yield from both("chat", "--print", "hello")
    yield from both("mcp", "--tools", "none-such")
    yield from both("hook", "emacs", "session-start")
    yield from both("serch", "port")
    yield from both("list", "--al")


HELP = (
    "add", "today", "edit", "protect", "suggest", "log", "knowledge", "knowledge list", "review", "review verify", "profile", "search",
    "diff", "index", "list", "show", "graph", "tag", "status", "audit", "chat", "sessions", "sessions search", "context",
    "inject", "install", "uninstall", "hook", "review approve", "forget", "restore", "move", "purge", "check", "tidy", "merge",
    "rename", "open", "split", "undo", "import", "export", "init", "review trust", "project", "sources", "config", "completion",
    "doctor", "demo",
)  # fmt: skip

LAST = (
    ["list", "--all", "--json"],
    ["review", "approve", "list", "--json"],
    ["sessions", "list", "--json"],
    ["audit", "--json"],
    ["audit", "verify"],
    ["status"],
)


def hooks(stage: Any) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Calls of every hook of every agent."""
    transcript = next((stage.person / ".claude" / "projects").rglob("*.jsonl"))
    for agent in ("claude-code", "codex", "gemini", "kiro", "cursor"):
        own = {"session_id": f"{agent}-1"}
        named = {"transcript_path": str(transcript)} if agent == "claude-code" else {}
        yield agent, "session-start", own
        yield agent, "user-prompt", {**own, "prompt": "Which port does the API listen on?"}
        yield agent, "user-prompt", {**own, "prompt": "Which port does the API listen on?"}
        yield (
            agent,
            "user-prompt",
            {"session_id": f"{agent}-2", "prompt": "Which port does the API listen on?"},
        )
        yield agent, "user-prompt", {"session_id": f"{agent}-2", "prompt": "zebra crossings on the moon"}
        yield agent, "pre-compact", {**own, **named}
    yield "claude-code", "session-start", {"session_id": 7, "cwd": None}
    yield "claude-code", "no-such-event", {}


def requests() -> list[dict[str, Any]]:
    """What a client of the server asks, in order."""
    calls: list[tuple[str, dict[str, Any]]] = [
        (
            "memory_store",
            {"content": "The billing job runs at 02:00 UTC.", "key": "billing-job", "scope": "project"},
        ),
        (
            "memory_store",
            {"content": "The billing job runs at 03:00 UTC.", "key": "billing-job", "scope": "project"},
        ),
        ("memory_store", {"content": "", "key": "empty"}),
        ("memory_store", {"content": "password=hunter2hunter2 AKIAIOSFODNN7EXAMPLE"}),
        ("memory_search", {"query": "billing job", "sources": ["memory"]}),
        ("memory_search", {}),
        ("memory_search", {"query": "which port does the API listen on?"}),
        ("memory_search", {"query": "gateway", "limit": 2}),
        ("memory_search", {}),
        ("memory_get", {"path": "nowhere.md"}),
        ("memory_note", {"content": "The client asked twice."}),
        ("memory_store", {"type": "discovery", "content": "Tokens expire after an hour."}),
        ("memory_operations", {"operation": "add_discovery", "fact": "Queues are per tenant."}),
        ("memory_operations", {"operation": "sing"}),
        ("memory_search", {"query": "payment provider timeout", "sources": ["transcript"]}),
        ("session_get", {"session": "last", "place": 1}),
        ("todo", {"operation": "write", "items": [{"content": "Ship it", "status": "pending"}]}),
        ("todo", {"operation": "list"}),
        ("save_memory", {"content": "Ada likes green tea.", "tags": ["drink"]}),
        ("recall_memory", {"query": "tea"}),
        ("list_memories", {}),
        ("memory_forget", {"key": "billing-job", "scope": "project"}),
        ("memory_forget", {"key": "nobody", "scope": "project"}),
        ("no_such_tool", {}),
    ]
    begin = {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "golden", "version": "1"},
    }
    return [
        {"method": "initialize", "params": begin},
        {"method": "notifications/initialized"},
        {"method": "tools/list"},
        {"method": "prompts/list"},
        {"method": "resources/list"},
        {"method": "resources/templates/list"},
        *({"method": "tools/call", "params": {"name": name, "arguments": given}} for name, given in calls),
        {"method": "prompts/get", "params": {"name": "recall", "arguments": {"topic": "billing"}}},
        {"method": "resources/read", "params": {"uri": "vade://status"}},
        {"method": "no/such"},
    ]


def _lines(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (SETS / name).read_text("utf-8").splitlines()]


def write_notes(home: Path) -> None:
    """Records, journal and pinned files as they may lie in a home, for the questions."""
    home.mkdir(mode=0o700)
    top = home / "memory" / "global"
    (top / "records").mkdir(parents=True)
    (top / "journal").mkdir()
    for record in _lines("realistic/records.jsonl"):
        _record(top / "records", record)
    for each in [*_lines("paraphrases.jsonl"), *_lines("languages.jsonl")]:
        entries = [{"time": "2026-05-05T05:05:05Z", "text": each["note"]}]
        plain = {"type": "reference", "tags": (), "origin": "user"}
        _record(top / "records", {"key": f"note-{each['id']}", "entries": entries, **plain})
    days: dict[str, str] = {}
    for each in _lines("realistic/journal.jsonl"):
        day, hour = each["id"].split("/")
        begun = days.setdefault(day, f"# {day}\n")
        days[day] = f"{begun}\n## {hour}\n\n{each['text']}\n"
    for day, text in days.items():
        (top / "journal" / f"{day}.md").write_text(text, "utf-8")
    for name in ("MEMORY.md", "context.md"):
        (top / name).write_text((SETS / "realistic" / name).read_text("utf-8"), "utf-8")


def _record(folder: Path, record: dict[str, Any]) -> None:
    key, entries = record["key"], record["entries"]
    times = [each["time"] for each in entries]
    text = (
        f"---\ntype: {record['type']}\nkey: {key}\ntags: [{', '.join(record['tags'])}]\ncreated: {times[0]}\n"
        f"updated: {times[-1]}\n---\n# {key}\n"
    )
    for number, each in enumerate(entries):
        later = f" | superseded: {times[number + 1]}" if each.get("superseded") else ""
        text += f"\n## {each['time']}\n{each['text']}\n<!-- origin: {record['origin']}{later} -->\n"
    (folder / f"{key}.md").write_text(text, "utf-8")


def questions() -> list[str]:
    """Five hundred: of every set, as many as it has until there are enough."""
    found = [
        each["text"] for each in [*_lines("realistic/questions.jsonl"), *_lines("realistic/nothing.jsonl")]
    ]
    found += [each for note in _lines("paraphrases.jsonl") for each in note.get("questions", ())]
    found += [each for note in _lines("languages.jsonl") for each in note.get("questions", ())]
    return found[:500]
