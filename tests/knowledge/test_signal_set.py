"""The labelled sentences on which signals are measured keep their own promises."""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

SET = Path(__file__).parents[2] / "bench" / "signals.jsonl"
KEPT = {"preference", "rule", "correction", "decision", "fact"}
DECLINED = {"speculation", "question", "transient", "uncertain", "none"}
STYLES = {"plain", "transcript"}


@cache
def sentences() -> list[dict[str, Any]]:
    return [json.loads(line) for line in SET.read_text(encoding="utf-8").splitlines()]


def held_out(text: str) -> bool:
    """Say which half a sentence is in: by its own text, so that adding one moves no other."""
    return int(hashlib.sha256(text.encode()).hexdigest(), 16) % 2 == 0


def test_there_are_enough_sentences_and_each_says_its_text_label_and_style() -> None:
    assert len(sentences()) >= 400
    for sentence in sentences():
        assert set(sentence) == {"text", "label", "style"}
        assert sentence["text"] == sentence["text"].strip() != ""
        assert sentence["label"] in KEPT | DECLINED
        assert sentence["style"] in STYLES


def test_no_two_sentences_have_the_same_words() -> None:
    words = Counter(" ".join(re.findall(r"\w+", sentence["text"].casefold())) for sentence in sentences())
    assert [text for text, times in words.items() if times > 1] == []


def test_half_of_the_sentences_or_slightly_more_are_to_be_declined() -> None:
    declined = sum(sentence["label"] in DECLINED for sentence in sentences())
    assert 0.5 <= declined / len(sentences()) <= 0.6


def test_a_third_of_the_sentences_or_more_are_written_as_people_type_to_an_agent() -> None:
    for labels in (KEPT, DECLINED):
        styles = [sentence["style"] for sentence in sentences() if sentence["label"] in labels]
        assert styles.count("transcript") * 3 >= len(styles)


def test_each_kind_worth_keeping_has_fifty_sentences() -> None:
    counted = Counter(sentence["label"] for sentence in sentences())
    assert {kind: counted[kind] for kind in KEPT if counted[kind] < 50} == {}


def test_both_halves_are_large_and_hold_every_label_in_both_styles() -> None:
    for half in (True, False):
        chosen = [sentence for sentence in sentences() if held_out(sentence["text"]) is half]
        assert len(chosen) >= 300
        assert {(sentence["label"], sentence["style"]) for sentence in chosen} == {
            (label, style) for label in KEPT | DECLINED for style in STYLES
        }


def test_the_hard_sets_are_large_hold_german_and_have_no_sentence_twice() -> None:
    own = [
        json.loads(line)
        for name in ("signals_hard", "signals_fresh")
        for line in (SET.with_name(f"{name}.jsonl")).read_text(encoding="utf-8").splitlines()
    ]
    assert len(own) >= 500
    for sentence in own:
        assert set(sentence) == {"text", "label", "language"}
        assert sentence["label"] in KEPT | DECLINED
    assert sum(sentence["language"] == "de" for sentence in own) >= 100
    words = Counter(
        " ".join(re.findall(r"\w+", sentence["text"].casefold())) for sentence in [*own, *sentences()]
    )
    assert [text for text, times in words.items() if times > 1] == []
    held = sum(held_out(sentence["text"]) for sentence in own)
    assert 0.45 <= held / len(own) <= 0.55
