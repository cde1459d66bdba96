"""The context engine: what to send now, and the one gate through which anything leaves the window.

The host gives the whole thread each time, as it has it; the engine writes what is new to the log, and what is
decided about it (pruned, trimmed, compacted) as events behind it. The window is what `replay` makes of the
log: nothing is sent that could not be made again from it, but for secrets, which the log does not keep.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.context import block as blocks
from vademecum.context import compaction as compactions
from vademecum.context import flush as flushes
from vademecum.context import prune, recovery, summary
from vademecum.context import todo as todos
from vademecum.context.base import HostFailed, WindowFull, ask_for
from vademecum.context.budget import (
    FLUSH,
    TRIM,
    FlushSettings,
    Move,
    Points,
    Stage,
    TrimSettings,
    Window,
    keep_recent,
    next_step,
    points,
    reply_reserve,
)
from vademecum.context.replay import apply_all, block_message, compose, decisions_of, opening
from vademecum.context.sizes import measure_all, measure_schemas
from vademecum.context.trim import trim
from vademecum.context.units import Cut, Unit, flatten, gather
from vademecum.store import ids
from vademecum.tokens import PRIMING, Estimator, Size, count
from vademecum.transcripts import events as kinds
from vademecum.transcripts import messages as shapes
from vademecum.transcripts import views
from vademecum.transcripts.events import (
    Checkpoint,
    Compacted,
    Event,
    Flushed,
    Pruned,
    Said,
    Summary,
    Todo,
    Torn,
    Trimmed,
    Used,
)
from vademecum.transcripts.log import cleaned
from vademecum.transcripts.messages import Message, Role

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.context.base import Host
    from vademecum.context.prune import Decision
    from vademecum.transcripts.log import Log
    from vademecum.transcripts.messages import Json

TAKEN_BACK = "taken back"  # the host's thread no longer has them: no drop, and no cycle ends with it
_SECONDS = 5.0  # for the small questions: the time, git
_RECENT_CALLS = 10
_CALL_CHARS = 120


class Settings(NamedTuple):
    """All that can be set about a window."""

    prune: prune.PruneSettings = prune.PruneSettings()
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


# -------------------------------------------------------------------- the engine


class _Entry:
    """A message of the thread: as the host gave it, and as the log holds it."""

    __slots__ = ("given", "kept", "key")

    def __init__(self, given: Message, key: str, kept: Message) -> None:
        self.given = given
        self.key = key
        self.kept = kept


class _Plan(NamedTuple):
    """A smaller window, thought through and not yet made."""

    leaving: tuple[_Entry, ...]
    dropped: tuple[Message, ...]
    staying: tuple[_Entry, ...]
    cuts: tuple[tuple[str, Cut], ...]
    known: summary.Summary | None
    block: str
    total: int


class _Report:
    """What happens while one request is prepared."""

    def __init__(self) -> None:
        self.pruned: list[Decision] = []
        self.trimmed: list[str] = []
        self.cut: list[str] = []
        self.flushed = ""
        self.compacted = ""
        self.why: list[str] = []
        self.failed = ""  # why a model's compaction came to nothing


class ContextEngine:
    """The window of one session."""

    def __init__(
        self,
        log: Log,
        host: Host,
        window: int,
        settings: Settings | None = None,
        model: str = "",
        *,
        estimator: Estimator | None = None,
    ) -> None:
        self.estimator = estimator or Estimator()  # grows with every `observe`; whoever wants to keeps it
        self._log = log
        self._host = host
        self._context = window
        self._settings = settings or Settings()
        self._model = model
        self._thread: list[_Entry] = []
        self._live: list[_Entry] = []
        self._names: set[str] = set()
        self._decided: dict[str, list[Decision | Cut]] = {}
        self._known: summary.Summary | None = None
        self._text = ""  # of the last compaction by a model
        self._block = ""
        self._flushed = False
        self._outcome = ""
        self._unsaid = False  # nothing was said since the last flush
        self._cycles = 0
        self._refusals = 0
        self._last_call: float | None = None
        self._record = compactions.Record()
        self._tools: tuple[Json, ...] = ()
        self._schemas = Size()
        self._sent: Size | None = None
        self._load(list(log.events()))

    # ---------------------------------------------------------------- what a host calls

    def prepare(self, messages: Sequence[Message], tools: Sequence[Json] = ()) -> Prepared:
        """What to send next; `messages` is the whole thread. Raises WindowFull when nothing more can go."""
        self._set_tools(tools)
        self._absorb(messages)
        return self._run(refusals=0)

    def overflowed(self, error: object = None) -> Prepared:
        """What to send after the provider refused a request as too long; raises WindowFull in the end."""
        self._refusals += 1
        return self._run(refusals=self._refusals, error=error)

    def observe(self, usage: Used) -> None:
        """A request was answered: what it cost, as the provider counted it."""
        self._log.append(usage, sync=True)
        self._refusals = 0
        self._last_call = self._now()
        if self._sent is not None:
            self.estimator = self.estimator.learned(self._model, self._sent, usage.input)

    def compact(self, focus: str | None = None) -> Prepared:
        """Summarize all but the newest messages now, with regard to what the person says matters."""
        report = _Report()
        self._compact(report, focus or "", manual=True)
        return self._prepared(report)

    def todo(self, request: Mapping[str, Json]) -> str:
        """Do one operation on the list of things to do, and say how it is then."""
        made, text = todos.operate(self._todo(self._last_todo()), request)
        value = todos.to_json(made)
        if request.get("operation", "list") != "list":
            self._log.append(Todo(items=tuple(value["items"]), next=value["next"]))
        return text

    def inspect(self) -> Inspection:
        """How the window stands, section by section and message by message."""
        rows = tuple(
            Row(
                entry.kept.id,
                str(entry.kept.role),
                self._count([self._shown(entry)]),
                "shortened" if entry.kept.id in self._decided else "whole",
            )
            for entry in self._live
        )
        settings = self._settings
        return Inspection(
            self._sections(),
            points(self._window(), settings.trim, settings.flush),
            self._ratio,
            self._cycles,
            self._flushed,
            self._outcome,
            self._record.failures,
            rows,
            self._block,
        )

    # ---------------------------------------------------------------- the thread and the log

    def _load(self, events: list[Event | Torn]) -> None:
        """Take up where the log left off."""
        thread: dict[str, _Entry] = {}
        for event in events:
            if isinstance(event, Said):
                key = event.id or f"#{event.seq}"
                thread[key] = _Entry(event.message, key, event.message)
                self._names.add(event.message.id)
                self._unsaid = False
            elif isinstance(event, Trimmed) and event.why == TAKEN_BACK:
                for key in event.ids:
                    thread.pop(key, None)
            else:
                self._load_decision(event)
        shown = {each.id or f"#{each.seq}" for each in views.window(events)}
        self._thread = list(thread.values())
        self._live = [entry for entry in self._thread if entry.key in shown]

    def _load_decision(self, event: Event | Torn) -> None:
        if isinstance(event, Pruned | Trimmed):
            self._remember(decisions_of(event))
        if isinstance(event, Summary | Compacted):
            self._block = event.text
            self._known = summary.parse(event.text)
            self._text = blocks.words_of(event.text)
            failed = self._record.failures + bool(event.extra.get("compaction"))
            self._record = compactions.Record(failed if isinstance(event, Summary) else 0)
        if isinstance(event, Compacted) or (isinstance(event, Trimmed) and _ends_cycle(event)):
            self._cycles += 1
            self._flushed = False
        if isinstance(event, Flushed):
            self._flushed = self._unsaid = True
            self._outcome = event.outcome

    def _absorb(self, messages: Sequence[Message]) -> None:
        """Write to the log what of the host's thread it does not hold."""
        head = opening(messages)
        if head == opening([entry.given for entry in self._thread]):
            for at in range(head):
                if not _same(messages[at], self._thread[at]):
                    self._replace(at, messages[at])
        at = 0
        while at < min(len(messages), len(self._thread)) and _same(messages[at], self._thread[at]):
            at += 1
        if at < len(self._thread):
            self._take_back(at)
        for message in messages[at:]:
            self._append(message)

    def _append(self, message: Message) -> None:
        key = ids.new()
        # Everything in the window can be pointed at: what has no name of its own gets its event's.
        named = message if message.id and message.id not in self._names else message._replace(id=key)
        said = self._log.append(Said(named, id=key))
        kept = said.message if isinstance(said, Said) else named
        self._names.add(kept.id)
        entry = _Entry(message, key, kept)
        self._thread.append(entry)
        self._live.append(entry)
        self._unsaid = False
        if self._record.since is not None:
            self._record = self._record._replace(since=self._record.since + 1)

    def _replace(self, at: int, message: Message) -> None:
        """A system prompt changed: the same event id again, which takes the old one's place in a replay."""
        old = self._thread[at]
        said = self._log.append(Said(message._replace(id=old.kept.id), id=old.key))
        entry = _Entry(message, old.key, said.message if isinstance(said, Said) else message)
        self._thread[at] = entry
        self._live = [entry if each is old else each for each in self._live]

    def _take_back(self, at: int) -> None:
        gone = tuple(entry.key for entry in self._thread[at:])
        left = set(gone)
        del self._thread[at:]
        self._live = [entry for entry in self._live if entry.key not in left]
        self._log.append(Trimmed(ids=gone, why=TAKEN_BACK))

    # ---------------------------------------------------------------- deciding

    def _run(self, *, refusals: int, error: object = None) -> Prepared:
        report = _Report()
        settings = self._settings
        self._prune(report, trimming=False)
        while True:
            window = self._window()
            used = self._sections().total
            step = next_step(
                window,
                used=used,
                flushed=self._flushed,
                overflows=refusals,
                trim=settings.trim,
                flush=settings.flush,
            )
            if step.move is Move.SEND:
                return self._prepared(report)
            if step.move is Move.FAIL:
                raise _full(self._sections(), error)
            if step.move is Move.FLUSH:
                self._flush(report)
            elif not (self._prune(report, trimming=True) and not refusals):
                self._shrink(report, step.stage, step.target)
                return self._prepared(report)

    def _prune(self, report: _Report, *, trimming: bool) -> bool:
        messages = [self._logged(entry) for entry in self._live]
        made = prune.decide(
            messages, self._settings.prune, now=self._now(), last_call=self._last_call, trimming=trimming
        )
        if not made:
            return False
        names = tuple(dict.fromkeys(each.message for each in made))
        how = "before a trim" if trimming else str(self._settings.prune.mode)
        self._log.append(Pruned(ids=names, how=how, decisions=tuple(prune.to_json(each) for each in made)))
        self._remember((each.message, each) for each in made)
        report.pruned += made
        return True

    def _shrink(self, report: _Report, stage: Stage, target: int) -> None:
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
        self._leave(plan, report, why=str(stage))

    def _plan(self, target: int, text: str | None = None, share: int = 10) -> _Plan:
        """A window of that many tokens in all, with room for the block that stands for what leaves."""
        window = self._window()
        cap = max(min(self._context // share, (target - window.fixed) // 3), 0)
        shown = [self._shown(entry) for entry in self._live]
        units = gather(shown).units
        found = trim(units, tokens=target - window.schemas - PRIMING - cap, ratio=self._ratio)
        by_first = {unit.messages[0].id: unit for unit in units}
        cuts = tuple(
            (message.id, how)
            for first, how in found.cuts
            for message in by_first[first].messages
            if message.id
        )
        leaving, staying = self._parted(found.kept, found.dropped)
        dropped = tuple(self._logged(entry) for entry in leaving)  # what is told of it holds no secrets
        if not leaving:
            known, block = self._known, self._block
        else:
            stays = [self._logged(entry) for entry in staying]
            known = summary.summarize(dropped, self._known, kept=stays)
            block = self._render(known, self._text if text is None else text, cap)
        total = self._total(staying, {**self._decided, **self._with(cuts)}, block)
        return _Plan(leaving, dropped, staying, cuts, known, block, total)

    def _parted(
        self, kept: Sequence[Unit], dropped: Sequence[Unit]
    ) -> tuple[tuple[_Entry, ...], tuple[_Entry, ...]]:
        """Which messages of the log leave and which stay.

        A message can be part of two units (results beside words) and stays if either does. One that is in
        none, because it was mended away, leaves with its neighbours.
        """
        if not dropped:
            return (), tuple(self._live)
        stay = {message.id for message in flatten(kept)}
        gone = {message.id for message in flatten(dropped)} - stay
        head = opening([entry.kept for entry in self._live])
        last = max((at for at, entry in enumerate(self._live) if entry.kept.id in gone), default=-1)
        leaving = {
            entry.key
            for at, entry in enumerate(self._live)
            if entry.kept.id in gone or (head <= at < last and entry.kept.id not in stay)
        }
        return (
            tuple(entry for entry in self._live if entry.key in leaving),
            tuple(entry for entry in self._live if entry.key not in leaving),
        )

    # ---------------------------------------------------------------- compaction

    def _compact(self, report: _Report, focus: str, *, manual: bool) -> bool:
        """Compact with the host's model; when that fails, a person's wish is met by the extraction."""
        hindrance = compactions.hindrance(self._record, manual=manual)
        if hindrance:
            report.why.append(f"compaction skipped: {hindrance}")
            return False
        window = self._window()
        target = window.fixed + keep_recent(self._context, self._settings.trim) + self._context // 5
        before = self._sections().total
        plan = self._plan(target, share=5)
        if not plan.leaving or plan.total > window.limit:
            report.why.append("nothing to compact")
            return False
        self._flush(report)
        made = compactions.compact(
            self._task(plan, focus), self._host, seconds=self._settings.compaction_seconds
        )
        if made.text:
            sound = self._plan(target, made.text, share=5)
            if compactions.gained(before, sound.total) and sound.total <= window.limit:
                self._leave(sound, report, why=_COMPACTION, text=made.text)
                self._record = compactions.Record(since=0)
                return True
            made = compactions.Compaction(why=_NO_PROGRESS)
        if made.why != compactions.NO_MODEL:
            report.failed = made.why
            stalled = made.why == _NO_PROGRESS
            self._record = compactions.Record(self._record.failures + 1, stalled, 0 if stalled else None)
            report.why.append(f"compaction failed: {made.why}")
        if manual:
            self._leave(plan, report, why=_COMPACTION)
        return manual

    def _task(self, plan: _Plan, focus: str) -> compactions.Task:
        known = plan.known or summary.Summary()
        left = self._window().limit * 2 // 3  # the rest is for the questions around it and the answer
        chars = int(left * self._ratio)
        requests = tuple(dict.fromkeys(each for each in (known.original, known.task) if each))
        return compactions.Task(
            record=compactions.render_record(plan.dropped, before=self._block, chars=chars),
            identifiers=compactions.identifiers(plan.dropped, known),
            requests=requests,
            focus=focus,
            chars=max(int(self._context // 5 * self._ratio * 0.7), 1500),
        )

    # ---------------------------------------------------------------- the gate

    def _leave(self, plan: _Plan, report: _Report, *, why: str, text: str | None = None) -> None:
        """The one gate: nothing leaves the window by any other way.

        The order is that of safety: what leaves is in the log, what should outlive it has been flushed, and
        its summary stands before the event that lets it go. A process that dies in between has lost nothing.
        """
        if not plan.leaving and not plan.cuts:
            return
        self._flush(report)
        self._hold(self._live)
        keys = tuple(entry.key for entry in plan.leaving)
        told: Event | None = None
        decisions = tuple({"message": name, "limit": how.limit, "deep": how.deep} for name, how in plan.cuts)
        extra = {"compaction": f"failed:{report.failed}"} if report.failed else {}
        if keys and text is None:
            told = self._log.append(Summary(text=plan.block, role=str(Role.USER), extra=extra))
        self._log.append(self._checkpoint(plan))
        if keys and text is not None:
            told = self._log.append(Compacted(text=plan.block, covers=keys, role=str(Role.USER)), sync=True)
        if text is None or decisions:
            done = Trimmed(ids=keys if text is None else (), why=why, decisions=decisions)
            self._log.append(done, sync=True)
        if keys:
            report.compacted = "extraction" if text is None else "model"
            self._known = plan.known
            self._block = told.text if isinstance(told, Summary | Compacted) else plan.block
            self._text = blocks.words_of(self._block)
        self._live = list(plan.staying)
        self._remember(plan.cuts)
        self._flushed = False
        self._cycles += 1
        report.trimmed += [entry.kept.id for entry in plan.leaving]
        report.cut += [name for name, _ in plan.cuts]
        report.why.append(why)

    def _flush(self, report: _Report) -> None:
        """The flush of this cycle, unless it has run."""
        if self._flushed:
            return
        if not self._settings.flush.enabled:
            outcome = "skipped:disabled"
        elif self._unsaid:
            outcome = flushes.NOTHING_NEW
        else:
            outcome = flushes.flush(self._fitting(), self._host, seconds=self._settings.flush_seconds)
        self._log.append(Flushed(outcome=outcome), sync=True)
        self._flushed = self._unsaid = True
        self._outcome = report.flushed = outcome

    def _fitting(self) -> tuple[Message, ...]:
        """The window for the flush turn: made smaller, for this turn only, when it would be refused."""
        window = self._window()
        room = (window.limit * 9 // 10 if not self._refusals else window.limit // 2) - PRIMING
        return flatten(trim(gather(self._messages()).units, tokens=room, ratio=self._ratio).kept)

    def _hold(self, entries: Iterable[_Entry]) -> None:
        """Make sure that the log holds the window, whatever has happened to the file meanwhile."""
        missing = {entry.key: entry for entry in entries}
        for raw in self._log.raw():
            if raw.kind == "message" and raw.content.endswith(b"}\n"):
                found = _ID.search(raw.content[:300])
                missing.pop(found[1].decode() if found else "", None)
        for key, entry in missing.items():
            if not key.startswith("#"):
                self._log.append(Said(entry.kept, id=key))

    def _checkpoint(self, plan: _Plan) -> Checkpoint:
        shown = [self._shown(entry) for entry in self._live]
        calls = [call for message in shown for call in message.calls][-_RECENT_CALLS:]
        words = (" ".join(f"{call.name} {call.arguments[:1000]}".split())[:_CALL_CHARS] for call in calls)
        todo = self._last_todo()
        task = plan.known.task if plan.known else summary.anchor(shown)
        return Checkpoint(task=task, todo=todo.items, tools=tuple(words), iteration=self._cycles + 1)

    def _last_todo(self) -> Todo:
        """The list as it is in the log, where whoever offers it to the agent writes it."""
        last = None
        for raw in self._log.raw():
            last = raw if raw.kind == Todo.kind else last
        event = last.read() if last else None
        return event if isinstance(event, Todo) else Todo()

    def _todo(self, event: Todo) -> todos.Todo:
        try:
            return todos.from_json({"items": event.items, "next": event.next or 1})
        except (ValueError, KeyError, TypeError):
            return todos.Todo()

    def _render(self, known: summary.Summary, text: str, cap: int) -> str:
        """The block that stands for what leaves, in so many tokens."""
        todo = self._todo(self._last_todo())
        return blocks.render(known, text, todo=todo, git=self._git(), tokens=cap, ratio=self._ratio)

    # ---------------------------------------------------------------- measuring

    @property
    def _ratio(self) -> float:
        return self.estimator.ratio(self._model)

    def _count(self, messages: Iterable[Message]) -> int:
        return count(measure_all(messages), self._ratio)

    def _window(self) -> Window:
        first = self._live[: opening([entry.kept for entry in self._live])]
        return Window(
            self._context,
            reply_reserve(self._context, self._settings.reply),
            count(self._schemas, self._ratio),
            self._count(self._shown(entry) for entry in first),
        )

    def _shown(self, entry: _Entry) -> Message:
        """A message as it is sent: as the host gave it; one that was shortened, as the log has it."""
        if entry.kept.id in self._decided:
            return self._logged(entry)
        given = entry.given
        return given if given.id == entry.kept.id else given._replace(id=entry.kept.id)

    def _logged(self, entry: _Entry) -> Message:
        return apply_all(entry.kept, self._decided.get(entry.kept.id, ()))

    def _messages(self) -> tuple[Message, ...]:
        return compose([self._shown(entry) for entry in self._live], self._block)

    def _total(
        self, entries: Iterable[_Entry], decided: Mapping[str, list[Decision | Cut]], block: str
    ) -> int:
        shown = [
            apply_all(entry.kept, decided[entry.kept.id]) if entry.kept.id in decided else self._shown(entry)
            for entry in entries
        ]
        return count(measure_all(compose(shown, block)) + self._schemas, self._ratio) + PRIMING

    def _sections(self) -> Sections:
        messages = self._messages()
        window = self._window()
        summed = self._count([block_message(self._block)]) if self._block else 0
        total = count(measure_all(messages) + self._schemas, self._ratio) + PRIMING
        rest = max(total - window.fixed - summed, 0)
        return Sections(window.schemas, window.system, summed, rest, total, window.limit, self._context)

    def _prepared(self, report: _Report) -> Prepared:
        messages = self._messages()
        self._sent = measure_all(messages) + self._schemas + Size(0, PRIMING)
        return Prepared(
            messages,
            self._sections(),
            tuple(report.pruned),
            tuple(report.trimmed),
            tuple(report.cut),
            report.flushed,
            report.compacted,
            "; ".join(report.why),
        )

    def _with(self, cuts: Iterable[tuple[str, Cut]]) -> dict[str, list[Decision | Cut]]:
        found: dict[str, list[Decision | Cut]] = {}
        for name, how in cuts:
            found.setdefault(name, list(self._decided.get(name, ()))).append(how)
        return found

    def _remember(self, made: Iterable[tuple[str, Decision | Cut]]) -> None:
        for name, how in made:
            self._decided.setdefault(name, []).append(how)

    def _set_tools(self, tools: Sequence[Json]) -> None:
        self._tools = tuple(tools)
        self._schemas = measure_schemas(self._tools)

    def _now(self) -> float:
        try:
            return float(ask_for(self._host, "now", seconds=_SECONDS).timestamp())
        except (HostFailed, AttributeError, TypeError, ValueError, OverflowError):
            return self._last_call or 0.0

    def _git(self) -> recovery.Git | None:
        try:
            found = ask_for(self._host, "git", seconds=_SECONDS)
        except HostFailed:
            return None
        return found if isinstance(found, recovery.Git) else None


_COMPACTION = "compaction"
_NO_PROGRESS = "no progress"


def _ends_cycle(event: Trimmed) -> bool:
    """Whether a cycle ended with it; the cuts that go with a compaction do not end a second one."""
    return event.why != TAKEN_BACK and bool(event.ids or event.why != _COMPACTION)


_ID = re.compile(rb'"id":"([^"\\]{1,100})"')


def _same(given: Message, entry: _Entry) -> bool:
    """Whether the host's message is the one we know; ids and times may be lost on its way through a host."""
    if given is entry.given:
        return True
    for known in (entry.given, entry.kept):
        if (given.role, given.parts, given.name) == (known.role, known.parts, known.name):
            return True
    if given.role is not entry.kept.role or len(given.parts) != len(entry.kept.parts):
        return False
    said = cleaned(kinds.to_json(Said(given)))["message"]
    return bool(said["parts"] == cleaned(shapes.to_json(entry.kept))["parts"])


def _full(tokens: Sections, error: object) -> WindowFull:
    said = f": {' '.join(str(error).split())[:200]}" if error else ""
    return WindowFull(
        f"the window is full and nothing more can leave it: {tokens.total} of {tokens.limit} tokens, of which"
        f" tool schemas {tokens.schemas} and system prompt {tokens.system}{said}",
        hint="use a model with a larger window, or fewer tools, or a shorter system prompt",
    )
