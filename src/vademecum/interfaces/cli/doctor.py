"""`vade doctor`: is this memory, and the machine under it, in order?"""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import stat
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from vademecum import __version__
from vademecum.errors import VadeError
from vademecum.interfaces.cli.options import common
from vademecum.interfaces.present import output

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from vademecum.memory import Memory

    Door = Callable[[], Memory]

_LITTLE_SPACE = 100 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Check:
    """One thing looked at: how it is, and what to do when it is not well."""

    name: str
    state: str
    said: str
    hint: str = ""


@click.command()
@common
def doctor(as_json: bool, door: Door) -> int:
    """Check the memory folder, its file system, the settings, the audit and every file; exit 1 on errors."""
    checks = list(examine(door))
    if as_json:
        output.as_json(
            [
                {"check": each.name, "state": each.state, "said": each.said, "hint": each.hint}
                for each in checks
            ]
        )
    else:
        for each in checks:
            mark = {"ok": "✓", "warning": "!", "error": "✗"}[each.state]
            output.line(f"{mark} {each.name:<12}{each.said}{f'  →  {each.hint}' if each.hint else ''}")
    return 1 if any(each.state == "error" for each in checks) else 0


def examine(door: Door) -> Iterator[Check]:
    """Look at one thing after the other; one that fails does not keep the next from being looked at."""
    version = f"vademecum {__version__}, Python {platform.python_version()}, {platform.system()}"
    yield Check("version", "ok", version)
    try:
        memory = door()
    except VadeError as error:
        yield Check("settings", "error", str(error), error.hint)
        return
    given = sum(origin != "default" for origin in memory.loaded.origins.values())
    yield Check("settings", "ok", f"{output.plural(given, 'setting')} differ from the defaults")
    for warning in memory.loaded.warnings:
        yield Check("settings", "warning", warning)
    for look in (_folder, _file_system, _audit, _decisions, _memory):
        try:
            yield from look(memory)
        except VadeError as error:
            yield Check(look.__name__.strip("_"), "error", str(error), error.hint)


def _folder(memory: Memory) -> Iterator[Check]:
    path = memory.home.path
    if not path.exists():
        yield Check("home", "ok", f"{path} will be made by the first thing you keep")
        return
    mode = stat.S_IMODE(path.stat().st_mode)
    if sys.platform != "win32" and mode & 0o077:
        yield Check(
            "home",
            "warning",
            f"{path} can be read by others ({mode:o})",
            f"chmod 700 {shlex.quote(str(path))}",
        )
    elif not os.access(path, os.W_OK):
        yield Check("home", "error", f"{path} cannot be written", "check its permissions")
    else:
        yield Check("home", "ok", str(path))
    free = shutil.disk_usage(path).free
    state = "warning" if free < _LITTLE_SPACE else "ok"
    yield Check("space", state, f"{free // (1024 * 1024):,} MiB free")


def _file_system(memory: Memory) -> Iterator[Check]:
    """Try what safe writing rests upon, on the file system that holds the home."""
    from vademecum.store import files

    writable = memory.home.path.exists() and os.access(memory.home.path, os.W_OK)
    if memory.settings.incognito or not writable:
        return
    with files.reported("try the file system"), memory.home.folder("locks", create=True) as folder:
        names = (f"doctor-{os.getpid()}-1", f"doctor-{os.getpid()}-2")
        try:
            for name in names:
                files.create(folder, name, name.encode())
            exchanged = folder.exchange(*names)
        finally:
            for name in names:
                folder.unlink(name)
    if exchanged:
        yield Check("file system", "ok", "exclusive and exchanging renames, locks and syncs work")
    else:
        yield Check(
            "file system",
            "warning",
            "no exchanging rename here: an edit saved in the same instant as a "
            "write is found by looking first, which leaves a tiny gap",
        )


def _audit(memory: Memory) -> Iterator[Check]:
    report = memory.verify_audit()
    if report.problems:
        first = report.problems[0]
        yield Check(
            "audit",
            "error",
            f"{output.plural(len(report.problems), 'problem')}, first at {first.where}: {first.why}",
            "vade audit verify",
        )
    else:
        yield Check("audit", "ok", f"{output.plural(report.lines, 'line')}, all as written")


def _decisions(memory: Memory) -> Iterator[Check]:
    from vademecum.store import decisions

    if not memory.settings.incognito:
        for path in decisions.damaged(memory.home):
            said = f"{path} cannot be read and decides nothing"
            yield Check("decisions", "error", said, "mend it, or delete it and decide again")


def _memory(memory: Memory) -> Iterator[Check]:
    found = memory.status()
    yield Check(
        "memory",
        "ok",
        f"{output.plural(sum(found.records.values()), 'record')}, {output.plural(found.notes, 'note')}",
    )
    for source in found.sources:
        if source.problem:
            yield Check(
                "source",
                "error",
                f"{source.name} at {source.path} {source.problem}",
                f"vade sources remove {source.name}",
            )
    for each in found.findings:
        state = {"error": "error", "warning": "warning"}.get(each.severity, "ok")
        yield Check(each.what, state, f"{each.where}: {each.why}", each.mend)


COMMANDS = {"doctor": doctor}
