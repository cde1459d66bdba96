"""The guides are true: every command they show is run, and what they say of files and places is so."""

from __future__ import annotations

import json
import re
import subprocess
import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allowing import SCRIPT, allow
from importers import samples
from importers.worlds import snapshot
from vade_command import VADE

if TYPE_CHECKING:
    from collections.abc import Callable

DOCS = Path(__file__).parent.parent / "docs"
QUICKSTARTS = [
    *("claude-code", "codex", "cursor", "gemini", "kiro", "opencode", "qwen-code"),
    *("amp", "cline", "copilot", "goose", "windsurf", "zed"),
]
# Those that are told at the start of a session; the others with the first prompt.
AT_START = {"amp", "claude-code", "cline", "codex", "copilot", "cursor", "gemini", "qwen-code"}
UNTOLD = {"goose", "windsurf", "zed"}  # nothing that a hook says reaches their model


class Machine:
    """A person's home folder, and a project of theirs with a remote."""

    def __init__(self, top: Path) -> None:
        self.person, self.project = top / "person", top / "project"
        for folder in (self.person, self.project):
            folder.mkdir()
        git = ["git", "-c", "init.defaultBranch=main", "-C", str(self.project)]
        subprocess.run([*git, "init", "-q"], check=True)
        subprocess.run([*git, "remote", "add", "origin", "git@github.com:acme/api.git"], check=True)
        allow(self.person / ".vade")

    def run(self, command: str, given: str = "") -> str:
        """What a line of a page prints; it has to succeed."""
        done = subprocess.run(
            ["bash", "-c", command],
            cwd=self.project,
            env={
                "HOME": str(self.person),
                "PATH": f"{Path(VADE).parent}:/usr/bin:/bin",
                "LANG": "C.UTF-8",
                "VADE_SCRIPT": SCRIPT,
                "VADE_LIMITS_HOOK_START": "9s",
                "VADE_LIMITS_HOOK_PROMPT": "9s",  # how busy this machine is, is not what is tested
            },
            input=given,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, f"{command}\n{done.stdout}{done.stderr}"
        return done.stdout

    def everything(self) -> dict[str, Any]:
        """Every file but those of memory and of git, with its bytes."""
        found = {
            "~": snapshot(self.person, without=(".vade",)),
            ".": snapshot(self.project, without=(".git/",)),
        }
        return {f"{top}/{name}": state[0] for top, files in found.items() for name, state in files.items()}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def commands(page: str, heading: str = "") -> list[str]:
    """The lines of a page that are typed, or of one part of it."""
    text = (DOCS / page).read_text()
    if heading:
        text = text.partition(f"\n## {heading}\n")[2].partition("\n## ")[0]
    blocks = re.findall(r"```console\n(.*?)```", text, flags=re.DOTALL)
    found = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ vade ")]
    assert found, f"{page} has nothing to type"
    return found


def files_named(text: str, top: str) -> set[str]:
    """The files that a text names in backticks."""
    named = set(re.findall(r"`([~./\w-]*(?:\.(?:json|md|toml|js|ts|mdc|yaml)|\.goosehints))`", text))
    return {f"{top}/{each.removeprefix('~/')}" for each in named}


@pytest.mark.full(but=1)
@pytest.mark.parametrize("agent", QUICKSTARTS)
def test_a_quickstart_does_what_it_says_and_leaves_no_trace(agent: str, machine: Machine) -> None:
    page = f"quickstart/{agent}.md"
    text = (DOCS / page).read_text()
    before = machine.everything()

    for line in commands(page, "Install"):
        machine.run(f"{line} --dry-run")
        assert machine.everything() == before
        machine.run(line)
    table = "\n".join(re.findall(r"^\| `.*$", text.partition("## What happens then")[0], flags=re.MULTILINE))
    assert set(machine.everything()) - set(before) == files_named(
        re.sub(r"(opencode|settings)\.jsonc", "", table), "~"
    )

    doctor, *others = commands(page, "See that it works")
    own = [each for each in json.loads(machine.run(f"{doctor} --json"))["checks"] if each["check"] == agent]
    assert own
    # Something that works and is only slow is a warning without advice.
    assert not [each for each in own if each["state"] != "ok" and each["hint"]], own
    for line in others:
        machine.run(line)

    installed = machine.everything()
    for line in commands(page, "For one project only"):
        machine.run(line)
    part = text.partition("## For one project only")[2].partition("\n## ")[0]
    assert set(machine.everything()) - set(installed) == files_named(part, ".")
    assert agent in UNTOLD or "Deploys run on Tuesdays" in first_words(machine, agent)

    for line in commands(page, "Remove it"):
        machine.run(line)
    assert machine.everything() == before


def first_words(machine: Machine, agent: str) -> str:
    """What the agent's own hook tells it first, in this project."""
    event = "session-start" if agent in AT_START else "user-prompt"
    told = {
        "session_id": "0198c9b2",
        "conversation_id": "0198c9b2",
        "cwd": str(machine.project),
        "workspace_roots": [str(machine.project)],
        "prompt": "When do we deploy?",
    }
    return machine.run(f"vade hook {agent} {event}", json.dumps(told))


def test_the_table_of_agents_names_every_quickstart() -> None:
    text = (DOCS / "quickstart" / "index.md").read_text()
    linked = set(re.findall(r"^\| \[[^\]]+\]\(([\w-]+)\.md\)", text, flags=re.MULTILINE))
    assert linked == {path.stem for path in (DOCS / "quickstart").glob("*.md")} - {"index"}
    assert linked == {*QUICKSTARTS, "mcp"}


def test_the_servers_that_the_page_for_other_clients_shows_answer(machine: Machine) -> None:
    text = (DOCS / "quickstart" / "mcp.md").read_text()
    shown = [json.loads(each) for each in re.findall(r"```json\n(.*?)```", text, flags=re.DOTALL)]
    assert [*map(list, shown)] == [["mcpServers"], ["servers"]]
    for line in commands("quickstart/mcp.md"):
        machine.run(line)
    for servers in shown:
        for server in next(iter(servers.values())).values():
            greeting = {
                "protocolVersion": "2025-11-25",
                "capabilities": {},
                "clientInfo": {"name": "x", "version": "1"},
            }
            asked = [
                {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": greeting},
                {"jsonrpc": "2.0", "method": "notifications/initialized"},
                {"jsonrpc": "2.0", "id": 2, "method": "tools/list"},
            ]
            lines = "".join(json.dumps(each) + "\n" for each in asked)
            told = machine.run(" ".join([server["command"], *server["args"]]), lines).splitlines()
            tools = next(each["result"]["tools"] for each in map(json.loads, told) if each.get("id") == 2)
            assert len(tools) == 6
            assert {"memory_search", "memory_store"} <= {each["name"] for each in tools}
    options = set(re.findall(r'`"(--\w+)"', text))
    assert options == {"--client", "--agent", "--audience", "--incognito"}
    helped = machine.run("vade mcp --help")
    assert not [each for each in options if each not in helped]


def zipped(folder: Path, path: Path) -> None:
    """A folder as the archive that a service sends."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for each in sorted(folder.rglob("*")):
            if each.is_file():
                archive.write(each, each.relative_to(folder))


def given_mem0(at: Machine) -> None:
    samples.mem0(at.person / ".mem0").joinpath("export.json").rename(at.person / "mem0-export.json")


def given_claude(at: Machine) -> None:
    samples.claude_home(at.person / ".claude", re.sub(r"[^A-Za-z0-9]", "-", str(at.project)))
    samples.claude_project(at.project)


def given_codex(at: Machine) -> None:
    samples.codex(at.person / ".codex")
    samples.write(at.project, {"AGENTS.md": "# Here\n\nRun make.\n"})


def given_rules(at: Machine) -> None:
    samples.cursor(at.project)
    samples.windsurf(at.project)


MIGRATIONS: dict[str, Callable[[Machine], object]] = {
    "openclaw": lambda at: samples.openclaw(at.person / ".openclaw/workspace"),
    "clio": lambda at: samples.clio(at.project),
    "cao": lambda at: samples.cao(at.person / ".aws/cli-agent-orchestrator/memory", "github-com-acme-api"),
    "co-cli": lambda at: samples.co_cli(at.project),
    "claude-code": given_claude,
    "codex": given_codex,
    "obsidian": lambda at: samples.obsidian(at.person / "Notes"),
    "basic-memory": lambda at: samples.basic_memory(at.person / "basic-memory"),
    "mem0": given_mem0,
    "chatgpt": lambda at: zipped(samples.chatgpt(at.person / "x"), at.person / "Downloads/chatgpt.zip"),
    "claude-ai": lambda at: zipped(samples.claude_ai(at.person / "x"), at.person / "Downloads/claude.zip"),
    "letta": lambda at: samples.letta(at.person),
    "rules": given_rules,
}


def test_every_page_about_migrating_is_tried() -> None:
    pages = {path.stem for path in (DOCS / "migrate").glob("*.md")}
    assert pages == {*MIGRATIONS, "index"}
    linked = re.findall(r"\]\(([\w-]+)\.md\)", (DOCS / "migrate" / "index.md").read_text())
    assert set(linked) == pages - {"index"}


@pytest.mark.full(but=1)
@pytest.mark.parametrize("system", MIGRATIONS)
def test_a_migration_does_what_it_says_and_can_be_taken_back(system: str, machine: Machine) -> None:
    MIGRATIONS[system](machine)
    page, kept = f"migrate/{system}.md", machine.person / ".vade" / "memory"
    theirs = machine.everything()

    for line in commands(page, "Look first"):
        shown = json.loads(machine.run(f"{line} --json"))
        assert shown["mapped"]
        assert shown["applied"] is False
    assert not kept.exists()

    *imports, undo = commands(page, "Import it")
    assert imports == [each.removesuffix(" --dry-run") for each in commands(page, "Look first")]
    for run in reversed(runs_of(machine, imports)):
        assert snapshot(kept)
        machine.run(undo.replace("RUN", run))
    assert not snapshot(kept)
    assert machine.everything() == theirs

    runs = runs_of(machine, imports)
    assert waiting(machine) > 0
    (verify,) = commands(page, "Approve it")
    for run in runs:
        machine.run(f"{verify.replace('RUN', run)} --yes")
    assert waiting(machine) == 0


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    ("system", "words"), [("chatgpt", "terrier"), ("claude-ai", "tide"), ("letta", "Kiel")]
)
def test_imported_conversations_are_found_in_their_folder_and_with_all_anywhere(
    system: str, words: str, machine: Machine
) -> None:
    MIGRATIONS[system](machine)
    machine.run(commands(f"migrate/{system}.md", "Import it")[0])
    search = f"vade sessions search {words}"
    assert words in machine.run(search)
    assert words not in machine.run(f"cd ~ && mkdir elsewhere && cd elsewhere && {search}")
    assert words in machine.run(f"cd ~/elsewhere && {search} --all")


def runs_of(machine: Machine, imports: list[str]) -> list[str]:
    """Make imports, each of which brings something, and name their runs."""
    runs = []
    for line in imports:
        done = json.loads(machine.run(f"{line} --json"))
        assert {each["outcome"] for each in done["mapped"]} & {"new", "grown"}
        runs.append(done["run"])
    assert all(runs)
    return runs


def waiting(machine: Machine) -> int:
    """How many texts wait for a person."""
    return int(json.loads(machine.run("vade review --json"))["counts"].get("text", 0))


SAID = {"role": "user", "content": [{"type": "text", "text": "Where is the harbour crane?"}]}
OPENCLAW = [
    {
        "type": "session",
        "version": 3,
        "id": "p-1",
        "timestamp": "2026-03-01T10:00:00Z",
        "cwd": "/home/ada/api",
    },
    {"type": "message", "id": "m1", "parentId": None, "timestamp": "2026-03-01T10:00:01Z", "message": SAID},
]
TRANSCRIPTS = {
    "openclaw": ".openclaw/agents/main/sessions/p-1.jsonl",
    "claude-code": ".claude/projects/-home-ada-api/s-1.jsonl",
    "codex": ".codex/sessions/2026/03/01/rollout-2026-03-01T10-00-00-s-1.jsonl",
}


@pytest.mark.full(but=1)
@pytest.mark.parametrize("system", TRANSCRIPTS)
def test_past_sessions_are_copied_and_found_as_the_page_says(system: str, machine: Machine) -> None:
    recorded = Path(__file__).parent / "fixtures" / "agents" / system / "transcript.jsonl"
    made = "".join(json.dumps(each) + "\n" for each in OPENCLAW)
    said = made if system == "openclaw" else recorded.read_text("utf-8")
    samples.write(machine.person, {TRANSCRIPTS[system]: said})
    before = machine.everything()
    for line in commands(f"migrate/{system}.md", "Past sessions"):
        machine.run(line)
    assert "harbour crane" in machine.run("vade sessions search --all harbour crane --json")
    assert machine.everything() == before


def test_what_a_page_about_migrating_names_is_what_the_importer_reads() -> None:
    """Each file in the left column of a table is in the table of all importers too."""
    known = (DOCS / "import.md").read_text()
    for system in MIGRATIONS:
        page = (DOCS / "migrate" / f"{system}.md").read_text()
        rows = re.findall(r"^\| (.*?) \|", page.partition("## What goes where")[2], flags=re.MULTILINE)
        assert len(rows) > 3, system
        names = {each for row in rows[2:] for each in re.findall(r"`([\w./<>*-]+\.(?:md|json|db|mdc))`", row)}
        told = {name for name in names if Path(name).name in known or Path(name).suffix in known}
        assert names <= told, system


def test_a_vault_is_attached_found_and_detached(machine: Machine) -> None:
    note = "---\naliases: [key rotation]\n---\n# Keys\n\nWe rotate keys every March; see [[Vault]].\n"
    samples.write(machine.person / "Notes", {"Keys.md": note, "Vault.md": "Where keys are.\n"})
    before = machine.everything()
    attach, search = commands("migrate/obsidian.md", "Attach it")
    machine.run(attach)
    assert "every March" in machine.run(search)
    assert "Keys.md" in machine.run("vade search key rotation")
    (detach,) = commands("migrate/obsidian.md", "Detach it")
    machine.run(detach)
    assert "every March" not in machine.run(search)
    assert machine.everything() == before


@pytest.mark.full(but="troubleshooting.md")
@pytest.mark.parametrize("page", ["howto.md", "troubleshooting.md", "uninstall.md", "security.md"])
def test_every_command_of_a_guide_runs_in_the_order_of_the_page(page: str, machine: Machine) -> None:
    samples.write(machine.project, {"docs/guide.md": "# Guide\n\nHow we work.\n"})
    machine.run("vade add The staging database is small --key staging")
    for line in commands(page):
        machine.run(line)


def test_the_guides_name_options_that_their_commands_have() -> None:
    """Commands in the text, which are not run, too."""
    import click

    from vademecum.interfaces.cli.app import cli

    context = click.Context(cli)
    checked = 0
    for path in [*DOCS.rglob("*.md")]:
        if path.parent == DOCS and path.name not in GUIDES:
            continue
        for words in re.findall(r"(?:`|\$ )vade ([a-z][^`\n]*)", path.read_text()):
            name, *rest = words.split()
            command = cli.get_command(context, name)
            assert command is not None, f"{path.name}: vade {words}"
            if isinstance(command, click.Group) and rest and rest[0] in command.commands:
                command = command.commands[rest[0]]
            known = {option for each in command.params for option in each.opts}
            asked = {each.strip("…,.") for each in rest if each.startswith("--")}
            assert asked <= known, f"{path.name}: vade {words}"
            checked += len(asked)
    assert checked > 50


GUIDES = {
    "concepts.md",
    "howto.md",
    "troubleshooting.md",
    "uninstall.md",
    "security.md",
    "index.md",
}
