"""The tools that touch the machine: read a file, list a folder, look for a pattern, run a command.

Each has a time limit and a limit to what it gives back, and is declared by its signature. Knows no chat and
asks nobody: whoever calls has.
"""

from __future__ import annotations

import contextlib
import os
import signal
import stat
import subprocess
import sys
import tempfile
import time
from typing import Annotated, NamedTuple

from vademecum.errors import NotFound, UsageError
from vademecum.interfaces.present.safe import clean_lines, clean_text
from vademecum.interfaces.tools.declaration import Span

LARGEST = 256 * 1024  # characters of a result
SECONDS = 60.0
GREP_SECONDS = 20.0
_ENTRIES = 2000
_READ = 8 * 1024 * 1024  # bytes of a file that are looked at
_PRINTED = 16 * 1024 * 1024  # bytes that a program may print
_PAUSE = 0.02  # seconds between two looks at how much that is
Root = os.PathLike[str]


class Ran(NamedTuple):
    """What a program printed, and its exit code or why it was stopped."""

    said: str
    code: int | None
    stopped: str = ""


def inside(root: Root, path: str) -> bool:
    """Whether a path leads into the project, links followed."""
    real = os.path.realpath(os.path.join(root, os.path.expanduser(path)))
    top = os.path.realpath(root)
    return real == top or real.startswith(top.rstrip(os.sep) + os.sep)


def read_file(
    root: Root,
    path: Annotated[str, "The file, relative to the project."],
    start: Annotated[int | None, "The first line, counted from 1.", Span(1)] = None,
    lines: Annotated[int | None, "How many lines; all when left out.", Span(1)] = None,
) -> str:
    """Lines of a text file with their numbers."""
    found = _found(root, path)
    if not stat.S_ISREG(os.stat(found).st_mode):  # a pipe would be waited for, a device never ends
        raise UsageError(f"{path} is no plain file", hint="use list_files for a folder")
    with open(found, "rb") as file:
        content = file.read(_READ + 1)
    if b"\0" in content[:8192]:
        raise UsageError(f"{path} is no text", hint="run_command may have a tool for it")
    first = (start or 1) - 1
    written = clean_lines(content[:_READ].decode(errors="replace")).splitlines()
    chosen = written[first : None if lines is None else first + lines]
    told = "\n".join(f"{number}\t{line}" for number, line in enumerate(chosen, first + 1))
    more = "\n[the file goes on]" if len(content) > _READ else ""
    return capped(told + more) or "[no lines there]"


def list_files(
    root: Root,
    path: Annotated[str | None, "The folder, relative to the project; its top when left out."] = None,
) -> str:
    """The names in a folder, folders with a slash."""
    found = _found(root, path or ".")
    if not os.path.isdir(found):
        raise UsageError(f"{path} is no folder", hint="use read_file for a file")
    with os.scandir(found) as inside:
        names = sorted(each.name + ("/" if each.is_dir() else "") for each in inside)
    more = f"\n[{len(names) - _ENTRIES} more]" if len(names) > _ENTRIES else ""
    return ("\n".join(names[:_ENTRIES]) + more) or "[empty]"


def grep(
    root: Root,
    pattern: Annotated[str, "A Python regular expression."],
    path: Annotated[str | None, "A file or folder, relative to the project; all of it when left out."] = None,
) -> str:
    """Lines that match a regular expression.

    In a process of its own: a pattern that never ends cannot be stopped in this one.
    """
    _found(root, path or ".")
    # -P: what lies in the project is looked through, never imported.
    program = [sys.executable, "-P", "-m", "vademecum.interfaces.chat.grep"]
    ran = run([*program, pattern, path or "."], root, seconds=GREP_SECONDS)
    if ran.code == 2:
        raise UsageError(ran.said.strip() or "the pattern cannot be used")
    note = f"[{ran.stopped}: not everything was looked at]" if ran.stopped else ""
    return f"{ran.said.strip()}\n{note}".strip()


def run_command(
    root: Root,
    command: Annotated[str, "The command."],
    seconds: Annotated[int | None, "How long it may take; 60 when left out.", Span(1, 600)] = None,
) -> str:
    """What a shell command prints, and how it ended."""
    shell = ["cmd", "/c"] if sys.platform == "win32" else ["/bin/sh", "-c"]
    ran = run([*shell, command], root, seconds=seconds or SECONDS)
    ended = ran.stopped or f"exit code {ran.code}"
    return f"{ran.said.rstrip()}\n[{ended}]".lstrip()


def run(command: list[str], root: Root, *, seconds: float) -> Ran:
    """Run a program, and everything it starts, for so long and until it has printed so much at most."""
    with tempfile.TemporaryFile() as out:  # not a pipe: who leaves a process behind would keep it open
        process = subprocess.Popen(
            command,
            cwd=root,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            code, stopped = _waited(process, out.fileno(), seconds)
        finally:  # also when a person presses Ctrl-C
            _end(process)
        size = out.tell() if out.seek(0, os.SEEK_END) else 0
        out.seek(0)
        head = out.read(LARGEST * 2)
        if size > len(head):
            out.seek(max(len(head), size - LARGEST // 2))
            head += b"\n" + out.read()
    return Ran(capped(head.decode(errors="replace")), code, stopped)


def _waited(process: subprocess.Popen[bytes], out: int, seconds: float) -> tuple[int | None, str]:
    """The exit code, or why there is none yet and the program has to be stopped.

    How much is printed is looked at, not limited by the kernel: its limit would hold for every file.
    """
    end = time.monotonic() + seconds
    while True:
        try:
            return process.wait(max(0.0, min(_PAUSE, end - time.monotonic()))), ""
        except subprocess.TimeoutExpired:
            if os.fstat(out).st_size > _PRINTED:
                return None, f"stopped: it printed more than {_PRINTED // (1024 * 1024)} MiB"
            if time.monotonic() >= end:
                return None, f"stopped after {seconds:g} s"


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a program with all that it started."""
    if sys.platform == "win32":
        process.kill()
    else:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def capped(text: str) -> str:
    """A text of bearable length: its beginning and its end, without what looks like a secret."""
    text = clean_text(text)
    if len(text) <= LARGEST:
        return text
    half = LARGEST // 2
    return f"{text[:half]}\n[… {len(text) - 2 * half:,} characters left out …]\n{text[-half:]}"


def _found(root: Root, path: str) -> str:
    found = os.path.join(root, os.path.expanduser(path))
    if "\0" in found or not os.path.exists(found):
        raise NotFound(f"there is no {path[:200]!r}", hint="use list_files to see what is there")
    return found
