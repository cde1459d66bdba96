"""The schema: migrations forward from everywhere, and no row that another workspace could see."""

from __future__ import annotations

import os
import threading
from typing import TYPE_CHECKING, Any

import psycopg
import pytest

from vademecum.errors import ConfigError, Malformed, NewerFormat
from vademecum_hub import migrate
from vademecum_hub.index_updates import count_stale
from vademecum_hub.migrate import Migration, read_migrations

if TYPE_CHECKING:
    from hub.databases import Server

ALL = read_migrations()
LATER = Migration(len(ALL) + 1, f"{len(ALL) + 1:04}_later.sql", "CREATE TABLE hub.later (ws bigint)")

# Tables, their columns, constraints, indexes, policies and functions, as the catalogue describes them.
SHAPE = """
SELECT 'column', table_name || '.' || column_name || ' ' || data_type || ' ' || is_nullable
FROM information_schema.columns WHERE table_schema = 'hub'
UNION ALL SELECT 'constraint', conrelid::regclass || ' ' || pg_get_constraintdef(oid)
FROM pg_constraint WHERE connamespace = 'hub'::regnamespace
UNION ALL SELECT 'index', indexdef FROM pg_indexes WHERE schemaname = 'hub'
UNION ALL SELECT 'policy', tablename || ' ' || policyname || ' ' || roles::text || coalesce(qual, '')
FROM pg_policies WHERE schemaname = 'hub'
UNION ALL SELECT 'function', proname || ' ' || proowner::regrole || ' ' || prosecdef
FROM pg_proc WHERE pronamespace = 'hub'::regnamespace
UNION ALL SELECT 'grant', table_name || ' ' || grantee || ' ' || privilege_type
FROM information_schema.role_table_grants WHERE table_schema = 'hub'
ORDER BY 1, 2
"""


def shape(url: str) -> list[tuple[Any, ...]]:
    with psycopg.connect(url) as connection:
        return connection.execute(SHAPE).fetchall()


@pytest.fixture
def empty(postgres: Server) -> Any:
    name = postgres.database(template="template0")
    yield postgres.url(name)
    postgres.drop(name)


@pytest.mark.full(but=1)
@pytest.mark.parametrize("earlier", range(len(ALL)))
def test_a_database_of_every_earlier_schema_becomes_the_same_as_a_new_one(
    earlier: int, empty: str, database: str
) -> None:
    with psycopg.connect(empty) as connection:
        migrate.migrate(connection, ALL[:earlier])
        assert migrate.migrate(connection) == list(ALL[earlier:])
        assert migrate.migrate(connection) == []
    assert shape(empty) == shape(database)


@pytest.mark.full
def test_what_a_database_of_the_first_schema_holds_stays_and_waits_to_be_searched(empty: str) -> None:
    with psycopg.connect(empty) as connection:
        migrate.migrate(connection, ALL[:1])
        connection.execute(
            "INSERT INTO hub.workspace (ws, public, name, kind) VALUES (1, gen_random_uuid(), 'w', 'team')"
        )
        connection.execute(
            "INSERT INTO hub.stream (ws, stream, scope, place, head, chain)"
            " VALUES (1, 'global', 'global', '', 1, '\\x00')"
        )
        connection.execute(
            "INSERT INTO hub.fact VALUES (1, 'global', 1, 'aaaaaaaa', 1, '', '', '', 1, 'd', 'put', 't',"
            " '{}', '{}', '\\x', 'user', 'cli', '', null, 'anna', 'owner', null, now(), '', null, 1)"
        )
        migrate.migrate(connection)
        assert connection.execute("SELECT head, projected FROM hub.stream").fetchall() == [(1, 0)]
        assert connection.execute("SELECT count(*) FROM hub.fact").fetchone() == (1,)
        connection.execute("SELECT set_config('hub.ws', '1', false)")
        assert count_stale(connection, 1) == 1


def test_numbers_of_migrations_have_no_gap() -> None:
    assert [each.number for each in ALL] == list(range(1, len(ALL) + 1))


def test_a_schema_that_a_newer_version_made_is_refused_by_migrate_and_by_the_server(database: str) -> None:
    with psycopg.connect(database) as connection:
        migrate.migrate(connection, [*ALL, LATER])
        for call in (migrate.migrate, migrate.check_schema):
            with pytest.raises(NewerFormat, match=f"schema {LATER.number}.*knows {len(ALL)}"):
                call(connection)


@pytest.mark.full
def test_a_server_refuses_a_database_that_is_older_or_holds_no_hub(empty: str) -> None:
    with psycopg.connect(empty) as connection:
        with pytest.raises(ConfigError, match="holds no hub"):
            migrate.check_schema(connection)
        migrate.migrate(connection, ALL[:-1])
        with pytest.raises(ConfigError, match=f"needs {len(ALL)}"):
            migrate.check_schema(connection)


def test_a_migration_that_was_changed_afterwards_is_refused(database: str) -> None:
    changed = Migration(1, ALL[0].name, ALL[0].sql + "-- changed")
    with psycopg.connect(database) as connection, pytest.raises(Malformed, match=ALL[0].name):
        migrate.migrate(connection, [changed, *ALL[1:]])


def test_nothing_stays_of_a_migration_that_fails_half_way(database: str) -> None:
    before = shape(database)
    broken = Migration(LATER.number, LATER.name, LATER.sql + "; SELECT no_such_thing")
    with psycopg.connect(database) as connection:
        with pytest.raises(psycopg.errors.UndefinedColumn):
            migrate.migrate(connection, [*ALL, broken])
        migrate.check_schema(connection)
    assert shape(database) == before


def test_two_servers_that_migrate_at_once_run_each_migration_once(empty: str) -> None:
    ran: list[list[Migration]] = []

    def run() -> None:
        with psycopg.connect(empty) as connection:
            ran.append(migrate.migrate(connection))

    threads = [threading.Thread(target=run) for _ in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert sorted(map(len, ran)) == [0, 0, len(ALL)]


def test_hub_migrate_may_run_a_later_migration_and_hub_app_may_not(postgres: Server, database: str) -> None:
    with (
        psycopg.connect(postgres.as_role(database, "hub_app")) as connection,
        pytest.raises(psycopg.errors.InsufficientPrivilege),
    ):
        migrate.migrate(connection, [*ALL, LATER])
    with psycopg.connect(postgres.as_role(database, "hub_migrate")) as connection:
        assert migrate.migrate(connection, [*ALL, LATER]) == [LATER]


# ------------------------------------------------------------------------------- row-level security

# Each table with what is wrong about it.
LOOSE = """
SELECT c.relname, concat_ws(', ',
    CASE WHEN NOT c.relrowsecurity THEN 'row security is not enabled' END,
    CASE WHEN NOT c.relforcerowsecurity THEN 'row security is not forced' END,
    CASE WHEN c.relname <> 'migration' AND NOT EXISTS (
        SELECT FROM pg_policy p
        WHERE p.polrelid = c.oid AND p.polcmd = '*' AND p.polroles = '{0}'
          AND pg_get_expr(p.polqual, p.polrelid) = '(ws = (current_setting(''hub.ws''::text))::bigint)'
          AND pg_get_expr(p.polwithcheck, p.polrelid) = pg_get_expr(p.polqual, p.polrelid)
    ) THEN 'no policy by workspace' END,
    CASE WHEN EXISTS (
        SELECT FROM pg_policy p
        WHERE p.polrelid = c.oid AND p.polname <> 'own' AND c.relname <> 'migration'
          AND NOT (p.polroles = ARRAY['hub_lookup'::regrole::oid] AND p.polcmd = 'r'
                   AND c.relname IN ('token', 'member', 'workspace', 'invite'))
    ) THEN 'another policy lets more through' END,
    CASE WHEN c.relname <> 'migration' AND NOT EXISTS (
        SELECT FROM pg_attribute a
        WHERE a.attrelid = c.oid AND a.attnum = 1 AND a.attname = 'ws' AND a.attnotnull
    ) THEN 'its first column is not ws' END,
    CASE WHEN c.relname <> 'migration' AND EXISTS (
        SELECT FROM pg_index i
        JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = i.indkey[0]
        WHERE i.indrelid = c.oid AND i.indisunique AND a.attname <> 'ws'
    ) THEN 'a unique key does not begin with ws' END,
    CASE WHEN c.relowner <> 'hub_owner'::regrole THEN 'it does not belong to hub_owner' END
)
FROM pg_class c
WHERE c.relnamespace = 'hub'::regnamespace AND c.relkind IN ('r', 'p', 'm', 'f')
"""


def loose(connection: psycopg.Connection[Any]) -> dict[str, str]:
    return {name: said for name, said in connection.execute(LOOSE).fetchall() if said}


def test_every_table_is_forced_to_its_workspace(database: str) -> None:
    with psycopg.connect(database) as connection:
        assert loose(connection) == {}
        views = "SELECT relname FROM pg_class WHERE relnamespace = 'hub'::regnamespace AND relkind = 'v'"
        assert connection.execute(views).fetchall() == [], "a view is read with its owner's rights"


@pytest.mark.full(but=3)
@pytest.mark.parametrize(
    ("planted", "told"),
    [
        ("ALTER TABLE hub.fact NO FORCE ROW LEVEL SECURITY", "row security is not forced"),
        ("ALTER TABLE hub.lease DISABLE ROW LEVEL SECURITY", "row security is not enabled"),
        ("DROP POLICY own ON hub.stream", "no policy by workspace"),
        ("CREATE POLICY more ON hub.fact FOR SELECT USING (true)", "another policy lets more through"),
        (
            "CREATE POLICY lookup ON hub.fact FOR SELECT TO hub_lookup USING (true)",
            "another policy lets more",
        ),
        ("CREATE UNIQUE INDEX other ON hub.stream (stream)", "a unique key does not begin with ws"),
        ("CREATE TABLE hub.planted (id bigint, ws bigint)", "its first column is not ws"),
        ("ALTER POLICY own ON hub.token USING (true)", "no policy by workspace"),
    ],
)
def test_the_check_of_the_catalogue_sees_what_is_planted(planted: str, told: str, database: str) -> None:
    with psycopg.connect(database) as connection:
        connection.execute(planted)
        assert any(told in each for each in loose(connection).values())


def test_roles_have_no_more_rights_than_they_need(database: str) -> None:
    with psycopg.connect(database) as connection:
        rows = connection.execute(
            "SELECT rolname, rolcanlogin, rolsuper OR rolbypassrls OR rolcreaterole OR rolcreatedb"
            " FROM pg_roles WHERE rolname LIKE 'hub\\_%' ORDER BY 1"
        ).fetchall()
        assert rows == [
            ("hub_app", True, False),
            ("hub_lookup", False, False),
            ("hub_migrate", True, False),
            ("hub_owner", False, False),
        ]
        seen = "SELECT pg_has_role(%s, 'hub_lookup', 'USAGE')"
        for name in ("hub_app", "hub_owner", "hub_migrate"):
            assert connection.execute(seen, (name,)).fetchone() == (False,)
        part = "SELECT has_table_privilege('hub_app', 'hub.fact_07', 'SELECT')"
        assert connection.execute(part).fetchone() == (False,)


TABLES = (
    "workspace",
    "member",
    "token",
    "invite",
    "stream",
    "fact",
    "number",
    "purge_ack",
    "lease",
    "admin_log",
    "search",
    "shown",
    "document",
    "passage",
    "posting",
    "vector",
    "page_session",
    "conflict",
)


def fill(connection: psycopg.Connection[Any], ws: int) -> None:
    """A row of this workspace in every table."""
    connection.execute("SELECT set_config('hub.ws', %s, true)", (str(ws),))
    given = {"ws": ws, "u": f"00000000-0000-0000-0000-{ws:012}", "h": bytes([ws]) * 32}
    for row in (
        "INSERT INTO hub.workspace (ws, public, name, kind) VALUES (%(ws)s, %(u)s, 'w', 'team')",
        "INSERT INTO hub.member (ws, member, name, role) VALUES (%(ws)s, %(u)s, 'anna', 'owner')",
        "INSERT INTO hub.token (ws, token, member, hash, scopes, expires)"
        " VALUES (%(ws)s, %(u)s, %(u)s, %(h)s, '{read}', now() + interval '1 day')",
        "INSERT INTO hub.invite (ws, invite, hash, scopes, expires)"
        " VALUES (%(ws)s, 'code' || %(ws)s, %(h)s, '{read}', now() + interval '1 day')",
        "INSERT INTO hub.stream (ws, stream, scope, place, chain)"
        " VALUES (%(ws)s, 'global', 'global', '', %(h)s)",
        "INSERT INTO hub.fact VALUES (%(ws)s, 'global', 1, 'aaaaaaaa', 1, %(h)s, %(h)s, %(h)s, 1, 'd', 'put',"
        " 't', '{}', '{}', '\\x', 'user', 'cli', '', null, 'anna', 'owner', null, now(), %(h)s, null, 1)",
        "INSERT INTO hub.number VALUES (%(ws)s, 1, 'global', 'd')",
        "INSERT INTO hub.purge_ack VALUES (%(ws)s, 'global', 1, 'aaaaaaaa')",
        "INSERT INTO hub.lease VALUES (%(ws)s, 'global', 'aaaaaaaa', now())",
        "INSERT INTO hub.admin_log VALUES (%(ws)s, 1, '{}', %(h)s, %(h)s)",
        "INSERT INTO hub.search (ws) VALUES (%(ws)s)",
        "INSERT INTO hub.shown VALUES (%(ws)s, 'global', 'd', 'records/d.md', 'global/records/d.md')",
        "INSERT INTO hub.document VALUES (%(ws)s, 1, 'i', 'p', 'memory', 'record', 'global', '', '', '',"
        " '{0,0,0,0}', null, 't', 'k', 1, 'project', '{}', null)",
        "INSERT INTO hub.passage VALUES (%(ws)s, 1, 1, 0, 1, 1, 'text', '', null, null, 'user', null, null,"
        " null, 0, 0, true, 1, '\\x', '\\x', 'en', '', null, %(h)s)",
        "INSERT INTO hub.posting VALUES (%(ws)s, false, 'text', 0, 1, %(h)s)",
        "INSERT INTO hub.vector VALUES"
        " (%(ws)s, %(h)s, (SELECT array_agg(1) FROM generate_series(1, 256))::public.halfvec)",
        "INSERT INTO hub.page_session (ws, session, token) VALUES (%(ws)s, %(u)s, %(u)s)",
        "INSERT INTO hub.conflict VALUES (%(ws)s, 'global', 'd', 't')",
    ):
        connection.execute(row, given)


@pytest.fixture
def as_app(postgres: Server, database: str) -> Any:
    """A connection as the server's role, in a database with two workspaces."""
    with psycopg.connect(database) as connection:
        connection.execute("SET ROLE hub_owner")
        for ws in (1, 2):
            with connection.transaction():
                fill(connection, ws)
    with psycopg.connect(postgres.as_role(database, "hub_app"), autocommit=True) as connection:
        yield connection


def act(connection: psycopg.Connection[Any], ws: int, sql: str) -> int:
    """Do something in the name of a workspace."""
    with connection.transaction():
        connection.execute("SELECT set_config('hub.ws', %s, true)", (str(ws),))
        return connection.execute(sql).rowcount


@pytest.mark.full(but=5)
@pytest.mark.parametrize("table", TABLES)
def test_a_workspace_sees_its_own_rows_and_no_other(table: str, as_app: psycopg.Connection[Any]) -> None:
    for ws in (1, 2):
        with as_app.transaction():
            as_app.execute("SELECT set_config('hub.ws', %s, true)", (str(ws),))
            assert as_app.execute(f"SELECT ws FROM hub.{table}").fetchall() == [(ws,)]
    with as_app.transaction():
        as_app.execute("SELECT set_config('hub.ws', '3', true)")
        assert as_app.execute(f"SELECT ws FROM hub.{table}").fetchall() == []


@pytest.mark.full(but=3)
@pytest.mark.parametrize("table", TABLES)
def test_without_a_workspace_a_question_is_an_error_and_not_every_row(
    table: str, as_app: psycopg.Connection[Any]
) -> None:
    for _ in range(2):  # before any transaction named one, and after: the setting is then empty, not unset
        with pytest.raises((psycopg.errors.UndefinedObject, psycopg.errors.InvalidTextRepresentation)):
            as_app.execute(f"SELECT * FROM hub.{table}")
        with as_app.transaction():
            as_app.execute("SELECT set_config('hub.ws', '1', true)")


@pytest.mark.full(but=3)
@pytest.mark.parametrize("table", [each for each in TABLES if each not in ("workspace", "admin_log")])
def test_no_row_can_be_written_into_another_workspace(table: str, as_app: psycopg.Connection[Any]) -> None:
    assert act(as_app, 1, f"UPDATE hub.{table} SET ws = ws WHERE ws = 2") == 0
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        act(as_app, 1, f"UPDATE hub.{table} SET ws = 2")


def test_a_row_of_another_workspace_cannot_be_inserted(as_app: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege, match="row-level security"):
        act(as_app, 1, "INSERT INTO hub.lease VALUES (2, 'other', 'aaaaaaaa', now())")


def test_a_partition_that_is_named_directly_is_refused(as_app: psycopg.Connection[Any]) -> None:
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        act(as_app, 1, "SELECT * FROM hub.fact_00")


def test_a_token_is_found_across_workspaces_until_it_is_revoked_expired_or_its_member_removed(
    as_app: psycopg.Connection[Any], database: str
) -> None:
    ask = "SELECT ws, name, role FROM hub.authenticate(%s)"
    assert as_app.execute(ask, (bytes([2]) * 32,)).fetchall() == [(2, "anna", "owner")]
    assert as_app.execute(ask, (os.urandom(32),)).fetchall() == []
    for change in (
        "UPDATE hub.token SET revoked_at = now() WHERE ws = 2",
        "UPDATE hub.token SET expires = now() WHERE ws = 2",
        "UPDATE hub.member SET removed_at = now() WHERE ws = 2",
    ):
        with psycopg.connect(database) as other:
            other.execute(change)
            other.commit()
            assert as_app.execute(ask, (bytes([2]) * 32,)).fetchall() == []
            undo = change.replace("= now() WHERE", "= null WHERE").replace(
                "expires = null", "expires = 'infinity'"
            )
            other.execute(undo)


def test_the_server_cannot_make_workspaces_nor_change_the_log_of_its_administration(
    as_app: psycopg.Connection[Any],
) -> None:
    for refused in (
        "INSERT INTO hub.workspace (ws, public, name, kind) VALUES (1, gen_random_uuid(), 'w', 'team')",
        "UPDATE hub.admin_log SET line = '{}'",
        "DELETE FROM hub.fact",
        "CREATE TABLE hub.more (ws bigint)",
    ):
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            act(as_app, 1, refused)
