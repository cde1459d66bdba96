"""What a journal says, statement by statement, and the links and markup of a text.

No model has a say in it. What is generated is left out: summaries, injected memory, code, logs, and an
assistant's own words in a session's note.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed, OutsideMemory
from vademecum.knowledge import signals
from vademecum.store import archive, document
from vademecum.store.document import decode
from vademecum.store.journal import is_day
from vademecum.text import WORD, fences, split_sentences
from vademecum.types import Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store import Journal
    from vademecum.types import Place

# ------------------------------------------------------------ markup

_LINK = re.compile(r"!?\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)|\[\[[^\]\n]{1,200}\]\]|<[a-z]+://[^>\s]+>")
_HTML = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]{0,40}(?:\s[^<>]{0,1000})?/?>|<!--(?:.{0,1000}?-->)?", re.DOTALL)


def find_links(text: str) -> frozenset[str]:
    """The links and images of a text."""
    return frozenset(_LINK.findall(_without_code(text)))


def find_markup(text: str) -> frozenset[str]:
    """The HTML of a text, outside of code."""
    return frozenset(_HTML.findall(_without_code(text)))


def _without_code(text: str) -> str:
    return re.sub(r"(?<!`)`[^`\n]{1,300}`(?!`)", " ", fences.remove(text))


# ------------------------------------------------------------ the statements of a journal

LONGEST = 600  # characters of a statement; more is a document
LEAST_WORDS = 4

_BULLET = re.compile(r"^[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+")
_JOURNAL_HEADING = re.compile(r"^[ \t]*#{1,6}(?:[ \t]|$)")
_SESSION = re.compile(r"\ASession [^\n]{0,400}: the last \d+ messages \((?:\S+ )?([^\s()]+)\)\.")
_SPEAKER = re.compile(r"^\*\*(User|Assistant)\*\*:[ ]?")
_CUT = re.compile(r" … \[\d+ more characters\]\Z")


class JournalStatement(NamedTuple):
    """Something said in a journal, and where it stands."""

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
        """How it is cited."""
        return f"{self.path}#L{self.start}-L{self.end}"


def read_journals(journal: Journal, places: Iterable[Place]) -> tuple[list[JournalStatement], list[Finding]]:
    """Everything that journals of these places say, oldest first."""
    found: list[JournalStatement] = []
    findings: list[Finding] = []
    for place in places:
        for shelf in journal.shelves(place):
            try:
                folder = shelf.open(archive.JOURNAL)
            except (OutsideMemory, NotADirectoryError) as error:
                findings.append(Finding("malformed", shelf.name_of(archive.JOURNAL), str(error)))
                continue
            if folder is None:
                continue
            with folder:
                for name in filter(is_day, folder.names()):
                    path = shelf.name_of(archive.JOURNAL, name)
                    try:
                        content = folder.read(name)
                        if content is not None:
                            found += split_day(decode(content), place=place, path=path, day=name[:10])
                    except (Malformed, OutsideMemory, OSError) as error:
                        findings.append(Finding("malformed", path, str(error)))
    found.sort(key=lambda each: (each.day, each.path, each.start))
    return found, findings


def split_day(text: str, *, place: Place, path: str, day: str) -> Iterator[JournalStatement]:
    """The statements of one day: lines of a list, paragraphs, and the sentences in them."""
    parsed = document.parse(text)
    for section, entry in zip(parsed.sections, parsed.entries, strict=True):
        raw = text[section.text_start : section.text_end]
        first = text.count("\n", 0, section.text_start) + 1
        noted = _SESSION.match(entry.text)
        session = noted[1] if noted else ""
        own = signals.own_words(document.unescape(raw.replace("\r\n", "\n")))
        for start, end, said in split_blocks(own, spoken=noted is not None):
            origin, lines = entry.origin or Origin.USER, (first + start, first + end)
            for each, whole in _parts(said):
                yield JournalStatement(each, place, path, *lines, day, session, origin, whole, entry.time)


def _parts(said: str) -> Iterator[tuple[str, bool]]:
    if _fits(said):
        yield said, True
    pieces = split_sentences(said)
    if len(pieces) > 1:
        for piece in pieces:
            if _fits(piece):
                yield piece, False


def _fits(text: str) -> bool:
    many = len(WORD.findall(text)) >= LEAST_WORDS or any(char > "\u2e80" for char in text)
    return many and len(text) <= LONGEST and not text.endswith(("?", "？"))


def split_blocks(text: str, *, spoken: bool = False) -> Iterator[tuple[int, int, str]]:
    """First line, last line and words of each block; of a session's note only what the user said."""
    block: list[str] = []
    begun = 0
    user = not spoken
    for number, line in enumerate([*text.split("\n"), ""]):
        speaker = _SPEAKER.match(line) if spoken else None
        heading = _JOURNAL_HEADING.match(line) is not None
        if block and (not line.strip() or speaker or heading or _BULLET.match(line)):
            yield begun, begun + len(block) - 1, _joined(block)
            block = []
        if speaker:
            user = speaker[1] == "User"
        words = line[speaker.end() :] if speaker else line
        if words.strip() and user and not heading:
            begun = begun if block else number
            block.append(words)


def _joined(block: Sequence[str]) -> str:
    text = " ".join(_BULLET.sub("", line).strip() for line in block)
    return _CUT.sub("", text).strip()


def split_known(text: str) -> list[str]:
    """A text that is known, whole and in its parts, to hold statements against."""
    found = [text]
    for _, _, said in split_blocks(text):
        found += [said, *split_sentences(said)]
    return [*dict.fromkeys(found)]
