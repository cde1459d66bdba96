"""Questions that speak of a time: what is of that time gains, nothing is left out, and the answer says so."""

from __future__ import annotations

import asyncio
import json
from datetime import UTC, datetime, timedelta, timezone
from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner

from vademecum.errors import UsageError
from vademecum.interfaces.cli.app import cli
from vademecum.memory import Memory, connect
from vademecum.memory.asynchronous import AsyncMemory
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import MessageEvent
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path

NOW = datetime(2026, 11, 19, 15, tzinfo=UTC)  # a Thursday
DAYS = {
    "2026-11-03T09:00": "Planted garlic along the south wall.",
    "2026-11-10T08:30": "The plumber replaced the boiler valve.",
    "2026-11-11T19:00": "Watched the lighthouse documentary until midnight.",
    "2026-11-17T09:15": "Soldered the antenna for the weather station.",
    "2026-11-17T21:40": "Ticket for the ferry is in the blue folder.",
    "2026-11-18T10:00": "Worked on the budget and did what had to be done on Tuesday.",
}


def opened(base: Path, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    environ = {"VADE_EMBEDDER": "local"}
    return connect(home=base / "home", cwd=base / "work", environ=environ, origin=Origin.USER, **given)


def journal(base: Path, days: dict[str, str] = DAYS) -> Memory:
    for time, text in days.items():
        moment = datetime.fromisoformat(time).replace(tzinfo=UTC)
        with opened(base, now=lambda moment=moment: moment) as memory:
            memory.note(text)
    return opened(base, now=lambda: NOW)


def snippets(answer: Any) -> list[str]:
    return [each.snippet.splitlines()[-1] for each in answer.results]


def test_a_journal_answers_what_was_done_last_tuesday_with_that_day(tmp_path: Path) -> None:
    with journal(tmp_path) as memory:
        found = memory.search("what did I do last Tuesday?")
        assert set(snippets(found)[:2]) == {DAYS["2026-11-17T09:15"], DAYS["2026-11-17T21:40"]}
        assert found.notes == ('"last Tuesday" understood as 2026-11-17',)
        assert [each.match for each in found.results[:2]] == ["strong", "strong"]


@pytest.mark.parametrize("mode", ["hybrid", "bm25", "vector"])
@pytest.mark.parametrize(
    "question",
    [
        "was habe ich letzten Dienstag gemacht",
        "qu'est-ce que j'ai fait mardi dernier ?",
        "¿qué hice el martes pasado?",
        "我这周二做了什么",
        "今週の火曜日に何をしましたか",
    ],
)
def test_a_day_is_found_in_any_of_six_languages_and_every_mode(
    tmp_path: Path, question: str, mode: Any
) -> None:
    with journal(tmp_path) as memory:
        found = snippets(memory.search(question, mode=mode, max_results=2))
        assert set(found) == {DAYS["2026-11-17T09:15"], DAYS["2026-11-17T21:40"]}


def test_the_moment_of_asking_can_be_given_at_every_door(tmp_path: Path) -> None:
    question, then = "what happened yesterday", "2026-11-12T08:00"
    with journal(tmp_path) as memory:
        assert snippets(memory.search(question))[0] == DAYS["2026-11-18T10:00"]
        assert snippets(memory.search(question, now=then))[0] == DAYS["2026-11-11T19:00"]
        assert memory.recall("valve yesterday", now=then).notes == ('"yesterday" understood as 2026-11-11',)
        again = datetime.fromisoformat(then).replace(tzinfo=UTC)
        assert snippets(memory.search(question, now=again))[0] == DAYS["2026-11-11T19:00"]
        with pytest.raises(UsageError, match="not a date"):
            memory.search(question, now="yesteryear")
    environ = {"VADE_HOME": str(tmp_path / "home"), "VADE_EMBEDDER": "local"}
    printed = CliRunner().invoke(cli, ["search", question, "--now", then, "--json"], env=environ)
    answer = json.loads(printed.output)
    assert answer["notes"] == ['"yesterday" understood as 2026-11-11']


def test_an_event_loop_gives_its_moment_too(tmp_path: Path) -> None:
    journal(tmp_path).close()

    async def ask() -> list[str]:
        async with AsyncMemory(opened(tmp_path)) as memory:
            return snippets(await memory.search("what happened yesterday", now="2026-11-12T08:00"))

    assert asyncio.run(ask())[0] == DAYS["2026-11-11T19:00"]


def test_what_is_asked_counts_beside_the_time_and_nothing_is_left_out(tmp_path: Path) -> None:
    days = {
        "2026-11-10T08:00": "The backup of the vault failed with a full disk.",
        "2026-11-17T08:00": "The backup of the vault ran for two hours.",
        "2026-11-17T09:00": "Lunch with Ingrid by the river.",
    }
    with journal(tmp_path, days) as memory:
        plain = memory.search("how did the vault backup go", explain=True)
        timed = memory.search("how did the vault backup go on 10 November", explain=True)
        assert snippets(timed)[0] == days["2026-11-10T08:00"]
        assert set(snippets(plain)) <= set(snippets(timed))
        numbers = timed.results[0].arithmetic
        assert numbers is not None
        assert numbers["of_its_time"] > 0
        assert [each.arithmetic["of_its_time"] for each in timed.results[1:] if each.arithmetic] == [0.0, 0.0]
        assert all("of_its_time" not in (each.arithmetic or {}) for each in plain.results)


def test_a_day_is_that_of_whoever_asks_and_of_the_offset_that_was_written(tmp_path: Path) -> None:
    tokyo = timezone(timedelta(hours=9))
    early = datetime(2026, 11, 18, 0, 30, tzinfo=tokyo)  # still the 17th in UTC
    with opened(tmp_path, now=lambda: early) as memory:
        memory.note("Half past midnight in Tokyo.")
        memory.store("The kettle whistles.", key="kettle")
    with opened(tmp_path, now=lambda: NOW) as memory:
        found = memory.search("what happened yesterday", now=datetime(2026, 11, 19, 9, tzinfo=tokyo))
        assert "Half past midnight in Tokyo." in snippets(found)[:2]
        in_utc = memory.search(
            "what happened yesterday", now=datetime(2026, 11, 19, 9, tzinfo=UTC), explain=True
        )
        assert not any((each.arithmetic or {}).get("of_its_time") for each in in_utc.results)


def test_a_day_written_by_hand_and_a_daily_note_of_a_vault_are_of_their_day(tmp_path: Path) -> None:
    vault = tmp_path / "vault"
    vault.mkdir()
    (vault / "2026-11-17.md").write_text("Ferry to the island, then rain.\n")
    (vault / "Recipes.md").write_text("Leeks with potatoes, done in twenty minutes.\n")
    with opened(tmp_path, now=lambda: NOW) as memory:
        memory.sources.add(vault)
        west = datetime(2026, 11, 19, 15, tzinfo=timezone(timedelta(hours=-8)))
        for now in (NOW, west):
            assert (
                snippets(memory.search("what did I do on Tuesday", now=now))[0]
                == "Ferry to the island, then rain."
            )


def test_what_stands_in_quotation_marks_is_no_time(tmp_path: Path) -> None:
    with journal(tmp_path) as memory:
        assert not any("understood" in each for each in memory.search('"last Tuesday" plans').notes)
        month = memory.search("may I use the second boiler")
        assert not any("understood" in each for each in month.notes)
        assert not any("understood" in each for each in memory.search("last Tuesday", mode="metadata").notes)


def test_sessions_of_a_time_are_found_without_a_word_in_common(tmp_path: Path) -> None:
    with opened(tmp_path, now=lambda: NOW) as memory:
        said = {
            "2026-11-10T09:00:00Z": "Ship the parser behind a flag.",
            "2026-11-17T09:00:00Z": "Rotate the keys.",
        }
        for number, (time, text) in enumerate(said.items()):
            log = memory.sessions.transcripts.new(id=f"s{number}")
            log.append(MessageEvent(Message(Role.USER, (Text(text),), time=time)))
        found = memory.sessions.search("what did I do last Tuesday")
        assert found.hits[0].preview == "Rotate the keys."
        assert found.notes == ('"last Tuesday" understood as 2026-11-17',)
        earlier = memory.sessions.search("what did I do yesterday", now="2026-11-11")
        assert earlier.hits[0].preview == "Ship the parser behind a flag."
        assert memory.search("what did I do last Tuesday").results[0].snippet == "Rotate the keys."
