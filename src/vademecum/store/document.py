"""The body of a record or journal: dated entries, oldest first; and what counts as a text in it.

An entry begins at a heading `## <time>` and may end with a line `<!-- origin: … -->`. Text that looks like
either is written with a backslash before it, so that nothing a caller stores can open, close or sign an
entry. Whatever stands before the first dated heading is an undated entry: a parser never drops content.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from vademecum.errors import InvalidText, Malformed, SecretFound, UsageError
from vademecum.store import frontmatter
from vademecum.text import clock, names, secrets
from vademecum.types import Entry, Origin, SecretPolicy, parse_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from datetime import datetime

    from vademecum.types import Record

_STAMP = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_HEADING = re.compile(rf"(?:^|(?<=\A\ufeff))## ({_STAMP})[ \t]*\r?$", re.MULTILINE)
_TITLE = re.compile(r"(?:[ \t]*\r?\n)*# +(\S[^\n]*)(?:\n|\Z)")
_ANY_HEADING = re.compile(r"^#{1,6} ", re.MULTILINE)
_SIGNATURE = re.compile(r"^<!-- (origin: [^\n]*?) -->[^\S\n]*$", re.MULTILINE)
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

    @property
    def live(self) -> bool:
        """Whether no later entry has taken this one's place."""
        return self.signed is None or "superseded:" not in self.signed


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
        part = _fields(section.signed).get("of")
        if part and raw.startswith(f"### {part}\n"):  # a heading that `_render` put there
            raw = raw.partition("\n")[2]
        return unescape(raw).strip("\n")

    def _entry(self, section: Section, start: int, end: int) -> Entry:
        signed = _fields(section.signed)
        return Entry(
            text=self.text_of(section),
            time=section.time,
            origin=_origin(section.signed),
            superseded=signed.get("superseded"),
            start=start,
            end=end,
            cites=signed.get("cites"),
            stale=signed.get("stale"),
            part=signed.get("of"),
            contradicts=signed.get("contradicts"),
            id=signed.get("id"),
        )


def parse(text: str) -> Document:
    """Read a file; every character of its body belongs to the title or to some entry."""
    front = frontmatter.parse(text)
    headings = list(_HEADING.finditer(text, front.body))
    first = headings[0].start() if headings else len(text)
    title = _TITLE.match(text, front.body, first)
    sections: list[Section] = []
    opening = title.end() if title else front.body
    if text[opening:first].strip():
        skipped = len(text[opening:first]) - len(text[opening:first].lstrip("\r\n"))
        sections += _sections(text, opening + skipped, opening + skipped, first, None)
    for number, heading in enumerate(headings):
        end = headings[number + 1].start() if number + 1 < len(headings) else len(text)
        body = min(heading.end() + 1, end)
        sections += _sections(text, heading.start(), body, end, heading[1])
    return Document(text, front, title[1].strip() if title else None, tuple(sections))


def blocks(text: str) -> list[Entry]:
    """The parts of a document that has headings but no dates, each with the origin its last line gives it."""
    front = frontmatter.parse(text)
    starts = [match.start() for match in _ANY_HEADING.finditer(text, front.body)]
    if not starts or text[front.body : starts[0]].strip():
        starts.insert(0, front.body)
    found = []
    for start, end in zip(starts, [*starts[1:], len(text)], strict=True):
        section = _section(text, start, start, end, None)
        line = text.count("\n", 0, start) + 1
        inner = unescape(text[section.text_start : section.text_end].replace("\r\n", "\n")).strip("\n")
        if inner.strip():
            last = line + text.count("\n", start, section.signature_end)
            signed = _fields(section.signed)
            versions = {"contradicts": signed.get("contradicts"), "id": signed.get("id")}
            found.append(Entry(inner, None, _origin(section.signed), None, line, last, **versions))
    return found


def append(text: str, entry: Entry) -> str:
    """Add an entry at the end; what is there stays byte for byte, but for a missing final newline."""
    newline = frontmatter.line_ending(text)
    if text and not text.endswith("\n"):
        text += newline
    gap = "" if not text or text.endswith((newline * 2, "---" + newline)) else newline
    return text + gap + _render(_identified(entry, text)).replace("\n", newline)


def insert(text: str, entry: Entry) -> str:
    """Put an entry where its time belongs, before the first later one; all else stays byte for byte."""
    moment = clock.parse(entry.time)
    for section in parse(text).sections if moment else ():
        other = clock.parse(section.time)
        if other is not None and moment is not None and other > moment:
            newline = frontmatter.line_ending(text)
            block = f"{_render(_identified(entry, text))}\n".replace("\n", newline)
            return text[: section.start] + block + text[section.start :]
    return append(text, entry)


def without_part(text: str, part: str) -> str:
    """A consolidation without the entries of one of its parts; every other byte stays."""
    parsed = parse(text)
    for section, entry in reversed([*zip(parsed.sections, parsed.entries, strict=True)]):
        if entry.part == part:
            text = text[: section.start] + text[section.end :]
    return text


def sign(
    document: Document,
    index: int,
    *,
    origin: Origin | None = None,
    superseded: str | None = None,
    stale: str | None = None,
    contradicts: str | None = None,
) -> str:
    """Write an entry's signature anew, with another origin or a mark, and return the text.

    An empty `stale` or `contradicts` takes that mark away.
    """
    section = document.sections[index]
    signed = section.signed or f"origin: {Origin.USER}"
    if origin is not None:
        signed = _with(signed, "origin", str(origin))
    if superseded is not None:
        signed = _with(signed, "superseded", superseded)
    if stale is not None:
        signed = _with(signed, "stale", _one_part(stale))
    if contradicts is not None:
        signed = _with(signed, "contradicts", _one_part(contradicts))
    before, newline = document.source[: section.text_end], frontmatter.line_ending(document.source)
    if section.signed is not None:
        return f"{before}<!-- {signed} -->{document.source[section.signature_end :]}"
    rest = document.source[section.text_end :]
    lead = "" if before.endswith("\n") else newline
    # Only white space may follow on the line of a signature: an entry without text has a heading there.
    trail = "" if rest and not rest.split("\n", 1)[0].strip() else newline
    return f"{before}{lead}<!-- {signed} -->{trail}{rest}"


def tidy(text: str) -> str:
    """A text as it is kept: line feeds, no blank lines before it, no white space after it."""
    return re.sub(r"\A(?:[ \t]*\n)+", "", re.sub(r"(?<!\r)\r+\n", "\n", text)).rstrip()


def escape(text: str) -> str:
    """Put a backslash before every line that would mean something to the parser."""
    return _MARKUP.sub(r"\\\1", text)


def unescape(text: str) -> str:
    """Take away the backslashes that `escape` put there."""
    return _ESCAPED.sub("", text)


def _sections(text: str, start: int, text_start: int, end: int, time: str | None) -> Iterator[Section]:
    """One entry, and whatever a person typed below its signature as an undated entry of its own."""
    while True:
        signature = _SIGNATURE.search(text, text_start, end)
        if signature is None or not text[signature.end() : end].strip():
            yield _section(text, start, text_start, end, time)
            return
        below = text.find("\n", signature.end(), end) + 1
        yield Section(start, text_start, signature.start(), signature.end(), below, time, signature[1])
        while text[below : below + 1] in ("\n", "\r"):
            below += 1
        start, text_start, time = below, below, None


def _section(text: str, start: int, text_start: int, end: int, time: str | None) -> Section:
    """Find an entry's signature: the last line of it that is not blank."""
    stripped = text_start + len(text[text_start:end].rstrip())
    last = max(text.rfind("\n", text_start, stripped) + 1, text_start)
    signature = _SIGNATURE.match(text, last, end)
    if signature is None:
        return Section(start, text_start, stripped, max(stripped, start), end, time, None)
    return Section(start, text_start, last, stripped, end, time, signature[1])


def _identified(entry: Entry, text: str) -> Entry:
    """The entry with an id that no other entry of this text has: its own if it can be, else a new one."""
    mark = entry.id or names.new_mark()
    while f"id: {mark}" in text:
        mark = names.new_mark()
    return replace(entry, id=mark)


def shared_ids(entries: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """Entries that have the id of an earlier one in their document, each with that one."""
    first: dict[str, Entry] = {}
    pairs = ((first.setdefault(each.id, each), each) for each in entries if each.id)
    return [(earlier, each) for earlier, each in pairs if earlier is not each]


def without_shared_ids(text: str) -> str:
    """A text in which each id is one entry's: of several with the same one the first keeps it."""
    parsed = parse(text)
    first: set[str] = set()
    doubled = []
    for section in parsed.sections:
        mark = _fields(section.signed).get("id")
        if mark and mark in first:
            doubled.append(section)
        first.add(mark or "")
    for section in reversed(doubled):  # from the end, so that earlier places stay
        signed = _with(section.signed or "", "id", "")
        text = f"{text[: section.text_end]}<!-- {signed} -->{text[section.signature_end :]}"
    return text


def _render(entry: Entry) -> str:
    signed = f"origin: {entry.origin or Origin.USER}"
    if entry.id:
        signed = _with(signed, "id", entry.id)
    if entry.superseded is not None:
        signed = _with(signed, "superseded", entry.superseded)
    marks = (("contradicts", entry.contradicts), ("cites", entry.cites), ("stale", entry.stale))
    for name, value in (*marks, ("of", entry.part)):
        if value:
            signed = _with(signed, name, _one_part(value))
    heading = f"### {_one_part(entry.part)}\n\n" if entry.part else ""
    return f"## {entry.time}\n{heading}{escape(entry.text)}\n<!-- {signed} -->\n"


def _with(signed: str, name: str, value: str) -> str:
    """A signature with one part set, and every other part as it was."""
    parts = [part for part in signed.split(" | ") if part.partition(":")[0].strip() != name]
    if not value:
        return " | ".join(parts)
    return " | ".join([f"{name}: {value}", *parts] if name == "origin" else [*parts, f"{name}: {value}"])


def _one_part(value: str) -> str:
    """A value that cannot end its part, the signature or the line."""
    return " ".join(value.replace("|", "/").replace("-->", "->").split())


def _origin(signed: str | None) -> Origin | None:
    """Whose text it is by its signature, the least trusted of several; None when nobody signed it."""
    pairs = (part.partition(":") for part in (signed or "").split("|"))
    named = [parse_origin(value.strip()) for name, _, value in pairs if name.strip() == "origin"]
    return max(named, key=lambda each: each.rank, default=None)


def signed_origin(line: str) -> Origin | None:
    """Whose text a line signs; None when it is no signature."""
    found = _SIGNATURE.fullmatch(line)
    return _origin(found[1]) if found else None


def least_known(claimed: Origin | None) -> Origin:
    """The origin of a text of which a file alone speaks: that another member wrote it is no boast."""
    return claimed if claimed is not None and claimed.is_member else Origin.EXTERNAL


def _fields(signed: str | None) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in (signed or "").split("|") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


def accept_text(text: str | bytes, *, largest: int) -> str:
    """A caller's text as it will be kept; refused when empty, too long or not text."""
    if isinstance(text, bytes):
        try:
            text = text.decode()
        except UnicodeDecodeError as error:
            raise InvalidText(f"the text is not UTF-8 (byte {error.start})") from error
    if not isinstance(text, str):
        raise InvalidText(f"text must be a string, not {type(text).__name__}")
    if "\0" in text:
        raise InvalidText("the text contains a NUL byte")
    try:
        size = len(text.encode())
    except UnicodeEncodeError as error:
        raise InvalidText("the text contains half a surrogate pair, which UTF-8 cannot encode") from error
    if size > largest:
        raise InvalidText(
            f"the text is {size:,} bytes long; at most {largest:,} are kept in one entry",
            hint="attach the file's folder with `vade sources add`, or raise limits.content_bytes",
        )
    kept = tidy(text.removeprefix("\ufeff"))
    if not kept.strip():
        raise InvalidText("the text is empty")
    return kept


def decode(content: bytes) -> str:
    """The text of a file; anything but UTF-8 is malformed."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from error
    if "\0" in text:
        raise Malformed("holds NUL bytes")
    return text


_LONGEST_TAG = 200
# By these a record is known to others: to the archive, the audit and every link to it.
_FIXED = ("id", "num", "key")


def check_document(text: str, *, largest: int) -> str:
    """Return a whole document if it could be read again; an empty one could."""
    if text.strip():
        accept_text(text, largest=largest)
    return text


def check_record(before: str, after: Record, *, largest: int) -> None:
    """Refuse a record that lost its identity, its type or all its text; one that was broken had none."""
    try:
        old = parse(before)
    except Malformed:
        old = None
    if not any(entry.text.strip() for entry in after.entries):
        raise InvalidText("no entry with text is left", hint="to archive the record, run `vade forget`")
    known = {entry.text for entry in old.entries} if old else set()
    for entry in after.entries:
        if entry.text.strip() and entry.text not in known:
            accept_text(entry.text, largest=largest)
    if old is None:
        return
    values, kind = old.front.values, after.fields.get("type")
    if kind is not None and kind != values.get("type"):
        names.parse_type(str(kind))
    for name in _FIXED:
        if after.fields.get(name) != values.get(name):
            raise UsageError(f"the {name} of {after.key} cannot be changed", hint=f"keep its line `{name}:`")


def rewrite(raw: str, text: str, *, at: datetime) -> str:
    """A record's file in which `text` is what holds now.

    A change inside one entry is made there. One that reaches over several becomes the first of them, and the
    others are marked superseded.
    """
    parsed = parse(raw)
    alive = [index for index, section in enumerate(parsed.sections) if section.live]
    alive = alive or [len(parsed.sections) - 1]
    living = [parsed.text_of(parsed.sections[index]) for index in alive]
    for place, index in enumerate(alive):
        before = "".join(f"{each}\n\n" for each in living[:place])
        after = "".join(f"\n\n{each}" for each in living[place + 1 :])
        inner = text[len(before) : len(text) - len(after)]
        if text == f"{before}{inner}{after}" and inner.strip():
            return _put(parsed, index, inner)
    for index in alive[1:]:
        raw = sign(parse(raw), index, superseded=clock.stamp(at))
    return _put(parse(raw), alive[0], text)


def _put(parsed: Document, index: int, text: str) -> str:
    section = parsed.sections[index]
    was = parsed.source[section.text_start : section.text_end]
    lead, tail = len(was) - len(was.lstrip("\r\n")), len(was.rstrip("\r\n"))
    words = escape(tidy(text))
    return f"{parsed.source[: section.text_start + lead]}{words}{parsed.source[section.text_start + tail :]}"


def clean_tags(given: Iterable[str], policy: SecretPolicy) -> tuple[str, ...]:
    """Tags, cleaned and each once."""
    cleaned = [accept_text(tag, largest=_LONGEST_TAG) for tag in given]
    for tag in cleaned:
        if "\n" in tag or "," in tag:
            raise UsageError(f"the tag {names.shown(tag)} must be one line without commas")
        if policy is not SecretPolicy.WARN and secrets.find(tag):
            raise SecretFound("a tag contains a secret")
    return tuple(dict.fromkeys(cleaned))
