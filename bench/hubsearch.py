"""Search on the hub beside local search: the same answers, what it takes, and what words cost a push.

Starts a PostgreSQL and a hub of its own and asks through HTTP, with a token and over one connection that is
kept, as a client does; beside it the same work in this process. `--data` is the folder with the public sets.
Workspaces of about 1,000 passages are filled by `vade sync`, and copied inside the database until there are
as many as `--workspaces` says: rows of a copy are those that a sync writes, which is checked.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import random
import re
import statistics
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple
from urllib.parse import quote

import numpy as np
import psycopg

from bench import hub, retrieval
from bench.hub import KEYS
from bench.retrieval import Product
from vademecum.index import words
from vademecum.index.base import EVERYTHING, IndexDocument, IndexItem, Labels, Piece, Stamp
from vademecum.index.corpus import Corpus, text_to_embed
from vademecum.index.embed.select import lazily_shipped, shipped
from vademecum.index.sync import Sync, SyncReport
from vademecum.index.vectors import pack
from vademecum.memory import connect
from vademecum.memory import sync as syncing
from vademecum.sync.facts import NOTHING, SyncFact
from vademecum.sync.hub_client import HubClient
from vademecum.types import Place, Scope
from vademecum_hub import administration, hub_search, index_updates, listen, members, streams
from vademecum_hub.authorization import HubCaller, enter
from vademecum_hub.cluster import Cluster
from vademecum_hub.migrate import migrate
from vademecum_hub.postgres_index import EXACT, PostgresIndex

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable, Iterator, Sequence

    from bench.retrieval import Document
    from vademecum.memory import Memory

    Rows = list[dict[str, object]]

TEN = 10
PASSAGES = 1_000  # of a workspace
EDITS = 40
TEMPLATES = 5  # workspaces with texts of their own; the others are copies of these
FIRST_COPY = 1_000_000
SEARCHED = ("search", "shown", "document", "passage", "posting", "vector")
TABLES = ("stream", "fact", *SEARCHED)
LONGEST = 400  # characters of a passage in a large workspace


class Room(NamedTuple):
    """A workspace on the hub with the home whose texts it holds."""

    ws: int
    memory: Memory
    questions: Sequence[str]


class Bench(NamedTuple):
    """What is measured: a database, and a hub that serves it."""

    cluster: Cluster
    owner: Any  # a connection
    url: str
    server: int  # the process of the hub

    def used(self) -> tuple[float, float]:
        """Seconds of processors that the hub and its connections to the database have used."""
        rows = self.owner.execute("SELECT pid FROM pg_stat_activity WHERE usename = 'hub_app'").fetchall()
        return hub.used(self.server), sum(hub.used(pid) for (pid,) in rows)

    def make(self, kind: str = "personal") -> int:
        """A new workspace."""
        with self.owner.transaction():
            return members.make_workspace(self.owner, "bench", kind=kind)[0]

    def client(self, ws: int) -> HubClient:
        """A client of a workspace, whose token the hub has seen before."""
        with self.owner.transaction():
            enter(self.owner, ws)
            (member,) = self.owner.execute(
                "INSERT INTO hub.member (ws, member, name, role)"
                " VALUES (%s, gen_random_uuid(), 'm' || gen_random_uuid(), 'owner') RETURNING member",
                (ws,),
            ).fetchone()
            token, _ = members.make_token(
                self.owner, KEYS, ws=ws, member=str(member), scopes=("read",), label="", replica=None
            )
        client = HubClient(self.url, token)
        client.ask("GET", "/v1/me")
        return client

    @contextlib.contextmanager
    def inside(self, ws: int) -> Iterator[Any]:
        """A transaction as the server has one."""
        url = self.cluster.url_of("postgres", user="hub_app")
        with (
            psycopg.connect(url, autocommit=True, options="-c search_path=pg_catalog") as connection,
            connection.transaction(),
        ):
            enter(connection, ws)
            yield connection


def arguments(parser: argparse.ArgumentParser) -> None:
    """What can be chosen."""
    parser.add_argument("--data", type=Path, required=True, help="the folder with the public sets")
    parser.add_argument("--workspaces", default="10,100,1000", help="how many, in growing numbers")
    parser.add_argument("--passages", default="10000,50000,60000,200000", help="of one workspace, growing")
    parser.add_argument("--questions", type=int, default=60, help="how many are asked of each set and size")
    parser.add_argument("--haystacks", type=int, default=500, help="how many of LongMemEval's")
    parser.add_argument("--only", choices=("recall", "scale", "push", "large"), help="one part alone")


def measure(chosen: argparse.Namespace) -> dict[str, Rows]:
    """All of it, on one cluster."""
    cluster = Cluster()
    try:
        cluster.start(
            fsync="off", full_page_writes="off", shared_buffers="512MB", max_wal_size="8GB", autovacuum="off"
        )
        with listen.connect(cluster.url) as owner:
            migrate(owner)
            with hub.served(cluster) as (url, server):
                bench = Bench(cluster, owner, url, server)
                parts: dict[str, Callable[[], Iterator[dict[str, object]]]] = {
                    "recall": lambda: _recall(bench, chosen),
                    "push": lambda: _push(bench),
                    "large": lambda: _large(bench, chosen),
                    "scale": lambda: _scale(bench, chosen),
                }
                wanted = [chosen.only] if chosen.only else [*parts]
                return {f"hubsearch {name}": [*_followed(parts[name]())] for name in wanted}
    finally:
        cluster.stop()


def _followed(rows: Iterator[dict[str, object]]) -> Iterator[dict[str, object]]:
    """Each row on standard error as it comes, with how busy the machine is: all of them take a while."""
    for row in rows:
        load = f"load {os.getloadavg()[0]:.0f}" if hasattr(os, "getloadavg") else ""
        print(
            load, ", ".join(f"{name} {figure}" for name, figure in row.items()), file=sys.stderr, flush=True
        )
        yield row


def _search_hub(client: HubClient, question: str, **given: Any) -> list[tuple[str, int]]:
    """What the hub answers through HTTP."""
    reply = client.ask("POST", "/v1/search", json.dumps({"query": question, **given}).encode())
    return [(each["path"], each["startLine"]) for each in reply.json()["results"]]


# ------------------------------------------------------------------------------- the same answers


def _recall(bench: Bench, chosen: argparse.Namespace) -> Iterator[dict[str, object]]:
    """How many of the first ten of local search are among the first ten of the hub's.

    Once with all defaults but ten results, once with the weak ones that defaults leave out as well.
    """
    for name, cases in (
        ("LongMemEval", itertools.islice(retrieval.longmemeval(chosen.data), chosen.haystacks)),
        ("LoCoMo", retrieval.locomo(chosen.data)),
        ("SciFact", retrieval.scifact(chosen.data)),
    ):
        found = {"defaults": Agreement(), "weak ones too": Agreement()}
        passages, documents = 0, 0
        for case in cases:
            ws = bench.make()
            with tempfile.TemporaryDirectory() as folder:
                product = Product(Path(folder), case.documents)
                _take_in(bench, ws, product.memory)
                documents += len(case.documents)
                with bench.inside(ws) as connection:
                    passages += PostgresIndex(connection, ws).stats().chunks
                client = bench.client(ws)
                for question in case.questions[: chosen.questions]:
                    for weak, agreement in zip((None, TEN), found.values(), strict=True):
                        answer = product.memory.search(question.text, max_results=TEN, max_weak=weak)
                        here = [(each.path, each.start) for each in answer]
                        agreement.add(
                            here, _search_hub(client, question.text, max_results=TEN, max_weak=weak)
                        )
                client.close()
                product.memory.close()
        for how, agreement in found.items() if documents else ():
            yield {
                "set": name,
                "settings": how,
                "documents": documents,
                "passages": passages,
                **agreement.describe(),
            }


class Agreement:
    """How far the hub's answers are those of local search."""

    def __init__(self) -> None:
        self._shares: list[float] = []
        self._results = self._equal = 0

    def add(self, here: Sequence[tuple[str, int]], there: Sequence[tuple[str, int]]) -> None:
        """Compare two answers; who finds nothing agrees with who finds nothing."""
        whole = len({*here}) or len({*there}) or 1
        self._shares.append(len({*here} & {*there}) / whole if here or there else 1.0)
        self._results += len(here)
        self._equal += [*here] == [*there]

    def describe(self) -> dict[str, object]:
        """The figures."""
        count = len(self._shares)
        return {
            "questions": count,
            "results": round(self._results / count, 1),
            "recall@10": round(statistics.mean(self._shares), 4),
            "same order": round(self._equal / count, 4),
        }


def _take_in(bench: Bench, ws: int, memory: Memory) -> None:
    """Put what a home holds, attached folders too, into the index of a workspace, through the seam."""
    corpus = Corpus(memory.home, memory.caller)
    with bench.inside(ws) as connection:
        Sync(PostgresIndex(connection, ws), corpus.filter, embedder=lazily_shipped()).run(corpus.folders())


# ------------------------------------------------------------------------------- many workspaces


def _scale(bench: Bench, chosen: argparse.Namespace) -> Iterator[dict[str, object]]:
    """What a search takes in hubs of growing size, beside local search in a home of the same passages."""
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as open_homes:
        rooms = [*_rooms(bench, Path(folder), chosen)]
        for room in rooms:
            open_homes.callback(room.memory.close)
        there = 0
        for count in map(int, chosen.workspaces.split(",")):
            begun = time.perf_counter()
            _copy(bench.owner, rooms, there, count)
            there = count
            bench.owner.execute("VACUUM (ANALYZE)")
            loaded = time.perf_counter() - begun
            _check_copies(bench, rooms, count, Path(folder) / f"again-{count}")
            times, used = _times(bench, rooms, count, chosen.questions)
            (size,) = bench.owner.execute("SELECT pg_database_size(current_database())").fetchone()
            (total,) = bench.owner.execute("SELECT count(*) FROM hub.passage").fetchone()
            (passages,) = bench.owner.execute(
                "SELECT count(*) FROM hub.passage WHERE ws >= %s", (FIRST_COPY,)
            ).fetchone()
            yield {
                "workspaces": count,
                "passages": passages,
                **{
                    f"{way} {name}": round(_at(times[way], share) / _at(times["local"], share), 2)
                    for way in ("POST", "GET", "in process")
                    for name, share in (("p50 x", 0.5), ("p95 x", 0.95))
                },
                **{f"{way} p50 ms": round(1000 * _at(some, 0.5), 1) for way, some in times.items()},
                **{f"{way} p95 ms": round(1000 * _at(some, 0.95), 1) for way, some in times.items()},
                "hub's processor ms": round(1000 * used[0], 1),
                "database's": round(1000 * used[1], 1),
                "bytes per passage": size // total,
                "loaded s": round(loaded),
            }


def _at(times: Sequence[float], share: float) -> float:
    return sorted(times)[int(len(times) * share)]


def _rooms(bench: Bench, folder: Path, chosen: argparse.Namespace) -> Iterator[Room]:
    """Workspaces of 1,000 passages out of LoCoMo's conversations, two in each, by `vade sync`."""
    cases = [*retrieval.locomo(chosen.data)]
    for number in range(TEMPLATES):
        pair = cases[2 * number : 2 * number + 2]
        documents = [each for case in pair for each in case.documents]
        questions = [question.text for case in pair for question in case.questions]
        memory = _home(folder / str(number), documents)
        random.Random(number).shuffle(questions)
        yield Room(_synced(bench, memory), memory, questions)


def _home(folder: Path, documents: Sequence[Document]) -> Memory:
    folder.mkdir()
    return Product(folder, [*_first(documents, PASSAGES)]).memory


def _synced(bench: Bench, memory: Memory) -> int:
    """The workspace that a home was synced to."""
    database = bench.cluster.url_of("postgres", user="hub_migrate")
    made = administration.create_workspace(database, KEYS, "bench", kind="personal", owner="anna")
    joined = syncing.membership.join_hub(memory.home, bench.url, made["code"])
    syncing.hub_key.keep_hub_key(memory.home, joined, syncing.new_key())
    syncing.run_hub(memory, "", None)
    (ws,) = bench.owner.execute(
        "SELECT ws FROM hub.workspace WHERE public = %s", (made["workspace"],)
    ).fetchone()
    while True:  # what one push had too much of is worked off afterwards
        with bench.inside(ws) as connection:
            if not index_updates.count_stale(connection, ws):
                return int(ws)
        time.sleep(0.2)


def _first(documents: Sequence[Document], passages: int) -> Iterator[Document]:
    """Documents until there are so many turns, each of which is a passage."""
    left = passages
    for each in documents:
        if left <= 0:
            return
        yield each._replace(turns=each.turns[:left], turn_ids=each.turn_ids[:left])
        left -= len(each.turns)


def _columns(owner: Any, table: str) -> list[str]:
    """The columns of a table but for the workspace, which is the first of each."""
    rows = owner.execute(
        "SELECT column_name FROM information_schema.columns"
        " WHERE table_schema = 'hub' AND table_name = %s ORDER BY ordinal_position",
        (table,),
    ).fetchall()
    return [f'"{name}"' for (name,) in rows][1:]


def _copy(owner: Any, rooms: Sequence[Room], first: int, end: int) -> None:
    """Fill workspaces with copies of the first ones, inside the database."""
    owner.execute(
        "INSERT INTO hub.workspace (ws, public, name, kind)"
        " SELECT n, gen_random_uuid(), 'copy', 'personal' FROM generate_series(%s::bigint, %s) n",
        (FIRST_COPY + first, FIRST_COPY + end - 1),
    )
    models = [room.ws for room in rooms]
    for table in TABLES:
        columns = _columns(owner, table)
        for start in range(first, end, 100):
            owner.execute(
                f"INSERT INTO hub.{table} (ws, {', '.join(columns)})"
                f" SELECT n.ws, {', '.join(f't.{name}' for name in columns)}"
                f" FROM generate_series(%s::bigint, %s) AS n (ws) JOIN hub.{table} t"
                f" ON t.ws = (%s::bigint[])[1 + (n.ws - {FIRST_COPY}) %% {len(rooms)}]",
                (FIRST_COPY + start, FIRST_COPY + min(end, start + 100) - 1, models),
            )


def _check_copies(bench: Bench, rooms: Sequence[Room], count: int, folder: Path) -> None:
    """A copy has the rows of its model; its search has those that a sync of the same files writes anew."""
    number = random.Random(count).randrange(count)
    room, copy = rooms[number % TEMPLATES], FIRST_COPY + number
    for table in TABLES:
        assert not _differ(bench.owner, table, _columns(bench.owner, table), room.ws, copy), table
    files = {
        path.relative_to(room.memory.home.path): path.read_bytes()
        for path in (room.memory.home.path / "memory").rglob("*.md")
    }
    work = folder / "work"
    work.mkdir(parents=True)
    with contextlib.closing(_copied(folder, files)) as memory:
        anew = _synced(bench, memory)
    # Which passages of a document come with which of two pushes is chance, and so are their numbers.
    for table in ("document", "passage", "vector"):
        columns = [name for name in _columns(bench.owner, table) if name != '"id"']
        assert not _differ(bench.owner, table, columns, anew, copy), table
    assert _places(bench.owner, anew) == _places(bench.owner, copy)
    for table in (*TABLES, "token", "member"):  # the size that is told is that of the copies
        bench.owner.execute(f"DELETE FROM hub.{table} WHERE ws = %s", (anew,))


def _copied(folder: Path, files: dict[Path, bytes]) -> Memory:
    """A home with some files."""
    for name, content in files.items():
        path = folder / "home" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return connect(home=folder / "home", cwd=folder / "work", environ={"VADE_EMBEDDER": "static"})


def _places(owner: Any, ws: int) -> set[tuple[bool, str, tuple[int, ...], int]]:
    """Where each stem of a workspace stands, with passages named by their file and their place in it."""
    rows = owner.execute("SELECT id, file, ord FROM hub.passage WHERE ws = %s", (ws,)).fetchall()
    names = {id_: (file, ord_) for id_, file, ord_ in rows}
    found: set[tuple[bool, str, tuple[int, ...], int]] = set()
    for wide, stem, block, postings in owner.execute(
        "SELECT wide, stem, block, held FROM hub.posting WHERE ws = %s", (ws,)
    ):
        for each in np.frombuffer(postings, "<u4").tolist():
            id_ = (block << 10) + (each >> 22)
            found.add((wide, stem, (id_,) if wide else names[id_], each & ((1 << 22) - 1)))
    return found


def _differ(owner: Any, table: str, columns: Sequence[str], one: int, other: int) -> int:
    """How many rows of a table two workspaces do not share."""
    named = ", ".join(columns)
    rows = f"(SELECT {named} FROM hub.{table} WHERE ws = %s)"
    (count,) = owner.execute(
        f"SELECT count(*) FROM (({rows} EXCEPT ALL {rows}) UNION ALL ({rows} EXCEPT ALL {rows})) AS d",
        (one, other, other, one),
    ).fetchone()
    return int(count)


def _times(
    bench: Bench, rooms: Sequence[Room], count: int, questions: int
) -> tuple[dict[str, list[float]], tuple[float, float]]:
    """Seconds of each way to ask the same questions, in turn; and of processors for one through HTTP."""
    choose = random.Random(count)
    times: dict[str, list[float]] = {"local": [], "in process": [], "POST": [], "GET": []}
    chosen = [choose.randrange(count) for _ in range(questions + TEMPLATES)]
    clients = {number: bench.client(FIRST_COPY + number) for number in chosen}
    for room in rooms:
        room.memory.search(room.questions[0])
    url = bench.cluster.url_of("postgres", user="hub_app")
    with psycopg.connect(url, autocommit=True, options="-c search_path=pg_catalog") as connection:
        before = bench.used()
        for at, number in enumerate(chosen):
            room, client = rooms[number % TEMPLATES], clients[number]
            question = room.questions[at % len(room.questions)]
            ways: dict[str, Callable[[], object]] = {
                "local": partial(room.memory.search, question),
                "POST": partial(_search_hub, client, question),
                "in process": partial(_answer, connection, FIRST_COPY + number, question),
                "GET": partial(client.ask, "GET", f"/v1/search?q={quote(question)}"),
            }
            # Whoever comes first after the local one finds less in the database's cache.
            order = ["local", *(["POST", "in process", "GET"] * 2)[at % 3 : at % 3 + 3]]
            for way, ask in ((way, ways[way]) for way in order):
                begun = time.perf_counter()
                ask()
                if at >= TEMPLATES:  # the first ones load what every later one has
                    times[way].append(time.perf_counter() - begun)
        # Those of this process are in it as well, and cost the database what those through HTTP cost it.
        spent = [after - then for after, then in zip(bench.used(), before, strict=True)]
    for client in clients.values():
        client.close()
    return times, (spent[0] / (2 * len(chosen)), spent[1] / (3 * len(chosen)))


def _answer(connection: Any, ws: int, question: str) -> None:
    """The work of a server, without HTTP and without looking who asks."""
    with connection.transaction():
        connection.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ")
        enter(connection, ws)
        question_read = hub_search.read_question({"query": question})
        hub_search.answer_question(
            connection, ws, question_read, stale=index_updates.count_stale(connection, ws)
        )


# ------------------------------------------------------------------------------- one large workspace


def _large(bench: Bench, chosen: argparse.Namespace) -> Iterator[dict[str, object]]:
    """One workspace of growing size: every vector compared, and by the index of `vade hub index`."""
    ws, there = bench.make(), 0
    texts = _sentences(chosen.data)
    questions = [case.questions[0].text for case in retrieval.longmemeval(chosen.data) if case.questions]
    questions = random.Random(1).sample(questions, min(chosen.questions, len(questions)))
    client = bench.client(ws)
    for size in map(int, chosen.passages.split(",")):
        begun = time.perf_counter()
        _fill(bench, ws, there, itertools.islice(texts, size - there))
        there = size
        bench.owner.execute("VACUUM (ANALYZE)")
        row: dict[str, object] = {"passages": size, "loaded s": round(time.perf_counter() - begun)}
        named = ("indexed s", "by the index p50 ms", "answer by it p50 ms", "recall@10", "of answers")
        row |= dict.fromkeys((*named, "index bytes per passage"), "")
        exact = _neighbours(bench, ws, questions, client)
        row |= {"vectors, each p50 ms": exact.vectors, "answer p50 ms": exact.answer}
        if size > EXACT:
            begun = time.perf_counter()
            assert administration.index_large(bench.cluster.url_of("postgres", user="hub_migrate")) == 1
            row["indexed s"] = round(time.perf_counter() - begun)
            near = _neighbours(bench, ws, questions, client)
            row |= {"by the index p50 ms": near.vectors, "answer by it p50 ms": near.answer}
            row["recall@10"] = _shared(exact.near, near.near)
            row["of answers"] = _shared(exact.answers, near.answers)
            (bytes_,) = bench.owner.execute(
                "SELECT pg_relation_size(to_regclass(%s))", (f"hub.vector_near_{ws}",)
            ).fetchone()
            row["index bytes per passage"] = bytes_ // size
            bench.owner.execute(f"DROP INDEX hub.vector_near_{ws}")  # rows go in faster without it
            bench.owner.execute("UPDATE hub.search SET settings = settings - 'hnsw' WHERE ws = %s", (ws,))
        yield row
    client.close()


def _shared(one: Sequence[Sequence[Any]], other: Sequence[Sequence[Any]]) -> float:
    """The share of what stands in the answers of one that stands in those of the other as well."""
    shares = [len({*a} & {*b}) / max(1, len({*a})) for a, b in zip(one, other, strict=True)]
    return round(statistics.mean(shares), 4)


class Neighbours(NamedTuple):
    """What was found near some questions, and how long that took in the median, in milliseconds."""

    vectors: float
    answer: float
    near: list[list[int]]
    answers: list[list[tuple[str, int]]]


def _neighbours(bench: Bench, ws: int, asked: Sequence[str], client: HubClient) -> Neighbours:
    made = shipped()
    assert made is not None
    vectors, times, answer_times = made.embed([*asked]), [], []
    near, answers = [], []
    _search_hub(client, asked[0])
    with bench.inside(ws) as connection:
        for vector, question in zip(vectors, asked, strict=True):
            index = PostgresIndex(connection, ws)
            by = index.row.settings["vectors"]
            begun = time.perf_counter()
            found = index.nearest(vector, EVERYTHING, 50, made_by=by)
            times.append(time.perf_counter() - begun)
            near.append(sorted(found.cosines, key=lambda id_: (-found.cosines[id_], id_))[:TEN])
            begun = time.perf_counter()
            answers.append(_search_hub(client, question, max_results=TEN, max_weak=TEN))
            answer_times.append(time.perf_counter() - begun)
    return Neighbours(_median_ms(times), _median_ms(answer_times), near, answers)


def _median_ms(times: Sequence[float]) -> float:
    return round(1000 * statistics.median(times), 1)


def _sentences(data: Path) -> Iterator[str]:
    """What LongMemEval's sessions say, in passages of a few sentences, each once."""
    seen = set()
    for case in retrieval.longmemeval(data):
        for document in case.documents:
            for turn in document.turns:
                for part in re.findall(rf"\S.{{20,{LONGEST}}}(?=\s|$)", turn):
                    if part not in seen:
                        seen.add(part)
                        yield part


def _fill(bench: Bench, ws: int, first: int, texts: Iterator[str]) -> None:
    """Add passages to a workspace, twenty to a document, as a push writes them once texts were cut."""
    numbers = itertools.count(first)
    while some := [*itertools.islice(texts, 2_000)]:
        documents = []
        for start in range(0, len(some), 20):
            name = f"note-{next(numbers):07}-{start}.md"
            pieces = [
                Piece(at, at, text, text=text, words=frozenset(words.all_in(text)))
                for at, text in enumerate(some[start : start + 20], 1)
            ]
            item = IndexItem(
                f"global/records/{name}", f"memory/global/records/{name}", "memory", "record",
                Place(Scope.GLOBAL), "", Stamp(0, 0, 0, 0), lambda: None,
            )  # fmt: skip
            documents.append(IndexDocument(item, name, Labels(title=name), pieces))
        with bench.inside(ws) as connection:
            index = PostgresIndex(connection, ws)
            Sync(index, EVERYTHING, embedder=lazily_shipped()).renew(SyncReport(), vectors=True)
            index.put(documents, embed=_vectors)


def _vectors(texts: Sequence[tuple[str, str]]) -> list[bytes]:
    made = shipped()
    assert made is not None
    return pack(made.embed([text_to_embed(*each) for each in texts]))


# ------------------------------------------------------------------------------- what words cost a push


def _push(bench: Bench) -> Iterator[dict[str, object]]:
    """New documents and then edits of one, with and without making them searchable, in turn.

    Processor time is this process's and its database backends': on a busy machine it says more than a clock.
    """
    texts = [f"Note {n}: " + " ".join(random.Random(n).choices(_words(), k=60)) for n in range(PASSAGES)]
    with contextlib.ExitStack() as open_ones:
        writers = []
        url = bench.cluster.url_of("postgres", user="hub_app")
        for what in ("with", "without"):
            ws = bench.make("team")
            connection = psycopg.connect(url, autocommit=True, options="-c search_path=pg_catalog")
            writers.append(Writing(open_ones.enter_context(connection), ws, searchable=what == "with"))
        added = [Spent(), Spent()]
        for start in range(0, PASSAGES, 200):
            for writer, spent in zip(writers, added, strict=True):
                with spent.of(writer):
                    writer.add(texts[start : start + 200], start)
        edits = [Spent(), Spent()]
        for number in range(EDITS):
            for writer, spent in zip(writers, edits, strict=True):
                with spent.of(writer):
                    writer.edit(number)
        journal = [Spent(), Spent()]
        for number in range(EDITS):
            for writer, spent in zip(writers, journal, strict=True):
                with spent.of(writer):
                    writer.append(texts[number])
    for what, some, count in (
        ("1,000 new documents", added, 1),
        ("an edit of one", edits, EDITS),
        (f"an entry at the end of a document that has up to {EDITS}", journal, EDITS),
    ):
        yield {
            "what": what,
            "ms with": round(1000 * some[0].median * len(some[0].seconds) / count, 1),
            "ms without": round(1000 * some[1].median * len(some[1].seconds) / count, 1),
            "x": round(some[0].median / some[1].median, 2),
            "processor ms with": round(1000 * some[0].processor / count, 1),
            "processor ms without": round(1000 * some[1].processor / count, 1),
            "processor x": round(some[0].processor / some[1].processor, 2),
        }


class Spent:
    """What pushes took: seconds of each, and of processors by all."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.processor = 0.0

    @property
    def median(self) -> float:
        return statistics.median(self.seconds)

    @contextlib.contextmanager
    def of(self, writer: Writing) -> Iterator[None]:
        """Measure one push."""
        used, begun = writer.used(), time.perf_counter()
        yield
        self.seconds.append(time.perf_counter() - begun)
        self.processor += writer.used() - used


def _words() -> list[str]:
    return [a + b for a in ("wal", "ter", "mon", "gar", "sil", "pon", "ked", "lim") for b in _ENDS]


_ENDS = (
    "den",
    "ning",
    "ter",
    "lo",
    "mar",
    "set",
    "rup",
    "fol",
    "kin",
    "bas",
    "vent",
    "lor",
    "mit",
    "ra",
    "so",
)


class Writing:
    """One machine that pushes; its documents are searchable with the push, or never."""

    def __init__(self, connection: Any, ws: int, *, searchable: bool) -> None:
        self._connection, self._ws, self._searchable = connection, ws, searchable
        self._last: SyncFact | None = None
        self._texts: dict[int, SyncFact] = {}
        self._entries = 0

    def used(self) -> float:
        """Seconds of processors that this process and the database have used for it."""
        return time.process_time() + hub.used(self._connection.info.backend_pid)

    def _fact(self, doc: int, kind: str, target: str, value: Any, based_on: tuple[Any, ...] = ()) -> SyncFact:
        last = self._last
        self._last = SyncFact(
            "global", "aaaaaaaa", last.n + 1 if last else 1, last.hash if last else NOTHING,
            last.lamport + 1 if last else 1, f"{doc:08}-0000-4000-8000-000000000000", kind, target, based_on,
            value=value, origin="user", interface="cli",
        )  # fmt: skip
        return self._last

    def add(self, texts: Sequence[str], first: int) -> None:
        """Push new documents."""
        made = []
        for doc, text in enumerate(texts, first):
            made.append(self._fact(doc, "name", "", f"records/note-{doc}.md"))
            made.append(self._fact(doc, "layout", "", {"front": "", "head": ""}))
            self._texts[doc] = self._fact(doc, "put", "e1", {"raw": f"## 2026-01-01T00:00:00Z\n\n{text}\n"})
            made.append(self._texts[doc])
        self._send(made)

    def append(self, text: str) -> None:
        """Push another entry of one document."""
        doc, made = PASSAGES, []
        if not self._entries:
            made.append(self._fact(doc, "name", "", "records/log.md"))
            made.append(self._fact(doc, "layout", "", {"front": "", "head": ""}))
        self._entries += 1
        raw = f"## 2026-01-01T{self._entries // 60:02}:{self._entries % 60:02}:00Z\n\n{text}\n"
        self._send([*made, self._fact(doc, "put", f"e{self._entries}", {"raw": raw})])

    def edit(self, doc: int) -> None:
        """Push another text of a document."""
        before = self._texts[doc]
        raw = before.value["raw"].replace("Note", "Changed note")
        self._texts[doc] = self._fact(doc, "put", "e1", {"raw": raw}, (*before.based_on, before.id))
        self._send([self._texts[doc]])

    def _send(self, made: Sequence[SyncFact]) -> None:
        scopes = frozenset({"read", "write", "person"})
        caller = HubCaller(self._ws, "", "team", "0" * 8 + "-0000-4000-8000-" + "0" * 12, "", "anna", "owner",
                           scopes, None)  # fmt: skip
        push = streams.Push(1, "aaaaaaaa", tuple(made), (None,) * len(made))
        searching = index_updates.project_push
        if not self._searchable:
            index_updates.project_push = lambda *_: True
        try:
            with self._connection.transaction():
                enter(self._connection, self._ws)
                streams.push_facts(streams.RequestContext(self._connection, caller, KEYS, "global"), push)
        finally:
            index_updates.project_push = searching
