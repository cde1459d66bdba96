"""One workspace, or ten, cannot keep others from being served."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import TYPE_CHECKING

import psycopg
import pytest

from hub.hubs import Writer, ask
from vademecum_hub import limits, protocol
from vademecum_hub.limits import FairQueue
from vademecum_hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import Callable

    from hub.hubs import Answer, World


async def occupy(turns: FairQueue, who: str, order: list[str], free: asyncio.Event) -> None:
    async with turns.take(who):
        order.append(who)
        await free.wait()


async def settle() -> None:
    for _ in range(20):
        await asyncio.sleep(0)


def test_a_workspace_that_asks_once_comes_before_the_second_request_of_one_that_asks_often() -> None:
    async def life() -> tuple[list[str], list[str]]:
        turns, free = FairQueue(4, 4), asyncio.Event()
        order: list[str] = []
        greedy = [asyncio.create_task(occupy(turns, "greedy", order, free)) for _ in range(12)]
        await settle()
        before = list(order)
        idle = asyncio.create_task(occupy(turns, "idle", order, free))
        await settle()
        free.set()
        await asyncio.gather(*greedy, idle)
        return before, order

    before, order = asyncio.run(life())
    assert before == ["greedy"] * 4
    assert order.index("idle") == 4  # the next one of all
    assert len(order) == 13


def test_a_workspace_never_has_more_than_its_share_and_those_who_wait_are_served_in_turn() -> None:
    async def life() -> tuple[int, list[str]]:
        turns, free = FairQueue(4), asyncio.Event()
        order: list[str] = []
        tasks = [asyncio.create_task(occupy(turns, name, order, free)) for name in "a" * 9 + "b" * 9]
        await settle()
        most = order.count("a")
        free.set()
        await asyncio.gather(*tasks)
        return most, order

    most, order = asyncio.run(life())
    assert most == limits.AT_ONCE
    assert sorted(order) == ["a"] * 9 + ["b"] * 9
    assert order[4] == "b"  # its first is served at once, although the other has all that many share
    later = "".join(order[5:15])
    assert "aaaa" not in later
    assert "bbbb" not in later


def test_who_gives_up_takes_nobody_s_turn_and_too_many_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "HELD_BACK", 0.0)
    monkeypatch.setattr(limits, "PATIENCE", 0.05)

    async def life() -> None:
        turns, free = FairQueue(1), asyncio.Event()
        order: list[str] = []
        first = asyncio.create_task(occupy(turns, "a", order, free))
        await settle()
        cancelled = asyncio.create_task(occupy(turns, "a", order, free))
        await settle()
        cancelled.cancel()
        with pytest.raises(asyncio.CancelledError):
            await cancelled
        with pytest.raises(Rejection) as late:
            await occupy(turns, "a", order, free)
        assert late.value.status == 429
        free.set()
        await first
        await occupy(turns, "a", order, free)
        assert order == ["a", "a"]
        free.clear()
        monkeypatch.setattr(limits, "WAITING", 1)
        holding = asyncio.create_task(occupy(turns, "a", order, free))
        await settle()
        with pytest.raises(Rejection) as full:
            await occupy(turns, "a", order, free)
        assert full.value.more["retry_after"] >= 1
        free.set()
        await holding
        assert not turns.is_full("a")

    asyncio.run(life())


def flood(ask_once: Callable[[], Answer], answered: list[int]) -> threading.Thread:
    def run() -> None:
        answered.append(ask_once().status)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


@pytest.mark.full
def test_ten_workspaces_whose_every_request_hangs_do_not_hold_up_another_one(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(protocol, "STATEMENT_SECONDS", 60)  # none of them gives up while this test looks
    monkeypatch.setattr(limits, "PATIENCE", 60.0)
    tokens, writers = [], []
    for number in range(10):
        ws, _ = world.workspace("team")
        tokens.append(world.member(f"m{number}", "owner", ws=ws))
        writers.append(Writer(f"aaaaaaa{number}"))
        assert world.push(writers[-1], writers[-1].fact(), token=tokens[-1]).status == 200
    assert world.ask("GET", "/v1/streams").status == 200
    answered: list[int] = []

    def push(token: str, body: bytes) -> Answer:
        return ask(world.url, "POST", "/v1/streams/global/facts", token, body)

    with psycopg.connect(world.database) as holding:
        holding.execute("SELECT * FROM hub.stream FOR UPDATE")  # now every push waits for this transaction
        threads = []
        for writer, token in zip(writers, tokens, strict=True):
            body = writer.body(writer.fact(target="e2"))
            threads += [flood(partial(push, token, body), answered) for _ in range(6)]
        waiting = (
            "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND usename = 'hub_app'"
        )
        until = time.monotonic() + 30
        while world.sql(waiting)[0][0] < 10:  # all ten have something that hangs
            assert time.monotonic() < until
            time.sleep(0.01)
        assert answered == []
        assert world.ask("GET", "/v1/streams").status == 200
        assert answered == []  # the idle workspace was answered, and none of the others yet
        holding.rollback()
    for thread in threads:
        thread.join()
    assert answered.count(200) >= 10
    assert set(answered) <= {200, 429}


def test_who_is_refused_for_asking_too_often_is_told_when_to_come_back(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BURST", 2.0)
    monkeypatch.setattr(limits, "RATE", 0.001)
    monkeypatch.setattr(limits, "HELD_BACK", 0.0)
    answers = [world.ask("GET", "/v1/me") for _ in range(4)]
    assert answers[-1].status == 429
    assert answers[-1].code == "busy"
    assert int(answers[-1].headers["Retry-After"]) >= 1
    assert answers[-1].headers["Vade-Protocol"] == "1"
