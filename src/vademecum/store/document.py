"""The body of a record or journal: dated entries, oldest first.

An entry begins at a heading `## <time>` and may end with a line `<!-- origin: … -->`. Text that looks like
either is written with a backslash before it, so that nothing a caller stores can open, close or sign an
entry. Whatever stands before the first dated heading is an undated entry: a parser never drops content.
"""

from __future__ import annotations

import re
import unicodedata
from typing import NamedTuple

from vademecum.store import frontmatter
from vademecum.types import Entry, Origin

_STAMP = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_HEADING = re.compile(rf"^## ({_STAMP})[ \t]*\r?$", re.MULTILINE)
_TITLE = re.compile(r"(?:[ \t]*\r?\n)*# +(\S[^\n]*?)[ \t]*\r?(?:\n|\Z)")
_SIGNATURE = re.compile(r"^<!-- (origin: [^\n]*?) -->[ \t]*\r?$", re.MULTILINE)
# Lines with a meaning of their own, with any number of backslashes before them.
_MARKUP = re.compile(rf"^(\\*)(?=## {_STAMP}[ \t]*\r?$|<!--[ \t]*/?(?:origin:|vade:))", re.MULTILINE)
_ESCAPED = re.compile(rf"^\\(?=\\*(?:## {_STAMP}[ \t]*\r?$|<!--[ \t]*/?(?:origin:|vade:)))", re.MULTILINE)


class Section(NamedTuple):
    """Where one entry stands: heading, text and signature as character positions."""

    start: int
    text_start: int
    text_end: int
    signature_end: int
    end: int
    time: str | None
    signed: str | None


class Document(NamedTuple):
    """A parsed file: frontmatter values, title and entries, with the places needed to edit it."""

    source: str
    front: frontmatter.Front
    title: str | None
    sections: tuple[Section, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries, with origin, state and 1-based lines."""
        entries = []
        line, position = 1, 0
        for section in self.sections:
            line += self.source.count("\n", position, section.start)
            position = section.start
            last = line + self.source.count("\n", section.start, section.signature_end)
            entries.append(self._entry(section, line, last))
        return tuple(entries)

    def text_of(self, section: Section) -> str:
        """An entry's text as it was given."""
        raw = self.source[section.text_start : section.text_end].replace("\r\n", "\n")
        return unescape(raw).strip("\n")

    def _entry(self, section: Section, start: int, end: int) -> Entry:
        signed = _fields(section.signed)
        origin = signed.get("origin")
        return Entry(
            text=self.text_of(section),
            time=section.time,
            origin=Origin(origin) if origin in set(Origin) else None,
            superseded=signed.get("superseded"),
            start=start,
            end=end,
        )


def parse(text: str) -> Document:
    """Read a file; every character of its body belongs to the title or to some entry."""
    front = frontmatter.parse(text)
    headings = list(_HEADING.finditer(text, front.body))
    first = headings[0].start() if headings else len(text)
    title = _TITLE.match(text, front.body, first)
    sections = []
    opening = title.end() if title else front.body
    if text[opening:first].strip():
        skipped = len(text[opening:first]) - len(text[opening:first].lstrip("\r\n"))
        sections.append(_section(text, opening + skipped, opening + skipped, first, None))
    for number, heading in enumerate(headings):
        end = headings[number + 1].start() if number + 1 < len(headings) else len(text)
        body = min(heading.end() + 1, end)
        sections.append(_section(text, heading.start(), body, end, heading[1]))
    return Document(text, front, title[1].strip() if title else None, tuple(sections))


def append(text: str, entry: Entry) -> str:
    """Add an entry at the end; what is there stays byte for byte, but for a missing final newline."""
    newline = frontmatter.line_ending(text)
    if text and not text.endswith("\n"):
        text += newline
    gap = "" if not text or text.endswith((newline * 2, "---" + newline)) else newline
    return text + gap + _render(entry).replace("\n", newline)


def sign(
    document: Document, index: int, *, origin: Origin | None = None, superseded: str | None = None
) -> str:
    """Write an entry's signature anew, with another origin or marked as superseded, and return the text."""
    section = document.sections[index]
    fields = _fields(section.signed)
    if origin is not None:
        fields["origin"] = str(origin)
    fields.setdefault("origin", str(Origin.USER))
    if superseded is not None:
        fields["superseded"] = superseded
    source, newline = document.source, frontmatter.line_ending(document.source)
    if section.signed is not None:
        return source[: section.text_end] + _signature(fields) + source[section.signature_end :]
    rest = source[section.text_end :]
    return source[: section.text_end] + newline + _signature(fields) + (rest or newline)


def tidy(text: str) -> str:
    """A text as it is kept: line feeds, no blank lines before it, no white space after it."""
    return re.sub(r"\A(?:[ \t]*\n)+", "", re.sub(r"\r+\n", "\n", text)).rstrip()


def same(one: str, other: str) -> bool:
    """Whether two texts say the same, white space and composition of characters aside."""
    return normalised(one) == normalised(other)


def normalised(text: str) -> str:
    """A text with its white space folded and its characters composed."""
    return " ".join(unicodedata.normalize("NFC", text).split())


def escape(text: str) -> str:
    """Put a backslash before every line that would mean something to the parser."""
    return _MARKUP.sub(r"\\\1", text)


def unescape(text: str) -> str:
    """Take away the backslashes that `escape` put there."""
    return _ESCAPED.sub("", text)


def _section(text: str, start: int, text_start: int, end: int, time: str | None) -> Section:
    """Find an entry's signature: the last line of it that is not blank."""
    stripped = text_start + len(text[text_start:end].rstrip())
    last = max(text.rfind("\n", text_start, stripped) + 1, text_start)
    signature = _SIGNATURE.match(text, last, end)
    if signature is None:
        return Section(start, text_start, stripped, max(stripped, start), end, time, None)
    return Section(start, text_start, last, stripped, end, time, signature[1])


def _render(entry: Entry) -> str:
    fields = {"origin": str(entry.origin or Origin.USER)}
    if entry.superseded is not None:
        fields["superseded"] = entry.superseded
    return f"## {entry.time}\n{escape(entry.text)}\n{_signature(fields)}\n"


def _signature(fields: dict[str, str]) -> str:
    return "<!-- " + " | ".join(f"{name}: {value}" for name, value in fields.items()) + " -->"


def _fields(signed: str | None) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in (signed or "").split("|") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}
