"""`vade add --type`, `vade knowledge` and `vade review verify` as a person and a script use them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from allowing import allow
from vademecum.interfaces.cli.app import run
from vademecum.memory import connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


class Vade:
    """Runs `vade` in a project folder with a home of its own."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base, self.capsys = base, capsys
        self.code, self.out, self.err = 0, "", ""

    def __call__(self, *words: str) -> str:
        self.code = run(list(words))
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
    allow(tmp_path / "home")
    return Vade(tmp_path, capsys)


def agent(base: Path, **given: Any) -> Any:
    return connect(home=base / "home", cwd=base / "project", origin=Origin.AGENT, **given)


def test_nothing_is_learned_at_first_and_the_way_on_is_named(vade: Vade) -> None:
    assert "--type discovery" in vade("knowledge")
    assert vade.json("knowledge", "list")["lessons"] == []
    assert vade.json("knowledge", "stats")["total"]["count"] == 0
    assert vade("knowledge", "list", "--type", "rule") == "no such lessons\n"
    assert "nothing to do" in vade("knowledge", "prune")


def test_every_type_is_learned_from_the_command_line(vade: Vade) -> None:
    vade(
        "add",
        "--type",
        "discovery",
        "Config uses YAML",
        "--example",
        "a.py",
        "--example",
        "b.py",
        "--tag",
        "x",
    )
    vade("add", "--type", "solution", "it breaks", "--solution", "mend it", "--confidence", "0.6")
    vade("add", "--type", "pattern", "- begins with a dash")
    vade("add", "--type", "workflow", "--step", "build", "--step", "ship", "--success-rate", "0")
    vade("add", "--type", "failure", "it burned", "--impact", "ashes", "--prevention", "water")
    vade("add", "--type", "rule", "no prints", "--path", "src/", "--scope", "global")
    found = {each["type"]: each for each in vade.json("knowledge", "list")["lessons"]}
    assert len(found) == 6
    assert (found["discovery"]["fact"], found["discovery"]["examples"]) == (
        "Config uses YAML",
        ["a.py", "b.py"],
    )
    assert (found["solution"]["solution"], found["solution"]["confidence"]) == ("mend it", 0.6)
    assert found["pattern"]["pattern"] == "- begins with a dash"
    assert (found["workflow"]["sequence"], found["workflow"]["success_rate"]) == (["build", "ship"], 0)
    assert found["failure"]["prevention"] == "water"
    assert (found["rule"]["path_prefix"], found["rule"]["scope"]) == ("src/", "global")
    assert [each["trust"] for each in found.values()] == ["user"] * 6
    assert [each["type"] for each in vade.json("knowledge", "list", "--scope", "global")["lessons"]] == [
        "rule"
    ]


def test_learning_twice_says_that_it_confirms(vade: Vade) -> None:
    assert vade("add", "--type", "discovery", "Config uses YAML").startswith(
        "learned as config-uses-yaml (#1, project"
    )
    again = vade.json("add", "--type", "discovery", "Config uses YAML")
    assert (again["outcome"], again["trust"]) == ("confirmed", "user")
    assert again["confidence"] > 0.8
    assert "config-uses-yaml applied 1 time" in vade("knowledge", "applied", "1")
    assert vade.json("knowledge", "applied", "config-uses-yaml")["applied"] == 2


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("add", "--type", "hunch", "x"), 2),
        (("add", "--type", "discovery"), 2),
        (("add", "--type", "discovery", "x", "--solution", "y"), 2),
        (("add", "--type", "solution", "x"), 2),
        (("add", "--type", "solution", "x", "--error", "y", "--solution", "z"), 2),
        (("add", "--type", "workflow", "x"), 2),
        (("add", "--type", "discovery", "x", "--confidence", "2"), 2),
        (("knowledge", "applied", "nothing"), 1),
        (("knowledge", "prune", "--min-confidence", "7"), 2),
        (("knowledge", "import", "nowhere.json"), 1),
        (("review", "verify", "nothing"), 1),
        (("add", "--type", "discovery", "x", "--scope", "session"), 2),
    ],
)
def test_a_wrong_call_is_one_line_and_an_exit_code(vade: Vade, words: tuple[str, ...], code: int) -> None:
    assert vade.fails(*words, code=code).startswith("vade: ")


def test_a_badge_is_shown_until_a_person_verifies(vade: Vade) -> None:
    agent(vade.base, session="s1").knowledge.learn("discovery", fact="The agent believes this")
    assert "[unverified]" in vade("knowledge", "list")
    assert "[unverified]" in vade("show", "the-agent-believes-this")
    assert "The agent believes this" in vade("review", "verify", "the-agent-believes-this")
    assert "[unverified]" not in vade("knowledge", "list")
    assert vade.json("show", "1")["trust"]["level"] == "verified"
    assert "no longer verified" in vade("review", "verify", "1", "--off")
    assert "[unverified]" in vade("show", "1")


def test_old_lessons_are_put_away_when_told_to_and_come_back(vade: Vade) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=200)
    old = agent(vade.base, now=lambda: long_ago)
    old.knowledge.learn("discovery", fact="An old belief")
    old.knowledge.learn("discovery", fact="A second one, which a person verified")
    vade("review", "verify", "2")
    vade("add", "--type", "discovery", "A fresh one")
    told = vade("knowledge", "prune")
    assert "an-old-belief" in told
    assert "a-second-one" not in told
    assert len(vade.json("knowledge")["lessons"]) == 3
    done = vade.json("knowledge", "prune", "--apply")
    assert (done["applied"], len(done["files"])) == (True, 1)
    assert {each["key"] for each in vade.json("knowledge")["lessons"]} == {
        "a-second-one-which-a-person", "a-fresh-one",
    }  # fmt: skip
    assert "nothing to do" in vade("knowledge", "prune", "--apply")
    vade("undo", done["run"])
    assert len(vade.json("knowledge")["lessons"]) == 3
    assert "nothing to do" in vade("knowledge", "prune", "--max-age-days", "0", "--min-confidence", "0")


def test_a_large_prune_asks_first(vade: Vade) -> None:
    long_ago = datetime.now(UTC) - timedelta(days=200)
    old = agent(vade.base, now=lambda: long_ago)
    for number in range(25):
        old.knowledge.learn("discovery", fact=f"Old belief number {number}")
    vade.fails("knowledge", "prune", "--apply", code=2)
    assert len(vade.json("knowledge")["lessons"]) == 25
    vade("knowledge", "prune", "--apply", "--yes")
    assert vade.json("knowledge")["lessons"] == []


def test_an_ltm_json_goes_in_and_out(vade: Vade) -> None:
    file = {
        "patterns": {"discoveries": [{"fact": "From elsewhere", "tier": 1}]},
        "metadata": {"version": "1.0"},
    }
    (vade.base / "ltm.json").write_text(json.dumps(file))
    path = str(vade.base / "ltm.json")
    assert vade("knowledge", "import", path).startswith("1 lesson added, 0 updated, 0 known already")
    assert "[waiting]" in vade("knowledge")
    assert vade.json("knowledge", "import", path)["known"] == 1
    vade.fails("knowledge", "export", path)
    vade("knowledge", "export", path, "--force")
    assert json.loads((vade.base / "ltm.json").read_text()) == file


def test_a_file_with_old_dates_is_not_proposed_for_the_archive_the_day_it_comes(vade: Vade) -> None:
    file = {"patterns": {"discoveries": [{"fact": "From long ago", "timestamp": 1_690_000_000}]}}
    (vade.base / "ltm.json").write_text(json.dumps(file))
    for way in (("knowledge", "import"), ("import", "clio", "--scope", "global")):
        vade(*way, str(vade.base / "ltm.json"))
    assert "from-long-ago" in vade("knowledge")
    assert "nothing to do" in vade("knowledge", "prune")
    assert "from-long-ago" not in vade("tidy")


def test_the_figures_are_printed_per_scope_and_type(vade: Vade) -> None:
    vade("add", "--type", "discovery", "Config uses YAML")
    vade("add", "--type", "rule", "no prints", "--scope", "global")
    rows = [line.split()[:3] for line in vade("knowledge", "stats").split("\n")[1:] if line]
    assert ["project", "discovery", "1"] in rows
    assert ["global", "rule", "1"] in rows
    assert ["all", "all", "2"] in rows
    assert vade.json("knowledge", "stats", "--scope", "global")["total"]["count"] == 1
