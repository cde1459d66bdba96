"""An index of another version is made anew by the first question, and what is found stays the same."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

import apsw
import pytest

from vademecum.index.sqlite import VERSION
from vademecum.memory import Memory, connect
from vademecum.types import Origin

if TYPE_CHECKING:
    from pathlib import Path


def opened(base: Path) -> Memory:
    (base / "work").mkdir(exist_ok=True)
    return connect(home=base / "home", cwd=base / "work", origin=Origin.USER, environ={"VADE_SWEEP": "off"})


@pytest.mark.parametrize("version", [VERSION - 1, VERSION + 1])
def test_an_index_of_another_version_is_rebuilt_by_the_first_question(tmp_path: Path, version: int) -> None:
    memory = opened(tmp_path)
    for number in range(12):
        memory.store(f"The heron number {number} came on Tuesday.", key=f"note-{number}")
    memory.care.index()
    before = [each.key for each in memory.search("herons on Tuesday").results]
    memory.close()
    with contextlib.closing(apsw.Connection(str(memory.care.searcher.path))) as connection:
        connection.execute(f"pragma user_version = {version}")
    again = opened(tmp_path)
    answer = again.search("herons on Tuesday")
    assert [each.key for each in answer.results] == before
    assert any("will be rebuilt" in line for line in answer.degraded)
    assert again.search("herons on Tuesday").degraded == ()
    assert again.care.survey().indexed == 12
