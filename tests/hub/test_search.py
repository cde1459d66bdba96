"""Search on the hub: what local search finds, for who has no copy, in one's own workspace and no other."""

from __future__ import annotations

import json
import random
import time
from typing import TYPE_CHECKING, Any

import jsonschema
import numpy as np
import psycopg
import pytest

import tiers
from allowing import allow
from hub.hubs import Writer
from hub.pages import browse
from hub.test_commands import invited, refused, vade
from hub.test_sync import SCHEMAS, Machine, Pair, meet, two
from vademecum.index import languages
from vademecum.index.base import EVERYTHING
from vademecum.interfaces.cli.app import run
from vademecum.store import decisions
from vademecum.sync import membership
from vademecum.types import Place, Scope
from vademecum_hub import administration, hub_search, index_updates, postgres_index, workspace_index
from vademecum_hub.authorization import enter
from vademecum_hub.postgres_index import PostgresIndex

if TYPE_CHECKING:
    from pathlib import Path

    from hub.hubs import World

__all__ = ["two"]

NOTES = {
    "deploy": "We deploy to Frankfurt on Fridays. The rollback script is deploy/rollback.sh.",
    "heron": "The heron stood in the pond on Tuesday and waited for a fish.",
    "budget": "The budget of project Falcon is 12,500 euros until March 2026.",
    "parser": "The C++ parser fails with error E4711 when a header is empty.",
    "tea": "Omar drinks green tea and no coffee; he says so whenever we meet.",
    "haus": "Die Häuser am See werden im Frühling neu gestrichen, sagt die Verwaltung.",
    "vertrag": "Der Mietvertrag für das Büro endet im September und wird nicht verlängert.",
    "maison": "La maison de campagne sera vendue avant la fin de l'année prochaine.",
    "libro": "El libro de visitas está en la biblioteca del segundo piso.",
    "kniga": "Книга лежит на столе рядом с лампой.",
    "ukr": "Книга лежить на столі біля вікна.",
    "kagi": "鍵は玄関の棚の上にあります。",
    "yaoshi": "钥匙在门口的架子上。",
    "yeolsoe": "열쇠는 현관 선반 위에 있습니다.",
    "miftah": "المفتاح على الرف عند الباب.",
    "mafteach": "המפתח נמצא על המדף ליד הדלת.",
    "kleidi": "Το κλειδί είναι στο ράφι δίπλα στην πόρτα.",
    "anahtar": "Anahtar kapının yanındaki rafta duruyor.",
    "sleutel": "De sleutel ligt op de plank naast de voordeur.",
    "nyckel": "Nyckeln ligger på hyllan bredvid ytterdörren.",
}
QUESTIONS = [
    "where do we deploy",
    "E4711",
    '"green tea"',
    "how much money does Falcon have",
    "when did the bird stand in the water",
    "rollback.sh",
    "Vertrag",
    "Häuser Frühling",
    "maison vendue",
    "libro biblioteca",
    "книга столе",
    "鍵 棚",
    "钥匙",
    "열쇠",
    "المفتاح",
    "κλειδί",
    "anahtar",
    "sleutel",
    "nyckeln",
    "type:project pond",
]


def find(world: World, token: str, query: str, **given: Any) -> dict[str, Any]:
    told = world.ask("POST", "/v1/search", token, {"query": query, **given})
    assert told.status == 200, told.body
    answer: dict[str, Any] = told.json
    return answer


def token_of(machine: Machine) -> str:
    return (machine.folder / "token").read_text().strip()


@pytest.fixture
def one(world: World, tmp_path: Path) -> Machine:
    """A machine whose twenty notes are on the hub."""
    made = Machine(tmp_path, "one")
    made.join(world.url, invited(world, "personal"))
    with made.memory() as memory:
        for key, text in NOTES.items():
            memory.store(text, key=key, scope="global")
    made.sync()
    return made


@pytest.mark.full
def test_the_hub_answers_as_the_machine_that_the_documents_came_from(world: World, one: Machine) -> None:
    token = token_of(one)
    with one.memory() as memory:
        for question in QUESTIONS:
            local = memory.search(question, max_results=10)
            answer = find(world, token, question, max_results=10)
            there = [
                (each["path"], each["startLine"], each["score"], each["match"]) for each in answer["results"]
            ]
            assert there == [(each.path, each.start, each.score, each.match) for each in local], question
            assert answer["coverage"]["files"] == answer["coverage"]["indexed"] == len(NOTES)
            assert answer["stale"] == 0
            assert answer["model"] == local.model


@pytest.mark.full
def test_an_edited_a_renamed_and_a_forgotten_document_are_found_as_they_are_now(
    world: World, two: Pair
) -> None:
    one, other = two
    meet(one, other)
    token = token_of(one)
    one.change("global/records/machine-one.md", "one is here.", "one is upstairs with the otter.")
    other.memory().forget("machine-other")
    meet(one, other)
    (found, *_) = find(world, token, "otter")["results"]
    assert found["snippet"].startswith("one is upstairs")
    assert [each["path"] for each in find(world, token, "other is here")["results"]] == [found["path"]]
    one.memory().store("From one machine, a stork.", key="both", scope="global")
    other.memory().store("From the other, a crane.", key="both", scope="global")
    meet(one, other)
    paths = {each["path"] for word in ("stork", "crane") for each in find(world, token, word)["results"][:1]}
    assert paths == {"memory/global/records/both.md"}


def test_no_workspace_finds_what_is_in_another(world: World, one: Machine, tmp_path: Path) -> None:
    other = Machine(tmp_path, "stranger")
    other.join(world.url, invited(world, "personal"))
    other.memory().store("The owl sits in the barn.", key="owl", scope="global")
    other.sync()
    for question in [*QUESTIONS, "heron", ""]:
        paths = [each["path"] for each in find(world, token_of(other), question)["results"]]
        assert set(paths) <= {"memory/global/records/owl.md"}, question
    assert find(world, token_of(other), "heron")["coverage"]["files"] == 1
    assert [each["key"] for each in find(world, token_of(one), "owl barn")["results"]][:1] != ["owl"]


@pytest.mark.full
def test_every_statement_of_a_search_sees_nothing_as_another_workspace(world: World, one: Machine) -> None:
    """The statements themselves are run again under another workspace's setting: they give no row."""
    from vademecum_hub.authorization import authenticate, enter

    said: list[tuple[str, Any]] = []
    with psycopg.connect(
        world.postgres.as_role(world.database, "hub_app"),
        autocommit=True,
        options="-c search_path=pg_catalog",
    ) as connection:

        class Recording:
            def __getattr__(self, name: str) -> Any:
                return getattr(connection, name)

            def execute(self, sql: str, values: Any = (), **given: Any) -> Any:
                said.append((sql, values))
                return connection.execute(sql, values, **given)

        with connection.transaction():
            caller = authenticate(connection, world.keys, f"Bearer {token_of(one)}")
            for query in ("where is the herron standing", '"green tea" scope:global', ""):
                asked = hub_search.read_question({"query": query})
                hub_search.answer_question(Recording(), caller.ws, asked, stale=0)
        asked_for = {sql: values for sql, values in said if sql.startswith(("SELECT", "WITH"))}
        assert len(asked_for) > 8
        for sql, values in asked_for.items():
            with connection.transaction():
                enter(connection, world.ws)
                for row in connection.execute(sql, values).fetchall():
                    assert not any(row) or row == (None, 0.0, 0, None), sql


def test_a_reader_may_search_and_whoever_has_no_right_to_read_may_not(world: World) -> None:
    reader = world.member("rita", "reader", "read", "person")
    assert find(world, reader, "anything")["results"] == []
    writing = world.member("walt", "writer", "write")
    assert world.ask("POST", "/v1/search", writing, {"query": "x"}).status == 403
    assert world.ask("POST", "/v1/search", "vade_wrong", {"query": "x"}).status == 401


GARBAGE = (
    *("", " ", "\0", "\ud800", "'; drop table hub.fact; --", "%s %(x)s {}", "a" * 9_999, '"', '""', "(((("),
    *("NEAR(", "🦆🦆", "\u202e\u200b", "type:nothing after:lunch", "-1 OR 1=1", "\\x00", "herons" * 50),
    " ".join(f"word{n}" for n in range(1200)),
)


def test_any_text_is_a_question(world: World, one: Machine) -> None:
    for query in GARBAGE:
        told = world.ask("POST", "/v1/search", token_of(one), {"query": query})
        assert told.status == 200, told.body
        assert told.json["coverage"]["files"] == len(NOTES)


@pytest.mark.full(but=2)
@pytest.mark.parametrize(
    "body",
    [{}, {"query": 1}, {"query": None}, {"query": "a" * 10_001},
     {"query": "a", "mode": "magic"},
     {"query": "a", "max_results": 0}, {"query": "a", "max_results": True}, {"query": "a", "min_score": 2},
     {"query": "a", "max_results": "6"}, {"query": "a", "scope": "everywhere"},
     {"query": "a", "as_of": "soon"},
     {"query": "a", "now": "never"}, {"query": "a", "sort_by": "usage"}],
)  # fmt: skip
def test_what_is_no_question_is_refused_with_a_sentence(body: dict[str, Any], world: World) -> None:
    told = world.ask("POST", "/v1/search", None, body)
    assert (told.status, told.code) == (422, "malformed")
    assert "query" in told.json["error"]["message"] or len(body) == 2


def test_a_question_may_stand_in_the_address(world: World, one: Machine) -> None:
    told = world.ask("GET", "/v1/search?q=heron&max_results=1", token_of(one))
    assert [each["key"] for each in told.json["results"]] == ["heron"]
    assert world.ask("GET", "/v1/search?q=heron&max_results=x", token_of(one)).status == 422


def test_the_modes_and_filters_of_local_search_are_those_of_the_hub(world: World, one: Machine) -> None:
    token = token_of(one)
    with one.memory() as memory:
        for given in (
            {"mode": "bm25"},
            {"mode": "vector"},
            {"mode": "metadata"},
            {"scope": "global"},
            {"scope": "project"},
            {"type": "rule"},
            {"as_of": "2025-01-01"},
            {"min_score": 0.5},
            {"sort_by": "recency"},
        ):
            local = [each.path for each in memory.search("heron pond", **given)]
            there = [each["path"] for each in find(world, token, "heron pond", **given)["results"]]
            assert there == local, given


# ------------------------------------------------------------------------------- what is stale, and is told


def documents(writer: Writer, count: int, *, first: int = 0) -> None:
    """Facts of so many records."""
    for at in range(first, first + count):
        doc = f"{at:08}-0000-4000-8000-000000000000"
        writer.fact("name", doc=doc, target="", value=f"records/note-{at}.md", based_on=())
        writer.fact(
            "layout", doc=doc, target="", value={"front": f"---\nid: {doc}\n---\n", "head": "\n"}, based_on=()
        )
        writer.fact(
            "put", doc=doc, target="e1", value={"raw": f"## 2026-01-01T00:00:00Z\n\nHeron number {at}.\n"}
        )


def sent(world: World, writer: Writer) -> None:
    for start in range(0, len(writer.made), 900):
        told = world.push(writer, *writer.made[start : start + 900])
        assert told.status == 200, told.body


def until_fresh(world: World) -> None:
    deadline = time.monotonic() + 60
    while find(world, world.anna, "heron")["stale"]:
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.full
def test_a_large_push_is_told_as_stale_and_becomes_searchable_by_itself(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: list[int] = []
    monkeypatch.setattr(world.app.state.hub.catch_up, "wake", woken.append)
    writer = Writer("aaaaaaaa")
    documents(writer, 240)
    sent(world, writer)
    answer = find(world, world.anna, "heron")
    assert answer["results"] == []
    assert answer["stale"] == answer["coverage"]["pending"] == 240
    assert any("stale: 240" in said for said in answer["degraded"])
    assert woken
    monkeypatch.undo()
    until_fresh(world)
    answer = find(world, world.anna, "heron number 239")
    assert answer["results"][0]["snippet"] == "Heron number 239."
    assert answer["coverage"]["indexed"] == 240
    assert not answer["degraded"]


def test_a_small_push_is_searchable_when_it_is_answered(world: World) -> None:
    writer = Writer("aaaaaaaa")
    documents(writer, 3)
    told = world.push(writer)
    assert "stale" not in told.json
    assert find(world, world.anna, "heron 2")["results"][0]["snippet"] == "Heron number 2."


def test_what_was_pushed_before_there_was_search_becomes_searchable(world: World) -> None:
    writer = Writer("aaaaaaaa")
    documents(writer, 5)
    sent(world, writer)
    for table in ("passage", "posting", "vector", "document", "shown", "search"):
        world.sql(f"DELETE FROM hub.{table}")
    world.sql("UPDATE hub.stream SET projected = 0")  # as a migration leaves it
    until_fresh(world)
    assert len(find(world, world.anna, "heron", max_results=10)["results"]) == 5


def test_an_index_of_another_version_is_made_anew(world: World) -> None:
    writer = Writer("aaaaaaaa")
    documents(writer, 3)
    sent(world, writer)
    world.sql("""UPDATE hub.search SET settings = settings || '{"keywords": "1/0"}'""")
    documents(writer, 1, first=3)
    assert world.push(writer, *writer.made[9:]).json["stale"] is True
    until_fresh(world)
    assert len(find(world, world.anna, "heron", max_results=10)["results"]) == 4
    assert world.sql("SELECT count(*) FROM hub.passage") == [(4,)]


@pytest.mark.full
def test_an_index_of_other_stems_is_noticed_by_a_search_and_made_anew(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer("aaaaaaaa")
    documents(writer, 3)
    sent(world, writer)
    assert find(world, world.anna, "heron")["stale"] == 0
    world.sql("UPDATE hub.posting SET stem = 'heronne' WHERE stem = 'heron'")  # as another stemmer cuts it
    monkeypatch.setattr(languages, "stemmer_version", lambda: "9.9.9")
    first = find(world, world.anna, "heron", mode="bm25")
    assert (first["stale"], first["coverage"]["pending"]) == (3, 3)
    until_fresh(world)
    assert len(find(world, world.anna, "heron", mode="bm25")["results"]) == 3
    assert world.sql("SELECT count(*) FROM hub.posting WHERE stem = 'heronne'") == [(0,)]
    made = world.sql("SELECT settings->>'keywords' FROM hub.search")
    monkeypatch.undo()
    assert find(world, world.anna, "heron")["stale"] == 3  # this one knows as little of those stems
    until_fresh(world)
    assert world.sql("SELECT settings->>'keywords' FROM hub.search") != made


@pytest.mark.full
def test_a_search_that_runs_while_others_push_is_of_one_state(world: World) -> None:
    import threading

    writer = Writer("aaaaaaaa")
    documents(writer, 40)
    done = threading.Event()
    problems: list[bytes] = []

    def ask() -> None:
        while not done.is_set():
            told = world.ask("POST", "/v1/search", world.anna, {"query": "heron number"})
            if told.status not in (200, 429):
                problems.append(told.body)

    threads = [threading.Thread(target=ask) for _ in range(2)]
    for each in threads:
        each.start()
    for start in range(0, 120, 6):
        told = world.push(writer, *writer.made[start : start + 6])
        assert told.status == 200, told.body
    done.set()
    for each in threads:
        each.join()
    assert problems == []
    assert find(world, world.anna, "heron")["coverage"]["indexed"] == 40


# ------------------------------------------------------------------------------- purge

PURGED = "## Zanzibar\n\nxylophonist\n"


def test_of_a_purged_text_no_row_of_the_search_holds_anything(world: World) -> None:
    writer = Writer("aaaaaaaa")
    documents(writer, 3)
    secret = writer.fact(
        "put", doc=writer.made[0].doc, target="e2", value={"raw": "## Zanzibar\n\nxylophonist\n"}
    )
    sent(world, writer)
    assert find(world, world.anna, "xylophonist")["results"]
    before = world.sql("SELECT count(*) FROM hub.vector")
    # A stem that cutting the text again would not find.
    world.sql("INSERT INTO hub.posting SELECT ws, wide, 'xylofoon', block, seen, held FROM hub.posting"
              " WHERE stem = 'xylophonist' AND NOT wide")  # fmt: skip
    order = writer.fact("purge", doc="", target="", value={"dots": [str(secret.id)]})
    assert world.push(writer, order).status == 200
    for table in ("search", "shown", "document", "passage", "posting", "vector", "fact"):
        rows = world.sql(f"SELECT t::text FROM hub.{table} t")
        held = [row for (row,) in rows for word in ("xylo", "Zanzibar", "zanzibar") if word in row]
        assert held == [], table
        assert not any(b"xylo".hex() in row for (row,) in rows), table
    assert world.sql("SELECT count(*) FROM hub.vector") == [(before[0][0] - 1,)]
    assert len(find(world, world.anna, "heron", max_results=10)["results"]) == 3


def test_a_purge_in_a_stream_that_is_behind_leaves_nothing_either(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = Writer("aaaaaaaa")
    documents(writer, 2)
    secret = writer.fact(
        "put", doc=writer.made[0].doc, target="e2", value={"raw": "## Zanzibar\n\nxylophonist\n"}
    )
    sent(world, writer)
    monkeypatch.setattr(world.app.state.hub.catch_up, "wake", lambda ws: None)
    monkeypatch.setattr(index_updates, "AT_ONCE", 0)
    documents(writer, 1, first=2)
    assert world.push(writer, *writer.made[7:]).json["stale"] is True
    order = writer.fact("purge", doc="", target="", value={"dots": [str(secret.id)]})
    assert world.push(writer, order).status == 200
    for table in ("passage", "posting"):
        assert not any("xylo" in row for (row,) in world.sql(f"SELECT t::text FROM hub.{table} t"))
    assert find(world, world.anna, "heron")["stale"] == 1


# ------------------------------------------------------------------------------- edits

WORDS = "heron otter pond stork crane moss fern reed mill weir lock barge Häuser See Frühling".split()


def shown(name: str, entries: list[str]) -> workspace_index.HubFile:
    """A record with some entries, as facts show it."""
    text = f"# {name}\n" + "".join(
        f"\n## 2026-01-01T10:{at:02}:00Z\n\n{entry}\n" for at, entry in enumerate(entries)
    )
    path = f"records/{name}.md"
    place = Place(Scope.GLOBAL)
    return workspace_index.HubFile(
        (name,), path, f"global/{path}", f"memory/global/{path}", place, "records", text
    )


def held_in(connection: Any, ws: int) -> dict[str, Any]:
    """All that the search of a workspace holds, without the numbers that rows happen to have."""
    rows = connection.execute(
        "SELECT c.id, d.item, c.ord, to_jsonb(c) - '{ws,id,file}'::text[] FROM hub.passage c"
        " JOIN hub.document d ON d.ws = c.ws AND d.id = c.file WHERE c.ws = %s",
        (ws,),
    ).fetchall()
    names: dict[tuple[bool, int], Any] = {(False, id_): (item, ord_) for id_, item, ord_, _ in rows}
    files = connection.execute(
        "SELECT id, item, to_jsonb(d) - '{ws,id}'::text[] FROM hub.document d WHERE ws = %s", (ws,)
    ).fetchall()
    names |= {(True, id_): item for id_, item, _ in files}
    places: set[Any] = set()
    counts: dict[tuple[bool, str], int] = {}
    for wide, stem, block, seen, held in connection.execute(
        "SELECT wide, stem, block, seen, held FROM hub.posting WHERE ws = %s", (ws,)
    ).fetchall():
        numbers = [divmod(int(each), 1 << 22) for each in np.frombuffer(held, "<u4")]
        places |= {(wide, stem, names[wide, (block << 10) + number], at) for number, at in numbers}
        assert seen == len({number for number, _ in numbers}) > 0
        counts[wide, stem] = counts.get((wide, stem), 0) + seen
    vectors = connection.execute("SELECT text_sha, vec::text FROM hub.vector WHERE ws = %s", (ws,)).fetchall()
    (search,) = connection.execute("SELECT settings, languages FROM hub.search WHERE ws = %s", (ws,))
    return {
        "passages": {(item, ord_): told for _, item, ord_, told in rows},
        "files": {item: told for _, item, told in files},
        "places": places,
        "counts": counts,
        "vectors": dict(vectors),
        "search": search,
    }


@pytest.mark.scaled
def test_after_any_edits_the_search_holds_what_it_would_if_only_the_last_texts_had_ever_been(
    world: World,
) -> None:
    """Entries are added, edited, moved and removed; passages that stay keep their rows."""
    fresh, _ = world.workspace("team")
    for seed in range(tiers.few(3, 12)):
        rng = random.Random(seed)
        state: dict[str, list[str]] = {}
        with psycopg.connect(
            world.postgres.as_role(world.database, "hub_app"), options="-c search_path=pg_catalog"
        ) as connection:
            enter(connection, world.ws)
            for _ in range(12):
                changed = {rng.choice("abc") for _ in range(2)}
                for name in changed:
                    entries = state.setdefault(name, [])
                    at, text = rng.randrange(len(entries) + 1), " ".join(rng.choices(WORDS, k=6))
                    entries[at : at + rng.randrange(2)] = [text] * rng.choice((0, 1, 1, 1, 2))
                    rng.shuffle(entries) if rng.random() < 0.1 else None
                gone = {name for name in changed if rng.random() < 0.1}
                for name in gone:
                    del state[name]
                workspace_index.update_index(
                    connection,
                    world.ws,
                    [shown(name, state[name]) for name in sorted(changed - gone)],
                    [f"global/records/{name}.md" for name in sorted(gone)],
                    purge=rng.random() < 0.1,
                )
            edited = held_in(connection, world.ws)
            enter(connection, fresh)
            files = [shown(name, entries) for name, entries in sorted(state.items())]
            workspace_index.update_index(connection, fresh, files, [], purge=False)
            assert edited == held_in(connection, fresh), seed
            connection.rollback()


def test_an_entry_at_the_end_of_a_long_document_leaves_the_rows_of_the_others_alone(world: World) -> None:
    entries = [f"Heron number {at} met otter {at * 7}." for at in range(30)]
    with psycopg.connect(
        world.postgres.as_role(world.database, "hub_app"), options="-c search_path=pg_catalog"
    ) as connection:
        enter(connection, world.ws)
        workspace_index.update_index(connection, world.ws, [shown("log", entries)], [], purge=False)
        connection.commit()
        enter(connection, world.ws)
        workspace_index.update_index(
            connection, world.ws, [shown("log", [*entries, "A stork."])], [], purge=False
        )
        connection.commit()
    written = "SELECT count(*) FROM hub.{} WHERE xmin = (SELECT xmin FROM hub.search)"
    counts = {name: world.sql(written.format(name))[0][0] for name in ("passage", "vector", "posting")}
    assert counts["passage"] <= 2  # the one before it ends at another line
    assert counts["vector"] == 1
    assert counts["posting"] <= 2 * 12  # its own words, of the passage and of the file, and both lengths


# ------------------------------------------------------------------------------- a team


def test_in_a_team_a_text_is_its_authors_by_the_hubs_word_whatever_it_claims(world: World) -> None:
    bert = world.member("bert", "writer")
    writer = Writer("bbbbbbbb")
    documents(writer, 1)
    raw = "## 2026-01-02T00:00:00Z\n<!-- origin: user | by: anna -->\n\nThe otter is Anna's.\n"
    writer.fact("put", doc=writer.made[0].doc, target="e2", value={"raw": raw})
    assert world.push(writer, token=bert).status == 200
    found = find(world, world.anna, "otter")["results"][0]
    assert found["origin"] == "member:bert"
    assert found["path"].startswith("memory/hub/")
    assert "vouched" not in found


def test_who_verified_a_text_in_a_team_is_told_with_it_until_it_is_another_text(world: World) -> None:
    bert = world.member("bert", "writer")
    writer, editor = Writer("bbbbbbbb"), Writer("aaaaaaaa")
    documents(writer, 2)
    assert world.push(writer, token=bert).status == 200
    name = decisions.exactly("Heron number 0.")
    editor.fact("vouch", doc=writer.made[0].doc, target=f"{name} anna", value=True)
    assert world.push(editor).status == 200
    told = {each["snippet"]: each.get("vouched") for each in find(world, bert, "heron number")["results"]}
    assert told == {"Heron number 0.": ["anna"], "Heron number 1.": None}
    raw = "## 2026-01-01T00:00:00Z\n\nHeron number 0 or 7.\n"
    put = writer.made[2]
    changed = writer.fact("put", doc=put.doc, target="e1", value={"raw": raw}, based_on=(put.id,))
    assert world.push(writer, changed, token=bert).status == 200
    assert not any("vouched" in each for each in find(world, bert, "heron number")["results"])


@pytest.mark.full
def test_the_label_of_a_text_follows_the_two_person_rule_when_it_is_switched_and_the_command_shows_it(
    world: World, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    writer, bert = Writer("aaaaaaaa"), world.member("bert", "editor")
    documents(writer, 2)
    assert world.push(writer).status == 200
    names = [decisions.exactly(f"Heron number {number}.") for number in range(2)]
    docs = [fact.doc for fact in writer.made if fact.kind == "put"]
    own, his = Writer("cccccccc"), Writer("bbbbbbbb")
    own.fact("vouch", doc=docs[0], target=f"{names[0]} anna", value=True)
    assert world.push(own).status == 200
    his.fact("vouch", doc=docs[1], target=f"{names[1]} bert", value=True)
    assert world.push(his, token=bert).status == 200
    home = tmp_path / "bare"
    allow(home)
    code = world.ask("POST", "/v1/invites", bert, {}).json["code"]
    vade(capsys, home, "hub", "join", world.url, "--code", code)
    page = browse(world)
    for rule, told in (
        (False, [["anna"], ["bert"]]),
        (True, [None, ["bert"]]),
        (False, [["anna"], ["bert"]]),
    ):
        assert page.post("/rules", {"two_person": rule}).status == 200
        found = vade(capsys, home, "search", "--hub", "heron", "number")
        jsonschema.validate(found, json.loads((SCHEMAS / "search.json").read_text()))
        shown = {each["snippet"]: each.get("vouched") for each in found["results"]}
        assert [shown[f"Heron number {number}."] for number in range(2)] == told
        assert run(["search", "--hub", "heron number", "--home", str(home)]) == 0
        text = capsys.readouterr().out
        assert ("verified by anna" in text) is (told[0] is not None)
        assert "member:anna · verified by bert" in text


# ------------------------------------------------------------------------------- a large workspace


def fill(world: World, ws: int, count: int) -> np.ndarray[Any, Any]:
    """Passages with vectors in clusters, as texts have them; written as a bulk load writes them."""
    rng = np.random.default_rng(ws)
    centres = rng.normal(size=(40, 256))
    vectors = centres[rng.integers(0, 40, count)] + 0.8 * rng.normal(size=(count, 256))
    packed = np.rint(vectors * (127 / np.abs(vectors).max(axis=1, keepdims=True))).astype(np.int8)
    lengths = b"".join((at << 22 | 1).to_bytes(4, "little") for at in range(1024))
    with psycopg.connect(world.database, autocommit=True) as connection:
        cursor = connection.cursor()
        with cursor.copy("COPY hub.vector (ws, text_sha, vec) FROM STDIN") as rows:
            for at, row in enumerate(packed):
                rows.write_row((ws, at.to_bytes(16, "big"), str(row.tolist())))
        with cursor.copy(
            "COPY hub.passage (ws, id, file, ord, start, last, body, heading, asks, says, alone, size, stems,"
            " place, language, head, text_sha) FROM STDIN"
        ) as rows:
            for at in range(count):
                values = ("", "", 0, 0, True, 1, b"", b"", "en", "", at.to_bytes(16, "big"))
                rows.write_row((ws, at, 1, at, 1, 1, *values))
        connection.execute(
            "INSERT INTO hub.document (ws, id, item, path, source, kind, scope, scope_id, root, hash, stamp,"
            " title, tags)"
            " VALUES (%s, 1, 'i', 'p', 'memory', 'record', 'global', '', '', '', '{}', 't', '{}')",
            (ws,),
        )
        for block in range(0, count, 1024):
            held = lengths[: 4 * min(1024, count - block)]
            row = (ws, block >> 10, len(held) // 4, held)
            connection.execute("INSERT INTO hub.posting VALUES (%s, false, '', %s, %s, %s)", row)
        settings, held_in = '{"vectors": "m", "dimension": "256"}', json.dumps({"en": count})
        connection.execute(
            "INSERT INTO hub.search (ws, settings, languages) VALUES (%s, %s, %s)", (ws, settings, held_in)
        )
        connection.execute("ANALYZE hub.vector")
    made: np.ndarray[Any, Any] = packed.astype(np.float64)
    return made


@pytest.mark.full
def test_a_large_workspace_has_neighbours_of_its_own_and_loses_no_more_than_a_few(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside another in the same partition, whose vectors are as near: defaults gave 6 rows of 10."""
    own = _partition(world, world.ws)
    other = next(ws for ws in range(world.ws + 1, world.ws + 1_000) if _partition(world, ws) == own)
    with world.owner() as connection:
        enter(connection, other)
        connection.execute(
            "INSERT INTO hub.workspace (ws, public, name, kind)"
            " VALUES (%s, gen_random_uuid(), 'other', 'team')",
            (other,),
        )
    world.sql("SELECT setval('hub.workspaces', %s)", other)
    vectors = fill(world, world.ws, 3_000)
    fill(world, other, 3_000)
    monkeypatch.setattr(postgres_index, "EXACT", 1_000)
    url = world.postgres.as_role(world.database, "hub_migrate")
    assert administration.index_large(url) == 2
    assert administration.index_large(url) == 0
    units = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    rng = np.random.default_rng(5)
    shares = []
    with psycopg.connect(
        world.postgres.as_role(world.database, "hub_app"),
        autocommit=True,
        options="-c search_path=pg_catalog",
    ) as connection:
        for _ in range(30):
            query = units[rng.integers(0, 3_000)] + 0.05 * rng.normal(size=256)
            query = (query / np.linalg.norm(query)).astype(np.float32)
            with connection.transaction():
                enter(connection, world.ws)
                index = PostgresIndex(connection, world.ws)
                found = index.nearest(query, EVERYTHING, 50, made_by="m")
                assert connection.execute("SHOW hnsw.iterative_scan").fetchone() == ("strict_order",)
                connection.execute("SET LOCAL enable_sort = off")  # as it was for that question
                used = connection.execute(
                    f"EXPLAIN SELECT text_sha FROM hub.vector WHERE ws = {world.ws}"
                    " ORDER BY vec OPERATOR(public.<=>) %s::public.halfvec LIMIT 66",
                    (str(query.tolist()),),
                ).fetchall()
            assert any(f"vector_near_{world.ws} " in line for (line,) in used), used
            assert len(found.cosines) == 50
            best = np.argsort(-(units @ query))[:50]
            shares.append(len({*best.tolist()} & {*found.cosines}) / 50)
            assert abs(found.mean - float((units @ query).mean())) < 0.02
    assert sum(shares) / len(shares) >= 0.97


@pytest.mark.full
def test_a_workspace_that_outgrew_its_search_is_told_to_the_operator_and_its_members_until_it_has_an_index(
    world: World,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one = Machine(tmp_path, "one")
    one.join(world.url, invited(world, "personal"))
    monkeypatch.setattr(postgres_index, "EXACT", 2)

    def said() -> list[str]:
        return [each.getMessage() for each in caplog.records if "vade hub index" in each.getMessage()]

    def status() -> tuple[int, str | None]:
        (told,) = vade(capsys, one.base / "home", "hub", "status")["workspaces"]
        return told["passages"], told["search"]

    for number, key in enumerate(("heron", "otter", "stork", "crane"), 1):
        one.memory().store(f"The {key} stands in the pond.", key=key, scope="global")
        one.sync()
        assert len(said()) == (number > 2), number  # once
        passages, search = status()
        assert passages == number
        assert (search is not None) == (number > 2)
    assert "3 passages" in said()[0]
    assert administration.index_large(world.postgres.as_role(world.database, "hub_migrate")) == 1
    assert status() == (4, None)
    one.memory().store("The wader is grey.", key="wader", scope="global")
    one.sync()
    assert len(said()) == 1
    assert run(["hub", "status", "--home", str(one.base / "home")]) == 0
    assert "5 passages to search" in capsys.readouterr().out


def _partition(world: World, ws: int) -> int:
    ask = (
        "SELECT n FROM generate_series(0, 63) n"
        " WHERE satisfies_hash_partition('hub.vector'::regclass, 64, n, %s::bigint)"
    )
    return int(world.sql(ask, ws)[0][0])


# ------------------------------------------------------------------------------- the command


@pytest.mark.full
def test_a_home_without_a_copy_searches_the_hub_with_vade_search(
    world: World, one: Machine, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = Machine(tmp_path, "bare")
    membership.join_hub(other.home, world.url, one.invite())  # no key, no sync
    home = other.base / "home"
    answer = vade(capsys, home, "search", "--hub", "green", "tea")
    assert answer["results"][0]["key"] == "tea"
    assert answer["coverage"]["files"] == len(NOTES)
    jsonschema.validate(answer, json.loads((SCHEMAS / "search.json").read_text()))
    named = ["--hub", "--workspace", other.joined.name]
    assert run(["search", *named, "herons in a pond", "--home", str(home)]) == 0
    assert "The heron stood in the pond" in capsys.readouterr().out
    for words, said in (
        (("--workspace", "ours"), "--hub"),
        (("--hub", "--records"), "QUERY"),
        (("--hub", "--sort-by", "usage"), "sort_by"),
        (("--hub", "--workspace", "nowhere"), "workspace"),
    ):
        assert said in refused(capsys, home, "search", *words, "heron")["message"]
    assert not list((home / "memory").rglob("*.md"))


def test_vade_search_says_when_no_hub_was_joined(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert "no hub" in refused(capsys, tmp_path / "home", "search", "--hub", "heron")["message"]
