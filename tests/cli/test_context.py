"""`vade context inspect`, `vade sessions trim` and the session of the demo."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from vademecum.interfaces.cli import sessions as command
from vademecum.interfaces.cli.app import run
from vademecum.memory import connect
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.types import Origin

DATA = Path(os.environ.get("VADE_DATA", "")) / "transcripts"
TASK = "Find out why the nightly import of invoices takes four hours."
NOW = "Please write down what you have found, with the name of each lock."


class Vade:
    """Runs `vade` in a project folder with a home of its own."""

    def __init__(self, base: Path, capsys: pytest.CaptureFixture[str]) -> None:
        self.base, self.home, self.capsys = base, base / "home", capsys
        self.code, self.out, self.err = 0, "", ""

    def __call__(self, *words: str) -> str:
        self.code = run(list(words))
        captured = self.capsys.readouterr()
        self.out, self.err = captured.out, captured.err
        return self.out

    def json(self, *words: str) -> Any:
        self(*words, "--json")
        assert self.code == 0, self.err
        return json.loads(self.out)

    def fails(self, *words: str, code: int = 1) -> str:
        self(*words)
        assert self.code == code, (self.code, self.out, self.err)
        assert len(self.err.strip().split("\n")) == 1, self.err
        assert "Traceback" not in self.err
        return self.err

    def everything(self) -> dict[str, bytes]:
        return {str(each): each.read_bytes() for each in self.base.rglob("*") if each.is_file()}


@pytest.fixture
def vade(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Vade:
    (tmp_path / "project").mkdir()
    monkeypatch.chdir(tmp_path / "project")
    monkeypatch.setenv("VADE_HOME", str(tmp_path / "home"))
    return Vade(tmp_path, capsys)


def talk(rounds: int) -> list[Message]:
    """A session with results long enough to be pruned, and half a day between its two halves."""
    said = [
        Message(Role.SYSTEM, (Text("You are a careful engineer."),), time="2026-11-15T08:00:00Z"),
        Message(Role.USER, (Text(TASK),), time="2026-11-15T08:00:00Z"),
    ]
    for number in range(rounds):
        time = f"2026-11-15T{8 if number < rounds // 2 else 20:02}:{number:02}:00Z"
        call = ToolCall(f"c{number}", "read_file", json.dumps({"path": f"src/{number}.py"}))
        result = ToolResult(f"c{number}", (Text(f"line of {number}\n" * 500),))
        said.append(Message(Role.ASSISTANT, (Text(f"I read part {number}."), call), time=time))
        said.append(Message(Role.TOOL, (result,), time=time))
    return [*said, Message(Role.USER, (Text(NOW),), time="2026-11-15T20:59:00Z")]


@pytest.fixture
def session(vade: Vade) -> list[Message]:
    """A session of our own, called `import`."""
    memory = connect(home=vade.home, cwd=vade.base / "project", origin=Origin.USER)
    log = memory.sessions.new(id="s-1", name="import", model="sonnet")
    said = talk(20)
    memory.sessions.context(log, window=1_000_000, model="sonnet").prepare(said)
    memory.close()
    return said


@pytest.fixture
def foreign(vade: Vade) -> Path:
    """The same session as a list of OpenAI messages."""
    said: list[dict[str, Any]] = []
    for message in talk(20):
        if message.results:
            result = message.results[0]
            said.append({"role": "tool", "tool_call_id": result.id, "content": result.text})
            continue
        calls = [
            {"id": each.id, "type": "function", "function": {"name": each.name, "arguments": each.arguments}}
            for each in message.calls
        ]
        said.append(
            {"role": str(message.role), "content": message.text} | ({"tool_calls": calls} if calls else {})
        )
    path = vade.base / "talk.json"
    path.write_text(json.dumps(said))
    return path


# --- inspect ------------------------------------------------------------------------------------------------


def test_a_small_window_shows_what_is_pruned_trimmed_and_summarized(vade: Vade, foreign: Path) -> None:
    before = vade.everything()
    out = vade("context", "inspect", str(foreign), "--window", "16000")
    assert vade.code == 0
    assert "43 messages" in out
    for word in ("system prompt", "summary block", "user", "assistant", "tool results", "reply reserve"):
        assert word in out
    assert "flush at" in out
    assert f"Current task: {TASK}" in out
    assert out.count(TASK) == 1
    bar = next(line for line in out.split("\n") if line.startswith("["))
    assert set("=%uat.-") <= set(bar)
    assert vade.everything() == before


def test_the_same_is_there_for_programs_and_adds_up(vade: Vade, foreign: Path) -> None:
    found = vade.json("context", "inspect", str(foreign), "--window", "16000")
    assert found["format"] == "messages"
    assert (found["messages"], found["window"], found["limit"]) == (43, 16_000, 12_000)
    assert found["cycles"] >= 1
    assert found["trimmed"] == sum(step["trimmed"] for step in found["steps"]) > 0
    assert found["flushes"] == sum(bool(step["flushed"]) for step in found["steps"]) >= found["cycles"]
    assert found["pruned"]["results"] == found["pruned"]["soft_trims"] + found["pruned"]["hard_clears"] > 0
    assert found["pruned"]["chars"] > 3000
    assert found["used"] <= found["limit"]
    assert abs(sum(found["sections"].values()) - found["window"]) <= len(found["rows"])
    assert "<thread_summary>" in found["summary"]
    assert found["full"] == ""


def test_a_large_window_keeps_everything_and_a_cold_cache_prunes(vade: Vade, session: list[Message]) -> None:
    found = vade.json("context", "inspect", "import", "--window", "1000000")
    assert (found["format"], found["model"], found["cycles"], found["trimmed"]) == (
        "vademecum",
        "sonnet",
        0,
        0,
    )
    assert found["summary"] == ""
    # Twelve hours pass in the middle of the session: what was pruned, was then.
    assert len({step["message"] for step in found["steps"] if step["pruned"]}) >= 1
    assert found["pruned"]["results"] > 0
    off = json.loads(_with(vade, "VADE_PRUNE_MODE", "off", "context", "inspect", "s-1", "--json"))
    assert off["pruned"]["results"] == 0


def _with(vade: Vade, name: str, value: str, *words: str) -> str:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(name, value)
        vade.capsys.readouterr()
        return vade(*words)


def test_our_own_session_is_found_by_id_name_and_path_and_its_trims_do_not_hide_anything(
    vade: Vade, session: list[Message]
) -> None:
    path = next((vade.home / "transcripts").rglob("s-1.jsonl"))
    before = path.read_bytes()
    found = [
        vade.json("context", "inspect", each, "--window", "16000") for each in ("s-1", "import", str(path))
    ]
    assert found[0]["messages"] == len(session)
    for each in found:
        each.pop("source")
    assert found[0] == found[1] == found[2]
    assert path.read_bytes() == before
    vade("sessions", "trim", "s-1", "--window", "16000")
    again = vade.json("context", "inspect", "s-1", "--window", "16000")
    again.pop("source")
    assert again == found[0]


def test_a_learned_ratio_of_the_named_model_counts(vade: Vade, foreign: Path) -> None:
    memory = connect(home=vade.home, cwd=vade.base / "project")
    memory.workspace.state.learned("dense", 1.5)
    memory.close()
    usual = vade.json("context", "inspect", str(foreign))
    dense = vade.json("context", "inspect", str(foreign), "--model", "dense")
    assert (usual["ratio"], dense["ratio"]) == (3.0, 1.5)
    assert dense["tokens"] > usual["tokens"] * 1.8


def test_a_session_that_cannot_fit_is_shown_as_far_as_it_goes(vade: Vade) -> None:
    said = [{"role": "system", "content": "word " * 3000}, {"role": "user", "content": "Hello there"}]
    path = vade.base / "large.json"
    path.write_text(json.dumps(said))
    assert "it could not continue: the context window is full" in vade(
        "context", "inspect", str(path), "--window", "1000"
    )
    assert vade.code == 0


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "is empty"),
        (b"\n\n", "is empty"),
        (b"\x00\x01\xff" * 5000, "not a known transcript format"),
        (b"Dear diary, today I did nothing.\n", "not a known transcript format"),
        (b'{"seq":1,"kind":"started","time":"2026-11-15T08:00:00Z"}\n', "has no messages"),
        (b"[]", "transcript"),
    ],
)
def test_what_is_no_transcript_is_refused_in_one_line(vade: Vade, content: bytes, said: str) -> None:
    path = vade.base / "file.jsonl"
    path.write_bytes(content)
    assert said in vade.fails("context", "inspect", str(path))
    assert not vade.home.exists()


def test_a_folder_a_missing_file_and_an_unknown_session_are_refused_in_one_line(vade: Vade) -> None:
    assert "is a folder" in vade.fails("context", "inspect", str(vade.base))
    assert "does not exist" in vade.fails("context", "inspect", str(vade.base / "missing.jsonl"))
    assert "neither a file nor a visible session" in vade.fails("context", "inspect", "missing")
    os.mkfifo(vade.base / "pipe")
    assert "is not a file" in vade.fails("context", "inspect", str(vade.base / "pipe"))
    assert "--window" in vade.fails("context", "inspect", "missing", "--window", "10", code=2)
    found = json.loads(vade("context", "inspect", "missing", "--json"))
    assert found["error"]["kind"] == "NotFound"


def test_a_torn_log_is_read_as_far_as_it_is_whole(vade: Vade, session: list[Message]) -> None:
    path = next((vade.home / "transcripts").rglob("s-1.jsonl"))
    copy = vade.base / "copy.jsonl"
    lines = path.read_bytes().splitlines(keepends=True)
    copy.write_bytes(b"".join([*lines[:10], lines[10][:50] + b"\n", *lines[11:30], lines[30][:80]]))
    found = vade.json("context", "inspect", str(copy), "--window", "16000")
    assert found["messages"] == 28  # thirty lines, without the first, which begins it, and the torn one


@pytest.mark.parametrize(
    "amounts", [[0, 0], [1, 1], [1, 10_000, 0, 3], [5, 5, 5, 5, 5, 5, 5], [10_000, 1, 1, 1]]
)
@pytest.mark.parametrize("width", [3, 10, 78, 100])
def test_a_bar_is_as_wide_as_asked_and_hides_no_section(amounts: list[int], width: int) -> None:
    cells = command.share_cells(amounts, width)
    assert sum(cells) == (width if any(amounts) and width >= sum(map(bool, amounts)) else sum(cells))
    assert all((count > 0) == (amount > 0) for count, amount in zip(cells, amounts, strict=True))


@pytest.mark.full
@pytest.mark.skipif(not DATA.is_dir(), reason="VADE_DATA names no folder with samples")
@pytest.mark.parametrize("window", ["16000", "200000"])
def test_every_sample_stays_within_its_window(vade: Vade, window: str) -> None:
    found = 0
    for path in sorted(DATA.rglob("*.json*")):
        told = vade.json("context", "inspect", str(path), "--window", window)
        assert told["used"] <= told["limit"]
        assert not told["full"]
        found += 1
    assert found >= 9
    assert not vade.home.exists()


# --- trim ---------------------------------------------------------------------------------------------------


def test_a_session_is_trimmed_by_hand_and_its_log_only_grows(vade: Vade, session: list[Message]) -> None:
    path = next((vade.home / "transcripts").rglob("s-1.jsonl"))
    before = path.read_bytes()
    assert "would leave the window" in vade("sessions", "trim", "import", "--window", "16000", "--dry-run")
    assert path.read_bytes() == before
    found = vade.json("sessions", "trim", "import", "--window", "16000")
    assert found["applied"] is True
    assert found["after"] < found["before"] / 2
    assert len(found["trimmed"]) > 20
    after = path.read_bytes()
    assert after.startswith(before)
    assert len(after) > len(before)
    shown = vade("sessions", "get", "s-1", found["trimmed"][3])
    assert "line of" in shown or "I read part" in shown
    assert "nothing to trim" in vade("sessions", "trim", "s-1", "--window", "1000000")
    assert path.read_bytes() == after


def test_without_a_window_about_half_of_a_session_goes_and_a_short_one_stays(
    vade: Vade, session: list[Message]
) -> None:
    found = vade.json("sessions", "trim", "s-1")
    assert found["before"] * 0.2 < found["after"] < found["before"] * 0.6
    memory = connect(home=vade.home, cwd=vade.base / "project", origin=Origin.USER)
    memory.sessions.context(memory.sessions.new(id="s-2"), window=8000).prepare(talk(0))
    assert "nothing to trim" in vade("sessions", "trim", "s-2")
    assert vade.code == 0


def test_a_session_that_is_not_there_or_may_not_change_is_not_trimmed(
    vade: Vade, session: list[Message]
) -> None:
    assert "no session" in vade.fails("sessions", "trim", "missing")
    assert "incognito" in vade.fails("sessions", "trim", "s-1", "--incognito")
    assert "--window" in vade.fails("sessions", "trim", "s-1", "--window", "0", code=2)


# --- demo ---------------------------------------------------------------------------------------------------


def test_the_demo_shows_that_memorys_own_calls_are_not_found_and_names_the_last_session(vade: Vade) -> None:
    out = vade("demo")
    assert "assistant: Its timer resets at twelve" in out
    assert "memory_search" not in out
    assert 'claude-code: "Why does the harbour crane stop at noon?" · session_get' in out
