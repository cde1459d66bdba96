"""What memory moved by itself is passed on at session start, until a person has seen it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.agents.base import HookEvent
from vademecum.interfaces.hooks import work
from vademecum.memory import connect
from vademecum.store import decisions
from vademecum.store.hook_sessions import HookState
from vademecum.types import Origin, Swept

if TYPE_CHECKING:
    from pathlib import Path

    from vademecum.memory import Memory


def start_of(hook: Memory) -> str:
    """The block for a session that begins."""
    return work._make_start(hook, HookState(), HookEvent.SESSION_START).text


def test_the_block_of_a_session_start_asks_the_agent_to_tell_it(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    hook = connect(home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.TOOL, environ={})
    person = connect(home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.USER, environ={})
    person.store("Always use pytest.", key="testing")
    plain = start_of(hook)
    done = Swept("20261115T120000Z-00000abcdef", 48, ("consolidated-2026-11-15",), "2026-11-15T12:00:00Z")
    decisions.keep_notice(person.home, done)
    told = start_of(hook)
    assert "48 old records were moved to the archive automatically" in told
    assert f"vade undo {done.run}" in told
    assert told.startswith(plain.removesuffix("</vade-memory>\n"))  # what caches hold stays as it is
    person.care.saw_notices()
    assert start_of(hook) == plain


def test_an_empty_memory_still_passes_it_on(tmp_path: Path) -> None:
    (tmp_path / "work").mkdir()
    hook = connect(home=tmp_path / "home", cwd=tmp_path / "work", origin=Origin.TOOL, environ={})
    decisions.keep_notice(hook.home, Swept("20261115T120000Z-00000abcdef", 12))
    assert "12 old records were moved" in start_of(hook)
