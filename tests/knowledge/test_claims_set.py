"""A project of our own is changed by a script, and memory says which of its sentences are stale."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from bench import claims

from vademecum.inject import build
from vademecum.search import passages

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("git", [True, False], ids=["git", "no git"])
def test_what_is_stale_is_found_and_all_who_say_so_agree(git: bool, tmp_path: Path) -> None:
    cited = claims.read()
    seen = claims.observe(cited, tmp_path, git=git)
    assert sum(each.stale for each in cited) >= 60
    for half in (True, False):
        row = claims.make_row("", half, cited, seen)
        assert float(str(row["recall"])) >= 0.85, row
        assert float(str(row["precision"])) >= 0.95, row
        assert row["disagree"] == 0, row


def test_also_of_what_was_written_by_hand(tmp_path: Path) -> None:
    cited = claims.read()
    seen = claims.observe(cited, tmp_path, git=False, by_hand=True)
    for half in (True, False):
        row = claims.make_row("", half, cited, seen)
        assert float(str(row["recall"])) >= 0.85, row
        assert float(str(row["precision"])) >= 0.95, row
        assert row["disagree"] == 0, row


def test_before_anything_changes_nothing_is_stale(tmp_path: Path) -> None:
    cited = [each for each in claims.read() if each.kind != "excused"]
    limits = passages.SECONDS, build.CODE_SECONDS
    seen = claims.observe(cited, tmp_path, git=False, change=False)
    assert limits == (
        passages.SECONDS,
        build.CODE_SECONDS,
    )  # given back
    assert [each.text for each in cited if seen[each.id].lint or seen[each.id].told] == []
