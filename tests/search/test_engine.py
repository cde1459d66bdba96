"""Search as callers meet it: the right lines first, nobody else's memory, an answer whatever is broken."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.errors import EmbedderFailed
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from vademecum.search.base import Answer, Passage

NOTES = {
    "deploy-window": "Releases go out on Tuesday mornings, never on a Friday.",
    "api-version": "We decided to version the API in the path, as /v2/orders, and not in a header.",
    "payment-retry": "When the gateway answers E4017 the charge is tried again after ten minutes.",
    "entry-point": "The server starts in src/app/main_loop.py and reads its settings once.",
    "token-setting": "The variable ORDERS_MAX_BATCH limits how many orders are taken at once.",
    "office-cat": "The cat in the office is called Biscuit and sleeps on the printer.",
    "tokyo": "東京支社の担当者は田中さんです。",
    "motto": "The customer said: never ship what you would not sign.",
    "lunch": "Lunch is at noon in the garden when the weather is good.",
    "database": "Orders are kept in PostgreSQL; the nightly backup goes to another town.",
}
EXACT = {
    "payment-retry": "E4017",
    "entry-point": "src/app/main_loop.py",
    "token-setting": "ORDERS_MAX_BATCH",
    "api-version": "api-version",
    "tokyo": "田中",
    "motto": '"never ship what you would not sign"',
}


class Broken:
    """An embedder that has a model and no luck."""

    provider = "openai"
    model = "broken"
    identity = "broken"
    dimension = 256
    cached = False
    mean = None

    def embed(self, texts: Sequence[str], *, query: bool = False) -> Any:
        raise EmbedderFailed("401: no such key")


def opened(base: Path, *, work: str = "work", embedder: str = "local", **given: Any) -> Memory:
    (base / work).mkdir(exist_ok=True)
    given.setdefault("origin", Origin.USER)
    memory = connect(
        home=base / "home",
        cwd=base / work,
        environ={"VADE_EMBEDDER": "none" if embedder == "none" else "local"},
        **given,
    )
    if embedder == "broken":
        memory.care.searcher.embedder = Broken()
    return memory


def filled(base: Path, **given: Any) -> Memory:
    memory = opened(base, **given)
    for key, text in NOTES.items():
        memory.store(text, key=key)
    return memory


def keys(answer: Answer) -> list[str | None]:
    return [passage.key for passage in answer.results]


def said(answer: Answer) -> str:
    return " ".join(passage.snippet for passage in answer.results)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A store that tests only read."""
    memory = filled(tmp_path_factory.mktemp("notes"))
    yield memory
    memory.care.searcher.close()


# --- the right lines first ----------------------------------------------------------------------------------


@pytest.mark.parametrize("embedder", ["local", "none", "broken"])
def test_an_exact_identifier_comes_first_with_embeddings_on_off_and_broken(
    tmp_path: Path, embedder: str
) -> None:
    memory = filled(tmp_path, embedder=embedder)
    for key, asked in EXACT.items():
        for question in (asked, f"what was it about {asked} again?"):
            answer = memory.search(question)
            assert keys(answer)[:1] == [key], question
            first = answer.results[0]
            lines = memory.get(first.path, start=first.start, lines=first.end - first.start + 1).text
            assert NOTES[key] in lines
            assert answer.mode == ("hybrid" if embedder == "local" else "bm25")
    if embedder != "local":
        assert any("keywords only" in line for line in memory.search("E4017").degraded)


def test_a_question_in_other_words_finds_its_note(notes: Memory) -> None:
    assert keys(notes.search("which pet lives at work?", min_score=0.0))[0] == "office-cat"
    assert keys(notes.search("what did we decide about the API?"))[0] == "api-version"


@pytest.mark.parametrize(
    ("note", "question"),
    [
        ("Ключ от дачи лежит у соседки, Веры Павловны.", "у кого лежит ключ от дачи?"),
        (
            "Il riscaldamento si accende da solo alle sei del mattino.",
            "a che ora si accende il riscaldamento?",
        ),
        ("駐輪場の契約は三月末に更新します。", "駐輪場の契約はいつ更新しますか?"),
    ],
)
def test_a_right_answer_in_a_language_that_the_model_does_not_know_is_not_weak(
    tmp_path: Path, note: str, question: str
) -> None:
    memory = filled(tmp_path)
    memory.store(note, key="answer")
    found = memory.search(question)
    assert keys(found)[0] == "answer"
    assert found.results[0].match != "weak"


@pytest.mark.parametrize(
    "question",
    [
        "photosynthesis in arctic lichens",
        "wie viele Geigen hat ein Orchester",
        "zebra crossing rules",
    ],
)
def test_a_question_about_nothing_here_gets_at_most_three_weak_matches_and_is_told_so(
    notes: Memory, question: str
) -> None:
    answer = notes.search(question)
    assert answer.match == "weak"
    assert 0 < len(answer.results) <= 3
    assert [each.match for each in answer.results] == ["weak"] * len(answer.results)
    assert answer.notes[-1].endswith(" more weak matches are left out")
    assert len(notes.search(question, max_weak=6).results) == 6
    assert len(notes.search(question, max_results=8).results) == 4
    assert notes.search(question, min_score=0.9).hidden
    assert notes.search(question, min_score=0.9).results == ()


@pytest.mark.parametrize("question", ["xyzzy", "zzqqxx", "where is the zzqqxx qqkk"])
def test_a_question_of_unknown_words_finds_nothing_and_says_why(notes: Memory, question: str) -> None:
    answer = notes.search(question)
    assert answer.results == ()
    assert answer.notes == ("no word of the question is in memory, and none is known",)


def test_an_unknown_word_that_is_in_memory_is_found(tmp_path: Path) -> None:
    notes = filled(tmp_path)
    notes.store("The password of the old printer is qqvvzz.", key="printer")
    assert notes.search("qqvvzz").results[0].key == "printer"


@pytest.mark.parametrize(
    ("word", "text"), [("hamster", "Stretch your hamstrings."), ("porsche", "Two porches.")]
)
def test_a_word_that_resembles_another_is_searched_for_told_and_weak(
    tmp_path: Path, word: str, text: str
) -> None:
    notes = filled(tmp_path)
    notes.store(text, key="another")
    answer = notes.search(f"where is my {word}")
    assert any(note.startswith("also searched: ") for note in answer.notes)
    assert "another" in [each.key for each in answer.results]
    assert answer.match == "weak"


def test_a_typing_error_still_finds_the_word_that_was_meant(tmp_path: Path) -> None:
    notes = filled(tmp_path)
    notes.store("The greenhouse needs new panes.", key="greenhouse")
    assert notes.search("grenhouse panes").results[0].match != "weak"


@pytest.mark.parametrize("mode", ["hybrid", "bm25"])
def test_a_question_that_a_note_holds_word_for_word_is_a_strong_match(notes: Memory, mode: str) -> None:
    for key, asked in EXACT.items():
        answer = notes.search(asked, mode=mode)
        assert (answer.results[0].key, answer.results[0].match, answer.match) == (key, "strong", "strong")


def test_weak_matches_stay_behind_strong_ones_and_are_not_hidden(notes: Memory) -> None:
    answer = notes.search("the cat Biscuit")
    assert answer.results[0].key == "office-cat"
    assert answer.match == "strong"
    assert answer.hidden == 0
    assert len(answer.results) == 6
    assert [each.match for each in answer.results].count("weak") >= 4


def test_what_a_min_score_hides_is_counted(notes: Memory) -> None:
    answer = notes.search("the cat Biscuit", min_score=0.99)
    assert keys(answer) == ["office-cat"]
    assert answer.hidden > 0


def test_a_model_that_knows_no_word_of_the_question_has_no_vote_where_words_have_one(notes: Memory) -> None:
    for asked, key in (("E4017", "payment-retry"), ("田中", "tokyo")):
        answer = notes.search(asked)
        assert keys(answer) == [key]
        assert answer.mode == "hybrid"
        assert answer.degraded == ()


def test_an_answer_without_results_has_no_match(tmp_path: Path) -> None:
    assert opened(tmp_path).search("heron").match == "none"


def test_an_empty_store_answers_with_nothing(tmp_path: Path) -> None:
    answer = opened(tmp_path).search("anything")
    assert answer.results == ()
    assert answer.coverage.files == 0


def test_every_hit_shows_the_lines_it_names(notes: Memory) -> None:
    for passage in notes.search("orders", min_score=0.0, max_results=50).results:
        lines = notes.get(passage.path, start=passage.start, lines=passage.end - passage.start + 1).text
        assert passage.snippet in lines
        assert passage.score == pytest.approx(passage.components["score"], abs=1.0)


# --- time ---------------------------------------------------------------------------------------------------

HISTORY = """---
id: 01K00000000000000000000000
num: 7
---
# Database

## 2025-01-10T08:00:00Z
Orders are kept in a Firebird cluster.
<!-- origin: user | superseded: 2025-06-01T08:00:00Z -->

## 2025-06-01T08:00:00Z
Orders are kept in a PostgreSQL cluster.
<!-- origin: user -->
"""


def with_history(base: Path) -> Memory:
    memory = opened(base)
    path = base / "home" / memory.store("placeholder", key="orders-database").path
    path.write_text(HISTORY)
    return memory


def test_a_query_that_matches_an_old_entry_returns_that_entry(tmp_path: Path) -> None:
    answer = with_history(tmp_path).search("Firebird")
    assert "Firebird" in answer.results[0].snippet
    assert answer.results[0].superseded == "2025-06-01T08:00:00Z"


def test_what_holds_now_comes_before_what_held_once(tmp_path: Path) -> None:
    found = with_history(tmp_path).search("where are orders kept?", min_score=0.0).results
    assert ["PostgreSQL" in passage.snippet for passage in found] == [True, False]


def test_as_of_answers_from_that_moment(tmp_path: Path) -> None:
    memory = with_history(tmp_path)
    question = "in which cluster are orders kept"
    assert "Firebird" in said(memory.search(question, as_of="2025-03-01"))
    assert "PostgreSQL" not in said(memory.search(question, as_of="2025-03-01"))
    assert "Firebird" not in said(memory.search(question, as_of="2025-07-01"))
    assert "PostgreSQL" in said(memory.search(question, as_of="2025-07-01"))
    assert memory.search(question, as_of="2024-01-01").results == ()


# --- filters ------------------------------------------------------------------------------------------------


def test_filters_narrow_what_is_answered(tmp_path: Path) -> None:
    memory = opened(tmp_path, session="monday")
    memory.store("The heron nests by the pond.", key="heron-project", tags=["bird", "pond"], type="discovery")
    memory.store("The heron eats frogs.", key="heron-global", scope="global", tags=["bird"])
    memory.store("The heron was seen today.", key="heron-session", scope="session")
    every = {"heron-project", "heron-global", "heron-session"}

    def found(query: str, **given: Any) -> set[str | None]:
        return set(keys(memory.search(query, **given)))

    assert found("heron") == every
    assert found("heron scope:global") == found("heron", scope="global") == {"heron-global"}
    assert found("heron type:discovery") == found("heron", type="discovery") == {"heron-project"}
    assert found("heron tag:bird") == {"heron-project", "heron-global"}
    assert found("heron tag:bird tag:pond") == {"heron-project"}
    assert found("heron after:2000-01-01") == every
    assert found("heron after:2999-01-01") == set()
    assert found("heron before:2999-01-01") == every
    assert found("heron before:2000-01-01") == set()
    assert found("heron path:memory/session") == {"heron-session"}
    assert found("tag:pond") == {"heron-project"}
    assert found("heron", sources=["journal"]) == set()


def test_a_filter_in_the_text_and_one_in_the_call_both_hold(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("The heron nests by the pond.", key="one", type="discovery")
    memory.store("The heron eats frogs.", key="two", scope="global", type="discovery")
    memory.store("The heron flies.", key="three", scope="global")
    assert keys(memory.search("heron type:discovery", scope="global")) == ["two"]


# --- nobody else's memory -----------------------------------------------------------------------------------


def test_other_sessions_agents_and_projects_never_answer(tmp_path: Path) -> None:
    own: dict[str, Any] = {"agent": "robin", "session": "monday"}
    others: list[dict[str, Any]] = [
        {"agent": "robin", "session": "tuesday"},
        {"agent": "wren", "session": "wednesday"},
        {"agent": "robin", "session": "thursday", "work": "elsewhere"},
    ]
    opened(tmp_path, **own).store("The canary sings a plain tune.", key="own", scope="session")
    for number, other in enumerate(others):
        memory = opened(tmp_path, **other)
        for scope in ("session", "agent", "project"):
            same = (scope == "agent" and other["agent"] == "robin") or (scope == "project" and number < 2)
            text = f"The canary sings a {'shared' if same else 'secret'} tune, {scope} {number}."
            memory.store(text, key=f"{scope}-{number}", scope=scope)
        memory.note(
            f"The canary sings a {'shared' if number < 2 else 'secret'} tune in the journal {number}."
        )
        assert said(memory.search("canary", max_results=50, min_score=0.0))
    for mode in ("hybrid", "bm25", "vector", "metadata"):
        answer = opened(tmp_path, **own).search("canary tune", mode=mode, max_results=50, min_score=0.0)
        assert "plain" in said(answer)
        assert "shared" in said(answer)
        assert "secret" not in said(answer)


def test_a_group_sees_records_of_its_project_and_nothing_private(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("The canary lives in the public project.", key="shared")
    memory.store("The canary is a private secret.", key="own", scope="global")
    memory.note("The canary is a secret of the journal.")
    folder = tmp_path / "attached"
    folder.mkdir()
    (folder / "a.md").write_text("The canary is a secret of the folder.\n")
    memory.sources.add(folder)
    assert len(memory.search("canary", min_score=0.0).results) == 4
    answer = opened(tmp_path, audience="group").search("canary", min_score=0.0, max_results=50)
    assert keys(answer) == ["shared"]


# --- the index is a shadow ----------------------------------------------------------------------------------


def shape(answer: Answer) -> list[tuple[str, int, int, float, float]]:
    def line(passage: Passage) -> tuple[str, int, int, float, float]:
        return passage.path, passage.start, passage.end, passage.score, passage.relevance

    return [line(passage) for passage in answer.results]


def test_a_deleted_index_gives_the_same_answers(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    questions = ["what did we decide about the API?", "E4017", "田中", "where does the cat sleep?", "orders"]
    before = [shape(memory.search(question)) for question in questions]
    assert all(before)
    memory.care.searcher.close()
    shutil.rmtree(tmp_path / "home" / "index")
    again = opened(tmp_path)
    assert [shape(again.search(question)) for question in questions] == before
    again.care.index(rebuild=True)
    assert [shape(again.search(question)) for question in questions] == before


def random_bytes(path: Path) -> None:
    path.write_bytes(os.urandom(path.stat().st_size))


def cut_short(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2 + 100])


def zeroed_page(path: Path) -> None:
    content = bytearray(path.read_bytes())
    for page in range(1, len(content) // 4096, 2):
        content[page * 4096 : page * 4096 + 4096] = bytes(4096)
    path.write_bytes(content)


def emptied(path: Path) -> None:
    path.write_bytes(b"")


@pytest.mark.parametrize("damage", [random_bytes, cut_short, zeroed_page, emptied])
def test_a_damaged_index_is_made_anew_and_answers(tmp_path: Path, damage: Any) -> None:
    memory = filled(tmp_path)
    memory.care.index()
    memory.care.searcher.close()
    path = memory.care.searcher.path
    with apsw.Connection(str(path)) as connection:
        connection.execute("pragma wal_checkpoint(truncate)").fetchall()
    connection.close()
    for ending in ("-wal", "-shm"):
        Path(f"{path}{ending}").unlink(missing_ok=True)
    damage(path)
    again = opened(tmp_path)
    answer = again.search("E4017")
    assert keys(answer)[0] == "payment-retry"
    if damage is not emptied:
        assert any("damaged" in line for line in answer.degraded)
    assert keys(again.search("ORDERS_MAX_BATCH"))[0] == "token-setting"
    assert again.search("田中").degraded == ()


def test_an_index_of_a_newer_version_is_set_aside_and_the_answer_says_so(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    memory.care.index()
    memory.care.searcher.close()
    connection = apsw.Connection(str(memory.care.searcher.path))
    connection.execute("pragma user_version = 99")
    connection.close()
    before = memory.care.searcher.path.read_bytes()
    answer = opened(tmp_path).search("E4017")
    assert keys(answer)[0] == "payment-retry"
    assert any("newer version" in line for line in answer.degraded)
    path = memory.care.searcher.path
    assert path.with_name(f"{path.name}.aside").read_bytes() == before
    assert opened(tmp_path).search("E4017").degraded == ()


def test_a_home_that_cannot_be_written_still_answers(tmp_path: Path) -> None:
    filled(tmp_path)
    (tmp_path / "home" / "index").write_text("a file where a folder should be")
    answer = opened(tmp_path).search("E4017")
    assert keys(answer)[0] == "payment-retry"
    assert any("without the index" in line for line in answer.degraded)


# --- files that cannot be read ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("content", "why"),
    [
        ("The heron is in UTF-16.".encode("utf-16"), "not UTF-8"),
        (b"The heron \0\0\0 has NULs.", "NUL"),
        (b"\xff\xfe\xfd heron", "not UTF-8"),
    ],
)
def test_a_file_that_is_no_text_is_reported_and_the_rest_answers(
    tmp_path: Path, content: bytes, why: str
) -> None:
    memory = filled(tmp_path)
    folder = tmp_path / "attached"
    folder.mkdir()
    (folder / "bad.md").write_bytes(content)
    (folder / "good.md").write_text("# Birds\n\nThe heron stands in the pond.\n")
    memory.sources.add(folder)
    for _ in range(2):  # known to be bad, it is still said
        answer = memory.search("heron")
        assert answer.results[0].path == str(folder / "good.md")
        assert answer.coverage.failed == 1
        assert any("bad.md" in line and why in line for line in answer.degraded)
    (folder / "bad.md").write_text("Now the heron is readable.\n")
    assert {each.path for each in memory.search("heron").results[:2]} == {
        str(folder / "good.md"),
        str(folder / "bad.md"),
    }
    assert memory.search("heron").degraded == ()


def test_a_file_too_large_is_reported_and_the_rest_answers(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    folder = tmp_path / "attached"
    folder.mkdir()
    with (folder / "large.md").open("wb") as file:
        file.truncate(1 << 31)
    memory.sources.add(folder)
    answer = memory.search("E4017")
    assert keys(answer)[0] == "payment-retry"
    assert any("large.md" in line for line in answer.degraded)


def test_a_source_that_went_away_is_reported_and_the_rest_answers(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    folder = tmp_path / "attached"
    folder.mkdir()
    (folder / "a.md").write_text("The heron stands in the pond.\n")
    memory.sources.add(folder)
    assert memory.search("heron").results
    shutil.rmtree(folder)
    answer = memory.search("heron")
    assert answer.match == "weak"
    assert any("is gone" in line for line in answer.degraded)
    assert keys(memory.search("E4017"))[0] == "payment-retry"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_source_without_permission_is_reported_and_the_rest_answers(tmp_path: Path) -> None:
    memory = filled(tmp_path)
    folder = tmp_path / "attached"
    folder.mkdir()
    (folder / "a.md").write_text("The heron stands in the pond.\n")
    memory.sources.add(folder)
    folder.chmod(0)
    try:
        answer = memory.search("E4017")
        assert keys(answer)[0] == "payment-retry"
        assert any("cannot be read" in line for line in answer.degraded)
    finally:
        folder.chmod(0o700)


# --- any input ----------------------------------------------------------------------------------------------

WORDS = """scope: type:rule tag: after:2025-01-01 before:x path: " AND NEAR( * ^ : 東京 é {body} - ( ) E4017
    ' or 1=1 -- 🦩"""
PIECES = st.sampled_from([*WORDS.split(), "\0", "\ud800", "\u202e"])


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.one_of(st.text(max_size=200), st.lists(PIECES, max_size=12).map(" ".join)))
def test_any_text_is_a_question(notes: Memory, question: str) -> None:
    for mode in ("hybrid", "bm25"):
        notes.search(question, mode=mode)


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=200))
def test_any_bytes_are_a_question(notes: Memory, question: bytes) -> None:
    notes.search(question.decode("utf-8", "surrogateescape"))
    notes.search(question.decode("latin-1"))


@pytest.mark.full
def test_a_very_long_question_is_answered(notes: Memory) -> None:
    assert keys(notes.search("E4017 " + "lorem ipsum dolor " * 20_000, min_score=0.0))[0] == "payment-retry"
    notes.search("x" * 1_000_000)
    notes.search('"' * 10_000)
    notes.search(" ".join(str(number) for number in range(20_000)))
