"""What the facts of a stream show on the hub: the same files that a machine has after a sync.

Documents of one name are one file, so whoever asks for some of them gets those they share it with as well.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vademecum.interfaces.hub.streams import COLUMNS, HubStamp, read_row
from vademecum.memory.sync import project as showing
from vademecum.text import names

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from psycopg import Connection

    from vademecum.interfaces.hub.streams import SyncFact


def read_stamped(
    connection: Connection[Any], ws: int, stream: str, docs: Collection[str] | None = None
) -> Iterator[tuple[SyncFact, HubStamp]]:
    """The facts of a stream with their stamps, in their order; of some documents alone, with all purges."""
    some = "" if docs is None else " AND (doc = ANY(%s) OR doc = '')"
    given = (ws, stream) if docs is None else (ws, stream, list(docs))
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {COLUMNS} FROM hub.fact WHERE ws = %s AND stream = %s{some} ORDER BY seq", given
        )
        for row in cursor:
            yield read_row(stream, row)


def read_facts(
    connection: Connection[Any], ws: int, stream: str, docs: Collection[str] | None = None
) -> showing.FactSet:
    """The facts of a stream; of some documents and those that share a file with them."""
    wanted = None if docs is None else find_namesakes(connection, ws, stream, docs)
    return showing.FactSet(fact for fact, _ in read_stamped(connection, ws, stream, wanted))


def show_documents(
    connection: Connection[Any],
    ws: int,
    stream: str,
    docs: Collection[str] | None = None,
    signing: showing.Signing = showing.TYPED,
) -> dict[str, showing.Shows]:
    """Every file that a stream shows, by its path; or those of some documents alone."""
    return showing.project(read_facts(connection, ws, stream, docs), signing)


def read_names(
    connection: Connection[Any], ws: int, stream: str, docs: Collection[str] | None = None
) -> dict[str, str]:
    """The path of each document of a stream, by the newest word on it; of some of them alone."""
    some = "" if docs is None else " AND doc = ANY(%s)"
    given = (ws, stream) if docs is None else (ws, stream, list(docs))
    rows = connection.execute(
        "SELECT doc, count(*), (array_agg(value))[1] FROM hub.fact"
        f" WHERE ws = %s AND stream = %s AND kind = 'name'{some} GROUP BY doc",
        given,
    ).fetchall()
    # Most documents were named once: only of the others it takes all facts to tell which name counts.
    paths = {doc: showing.safe_path(json.loads(value)) for doc, count, value in rows if count == 1 and value}
    renamed = [doc for doc, count, _ in rows if count > 1]
    if renamed:
        told = connection.execute(
            f"SELECT {COLUMNS} FROM hub.fact"
            " WHERE ws = %s AND stream = %s AND kind = 'name' AND doc = ANY(%s)",
            (ws, stream, renamed),
        )
        named = showing.FactSet(read_row(stream, row)[0] for row in told)
        paths |= {doc: showing.path_of(named, doc) for doc in renamed}
    return {doc: path for doc, path in paths.items() if path}


def find_namesakes(connection: Connection[Any], ws: int, stream: str, docs: Collection[str]) -> set[str]:
    """These documents and those whose files have the same names, however their letters are written."""
    return {*docs, *find_named(connection, ws, stream, read_names(connection, ws, stream, docs).values())}


def find_named(connection: Connection[Any], ws: int, stream: str, paths: Iterable[str]) -> dict[str, str]:
    """The documents whose files have these names, however their letters are written, with their paths."""
    meant = {names.folded(showing.safe_path(path)) for path in paths}
    # PostgreSQL folds ASCII as we do; of any other name, and of one that was made safe, we look ourselves.
    rows = connection.execute(
        "SELECT DISTINCT doc FROM hub.fact WHERE ws = %s AND stream = %s AND kind = 'name'"
        " AND (lower(convert_from(value, 'UTF8')) = ANY(%s)"
        " OR octet_length(value) <> length(convert_from(value, 'UTF8')) OR %s)",
        (ws, stream, [json.dumps(each) for each in meant], any("/memory-" in each for each in meant)),
    ).fetchall()
    likely = read_names(connection, ws, stream, [doc for (doc,) in rows])
    return {doc: path for doc, path in likely.items() if names.folded(path) in meant}
