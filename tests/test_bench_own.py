"""The set of our own is read as it is written, its halves never meet, and asking it counts what was found."""

from __future__ import annotations

import argparse
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from bench import labels, own, small_sets

if TYPE_CHECKING:
    import pytest

SPEAKING = ("people", "assistant", "team")


def test_odd_numbers_are_for_tuning_and_even_ones_are_held_out() -> None:
    for half, rest in ((small_sets.TUNE, 1), (small_sets.HELD, 0)):
        names = [path.stem for path in (own.FOLDER / half).glob("*.json")]
        assert names
        assert {int(name[-2:]) % 2 for name in names} == {rest}


def test_every_text_for_tuning_is_whole() -> None:
    texts = own.read(small_sets.TUNE)
    asked = [question.id for text in texts for question in text.questions]
    assert len(set(asked)) == len(asked)
    for text in texts:
        turns = [turn for document in text.documents for turn in document.turn_ids]
        assert len(set(turns)) == len(turns)
        for question in text.questions:
            assert bool(question.answers) is (question.kind != own.NOTHING), question.id
            assert all(group and group <= set(turns) for group in question.answers), question.id


def test_each_language_has_as_many_notes_and_questions_for_the_labels() -> None:
    for language in labels.LANGUAGES:
        facts, asked = labels.read(language)
        assert len(facts) == len({each.question for each in facts}) == 20
        assert [each.about for each in asked if each.gold is None] == ["near"] * 6 + ["far"] * 6
        assert {each.half for each in asked} == {small_sets.TUNE, small_sets.HELD}


def test_a_turn_names_its_speaker_unless_one_author_writes_alone() -> None:
    kept = {
        "id": "people-01",
        "kind": "people",
        "language": "en",
        "sessions": [
            {
                "id": "s1",
                "time": "2026-03-04T18:20:00+01:00",
                "turns": [
                    {"id": "s1-1", "speaker": "Marisol", "text": "The sails are torn."},
                    {"id": "s1-2", "speaker": "me", "text": "I bought thread."},
                ],
            }
        ],
        "questions": [
            {
                "id": "q",
                "kind": "several",
                "asked": "2026-06-01T09:00:00+00:00",
                "by": None,
                "text": "What of the sails?",
                "answers": [["s1-1", "s1-2"], ["s1-2"]],
                "answer": "",
            }
        ],
    }
    text = own._text(kept)
    assert text.documents[0].turns == ["Marisol: The sails are torn.", "I bought thread."]
    assert text.documents[0].when == datetime(2026, 3, 4, 17, 20, tzinfo=UTC)
    assert text.questions[0].answers == (
        frozenset({"people-01/s1-1", "people-01/s1-2"}),
        frozenset({"people-01/s1-2"}),
    )


def test_an_answer_in_several_places_is_found_when_all_of_one_way_is() -> None:
    asked = own.Asked("q", "several", "?", datetime.now(UTC), (frozenset("ab"), frozenset("c")))
    assert own.Found(asked, ["a", "x", "b"]).hit(1)
    assert not own.Found(asked, ["a", "x", "b"]).all(2)
    assert own.Found(asked, ["a", "x", "b"]).all(3)
    assert own.Found(asked, ["c"]).all(1)


def test_stores_hold_what_is_of_one_language_and_kind() -> None:
    for name, texts in own.stores(own.read(small_sets.TUNE)):
        assert {f"{text.language} {text.kind}" for text in texts} == {name}


def test_of_the_half_that_is_held_out_only_totals_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def answers(texts: list[own.Text], *, embedder: str) -> dict[str, list[own.Found]]:
        asked = [question for text in texts for question in text.questions]
        return {name: [own.Found(each, []) for each in asked] for name in (*own.ASKING, small_sets.FLOOR)}

    few = own.read(small_sets.TUNE)[:2]
    monkeypatch.setattr(own, "read", lambda half: few)
    monkeypatch.setattr(own, "ask", answers)
    tables = own.measure(argparse.Namespace(half=[small_sets.HELD], language=None, embedder="none"))
    assert [*tables] == ["own, by half"]
    tables = own.measure(argparse.Namespace(half=None, language=None, embedder="none"))
    assert {row["half"] for row in tables["own, by half"]} == {small_sets.TUNE, small_sets.HELD}
    assert len(tables) == 3


def test_asking_a_small_store_finds_what_it_holds() -> None:
    text = own.read(small_sets.TUNE)[0]
    first = text.documents[0]
    asked = own.Asked("q", "what", first.turns[0], datetime.now(UTC), (frozenset({first.turn_ids[0]}),))
    found = own.ask([text._replace(questions=(asked,))], embedder="none")
    assert {name: answers[0].all(1) for name, answers in found.items()} == dict.fromkeys(found, True)
    assert own.row(found[small_sets.DEFAULTS])["hit@1"] == "1.000"
