"""Memory as one web page to read or hand on: pinned documents, records and the journal, with a search."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vademecum.knowledge.okf import cleaned
from vademecum.transcripts.export import escaped, page

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from vademecum.store.journal import Day
    from vademecum.store.pinned import Pinned
    from vademecum.types import Entry, Record


def render(
    documents: Iterable[Pinned], records: Iterable[Record], days: Iterable[Day], *, redact: bool
) -> tuple[str, tuple[str, ...]]:
    """The page, and the kinds of secrets that were cut out of it."""
    writer = _Writer(redact)
    body = [
        *(part for each in documents for part in writer.document(each)),
        *(part for each in records for part in writer.record(each)),
        *(part for each in days for part in writer.day(each)),
    ]
    return "".join(page("Memory", body, what="this memory")), tuple(sorted(writer.kinds))


class _Writer:
    def __init__(self, redact: bool) -> None:
        self.redact, self.kinds = redact, set[str]()

    def document(self, document: Pinned) -> Iterator[str]:
        yield self._article("assistant", f"{document.place} · {document.name}", document.path)
        yield f"<pre>{self._text(document.text, document.path)}</pre>\n</article>\n"

    def record(self, record: Record) -> Iterator[str]:
        about = [record.key, f"#{record.num}" if record.num else "", record.type, *record.tags]
        yield self._article(
            "user", " · ".join(each for each in [str(record.place), *about] if each), record.path
        )
        yield from self._entries(record.entries, record.path)
        yield "</article>\n"

    def day(self, day: Day) -> Iterator[str]:
        name = day.path.rpartition("/")[2].removesuffix(".md")
        yield self._article("other", f"{day.place} · journal · {name}", day.path)
        yield from self._entries(day.entries, day.path)
        yield "</article>\n"

    def _entries(self, entries: Iterable[Entry], where: str) -> Iterator[str]:
        for each in entries:
            said = " · ".join(filter(None, (each.time, str(each.origin) if each.origin else "")))
            text = self._text(each.text, where)
            if each.live:
                yield f"<h2>{escaped(said)}</h2>\n<pre>{text}</pre>\n"
            else:
                yield f"<details><summary>{escaped(said)} · superseded</summary><pre>{text}</pre></details>\n"

    def _article(self, kind: str, heading: str, where: str) -> str:
        return f'<article class="{kind}"><h2>{self._text(heading, where)}</h2>\n'

    def _text(self, text: str, where: str) -> str:
        clean, found = cleaned(text, where, redact=self.redact)
        self.kinds.update(found)
        return escaped(clean)
