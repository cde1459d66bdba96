"""Every agent that is shipped is found by its module, told of in the docs, and loaded alone."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tools import agent_environment

from cases import every_case
from vademecum import agents
from vademecum.agents import environment, registry
from vademecum.agents.environment import read_variables

if TYPE_CHECKING:
    from collections.abc import Iterator

PARTS = ("hooks", "setup", "instructions", "transcripts", "memories")
DOCS = Path(__file__).parent.parent.parent / "docs"


@pytest.fixture
def unknown_before() -> Iterator[None]:
    """Agents that a test adds are forgotten after it."""
    registry.known.cache_clear()
    yield
    registry.known.cache_clear()
    sys.modules.pop("vademecum.agents.owl", None)


def test_the_docs_say_of_each_agent_which_parts_it_has() -> None:
    rows = re.findall(r"^\| `([a-z0-9-]+)` \|(.*)\|$", (DOCS / "agents.md").read_text(), re.MULTILINE)
    told = {name: [cell.strip() == "yes" for cell in cells.split("|")] for name, cells in rows}
    found = {each.name: [getattr(each, part) is not None for part in PARTS] for each in registry.known()}
    assert {name: cells for name, cells in told.items() if len(cells) == len(PARTS)} == found


def test_naming_one_agent_loads_no_parser_and_no_other_agent() -> None:
    code = "import sys; from vademecum.agents.registry import find; find('claude-code'); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = {name for name in done.stdout.split() if name.startswith("vademecum.")}
    own = {"vademecum.agents", *(f"vademecum.agents.{name}" for name in ("base", "claude_code", "registry"))}
    assert {name for name in loaded if name.startswith("vademecum.agents")} == own
    assert not {name for name in loaded if re.match(r"vademecum\.(transcripts|knowledge|memory|store)", name)}


@pytest.mark.usefixtures("unknown_before")
def test_a_module_in_the_folder_is_an_agent_and_nothing_else_has_to_name_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "owl.py").write_text(
        "from vademecum.agents.base import Agent, InstructionFile\n"
        'AGENT = Agent("owl", instructions=InstructionFile(("OWL.md",)))\n'
    )
    assert registry.find("owl") is None
    monkeypatch.setattr(agents, "__path__", [*agents.__path__, str(tmp_path)])
    found = registry.find("owl")
    assert found is not None
    registry.known.cache_clear()
    assert list(registry.having("instructions")) == [
        *("claude-code", "codex", "cursor", "gemini", "kiro"),
        *("aider", "amp", "cline", "copilot", "goose", "opencode", "owl", "qwen-code", "windsurf", "zed"),
    ]


@every_case("name", ["", "base", "claude_code", "no-such", "..", "os.path", "a b", "registry", "é\0"])
def test_what_is_no_agent_is_found_nowhere(name: str) -> None:
    assert registry.find(name) is None


def test_a_list_of_messages_is_the_last_format_that_is_tried() -> None:
    names = [each.name for each in registry.transcript_formats()]
    assert names == [
        *("qwen-code", "claude-code", "copilot", "codex", "openclaw", "amp"),
        *("cline", "goose", "opencode", "windsurf", "gemini-cli", "clio", "messages"),
    ]


def test_an_agent_with_hooks_is_recognised_by_a_variable_of_its_environment() -> None:
    titles = {
        title.lower().replace(" cli", "").replace(" ", "-") for title in read_variables().agents.values()
    }
    assert set(registry.having("hooks")) <= titles


def test_the_variables_that_commands_read_are_those_of_the_agents() -> None:
    assert agent_environment.rendered() == environment.PATH.read_text(), (
        "run `python -m tools.agent_environment`"
    )
