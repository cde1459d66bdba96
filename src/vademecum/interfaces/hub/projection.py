"""What facts show goes into the hub's search: with the push that changed it, or soon after when that is much.

A stream's `projected` says up to which fact this was done; what lies behind it is told as `stale` by every
answer. Of what is purged nothing is left at the end of the same transaction, however far the stream was.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.interfaces.hub.access import HubCaller, enter
from vademecum.interfaces.hub.documents import read_stamped
from vademecum.interfaces.hub.rejections import Rejection
from vademecum.memory import hub_search

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence
    from contextlib import AbstractContextManager

    from psycopg import Connection

    from vademecum.interfaces.hub.streams import SyncFact

AT_ONCE = 200  # documents of a push that are searchable when it is answered
PIECE = 100  # documents that are taken in at once afterwards: a push to the same stream waits for so many
_LOG = logging.getLogger("vademecum.hub")
_TOLD: set[int] = set()  # workspaces that were said to need an index, by this server


class Projecting(NamedTuple):
    """Where documents are made searchable: in one stream of one workspace."""

    connection: Connection[Any]
    ws: int
    stream: str
    team: str  # the name of a team's workspace; none for a personal one


def project_push(
    connection: Connection[Any], caller: HubCaller, stream: str, new: Sequence[SyncFact], head: int
) -> bool:
    """Make what a push has added searchable; False when some of it has to wait."""
    import psycopg

    here, done = _read_place(connection, caller.ws, stream)
    touched = {fact.doc for fact in new if fact.doc}
    purged = _purged(here, new)
    try:
        with connection.transaction():
            current = not _start_over(connection, caller.ws) and done == head - len(new)
            now = current and len(touched) <= AT_ONCE
            if now or purged:
                _take(here, (touched if now else set()) | purged, purge=bool(purged))
            if now:
                _move(here, head)
    except (psycopg.DataError, psycopg.errors.QueryCanceled):
        if purged:
            raise  # nothing of what was purged may stay
        return False  # it is stale until it was taken in document by document
    return now


def _read_place(connection: Connection[Any], ws: int, stream: str) -> tuple[Projecting, int]:
    """Where a stream's documents are made searchable, and up to which fact that was done."""
    row = connection.execute(
        "SELECT CASE w.kind WHEN 'team' THEN w.name ELSE '' END, coalesce(s.projected, 0)"
        " FROM hub.workspace w LEFT JOIN hub.stream s ON s.ws = w.ws AND s.stream = %s WHERE w.ws = %s",
        (stream, ws),
    ).fetchone()
    team, done = row or ("", 0)
    return Projecting(connection, ws, stream, team), done


def _move(here: Projecting, seq: int) -> None:
    here.connection.execute(
        "UPDATE hub.stream SET projected = %s WHERE ws = %s AND stream = %s", (seq, here.ws, here.stream)
    )


def _start_over(connection: Connection[Any], ws: int) -> bool:
    """Take everything out when another version put it in; all streams are then behind."""
    if not hub_search.is_of_another_version(connection, ws):
        return False
    hub_search.clear(connection, ws)
    connection.execute("DELETE FROM hub.shown WHERE ws = %s", (ws,))
    connection.execute("UPDATE hub.stream SET projected = 0 WHERE ws = %s", (ws,))
    return True


def _purged(here: Projecting, new: Sequence[SyncFact]) -> set[str]:
    """The documents whose texts new facts purge."""
    dots = [
        dot.rpartition(":")
        for fact in new
        if fact.kind == "purge" and fact.value
        for dot in fact.value["dots"]
    ]
    if not dots:
        return set()
    rows = here.connection.execute(
        "SELECT DISTINCT f.doc FROM unnest(%s::text[], %s::bigint[]) AS d (replica, n)"
        " JOIN hub.fact f ON f.ws = %s AND f.stream = %s AND f.replica = d.replica AND f.n = d.n",
        ([replica for replica, _, _ in dots], [int(n) for _, _, n in dots], here.ws, here.stream),
    ).fetchall()
    return {doc for (doc,) in rows}


def _take(here: Projecting, docs: Collection[str], *, purge: bool = False) -> None:
    """Put what some documents show now in the place of what they showed, with those that share a file."""
    connection, at = here.connection, (here.ws, here.stream)
    before = _sharing(here, docs)
    wanted = {*docs, *before}
    while True:
        stamped = (
            (fact, (stamp.author, stamp.role))
            for fact, stamp in read_stamped(connection, *at, sorted(wanted))
        )
        shown = hub_search.show_files(stamped, here.stream, team=here.team)
        # Whoever shares a name that was there before is known already.
        names = {each.folded for each in shown} - {folded for folded, _ in before.values()}
        others = _named(here, names) if names else {}
        if others.keys() <= wanted:
            break
        before |= others
        wanted |= others.keys()
    gone = {item for _, item in before.values()} - {each.item for each in shown}
    _tell_large(here.ws, *hub_search.take_in(connection, here.ws, shown, sorted(gone), purge=purge))
    now = {doc: (each.folded, each.item) for each in shown for doc in each.docs}
    _keep_shown(here, before, now)


def _tell_large(ws: int, passages: int, slow: bool) -> None:
    """Log once that a workspace has outgrown the search that it has: only an operator can index it."""
    if slow and ws not in _TOLD:
        _LOG.warning(
            "workspace %d has %d passages and no index of their vectors: run `vade hub index`", ws, passages
        )
    (_TOLD.add if slow else _TOLD.discard)(ws)


def _keep_shown(
    here: Projecting, before: Mapping[str, tuple[str, str]], now: Mapping[str, tuple[str, str]]
) -> None:
    """Remember which file shows each document, where that is another one than before."""
    gone = sorted(before.keys() - now.keys())
    if gone:
        here.connection.execute(
            "DELETE FROM hub.shown WHERE ws = %s AND stream = %s AND doc = ANY(%s)",
            (here.ws, here.stream, gone),
        )
    rows = [(doc, *names) for doc, names in now.items() if before.get(doc) != names]
    if rows:
        here.connection.execute(
            "INSERT INTO hub.shown (ws, stream, doc, folded, item)"
            " SELECT %s, %s, * FROM unnest(%s::text[], %s::text[], %s::text[])"
            " ON CONFLICT (ws, stream, doc) DO UPDATE SET folded = EXCLUDED.folded, item = EXCLUDED.item",
            (here.ws, here.stream, *([row[n] for row in rows] for n in range(3))),
        )


def _sharing(here: Projecting, docs: Collection[str]) -> dict[str, tuple[str, str]]:
    """What shows some documents, and those that are shown in one file with them: its name and its item."""
    rows = here.connection.execute(
        "SELECT o.doc, o.folded, o.item FROM hub.shown s"
        " JOIN hub.shown o ON o.ws = s.ws AND o.stream = s.stream AND o.folded = s.folded"
        " WHERE s.ws = %s AND s.stream = %s AND s.doc = ANY(%s)",
        (here.ws, here.stream, [*docs]),
    ).fetchall()
    return {doc: (folded, item) for doc, folded, item in rows}


def _named(here: Projecting, names: Collection[str]) -> dict[str, tuple[str, str]]:
    """The same of documents whose files have some names."""
    rows = here.connection.execute(
        "SELECT doc, folded, item FROM hub.shown WHERE ws = %s AND stream = %s AND folded = ANY(%s)",
        (here.ws, here.stream, [*names]),
    ).fetchall()
    return {doc: (folded, item) for doc, folded, item in rows}


# ------------------------------------------------------------------------------- what had to wait


def count_stale(connection: Connection[Any], ws: int) -> int:
    """How many documents were changed since they were made searchable: all, if another version did that."""
    done = "0" if hub_search.is_of_another_version(connection, ws) else "s.projected"
    row = connection.execute(
        "SELECT coalesce(sum(n), 0)::bigint FROM hub.stream s, LATERAL ("
        " SELECT count(DISTINCT f.doc) AS n FROM hub.fact f"
        f" WHERE f.ws = s.ws AND f.stream = s.stream AND f.seq > {done} AND f.doc <> '') waiting"
        f" WHERE s.ws = %s AND {done} < s.head",
        (ws,),
    ).fetchone()
    return int(row[0]) if row else 0


def catch_up(connection: Connection[Any], ws: int) -> bool:
    """Make the next documents searchable; False when there are none."""
    import psycopg

    enter(connection, ws)
    _start_over(connection, ws)
    row = connection.execute(
        "SELECT stream, projected, head FROM hub.stream WHERE ws = %s AND projected < head"
        " ORDER BY stream LIMIT 1 FOR UPDATE SKIP LOCKED",
        (ws,),
    ).fetchone()
    if row is None:
        return False
    here, _ = _read_place(connection, ws, row[0])
    docs, reached = _next_documents(here, row[1], row[2])
    try:
        with connection.transaction():
            _take(here, docs)
    except (psycopg.DataError, psycopg.errors.QueryCanceled):
        for doc in docs:
            try:
                with connection.transaction():
                    _take(here, [doc])
            except psycopg.DataError:
                _LOG.warning("a document cannot be searched")
    _move(here, reached)
    return True


def _next_documents(here: Projecting, after: int, head: int) -> tuple[list[str], int]:
    """The documents of the next facts, and the last fact that is about them alone."""
    docs: dict[str, None] = {}
    rows = here.connection.execute(
        "SELECT doc, min(seq), max(seq) FROM hub.fact WHERE ws = %s AND stream = %s AND seq > %s"
        " GROUP BY doc ORDER BY 2 LIMIT %s",
        (here.ws, here.stream, after, PIECE + 1),
    ).fetchall()
    for doc, first, _ in rows:
        if len(docs) == PIECE:
            return [each for each in docs if each], first - 1
        docs[doc] = None
    return [each for each in docs if each], head


class CatchUp:
    """Works off what had to wait, one piece of one workspace after the other, in a thread of its own.

    Whoever finds a workspace behind names it here. What a server that was stopped left waits in the database
    until the next search or push finds it.
    """

    def __init__(self, transaction: Callable[[], AbstractContextManager[Connection[Any]]]) -> None:
        self._transaction = transaction
        self._waiting: deque[int] = deque()
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._stopped = False

    def wake(self, ws: int) -> None:
        """Say that a workspace is behind."""
        with self._changed:
            if self._stopped or ws in self._waiting:
                return
            self._waiting.append(ws)
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="catch-up", daemon=True)
                self._thread.start()
            self._changed.notify()

    def stop(self) -> None:
        """End after the piece that is being worked on."""
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
                self.wake(ws)  # behind the others

    def _work(self, ws: int) -> bool:
        try:
            with self._transaction() as connection:
                return catch_up(connection, ws)
        except Rejection as refused:
            _LOG.warning("search of a workspace stays behind: %s", refused)
            return False
