"""Times that a person typed: dates, and spans before the present."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from vademecum.errors import UsageError
from vademecum.text import clock

NOW = datetime(2026, 11, 15, 9, 15, tzinfo=UTC)


@pytest.mark.parametrize(
    ("span", "before"),
    [
        ("2m", timedelta(minutes=2)),
        (" 30min ", timedelta(minutes=30)),
        ("1 minute", timedelta(minutes=1)),
        ("2h", timedelta(hours=2)),
        ("3 Days", timedelta(days=3)),
        ("6w", timedelta(weeks=6)),
    ],
)
def test_a_span_is_counted_back_from_the_present(span: str, before: timedelta) -> None:
    assert clock.parse_since(span, "--since", now=NOW) == NOW - before


def test_yesterday_is_the_beginning_of_that_local_day_and_a_date_is_a_date() -> None:
    yesterday = clock.parse_since("Yesterday", "--since", now=NOW)
    assert yesterday is not None
    assert clock.local_stamp(yesterday)[:19] == f"{NOW.astimezone().date() - timedelta(days=1)}T00:00:00"
    assert clock.parse_since("2026-11-14T09:15:00Z", "--since", now=NOW) == NOW - timedelta(days=1)
    assert clock.parse_since(" ", "--since", now=NOW) is None


@pytest.mark.parametrize("typed", ["soon", "2mo", "-2h", "2", "999999w"])
def test_what_is_no_time_is_refused(typed: str) -> None:
    with pytest.raises(UsageError, match="is not a time for --since"):
        clock.parse_since(typed, "--since", now=NOW)
