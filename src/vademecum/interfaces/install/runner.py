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
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Malformed, Refused
from vademecum.interfaces.install import registry
from vademecum.interfaces.install.base import PROJECT, USER, Where
from vademecum.store import clock, files
from vademecum.store.folders import Folder

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from vademecum.interfaces.install.base import Command, Installer
    from vademecum.interfaces.install.parts import Part
    from vademecum.store.home import Home

RECEIPTS, BACKUPS = "installs", "backups"
_LARGEST = 64 * 1024 * 1024
_BARE: tuple[object, ...] = ({}, {"version": 1})  # what is left of a file that was ours


class Edit(NamedTuple):
    """What becomes of one file; None is a file that is not there."""

    path: Path
    before: bytes | None
    after: bytes | None

    @property
    def changed(self) -> bool:
        """Whether anything does."""
        return self.before != self.after


class Seen(NamedTuple):
    """What there is of one agent on this machine."""

    agent: str
    program: str  # its path, or empty
    folder: Path
    there: bool
    installed: Mapping[str, Mapping[str, bool | None]]  # by scope and part; None where it cannot be
    without: Mapping[str, Mapping[str, str]]  # by scope and part: why not


# -------------------------------------------------------------------- what would change


def installing(agent: Installer, where: Where, command: Command) -> list[Edit]:
    """What an installation would change."""
    return [
        Edit(path, before, _put(path, parts, before)) for path, parts, before in _files(agent, where, command)
    ]


def uninstalling(agent: Installer, where: Where, command: Command, home: Home) -> list[Edit]:
    """What taking it away would change."""
    receipt = _receipt(home, agent, where)
    return [
        Edit(path, before, _taken(path, parts, before, receipt.get(str(path)), home))
        for path, parts, before in _files(agent, where, command)
    ]


def diff(edits: Iterable[Edit]) -> str:
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


def _files(
    agent: Installer, where: Where, command: Command
) -> Iterator[tuple[Path, list[Part], bytes | None]]:
    root = agent.root(where)
    grouped: dict[Path, list[Part]] = {}
    for part in agent.parts(where, command):
        grouped.setdefault(part.path, []).append(part)
    for path, parts in grouped.items():
        inside = _inside(root, path)
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


def _put(path: Path, parts: Iterable[Part], before: bytes | None) -> bytes:
    text = _decoded(path, before or b"")
    with _named(path):
        for part in parts:
            text = part.put(text)
    return text.encode()


def _taken(
    path: Path, parts: Iterable[Part], before: bytes | None, entry: Mapping[str, Any] | None, home: Home
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


def install(agent: Installer, where: Where, command: Command, home: Home) -> list[Edit]:
    """Install, and say what changed; a second time nothing does."""
    with files.reported(f"install into {agent.name}"), home.lock(f"install {agent.name}"):
        edits = installing(agent, where, command)
        receipt = _receipt(home, agent, where)
        made: list[str] = []
        for path, parts, _ in [*_files(agent, where, command)]:
            edit = next(each for each in edits if each.path == path)
            if edit.changed:
                made += _missing(agent.root(where), path)
                _write(
                    agent.root(where),
                    path,
                    edit.before,
                    lambda now, path=path, parts=parts: _put(path, parts, now),  # type: ignore[misc]
                )
                receipt[str(path)] = _entry(home, agent, edit, receipt.get(str(path)))
        if any(edit.changed for edit in edits):
            kept = dict.fromkeys([*receipt.get("", {}).get("folders", ()), *made])
            receipt[""] = {"folders": list(kept)}
            _keep(home, agent, where, receipt)
    return edits


def uninstall(agent: Installer, where: Where, command: Command, home: Home) -> list[Edit]:
    """Take away what was installed, and nothing else."""
    with files.reported(f"uninstall from {agent.name}"), home.lock(f"install {agent.name}"):
        edits = uninstalling(agent, where, command, home)
        receipt = _receipt(home, agent, where)
        for path, parts, _ in [*_files(agent, where, command)]:
            edit = next(each for each in edits if each.path == path)
            if not edit.changed:
                continue
            if edit.after is None:
                _delete(agent.root(where), path, edit.before)
                continue
            entry = receipt.get(str(path))
            _write(
                agent.root(where),
                path,
                edit.before,
                lambda now, path=path, parts=parts, entry=entry: (  # type: ignore[misc]
                    _taken(path, parts, now, entry, home) or b""
                ),
            )
        for name in sorted(receipt.get("", {}).get("folders", ()), key=len, reverse=True):
            with contextlib.suppress(OSError):
                os.rmdir(name)
        _forget(home, agent, where, receipt)
    return edits


def _write(root: Path, path: Path, before: bytes | None, change: Callable[[bytes | None], bytes]) -> None:
    real = _inside(root, path)
    top = os.path.realpath(root)
    parts = os.path.relpath(real, top).split(os.sep)
    # What was not there may hold keys of other servers one day; what was keeps the mode it has.
    with Folder.at(top, create=True) as start, start.enter(*parts[:-1], create=True) as folder:
        files.update(folder, parts[-1], change, mode=0o600 if before is None else 0o644, largest=_LARGEST)


def _delete(root: Path, path: Path, before: bytes | None) -> None:
    real = _inside(root, path)
    with Folder.at(real.parent) as folder:
        if files.read(folder, real.name, largest=_LARGEST) == before:
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


def _name(agent: Installer, where: Where) -> str:
    place = hashlib.sha256(os.path.realpath(agent.root(where)).encode()).hexdigest()[:12]
    return f"{agent.name}-{where.scope}-{place}.json"


def _receipt(home: Home, agent: Installer, where: Where) -> dict[str, Any]:
    content = home.read(RECEIPTS, _name(agent, where))
    try:
        found = json.loads(content or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _entry(home: Home, agent: Installer, edit: Edit, earlier: Mapping[str, Any] | None) -> dict[str, Any]:
    """What to put back, as long as nobody changes the file: what was there before the first installation."""
    after = _digest(edit.after or b"")
    if earlier is not None and edit.before is not None and earlier.get("after") == _digest(edit.before):
        return {"after": after, "backup": earlier.get("backup")}
    if edit.before is None:
        return {"after": after, "backup": None}
    moment = clock.stamp(clock.now()).replace(":", "")
    name = f"{moment}-{agent.name}-{_digest(edit.before)[:8]}-{edit.path.name.lstrip('.')}"
    with home.folder(BACKUPS, create=True) as folder:
        files.update(folder, name, lambda _: edit.before or b"", largest=_LARGEST)
    return {"after": after, "backup": name}


def _keep(home: Home, agent: Installer, where: Where, receipt: Mapping[str, Any]) -> None:
    content = json.dumps(receipt, indent=1).encode()
    with home.folder(RECEIPTS, create=True) as folder:
        files.update(folder, _name(agent, where), lambda _: content)


def _forget(home: Home, agent: Installer, where: Where, receipt: Mapping[str, Any]) -> None:
    if receipt:
        with contextlib.suppress(FileNotFoundError), home.folder(RECEIPTS) as folder:
            files.delete(folder, _name(agent, where))


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


# -------------------------------------------------------------------- what there is


def look(where: Where, command: Command) -> list[Seen]:
    """Every agent: whether it is on this machine, and what of ours it has."""
    return [_seen(agent, where, command) for agent in registry.known()]


def _seen(agent: Installer, where: Where, command: Command) -> Seen:
    mine = where._replace(scope=USER)
    program = next(filter(None, (shutil.which(name) for name in agent.programs)), "") or ""
    scopes = (USER, PROJECT)
    return Seen(
        agent.name,
        program,
        agent.folder(mine),
        agent.folder(mine).is_dir(),
        {scope: _installed(agent, where._replace(scope=scope), command) for scope in scopes},
        {scope: agent.without(where._replace(scope=scope)) for scope in scopes},
    )


def _installed(agent: Installer, where: Where, command: Command) -> dict[str, bool | None]:
    found: dict[str, bool | None] = dict.fromkeys(agent.without(where))
    try:
        for path, parts, before in _files(agent, where, command):
            for part in parts:
                found[part.what] = before is not None and part.there(_decoded(path, before))
    except (Malformed, Refused, OSError):
        return dict.fromkeys(("server", "hooks", "instruction"), False)
    return found
