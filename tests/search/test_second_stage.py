"""The second stage: trees as arrays say what trees say, on the scale of the sum; nothing depends on them."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from vademecum.index.base import Mark
from vademecum.index.words import SILENT, QuestionCues, Speech, Terms
from vademecum.memory import connect
from vademecum.search import second_stage
from vademecum.search.second_stage import FEATURES, LARGE_FEATURES, LEAVES, MOST
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import MessageEvent
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from vademecum.memory import Memory

USER = Speech("user")
CHAT = """Mira: Have you found a place for the loom yet?
Ansel: The loom stands in the attic now, beside the window.
Mira: And what did the carpenter say about the stairs?
Ansel: He wants to come on Thursday, with his brother.
Mira: My sister bought a loom as well, a small one for the table.
Ansel: Then we can weave together in March."""


@pytest.fixture(autouse=True)
def fresh() -> Iterator[None]:
    """What was read of the file is no matter of the next test."""
    second_stage.fitted.cache_clear()
    yield
    second_stage.fitted.cache_clear()


def tree(chance: random.Random, splits: int) -> dict[str, list[Any]]:
    """A tree as a fit might give: one leaf after another is split."""
    made: dict[str, list[Any]] = {
        name: [] for name in ("feature", "threshold", "left", "right", "value", "leaf")
    }

    def grow(splits: int) -> int:
        if not splits:
            made["leaf"].append(chance.uniform(-1, 1))
            return ~(len(made["leaf"]) - 1)
        at = len(made["feature"])
        made["feature"].append(chance.randrange(len(FEATURES)))
        made["threshold"].append(chance.choice([0.0, 0.5, chance.uniform(-1, 1)]))
        made["value"].append(chance.uniform(-1, 1))
        made["left"].append(0)
        made["right"].append(0)
        left = chance.randrange(splits)
        made["left"][at] = grow(left)
        made["right"][at] = grow(splits - 1 - left)
        return at

    grow(splits)
    return made


def kept(trees: list[dict[str, list[Any]]], step: float = 0.1) -> dict[str, Any]:
    made = {"features": list(FEATURES), "step": step, "trees": trees}
    return {"digest": second_stage.digest(made), **made}


def parsed(made: dict[str, Any]) -> second_stage.Trees:
    return second_stage.parse(json.dumps(made).encode())


def walked(tree: dict[str, list[Any]], row: Any) -> float:
    """What one tree says, split by split, of features that are rounded as the trees round them."""
    at, row = 0, np.round(row, 4)
    while at >= 0:
        above = row[tree["feature"][at]] > np.float32(tree["threshold"][at])
        at = tree["right" if above else "left"][at]
    return float(tree["leaf"][~at])


@given(st.integers(0, 10_000), st.integers(1, 30), st.integers(1, 70))
@example(964, 23, 8)  # a feature within half a digit of a threshold
@settings(max_examples=60, deadline=None)
def test_all_trees_at_once_say_what_they_say_one_by_one(seed: int, count: int, rows: int) -> None:
    chance = random.Random(seed)
    made = [tree(chance, chance.randint(1, LEAVES - 1)) for _ in range(count)]
    values = np.array([[chance.uniform(-1, 1) for _ in FEATURES] for _ in range(rows)], np.float32)
    values[values > 0.8] = 0.5  # some stand exactly on a threshold
    told = parsed(kept(made))(values)
    assert told == pytest.approx([sum(walked(each, row) for each in made) for row in values], abs=1e-4)


def test_the_shares_of_the_features_add_up_to_what_the_trees_say_beyond_where_they_begin() -> None:
    chance = random.Random(7)
    made = [tree(chance, 7) for _ in range(20)]
    trees = parsed(kept(made))
    row = np.array([[chance.uniform(-1, 1) for _ in FEATURES]], np.float32)
    begun = sum(each["value"][0] for each in made)
    assert begun + sum(trees.shares(row[0]).values()) == pytest.approx(float(trees(row)[0]), abs=1e-4)


def test_the_file_of_the_package_is_whole_and_small() -> None:
    trees, lacking = second_stage.fitted()
    assert trees is not None
    assert not lacking
    assert len(trees.first) == 120
    assert second_stage.TREES.stat().st_size <= 80_000


def test_the_file_for_large_stores_is_whole_and_small() -> None:
    trees, lacking = second_stage.fitted(large=True)
    assert trees is not None
    assert not lacking
    assert trees.names == LARGE_FEATURES
    assert second_stage.LARGE_TREES.stat().st_size <= 80_000


def test_the_file_for_sessions_is_whole_and_small() -> None:
    trees, lacking = second_stage.fitted(sessions=True)
    assert trees is not None
    assert not lacking
    assert len(trees.first) == 200
    assert second_stage.SESSION_TREES.stat().st_size <= 80_000


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: b"",
        lambda text: text[: len(text) // 2],
        lambda text: b"[]",
        lambda text: text.replace(b'"leaf":[', b'"leaf":[9,', 1),
        lambda text: text.replace(b'"sum"', b'"total"', 1),
        lambda text: text.replace(b'"step":', b'"step":1', 1),
        lambda text: text.replace(b'"trees"', b'"wood"', 1),
        lambda text: b"\xff" + text,
    ],
)
def test_a_file_that_is_not_what_was_fitted_is_refused(damage: Any) -> None:
    with pytest.raises(second_stage.Damaged):
        second_stage.parse(damage(second_stage.TREES.read_bytes()))


class Candidates:
    """What `Legs` tell the second stage of some candidates."""

    def __init__(self, count: int, chance: random.Random) -> None:
        self.asked = Terms(("loom",), ())
        self.narrow = {id_: chance.uniform(0, 5) for id_ in range(1, count + 1)}
        self.vector = {id_: chance.uniform(0, 0.5) for id_ in range(1, count + 1)}
        self.exact: dict[int, float] = {}
        self.marks = {
            id_: Mark(
                id_ // 4, id_ % 4, "memory", superseded=False, alone=False, speech=Speech("user"), size=9
            )
            for id_ in range(1, count + 1)
        }
        self.wide = {mark.file: 1.0 for mark in self.marks.values()}
        self.own = {(mark.file, mark.order): self.narrow[id_] for id_, mark in self.marks.items()}


@pytest.mark.parametrize("seed", range(5))
def test_the_best_score_stays_and_what_was_not_looked_at_stays_below(seed: int) -> None:
    chance = random.Random(seed)
    legs: Any = Candidates(MOST + 40, chance)
    scores = {id_: chance.uniform(0.05, 1.2) for id_ in legs.marks}
    trees = parsed(kept([tree(chance, 7) for _ in range(120)]))
    stage = second_stage.staged(scores, legs, QuestionCues(), trees)
    after = {id_: score + stage.added.get(id_, 0.0) for id_, score in scores.items()}
    looked_at = sorted(scores, key=scores.__getitem__)[-MOST:]
    assert set(stage.ids) == set(looked_at)
    assert max(after.values()) == pytest.approx(max(scores.values()), abs=1e-5)
    assert min(after.values()) > 0
    rest = [after[id_] for id_ in scores if id_ not in stage.ids]
    assert max(rest) <= min(after[id_] for id_ in stage.ids) + 1e-6
    order = [id_ for id_ in scores if id_ not in stage.ids]
    assert sorted(order, key=scores.__getitem__) == sorted(order, key=after.__getitem__)


def test_where_nobody_speaks_and_every_passage_is_a_file_of_its_own_the_sum_decides() -> None:
    chance = random.Random(5)
    legs: Any = Candidates(30, chance)
    scores = {id_: chance.uniform(0.1, 1.0) for id_ in legs.marks}
    trees = parsed(kept([tree(chance, 7) for _ in range(50)]))
    added = second_stage.staged(scores, legs, QuestionCues(), trees).added
    assert any(abs(more) > 0.01 for more in added.values())
    legs.marks = {id_: mark._replace(alone=True, speech=SILENT) for id_, mark in legs.marks.items()}
    added = second_stage.staged(scores, legs, QuestionCues(), trees).added
    assert list(added.values()) == pytest.approx([0.0] * len(added), abs=1e-6)


def test_an_identifier_counts_on_top_of_what_the_trees_say() -> None:
    chance = random.Random(3)
    plain: Any = Candidates(30, chance)
    trees = parsed(kept([tree(chance, 7) for _ in range(50)]))
    scores = {id_: chance.uniform(0.1, 1.0) for id_ in plain.marks}
    without = second_stage.staged(scores, plain, QuestionCues(), trees).added
    plain.exact = {5: 1.0}
    # The best sum decides how much is taken from all, and it is another passage's.
    with_it = second_stage.staged({**scores, 5: scores[5] + 1.0}, plain, QuestionCues(), trees).added
    assert with_it[5] == pytest.approx(without[5], abs=1e-5)


# ---------------------------------------------------------------- through the door


@pytest.fixture
def memory(tmp_path: Path) -> Memory:
    (tmp_path / "work").mkdir()
    memory = connect(home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER, environ={})
    for line in CHAT.splitlines():
        memory.note(line)
    memory.store("The loom is insured until 2031.", key="insurance")
    return memory


def test_every_hit_says_what_each_feature_did(memory: Memory) -> None:
    for hit in memory.search("where does Ansel keep the loom", explain=True).results:
        assert hit.arithmetic is not None
        assert {f"stage_{name}" for name in FEATURES} <= set(hit.arithmetic)
        assert "stage" in hit.arithmetic


def test_a_large_store_has_trees_of_its_own(memory: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_stage, "LARGE", 3)
    monkeypatch.setattr(second_stage, "TREES", second_stage.TREES.with_name("nowhere.json"))
    answer = memory.search("where does Ansel keep the loom", explain=True)
    assert not answer.degraded
    assert "attic" in answer.results[0].snippet
    for hit in answer.results:
        assert hit.arithmetic is not None
        assert {f"stage_{name}" for name in LARGE_FEATURES} <= set(hit.arithmetic)
        shares = sum(hit.arithmetic[f"stage_{name}"] for name in LARGE_FEATURES)
        assert shares != 0


def test_the_words_of_a_passage_and_of_its_neighbours_are_features_of_a_large_store(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []

    def refine(scores: Any, legs: Any, asked: Any) -> None:
        ids, _, sums = second_stage.candidates(scores, legs, most=second_stage.LARGE_MOST)
        rows = second_stage.large_features(ids, sums, legs, asked)
        bodies = legs.index.rows(ids)
        seen.extend(
            (bodies[id_].body, dict(zip(LARGE_FEATURES, row.tolist(), strict=True)))
            for id_, row in zip(ids, rows, strict=True)
        )

    monkeypatch.setattr(second_stage, "refine", refine)
    memory.search("loom attic carpenter")
    told = dict(seen)
    attic = next(row for body, row in told.items() if "attic" in body)
    stairs = next(row for body, row in told.items() if "carpenter" in body)
    insured = next(row for body, row in told.items() if "insured" in body)
    assert attic["held"] == pytest.approx(2 / 3)
    assert insured["held"] == pytest.approx(1 / 3)
    assert insured["held_idf"] < attic["held_idf"] < 1
    assert attic["around_idf"] == pytest.approx(1)
    assert attic["file_idf"] == stairs["file_idf"] == pytest.approx(1)
    assert insured["file_idf"] == insured["around_idf"] == insured["held_idf"]
    assert sorted((row["narrow_rank"] for row in told.values()), reverse=True)[:2] == [1.0, 0.5]


def test_words_alone_have_no_second_stage(memory: Memory) -> None:
    for hit in memory.search("loom", mode="bm25", explain=True).results:
        assert hit.arithmetic is not None
        assert "stage" not in hit.arithmetic


@pytest.mark.parametrize("harm", ["missing", "cut"])
def test_without_its_file_the_sum_decides_and_the_answer_says_so(
    memory: Memory, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, harm: str
) -> None:
    broken = tmp_path / "second_stage.json"
    if harm == "cut":
        broken.write_bytes(second_stage.TREES.read_bytes()[:-100])
    monkeypatch.setattr(second_stage, "TREES", broken)
    answer = memory.search("where does Ansel keep the loom", explain=True)
    assert any("second stage" in each for each in answer.degraded)
    assert "attic" in answer.results[0].snippet
    assert all(hit.arithmetic and "stage" not in hit.arithmetic for hit in answer.results)


def test_sessions_are_put_in_order_by_trees_of_their_own(
    memory: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = memory.sessions.transcripts.new(name="loom")
    for at, line in enumerate(CHAT.splitlines()):
        log.append(MessageEvent(Message(Role.ASSISTANT if at % 2 else Role.USER, (Text(line),))))
    memory.care.index()
    seen: list[Any] = []
    staged = second_stage.staged

    def spy(scores: Any, legs: Any, asked: Any, trees: Any) -> Any:
        seen.append({legs.marks[id_].speech.speaker for id_ in scores})
        assert len(trees.first) == 200  # others than those for notes
        return staged(scores, legs, asked, trees)

    monkeypatch.setattr(second_stage, "staged", spy)
    found = memory.sessions.search("where is my loom, by the window?")
    assert seen == [{"user", "assistant"}]
    assert any("attic" in hit.preview for hit in found.hits)
