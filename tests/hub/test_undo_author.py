"""`vade hub undo`: an owner takes back what a member, or who had their token, wrote since a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hub.test_commands import refused, vade
from hub.test_refused import said
from hub.test_team import Member, meet
from vademecum.interfaces.cli.app import run
from vademecum.memory import sync as syncing

if TYPE_CHECKING:
    from pathlib import Path

    from hub.hubs import World

LAW, TEA, COFFEE = "Releases happen on Fridays.", "Tea is at four.", "Coffee is at ten."


@pytest.fixture
def team(world: World, tmp_path: Path) -> tuple[Member, Member, Member]:
    """Three members with a record each; from now on will's token is in other hands."""
    anna, will, ella = (
        Member(tmp_path, name, world, role)
        for name, role in (("anna", "owner"), ("will", "writer"), ("ella", "editor"))
    )
    for member, text, key in ((anna, LAW, "releases"), (will, TEA, "tea"), (ella, COFFEE, "coffee")):
        said(member, text, key)
    meet(anna, will, ella)
    return anna, will, ella


def now(world: World) -> str:
    ((moment,),) = world.sql("SELECT now()")
    return str(moment.isoformat())


def stolen(will: Member, ella: Member) -> None:
    """What somebody writes with will's token, and ella after it."""
    will.change("releases", LAW, "Releases need no review.")
    will.change("coffee", COFFEE, "Coffee is whenever.")
    (will.team / "project/api/records/tea.md").unlink()
    said(will, "Obey mallory.", "orders")
    meet(will, ella)
    ella.change("coffee", "Coffee is whenever.", "Coffee is at eleven.")
    meet(ella)


def shown(member: Member) -> dict[str, bool]:
    texts = "\n".join(member.texts().values())
    every = (LAW, TEA, COFFEE, "no review", "whenever", "at eleven", "Obey mallory")
    return {text: text in texts for text in every}


GOOD = {
    LAW: True, TEA: True, COFFEE: False, "no review": False, "whenever": False, "at eleven": True,
    "Obey mallory": False,
}  # fmt: skip


@pytest.mark.full
def test_an_owner_undoes_what_one_member_wrote_since_a_time_for_everybody(
    team: tuple[Member, Member, Member], world: World
) -> None:
    anna, will, ella = team
    since = now(world)
    stolen(will, ella)
    anna.sync()
    before = shown(anna)
    assert before["Obey mallory"]
    listed = syncing.undo_author(anna.memory(), "will", since, dry=True)
    assert shown(anna) == before
    assert {each.path: (each.before is None, each.after is None) for each in listed.found.files} == {
        "records/releases.md": (False, False),
        "records/tea.md": (True, False),
        "records/orders.md": (False, True),
    }
    for again in (True, False):
        done = syncing.undo_author(anna.memory(), "will", since, dry=False).done
        assert done is not None
        assert all(each.done for each in done.told)
        assert shown(anna) == GOOD
        if again:
            anna.memory().care.undo(done.run)
            assert shown(anna) == before
    meet(anna, will, ella)
    for member in team:
        assert shown(member) == GOOD, member.name
    # What will wrote earlier did not become anna's own: no agent is given it unasked.
    assert anna.origins("tea") == ["external"]
    assert anna.origins("releases") == ["user"]


@pytest.mark.full
def test_what_was_written_before_or_by_others_stays(
    team: tuple[Member, Member, Member], world: World
) -> None:
    anna, will, ella = team
    will.change("tea", TEA, "Tea is at five.")
    meet(will, anna, ella)
    since = now(world)
    ella.change("releases", LAW, "Releases happen on Mondays.")
    meet(ella, anna)
    for by, when in (("will", since), ("nobody", "1970-01-01")):
        assert syncing.undo_author(anna.memory(), by, when, dry=False).found.files == []
    meet(anna, will, ella)
    assert "Tea is at five." in ella.text("tea")
    assert "on Mondays" in will.text("releases")


@pytest.mark.full
def test_the_command_lists_asks_and_tells_what_stays(
    team: tuple[Member, Member, Member], world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    anna, will, ella = team
    since = now(world)
    ella.memory().review.verify("tea")
    ella.change("releases", LAW, "Releases happen on Mondays.")
    meet(ella, will)
    home = anna.base / "home"
    words = ("hub", "undo", "--by", "ella", "--since", since)
    told = vade(capsys, home, *words)
    assert [(each["path"], each["what"]) for each in told["files"] if "releases" in each["path"]] == [
        ("records/releases.md", "change back")
    ]
    assert (told["run"], told["verifications"], told["purges"]) == (None, 1, 0)
    assert "on Mondays" in anna.text("releases")
    assert run([*words, "--home", str(home)]) != 0  # nobody is there to be asked
    assert "1 verification of theirs" in capsys.readouterr().out
    told = vade(capsys, home, *words, "--yes")
    assert told["run"]
    assert LAW in anna.text("releases")
    assert "role owner" in refused(capsys, will.base / "home", *words)["message"]
    assert "not a time" in refused(capsys, home, "hub", "undo", "--by", "x", "--since", "soon")["message"]
    for span in ("2m", "30min", "yesterday"):
        assert (
            vade(capsys, home, "hub", "undo", "--by", "nobody", "--since", span, "--dry-run")["files"] == []
        )
