"""Memory in other tools' configuration: put in whole, taken out whole, and nothing else touched."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import tomllib
from typing import TYPE_CHECKING, Any

import pytest

from vademecum.agents import cline
from vademecum.interfaces.cli.app import run
from vademecum.interfaces.install import yaml_edit
from vademecum.interfaces.install.runner import BEGIN, END

if TYPE_CHECKING:
    from pathlib import Path

AGENTS = (
    *("claude-code", "codex", "cursor", "gemini", "kiro"),
    *("amp", "cline", "copilot", "goose", "opencode", "qwen-code", "windsurf", "zed"),
)
SCOPES = ("user", "project")

CLAUDE = """\
{
    // my own
    "theme": "dark",
    "hooks": {
        "Stop": [
            {"hooks": [{"type": "command", "command": "echo done"}]}
        ]
    }
}
"""
ZED = """\
// Zed settings
{
  "theme": "One Dark", // at night
  "context_servers": {
    "other": {
      "command": "x",
      "args": [], /* none */
    },
  },
}
"""
GOOSE = """\
# my goose
GOOSE_PROVIDER: openai  # the cheap one
extensions:
  # my tools
  developer:
    enabled: true
    type: builtin

# the end
GOOSE_MODE: auto
"""
CODEX = """\
model = "o3"  # the best

[mcp_servers.other]
command = "x"

[tui]
theme = "a"
"""


class Place:
    """A person's home folder and a project in it."""

    def __init__(self, top: Path) -> None:
        self.person, self.project = top / "person", top / "project"
        for folder in (self.person, self.project / ".git"):
            folder.mkdir(parents=True)

    def top(self, scope: str) -> Path:
        return self.person if scope == "user" else self.project

    def write(self, scope: str, name: str, text: str) -> Path:
        path = self.top(scope) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(text.encode())
        return path

    def everything(self) -> dict[str, bytes | None]:
        """Every file and folder but for the memory itself."""
        return {
            str(path): path.read_bytes() if path.is_file() else None
            for top in (self.person, self.project)
            for path in sorted(top.rglob("*"))
            if ".vade" not in path.parts
        }


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path)
    monkeypatch.setenv("HOME", str(made.person))
    monkeypatch.delenv("CLAUDE_CONFIG_DIR", raising=False)
    for name in ("CODEX_HOME", "COPILOT_HOME", "CLINE_DIR", "XDG_CONFIG_HOME", "XDG_DATA_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(made.project)
    return made


def hooks_in(value: Any) -> list[str]:
    """Every command below a value."""
    if isinstance(value, dict):
        own = [value["command"]] if isinstance(value.get("command"), str) else []
        return own + [each for inner in value.values() for each in hooks_in(inner)]
    return [each for inner in value for each in hooks_in(inner)] if isinstance(value, list) else []


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("agent", AGENTS)
def test_what_is_installed_is_there_once_and_leaves_no_trace(agent: str, scope: str, place: Place) -> None:
    before = place.everything()
    assert run(["install", agent, "--scope", scope]) == 0
    after = place.everything()
    assert after != before
    assert run(["install", agent, "--scope", scope]) == 0
    assert place.everything() == after
    assert run(["uninstall", agent, "--scope", scope]) == 0
    assert place.everything() == before
    assert run(["uninstall", agent, "--scope", scope]) == 0
    assert place.everything() == before


@pytest.mark.parametrize("scope", SCOPES)
@pytest.mark.parametrize("agent", AGENTS)
def test_a_dry_run_shows_the_same_and_writes_nothing(
    agent: str, scope: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    before = place.everything()
    run(["install", agent, "--scope", scope, "--dry-run"])
    shown = capsys.readouterr().out
    assert place.everything() == before
    assert not (place.person / ".vade").exists()
    run(["install", agent, "--scope", scope])
    assert capsys.readouterr().out.splitlines()[:-1] == shown.splitlines()[:-1]
    after = place.everything()
    run(["uninstall", agent, "--scope", scope, "--dry-run"])
    assert place.everything() == after


def test_claude_code_gets_its_server_its_hooks_and_a_word(place: Place) -> None:
    settings = place.write("user", ".claude/settings.json", CLAUDE)
    run(["install", "claude-code"])
    server = json.loads((place.person / ".claude.json").read_text())["mcpServers"]["vade"]
    assert server["type"] == "stdio"
    assert server["args"][-3:] == ["mcp", "--client", "claude-code"]
    assert os.path.isabs(server["command"])
    text = settings.read_text()
    assert text.startswith('{\n    // my own\n    "theme": "dark",')
    found = json.loads(text.replace("    // my own\n", ""))["hooks"]
    assert set(found) == {"SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd"}
    assert next(each["hooks"][0]["command"] for each in found["Stop"]) == "echo done"
    assert found["SessionStart"][0]["hooks"][0]["type"] == "command"
    words = (place.person / ".claude" / "CLAUDE.md").read_text()
    assert words.startswith(f"{BEGIN}\n## Memory\n")
    assert words.endswith(f"{END}\n")


def test_a_projects_hooks_go_where_they_are_not_shared(place: Place) -> None:
    run(["install", "claude-code", "--scope", "project"])
    assert hooks_in(json.loads((place.project / ".claude" / "settings.local.json").read_text()))
    assert not (place.project / ".claude" / "settings.json").exists()
    assert json.loads((place.project / ".mcp.json").read_text())["mcpServers"]["vade"]


def test_codex_gets_a_table_and_keeps_its_comments(place: Place) -> None:
    path = place.write("user", ".codex/config.toml", CODEX)
    run(["install", "codex"])
    text = path.read_text()
    assert text.startswith('model = "o3"  # the best\n')
    found = tomllib.loads(text)
    assert found["mcp_servers"]["vade"]["args"][-3:] == ["mcp", "--client", "codex"]
    assert {key: value for key, value in found["mcp_servers"].items() if key != "vade"} == {
        "other": {"command": "x"}
    }
    assert len(hooks_in(json.loads((place.person / ".codex" / "hooks.json").read_text()))) == 5


def test_codex_is_asked_for_no_more_seconds_than_it_gives(place: Place) -> None:
    run(["install", "codex"])
    found = json.loads((place.person / ".codex" / "hooks.json").read_text())
    seconds = {name: each["hooks"][0]["timeout"] for name, [each] in found["hooks"].items()}
    assert seconds.pop("SessionEnd") == 3
    assert {*seconds.values()} == {10}


def test_qwen_code_keeps_its_own_limit_since_versions_differ_in_the_unit(place: Place) -> None:
    run(["install", "qwen-code"])
    found = json.loads((place.person / ".qwen" / "settings.json").read_text())
    assert [each for [each] in found["hooks"].values() if "timeout" in each["hooks"][0]] == []


def test_gemini_counts_in_milliseconds(place: Place) -> None:
    run(["install", "gemini"])
    found = json.loads((place.person / ".gemini" / "settings.json").read_text())
    assert set(found["hooks"]) == {"SessionStart", "BeforeAgent", "PreCompress", "AfterAgent", "SessionEnd"}
    assert found["hooks"]["SessionStart"][0]["hooks"][0]["timeout"] == 10_000
    assert found["mcpServers"]["vade"]["args"][-3:] == ["mcp", "--client", "gemini"]


def test_kiro_gets_hooks_in_a_project_only(place: Place, capsys: pytest.CaptureFixture[str]) -> None:
    run(["install", "kiro"])
    assert "Kiro has hooks for a workspace only" in capsys.readouterr().err
    assert not (place.person / ".kiro" / "hooks").exists()
    run(["install", "kiro", "--scope", "project"])
    found = json.loads((place.project / ".kiro" / "hooks" / "vade.json").read_text())
    assert found["version"] == "v1"
    assert [each["trigger"] for each in found["hooks"]] == ["UserPromptSubmit"]
    assert "## Memory" in (place.project / ".kiro" / "steering" / "vade.md").read_text()


def test_cursor_gets_one_hook_and_a_rule(place: Place) -> None:
    run(["install", "cursor", "--scope", "project"])
    found = json.loads((place.project / ".cursor" / "hooks.json").read_text())
    assert (found["version"], list(found["hooks"])) == (1, ["sessionStart"])
    assert "alwaysApply: true" in (place.project / ".cursor" / "rules" / "vade.mdc").read_text()


@pytest.mark.skipif(sys.platform != "linux", reason="the variables of Linux")
@pytest.mark.parametrize(
    ("agent", "variable", "name"),
    [
        ("cline", "CLINE_DIR", "data/settings/cline_mcp_settings.json"),
        ("goose", "XDG_CONFIG_HOME", "goose/config.yaml"),
        ("zed", "XDG_CONFIG_HOME", "zed/settings.json"),
    ],
)
def test_a_configuration_that_a_variable_moved_is_followed_inside_the_home_and_outside(
    agent: str, variable: str, name: str, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = place.everything()
    for moved in (place.person / "dotfiles", place.person.parent / "elsewhere"):
        monkeypatch.setenv(variable, str(moved))
        assert run(["install", agent]) == 0
        assert "mcp" in (moved / name).read_text()
        assert not (place.person / ".config").exists()
        assert run(["uninstall", agent]) == 0
        assert not (moved / name).exists()
        assert place.everything() == before


def test_the_extension_of_an_editor_gets_the_server_of_cline_too(place: Place) -> None:
    extension = cline.extension_folder(place.person)
    extension.mkdir(parents=True)
    before = place.everything()
    run(["install", "cline"])
    found = json.loads((extension / "settings" / "cline_mcp_settings.json").read_text())
    assert found["mcpServers"]["vade"]["args"][-3:] == ["mcp", "--client", "cline"]
    run(["uninstall", "cline"])
    assert place.everything() == before


def test_goose_keeps_what_else_is_in_its_configuration_when_it_was_written_again(place: Place) -> None:
    """Goose writes the whole file again, without comments, when it saves a setting."""
    path = place.write("user", ".config/goose/config.yaml", GOOSE)
    run(["install", "goose"])
    assert "# my tools" in path.read_text()
    written = yaml_edit.parse(path.read_text())
    written["extensions"]["vade"] |= {"bundled": None, "timeout": 60}
    written["GOOSE_MODEL"] = "x"
    path.write_text(json.dumps(written))  # which is YAML, too
    run(["install", "goose"])
    assert yaml_edit.value_at(path.read_text(), ("extensions", "vade"))["bundled"] is None
    run(["uninstall", "goose"])
    del written["extensions"]["vade"]
    assert yaml_edit.parse(path.read_text()) == written


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("cline", "no server: Cline has MCP servers for a person only"),
        ("goose", "no server: Goose reads extensions of a person only"),
        ("windsurf", "no server: Windsurf has MCP servers for a person only"),
        ("zed", "no hooks: Zed has no hooks"),
    ],
)
def test_what_a_project_cannot_have_is_said(
    agent: str, said: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    run(["install", agent, "--scope", "project"])
    assert said in capsys.readouterr().err


def test_copilots_project_has_its_hooks_where_git_does_not_share_them(place: Place) -> None:
    run(["install", "copilot", "--scope", "project"])
    top = place.project / ".github"
    assert json.loads((top / "mcp.json").read_text())["mcpServers"]["vade"]["args"][-1] == "copilot"
    found = json.loads((top / "copilot" / "settings.local.json").read_text())
    assert set(found["hooks"]) == {"SessionStart", "UserPromptSubmit", "PreCompact", "Stop", "SessionEnd"}
    assert "version" not in found
    assert 'applyTo: "**"' in (top / "instructions" / "vade.instructions.md").read_text()


@pytest.mark.full
def test_every_hook_that_is_installed_answers(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VADE_LIMITS_HOOK_START", "9s")
    monkeypatch.setenv("VADE_LIMITS_HOOK_PROMPT", "9s")
    run(["add", "The staging database lives on port 5544", "--key", "staging"])
    for agent in AGENTS:
        run(["install", agent, "--scope", "project"])
    commands = []
    for path in place.project.rglob("*.json"):
        commands += [each for each in hooks_in(json.loads(path.read_text())) if " hook " in each]
    assert len(commands) == 29
    for command in commands:
        given = {"cwd": str(place.project), "session_id": command[-20:], "prompt": "Which port has staging?"}
        done = subprocess.run(
            shlex.split(command), input=json.dumps(given), capture_output=True, text=True, check=True
        )
        if command.split()[-1] in ("session-start", "user-prompt"):
            assert "5544" in done.stdout, command


# -------------------------------------------------------------------- what others wrote


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("claude-code", ".claude/settings.json", CLAUDE),
        ("claude-code", ".claude.json", '{"numStartups": 3, "mcpServers": {"x": {"command": "y"}}}'),
        ("claude-code", ".claude/CLAUDE.md", "# Mine\r\n\r\nUse tabs.\r\n"),
        ("claude-code", ".claude/CLAUDE.md", "no line end"),
        ("codex", ".codex/config.toml", CODEX),
        ("codex", ".codex/config.toml", 'mcp_servers = {other = {command = "x"}}\n'),
        ("codex", ".codex/AGENTS.md", "# Rules\n\n"),
        ("cursor", ".cursor/mcp.json", '{\n\t"mcpServers": {}\n}\n'),
        ("cursor", ".cursor/hooks.json", '{"version": 1, "hooks": {"stop": [{"command": "x"}]}}\n'),
        ("gemini", ".gemini/settings.json", '{\n  /* mine */\n  "ui": {"theme": "x"},\n}\n'),
        ("kiro", ".kiro/settings/mcp.json", "{\n}\n"),
        ("cline", ".cline/data/settings/cline_mcp_settings.json", '{"mcpServers": {"x": {"command": "y"}}}'),
        ("goose", ".config/goose/config.yaml", GOOSE),
        ("goose", ".config/goose/config.yaml", GOOSE.replace("\n", "\r\n")),
        ("goose", ".config/goose/config.yaml", "extensions: {other: {cmd: x}}"),
        ("goose", ".config/goose/.goosehints", "Use tabs."),
        ("windsurf", ".codeium/windsurf/mcp_config.json", '{\n  "mcpServers": {}\n}\n'),
        ("windsurf", ".codeium/windsurf/hooks.json", '{"hooks": {"pre_run_command": [{"command": "x"}]}}'),
        ("windsurf", ".codeium/windsurf/memories/global_rules.md", "Use tabs.\n"),
        ("zed", ".config/zed/settings.json", ZED),
        ("zed", ".config/zed/AGENTS.md", "Use tabs.\n"),
        ("copilot", ".copilot/mcp-config.json", '{\n  "mcpServers": {"x": {"command": "y"}}\n}'),
        ("copilot", ".copilot/hooks/vade.json", '{"version": 1, "hooks": {"Stop": [{"command": "x"}]}}\n'),
        ("amp", ".config/amp/settings.json", '{\n\t"amp.showCosts": false, // dear\n}\n'),
        ("amp", ".config/amp/settings.jsonc", '/* mine */ {"amp.mcpServers": {}}\r\n'),
        ("amp", ".config/amp/AGENTS.md", "# Mine"),
    ],
)
def test_a_file_is_byte_for_byte_what_it_was_after_uninstalling(
    agent: str, name: str, text: str, place: Place
) -> None:
    path = place.write("user", name, text)
    path.chmod(0o640)
    before = place.everything()
    run(["install", agent])
    assert path.read_bytes() != text.encode()
    assert path.stat().st_mode & 0o777 == 0o640
    run(["uninstall", agent])
    assert place.everything() == before


def test_what_somebody_added_since_stays_when_ours_goes(place: Place) -> None:
    settings = place.write("user", ".claude/settings.json", CLAUDE)
    for agent in ("claude-code", "codex"):
        run(["install", agent])
    settings.write_text(settings.read_text().replace('"theme": "dark"', '"theme": "light"'))
    words = place.person / ".claude" / "CLAUDE.md"
    words.write_text("# Mine\n\n" + words.read_text() + "\nMore of mine.\n")
    config = place.person / ".codex" / "config.toml"
    config.write_text(config.read_text() + '[tui]\ntheme = "b"\n')
    hooks = place.person / ".codex" / "hooks.json"
    found = json.loads(hooks.read_text())
    found["hooks"]["Stop"].append({"hooks": [{"type": "command", "command": "echo mine"}]})
    hooks.write_text(json.dumps(found))
    for agent in ("claude-code", "codex"):
        run(["uninstall", agent])
    assert settings.read_text() == CLAUDE.replace("dark", "light")
    assert words.read_text() == "# Mine\n\nMore of mine.\n"
    assert tomllib.loads(config.read_text()) == {"tui": {"theme": "b"}}
    assert hooks_in(json.loads(hooks.read_text())) == ["echo mine"]


def test_what_was_there_is_kept_in_the_home(place: Place) -> None:
    place.write("user", ".claude/settings.json", CLAUDE)
    run(["install", "claude-code"])
    (kept,) = (place.person / ".vade" / "backups").iterdir()
    assert kept.read_text() == CLAUDE
    assert kept.stat().st_mode & 0o077 == 0


def test_a_program_that_moved_is_written_in_place_of_the_old_one(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    before = place.everything()
    run(["install", "claude-code"])
    moved = tmp_path / "bin" / "vade"
    moved.parent.mkdir()
    moved.write_text("#!/bin/sh\n")
    moved.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(moved)])
    run(["install", "claude-code"])
    commands = hooks_in(json.loads((place.person / ".claude" / "settings.json").read_text()))
    assert len(commands) == 5
    assert all(command.startswith(f"{moved} hook") for command in commands)
    assert json.loads((place.person / ".claude.json").read_text())["mcpServers"]["vade"]["command"] == str(
        moved
    )
    run(["uninstall", "claude-code"])
    assert place.everything() == before


def test_a_file_that_an_agent_changed_between_two_installations_holds_nothing_of_ours_afterwards(
    place: Place, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    settings = place.write("user", ".gemini/settings.json", '{\n  "theme": "dark"\n}\n')
    run(["install", "gemini"])
    settings.write_text(settings.read_text().replace("dark", "light"))
    moved = tmp_path / "bin" / "vade"
    moved.parent.mkdir()
    moved.write_text("#!/bin/sh\n")
    moved.chmod(0o755)
    monkeypatch.setattr(sys, "argv", [str(moved)])
    run(["install", "gemini"])
    assert str(moved) in settings.read_text()
    run(["uninstall", "gemini"])
    assert settings.read_text() == '{\n  "theme": "light"\n}\n'


def test_another_home_goes_into_every_command(place: Place, tmp_path: Path) -> None:
    home = tmp_path / "elsewhere"
    run(["install", "claude-code", "--home", str(home)])
    server = json.loads((place.person / ".claude.json").read_text())["mcpServers"]["vade"]
    assert server["args"][-5:] == ["--home", str(home), "mcp", "--client", "claude-code"]
    commands = hooks_in(json.loads((place.person / ".claude" / "settings.json").read_text()))
    assert all(command.endswith(f"--home {home}") for command in commands)


# -------------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("agent", "name", "text"),
    [
        ("claude-code", ".claude/settings.json", '{"hooks": '),
        ("claude-code", ".claude/settings.json", '{"hooks": {"Stop": 7}}'),
        ("claude-code", ".claude.json", "[]"),
        ("claude-code", ".claude.json", '{"mcpServers": {"vade": {"url": "https://example.com"}}}'),
        ("claude-code", ".claude/CLAUDE.md", "\udcff"),
        ("codex", ".codex/config.toml", "[mcp_servers\n"),
        ("codex", ".codex/config.toml", "mcp_servers = 7\n"),
        ("codex", ".codex/hooks.json", "{]"),
        ("gemini", ".gemini/settings.json", "{'single': 1}"),
        ("cursor", ".cursor/mcp.json", "nonsense"),
        ("kiro", ".kiro/steering/vade.md", "# My own steering\n"),
        ("cline", ".cline/rules/vade.md", "# My own rule\n"),
        ("goose", ".config/goose/config.yaml", "extensions: [\n"),
        ("goose", ".config/goose/config.yaml", "- a list\n"),
        ("goose", ".config/goose/config.yaml", "extensions: [developer]\n"),
        ("goose", ".config/goose/config.yaml", "extensions:\n  vade:\n    uri: https://example.com\n"),
        ("goose", ".agents/plugins/vade/plugin.json", '{"name": "another"}'),
        ("windsurf", ".codeium/windsurf/hooks.json", '{"hooks": []}'),
        ("zed", ".config/zed/settings.json", '{"context_servers": 7}'),
        ("copilot", ".copilot/instructions/vade.instructions.md", "My own.\n"),
        ("amp", ".config/amp/plugins/vade.ts", "export default function () {}\n"),
        ("amp", ".config/amp/settings.json", '{"amp.mcpServers": []}'),
    ],
)
def test_a_file_that_cannot_be_edited_is_left_alone_and_so_are_all_the_others(
    agent: str, name: str, text: str, place: Place, capsys: pytest.CaptureFixture[str]
) -> None:
    path = place.top("user") / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode(errors="surrogateescape"))
    before = place.everything()
    assert run(["install", agent]) == 1
    said = capsys.readouterr().err
    assert path.name in said
    assert "Traceback" not in said
    assert place.everything() == before


@pytest.mark.parametrize("link", [".claude", ".claude/settings.local.json", "CLAUDE.md"])
def test_a_link_that_leads_out_of_the_project_is_not_followed(
    link: str, place: Place, tmp_path: Path
) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    target = outside if link == ".claude" else outside / "file"
    path = place.project / link
    path.parent.mkdir(exist_ok=True)
    path.symlink_to(target)
    assert run(["install", "claude-code", "--scope", "project"]) == 1
    assert list(outside.iterdir()) == []
    assert not (place.project / ".mcp.json").exists()


def test_an_agent_nobody_knows_is_wrong_usage(place: Place) -> None:
    assert run(["install", "emacs"]) == 2
    assert run(["uninstall", "emacs"]) == 2


@pytest.mark.full
def test_installs_at_once_leave_one_of_each(place: Place) -> None:
    words = [sys.executable, "-m", "vademecum", "install", "claude-code"]
    children = [subprocess.Popen(words, stdout=subprocess.DEVNULL) for _ in range(6)]
    assert [child.wait(timeout=120) for child in children] == [0] * 6
    commands = hooks_in(json.loads((place.person / ".claude" / "settings.json").read_text()))
    assert len(commands) == 5
    assert (place.person / ".claude" / "CLAUDE.md").read_text().count(BEGIN) == 1
    assert run(["uninstall", "claude-code"]) == 0
    assert place.everything().keys() <= {str(place.project / ".git")}


# -------------------------------------------------------------------- what there is


def test_the_list_says_what_is_here_and_what_is_installed(
    place: Place, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "programs" / "gemini"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(program.parent))
    (place.person / ".codex").mkdir()
    run(["install", "cursor", "--scope", "project"])
    capsys.readouterr()
    assert run(["install", "--list", "--json"]) == 0
    found = {each["agent"]: each for each in json.loads(capsys.readouterr().out)["agents"]}
    assert [name for name, each in found.items() if each["found"]] == ["codex", "gemini"]
    assert found["gemini"]["program"] == str(program)
    assert found["cursor"]["installed"] == {
        "user": {"instruction": None, "server": False, "hooks": False},
        "project": {"instruction": True, "server": True, "hooks": True},
    }
    assert run(["install", "--list"]) == 0
    shown = capsys.readouterr().out
    assert "no user-prompt: in Cursor this hook can stop a prompt, not add to it" in shown


def test_a_listing_writes_nothing(place: Place) -> None:
    before = place.everything()
    run(["install", "--list"])
    assert place.everything() == before
    assert not (place.person / ".vade").exists()
