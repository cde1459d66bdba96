"""What the engine would do with a session at a given window: a trial on a log in memory.

The session is lived through again, answer by answer and at the times it really happened, so that caches go
cold and cycles end where they would have. No model is asked and nothing is written anywhere.
"""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING, BinaryIO, NamedTuple

from vademecum.agents import registry
from vademecum.context.engine import ContextEngine
from vademecum.context.host import HostFunctions
from vademecum.context.prune import PruneKind
from vademecum.context.units import estimate_request
from vademecum.errors import NotFound, WindowFull
from vademecum.store import clock, files
from vademecum.transcripts import LEFT, SIDE, SUMMARY, Message, Role
from vademecum.transcripts.events import Started, Used
from vademecum.transcripts.log import InMemory, Log
from vademecum.transcripts.reading import SessionFacts

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from contextlib import AbstractContextManager
    from pathlib import Path

    from vademecum.context.prune import PruneDecision
    from vademecum.context.window import Inspection, Prepared, WindowSettings
    from vademecum.tokens import Estimator
    from vademecum.transcripts.log import Pen

    Progress = Callable[[str, int, int], None]

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
            what = "is a folder" if path.is_dir() else "is not a file" if path.exists() else "is not there"
            raise NotFound(
                f"{path} {what}", hint="give the file of one transcript, or a session's id or name"
            )
        log = Log(path.stem, _File(path))
        first = next(log.raw(), None)
        if first is None:
            raise NotFound(f"{path} is empty", hint="give a transcript in which something was said")
        if first.kind:
            return from_log(log, str(path))
        known = registry.recognise_transcript(path)
        if known is None:
            names = ", ".join([*(each.name for each in registry.transcript_formats()), OWN])
            raise NotFound(f"{path} is no transcript that is known here", hint=f"the formats are {names}")
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
        raise NotFound(f"nothing is said in {name}", hint="give a transcript in which something was said")
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
        raise PermissionError(f"{self.path} is only read")
