"""A host made of functions, settings made of the user's, and an engine that tells what it has learned.

Knows no store: whoever puts it together says where notes go and where a ratio is kept.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

from vademecum.context.budget import FlushSettings, TrimSettings
from vademecum.context.engine import TAKEN_BACK, ContextEngine, Settings
from vademecum.context.prune import Mode, PruneSettings
from vademecum.errors import HostFailed
from vademecum.transcripts.events import Said, Trimmed
from vademecum.transcripts.log import InMemory, Log, clean_event

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from datetime import datetime

    from vademecum import config
    from vademecum.context.base import Complete, Host
    from vademecum.context.recovery import Git
    from vademecum.tokens import Estimator
    from vademecum.transcripts.events import Event, Torn, Used

_BACK = (TAKEN_BACK, "no longer in the file")  # why a message of a log is no part of its session


def settings_from(own: config.Settings, *, compaction: bool = True, reply: int | None = None) -> Settings:
    """What the user has set about a window, as the engine takes it."""
    prune, trim, flush = own.prune, own.trim, own.flush
    return Settings(
        prune=PruneSettings(
            mode=Mode(str(prune.mode)),
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


def _no_git() -> Git | None:
    """No repository."""
    return None


def _nothing() -> str:
    """Nothing to say."""
    return ""


def _refuse(text: str) -> None:
    """Nowhere to write to."""
    raise HostFailed("this session has no memory to write to")


@dataclass(frozen=True, slots=True)
class Functions:
    """A host whose answers come from the functions it was given."""

    now: Callable[[], datetime]
    complete: Complete | None = None
    bars: Callable[[], str] = _nothing
    journal: Callable[[], str] = _nothing
    note: Callable[[str], None] = _refuse
    remember: Callable[[str], None] = _refuse
    git: Callable[[], Git | None] = _no_git

    @property
    def barred(self) -> str:
        """Why nothing may be written to memory now."""
        return self.bars()


class LearningEngine(ContextEngine):
    """An engine that hands on what it has learned of its model after each call."""

    def __init__(
        self,
        log: Log,
        host: Host,
        window: int,
        settings: Settings,
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


def thread_of(events: Iterable[Event | Torn]) -> list[Said]:
    """Everything that was said and not taken back, whatever has left the window since; without secrets."""
    found: dict[str, Said] = {}
    for event in events:
        if isinstance(event, Said):
            found[event.id or f"#{event.seq}"] = event
        elif isinstance(event, Trimmed) and event.why in _BACK:
            for each in event.ids:
                found.pop(each, None)
    return [cast("Said", clean_event(each)) for each in found.values()]


def in_memory(log: Log) -> Log:
    """The same log, line by line, where what is added to it leaves nothing behind."""
    paper = InMemory()
    with paper.held() as pen:
        for raw in log.raw():
            pen.write(raw.content.removesuffix(b"\n"), sync=False)
    return Log(log.session, paper)
