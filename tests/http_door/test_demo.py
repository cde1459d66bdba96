"""`vade demo --web`: a made-up year that is there to look at, and gone afterwards."""

from __future__ import annotations

import contextlib
import http.client
import os
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest

from http_door.serving import HANG
from vade_command import VADE
from vademecum.interfaces.cli import demo_year
from vademecum.interfaces.http.views.graph import read_graph
from vademecum.interfaces.http.views.past import travel
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def test_the_year_has_records_of_several_agents_a_past_and_a_graph(tmp_path: Path) -> None:
    home, project = tmp_path / "home", tmp_path / "harbour"
    made = demo_year.fill(home, project, now=NOON)
    with connect(
        home=home, cwd=project, origin=Origin.USER, actor="human:demo", environ={}, now=lambda: NOON
    ) as memory:
        page = memory.browse.table(limit=500)
        assert page.total == made["records"] - made["archived"] >= 50
        assert page.facets["agent"].keys() == {"you", "claude-code", "codex", "cursor"}
        assert not [each for each in page.findings if each.severity == "error"]
        deploys = [each.live for each in memory.show("deploys").entries]
        assert deploys == [False, False, True]
        assert len(memory.sessions.list()) == made["sessions"] >= 10
        assert memory.audit.verify().problems == ()
        graph = read_graph(memory)
        assert len(graph["edges"]) > 30
        assert graph["broken"] == []
        then = travel(memory, "2026-06-01")
        assert then["since"]["archived"] == 2
        assert 0 < then["total"] < page.total
        assert made["notes"] > 40


@pytest.mark.full
@pytest.mark.parametrize("answered", [False, True], ids=["at once", "after an answer"])
def test_the_demo_is_served_and_leaves_nothing_behind(tmp_path: Path, *, answered: bool) -> None:
    pexpect = pytest.importorskip("pexpect")
    environ = {"HOME": str(tmp_path), "PATH": os.environ["PATH"], "TMPDIR": str(tmp_path)}
    process = pexpect.spawn(
        VADE,
        ["demo", "--web", "--port", "0"],
        cwd=str(tmp_path),
        env=environ,
        encoding="utf-8",
        timeout=HANG,
        dimensions=(24, 400),
    )
    try:
        process.expect("a year of memory in")
        process.expect(r"http://127\.0\.0\.1:(\d+)/enter\?key=\S+")
        assert isinstance(process.match, re.Match)
        assert list(tmp_path.glob("vade-demo-*"))
        if answered:
            with contextlib.closing(http.client.HTTPConnection("127.0.0.1", int(process.match[1]))) as page:
                page.request("GET", "/memories.json")
                assert page.getresponse().status == 401
        process.sendintr()
        process.expect(pexpect.EOF)
    finally:
        process.close(force=True)
    assert not list(tmp_path.glob("vade-demo-*"))
    assert not (tmp_path / ".vade").exists()
