"""Server-sent events of the hub: what changed reaches who may know it, and nobody for longer than that."""

from __future__ import annotations

import contextlib
import http.client
import time
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from hub.hubs import Writer
from hub.pages import browse
from vademecum_hub import change_events

if TYPE_CHECKING:
    from collections.abc import Iterator

    from hub.hubs import World


@contextlib.contextmanager
def stream(world: World, path: str = "/v1/events", **headers: str) -> Iterator[http.client.HTTPResponse]:
    """An open stream, once it has said hello."""
    connection = http.client.HTTPConnection(urlsplit(world.url).netloc, timeout=30)
    given = {name.replace("_", "-"): value for name, value in headers.items()}
    connection.request("GET", path, headers={"Vade-Protocol": "1", **given})
    answer = connection.getresponse()
    try:
        if answer.status == 200:
            assert b"hello" in b"".join(answer.readline() for _ in range(4))
        yield answer
    finally:
        answer.close()
        connection.close()


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def until(answer: http.client.HTTPResponse, words: bytes) -> bytes:
    """The first line that holds these words."""
    for line in answer:
        if words in line:
            return line
    raise AssertionError(f"the stream ended without {words!r}")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(change_events, "EVERY", 0.1)


def test_a_push_is_told_to_machines_and_pages_of_the_workspace_and_to_no_other(world: World) -> None:
    ws, _ = world.workspace("team")
    eve = world.member("eve", "owner", ws=ws)
    page = browse(world)
    with (
        stream(world, **bearer(world.anna)) as machine,
        stream(world, f"{page.door}/api/v1/events", Cookie=page.cookie) as browser,
        stream(world, **bearer(eve)) as other,
    ):
        writer = Writer("aaaaaaaa", "project/atlas")
        writer.fact()
        assert world.push(writer).status == 200
        wanted = b'{"kind": "stream", "stream": "project/atlas", "head": 1}'
        for each in (machine, browser):
            assert wanted in until(each, b'data: {"kind')
        hers = Writer("bbbbbbbb", "global")
        hers.fact()
        assert world.push(hers, token=eve).status == 200
        assert b'"stream": "global"' in until(other, b'data: {"kind')


@pytest.mark.full
def test_what_is_pushed_right_after_hello_is_told_even_if_the_next_look_is_far_away(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    ws, _ = world.workspace("team")
    eve = world.member("eve", "owner", ws=ws)
    monkeypatch.setattr(change_events, "EVERY", 2.0)
    hers = Writer("bbbbbbbb", "global")
    hers.fact()
    with stream(world, **bearer(world.anna)), stream(world, **bearer(eve)) as other:
        assert world.push(hers, token=eve).status == 200
        assert b'"stream": "global"' in until(other, b'data: {"kind')


def test_a_stream_ends_when_its_token_is_revoked_or_its_person_leaves(world: World) -> None:
    bert = world.member("bert", "writer")
    page = browse(world)
    with (
        stream(world, **bearer(bert)) as one,
        stream(world, f"{page.door}/api/v1/events", Cookie=page.cookie) as two,
    ):
        listed = world.ask("GET", "/v1/tokens").json["tokens"]
        number = next(each["id"] for each in listed if each["member"] == "bert")
        assert world.ask("DELETE", f"/v1/tokens/{number}").status == 200
        assert page.post("/leave", {}).status == 200
        for each in (one, two):
            assert b"change" not in each.read()
    deadline = time.monotonic() + 20
    while world.app.state.hub.changes._listeners and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not world.app.state.hub.changes._listeners


def test_a_workspace_has_so_many_streams_and_the_next_is_told_to_wait(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(change_events, "MOST", 2)
    with stream(world, **bearer(world.anna)) as _, stream(world, **bearer(world.anna)) as _:
        with stream(world, **bearer(world.anna)) as third:
            assert third.status == 429
            assert int(third.headers["Retry-After"]) > 0
        ws, _ = world.workspace("team")
        with stream(world, **bearer(world.member("eve", "owner", ws=ws))) as other:
            assert other.status == 200


def test_whoever_goes_away_is_listened_for_no_longer(world: World) -> None:
    with stream(world, **bearer(world.anna)):
        assert world.app.state.hub.changes._listeners
    deadline = time.monotonic() + 30
    while world.app.state.hub.changes._listeners and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not world.app.state.hub.changes._listeners


def test_without_a_token_or_the_right_to_read_nothing_is_told(world: World) -> None:
    with stream(world) as nobody:
        assert nobody.status == 401
    with stream(world, **bearer(world.token_of("anna", "write"))) as writer:
        assert writer.status == 403
