"""What the engine asks of its host, and how it protects itself from the answers.

The engine never calls a model and never opens a journal: the program around it does, through these few
callbacks. Each of them may raise, hang or answer nonsense; `ask` turns all three into `HostFailed`.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import TYPE_CHECKING, Any, Protocol

from vademecum.errors import HostFailed
from vademecum.transcripts.messages import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import datetime

    from vademecum.context.git import GitActivity
    from vademecum.transcripts.messages import Json

    Complete = Callable[[Sequence[Message], str, Sequence[Json], float], Message | str]

_WHY_CHARS = 200


class Host(Protocol):
    """The program around the engine."""

    @property
    def complete(self) -> Complete | None:
        """Ask the model: messages, system prompt, tools, seconds it may take; None when there is no model."""

    @property
    def barred(self) -> str:
        """Why nothing may be written to memory now, such as `read-only` or `incognito`; empty if it may."""

    def now(self) -> datetime:
        """The time, with the zone whose date is today's."""

    def journal(self) -> str:
        """Today's journal as it is, by the local date; empty when there is none."""

    def note(self, text: str) -> None:
        """Append to today's journal, by the local date."""

    def remember(self, text: str) -> None:
        """Keep a fact of its own, as the host keeps facts; one without records appends to the journal."""

    def git(self) -> GitActivity | None:
        """Recent activity in the repository, if the session is in one."""


def _no_git() -> GitActivity | None:
    """No repository."""
    return None


def _nothing() -> str:
    """Nothing to say."""
    return ""


def _refuse(text: str) -> None:
    """Nowhere to write to."""
    raise HostFailed("this session has no memory to write to")


@dataclass(frozen=True, slots=True)
class HostFunctions:
    """A host whose answers come from the functions it was given."""

    now: Callable[[], datetime]
    complete: Complete | None = None
    bars: Callable[[], str] = _nothing
    journal: Callable[[], str] = _nothing
    note: Callable[[str], None] = _refuse
    remember: Callable[[str], None] = _refuse
    git: Callable[[], GitActivity | None] = _no_git

    @property
    def barred(self) -> str:
        """Why nothing may be written to memory now."""
        return self.bars()


def ask(function: Callable[..., Any], *values: Any, seconds: float) -> Any:
    """Call a host's function, for so many seconds at most.

    A function that hangs cannot be stopped; it is left alone in a thread that dies with the process, and
    what it returns later is not used.
    """
    answers: list[Any] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(function(*values))
        except Exception as error:  # a stranger's code: whatever it raises is an outcome, not our end
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True, name="vademecum-host")
    thread.start()
    thread.join(max(seconds, 0))
    if thread.is_alive():
        raise HostFailed(f"no answer in {seconds:g} s")
    if errors:
        raise HostFailed(explain(errors[0])) from errors[0]
    if not answers:
        raise HostFailed("ended without an answer")
    return answers[0]


def ask_for(host: Host, name: str, *values: Any, seconds: float) -> Any:
    """Call a host's method by its name; even looking it up is the host's code."""
    return ask(lambda: getattr(host, name)(*values), seconds=seconds)


def reply_of(answer: Any) -> Message | str:
    """A model's reply; raises HostFailed for what is none."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, Message) and isinstance(answer.parts, tuple):
        return answer
    raise HostFailed(f"the model callback gave {type(answer).__name__}, not a message or a text")


def explain(error: Exception) -> str:
    """What happened, on one short line."""
    return " ".join(f"{type(error).__name__}: {error}".split())[:_WHY_CHARS]


@cache
def prompt(name: str) -> str:
    """A prompt from its file."""
    return resources.files(__package__).joinpath("prompts", f"{name}.txt").read_text(encoding="utf-8").strip()
