"""What was said is read when that is asked for, found in other words then, and leaves with its session."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import apsw
import pytest
from click.testing import CliRunner

from transcripts.test_finding import found, index_of, opened, talk
from vademecum.errors import UnknownName
from vademecum.index.embed.reader import Reader
from vademecum.interfaces.cli.app import cli
from vademecum.search import reading
from vademecum.transcripts import Message, Role, Text, ToolResult
from vademecum.transcripts.events import MessageEvent

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.memory import Memory

SAID = (
    "Customers are reimbursed within a week.",
    "The kettle in the kitchen is broken again.",
    "Dr. Osei looks after the children when they are ill.",
    "The trade fair in Hanover brought us eleven leads.",
    "We rented a cottage near the lake for two weeks.",
    "The rollout failed because a certificate had expired.",
)
ASKED = "how long until someone gets their money back"


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[Memory]:
    with opened(tmp_path, environ={"VADE_EMBEDDER": "local"}) as made:
        for number, text in enumerate(SAID):
            talk(made, f"s{number}", text)
        yield made


def rows_in(path: Path, table: str) -> int:
    """How many rows a table of a database has."""
    connection = apsw.Connection(str(path))
    try:
        return len(connection.execute(f"select 1 from {table}").fetchall())
    finally:
        connection.close()


def vectors(base: Path) -> int:
    """How many vectors of reading the sessions' index holds."""
    return rows_in(index_of(base), "reads")


def counted(memory: Memory) -> tuple[int, int]:
    answer = memory.search(ASKED, sources=("transcript",))
    return answer.coverage.sessions_read, answer.coverage.sessions_unread


def test_what_was_said_is_found_in_other_words_once_it_was_read(memory: Memory) -> None:
    memory.care.index()
    assert SAID[0] not in found(memory, ASKED)[:1]
    assert counted(memory) == (0, 0)  # nothing was asked for: nothing waits
    report = memory.care.index(read=("sessions",))
    assert report.sessions_unread == 0
    again = memory.sessions.search(ASKED)
    assert again.read
    assert again.hits[0].preview == SAID[0]
    assert (again.passages_read, again.passages_unread) == counted(memory) == (len(SAID), 0)
    answer = memory.search(ASKED, sources=("transcript",))
    assert answer.read
    assert answer.results[0].snippet == SAID[0]


def test_words_alone_and_strong_matches_do_without_reading(memory: Memory) -> None:
    memory.care.index(read=("sessions",))
    assert not memory.search(ASKED, mode="bm25", sources=("transcript",)).read
    assert not memory.sessions.search("kettle in the kitchen is broken again").read


def test_a_run_that_was_interrupted_goes_on_where_it_was(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reading, "FIRST_STEP", 2)
    monkeypatch.setattr(reading, "LONGEST_STEP", 2)
    whole = Reader.embed
    read: list[str] = []

    def embed(self: Reader, texts: list[str], **given: bool) -> object:
        if len(read) == 4:
            raise KeyboardInterrupt
        read.extend(texts)
        return whole(self, texts, **given)

    monkeypatch.setattr(Reader, "embed", embed)
    with pytest.raises(KeyboardInterrupt):
        memory.care.index(read=("sessions",))
    assert vectors(tmp_path) == 4
    monkeypatch.setattr(Reader, "embed", whole)
    assert counted(memory) == (4, 2)
    survey = memory.status().coverage
    assert survey is not None
    assert survey.sessions_unread == 2
    assert memory.care.index().sessions_unread == 2  # nobody asked for the rest
    read.clear()
    monkeypatch.setattr(Reader, "embed", embed)
    assert memory.care.index(read=("sessions",)).sessions_unread == 0
    assert len(read) == 2
    assert vectors(tmp_path) == len(SAID)


def test_what_is_said_later_waits_and_what_was_written_over_is_read_again(
    memory: Memory, tmp_path: Path
) -> None:
    memory.care.index(read=("sessions",))
    log = memory.sessions.transcripts.open("s1")
    log.append(MessageEvent(Message(Role.ASSISTANT, (Text("Then we buy another one on Saturday."),))))
    assert counted(memory) == (len(SAID), 1)
    path = tmp_path / "home" / memory.sessions.transcripts.open("s0").path
    path.write_bytes(path.read_bytes().replace(b"reimbursed within a week", b"welcomed with fresh coffee"))
    assert counted(memory) == (len(SAID) - 1, 2)
    assert SAID[0] not in found(memory, ASKED)
    memory.care.index(read_all=True)
    assert counted(memory) == (len(SAID) + 1, 0)
    assert found(memory, "what do guests get to drink when they arrive")[0].startswith(
        "Customers are welcomed"
    )


def test_of_a_session_that_is_gone_or_purged_no_vector_is_left(memory: Memory, tmp_path: Path) -> None:
    memory.care.index(read=("sessions",))
    assert vectors(tmp_path) == len(SAID)
    os.unlink(tmp_path / "home" / memory.sessions.transcripts.open("s0").path)
    assert SAID[0] not in found(memory, ASKED)
    assert vectors(tmp_path) == len(SAID) - 1
    memory.archive.purge_text("a certificate had expired")
    assert not any("certificate" in each for each in found(memory, "why did the release not go well"))
    assert counted(memory) == (0, 0)
    memory.care.index(read=("sessions",))
    assert "certificate" not in " ".join(found(memory, "why did the release not go well"))


def test_nothing_of_what_is_read_of_sessions_is_kept_beside_their_index(
    memory: Memory, tmp_path: Path
) -> None:
    memory.store("The lift is out of order.", key="lift")
    memory.care.index(read=("sessions",))
    assert vectors(tmp_path) == len(SAID)
    assert rows_in(tmp_path / "home" / "state.db", "vectors") == 1  # that of the record


def test_what_tools_gave_back_is_not_read(memory: Memory) -> None:
    log = memory.sessions.transcripts.open("s2")
    log.append(
        MessageEvent(Message(Role.TOOL, (ToolResult("c1", content=(Text("many files of a listing"),)),)))
    )
    memory.care.index(read=("sessions",))
    assert counted(memory) == (len(SAID), 0)


def test_another_project_or_agent_reads_nothing_of_ours(memory: Memory, tmp_path: Path) -> None:
    memory.care.index(read=("sessions",))
    for given in ({"work": "elsewhere"}, {"agent": "wren"}):
        with opened(tmp_path, environ={"VADE_EMBEDDER": "local"}, **given) as other:
            other.care.index(read=("sessions",))
            assert not other.sessions.search(ASKED).hits
            assert counted(other) == (0, 0)


def test_what_cannot_be_read_is_refused_by_name(memory: Memory) -> None:
    with pytest.raises(UnknownName, match="weather"):
        memory.care.index(read=("weather",))


def test_the_command_reads_sessions_and_says_what_is_left(memory: Memory, tmp_path: Path) -> None:
    environ = {"VADE_HOME": str(tmp_path / "home"), "VADE_AGENT": "robin", "VADE_EMBEDDER": "local"}
    memory.close()

    def run(*args: str) -> str:
        with pytest.MonkeyPatch.context() as patch:
            patch.chdir(tmp_path / "work")
            done = CliRunner().invoke(cli, ["index", *args], env=environ, catch_exceptions=False)
        assert done.exit_code == 0, done.output
        return done.output

    assert "not read" not in run("--read", "sessions")
    with opened(tmp_path, environ={"VADE_EMBEDDER": "local"}) as again:
        talk(again, "later", "The lift is out of order since Tuesday.")
    assert "1 passage of sessions without reader vectors" in run()
    assert "not read" not in run("--read", "sources", "--read", "sessions")
