"""Recall across sessions: a result needs a match, and says where it stands."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.errors import NotFound, UnknownName, UsageError
from vademecum.search.legs import PREVIEW
from vademecum.search.session_keywords import check_ranking, parse_query, preview, score, session_search
from vademecum.store import scopes
from vademecum.store.home import Home
from vademecum.transcripts import Message, Role, Text, ToolCall, ToolResult
from vademecum.transcripts.events import MessageEvent
from vademecum.transcripts.sessions import Sessions, session_get

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from vademecum.search.session_keywords import Hit
    from vademecum.transcripts.log import Log


class Past:
    """Sessions of one project, each a minute after the other."""

    def __init__(self, base: Path) -> None:
        (base / "work").mkdir()
        project = scopes.find_project(base / "work", home=base / "home", override="acme")
        self.at = datetime(2026, 11, 15, 12, 0, tzinfo=UTC)
        caller = scopes.Caller(agent="main", project=project)
        self.sessions = Sessions(Home(base / "home", 5), caller, self.now)

    def now(self) -> datetime:
        self.at += timedelta(minutes=1)
        return self.at

    def talk(self, name: str, *said: str | Message) -> Log:
        log = self.sessions.new(name=name)
        for at, each in enumerate(said):
            role = Role.ASSISTANT if at % 2 else Role.USER
            log.append(MessageEvent(Message(role, (Text(each),)) if isinstance(each, str) else each))
        return log

    def find(self, query: str, **given: Any) -> Sequence[Hit]:
        return session_search(query, self.sessions.list(), self.sessions.read, **given).hits


@pytest.fixture
def past(tmp_path: Path) -> Past:
    return Past(tmp_path)


def test_a_message_is_found_with_its_session_turn_and_line(past: Past) -> None:
    log = past.talk(
        "Deploys", "Where do we deploy?", "We deploy to Frankfurt on Fridays.", "Thank you so much."
    )
    past.talk("Other", "Something about gardens and bees.")
    (first, *rest) = past.find("deploy Frankfurt")
    assert (first.session, first.turn, first.line, first.role) == (log.session, 1, 3, "assistant")
    assert first.title == "Deploys"
    assert first.keyword_hits == 2
    assert first.time.startswith("2026-11-15")
    assert all(each.session == log.session for each in rest)


def test_role_and_title_alone_never_make_a_result(past: Past) -> None:
    past.talk("Deploys to Frankfurt", "An unrelated long request here.", "An unrelated long answer here.")
    assert not past.find("Frankfurt")
    assert not past.find("")
    assert not past.find("   ")


def test_the_points_are_those_of_the_seed() -> None:
    wanted = parse_query("the Redis cache timeout")
    assert wanted.keywords == ("redis", "cache", "timeout")
    assert score(wanted, "nothing of it", Role.USER, "redis") is None
    assert score(wanted, "the redis cache\n timeout is 5", Role.TOOL, "") == (3 + 3 + 1.5, 3, True)
    assert score(wanted, "Redis is up", Role.ASSISTANT, "") == (1.3, 1, False)
    assert score(wanted, "Redis is up", Role.USER, "A cache of redis") == (1 + 0.2 + 1.0, 1, False)
    assert score(wanted, "Redis is up", Role.TOOL, "On the Redis cache timeout") == (1 + 2.0, 1, False)


def test_among_equals_the_newest_comes_first(past: Past) -> None:
    old = past.talk("one", "We chose the purple colour.")
    new = past.talk("two", "We chose the purple colour.")
    assert [each.session for each in past.find("purple")] == [new.session, old.session]
    log = past.talk("three", "The purple one is early.", "A short answer comes.", "The purple one is late.")
    assert [each.line for each in past.find("purple") if each.session == log.session] == [4, 2]


def test_only_so_many_sessions_and_results(past: Past) -> None:
    for at in range(4):
        past.talk(f"s{at}", f"Purple number {at} is here.", f"Purple answer {at} is here.")
    assert len(past.find("purple", max_results=3)) == 3
    assert {each.title for each in past.find("purple", max_sessions=1)} == {"s3"}
    assert not past.find("purple", max_results=0)


def test_system_messages_short_ones_and_repetitions_are_left_out(past: Past) -> None:
    past.talk(
        "x",
        Message(Role.SYSTEM, (Text("purple is the rule of the system"),)),
        "purple",
        "We want purple walls.",
        "We want purple walls.",
    )
    assert len(past.find("purple")) == 1


def test_results_of_tools_are_found_and_read_back_whole_by_the_id_of_the_call(past: Past) -> None:
    long = "start " + "filler " * 5000 + "the needle zebra7 is here " + "filler " * 5000
    log = past.talk(
        "x",
        "Please look at the files.",
        Message(Role.ASSISTANT, (ToolCall("call-1", "read", "{}"),)),
        Message(Role.TOOL, (ToolResult("call-1", (Text(long),)),)),
    )
    (hit,) = past.find("zebra7")
    assert (hit.role, hit.turn, hit.line) == ("tool", 1, 4)
    assert len(hit.preview) == PREVIEW
    assert "zebra7" in hit.preview[250:350]
    for place in ("call-1", 4, "4"):
        (line,) = session_get(log, place)
        assert isinstance(line.event, MessageEvent)
        assert line.event.message.results[0].text == long
    assert [each.number for each in session_get(log, 2, lines=9)] == [2, 3, 4]
    assert session_get(log, 99) == []
    with pytest.raises(NotFound):
        session_get(log, "call-9")
    with pytest.raises(UsageError):
        session_get(log, 0)


def test_words_of_any_script_are_found(past: Past) -> None:
    past.talk("x", "Der Schlüssel liegt unter der MATTE.", "鍵はマットの下にあります。そうですよ")
    assert past.find("schlüssel")
    assert past.find("マット")
    assert past.find("matte")


def test_a_torn_line_and_a_file_that_is_gone_do_not_stop_the_search(past: Past, tmp_path: Path) -> None:
    log = past.talk("x", "We chose the purple colour.")
    with (tmp_path / "home" / log.path).open("ab") as file:
        file.write(b'{"seq":3,"kind":"message","purple')
    listed = past.sessions.list()
    assert len(past.find("purple")) == 1
    (tmp_path / "home" / log.path).unlink()
    fresh = Sessions(past.sessions.home, past.sessions.caller)
    assert not session_search("purple", listed, fresh.read).hits


def test_a_ranking_that_there_is_not_is_refused_by_name() -> None:
    assert check_ranking("keywords") == "keywords"
    with pytest.raises(UnknownName, match="magic"):
        check_ranking("magic")


def test_it_says_in_how_many_sessions_was_looked_and_which_could_not_be_read(
    past: Past, tmp_path: Path
) -> None:
    past.talk("x", "We chose the purple colour.")
    past.talk("y", "We chose the green colour.")
    assert session_search("purple", past.sessions.list(), past.sessions.read).sessions == 2
    assert session_search("purple", past.sessions.list(), past.sessions.read, max_sessions=1).sessions == 1
    (tmp_path / "home" / "transcripts" / "acme" / "led-astray.jsonl").symlink_to("/dev/null")
    found = session_search("purple", past.sessions.list(), past.sessions.read)
    assert found.sessions == 2
    assert "led-astray" in found.degraded[0]


@given(st.text(max_size=50), st.text(max_size=2000), st.sampled_from(list(Role)))
def test_a_preview_is_a_part_of_bounded_size_and_a_score_needs_a_match(
    query: str, text: str, role: Role
) -> None:
    wanted = parse_query(query)
    cut = preview(text, wanted)
    assert len(cut) <= PREVIEW
    assert cut.strip("…") in text or "…" in text
    found = score(wanted, text, role, query)
    assert found is None or found[1] > 0 or found[2]
