"""The benchmarks measure what they say they do; how fast it was is no matter of a test."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

import pytest
from bench import notes, scale

import vademecum

if TYPE_CHECKING:
    from pathlib import Path


def test_one_seed_makes_one_text_and_fewer_notes_are_the_beginning_of_more() -> None:
    many = list(notes.notes(300, seed=1))
    assert list(notes.notes(120, seed=1)) == many[:120]
    assert list(notes.notes(120, seed=2)) != many[:120]


def test_sizes_are_read_with_their_units() -> None:
    assert scale.sizes("200,10k,1m") == [200, 10_000, 1_000_000]


@pytest.mark.parametrize("separate", [True, False], ids=["files", "journals"])
def test_the_product_and_the_floors_find_the_right_notes(
    separate: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(scale, "SEPARATE", 20_000 if separate else 0)
    size = scale.Size(200, 20, 1)
    questions, _ = scale.write(tmp_path, size)
    memory = scale.open_memory(tmp_path)
    if separate:
        memory.sources.add(tmp_path / "files", name="notes")
    memory.care.index()
    texts = list(scale.passages(tmp_path, size))
    fts = scale.PlainFts(tmp_path / "plain.db", texts)
    dot = scale.NumpyDot(texts, size.notes, questions)
    finders = {
        "hybrid": scale._product(memory, None, size),
        "keyword": scale._product(memory, "bm25", size),
        "plain FTS5": fts.find,
        "numpy dot": dot.find,
    }
    about = [question for question in questions if question.note is not None]
    assert len(about) == 12
    for name, find in finders.items():
        right = [question.note in find(question.text) for question in about]
        assert sum(right) >= 9, name
    for question in about[:3]:
        assert question.note is not None
        found = scale.grep(tmp_path, question.text, size)
        assert any(path.endswith(scale.file_of(question.note, size)) for path in found)
    # In a store this small every dimension is looked at, so that rounding is all that can be lost.
    recall, rounding = scale._recall(memory, dot, questions, size)
    assert recall == pytest.approx(rounding, abs=0.02)
    fts.connection.close()
    memory.care.searcher.close()


@pytest.mark.full
def test_every_size_has_its_rows_and_the_ratios_their_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scale, "COLD_ROUNDS", 1)
    tables = scale.measure(argparse.Namespace(sizes=[200], queries=10, seed=1))
    building, questions, ratios = tables.values()
    assert building[0]["notes"] == building[0]["files"] == 200
    systems = {row["system"] for row in questions}
    assert systems >= {"hybrid", "keyword", "vector", "plain FTS5", "numpy dot", "grep"}
    assert all(list(row) == list(questions[0]) for row in questions)
    assert set(ratios[0]) >= {"hybrid / numpy", "hybrid / FTS5", "keyword / FTS5", "index / FTS5"}
    assert set(ratios[0]) >= {"load", "vector recall@10", "store to found ms", "cold hybrid ms"}


def test_a_command_that_crashes_is_no_measurement(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    size = scale.Size(50, 5, 1)
    questions, _ = scale.write(tmp_path, size)
    scale.open_memory(tmp_path)
    (tmp_path / "crash").mkdir()
    (tmp_path / "crash" / "vademecum.py").write_text("raise SystemExit('broken')\n")
    monkeypatch.setattr(vademecum, "__file__", str(tmp_path / "crash" / "vademecum" / "__init__.py"))
    with pytest.raises(AssertionError, match="broken"):
        scale._cold(tmp_path, size, questions)
