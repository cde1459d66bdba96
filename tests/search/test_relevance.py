"""Relevance: how likely a passage answers, and what that is called."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.index import words
from vademecum.index.words import NUMBER, TIME, Speech, terms
from vademecum.search import relevance
from vademecum.search.relevance import Asked, Signs

FAMILIES = ("static", "minilm", "none", "foreign", "other")
SPOKEN = Speech("caroline")
shares = st.floats(0, 1)


def weigh(question: str, *, count: int = 1000, **frequency: int) -> Asked:
    asked = terms(question).words
    return relevance.weigh(question, asked, frequency=frequency, count=count, rank=words.commonness)


def signs(question: str, held: str, *, size: int = 15, alike: float = 0.2, apart: float = 2.0) -> Signs:
    """What speaks for a passage that holds some of the question's words."""
    asked = terms(question).words
    frequency = dict.fromkeys(asked, 3)
    weigher = relevance.Weigher(
        question, asked, frequency=frequency, count=1000, scores=[1.0, 2.0, 9.0], rank=words.commonness
    )
    has = tuple(word in held.split() for word in asked)
    return weigher(
        has, size, around=6.0 * sum(has), score=5.0 * sum(has), exact=0.0, alike=alike, apart=apart
    )


def test_the_weights_of_a_question_are_shares_of_one() -> None:
    asked = weigh("Which database does Gustav use for billing?", gustav=8, use=300)
    assert sum(asked.weights) == pytest.approx(1)


def test_a_question_without_words_has_no_weights_and_no_answer() -> None:
    assert weigh("").weights == ()
    assert relevance.curve("none")(signs("", "", alike=0, apart=0)) < relevance.LIKELY


def test_a_name_tells_more_than_the_words_around_it() -> None:
    asked = weigh("Is there anything Gustav must not be served?", gustav=8)
    assert asked.weights[asked.words.index("gustav")] > 0.5


def test_a_name_tells_as_much_in_a_store_that_is_full_of_it() -> None:
    rare, common = (
        weigh("When did Caroline paint?", caroline=2),
        weigh("When did Caroline paint?", caroline=900),
    )
    assert rare.weights == common.weights


def test_a_common_word_tells_less_than_a_rare_one_even_in_an_empty_store() -> None:
    asked = weigh("good quartz", count=0)
    assert asked.weights[0] < asked.weights[1]


@every_case(
    ("question", "names"),
    [
        ("What does Petra eat?", {"petra"}),
        ("Petra eats what?", set()),  # a sentence begins with a capital
        ("We met. Petra left. Where is Omar?", {"omar"}),
        ("what does petra eat", set()),
        ("WHY DID THE BUILD FAIL", set()),
        ("Why We Moved To Postgres", set()),  # a headline: most have one
        ("What is E4017?", {"e4017"}),
        ("Wer ist Åsa?", {"åsa"}),
    ],
)
def test_a_name_is_a_capital_inside_a_sentence(question: str, names: set[str]) -> None:
    assert relevance.names_in(question, terms(question).words) == names


@every_case("family", FAMILIES)
def test_every_word_of_the_question_is_certain(family: str) -> None:
    found = signs("wall paint", "wall paint", size=400, alike=0, apart=0)
    assert relevance.curve(family)(found) == 1.0


def said(question: str, held: str, speech: Speech) -> Signs:
    """What speaks for a passage that somebody said."""
    asked = terms(question).words
    weigher = relevance.Weigher(
        question,
        asked,
        frequency=dict.fromkeys(asked, 3),
        count=1000,
        scores=[1.0, 9.0],
        rank=words.commonness,
        cues=words.cues_of(question, question.lower().rstrip("?").split()),
    )
    return weigher(
        tuple(word in held.split() for word in asked), 9, around=2.0, score=5.0, exact=0.0, said=speech
    )


def test_every_word_of_a_question_is_not_yet_an_answer_when_somebody_says_it() -> None:
    held, keywords = "caroline married", "caroline married"
    assert not relevance.is_sure(said("When was Caroline married?", held, SPOKEN))
    assert not relevance.is_sure(said("when was Caroline married", held, SPOKEN))
    assert relevance.is_sure(said("When was Caroline married?", held, Speech()))
    assert relevance.is_sure(said(keywords, held, SPOKEN))  # who types words wants what holds them


def test_the_right_name_alone_is_less_of_an_answer_where_it_stands_in_every_line() -> None:
    found = said("Where does Caroline study law?", "caroline", SPOKEN)
    assert found.names == 1
    assert found.topic == 0
    for family in ("static", "none", "other"):
        assert relevance.curve(family, spoken=True)(found) < relevance.curve(family)(found)


@every_case(
    ("question", "says", "tells"),
    [
        ("When did they move?", 0, 0),
        ("When did they move?", TIME, 1),
        ("How much did it cost?", TIME, 0),
        ("How much did it cost?", NUMBER, 1),
        ("Who paid?", 0, 1),
    ],
)
def test_a_time_or_a_number_that_is_asked_for_has_to_be_told(question: str, says: int, tells: float) -> None:
    assert said(question, "", Speech("ana", 0, says)).tells == tells


def test_what_only_asks_states_nothing() -> None:
    assert said("Who paid?", "paid", Speech("ana", 100)).states == 0
    assert said("Who paid?", "paid", Speech("ana", 0)).states == 1


def test_a_question_in_a_language_that_the_model_does_not_know_has_curves_of_its_own() -> None:
    found = signs("wo liegt der Schlüssel", "schlüssel", alike=0, apart=0)
    assert relevance.curve("foreign")(found) != relevance.curve("none")(found)
    japanese, chinese = (relevance.curve("foreign", language=each)(found) for each in ("ja", "zh"))
    assert japanese < relevance.curve("foreign")(found) < chinese


def test_a_passage_of_an_attached_folder_needs_a_little_less() -> None:
    found = signs("kitchen wall paint", "wall")
    for spoken in (False, True):
        note = relevance.curve("static", spoken=spoken)(found)
        assert note < relevance.curve("static", spoken=spoken, attached=True)(found) < 1


def test_whether_a_model_reads_does_not_follow_the_labels() -> None:
    found = signs("kitchen wall paint", "wall")
    assert relevance.curve_before_reading("static") != relevance.curve("static")
    assert relevance.curve_before_reading("none") == relevance.curve("none")
    assert 0 < relevance.curve_before_reading("static")(found) < 1


@every_case("family", FAMILIES)
def test_an_identifier_that_is_most_of_the_question_is_certain(family: str) -> None:
    nothing = Signs(0, 0, 0, 0, 0, 0, 0, 0, 0, relevance.identified(0.5, certain=True))
    assert relevance.curve(family)(nothing) == 1.0
    assert relevance.curve(family)(nothing._replace(exact=0.4)) < 1.0


@every_case("family", FAMILIES)
def test_a_passage_with_nothing_of_the_question_is_a_weak_match(family: str) -> None:
    found = signs("when did Anna paint the kitchen wall", "", alike=0, apart=0)
    assert relevance.match(relevance.curve(family)(found)) == "weak"


@pytest.mark.parametrize("spoken", [False, True])
@pytest.mark.parametrize("family", [*FAMILIES, "read"])
@given(st.lists(shares, min_size=18, max_size=18), st.integers(0, 17), shares)
def test_more_of_any_sign_never_makes_an_answer_less_likely(
    family: str, spoken: bool, values: list[float], at: int, more: float
) -> None:
    curve = relevance.curve(family, spoken=spoken)
    raised = [*values]
    raised[at] = max(values[at], more)
    before, after = curve(Signs(*values)), curve(Signs(*raised))
    assert 0 <= before <= after <= 1


@given(
    st.lists(st.booleans(), min_size=5, max_size=5),
    st.integers(0, 10_000),
    st.floats(-1, 1),
    st.floats(-9, 99),
)
def test_every_sign_lies_between_0_and_1(held: list[bool], size: int, alike: float, apart: float) -> None:
    question = "kitchen wall paint Anna yellow"
    weigher = relevance.Weigher(
        question, terms(question).words, frequency={"wall": 2}, count=7, scores=[], rank=words.commonness
    )
    found = weigher(tuple(held), size, around=apart, score=apart, exact=0.3, alike=alike, apart=apart)
    assert all(0 <= sign <= 1 for sign in found), found


def test_words_alone_say_nothing_of_meaning() -> None:
    with_meaning = signs("kitchen wall paint", "wall", alike=0.9, apart=7.0)
    without = signs("kitchen wall paint", "wall", alike=0.0, apart=0.0)
    curve = relevance.curve("none")
    assert curve(with_meaning) == curve(without)


def test_a_long_passage_must_say_more_of_the_question() -> None:
    curve = relevance.curve("none")
    short, long = (curve(signs("kitchen wall paint", "wall", size=size)) for size in (8, 300))
    assert long <= short


def test_a_relevance_is_called_by_its_limits() -> None:
    called = [relevance.match(value) for value in (1.0, relevance.STRONG, relevance.LIKELY, 0.0)]
    assert called == ["strong", "strong", "likely", "weak"]
    assert relevance.match(math.nextafter(relevance.STRONG, 0)) == "likely"
    assert relevance.match(math.nextafter(relevance.LIKELY, 0)) == "weak"


def test_the_shipped_model_ranks_words_by_how_common_they_are() -> None:
    assert words.commonness("the") == 1
    assert (
        words.commonness("the")
        < words.commonness("house")
        < words.commonness("caroline")
        < words.commonness("xyzzy")
        == words.RAREST
    )
    assert words.commonness("café") == words.commonness("cafe")


@given(st.lists(st.floats(0, 1), max_size=12))
def test_along_the_rank_relevance_falls_and_keeps_its_sum(values: list[float]) -> None:
    made = relevance.falling(values)
    assert len(made) == len(values)
    assert made == sorted(made, reverse=True)
    assert sum(made) == pytest.approx(sum(values))
    assert relevance.falling(sorted(values, reverse=True)) == sorted(values, reverse=True)
