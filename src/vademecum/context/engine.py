"""The context engine: decide what is sent next, and what must happen before it can be sent.

The host passes its whole thread each time. The engine writes new messages to the log, followed by its
decisions about them (pruned, trimmed, compacted) as events. The window follows from the log: everything sent
could be made again from it, except secrets, which the log does not hold. The engine knows no store; its
caller says where notes go and where a ratio is saved.

Messages leave the window in a safe order: the log holds them, the facts that should outlive them are flushed,
and their summary is written before the event that removes them. A process that dies in between has lost
nothing. A dry run replays a session on a log in memory, at its original times: it asks no model and writes
nothing.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from vademecum.context import extraction, prune, silent_turns, summary
from vademecum.context import todo as todos
from vademecum.context.budget import FlushSettings, Move, Stage, TrimSettings, keep_recent, next_step, points
from vademecum.context.host import GitActivity, HostFunctions, call_host
from vademecum.context.prune import PruneKind, PruneMode, PruneSettings
from vademecum.context.turn import Turn, drop_repeated_answer
from vademecum.context.units import (
    NO_READERS,
    Cut,
    Unit,
    build_units,
    estimate_request,
    find_reader_tools,
    flatten,
    measure_all,
    measure_schemas,
    trim,
)
from vademecum.context.window import (
    COMPACTION,
    NO_PROGRESS,
    Inspection,
    Prepared,
    PrepareReport,
    Scale,
    Sections,
    Thread,
    WindowHistory,
    WindowRow,
    WindowSettings,
    compose,
    count_opening,
    failure_field,
    whole_field,
)
from vademecum.errors import HostFailed, NotFound, UsageError, WindowFull
from vademecum.llm.net import is_overflow, overflow_limit
from vademecum.store import reported
from vademecum.text import clock
from vademecum.tokens import PRIMING, Estimator, Size, count
from vademecum.transcripts import LEFT, SIDE, SUMMARY, Event, Log, MemoryLog, Message, Role, Used
from vademecum.transcripts.events import (
    Checkpoint,
    Compacted,
    Flushed,
    Pruned,
    Started,
    Summary,
    Todo,
    Trimmed,
)
from vademecum.transcripts.foreign import SessionFacts
from vademecum.transcripts.log import clean_event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vademecum import config
    from vademecum.context.budget import Window
    from vademecum.context.host import Host
    from vademecum.context.prune import PruneDecision
    from vademecum.context.turn import Tools
    from vademecum.context.window import ThreadEntry
    from vademecum.transcripts import Json
    from vademecum.transcripts.log import LogWriter

    Progress = Callable[[str, int, int], None]
    Render = Callable[[summary.ThreadSummary, str, int], str]


# ------------------------------------------------------------ leaving the window


class Plan(NamedTuple):
    """A planned trim: the messages that leave and stay, the summary block, and the size of the new window."""

    leaving: tuple[ThreadEntry, ...]
    dropped: tuple[Message, ...]
    staying: tuple[ThreadEntry, ...]
    cuts: tuple[tuple[str, Cut], ...]
    known: summary.ThreadSummary | None
    block: str
    total: int


def make_plan(
    thread: Thread, past: WindowHistory, scale: Scale, target: int, render: Render, *, words: str, share: int
) -> Plan:
    """Return a plan that trims the window to about `target` tokens.

    The summary block may use at most 1/`share` of the context. `render` makes the block from the summary, a
    model's text about it (`words`), and the number of tokens that the block may use.
    """
    messages = thread.window()
    window = scale.window(messages)
    cap = max(min(scale.context // share, (target - window.fixed) // 3), 0)
    units = build_units(messages).units
    trimmed = trim(
        units,
        tokens=target - window.schemas - PRIMING - cap,
        ratio=scale.ratio,
        readers=thread.readers,
    )
    by_first = {unit.messages[0].id: unit for unit in units}
    cuts = tuple(
        (message.id, how) for first, how in trimmed.cuts for message in by_first[first].messages if message.id
    )
    leaving, staying = _split_live(thread.live, trimmed.kept, trimmed.dropped)
    # the summary of these messages must hold no secrets
    dropped = tuple(thread.logged(entry) for entry in leaving)
    if not leaving:
        known, block = past.known, summary.name_reader_tools(past.block, thread.block_readers)
    else:
        stays = [thread.logged(entry) for entry in staying]
        known = summary.summarize(dropped, past.known, kept=stays)
        block = render(known, words, cap)
    decisions = thread.with_cuts(cuts)
    total = scale.total([thread.sent_message(entry, decisions) for entry in staying], block)
    return Plan(leaving, dropped, staying, cuts, known, block, total)


def _split_live(
    live: Sequence[ThreadEntry], kept: Sequence[Unit], dropped: Sequence[Unit]
) -> tuple[tuple[ThreadEntry, ...], tuple[ThreadEntry, ...]]:
    """Return the messages that leave the window, and the messages that stay.

    A message can be part of two units (as results and text) and stays if either unit stays. A message that a
    repair removed from all units leaves if a later message leaves.
    """
    if not dropped:
        return (), tuple(live)
    staying_ids = {message.id for message in flatten(kept)}
    leaving_ids = {message.id for message in flatten(dropped)} - staying_ids
    head = count_opening([entry.logged_message for entry in live])
    last = max((at for at, entry in enumerate(live) if entry.logged_message.id in leaving_ids), default=-1)
    leaving = {
        entry.key
        for at, entry in enumerate(live)
        if entry.logged_message.id in leaving_ids
        or (head <= at < last and entry.logged_message.id not in staying_ids)
    }
    return (
        tuple(entry for entry in live if entry.key in leaving),
        tuple(entry for entry in live if entry.key not in leaving),
    )


DISABLED = "skipped:disabled"
_RECENT_CALLS = 10
_CALL_CHARS = 120


class WindowTrimmer:
    """Removes messages from the window of one session, after a flush and a summary."""

    def __init__(
        self,
        log: Log,
        thread: Thread,
        past: WindowHistory,
        flush: Callable[[], str] | None,
        todo: Callable[[], todos.TodoList],
    ) -> None:
        self._log = log
        self._thread = thread
        self._past = past
        self._flush = flush  # runs the flush turn over the window; None if flushes are off
        self._todo = todo

    def flush(self, report: PrepareReport) -> None:
        """Run the flush turn if this cycle has had none, and log its outcome; skip it if nothing is new."""
        if self._past.flushed:
            return
        if self._flush is None:
            outcome = DISABLED
        elif not self._past.has_new_messages:
            outcome = silent_turns.NOTHING_NEW
        else:
            outcome = self._flush()
        self._write(Flushed(outcome=outcome), sync=True)
        report.flushed = outcome

    def leave(self, plan: Plan, report: PrepareReport, *, why: str, by_model: bool = False) -> None:
        """Flush, then apply a plan: remove the messages that leave, make the cuts, and log both.

        `by_model` says that a model wrote the plan's summary block.
        """
        if not plan.leaving and not plan.cuts:
            return
        self.flush(report)
        self._thread.ensure_logged()
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
        report.trimmed += [entry.logged_message.id for entry in plan.leaving]
        report.cut += [name for name, _ in plan.cuts]
        report.why.append(why)

    def _write(self, event: Event, *, sync: bool = False) -> None:
        self._past.apply(self._log.append(event, sync=sync))


def _checkpoint(messages: Sequence[Message], plan: Plan, todo: todos.TodoList, iteration: int) -> Checkpoint:
    calls = [call for message in messages for call in message.calls][-_RECENT_CALLS:]
    words = (" ".join(f"{call.name} {call.arguments[:1000]}".split())[:_CALL_CHARS] for call in calls)
    task = plan.known.task if plan.known else extraction.find_task(messages)
    items = tuple(todos.to_json(todo)["items"])
    return Checkpoint(task=task, todo=items, tools=tuple(words), iteration=iteration)


# ------------------------------------------------------------ the engine

_SECONDS = 5.0  # for small questions: the time, git
_LEAST_WINDOW = 512  # tokens; a smaller window in a server's answer is not believed
_LEAST_GUESS = 4_000  # tokens; a window is never guessed smaller than this
_GUESS_SHARE = 0.8  # the share of a refused request that is tried next, if the refusal has no number


class ContextEngine:
    """Manages the context window of one session: prepares each request, and trims or compacts messages."""

    def __init__(
        self,
        log: Log,
        host: Host,
        window: int,
        settings: WindowSettings | None = None,
        model: str = "",
        *,
        estimator: Estimator | None = None,
        known: int | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        self.estimator = estimator or Estimator()  # changes with every `observe`; the caller may save it
        self._log = log
        self._host = host
        self._given_window = window
        self._context = min(window, max(known or window, 1))  # a server may accept less than the given window
        self._refused = 0  # tokens of a request that was refused without a window size
        self._settings = settings or WindowSettings()
        self._model = model
        events = [clean_event(each) if isinstance(each, Event) else each for each in log.events()]
        self._thread = Thread(log, events)
        self._names = names
        self.offer(())
        self._past = WindowHistory(events)
        turn = self._flush_turn if self._settings.flush.enabled else None
        self._trimmer = WindowTrimmer(log, self._thread, self._past, turn, self._todo_list)
        self._refusals = 0
        self._todo: todos.TodoList | None = None  # both are read once in each call
        self._git: tuple[GitActivity | None] | None = None
        self._sent: Size | None = None
        self._turn: Turn | None = None  # the turn in progress
        self.answered = 0  # how many messages the last turn's answer has

    # ---------------------------------------------------------------- for the host

    def turn(self, messages: Sequence[Message], tools: Tools = ()) -> Turn:
        """Return a turn, to be used as `with engine.turn(thread, tools) as turn:`.

        Answers are added to `messages` if it is a list. `tools` may be a function, called for each request,
        if fewer tools go with a smaller window.
        """
        return Turn(self, messages, tools)

    def prepare(self, messages: Sequence[Message], tools: Sequence[Json] = ()) -> Prepared:
        """Return what to send next for the whole thread `messages`; raises WindowFull if nothing more can
        leave.
        """
        self.offer(tools)
        self.record(messages)
        return self._prepare_fitting(refusals=0)

    def record(self, messages: Sequence[Message]) -> None:
        """Write the messages of a thread that are new to the log.

        `messages` is the whole thread: known messages that it no longer has are taken out of the window.
        """
        for event in self._thread.absorb(messages):
            self._past.apply(event)

    def overflowed(self, error: object = None, tools: Sequence[Json] | None = None) -> Prepared:
        """Return a smaller request after the provider refused one as too long with `error`.

        Raises WindowFull if no smaller request is possible. Pass `tools` if the host offers fewer of them in
        a smaller `window`.
        """
        self._refusals += 1
        self.learn_window(error)
        if tools is not None:
            self.offer(tools)
        return self._prepare_fitting(refusals=self._refusals, error=error)

    def observe(self, usage: Used) -> None:
        """Record the tokens of an answered request, and correct the learned ratio and window size by them."""
        self._log.append(usage, sync=True)
        self._refusals = 0
        self._past.last_call = self._now()
        if self._given_window > self._context < usage.input:  # the server accepts more than it did
            self._set_window(None)
        elif self._refused:
            less = max(int(self._refused * _GUESS_SHARE), usage.input, _LEAST_GUESS)
            if less < self._context:
                self._set_window(less)
        self._refused = 0
        if self._sent is not None:
            self.estimator = self.estimator.learned(self._model, self._sent, usage.input)

    def compact(self, focus: str | None = None, *, by_model: bool = True) -> Prepared:
        """Replace all but the newest messages by a summary now; `focus` says in words what it should keep.

        With `by_model` off, or if the model fails, the summary is extracted; the model still runs the flush
        before it.
        """
        report, self._todo, self._git = PrepareReport(), None, None
        self._compact(report, focus or "", manual=True, by_model=by_model)
        # A window that was learned to be smaller may be too full although a compaction found nothing to
        # remove.
        if self._context < self._given_window and self._sections().total > self._window().limit:
            return self._prepare_fitting(refusals=0)
        return self._prepared(report)

    def todo(self, request: Mapping[str, Json]) -> str:
        """Run the operation that `request` names on the to-do list, and return the list as text."""
        made, text = todos.operate(todos.read_log(self._log), request)
        value = todos.to_json(made)
        if request.get("operation", "list") != "list":
            self._log.append(Todo(items=tuple(value["items"]), next=value["next"]))
        return text

    def inspect(self) -> Inspection:
        """Return the state of the window, by section and by message."""
        scale, past, decided = self._scale, self._past, self._thread.decisions
        rows = tuple(
            WindowRow(
                entry.logged_message.id,
                str(entry.logged_message.role),
                scale.count([self._thread.sent_message(entry)]),
                "shortened" if entry.logged_message.id in decided else "whole",
            )
            for entry in self._thread.live
        )
        return Inspection(
            self._sections(),
            points(self._window(), self._settings.trim, self._settings.flush),
            scale.ratio,
            past.cycles,
            past.flushed,
            past.outcome,
            past.record.failures,
            rows,
            self._block,
        )

    def filled(self, system: Sequence[Message], tools: Sequence[Json]) -> Sections:
        """Return the sizes of the window's parts; `system` and `tools` count if the window has none yet."""
        found, ratio = self._sections(), self._scale.ratio
        opening = found.system or count(measure_all(system), ratio)
        schemas = found.schemas or count(measure_schemas(tools), ratio)
        more = opening - found.system + schemas - found.schemas
        return found._replace(system=opening, schemas=schemas, total=found.total + more)

    @property
    def window(self) -> int:
        """The model's window in tokens: the given size, or a smaller size learned from a refusal."""
        return self._context

    def _prepare_fitting(self, *, refusals: int, error: object = None) -> Prepared:
        """Prepare a request; if it cannot fit a learned window size, forget that and use the given size."""
        try:
            return self._run(refusals=refusals, error=error)
        except WindowFull:
            if self._context == self._given_window:
                raise
            self._set_window(None)
            return self._run(refusals=refusals, error=error)

    def learn_window(self, error: object) -> None:
        """Learn the model's window size from the error with which a provider refused a request.

        If the error has no plausible number, only the size of the refused request is noted; `observe` sets a
        smaller window after the next answer.
        """
        sent = count(self._sent, self._scale.ratio) if self._sent is not None else self._context
        limit = overflow_limit(error)
        if limit is None or limit >= sent or limit < _LEAST_WINDOW:
            self._refused = min(sent, self._refused or sent)
        elif limit < self._context:
            self._set_window(limit)

    def _set_window(self, tokens: int | None) -> None:
        """Set the window's size in tokens; None restores the given size."""
        self._context = tokens or self._given_window

    # ---------------------------------------------------------------- for a turn

    def begin_turn(self, turn: Turn) -> None:
        """Note that a turn has begun; raise UsageError while another turn is in progress."""
        if self._turn is not None:
            again = self._turn is turn
            raise UsageError(
                f"{'this' if again else 'another'} turn of this session is already in progress",
                hint="leave its `with` block first; a turn can send several times",
            )
        self._turn = turn

    def end_turn(self, turn: Turn) -> None:
        """Note that a turn has ended, so that another turn may begin."""
        if self._turn is turn:
            self._turn = None

    def check_answered(self, thread: list[Message]) -> None:
        """Raise UsageError if a thread continues without the last turn's answer.

        If the thread repeats that answer, the repetition is removed. A thread that ends before the answer is
        valid: it asks for a new answer.
        """
        known, agreed = self._thread.match_prefix(thread)
        if agreed == known:
            drop_repeated_answer(thread, known - self.answered, self.answered)
        elif agreed == known - self.answered < len(thread) and thread[agreed].role is not Role.ASSISTANT:
            raise UsageError(
                "the thread continues without the last turn's answer",
                hint="pass `engine.turn` the same list each time, or continue with `turn.thread`",
            )

    # ---------------------------------------------------------------- making room

    def _run(self, *, refusals: int, error: object = None) -> Prepared:
        report, self._todo, self._git = PrepareReport(), None, None
        settings = self._settings
        self._prune(report, trimming=False)
        while True:
            step = next_step(
                self._window(),
                used=self._sections().total,
                flushed=self._past.flushed,
                overflows=refusals,
                trim=settings.trim,
                flush=settings.flush,
            )
            if step.move is Move.SEND:
                return self._prepared(report)
            if step.move is Move.FAIL:
                raise _full(self._sections(), error)
            if step.move is Move.FLUSH:
                # a request that cannot be sent at all is not flushed first
                self._fitting_plan(self._window().limit)
                self._trimmer.flush(report)
            elif not (self._prune(report, trimming=True) and not refusals):
                self._shrink(report, step.stage, step.target)
                return self._prepared(report)

    def _prune(self, report: PrepareReport, *, trimming: bool) -> bool:
        called = self._past.last_call
        made = prune.decide(
            [self._thread.logged(entry) for entry in self._thread.live],
            self._settings.prune,
            now=self._now() if called is not None and not trimming else 0.0,
            last_call=called,
            trimming=trimming,
            readers=self._thread.readers,
        )
        if not made:
            return False
        names = tuple(dict.fromkeys(each.message for each in made))
        how = "before a trim" if trimming else str(self._settings.prune.mode)
        self._log.append(Pruned(ids=names, how=how, decisions=tuple(prune.to_json(each) for each in made)))
        self._thread.remember((each.message, each) for each in made)
        report.pruned += made
        return True

    def _shrink(self, report: PrepareReport, stage: Stage, target: int) -> None:
        """Make the window smaller: by a compaction if a compaction is due and succeeds, else by a trim."""
        if stage is Stage.PROACTIVE and self._settings.compaction and self._compact(report, "", manual=False):
            return
        self._trimmer.leave(self._fitting_plan(target), report, why=str(stage))

    def _fitting_plan(self, target: int) -> Plan:
        """Return a plan that trims to about `target` tokens, or further until the request fits.

        Raises WindowFull if no trim makes the request fit.
        """
        plan = self._plan(target)
        trims = 1
        while plan.total > self._window().limit:
            step = next_step(self._window(), used=plan.total, flushed=True, trims=trims)
            if step.move is not Move.TRIM:
                raise _full(self._sections(), None)
            plan = self._plan(min(step.target, target))
            trims += 1
        return plan

    def _plan(self, target: int, words: str | None = None, share: int = 10) -> Plan:
        model_text = self._past.words if words is None else words
        return make_plan(
            self._thread, self._past, self._scale, target, self._render, words=model_text, share=share
        )

    def _render(self, known: summary.ThreadSummary, words: str, tokens: int) -> str:
        """Return the summary block in `tokens` tokens, or in more if tasks and rules need them.

        Tasks and rules may use up to a fifth of the window: the user's rules are worth more than the last
        tool result, which can be read again.
        """
        todo, ratio, readers = self._todo_list(), self._scale.ratio, self._thread.block_readers
        least = summary.least_tokens(known, todo, ratio, readers) + self._context // 20
        needed = min(least, self._context // 5)
        room = max(tokens, needed)
        return summary.render_block(
            known, words, todo=todo, git=self._recent_git(), tokens=room, ratio=ratio, readers=readers
        )

    # ---------------------------------------------------------------- compaction

    def _compact(self, report: PrepareReport, focus: str, *, manual: bool, by_model: bool = True) -> bool:
        """Replace older messages by a summary of the host's model; return whether that was done.

        If a person asked for the compaction (`manual`) and the model fails or `by_model` is off, the summary
        is extracted. `focus` says in words what the summary should keep.
        """
        hindrance = silent_turns.skip_reason(self._past.record, manual=manual)
        if hindrance:
            report.why.append(f"compaction skipped: {hindrance}")
            return False
        window = self._window()
        target = window.fixed + keep_recent(self._context, self._settings.trim) + self._context // 5
        before = self._sections().total
        plan = self._plan(target, share=5)
        if not plan.leaving or plan.total > window.limit or plan.total >= before:
            report.why.append("nothing to compact")
            return False
        self._trimmer.flush(report)
        compaction = silent_turns.Compaction(why=silent_turns.NO_MODEL)
        if by_model:
            seconds = self._settings.compaction_seconds
            compaction = silent_turns.compact(self._task(plan, focus), self._host, seconds=seconds)
        self._learn_from_refusal(compaction.why)
        if compaction.text:
            model_plan = self._plan(target, compaction.text, share=5)
            if silent_turns.is_worthwhile(before, model_plan.total) and model_plan.total <= window.limit:
                self._trimmer.leave(model_plan, report, why=COMPACTION, by_model=True)
                return True
            compaction = silent_turns.Compaction(why=NO_PROGRESS)
        if compaction.why != silent_turns.NO_MODEL:
            report.failed = compaction.why
            report.why.append(f"compaction failed: {compaction.why}")
        if manual:
            self._trimmer.leave(plan, report, why=COMPACTION)
        return manual

    def _task(self, plan: Plan, focus: str) -> silent_turns.CompactionTask:
        known = plan.known or summary.ThreadSummary()
        left = self._window().limit * 2 // 3  # the rest is for the surrounding prompt and the answer
        ratio = self._scale.ratio
        requests = tuple(dict.fromkeys(each for each in (known.original, known.task) if each))
        return silent_turns.CompactionTask(
            record=silent_turns.render_record(
                plan.dropped,
                before=summary.name_reader_tools(self._past.block, NO_READERS),
                chars=int(left * ratio),
            ),
            identifiers=silent_turns.find_identifiers(plan.dropped, known),
            requests=requests,
            focus=focus,
            chars=max(int(self._context // 5 * ratio * 0.7), 1500),
        )

    # ---------------------------------------------------------------- calls of the host

    def _flush_turn(self) -> str:
        """Run the flush turn over the part of the window that fits into a request, and return its outcome."""
        window = self._window()
        room = (window.limit * 9 // 10 if not self._refusals else window.limit // 2) - PRIMING
        fitting = trim(
            build_units(self._messages()).units,
            tokens=room,
            ratio=self._scale.ratio,
            readers=self._thread.readers,
        ).kept
        outcome = silent_turns.flush(
            flatten(fitting), self._host, settings=self._settings.flush, seconds=self._settings.flush_seconds
        )
        self._learn_from_refusal(outcome)
        return outcome

    def _learn_from_refusal(self, why: str) -> None:
        """Learn the window size from `why` if a provider refused a silent turn as too long."""
        limit = overflow_limit(why) if is_overflow(why) else None
        if limit is not None and _LEAST_WINDOW <= limit < self._context:
            self._set_window(limit)

    def _todo_list(self) -> todos.TodoList:
        """Return the session's to-do list, read from the log once for each request because a log is long."""
        if self._todo is None:
            self._todo = todos.read_log(self._log)
        return self._todo

    def _now(self) -> float:
        try:
            return float(call_host(self._host, "now", seconds=_SECONDS).timestamp())
        except (HostFailed, AttributeError, TypeError, ValueError, OverflowError):
            return self._past.last_call or 0.0

    def _recent_git(self) -> GitActivity | None:
        """Return the recent git activity of the project, read once for each request; None without any."""
        if self._git is None:
            try:
                found = call_host(self._host, "git", seconds=_SECONDS)
            except HostFailed:
                found = None
            self._git = (found if isinstance(found, GitActivity) else None,)
        return self._git[0]

    # ---------------------------------------------------------------- measuring

    def offer(self, tools: Sequence[Json]) -> None:
        """Take note of the tools that go with each request: their size, and which of them read the
        transcript.

        A turn and `prepare` do this themselves; a host that shows a window before its first request calls it.
        """
        self._schemas = measure_schemas(tools)
        # No tool can read a log that is only in memory.
        self._thread.readers = (
            find_reader_tools(self._log.session, tools, self._names) if self._log.path else NO_READERS
        )

    @property
    def _scale(self) -> Scale:
        ratio = self.estimator.ratio(self._model)
        return Scale(self._context, ratio, self._schemas, self._settings.reply)

    def _window(self) -> Window:
        return self._scale.window(self._thread.window())

    def _sections(self) -> Sections:
        return self._scale.sections(self._thread.window(), self._block)

    @property
    def _block(self) -> str:
        """The summary block with the names of this host's tools; the block in the log may have
        other names.
        """
        return summary.name_reader_tools(self._past.block, self._thread.block_readers)

    def _messages(self) -> tuple[Message, ...]:
        return compose(self._thread.window(), self._block)

    def _prepared(self, report: PrepareReport) -> Prepared:
        messages = self._messages()
        self._sent = measure_all(messages) + self._schemas + Size(0, PRIMING)
        return report.prepared(messages, self._sections())


def _full(tokens: Sections, error: object) -> WindowFull:
    detail = f": {' '.join(str(error).split())[:200]}" if error else ""
    return WindowFull(
        f"the context window is full and nothing more can be removed: {tokens.total} of {tokens.limit}"
        f" tokens, of which"
        f" tool schemas {tokens.schemas} and system prompt {tokens.system}{detail}",
        hint="use a model with a larger window, or fewer tools, or a shorter system prompt",
    )


def settings_from(
    own: config.Settings, *, compaction: bool = True, reply: int | None = None
) -> WindowSettings:
    """Return the settings of a window, made from the user's settings."""
    prune, trim, flush = own.prune, own.trim, own.flush
    return WindowSettings(
        prune=PruneSettings(
            mode=PruneMode(str(prune.mode)),
            ttl=prune.ttl,
            keep_last_assistants=prune.keep_last_assistants,
            min_prunable_chars=prune.min_prunable_chars,
            max_chars=prune.max_chars,
            head_chars=prune.head_chars,
            tail_chars=prune.tail_chars,
            hard_clear=prune.hard_clear,
            placeholder=prune.placeholder,
            tools_allow=prune.tools_allow,
            tools_deny=prune.tools_deny,
        ),
        trim=TrimSettings(trim.proactive, trim.target, trim.keep_recent_tokens),
        flush=FlushSettings(
            flush.enabled,
            flush.reserve_tokens,
            flush.soft_tokens,
            flush.system_prompt or "",
            flush.prompt or "",
        ),
        compaction=compaction,
        reply=reply,
    )


class LearningEngine(ContextEngine):
    """An engine that passes learned ratios to `learned(model, ratio)` and window sizes to `found(tokens)`."""

    def __init__(
        self,
        log: Log,
        host: Host,
        window: int,
        settings: WindowSettings,
        *,
        model: str,
        estimator: Estimator,
        learned: Callable[[str, float], None] | None,
        known: int | None = None,
        found: Callable[[int | None], None] | None = None,
        names: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(log, host, window, settings, model, estimator=estimator, known=known, names=names)
        self._learns = model
        self._learned = learned
        self._found = found

    def observe(self, usage: Used) -> None:
        """Record the usage of an answered request, as the provider counted it."""
        super().observe(usage)
        if self._learned is not None and self._learns in self.estimator.ratios:
            self._learned(self._learns, self.estimator.ratio(self._learns))

    def _set_window(self, tokens: int | None) -> None:
        super()._set_window(tokens)
        if self._found is not None:
            self._found(tokens)


# ------------------------------------------------------------ dry runs

_LOOK = 20  # lines from the beginning of a log
OWN = "vademecum"  # the format name of our own logs


class DryRunSource(NamedTuple):
    """A session to replay: its name and format, its model, and its messages without those of
    side branches.
    """

    name: str
    format: str
    model: str
    messages: tuple[Message, ...]


class DryRunStep(NamedTuple):
    """A message of the replayed session before which the engine had to flush, prune or trim."""

    message: int  # the number of messages by then
    why: str
    pruned: int  # results
    trimmed: int  # messages
    cut: int  # messages that stayed, shortened
    flushed: str
    tokens: int  # of the request at that point


class DryRun(NamedTuple):
    """The result of replaying a session in a dry run."""

    source: DryRunSource
    tokens: int  # of all messages, as one request
    window: Inspection  # at the end
    steps: tuple[DryRunStep, ...]
    pruned: tuple[PruneDecision, ...]
    full: str = ""  # why it could not continue

    @property
    def pruned_chars(self) -> int:
        """The number of characters that pruning removed."""
        return sum(
            each.chars - (len(each.placeholder) if each.kind is PruneKind.CLEAR else each.head + each.tail)
            for each in self.pruned
        )

    @property
    def trimmed(self) -> int:
        """The number of messages that left the window."""
        return sum(step.trimmed for step in self.steps)

    @property
    def flushes(self) -> int:
        """The number of flush turns that were due."""
        return sum(bool(step.flushed) for step in self.steps)


def run(
    source: DryRunSource,
    *,
    window: int,
    settings: WindowSettings,
    model: str,
    estimator: Estimator,
    progress: Progress | None = None,
) -> DryRun:
    """Replay a session through the engine without a model, and return what the engine would have done."""
    moment = datetime.fromtimestamp(0, UTC)

    def now() -> datetime:
        return moment

    engine = ContextEngine(
        Log("trial", MemoryLog(), now=now), HostFunctions(now), window, settings, model, estimator=estimator
    )
    steps: list[DryRunStep] = []
    pruned: list[PruneDecision] = []
    messages = list(source.messages)
    full = ""
    try:
        for at in [
            *(at for at, each in enumerate(messages) if each.role is Role.ASSISTANT and at),
            len(messages),
        ]:
            moment = max(moment, clock.parse(messages[at - 1].time) or moment)
            prepared = engine.prepare(messages[:at])
            pruned += prepared.pruned
            steps += _step(at, prepared)
            if progress is not None:
                progress("try", at, len(messages))
            if at < len(messages):
                moment = max(moment, clock.parse(messages[at].time) or moment)
                engine.observe(Used())
    except WindowFull as error:
        full = str(error)
    tokens = estimate_request(messages, (), estimator.ratio(model))
    return DryRun(source, tokens, engine.inspect(), tuple(steps), tuple(pruned), full)


def _step(at: int, made: Prepared) -> list[DryRunStep]:
    if not (made.pruned or made.trimmed or made.cut or made.flushed):
        return []
    counts = len(made.pruned), len(made.trimmed), len(made.cut)
    return [DryRunStep(at, made.why, *counts, made.flushed, made.tokens.total)]


# -------------------------------------------------------------------- sources of a dry run


def read_source(path: Path) -> DryRunSource:
    """Return the session in a file of any known format; raises NotFound if there is none."""
    with reported(f"read {path}"):
        if not path.is_file():
            what = "is a folder" if path.is_dir() else "is not a file" if path.exists() else "does not exist"
            raise NotFound(
                f"{path} {what}", hint="give the file of one transcript, or a session's id or name"
            )
        log = Log(path.stem, _File(path))
        first = next(log.raw(), None)
        if first is None:
            raise NotFound(f"{path} is empty", hint="pass a transcript with messages")
        if first.kind:
            return from_log(log, str(path))
        from vademecum.agents import registry

        known = registry.recognise_transcript(path)
        if known is None:
            names = ", ".join([*(each.name for each in registry.transcript_formats()), OWN])
            raise NotFound(f"{path} is not a known transcript format", hint=f"the formats are {names}")
        model, messages = "", []
        for each in known.read(path):
            if isinstance(each, Message):
                messages.append(each)
                model = model or each.model
            elif isinstance(each, SessionFacts):
                model = each.model or model
    return _source(str(path), known.name, model, messages)


def from_log(log: Log, name: str = "") -> DryRunSource:
    """Return one of our own sessions in the form that a dry run replays."""
    messages = [event.message._replace(time=event.message.time or event.time) for event in log.thread()]
    model = model_of(log) or next((message.model for message in messages if message.model), "")
    return _source(name or log.session, OWN, model, messages)


def model_of(log: Log) -> str:
    """Return the name of a session's model from the first lines of its log; empty if they do not name it."""
    for number, raw in enumerate(log.raw()):
        event = raw.read() if raw.kind in ("", Started.kind) else None
        if isinstance(event, Started):
            return event.model
        if number > _LOOK:
            break
    return ""


def _source(name: str, format: str, model: str, messages: Sequence[Message]) -> DryRunSource:
    """Return a session to replay, from its main line: without subagents, abandoned branches and summaries."""
    main = tuple(
        message for message in messages if not any(message.extra.get(mark) for mark in (SIDE, LEFT, SUMMARY))
    )
    if not main:
        raise NotFound(f"{name} has no messages", hint="pass a transcript with messages")
    return DryRunSource(name, format, model, main)


class _File:
    """A log file anywhere on disk that is opened for reading only."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.path = str(path)

    def open(self) -> BinaryIO | None:
        """Open the file for reading."""
        return self._path.open("rb")

    def lock(self) -> AbstractContextManager[LogWriter]:
        """Raise an error, since this log is for reading only."""
        raise PermissionError(f"{self.path} is read-only")
