"""The context engine: what to send now, and what must happen before it can be sent.

The host gives the whole thread each time, as it has it; the engine writes what is new to the log, and what is
decided about it (pruned, trimmed, compacted) as events behind it. The window is what the log amounts to:
nothing is sent that could not be made again from it, but for secrets, which the log does not keep. It knows
no store: whoever puts it together says where notes go and where a ratio is kept.

The order of the way out is that of safety: what leaves is in the log, what should outlive it is flushed, and
its summary stands before the event that lets it go. A process that dies in between has lost nothing. A
dry run lives a session through again on a log in memory, at the times it really happened: no model is asked
and nothing is written anywhere.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from vademecum.context import extraction, prune, summary, turns
from vademecum.context import todo as todos
from vademecum.context.budget import FlushSettings, Move, Stage, TrimSettings, keep_recent, next_step, points
from vademecum.context.exchange import Turn, drop_repeated
from vademecum.context.host import GitActivity, HostFunctions, ask_for
from vademecum.context.prune import PruneKind, PruneMode, PruneSettings
from vademecum.context.units import (
    NO_READERS,
    Cut,
    Unit,
    estimate_request,
    find_readers,
    flatten,
    gather,
    measure_all,
    measure_schemas,
    trim,
)
from vademecum.context.window import (
    COMPACTION,
    NO_PROGRESS,
    Inspection,
    Past,
    Prepared,
    Proceedings,
    Scale,
    Sections,
    Thread,
    WindowRow,
    WindowSettings,
    compose,
    count_opening,
    failure_field,
    whole_field,
)
from vademecum.errors import HostFailed, NotFound, UsageError, WindowFull
from vademecum.llm.net import is_overflow, overflow_limit
from vademecum.store import files
from vademecum.text import clock
from vademecum.tokens import PRIMING, Estimator, Size, count
from vademecum.transcripts import LEFT, SIDE, SUMMARY, Message, Role
from vademecum.transcripts.events import (
    Checkpoint,
    Compacted,
    Event,
    Flushed,
    Pruned,
    Started,
    Summary,
    Todo,
    Trimmed,
    Used,
)
from vademecum.transcripts.log import InMemory, Log, clean_event
from vademecum.transcripts.reading import SessionFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vademecum import config
    from vademecum.context.budget import Window
    from vademecum.context.exchange import Tools
    from vademecum.context.host import Host
    from vademecum.context.prune import PruneDecision
    from vademecum.context.window import ThreadEntry
    from vademecum.transcripts import Json
    from vademecum.transcripts.log import Pen

    Progress = Callable[[str, int, int], None]
    Render = Callable[[summary.ThreadSummary, str, int], str]


# ------------------------------------------------------------ the way out of the window


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
    found = trim(
        units,
        tokens=target - window.schemas - PRIMING - cap,
        ratio=scale.ratio,
        readers=thread.readers,
    )
    by_first = {unit.messages[0].id: unit for unit in units}
    cuts = tuple(
        (message.id, how) for first, how in found.cuts for message in by_first[first].messages if message.id
    )
    leaving, staying = _parted(thread.live, found.kept, found.dropped)
    dropped = tuple(thread.logged(entry) for entry in leaving)  # what is told of it holds no secrets
    if not leaving:
        known, block = past.known, summary.name_readers(past.block, thread.readers)
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
            outcome = turns.NOTHING_NEW
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
    task = plan.known.task if plan.known else extraction.find_task(shown)
    items = tuple(todos.to_json(todo)["items"])
    return Checkpoint(task=task, todo=items, tools=tuple(words), iteration=iteration)


# ------------------------------------------------------------ the engine

_SECONDS = 5.0  # for the small questions: the time, git
_LEAST = 512  # tokens; a server that says less than this of its window is not believed
_GUESSED = 4_000  # tokens; a window is not taken to be smaller than this unless its server says so
_UNSAID = 0.8  # of a refused request, where the refusal has no number


class ContextEngine:
    """The window of one session."""

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
        self.estimator = estimator or Estimator()  # grows with every `observe`; whoever wants to keeps it
        self._log = log
        self._host = host
        self._given = window
        self._context = min(window, max(known or window, 1))  # what a server was found to take may be less
        self._refused = 0  # tokens of a request that was refused without a word of the window
        self._settings = settings or WindowSettings()
        self._model = model
        events = [clean_event(each) if isinstance(each, Event) else each for each in log.events()]
        self._thread = Thread(log, events)
        self._names = names
        self.offer(())
        self._past = Past(events)
        turn = self._flush_turn if self._settings.flush.enabled else None
        self._gate = Exit(log, self._thread, self._past, turn, self._things_to_do)
        self._refusals = 0
        self._todo: todos.TodoList | None = None  # both as they were when first asked for in this call
        self._git: tuple[GitActivity | None] | None = None
        self._sent: Size | None = None
        self._turn: Turn | None = None  # the one that is under way
        self.answered = 0  # how many messages the answer of the last turn has

    # ---------------------------------------------------------------- what a host calls

    def turn(self, messages: Sequence[Message], tools: Tools = ()) -> Turn:
        """One turn, whole: `with engine.turn(thread, tools) as turn:`; answers are put into the thread.

        `tools` may be a function, where fewer of them go with a smaller window.
        """
        return Turn(self, messages, tools)

    def prepare(self, messages: Sequence[Message], tools: Sequence[Json] = ()) -> Prepared:
        """What to send next; `messages` is the whole thread. Raises WindowFull when nothing more can go."""
        self.offer(tools)
        self.record(messages)
        return self._fitting(refusals=0)

    def record(self, messages: Sequence[Message]) -> None:
        """Write to the log what is new in the thread, as an answer is that nothing follows yet."""
        for said in self._thread.absorb(messages):
            self._past.take(said)

    def overflowed(self, error: object = None, tools: Sequence[Json] | None = None) -> Prepared:
        """What to send after the provider refused a request as too long; raises WindowFull in the end.

        `tools` are given by a host that offers fewer of them to a smaller `window`.
        """
        self._refusals += 1
        self.learn_window(error)
        if tools is not None:
            self.offer(tools)
        return self._fitting(refusals=self._refusals, error=error)

    def observe(self, usage: Used) -> None:
        """A request was answered: what it cost, as the provider counted it."""
        self._log.append(usage, sync=True)
        self._refusals = 0
        self._past.called = self._now()
        if self._given > self._context < usage.input:  # its server takes more by now
            self._set_window(None)
        elif self._refused:
            less = max(int(self._refused * _UNSAID), usage.input, _GUESSED)
            if less < self._context:
                self._set_window(less)
        self._refused = 0
        if self._sent is not None:
            self.estimator = self.estimator.learned(self._model, self._sent, usage.input)

    def compact(self, focus: str | None = None, *, by_model: bool = True) -> Prepared:
        """Summarize all but the newest messages now, with regard to what the person says matters.

        With `by_model` off the summary is extracted; the flush before it is the model's all the same.
        """
        report, self._todo, self._git = Proceedings(), None, None
        self._compact(report, focus or "", manual=True, by_model=by_model)
        # A window that was learned to be smaller may be too full, with nothing a compaction could take.
        if self._context < self._given and self._sections().total > self._window().limit:
            return self._fitting(refusals=0)
        return self._prepared(report)

    def todo(self, request: Mapping[str, Json]) -> str:
        """Do one operation on the list of things to do, and say how it is then."""
        made, text = todos.operate(todos.read_log(self._log), request)
        value = todos.to_json(made)
        if request.get("operation", "list") != "list":
            self._log.append(Todo(items=tuple(value["items"]), next=value["next"]))
        return text

    def inspect(self) -> Inspection:
        """How the window stands, section by section and message by message."""
        scale, past, decided = self._scale, self._past, self._thread.decided
        rows = tuple(
            WindowRow(
                entry.kept.id,
                str(entry.kept.role),
                scale.count([self._thread.shown(entry)]),
                "shortened" if entry.kept.id in decided else "whole",
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
        """How full the window is, with what goes into it before the first word."""
        found, ratio = self._sections(), self._scale.ratio
        opening = found.system or count(measure_all(system), ratio)
        schemas = found.schemas or count(measure_schemas(tools), ratio)
        more = opening - found.system + schemas - found.schemas
        return found._replace(system=opening, schemas=schemas, total=found.total + more)

    @property
    def window(self) -> int:
        """How many tokens the model is taken to see: as many as was said, or fewer if it refused them."""
        return self._context

    def _fitting(self, *, refusals: int, error: object = None) -> Prepared:
        """What to send; a learned window that leaves no room at all is forgotten, its server may be wrong."""
        try:
            return self._run(refusals=refusals, error=error)
        except WindowFull:
            if self._context == self._given:
                raise
            self._set_window(None)
            return self._run(refusals=refusals, error=error)

    def learn_window(self, error: object) -> None:
        """Take what a refusal says of the window, as `overflowed` does.

        Where it says nothing, or nothing that can be, the window is less than what was sent; how much less is
        known when a smaller request was answered.
        """
        sent = count(self._sent, self._scale.ratio) if self._sent is not None else self._context
        said = overflow_limit(error)
        if said is None or said >= sent or said < _LEAST:
            self._refused = min(sent, self._refused or sent)
        elif said < self._context:
            self._set_window(said)

    def _set_window(self, tokens: int | None) -> None:
        """The window is this large; None for as large as was said at first."""
        self._context = tokens or self._given

    # ---------------------------------------------------------------- what a turn asks

    def begin_turn(self, turn: Turn) -> None:
        """A turn begins; raises UsageError while another one is under way."""
        if self._turn is not None:
            again = self._turn is turn
            raise UsageError(
                f"{'this' if again else 'another'} turn of this session is already in progress",
                hint="leave its `with` block first; a turn can send several times",
            )
        self._turn = turn

    def end_turn(self, turn: Turn) -> None:
        """A turn is over."""
        if self._turn is turn:
            self._turn = None

    def check_answered(self, thread: list[Message]) -> None:
        """See that a thread has the last turn's answer once; raises UsageError for one that goes on without.

        A thread that ends before the answer asks for another one, and takes it back.
        """
        known, agreed = self._thread.agreed(thread)
        if agreed == known:
            drop_repeated(thread, known - self.answered, self.answered)
        elif agreed == known - self.answered < len(thread) and thread[agreed].role is not Role.ASSISTANT:
            raise UsageError(
                "the thread continues without the last turn's answer",
                hint="pass `engine.turn` the same list each time, or continue with `turn.thread`",
            )

    # ---------------------------------------------------------------- what must happen first

    def _run(self, *, refusals: int, error: object = None) -> Prepared:
        report, self._todo, self._git = Proceedings(), None, None
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
                self._fitting_plan(self._window().limit)  # what cannot be sent at all is not flushed first
                self._gate.flush(report)
            elif not (self._prune(report, trimming=True) and not refusals):
                self._shrink(report, step.stage, step.target)
                return self._prepared(report)

    def _prune(self, report: Proceedings, *, trimming: bool) -> bool:
        called = self._past.called
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

    def _shrink(self, report: Proceedings, stage: Stage, target: int) -> None:
        """Make the window smaller: by a compaction where one is due and works, else by a trim."""
        if stage is Stage.PROACTIVE and self._settings.compaction and self._compact(report, "", manual=False):
            return
        self._gate.leave(self._fitting_plan(target), report, why=str(stage))

    def _fitting_plan(self, target: int) -> Plan:
        """A plan of that size, or of less, which fits; raises WindowFull when there is none."""
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
        told = self._past.words if words is None else words
        return make_plan(self._thread, self._past, self._scale, target, self._render, words=told, share=share)

    def _render(self, known: summary.ThreadSummary, words: str, tokens: int) -> str:
        """The block that stands for what leaves, in so many tokens, or in what tasks and rules need at least.

        A small window gives a fifth of itself for them: what the user laid down is worth more than the
        last tool result, which can be had again.
        """
        todo, ratio, readers = self._things_to_do(), self._scale.ratio, self._thread.readers
        least = summary.least_tokens(known, todo, ratio, readers) + self._context // 20
        needed = min(least, self._context // 5)
        room = max(tokens, needed)
        return summary.render_block(
            known, words, todo=todo, git=self._recent_git(), tokens=room, ratio=ratio, readers=readers
        )

    # ---------------------------------------------------------------- compaction

    def _compact(self, report: Proceedings, focus: str, *, manual: bool, by_model: bool = True) -> bool:
        """Compact with the host's model; when that fails, a person's wish is met by the extraction."""
        hindrance = turns.hindrance(self._past.record, manual=manual)
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
        self._gate.flush(report)
        made = turns.Compaction(why=turns.NO_MODEL)
        if by_model:
            seconds = self._settings.compaction_seconds
            made = turns.compact(self._task(plan, focus), self._host, seconds=seconds)
        self._heed(made.why)
        if made.text:
            sound = self._plan(target, made.text, share=5)
            if turns.gained(before, sound.total) and sound.total <= window.limit:
                self._gate.leave(sound, report, why=COMPACTION, by_model=True)
                return True
            made = turns.Compaction(why=NO_PROGRESS)
        if made.why != turns.NO_MODEL:
            report.failed = made.why
            report.why.append(f"compaction failed: {made.why}")
        if manual:
            self._gate.leave(plan, report, why=COMPACTION)
        return manual

    def _task(self, plan: Plan, focus: str) -> turns.CompactionTask:
        known = plan.known or summary.ThreadSummary()
        left = self._window().limit * 2 // 3  # the rest is for the questions around it and the answer
        ratio = self._scale.ratio
        requests = tuple(dict.fromkeys(each for each in (known.original, known.task) if each))
        return turns.CompactionTask(
            record=turns.render_record(
                plan.dropped,
                before=summary.name_readers(self._past.block, NO_READERS),
                chars=int(left * ratio),
            ),
            identifiers=turns.find_identifiers(plan.dropped, known),
            requests=requests,
            focus=focus,
            chars=max(int(self._context // 5 * ratio * 0.7), 1500),
        )

    # ---------------------------------------------------------------- what the gate and the host are asked

    def _flush_turn(self) -> str:
        """Flush the window: made smaller, for this turn only, when it would be refused."""
        window = self._window()
        room = (window.limit * 9 // 10 if not self._refusals else window.limit // 2) - PRIMING
        fitting = trim(
            gather(self._messages()).units,
            tokens=room,
            ratio=self._scale.ratio,
            readers=self._thread.readers,
        ).kept
        outcome = turns.flush(
            flatten(fitting), self._host, settings=self._settings.flush, seconds=self._settings.flush_seconds
        )
        self._heed(outcome)
        return outcome

    def _heed(self, why: str) -> None:
        """A silent turn that was refused as too long also says what the window is."""
        said = overflow_limit(why) if is_overflow(why) else None
        if said is not None and _LEAST <= said < self._context:
            self._set_window(said)

    def _things_to_do(self) -> todos.TodoList:
        """The list, read once for each request: a log is long."""
        if self._todo is None:
            self._todo = todos.read_log(self._log)
        return self._todo

    def _now(self) -> float:
        try:
            return float(ask_for(self._host, "now", seconds=_SECONDS).timestamp())
        except (HostFailed, AttributeError, TypeError, ValueError, OverflowError):
            return self._past.called or 0.0

    def _recent_git(self) -> GitActivity | None:
        """What git says, asked once for each request."""
        if self._git is None:
            try:
                found = ask_for(self._host, "git", seconds=_SECONDS)
            except HostFailed:
                found = None
            self._git = (found if isinstance(found, GitActivity) else None,)
        return self._git[0]

    # ---------------------------------------------------------------- measuring

    def offer(self, tools: Sequence[Json]) -> None:
        """These tools go with each request: what they take, and which of them read what has left.

        A turn and `prepare` say it themselves; a host that shows a window before its first request does.
        """
        self._schemas = measure_schemas(tools)
        # What is in memory alone no tool can read.
        self._thread.readers = (
            find_readers(self._log.session, tools, self._names) if self._log.path else NO_READERS
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
        """The block in the words of this host: the log's may have been made where there were other tools."""
        return summary.name_readers(self._past.block, self._thread.readers)

    def _messages(self) -> tuple[Message, ...]:
        return compose(self._thread.window(), self._block)

    def _prepared(self, report: Proceedings) -> Prepared:
        messages = self._messages()
        self._sent = measure_all(messages) + self._schemas + Size(0, PRIMING)
        return report.prepared(messages, self._sections())


def _full(tokens: Sections, error: object) -> WindowFull:
    said = f": {' '.join(str(error).split())[:200]}" if error else ""
    return WindowFull(
        f"the context window is full and nothing more can be removed: {tokens.total} of {tokens.limit}"
        f" tokens, of which"
        f" tool schemas {tokens.schemas} and system prompt {tokens.system}{said}",
        hint="use a model with a larger window, or fewer tools, or a shorter system prompt",
    )


def settings_from(
    own: config.Settings, *, compaction: bool = True, reply: int | None = None
) -> WindowSettings:
    """What the user has set about a window, as the engine takes it."""
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
    """An engine that hands on what it has learned of its model after each call."""

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
        """A request was answered: what it cost, as the provider counted it."""
        super().observe(usage)
        if self._learned is not None and self._learns in self.estimator.ratios:
            self._learned(self._learns, self.estimator.ratio(self._learns))

    def _set_window(self, tokens: int | None) -> None:
        super()._set_window(tokens)
        if self._found is not None:
            self._found(tokens)


# ------------------------------------------------------------ dry runs

_LOOK = 20  # lines from the beginning
OWN = "vademecum"  # the format of our own logs


class DryRunSource(NamedTuple):
    """A session to try: what it is, the model it ran with, and all that was said on its main line."""

    name: str
    format: str
    model: str
    messages: tuple[Message, ...]


class DryRunStep(NamedTuple):
    """One answer before which something had to happen."""

    message: int  # how many there were by then
    why: str
    pruned: int  # results
    trimmed: int  # messages
    cut: int  # messages that stayed, shortened
    flushed: str
    tokens: int  # of the request then


class DryRun(NamedTuple):
    """How a session went."""

    source: DryRunSource
    tokens: int  # of all that was said, as one request
    window: Inspection  # as it stands at the end
    steps: tuple[DryRunStep, ...]
    pruned: tuple[PruneDecision, ...]
    full: str = ""  # why it could not go on

    @property
    def pruned_chars(self) -> int:
        """How many characters pruning took out."""
        return sum(
            each.chars - (len(each.placeholder) if each.kind is PruneKind.CLEAR else each.head + each.tail)
            for each in self.pruned
        )

    @property
    def trimmed(self) -> int:
        """How many messages left the window."""
        return sum(step.trimmed for step in self.steps)

    @property
    def flushes(self) -> int:
        """How many flush turns were due."""
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
    """Live through a session again."""
    moment = datetime.fromtimestamp(0, UTC)

    def now() -> datetime:
        return moment

    engine = ContextEngine(
        Log("trial", InMemory(), now=now), HostFunctions(now), window, settings, model, estimator=estimator
    )
    steps: list[DryRunStep] = []
    pruned: list[PruneDecision] = []
    said = list(source.messages)
    full = ""
    try:
        for at in [*(at for at, each in enumerate(said) if each.role is Role.ASSISTANT and at), len(said)]:
            moment = max(moment, clock.parse(said[at - 1].time) or moment)
            made = engine.prepare(said[:at])
            pruned += made.pruned
            steps += _step(at, made)
            if progress is not None:
                progress("try", at, len(said))
            if at < len(said):
                moment = max(moment, clock.parse(said[at].time) or moment)
                engine.observe(Used())
    except WindowFull as error:
        full = str(error)
    tokens = estimate_request(said, (), estimator.ratio(model))
    return DryRun(source, tokens, engine.inspect(), tuple(steps), tuple(pruned), full)


def _step(at: int, made: Prepared) -> list[DryRunStep]:
    if not (made.pruned or made.trimmed or made.cut or made.flushed):
        return []
    counts = len(made.pruned), len(made.trimmed), len(made.cut)
    return [DryRunStep(at, made.why, *counts, made.flushed, made.tokens.total)]


# -------------------------------------------------------------------- reading a session


def read_source(path: Path) -> DryRunSource:
    """The session in a file, of whatever format; raises NotFound for what holds none."""
    with files.reported(f"read {path}"):
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
        model, said = "", []
        for each in known.read(path):
            if isinstance(each, Message):
                said.append(each)
                model = model or each.model
            elif isinstance(each, SessionFacts):
                model = each.model or model
    return _source(str(path), known.name, model, said)


def from_log(log: Log, name: str = "") -> DryRunSource:
    """A session of our own."""
    said = [event.message._replace(time=event.message.time or event.time) for event in log.thread()]
    model = model_of(log) or next((each.model for each in said if each.model), "")
    return _source(name or log.session, OWN, model, said)


def model_of(log: Log) -> str:
    """The model a session ran with, as its first lines say; empty when they do not."""
    for number, raw in enumerate(log.raw()):
        event = raw.read() if raw.kind in ("", Started.kind) else None
        if isinstance(event, Started):
            return event.model
        if number > _LOOK:
            break
    return ""


def _source(name: str, format: str, model: str, said: Sequence[Message]) -> DryRunSource:
    """What was said on the main line, without subagents, branches that were left, and summaries."""
    main = tuple(each for each in said if not any(each.extra.get(mark) for mark in (SIDE, LEFT, SUMMARY)))
    if not main:
        raise NotFound(f"{name} has no messages", hint="pass a transcript with messages")
    return DryRunSource(name, format, model, main)


class _File:
    """A log anywhere on the disk, to be read and never written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.path = str(path)

    def opened(self) -> BinaryIO | None:
        """Open it for reading."""
        return self._path.open("rb")

    def held(self) -> AbstractContextManager[Pen]:
        """Nobody writes here."""
        raise PermissionError(f"{self.path} is read-only")
