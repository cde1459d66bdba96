"""Short numbers for records, which people can type; a home never gives a number twice.

When two records have the same number or id, because a file was copied or a number was typed twice, the
files' own fields decide which record keeps it; the others get new ones.
"""

from __future__ import annotations

import contextlib
import os
import re
from itertools import islice
from typing import TYPE_CHECKING

from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.store import audit
from vademecum.text import filenames

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.store.home import Home, ScopeFolder

_NAME = audit.NUMBERS


def allocate(home: Home, *, above: int = 0) -> int:
    """Return the next number, greater than every number given before and than `above`."""
    with home.lock("numbers"), home.folder(create=True) as folder:
        given = 0

        def next_one(content: bytes | None) -> bytes:
            nonlocal given
            given = max(_number(content, home), above) + 1
            return f"{given}\n".encode()

        folder.update(_NAME, next_one)
    return given


def number_of(home: Home, record: str | None) -> int | None:
    """Return the number that a record was given, according to the audit; None when unknown."""
    given = (line.get("num") for line in audit.lines(home) if record and line.get("record") == record)
    return max((num for num in given if isinstance(num, int)), default=None)


def _number(content: bytes | None, home: Home) -> int:
    """Return the last number given; if its file is lost, the highest in the audit and the records."""
    try:
        return int(content or b"")
    except ValueError:
        audited = [int(line["num"]) for line in audit.lines(home) if isinstance(line.get("num"), int)]
        return max([0, *audited, *_written(home)])


def _written(home: Home) -> Iterator[int]:
    for top in ("memory", "archive"):
        for folder, _, found in os.walk(home.path / top):
            for name in found:
                if name.endswith(".md") and os.path.isfile(os.path.join(folder, name)):
                    with contextlib.suppress(OSError), open(os.path.join(folder, name), "rb") as file:
                        yield from map(
                            int, re.findall(rb"^num: (\d{1,9})\s*$", file.read(4096), re.MULTILINE)
                        )


MOST = 1000  # files that are looked at for a write, in about 15 ms; more are left to `vade check`
_HEAD = 1024  # bytes; the labels of a record stand at its beginning
_FIELD = lazy_pattern(rb"^(num|id|created|key):[ \t]*[\"']?([^\s\"']+)", re.MULTILINE)


class Label(NamedTuple):
    """The fields at the beginning of a record's file: number, id, key, creation time."""

    path: str  # as shown
    name: str  # of the file
    num: int | None
    id: str | None
    created: str = ""
    key: str = ""
    scope_folder: ScopeFolder | None = None


class Copy(NamedTuple):
    """A record that has to give up its number, its id or both, and the record that keeps them."""

    label: Label
    keeper: Label
    num: bool
    id: bool


def read_labels(scope_folders: Iterable[ScopeFolder], *, wanted: Callable[[str], bool]) -> list[Label]:
    """Return the labels of all records in these folders; none when there are too many files to read."""
    found: list[Label] = []
    for scope_folder in scope_folders:
        top = os.path.join(scope_folder.top, *scope_folder.parts, filenames.RECORDS)
        try:
            with os.scandir(top) as entries:
                named = (each for each in entries if wanted(each.name))
                regular = (each for each in named if each.is_file(follow_symlinks=False))
                files = [*islice(regular, MOST + 1 - len(found))]
        except OSError:
            continue
        if len(found) + len(files) > MOST:
            return []
        found += [_label(scope_folder, each) for each in files]
    return found


def highest(labels: Iterable[Label]) -> int:
    """Return the highest number among the labels; 0 when none has a number."""
    return max((each.num or 0 for each in labels), default=0)


def find_copies(labels: Sequence[Label]) -> list[Copy]:
    """Return the records whose number or id belongs to another record, each with that record.

    The oldest record keeps its number and id; of equally old ones, the one whose file is named by its key.
    """
    keeps_num, keeps_id = _keepers(labels, lambda each: each.num), _keepers(labels, lambda each: each.id)
    found = []
    for each in labels:
        by_num, by_id = keeps_num.get(each.num, each), keeps_id.get(each.id, each)
        if each not in (by_num, by_id) or by_num != by_id:
            num, id = by_num != each, by_id != each
            found.append(Copy(each, by_id if id else by_num, num, id))
    return [each for each in found if each.num or each.id]


def _keepers(labels: Iterable[Label], of: Callable[[Label], object]) -> dict[object, Label]:
    keepers: dict[object, Label] = {}
    for each in labels:
        mark = of(each)
        if mark is not None:
            keepers[mark] = min(keepers.get(mark, each), each, key=_standing)
    return keepers


def _standing(label: Label) -> tuple[str, bool, int, str]:
    """Return a sort key: oldest first, then a file named by its key, then the shorter file name."""
    renamed = label.name.removesuffix(".md") != label.key
    return label.created or "~", renamed, len(label.name), label.path


def _label(scope_folder: ScopeFolder, entry: os.DirEntry[str]) -> Label:
    values: dict[bytes, str] = {}
    for name, value in _fields(entry.path):
        values.setdefault(name, value)
    num = values.get(b"num", "")
    return Label(
        scope_folder.name_of(filenames.RECORDS, entry.name),
        entry.name,
        int(num) if num.isascii() and num.isdecimal() and len(num) < 10 else None,
        values.get(b"id"),
        values.get(b"created", ""),
        values.get(b"key", ""),
        scope_folder,
    )


def _fields(path: str) -> Iterator[tuple[bytes, str]]:
    """Yield the labels in a file's frontmatter; none when there is no frontmatter or it is unreadable."""
    try:
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        try:
            head = os.read(handle, _HEAD).replace(b"\r\n", b"\n").removeprefix(b"\xef\xbb\xbf")
        finally:
            os.close(handle)
    except OSError:
        return
    if head.startswith(b"---\n"):
        for field in _FIELD.finditer(head.partition(b"\n---")[0] if b"\n---" in head[3:] else head):
            yield field[1], field[2].decode(errors="replace")
