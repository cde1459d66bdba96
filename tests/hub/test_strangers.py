"""Nobody stops a hub without a token: a crowd of strangers beside members."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from strangers import CLIENTS, SIZES, Door, check_beside_a_crowd

if TYPE_CHECKING:
    from hub.hubs import World


@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
@pytest.mark.parametrize("count", SIZES)
def test_members_are_answered_beside_a_crowd(count: int, world: World) -> None:
    members = [world.member(f"m{number}", "writer") for number in range(CLIENTS)]
    given = [{"Vade-Protocol": "1", "Authorization": f"Bearer {token}"} for token in members]
    assert {world.ask("GET", "/v1/me", token).status for token in members} == {200}  # the hub knows them
    port = int(urlsplit(world.url).port or 0)
    check_beside_a_crowd(Door(port, "/v1/me", given, 200, "/static/style.css"), count)
