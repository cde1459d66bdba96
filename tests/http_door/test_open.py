"""`vade open` brings a person to the page: of the server that runs, or of one that it starts."""

from __future__ import annotations

import os
import re
import socket
import time
from typing import TYPE_CHECKING
from urllib.parse import parse_qs, urlsplit

import pexpect
import pytest

from http_door.serving import HANG, served
from vade_command import VADE
from vademecum.interfaces.http.serve import find_server
from vademecum.memory import connect
from vademecum.store import Home
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture
def browser(tmp_path: Path) -> tuple[Path, dict[str, str]]:
    """A browser that only writes down the address it is asked to open."""
    asked, program = tmp_path / "asked", tmp_path / "browser"
    program.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}\n')
    program.chmod(0o755)
    return asked, {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "BROWSER": str(program)}


def opened(asked: Path) -> str:
    """The address that the browser was asked for, once it was."""
    ends = time.monotonic() + HANG
    while not asked.exists() or not asked.read_text():
        assert time.monotonic() < ends, "no browser was opened"
        time.sleep(0.02)
    return asked.read_text()


def test_a_record_opens_on_its_page_by_a_link_that_leads_to_it(
    tmp_path: Path, browser: tuple[Path, dict[str, str]]
) -> None:
    asked, environ = browser
    home, project = tmp_path / "home", tmp_path / "atlas"
    project.mkdir()
    connect(home=home, cwd=project, environ={}, origin=Origin.USER).store("At ten.", key="deploys")
    command = ["--home", str(home), "open", "deploys", "--web"]
    process = pexpect.spawn(VADE, command, cwd=str(project), env=environ, encoding="utf-8", timeout=HANG)
    try:
        process.expect(r"listening on http://127\.0\.0\.1:(\d+)/")
        link = urlsplit(opened(asked))
        assert link.path == "/enter"
        assert parse_qs(link.query)["to"] == ["/records/deploys?scope=project"]
    finally:
        process.close(force=True)


@pytest.mark.full
def test_a_server_of_this_memory_is_known_and_nothing_else_is_taken_for_one(tmp_path: Path) -> None:
    with served(tmp_path / "atlas", HOME=str(tmp_path)) as server:
        own = Home(server.home)
        assert find_server(server.port, own) == (True, f"http://127.0.0.1:{server.port}")
        assert find_server(server.port, Home(tmp_path / "other")) == (True, "")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    assert find_server(port, own) == (False, "")


@pytest.mark.full
def test_without_a_key_the_file_of_none_is_opened_but_the_page(
    tmp_path: Path, browser: tuple[Path, dict[str, str]]
) -> None:
    asked, environ = browser
    process = pexpect.spawn(
        VADE, ["--home", str(tmp_path / "home"), "open"], cwd=str(tmp_path), env=environ, encoding="utf-8"
    )
    try:
        process.expect(r"listening on http://127\.0\.0\.1:(\d+)/", timeout=HANG)
        assert re.match(r"http://127\.0\.0\.1:\d+/enter\?key=\S+&to=/$", opened(asked))
    finally:
        process.close(force=True)
