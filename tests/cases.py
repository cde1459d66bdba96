"""Run a test over a whole table as one test, and say which rows failed."""

from __future__ import annotations

import traceback
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

SHOWN = 20  # failed rows that one message tells


def every_case(
    names: str | tuple[str, ...], table: Iterable[Any], *, ids: Any = None
) -> Callable[[Callable[..., None]], Callable[[], None]]:
    """Decorate a test as `pytest.mark.parametrize` does, but run all rows in one test.

    The failure names every row that failed. The test takes nothing but a row: fixtures would be shared by
    all rows.
    """
    words = names if isinstance(names, tuple) else tuple(word.strip() for word in names.split(","))
    rows = list(table)

    def decorate(check: Callable[..., None]) -> Callable[[], None]:
        def test() -> None:
            failed: list[tuple[str, BaseException]] = []
            for at, row in enumerate(rows):
                given = dict(zip(words, _values(row) if len(words) > 1 else (row,), strict=True))
                try:
                    check(**given)
                except (Exception, pytest.fail.Exception) as error:
                    failed.append((_name_row(at, row, ids), error))
            if len(failed) == 1:
                name, only = failed[0]
                only.add_note(f"This was the row {name}, the only one of {len(rows)} that failed.")
                raise only
            if failed:
                pytest.fail(_describe(failed, len(rows)), pytrace=False)

        test.__name__, test.__qualname__, test.__module__ = check.__name__, check.__name__, check.__module__
        test.__doc__ = check.__doc__
        return test

    return decorate


def _values(row: Any) -> Any:
    """Return the values of a row, which may be written as `pytest.param`."""
    return row.values if isinstance(row, type(pytest.param())) else row


def _name_row(at: int, row: Any, ids: Any) -> str:
    if callable(ids):
        return str(ids(row))
    return str(list(ids)[at]) if ids is not None else repr(row)[:200]


def _describe(failed: list[tuple[str, BaseException]], count: int) -> str:
    """Return one message about all failed rows: the row, the error, and the line of the test."""
    lines = [f"{len(failed)} of {count} rows failed:"]
    for name, error in failed[:SHOWN]:
        frames = traceback.extract_tb(error.__traceback__)
        at = f" (line {frames[1].lineno})" if len(frames) > 1 else ""
        text = str(error).strip() or "no message"
        lines.append(f"- {name}{at}: {type(error).__name__}: {text[:1000]}")
    if len(failed) > SHOWN:
        lines.append(f"… and {len(failed) - SHOWN} more")
    return "\n".join(lines)
