"""What the events of a session say of its past: what is told of what left, and how the cycle stands.

Each event counts the same whether it is written now or read from a log, so that a session taken up again is
where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.context import block as blocks
from vademecum.context import summary
from vademecum.context.compaction import Record
from vademecum.context.thread import TAKEN_BACK
from vademecum.store import clock
from vademecum.transcripts.events import Compacted, Event, Flushed, Said, Summary, Torn, Trimmed, Used

if TYPE_CHECKING:
    from collections.abc import Iterable

COMPACTION = "compaction"  # why messages leave; the name of the field that says how one failed
NO_PROGRESS = "no progress"
_FAILED = "failed:"
_WHOLE = "whole"  # the summary before it was made to fit


class Past:
    """What is known of everything that has left the window, and of the cycle that is under way."""

    def __init__(self, events: Iterable[Event | Torn] = ()) -> None:
        self.known: summary.Summary | None = None
        self.words = ""  # of the last compaction by a model
        self.block = ""
        self.flushed = False
        self.outcome = ""
        self.heard = False  # whether anything was said since the last flush
        self.cycles = 0
        self.record = Record()
        self.called: float | None = None  # when a provider last answered, which then holds the prefix
        for event in events:
            self.take(event)

    def take(self, event: Event | Torn) -> None:
        """Something happened."""
        if isinstance(event, Said):
            self.heard = True
            if self.record.since is not None:
                self.record = self.record._replace(since=self.record.since + 1)
        elif isinstance(event, Flushed):
            self.flushed, self.heard, self.outcome = True, False, event.outcome
        elif isinstance(event, Used):
            when = clock.parse(event.time)
            self.called = when.timestamp() if when else self.called
        if isinstance(event, Summary | Compacted):
            self.block = event.text
            whole = event.extra.get(_WHOLE)
            self.known = summary.parse(whole if isinstance(whole, str) else event.text)
            self.words = blocks.words_of(event.text)
        if isinstance(event, Summary | Trimmed):
            self._take_failure(event)
        if isinstance(event, Compacted):
            self.record = Record(since=0)
        if isinstance(event, Compacted) or (isinstance(event, Trimmed) and _ends_cycle(event)):
            self.cycles += 1
            self.flushed = False

    def _take_failure(self, event: Summary | Trimmed) -> None:
        """A model was asked for a summary and gave none that could be used: why stands with what was done."""
        said = event.extra.get(COMPACTION)
        if isinstance(said, str) and said:
            stalled = said == failed(NO_PROGRESS)[COMPACTION]
            self.record = Record(self.record.failures + 1, stalled, 0 if stalled else None)


def failed(why: str) -> dict[str, str]:
    """How an event says that a model's compaction came to nothing; empty when it did not."""
    return {COMPACTION: f"{_FAILED}{why}"} if why else {}


def beyond(known: summary.Summary | None, block: str) -> dict[str, str]:
    """What an event keeps of a summary when its block had no room for all of it; a later one may have."""
    if known is None or summary.parse(block) == known:
        return {}
    return {_WHOLE: summary.render(known)}


def _ends_cycle(event: Trimmed) -> bool:
    """Whether a cycle ended with it; the cuts that go with a compaction do not end a second one."""
    return event.why != TAKEN_BACK and bool(event.ids or event.why != COMPACTION)
