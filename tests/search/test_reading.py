"""What is curated is read, and found in other words; what was not read has no vote, and all of it is told."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from typing import TYPE_CHECKING, Any

import apsw
import numpy as np
import pytest

from vademecum.errors import EmbedderFailed
from vademecum.index.embed.base import PassageReader
from vademecum.index.embed.reader import CHECKSUM, WEIGHTS, Reader
from vademecum.interfaces.hooks.deadline import Channel, Job
from vademecum.interfaces.hooks.work import run
from vademecum.interfaces.mcp import server
from vademecum.memory import Memory, connect
from vademecum.search import reading, relevance
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.search.base import Answer

NOTES = {
    "refunds": "Customers are reimbursed within a week.",
    "kettle": "The kettle in the kitchen is broken again.",
    "doctor": "Dr. Osei looks after the children when they are ill.",
    "fair": "The trade fair in Hanover brought us eleven leads.",
    "running": "I run ten kilometres every Sunday.",
    "cottage": "We rented a cottage near the lake for two weeks.",
    "spelling": "Use British spelling in all documents.",
    "release": "The rollout failed because a certificate had expired.",
    "parking": "The car park behind the office closes at eight.",
    "bikes": "Our bikes were stolen from the courtyard.",
}
ASKED = "how long until someone gets their money back"


def opened(base: Path, **environ: str) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    environ = {"VADE_EMBEDDER": "local", "VADE_SWEEP": "off", **environ}
    return connect(home=base / "home", cwd=base / "work", environ=environ, origin=Origin.USER)


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path) as made:
        for key, text in NOTES.items():
            made.store(text, key=key)
        yield made


def was_read(answer: Answer) -> bool:
    return any((each.arithmetic or {}).get("by_reading") for each in answer.results)


def first(memory: Memory, question: str = ASKED) -> str | None:
    return memory.search(question).results[0].key


def spoilt(path: Path, how: str) -> Path:
    """A file of weights with which something is wrong."""
    content = WEIGHTS.read_bytes()
    if how == "damaged":
        content = content[:-5000] + bytes(5000)
    if how == "foreign":
        content = content.replace(CHECKSUM.encode(), b"00000000", 1)
    if how != "missing":
        path.write_bytes(content)
    return path


def read_with(memory: Memory, weights: Path) -> None:
    """Let a memory read with other weights."""
    model = Reader(weights)
    memory.care.searcher._reader = lambda: PassageReader(model, model.cut)


# --- what is read, and when


def test_a_question_in_other_words_finds_its_note_once_it_was_read(memory: Memory) -> None:
    memory.care.index()
    answer = memory.search(ASKED, explain=True)
    assert answer.results[0].key == "refunds"
    assert was_read(answer)
    assert (answer.results[0].arithmetic or {})["sign_read"] > 0.3
    assert not memory.search(ASKED, mode="bm25").results


def test_neither_writing_nor_searching_reads_and_the_index_command_reads_all(memory: Memory) -> None:
    assert memory.search(ASKED).coverage[-2:] == (0, len(NOTES))
    assert memory.search("kettle").coverage.unread == len(NOTES)
    report = memory.care.index()
    assert report.unread == 0
    assert memory.search(ASKED).coverage[-2:] == (len(NOTES), 0)
    memory.store("The lift is out of order.", key="lift")
    coverage = memory.search(ASKED).coverage
    assert (coverage.read, coverage.unread) == (len(NOTES), 1)
    status = memory.status().coverage
    assert status is not None
    assert status.unread == 1


def test_reading_tells_how_far_it_is(memory: Memory) -> None:
    steps: list[tuple[str, int, int]] = []
    memory.care.index(progress=lambda *step: steps.append(step))
    assert ("reading", len(NOTES), len(NOTES)) in steps


def test_a_step_of_reading_takes_about_a_second_however_slow_the_machine() -> None:
    assert [reading.next_step(each, 0.1) for each in (4, 16, 32)] == [8, 32, 32]
    assert [reading.next_step(each, 1.0) for each in (4, 32)] == [4, 32]
    assert [reading.next_step(each, 9.0) for each in (32, 1)] == [16, 1]


def test_a_passage_that_was_not_read_has_no_vote_and_is_found_by_its_words(memory: Memory) -> None:
    memory.care.index()
    memory.store("Money goes back to whoever asks for it, on the same day.", key="unread")
    found = {each.key: each.arithmetic or {} for each in memory.search(ASKED, explain=True).results}
    assert found["unread"]["read_cosine"] == found["unread"]["by_reading"] == 0
    assert found["refunds"]["by_reading"] > 0


def test_a_question_with_a_strong_match_is_not_read(memory: Memory) -> None:
    memory.care.index()
    answer = memory.search("kettle in the kitchen", explain=True)
    assert answer.match == "strong"
    assert not was_read(answer)


def test_who_speaks_changes_the_label_and_not_whether_a_question_is_read(memory: Memory) -> None:
    memory.note("Ines: The heating in the cellar stopped on Sunday, Mr Baako repairs it.")
    memory.care.index()
    answer = memory.search("How much did Mr Baako charge for the heating in the cellar?", explain=True)
    assert not was_read(answer)  # as for a note that holds these words
    numbers = answer.results[0].arithmetic or {}
    signs = relevance.Signs(*(numbers[f"sign_{name}"] for name in relevance.Signs._fields))
    said, written = (relevance.curve("static", spoken=spoken)(signs) for spoken in (True, False))
    assert numbers["spoken"] == 1
    assert numbers["relevance"] == pytest.approx(said, abs=1e-4)
    assert said < relevance.STRONG <= written


def test_words_alone_and_static_vectors_do_without_reading(memory: Memory, tmp_path: Path) -> None:
    memory.care.index()
    assert not was_read(memory.search(ASKED, mode="bm25", explain=True))
    with opened(tmp_path, VADE_EMBEDDER="static") as static:
        answer = static.search(ASKED, explain=True)
        assert not was_read(answer)
        assert answer.coverage[-2:] == (0, 0)


def test_sources_are_read_when_that_is_asked_for(memory: Memory, tmp_path: Path) -> None:
    folder = tmp_path / "vault"
    folder.mkdir()
    (folder / "dentist.md").write_text("# Teeth\n\nMy check-up at the dentist is in March.\n")
    memory.sources.add(folder, name="vault")
    memory.care.index()
    question = "when is somebody looking into my mouth"
    assert "vault" not in {each.source for each in memory.search(question).results[:1]}
    memory.care.index(read_all=True)
    assert memory.search(question).results[0].source == "vault"


def test_a_long_entry_is_found_by_what_its_last_part_says(memory: Memory) -> None:
    long = "The plumber came and looked at the pipes of the house. " * 25
    memory.store(f"{long}He left his wallet on the sideboard.", key="plumber")
    memory.care.index()
    assert first(memory, "someone forgot a purse") == "plumber"


# --- what becomes of it


def test_what_leaves_the_index_leaves_nothing_that_was_read(memory: Memory) -> None:
    memory.care.index()
    memory.forget("refunds")
    memory.care.index()
    assert "refunds" not in {each.key for each in memory.search(ASKED).results}
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as connection:
        left = list(
            connection.execute("select count(*) from reads where chunk not in (select id from chunks)")
        )
        assert left == [(0,)]


def test_an_index_that_is_made_anew_reads_nothing_twice(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.care.index()
    monkeypatch.setattr(Reader, "windows", lambda self, texts: pytest.fail(f"read again: {texts}"))
    assert memory.care.index(rebuild=True).unread == 0


def test_two_who_read_at_once_keep_one_vector_for_each_window(memory: Memory, tmp_path: Path) -> None:
    with opened(tmp_path) as other:
        readers = [threading.Thread(target=each.care.index) for each in (memory, other)]
        for each in readers:
            each.start()
        for each in readers:
            each.join()
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as connection:
        assert list(connection.execute("select count(*) from reads")) == [(len(NOTES),)]


# --- in the background


def until(true: Any) -> None:
    """Wait until something holds; the test's own time limit is the only one."""
    while not true():
        time.sleep(0.05)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "PAUSE", 0.01)
    monkeypatch.setattr(server, "IDLE", 0.05)


@pytest.mark.usefixtures("impatient")
def test_the_watcher_reads_what_comes_in(memory: Memory) -> None:
    stop = threading.Event()
    reports = memory.care.watch(stop)
    next(reports)
    waiting = threading.Thread(target=lambda: list(reports))
    waiting.start()
    until(lambda: memory.search(ASKED).coverage.unread == 0)
    stop.set()
    waiting.join()


@pytest.mark.usefixtures("impatient")
def test_an_idle_server_reads_and_a_busy_one_does_not(memory: Memory, tmp_path: Path) -> None:
    options = {"home": tmp_path / "home", "cwd": tmp_path / "work", "environ": {"VADE_SWEEP": "off"}}
    connections = server.Connections(options, own_session=True)
    connection = connections.of()
    connection.running_calls += 1
    served = connection.memory()
    time.sleep(0.2)
    assert served.search(ASKED).coverage.unread == len(NOTES)
    connection.running_calls -= 1
    until(lambda: memory.search(ASKED).coverage.unread == 0)
    connections.close()


# --- by a prompt


@pytest.fixture
def generous(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let all that reading finds be a strong match."""
    sure = relevance.Curve(9.0, (0.0,) * len(relevance.Signs._fields))
    curve = relevance.curve
    monkeypatch.setattr(
        relevance, "curve", lambda family, **how: sure if family == "read" else curve(family, **how)
    )


@pytest.mark.usefixtures("generous")
def test_a_prompt_brings_back_what_reading_finds_when_there_is_time(memory: Memory) -> None:
    memory.care.index()
    said: list[str] = []
    block = memory.injection.remind(ASKED, meanwhile=lambda words: said.append(words.text))
    assert NOTES["refunds"] in block.text
    assert said == [""]
    late = memory.injection.remind(ASKED, until=time.monotonic() + 0.1)
    assert late.text == ""


def test_a_prompt_brings_back_nothing_by_reading_that_is_not_strong_or_was_not_read(memory: Memory) -> None:
    assert memory.injection.remind(ASKED).text == ""
    memory.care.index()
    assert memory.search(ASKED).match != "strong"
    assert memory.injection.remind(ASKED).text == ""


def test_what_words_bring_back_is_told_before_the_prompt_is_read(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    memory.care.index()
    channel = Channel()
    prompt = "jogging on a Sunday"
    given = json.dumps({"session_id": "s", "cwd": str(memory.caller.project.root), "prompt": prompt})  # type: ignore[union-attr]
    monkeypatch.setenv("VADE_EMBEDDER", "local")
    monkeypatch.setenv("VADE_INJECT_MAX_PER_SCOPE", "1")
    job = Job("claude-code", "user-prompt", given.encode(), str(memory.home.path), time.monotonic() + 60)
    run(job, channel)
    start, by_words, read = channel.offers  # the session was not told its start before
    assert b"ten kilometres" not in start
    assert by_words == read
    assert b"ten kilometres" in by_words


# --- what goes wrong


@pytest.mark.parametrize("how", ["missing", "damaged", "foreign"])
def test_without_its_weights_the_answer_comes_by_what_is_left_and_says_so(
    memory: Memory, tmp_path: Path, how: str
) -> None:
    memory.care.index()
    read_with(memory, spoilt(tmp_path / "weights.safetensors", how))
    answer = memory.search(ASKED)
    assert answer.results
    assert any(each.startswith("not read: ") and str(tmp_path) in each for each in answer.degraded)
    memory.store("The lift is out of order.", key="lift")
    report = memory.care.index()
    assert any("no reader vectors" in each for each in report.degraded)
    assert report.indexed == report.files
    assert first(memory, "kettle") == "kettle"


def test_what_another_model_has_read_has_no_vote_is_told_and_read_anew(memory: Memory) -> None:
    memory.care.index()
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as connection:
        connection.execute("update meta set value = '1 another model' where key = 'reads'")
    answer = memory.search(ASKED, explain=True)
    assert not was_read(answer)
    assert any("another model made these vectors" in each for each in answer.degraded)
    assert answer.coverage.unread == len(NOTES)
    memory.care.index()
    assert first(memory) == "refunds"


def test_vectors_of_another_length_have_no_vote(memory: Memory) -> None:
    memory.care.index()
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as connection:
        connection.execute("update reads set vector = x'0102'")
    answer = memory.search(ASKED, explain=True)
    assert answer.results
    assert not was_read(answer)


@pytest.mark.parametrize(
    "written",
    [
        "update reads set vector = x'0102' where chunk % 2",
        "update reads set vector = hex(randomblob(192))",  # as long as a vector, and no blob
        "update reads set vector = 7",
        "insert into reads(chunk, vector) select id, 'read' from chunks",
    ],
)
def test_what_another_program_writes_beside_is_not_taken_for_read_and_is_read_anew(
    memory: Memory, written: str
) -> None:
    memory.care.index()
    assert first(memory) == "refunds"
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as other:
        other.execute(written)  # while the index is open here
        answer = memory.search(ASKED)
        assert answer.results
        assert answer.coverage.unread > 0
        assert memory.care.index().unread == 0  # or, on a page without its checksum, the index is made anew
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as other:
        wrong = "select count(*) from reads where typeof(vector) != 'blob' or length(vector) != 384"
        assert list(other.execute(wrong)) == [(0,)]
    assert first(memory) == "refunds"
    assert memory.search(ASKED).coverage.unread == 0


def test_an_index_that_is_made_anew_keeps_nothing_that_another_program_wrote(memory: Memory) -> None:
    memory.care.index()
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as other:
        other.execute("update reads set vector = x'0102'")
        other.execute("insert into reads(chunk, vector) values(1, 'read')")
        memory.care.index(rebuild=True)
        assert list(other.execute("select distinct typeof(vector), length(vector) from reads")) == [
            ("blob", 384)
        ]
    assert first(memory) == "refunds"


def test_a_model_that_gives_no_numbers_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    reader = Reader()
    monkeypatch.setattr(reader._model, "read", lambda tokens: np.full((len(tokens), 384), np.nan))
    with pytest.raises(EmbedderFailed, match="not a number"):
        reader.embed(["a text"])


def test_a_command_that_reads_mends_what_another_program_wrote_while_nobody_looked(
    memory: Memory, tmp_path: Path
) -> None:
    memory.care.index()
    memory.close()
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as other:
        other.execute("update reads set vector = 'read'")
    with opened(tmp_path) as again:
        assert again.care.searcher.read() == 0
        assert first(again) == "refunds"
        assert again.search(ASKED).coverage.unread == 0
