"""Who speaks in a passage, whether it asks, and what it tells of."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.index import words
from vademecum.index.words import NUMBER, TIME, all_in
from vademecum.search import rank
from vademecum.text import WORD


@every_case(
    ("text", "who"),
    [
        ("Caroline: I went to the lake.", "caroline"),
        ("**Ana Lima:** the port is 8080", "ana lima"),
        ("**Ana Lima**: the port is 8080", "ana lima"),
        ("- Omar: done", "omar"),
        ("user: what is on?", "user"),
        ("Assistant: here it is", "assistant"),
        ("田中：了解しました", "田中"),
        ("O'Neil: fine", "o'neil"),
        ("Note: the port is 8080", None),
        ("TODO: ask Omar", None),
        ("Root cause: a full disk", None),
        ("Next steps: none", None),
        ("the port: 8080", None),
        ("https://example.org/a", None),
        ("12:30 lunch", None),
        ("Caroline went to the lake: it was cold.", None),
        ("", None),
    ],
)
def test_a_speaker_stands_before_the_first_colon(text: str, who: str | None) -> None:
    assert words.speaker(text) == who


@every_case(
    ("text", "share"),
    [
        ("Where is it?", 100),
        ("It is here. Where is that?", 50),
        ("It is here", 0),
        ("Who? Me? No.", 67),
        ("user: hello there\nwhere is the key?", 50),
        ("どこですか？ここです。", 50),
        ('"Where?" he said. Nobody knew.', 33),
        ("??", 0),
        ("", 0),
    ],
)
def test_the_share_of_questions_counts_sentences(text: str, share: int) -> None:
    assert words.share_of_questions(text) == share


@every_case(
    ("text", "says"),
    [
        ("We met on Tuesday.", TIME),
        ("It took two weeks.", TIME | NUMBER),
        ("It happened last month.", TIME),
        ("The port is 8080.", NUMBER),
        ("In 2023 we moved.", TIME | NUMBER),
        ("Call at 5 pm.", TIME | NUMBER),
        ("We may march on.", 0),
        ("In May it rained.", TIME),
        ("Gestern war es kalt.", TIME),
        ("He has three cats.", NUMBER),
        ("Nothing of the kind.", 0),
    ],
)
def test_times_and_numbers_are_told_apart(text: str, says: int) -> None:
    assert words.speech_of(text, all_in(text)).says == says


@given(st.text())
def test_any_text_has_a_speech_of_a_few_bytes(text: str) -> None:
    found = words.speech_of(text, all_in(text))
    assert 0 <= found.asks <= 100
    assert found.says in range(4)
    assert found.speaker is None or len(found.speaker) <= 40


def asked(question: str) -> words.QuestionCues:
    return words.cues_of(question, WORD.findall(question.lower()))


def test_what_a_question_asks_for_is_read_from_its_words() -> None:
    assert asked("What did I say about my car?").personal
    assert not asked("Can you tell me what my car is?").personal
    assert asked("When did Omar leave?").when
    assert asked("How long was the trip?").when
    assert asked("How many cats has he?").how_many
    assert not asked("Who has the key?").when


def test_a_named_speaker_gains_by_the_whole_name_or_the_first() -> None:
    for question in ("What did Ana say?", "What did Ana Lima say?", "Ana's port?"):
        assert rank.speech_gain(words.Speech("ana lima"), asked(question)).named == rank.NAMED
    assert rank.speech_gain(words.Speech("ana lima"), asked("What did Omar say?")).named == 0


def test_the_persons_own_words_gain_when_they_ask_about_themselves() -> None:
    own, other = words.Speech("user"), words.Speech("assistant")
    assert rank.speech_gain(own, asked("Which car did I buy?")).own == rank.OWN
    assert rank.speech_gain(other, asked("Which car did I buy?")).own == 0
    assert rank.speech_gain(own, asked("Which car did you recommend to me?")).own == 0


def test_a_passage_that_only_asks_loses_and_one_that_tells_gains() -> None:
    assert sum(rank.speech_gain(words.Speech(asks=50), asked("the car"))) == pytest.approx(rank.ASKING / 2)
    assert sum(rank.speech_gain(words.Speech(says=TIME), asked("when was it"))) == rank.WHEN
    assert sum(rank.speech_gain(words.Speech(says=NUMBER), asked("how many were there"))) == rank.HOW_MANY
    assert sum(rank.speech_gain(words.Speech(says=TIME | NUMBER), asked("who was it"))) == 0
