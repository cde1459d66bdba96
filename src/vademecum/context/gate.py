"""The one gate through which anything leaves the window, and the flush before it.

The order is that of safety: what leaves is in the log, what should outlive it has been flushed, and its
summary stands before the event that lets it go. A process that dies in between has lost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.context import flush as flushes
from vademecum.context import summary
from vademecum.context import todo as todos
from vademecum.context.past import beyond, failed
from vademecum.transcripts.events import Checkpoint, Compacted, Flushed, Summary, Trimmed
from vademecum.transcripts.messages import Role

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.context.past import Past
    from vademecum.context.plan import Plan
    from vademecum.context.prepared import Report
    from vademecum.context.thread import Thread
    from vademecum.transcripts.events import Event
    from vademecum.transcripts.log import Log
    from vademecum.transcripts.messages import Message

DISABLED = "skipped:disabled"
_RECENT_CALLS = 10
_CALL_CHARS = 120


class Gate:
    """The way out of one session's window."""

    def __init__(
        self,
        log: Log,
        thread: Thread,
        past: Past,
        flush: Callable[[], str] | None,
        todo: Callable[[], todos.Todo],
    ) -> None:
        self._log = log
        self._thread = thread
        self._past = past
        self._flush = flush  # runs the turn over the window as it is; None where it is switched off
        self._todo = todo

    def flush(self, report: Report) -> None:
        """The flush of this cycle, unless it has run."""
        if self._past.flushed:
            return
        if self._flush is None:
            outcome = DISABLED
        elif not self._past.heard:
            outcome = flushes.NOTHING_NEW
        else:
            outcome = self._flush()
        self._write(Flushed(outcome=outcome), sync=True)
        report.flushed = outcome

    def leave(self, plan: Plan, report: Report, *, why: str, by_model: bool = False) -> None:
        """Let go what a plan says; with `by_model` its block holds a model's summary."""
        if not plan.leaving and not plan.cuts:
            return
        self.flush(report)
        self._thread.hold()
        point = _checkpoint(self._thread.window(), plan, self._todo(), self._past.cycles + 1)
        keys = tuple(entry.key for entry in plan.leaving)
        whole = beyond(plan.known, plan.block)
        if by_model and keys:
            self._log.append(point)
            self._write(Compacted(text=plan.block, covers=keys, role=str(Role.USER), extra=whole), sync=True)
        elif keys:
            extra = {**whole, **failed(report.failed)}
            self._write(Summary(text=plan.block, role=str(Role.USER), extra=extra))
            self._log.append(point)
        else:
            self._log.append(point)
        cuts = tuple({"message": name, "limit": how.limit, "deep": how.deep} for name, how in plan.cuts)
        if not by_model or cuts:
            why_not = {} if keys else failed(report.failed)
            done = Trimmed(ids=() if by_model else keys, why=why, decisions=cuts, extra=why_not)
            self._write(done, sync=True)
        self._thread.live = list(plan.staying)
        self._thread.remember(plan.cuts)
        if keys:
            report.compacted = "model" if by_model else "extraction"
        report.trimmed += [entry.kept.id for entry in plan.leaving]
        report.cut += [name for name, _ in plan.cuts]
        report.why.append(why)

    def _write(self, event: Event, *, sync: bool = False) -> None:
        self._past.take(self._log.append(event, sync=sync))


def _checkpoint(shown: Sequence[Message], plan: Plan, todo: todos.Todo, iteration: int) -> Checkpoint:
    calls = [call for message in shown for call in message.calls][-_RECENT_CALLS:]
    words = (" ".join(f"{call.name} {call.arguments[:1000]}".split())[:_CALL_CHARS] for call in calls)
    task = plan.known.task if plan.known else summary.anchor(shown)
    items = tuple(todos.to_json(todo)["items"])
    return Checkpoint(task=task, todo=items, tools=tuple(words), iteration=iteration)
