"""Withdrawing one's own word is always allowed, whatever a member's role is by now; nothing more is."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import pytest

from hub.hubs import Writer
from hub.pages import Machine as PageMachine
from hub.pages import browse, entry
from hub.test_refused import on_hub, said, told
from hub.test_team import Member, meet
from hub.test_trust import _given, _trusts
from vademecum.errors import VadeError
from vademecum.store import decisions
from vademecum.sync.facts import withdraw

if TYPE_CHECKING:
    from pathlib import Path

    from hub.hubs import World
    from vademecum.sync.facts import SyncFact

LAW = "Releases happen on Fridays."
NAME = decisions.exactly(LAW)


def lower(world: World, name: str, role: str) -> None:
    assert world.ask("POST", f"/v1/members/{name}", body={"role": role}).status == 200


@pytest.fixture
def team(world: World, tmp_path: Path) -> tuple[Member, Member]:
    """Anna trusts ella, who has verified a text."""
    anna, ella = Member(tmp_path, "anna", world, "owner"), Member(tmp_path, "ella", world, "editor")
    _trusts(anna, "ella")
    will = Member(tmp_path, "will", world, "writer")
    said(will, LAW, "releases")
    meet(will, ella)
    ella.memory().review.verify("releases")
    meet(ella, anna)
    assert _given(anna, LAW)
    return anna, ella


@pytest.mark.full
@pytest.mark.parametrize("role", ["writer", "reader"])
def test_who_was_lowered_can_withdraw_an_earlier_verification_and_give_none(
    role: str, team: tuple[Member, Member], world: World
) -> None:
    anna, ella = team
    lower(world, "ella", role)
    meet(ella, anna)
    assert _given(anna, LAW)  # it was hers to say then, and she has not taken it back
    ella.memory().review.verify("releases", on=False)
    ella.sync()
    anna.sync()
    assert not _given(anna, LAW)
    ella.memory().review.verify("releases")
    with contextlib.suppress(VadeError):  # whoever only reads is told that her file says more than the hub
        ella.sync()
    anna.sync()
    assert not _given(anna, LAW)
    assert len(world.sql("SELECT 1 FROM hub.fact WHERE kind = 'vouch'")) == 2


@pytest.mark.full
def test_who_only_reads_by_now_withdraws_although_an_edit_of_theirs_waits(
    team: tuple[Member, Member], world: World
) -> None:
    anna, ella = team
    said(anna, "Anna brews.", "coffee")
    meet(anna, ella)
    lower(world, "ella", "reader")
    ella.change("coffee", "Anna brews.", "Ella brews.")
    with pytest.raises(VadeError, match="yours is reader"):
        ella.sync()
    ella.memory().review.verify("releases", on=False)
    done = ella.sync()
    assert [line for line in told(done) if "coffee" in line and "yours is reader" in line]
    anna.sync()
    assert not _given(anna, LAW)
    assert not on_hub(world, "Ella brews.")
    assert "Ella brews." in ella.text("coffee")
    lower(world, "ella", "writer")  # and once she may, it is sent
    ella.sync()
    assert on_hub(world, "Ella brews.")


class Lowered:
    """A member who verified a text and only reads by now, with a client of their own making."""

    def __init__(self, world: World) -> None:
        self.world, self.token = world, world.member("ella", "editor")
        self.writer = Writer("cccccccc")
        self.vouch = self.write("vouch", value=True)
        assert self.push(self.vouch) == (200, None)
        lower(world, "ella", "reader")

    def write(self, kind: str, *based_on: SyncFact, name: str = "ella", **given: Any) -> SyncFact:
        target = f"{NAME} {name}" if kind == "vouch" else "e1"
        return self.writer.fact(kind, target=target, based_on=tuple(each.id for each in based_on), **given)

    def push(self, *made: SyncFact) -> tuple[int, int | None]:
        """How the hub answers, and which fact it names; what it does not take was never made."""
        answer = self.world.push(self.writer, *made, token=self.token)
        if answer.status == 200:
            return 200, None
        del self.writer.made[-len(made) :]
        return answer.status, answer.json["error"].get("n")


def test_withdrawing_gives_who_only_reads_nothing_else_to_write(world: World) -> None:
    ella, his = Lowered(world), Writer("dddddddd")
    his.fact("vouch", target=f"{NAME} bert", value=True, lamport=2)
    assert world.push(his, token=world.member("bert", "editor")).status == 200
    word = his.made[0]
    for kind, based_on, given in (
        ("vouch", [], {"value": False, "name": "bert"}),  # another's word
        ("vouch", [word], {"value": False, "name": "bert"}),
        ("vouch", [], {"value": True}),  # a new one of her own
        ("vouch", [ella.vouch], {"value": True}),
        ("vouch", [], {"value": False}),  # which takes nothing back
        ("put", [], {}),
    ):
        assert ella.push(ella.write(kind, *based_on, lamport=3, **given))[0] == 403, (kind, given)
    assert ella.push(withdraw(ella.write("put", lamport=3)))[0] == 403  # alone it says nothing
    both = ella.write("vouch", ella.vouch, value=False, lamport=3), ella.write("put", lamport=4)
    assert ella.push(*both) == (403, both[1].n)
    first = ella.write("vouch", ella.vouch, value=False, lamport=3)
    twice = first, ella.write("vouch", ella.vouch, first, value=False, lamport=4)
    assert ella.push(*twice) == (403, twice[1].n)
    first = ella.write("vouch", ella.vouch, value=False, lamport=3)
    assert ella.push(first) == (200, None)
    assert ella.push(first) == (200, None)  # acknowledged again
    for based_on in ([first], [ella.vouch], [ella.vouch, first]):  # what does not stand cannot be withdrawn
        assert ella.push(ella.write("vouch", *based_on, value=False, lamport=4))[0] == 403
    assert world.sql("SELECT count(*) FROM hub.fact WHERE replica = 'cccccccc'") == [(2,)]


def test_an_agent_or_a_token_that_only_reads_withdraws_nothing(world: World) -> None:
    ella = Lowered(world)
    made = ella.write("vouch", ella.vouch, value=False)
    for scopes in (("read", "write"), ("read", "person")):
        assert world.push(ella.writer, made, token=world.token_of("ella", *scopes)).status == 403
    assert ella.push(made) == (200, None)


def test_a_stream_that_is_not_there_is_not_made_by_who_only_reads(world: World) -> None:
    ella = Lowered(world)
    other = Writer("eeeeeeee", "project/made-up")
    other.fact("vouch", target=f"{NAME} ella", value=False)
    assert world.push(other, token=ella.token).status == 403
    assert world.sql("SELECT stream FROM hub.stream") == [("global",)]


@pytest.mark.full(but=1)
@pytest.mark.parametrize("role", ["writer", "reader"])
def test_on_the_page_a_verification_is_withdrawn_by_who_was_lowered(role: str, world: World) -> None:
    machine = PageMachine(world, "aaaaaaaa", world.anna)
    assert machine.write("records/a.md", entry(LAW, "cccc3333")).status == 200
    ella = browse(world, world.member("ella", "editor"))
    assert ella.change("/vouches", ella.document("records/a.md"), 0).status == 200
    lower(world, "ella", role)
    shown = ella.document("records/a.md")
    assert shown["entries"][0]["verified"] == ["ella"]
    where = {"stream": shown["stream"], "doc": shown["doc"]}
    assert "Withdraw verification" in ella.get("/document", **where).body.decode()
    assert ella.change("/vouches", shown, 0, yes=False).status == 200
    assert ella.document("records/a.md")["entries"][0]["verified"] == []
    assert "verification" not in ella.get("/document", **where).body.decode()
    assert ella.change("/vouches", ella.document("records/a.md"), 0).status == 403
