"""Tasks for the operator of a hub: create workspaces, and build search indexes for large workspaces."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

import psycopg
from psycopg import sql

from vademecum.errors import ConfigError, UsageError
from vademecum_hub import listen, members, migrate, workspace_index
from vademecum_hub.authorization import enter
from vademecum_hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    from vademecum_hub.authorization import HubKeys


@contextlib.contextmanager
def operating(database: str, *, snapshot: bool = False) -> Iterator[Connection[Any]]:
    """Open a transaction with the rights of the tables' owner; row-level security still applies.

    With `snapshot`, the transaction is read-only, and all its queries see the same state.
    """
    with listen.connect(database) as connection:
        migrate.check_schema(connection)
        with connection.transaction():
            if snapshot:
                connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ, READ ONLY")
            try:
                connection.execute("SET LOCAL ROLE hub_owner")
            except psycopg.errors.InsufficientPrivilege as error:
                raise ConfigError(
                    "this login may not make or export workspaces", hint="connect as hub_migrate"
                ) from error
            yield connection


def create_workspace(database: str, keys: HubKeys, name: str, *, kind: str, owner: str) -> dict[str, Any]:
    """Create a workspace; return its id and name with the join code for its owner."""
    try:
        members.check_name(owner)
    except Rejection as error:
        raise UsageError(str(error), hint="name the owner with `--owner`") from error
    with operating(database) as connection:
        ws, public = members.make_workspace(connection, name[:80], kind=kind)
        made = members.make_invite(connection, keys, ws=ws, by=None, name=owner, role="owner")
        members.append_log(connection, ws, "operator", "created", member=owner)
    return {"workspace": public, "name": name, **made}


def index_large(database: str) -> int:
    """Create an HNSW index of the vectors for each large workspace without such an index.

    Return how many indexes were created. The hub works meanwhile. Without the index, a search compares all
    vectors, which is slower and finds a little more.
    """
    made = 0
    with listen.connect(database) as connection:
        migrate.check_schema(connection)
        connection.execute("SET ROLE hub_owner")
        row = connection.execute("SELECT last_value FROM hub.workspaces").fetchone()
        for ws in range(1, (row[0] if row else 0) + 1):
            name = f"vector_near_{ws}"
            passages = _lacking_index(connection, ws, name)
            if not passages:
                continue
            part = connection.execute(
                "SELECT 'vector_' || lpad(n::text, 2, '0') FROM generate_series(0, 63) n"
                " WHERE satisfies_hash_partition('hub.vector'::regclass, 64, n, %s::bigint)",
                (ws,),
            ).fetchone()
            assert part is not None
            connection.execute(sql.SQL("DROP INDEX IF EXISTS hub.{}").format(sql.Identifier(name)))
            # An index that does not fit into memory takes many times as long to build. Parallel workers would
            # need shared memory, and containers have little of it.
            connection.execute("SET max_parallel_maintenance_workers = 0")
            connection.execute(f"SET maintenance_work_mem = '{min(1024, max(64, passages // 800))}MB'")
            connection.execute(
                sql.SQL(
                    "CREATE INDEX CONCURRENTLY {} ON hub.{}"
                    " USING hnsw (vec public.halfvec_cosine_ops) WHERE ws = {}"
                ).format(sql.Identifier(name), sql.Identifier(part[0]), sql.Literal(ws))
            )
            with connection.transaction():
                enter(connection, ws)
                connection.execute(
                    """UPDATE hub.search SET settings = settings || '{"hnsw": "yes"}' WHERE ws = %s""", (ws,)
                )
            made += 1
    return made


def _lacking_index(connection: Connection[Any], ws: int, name: str) -> int:
    """Return the number of passages of a large workspace without a valid HNSW index; 0 for any other."""
    with connection.transaction():
        enter(connection, ws)
        row = connection.execute(
            "SELECT coalesce(sum(seen), 0)::bigint FROM hub.posting WHERE ws = %s AND NOT wide AND stem = ''",
            (ws,),
        ).fetchone()
        whole = connection.execute(
            "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass(%s)", (f"hub.{name}",)
        ).fetchone()
    passages = int(row[0]) if row else 0
    return 0 if passages <= workspace_index.exact_search_limit() or (whole and whole[0]) else passages
