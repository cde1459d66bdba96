"""What the engine asks of its host, how it protects itself from the answers, and git as a host may ask it.

The engine never calls a model and never opens a journal: the program around it does, through these few
callbacks. Each of them may raise, hang or answer nonsense; `ask` turns all three into `HostFailed`. A
reply of `NO_REPLY` is kept from the person it was not meant for, whole or while it streams in.

A repository is not trusted: its settings can name programs, for the file system monitor, for signatures, for
filters and for fetching what a partial clone lacks, and none of them may run because somebody asked what is
new. Whatever goes wrong, there is no activity to tell of.
"""

from __future__ import annotations

import contextlib
import os
import re
import subprocess
import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from vademecum.errors import HostFailed
from vademecum.text import SILENCE, SILENCE_WRAP, is_silent
from vademecum.transcripts import Message

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from datetime import datetime
    from pathlib import Path

    from vademecum.transcripts import Json

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
    raise HostFailed("this session has no writable memory")


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


# ------------------------------------------------------------ recent activity in a repository

GIT_SECONDS = 2.0
_COMMITS = 10
_MOST_BYTES = 256 * 1024  # bytes of an answer that are read
_GIT_SETTINGS = {
    "core.fsmonitor": "false",
    "core.hooksPath": os.devnull,
    "core.untrackedCache": "false",
    "core.quotePath": "false",
    "log.showSignature": "false",
    "log.mailmap": "false",
}


class GitActivity(NamedTuple):
    """Recent activity in the repository: newest commits first, and what is changed but not committed."""

    branch: str = ""
    commits: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def read_git(
    folder: Path, *, seconds: float = GIT_SECONDS, environ: Mapping[str, str] = os.environ
) -> GitActivity | None:
    """The branch, the newest commits and what is changed; None outside a repository or without git."""
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    until = time.monotonic() + seconds
    ask = _AskGit(folder, until, environ)
    # Nothing to say of signatures, colours or differences: only hashes and subjects.
    log = ask("log", f"-{_COMMITS}", "--no-show-signature", "--no-color", "--format=%h %s")
    branch = ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if log is None and branch is None:
        return None
    commits = tuple(line for line in (log or "").split("\n") if line.strip())
    return GitActivity((branch or "").strip(), commits[:_COMMITS], _changes(ask))


def _changes(ask: _AskGit) -> tuple[str, ...]:
    """What is changed and not committed; nothing where filters of the repository could not be stopped."""
    filters = ask(
        "config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|smudge|process|required)$"
    )
    quiet: list[str] = []
    for name in filter(None, (filters or "").split("\0")):
        if "=" in name or "\n" in name:
            return ()
        quiet += ["-c", f"{name}={'false' if name.endswith('.required') else ''}"]
    status = ask(
        *("status", "--porcelain=v1", "-z", "--no-renames"),
        *("--ignore-submodules=all", "--untracked-files=normal"),
        settings=quiet,
    )
    return tuple(entry for entry in (status or "").split("\0") if entry.strip())


class _AskGit:
    """Git in one folder, until a moment."""

    def __init__(self, folder: Path, until: float, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._until = until
        # What an agent's host was started with, from a hook for instance, may point to another repository.
        self._environ = {
            **{name: value for name, value in environ.items() if not name.startswith("GIT_")},
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_PAGER": "",
            "LC_ALL": "C.UTF-8",
        }

    def __call__(self, *words: str, settings: Sequence[str] = ()) -> str | None:
        """What git answers; None when it fails, does not exist, or takes too long."""
        left = self._until - time.monotonic()
        if left <= 0:
            return None
        fixed = [word for name, value in _GIT_SETTINGS.items() for word in ("-c", f"{name}={value}")]
        try:
            process = subprocess.Popen(
                ["git", "--no-pager", "-C", str(self._folder), *fixed, *settings, *words],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=self._environ,
            )
        except (OSError, ValueError):
            return None
        late = threading.Event()

        def stop() -> None:
            late.set()
            with contextlib.suppress(OSError):
                process.kill()

        timer = threading.Timer(left, stop)
        timer.daemon = True
        timer.start()
        with process:
            assert process.stdout is not None
            answer = process.stdout.read(_MOST_BYTES)
            whole = len(answer) < _MOST_BYTES
            if not whole:
                process.kill()
        timer.cancel()
        if late.is_set() or (whole and process.returncode):
            return None
        text = answer.decode("utf-8", "replace")
        return text if whole else text.rpartition("\n" if "\0" not in text else "\0")[0]


# ------------------------------------------------------------ silent replies


def _prefixes(word: str) -> str:
    """A pattern for every beginning of a word: N, NO, NO_ …"""
    found = ""
    for letter in reversed(word):
        found = f"(?:{letter}{found})?"
    return found


_MAY_BE = re.compile(SILENCE_WRAP + _prefixes(SILENCE), re.IGNORECASE)


class ReplyListener(NamedTuple):
    """A reply as it streams in: what is held back, and what is known of it."""

    held: str = ""
    silent: bool = False
    speaking: bool = False

    def feed(self, chunk: str) -> tuple[ReplyListener, str]:
        """Hear one chunk; what comes back may be shown now."""
        if self.speaking:
            return self, chunk
        if self.silent:
            return self, ""
        text = self.held + chunk
        if _MAY_BE.fullmatch(text):
            return ReplyListener(held=text), ""
        if is_silent(text):
            return ReplyListener(silent=True), ""
        return ReplyListener(speaking=True), text

    def finish(self) -> str:
        """The reply has ended: what was held back and is to be shown after all."""
        return "" if self.silent or is_silent(self.held) else self.held
