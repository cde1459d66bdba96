"""Recent activity in a repository, read by git itself within a time limit.

A repository is not trusted: its settings can name programs, for the file system monitor, for signatures, for
filters and for fetching what a partial clone lacks, and none of them may run because somebody asked what is
new. Whatever goes wrong, there is no activity to tell of.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

SECONDS = 2.0
_COMMITS = 10
_MOST = 256 * 1024  # bytes of an answer that are read
_SETTINGS = {
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


def recent(
    folder: Path, *, seconds: float = SECONDS, environ: Mapping[str, str] = os.environ
) -> GitActivity | None:
    """The branch, the newest commits and what is changed; None outside a repository or without git."""
    if not any((each / ".git").exists() for each in (folder, *folder.parents)):
        return None
    until = time.monotonic() + seconds
    ask = _Ask(folder, until, environ)
    # Nothing to say of signatures, colours or differences: only hashes and subjects.
    log = ask("log", f"-{_COMMITS}", "--no-show-signature", "--no-color", "--format=%h %s")
    branch = ask("symbolic-ref", "--quiet", "--short", "HEAD")
    if log is None and branch is None:
        return None
    commits = tuple(line for line in (log or "").split("\n") if line.strip())
    return GitActivity((branch or "").strip(), commits[:_COMMITS], _changes(ask))


def _changes(ask: _Ask) -> tuple[str, ...]:
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


class _Ask:
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
        """What git answers; None when it fails, is not there, or takes too long."""
        left = self._until - time.monotonic()
        if left <= 0:
            return None
        fixed = [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
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
            answer = process.stdout.read(_MOST)
            whole = len(answer) < _MOST
            if not whole:
                process.kill()
        timer.cancel()
        if late.is_set() or (whole and process.returncode):
            return None
        text = answer.decode("utf-8", "replace")
        return text if whole else text.rpartition("\n" if "\0" not in text else "\0")[0]
