"""Machines that meet at a hub: what one leaves the others get, once, whatever is lost on the way."""

from __future__ import annotations

import http.client
import shutil
from typing import TYPE_CHECKING, Any

import pytest

from cases import every_case
from hub.hubs import Writer
from vademecum.errors import Malformed, UsageError
from vademecum.store.files import Disk
from vademecum.sync import hub_client
from vademecum.sync.hub_client import HubClient, HubRefused, HubUnreachable, Remote, check_address

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from hub.hubs import World
    from vademecum.sync.facts import SyncFact


class Machine:
    """A replica with a log in memory, which takes from a hub what follows on what it has."""

    def __init__(self, folder: Path, world: World, replica: str, token: str = "") -> None:
        self.writer = Writer(replica)
        self.log: list[SyncFact] = []
        self.folder = Disk(folder / replica).open(create=True)
        self.client = HubClient(world.url, token or world.anna, patience=5)
        self.remote = Remote(self.client, self.folder, lambda _: self.log)

    def add(self, target: str, **given: Any) -> SyncFact:
        lamport = max((each.lamport for each in self.log), default=0) + 1
        fact = self.writer.fact(target=target, lamport=lamport, **given)
        self.log.append(fact)
        return fact

    def known(self) -> dict[str, int]:
        return {each.replica: each.n for each in sorted(self.log, key=lambda each: each.n)}

    def sync(self, *, killed: str = "") -> int:
        """One sync, perhaps killed in the middle; how many requests it took."""
        before = self.client.requests
        self.remote = Remote(self.client, self.folder, lambda _: self.log)
        self.remote.begin()
        pulled = list(self.remote.pull("global", self.known()))
        if killed == "before the log":
            return 0
        self.log += pulled
        if killed == "before the push":
            return 0
        self.remote.push("global", self.writer.made)
        return self.client.requests - before

    def texts(self) -> set[str]:
        return {each.target for each in self.log}


@pytest.fixture
def make(world: World, tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    made: list[Machine] = []

    def machine(*given: str) -> Machine:
        made.append(Machine(tmp_path, world, *given))
        return made[-1]

    yield machine
    for each in made:
        each.client.close()
        each.folder.close()


@pytest.fixture
def machines(make: Callable[..., Machine]) -> tuple[Machine, Machine]:
    return make("aaaaaaaa"), make("bbbbbbbb")


def test_what_one_machine_leaves_the_other_gets_and_a_sync_with_nothing_new_is_one_request(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    for n in range(5):
        one.add(f"a{n}")
    one.sync()
    two.add("b0")
    two.sync()
    one.sync()
    two.sync()
    assert one.texts() == two.texts() == {"a0", "a1", "a2", "a3", "a4", "b0"}
    assert len(one.log) == len(two.log) == 6
    assert [one.sync(), two.sync(), one.sync()] == [1, 1, 1]
    assert two.remote.authors("global")[one.log[0].id] == ("anna", "owner")


@pytest.mark.full(but=1)
@pytest.mark.parametrize("killed", ["before the log", "before the push"])
def test_a_machine_that_was_killed_gets_everything_once(
    killed: str, machines: tuple[Machine, Machine]
) -> None:
    one, two = machines
    one.add("a0")
    one.sync()
    two.sync(killed=killed)
    one.add("a1")
    one.sync()
    two.sync()
    assert [each.target for each in two.log] == ["a0", "a1"]


@pytest.mark.full
def test_more_than_one_page_is_pulled_and_pushed(machines: tuple[Machine, Machine]) -> None:
    one, two = machines
    for n in range(2_300):
        one.add(f"a{n}", value={"raw": ""})
    assert one.sync() == 1 + 3
    assert two.sync() == 1 + 3  # none to hear that there is nothing more
    assert len(two.log) == 2_300


class Lossy(HubClient):
    """A client whose answers are lost on the way, though the hub did what was asked."""

    lose = 0

    def _send(self, *args: Any) -> Any:
        done = super()._send(*args)
        if self.lose:
            self.lose -= 1
            raise http.client.RemoteDisconnected("lost")
        return done


@pytest.mark.full
def test_an_answer_that_is_lost_is_asked_for_again_and_nothing_is_there_twice(
    machines: tuple[Machine, Machine], world: World
) -> None:
    one, two = machines
    one.add("a0")
    one.sync()
    one.client.close()
    lossy = one.client = Lossy(world.url, world.anna)
    one.add("a1")
    lossy.lose = 2
    one.sync()
    one.add("a2")
    lossy.lose = 3
    with pytest.raises(HubUnreachable):
        one.sync()
    one.sync()
    two.sync()
    assert [each.target for each in two.log] == ["a0", "a1", "a2"]
    assert world.sql("SELECT count(*) FROM hub.fact") == [(3,)]


def test_a_machine_that_lost_what_it_knew_of_the_hub_reads_everything_again_and_doubles_nothing(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    one.add("a0")
    one.sync()
    two.add("b0")
    two.sync()
    shutil.rmtree(f"{two.folder.path}/logs")
    for name in two.folder.names():
        two.folder.delete(name)
    two.add("b1")
    two.sync()
    one.sync()
    assert sorted(one.texts()) == ["a0", "b0", "b1"]
    assert len(two.log) == 3


def test_facts_that_were_pulled_and_not_taken_are_pulled_again(machines: tuple[Machine, Machine]) -> None:
    one, two = machines
    one.add("a0")
    one.sync()
    two.sync()
    two.log.clear()  # as a home whose log was lost, or that did not take them for want of the key
    two.sync()
    assert two.texts() == {"a0"}


def forget(world: World, after: int) -> None:
    """Make the database one that was restored from a backup."""
    world.sql("DELETE FROM hub.fact WHERE seq > %s", after)
    world.sql(
        "UPDATE hub.stream SET head = %s, max_lam = coalesce((SELECT max(lam) FROM hub.fact), 0),"
        " chain = coalesce((SELECT chain FROM hub.fact WHERE seq = %s), %s)",
        after, after, bytes(32),
    )  # fmt: skip


@pytest.mark.full
@pytest.mark.parametrize("after", [0, 1, 3])
def test_a_restored_database_gets_back_from_any_machine_what_it_lost_with_its_authors(
    after: int, world: World, make: Callable[..., Machine]
) -> None:
    bert = world.member("bert", "writer")
    one, two = make("aaaaaaaa"), make("bbbbbbbb", bert)
    for n in range(3):
        one.add(f"a{n}")
        one.sync()
        two.sync()
        two.add(f"b{n}")
        two.sync()
        one.sync()
    two.add("b3")  # which the hub has never seen
    forget(world, after)
    one.sync()  # Bert's machine is off: Anna's sends his facts, too
    told = {each["fact"]["target"]: each["stamp"]["author"] for each in world.pull(epoch=2).lines}
    assert told == {f"{name}{n}": {"a": "anna", "b": "bert"}[name] for name in "ab" for n in range(3)}
    two.sync()
    one.sync()
    two.sync()
    assert one.texts() == two.texts()
    assert len(one.log) == len(two.log) == 7
    assert [one.sync(), two.sync()] == [1, 1]


@pytest.mark.full
def test_a_database_that_was_restored_and_went_on_is_noticed_by_its_chain(
    world: World, make: Callable[..., Machine]
) -> None:
    one, two = make("aaaaaaaa"), make("bbbbbbbb")
    one.add("a0")
    one.add("a1")
    one.sync()
    two.sync()
    forget(world, 1)
    late = make("cccccccc")
    late.sync()
    late.add("c0")
    late.sync()  # now the head is where it was, and the chain is another
    two.sync()
    one.sync()
    late.sync()
    two.sync()
    assert one.texts() == two.texts() == late.texts() == {"a0", "a1", "c0"}


def test_a_copied_home_is_told_that_it_forked_and_nothing_of_it_is_lost(
    machines: tuple[Machine, Machine],
) -> None:
    one, two = machines
    two.writer = Writer("aaaaaaaa")
    one.add("a0")
    one.sync()
    two.add("other")
    two.remote.begin()
    with pytest.raises(HubRefused, match="copied or rolled back"):
        two.remote.push("global", two.writer.made)
    assert two.texts() == {"other"}


def test_a_hub_that_is_gone_a_wrong_token_and_another_version_are_one_sentence_each(
    machines: tuple[Machine, Machine], world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = machines
    gone = HubClient("http://127.0.0.1:1", "vade_x")
    with pytest.raises(HubUnreachable, match="cannot be reached"):
        gone.ask("GET", "/v1/streams")
    stranger = HubClient(world.url, "vade_wrong")
    with pytest.raises(HubRefused, match="join again with `vade hub join`"):
        stranger.ask("GET", "/v1/streams")
    stranger.close()
    monkeypatch.setattr(hub_client, "PROTOCOL", "7")
    with pytest.raises(HubRefused, match="upgrade the hub"):
        one.client.ask("GET", "/v1/streams")


def test_a_hub_whose_chain_does_not_hold_is_not_believed(
    machines: tuple[Machine, Machine], world: World
) -> None:
    one, two = machines
    one.add("a0")
    one.add("a1")
    one.sync()
    world.sql("UPDATE hub.fact SET value = convert_to('{\"raw\": \"forged\"}', 'UTF8') WHERE seq = 2")
    with pytest.raises(Malformed, match="somebody altered the hub's database: change"):
        two.sync()
    assert two.log == []


@every_case(
    "address", ["http://hub.example", "ftp://127.0.0.1", "hub", "https://a:b@hub.example", "https://h/?x=1"]
)
def test_an_address_without_tls_or_with_more_than_an_address_is_refused(address: str) -> None:
    with pytest.raises(UsageError):
        check_address(address)
    assert check_address("https://hub.example/") == "https://hub.example"
    assert check_address("http://127.0.0.1:8389") == "http://127.0.0.1:8389"
