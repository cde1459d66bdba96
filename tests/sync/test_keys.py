"""The key of a shared folder: one for all machines, also when files arrive late, and how it is changed."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import jsonschema
import pytest

from allowing import allow
from sync.test_folder import Machine, meet
from vademecum.interfaces.cli.app import run
from vademecum.store import Home
from vademecum.sync import facts, membership
from vademecum.sync import folder_sync as shared
from vademecum.sync.facts import seal
from vademecum.sync.workspace_key import WrongKey

SCHEMAS = Path(__file__).parents[2] / "docs/schemas"


@pytest.fixture
def carrier(tmp_path: Path) -> Path:
    (tmp_path / "carrier").mkdir()
    return tmp_path / "carrier"


def vade(capsys: pytest.CaptureFixture[str], machine: Machine, *words: str) -> dict[str, Any]:
    allow(machine.base / "home")
    code = run([*words, "--json", "--home", str(machine.base / "home")])
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert code == 0, told
    return told


def refused_by(machine: Machine) -> list[str]:
    return [why for each in machine.sync() for why in each.done.refused]


def begin_late(tmp_path: Path, carrier: Path) -> tuple[Machine, Machine]:
    """Two machines that each began the folder, since its first file arrived late at the second one."""
    one = Machine(tmp_path, "one", carrier)
    one.sync()
    file = carrier / "vade-sync/workspace.json"
    content = file.read_bytes()
    file.unlink()
    two = Machine(tmp_path, "two", carrier)
    two.sync()
    file.rename(file.with_name("workspace (two's conflicted copy).json"))
    file.write_bytes(content)
    return one, two


def test_a_machine_that_began_the_folder_with_a_key_of_its_own_is_told_at_once_and_repaired(
    tmp_path: Path, carrier: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one, two = begin_late(tmp_path, carrier)
    assert len(refused_by(one)) == 1
    sent = sum(len(path.read_bytes()) for path in carrier.rglob("*.jsonl"))
    two.memory().store("Not sent.", key="waits", scope="global")
    with pytest.raises(WrongKey, match="with a key of its own"):
        two.sync()
    assert sum(len(path.read_bytes()) for path in carrier.rglob("*.jsonl")) == sent
    monkeypatch.setenv("VADE_SYNC_KEY", vade(capsys, one, "sync", "key")["keys"][0]["key"])
    vade(capsys, two, "sync", "key", "set")
    two.joined = shared.find_folder(two.memory().home)
    assert refused_by(one) == []
    meet(one, two)
    assert one.files() == two.files()
    assert {"records/machine-one.md", "records/machine-two.md", "records/waits.md"} <= set(one.files())


def test_a_lost_or_older_description_of_the_folder_is_written_again(tmp_path: Path, carrier: Path) -> None:
    one = Machine(tmp_path, "one", carrier)
    file = carrier / "vade-sync/workspace.json"
    first = file.read_bytes()
    file.unlink()
    one.sync()
    assert json.loads(file.read_bytes()) == json.loads(first)
    shared.rotate_folder_key(one.memory().home, one.joined)
    one.joined = shared.find_folder(one.memory().home)
    second = file.read_bytes()
    file.write_bytes(first)  # a carrier that brings back last week
    one.sync()
    assert file.read_bytes() == second != first


def test_a_changed_key_is_asked_for_and_a_thief_of_the_old_one_is_refused(
    tmp_path: Path, carrier: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Machine(tmp_path, "one", carrier)
    two = Machine(tmp_path, "two", carrier, one.joined.key)
    meet(one, two)
    two.memory().store("Not sent yet.", key="late", scope="global")
    old = one.joined
    allow(one.base / "home")
    assert run(["sync", "key", "rotate", "--json", "--home", str(one.base / "home")]) == 2  # asks for --yes
    capsys.readouterr()
    assert shared.find_folder(one.memory().home).key == old.key
    told = vade(capsys, one, "sync", "key", "rotate", "--yes")
    schema = json.loads((SCHEMAS / "sync-key-rotate.json").read_text("utf-8"))
    jsonschema.Draft202012Validator(schema).validate(told)
    assert told["generation"] == 2
    one.joined = shared.find_folder(one.memory().home)
    with pytest.raises(WrongKey, match="another machine changed the key"):
        two.sync()
    thief = Machine(tmp_path, "thief", carrier, one.joined.key)
    with monkeypatch.context() as patch:
        patch.setattr(facts, "seal", lambda fact, key: seal(fact, old.key.encode()))
        thief.sync()
    assert one.joined.key == told["key"].replace("-", "")
    monkeypatch.setenv("VADE_SYNC_KEY", told["key"])
    vade(capsys, two, "sync", "key", "set")
    two.joined = shared.find_folder(two.memory().home)
    meet(one, two)
    [why] = refused_by(one)
    assert why.endswith(": it has another key")
    assert one.files() == two.files()
    assert "records/late.md" in one.files()
    assert "records/machine-thief.md" not in one.files()
    third = Machine(tmp_path, "third", carrier, one.joined.key)
    meet(third, one, two)
    assert third.files() == one.files()
    one.memory().archive.purge("machine-two", scope="global")
    meet(one, two, third)
    assert not [
        path for path in carrier.rglob("*") if path.is_file() and b"two is here." in path.read_bytes()
    ]
    assert "records/machine-two.md" not in third.files()


def test_a_rotation_that_is_killed_is_finished_or_forgotten(
    tmp_path: Path, carrier: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one = Machine(tmp_path, "one", carrier)
    one.sync()
    for step in ("_replace", "settle_staged"):
        with monkeypatch.context() as patch:
            patch.setattr(shared, step, lambda *given: 1 / 0)
            with pytest.raises(ZeroDivisionError):
                shared.rotate_folder_key(one.memory().home, one.joined)
        one.memory().store(f"Since {step}.", key=f"since{step}".replace("_", "-"), scope="global")
        one.joined = shared.find_folder(one.memory().home)
        one.sync()
    assert shared.read_folder_key(one.memory().home).record.generation == 2  # type: ignore[union-attr]
    one.joined = shared.find_folder(one.memory().home)
    two = Machine(tmp_path, "two", carrier, one.joined.key)
    meet(two, one)
    assert one.files() == two.files()


def test_the_key_is_shown_with_its_place_and_copied_to_paper(
    tmp_path: Path, carrier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Machine(tmp_path, "one", carrier)
    [shown] = vade(capsys, one, "sync", "key")["keys"]
    assert shown["key"].replace("-", "") == one.joined.key == Path(shown["file"]).read_text().strip()
    page = tmp_path / "page.txt"
    assert run(["sync", "key", "paper", str(page), "--home", str(one.base / "home")]) == 0
    assert shown["key"] in page.read_text()
    assert page.stat().st_mode & 0o777 == 0o600
    assert run(["sync", "key", "paper", str(page), "--home", str(one.base / "home")]) == 1
    assert "already exists" in capsys.readouterr().err


def test_no_page_is_made_of_a_key_that_is_not_here(
    tmp_path: Path, carrier: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    one = Machine(tmp_path, "one", carrier)
    [shown] = vade(capsys, one, "sync", "key")["keys"]
    Path(shown["file"]).unlink()
    page = tmp_path / "page.txt"
    assert run(["sync", "key", "paper", str(page), "--home", str(one.base / "home")]) == 1
    assert "is not here" in capsys.readouterr().err
    assert not page.exists()


def test_a_workspace_without_its_key_is_found_beside_another_one_at_the_same_hub(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = "https://hub.example"
    joined = [
        SimpleNamespace(workspace=name, kind="personal", url=url, key=key)
        for name, key in (("a", b"K"), ("b", None))
    ]
    monkeypatch.setattr(membership, "list_memberships", lambda home: joined)
    monkeypatch.setattr(membership, "key_of", lambda home, each: each.key)
    home = Home(tmp_path)
    found = [membership.find_joined(home, url, keyless=keyless) for keyless in (True, False)]
    assert [each and each.workspace for each in found] == ["b", "a"]
