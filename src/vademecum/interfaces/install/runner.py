"""Installing and taking away again: everything is worked out before anything is written.

What was there is kept in the home, with a receipt: as long as nobody has changed a file since, uninstalling
puts back the bytes it had. Where somebody has, only our own parts are taken out of it.
"""

from __future__ import annotations

import contextlib
import difflib
import hashlib
import json
import os
import shutil
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.agents import registry
from vademecum.agents.base import HOOKS, PROJECT, SERVER, USER, WORDS, Program
from vademecum.errors import Malformed, Refused, UnknownName
from vademecum.interfaces.install.parts import edit_of
from vademecum.store import clock, files, names
from vademecum.store.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vademecum.agents.base import Agent, HookEvent, Setup, Where
    from vademecum.interfaces.install.parts import ConfigEdit
    from vademecum.store import Home

RECEIPTS, BACKUPS = "installs", "backups"
_LARGEST = 64 * 1024 * 1024
_BARE: tuple[object, ...] = ({}, {"version": 1})  # what is left of a file that was ours


class Installation(NamedTuple):
    """Memory in one agent's configuration, for somebody."""

    agent: Agent
    setup: Setup
    where: Where
    program: Program

    @classmethod
    def of(cls, name: str, where: Where, program: Program) -> Installation:
        """That of the agent of that name."""
        agent = registry.find(name)
        if agent is None or agent.setup is None:
            known = ", ".join(registry.having("setup"))
            raise UnknownName(
                f"{names.shown(name)} is not an agent that is known here", hint=f"one of {known}"
            )
        return cls(agent, agent.setup, where, program)

    @property
    def root(self) -> Path:
        """The folder that everything it gets lies in."""
        return self.setup.root(self.where)

    @property
    def without(self) -> Mapping[str, str]:
        """What cannot be installed there, and why."""
        return self.setup.without(self.where)


class FileEdit(NamedTuple):
    """What becomes of one file; None is a file that is not there."""

    path: Path
    before: bytes | None
    after: bytes | None
    change: Callable[[bytes | None], bytes | None]  # which can be made again, on top of a person's save

    @property
    def changed(self) -> bool:
        """Whether anything does."""
        return self.before != self.after


class AgentStatus(NamedTuple):
    """What there is of one agent on this machine."""

    agent: str
    program: str  # its path, or empty
    folder: Path
    there: bool
    installed: Mapping[str, Mapping[str, bool | None]]  # by scope and part; None where it cannot be
    without: Mapping[str, Mapping[str, str]]  # by scope and part: why not
    missing: Mapping[HookEvent, str]  # hooks it does not have, and why


def this_program(home: str = "") -> Program:
    """The program that runs now: its script by its whole path, or this Python and the module."""
    script = os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else ""
    if os.path.basename(script) in ("vade", "vade.exe") and os.access(script, os.X_OK):
        return Program((script,), home)
    return Program((sys.executable, "-m", "vademecum"), home)


# -------------------------------------------------------------------- what would change


def installing(one: Installation) -> list[FileEdit]:
    """What an installation would change."""
    return [_edit(path, before, partial(_put, path, parts)) for path, parts, before in _files(one)]


def uninstalling(one: Installation, home: Home) -> list[FileEdit]:
    """What taking it away would change."""
    receipt = _receipt(home, one)
    return [
        _edit(path, before, partial(_taken, path, parts, receipt.get(str(path)), home))
        for path, parts, before in _files(one)
    ]


def _edit(path: Path, before: bytes | None, change: Callable[[bytes | None], bytes | None]) -> FileEdit:
    return FileEdit(path, before, change(before), change)


def diff(edits: Iterable[FileEdit]) -> str:
    """The changes as a person reads them."""
    told: list[str] = []
    for edit in edits:
        if not edit.changed:
            continue
        before, after = (_decoded(edit.path, each or b"").splitlines() for each in (edit.before, edit.after))
        old = str(edit.path) if edit.before is not None else os.devnull
        new = str(edit.path) if edit.after is not None else os.devnull
        told += difflib.unified_diff(before, after, old, new, lineterm="", n=1)
    return "\n".join(told)


def _files(one: Installation) -> Iterator[tuple[Path, list[ConfigEdit], bytes | None]]:
    grouped: dict[Path, list[ConfigEdit]] = {}
    for part in one.setup.parts(one.where, one.setup.folder(one.where), one.program):
        grouped.setdefault(part.path, []).append(edit_of(part, one.agent, one.program))
    for path, parts in grouped.items():
        inside = _inside(one.root, path)
        try:
            with Folder.at(inside.parent) as folder:
                before = files.read(folder, inside.name, largest=_LARGEST)
        except (FileNotFoundError, NotADirectoryError):
            before = None
        yield path, parts, before


def _inside(root: Path, path: Path) -> Path:
    """The file itself; refuses one that a link leads out of the folder it belongs in."""
    top, real = os.path.realpath(root), os.path.realpath(path)
    if not real.startswith(top.rstrip(os.sep) + os.sep):
        raise Refused(
            f"{path} leads out of {root}", hint="put a file of its own in its place, and install again"
        )
    return Path(real)


def _put(path: Path, parts: Iterable[ConfigEdit], before: bytes | None) -> bytes | None:
    text = _decoded(path, before or b"")
    with _named(path):
        for part in parts:
            text = part.put(text)
    return text.encode()


def _taken(
    path: Path, parts: Iterable[ConfigEdit], entry: Mapping[str, Any] | None, home: Home, before: bytes | None
) -> bytes | None:
    if before is None:
        return None
    if entry is not None and entry.get("after") == _digest(before):
        if not entry.get("backup"):
            return None
        kept = home.read(BACKUPS, str(entry["backup"]))
        if kept is not None:
            return kept
    text = _decoded(path, before)
    with _named(path):
        for part in parts:
            text = part.take(text)
    if text.encode() == before:
        return before
    made = entry is not None and not entry.get("backup")
    return None if made and _is_bare(text) else text.encode()


def _is_bare(text: str) -> bool:
    try:
        return not text.strip() or json.loads(text) in _BARE
    except ValueError:
        return False


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Malformed(f"{path} is not UTF-8", hint="nothing was changed") from None


@contextlib.contextmanager
def _named(path: Path) -> Iterator[None]:
    """Say which file it is that cannot be read."""
    try:
        yield
    except Malformed as error:
        raise Malformed(f"{path}: {error}", hint="mend it with any editor; nothing was changed") from error


# -------------------------------------------------------------------- doing it


def install(one: Installation, home: Home) -> list[FileEdit]:
    """Install, and say what changed; a second time nothing does."""
    with files.reported(f"install into {one.agent.name}"), home.lock(f"install {one.agent.name}"):
        edits = installing(one)
        receipt = _receipt(home, one)
        made: list[str] = []
        for edit in edits:
            if edit.changed:
                made += _missing(one.root, edit.path)
                _write(one.root, edit)
                receipt[str(edit.path)] = _entry(home, one, edit, receipt.get(str(edit.path)))
        if any(edit.changed for edit in edits):
            kept = dict.fromkeys([*receipt.get("", {}).get("folders", ()), *made])
            receipt[""] = {"folders": list(kept)}
            _keep(home, one, receipt)
    return edits


def uninstall(one: Installation, home: Home) -> list[FileEdit]:
    """Take away what was installed, and nothing else."""
    with files.reported(f"uninstall from {one.agent.name}"), home.lock(f"install {one.agent.name}"):
        edits = uninstalling(one, home)
        receipt = _receipt(home, one)
        for edit in edits:
            if edit.changed:
                (_delete if edit.after is None else _write)(one.root, edit)
        for name in sorted(receipt.get("", {}).get("folders", ()), key=len, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(name)
        _forget(home, one, receipt)
    return edits


def _write(root: Path, edit: FileEdit) -> None:
    top, real = os.path.realpath(root), _inside(root, edit.path)
    *above, name = os.path.relpath(real, top).split(os.sep)
    # What was not there may hold keys of other servers one day; what was keeps the mode it has.
    mode = 0o600 if edit.before is None else 0o644
    with Folder.at(top, create=True) as start, start.enter(*above, create=True) as folder:
        files.update(folder, name, lambda now: edit.change(now) or b"", mode=mode, largest=_LARGEST)


def _delete(root: Path, edit: FileEdit) -> None:
    real = _inside(root, edit.path)
    with Folder.at(real.parent) as folder:
        if files.read(folder, real.name, largest=_LARGEST) == edit.before:
            files.delete(folder, real.name)


def _missing(root: Path, path: Path) -> list[str]:
    """The folders that have to be made for a file."""
    found, here = [], path.parent
    while not here.exists() and here != here.parent:
        found.append(str(here))
        if here == root:
            break
        here = here.parent
    return found


# -------------------------------------------------------------------- receipts


def _name(one: Installation) -> str:
    place = hashlib.sha256(os.path.realpath(one.root).encode()).hexdigest()[:12]
    return f"{one.agent.name}-{one.where.scope}-{place}.json"


def _receipt(home: Home, one: Installation) -> dict[str, Any]:
    content = home.read(RECEIPTS, _name(one))
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _entry(
    home: Home, one: Installation, edit: FileEdit, earlier: Mapping[str, Any] | None
) -> dict[str, Any]:
    """What to put back, as long as nobody changes the file: what was there before the first installation."""
    after = _digest(edit.after or b"")
    if earlier is not None and edit.before is not None and earlier.get("after") == _digest(edit.before):
        return {"after": after, "backup": earlier.get("backup")}
    if edit.before is None:
        return {"after": after, "backup": None}
    moment = clock.stamp(clock.now()).replace(":", "")
    name = f"{moment}-{one.agent.name}-{_digest(edit.before)[:8]}-{edit.path.name.lstrip('.')}"
    with home.folder(BACKUPS, create=True) as folder:
        folder.update(name, lambda _: edit.before or b"", largest=_LARGEST)
    return {"after": after, "backup": name}


def _keep(home: Home, one: Installation, receipt: Mapping[str, Any]) -> None:
    content = json.dumps(receipt, indent=1).encode()
    with home.folder(RECEIPTS, create=True) as folder:
        folder.update(_name(one), lambda _: content)


def _forget(home: Home, one: Installation, receipt: Mapping[str, Any]) -> None:
    if receipt:
        with contextlib.suppress(FileNotFoundError), home.folder(RECEIPTS) as folder:
            folder.delete(_name(one))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# -------------------------------------------------------------------- what there is


def look(where: Where, program: Program) -> list[AgentStatus]:
    """Every agent: whether it is on this machine, and what of ours it has."""
    return [_status(name, where, program) for name in registry.having("setup")]


def _status(name: str, where: Where, program: Program) -> AgentStatus:
    scopes = {scope: Installation.of(name, where._replace(scope=scope), program) for scope in (USER, PROJECT)}
    mine = scopes[USER]
    folder = mine.setup.folder(mine.where)
    return AgentStatus(
        name,
        next(filter(None, map(shutil.which, mine.setup.programs)), ""),
        folder,
        folder.is_dir(),
        {scope: _installed(one) for scope, one in scopes.items()},
        {scope: one.without for scope, one in scopes.items()},
        mine.agent.hooks.missing if mine.agent.hooks is not None else {},
    )


def _installed(one: Installation) -> dict[str, bool | None]:
    found: dict[str, bool | None] = dict.fromkeys(one.without)
    try:
        for path, parts, before in _files(one):
            for part in parts:
                found[part.what] = before is not None and part.there(_decoded(path, before))
    except (Malformed, Refused, OSError):
        return dict.fromkeys((SERVER, HOOKS, WORDS), False)
    return found
