"""`index.md`: a listing of records for people and other tools, made on demand and never read back."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.text.outgoing import clean_text

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from vademecum.store.home import Shelf
    from vademecum.types import Record

LISTING = "index.md"
_LONGEST = 120
_NOTHING: Mapping[str, Sequence[Record]] = {}


def render_listing(records: Iterable[Record], also: Mapping[str, Sequence[Record]] = _NOTHING) -> str:
    """The listing: one line a record, by type, in the form the Open Knowledge Format gives it.

    `also` has the records beside it that go with the one at a path.
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
    shelf: Shelf, records: Iterable[Record], also: Mapping[str, Sequence[Record]] = _NOTHING
) -> str | None:
    """Write the listing beside the records; None when the shelf holds none."""
    folder = shelf.open("records")
    if folder is None:
        return None
    with folder:
        folder.update(LISTING, lambda _: render_listing(records, also).encode(), mode=shelf.file_mode)
    return shelf.name_of("records", LISTING)


def _link(record: Record) -> str:
    name = record.path.rpartition("/")[2].replace(" ", "%20")
    return f"[{_plain(record.title)}]({name})"


def _plain(text: str) -> str:
    """One short line without secrets and without anything that Markdown would act upon."""
    line = " ".join(clean_text(text).split())
    short = line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"
    return short.replace("\\", "\\\\").replace("[", "\\[").replace("]", "\\]").replace("<", "&lt;")
