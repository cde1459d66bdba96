"""What the hub itself shows of its facts: the files that the machines have."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hub.test_sync import Pair, meet, two
from vademecum_hub.authorization import enter
from vademecum_hub.stream_documents import read_facts, show_documents

if TYPE_CHECKING:
    from hub.hubs import World

__all__ = ["two"]


def test_the_hub_shows_the_same_bytes_as_the_machines(two: Pair, world: World) -> None:
    one, other = two
    one.memory().note("Something happened.")
    meet(one, other)
    one.change("global/records/machine-one.md", "one is here.", "one is upstairs.")
    other.change("global/records/machine-one.md", "one is here.", "one is downstairs.")
    meet(one, other)
    with world.owner() as connection:
        (ws,) = connection.execute("SELECT ws FROM hub.authenticate(%s)", (_hash(world, two),)).fetchone()  # type: ignore[misc]
        enter(connection, ws)
        streams = [name for (name,) in connection.execute("SELECT stream FROM hub.stream").fetchall()]
        shown = {
            f"{stream}/{path}": each.text.encode()
            for stream in streams
            for path, each in show_documents(connection, ws, stream).items()
        }
    assert shown == one.files() == other.files()


@pytest.mark.full
def test_some_documents_bring_those_that_share_their_file(two: Pair, world: World) -> None:
    one, other = two
    meet(one, other)
    one.memory().store("From one machine.", key="both", scope="global")
    other.memory().store("From the other.", key="both", scope="global")
    one.memory().store("Not asked for.", key="third", scope="global")
    meet(one, other)
    with world.owner() as connection:
        (ws,) = connection.execute("SELECT ws FROM hub.authenticate(%s)", (_hash(world, two),)).fetchone()  # type: ignore[misc]
        enter(connection, ws)
        docs = read_facts(connection, ws, "global").docs
        for doc in docs:
            shown = show_documents(connection, ws, "global", [doc])
            ((path, each),) = shown.items()
            assert each.text.encode() == one.files()[f"global/{path}"]
            assert (len(each.docs) == 2) is (path == "records/both.md")


def _hash(world: World, two: Pair) -> bytes:
    return world.keys.hash_token((two[0].folder / "token").read_text().strip())
