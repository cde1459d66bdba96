"""Migrate a database to the schema of this version: forward only, each migration in a transaction."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from importlib import resources
from typing import TYPE_CHECKING, Any

import psycopg

from vademecum.errors import ConfigError, Malformed, NewerFormat, StorageFailed

if TYPE_CHECKING:
    from collections.abc import Sequence

    from psycopg import Connection

_LOCK = 0x76616465  # key of the advisory lock that a migration holds
_OLDEST = 160000  # PostgreSQL 16, the first with GRANT … WITH INHERIT
_NAME = re.compile(r"(\d{4})_[a-z_]+\.sql")

# Roles belong to the cluster. hub_owner owns the tables and cannot log in; hub_migrate runs DDL; hub_app
# serves; hub_lookup owns the two functions that look across workspaces, and no role inherits its rights.
_ROLES = {
    "hub_owner": "NOLOGIN NOSUPERUSER NOBYPASSRLS",
    "hub_lookup": "NOLOGIN NOSUPERUSER NOBYPASSRLS",
    "hub_migrate": "LOGIN NOSUPERUSER NOBYPASSRLS",
    "hub_app": "LOGIN NOSUPERUSER NOBYPASSRLS",
}
_PREPARE = """
CREATE EXTENSION IF NOT EXISTS vector;
GRANT hub_owner TO CURRENT_USER, hub_migrate;
GRANT hub_lookup TO hub_owner WITH INHERIT FALSE, SET TRUE;
CREATE SCHEMA IF NOT EXISTS hub AUTHORIZATION hub_owner;
GRANT USAGE ON SCHEMA hub TO hub_app, hub_lookup;
SET ROLE hub_owner;
CREATE TABLE IF NOT EXISTS hub.migration (
    number int PRIMARY KEY,
    name text NOT NULL,
    checksum text NOT NULL,
    at timestamptz NOT NULL DEFAULT now()
);
ALTER TABLE hub.migration ENABLE ROW LEVEL SECURITY;
ALTER TABLE hub.migration FORCE ROW LEVEL SECURITY;
CREATE POLICY seen ON hub.migration FOR SELECT USING (true);
CREATE POLICY kept ON hub.migration FOR INSERT TO hub_owner WITH CHECK (true);
GRANT SELECT ON hub.migration TO hub_app;
RESET ROLE;
"""


@dataclass(frozen=True, slots=True)
class Migration:
    """A migration of the database: a numbered SQL file."""

    number: int
    name: str
    sql: str

    @property
    def checksum(self) -> str:
        """The checksum of the SQL file, which the database stores for comparison."""
        return hashlib.sha256(self.sql.encode()).hexdigest()


def read_migrations() -> tuple[Migration, ...]:
    """Return the migrations of this version, in order."""
    folder = resources.files("vademecum_hub") / "schema"
    found = [
        Migration(int(named[1]), each.name, each.read_text("utf-8"))
        for each in folder.iterdir()
        if (named := _NAME.fullmatch(each.name))
    ]
    return tuple(sorted(found, key=lambda each: each.number))


def migrate(connection: Connection[Any], migrations: Sequence[Migration] | None = None) -> list[Migration]:
    """Run the migrations that the database lacks, and return them.

    A failed migration changes nothing; the migrations before it stay. `migrations` replaces those of this
    version.
    """
    known = read_migrations() if migrations is None else migrations
    connection.autocommit = True
    _check_server(connection)
    connection.execute("SELECT pg_advisory_lock(%s)", (_LOCK,))
    try:
        if not _is_prepared(connection):
            with connection.transaction():
                _prepare(connection)
        applied = _read_applied(connection)
        _check_applied(applied, known)
        new = [each for each in known if each.number not in applied]
        for each in new:
            _apply(connection, each)
        return new
    finally:
        if not connection.closed:
            connection.execute("SELECT pg_advisory_unlock(%s)", (_LOCK,))


def check_schema(connection: Connection[Any]) -> None:
    """Raise an error if the database's schema is older or newer than this version needs."""
    connection.autocommit = True
    _check_server(connection)
    if not _is_prepared(connection):
        raise ConfigError("this database holds no hub", hint="run `vade hub migrate` first")
    known = read_migrations()
    applied = _read_applied(connection)
    _check_applied(applied, known)
    if len(applied) < len(known):
        raise ConfigError(
            f"the database is at schema {max(applied, default=0)}, and this version needs {known[-1].number}",
            hint="run `vade hub migrate` first",
        )


def _check_server(connection: Connection[Any]) -> None:
    if connection.info.server_version < _OLDEST:
        raise ConfigError(
            f"the hub needs PostgreSQL 16 or newer, and this is {connection.info.server_version // 10000}",
            hint="upgrade PostgreSQL, or name another database",
        )


def _is_prepared(connection: Connection[Any]) -> bool:
    row = connection.execute("SELECT to_regclass('hub.migration') IS NOT NULL").fetchone()
    return bool(row and row[0])


def _prepare(connection: Connection[Any]) -> None:
    # Another database of the cluster may have created the roles, or may be creating them now.
    for name, rights in _ROLES.items():
        connection.execute(
            f"DO $$ BEGIN CREATE ROLE {name} {rights};"
            " EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL; END $$"
        )
    try:
        connection.execute(_PREPARE)
    except psycopg.errors.InsufficientPrivilege as error:
        raise StorageFailed(
            "this login may not set up a hub", hint="run `vade hub migrate` once as a superuser"
        ) from error
    except (psycopg.errors.UndefinedFile, psycopg.errors.FeatureNotSupported) as error:
        raise StorageFailed(
            "PostgreSQL here has no pgvector", hint="install the extension `vector`, then run it again"
        ) from error


def _read_applied(connection: Connection[Any]) -> dict[int, str]:
    rows = connection.execute("SELECT number, checksum FROM hub.migration ORDER BY number").fetchall()
    return {int(number): str(checksum) for number, checksum in rows}


def _check_applied(applied: dict[int, str], known: Sequence[Migration]) -> None:
    """Raise an error for a schema of a newer version, or a migration file that was changed since."""
    newest = known[-1].number if known else 0
    if applied and max(applied) > newest:
        raise NewerFormat(
            f"the database is at schema {max(applied)}, and this version knows {newest}",
            hint="upgrade vade on this server",
        )
    for each in known:
        if each.number in applied and applied[each.number] != each.checksum:
            raise Malformed(
                f"migration {each.name} is not the one that this database was made with",
                hint="use the version of vade that made it, or restore a backup",
            )


def _apply(connection: Connection[Any], migration: Migration) -> None:
    with connection.transaction():
        connection.execute("SET LOCAL ROLE hub_owner")
        connection.execute(migration.sql)
        connection.execute(
            "INSERT INTO hub.migration (number, name, checksum) VALUES (%s, %s, %s)",
            (migration.number, migration.name, migration.checksum),
        )
