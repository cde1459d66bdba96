"""The key of a personal workspace: asked for at once, repaired by one command, and changed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest

from hub.test_commands import invited
from hub.test_processes import Typist
from hub.test_sync import Machine
from vademecum.errors import Malformed
from vademecum.sync import hub_sync, membership
from vademecum.sync.hub_client import HubRefused
from vademecum.sync.hub_key import keep_hub_key, rotate_hub_key
from vademecum.sync.workspace_key import WrongKey, new_key

if TYPE_CHECKING:
    from pathlib import Path

    from hub.hubs import World


def asked(machine: Typist, typed: str, *words: str) -> str:
    """What a command says that asks for something, which is typed."""
    done = subprocess.run(
        [sys.executable, "-m", "vademecum", *words, "--home", str(machine.base / "home")],
        cwd=machine.base / "project",
        env={**os.environ, "VADE_SCRIPT": "tests"},
        input=typed,
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout + done.stderr


def key_of(machine: Machine) -> str:
    return (membership.key_of(machine.home, machine.joined) or b"").decode()


def refused_by(machine: Machine) -> list[str]:
    return [why for each in machine.sync() for why in each.done.refused]


def texts(machine: Machine) -> set[str]:
    return {path.rpartition("/")[2] for path in machine.files()}


@pytest.fixture
def two(world: World, tmp_path: Path) -> tuple[Machine, Machine]:
    """Two machines that have synced: one has a record `a`, the other a record `b`."""
    one, other = Machine(tmp_path, "one"), Machine(tmp_path, "two")
    key = one.join(world.url, invited(world, "personal"))
    other.join(world.url, one.invite(), key)
    one.memory().store("A is here.", key="a", scope="global")
    other.memory().store("B is here.", key="b", scope="global")
    for machine in (one, other, one):
        machine.sync()
    assert one.files() == other.files()
    return one, other


def test_the_order_of_the_page_join_invite_join_sync_gives_both_machines_one_key(
    world: World, tmp_path: Path
) -> None:
    one, two = Typist(tmp_path, "one"), Typist(tmp_path, "two")
    joined = one.do("hub", "join", world.url, "--code", invited(world, "personal"))
    key = joined.split("need: ")[1].split()[0]
    code = json.loads(one.do("hub", "invite", "--json"))["code"]
    said = asked(two, f"{code}\n{key}\n", "hub", "join", world.url)
    assert "Key of this workspace" in said
    assert "its key, which your other machines need" not in said
    for machine, name in ((one, "one"), (two, "two")):
        machine.do("add", f"{name} is here.", "--key", name, "--scope", "global")
    for machine in (one, two, one, two):
        machine.do("sync")
    assert set(one.files()) == {"one.md", "two.md"}
    assert one.files() == two.files()
    assert json.loads(two.do("sync", "key", "--json"))["keys"][0]["key"] == key


def two_keys(world: World, tmp_path: Path) -> tuple[Machine, Machine]:
    """Two machines of an earlier version, each with a key of its own, that have both sent."""
    one, other = Machine(tmp_path, "one"), Machine(tmp_path, "two")
    one.join(world.url, invited(world, "personal"))
    membership.join_hub(other.home, world.url, one.invite())
    for machine, name in ((one, "a"), (other, "b")):
        world.sql("UPDATE hub.workspace SET key_record = NULL")
        (machine.folder / "key.json").unlink(missing_ok=True)
        if machine is other:
            (machine.folder / "key").write_text(new_key() + "\n")
        machine.memory().store(f"{name} is here.", key=name, scope="global")
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(hub_sync.HubSync, "_check_key", lambda *given: None)
            machine.sync()
    return one, other


def test_a_machine_that_sent_under_a_wrong_key_is_told_at_once_and_repaired_by_one_command(
    world: World, tmp_path: Path
) -> None:
    one, other = two_keys(world, tmp_path)
    assert refused_by(one) == [f"{other.joined.replica}: it has another key"]  # it writes the check
    with pytest.raises(WrongKey, match="another key than the workspace ours"):
        other.sync()
    before = world.sql("SELECT count(*) FROM hub.fact")
    home = ("--home", str(other.base / "home"))
    with pytest.MonkeyPatch.context() as patch:
        from vademecum.interfaces.cli.app import run

        patch.setenv("VADE_SYNC_KEY", key_of(one))
        assert run(["sync", "key", "set", "--json", *home]) == 0
    assert refused_by(one) == []
    assert texts(one) == texts(other) == {"a.md", "b.md"}
    assert one.files() == other.files()
    assert world.sql("SELECT count(*) FROM hub.fact") == before  # sealed again, not sent twice
    assert (refused_by(one), refused_by(other)) == ([], [])


def test_a_workspace_of_an_earlier_version_goes_on_and_gets_its_check_from_a_machine_with_the_key(
    two: tuple[Machine, Machine], world: World
) -> None:
    world.sql("UPDATE hub.workspace SET key_record = NULL")
    for machine in two:
        (machine.folder / "key.json").unlink()
    two[1].sync()
    [(check,)] = world.sql("SELECT key_record->>'check' FROM hub.workspace WHERE kind = 'personal'")
    assert check
    two[0].sync()
    with pytest.raises(WrongKey):
        keep_hub_key(two[0].home, two[0].joined, new_key())


def test_a_changed_key_is_asked_for_and_what_waited_is_sent_with_it(
    two: tuple[Machine, Machine], world: World, tmp_path: Path
) -> None:
    one, other = two
    old = key_of(other)
    other.memory().store("Not sent yet.", key="late", scope="global")
    new = rotate_hub_key(one.home, one.joined, one.sync)
    assert key_of(one) == new != old
    with pytest.raises(WrongKey, match="another machine changed the key of ours"):
        other.sync()
    assert "late.md" not in texts(one)
    thief = Machine(tmp_path, "thief")
    membership.join_hub(thief.home, world.url, one.invite())
    (thief.folder / "key").write_text(old + "\n")
    thief.memory().store("From a thief.", key="stolen", scope="global")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_sync.HubSync, "_check_key", lambda *given: None)
        with pytest.raises(WrongKey):  # the hub names the key that it wants
            thief.sync()
        patch.setattr(
            hub_sync.HubSync,
            "_check_key",
            lambda self, remote, *given: setattr(remote, "check", remote.key["check"]),
        )
        thief.sync()
    keep_hub_key(other.home, other.joined, new)
    other.sync()
    third = Machine(tmp_path, "third")
    third.join(world.url, one.invite(), new)
    for machine in (third, one, other, third):
        assert all(why.startswith(thief.joined.replica) for why in refused_by(machine))
    assert one.files() == other.files() == third.files()
    assert texts(one) == {"a.md", "b.md", "late.md"}
    one.memory().archive.purge("b", scope="global")
    for machine in (one, other, third):
        machine.sync()
    assert "B is here." not in str(world.sql("SELECT convert_from(value, 'UTF8') FROM hub.fact"))
    assert texts(third) == {"a.md", "late.md"}


def test_a_key_that_is_lost_everywhere_is_replaced_and_nothing_is_deleted(
    two: tuple[Machine, Machine],
) -> None:
    from vademecum.interfaces.cli.app import run

    one, other = two
    for machine in two:
        (machine.folder / "key").unlink()
    home = ("--home", str(one.base / "home"))
    assert run(["sync", *home]) == 1
    assert run(["sync", "key", "rotate", "--yes", *home]) == 0
    assert run(["sync", *home]) == 0
    keep_hub_key(other.home, other.joined, key_of(one))
    other.sync()
    assert one.files() == other.files()
    assert texts(one) == {"a.md", "b.md"}


def test_only_an_owner_of_a_personal_workspace_replaces_seals_and_keys(world: World) -> None:
    body = {"seals": [["aaaaaaaa", 1, "0" * 64]]}
    assert world.ask("POST", "/v1/streams/global/seals", body=body).status == 422  # a team
    assert world.ask("POST", "/v1/key", body={"record": {}}).status == 422
    ws, _ = world.workspace("personal")
    token = world.member("mia", "owner", ws=ws)
    for wrong in ({}, {"seals": [["aaaaaaaa", 1]]}, {"seals": [["aaaaaaaa", 0, "0" * 64]]}, {"seals": [1]}):
        assert world.ask("POST", "/v1/streams/global/seals", token, wrong).status == 422
    assert world.ask("POST", "/v1/streams/global/seals", token, body).json == {"replaced": 0}
    for record in (None, {"workspace": "another", "check": "0" * 64}, {"check": "x"}):
        assert world.ask("POST", "/v1/key", token, {"record": record}).status == 422


def test_a_record_that_the_hub_made_up_is_not_taken(two: tuple[Machine, Machine], world: World) -> None:
    one, other = two
    new = rotate_hub_key(one.home, one.joined, one.sync)
    world.sql("UPDATE hub.workspace SET key_record = jsonb_set(key_record, '{ends}', '{}')")
    with pytest.raises(Malformed, match="altered the record"):
        keep_hub_key(other.home, other.joined, new)


def test_the_hub_takes_nothing_from_a_machine_of_an_earlier_version_after_the_key_was_changed(
    two: tuple[Machine, Machine],
) -> None:
    one, _ = two
    rotate_hub_key(one.home, one.joined, one.sync)
    one.memory().store("New.", key="new", scope="global")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(hub_sync.HubSync, "_check_key", lambda *given: None)
        with pytest.raises((WrongKey, HubRefused)):
            one.sync()


def test_a_revoked_token_is_told_by_every_status_though_nothing_waits_to_be_sent(
    two: tuple[Machine, Machine], world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    from vademecum.interfaces.cli.app import run

    one, _ = two
    home = ("--home", str(one.base / "home"))
    assert run(["sync", *home]) == 0
    assert run(["sync", "status", *home]) == 0
    assert "everything was sent" in capsys.readouterr().out
    world.sql("UPDATE hub.token SET revoked_at = now()")
    assert run(["sync", *home]) == 1
    capsys.readouterr()
    for words in (("sync", "status"), ("hub", "status"), ("status",), ("doctor",)):
        run([*words, *home])
        told = capsys.readouterr().out
        assert "not valid any more" in told, words
        assert "everything was sent" not in told
    run(["hub", "status", "--json", *home])
    assert "not valid any more" in json.loads(capsys.readouterr().out)["workspaces"][0]["problems"][-1]
