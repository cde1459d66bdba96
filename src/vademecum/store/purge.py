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

from vademecum.store import archive, document, files
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
    """One place where something was found, how often, and whether it is gone from there."""

    where: str
    count: int
    gone: bool = True


def record(home: Home, shelf: Shelf, name: str) -> list[Purged]:
    """Delete a record with all its versions, conflict copies and kept entries; the caller holds its lock."""
    found = []
    stem = name.removesuffix(".md")
    folder = shelf.open(archive.RECORDS)
    if folder is not None:
        with folder:
            files.sweep(folder)
            for each in folder.names():
                if each == name or (is_record(each) and each.startswith(f"{stem}.conflict-")):
                    files.delete(folder, each)
                    found.append(Purged(shelf.name_of(archive.RECORDS, each), 1))
    area = ("archive", *archive.area(shelf), archive.RECORDS)
    for image in archive.images(home, shelf, archive.RECORDS, name):
        with home.folder(*image.parts[:-1]) as versions:
            files.delete(versions, image.parts[-1])
        found.append(Purged(image.path, 1))
    if name in home.names(*area):
        with home.folder(*area) as parent:
            parent.remove_folder(name)
    kept = ("archive", "kept", *archive.area(shelf), archive.RECORDS)
    if f"{name}.jsonl" in home.names(*kept):
        with home.folder(*kept) as folder:
            files.delete(folder, f"{name}.jsonl")
        found.append(Purged("/".join((*kept, f"{name}.jsonl")), 1))
    return found


def text(home: Home, shared: Path | None, wanted: str) -> list[Purged]:
    """Replace a text by a mark wherever it stands: in the home, and in the project's own `.vade/`."""
    found = list(_below(home, home.path, wanted, ""))
    if shared is not None:
        found += _below(home, shared, wanted, ".vade/")
    return found


def occurrences(path: Path, wanted: str) -> int:
    """How often a text stands in a file that is not ours to change."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").count(wanted)
    except OSError:
        return 0


def _below(home: Home, top: Path, wanted: str, label: str) -> Iterator[Purged]:
    replacing = {".md": _in_markdown, ".jsonl": _in_lines, ".json": _in_lines}
    for path, below, names in os.walk(top):
        inner = os.path.relpath(path, top).split(os.sep)
        parts = () if inner == ["."] else tuple(inner)
        # Locks hold no text, and the audit never did: it stays as it was written.
        below[:] = sorted(name for name in below if parts or name not in ("locks", "audit"))
        for name in sorted(names):
            replace = replacing.get(os.path.splitext(name)[1])
            if replace is None:
                continue
            count = _replace(home, top, (*parts, name), functools.partial(replace, wanted=wanted))
            if count:
                yield Purged(label + "/".join((*parts, name)), count)


def _replace(home: Home, top: Path, parts: tuple[str, ...], replace: Callable[[bytes], _Replaced]) -> int:
    with home.lock(f"purge {top}"), Folder.at(top) as folder, folder.enter(*parts[:-1]) as inner:
        files.sweep(inner)
        content = files.read(inner, parts[-1])
        count = replace(content)[1] if content is not None else 0
        if count:
            files.update(inner, parts[-1], lambda current: replace(current or b"")[0])
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
