"""The rules of ranking, each pinned by numbers small enough to be worked out by hand."""

from __future__ import annotations

import pytest

from vademecum.index.base import Mark
from vademecum.index.words import NUMBER, SILENT, TIME, Speech, cues_of
from vademecum.search import rank


def mark(file: int, *, superseded: bool = False, source: str = "memory", order: int = 0) -> Mark:
    return Mark(file, order, source, superseded, alone=False)


# --- crowding -----------------------------------------------------------------------------------------------


def test_the_best_chunk_of_a_file_keeps_its_score_and_each_further_one_loses_more() -> None:
    scores = {1: 1.0, 2: 0.9, 3: 0.8}
    found = dict(rank.spread(scores, dict.fromkeys(scores, mark(7))))
    assert found[1] == 1.0
    assert found[2] == pytest.approx(0.9 * rank.CROWDING)
    assert found[3] == pytest.approx(0.8 * rank.CROWDING**2)


def test_chunks_of_different_files_lose_nothing() -> None:
    scores = {1: 0.7, 2: 0.9, 3: 0.8}
    assert rank.spread(scores, {id_: mark(id_) for id_ in scores}) == [(2, 0.9), (3, 0.8), (1, 0.7)]


def test_the_second_chunk_of_a_file_falls_behind_an_almost_equal_one_of_another() -> None:
    assert [
        id_ for id_, _ in rank.spread({1: 1.0, 2: 0.99, 3: 0.95}, {1: mark(7), 2: mark(7), 3: mark(8)})
    ] == [1, 3, 2]


def test_equal_scores_stand_as_they_do_in_their_file_whatever_their_ids() -> None:
    places = {1: mark(7, order=2), 2: mark(7, order=0), 3: mark(7, order=1)}
    assert [id_ for id_, _ in rank.spread({3: 0.5, 1: 0.5, 2: 0.5}, places)] == [2, 3, 1]


# --- what was replaced --------------------------------------------------------------------------------------


def test_a_replaced_entry_is_lowered_and_the_living_one_lifted_just_above_it() -> None:
    scores = {1: 1.0, 2: 0.2}
    lifted = rank.behind_living(scores, {1: mark(7, superseded=True), 2: mark(7)}, worded={1, 2})
    assert scores[1] == pytest.approx(rank.SUPERSEDED)
    assert scores[2] == pytest.approx(rank.SUPERSEDED + rank.ABOVE)
    assert lifted == {2: pytest.approx(rank.SUPERSEDED - 0.2 + rank.ABOVE)}


def test_a_living_entry_that_lies_above_already_is_not_lifted() -> None:
    scores = {1: 0.5, 2: 0.6}
    assert rank.behind_living(scores, {1: mark(7, superseded=True), 2: mark(7)}, worded={1, 2}) == {}
    assert scores[2] == 0.6


def test_an_old_entry_stays_first_when_only_it_holds_words_of_the_question() -> None:
    scores = {1: 1.0, 2: 0.2}
    assert rank.behind_living(scores, {1: mark(7, superseded=True), 2: mark(7)}, worded={1}) == {}
    assert scores[1] > scores[2]


def test_a_living_entry_of_another_file_is_not_lifted() -> None:
    scores = {1: 1.0, 2: 0.2}
    assert rank.behind_living(scores, {1: mark(7, superseded=True), 2: mark(8)}, worded={1, 2}) == {}
    assert scores == {1: pytest.approx(rank.SUPERSEDED), 2: 0.2}


def test_nothing_changes_where_nothing_was_replaced() -> None:
    scores = {1: 1.0, 2: 0.2}
    assert rank.behind_living(scores, {1: mark(7), 2: mark(7)}, worded={1}) == {}
    assert scores == {1: 1.0, 2: 0.2}


# --- who speaks, and of what --------------------------------------------------------------------------------


def speech_gain(said: Speech, question: str) -> rank.SpeechGain:
    return rank.speech_gain(said, cues_of(question, question.lower().replace("?", "").split()))


def test_the_person_themselves_counts_when_they_ask_about_themselves() -> None:
    assert speech_gain(Speech("user"), "where did I park").own == rank.OWN
    assert speech_gain(Speech("assistant"), "where did I park").own == 0
    assert speech_gain(Speech("user"), "where did you park").own == 0


def test_who_is_named_in_the_question_counts_by_their_first_name_too() -> None:
    assert speech_gain(Speech("ana lima"), "what did Ana say").named == rank.NAMED
    assert speech_gain(Speech("omar"), "what did Ana say").named == 0


def test_a_passage_that_asks_loses_by_its_share_of_questions() -> None:
    assert speech_gain(Speech(None, 50), "the pond").asking == pytest.approx(rank.ASKING / 2)
    assert speech_gain(Speech(None, 0), "the pond").asking == 0


def test_times_and_numbers_count_only_when_they_are_asked_for() -> None:
    both = Speech(None, 0, TIME | NUMBER)
    assert speech_gain(both, "when did it rain")[3:] == (rank.WHEN, 0)
    assert speech_gain(both, "how many herons")[3:] == (0, rank.HOW_MANY)
    assert speech_gain(both, "the heron")[3:] == (0, 0)
    assert speech_gain(Speech(None, 0, NUMBER), "when did it rain").when == 0


# --- merging legs -------------------------------------------------------------------------------------------

LEGS = {"vector": {1: 0.4, 2: 0.8}, "narrow": {1: 10.0, 3: 5.0}, "wide": {7: 4.0}, "exact": {3: 0.25}}
FILES = {1: 7, 2: 8, 3: 8}


def test_each_leg_is_divided_by_its_best_and_weighed() -> None:
    merged = rank.weighted(FILES, **LEGS, weights=rank.Weights(0.35, 0.30, 0.35, 1.0))
    assert merged.scores == pytest.approx([0.175 + 0.30 + 0.35, 0.35, 0.15 + 0.25])
    assert merged.of(1).score == pytest.approx(merged.scores[0])


def test_a_leg_of_words_that_every_text_has_is_not_blown_up() -> None:
    legs = {**LEGS, "narrow": {1: 0.1}, "wide": {}}
    merged = rank.weighted(FILES, **legs, weights=rank.Weights())
    assert merged.of(1).narrow == pytest.approx(0.30 * 0.1)


def test_reciprocal_ranks_count_places_and_not_scores() -> None:
    merged = rank.reciprocal(FILES, **LEGS, weights=rank.Weights(), k=60)
    assert merged.of(1)[:3] == pytest.approx((1 / 62, 1 / 61, 1 / 61))
    assert merged.of(3)[:3] == pytest.approx((0, 1 / 62, 0))


# --- the page -----------------------------------------------------------------------------------------------


def test_memory_itself_has_no_quota_and_another_source_two_thirds() -> None:
    marks = {id_: mark(id_, source="docs") for id_ in range(1, 7)} | {7: mark(7, source="vault")}
    assert rank.take_turns([*marks], marks, 6, free=frozenset({"memory"})) == [1, 2, 3, 4, 5, 7]
    marks = {id_: mark(id_) for id_ in range(1, 9)}
    assert rank.take_turns([*marks], marks, 6, free=frozenset({"memory"})) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize(
    ("files", "places", "wanted"),
    [
        ("aaaabc", 3, "aab"),  # two of a file, then the others
        ("aaabc", 5, "aaabc"),  # places that no other file fills
        ("aaaa", 3, "aaa"),
        ("AAAbc", 2, "AAb"),  # a conversation is one result, with two of its turns
        ("AAAA", 3, "AAAA"),  # further turns fill the places that are left
        ("bAcAdA", 3, "bAcA"),
    ],
)
def test_files_take_turns_and_a_conversation_is_one_result(files: str, places: int, wanted: str) -> None:
    said = Speech("user")
    marks = {
        at: Mark(ord(each), at, "journal", False, False, said if each.isupper() else SILENT)
        for at, each in enumerate(files)
    }
    chosen = rank.take_turns([*marks], marks, places, free=frozenset({"journal"}))
    assert "".join(files[at] for at in chosen) == wanted
