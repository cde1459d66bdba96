"""The callbacks by which the engine reaches its host, safe calls of them, and a safe reader of git.

The engine never calls a model and never opens a journal: the program around it does, through these few
callbacks. A callback may raise, hang or return nonsense; in all three cases the caller gets `HostFailed`. A
reply of `NO_REPLY` is never shown to a person, whole or while it streams in.

A repository is not trusted: its settings can name programs (for the file system monitor, signatures, filters,
and fetching what a partial clone lacks), and none of them may run because of a look at recent activity. If
anything fails, no activity is reported.
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
    """The program around the engine, seen as the callbacks that the engine needs."""

    @property
    def complete(self) -> Complete | None:
        """The function that calls the model; None without a model.

        It gets the messages, the system prompt, the tools and a time limit.
        """

    @property
    def barred(self) -> str:
        """Why memory must not be written now, such as `read-only` or `incognito`; empty if it may be."""

    def now(self) -> datetime:
        """Return the time, in the time zone that decides today's date."""

    def journal(self) -> str:
        """Return today's journal, by the local date; empty when there is none."""

    def note(self, text: str) -> None:
        """Append to today's journal, by the local date."""

    def remember(self, text: str) -> None:
        """Save a fact as a record; a host without records appends it to the journal."""

    def git(self) -> GitActivity | None:
        """Return recent activity in the repository; None if the session is in none."""


def _no_git() -> GitActivity | None:
    """Return None, as if there were no git activity."""
    return None


def _empty_text() -> str:
    """Return an empty text."""
    return ""


def _refuse_to_write(text: str) -> None:
    """Raise an error, because this host cannot save notes."""
    raise HostFailed("this session has no writable memory")


@dataclass(frozen=True, slots=True)
class HostFunctions:
    """A host made of single functions, each with a default."""

    now: Callable[[], datetime]
    complete: Complete | None = None
    bars: Callable[[], str] = _empty_text
    journal: Callable[[], str] = _empty_text
    note: Callable[[str], None] = _refuse_to_write
    remember: Callable[[str], None] = _refuse_to_write
    git: Callable[[], GitActivity | None] = _no_git

    @property
    def barred(self) -> str:
        """Why memory must not be written now, such as `read-only` or `incognito`; empty if it may be."""
        return self.bars()


def call_with_timeout(function: Callable[..., Any], *values: Any, seconds: float) -> Any:
    """Return the result of a host's function; raise HostFailed when it fails or takes too long.

    A function that hangs cannot be stopped: its thread is abandoned and dies with the process, and a late
    result is ignored.
    """
    answers: list[Any] = []
    errors: list[Exception] = []

    def run() -> None:
        try:
            answers.append(function(*values))
        except Exception as error:  # foreign code may raise anything, and that must not end the engine
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


def call_host(host: Host, name: str, *values: Any, seconds: float) -> Any:
    """Return the result of a host's method; the time limit also covers the lookup of the method by `name`."""
    return call_with_timeout(lambda: getattr(host, name)(*values), seconds=seconds)


def reply_of(answer: Any) -> Message | str:
    """Return a model's reply if it is a message or a text; raise HostFailed for any other value."""
    if isinstance(answer, str):
        return answer
    if isinstance(answer, Message) and isinstance(answer.parts, tuple):
        return answer
    raise HostFailed(f"the model callback gave {type(answer).__name__}, not a message or a text")


def explain(error: Exception) -> str:
    """Return a description of an error on one short line."""
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


_FILTER_NAME = re.compile(r"filter\..*\.(clean|smudge|process|required)", re.DOTALL)


class GitActivity(NamedTuple):
    """Recent activity in the repository: newest commits first, and uncommitted changes."""

    branch: str = ""
    commits: tuple[str, ...] = ()
    changes: tuple[str, ...] = ()


def read_git(
    folder: Path, *, seconds: float = GIT_SECONDS, environ: Mapping[str, str] = os.environ
) -> GitActivity | None:
    """Return branch, newest commits and uncommitted changes; None outside a repository or without git."""
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    until = time.monotonic() + seconds
    ask = _GitRunner(folder, until, environ)
    # Only hashes and subjects are read, without signatures, colours or differences.
    log = ask("log", f"-{_COMMITS}", "--no-show-signature", "--no-color", "--format=%h %s")
    branch = ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if log is None and branch is None:
        return None
    commits = tuple(line for line in (log or "").split("\n") if line.strip())
    return GitActivity((branch or "").strip(), commits[:_COMMITS], _changes(ask))


def _changes(ask: _GitRunner) -> tuple[str, ...]:
    """Return the uncommitted changes; empty if the repository's own filter programs could not be disabled."""
    names = ask("config", "--null", "--name-only", "--list", whole=True)
    if names is None:
        return ()
    quiet: list[str] = []
    for name in sorted(set(filter(_FILTER_NAME.fullmatch, names.split("\0")))):
        if "=" in name or "\n" in name:
            return ()
        quiet += ["-c", f"{name}={'false' if name.endswith('.required') else ''}"]
    status = ask(
        *("status", "--porcelain=v1", "-z", "--no-renames"),
        *("--ignore-submodules=all", "--untracked-files=normal"),
        settings=quiet,
    )
    return tuple(entry for entry in (status or "").split("\0") if entry.strip())


class _GitRunner:
    """Runs git commands in one folder, until a deadline."""

    def __init__(self, folder: Path, until: float, environ: Mapping[str, str]) -> None:
        self._folder = folder
        self._until = until
        # The agent's environment, inside a git hook for instance, may point to another repository.
        self._environ = {
            **{name: value for name, value in environ.items() if not name.startswith("GIT_")},
            "GIT_OPTIONAL_LOCKS": "0",
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_NO_LAZY_FETCH": "1",
            "GIT_ALLOW_PROTOCOL": "none",
            "GIT_PAGER": "",
            "LC_ALL": "C.UTF-8",
        }

    def __call__(self, *arguments: str, settings: Sequence[str] = (), whole: bool = False) -> str | None:
        """Return a git command's output, at most its first 256 KiB.

        Returns None when git fails, does not exist or takes too long, and with `whole` also when the output
        is longer. `settings` are options that stand before the command.
        """
        left = self._until - time.monotonic()
        if left <= 0:
            return None
        fixed = [word for name, value in _GIT_SETTINGS.items() for word in ("-c", f"{name}={value}")]
        try:
            process = subprocess.Popen(
                ["git", "--no-pager", "-C", str(self._folder), *fixed, *settings, *arguments],
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
            complete_output = len(answer) < _MOST_BYTES
            if not complete_output:
                process.kill()
        timer.cancel()
        if late.is_set() or (process.returncode if complete_output else whole):
            return None
        text = answer.decode("utf-8", "replace")
        return text if complete_output else text.rpartition("\n" if "\0" not in text else "\0")[0]


# ------------------------------------------------------------ silent replies


def _prefixes(word: str) -> str:
    """Return a regular expression for every beginning of a word: N, NO, NO_ and so on."""
    found = ""
    for letter in reversed(word):
        found = f"(?:{letter}{found})?"
    return found


_MAY_BE = re.compile(SILENCE_WRAP + _prefixes(SILENCE), re.IGNORECASE)


class ReplyListener(NamedTuple):
    """The state of a reply that streams in: the text held back so far, and whether the reply is silent.

    A reply is silent when it says that nothing is to be shown to the person.
    """

    buffered: str = ""
    silent: bool = False
    is_shown: bool = False

    def feed(self, chunk: str) -> tuple[ReplyListener, str]:
        """Return the state after one more chunk of a reply, and the text that may be shown by now."""
        if self.is_shown:
            return self, chunk
        if self.silent:
            return self, ""
        text = self.buffered + chunk
        if _MAY_BE.fullmatch(text):
            return ReplyListener(buffered=text), ""
        if is_silent(text):
            return ReplyListener(silent=True), ""
        return ReplyListener(is_shown=True), text

    def finish(self) -> str:
        """Return the text held back so far if it may be shown, now that the reply has ended."""
        return "" if self.silent or is_silent(self.buffered) else self.buffered
