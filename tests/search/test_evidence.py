"""Conversations in an answer: their hits are one result, with what else was said there, in few characters."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from bench import updates

from vademecum.memory import Memory, connect
from vademecum.search.base import Passage
from vademecum.search.evidence import OtherTurn, cut, gather, repetitions, shortened
from vademecum.search.updates import find_newer, states_another_value
from vademecum.transcripts import Message, Role, Text
from vademecum.types import Origin, Place, Scope

if TYPE_CHECKING:
    from pathlib import Path

TALK = (
    ("user", "I am looking for a new pan for my kitchen. Which material lasts longest?"),
    ("assistant", "Cast iron lasts for decades if it is kept dry and oiled."),
    ("user", "Good. By the way, I bought the copper kettle for 80 euros in Lisbon."),
    ("assistant", "A copper kettle from Lisbon is a fine thing; polish it now and then."),
    ("user", "How do I clean burnt milk out of a pan?"),
)


def opened(tmp_path: Path, **environ: str) -> Memory:
    work = tmp_path / "work"
    work.mkdir(exist_ok=True)
    environ = {"VADE_EMBEDDER": "none"} | environ
    return connect(home=tmp_path / "home", cwd=work, origin=Origin.USER, environ=environ)


def talk(memory: Memory, name: str, turns: tuple[tuple[str, str], ...] = TALK) -> None:
    log = memory.sessions.new(name=name)
    messages = [
        Message(Role(role), (Text(text),), time=f"2026-03-04T10:{minute:02}:00Z")
        for minute, (role, text) in enumerate(turns)
    ]
    memory.sessions.record(log, messages)


def passage(text: str, path: str = "a.md", role: str = "", line: int = 1) -> Passage:
    return Passage(path, line, line, text, 1.0, 1.0, "journal", Place(Scope.GLOBAL), {}, role=role)


# --- one list -----------------------------------------------------------------------------------------------


def test_a_home_of_sessions_alone_fills_every_place_with_another_conversation(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for number in range(8):
            talk(memory, f"talk {number}", (("user", f"The kettle number {number} is made of copper."),))
        found = memory.search("copper kettle")
        assert len({each.path for each in found.results}) == 6


def test_a_message_that_answers_comes_before_notes_that_do_not(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for number in range(8):
            memory.store(f"The kettle in room {number} has a lid.", key=f"room-{number}")
        talk(memory, "shopping")
        found = memory.search("price of the copper kettle bought in Lisbon").results
        assert (found[0].source, found[0].role) == ("transcript", "user")
        assert [each.score for each in found] == sorted((each.score for each in found), reverse=True)


# --- one result ---------------------------------------------------------------------------------------------


def test_the_hits_of_a_conversation_are_one_result_with_what_else_the_user_said(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        talk(memory, "shopping")
        memory.store("The kettle is descaled on Mondays.", key="kettle")
        found = memory.search("copper kettle Lisbon", max_results=2)
        (conversation,) = found.conversations
        assert (conversation.title, conversation.time[:10]) == ("shopping", "2026-03-04")
        hits = [each for each in found.results if each.group == conversation.group]
        assert {each.role for each in hits} == {"user", "assistant"}
        assert [each.key for each in found.results if not each.group] == ["kettle"]
        said = " ".join(turn.text for turn in conversation.turns if turn.role == "user")
        assert "new pan" in said
        assert "burnt milk" in said
        assert not {turn.line for turn in conversation.turns} & {each.start for each in hits}


def test_turns_in_a_journal_are_a_conversation_too(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for role, text in TALK:
            memory.note(f"{role}: {text}")
        found = memory.search("copper kettle Lisbon", max_results=1)
        (conversation,) = found.conversations
        assert {each.group for each in found.results} == {conversation.group}
        assert any("burnt milk" in turn.text for turn in conversation.turns)


def test_an_answer_keeps_to_its_characters_and_without_a_limit_cuts_nothing(tmp_path: Path) -> None:
    long = "The copper kettle stands on the upper shelf beside the door. " * 30
    with opened(tmp_path) as memory:
        for number in range(6):
            talk(memory, f"talk {number}", (*TALK, ("user", f"{number} {long}")))
        found = memory.search("copper kettle", chars=300)
        size = sum(len(each.snippet) for each in found.results)
        size += sum(len(turn.text) for each in found.conversations for turn in each.turns)
        assert size <= 6 * 300 * 1.2
        whole = memory.search("copper kettle", chars=0)
        assert max(len(each.snippet) for each in whole.results) >= len(long)


# --- which texts --------------------------------------------------------------------------------------------


def test_equal_and_nearly_equal_texts_come_once(tmp_path: Path) -> None:
    fact = "The copper kettle from Lisbon stands on the upper shelf beside the old brass scales and the mill"
    texts = [f"{fact}.", f"{fact}!", f"{fact} now.", fact.replace("from", "of")]
    assert repetitions([("journal", text) for text in texts]) == {1, 2}
    assert repetitions([("memory", text) for text in texts]) == set()
    unlike = [f"{fact} 3 times", f"{fact} 4 times", f"{fact}, not"]
    assert repetitions([("journal", text) for text in unlike]) == set()
    with opened(tmp_path) as memory:
        memory.store(f"{fact}.", key="kettle")
        for name in ("one", "two"):
            talk(memory, name, (("user", f"{fact}!"),))
        found = memory.search("copper kettle shelf")
        assert [each.key for each in found.results if "Lisbon" in each.snippet] == ["kettle"]


def test_by_names_who_said_or_wrote_it(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        talk(memory, "shopping")
        memory.store("The copper kettle is descaled on Mondays.", key="kettle")
        assert {each.role for each in memory.search("copper kettle by:user").results} == {"user", ""}
        assert {each.role for each in memory.search("copper kettle by:assistant").results} == {"assistant"}
        assert memory.search("copper kettle by:tool").results == ()


def test_nothing_of_a_later_day_than_now_answers_unless_it_is_asked_for(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        talk(memory, "shopping")  # on 4 March 2026
        assert memory.search("copper kettle", now="2026-03-04T08:00").results
        assert memory.search("copper kettle", now="2026-03-03").results == ()
        assert memory.sessions.search("copper kettle", now="2026-03-03").hits == ()
        assert memory.search("copper kettle after:2026-03-01", now="2026-03-03").results


@pytest.mark.parametrize("order", ["recency", "usage"])
def test_an_order_puts_weak_matches_behind_the_one_that_answers(tmp_path: Path, order: Any) -> None:
    with opened(tmp_path) as memory:
        folder = (memory.home.path / memory.store("Nothing.", key="nothing").path).parent
        for number in range(9):
            text = "The kettle." if number else "The copper kettle was bought in Lisbon for 80 euros."
            entry = f"# k\n\n## 2026-0{1 + number}-01T10:00:00Z\n{text} {number}\n"
            (folder / f"k-{number}.md").write_text(entry)
        found = memory.search("copper kettle bought in Lisbon for euros", sort_by=order, max_results=3)
        assert found.results[0].key == "k-0"


def test_the_newer_of_two_values_comes_first_and_the_older_says_where_it_is(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        folder = (memory.home.path / memory.store("Nothing.", key="nothing").path).parent
        for key, day, text in (
            ("old", "2026-03-01", "I was pre-approved for a mortgage of $350,000."),
            ("new", "2026-05-01", "I was pre-approved for a mortgage of $400,000."),
            ("other", "2026-06-01", "I paid a deposit of $35,000 for the mortgage."),
        ):
            (folder / f"{key}.md").write_text(f"# {key}\n\n## {day}T10:00:00Z\n{text}\n")
        found = memory.search("mortgage of $350,000 pre-approved").results
        keys = [each.key for each in found if each.key != "other"]
        assert keys == ["new", "old"]
        newer = {each.key: each.newer for each in found}
        assert newer["old"].endswith("records/new.md#L1")
        assert (newer["new"], newer["other"]) == ("", "")


def test_hints_of_newer_values_are_right_on_the_labelled_statements() -> None:
    for row in updates.measure():
        assert (row["precision"] >= 0.9, row["recall"] >= 0.5, row["pairs"] >= 100) == (True, True, True)
    wish = "I'm looking for some advice on my wardrobe.", "I'm looking for some advice on my garden."
    assert not states_another_value(*wish)


def test_small_talk_of_people_with_names_is_no_newer_value() -> None:
    talk = [
        "Nora: Hey Tim! That sounds great! It's so good to hear from you.",
        "Nora: Wow, Tim, that's lovely. I felt very calm. [image: a photo of a grey heron]",
        "Tim: Yeah, it's tough. Thanks, Nora. [image: a photo of a white heron]",
        "Nora: Yeah, same here, Tim. It was so exciting. [image: a photo of a white stork]",
        "Tim: Your garden is big.",
        "Nora: Your kitchen is big.",
    ]
    assert not find_newer([(text, f"2026-01-{day:02}") for day, text in enumerate(talk, start=1)])
    ages = ["Nora: My rent for the flat is 900 euros.", "Nora: My rent for the flat is 950 euros."]
    assert states_another_value(*ages)
    assert not states_another_value(ages[0], ages[1].replace("Nora", "Tim"))
    assert states_another_value(*(each.replace("Nora", "user") for each in ages))


def test_a_question_that_counts_gets_more_results_and_says_so(tmp_path: Path) -> None:
    with opened(tmp_path) as memory:
        for number in range(12):
            memory.store(f"The kettle number {number} is made of metal {number}.", key=f"kettle-{number}")
        found = memory.search("how many kettles are there?")
        assert len(found.results) == 9
        assert "up to 9 results" in found.notes[0]
        assert len(memory.search("how many kettles are there?", max_results=4).results) == 4
        assert len(memory.search("the kettles").results) == 6


# --- texts --------------------------------------------------------------------------------------------------

FACT = (
    "We talked about the weather for a while. What did the kettle cost? I paid 80 euros for it. "
    "Later we went home. It rained all evening and nobody wanted to go out."
)


@pytest.mark.parametrize("size", [60, 80, 120])
def test_a_cut_text_ends_after_the_fact_that_follows_the_words(size: int) -> None:
    shown = cut(FACT, ["kettle", "cost"], size)
    assert "kettle cost? I paid 80 euros for it." in shown
    assert len(shown) <= size + 4


def test_a_long_sentence_is_cut_between_words_around_the_word() -> None:
    text = "so " * 200 + "the kettle " + "and " * 200
    shown = cut(text, ["kettle"], 100)
    assert "the kettle" in shown
    assert shown.startswith("… ")
    assert shown.endswith(" …")
    assert len(shown) <= 104


def test_a_short_turn_keeps_statements_before_questions() -> None:
    text = "Can you help me with a plan? What is good for beginners? I ran 12 km on Sunday. And the shoes?"
    assert shortened(text, 30) == "… I ran 12 km on Sunday. …"
    assert shortened(text, 400) == text


def test_the_first_results_get_most_of_the_characters() -> None:
    texts = [passage("One sentence more. " * 40, f"{at}.md") for at in range(6)]
    found, _ = gather(texts, {}, ["sentence"], chars=2_400)
    sizes = [len(each.snippet) for each in found]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] > sizes[-1]
    assert sum(sizes) <= 2_400


def test_other_turns_are_those_nearest_to_the_hit_in_their_order() -> None:
    hit = passage("The kettle.", "talk.md", "user", line=10)
    text = "More of that. " * 10
    turns = [OtherTurn(line, "user", "", lambda: text) for line in range(0, 40, 2) if line != 10]
    _, (conversation,) = gather([hit], {"talk.md": turns}, ["kettle"], chars=700)
    lines = [turn.line for turn in conversation.turns]
    assert lines == sorted(lines)
    assert {8, 12} <= set(lines)
    assert 38 not in lines
