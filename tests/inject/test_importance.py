"""What an agent must not miss comes first in the block, and reading alone never changes a byte of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tiers
from cases import every_case
from vademecum.inject import importance
from vademecum.inject.importance import Importance
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from collections.abc import Callable

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def opened(base: Path, *, at: datetime = NOON, **given: Any) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    options: dict[str, Any] = {"origin": Origin.AGENT, "environ": {}, "now": lambda: at, **given}
    return connect(home=base / "home", cwd=base / "work", **options)


def shown(memory: Memory) -> list[str]:
    """The keys of the records in the block, in its order."""
    return [
        item.key
        for section in memory.injection.block().sections
        if section.name == "records"
        for item in section.items
    ]


LEVELS = [
    ("Billing uses Postgres, never MySQL.", Importance.RULE),
    ("Don't push to main.", Importance.RULE),
    ("Use tabs in Makefiles.", Importance.RULE),
    ("Every endpoint checks the token.", Importance.RULE),
    ("Mira prefers short answers.", Importance.RULE),
    ("The export was slow on old laptops, so ask before a full run.", Importance.RULE),
    ("Tests that were written for version one are immutable.", Importance.RULE),
    ("Generated files are not edited.", Importance.LIKELY_RULE),
    ("Node 20 everywhere.", Importance.LIKELY_RULE),
    ("We chose Turbo over React.", Importance.DECISION),
    ("RabbitMQ was dropped in favor of NATS.", Importance.DECISION),
    ("The suite is started by `make check`.", Importance.DECISION),
    ("The cache listens on port 6379.", Importance.FACT),
    ("Fixed the importer: a stale lock.", Importance.REST),
    ("The importer never got past row 14,000, there was a stray byte.", Importance.REST),
    ("Ran `npm test` twice, the second run was green.", Importance.REST),
    ("Does the importer need the cache?", Importance.REST),
    ("We chose Monday for the review.", Importance.FACT),
    ("Verkaufsdaten dürfen nicht in Tests.", Importance.RULE),
    ("Wir haben uns gegen WordPress entschieden.", Importance.DECISION),
]


@every_case("text, level", LEVELS)
def test_a_text_has_the_level_of_what_it_says(text: str, level: Importance) -> None:
    assert importance.importance_of("project", None, [text], own=False) is level


def test_a_priority_decides_alone_and_a_type_makes_a_rule() -> None:
    account, fact = ["Fixed the importer."], ["The cache is Redis."]
    for type_ in ("rule", "feedback", "user"):
        assert importance.importance_of(type_, None, fact, own=False) is Importance.LIKELY_RULE
        assert importance.importance_of(type_, None, account, own=False) is Importance.FACT
        assert importance.importance_of(type_, None, account, own=True) is Importance.RULE
    assert importance.importance_of("project", 1, account, own=False) is Importance.RULE
    assert importance.importance_of("rule", 5, ["Never push."], own=True) is Importance.REST
    assert importance.importance_of("project", None, account, own=True) is Importance.FACT


def test_confirmation_and_use_add_points_and_age_takes_them_in_steps() -> None:
    assert importance.points(sure=True, used=0, days=0) > importance.points(sure=False, used=0, days=0)
    assert [importance.points(sure=False, used=used, days=0) for used in (0, 1, 2, 3, 7, 100)] == [
        0,
        1,
        1,
        2,
        3,
        3,
    ]
    assert [importance.points(sure=False, used=0, days=days) for days in (7, 8, 31, 91, 366)] == [
        0,
        -1,
        -2,
        -3,
        -4,
    ]


@given(st.text(max_size=300))
def test_any_text_has_a_level(text: str) -> None:
    assert importance.importance_of("project", None, [text], own=False) in Importance


def test_trivia_of_any_number_does_not_push_out_what_must_be_known(tmp_path: Path) -> None:
    old = opened(tmp_path, at=NOON - timedelta(days=200))
    old.store("Billing uses Postgres, never MySQL.", key="billing")
    old.store("Run the tests with `pytest -n 2`.", key="tests")
    memory = opened(tmp_path)
    for number in range(60):
        memory.store(f"Looked at page {number * 7} of the manual with Kim.", key=f"page-{number}")
    assert shown(memory)[:2] == ["tests", "billing"]
    assert "Not shown: 22 more records." in memory.injection.block().text


def test_rules_come_before_decisions_then_facts_then_accounts(tmp_path: Path) -> None:
    memory = opened(tmp_path)
    memory.store("Never push on a Friday.", key="rule")
    memory.store("We chose Turbo over React.", key="decision")
    memory.store("The cache listens on port 6379.", key="fact")
    memory.store("Fixed the importer: a stale lock.", key="account")
    memory.store("Fixed the exporter: a wrong default.", key="first", fields={"priority": 1})
    assert shown(memory) == ["first", "rule", "decision", "fact", "account"]


def test_what_was_confirmed_comes_before_newer_facts(tmp_path: Path) -> None:
    opened(tmp_path, at=NOON - timedelta(days=20), session="s1").store(
        "The cache is on port 6379.", key="cache"
    )
    opened(tmp_path, session="s2").store("The queue is on port 5672.", key="queue")
    assert shown(opened(tmp_path)) == ["queue", "cache"]
    opened(tmp_path, at=NOON - timedelta(days=19), origin=Origin.USER).review.verify("cache")
    assert shown(opened(tmp_path)) == ["cache", "queue"]


def test_age_counts_from_the_newest_statement_and_not_from_the_clock(tmp_path: Path) -> None:
    opened(tmp_path, at=NOON - timedelta(days=6)).store("The cache is on port 6379.", key="cache")
    opened(tmp_path).store("The queue is on port 5672.", key="queue")
    before = opened(tmp_path).injection.block().text
    for days in (2, 40, 400):
        assert opened(tmp_path, at=NOON + timedelta(days=days)).injection.block().text == before


READS: dict[str, Callable[[Memory], object]] = {
    "search": lambda memory: memory.search("what is said about port numbers?"),
    "search by words": lambda memory: memory.search("cache", mode="bm25", sort_by="usage"),
    "list": lambda memory: memory.list(),
    "show": lambda memory: memory.show("fact-1"),
    "inject": lambda memory: memory.injection.block(),
    "inject with a query": lambda memory: memory.injection.block(query="cache"),
    "explain": lambda memory: memory.injection.block(explain=True),
    "prompt": lambda memory: memory.injection.remind("which port has the cache of fact 2?"),
    "status": lambda memory: memory.status(),
    "check": lambda memory: memory.care.lint(),
    "index": lambda memory: memory.care.index(),
}


@settings(max_examples=tiers.few(6, 60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(sorted(READS)), st.integers(0, 500)), min_size=1, max_size=8),
    st.lists(
        st.tuples(
            st.sampled_from([each[0] for each in LEVELS]),
            st.sampled_from(["project", "user", "feedback", "rule", "reference", "solution", "pattern"]),
            st.integers(0, 400),
        ),
        min_size=3,
        max_size=10,
    ),
)
def test_reading_alone_never_changes_a_byte_of_the_block(
    reads: list[tuple[str, int]], saved: list[tuple[str, str, int]]
) -> None:
    with TemporaryDirectory() as folder:
        base = Path(folder).resolve()
        for number, (text, type_, days) in enumerate(saved):
            opened(base, at=NOON - timedelta(days=days)).store(
                f"{text} Number {number}.", key=f"fact-{number}", type=type_
            )
        before = opened(base).injection.block().text
        for name, days in reads:  # each in a new process's memory, and later every time
            memory = opened(base, at=NOON + timedelta(days=days))
            READS[name](memory)
            memory.close()
            assert opened(base, at=NOON + timedelta(days=days)).injection.block().text == before, name
        (base / "home" / "state.db").unlink(missing_ok=True)
        for cache in (base / "home" / "index").glob("*"):
            cache.unlink()
        assert opened(base).injection.block().text == before


def test_the_check_itself_sees_a_change_of_memory(tmp_path: Path) -> None:
    opened(tmp_path).store("The cache is on port 6379.", key="cache")
    before = opened(tmp_path).injection.block().text
    opened(tmp_path).store("The queue is on port 5672.", key="queue")
    assert opened(tmp_path).injection.block().text != before


@pytest.mark.full
def test_the_labelled_stores_have_what_must_be_known() -> None:
    from bench import block

    for half, stores in ((half, block.read(half)) for half in ("tune", "held")):
        outcomes = [block.outcome(name, records) for name, records in stores.items()]
        must, lacking = sum(each.must for each in outcomes), sum(len(each.lacking) for each in outcomes)
        assert len(outcomes) >= 8
        assert all(each.must >= 8 for each in outcomes), half
        assert lacking <= 0.05 * must, half
