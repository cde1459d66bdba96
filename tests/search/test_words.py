"""Words are found in any language, by their parts and with slips; the answer says what else was searched."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from vademecum.interfaces.present import to_json, to_text
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.search.base import Passage

NOTES = {
    "rent": "Der Mietvertrag endet im September und die Kündigung ist schon geschrieben.",
    "parrot": "The veterinarian prescribed antibiotics for the parrot.",
    "invoice": "The helper parseInvoiceLines drops rows without a price.",
    "fire": "🔥 the staging cluster ran hot again",
    "bread": "We bake bread on Sundays.",
}


@pytest.fixture(params=["none", "local"])
def memory(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Memory]:
    (tmp_path / "work").mkdir()
    environ = {"VADE_EMBEDDER": request.param, "VADE_SWEEP": "off"}
    with connect(home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER, environ=environ) as made:
        for key, text in NOTES.items():
            made.store(text, key=key)
        made.care.index()
        yield made


@pytest.mark.parametrize(
    ("question", "key", "also"),
    [
        ("Vertrag", "rent", "mietvertrag"),
        ("vetrinarian", "parrot", "veterinarian"),
        ("parrott antibotics", "parrot", "antibiotics"),
    ],
)
def test_a_word_that_stands_nowhere_is_replaced_and_the_answer_says_so(
    memory: Memory, question: str, key: str, also: str
) -> None:
    answer = memory.search(question)
    assert answer.results[0].key == key
    (note,) = [each for each in answer.notes if each.startswith("also searched: ")]
    assert also in note


@pytest.mark.parametrize(
    ("question", "key"), [("Kündigungen", "rent"), ("🔥", "fire"), ("invoice lines", "invoice")]
)
def test_a_word_in_another_form_needs_no_other(memory: Memory, question: str, key: str) -> None:
    answer = memory.search(question)
    assert answer.results[0].key == key
    assert not [each for each in answer.notes if "also searched" in each]


def test_a_question_whose_words_are_there_is_asked_as_it_is(memory: Memory) -> None:
    answer = memory.search("bread on Sundays")
    assert answer.results[0].key == "bread"
    assert answer.notes == ()


def test_words_of_what_a_caller_cannot_see_are_not_told(memory: Memory, tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    environ = {"VADE_EMBEDDER": "none", "VADE_SWEEP": "off"}
    with connect(
        home=tmp_path / "home", cwd=tmp_path / "other", origin=Origin.USER, environ=environ
    ) as other:
        answer = other.search("vetrinarian")
        assert not answer.results
        assert not [each for each in answer.notes if "veterinarian" in each]


def test_vectors_have_no_vote_in_a_language_that_their_model_does_not_know(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    with connect(
        home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER, environ={"VADE_SWEEP": "off"}
    ) as memory:
        for key, text in NOTES.items():
            memory.store(text, key=key)
        memory.care.index()
        german = memory.search("wann endet der Mietvertrag", explain=True)
        english = memory.search("what bread do we bake", explain=True, max_results=5)
    assert german.results[0].key == "rent"
    assert all(vote(each) == 0 for each in german.results)
    assert vote(english.results[0]) > 0
    assert all(vote(each) == 0 for each in english.results if each.key == "rent")


def vote(passage: Passage) -> float:
    return passage.components["vector"]


def test_commands_and_tools_say_what_else_was_searched(
    memory: Memory, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = memory.search("vetrinarian")
    assert "also searched: veterinarian" in to_json.found_json(answer)["notes"]
    to_text.show_answer(answer, "vetrinarian", explain=False, as_json=False)
    assert "also searched: veterinarian" in capsys.readouterr().err
