"""What a text says: its exact facts, its statements and whether they hold now, and a journal's.

No model has a say in it. Whatever stands in code or in a quotation is nobody's statement; what speaks of the
past, of a plan, of a condition or of an example says nothing of how things are; what is generated is left out
of a journal: summaries, injected memory, code, logs, and an assistant's own words in a session's note.
Two living entries that cannot both be true are found by rules: another value, a changed number, a negation.
A rule speaks only where it is sure: the same subject, said of in the same words, with values of which one
excludes the other. What a model thinks of a pair may be asked for besides; it finds nothing by itself.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import Malformed, OutsideMemory
from vademecum.knowledge import signals
from vademecum.knowledge.statements import first_line
from vademecum.lifecycle.passes import Proposal
from vademecum.llm.base import read_prompt
from vademecum.store import archive, clock, document, secrets
from vademecum.store.document import decode
from vademecum.store.journal import is_day
from vademecum.store.merge import is_consolidation, may_supersede
from vademecum.text import LETTERS, SPOKEN, WORD, fences, sentence_spans, similarity, split_sentences
from vademecum.types import Finding, Origin

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from datetime import datetime

    from vademecum.lifecycle.passes import SeenRecord
    from vademecum.llm.base import Limits, Model
    from vademecum.store import Edit, Journal
    from vademecum.types import Entry, Place

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
_HEADING_TEXT = re.compile(r"(?m)^#{1,6}[ \t]+(.+?)[ \t#]*$")
_CLAUSE = re.compile(r"(?<=;)\s+")
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


def find_headings(text: str) -> frozenset[str]:
    """The headings of a text, outside of code."""
    return frozenset(match.strip().casefold() for match in _HEADING_TEXT.findall(_without_code(text)))


def find_turned(before: str, after: str) -> frozenset[str]:
    """The facts of which one text says yes and the other only no: `use make` and `never use make`.

    Those that a text both affirms and denies are left out: which of the two holds is not to be seen here.
    """
    was, now = _moods(before), _moods(after)
    return frozenset(
        fact
        for fact, moods in now.items()
        if len(moods) == 1 and len(was.get(fact, ())) == 1 and moods != was[fact]
    )


def find_stems(text: str) -> frozenset[str]:
    """The beginnings of the longer words, which stay when a sentence is worded anew."""
    words = (word for word in LETTERS.findall(text) if len(word) >= _LONG and word[0] < _LETTERS_END)
    return frozenset(word[:_STEM].casefold() for word in words)


def split_clauses(text: str) -> list[str]:
    """The sentences and clauses of a text, code aside."""
    clauses = _CLAUSE.split(fences.remove(text))
    return [each for clause in clauses for each in split_sentences(clause, lines=True)]


def _moods(text: str) -> dict[str, set[bool]]:
    """The facts of each sentence, and whether that sentence has a word of denial."""
    found: dict[str, set[bool]] = {}
    for sentence in split_clauses(text):
        words = SPOKEN.findall(_without_code(sentence).lower())
        denied = any(similarity.is_negation(word.replace("'", "").replace("’", "")) for word in words)
        for fact in find_facts(sentence):
            found.setdefault(fact, set()).add(denied)
    return found


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


# ------------------------------------------------------------ contradictions

CONTRADICTION = "contradiction"
MOST_CLASHES = 200  # the newest pairs of one run
_CROWD = 40  # statements about one thing that are held against each other, the newest
_QUOTED = 100
_LONGEST = 400  # characters of a statement that a rule understands

_TOKEN = re.compile(r"`[^`]+`|[a-z]+://\S+|[$€£]?\d[\w.,:%/-]*\w%?|\d%?|\w[\w./@+'’-]*\w|\w|[=:]")
_NUMBER = re.compile(r"[$€£]?v?\d[\d.,:_]*(?:%|[a-z]{1,3})?")
_DATE = re.compile(r"\b\d{4}-\d\d(?:-\d\d)?\b")
_DAYS = frozenset("monday tuesday wednesday thursday friday saturday sunday".split())
# States of which one excludes the others.
_OPPOSITES = (
    {"enabled", "disabled"},
    {"on", "off"},
    {"true", "false"},
    {"required", "mandatory", "optional"},
    {"allowed", "forbidden", "prohibited"},
    {"public", "private"},
    {"supported", "unsupported"},
    {"synchronous", "asynchronous"},
)
_STATES = {word: f"<state {at}>" for at, group in enumerate(_OPPOSITES) for word in group}
_FILLERS = frozenset(
    """the a an our my your its their this that these those always currently now please just really also
    still here strictly do does be to of""".split()
)
_PRONOUNS = frozenset("it this that they there he she we i you one which what who".split())
_NEGATORS = frozenset("not never no n't cannot without".split())
_VERBS = frozenset(
    """is has have use run listen default expire take allow require must should deploy cost keep stay live
    start end close open need support return last happen release meet wait retry limit prefer target store
    accept set""".split()
)
# Words that name a kind of value, and not whose value it is.
_GENERIC = frozenset(
    """default port timeout limit version size max min name path url host maximum minimum value number count
    current main new server service file folder branch key table config configuration setting test build
    status state type mode level interval database address user owner deadline total""".split()
)


class SaidEntry(NamedTuple):
    """One statement, and the entry that makes it."""

    seen: SeenRecord
    entry: Entry
    text: str
    line: int  # of the file, from 1
    share: float  # how much of its entry it is

    @property
    def where(self) -> str:
        """The line as shown."""
        return f"{self.seen.record.path}#L{self.line}"

    @property
    def quoted(self) -> str:
        """What it says, short and without secrets."""
        text = secrets.redact(self.text, secrets.find(self.text))
        return text if len(text) <= _QUOTED else text[: _QUOTED - 1] + "…"


class Clash(NamedTuple):
    """Two statements that cannot both be true, the older one first, and the rule that says so."""

    older: SaidEntry
    newer: SaidEntry
    rule: str

    @property
    def why(self) -> str:
        """One sentence for a person."""
        when = f" of {self.newer.entry.time[:10]}" if self.newer.entry.time else ""
        return f"“{self.older.quoted}” and “{self.newer.quoted}”{when} in {self.newer.where}: {self.rule}"


class _Reading(NamedTuple):
    """What a rule makes of a statement: whatever has the same key and another value contradicts it."""

    key: tuple[str, ...]
    value: tuple[str, ...]
    rule: str
    across: bool  # whether it also speaks for another record


# -------------------------------------------------------------------- finding


def find_clashes(seen: Iterable[SeenRecord]) -> list[Clash]:
    """All pairs of living entries of one place that contradict each other, the newest first."""
    buckets: dict[tuple[object, ...], dict[tuple[str, ...], list[tuple[_Reading, SaidEntry]]]] = {}
    for each in seen:
        if is_consolidation(each.record):
            continue  # it repeats what others said
        for said in _said(each):
            for reading in _readings(said.text):
                bucket = buckets.setdefault((each.record.place, reading.key), {})
                bucket.setdefault(reading.value, []).append((reading, said))
    found: dict[tuple[object, ...], Clash] = {}
    for bucket in buckets.values():
        if len(bucket) > 1:
            for clash in _pairs(bucket):
                both = sorted((_entry_key(clash.older), _entry_key(clash.newer)))
                found.setdefault(tuple(both), clash)
    order = sorted(found.values(), key=lambda clash: (clash.older.where, clash.newer.where))
    return sorted(order, key=lambda clash: clash.newer.entry.time or "", reverse=True)


def _pairs(bucket: dict[tuple[str, ...], list[tuple[_Reading, SaidEntry]]]) -> Iterator[Clash]:
    values: dict[tuple[object, ...], set[tuple[str, ...]]] = {}
    for value, listed in bucket.items():
        for _, said in listed:
            values.setdefault(_entry_key(said), set()).add(value)
    # An entry that gives two values itself speaks of two things.
    sure = [
        (value, reading, said)
        for value, listed in bucket.items()
        for reading, said in listed
        if len(values[_entry_key(said)]) == 1
    ]
    sure = sorted(sure, key=lambda each: _age(each[2]))[-_CROWD:]
    for at, (value, reading, said) in enumerate(sure):
        for other_value, other, also in sure[at + 1 :]:
            if value != other_value and _comparable(reading, said, other, also):
                first, second = sorted((said, also), key=_age)
                yield Clash(first, second, reading.rule)


def _comparable(reading: _Reading, said: SaidEntry, other: _Reading, also: SaidEntry) -> bool:
    if said.seen.record.path == also.seen.record.path:
        return _entry_key(said) != _entry_key(also)
    if not (reading.across and other.across):
        return False
    tags = {tag for tag in said.seen.record.tags if not tag.startswith("_")}
    shared = tags & set(also.seen.record.tags) or _topic(said) & _topic(also)
    return bool(shared) or len(set(reading.key) - _GENERIC - _VERBS - _FILLERS) >= 4


def _topic(said: SaidEntry) -> set[str]:
    return {word for word in said.seen.record.key.split("-") if len(word) > 3} - _GENERIC


def _entry_key(said: SaidEntry) -> tuple[str, int]:
    return said.seen.record.path, said.entry.start


def _age(said: SaidEntry) -> tuple[float, str, int]:
    moment = clock.parse(said.entry.time)
    return moment.timestamp() if moment else 0.0, said.seen.record.path, said.entry.start


def _said(seen: SeenRecord) -> Iterator[SaidEntry]:
    lines: list[str] | None = None
    for entry in seen.record.live:
        found = split_statements(entry.text)
        for each in found:
            if each.present and len(each.text) <= _LONGEST and not _DATE.search(each.text):
                lines = decode(seen.content).split("\n") if lines is None else lines
                line = min(first_line(lines, entry) + each.line, entry.end)
                yield SaidEntry(seen, entry, each.text, line, 1 / len(found))


# -------------------------------------------------------------------- one statement


def _readings(text: str) -> Iterator[_Reading]:
    """What the rules make of a statement."""
    tokens = _tokens(text)
    if not 2 <= len(tokens) <= 40:
        return
    positive = [token for token in tokens if token not in _NEGATORS]
    denied = (len(tokens) - len(positive)) % 2 == 1
    content = [token for token in positive if token not in _FILLERS | {"must", "should", "can"}]
    telling = [token for token in content if token not in _PRONOUNS and token != "is"]
    if len(telling) >= 2:
        key = ("says", *content)
        yield _Reading(key, ("not",) if denied else (), "one denies the other", len(telling) >= 3)
    if len(content) >= 2 and content[0] in _VERBS and content[0] != "is":
        # “Do not use X” also denies “use X for Y”; “use X” says nothing against “do not use X for Y”.
        if not denied:
            yield _Reading(("may", *content[:2]), (), "one forbids what the other asks for", False)
        elif len(content) == 2:
            yield _Reading(("may", *content), ("not",), "one forbids what the other asks for", False)
    if not denied:
        yield from _valued(content)


def _valued(content: list[str]) -> Iterator[_Reading]:
    """A subject, a verb, and values that exclude others."""
    at = next((at for at, token in enumerate(content) if token in _VERBS), None)
    if at is None:
        return
    subject, verb, value = content[:at], content[at], content[at + 1 :]
    if not value or (verb == "is" and _PRONOUNS.issuperset(subject)):
        return
    own = [token for token in subject if token not in _PRONOUNS]
    across = len(own) >= 2 and not _GENERIC.issuperset(own)
    kinds = [_kind(token, last=n == len(value) - 1) for n, token in enumerate(value)]
    if any(kinds):
        key, given = _masked(value, kinds)
        yield _Reading(("value", *subject, verb, *key), given, "the same, with another value", across)
    elif verb == "is" and len(value) == 1 and _is_name(value[0]) and own == subject:
        yield _Reading(("name", *subject), (value[0],), "the same, with another value", across)
    elif verb == "use" and len(value) >= 3 and value[1] == "for" and not subject_of_many(subject):
        yield _Reading(("use", *subject, *value[2:]), (value[0],), "another choice for the same", False)


def _masked(value: list[str], kinds: Sequence[str]) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """What is said with its values left open, and the values."""
    pairs = list(zip(kinds, value, strict=True))
    return tuple(kind or token for kind, token in pairs), tuple(
        _plain_token(token) for kind, token in pairs if kind
    )


def subject_of_many(subject: Sequence[str]) -> bool:
    """Whether more than one thing may be used: `you can use`, `some use`."""
    return not _PRONOUNS.issuperset(subject) or "can" in subject


def _tokens(text: str) -> list[str]:
    """The words of a statement in their plainest form, values as they stand."""
    text = text.replace("’", "'").replace("**", "").replace("__", "")
    text = re.sub(r"(?i)\bcannot\b", "can not", text)
    text = re.sub(r"(?i)n't\b", " not", text)
    text = re.sub(r"(?i)\bno longer\b", "not", text)
    text = re.sub(r"(?i)\bavoid(?: using| use of)?\b", "not use", text)
    text = re.sub(r"(?i)\b(?:is|are) (?:now )?(?:set to|configured as)\b", "is", text)
    found = []
    for number, match in enumerate(_TOKEN.finditer(text)):
        token = match[0].rstrip(".,:;") if len(match[0]) > 1 else match[0]
        if token.startswith("`") or "://" in token:
            found.append(token)
            continue
        lower = token.lower()
        if lower in _FILLERS:
            continue
        # A capital inside a sentence is a name; at its beginning it may be anything.
        name = number > 0 and _looks_named(token)
        word = token if name else _stem(lower)
        if lower in ("=", ":", "are", "equals"):
            word = "is"
        found.append(word)
    return found


def _stem(word: str) -> str:
    if word in _STATES or len(word) <= 3 or not word.endswith("s") or word.endswith(("ss", "us", "is")):
        return word
    return word[:-1]


def _looks_named(token: str) -> bool:
    return token[:1].isupper() or bool(re.search(r"[a-z][A-Z]|\w[_/]\w|\w\.[a-z]", token))


def _is_name(token: str) -> bool:
    return token.startswith("`") or "://" in token or _looks_named(token)


def _kind(token: str, *, last: bool) -> str:
    """The kind of value of which a thing has one; empty for whatever else."""
    lower = token.lower()
    if _NUMBER.fullmatch(lower):
        return "<number>"
    if lower.removesuffix("s") in _DAYS:
        return "<day>"
    if lower in _STATES and (last or lower not in ("on", "off")):
        return _STATES[lower]
    return ""


def _plain_token(token: str) -> str:
    """A value as it is compared."""
    lower = token.lower()
    if _NUMBER.fullmatch(lower):
        lower = lower.replace(",", "").replace("_", "").removeprefix("v")
        return lower.rstrip("0").rstrip(".") if re.fullmatch(r"\d+\.\d+", lower) else lower
    return lower.removesuffix("s") if lower.removesuffix("s") in _DAYS else lower


# -------------------------------------------------------------------- mending


@dataclass(frozen=True, slots=True)
class Contradictions:
    """The pass: the older entry is marked superseded by the newer, where that needs no person."""

    verified: Callable[[Entry], bool] = lambda entry: False
    name: str = CONTRADICTION

    def propose(self, seen: Sequence[SeenRecord], *, now: datetime) -> Iterator[Proposal]:
        """Mark what a newer entry, trusted no less, says otherwise; both texts stay."""
        marks: dict[str, dict[int, Clash]] = {}
        files: dict[str, SeenRecord] = {}
        for clash in find_clashes(seen)[:MOST_CLASHES]:
            if needs_person(clash, self.verified):
                continue
            path = clash.older.seen.record.path
            files[path] = clash.older.seen
            chosen = marks.setdefault(path, {})
            known = chosen.get(clash.older.entry.start)
            if known is None or _age(clash.newer) < _age(known.newer):
                chosen[clash.older.entry.start] = clash
        for path, chosen in sorted(marks.items()):
            text = decode(files[path].content)
            for index, entry in enumerate(files[path].record.entries):
                mark = chosen.get(entry.start)
                if mark is not None:
                    parsed = document.parse(text)
                    signed = parsed.sections[index].signed is not None
                    text = document.sign(
                        parsed,
                        index,
                        origin=None if signed else entry.origin,
                        superseded=mark.newer.entry.time,
                    )
            first = min(chosen.values(), key=lambda clash: clash.older.line)
            more = f"; and {len(chosen) - 1} more" if len(chosen) > 1 else ""
            why = f"“{first.older.quoted}” gives way to “{first.newer.quoted}” in {first.newer.where}{more}"
            place = files[path].record.place
            yield Proposal(self.name, first.older.where, why, (files[path].revised(text),), place)


def settle_clash(clash: Clash, *, at: str) -> Edit:
    """The edit by which a person lets the newer statement hold: the older entry is marked superseded."""
    seen = clash.older.seen
    parsed = document.parse(decode(seen.content))
    index = next(n for n, entry in enumerate(seen.record.entries) if entry.start == clash.older.entry.start)
    signed = parsed.sections[index].signed is not None
    origin = None if signed else clash.older.entry.origin
    return seen.revised(document.sign(parsed, index, origin=origin, superseded=clash.newer.entry.time or at))


def needs_person(clash: Clash, verified: Callable[[Entry], bool] = lambda entry: False) -> str:
    """Why this contradiction is left to a person; empty when it is not."""
    older, newer = clash.older, clash.newer
    if not (older.seen.shelf.trusted and newer.seen.shelf.trusted):
        return "its folder is not trusted"
    # In one record entries follow each other; across records only the time tells.
    together = older.seen.record.path == newer.seen.record.path
    same_time = _age(older)[0] == _age(newer)[0] and not together
    if older.entry.time is None or newer.entry.time is None or same_time:
        return "nothing says which of them is newer"
    if verified(older.entry) and not verified(newer.entry):
        return "a person has verified the older one"
    if not may_supersede(older.seen.record, older.entry, origin=newer.entry.origin or Origin.USER):
        return "the older one is trusted more, or protected"
    if older.share < 0.5:
        return "the older entry says much more than this"
    return ""


# -------------------------------------------------------------------- a second opinion


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a model is asked for."""

    contradicts: bool
    why: str = ""


def ask_opinion(clash: Clash, model: Model, *, limits: Limits | None = None) -> bool:
    """Whether a model sees the contradiction too; raises a ModelFailed when it gives no verdict."""
    shown = "\n".join(
        f"STATEMENT {when or 'undated'}\n{secrets.redact(text, secrets.find(text))}\nEND"
        for when, text in (
            (clash.older.entry.time, clash.older.text),
            (clash.newer.entry.time, clash.newer.text),
        )
    )
    return model.typed(
        shown, Verdict, system=read_prompt(__package__, "contradiction"), limits=limits
    ).value.contradicts
