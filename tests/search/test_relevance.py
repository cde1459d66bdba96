"""Relevance: whether a passage is an answer at all."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from vademecum.index import lexicon
from vademecum.index.embed.static import Static
from vademecum.index.words import LOW, terms
from vademecum.search import relevance

if TYPE_CHECKING:
    from vademecum.search.relevance import Asked

LIMIT = 0.35  # the default of `min_score`
MODEL = Static()
FILLER = {"quarterly", "kettle", "fence", "yellow", "bus", "tired", "umbrella", "seven", "lamp", "gravel"}


def weigh(question: str, *, count: int = 1000, **frequency: int) -> Asked:
    asked = terms(question).words
    return relevance.weigh(question, asked, frequency=frequency, count=count, rank=lexicon.rank)


def words(text: str) -> set[str]:
    return set(re.findall(r"\w+", text.lower()))


def held(asked: Asked, text: set[str], *, vectors: bool = True) -> list[float]:
    found = [1.0 if word in text else 0.0 for word in asked.words]
    if not vectors:
        return found
    (meant,) = relevance.near(asked, [text - LOW], MODEL.words)
    return [max(pair) for pair in zip(found, meant, strict=True)]


def answer(question: str, text: str, *, likeness: float | None = 0.2, vectors: bool = True) -> float:
    asked = weigh(question)
    found = held(asked, words(text), vectors=vectors)
    return relevance.relevance(asked, found, len(words(text) - LOW), likeness=likeness)


def test_the_weights_of_a_question_are_shares_of_one() -> None:
    assert sum(
        weigh("Which database does Gustav use for billing?", gustav=8, use=300).weights
    ) == pytest.approx(1)


def test_a_question_without_words_has_no_weights() -> None:
    asked = weigh("")
    assert asked.weights == ()
    assert relevance.near(asked, [{"anything"}], MODEL.words) == [[]]
    assert relevance.relevance(asked, [], 10, likeness=0.0) < LIMIT


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


@pytest.mark.parametrize(
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


def test_a_word_of_like_meaning_counts_in_part() -> None:
    asked = weigh("couch")
    sofa, gravel = relevance.near(asked, [{"sofa"}, {"gravel"}], MODEL.words)
    assert gravel[0] < 0.2 < sofa[0] < 1


def test_a_name_stands_for_itself_alone() -> None:
    assert relevance.near(weigh("What did Anna say?"), [{"maria"}], MODEL.words)[0][0] == 0


def test_a_word_unknown_to_the_model_is_like_no_other() -> None:
    assert relevance.near(weigh("xyzzy"), [{"src", "plugh"}], MODEL.words) == [[0.0]]


def test_a_passage_without_words_holds_nothing() -> None:
    assert relevance.near(weigh("paint"), [set()], MODEL.words) == [[0.0]]


def test_no_passages_are_no_trouble() -> None:
    assert relevance.near(weigh("paint"), [], MODEL.words) == []


def test_every_word_in_the_passage_is_certain() -> None:
    text = "the paint for the wall " + " ".join(FILLER)
    assert answer("wall paint", text, likeness=0.0) == 1.0


def test_an_exact_match_is_never_hidden() -> None:
    asked = weigh("what on earth is error E4017 about again")
    assert relevance.relevance(asked, [0.0] * len(asked.words), 400, likeness=0.0, exact=True) == 1.0


@pytest.mark.parametrize("vectors", [True, False])
def test_a_question_about_another_person_is_refused(vectors: bool) -> None:
    text = "Fiona cannot eat sesame: it gives her a rash."
    likeness = 0.25 if vectors else None
    assert answer("What is Fiona allergic to?", text, likeness=likeness, vectors=vectors) >= LIMIT
    assert answer("What is Hector allergic to?", text, likeness=likeness, vectors=vectors) < LIMIT


def test_more_of_the_question_in_the_passage_is_never_less_relevant() -> None:
    asked = weigh("When did Anna paint the kitchen wall?")
    size = len(asked.words)
    values = [
        relevance.relevance(asked, [0.9] * part + [0.0] * (size - part), 20, likeness=0.1)
        for part in range(size + 1)
    ]
    assert values == sorted(values)


def test_relevance_stays_between_0_and_1() -> None:
    asked = weigh("When did Anna paint the kitchen wall?")
    size = len(asked.words)
    for share in (0.0, 0.5, 0.99):
        for likeness in (None, -1.0, 0.0, 1.0):
            for length in (0, 15, 10_000):
                value = relevance.relevance(asked, [share] * size, length, likeness=likeness)
                assert 0 <= value <= 1


def test_a_long_passage_must_say_more_of_the_question() -> None:
    asked = weigh("kitchen wall paint")
    short, long = (relevance.relevance(asked, [0.5, 0.5, 0.0], size, likeness=0.1) for size in (8, 300))
    assert long < short


def test_the_shipped_model_ranks_words_by_how_common_they_are() -> None:
    assert lexicon.rank("the") == 1
    assert (
        lexicon.rank("the")
        < lexicon.rank("house")
        < lexicon.rank("caroline")
        < lexicon.rank("xyzzy")
        == lexicon.RAREST
    )
    assert lexicon.rank("café") == lexicon.rank("cafe")


def test_the_vector_of_a_word_has_unit_length_or_is_zero() -> None:
    rows = MODEL.words(["house", "xyzzy", "café"])
    assert (rows * rows).sum(axis=1).tolist() == pytest.approx([1, 0, 1], abs=1e-5)
    assert MODEL.words([]).shape == (0, MODEL.dimension)
