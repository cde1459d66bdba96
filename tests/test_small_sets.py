"""The small sets are what they claim to be, and asking them counts what was found."""

from __future__ import annotations

import argparse
import re
import unicodedata
from typing import TYPE_CHECKING

import pytest
from bench import small_sets

if TYPE_CHECKING:
    from pathlib import Path

_STOP = frozenset(
    """a after an and are at be because by can do does for he her his how i in is it my no not of on one our
    she the to we what when where which who with""".split()
)


def _words(text: str) -> set[str]:
    """What a text is about, each word by its beginning: an ending makes no other word."""
    return {word[:5] for word in re.findall(r"\w+", text.lower()) if word not in _STOP}


@pytest.mark.parametrize("name", small_sets.SETS)
def test_a_set_has_each_note_and_each_question_once_and_no_empty_ones(name: str) -> None:
    notes = small_sets.read(name)
    asked = [question for note in notes for question in note.questions]
    assert len({note.id for note in notes}) == len(notes)
    assert len({note.text for note in notes}) == len(notes)
    assert len(set(asked)) == len(asked)
    assert all(text.strip() == text != "" for text in [*asked, *(note.text for note in notes)])


@pytest.mark.parametrize("name", small_sets.SETS)
def test_both_halves_of_a_set_are_large_enough_to_say_something(name: str) -> None:
    sizes = {small_sets.TUNE: 0, small_sets.HELD: 0}
    for note in small_sets.read(name):
        sizes[small_sets.half(note.id)] += len(note.questions)
    assert min(sizes.values()) >= 40, sizes


def test_the_half_of_an_id_never_changes() -> None:
    halves = [small_sets.half(f"p{number:03}") for number in range(1, 9)]
    assert halves == ["tune", "held", "tune", "tune", "held", "held", "held", "tune"]


def test_paraphrases_are_enough_and_share_no_telling_word_with_their_notes() -> None:
    notes = small_sets.read("paraphrases")
    asked = [(note, question) for note in notes for question in note.questions]
    assert len(notes) >= 160
    assert len(asked) >= 80
    for note, question in asked:
        assert not _words(note.text) & _words(question), (note.id, question)


def test_languages_are_many_in_many_scripts_and_no_note_is_alone_in_its_language() -> None:
    notes = small_sets.read("languages")
    asked = [question for note in notes for question in note.questions]
    assert len(asked) >= 120
    groups = {note.group for note in notes if note.questions}
    assert len(groups) >= 16
    assert all(len([note for note in notes if note.group == group]) >= 4 for group in groups), "no rivals"
    letters = {
        unicodedata.name(letter, "").split(" ")[0] for text in asked for letter in text if letter.isalpha()
    }
    scripts = {
        "LATIN",
        "CYRILLIC",
        "GREEK",
        "CJK",
        "HIRAGANA",
        "HANGUL",
        "ARABIC",
        "HEBREW",
        "DEVANAGARI",
        "THAI",
    }
    assert letters >= scripts


@pytest.mark.full
def test_asking_counts_the_place_of_the_right_note_for_every_system() -> None:
    tables = small_sets.measure(argparse.Namespace(name="paraphrases", limit=12, embedder="none"))
    halves, groups = tables.values()
    asked = [row for row in halves if row["asked with"] == small_sets.DEFAULTS]
    assert sum(int(str(row["n"])) for row in asked) == 12
    systems = [*small_sets.ASKING, small_sets.FLOOR]
    assert [row["asked with"] for row in halves] == systems * len(asked)
    tuned = sum(int(str(row["n"])) for row in asked if row["half"] == small_sets.TUNE)
    assert sum(int(str(row["n"])) for row in groups) == tuned, "the other half is never shown by group"


def test_a_note_asked_for_in_its_own_words_comes_first(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "own.jsonl").write_text(
        '{"id": "a2", "group": "g", "note": "The ferry leaves at noon.", "questions": ["ferry noon", "🦀"]}\n'
        '{"id": "a1", "group": "g", "note": "Nobody feeds the heron."}\n'
    )
    monkeypatch.setattr(small_sets, "FOLDER", tmp_path)
    halves, _ = small_sets.measure(argparse.Namespace(name="own", limit=None, embedder="none")).values()
    for row in halves:
        assert (row["n"], row["hit@1"], row["nothing"]) == (2, "1 (0.50)", 1), row["asked with"]
