"""What a text says: its exact facts, its statements and whether they hold now, and a journal's.

No model has a say in it. Whatever stands in code or in a quotation is nobody's statement; what speaks of the
past, of a plan, of a condition or of an example says nothing of how things are; what is generated is left out
of a journal: summaries, injected memory, code, logs, and an assistant's own words in a session's note.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed, OutsideMemory
from vademecum.knowledge import signals
from vademecum.store import archive, document
from vademecum.store.document import decode
from vademecum.store.journal import is_day
from vademecum.text import LETTERS, WORD, fences, sentence_spans, split_sentences
from vademecum.types import Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from vademecum.store import Journal
    from vademecum.types import Place

# ------------------------------------------------------------ facts, which no rewrite may lose

# In this order: what one pattern takes, the next ones do not see. A code span is a fact as a whole.
_PATTERNS = (
    re.compile(r"(?<!`)`([^`\n]{1,300})`(?!`)"),
    re.compile(r"\b[a-zA-Z][a-zA-Z0-9+.-]*://[^\s<>()\[\]\"'`]+[^\s<>()\[\]\"'`.,;:!?]"),
    re.compile(r"(?<![\w@.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+"),
    re.compile(r"(?<![\w/.@+-])~?/?(?:[\w.@+-]+/)+[\w.@+-]*\w(?:#L\d+(?:-L?\d+)?|:\d+)?"),
    re.compile(r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d)?(?:Z|[+-]\d\d:?\d\d)?)?\b"),
    re.compile(r"\b(?=[0-9a-f]*\d)(?=[0-9a-f]*[a-f])[0-9a-f]{7,40}\b"),
    re.compile(r"(?<![\w])#\d+\b|\b[A-Z][A-Z0-9]+-\d+\b"),
    re.compile(r"\b(?!v\d)[A-Za-z]+-?\d[\w-]*\b"),
    re.compile(r"\bv?\d+(?:[.:,]\d+)*%?(?!\w)|\b\d\w*\b"),
    re.compile(r"\b[A-Za-z]\w*(?:_\w+)+\b|\b[a-z]+[0-9]*(?:[A-Z][a-z0-9]*)+\b|\b(?:[A-Z][a-z0-9]+){2,}\b"),
    re.compile(r"\b[A-Z][A-Z0-9_]{2,}\b"),
    re.compile(r"\b[\w-]+\.(?:[a-z][a-z0-9]{0,4})\b(?<=[a-z0-9])"),
)
_LINK = re.compile(r"!?\[[^\]\n]{0,300}\]\([^)\n]{0,2000}\)|\[\[[^\]\n]{1,200}\]\]|<[a-z]+://[^>\s]+>")
_HTML = re.compile(r"</?[a-zA-Z][a-zA-Z0-9-]{0,40}(?:\s[^<>]{0,1000})?/?>|<!--(?:.{0,1000}?-->)?", re.DOTALL)
_LONG = 4  # letters of a word that tells
_STEM = 5
_LETTERS_END = "\u0530"  # after Latin, Greek and Cyrillic: other scripts do not part their words


def find_facts(text: str) -> frozenset[str]:
    """Everything in a text that must be there letter by letter."""
    found: set[str] = set()
    for fence in fences.find(text):
        inner = text[fence.inner_start : fence.inner_end].split("\n")
        found.update(line.strip() for line in inner if line.strip())
    rest = fences.remove(text)
    for pattern in _PATTERNS:
        for match in pattern.finditer(rest):
            fact = match[pattern.groups and 1].strip().rstrip(".,;:")
            if fact:
                found.add(fact)
        rest = pattern.sub(" ", rest)
    return frozenset(found)


def has_fact(text: str, fact: str) -> bool:
    """Whether a text has a fact, as a whole and not as a part of another: 8080 is not in 18080."""
    start = r"(?<!\w)" if fact[:1].isalnum() or fact[:1] == "_" else ""
    end = r"(?!\w)" if fact[-1:].isalnum() or fact[-1:] == "_" else ""
    more = r"(?![.:,]\d)" if fact[-1:].isdigit() else ""
    less = r"(?<!\d[.:,])" if fact[:1].isdigit() else ""
    return re.search(f"{less}{start}{re.escape(fact)}{end}{more}", text) is not None


def find_links(text: str) -> frozenset[str]:
    """The links and images of a text."""
    return frozenset(_LINK.findall(_without_code(text)))


def find_markup(text: str) -> frozenset[str]:
    """The HTML of a text, outside of code."""
    return frozenset(_HTML.findall(_without_code(text)))


def find_stems(text: str) -> frozenset[str]:
    """The beginnings of the longer words, which stay when a sentence is worded anew."""
    words = (word for word in LETTERS.findall(text) if len(word) >= _LONG and word[0] < _LETTERS_END)
    return frozenset(word[:_STEM].casefold() for word in words)


def _without_code(text: str) -> str:
    return re.sub(r"(?<!`)`[^`\n]{1,300}`(?!`)", " ", fences.remove(text))


# ------------------------------------------------------------ statements

_ITEM = re.compile(r"[ \t]*(?:[-*+]|\d{1,3}[.)])[ \t]+(?:\[[ xX]\][ \t]+)?")
_HEADING_MARK = re.compile(r"[ \t]{0,3}#{1,6}[ \t]")
_ASIDE = re.compile(r"[ \t]*(?:>|\||<!--|<)")
# Between statements stands white space, and something that begins another: "approx. five" is one.
_BEGINS = re.compile(r"\s+[\"'(\[`*_]*[A-Z0-9`]")

_PAST = r"""
    was | were | wasn't | weren't | had | hadn't | did | didn't | until | till | previously | formerly
    | earlier | used\ to | back\ then | at\ first | originally | initially | historically | once | ago
    | last\ (?:week|month|year) | yesterday | removed | deleted | dropped | renamed | replaced | superseded
    | obsolete | deprecated | legacy | moved | migrated | switched | changed | became | went | before | old
    | gone | (?:in|as\ of|since|by|on|from)\ (?:19|20)\d\d | today | so\ far | as\ of
"""
_OPEN = r"""
    if | unless | except | when | whenever | while | might | may | could | would | perhaps | maybe | probably
    | will | shall | going\ to | plan(?:s|ned)?\ to | todo | to\ do | wants?\ to | consider | proposal
    | propose[sd]? | someday | eventually | not\ yet | for\ example | for\ instance | e\.g | such\ as
    | example | suppose | imagine | create | add | generate[sd]? | scaffold | placeholder
"""
_NOT_PRESENT = re.compile(rf"(?ix) (?<![\w-]) (?: {_PAST} | {_OPEN} ) (?![\w-])")

_CODE = re.compile(r"`[^`]*`")
_ABBREVIATIONS = frozenset({"e.g", "i.e"})


class TextStatement(NamedTuple):
    """One sentence or list item."""

    text: str
    line: int  # counted from 0, from where its text begins

    @property
    def present(self) -> bool:
        """Whether it says how things are: not how they were, might be, or are to become."""
        if self.text.rstrip().endswith("?"):
            return False
        words = (_plain(word) for word in _CODE.sub("x", self.text).split(" "))
        return _NOT_PRESENT.search(" ".join(words)) is None


def _plain(word: str) -> str:
    """A word, unless it is a name: `old` in a path says nothing about time."""
    bare = word.strip(".,;:!?()[]\"'*")
    named = "/" in bare or "_" in bare or ("." in bare and bare.lower() not in _ABBREVIATIONS)
    return "x" if named else word


def split_statements(text: str) -> list[TextStatement]:
    """The statements of a text, in their order."""
    found: list[TextStatement] = []
    for block, line in _blocks(fences.blank(text)):
        found += _sentences(block, line)
    return found


def _blocks(text: str) -> Iterator[tuple[str, int]]:
    """Paragraphs and list items, each with the line on which it begins."""
    lines: list[str] = []
    begun = 0
    for number, line in enumerate([*text.split("\n"), ""]):
        item = _ITEM.match(line)
        if not line.strip() or item or _HEADING_MARK.match(line) or _ASIDE.match(line):
            if lines:
                yield "\n".join(lines), begun
            lines = []
            if item:
                lines, begun = [line[item.end() :]], number
            continue
        if not lines and line.startswith(("    ", "\t")):
            continue  # code, by its indentation
        if not lines:
            begun = number
        lines.append(line)


def _sentences(block: str, line: int) -> Iterator[TextStatement]:
    at = 0
    for _, end in sentence_spans(block):
        if _BEGINS.match(block, end) or not block[end:].strip():
            begun = end - len(block[at:end].lstrip())
            yield TextStatement(" ".join(block[at:end].split()), line + block.count("\n", 0, begun))
            at = end


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
                yield JournalStatement(each, place, path, *lines, day, session, origin, whole)


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
