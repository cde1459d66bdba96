"""One idea of a word and of a sentence."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from cases import every_case
from vademecum.text import LETTERS, SPOKEN, WORD, normalise, sentence_spans, split_sentences


@every_case(
    ("text", "found"),
    [
        ("One. Two! Three?", ["One.", "Two!", "Three?"]),
        ('He said "go." Then left.', ['He said "go."', "Then left."]),
        ("Wait… Then go.", ["Wait…", "Then go."]),
        ("Use v1.5 of e.g. ruff. Not black.", ["Use v1.5 of e.g. ruff.", "Not black."]),
        ("Ask Dr. Who etc. about it.", ["Ask Dr. Who etc. about it."]),
        ("今日は晴れ。明日は雨！", ["今日は晴れ。", "明日は雨！"]),
        ("One line\nof two. Next", ["One line\nof two.", "Next"]),
        ("  \n ", []),
    ],
)
def test_a_sentence_ends_at_its_mark(text: str, found: list[str]) -> None:
    assert split_sentences(text) == found


def test_a_line_can_end_a_sentence_too() -> None:
    assert split_sentences("One line\nof two, e.g.\n\nNext. Last", lines=True) == [
        "One line",
        "of two, e.g.",
        "Next.",
        "Last",
    ]


@given(st.text(alphabet="ab .!?\n。」\"'eg", max_size=60), st.booleans())
def test_every_character_but_white_space_stands_in_one_sentence(text: str, lines: bool) -> None:
    spans = [*sentence_spans(text, lines=lines)]
    kept = "".join(text[start:end] for start, end in spans)
    assert "".join(kept.split()) == "".join(text.split())
    assert all(one[1] <= other[0] for one, other in itertools.pairwise(spans))


def test_three_views_of_a_word() -> None:
    text = "Don’t pre-commit a_b v2"
    assert WORD.findall(text) == ["Don", "t", "pre", "commit", "a", "b", "v2"]
    assert LETTERS.findall(text) == ["Don", "t", "pre", "commit", "a", "b", "v"]
    assert SPOKEN.findall(text) == ["Don’t", "pre-commit", "a", "b", "v2"]


def test_white_space_and_composition_do_not_count() -> None:
    assert normalise(" cafe\u0301 \n au  lait") == "café au lait"
