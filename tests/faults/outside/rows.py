"""Every command that changes something, as it is typed, and what has to be there for it to do so.

`READS` are the commands that keep nothing; a command of the table that is in neither fails a test. What is
not tried here says why.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from faults.outside.nursery import Done

NEIGHBOUR = "The neighbour is never touched and never lost."
FIRST = "The build runs on ninja with eight jobs."
SECOND = "The cache of the build lies in /var/cache/ninja."
STEADY = "The staging database is restored from the nightly dump before each release."
ALIKE = "The backup of the ledger runs every night.", "The backups of the ledger run every night."
SAID = "Where does the heron nest?"

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Row:
    """One command line that changes something."""

    command: str  # as the command table has it
    words: Words
    before: tuple[Words, ...] = ()
    files: dict[str, str] = field(default_factory=dict)  # below the top, before anything else
    stdin: str = ""
    gone: bool = False  # FIRST may be nowhere afterwards
    environ: dict[str, str] = field(default_factory=dict)
    acknowledged: Callable[[Done], bool] = lambda done: done.code == 0
    called: str = ""
    always: bool = False  # never fails, as agents expect of a hook
    said: str = ""  # what the transcripts hold once it is acknowledged

    @property
    def name(self) -> str:
        """What it is called in a report."""
        return self.called or self.command


def store(text: str, key: str = "", scope: str = "project", *more: str) -> Words:
    """The words that keep a text."""
    return ("add", text, "--scope", scope, *(("--key", key) if key else ()), *more)


def _write_requests(*calls: tuple[str, dict[str, object]]) -> str:
    """What a client of `vade mcp` says: its greeting, and calls of tools."""
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
    requests: list[dict[str, object]] = [{"id": 1, "method": "initialize", "params": hello}]
    requests += [{"method": "notifications/initialized"}]
    for number, (name, given) in enumerate(calls, 2):
        requests.append({"id": number, "method": "tools/call", "params": {"name": name, "arguments": given}})
    return "".join(json.dumps({"jsonrpc": "2.0", **each}) + "\n" for each in requests)


def _answered(done: Done) -> bool:
    """Whether the last call of a tool was answered and is no error."""
    answers = [json.loads(line) for line in done.out.splitlines() if line.startswith("{")]
    found = {each.get("id"): each.get("result", {}) for each in answers}
    return done.code == 0 and 2 in found and not found[2].get("isError")


def _turn(number: int, role: str, text: str) -> str:
    line = {
        "type": role,
        "uuid": f"s-{number}",
        "parentUuid": f"s-{number - 1}" if number > 1 else None,
        "sessionId": "s",
        "cwd": "PROJECT",  # which the test knows
        "timestamp": f"2026-01-02T03:04:{number:02}.000Z",
        "message": {"role": role, "content": text},
    }
    return json.dumps(line) + "\n"


TRANSCRIPT = _turn(1, "user", SAID) + _turn(2, "assistant", "In the reeds.")
EDITED = {"EDITOR": 'sh -c \'printf "\\n%s\\n" "A line typed by hand." >> "$0"\''}
SET = {"EDITOR": 'sh -c \'echo "search.max_results = 7" >> "$0"\''}
TIMES = {"memory": "---\ntype: project\n---\n# theirs\n\nTheir build runs on make.\n"}
SWEEP = 'sweep = "off"\ndecay.max_count = 1\ndecay.percentage = 0.5\n'
MODEL = "openai:scripted"

ROWS = (
    Row("add", store(SECOND, "build"), (store(FIRST, "build"),), called="add, onto a record"),
    Row("add", store(SECOND, "", "global"), (store(FIRST, "build"),), called="add, a new record"),
    Row("tag", ("tag", "build", "--add", "ops"), (store(FIRST, "build"),)),
    Row("rename", ("rename", "build", "made"), (store(FIRST, "build"),)),
    Row("move", ("move", "build", "--scope", "global"), (store(FIRST, "build"),)),
    Row("tidy", ("tidy", "--apply", "--yes"), (store(FIRST, "build"), store(ALIKE[0]), store(ALIKE[1]))),
    Row("backup", ("backup", "../vault/all.tar.gz", "--force"), (store(FIRST, "build"),)),
    Row("config set", ("config", "set", "search.max_results", "7"), (store(FIRST, "build"),)),
    Row("config edit", ("config", "edit"), (store(FIRST, "build"),), environ=SET),
    Row(
        "add",
        ("add", "--journal", SECOND),
        (store(FIRST, "build"), ("add", "--journal", "Something earlier.")),
        called="add, a note",
    ),
    Row("edit", ("edit", "build"), (store(FIRST, "build"),), environ=EDITED),
    Row(
        "edit",
        ("edit", "MEMORY.md", "--scope", "global"),
        (store(FIRST, "b"),),
        environ=EDITED,
        called="edit, pinned",
    ),
    Row("protect", ("protect", "build"), (store(FIRST, "build"),)),
    Row("add", ("add", "--type", "discovery", SECOND), (store(FIRST, "build"),), called="add, a lesson"),
    Row(
        "knowledge applied",
        ("knowledge", "applied", "the-cache-of-the-build-lies"),
        (store(FIRST, "build"), ("add", "--type", "discovery", SECOND)),
    ),
    Row(
        "knowledge import",
        ("knowledge", "import", "ltm.json"),
        (store(FIRST, "build"),),
        files={
            "project/ltm.json": json.dumps(
                {"patterns": {"discoveries": [{"fact": SECOND, "confidence": 0.9, "verified": 1}]}}
            )
        },
    ),
    Row(
        "knowledge prune",
        ("knowledge", "prune", "--min-confidence", "1", "--apply", "--yes"),
        (store(FIRST, "build"), ("add", "--type", "discovery", SECOND, "--confidence", "0.1")),
    ),
    Row("review verify", ("review", "verify", "build"), (store(FIRST, "build"),)),
    Row(
        "profile build",
        ("profile", "build", "--apply", "--yes"),
        (store(FIRST, "build", "global", "--type", "user"),),
    ),
    Row("index", ("index",), (store(FIRST, "build"),)),
    Row("chat", ("chat", "--print", "--model", MODEL), (store(FIRST, "build"),), stdin=SAID, said=SAID),
    Row(
        "sessions import",
        ("sessions", "import", "one.jsonl"),
        (store(FIRST, "build"),),
        files={"project/one.jsonl": TRANSCRIPT},
        said=SAID,
    ),
    Row(
        "sessions rename",
        ("sessions", "rename", "claude-code", "herons", "--all"),
        (store(FIRST, "build"), ("sessions", "import", "one.jsonl")),
        files={"project/one.jsonl": TRANSCRIPT},
        said=SAID,
    ),
    Row(
        "sessions trim",
        ("sessions", "trim", "claude-code", "--all", "--window", "1000"),
        (store(FIRST, "build"), ("sessions", "import", "one.jsonl")),
        files={
            "project/one.jsonl": TRANSCRIPT
            + "".join(_turn(n, ("assistant", "user")[n % 2], f"{n} {'words ' * 300}") for n in range(3, 9))
        },
        said=SAID,
    ),
    Row(
        "inject", ("inject", "--write", "claude-code"), (store(FIRST, "build"), ("review", "verify", "build"))
    ),
    Row(
        "install",
        ("install", "claude-code", "--yes"),
        (store(FIRST, "build"),),
        files={"person/.claude.json": "{}\n"},
    ),
    Row(
        "uninstall",
        ("uninstall", "claude-code"),
        (store(FIRST, "build"), ("install", "claude-code", "--yes")),
        files={"person/.claude.json": "{}\n"},
    ),
    Row(
        "hook",
        ("hook", "claude-code", "session-end"),
        (store(FIRST, "build"),),
        files={"person/.claude/projects/-p/s.jsonl": TRANSCRIPT},
        stdin="hook",
        acknowledged=lambda done: False,
        called="hook session-end",
        always=True,
    ),
    Row(
        "hook",
        ("hook", "claude-code", "user-prompt"),
        (store(FIRST, "build"), ("review", "verify", "build")),
        files={"person/.claude/projects/-p/s.jsonl": TRANSCRIPT},
        stdin="hook",
        acknowledged=lambda done: False,
        called="hook user-prompt",
        always=True,
    ),
    Row(
        "mcp",
        ("mcp",),
        (store(FIRST, "build"),),
        stdin=_write_requests(("memory_store", {"content": SECOND, "key": "cache"})),
        acknowledged=_answered,
        called="mcp, store",
    ),
    Row(
        "mcp",
        ("mcp", "--agent", "main"),
        (store(FIRST, "build", "project"),),
        stdin=_write_requests(("memory_note", {"content": SECOND})),
        acknowledged=_answered,
        called="mcp, note",
    ),
    Row(
        "review approve yes",
        ("review", "approve", "yes", "--all", "--yes"),
        (store(FIRST, "build"), ("mcp", "forget build")),
    ),
    Row(
        "review approve no",
        ("review", "approve", "no", "--all", "--yes"),
        (store(FIRST, "build"), ("mcp", "forget build")),
    ),
    Row("forget", ("forget", "build", "--yes"), (store(FIRST, "build"),)),
    Row("restore", ("restore", "build"), (store(FIRST, "build"), ("forget", "build", "--yes"))),
    Row(
        "forget",
        ("forget", "--all", "--scope", "project", "--yes"),
        (store(FIRST, "build"), store(SECOND, "cache")),
        called="forget, all",
    ),
    Row("purge", ("purge", "build", "--yes"), (store(FIRST, "build"),), gone=True),
    Row(
        "purge",
        ("purge", "--text", SECOND, "--yes"),
        (store(FIRST, "build"), store(SECOND, "cache")),
        called="purge, a text",
    ),
    Row(
        "tidy",
        ("tidy", "--only", "heal", "--apply"),
        (
            store(FIRST, "build"),
            store("The build timeout is 60 seconds.", "t"),
            store("The build timeout is 30 seconds.", "t"),
        ),
        called="tidy, heal",
    ),
    Row(
        "tidy",
        ("tidy", "--only", "sweep", "--apply", "--yes"),
        (store(FIRST, "build"), store(SECOND, "c"), store(STEADY, "d")),
        environ={"SWEEP": "1"},
        called="tidy, sweep",
    ),
    Row(
        "tidy",
        ("tidy", "--only", "promote", "--apply"),
        (store(FIRST, "build"),),
        files={"journal": STEADY},
        called="tidy, promote",
    ),
    Row(
        "tidy",
        ("tidy", "--only", "compact", "--key", "build", "--apply", "--model", MODEL),
        (store(FIRST, "build"), store(SECOND, "build"), store(STEADY, "build")),
        called="tidy, compact",
    ),
    Row(
        "split",
        ("split", "the-backup-of-the-ledger-runs"),
        (store(FIRST, "build"), store(ALIKE[0]), store(ALIKE[1])),
    ),
    Row(
        "undo",
        ("undo",),
        (
            store(FIRST, "build"),
            ("import", "okf", "bundle"),
        ),
        files={"project/bundle/theirs.md": TIMES["memory"]},
    ),
    Row(
        "import",
        ("import", "okf", "bundle"),
        (store(FIRST, "build"),),
        files={"project/bundle/theirs.md": TIMES["memory"]},
    ),
    Row("merge", ("merge", "--apply"), (store(FIRST, "build", "global"),), files={"copy": SECOND}),
    Row("export", ("export", "okf", "out"), (store(FIRST, "build"),)),
    Row("init", ("init",), (store(FIRST, "build"),)),
    Row(
        "review trust",
        ("review", "trust"),
        (store(FIRST, "build", "global"),),
        files={"project/.vade/records/theirs.md": TIMES["memory"]},
    ),
    Row(
        "project alias",
        ("project", "alias", "old-id"),
        (store(FIRST, "build"),),
        files={"home/memory/project/old-id/records/theirs.md": TIMES["memory"]},
    ),
    Row(
        "sources add",
        ("sources", "add", "../vault"),
        (store(FIRST, "build"),),
        files={"vault/note.md": "# A note\n"},
    ),
    Row(
        "sources remove",
        ("sources", "remove", "vault"),
        (store(FIRST, "build"), ("sources", "add", "../vault")),
        files={"vault/note.md": "# A note\n"},
    ),
    Row("token add", ("token", "add", "ci"), (store(FIRST, "build"),)),
    Row("token revoke", ("token", "revoke", "ci"), (store(FIRST, "build"), ("token", "add", "ci"))),
    Row("graph", ("graph", "--reject", "build", "cache"), (store(FIRST, "build"), store(SECOND, "cache"))),
)

READS = {
    *(
        "suggest",
        "search",
        "list",
        "show",
        "status",
        "check",
        "completion",
        "config get",
        "config path",
        "diff",
        "help",
        "log",
        "today",
        "doctor",
    ),
    *(
        "knowledge export",
        "knowledge list",
        "knowledge stats",
        "profile show",
        "audit verify",
        "context inspect",
    ),
    *("sessions export", "sessions get", "sessions list", "sessions search", "sessions show"),
    *("project list", "projects", "review approve list", "sources list", "token list"),
}
ELSEWHERE = {
    "open": "starts another program",
    "sync status": "keeps nothing",
    "sync held": "deletes one small file; tests/sync holds and drops texts",
    "sync key set": "seals what is there again; tests/sync and tests/hub play it among machines",
    "sync key paper": "writes one file outside of memory",
    "sync key rotate": "needs a shared folder or a hub; tests/sync kills it",
    "sync off": "deletes one small file; `sync` itself is killed at every step by tests/sync and tests/hub",
    "hub create": "writes to PostgreSQL alone, in one transaction; tests/hub kills that",
    "hub demo": "works in folders of its own that it deletes",
    "hub export": "reads PostgreSQL, writes outside of memory, and puts its folder in place whole",
    "hub invite": "writes to PostgreSQL alone",
    "hub join": "needs a hub; tests/hub joins one",
    "hub members": "asks a hub and keeps nothing",
    "hub open": "writes to PostgreSQL alone",
    "hub revoke": "writes to PostgreSQL alone",
    "hub rules": "writes one small file, in one step",
    "hub share": "needs a team; a run as `move` is, which has a row",
    "hub unshare": "needs a team; a run as `move` is, which has a row",
    "hub leave": "needs a team; tests/hub leaves one",
    "hub undo": "needs a team; a run as `move` is, which has a row",
    "hub token add": "writes to PostgreSQL alone",
    "hub token list": "asks a hub and keeps nothing",
    "hub status": "asks a hub and keeps nothing",
    "hub index": "writes to PostgreSQL alone",
    "hub migrate": "writes to PostgreSQL alone, in one transaction each; tests/hub fails them half way",
    "hub serve": "runs until it is stopped; tests/hub kills it",
    "sessions distill": "asks a model, and saves one list in one step; tests/hooks runs it",
    "serve": "runs until it is stopped; its writes are those of memory, and tests/http_door cuts them off",
    "demo": "works in a folder of its own that it deletes",
}
