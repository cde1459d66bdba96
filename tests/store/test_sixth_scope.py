"""A scope is data: one more row in `types.Scope` is one more scope, at every door."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import vademecum

ROW = """
    TEAM = (
        "team",
        ScopeRule(
            "the people of one team",
            owner="team",
            variable="VADE_TEAM",
            journal=True,
            documents=("MEMORY.md",),
        ),
    )
"""
HANG = 60.0  # seconds after which something is stuck, on however slow a machine


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The package with one row more, and nothing else changed but what is made from it."""
    top = tmp_path_factory.mktemp("source")
    shutil.copytree(
        Path(vademecum.__file__).parent, top / "vademecum", ignore=shutil.ignore_patterns("__pycache__")
    )
    types = top / "vademecum" / "types.py"
    before, row, after = types.read_text().partition("    GLOBAL = (\n")
    types.write_text(before + ROW.lstrip("\n") + row + after)
    subprocess.run(
        [sys.executable, "-m", "tools.offer"],
        cwd=Path(__file__).parents[2],
        env=environment(top),
        check=True,
        timeout=2 * HANG,
    )
    return top


def environment(source: Path, **more: str) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(source), **more}


def vade(source: Path, folder: Path, *words: str, status: int = 0, **more: str) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "vademecum", *words, "--home", str(folder / "home")],
        cwd=folder,
        env=environment(source, **more),
        capture_output=True,
        text=True,
        check=False,
        timeout=2 * HANG,
    )
    assert done.returncode == status, done.stderr
    return done.stdout if status == 0 else done.stderr


@pytest.mark.full
def test_a_sixth_scope_is_stored_listed_found_and_injected_at_the_command_line(
    source: Path, tmp_path: Path
) -> None:
    deploys = ("add", "Deploys happen on Tuesdays.", "--key", "deploys", "--scope", "team")
    told = vade(source, tmp_path, *deploys, "--json", VADE_TEAM="blue")
    assert json.loads(told)["path"] == "memory/team/blue/records/deploys.md"
    vade(
        source,
        tmp_path,
        "add",
        "Lunch is at noon.",
        "--key",
        "lunch",
        "--scope",
        "global",
        VADE_TEAM="blue",
    )
    vade(source, tmp_path, "add", "--journal", "The blue team met.", "--scope", "team", VADE_TEAM="blue")
    assert (tmp_path / "home" / "memory" / "team" / "blue" / "journal").is_dir()
    listed = vade(source, tmp_path, "list", "--scope", "team", VADE_TEAM="blue")
    assert "deploys" in listed
    assert "lunch" not in listed
    assert "Tuesdays" in vade(source, tmp_path, "search", "when are deploys", VADE_TEAM="blue")
    assert "Tuesdays" in vade(source, tmp_path, "inject", VADE_TEAM="blue")


@pytest.mark.full
def test_who_is_in_no_team_or_in_another_sees_nothing_of_it(source: Path, tmp_path: Path) -> None:
    deploys = ("add", "Deploys happen on Tuesdays.", "--key", "deploys", "--scope", "team")
    vade(source, tmp_path, *deploys, VADE_TEAM="blue")
    assert "Tuesdays" not in vade(source, tmp_path, "search", "when are deploys", VADE_TEAM="red")
    assert "Tuesdays" not in vade(source, tmp_path, "inject")
    refused = vade(source, tmp_path, "list", "--scope", "team", status=2)
    assert "team memory needs a team, and none is named" in refused
    assert "VADE_TEAM" in refused


def test_a_sixth_scope_stands_in_the_tools_of_a_server(source: Path, tmp_path: Path) -> None:
    home = tmp_path / "home"
    started = StdioServerParameters(
        command=sys.executable,
        args=["-m", "vademecum", "mcp", "--home", str(home)],
        cwd=tmp_path,
        env=environment(source, VADE_TEAM="blue"),
    )
    answers: dict[str, Any] = {}

    async def talk() -> None:
        with anyio.fail_after(2 * HANG):
            async with Client(stdio_client(started)) as client:
                answers["tools"] = {each.name: each for each in (await client.list_tools()).tools}
                lesson = {"content": "Deploys happen on Tuesdays.", "key": "deploys", "scope": "team"}
                await client.call_tool("memory_store", lesson)
                found = await client.call_tool("memory_search", {"query": "deploys", "scope": "team"})
                answers["found"] = str(found.structured_content)

    anyio.run(talk)
    assert "team" in json.dumps(answers["tools"]["memory_store"].input_schema)
    assert "the people of one team" in json.dumps(answers["tools"]["memory_store"].input_schema)
    assert "Tuesdays" in answers["found"]
    assert (home / "memory" / "team" / "blue" / "records" / "deploys.md").is_file()
