"""What a search promises beside finding: a question is read as it was typed, or the answer says how."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw
import pytest

import vademecum
from cases import every_case
from index import fake_providers
from vademecum.errors import UnknownName
from vademecum.memory import Memory, connect
from vademecum.search import base as searching
from vademecum.search import engine
from vademecum.types import Origin, RecordType, Scope

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from index.fake_providers import Provider
    from vademecum.search.base import Answer

NOTES = {
    "ferry": "The ferry to the island leaves at eight.",
    "deadlock": "The deadlock in the order table came from two transactions.",
    "lunch": "Lunch is at noon in the garden.",
}


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    given.setdefault("environ", {"VADE_EMBEDDER": "none"})
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER, **given)


def keys(answer: Answer) -> list[str | None]:
    return [passage.key for passage in answer.results]


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A store that tests only read."""
    memory = opened(tmp_path_factory.mktemp("notes"))
    for key, text in NOTES.items():
        memory.store(text, key=key)
    yield memory
    memory.close()


# --- filters ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "found", "choices"),
    [
        ("type:bogus deadlock", "deadlock", "the types are project, user, feedback"),
        ("scope:bogus deadlock", "deadlock", "the scopes are session, project, agent, global, federated"),
        ("ferry after:yesterday", "ferry", "a date is written as 2026-11-15"),
        ("ferry before:2026-13-45", "ferry", "a date is written as 2026-11-15"),
        ("after:lunch", "lunch", "a date is written as 2026-11-15"),
        ('ferry tag:""', "ferry", "`tag:` needs a value"),
    ],
)
def test_a_filter_that_is_none_is_searched_as_words_and_the_answer_says_so(
    notes: Memory, asked: str, found: str, choices: str
) -> None:
    answer = notes.search(asked, min_score=0.0)
    assert keys(answer)[0] == found
    note = answer.notes[0]
    assert "is not a filter and was searched as words" in note
    assert choices in note
    assert answer.degraded == notes.search(found, min_score=0.0).degraded


def test_a_question_without_filters_or_with_good_ones_has_no_notes(notes: Memory) -> None:
    for asked in ("ferry", "ferry type:project scope:project after:2020 path:ferry", "at 8:30: ferry", ""):
        assert not [note for note in notes.search(asked).notes if "weak" not in note]


def test_many_wrong_filters_are_told_of_a_few_times(notes: Memory) -> None:
    asked = " ".join(f"type:t{number}" for number in range(1_000))
    assert len(notes.search(asked).notes) == searching.MOST_NOTES


@every_case(
    ("typed", "meant"),
    [
        ("2026-11", "2026-11-01T00:00:00Z"),
        ("2026", "2026-01-01T00:00:00Z"),
        ("2026-11-15", "2026-11-15T00:00:00Z"),
        ("2026-11-15T08:00:00+02:00", "2026-11-15T06:00:00Z"),
        ("2026-13", None),
        ("2026-1", None),
        ("0000", None),
        ("lunch", None),
    ],
)
def test_a_month_or_a_year_means_its_beginning(typed: str, meant: str | None) -> None:
    assert searching.beginning(typed) == meant
    assert searching.parse(f"ferry after:{typed}").after == meant


def test_a_month_filters_by_its_beginning(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    folder = (memory.home.path / memory.store("Nothing.", key="nothing").path).parent
    for month in ("2026-10", "2026-11"):
        (folder / f"ferry-{month}.md").write_text(
            f"---\ntype: project\n---\n# ferry\n\n## {month}-20T10:00:00Z\nThe ferry of {month}.\n"
        )
    assert keys(memory.search("ferry after:2026-11 before:2026-12", min_score=0.0)) == ["ferry-2026-11"]
    assert keys(memory.search("ferry after:2026-10 before:2026-11", min_score=0.0)) == ["ferry-2026-10"]


# --- options ------------------------------------------------------------------------------------------------


def test_an_unknown_source_is_refused_with_those_there_are(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "one.md").write_text("# One\n\nThe heron.\n")
    with pytest.raises(UnknownName, match="'vault' is not a source"):
        memory.search("heron", sources=["vault"])
    memory.sources.add(vault)
    assert memory.search("heron", sources=["vault", "memory"], min_score=0.0).results
    with pytest.raises(UnknownName) as refused:
        memory.search("heron", sources=["memory", "bogus"])
    assert refused.value.hint == "the sources are memory, journal, pinned, transcript, vault"
    group = opened(tmp_path, audience="group")
    for name in ("vault", "bogus"):  # a group is not told what is attached
        answer = group.search("heron", sources=[name], min_score=0.0)
        assert (answer.results, answer.notes) == ((), (f"a group sees no source '{name}'",))


def test_every_name_of_a_scope_and_a_type_is_a_filter() -> None:
    for scope in Scope:
        assert searching.parse(f"x scope:{scope}").scope is scope
    for kind in RecordType:
        assert searching.parse(f"x type:{kind}").type == str(kind)


# --- quotes -------------------------------------------------------------------------------------------------

BOOKINGS = {
    "friday": "Never deploy on a Friday: the page of the booking desk was down for hours.",
    "page": "Who is on call gets a page when bookings fail.",
    "exact": "If it hangs, page booking, down in the basement.",
    "desk": "The page booking down time was short.",
    "stems": "The pages booked down there are lost.",
    "tokyo": "東京支社の担当者は田中さんです。",
    "mixed": "大東京 office opens at nine.",
    "accents": "The Café Noir opens at ten.",
    "cpp": "The parser is written in C++ and nothing else.",
}


@pytest.fixture(scope="module", params=["none", "local"])
def bookings(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """A store that tests only read, with and without vectors."""
    memory = opened(tmp_path_factory.mktemp("bookings"), environ={"VADE_EMBEDDER": request.param})
    for key, text in BOOKINGS.items():
        memory.store(text, key=key)
    yield memory
    memory.close()


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ('"page booking down"', {"exact", "desk"}),
        ("“page booking down”", {"exact", "desk"}),
        ('"PAGE  booking down" time', {"exact", "desk"}),
        ('who knows "page booking down" "in the basement"', {"exact"}),
        ('"支社の"', {"tokyo"}),
        ('"東京 office"', {"mixed"}),
        ('"cafe noir"', {"accents"}),
        ('"written in C++"', {"cpp"}),
        ('"on call" scope:project', {"page"}),
        ('"booking"', {"friday", "exact", "desk"}),
    ],
)
@pytest.mark.parametrize("mode", [None, "bm25", "vector"])
def test_every_answer_holds_the_phrase_that_stands_in_quotes(
    bookings: Memory, asked: str, wanted: set[str], mode: str | None
) -> None:
    answer = bookings.search(asked, mode=mode, min_score=0.0, max_results=50)
    assert set(keys(answer)) == wanted
    assert answer.notes == ()


@pytest.mark.parametrize("mode", [None, "bm25", "metadata"])
def test_a_phrase_that_stands_nowhere_falls_back_to_its_words_and_the_answer_says_so(
    bookings: Memory, mode: str | None
) -> None:
    answer = bookings.search('"booking page"', mode=mode, min_score=0.0)
    assert {"friday", "exact", "desk"} <= set(keys(answer))
    assert answer.notes == ("no passage contains the phrase 'booking page'; its words were searched",)
    answer = bookings.search('"on call" "in the basement"', mode=mode, min_score=0.0)
    assert answer.notes == (
        "no passage contains the phrases 'on call' and 'in the basement' together; their words were searched",
    )


def test_a_phrase_that_is_there_and_not_relevant_enough_is_not_said_to_be_nowhere(bookings: Memory) -> None:
    answer = bookings.search('"page booking down"', min_score=2.0)
    assert answer.results == ()
    assert answer.notes == ()


def test_the_part_that_is_shown_holds_the_phrase(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    filler = "The heron stood there and the frogs were many. " * 12
    memory.store(f"The cedar gate. {filler}Behind it the cedar gate was painted red. {filler}", key="gate")
    (only,) = memory.search('"gate was painted"', min_score=0.0).results
    assert "gate was painted" in only.snippet


def test_quotes_in_a_prompt_quote_and_ask_for_nothing(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("The staging database listens on port 5434.", key="staging")
    prompt = 'I get "connection refused" from the staging database, which port does it listen on?'
    assert "5434" in memory.injection.remind(prompt).text
    assert memory.search(prompt, min_score=0.0).notes  # who searches is told


@pytest.mark.parametrize("asked", ['"', '""', '" "', '"!?"', "““””", '"a', 'b"'])
def test_marks_that_quote_nothing_ask_for_nothing(bookings: Memory, asked: str) -> None:
    answer = bookings.search(f"booking {asked}", min_score=0.0)
    assert "desk" in keys(answer)
    assert answer.notes == ()


# --- mode metadata ------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def labelled(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Memory]:
    """Records that differ in where a word stands."""
    memory = opened(tmp_path_factory.mktemp("labelled"))
    far = "Nothing is said here of any animal at all. " * 40
    memory.store("It has long legs.", key="heron-facts")
    memory.store("The heron nests by the pond.", key="nests", type="rule")
    memory.store("It flies south.", key="flies", tags=["heron", "autumn"])
    memory.store(f"{far} And in the end a heron comes.", key="late")
    memory.store("The stork stands on one leg.", key="stork", type="discovery")
    yield memory
    memory.close()


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("heron", {"heron-facts", "nests", "flies"}),
        ("HERON pond", {"nests"}),
        ("heron south", {"flies"}),
        ("ero legs", {"heron-facts"}),
        ("discovery", {"stork"}),
        ("the heron, pond?", {"nests"}),
        ('"by the pond"', {"nests"}),
        ('"heron nests" pond', {"nests"}),
        ("heron type:rule", {"nests"}),
        ("nonexistentwordxyz", set()),
        ("heron nonexistentwordxyz", set()),
    ],
)
def test_metadata_finds_what_has_every_word_in_its_labels_or_its_beginning(
    labelled: Memory, asked: str, wanted: set[str]
) -> None:
    for answer in (
        labelled.search(asked, mode="metadata", max_results=50),
        labelled.recall(asked, mode="metadata"),
    ):
        assert set(keys(answer)) == wanted
        assert answer.mode == "metadata"


def test_metadata_without_a_question_lists_what_the_filters_let_through_newest_first(
    labelled: Memory,
) -> None:
    newest = ["stork", "late", "flies", "nests", "heron-facts"]
    times = [each.time for each in labelled.search("", mode="metadata").results]
    assert times == sorted(times, key=str, reverse=True)
    assert set(keys(labelled.search("", mode="metadata", max_results=50))) == set(newest)
    assert keys(labelled.search("type:rule", mode="metadata")) == ["nests"]
    for order in ("recency", "usage", "score"):
        found = labelled.search("heron", mode="metadata", sort_by=order)
        assert set(keys(found)) == {"heron-facts", "nests", "flies"}


def test_metadata_finds_in_sessions_what_has_every_word(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    said = tmp_path / "talk.json"
    said.write_text(
        json.dumps([{"role": "user", "content": text} for text in ("A heron came.", "A stork and a heron.")])
    )
    list(memory.sessions.import_all(said))
    for asked, wanted in (("stork heron", ["A stork and a heron."]), ("owl heron", [])):
        found = memory.search(asked, mode="metadata", sources=["transcript"])
        assert [each.snippet for each in found.results] == wanted
    assert len(memory.search("", mode="metadata", sources=["transcript"]).results) == 2


def test_a_phrase_is_looked_for_in_sessions_too(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    said = tmp_path / "talk.json"
    texts = ("the gate was painted red", "the gates were painting red", "red was the painted gate")
    said.write_text(json.dumps([{"role": "user", "content": text} for text in texts]))
    list(memory.sessions.import_all(said))
    found = memory.search('"gate was painted"', min_score=0.0)
    assert [each.snippet for each in found.results] == [texts[0]]
    assert found.notes == ()
    assert [each.preview for each in memory.sessions.search('"gate was painted"').hits] == [texts[0]]
    fallen = memory.sessions.search('"painted red gate"')
    assert len(fallen.hits) == 3
    assert any("no message contains the phrase 'painted red gate'" in each for each in fallen.degraded)


# --- what was replaced --------------------------------------------------------------------------------------


def replaced(memory: Memory, key: str, *texts: str) -> None:
    for text in texts:
        memory.store(text, key=key, mode="replace")


@pytest.mark.parametrize("embedder", ["none", "local"])
@pytest.mark.parametrize("order", [None, "recency", "score", "usage"])
def test_what_was_replaced_follows_what_holds_now(tmp_path: Path, embedder: str, order: str | None) -> None:
    memory = opened(tmp_path, environ={"VADE_EMBEDDER": embedder})
    replaced(
        memory,
        "staging",
        "Staging: the staging database of staging runs on port 5433.",
        "The database for staging moved to port 5434.",
    )
    memory.store("The cat sleeps on the printer.", key="cat")
    for asked in ("staging database port", "port 5433", "what runs on port 5433 of staging"):
        found = memory.search(asked, min_score=0.0, sort_by=order)
        entries = [each.superseded is not None for each in found.results if each.key == "staging"]
        assert entries == [False, True], asked
    listed = memory.recall(sort_by=order)
    assert [each.superseded is not None for each in listed.results if each.key == "staging"] == [False, True]


def test_a_question_that_only_the_old_entry_answers_gets_it_first(tmp_path: Path) -> None:
    memory = opened(tmp_path, environ={"VADE_EMBEDDER": "local"})
    replaced(memory, "database", "Orders are kept in Firebird.", "All of it is in PostgreSQL now.")
    first = memory.search("Firebird", min_score=0.0).results[0]
    assert "Firebird" in first.snippet


def test_an_order_by_labels_puts_the_living_entry_first_whatever_its_time(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    path = memory.home.path / memory.store("placeholder", key="database").path
    path.write_text(
        "---\ntype: project\n---\n# database\n\n## 2026-01-01T10:00:00Z\nIt is PostgreSQL.\n\n"
        "## 2026-02-01T10:00:00Z\nIt is Firebird.\n<!-- origin: user | superseded: 2026-03-01T10:00:00Z -->\n"
    )
    assert ["PostgreSQL" in each.snippet for each in memory.recall().results] == [True, False]
    assert "Firebird" in memory.recall(as_of="2026-02-10").results[0].snippet


# --- candidates ---------------------------------------------------------------------------------------------


def test_the_multiplier_decides_among_how_many_candidates_one_looks(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    folder = (memory.home.path / memory.store("Nothing.", key="nothing").path).parent
    for number in range(200):  # the better it matches, the older it is
        text = "heron " * (200 - number) + "frog " * number
        day = f"20{10 + number // 20:02}-{1 + number % 12:02}-{1 + number % 28:02}T10:00:00Z"
        (folder / f"n-{number:03}.md").write_text(f"# n\n\n## {day}\n{text}\n")
    memory.care.index()
    newest = {}
    for multiplier in ("1", "4", "50"):
        environ = {"VADE_EMBEDDER": "none", "VADE_SEARCH_CANDIDATE_MULTIPLIER": multiplier}
        other = opened(tmp_path, environ=environ)
        found = other.search("heron", mode="bm25", sort_by="recency", min_score=0.0, max_results=1)
        newest[multiplier] = found.results[0].key
    assert len(set(newest.values())) == 3, newest


@every_case(
    ("multiplier", "results", "depth"), [(4, 6, 50), (4, 20, 80), (1, 6, 12), (50, 6, 625), (1, 0, 12)]
)
def test_how_many_candidates_a_leg_gives(multiplier: int, results: int, depth: int) -> None:
    assert engine.depth(engine.Options(multiplier=multiplier, max_results=results)) == depth


# --- another model behind the same name ---------------------------------------------------------------------


@pytest.fixture
def provider(monkeypatch: pytest.MonkeyPatch) -> Iterator[Provider]:
    monkeypatch.setenv("OPENAI_API_KEY", fake_providers.KEY)
    with fake_providers.serving() as server:
        yield server


def remote(base: Path, provider: Provider, **more: str) -> Memory:
    environ = {
        "VADE_EMBEDDER": "openai",
        "VADE_EMBED_ENDPOINT": provider.endpoint("openai"),
        "VADE_EMBED_MODEL": "m",
        "VADE_LIMITS_OPEN": "20",
        "OPENAI_API_KEY": fake_providers.KEY,
    }
    return opened(base, environ={**environ, **more})


def lengths(memory: Memory) -> set[int]:
    """How many bytes the vectors of the index have, one for each dimension."""
    connection = apsw.Connection(str(memory.care.searcher.path), flags=apsw.SQLITE_OPEN_READONLY)
    rows: Any = connection.execute("select distinct length(vector) from vectors").fetchall()
    return {length for (length,) in rows}


OTHER = fake_providers.DIMENSION + 1
ANEW = (
    f"the model now returns {OTHER} dimensions instead of {fake_providers.DIMENSION}: all vectors will"
    f" be rebuilt"
)


def grown(base: Path, provider: Provider) -> None:
    """A store with vectors, and then a server that gives longer ones."""
    memory = remote(base, provider)
    for number in range(12):
        memory.store(f"The heron {number} stands in the pond.", key=f"heron-{number}")
    assert memory.search("heron").mode == "hybrid"
    assert lengths(memory) == {fake_providers.DIMENSION}
    memory.close()
    provider.reset("wrong-dimension")


def test_a_search_after_the_model_changed_makes_its_vectors_anew_and_says_so(
    tmp_path: Path, provider: Provider
) -> None:
    grown(tmp_path, provider)
    memory = remote(tmp_path, provider)
    first = memory.search("heron")
    assert first.mode == "hybrid"
    assert ANEW in first.degraded
    assert lengths(memory) == {OTHER}
    second = memory.search("heron")
    assert (second.mode, second.degraded) == ("hybrid", ())
    memory.close()
    asked = len(provider.seen)
    again = remote(tmp_path, provider).search("heron")  # another process, with what is kept
    assert (again.mode, again.degraded) == ("hybrid", ())
    assert len(provider.seen) == asked + 1


def test_a_process_that_was_there_before_goes_on_with_what_another_has_made_anew(
    tmp_path: Path, provider: Provider
) -> None:
    grown(tmp_path, provider)
    provider.reset()
    old = remote(tmp_path, provider)
    assert old.search("heron").mode == "hybrid"
    provider.reset("wrong-dimension")
    assert ANEW in remote(tmp_path, provider).search("heron").degraded
    asked = len(provider.seen)
    found = old.search("heron")
    assert (found.mode, lengths(old)) == ("hybrid", {OTHER})
    assert len(provider.seen) <= asked + 4  # nothing was made twice


@pytest.mark.full(but=1)
@pytest.mark.parametrize(("rebuild", "check"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("kept", [True, False])
def test_vade_index_makes_them_anew_too(
    tmp_path: Path, provider: Provider, rebuild: bool, check: bool, kept: bool
) -> None:
    grown(tmp_path, provider)
    if not kept:
        (tmp_path / "home" / "state.db").unlink()
    memory = remote(tmp_path, provider)
    report = memory.care.index(rebuild=rebuild, check=check)
    assert report.vectors_pending == 0
    assert lengths(memory) == {OTHER}
    assert ANEW in report.degraded or (rebuild and not kept)  # then nothing is left of the old
    assert memory.search("heron").mode == "hybrid"
    assert memory.care.index(check=True).degraded == []


def test_a_wrong_answer_once_costs_one_search_its_meaning_and_no_vector(
    tmp_path: Path, provider: Provider
) -> None:
    grown(tmp_path, provider)
    provider.reset("wrong-dimension", "ok")
    memory = remote(tmp_path, provider)
    assert memory.search("heron").results
    assert lengths(memory) == {fake_providers.DIMENSION}
    assert memory.search("heron").mode == "hybrid"


def test_a_check_while_the_server_is_gone_throws_no_good_vector_away(
    tmp_path: Path, provider: Provider
) -> None:
    grown(tmp_path, provider)
    (tmp_path / "home" / "state.db").unlink()
    provider.reset("401")
    memory = remote(tmp_path, provider)
    memory.care.index(check=True)
    assert lengths(memory) == {fake_providers.DIMENSION}
    provider.reset()
    assert remote(tmp_path, provider).search("heron").mode == "hybrid"


def test_another_chunk_size_is_not_called_another_embedder(tmp_path: Path) -> None:
    memory = opened(tmp_path, environ={"VADE_EMBEDDER": "local"})
    memory.store("The heron stands in the pond.", key="heron")
    memory.search("heron")
    memory.close()
    other = opened(tmp_path, environ={"VADE_EMBEDDER": "local", "VADE_CHUNK_TOKENS": "200"})
    assert other.search("heron").degraded == ("another chunk size: all vectors will be rebuilt",)
    assert other.search("heron").degraded == ()


# --- names --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "front",
    [
        "aliases: [Frobnicator, Frob]",
        "aliases:\n  - Frobnicator\n  - Frob",
        "aliases: Frobnicator, Frob",
        "alias: Frobnicator",
    ],
)
def test_a_note_of_a_vault_is_found_by_its_aliases(tmp_path: Path, front: str) -> None:
    memory = opened(tmp_path)
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "widget.md").write_text(f"---\n{front}\n---\n# Widget\n\nIt turns things.\n\nAnd again.\n")
    (vault / "other.md").write_text("# Other\n\nIt stands still.\n")
    memory.sources.add(vault)
    for mode in ("bm25", "metadata"):
        (only,) = memory.search("Frobnicator", mode=mode, min_score=0.0).results
        assert only.path.endswith("widget.md")
    (vault / "widget.md").write_text(
        "---\naliases: [Gizmo]\n---\n# Widget\n\nIt turns things.\n\nAnd again.\n"
    )
    assert memory.search("Gizmo", min_score=0.0).results
    assert memory.search("Frobnicator", min_score=0.0).results == ()
    (vault / "widget.md").write_text("---\naliases: [[[\n---\n# Widget\n\nIt turns things.\n")
    assert memory.search("turns", min_score=0.0).results[0].path.endswith("widget.md")


def test_the_number_that_tells_two_keys_apart_is_no_part_of_a_title(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    texts = [f"The staging database runs on port {port}." for port in (5433, 5434, 5435)]
    stored = [memory.store(text, scope="global") for text in texts]
    assert [each.key for each in stored][1:] == [f"{stored[0].key}-2", f"{stored[0].key}-3"]
    titles = {each.title for each in memory.search("staging database", min_score=0.0).results}
    assert titles == {"The staging database runs on port"}
    named = memory.store("Another text.", key="plan-2")
    assert memory.search("another text", min_score=0.0).results[0].title == "Plan 2"
    assert named.key == "plan-2"


# --- a model that is damaged or gone ------------------------------------------------------------------------

HARM: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: path.unlink(),
    "empty": lambda path: path.write_bytes(b""),
    "half": lambda path: path.write_bytes(path.read_bytes()[: path.stat().st_size // 2]),
    "garbage": lambda path: path.write_bytes(b"\x93NUMPY garbage" + bytes(range(256)) * 40),
}
MODEL = ("table.npy", "scale.npy", "mean.npy", "vocab.txt", "config.json")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the package whose model may be damaged."""
    folder = tmp_path_factory.mktemp("package")
    shutil.copytree(Path(vademecum.__file__).parent, folder / "vademecum")
    return folder


SEARCH = """
import json, sys
from pathlib import Path
from vademecum.memory import connect
memory = connect(home=Path(sys.argv[1]), cwd=Path(sys.argv[1]).parent)
for mode in (None, "bm25"):
    answer = memory.search("heron", mode=mode)
    print(json.dumps([answer.mode, [each.key for each in answer.results], " ".join(answer.degraded)]))
"""


@pytest.mark.full(but=4)
@pytest.mark.parametrize("name", MODEL)
@pytest.mark.parametrize("harm", HARM)
def test_a_damaged_or_missing_file_of_the_model_leaves_keywords_and_says_so(
    tmp_path: Path, package: Path, name: str, harm: str
) -> None:
    opened(tmp_path).store("The heron stands in the pond.", key="heron", scope="global")
    path = package / "vademecum" / "index" / "embed" / "model" / name
    whole = path.read_bytes()
    try:
        HARM[harm](path)
        done = subprocess.run(
            [sys.executable, "-c", SEARCH, str(tmp_path / "home")],
            env={**os.environ, "PYTHONPATH": str(package)},
            capture_output=True,
            text=True,
            check=False,
        )
    finally:
        path.write_bytes(whole)
    assert done.returncode == 0, done.stderr
    by_meaning, by_words = map(json.loads, done.stdout.splitlines())
    assert by_meaning[:2] == ["bm25", ["heron"]]
    assert "keywords only" in by_meaning[2]
    assert by_words == ["bm25", ["heron"], ""]
