"""Times in questions: understood as labelled in six languages, and none where there is none."""

from __future__ import annotations

import functools
from datetime import UTC, datetime, timedelta, timezone
from itertools import pairwise

import pytest
from bench import times as labelled
from hypothesis import example, given, settings
from hypothesis import strategies as st

from cases import every_case
from vademecum.text import time_phrases
from vademecum.text.calendar_spans import MEANINGS

NOW = datetime(2026, 11, 19, 15)  # a Thursday
WORDS = st.sampled_from(
    """last next this two 3 31 weeks days ago Tuesday May may 2024 in on since between and end of Q3 the
    vor zwei Wochen letzten Dienstag seit Mai il y a deux semaines mardi dernier hace días pasado 1.5.
    3/5/2026 2026-02-30 上 周二 三月 到 之前 二週間 前 先週 の 火曜日 から まで 去年 的""".split()
)


def understood(text: str, now: datetime = NOW) -> list[str]:
    return [str(each) for each in time_phrases.find(text, now)]


def test_the_set_has_six_languages_and_many_that_are_no_time() -> None:
    questions = labelled.read()
    assert len(questions) >= 300
    assert sum(not each.times for each in questions) >= 60
    assert {each.language for each in questions} == {"en", "de", "fr", "es", "zh", "ja"}
    halves = [each.half for each in questions]
    assert min(halves.count(labelled.TUNE), halves.count(labelled.HELD)) > 0.4 * len(halves)


@pytest.mark.parametrize("half", [labelled.TUNE, labelled.HELD])
def test_97_of_100_times_are_understood_as_labelled(half: str) -> None:
    questions = [each for each in labelled.read() if each.half == half]
    right = sum(labelled.understood(each) == each.times for each in questions)
    assert right >= 0.97 * len(questions)


def test_97_of_100_that_are_no_time_are_left_alone_and_the_bench_says_so() -> None:
    traps = [each for each in labelled.read() if not each.times]
    assert sum(labelled.understood(each) == () for each in traps) >= 0.97 * len(traps)
    rows = {(row["half"], row["group"]): row for row in labelled.measure()}
    assert rows["held", "no time"]["right"] == pytest.approx(
        sum(not labelled.understood(each) for each in traps if each.half == "held")
        / sum(each.half == "held" for each in traps),
        abs=1e-4,
    )


def test_every_shape_in_the_word_files_has_a_meaning_and_words() -> None:
    for name in (*time_phrases.LATIN, *time_phrases.WITHOUT_SPACES):
        language = time_phrases._language(name)
        for level in language.shapes.values():
            assert all(level.values()), name
            for shape in (each for shapes in level.values() for each in shapes):
                assert shape.meaning in MEANINGS
                assert shape.firsts, (name, shape)


@every_case(
    ("question", "said"),
    [
        ("what did I do last Tuesday?", '"last Tuesday" understood as 2026-11-17'),
        ("what changed since May", '"since May" understood as since 2026-05-01'),
        ("what was it before April", '"before April" understood as until 2026-03-31'),
        ("what did I eat this morning", '"this morning" understood as 2026-11-19 05:00 to 12:00'),
        ("what happened last night", '"last night" understood as 2026-11-18 18:00 to 2026-11-19 05:00'),
        ("calls of 1/2/2026", '"1/2/2026" understood as 2026-01-02 or 2026-02-01'),
        ("la ｓｅｍａｎａ pasada", '"semana pasada" understood as 2026-11-09 to 2026-11-15'),
        ("in FEVRIER 2025", '"FEVRIER 2025" understood as 2025-02-01 to 2025-02-28'),
    ],
)
def test_what_was_understood_is_said_in_days_that_anybody_can_check(question: str, said: str) -> None:
    assert understood(question) == [said]


@every_case(
    "question",
    [
        "yesterday.py fails",
        "the last_week table",
        "open docs/2026/may/notes.md",
        "on 31 June",
        "2026-13-45",
        "Tuesdays are for tests",
        "it happened every last Friday",
        "was geschah hier",
        "the price of a t3 instance",
        "t3 large",
        "type:t1 type:q2",
    ],
)
def test_what_only_looks_like_a_time_is_none(question: str) -> None:
    assert understood(question) == []


def test_the_french_yesterday_is_the_german_here() -> None:
    assert understood("qu'est-ce que nous avons fait hier")
    assert not understood("was haben wir hier gemacht")


@every_case(
    ("question", "alone"),
    [
        ("what did I do last Tuesday?", True),
        ("what did Anna say last Tuesday?", False),
        ("was habe ich gestern gemacht", True),
        ("qu'est-ce que j'ai fait mardi dernier ?", True),
        ("¿qué hice el martes pasado?", True),
        ("我上周二做了什么？", True),
        ("上周二的部署", False),
        ("先週の火曜日に何をしましたか？", True),
        ("what did I do", False),
    ],
)
def test_a_question_is_about_its_time_alone_when_no_word_says_anything_else(
    question: str, alone: bool
) -> None:
    assert time_phrases.is_all(question, time_phrases.find(question, NOW)) is alone


def test_spans_begin_and_end_at_the_midnight_of_whoever_asks() -> None:
    now = datetime(2026, 11, 19, 1, tzinfo=timezone(timedelta(hours=9)))
    (found,) = time_phrases.find("yesterday", now)
    start, end = time_phrases.moments(found.spans[0], now)
    assert start == datetime(2026, 11, 17, 15, tzinfo=UTC)
    assert end == datetime(2026, 11, 18, 15, tzinfo=UTC)


@settings(max_examples=300, deadline=None)
@given(
    text=st.one_of(
        st.text(max_size=80),
        st.lists(WORDS, max_size=12).map(" ".join),
        st.lists(WORDS, max_size=12).map("".join),
    ),
    now=st.datetimes(
        timezones=st.sampled_from([None, UTC, timezone(timedelta(hours=-11)), timezone(timedelta(hours=14))])
    ),
)
@example(text="300 years ago and last 3 weeks", now=datetime.min)
@example(text="next week, next year, since last Monday", now=datetime.max)
@example(text="am 29. Februar", now=datetime(2025, 3, 1))
def test_any_text_at_any_moment_gives_times_that_are_in_order_and_none_that_overlap(
    text: str, now: datetime
) -> None:
    found = time_phrases.find(text, now)
    assert len(found) <= time_phrases.MOST
    assert all(before.end <= after.start for before, after in pairwise(found))
    for each in found:
        assert each.phrase.strip()
        assert str(each)
        for span in each.spans:
            assert span.start or span.end
            start, end = time_phrases.moments(span, now)
            assert start is None or end is None or start < end


def test_a_text_without_a_time_makes_no_table_of_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time_phrases, "_language", functools.cache(time_phrases._language.__wrapped__))
    assert time_phrases.find("how are the deploys of the billing service signed", NOW) == ()
    languages = [time_phrases._language(name) for name in time_phrases.LATIN]
    assert not [each.name for each in languages if {"words", "shapes", "capitals"} & each.__dict__.keys()]
    assert time_phrases.find("what did we deploy last Tuesday", NOW)
    assert "shapes" in time_phrases._language("en").__dict__
