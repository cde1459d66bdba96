"""Update the search index when facts arrive: in the transaction of a push, or soon after a large push.

The column `projected` of a stream is the sequence number of the last indexed fact; every answer counts the
documents with later facts as `stale`. A purged text leaves the index in the transaction of the purge, even if
other documents of the stream are still waiting.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

import psycopg

from vademecum_hub import workspace_index
from vademecum_hub.authorization import HubCaller, enter
from vademecum_hub.rejections import Rejection
from vademecum_hub.stream_documents import read_stamped

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from psycopg import Connection

    from vademecum_hub.streams import SyncFact

AT_ONCE = 200  # documents of a push that are indexed before its answer
BATCH = 100  # documents indexed in one transaction afterwards; a push to the same stream waits for it
_LOG = logging.getLogger("vademecum.hub")
_WARNED: set[int] = set()  # large workspaces that this process has logged a warning about


class IndexedStream(NamedTuple):
    """A stream of a workspace, with the connection through which its documents are indexed."""

    connection: Connection[Any]
    ws: int
    stream: str
    team: str  # the name of a team's workspace; empty for a personal one


def project_push(
    connection: Connection[Any], caller: HubCaller, stream: str, new: Sequence[SyncFact], head: int
) -> bool:
    """Index the documents changed by a push; return False if some documents have to wait."""
    indexed, done = _read_progress(connection, caller.ws, stream)
    touched = {fact.doc for fact in new if fact.doc}
    purged = _find_purged_documents(indexed, new)
    try:
        with connection.transaction():
            current = not _reset_outdated_index(connection, caller.ws) and done == head - len(new)
            now = current and len(touched) <= AT_ONCE
            if now or purged:
                _update_documents(indexed, (touched if now else set()) | purged, purge=bool(purged))
            if now:
                _set_progress(indexed, head)
    except (psycopg.DataError, psycopg.errors.QueryCanceled):
        if purged:
            raise  # a purged text must not stay in the index
        return False  # `catch_up` indexes these documents one by one
    return now


def _read_progress(connection: Connection[Any], ws: int, stream: str) -> tuple[IndexedStream, int]:
    """Return the stream to index, and the sequence number of its last indexed fact."""
    row = connection.execute(
        "SELECT CASE w.kind WHEN 'team' THEN w.name ELSE '' END, coalesce(s.projected, 0)"
        " FROM hub.workspace w LEFT JOIN hub.stream s ON s.ws = w.ws AND s.stream = %s WHERE w.ws = %s",
        (stream, ws),
    ).fetchone()
    team, done = row or ("", 0)
    return IndexedStream(connection, ws, stream, team), done


def _set_progress(indexed: IndexedStream, seq: int) -> None:
    indexed.connection.execute(
        "UPDATE hub.stream SET projected = %s WHERE ws = %s AND stream = %s",
        (seq, indexed.ws, indexed.stream),
    )


def _reset_outdated_index(connection: Connection[Any], ws: int) -> bool:
    """Clear an index made by another version, so that all streams are indexed again.

    Return whether it was cleared.
    """
    if not workspace_index.is_outdated(connection, ws):
        return False
    workspace_index.clear_index(connection, ws)
    connection.execute("DELETE FROM hub.shown WHERE ws = %s", (ws,))
    connection.execute("UPDATE hub.stream SET projected = 0 WHERE ws = %s", (ws,))
    return True


def _find_purged_documents(indexed: IndexedStream, new: Sequence[SyncFact]) -> set[str]:
    """Return the documents with facts that the new facts purge."""
    fact_ids = [
        fact_id.rpartition(":")
        for fact in new
        if fact.kind == "purge" and fact.value
        for fact_id in fact.value["dots"]
    ]
    if not fact_ids:
        return set()
    rows = indexed.connection.execute(
        "SELECT DISTINCT f.doc FROM unnest(%s::text[], %s::bigint[]) AS d (replica, n)"
        " JOIN hub.fact f ON f.ws = %s AND f.stream = %s AND f.replica = d.replica AND f.n = d.n",
        (
            [replica for replica, _, _ in fact_ids],
            [int(n) for _, _, n in fact_ids],
            indexed.ws,
            indexed.stream,
        ),
    ).fetchall()
    return {doc for (doc,) in rows}


def _update_documents(indexed: IndexedStream, docs: Collection[str], *, purge: bool = False) -> None:
    """Index the current files of these documents, and of documents that share a file with them.

    With `purge`, nothing of the earlier texts of these files stays in the index.
    """
    connection, at = indexed.connection, (indexed.ws, indexed.stream)
    before = _find_file_mates(indexed, docs)
    wanted = {*docs, *before}
    while True:
        stamped = (
            (fact, (stamp.author, stamp.role))
            for fact, stamp in read_stamped(connection, *at, sorted(wanted))
        )
        files = workspace_index.make_files(stamped, indexed.stream, team=indexed.team)
        # Documents under the earlier names are in `before` already.
        names = {each.folded for each in files} - {folded for folded, _ in before.values()}
        others = _find_by_file_name(indexed, names) if names else {}
        if others.keys() <= wanted:
            break
        before |= others
        wanted |= others.keys()
    gone = {item for _, item in before.values()} - {each.item for each in files}
    _warn_about_size(
        indexed.ws, *workspace_index.update_index(connection, indexed.ws, files, sorted(gone), purge=purge)
    )
    now = {doc: (each.folded, each.item) for each in files for doc in each.docs}
    _save_file_names(indexed, before, now)


def _warn_about_size(ws: int, passages: int, slow: bool) -> None:
    """Log a warning, once for each workspace, if search is slow until somebody runs `vade hub index`."""
    if slow and ws not in _WARNED:
        _LOG.warning(
            "workspace %d has %d passages and no index of their vectors: run `vade hub index`", ws, passages
        )
    (_WARNED.add if slow else _WARNED.discard)(ws)


def _save_file_names(
    indexed: IndexedStream, before: Mapping[str, tuple[str, str]], now: Mapping[str, tuple[str, str]]
) -> None:
    """Save the file of each document whose file has changed; `before` and `now` have the files."""
    gone = sorted(before.keys() - now.keys())
    if gone:
        indexed.connection.execute(
            "DELETE FROM hub.shown WHERE ws = %s AND stream = %s AND doc = ANY(%s)",
            (indexed.ws, indexed.stream, gone),
        )
    rows = [(doc, *names) for doc, names in now.items() if before.get(doc) != names]
    if rows:
        indexed.connection.execute(
            "INSERT INTO hub.shown (ws, stream, doc, folded, item)"
            " SELECT %s, %s, * FROM unnest(%s::text[], %s::text[], %s::text[])"
            " ON CONFLICT (ws, stream, doc) DO UPDATE SET folded = EXCLUDED.folded, item = EXCLUDED.item",
            (indexed.ws, indexed.stream, *([row[n] for row in rows] for n in range(3))),
        )


def _find_file_mates(indexed: IndexedStream, docs: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return these documents and all documents in the same files.

    Each has the folded name and the index item of its file.
    """
    rows = indexed.connection.execute(
        "SELECT o.doc, o.folded, o.item FROM hub.shown s"
        " JOIN hub.shown o ON o.ws = s.ws AND o.stream = s.stream AND o.folded = s.folded"
        " WHERE s.ws = %s AND s.stream = %s AND s.doc = ANY(%s)",
        (indexed.ws, indexed.stream, [*docs]),
    ).fetchall()
    return {doc: (folded, item) for doc, folded, item in rows}


def _find_by_file_name(indexed: IndexedStream, names: Collection[str]) -> dict[str, tuple[str, str]]:
    """Return the documents in files with these folded names, each with its file's name and item."""
    rows = indexed.connection.execute(
        "SELECT doc, folded, item FROM hub.shown WHERE ws = %s AND stream = %s AND folded = ANY(%s)",
        (indexed.ws, indexed.stream, [*names]),
    ).fetchall()
    return {doc: (folded, item) for doc, folded, item in rows}


# ------------------------------------------------------------------------------- catching up


def count_stale(connection: Connection[Any], ws: int) -> int:
    """Return the number of changed documents that are not indexed yet.

    If another version made the index, all documents count.
    """
    done = "0" if workspace_index.is_outdated(connection, ws) else "s.projected"
    row = connection.execute(
        "SELECT coalesce(sum(n), 0)::bigint FROM hub.stream s, LATERAL ("
        " SELECT count(DISTINCT f.doc) AS n FROM hub.fact f"
        f" WHERE f.ws = s.ws AND f.stream = s.stream AND f.seq > {done} AND f.doc <> '') waiting"
        f" WHERE s.ws = %s AND {done} < s.head",
        (ws,),
    ).fetchone()
    return int(row[0]) if row else 0


def catch_up(connection: Connection[Any], ws: int) -> bool:
    """Index the next batch of a workspace's waiting documents; return False if there was none to index."""
    enter(connection, ws)
    _reset_outdated_index(connection, ws)
    row = connection.execute(
        "SELECT stream, projected, head FROM hub.stream WHERE ws = %s AND projected < head"
        " ORDER BY stream LIMIT 1 FOR UPDATE SKIP LOCKED",
        (ws,),
    ).fetchone()
    if row is None:
        return False
    indexed, _ = _read_progress(connection, ws, row[0])
    docs, reached = _next_documents(indexed, row[1], row[2])
    try:
        with connection.transaction():
            _update_documents(indexed, docs)
    except (psycopg.DataError, psycopg.errors.QueryCanceled):
        for doc in docs:
            try:
                with connection.transaction():
                    _update_documents(indexed, [doc])
            except psycopg.DataError:
                _LOG.warning("a document cannot be searched")
    _set_progress(indexed, reached)
    return True


def _next_documents(indexed: IndexedStream, after: int, head: int) -> tuple[list[str], int]:
    """Return the documents of the next batch, and the last fact that the batch covers."""
    docs: dict[str, None] = {}
    rows = indexed.connection.execute(
        "SELECT doc, min(seq), max(seq) FROM hub.fact WHERE ws = %s AND stream = %s AND seq > %s"
        " GROUP BY doc ORDER BY 2 LIMIT %s",
        (indexed.ws, indexed.stream, after, BATCH + 1),
    ).fetchall()
    for doc, first, _ in rows:
        if len(docs) == BATCH:
            return [each for each in docs if each], first - 1
        docs[doc] = None
    return [each for each in docs if each], head


class IndexCatchUp:
    """A thread that indexes waiting documents, one batch for each workspace in turn.

    A push or search that finds stale documents wakes the thread. After a restart of the server the documents
    wait for the next search or push.
    """

    def __init__(self, transaction: Callable[[], AbstractContextManager[Connection[Any]]]) -> None:
        self._transaction = transaction
        self._waiting: deque[int] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def wake(self, ws: int) -> None:
        """Queue a workspace that has stale documents, and start the thread if necessary."""
        with self._changed:
            if self._stopped or ws in self._waiting:
                return
            self._waiting.append(ws)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="catch-up", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """End the thread after its current batch."""
        with self._changed:
            self._stopped = True
            self._changed.notify()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._stopped or self._waiting)
                if self._stopped:
                    return
                ws = self._waiting.popleft()
            if self._work(ws):
                self.wake(ws)  # at the end of the queue

    def _work(self, ws: int) -> bool:
        try:
            with self._transaction() as connection:
                return catch_up(connection, ws)
        except Rejection as refused:
            _LOG.warning("search of a workspace stays behind: %s", refused)
            return False
