"""The realistic set is what its README says it is, and a run over it counts what it says it does."""

from __future__ import annotations

import argparse
import json
from collections import Counter
from contextlib import closing
from typing import TYPE_CHECKING

import pytest
from bench import realistic, scoring
from bench.small_sets import HELD, TUNE

from vademecum.types import RecordType

if TYPE_CHECKING:
    from pathlib import Path

HALVES = (TUNE, HELD)


def test_the_store_is_large_and_of_every_type() -> None:
    records, journal = realistic.records(), realistic.journal()
    assert len(records) >= 160
    scopes = Counter(record["scope"] for record in records)
    assert scopes["global"] >= 40
    assert scopes["project"] >= 120
    assert {record["type"] for record in records} == set(RecordType)
    days = Counter(entry["id"][:10] for entry in journal)
    assert len(days) >= 62
    assert min(days.values()) >= 3
    assert sum(len(record["entries"]) > 1 for record in records) >= 10
    assert sum(any("superseded" in entry for entry in record["entries"]) for record in records) >= 5


def test_no_id_and_no_text_stands_twice() -> None:
    records, journal, asked = realistic.records(), realistic.journal(), realistic.questions()
    ids = [record["key"] for record in records] + [entry["id"] for entry in journal]
    ids += [question.id for question in asked]
    assert len(set(ids)) == len(ids)
    texts = [entry["text"] for record in records for entry in record["entries"]]
    texts += [entry["text"] for entry in journal]
    texts += [question.text for question in asked]
    assert len(set(texts)) == len(texts)


def test_entries_are_in_order_and_only_a_later_one_supersedes() -> None:
    for record in realistic.records():
        times = [entry["time"] for entry in record["entries"]]
        assert times == sorted(set(times)), record["key"]
        assert "superseded" not in record["entries"][-1], record["key"]
    ids = [entry["id"] for entry in realistic.journal()]
    assert ids == sorted(ids)


def test_every_gold_is_an_entry_that_holds() -> None:
    known = {entry["id"] for entry in realistic.journal()}
    for record in realistic.records():
        for id_, entry in zip(realistic.entry_ids(record), record["entries"], strict=True):
            if "superseded" not in entry:
                known.add(id_)
    for question in realistic.questions():
        assert question.gold <= known, question


def test_there_are_enough_questions_of_each_kind_and_in_each_half() -> None:
    asked = realistic.questions()
    answerable = [question for question in asked if question.gold]
    nothing = [question for question in asked if not question.gold]
    assert len(answerable) >= 130
    assert len(nothing) >= 44
    for group, labels in ((answerable, ("same", "other")), (nothing, ("near", "far"))):
        for half in HALVES:
            share = [question for question in group if question.half == half]
            assert 0.4 <= len(share) / len(group) <= 0.6
            for kind in ("natural", "keyword"):
                assert sum(question.kind == kind for question in share) >= len(share) / 3
        assert {question.label for question in group} == set(labels)
    other = [question for question in answerable if question.label == "other"]
    assert 0.25 <= len(other) / len(answerable) <= 0.5


def test_a_result_is_joined_to_the_entry_whose_lines_it_shows(tmp_path: Path) -> None:
    store = realistic.Store(tmp_path, embedder="none")
    with closing(store.memory.care.searcher):
        for words, entry in (
            ("no emoji in commit messages or code comments", "no-emoji#1"),
            ("120 requests a minute per key bursts of 30", "rate-limits#2"),
            ("waterproof pouch sixteen euros", "2026-06-16/13:30"),
        ):
            hits, _ = store.find(words, {"min_score": 0.0, "mode": "bm25"})
            assert hits[0].entries == {entry}
        older, _ = store.find("pilot allows 60 requests a minute for each API key", {"min_score": 0.0})
        assert {"rate-limits#1"} in [hit.entries for hit in older]
        pinned, _ = store.find("prefer the boring solution and say which was rejected", {"min_score": 0.0})
        assert not pinned[0].entries


def test_a_limited_run_asks_every_system_the_same() -> None:
    answered, refused, labelled, reminded = realistic.measure(_chosen(limit=6)).values()
    totals = [row for row in answered if row["questions"] == "all"]
    assert [row["asked with"] for row in totals] == [
        "defaults", "min_score=0", "mode=bm25", "plain FTS5", "word count"
    ]  # fmt: skip
    assert {row["n"] for row in totals} == {6}
    assert all(int(str(row["hit@5"]).split()[0]) >= 3 for row in totals)
    assert {row["half"] for row in (*answered, *refused, *labelled)} == {"tune"}
    assert {row["any result"] for row in refused if row["asked with"] == "plain FTS5"} == {"6 (1.00)"}
    assert len(labelled) == 3
    assert [row["about nothing"] for row in reminded] == [6]


def test_rankings_are_written_of_the_half_to_tune_on_alone(tmp_path: Path) -> None:
    out = tmp_path / "rankings.jsonl"
    realistic.measure(_chosen(half="both", limit=8, mode=["vector"], out=out))
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    halves = {question.id: question.half for question in realistic.questions()}
    assert {halves[line["id"]] for line in lines} == {TUNE}
    assert {line["asked with"] for line in lines} >= {"defaults", "mode=vector", "plain FTS5"}
    for line in lines:
        right = [at for at, hit in enumerate(line["results"], 1) if set(hit["entries"]) & set(line["gold"])]
        assert line["place"] == (right[0] if right else 0) or line["place"] > 10


def test_labels_are_counted_where_results_carry_them() -> None:
    asked, nothing = (
        realistic.Asked(id_, "", "natural", "", gold)
        for id_, gold in (("q001", frozenset({"a"})), ("n003", frozenset[str]()))
    )
    hits = [realistic.Hit(frozenset({"b"}), 0.9, "strong"), realistic.Hit(frozenset({"a"}), 0.5, "likely")]
    found = {
        "defaults": [
            realistic.Found(asked, hits, 0.001),
            realistic.Found(nothing, [realistic.Hit(frozenset({"b"}), 0.6, "likely")], 0.001),
        ]
    }
    (refused,) = realistic._refused(found, [nothing.half])[:1]
    assert refused["likely or strong"] == "1 (1.00)"
    assert refused["strong"] == "0 (0.00)"
    assert asked.half == nothing.half
    (labelled,) = realistic._labelled(found, [asked.half], ["defaults"])
    assert labelled["right in five"] == 1
    assert labelled["of them likely or strong"] == "1 (1.00)"
    assert labelled["AUC of relevance"] == 1.0


def test_auc_is_the_share_of_pairs_in_the_right_order() -> None:
    assert scoring.auc([0.9, 0.8], [0.1]) == 1.0
    assert scoring.auc([0.5], [0.5]) == 0.5
    assert scoring.auc([0.2, 0.6], [0.4, 0.6]) == pytest.approx(1.5 / 4)


def _chosen(
    half: str = "tune", limit: int | None = None, mode: list[str] | None = None, out: Path | None = None
) -> argparse.Namespace:
    # By words and static vectors: what is counted is the same, and reading the whole store takes a minute.
    return argparse.Namespace(half=half, limit=limit, mode=mode, embedder="static", out=out)
