"""Write and read timestamps: UTC to the second for records, local with its offset for journals."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

from vademecum.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    Clock = Callable[[], datetime]

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def now() -> datetime:
    """Return the present, in the local time zone."""
    return datetime.now().astimezone()


def from_seconds(seconds: float) -> datetime | None:
    """Return the moment that is this many seconds after 1970; None outside of the calendar."""
    try:
        return _EPOCH + timedelta(seconds=seconds)
    except OverflowError:
        return None


def stamp(moment: datetime) -> str:
    """Return a moment in UTC to the second: 2026-11-15T08:15:32Z."""
    return f"{moment.astimezone(UTC).replace(microsecond=0, tzinfo=None).isoformat()}Z"


def local_stamp(moment: datetime) -> str:
    """Return a moment to the second, in its own time zone with the offset: 2026-11-15T09:15:32+01:00."""
    return moment.replace(microsecond=0).isoformat()


def parse(text: str | None) -> datetime | None:
    """Return the moment that a stamp means; None for any other text.

    A stamp without an offset is in UTC, and a date alone means its first second.
    """
    if not text:
        return None
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        moment.astimezone(UTC)  # an offset can lead out of the calendar
    except (ValueError, OverflowError):
        return None
    return moment


def parse_given(text: str | None, what: str, *, end: bool = False) -> datetime | None:
    """Return the moment that a person typed for `what`; None if nothing was typed.

    A date alone means the first second of the local day, or with `end` the last.
    """
    if text is None or not text.strip():
        return None
    given = text.strip()
    if re.fullmatch(r"\d{4}-\d\d-\d\d", given):
        given += "T23:59:59" if end else "T00:00:00"
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", given))
        return moment.astimezone()
    except (ValueError, OverflowError) as error:
        raise UsageError(
            f"{text!r} is not a time for {what}", hint="write it as 2026-11-15 or 2026-11-15T09:15:00Z"
        ) from error


_SPAN = re.compile(r"(\d{1,6})\s*(m|min|minutes?|h|hours?|d|days?|w|weeks?)")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def parse_since(text: str, what: str, *, now: datetime) -> datetime | None:
    """Return the moment named by a date, by `yesterday`, or by a span before `now` such as `2h`.

    None if nothing was typed; `yesterday` begins with the first second of that local day.
    """
    given = text.strip().lower()
    if given == "yesterday":
        return parse_given(f"{now.astimezone().date() - timedelta(days=1)}", what)
    span = _SPAN.fullmatch(given)
    if span is None:
        return parse_given(text, what)
    try:
        return now - timedelta(**{_UNITS[span[2][0]]: int(span[1])})
    except OverflowError as error:  # before the first day of the calendar
        raise UsageError(f"{text!r} is not a time for {what}", hint="write it as 30min, 2h or 3d") from error


def micro(moment: datetime) -> int:
    """Return a moment as the number of microseconds since 1970."""
    return (moment - _EPOCH) // timedelta(microseconds=1)
