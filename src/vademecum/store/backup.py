"""Backups: one file with all memory, written to a temporary name, renamed when complete, checked by its list.

Files that can be rebuilt (index, counters, locks) are left out. A file that changes while the backup is
written is saved as it was when it was read; each is whole, since every write replaces its file.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import re
import tarfile
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from vademecum.errors import Collision, Malformed, NotFound, UsageError
from vademecum.progress import counted, watched
from vademecum.store import files
from vademecum.store.files import DiskFolder

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import IO

    from vademecum.progress import Step
    from vademecum.store.home import Home

MANIFEST = "vade-backup.json"
_DERIVED = frozenset({"index", "locks"})  # below the home; made anew when needed
_SECRET = frozenset(
    {"token", "key", "key.next"}
)  # of a hub: they belong to this machine, and not to who gets the backup
_STATE = ("state.db", ".tmp")  # the beginning of a counter's file, and the ending of one half written


class Backup(NamedTuple):
    """The path, size, time and problems of a backup that was written, checked or unpacked."""

    path: Path
    files: int
    size: int  # of what is in it, in bytes
    at: str
    problems: tuple[str, ...] = ()


def write(home: Home, path: Path, *, at: str, force: bool, progress: Step | None) -> Backup:
    """Write all memory of a home to one backup file, which gets its name only when it is complete.

    An existing file is replaced with `force`; without, it is an error.
    """
    if not home.path.is_dir():
        raise NotFound(f"{home.path} contains no memory yet", hint='`vade add "…"` saves the first')
    if path.is_dir():
        raise UsageError(f"{path} is a folder", hint="name the file to write, such as memory.tar.gz")
    if path.exists() and not force:
        raise Collision(f"{path} already exists", hint="choose another name, or pass --force")
    if path.resolve().is_relative_to(home.path.resolve()):
        raise UsageError(f"{path} is inside the memory folder", hint="write the backup somewhere else")
    chosen = [*_memory_files(home.path)]
    listed: dict[str, dict[str, Any]] = {}
    draft = path.with_name(f".{path.name}.{os.getpid()}.part")
    _clear_killed(path)
    try:
        with (
            watched(progress),
            open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as raw,
            gzip.GzipFile(fileobj=raw, mode="wb", compresslevel=6, mtime=0) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as bundle,
        ):
            for name in counted(chosen, "backup"):
                content = _read(home.path / name)
                if content is None:
                    continue  # it went while the backup was written: what went is in the archive below
                listed[name] = {"sha256": hashlib.sha256(content).hexdigest(), "size": len(content)}
                _add(bundle, name, content)
            manifest = {"vade-backup": 1, "at": at, "format": home.format, "files": listed}
            _add(bundle, MANIFEST, json.dumps(manifest, indent=1).encode())
            bundle.close()
            packed.close()
            raw.flush()
            os.fsync(raw.fileno())
        os.replace(draft, path)
    finally:
        draft.unlink(missing_ok=True)
    with DiskFolder.at(path.parent) as folder:
        folder.sync()
    return Backup(path, len(listed), sum(each["size"] for each in listed.values()), at)


def _clear_killed(path: Path) -> None:
    """Delete the temporary files of killed backups to this path."""
    for each in path.parent.iterdir():
        killed = re.fullmatch(rf"\.{re.escape(path.name)}\.(\d+)\.part", each.name)
        if killed and not files.is_running(int(killed[1])):
            each.unlink(missing_ok=True)


def verify(path: Path, *, progress: Step | None = None) -> Backup:
    """Read a whole backup and compare every file in it with the backup's list."""
    seen: dict[str, str] = {}
    size, manifest = 0, None
    for name, content in _members(path, progress, "verify"):
        if name == MANIFEST:
            manifest = _listed(path, content)
            continue
        seen[name] = hashlib.sha256(content).hexdigest()
        size += len(content)
    if manifest is None:
        raise Malformed(
            f"{path} is incomplete or not a vade backup: its list of files is missing", hint="write a new one"
        )
    wanted = {name: str(each.get("sha256")) for name, each in manifest["files"].items()}
    problems = [f"{name} is missing" for name in sorted(wanted.keys() - seen.keys())]
    problems += [f"{name} is not in its list" for name in sorted(seen.keys() - wanted.keys())]
    problems += [
        f"{name} is damaged" for name in sorted(wanted) if seen.get(name, wanted[name]) != wanted[name]
    ]
    return Backup(path, len(seen), size, str(manifest.get("at", "")), tuple(problems))


def unpack(path: Path, home: Home, *, progress: Step | None = None) -> Backup:
    """Check a whole backup, then write its files to an empty home."""
    found = verify(path, progress=progress)
    if found.problems:
        raise Malformed(f"{path} is damaged: {found.problems[0]}", hint="`vade backup --verify` lists it all")
    if any(names for _, _, names in os.walk(home.path)):
        raise Collision(
            f"{home.path} is not empty",
            hint="restore into another folder with `--home`, and check it there",
        )
    made: list[str] = []
    try:
        for name, content in _members(path, progress, "restore"):
            if name != MANIFEST:
                *folders, last = name.split("/")
                with home.disk(*folders, create=True) as folder:
                    made.append(name)
                    files.create(folder, last, content)
    except BaseException:  # a person who stops it, too: half a memory would look like a whole one
        for name in made:
            (home.path / name).unlink(missing_ok=True)
        raise
    return found


def _memory_files(top: Path) -> Iterator[str]:
    """Yield the paths of a home's files that a backup holds; links are not followed."""
    for folder, folders, names in os.walk(top):
        below = Path(folder).relative_to(top)
        if below == Path():
            folders[:] = [name for name in folders if name not in _DERIVED]
        folders[:] = sorted(name for name in folders if not os.path.islink(os.path.join(folder, name)))
        # What says how long the audit is goes first: lines that come meanwhile are then no cut-off end.
        for name in sorted(names, key=lambda each: (each != "head", each)):
            derived = name.startswith(_STATE[0]) or name.endswith(_STATE[1])
            derived = derived or name == "hub.key" or (below.parts[:1] == ("hub",) and name in _SECRET)
            if not derived and not os.path.islink(os.path.join(folder, name)):
                yield (below / name).as_posix()


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None


def _add(bundle: tarfile.TarFile, name: str, content: bytes) -> None:
    entry = tarfile.TarInfo(name)
    entry.size, entry.mode = len(content), 0o600
    bundle.addfile(entry, io.BytesIO(content))


def _members(path: Path, progress: Step | None, what: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file in a backup; a path that leads outside is refused."""
    try:
        size = path.stat().st_size
        with open(path, "rb") as raw, tarfile.open(fileobj=raw, mode="r|gz") as bundle:
            for entry in bundle:
                parts = entry.name.split("/")
                if not entry.isfile() or any(part in ("", ".", "..") or "\\" in part for part in parts):
                    raise Malformed(f"{path} holds {entry.name!r}, which is not part of a vade backup")
                yield entry.name, _content(bundle.extractfile(entry), entry.size)
                if progress is not None:
                    progress(what, raw.tell(), size)
    except FileNotFoundError:
        raise NotFound(f"{path} does not exist", hint="name a file that `vade backup` wrote") from None
    except (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise Malformed(f"{path} cannot be read as a backup: {error}", hint="write a new one") from error


def _content(file: IO[bytes] | None, size: int) -> bytes:
    return b"" if file is None else file.read(size)


def _listed(path: Path, content: bytes) -> dict[str, Any]:
    try:
        manifest = json.loads(content)
    except ValueError as error:
        raise Malformed(f"the list of files in {path} cannot be read") from error
    if not isinstance(manifest, dict) or not isinstance(manifest.get("files"), dict):
        raise Malformed(f"{path} is not a vade backup")
    if manifest.get("vade-backup") != 1:
        raise Malformed(f"{path} was written by a newer vade", hint="upgrade vade to read it")
    return manifest
