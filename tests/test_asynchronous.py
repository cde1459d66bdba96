"""AsyncMemory: the calls of Memory, awaited; cancelled at any moment they wrote all or nothing."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import threading
from typing import TYPE_CHECKING, Any

import pytest

from vademecum import AsyncMemory, Memory, NotFound

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from pathlib import Path

NOUNS = [
    name
    for name, each in vars(Memory).items()
    if isinstance(each, functools.cached_property) and name[0] != "_" and name != "reading"  # a thread
]
# Calls that the nouns make for each other and for interfaces, and one that would keep the thread to itself.
LEFT_OUT = {
    "archive.put_away",
    "care.held",
    "care.moved_if_due",
    "care.share_index",
    "care.swept",
    "care.watch",
    "heard.accept",
    "heard.add",
    "heard.decline",
    "heard.hear",
    "heard.hear_recent",
    "heard.note_nudge",
    "heard.reopen",
    "heard.settle_nudges",
    "heard.settle_saved",
    "heard.skip",
    "heard.unsaved",
    "injection.records_again",
    "projects.earlier",
    "requests.seen",
    "sessions.record",  # a log is a file of this process
    "review.to_review",
    "sessions.newest_logs",
}


def in_a_loop(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test that is a coroutine, run in a loop of its own."""

    @functools.wraps(test)
    def run(*given: Any, **named: Any) -> None:
        asyncio.run(test(*given, **named))

    return run


def calls(owner: object) -> set[str]:
    return {name for name, _ in inspect.getmembers(type(owner), inspect.isfunction) if name[0] != "_"}


def parameters(call: Callable[..., object]) -> list[inspect.Parameter]:
    return list(inspect.signature(call).parameters.values())[1:]


def test_every_call_of_memory_is_there_with_its_signature(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "home", project=False)
    awaited = AsyncMemory(memory)
    assert calls(memory) <= calls(awaited) | {"open"}
    for name in calls(memory) & calls(awaited) - {"close"}:
        assert parameters(getattr(Memory, name)) == parameters(getattr(AsyncMemory, name)), name
    for noun in NOUNS:
        sync, other = type(getattr(memory, noun)), type(getattr(awaited, noun))
        missing = {f"{noun}.{name}" for name in calls(getattr(memory, noun)) - calls(getattr(awaited, noun))}
        assert missing <= LEFT_OUT
        for name in calls(getattr(awaited, noun)):
            assert parameters(getattr(sync, name)) == parameters(getattr(other, name)), f"{noun}.{name}"


@in_a_loop
async def test_what_is_stored_is_found_and_errors_come_through(tmp_path: Path) -> None:
    async with await AsyncMemory.open(tmp_path / "home", project=tmp_path) as memory:
        kept = await memory.store("Deploys happen on Fridays at noon.", key="deploys")
        await memory.knowledge.learn("discovery", fact="The importer reads CSV in chunks.")
        assert (tmp_path / "home" / kept.path).exists()
        assert [each.key for each in await memory.search("when do we deploy?")][:1] == ["deploys"]
        assert len(await memory.list()) == 2
        assert len(await memory.knowledge.list()) == 1
        with pytest.raises(NotFound):
            await memory.show("nothing-by-that-name")
        log = await memory.sessions.new(name="one")
        assert [each.name for each in await memory.sessions.list()] == ["one"]
        assert await memory.run(lambda: sum(1 for _ in log.lines())) == 1


@in_a_loop
async def test_the_loop_turns_while_a_call_is_made(tmp_path: Path) -> None:
    memory = await AsyncMemory.open(tmp_path / "home", project=False)
    begun, go_on = threading.Event(), threading.Event()

    def slow() -> str:
        begun.set()
        go_on.wait(60)
        return threading.current_thread().name

    waiting = asyncio.ensure_future(memory.run(slow))
    while not begun.is_set():
        await asyncio.sleep(0)
    go_on.set()  # nobody could have said so, had the loop stood still
    assert (await waiting).startswith("vademecum")
    await memory.close()


@in_a_loop
async def test_many_tasks_store_at_once_and_each_is_kept(tmp_path: Path) -> None:
    async with await AsyncMemory.open(tmp_path / "home", project=tmp_path) as memory:
        await asyncio.gather(*(memory.store(f"Fact {n}.", key=f"fact-{n}") for n in range(40)))
        found = await asyncio.gather(*(memory.show(f"fact-{n}") for n in range(40)))
        assert [each.text for each in found] == [f"Fact {n}." for n in range(40)]
        assert (await memory.audit.verify()).problems == ()


@in_a_loop
async def test_a_call_that_is_cancelled_before_its_turn_does_nothing(tmp_path: Path) -> None:
    async with await AsyncMemory.open(tmp_path / "home", project=tmp_path) as memory:
        begun, go_on = threading.Event(), threading.Event()

        def hold() -> None:
            begun.set()
            go_on.wait(60)

        held = asyncio.ensure_future(memory.run(hold))
        while not begun.is_set():
            await asyncio.sleep(0)
        waiting = asyncio.ensure_future(memory.store("Never.", key="never"))
        await asyncio.sleep(0)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        go_on.set()
        await held
        assert len(await memory.list()) == 0
        assert (await memory.store("Later.", key="later")).key == "later"


@in_a_loop
async def test_a_call_that_is_cancelled_in_the_middle_is_finished(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with await AsyncMemory.open(tmp_path / "home", project=tmp_path) as memory:
        begun, go_on = threading.Event(), threading.Event()
        await memory.store("Before.", key="before")
        store = memory.memory.workspace.records.store

        def held(*given: Any, **named: Any) -> Any:
            begun.set()
            go_on.wait(60)
            return store(*given, **named)

        monkeypatch.setattr(
            type(memory.memory.workspace.records), "store", lambda self, *a, **k: held(*a, **k)
        )
        writing = asyncio.ensure_future(memory.store("In the middle.", key="middle"))
        while not begun.is_set():
            await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        go_on.set()
        assert (await memory.show("middle")).text == "In the middle."


@in_a_loop
async def test_stores_cancelled_at_any_moment_leave_whole_records(tmp_path: Path) -> None:
    async with await AsyncMemory.open(tmp_path / "home", project=tmp_path) as memory:
        for number in range(30):
            task = asyncio.ensure_future(memory.store(f"Fact {number}.", key=f"fact-{number}"))
            for _ in range(number % 7):
                await asyncio.sleep(0.001 * (number % 5))
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await task
        listing = await memory.list()
        assert not listing.findings
        assert all(each.text == f"Fact {each.key.removeprefix('fact-')}." for each in listing)
        assert (await memory.audit.verify()).problems == ()
        assert (await memory.store("After all of it.", key="after")).num is not None


@in_a_loop
async def test_after_close_the_next_call_opens_again(tmp_path: Path) -> None:
    memory = await AsyncMemory.open(tmp_path / "home", project=tmp_path)
    await memory.store("Still here.", key="here")
    await memory.close()
    assert (await memory.show("here")).text == "Still here."
    await memory.close()


@in_a_loop
async def test_two_people_have_a_home_each_in_one_process(tmp_path: Path) -> None:
    homes = {name: tmp_path / "homes" / name for name in ("ada", "ben")}

    async def served(name: str) -> list[str]:
        async with await AsyncMemory.open(homes[name], project=False, agent="assistant") as memory:
            await asyncio.gather(
                *(memory.store(f"{name} says {n}.", key=f"said-{n}", scope="global") for n in range(10))
            )
            return [each.text for each in await memory.list()]

    ada, ben = await asyncio.gather(served("ada"), served("ben"))
    assert sorted(ada) == sorted(f"ada says {n}." for n in range(10))
    assert sorted(ben) == sorted(f"ben says {n}." for n in range(10))
