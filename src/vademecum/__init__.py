"""Vademecum: long-term memory for AI agents, kept in plain Markdown.

Public are the names in this module, `vademecum.adapters`, and `vademecum.agents.base` to describe an agent;
every other module may change at any time.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `typing`, which takes a tenth of the time of an interpreter to import
if TYPE_CHECKING:
    from typing import Any

    from vademecum.context.engine import ContextEngine as ContextEngine
    from vademecum.context.window import Prepared as Prepared
    from vademecum.errors import *  # noqa: F403  all of the tree
    from vademecum.index import Filter as Filter
    from vademecum.inject.build import Block as Block
    from vademecum.llm.base import Call as Call
    from vademecum.llm.base import Limits as Limits
    from vademecum.llm.base import Model as Model
    from vademecum.llm.base import ModelUsage as ModelUsage
    from vademecum.llm.net import is_overflow as is_overflow
    from vademecum.llm.providers import resolve
    from vademecum.llm.scripted import Scripted as Scripted
    from vademecum.memory import Listing as Listing
    from vademecum.memory import Memory as Memory
    from vademecum.memory import connect as connect
    from vademecum.memory.asynchronous import AsyncMemory as AsyncMemory
    from vademecum.memory.status import Status as Status
    from vademecum.search import Answer as Answer
    from vademecum.search import Coverage as Coverage
    from vademecum.search import Passage as Passage
    from vademecum.transcripts import Log as Log
    from vademecum.transcripts import Message as Message
    from vademecum.transcripts import Role as Role
    from vademecum.transcripts import Session as Session
    from vademecum.transcripts import Shape as Shape
    from vademecum.transcripts import Text as Text
    from vademecum.transcripts import ToolCall as ToolCall
    from vademecum.transcripts import ToolResult as ToolResult
    from vademecum.transcripts import Used as Used
    from vademecum.transcripts.shapes import shape as shape
    from vademecum.types import Audience as Audience
    from vademecum.types import Entry as Entry
    from vademecum.types import Finding as Finding
    from vademecum.types import Noted as Noted
    from vademecum.types import Origin as Origin
    from vademecum.types import Outcome as Outcome
    from vademecum.types import Place as Place
    from vademecum.types import Record as Record
    from vademecum.types import RecordType as RecordType
    from vademecum.types import Scope as Scope
    from vademecum.types import Stored as Stored

    resolve_model = resolve

__version__ = "0.1.0"

# Imported when asked for, so that `vade --version` loads none of it. A name that is another one at home
# stands behind that and a colon.
_HOMES = {
    "vademecum.context.engine": "ContextEngine",
    "vademecum.context.window": "Prepared",
    "vademecum.errors": (
        "Ambiguous Collision ConfigError Conflict EmbedderChanged EmbedderFailed HostFailed "
        "IncognitoWrite IndexFailed IndexNewer InvalidKey InvalidText Locked Malformed ModelBusy "
        "ModelFailed ModelNonsense ModelOverflow ModelTimeout ModelUnauthorised NewerFormat NotFound "
        "NotVisible OutsideMemory OverBudget PendingReview PersonsText Refused ScopeUnresolved "
        "SecretFound StorageFailed UnknownName Untrusted UsageError VadeError WindowFull"
    ),
    "vademecum.index.base": "Filter",
    "vademecum.inject.build": "Block",
    "vademecum.llm.base": "Call Limits Model ModelUsage",
    "vademecum.llm.providers": "resolve:resolve_model",
    "vademecum.llm.net": "is_overflow",
    "vademecum.llm.scripted": "Scripted",
    "vademecum.memory": "Listing Memory connect",
    "vademecum.memory.asynchronous": "AsyncMemory",
    "vademecum.memory.status": "Status",
    "vademecum.search.base": "Answer Coverage Passage",
    "vademecum.transcripts.events": "Used",
    "vademecum.transcripts.log": "Log",
    "vademecum.transcripts": "Message Role Text ToolCall ToolResult",
    "vademecum.transcripts.sessions": "Session",
    "vademecum.transcripts.shapes": "Shape shape",
    "vademecum.types": "Audience Entry Finding Noted Origin Outcome Place Record RecordType Scope Stored",
}
_PLACES = {
    given or own: (module, own)
    for module, names in _HOMES.items()
    for own, _, given in (each.partition(":") for each in names.split())
}

__all__ = ["__version__", *_PLACES]  # noqa: PLE0604  they are strings


if not TYPE_CHECKING:  # to a type checker a name that is not above is a mistake

    def __getattr__(name: str) -> Any:
        if name not in _PLACES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        module, own = _PLACES[name]
        return getattr(import_module(module), own)


def __dir__() -> list[str]:
    return sorted({*globals(), *_PLACES})
