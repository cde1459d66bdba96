"""The context engine: what to send now, and what must happen before it can be sent.

The host gives the whole thread each time, as it has it; the engine writes what is new to the log, and what is
decided about it (pruned, trimmed, compacted) as events behind it. The window is what the log amounts to:
nothing is sent that could not be made again from it, but for secrets, which the log does not keep. Knows no
store: whoever puts it together says where notes go and where a ratio is kept.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.context import compaction as compactions
from vademecum.context import exit, prune, summary
from vademecum.context import flush as flushes
from vademecum.context import todo as todos
from vademecum.context.budget import FlushSettings, Move, Stage, TrimSettings, keep_recent, next_step, points
from vademecum.context.exit import Exit
from vademecum.context.host import GitActivity, ask_for
from vademecum.context.prune import PruneMode, PruneSettings
from vademecum.context.units import flatten, gather, measure_all, measure_schemas, trim
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
)
from vademecum.errors import HostFailed, WindowFull
from vademecum.tokens import PRIMING, Estimator, Size, count
from vademecum.transcripts.events import Event, Pruned, Todo, Used
from vademecum.transcripts.log import Log, clean_event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from vademecum import config
    from vademecum.context.budget import Window
    from vademecum.context.exit import Plan
    from vademecum.context.host import Host
    from vademecum.transcripts import Json, Message


_SECONDS = 5.0  # for the small questions: the time, git


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
    ) -> None:
        self.estimator = estimator or Estimator()  # grows with every `observe`; whoever wants to keeps it
        self._log = log
        self._host = host
        self._context = window
        self._settings = settings or WindowSettings()
        self._model = model
        events = [clean_event(each) if isinstance(each, Event) else each for each in log.events()]
        self._thread = Thread(log, events)
        self._past = Past(events)
        turn = self._flush_turn if self._settings.flush.enabled else None
        self._gate = Exit(log, self._thread, self._past, turn, self._things_to_do)
        self._refusals = 0
        self._todo: todos.TodoList | None = None  # both as they were when first asked for in this call
        self._git: tuple[GitActivity | None] | None = None
        self._schemas = Size()
        self._sent: Size | None = None

    # ---------------------------------------------------------------- what a host calls

    def prepare(self, messages: Sequence[Message], tools: Sequence[Json] = ()) -> Prepared:
        """What to send next; `messages` is the whole thread. Raises WindowFull when nothing more can go."""
        self._schemas = measure_schemas(tools)
        self.record(messages)
        return self._run(refusals=0)

    def record(self, messages: Sequence[Message]) -> None:
        """Write to the log what is new in the thread, as an answer is that nothing follows yet."""
        for said in self._thread.absorb(messages):
            self._past.take(said)

    def overflowed(self, error: object = None) -> Prepared:
        """What to send after the provider refused a request as too long; raises WindowFull in the end."""
        self._refusals += 1
        return self._run(refusals=self._refusals, error=error)

    def observe(self, usage: Used) -> None:
        """A request was answered: what it cost, as the provider counted it."""
        self._log.append(usage, sync=True)
        self._refusals = 0
        self._past.called = self._now()
        if self._sent is not None:
            self.estimator = self.estimator.learned(self._model, self._sent, usage.input)

    def compact(self, focus: str | None = None) -> Prepared:
        """Summarize all but the newest messages now, with regard to what the person says matters."""
        report, self._todo, self._git = Proceedings(), None, None
        self._compact(report, focus or "", manual=True)
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
            past.block,
        )

    def filled(self, system: Sequence[Message], tools: Sequence[Json]) -> Sections:
        """How full the window is, with what goes into it before the first word."""
        found, ratio = self._sections(), self._scale.ratio
        opening = found.system or count(measure_all(system), ratio)
        schemas = found.schemas or count(measure_schemas(tools), ratio)
        more = opening - found.system + schemas - found.schemas
        return found._replace(system=opening, schemas=schemas, total=found.total + more)

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
        plan = self._plan(target)
        trims = 1
        while plan.total > self._window().limit:
            step = next_step(self._window(), used=plan.total, flushed=True, trims=trims)
            if step.move is not Move.TRIM:
                raise _full(self._sections(), None)
            plan = self._plan(min(step.target, target))
            trims += 1
        self._gate.leave(plan, report, why=str(stage))

    def _plan(self, target: int, words: str | None = None, share: int = 10) -> Plan:
        told = self._past.words if words is None else words
        return exit.make_plan(
            self._thread, self._past, self._scale, target, self._render, words=told, share=share
        )

    def _render(self, known: summary.ThreadSummary, words: str, tokens: int) -> str:
        """The block that stands for what leaves, in so many tokens, or in what both tasks need at least."""
        todo, ratio = self._things_to_do(), self._scale.ratio
        needed = min(summary.least_tokens(known, todo, ratio), self._context // 5)
        room = max(tokens, needed)
        return summary.render_block(known, words, todo=todo, git=self._recent_git(), tokens=room, ratio=ratio)

    # ---------------------------------------------------------------- compaction

    def _compact(self, report: Proceedings, focus: str, *, manual: bool) -> bool:
        """Compact with the host's model; when that fails, a person's wish is met by the extraction."""
        hindrance = compactions.hindrance(self._past.record, manual=manual)
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
        made = compactions.compact(
            self._task(plan, focus), self._host, seconds=self._settings.compaction_seconds
        )
        if made.text:
            sound = self._plan(target, made.text, share=5)
            if compactions.gained(before, sound.total) and sound.total <= window.limit:
                self._gate.leave(sound, report, why=COMPACTION, by_model=True)
                return True
            made = compactions.Compaction(why=NO_PROGRESS)
        if made.why != compactions.NO_MODEL:
            report.failed = made.why
            report.why.append(f"compaction failed: {made.why}")
        if manual:
            self._gate.leave(plan, report, why=COMPACTION)
        return manual

    def _task(self, plan: Plan, focus: str) -> compactions.CompactionTask:
        known = plan.known or summary.ThreadSummary()
        left = self._window().limit * 2 // 3  # the rest is for the questions around it and the answer
        ratio = self._scale.ratio
        requests = tuple(dict.fromkeys(each for each in (known.original, known.task) if each))
        return compactions.CompactionTask(
            record=compactions.render_record(plan.dropped, before=self._past.block, chars=int(left * ratio)),
            identifiers=compactions.find_identifiers(plan.dropped, known),
            requests=requests,
            focus=focus,
            chars=max(int(self._context // 5 * ratio * 0.7), 1500),
        )

    # ---------------------------------------------------------------- what the gate and the host are asked

    def _flush_turn(self) -> str:
        """Flush the window: made smaller, for this turn only, when it would be refused."""
        window = self._window()
        room = (window.limit * 9 // 10 if not self._refusals else window.limit // 2) - PRIMING
        fitting = trim(gather(self._messages()).units, tokens=room, ratio=self._scale.ratio).kept
        return flushes.flush(
            flatten(fitting), self._host, settings=self._settings.flush, seconds=self._settings.flush_seconds
        )

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

    @property
    def _scale(self) -> Scale:
        ratio = self.estimator.ratio(self._model)
        return Scale(self._context, ratio, self._schemas, self._settings.reply)

    def _window(self) -> Window:
        return self._scale.window(self._thread.window())

    def _sections(self) -> Sections:
        return self._scale.sections(self._thread.window(), self._past.block)

    def _messages(self) -> tuple[Message, ...]:
        return compose(self._thread.window(), self._past.block)

    def _prepared(self, report: Proceedings) -> Prepared:
        messages = self._messages()
        self._sent = measure_all(messages) + self._schemas + Size(0, PRIMING)
        return report.prepared(messages, self._sections())


def _full(tokens: Sections, error: object) -> WindowFull:
    said = f": {' '.join(str(error).split())[:200]}" if error else ""
    return WindowFull(
        f"the window is full and nothing more can leave it: {tokens.total} of {tokens.limit} tokens, of which"
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
    ) -> None:
        super().__init__(log, host, window, settings, model, estimator=estimator)
        self._learns = model
        self._learned = learned

    def observe(self, usage: Used) -> None:
        """A request was answered: what it cost, as the provider counted it."""
        super().observe(usage)
        if self._learned is not None and self._learns in self.estimator.ratios:
            self._learned(self._learns, self.estimator.ratio(self._learns))
