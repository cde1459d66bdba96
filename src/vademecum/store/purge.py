"""Deleting for good: from files, archive and every second copy, with a report of what was found where.

The one place that removes without keeping. The audit keeps a line that something was purged; it never held
the text.
"""

from __future__ import annotations

import functools
import json
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vademecum.errors import OutsideMemory
from vademecum.store import archive, document, files, listing, names
from vademecum.store.folders import Folder
from vademecum.store.records import is_record

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from vademecum.store.home import Home, Shelf

MARK = "[purged]"
_Replaced = tuple[bytes, int]


@dataclass(frozen=True, slots=True)
class Purged:
    """One place where something was found, how often, whether it is gone from there, and if not, why."""

    where: str
    count: int
    gone: bool = True
    why: str = ""


def record(home: Home, shelf: Shelf, name: str) -> list[Purged]:
    """Delete a record with all its versions, conflict copies and kept entries; the caller holds its lock."""
    found: list[Purged] = []
    stem = name.removesuffix(".md")

    def meant(each: str) -> bool:
        return each == name or (is_record(each) and each.startswith(f"{stem}.conflict-"))

    # The record goes last: as long as it is there, a purge that was cut short can be called again.
    for each in filter(meant, archive.names(home, shelf, archive.RECORDS)):
        found += _versions(home, shelf, each)
    kept = ("archive", "kept", *archive.area(shelf), archive.RECORDS)
    for each in home.names(*kept):
        if meant(each.removesuffix(".jsonl")):
            with home.folder(*kept) as logs:
                files.delete(logs, each)
            found.append(Purged("/".join((*kept, each)), 1))
    folder = shelf.open(archive.RECORDS)
    if folder is not None:
        with folder:
            files.sweep(folder)
            for each in folder.names():
                if meant(each) or each == listing.NAME:  # a listing repeats what records say
                    files.delete(folder, each)
                    if each != listing.NAME:
                        found.append(Purged(shelf.name_of(archive.RECORDS, each), 1))
    return found


def _versions(home: Home, shelf: Shelf, name: str) -> Iterator[Purged]:
    with home.folder("archive", *archive.area(shelf), archive.RECORDS) as parent:
        with parent.enter(name) as versions:
            files.sweep(versions)
            for image in archive.images(home, shelf, archive.RECORDS, name):
                files.delete(versions, image.parts[-1])
                yield Purged(image.path, 1)
        parent.remove_folder(name)


def text(home: Home, shared: Path | None, wanted: str) -> list[Purged]:
    """Replace a text by a mark wherever it stands: in the home, and in the project's own `.vade/`."""
    found = list(_below(home, home.path, (), wanted))
    if shared is not None:  # the repository's folder may be a link out of it; the home is the user's own
        found += _below(home, shared.parent, (shared.name,), wanted)
    return [*found, *_named_after(home, wanted)]


def occurrences(path: Path, wanted: str) -> int:
    """How often a text stands in a file that is not ours to change."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").count(wanted)
    except OSError:
        return 0


def _named_after(home: Home, wanted: str) -> Iterator[Purged]:
    """Records whose key was made from the text: a name is not changed under a person."""
    words = names.slug(wanted)
    for path, _, found in os.walk(home.path / "memory", onerror=_raise):
        for name in found:
            if is_record(name) and words in name:
                where = os.path.relpath(os.path.join(path, name), home.path).replace(os.sep, "/")
                yield Purged(where, 1, gone=False, why="its name has these words; purge the record itself")


def _below(home: Home, top: Path, start: tuple[str, ...], wanted: str) -> Iterator[Purged]:
    replacing = {".md": _in_markdown, ".jsonl": _in_lines, ".json": _in_lines}
    for path, below, inside in os.walk(top.joinpath(*start), onerror=_raise):
        inner = os.path.relpath(path, top).split(os.sep)
        parts = () if inner == ["."] else tuple(inner)
        # Locks hold no text, and the audit never did: it stays as it was written.
        below[:] = sorted(name for name in below if parts or name not in ("locks", "audit"))
        counts = 0
        for name in sorted(inside):
            replace = replacing.get(os.path.splitext(name)[1])
            if replace is None:
                continue
            count = _replace(home, top, (*parts, name), functools.partial(replace, wanted=wanted))
            counts += count
            if count:
                yield Purged("/".join((*parts, name)), count)
        if counts and listing.NAME in inside:  # it may repeat a part of the text
            with Folder.at(top) as folder, folder.enter(*parts) as records:
                files.delete(records, listing.NAME)


def _raise(error: OSError) -> None:
    """A folder that cannot be looked into may hold the text: say so."""
    if not isinstance(error, FileNotFoundError):
        raise error


def _replace(home: Home, top: Path, parts: tuple[str, ...], replace: Callable[[bytes], _Replaced]) -> int:
    try:
        with home.lock(f"purge {top}"), Folder.at(top) as folder, folder.enter(*parts[:-1]) as inner:
            files.sweep(inner)
            content = files.read(inner, parts[-1])
            count = replace(content)[1] if content is not None else 0
            if count:
                files.update(inner, parts[-1], lambda current: replace(current or b"")[0])
    except OutsideMemory:  # a link, pipe or device: what it leads to is not ours
        return 0
    return count


def _in_markdown(content: bytes, wanted: str) -> _Replaced:
    """Replace in a file as it is, with either line ending, escaped or not."""
    count = 0
    escaped = document.escape(wanted)
    for form in sorted({wanted, escaped, wanted.replace("\n", "\r\n"), escaped.replace("\n", "\r\n")}):
        count += content.count(form.encode())
        content = content.replace(form.encode(), MARK.encode())
    return content, count


def _in_lines(content: bytes, wanted: str) -> _Replaced:
    """Replace inside the strings of JSON, where the text stands escaped; other lines stay byte for byte."""
    count = 0
    lines = []
    for raw in content.split(b"\n"):
        try:
            value = json.loads(raw)
        except ValueError:
            line, hits = _in_markdown(raw, wanted)
        else:
            cleaned, hits = _cleaned(value, wanted)
            line = json.dumps(cleaned, ensure_ascii=False).encode() if hits else raw
        lines.append(line)
        count += hits
    return b"\n".join(lines), count


def _cleaned(value: Any, wanted: str) -> tuple[Any, int]:
    if isinstance(value, str):
        return value.replace(wanted, MARK), value.count(wanted)
    if isinstance(value, list):
        items = [_cleaned(each, wanted) for each in value]
        return [each for each, _ in items], sum(hits for _, hits in items)
    if isinstance(value, dict):
        pairs = {key: _cleaned(each, wanted) for key, each in value.items()}
        return {key: each for key, (each, _) in pairs.items()}, sum(hits for _, hits in pairs.values())
    return value, 0
