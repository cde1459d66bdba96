"""What the hub refuses of a sync: that alone stays here, it is told in a sentence, and the rest is sent."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from hub.hubs import Writer
from hub.test_commands import vade
from hub.test_team import Member, meet
from vademecum.interfaces.cli.app import run
from vademecum.memory import sync as syncing
from vademecum.sync import hub_sync, membership, stream_log
from vademecum.sync.facts import FactId, SyncFact
from vademecum.sync.hub_client import HubClient, HubRefused
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from hub.hubs import World
    from vademecum.sync.folder_sync import PlaceSynced
    from vademecum.sync.hub_client import Reply

LAW = "Releases are cut on Thursdays."


class Interrupted(HubClient):
    """A client before whose first push something happens on the hub."""

    meanwhile: Callable[[], object]

    def ask(self, method: str, path: str, body: bytes | None = None, **given: Any) -> Reply:
        if method == "POST" and path.endswith("/facts") and self.meanwhile is not None:
            self.meanwhile, meanwhile = lambda: None, self.meanwhile
            meanwhile()
        return super().ask(method, path, body, **given)


def sync(member: Member, meanwhile: Callable[[], object]) -> list[PlaceSynced]:
    """A sync between whose look at the hub and whose push something happens there."""
    token = (member.base / "home/hub" / member.world.public / "token").read_text().strip()
    client = Interrupted(member.world.url, token, patience=1)
    client.meanwhile = meanwhile
    return hub_sync.HubSync(member.home, member.joined, b"", f"human:{member.name}", member.now).run(client)


def said(member: Member, text: str, key: str) -> None:
    """A text that goes to the team with the next sync."""
    member.memory().store(text, key=key, scope="project")
    syncing.share(member.memory(), [key], member.world.public)


def told(done: list[PlaceSynced]) -> list[str]:
    return [f"{each.where}: {each.why}" for place in done for each in place.findings]


def on_hub(world: World, text: str) -> bool:
    return bool(world.sql("SELECT 1 FROM hub.fact WHERE position(%s::bytea IN value) > 0", text.encode()))


def unsent(member: Member) -> int:
    return syncing.read_standing(member.home, member.joined).unsent


@pytest.fixture
def team(world: World, tmp_path: Path) -> tuple[Member, Member]:
    anna, ella = Member(tmp_path, "anna", world, "owner"), Member(tmp_path, "ella", world, "editor")
    said(anna, LAW, "releases")
    meet(anna, ella)
    return anna, ella


@pytest.mark.full
def test_a_verification_after_a_role_was_lowered_stays_here_and_everything_else_is_sent(
    team: tuple[Member, Member], world: World
) -> None:
    anna, ella = team
    ella.memory().review.verify("releases")
    said(ella, "Ella goes on.", "goes-on")
    done = sync(ella, lambda: world.ask("POST", "/v1/members/ella", body={"role": "writer"}))
    assert [line for line in told(done) if "verification" in line and "needs the role editor" in line]
    assert on_hub(world, "Ella goes on.")
    assert not world.sql("SELECT 1 FROM hub.fact WHERE kind = 'vouch'")
    assert unsent(ella) == 0
    ella.change("goes-on", "Ella goes on.", "Ella went on.")
    assert told(ella.sync()) == []
    assert on_hub(world, "Ella went on.")
    assert ella.joined.role == "writer"
    anna.sync()
    assert "Ella went on." in anna.text("goes-on")
    # Once she may again, it is sent: nobody has to verify anything twice.
    assert world.ask("POST", "/v1/members/ella", body={"role": "editor"}).status == 200
    meet(ella, anna)
    assert len(world.sql("SELECT 1 FROM hub.fact WHERE kind = 'vouch'")) == 1


def protect(world: World) -> None:
    """The owner protects the document on the hub."""
    ((doc,),) = world.sql(
        "SELECT doc FROM hub.fact WHERE kind = 'name' AND value = '\"records/releases.md\"'"
    )
    ((lamport,),) = world.sql("SELECT max_lam FROM hub.stream WHERE stream = 'project/api'")
    writer = Writer("gggggggg", "project/api")
    writer.fact("protected", doc=doc, target="", value=True, lamport=lamport + 1)
    assert world.push(writer).status == 200


def unprotect(world: World) -> None:
    rows = world.sql("SELECT doc, replica, n, hash, lam FROM hub.fact WHERE kind = 'protected'")
    ((doc, replica, n, hashed, _),) = rows
    ((lamport,),) = world.sql("SELECT max_lam FROM hub.stream WHERE stream = 'project/api'")
    fact = SyncFact(
        "project/api", replica, n + 1, hashed.hex(), lamport + 1, doc, "protected",
        based_on=(FactId(replica, n),), value=False, origin="user",
    )  # fmt: skip
    assert world.push(Writer(replica, "project/api", [fact])).status == 200


@pytest.mark.full
def test_an_edit_of_a_document_that_was_protected_meanwhile_stays_here_until_it_is_not(
    world: World, tmp_path: Path
) -> None:
    anna, will = Member(tmp_path, "anna", world, "owner"), Member(tmp_path, "will", world, "writer")
    said(anna, LAW, "releases")
    meet(anna, will)
    will.change("releases", "Thursdays", "Fridays")
    said(will, "Will goes on.", "goes-on")
    done = sync(will, lambda: protect(world))
    assert len(told(done)) == 1
    assert "releases.md: the hub says: this document is protected" in told(done)[0]
    assert on_hub(world, "Will goes on.")
    assert not on_hub(world, "Fridays")
    assert unsent(will) == 0
    for _ in range(3):  # what others did meanwhile is one more try
        again = will.sync()
        assert "protected" in told(again)[0]
    assert will.requests == 1
    assert sum(each.done.sent for each in again) == 0
    assert "Fridays" in will.text("releases")
    anna.sync()
    assert "Thursdays" in anna.text("releases")
    unprotect(world)
    will.sync()  # hears of it,
    assert told(will.sync()) == []  # and tries again
    meet(anna, will)
    assert "Fridays" in anna.text("releases")


@pytest.mark.full
def test_a_removal_that_is_refused_is_told_and_the_file_comes_back_with_what_others_did_to_it(
    world: World, tmp_path: Path
) -> None:
    anna, will = Member(tmp_path, "anna", world, "owner"), Member(tmp_path, "will", world, "writer")
    said(anna, LAW, "releases")
    meet(anna, will)
    (will.team / "project/api/records/releases.md").unlink()
    assert "protected" in told(sync(will, lambda: protect(world)))[0]
    meet(will, anna)
    assert LAW in anna.text("releases")
    assert LAW in will.text("releases")
    assert "protected: true" in will.text("releases")


@pytest.mark.full
def test_what_looks_like_a_secret_to_the_hub_alone_stays_here_and_the_rest_is_sent(
    team: tuple[Member, Member], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, ella = team
    said(ella, "Ella goes on.", "goes-on")
    monkeypatch.setattr(stream_log, "secrets", SimpleNamespace(find=lambda text: []))
    said(ella, "Something.", "login")
    ella.change("login", "Something.", "The key is ghp_" + "aB3" * 12)
    done = ella.sync()
    assert "login.md: the hub says: the fact" in told(done)[0]
    assert len(told(done)) == 1
    assert on_hub(world, "Ella goes on.")
    assert not on_hub(world, "ghp_")
    assert unsent(ella) == 0
    ella.change("login", "The key is ghp_" + "aB3" * 12, "The key is in the vault.")
    assert told(ella.sync()) == []
    assert on_hub(world, "in the vault")


@pytest.mark.full
def test_what_does_not_fit_stays_here_until_the_quota_is_raised_and_the_rest_is_sent(
    team: tuple[Member, Member], world: World
) -> None:
    _, ella = team
    said(ella, "Small enough.", "a-small")
    said(ella, "long words " * 20_000, "b-large")
    said(ella, "Small enough, too.", "c-small")
    world.sql("UPDATE hub.workspace SET quota_bytes = 100000")
    done = ella.sync()
    assert ["b-large.md: the hub says: this place is full" in line for line in told(done)] == [True]
    assert on_hub(world, "Small enough.")
    assert on_hub(world, "Small enough, too.")
    assert told(ella.sync()) == told(done)
    assert ella.requests == 1
    (kept,) = syncing.read_standing(ella.home, ella.joined).refused
    assert kept.startswith("project/api records/b-large.md: the hub says: this place is full")
    world.sql("UPDATE hub.workspace SET quota_bytes = 100000000")
    assert told(ella.sync()) == []
    assert on_hub(world, "long words long words")


@pytest.mark.full
def test_a_place_that_is_full_takes_nothing_and_everything_waits(
    team: tuple[Member, Member], world: World
) -> None:
    _, ella = team
    said(ella, "One.", "one")
    said(ella, "Two.", "two")
    ((head,),) = world.sql("SELECT max(head) FROM hub.stream")
    world.sql("UPDATE hub.workspace SET quota_facts = %s", head)
    with pytest.raises(HubRefused, match="this place is full"):
        ella.sync()
    assert unsent(ella) > 0
    world.sql("UPDATE hub.workspace SET quota_facts = 100000")
    ella.sync()
    assert on_hub(world, "One.")
    assert on_hub(world, "Two.")


def agents_machine(world: World, base: Path) -> Member:
    """A machine of anna's with an agent's token."""
    agent = Member(base, "anna", world, "owner", machine="-agent")
    folder = agent.base / "home/hub" / world.public
    (folder / "token").write_text(world.token_of("anna", "read", "write"))
    kept = json.loads((folder / "workspace.json").read_text())
    (folder / "workspace.json").write_text(json.dumps({**kept, "agent": True}))
    assert membership.find_membership(agent.home).agent
    return agent


@pytest.mark.full
def test_what_became_somebody_elses_meanwhile_an_agents_machine_keeps_and_goes_on(
    world: World, tmp_path: Path
) -> None:
    anna, agent = Member(tmp_path, "anna", world, "owner"), agents_machine(world, tmp_path)
    said(anna, "Begin.", "begin")
    anna.sync()
    agent.sync()
    agent.memory(Origin.AGENT).store("Built.", key="built", scope="project", team=world.public)
    agent.sync()
    anna.sync()
    anna.change("built", "# built", "# Built by the team")
    file = agent.team / "project/api/records/built.md"
    file.write_text(file.read_text().replace("# built", "# Built by me"))
    agent.memory(Origin.AGENT).store("More.", key="more", scope="project", team=world.public)
    done = sync(agent, anna.sync)
    assert len(told(done)) == 1
    assert "may only add and propose" in told(done)[0]
    assert on_hub(world, "More.")
    assert "Built by me" in file.read_text()
    anna.sync()
    assert "Built by the team" in anna.text("built")


@pytest.mark.full
def test_what_others_add_to_a_file_that_is_left_alone_is_not_taken_for_removed_once_it_is_synced_again(
    team: tuple[Member, Member], world: World
) -> None:
    anna, ella = team
    secret = "The key is ghp_" + "aB3" * 12
    ella.change("releases", LAW, f"{LAW} {secret}")
    assert "looks like a secret" in told(ella.sync())[0]
    anna.memory().store("Hotfixes go out at once.", key="releases", scope="project", team=world.public)
    anna.sync()
    for _ in range(2):
        assert "looks like a secret" in told(ella.sync())[0]
    ella.change("releases", secret, "Ask Anna for the key.")
    meet(ella, anna)
    for member in (anna, ella):
        assert "Hotfixes go out at once." in member.text("releases")
        assert "Ask Anna for the key." in member.text("releases")


@pytest.mark.full
def test_an_agents_machine_whose_file_is_put_right_again_takes_what_others_did_meanwhile(
    world: World, tmp_path: Path
) -> None:
    anna, agent = Member(tmp_path, "anna", world, "owner"), agents_machine(world, tmp_path)
    said(anna, LAW, "releases")
    meet(anna, agent)
    agent.change("releases", "Thursdays", "Sundays")
    assert "an agent may not change this" in told(agent.sync())[0]
    anna.memory().store("Hotfixes go out at once.", key="releases", scope="project", team=world.public)
    meet(anna, agent)
    agent.change("releases", "Sundays", "Thursdays")
    assert told(agent.sync()) == []
    assert "Hotfixes" in agent.text("releases")


# ------------------------------------------------------------------------------- where it is told


@pytest.mark.full
def test_what_a_hub_refused_is_told_by_sync_status_and_review_without_asking_the_hub(
    team: tuple[Member, Member], world: World, capsys: pytest.CaptureFixture[str]
) -> None:
    _, ella = team
    home = ella.base / "home"
    before = vade(capsys, home, "sync", "status")
    assert (before["folder"], before["workspace"], before["reachable"], before["unsent"]) == (
        None,
        None,
        None,
        0,
    )
    (hub,) = before["hubs"]
    assert (hub["name"], hub["kind"], hub["unsent"], hub["refused"]) == ("ours", "team", 0, [])
    assert hub["synced"]
    assert vade(capsys, home, "review")["refused"] == []
    ella.change("releases", LAW, "Releases happen on Mondays.")

    def meanwhile() -> None:
        protect(world)
        assert world.ask("POST", "/v1/members/ella", body={"role": "writer"}).status == 200

    sync(ella, meanwhile)
    why = "project/api records/releases.md: the hub says: this document is protected"
    world.sql("UPDATE hub.token SET revoked_at = now()")  # no hub is asked
    (hub,) = vade(capsys, home, "sync", "status")["hubs"]
    assert hub["refused"] == [why]
    told = vade(capsys, home, "review")
    assert told["refused"] == [f"ours: {why}"]
    assert vade(capsys, home, "review", "--kind", "text")["refused"] == []  # who asks for one kind gets it
    for command in ("sync", "status"), ("review",):
        assert run([*command, "--home", str(home)]) == 0
        assert f"not sent: {why}" in capsys.readouterr().out.replace("ours: ", "")
