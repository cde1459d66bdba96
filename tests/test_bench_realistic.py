"""The realistic set is what its README says it is, and a run over it counts what it says it does."""

from __future__ import annotations

from collections import Counter

from bench import realistic

from vademecum.types import RecordType


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
        for half in realistic.HALVES:
            share = [question for question in group if question.half == half]
            assert 0.4 <= len(share) / len(group) <= 0.6
            for kind in ("natural", "keyword"):
                assert sum(question.kind == kind for question in share) >= len(share) / 3
        assert {question.label for question in group} == set(labels)
    other = [question for question in answerable if question.label == "other"]
    assert 0.25 <= len(other) / len(answerable) <= 0.5
