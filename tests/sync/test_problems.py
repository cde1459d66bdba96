"""What a status says after a sync: "everything was sent" only if the other side has it."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from sync.test_folder import Machine, meet
from vademecum.interfaces.cli.app import run

if TYPE_CHECKING:
    from pathlib import Path

SENT = "everything was sent"


@pytest.fixture
def two(tmp_path: Path) -> tuple[Machine, Machine]:
    carrier = tmp_path / "carrier"
    carrier.mkdir()
    one = Machine(tmp_path, "one", carrier)
    other = Machine(tmp_path, "two", carrier, one.joined.key)
    meet(one, other)
    return one, other


def vade(capsys: pytest.CaptureFixture[str], machine: Machine, *words: str) -> str:
    run([*words, "--home", str(machine.base / "home")])
    return capsys.readouterr().out


def problems(capsys: pytest.CaptureFixture[str], machine: Machine) -> list[str]:
    """The problems that a sync leaves, which all commands must name."""
    run(["sync", "--home", str(machine.base / "home")])
    said = capsys.readouterr().out
    found: list[str] = json.loads(vade(capsys, machine, "sync", "status", "--json"))["problems"]
    text = vade(capsys, machine, "sync", "status")
    findings: list[dict[str, Any]] = json.loads(vade(capsys, machine, "status", "--json"))["findings"]
    named = [each["why"] for each in findings if each["what"] == "sync"]
    assert named == found
    assert (SENT in text) is (not found)
    assert ("nothing new" not in said) or not found
    assert all(each in text for each in found)
    return found


def file_of(machine: Machine, other: Machine) -> Path:
    """The file of a machine in the folder."""
    with machine.memory().home.disk("hub", "folder", machine.joined.workspace, "global") as folder:
        from vademecum.sync.stream_log import DiskLog

        name = DiskLog(folder).replica
    return next((other.joined.path / "vade-sync/global").glob(f"{name}.*"))


@pytest.mark.parametrize("how", ["zeros", "cut off", "empty", "shorter", "no seals"])
def test_a_damaged_file_of_another_machine_is_named_until_it_is_whole(
    how: str, two: tuple[Machine, Machine], capsys: pytest.CaptureFixture[str]
) -> None:
    one, other = two
    assert problems(capsys, one) == []
    file = file_of(other, one)
    whole = file.read_bytes()
    lines = whole.splitlines(keepends=True)
    bad = {"zeros": bytes(len(whole)), "cut off": whole[:-20], "empty": b"", "shorter": b"".join(lines[:2])}
    if how == "no seals":
        other.memory().store("Another.", key="another", scope="global")
        other.sync()
        whole = file.read_bytes()
        stripped = [json.loads(line) for line in whole.splitlines()[len(lines) :]]
        for each in stripped:
            del each["seal"]
        encode = json.JSONEncoder(ensure_ascii=False, sort_keys=True, separators=(",", ":")).encode
        bad[how] = b"".join([*lines, *(encode(each).encode() + b"\n" for each in stripped)])
    file.write_bytes(bad[how])
    [problem] = problems(capsys, one)
    reasons = {"empty": "is empty", "shorter": "fewer changes", "no seals": "no seal"}
    assert reasons.get(how, "cut off or damaged") in problem
    file.write_bytes(whole)
    assert problems(capsys, one) == []


def test_a_file_that_is_not_utf8_and_a_place_that_waits_for_an_answer_are_problems(
    two: tuple[Machine, Machine], capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = two
    broken = one.top / "records/broken.md"
    broken.write_bytes(b"\xff\xfe")
    [problem] = problems(capsys, one)
    assert "broken.md" in problem
    broken.unlink()
    for number in range(30):
        one.memory().store(f"Text {number}.", key=f"k{number}", scope="global")
    assert problems(capsys, one) == []
    for number in range(30):
        (one.top / f"records/k{number}.md").unlink()
    [problem] = problems(capsys, one)
    assert "are gone" in problem
    run(["sync", "--restore", "--home", str(one.base / "home")])
    capsys.readouterr()
    assert problems(capsys, one) == []


def test_another_key_is_a_problem_and_a_conflict_copy_is_named(
    two: tuple[Machine, Machine], capsys: pytest.CaptureFixture[str]
) -> None:
    one, _ = two
    file = one.joined.path / "vade-sync/workspace.json"
    copy = file.with_name("workspace (conflicted copy).json")
    copy.write_bytes(file.read_bytes())
    assert "workspace (conflicted copy).json" in vade(capsys, one, "sync")
    file.write_text(file.read_text().replace('"check": "', '"check": "f')[:-1])
    record = json.loads(copy.read_text())
    file.write_text(json.dumps({**record, "check": "f" * 64}))
    [problem] = problems(capsys, one)
    assert "another key" in problem
