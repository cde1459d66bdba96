"""Nobody stops a local server without a token: a crowd of strangers beside honest clients."""

from __future__ import annotations

import contextlib
import sys
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from http_door.serving import served
from mcp_door.talking import served as mcp_served
from strangers import SIZES, Door, check_beside_a_crowd
from vademecum.memory import connect, tokens
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from contextlib import AbstractContextManager
    from pathlib import Path


@contextlib.contextmanager
def page(tmp_path: Path) -> Iterator[Door]:
    with served(tmp_path / "atlas") as server:
        with connect(home=server.home, cwd=server.folder, origin=Origin.USER, actor="human:ada") as memory:
            token = tokens.add(memory, "reads", scopes=["read"], expires="1h")[1]
        given = {"Authorization": f"Bearer {token}"}
        yield Door(server.port, "/api/v1/records", [given], 200, "/static/style.css")


@contextlib.contextmanager
def mcp(tmp_path: Path) -> Iterator[Door]:
    (tmp_path / "atlas").mkdir()
    with mcp_served(tmp_path / "atlas") as address:
        port = int(urlsplit(address.url).port or 0)
        yield Door(port, "/nowhere", [{"Authorization": f"Bearer {address.token}"}], 404, "/mcp")


@pytest.mark.skipif(sys.platform == "win32", reason="limits of Unix")
@pytest.mark.parametrize("count", SIZES)
@pytest.mark.parametrize("kind", [page, mcp], ids=["serve", "mcp"])
def test_honest_requests_are_answered_beside_a_crowd(
    kind: Callable[[Path], AbstractContextManager[Door]], count: int, tmp_path: Path
) -> None:
    with kind(tmp_path) as door:
        check_beside_a_crowd(door, count)
