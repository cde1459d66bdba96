"""Read the documents of a stream from the database, as the same files that a machine has after a sync.

Documents with the same name are one file. A query for some documents therefore includes all documents with
the same names.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from vademecum.sync import projection as showing
from vademecum.text import names
from vademecum_hub.streams import COLUMNS, HubStamp, read_row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

    from psycopg import Connection

    from vademecum_hub.streams import SyncFact


def read_stamped(
    connection: Connection[Any], ws: int, stream: str, docs: Collection[str] | None = None
) -> Iterator[tuple[SyncFact, HubStamp]]:
    """Yield the facts of a stream with their stamps, in the order of their sequence numbers.

    With `docs`, yield the facts of these documents and all purges.
    """
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
    """Return the facts of a stream, or of some documents and of all documents with the same names."""
    wanted = None if docs is None else find_namesakes(connection, ws, stream, docs)
    return showing.FactSet(fact for fact, _ in read_stamped(connection, ws, stream, wanted))


def show_documents(
    connection: Connection[Any],
    ws: int,
    stream: str,
    docs: Collection[str] | None = None,
    signing: showing.Signing = showing.TYPED,
) -> dict[str, showing.ShownFile]:
    """Return the files that a stream's facts make, or the files of some documents, by path."""
    return showing.project(read_facts(connection, ws, stream, docs), signing)


def read_names(
    connection: Connection[Any], ws: int, stream: str, docs: Collection[str] | None = None
) -> dict[str, str]:
    """Return the current paths of a stream's documents, or of these documents only, by document."""
    some = "" if docs is None else " AND doc = ANY(%s)"
    given = (ws, stream) if docs is None else (ws, stream, list(docs))
    rows = connection.execute(
        "SELECT doc, count(*), (array_agg(value))[1] FROM hub.fact"
        f" WHERE ws = %s AND stream = %s AND kind = 'name'{some} GROUP BY doc",
        given,
    ).fetchall()
    # Most documents were named once. The name of the others is decided by all facts about it.
    paths = {doc: showing.safe_path(json.loads(value)) for doc, count, value in rows if count == 1 and value}
    renamed = [doc for doc, count, _ in rows if count > 1]
    if renamed:
        fact_rows = connection.execute(
            f"SELECT {COLUMNS} FROM hub.fact"
            " WHERE ws = %s AND stream = %s AND kind = 'name' AND doc = ANY(%s)",
            (ws, stream, renamed),
        )
        named = showing.FactSet(read_row(stream, row)[0] for row in fact_rows)
        paths |= {doc: showing.path_of(named, doc) for doc in renamed}
    return {doc: path for doc, path in paths.items() if path}


def find_namesakes(connection: Connection[Any], ws: int, stream: str, docs: Collection[str]) -> set[str]:
    """Return these documents and all documents with the same file names, whatever the letter case."""
    return {*docs, *find_named(connection, ws, stream, read_names(connection, ws, stream, docs).values())}


def find_named(connection: Connection[Any], ws: int, stream: str, paths: Iterable[str]) -> dict[str, str]:
    """Return the documents with these file names, whatever the letter case, each with its path."""
    meant = {names.folded(showing.safe_path(path)) for path in paths}
    # PostgreSQL folds ASCII as we do. Names with other letters, and names made safe, are compared below.
    rows = connection.execute(
        "SELECT DISTINCT doc FROM hub.fact WHERE ws = %s AND stream = %s AND kind = 'name'"
        " AND (lower(convert_from(value, 'UTF8')) = ANY(%s)"
        " OR octet_length(value) <> length(convert_from(value, 'UTF8')) OR %s)",
        (ws, stream, [json.dumps(each) for each in meant], any("/memory-" in each for each in meant)),
    ).fetchall()
    likely = read_names(connection, ws, stream, [doc for (doc,) in rows])
    return {doc: path for doc, path in likely.items() if names.folded(path) in meant}
