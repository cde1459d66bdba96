"""The statements of records, journals and pinned documents, with their lines, origin and time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.store import document
from vademecum.text import statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.text.statement import Statement
    from vademecum.types import Entry


def split_file(text: str, *, path: str = "", pinned: bool = False) -> list[Statement]:
    """What the file of a record, a day of a journal or a pinned document says now."""
    entries = document.blocks(text) if pinned else document.parse(text).entries
    return [said for _, said in split_entries(text, entries, path=path)]


def split_entries(
    text: str, entries: Iterable[Entry], *, path: str = ""
) -> Iterator[tuple[Entry, Statement]]:
    """Each living entry of a file with each of its statements."""
    lines = text.replace("\r\n", "\n").split("\n")
    for entry in entries:
        if entry.live:
            first = first_line(lines, entry) - 1
            for each in statement.split(entry.text):
                line, last = min(first + each.line, entry.end), min(first + each.last, entry.end)
                yield (
                    entry,
                    each._replace(line=line, last=last, path=path, origin=entry.origin, time=entry.time),
                )


def first_line(lines: Sequence[str], entry: Entry) -> int:
    """The line of a file on which the text of an entry begins, counted from 1."""
    at = entry.start + (1 if entry.time else 0)
    while at < entry.end and not lines[at - 1].strip():
        at += 1
    if entry.part and lines[at - 1].rstrip() == f"### {entry.part}":  # a heading that is no part of the text
        at += 1
        while at < entry.end and not lines[at - 1].strip():
            at += 1
    return at
