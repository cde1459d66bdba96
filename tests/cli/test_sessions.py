"""`vade sessions` as a person and a script use it."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vademecum import Message, Role, Text, Used
from vademecum.errors import NotVisible
from vademecum.interfaces.cli.app import run
from vademecum.memory import connect
from vademecum.types import Origin

DATA = Path(os.environ.get("VADE_DATA", "")) / "transcripts"


class Vade:
    """Runs `vade sessions` in a project folder with a home of its own."""

    def __init__(self, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.home, self.capsys = home, capsys
        self.code, self.out, self.err = 0, "", ""

    def __call__(self, *words: str) -> str:
        self.code = run(["sessions", *words])
        captured = self.capsys.readouterr()
        self.out, self.err = captured.out, captured.err
        return self.out

    def json(self, *words: str) -> Any:
        self(*words, "--json")
        return json.loads(self.out)

    def fails(self, *words: str, code: int = 1) -> str:
        self(*words)
        assert self.code == code, (self.code, self.out, self.err)
        assert len(self.err.strip().split("\n")) == 1, self.err
        return self.err


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    project = tmp_path / "project"
    project.mkdir()
    monkeypatch.chdir(project)
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("HOME", str(tmp_path / "ada"))
    return Vade(tmp_path / "home", capsys)


@pytest.fixture
def sample(tmp_path: Path, vade: Vade) -> Path:
    """A session that Claude Code left for this project."""
    call = {"type": "tool_use", "id": "toolu_1", "name": "Bash", "input": {"command": "cat deploy.md"}}
    result = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "Deploys go to Frankfurt.\x1b[31m"}
    said = [
        ("user", "Where do we deploy the billing service?"),
        ("assistant", [{"type": "text", "text": "I look it up."}, call]),
        ("user", [result]),
        ("assistant", [{"type": "text", "text": "The billing service goes to Frankfurt."}]),
    ]
    lines = [
        {
            "type": role,
            "uuid": f"u{at}",
            "parentUuid": f"u{at - 1}" if at else None,
            "sessionId": "s-1",
            "cwd": str(tmp_path / "project"),
            "timestamp": f"2026-11-15T08:00:0{at}.000Z",
            "message": {"role": role, "content": content, "id": f"m{at}"},
        }
        for at, (role, content) in enumerate(said)
    ]
    path = tmp_path / "ada" / ".claude" / "projects" / "-project" / "s-1.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    return path


def test_nothing_is_here_at_first_and_the_way_on_is_named(vade: Vade) -> None:
    assert "vade sessions import --all" in vade()
    assert vade.json("list")["sessions"] == []
    assert vade("import", "--all") == "no transcript found\n"
    assert vade.code == 0


def test_a_session_is_imported_listed_shown_searched_read_renamed_and_exported(
    vade: Vade, sample: Path, tmp_path: Path
) -> None:
    (done,) = vade.json("import", "--all")["imported"]
    assert (done["outcome"], done["added"], done["path"]) == ("new", 4, str(sample))
    id = done["session"]
    assert vade("import", str(sample)) == "1 same\n"
    (listed,) = vade.json("list")["sessions"]
    assert (listed["id"], listed["messages"], listed["ended"]) == (id, 4, True)
    assert listed["name"] == "Where do we deploy the billing service?"
    assert id in vade("list")
    shown = vade("show", id[:15])
    assert "I look it up." in shown
    assert "[Bash" in shown
    assert "\x1b" not in shown
    assert len(vade.json("show", id, "--last", "2")["lines"]) == 2

    (first, *_) = vade.json("search", "billing service Frankfurt")["results"]
    assert (first["session_id"], first["turn"], first["role"]) == (id, 1, "assistant")
    assert f"{id}#L{first['line']} · turn 1" in vade("search", "Frankfurt")
    assert vade("search", "zebra") == "nothing found\n"

    assert "Deploys go to Frankfurt." in vade("get", id, "toolu_1")
    (line,) = vade.json("get", id, str(first["line"]))["lines"]
    assert line["event"]["message"]["parts"][0]["text"] == "The billing service goes to Frankfurt."

    assert "now called Billing" in vade("rename", id, "Billing")
    assert vade.json("list")["sessions"][0]["name"] == "Billing"
    for ending in ("html", "md", "jsonl"):
        out = tmp_path / f"out.{ending}"
        assert vade("export", "billing", str(out)) == f"wrote {out}\n"
        assert "Frankfurt" in out.read_text()
    assert "<title>Billing</title>" in (tmp_path / "out.html").read_text()
    assert "--force" in vade.fails("export", id, str(tmp_path / "out.md"))
    vade("export", id, str(tmp_path / "out.md"), "--force")
    assert vade.code == 0


def test_sessions_of_other_projects_are_seen_with_all_only(
    vade: Vade, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    id = vade.json("import", "--all")["imported"][0]["session"]
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    assert vade.json("list")["sessions"] == []
    assert vade.json("search", "Frankfurt")["results"] == []
    assert "no session" in vade.fails("show", id)
    assert [each["id"] for each in vade.json("list", "--all")["sessions"]] == [id]
    assert vade.json("search", "Frankfurt", "--all")["results"]
    assert "I look it up." in vade("show", id, "--all")


def test_wrong_calls_are_refused_in_one_line(vade: Vade, sample: Path, tmp_path: Path) -> None:
    assert "--all" in vade.fails("import", code=2)
    assert "--all" in vade.fails("import", str(sample), "--all", code=2)
    assert "nowhere" in vade.fails("import", str(tmp_path / "nowhere"))
    id = vade.json("import", "--all")["imported"][0]["session"]
    assert ".html" in vade.fails("export", id, "out.pdf", code=2)
    assert "inside the memory folder" in vade.fails("export", id, str(vade.home / "transcripts" / "x.jsonl"))
    assert "toolu_9" in vade.fails("get", id, "toolu_9")


def test_incognito_neither_imports_nor_shows(vade: Vade, sample: Path) -> None:
    assert "incognito" in vade.fails("import", "--all", "--incognito")
    vade("import", "--all")
    assert vade.json("list", "--incognito")["sessions"] == []


def test_an_agent_may_search_but_not_import_export_or_look_everywhere(
    vade: Vade, sample: Path, tmp_path: Path
) -> None:
    vade("import", "--all")
    agent = connect(home=vade.home, origin=Origin.AGENT)
    (session,) = agent.sessions.list()
    assert agent.sessions.search("Frankfurt").hits
    assert agent.sessions.get(session.id, "toolu_1")
    for refused in (
        lambda: agent.sessions.import_all(sample),
        lambda: agent.sessions.export(session.id, tmp_path / "x.md"),
        lambda: agent.sessions.list(all=True),
        lambda: agent.sessions.search("x", all=True),
    ):
        with pytest.raises(NotVisible):
            refused()
    assert not connect(home=vade.home, audience="group").sessions.list()


@pytest.mark.full
@pytest.mark.skipif(
    not os.environ.get("VADE_DATA") or not DATA.is_dir(),
    reason="VADE_DATA does not name a folder with real transcripts in it",
)
def test_real_transcripts_are_imported_searched_and_exported(vade: Vade, tmp_path: Path) -> None:
    vade("import", str(DATA))
    assert vade.code == 0, vade.err
    found = vade.json("list", "--all")["sessions"]
    assert found
    assert vade.json("search", "test failure error", "--all")["results"]
    for each in found:
        for ending in ("html", "md", "jsonl"):
            vade("export", each["id"], str(tmp_path / f"{each['id']}.{ending}"), "--all")
            assert vade.code == 0, vade.err


# -------------------------------------------------------------------- what a session took


def kept_usage(vade: Vade, *calls: Used) -> str:
    """A session with these calls in it, kept by several hosts one after another."""
    memory = connect(origin=Origin.AGENT)
    log = memory.sessions.new(id="talk", model="small")
    memory.sessions.record(log, [Message(Role.USER, (Text("How long is it?"),))])
    for each in calls:
        memory.sessions.open("talk").append(each)
    return log.session


COUNTED = (
    Used(input=1000, output=20, total=1020),
    Used(output=5, total=505, extra={"for": "flush", "read": 500}),
)


def test_what_a_session_took_is_told_at_every_door(vade: Vade, tmp_path: Path) -> None:
    kept_usage(vade, *COUNTED, Used(input=2000, output=30, cached=900, cost=0.25, model="large"))
    told = "3,500 tokens in, 55 out, 3 calls, $0.2500 for 1 of them"
    assert told in vade("show", "talk")
    listed = vade("list")
    assert "3,555" in listed
    assert "$0.25" in listed
    wanted = {"calls": 3, "input": 3500, "output": 55, "cached": 900, "total": 3555, "cost": 0.25}
    wanted |= {"priced": 1, "estimated": 0}
    (session,) = vade.json("list")["sessions"]
    assert session["usage"] == wanted
    assert vade.json("show", "talk")["usage"] == wanted
    memory = connect(origin=Origin.AGENT)
    assert memory.sessions.list()[0].usage._asdict() == wanted
    assert memory.sessions.open("talk").usage()._asdict() == wanted
    for ending in (".html", ".md"):
        vade("export", "talk", str(tmp_path / f"talk{ending}"))
        assert told in (tmp_path / f"talk{ending}").read_text()


def test_a_cost_that_nobody_said_is_not_made_up(vade: Vade) -> None:
    kept_usage(vade, *COUNTED, Used(output=1, total=91, extra={"about": 90}))
    assert "about 1,590 tokens in, 26 out, 3 calls\n" in vade("show", "talk")
    assert "$" not in vade("list")
    (session,) = vade.json("list")["sessions"]
    assert session["usage"]["cost"] is None
    assert session["usage"]["estimated"] == 1


def test_an_imported_session_has_what_its_transcript_says(vade: Vade, tmp_path: Path) -> None:
    assert vade("list") is not None
    used = {"input_tokens": 10, "cache_read_input_tokens": 90, "output_tokens": 7}
    lines: list[dict[str, Any]] = [
        {"type": "user", "uuid": "u1", "message": {"role": "user", "content": "How long is the table?"}},
        {
            "type": "assistant",
            "uuid": "u2",
            "parentUuid": "u1",
            "costUSD": 0.5,
            "message": {
                "role": "assistant",
                "id": "m2",
                "model": "large-1",
                "content": [{"type": "text", "text": "Four metres."}],
                "usage": used,
            },
        },
    ]
    for at, line in enumerate(lines):
        line |= {
            "sessionId": "s-9",
            "cwd": str(tmp_path / "project"),
            "timestamp": f"2026-11-15T08:00:0{at}Z",
        }
    path = tmp_path / "s-9.jsonl"
    path.write_text("".join(json.dumps(each) + "\n" for each in lines))
    assert vade("import", str(path)).endswith("\n1 new\n")  # of this project: nothing more to say
    (session,) = vade.json("list")["sessions"]
    assert session["usage"]["input"] == 100
    assert session["usage"]["cost"] == 0.5
    assert session["model"] == "large-1"
    assert "100 tokens in, 7 out, 1 call, $0.5000" in vade("show", session["id"])


def test_a_session_that_called_nothing_says_nothing_of_it(vade: Vade) -> None:
    kept_usage(vade)
    assert "tokens in" not in vade("show", "talk")
    assert vade.json("show", "talk")["usage"]["calls"] == 0


def test_a_project_without_sessions_names_the_command_for_those_of_other_projects(
    vade: Vade, sample: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    monkeypatch.chdir(other)
    assert "1 session of other projects: `vade sessions list --all`" in vade("import", str(sample))
    assert vade("list") == "no sessions of this project; 1 session of others: `vade sessions list --all`\n"
    assert run(["status"]) == 0
    assert "elsewhere 1 session: `vade sessions list --all`" in vade.capsys.readouterr().out
    assert run(["search", "zzqqxx"]) == 0
    found = vade.capsys.readouterr().out
    assert "`vade sessions search --all` searches 1 session of other projects." in found
    assert run(["search", "Frankfurt"]) == 0
    assert "1 session of other projects may answer: `vade search --all`" in vade.capsys.readouterr().out
    assert run(["search", "--all", "Frankfurt"]) == 0
    assert "In sessions of other projects:" in vade.capsys.readouterr().out
    assert run(["search", "--all", "--json", "Frankfurt"]) == 2
    assert "vade sessions search --all --json" in vade.capsys.readouterr().err
    assert "Frankfurt" in vade("search", "--all", "Frankfurt")
    assert "1 session of other projects may answer: `vade sessions search --all`" in vade(
        "search", "Frankfurt"
    )
    monkeypatch.setenv("CLAUDECODE", "1")  # an agent learns nothing of other projects
    assert "of others" not in vade("list")
    assert run(["search", "Frankfurt"]) == 0
    assert "other projects" not in vade.capsys.readouterr().out
