"""Conversations as they were held: messages in one format, the logs that hold them, and sessions.

The public names are listed here, and each is imported when it is first read. `foreign` reads the files of
other agents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.lazy import lazy_names

if TYPE_CHECKING:
    from vademecum.transcripts import events as events
    from vademecum.transcripts import foreign as foreign
    from vademecum.transcripts import shapes as shapes
    from vademecum.transcripts.events import Event as Event
    from vademecum.transcripts.events import MessageEvent as MessageEvent
    from vademecum.transcripts.events import Usage as Usage
    from vademecum.transcripts.events import Used as Used
    from vademecum.transcripts.excerpt import Excerpt as Excerpt
    from vademecum.transcripts.excerpt import ExcerptTurn as ExcerptTurn
    from vademecum.transcripts.excerpt import read_excerpt as read_excerpt
    from vademecum.transcripts.gone_folders import JoinedFolder as JoinedFolder
    from vademecum.transcripts.gone_folders import JoinedFolders as JoinedFolders
    from vademecum.transcripts.importing import ImportedSession as ImportedSession
    from vademecum.transcripts.log import Line as Line
    from vademecum.transcripts.log import Log as Log
    from vademecum.transcripts.log import LogFile as LogFile
    from vademecum.transcripts.log import MemoryLog as MemoryLog
    from vademecum.transcripts.messages import ASIDE as ASIDE
    from vademecum.transcripts.messages import LEFT as LEFT
    from vademecum.transcripts.messages import LONGEST_NAME as LONGEST_NAME
    from vademecum.transcripts.messages import META as META
    from vademecum.transcripts.messages import NOTHING as NOTHING
    from vademecum.transcripts.messages import SIDE as SIDE
    from vademecum.transcripts.messages import SUMMARY as SUMMARY
    from vademecum.transcripts.messages import Image as Image
    from vademecum.transcripts.messages import Json as Json
    from vademecum.transcripts.messages import Message as Message
    from vademecum.transcripts.messages import Opaque as Opaque
    from vademecum.transcripts.messages import OpenMemoryCalls as OpenMemoryCalls
    from vademecum.transcripts.messages import Part as Part
    from vademecum.transcripts.messages import Role as Role
    from vademecum.transcripts.messages import Text as Text
    from vademecum.transcripts.messages import Thinking as Thinking
    from vademecum.transcripts.messages import ToolCall as ToolCall
    from vademecum.transcripts.messages import ToolResult as ToolResult
    from vademecum.transcripts.messages import asks_something as asks_something
    from vademecum.transcripts.messages import content_words as content_words
    from vademecum.transcripts.messages import from_json as from_json
    from vademecum.transcripts.messages import is_aside as is_aside
    from vademecum.transcripts.messages import is_memory_call as is_memory_call
    from vademecum.transcripts.messages import is_memory_tool as is_memory_tool
    from vademecum.transcripts.messages import is_substantive as is_substantive
    from vademecum.transcripts.messages import name_from as name_from
    from vademecum.transcripts.messages import replace_memory_blocks as replace_memory_blocks
    from vademecum.transcripts.messages import to_json as to_json
    from vademecum.transcripts.messages import without_memory_calls as without_memory_calls
    from vademecum.transcripts.page_turns import SessionTurn as SessionTurn
    from vademecum.transcripts.page_turns import TurnPart as TurnPart
    from vademecum.transcripts.pointers import Pointer as Pointer
    from vademecum.transcripts.sessions import Reset as Reset
    from vademecum.transcripts.sessions import Session as Session
    from vademecum.transcripts.sessions import Sessions as Sessions
    from vademecum.transcripts.sessions import parse_reset as parse_reset
    from vademecum.transcripts.sessions import read_event as read_event
    from vademecum.transcripts.sessions import session_get as session_get
    from vademecum.transcripts.shapes import Shape as Shape

_HOMES = {
    "events": "Event MessageEvent Usage Used",
    "excerpt": "Excerpt ExcerptTurn read_excerpt",
    "gone_folders": "JoinedFolder JoinedFolders",
    "importing": "ImportedSession",
    "log": "Line Log LogFile MemoryLog",
    "messages": (
        "ASIDE Image Json LEFT LONGEST_NAME META Message NOTHING Opaque OpenMemoryCalls Part Role "
        "SIDE SUMMARY Text Thinking ToolCall ToolResult asks_something content_words from_json "
        "is_aside is_memory_call is_memory_tool is_substantive name_from replace_memory_blocks "
        "to_json without_memory_calls"
    ),
    "page_turns": "SessionTurn TurnPart",
    "pointers": "Pointer",
    "sessions": "Reset Session Sessions parse_reset read_event session_get",
    "shapes": "Shape",
}
SUBJECTS = ("events", "foreign", "shapes")

__all__ = [*(name for names in _HOMES.values() for name in names.split()), *SUBJECTS]  # noqa: PLE0604  they are strings

if not TYPE_CHECKING:  # to a type checker a name that is not above is a mistake
    __getattr__ = lazy_names(__name__, _HOMES)
