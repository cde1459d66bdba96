"""Small numbers that people can type, never given twice in a home.

Where two records have the same number or id, because a file was copied or a number typed twice, what the
files say of themselves decides which one keeps it; the others are given new ones.
"""

from __future__ import annotations

import contextlib
import os
import re
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from vademecum.store import archive, audit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from vademecum.store.home import Home, Shelf

_NAME = audit.NUMBERS


def allocate(home: Home, *, above: int = 0) -> int:
    """The next number, greater than any given before and than `above`."""
    with home.lock("numbers"), home.folder(create=True) as folder:
        given = 0

        def next_one(content: bytes | None) -> bytes:
            nonlocal given
            given = max(_number(content, home), above) + 1
            return f"{given}\n".encode()

        folder.update(_NAME, next_one)
    return given


def number_of(home: Home, record: str | None) -> int | None:
    """The number a record was given, as the audit remembers it."""
    given = (line.get("num") for line in audit.lines(home) if record and line.get("record") == record)
    return max((num for num in given if isinstance(num, int)), default=None)


def _number(content: bytes | None, home: Home) -> int:
    """The last number given; when its file is lost, the audit and the records themselves still know."""
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


MOST = 1000  # files that are looked at for a write, in about 15 ms; more are left to `vade lint`
_HEAD = 1024  # bytes; the labels of a record stand at its beginning
_FIELD = re.compile(rb"^(num|id|created|key):[ \t]*[\"']?([^\s\"']+)", re.MULTILINE)


class Label(NamedTuple):
    """What a record's file says of itself at its beginning."""

    path: str  # as shown
    name: str  # of the file
    num: int | None
    id: str | None
    created: str = ""
    key: str = ""
    shelf: Shelf | None = None


class Copy(NamedTuple):
    """A record that has to give up its number, its id or both, and the one that keeps them."""

    label: Label
    keeper: Label
    num: bool
    id: bool


def read_labels(shelves: Iterable[Shelf], *, wanted: Callable[[str], bool]) -> list[Label]:
    """The labels of all records on these shelves; none at all when there are too many to look at."""
    found: list[Label] = []
    for shelf in shelves:
        top = os.path.join(shelf.top, *shelf.parts, archive.RECORDS)
        try:
            with os.scandir(top) as entries:
                named = (each for each in entries if wanted(each.name))
                regular = (each for each in named if each.is_file(follow_symlinks=False))
                files = [*islice(regular, MOST + 1 - len(found))]
        except OSError:
            continue
        if len(found) + len(files) > MOST:
            return []
        found += [_label(shelf, each) for each in files]
    return found


def highest(labels: Iterable[Label]) -> int:
    """The highest number among them."""
    return max((each.num or 0 for each in labels), default=0)


def find_copies(labels: Sequence[Label]) -> list[Copy]:
    """Which records have a number or an id that another one keeps; the oldest file of its own name keeps."""
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
    """The oldest first; of copies, the one whose file is called by its key, then the shorter name."""
    renamed = label.name.removesuffix(".md") != label.key
    return label.created or "~", renamed, len(label.name), label.path


def _label(shelf: Shelf, entry: os.DirEntry[str]) -> Label:
    said: dict[bytes, str] = {}
    for name, value in _fields(entry.path):
        said.setdefault(name, value)
    num = said.get(b"num", "")
    return Label(
        shelf.name_of(archive.RECORDS, entry.name),
        entry.name,
        int(num) if num.isascii() and num.isdecimal() and len(num) < 10 else None,
        said.get(b"id"),
        said.get(b"created", ""),
        said.get(b"key", ""),
        shelf,
    )


def _fields(path: str) -> Iterator[tuple[bytes, str]]:
    """The labels in a file's frontmatter; none when it has none or cannot be read."""
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
