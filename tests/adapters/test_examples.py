"""The examples run, without a network, and show what the pages say; nothing is imported before its time."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from cases import every_case

ROOT = Path(__file__).parent.parent.parent
ADAPTERS = ROOT / "src" / "vademecum" / "adapters"
FRAMEWORKS = {"pydantic_ai", "anthropic", "agents", "openai", "langgraph", "langchain_core"}
SHOWN = {
    "agent_with_pydantic_ai": ["found it again: True", "messages in the transcript: 24", "every row twice"],
    "claude_memory_tool": [
        "File created successfully",
        "would escape",
        "restored: Acme pays by card since May.",
    ],
    "session_with_openai_agents": ["items now: 3", "lines in the log: 6", "found: My order is late."],
    "graph_with_langgraph": ["-> I drink my coffee black.", "[('users', 'ada')]", "users-ada-black-"],
}
OFFLINE = """
import runpy, socket, sys
def refuse(*_):
    raise OSError("there is no network here")
socket.socket.connect = socket.socket.connect_ex = socket.getaddrinfo = refuse
runpy.run_path(sys.argv[1], run_name="__main__")
"""


def test_every_example_is_among_those_that_are_run() -> None:
    assert {path.stem for path in (ROOT / "examples").glob("*.py")} == set(SHOWN)


@pytest.mark.full(but=1)
@pytest.mark.parametrize("name", sorted(SHOWN))
def test_an_example_runs_without_a_network(name: str, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", OFFLINE, str(ROOT / "examples" / f"{name}.py")],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    for words in SHOWN[name]:
        assert words in done.stdout
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == [], "an example cleans up behind itself"


@every_case("name", sorted(SHOWN))
def test_an_example_is_named_on_the_page(name: str) -> None:
    assert f"examples/{name}.py" in (ROOT / "docs" / "adapters.md").read_text()


def blocks() -> list[str]:
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "adapters.md").read_text(), flags=re.DOTALL)


@pytest.mark.full
def test_what_the_page_imports_is_there_and_what_needs_no_provider_runs(tmp_path: Path) -> None:
    assert len(blocks()) == 4
    codes = ["\n".join(re.findall(r"^from .*$", block, flags=re.MULTILINE)) for block in blocks()[:3]]
    for code in (*codes, blocks()[3]):
        done = subprocess.run(
            [sys.executable, "-c", code],
            cwd=tmp_path,
            env={**os.environ, "VADE_HOME": str(tmp_path / "home")},
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
    for block in blocks():
        compile(block, "adapters.md", "exec")


def loaded(code: str) -> set[str]:
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; {code}; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.split())


def test_no_framework_comes_with_vademecum_itself() -> None:
    assert not FRAMEWORKS & loaded("import vademecum, vademecum.memory, vademecum.adapters.base")


@pytest.mark.full(but=1)
@pytest.mark.parametrize(
    ("module", "own"),
    [
        ("pydantic_ai", {"pydantic_ai"}),
        ("anthropic_memory", {"anthropic"}),
        ("openai_agents", {"agents", "openai"}),
        ("langgraph_store", {"langgraph", "langchain_core"}),
    ],
)
def test_an_adapter_loads_its_own_framework_and_no_other(module: str, own: set[str]) -> None:
    found = loaded(f"import vademecum.adapters.{module}") & FRAMEWORKS
    assert own <= found
    assert found <= own
