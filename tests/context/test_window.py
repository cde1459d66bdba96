"""The thread and its log."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.context.window import Thread
from vademecum.memory import Memory
from vademecum.transcripts import Message, Role, Text
from vademecum.transcripts.events import MessageEvent

if TYPE_CHECKING:
    from pathlib import Path


def test_a_line_that_only_looks_whole_does_not_hold_its_message(tmp_path: Path) -> None:
    memory = Memory.open(tmp_path / "home", cwd=tmp_path)
    log = memory.sessions.new()
    thread = Thread(log, list(log.events()))
    thread.absorb(
        [Message(Role.USER, (Text("first, and it must stay"),)), Message(Role.USER, (Text("second"),))]
    )
    path = tmp_path / "home" / log.path
    path.write_bytes(path.read_bytes().replace(b"first, and it must stay", b'first"} and {"it'))
    assert not any(
        isinstance(each, MessageEvent) and "must stay" in each.message.text for each in log.events()
    )
    thread.ensure_logged()
    said = [each.message.text for each in log.events() if isinstance(each, MessageEvent)]
    assert said == ["second", "first, and it must stay"]
    thread.ensure_logged()
    assert len([each for each in log.events() if isinstance(each, MessageEvent)]) == 2
