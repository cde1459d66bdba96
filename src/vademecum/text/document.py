"""Parse and edit the body of a record or journal: dated entries, oldest first, each with a signature.

An entry begins at a heading `## <time>` and may end with a line `<!-- origin: … -->`, its signature. In a
stored text, a line that looks like a heading or signature of this form gets a backslash before it, so that no
text can open, close or sign an entry. Text before the first dated heading is an undated entry: a parser never
drops content.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from vademecum.errors import InvalidText, Malformed, SecretFound, UsageError
from vademecum.fields import FIELDS
from vademecum.lazy import lazy_pattern
from vademecum.named_tuple import NamedTuple
from vademecum.text import clock, frontmatter, names, secrets
from vademecum.types import Entry, Origin, SecretPolicy, parse_origin

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime
    from typing import Any

    from vademecum.types import Record

_STAMP = r"\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?)?"
_HEADING = lazy_pattern(rf"(?:^|(?<=\A\ufeff))## ({_STAMP})[ \t]*\r?$", re.MULTILINE)
_TITLE = lazy_pattern(r"(?:[ \t]*\r?\n)*# +(\S[^\n]*)(?:\n|\Z)")
_ANY_HEADING = lazy_pattern(r"^#{1,6} ", re.MULTILINE)
_SIGNATURE = lazy_pattern(r"^<!-- (origin: [^\n]*?) -->[^\S\n]*$", re.MULTILINE)
# Lines with a meaning of their own, with any number of backslashes before them.
_MARKUP = lazy_pattern(rf"^(\\*)(?=## {_STAMP}[ \t]*\r?$|<!--[ \t]*/?(?:origin:|vade:))", re.MULTILINE)
_ESCAPED = lazy_pattern(rf"^\\(?=\\*(?:## {_STAMP}[ \t]*\r?$|<!--[ \t]*/?(?:origin:|vade:)))", re.MULTILINE)


LONGEST_TITLE = 10_000  # characters


class Section(NamedTuple):
    """The positions of an entry in its file: heading, text and signature."""

    start: int
    text_start: int
    text_end: int
    signature_end: int
    end: int
    time: str | None
    signed: str | None

    @property
    def live(self) -> bool:
        """Whether the entry is current, that is, not superseded by a later entry."""
        return self.signed is None or "superseded:" not in self.signed


class Document(NamedTuple):
    """A parsed file: frontmatter values, title and entries, with the positions needed to edit it."""

    source: str
    front: frontmatter.Front
    title: str | None
    sections: tuple[Section, ...]

    @property
    def entries(self) -> tuple[Entry, ...]:
        """The entries with their origin, state and lines, counted from 1."""
        entries = []
        line, position = 1, 0
        for section in self.sections:
            line += self.source.count("\n", position, section.start)
            position = section.start
            last = line + self.source.count("\n", section.start, section.signature_end)
            entries.append(self._entry(section, line, last))
        return tuple(entries)

    def text_of(self, section: Section) -> str:
        """Return the text of an entry without the backslashes that `escape` added."""
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
    """Parse a file; every character of its body belongs to the title or to an entry."""
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
    """Return the sections of a document that has headings without dates, each with its signed origin."""
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
    """Return a document with an entry added at the end; all else stays, except that a final
    newline is added.
    """
    newline = frontmatter.line_ending(text)
    if text and not text.endswith("\n"):
        text += newline
    gap = "" if not text or text.endswith((newline * 2, "---" + newline)) else newline
    return text + gap + _render(_identified(entry, text)).replace("\n", newline)


def insert(text: str, entry: Entry) -> str:
    """Return a document with an entry inserted before the first later entry, or else at the end."""
    moment = clock.parse(entry.time)
    for section in parse(text).sections if moment else ():
        other = clock.parse(section.time)
        if other is not None and moment is not None and other > moment:
            newline = frontmatter.line_ending(text)
            block = f"{_render(_identified(entry, text))}\n".replace("\n", newline)
            return text[: section.start] + block + text[section.start :]
    return append(text, entry)


def put_back(text: str, entry: Entry) -> str:
    """Return a document in which an earlier entry stands again: in the place of the entry that was made of it
    (the one with its id, else the only one with its time), or inserted.
    """
    parsed = parse(text)
    entries = parsed.entries
    same = [at for at, each in enumerate(entries) if entry.id is not None and each.id == entry.id]
    same = same or [at for at, each in enumerate(entries) if entry.time and each.time == entry.time]
    if len(same) != 1:
        return insert(text, entry)
    section = parsed.sections[same[0]]
    earlier = escape(entry.text).replace("\n", frontmatter.line_ending(text))
    kept = text[section.text_start : section.text_end]
    lead, trail = kept[: len(kept) - len(kept.lstrip())], kept[len(kept.rstrip()) :]
    return text[: section.text_start] + lead + earlier + trail + text[section.text_end :]


def record_id(content: bytes) -> str | None:
    """Return the id in the frontmatter of a record's file; None without one."""
    try:
        found = frontmatter.parse(decode(content)).values.get("id")
    except Malformed:
        return None
    return None if found is None else str(found)


def without_part(text: str, part: str) -> str:
    """Return a consolidation without the entries of one of the records that it replaced; all else stays."""
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
    """Return a document in which the signature of one entry has another origin or other marks.

    An empty `stale` or `contradicts` removes the mark of that name; None leaves it unchanged.
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
    """Return a text in the form in which it is saved: line feeds, no blank lines before, no white space after
    it.
    """
    return re.sub(r"\A(?:[ \t]*\n)+", "", re.sub(r"(?<!\r)\r+\n", "\n", text)).rstrip()


def escape(text: str) -> str:
    """Return a text with a backslash before every line that the parser would take for a heading
    or signature.
    """
    return _MARKUP.sub(r"\\\1", text)


def unescape(text: str) -> str:
    """Return a text without the backslashes that `escape` added."""
    return _ESCAPED.sub("", text)


def _sections(text: str, start: int, text_start: int, end: int, time: str | None) -> Iterator[Section]:
    """Yield the positions of an entry; text that a person typed below its signature is an undated entry."""
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
    """Return the positions of an entry, whose signature can only be its last line that is not blank."""
    stripped = text_start + len(text[text_start:end].rstrip())
    last = max(text.rfind("\n", text_start, stripped) + 1, text_start)
    signature = _SIGNATURE.match(text, last, end)
    if signature is None:
        return Section(start, text_start, stripped, max(stripped, start), end, time, None)
    return Section(start, text_start, last, stripped, end, time, signature[1])


def _identified(entry: Entry, text: str) -> Entry:
    """Return an entry with an id that no other entry of the text has: its own id or a new one."""
    mark = entry.id or names.new_mark()
    while f"id: {mark}" in text:
        mark = names.new_mark()
    return replace(entry, id=mark)


def shared_ids(entries: Iterable[Entry]) -> list[tuple[Entry, Entry]]:
    """Return the pairs of entries that have the same id, the earlier entry first."""
    first: dict[str, Entry] = {}
    pairs = ((first.setdefault(each.id, each), each) for each in entries if each.id)
    return [(earlier, each) for earlier, each in pairs if earlier is not each]


def without_shared_ids(text: str) -> str:
    """Return a text in which each id is unique: of entries with the same id only the first keeps it."""
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
    """Return a signature with one named part set to a value, or removed when the value is empty."""
    parts = [part for part in signed.split(" | ") if part.partition(":")[0].strip() != name]
    if not value:
        return " | ".join(parts)
    return " | ".join([f"{name}: {value}", *parts] if name == "origin" else [*parts, f"{name}: {value}"])


def _one_part(value: str) -> str:
    """Return a value without characters that would end its part of the signature, the signature
    or the line.
    """
    return " ".join(value.replace("|", "/").replace("-->", "->").split())


def _origin(signed: str | None) -> Origin | None:
    """Return the origin named in a signature, of several the least trusted; None when it names none."""
    pairs = (part.partition(":") for part in (signed or "").split("|"))
    named = [parse_origin(value.strip()) for name, _, value in pairs if name.strip() == "origin"]
    return max(named, key=lambda each: each.rank, default=None)


def signed_origin(line: str) -> Origin | None:
    """Return the origin in a line that is a signature; None for any other line."""
    found = _SIGNATURE.fullmatch(line)
    return _origin(found[1]) if found else None


def least_known(claimed: Origin | None) -> Origin:
    """Return the origin to assume for a text from a file: a member's origin as claimed, else external."""
    return claimed if claimed is not None and claimed.is_member else Origin.EXTERNAL


def _fields(signed: str | None) -> dict[str, str]:
    pairs = (part.split(":", 1) for part in (signed or "").split("|") if ":" in part)
    return {name.strip(): value.strip() for name, value in pairs}


def accept_text(text: str | bytes, *, largest: int) -> str:
    """Return a caller's text in the form in which it is saved; raise if it is empty, too long or not text."""
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
        raise InvalidText("the text is not UTF-8, for example Latin-1") from error
    if size > largest:
        raise InvalidText(
            f"the text is {size:,} bytes long; at most {largest:,} are kept in one entry",
            hint="attach the file's folder with `vade sources add`, or raise limits.content_bytes",
        )
    content = tidy(text.removeprefix("\ufeff"))
    if not content.strip():
        raise InvalidText("the text is empty")
    return content


def decode(content: bytes) -> str:
    """Return the text of a file's bytes; raise Malformed when they are not UTF-8."""
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        raise Malformed(f"not UTF-8 at byte {error.start}") from error
    if "\0" in text:
        raise Malformed("holds NUL bytes")
    return text


_LONGEST_TAG = 200


def check_document(text: str, *, largest: int) -> str:
    """Return a whole document unchanged; raise an error if it is too long or not valid text."""
    if text.strip():
        accept_text(text, largest=largest)
    return text


def check_record(before: str, after: Record, *, largest: int) -> None:
    """Raise an error if an edited record has no text left, an invalid text or field, or a changed fixed
    field.
    """
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
    for field in FIELDS:
        name, value = field.name, after.fields.get(field.name)
        if value == values.get(name):
            continue
        if field.fixed:  # by these a record is known to the archive, the audit and every link to it
            raise UsageError(f"the {name} of {after.key} cannot be changed", hint=f"keep its line `{name}:`")
        why = field.check(value)
        if why:
            raise UsageError(why, hint=f"correct or remove its line `{name}:`")


def rewrite(raw: str, text: str, *, at: datetime) -> str:
    """Return the text of a record's file after a person changed its current text to `text`.

    A change inside one entry is made in that entry. When a change reaches over several entries, the first of
    them gets the new text and the others are marked superseded.
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


def change(raw: str, *, fields: Mapping[str, Any], texts: Mapping[int, str]) -> str:
    """Return the text of a record's file with other values of its fields, and other texts of its entries.

    `texts` has the new texts by the index of the entry.
    """
    for index, text in texts.items():
        raw = _put(parse(raw), index, text)
    return frontmatter.edit(raw, fields) if fields else raw


def _put(parsed: Document, index: int, text: str) -> str:
    section = parsed.sections[index]
    was = parsed.source[section.text_start : section.text_end]
    lead, tail = len(was) - len(was.lstrip("\r\n")), len(was.rstrip("\r\n"))
    words = escape(tidy(text))
    return f"{parsed.source[: section.text_start + lead]}{words}{parsed.source[section.text_start + tail :]}"


def clean_tags(given: Iterable[str], policy: SecretPolicy) -> tuple[str, ...]:
    """Return tags cleaned and without repetitions; raise for an invalid tag.

    A tag with a secret is invalid too, unless the policy is to warn.
    """
    cleaned = [accept_text(tag, largest=_LONGEST_TAG) for tag in given]
    for tag in cleaned:
        if "\n" in tag or "," in tag:
            raise UsageError(f"the tag {names.shown(tag)} must be one line without commas")
        if policy is not SecretPolicy.WARN and secrets.find(tag):
            raise SecretFound("a tag contains a secret")
    return tuple(dict.fromkeys(cleaned))
