"""Waiting for changes: one waking for all that come together, and none that waits for ever."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.index import freshness

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

pytestmark = pytest.mark.disk  # not in memory: it is about what a file system does


def woken(changes: Iterable[float], until: float, step: float = 0.25) -> list[tuple[float, str]]:
    """When and why one wakes, if changes come at these moments and are heard in steps."""
    moments = sorted(changes)
    at = [0.0]

    def steps() -> Iterator[bool]:
        while at[0] < until:
            before, at[0] = at[0], at[0] + step
            yield any(before < moment <= at[0] for moment in moments)

    first, *others = [(at[0], why) for why in freshness.group_changes(steps(), clock=lambda: at[0])]
    assert first == (step, "due")  # what changed before one could hear
    return others


def test_eight_files_written_shortly_after_each_other_are_one_waking() -> None:
    (only,) = woken([0.3 * number for number in range(1, 9)], until=20)
    moment, why = only
    assert why == "changed"
    assert freshness.QUIET <= moment - 2.4 <= freshness.QUIET + 0.5


def test_a_change_alone_waits_for_the_quiet() -> None:
    ((moment, why),) = woken([1.0], until=20)
    assert (moment, why) == (1.0 + freshness.QUIET, "changed")


def test_who_calls_is_not_kept_waiting_for_a_quiet_and_the_change_is_not_forgotten() -> None:
    at, calls = [0.0], [1.5]

    def steps() -> Iterator[bool]:
        while at[0] < 20:
            at[0] += 0.25
            yield at[0] == 1.0

    def called() -> bool:
        return bool(calls) and at[0] >= calls[0] and calls.pop() > 0

    found = [(at[0], why) for why in freshness.group_changes(steps(), clock=lambda: at[0], called=called)]
    assert found == [(0.25, "due"), (1.5, "called"), (1.0 + freshness.QUIET, "changed")]


def test_changes_without_end_do_not_put_it_off_for_longer_than_ten_seconds() -> None:
    found = woken([number * 0.5 for number in range(1, 60)], until=29)
    assert [why for _, why in found] == ["changed", "changed"]
    assert found[0][0] == 0.5 + freshness.LONGEST
    assert found[1][0] - found[0][0] <= freshness.LONGEST + 0.5


def test_where_nothing_is_heard_everything_is_compared_from_time_to_time() -> None:
    found = woken([], until=100)
    assert [why for _, why in found] == ["due"] * 3
    assert found[0][0] > freshness.RECONCILE


@given(st.lists(st.floats(0.3, 60), max_size=40))
def test_every_change_is_followed_by_a_waking_in_time(changes: list[float]) -> None:
    found = [moment for moment, _ in woken(changes, until=90)]
    for change in changes:
        assert any(change <= moment <= change + freshness.LONGEST + 0.5 for moment in found), (change, found)
    for before, after in itertools.pairwise(found):
        assert after - before >= freshness.QUIET
