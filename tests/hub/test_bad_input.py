"""What can be wrong with a hub, a token or a clock: one clear sentence, memory works on, nothing is lost."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

from hub.test_commands import refused, vade
from hub.test_sync import Machine, meet, two
from vademecum.sync import hub_sync, membership
from vademecum_hub import protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hub.hubs import World

__all__ = ["two"]
Pair = tuple[Machine, Machine]
Capture = pytest.CaptureFixture[str]


def said(capsys: Capture, machine: Machine) -> str:
    """The one sentence of a sync that fails."""
    message = refused(capsys, machine.base / "home", "sync")["message"]
    assert "\n" not in message
    return str(message)


def works_on(machine: Machine, key: str) -> None:
    machine.memory().store(f"{key} was saved meanwhile.", key=key, scope="global")
    assert f"global/records/{key}.md" in machine.files()


@pytest.mark.full(but=1)
@pytest.mark.parametrize("how", ["expires = now() - interval '1 day'", "revoked_at = now()"])
def test_a_token_that_expired_or_was_revoked_is_told_and_changes_wait(
    two: Pair, world: World, capsys: Capture, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    one, other = two
    monkeypatch.setattr(hub_sync, "PATIENCE", 0.0)
    meet(one, other)
    works_on(other, "waits")
    world.sql(f"UPDATE hub.token SET {how} WHERE replica = '{other.joined.replica}'")
    assert "join again with `vade hub join`" in said(capsys, other)
    works_on(other, "later")
    world.sql(
        "UPDATE hub.token SET revoked_at = NULL, expires = now() + interval '9 days'"
        f" WHERE replica = '{other.joined.replica}'"
    )
    meet(other, one)
    assert {"global/records/waits.md", "global/records/later.md"} <= set(one.files())


@pytest.mark.full
def test_a_hub_of_a_newer_version_says_that_this_side_is_old(
    two: Pair, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = two
    monkeypatch.setattr(hub_sync, "PATIENCE", 0.0)
    with monkeypatch.context() as patch:
        patch.setattr(protocol, "PROTOCOL", 2)
        assert "upgrade vade on this machine" in said(capsys, one)
    works_on(one, "waits")
    one.sync()


@pytest.mark.full
def test_a_reader_receives_and_its_own_changes_wait(
    two: Pair, world: World, capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, other = two
    monkeypatch.setattr(hub_sync, "PATIENCE", 0.0)
    meet(one, other)
    world.sql(f"UPDATE hub.token SET scopes = '{{read}}' WHERE replica = '{other.joined.replica}'")
    one.memory().store("For readers.", key="for-readers", scope="global")
    one.sync()
    works_on(other, "waits")
    other.sync()
    assert b"For readers." in other.files()["global/records/for-readers.md"]
    told = vade(capsys, other.base / "home", "sync")["findings"]
    assert [each["where"] for each in told] == ["memory/global/records/waits.md"]
    world.sql(
        f"UPDATE hub.token SET scopes = '{{read,write,person}}' WHERE replica = '{other.joined.replica}'"
    )
    meet(other, one)
    assert one.files() == other.files()
    assert "global/records/waits.md" in one.files()


@pytest.mark.full
@pytest.mark.parametrize("years", [-10, 10])
def test_a_clock_that_is_ten_years_off_decides_nothing(two: Pair, years: int) -> None:
    one, other = two
    meet(one, other)
    real = other.now
    other.now = lambda: real().replace(year=2026 + years)  # type: ignore[method-assign]
    other.change("global/records/machine-one.md", "one is here.", "one was edited by a wrong clock.")
    works_on(other, "off")
    meet(other, one)
    one.change("global/records/machine-one.md", "edited by a wrong clock", "edited once more")
    meet(one, other)
    assert one.files() == other.files()
    assert b"one was edited once more." in other.files()["global/records/machine-one.md"]


@pytest.mark.full
def test_a_file_that_is_not_utf_8_is_named_and_neither_sent_nor_deleted(two: Pair, capsys: Capture) -> None:
    one, other = two
    meet(one, other)
    path = other.top / "global/records/machine-one.md"
    whole = path.read_bytes()
    path.write_bytes(whole.replace(b"one is here.", b"one is \xff\xfe here."))
    os.utime(path, (1, 1))
    told = vade(capsys, other.base / "home", "sync")
    assert any("machine-one" in each["where"] for each in told["findings"])
    works_on(other, "beside")
    meet(other, one)
    assert b"one is here." in one.files()["global/records/machine-one.md"]
    assert b"\xff\xfe" in path.read_bytes()
    assert "global/records/beside.md" in one.files()
    path.write_bytes(whole)
    meet(other, one)
    assert one.files() == other.files()


# ------------------------------------------------------------------------------- as a stranger types it


def typed(machine: Machine, *words: str, before: str = "") -> subprocess.CompletedProcess[str]:
    """A command as a process of its own; `before` makes another version of it."""
    code = f"{before}\nimport sys\nfrom vademecum.interfaces.cli.app import run\nsys.exit(run(sys.argv[1:]))"
    done = subprocess.run(
        [sys.executable, "-c", code, *words, "--home", str(machine.base / "home")],
        cwd=machine.base / "project",
        capture_output=True,
        text=True,
        check=False,
    )
    assert "Traceback" not in done.stderr
    return done


LOST = "nothing is lost, and what was not sent waits here"
OTHER = "import vademecum.sync.hub_client as remote; remote.PROTOCOL = {!r}"
QUICK = "import vademecum.sync.hub_sync as hub; hub.PATIENCE = 0.0"


def trigger(world: World) -> None:
    """A disk that has no room, as PostgreSQL says it."""
    world.sql(
        "CREATE FUNCTION hub.full() RETURNS trigger LANGUAGE plpgsql AS"
        " $$BEGIN RAISE EXCEPTION 'no room' USING ERRCODE = '53100'; END$$"
    )
    world.sql("CREATE TRIGGER full_disk BEFORE INSERT ON hub.fact FOR EACH ROW EXECUTE FUNCTION hub.full()")


def token_file(machine: Machine, content: str) -> None:
    (machine.folder / "token").write_text(f"{content}\n")


def revoke(world: World, machine: Machine, when: str) -> None:
    world.sql(f"UPDATE hub.token SET revoked_at = {when} WHERE replica = '{machine.joined.replica}'")


WRONG: dict[str, tuple[Callable[[World, Machine], Any], Callable[[World, Machine], Any], str, str]] = {
    "wrong token": (
        lambda world, machine: token_file(machine, f"vade_{'x' * 43}"),
        lambda world, machine: None,
        "",
        "vade: the hub says: this token is not valid any more; join again with `vade hub join`",
    ),
    "revoked token": (
        lambda world, machine: revoke(world, machine, "now()"),
        lambda world, machine: revoke(world, machine, "NULL"),
        "",
        "vade: the hub says: this token is not valid any more; join again with `vade hub join`",
    ),
    "older hub": (
        lambda world, machine: None,
        lambda world, machine: None,
        OTHER.format("2"),
        "vade: the hub says: this hub speaks protocol 1; upgrade the hub",
    ),
    "newer hub": (
        lambda world, machine: None,
        lambda world, machine: None,
        OTHER.format("0"),
        "vade: the hub says: this hub speaks protocol 1; upgrade vade on this machine",
    ),
    "over quota": (
        lambda world, machine: world.sql("UPDATE hub.workspace SET quota_facts = 1"),
        lambda world, machine: world.sql("UPDATE hub.workspace SET quota_facts = 1000"),
        "",
        "vade: the hub says: this place is full; whoever runs the hub can raise its quota",
    ),
    "full database": (
        lambda world, machine: trigger(world),
        lambda world, machine: world.sql("DROP FUNCTION hub.full() CASCADE"),
        QUICK,
        "vade: the hub says: the hub's database does not take anything now; it is full or read-only",
    ),
}


@pytest.mark.full
@pytest.mark.parametrize("what", sorted(WRONG))
def test_a_stranger_reads_one_sentence_their_memory_works_on_and_nothing_is_lost(
    two: Pair, world: World, what: str
) -> None:
    one, other = two
    meet(one, other)
    token = (other.folder / "token").read_text().strip()
    spoil, mend, before, sentence = WRONG[what]
    spoil(world, other)
    assert typed(other, "add", "Saved meanwhile.", "--key", "meanwhile", "--scope", "global").returncode == 0
    done = typed(other, "sync", before=before)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"{sentence}: {LOST}\n"
    found = typed(other, "search", "what was saved meanwhile")
    assert (found.returncode, "Saved meanwhile." in found.stdout) == (0, True)
    mend(world, other)
    token_file(other, token)
    after = typed(other, "sync")
    assert after.returncode == 0, after.stderr
    assert re.fullmatch(r"global: [1-9]\d* changes sent, 0 received\n", after.stdout), after.stdout
    one.sync()
    assert b"Saved meanwhile." in one.files()["global/records/meanwhile.md"]
    assert typed(other, "sync").stdout == "ours: nothing new\n"


@pytest.mark.full
def test_a_stranger_whose_folder_vanished_is_asked_and_whose_home_was_copied_is_not(
    two: Pair, world: World, tmp_path: Path
) -> None:
    one, other = two
    for number in range(30):
        other.memory().store(f"Text {number * 7919}.", key=f"many-{number}", scope="global")
    meet(other, one)
    before = other.files()
    (other.top / "global").rename(tmp_path / "away")
    done = typed(other, "sync")
    assert done.returncode == 1
    assert done.stderr == (
        "vade: 32 of 32 documents of global are gone: `vade sync --accept-deletions` deletes them everywhere,"
        " `vade sync --restore` restores them\n"
    )
    assert typed(other, "add", "Saved meanwhile.", "--key", "meanwhile", "--scope", "global").returncode == 0
    assert typed(other, "sync", "--restore").returncode == 0
    assert before.items() <= other.files().items()
    shutil.copytree(other.base, tmp_path / "copy")
    copy = Machine.__new__(Machine)
    copy.base, copy.count = tmp_path / "copy", other.count
    for machine, key in ((other, "on-the-first"), (copy, "on-the-copy")):
        assert typed(machine, "add", f"Written {key}.", "--key", key, "--scope", "global").returncode == 0
    for machine in (other, copy, other, one):
        done = typed(machine, "sync")
        assert (done.returncode, done.stderr) == (0, "")
    assert one.files() == other.files() == copy.files()
    assert {"global/records/on-the-first.md", "global/records/on-the-copy.md"} <= set(one.files())


@pytest.mark.full
def test_a_stranger_with_a_wrong_key_joins_again_without_a_new_code(
    world: World, two: Pair, tmp_path: Path
) -> None:
    one, _ = two
    third = Machine(tmp_path, "third")
    words = ("hub", "join", world.url)
    wrong = typed(third, *words, "--code", one.invite(), "--key", "A" * 26, before=PERSON)
    assert wrong.returncode == 1
    assert wrong.stderr == (
        "vade: this is not the key of that workspace: `vade sync key` shows the key on a machine that syncs;"
        " `vade sync key set` takes it here\n"
    )
    key = (membership.key_of(one.home, one.joined) or b"").decode()
    right = typed(third, *words, "--key", key, before=PERSON)
    assert (right.returncode, right.stderr) == (0, ""), right.stderr
    assert "sync with `vade sync`" in right.stdout
    assert typed(third, "sync").returncode == 0
    assert b"one is here." in third.files()["global/records/machine-one.md"]
    mistyped = typed(Machine(tmp_path, "fourth"), *words, "--code", "AAAA-BBBB-CCCC-DD", before=PERSON)
    assert mistyped.stderr == (
        "vade: the hub says: this code is mistyped, used or too old: `vade hub invite` on a machine that has"
        " joined shows a new one\n"
    )


PERSON = "import os; os.environ['VADE_SCRIPT'] = 'tests'"
