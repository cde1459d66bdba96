"""Split the days of a journal into statements.

Generated text is left out: summaries, injected memory, code, logs, and the assistant's words in the notes
that a session left in the journal.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed, OutsideMemory
from vademecum.knowledge import typed
from vademecum.text import WORD, document, filenames, split_sentences
from vademecum.text.document import decode
from vademecum.text.filenames import is_day
from vademecum.types import Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store import Journal
    from vademecum.types import Place

LONGEST = 600  # characters of a statement; more is a document
LEAST_WORDS = 4

_BULLET = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+")
_JOURNAL_HEADING = re.compile(r"^[ \t]*#{1,6}(?:[ \t]|$)")
_SESSION = re.compile(r"\ASession [^\n]{0,400}: the last \d+ messages \((?:\S+ )?([^\s()]+)\)\.")
_SPEAKER = re.compile(r"^\*\*(User|Assistant)\*\*:[ ]?")
_CUT = re.compile(r" … \[\d+ more characters\]\Z")


class JournalStatement(NamedTuple):
    """A statement of a journal, with the file and the lines that it stands in."""

    text: str
    place: Place
    path: str
    start: int
    end: int
    day: str
    session: str  # of a session's note; else nothing
    origin: Origin
    whole: bool  # a line or paragraph of its own, not a sentence out of one
    time: str | None = None

    @property
    def source(self) -> str:
        """The citation of the statement: its path and lines."""
        return f"{self.path}#L{self.start}-L{self.end}"


def read_journals(journal: Journal, places: Iterable[Place]) -> tuple[list[JournalStatement], list[Finding]]:
    """Return all statements in these places' journals, oldest first, and findings on unreadable files."""
    found: list[JournalStatement] = []
    findings: list[Finding] = []
    for place in places:
        for scope_folder in journal.scope_folders(place):
            try:
                folder = scope_folder.open(filenames.JOURNAL)
            except (OutsideMemory, NotADirectoryError) as error:
                findings.append(Finding("malformed", scope_folder.name_of(filenames.JOURNAL), str(error)))
                continue
            if folder is None:
                continue
            with folder:
                for name in filter(is_day, folder.names()):
                    path = scope_folder.name_of(filenames.JOURNAL, name)
                    try:
                        content = folder.read(name)
                        if content is not None:
                            found += split_day(decode(content), place=place, path=path, day=name[:10])
                    except (Malformed, OutsideMemory, OSError) as error:
                        findings.append(Finding("malformed", path, str(error)))
    found.sort(key=lambda each: (each.day, each.path, each.start))
    return found, findings


def split_day(text: str, *, place: Place, path: str, day: str) -> Iterator[JournalStatement]:
    """Yield the statements of one day: list items, paragraphs, and the sentences in them."""
    parsed = document.parse(text)
    for section, entry in zip(parsed.sections, parsed.entries, strict=True):
        raw = text[section.text_start : section.text_end]
        first = text.count("\n", 0, section.text_start) + 1
        noted = _SESSION.match(entry.text)
        session = noted[1] if noted else ""
        own = typed.own_words(document.unescape(raw.replace("\r\n", "\n")))
        for start, end, block_text in split_blocks(own, has_speakers=noted is not None):
            origin, lines = entry.origin or Origin.USER, (first + start, first + end)
            for each, whole in _split_block(block_text):
                yield JournalStatement(each, place, path, *lines, day, session, origin, whole, entry.time)


def _split_block(block_text: str) -> Iterator[tuple[str, bool]]:
    if _fits(block_text):
        yield block_text, True
    pieces = split_sentences(block_text)
    if len(pieces) > 1:
        for piece in pieces:
            if _fits(piece):
                yield piece, False


def _fits(text: str) -> bool:
    many = len(WORD.findall(text)) >= LEAST_WORDS or any(char > "\u2e80" for char in text)
    return many and len(text) <= LONGEST and not text.endswith(("?", "？"))


def split_blocks(text: str, *, has_speakers: bool = False) -> Iterator[tuple[int, int, str]]:
    """Yield the first line, last line (both from 0) and text of each block: a list item or paragraph.

    With `has_speakers`, lines name who speaks, and only blocks of the user are yielded.
    """
    block: list[str] = []
    begun = 0
    user = not has_speakers
    for number, line in enumerate([*text.split("\n"), ""]):
        speaker = _SPEAKER.match(line) if has_speakers else None
        heading = _JOURNAL_HEADING.match(line) is not None
        if block and (not line.strip() or speaker or heading or _BULLET.match(line)):
            yield begun, begun + len(block) - 1, _join_lines(block)
            block = []
        if speaker:
            user = speaker[1] == "User"
        words = line[speaker.end() :] if speaker else line
        if words.strip() and user and not heading:
            begun = begun if block else number
            block.append(words)


def _join_lines(block: Sequence[str]) -> str:
    text = " ".join(_BULLET.sub("", line).strip() for line in block)
    return _CUT.sub("", text).strip()


def split_known(text: str) -> list[str]:
    """Return a text, each of its blocks and each of its sentences, so that statements can be compared with
    them.
    """
    found = [text]
    for _, _, block_text in split_blocks(text):
        found += [block_text, *split_sentences(block_text)]
    return [*dict.fromkeys(found)]
