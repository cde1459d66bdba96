"""Our own words in somebody's transcript: what memory told an agent is not what anybody said.

A block that was injected comes back with the session it was injected into. It is put aside when that is read:
else memory would confirm itself from its own echo.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from vademecum.transcripts.messages import Text, ToolResult

if TYPE_CHECKING:
    from vademecum.transcripts.messages import Message, Part

ASIDE = "[what memory told the agent]"
_OPEN, _CLOSE = "<vade-memory>", "</vade-memory>"
# Content cannot hold the closing mark: the renderer writes angle brackets out.
_BLOCK = re.compile(rf"{_OPEN}.*?{_CLOSE}", re.DOTALL)


def without_injected(message: Message) -> Message:
    """A message with a note in place of every block of ours."""
    if not any(_told(part) for part in message.parts):
        return message
    return message._replace(parts=tuple(_without(part) for part in message.parts))


def _told(part: Part) -> bool:
    if isinstance(part, ToolResult):
        return any(_told(each) for each in part.content)
    return isinstance(part, Text) and _OPEN in part.text and _CLOSE in part.text


def _without(part: Part) -> Part:
    if isinstance(part, ToolResult):
        kept = tuple(
            each._replace(text=_BLOCK.sub(ASIDE, each.text)) if isinstance(each, Text) else each
            for each in part.content
        )
        return part._replace(content=kept)
    return part._replace(text=_BLOCK.sub(ASIDE, part.text)) if isinstance(part, Text) else part
