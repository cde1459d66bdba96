"""The one way out of the window: a smaller one thought through, the flush before it, and its events.

The order is that of safety: what leaves is in the log, what should outlive it has been flushed, and its
summary stands before the event that lets it go. A process that dies in between has lost nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from vademecum.context import flush as flushes
from vademecum.context import summary
from vademecum.context import todo as todos
from vademecum.context.units import Cut, Unit, flatten, gather, trim
from vademecum.context.window import count_opening, failure_field, whole_field
from vademecum.tokens import PRIMING
from vademecum.transcripts import Role
from vademecum.transcripts.events import Checkpoint, Compacted, Flushed, Summary, Trimmed

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from vademecum.context.window import Past, Proceedings, Scale, Thread, ThreadEntry
    from vademecum.transcripts import Message
    from vademecum.transcripts.events import Event
    from vademecum.transcripts.log import Log

    Render = Callable[[summary.ThreadSummary, str, int], str]


class Plan(NamedTuple):
    """What would become of the window, and how large it would be."""

    leaving: tuple[ThreadEntry, ...]
    dropped: tuple[Message, ...]
    staying: tuple[ThreadEntry, ...]
    cuts: tuple[tuple[str, Cut], ...]
    known: summary.ThreadSummary | None
    block: str
    total: int


def make_plan(
    thread: Thread, past: Past, scale: Scale, target: int, render: Render, *, words: str, share: int
) -> Plan:
    """A window of that many tokens in all, of which the block may have one `share`th of the context.

    `render` makes the block of what is known, of a model's words about it, and of the tokens it may have.
    """
    shown = thread.window()
    window = scale.window(shown)
    cap = max(min(scale.context // share, (target - window.fixed) // 3), 0)
    units = gather(shown).units
    found = trim(units, tokens=target - window.schemas - PRIMING - cap, ratio=scale.ratio)
    by_first = {unit.messages[0].id: unit for unit in units}
    cuts = tuple(
        (message.id, how) for first, how in found.cuts for message in by_first[first].messages if message.id
    )
    leaving, staying = _parted(thread.live, found.kept, found.dropped)
    dropped = tuple(thread.logged(entry) for entry in leaving)  # what is told of it holds no secrets
    if not leaving:
        known, block = past.known, past.block
    else:
        stays = [thread.logged(entry) for entry in staying]
        known = summary.summarize(dropped, past.known, kept=stays)
        block = render(known, words, cap)
    decided = thread.with_cuts(cuts)
    total = scale.total([thread.shown(entry, decided) for entry in staying], block)
    return Plan(leaving, dropped, staying, cuts, known, block, total)


def _parted(
    live: Sequence[ThreadEntry], kept: Sequence[Unit], dropped: Sequence[Unit]
) -> tuple[tuple[ThreadEntry, ...], tuple[ThreadEntry, ...]]:
    """Which messages of the log leave and which stay.

    A message can be part of two units (results beside words) and stays if either does. One that is in
    none, because it was mended away, leaves with its neighbours.
    """
    if not dropped:
        return (), tuple(live)
    stay = {message.id for message in flatten(kept)}
    gone = {message.id for message in flatten(dropped)} - stay
    head = count_opening([entry.kept for entry in live])
    last = max((at for at, entry in enumerate(live) if entry.kept.id in gone), default=-1)
    leaving = {
        entry.key
        for at, entry in enumerate(live)
        if entry.kept.id in gone or (head <= at < last and entry.kept.id not in stay)
    }
    return (
        tuple(entry for entry in live if entry.key in leaving),
        tuple(entry for entry in live if entry.key not in leaving),
    )


DISABLED = "skipped:disabled"
_RECENT_CALLS = 10
_CALL_CHARS = 120


class Exit:
    """The way out of one session's window."""

    def __init__(
        self,
        log: Log,
        thread: Thread,
        past: Past,
        flush: Callable[[], str] | None,
        todo: Callable[[], todos.TodoList],
    ) -> None:
        self._log = log
        self._thread = thread
        self._past = past
        self._flush = flush  # runs the turn over the window as it is; None where it is switched off
        self._todo = todo

    def flush(self, report: Proceedings) -> None:
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

    def leave(self, plan: Plan, report: Proceedings, *, why: str, by_model: bool = False) -> None:
        """Let go what a plan says; with `by_model` its block holds a model's summary."""
        if not plan.leaving and not plan.cuts:
            return
        self.flush(report)
        self._thread.hold()
        point = _checkpoint(self._thread.window(), plan, self._todo(), self._past.cycles + 1)
        keys = tuple(entry.key for entry in plan.leaving)
        whole = whole_field(plan.known, plan.block)
        if by_model and keys:
            self._log.append(point)
            self._write(Compacted(text=plan.block, covers=keys, role=str(Role.USER), extra=whole), sync=True)
        elif keys:
            extra = {**whole, **failure_field(report.failed)}
            self._write(Summary(text=plan.block, role=str(Role.USER), extra=extra))
            self._log.append(point)
        else:
            self._log.append(point)
        cuts = tuple({"message": name, "limit": how.limit, "deep": how.deep} for name, how in plan.cuts)
        if not by_model or cuts:
            why_not = {} if keys else failure_field(report.failed)
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


def _checkpoint(shown: Sequence[Message], plan: Plan, todo: todos.TodoList, iteration: int) -> Checkpoint:
    calls = [call for message in shown for call in message.calls][-_RECENT_CALLS:]
    words = (" ".join(f"{call.name} {call.arguments[:1000]}".split())[:_CALL_CHARS] for call in calls)
    task = plan.known.task if plan.known else summary.find_task(shown)
    items = tuple(todos.to_json(todo)["items"])
    return Checkpoint(task=task, todo=items, tools=tuple(words), iteration=iteration)
