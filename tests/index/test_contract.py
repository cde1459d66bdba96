"""The contract of an index: every implementation answers the same, and search over each is one search."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from index.memory_index import MemoryIndex
from vademecum.index import words
from vademecum.index.base import EVERYTHING, Filter, Index, IndexDocument, IndexItem, Labels, Piece, Stamp
from vademecum.index.corpus import Corpus
from vademecum.index.embed.select import lazily_shipped
from vademecum.index.sqlite import SqliteIndex
from vademecum.index.sync import Sync
from vademecum.index.vectors import pack
from vademecum.index.words import Speech
from vademecum.memory import connect
from vademecum.search.base import parse
from vademecum.search.engine import MODES, Engine, Options
from vademecum.types import Origin, Place, Scope

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.memory import Memory

KINDS = ["sqlite in memory", "sqlite in a file", "dictionaries", "postgresql"]
EVERYWHERE = Place(Scope.GLOBAL)
ACME = Place(Scope.PROJECT, "acme")


@pytest.fixture(params=KINDS)
def index(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Index]:
    made: Index
    if request.param == "postgresql":
        made = request.getfixturevalue("in_a_workspace")
    elif request.param == "dictionaries":
        made = MemoryIndex()
    else:
        made = SqliteIndex(tmp_path / "x.db" if "file" in request.param else ":memory:")
    yield made
    made.close()


@pytest.fixture(scope="session")
def server() -> Iterator[Any]:
    """A PostgreSQL with the tables of a hub."""
    databases = pytest.importorskip("hub.databases", exc_type=ImportError)
    if databases.WHY_NOT:
        pytest.skip(f"no PostgreSQL: {databases.WHY_NOT}")
    yield from databases.served()


@pytest.fixture(scope="session")
def workspaces(server: Any) -> Iterator[Any]:
    """A connection as the hub has it, which row-level security binds, to a database with two workspaces."""
    import psycopg

    name = server.database()
    with psycopg.connect(server.url(name)) as connection:
        for ws in (1, 2):
            connection.execute("SELECT set_config('hub.ws', %s, true)", (str(ws),))
            connection.execute(
                "INSERT INTO hub.workspace (ws, public, name, kind)"
                " VALUES (%s, gen_random_uuid(), 'w', 'team')",
                (ws,),
            )
    options = "-c search_path=pg_catalog"
    with psycopg.connect(server.url(name, user="hub_app"), autocommit=True, options=options) as connection:
        yield connection
    server.drop(name)


@pytest.fixture
def in_a_workspace(workspaces: Any) -> Iterator[Index]:
    """An empty index of a workspace; nothing of it outlives its test, and another one lies beside it."""
    import psycopg

    from vademecum_hub.postgres_index import PostgresIndex

    with workspaces.transaction() as made:
        workspaces.execute("SELECT set_config('hub.ws', '2', true)")
        PostgresIndex(workspaces, 2).put([document("other", "The heron of others stands in their pond.")])
        workspaces.execute("SELECT set_config('hub.ws', '1', true)")
        yield PostgresIndex(workspaces, 1)
        raise psycopg.Rollback(made)


def item(name: str, place: Place = EVERYWHERE, **given: Any) -> IndexItem:
    made = IndexItem(name, f"memory/{name}", "memory", "record", place, "", Stamp(1, 2, 3, 4), lambda: b"")
    return made._replace(**given)


def piece(text: str, **given: Any) -> Piece:
    made = Piece(1, 1, text, text=text, words=frozenset(words.all_in(text)), speech=Speech("omar", 50, 1))
    return made._replace(**given)


def document(name: str, *texts: str, labels: Labels | None = None, **given: Any) -> IndexDocument:
    language = given.pop("language", "en")
    pieces = [piece(text, start=at, last=at, language=language) for at, text in enumerate(texts, 1)]
    return IndexDocument(item(name, **given), f"hash of {texts}", labels or Labels(title=name), pieces)


def bodies(index: Index, ids: Any) -> list[str]:
    rows = index.rows(ids)
    return [rows[id_].body for id_ in ids]


def matched(index: Index, *phrases: str, filter: Filter = EVERYTHING, **given: Any) -> list[str]:
    return bodies(
        index, index.match([each.split() for each in phrases], filter, given.pop("limit", 10), **given)
    )


# --- what goes in -------------------------------------------------------------------------------------------


def test_what_is_put_is_known_with_its_stamp_and_labels(index: Index) -> None:
    assert index.put([document("a", "The heron stands."), document("b", "The otter swims.")])
    known = index.known(EVERYTHING)
    assert set(known) == {"a", "b"}
    assert known["a"][1:5] == ("hash of ('The heron stands.',)", (1, 2, 3, 4), None, known["a"].labels)
    assert known["a"].labels == ("memory/a", "memory", "record", "")


def test_a_file_takes_the_place_of_what_it_was(index: Index) -> None:
    index.put([document("a", "The heron stands.", "It waits.")])
    index.put([document("a", "The stork stands.")])
    assert matched(index, "heron") == matched(index, "waits") == []
    assert matched(index, "stork") == ["The stork stands."]
    assert index.stats().chunks == 1
    index.put([document("a")])
    assert index.stats().chunks == 0
    assert set(index.known(EVERYTHING)) == {"a"}


def test_a_document_without_pieces_is_noted_and_keeps_what_it_held(index: Index) -> None:
    index.put([document("a", "The heron stands.")])
    index.put([IndexDocument(item("a", stamp=Stamp(9, 9, 9, 9)), "hash of ('The heron stands.',)")])
    assert index.known(EVERYTHING)["a"].stamp == (9, 9, 9, 9)
    assert matched(index, "heron") == ["The heron stands."]


def test_a_file_that_cannot_be_taken_in_says_why_and_holds_nothing(index: Index) -> None:
    index.put([document("a", "The heron stands.")])
    index.put([IndexDocument(item("a"), "", reason="no text")])
    assert index.known(EVERYTHING)["a"].reason == "no text"
    assert matched(index, "heron") == []
    assert index.stats(filter=EVERYTHING)[5:7] == (1, 0)


def test_what_is_dropped_leaves_nothing(index: Index) -> None:
    index.put([document("a", "The heron stands."), document("b", "The heron sleeps.")])
    index.drop([index.known(EVERYTHING)["a"].id])
    assert set(index.known(EVERYTHING)) == {"b"}
    assert matched(index, "heron") == ["The heron sleeps."]
    index.drop(None)
    assert index.known(EVERYTHING) == {}
    assert index.stats(["heron"]).seen == {"heron": 0}


def test_settings_are_kept_and_a_change_shows_in_the_version(index: Index) -> None:
    before = index.stats().version
    index.put(settings={"keywords": "400/80"})
    assert index.stats().settings["keywords"] == "400/80"
    assert index.stats().version != before


def test_a_document_grows_from_the_state_that_is_kept_and_from_no_other(tmp_path: Path) -> None:
    from vademecum.index.sqlite import SESSIONS

    for index in (SqliteIndex(":memory:", SESSIONS), MemoryIndex()):
        first = document("a", "The heron stands.")._replace(state="one", grown="")
        assert index.put([first])
        assert not index.put([first])
        more = document("a", "The otter swims.")._replace(state="two", grown="one")
        assert index.put([more])
        assert not index.put([document("b", "New."), more])
        assert set(index.known(EVERYTHING)) == {"a"}
        assert index.known(EVERYTHING)["a"].state == "two"
        rows = index.rows(index.match((), EVERYTHING, None)).values()
        assert sorted((row.order, row.body) for row in rows) == [
            (0, "The heron stands."),
            (1, "The otter swims."),
        ]
        index.close()


# --- words --------------------------------------------------------------------------------------------------


def test_any_phrase_or_every_one_is_matched_whatever_the_endings(index: Index) -> None:
    index.put(
        [
            document("a", "The heron stands in a pond."),
            document("b", "Standing water."),
            document("c", "A pond."),
        ]
    )
    assert set(matched(index, "stand", "pond")) == {
        "The heron stands in a pond.",
        "Standing water.",
        "A pond.",
    }
    assert matched(index, "stand", "pond")[0] == "The heron stands in a pond."
    assert matched(index, "stand", "pond", every=True) == ["The heron stands in a pond."]
    assert matched(index, "heron stands") == ["The heron stands in a pond."]
    assert matched(index, "stands heron") == []
    assert matched(index, 'he"ron', "NEAR(", "a AND") == []
    assert len(matched(index, "stand", "pond", limit=1)) == 1


def test_whole_files_are_matched_when_they_have_several_chunks(index: Index) -> None:
    index.put([document("a", "The heron stands.", "The otter swims."), document("b", "The heron sleeps.")])
    found = index.match([("heron",), ("otter",)], EVERYTHING, 10, wide=True)
    assert [*found] == [index.known(EVERYTHING)["a"].id]


def test_the_rarer_word_weighs_more(index: Index) -> None:
    index.put([document(str(at), f"The heron stands {'there' if at else 'still'}.") for at in range(9)])
    assert matched(index, "heron", "still")[0] == "The heron stands still."


def test_stats_know_how_often_a_word_is_met_and_what_stands_for_it(index: Index) -> None:
    index.put([document("a", "The heron stands."), document("b", "Herons sleep.")])
    stats = index.stats(["heron", "otter"])
    assert stats.chunks == 2
    assert stats.seen == {"heron": 2, "otter": 0}
    rows = index.rows(index.match([("heron",)], EVERYTHING, 10)).values()
    assert all(any(mark in row.stems for mark in stats.marks["heron"]) for row in rows)
    assert not any(mark in row.stems for mark in stats.marks["otter"] for row in rows)


def test_words_are_found_whatever_their_ending_in_the_languages_that_are_held(index: Index) -> None:
    index.put([document("a", "Die Häuser am See.", language="de"), document("b", "The houses of the lake.")])
    assert matched(index, "haus") == ["Die Häuser am See."]
    assert matched(index, "hauses") == ["Die Häuser am See."]
    assert matched(index, "house") == ["The houses of the lake."]
    assert index.stats(["Haus".lower()]).seen == {"haus": 1}


def test_the_forms_of_a_word_in_several_languages_are_one_word_and_together_as_rare(index: Index) -> None:
    german = [document(str(at), f"Die Zahlungen der {at}. Woche.", language="de") for at in range(8)]
    strays = [document("x", "Zahlungen Woche, Zahlungen Post."), document("y", "Der Reiher.", language="de")]
    index.put([*german, *strays])
    assert index.stats(["zahlungen"]).seen == {"zahlungen": 9}
    assert matched(index, "zahlungen", "reiher")[0] == "Der Reiher."  # which one passage alone holds
    scores = index.match([("zahlungen",)], EVERYTHING, None)
    assert len(scores) == 9
    assert max(scores.values()) < 1e-5  # a word that nearly all hold tells nothing apart, whatever its form


def test_a_passage_that_holds_two_forms_of_a_word_holds_it_twice_and_not_two_words(index: Index) -> None:
    both, same = "zahlungen zahlung", "zahlung zahlung"  # of which English knows no common stem
    index.put([document("a", "Die Zahlung.", language="de"), document("b", both), document("c", same)])
    index.put([document(str(at), "Eine der vielen Wochen.", language="de") for at in range(9)])
    rows = index.rows(found := index.match([("zahlungen",)], EVERYTHING, None))
    by_text = {rows[id_].body: score for id_, score in found.items()}
    assert by_text[both] == pytest.approx(by_text[same])


def test_of_chunks_those_in_other_languages_are_known(index: Index) -> None:
    index.put([document("a", "Die Häuser am See.", language="de"), document("b", "The houses of the lake.")])
    rows = index.rows(index.match((), EVERYTHING, None))
    assert {rows[id_].body for id_ in index.foreign(rows)} == {"Die Häuser am See."}


@pytest.mark.parametrize(
    ("word", "text", "language"),
    [
        ("vertrag", "Der Mietvertrag endet bald.", "de"),
        ("miet", "Der Mietvertrag endet bald.", "de"),
        ("mietvertrag", "Der Vertrag endet bald.", "de"),
        ("kuberntes", "The kubernetes nodes are new.", "en"),
        ("ehron", "The heron stands there.", "en"),
        ("книгами", "Книга лежить на столі.", "uk"),
        ("deadc0de", "It ended with 0xdeadc0de.", "en"),
    ],
)
def test_what_is_held_in_the_place_of_a_word_is_found_and_can_be_asked_for(
    index: Index, word: str, text: str, language: str
) -> None:
    index.put([document("a", text, language=language), document("b", "Nothing of that kind.")])
    assert index.stats([word]).seen == {word: 0}
    (found, *_) = index.similar(word)
    assert 0 < found.nearness < 1
    assert found.chunks == 1
    rows = index.rows(index.match([(found.term,)], EVERYTHING, 10, terms=True))
    assert [row.body for row in rows.values()] == [text]
    assert all(found.mark in row.stems for row in rows.values())


def test_a_number_or_a_short_word_stands_for_nothing_else(index: Index) -> None:
    index.put([document("a", "Port 4417 of the cat.")])
    assert index.similar("4418") == []
    assert index.similar("car") == []


# --- what may be seen ---------------------------------------------------------------------------------------

MOMENT = "2026-05-01T00:00:00Z"
SEEN: list[tuple[Filter, str]] = [
    (Filter(), "abcde"),
    (Filter(()), ""),
    (Filter((EVERYWHERE,)), "ab"),
    (Filter((EVERYWHERE, ACME)), "abd"),
    (Filter((ACME,), "/clone"), "cd"),
    (Filter((ACME,), "/other"), "d"),
    (Filter(group=True), "abd"),
    (Filter(type="rule"), "a"),
    (Filter(tags=("x",)), "ab"),
    (Filter(tags=("x", "y")), "b"),
    (Filter(keys=("b", "e")), "b"),
    (Filter(path="memory/"), "abde"),
    (Filter(path="%"), ""),
    (Filter(sources=("vault", "journal")), "ce"),
    (Filter(items=("a", "e", "z")), "ae"),
    (Filter(after=MOMENT), "bd"),
    (Filter(before=MOMENT), "a"),
    (Filter(as_of=MOMENT), "acde"),
    (Filter((EVERYWHERE,), after=MOMENT, tags=("x",)), "b"),
]


@pytest.fixture
def filled(index: Index) -> Index:
    def labels(**given: Any) -> Labels:
        return Labels(**{"title": "t", **given})

    old, new = "2026-01-01T00:00:00Z", "2026-06-01T00:00:00Z"
    late = document("b", "heron b", labels=labels(key="b", tags=("x", "y")))
    gone = document("d", "heron d", place=ACME, source="pinned", path="memory/x/context.md")
    ended = "2026-07-01T00:00:00Z"
    index.put(
        [
            document("a", "heron a", labels=labels(type="rule", tags=("x",), updated=old)),
            late._replace(pieces=[piece("heron b", time=new, moment=new)]),
            document("c", "heron c", place=ACME, root="/clone", source="vault", path="docs/c"),
            gone._replace(
                labels=labels(updated=new), pieces=[piece("heron d", superseded=ended, ended=ended)]
            ),
            document("e", "heron e", place=Place(Scope.AGENT, "wren"), source="journal"),
        ]
    )
    return index


@pytest.mark.parametrize(("filter", "seen"), SEEN, ids=[str(at) for at in range(len(SEEN))])
def test_only_what_a_filter_lets_through_is_matched_nearest_shown_and_counted(
    filled: Index, filter: Filter, seen: str
) -> None:
    ids = [*filled.match((), EVERYTHING, None)]
    vectors = np.eye(5, 8, dtype=np.float32)
    filled.put(vectors=zip(ids, pack(vectors), strict=True), settings={"vectors": "m", "dimension": "8"})
    wanted = {f"heron {name}" for name in seen}
    assert set(matched(filled, "heron", filter=filter)) == wanted
    assert set(bodies(filled, filled.match((), filter, None))) == wanted
    assert {row.body for row in filled.rows(ids, filter).values()} == wanted
    near = filled.nearest(vectors[0], filter, 10, made_by="m")
    assert set(bodies(filled, near.cosines)) == wanted
    if filter.by_file:
        assert set(filled.known(filter)) == set(seen)
        assert filled.stats(filter=filter).files == len(seen)
    one = filter._replace(only=tuple(ids[:1]))
    assert set(matched(filled, "heron", filter=one)) == wanted & {*bodies(filled, ids[:1])}


def test_without_words_the_newest_comes_first_then_by_scope_and_path(filled: Index) -> None:
    found = bodies(filled, filled.match((), EVERYTHING, None))
    order = {str(scope): at for at, scope in enumerate(Scope)}
    assert set(found[:2]) == {"heron b", "heron d"}
    assert found[2] == "heron a"
    rest = ["heron c", "heron e"]
    assert found[3:] == (rest if order["project"] < order["agent"] else rest[::-1])
    assert bodies(filled, filled.match((), EVERYTHING, 2)) == found[:2]


# --- vectors ------------------------------------------------------------------------------------------------


def test_what_has_no_vector_waits_in_the_order_it_came(index: Index) -> None:
    bare = Filter(bare=True)
    index.put([document("a", "one", "two"), document("b", "three")])
    waiting = [*index.match((), bare, None)]
    assert bodies(index, waiting) == ["one", "two", "three"]
    assert index.stats(filter=bare).waiting == 3
    vectors = np.eye(3, 4, dtype=np.float32)
    index.put(
        vectors=zip(waiting[:2], pack(vectors), strict=False), settings={"vectors": "m", "dimension": "4"}
    )
    assert bodies(index, index.match((), bare, None)) == ["three"]
    assert not index.put(settings={"dimension": "5"})
    index.drop((), vectors=True)
    assert index.stats(filter=bare).waiting == 3
    assert "dimension" not in index.stats().settings


def test_the_nearest_come_with_cosines_marks_and_the_mean_of_all(index: Index) -> None:
    index.put([document("a", "one", "two"), document("b", "three")])
    ids = [*index.match((), Filter(bare=True), None)]
    vectors = np.array([[1, 0], [0.6, 0.8], [0, 1]], np.float32)
    index.put(vectors=zip(ids, pack(vectors), strict=True), settings={"vectors": "m", "dimension": "2"})
    near = index.nearest(vectors[0], EVERYTHING, 1, made_by="m", also=[ids[2]])
    assert near.cosines == {ids[0]: pytest.approx(1, abs=0.01), ids[2]: pytest.approx(0, abs=0.01)}
    assert near.mean == pytest.approx(1.6 / 3, abs=0.01)
    assert (near.total, near.dimension) == (3, 2)
    assert near.marks == {id_: row.mark for id_, row in index.rows([ids[0], ids[2]]).items()}
    known, exact = near.vectors([ids[1], 10**9])
    assert known == [ids[1]]
    assert np.allclose(exact, vectors[1:2], atol=0.01)
    assert index.nearest(vectors[0], EVERYTHING, 1, made_by="another").total in (0, 3)
    assert index.nearest(np.ones(3, np.float32), EVERYTHING, 1, made_by="m").cosines == {}


# --- one search ---------------------------------------------------------------------------------------------

NOTES = {
    "deploy": "We deploy to Frankfurt on Fridays. The rollback script is deploy/rollback.sh.",
    "heron": "Caroline: The heron stood in the pond on Tuesday. Why does it stand there?",
    "budget": "The budget of project Falcon is 12,500 euros until March 2026.",
    "parser": "The C++ parser fails with error E4711 when a header is empty.",
    "tea": "Omar drinks green tea and no coffee; he says so whenever we meet.",
    "key": "鍵は玄関の棚の上にあります。",
}
QUESTIONS = [
    "where do we deploy",
    "what did Caroline say about the heron",
    "E4711",
    '"green tea"',
    "how much money does Falcon have",
    "鍵 棚",
    "when did the bird stand in the water",
    "type:project pond",
    "rollback.sh",
    "",
]


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    base = tmp_path_factory.mktemp("one-search")
    (base / "work").mkdir()
    with connect(
        home=base / "home", cwd=base / "work", origin=Origin.USER, environ={"VADE_SWEEP": "off"}
    ) as made:
        for key, text in NOTES.items():
            made.store(text, key=key)
        made.store("We deploy to Dublin on Mondays.", key="deploy", mode="replace")
        for text in NOTES.values():
            made.note(f"Today: {text} " + "And nothing else happened that anybody wrote down. " * 30)
        yield made


def asked(memory: Memory, index: Index, question: str, mode: str) -> list[tuple[Any, ...]]:
    """What the engine answers from an index of what a memory holds."""
    corpus = Corpus(memory.home, memory.caller)
    sync = Sync(index, corpus.filter, embedder=lazily_shipped())
    sync.run(corpus.folders())
    engine = Engine(index, sync, lambda _: {})
    query, options = parse(question), Options(mode=mode, max_results=8, explain=True)
    with index:
        found = engine.search(query, corpus.filter, options, engine.meaning(query, options))
    return [
        (hit.row.path, hit.row.start, round(hit.score, 5), round(hit.relevance, 4), hit.snippet)
        for hit in found.hits
    ]


@pytest.mark.parametrize("mode", MODES)
def test_search_over_every_index_gives_the_answers_that_it_gives_over_sqlite(
    memory: Memory, index: Index, mode: str
) -> None:
    one = SqliteIndex(":memory:")
    for question in QUESTIONS:
        answers = asked(memory, index, question, mode)
        assert answers == asked(memory, one, question, mode), question
        assert answers or mode == "metadata"
    one.close()
