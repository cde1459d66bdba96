"""Writer of `index.md`: a listing of records for people and other tools, made on demand, never read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.text import filenames
from vademecum.text.outgoing import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.store.home import ScopeFolder
    from vademecum.types import Record

_LONGEST = 120
_NOTHING: Mapping[str, Sequence[Record]] = {}


def render_listing(records: Iterable[Record], also: Mapping[str, Sequence[Record]] = _NOTHING) -> str:
    """Return the listing's text: a line for each record, grouped by type, in the Open Knowledge Format.

    `also` has, by a record's path, the related records that are listed below that record.
    """
    by_type: dict[str, list[Record]] = {}
    for record in records:
        by_type.setdefault(record.type, []).append(record)
    lines = ["# Memory", ""]
    for kind in sorted(by_type):
        lines += [f"## {kind.capitalize()}", ""]
        for record in sorted(by_type[kind], key=lambda each: each.key):
            lines.append(f"* {_link(record)} - {_plain(record.text)}")
            others = also.get(record.path)
            if others:
                lines.append(f"  See also: {', '.join(map(_link, others))}")
        lines.append("")
    return "\n".join(lines)


def write_listing(
    scope_folder: ScopeFolder, records: Iterable[Record], also: Mapping[str, Sequence[Record]] = _NOTHING
) -> str | None:
    """Write the listing into the records' folder and return its path; None when there is no such folder."""
    folder = scope_folder.open("records")
    if folder is None:
        return None
    with folder:
        folder.update(
            filenames.LISTING, lambda _: render_listing(records, also).encode(), mode=scope_folder.file_mode
        )
    return scope_folder.name_of("records", filenames.LISTING)


def _link(record: Record) -> str:
    name = record.path.rpartition("/")[2].replace(" ", "%20")
    return f"[{_plain(record.title)}]({name})"


def _plain(text: str) -> str:
    """Return a text as one shortened line without secrets, with backslashes, `[`, `]` and `<` escaped."""
    line = " ".join(clean_text(text).split())
    short = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    return short.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("<", "&lt;")
