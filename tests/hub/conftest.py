"""What tests of the hub start from: a real PostgreSQL, and a database of their own in it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from hub.databases import WHY_NOT, Server, served
from hub.hubs import World, world_of

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def postgres() -> Iterator[Server]:
    """The server of this run; without one these tests are skipped, and say so."""
    if WHY_NOT:
        pytest.skip(f"no PostgreSQL: {WHY_NOT}")
    yield from served()


@pytest.fixture
def database(postgres: Server) -> Iterator[str]:
    """A migrated, empty database, by its superuser's address."""
    name = postgres.database()
    yield postgres.url(name)
    postgres.drop(name)


@pytest.fixture
def world(postgres: Server, database: str) -> Iterator[World]:
    """A hub that is served, with a team workspace in it."""
    with world_of(postgres, database) as made:
        yield made
