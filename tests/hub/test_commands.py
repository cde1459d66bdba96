"""The hub's commands as a person types them, each a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hub.hubs import ask
from vademecum.interfaces.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path

    from hub.databases import Server


@pytest.fixture
def empty(postgres: Server) -> Any:
    name = postgres.database(template="template0")
    yield postgres.url(name)
    postgres.drop(name)


def vade(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> dict[str, Any]:
    code = run([*words, "--json", "--home", str(home)])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0, told
    return told


def refused(capsys: pytest.CaptureFixture[str], home: Path, *words: str) -> dict[str, str]:
    """What a command that fails says."""
    assert run([*words, "--json", "--home", str(home)]) != 0
    told: dict[str, str] = json.loads(capsys.readouterr().out)["error"]
    return told


def start(home: Path, *words: str) -> tuple[subprocess.Popen[str], str]:
    """`vade hub serve` as a process, once it listens."""
    server = subprocess.Popen(
        [
            sys.executable,
            "-m",
            "vademecum",
            "hub",
            "serve",
            "--port",
            "0",
            "--json",
            "--home",
            str(home),
            *words,
        ],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
    )
    assert server.stdout is not None
    lines = iter(server.stdout.readline, "")
    said = [next(lines)]
    while said[-1] != "}\n":
        said.append(next(lines))
    return server, json.loads("".join(said))["url"]


def test_a_hub_is_prepared_served_and_entered_with_the_code_of_its_first_workspace(
    empty: str, postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = vade(capsys, tmp_path, "hub", "migrate", "--database", empty)
    assert first["ran"]
    again = vade(capsys, tmp_path, "hub", "migrate", "--database", postgres.as_role(empty, "hub_migrate"))
    assert again["ran"] == []
    made = vade(
        capsys, tmp_path, "hub", "create", "ours", "--kind", "team", "--owner", "anna",
        "--database", postgres.as_role(empty, "hub_migrate"),
    )  # fmt: skip
    server, url = start(tmp_path, "--database", postgres.as_role(empty, "hub_app"))
    try:
        joined = ask(url, "POST", "/v1/join", body={"code": made["code"], "replica": "aaaaaaaa"}).json
        assert (joined["member"], joined["role"], joined["workspace"]) == ("anna", "owner", made["workspace"])
        assert ask(url, "GET", "/health").status == 200
    finally:
        server.send_signal(signal.SIGTERM)
        assert server.wait(30) in (0, -signal.SIGTERM)
        assert server.stdout is not None
        server.stdout.close()
    assert (tmp_path / "hub.key").stat().st_mode & 0o777 == 0o600


def test_what_is_wrong_with_a_database_is_one_sentence(
    empty: str, postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = "postgresql://hub_app:hunter2hunter2@127.0.0.1:1/none"
    for words in (("migrate",), ("serve",), ("create", "ours")):
        told = refused(capsys, tmp_path, "hub", *words, "--database", closed)
        assert "cannot be reached" in told["message"]
        assert "hunter2" not in json.dumps(told)
    told = refused(capsys, tmp_path, "hub", "serve", "--database", empty)
    assert "holds no hub" in told["message"]
    vade(capsys, tmp_path, "hub", "migrate", "--database", empty)
    told = refused(
        capsys, tmp_path, "hub", "create", "ours", "--database", postgres.as_role(empty, "hub_app")
    )
    assert "may not make workspaces" in told["message"]
    told = refused(capsys, tmp_path, "hub", "create", "x", "--owner", "An na", "--database", empty)
    assert "a member's name" in told["message"]


def test_without_the_extra_the_hub_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "psycopg", None)
    for words in (("migrate",), ("serve",), ("create", "ours")):
        told = refused(capsys, tmp_path, "hub", *words, "--database", "postgresql://x")
        assert told["message"] == "the hub needs psycopg"
        assert "pip install 'vademecum[hub]'" in told["hint"]
