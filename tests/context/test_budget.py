"""What happens next follows from numbers alone, and always comes to an end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vademecum.context.budget import (
    FlushSettings,
    Move,
    Stage,
    Step,
    TrimSettings,
    Window,
    keep_recent,
    next_step,
    points,
    reply_reserve,
)

BIG = Window(200_000, reply_reserve(200_000))
WINDOWS = st.builds(
    Window,
    context=st.integers(0, 2_000_000),
    reply=st.integers(0, 20_000),
    schemas=st.integers(0, 50_000),
    system=st.integers(0, 50_000),
)
TRIMS = st.builds(TrimSettings, proactive=st.floats(0.1, 1.0), target=st.floats(0.05, 1.0))


def test_a_large_window_is_trimmed_at_three_quarters_to_a_half() -> None:
    found = points(BIG)
    assert (found.trim, found.target, found.limit) == (150_000, 100_000, 200_000 - 8192)


def test_the_flush_comes_at_window_minus_reserve_minus_soft_but_not_after_the_trim() -> None:
    late = TrimSettings(proactive=0.95)
    assert points(BIG, late).flush == 200_000 - 20_000 - 4_000
    assert points(Window(16_000, 0), late).flush == 16_000 - 3_200 - 800
    assert points(BIG).flush == 150_000


def test_room_is_what_reply_and_schemas_leave() -> None:
    assert Window(16_000, 4_000, schemas=1_000).room == 11_000
    assert reply_reserve(16_000) == 4_000
    assert reply_reserve(200_000, 64_000) == 8192
    assert reply_reserve(200_000, 1_000) == 1_000
    assert (keep_recent(200_000), keep_recent(16_000)) == (20_000, 4_000)


def test_a_prompt_that_fits_is_sent() -> None:
    assert next_step(BIG, used=149_999, flushed=False) == Step(Move.SEND)


def test_the_flush_comes_before_the_trim_and_once() -> None:
    assert next_step(BIG, used=150_000, flushed=False) == Step(Move.FLUSH)
    assert next_step(BIG, used=150_000, flushed=True) == Step(Move.TRIM, Stage.PROACTIVE, 100_000)
    off = FlushSettings(enabled=False)
    assert next_step(BIG, used=150_000, flushed=False, flush=off).move is Move.TRIM


def test_between_flush_and_trim_a_flushed_window_is_sent() -> None:
    late = TrimSettings(proactive=0.95)
    assert next_step(BIG, used=177_000, flushed=False, trim=late).move is Move.FLUSH
    assert next_step(BIG, used=177_000, flushed=True, trim=late).move is Move.SEND


def test_the_ladder_after_a_refusal() -> None:
    limit = BIG.limit
    steps = [next_step(BIG, used=limit, flushed=True, overflows=number) for number in range(1, 5)]
    assert [step.stage for step in steps] == [Stage.HALF, Stage.QUARTER, Stage.MINIMAL, Stage.NONE]
    assert [step.target for step in steps[:2]] == [limit // 2, limit // 4]
    assert steps[3] == Step(Move.FAIL)
    assert next_step(BIG, used=100, flushed=False, overflows=1) == Step(Move.FLUSH)


def test_a_refusal_of_a_prompt_thought_small_still_makes_it_smaller() -> None:
    assert next_step(BIG, used=1_000, flushed=True, overflows=1) == Step(Move.TRIM, Stage.HALF, 500)


def test_a_system_prompt_of_half_the_window_leaves_room_to_talk() -> None:
    found = points(Window(16_000, 1_000, schemas=5_000, system=6_000))
    assert found.target > 11_000
    assert found.target < found.trim <= found.limit


@pytest.mark.parametrize("window", [Window(0, 0), Window(100, 8192), Window(1000, 0, schemas=5000)])
def test_a_window_nothing_fits_into_ends_in_a_failure(window: Window) -> None:
    moves = [next_step(window, used=6000, flushed=True, trims=number).move for number in range(4)]
    assert moves == [Move.TRIM, Move.TRIM, Move.TRIM, Move.FAIL]


@given(WINDOWS, TRIMS)
def test_the_points_are_in_order(window: Window, trim: TrimSettings) -> None:
    found = points(window, trim)
    assert 0 <= found.flush <= found.trim <= found.limit
    assert 0 <= found.target <= found.trim


@given(WINDOWS, TRIMS, st.integers(0, 3_000_000), st.booleans(), st.data())
def test_every_call_is_sent_within_its_limit_or_fails_after_few_steps(
    window: Window, trim: TrimSettings, used: int, enabled: bool, data: st.DataObject
) -> None:
    """Whatever a trim achieves, one flush at most, before the first drop."""
    flushes = trims = 0
    for _ in range(10):
        step = next_step(
            window,
            used=used,
            flushed=flushes > 0,
            trims=trims,
            trim=trim,
            flush=FlushSettings(enabled=enabled),
        )
        if step.move is Move.SEND:
            assert used <= window.limit
            break
        if step.move is Move.FAIL:
            assert used > window.limit
            break
        if step.move is Move.FLUSH:
            assert trims == 0
            flushes += 1
        else:
            assert flushes == enabled
            trims += 1
            used = data.draw(st.integers(min(step.target, used), used))
    else:
        raise AssertionError("it never ends")
    assert flushes <= 1
    assert trims <= 3


@given(WINDOWS, st.integers(0, 3_000_000))
def test_each_rung_is_smaller_than_the_one_before(window: Window, used: int) -> None:
    for number in range(1, 4):
        step = next_step(window, used=used, flushed=True, overflows=number)
        assert step.move is Move.TRIM
        assert step.target <= max(used, window.fixed)
        assert step.target < used or used <= window.fixed or used - window.fixed <= 1
        used = step.target
    assert next_step(window, used=used, flushed=True, overflows=4).move is Move.FAIL
