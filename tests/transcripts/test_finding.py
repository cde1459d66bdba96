"""Sessions found through their index: it follows the logs, shows what they say, and to nobody else."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import apsw
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from vademecum.errors import NotVisible, OutsideMemory
from vademecum.index.base import EVERYTHING, Filter
from vademecum.index.sqlite import SESSIONS, SqliteIndex
from vademecum.interfaces.present.tool_json import search_answer
from vademecum.memory import Memory, connect
from vademecum.search import session_index as following
from vademecum.search import session_search
from vademecum.search.legs import PREVIEW, window
from vademecum.search.session_keywords import SessionHits
from vademecum.store import lookup
from vademecum.transcripts import META, Message, Role, Text, Thinking, ToolCall, ToolResult
from vademecum.transcripts.events import MessageEvent, Renamed, Unknown
from vademecum.transcripts.log import Log
from vademecum.types import Origin

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does


def opened(base: Path, work: str = "work", **given: Any) -> Memory:
    (base / work).mkdir(exist_ok=True)
    return connect(
        home=base / "home",
        cwd=base / work,
        agent=given.pop("agent", "robin"),
        environ={"VADE_EMBEDDER": "none", **given.pop("environ", {})},
        origin=given.pop("origin", Origin.USER),
        **given,
    )


def talk(memory: Memory, name: str, *said: str | Message) -> Log:
    log = memory.sessions.transcripts.new(name=name)
    for at, each in enumerate(said):
        role = Role.ASSISTANT if at % 2 else Role.USER
        log.append(MessageEvent(Message(role, (Text(each),)) if isinstance(each, str) else each))
    return log


def found(memory: Memory, query: str, **given: Any) -> list[str]:
    return [hit.preview for hit in memory.sessions.search(query, **given).hits]


def index_of(base: Path, agent: str = "robin") -> Path:
    return base / "home" / "index" / f"{agent}~sessions.db"


def all_of(index: SqliteIndex) -> dict[Any, Any]:
    """How far each log was taken in, and every row."""
    states = {(item, None): each.state for item, each in index.known(EVERYTHING).items()}
    return {**states, **index.contents()}


def held(path: Path) -> dict[Any, Any]:
    """All that an index holds, without the stamps: a log that is copied has others."""
    index = SqliteIndex(path, SESSIONS)
    try:
        return all_of(index)
    finally:
        index.close()


def made_anew(base: Path) -> dict[Any, Any]:
    """What an index of the same logs holds that was never there before."""
    memory = opened(base)
    view = following.LogFilter(
        tuple(memory.home.names("transcripts")), "robin"
    )  # of all projects, as a follower of each would have it
    index = SqliteIndex(":memory:", SESSIONS)
    following.update_index(
        memory.home, index, view, *following.list_logs(memory.home, view), until=None, progress=None
    )
    try:
        return all_of(index)
    finally:
        index.close()


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    return opened(tmp_path)


# -------------------------------------------------------------------- by meaning


PARAPHRASED = (
    "The doctor said that my blood pressure is too high.",
    "My car broke down on the motorway near Lyon.",
    "We moved the database to a server in Frankfurt.",
    "The children are learning to swim this summer.",
)


def test_below_a_size_what_was_said_in_other_words_is_found(tmp_path: Path) -> None:
    memory = opened(tmp_path, environ={"VADE_EMBEDDER": "local"})
    for number, text in enumerate(PARAPHRASED):
        talk(memory, f"s{number}", text, "I see, thank you for telling me.")
    memory.care.index()  # a question alone may not have the time for all vectors
    assert found(memory, "trouble with the automobile")[0] == PARAPHRASED[1]
    assert found(memory, "what did the physician say about hypertension")[0] == PARAPHRASED[0]
    passages = memory.search("trouble with the automobile", mode="vector", sources=("transcript",))
    assert passages.results[0].snippet == PARAPHRASED[1]
    assert not passages.degraded
    memory.close()


@pytest.mark.parametrize(
    "environ",
    [{"VADE_SEARCH_HYBRID": "off"}, {"VADE_EMBEDDER": "none"}],
)
def test_without_vectors_only_words_count(tmp_path: Path, environ: dict[str, str]) -> None:
    memory = opened(tmp_path, environ={"VADE_EMBEDDER": "local", **environ})
    for number, text in enumerate(PARAPHRASED):
        talk(memory, f"s{number}", text)
    assert found(memory, "trouble with the automobile") == []
    assert found(memory, "car") == [PARAPHRASED[1]]
    memory.close()


def test_vectors_are_made_for_what_was_taken_in_without_them(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for number, text in enumerate(PARAPHRASED):
        talk(memory, f"s{number}", text)
    memory.care.index()
    memory.close()
    memory = opened(tmp_path, environ={"VADE_EMBEDDER": "local"})
    memory.care.index()
    memory.close()
    index = SqliteIndex(index_of(tmp_path), SESSIONS)
    assert index.stats(filter=Filter(bare=True)).waiting == 0
    assert index.stats().chunks == len(PARAPHRASED)
    index.close()


# -------------------------------------------------------------------- what is found


def test_a_message_is_found_with_its_session_turn_line_and_relevance(memory: Memory) -> None:
    log = talk(
        memory, "Deploys", "Where do we deploy?", "We deploy to Frankfurt on Fridays.", "Thank you so much."
    )
    talk(memory, "Other", "Something about gardens and bees.")
    answer = memory.sessions.search("deploying in Frankfurt")
    first = answer.hits[0]
    assert (first.session, first.turn, first.line, first.role) == (log.session, 1, 3, "assistant")
    assert (first.title, first.preview, first.keyword_hits) == (
        "Deploys",
        "We deploy to Frankfurt on Fridays.",
        2,
    )
    assert first.relevance == 1
    assert answer.sessions == 2
    assert not answer.degraded
    assert all(hit.session == log.session for hit in answer.hits)


def matches(memory: Memory, query: str) -> set[str]:
    return {hit.match for hit in memory.sessions.search(query).hits}


def test_a_question_about_nothing_that_was_said_finds_weak_matches_at_most(memory: Memory) -> None:
    talk(
        memory, "x", "Please write a test of the parser.", "The parser now has a test, and all of them pass."
    )
    assert found(memory, "what did Petra play at the violin concert in Vienna") == []
    assert matches(memory, "parser of the Viennese violin concert that Petra played yesterday evening") <= {
        "weak"
    }
    assert found(memory, "") == []
    assert "strong" in matches(memory, "parser test")


def test_of_weak_matches_alone_only_three_are_returned(memory: Memory) -> None:
    for number in range(8):
        talk(memory, f"s{number}", f"Please write test number {number} of the other parser for us today.")
    hits = memory.sessions.search("parser of the Viennese violin concert that Petra played at home").hits
    assert [hit.match for hit in hits] == ["weak"] * 3


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.text(max_size=60)
    | st.sampled_from(['"', "a AND NOT", "NEAR(", "x*", "col:", "\0", "\ud800", "^", "{}"])
)
def test_any_string_is_a_legal_question(memory: Memory, query: str) -> None:
    if not memory.sessions.transcripts.list():
        talk(memory, "x", "We chose the purple colour, AND NOT the green one.")
    assert not memory.sessions.search(query).degraded
    assert not memory.search(query, sources=("transcript",)).degraded


def test_words_of_any_script_and_marks_are_found(memory: Memory) -> None:
    talk(memory, "x", "Der Schlüssel liegt unter der MATTE.", "鍵はマットの下です", "We write it in C++ now.")
    assert found(memory, "schlussel") == ["Der Schlüssel liegt unter der MATTE."]
    assert found(memory, "マット") == ["鍵はマットの下です"]
    assert found(memory, "C++") == ["We write it in C++ now."]
    assert matches(memory, "C#") <= {"weak"}


def test_tools_are_found_by_name_argument_and_result_but_not_thoughts_rules_and_asides(
    memory: Memory,
) -> None:
    talk(
        memory,
        "x",
        Message(Role.SYSTEM, (Text("The heron is the system's rule for all of us."),)),
        Message(Role.USER, (Text("The heron is machinery of the harness."),), extra={META: True}),
        "Please look at the files over there.",
        Message(
            Role.ASSISTANT,
            (
                Thinking("The heron is only a thought of mine."),
                ToolCall(
                    "call-1", "read_file", json.dumps({"path": "src/otter.py", "note": "first\nbadger"})
                ),
            ),
        ),
        Message(Role.TOOL, (ToolResult("call-1", (Text("def walrus(): return 7"),)),)),
    )
    assert found(memory, "heron") == []
    for query in ("read_file", "src/otter.py", "badger"):
        hit = memory.sessions.search(query).hits[0]
        assert (hit.role, hit.line, hit.turn) == ("assistant", 5, 1)
    assert memory.sessions.search("walrus").hits[0].role == "tool"


def test_a_page_of_output_that_has_every_word_somewhere_is_no_answer(memory: Memory) -> None:
    filler = " ".join(f"entry{number} of the listing" for number in range(300))
    page = f"violin {filler} Vienna {filler} Petra {filler} concert"
    talk(memory, "x", "Please look.", Message(Role.TOOL, (ToolResult("1", (Text(page),)),)))
    assert matches(memory, "the violin concert of Petra in Vienna") == {"weak"}
    (preview,) = found(memory, "Vienna")
    assert len(preview) <= PREVIEW
    assert "Vienna" in preview


def test_the_middle_of_a_very_long_message_is_found_and_shown(memory: Memory) -> None:
    long = "start " + "filler " * 5000 + "the needle zebra7 is here " + "filler " * 5000
    talk(memory, "x", "Please look at the files.", Message(Role.TOOL, (ToolResult("1", (Text(long),)),)))
    (hit,) = memory.sessions.search("zebra7 needles").hits
    assert "the needle zebra7" in hit.preview
    assert len(hit.preview) <= PREVIEW
    huge = "x" * 50 + " badger " + "word " * 200_000 + " otter"
    talk(memory, "y", Message(Role.TOOL, (ToolResult("1", (Text(huge),)),)))
    assert found(memory, "badger")
    assert found(memory, "otter")  # the end of what is too long to be looked at whole


def test_among_equals_the_newest_session_comes_first_and_a_text_comes_once(
    memory: Memory, tmp_path: Path
) -> None:
    for name, month in (("one", "01"), ("two", "03"), ("three", "02")):
        log = memory.sessions.transcripts.new(id=name)
        path = tmp_path / "home" / log.path
        log.append(MessageEvent(Message(Role.USER, (Text(f"Purple walls are in room {name}."),))))
        log.append(MessageEvent(Message(Role.USER, (Text("We chose the green colour."),))))
        log.append(MessageEvent(Message(Role.USER, (Text("We chose the green colour."),))))
        path.write_text(re.sub(r'"time":"\d{4}-\d\d', f'"time":"2026-{month}', path.read_text()))
    assert [hit.session for hit in memory.sessions.search("purple walls").hits] == ["two", "three", "one"]
    (hit,) = memory.sessions.search("green colour").hits
    assert (hit.session, hit.line) == ("two", 4)


def test_only_so_many_sessions_and_results(memory: Memory) -> None:
    for at in range(4):
        talk(memory, f"s{at}", f"Purple number {at} is here.", f"Purple answer {at} is here.")
    assert len(found(memory, "purple", max_results=3)) == 3
    assert len({hit.session for hit in memory.sessions.search("purple", max_sessions=2).hits}) == 2
    assert found(memory, "purple", max_results=0) == []
    assert memory.sessions.search("purple", ranking="keywords", max_sessions=1).sessions == 1


def test_sessions_have_the_names_that_a_list_of_them_gives(memory: Memory) -> None:
    talk(memory, "", "hello", "Hi.", "Please make the parser faster than it is.", "It is faster.")
    log = talk(memory, "Given", "The parser is slow today.")
    log.append(Renamed("Given again"))
    names = {each.id: each.name for each in memory.sessions.list()}
    hits = memory.sessions.search("parser").hits
    assert {hit.session: hit.title for hit in hits} == names


# -------------------------------------------------------------------- who may see it


def test_nothing_of_another_project_or_agent_is_seen_through_any_door(tmp_path: Path) -> None:
    own = talk(opened(tmp_path), "own", "The heron stands in the pond of ours.")
    other_agent = talk(opened(tmp_path, agent="wren"), "wren", "The heron stands in the pond of the wren.")
    other_project = talk(opened(tmp_path, "elsewhere"), "far", "The heron stands in the pond far away.")
    memory = opened(tmp_path)
    for _ in range(2):
        assert [hit.session for hit in memory.sessions.search("heron pond").hits] == [own.session]
        assert [each.path for each in memory.search("heron pond").results] == [own.path]
        # Looking everywhere takes them in; who looks at home sees no more than before.
        everywhere = memory.sessions.search("heron pond", all=True)
        assert len(everywhere.hits) == everywhere.sessions == 3
    assert memory.get(own.path).lines == 2
    for path in (
        other_agent.path,
        other_project.path,
        "transcripts/nowhere/x.jsonl",
        "transcripts/../config.toml",
    ):
        with pytest.raises(OutsideMemory):
            memory.get(path)
    with pytest.raises(NotVisible):
        opened(tmp_path, origin=Origin.AGENT).sessions.search("heron", all=True)


def test_a_group_sees_its_own_session_and_no_other(tmp_path: Path) -> None:
    private = talk(opened(tmp_path), "own", "The heron stands in the pond of ours.")
    group = opened(tmp_path, session="ours", audience="group")
    log = group.sessions.transcripts.new(id="ours")
    log.append(MessageEvent(Message(Role.USER, (Text("The heron is spoken of in the group."),))))
    for memory in (group, opened(tmp_path, session="ours", audience="group")):
        assert found(memory, "heron") == ["The heron is spoken of in the group."]
        assert memory.sessions.search("heron").sessions == 1
        assert [each.path for each in memory.search("heron").results] == [log.path]
        assert memory.get(log.path).lines == 2
        with pytest.raises(OutsideMemory):
            memory.get(private.path)
    nobody = opened(tmp_path, session="another", audience="group")
    assert nobody.sessions.search("heron") == SessionHits()
    assert not nobody.search("heron").results
    # A private session is not shown to a group that happens to name it.
    named = opened(tmp_path, session=private.session, audience="group")
    assert found(named, "heron") == []
    with pytest.raises(OutsideMemory):
        named.get(private.path)


def test_incognito_finds_nothing_and_leaves_nothing(tmp_path: Path) -> None:
    log = talk(opened(tmp_path), "own", "The heron stands in the pond.")
    memory = opened(tmp_path, incognito=True)
    assert memory.sessions.search("heron").hits == ()
    assert "incognito" in memory.sessions.search("heron").degraded[0]
    assert memory.search("heron", sources=("transcript",)).results == ()
    assert memory.get(log.path).text == ""
    assert not index_of(tmp_path).exists()


# -------------------------------------------------------------------- beside notes


def test_notes_and_messages_that_answer_alike_are_one_list_with_the_notes_first(memory: Memory) -> None:
    for at in range(4):
        memory.store(f"The heron number {at} stands in the pond.", key=f"heron-{at}")
    before = memory.search("heron pond")
    wide = memory.search("heron pond", max_results=20)
    for at in range(9):
        talk(memory, f"s{at}", f"The heron of day {at} stands in the pond, and what a heron pond it is.")
    after = memory.search("heron pond")
    assert after.results[:4] == before.results
    assert [each.source for each in after.results[4:]] == ["transcript"] * 2
    assert after.coverage == before.coverage._replace(sessions=9)
    full = memory.search("heron pond", max_results=4)
    assert full.results == before.results
    assert full.coverage == after.coverage
    more = memory.search("heron pond", max_results=20)
    assert more.results[:4] == wide.results
    assert len(more.results) == 4 + 9
    assert len(memory.search("heron pond", max_results=5).results) == 5
    assert all(each.source == "memory" for each in memory.recall("heron pond").results)


def test_a_home_of_sessions_alone_fills_every_place_with_them(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for at in range(8):
        talk(memory, f"day{at}", f"the harbour crane number {at} needs new cables", "noted")
    assert len(memory.search("harbour crane cables").results) == 6
    assert len(memory.search("harbour crane cables", max_results=8).results) == 8


def test_of_equal_words_those_of_the_user_come_first_and_those_of_a_tool_last(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    line = "the retry budget of the importer is forty seconds"
    printed = Message(Role.TOOL, (ToolResult("c1", (Text(f"{line}, it prints"),)),))
    talk(memory, "told", "what is in the file?", f"{line}, I found", printed)
    talk(memory, "typed", f"{line}, I decided", "noted")
    roles = [hit.role for hit in memory.sessions.search("retry budget importer seconds").hits]
    assert roles == ["user", "assistant", "tool"]


def test_what_people_typed_is_found_where_tools_printed_more_than_is_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session_search, "_DEPTH", 10)
    memory = opened(tmp_path)
    page = Message(Role.TOOL, (ToolResult("c1", (Text("retry budget importer " * 3),)),))
    talk(
        memory,
        "printed",
        *(page._replace(parts=(ToolResult("c", (Text(f"retry importer {at}"),)),)) for at in range(40)),
    )
    talk(
        memory,
        "typed",
        "forty seconds are the budget that we give to a retry of our importer, not more",
        "ok",
    )
    first = memory.sessions.search("retry importer", max_results=1).hits[0]
    assert (first.role, first.title) == ("user", "typed")


def test_output_with_more_of_the_words_than_anything_said_comes_first(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for number in range(20):
        talk(memory, f"m{number}", f"Heron {number} is at the weir.", "The weir is closed.")
    printed = "rebase stopped: could not apply the commit on heron rings"
    talk(
        memory,
        "tool",
        "Go on with the rebase.",
        Message(Role.ASSISTANT, (ToolCall("c1", "shell", "{}"),)),
        Message(Role.TOOL, (ToolResult("c1", (Text(printed),)),)),
    )
    assert found(memory, "could not apply the commit on heron rings")[0] == printed
    assert found(memory, "weir closed")[0] == "The weir is closed."


def test_an_identifier_that_only_a_tool_printed_is_found(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    printed = Message(Role.TOOL, (ToolResult("c1", (Text("exit 1: E4017 the importer gave up"),)),))
    talk(
        memory,
        "work",
        "why did the importer give up?",
        "I look at the importer",
        printed,
        "the importer gave up",
    )
    assert memory.sessions.search("importer gave up E4017").hits[0].role == "tool"


def test_an_index_is_made_for_the_sessions_of_all_projects_of_its_agent(tmp_path: Path) -> None:
    with opened(tmp_path, "shop") as other:
        talk(other, "x", "The otter swims in the river.")
    with opened(tmp_path, "shop", agent="dove") as other:
        talk(other, "y", "The heron stands in the pond.")
    memory = opened(tmp_path)
    assert memory.care.index().files == 0
    with SqliteIndex(index_of(tmp_path), SESSIONS) as index:
        assert [row.title for row in index.rows(index.match((), EVERYTHING, None)).values()] == ["x"]
    assert memory.sessions.search("otter").hits == ()
    assert found(memory, "otter", all=True) == ["The otter swims in the river."]
    memory.care.index(rebuild=True)
    with SqliteIndex(index_of(tmp_path), SESSIONS) as index:
        assert [row.title for row in index.rows(index.match((), EVERYTHING, None)).values()] == ["x"]


def test_a_passage_of_a_session_names_its_line_time_title_and_origin(memory: Memory) -> None:
    log = talk(memory, "Birds", "Where is the heron?", "The heron stands in the pond.")
    answer = memory.search("heron pond", sources=("transcript",), explain=True)
    first = answer.results[0]
    assert (first.path, first.start, first.end, first.title) == (log.path, 3, 3, "Birds")
    assert (first.snippet, first.origin, first.source) == (
        "The heron stands in the pond.",
        "tool",
        "transcript",
    )
    assert first.time
    assert first.relevance == 1
    assert first.arithmetic
    assert answer.mode == "bm25"
    assert answer.coverage.sessions == 1
    assert memory.get(first.path, start=first.start, lines=1).text.count("stands in the pond") == 1


def test_filters_hold_for_sessions_too(memory: Memory, tmp_path: Path) -> None:
    for name, day in (("old", "2026-03-01"), ("new", "2026-09-01")):
        log = memory.sessions.transcripts.new(id=name)
        log.append(
            MessageEvent(Message(Role.USER, (Text(f"The heron is {name}."),), time=f"{day}T10:00:00+02:00"))
        )

    def paths(query: str, **given: Any) -> list[str]:
        results = memory.search(query, sources=("transcript",), **given).results
        return [each.path.rpartition("/")[2] for each in results]

    assert sorted(paths("heron")) == ["new.jsonl", "old.jsonl"]
    assert paths("heron", as_of="2026-05-01") == ["old.jsonl"]
    assert paths("heron", as_of="2026-03-01T07:59:59Z") == []
    assert paths("heron", as_of="2026-03-01T08:00:00Z") == ["old.jsonl"]
    assert paths("heron after:2026-05-01") == ["new.jsonl"]
    assert paths("heron before:2026-05-01") == ["old.jsonl"]
    assert paths("heron path:old") == ["old.jsonl"]
    assert paths("heron", sort_by="recency") == ["new.jsonl", "old.jsonl"]
    assert paths("heron", mode="metadata") == paths("") == ["new.jsonl", "old.jsonl"]
    assert paths("heron", scope="project")
    assert paths("heron", scope="global") == paths("heron", type="user") == paths("heron tag:x") == []
    assert paths("heron is", min_score=1.0)
    assert paths("heron in a barn", min_score=1.0) == []
    assert "keywords only" in memory.search("heron", mode="vector", sources=("transcript",)).degraded[0]
    assert not memory.search("heron", mode="metadata").results
    assert memory.search("heron", as_of="2026-05-01").results[0].path.endswith("old.jsonl")


@pytest.mark.parametrize("ranking", ["relevance", "keywords"])
def test_a_search_of_sessions_alone_has_the_filters_of_messages_in_both_rankings(
    memory: Memory, ranking: str
) -> None:
    for name, day in (("old", "2026-03-01"), ("new", "2026-09-01")):
        log = memory.sessions.transcripts.new(id=name)
        for role in (Role.USER, Role.ASSISTANT):
            text = f"The heron of the {role} is {name}."
            log.append(MessageEvent(Message(role, (Text(text),), time=f"{day}T10:00:00Z")))

    def seen(query: str, **given: Any) -> set[tuple[str, str]]:
        found = memory.sessions.search(query, ranking=ranking, **given)
        return {(hit.session, hit.role) for hit in found.hits}

    old, new = {("old", "user"), ("old", "assistant")}, {("new", "user"), ("new", "assistant")}
    assert seen("heron") == old | new
    assert seen("heron by:user") == seen("heron by:human") == {("old", "user"), ("new", "user")}
    assert seen("heron by:agent") == {("old", "assistant"), ("new", "assistant")}
    assert seen("heron by:tool") == set()
    assert seen("heron after:2026-05") == seen("heron path:new") == new
    assert seen("heron before:2026-05") == seen("heron", now="2026-06-01") == old
    assert seen("heron before:2027", now="2026-06-01") == old | new
    unfit = memory.sessions.search("type:decision heron", ranking=ranking)
    assert unfit.notes[0] == "'type:decision' filters notes alone and was searched as words"


def test_indexing_tells_how_far_it_is_within_a_long_session(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(following, "_MB", 1)
    monkeypatch.setattr(following, "_BATCH", 100)
    log = talk(memory, "long", *(f"The heron number {each} stands still." for each in range(20)))
    size = os.path.getsize(memory.home.path / log.path)
    told: list[tuple[int, int]] = []
    memory.care.index(progress=lambda what, *far: told.append(far) if what == "MB of sessions" else None)
    assert len(told) > 3
    assert told == sorted(told)
    assert told[-1] == (size, size)


def test_an_agent_gets_a_message_with_its_role_and_without_what_its_path_says(memory: Memory) -> None:
    talk(memory, "one", "The heron is grey.", "It stands still.")
    memory.store("The heron has a nest.")
    found = search_answer(memory.search("heron"), 20_000)["results"]
    message, note = sorted(found, key=lambda each: not each["path"].startswith("transcripts/"))
    assert message["role"] == "user"
    assert not {"source", "origin"} & set(message)
    assert (note["source"], note["origin"]) == ("memory", "user")


def test_filters_without_words_list_the_newest_messages(memory: Memory) -> None:
    talk(memory, "one", "The heron is grey.", "It stands still.", "Is it asleep?")
    assert found(memory, "by:user") == ["Is it asleep?", "The heron is grey."]
    assert found(memory, "") == []


def test_without_sessions_no_file_is_made_and_nothing_is_loaded(tmp_path: Path) -> None:
    script = (
        "import sys; from vademecum.memory import connect\n"
        "m = connect(home=sys.argv[1], cwd=sys.argv[2], environ={'VADE_EMBEDDER': 'none'})\n"
        "m.store('The heron stands in the pond.'); print(m.search('heron').coverage)\n"
        "print([name for name in sys.modules if name.startswith('vademecum.transcripts')])"
    )
    (tmp_path / "work").mkdir()
    call = [sys.executable, "-c", script, str(tmp_path / "home"), str(tmp_path / "work")]
    said = subprocess.run(call, capture_output=True, text=True, check=True, timeout=60).stdout.splitlines()
    assert said[0].endswith("sessions=0, sessions_read=0, sessions_unread=0, read=0, unread=0)")
    assert said[1] == "[]"
    memory = opened(tmp_path)
    memory.care.index()
    assert not memory.sessions.search("heron").hits
    assert not index_of(tmp_path).exists()


# -------------------------------------------------------------------- lines by path


def test_lines_of_a_session_are_read_by_path_without_holding_it_whole(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = talk(memory, "x", "One is here now.", "Two is here now.", "Three is here now.")
    whole = (tmp_path / "home" / log.path).read_text().splitlines()
    assert memory.get(log.path).text.splitlines() == whole
    part = memory.get(str(tmp_path / "home" / log.path), start=2, lines=2)
    assert part.text.splitlines() == whole[1:3]
    assert (part.path, part.start, part.end, part.lines) == (log.path, 2, 3, 4)
    assert memory.get(log.path, start=9).text == ""
    monkeypatch.setattr(lookup, "MOST", 300)
    monkeypatch.setattr(lookup, "BLOCK", 64)
    first = memory.get(log.path)
    assert first.text.splitlines() == whole[: first.end]
    assert 1 <= first.end < 4
    assert first.lines == 4
    with (tmp_path / "home" / log.path).open("ab") as file:
        file.write(b"\n\xff torn")
    last = memory.get(log.path, start=5)
    assert (last.text, last.end, last.lines) == ("\n\ufffd torn", 6, 6)


def test_a_session_that_is_no_file_of_its_own_is_refused(memory: Memory, tmp_path: Path) -> None:
    log = talk(memory, "x", "One is here now.")
    (tmp_path / "home" / log.path).with_name("led.jsonl").symlink_to("/etc/hostname")
    folder = log.path.rpartition("/")[0]
    for name in ("led.jsonl", "none.jsonl", "x y.jsonl", f"{log.session}.md", "", "a/b.jsonl"):
        with pytest.raises(OutsideMemory):
            memory.get(f"{folder}/{name}")


# -------------------------------------------------------------------- following


def test_of_a_log_that_has_grown_only_the_new_lines_are_read(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = talk(memory, "x", "The heron stands in the pond.")
    assert found(memory, "heron")
    starts: list[tuple[int, int]] = []
    real = Log.raw

    def spied(self: Log, start: int = 0, number: int = 1) -> Any:
        starts.append((start, number))
        return real(self, start, number)

    monkeypatch.setattr(Log, "raw", spied)
    assert found(memory, "heron")
    assert starts == []
    size = (memory.home.path / log.path).stat().st_size
    log.append(MessageEvent(Message(Role.USER, (Text("The otter swims in the river."),))))
    starts.clear()
    (hit,) = memory.sessions.search("otter").hits
    assert (hit.line, hit.turn) == (3, 2)
    assert starts == [(size, 3)]


def test_a_line_that_is_still_being_written_is_found_once_it_is_whole(memory: Memory, tmp_path: Path) -> None:
    log = talk(memory, "x", "The heron stands in the pond.")
    path = tmp_path / "home" / log.path
    line = path.read_bytes().splitlines()[1].replace(b"heron", b"otter") + b"\n"
    with path.open("ab") as file:
        file.write(line[:40])
    assert found(memory, "otter") == []
    with path.open("ab") as file:
        file.write(line[40:])
    assert [hit.line for hit in memory.sessions.search("otter").hits] == [3]


def test_what_was_purged_deleted_or_written_over_is_not_found_any_more(
    memory: Memory, tmp_path: Path
) -> None:
    log = talk(memory, "x", "The secret heron stands in the pond.", "The otter swims in the river.")
    gone = talk(memory, "y", "The secret heron sleeps in the barn.")
    assert len(found(memory, "secret heron")) == 2
    other = opened(tmp_path)
    assert len(found(other, "secret heron")) == 2  # has the file open while the purge takes it away
    memory.archive.purge_text("secret heron")
    assert not index_of(tmp_path).exists()
    for each in (memory, other):
        assert found(each, "secret heron") == []
        assert found(each, "otter")
    (tmp_path / "home" / gone.path).unlink()
    assert found(memory, "barn") == []
    path = tmp_path / "home" / log.path
    path.write_bytes(path.read_bytes().replace(b"otter swims", b"moose walks"))  # as long as before, in place
    assert found(memory, "otter") == []
    assert found(memory, "moose")
    assert {item for item, _ in held(index_of(tmp_path))} == {log.path}


def test_an_edit_that_nothing_shows_is_never_shown_as_it_was(memory: Memory, tmp_path: Path) -> None:
    filler = ["Nothing at all is said about birds here. " * 30] * 6
    log = talk(memory, "x", *filler, "The heron stands in the pond.", *filler)
    assert found(memory, "heron")
    path = tmp_path / "home" / log.path
    more = path.read_bytes().splitlines(keepends=True)[1]
    path.write_bytes(
        path.read_bytes().replace(b"heron", b"moose") + more
    )  # the same inode, longer, ends alike
    assert found(memory, "heron") == []
    assert found(memory, "moose") == ["The moose stands in the pond."]
    path.write_bytes(path.read_bytes().replace(b"moose", b"otter") + more)
    memory.sessions.search("nothing")
    assert "indexed again" in " ".join(memory.care.index(check=True).degraded)
    assert found(memory, "otter")
    assert held(index_of(tmp_path)) == made_anew(tmp_path)


def test_an_index_is_its_owners_alone_and_rebuilds_check_and_status_count_sessions(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("The heron stands in the pond.")
    talk(memory, "x", "The otter swims in the river.")
    coverage = memory.status().coverage
    assert coverage is not None
    assert (coverage.files, coverage.pending, coverage.indexed) == (2, 2, 0)
    report = memory.care.index()
    assert (report.files, report.indexed, report.changed) == (2, 2, 2)
    assert stat.S_IMODE(index_of(tmp_path).stat().st_mode) == 0o600
    coverage = memory.status().coverage
    assert coverage is not None
    assert (coverage.files, coverage.pending, coverage.indexed) == (2, 0, 2)
    before = held(index_of(tmp_path))
    assert memory.care.index(check=True).degraded == []
    report = memory.care.index(rebuild=True)
    assert (report.files, report.indexed) == (2, 2)
    assert held(index_of(tmp_path)) == before == made_anew(tmp_path)
    memory.close()
    index_of(tmp_path).unlink()
    assert found(memory, "otter")
    assert sorted(path.name for path in index_of(tmp_path).parent.glob("*.new*")) == []


def test_a_session_that_cannot_be_read_is_named_and_the_others_answer(memory: Memory, tmp_path: Path) -> None:
    log = talk(memory, "x", "The otter swims in the river.")
    (tmp_path / "home" / log.path).with_name("led-astray.jsonl").symlink_to("/dev/null")
    (tmp_path / "home" / log.path).with_name("bad name.jsonl").write_text("{}")
    answer = memory.sessions.search("otter")
    assert len(answer.hits) == answer.sessions == 1
    assert "2 sessions could not be read" in answer.degraded[0]
    assert len(memory.care.index().findings) == 2


def test_what_does_not_fit_into_the_time_is_said_and_made_up_for(tmp_path: Path) -> None:
    slow = opened(tmp_path, environ={"VADE_LIMITS_OPEN": "0.001"})
    for at in range(6):
        talk(slow, f"s{at}", *[f"The otter {at}-{each} swims in the river." for each in range(20)])
    answer = slow.sessions.search("otter")
    assert "not indexed yet; run `vade index`" in answer.degraded[0]
    assert answer.sessions < 6
    assert slow.search("otter").degraded
    assert slow.care.index().pending == 0
    assert slow.sessions.search("otter").sessions == 6
    assert not slow.sessions.search("otter").degraded
    assert held(index_of(tmp_path)) == made_anew(tmp_path)


# -------------------------------------------------------------------- when something is broken


def test_a_damaged_index_is_made_anew_and_says_so(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    for at in range(20):
        talk(
            memory,
            f"s{at}",
            *[f"The otter {at}-{each} swims in the river {at * each}." for each in range(20)],
        )
    memory.care.index(rebuild=True)
    memory.close()
    path = index_of(tmp_path)
    content = bytearray(path.read_bytes())
    for at in range(4096, len(content), 4096):
        content[at + 100 : at + 120] = b"\xaa" * 20
    path.write_bytes(content)
    fresh = opened(tmp_path)
    answer = fresh.sessions.search("otter")
    assert len(answer.hits) == 5
    assert "rebuilt" in answer.degraded[0]
    assert not fresh.sessions.search("otter").degraded
    assert held(path) == made_anew(tmp_path)
    for rubbish in (b"", b"not a database at all" * 1000):
        fresh.close()
        path.write_bytes(rubbish)
        assert len(fresh.sessions.search("otter").hits) == 5
        fresh._finder.earlier._file.without_until = 0.0


def test_an_index_of_a_newer_version_is_set_aside_and_made_anew(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    talk(memory, "x", "The otter swims in the river.")
    memory.care.index()
    memory.close()
    connection = apsw.Connection(str(index_of(tmp_path)))
    connection.execute("pragma user_version = 99")
    connection.close()
    before = index_of(tmp_path).read_bytes()
    answer = opened(tmp_path).sessions.search("otter")
    assert "made by a newer version of vade" in answer.degraded[0]
    assert len(opened(tmp_path).sessions.search("otter").hits) == 1
    assert index_of(tmp_path).with_name(f"{index_of(tmp_path).name}.aside").read_bytes() == before


def test_an_index_that_another_process_holds_is_done_without(tmp_path: Path) -> None:
    memory = opened(tmp_path, environ={"VADE_LIMITS_OPEN": "0.3"})
    log = talk(memory, "x", "The otter swims in the river.")
    assert found(memory, "otter")
    holder = SqliteIndex(index_of(tmp_path), SESSIONS)
    holder._connection.execute("begin immediate")
    log.append(MessageEvent(Message(Role.USER, (Text("The heron stands in the pond."),))))
    answer = memory.sessions.search("heron")
    holder._connection.execute("rollback")
    holder.close()
    assert [hit.line for hit in answer.hits] == [3]
    assert "by scanning files" in answer.degraded[0]


def test_a_folder_for_the_index_that_cannot_be_made_is_done_without(memory: Memory, tmp_path: Path) -> None:
    talk(memory, "x", "The otter swims in the river.")
    (tmp_path / "home" / "index").write_text("in the way")
    answer = memory.sessions.search("otter")
    assert len(answer.hits) == 1
    assert "by scanning files" in answer.degraded[0]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_both_sides_of_a_fork_go_on_searching(memory: Memory) -> None:
    log = talk(memory, "x", "The otter swims in the river.")
    assert found(memory, "otter")
    child = os.fork()
    if not child:
        log.append(MessageEvent(Message(Role.USER, (Text("The heron stands in the pond."),))))
        os._exit(0 if len(found(memory, "heron")) == 1 else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert len(found(memory, "heron")) == 1
    assert found(memory, "otter")


# -------------------------------------------------------------------- whatever happens to the logs


class Life:
    """What may happen to the logs of a home, one thing after the other."""

    def __init__(self, base: Path, seed: int) -> None:
        self.base, self.rng = base, random.Random(seed)
        self.memory = opened(base)
        self.count = 0

    @property
    def logs(self) -> list[Path]:
        return sorted((self.base / "home" / "transcripts").rglob("*.jsonl"))

    def step(self) -> None:
        added = (self.begin, *[self.say] * 6, self.tear, self.foreign, self.rename, self.repeat)
        changed = (self.cut, self.rewrite, self.delete)
        self.rng.choice((*added, *changed, self.look, self.look))()

    def words(self) -> str:
        self.count += 1
        some = self.rng.choices(
            ["heron", "otter", "moose", "stands", "鍵はマット", "in", "C++", "pond"],
            k=self.rng.choice([3, 9, 900]),
        )
        return f"w{self.count} {' '.join(some)}"

    def begin(self) -> None:
        agent = self.rng.choice(["robin", "robin", "wren"])
        talk(opened(self.base, agent=agent), self.rng.choice(["", "Named"]), self.words())

    def log(self) -> Any:
        path = self.rng.choice(self.logs) if self.logs else None
        return None if path is None else self.memory.sessions.transcripts._log(path.parent.name, path.stem)

    def say(self) -> None:
        if log := self.log():
            role = self.rng.choice([Role.USER, Role.ASSISTANT, Role.TOOL, Role.SYSTEM])
            part = ToolResult("1", (Text(self.words()),)) if role is Role.TOOL else Text(self.words())
            log.append(MessageEvent(Message(role, (part,))))

    def foreign(self) -> None:
        if log := self.log():
            log.append(Unknown(name="from_tomorrow", fields={"heron": 1}))

    def rename(self) -> None:
        if log := self.log():
            log.append(Renamed(f"Called {self.words()[:20]}"))

    def tear(self) -> None:
        self.change(
            lambda content: (
                content + self.rng.choice([b'{"seq":7,"kind":"mess', b"\n", b"\xff\x00\n", b"[]\n"])
            )
        )

    def repeat(self) -> None:
        self.change(lambda content: content + b"\n".join(content.split(b"\n")[1:3]) + b"\n")

    def cut(self) -> None:
        self.change(lambda content: content[: self.rng.randrange(len(content) + 1)])

    def rewrite(self) -> None:
        """As a purge does: another file under the same name."""
        if self.logs:
            path = self.rng.choice(self.logs)
            new = path.with_name("new")
            new.write_bytes(path.read_bytes().replace(b"heron", b"[purged]"))
            new.replace(path)

    def delete(self) -> None:
        if len(self.logs) > 2:
            self.rng.choice(self.logs).unlink()

    def change(self, how: Any) -> None:
        if self.logs:
            path = self.rng.choice(self.logs)
            state = path.stat()
            path.write_bytes(how(path.read_bytes()))
            os.utime(path, ns=(state.st_atime_ns, state.st_mtime_ns + 1_000_000))

    def look(self) -> None:
        memory = self.memory if self.rng.random() < 0.7 else opened(self.base)
        memory.sessions.search(self.rng.choice(["heron", "moose pond", "マット"]))


@pytest.mark.full(but=2)
@pytest.mark.parametrize(
    "seed", [*range(6), *[pytest.param(each, marks=pytest.mark.soak) for each in range(6, 200)]]
)
def test_following_from_any_state_gives_what_a_rebuild_gives(tmp_path: Path, seed: int) -> None:
    life = Life(tmp_path, seed)
    for _ in range(12):
        for _ in range(6):
            life.step()
        if life.logs:
            life.memory.care.index()
            assert _ours(held(index_of(tmp_path))) == _ours(made_anew(tmp_path))


def _ours(everything: dict[Any, Any]) -> dict[Any, Any]:
    """Without how far another agent's log was looked at, and its stamp: only its beginning is."""
    states = {item: state for (item, order), state in everything.items() if order is None}
    return {key: kept for key, kept in everything.items() if json.loads(states[key[0]])[2] == "robin"}


# -------------------------------------------------------------------- many processes, and killed ones


def child(base: Path, what: str) -> subprocess.Popen[str]:
    call = [sys.executable, __file__, str(base), what]
    return subprocess.Popen(call, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def act(base: Path, what: str) -> None:
    """What a process of its own does."""
    memory = opened(base)
    if what == "index":
        following._BATCH = 20_000  # many transactions, any of which may be the last
        print("begun", flush=True)
        memory.care.index(rebuild=False)
    else:
        for number in range(8):
            log = talk(memory, f"{what}-{number}", f"The otter {what}x{number} swims in the river.")
            hits = memory.sessions.search(f"{what}x{number}").hits
            assert [hit.session for hit in hits] == [log.session], memory.sessions.search(f"{what}x{number}")


@pytest.mark.full
@pytest.mark.parametrize("rounds", [3, pytest.param(60, marks=pytest.mark.soak)])
def test_a_process_killed_while_it_takes_sessions_in_leaves_an_index_that_answers_right(
    tmp_path: Path, rounds: int
) -> None:
    rng = random.Random(7)
    memory = opened(tmp_path)
    log = talk(memory, "x", "The needle zebra7 lies here.")
    lines = [
        MessageEvent(Message(Role.USER, (Text(f"The otter {each} swims. " * 40),))) for each in range(500)
    ]
    log.extend(lines)
    for _ in range(rounds):
        index_of(tmp_path).unlink(missing_ok=True)
        process = child(tmp_path, "index")
        assert process.stdout is not None
        assert process.stdout.readline() == "begun\n"
        time.sleep(rng.random() * 0.15)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        fresh = opened(tmp_path)
        assert [hit.line for hit in fresh.sessions.search("zebra7").hits] == [2]
        assert fresh.care.index(check=True).degraded == []
        assert [hit.line for hit in fresh.sessions.search("otter 499 swims", max_results=1).hits] == [502]
        fresh.close()
    assert held(index_of(tmp_path)) == made_anew(tmp_path)


@pytest.mark.full
def test_processes_that_write_and_search_at_once_find_their_own_words_at_once(tmp_path: Path) -> None:
    opened(tmp_path).close()
    children = [child(tmp_path, f"w{number}") for number in range(3)]
    said = [process.communicate(timeout=120)[0] for process in children]
    assert [process.returncode for process in children] == [0] * 3, said
    opened(tmp_path).care.index()
    assert held(index_of(tmp_path)) == made_anew(tmp_path)


def test_a_look_that_began_before_a_log_grew_leaves_what_others_took_in_meanwhile_in_place(
    tmp_path: Path,
) -> None:
    mine, other = opened(tmp_path), opened(tmp_path)
    log = talk(mine, "x")
    view = following.LogFilter(tuple(mine.home.names("transcripts")), "robin")
    there, wrong = following.list_logs(mine.home, view)
    log.append(MessageEvent(Message(Role.USER, (Text("The otter swims in the river."),))))
    assert found(other, "otter")
    index = SqliteIndex(index_of(tmp_path), SESSIONS)
    before = index.match((), EVERYTHING, None)
    seen = following.update_index(mine.home, index, view, there, wrong, until=None, progress=None)
    assert (seen.changed, seen.pending) == (0, 0)
    assert index.match((), EVERYTHING, None).keys() == before.keys()  # not taken out and in again
    index.close()


# -------------------------------------------------------------------- parts


@given(st.text(alphabet="ab \n鍵", max_size=12_000))
@settings(max_examples=50, deadline=None)
def test_pieces_cover_a_text_and_none_is_long(text: str) -> None:
    reached = 0
    for at, length in following.split_text(text):
        assert at <= reached
        assert length <= following.PIECE
        reached = max(reached, at + length)
    assert reached == len(text)


@given(st.text(max_size=3_000), st.lists(st.text(min_size=1, max_size=8), max_size=4))
def test_what_is_shown_is_a_part_of_the_text_of_bounded_size(text: str, asked: list[str]) -> None:
    cut = window(text, asked)
    assert len(cut) <= PREVIEW
    assert cut == text or cut.removeprefix("… ").removesuffix(" …") in text


if __name__ == "__main__":
    act(Path(sys.argv[1]), sys.argv[2])
