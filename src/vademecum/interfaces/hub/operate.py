"""What only whoever has the database can do: make workspaces, and take everything out of them."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING, Any

from vademecum.errors import ConfigError, UsageError
from vademecum.interfaces.hub import members, migrate, serve
from vademecum.interfaces.hub.rejections import Rejection

if TYPE_CHECKING:
    from collections.abc import Iterator

    from psycopg import Connection

    from vademecum.interfaces.hub.access import HubKeys


@contextlib.contextmanager
def operating(database: str) -> Iterator[Connection[Any]]:
    """A transaction with the rights of the tables' owner, which row-level security binds as well."""
    serve.import_psycopg()
    import psycopg

    with serve.connected(database) as connection:
        migrate.check_schema(connection)
        with connection.transaction():
            try:
                connection.execute("SET LOCAL ROLE hub_owner")
            except psycopg.errors.InsufficientPrivilege as error:
                raise ConfigError(
                    "this login may not make workspaces", hint="connect as hub_migrate"
                ) from error
            yield connection


def create_workspace(database: str, keys: HubKeys, name: str, *, kind: str, owner: str) -> dict[str, Any]:
    """A workspace, and the code that its owner joins with."""
    try:
        members.check_name(owner)
    except Rejection as error:
        raise UsageError(str(error), hint="name the owner with `--owner`") from error
    with operating(database) as connection:
        ws, public = members.make_workspace(connection, name[:80], kind=kind)
        made = members.make_invite(connection, keys, ws=ws, by=None, name=owner, role="owner")
        members.log(connection, ws, "operator", "created", member=owner)
    return {"workspace": public, "name": name, **made}
