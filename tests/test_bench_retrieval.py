"""The measurements on public data, run on a small file of the same shape that was written for it."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

import pytest
from bench import cold, retrieval, speed

if TYPE_CHECKING:
    from pathlib import Path


def _haystack(id_: str, question: str, sessions: dict[str, list[str]], gold: str) -> dict[str, Any]:
    """A question as LongMemEval has it; the first turn of the gold session is the one that answers."""
    return {
        "question_id": id_,
        "question": question,
        "answer_session_ids": [gold],
        "haystack_session_ids": list(sessions),
        "haystack_dates": [f"2023/05/{day + 1:02} (Mon) 10:00" for day in range(len(sessions))],
        "haystack_sessions": [
            [
                {"role": "user", "content": said, **({"has_answer": True} if name == gold and not at else {})}
                for at, said in enumerate(turns)
            ]
            for name, turns in sessions.items()
        ],
    }


@pytest.fixture
def data(tmp_path: Path) -> Path:
    heron = ["I saw a heron at the weir.", "It flew off towards the mill."]
    cello = ["My cello teacher is called Odile.", "Her studio is above the bakery."]
    bread = ["The rye bread needs nine hours.", "I bake on Fridays."]
    ferry = ["The ferry to the island leaves at noon.", "It takes cars."]
    haystacks = [
        _haystack("q1", "Where did I see the heron?", {"s1": heron, "s2": cello, "s3": bread}, "s1"),
        _haystack("q2", "What is my cello teacher called?", {"s2": cello, "s3": bread}, "s2"),
        _haystack("q3_abs", "What is my piano teacher called?", {"s4": ferry, "s1": heron}, "s4"),
    ]
    path = tmp_path / "sample.json"
    path.write_text(json.dumps(haystacks))
    return path


def _chosen(name: str, data: Path, **more: Any) -> argparse.Namespace:
    given = {"set": name, "data": data, "limit": None, "out": None, "mode": None, "mcp": False}
    return argparse.Namespace(**{**given, **more})


def test_the_pooled_store_has_every_session_once_and_every_question_that_has_an_answer(data: Path) -> None:
    (case,) = retrieval.pooled(data)
    assert [each.id for each in case.documents] == ["s1", "s2", "s3", "s4"]
    assert [(each.id, set(each.documents), set(each.turns)) for each in case.questions] == [
        ("q1", {"s1"}, {"s1/0"}),
        ("q2", {"s2"}, {"s2/0"}),
    ]


@pytest.mark.parametrize("name", ["longmemeval", "pooled"])
def test_what_a_user_has_is_reported_first_and_no_limit_beside_it(
    name: str, data: Path, tmp_path: Path
) -> None:
    out = tmp_path / "rankings.jsonl"
    (rows,) = retrieval.measure(_chosen(name, data, out=out)).values()
    systems = ["defaults", "min_score=0", "mode=bm25", "mode=bm25, min_score=0", "plain FTS5"]
    assert [row["system"] for row in rows] == systems + (["word count"] if name == "longmemeval" else [])
    assert all((row["n"], row["any@5"], row["turn all@5"]) == (2, 1.0, 1.0) for row in rows)
    assert [json.loads(line)["question_id"] for line in out.read_text().splitlines()] == ["q1", "q2"]


def test_only_the_row_without_a_limit_is_asked_with_a_min_score() -> None:
    asked = {system.name: system.how for system in retrieval.systems(["hybrid", "vector"])}
    assert asked == {
        "defaults": {},
        "min_score=0": {"min_score": 0.0},
        "mode=vector": {"mode": "vector"},
        "mode=vector, min_score=0": {"mode": "vector", "min_score": 0.0},
    }


def test_a_limited_run_asks_only_so_many_questions(data: Path) -> None:
    (rows,) = retrieval.measure(_chosen("longmemeval", data, limit=1)).values()
    assert {row["n"] for row in rows} == {1}


@pytest.mark.full
def test_an_agent_finds_the_same_through_mcp_and_the_sizes_of_the_store_are_told(data: Path) -> None:
    rows, (sizes,) = retrieval.measure(_chosen("pooled", data, mode=["hybrid"], mcp=True)).values()
    found = {row["system"]: (row["n"], row["any@5"], row["turn all@5"]) for row in rows}
    assert found["defaults, through MCP"] == found["defaults"] == (2, 1.0, 1.0)
    assert all(float(str(size)) >= 0 for size in sizes.values())
    assert float(str(sizes["memory of `vade mcp` at most, MB"])) > 10


@pytest.mark.full
def test_speed_has_its_ratios_from_one_run(data: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cold, "ROUNDS", 1)
    stores, made, started = speed.measure(argparse.Namespace(data=data, limit=2, notes=60)).values()
    assert [row["system"] for row in stores] == [speed.HYBRID, speed.KEYWORD, speed.FLOOR]
    assert (stores[2]["query ×"], stores[2]["ingest ×"]) == (1.0, 1.0)
    assert float(str(stores[0]["query ×"])) > 0 < float(str(stores[0]["index MB per MB"]))
    assert (made[0]["notes"], made[0]["files"]) == (60, 60)
    assert [row["command"] for row in started] == list(speed.COLD)
