"""What the engine is told and what it tells: settings, a request made ready, how the window stands."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.context import compaction as compactions
from vademecum.context import flush as flushes
from vademecum.context.budget import FLUSH, TRIM, FlushSettings, Points, TrimSettings
from vademecum.context.prune import PruneSettings

if TYPE_CHECKING:
    from vademecum.context.prune import Decision
    from vademecum.transcripts.messages import Message


class Settings(NamedTuple):
    """All that can be set about a window."""

    prune: PruneSettings = PruneSettings()
    trim: TrimSettings = TRIM
    flush: FlushSettings = FLUSH
    compaction: bool = True  # a summary by the host's model instead of the proactive trim, if it has one
    flush_seconds: float = flushes.SECONDS
    compaction_seconds: float = compactions.SECONDS
    reply: int | None = None  # the longest reply the model can give


class Sections(NamedTuple):
    """What of a request takes how many tokens."""

    schemas: int = 0
    system: int = 0
    summary: int = 0
    messages: int = 0
    total: int = 0
    limit: int = 0
    context: int = 0


class Prepared(NamedTuple):
    """What to send, and what was done so that it fits."""

    messages: tuple[Message, ...]
    tokens: Sections
    pruned: tuple[Decision, ...] = ()
    trimmed: tuple[str, ...] = ()  # ids of the messages that left
    cut: tuple[str, ...] = ()  # ids of messages that stay and were shortened because nothing else could go
    flushed: str = ""  # the outcome, if a flush was due
    compacted: str = ""  # `model`, `extraction`, or empty when nothing was summarized
    why: str = ""


class Row(NamedTuple):
    """One message of the window as a person looks at it."""

    id: str
    role: str
    tokens: int
    state: str  # `whole` or `shortened`


class Inspection(NamedTuple):
    """How the window stands."""

    tokens: Sections
    points: Points
    ratio: float
    cycles: int
    flushed: bool
    outcome: str
    failures: int
    rows: tuple[Row, ...]
    summary: str


class Report:
    """What happens while one request is prepared."""

    def __init__(self) -> None:
        self.pruned: list[Decision] = []
        self.trimmed: list[str] = []
        self.cut: list[str] = []
        self.flushed = ""
        self.compacted = ""
        self.why: list[str] = []
        self.failed = ""  # why a model's compaction came to nothing

    def prepared(self, messages: tuple[Message, ...], tokens: Sections) -> Prepared:
        """What to send, with all of this."""
        return Prepared(
            messages,
            tokens,
            tuple(self.pruned),
            tuple(self.trimmed),
            tuple(self.cut),
            self.flushed,
            self.compacted,
            "; ".join(self.why),
        )
