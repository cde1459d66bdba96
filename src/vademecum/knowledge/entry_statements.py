"""Split records, journals and pinned documents into statements, with lines, origin and time of each."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.text import document, statement

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.text.statement import Statement
    from vademecum.types import Entry


def split_file(text: str, *, path: str = "", pinned: bool = False) -> list[Statement]:
    """Return the statements of a record or journal day, or with `pinned` of a pinned document.

    Superseded entries are left out.
    """
    entries = document.blocks(text) if pinned else document.parse(text).entries
    return [one_statement for _, one_statement in split_entries(text, entries, path=path)]


def split_entries(
    text: str, entries: Iterable[Entry], *, path: str = ""
) -> Iterator[tuple[Entry, Statement]]:
    """Yield each statement of a file with its entry; superseded entries are left out."""
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
    """Return the line of a file on which the text of an entry begins, counted from 1."""
    at = entry.start + (1 if entry.time else 0)
    while at < entry.end and not lines[at - 1].strip():
        at += 1
    if entry.part and lines[at - 1].rstrip() == f"### {entry.part}":  # a heading that is no part of the text
        at += 1
        while at < entry.end and not lines[at - 1].strip():
            at += 1
    return at
