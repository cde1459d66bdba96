"""A retried write is stored once (R22)."""

from __future__ import annotations

import random
import threading
from typing import TYPE_CHECKING, Any

import anyio
import pytest

from mcp_door.talking import call, home_of, in_process, over_stdio, refusal, talk
from vademecum.errors import StorageFailed, UsageError
from vademecum.memory import Memory, connect
from vademecum.store import pending_writes

if TYPE_CHECKING:
    from pathlib import Path

    from mcp.client.client import Client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "project"
    made.mkdir()
    return made


def writes(count: int) -> list[tuple[str, dict[str, Any]]]:
    """Writes of every kind, each with a key of its own; no two say the same."""
    made: list[tuple[str, dict[str, Any]]] = []
    for number in range(count):
        word = f"{number} {'abcdefghij'[number % 10] * (number % 7 + 3)}"
        key = {"idempotency_key": f"key-{number}"}
        kind = number % 3
        if kind == 0:
            made.append(("memory_note", {"content": f"Note {word}", **key}))
        elif kind == 1:
            made.append(("memory_store", {"content": f"Entry {word}", "key": f"topic-{number % 4}", **key}))
        else:
            fact = f"Discovery {word} about part {number * 7919}"
            made.append(("memory_store", {"type": "discovery", "content": fact, **key}))
    return made


def expected(folder: Path, count: int) -> None:
    memory = connect(home=home_of(folder), cwd=folder, environ={})
    notes = memory.notes_of_today().text
    entries = [each.text for record in memory.list(type="project").records for each in record.entries]
    for number in range(count):
        word = f"{number} {'abcdefghij'[number % 10] * (number % 7 + 3)}"
        if number % 3 == 0:
            assert notes.count(f"Note {word}\n") == 1
        elif number % 3 == 1:
            assert entries.count(f"Entry {word}") == 1
    assert memory.status().notes == len(range(0, count, 3))


def retried(folder: Path, *, count: int, times: int, seed: int) -> None:
    """Send every write so many times, in any order, through two servers at once."""
    plan = [each for each in writes(count) for _ in range(times)]
    random.Random(seed).shuffle(plan)

    async def send(client: Client, some: list[tuple[str, dict[str, Any]]]) -> None:
        for name, given in some:
            await call(client, name, **given)

    async def conversation() -> None:
        async with (
            over_stdio(folder) as one,
            over_stdio(folder, era="2026-07-28") as other,
            anyio.create_task_group() as group,
        ):
            for client, half in ((one, plan[::2]), (other, plan[1::2])):
                for part in range(3):
                    group.start_soon(send, client, half[part::3])

    talk(conversation)
    expected(folder, count)


def test_writes_that_are_repeated_and_reordered_in_two_processes_are_made_once(folder: Path) -> None:
    retried(folder, count=24, times=4, seed=1)


@pytest.mark.soak
def test_a_thousand_retries_make_no_duplicate(folder: Path) -> None:
    retried(folder, count=250, times=5, seed=2)


def test_a_retry_gets_the_first_answer_again_and_a_key_belongs_to_one_write(folder: Path) -> None:
    async def conversation() -> None:
        async with in_process(folder) as client:
            given = {"content": "Kept once.", "key": "once", "idempotency_key": "a"}
            first = await call(client, "memory_store", **given)
            assert await call(client, "memory_store", **given) == first
            said = await refusal(client, "memory_store", {**given, "content": "Something else."})
            assert "belongs to another call" in said
            gone = {"key": "once", "idempotency_key": "b"}
            assert await call(client, "memory_forget", **gone) == await call(client, "memory_forget", **gone)
            wrong = {"key": "never", "idempotency_key": "c"}
            assert "never" in await refusal(client, "memory_forget", wrong)
            await call(client, "memory_store", content="Now it is there.", key="never")
            assert (await call(client, "memory_forget", **wrong))["outcome"] == "forgotten"

    talk(conversation)


def test_two_agents_may_use_the_same_key(folder: Path) -> None:
    async def conversation() -> None:
        for agent in ("one", "two"):
            async with in_process(folder, agent=agent) as client:
                await call(client, "memory_note", content=f"By {agent}.", idempotency_key="1")

    talk(conversation)
    text = connect(home=home_of(folder), cwd=folder, environ={}).notes_of_today().text
    assert "By one." in text
    assert "By two." in text


def test_a_change_of_the_list_of_things_to_do_is_made_once_and_leaves_no_words_with_its_key(
    folder: Path,
) -> None:
    async def conversation() -> None:
        async with in_process(folder) as client:
            given = {"operation": "add", "title": "Find the bug", "idempotency_key": "a"}
            first = await call(client, "todo", **given)
            assert [each["title"] for each in first["items"]] == ["Find the bug"]
            assert await call(client, "todo", **given) == first
            said = await refusal(client, "todo", {**given, "title": "Something else"})
            assert "belongs to another call" in said
            for operation, more in (
                ("write", {"items": [{"id": 1}, "Fix it"]}),
                ("update", {"id": 2, "status": "blocked"}),
                ("done", {"id": 1}),
            ):
                request = {"operation": operation, **more, "idempotency_key": operation}
                changed = await call(client, "todo", **request)
                assert await call(client, "todo", **request) == changed
            listed = await call(client, "todo", operation="list")
            assert [(each["id"], each["status"]) for each in listed["items"]] == [(1, "done"), (2, "blocked")]
            # What was ticked off by an old call is not ticked off again by its retry.
            await call(client, "todo", operation="update", id=1, status="pending")
            again = await call(client, "todo", operation="done", id=1, idempotency_key="done")
            assert again["items"][0]["status"] == "pending"
            wrong = {"operation": "done", "id": 3, "idempotency_key": "later"}
            assert "3" in await refusal(client, "todo", wrong)
            await call(client, "todo", operation="add", title="Now it is there")
            assert (await call(client, "todo", **wrong))["items"][2]["status"] == "done"
            await call(client, "todo", operation="add", title="Twice on purpose")
            twice = await call(client, "todo", operation="add", title="Twice on purpose")
            assert len(twice["items"]) == 5
        async with in_process(folder, session="s2") as client:
            said = await refusal(client, "todo", given)
            assert "belongs to another call" in said  # and is not taken for done in another session

    talk(conversation)
    kept = [each.read_bytes() for each in (home_of(folder) / "retries").iterdir()]
    assert kept
    assert not any(b"bug" in each or b"Fix" in each for each in kept)


def test_additions_to_the_list_that_two_servers_get_many_times_are_made_once(folder: Path) -> None:
    plan = [number for number in range(8) for _ in range(4)]
    random.Random(3).shuffle(plan)

    async def send(client: Client, numbers: list[int]) -> None:
        for number in numbers:
            given = {"operation": "add", "title": f"Thing {number}", "idempotency_key": f"todo-{number}"}
            await call(client, "todo", **given)

    async def conversation() -> None:
        async with (
            over_stdio(folder, "--session", "shared", "--tools", "all") as one,
            over_stdio(folder, "--session", "shared", "--tools", "all", era="2026-07-28") as other,
        ):
            await call(one, "todo", operation="write", items=[])  # the session is there for both
            async with anyio.create_task_group() as group:
                group.start_soon(send, one, plan[::2])
                group.start_soon(send, other, plan[1::2])
            items = (await call(other, "todo"))["items"]
            assert sorted(each["title"] for each in items) == [f"Thing {number}" for number in range(8)]

    talk(conversation)


def test_a_write_that_was_made_but_not_answered_is_not_made_again(folder: Path) -> None:
    """Killed between the write and its answer: the next try finds what the first one did."""
    memory = connect(home=home_of(folder), cwd=folder, environ={})
    memory.store("Will go.", key="going")
    for operation, arguments in (
        ("note", {"text": "Said once.", "scope": "project"}),
        ("store", {"text": "Stored once.", "key": "stored"}),
        ("forget", {"name": "going", "scope": "project"}),
    ):

        def cut_off(done: Any, operation: str = operation, arguments: dict[str, Any] = arguments) -> Any:
            assert done is None
            memory.requests.perform(operation, arguments)
            raise StorageFailed("killed here")

        with pytest.raises(StorageFailed):
            memory.requests.once(f"key {operation}", operation, arguments, do=cut_off)

        def again(done: Any, operation: str = operation, arguments: dict[str, Any] = arguments) -> Any:
            if done is None:
                memory.requests.perform(operation, arguments)
            return {"outcome": "fine"}

        assert memory.requests.once(f"key {operation}", operation, arguments, do=again) == {"outcome": "fine"}
    assert memory.notes_of_today().text.count("Said once.") == 1
    assert len(memory.show("stored").entries) == 1


def test_what_was_refused_may_be_tried_again_with_its_key(folder: Path) -> None:
    memory = connect(home=home_of(folder), cwd=folder, environ={})

    def refused(done: Any) -> Any:
        raise UsageError("no")

    with pytest.raises(UsageError):
        memory.requests.once("k", "note", {"text": "x"}, do=refused)
    assert memory.requests.answered("k", "note", {"text": "x"}) is None
    assert memory.requests.once("k", "note", {"text": "y"}, do=lambda done: {"outcome": "noted"}) == {
        "outcome": "noted"
    }


def test_keys_are_bounded_and_hold_nothing_of_what_was_written(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pending_writes, "MOST_ANSWERS", 20)
    monkeypatch.setattr(pending_writes, "_LOOK", 1)
    memory = connect(home=home_of(folder), cwd=folder, environ={})
    for number in range(60):
        memory.requests.once(
            f"k{number}", "note", {"text": "private words"}, do=lambda done: {"outcome": "noted"}
        )
    kept = list((home_of(folder) / "retries").iterdir())
    assert len(kept) <= 20
    assert not any(b"private" in each.read_bytes() for each in kept)
    assert all(each.stat().st_mode & 0o077 == 0 for each in kept)


def test_one_key_in_many_threads_does_its_work_once(folder: Path) -> None:
    done: list[int] = []

    def attempt() -> None:
        memory = connect(home=home_of(folder), cwd=folder, environ={})

        def do(_: Any) -> Any:
            done.append(1)
            return {"outcome": "noted"}

        assert memory.requests.once("same", "note", {"text": "x"}, do=do) == {"outcome": "noted"}

    threads = [threading.Thread(target=attempt) for _ in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert done == [1]


def test_a_purge_forgets_the_keys_too(folder: Path) -> None:
    from vademecum.types import Origin

    memory: Memory = connect(home=home_of(folder), cwd=folder, environ={}, origin=Origin.USER)
    memory.requests.once("k", "store", {}, do=lambda _: {"key": "gone-for-good"})
    memory.store("Secret plan.", key="gone-for-good")
    memory.archive.purge("gone-for-good")
    assert not list((home_of(folder) / "retries").iterdir())
